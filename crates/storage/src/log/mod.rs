//! How do writes of all shards of a node survive, at one fsync for many of them?
//!
//! **The idea.** One endless log for the whole node, cut into segment files. The records of one
//! step round, for any number of shards, are one *group*: one write, one checksum, durable together
//! or not at all. A log thread makes groups durable while the next ones are being written (group
//! commit):
//!
//! ```text
//!  position   0        64                         s            s+64
//!             ┌────────┬───────┬───────┬────┬────┐┌────────────┬───────┬──┄
//!             │ header │ group │ group │ …  │seal││   header   │ group │
//!             └────────┴───────┴───────┴────┴────┘└────────────┴───────┴──┄
//!              log-0000000000000000.seg            log-<s as hex>.seg    ▲       ▲
//!                                                              durable_end   written_end
//!
//!  event loop, under the mutex      log thread
//!  reserve → Group::push → append   begin_sync (mutex) → SyncJob::run → finish_sync (mutex)
//!                                   begin_segment (mutex) → SegmentJob::run
//! ```
//!
//! A position ([`Lsn`]) is a byte offset in the row of all segments, headers included, so it
//! names a file and an offset in it.
//!
//! **Torn tail or rot** (SAFETY G16). Every group carries `durable_end`, the position up to which
//! the log was known to be durable when it was written. At open, let x be the position of the first
//! bad group. If no group behind it has `durable_end > x`, a crash left the tail torn, and open
//! overwrites everything from x on with zeros. Otherwise durable bytes are lost, and open refuses.
//!
//! **Invariants.**
//! 1. [`Log::open`] finds all groups below [`Log::durable_end`] again, in order, or refuses.
//! 2. Open visits a prefix of the appended groups: nothing is invented or reordered.
//! 3. Bytes behind the end found by open are zero before the first append, and a group of an
//!    earlier incarnation behind one of a later is never valid: no overwritten group comes back.
//! 4. A segment has all its space, and its header is durable, before a seal points to it.
//! 5. After a failed write or sync every call fails with [`Error::Poisoned`]; none is retried.
//!    A full disk while making a segment is no failure: it changes nothing ([`Error::Full`]).
//!
//! **What it does not know:** what records mean, which shard needs which part (the caller truncates
//! a prefix: [`Log::truncate_before`]), threads, and time.
//!
//! **Caveat.** Rot of groups that were synced, but whose durability no later group on disk states
//! yet, looks like a torn tail and is cut. [`Log::append_marker`] closes that window; call it
//! when nothing is appended for a moment after a sync, and at a clean stop.
//!
//! **Zeros ahead.** A file system records where a file is written for the first time. So a sync of
//! such bytes writes its journal as well, with a flush of its own. Hence the log writes zeros ahead
//! of its end, a piece at a time, with one of many small syncs; the other syncs overwrite these.
//! Large syncs do without: they would write everything twice to save little.
//!
//! Read [`layout`] for the bytes (they are also in docs/format.md), then `recover` and `jobs`.

mod group;
mod jobs;
pub mod layout;
mod recover;
pub(crate) mod segment;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use keyspace::ShardId;

pub use group::Group;
pub use jobs::{SegmentJob, SyncJob};
pub use layout::{DecodeError, GroupHeader, Records, Seed, decode_group};
pub use recover::Recovered;

use crate::Error;
use crate::disk::Disk;
use jobs::LogShared;
use layout::{GROUP_ALIGN_BYTES, GROUP_HEADER_BYTES, GroupStamp, SEGMENT_HEADER_BYTES};
use segment::Segment;

/// A position in the log: the byte offset in the row of all segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before every log: [`Log::open`] from here makes the log if there is none. Never the
    /// position of a group.
    pub const NEW: Self = Self(0);
}

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// One record, as it was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The shard it belongs to.
    pub shard: ShardId,
    /// What it is; the log does not know. Never 0.
    pub kind: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// What a log is opened with.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The cluster the node belongs to; another's segments are refused.
    pub cluster: u64,
    /// A number that clients cannot know, the same for the life of the directory. Checksums begin
    /// from it, so that no stored value can pass for a group.
    pub salt: u64,
    /// The size of a segment file; a larger group gets a larger one. At least
    /// [`LogOptions::SEGMENT_BYTES_MIN`].
    pub segment_bytes: u64,
}

impl LogOptions {
    /// The smallest segment: small enough for tests to see many.
    pub const SEGMENT_BYTES_MIN: u64 = 512;
    /// The usual segment: a making costs two fsyncs, which 64 MiB of writes hide.
    pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;

