//! Checkpoints and manifests: round trips, power loss at every change, and bit rot everywhere.
#![allow(missing_docs)]

mod common;

use common::Dice;
use keyspace::{NodeId, ShardId};
use storage::Error;
use storage::checkpoint::{
    CheckpointReader, CheckpointWriter, META_BYTES_MAX, checkpoint_name, parse_name,
    remove_temporaries,
};
use storage::faulty::{Crash, FaultyDisk};
use storage::log::Lsn;
use storage::manifest::{self, CheckpointRef, MANIFEST_NAME, Manifest, Origin};

const CLUSTER: u64 = 7;
const SHARD: ShardId = ShardId(0xabc);

fn blocks(dice: &mut Dice) -> Vec<Vec<u8>> {
    let block = |dice: &mut Dice| (0..dice.below(1500)).map(|_| dice.next() as u8).collect();
    (0..dice.below(5)).map(|_| block(dice)).collect()
}

fn write(disk: &FaultyDisk, index: u64, meta: &[u8], blocks: &[Vec<u8>]) -> Result<String, Error> {
    let mut writer = CheckpointWriter::create(disk.handle(), CLUSTER, SHARD, index, meta)?;
    for block in blocks {
        writer.block(block)?;
    }
    writer.finish()
}

fn read(disk: &FaultyDisk, name: &str) -> Result<(Vec<u8>, Vec<Vec<u8>>), Error> {
    let mut reader = CheckpointReader::open(disk, CLUSTER, name)?;
    assert_eq!(parse_name(name), Some((reader.shard(), reader.index())));
    let (mut buffer, mut blocks) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block(&mut buffer)? {
        blocks.push(block.to_vec());
    }
    assert_eq!(reader.next_block(&mut buffer)?, None);
    Ok((reader.meta().to_vec(), blocks))
}

#[test]
fn checkpoint_is_read_as_written() {
    for seed in 1..=50 {
        let disk = FaultyDisk::new(seed);
        let mut dice = Dice(seed);
        let blocks = blocks(&mut dice);
        let meta = vec![dice.next() as u8; dice.below(300) as usize];
        let name = write(&disk, seed, &meta, &blocks).expect("written");
        assert_eq!(name, checkpoint_name(SHARD, seed));
        disk.crash(Crash::LoseUnsynced);
        assert_eq!(read(&disk, &name).expect("durable"), (meta, blocks));
    }
}

