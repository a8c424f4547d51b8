//! Quorum-loss recovery in a stopped node's directory: reports what is left, and writes a plan.
//!
//! ```text
//!   inspect: lock shared  ─► read as a start would, over a medium that changes nothing ─► Survivor
//!   apply:   lock, alone  ─► read as a start does ─► the plan's records ─► one group ─► fsync
//! ```
//!
//! [`node::recovery::quorum_loss`] makes the plan; here are only files. All records of the plan for
//! a node are one group of its log, so after a crash the node has all of it or none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyspace::{NodeId, ShardId};
use node::recovery::quorum_loss::{RecoveryPlan, RecoveryRefused, Survivor};
use node::recovery::{RecoverError, ReplayResult};
use storage::disk::Disk;
use storage::log::{Group, Log, LogOptions, Lsn};
use storage::manifest::{self, Manifest};

use crate::check::{CheckError, ReadOnly};
use crate::directory::Directory;
use crate::runtime::open::{self, Replay};

/// Why a directory could not be looked at, or a plan not be carried out in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be looked at. Nothing was changed.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// Its contents cannot be read. Nothing was changed, but for a torn tail that was cut.
    #[error("{dir}: {source}")]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: RecoverError,
    },
    /// The plan is not for it. Nothing was changed, but for a torn tail that was cut.
    #[error(transparent)]
    Refused(#[from] RecoveryRefused),
    /// It could not be written. Either nothing has changed, or the plan is carried out here: apply
    /// it again to know.
    #[error(
        "{dir}: {source}. The plan is applied here, or nothing has changed: make room, or \
         repair the disk, and apply it again"
    )]
    Write {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: storage::Error,
    },
}

/// What was done in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryApplied {
    /// Its node.
    pub node: NodeId,
    /// Shards that got a record, with its kind. None: all was done before.
    pub shards: Vec<(ShardId, u8)>,
}

/// Reads what a stopped node's directory holds.
///
/// # Errors
/// [`Error`]. Nothing was changed.
pub fn inspect(dir: &Path) -> Result<Survivor, Error> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnly::open(dir)?);
    let (manifest, (replayed, log_end)) = read_to_end(dir, &disk)?;
    Ok(Survivor::new(manifest.cluster, manifest.node, log_end, replayed))
}

/// Reads manifest and shards of a stopped node.
///
/// # Errors
/// [`Error`]. Nothing was changed, if the disk changes nothing.
pub(crate) fn read(dir: &Path, disk: &Arc<dyn Disk>) -> Result<(Manifest, ReplayResult), Error> {
    let (manifest, (replayed, _)) = read_to_end(dir, disk)?;
    Ok((manifest, replayed))
}

fn read_to_end(dir: &Path, disk: &Arc<dyn Disk>) -> Result<(Manifest, (ReplayResult, Lsn)), Error> {
    let manifest = load(dir, &**disk)?;
    let read = match has_log(dir, &**disk, &manifest)? {
        true => split(replay(dir, disk, &manifest)?).0,
        false => {
            let unreadable = |source| Error::Unreadable { dir: dir.to_owned(), source };
            (open::replay_checkpoints(disk, &manifest).map_err(unreadable)?, Lsn::NEW)
        }
    };
    Ok((manifest, read))
}

/// Carries out what the plan has for a stopped node.
///
/// # Errors
/// [`Error`].
pub fn apply(dir: &Path, plan: &RecoveryPlan) -> Result<RecoveryApplied, Error> {
    // Nothing is made where no node has been.
    load(dir, &ReadOnly::open(dir)?)?;
    let disk: Arc<dyn Disk> = Arc::new(Directory::open(dir).map_err(|source| {
        let dir = dir.to_owned();
        match source.kind() {
            std::io::ErrorKind::WouldBlock => CheckError::InUse { dir },
            _ => CheckError::Directory { dir, source },
        }
    })?);
    let manifest = load(dir, &*disk)?;
    let who = (manifest.cluster, manifest.node);
    let had_log = has_log(dir, &*disk, &manifest)?;
    if !had_log && manifest.checkpoints.is_empty() {
        plan.records(who, Lsn::NEW, &nothing())?;
        return Ok(RecoveryApplied { node: manifest.node, shards: Vec::new() });
    }
    let write = |source| Error::Write { dir: dir.to_owned(), source };
    // As at every start: a rename whose directory was not synced may be known to memory only.
    manifest::store(&*disk, &manifest).map_err(write)?;
    let ((replayed, found_end), mut log) = split(replay(dir, &disk, &manifest)?);
    if !had_log {
        let manifest = Manifest { log_start: found_end, ..manifest };
        manifest::store(&*disk, &manifest).map_err(write)?;
    }
    // As the plan was made: before this wrote anything.
    let log_end = if had_log { found_end } else { Lsn::NEW };
    let records = plan.records(who, log_end, &replayed)?;
    drop(replayed);
    append(&mut log, &records).map_err(write)?;
    let shards = records.into_iter().map(|(shard, kind, _)| (shard, kind)).collect();
    Ok(RecoveryApplied { node: manifest.node, shards })
}

/// Appends the records to the log, makes them durable, and logs that they are.
fn append(log: &mut Log, records: &[(ShardId, u8, Vec<u8>)]) -> Result<(), storage::Error> {
    if !records.is_empty() {
        let mut group = Group::new();
        for (shard, kind, payload) in records {
            group.push(*shard, *kind, &[payload])?;
        }
        log.reserve(group.bytes())?;
        log.append(&mut group)?;
        sync(log)?;
    }
    // Else damage to them could pass for a torn tail (SAFETY G16).
    log.append_marker()?;
    sync(log)
}

fn sync(log: &mut Log) -> Result<(), storage::Error> {
    let job = log.begin_sync()?;
    let result = job.run();
    log.finish_sync(&job, result)
}

fn load(dir: &Path, disk: &dyn Disk) -> Result<Manifest, CheckError> {
    manifest::load(disk)?.ok_or_else(|| CheckError::Empty { dir: dir.to_owned() })
}

/// Whether a log was ever begun: a node may have been stopped before, or never started on what
/// [`crate::repair_clock`] has written.
fn has_log(dir: &Path, disk: &dyn Disk, manifest: &Manifest) -> Result<bool, CheckError> {
    let listed = disk.list();
    let listed = listed.map_err(|source| CheckError::Directory { dir: dir.to_owned(), source })?;
    Ok(manifest.log_start != Lsn::NEW || listed.iter().any(|name| name.ends_with(".seg")))
}

fn replay(dir: &Path, disk: &Arc<dyn Disk>, manifest: &Manifest) -> Result<Replay, Error> {
    open::replay(disk, manifest, LogOptions::SEGMENT_BYTES_DEFAULT)
        .map_err(|source| Error::Unreadable { dir: dir.to_owned(), source })
}

fn split(replay: Replay) -> ((ReplayResult, Lsn), Log) {
    ((replay.replayed, replay.log.written_end()), replay.log)
}

fn nothing() -> ReplayResult {
    ReplayResult::default()
}
