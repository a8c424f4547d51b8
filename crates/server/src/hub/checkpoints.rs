//! Rounds of checkpoints, which bound the log and the time of a restart.
//!
//! A round writes one file per shard that has changed, then a manifest that names them, and then
//! the log before all of them goes. Until the manifest is there, the old files and the whole log
//! count. A round that runs out of space leaves everything as it was and is tried again later.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::ShardId;
use node::checkpoint::{BLOCK, Checkpoint};
use storage::Error;
use storage::checkpoint::CheckpointWriter;
use storage::disk::Disk;
use storage::log::Lsn;
use storage::manifest::{self, CheckpointRef, Manifest};

use super::Hub;

/// Writes checkpoints of one directory.
pub struct Checkpoints {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
}

impl Checkpoints {
    /// For a directory whose manifest is this one.
    pub fn new(disk: Arc<dyn Disk>, manifest: Manifest) -> Self {
        Self { disk, manifest }
    }

    /// Where checkpoints go, and of which cluster they are.
    pub fn place(&self) -> (Arc<dyn Disk>, u64) {
        (self.disk.clone(), self.manifest.cluster)
    }

    /// A snapshot's file takes the place of its shard's checkpoint.
    ///
    /// # Errors
    /// [`Error::Full`]: the manifest is as it was, and the file is gone. All others are fatal.
    pub fn replace(&mut self, file: CheckpointRef) -> Result<(), Error> {
        let others = self.manifest.checkpoints.iter().filter(|c| c.shard != file.shard).copied();
        let mut checkpoints: Vec<_> = others.collect();
        checkpoints.push(file);
        checkpoints.sort_by_key(|checkpoint| checkpoint.shard);
        let next = Manifest { checkpoints, ..self.manifest.clone() };
        if let Err(error) = manifest::store(&*self.disk, &next) {
            // After any other error the new manifest may count, which names the file.
            if matches!(error, Error::Full { .. }) {
                self.remove_unpublished([file].into_iter());
            }
            return Err(error);
        }
        let before = std::mem::replace(&mut self.manifest, next);
        self.remove_unpublished(before.checkpoints.into_iter());
        Ok(())
    }

    /// Where the log begins that a restart would read.
    pub fn log_start(&self) -> Lsn {
        self.manifest.log_start
    }

    /// One round over all shards. Whether it was finished: not if the disk is full.
    ///
    /// # Errors
    /// All are fatal.
    pub fn round(&mut self, hub: &Hub) -> Result<bool, Error> {
        let mut names: BTreeMap<ShardId, CheckpointRef> =
            self.manifest.checkpoints.iter().map(|c| (c.shard, *c)).collect();
        let mut log_start = hub.log.facts().written_end;
        let mut alive = Vec::new();
        for lane in &hub.lanes {
            alive.extend(lane.with(hub, |lane| lane.shards().map(|s| s.id()).collect::<Vec<_>>()));
        }
        // The log before goes, and with it what says that a replica has ended: that is in the log
        // again before its lane is left, and is synced with it before the manifest is written.
        for lane in &hub.lanes {
            lane.with(hub, |lane| lane.mark_again());
        }
        names.retain(|shard, _| alive.contains(shard));
        for shard in alive {
            match self.one(hub, shard, names.get(&shard)) {
                Ok(Some((reference, from))) => {
                    names.insert(shard, reference);
                    log_start = log_start.min(from);
                }
                // Dropped while the round was under way.
                Ok(None) => {
                    names.remove(&shard);
                }
                Err(Error::Full { .. }) => {
                    self.remove_unpublished(names.into_values());
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.publish(hub, names.into_values().collect(), log_start)
    }

    fn one(
        &self,
        hub: &Hub,
        shard: ShardId,
        last: Option<&CheckpointRef>,
    ) -> Result<Option<(CheckpointRef, Lsn)>, Error> {
        let written_end = hub.log.facts().written_end;
        let begun = hub.lanes[hub.lane_of(shard)].with(hub, |lane| {
            let shard = lane.shard(shard)?;
            match last.filter(|last| shard.is_covered_by(last.applied_index)) {
                Some(last) => Some(Err((*last, shard.log_needed_from(written_end)))),
                None => Some(Ok(Checkpoint::begin(shard, written_end, BLOCK))),
            }
        });
        let mut checkpoint = match begun {
            None => return Ok(None),
            Some(Err(unchanged)) => return Ok(Some(unchanged)),
            Some(Ok(checkpoint)) => checkpoint,
        };
        let (index, log_from) = (checkpoint.index, checkpoint.log_from);
        let cluster = self.manifest.cluster;
        let mut writer =
            CheckpointWriter::create(self.disk.clone(), cluster, shard, index, &checkpoint.meta)?;
        let mut block = Vec::new();
        while checkpoint.next_block(&mut block) {
            if let Err(error) = writer.block(&block) {
                // Its half of a file is removed here, or at the next start.
                writer.abandon().ok();
                return Err(error);
            }
        }
        assert!(!checkpoint.is_void(), "snapshots are installed between rounds");
        // A checkpoint holds only entries that are fsynced in the log (SAFETY G16).
        hub.log.sync_now()?;
        writer.finish()?;
        let hard_state = checkpoint.hard_state;
        hub.lanes[hub.lane_of(shard)].with(hub, |lane| lane.covered(shard, hard_state));
        Ok(Some((CheckpointRef { shard, applied_index: index }, log_from)))
    }

    /// Gives back the space of files that no manifest names, so that tries on a full disk do not
    /// fill it further. What cannot be removed now goes at the next start.
    fn remove_unpublished(&self, files: impl Iterator<Item = CheckpointRef>) {
        for file in files.filter(|file| !self.manifest.checkpoints.contains(file)) {
            if let Err(error) = self.disk.remove(&file.name()) {
                tracing::warn!("cannot remove the checkpoint {}: {error}", file.name());
            }
        }
    }

    fn publish(
        &mut self,
        hub: &Hub,
        checkpoints: Vec<CheckpointRef>,
        log_start: Lsn,
    ) -> Result<bool, Error> {
        let next = Manifest { checkpoints, log_start, ..self.manifest.clone() };
        hub.log.sync_now()?;
        match manifest::store(&*self.disk, &next) {
            Ok(()) => {}
            Err(Error::Full { .. }) => {
                self.remove_unpublished(next.checkpoints.into_iter());
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let before = std::mem::replace(&mut self.manifest, next);
        hub.log.truncate_before(log_start)?;
        for old in before.checkpoints.iter().filter(|c| !self.manifest.checkpoints.contains(c)) {
            if let Err(error) = self.disk.remove(&old.name()) {
                tracing::warn!("cannot remove the old checkpoint {}: {error}", old.name());
            }
        }
        hub.counters.checkpoints.add(1);
        hub.counters.checkpoint_millis.set(hub.millis());
        Ok(true)
    }
}
