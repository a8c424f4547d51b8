//! Rounds of checkpoints and installations of snapshots, one effect a step: the second driver of
//! [`node::control::checkpoints`].
//!
//! Executors go on between any two effects, and the power may go in any.

use keyspace::ShardId;
use node::control::checkpoints::Progress as Step;
use node::control::checkpoints::facts::{self, FileStart};
use node::control::checkpoints::install::{self, SnapshotInstall};
use node::control::checkpoints::round::{CheckpointRound, Effect, Event};
use node::event::EventKind;
use node::executor::{Input, ShardExecutor};
use node::recovery::RecoveringReplica;
use node::recovery::checkpoint::Checkpoint;
use replication::Message;
use storage::Error;
use storage::checkpoint::CheckpointWriter;
use storage::manifest::{self, CheckpointRef, Manifest};

use super::Machine;
use super::streams::Incoming;

/// A round under way.
pub struct Round {
    core: CheckpointRound,
    file: Option<File>,
}

/// A checkpoint that is being written.
struct File {
    checkpoint: Checkpoint,
    writer: CheckpointWriter,
    /// Whether it has a block.
    begun: bool,
    /// Planted: the block that may be the last.
    held: Option<Vec<u8>>,
}

/// A snapshot that is being installed.
pub struct Installation {
    core: SnapshotInstall,
    shard: ShardId,
    index: u64,
    head: Message,
    vote: facts::Vote,
    state: Option<RecoveringReplica>,
    writer: Option<CheckpointWriter>,
}

/// How far a step brought the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// An executor is in the middle of something: try again.
    Busy,
    /// The round is done.
    Done,
    /// There was no space: everything is as it was.
    Full,
}

impl From<Step> for Progress {
    fn from(step: Step) -> Self {
        match step {
            Step::More => Self::More,
            Step::Busy => Self::Busy,
            Step::Done => Self::Done,
            Step::Refused => Self::Full,
        }
    }
}

impl Machine {
    /// Begins a round, or takes it one step further; not while a snapshot is being installed, which
    /// steps the rounds that it wants.
    ///
    /// # Errors
    /// All are fatal.
    pub fn step_round(&mut self) -> Result<Progress, Error> {
        let mut round = match self.round.take() {
            Some(round) => round,
            // Between two steps of an executor the server never looks at it.
            None if self.executors.iter().any(|seat| seat.unappended) => return Ok(Progress::Busy),
            None => Round { core: self.begin_round(), file: None },
        };
        let event = match self.execute(round.core.next(), &mut round.file) {
            Err(Error::Full { .. }) => Some(Event::DiskFull),
            executed => executed?,
        };
        let progress = event.map_or(Step::Busy, |event| round.core.take(event));
        if matches!(progress, Step::More | Step::Busy) {
            self.round = Some(round);
        }
        Ok(progress.into())
    }

    fn begin_round(&self) -> CheckpointRound {
        let shards = self.shard_ids();
        let written_end = self.log.log.written_end();
        let mut round = CheckpointRound::begin(&self.manifest, written_end, shards);
        if self.forgets_shards {
            round.plant_forgotten_shard();
        }
        round
    }

    /// What came of it; nothing if the executor in question is in the middle of something.
    fn execute(&mut self, effect: Effect, file: &mut Option<File>) -> Result<Option<Event>, Error> {
        match effect {
            Effect::MarkEnded => {
                for seat in &mut self.executors {
                    seat.executor.mark_again();
                    seat.again = true;
                }
            }
            Effect::BeginFile { shard, last } => return self.begin_file(shard, last, file),
            Effect::WriteBlock => {
                let file = file.as_mut().expect("the file has begun");
                return file.write_block(self.short_checkpoint).map(Some);
            }
            Effect::AbandonFile => {
                // Left behind, it takes space until the next start removes it.
                file.take().expect("the file has begun").writer.abandon().ok();
            }
            Effect::SyncLog => self.log.sync_now()?,
            Effect::FinishFile => {
                let File { checkpoint, writer, .. } = file.take().expect("the file has begun");
                writer.finish()?;
                let executor = self.executor_of(checkpoint.shard);
                self.executors[executor].executor.covered(checkpoint.shard, checkpoint.hard_state);
            }
            Effect::ListHalves => {
                let halves: Vec<ShardId> =
                    self.cores().flat_map(ShardExecutor::pending_halves).collect();
                let has_begun =
                    |half| self.executors[self.executor_of(half)].executor.has_had(half);
                let halves = halves.into_iter().map(|half| (half, has_begun(half)));
                return Ok(Some(Event::Halves(halves.collect())));
            }
            Effect::ConfirmHalves(halves) => {
                let executors = self.executors.iter_mut().map(|seat| &mut seat.executor);
                executors
                    .for_each(|executor| halves.iter().for_each(|half| executor.confirm(*half)));
            }
            Effect::ListMerged => {
                return Ok(Some(Event::Merged(self.cores().flat_map(facts::merged).collect())));
            }
            Effect::InspectLeft(shard) => {
                let executor = &self.executors[self.executor_of(shard)].executor;
                return Ok(Some(Event::Left(facts::left_replica(executor, shard))));
            }
            Effect::InspectMarks => {
                return Ok(Some(Event::Marks(self.cores().all(ShardExecutor::marks_are_durable))));
            }
            Effect::StoreManifest(next) => self.store(next)?,
            Effect::TruncateLog(before) => self.log.log.truncate_before(before)?,
            Effect::RemoveFiles(files) => self.remove(&files),
        }
        Ok(Some(Event::Done))
    }

