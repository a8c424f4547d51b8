//! How does a shard's engine become two? Split takes out everything from one slot, or key, on.
//!
//! ```text
//!   slots   [a ─────── at ─────── b)          tables: handed over, none is copied; trees parted
//!   left    [a ─────── at)                    queue, expiring heads: each to its key's side
//!   right             [at ─────── b)          counts: those of the right side are counted
//! ```
//!
//! Both halves answer as the engine did before, each for its own keys, at all times from the safe
//! point on. Split copies no version. But it counts each key of the right side, and each
//! superseding record; all readers and writers wait meanwhile. Older versions are counted at the
//! superseding records of the queue that they hang on; what is held for pins, along its chains.
//!
//! A reader that goes piece by piece (a dump) has to begin again: its hold is lost.

use keyspace::{Cut, Placement};

use super::collect::Queue;
use super::era::{Era, Expiring, ExpiryIndex, FlushedEra, Index};
use super::pins::Held;
use super::record::Record;
use super::{Layout, MemoryEngine, WrongLayout};

/// How many superseding records ahead of the one that is looked at memory is asked for.
const AHEAD: usize = 16;

/// Versions of one side.
#[derive(Default)]
struct Versions {
    count: u64,
    bytes: u64,
}

impl Versions {
    fn add(&mut self, record: Record) {
        self.count += 1;
        self.bytes += record.bytes();
    }
}

impl MemoryEngine {
    /// Where it could be split so that both sides have about as many keys, or bytes if it is
    /// ordered, and how many each side has then: exactly of slots, by a sample of the keys else.
    /// None if it has one slot or key, or none, or is of linear hashing.
    pub fn middle(&self) -> Option<(Cut, [u64; 2])> {
        match &self.current.index {
            Index::Hashed(tables) => tables.middle().map(|(at, sides)| (Cut::Slot(at), sides)),
            Index::Ordered(tree) => {
                let (at, sides) = tree.middle()?;
                // Not every key is a place for a cut: the one right behind it is then.
                Some((Cut::at(Placement::Ordered, &at)?, sides))
            }
            // Where it is cut is not for its keys to say.
            Index::LinearHash(_) => None,
        }
    }

    /// Splits off all keys from `at` on; this engine keeps those below. There are no holds
    /// afterwards, on either side; both have the pins.
    ///
    /// # Errors
    /// [`WrongLayout`]: the cut is of another kind (slot, key, number) than this engine's layout.
    /// Nothing has changed.
    ///
    /// # Panics
    /// If a slot does not lie within the layout, above its first.
    pub fn split_off(&mut self, at: &Cut) -> Result<MemoryEngine, WrongLayout> {
        let [of_left, of_right] = match (self.layout, at) {
            (Layout::Hashed { first_slot, end_slot }, Cut::Slot(at)) => {
                let at = *at;
                let is_within = first_slot < at && at < end_slot;
                assert!(is_within, "a cut at slot {at} of {first_slot}..{end_slot}");
                [(first_slot, at), (at, end_slot)]
                    .map(|(first_slot, end_slot)| Layout::Hashed { first_slot, end_slot })
            }
            (Layout::Ordered, Cut::Key(_)) => [Layout::Ordered; 2],
            (Layout::LinearHash, Cut::Number(_)) => [Layout::LinearHash; 2],
            (_, Cut::Key(_)) => return Err(WrongLayout { needed: "ordered" }),
            (_, Cut::Slot(_)) => return Err(WrongLayout { needed: "hashed" }),
            (_, Cut::Number(_)) => return Err(WrongLayout { needed: "of linear hashing" }),
        };
        let mut versions = Versions::default();
        let mut cut = |era: &mut Era| era.split_off(at, &mut versions);
        let retired = self.retired.iter_mut().map(|FlushedEra { era, end, is_over }| FlushedEra {
            era: cut(era),
            end: *end,
            is_over: *is_over,
        });
        let retired = retired.collect();
        let current = cut(&mut self.current);
        let queue = self.queue.split_off(at, &mut versions);
        self.layout = of_left;
        self.holds.clear();
        let mut right = MemoryEngine {
            layout: of_right,
            hasher: self.hasher,
            flush_in_place_keys_max: self.flush_in_place_keys_max,
            current,
            retired,
            queue,
            safe_point: self.safe_point,
            pins: self.pins.clone(),
            holds: Vec::new(),
            held: Held::default(),
            skips_equal: false,
            versions: 0,
            version_bytes: 0,
            expired_keys: 0,
        };
        if self.held.versions > 0 {
            // What hangs under records that are not in the queue.
            right.held = right.count_held();
            versions.count += right.held.versions;
            versions.bytes += right.held.bytes;
            self.held.versions -= right.held.versions;
            self.held.bytes -= right.held.bytes;
        }
        (right.versions, right.version_bytes) = (versions.count, versions.bytes);
        self.versions -= versions.count;
        self.version_bytes -= versions.bytes;
        // A hold may have kept what no pin needs.
        self.prune_all();
        right.prune_all();
        Ok(right)
    }
}

