//! Full disks, failed syncs, short writes, and what dead bytes could do.
#![allow(missing_docs)]

mod common;

use common::{Dice, Model, OPTIONS, open, sync};
use keyspace::ShardId;
use storage::Error;
use storage::disk::Disk;
use storage::faulty::{Crash, FaultyDisk};
use storage::log::layout::GROUP_BYTES_MAX;
use storage::log::{Group, Log, LogOptions, Lsn};

fn used_bytes(disk: &FaultyDisk) -> u64 {
    let names = disk.list().expect("listed");
    names.iter().map(|name| disk.contents(name).expect("there").len() as u64).sum()
}

fn group(bytes: usize) -> Group {
    let mut group = Group::new();
    group.push(ShardId(1), 1, &[&vec![7; bytes]]).expect("small");
    group
}

#[test]
fn reserved_space_can_be_appended_on_full_disk() {
    for seed in 1..=300 {
        let disk = FaultyDisk::new(seed);
        let mut dice = Dice(seed);
        let mut log = open(&disk, Lsn::NEW).expect("opens").log;
        for _ in 0..20 {
            disk.set_capacity_bytes(u64::MAX);
            let mut left = dice.below(6000);
            log.reserve(left).expect("space");
            disk.set_capacity_bytes(used_bytes(&disk));
            while left >= Group::bytes_of_empty() + Group::bytes_of_record(0) {
                let largest = left - Group::bytes_of_empty() - Group::bytes_of_record(0);
                let mut group = group(dice.below(largest.min(900) + 1) as usize);
                if group.bytes() > left {
                    break;
                }
                left -= group.bytes();
                log.append(&mut group).expect("reserved");
                if dice.below(3) == 0 {
                    sync(&mut log).expect("synced");
                    // Takes no room from what is reserved.
                    log.append_marker().expect("never full");
                }
            }
        }
    }
}

#[test]
fn markers_leave_what_is_reserved() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    log.reserve(64_000).expect("space");
    disk.set_capacity_bytes(used_bytes(&disk));
    let mut skipped = 0;
    for _ in 0..1000 {
        let mut group = group(3);
        assert_eq!(group.bytes(), 64);
        log.append(&mut group).expect("reserved");
        sync(&mut log).expect("synced");
        log.append_marker().expect("never full");
        skipped += u64::from(log.wants_marker());
    }
    assert!(skipped > 500, "there was no room for so many");
}

#[test]
fn a_full_disk_changes_nothing_and_space_that_returns_is_used() {
    for seed in 1..=100 {
        let disk = FaultyDisk::new(seed);
        let mut dice = Dice(seed);
        let mut model = Model::default();
        let mut log = model.open(&disk).expect("opens");
        disk.set_capacity_bytes(8000 + dice.below(8000));
        let mut full = 0;
        while full < 5 {
            match model.append(&mut log, &mut dice) {
                Ok(()) => {}
                Err(Error::Full { .. }) => full += 1,
                Err(e) => panic!("{e}"),
            }
            assert_eq!(log.bytes_on_disk(), used_bytes(&disk));
        }
        assert!(matches!(log.reserve(100_000), Err(Error::Full { .. })));
        model.sync(&mut log).expect("syncs go on");
        disk.set_capacity_bytes(u64::MAX);
        log.reserve(100_000).expect("space is back");
        model.append(&mut log, &mut dice).expect("space is back");
        model.sync(&mut log).expect("synced");
        drop(log);
        // A node whose disk is full starts and reads.
        disk.crash(Crash::LoseUnsynced);
        disk.set_capacity_bytes(0);
        model.open(&disk).expect("opens");
    }
}

fn assert_poisoned(log: &mut Log) {
    let is_poisoned = |result: Result<(), Error>| matches!(result, Err(Error::Poisoned));
    assert!(is_poisoned(log.append(&mut group(1)).map(|_| ())));
    assert!(is_poisoned(log.append_marker()));
    assert!(is_poisoned(log.reserve(1)));
    assert!(is_poisoned(log.begin_sync().map(|_| ())));
    assert!(is_poisoned(log.truncate_before(Lsn(0))));
}

