//! One replica of one shard, as its lane sees it: the group, what is on its way, who waits.
//!
//! The way of a batch: queued → proposed (it has its timestamp, index and term) → in a group of
//! the log under a ticket → persisted → committed → applied under the write guard → answered.
//!
//! | here | what |
//! |---|---|
//! | this file | batches: queued, proposed, persisted, applied, answered |
//! | [`readers`](self) | reads that wait for a horizon, an entry or the proof of leadership |
//! | `replicas` | messages, time, changes of replicas, snapshots |
//! | `forward` | what the leader elsewhere is asked to do |
//! | `post` | what other nodes ask of this one, and answer |
//! | `report` | how it is, for those who look after it |
//!
//! A replica that does not lead has who does do what it is asked. What it had proposed before it
//! lost the lead stays on the list: its entry may yet be applied, and is answered then; or another
//! takes its place in the log, and it is done for good.

use std::collections::VecDeque;
use std::sync::Arc;

use keyspace::{Durability, NodeId, ReplicaId, ShardId, Timestamp};
use parking_lot::RwLock;
use replication::{Boot, BootNanos, Entry, Group, HardState, Message, Start, Work};
use storage::log::Lsn;
use txn::{Clock, Promise};

use crate::birth;
use crate::entry::{Batch, Header, Kind, Spent, Waiter};
use crate::lane::{Answer, Effects, NotDone, Origin, Turn, push, report};
use crate::record;
use crate::serving::Serving;
use crate::session::BatchId;
use crate::state::{BORN, Outcome, ShardState};

mod forward;
mod post;
mod readers;
mod replicas;
mod report;

use forward::Forward;
pub(crate) use post::not_here;
use readers::Reader;
use report::Watch;
pub use report::{ShardReport, Tally};

/// What a shard begins with: newly made, or recovered from disk.
pub struct ShardStart {
    /// Its state as far as it is applied, as readers will see it.
    pub view: Arc<RwLock<ShardState>>,
    /// When its entries count as persisted.
    pub durability: Durability,
    /// Which of the shard's replicas this is.
    pub replica: ReplicaId,
    /// Its log.
    pub log: Start,
    /// Where the first of the log's entries that are not applied stands on disk.
    pub log_from: Option<Lsn>,
}

impl ShardStart {
    /// One of the replicas with which a new shard begins.
    pub fn born(state: ShardState, replica: ReplicaId, durability: Durability) -> Self {
        let hard_state = HardState { term: BORN.1, vote: 0, commit: BORN.0 };
        let log = Start { hard_state, before: BORN, entries: Vec::new(), applied: BORN.0 };
        let view = Arc::new(RwLock::new(state));
        Self { view, durability, replica, log, log_from: None }
    }

    /// A replica that others have added, and that waits for its snapshot.
    pub fn awaiting(state: ShardState, replica: ReplicaId, durability: Durability) -> Self {
        let view = Arc::new(RwLock::new(state));
        Self { view, durability, replica, log: Start::default(), log_from: None }
    }
}

impl std::fmt::Debug for ShardStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardStart({})", self.view.read().descriptor.shard)
    }
}

/// One replica of one shard.
pub struct Shard {
    id: ShardId,
    replica: ReplicaId,
    durability: Durability,
    group: Group,
    serving: Arc<Serving>,
    state: Arc<RwLock<ShardState>>,
    promise: Promise,
    /// The index up to where its state holds the log.
    applied: u64,
    queue: VecDeque<Queued>,
    /// Proposed and not applied, in index order.
    in_flight: VecDeque<InFlight>,
    /// Work whose records are in the log or on their way, until it is applied.
    appends: VecDeque<Append>,
    readers: Vec<Reader>,
    /// What its leader elsewhere is asked to do.
    forward: Forward,
    /// Reads that had come before are fit for what is applied here, whoever leads.
    read_until: BootNanos,
    /// The horizon that is on its way through the log, if any.
    horizon_asked: Timestamp,
    /// When the others were last asked to confirm that it leads.
    confirm_asked: BootNanos,
    /// The term that it leads and whose first entry it has applied, or 0.
    opened_term: u64,
    /// Who leads, as readers outside the lane were last told.
    told_leader: Option<ReplicaId>,
    /// Whether its term or vote has changed since the newest checkpoint that is on disk.
    vote_uncovered: bool,
    /// Bytes of entries since its commit index was last written down.
    unmarked_bytes: usize,
    outbox: Vec<Message>,
    watch: Watch,
    /// Whether the lane has this shard on its list of those with something to do.
    pub(crate) active: bool,
}

