//! The node's one log, shared by its executors, and the thread that makes it durable.
//!
//! The thread that steps an executor appends at once (`pwrite`), under the mutex. Fsyncs run
//! outside it, one for all records that were appended while the last one ran (group commit). The
//! log thread runs them, or an idle event loop that has claimed the next one ([`NodeLog::claim`]).

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use storage::Error;
use storage::log::{Group, Log, Lsn, SyncJob};

use super::durations::Durations;

/// Room reserved for control entries beside that of commands.
const CONTROL_BYTES: u64 = 1 << 20;

/// So long after a sync a marker in the log records it, unless another append does so before. Until
/// then damage to the last synced records looks like a torn tail.
const MARKER_DELAY: Duration = Duration::from_millis(2);

/// How long after a refused write the disk counts as full, even if other writes find room.
const FULL_LASTS: Duration = Duration::from_secs(1);

/// At durability `memory` no write asks for an fsync, but a restart would have to write unsynced
/// records again. So after this many unsynced bytes the log is synced all the same.
const UNSYNCED_BYTES_MAX: u64 = 64 << 20;

/// See the front page of this module.
pub struct NodeLog {
    inner: Mutex<Inner>,
    wake: Condvar,
    /// Wakes the thread that makes segments.
    wake_maker: Condvar,
    interval: Duration,
    /// Whether the log thread lets others go first.
    yields: bool,
    /// Durations of fsyncs that a write waited for.
    sync_times: Durations,
}

struct Inner {
    log: Log,
    /// Reserved by commands and not appended yet.
    outstanding_bytes: u64,
    /// Executors that wait for a sync: executor and newest ticket.
    wanted: Vec<(usize, u64)>,
    /// When a sync is due for what keyspaces of durability `interval` have appended since the
    /// last one began. Set by the first of these appends: later ones do not put it off.
    interval_due: Option<Instant>,
    /// When to append a marker that the end of the log is synced.
    marker_due: Option<Instant>,
    /// Whether too much is unsynced.
    overdue: bool,
    /// The last reservation for which the disk had no room, until a write has found some again.
    refused: Option<RefusedBytes>,
    syncs: u64,
    asleep: bool,
    /// Whether an event loop will sync itself, so that the log thread need not be woken.
    claimed: bool,
    /// Whether the log thread syncs now.
    syncing: bool,
    /// When the syncs that run now have begun: one of the log thread, one of an event loop.
    begun: Vec<Instant>,
    /// The longest fsync since the last call that read this.
    slowest: Duration,
    stopping: bool,
}

/// Bytes for which the disk had no room.
#[derive(Clone, Copy)]
struct RefusedBytes {
    bytes: u64,
    at: Instant,
}

impl Inner {
    /// Ensures that `bytes` more can be appended; if the disk is full, remembers and logs that.
    fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        let reserved = self.log.reserve(self.outstanding_bytes + bytes + CONTROL_BYTES);
        if let Err(Error::Full { needed_bytes, .. }) = &reserved {
            let before = self.refused.map_or(0, |refused| refused.bytes);
            let bytes = if bytes > 0 { bytes } else { before };
            let refused = RefusedBytes { bytes, at: Instant::now() };
            if self.refused.replace(refused).is_none() {
                tracing::warn!(
                    needed_bytes,
                    "the disk is full: writes to shards that this node leads are refused, and \
                     nothing is lost. Make room; no restart is needed"
                );
            }
        }
        reserved
    }

    /// The disk is full no more; unless it was a moment ago, for then smaller writes find room
    /// beside larger ones that do not.
    fn found_room(&mut self) {
        if self.refused.take_if(|refused| refused.at.elapsed() >= FULL_LASTS).is_some() {
            tracing::info!("the disk has room again: writes are accepted");
        }
    }
}

/// What an append asks of the log thread.
pub struct Append {
    /// The executor.
    pub executor: usize,
    /// The ticket of its group.
    pub ticket: u64,
    /// Whether the executor waits for it to be durable.
    pub sync: bool,
    /// Whether it must be durable within the interval.
    pub interval: bool,
    /// Bytes reserved for it.
    pub credit_bytes: u64,
}

