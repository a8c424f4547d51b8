//! The bytes of the log: segment headers, group headers, records (docs/format.md §2).
//!
//! Nothing here touches a disk, and nothing here panics on any bytes.

use keyspace::ShardId;

use super::{Lsn, Record};

/// The first four bytes of every group: "CGRP".
pub const GROUP_MAGIC: u32 = u32::from_le_bytes(*b"CGRP");
/// The first eight bytes of every segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"CARILOG\0";
/// The only version of segments and groups so far.
pub const LOG_VERSION: u32 = 1;
/// Bytes of a segment's header; its first group begins here.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes of a group's header. An empty group is this long.
pub const GROUP_HEADER_BYTES: usize = 48;
/// Bytes before a record's payload.
pub const RECORD_HEADER_BYTES: usize = 13;
/// Groups begin at multiples of this.
pub const GROUP_ALIGN_BYTES: usize = 8;
/// The largest group, header included. Bounds what recovery holds in memory.
pub const GROUP_BYTES_MAX: usize = 1 << 30;

/// Flag of an empty group that ends its segment: the next group begins the next segment.
const FLAG_SEAL: u32 = 1;

mod segment_at {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const ZERO: usize = 12;
    pub const CLUSTER: usize = 16;
    pub const SALT: usize = 24;
    pub const START: usize = 32;
    pub const CAPACITY: usize = 40;
    pub const REST: usize = 48;
    pub const CRC: usize = 60;
}

mod group_at {
    pub const MAGIC: usize = 0;
    pub const HEADER_CRC: usize = 4;
    pub const LSN: usize = 8;
    pub const DURABLE_END: usize = 16;
    pub const INCARNATION: usize = 24;
    pub const FLAGS: usize = 28;
    pub const PAYLOAD_BYTES: usize = 32;
    pub const RECORDS: usize = 36;
    pub const PAYLOAD_CRC: usize = 40;
    pub const ZERO: usize = 44;
}

mod record_at {
    pub const SHARD: usize = 0;
    pub const PAYLOAD_BYTES: usize = 8;
    pub const KIND: usize = 12;
    pub const PAYLOAD: usize = 13;
}

// docs/format.md states these numbers; a change here is a new version there.
const _: () = {
    assert!(SEGMENT_HEADER_BYTES == 64 && segment_at::CRC + 4 == SEGMENT_HEADER_BYTES);
    assert!(segment_at::MAGIC == 0 && segment_at::VERSION == 8 && segment_at::ZERO == 12);
    assert!(segment_at::CLUSTER == 16 && segment_at::SALT == 24 && segment_at::START == 32);
    assert!(segment_at::CAPACITY == 40 && segment_at::REST == 48);
    assert!(GROUP_HEADER_BYTES == 48 && group_at::ZERO + 4 == GROUP_HEADER_BYTES);
    assert!(group_at::MAGIC == 0 && group_at::HEADER_CRC == 4 && group_at::LSN == 8);
    assert!(group_at::DURABLE_END == 16 && group_at::INCARNATION == 24 && group_at::FLAGS == 28);
    assert!(group_at::PAYLOAD_BYTES == 32 && group_at::RECORDS == 36);
    assert!(group_at::PAYLOAD_CRC == 40);
    assert!(record_at::SHARD == 0 && record_at::PAYLOAD_BYTES == 8 && record_at::KIND == 12);
    assert!(record_at::PAYLOAD == RECORD_HEADER_BYTES);
    assert!(SEGMENT_HEADER_BYTES.is_multiple_of(GROUP_ALIGN_BYTES));
    assert!(GROUP_HEADER_BYTES.is_multiple_of(GROUP_ALIGN_BYTES));
    assert!(GROUP_BYTES_MAX <= u32::MAX as usize);
};

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The CRC-32 (IEEE) of `bytes`, begun from `seed` instead of 0.
pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// `bytes` rounded up to the alignment of groups.
pub(crate) const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(GROUP_ALIGN_BYTES)
}

/// What every checksum of a log begins from, so that no value a client stores can look like a
/// group of this log, and no group of another log can either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The seed of the log of `cluster` whose directory drew `salt`.
    pub fn new(cluster: u64, salt: u64) -> Self {
        Self(crc(crc(0, &cluster.to_le_bytes()), &salt.to_le_bytes()))
    }
}

/// The first bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub cluster: u64,
    pub salt: u64,
    /// The position of the segment's first byte.
    pub start: Lsn,
    /// Bytes of the whole file; the next segment starts at `start + capacity`.
    pub capacity_bytes: u64,
}

