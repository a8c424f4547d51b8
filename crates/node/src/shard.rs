//! One replica of one shard, as its lane sees it: the group, what is on its way, who waits.
//!
//! The way of a batch: queued → proposed (it has its timestamp, index and term) → in a group of
//! the log under a ticket → persisted → committed → applied under the write guard → answered.

use std::collections::VecDeque;
use std::sync::Arc;

use keyspace::{Durability, ShardId, Timestamp};
use parking_lot::RwLock;
use replication::{Boot, Entry, Group, HardState, Members, Start, Work};
use storage::log::Lsn;
use txn::{Clock, Promise, SnapshotRead};

use crate::entry::{Batch, Header, Kind, Spent, Waiter, operation};
use crate::lane::{Answer, Effects, NotDone, Origin, SOLE_REPLICA, push, report};
use crate::record;
use crate::state::ShardState;

/// What a shard begins with: newly made, or recovered from disk.
pub struct ShardStart {
    /// Its state as far as it is applied, as readers will see it.
    pub view: Arc<RwLock<ShardState>>,
    /// When its entries count as persisted.
    pub durability: Durability,
    /// Its log.
    pub log: Start,
}

impl std::fmt::Debug for ShardStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardStart({})", self.view.read().descriptor.shard)
    }
}

/// One replica of one shard.
pub struct Shard {
    id: ShardId,
    durability: Durability,
    group: Group,
    state: Arc<RwLock<ShardState>>,
    promise: Promise,
    queue: VecDeque<Queued>,
    /// Proposed and not applied, in index order.
    in_flight: VecDeque<InFlight>,
    /// Work whose records are in the log or on their way, until it is applied.
    appends: VecDeque<Append>,
    readers: Vec<Reader>,
    /// The horizon that is on its way through the log, if any.
    horizon_asked: Timestamp,
    /// Whether the lane has this shard on its list of those with something to do.
    pub(crate) active: bool,
}

enum Queued {
    Batch { origin: Origin, batch: Batch },
    Operation { kind: Kind, bytes: Vec<u8>, asker: Option<(Origin, Waiter)> },
}

struct InFlight {
    index: u64,
    term: u64,
    asker: Asker,
}

enum Asker {
    Batch { origin: Origin, waiters: Vec<Waiter> },
    Operation(Option<(Origin, Waiter)>),
}

struct Append {
    /// The group's number of this work.
    number: u64,
    ticket: u64,
    last_index: u64,
    needs_sync: bool,
    /// Where its records begin, once they are written.
    lsn: Option<Lsn>,
    persisted: bool,
}

struct Reader {
    at: Timestamp,
    origin: Origin,
    waiter: Waiter,
    /// Served when this index is applied.
    after: u64,
}

impl Shard {
    /// A shard from its first state or what was recovered.
    pub fn new(start: ShardStart) -> Self {
        let state = start.view.read();
        let id = state.descriptor.shard;
        let voters: Vec<_> = state.descriptor.replicas.iter().map(|(id, _)| *id).collect();
        let promise = Promise::new(state.unsettled.clone());
        drop(state);
        let members = Members::of_voters(&voters);
        let limits = Default::default();
        let group = Group::new(SOLE_REPLICA, &members, start.log, &limits, Boot::default());
        Self {
            id,
            durability: start.durability,
            group,
            state: start.view,
            promise,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            appends: VecDeque::new(),
            readers: Vec::new(),
            horizon_asked: Timestamp::ZERO,
            active: false,
        }
    }

    /// Its id.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// What readers see.
    pub fn view(&self) -> Arc<RwLock<ShardState>> {
        self.state.clone()
    }

    /// Its hard state, for a checkpoint.
    pub fn hard_state(&self) -> HardState {
        self.group.hard_state()
    }

    /// Where the log must be kept from, so that everything not applied yet is in it: the beginning
    /// of the oldest such group, or `written_end` if there is none.
    pub fn log_needed_from(&self, written_end: Lsn) -> Lsn {
        let oldest = self.appends.front().and_then(|append| append.lsn);
        oldest.map_or(written_end, |lsn| lsn.min(written_end))
    }

    pub(crate) fn campaign(&mut self) {
        self.group.campaign();
    }