    /// How much is touched at once: a part of a segment, whole sectors.
    fn touch_bytes(&self) -> u64 {
        (self.segment_bytes / 4).min(TOUCH_BYTES_MAX as u64) / TOUCH_ALIGN_BYTES * TOUCH_ALIGN_BYTES
    }
}

/// Zeros written ahead at once, at most: with 64 syncs of 4 KiB each, one carries so much more.
const TOUCH_BYTES_MAX: usize = 256 << 10;
/// A sector: where touching begins and ends.
const TOUCH_ALIGN_BYTES: u64 = 512;
/// Touches when a sync is of fewer bytes than this part of a piece, and fewer are left of the last.
const TOUCH_PART: u64 = 4;
static ZEROS: [u8; TOUCH_BYTES_MAX] = [0; TOUCH_BYTES_MAX];

/// Bytes reserved beyond every reservation, so that a marker has room.
const MARKER_ROOM_BYTES: u64 = 4096;
/// The seal that ends a segment is an empty group.
const SEAL_BYTES: u64 = GROUP_HEADER_BYTES as u64;

/// The log of a node. See the front page of this module.
pub struct Log {
    disk: Arc<dyn Disk>,
    options: LogOptions,
    seed: Seed,
    /// Never empty; the last one takes the appends.
    segments: VecDeque<Segment>,
    /// The one that follows, made ahead; no seal points to it yet.
    next: Option<Segment>,
    shared: Arc<LogShared>,
    /// The start of the segment the last job was begun for.
    job_start: Lsn,
    written_end: Lsn,
    durable_end: Lsn,
    /// Up to here the segment in use was written to, if that is behind `written_end`.
    touched_end: Lsn,
    /// The end of the last group with records.
    records_end: Lsn,
    /// The largest `durable_end` in a group that was written.
    stated_end: Lsn,
    /// Bytes promised by `reserve` and not appended since.
    promised_bytes: u64,
    incarnation: u32,
    /// The buffer of seals and markers.
    empty: Group,
}