/// Why bytes are not a segment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadSegment {
    Damaged,
    Version(u32),
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        put(&mut out, segment_at::MAGIC, &SEGMENT_MAGIC);
        put(&mut out, segment_at::VERSION, &LOG_VERSION.to_le_bytes());
        put(&mut out, segment_at::CLUSTER, &self.cluster.to_le_bytes());
        put(&mut out, segment_at::SALT, &self.salt.to_le_bytes());
        put(&mut out, segment_at::START, &self.start.0.to_le_bytes());
        put(&mut out, segment_at::CAPACITY, &self.capacity_bytes.to_le_bytes());
        let crc = crc(0, &out[..segment_at::CRC]);
        put(&mut out, segment_at::CRC, &crc.to_le_bytes());
        out
    }

    /// Magic, checksum and their places are the same in every version, so that a reader can
    /// distinguish a newer version from damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadSegment> {
        if bytes.len() < SEGMENT_HEADER_BYTES
            || bytes[..8] != SEGMENT_MAGIC
            || u32_at(bytes, segment_at::CRC) != crc(0, &bytes[..segment_at::CRC])
        {
            return Err(BadSegment::Damaged);
        }
        match u32_at(bytes, segment_at::VERSION) {
            LOG_VERSION => Ok(Self {
                cluster: u64_at(bytes, segment_at::CLUSTER),
                salt: u64_at(bytes, segment_at::SALT),
                start: Lsn(u64_at(bytes, segment_at::START)),
                capacity_bytes: u64_at(bytes, segment_at::CAPACITY),
            }),
            other => Err(BadSegment::Version(other)),
        }
    }
}

/// The first bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// The position of the group's first byte.
    pub lsn: Lsn,
    /// Everything before this was known to be durable when the group was written (SAFETY G16).
    pub durable_end: Lsn,
    /// Which opening of the log wrote the group; never falls along the log.
    pub incarnation: u32,
    /// Whether the segment ends here.
    pub seal: bool,
    /// Bytes of the records, without padding.
    pub payload_bytes: u32,
    /// How many records there are.
    pub records: u32,
    /// The checksum of the records.
    payload_crc: u32,
}

impl GroupHeader {
    /// Bytes of the whole group with padding: where the next one begins.
    pub fn group_bytes(&self) -> u64 {
        aligned(GROUP_HEADER_BYTES + self.payload_bytes as usize) as u64
    }

    /// The position behind the group.
    pub fn end(&self) -> Lsn {
        Lsn(self.lsn.0 + self.group_bytes())
    }

    /// The header at the front of `bytes`, or nothing if its checksum or any bound is wrong. The
    /// records are not looked at.
    pub fn decode(bytes: &[u8], seed: Seed) -> Option<Self> {
        if bytes.len() < GROUP_HEADER_BYTES
            || u32_at(bytes, group_at::MAGIC) != GROUP_MAGIC
            || u32_at(bytes, group_at::HEADER_CRC)
                != crc(seed.0, &bytes[group_at::LSN..GROUP_HEADER_BYTES])
        {
            return None;
        }
        let flags = u32_at(bytes, group_at::FLAGS);
        let header = Self {
            lsn: Lsn(u64_at(bytes, group_at::LSN)),
            durable_end: Lsn(u64_at(bytes, group_at::DURABLE_END)),
            incarnation: u32_at(bytes, group_at::INCARNATION),
            seal: flags == FLAG_SEAL,
            payload_bytes: u32_at(bytes, group_at::PAYLOAD_BYTES),
            records: u32_at(bytes, group_at::RECORDS),
            payload_crc: u32_at(bytes, group_at::PAYLOAD_CRC),
        };
        let sound = flags <= FLAG_SEAL
            && u32_at(bytes, group_at::ZERO) == 0
            && header.durable_end <= header.lsn
            && header.lsn.0.is_multiple_of(GROUP_ALIGN_BYTES as u64)
            && header.lsn.0 <= u64::MAX - GROUP_BYTES_MAX as u64
            && header.payload_bytes as usize <= GROUP_BYTES_MAX - GROUP_HEADER_BYTES;
        sound.then_some(header)
    }

    /// Whether `payload` is what the header was written for.
    pub fn fits(&self, payload: &[u8], seed: Seed) -> bool {
        payload.len() == self.payload_bytes as usize && self.payload_crc == crc(seed.0, payload)
    }
}