fn work_until_failure(model: &mut Model, log: &mut Log, dice: &mut Dice) -> Error {
    loop {
        if let Err(e) = model.work(log, dice, 5) {
            return e;
        }
    }
}

/// The making of a log fails at any of its syncs; the next start, in the same life of the
/// machine, does not rely on what the failed sync left in memory.
#[test]
fn a_log_whose_making_failed_is_made_again() {
    for seed in 0..40 {
        let disk = FaultyDisk::new(seed);
        disk.fail_sync(seed % 3);
        assert!(open(&disk, Lsn::NEW).is_err());
        disk.kill();
        let mut model = Model::default();
        let mut log = model.open(&disk).expect("opens");
        model.append(&mut log, &mut Dice(seed + 1)).expect("appended");
        model.sync(&mut log).expect("synced");
        disk.crash(Crash::LoseUnsynced);
        model.open(&disk).expect("opens");
    }
}

#[test]
fn a_failed_sync_poisons_and_promises_nothing() {
    for seed in 1..=300 {
        let disk = FaultyDisk::new(seed);
        let mut dice = Dice(seed);
        let mut model = Model::default();
        let mut log = model.open(&disk).expect("opens");
        disk.fail_sync(dice.below(8));
        let failed = work_until_failure(&mut model, &mut log, &mut dice);
        assert!(matches!(failed, Error::Io { action: "sync", .. }), "{failed}");
        assert_poisoned(&mut log);
        drop(log);
        // The kernel may show what the medium never got. A restart sees that; it must hold what
        // was promised, and must not promise what a later power loss takes.
        if seed % 3 == 0 {
            disk.crash(Crash::Shuffle);
        } else {
            disk.kill();
        }
        let mut log = model.open(&disk).expect("opens");
        if seed % 3 == 1 {
            disk.crash(Crash::LoseUnsynced);
            log = model.open(&disk).expect("opens");
        }
        model.append(&mut log, &mut dice).expect("appended");
        model.sync(&mut log).expect("synced");
        disk.crash(Crash::LoseUnsynced);
        model.open(&disk).expect("opens");
    }
}

#[test]
fn a_short_write_poisons_and_is_cut() {
    for seed in 1..=300 {
        let disk = FaultyDisk::new(seed);
        let mut dice = Dice(seed);
        let mut model = Model::default();
        let mut log = model.open(&disk).expect("opens");
        disk.fail_write(dice.below(30));
        let failed = work_until_failure(&mut model, &mut log, &mut dice);
        assert!(matches!(failed, Error::Io { action: "write", .. }), "{failed}");
        assert_poisoned(&mut log);
        drop(log);
        disk.kill();
        let mut log = model.open(&disk).expect("opens");
        model.append(&mut log, &mut dice).expect("appended");
        model.sync(&mut log).expect("synced");
        disk.crash(Crash::LoseUnsynced);
        model.open(&disk).expect("opens");
    }
}

/// A torn group is cut and something shorter is written in its place; the rest of what was torn
/// lies behind that and must not come back.
#[test]
fn overwritten_log_groups_never_come_back() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    let start = log.written_end();
    for _ in 0..4 {
        log.append(&mut group(19)).expect("appended");
    }
    // Of four unsynced groups of 80 bytes the first is torn.
    let segment = "log-0000000000000000.seg";
    disk.flip_bit(segment, start.0 + 60, 0);
    let dead = disk.contents(segment).expect("there")[144..384].to_vec();
    disk.kill();
    let found = open(&disk, start).expect("opens");
    assert_eq!((found.groups.len(), found.recovered.cut_bytes), (0, 320));
    let mut log = found.log;
    log.append(&mut group(19)).expect("appended");
    disk.kill();
    let found = open(&disk, start).expect("opens");
    assert_eq!((found.groups.len(), found.recovered.cut_bytes), (1, 0));
    // Even a medium that forgets being overwritten does not bring them back.
    let file = Disk::open(&disk, segment).expect("there");
    file.write_at(&dead, 144).expect("written");
    disk.kill();
    let found = open(&disk, start).expect("opens");
    assert_eq!((found.groups.len(), found.recovered.cut_bytes), (1, 240));
}

