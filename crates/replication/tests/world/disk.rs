//! A replica's disk, which keeps what was synced.

use bytes::Bytes;
use replication::{Entry, HardState, Members, StartState};

/// What a replica's disk holds, as far as it is synced.
#[derive(Clone, Default)]
pub struct Disk {
    pub hard_state: HardState,
    pub entries: Vec<Entry>,
    pub before: (u64, u64),
    pub applied: u64,
    pub members: Members,
    /// All that was ever applied, which is the state machine.
    pub state: Vec<Bytes>,
}

impl Disk {
    pub fn write(&mut self, work: &Unsynced) {
        for entry in &work.entries {
            while self.entries.last().is_some_and(|last| last.index() >= entry.index()) {
                self.entries.pop();
            }
            self.entries.push(entry.clone());
        }
        self.hard_state = work.hard_state.unwrap_or(self.hard_state);
    }

    pub fn start(&self) -> StartState {
        let mut hard_state = self.hard_state;
        hard_state.commit = hard_state.commit.max(self.applied);
        let entries = self.entries.iter().filter(|e| e.index() > self.before.0).cloned().collect();
        StartState { hard_state, before: self.before, entries, applied: self.applied }
    }
}

/// Work that was handed out and is not synced yet.
pub struct Unsynced {
    pub number: u64,
    pub entries: Vec<Entry>,
    pub hard_state: Option<HardState>,
}