/// How much is in the log.
#[derive(Clone, Copy, Debug)]
pub struct LogFacts {
    /// End of what is written.
    pub written_end: Lsn,
    /// End of what is durable.
    pub durable_end: Lsn,
    /// Bytes of all segment files.
    pub bytes_on_disk: u64,
    /// Files of the log.
    pub segments: u64,
    /// Fsyncs so far.
    pub syncs: u64,
    /// Whether the disk has had no room for a write, and none has found room since.
    pub full: bool,
}

impl NodeLog {
    /// Around an open log. `interval` is the time between fsyncs at durability `interval`. With
    /// `yields`, the log thread lets other threads run before it syncs: good where other nodes
    /// bring work, but clients of a single node wait for nothing but the sync.
    pub fn new(log: Log, interval: Duration, yields: bool) -> Self {
        let inner = Inner {
            log,
            outstanding_bytes: 0,
            wanted: Vec::new(),
            interval_due: None,
            marker_due: None,
            overdue: false,
            refused: None,
            syncs: 0,
            asleep: false,
            claimed: false,
            syncing: false,
            begun: Vec::new(),
            slowest: Duration::ZERO,
            stopping: false,
        };
        Self {
            inner: Mutex::new(inner),
            wake: Condvar::new(),
            wake_maker: Condvar::new(),
            interval,
            yields,
            sync_times: Durations::default(),
        }
    }

