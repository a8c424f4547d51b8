//! Opening a log: replay, and the decision between a torn tail and rot (SAFETY G16).

use std::sync::Arc;

use super::layout::{GROUP_HEADER_BYTES, GroupHeader, Records, SEGMENT_HEADER_BYTES, Seed};
use super::segment::{self, Segment, Window, segment_name};
use super::{Group, Log, LogOptions, Lsn, Record};
use crate::Error;
use crate::disk::{Disk, File};

/// How much is looked at, or overwritten with zeros, at once.
const SCAN_BYTES: usize = 1 << 16;

/// What [`Log::open`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Groups visited.
    pub groups: u64,
    /// Records visited.
    pub records: u64,
    /// Where the log ends, and the next append goes.
    pub end: Lsn,
    /// Bytes behind that end which were not zero, or lay before one that was not: the torn tail,
    /// now zero. 0 after a clean stop.
    pub cut_bytes: u64,
}

/// Where replay of a segment stopped.
enum ReplayStop {
    /// At its seal.
    Sealed,
    /// At a group that is not valid.
    Bad,
}

/// The state of a replay.
struct Replay {
    seed: Seed,
    at: Lsn,
    incarnation: u32,
    /// The position known to be durable: `start`, or the largest `durable_end` of a valid group.
    stated_end: Lsn,
    records_end: Lsn,
    /// Behind the last byte that is not zero in the last segment.
    nonzero_end: Lsn,
    found: Recovered,
}

impl Log {
    /// Opens the log in `disk` and visits every record at or behind `start`, in order. `start`
    /// comes from the manifest: [`Lsn::NEW`], or a position that was once a group's end.
    ///
    /// From [`Lsn::NEW`] it creates a missing log. Store a manifest with the new log's
    /// [`Log::written_end`] before acknowledging anything: it shows later whether a missing log
    /// ever existed. Everything found is durable when this returns. `visit` gets the position of
    /// the group that holds the record.
    ///
    /// # Errors
    /// [`Error::Rot`], [`Error::Foreign`], [`Error::Version`]: refused, nothing was changed.
    /// Errors of `visit` and of the medium are passed on. After any error drop what `visit` built.
    pub fn open<E: From<Error>>(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        start: Lsn,
        visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
    ) -> Result<(Self, Recovered), E> {
        assert!(options.segment_bytes >= LogOptions::SEGMENT_BYTES_MIN, "segments are too small");
        let segment_bytes = options.segment_bytes.next_multiple_of(8);
        let options = LogOptions { segment_bytes, ..options };
        let seed = Seed::new(options.cluster, options.salt);
        let starts = segment::segment_starts(&*disk)?;

        let Some(first) = first_segment(&*disk, &options, seed, start, &starts)? else {
            let log = Self::make(disk, options, seed, &starts)?;
            let end = log.written_end;
            return Ok((log, Recovered { end, ..Recovered::default() }));
        };
        let at = start.max(first.first_group());
        let mut replay = Replay {
            seed,
            at,
            incarnation: 0,
            stated_end: at,
            records_end: at,
            nonzero_end: at,
            found: Recovered::default(),
        };
        let (segments, ends) = replay.all(&*disk, &options, first, &starts, visit)?;
        let last = segments.last().expect("begins with one");
        replay.judge(&*disk, &options, last, &starts)?;

        // Decided: from `at` on there is only what a crash left. Nothing was changed before here.
        let kept = segments[0].start..=last.start;
        replay.make_durable(&segments, &ends)?;
        remove_all(&*disk, starts.iter().filter(|&start| !kept.contains(start)))?;
        replay.found.end = replay.at;
        let log = Self {
            disk,
            options,
            seed,
            segments: segments.into(),
            next: None,
            shared: Arc::default(),
            job_start: Lsn(0),
            written_end: replay.at,
            durable_end: replay.at,
            touched_end: Lsn(0),
            records_end: replay.records_end,
            stated_end: replay.stated_end,
            promised_bytes: 0,
            incarnation: replay.incarnation.checked_add(1).expect("2^32 starts of one log"),
            empty: Group::new(),
        };
        Ok((log, replay.found))
    }

    /// Makes the first segment, after removing what an interrupted making left.
    fn make(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        seed: Seed,
        leftovers: &[Lsn],
    ) -> Result<Self, Error> {
        remove_all(&*disk, leftovers.iter())?;
        let first = Segment::create(&*disk, &options, Lsn(0), options.segment_bytes)?;
        let end = first.first_group();
        Ok(Self {
            disk,
            options,
            seed,
            segments: [first].into(),
            next: None,
            shared: Arc::default(),
            job_start: Lsn(0),
            written_end: end,
            durable_end: end,
            touched_end: Lsn(0),
            records_end: end,
            stated_end: end,
            promised_bytes: 0,
            incarnation: 1,
            empty: Group::new(),
        })
    }
}

