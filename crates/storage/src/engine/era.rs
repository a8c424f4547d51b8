//! An era: the index of the keys written between two flushes, and its counts.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

use keyspace::{HashedKey, KeyHasher, SLOTS, Slot, Timestamp, slot_of};

use super::pins::{Prune, lowest_pin};
use super::record::Record;
use super::slots::SlotTables;
use super::tree::{ByKey, ByNumber, Tree};
use super::{Layout, ScanCursor, WrongLayout};

/// Heads one after the other.
pub(super) type Heads<'a> = Box<dyn Iterator<Item = Record> + 'a>;

/// Finds the newest version of a key.
pub(super) enum Index {
    Hashed(SlotTables),
    Ordered(Tree<ByKey>),
    LinearHash(Tree<ByNumber>),
}

/// Where a key is or would go. Valid until the index changes.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

impl Index {
    fn new(layout: Layout) -> Self {
        match layout {
            Layout::Hashed { first_slot, end_slot } => {
                Self::Hashed(SlotTables::new(first_slot, end_slot))
            }
            Layout::Ordered => Self::Ordered(Tree::default()),
            Layout::LinearHash => Self::LinearHash(Tree::default()),
        }
    }

    /// How many keys there are, dead ones included.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Hashed(tables) => tables.len(),
            Self::Ordered(tree) => tree.len(),
            Self::LinearHash(tree) => tree.len(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Hashed(tables) => tables.bytes(),
            Self::Ordered(tree) => tree.bytes(),
            Self::LinearHash(tree) => tree.bytes(),
        }
    }

    #[inline]
    pub(super) fn locate(&self, key: &HashedKey<'_>) -> (Place, Option<Record>) {
        let (place, head) = match self {
            Self::Hashed(tables) => tables.locate(key),
            Self::Ordered(tree) => (0, tree.find(key.bytes)),
            Self::LinearHash(tree) => (0, tree.find(key.bytes)),
        };
        (Place(place), head)
    }

    #[inline]
    pub(super) fn find(&self, key: &HashedKey<'_>) -> Option<Record> {
        self.locate(key).1
    }

    pub(super) fn insert(&mut self, key: &HashedKey<'_>, place: Place, record: Record) {
        match self {
            Self::Hashed(tables) => tables.insert(key, place.0, record),
            Self::Ordered(tree) => tree.insert(record),
            Self::LinearHash(tree) => tree.insert(record),
        }
    }

    pub(super) fn set_head(&mut self, key: &HashedKey<'_>, place: Place, record: Record) {
        match self {
            Self::Hashed(tables) => tables.set_head(key, place.0, record),
            Self::Ordered(tree) => tree.set_head(record),
            Self::LinearHash(tree) => tree.set_head(record),
        }
    }

    pub(super) fn remove(&mut self, key: &HashedKey<'_>, place: Place) {
        match self {
            Self::Hashed(tables) => tables.remove(key, place.0),
            Self::Ordered(tree) => tree.remove(key.bytes),
            Self::LinearHash(tree) => tree.remove(key.bytes),
        }
    }

    pub(super) fn drain(&mut self, count: usize, each: impl FnMut(Record)) -> usize {
        match self {
            Self::Hashed(tables) => tables.drain(count, each),
            Self::Ordered(tree) => tree.drain(count, each),
            Self::LinearHash(tree) => tree.drain(count, each),
        }
    }

    pub(super) fn sample(&self, random: u64) -> Option<Record> {
        match self {
            Self::Hashed(tables) => tables.sample(random),
            Self::Ordered(tree) => tree.sample(random),
            Self::LinearHash(tree) => tree.sample(random),
        }
    }

    pub(super) fn hashed(&self) -> Result<&SlotTables, WrongLayout> {
        match self {
            Self::Hashed(tables) => Ok(tables),
            Self::Ordered(_) | Self::LinearHash(_) => Err(WrongLayout { needed: "hashed" }),
        }
    }

    pub(super) fn ordered(&self) -> Result<&Tree<ByKey>, WrongLayout> {
        match self {
            Self::Hashed(_) | Self::LinearHash(_) => Err(WrongLayout { needed: "ordered" }),
            Self::Ordered(tree) => Ok(tree),
        }
    }

    pub(super) fn by_number(&self) -> Result<&Tree<ByNumber>, WrongLayout> {
        match self {
            Self::Hashed(_) | Self::Ordered(_) => Err(WrongLayout { needed: "of linear hashing" }),
            Self::LinearHash(tree) => Ok(tree),
        }
    }

    /// All heads from this one on, or all, in an order that depends on keys alone.
    pub(super) fn heads_from(&self, from: Option<(Record, &KeyHasher)>) -> Heads<'_> {
        match self {
            Self::Hashed(tables) => {
                let from = from.map_or(ScanCursor::default(), |(record, hasher)| {
                    let key = hasher.key(record.key());
                    ScanCursor { slot: key.slot, hash: key.hash }
                });
                Box::new(tables.heads_from(from).map(|(_, head)| head))
            }
            Self::Ordered(tree) => Box::new(tree.range(from_head(from), Bound::Unbounded)),
            Self::LinearHash(tree) => Box::new(tree.range(from_head(from), Bound::Unbounded)),
        }
    }
}

