//! The point of a key on its keyspace's circle.
//!
//! A position is a byte string, ordered bytewise. It begins with the id of its keyspace, so each
//! keyspace is a range of one order, bent into a circle of its own:
//!
//! | placement | position of `key` in keyspace 3 | example, key `foo` |
//! |---|---|---|
//! | hashed | id (u32 BE) ‖ slot (u16 BE) ‖ key | `00000003 2f96 666f6f` (slot 12182) |
//! | ordered | id (u32 BE) ‖ key | `00000003 666f6f` |
//! | linear hash | id (u32 BE) ‖ bit-reversed hash (u64 BE) ‖ key | [`linear_hash`](crate::linear_hash) |
//!
//! Numbers are big-endian so that bytewise order is the order of the numbers. The lowest point of a
//! circle, its **origin**, is the id alone; it also stands for the point above all others.

use std::fmt;

use crate::ids::KeyspaceId;
use crate::linear_hash::bit_reversed_hash;
use crate::slot::{SLOTS, Slot, slot_of};

/// How many bytes of a position are its keyspace's id.
pub const ID_BYTES: usize = 4;

/// How keys are laid out on their keyspace's circle. Fixed when the keyspace is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// By slot, then key: even load, no range scans, Redis Cluster's routing.
    #[default]
    Hashed,
    /// By key: range scans.
    Ordered,
    /// By hash, so that the buckets of a file of linear hashing are arcs: it grows by one shard at
    /// a time, in a fixed order.
    LinearHash,
}

impl Placement {
    /// The position of a key.
    pub fn position(self, keyspace: KeyspaceId, key: &[u8]) -> Position {
        let (slot, turned) = (slot_of(key).to_be_bytes(), bit_reversed_hash(key).to_be_bytes());
        let before: &[u8] = match self {
            Placement::Hashed => &slot,
            Placement::Ordered => &[],
            Placement::LinearHash => &turned,
        };
        Position([&keyspace.0.to_be_bytes(), before, key].concat().into())
    }

    /// The key at a position of this placement; `None` if no key can be there.
    pub fn key(self, position: &Position) -> Option<&[u8]> {
        let tail = position.tail();
        match self {
            Placement::Ordered => Some(tail),
            Placement::Hashed => {
                let (slot, key) = tail.split_first_chunk::<2>()?;
                (u16::from_be_bytes(*slot) == slot_of(key)).then_some(key)
            }
            Placement::LinearHash => {
                let (number, key) = tail.split_first_chunk::<8>()?;
                (u64::from_be_bytes(*number) == bit_reversed_hash(key)).then_some(key)
            }
        }
    }
}

/// A point on the circle of one keyspace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(Box<[u8]>);

impl Position {
    /// The lowest point of a circle.
    pub fn origin(keyspace: KeyspaceId) -> Self {
        Self::at(keyspace, &[])
    }

    /// The point that is `tail` bytes after the id.
    pub fn at(keyspace: KeyspaceId, tail: &[u8]) -> Self {
        Self([&keyspace.0.to_be_bytes(), tail].concat().into())
    }

    /// Where a slot of a hashed keyspace begins: slot 0 and the end of the last slot are the
    /// origin.
    ///
    /// # Panics
    /// If `slot` exceeds [`SLOTS`].
    pub fn slot_start(keyspace: KeyspaceId, slot: Slot) -> Self {
        assert!(slot <= SLOTS, "slot {slot} is no slot");
        if slot.is_multiple_of(SLOTS) {
            Self::origin(keyspace)
        } else {
            Self::at(keyspace, &slot.to_be_bytes())
        }
    }

    /// The keyspace on whose circle it lies.
    pub fn keyspace(&self) -> KeyspaceId {
        let id = self.0.first_chunk::<ID_BYTES>().expect("made with an id");
        KeyspaceId(u32::from_be_bytes(*id))
    }

    /// What comes after the keyspace's id.
    pub fn tail(&self) -> &[u8] {
        &self.0[ID_BYTES..]
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is the lowest point of its circle.
    pub fn is_origin(&self) -> bool {
        self.tail().is_empty()
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.keyspace(), self.tail().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const K: KeyspaceId = KeyspaceId(3);

    #[test]
    fn positions_are_as_the_front_page_says() {
        assert_eq!(Placement::Hashed.position(K, b"foo").bytes(), b"\0\0\0\x03\x2f\x96foo");
        assert_eq!(Placement::Ordered.position(K, b"foo").bytes(), b"\0\0\0\x03foo");
        assert!(
            Position::slot_start(K, SLOTS).is_origin() && Position::slot_start(K, 0).is_origin()
        );
    }

    #[test]
    fn a_position_with_the_wrong_slot_holds_no_key() {
        assert_eq!(Placement::Hashed.key(&Position::at(K, b"\0\0foo")), None);
        assert_eq!(Placement::Hashed.key(&Position::at(K, b"\0")), None);
    }

    proptest! {
        #[test]
        fn a_position_knows_its_key_and_keyspace(id: u32, key: Vec<u8>) {
            for placement in [Placement::Hashed, Placement::Ordered, Placement::LinearHash] {
                let position = placement.position(KeyspaceId(id), &key);
                prop_assert_eq!(position.keyspace(), KeyspaceId(id));
                prop_assert_eq!(placement.key(&position), Some(&key[..]));
            }
        }

        #[test]
        fn hashed_positions_are_ordered_by_slot(a: Vec<u8>, b: Vec<u8>) {
            let [pa, pb] = [&a, &b].map(|key| Placement::Hashed.position(K, key));
            prop_assert_eq!(pa.cmp(&pb), (slot_of(&a), &a).cmp(&(slot_of(&b), &b)));
            prop_assert!(pa >= Position::slot_start(K, slot_of(&a)));
            let next = Position::slot_start(K, slot_of(&a) + 1);
            prop_assert!(next.is_origin() || pa < next);
        }
    }
}