/// The segment that holds `start`, or nothing if there is no log yet and may be none.
fn first_segment(
    disk: &dyn Disk,
    options: &LogOptions,
    seed: Seed,
    start: Lsn,
    starts: &[Lsn],
) -> Result<Option<Segment>, Error> {
    if start == Lsn::NEW && !any_group(disk, seed, starts)? {
        // Not made yet, or the making was interrupted, or failed: begin it again.
        return Ok(None);
    }
    let Some(&found) = starts.iter().rev().find(|&&found| found <= start) else {
        return Err(missing(start));
    };
    let segment = Segment::open(disk, options, found)?;
    if start < segment.end() { Ok(Some(segment)) } else { Err(missing(segment.end())) }
}

/// Whether any group was ever written.
fn any_group(disk: &dyn Disk, seed: Seed, starts: &[Lsn]) -> Result<bool, Error> {
    for &start in starts {
        if scan(&*open_file(disk, start)?, start, start, seed, 0)?.groups > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The segment a seal points to.
fn next_segment(
    disk: &dyn Disk,
    options: &LogOptions,
    start: Lsn,
    starts: &[Lsn],
) -> Result<Segment, Error> {
    if starts.binary_search(&start).is_err() {
        return Err(missing(start));
    }
    Segment::open(disk, options, start)
}

fn missing(start: Lsn) -> Error {
    let what = "the segment that holds this position is missing: it has this number or, if there \
                is none of this number, the next lower one";
    Error::rot(&segment_name(start), 0, what)
}

fn open_file(disk: &dyn Disk, start: Lsn) -> Result<Arc<dyn File>, Error> {
    let name = segment_name(start);
    disk.open(&name).map_err(|e| Error::io("open", &name, e))
}

impl Replay {
    /// Visits the valid groups of all segments from the first one on. Returns these segments, and
    /// where the groups of each end.
    fn all<E: From<Error>>(
        &mut self,
        disk: &dyn Disk,
        options: &LogOptions,
        first: Segment,
        starts: &[Lsn],
        visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
    ) -> Result<(Vec<Segment>, Vec<Lsn>), E> {
        let (mut segments, mut ends) = (vec![first], Vec::new());
        loop {
            let segment = segments.last().expect("begins with one");
            let stop = self.segment(segment, visit)?;
            ends.push(self.at);
            match stop {
                ReplayStop::Bad => return Ok((segments, ends)),
                ReplayStop::Sealed => {
                    let next = next_segment(disk, options, segment.end(), starts)?;
                    self.at = next.first_group();
                    segments.push(next);
                }
            }
        }
    }

    /// Clears the torn tail, and writes and syncs again what was not stated to be durable.
    fn make_durable(&self, segments: &[Segment], ends: &[Lsn]) -> Result<(), Error> {
        let last = segments.last().expect("begins with one");
        zero(last, self.at, self.nonzero_end)?;
        let reserved = last.file.reserve(last.capacity_bytes);
        reserved.map_err(|e| Error::io("reserve", &last.name(), e))?;
        for (segment, end) in segments.iter().zip(ends) {
            if segment.end() > self.stated_end {
                write_again(segment, self.stated_end.max(segment.first_group()), *end)?;
                segment.file.sync().map_err(|e| Error::io("sync", &segment.name(), e))?;
            }
        }
        Ok(())
    }

    /// Visits the valid groups of `segment` from `self.at` on.
    fn segment<E: From<Error>>(
        &mut self,
        segment: &Segment,
        visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
    ) -> Result<ReplayStop, E> {
        let mut window = Window::new(&*segment.file, segment.name())?;
        loop {
            let offset = self.at.0 - segment.start.0;
            let header = GroupHeader::decode(window.get(offset, GROUP_HEADER_BYTES)?, self.seed);
            let Some(header) = header.filter(|header| self.follows(header, segment)) else {
                return Ok(ReplayStop::Bad);
            };
            let payload_at = offset + GROUP_HEADER_BYTES as u64;
            let payload = window.get(payload_at, header.payload_bytes as usize)?;
            if !header.fits(payload, self.seed) {
                return Ok(ReplayStop::Bad);
            }
            let Some(records) = Records::new(payload, header.records) else {
                let what = "the group's records do not add up";
                return Err(Error::rot(&segment.name(), offset, what).into());
            };
            for record in records {
                visit(self.at, record)?;
            }
            self.accept(&header);
            if header.seal {
                return Ok(ReplayStop::Sealed);
            }
        }
    }

    /// Whether a group with this header may stand at `self.at`.
    fn follows(&self, header: &GroupHeader, segment: &Segment) -> bool {
        header.lsn == self.at
            && header.incarnation >= self.incarnation
            && header.end() <= segment.end()
    }

    fn accept(&mut self, header: &GroupHeader) {
        self.at = header.end();
        self.incarnation = header.incarnation;
        self.stated_end = self.stated_end.max(header.durable_end);
        if header.records > 0 {
            self.records_end = self.at;
            self.found.groups += 1;
            self.found.records += u64::from(header.records);
        }
    }

    /// Decides whether the bad group at `self.at`, in `last`, is the torn tail, and how long it is.
    fn judge(
        &mut self,
        disk: &dyn Disk,
        options: &LogOptions,
        last: &Segment,
        starts: &[Lsn],
    ) -> Result<(), Error> {
        let behind = starts.iter().filter(|&&start| start > last.start);
        let mut durable_end = Lsn(0);
        let mut incarnation = self.incarnation;
        for &start in std::iter::once(&last.start).chain(behind) {
            match Segment::open(disk, options, start) {
                // Made ahead, and not finished; or the last, which replay has opened.
                Ok(_) | Err(Error::Rot { .. }) => {}
                // A newer version's groups could not be read as evidence: refuse, do not guess.
                Err(e) => return Err(e),
            }
            let file = open_file(disk, start)?;
            let scan = scan(&*file, start, self.at.max(start), self.seed, self.incarnation)?;
            durable_end = durable_end.max(scan.durable_end);
            incarnation = incarnation.max(scan.incarnation);
            let mut from = start.0 + SEGMENT_HEADER_BYTES as u64;
            if start == last.start {
                (from, self.nonzero_end) = (self.at.0, scan.nonzero_end);
            }
            self.found.cut_bytes += scan.nonzero_end.0.saturating_sub(from);
        }
        if durable_end > self.at {
            let what = "a group that was durable is not valid";
            return Err(Error::rot(&last.name(), self.at.0 - last.start.0, what));
        }
        self.incarnation = incarnation;
        Ok(())
    }
}

/// What lies behind the end of a replay.
#[derive(Default)]
struct TailScan {
    /// Group headers that are valid where they stand.
    groups: u64,
    /// The largest `durable_end` they state.
    durable_end: Lsn,
    /// The largest incarnation they name.
    incarnation: u32,
    /// Behind the last byte that is not zero; `Lsn(0)` if there is none.
    nonzero_end: Lsn,
}

/// Looks for group headers at every place where one could begin, from position `from` to the end
/// of the segment that starts at `start`. Those of an incarnation below `incarnation` are dead.
///
/// A header is evidence even if its records are damaged: what it states was true when written.
fn scan(
    file: &dyn File,
    start: Lsn,
    from: Lsn,
    seed: Seed,
    incarnation: u32,
) -> Result<TailScan, Error> {
    let mut found = TailScan::default();
    let mut window = Window::new(file, segment_name(start))?;
    let mut at = from;
    loop {
        // Each piece overlaps the next by a header, less the first place of the next.
        let piece = window.get(at.0 - start.0, SCAN_BYTES + GROUP_HEADER_BYTES - 8)?;
        if let Some(last) = piece.iter().rposition(|&byte| byte != 0) {
            found.nonzero_end = Lsn(at.0 + last as u64 + 1);
            for offset in (0..=last.min(SCAN_BYTES - 1)).step_by(8) {
                let Some(header) = GroupHeader::decode(&piece[offset..], seed) else { continue };
                if header.lsn.0 == at.0 + offset as u64 && header.incarnation >= incarnation {
                    found.groups += 1;
                    found.durable_end = found.durable_end.max(header.durable_end);
                    found.incarnation = found.incarnation.max(header.incarnation);
                }
            }
        }
        if piece.len() < SCAN_BYTES {
            return Ok(found);
        }
        at.0 += SCAN_BYTES as u64;
    }
}

/// Overwrites what lies between two positions. Takes no space, unlike cutting and growing again.
fn zero(segment: &Segment, from: Lsn, to: Lsn) -> Result<(), Error> {
    let zeros = [0; SCAN_BYTES];
    let mut at = from.0;
    while at < to.0 {
        let bytes = (to.0 - at).min(SCAN_BYTES as u64);
        let write = segment.file.write_at(&zeros[..bytes as usize], at - segment.start.0);
        write.map_err(|e| Error::io("write", &segment.name(), e))?;
        at += bytes;
    }
    Ok(())
}

/// Writes what lies between two positions once more. After a sync failed, the page cache may hold
/// bytes that the medium does not and that no sync would write; so what is not known to be durable
/// is made dirty again before it is synced.
fn write_again(segment: &Segment, from: Lsn, to: Lsn) -> Result<(), Error> {
    let mut window = Window::new(&*segment.file, segment.name())?;
    let mut at = from;
    while at < to {
        let offset = at.0 - segment.start.0;
        let bytes = window.get(offset, (to.0 - at.0).min(SCAN_BYTES as u64) as usize)?;
        let write = segment.file.write_at(bytes, offset);
        at.0 += bytes.len() as u64;
        write.map_err(|e| Error::io("write", &segment.name(), e))?;
    }
    Ok(())
}

/// Removes segments, durably.
fn remove_all<'a>(disk: &dyn Disk, starts: impl Iterator<Item = &'a Lsn>) -> Result<(), Error> {
    for &start in starts {
        let name = segment_name(start);
        disk.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
    }
    disk.sync_dir().map_err(|e| Error::io("sync", "the directory", e))
}