#[test]
fn a_stored_value_cannot_pass_for_a_group() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    let start = log.written_end();
    log.append(&mut group(19)).expect("appended");
    sync(&mut log).expect("synced");
    log.append_marker().expect("written");
    // The bytes of a real group that states something to be durable, stored as a value, torn.
    let segment = disk.contents("log-0000000000000000.seg").expect("there");
    let mut thief = Group::new();
    thief.push(ShardId(1), 1, &[&[0; 27], &segment[144..192], &segment[144..192]]).expect("small");
    log.append(&mut thief).expect("appended");
    disk.flip_bit("log-0000000000000000.seg", 192 + 50, 0);
    disk.kill();
    assert_eq!(open(&disk, start).expect("a torn tail").groups.len(), 1);
}

#[test]
fn markers_state_what_is_durable_once() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    assert!(!log.wants_marker() && !log.needs_sync());
    log.append(&mut group(10)).expect("appended");
    assert!(!log.wants_marker() && log.needs_sync());
    sync(&mut log).expect("synced");
    assert!(log.wants_marker() && !log.needs_sync());
    let end = log.written_end();
    log.append_marker().expect("written");
    assert_eq!(log.written_end().0, end.0 + Group::bytes_of_empty());
    assert!(!log.wants_marker() && !log.needs_sync());
    log.append_marker().expect("nothing to state");
    assert_eq!(log.written_end().0, end.0 + Group::bytes_of_empty());
    assert_eq!(log.durable_end(), end);
}

#[test]
fn syncs_may_end_in_any_order() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    log.append(&mut group(10)).expect("appended");
    let first = log.begin_sync().expect("begun");
    log.append(&mut group(1900)).expect("appended");
    let second = log.begin_sync().expect("begun");
    let (first_done, second_done) = (first.run(), second.run());
    log.finish_sync(&second, second_done).expect("synced");
    assert_eq!(log.durable_end(), log.written_end());
    log.finish_sync(&first, first_done).expect("synced");
    assert_eq!(log.durable_end(), log.written_end());
}

/// The error of one write may be reported to one of two overlapping syncs only.
#[test]
fn no_sync_succeeds_after_one_failed() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    log.append(&mut group(10)).expect("appended");
    let (first, second) = (log.begin_sync().expect("begun"), log.begin_sync().expect("begun"));
    disk.fail_sync(0);
    let (first_done, second_done) = (first.run(), second.run());
    assert!(first_done.is_err() && second_done.is_err());
    let durable_end = log.durable_end();
    assert_poisoned(&mut log);
    assert!(matches!(log.finish_sync(&second, second_done), Err(Error::Io { .. })));
    assert!(matches!(log.finish_sync(&first, Ok(())), Err(Error::Poisoned)));
    assert_eq!(log.durable_end(), durable_end);
}

#[test]
fn writers_do_not_wait_for_a_segment_that_is_made_ahead() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    let mut made = 0;
    for step in 0..100 {
        if let Some(job) = log.begin_segment() {
            assert!(!log.wants_segment() && log.begin_segment().is_none(), "one job at a time");
            job.run().expect("made");
            made += 1;
            assert_eq!(log.bytes_on_disk(), used_bytes(&disk));
        }
        let syncs = disk.syncs();
        log.append(&mut group(100 + step)).expect("appended");
        assert_eq!(disk.syncs(), syncs, "the writer made a segment");
    }
    assert!(made > 5);
    // A job that comes too late does nothing.
    let job = loop {
        match log.begin_segment() {
            Some(job) => break job,
            None => log.append(&mut group(100)).map(|_| ()).expect("appended"),
        }
    };
    log.reserve(3000).expect("made by the writer");
    let writes = disk.writes();
    job.run().expect("nothing to do");
    assert_eq!(disk.writes(), writes);
    let start = found_start(&mut log);
    disk.kill();
    open(&disk, start).expect("opens");
}

