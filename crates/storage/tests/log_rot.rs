//! Bits flipped, segments lost: a durable group is found, or open refuses and says where.
#![allow(missing_docs)]

mod common;

use common::reader::{self, RawGroup};
use common::{Dice, Model, OPTIONS, OpenedLog, open, open_with};
use storage::Error;
use storage::disk::Disk;
use storage::faulty::{Crash, FaultyDisk};
use storage::log::{LogOptions, Lsn};

/// A log of several segments and incarnations whose every group is durable, with the marker that
/// says so, or without.
fn log_on_disk(seed: u64, marker: bool) -> (FaultyDisk, Model) {
    let disk = FaultyDisk::new(seed);
    let mut model = Model::default();
    let mut dice = Dice(seed);
    for _ in 0..3 {
        let mut log = model.open(&disk).expect("opens");
        for _ in 0..6 {
            model.append(&mut log, &mut dice).expect("appended");
            if dice.below(3) == 0 {
                model.sync(&mut log).expect("synced");
            }
        }
        model.sync(&mut log).expect("synced");
        if marker {
            log.append_marker().expect("written");
        }
        // The marker reaches the medium when it likes; here it has.
        disk.crash(Crash::KeepUnsynced);
    }
    (disk, model)
}

fn segments(disk: &FaultyDisk) -> Vec<String> {
    disk.list().expect("listed").into_iter().filter(|name| name.ends_with(".seg")).collect()
}

/// Every byte of a file for the first seed, some for the others.
fn offsets(disk: &FaultyDisk, file: &str, seed: u64) -> impl Iterator<Item = u64> {
    let step = if seed == 1 { 1 } else { 13 };
    (0..disk.contents(file).expect("there").len() as u64).step_by(step)
}