    fn begin_file(
        &mut self,
        shard: ShardId,
        last: Option<CheckpointRef>,
        file: &mut Option<File>,
    ) -> Result<Option<Event>, Error> {
        let seat = &self.executors[self.executor_of(shard)];
        if seat.unappended {
            return Ok(None);
        }
        let end = self.log.log.written_end();
        let checkpoint =
            match facts::begin_file(&seat.executor, shard, last, end, self.limits.block) {
                FileStart::NoReplica => return Ok(Some(Event::NoReplica)),
                FileStart::Unchanged(log_from) => return Ok(Some(Event::Unchanged(log_from))),
                FileStart::Begun(checkpoint) => *checkpoint,
            };
        let (applied_index, log_from) = (checkpoint.index, checkpoint.log_from);
        let (disk, cluster) = (self.handle.clone(), self.manifest.cluster);
        let meta = &checkpoint.meta;
        let writer = CheckpointWriter::create(disk, cluster, shard, applied_index, meta)?;
        *file = Some(File { checkpoint, writer, begun: false, held: None });
        Ok(Some(Event::FileBegun { applied_index, log_from }))
    }

    fn cores(&self) -> impl Iterator<Item = &ShardExecutor> {
        self.executors.iter().map(|seat| &seat.executor)
    }

    fn store(&mut self, next: Manifest) -> Result<(), Error> {
        manifest::store(&*self.handle, &next)?;
        self.manifest = next;
        Ok(())
    }

    fn remove(&self, files: &[CheckpointRef]) {
        for file in files {
            // Left behind, it takes space until the next start removes it.
            self.handle.remove(&file.name()).ok();
        }
    }
}

impl File {
    fn write_block(&mut self, is_short: bool) -> Result<Event, Error> {
        let mut block = Vec::new();
        if !self.checkpoint.next_block(&mut block) {
            return Ok(Event::BlocksEnded { is_void: self.checkpoint.is_void() });
        }
        let block = match is_short && self.begun {
            // Each later block is held back until another comes, so the last is lost.
            true => self.held.replace(block),
            false => Some(block),
        };
        self.begun = true;
        block.map_or(Ok(()), |block| self.writer.block(&block)).map(|()| Event::Done)
    }
}

impl Machine {
    /// Begins to install the oldest snapshot that has come, unless a round of checkpoints is under
    /// way, or takes its installation one step further. A round that is under way goes on first.
    ///
    /// # Errors
    /// All are fatal.
    pub fn install_arrived(&mut self) -> Result<(), Error> {
        if self.installation.is_none() {
            if !self.streams.has_complete() {
                return Ok(());
            }
            if self.round.is_some() {
                return self.step_round().map(drop);
            }
            self.installation = self.streams.take_complete().map(Installation::begin);
        }
        let Some(mut installation) = self.installation.take() else { return Ok(()) };
        let Some(event) = self.step_installation(&mut installation)? else {
            self.installation = Some(installation);
            return Ok(());
        };
        match installation.core.take(event) {
            Step::More | Step::Busy => self.installation = Some(installation),
            ended => {
                let Installation { core, shard, index, .. } = installation;
                if let Some(why) = core.given_up() {
                    self.happened(EventKind::SnapshotGivenUp { shard, index, why });
                }
                self.installed(ended == Step::Done);
            }
        }
        Ok(())
    }

    /// What came of the next effect; nothing if it takes longer.
    fn step_installation(
        &mut self,
        installation: &mut Installation,
    ) -> Result<Option<install::Event>, Error> {
        let Installation { core, shard, head, vote, state, writer, .. } = installation;
        let shard = *shard;
        let executor = &self.executors[self.executor_of(shard)].executor;
        let done = match core.next(&self.manifest) {
            install::Effect::InspectHalves => {
                let is_bare = |executor| facts::has_uncovered_halves(executor, &self.manifest);
                let is_bare = self.cores().any(is_bare);
                return Ok(Some(install::Event::UncoveredHalves(is_bare)));
            }
            install::Effect::RunRound => {
                let progress = self.step_round()?;
                let is_over = matches!(progress, Progress::Done | Progress::Full);
                return Ok(is_over.then_some(install::Event::Done));
            }
            install::Effect::InspectReplica => {
                let fits = facts::fits(executor, shard, head, *vote);
                return Ok(Some(install::Event::Fits(fits)));
            }
            install::Effect::Decline => {
                self.submit(shard, Input::SnapshotDeclined { shard, head: Box::new(head.clone()) });
                writer.take().expect("the writer is open").abandon()
            }
            install::Effect::FinishFile => writer.take().expect("once").finish().map(drop),
            install::Effect::StoreManifest(next) => self.store(next),
            install::Effect::RemoveFiles(files) => {
                self.remove(&files);
                Ok(())
            }
            install::Effect::InstallState => {
                self.give_state(head, state.take().expect("once"));
                Ok(())
            }
            install::Effect::AwaitReplica => {
                return Ok(Some(install::Event::Waits(facts::wants(executor, shard, head))));
            }
        };
        match done {
            Ok(()) => Ok(Some(install::Event::Done)),
            Err(Error::Full { .. }) => Ok(Some(install::Event::DiskFull)),
            Err(error) => Err(error),
        }
    }

    fn give_state(&mut self, head: &Message, state: RecoveringReplica) {
        let state = state.into_state();
        let (shard, index) = (state.descriptor.shard, state.applied_index);
        let head = Box::new(head.clone());
        self.submit(shard, Input::InstallSnapshot { head, state: Box::new(state) });
        self.happened(EventKind::SnapshotInstalled { shard, index });
    }
}

impl Installation {
    fn begin(incoming: Incoming) -> Self {
        let Incoming { shard, head, index, vote, state, writer } = incoming;
        let core = SnapshotInstall::begin(CheckpointRef { shard, applied_index: index });
        Self { core, shard, index, head, vote, state: Some(state), writer: Some(writer) }
    }
}
