//! Volumes: keyspaces that clients see as disks.

use keyspace::{Timestamp, VolumeOptions, VolumeOrigin};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// Its size: a whole number of blocks, at most a pebibyte.
    pub bytes: u64,
    /// The bytes of a block: 4096, 8192, 16384, 32768 or 65536; 4096 if not given. They are written
    /// whole; it cannot be changed later.
    #[serde(default = "block_bytes")]
    pub block_bytes: u32,
    /// Whether several clients may write to it at the same time. Else one session of writers may,
    /// and one that comes later takes the volume from it. It cannot be changed later.
    #[serde(default)]
    pub shared: bool,
}

fn block_bytes() -> u32 {
    4096
}

impl From<VolumeSpec> for VolumeOptions {
    fn from(VolumeSpec { bytes, block_bytes, shared }: VolumeSpec) -> Self {
        Self { bytes, block_bytes, is_shared: shared, origin: VolumeOrigin::Empty }
    }
}

impl From<VolumeOptions> for VolumeSpec {
    fn from(VolumeOptions { bytes, block_bytes, is_shared, .. }: VolumeOptions) -> Self {
        Self { bytes, block_bytes, shared: is_shared }
    }
}

/// A volume to be made that shares its blocks with another one as of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneSpec {
    /// Its name.
    pub name: String,
    /// Its time; none: a time at or above all that was acknowledged before the request.
    pub at: Option<Timestamp>,
    /// How many nodes hold each of its blocks; none: as many as of its source.
    pub replicas: Option<u8>,
    /// How long its replaced blocks stay readable; none: as long as of its source.
    pub retention_ms: Option<u64>,
}

/// What a clone reads that it has not written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CloneInfo {
    /// The volume.
    pub volume: String,
    /// Its time, as digits.
    pub at: String,
    /// The same, in milliseconds since 1970.
    pub at_ms: u64,
}

/// How far a clone is flattened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flattened {
    /// Blocks that were copied.
    pub copied_blocks: u64,
    /// Whether it has all, and needs its source no more.
    pub is_done: bool,
}