/// Opens after one bit was flipped; `at_least` groups must be found unless the flip is reported.
fn check_flip(disk: &FaultyDisk, model: &Model, file: &str, offset: u64, at_least: usize) -> bool {
    let disk = disk.fork(offset);
    disk.flip_bit(file, offset, (offset % 8) as u8);
    match open(&disk, model.start) {
        Ok(OpenedLog { groups, .. }) => {
            Model { durable_groups: at_least, ..model.clone() }.check(&groups);
            // What was decided once stays decided.
            assert_eq!(open(&disk, model.start).expect("opens again").groups, groups);
            false
        }
        Err(Error::Rot { file: found, offset: at, remedy, .. }) => {
            assert!(found == file && at <= offset, "{found}:{at} is not {file}:{offset}");
            assert!(!remedy.is_empty());
            true
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn every_flipped_bit_behind_a_marker_is_harmless_or_found() {
    for seed in 1..=8 {
        let (disk, model) = log_on_disk(seed, true);
        let raw = reader::read(&disk);
        for file in segments(&disk) {
            for offset in offsets(&disk, &file, seed) {
                let refused = check_flip(&disk, &model, &file, offset, model.groups.len());
                let within = |group: &&RawGroup| {
                    let end = group.offset + group.bytes;
                    group.file == file && (group.offset..end).contains(&offset)
                };
                // Neither padding nor behind the end; and not the last marker, or a seal before it.
                if let Some(group) = raw.iter().find(within) {
                    let stated = raw.iter().map(|group| group.durable_end).max();
                    let durable = group.group.at.0 < stated.expect("several");
                    assert_eq!(refused, durable, "{file}:{offset}");
                }
            }
        }
    }
}

/// The documented exception, and no more than that: what no other group on disk states to be
/// durable may be taken for a torn tail.
#[test]
fn without_a_marker_only_what_nothing_states_can_be_lost() {
    let mut lost = 0;
    for seed in 1..=8 {
        let (disk, model) = log_on_disk(seed, false);
        let raw = reader::read(&disk);
        for file in segments(&disk) {
            for offset in offsets(&disk, &file, seed) {
                let flipped = |group: &&RawGroup| {
                    let header = group.offset..group.offset + 48;
                    group.file == file && header.contains(&offset)
                };
                let others = raw.iter().filter(|group| !flipped(group));
                let stated = others.map(|group| group.durable_end).max().expect("several");
                let records = raw.iter().filter(|group| !group.group.records.is_empty());
                let at_least = records.filter(|group| group.end() <= stated).count();
                lost += model.groups.len() - at_least;
                check_flip(&disk, &model, &file, offset, at_least);
            }
        }
    }
    assert!(lost > 0, "the exception exists; if it is gone, so should be the paragraph about it");
}

#[test]
fn a_reader_written_from_the_document_agrees() {
    for seed in 1..=50 {
        let (disk, model) = log_on_disk(seed, seed % 2 == 0);
        let raw = reader::read(&disk).into_iter().map(|raw| raw.group);
        let groups: Vec<_> = raw.filter(|group| !group.records.is_empty()).collect();
        assert_eq!(groups, model.groups);
        assert_eq!(open(&disk, model.start).expect("opens").groups, groups);
    }
}

#[test]
fn replay_begins_at_any_group_the_manifest_names() {
    let (disk, model) = log_on_disk(3, true);
    for (index, group) in model.groups.iter().enumerate() {
        let disk = disk.fork(0);
        let found = open(&disk, group.at).expect("opens");
        assert_eq!(found.groups, model.groups[index..]);
    }
}

#[test]
fn a_missing_segment_is_rot() {
    for seed in 1..=10 {
        let (disk, model) = log_on_disk(seed, true);
        let last = reader::read(&disk).last().expect("not empty").file.clone();
        for file in segments(&disk).into_iter().filter(|file| *file <= last) {
            let disk = disk.fork(0);
            disk.remove(&file).expect("removed");
            match open(&disk, model.start) {
                // Of the first one only the position that it held is known, not the name.
                Err(Error::Rot { file: found, .. }) => {
                    assert!(found == file || found == format!("log-{:016x}.seg", model.start.0));
                }
                other => panic!("{file} is missing and open says {:?}", other.map(|f| f.recovered)),
            }
        }
        for file in segments(&disk) {
            disk.remove(&file).expect("removed");
        }
        assert!(matches!(open(&disk, model.start), Err(Error::Rot { .. })));
        assert!(open(&disk, Lsn::NEW).expect("a new log").groups.is_empty());
    }
}

#[test]
fn a_segment_cut_short_is_rot() {
    let (disk, model) = log_on_disk(2, true);
    let last = reader::read(&disk).last().expect("not empty").file.clone();
    for bytes in 0..disk.contents(&last).expect("there").len() as u64 {
        let disk = disk.fork(bytes);
        Disk::open(&disk, &last).expect("there").truncate(bytes).expect("cut");
        let Err(Error::Rot { file, offset, .. }) = open(&disk, model.start) else {
            panic!("a cut at {bytes} went unseen")
        };
        assert!(file == last && (offset == bytes || bytes < 64));
    }
}

#[test]
fn another_clusters_log_and_a_newer_one_are_refused() {
    let (disk, model) = log_on_disk(1, true);
    for options in [LogOptions { cluster: 8, ..OPTIONS }, LogOptions { salt: 1, ..OPTIONS }] {
        assert!(matches!(open_with(&disk, options, model.start), Err(Error::Foreign { .. })));
    }
    for file in segments(&disk) {
        let disk = disk.fork(0);
        let mut header = disk.contents(&file).expect("there")[..64].to_vec();
        header[8..12].copy_from_slice(&2u32.to_le_bytes());
        let crc = reader::crc(0, &header[..60]);
        header[60..].copy_from_slice(&crc.to_le_bytes());
        Disk::open(&disk, &file).expect("there").write_at(&header, 0).expect("written");
        let Err(Error::Version { file: found, found: 2, supported: 1 }) = open(&disk, model.start)
        else {
            panic!("version 2 was read")
        };
        assert_eq!(found, file);
    }
}

#[test]
fn rot_changes_nothing_on_disk() {
    let (disk, model) = log_on_disk(4, true);
    let file = segments(&disk)[0].clone();
    disk.flip_bit(&file, 70, 3);
    let writes = disk.writes();
    assert!(matches!(open(&disk, model.start), Err(Error::Rot { .. })));
    assert_eq!(disk.writes(), writes);
}
