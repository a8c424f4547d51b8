//! How does a transaction name its keys, so that a record in one shard can list locks in others?
//!
//! A transaction of one keyspace names a key by the key alone. One that *spans* keyspaces puts the
//! keyspace's id before it, 4 bytes, big endian. A bit of the attempt in its id says so, and
//! attempts that follow keep it.
//!
//! | where | what stands there |
//! |---|---|
//! | record of a PREPARE and of a lock, promised keys, keys of a record | names |
//! | keys of locks, marks and records; what a step shows as keys | keys of the shard's keyspace |

use std::borrow::Cow;

use keyspace::KeyspaceId;

use super::TxnId;

/// The bit of an attempt: names begin with a keyspace.
const SPANS: u32 = 1 << 31;

impl TxnId {
    /// The id of a transaction that may have keys in several keyspaces.
    pub fn spanning(self) -> Self {
        Self { attempt: self.attempt | SPANS, ..self }
    }

    /// Whether its names begin with their keyspaces.
    pub fn spans_keyspaces(&self) -> bool {
        self.attempt & SPANS != 0
    }

    /// The number of the attempt; the first is 0.
    pub fn number(&self) -> u32 {
        self.attempt & !SPANS
    }

    /// Whether an attempt at it has failed before.
    pub fn is_retry(&self) -> bool {
        self.attempt & !SPANS > 0
    }

    /// Its name of a key.
    pub fn name_of<'k>(&self, keyspace: KeyspaceId, key: &'k [u8]) -> Cow<'k, [u8]> {
        match self.spans_keyspaces() {
            false => Cow::Borrowed(key),
            true => Cow::Owned([&keyspace.0.to_be_bytes()[..], key].concat()),
        }
    }

    /// The keyspace and the key of a name; `own` is the keyspace of one that spans no other.
    pub fn place_of<'n>(&self, own: KeyspaceId, name: &'n [u8]) -> (KeyspaceId, &'n [u8]) {
        match name.split_first_chunk() {
            Some((id, key)) if self.spans_keyspaces() => (KeyspaceId(u32::from_be_bytes(*id)), key),
            _ => (own, name),
        }
    }

    /// The key of a name, in whichever keyspace.
    pub fn key_of<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        self.place_of(KeyspaceId(0), name).1
    }
}

#[cfg(test)]
mod tests {
    use keyspace::Timestamp;

    use super::*;

    #[test]
    fn names_lead_back_to_their_keys() {
        let plain = TxnId { start: Timestamp(7), coordinator: 1, attempt: 0 };
        let (own, other) = (KeyspaceId(1), KeyspaceId(0x0102_0304));
        assert_eq!(&*plain.name_of(other, b"key"), b"key");
        assert_eq!(plain.place_of(own, b"key!!"), (own, &b"key!!"[..]));
        let spanning = plain.spanning();
        assert!(spanning.spans_keyspaces() && !spanning.is_retry() && !plain.spans_keyspaces());
        let again = TxnId { attempt: spanning.attempt + 1, ..spanning };
        assert!(again.spans_keyspaces() && again.is_retry());
        for key in [&b""[..], b"k", b"key"] {
            let name = again.name_of(other, key);
            assert_eq!(&name[..4], [1, 2, 3, 4]);
            assert_eq!(again.place_of(own, &name), (other, key));
            assert_eq!(again.key_of(&name), key);
        }
        // Nobody sends that.
        assert_eq!(again.place_of(own, b"abc"), (own, &b"abc"[..]));
    }
}
