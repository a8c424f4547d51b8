//! A log under a random workload, beside a model that remembers what was promised.
#![allow(missing_docs, dead_code)]

pub mod reader;

use storage::Error;
use storage::faulty::FaultyDisk;
use storage::log::{Group, Log, LogOptions, Lsn, Recovered};

use keyspace::ShardId;

pub const OPTIONS: LogOptions = LogOptions { cluster: 7, salt: 99, segment_bytes: 2048 };

/// A small generator of test inputs.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        // xorshift64*, Vigna 2016
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

pub type OwnedRecord = (ShardId, u8, Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedGroup {
    pub at: Lsn,
    pub records: Vec<OwnedRecord>,
}

/// What the log was told, what it said was durable, and where replay begins.
#[derive(Clone, Default)]
pub struct Model {
    pub groups: Vec<OwnedGroup>,
    pub durable_groups: usize,
    pub start: Lsn,
}

pub struct OpenedLog {
    pub log: Log,
    pub recovered: Recovered,
    pub groups: Vec<OwnedGroup>,
}

pub fn open(disk: &FaultyDisk, start: Lsn) -> Result<OpenedLog, Error> {
    open_with(disk, OPTIONS, start)
}

pub fn open_with(disk: &FaultyDisk, options: LogOptions, start: Lsn) -> Result<OpenedLog, Error> {
    let mut groups: Vec<OwnedGroup> = Vec::new();
    let (log, recovered) = Log::open::<Error>(disk.handle(), options, start, &mut |at, record| {
        let owned = (record.shard, record.kind, record.payload.to_vec());
        match groups.last_mut() {
            Some(group) if group.at == at => group.records.push(owned),
            _ => groups.push(OwnedGroup { at, records: vec![owned] }),
        }
        Ok(())
    })?;
    assert_eq!(recovered.groups, groups.len() as u64);
    assert_eq!(recovered.end, log.written_end());
    assert_eq!(log.durable_end(), log.written_end());
    Ok(OpenedLog { log, recovered, groups })
}

pub fn sync(log: &mut Log) -> Result<(), Error> {
    let job = log.begin_sync()?;
    let result = job.run();
    log.finish_sync(&job, result)
}

impl Model {
    /// Opens the log and checks what it finds; after this the model agrees with the log.
    pub fn open(&mut self, disk: &FaultyDisk) -> Result<Log, Error> {
        let found = open(disk, self.start)?;
        self.check(&found.groups);
        self.groups.truncate(found.groups.len());
        self.durable_groups = self.groups.len();
        if self.start == Lsn::NEW {
            self.start = found.log.written_end();
        }
        Ok(found.log)
    }

    /// Every durable group is found, in order, and nothing that was not written.
    pub fn check(&self, found: &[OwnedGroup]) {
        assert!(found.len() >= self.durable_groups, "a durable group is missing");
        assert!(found.len() <= self.groups.len(), "a group was invented");
        for (index, (found, told)) in found.iter().zip(&self.groups).enumerate() {
            assert_eq!(found.records, told.records, "group {index} is not the one written");
        }
    }

    pub fn append(&mut self, log: &mut Log, dice: &mut Dice) -> Result<(), Error> {
        let mut group = Group::new();
        let mut records = Vec::new();
        for _ in 0..=dice.below(3) {
            let bytes = match dice.below(8) {
                0 => dice.below(3000),
                1 => 0,
                _ => dice.below(200),
            };
            let payload: Vec<u8> = (0..bytes).map(|_| dice.next() as u8).collect();
            let (shard, kind) = (ShardId(dice.next()), 1 + dice.below(255) as u8);
            let (front, back) = payload.split_at(payload.len() / 3);
            group.push(shard, kind, &[front, back])?;
            records.push((shard, kind, payload));
        }
        let (written_end, bytes) = (log.written_end(), group.bytes());
        // Told before it is tried: what meets a power loss may be found.
        self.groups.push(OwnedGroup { at: written_end, records });
        match log.append(&mut group) {
            Ok(end) => {
                self.groups.last_mut().expect("pushed").at = Lsn(end.0 - bytes);
                assert!(group.is_empty() && end == log.written_end());
                Ok(())
            }
            Err(e) => {
                if matches!(e, Error::Full { .. }) {
                    self.groups.pop();
                    assert_eq!(log.written_end(), written_end);
                }
                Err(e)
            }
        }
    }

    pub fn sync(&mut self, log: &mut Log) -> Result<(), Error> {
        sync(log)?;
        self.durable_groups = self.groups.len();
        Ok(())
    }

    /// Runs a random workload until it fails or has done `steps`.
    pub fn work(&mut self, log: &mut Log, dice: &mut Dice, steps: u64) -> Result<(), Error> {
        for _ in 0..steps {
            match dice.below(11) {
                0..=4 => self.append(log, dice)?,
                10 => log.begin_segment().map_or(Ok(()), |job| job.run())?,
                5..=6 => self.sync(log)?,
                7 => log.append_marker()?,
                8 => log.reserve(dice.below(4000))?,
                _ => self.truncate(log, dice)?,
            }
        }
        Ok(())
    }

    fn truncate(&mut self, log: &mut Log, dice: &mut Dice) -> Result<(), Error> {
        if self.durable_groups == 0 || dice.below(4) > 0 {
            return Ok(());
        }
        let gone = dice.below(self.durable_groups as u64) as usize;
        // The manifest comes first: from here on replay begins behind what may go.
        self.start = self.groups[gone].at;
        self.groups.drain(..gone);
        self.durable_groups -= gone;
        log.truncate_before(self.start)
    }
}
