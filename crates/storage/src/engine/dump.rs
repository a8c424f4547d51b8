//! How do a shard's versions get into a checkpoint and back? As a run of records, piece by piece.
//!
//! A dump holds every version that a read between two times needs: the safe point at its beginning,
//! which is held meanwhile, and the time of the dump; and those of the pins below, if it is to.
//! That includes values, tombstones and flushes. It is a sequence of records; all numbers are
//! little-endian:
//!
//! ```text
//!  offset  bytes  value record             tombstone record     flush record
//!  0       4      length of what follows   likewise             likewise (9)
//!  4       1      kind 1                   kind 2               kind 3
//!  5       8      timestamp                timestamp            timestamp
//!  13      8      expiry_ms (0 never)      key: to the end      -
//!  21      4      key length
//!  25      -      key, then value: to the end
//! ```
//! Order: eras from old to new, between two of them the flush that separates them; within one by
//! (slot, hash, key), by key, or by (number, key); within a key from old to new. So restoring is
//! writing again.
//!
//! The blocks of one dump must be restored in order. The first of the two times is not in them, nor
//! are the pins: it is the safe point of what they restore, which is raised to it, with them,
//! before.

use std::ops::Bound;

use keyspace::{Slot, Timestamp};

use super::era::{Era, FlushedEra, Index};
use super::pins::lowest_pin;
use super::record::{Body, KEY_BYTES_MAX, Record, VALUE_BYTES_MAX};
use super::{Layout, MemoryEngine, ScanCursor};

const KIND_VALUE: u8 = 1;
const KIND_TOMBSTONE: u8 = 2;
const KIND_FLUSH: u8 = 3;
/// How long one piece of a dump may be. A piece ends when either limit is reached, so that it is
/// short even if nothing is dumped; it always looks at one key at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceLimits {
    /// Keys that it examines, deleted and expired ones included.
    pub examined_max: usize,
    /// Bytes, about: more only to finish a key.
    pub bytes_max: usize,
}

/// How far a dump has come. Starts as its default.
#[derive(Clone, Debug, Default)]
pub struct DumpCursor {
    /// The era the position is in.
    era: Option<u64>,
    position: Position,
    /// The pins that can be read in what it restores, rising.
    pins: Vec<Timestamp>,
}

impl DumpCursor {
    /// Of a dump that has what these pins need, which are among those at the time of its hold.
    pub fn with_pins(pins: &[Timestamp]) -> Self {
        Self { pins: pins.to_vec(), ..Self::default() }
    }
}

#[derive(Clone, Debug, Default)]
enum Position {
    /// Before everything in the era.
    #[default]
    Start,
    /// Before this hash in this slot.
    Hashed(ScanCursor),
    /// Before this key, in a tree.
    Key(Vec<u8>),
    /// After the dump.
    End,
}

impl Position {
    /// Where a tree is gone on with.
    fn bound(&self) -> Bound<&[u8]> {
        match self {
            Position::Key(key) => Bound::Included(key),
            _ => Bound::Unbounded,
        }
    }
}

/// Why a block cannot be restored. The records before `offset` have been; give the engine up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The block ends within a record, or a record is too short for its kind.
    #[error("the record at offset {offset} is cut short")]
    Short {
        /// Where the record starts in the block.
        offset: usize,
    },
    /// No such kind of record, or one longer than it may be.
    #[error("the record at offset {offset} has unknown kind {kind} or a wrong length")]
    Kind {
        /// Where the record starts in the block.
        offset: usize,
        /// The kind it claims.
        kind: u8,
    },
    /// A key or value above the engine's limits.
    #[error("the record at offset {offset} is too long")]
    Long {
        /// Where the record starts in the block.
        offset: usize,
    },
    /// A record is older than one restored before it.
    #[error("the record at offset {offset} is out of order")]
    Order {
        /// Where the record starts in the block.
        offset: usize,
    },
    /// A key that does not belong to this shard.
    #[error("the key at offset {offset} lies in slot {slot}, outside this shard")]
    Foreign {
        /// Where the record starts in the block.
        offset: usize,
        /// The key's slot.
        slot: Slot,
    },
}

/// Where a piece of a dump may be split, each to be restored as a block: behind as many whole
/// records as `bytes_max` holds, but at least one.
pub fn cut_dump(piece: &[u8], bytes_max: usize) -> usize {
    let mut end = 0;
    while let Some(len) = piece[end..].first_chunk() {
        let next = end + size_of::<u32>() + u32::from_le_bytes(*len) as usize;
        if end > 0 && next > bytes_max {
            break;
        }
        end = next.min(piece.len());
    }
    end
}

