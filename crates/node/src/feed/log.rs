//! The newest changes of one shard: when, and of which key. A leader keeps it while somebody
//! watches; else it costs a branch for each entry.
//!
//! Values are not in it: they are in the store, under the same time.
//!
//! # Invariants
//! 1. Every version above `kept_from` is named, and every end of a value above it that another
//!    version has replaced. Ends of newest values the store knows by itself.
//! 2. A name may be of nothing: a lock, or a key that is another shard's by now.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | changes | [`CHANGES_MAX`] | the oldest go: who wants them walks the store |
//! | bytes of their keys | [`LOG_BYTES_MAX`] | the same |
//! | time without a question | [`UNASKED_NANOS`] | it is dropped |

use std::collections::BTreeSet;
use std::ops::Bound;

use keyspace::Timestamp;
use replication::BootNanos;

use crate::replica::state::ShardState;
use crate::tracking::changed::ChangedKeys;

/// Changes that are named for one shard.
pub const CHANGES_MAX: usize = 1 << 17;
/// Bytes of their keys.
pub const LOG_BYTES_MAX: usize = 8 << 20;
/// Nobody watches any more when nobody has asked for so long.
pub const UNASKED_NANOS: u64 = 10_000_000_000;

/// See the module's documentation.
#[derive(Debug)]
pub struct ChangeLog {
    kept_from: Timestamp,
    /// How often the shard's state had been replaced or cut when it began.
    replacements: u64,
    changes: BTreeSet<(Timestamp, Box<[u8]>)>,
    bytes: usize,
    asked_at: BootNanos,
}

impl ChangeLog {
    /// From now on.
    pub(crate) fn new(state: &ShardState, now: BootNanos) -> Self {
        let (kept_from, replacements) = (state.last, state.replacements());
        Self { kept_from, replacements, changes: BTreeSet::new(), bytes: 0, asked_at: now }
    }

    /// Somebody has asked.
    pub fn asked(&mut self, now: BootNanos) {
        self.asked_at = self.asked_at.max(now);
    }

    /// Whether nobody has asked for long.
    pub fn is_unasked(&self, now: BootNanos) -> bool {
        self.asked_at.saturating_add(UNASKED_NANOS) <= now
    }

    /// Whether the shard's state has been neither replaced nor cut since it began.
    pub(crate) fn is_of(&self, state: &ShardState) -> bool {
        self.replacements == state.replacements()
    }

    /// Whether it has all changes above a time, of a shard in this state.
    pub(crate) fn goes_back_to(&self, above: Timestamp, state: &ShardState) -> bool {
        self.kept_from <= above && self.is_of(state)
    }

    /// The changes above a time, and at or below another, in order.
    pub fn between(
        &self,
        above: Timestamp,
        upto: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, &[u8])> {
        let range = (above < upto).then(|| {
            let low = Bound::Included((above.next(), Box::default()));
            self.changes.range((low, Bound::Unbounded))
        });
        let range = range.into_iter().flatten().take_while(move |(at, _)| *at <= upto);
        range.map(|(at, key)| (*at, &**key))
    }

    /// Whether there is a change between two times.
    pub fn has_between(&self, above: Timestamp, upto: Timestamp) -> bool {
        self.between(above, upto).next().is_some()
    }

    /// An entry has changed these; `state` is as it has left it.
    pub(crate) fn note(&mut self, changed: &ChangedKeys, state: &ShardState) {
        if changed.is_flushed || !self.is_of(state) {
            *self = Self::new(state, self.asked_at);
            return;
        }
        let Some(engine) = state.engine() else { return };
        for (at, key) in changed.versions.iter().flatten() {
            self.put(*at, key);
            if let Some(ended) = engine.ended_before(&engine.hasher().key(key), *at) {
                self.put(ended, key);
            }
        }
        while self.changes.len() > CHANGES_MAX || self.bytes > LOG_BYTES_MAX {
            let Some((at, key)) = self.changes.pop_first() else { return };
            self.bytes -= key.len();
            self.kept_from = self.kept_from.max(at);
        }
    }

