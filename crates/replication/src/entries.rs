//! The entries of a group that are still needed in memory, as the consensus library wants them.

use std::collections::VecDeque;

use bytes::Bytes;
use raft::eraftpb::{self, EntryType};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

use crate::{HardState, Members, Start};

/// One entry of a group's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its place, from 1, without gaps.
    pub index: u64,
    /// The term of the leader that proposed it (SAFETY G3).
    pub term: u64,
    /// What is to be applied; empty for the entry with which a leader opens its term.
    pub data: Bytes,
    /// Whether it changes the group's members: whoever applies it calls [`crate::Group::change`].
    pub is_change: bool,
}

/// Entries that were handed to the log but are not compacted yet, what stood before them, and the
/// state of the group as far as it is applied.
pub(crate) struct Entries {
    hard_state: HardState,
    members: Members,
    applied: u64,
    /// Index and term of the entry before the first one kept.
    before: (u64, u64),
    kept: VecDeque<eraftpb::Entry>,
    /// Of their data.
    kept_bytes: usize,
}

impl Entries {
    pub(crate) fn new(start: Start, members: Members) -> Self {
        let Start { hard_state, before, entries, applied } = start;
        let kept_bytes = entries.iter().map(|entry| entry.data.len()).sum();
        let kept = entries.into_iter().map(to_library).collect();
        Self { hard_state, members, applied, before, kept, kept_bytes }
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
        self.kept.clear();
        self.kept_bytes = 0;
    }

    pub(crate) fn append(&mut self, entries: &[eraftpb::Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.before.0, "an append below the compacted log");
        while let Some(last) = self.kept.back().filter(|last| last.index >= first.index) {
            self.kept_bytes -= last.data.len();
            self.kept.pop_back();
        }
        assert_eq!(first.index, self.last() + 1, "a gap in the log");
        for entry in entries {
            let mut entry = entry.clone();
            if !entry.context.is_empty() {
                entry.data = std::mem::take(&mut entry.context);
            }
            self.kept_bytes += entry.data.len();
            self.kept.push_back(entry);
        }
    }

    /// Forgets entries up to and including `index`, oldest first, while they are more than
    /// `bytes_kept`.
    pub(crate) fn compact(&mut self, index: u64, bytes_kept: usize) {
        while self.kept_bytes > bytes_kept || bytes_kept == 0 {
            let Some(entry) = self.kept.front().filter(|e| e.index <= index) else { return };
            self.before = (entry.index, entry.term);
            self.kept_bytes -= entry.data.len();
            self.kept.pop_front();
        }
    }

    fn last(&self) -> u64 {
        self.before.0 + self.kept.len() as u64
    }
}

/// Ours of the library's, in memory of their own: theirs are larger, and would be copied to be made
/// smaller anyway.
pub(crate) fn all_from_library(entries: Vec<eraftpb::Entry>) -> Vec<Entry> {
    if entries.is_empty() {
        return Vec::new();
    }
    let mut ours = Vec::with_capacity(entries.len());
    ours.extend(entries.into_iter().map(from_library));
    ours
}

fn from_library(entry: eraftpb::Entry) -> Entry {
    let is_change = entry.get_entry_type() != EntryType::EntryNormal;
    let data = if entry.context.is_empty() { entry.data } else { entry.context };
    Entry { index: entry.index, term: entry.term, data, is_change }
}

fn to_library(entry: Entry) -> eraftpb::Entry {
    let mut out = eraftpb::Entry::default();
    out.set_index(entry.index);
    out.set_term(entry.term);
    out.set_data(entry.data);
    if entry.is_change {
        out.set_entry_type(EntryType::EntryConfChangeV2);
    }
    out
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
        for entry in self.kept.range(from..from + (high - low) as usize) {
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
        match self.kept.get((index - self.before.0 - 1) as usize) {
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
