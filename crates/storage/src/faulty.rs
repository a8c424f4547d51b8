//! What does a disk do to a program that trusts it too much?
//!
//! [`FaultyDisk`] is a [`Disk`] in memory that keeps, beside what programs see, what the medium
//! would hold: everything synced, and of the rest any subset of 512-byte sectors, each in any of
//! the states it has had since the last sync. The same seed and the same calls give the same
//! bytes.
//!
//! ```text
//!  write_at ──► seen ◄── read_at          crash(..):  durable + some of the changes ──► seen
//!     └──► changes ──sync──► durable      kill():     seen stays, the changes stay unsynced
//! ```
//!
//! Faults: power loss after any number of changes ([`FaultyDisk::crash_after_writes`]), process
//! death, failed syncs that forget what they should have written, short writes, a full disk,
//! flipped bits. A stalled sync is a matter of time, so it is the simulator's.
//!
//! **Invariants.** 1. What a sync covered survives every crash. 2. A handle from before a crash
//! or kill does nothing any more. 3. A file that was removed can be used by those who have it
//! open, as on Unix.

mod contents;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use keyspace::random::Random;

use crate::disk::{Disk, File};
use contents::{Contents, PowerLossOutcome};

/// What of the unsynced changes survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Nothing.
    LoseUnsynced,
    /// Everything, as if the power went a little later.
    KeepUnsynced,
    /// Any sectors, file lengths, and creations, renames and removals: torn, lost, reordered.
    Shuffle,
    /// Any sectors and lengths; of creations, renames and removals those up to some moment, as a
    /// journaling file system keeps them.
    ShuffleOrderedNames,
}

/// A disk in memory that fails on demand. Clones are handles of the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone)]
struct State {
    rng: Random,
    files: BTreeMap<u64, Contents>,
    files_made: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    name_changes: Vec<NameChange>,
    /// How many handles each file has.
    handles: BTreeMap<u64, u64>,
    /// Counts crashes and kills; handles of an earlier life are dead.
    incarnation: u64,
    capacity_bytes: u64,
    /// Changes allowed until the power goes.
    writes_left: Option<u64>,
    power_off: bool,
    fail_write_in: Option<u64>,
    fail_sync_in: Option<u64>,
    writes: u64,
    syncs: u64,
}

#[derive(Clone)]
enum NameChange {
    Link { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Unlink { name: String },
}

impl FaultyDisk {
    /// An empty disk without bounds, whose faults are chosen by `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State {
            rng: Random::new(seed),
            files: BTreeMap::new(),
            files_made: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            handles: BTreeMap::new(),
            incarnation: 0,
            capacity_bytes: u64::MAX,
            writes_left: None,
            power_off: false,
            fail_write_in: None,
            fail_sync_in: None,
            writes: 0,
            syncs: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A disk of its own with the same bytes, whose further faults are chosen by `seed`. Handles
    /// of this disk mean nothing to it.
    pub fn fork(&self, seed: u64) -> Self {
        let mut state = self.lock().clone();
        state.rng = Random::new(seed);
        state.handles.clear();
        state.incarnation += 1;
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// This disk as the crates' own code takes it.
    pub fn handle(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Power loss and the disk after it: unsynced writes survive as `crash` says, all handles
    /// are dead, all planned faults are forgotten.
    pub fn crash(&self, crash: Crash) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let fate = match crash {
            Crash::LoseUnsynced => PowerLossOutcome::Lose,
            Crash::KeepUnsynced => PowerLossOutcome::Keep,
            Crash::Shuffle | Crash::ShuffleOrderedNames => PowerLossOutcome::Shuffle,
        };
        let changes = std::mem::take(&mut state.name_changes);
        let kept_prefix = state.rng.below(changes.len() as u64 + 1) as usize;
        for (index, change) in changes.into_iter().enumerate() {
            let kept = match crash {
                Crash::LoseUnsynced => false,
                Crash::KeepUnsynced => true,
                Crash::Shuffle => state.rng.below(2) == 0,
                Crash::ShuffleOrderedNames => index < kept_prefix,
            };
            if kept {
                change.apply(&mut state.durable_names);
            }
        }
        state.names = state.durable_names.clone();
        for contents in state.files.values_mut() {
            contents.lose_power(fate, &mut state.rng);
        }
        state.begin_incarnation();
    }

    /// Death of the process only: everything written is there, unsynced as before, all handles
    /// are dead, all planned faults are forgotten.
    pub fn kill(&self) {
        self.lock().begin_incarnation();
    }

    /// Lets `writes` more changes (writes, syncs, reservations, cuts, creations, renames,
    /// removals) happen. The next one, and everything after it, fails with "power lost" until
    /// [`FaultyDisk::crash`]; a write that meets the power loss may survive it.
    pub fn crash_after_writes(&self, writes: u64) {
        self.lock().writes_left = Some(writes);
    }

    /// Makes the `n`th write from now (the next is 0) fail after part of its range was written.
    pub fn fail_write(&self, n: u64) {
        self.lock().fail_write_in = Some(n);
    }

    /// Makes the `n`th sync of a file or the directory from now (the next is 0) fail. Of what it
    /// should have made durable any part is, and the rest never will be, though it can be read
    /// until a crash.
    pub fn fail_sync(&self, n: u64) {
        self.lock().fail_sync_in = Some(n);
    }

    /// Bounds the sum of all files' lengths. Less than is used now only stops growth.
    pub fn set_capacity_bytes(&self, bytes: u64) {
        self.lock().capacity_bytes = bytes;
    }

    /// Turns bit `bit` of byte `offset` of a file over, for good. Nothing happens if there is no
    /// such byte.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let file = state.names.get(name);
        if let Some(contents) = file.and_then(|file| state.files.get_mut(file)) {
            contents.flip(offset, bit);
        }
    }

