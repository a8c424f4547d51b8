//! Positions of keys in a `linear-hash` keyspace: they make the buckets of a table arcs.
//!
//! Linear hashing numbers its buckets by the *low* bits of a key's hash. A circle is ordered by the
//! *high* bits of a position. So the hash is bit-reversed, lowest bit first. Bucket *a* of level
//! *j* is then the range of all hashes that end in *a*'s *j* bits:
//!
//! ```text
//!   position = id (u32 BE) ‖ bitreverse64(hash64(key)) (u64 BE) ‖ key
//!
//!   hash64      … 0 1 1 0          bucket 2 of level 2 = all hashes that end in 10
//!   reversed    0 1 1 0 …                              = all positions that begin with 01
//! ```
//!
//! `hash64` is SipHash-1-3 with a key of zeros. It never changes, since positions are on disk. (A
//! client that chooses keys can choose a bucket, as it can choose a slot.) The whole key counts; a
//! hash tag means nothing here.
//!
//! An end of an arc is the number of its position alone, 8 bytes, and the origin none. As a key's
//! position is longer, and begins with its number, the number alone decides which arc a key is in.

use siphasher::sip::SipHasher13;

use crate::arc::Arc;
use crate::ids::KeyspaceId;
use crate::position::Position;

/// The hash of a key, the same everywhere.
pub fn hash64(key: &[u8]) -> u64 {
    SipHasher13::new_with_keys(0, 0).hash(key)
}

/// The bit-reversed hash of a key: the number of its position.
pub fn bit_reversed_hash(key: &[u8]) -> u64 {
    hash64(key).reverse_bits()
}

/// The number of a position without the keyspace's id, if it is one at which an arc may begin or
/// end; that of the origin is 0.
pub fn number_at(tail: &[u8]) -> Option<u64> {
    match *tail {
        [] => Some(0),
        _ => tail.try_into().ok().map(u64::from_be_bytes).filter(|number| *number > 0),
    }
}

/// The position of a number; that of 0 is the origin.
pub fn position_of(keyspace: KeyspaceId, number: u64) -> Position {
    match number {
        0 => Position::origin(keyspace),
        _ => Position::at(keyspace, &number.to_be_bytes()),
    }
}

/// The middle of an arc that is a bucket: the number at which its right half begins. None if it is
/// no bucket, or can be halved no more.
pub fn middle(arc: &Arc) -> Option<u64> {
    let (start, end) = (number_at(arc.start().tail())?, number_at(arc.end().tail())?);
    if arc.is_whole() {
        return Some(1 << 63);
    }
    let width = end.wrapping_sub(start);
    // The numbers of a level lie a width apart.
    let is_bucket = width.is_power_of_two() && start.is_multiple_of(width);
    // Below that, a half would be no bucket of any level.
    (is_bucket && width > 2).then(|| start + width / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::position::Placement;

    const K: KeyspaceId = KeyspaceId(3);

    /// From an implementation written for this test alone.
    const VECTORS: [u64; 3] = [0xd1fb_a762_150c_532c, 0x6a5c_dcad_01c9_73fa, 0x2323_7138_c3bc_1afc];

    /// Of SipHash-1-3 with a key of zeros; the first is that of no bytes at all.
    #[test]
    fn hashes_are_those_that_are_written_down() {
        let hashes = [&b""[..], b"foo", b"key:000000001234"].map(hash64);
        assert_eq!(hashes, VECTORS);
    }

    #[test]
    fn a_position_is_as_the_front_page_says() {
        let turned = VECTORS[1].reverse_bits().to_be_bytes();
        let position = [&b"\0\0\0\x03"[..], &turned, b"foo"].concat();
        assert_eq!(Placement::LinearHash.position(K, b"foo").bytes(), position);
    }

    #[test]
    fn buckets_have_a_middle() {
        let arc = |start, end| Arc::new(position_of(K, start), position_of(K, end)).unwrap();
        let (half, quarter) = (1 << 63, 1 << 62);
        for (start, end, at) in [
            (0, 0, Some(half)),
            (0, half, Some(quarter)),
            (half, 0, Some(half + quarter)),
            (4, 8, Some(6)),
            (u64::MAX - 3, 0, Some(u64::MAX - 1)),
            (4, 6, None),
            (6, 10, None),
            (quarter, 0, None),
            (half, quarter, None),
        ] {
            assert_eq!(middle(&arc(start, end)), at, "{start} {end}");
        }
        let other = Arc::new(Position::at(K, b"\x40"), position_of(K, half)).unwrap();
        assert_eq!(middle(&other), None);
    }

    proptest! {
        #[test]
        fn a_position_knows_its_key(id: u32, key: Vec<u8>) {
            let position = Placement::LinearHash.position(KeyspaceId(id), &key);
            prop_assert_eq!(position.keyspace(), KeyspaceId(id));
            prop_assert_eq!(Placement::LinearHash.key(&position), Some(&key[..]));
        }

        /// The number alone decides which arc a key is in.
        #[test]
        fn an_arc_holds_a_key_if_it_holds_its_number(key: Vec<u8>, ends: [u64; 2]) {
            let [start, end] = ends.map(|end| position_of(K, end));
            let arc = Arc::new(start, end).unwrap();
            let position = Placement::LinearHash.position(K, &key);
            let place = bit_reversed_hash(&key).to_be_bytes();
            prop_assert_eq!(arc.contains(&position), arc.holds(&place));
        }

        #[test]
        fn where_the_hash_is_another_there_is_no_key(tail: Vec<u8>, key: Vec<u8>) {
            let turned = hash64(&key).reverse_bits() ^ 1;
            let at = Position::at(K, &[&turned.to_be_bytes()[..], &key].concat());
            prop_assert_eq!(Placement::LinearHash.key(&at), None);
            // Whatever stands there, it is read or refused.
            let _ = Placement::LinearHash.key(&Position::at(K, &tail));
        }
    }
}
