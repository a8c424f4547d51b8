//! Which files in this directory are valid, and which node do they belong to?
//!
//! **The idea.** One small file, replaced as a whole: written under a temporary name, synced,
//! renamed, the directory synced. It names the cluster, the node, the checkpoint of each shard and
//! the position from which the log is replayed. A crash leaves the old one or the new one.
//!
//! ```text
//!  checkpoints durable ──► MANIFEST stored ──► old segments and checkpoints removed
//! ```
//!
//! **Invariants.** 1. Everything a stored manifest names is durable before [`store`] is called,
//! and is removed only after a manifest without it is durable. 2. A directory is new only if it
//! holds neither a manifest nor anything a manifest would name.
//!
//! The first manifest, with `log_start` = [`Lsn::NEW`], is stored before the log is made; see
//! [`crate::log::Log::open`]. The bytes: docs/format.md §4.

use std::io;

use keyspace::{NodeId, ShardId};

use crate::Error;
use crate::checkpoint;
use crate::disk::Disk;
use crate::log::Lsn;
use crate::log::layout::{crc, put, u32_at, u64_at};
use crate::log::segment::segment_start;
use crate::replace::replace;

/// The manifest's name.
pub const MANIFEST_NAME: &str = "MANIFEST";
/// Its name while it is written.
const TEMPORARY_NAME: &str = "MANIFEST.tmp";
/// The first eight bytes.
pub const MANIFEST_MAGIC: [u8; 8] = *b"CARIMANI";
/// The only version that is read.
pub const MANIFEST_VERSION: u32 = 2;
/// The largest manifest; bounds what a reader allocates. Room for a million shards.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;

const FIXED_BYTES: usize = 88;
const ENTRY_BYTES: usize = 16;

mod at {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const CRC: usize = 12;
    pub const FILE_BYTES: usize = 16;
    pub const CHECKPOINTS: usize = 20;
    pub const CLUSTER: usize = 24;
    pub const NODE: usize = 32;
    pub const HASH_SEED: usize = 40;
    pub const LOG_START: usize = 56;
    pub const LOG_SALT: usize = 64;
    pub const JOINED_AT: usize = 72;
    pub const ORIGIN: usize = 80;
    pub const RESERVED: usize = 84;
}

// docs/format.md states these numbers; a change here is a new version there.
const _: () = {
    assert!(at::MAGIC == 0 && at::VERSION == 8 && at::CRC == 12 && at::FILE_BYTES == 16);
    assert!(at::CHECKPOINTS == 20 && at::CLUSTER == 24 && at::NODE == 32);
    assert!(at::HASH_SEED == 40 && at::LOG_START == 56 && at::LOG_SALT == 64);
    assert!(at::JOINED_AT == 72 && at::ORIGIN == 80 && at::RESERVED == 84);
    assert!(at::RESERVED + 4 == FIXED_BYTES && ENTRY_BYTES == 16);
};

/// The checkpoint that counts for a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointRef {
    /// The shard.
    pub shard: ShardId,
    /// The last index whose effect it holds.
    pub applied_index: u64,
}

impl CheckpointRef {
    /// The file.
    pub fn name(&self) -> String {
        checkpoint::checkpoint_name(self.shard, self.applied_index)
    }
}

/// How a node came to be in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It began the cluster, alone, and made its first shard.
    Founder,
    /// It joined a cluster that was there. It makes no shard that others do not ask for.
    Joined,
}

impl Origin {
    fn code(self) -> u32 {
        match self {
            Origin::Founder => 1,
            Origin::Joined => 2,
        }
    }

    fn of(code: u32) -> Option<Self> {
        [Origin::Founder, Origin::Joined].into_iter().find(|origin| origin.code() == code)
    }
}

/// What a directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The cluster the node belongs to.
    pub cluster: u64,
    /// The node whose directory this is.
    pub node: NodeId,
    /// The secret seed of key hashes, the same in the whole cluster.
    pub hash_seed: [u8; 16],
    /// The secret this directory's log checksums begin from ([`crate::log::LogOptions::salt`]).
    pub log_salt: u64,
    /// How the node came to be in the cluster.
    pub origin: Origin,
    /// When that was, in milliseconds since 1970 by its own clock, but after all members that it
    /// then knew: the order of joining.
    pub joined_at: u64,
    /// Where replay begins; [`Lsn::NEW`] until the log is made.
    pub log_start: Lsn,
    /// One per shard that has one, by rising shard.
    pub checkpoints: Vec<CheckpointRef>,
}

/// Reads the manifest; `None` if the directory is new.
///
/// # Errors
/// [`Error::Rot`], [`Error::Version`], [`Error::Io`]; [`Error::Orphan`] if there are segments or
/// checkpoints but no manifest.
pub fn load(disk: &dyn Disk) -> Result<Option<Manifest>, Error> {
    let file = match disk.open(MANIFEST_NAME) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return check_new(disk).map(|()| None),
        Err(e) => return Err(Error::io("open", MANIFEST_NAME, e)),
    };
    let file_bytes = file.len().map_err(|e| Error::io("measure", MANIFEST_NAME, e))?;
    if file_bytes > MANIFEST_BYTES_MAX as u64 {
        return Err(Error::rot(MANIFEST_NAME, 0, "the file is too long"));
    }
    let mut bytes = vec![0; file_bytes as usize];
    let read = file.read_at(&mut bytes, 0).map_err(|e| Error::io("read", MANIFEST_NAME, e))?;
    decode(&bytes[..read]).map(Some)
}

