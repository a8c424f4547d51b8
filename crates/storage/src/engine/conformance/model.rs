//! The simplest possible engine: it keeps every version for ever and implements the rules of
//! visibility only. Every engine must give its answers.

use std::collections::BTreeMap;
use std::ops::Bound;

use keyspace::linear_hash::bit_reversed_hash;
use keyspace::{Cut, HashedKey, KeyHasher, Timestamp};

use super::super::contract::Visit;
use super::super::{Engine, Layout, Range, ReadResult, ScanCursor, Version, WrongLayout};
use super::is_before;

/// A version; no value is a tombstone.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub timestamp: Timestamp,
    pub value: Option<Vec<u8>>,
    pub expiry_ms: u64,
}

impl Written {
    fn is_dead(&self, at: Timestamp) -> bool {
        self.value.is_none() || (self.expiry_ms != 0 && self.expiry_ms <= at.millis())
    }

    /// It as a reader at a time sees it, if that sees a value.
    fn seen(&self, at: Timestamp) -> Option<Version<'_>> {
        let value = self.value.as_deref().filter(|_| !self.is_dead(at))?;
        Some(Version { value, expiry_ms: self.expiry_ms, timestamp: self.timestamp })
    }
}

/// See the front page.
#[derive(Clone)]
pub(super) struct Model {
    layout: Layout,
    hasher: KeyHasher,
    /// The versions of each key, oldest first.
    pub keys: BTreeMap<Vec<u8>, Vec<Written>>,
    pub safe_point: Timestamp,
    /// The times below it that can be read.
    pub pins: Vec<Timestamp>,
}

impl Model {
    pub fn new(layout: Layout, hasher: KeyHasher) -> Self {
        Self {
            layout,
            hasher,
            keys: BTreeMap::new(),
            safe_point: Timestamp::ZERO,
            pins: Vec::new(),
        }
    }

    fn visible(&self, key: &[u8], at: Timestamp) -> Option<Version<'_>> {
        let chain = self.keys.get(key)?;
        chain.iter().rev().find(|written| written.timestamp <= at)?.seen(at)
    }

    fn write(&mut self, key: &[u8], written: Written) {
        let chain = self.keys.entry(key.to_vec()).or_default();
        if chain.last().is_some_and(|last| last.timestamp == written.timestamp) {
            chain.pop();
        }
        chain.push(written);
    }

    fn flush_those(&mut self, at: Timestamp, is_meant: impl Fn(&[u8]) -> bool) {
        let names: Vec<Vec<u8>> = self.keys.keys().filter(|key| is_meant(key)).cloned().collect();
        for key in names {
            self.delete(&self.hasher.key(&key), at);
        }
    }

    fn counts_as_collected(&self, written: &Written) -> bool {
        written.timestamp <= self.safe_point && written.is_dead(self.safe_point)
    }

    /// Shows the keys with a value in order of their places, from one on, until `count` are seen.
    fn walk<P: Ord + Copy>(
        &self,
        place: impl Fn(&[u8]) -> P,
        (from, count): (P, usize),
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Option<P> {
        let places = self.keys.keys().map(|key| (place(key), key));
        let mut places: Vec<_> = places.filter(|(place, _)| *place >= from).collect();
        places.sort();
        for (number, (here, key)) in places.iter().enumerate() {
            if number >= count.max(1) && places[number - 1].0 != *here {
                return Some(*here);
            }
            if let Some(version) = self.visible(key, at) {
                visit(key, version);
            }
        }
        None
    }

    /// Cuts off the keys from `at` on.
    pub fn split_off(&mut self, at: &Cut) -> Self {
        let keys = std::mem::take(&mut self.keys);
        let (left, right) = keys.into_iter().partition(|(key, _)| is_before(key, at));
        self.keys = left;
        let mut layout = self.layout;
        if let (
            Layout::Hashed { end_slot, .. },
            Layout::Hashed { first_slot, .. },
            Cut::Slot(cut),
        ) = (&mut self.layout, &mut layout, at)
        {
            (*end_slot, *first_slot) = (*cut, *cut);
        }
        Self { keys: right, layout, pins: self.pins.clone(), ..*self }
    }

    /// Takes in the keys that follow.
    pub fn join(&mut self, right: Self) {
        if let (Layout::Hashed { end_slot, .. }, Layout::Hashed { end_slot: end, .. }) =
            (&mut self.layout, right.layout)
        {
            *end_slot = end;
        }
        let was_there =
            |half: &Self, pin: &Timestamp| *pin >= half.safe_point || half.pins.contains(pin);
        let of_higher = if self.safe_point > right.safe_point { &self.pins } else { &right.pins };
        let both = |pin: &&Timestamp| was_there(self, pin) && was_there(&right, pin);
        self.pins = of_higher.iter().filter(both).copied().collect();
        self.safe_point = self.safe_point.max(right.safe_point);
        self.keys.extend(right.keys);
    }

    /// What a dump from `low` to `at` restores to.
    pub fn cut(&self, low: Timestamp, at: Timestamp, pins: &[Timestamp]) -> Self {
        let mut cut = self.clone();
        for chain in cut.keys.values_mut() {
            chain.retain(|written| written.timestamp <= at);
        }
        (cut.safe_point, cut.pins) = (low, pins.to_vec());
        cut
    }
}

