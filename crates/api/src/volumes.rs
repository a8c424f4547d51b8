//! Volumes: keyspaces that clients see as disks.

use keyspace::VolumeOptions;
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
        Self { bytes, block_bytes, is_shared: shared }
    }
}

impl From<VolumeOptions> for VolumeSpec {
    fn from(VolumeOptions { bytes, block_bytes, is_shared }: VolumeOptions) -> Self {
        Self { bytes, block_bytes, shared: is_shared }
    }
}