/// Replaces the manifest, durably. The checkpoints may be in any order.
///
/// # Errors
/// [`Error::Full`], [`Error::TooLarge`]: the old one counts, try again later. [`Error::Io`]: either
/// counts; stop the node.
pub fn store(disk: &dyn Disk, manifest: &Manifest) -> Result<(), Error> {
    let bytes = encode(manifest)?;
    replace(disk, MANIFEST_NAME, TEMPORARY_NAME, &bytes)
}

/// Removes checkpoints that `manifest` does not name. To be called when it is durable, and while
/// no checkpoint is finished that a later manifest is to name.
///
/// # Errors
/// [`Error::Io`]; some may be left, for the next call.
pub fn remove_unlisted(disk: &dyn Disk, manifest: &Manifest) -> Result<(), Error> {
    let names = disk.list().map_err(|e| Error::io("list", "the directory", e))?;
    for name in names {
        let Some((shard, applied_index)) = checkpoint::parse_name(&name) else { continue };
        if !manifest.checkpoints.contains(&CheckpointRef { shard, applied_index }) {
            disk.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
        }
    }
    Ok(())
}

fn check_new(disk: &dyn Disk) -> Result<(), Error> {
    let names = disk.list().map_err(|e| Error::io("list", "the directory", e))?;
    let needs_manifest =
        |name: &&String| segment_start(name).is_some() || checkpoint::parse_name(name).is_some();
    match names.iter().find(needs_manifest) {
        None => Ok(()),
        Some(file) => Err(Error::Orphan {
            file: file.clone(),
            remedy: "Restore the directory from a copy, or start with an empty one",
        }),
    }
}

fn encode(manifest: &Manifest) -> Result<Vec<u8>, Error> {
    let file_bytes = FIXED_BYTES + manifest.checkpoints.len() * ENTRY_BYTES;
    if file_bytes > MANIFEST_BYTES_MAX {
        let bytes_max = MANIFEST_BYTES_MAX as u64;
        return Err(Error::TooLarge { what: "manifest", bytes: file_bytes as u64, bytes_max });
    }
    let mut out = vec![0; FIXED_BYTES];
    put(&mut out, at::MAGIC, &MANIFEST_MAGIC);
    put(&mut out, at::VERSION, &MANIFEST_VERSION.to_le_bytes());
    put(&mut out, at::FILE_BYTES, &(file_bytes as u32).to_le_bytes());
    put(&mut out, at::CHECKPOINTS, &(manifest.checkpoints.len() as u32).to_le_bytes());
    put(&mut out, at::CLUSTER, &manifest.cluster.to_le_bytes());
    put(&mut out, at::NODE, &manifest.node.0.to_le_bytes());
    put(&mut out, at::HASH_SEED, &manifest.hash_seed);
    put(&mut out, at::LOG_START, &manifest.log_start.0.to_le_bytes());
    put(&mut out, at::LOG_SALT, &manifest.log_salt.to_le_bytes());
    put(&mut out, at::JOINED_AT, &manifest.joined_at.to_le_bytes());
    put(&mut out, at::ORIGIN, &manifest.origin.code().to_le_bytes());
    let mut entries = manifest.checkpoints.clone();
    entries.sort_unstable_by_key(|entry| entry.shard);
    for entry in entries {
        out.extend_from_slice(&entry.shard.0.to_le_bytes());
        out.extend_from_slice(&entry.applied_index.to_le_bytes());
    }
    let crc = manifest_crc(&out);
    put(&mut out, at::CRC, &crc.to_le_bytes());
    Ok(out)
}

/// Over everything but itself.
fn manifest_crc(bytes: &[u8]) -> u32 {
    crc(crc(0, &bytes[..at::CRC]), &bytes[at::FILE_BYTES..])
}

fn decode(bytes: &[u8]) -> Result<Manifest, Error> {
    let rot = |offset: usize, what| Error::rot(MANIFEST_NAME, offset as u64, what);
    // All versions so far agree up to here.
    if bytes.len() < at::CLUSTER {
        return Err(rot(bytes.len(), "the file is cut short"));
    }
    if bytes[..8] != MANIFEST_MAGIC || u32_at(bytes, at::CRC) != manifest_crc(bytes) {
        return Err(rot(0, "the file does not match its checksum"));
    }
    let found = u32_at(bytes, at::VERSION);
    if found != MANIFEST_VERSION {
        let (file, supported) = (MANIFEST_NAME.to_owned(), MANIFEST_VERSION);
        return Err(Error::Version { file, found, supported });
    }
    if bytes.len() < FIXED_BYTES {
        return Err(rot(bytes.len(), "the file is too short for its version"));
    }
    let origin = Origin::of(u32_at(bytes, at::ORIGIN));
    let origin =
        origin.ok_or_else(|| rot(at::ORIGIN, "the node's origin is none that there is"))?;
    let entries = &bytes[FIXED_BYTES..];
    if u32_at(bytes, at::FILE_BYTES) as usize != bytes.len()
        || u32_at(bytes, at::CHECKPOINTS) as usize * ENTRY_BYTES != entries.len()
    {
        return Err(rot(at::FILE_BYTES, "the file's length is wrong"));
    }
    let checkpoints = entries.chunks_exact(ENTRY_BYTES).map(|entry| CheckpointRef {
        shard: ShardId(u64_at(entry, 0)),
        applied_index: u64_at(entry, 8),
    });
    Ok(Manifest {
        cluster: u64_at(bytes, at::CLUSTER),
        node: NodeId(u64_at(bytes, at::NODE)),
        hash_seed: bytes[at::HASH_SEED..at::LOG_START].try_into().expect("sixteen bytes"),
        log_salt: u64_at(bytes, at::LOG_SALT),
        origin,
        joined_at: u64_at(bytes, at::JOINED_AT),
        log_start: Lsn(u64_at(bytes, at::LOG_START)),
        checkpoints: checkpoints.collect(),
    })
}