/// Fills in the header of a group whose records already stand behind it, and pads it.
pub(crate) fn seal_group(bytes: &mut Vec<u8>, header: &GroupStamp, records: u32, seed: Seed) {
    let payload_bytes = bytes.len() - GROUP_HEADER_BYTES;
    assert!(bytes.len() <= GROUP_BYTES_MAX, "the builder bounds groups");
    let payload_crc = crc(seed.0, &bytes[GROUP_HEADER_BYTES..]);
    put(bytes, group_at::MAGIC, &GROUP_MAGIC.to_le_bytes());
    put(bytes, group_at::LSN, &header.lsn.0.to_le_bytes());
    put(bytes, group_at::DURABLE_END, &header.durable_end.0.to_le_bytes());
    put(bytes, group_at::INCARNATION, &header.incarnation.to_le_bytes());
    let flags = if header.seal { FLAG_SEAL } else { 0 };
    put(bytes, group_at::FLAGS, &flags.to_le_bytes());
    put(bytes, group_at::PAYLOAD_BYTES, &(payload_bytes as u32).to_le_bytes());
    put(bytes, group_at::RECORDS, &records.to_le_bytes());
    put(bytes, group_at::PAYLOAD_CRC, &payload_crc.to_le_bytes());
    put(bytes, group_at::ZERO, &0u32.to_le_bytes());
    let header_crc = crc(seed.0, &bytes[group_at::LSN..GROUP_HEADER_BYTES]);
    put(bytes, group_at::HEADER_CRC, &header_crc.to_le_bytes());
    bytes.resize(aligned(bytes.len()), 0);
}

/// What a group is stamped with when it is written.
pub(crate) struct GroupStamp {
    pub lsn: Lsn,
    pub durable_end: Lsn,
    pub incarnation: u32,
    pub seal: bool,
}

/// Puts the header of a record of `payload_bytes` at the end of `out`.
pub(crate) fn put_record_header(out: &mut Vec<u8>, shard: ShardId, kind: u8, payload_bytes: u32) {
    let mut header = [0; RECORD_HEADER_BYTES];
    put(&mut header, record_at::SHARD, &shard.0.to_le_bytes());
    put(&mut header, record_at::PAYLOAD_BYTES, &payload_bytes.to_le_bytes());
    header[record_at::KIND] = kind;
    out.extend_from_slice(&header);
}

/// Why bytes are not a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The header's magic, checksum or bounds are wrong, or it is cut short.
    #[error("the group's header is not valid")]
    Header,
    /// The records are cut short.
    #[error("the group is cut short")]
    Short,
    /// The records' checksum is wrong.
    #[error("the group's records do not match their checksum")]
    Payload,
    /// The checksum holds, but the records do not tile the payload: never written by this code.
    #[error("the group's records do not add up")]
    Records,
}

/// Reads the group at the front of `bytes`, checking all but its place in the log.
///
/// # Errors
/// The fault that was found; never panics, whatever the bytes.
pub fn decode_group(bytes: &[u8], seed: Seed) -> Result<(GroupHeader, Records<'_>), DecodeError> {
    let header = GroupHeader::decode(bytes, seed).ok_or(DecodeError::Header)?;
    let payload = bytes
        .get(GROUP_HEADER_BYTES..GROUP_HEADER_BYTES + header.payload_bytes as usize)
        .ok_or(DecodeError::Short)?;
    if !header.fits(payload, seed) {
        return Err(DecodeError::Payload);
    }
    let records = Records::new(payload, header.records).ok_or(DecodeError::Records)?;
    Ok((header, records))
}

/// The records of a group, in the order they were pushed.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// The `count` records that tile `payload`, or nothing if they do not.
    pub fn new(payload: &'a [u8], count: u32) -> Option<Self> {
        let (mut rest, mut left) = (payload, count);
        while !rest.is_empty() {
            (_, rest) = split_record(rest)?;
            left = left.checked_sub(1)?;
        }
        (left == 0).then_some(Self { rest: payload })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (record, rest) = split_record(self.rest)?;
        self.rest = rest;
        Some(record)
    }
}

fn split_record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (header, rest) = bytes.split_at_checked(RECORD_HEADER_BYTES)?;
    let payload_bytes = u32_at(header, record_at::PAYLOAD_BYTES) as usize;
    let (payload, rest) = rest.split_at_checked(payload_bytes)?;
    let shard = ShardId(u64_at(header, record_at::SHARD));
    Some((Record { shard, kind: header[record_at::KIND], payload }, rest))
}
