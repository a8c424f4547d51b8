//! Writes checkpoints, which bound the log and the time of a restart: the driver of
//! [`node::control::checkpoints`].
//!
//! That core decides the order of a round and of an installation. Here are the files, the log, and
//! the waits. The thread that holds [`Checkpoints`] runs one of the two; no executor is locked
//! while a file is written.

use std::sync::Arc;
use std::time::Duration;

use keyspace::ShardId;
use node::control::checkpoints::Progress;
use node::control::checkpoints::facts::{self, FileStart, Vote};
use node::control::checkpoints::install::{self, SnapshotInstall};
use node::control::checkpoints::round::{CheckpointRound, Effect, Event};
use node::event::EventKind;
use node::executor::Input;
use node::recovery::RecoveringReplica;
use node::recovery::checkpoint::{BLOCK, Checkpoint};
use replication::Message;
use storage::Error;
use storage::checkpoint::CheckpointWriter;
use storage::disk::Disk;
use storage::log::Lsn;
use storage::manifest::{self, CheckpointRef, Manifest};

use super::NodeRuntime;
use crate::process::disk_failed;

/// How long to wait before an executor is asked again.
const PAUSE: Duration = Duration::from_millis(1);

/// Writes checkpoints of one directory.
pub struct Checkpoints {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
}

/// A checkpoint that a round is writing.
struct File {
    checkpoint: Checkpoint,
    writer: CheckpointWriter,
    block: Vec<u8>,
}

/// A complete received snapshot.
pub struct ReceivedSnapshot {
    /// Of this shard.
    pub shard: ShardId,
    /// The message that heads it.
    pub head: Message,
    /// As of this entry.
    pub index: u64,
    /// Term and vote that its file says.
    pub vote: Vote,
    /// The state.
    pub state: RecoveringReplica,
    /// Its file, with all its blocks.
    pub writer: CheckpointWriter,
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

    /// Where the log begins that a restart would read.
    pub fn log_start(&self) -> Lsn {
        self.manifest.log_start
    }

    /// One round over all shards. Whether it was finished: not if the disk is full.
    ///
    /// # Errors
    /// All are fatal.
    pub fn round(&mut self, runtime: &NodeRuntime) -> Result<bool, Error> {
        let written_end = runtime.log.facts().written_end;
        let mut shards = Vec::new();
        runtime.each_executor(|executor| shards.extend(executor.shards().map(|s| s.id())));
        let mut round = CheckpointRound::begin(&self.manifest, written_end, shards);
        let mut file = None;
        loop {
            let event = match self.execute(runtime, round.next(), &mut file) {
                Err(Error::Full { .. }) => Event::DiskFull,
                executed => executed?,
            };
            match round.take(event) {
                Progress::More => {}
                Progress::Busy => wait(runtime),
                Progress::Done => {
                    runtime.counters.checkpoints.add(1);
                    runtime.counters.checkpoint_millis.set(runtime.clock.millis());
                    return Ok(true);
                }
                Progress::Refused => return Ok(false),
            }
        }
    }

    fn execute(
        &mut self,
        runtime: &NodeRuntime,
        effect: Effect,
        file: &mut Option<File>,
    ) -> Result<Event, Error> {
        match effect {
            // It is in the log before its executor is left.
            Effect::MarkEnded => runtime.each_executor(|executor| executor.mark_again()),
            Effect::BeginFile { shard, last } => {
                return self.begin_file(runtime, shard, last, file);
            }
            Effect::WriteBlock => {
                let File { checkpoint, writer, block } = file.as_mut().expect("the file has begun");
                if !checkpoint.next_block(block) {
                    return Ok(Event::BlocksEnded { is_void: checkpoint.is_void() });
                }
                writer.block(block)?;
            }
            Effect::AbandonFile => {
                let File { writer, checkpoint, .. } = file.take().expect("the file has begun");
                abandon(writer, checkpoint.shard);
            }
            Effect::SyncLog => runtime.log.sync_now()?,
            Effect::FinishFile => {
                let File { checkpoint, writer, .. } = file.take().expect("the file has begun");
                writer.finish()?;
                let Checkpoint { shard, hard_state, .. } = checkpoint;
                runtime.with_executor(shard, |executor| executor.covered(shard, hard_state));
            }
            Effect::ListHalves => return Ok(Event::Halves(halves(runtime))),
            Effect::ConfirmHalves(halves) => {
                runtime.each_executor(|executor| {
                    halves.iter().for_each(|half| executor.confirm(*half))
                });
            }
            Effect::ListMerged => {
                let mut merged = Vec::new();
                runtime.each_executor(|executor| merged.extend(facts::merged(executor)));
                return Ok(Event::Merged(merged));
            }
            Effect::InspectLeft(shard) => {
                let executor = &runtime.executors.of(shard);
                return Ok(Event::Left(
                    executor.with(runtime, |executor| facts::left_replica(executor, shard)),
                ));
            }
            Effect::InspectMarks => {
                let mut are_durable = true;
                runtime.each_executor(|executor| are_durable &= executor.marks_are_durable());
                return Ok(Event::Marks(are_durable));
            }
            Effect::StoreManifest(next) => self.store(next)?,
            Effect::TruncateLog(before) => runtime.log.truncate_before(before)?,
            Effect::RemoveFiles(files) => self.remove(&files),
        }
        Ok(Event::Done)
    }

