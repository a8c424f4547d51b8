//! Which files and which part of the log does a restart need, and in which order do they change?
//!
//! Two state machines decide that, and do no I/O themselves. A driver asks for the next effect,
//! executes it with its files and locks, and reports an event:
//!
//! ```text
//!            next() ──► effect ──► driver: files, log, executors
//!              ▲                      │
//!              └──── take(event) ◄────┘     ──► Progress: more, wait, or over
//! ```
//!
//! [`CheckpointRound`](round::CheckpointRound) writes one file for each shard that has changed,
//! then a manifest that names them all, and then cuts the log. [`SnapshotInstall`](install) makes
//! the file of a received snapshot its shard's checkpoint, and then hands the state to the replica.
//! Both write the manifest, so a driver runs one of them at a time; everything else may happen
//! between any two effects, and the power may fail in any.
//!
//! The functions of [`facts`] look at executors for both drivers. Each takes one executor, which
//! the driver holds for that look only.

pub mod facts;
pub mod install;
pub mod round;

/// How far an event brought a round or an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is a next effect.
    More,
    /// An executor has to go on first. The next effect asks again.
    Busy,
    /// It is over, and has changed what a restart reads.
    Done,
    /// It is over and has changed nothing: the disk is full, or a snapshot is of no use any more.
    Refused,
}