enum Queued {
    Batch {
        origin: Origin,
        batch: Batch,
    },
    Operation {
        kind: Kind,
        bytes: Vec<u8>,
        asker: Asker,
    },
    /// Commands with a number: another node's, or (`None`) of `forward`.
    Once {
        from: Option<NodeId>,
        id: BatchId,
        count: u32,
        bytes: Vec<u8>,
    },
}

struct InFlight {
    index: u64,
    term: u64,
    since: BootNanos,
    asker: Asker,
}

enum Asker {
    Nobody,
    Batch {
        origin: Origin,
        waiters: Vec<Waiter>,
    },
    Operation {
        origin: Origin,
        waiter: Waiter,
    },
    /// Another node, of the catalogue.
    RemoteOperation {
        node: NodeId,
        number: u64,
    },
    /// Another node, or (`None`) `forward`.
    Once {
        from: Option<NodeId>,
        session: u64,
        sequence: u64,
    },
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

impl Shard {
    /// A shard from its first state or what was recovered.
    pub fn new(start: ShardStart, boot: Boot) -> Self {
        let ShardStart { view, durability, replica, log, log_from } = start;
        let state = view.read();
        let id = state.descriptor.shard;
        let promise = Promise::new(state.unsettled.clone());
        let serving = state.serving.clone();
        let applied = state.applied_index;
        // What is not applied yet is still needed in the log.
        let recovered = log_from.zip(log.entries.last()).map(|(lsn, last)| Append {
            number: 0,
            ticket: 0,
            last_index: last.index,
            needs_sync: false,
            lsn: Some(lsn),
            persisted: true,
        });
        let group = Group::new(replica, &state.members, log, &Default::default(), boot);
        drop(state);
        Self {
            id,
            replica,
            durability,
            group,
            serving,
            state: view,
            promise,
            applied,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            appends: recovered.into_iter().collect(),
            readers: Vec::new(),
            forward: Forward::default(),
            read_until: 0,
            horizon_asked: Timestamp::ZERO,
            confirm_asked: 0,
            opened_term: 0,
            told_leader: None,
            vote_uncovered: true,
            unmarked_bytes: 0,
            outbox: Vec::new(),
            watch: Watch::new(boot.now),
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

    /// Whether a checkpoint of this applied index, the newest on disk, says all that a new one
    /// would: a replica's vote may have changed without an entry.
    pub fn is_covered_by(&self, index: u64) -> bool {
        self.applied == index && !self.vote_uncovered
    }

    /// A checkpoint with this hard state is on disk.
    pub(crate) fn covered(&mut self, hard_state: HardState) {
        let now = self.hard_state();
        if (now.term, now.vote) == (hard_state.term, hard_state.vote) {
            self.vote_uncovered = false;
        }
    }

    /// Where the log must be kept from, so that everything not applied yet is in it: the beginning
    /// of the oldest such group, or `written_end` if there is none.
    pub fn log_needed_from(&self, written_end: Lsn) -> Lsn {
        let oldest = self.appends.front().and_then(|append| append.lsn);
        oldest.map_or(written_end, |lsn| lsn.min(written_end))
    }

    /// Stands for election if there is nobody else to vote, or if it is the first to stand in a
    /// shard that was just born.
    pub(crate) fn begin(&mut self) {
        let is_first = || birth::stands_first(&self.state.read().descriptor, self.replica);
        let is_alone = self.is_sole() && self.group.last_index() == self.applied;
        if is_alone || (self.is_newborn() && is_first()) {
            self.group.campaign();
        }
    }

    /// Whether its group has done nothing yet, as far as it knows.
    fn is_newborn(&self) -> bool {
        (self.group.last_index(), self.group.term()) == BORN
    }

    /// Whether it has to look for its leader, or to be heard by others.
    pub(crate) fn needs_ticks(&self) -> bool {
        !self.is_sole() || !self.group.is_leader()
    }

    pub(crate) fn configure(&mut self, durability: Durability) {
        self.durability = durability;
    }

    pub(crate) fn propose(&mut self, origin: Origin, batch: Batch) {
        self.queue.push_back(Queued::Batch { origin, batch });
    }

    pub(crate) fn operate(&mut self, kind: Kind, bytes: Vec<u8>, asker: Option<(Origin, Waiter)>) {
        let asker =
            asker.map_or(Asker::Nobody, |(origin, waiter)| Asker::Operation { origin, waiter });
        self.queue.push_back(Queued::Operation { kind, bytes, asker });
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

    /// Whether it has no other replicas.
    pub(crate) fn is_sole(&self) -> bool {
        self.group.members().is_sole(self.replica)
    }

    /// Whether it leads, and knows all that was ever committed.
    fn leads(&self) -> bool {
        self.group.is_leader() && self.opened_term == self.group.term()
    }

    /// Tells the group of the longest persisted run from the front: work is persisted in order.
    fn advance_persisted(&mut self) {
        let run = self.appends.iter().take_while(|append| append.persisted);
        if let Some(number) = run.last().map(|append| append.number) {
            self.group.persisted(number);
        }
    }

    /// Index and term of the entry that holds what this waiter has asked for, if it is proposed and
    /// not answered yet.
    pub fn place_of(&self, waiter: Waiter) -> Option<(u64, u64)> {
        let holds = |asker: &Asker| match asker {
            Asker::Batch { waiters, .. } => waiters.contains(&waiter),
            Asker::Operation { waiter: waits, .. } => *waits == waiter,
            Asker::Nobody | Asker::RemoteOperation { .. } | Asker::Once { .. } => false,
        };
        let found = self.in_flight.iter().find(|in_flight| holds(&in_flight.asker));
        found.map(|in_flight| (in_flight.index, in_flight.term))
    }

    /// Whether a turn could do anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.appends.is_empty()
            && self.readers.is_empty()
            && self.forward.is_idle()
    }

    /// Whether proposals wait for the shard to lead, or for the next turn.
    pub(crate) fn holds_back(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn turn(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        let clock = turn.clock;
        self.group.observe(turn.now);
        self.expire(turn, effects);
        loop {
            if self.leads() && !self.forward.is_idle() {
                self.take_over();
            }
            self.serve_readers(turn.now, clock, effects);
            self.propose_queued(turn, effects.records.bytes());
            self.change_members(turn.now, clock);
            let Some(work) = self.group.ready() else { break };
            self.hand_out(work, clock, effects);
        }
        if !self.leads() {
            self.follow(turn, effects);
        }
        self.post(turn, effects);
        self.forget_appends();
        self.publish();
        self.watch(turn.now);
        self.send(effects);
    }

    fn propose_queued(&mut self, turn: &Turn<'_>, mut turn_bytes: u64) {
        if !self.leads() || self.group.is_transferring() {
            return;
        }
        while turn_bytes < turn.bytes_max {
            let Some(queued) = self.queue.pop_front() else { return };
            let index = self.group.last_index() + 1;
            let (kind, mut bytes, count, asker) = match queued {
                Queued::Batch { origin, batch } => {
                    let (bytes, waiters) = batch.into_parts();
                    let count = waiters.len() as u32;
                    (Kind::Commands, bytes, count, Asker::Batch { origin, waiters })
                }
                Queued::Operation { kind, bytes, asker } => (kind, bytes, 1, asker),
                Queued::Once { from, id, count, bytes } => {
                    let BatchId { session, sequence, .. } = id;
                    (Kind::Once, bytes, count, Asker::Once { from, session, sequence })
                }
            };
            turn_bytes += bytes.len() as u64;
            let term = self.stamp(turn.clock, index, kind, count, &mut bytes);
            let place = match self.group.propose(bytes) {
                Ok(place) => place,
                Err(_) => unreachable!("a leader that hands nothing over proposes"),
            };
            assert_eq!(place.index, index, "the index was reserved under the same lane step");
            self.in_flight.push_back(InFlight { index, term, since: turn.now, asker });
        }
    }

    /// Takes the timestamp of the entry that is proposed next, and fills in its header; its term.
    fn stamp(
        &mut self,
        clock: &Clock,
        index: u64,
        kind: Kind,
        count: u32,
        bytes: &mut [u8],
    ) -> u64 {
        let timestamp = self.promise.take(clock, index);
        let term = self.group.term();
        Header { kind, timestamp, term, count }.fill(bytes);
        term
    }

    /// Puts what must persist into the turn's group, and applies what is committed.
    fn hand_out(&mut self, work: Work, clock: &Clock, effects: &mut Effects) {
        // SAFETY G9: what others count on is fsynced at every durability.
        let mut needs_sync = self.durability == Durability::Sync || !self.is_sole();
        if let Some(hard_state) = work.hard_state {
            let payload = record::encode_hard_state(hard_state);
            push(&mut effects.records, self.id, record::HARD_STATE, &[&payload]);
            needs_sync = true;
            self.vote_uncovered = true;
        }
        self.replace(&work.entries, effects);
        self.mark_committed(&work.entries, effects);
        for entry in &work.entries {
            if !self.group.is_leader() {
                observe(entry, clock);
            }
            let prefix = record::entry_prefix(entry.index, entry.term);
            push(&mut effects.records, self.id, record::ENTRY, &[&prefix, &entry.data]);
            let kind = entry.data.first().copied();
            // All but commands are fsynced at every durability (SAFETY G9). A safe point does not
            // hold up the commands behind it, though: the system shard's record of it is durable
            // already, so that here it is only followed. An empty entry opens a term.
            let is_commands = [Kind::Commands as u8, Kind::Once as u8];
            effects.sync |= !kind.is_some_and(|kind| is_commands.contains(&kind));
            let follows = [Kind::Commands as u8, Kind::SafePoint as u8, Kind::Once as u8];
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
        } else {
            // There is nothing to persist, but what it says must not overtake what is persisted.
            match self.appends.back_mut().filter(|append| !append.persisted) {
                Some(append) => append.number = work.number,
                None => self.group.persisted(work.number),
            }
        }
        if !work.committed.is_empty() {
            self.apply(work.committed, clock, effects);
        }
    }

    /// Writes down now and then how far the group has agreed: a restart applies that much as it
    /// reads, and keeps in memory only what lies above. A sole voter's log is all agreed.
    ///
    /// With every change of members, always: whoever has the next one on disk must remember after a
    /// restart that the one before is in force, or it would lead among members of the past
    /// (decision 0012).
    fn mark_committed(&mut self, entries: &[Entry], effects: &mut Effects) {
        self.unmarked_bytes += entries.iter().map(|entry| entry.data.len()).sum::<usize>();
        let is_due = self.unmarked_bytes >= MARK_BYTES && !self.is_sole();
        if is_due || entries.iter().any(|entry| entry.is_change) {
            self.unmarked_bytes = 0;
            let payload = record::encode_hard_state(self.group.hard_state());
            push(&mut effects.records, self.id, record::HARD_STATE, &[&payload]);
        }
    }

    /// What was proposed here, and has lost its place in the log to these, will never be done.
    fn replace(&mut self, entries: &[Entry], effects: &mut Effects) {
        let Some(first) = entries.first() else { return };
        while let Some(last) = self.in_flight.back() {
            if last.index < first.index || last.term >= first.term {
                return;
            }
            let lost = self.in_flight.pop_back().expect("it was just looked at");
            self.refuse(lost.asker, NotDone::Replaced, effects);
        }
    }

    /// What is applied is of this term: nothing that was proposed here in an older one, and has not
    /// been applied, ever will be.
    fn outlive(&mut self, term: u64, effects: &mut Effects) {
        for in_flight in std::mem::take(&mut self.in_flight) {
            match in_flight.term < term {
                true => self.refuse(in_flight.asker, NotDone::Replaced, effects),
                false => self.in_flight.push_back(in_flight),
            }
        }
    }

    /// Lets go of what is applied and persisted.
    fn forget_appends(&mut self) {
        let applied = self.applied;
        while self.appends.front().is_some_and(|a| a.persisted && a.last_index <= applied) {
            self.appends.pop_front();
        }
    }

    fn apply(&mut self, committed: Vec<Entry>, clock: &Clock, effects: &mut Effects) {
        for entry in committed {
            let mut replies = Vec::new();
            let outcome = {
                let mut state = self.state.write();
                let outcome = state.apply(&entry, &mut replies);
                if let Outcome::Members(step) = &outcome {
                    state.members = self.group.change(&step.change).clone();
                    let ShardState { descriptor, members, .. } = &mut *state;
                    step.apply(descriptor, members);
                }
                let opens_term = entry.data.is_empty() && entry.term == self.group.term();
                if opens_term && self.group.is_leader() {
                    // SAFETY G2: above everything that the leaders before have promised.
                    clock.observe(state.horizon.max(state.last));
                    self.opened_term = entry.term;
                    self.promise.lead();
                    self.serving.raise_floor(clock.now());
                }
                outcome
            };
            self.applied = entry.index;
            self.group.applied(entry.index);
            self.promise.applied(entry.index);
            let mine = self.in_flight.front().is_some_and(|f| f.index == entry.index);
            let asker = if mine { self.in_flight.pop_front() } else { None };
            if self.in_flight.front().is_some_and(|oldest| oldest.term < entry.term) {
                self.outlive(entry.term, effects);
            }
            match asker {
                Some(lost) if lost.term != entry.term => {
                    self.refuse(lost.asker, NotDone::Replaced, effects);
                    report(outcome, None, effects);
                }
                Some(InFlight { asker: Asker::Batch { origin, waiters }, .. }) => {
                    assert_eq!(waiters.len(), replies.len(), "one reply per command");
                    // Nobody else holds the entry any more, so this takes its memory, not a copy.
                    let spent = Spent { bytes: entry.data.into(), waiters };
                    effects.answers.push(Answer::Applied { origin, spent, replies });
                }
                Some(InFlight { asker: Asker::Operation { origin, waiter }, .. }) => {
                    report(outcome, Some((origin, waiter)), effects);
                }
                Some(InFlight { asker, .. }) => self.answer_post(asker, outcome, effects),
                None => report(outcome, None, effects),
            }
        }
    }

    /// Tells everyone who waits that the shard is dropped.
    pub(crate) fn abandon(&mut self, effects: &mut Effects) {
        self.serving.until(0);
        self.refuse_queued(NotDone::NoSuchShard, effects);
        for in_flight in std::mem::take(&mut self.in_flight) {
            if matches!(in_flight.asker, Asker::Batch { .. } | Asker::Once { .. }) {
                self.refuse(in_flight.asker, NotDone::Dropped, effects);
            }
        }
        self.refuse_readers(NotDone::NoSuchShard, effects);
        self.forward.abandon(effects);
    }

    /// Tells all that was not proposed yet why it will not be.
    fn refuse_queued(&mut self, why: NotDone, effects: &mut Effects) {
        for queued in std::mem::take(&mut self.queue) {
            let asker = match queued {
                Queued::Batch { origin, batch } => {
                    Asker::Batch { origin, waiters: batch.into_parts().1 }
                }
                Queued::Operation { asker, .. } => asker,
                Queued::Once { from, id: BatchId { session, sequence, .. }, .. } => {
                    Asker::Once { from, session, sequence }
                }
            };
            self.refuse(asker, why, effects);
        }
    }

    /// Tells whoever asked, if anyone did, that nothing was done, or that nobody knows.
    fn refuse(&mut self, asker: Asker, why: NotDone, effects: &mut Effects) {
        let (origin, waiters) = match asker {
            Asker::Batch { origin, waiters } => (origin, waiters),
            Asker::Operation { origin, waiter } => (origin, vec![waiter]),
            Asker::Nobody => return,
            // It will ask nobody else, and hear nothing.
            Asker::RemoteOperation { .. } if why == NotDone::Unknown => return,
            asker => return self.send_elsewhere(asker, effects),
        };
        effects.answers.push(Answer::NotDone { origin, waiters, why });
    }
}

/// A follower's clock goes above what it is sent, so that it may lead next (SAFETY G2).
fn observe(entry: &Entry, clock: &Clock) {
    if let Some((header, _)) = Header::decode(&entry.data) {
        clock.observe(header.timestamp);
    }
}

/// Bytes of entries after which the commit index is written down.
const MARK_BYTES: usize = 1 << 20;