    /// Makes sure that `bytes` more can be appended whatever happens to the disk.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing changed; try again when there is space. Others are fatal.
    pub fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        inner.reserve(bytes)?;
        inner.outstanding_bytes += bytes;
        // That nothing found room says nothing about the next write.
        if bytes > 0 {
            inner.found_room();
        }
        Ok(())
    }

    /// While the disk is full: checks whether it has room again for the write that it refused last,
    /// or for a segment, if that is less. Without this check a node without writes would report a
    /// full disk for ever.
    ///
    /// # Errors
    /// All are fatal; a full disk is none.
    pub fn look_for_room(&self) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        let Some(refused) = inner.refused else { return Ok(()) };
        let bytes = refused.bytes.min(inner.log.segment_bytes());
        match inner.reserve(bytes) {
            Ok(()) => inner.found_room(),
            Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Appends an executor's group and clears it. Returns where it begins.
    ///
    /// # Errors
    /// All are fatal: the node must stop.
    pub fn append(&self, records: &mut Group, append: &Append) -> Result<Lsn, Error> {
        let bytes = records.bytes();
        let mut inner = self.inner.lock();
        inner.outstanding_bytes -= append.credit_bytes.min(inner.outstanding_bytes);
        let end = inner.log.append(records)?;
        if append.sync {
            match inner.wanted.iter_mut().find(|(executor, _)| *executor == append.executor) {
                Some((_, ticket)) => *ticket = append.ticket,
                None => inner.wanted.push((append.executor, append.ticket)),
            }
        }
        let first_due = append.interval && inner.interval_due.is_none();
        if first_due {
            inner.interval_due = Some(Instant::now() + self.interval);
        }
        let overdue = inner.log.unsynced_bytes() > UNSYNCED_BYTES_MAX;
        inner.overdue |= overdue;
        let handed_over = append.sync && !inner.claimed;
        let notify = inner.asleep && (handed_over || first_due || overdue);
        inner.asleep &= !notify;
        if inner.log.wants_segment() {
            self.wake_maker.notify_one();
        }
        drop(inner);
        if notify {
            self.wake.notify_one();
        }
        Ok(Lsn(end.0 - bytes))
    }

    /// States what replay found durable, so that damage to it cannot pass for a torn tail.
    ///
    /// # Errors
    /// All are fatal.
    pub fn mark(&self) -> Result<(), Error> {
        self.inner.lock().log.append_marker()
    }

    /// Returns reserved room that was not needed.
    pub fn release(&self, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.outstanding_bytes -= bytes.min(inner.outstanding_bytes);
    }

    /// Makes everything appended so far durable, on the calling thread.
    ///
    /// # Errors
    /// All are fatal.
    pub fn sync_now(&self) -> Result<(), Error> {
        let job = self.inner.lock().log.begin_sync()?;
        let result = job.run();
        self.inner.lock().log.finish_sync(&job, result)
    }

    /// The caller will soon make the next sync that executors want, or give it up: see
    /// [`Self::sync_claimed`]. False if another thread does already.
    pub fn claim(&self) -> bool {
        let mut inner = self.inner.lock();
        let free = !inner.claimed && !inner.syncing && inner.wanted.is_empty() && !inner.stopping;
        inner.claimed |= free;
        free
    }

    /// Makes the sync that was claimed, if any is wanted by now, and puts the executors and tickets
    /// that it serves into `served`.
    ///
    /// # Errors
    /// All are fatal.
    pub fn sync_claimed(&self, served: &mut Vec<(usize, u64)>) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        inner.claimed = false;
        std::mem::swap(served, &mut inner.wanted);
        if !served.is_empty() {
            let job = inner.log.begin_sync()?;
            drop(inner);
            self.sync(&job)?;
            // The log thread is not woken for it.
            let mut inner = self.inner.lock();
            if inner.wanted.is_empty() {
                inner.log.append_marker()?;
            }
        }
        Ok(())
    }

    /// Leaves the sync that was claimed to the log thread.
    pub fn release_claim(&self) {
        let mut inner = self.inner.lock();
        inner.claimed = false;
        let notify = inner.asleep && !inner.wanted.is_empty();
        inner.asleep &= !notify;
        drop(inner);
        if notify {
            self.wake.notify_one();
        }
    }

    /// Makes a sync, and counts how long it took.
    fn sync(&self, job: &SyncJob) -> Result<(), Error> {
        let begun = Instant::now();
        self.inner.lock().begun.push(begun);
        let result = job.run();
        let took = begun.elapsed();
        self.sync_times.add(took);
        let mut inner = self.inner.lock();
        inner.begun.retain(|other| *other != begun);
        inner.slowest = inner.slowest.max(took);
        inner.syncing = false;
        inner.log.finish_sync(job, result)?;
        inner.syncs += 1;
        Ok(())
    }

    /// The longest fsync since the last call, including the one that runs now.
    pub fn slowest_sync(&self) -> Duration {
        let mut inner = self.inner.lock();
        let running = inner.begun.iter().map(Instant::elapsed).max().unwrap_or_default();
        std::mem::take(&mut inner.slowest).max(running)
    }

    /// Durations of fsyncs that a write waited for.
    pub fn sync_times(&self) -> &Durations {
        &self.sync_times
    }

    /// The log's numbers.
    pub fn facts(&self) -> LogFacts {
        let inner = self.inner.lock();
        LogFacts {
            written_end: inner.log.written_end(),
            durable_end: inner.log.durable_end(),
            bytes_on_disk: inner.log.bytes_on_disk(),
            segments: inner.log.segments(),
            syncs: inner.syncs,
            full: inner.refused.is_some(),
        }
    }

    /// Drops the log before `lsn`; a durable manifest says so already.
    ///
    /// # Errors
    /// As [`Log::truncate_before`].
    pub fn truncate_before(&self, lsn: Lsn) -> Result<(), Error> {
        self.inner.lock().log.truncate_before(lsn)
    }

    /// Has the log thread end after one more sync.
    pub fn stop(&self) {
        self.inner.lock().stopping = true;
        self.wake.notify_all();
        self.wake_maker.notify_all();
    }

    /// The thread that makes segments ahead of need, so that writers do not wait for the fsyncs
    /// which that takes. Returns after [`Self::stop`].
    ///
    /// # Errors
    /// All are fatal; a full disk is none.
    pub fn make_segments(&self) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        loop {
            if inner.stopping {
                return Ok(());
            }
            let Some(job) = inner.log.begin_segment() else {
                self.wake_maker.wait(&mut inner);
                continue;
            };
            drop(inner);
            match job.run() {
                // The thread that needs the segment tries again, and gets the error.
                Ok(()) | Err(Error::Full { .. }) => {}
                Err(error) => return Err(error),
            }
            inner = self.inner.lock();
        }
    }

    /// The log thread: syncs while there is something to sync, and calls `durable` (executor,
    /// ticket). It returns after [`Self::stop`], when all appended records are durable and
    /// reported.
    ///
    /// # Errors
    /// All are fatal: nothing more may be acknowledged.
    pub fn run(&self, mut durable: impl FnMut(usize, u64)) -> Result<(), Error> {
        let mut served = Vec::new();
        loop {
            let mut inner = self.inner.lock();
            while (inner.wanted.is_empty() || inner.claimed) && !inner.stopping && !inner.overdue {
                inner.asleep = true;
                let due = [inner.interval_due, inner.marker_due].into_iter().flatten().min();
                match due {
                    Some(due) => {
                        if !self.wake.wait_until(&mut inner, due).timed_out() {
                            continue;
                        }
                    }
                    None => {
                        self.wake.wait(&mut inner);
                        continue;
                    }
                }
                if inner.marker_due.take_if(|due| *due <= Instant::now()).is_some() {
                    inner.log.append_marker()?;
                }
                if inner.interval_due.is_some_and(|due| due <= Instant::now()) {
                    break;
                }
            }
            if self.yields {
                // What those append who go first is synced with this.
                MutexGuard::unlocked(&mut inner, std::thread::yield_now);
            }
            inner.asleep = false;
            inner.interval_due = None;
            inner.overdue = false;
            let stopping = inner.stopping;
            std::mem::swap(&mut served, &mut inner.wanted);
            let job = inner.log.begin_sync()?;
            inner.syncing = true;
            drop(inner);
            self.sync(&job)?;
            for (executor, ticket) in served.drain(..) {
                durable(executor, ticket);
            }
            let mut inner = self.inner.lock();
            inner.marker_due = Some(Instant::now() + MARKER_DELAY);
            if stopping && inner.wanted.is_empty() {
                return inner.log.append_marker();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use storage::faulty::FaultyDisk;
    use storage::log::LogOptions;

    use super::*;

    const SEGMENT_BYTES: u64 = 4 << 20;

    /// A log whose disk has room for its first segment only.
    fn on_a_small_disk() -> (FaultyDisk, NodeLog) {
        let disk = FaultyDisk::new(1);
        disk.set_capacity_bytes(SEGMENT_BYTES + (1 << 20));
        let options = LogOptions { cluster: 1, salt: 2, segment_bytes: SEGMENT_BYTES };
        let mut visit = |_: Lsn, _: storage::log::Record<'_>| Ok::<(), Error>(());
        let (log, _) = Log::open(disk.handle(), options, Lsn::NEW, &mut visit).unwrap();
        (disk, NodeLog::new(log, Duration::from_secs(1), false))
    }

    fn is_full(result: &Result<(), Error>) -> bool {
        matches!(result, Err(Error::Full { .. }))
    }

    #[test]
    fn a_disk_stays_full_until_a_write_finds_room() {
        let (disk, room) = on_a_small_disk();
        room.reserve(1 << 20).unwrap();
        assert!(!room.facts().full);
        assert!(is_full(&room.reserve(4 << 20)) && room.facts().full);
        // A turn without writes finds all it needs, and a smaller write as well, at the same time.
        room.reserve(0).unwrap();
        room.reserve(1000).unwrap();
        assert!(room.facts().full);
        room.look_for_room().unwrap();
        assert!(room.facts().full, "there is no room for what was refused");
        std::thread::sleep(FULL_LASTS);
        room.reserve(0).unwrap();
        assert!(room.facts().full, "nothing was to be written");
        room.reserve(1000).unwrap();
        assert!(!room.facts().full);

        // Nobody writes any more, but there is room.
        assert!(is_full(&room.reserve(4 << 20)));
        disk.set_capacity_bytes(4 * SEGMENT_BYTES);
        std::thread::sleep(FULL_LASTS);
        room.look_for_room().unwrap();
        assert!(!room.facts().full);
    }

    #[test]
    fn a_disk_with_room_for_what_others_write_is_not_full_for_what_one_wrote() {
        let (disk, room) = on_a_small_disk();
        assert!(is_full(&room.reserve(16 * SEGMENT_BYTES)));
        disk.set_capacity_bytes(4 * SEGMENT_BYTES);
        std::thread::sleep(FULL_LASTS);
        room.look_for_room().unwrap();
        assert!(!room.facts().full);
    }
}
