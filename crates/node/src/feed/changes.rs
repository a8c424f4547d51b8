//! What has changed in a shard above a time? The question of a feed, and the leader's answer.
//!
//! ```text
//!   Live: above T ──► the log goes back to T?  yes ─► changes in (T, R] in order, and R
//!                                              no  ─► NotKept: walk the store up to R first
//!   Walk: (T, R], cursor ─► changes in any order, and where to go on
//! ```
//! A single key needs no log: its versions are at hand.
//!
//! **Compaction.** Who wants only the newest change of each key, of those at or below a time, names
//! that time. A leader leaves out each change behind which it has another by then. It knows when
//! all is resolved up to that time, and answers nothing before.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of one answer | [`CHANGES_BYTES_MAX`], and the rest of a commit | asked again |
//! | keys that one piece of a walk looks at | [`WALK_KEYS`] | asked again |

use std::collections::BTreeMap;
use std::ops::Bound;

use keyspace::Timestamp;
use storage::engine::{ChangesCursor, KeyChange, MemoryEngine};

use super::log::ChangeLog;
use crate::replica::state::ShardState;
use crate::routing::fetch::{Ends, FetchResult};

/// Bytes of changes beyond which an answer is cut, between two commits.
pub const CHANGES_BYTES_MAX: usize = 512 << 10;
/// Keys that one piece of a walk looks at under one hold of the guard.
pub const WALK_KEYS: usize = 8192;
/// What a change takes beside its bytes, about.
pub const CHANGE_BYTES: usize = 64;

/// Which keys a feed is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyFilter {
    /// All.
    #[default]
    All,
    /// This.
    One(Box<[u8]>),
    /// Those between two bounds, by their bytes, whatever the placement.
    Range(Bound<Box<[u8]>>, Bound<Box<[u8]>>),
}

impl KeyFilter {
    /// Those that begin so.
    pub fn prefix(prefix: &[u8]) -> Self {
        let last = prefix.iter().rposition(|byte| *byte < u8::MAX);
        match (prefix, last) {
            ([], _) => Self::All,
            (_, None) => Self::Range(Bound::Included(prefix.into()), Bound::Unbounded),
            (_, Some(last)) => {
                let mut end = prefix[..=last].to_vec();
                end[last] += 1;
                Self::Range(Bound::Included(prefix.into()), Bound::Excluded(end.into()))
            }
        }
    }

    /// Whether a key is meant.
    pub fn has(&self, key: &[u8]) -> bool {
        match self {
            KeyFilter::All => true,
            KeyFilter::One(one) => **one == *key,
            KeyFilter::Range(low, high) => {
                let above = match low {
                    Bound::Unbounded => true,
                    Bound::Included(low) => *key >= **low,
                    Bound::Excluded(low) => *key > **low,
                };
                above
                    && match high {
                        Bound::Unbounded => true,
                        Bound::Included(high) => *key <= **high,
                        Bound::Excluded(high) => *key < **high,
                    }
            }
        }
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> usize {
        let of = |bound: &Bound<Box<[u8]>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        match self {
            KeyFilter::All => 0,
            KeyFilter::One(key) => key.len(),
            KeyFilter::Range(low, high) => of(low) + of(high),
        }
    }
}

/// What a feed asks of a shard's leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesWanted {
    /// Where the part of the keyspace begins and ends that the shard must have.
    pub ends: Ends,
    /// Which keys.
    pub keys: KeyFilter,
    /// Changes above this time.
    pub above: Timestamp,
    /// Whether the values before are wanted.
    pub with_before: bool,
    /// Of the changes of a key at or below this time, only the newest is wanted; zero: all are.
    pub compact_to: Timestamp,
    /// How.
    pub how: How,
}

/// How changes are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// In the log of the newest changes, as soon as there are any.
    Live {
        /// Not only then, but when all is resolved up to this time; zero: only then.
        until: Timestamp,
        /// After so long in any case.
        wait_ms: u64,
    },
    /// Among the versions in the store.
    Walk {
        /// At or below this time.
        upto: Timestamp,
        /// From here on.
        cursor: ChangesCursor,
        /// As it was told when the walk began.
        epoch: WalkEpoch,
    },
}

/// Cursors are good for one leader and one state of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkEpoch {
    /// The leader's term.
    pub term: u64,
    /// How often the state was replaced or cut.
    pub replacements: u64,
}

