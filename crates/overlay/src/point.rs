//! A position that is borrowed: what a lookup is asked for, without copying a key.
//!
//! The owner of a key depends on no more of its position than the arcs' ends show. A slot is never
//! cut, so for a hashed keyspace the two bytes of the slot are enough; for an ordered one the tail
//! is the key itself:
//!
//! ```
//! use keyspace::{KeyspaceId, Placement, Position, slot_of};
//! use overlay::Point;
//!
//! let slot = slot_of(b"foo").to_be_bytes();
//! let point = Point { keyspace: KeyspaceId(3), tail: &slot };
//! assert!(point.tail <= Placement::Hashed.position(KeyspaceId(3), b"foo").tail());
//! ```

use keyspace::{Arc, KeyspaceId, Position};

/// A point on the circle of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point<'a> {
    /// On whose circle.
    pub keyspace: KeyspaceId,
    /// What comes after the keyspace's id in the position.
    pub tail: &'a [u8],
}

impl<'a> From<&'a Position> for Point<'a> {
    fn from(position: &'a Position) -> Self {
        Self { keyspace: position.keyspace(), tail: position.tail() }
    }
}

impl Point<'_> {
    /// Whether it lies in an arc.
    pub fn is_in(&self, arc: &Arc) -> bool {
        let (start, end) = (arc.start().tail(), arc.end().tail());
        let (above, below) = (self.tail >= start, self.tail < end);
        let inside = if start < end { above && below } else { above || below };
        self.keyspace == arc.keyspace() && inside
    }
}

/// The first eight bytes of a tail as a number, with zeros where it is shorter. Its order is the
/// order of tails, but that unequal tails may have equal prefixes.
#[inline]
pub(crate) fn prefix(tail: &[u8]) -> u64 {
    if let Some(first) = tail.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..tail.len()].copy_from_slice(tail);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const K: KeyspaceId = KeyspaceId(1);

    fn tails() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0..2u8, 0..10)
    }

    proptest! {
        #[test]
        fn a_prefix_keeps_the_order(a in tails(), b in tails()) {
            match a.cmp(&b) {
                std::cmp::Ordering::Less => prop_assert!(prefix(&a) <= prefix(&b)),
                std::cmp::Ordering::Equal => prop_assert_eq!(prefix(&a), prefix(&b)),
                std::cmp::Ordering::Greater => prop_assert!(prefix(&a) >= prefix(&b)),
            }
        }

        #[test]
        fn a_point_lies_where_its_position_does(a in tails(), b in tails(), p in tails()) {
            let [start, end, at] = [&a, &b, &p].map(|tail| Position::at(K, tail));
            let arc = Arc::new(start, end).unwrap();
            prop_assert_eq!(Point::from(&at).is_in(&arc), arc.contains(&at));
            let elsewhere = Point { keyspace: KeyspaceId(2), tail: &p };
            prop_assert!(!elsewhere.is_in(&arc));
        }
    }
}
