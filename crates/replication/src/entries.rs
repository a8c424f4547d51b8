//! The entries of a group that are still needed in memory, as the consensus library wants them.

use std::collections::VecDeque;

use bytes::Bytes;
use raft::eraftpb::{self, ConfState};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

use crate::{HardState, Start};

/// One entry of a group's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its place, from 1, without gaps.
    pub index: u64,
    /// The term of the leader that proposed it (SAFETY G3).
    pub term: u64,
    /// What is to be applied; empty for the entry with which a leader opens its term.
    pub data: Bytes,
}

/// Entries that were handed to the log but are not compacted yet, and what stood before them.
pub(crate) struct Entries {
    hard_state: HardState,
    voters: Vec<u64>,
    /// Index and term of the entry before the first one kept.
    before: (u64, u64),
    kept: VecDeque<eraftpb::Entry>,
}

impl Entries {
    pub(crate) fn new(start: Start, voters: Vec<u64>) -> Self {
        let kept = start.entries.into_iter().map(to_library).collect();
        Self { hard_state: start.hard_state, voters, before: start.before, kept }
    }

    pub(crate) fn append(&mut self, entries: &[eraftpb::Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.before.0, "an append below the compacted log");
        while self.kept.back().is_some_and(|last| last.index >= first.index) {
            self.kept.pop_back();
        }
        assert_eq!(first.index, self.last() + 1, "a gap in the log");
        self.kept.extend(entries.iter().cloned());
    }

    /// Forgets entries up to and including `index`.
    pub(crate) fn compact(&mut self, index: u64) {
        while let Some(entry) = self.kept.front().filter(|e| e.index <= index) {
            self.before = (entry.index, entry.term);
            self.kept.pop_front();
        }
    }

    fn last(&self) -> u64 {
        self.before.0 + self.kept.len() as u64
    }
}

pub(crate) fn from_library(entry: eraftpb::Entry) -> Entry {
    Entry { index: entry.index, term: entry.term, data: entry.data }
}

fn to_library(entry: Entry) -> eraftpb::Entry {
    let mut out = eraftpb::Entry::default();
    out.set_index(entry.index);
    out.set_term(entry.term);
    out.set_data(entry.data);
    out
}

impl Storage for Entries {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let mut hard_state = eraftpb::HardState::default();
        hard_state.set_term(self.hard_state.term);
        hard_state.set_vote(self.hard_state.vote);
        hard_state.set_commit(self.hard_state.commit);
        let conf = ConfState::from((self.voters.clone(), vec![]));
        Ok(RaftState::new(hard_state, conf))
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

    fn snapshot(&self, _request_index: u64, _to: u64) -> raft::Result<eraftpb::Snapshot> {
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
