//! A round of checkpoints, one small step at a time.
//!
//! The order is the server's: per shard begin, blocks, sync of the log, finish; then a manifest
//! that names them all; then the log before them and the old files go. Lanes go on between any two
//! steps, and the power may go in any.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keyspace::ShardId;
use node::checkpoint::Checkpoint;
use storage::Error;
use storage::checkpoint::CheckpointWriter;
use storage::log::Lsn;
use storage::manifest::{self, CheckpointRef, Manifest};

use super::Machine;

/// A round under way.
pub struct Round {
    names: BTreeMap<ShardId, CheckpointRef>,
    left: VecDeque<ShardId>,
    /// All that were ever left.
    seen: BTreeSet<ShardId>,
    log_start: Lsn,
    /// Whether what must be remembered was written again.
    marked: bool,
    current: Option<Current>,
}

struct Current {
    checkpoint: Checkpoint,
    writer: CheckpointWriter,
    /// Whether it has a block.
    begun: bool,
    /// Planted: the block that may be the last.
    held: Option<Vec<u8>>,
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Phase {
    Blocks,
    Sync,
    Finish,
}

/// How far a step brought the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// The lane of the next shard is in the middle of something: try again.
    Busy,
    /// The round is done.
    Done,
    /// There was no space: everything is as it was.
    Full,
}

impl Machine {
    /// Begins a round, or takes it one step further.
    ///
    /// # Errors
    /// All are fatal.
    pub fn step_round(&mut self) -> Result<Progress, Error> {
        let mut round = match self.round.take() {
            Some(round) => round,
            None if self.lanes.iter().any(|seat| seat.unappended) => return Ok(Progress::Busy),
            None => {
                let left: VecDeque<ShardId> =
                    self.lanes.iter().flat_map(|seat| seat.lane.shards().map(|s| s.id())).collect();
                let known = self.manifest.checkpoints.iter();
                let names = known.filter(|c| left.contains(&c.shard)).map(|c| (c.shard, *c));
                let log_start = self.log.log.written_end();
                let (names, seen) = (names.collect(), left.iter().copied().collect());
                Round { names, left, seen, log_start, marked: false, current: None }
            }
        };
        match self.advance(&mut round)? {
            Progress::Done => Ok(Progress::Done),
            Progress::Full => {
                self.remove_unpublished(&round);
                Ok(Progress::Full)
            }
            under_way => {
                self.round = Some(round);
                Ok(under_way)
            }
        }
    }

    /// Gives back the space of files that no manifest names, so that tries on a full disk do not
    /// fill it further.
    fn remove_unpublished(&self, round: &Round) {
        let known = &self.manifest.checkpoints;
        for file in round.names.values().filter(|file| !known.contains(file)) {
            // Left behind, it takes space until the next start removes it.
            self.handle.remove(&file.name()).ok();
        }
    }

    fn advance(&mut self, round: &mut Round) -> Result<Progress, Error> {
        match self.try_advance(round) {
            Err(Error::Full { .. }) => Ok(Progress::Full),
            other => other,
        }
    }

    fn try_advance(&mut self, round: &mut Round) -> Result<Progress, Error> {
        if let Some(mut current) = round.current.take() {
            match current.phase {
                Phase::Blocks => {
                    let mut block = Vec::new();
                    let block = match current.checkpoint.next_block(&mut block) {
                        false => {
                            current.phase = Phase::Sync;
                            None
                        }
                        // Planted: what follows the first block waits for one more, in vain.
                        true if self.short_checkpoint && current.begun => {
                            current.held.replace(block)
                        }
                        true => Some(block),
                    };
                    current.begun = true;
                    if let Some(block) = block
                        && let Err(error) = current.writer.block(&block)
                    {
                        // Its half of a file is removed here, or at the next start.
                        current.writer.abandon().ok();
                        return Err(error);
                    }
                    round.current = Some(current);
                }
                Phase::Sync => {
                    self.log.sync_now()?;
                    current.phase = Phase::Finish;
                    round.current = Some(current);
                }
                _ if current.checkpoint.is_void() => {
                    // The shard was cut in two meanwhile: again.
                    round.left.push_front(current.checkpoint.shard);
                    current.writer.abandon()?;
                }
                Phase::Finish => {
                    let Checkpoint { shard, index, log_from, hard_state, .. } = current.checkpoint;
                    current.writer.finish()?;
                    let lane = self.lane_of(shard);
                    self.lanes[lane].lane.covered(shard, hard_state);
                    round.names.insert(shard, CheckpointRef { shard, applied_index: index });
                    round.log_start = round.log_start.min(log_from);
                }
            }
            return Ok(Progress::More);
        }
        if !std::mem::replace(&mut round.marked, true) {
            for seat in &mut self.lanes {
                seat.lane.mark_again();
                seat.again = true;
            }
            return Ok(Progress::More);
        }
        if round.left.is_empty() {
            // Those that were cut off meanwhile begin with what the log before holds.
            let Some(halves) = self.begun_halves() else { return Ok(Progress::Busy) };
            round.left.extend(halves.into_iter().filter(|half| round.seen.insert(*half)));
        }
        if round.left.is_empty() {
            let Some(again) = self.outdated(&mut round.names) else { return Ok(Progress::Busy) };
            round.left.extend(again);
        }
        let Some(id) = round.left.front().copied() else {
            if !self.lanes.iter().all(|seat| seat.lane.marks_are_durable()) {
                return Ok(Progress::Busy);
            }
            return self.publish(round);
        };
        let written_end = self.log.log.written_end();
        let seat = &self.lanes[self.lane_of(id)];
        if seat.unappended {
            return Ok(Progress::Busy);
        }
        round.left.pop_front();
        match seat.lane.shard(id) {
            None => {
                round.names.remove(&id);
            }
            Some(shard) => {
                let index = shard.view().read().applied_index;
                let last = round.names.get(&id);
                if last.is_some_and(|last| shard.is_covered_by(last.applied_index)) {
                    round.log_start = round.log_start.min(shard.log_needed_from(written_end));
                } else {
                    let checkpoint = Checkpoint::begin(shard, written_end, self.limits.block);
                    let writer = CheckpointWriter::create(
                        self.handle.clone(),
                        self.manifest.cluster,
                        id,
                        index,
                        &checkpoint.meta,
                    )?;
                    let (begun, held) = (false, None);
                    let phase = Phase::Blocks;
                    round.current = Some(Current { checkpoint, writer, begun, held, phase });
                }
            }
        }
        Ok(Progress::More)
    }

    fn publish(&mut self, round: &Round) -> Result<Progress, Error> {
        let checkpoints = round.names.values().copied().collect();
        let next = Manifest { checkpoints, log_start: round.log_start, ..self.manifest.clone() };
        self.log.sync_now()?;
        manifest::store(&*self.handle, &next)?;
        let before = std::mem::replace(&mut self.manifest, next);
        self.log.log.truncate_before(round.log_start)?;
        for old in before.checkpoints.iter().filter(|c| !self.manifest.checkpoints.contains(c)) {
            // Left behind, it takes space until the next start removes it.
            self.handle.remove(&old.name()).ok();
        }
        Ok(Progress::Done)
    }
}
