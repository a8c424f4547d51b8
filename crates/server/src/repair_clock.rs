//! Rewrites the data of a lone node, after it ran with a clock that was far ahead.
//!
//! It reads the old directory as a start would, over a read-only medium.
//! [`node::recovery::rewrite_times`] corrects the times, and the result goes into an empty
//! directory, as checkpoints and a manifest. The manifest comes last: without it, the new directory
//! cannot be started. The old directory stays usable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hlc::AHEAD_MILLIS_MAX;
use keyspace::{ShardId, Timestamp};
use node::recovery::rewrite_times::{NoRewriteReason, RetimedSink, RewrittenTimes};
use storage::checkpoint::CheckpointWriter;
use storage::disk::Disk;
use storage::log::Lsn;
use storage::manifest::{self, CheckpointRef, Manifest, Origin};

use crate::check::ReadOnly;
use crate::directory::Directory;
use crate::peer::draw;
use crate::recover;

/// Why nothing was repaired. The old directory is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error(transparent)]
    Old(#[from] recover::Error),
    /// Its times are not to be changed.
    #[error("{dir}: {source}")]
    Refused {
        /// The old directory.
        dir: PathBuf,
        /// Why.
        source: NoRewriteReason,
    },
    /// There is something in the new directory.
    #[error("{dir} is not empty: the repaired data goes into a directory of its own")]
    NotEmpty {
        /// The new directory.
        dir: PathBuf,
    },
    /// The new directory cannot be used.
    #[error("cannot use the new directory {dir}: {source}")]
    New {
        /// The new directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The new directory could not be written.
    #[error(
        "{dir}: {source}. Remove the new directory, and run the command again when the disk \
         works"
    )]
    Write {
        /// The new directory.
        dir: PathBuf,
        /// Why.
        source: storage::Error,
    },
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRepair {
    /// The newest time that was in the old data, in ms since 1970.
    pub newest_millis: u64,
    /// The time that stands in its place.
    pub now_millis: u64,
    /// Keys that have a value.
    pub values: u64,
    /// Shards.
    pub shards: usize,
    /// The cluster that the new directory is of.
    pub cluster: u64,
}

/// Writes what `old` holds into `new`, with times up to `now_millis`.
///
/// # Errors
/// [`Error`]. The old directory is never changed.
pub fn repair(old: &Path, new: &Path, now_millis: u64) -> Result<ClockRepair, Error> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnly::open(old).map_err(recover::Error::from)?);
    let (manifest, replayed) = recover::read(old, &disk)?;
    let now = Timestamp::from_millis(now_millis);
    let retimed = RewrittenTimes::new(replayed, manifest.node, now, AHEAD_MILLIS_MAX)
        .map_err(|source| Error::Refused { dir: old.to_owned(), source })?;
    let newest_millis = retimed.newest().millis();

    let unusable = |source| Error::New { dir: new.to_owned(), source };
    let is_there = new.try_exists().map_err(unusable)?;
    if is_there && fs::read_dir(new).map_err(unusable)?.next().is_some() {
        return Err(Error::NotEmpty { dir: new.to_owned() });
    }
    let disk: Arc<dyn Disk> = Arc::new(Directory::open(new).map_err(unusable)?);
    let cluster = u64::from_le_bytes(draw().map_err(unusable)?);
    let log_salt = u64::from_le_bytes(draw().map_err(unusable)?);
    let write = |source| Error::Write { dir: new.to_owned(), source };
    let mut files =
        CheckpointFiles { disk: disk.clone(), cluster, writer: None, written: Vec::new() };
    let values = retimed.write(&mut files).map_err(write)?;
    let shards = files.written.len();
    let manifest = Manifest {
        cluster,
        log_salt,
        origin: Origin::Founder,
        joined_at: manifest.joined_at.min(now_millis),
        log_start: Lsn::NEW,
        checkpoints: files.written,
        ..manifest
    };
    manifest::store(&*disk, &manifest).map_err(write)?;
    Ok(ClockRepair { newest_millis, now_millis, values, shards, cluster })
}

/// The checkpoints of the new directory.
struct CheckpointFiles {
    disk: Arc<dyn Disk>,
    cluster: u64,
    writer: Option<CheckpointWriter>,
    written: Vec<CheckpointRef>,
}

impl RetimedSink for CheckpointFiles {
    type Error = storage::Error;

    fn begin(&mut self, shard: ShardId, index: u64, meta: &[u8]) -> Result<(), storage::Error> {
        let writer = CheckpointWriter::create(self.disk.clone(), self.cluster, shard, index, meta)?;
        self.writer = Some(writer);
        self.written.push(CheckpointRef { shard, applied_index: index });
        Ok(())
    }

    fn block(&mut self, block: &[u8]) -> Result<(), storage::Error> {
        self.writer.as_mut().expect("a shard has begun").block(block)
    }

    fn end(&mut self) -> Result<(), storage::Error> {
        self.writer.take().expect("a shard has begun").finish().map(drop)
    }
}