/// The position a manifest would name for a log that lost nothing.
fn found_start(log: &mut Log) -> Lsn {
    sync(log).expect("synced");
    log.durable_end()
}

#[test]
fn a_segment_that_cannot_be_made_ahead() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    log.append(&mut group(1200)).expect("appended");
    disk.set_capacity_bytes(used_bytes(&disk));
    log.begin_segment().expect("half full").run().expect("a full disk is no failure");
    assert!(matches!(log.reserve(1000), Err(Error::Full { .. })));
    disk.set_capacity_bytes(u64::MAX);
    log.reserve(1000).expect("space");
    for _ in 0..2 {
        log.append(&mut group(1900)).expect("appended");
    }
    disk.fail_sync(0);
    let job = log.begin_segment().expect("half full");
    assert!(matches!(job.run(), Err(Error::Io { .. })));
    assert_poisoned(&mut log);
}

#[test]
fn segments_go_when_nothing_needs_them() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    for _ in 0..100 {
        log.append(&mut group(100)).expect("appended");
    }
    sync(&mut log).expect("synced");
    let (before, end) = (log.bytes_on_disk(), log.durable_end());
    assert_eq!(before, used_bytes(&disk));
    log.truncate_before(end).expect("removed");
    assert!(log.bytes_on_disk() < before && log.bytes_on_disk() == used_bytes(&disk));
    // The removals were not synced: they may come back, and mean nothing.
    disk.crash(Crash::LoseUnsynced);
    assert_eq!(used_bytes(&disk), before);
    let log = open(&disk, end).expect("opens").log;
    assert_eq!(log.bytes_on_disk(), used_bytes(&disk));
}

#[test]
fn large_groups_get_a_segment_of_their_size() {
    let disk = FaultyDisk::new(1);
    let mut log = open(&disk, Lsn::NEW).expect("opens").log;
    let start = log.written_end();
    for bytes in [100, 3_000_000, 100, 9000] {
        log.append(&mut group(bytes)).expect("appended");
    }
    disk.kill();
    let found = open(&disk, start).expect("opens");
    let lengths: Vec<usize> = found.groups.iter().map(|group| group.records[0].2.len()).collect();
    assert_eq!(lengths, [100, 3_000_000, 100, 9000]);
    let mut log = found.log;
    log.reserve(2 * GROUP_BYTES_MAX as u64).expect("as large as needed");
    log.append(&mut group(5)).expect("appended");
}

#[test]
fn small_syncs_find_their_bytes_written_before_and_large_ones_need_not() {
    // A piece is 16 KiB here.
    let options = LogOptions { segment_bytes: 64 << 10, ..OPTIONS };
    let disk = FaultyDisk::new(3);
    let mut log = common::open_with(&disk, options, Lsn::NEW).expect("a new log").log;
    let syncs_with = |log: &mut Log, bytes: usize, count: usize| {
        let before = disk.writes();
        for _ in 0..count {
            let mut group = Group::new();
            group.push(ShardId(1), 1, &[&vec![9; bytes]]).expect("small");
            log.append(&mut group).expect("room");
            sync(log).expect("a disk that works");
        }
        disk.writes() - before - 2 * count as u64
    };
    assert_eq!(syncs_with(&mut log, 100, 1), 1, "the first touches");
    assert_eq!(syncs_with(&mut log, 100, 60), 0, "what it touched is enough");
    assert_eq!(syncs_with(&mut log, 100, 60), 1, "then the next piece");
    assert_eq!(syncs_with(&mut log, 6_000, 4), 0, "larger than a part of a piece");
    let end = log.written_end();
    drop(log);
    let found = common::open_with(&disk, options, Lsn(64)).expect("sound");
    assert_eq!((found.recovered.groups, found.log.written_end()), (125, end));
}