    pub(crate) fn configure(&mut self, durability: Durability) {
        self.durability = durability;
    }

    pub(crate) fn propose(&mut self, origin: Origin, batch: Batch) {
        self.queue.push_back(Queued::Batch { origin, batch });
    }

    pub(crate) fn operate(&mut self, kind: Kind, bytes: Vec<u8>, asker: Option<(Origin, Waiter)>) {
        self.queue.push_back(Queued::Operation { kind, bytes, asker });
    }

    pub(crate) fn await_read(&mut self, at: Timestamp, origin: Origin, waiter: Waiter) {
        self.readers.push(Reader { at, origin, waiter, after: 0 });
    }

    pub(crate) fn written(&mut self, ticket: u64, lsn: Lsn) {
        for append in self.appends.iter_mut().filter(|a| a.ticket == ticket) {
            append.lsn = Some(lsn);
            append.persisted |= !append.needs_sync;
        }
        self.advance_persisted();
    }

    pub(crate) fn durable(&mut self, ticket: u64) {
        for append in self.appends.iter_mut().take_while(|a| a.ticket <= ticket) {
            append.persisted = true;
        }
        self.advance_persisted();
    }

    /// Tells the group of the longest persisted run from the front: work is persisted in order.
    fn advance_persisted(&mut self) {
        let run = self.appends.iter().take_while(|append| append.persisted);
        if let Some(number) = run.last().map(|append| append.number) {
            self.group.persisted(number);
        }
    }