impl Log {
    /// Makes room: groups of together at most `bytes` (the sum of [`Group::bytes`]) can be
    /// appended after this without new space, whatever happens to the disk meanwhile.
    ///
    /// The promise is no account: each call states *all* that the caller may still append, and
    /// replaces the promise of the call before. Costs two comparisons when there is room; else
    /// takes what a [`SegmentJob`] made, or makes the next segment, which syncs. That is as large
    /// as `bytes` if the usual size is not enough, so bound what may be outstanding.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing changed, call again later. Others poison.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        self.check()?;
        if !self.has_room(bytes + MARKER_ROOM_BYTES) {
            self.make_next(bytes + MARKER_ROOM_BYTES)?;
        }
        self.promised_bytes = bytes;
        Ok(())
    }

    /// Writes `group` at the end and clears it. Returns the position behind it; the group is
    /// durable once [`Log::durable_end`] has reached that.
    ///
    /// # Errors
    /// [`Error::Full`] if no room was reserved and there is none: nothing changed, the group is
    /// kept. Others poison; the group may or may not be found by the next open.
    pub fn append(&mut self, group: &mut Group) -> Result<Lsn, Error> {
        self.check()?;
        assert!(!group.is_empty(), "a group without records is append_marker's");
        let bytes = group.bytes();
        if !self.active_fits(bytes) {
            if !self.next_fits(bytes) {
                self.make_next(bytes)?;
            }
            self.roll()?;
        }
        self.write(group, false)?;
        self.promised_bytes = self.promised_bytes.saturating_sub(bytes);
        self.records_end = self.written_end;
        group.clear();
        Ok(self.written_end)
    }

    /// Whether records are durable whose durability nothing on disk states yet.
    pub fn wants_marker(&self) -> bool {
        self.stated_end < self.records_end && self.records_end <= self.durable_end
    }

    /// Writes an empty group that states the present [`Log::durable_end`], if no group has stated
    /// it yet and there is room besides the reservations; otherwise does nothing. It needs no sync
    /// of its own.
    ///
    /// # Errors
    /// Those of [`Log::append`], but never [`Error::Full`].
    pub fn append_marker(&mut self) -> Result<(), Error> {
        self.check()?;
        if !self.wants_marker() {
            return Ok(());
        }
        let bytes = self.promised_bytes + SEAL_BYTES;
        if !self.has_room(bytes) {
            match self.make_next(bytes) {
                Err(Error::Full { .. }) => return Ok(()),
                made => made?,
            }
        }
        if !self.active_fits(SEAL_BYTES) {
            self.roll()?;
        }
        self.write_empty(false)
    }

    /// Whether there are records that are not durable.
    pub fn needs_sync(&self) -> bool {
        self.durable_end < self.records_end
    }

    /// Bytes written that are not known to be durable. Open writes and syncs as much again, so
    /// syncing now and then bounds the time of a start even if no writer waits for durability.
    pub fn unsynced_bytes(&self) -> u64 {
        self.written_end.0 - self.durable_end.0
    }

    /// A job that makes everything written so far durable. Run it without the mutex that guards the
    /// log, then hand it to [`Log::finish_sync`].
    ///
    /// # Errors
    /// [`Error::Poisoned`], or [`Error::Io`] of what is written ahead, which poisons.
    pub fn begin_sync(&mut self) -> Result<SyncJob, Error> {
        self.check()?;
        self.touch_ahead()?;
        let mut dirty = self.segments.iter().rev();
        let active = dirty.next().expect("a log has a segment");
        let older = dirty.take_while(|segment| segment.end() > self.durable_end);
        let older = older.map(|segment| segment.file.clone()).collect();
        Ok(SyncJob {
            active: active.file.clone(),
            older,
            upto: self.written_end,
            shared: self.shared.clone(),
        })
    }

    /// Takes the result of a [`SyncJob`]. Results may come in any order.
    ///
    /// # Errors
    /// [`Error::Io`] if the sync failed: the log is poisoned, nothing that was not durable before
    /// may be acknowledged, and the node must stop.
    pub fn finish_sync(&mut self, job: &SyncJob, result: io::Result<()>) -> Result<(), Error> {
        if let Err(source) = result {
            self.shared.poison();
            return Err(Error::io("sync", "the log", source));
        }
        self.check()?;
        self.durable_end = self.durable_end.max(job.upto);
        Ok(())
    }

    /// Removes the segments that hold nothing at or behind `lsn`. Call it after a manifest whose
    /// `log_start` is `lsn` is durable. The removals need no sync: open repeats them.
    ///
    /// # Errors
    /// [`Error::Io`] if a file could not be removed; it is kept, and the log goes on.
    pub fn truncate_before(&mut self, lsn: Lsn) -> Result<(), Error> {
        self.check()?;
        assert!(lsn <= self.durable_end, "only what is durable elsewhere may go");
        while self.segments.len() > 1 && self.segments[0].end() <= lsn {
            let name = self.segments[0].name();
            self.disk.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// Whether the segment in use is more than half full and no job creates the next one yet.
    pub fn wants_segment(&self) -> bool {
        let active = self.active();
        let left = active.end().0 - self.written_end.0;
        self.next.is_none() && self.job_start < active.end() && left < active.capacity_bytes / 2
    }

    /// The making of the next segment, if [`Log::wants_segment`]. Run it without the mutex that
    /// guards the log, and writers will not wait for its syncs; without it, they make the segment
    /// themselves.
    pub fn begin_segment(&mut self) -> Option<SegmentJob> {
        if self.shared.is_poisoned() || !self.wants_segment() {
            return None;
        }
        self.job_start = self.active().end();
        let room = capacity_for(self.promised_bytes + MARKER_ROOM_BYTES);
        Some(SegmentJob {
            disk: self.disk.clone(),
            options: self.options,
            start: self.job_start,
            capacity_bytes: room.max(self.options.segment_bytes),
            shared: self.shared.clone(),
        })
    }

    /// The length of a segment, but of one for a longer group.
    pub fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes
    }

    /// The position behind the last group written.
    pub fn written_end(&self) -> Lsn {
        self.written_end
    }

    /// Everything before this survives power loss.
    pub fn durable_end(&self) -> Lsn {
        self.durable_end
    }

    /// Which opening of this log this is, counting from 1.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// How many segment files there are.
    pub fn segments(&self) -> u64 {
        (self.segments.len() + usize::from(self.next.is_some())) as u64
    }

    /// Bytes of all segment files, used or not, but for one that a job has not finished.
    pub fn bytes_on_disk(&self) -> u64 {
        let ahead = self.shared.ahead.try_lock();
        let made = ahead.iter().flat_map(|ahead| &ahead.made);
        let segments = self.segments.iter().chain(&self.next).chain(made);
        segments.map(|segment| segment.capacity_bytes).sum()
    }

    /// Writes zeros where zeros are, ahead of the end, for the syncs to come.
    fn touch_ahead(&mut self) -> Result<(), Error> {
        let piece = self.options.touch_bytes();
        let part = piece / TOUCH_PART;
        if self.unsynced_bytes() > part || self.touched_end.0 > self.written_end.0 + part {
            return Ok(());
        }
        let active = self.active();
        let begin = self.written_end.max(self.touched_end).0 - active.start.0;
        let begin = begin.next_multiple_of(TOUCH_ALIGN_BYTES);
        let end = (begin + piece).min(active.capacity_bytes);
        if begin >= end {
            return Ok(());
        }
        let zeros = &ZEROS[..(end - begin) as usize];
        let written = active.file.write_at(zeros, begin);
        let written = written.map_err(|e| Error::io("write", &active.name(), e));
        self.touched_end = Lsn(active.start.0 + end);
        self.shared.poison_unless_full(written)
    }

    fn check(&self) -> Result<(), Error> {
        if self.shared.is_poisoned() { Err(Error::Poisoned) } else { Ok(()) }
    }

    fn active(&self) -> &Segment {
        self.segments.back().expect("a log has a segment")
    }

    /// Whether groups of together `bytes` fit before the seal of the segment in use.
    fn active_fits(&self, bytes: u64) -> bool {
        self.written_end.0 + bytes + SEAL_BYTES <= self.active().end().0
    }

    /// Whether the segment made ahead could take groups of together `bytes`.
    fn next_fits(&self, bytes: u64) -> bool {
        self.next.as_ref().is_some_and(|next| capacity_for(bytes) <= next.capacity_bytes)
    }

    /// Whether groups of together `bytes` fit, however they are cut: the first that does not fit
    /// into the segment in use, and all after it, fit into the next.
    fn has_room(&self, bytes: u64) -> bool {
        self.active_fits(bytes) || self.next_fits(bytes)
    }

    /// Makes the next segment, or makes it larger, so that `next_fits(bytes)`.
    fn make_next(&mut self, bytes: u64) -> Result<(), Error> {
        let shared = self.shared.clone();
        // Waits for a job that is making it, and may have failed.
        let mut ahead = shared.ahead();
        self.check()?;
        if self.next.is_none() {
            self.next = ahead.made.take();
        }
        if self.next_fits(bytes) {
            return Ok(());
        }
        let start = self.active().end();
        let capacity = capacity_for(bytes).max(self.options.segment_bytes);
        let made = match &mut self.next {
            Some(next) => next.grow(&self.options, capacity),
            None => Segment::create(&*self.disk, &self.options, start, capacity).map(|made| {
                self.next = Some(made);
                ahead.made_start = start;
            }),
        };
        shared.poison_unless_full(made)
    }

    /// Ends the segment in use and goes on in the next, which must have been made.
    fn roll(&mut self) -> Result<(), Error> {
        assert!(self.next.is_some(), "the next segment is made before the last is sealed");
        self.write_empty(true)?;
        let next = self.next.take().expect("asserted above");
        self.written_end = next.first_group();
        self.segments.push_back(next);
        Ok(())
    }

    fn write_empty(&mut self, seal: bool) -> Result<(), Error> {
        let mut empty = std::mem::take(&mut self.empty);
        let written = self.write(&mut empty, seal);
        self.empty = empty;
        written
    }

    fn write(&mut self, group: &mut Group, seal: bool) -> Result<(), Error> {
        let stamp = GroupStamp {
            lsn: self.written_end,
            durable_end: self.durable_end,
            incarnation: self.incarnation,
            seal,
        };
        assert!(stamp.lsn.0.is_multiple_of(GROUP_ALIGN_BYTES as u64), "groups are aligned");
        layout::seal_group(&mut group.bytes, &stamp, group.records, self.seed);
        let active = self.active();
        let written = active.file.write_at(&group.bytes, self.written_end.0 - active.start.0);
        let written = written.map_err(|e| Error::io("write", &active.name(), e));
        self.shared.poison_unless_full(written)?;
        self.written_end.0 += group.bytes.len() as u64;
        self.stated_end = stamp.durable_end;
        Ok(())
    }
}

/// The size of a segment that takes groups of together `bytes`.
fn capacity_for(bytes: u64) -> u64 {
    (SEGMENT_HEADER_BYTES as u64 + bytes + SEAL_BYTES).next_multiple_of(GROUP_ALIGN_BYTES as u64)
}
