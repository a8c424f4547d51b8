//! How does a shard's complete state get onto disk, so that the log before it can be deleted?
//!
//! **The idea.** One file per shard and applied index, written beside the log in blocks under a
//! temporary name, and given its real name only when all of it is durable. So a file with the
//! real name is complete, or it has rotted; there is no third case to guess at.
//!
//! ```text
//! ckpt-<shard>-<index>.ckpt.tmp ─ blocks ─ footer ─ sync ─ rename ─ sync dir ─► ….ckpt ─► MANIFEST
//!  ┌────────┬──────┬───────────┬───────────┬───┬────────┐
//!  │ header │ meta │ len crc ▒ │ len crc ▒ │ … │ footer │        (docs/format.md §3)
//!  └────────┴──────┴───────────┴───────────┴───┴────────┘
//! ```
//!
//! **Invariants.** 1. [`CheckpointWriter::finish`] returns only once the file and its name are
//! durable. 2. A reader gets the blocks that were written, in order and all of them, or an error
//! that names file and offset: every checksum begins from the cluster, shard, index and number of
//! its block, so blocks of other files or places do not pass.
//!
//! **What it does not know:** what blocks and meta mean (docs/format.md §6), which checkpoint is
//! the one to use (the manifest says), and when older ones go (remove them once a manifest without
//! them is durable).

use std::io;
use std::sync::Arc;

use keyspace::ShardId;

use crate::Error;
use crate::disk::{Disk, File};
use crate::log::layout::{crc, put, u32_at, u64_at};

/// The first eight bytes of every checkpoint.
pub const CHECKPOINT_MAGIC: [u8; 8] = *b"CARICKPT";
/// The only version of checkpoints so far.
pub const CHECKPOINT_VERSION: u32 = 4;
/// The longest meta.
pub const META_BYTES_MAX: usize = 64 << 10;
/// The longest block. Writers make blocks of 1 MiB and one record; this bounds a reader's memory.
pub const BLOCK_BYTES_MAX: usize = 1 << 30;

const HEADER_BYTES: usize = 48;
const BLOCK_HEADER_BYTES: usize = 8;
const FOOTER_BYTES: usize = 24;
/// Stands where a block's length would, before the footer.
const FOOTER_MARK: u32 = u32::MAX;
/// The writer syncs this often, so that the last sync does not hold up the log's.
const SYNC_EVERY_BYTES: u64 = 16 << 20;

const NAME_PREFIX: &str = "ckpt-";
const NAME_SUFFIX: &str = ".ckpt";
const TEMPORARY_SUFFIX: &str = ".tmp";
/// Of one whose state comes from another node: a round may be writing one of the same shard and
/// index at the same time.
const RECEIVED_SUFFIX: &str = ".received.tmp";

mod header_at {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const META_BYTES: usize = 12;
    pub const CLUSTER: usize = 16;
    pub const SHARD: usize = 24;
    pub const INDEX: usize = 32;
    pub const META_CRC: usize = 40;
    pub const CRC: usize = 44;
}

mod footer_at {
    pub const MARK: usize = 0;
    pub const CRC: usize = 4;
    pub const BLOCKS: usize = 8;
    pub const PAYLOAD_BYTES: usize = 16;
}

// docs/format.md states these numbers; a change here is a new version there.
const _: () = {
    assert!(HEADER_BYTES == 48 && header_at::CRC + 4 == HEADER_BYTES);
    assert!(header_at::MAGIC == 0 && header_at::VERSION == 8 && header_at::META_BYTES == 12);
    assert!(header_at::CLUSTER == 16 && header_at::SHARD == 24 && header_at::INDEX == 32);
    assert!(header_at::META_CRC == 40);
    assert!(FOOTER_BYTES == 24 && footer_at::PAYLOAD_BYTES + 8 == FOOTER_BYTES);
    assert!(footer_at::MARK == 0 && footer_at::CRC == 4 && footer_at::BLOCKS == 8);
    assert!(BLOCK_BYTES_MAX < FOOTER_MARK as usize);
};

/// The name of the checkpoint of `shard` at applied index `index`.
pub fn checkpoint_name(shard: ShardId, index: u64) -> String {
    format!("{NAME_PREFIX}{:016x}-{index:016x}{NAME_SUFFIX}", shard.0)
}

/// The shard and applied index a checkpoint's name tells, or nothing if it is no such name.
pub fn parse_name(name: &str) -> Option<(ShardId, u64)> {
    let middle = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    let (shard, index) = middle.split_once('-')?;
    let shard = ShardId(u64::from_str_radix(shard, 16).ok()?);
    let index = u64::from_str_radix(index, 16).ok()?;
    (checkpoint_name(shard, index) == name).then_some((shard, index))
}

