//! What does a client see in a transaction that it runs step by step?
//!
//! Commands between `BEGIN` and `COMMIT` run at once, on a copy of the keys they name. The node
//! reads a key when a command names it first. The client's writes go into the copy and nowhere
//! else. `COMMIT` carries out all writes as one transaction, if no key and no range that was read
//! has changed since. So everything the client has read was there at one moment, and its writes
//! take effect at that moment.
//!
//! ```text
//!   GET a ──► lacks [a] ──► the driver reads it ──► learn(a = 7 of 30.0) ──► run ──► "7"
//!   INCR a ──► lacks nothing ─────────────────────────────────────────────► run ──► 8
//!   COMMIT ──► transaction(): if a is that of 30.0 still, SET a 8
//! ```
//!
//! The transaction locks nothing before `COMMIT`, and no shard knows of it: a client that
//! disconnects leaves nothing behind. Two keys that are read one after the other may show a state
//! that never existed. Then another client has written meanwhile, and `COMMIT` fails.
//!
//! A key that is only written is not read, and others may change it. Time stands still in the copy:
//! a value that was alive when it was read does not expire.
//!
//! In ordered keyspaces the transaction remembers the *ranges* that it has read ([`key_ranges`]): a
//! key that appears in one of them, or is deleted, is a change as well.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | keys that were read | [`KEYS_MAX`] | the command is refused, the transaction goes on |
//! | ranges that were read | [`KEY_RANGES_MAX`] | the same |
//! | bytes of keys and values, read and written | the caller's; [`BYTES_MAX`] for a client's | the same |

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use keyspace::{KeyHasher, KeyspaceId, Timestamp};
use storage::engine::{Layout, MemoryEngine, Range, Version};

use crate::ShardMap;
use command::Pair;
use command::RangeQuery;
use command::{
    Expiry, Flush, ObservedValues, ObservedVersion, Reply, SetIf, SetReply, Step, Transaction,
    Write,
};

mod flush;
pub mod key_ranges;
#[cfg(test)]
mod tests;

use key_ranges::{KeyRange, KeyRangeSet};

/// Keys that one transaction may read.
pub const KEYS_MAX: usize = 65_536;
/// Ranges that it may read.
pub const KEY_RANGES_MAX: usize = 1_024;
/// Bytes that a client's may read and write: what it commits fits into one message between nodes.
pub const BYTES_MAX: u64 = 32 << 20;

/// Versions collected after each command, which makes fewer.
const COLLECTED: usize = 64;

/// A transaction would read or write more than it may: the command was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnTooLarge;

/// What was read of a key: its value and expiry, if it had one.
type ReadValue = Option<(Box<[u8]>, u64)>;

/// See the front page.
pub struct InteractiveTxn {
    /// Its keyspace, if a new one could take the same name before the end.
    pub keyspace: Option<KeyspaceId>,
    copy: MemoryEngine,
    /// The version of each key that was read; `None` for a key that is only written.
    keys: BTreeMap<Box<[u8]>, Option<ObservedVersion>>,
    /// Keys that commands have changed, in the copy.
    written: BTreeSet<Box<[u8]>>,
    key_ranges: KeyRangeSet,
    /// Those whose keys are not all read.
    pending: Vec<KeyRange>,
    /// These keys.
    unread: BTreeSet<Box<[u8]>>,
    /// The time at which the copy counts all read values as written.
    base: Timestamp,
    /// When the last command was run.
    at: Timestamp,
    bytes: u64,
    bytes_max: u64,
    /// Keys that the client has watched before, which must be as they were.
    watched: Vec<(Box<[u8]>, ObservedVersion)>,
    /// Whether it has flushed the keyspace: a key that it has not written since has no value.
    is_flushed: bool,
    /// Whether it may have flushed the keys alone that it has read.
    flushes_read_only: bool,
    /// Of a transaction that can restart: what was read of keys that commands have changed since.
    originals: Option<BTreeMap<Box<[u8]>, ReadValue>>,
}

