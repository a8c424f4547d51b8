//! The bytes of one simulated file, and which of them would survive a crash.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::random::Random;

/// What a power loss keeps or loses as one.
const SECTOR_BYTES: u64 = 512;
const PAGE_BYTES: usize = 4096;

/// A sparse file: pages never written are zeros and take no memory.
#[derive(Clone, Default)]
struct SparseFile {
    bytes: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl SparseFile {
    fn write(&mut self, mut bytes: &[u8], mut at: u64) {
        self.bytes = self.bytes.max(at + bytes.len() as u64);
        while !bytes.is_empty() {
            let (page, from) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
            let (now, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - from));
            let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[from..from + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            bytes = later;
        }
    }

    fn read(&self, buf: &mut [u8], at: u64) -> usize {
        let bytes = self.bytes.saturating_sub(at).min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < bytes {
            let position = at + done as u64;
            let (page, from) = (position / PAGE_BYTES as u64, position as usize % PAGE_BYTES);
            let now = (bytes - done).min(PAGE_BYTES - from);
            match self.pages.get(&page) {
                Some(page) => buf[done..done + now].copy_from_slice(&page[from..from + now]),
                None => buf[done..done + now].fill(0),
            }
            done += now;
        }
        bytes
    }

    fn resize(&mut self, bytes: u64) {
        if bytes < self.bytes {
            let (page, from) = (bytes / PAGE_BYTES as u64, (bytes % PAGE_BYTES as u64) as usize);
            self.pages.split_off(&(page + 1));
            if let Some(page) = self.pages.get_mut(&page) {
                page[from..].fill(0);
            }
        }
        self.bytes = bytes;
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { bytes, at } => self.write(bytes, *at),
            Change::Resize { bytes } => self.resize(*bytes),
        }
    }
}

/// A change that no sync has covered yet.
#[derive(Clone)]
enum Change {
    Write { bytes: Box<[u8]>, at: u64 },
    Resize { bytes: u64 },
}

/// How a file meets power loss.
#[derive(Clone, Copy)]
pub(super) enum PowerLossOutcome {
    /// Unsynced writes are lost.
    Lose,
    /// All writes survive.
    Keep,
    /// Every sector, and the length, takes any of the states it has had since the last sync.
    Shuffle,
}

/// A file as programs see it, as the medium holds it, and the changes between.
#[derive(Clone, Default)]
pub(super) struct Contents {
    seen: SparseFile,
    durable: SparseFile,
    changes: Vec<Change>,
}

impl Contents {
    pub fn bytes(&self) -> u64 {
        self.seen.bytes
    }

    pub fn read(&self, buf: &mut [u8], at: u64) -> usize {
        self.seen.read(buf, at)
    }

    pub fn write(&mut self, bytes: &[u8], at: u64) {
        self.change(Change::Write { bytes: bytes.into(), at });
    }

    pub fn resize(&mut self, bytes: u64) {
        self.change(Change::Resize { bytes });
    }

    fn change(&mut self, change: Change) {
        self.seen.apply(&change);
        self.changes.push(change);
    }

    pub fn sync(&mut self) {
        for change in self.changes.drain(..) {
            self.durable.apply(&change);
        }
    }

    /// A sync that failed: the medium took any of the changes, and the rest is forgotten although
    /// programs still see it (Rebello et al., USENIX ATC 2020).
    pub fn fail_sync(&mut self, rng: &mut Random) {
        self.shuffle(rng);
        self.changes.clear();
    }

    pub fn lose_power(&mut self, fate: PowerLossOutcome, rng: &mut Random) {
        match fate {
            PowerLossOutcome::Lose => {}
            PowerLossOutcome::Keep => self.sync(),
            PowerLossOutcome::Shuffle => self.shuffle(rng),
        }
        self.changes.clear();
        self.seen = self.durable.clone();
    }

    /// Turns one bit over, in everything that could be read from now on.
    pub fn flip(&mut self, at: u64, bit: u8) {
        for image in [&mut self.seen, &mut self.durable] {
            let mut byte = [0];
            if image.read(&mut byte, at) == 1 {
                image.write(&[byte[0] ^ (1 << bit)], at);
            }
        }
        for change in &mut self.changes {
            if let Change::Write { bytes, at: from } = change
                && let Some(byte) = at.checked_sub(*from).and_then(|i| bytes.get_mut(i as usize))
            {
                *byte ^= 1 << bit;
            }
        }
    }

    /// Gives every sector of the durable image one of its states since the last sync.
    fn shuffle(&mut self, rng: &mut Random) {
        let mut lengths = vec![self.durable.bytes];
        let mut touched = BTreeSet::new();
        for change in &self.changes {
            let last = *lengths.last().expect("begins with one");
            match change {
                Change::Write { bytes, at } => {
                    let end = at + bytes.len() as u64;
                    touched.extend(at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
                    lengths.push(last.max(end));
                }
                Change::Resize { bytes } => {
                    // What a cut removes can be back, or not, sector by sector.
                    touched.extend(bytes / SECTOR_BYTES..last.div_ceil(SECTOR_BYTES));
                    lengths.push(*bytes);
                }
            }
        }
        let length = lengths[rng.below(lengths.len() as u64) as usize];
        let mut sectors = Vec::with_capacity(touched.len());
        for &sector in &touched {
            sectors.push((sector, self.some_state(sector, rng)));
        }
        for (sector, bytes) in sectors {
            self.durable.write(&bytes, sector * SECTOR_BYTES);
        }
        self.durable.resize(length);
    }

    fn some_state(&self, sector: u64, rng: &mut Random) -> [u8; SECTOR_BYTES as usize] {
        let (from, to) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
        let mut state = [0; SECTOR_BYTES as usize];
        self.durable.read(&mut state, from);
        let touches = |change: &&Change| match change {
            Change::Write { bytes, at } => *at < to && from < at + bytes.len() as u64,
            Change::Resize { bytes } => *bytes < to,
        };
        let count = self.changes.iter().filter(touches).count() as u64;
        let kept = rng.below(count + 1) as usize;
        for change in self.changes.iter().filter(touches).take(kept) {
            match change {
                Change::Write { bytes, at } => {
                    let (first, end) = (from.max(*at), to.min(at + bytes.len() as u64));
                    let new = &bytes[(first - at) as usize..(end - at) as usize];
                    state[(first - from) as usize..(end - from) as usize].copy_from_slice(new);
                }
                Change::Resize { bytes } => state[bytes.saturating_sub(from) as usize..].fill(0),
            }
        }
        state
    }
}
