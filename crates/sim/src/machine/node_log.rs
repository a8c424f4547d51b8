//! The node's log as its threads share it, without the threads: it does in steps what the server's
//! log thread does at once, so that anything may come between them.

use std::collections::BTreeMap;
use std::io;

use storage::Error;
use storage::log::{Group, Log, Lsn, SegmentJob, SyncJob};

/// Bytes reserved for control entries besides the reservations of commands.
const CONTROL_BYTES: u64 = 8 << 10;

/// See the front page of this module.
pub struct NodeLog {
    /// The log itself.
    pub log: Log,
    outstanding_bytes: u64,
    /// Executors that wait for a sync, and their newest ticket.
    wanted: BTreeMap<usize, u64>,
    interval_dirty: bool,
    /// Whether the last reservation failed for want of space.
    pub full: bool,
    sync: Option<Sync>,
    segment: Option<SegmentJob>,
}

struct Sync {
    job: SyncJob,
    serves: BTreeMap<usize, u64>,
    result: Option<io::Result<()>>,
}

impl NodeLog {
    /// Around an open log.
    pub fn new(log: Log) -> Self {
        Self {
            log,
            outstanding_bytes: 0,
            wanted: BTreeMap::new(),
            interval_dirty: false,
            full: false,
            sync: None,
            segment: None,
        }
    }

    /// Makes sure that `bytes` more can be appended.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing changed. Others are fatal.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        let reserved = self.log.reserve(self.outstanding_bytes + bytes + CONTROL_BYTES);
        self.full = matches!(reserved, Err(Error::Full { .. }));
        reserved?;
        self.outstanding_bytes += bytes;
        Ok(())
    }

    /// Returns reserved bytes that are not needed any more.
    pub fn release(&mut self, bytes: u64) {
        self.outstanding_bytes -= bytes.min(self.outstanding_bytes);
    }

    /// Appends an executor's group. Returns where it begins.
    ///
    /// # Errors
    /// All are fatal.
    pub fn append(
        &mut self,
        records: &mut Group,
        executor: usize,
        ticket: u64,
        sync: bool,
    ) -> Result<Lsn, Error> {
        let bytes = records.bytes();
        let end = self.log.append(records)?;
        if sync {
            self.wanted.insert(executor, ticket);
        }
        self.interval_dirty = true;
        Ok(Lsn(end.0 - bytes))
    }

    /// Whether the log thread would begin a sync now.
    pub fn wants_sync(&self) -> bool {
        self.sync.is_none() && (!self.wanted.is_empty() || self.interval_dirty)
    }

    /// Whether a sync is under way.
    pub fn is_syncing(&self) -> bool {
        self.sync.is_some()
    }

    /// Begins a sync; `early` says whether the medium does it now or when it ends.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn begin_sync(&mut self, early: bool) -> Result<(), Error> {
        let job = self.log.begin_sync()?;
        let serves = std::mem::take(&mut self.wanted);
        self.interval_dirty = false;
        let result = early.then(|| job.run());
        self.sync = Some(Sync { job, serves, result });
        Ok(())
    }

    /// Ends it: the executors and tickets that are durable now.
    ///
    /// # Errors
    /// All are fatal.
    pub fn end_sync(&mut self) -> Result<BTreeMap<usize, u64>, Error> {
        let Some(Sync { job, serves, result }) = self.sync.take() else {
            return Ok(BTreeMap::new());
        };
        let result = result.unwrap_or_else(|| job.run());
        self.log.finish_sync(&job, result)?;
        if self.wanted.is_empty() && self.log.wants_marker() {
            self.log.append_marker()?;
        }
        Ok(serves)
    }

    /// Makes everything durable at once, as the maintenance thread does it.
    ///
    /// # Errors
    /// All are fatal.
    pub fn sync_now(&mut self) -> Result<(), Error> {
        let job = self.log.begin_sync()?;
        let result = job.run();
        self.log.finish_sync(&job, result)
    }

    /// Begins or runs the making of the next segment, if it is time.
    ///
    /// # Errors
    /// All are fatal.
    pub fn make_segment(&mut self) -> Result<(), Error> {
        match self.segment.take() {
            Some(job) => job.run(),
            None => {
                self.segment = self.log.begin_segment();
                Ok(())
            }
        }
    }

    /// Whether [`Self::make_segment`] has something to do.
    pub fn wants_segment(&self) -> bool {
        self.segment.is_some() || self.log.wants_segment()
    }
}
