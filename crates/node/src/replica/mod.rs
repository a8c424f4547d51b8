//! One replica of one shard, as its lane sees it: the group, what is on its way, who waits.
//!
//! The way of a batch: queued → proposed (it has its timestamp, index and term) → in a group of
//! the log under a ticket → persisted → committed → applied under the write guard → answered.
//!
//! | here | what |
//! |---|---|
//! | this file | what a replica is, its turn, and who is told when it ends |
//! | `entries` | entries: proposed, persisted, applied, answered |
//! | [`readers`](self) | reads that wait for a horizon, an entry or the proof of leadership |
//! | `replicas` | messages, time, changes of replicas, snapshots |
//! | `checks` | whether all replicas hold the same |
//! | `forward` | what the leader elsewhere is asked to do |
//! | `fetches` | what readers want of it |
//! | `lagging` | a replica that is far behind: its readers are served by the leader |
//! | `post` | what other nodes ask of this one, and answer |
//! | `splits` | it is cut in two |
//! | `steps` | steps of transactions over several shards, and who waits for locks |
//! | `errands` | steps that somebody here wants |
//! | `merges` | two become one |
//! | `safe_points` | how far old versions may go |
//! | `report` | how it is, for those who look after it |
//!
//! A replica that does not lead has who does do what it is asked. What it had proposed before it
//! lost the lead stays on the list: its entry may yet be applied, and is answered then; or one
//! of a later term is, and it is done for good.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use command::NotDone;
use hlc::Promise;
use keyspace::{Durability, Generation, KeyspaceId, NodeId, ReplicaId, ShardId, Timestamp};
use parking_lot::RwLock;
use replication::{Boot, BootNanos, Group, HardState, Message, Start};
use storage::log::Lsn;

use crate::executor::{Answer, Effects, Origin, Turn};
use crate::replica::entry::{Batch, Kind, Waiter};
use crate::replica::serving::Serving;
use crate::replica::state::{BORN, ShardState};
use crate::reshape::bootstrap;
use crate::routing::session::BatchId;

pub mod catalogue;
mod checks;
pub mod digest;
mod entries;
pub mod entry;
pub(crate) mod errands;
pub(crate) mod fetches;
pub(crate) mod forward;
mod lagging;
pub mod members;
mod merges;
mod post;
pub mod read;
mod readers;
pub mod record;
mod replicas;
mod report;
mod safe_points;
pub mod scan;
pub mod serving;
mod splits;
pub mod state;
mod steps;

use checks::Checks;
pub use checks::{Finding, Unfit};
use errands::Errands;
use fetches::Fetches;
use forward::Forward;
pub use forward::legacy::{Heir, Legacy};
use merges::Merges;
pub(crate) use post::counted;
use readers::Reader;
pub use replicas::Count;
use report::Watch;
pub use report::{LAG_ENTRIES_MAX, Lag, Laggard, SILENT_NANOS, STALLED_NANOS, ShardReport, Tally};
pub use safe_points::Raise;
pub(crate) use safe_points::SYSTEM;
use steps::Steps;
use txn::wait_queue::StepAsker;

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
    /// If it is the right half of a shard that was just cut in two.
    pub half: Option<HalfOf>,
}

/// What a right half begins beside.
#[derive(Clone, Copy, Debug)]
pub struct HalfOf {
    /// The left half.
    pub left: ShardId,
    /// Whether the left half's replica here leads: then this one stands for election at once
    /// (SAFETY G11).
    pub leads: bool,
}

impl ShardStart {
    /// One of the replicas with which a new shard begins.
    pub fn born(state: ShardState, replica: ReplicaId, durability: Durability) -> Self {
        let hard_state = HardState { term: BORN.1, vote: 0, commit: BORN.0 };
        let log = Start { hard_state, before: BORN, entries: Vec::new(), applied: BORN.0 };
        let view = Arc::new(RwLock::new(state));
        Self { view, durability, replica, log, log_from: None, half: None }
    }

