//! A round of checkpoints: one file for each shard that has changed, a manifest, a shorter log.
//!
//! ```text
//!   mark ─► file of a shard: begin, blocks, sync of the log, finish ─┐   (again for each shard)
//!            ▲                                                       │
//!            ├── right halves that were cut off meanwhile ◄──────────┤ none left
//!            ├── shards that took another one in meanwhile ◄─────────┤
//!            └───────────────────────────────────────────────────────┤
//!   old files removed ◄─ log cut ◄─ manifest stored ◄─ log synced ◄──┘
//! ```
//!
//! Example: shard 4 is split while the round writes its file. The file is void, so the round begins
//! it again. Its right half, shard 9, began with what only the log and the old file of shard 4
//! hold. The round waits until shard 9 has begun, and writes its file, too.
//!
//! Invariants:
//! 1. Until the manifest is stored, the files of the last one and the whole log count.
//! 2. The log is cut where no shard needs it any more: neither one that was there when the round
//!    began, nor a right half that was cut off meanwhile.
//! 3. A file holds only entries that are fsynced in the log (SAFETY G16).
//! 4. The manifest names no file of a shard that has been merged, and no file of the shard that
//!    took it in from before that.
//! 5. A round that finds the disk full removes the files that no manifest names.
//!
//! Pure: the driver executes effects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use keyspace::ShardId;
use storage::log::Lsn;
use storage::manifest::{CheckpointRef, Manifest};

use super::Progress;
use super::facts::{LeftReplica, Merged};

/// What a round wants done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write at the end of the log, once more, which replicas have ended. [`Event::Done`].
    MarkEnded,
    /// Begin the shard's file, unless `last` is still good. [`Event::NoReplica`],
    /// [`Event::Unchanged`], [`Event::FileBegun`] or [`Event::DiskFull`].
    BeginFile {
        /// The shard.
        shard: ShardId,
        /// Its last file.
        last: Option<CheckpointRef>,
    },
    /// Write the next block. [`Event::Done`], [`Event::BlocksEnded`] or [`Event::DiskFull`].
    WriteBlock,
    /// Remove the file that is being written. [`Event::Done`].
    AbandonFile,
    /// Sync the log. [`Event::Done`] or [`Event::DiskFull`].
    SyncLog,
    /// Make the file durable under its name. [`Event::Done`] or [`Event::DiskFull`].
    FinishFile,
    /// List the right halves that executors have handed out. [`Event::Halves`].
    ListHalves,
    /// Tell executors that these have begun. [`Event::Done`].
    ConfirmHalves(Vec<ShardId>),
    /// List the absorbed shards. [`Event::Merged`].
    ListMerged,
    /// Look how far the shard's replica is. [`Event::Left`].
    InspectLeft(ShardId),
    /// Look whether what [`Effect::MarkEnded`] wrote is durable. [`Event::Marks`].
    InspectMarks,
    /// Store the manifest. [`Event::Done`] or [`Event::DiskFull`].
    StoreManifest(Manifest),
    /// Cut the log before this place. [`Event::Done`].
    TruncateLog(Lsn),
    /// Remove these files. [`Event::Done`], also if some stay until the next start.
    RemoveFiles(Vec<CheckpointRef>),
}

/// The result of an effect.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// It is executed.
    Done,
    /// It was not executed: the disk is full.
    DiskFull,
    /// The shard has no replica here.
    NoReplica,
    /// The last file of the shard is good, with the log from there on.
    Unchanged(Lsn),
    /// The shard's file has begun,
    FileBegun {
        /// as of this entry.
        applied_index: u64,
        /// With it, the shard needs the log from here on.
        log_from: Lsn,
    },
    /// There are no more blocks. A file is void if something else has taken the place of the state.
    BlocksEnded {
        /// Whether it is.
        is_void: bool,
    },
    /// The right halves, each with whether it has begun.
    Halves(Vec<(ShardId, bool)>),
    /// The absorbed shards.
    Merged(Vec<Merged>),
    /// How far the replica is, if there is one.
    Left(Option<LeftReplica>),
    /// Whether all marks are durable.
    Marks(bool),
}

/// See the module's documentation.
pub struct CheckpointRound {
    published: Manifest,
    /// The file of each shard, as the next manifest will name it.
    files: BTreeMap<ShardId, CheckpointRef>,
    log_start: Lsn,
    /// Shards whose file is to be looked at.
    pending: VecDeque<ShardId>,
    /// All that ever were pending.
    seen: BTreeSet<ShardId>,
    phase: Phase,
}

