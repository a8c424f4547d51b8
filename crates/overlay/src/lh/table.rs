//! The shape of a linear-hash table: how many buckets it has, and so which.
//!
//! The same two numbers serve as the truth and as an image of it. A bucket that was seen shows how
//! many buckets there must have been; a bucket that is gone shows a bound above (A3, in terms of
//! what was seen):
//!
//! | seen | so there are |
//! |---|---|
//! | bucket *a* of level *j* ≥ 1 | at least 2^(j−1) + (a mod 2^(j−1)) + 1 buckets: its line was split at level j − 1 |
//! | that bucket *a* is gone | at most *a* buckets |

use std::num::NonZeroU64;

use super::bucket::Bucket;
use super::{LEVEL_MAX, low_bits};

/// Level *i* and pointer *n*: 2^i + n buckets. Tables are ordered by that number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinearHashTable {
    level: u8,
    /// The bucket that is split next; below 2^level.
    pointer: u64,
}

impl LinearHashTable {
    /// One bucket.
    pub const FIRST: Self = Self { level: 0, pointer: 0 };
    /// The largest: every bucket at [`LEVEL_MAX`].
    pub const LAST: Self = Self { level: LEVEL_MAX, pointer: 0 };

    /// The table with so many buckets; `None` beyond [`Self::LAST`].
    pub fn of_buckets(count: NonZeroU64) -> Option<Self> {
        let level = count.ilog2() as u8;
        let file = Self { level, pointer: low_bits(count.get(), level) };
        (file <= Self::LAST).then_some(file)
    }

    /// The smallest table that has this bucket.
    pub fn smallest_with(bucket: Bucket) -> Self {
        bucket.merged().map_or(Self::FIRST, |whole| {
            let mut file = Self { level: whole.level(), pointer: whole.number() };
            file.split();
            file
        })
    }

    /// The largest table without the bucket of this number, which is neither 0 nor beyond the last.
    pub fn largest_without(number: u64) -> Option<Self> {
        NonZeroU64::new(number).and_then(Self::of_buckets)
    }

    /// How many rounds of splits are done.
    pub fn level(self) -> u8 {
        self.level
    }

    /// How many buckets were split in this round.
    pub fn pointer(self) -> u64 {
        self.pointer
    }

    /// How many buckets there are.
    pub fn buckets(self) -> u64 {
        (1 << self.level) + self.pointer
    }

    /// The bucket that holds a hash (A1).
    pub fn address(self, hash: u64) -> u64 {
        let number = low_bits(hash, self.level);
        if number < self.pointer { low_bits(hash, self.level + 1) } else { number }
    }

    /// The bucket of this number; `None` if there is none.
    pub fn bucket(self, number: u64) -> Option<Bucket> {
        if number >= self.buckets() {
            return None;
        }
        let is_split = number < self.pointer || number >= 1 << self.level;
        Bucket::new(number, self.level + u8::from(is_split))
    }

    /// The bucket that is split next; `None` in the largest table.
    pub fn next_split(self) -> Option<Bucket> {
        self.bucket(self.pointer).filter(|_| self < Self::LAST)
    }

    /// The two buckets that are merged next: those that the last split has made. `None` if there
    /// is one bucket only.
    pub fn last_split(self) -> Option<(Bucket, Bucket)> {
        let last = self.bucket(self.buckets() - 1)?;
        last.merged()?.split()
    }

    /// Splits the bucket at the pointer; its halves, or `None` if nothing was done.
    pub fn split(&mut self) -> Option<(Bucket, Bucket)> {
        let halves = self.next_split()?.split()?;
        self.pointer += 1;
        if self.pointer == 1 << self.level {
            *self = Self { level: self.level + 1, pointer: 0 };
        }
        Some(halves)
    }

    /// Undoes the last split; returns the joined bucket, or `None` if nothing was done.
    pub fn merge(&mut self) -> Option<Bucket> {
        let whole = self.last_split()?.0.merged();
        if self.pointer == 0 {
            *self = Self { level: self.level - 1, pointer: 1 << (self.level - 1) };
        }
        self.pointer -= 1;
        whole
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn files() -> impl Strategy<Value = LinearHashTable> {
        (0..LEVEL_MAX, any::<u64>())
            .prop_map(|(level, bits)| LinearHashTable { level, pointer: low_bits(bits, level) })
    }

    #[test]
    fn table_grows_and_shrinks_in_one_order() {
        let mut file = LinearHashTable::FIRST;
        let mut shapes = vec![file];
        let mut cut = Vec::new();
        for _ in 0..6 {
            let (left, right) = file.split().unwrap();
            cut.push((left.number(), right.number()));
            shapes.push(file);
        }
        assert_eq!(cut, [(0, 1), (0, 2), (1, 3), (0, 4), (1, 5), (2, 6)]);
        while let Some(before) = shapes.pop() {
            assert_eq!((file, file.buckets()), (before, shapes.len() as u64 + 1));
            assert_eq!(file.merge().is_some(), !shapes.is_empty());
        }
    }

    #[test]
    fn largest_table_does_not_split() {
        let mut file =
            LinearHashTable { level: LEVEL_MAX - 1, pointer: (1 << (LEVEL_MAX - 1)) - 1 };
        let (left, right) = file.split().unwrap();
        assert_eq!((left.level(), right.number()), (LEVEL_MAX, u64::MAX >> 1));
        assert_eq!((file, file.split(), file.buckets()), (LinearHashTable::LAST, None, 1 << 63));
        assert_eq!(file.merge().map(Bucket::level), Some(LEVEL_MAX - 1));
        assert_eq!(LinearHashTable::of_buckets(NonZeroU64::MAX), None);
        assert_eq!(
            (LinearHashTable::largest_without(0), LinearHashTable::largest_without(u64::MAX)),
            (None, None)
        );
    }

    proptest! {
        #[test]
        fn an_address_is_a_bucket_that_holds_it(file in files(), hash: u64) {
            let bucket = file.bucket(file.address(hash)).unwrap();
            prop_assert!(bucket.holds(hash));
            let table = NonZeroU64::new(file.buckets()).and_then(LinearHashTable::of_buckets);
            prop_assert_eq!(table, Some(file));
        }

        #[test]
        fn what_is_split_is_merged(file in files()) {
            let mut other = file;
            let halves = other.split();
            prop_assert_eq!(other.last_split(), halves);
            prop_assert_eq!(other.merge(), file.next_split());
            prop_assert_eq!(other, file);
        }

        #[test]
        fn bucket_bounds_size_of_its_table(file in files(), of: u64) {
            let number = of % file.buckets();
            let bucket = file.bucket(number).unwrap();
            let least = LinearHashTable::smallest_with(bucket);
            prop_assert!(least <= file);
            prop_assert_eq!(least.bucket(number), Some(bucket));
            // One bucket fewer would not do.
            let mut fewer = least;
            if fewer.merge().is_some() {
                prop_assert_ne!(fewer.bucket(number), Some(bucket));
            }
            if let Some(lacking) = LinearHashTable::largest_without(number) {
                prop_assert!(lacking < file);
                prop_assert_eq!(lacking.bucket(number), None);
            }
        }
    }
}
