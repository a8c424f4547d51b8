//! Which value did a key have at a time? The versions of one shard's keys, in memory.
//!
//! Every write makes a new version, stamped with its log entry's timestamp. Reads choose a time
//! and see the newest version at or before it, so they never wait for writers and several reads
//! at one time fit together:
//!
//! ```text
//!           safe point
//!  key         ┊  time →   10      20      30   now     newest   at 12   at 25
//!  apple  ──a──┊──────────●b──────────────●c─────┊      c        b       b
//!  melon  ──m──┊──────────────────✗──────────────┊      -        m       nil
//!  pear        ┊                          ●p─────┊      p        nil yet nil yet
//!  plum   ──x──┊─────●y┄┄┄┄┄┄┄┄expired┄┄┄┄┄┄┄┄┄┄┄┊      -        y       nil
//!         ─────┊──────────────────────────flush F: everything left of it is hidden from F on
//! ```
//! A version is one allocation (`record`); the versions of a key form a chain, newest first. An
//! index finds the head of the chain: a sorted table per slot (`slots`) or a tree (`tree`).
//!
//! **Flush** (G19) does not touch keys: it sets the whole index aside, as an *era* that ends at
//! the flush, and begins an empty one (`era`). Reads below the flush go to the era of their
//! time. An era of few keys is emptied by tombstones instead; reads cannot tell the difference.
//!
//! **Collection** (ALGORITHMS 8.3). No read is below the safe point, but at a pin. Per key the
//! newest version at or below it and each pin stays, and everything above. If the newest one is an
//! end (tombstone, expiry, flush), it is freed with all that it ended. See `collect` and `pins`.
//!
//! # Invariants
//! 1. Timestamps strictly fall along a chain; a write below its key's head is refused by an assert.
//! 2. A record is reachable exactly once by index and chains, and at most once by the queue of
//!    superseding records; a record in the queue is never freed (asserted in `Record::free`).
//! 3. A record is in the queue from the moment something older hangs on it, or it is a tombstone,
//!    until the queue pops it. Hence what hangs below a popped record is there for pins alone.
//! 4. Along each chain, older records leave the queue first.
//! 5. A value never expires at or before its own timestamp: written so, it is a tombstone. Hence
//!    what has expired at the safe point is older than the safe point.
//! 6. `live_keys`, `live_bytes` and `expiring` of an era describe exactly its heads that are not
//!    tombstones; they never count what is superseded.
//! 7. Answers of reads do not depend on how far collection has come, only on the safe point and the
//!    pins. An end at or below the safe point counts as collected, whether it is or not.
//!
//! # What it does not know
//! Clocks (every time comes with the call), logs, locks, transactions, permissions: the caller
//! refuses times that are not [`MemoryEngine::is_readable`], and keys outside its arc.
//!
//! # Caveats
//! Counting keys that have expired but are not yet collected takes a step for each. A piece of a
//! dump never cuts one key's history in two, however long that is ([`cut_dump`] may). After a
//! restore, [`MemoryEngine::point_to_free`] is rough until the next [`MemoryEngine::collect`].
//! Bytes are those asked of the allocator, which rounds up.

mod changes;
mod collect;
#[cfg(test)]
mod conformance;
mod contract;
pub mod digest;
mod dump;
mod equal;
mod era;
mod history;
mod join;
mod pins;
mod record;
mod scan;
mod slots;
mod split;
mod tree;
mod types;

use std::collections::VecDeque;

use keyspace::{Cut, HashedKey, KeyHasher, Timestamp};

pub use changes::{ChangesCursor, KeyChange};
pub use contract::{Engine, Visit};
pub use dump::{DumpCursor, PieceLimits, RestoreError, cut_dump, retime_dump};
pub use era::ExpiryUsage;
pub use history::Change;
pub use record::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use scan::{Range, ScanCursor};
pub use types::{Layout, ReadResult, Settings, Usage, Version, WrongLayout};

use collect::Queue;
use era::{Era, FlushedEra, Place};
use pins::{Held, Hold};
use record::{Body, Record};
use split::is_right;