impl std::fmt::Debug for InteractiveTxn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (keys, bytes) = (self.keys.len(), self.bytes);
        f.debug_struct("Interactive").field("keys", &keys).field("bytes", &bytes).finish()
    }
}

impl InteractiveTxn {
    /// A transaction that begins now, and may read and write at most `bytes_max` bytes.
    pub fn new(now: Timestamp, bytes_max: u64) -> Self {
        // Nobody else chooses keys for it, so they need not be hashed in secret.
        let copy = MemoryEngine::new(Layout::Ordered, KeyHasher::new([0; 16]));
        Self {
            keyspace: None,
            copy,
            keys: BTreeMap::new(),
            written: BTreeSet::new(),
            key_ranges: KeyRangeSet::default(),
            pending: Vec::new(),
            unread: BTreeSet::new(),
            base: now,
            at: now,
            bytes: 0,
            bytes_max,
            watched: Vec::new(),
            is_flushed: false,
            flushes_read_only: false,
            originals: None,
        }
    }

    /// A transaction that can [`restart`](Self::restart).
    pub fn restartable(now: Timestamp, bytes_max: u64) -> Self {
        Self { originals: Some(BTreeMap::new()), ..Self::new(now, bytes_max) }
    }

    /// Forgets all that commands have done, and keeps what was read: the client begins again.
    pub fn restart(&mut self) {
        let Some(originals) = &mut self.originals else {
            unreachable!("the transaction was made without the ability to restart")
        };
        let mut originals = std::mem::take(originals);
        let read = std::mem::take(&mut self.keys);
        let mut before = MemoryEngine::new(Layout::Ordered, KeyHasher::new([0; 16]));
        std::mem::swap(&mut before, &mut self.copy);
        self.written.clear();
        self.watched.clear();
        (self.is_flushed, self.flushes_read_only) = (false, false);
        self.bytes = 0;
        self.at = self.base;
        for (key, seen) in read {
            let Some(seen) = seen else { continue };
            let hashed = before.hasher().key(&key);
            let original = originals.remove(&key);
            let value = match &original {
                Some(original) => {
                    original.as_ref().map(|(value, expiry_ms)| (&**value, *expiry_ms))
                }
                None => before.newest(&hashed, self.at).map(|v| (v.value, v.expiry_ms)),
            };
            if value.is_none() && matches!(seen, ObservedVersion::Version(_)) {
                // The copy does not hold it any more.
                continue;
            }
            let kept = self.record_read(&key, value, seen);
            debug_assert!(kept.is_ok(), "it fitted beside what commands wrote");
        }
    }

    /// The time at which it began, to the millisecond: what time it is for its commands.
    pub fn began(&self) -> Timestamp {
        self.base
    }

    /// The bytes that it may read and write at most.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Has the transaction depend on a key that the client has watched before it began.
    pub fn watch(&mut self, key: &[u8], seen: ObservedVersion) {
        self.watched.push((key.into(), seen));
    }

