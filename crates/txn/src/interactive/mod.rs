//! What does a transaction look like to a client that goes through it step by step?
//!
//! Commands between `BEGIN` and `COMMIT` are run at once, on a copy of the keys they name: what a
//! key has is read when a command names it first, and what the client writes is written in the copy
//! and nowhere else. `COMMIT` has all of it done as one transaction, if every key and every stretch
//! of keys that was read is as it was: so what the client has seen was there at one moment, and
//! what it writes is written at that moment.
//!
//! ```text
//!   GET a ──► lacks [a] ──► the driver reads it ──► learn(a = 7 of 30.0) ──► run ──► "7"
//!   INCR a ──► lacks nothing ─────────────────────────────────────────────► run ──► 8
//!   COMMIT ──► transaction(): if a is that of 30.0 still, SET a 8
//! ```
//!
//! Nothing is locked in between, and no shard knows of it: a client that goes away leaves nothing
//! behind. Two keys that are read one after the other may show what was never there together; then
//! another has written meanwhile, and `COMMIT` says so.
//!
//! A key that is written before it is read is not read for it, and may be changed by others. Time
//! stands still meanwhile: what was alive when it was read does not end.
//!
//! Of keys in order, what has been looked at is known as *stretches* ([`key_ranges`]): a key that
//! comes into one of them, or goes, is a change as well.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | keys that are known | [`KEYS_MAX`] | the command is refused, the transaction goes on |
//! | stretches that are known | [`KEY_RANGES_MAX`] | the same |
//! | bytes of keys and values, read and written | as told: [`BYTES_MAX`] of a client's | the same |

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use keyspace::{KeyHasher, KeyspaceId, Timestamp};
use storage::engine::{Layout, MemoryEngine, Range, Version};

use crate::ShardMap;
use command::Pair;
use command::RangeQuery;
use command::{
    Expiry, ObservedValues, ObservedVersion, Reply, SetIf, SetReply, Step, Transaction, Write,
};

pub mod key_ranges;
#[cfg(test)]
mod tests;

use key_ranges::{KeyRange, KeyRangeSet};

/// Keys that one transaction may know.
pub const KEYS_MAX: usize = 65_536;
/// Stretches that it may know.
pub const KEY_RANGES_MAX: usize = 1_024;
/// Bytes that a client's may read and write: what it commits fits into one message between nodes.
pub const BYTES_MAX: u64 = 32 << 20;

/// Versions collected after each command, which makes fewer.
const COLLECTED: usize = 64;

/// A transaction knows more than it may: the command was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnTooLarge;

/// See the front page.
pub struct InteractiveTxn {
    /// Of which keyspace, if that may be another one of the same name in the end.
    pub keyspace: Option<KeyspaceId>,
    copy: MemoryEngine,
    /// What was read of each key that is known; nothing of one that is only written.
    keys: BTreeMap<Box<[u8]>, Option<ObservedVersion>>,
    /// Keys that commands have changed, in the copy.
    written: BTreeSet<Box<[u8]>>,
    key_ranges: KeyRangeSet,
    /// Those whose keys are not all read.
    pending: Vec<KeyRange>,
    /// These keys.
    unread: BTreeSet<Box<[u8]>>,
    /// When what was read is taken to be written.
    base: Timestamp,
    /// When the last command was run.
    at: Timestamp,
    bytes: u64,
    bytes_max: u64,
}

impl std::fmt::Debug for InteractiveTxn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (keys, bytes) = (self.keys.len(), self.bytes);
        f.debug_struct("Interactive").field("keys", &keys).field("bytes", &bytes).finish()
    }
}

