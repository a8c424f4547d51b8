//! One bucket of a linear-hash table: its arc, and where it forwards a request for another bucket.
//!
//! ```text
//!   number 5, level 3    hashes …101      positions from 1010 0000 … to 1011 1111 …
//!                                         start = bitreverse64(5), width = 2^61
//! ```
//!
//! # Bytes
//! An end of an arc is the number of its position as 8 big-endian bytes behind the keyspace's id;
//! but 0, and the end of the last arc, are the origin, which has no bytes behind the id.

use keyspace::{Arc, KeyspaceId, Position};

use super::{LEVEL_MAX, low_bits};

/// A bucket: a number below 2^level, and how often its line was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    number: u64,
    level: u8,
}

impl Bucket {
    /// The only bucket of the smallest table.
    pub const WHOLE: Self = Self { number: 0, level: 0 };

    /// The bucket of this number and level; `None` if there is none.
    pub fn new(number: u64, level: u8) -> Option<Self> {
        let fits = level <= LEVEL_MAX && low_bits(number, level) == number;
        fits.then_some(Self { number, level })
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Its level: how many low bits of a hash decide.
    pub fn level(self) -> u8 {
        self.level
    }

    /// Whether it holds a hash.
    pub fn holds(self, hash: u64) -> bool {
        low_bits(hash, self.level) == self.number
    }

    /// Where it sends a request for `hash`; `None` if it is its own (A2).
    ///
    /// It computes with its own level, but that may be one more than the target has: then the
    /// bucket of the level below, if that is further on than this one, is the one that surely
    /// exists.
    pub fn forward(self, hash: u64) -> Option<u64> {
        let number = low_bits(hash, self.level);
        if number == self.number {
            return None;
        }
        let below = low_bits(hash, self.level.saturating_sub(1));
        let between = self.number < below && below < number;
        Some(if between { below } else { number })
    }

    /// Its two halves: itself a level up, and the new one. `None` at [`LEVEL_MAX`].
    pub fn split(self) -> Option<(Self, Self)> {
        let level = self.level + 1;
        let right = Self { number: self.number | 1 << self.level, level };
        (level <= LEVEL_MAX).then_some((Self { level, ..self }, right))
    }

    /// The bucket of the level below that it is a half of; `None` for [`Self::WHOLE`].
    pub fn merged(self) -> Option<Self> {
        let level = self.level.checked_sub(1)?;
        Some(Self { number: low_bits(self.number, level), level })
    }

    /// Where its arc begins, as the number of a position.
    pub fn start(self) -> u64 {
        self.number.reverse_bits()
    }

    /// The width of its arc in positions, as numbers; that of [`Self::WHOLE`] does not fit.
    pub fn width(self) -> Option<u64> {
        (self.level > 0).then(|| 1 << (64 - self.level))
    }

    /// Its arc on a circle.
    pub fn arc(self, keyspace: KeyspaceId) -> Arc {
        let end = self.width().map_or(0, |width| self.start().wrapping_add(width));
        let at = |number| match number {
            0 => Position::origin(keyspace),
            _ => Position::at(keyspace, &u64::to_be_bytes(number)),
        };
        Arc::new(at(self.start()), at(end)).expect("both ends lie on one circle")
    }

    /// The bucket whose arc this is; `None` if it is no bucket's.
    pub fn of(arc: &Arc) -> Option<Self> {
        if arc.is_whole() {
            return Some(Self::WHOLE);
        }
        let number = |position: &Position| match *position.tail() {
            [] => Some(0),
            ref tail => tail.try_into().ok().map(u64::from_be_bytes).filter(|number| *number > 0),
        };
        let (start, end) = (number(arc.start())?, number(arc.end())?);
        let width = end.wrapping_sub(start);
        let level = u8::try_from(64 - width.trailing_zeros()).ok()?;
        // The numbers of a level lie a width apart.
        let is_one = width.is_power_of_two() && start.is_multiple_of(width);
        is_one.then(|| Self::new(start.reverse_bits(), level)).flatten()
    }
}

/// The bucket that was split to make bucket `number`; `None` for the first.
pub fn parent(number: u64) -> Option<u64> {
    let top = number.checked_ilog2()?;
    Some(number & !(1 << top))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const K: KeyspaceId = KeyspaceId(7);

    fn buckets() -> impl Strategy<Value = Bucket> {
        (any::<u64>(), 0..=LEVEL_MAX)
            .prop_map(|(bits, level)| Bucket { number: low_bits(bits, level), level })
    }

    #[test]
    fn arcs_are_as_the_front_page_says() {
        let arc = Bucket::new(5, 3).unwrap().arc(K);
        assert_eq!(arc.start().tail(), [0xa0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(arc.end().tail(), [0xc0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Bucket::WHOLE.arc(K), Arc::whole(K));
        let last = Bucket::new(1, 1).unwrap().arc(K);
        assert!(last.end().is_origin() && last.start().tail()[0] == 0x80);
    }

    #[test]
    fn the_ends_of_the_levels() {
        let highest = Bucket::new(u64::MAX >> 1, LEVEL_MAX).unwrap();
        assert_eq!((highest.width(), highest.start()), (Some(2), u64::MAX - 1));
        assert_eq!((highest.split(), Bucket::WHOLE.merged()), (None, None));
        assert_eq!((Bucket::new(0, LEVEL_MAX + 1), Bucket::new(4, 2)), (None, None));
        assert_eq!(Bucket::WHOLE.forward(u64::MAX), None);
        assert_eq!((parent(0), parent(1), parent(13)), (None, Some(0), Some(5)));
    }

    #[test]
    fn other_arcs_are_no_buckets() {
        let at = |tail: &[u8]| Position::at(K, tail);
        let arc = |start: &[u8], end: &[u8]| Arc::new(at(start), at(end)).unwrap();
        let eight = |number: u64| number.to_be_bytes();
        let (quarter, half) = (eight(1 << 62), eight(1 << 63));
        assert!(Bucket::of(&arc(&quarter, &half)).is_some());
        for other in [
            arc(&[0x40], &half),
            arc(&quarter, &[0x80]),
            arc(&eight(0), &half),
            arc(&quarter, &eight(3 << 62)),
            arc(&half, &quarter),
            arc(&quarter, b"longer than eight"),
            arc(&eight(7), &eight(8)),
        ] {
            assert_eq!(Bucket::of(&other), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn a_bucket_is_known_by_its_arc(bucket in buckets(), hash: u64) {
            let arc = bucket.arc(K);
            prop_assert_eq!(Bucket::of(&arc), Some(bucket));
            let tail = hash.reverse_bits().to_be_bytes();
            prop_assert_eq!(arc.holds(&tail), bucket.holds(hash));
            prop_assert_eq!(bucket.forward(hash).is_none(), bucket.holds(hash));
        }

        #[test]
        fn halves_are_the_whole(bucket in buckets()) {
            if let Some((left, right)) = bucket.split() {
                let [left_arc, right_arc] = [left, right].map(|half| half.arc(K));
                prop_assert_eq!(left_arc.join(&right_arc), Some(bucket.arc(K)));
                prop_assert_eq!([left.merged(), right.merged()], [Some(bucket); 2]);
                prop_assert_eq!(parent(right.number()), Some(left.number()));
            }
        }
    }
}
