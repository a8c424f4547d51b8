//! The entries of a group that are still needed in memory, as the consensus library wants them.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;

use bytes::Bytes;
use raft::eraftpb::{self, EntryType};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

use crate::message::payload;
use crate::{HardState, Members, StartState};

/// One entry of a group's log: the library's own, so that handing it out costs nothing.
#[derive(Clone, Debug, PartialEq)]
#[repr(transparent)]
pub struct Entry(eraftpb::Entry);

impl Entry {
    /// As it was read from the log.
    pub fn new(index: u64, term: u64, data: Bytes, is_change: bool) -> Self {
        let mut entry = eraftpb::Entry { index, term, data, ..Default::default() };
        if is_change {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
        }
        Self(entry)
    }

    /// Its place, from 1, without gaps.
    pub fn index(&self) -> u64 {
        self.0.index
    }

    /// The term of the leader that proposed it (SAFETY G3).
    pub fn term(&self) -> u64 {
        self.0.term
    }

    /// The data to apply; empty for the entry with which a leader opens its term.
    pub fn data(&self) -> &Bytes {
        payload(&self.0)
    }

    /// As [`Self::data`], but consumes the entry.
    pub fn into_data(self) -> Bytes {
        if self.0.context.is_empty() { self.0.data } else { self.0.context }
    }

    /// Whether it changes the group's members: the driver that applies it calls
    /// [`crate::Group::change`].
    pub fn is_change(&self) -> bool {
        self.0.get_entry_type() != EntryType::EntryNormal
    }
}

/// Entries that were handed to the log but are not compacted yet, what stood before them, and the
/// state of the group as far as it is applied.
pub(crate) struct Entries {
    hard_state: HardState,
    members: Members,
    applied: u64,
    /// Index and term of the entry before the first retained one.
    before: (u64, u64),
    retained: VecDeque<eraftpb::Entry>,
    /// Of their data.
    retained_bytes: usize,
}

impl Entries {
    pub(crate) fn new(start: StartState, members: Members) -> Self {
        let StartState { hard_state, before, entries, applied } = start;
        let retained_bytes = entries.iter().map(|entry| entry.data().len()).sum();
        let retained = entries.into_iter().map(|entry| entry.0).collect();
        Self { hard_state, members, applied, before, retained, retained_bytes }
    }

    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    pub(crate) fn set_members(&mut self, members: Members) {
        self.members = members;
    }

    pub(crate) fn set_applied(&mut self, index: u64) {
        self.applied = index;
    }

    /// Begins anew behind a snapshot, whose state stands in place of all entries.
    pub(crate) fn restore(&mut self, at: (u64, u64), members: Members) {
        self.before = at;
        self.applied = at.0;
        self.members = members;
        self.retained.clear();
        self.retained_bytes = 0;
    }

    pub(crate) fn append(&mut self, entries: &[eraftpb::Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.before.0, "an append below the compacted log");
        while let Some(last) = self.retained.back().filter(|last| last.index >= first.index) {
            self.retained_bytes -= last.data.len();
            self.retained.pop_back();
        }
        assert_eq!(first.index, self.last() + 1, "a gap in the log");
        for entry in entries {
            let mut entry = entry.clone();
            if !entry.context.is_empty() {
                entry.data = std::mem::take(&mut entry.context);
            }
            self.retained_bytes += entry.data.len();
            self.retained.push_back(entry);
        }
    }

    /// Forgets entries up to and including `index`, oldest first, while they are more than
    /// `retained_bytes_max`.
    pub(crate) fn compact(&mut self, index: u64, retained_bytes_max: usize) {
        while self.retained_bytes > retained_bytes_max || retained_bytes_max == 0 {
            let Some(entry) = self.retained.front().filter(|e| e.index <= index) else { return };
            self.before = (entry.index, entry.term);
            self.retained_bytes -= entry.data.len();
            self.retained.pop_front();
        }
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    fn last(&self) -> u64 {
        self.before.0 + self.retained.len() as u64
    }
}

/// Ours of the library's: the same memory by another name. To collect them one by one would cost
/// each write of a node alone 2 % more instructions.
pub(crate) fn all_from_library(entries: Vec<eraftpb::Entry>) -> Vec<Entry> {
    let mut entries = ManuallyDrop::new(entries);
    let (start, len, capacity) = (entries.as_mut_ptr(), entries.len(), entries.capacity());
    // SAFETY: the parts are those of a vector that is not used or dropped any more, and an `Entry`
    // is laid out as the library's, which is all that it holds.
    unsafe { Vec::from_raw_parts(start.cast(), len, capacity) }
}

impl Storage for Entries {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let mut hard_state = eraftpb::HardState::default();
        hard_state.set_term(self.hard_state.term);
        hard_state.set_vote(self.hard_state.vote);
        hard_state.set_commit(self.hard_state.commit);
        Ok(RaftState::new(hard_state, self.members.to_library()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        if low <= self.before.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last() + 1, "entries beyond the log were asked for");
        let max = max_size.into().unwrap_or(u64::MAX);
        let from = (low - self.before.0 - 1) as usize;
        let mut size = 0u64;
        let mut out = Vec::with_capacity((high - low) as usize);
        for entry in self.retained.range(from..from + (high - low) as usize) {
            size += entry.data.len() as u64;
            if size > max && !out.is_empty() {
                break;
            }
            out.push(entry.clone());
        }
        Ok(out)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.before.0 {
            return Ok(self.before.1);
        }
        if index < self.before.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        match self.retained.get((index - self.before.0 - 1) as usize) {
            Some(entry) => Ok(entry.term),
            None => Err(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.before.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    /// The head only: the state itself travels beside the group's messages.
    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<eraftpb::Snapshot> {
        if self.applied < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = eraftpb::Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = self.applied;
        metadata.term = self.term(self.applied)?;
        metadata.set_conf_state(self.members.to_library());
        Ok(snapshot)
    }
}
