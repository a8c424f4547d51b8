//! The installation of a snapshot: its file becomes the checkpoint, its state the replica's.
//!
//! ```text
//!   bare halves? ─► a round ─► does it fit? ─► file finished ─► bare halves? ─► manifest stored
//!                                  │ no                             │ yes             │
//!                                  ▼                                ▼                 ▼
//!                          declined, file gone                  file gone       old file removed
//!                                                                                     │
//!          Done ◄─ a round, if halves were cut off ◄─ the replica has taken it ◄──────┘ state
//! ```
//!
//! A right half may hold nothing but what the log makes of its left half's checkpoint. So before a
//! snapshot takes the place of any checkpoint, a round has to write the files of such halves.
//!
//! Example: a round that began between the new manifest and the replica's installation would find
//! the replica behind its own file, and put an older file in its place. The next restart would then
//! lack entries that the replica has acknowledged. So the installation ends only when the replica
//! has taken the state.
//!
//! Invariants:
//! 1. The manifest names the file before the replica has its state.
//! 2. The file says no less of the replica's vote than the checkpoint in whose place it comes.
//! 3. A snapshot that is not installed leaves no file behind.
//!
//! Pure: the driver executes effects.

use std::mem;

use storage::manifest::{CheckpointRef, Manifest};

use super::Progress;
use crate::event::SnapshotRejection;

/// What an installation wants done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Look whether some right half is in no file. [`Event::UncoveredHalves`].
    InspectHalves,
    /// Run a round of checkpoints. [`Event::Done`], also if the disk is full.
    RunRound,
    /// Look whether the replica has use for the snapshot. [`Event::Fits`].
    InspectReplica,
    /// Tell the replica that its snapshot is not installed, and remove the file's beginning.
    /// [`Event::Done`].
    Decline,
    /// Make the file durable under its name. [`Event::Done`] or [`Event::DiskFull`].
    FinishFile,
    /// Store the manifest. [`Event::Done`] or [`Event::DiskFull`].
    StoreManifest(Manifest),
    /// Remove these files. [`Event::Done`], also if some stay until the next start.
    RemoveFiles(Vec<CheckpointRef>),
    /// Give the replica its state. [`Event::Done`].
    InstallState,
    /// Look whether the state still waits for the replica. [`Event::Waits`].
    AwaitReplica,
}

/// The result of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is executed.
    Done,
    /// It was not executed: the disk is full.
    DiskFull,
    /// Whether some right half is in no file.
    UncoveredHalves(bool),
    /// Whether the replica has use for the snapshot.
    Fits(bool),
    /// Whether the state still waits.
    Waits(bool),
}

#[derive(Clone, Copy)]
enum Phase {
    Inspecting,
    Covering,
    Fitting,
    Declining,
    Finishing,
    InspectingAgain,
    Storing,
    Removing,
    Installing,
    Awaiting,
    InspectingLast,
    CoveringLast,
    GivingUp,
    Over,
}

/// See the module's documentation.
pub struct SnapshotInstall {
    file: CheckpointRef,
    /// The files whose place it has taken.
    replaced: Vec<CheckpointRef>,
    phase: Phase,
    given_up: Option<SnapshotRejection>,
}

impl SnapshotInstall {
    /// Begins to install a snapshot whose file has all its blocks.
    pub fn begin(file: CheckpointRef) -> Self {
        Self { file, replaced: Vec::new(), phase: Phase::Inspecting, given_up: None }
    }

    /// The next effect; `published` is the manifest that is stored now.
    pub fn next(&mut self, published: &Manifest) -> Effect {
        match self.phase {
            Phase::Inspecting | Phase::InspectingAgain | Phase::InspectingLast => {
                Effect::InspectHalves
            }
            Phase::Covering | Phase::CoveringLast => Effect::RunRound,
            Phase::Fitting => Effect::InspectReplica,
            Phase::Declining => Effect::Decline,
            Phase::Finishing => Effect::FinishFile,
            Phase::Storing => Effect::StoreManifest(self.manifest(published)),
            Phase::Removing => Effect::RemoveFiles(self.replaced.clone()),
            Phase::Installing => Effect::InstallState,
            Phase::Awaiting => Effect::AwaitReplica,
            Phase::GivingUp => {
                let is_named = published.checkpoints.contains(&self.file);
                Effect::RemoveFiles(if is_named { Vec::new() } else { vec![self.file] })
            }
            Phase::Over => unreachable!("the installation is over"),
        }
    }

    /// Why it was given up, if it was.
    pub fn given_up(&self) -> Option<SnapshotRejection> {
        self.given_up
    }

    /// The last effect has led to this.
    ///
    /// # Panics
    /// If the effect does not lead to such an event.
    pub fn take(&mut self, event: Event) -> Progress {
        self.given_up = self.given_up.or(match (self.phase, event) {
            (Phase::Fitting, Event::Fits(false)) => Some(SnapshotRejection::NotNeeded),
            (Phase::InspectingAgain, Event::UncoveredHalves(true)) => {
                Some(SnapshotRejection::UncoveredHalves)
            }
            (_, Event::DiskFull) => Some(SnapshotRejection::DiskFull),
            _ => None,
        });
        self.phase = match (mem::replace(&mut self.phase, Phase::Over), event) {
            (Phase::Inspecting, Event::UncoveredHalves(true)) => Phase::Covering,
            (Phase::Inspecting, Event::UncoveredHalves(false)) | (Phase::Covering, Event::Done) => {
                Phase::Fitting
            }
            (Phase::Fitting, Event::Fits(fits)) => {
                if fits {
                    Phase::Finishing
                } else {
                    Phase::Declining
                }
            }
            (Phase::Finishing, Event::Done) => Phase::InspectingAgain,
            (Phase::InspectingAgain, Event::UncoveredHalves(false)) => Phase::Storing,
            (Phase::Storing, Event::Done) => Phase::Removing,
            (Phase::Removing, Event::Done) => Phase::Installing,
            (Phase::Installing, Event::Done) => Phase::Awaiting,
            (Phase::Awaiting, Event::Waits(true)) => {
                self.phase = Phase::Awaiting;
                return Progress::Busy;
            }
            (Phase::Awaiting, Event::Waits(false)) => Phase::InspectingLast,
            (Phase::InspectingLast, Event::UncoveredHalves(true)) => Phase::CoveringLast,
            (Phase::InspectingLast, Event::UncoveredHalves(false))
            | (Phase::CoveringLast, Event::Done) => {
                return Progress::Done;
            }
            (Phase::InspectingAgain, Event::UncoveredHalves(true))
            | (Phase::Storing, Event::DiskFull) => Phase::GivingUp,
            (Phase::Finishing, Event::DiskFull)
            | (Phase::Declining | Phase::GivingUp, Event::Done) => return Progress::Refused,
            (_, event) => panic!("an effect has led to {event:?}"),
        };
        Progress::More
    }

    fn manifest(&mut self, published: &Manifest) -> Manifest {
        let shard = self.file.shard;
        let (replaced, mut checkpoints): (Vec<_>, Vec<_>) =
            published.checkpoints.iter().partition(|file| file.shard == shard);
        self.replaced = replaced.into_iter().filter(|file| *file != self.file).collect();
        checkpoints.push(self.file);
        checkpoints.sort_by_key(|file| file.shard);
        Manifest { checkpoints, ..published.clone() }
    }
}