    /// All bytes of a file as programs see them, or nothing if there is no such file.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        let contents = &state.files[state.names.get(name)?];
        let mut bytes = vec![0; contents.bytes() as usize];
        contents.read(&mut bytes, 0);
        Some(bytes)
    }

    /// How many changes there were, as counted by [`FaultyDisk::crash_after_writes`].
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// How many of them were syncs of a file or the directory.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while it is held is a test that fails anyway.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn file(&self, state: &mut State, file: u64) -> Arc<dyn File> {
        *state.handles.entry(file).or_default() += 1;
        Arc::new(FaultyFile { disk: self.clone(), file, incarnation: state.incarnation })
    }
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Link { name, file } => {
                names.insert(name, file);
            }
            Self::Rename { from, to, file } => {
                // Without the creation there is nothing under the old name to take away.
                if names.get(&from) == Some(&file) {
                    names.remove(&from);
                }
                names.insert(to, file);
            }
            Self::Unlink { name } => {
                names.remove(&name);
            }
        }
    }
}

impl State {
    fn begin_incarnation(&mut self) {
        self.incarnation += 1;
        self.handles.clear();
        (self.writes_left, self.fail_write_in, self.fail_sync_in) = (None, None, None);
        self.power_off = false;
        self.forget_unreachable();
    }

    fn forget_unreachable(&mut self) {
        let mut files = std::mem::take(&mut self.files);
        files.retain(|file, _| self.is_reachable(*file));
        self.files = files;
    }

    fn is_reachable(&self, file: u64) -> bool {
        self.handles.contains_key(&file)
            || self.names.values().chain(self.durable_names.values()).any(|named| *named == file)
            || self.name_changes.iter().any(|change| match change {
                NameChange::Link { file: named, .. } | NameChange::Rename { file: named, .. } => {
                    *named == file
                }
                NameChange::Unlink { .. } => false,
            })
    }

