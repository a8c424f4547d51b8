//! Which times below the safe point can be read? Pins: times that leases keep readable.
//!
//! ```text
//!                  pin     safe point
//!   k:  a10  b20    ┊  c40    ┊   d60      at the pin b, at the safe point c
//!  ─────────────────┊─────────┊───────     a10 goes; without the pin b20 goes as well
//! ```
//! Of each key the newest version at or below each pin stays (SAFETY G21). A hold
//! ([`MemoryEngine::hold`]) is something else: everything from its time on stays, pins included.
//!
//! **What goes when.** When a version has left the queue of superseding records, all that hangs
//! below it is *held*: kept for pins alone. What a pin needs is decided once, when the record above
//! it leaves the queue, for no pin comes later: new ones are at or above the safe point. When a pin
//! ends, a walk over all keys frees what was held for it alone, if anything is held (`prune`).
//!
//! ```text
//!   record v under w     stays if a pin p has v ≤ p < w, and sees a value in v, or v is an end
//!                        and something older stays
//!   key expired at e     its head goes, or gets a tombstone at e on top if a pin saw it before
//!   era flushed at e     stays while there is a pin in it; its heads are under e
//! ```
//!
//! # Invariants
//! 1. Pins rise, and lie below the safe point.
//! 2. A value that is read at a pin never changes while the pin stays. Nothing is "not yet" there
//!    if the key has a value at the safe point, or was written above it.
//! 3. `held` counts exactly the records that hang under a record that is not in the queue.

use std::collections::{BTreeMap, VecDeque};

use keyspace::{HashedKey, Timestamp};

use super::era::{Era, FlushedEra};
use super::record::{Body, Record};
use super::{ChangesCursor, MemoryEngine, ReadResult, Version};

/// Keeps everything from a time on, for a reader that goes piece by piece.
pub(super) struct Hold {
    pub(super) at: Timestamp,
    /// The pins when it began.
    pub(super) pins: Vec<Timestamp>,
}

/// Versions in chains that only pins keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) versions: u64,
    pub(super) bytes: u64,
}

impl Held {
    pub(super) fn add(&mut self, record: Record) {
        self.versions += 1;
        self.bytes += record.bytes();
    }

    pub(super) fn remove(&mut self, record: Record) {
        self.versions -= 1;
        self.bytes -= record.bytes();
    }
}

/// How far the walk over an era has come that frees what pins need no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Prune {
    /// There is nothing to do.
    #[default]
    Done,
    /// It goes on before this key, or at its beginning.
    From(Option<Box<[u8]>>),
}

/// Whether a pin lies in a span of time, and the lowest that does.
pub(super) fn lowest_pin(pins: &[Timestamp], from: Timestamp, end: Timestamp) -> Option<Timestamp> {
    let first = pins.partition_point(|pin| *pin < from);
    pins.get(first).copied().filter(|pin| *pin < end)
}

impl MemoryEngine {
    /// The times below the safe point that can be read, rising.
    pub fn pins(&self) -> &[Timestamp] {
        &self.pins
    }

    /// Whether reads at this time are answered.
    #[inline]
    pub fn is_readable(&self, at: Timestamp) -> bool {
        at >= self.safe_point || self.pins.binary_search(&at).is_ok()
    }

    /// The bytes that are kept for pins alone, about.
    pub fn pinned_bytes(&self) -> u64 {
        let is_ended = |era: &&FlushedEra| era.end <= self.safe_point;
        let eras = self.retired.iter().take_while(is_ended);
        self.held.bytes + eras.map(|ended| ended.era.live_bytes).sum::<u64>()
    }

    /// Adds for each pin how many bytes it alone keeps: they go when it ends. Looks at about so
    /// many keys from a cursor on, and returns where to go on, or none at the end.
    pub fn pin_costs(
        &self,
        cursor: &ChangesCursor,
        keys_max: usize,
        costs: &mut BTreeMap<Timestamp, u64>,
    ) -> Option<ChangesCursor> {
        let eras = self.retired.iter().map(|retired| (&retired.era, Some(retired.end)));
        let (mut left, mut from) = (keys_max.max(1), cursor.key.as_deref());
        for (era, end) in eras.chain([(&self.current, None)]) {
            let is_pinned = end.is_some_and(|end| end <= self.safe_point);
            if era.number < cursor.era || (self.held.versions == 0 && !is_pinned) {
                continue;
            }
            if era.number > cursor.era {
                from = None;
            }
            let mut look = |head: Record| {
                let (mut chain, mut newer) = (Some(head), end);
                while let Some(record) = chain {
                    let is_kept_for_pins = newer.is_some_and(|newer| newer <= self.safe_point);
                    if let Some(newer) = newer.filter(|_| is_kept_for_pins) {
                        let first = self.pins.partition_point(|pin| *pin < record.timestamp());
                        let end = self.pins.partition_point(|pin| *pin < newer);
                        if end == first + 1 {
                            *costs.entry(self.pins[first]).or_default() += record.bytes();
                        }
                    }
                    (newer, chain) = (Some(record.timestamp()), record.older());
                }
            };
            if let Some(key) = self.walk(era, from, &mut left, &mut look) {
                return Some(ChangesCursor { era: era.number, key: Some(key) });
            }
        }
        None
    }

