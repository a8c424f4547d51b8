//! Inputs and outputs of an engine.

use keyspace::{KeyHasher, Placement, Slot, Timestamp};

use super::record::Record;

/// An era with at most this many keys is flushed key by key, so that a program which sets one
/// key and flushes, over and over, does not fill memory with empty indexes.
const FLUSH_IN_PLACE_KEYS_MAX: u64 = if cfg!(test) { 2 } else { 1024 };

/// The fixed settings of an engine. A hasher alone converts into settings with defaults.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What hashes the keys.
    pub hasher: KeyHasher,
    /// Eras of more keys are set aside by a flush, smaller ones emptied key by key. Says how, not
    /// what: no answer depends on it.
    pub flush_in_place_keys_max: u64,
}

impl From<KeyHasher> for Settings {
    fn from(hasher: KeyHasher) -> Self {
        Self { hasher, flush_in_place_keys_max: FLUSH_IN_PLACE_KEYS_MAX }
    }
}

/// How a shard's keys are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Slot tables for the slots `first_slot..end_slot`.
    Hashed {
        /// The first slot of the shard.
        first_slot: Slot,
        /// The first slot after the shard.
        end_slot: Slot,
    },
    /// A tree by key bytes; slot and hash of keys are ignored.
    Ordered,
    /// A tree by the keys' numbers on the circle of linear hashing, and their bytes.
    LinearHash,
}

impl Layout {
    /// Whether keys lie in slots.
    pub fn is_hashed(&self) -> bool {
        matches!(self, Layout::Hashed { .. })
    }

    /// Of which keyspaces shards are so.
    pub fn placement(&self) -> Placement {
        match self {
            Layout::Hashed { .. } => Placement::Hashed,
            Layout::Ordered => Placement::Ordered,
            Layout::LinearHash => Placement::LinearHash,
        }
    }
}

/// The operation needs the other layout. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this keyspace is not {needed}")]
pub struct WrongLayout {
    /// The layout that has this operation.
    pub needed: &'static str,
}

/// A value as it was at some time. Borrowed from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// The value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds since 1970; 0 for never.
    pub expiry_ms: u64,
    /// When it was written.
    pub timestamp: Timestamp,
}

impl Version<'_> {
    pub(super) fn of(record: Record) -> Self {
        Self { value: record.value(), expiry_ms: record.expiry_ms(), timestamp: record.timestamp() }
    }
}

/// What a read at a time finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadResult<'a> {
    /// This value.
    Value(Version<'a>),
    /// Nothing, and nothing later either; or there was something, which had ended by then.
    Nil,
    /// Nothing yet: the key has versions, all of them later.
    NilYet,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of newest versions that are values. Those expired count until they are collected.
    pub live_bytes: u64,
    /// Bytes of all other versions: superseded, flushed, tombstones.
    pub old_bytes: u64,
    /// Bytes of the indexes.
    pub index_bytes: u64,
    /// Keys whose newest version is a value.
    pub keys: u64,
    /// Versions of all kinds.
    pub versions: u64,
}
