//! Jobs of a log that run without its mutex: syncs, and creating segments.
//!
//! A job owns what it needs, so the log goes on meanwhile; state that both share is in
//! [`LogShared`]. The first failure, of a job or of the log, poisons the log at once, before any
//! result is handed in.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::segment::Segment;
use super::{LogOptions, Lsn};
use crate::Error;
use crate::disk::{Disk, File};

/// What a log and its jobs tell each other.
#[derive(Default)]
pub(super) struct LogShared {
    /// Set by the first failure of a write or sync, of the log or a job; never unset.
    poisoned: AtomicBool,
    /// Held while a [`SyncJob`] runs.
    syncing: Mutex<()>,
    /// Held while a segment is made.
    pub ahead: Mutex<Ahead>,
}

/// What a [`SegmentJob`] leaves for the log.
#[derive(Default)]
pub(super) struct Ahead {
    /// The next segment.
    pub made: Option<Segment>,
    /// The start of the newest segment made, by a job or by a writer that could not wait.
    pub made_start: Lsn,
}

impl LogShared {
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    pub fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    pub fn poison_unless_full<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if matches!(result, Err(ref e) if !matches!(e, Error::Full { .. })) {
            self.poison();
        }
        result
    }

    pub fn ahead(&self) -> MutexGuard<'_, Ahead> {
        // A disk that panics leaves as unknown a state as one that fails.
        self.ahead.lock().unwrap_or_else(|panicked| {
            self.poison();
            panicked.into_inner()
        })
    }
}

/// The making of a segment, to be run without the mutex that guards the log.
#[must_use = "writers make the segment themselves if nobody runs this"]
pub struct SegmentJob {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: LogOptions,
    pub(super) start: Lsn,
    pub(super) capacity_bytes: u64,
    pub(super) shared: Arc<LogShared>,
}

impl SegmentJob {
    /// Makes the segment, unless a writer could not wait and made it. On a full disk does nothing:
    /// the next [`super::Log::reserve`] that needs it finds out.
    ///
    /// # Errors
    /// [`Error::Io`]: the log is poisoned; stop the node.
    pub fn run(&self) -> Result<(), Error> {
        let mut ahead = self.shared.ahead();
        if self.shared.is_poisoned() || ahead.made_start >= self.start {
            return Ok(());
        }
        let made = Segment::create(&*self.disk, &self.options, self.start, self.capacity_bytes);
        match self.shared.poison_unless_full(made) {
            Ok(made) => (ahead.made, ahead.made_start) = (Some(made), self.start),
            Err(Error::Full { .. }) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// A sync that is to be run without the mutex that guards the log.
#[must_use = "what is not synced is not durable"]
pub struct SyncJob {
    pub(super) active: Arc<dyn File>,
    /// Sealed segments that may hold bytes that are not durable; mostly empty.
    pub(super) older: Vec<Arc<dyn File>>,
    /// What the job makes durable.
    pub(super) upto: Lsn,
    pub(super) shared: Arc<LogShared>,
}

impl SyncJob {
    /// The position up to which everything is durable if the job succeeds.
    pub fn upto(&self) -> Lsn {
        self.upto
    }

    /// Syncs, after any job that is running now. Give the result to [`super::Log::finish_sync`],
    /// good or bad.
    ///
    /// # Errors
    /// What the medium says, now or to an earlier job. Never run the job again.
    pub fn run(&self) -> io::Result<()> {
        // An operating system may report a failed write to one of two overlapping syncs only. So
        // they run one at a time, and after a failure, or a panic, none succeeds.
        let _one = self.shared.syncing.lock().map_err(|_| earlier_failure())?;
        if self.shared.is_poisoned() {
            return Err(earlier_failure());
        }
        let mut files = self.older.iter().rev().chain([&self.active]);
        let result = files.try_for_each(|file| file.sync());
        if result.is_err() {
            self.shared.poison();
        }
        result
    }
}

fn earlier_failure() -> io::Error {
    io::Error::other("an earlier write or sync failed")
}