/// Copies the values of a piece of a dump to `out`, with other times: `change` is given timestamp
/// and expiry of each, and says both anew, or nothing for one to be left out. Ends and flushes are
/// left out as well, so the dump must be one of a single moment.
///
/// # Errors
/// [`RestoreError`]: the piece is not one that [`MemoryEngine::dump`] made.
pub fn retime_dump(
    piece: &[u8],
    out: &mut Vec<u8>,
    change: impl Fn(Timestamp, u64) -> Option<(Timestamp, u64)>,
) -> Result<(), RestoreError> {
    let mut parts = parts(piece);
    loop {
        let start = parts.offset();
        let Some(part) = parts.next() else { return Ok(()) };
        let DumpRecord::Value { timestamp, expiry_ms, .. } = part? else { continue };
        let Some((timestamp, expiry_ms)) = change(timestamp, expiry_ms) else { continue };
        let record = out.len();
        out.extend_from_slice(&piece[start..parts.offset()]);
        out[record + 5..record + 13].copy_from_slice(&timestamp.0.to_le_bytes());
        out[record + 13..record + 21].copy_from_slice(&expiry_ms.to_le_bytes());
    }
}

impl MemoryEngine {
    /// Appends to `out` the next piece of a dump of all versions that reads from `low` to `at`
    /// need, whatever the safe point is by now. One history gives the same bytes, except for the
    /// encoding of flushes. Returns whether there is more; an empty piece need not be the last,
    /// since all keys that it examined may have been deleted. Writes above `at` may go on between
    /// pieces.
    ///
    /// Panics unless the engine is held at or below `low`, from before the first piece on.
    pub fn dump(
        &self,
        cursor: &mut DumpCursor,
        low: Timestamp,
        at: Timestamp,
        limits: PieceLimits,
        out: &mut Vec<u8>,
    ) -> bool {
        assert!(self.holds.iter().any(|hold| hold.at <= low), "a dump without a hold");
        self.piece(cursor, low, at, limits, out)
    }

    fn piece(
        &self,
        cursor: &mut DumpCursor,
        low: Timestamp,
        at: Timestamp,
        limits: PieceLimits,
        out: &mut Vec<u8>,
    ) -> bool {
        if matches!(cursor.position, Position::End) {
            return false;
        }
        let mut piece = Piece {
            at,
            low,
            pins: std::mem::take(&mut cursor.pins),
            ended: None,
            examined_left: limits.examined_max,
            examined_any: false,
            bytes_end: out.len().saturating_add(limits.bytes_max),
            out,
            chain: Vec::new(),
        };
        let pins = piece.pins.clone();
        let is_seen = |one: &&FlushedEra| one.end > low || one.is_pinned(&pins);
        let retired = self.retired.iter().filter(is_seen);
        let ended = |end: Timestamp| Some(end).filter(|end| *end <= low);
        let eras = retired.map(|retired| (&retired.era, ended(retired.end)));
        let eras = eras.chain([(&self.current, None)]);
        let reached = cursor.era;
        let mut has_more = false;
        for (era, ended) in eras.filter(|(era, _)| era.start <= at && reached <= Some(era.number)) {
            if cursor.era.is_some_and(|number| number < era.number) {
                piece.flush(era.start);
                cursor.position = Position::Start;
            }
            cursor.era = Some(era.number);
            piece.ended = ended;
            if let Some(position) = piece.era(era, &cursor.position) {
                cursor.position = position;
                has_more = true;
                break;
            }
        }
        if !has_more {
            cursor.position = Position::End;
        }
        cursor.pins = pins;
        has_more
    }

    /// Writes a block of a dump into this engine, which holds nothing else than what the blocks
    /// before it brought.
    ///
    /// # Errors
    /// [`RestoreError`]: the block is not one that [`MemoryEngine::dump`] made for this layout.
    pub fn restore(&mut self, block: &[u8]) -> Result<(), RestoreError> {
        let mut parts = parts(block);
        loop {
            let offset = parts.offset();
            let Some(part) = parts.next() else { return Ok(()) };
            self.restore_part(part?, offset)?;
        }
    }

