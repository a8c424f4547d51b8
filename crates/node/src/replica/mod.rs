//! One replica of one shard, as its executor sees it: the Raft group, entries in flight, waiting
//! requests.
//!
//! A batch is queued → proposed (it gets its timestamp, index and term) → in a group of the log
//! under a ticket → persisted → committed → applied under the write guard → answered.
//!
//! | here | what |
//! |---|---|
//! | this file | what a replica is, its step round, and which clients it answers when it ends |
//! | `entries` | entries: proposed, persisted, applied, answered |
//! | [`readers`](self) | reads that wait for a horizon, an entry or the proof of leadership |
//! | `replicas` | messages, time, changes of replicas, snapshots |
//! | `consistency_check` | whether all replicas hold the same |
//! | `forward` | requests for a leader on another node |
//! | `fetches` | fetches for readers, from that leader |
//! | `lagging` | a replica that is far behind: its readers ask the leader |
//! | `feeds` | questions of change feeds |
//! | `rpc_handler` | requests of other nodes, and the replies |
//! | `splits` | a split of the shard |
//! | `steps` | steps of transactions over several shards, and requests that wait for locks |
//! | `forwarded_steps` | steps that clients of this node want |
//! | `outgoing` | all requests for the leader on another node |
//! | `leading` | what only a leader knows |
//! | `persistence` | what the disk holds of it |
//! | `merges` | a merge of two shards |
//! | `safe_points` | how far old versions may be collected |
//! | `tracking` | nodes whose clients cache keys of the shard |
//! | `report` | its state, for operators |
//!
//! A follower forwards each request to the leader. Entries that it proposed before it lost the lead
//! stay listed. Such an entry may still be applied, and its client is answered then. Once an entry
//! of a later term is applied, it never will be.

use std::collections::VecDeque;
use std::sync::Arc;

use command::NotDone;
use hlc::ReadPromise;
use keyspace::{Durability, NodeId, ReplicaId, ShardId};
use parking_lot::RwLock;
use replication::{BootNanos, Entry, Group, HardState, Message, StartContext, StartState};
use storage::log::Lsn;

use crate::executor::{Answer, Caller, Effects, Origin, RoundContext};
use crate::feed::log::ChangeLog;
use crate::replica::entry::{Batch, Kind, Waiter};
use crate::replica::serving::Serving;
use crate::replica::state::{BEFORE_FIRST_ENTRY, ShardState};
use crate::reshape::bootstrap;
use crate::tracking::leader::LeaderTable;

pub mod catalogue;
mod consistency_check;
pub mod digest;
mod entries;
pub mod entry;
mod feeds;
pub(crate) mod fetches;
pub(crate) mod forward;
pub(crate) mod forwarded_steps;
mod lagging;
mod leading;
pub mod members;
mod merges;
mod outgoing;
mod persistence;
mod publish;
mod queue;
pub mod read;
mod readers;
pub mod record;
mod replicas;
mod reply_budget;
mod report;
mod rpc_handler;
mod safe_points;
pub mod scan;
pub mod script_keys;
pub mod serving;
mod splits;
pub mod state;
mod steps;
mod tracking;

use consistency_check::ConsistencyChecks;
pub use consistency_check::{ReplicaComparison, ReplicaEndReason};
pub use forward::handover::{InheritedSession, RequestHandover};
use leading::Leading;
use merges::Merges;
pub(crate) use outgoing::Outgoing;
use persistence::{Append, Persistence};
use queue::{Asker, InFlight, Queued};
use readers::Reader;
pub use replicas::Count;
use report::LeaderWatch;
pub use report::{
    LAG_ENTRIES_MAX, LagReason, LaggingReplica, ReplicaCounters, SILENT_NANOS, STALLED_NANOS,
    ShardReport,
};
pub(crate) use rpc_handler::counted;
pub(crate) use safe_points::SYSTEM;
pub use safe_points::{SafePoint, SafePointRequest};
use steps::Steps;

/// What a shard begins with: newly made, or recovered from disk.
pub struct ReplicaStart {
    /// Its state as far as it is applied, as readers will see it.
    pub view: Arc<RwLock<ShardState>>,
    /// When its entries count as persisted.
    pub durability: Durability,
    /// Which of the shard's replicas this is.
    pub replica: ReplicaId,
    /// Its log.
    pub log: StartState,
    /// Where the first of the log's entries that are not applied stands on disk.
    pub log_from: Option<Lsn>,
    /// If it is the right half of a shard that was just split.
    pub half: Option<RightHalfStart>,
}

/// What a right half begins beside.
#[derive(Clone, Copy, Debug)]
pub struct RightHalfStart {
    /// The left half.
    pub left: ShardId,
    /// Whether the left half's replica here leads: then this one stands for election at once
    /// (SAFETY G11).
    pub leads: bool,
}

