//! Volumes: keyspaces whose values are the blocks of a disk.
//!
//! A block has a key of eight bytes, its number, the highest byte first. A block without a value
//! is all zeroes.

use super::{CatalogueError, Durability};

/// The smallest block.
pub const BLOCK_BYTES_MIN: u32 = 4 << 10;
/// The largest.
pub const BLOCK_BYTES_MAX: u32 = 64 << 10;
/// The largest volume: a pebibyte.
pub const VOLUME_BYTES_MAX: u64 = 1 << 50;

/// What makes a keyspace a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Its size: a whole number of blocks, 1 to [`VOLUME_BYTES_MAX`] bytes. Can be changed later;
    /// what lies behind a smaller size stays, and is there again when the volume grows.
    pub bytes: u64,
    /// The bytes of a block: a power of two from [`BLOCK_BYTES_MIN`] to [`BLOCK_BYTES_MAX`]. Cannot
    /// be changed later.
    pub block_bytes: u32,
    /// Whether several sessions may write to it at the same time; else one (SAFETY G28). Cannot be
    /// changed later.
    pub is_shared: bool,
}

impl VolumeOptions {
    /// The key of a block.
    pub fn key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// Whether a volume may be so.
    ///
    /// # Errors
    /// [`CatalogueError::BadVolume`].
    pub fn check(&self, durability: Durability) -> Result<(), CatalogueError> {
        let &Self { bytes, block_bytes, is_shared: _ } = self;
        let is_block = block_bytes.is_power_of_two()
            && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes);
        let is_size = is_block
            && (1..=VOLUME_BYTES_MAX).contains(&bytes)
            && bytes.is_multiple_of(block_bytes.into());
        // What was flushed survives power cuts: so each answer is one of what is on disk.
        match is_size && durability == Durability::Sync {
            true => Ok(()),
            false => Err(CatalogueError::BadVolume { bytes, block_bytes }),
        }
    }
}
