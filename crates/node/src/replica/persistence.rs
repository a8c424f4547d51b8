//! A replica's work on disk: what is persisted, from where its log is needed, what a checkpoint
//! lacks.

use std::collections::VecDeque;

use replication::HardState;
use storage::log::Lsn;

/// See the module's documentation.
pub(super) struct Persistence {
    /// Work whose records are in the log or on their way, until it is applied.
    pub appends: VecDeque<Append>,
    /// Whether its term or vote has changed since the newest checkpoint that is on disk.
    pub vote_uncovered: bool,
    /// Bytes of entries since its commit index was last written down.
    pub unmarked_bytes: usize,
}

/// Work of a group that is in the log, or on its way there.
pub(super) struct Append {
    /// The group's number of this work.
    pub number: u64,
    pub ticket: u64,
    pub last_index: u64,
    pub needs_sync: bool,
    /// Where its records begin, once they are written.
    pub lsn: Option<Lsn>,
    pub persisted: bool,
}

impl Persistence {
    /// Of a replica that begins: with the entries in the log that are not applied yet, from `lsn`
    /// on, up to the entry `last_index`.
    pub fn new(not_applied: Option<(Lsn, u64)>) -> Self {
        let recovered = not_applied.map(|(lsn, last_index)| Append {
            number: 0,
            ticket: 0,
            last_index,
            needs_sync: false,
            lsn: Some(lsn),
            persisted: true,
        });
        let appends = recovered.into_iter().collect();
        Self { appends, vote_uncovered: true, unmarked_bytes: 0 }
    }

    /// A group's records are written at `lsn`. Whether any of it needed no sync.
    pub fn written(&mut self, ticket: u64, lsn: Lsn) -> bool {
        let mut changed = false;
        for append in self.appends.iter_mut().filter(|a| a.ticket == ticket) {
            append.lsn = Some(lsn);
            changed |= !append.needs_sync;
            append.persisted |= !append.needs_sync;
        }
        changed
    }

    /// All groups up to this one are synced. Whether that is news.
    pub fn durable(&mut self, ticket: u64) -> bool {
        let mut changed = false;
        for append in self.appends.iter_mut().take_while(|a| a.ticket <= ticket) {
            changed |= !append.persisted;
            append.persisted = true;
        }
        changed
    }

    /// The number of the last work of the longest persisted run from the front: work is persisted
    /// in order.
    pub fn persisted(&self) -> Option<u64> {
        let run = self.appends.iter().take_while(|append| append.persisted);
        run.last().map(|append| append.number)
    }

    /// What stood behind this entry has been replaced: nothing waits until that is applied.
    pub fn forget_replaced(&mut self, last_index: u64) {
        for append in self.appends.iter_mut().rev() {
            if append.last_index <= last_index && append.last_index > 0 {
                break;
            }
            append.last_index = append.last_index.min(last_index);
        }
    }

    /// Forgets entries that are applied and persisted.
    pub fn forget_applied(&mut self, applied: u64) {
        while self.appends.front().is_some_and(|a| a.persisted && a.last_index <= applied) {
            self.appends.pop_front();
        }
    }

    /// The beginning of the oldest group with anything that is not applied yet, or `written_end`.
    pub fn needed_from(&self, written_end: Lsn) -> Lsn {
        let oldest = self.appends.front().and_then(|append| append.lsn);
        oldest.map_or(written_end, |lsn| lsn.min(written_end))
    }

    /// A checkpoint with this hard state is on disk; `now` is that of the group.
    pub fn covered(&mut self, hard_state: HardState, now: HardState) {
        if (now.term, now.vote) == (hard_state.term, hard_state.vote) {
            self.vote_uncovered = false;
        }
    }
}
