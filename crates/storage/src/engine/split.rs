//! How does a shard's engine become two? Everything from one slot on is cut off.
//!
//! ```text
//!   slots   [a ─────── at ─────── b)          tables: handed over, none is copied
//!   left    [a ─────── at)                    queue, expiring heads: each to its key's side
//!   right             [at ─────── b)          counts: those of the right side are counted
//! ```
//!
//! Both halves answer as the whole did, each for its own keys, at all times from the safe point
//! on. No version is copied, but each one of the right side is looked at once, to be counted, and
//! so is each superseding record: for the time of this all readers and writers wait.
//!
//! Whoever reads piece by piece (a dump) has to begin again: its pin is gone with the rest.

use keyspace::{Slot, slot_of};

use super::collect::Queue;
use super::era::{Era, Index, Retired};
use super::{Engine, Layout, WrongLayout};

/// How many superseding records ahead of the one that is looked at memory is asked for.
const AHEAD: usize = 16;

/// Versions of one side.
#[derive(Default)]
struct Versions {
    count: u64,
    bytes: u64,
}

impl Engine {
    /// Where it could be cut in two so that both sides have about as many keys: the first slot of
    /// the right side, and how many keys each side has then. None if it has one slot, or none.
    pub fn middle(&self) -> Option<(Slot, [u64; 2])> {
        self.current.index.hashed().ok()?.middle()
    }

    /// Cuts off all keys of the slots from `at` on: what is left owns those below. There are no
    /// pins afterwards, on either side.
    ///
    /// # Errors
    /// [`WrongLayout`]: an ordered engine has no slots. Nothing has changed.
    ///
    /// # Panics
    /// If `at` does not lie within the layout, above its first slot.
    pub fn split_off(&mut self, at: Slot) -> Result<Engine, WrongLayout> {
        let Layout::Hashed { first_slot, end_slot } = self.layout else {
            return Err(WrongLayout { needed: "hashed" });
        };
        assert!(first_slot < at && at < end_slot, "a cut at slot {at} of {first_slot}..{end_slot}");
        let mut versions = Versions::default();
        let mut cut = |era: &mut Era| era.split_off(at, &mut versions);
        let retired = self
            .retired
            .iter_mut()
            .map(|Retired { era, end }| Retired { era: cut(era), end: *end });
        let retired = retired.collect();
        let current = cut(&mut self.current);
        let queue = self.queue.split_off(at);
        self.layout = Layout::Hashed { first_slot, end_slot: at };
        self.pins.clear();
        self.versions -= versions.count;
        self.version_bytes -= versions.bytes;
        Ok(Engine {
            layout: Layout::Hashed { first_slot: at, end_slot },
            hasher: self.hasher,
            flush_in_place_keys_max: self.flush_in_place_keys_max,
            current,
            retired,
            queue,
            safe_point: self.safe_point,
            pins: Vec::new(),
            versions: versions.count,
            version_bytes: versions.bytes,
        })
    }
}

impl Era {
    /// Cuts off what lies from slot `at` on, and counts its versions.
    fn split_off(&mut self, at: Slot, versions: &mut Versions) -> Self {
        let Index::Hashed(tables) = &mut self.index else { unreachable!("of a hashed engine") };
        let right = tables.split_off(at);
        // While an era goes, key by key, its bytes do not count any more.
        let is_going = self.live_bytes == 0;
        let (mut live_keys, mut live_bytes) = (0, 0);
        right.each_head(|head| {
            if !head.is_tombstone() {
                live_keys += 1;
                live_bytes += if is_going { 0 } else { head.bytes() };
            }
            let mut chain = Some(head);
            while let Some(record) = chain {
                versions.count += 1;
                versions.bytes += record.bytes();
                chain = record.older();
            }
        });
        self.live_keys -= live_keys;
        self.live_bytes -= live_bytes;
        let expiring = std::mem::take(&mut self.expiring).into_iter();
        let (left, of_right): (Vec<_>, Vec<_>) =
            expiring.partition(|entry| slot_of(entry.record.key()) < at);
        // Each is in order still, and becomes a tree at once.
        self.expiring = left.into_iter().collect();
        let expiring = of_right.into_iter().collect();
        let (number, start, newest) = (self.number, self.start, self.newest);
        let index = Index::Hashed(right);
        Self { number, start, newest, index, live_keys, live_bytes, expiring }
    }
}

impl Queue {
    /// Cuts off the records of keys in the slots from `at` on; both keep their order.
    fn split_off(&mut self, at: Slot) -> Self {
        let records = std::mem::take(&mut self.records);
        let (mut left, mut right) = (Self::default(), Self::default());
        (left.unsorted, right.unsorted) = (self.unsorted, self.unsorted);
        for (place, record) in records.iter().enumerate() {
            if let Some(ahead) = records.get(place + AHEAD) {
                ahead.prefetch();
            }
            let side = if slot_of(record.key()) < at { &mut left } else { &mut right };
            side.records.push_back(*record);
        }
        *self = left;
        right
    }
}