/// From this head on, or from the first.
fn from_head<'r>(from: Option<(Record, &KeyHasher)>) -> Bound<&'r [u8]> {
    from.map_or(Bound::Unbounded, |(record, _)| Bound::Included(record.key()))
}

/// A live head that expires, ordered by when.
pub(super) struct Expiring {
    /// When, and in the lowest bits the key's slot, so that a cut need not look at the record.
    when: u64,
    pub(super) record: Record,
}

const SLOT_BITS: u32 = SLOTS.ilog2();
/// Later than that is never: in 35 000 years.
const WHEN_MAX: u64 = u64::MAX >> SLOT_BITS;

impl Expiring {
    fn of(record: Record) -> Self {
        let when = record.expiry_ms().min(WHEN_MAX) << SLOT_BITS;
        Self { when: when | u64::from(slot_of(record.key())), record }
    }

    /// When it expires; if ever.
    pub(super) fn expiry_ms(&self) -> u64 {
        self.when >> SLOT_BITS
    }

    pub(super) fn slot(&self) -> Slot {
        (self.when & (u64::from(SLOTS) - 1)) as Slot
    }
}

impl Ord for Expiring {
    /// Not by address: every replica must collect in the same order.
    fn cmp(&self, other: &Self) -> Ordering {
        self.when.cmp(&other.when).then_with(|| {
            let (one, two) = (self.record, other.record);
            one.timestamp().cmp(&two.timestamp()).then_with(|| one.key().cmp(two.key()))
        })
    }
}

impl PartialOrd for Expiring {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Expiring {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Expiring {}

/// The live heads of an era that expire, ordered by when, and the sum of their times.
#[derive(Default)]
pub(super) struct ExpiryIndex {
    heads: BTreeSet<Expiring>,
    /// Milliseconds since 1970, of all of them.
    sum_ms: u128,
}

impl ExpiryIndex {
    fn insert(&mut self, head: Expiring) -> bool {
        self.sum_ms += u128::from(head.expiry_ms());
        self.heads.insert(head)
    }

    fn remove(&mut self, head: &Expiring) -> bool {
        self.sum_ms -= u128::from(head.expiry_ms());
        self.heads.remove(head)
    }

    pub(super) fn first(&self) -> Option<&Expiring> {
        self.heads.first()
    }

    /// Those that expire at or after this, in ms since 1970, which is not 0.
    pub(super) fn from(&self, ms: u64) -> impl Iterator<Item = &Expiring> {
        let any = self.heads.first().map(|head| head.record);
        // Above all that expire before, whatever the record: their times and slots are lower.
        let probe =
            any.map(|record| Expiring { when: (ms.min(WHEN_MAX) << SLOT_BITS) - 1, record });
        let heads = probe.map(|probe| self.heads.range((Bound::Included(probe), Bound::Unbounded)));
        heads.into_iter().flatten().filter(move |head| head.expiry_ms() >= ms)
    }

    pub(super) fn pop_first(&mut self) -> Option<Expiring> {
        let first = self.heads.pop_first()?;
        self.sum_ms -= u128::from(first.expiry_ms());
        Some(first)
    }

