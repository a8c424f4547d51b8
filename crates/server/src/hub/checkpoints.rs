//! Rounds of checkpoints, which bound the log and the time of a restart.
//!
//! A round writes one file per shard that has changed, then a manifest that names them, and then
//! the log before all of them goes. Until the manifest is there, the old files and the whole log
//! count. A round that runs out of space leaves everything as it was and is tried again later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use keyspace::ShardId;
use node::checkpoint::{BLOCK, Checkpoint};
use node::shard::Shard;
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
    pub fn replace(&mut self, hub: &Hub, file: CheckpointRef) -> Result<(), Error> {
        if self.lacks_halves(hub) {
            self.remove_unpublished([file].into_iter());
            return Err(Error::Full { file: file.name(), needed_bytes: 0 });
        }
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
        // Cut while the manifest was written.
        self.cover_halves(hub)
    }

    /// Before a snapshot takes the place of a shard's checkpoint: what right halves have begun with
    /// may be nowhere but in what the log makes of that. A round has all of them, unless the disk
    /// is full.
    ///
    /// # Errors
    /// All are fatal.
    pub fn cover_halves(&mut self, hub: &Hub) -> Result<(), Error> {
        if self.lacks_halves(hub) {
            self.round(hub)?;
        }
        Ok(())
    }

    /// Whether what some right half has begun with is in no checkpoint that counts yet.
    fn lacks_halves(&self, hub: &Hub) -> bool {
        let is_kept = |id| self.manifest.checkpoints.iter().any(|file| file.shard == id);
        let is_bare = |shard: &Shard| shard.began_as_half() && !is_kept(shard.id());
        let mut lanes = hub.lanes.iter();
        lanes.any(|lane| {
            lane.with(hub, |lane| lane.unborn().next().is_some() || lane.shards().any(is_bare))
        })
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
        let mut seen: BTreeSet<ShardId> = alive.iter().copied().collect();
        loop {
            // Those that were cut off meanwhile begin with what the log before holds.
            if alive.is_empty() {
                alive.extend(begun_halves(hub).into_iter().filter(|half| seen.insert(*half)));
            }
            if alive.is_empty() {
                alive.extend(outdated(hub, &mut names));
            }
            let Some(shard) = alive.pop() else { break };
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

    /// One shard's checkpoint; again, if the shard is cut in two meanwhile.
    fn one(
        &self,
        hub: &Hub,
        shard: ShardId,
        last: Option<&CheckpointRef>,
    ) -> Result<Option<(CheckpointRef, Lsn)>, Error> {
        loop {
            match self.try_one(hub, shard, last)? {
                Tried::Done(made) => return Ok(made),
                Tried::Void => {}
            }
        }
    }

    fn try_one(
        &self,
        hub: &Hub,
        shard: ShardId,
        last: Option<&CheckpointRef>,
    ) -> Result<Tried, Error> {
        let written_end = hub.log.facts().written_end;
        let begun = hub.lanes[hub.lane_of(shard)].with(hub, |lane| {
            let shard = lane.shard(shard)?;
            match last.filter(|last| shard.is_covered_by(last.applied_index)) {
                Some(last) => Some(Err((*last, shard.log_needed_from(written_end)))),
                None => Some(Ok(Checkpoint::begin(shard, written_end, BLOCK))),
            }
        });
        let mut checkpoint = match begun {
            None => return Ok(Tried::Done(None)),
            Some(Err(unchanged)) => return Ok(Tried::Done(Some(unchanged))),
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
        if checkpoint.is_void() {
            // Not by a snapshot: those are installed between rounds.
            writer.abandon().ok();
            return Ok(Tried::Void);
        }
        // A checkpoint holds only entries that are fsynced in the log (SAFETY G16).
        hub.log.sync_now()?;
        writer.finish()?;
        let hard_state = checkpoint.hard_state;
        hub.lanes[hub.lane_of(shard)].with(hub, |lane| lane.covered(shard, hard_state));
        Ok(Tried::Done(Some((CheckpointRef { shard, applied_index: index }, log_from))))
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

/// What came of a checkpoint.
enum Tried {
    /// It is there, and the shard needs the log from there on; none: the shard is gone.
    Done(Option<(CheckpointRef, Lsn)>),
    /// The shard was cut in two while it was written.
    Void,
}

/// Whether it was handed out, has not begun, and nobody has said that it will not.
fn is_unborn(hub: &Hub, half: ShardId) -> bool {
    let is_waited_for =
        |lane: &super::LaneCell| lane.with(hub, |lane| lane.unborn().any(|other| other == half));
    let has_begun = || hub.lanes[hub.lane_of(half)].with(hub, |lane| lane.has_had(half));
    hub.lanes.iter().any(is_waited_for) && !has_begun()
}

/// Checkpoints of shards that are gone do not count, nor do those of who has taken them in that are
/// from before that: which are to be made again.
fn outdated(hub: &Hub, names: &mut BTreeMap<ShardId, CheckpointRef>) -> BTreeSet<ShardId> {
    let absorbed =
        |lane: &super::LaneCell| lane.with(hub, |lane| lane.absorbed().collect::<Vec<_>>());
    let mut again = BTreeSet::new();
    for (right, absorbed) in hub.lanes.iter().flat_map(absorbed) {
        names.remove(&right);
        let (left, Some(at)) = (absorbed.left, absorbed.at) else { continue };
        let is_older = |file: &CheckpointRef| file.applied_index < at;
        if !names.get(&left).is_some_and(is_older) {
            continue;
        }
        let state = || {
            let lane = &hub.lanes[hub.lane_of(left)];
            let state = |lane: &node::lane::Lane| {
                lane.shard(left).map(|shard| (shard.applied_index(), shard.awaits_right()))
            };
            lane.with(hub, |lane| state(lane))
        };
        loop {
            match state() {
                // Whoever stepped the right one's lane hands over what it held next.
                Some((index, true)) if index < at => {
                    hub.spread_news();
                    std::thread::sleep(Duration::from_millis(1));
                }
                // Another replica has taken the place of the one that was given that: it has its
                // state from a leader, or waits for it.
                Some((index, false)) if index < at => break,
                _ => {
                    again.insert(left);
                    break;
                }
            }
        }
    }
    again
}

/// Right halves that lanes have handed out by now, when all of them have begun.
fn begun_halves(hub: &Hub) -> Vec<ShardId> {
    let unborn = |lane: &super::LaneCell| lane.with(hub, |lane| lane.unborn().collect::<Vec<_>>());
    let halves: Vec<ShardId> = hub.lanes.iter().flat_map(unborn).collect();
    for half in &halves {
        // Whoever stepped the left half's lane begins it next.
        while is_unborn(hub, *half) {
            hub.spread_news();
            std::thread::sleep(Duration::from_millis(1));
        }
        hub.lanes.iter().for_each(|lane| lane.with(hub, |lane| lane.confirm(*half)));
    }
    halves
}