    /// Whether a turn could do anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.appends.is_empty() && self.readers.is_empty()
    }

    /// Whether proposals wait for the shard to lead, or for the next turn.
    pub(crate) fn holds_back(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn turn(&mut self, clock: &Clock, bytes_max: u64, effects: &mut Effects) {
        loop {
            self.serve_readers(clock, effects);
            self.propose_queued(clock, effects.records.bytes(), bytes_max);
            let Some(work) = self.group.ready() else { break };
            self.hand_out(work, effects);
        }
    }

    fn propose_queued(&mut self, clock: &Clock, mut turn_bytes: u64, bytes_max: u64) {
        if !self.group.is_leader() {
            return;
        }
        while turn_bytes < bytes_max {
            let Some(queued) = self.queue.pop_front() else { return };
            let index = self.group.last_index() + 1;
            let (kind, mut bytes, count, asker) = match queued {
                Queued::Batch { origin, batch } => {
                    let (bytes, waiters) = batch.into_parts();
                    let count = waiters.len() as u32;
                    (Kind::Commands, bytes, count, Asker::Batch { origin, waiters })
                }
                Queued::Operation { kind, bytes, asker } => {
                    (kind, bytes, 1, Asker::Operation(asker))
                }
            };
            turn_bytes += bytes.len() as u64;
            let timestamp = self.promise.take(clock, index);
            let term = self.group.term();
            Header { kind, timestamp, term, count }.fill(&mut bytes);
            let place = self.group.propose(bytes).expect("a leader below its limits proposes");
            assert_eq!(place.index, index, "the index was reserved under the same lane step");
            self.in_flight.push_back(InFlight { index, term, asker });
        }
    }

    /// Puts what must persist into the turn's group, and applies what is committed.
    fn hand_out(&mut self, work: Work, effects: &mut Effects) {
        let mut needs_sync = self.durability == Durability::Sync;
        if let Some(hard_state) = work.hard_state {
            let payload = record::encode_hard_state(hard_state);
            push(&mut effects.records, self.id, record::HARD_STATE, &[&payload]);
            needs_sync = true;
        }
        for entry in &work.entries {
            let prefix = record::entry_prefix(entry.index, entry.term);
            push(&mut effects.records, self.id, record::ENTRY, &[&prefix, &entry.data]);
            let kind = entry.data.first().copied();
            // All but commands are fsynced at every durability (SAFETY G9). A safe point does not
            // hold up the commands behind it, though: the system shard's record of it is durable
            // already, so that here it is only followed. An empty entry opens a term.
            effects.sync |= kind != Some(Kind::Commands as u8);
            let follows = [Kind::Commands as u8, Kind::SafePoint as u8];
            needs_sync |= !kind.is_some_and(|kind| follows.contains(&kind));
        }
        if work.hard_state.is_some() || !work.entries.is_empty() {
            effects.sync |= needs_sync;
            self.appends.push_back(Append {
                number: work.number,
                ticket: effects.ticket,
                last_index: work.entries.last().map_or(0, |entry| entry.index),
                needs_sync,
                lsn: None,
                persisted: false,
            });
        } else if self.appends.is_empty() {
            self.group.persisted(work.number);
        }
        if !work.committed.is_empty() {
            self.apply(work.committed, effects);
        }
    }

    fn apply(&mut self, committed: Vec<Entry>, effects: &mut Effects) {
        for entry in committed {
            let mut replies = Vec::new();
            let outcome = {
                let mut state = self.state.write();
                let outcome = state.apply(&entry, &mut replies);
                let opens_term = entry.data.is_empty() && entry.term == self.group.term();
                state.serving |= opens_term && self.group.is_leader();
                outcome
            };
            self.group.applied(entry.index);
            self.promise.applied(entry.index);
            while self.appends.front().is_some_and(|a| a.persisted && a.last_index <= entry.index) {
                self.appends.pop_front();
            }
            let mine = self.in_flight.front().is_some_and(|f| f.index == entry.index);
            let asker = if mine { self.in_flight.pop_front() } else { None };
            match asker {
                Some(InFlight { term, asker: Asker::Batch { origin, waiters }, .. }) => {
                    assert_eq!(term, entry.term, "a sole voter's proposals are never replaced");
                    assert_eq!(waiters.len(), replies.len(), "one reply per command");
                    // Nobody else holds the entry any more, so this takes its memory, not a copy.
                    let spent = Spent { bytes: entry.data.into(), waiters };
                    effects.answers.push(Answer::Applied { origin, spent, replies });
                }
                Some(InFlight { asker: Asker::Operation(asker), .. }) => {
                    report(outcome, asker, effects);
                }
                None => report(outcome, None, effects),
            }
        }
    }

    /// Lets go the readers that may read now; has a horizon logged for those that need one.
    fn serve_readers(&mut self, clock: &Clock, effects: &mut Effects) {
        if self.readers.is_empty() {
            return;
        }
        let (serving, horizon, applied) = {
            let state = self.state.read();
            (state.serving, state.horizon, state.applied_index)
        };
        if !serving {
            return;
        }
        let mut wanted = Timestamp::ZERO;
        let promise = &mut self.promise;
        self.readers.retain_mut(|reader| {
            if reader.after == 0 {
                match promise.read_at(reader.at, horizon, clock) {
                    SnapshotRead::Now => reader.after = applied,
                    SnapshotRead::AfterIndex(index) => reader.after = index,
                    SnapshotRead::NeedsHorizon(ahead) => wanted = wanted.max(ahead),
                }
            }
            let go = reader.after != 0 && reader.after <= applied;
            if go {
                let Reader { origin, waiter, .. } = *reader;
                effects.answers.push(Answer::Go { origin, waiter });
            }
            !go
        });
        if wanted > self.horizon_asked.max(horizon) {
            self.horizon_asked = wanted;
            self.operate(Kind::Horizon, operation(&wanted.0.to_le_bytes()), None);
        }
    }

    /// Tells everyone who waits that the shard is dropped.
    pub(crate) fn abandon(&mut self, answers: &mut Vec<Answer>) {
        self.state.write().serving = false;
        let mut tell = |origin, waiters, why| {
            answers.push(Answer::NotDone { origin, waiters, why });
        };
        for queued in self.queue.drain(..) {
            match queued {
                Queued::Batch { origin, batch } => {
                    tell(origin, batch.into_parts().1, NotDone::NoSuchShard);
                }
                Queued::Operation { asker: Some((origin, waiter)), .. } => {
                    tell(origin, vec![waiter], NotDone::NoSuchShard);
                }
                Queued::Operation { asker: None, .. } => {}
            }
        }
        for in_flight in self.in_flight.drain(..) {
            if let Asker::Batch { origin, waiters } = in_flight.asker {
                tell(origin, waiters, NotDone::Dropped);
            }
        }
        for reader in self.readers.drain(..) {
            tell(reader.origin, vec![reader.waiter], NotDone::NoSuchShard);
        }
    }
}
