//! Which point of its circle is a key, if buckets of a linear-hash file are to be arcs?
//!
//! Linear hashing numbers its buckets by the *low* bits of a key's hash; a circle is ordered by
//! the *high* bits of a position. So the hash is turned about, lowest bit first, and what the file
//! calls bucket *a* of level *j* is then the stretch of all hashes that end in *a*'s *j* bits:
//!
//! ```text
//!   position = id (u32 BE) ‖ bitreverse64(hash64(key)) (u64 BE) ‖ key
//!
//!   hash64      … 0 1 1 0          bucket 2 of level 2 = all hashes that end in 10
//!   turned      0 1 1 0 …                              = all positions that begin with 01
//! ```
//!
//! `hash64` is SipHash-1-3 with a key of zeros: equal everywhere and for ever, since positions are
//! written down. (Whoever may choose keys can choose a bucket, as he can choose a slot.) The whole
//! key counts; a hash tag means nothing here.
//!
//! No keyspace of the catalogue has this placement yet.

use siphasher::sip::SipHasher13;

use crate::ids::KeyspaceId;
use crate::position::Position;

/// The hash of a key, the same everywhere.
pub fn hash64(key: &[u8]) -> u64 {
    SipHasher13::new_with_keys(0, 0).hash(key)
}

/// The position of a key.
pub fn linear_hash_position(keyspace: KeyspaceId, key: &[u8]) -> Position {
    let turned = hash64(key).reverse_bits().to_be_bytes();
    Position::at(keyspace, &[&turned, key].concat())
}

/// The key at a position of this placement; `None` if no key can be there.
pub fn linear_hash_key(position: &Position) -> Option<&[u8]> {
    let (turned, key) = position.tail().split_first_chunk::<8>()?;
    (u64::from_be_bytes(*turned).reverse_bits() == hash64(key)).then_some(key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert_eq!(linear_hash_position(K, b"foo").bytes(), position);
    }

    proptest! {
        #[test]
        fn a_position_knows_its_key(id: u32, key: Vec<u8>) {
            let position = linear_hash_position(KeyspaceId(id), &key);
            prop_assert_eq!(position.keyspace(), KeyspaceId(id));
            prop_assert_eq!(linear_hash_key(&position), Some(&key[..]));
        }

        #[test]
        fn where_the_hash_is_another_there_is_no_key(tail: Vec<u8>, key: Vec<u8>) {
            let turned = hash64(&key).reverse_bits() ^ 1;
            let at = Position::at(K, &[&turned.to_be_bytes()[..], &key].concat());
            prop_assert_eq!(linear_hash_key(&at), None);
            // Whatever stands there, it is read or refused.
            let _ = linear_hash_key(&Position::at(K, &tail));
        }
    }
}
