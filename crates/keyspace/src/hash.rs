//! The seeded key hash that orders keys within a slot (SAFETY G18).

use siphasher::sip::SipHasher13;

use crate::slot::{Slot, slot_of};

/// Hashes keys with a seed drawn once per cluster, so that nobody can choose keys that collide.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    seed: [u8; 16],
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
        Self { seed }
    }

    /// The 48-bit hash of a key.
    pub fn hash(&self, key: &[u8]) -> u64 {
        SipHasher13::new_with_key(&self.seed).hash(key) >> (64 - Self::BITS)
    }

    /// The key with its slot and hash.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> HashedKey<'a> {
        HashedKey { bytes, slot: slot_of(bytes), hash: self.hash(bytes) }
    }
}
