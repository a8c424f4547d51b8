//! Where does a key lie that has no slot? In a tree, by its bytes, which are those in the newest
//! record; or by its number on the circle of linear hashing, and then by its bytes.
//!
//! ```text
//!   prefix of an entry      sixteen bytes of the key          ordered    (ByKey)
//!                           the number, eight of the key      linear     (ByNumber)
//! ```
//!
//! An entry carries its prefix as a number, so that most comparisons stay in the tree's node; only
//! longer keys that begin alike are read in their records. Beside the tree lies an array of all
//! heads, in no order, from which a uniformly random one is drawn.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::Bound;

use keyspace::linear_hash::bit_reversed_hash;

use super::record::Record;

/// About so many keys are looked at to find the middle.
const MIDDLE_KEYS: usize = 1024;
/// How many heads ahead of the one that is looked at memory is asked for.
const AHEAD: usize = 16;

/// By what keys are ordered.
pub(super) trait Order {
    /// So many bytes of a key are in its prefix.
    const KEY_BYTES: usize;

    /// The prefix of a key.
    fn prefix(key: &[u8]) -> u128;
}

/// By their bytes alone.
pub(super) struct ByKey;

/// By their numbers, and then by their bytes.
pub(super) struct ByNumber;

impl Order for ByKey {
    const KEY_BYTES: usize = 16;

    #[inline]
    fn prefix(key: &[u8]) -> u128 {
        u128::from_be_bytes(first(key))
    }
}

impl Order for ByNumber {
    const KEY_BYTES: usize = 8;

    #[inline]
    fn prefix(key: &[u8]) -> u128 {
        u128::from(bit_reversed_hash(key)) << 64 | u128::from(u64::from_be_bytes(first(key)))
    }
}

/// The first bytes of a key, zeros behind a shorter one.
#[inline]
fn first<const N: usize>(key: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    let len = key.len().min(N);
    first[..len].copy_from_slice(&key[..len]);
    first
}

/// A key in the tree, or one that is searched for.
struct Entry<O> {
    /// As the order says.
    prefix: u128,
    /// The key's bytes: in the newest record, or those of the asker. A cell since a newer record
    /// with the same key takes the place of the old one where it is.
    key: Cell<*const u8>,
    len: u32,
    /// Which of `Tree::samples` it is.
    sample: Cell<u32>,
    order: PhantomData<O>,
}

impl Entry<ByNumber> {
    /// What lies before all keys of a number.
    fn before(number: u64) -> Self {
        let (key, sample) = (Cell::new([].as_ptr()), Cell::new(0));
        Self { prefix: u128::from(number) << 64, key, len: 0, sample, order: PhantomData }
    }

    fn number(&self) -> u64 {
        (self.prefix >> 64) as u64
    }
}

impl<O: Order> Entry<O> {
    fn new(key: &[u8], sample: u32) -> Self {
        Self {
            prefix: O::prefix(key),
            key: Cell::new(key.as_ptr()),
            len: key.len() as u32,
            sample: Cell::new(sample),
            order: PhantomData,
        }
    }

    fn of(record: Record, sample: u32) -> Self {
        let entry = Self::new(record.key(), sample);
        // The pointer with a claim on the whole record, not just on its key.
        entry.key.set(record.key_start());
        entry
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: points at `len` bytes of a live record, or of a key borrowed by the asker.
        unsafe { std::slice::from_raw_parts(self.key.get(), self.len as usize) }
    }

    /// Only for an entry that is in the tree.
    fn record(&self) -> Record {
        // SAFETY: entries in the tree are made by `of`, and lose their record with their place.
        unsafe { Record::of_key(self.key.get()) }
    }
}

impl<O: Order> PartialEq for Entry<O> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<O: Order> Eq for Entry<O> {}

impl<O: Order> PartialOrd for Entry<O> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<O: Order> Ord for Entry<O> {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| {
            if self.len.min(other.len) as usize <= O::KEY_BYTES {
                // One is the beginning of the other, up to zeros that only the longer one has.
                self.len.cmp(&other.len)
            } else {
                self.bytes()[O::KEY_BYTES..].cmp(&other.bytes()[O::KEY_BYTES..])
            }
        })
    }
}

/// The shortest beginning of `high` that is above `low`, which is below it.
fn separator<'k>(low: &[u8], high: &'k [u8]) -> &'k [u8] {
    let alike = low.iter().zip(high).take_while(|(one, other)| one == other).count();
    &high[..alike + 1]
}

/// All keys of a shard, in this order.
pub(super) struct Tree<O> {
    entries: BTreeSet<Entry<O>>,
    samples: Vec<Record>,
}

impl<O> Default for Tree<O> {
    fn default() -> Self {
        Self { entries: BTreeSet::new(), samples: Vec::new() }
    }
}