/// The versions of one shard's keys.
pub struct MemoryEngine {
    layout: Layout,
    hasher: KeyHasher,
    flush_in_place_keys_max: u64,
    current: Era,
    /// Eras ended by flushes, oldest first.
    retired: VecDeque<FlushedEra>,
    queue: Queue,
    safe_point: Timestamp,
    pins: Vec<Timestamp>,
    holds: Vec<Hold>,
    held: Held,
    /// Whether a put of what its key has changes nothing.
    skips_equal: bool,
    versions: u64,
    version_bytes: u64,
    /// Keys that expired and left the index, since the caller last took the number.
    expired_keys: u64,
}

// SAFETY: records are owned by the engine alone. Under `&MemoryEngine` they, and the cells in the
// tree, are only read; every change needs `&mut MemoryEngine`.
unsafe impl Send for MemoryEngine {}
// SAFETY: as above.
unsafe impl Sync for MemoryEngine {}

impl MemoryEngine {
    /// An empty engine. The hasher must be the one that made the keys it will be given.
    ///
    /// Panics if the slots do not rise or are above [`keyspace::SLOTS`].
    pub fn new(layout: Layout, settings: impl Into<Settings>) -> Self {
        let Settings { hasher, flush_in_place_keys_max } = settings.into();
        if let Layout::Hashed { first_slot, end_slot } = layout {
            assert!(first_slot < end_slot && end_slot <= keyspace::SLOTS, "slots must rise");
        }
        Self {
            layout,
            hasher,
            flush_in_place_keys_max,
            current: Era::new(layout, 0, Timestamp::ZERO),
            retired: VecDeque::new(),
            queue: Queue::default(),
            safe_point: Timestamp::ZERO,
            pins: Vec::new(),
            holds: Vec::new(),
            held: Held::default(),
            skips_equal: false,
            versions: 0,
            version_bytes: 0,
            expired_keys: 0,
        }
    }