/// A change of a key, with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKeyChange {
    /// When.
    pub at: Timestamp,
    /// The key.
    pub key: Box<[u8]>,
    /// What became of it.
    pub what: WhatChanged,
    /// The value before, if it is wanted and there was one.
    pub before: Option<Box<[u8]>>,
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhatChanged {
    /// It was given a value, or its value another end.
    Put {
        /// The value.
        value: Box<[u8]>,
        /// When it expires, in ms since 1970; 0 for never.
        expiry_ms: u64,
    },
    /// It was deleted, by its name or with all keys.
    Deleted,
    /// Its value came to its end.
    Expired,
}

impl HeldKeyChange {
    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let value = match &self.what {
            WhatChanged::Put { value, .. } => value.len(),
            WhatChanged::Deleted | WhatChanged::Expired => 0,
        };
        CHANGE_BYTES + self.key.len() + value + self.before.as_ref().map_or(0, |b| b.len())
    }
}

/// What a leader answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundChanges {
    /// All changes above the time that was asked for, up to this one, in order.
    Live {
        /// Those.
        changes: Vec<HeldKeyChange>,
        /// The time.
        resolved: Timestamp,
    },
    /// The log does not go back so far: the store is to be walked up to this time.
    NotKept {
        /// Nothing will be committed at or below it any more.
        upto: Timestamp,
        /// For the cursors of the walk.
        epoch: WalkEpoch,
    },
    /// A piece of a walk.
    Piece {
        /// Changes in any order, some of them perhaps twice in a walk.
        changes: Vec<HeldKeyChange>,
        /// Where to go on.
        next: Option<ChangesCursor>,
    },
}

impl FoundChanges {
    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        match self {
            FoundChanges::Live { changes, .. } | FoundChanges::Piece { changes, .. } => {
                changes.iter().map(HeldKeyChange::bytes).sum()
            }
            FoundChanges::NotKept { .. } => 0,
        }
    }
}

impl ChangesWanted {
    /// Whether this may be an answer to it.
    pub(crate) fn fits(&self, found: &FoundChanges) -> bool {
        match (&self.how, found) {
            (_, FoundChanges::NotKept { .. }) => true,
            (How::Live { .. }, FoundChanges::Live { .. }) => true,
            // Of one key, or because all is known anew.
            (How::Walk { .. }, FoundChanges::Live { .. } | FoundChanges::Piece { .. }) => true,
            (How::Live { .. }, FoundChanges::Piece { .. }) => false,
        }
    }

    /// Whether there is something to be said now, of a shard in this state.
    pub(crate) fn is_answered_by(
        &self,
        state: &ShardState,
        log: &ChangeLog,
        now: Timestamp,
    ) -> bool {
        let How::Live { until, .. } = self.how else { return true };
        let Some(engine) = state.engine() else { return true };
        let below = state.locks.below();
        if below <= self.above || below < self.compact_to {
            return false;
        }
        if until > Timestamp::ZERO && below >= until {
            return true;
        }
        !log.goes_back_to(self.above, state)
            || log.has_between(self.above, below)
            || engine.ends_between(self.above, now.min(below)).next().is_some()
    }

    /// The answer of a leader that has promised that nothing comes at or below `settled` any more,
    /// but what locks say; all that came by then is applied.
    pub(crate) fn answer(
        &self,
        state: &ShardState,
        log: &ChangeLog,
        settled: Timestamp,
        term: u64,
    ) -> FetchResult {
        let Some(engine) = state.engine() else { unreachable!("the system shard has no keys") };
        if self.above < engine.safe_point() {
            return FetchResult::BelowSafePoint(engine.safe_point());
        }
        let resolved = settled.min(state.locks.below());
        let now = WalkEpoch { term, replacements: state.replacements() };
        let found = match (&self.how, &self.keys) {
            // What the newest change of a key is by then nobody knows yet.
            _ if resolved < self.compact_to => {
                FoundChanges::Live { changes: Vec::new(), resolved: self.above }
            }
            (How::Walk { upto, cursor, epoch }, _) if *epoch == now => {
                self.piece(engine, *upto, cursor)
            }
            (_, KeyFilter::One(key)) => self.of_one(engine, key, resolved),
            // Whatever is not resolved here is not complete in the store either.
            _ if resolved <= self.above => {
                FoundChanges::Live { changes: Vec::new(), resolved: self.above }
            }
            (How::Live { .. }, _) if log.goes_back_to(self.above, state) => {
                self.live(engine, log, resolved)
            }
            _ => FoundChanges::NotKept { upto: resolved, epoch: now },
        };
        FetchResult::Changes(found)
    }

    fn of_one(&self, engine: &MemoryEngine, key: &[u8], resolved: Timestamp) -> FoundChanges {
        let mut times = Vec::new();
        engine.changes_of(&engine.hasher().key(key), self.above, resolved, &mut |at| {
            times.push((at, key));
        });
        times.sort_unstable();
        times.dedup();
        self.in_order(engine, times.into_iter(), resolved)
    }