impl Index {
    fn split_off(&mut self, at: &Cut) -> Self {
        match (self, at) {
            (Self::Hashed(tables), Cut::Slot(at)) => Self::Hashed(tables.split_off(*at)),
            (Self::Ordered(tree), Cut::Key(at)) => Self::Ordered(tree.split_off(at)),
            (Self::LinearHash(tree), Cut::Number(at)) => Self::LinearHash(tree.split_off(*at)),
            _ => unreachable!("cuts are of the engine's layout"),
        }
    }

    fn each_head(&self, each: impl FnMut(Record)) {
        match self {
            Self::Hashed(tables) => tables.each_head(each),
            Self::Ordered(tree) => tree.each_head(each),
            Self::LinearHash(tree) => tree.each_head(each),
        }
    }
}

/// Whether a record's key is in the right half.
pub(super) fn is_right(at: &Cut, record: Record) -> bool {
    at.is_right_of(record.key())
}

impl Era {
    /// Cuts off what lies from `at` on, and counts its versions.
    fn split_off(&mut self, at: &Cut, versions: &mut Versions) -> Self {
        let right = self.index.split_off(at);
        // While an era goes, key by key, its bytes do not count any more.
        let is_going = self.live_bytes == 0;
        let (mut live_keys, mut live_bytes) = (0, 0);
        right.each_head(|head| {
            if !head.is_tombstone() {
                live_keys += 1;
                live_bytes += if is_going { 0 } else { head.bytes() };
            }
            versions.add(head);
        });
        self.live_keys -= live_keys;
        self.live_bytes -= live_bytes;
        let expiring = part_expiring(&mut self.expiring, at);
        let (number, start, newest) = (self.number, self.start, self.newest);
        let (index, prune) = (right, self.prune.clone());
        Self { number, start, newest, index, live_keys, live_bytes, expiring, prune }
    }
}

/// Cuts off those of keys from `at` on.
fn part_expiring(all: &mut ExpiryIndex, at: &Cut) -> ExpiryIndex {
    let entries = all.take();
    let is_right: Vec<bool> = match at {
        Cut::Slot(at) => entries.iter().map(|entry| entry.slot() >= *at).collect(),
        Cut::Key(_) | Cut::Number(_) => {
            let mut ahead = entries.iter().skip(AHEAD);
            let mut look = |entry: &Expiring| {
                ahead.next().inspect(|ahead| ahead.record.prefetch());
                is_right(at, entry.record)
            };
            entries.iter().map(&mut look).collect()
        }
    };
    let count = is_right.iter().filter(|is_right| **is_right).count();
    let mut right = Vec::with_capacity(count);
    let mut left = Vec::with_capacity(entries.len() - count);
    for (entry, is_right) in entries.into_iter().zip(is_right) {
        if is_right { &mut right } else { &mut left }.push(entry);
    }
    // Each is in order still, and becomes a tree at once.
    *all = left.into_iter().collect();
    right.into_iter().collect()
}

impl Queue {
    /// Cuts off the records of keys from `at` on, and counts what hangs on them; both keep their
    /// order.
    fn split_off(&mut self, at: &Cut, versions: &mut Versions) -> Self {
        let records = std::mem::take(&mut self.records);
        let (mut left, mut right) = (Self::default(), Self::default());
        (left.unsorted, right.unsorted) = (self.unsorted, self.unsorted);
        for (place, record) in records.iter().enumerate() {
            if let Some(ahead) = records.get(place + AHEAD) {
                ahead.prefetch();
            }
            let half_way = records.get(place + AHEAD / 2).and_then(|ahead| ahead.older());
            half_way.inspect(|older| older.prefetch());
            if is_right(at, *record) {
                record.older().inspect(|older| versions.add(*older));
                right.records.push_back(*record);
            } else {
                left.records.push_back(*record);
            }
        }
        *self = left;
        right
    }
}