    fn restore_part(&mut self, part: DumpRecord<'_>, offset: usize) -> Result<(), RestoreError> {
        if part.timestamp() < self.current.start {
            return Err(RestoreError::Order { offset });
        }
        match part {
            DumpRecord::Value { timestamp, expiry_ms, key, value } => {
                let body = Body::Value { parts: &[value], expiry_ms };
                self.restore_version(key, body, timestamp, offset)
            }
            DumpRecord::Tombstone { timestamp, key } => {
                self.restore_version(key, Body::Tombstone, timestamp, offset)
            }
            DumpRecord::Flush { timestamp } => {
                if timestamp < self.current.newest {
                    return Err(RestoreError::Order { offset });
                }
                self.flush(timestamp);
                Ok(())
            }
        }
    }

    fn restore_version(
        &mut self,
        key: &[u8],
        body: Body<'_>,
        timestamp: Timestamp,
        offset: usize,
    ) -> Result<(), RestoreError> {
        if key.len() > KEY_BYTES_MAX || body.value_len() > VALUE_BYTES_MAX {
            return Err(RestoreError::Long { offset });
        }
        let key = self.hasher.key(key);
        if let Layout::Hashed { first_slot, end_slot } = self.layout
            && !(first_slot..end_slot).contains(&key.slot)
        {
            return Err(RestoreError::Foreign { offset, slot: key.slot });
        }
        let (place, head) = self.current.index.locate(&key);
        if head.is_some_and(|head| timestamp < head.timestamp()) {
            return Err(RestoreError::Order { offset });
        }
        match body {
            Body::Value { parts, expiry_ms } => {
                // What was written here may have skipped equal writes; a dump has none to skip.
                self.skip_equal_writes(false);
                self.put(&key, parts, expiry_ms, timestamp);
            }
            Body::Tombstone => self.write(&key, place, head, body, timestamp),
        }
        Ok(())
    }
}

/// One record of a dump.
pub(super) enum DumpRecord<'a> {
    Value { timestamp: Timestamp, expiry_ms: u64, key: &'a [u8], value: &'a [u8] },
    Tombstone { timestamp: Timestamp, key: &'a [u8] },
    Flush { timestamp: Timestamp },
}

impl DumpRecord<'_> {
    fn timestamp(&self) -> Timestamp {
        let (DumpRecord::Value { timestamp, .. }
        | DumpRecord::Tombstone { timestamp, .. }
        | DumpRecord::Flush { timestamp }) = self;
        *timestamp
    }
}

/// The records of a block. Nothing comes after an error.
pub(super) fn parts(block: &[u8]) -> DumpRecords<'_> {
    DumpRecords { block, rest: block }
}

pub(super) struct DumpRecords<'a> {
    block: &'a [u8],
    rest: &'a [u8],
}

impl<'a> DumpRecords<'a> {
    /// Where the next record begins.
    fn offset(&self) -> usize {
        self.block.len() - self.rest.len()
    }

    fn take(&mut self) -> Result<DumpRecord<'a>, RestoreError> {
        let offset = self.offset();
        let short = || RestoreError::Short { offset };
        let (len, body) = self.rest.split_first_chunk().ok_or_else(short)?;
        let len = u32::from_le_bytes(*len) as usize;
        let (record, after) = body.split_at_checked(len).ok_or_else(short)?;
        let (&kind, rest) = record.split_first().ok_or_else(short)?;
        let (timestamp, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let timestamp = Timestamp(u64::from_le_bytes(*timestamp));
        self.rest = after;
        match kind {
            KIND_VALUE => {
                let (expiry_ms, rest) = rest.split_first_chunk().ok_or_else(short)?;
                let (key_len, rest) = rest.split_first_chunk().ok_or_else(short)?;
                let key_len = u32::from_le_bytes(*key_len) as usize;
                let (key, value) = rest.split_at_checked(key_len).ok_or_else(short)?;
                let expiry_ms = u64::from_le_bytes(*expiry_ms);
                Ok(DumpRecord::Value { timestamp, expiry_ms, key, value })
            }
            KIND_TOMBSTONE => Ok(DumpRecord::Tombstone { timestamp, key: rest }),
            KIND_FLUSH if rest.is_empty() => Ok(DumpRecord::Flush { timestamp }),
            _ => Err(RestoreError::Kind { offset, kind }),
        }
    }
}

impl<'a> Iterator for DumpRecords<'a> {
    type Item = Result<DumpRecord<'a>, RestoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let part = self.take();
        if part.is_err() {
            self.rest = &[];
        }
        Some(part)
    }
}

