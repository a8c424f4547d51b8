//! One segment file of the log: its name, its creation, and reading it in large pieces.

use std::io;
use std::sync::Arc;

use super::layout::{BadSegment, LOG_VERSION, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::{LogOptions, Lsn};
use crate::Error;
use crate::disk::{Disk, File};

const NAME_PREFIX: &str = "log-";
const NAME_SUFFIX: &str = ".seg";

/// How much is read at once.
const READ_BYTES: usize = 1 << 20;

/// The name of the segment whose first byte has position `start`.
pub(crate) fn segment_name(start: Lsn) -> String {
    format!("{NAME_PREFIX}{:016x}{NAME_SUFFIX}", start.0)
}

/// Whether a file of this name is part of a log.
pub(crate) fn segment_start(name: &str) -> Option<Lsn> {
    let hex = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    let start = Lsn(u64::from_str_radix(hex, 16).ok()?);
    (segment_name(start) == name).then_some(start)
}

/// The starts of all segments on disk, rising.
pub(super) fn segment_starts(disk: &dyn Disk) -> Result<Vec<Lsn>, Error> {
    let names = disk.list().map_err(|e| Error::io("list", "the directory", e))?;
    let mut starts: Vec<Lsn> = names.iter().filter_map(|name| segment_start(name)).collect();
    starts.sort_unstable();
    Ok(starts)
}

/// An open segment.
pub(super) struct Segment {
    pub start: Lsn,
    pub capacity_bytes: u64,
    pub file: Arc<dyn File>,
}

impl Segment {
    /// The position behind the segment: where the next one starts.
    pub fn end(&self) -> Lsn {
        Lsn(self.start.0 + self.capacity_bytes)
    }

    /// Where the first group goes.
    pub fn first_group(&self) -> Lsn {
        Lsn(self.start.0 + SEGMENT_HEADER_BYTES as u64)
    }

    pub fn name(&self) -> String {
        segment_name(self.start)
    }

    /// Makes a segment, with all its space, durably. Nothing refers to it before this returns.
    ///
    /// # Errors
    /// [`Error::Full`]: no trace is left. Others may leave a file that the next open removes.
    pub fn create(
        disk: &dyn Disk,
        options: &LogOptions,
        start: Lsn,
        capacity_bytes: u64,
    ) -> Result<Self, Error> {
        let name = segment_name(start);
        let full = || Error::Full { file: name.clone(), needed_bytes: capacity_bytes };
        let file = disk.create(&name).map_err(|e| match e.kind() {
            io::ErrorKind::StorageFull => full(),
            _ => Error::io("create", &name, e),
        })?;
        if let Err(e) = file.reserve(capacity_bytes) {
            if e.kind() != io::ErrorKind::StorageFull {
                return Err(Error::io("reserve", &name, e));
            }
            drop(file);
            disk.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
            return Err(full());
        }
        let segment = Self { start, capacity_bytes, file };
        segment.write_header(options)?;
        disk.sync_dir().map_err(|e| Error::io("sync", "the directory", e))?;
        Ok(segment)
    }

    /// Makes a segment that nothing refers to yet larger.
    ///
    /// # Errors
    /// [`Error::Full`]: the segment is as it was.
    pub fn grow(&mut self, options: &LogOptions, capacity_bytes: u64) -> Result<(), Error> {
        self.file.reserve(capacity_bytes).map_err(|e| match e.kind() {
            io::ErrorKind::StorageFull => {
                Error::Full { file: self.name(), needed_bytes: capacity_bytes }
            }
            _ => Error::io("reserve", &self.name(), e),
        })?;
        self.capacity_bytes = capacity_bytes;
        self.write_header(options)
    }

    fn write_header(&self, options: &LogOptions) -> Result<(), Error> {
        let header = SegmentHeader {
            cluster: options.cluster,
            salt: options.salt,
            start: self.start,
            capacity_bytes: self.capacity_bytes,
        };
        let write = self.file.write_at(&header.encode(), 0);
        write.map_err(|e| Error::io("write", &self.name(), e))?;
        self.file.sync().map_err(|e| Error::io("sync", &self.name(), e))
    }

    /// Opens an existing segment, if it is whole: its header and its length were durable before
    /// anything pointed to it.
    ///
    /// # Errors
    /// [`Error::Rot`], [`Error::Version`], [`Error::Foreign`], [`Error::Io`].
    pub fn open(disk: &dyn Disk, options: &LogOptions, start: Lsn) -> Result<Self, Error> {
        let name = segment_name(start);
        let file = disk.open(&name).map_err(|e| Error::io("open", &name, e))?;
        let file_bytes = file.len().map_err(|e| Error::io("measure", &name, e))?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let read = file.read_at(&mut bytes, 0).map_err(|e| Error::io("read", &name, e))?;
        let header = match SegmentHeader::decode(&bytes[..read]) {
            Ok(header) if header.start == start => header,
            Ok(_) | Err(BadSegment::Damaged) => {
                return Err(Error::rot(&name, 0, "the segment's header is not valid"));
            }
            Err(BadSegment::Version(found)) => {
                return Err(Error::Version { file: name, found, supported: LOG_VERSION });
            }
        };
        if (header.cluster, header.salt) != (options.cluster, options.salt) {
            let (found, expected) = (header.cluster, options.cluster);
            return Err(Error::Foreign { file: name, found, expected });
        }
        if file_bytes < header.capacity_bytes {
            return Err(Error::rot(&name, file_bytes, "the segment is cut short"));
        }
        Ok(Self { start, capacity_bytes: header.capacity_bytes, file })
    }
}

/// A window that slides over a file, so that recovery's memory does not grow with the log.
pub(super) struct Window<'f> {
    file: &'f dyn File,
    name: String,
    file_bytes: u64,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    at: u64,
}

impl<'f> Window<'f> {
    pub fn new(file: &'f dyn File, name: String) -> Result<Self, Error> {
        let file_bytes = file.len().map_err(|e| Error::io("measure", &name, e))?;
        Ok(Self { file, name, file_bytes, buffer: Vec::new(), at: 0 })
    }

    /// The `bytes` bytes at `offset`; fewer only at the end of the file.
    pub fn get(&mut self, offset: u64, bytes: usize) -> Result<&[u8], Error> {
        let left = self.file_bytes.saturating_sub(offset);
        let bytes = left.min(bytes as u64) as usize;
        let held = self.at..=self.at + self.buffer.len() as u64;
        if !(held.contains(&offset) && held.contains(&(offset + bytes as u64))) {
            self.fill(offset, left.min(READ_BYTES.max(bytes) as u64) as usize)?;
        }
        let from = (offset - self.at) as usize;
        Ok(&self.buffer[from..from + bytes])
    }

    fn fill(&mut self, offset: u64, bytes: usize) -> Result<(), Error> {
        self.buffer.resize(bytes, 0);
        self.buffer.shrink_to(READ_BYTES);
        self.at = offset;
        let read = self.file.read_at(&mut self.buffer, offset);
        let read = read.map_err(|e| Error::io("read", &self.name, e))?;
        if read < bytes {
            let source = io::ErrorKind::UnexpectedEof.into();
            return Err(Error::io("read", &self.name, source));
        }
        Ok(())
    }
}