impl Engine for Model {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    fn newest(&self, key: &HashedKey<'_>, now: Timestamp) -> Option<Version<'_>> {
        self.visible(key.bytes, now)
    }

    fn at(&self, key: &HashedKey<'_>, at: Timestamp) -> ReadResult<'_> {
        if at < self.safe_point {
            return match (self.visible(key.bytes, at), self.at(key, self.safe_point)) {
                (Some(version), _) => ReadResult::Value(version),
                (None, ReadResult::Nil) => ReadResult::Nil,
                (None, ReadResult::Value(_) | ReadResult::NilYet) => ReadResult::NilYet,
            };
        }
        let chain = self.keys.get(key.bytes).map_or(&[][..], |chain| chain);
        let (seen, later) = chain.split_at(chain.partition_point(|w| w.timestamp <= at));
        match seen.last().map(|written| (written, written.seen(at))) {
            Some((_, Some(version))) => ReadResult::Value(version),
            Some((written, None)) if !self.counts_as_collected(written) => ReadResult::Nil,
            _ if !later.is_empty() => ReadResult::NilYet,
            _ => ReadResult::Nil,
        }
    }

    fn newest_timestamp(&self, key: &HashedKey<'_>) -> Timestamp {
        let head = self.keys.get(key.bytes).and_then(|chain| chain.last());
        let head = head.filter(|head| !self.counts_as_collected(head));
        head.map_or(Timestamp::ZERO, |head| head.timestamp)
    }

    fn len(&self, now: Timestamp) -> u64 {
        self.keys.keys().filter(|key| self.visible(key, now).is_some()).count() as u64
    }

    fn scan(
        &self,
        cursor: ScanCursor,
        count: usize,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<ScanCursor>, WrongLayout> {
        let Layout::Hashed { .. } = self.layout else {
            return Err(WrongLayout { needed: "hashed" });
        };
        let place = |key: &[u8]| {
            let HashedKey { slot, hash, .. } = self.hasher.key(key);
            ScanCursor { slot, hash }
        };
        Ok(self.walk(place, (cursor, count), at, visit))
    }

    fn scan_numbers(
        &self,
        from: u64,
        count: usize,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<u64>, WrongLayout> {
        let Layout::LinearHash = self.layout else {
            return Err(WrongLayout { needed: "of linear hashing" });
        };
        Ok(self.walk(bit_reversed_hash, (from, count), at, visit))
    }

    fn range(
        &self,
        range: &Range<'_>,
        at: Timestamp,
        visit: &mut Visit<'_>,
    ) -> Result<Option<&[u8]>, WrongLayout> {
        let Layout::Ordered = self.layout else { return Err(WrongLayout { needed: "ordered" }) };
        let is_behind_start = |key: &&[u8]| match range.start {
            Bound::Included(start) => *key >= start,
            Bound::Excluded(start) => *key > start,
            Bound::Unbounded => true,
        };
        let is_before_end = |key: &&[u8]| match range.end {
            Bound::Included(end) => *key <= end,
            Bound::Excluded(end) => *key < end,
            Bound::Unbounded => true,
        };
        let keys = self.keys.keys().map(Vec::as_slice);
        let mut keys: Vec<&[u8]> = keys.filter(is_behind_start).filter(is_before_end).collect();
        if range.reverse {
            keys.reverse();
        }
        let mut visited = 0;
        for (examined, key) in keys.iter().enumerate() {
            if examined > 0 && (examined >= range.examined_max || visited >= range.visited_max) {
                return Ok(Some(keys[examined - 1]));
            }
            if let Some(version) = self.visible(key, at) {
                visited += 1;
                visit(key, version);
            }
        }
        Ok(None)
    }

    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) -> bool {
        if expiry_ms != 0 && expiry_ms <= at.millis() {
            return self.delete(key, at);
        }
        let value = Some(parts.concat());
        self.write(key.bytes, Written { timestamp: at, value, expiry_ms });
        true
    }

    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool {
        let is_there = self.visible(key.bytes, at).is_some();
        if is_there {
            self.write(key.bytes, Written { timestamp: at, value: None, expiry_ms: 0 });
        }
        is_there
    }

    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool {
        let Some(value) = self.visible(key.bytes, at).map(|version| version.value.to_vec()) else {
            return false;
        };
        self.put(key, &[&value], expiry_ms, at);
        true
    }

    fn flush(&mut self, at: Timestamp) {
        self.flush_those(at, |_| true);
    }

    fn flush_within(&mut self, from: &Cut, end: &Cut, at: Timestamp) {
        self.flush_those(at, |key| !is_before(key, from) && is_before(key, end));
    }

    fn safe_point(&self) -> Timestamp {
        self.safe_point
    }

    fn raise_safe_point(&mut self, to: Timestamp) {
        self.safe_point = self.safe_point.max(to);
    }

    fn raise(&mut self, to: Timestamp, pins: &[Timestamp]) {
        if to >= self.safe_point {
            let can_be =
                |pin: &Timestamp| *pin < to && (*pin >= self.safe_point || self.pins.contains(pin));
            let mut pins: Vec<Timestamp> = pins.iter().copied().filter(can_be).collect();
            pins.sort();
            pins.dedup();
            (self.safe_point, self.pins) = (to, pins);
        }
    }

    fn pins(&self) -> &[Timestamp] {
        &self.pins
    }

    fn collect(&mut self, _: usize) -> bool {
        false
    }
}