impl<O: Order> Tree<O> {
    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// An estimate: the nodes of the standard library's tree are about three quarters full.
    pub(super) fn bytes(&self) -> u64 {
        (self.entries.len() * size_of::<Entry<O>>() * 4 / 3
            + self.samples.capacity() * size_of::<Record>()) as u64
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<Record> {
        self.entries.get(&Entry::new(key, 0)).map(Entry::record)
    }

    pub(super) fn insert(&mut self, record: Record) {
        let sample = u32::try_from(self.samples.len()).expect("fewer than 2^32 keys in a shard");
        self.samples.push(record);
        self.entries.insert(Entry::of(record, sample));
    }

    /// Puts a newer record of the same key in the place of the older one.
    pub(super) fn set_head(&mut self, record: Record) {
        let entry = self.entries.get(&Entry::new(record.key(), 0)).expect("the key is here");
        entry.key.set(record.key_start());
        self.samples[entry.sample.get() as usize] = record;
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        let entry = self.entries.take(&Entry::new(key, 0)).expect("the key is here");
        let sample = entry.sample.get();
        self.samples.swap_remove(sample as usize);
        if let Some(moved) = self.samples.get(sample as usize) {
            let moved = self.entries.get(&Entry::new(moved.key(), 0)).expect("sampled keys exist");
            moved.sample.set(sample);
        }
        if self.samples.len() * 4 < self.samples.capacity() {
            self.samples.shrink_to(self.samples.len() * 2);
        }
    }

    /// Takes out up to `count` heads of a tree that is no longer read.
    pub(super) fn drain(&mut self, count: usize, mut each: impl FnMut(Record)) -> usize {
        self.samples = Vec::new();
        let mut drained = 0;
        while drained < count
            && let Some(entry) = self.entries.pop_first()
        {
            each(entry.record());
            drained += 1;
        }
        drained
    }

    /// Heads between two bounds, in order; nothing if they cross.
    pub(super) fn range(
        &self,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = Record> + '_ {
        let (start, end) = (probe(start), probe(end));
        let crossed = match (&start, &end) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
        };
        let range = (!crossed).then(|| self.entries.range((start, end)));
        range.into_iter().flatten().map(Entry::record)
    }

    /// Cuts off all from `at` on. Each entry of both is looked at once, and no record.
    fn split_off_at(&mut self, at: &Entry<O>) -> Self {
        let mut right = Self { entries: self.entries.split_off(at), samples: Vec::new() };
        self.sample_all();
        right.sample_all();
        right
    }

    /// Takes in the keys of a tree, all of which are above those here. Each entry of both may be
    /// looked at once; so is a record where keys begin alike.
    ///
    /// # Panics
    /// If one is not above all that are here.
    pub(super) fn append(&mut self, mut right: Self) {
        if let (Some(last), Some(first)) = (self.entries.last(), right.entries.first()) {
            assert!(last < first, "trees whose keys overlap are joined");
        }
        let all = self.samples.len() + right.samples.len();
        assert!(u32::try_from(all).is_ok(), "fewer than 2^32 keys in a shard");
        let here = self.samples.len() as u32;
        right.entries.iter().for_each(|entry| entry.sample.set(here + entry.sample.get()));
        self.samples.append(&mut right.samples);
        self.entries.append(&mut right.entries);
    }

    /// Makes the samples again, of all entries.
    fn sample_all(&mut self) {
        self.samples = Vec::with_capacity(self.entries.len());
        for (entry, sample) in self.entries.iter().zip(0..) {
            entry.sample.set(sample);
            self.samples.push(entry.record());
        }
    }

    /// All heads, each asked for some time before it is looked at.
    pub(super) fn each_head(&self, mut each: impl FnMut(Record)) {
        let heads = || self.entries.iter().map(Entry::record);
        let mut ahead = heads().skip(AHEAD);
        for head in heads() {
            if let Some(ahead) = ahead.next() {
                ahead.prefetch();
            }
            each(head);
        }
    }

    /// Whether each head is one of the samples, and nothing else is.
    #[cfg(test)]
    pub(super) fn is_sampled(&self) -> bool {
        let starts = || self.samples.iter().map(|record| record.key_start());
        self.entries.len() == self.samples.len()
            && self.entries.iter().all(|entry| {
                starts().nth(entry.sample.get() as usize) == Some(entry.record().key_start())
            })
    }

    /// A uniformly random head.
    pub(super) fn sample(&self, random: u64) -> Option<Record> {
        let rank = (u128::from(random) * self.samples.len() as u128) >> 64;
        self.samples.get(rank as usize).copied()
    }
}

impl Tree<ByKey> {
    /// The key before which a cut leaves most nearly as many bytes on one side as on the other, as
    /// far as one in so many keys tells; and about how many both have. None with one key.
    pub(super) fn middle(&self) -> Option<(Box<[u8]>, [u64; 2])> {
        let step = (self.samples.len() / MIDDLE_KEYS).max(1);
        let mut some: Vec<Record> = self.samples.iter().copied().step_by(step).collect();
        some.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        let total: u64 = some.iter().map(|record| record.bytes()).sum();
        let mut left = 0;
        let sides = some.windows(2).map(|pair| {
            left += pair[0].bytes();
            (pair, [left, total - left])
        });
        let (pair, sides) = sides.min_by_key(|(_, [left, right])| left.abs_diff(*right))?;
        let at = separator(pair[0].key(), pair[1].key()).into();
        Some((at, sides.map(|bytes| bytes * step as u64)))
    }

    /// Cuts off all keys from `at` on.
    pub(super) fn split_off(&mut self, at: &[u8]) -> Self {
        self.split_off_at(&Entry::new(at, 0))
    }
}

impl Tree<ByNumber> {
    /// Heads of keys from a number on, with their numbers, in order.
    pub(super) fn heads_from(&self, number: u64) -> impl Iterator<Item = (u64, Record)> + '_ {
        let from = self.entries.range(Entry::before(number)..);
        from.map(|entry| (entry.number(), entry.record()))
    }

    /// Cuts off all keys from a number on.
    pub(super) fn split_off(&mut self, at: u64) -> Self {
        self.split_off_at(&Entry::before(at))
    }
}

/// What a bound is searched by.
fn probe<O: Order>(bound: Bound<&[u8]>) -> Bound<Entry<O>> {
    bound.map(|key| Entry::new(key, 0))
}