impl ReplicaStart {
    /// One of the replicas with which a new shard begins.
    pub fn created(state: ShardState, replica: ReplicaId, durability: Durability) -> Self {
        let hard_state =
            HardState { term: BEFORE_FIRST_ENTRY.1, vote: 0, commit: BEFORE_FIRST_ENTRY.0 };
        let log = StartState {
            hard_state,
            before: BEFORE_FIRST_ENTRY,
            entries: Vec::new(),
            applied: BEFORE_FIRST_ENTRY.0,
        };
        let view = Arc::new(RwLock::new(state));
        Self { view, durability, replica, log, log_from: None, half: None }
    }

    /// A replica that others have added, and that waits for its snapshot.
    pub fn awaiting(state: ShardState, replica: ReplicaId, durability: Durability) -> Self {
        let view = Arc::new(RwLock::new(state));
        Self { view, durability, replica, log: StartState::default(), log_from: None, half: None }
    }
}

impl std::fmt::Debug for ReplicaStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardStart({})", self.view.read().descriptor.shard)
    }
}

/// One replica of one shard.
pub struct Replica {
    id: ShardId,
    replica: ReplicaId,
    durability: Durability,
    /// Whether what it proposes skips writes of what a key has.
    skips_equal: bool,
    group: Group,
    serving: Arc<Serving>,
    state: Arc<RwLock<ShardState>>,
    promise: ReadPromise,
    /// The index up to where its state holds the log.
    applied: u64,
    queue: VecDeque<Queued>,
    /// Proposed and not applied, in index order.
    in_flight: VecDeque<InFlight>,
    persistence: Persistence,
    readers: Vec<Reader>,
    /// Requests for its leader on another node.
    outgoing: Outgoing,
    steps: Steps,
    /// It lags as long as this index is not applied here; 0: it does not.
    lacks: u64,
    /// Reads that came before this time may be served from the state applied here, whichever
    /// replica leads.
    read_until: BootNanos,
    /// What it knows because it leads.
    leading: Leading,
    published: Published,
    links: Links,
    watch: LeaderWatch,
    checks: ConsistencyChecks,
    /// Whether the newest change of replicas is settled, as applied here.
    is_settled: bool,
    /// If it began as a right half.
    half: Option<RightHalfStart>,
    merges: Merges,
    /// Which nodes hear what changes, while it leads.
    tracked: LeaderTable,
    /// The newest changes, while a feed asks for them here.
    change_log: Option<Box<ChangeLog>>,
    /// Whether the executor has this shard on its list of those with something to do.
    pub(crate) active: bool,
    /// Whether it is to have the executor's next turn, if it is on that list.
    pub(crate) is_due: bool,
}

/// What others than the executor know of it.
#[derive(Default)]
struct Published {
    /// Who leads, as readers outside the executor were last told.
    leader: Option<ReplicaId>,
    /// The term in which that was heard of.
    term: u64,
    /// Whether the node's lookup knows it otherwise than it is.
    is_stale: bool,
}

/// Messages of its group to and from other replicas.
#[derive(Default)]
struct Links {
    outbox: Vec<Message>,
    /// Replicas that have spoken lately, and where: one may have been added that the state here
    /// does not know yet.
    heard: Vec<(ReplicaId, NodeId)>,
}