/// One piece of a dump in the making.
struct Piece<'a> {
    at: Timestamp,
    /// Of versions at or below this, only the newest is needed, if it is not an end, and what pins
    /// need.
    low: Timestamp,
    pins: Vec<Timestamp>,
    /// When the era ended that is dumped, if that is at or below `low`.
    ended: Option<Timestamp>,
    examined_left: usize,
    /// Whether it has looked at a key.
    examined_any: bool,
    bytes_end: usize,
    out: &'a mut Vec<u8>,
    /// Used again for every key.
    chain: Vec<Record>,
}

impl Piece<'_> {
    /// Dumps an era from `position` on; returns where to go on if the piece is full first.
    fn era(&mut self, era: &Era, position: &Position) -> Option<Position> {
        match &era.index {
            Index::Hashed(tables) => {
                let from = match position {
                    Position::Hashed(cursor) => *cursor,
                    _ => ScanCursor::default(),
                };
                let mut last = None;
                for (cursor, head) in tables.heads_from(from) {
                    if self.is_full() && last != Some(cursor) {
                        return Some(Position::Hashed(cursor));
                    }
                    last = Some(cursor);
                    self.key(head);
                }
            }
            Index::Ordered(tree) => {
                return self.heads(tree.range(position.bound(), Bound::Unbounded));
            }
            Index::LinearHash(tree) => {
                return self.heads(tree.range(position.bound(), Bound::Unbounded));
            }
        }
        None
    }

    /// Dumps these, one key each; returns where to go on if the piece is full first.
    fn heads(&mut self, heads: impl Iterator<Item = Record>) -> Option<Position> {
        for head in heads {
            if self.is_full() {
                return Some(Position::Key(head.key().to_vec()));
            }
            self.key(head);
        }
        None
    }

    /// Never before the first key, so that every piece gets on.
    fn is_full(&self) -> bool {
        self.examined_any && (self.examined_left == 0 || self.out.len() >= self.bytes_end)
    }

    fn key(&mut self, head: Record) {
        self.examined_any = true;
        self.examined_left = self.examined_left.saturating_sub(1);
        let mut chain = Some(head);
        while let Some(record) = chain {
            chain = record.older();
            if record.timestamp() > self.at {
                continue;
            }
            if record.timestamp() <= self.low {
                self.below(record);
                break;
            }
            self.chain.push(record);
        }
        while let Some(record) = self.chain.pop() {
            self.version(record);
        }
    }

    /// Finds what is needed of the versions from this on, the newest at or below `low`.
    fn below(&mut self, newest: Record) {
        if self.pins.is_empty() {
            if !newest.is_dead(self.low) {
                self.chain.push(newest);
            }
            return;
        }
        let mut records = vec![newest];
        while let Some(older) = records.last().and_then(|record| record.older()) {
            records.push(older);
        }
        let mut needed = Vec::new();
        for place in (0..records.len()).rev() {
            let record = records[place];
            let newer = place.checked_sub(1).map(|newer| records[newer].timestamp());
            let end = newer.or(self.ended).unwrap_or(Timestamp::MAX);
            let seen = lowest_pin(&self.pins, record.timestamp(), end);
            // The safe point is one more, in an era that it has not passed.
            let is_seen_last = newer.is_none() && self.ended.is_none();
            let seen = seen.or(is_seen_last.then_some(self.low));
            if seen.is_some_and(|at| !needed.is_empty() || !record.is_dead(at)) {
                needed.push(record);
            }
        }
        needed.reverse();
        self.chain.append(&mut needed);
    }

    fn version(&mut self, record: Record) {
        let (key, value) = (record.key(), record.value());
        if record.is_tombstone() {
            self.start(KIND_TOMBSTONE, record.timestamp(), key.len());
            self.out.extend_from_slice(key);
        } else {
            self.start(KIND_VALUE, record.timestamp(), 12 + key.len() + value.len());
            self.out.extend_from_slice(&record.expiry_ms().to_le_bytes());
            self.out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            self.out.extend_from_slice(key);
            self.out.extend_from_slice(value);
        }
    }

    fn flush(&mut self, timestamp: Timestamp) {
        self.start(KIND_FLUSH, timestamp, 0);
    }

    fn start(&mut self, kind: u8, timestamp: Timestamp, rest_bytes: usize) {
        self.out.extend_from_slice(&((9 + rest_bytes) as u32).to_le_bytes());
        self.out.push(kind);
        self.out.extend_from_slice(&timestamp.0.to_le_bytes());
    }
}