    pub(super) fn append(&mut self, other: &mut Self) {
        self.heads.append(&mut other.heads);
        self.sum_ms += std::mem::take(&mut other.sum_ms);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Empties it, in order.
    pub(super) fn take(&mut self) -> Vec<Expiring> {
        self.sum_ms = 0;
        std::mem::take(&mut self.heads).into_iter().collect()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Expiring> {
        self.heads.iter()
    }

    /// How many have expired at `now`.
    pub(super) fn expired(&self, now: Timestamp) -> u64 {
        self.expired_heads(now).count() as u64
    }

    fn expired_heads(&self, now: Timestamp) -> impl Iterator<Item = &Expiring> {
        self.heads.iter().take_while(move |head| head.expiry_ms() <= now.millis())
    }

    /// What it has at `now`.
    pub(super) fn usage(&self, now: Timestamp) -> ExpiryUsage {
        let (mut expired, mut sum_ms) = (0, self.sum_ms);
        for head in self.expired_heads(now) {
            expired += 1;
            sum_ms -= u128::from(head.expiry_ms());
        }
        let keys = self.heads.len() as u64 - expired;
        ExpiryUsage { keys, expired, ttl_sum_ms: sum_ms - u128::from(keys * now.millis()) }
    }
}

impl FromIterator<Expiring> for ExpiryIndex {
    fn from_iter<T: IntoIterator<Item = Expiring>>(heads: T) -> Self {
        let mut sum_ms = 0;
        let heads = heads.into_iter();
        let heads = heads.inspect(|head| sum_ms += u128::from(head.expiry_ms())).collect();
        Self { heads, sum_ms }
    }
}

/// The keys with an expiry at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryUsage {
    /// Keys that have a value then, and an expiry.
    pub keys: u64,
    /// Keys that have expired by then and are not collected.
    pub expired: u64,
    /// How long the former live from then on, all together, in milliseconds.
    pub ttl_sum_ms: u128,
}

impl ExpiryUsage {
    /// Adds another shard's.
    pub fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.expired += other.expired;
        self.ttl_sum_ms += other.ttl_sum_ms;
    }

    /// How long a key with an expiry lives on, on average, in milliseconds; 0 if there is none.
    pub fn average_ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl_sum_ms.checked_div(u128::from(self.keys)).unwrap_or(0))
            .unwrap_or(u64::MAX)
    }
}

/// The keys written since one flush and before the next.
pub(super) struct Era {
    /// Counts up from 0; names the era in a dump's cursor.
    pub(super) number: u64,
    /// The flush that began it; zero for the first.
    pub(super) start: Timestamp,
    /// The highest timestamp written.
    pub(super) newest: Timestamp,
    pub(super) index: Index,
    /// Heads that are not tombstones; expired ones count until they are collected.
    pub(super) live_keys: u64,
    /// Their bytes.
    pub(super) live_bytes: u64,
    /// Those of them that expire.
    pub(super) expiring: ExpiryIndex,
    /// How far it was looked through for what no pin needs any more.
    pub(super) prune: Prune,
}

impl Era {
    pub(super) fn new(layout: Layout, number: u64, start: Timestamp) -> Self {
        Self {
            number,
            start,
            newest: start,
            index: Index::new(layout),
            live_keys: 0,
            live_bytes: 0,
            expiring: ExpiryIndex::default(),
            prune: Prune::Done,
        }
    }

    /// Counts a record that has become a head.
    #[inline]
    pub(super) fn count(&mut self, head: Record) {
        if head.is_tombstone() {
            return;
        }
        self.live_keys += 1;
        self.live_bytes += head.bytes();
        if head.expiry_ms() != 0 {
            assert!(self.expiring.insert(Expiring::of(head)), "expiring twice");
        }
    }

    /// Takes a record that stops being a head, or is about to change, out of the counts.
    #[inline]
    pub(super) fn discount(&mut self, head: Record) {
        if head.is_tombstone() {
            return;
        }
        self.live_keys -= 1;
        self.live_bytes -= head.bytes();
        if head.expiry_ms() != 0 {
            assert!(self.expiring.remove(&Expiring::of(head)), "an expiring head is indexed");
        }
    }
}

/// An era that a flush has ended.
pub(super) struct FlushedEra {
    pub(super) era: Era,
    /// The flush: nothing of the era is seen at or above it.
    pub(super) end: Timestamp,
    /// Collection has come to its end, and found a pin in it.
    pub(super) is_over: bool,
}

impl FlushedEra {
    /// Whether it is seen at one of these pins.
    pub(super) fn is_pinned(&self, pins: &[Timestamp]) -> bool {
        lowest_pin(pins, self.era.start, self.end).is_some()
    }
}
