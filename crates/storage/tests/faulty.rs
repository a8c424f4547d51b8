//! The faulty disk itself: it keeps what it must, loses what it may, and repeats itself.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::io::ErrorKind;

use storage::disk::Disk;
use storage::faulty::{Crash, FaultyDisk};

const ALL: [Crash; 4] =
    [Crash::LoseUnsynced, Crash::KeepUnsynced, Crash::Shuffle, Crash::ShuffleOrderedNames];

/// A disk with a synced file "a" of four sectors of ones.
fn disk(seed: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(seed);
    let file = disk.create("a").expect("made");
    file.write_at(&[1; 2048], 0).expect("written");
    file.sync().expect("synced");
    disk.sync_dir().expect("synced");
    disk
}

#[test]
fn synced_writes_survive_and_unsynced_ones_are_torn() {
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        for crash in ALL {
            let disk = disk(seed);
            let file = disk.open("a").expect("there");
            file.write_at(&[2; 1024], 768).expect("written");
            file.write_at(&[3; 100], 1100).expect("written");
            disk.crash(crash);
            let bytes = disk.contents("a").expect("there");
            assert_eq!((&bytes[..768], &bytes[1792..]), (&[1; 768][..], &[1; 256][..]));
            let state: Vec<u8> = [800, 1050, 1150, 1600].map(|at| bytes[at]).to_vec();
            match crash {
                Crash::LoseUnsynced => assert_eq!(state, [1, 1, 1, 1]),
                Crash::KeepUnsynced => assert_eq!(state, [2, 2, 3, 2]),
                _ => {
                    seen.insert(state);
                }
            }
        }
    }
    // Three sectors of two, three and two states, each by itself.
    assert_eq!(seen.len(), 2 * 3 * 2);
}

#[test]
fn a_length_that_was_not_synced_may_be_any_it_has_had() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let disk = disk(seed);
        let file = disk.open("a").expect("there");
        file.reserve(5000).expect("space");
        file.truncate(700).expect("cut");
        disk.crash(Crash::Shuffle);
        let bytes = disk.contents("a").expect("there");
        assert!(bytes[..700].iter().all(|&byte| byte == 1));
        seen.insert(bytes.len());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [700, 2048, 5000]);
}

#[test]
fn names_survive_by_the_directorys_sync() {
    let (mut any, mut ordered) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..200 {
        for crash in ALL {
            let disk = disk(seed);
            disk.create("b").expect("made");
            disk.rename("b", "c").expect("renamed");
            disk.remove("a").expect("removed");
            disk.crash(crash);
            let names = disk.list().expect("listed");
            match crash {
                Crash::LoseUnsynced => assert_eq!(names, ["a"]),
                Crash::KeepUnsynced => assert_eq!(names, ["c"]),
                Crash::Shuffle => drop(any.insert(names)),
                Crash::ShuffleOrderedNames => drop(ordered.insert(names)),
            }
        }
    }
    let names = |text: &[&str]| text.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(any.len(), 6, "{any:?}");
    assert_eq!(
        ordered,
        [names(&["a"]), names(&["a", "b"]), names(&["a", "c"]), names(&["c"])].into()
    );
}

#[test]
fn a_failed_sync_forgets() {
    let mut kept = BTreeSet::new();
    for seed in 0..50 {
        let disk = disk(seed);
        let file = disk.open("a").expect("there");
        file.write_at(&[2; 512], 0).expect("written");
        disk.fail_sync(0);
        assert!(file.sync().is_err());
        file.sync().expect("says so");
        assert_eq!(disk.contents("a").expect("there")[0], 2, "still seen");
        disk.crash(Crash::KeepUnsynced);
        kept.insert(disk.contents("a").expect("there")[0]);
    }
    assert_eq!(kept, [1, 2].into());
}

#[test]
fn power_goes_after_so_many_changes_and_comes_back() {
    let disk = disk(1);
    let file = disk.open("a").expect("there");
    disk.crash_after_writes(1);
    file.write_at(&[2; 512], 0).expect("written");
    assert!(file.read_at(&mut [0], 0).is_ok());
    assert!(file.write_at(&[3; 512], 512).is_err(), "meets the power loss");
    assert!(file.write_at(&[4; 512], 1024).is_err());
    assert!(file.read_at(&mut [0], 0).is_err() && disk.list().is_err());
    disk.crash(Crash::KeepUnsynced);
    let bytes = disk.contents("a").expect("there");
    assert_eq!([bytes[0], bytes[512], bytes[1024]], [2, 3, 1]);
    assert!(file.sync().is_err(), "a handle of the earlier life");
    disk.open("a").expect("there").sync().expect("a new one");
}

#[test]
fn a_kill_loses_nothing_and_syncs_nothing() {
    let disk = disk(1);
    let file = disk.open("a").expect("there");
    file.write_at(&[2; 512], 0).expect("written");
    disk.kill();
    assert!(file.write_at(&[3; 512], 0).is_err());
    assert_eq!(disk.contents("a").expect("there")[0], 2);
    disk.crash(Crash::LoseUnsynced);
    assert_eq!(disk.contents("a").expect("there")[0], 1);
}

#[test]
fn space_runs_out_and_returns() {
    let disk = disk(1);
    disk.set_capacity_bytes(3000);
    let file = disk.open("a").expect("there");
    let kind = |error: std::io::Error| error.kind();
    assert_eq!(file.reserve(3001).map_err(kind), Err(ErrorKind::StorageFull));
    assert_eq!(file.len().expect("known"), 2048);
    file.reserve(3000).expect("space");
    assert_eq!(file.write_at(&[5; 2], 2999).map_err(kind), Err(ErrorKind::StorageFull));
    assert_eq!(disk.create("b").map(|_| ()).map_err(kind), Err(ErrorKind::StorageFull));
    disk.remove("a").expect("removed");
    assert_eq!(disk.create("b").map(|_| ()).map_err(kind), Err(ErrorKind::StorageFull));
    // The space of a file that is open, or that a crash could bring back, is not free.
    drop(file);
    disk.sync_dir().expect("synced");
    disk.create("b").expect("made").reserve(3000).expect("space");
}

#[test]
fn a_removed_file_serves_those_who_have_it_open() {
    let disk = disk(1);
    let file = disk.open("a").expect("there");
    disk.remove("a").expect("removed");
    disk.sync_dir().expect("synced");
    file.write_at(&[9], 0).expect("written");
    file.sync().expect("synced");
    let mut byte = [0];
    file.read_at(&mut byte, 0).expect("read");
    assert_eq!(byte, [9]);
}

#[test]
fn the_same_seed_is_the_same_disk() {
    let run = |seed| {
        let disk = disk(seed);
        let file = disk.open("a").expect("there");
        disk.fail_write(3);
        for step in 0..8 {
            let _ = file.write_at(&[step; 700], u64::from(step) * 300);
        }
        disk.crash(Crash::Shuffle);
        disk.contents("a").expect("there")
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
