//! Power loss at every change the log makes to the disk, and what the next open finds.
#![allow(missing_docs)]

mod common;

use common::{Dice, Model, open};
use storage::Error;
use storage::faulty::{Crash, FaultyDisk};

const MODES: [Crash; 4] =
    [Crash::LoseUnsynced, Crash::KeepUnsynced, Crash::Shuffle, Crash::ShuffleOrderedNames];

/// Opens, works, and loses power after `writes` changes; whether it came to that.
fn life(disk: &FaultyDisk, model: &mut Model, dice: &mut Dice, writes: u64) -> bool {
    disk.crash_after_writes(writes);
    let worked = model.open(disk).and_then(|mut log| model.work(&mut log, dice, 25));
    match worked {
        Ok(()) => false,
        Err(Error::Io { source, .. }) => {
            assert_eq!(source.to_string(), "power lost");
            true
        }
        Err(e) => panic!("{e}"),
    }
}

/// One first life, cut short after every number of changes, each followed by every kind of crash;
/// then more lives of random length on the same disk, so that cuts are cut again.
#[test]
fn power_lost_at_every_write() {
    for seed in 1..=60 {
        for writes in 0.. {
            let disk = FaultyDisk::new(seed * 1000 + writes);
            let mut dice = Dice(seed);
            let mut model = Model::default();
            let lost = life(&disk, &mut model, &mut dice, writes);
            for (index, mode) in MODES.into_iter().enumerate() {
                let disk = disk.fork(seed ^ (writes << 8) ^ (index as u64) << 32);
                disk.crash(mode);
                let mut model = model.clone();
                let mut dice = Dice(seed + writes * 4 + index as u64 + 1);
                for _ in 0..2 {
                    let writes = dice.below(20);
                    life(&disk, &mut model, &mut dice, writes);
                    disk.crash(MODES[dice.below(4) as usize]);
                }
                let found = open(&disk, model.start).expect("opens after any crash");
                model.check(&found.groups);
            }
            if !lost {
                break;
            }
        }
    }
}

/// Long lives with many segments, over many seeds.
#[test]
fn power_lost_again_and_again() {
    for seed in 1..=400 {
        let disk = FaultyDisk::new(seed);
        let mut dice = Dice(seed);
        let mut model = Model::default();
        for _ in 0..12 {
            let writes = dice.below(60);
            life(&disk, &mut model, &mut dice, writes);
            if dice.below(3) == 0 {
                disk.kill();
            } else {
                disk.crash(MODES[dice.below(4) as usize]);
            }
        }
        model.open(&disk).expect("opens after any crash");
    }
}