    /// Raises the safe point, with the pins that there are then. Those at or above it count for
    /// nothing. At the same safe point pins can only end; a lower one changes nothing.
    ///
    /// A pin below the safe point that was none is left out: its versions may be gone.
    pub fn raise(&mut self, to: Timestamp, pins: &[Timestamp]) {
        if to < self.safe_point {
            return;
        }
        let below = self.safe_point;
        let mut now: Vec<Timestamp> = pins.iter().copied().filter(|pin| *pin < to).collect();
        now.sort_unstable();
        now.dedup();
        now.retain(|pin| *pin >= below || self.pins.binary_search(pin).is_ok());
        let has_ended = self.pins.iter().any(|pin| now.binary_search(pin).is_err());
        self.safe_point = to;
        self.pins = now;
        if has_ended {
            self.prune_all();
        }
    }

    /// The pins of an engine whose other half has these.
    pub(super) fn join_pins(&mut self, (safe_point, pins): (Timestamp, Vec<Timestamp>)) {
        let ours = (self.safe_point, std::mem::take(&mut self.pins));
        let (low, high) = match ours.0 <= safe_point {
            true => (ours, (safe_point, pins)),
            false => ((safe_point, pins), ours),
        };
        let stays = |pin: &Timestamp| *pin >= low.0 || low.1.binary_search(pin).is_ok();
        self.pins = high.1.into_iter().filter(stays).collect();
        self.safe_point = high.0;
        self.prune_all();
    }

    /// What collection must not free: the pins, and those of readers that go piece by piece.
    pub(super) fn all_pins(&self) -> Vec<Timestamp> {
        let mut pins = self.pins.clone();
        for hold in &self.holds {
            pins.extend_from_slice(&hold.pins);
        }
        if !self.holds.is_empty() {
            pins.sort_unstable();
            pins.dedup();
        }
        pins
    }

    /// Has the next rounds of collection look for what is held for no pin any more.
    pub(super) fn prune_all(&mut self) {
        let retired = self.retired.iter_mut().map(|retired| &mut retired.era);
        retired.chain([&mut self.current]).for_each(|era| era.prune = Prune::From(None));
    }