    /// A replica that others have added, and that waits for its snapshot.
    pub fn awaiting(state: ShardState, replica: ReplicaId, durability: Durability) -> Self {
        let view = Arc::new(RwLock::new(state));
        Self { view, durability, replica, log: Start::default(), log_from: None, half: None }
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
    /// … and what readers here want of it, if this replica lags.
    fetches: Fetches,
    /// … and steps of transactions.
    errands: Errands,
    steps: Steps,
    /// It lags as long as this index is not applied here; 0: it does not.
    lacks: u64,
    /// Reads that had come before are fit for what is applied here, whoever leads.
    read_until: BootNanos,
    /// The horizon that is on its way through the log, if any.
    horizon_asked: Timestamp,
    /// The safe points that this leader has had logged, until it does not lead any more: of its
    /// keyspace or, in the system shard, of all.
    points_asked: BTreeMap<KeyspaceId, Timestamp>,
    /// When the others were last asked to confirm that it leads.
    confirm_asked: BootNanos,
    /// The term that it leads and whose first entry it has applied, or 0.
    opened_term: u64,
    /// Who leads, as readers outside the lane were last told.
    told_leader: Option<ReplicaId>,
    /// The term in which that was heard of.
    told_term: u64,
    /// Whether the node's lookup knows it otherwise than it is.
    untold: bool,
    /// Whether its term or vote has changed since the newest checkpoint that is on disk.
    vote_uncovered: bool,
    /// Bytes of entries since its commit index was last written down.
    unmarked_bytes: usize,
    outbox: Vec<Message>,
    /// Replicas that have spoken lately, and where: one may have been added that the state here
    /// does not know yet.
    heard: Vec<(ReplicaId, NodeId)>,
    watch: Watch,
    checks: Checks,
    /// The term in which it has had the newest change settled, and the generation then.
    settle_asked: (u64, Generation),
    /// Whether the newest change of replicas is settled, as applied here.
    is_settled: bool,
    /// Replicas that have said that they take no part any more, if this one leads.
    broken: BTreeSet<ReplicaId>,
    /// If it began as a right half.
    half: Option<HalfOf>,
    merges: Merges,
    /// Whether the lane has this shard on its list of those with something to do.
    pub(crate) active: bool,
    /// Whether it is to have the lane's next turn, if it is on that list.
    pub(crate) is_due: bool,
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

impl Queued {
    fn len_bytes(&self) -> u64 {
        match self {
            Queued::Batch { batch, .. } => batch.len_bytes() as u64,
            Queued::Operation { bytes, .. } | Queued::Once { bytes, .. } => bytes.len() as u64,
        }
    }

    /// Who is told what becomes of it.
    fn into_asker(self) -> Asker {
        match self {
            Queued::Batch { origin, batch } => {
                Asker::Batch { origin, waiters: batch.into_parts().1 }
            }
            Queued::Operation { asker, .. } => asker,
            Queued::Once { from, id: BatchId { session, sequence, .. }, .. } => {
                Asker::Once { from, session, sequence }
            }
        }
    }
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
    /// Of steps, in their order.
    Steps(Vec<StepAsker>),
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
        let ShardStart { view, durability, replica, log, log_from, half } = start;
        let state = view.read();
        let id = state.descriptor.shard;
        let promise = Promise::new(state.unsettled.clone());
        let serving = state.serving.clone();
        let (applied, is_settled) = (state.applied_index, state.roster.is_settled);
        let (merges, steps) = (Merges::of(&state), Steps::of(&state));
        // What is not applied yet is still needed in the log.
        let recovered = log_from.zip(log.entries.last()).map(|(lsn, last)| Append {
            number: 0,
            ticket: 0,
            last_index: last.index(),
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
            fetches: Fetches::default(),
            errands: Errands::default(),
            steps,
            lacks: 0,
            read_until: 0,
            horizon_asked: Timestamp::ZERO,
            points_asked: BTreeMap::new(),
            confirm_asked: 0,
            opened_term: 0,
            told_leader: None,
            told_term: 0,
            untold: true,
            vote_uncovered: true,
            unmarked_bytes: 0,
            outbox: Vec::new(),
            heard: Vec::new(),
            watch: Watch::new(boot.now),
            checks: Checks::default(),
            settle_asked: (0, Generation(0)),
            is_settled,
            broken: BTreeSet::new(),
            half,
            merges,
            active: false,
            is_due: true,
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

    /// Whether it has begun as a right half since the newest checkpoint that it was started from:
    /// what it began with is in the log of a left half, unless it is in a checkpoint since.
    pub fn began_as_half(&self) -> bool {
        self.half.is_some()
    }

    /// Where the log must be kept from, so that everything not applied yet is in it: the beginning
    /// of the oldest such group, or `written_end` if there is none.
    pub fn log_needed_from(&self, written_end: Lsn) -> Lsn {
        let oldest = self.appends.front().and_then(|append| append.lsn);
        oldest.map_or(written_end, |lsn| lsn.min(written_end))
    }

    /// Goes on with what was asked of other nodes before this one had a replica.
    pub(crate) fn succeed(&mut self, (forward, fetches, errands): (Forward, Fetches, Errands)) {
        (self.forward, self.fetches, self.errands) = (forward, fetches, errands);
        self.steps.wake();
    }

    /// Stands for election if there is nobody else to vote, or if it is the first to stand in a
    /// shard that was just born.
    pub(crate) fn begin(&mut self) {
        let is_first = || match self.half {
            Some(half) => half.leads,
            None => bootstrap::stands_first(&self.state.read().descriptor, self.replica),
        };
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
        !self.group.is_leader() || !self.is_sole()
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
            self.is_due |= !append.needs_sync;
            append.persisted |= !append.needs_sync;
        }
        self.advance_persisted();
    }

    pub(crate) fn durable(&mut self, ticket: u64) {
        for append in self.appends.iter_mut().take_while(|a| a.ticket <= ticket) {
            self.is_due |= !append.persisted;
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
            Asker::Nobody
            | Asker::RemoteOperation { .. }
            | Asker::Steps(_)
            | Asker::Once { .. } => false,
        };
        let found = self.in_flight.iter().find(|in_flight| holds(&in_flight.asker));
        found.map(|in_flight| (in_flight.index, in_flight.term))
    }

    /// Whether a turn could do anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.appends.is_empty()
            && self.readers.is_empty()
            && self.steps.is_idle()
            && self.asks_nothing()
            && self.merges_nothing()
    }

    /// Whether a turn could do nothing until something comes for it or time passes.
    pub(crate) fn rests(&self) -> bool {
        self.queue.is_empty()
            && self.readers.is_empty()
            && self.forward.is_idle()
            && self.fetches.rests()
            && (self.steps.is_idle() || self.steps_rest())
            && self.merges_nothing()
    }

    /// Whether nothing is asked of a leader elsewhere.
    fn asks_nothing(&self) -> bool {
        self.forward.is_idle() && self.fetches.is_idle()
    }

    /// Bytes of what it may yet propose, and how many entries these are: what waits for the shard
    /// to lead or for the next turn, and what another leader is asked to do.
    pub(crate) fn held(&self) -> (u64, u64) {
        let queued = self.queue.iter().map(Queued::len_bytes).sum::<u64>();
        let (bytes, count) = self.forward.held();
        let (of_steps, steps) = self.steps.held_bytes();
        (bytes + queued + of_steps, count + self.queue.len() as u64 + steps)
    }

    /// What a shard alone does not need stands in functions that are not put in here: each would
    /// be prepared for in every turn.
    pub(crate) fn turn(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        let clock = turn.clock;
        self.group.observe(turn.now);
        self.expire(turn, effects);
        self.absorb_given(clock, effects);
        loop {
            if self.leads() && !self.asks_nothing() {
                self.take_over(effects);
            }
            self.serve_readers(turn, effects);
            self.check(turn, effects);
            if !self.steps.is_idle() {
                self.look_at_locks(turn, effects);
            }
            self.propose_queued(turn, effects.records.bytes());
            if !self.steps.is_idle() {
                self.propose_steps(turn, effects);
            }
            self.change_members(turn.now, clock);
            self.merge(turn, effects);
            let Some(work) = self.group.ready() else { break };
            self.hand_out(work, clock, effects);
        }
        if !self.leads() {
            self.follow(turn, effects);
        }
        if !self.steps.is_idle() {
            self.end_steps(turn, effects);
        }
        self.post(turn, effects);
        self.forget_appends();
        self.publish();
        self.tell_lookup(effects);
        self.watch(turn.now);
        self.send(turn.now, effects);
    }

    /// Why it must take no part any more, if it must not.
    pub(crate) fn unfit(&self) -> Option<Unfit> {
        let lacks = self.merges.lacks_right.then_some(Unfit::LacksRight);
        self.checks.differs.then_some(Unfit::Differs).or(lacks)
    }

    /// This replica has gone, and others are asked from now on: with what it was to ask of them,
    /// which is handed on. Readers here are told to have what they look at fetched.
    pub(crate) fn give_up(
        &mut self,
        now: BootNanos,
        effects: &mut Effects,
    ) -> (Forward, Fetches, Errands) {
        self.serving.end();
        self.hand_queue_over(now, effects);
        for in_flight in std::mem::take(&mut self.in_flight) {
            self.refuse(in_flight.asker, NotDone::Unknown, effects);
        }
        self.forward.leave(effects);
        self.fetches.let_go(effects);
        self.let_all_lock_readers_go(effects);
        self.errands.not_here();
        let errands = std::mem::take(&mut self.errands);
        (std::mem::take(&mut self.forward), std::mem::take(&mut self.fetches), errands)
    }

    /// Tells everyone who waits that the shard is dropped.
    pub(crate) fn abandon(&mut self, effects: &mut Effects) {
        self.serving.end();
        self.refuse_queued(NotDone::NoSuchShard, effects);
        for in_flight in std::mem::take(&mut self.in_flight) {
            if matches!(in_flight.asker, Asker::Batch { .. } | Asker::Once { .. }) {
                self.refuse(in_flight.asker, NotDone::Dropped, effects);
            }
        }
        self.refuse_readers(NotDone::NoSuchShard, effects);
        self.let_all_lock_readers_go(effects);
        self.errands.let_go(effects);
        self.forward.abandon(NotDone::NoSuchShard, NotDone::Dropped, effects);
        self.fetches.abandon(effects);
    }

    /// Tells all that was not proposed yet why it will not be.
    fn refuse_queued(&mut self, why: NotDone, effects: &mut Effects) {
        self.give_up_steps(effects);
        for queued in std::mem::take(&mut self.queue) {
            self.refuse(queued.into_asker(), why, effects);
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
            Asker::Steps(askers) => return self.send_steps_elsewhere(askers, effects),
            asker => return self.send_elsewhere(asker, effects),
        };
        effects.answers.push(Answer::NotDone { origin, waiters, why });
    }
}
