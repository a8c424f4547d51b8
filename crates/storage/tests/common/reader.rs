//! A reader of segments written from docs/format.md alone, to keep that page true.
#![allow(missing_docs, dead_code)]

use super::{OPTIONS, OwnedGroup, OwnedRecord};
use keyspace::ShardId;
use storage::disk::Disk;
use storage::faulty::FaultyDisk;
use storage::log::Lsn;

/// A group as it lies on disk.
pub struct RawGroup {
    pub file: String,
    /// Offset of the group in its file.
    pub offset: u64,
    /// Bytes of header and records, without padding.
    pub bytes: u64,
    pub durable_end: u64,
    pub seal: bool,
    pub group: OwnedGroup,
}

impl RawGroup {
    pub fn end(&self) -> u64 {
        self.group.at.0 + self.bytes.next_multiple_of(8)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A CRC-32 as a table-free loop, so that nothing of the code under test is used.
pub fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut crc = !seed;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// All groups of an undamaged log, marks and seals included.
pub fn read(disk: &FaultyDisk) -> Vec<RawGroup> {
    let names = disk.list().unwrap();
    let segments: Vec<&String> = names.iter().filter(|name| name.ends_with(".seg")).collect();
    let seed = crc(crc(0, &OPTIONS.cluster.to_le_bytes()), &OPTIONS.salt.to_le_bytes());
    let mut out: Vec<RawGroup> = Vec::new();
    let (mut at, mut incarnation) = (None, 0);
    for name in segments {
        let bytes = disk.contents(name).unwrap();
        assert_eq!(&bytes[..8], b"CARILOG\0");
        assert_eq!(u32_at(&bytes, 8), 1);
        assert_eq!((u64_at(&bytes, 16), u64_at(&bytes, 24)), (OPTIONS.cluster, OPTIONS.salt));
        let start = u64_at(&bytes, 32);
        assert_eq!(*name, format!("log-{start:016x}.seg"));
        assert_eq!(u64_at(&bytes, 40), bytes.len() as u64);
        assert_eq!(u32_at(&bytes, 60), crc(0, &bytes[..60]));
        match at {
            Some(at) if at != start => break, // made ahead, not in use
            _ => at = None,
        }
        let mut offset = 64;
        while at.is_none() && u32_at(&bytes, offset) == u32::from_le_bytes(*b"CGRP") {
            let header = &bytes[offset..offset + 48];
            assert_eq!(u32_at(header, 4), crc(seed, &header[8..]));
            assert_eq!(u64_at(header, 8), start + offset as u64);
            assert!(u32_at(header, 24) >= incarnation);
            incarnation = u32_at(header, 24);
            let payload_bytes = u32_at(header, 32) as usize;
            let payload = &bytes[offset + 48..offset + 48 + payload_bytes];
            assert_eq!(u32_at(header, 40), crc(seed, payload));
            let records = records(payload, u32_at(header, 36));
            out.push(RawGroup {
                file: name.clone(),
                offset: offset as u64,
                bytes: 48 + payload_bytes as u64,
                durable_end: u64_at(header, 16),
                seal: u32_at(header, 28) == 1,
                group: OwnedGroup { at: Lsn(start + offset as u64), records },
            });
            offset = (offset + 48 + payload_bytes).next_multiple_of(8);
            if u32_at(header, 28) == 1 {
                at = Some(start + bytes.len() as u64);
            }
        }
        if at.is_none() {
            break;
        }
    }
    out
}

fn records(mut payload: &[u8], count: u32) -> Vec<OwnedRecord> {
    let mut out = Vec::new();
    while !payload.is_empty() {
        let bytes = u32_at(payload, 8) as usize;
        out.push((ShardId(u64_at(payload, 0)), payload[12], payload[13..13 + bytes].to_vec()));
        payload = &payload[13 + bytes..];
    }
    assert_eq!(out.len(), count as usize);
    out
}
