//! Two engines as one: each operation is done on both, and every answer of the first is compared
//! with the second's. It is an engine itself, so whatever runs on one runs on two.

use keyspace::linear_hash::bit_reversed_hash;
use keyspace::{Cut, HashedKey, KeyHasher, Timestamp};

use super::super::contract::Visit;
use super::super::{Engine, Layout, Range, ReadResult, ScanCursor, Version, WrongLayout};

/// See the front page.
pub(super) struct Mirror<A, B> {
    pub a: A,
    pub b: B,
}

/// A key and its version, as a walk has shown it.
type VisitedVersion = (Vec<u8>, Vec<u8>, u64, Timestamp);

fn shown(key: &[u8], version: Version<'_>) -> VisitedVersion {
    (key.to_vec(), version.value.to_vec(), version.expiry_ms, version.timestamp)
}

/// Walks a page in the first engine. The second one is walked to its end, and must show the same
/// up to where the page ends: where a page ends is each engine's own choice.
fn same_page<N: Copy>(
    page: impl FnOnce(&mut Visit<'_>) -> Result<Option<N>, WrongLayout>,
    rest: impl FnOnce(&mut Visit<'_>) -> Result<Option<N>, WrongLayout>,
    is_of_page: impl Fn(&[u8], N) -> bool,
    visit: &mut Visit<'_>,
) -> Result<Option<N>, WrongLayout> {
    let (mut of_page, mut of_rest) = (Vec::new(), Vec::new());
    let end = page(&mut |key, version| {
        of_page.push(shown(key, version));
        visit(key, version);
    });
    let rest_end = rest(&mut |key, version| of_rest.push(shown(key, version)));
    assert_eq!(end.err(), rest_end.err(), "layouts differ");
    if let Ok(Some(end)) = end {
        of_rest.retain(|(key, ..)| is_of_page(key, end));
    }
    assert_eq!(of_page, of_rest, "a page differs");
    end
}

impl<A: Engine, B: Engine> Engine for Mirror<A, B> {
    fn layout(&self) -> Layout {
        assert_eq!(self.a.layout(), self.b.layout());
        self.a.layout()
    }

    fn hasher(&self) -> KeyHasher {
        self.a.hasher()
    }

    fn newest(&self, key: &HashedKey<'_>, now: Timestamp) -> Option<Version<'_>> {
        let (a, b) = (self.a.newest(key, now), self.b.newest(key, now));
        assert_eq!(a, b, "newest of {:?} at {now:?}", key.bytes);
        a
    }

    fn at(&self, key: &HashedKey<'_>, at: Timestamp) -> ReadResult<'_> {
        let (a, b) = (self.a.at(key, at), self.b.at(key, at));
        assert_eq!(a, b, "{:?} at {at:?}", key.bytes);
        a
    }

    fn newest_timestamp(&self, key: &HashedKey<'_>) -> Timestamp {
        let (a, b) = (self.a.newest_timestamp(key), self.b.newest_timestamp(key));
        assert_eq!(a, b, "when {:?} changed", key.bytes);
        a
    }

    fn len(&self, now: Timestamp) -> u64 {
        let (a, b) = (self.a.len(now), self.b.len(now));
        assert_eq!(a, b, "keys at {now:?}");
        a
    }

    fn scan(
        &self,
        cursor: ScanCursor,
        count: usize,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<ScanCursor>, WrongLayout> {
        let is_before = |key: &[u8], end: ScanCursor| {
            let HashedKey { slot, hash, .. } = self.a.hasher().key(key);
            ScanCursor { slot, hash } < end
        };
        let page = |visit: &mut Visit<'_>| self.a.scan(cursor, count, at, visit);
        let rest = |visit: &mut Visit<'_>| self.b.scan(cursor, usize::MAX, at, visit);
        same_page(page, rest, is_before, visit)
    }

    fn scan_numbers(
        &self,
        from: u64,
        count: usize,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<u64>, WrongLayout> {
        let page = |visit: &mut Visit<'_>| self.a.scan_numbers(from, count, at, visit);
        let rest = |visit: &mut Visit<'_>| self.b.scan_numbers(from, usize::MAX, at, visit);
        same_page(page, rest, |key, end| bit_reversed_hash(key) < end, visit)
    }

    fn range(
        &self,
        range: &Range<'_>,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<&[u8]>, WrongLayout> {
        let whole = Range { visited_max: usize::MAX, examined_max: usize::MAX, ..*range };
        let is_of_page = |key: &[u8], last| if range.reverse { key >= last } else { key <= last };
        let page = |visit: &mut Visit<'_>| self.a.range(range, at, visit);
        let rest = |visit: &mut Visit<'_>| self.b.range(&whole, at, visit);
        same_page(page, rest, is_of_page, visit)
    }

    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) -> bool {
        let a = self.a.put(key, parts, expiry_ms, at);
        assert_eq!(a, self.b.put(key, parts, expiry_ms, at), "whether {:?} changed", key.bytes);
        a
    }

    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool {
        let (a, b) = (self.a.delete(key, at), self.b.delete(key, at));
        assert_eq!(a, b, "whether {:?} was there to delete at {at:?}", key.bytes);
        a
    }

    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool {
        let (a, b) = (self.a.set_expiry(key, expiry_ms, at), self.b.set_expiry(key, expiry_ms, at));
        assert_eq!(a, b, "whether {:?} was there to expire at {at:?}", key.bytes);
        a
    }

    fn flush(&mut self, at: Timestamp) {
        self.a.flush(at);
        self.b.flush(at);
    }

    fn flush_within(&mut self, from: &Cut, end: &Cut, at: Timestamp) {
        self.a.flush_within(from, end, at);
        self.b.flush_within(from, end, at);
    }

    fn safe_point(&self) -> Timestamp {
        assert_eq!(self.a.safe_point(), self.b.safe_point());
        self.a.safe_point()
    }

    fn raise_safe_point(&mut self, to: Timestamp) {
        self.a.raise_safe_point(to);
        self.b.raise_safe_point(to);
    }

    fn raise(&mut self, to: Timestamp, pins: &[Timestamp]) {
        self.a.raise(to, pins);
        self.b.raise(to, pins);
    }

    fn pins(&self) -> &[Timestamp] {
        assert_eq!(self.a.pins(), self.b.pins());
        self.a.pins()
    }

    fn collect(&mut self, budget_records: usize) -> bool {
        self.b.collect(budget_records);
        self.a.collect(budget_records)
    }
}