/// Removes what writers that did not finish left behind. To be called before any writer is made.
///
/// # Errors
/// [`Error::Io`]; some may be left.
pub fn remove_temporaries(disk: &dyn Disk) -> Result<(), Error> {
    let names = disk.list().map_err(|e| Error::io("list", "the directory", e))?;
    for name in names {
        let of = name.strip_suffix(RECEIVED_SUFFIX).or(name.strip_suffix(TEMPORARY_SUFFIX));
        if of.is_some_and(|name| parse_name(name).is_some()) {
            disk.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
        }
    }
    Ok(())
}

/// What the checksums of a checkpoint begin from.
fn seed(cluster: u64, shard: ShardId, index: u64) -> u32 {
    let seed = crc(0, &cluster.to_le_bytes());
    crc(crc(seed, &shard.0.to_le_bytes()), &index.to_le_bytes())
}

/// The checksum of block number `block`, or of the footer that comes at that place.
fn block_crc(seed: u32, block: u64, bytes: &[u8]) -> u32 {
    crc(crc(seed, &block.to_le_bytes()), bytes)
}

/// Writes one checkpoint. Dropped before [`CheckpointWriter::finish`], it leaves a temporary file
/// that takes space until [`remove_temporaries`]; [`CheckpointWriter::abandon`] leaves nothing.
pub struct CheckpointWriter {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    name: String,
    /// What the file is called until it is whole.
    temporary: String,
    seed: u32,
    end_bytes: u64,
    synced_bytes: u64,
    blocks: u64,
    payload_bytes: u64,
    buffer: Vec<u8>,
}

impl CheckpointWriter {
    /// Begins the checkpoint of `shard` at applied index `index`. `meta` is given back by the
    /// reader before any block.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than [`META_BYTES_MAX`] of meta; [`Error::Full`];
    /// [`Error::Io`]. Nothing readable is left.
    pub fn create(
        disk: Arc<dyn Disk>,
        cluster: u64,
        shard: ShardId,
        index: u64,
        meta: &[u8],
    ) -> Result<Self, Error> {
        Self::create_as(TEMPORARY_SUFFIX, disk, cluster, (shard, index), meta)
    }

