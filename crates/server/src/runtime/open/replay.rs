//! Replays a directory: checkpoints, then the log after them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hlc::AHEAD_MILLIS_MAX;
use keyspace::{KeyHasher, ShardId, Timestamp};
use node::recovery::{self, RecoverError, RecoveringReplica, ReplayResult};
use node::replica::entry::Header;
use parking_lot::Mutex;
use storage::checkpoint::CheckpointReader;
use storage::disk::Disk;
use storage::log::{Log, LogOptions};
use storage::manifest::Manifest;

use crate::runtime::wall_millis;

/// What was read of a directory.
pub(crate) struct Replay {
    pub log: Log,
    pub replayed: ReplayResult,
    pub records: u64,
    pub cut_bytes: u64,
    /// The earliest time in the log that is far ahead of the wall clock.
    pub ahead_from: Option<Timestamp>,
}

/// Reads checkpoints and log.
pub(crate) fn replay(
    disk: &Arc<dyn Disk>,
    manifest: &Manifest,
    segment_bytes: u64,
) -> Result<Replay, RecoverError> {
    let hasher = KeyHasher::new(manifest.hash_seed);
    let shards = load_checkpoints(disk, manifest, hasher)?;
    let mut replay = recovery::Replay::new(manifest.node, shards, hasher);
    let options = LogOptions { cluster: manifest.cluster, salt: manifest.log_salt, segment_bytes };
    let limit = Timestamp::from_millis(wall_millis() + AHEAD_MILLIS_MAX);
    let mut ahead_from: Option<Timestamp> = None;
    let (log, recovered) =
        Log::open(disk.clone(), options, manifest.log_start, &mut |lsn, record| {
            let time = time_of(&record).filter(|time| *time > limit);
            ahead_from = ahead_from.into_iter().chain(time).min();
            replay.record(lsn, &record)
        })?;
    let replayed = replay.finish()?;
    let (records, cut_bytes) = (recovered.records, recovered.cut_bytes);
    Ok(Replay { log, replayed, records, cut_bytes, ahead_from })
}

/// The same, where no log was ever begun.
pub(crate) fn replay_checkpoints(
    disk: &Arc<dyn Disk>,
    manifest: &Manifest,
) -> Result<ReplayResult, RecoverError> {
    let hasher = KeyHasher::new(manifest.hash_seed);
    let shards = load_checkpoints(disk, manifest, hasher)?;
    recovery::Replay::new(manifest.node, shards, hasher).finish()
}

/// When an entry was written, by the clock of its shard's leader.
fn time_of(record: &storage::log::Record<'_>) -> Option<Timestamp> {
    let (_, _, data) = match record.kind {
        node::replica::record::ENTRY => node::replica::record::split_entry(record.payload)?,
        _ => return None,
    };
    Header::decode(data).map(|(header, _)| header.timestamp)
}

/// Reads all checkpoints, on as many threads as there are cores.
fn load_checkpoints(
    disk: &Arc<dyn Disk>,
    manifest: &Manifest,
    hasher: KeyHasher,
) -> Result<BTreeMap<ShardId, RecoveringReplica>, RecoverError> {
    let next = AtomicU64::new(0);
    let loaded = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Result<(), RecoverError> {
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as usize;
            let Some(reference) = manifest.checkpoints.get(at) else { return Ok(()) };
            let mut reader = CheckpointReader::open(&**disk, manifest.cluster, &reference.name())?;
            let mut shard =
                RecoveringReplica::from_checkpoint(reference.shard, reader.meta(), hasher)?;
            let mut buffer = Vec::new();
            while let Some(block) = reader.next_block(&mut buffer)? {
                shard.restore(block)?;
            }
            loaded.lock().insert(reference.shard, shard);
        }
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().try_for_each(|h| h.join().expect("loading does not panic"))
    })?;
    Ok(loaded.into_inner())
}
