//! Volumes: keyspaces whose values are the blocks of a disk.
//!
//! A block has a key of eight bytes, its number, the highest byte first. A block without a key is
//! all zeroes; in a clone it is that of the source as of the clone's time. An empty value is a
//! block of zeroes, too: so a clone tells what it has made zeroes from what it has not written.
//!
//! ```text
//!   read block 7 of c ──► c has key 7? ── no ──► key 7 of its source as of then? ── no ──► zeroes
//!                          └ yes: its value        └ and so on, if that is a clone as well
//! ```
//!
//! A clone pins its time in its source (SAFETY G21): the catalogue names both, so the pin is there
//! as long as the clone, and a source cannot be dropped before its clones. Once all is copied, a
//! clone is *flattened*: it needs no source. What was visible in it before is not whole any more,
//! so
//! it is read from then on only. It goes on to keep empty values: a node that does not know of the
//! change yet must not take a block that was made zeroes for one of the source.

use std::fmt;

use super::{Catalogue, CatalogueError, Durability, Keyspace};
use crate::ids::KeyspaceId;
use crate::timestamp::Timestamp;

/// The smallest block.
pub const BLOCK_BYTES_MIN: u32 = 4 << 10;
/// The largest.
pub const BLOCK_BYTES_MAX: u32 = 64 << 10;
/// The largest volume: a pebibyte.
pub const VOLUME_BYTES_MAX: u64 = 1 << 50;
/// The most clones of one volume.
pub const CLONES_MAX: usize = 64;
/// How many volumes a read of a clone may look at: its own, its source, the source of that.
pub const CLONE_DEPTH_MAX: usize = 4;
/// Names of clones that an error tells.
const NAMES_MAX: usize = 8;

/// Where the blocks of a volume come from that it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeOrigin {
    /// From nowhere: they are zeroes.
    #[default]
    Empty,
    /// From another volume as of a past time.
    Clone {
        /// That volume.
        source: KeyspaceId,
        /// The time, which stays readable there.
        at: Timestamp,
    },
    /// It was a clone, and has had all since a time.
    Flattened {
        /// The time: before it the volume cannot be read.
        since: Timestamp,
    },
}

/// Why a volume cannot be cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCloneReason {
    /// There is no such volume, or it is a keyspace of another kind.
    NoVolume,
    /// It has as many clones as it may have.
    TooMany,
    /// It is a clone of a clone of one, and so on.
    TooDeep,
    /// Blocks of the clone would have another length.
    OtherBlocks,
}

impl fmt::Display for NoCloneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVolume => f.write_str("there is no such volume"),
            Self::TooMany => {
                write!(f, "it has {CLONES_MAX} clones, which is the most there may be")
            }
            Self::TooDeep => write!(
                f,
                "it is the last of {CLONE_DEPTH_MAX} volumes of which each is a clone of the one \
                 before; flatten one of them"
            ),
            Self::OtherBlocks => {
                f.write_str("blocks of a clone are as long as those of its source")
            }
        }
    }
}

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
    /// Where blocks come from that it does not have.
    pub origin: VolumeOrigin,
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
        let &Self { bytes, block_bytes, .. } = self;
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

    /// Whether a block of zeroes keeps an empty value.
    pub fn marks_zeroes(&self) -> bool {
        self.origin != VolumeOrigin::Empty
    }

    /// The volume and the time that absent blocks are read from.
    pub fn source(&self) -> Option<(KeyspaceId, Timestamp)> {
        match self.origin {
            VolumeOrigin::Clone { source, at } => Some((source, at)),
            VolumeOrigin::Empty | VolumeOrigin::Flattened { .. } => None,
        }
    }

    /// The oldest time at which it may be read.
    pub fn readable_since(&self) -> Timestamp {
        match self.origin {
            VolumeOrigin::Flattened { since } => since,
            VolumeOrigin::Empty | VolumeOrigin::Clone { .. } => Timestamp::ZERO,
        }
    }
}

impl Keyspace {
    /// The volume and the time that absent blocks are read from.
    pub fn source(&self) -> Option<(KeyspaceId, Timestamp)> {
        self.options.volume.as_ref()?.source()
    }
}

impl Catalogue {
    /// The clones of a volume, by name, with their times.
    pub fn clones(&self, source: KeyspaceId) -> impl Iterator<Item = (&Keyspace, Timestamp)> {
        self.iter().filter_map(move |one| {
            let (of, at) = one.source()?;
            (of == source).then_some((one, at))
        })
    }

    /// Whether a clone may be made.
    pub(super) fn check_clone(
        &self,
        name: &str,
        volume: &VolumeOptions,
    ) -> Result<(), CatalogueError> {
        let refused = |why| Err(CatalogueError::NoClone { name: name.into(), why });
        let (source, at) = match volume.origin {
            VolumeOrigin::Empty => return Ok(()),
            VolumeOrigin::Clone { source, at } => (source, at),
            VolumeOrigin::Flattened { .. } => return refused(NoCloneReason::NoVolume),
        };
        let Some(of) = self.by_id(source).and_then(|of| of.options.volume) else {
            return refused(NoCloneReason::NoVolume);
        };
        if of.block_bytes != volume.block_bytes {
            return refused(NoCloneReason::OtherBlocks);
        }
        if self.clones(source).count() >= CLONES_MAX {
            return refused(NoCloneReason::TooMany);
        }
        let next = |of: &VolumeOptions| self.by_id(of.source()?.0)?.options.volume;
        let depth = 1 + std::iter::successors(Some(of), next).take(CLONE_DEPTH_MAX).count();
        if depth > CLONE_DEPTH_MAX {
            return refused(NoCloneReason::TooDeep);
        }
        match of.readable_since() {
            since if at < since => Err(CatalogueError::BelowSafePoint { at, safe_point: since }),
            _ => Ok(()),
        }
    }

    /// Refuses what a clone of times before this one does not outlive.
    pub(super) fn check_no_clones(
        &self,
        keyspace: &Keyspace,
        before: Timestamp,
    ) -> Result<(), CatalogueError> {
        let clones: Vec<&str> = self
            .clones(keyspace.id)
            .filter(|(_, at)| *at < before)
            .map(|(one, _)| &*one.name)
            .collect();
        if clones.is_empty() {
            return Ok(());
        }
        let mut by = clones[..clones.len().min(NAMES_MAX)].join(", ");
        if clones.len() > NAMES_MAX {
            by.push_str(&format!(" and {} more", clones.len() - NAMES_MAX));
        }
        Err(CatalogueError::HasClones { name: keyspace.name.clone(), by: by.into() })
    }
}