    /// How the keys are laid out.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// What hashes its keys.
    pub fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The value of a key now, unless it has none or has expired at `now`. `now` is at or above
    /// every timestamp written.
    #[inline(always)]
    pub fn newest(&self, key: &HashedKey<'_>, now: Timestamp) -> Option<Version<'_>> {
        let head = self.current.index.find(key)?;
        (!head.is_dead(now)).then(|| Version::of(head))
    }

    /// The value of a key at a time at or above the safe point, or a pin; else the answer means
    /// nothing.
    pub fn at(&self, key: &HashedKey<'_>, at: Timestamp) -> ReadResult<'_> {
        if at < self.safe_point {
            return self.at_pin(key, at);
        }
        let mut later = false;
        let mut chain = None;
        if at >= self.current.start {
            chain = self.current.index.find(key);
        } else {
            later = self.current.index.find(key).is_some();
            for retired in self.retired.iter().rev() {
                let head = retired.era.index.find(key);
                if at >= retired.era.start {
                    chain = head;
                    break;
                }
                later |= head.is_some();
            }
        }
        while let Some(record) = chain
            && record.timestamp() > at
        {
            later = true;
            chain = record.older();
        }
        match chain {
            Some(record) if !record.is_dead(at) => ReadResult::Value(Version::of(record)),
            Some(record) if !self.counts_as_collected(record) => ReadResult::Nil,
            // Nothing in the era of this time. What an earlier flush ended was there once.
            None if self.flushed_head(key, at).is_some() => ReadResult::Nil,
            _ if later => ReadResult::NilYet,
            _ => ReadResult::Nil,
        }
    }

    /// When the key last changed: the timestamp of its newest version, tombstones and flushes
    /// included, or zero if it has none above the safe point and no value. Expiry is no change.
    pub fn newest_timestamp(&self, key: &HashedKey<'_>) -> Timestamp {
        match self.current.index.find(key) {
            Some(head) if self.counts_as_collected(head) => Timestamp::ZERO,
            Some(head) => head.timestamp(),
            None => match self.flushed_head(key, Timestamp::MAX) {
                Some((head, end)) if !head.is_dead(end) => end,
                Some((head, _)) => head.timestamp(),
                None => Timestamp::ZERO,
            },
        }
    }

    /// The newest version of a key among those hidden by a flush at or below `at`, with that
    /// flush; none if it counts as collected.
    fn flushed_head(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<(Record, Timestamp)> {
        let hidden = self.retired.iter().rev().filter(|retired| retired.end <= at);
        for retired in hidden.take_while(|retired| retired.end > self.safe_point) {
            if let Some(head) = retired.era.index.find(key) {
                return (!self.counts_as_collected(head)).then_some((head, retired.end));
            }
        }
        None
    }

    /// Ended at or below the safe point: collection may or may not have taken it (invariant 7).
    fn counts_as_collected(&self, record: Record) -> bool {
        record.timestamp() <= self.safe_point && record.is_dead(self.safe_point)
    }

    /// The era a read at `at` looks into.
    fn era_at(&self, at: Timestamp) -> Option<&Era> {
        if at >= self.current.start {
            return Some(&self.current);
        }
        let mut retired = self.retired.iter().rev().map(|retired| &retired.era);
        retired.find(|era| at >= era.start)
    }

    /// The version of a chain that is seen at `at`.
    fn visible(head: Record, at: Timestamp) -> Option<Record> {
        let mut chain = Some(head);
        while let Some(record) = chain {
            if record.timestamp() <= at {
                return (!record.is_dead(at)).then_some(record);
            }
            chain = record.older();
        }
        None
    }

    /// Fetches the key's table entry ahead of its use, for callers with several keys at hand.
    /// Nothing is fetched for a key outside the arc; a flush names none.
    #[inline]
    pub fn prefetch(&self, key: &HashedKey<'_>) {
        if let era::Index::Hashed(tables) = &self.current.index {
            tables.prefetch_entry(key);
        }
    }

    /// Fetches the key's newest version ahead of its use; best some time after
    /// [`MemoryEngine::prefetch`] of the same key.
    #[inline]
    pub fn prefetch_record(&self, key: &HashedKey<'_>) {
        if let era::Index::Hashed(tables) = &self.current.index {
            tables.prefetch_record(key);
        }
    }

    /// Writes a value: the parts one after the other. `expiry_ms` 0 never expires; one that has
    /// passed at `timestamp` makes the write a deletion. With the timestamp of the newest version
    /// it replaces that version. Returns whether the key has changed: not if it had that value, and
    /// such writes are skipped ([`MemoryEngine::skip_equal_writes`]).
    ///
    /// Panics on a timestamp below the key's newest, on a slot outside the layout, and on sizes
    /// above [`KEY_BYTES_MAX`] and [`VALUE_BYTES_MAX`].
    pub fn put(
        &mut self,
        key: &HashedKey<'_>,
        parts: &[&[u8]],
        expiry_ms: u64,
        timestamp: Timestamp,
    ) -> bool {
        if expiry_ms != 0 && expiry_ms <= timestamp.millis() {
            return self.delete(key, timestamp);
        }
        let (place, head) = self.current.index.locate(key);
        if self.skips_equal && equal::is_same(head, parts, expiry_ms, timestamp) {
            return false;
        }
        self.write(key, place, head, Body::Value { parts, expiry_ms }, timestamp);
        true
    }

    /// Deletes a key: a tombstone, if it has a value at `timestamp`. Returns whether it had.
    ///
    /// Panics as [`MemoryEngine::put`].
    pub fn delete(&mut self, key: &HashedKey<'_>, timestamp: Timestamp) -> bool {
        let (place, head) = self.current.index.locate(key);
        let live = head.is_some_and(|head| !head.is_dead(timestamp));
        if live {
            self.write(key, place, head, Body::Tombstone, timestamp);
        }
        live
    }

    /// Changes when a key expires (0: never), as a version of its own with the same value.
    /// Returns whether there was a value at `timestamp`.
    ///
    /// Panics as [`MemoryEngine::put`].
    pub fn set_expiry(
        &mut self,
        key: &HashedKey<'_>,
        expiry_ms: u64,
        timestamp: Timestamp,
    ) -> bool {
        let (place, head) = self.current.index.locate(key);
        let Some(head) = head.filter(|head| !head.is_dead(timestamp)) else { return false };
        if expiry_ms != 0 && expiry_ms <= timestamp.millis() {
            self.write(key, place, Some(head), Body::Tombstone, timestamp);
        } else if head.timestamp() == timestamp {
            self.current.discount(head);
            // SAFETY: `&mut self`; the expiry is handed out by value only.
            unsafe { head.set_expiry(expiry_ms) };
            self.current.count(head);
        } else {
            let body = Body::Value { parts: &[head.value()], expiry_ms };
            self.write(key, place, Some(head), body, timestamp);
        }
        true
    }

    /// Hides every key from `timestamp` on. Writes that follow with the same timestamp are seen.
    /// Takes a step for each key that has expired and is not collected, and is constant time else:
    /// [`MemoryEngine::collect`] frees the hidden versions later.
    ///
    /// Panics on a timestamp below any write before.
    pub fn flush(&mut self, timestamp: Timestamp) {
        assert!(timestamp >= self.current.newest, "a flush before the newest write");
        self.current.newest = timestamp;
        if self.current.index.len() <= self.flush_in_place_keys_max {
            return self.flush_in_place(timestamp, |_| true);
        }
        self.expired_keys += self.current.expiring.expired(timestamp);
        let next = Era::new(self.layout, self.current.number + 1, timestamp);
        let era = std::mem::replace(&mut self.current, next);
        self.retired.push_back(FlushedEra { era, end: timestamp, is_over: false });
    }

    /// As [`MemoryEngine::flush`], of the keys from `from` on and before `end` alone: slots of a
    /// hashed engine, keys or numbers of another, or its ends as slots 0 and [`keyspace::SLOTS`].
    /// Takes a step for each key that there is.
    ///
    /// Panics on a timestamp below any write of these keys before.
    pub fn flush_within(&mut self, from: &Cut, end: &Cut, timestamp: Timestamp) {
        self.flush_in_place(timestamp, |head| is_right(from, head) && !is_right(end, head));
    }

    /// As [`MemoryEngine::flush_within`], of what a transaction has flushed that was committed at
    /// `timestamp`: its own writes at that time stay. So it may be done again. `is_all`: no other
    /// keys are here. That takes constant time, if nothing here is as new.
    pub fn flush_older(&mut self, from: &Cut, end: &Cut, is_all: bool, timestamp: Timestamp) {
        if is_all && timestamp > self.current.newest {
            return self.flush(timestamp);
        }
        self.flush_in_place(timestamp, |head| {
            head.timestamp() < timestamp && is_right(from, head) && !is_right(end, head)
        });
    }

    /// As [`MemoryEngine::flush`], key by key, of those that are meant.
    fn flush_in_place(&mut self, timestamp: Timestamp, is_meant: impl Fn(Record) -> bool) {
        let heads = self.current.index.heads_from(None);
        let heads: Vec<Record> = heads.filter(|head| is_meant(*head)).collect();
        for head in heads {
            // A copy, for the record may go while its key is still needed.
            let key = head.key().to_vec();
            self.delete(&self.hasher.key(&key), timestamp);
        }
    }

    /// Puts a version at the head of a key's chain, or in the place of a head of the same time.
    fn write(
        &mut self,
        key: &HashedKey<'_>,
        place: Place,
        head: Option<Record>,
        body: Body<'_>,
        timestamp: Timestamp,
    ) {
        assert!(timestamp >= self.current.start, "a write before the last flush");
        self.current.newest = self.current.newest.max(timestamp);
        let Some(head) = head else {
            let new = self.make(key, body, timestamp, None);
            self.current.index.insert(key, place, new);
            self.current.count(new);
            return;
        };
        self.current.discount(head);
        self.expired_keys += u64::from(head.has_expired(timestamp));
        if timestamp > head.timestamp() {
            let new = self.make(key, body, timestamp, Some(head));
            self.current.index.set_head(key, place, new);
            self.current.count(new);
            return;
        }
        assert!(timestamp == head.timestamp(), "a write below the newest version of its key");
        let tombstone = matches!(body, Body::Tombstone);
        if tombstone == head.is_tombstone() && body.value_len() == head.value_len() {
            // SAFETY: `&mut self`, and the body's parts are never borrowed from this record:
            // callers outside cannot hold a borrow, and `set_expiry` does not come here.
            unsafe { head.overwrite(body) };
            self.current.count(head);
            return;
        }
        // SAFETY: `&mut self`; the chain moves on to the record that takes the place of `head`.
        let older = unsafe { head.take_older() };
        let new = self.replace(key, body, timestamp, older, head);
        self.current.index.set_head(key, place, new);
        self.current.count(new);
        self.versions -= 1;
        self.version_bytes -= head.bytes();
        // SAFETY: `head` has left index, chain and queue.
        unsafe { head.free() };
    }

    /// Makes a record and counts it; queues it if it supersedes something.
    fn make(
        &mut self,
        key: &HashedKey<'_>,
        body: Body<'_>,
        timestamp: Timestamp,
        older: Option<Record>,
    ) -> Record {
        let new = Record::new(key.bytes, body, timestamp, older);
        self.versions += 1;
        self.version_bytes += new.bytes();
        if older.is_some() || new.is_tombstone() {
            self.queue.push_written(new);
        }
        new
    }

    /// As [`MemoryEngine::make`], taking over the place in the queue of the record it replaces.
    fn replace(
        &mut self,
        key: &HashedKey<'_>,
        body: Body<'_>,
        timestamp: Timestamp,
        older: Option<Record>,
        replaced: Record,
    ) -> Record {
        let new = Record::new(key.bytes, body, timestamp, older);
        self.versions += 1;
        self.version_bytes += new.bytes();
        if replaced.is_queued() {
            self.queue.replace(replaced, new);
        } else if older.is_some() || new.is_tombstone() {
            // What hung under a record that was popped now hangs under one in the queue.
            older.inspect(|older| self.held.remove(*older));
            self.queue.push_written(new);
        }
        new
    }

    /// How many keys have a value at `now`, which is at or above every timestamp written.
    pub fn len(&self, now: Timestamp) -> u64 {
        self.current.live_keys - self.current.expiring.expired(now)
    }

    /// Whether no key has a value at `now`.
    pub fn is_empty(&self, now: Timestamp) -> bool {
        self.len(now) == 0
    }

    /// The keys with an expiry at `now`, which is at or above every timestamp written.
    pub fn expiry_usage(&self, now: Timestamp) -> ExpiryUsage {
        self.current.expiring.usage(now)
    }

    /// How many keys ended by their expiry and left the index since this was last taken.
    pub fn take_expired_keys(&mut self) -> u64 {
        std::mem::take(&mut self.expired_keys)
    }

    /// What [`MemoryEngine::take_expired_keys`] would give.
    pub fn expired_keys(&self) -> u64 {
        self.expired_keys
    }

    /// When the next value expires, or did and is not collected yet: milliseconds since 1970.
    pub fn next_expiry_millis(&self) -> Option<u64> {
        self.current.expiring.first().map(|entry| entry.expiry_ms())
    }

    /// How much there is, as counted along the way.
    pub fn usage(&self) -> Usage {
        let retired_index = self.retired.iter().map(|retired| retired.era.index.bytes());
        Usage {
            live_bytes: self.current.live_bytes,
            old_bytes: self.version_bytes - self.current.live_bytes,
            index_bytes: self.current.index.bytes() + retired_index.sum::<u64>(),
            keys: self.current.live_keys,
            versions: self.versions,
        }
    }
}

impl Drop for MemoryEngine {
    fn drop(&mut self) {
        let retired = self.retired.iter_mut().map(|retired| &mut retired.era);
        for era in retired.chain([&mut self.current]) {
            era.index.drain(usize::MAX, |head| {
                let mut chain = Some(head);
                while let Some(record) = chain {
                    chain = record.older();
                    // SAFETY: every record is reached once, and the queue is not looked at again.
                    unsafe {
                        record.set_queued(false);
                        record.free();
                    }
                }
            });
        }
    }
}
