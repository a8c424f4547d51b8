//! The seeded key hash that orders keys within a slot (SAFETY G18).

use siphasher::sip::SipHasher13;

use crate::slot::{Slot, slot_of};

/// Hashes keys with a seed drawn once per cluster, so that a client cannot choose keys that
/// collide.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    /// The two halves of the seed.
    keys: (u64, u64),
}

/// A key with what its placement needs, computed once per request.
#[derive(Clone, Copy, Debug)]
pub struct HashedKey<'a> {
    /// The key itself.
    pub bytes: &'a [u8],
    /// Its slot, by hash tag.
    pub slot: Slot,
    /// Its seeded hash: 48 bits, in the low bits of the number.
    pub hash: u64,
}

impl KeyHasher {
    /// How many bits of hash there are.
    pub const BITS: u32 = 48;

    /// With the cluster's seed.
    pub const fn new(seed: [u8; 16]) -> Self {
        let seed = u128::from_le_bytes(seed);
        Self { keys: (seed as u64, (seed >> 64) as u64) }
    }

    /// The 48-bit hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        SipHasher13::new_with_keys(self.keys.0, self.keys.1).hash(key) >> (64 - Self::BITS)
    }

    /// The key with its slot and hash.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> HashedKey<'a> {
        HashedKey { bytes, slot: slot_of(bytes), hash: self.hash(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys lie on disk in the order of their hashes.
    #[test]
    fn hashes_are_those_of_siphash_with_the_seed_as_its_key() {
        let seed = std::array::from_fn(|i| (i as u8).wrapping_mul(17).wrapping_add(3));
        for key in [&b""[..], b"key", b"key:000000001234"] {
            let hash = SipHasher13::new_with_key(&seed).hash(key) >> 16;
            assert_eq!(KeyHasher::new(seed).hash(key), hash);
        }
    }
}