    fn put(&mut self, at: Timestamp, key: &[u8]) {
        if at > self.kept_from && self.changes.insert((at, key.into())) {
            self.bytes += key.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use command::changes::Changes;
    use keyspace::{Arc, Descriptor, Generation, KeyHasher, KeyspaceId, ShardId};
    use storage::engine::{Layout, MemoryEngine};

    use super::*;
    use crate::feed::changes::{ChangesWanted, FoundChanges, How, KeyFilter, WhatChanged};
    use crate::replica::state::Content;
    use crate::routing::fetch::FetchResult;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn shard() -> ShardState {
        let hasher = KeyHasher::new([7; 16]);
        let engine = Box::new(MemoryEngine::new(Layout::Ordered, hasher));
        let arc = Arc::whole(KeyspaceId(1));
        let (generation, replicas) = (Generation(1), Vec::new());
        let descriptor = Descriptor { shard: ShardId(1), arc, replicas, generation, leader: None };
        ShardState::new(descriptor, Content::Keys(engine))
    }

    fn put(state: &mut ShardState, log: &mut ChangeLog, key: &[u8], ends: u64, millis: u64) {
        let engine = state.engine_mut().unwrap();
        let hashed = engine.hasher().key(key);
        engine.put(&hashed, &[b"v"], ends, at(millis));
        state.last = at(millis);
        let mut changed = ChangedKeys::for_feeds(false);
        changed.changed(key, at(millis));
        log.note(&changed, state);
    }

    fn wanted(above: u64, keys: KeyFilter) -> ChangesWanted {
        let ends = Arc::whole(KeyspaceId(1)).ends();
        let how = How::Live { until: Timestamp::ZERO, wait_ms: 0 };
        let compact_to = Timestamp::ZERO;
        ChangesWanted { ends, keys, above: at(above), with_before: false, compact_to, how }
    }

    fn told(found: FetchResult) -> (Vec<String>, Timestamp) {
        let FetchResult::Changes(FoundChanges::Live { changes, resolved }) = found else {
            panic!("{found:?}")
        };
        let text = |change: &crate::feed::changes::HeldKeyChange| {
            let key = change.key.escape_ascii();
            let what = match change.what {
                WhatChanged::Put { .. } => "put",
                WhatChanged::Deleted => "deleted",
                WhatChanged::Expired => "expired",
            };
            format!("{} {key} {what}", change.at.millis())
        };
        (changes.iter().map(text).collect(), resolved)
    }

    #[test]
    fn log_tells_changes_and_ends_in_order() {
        let mut state = shard();
        put(&mut state, &mut ChangeLog::new(&shard(), 0), b"old", 0, 5);
        let mut log = ChangeLog::new(&state, 0);
        put(&mut state, &mut log, b"a", 25, 10);
        put(&mut state, &mut log, b"b", 40, 20);
        put(&mut state, &mut log, b"a", 0, 30);
        let all = ["10 a put", "20 b put", "25 a expired", "30 a put", "40 b expired"];
        let ask = |above, keys, settled| wanted(above, keys).answer(&state, &log, settled, 1);
        assert_eq!(told(ask(5, KeyFilter::All, at(50))), (all.map(String::from).into(), at(50)));
        assert_eq!(told(ask(10, KeyFilter::All, at(29))).0, all[1..3]);
        assert_eq!(told(ask(5, KeyFilter::prefix(b"b"), at(50))).0, [all[1], all[4]]);
        // Before the log began the versions of one key are known, and of all they have to be found.
        let old = told(ask(0, KeyFilter::One(b"old"[..].into()), at(50)));
        assert_eq!(old.0, ["5 old put"]);
        let not_kept = ask(0, KeyFilter::All, at(50));
        let FetchResult::Changes(FoundChanges::NotKept { upto, epoch }) = not_kept else {
            panic!("{not_kept:?}")
        };
        let mut walk = wanted(0, KeyFilter::All);
        walk.how = How::Walk { upto, cursor: Default::default(), epoch };
        let piece = walk.answer(&state, &log, at(50), 1);
        let FetchResult::Changes(FoundChanges::Piece { changes, next: None }) = piece else {
            panic!("{piece:?}")
        };
        assert_eq!(changes.len(), 6);
        // Another leader has other cursors.
        let other = walk.answer(&state, &log, at(60), 2);
        assert!(matches!(other, FetchResult::Changes(FoundChanges::NotKept { .. })), "{other:?}");
    }

    #[test]
    fn log_forgets_the_oldest_and_begins_anew_at_a_flush() {
        let mut state = shard();
        let mut log = ChangeLog::new(&state, 0);
        for millis in 1..=CHANGES_MAX as u64 + 1 {
            put(&mut state, &mut log, b"k", 0, millis);
        }
        assert!(!log.goes_back_to(Timestamp::ZERO, &state) && log.goes_back_to(at(1), &state));
        let mut changed = ChangedKeys::for_feeds(false);
        changed.flushed(None, &keyspace::Cut::Slot(9), state.last);
        log.note(&changed, &state);
        assert!(!log.goes_back_to(at(1), &state) && log.goes_back_to(state.last, &state));
        state.cuts += 1;
        assert!(!log.goes_back_to(state.last, &state), "it was split");
    }

    /// In the log, of one key, and in the store.
    #[test]
    fn compaction_tells_the_newest_change_of_each_key_up_to_its_time() {
        let mut state = shard();
        let mut log = ChangeLog::new(&state, 0);
        for (key, ends, millis) in [(b"a", 0, 10), (b"b", 40, 20), (b"a", 0, 30), (b"c", 0, 35)] {
            put(&mut state, &mut log, key, ends, millis);
        }
        put(&mut state, &mut log, b"a", 0, 50);
        put(&mut state, &mut log, b"a", 0, 60);
        let ask = |log: &ChangeLog, keys, how: Option<How>, settled| {
            let mut wanted = wanted(5, keys);
            wanted.compact_to = at(50);
            wanted.how = how.unwrap_or(wanted.how);
            wanted.answer(&state, log, at(settled), 1)
        };
        let all = ["35 c put", "40 b expired", "50 a put", "60 a put"];
        assert_eq!(told(ask(&log, KeyFilter::All, None, 70)).0, all);
        assert_eq!(told(ask(&log, KeyFilter::One(b"a"[..].into()), None, 70)).0, all[2..]);
        // Which is the newest is not known before all is resolved up to there.
        assert_eq!(told(ask(&log, KeyFilter::All, None, 49)), (Vec::new(), at(5)));
        let log = ChangeLog::new(&state, 0);
        let not_kept = ask(&log, KeyFilter::All, None, 70);
        let FetchResult::Changes(FoundChanges::NotKept { upto, epoch }) = not_kept else {
            panic!("{not_kept:?}")
        };
        // A walk that has found too much goes on for its first commits only.
        for (upto, wanted) in [(upto, &all[..]), (at(45), &all[..2])] {
            let walk = How::Walk { upto, cursor: Default::default(), epoch };
            let piece = ask(&log, KeyFilter::All, Some(walk), 70);
            let FetchResult::Changes(FoundChanges::Piece { mut changes, next: None }) = piece
            else {
                panic!("{piece:?}")
            };
            changes.sort_by_key(|change| change.at);
            let found = FoundChanges::Live { changes, resolved: upto };
            assert_eq!(told(FetchResult::Changes(found)).0, wanted);
        }
    }

    #[test]
    fn nothing_above_the_resolved_time_is_told() {
        let mut state = shard();
        let mut log = ChangeLog::new(&state, 0);
        put(&mut state, &mut log, b"a", 0, 10);
        put(&mut state, &mut log, b"b", 0, 20);
        let ask = |above, settled| {
            told(wanted(above, KeyFilter::All).answer(&state, &log, at(settled), 1))
        };
        assert_eq!(ask(5, 15), (vec!["10 a put".to_owned()], at(15)));
        assert_eq!(ask(15, 25), (vec!["20 b put".to_owned()], at(25)));
        assert_eq!(ask(25, 15), (Vec::new(), at(25)), "it never falls");
    }

    #[test]
    fn prefixes_are_ranges() {
        let has = |prefix: &[u8], key: &[u8]| KeyFilter::prefix(prefix).has(key);
        assert!(has(b"", b"x") && has(b"a", b"a") && has(b"a", b"ab") && !has(b"a", b"b"));
        assert!(has(b"a\xff", b"a\xffz") && !has(b"a\xff", b"b") && !has(b"a\xff", b"a"));
        assert!(has(b"\xff", b"\xff\xff") && !has(b"\xff", b"\xfe"));
    }
}