impl InteractiveTxn {
    /// One that begins now, and may read and write so many bytes.
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
        }
    }

    /// Keys that must be read before a command can be run.
    pub fn missing_keys<'a>(&self, step: &Step<'a>) -> Vec<&'a [u8]> {
        let mut all = Vec::new();
        if !is_blind_write(step) {
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

    /// A key was read: it had this value, which ends then, of that version; or none, as of a time.
    ///
    /// # Errors
    /// [`TxnTooLarge`]: it is not known then.
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
        if let (Some((value, expiry_ms)), false) = (value, is_blind) {
            let key = self.copy.hasher().key(key);
            // Whoever has shown it, by a clock that is slower, says that it is alive.
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

    /// Keys that lie in stretches and are to be read, some of them.
    pub fn unread(&self) -> impl Iterator<Item = &[u8]> {
        self.unread.iter().map(|key| &**key)
    }

    /// Which part of a stretch must be looked at next before it can be shown; none: it can be.
    /// Nothing may be unread.
    pub fn unread_range(&mut self, stretch: &RangeQuery<'_>) -> Option<UnreadRange> {
        if self.unread.is_empty() {
            self.pending.drain(..).for_each(|range| self.key_ranges.add(range));
        }
        if stretch.keys_max == 0 {
            return None;
        }
        let whole = KeyRange::between(stretch.low, stretch.high)?;
        let rest = self.key_ranges.unread_range(&whole, stretch.reverse)?;
        let known = whole.without(&rest, stretch.reverse);
        let shown = known.map_or(0, |known| self.pairs(&known, false, stretch.keys_max).len());
        let left = stretch.keys_max - shown;
        (left > 0).then_some(UnreadRange { range: rest, reverse: stretch.reverse, keys_max: left })
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

    /// The keys of a stretch without a gap, with their values.
    pub fn range(&self, stretch: &RangeQuery<'_>) -> Vec<Pair> {
        let whole = KeyRange::between(stretch.low, stretch.high);
        whole.map_or_else(Vec::new, |whole| self.pairs(&whole, stretch.reverse, stretch.keys_max))
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

    /// What is to be committed: if all that was read is as it was, all that was written.
    pub fn transaction(&self) -> Transaction<'_> {
        let mut all = Transaction::default();
        for (key, seen) in &self.keys {
            // In a stretch there was nothing where only writing has made a key known.
            let nothing =
                || self.key_ranges.holds(key).then_some(ObservedVersion::Absent(Timestamp::MAX));
            all.watched.extend((*seen).or_else(nothing).map(|seen| (&**key, seen)));
            if self.written.contains(key) {
                all.commands.push(Step::Write(self.outcome(key, *seen)));
            }
        }
        all.ranges = self.key_ranges.iter().collect();
        all
    }

    /// Only what was read counts from here on: nothing is to be written.
    pub fn forget_writes(&mut self) {
        self.written.clear();
    }

    /// Whether it has neither read nor written anything.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.key_ranges.is_empty()
    }

    /// What was read of a key that nothing has written since, so that it is what the copy shows.
    pub fn seen(&self, key: &[u8]) -> Option<ObservedVersion> {
        let seen = self.keys.get(key).copied().flatten();
        seen.filter(|_| !self.written.contains(key))
    }

    /// How many keys it knows, or is to read.
    pub fn keys(&self) -> usize {
        self.keys.len() + self.unread.len()
    }

    /// How much it holds, in bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is to be written to a key that commands have changed.
    fn outcome<'a>(&'a self, key: &'a [u8], seen: Option<ObservedVersion>) -> Write<'a> {
        let (value, expiry) = match self.copy.newest(&self.copy.hasher().key(key), self.at) {
            Some(Version { value, expiry_ms: 0, .. }) => (value, Expiry::Never),
            Some(Version { value, expiry_ms, .. }) => (value, Expiry::At(expiry_ms)),
            None if matches!(seen, Some(ObservedVersion::Version(_))) => {
                return Write::Delete { key };
            }
            // Made and deleted again, which leaves a deletion as what has ended when it is set.
            None => (&[][..], Expiry::At(1)),
        };
        Write::Set { key, value, when: SetIf::Always, expiry, reply: SetReply::Ok }
    }
}

/// A part of the keys in order that nobody has looked at yet.
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