    /// As [`Self::create`], of a state that another node sends. One of each kind may be written at
    /// the same time for the same shard and index; whichever is finished last stays.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_received(
        disk: Arc<dyn Disk>,
        cluster: u64,
        shard: ShardId,
        index: u64,
        meta: &[u8],
    ) -> Result<Self, Error> {
        Self::create_as(RECEIVED_SUFFIX, disk, cluster, (shard, index), meta)
    }

    fn create_as(
        suffix: &str,
        disk: Arc<dyn Disk>,
        cluster: u64,
        (shard, index): (ShardId, u64),
        meta: &[u8],
    ) -> Result<Self, Error> {
        too_large("checkpoint meta", meta.len(), META_BYTES_MAX)?;
        let name = checkpoint_name(shard, index);
        let temporary = format!("{name}{suffix}");
        let file = match disk.create(&temporary) {
            // A writer of the same name was dropped.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                disk.remove(&temporary).and_then(|()| disk.create(&temporary))
            }
            made => made,
        };
        let file = file.map_err(|e| write_error("create", &temporary, 1, e))?;
        let seed = seed(cluster, shard, index);
        let mut buffer = vec![0; HEADER_BYTES];
        put(&mut buffer, header_at::MAGIC, &CHECKPOINT_MAGIC);
        put(&mut buffer, header_at::VERSION, &CHECKPOINT_VERSION.to_le_bytes());
        put(&mut buffer, header_at::META_BYTES, &(meta.len() as u32).to_le_bytes());
        put(&mut buffer, header_at::CLUSTER, &cluster.to_le_bytes());
        put(&mut buffer, header_at::SHARD, &shard.0.to_le_bytes());
        put(&mut buffer, header_at::INDEX, &index.to_le_bytes());
        put(&mut buffer, header_at::META_CRC, &crc(seed, meta).to_le_bytes());
        let header_crc = crc(0, &buffer[..header_at::CRC]);
        put(&mut buffer, header_at::CRC, &header_crc.to_le_bytes());
        buffer.extend_from_slice(meta);
        let mut writer = Self {
            disk,
            file,
            name,
            temporary,
            seed,
            end_bytes: 0,
            synced_bytes: 0,
            blocks: 0,
            payload_bytes: 0,
            buffer,
        };
        match writer.write_buffer() {
            Ok(()) => Ok(writer),
            Err(error) => {
                // Should it stay, the next start removes it.
                let _stays = writer.disk.remove(&writer.temporary);
                Err(error)
            }
        }
    }

    /// Appends a block.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: nothing changed. After [`Error::Full`] or [`Error::Io`] abandon the
    /// writer; the checkpoint can be tried again from its beginning.
    pub fn block(&mut self, payload: &[u8]) -> Result<(), Error> {
        too_large("checkpoint block", payload.len(), BLOCK_BYTES_MAX)?;
        let crc = block_crc(self.seed, self.blocks, payload);
        self.buffer.clear();
        self.buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&crc.to_le_bytes());
        self.buffer.extend_from_slice(payload);
        self.write_buffer()?;
        self.blocks += 1;
        self.payload_bytes += payload.len() as u64;
        if self.end_bytes - self.synced_bytes >= SYNC_EVERY_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    /// Completes the file, makes it and its name durable, and returns the name, for the manifest.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing is left, try again from the beginning. [`Error::Io`]: there may be
    /// a file of either name, not to be used; stop the node.
    pub fn finish(mut self) -> Result<String, Error> {
        self.buffer.clear();
        self.buffer.resize(FOOTER_BYTES, 0);
        put(&mut self.buffer, footer_at::MARK, &FOOTER_MARK.to_le_bytes());
        put(&mut self.buffer, footer_at::BLOCKS, &self.blocks.to_le_bytes());
        put(&mut self.buffer, footer_at::PAYLOAD_BYTES, &self.payload_bytes.to_le_bytes());
        let crc = block_crc(self.seed, self.blocks, &self.buffer[footer_at::BLOCKS..]);
        put(&mut self.buffer, footer_at::CRC, &crc.to_le_bytes());
        if let Err(e) = self.write_buffer() {
            // The space is wanted back; if that fails too, the next start removes the file.
            let _ = self.abandon();
            return Err(e);
        }
        self.sync()?;
        let renamed = self.disk.rename(&self.temporary, &self.name);
        renamed.map_err(|e| Error::io("rename", &self.temporary, e))?;
        self.disk.sync_dir().map_err(|e| Error::io("sync", "the directory", e))?;
        Ok(self.name)
    }

    /// Gives up, and the space back.
    ///
    /// # Errors
    /// [`Error::Io`]; the next [`remove_temporaries`] tries again.
    pub fn abandon(self) -> Result<(), Error> {
        self.disk.remove(&self.temporary).map_err(|e| Error::io("remove", &self.temporary, e))
    }

    fn write_buffer(&mut self) -> Result<(), Error> {
        let bytes = self.buffer.len() as u64;
        let written = self.file.write_at(&self.buffer, self.end_bytes);
        written.map_err(|e| write_error("write", &self.temporary, bytes, e))?;
        self.end_bytes += bytes;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.file.sync().map_err(|e| Error::io("sync", &self.temporary, e))?;
        self.synced_bytes = self.end_bytes;
        Ok(())
    }
}

fn too_large(what: &'static str, bytes: usize, bytes_max: usize) -> Result<(), Error> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Error::TooLarge { what, bytes: bytes as u64, bytes_max: bytes_max as u64 })
}

/// A full disk is no failure of the medium here: nobody relies on a checkpoint that is not named.
fn write_error(action: &'static str, file: &str, needed_bytes: u64, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::StorageFull => Error::Full { file: file.to_owned(), needed_bytes },
        _ => Error::io(action, file, source),
    }
}

/// Reads one checkpoint from front to back.
pub struct CheckpointReader {
    file: Arc<dyn File>,
    name: String,
    shard: ShardId,
    index: u64,
    seed: u32,
    meta: Vec<u8>,
    at_bytes: u64,
    file_bytes: u64,
    blocks: u64,
    payload_bytes: u64,
    done: bool,
}