    /// Whether the client has watched keys before the transaction began.
    pub fn has_watched(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Keys that must be read before a command can be run.
    pub fn missing_keys<'a>(&self, step: &Step<'a>) -> Vec<&'a [u8]> {
        let mut all = Vec::new();
        if !is_blind_write(step) && !self.is_flushed {
            step.each_key(&mut |key| {
                if !self.keys.contains_key(key) {
                    all.push(key);
                }
            });
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Records the result of reading a key: a value with expiry and version, or none at a time.
    ///
    /// # Errors
    /// [`TxnTooLarge`]: the key is not recorded then.
    pub fn record_read(
        &mut self,
        key: &[u8],
        value: Option<(&[u8], u64)>,
        seen: ObservedVersion,
    ) -> Result<(), TxnTooLarge> {
        let is_blind = matches!(self.keys.get(key), Some(None));
        let admitted = self.admit(key, value.map_or(0, |(value, _)| value.len() as u64));
        // What was to be shown is not: nothing depends on what was looked at for it.
        admitted.inspect_err(|_| self.forget_pending())?;
        if self.is_flushed || is_blind {
            // The copy shows what commands have done. Another command has asked for the key before
            // the flush; or it was written unread.
            if let Some(originals) = &mut self.originals {
                let value = value.map(|(value, expiry_ms)| (value.into(), expiry_ms));
                originals.insert(key.into(), value);
            }
        } else if let Some((value, expiry_ms)) = value {
            let key = self.copy.hasher().key(key);
            // The shard that returned it, by a slower clock, has found it alive.
            let alive_ms = self.base.millis() + 1;
            let expiry_ms = if expiry_ms == 0 { 0 } else { expiry_ms.max(alive_ms) };
            self.copy.put(&key, &[value], expiry_ms, self.base);
        }
        self.keys.insert(key.into(), Some(seen));
        self.unread.remove(key);
        Ok(())
    }

    /// Counts a key that may be new, and so many bytes.
    fn admit(&mut self, key: &[u8], bytes: u64) -> Result<(), TxnTooLarge> {
        let is_new = !self.keys.contains_key(key);
        let bytes = self.bytes.saturating_add(bytes) + if is_new { key.len() as u64 } else { 0 };
        if bytes > self.bytes_max || (is_new && self.keys.len() == KEYS_MAX) {
            return Err(TxnTooLarge);
        }
        self.bytes = bytes;
        Ok(())
    }

    fn forget_pending(&mut self) {
        self.pending.clear();
        self.unread.clear();
    }

    /// Runs the commands that are one to a client, and lack nothing.
    ///
    /// # Errors
    /// [`TxnTooLarge`]: nothing was done, if they write a key each; else some may be.
    pub fn run_all(&mut self, steps: &[Step<'_>]) -> Result<Vec<Reply>, TxnTooLarge> {
        let (mut new, mut bytes) = (BTreeSet::new(), self.bytes);
        for step in steps {
            let Step::Write(write) = step else { continue };
            bytes = bytes.saturating_add(written_by(write));
            write.each_key(&mut |key| {
                if !self.keys.contains_key(key) && new.insert(key) {
                    bytes = bytes.saturating_add(key.len() as u64);
                }
            });
        }
        if bytes > self.bytes_max || self.keys.len() + new.len() > KEYS_MAX {
            return Err(TxnTooLarge);
        }
        steps.iter().map(|step| self.run(step)).collect()
    }

    /// Runs a command that lacks nothing.
    ///
    /// # Errors
    /// [`TxnTooLarge`]: nothing was done.
    pub fn run(&mut self, step: &Step<'_>) -> Result<Reply, TxnTooLarge> {
        if let Step::Write(write) = step {
            let copied = write.copied_key().map_or(0, |key| {
                let newest = self.copy.newest(&self.copy.hasher().key(key), self.at);
                newest.map_or(0, |version| version.value.len() as u64)
            });
            let written = written_by(write);
            // Of several keys all have been read, so that they are known.
            self.admit(write.first_key(), written.saturating_add(copied))?;
            write.each_key(&mut |key| {
                self.keys.entry(key.into()).or_insert(None);
            });
        }
        if let Step::Write(write) = step {
            self.keep_originals(write);
        }
        // Each of its own moment, so that what was written last is the newest.
        self.at = Timestamp(self.at.0 + 1);
        let one = Transaction { commands: vec![step.clone()], ..Transaction::default() };
        let mut copy = ObservedValues { values: &mut self.copy, changes: &mut self.written };
        let answers: Vec<Reply> = one.run(&mut copy, self.at);
        // What it has replaced goes.
        self.copy.raise_safe_point(self.at);
        self.copy.collect(COLLECTED);
        Ok(answers.into_iter().next().expect("one command has one answer"))
    }

    /// Before a write: of a transaction that can restart, keeps what was read of its keys.
    fn keep_originals(&mut self, write: &Write<'_>) {
        let Some(originals) = &mut self.originals else { return };
        let (copy, keys, written, at) = (&self.copy, &self.keys, &self.written, self.at);
        write.each_key(&mut |key| {
            let was_read = matches!(keys.get(key), Some(Some(_)));
            if was_read && !written.contains(key) && !originals.contains_key(key) {
                let version = copy.newest(&copy.hasher().key(key), at);
                let value = version.map(|version| (version.value.into(), version.expiry_ms));
                originals.insert(key.into(), value);
            }
        });
    }

    /// Some of the keys that lie in ranges and must still be read.
    pub fn unread(&self) -> impl Iterator<Item = &[u8]> {
        self.unread.iter().map(|key| &**key)
    }

    /// The part of a range that must be read next before [`Self::range`] can answer; `None` if it
    /// can. No keys may be unread ([`Self::unread`]).
    pub fn unread_range(&mut self, query: &RangeQuery<'_>) -> Option<UnreadRange> {
        if self.unread.is_empty() {
            self.pending.drain(..).for_each(|range| self.key_ranges.add(range));
        }
        if query.keys_max == 0 {
            return None;
        }
        let whole = KeyRange::between(query.low, query.high)?;
        let rest = self.key_ranges.unread_range(&whole, query.reverse)?;
        let known = whole.without(&rest, query.reverse);
        let shown = known.map_or(0, |known| self.pairs(&known, false, query.keys_max).len());
        let left = query.keys_max - shown;
        (left > 0).then_some(UnreadRange { range: rest, reverse: query.reverse, keys_max: left })
    }

    /// These keys are in a part of a gap, and no others, as far as it was looked at: up to a key
    /// and with that, or all of it.
    ///
    /// # Errors
    /// [`TxnTooLarge`]: the part is not known then.
    pub fn found(
        &mut self,
        part: &KeyRange,
        reverse: bool,
        keys: &[Box<[u8]>],
        reached: Option<&[u8]>,
    ) -> Result<(), TxnTooLarge> {
        let range = part.up_to(reached, reverse);
        let bounds = range.low.len() + range.high.as_ref().map_or(0, |high| high.len());
        self.bytes = self.bytes.saturating_add(bounds as u64);
        let is_long = self.keys.len() + self.unread.len() + keys.len() > KEYS_MAX;
        let are_many = self.key_ranges.len() + self.pending.len() >= KEY_RANGES_MAX;
        if is_long || are_many || self.bytes > self.bytes_max {
            self.forget_pending();
            return Err(TxnTooLarge);
        }
        self.pending.push(range);
        let is_read = |key: &[u8]| matches!(self.keys.get(key), Some(Some(_)));
        self.unread.extend(keys.iter().filter(|key| !is_read(key)).cloned());
        Ok(())
    }

    /// The keys of a range that was read completely, with their values.
    pub fn range(&self, query: &RangeQuery<'_>) -> Vec<Pair> {
        let whole = KeyRange::between(query.low, query.high);
        whole.map_or_else(Vec::new, |whole| self.pairs(&whole, query.reverse, query.keys_max))
    }

    fn pairs(&self, range: &KeyRange, reverse: bool, keys_max: usize) -> Vec<Pair> {
        let mut pairs = Vec::new();
        let range = Range {
            start: Bound::Included(&*range.low),
            end: range.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
            reverse,
            visited_max: keys_max,
            examined_max: usize::MAX,
        };
        let walked = self.copy.range(&range, self.at, &mut |key, version| {
            pairs.push((Box::from(key), Box::from(version.value)));
        });
        walked.expect("the copy is ordered");
        pairs
    }

    /// The transaction to commit: all writes, on condition that no key or range read has changed.
    pub fn transaction(&self) -> Transaction<'_> {
        let mut all = Transaction::default();
        all.watched.extend(self.watched.iter().map(|(key, seen)| (&**key, *seen)));
        for (key, seen) in &self.keys {
            // In a range there was nothing where only writing has made a key known.
            let nothing =
                || self.key_ranges.holds(key).then_some(ObservedVersion::Absent(Timestamp::MAX));
            all.watched.extend((*seen).or_else(nothing).map(|seen| (&**key, seen)));
            if self.written.contains(key) {
                all.commands.extend(self.outcome(key, *seen).map(Step::Write));
            }
        }
        all.ranges = self.key_ranges.iter().collect();
        all.flush = self.is_flushed.then(|| Box::new(Flush::All));
        all.flushes_watched_only = self.flushes_read_only;
        all
    }

    /// Drops all writes: only the reads count from here on.
    pub fn forget_writes(&mut self) {
        self.written.clear();
        (self.is_flushed, self.flushes_read_only) = (false, false);
    }

    /// Whether it has neither read nor written anything.
    pub fn is_empty(&self) -> bool {
        !self.is_flushed
            && self.keys.is_empty()
            && self.key_ranges.is_empty()
            && self.watched.is_empty()
    }

    /// The version read of a key that no command has written since: the copy still shows it.
    pub fn seen(&self, key: &[u8]) -> Option<ObservedVersion> {
        let seen = self.keys.get(key).copied().flatten();
        seen.filter(|_| !self.written.contains(key) && !self.is_flushed)
    }

    /// How many keys it knows, or is to read.
    pub fn keys(&self) -> usize {
        self.keys.len() + self.unread.len()
    }

    /// How much it holds, in bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is to be written to a key that commands have changed, unless a flush does that.
    fn outcome<'a>(&'a self, key: &'a [u8], seen: Option<ObservedVersion>) -> Option<Write<'a>> {
        let (value, expiry) = match self.copy.newest(&self.copy.hasher().key(key), self.at) {
            Some(Version { value, expiry_ms: 0, .. }) => (value, Expiry::Never),
            Some(Version { value, expiry_ms, .. }) => (value, Expiry::At(expiry_ms)),
            None if self.is_flushed => return None,
            None if matches!(seen, Some(ObservedVersion::Version(_))) => {
                return Some(Write::Delete { key });
            }
            // Made and deleted again, which leaves a deletion as what has ended when it is set.
            None => (&[][..], Expiry::At(1)),
        };
        Some(Write::Set { key, value, when: SetIf::Always, expiry, reply: SetReply::Ok })
    }
}

/// A part of a range that was not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadRange {
    /// Where it lies.
    pub range: KeyRange,
    /// From high to low.
    pub reverse: bool,
    /// At most so many keys are wanted.
    pub keys_max: usize,
}

impl UnreadRange {
    /// Its part in the first shard to be looked at, and the place of that.
    pub fn first_part(&self, route: &dyn ShardMap) -> (usize, KeyRange) {
        let place = match (&self.range.high, self.reverse) {
            (_, false) => route.place_of_key(&self.range.low),
            (None, true) => route.shards().len() - 1,
            (Some(high), true) => {
                // The last key in it lies before this one.
                let place = route.place_of_key(high);
                place - usize::from(route.arc(place).start().tail() == &**high)
            }
        };
        (place, self.range.within(route.arc(place)))
    }
}

/// How many bytes a command writes, without what it copies.
fn written_by(write: &Write<'_>) -> u64 {
    write.growth_bytes_max().max(write.bytes_about() as u64)
}

/// Whether what a command does and answers depends on nothing that was there before.
fn is_blind_write(step: &Step<'_>) -> bool {
    let Step::Write(Write::Set { when: SetIf::Always, expiry, reply, .. }) = step else {
        return false;
    };
    *expiry != Expiry::Keep && *reply != SetReply::Old
}