#[test]
fn a_checkpoint_is_whole_or_not_there() {
    for mode in [Crash::LoseUnsynced, Crash::KeepUnsynced, Crash::Shuffle] {
        for seed in 1..=20 {
            for writes in 0.. {
                let disk = FaultyDisk::new(seed);
                let blocks = blocks(&mut Dice(seed));
                disk.crash_after_writes(writes);
                let written = write(&disk, 1, b"meta", &blocks);
                disk.crash(mode);
                remove_temporaries(&disk).expect("removed");
                match disk.contents(&checkpoint_name(SHARD, 1)) {
                    None => assert!(written.is_err(), "a durable checkpoint is missing"),
                    Some(_) => {
                        let found = read(&disk, &checkpoint_name(SHARD, 1)).expect("whole");
                        assert_eq!(found, (b"meta".to_vec(), blocks));
                    }
                }
                assert!(disk.contents(&format!("{}.tmp", checkpoint_name(SHARD, 1))).is_none());
                if written.is_ok() {
                    break;
                }
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_checkpoint_is_found() {
    let disk = FaultyDisk::new(1);
    let name =
        write(&disk, 5, b"some meta", &[vec![1; 700], vec![], vec![2; 30]]).expect("written");
    let bytes = disk.contents(&name).expect("there").len() as u64;
    for offset in 0..bytes {
        let disk = disk.fork(offset);
        disk.flip_bit(&name, offset, (offset % 8) as u8);
        let Err(Error::Rot { file, offset: found, .. }) = read(&disk, &name) else {
            panic!("bit flipped at {offset} went unseen")
        };
        assert!(file == name && found <= offset);
    }
    for bytes in 0..bytes {
        let disk = disk.fork(bytes);
        let file = storage::disk::Disk::open(&disk, &name).expect("there");
        file.truncate(bytes).expect("cut");
        assert!(matches!(read(&disk, &name), Err(Error::Rot { .. })), "cut at {bytes} unseen");
    }
    let file = storage::disk::Disk::open(&disk, &name).expect("there");
    file.write_at(&[0], bytes).expect("grown");
    assert!(matches!(read(&disk, &name), Err(Error::Rot { .. })), "trailing byte unseen");
}

#[test]
fn a_checkpoint_under_anothers_name_is_refused() {
    let disk = FaultyDisk::new(1);
    let name = write(&disk, 5, b"", &[]).expect("written");
    assert!(matches!(CheckpointReader::open(&disk, 8, &name), Err(Error::Foreign { .. })));
    let other = checkpoint_name(SHARD, 6);
    assert!(matches!(read(&disk, &other), Err(Error::Rot { .. })), "missing is an error");
    storage::disk::Disk::rename(&disk, &name, &other).expect("renamed");
    assert!(matches!(read(&disk, &other), Err(Error::Rot { .. })));
}

/// A round writes a checkpoint while another node sends the same state.
#[test]
fn written_and_received_checkpoints_do_not_collide() {
    for first in ["written", "received"] {
        let disk = FaultyDisk::new(1);
        let new = |received: bool| match received {
            false => CheckpointWriter::create(disk.handle(), CLUSTER, SHARD, 4, b"w"),
            true => CheckpointWriter::create_received(disk.handle(), CLUSTER, SHARD, 4, b"r"),
        };
        let mut written = new(false).expect("made");
        let mut received = new(true).expect("made beside");
        written.block(&[1; 100]).expect("room");
        received.block(&[2; 100]).expect("room");
        let (stays, block) = if first == "received" {
            received.abandon().expect("only its own is removed");
            (written, [1; 100])
        } else {
            written.abandon().expect("only its own is removed");
            (received, [2; 100])
        };
        let name = stays.finish().expect("it is still there");
        assert_eq!(read(&disk, &name).expect("whole").1, [block]);
        // What is dropped is removed by the next start, of either kind.
        drop((new(false).expect("made"), new(true).expect("made")));
        storage::checkpoint::remove_temporaries(&disk).expect("removed");
        assert_eq!(storage::disk::Disk::list(&disk).expect("listed"), [name]);
    }
}

#[test]
fn a_full_disk_refuses_a_checkpoint_and_takes_it_later() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity_bytes(1000);
    let mut writer = CheckpointWriter::create(disk.handle(), CLUSTER, SHARD, 1, b"").expect("made");
    assert!(matches!(writer.block(&[1; 2000]), Err(Error::Full { .. })));
    writer.abandon().expect("removed");
    assert!(storage::disk::Disk::list(&disk).expect("listed").is_empty());
    // A removed file's space is free for certain only when the removal is durable.
    storage::disk::Disk::sync_dir(&disk).expect("synced");
    // Room for all but the footer.
    disk.set_capacity_bytes(48 + 8 + 100 + 23);
    assert!(matches!(write(&disk, 1, b"", &[vec![1; 100]]), Err(Error::Full { .. })));
    assert!(storage::disk::Disk::list(&disk).expect("listed").is_empty());
    storage::disk::Disk::sync_dir(&disk).expect("synced");
    disk.set_capacity_bytes(5000);
    let name = write(&disk, 1, b"", &[vec![1; 2000]]).expect("written");
    assert_eq!(read(&disk, &name).expect("read").1, [vec![1; 2000]]);
    let meta = vec![0; META_BYTES_MAX + 1];
    assert!(matches!(write(&disk, 2, &meta, &[]), Err(Error::TooLarge { .. })));
}

fn manifest(dice: &mut Dice) -> Manifest {
    let checkpoint = |shard| CheckpointRef { shard: ShardId(shard), applied_index: shard * 7 };
    Manifest {
        cluster: dice.next(),
        node: NodeId(dice.next()),
        hash_seed: [dice.next() as u8; 16],
        log_salt: dice.next(),
        origin: [Origin::Founder, Origin::Joined][dice.below(2) as usize],
        joined_at: dice.next(),
        log_start: Lsn(dice.next()),
        checkpoints: (0..dice.below(40)).map(checkpoint).collect(),
    }
}

#[test]
fn a_manifest_is_the_old_one_or_the_new_one() {
    for mode in [Crash::LoseUnsynced, Crash::KeepUnsynced, Crash::Shuffle] {
        for seed in 1..=20 {
            for writes in 0.. {
                let disk = FaultyDisk::new(seed);
                let mut dice = Dice(seed);
                let (old, new) = (manifest(&mut dice), manifest(&mut dice));
                assert_eq!(manifest::load(&disk).expect("new"), None);
                manifest::store(&disk, &old).expect("stored");
                disk.crash_after_writes(writes);
                let stored = manifest::store(&disk, &new);
                disk.crash(mode);
                let found = manifest::load(&disk).expect("readable").expect("there");
                assert!(found == new || (found == old && stored.is_err()));
                // What the interrupted store left does not stand in the way.
                manifest::store(&disk, &new).expect("stored");
                if stored.is_ok() {
                    break;
                }
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_manifest_is_found() {
    let disk = FaultyDisk::new(1);
    let mut dice = Dice(5);
    let mut stored = manifest(&mut dice);
    while stored.checkpoints.is_empty() {
        stored = manifest(&mut dice);
    }
    manifest::store(&disk, &stored).expect("stored");
    let bytes = disk.contents(MANIFEST_NAME).expect("there").len() as u64;
    for bit in 0..bytes * 8 {
        let disk = disk.fork(bit);
        disk.flip_bit(MANIFEST_NAME, bit / 8, (bit % 8) as u8);
        assert!(matches!(manifest::load(&disk), Err(Error::Rot { .. })), "bit {bit} unseen");
    }
    for bytes in 0..bytes {
        let disk = disk.fork(bytes);
        let file = storage::disk::Disk::open(&disk, MANIFEST_NAME).expect("there");
        file.truncate(bytes).expect("cut");
        assert!(matches!(manifest::load(&disk), Err(Error::Rot { .. })), "cut at {bytes} unseen");
    }
}

#[test]
fn a_manifest_of_another_version_is_refused_by_name() {
    let disk = FaultyDisk::new(1);
    // As version 1 wrote it, of a node without checkpoints.
    let mut bytes = vec![0; 72];
    bytes[..8].copy_from_slice(b"CARIMANI");
    bytes[8] = 1;
    bytes[16] = 72;
    let crc = crc32fast::hash(&[&bytes[..12], &bytes[16..]].concat());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    let file = storage::disk::Disk::create(&disk, MANIFEST_NAME).expect("made");
    file.write_at(&bytes, 0).expect("written");
    let found = manifest::load(&disk);
    assert!(matches!(found, Err(Error::Version { found: 1, supported: 2, .. })), "{found:?}");
}

#[test]
fn a_directory_with_data_and_no_manifest_is_not_new() {
    for orphan in [&checkpoint_name(SHARD, 1), "log-0000000000000000.seg"] {
        let disk = FaultyDisk::new(1);
        storage::disk::Disk::create(&disk, "some other file").expect("made");
        assert_eq!(manifest::load(&disk).expect("new"), None);
        storage::disk::Disk::create(&disk, orphan).expect("made");
        let Err(Error::Orphan { file, .. }) = manifest::load(&disk) else { panic!("taken as new") };
        assert_eq!(file, orphan);
    }
}

#[test]
fn checkpoints_no_manifest_names_are_removed() {
    let disk = FaultyDisk::new(1);
    for index in 1..=3 {
        write(&disk, index, b"", &[]).expect("written");
    }
    let mut stored = manifest(&mut Dice(1));
    stored.checkpoints = vec![CheckpointRef { shard: SHARD, applied_index: 2 }];
    manifest::store(&disk, &stored).expect("stored");
    manifest::remove_unlisted(&disk, &stored).expect("removed");
    let names = storage::disk::Disk::list(&disk).expect("listed");
    assert_eq!(names, [MANIFEST_NAME, &stored.checkpoints[0].name()]);
}