impl CheckpointReader {
    /// Opens the checkpoint called `name` and reads its meta.
    ///
    /// # Errors
    /// [`Error::Rot`] (also if it is missing, since a manifest named it), [`Error::Foreign`],
    /// [`Error::Version`], [`Error::Io`].
    pub fn open(disk: &dyn Disk, cluster: u64, name: &str) -> Result<Self, Error> {
        let file = disk.open(name).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::rot(name, 0, "the checkpoint is missing"),
            _ => Error::io("open", name, e),
        })?;
        let file_bytes = file.len().map_err(|e| Error::io("measure", name, e))?;
        let mut header = [0; HEADER_BYTES];
        let read = file.read_at(&mut header, 0).map_err(|e| Error::io("read", name, e))?;
        let bad_header = || Error::rot(name, 0, "the checkpoint's header is not valid");
        if read < HEADER_BYTES
            || header[..8] != CHECKPOINT_MAGIC
            || u32_at(&header, header_at::CRC) != crc(0, &header[..header_at::CRC])
        {
            return Err(bad_header());
        }
        let found = u32_at(&header, header_at::VERSION);
        if found != CHECKPOINT_VERSION {
            let supported = CHECKPOINT_VERSION;
            return Err(Error::Version { file: name.to_owned(), found, supported });
        }
        let found = u64_at(&header, header_at::CLUSTER);
        if found != cluster {
            return Err(Error::Foreign { file: name.to_owned(), found, expected: cluster });
        }
        let shard = ShardId(u64_at(&header, header_at::SHARD));
        let index = u64_at(&header, header_at::INDEX);
        let meta_bytes = u32_at(&header, header_at::META_BYTES) as usize;
        if parse_name(name) != Some((shard, index)) || meta_bytes > META_BYTES_MAX {
            return Err(bad_header());
        }
        let seed = seed(cluster, shard, index);
        let mut meta = vec![0; meta_bytes];
        let read = file.read_at(&mut meta, HEADER_BYTES as u64);
        let read = read.map_err(|e| Error::io("read", name, e))?;
        if read < meta_bytes || u32_at(&header, header_at::META_CRC) != crc(seed, &meta) {
            return Err(Error::rot(name, HEADER_BYTES as u64, "the checkpoint's meta is damaged"));
        }
        let at_bytes = (HEADER_BYTES + meta_bytes) as u64;
        let name = name.to_owned();
        let (blocks, payload_bytes, done) = (0, 0, false);
        Ok(Self {
            file,
            name,
            shard,
            index,
            seed,
            meta,
            at_bytes,
            file_bytes,
            blocks,
            payload_bytes,
            done,
        })
    }

    /// Whose state this is.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The applied index of that state.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// What the writer was given.
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// Reads the next block into `buffer` and returns it, or `None` once the footer has confirmed
    /// that there were no more. Only then is the checkpoint known to be complete.
    ///
    /// # Errors
    /// [`Error::Rot`], [`Error::Io`]; drop what was built from earlier blocks.
    pub fn next_block<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<Option<&'b [u8]>, Error> {
        if self.done {
            return Ok(None);
        }
        let mut head = [0; BLOCK_HEADER_BYTES];
        self.read(&mut head, self.at_bytes)?;
        let (block_bytes, crc) = (u32_at(&head, 0), u32_at(&head, 4));
        if block_bytes == FOOTER_MARK {
            self.read_footer(crc)?;
            return Ok(None);
        }
        let payload_at = self.at_bytes + BLOCK_HEADER_BYTES as u64;
        // Bounds what a rotten length makes this allocate.
        if payload_at + u64::from(block_bytes) > self.file_bytes {
            return Err(self.rot("a block is longer than the file"));
        }
        buffer.clear();
        buffer.resize(block_bytes as usize, 0);
        self.read(buffer, payload_at)?;
        if crc != block_crc(self.seed, self.blocks, buffer) {
            return Err(self.rot("a block does not match its checksum"));
        }
        self.at_bytes = payload_at + u64::from(block_bytes);
        self.blocks += 1;
        self.payload_bytes += u64::from(block_bytes);
        Ok(Some(buffer))
    }

    fn read_footer(&mut self, crc: u32) -> Result<(), Error> {
        let mut footer = [0; FOOTER_BYTES];
        self.read(&mut footer, self.at_bytes)?;
        if crc != block_crc(self.seed, self.blocks, &footer[footer_at::BLOCKS..])
            || u64_at(&footer, footer_at::BLOCKS) != self.blocks
            || u64_at(&footer, footer_at::PAYLOAD_BYTES) != self.payload_bytes
        {
            return Err(self.rot("the footer does not fit the blocks"));
        }
        if self.at_bytes + FOOTER_BYTES as u64 != self.file_bytes {
            return Err(self.rot("the file does not end behind its footer"));
        }
        self.done = true;
        Ok(())
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> Result<(), Error> {
        let read = self.file.read_at(buffer, at);
        let read = read.map_err(|e| Error::io("read", &self.name, e))?;
        if read < buffer.len() { Err(self.rot("the file is cut short")) } else { Ok(()) }
    }

    fn rot(&self, what: &'static str) -> Error {
        Error::rot(&self.name, self.at_bytes, what)
    }
}
