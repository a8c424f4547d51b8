//! The decoder of groups: round trips, and no panic on any bytes.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;

use keyspace::ShardId;
use proptest::collection::vec;
use proptest::prelude::*;
use storage::Error;
use storage::faulty::FaultyDisk;
use storage::log::layout::{GROUP_HEADER_BYTES, RECORD_HEADER_BYTES};
use storage::log::{DecodeError, Group, Log, LogOptions, Lsn, Records, Seed, decode_group};

const OPTIONS: LogOptions = LogOptions { cluster: 1, salt: 2, segment_bytes: 4096 };

fn seed() -> Seed {
    Seed::new(OPTIONS.cluster, OPTIONS.salt)
}

type OwnedRecord = (u64, u8, Vec<u8>);

/// The bytes `records` take on disk as one group, and its position.
fn encode(records: &[OwnedRecord]) -> (Lsn, Vec<u8>) {
    let disk = FaultyDisk::new(0);
    let (mut log, found) =
        Log::open::<Error>(disk.handle(), OPTIONS, Lsn::NEW, &mut |_, _| Ok(())).expect("opens");
    let mut group = Group::new();
    for (shard, kind, payload) in records {
        group.push(ShardId(*shard), *kind, &[payload]).expect("small");
    }
    let bytes = group.bytes() as usize;
    log.reserve(0).expect("space");
    let end = log.append(&mut group).expect("appended");
    assert_eq!(end.0, found.end.0 + bytes as u64);
    let segment = disk.contents("log-0000000000000000.seg").expect("there");
    (found.end, segment[64..64 + bytes].to_vec())
}

fn records() -> impl Strategy<Value = Vec<OwnedRecord>> {
    vec((any::<u64>(), 1..=u8::MAX, vec(any::<u8>(), 0..300)), 1..8)
}

proptest! {
    #[test]
    fn groups_are_read_as_they_were_written(records in records()) {
        let (lsn, bytes) = encode(&records);
        let (header, found) = decode_group(&bytes, seed()).expect("valid");
        prop_assert_eq!((header.lsn, header.end().0), (lsn, lsn.0 + bytes.len() as u64));
        prop_assert_eq!((header.records, header.incarnation), (records.len() as u32, 1));
        let found: Vec<OwnedRecord> =
            found.map(|record| (record.shard.0, record.kind, record.payload.to_vec())).collect();
        prop_assert_eq!(found, records);
    }

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..400)) {
        prop_assert!(decode_group(&bytes, seed()).is_err());
    }

    #[test]
    fn no_payload_panics(bytes in vec(any::<u8>(), 0..400), count in 0..4u32) {
        if let Some(records) = Records::new(&bytes, count) {
            let sum: usize = records.map(|r| RECORD_HEADER_BYTES + r.payload.len()).sum();
            prop_assert_eq!(sum, bytes.len());
        }
    }

    #[test]
    fn a_changed_byte_is_found(
        records in records(),
        at in any::<prop::sample::Index>(),
        by in 1..=255u8,
    ) {
        let (_, mut bytes) = encode(&records);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        let payload: usize = records.iter().map(|r| RECORD_HEADER_BYTES + r.2.len()).sum();
        let expected = match at {
            at if at < GROUP_HEADER_BYTES => Some(DecodeError::Header),
            at if at < GROUP_HEADER_BYTES + payload => Some(DecodeError::Payload),
            _ => None, // padding
        };
        prop_assert_eq!(decode_group(&bytes, seed()).err(), expected);
    }

    #[test]
    fn a_cut_group_is_found(records in records(), at in any::<prop::sample::Index>()) {
        let (_, bytes) = encode(&records);
        let payload: usize = records.iter().map(|r| RECORD_HEADER_BYTES + r.2.len()).sum();
        let cut = at.index(GROUP_HEADER_BYTES + payload);
        prop_assert!(decode_group(&bytes[..cut], seed()).is_err());
    }

    #[test]
    fn another_logs_group_is_refused(records in records(), cluster in 2..9u64) {
        let (_, bytes) = encode(&records);
        let other = Seed::new(cluster, OPTIONS.salt);
        prop_assert_eq!(decode_group(&bytes, other).err(), Some(DecodeError::Header));
    }
}

/// The seeds of the fuzz target `log_group`: the good ones are read, the bad ones refused.
#[test]
#[allow(clippy::disallowed_methods, reason = "the corpus is files")]
fn the_corpus_is_read_without_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/log_group");
    let (mut good, mut bad) = (0, 0);
    for file in fs::read_dir(corpus).expect("there") {
        let path = file.expect("listed").path();
        let bytes = fs::read(&path).expect("readable");
        let decoded = decode_group(&bytes, Seed::new(7, 99));
        let name = path.file_name().and_then(|name| name.to_str()).expect("ASCII");
        assert_eq!(decoded.is_ok(), name.starts_with("good"), "{name}: {:?}", decoded.err());
        if let Ok((header, records)) = decoded {
            assert_eq!(records.count(), header.records as usize);
            good += 1;
        } else {
            bad += 1;
        }
    }
    assert!(good >= 4 && bad >= 6, "{good} good and {bad} bad files");
}