    fn live(&self, engine: &MemoryEngine, log: &ChangeLog, resolved: Timestamp) -> FoundChanges {
        let mut logged = log.between(self.above, resolved).peekable();
        let mut ends = engine.ends_between(self.above, resolved).peekable();
        let all = std::iter::from_fn(move || {
            let is_logged = match (logged.peek(), ends.peek()) {
                (Some((logged, _)), Some((end, _))) => logged <= end,
                (logged, _) => logged.is_some(),
            };
            if is_logged { logged.next() } else { ends.next() }
        });
        self.in_order(engine, all, resolved)
    }

    /// Changes at these times, which rise, until they are too many: then it is resolved up to the
    /// last commit among them only.
    fn in_order<'k>(
        &self,
        engine: &MemoryEngine,
        times: impl Iterator<Item = (Timestamp, &'k [u8])>,
        resolved: Timestamp,
    ) -> FoundChanges {
        let (mut changes, mut bytes) = (Vec::<HeldKeyChange>::new(), 0);
        let mut newest = BTreeMap::new();
        for (at, key) in times {
            if bytes > CHANGES_BYTES_MAX
                && let Some(last) = changes.last().map(|last| last.at).filter(|last| *last < at)
            {
                return FoundChanges::Live { changes, resolved: last };
            }
            // Keys of one commit may come from two lists.
            let is_double = |change: &&HeldKeyChange| change.at == at && *change.key == *key;
            let same = changes.iter().rev().take_while(|change| change.at == at);
            if !self.keys.has(key) || same.clone().any(|change| is_double(&change)) {
                continue;
            }
            if at <= self.compact_to {
                let newest = newest.entry(key).or_insert_with(|| self.newest(engine, key));
                if at < *newest {
                    continue;
                }
            }
            if let Some(change) = self.change(engine, key, at) {
                bytes += change.bytes();
                changes.push(change);
            }
        }
        FoundChanges::Live { changes, resolved }
    }

    fn piece(
        &self,
        engine: &MemoryEngine,
        upto: Timestamp,
        cursor: &ChangesCursor,
    ) -> FoundChanges {
        // A key's history is not cut, so a few keys at a time, as long as they are not too much.
        const STEP_KEYS: usize = 64;
        let (mut changes, mut bytes, mut next) = (Vec::new(), 0, Some(cursor.clone()));
        let mut left = WALK_KEYS / STEP_KEYS;
        // Of the key that was looked at last: its times come in a row.
        let mut newest: Option<(Vec<u8>, Timestamp)> = None;
        while let Some(from) = next.as_ref().filter(|_| left > 0 && bytes <= CHANGES_BYTES_MAX) {
            left -= 1;
            next = engine.changes(from, self.above, upto, STEP_KEYS, &mut |key, at| {
                if !self.keys.has(key) {
                    return;
                }
                if at <= self.compact_to {
                    let known = newest.take().filter(|(of, _)| of == key);
                    let known = known.unwrap_or_else(|| (key.into(), self.newest(engine, key)));
                    let is_newest = known.1 <= at;
                    newest = Some(known);
                    if !is_newest {
                        return;
                    }
                }
                if let Some(change) = self.change(engine, key, at) {
                    bytes += change.bytes();
                    changes.push(change);
                }
            });
        }
        FoundChanges::Piece { changes, next }
    }

    /// When a key changed last at or below the time to which changes are compacted.
    fn newest(&self, engine: &MemoryEngine, key: &[u8]) -> Timestamp {
        let (key, mut times) = (engine.hasher().key(key), Vec::new());
        engine.changes_of(&key, self.above, self.compact_to, &mut |at| times.push(at));
        times.sort_unstable();
        let changed = times.into_iter().rev().find(|at| engine.change_at(&key, *at).is_some());
        changed.unwrap_or_default()
    }

    fn change(&self, engine: &MemoryEngine, key: &[u8], at: Timestamp) -> Option<HeldKeyChange> {
        let (what, before) = match engine.change_at(&engine.hasher().key(key), at)? {
            KeyChange::Put(version, before) => {
                let (value, expiry_ms) = (version.value.into(), version.expiry_ms);
                (WhatChanged::Put { value, expiry_ms }, before)
            }
            KeyChange::Deleted(before) => (WhatChanged::Deleted, Some(before)),
            KeyChange::Expired(before) => (WhatChanged::Expired, Some(before)),
        };
        let before = before.filter(|_| self.with_before).map(|before| before.value.into());
        Some(HeldKeyChange { at, key: key.into(), what, before })
    }
}