/// A file that is being written.
#[derive(Clone, Copy)]
struct File {
    reference: CheckpointRef,
    log_from: Lsn,
}

enum Phase {
    Marking,
    Beginning(ShardId),
    Writing(File),
    /// The file is void: the shard's next one follows.
    Discarding(ShardId),
    Syncing(File),
    Finishing(File),
    ListingHalves,
    Confirming(Vec<ShardId>),
    ListingMerged,
    /// Shards that took another one in, by which entry; and those whose file is too old.
    Inspecting(VecDeque<(ShardId, u64)>, BTreeSet<ShardId>),
    AwaitingMarks,
    SyncingMarks,
    Storing,
    Truncating,
    Removing(Vec<CheckpointRef>),
    /// The disk is full, while this file was being written.
    GivingUpFile,
    GivingUp,
    Over,
}

impl CheckpointRound {
    /// Begins a round over the shards of all executors. The end of the log was read before the
    /// shards were listed, while no group of records waited to be appended.
    pub fn begin(published: &Manifest, written_end: Lsn, shards: Vec<ShardId>) -> Self {
        let seen: BTreeSet<ShardId> = shards.iter().copied().collect();
        let files = published.checkpoints.iter().filter(|file| seen.contains(&file.shard));
        Self {
            files: files.map(|file| (file.shard, *file)).collect(),
            published: published.clone(),
            log_start: written_end,
            pending: shards.into(),
            seen,
            phase: Phase::Marking,
        }
    }

    /// For the simulator, which has to find it: one shard is forgotten.
    pub fn plant_forgotten_shard(&mut self) {
        self.pending.pop_back();
    }

    /// The next effect.
    pub fn next(&self) -> Effect {
        match &self.phase {
            Phase::Marking => Effect::MarkEnded,
            Phase::Beginning(shard) => {
                Effect::BeginFile { shard: *shard, last: self.files.get(shard).copied() }
            }
            Phase::Writing(_) => Effect::WriteBlock,
            Phase::Discarding(_) | Phase::GivingUpFile => Effect::AbandonFile,
            Phase::Syncing(_) | Phase::SyncingMarks => Effect::SyncLog,
            Phase::Finishing(_) => Effect::FinishFile,
            Phase::ListingHalves => Effect::ListHalves,
            Phase::Confirming(halves) => Effect::ConfirmHalves(halves.clone()),
            Phase::ListingMerged => Effect::ListMerged,
            Phase::Inspecting(lefts, _) => Effect::InspectLeft(lefts[0].0),
            Phase::AwaitingMarks => Effect::InspectMarks,
            Phase::Storing => Effect::StoreManifest(self.manifest()),
            Phase::Truncating => Effect::TruncateLog(self.log_start),
            Phase::Removing(files) => Effect::RemoveFiles(files.clone()),
            Phase::GivingUp => Effect::RemoveFiles(self.unpublished()),
            Phase::Over => unreachable!("the round is over"),
        }
    }

    /// The last effect has led to this.
    ///
    /// # Panics
    /// If the effect does not lead to such an event.
    pub fn take(&mut self, event: Event) -> Progress {
        match (mem::replace(&mut self.phase, Phase::Over), event) {
            (Phase::Writing(_) | Phase::Syncing(_), Event::DiskFull) => {
                self.phase = Phase::GivingUpFile;
            }
            (
                Phase::Beginning(_) | Phase::Finishing(_) | Phase::SyncingMarks | Phase::Storing,
                Event::DiskFull,
            )
            | (Phase::GivingUpFile, Event::Done) => self.phase = Phase::GivingUp,
            (Phase::GivingUp, Event::Done) => return Progress::Refused,
            (Phase::Marking, Event::Done) => self.go_on(),
            (Phase::Beginning(shard), event) => self.begun(shard, &event),
            (Phase::Writing(file), Event::Done) => self.phase = Phase::Writing(file),
            (Phase::Writing(file), Event::BlocksEnded { is_void }) => {
                self.phase = match is_void {
                    true => Phase::Discarding(file.reference.shard),
                    false => Phase::Syncing(file),
                };
            }
            (Phase::Discarding(shard), Event::Done) => self.phase = Phase::Beginning(shard),
            (Phase::Syncing(file), Event::Done) => self.phase = Phase::Finishing(file),
            (Phase::Finishing(File { reference, log_from }), Event::Done) => {
                self.files.insert(reference.shard, reference);
                self.log_start = self.log_start.min(log_from);
                self.go_on();
            }
            (Phase::ListingHalves, Event::Halves(halves)) => return self.halves(&halves),
            (Phase::Confirming(halves), Event::Done) => {
                let seen = &mut self.seen;
                self.pending.extend(halves.into_iter().filter(|half| seen.insert(*half)));
                self.go_on_or(Phase::ListingMerged);
            }
            (Phase::ListingMerged, Event::Merged(merged)) => self.merged(merged),
            (Phase::Inspecting(lefts, again), Event::Left(replica)) => {
                return self.inspected(lefts, again, replica);
            }
            (Phase::AwaitingMarks, Event::Marks(are_durable)) => {
                self.phase = if are_durable { Phase::SyncingMarks } else { Phase::AwaitingMarks };
                return if are_durable { Progress::More } else { Progress::Busy };
            }
            (Phase::SyncingMarks, Event::Done) => self.phase = Phase::Storing,
            (Phase::Storing, Event::Done) => self.phase = Phase::Truncating,
            // A log that is longer than it must be is read all the same.
            (Phase::Truncating, Event::Done | Event::DiskFull) => {
                let next = self.manifest();
                let mut files = mem::take(&mut self.published.checkpoints);
                files.retain(|file| !next.checkpoints.contains(file));
                self.phase = Phase::Removing(files);
            }
            (Phase::Removing(_), Event::Done) => return Progress::Done,
            (_, event) => panic!("an effect has led to {event:?}"),
        }
        Progress::More
    }