    fn begin_file(
        &self,
        runtime: &NodeRuntime,
        shard: ShardId,
        last: Option<CheckpointRef>,
        file: &mut Option<File>,
    ) -> Result<Event, Error> {
        let written_end = runtime.log.facts().written_end;
        let start = runtime.with_executor(shard, |executor| {
            facts::begin_file(executor, shard, last, written_end, BLOCK)
        });
        let checkpoint = match start {
            FileStart::NoReplica => return Ok(Event::NoReplica),
            FileStart::Unchanged(log_from) => return Ok(Event::Unchanged(log_from)),
            FileStart::Begun(checkpoint) => *checkpoint,
        };
        let (applied_index, log_from) = (checkpoint.index, checkpoint.log_from);
        let (disk, cluster) = self.place();
        let writer =
            CheckpointWriter::create(disk, cluster, shard, applied_index, &checkpoint.meta)?;
        *file = Some(File { checkpoint, writer, block: Vec::new() });
        Ok(Event::FileBegun { applied_index, log_from })
    }

    fn store(&mut self, next: Manifest) -> Result<(), Error> {
        manifest::store(&*self.disk, &next)?;
        self.manifest = next;
        Ok(())
    }

    /// Files that cannot be removed now are removed at the next start.
    fn remove(&self, files: &[CheckpointRef]) {
        for file in files {
            if let Err(error) = self.disk.remove(&file.name()) {
                tracing::warn!("cannot remove the checkpoint {}: {error}", file.name());
            }
        }
    }

    /// Makes a snapshot's file its shard's checkpoint, and gives the state to the replica. Whether
    /// it did: not if the replica has no use for it any more.
    ///
    /// # Errors
    /// [`Error::Full`]: the snapshot is given up, and nothing has changed. All others are fatal
    /// here.
    pub fn install(
        &mut self,
        runtime: &NodeRuntime,
        received: ReceivedSnapshot,
    ) -> Result<bool, Error> {
        let ReceivedSnapshot { shard, head, index, vote, state, writer } = received;
        let mut install = SnapshotInstall::begin(CheckpointRef { shard, applied_index: index });
        let executor = &runtime.executors.of(shard);
        let (mut writer, mut state) = (Some(writer), Some(state));
        let mut refused = None;
        loop {
            let event = match install.next(&self.manifest) {
                install::Effect::InspectHalves => {
                    install::Event::UncoveredHalves(self.has_uncovered_halves(runtime))
                }
                install::Effect::RunRound => {
                    self.round(runtime).unwrap_or_else(|error| disk_failed("a checkpoint", &error));
                    install::Event::Done
                }
                install::Effect::InspectReplica => {
                    let fits = |executor: &mut _| facts::fits(executor, shard, &head, vote);
                    install::Event::Fits(executor.with(runtime, fits))
                }
                install::Effect::Decline => {
                    let head = Box::new(head.clone());
                    runtime.submit(shard, Input::SnapshotDeclined { shard, head });
                    abandon(writer.take().expect("the writer is open"), shard);
                    install::Event::Done
                }
                install::Effect::FinishFile => {
                    let finished = writer.take().expect("once").finish();
                    unless_full(finished.map(drop), &mut refused)
                }
                install::Effect::StoreManifest(next) => unless_full(self.store(next), &mut refused),
                install::Effect::RemoveFiles(files) => {
                    self.remove(&files);
                    install::Event::Done
                }
                install::Effect::InstallState => {
                    give_state(runtime, &head, state.take().expect("once"));
                    install::Event::Done
                }
                install::Effect::AwaitReplica => {
                    let waits = |executor: &mut _| facts::wants(executor, shard, &head);
                    install::Event::Waits(executor.with(runtime, waits))
                }
            };
            match install.take(event) {
                Progress::More => {}
                Progress::Busy => wait(runtime),
                Progress::Done => return Ok(true),
                Progress::Refused => {
                    if let Some(why) = install.given_up() {
                        runtime.happened(EventKind::SnapshotGivenUp { shard, index, why });
                    }
                    return refused.map_or(Ok(false), Err);
                }
            }
        }
    }

    fn has_uncovered_halves(&self, runtime: &NodeRuntime) -> bool {
        let has = |executor: &mut _| facts::has_uncovered_halves(executor, &self.manifest);
        runtime.executors.cells().iter().any(|executor| executor.with(runtime, has))
    }
}

/// Whether it was done; that the disk is full is remembered, all other errors are fatal.
fn unless_full(result: Result<(), Error>, refused: &mut Option<Error>) -> install::Event {
    match result {
        Ok(()) => install::Event::Done,
        Err(error @ Error::Full { .. }) => {
            *refused = Some(error);
            install::Event::DiskFull
        }
        Err(error) => disk_failed("installing a snapshot", &error),
    }
}

fn give_state(runtime: &NodeRuntime, head: &Message, state: RecoveringReplica) {
    let state = state.into_state();
    let shard = state.descriptor.shard;
    let (index, head) = (state.applied_index, Box::new(head.clone()));
    runtime.submit(shard, Input::InstallSnapshot { head, state: Box::new(state) });
    runtime.happened(EventKind::SnapshotInstalled { shard, index });
}

/// Gives back the space of a file that will not be whole.
pub fn abandon(writer: CheckpointWriter, shard: ShardId) {
    if let Err(error) = writer.abandon() {
        tracing::warn!(
            "an unfinished checkpoint of shard {shard} stays on disk until a restart: \
             {error}"
        );
    }
}

/// Right halves that executors have handed out, each with whether it has begun.
fn halves(runtime: &NodeRuntime) -> Vec<(ShardId, bool)> {
    let mut halves = Vec::new();
    runtime.each_executor(|executor| halves.extend(executor.pending_halves()));
    let has_begun = |half| runtime.with_executor(half, |executor| executor.has_had(half));
    halves.into_iter().map(|half| (half, has_begun(half))).collect()
}

/// Lets control pass on what executors wait for; a thread that steps one posts it next.
fn wait(runtime: &NodeRuntime) {
    runtime.control.run(runtime);
    std::thread::sleep(PAUSE);
}
