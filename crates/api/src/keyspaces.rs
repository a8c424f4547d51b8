//! Keyspaces: made, changed, shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CloneInfo, VolumeSpec};

/// Where a keyspace's keys live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Spread by the hash of the key, as in Redis Cluster.
    #[default]
    Hashed,
    /// In the order of the keys, for range scans.
    Ordered,
    /// Spread by hash over the buckets of a file of linear hashing, which grows by one at a time.
    #[serde(rename = "linear-hash")]
    LinearHash,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// After fsync: survives a power cut.
    Sync,
    /// Before the next fsync, which comes within `interval_ms`: a power cut may lose that much.
    Interval,
    /// After it was handed to the system: survives the process's end, not the machine's.
    Memory,
}

/// A keyspace to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyspaceSpec {
    /// Its name.
    pub name: String,
    /// Where its keys live; cannot be changed later.
    #[serde(default)]
    pub placement: Placement,
    /// When its writes are answered; the node's default if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// How long replaced versions stay readable; the node's default if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    /// How many nodes hold each of its keys: 1, 3, 5, 7 or 9; the node's default if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u8>,
    /// Whether a write of the value and expiry that a key has makes no new version; false if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_equal_writes: Option<bool>,
    /// Makes it a volume, whose keys are blocks of a disk; its durability is sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeSpec>,
}

/// What to change of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyspaceChange {
    /// When its writes are answered from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// How long replaced versions stay readable from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    /// How many nodes hold each of its keys from now on: not fewer than now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u8>,
    /// Whether writes of what a key has make no new version from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_equal_writes: Option<bool>,
    /// The size of a volume from now on. What lies behind a smaller one stays in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_bytes: Option<u64>,
}

/// A keyspace as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyspaceInfo {
    /// Its id, never used again.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where its keys live.
    pub placement: Placement,
    /// When its writes are answered.
    pub durability: Durability,
    /// How long replaced versions stay readable.
    pub retention_ms: u64,
    /// How many nodes are to hold each of its keys.
    pub replicas: u8,
    /// Whether writes of what a key has make no new version.
    pub skip_equal_writes: bool,
    /// Of a volume: its size and its blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeSpec>,
    /// Of a clone: what it reads that it has not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<CloneInfo>,
    /// How many shards it has.
    pub shards: u64,
    /// How many keys it has.
    pub keys: u64,
    /// What to know of it; only in answers to `POST` and `PATCH`, and only if there is something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl From<Durability> for keyspace::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Sync => Self::Sync,
            Durability::Interval => Self::Interval,
            Durability::Memory => Self::Memory,
        }
    }
}

impl From<keyspace::Durability> for Durability {
    fn from(durability: keyspace::Durability) -> Self {
        match durability {
            keyspace::Durability::Sync => Self::Sync,
            keyspace::Durability::Interval => Self::Interval,
            keyspace::Durability::Memory => Self::Memory,
        }
    }
}
