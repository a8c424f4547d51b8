//! What must every engine of versions be able to do? The contract that callers and tests rely on.
//!
//! [`Engine`] has the operations that answers depend on, and no others. Each engine decides for
//! itself how it lays out, dumps, splits and joins its versions. One set of scripts and one mirror
//! test every engine (`conformance`, `tests/golden/engine`).
//!
//! The memory engine implements it by direct calls; generic code is compiled for the engine that
//! it uses.
//!
//! # What every engine promises
//! 1. Timestamps of a key's writes never fall. A second write with the newest version's timestamp
//!    replaces that version.
//! 2. No answer depends on how far collection has come, only on safe point and pins.
//! 3. Writes may happen between two pages of a scan: it visits a key that is there throughout once.
//!    The engine chooses where a page ends, but must have shown all keys before that end.

use keyspace::{Cut, HashedKey, KeyHasher, Timestamp};

use super::{Layout, MemoryEngine, Range, ReadResult, ScanCursor, Version, WrongLayout};

/// What a walk shows: each key with its version.
pub type Visit<'v> = dyn FnMut(&[u8], Version<'_>) + 'v;

/// The versions of one shard's keys, whatever keeps them. Each operation is described at
/// [`MemoryEngine`]'s of the same name.
pub trait Engine {
    /// As [`MemoryEngine::layout`].
    fn layout(&self) -> Layout;
    /// As [`MemoryEngine::hasher`].
    fn hasher(&self) -> KeyHasher;
    /// As [`MemoryEngine::newest`].
    fn newest(&self, key: &HashedKey<'_>, now: Timestamp) -> Option<Version<'_>>;
    /// As [`MemoryEngine::at`].
    fn at(&self, key: &HashedKey<'_>, at: Timestamp) -> ReadResult<'_>;
    /// As [`MemoryEngine::newest_timestamp`].
    fn newest_timestamp(&self, key: &HashedKey<'_>) -> Timestamp;
    /// As [`MemoryEngine::len`].
    fn len(&self, now: Timestamp) -> u64;
    /// As [`MemoryEngine::is_empty`].
    fn is_empty(&self, now: Timestamp) -> bool {
        self.len(now) == 0
    }
    /// As [`MemoryEngine::scan`].
    ///
    /// # Errors
    /// [`WrongLayout`] if the shard has no slots.
    fn scan(
        &self,
        cursor: ScanCursor,
        count: usize,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<ScanCursor>, WrongLayout>;
    /// As [`MemoryEngine::scan_numbers`].
    ///
    /// # Errors
    /// [`WrongLayout`] if the shard is of another layout.
    fn scan_numbers(
        &self,
        from: u64,
        count: usize,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<u64>, WrongLayout>;
    /// As [`MemoryEngine::range`].
    ///
    /// # Errors
    /// [`WrongLayout`] if the shard is not ordered.
    fn range(
        &self,
        range: &Range<'_>,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<&[u8]>, WrongLayout>;
    /// As [`MemoryEngine::put`].
    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) -> bool;
    /// As [`MemoryEngine::delete`].
    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool;
    /// As [`MemoryEngine::set_expiry`].
    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool;
    /// As [`MemoryEngine::flush`].
    fn flush(&mut self, at: Timestamp);
    /// As [`MemoryEngine::flush_within`].
    fn flush_within(&mut self, from: &Cut, end: &Cut, at: Timestamp);
    /// As [`MemoryEngine::safe_point`].
    fn safe_point(&self) -> Timestamp;
    /// As [`MemoryEngine::raise_safe_point`].
    fn raise_safe_point(&mut self, to: Timestamp);
    /// As [`MemoryEngine::raise`].
    fn raise(&mut self, to: Timestamp, pins: &[Timestamp]);
    /// As [`MemoryEngine::pins`].
    fn pins(&self) -> &[Timestamp];
    /// As [`MemoryEngine::collect`].
    fn collect(&mut self, budget_records: usize) -> bool;
}

impl Engine for MemoryEngine {
    fn layout(&self) -> Layout {
        self.layout()
    }

    #[inline]
    fn hasher(&self) -> KeyHasher {
        self.hasher()
    }

    #[inline]
    fn newest(&self, key: &HashedKey<'_>, now: Timestamp) -> Option<Version<'_>> {
        self.newest(key, now)
    }

    fn at(&self, key: &HashedKey<'_>, at: Timestamp) -> ReadResult<'_> {
        self.at(key, at)
    }

    fn newest_timestamp(&self, key: &HashedKey<'_>) -> Timestamp {
        self.newest_timestamp(key)
    }

    fn len(&self, now: Timestamp) -> u64 {
        self.len(now)
    }

    fn scan(
        &self,
        cursor: ScanCursor,
        count: usize,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<ScanCursor>, WrongLayout> {
        self.scan(cursor, count, at, visit)
    }

    fn scan_numbers(
        &self,
        from: u64,
        count: usize,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<u64>, WrongLayout> {
        self.scan_numbers(from, count, at, visit)
    }

    fn range(
        &self,
        range: &Range<'_>,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<&[u8]>, WrongLayout> {
        self.range(range, at, visit)
    }

    #[inline]
    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) -> bool {
        self.put(key, parts, expiry_ms, at)
    }

    #[inline]
    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool {
        self.delete(key, at)
    }

    #[inline]
    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool {
        self.set_expiry(key, expiry_ms, at)
    }

    fn flush(&mut self, at: Timestamp) {
        self.flush(at);
    }

    fn flush_within(&mut self, from: &Cut, end: &Cut, at: Timestamp) {
        self.flush_within(from, end, at);
    }

    fn safe_point(&self) -> Timestamp {
        self.safe_point()
    }

    fn raise_safe_point(&mut self, to: Timestamp) {
        self.raise_safe_point(to);
    }

    fn raise(&mut self, to: Timestamp, pins: &[Timestamp]) {
        self.raise(to, pins);
    }

    fn pins(&self) -> &[Timestamp] {
        self.pins()
    }

    fn collect(&mut self, budget_records: usize) -> bool {
        self.collect(budget_records)
    }
}