    fn begun(&mut self, shard: ShardId, event: &Event) {
        match *event {
            Event::NoReplica => {
                self.files.remove(&shard);
            }
            Event::Unchanged(log_from) => self.log_start = self.log_start.min(log_from),
            Event::FileBegun { applied_index, log_from } => {
                let reference = CheckpointRef { shard, applied_index };
                self.phase = Phase::Writing(File { reference, log_from });
                return;
            }
            _ => panic!("a file's beginning has led to {event:?}"),
        }
        self.go_on();
    }

    /// Goes on with the next shard, or looks for others.
    fn go_on(&mut self) {
        self.go_on_or(Phase::ListingHalves);
    }

    fn go_on_or(&mut self, otherwise: Phase) {
        self.phase = self.pending.pop_front().map_or(otherwise, Phase::Beginning);
    }

    /// The log before the round is all that right halves have begun with.
    fn halves(&mut self, halves: &[(ShardId, bool)]) -> Progress {
        if !halves.iter().all(|(_, has_begun)| *has_begun) {
            self.phase = Phase::ListingHalves;
            return Progress::Busy;
        }
        match halves {
            [] => self.phase = Phase::ListingMerged,
            _ => self.phase = Phase::Confirming(halves.iter().map(|(half, _)| *half).collect()),
        }
        Progress::More
    }

    fn merged(&mut self, merged: Vec<Merged>) {
        let mut lefts = VecDeque::new();
        for Merged { right, left, at } in merged {
            self.files.remove(&right);
            lefts.extend(at.map(|at| (left, at)));
        }
        let is_older = |(left, at): &(ShardId, u64)| {
            self.files.get(left).is_some_and(|file| file.applied_index < *at)
        };
        lefts.retain(is_older);
        self.inspect(lefts, BTreeSet::new());
    }

    fn inspect(&mut self, lefts: VecDeque<(ShardId, u64)>, again: BTreeSet<ShardId>) {
        if !lefts.is_empty() {
            self.phase = Phase::Inspecting(lefts, again);
            return;
        }
        self.pending.extend(again);
        self.go_on_or(Phase::AwaitingMarks);
    }

    fn inspected(
        &mut self,
        mut lefts: VecDeque<(ShardId, u64)>,
        mut again: BTreeSet<ShardId>,
        replica: Option<LeftReplica>,
    ) -> Progress {
        let (left, at) = lefts.pop_front().expect("the half was inspected");
        match replica.filter(|replica| replica.applied < at) {
            Some(LeftReplica { awaits_right: true, .. }) => {
                self.phase = Phase::ListingHalves;
                return Progress::Busy;
            }
            // Another replica has taken the place of the one that took the right one in. It has its
            // state from a leader, or waits for it.
            Some(_) => {}
            None => {
                again.insert(left);
            }
        }
        self.inspect(lefts, again);
        Progress::More
    }

    fn manifest(&self) -> Manifest {
        let checkpoints = self.files.values().copied().collect();
        Manifest { checkpoints, log_start: self.log_start, ..self.published.clone() }
    }

    fn unpublished(&self) -> Vec<CheckpointRef> {
        let is_new = |file: &&CheckpointRef| !self.published.checkpoints.contains(file);
        self.files.values().filter(is_new).copied().collect()
    }
}