    /// The value of a key at a pin.
    #[cold]
    pub(super) fn at_pin(&self, key: &HashedKey<'_>, at: Timestamp) -> ReadResult<'_> {
        let head = self.era_at(at).and_then(|era| era.index.find(key));
        if let Some(record) = head.and_then(|head| Self::visible(head, at)) {
            return ReadResult::Value(Version::of(record));
        }
        // What was between may be gone, on one replica and not on another: none of it counts.
        match self.at(key, self.safe_point) {
            ReadResult::Value(_) | ReadResult::NilYet => ReadResult::NilYet,
            ReadResult::Nil => ReadResult::Nil,
        }
    }

    /// A record has left the queue: frees what was directly under it, unless a pin needs that. What
    /// hangs lower was held before, and stays.
    pub(super) fn settle(&mut self, record: Record, pins: &[Timestamp]) {
        // SAFETY: `&mut self`; what hung there is hung back, or freed here and nowhere else.
        let Some(under) = (unsafe { record.take_older() }) else { return };
        let older = under.older();
        if pins.is_empty() {
            return self.free_key(under);
        }
        let pin = lowest_pin(pins, under.timestamp(), record.timestamp());
        let is_needed = pin.is_some_and(|pin| older.is_some() || !under.is_dead(pin));
        let stays = if is_needed {
            self.held.add(under);
            Some(under)
        } else {
            self.free_one(under);
            older
        };
        // SAFETY: `&mut self`; nothing hangs on `record` now.
        unsafe { record.set_older(stays) };
    }

    /// Of a chain of held records, under something of time `above`: what pins need, hung together,
    /// and what they do not, which is no longer counted and is to be freed.
    fn prune_chain(
        &mut self,
        above: Timestamp,
        chain: Option<Record>,
        pins: &[Timestamp],
    ) -> (Option<Record>, Vec<Record>) {
        let mut records = Vec::new();
        let mut next = chain;
        while let Some(record) = next {
            records.push(record);
            next = record.older();
        }
        let (mut stays, mut goes) = (None, Vec::new());
        for place in (0..records.len()).rev() {
            let record = records[place];
            let end = place.checked_sub(1).map_or(above, |newer| records[newer].timestamp());
            let pin = lowest_pin(pins, record.timestamp(), end);
            if pin.is_some_and(|pin| stays.is_some() || !record.is_dead(pin)) {
                // SAFETY: `&mut self`; what hung there is `stays`, or goes.
                unsafe {
                    record.take_older();
                    record.set_older(stays);
                }
                stays = Some(record);
            } else {
                self.held.remove(record);
                goes.push(record);
            }
        }
        (stays, goes)
    }

    /// The newest value of a key has expired at the limit. It goes, or becomes held.
    pub(super) fn end_expired(&mut self, head: Record, pins: &[Timestamp]) {
        let key = self.hasher.key(head.key());
        let (place, found) = self.current.index.locate(&key);
        assert!(found == Some(head), "what expires is a head");
        self.current.discount(head);
        let end = Timestamp::from_millis(head.expiry_ms());
        self.held.add(head);
        let (stays, goes) = self.prune_chain(end, Some(head), pins);
        match stays {
            None => self.current.index.remove(&key, place),
            Some(stays) => {
                let end = Record::new(head.key(), Body::Tombstone, end, Some(stays));
                self.versions += 1;
                self.version_bytes += end.bytes();
                self.current.index.set_head(&key, place, end);
            }
        }
        goes.into_iter().for_each(|record| self.free_one(record));
    }

    /// Goes on with the walk over the current era, or a retired one, looking at about `left` keys.
    /// Returns how many may still be looked at; none if there is more to do. The queue is worked
    /// off up to the limit.
    pub(super) fn prune(
        &mut self,
        era: Option<usize>,
        left: usize,
        pins: &[Timestamp],
    ) -> Option<usize> {
        let of = era.map_or(&self.current, |place| &self.retired[place].era);
        let over = era.map(|place| &self.retired[place]).filter(|retired| retired.is_over);
        let end = over.map(|retired| retired.end);
        let Prune::From(from) = of.prune.clone() else { return Some(left) };
        if end.is_none() && self.held.versions == 0 {
            self.era_mut(era).prune = Prune::Done;
            return Some(left);
        }
        if left == 0 {
            return None;
        }
        let (mut heads, mut rest) = (Vec::new(), left);
        let next = self.walk(of, from.as_deref(), &mut rest, &mut |head| heads.push(head));
        for head in heads {
            match end {
                Some(end) => self.prune_flushed(era, end, head, pins),
                None => self.prune_key(era, head, pins),
            }
        }
        let is_done = next.is_none();
        self.era_mut(era).prune = match next {
            Some(next) => Prune::From(Some(next)),
            None => Prune::Done,
        };
        is_done.then_some(rest)
    }

    /// Of a key of an era that collection has not come to the end of.
    fn prune_key(&mut self, era: Option<usize>, head: Record, pins: &[Timestamp]) {
        let mut chain = Some(head);
        while let Some(record) = chain.filter(|record| record.is_queued()) {
            chain = record.older();
        }
        let Some(record) = chain else { return };
        // SAFETY: `&mut self`; what hung there is hung back, or freed here and nowhere else.
        let under = unsafe { record.take_older() };
        if under.is_none() {
            return;
        }
        let (stays, goes) = self.prune_chain(record.timestamp(), under, pins);
        goes.into_iter().for_each(|record| self.free_one(record));
        // SAFETY: `&mut self`; nothing hangs on `record` now.
        unsafe { record.set_older(stays) };
        if era.is_none() && stays.is_none() && record.is_tombstone() {
            self.remove_if_head(record);
        }
    }

    /// Of a key of an era that was flushed at `end`, which is at or below the limit.
    fn prune_flushed(
        &mut self,
        era: Option<usize>,
        end: Timestamp,
        head: Record,
        pins: &[Timestamp],
    ) {
        let key = self.hasher.key(head.key());
        self.held.add(head);
        let (stays, goes) = self.prune_chain(end, Some(head), pins);
        let era = self.era_mut(era);
        era.discount(head);
        let (place, _) = era.index.locate(&key);
        match stays {
            None => era.index.remove(&key, place),
            Some(stays) => {
                era.index.set_head(&key, place, stays);
                era.count(stays);
                self.held.remove(stays);
            }
        }
        // The index has looked at the head until now.
        goes.into_iter().for_each(|record| self.free_one(record));
    }

    fn era_mut(&mut self, era: Option<usize>) -> &mut Era {
        match era {
            Some(place) => &mut self.retired[place].era,
            None => &mut self.current,
        }
    }

    /// Counts what is held.
    pub(super) fn count_held(&self) -> Held {
        let mut held = Held::default();
        let retired: &VecDeque<FlushedEra> = &self.retired;
        for era in retired.iter().map(|retired| &retired.era).chain([&self.current]) {
            for head in era.index.heads_from(None) {
                let mut chain = Some(head);
                while let Some(record) = chain {
                    chain = record.older();
                    if let Some(older) = chain.filter(|_| !record.is_queued()) {
                        held.add(older);
                    }
                }
            }
        }
        held
    }
}