impl Replica {
    /// A replica from its shard's first state, or from what was recovered.
    pub fn new(start: ReplicaStart, boot: StartContext) -> Self {
        let ReplicaStart { view, durability, replica, log, log_from, half } = start;
        let state = view.read();
        let id = state.descriptor.shard;
        let promise = ReadPromise::new(state.unsettled.clone());
        let serving = state.serving.clone();
        let (applied, is_settled) = (state.applied_index, state.roster.is_settled);
        let (merges, steps) = (Merges::of(&state), Steps::of(&state));
        // What is not applied yet is still needed in the log.
        let not_applied = log_from.zip(log.entries.last().map(Entry::index));
        let group = Group::new(replica, &state.members, log, &Default::default(), boot);
        drop(state);
        Self {
            id,
            replica,
            durability,
            skips_equal: false,
            group,
            serving,
            state: view,
            promise,
            applied,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            persistence: Persistence::new(not_applied),
            readers: Vec::new(),
            outgoing: Outgoing::default(),
            steps,
            lacks: 0,
            read_until: 0,
            leading: Leading::default(),
            published: Published { is_stale: true, ..Published::default() },
            links: Links::default(),
            watch: LeaderWatch::new(boot.now),
            checks: ConsistencyChecks::default(),
            is_settled,
            half,
            merges,
            tracked: LeaderTable::default(),
            change_log: None,
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

    /// Whether a new checkpoint would hold no more than the newest on disk, of this applied index.
    /// A vote may have changed without an entry.
    pub fn is_covered_by(&self, index: u64) -> bool {
        self.applied == index && !self.persistence.vote_uncovered
    }

    /// A checkpoint with this hard state is on disk.
    pub(crate) fn covered(&mut self, hard_state: HardState) {
        self.persistence.covered(hard_state, self.group.hard_state());
    }

    /// Whether it began as a right half after its newest checkpoint at start. Until it has a
    /// checkpoint, its first state follows only from its left half's log.
    pub fn began_as_half(&self) -> bool {
        self.half.is_some()
    }

    /// The place from which the log is still needed, since it holds entries that are not applied:
    /// the oldest such group, or `written_end` if there is none.
    pub fn log_needed_from(&self, written_end: Lsn) -> Lsn {
        self.persistence.needed_from(written_end)
    }

    /// Goes on with what was asked of other nodes before this one had a replica.
    pub(crate) fn succeed(&mut self, outgoing: Outgoing) {
        self.outgoing = outgoing;
        self.steps.wake();
    }

    /// Stands for election if there is nobody else to vote, or if it is the first to stand in a
    /// shard that was just born.
    pub(crate) fn begin(&mut self) {
        let is_first = || match self.half {
            Some(half) => half.leads,
            None => bootstrap::campaigns_first(&self.state.read().descriptor, self.replica),
        };
        let is_alone = self.is_sole() && self.group.last_index() == self.applied;
        if is_alone || (self.is_fresh_group() && is_first()) {
            self.group.campaign();
        }
    }

    /// Whether its group has done nothing yet, as far as it knows.
    fn is_fresh_group(&self) -> bool {
        (self.group.last_index(), self.group.term()) == BEFORE_FIRST_ENTRY
    }

    /// Whether it has to look for its leader, or to be heard by others.
    pub(crate) fn needs_ticks(&self) -> bool {
        !self.group.is_leader() || !self.is_sole()
    }

    /// Its keyspace is so from now on.
    pub(crate) fn configure(&mut self, durability: Durability, skips_equal: bool) {
        (self.durability, self.skips_equal) = (durability, skips_equal);
    }

    pub(crate) fn propose(&mut self, origin: Origin, batch: Batch) {
        self.queue.push_back(Queued::Batch { origin, batch });
    }

    pub(crate) fn operate(&mut self, kind: Kind, bytes: Vec<u8>, asker: Option<Caller>) {
        let asker = asker
            .map_or(Asker::Nobody, |Caller { origin, waiter }| Asker::Operation { origin, waiter });
        self.queue.push_back(Queued::Operation { kind, bytes, asker });
    }

    pub(crate) fn written(&mut self, ticket: u64, lsn: Lsn) {
        self.is_due |= self.persistence.written(ticket, lsn);
        self.advance_persisted();
    }

    pub(crate) fn durable(&mut self, ticket: u64) {
        self.is_due |= self.persistence.durable(ticket);
        self.advance_persisted();
    }

    /// Whether it has no other replicas.
    pub(crate) fn is_sole(&self) -> bool {
        self.group.members().is_sole(self.replica)
    }

    /// Whether it leads, and knows all that was ever committed.
    fn leads(&self) -> bool {
        self.group.is_leader() && self.leading.opened_term == self.group.term()
    }

    /// Tells the group how far its work is persisted.
    fn advance_persisted(&mut self) {
        if let Some(number) = self.persistence.persisted() {
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
            | Asker::SessionBatch { .. } => false,
        };
        let found = self.in_flight.iter().find(|in_flight| holds(&in_flight.asker));
        found.map(|in_flight| (in_flight.index, in_flight.term))
    }

    /// Whether a turn could do anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.persistence.appends.is_empty()
            && self.readers.is_empty()
            && !self.steps.needs_round()
            && self.has_no_outgoing_requests()
            && self.merges_nothing()
    }

    /// Whether a turn could do nothing until something comes for it or time passes.
    #[inline]
    pub(crate) fn only_waits(&self) -> bool {
        self.queue.is_empty()
            && self.readers.iter().all(Reader::awaits_changes)
            && self.outgoing.forward.is_idle()
            && self.outgoing.fetches.all_are_sent()
            && (!self.steps.needs_round() || self.steps_only_wait())
            && self.merges_nothing()
    }

    /// Whether nothing is asked of a leader elsewhere.
    fn has_no_outgoing_requests(&self) -> bool {
        self.outgoing.forward.is_idle() && self.outgoing.fetches.is_idle()
    }

    /// Bytes of what it may yet propose, and how many entries these are: what waits for the shard
    /// to lead or for the next turn, and what another leader is asked to do.
    pub(crate) fn held(&self) -> (u64, u64) {
        let queued = self.queue.iter().map(Queued::len_bytes).sum::<u64>();
        let (bytes, count) = self.outgoing.forward.held();
        let (of_steps, steps) = self.steps.held_bytes();
        (bytes + queued + of_steps, count + self.queue.len() as u64 + steps)
    }

    /// What a shard alone does not need stands in functions that are not put in here: each would
    /// be prepared for in every turn.
    pub(crate) fn turn(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        let clock = turn.clock;
        self.group.observe(turn.now);
        self.expire(turn, effects);
        self.apply_handover(clock, effects);
        loop {
            if self.leads() && !self.has_no_outgoing_requests() {
                self.take_over(effects);
            }
            self.serve_readers(turn, effects);
            self.check(turn, effects);
            if self.steps.needs_round() {
                self.look_at_locks(turn, effects);
            }
            self.propose_queued(turn, effects.records.bytes());
            if self.steps.needs_round() {
                self.propose_steps(turn, effects);
            }
            self.change_members(turn.now, clock);
            self.merge(turn, effects);
            let Some(work) = self.group.ready() else { break };
            self.hand_out(work, clock, effects);
        }
        if self.change_log.is_some() {
            self.drop_unasked_log(turn.now);
        }
        if !self.leads() {
            self.follow(turn, effects);
            if !self.tracked.is_empty() {
                self.end_tracking(effects);
            }
        }
        if self.steps.needs_round() {
            self.end_steps(turn, effects);
        }
        self.release_and_reply(turn, effects);
        self.persistence.forget_applied(self.applied);
        self.publish();
        self.publish_to_lookup(effects);
        self.watch(turn.now);
        self.send(turn.now, effects);
    }

    /// Why it must take no part any more, if it must not.
    pub(crate) fn unfit(&self) -> Option<ReplicaEndReason> {
        let lacks = self.merges.misses_merge_state.then_some(ReplicaEndReason::MissingMergeState);
        self.checks.differs.then_some(ReplicaEndReason::Differs).or(lacks)
    }

    /// This replica has gone, and others are asked from now on: with what it was to ask of them,
    /// which is handed on. Readers here are told to have what they look at fetched.
    pub(crate) fn give_up(&mut self, now: BootNanos, effects: &mut Effects) -> Outgoing {
        self.serving.end();
        self.end_tracking(effects);
        self.forward_queue(now, effects);
        for in_flight in std::mem::take(&mut self.in_flight) {
            self.refuse(in_flight.asker, NotDone::OutcomeUnknown, effects);
        }
        self.outgoing.forward.leave(effects);
        self.outgoing.fetches.release_waiters(effects);
        self.release_all_lock_readers(effects);
        self.outgoing.forwarded_steps.resend_local_steps();
        std::mem::take(&mut self.outgoing)
    }

    /// Tells everyone who waits that the shard is dropped.
    pub(crate) fn abandon(&mut self, effects: &mut Effects) {
        self.serving.end();
        self.end_tracking(effects);
        self.refuse_queued(NotDone::NoSuchShard, effects);
        for in_flight in std::mem::take(&mut self.in_flight) {
            if matches!(in_flight.asker, Asker::Batch { .. } | Asker::SessionBatch { .. }) {
                self.refuse(in_flight.asker, NotDone::Dropped, effects);
            }
        }
        self.refuse_readers(NotDone::NoSuchShard, effects);
        self.release_all_lock_readers(effects);
        self.outgoing.forwarded_steps.release_waiters(effects);
        self.outgoing.forward.abandon(NotDone::NoSuchShard, NotDone::Dropped, effects);
        self.outgoing.fetches.abandon(effects);
    }

    /// Tells all that was not proposed yet why it will not be.
    fn refuse_queued(&mut self, why: NotDone, effects: &mut Effects) {
        self.give_up_steps(effects);
        for queued in std::mem::take(&mut self.queue) {
            self.refuse(queued.into_asker(), why, effects);
        }
    }

    /// Tells the asker, if there is one, that nothing was done, or that the outcome is unknown.
    fn refuse(&mut self, asker: Asker, why: NotDone, effects: &mut Effects) {
        let (origin, waiters) = match asker {
            Asker::Batch { origin, waiters } => (origin, waiters),
            Asker::Operation { origin, waiter } => (origin, vec![waiter]),
            Asker::Nobody => return,
            // It will ask nobody else, and hear nothing.
            Asker::RemoteOperation { .. } if why == NotDone::OutcomeUnknown => return,
            Asker::Steps(askers) => return self.redirect_steps(askers, effects),
            asker => return self.redirect_asker(asker, effects),
        };
        effects.answers.push(Answer::NotDone { origin, waiters, why });
    }
}