    /// Counts one change, which may be the one that meets the power loss.
    fn change(&mut self) -> io::Result<()> {
        self.powered()?;
        match &mut self.writes_left {
            Some(0) => self.power_off = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.powered()?;
        self.writes += 1;
        Ok(())
    }

    fn powered(&self) -> io::Result<()> {
        if self.power_off { Err(power_lost()) } else { Ok(()) }
    }

    fn find(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether a file of `old` bytes may become one of `new` bytes.
    fn grow(&self, old: u64, new: u64) -> io::Result<()> {
        let used: u64 = self.files.values().map(Contents::bytes).sum();
        if new > old && used + (new - old) > self.capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

fn power_lost() -> io::Error {
    io::Error::other("power lost")
}

/// Whether the fault planned `left` calls ahead strikes now.
fn fault_is_due(left: &mut Option<u64>) -> bool {
    match left {
        Some(0) => {
            *left = None;
            true
        }
        Some(n) => {
            *n -= 1;
            false
        }
        None => false,
    }
}

impl Disk for FaultyDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        state.change()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.grow(0, 1)?;
        let file = state.files_made;
        state.files_made += 1;
        state.files.insert(file, Contents::default());
        state.names.insert(name.to_owned(), file);
        state.name_changes.push(NameChange::Link { name: name.to_owned(), file });
        Ok(self.file(&mut state, file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        state.powered()?;
        let file = state.find(name)?;
        Ok(self.file(&mut state, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        let file = state.find(from)?;
        let change = NameChange::Rename { from: from.to_owned(), to: to.to_owned(), file };
        change.clone().apply(&mut state.names);
        state.name_changes.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        state.find(name)?;
        state.names.remove(name);
        state.name_changes.push(NameChange::Unlink { name: name.to_owned() });
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.lock();
        state.powered()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.change()?;
        state.syncs += 1;
        let fails = fault_is_due(&mut state.fail_sync_in);
        for change in std::mem::take(&mut state.name_changes) {
            if !fails || state.rng.below(2) == 0 {
                change.apply(&mut state.durable_names);
            }
        }
        state.forget_unreachable();
        if fails { Err(io::Error::other("sync failed")) } else { Ok(()) }
    }
}

/// An open file of a [`FaultyDisk`].
struct FaultyFile {
    disk: FaultyDisk,
    file: u64,
    incarnation: u64,
}

impl FaultyFile {
    /// The disk, unless it died since this handle was made.
    fn lock(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.lock();
        if state.incarnation == self.incarnation { Ok(state) } else { Err(power_lost()) }
    }
}

const OPEN: &str = "an open file is kept";

impl File for FaultyFile {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut guard = self.lock()?;
        let state = &mut *guard;
        state.powered()?;
        let powered = state.change();
        let old = state.files[&self.file].bytes();
        let grown = state.grow(old, at + bytes.len() as u64);
        let contents = state.files.get_mut(&self.file).expect(OPEN);
        let short = fault_is_due(&mut state.fail_write_in);
        if short || grown.is_err() {
            let room = if grown.is_err() { old.saturating_sub(at) } else { u64::MAX };
            let part = state.rng.below(bytes.len() as u64 + 1).min(room);
            contents.write(&bytes[..part as usize], at);
        } else {
            contents.write(bytes, at);
        }
        powered.and(grown)?;
        if short { Err(io::Error::other("write failed")) } else { Ok(()) }
    }

    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.lock()?;
        state.powered()?;
        Ok(state.files[&self.file].read(buf, at))
    }

    fn sync(&self) -> io::Result<()> {
        let mut guard = self.lock()?;
        let state = &mut *guard;
        state.change()?;
        state.syncs += 1;
        let contents = state.files.get_mut(&self.file).expect(OPEN);
        if fault_is_due(&mut state.fail_sync_in) {
            contents.fail_sync(&mut state.rng);
            return Err(io::Error::other("sync failed"));
        }
        contents.sync();
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.lock()?;
        state.change()?;
        let old = state.files[&self.file].bytes();
        state.grow(old, bytes)?;
        if bytes > old {
            state.files.get_mut(&self.file).expect(OPEN).resize(bytes);
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.lock()?;
        state.change()?;
        let old = state.files[&self.file].bytes();
        if bytes < old {
            state.files.get_mut(&self.file).expect(OPEN).resize(bytes);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.lock()?;
        state.powered()?;
        Ok(state.files[&self.file].bytes())
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        let Ok(mut state) = self.lock() else { return };
        if let Some(count) = state.handles.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                state.handles.remove(&self.file);
                if !state.is_reachable(self.file) {
                    state.files.remove(&self.file);
                }
            }
        }
    }
}
