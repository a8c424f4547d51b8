//! Transactions over several shards that the node's clients have begun, or that leaders here find
//! abandoned: what the server's `event_loop::coordinator` does.
//!
//! ```text
//!   clients ──► Coordinator ──Ask──► Input::Step ──► executor … Answer::Stepped ──┐
//!                   ▲   └──End──► the world                                   │
//!                   └─────────────────────────────────────────────────────────┘
//! ```
//!
//! A coordinator ends with its process, at any step. It may also end alone, at a chosen step
//! ([`CoordinatorCrash`]): then a new one without any state takes its place.

use std::collections::BTreeSet;
use std::sync::Arc;

use command::{Flush, NotDone, Transaction};
use keyspace::codec::Reader;
use keyspace::random::mix;
use keyspace::{Cut, KeyspaceId, NodeId, ShardId, Timestamp};
use node::executor::{Answer, Input, Origin};
use node::replica::entry::Waiter;
use storage::engine::Layout;
use txn::coordinator::{Coordinator, CoordinatorAction, CoordinatorTime, TxnOutcome, TxnTrace};
use txn::locks::{KeyFinding, Mark, Outcome, RecordState, Step, StepReply, TxnId};
use txn::{AbandonedTxn, ConflictRetry, ShardMap};

use super::Machine;

/// The origin of the coordinator's steps.
pub const COORDINATOR: Origin = Origin(3);
/// The request timeout of transactions, in nanoseconds.
const REQUEST_TIMEOUT_NANOS: u64 = 1_500_000_000;
/// The number of a question, below that of the coordinator whose it is.
const ASK_BITS: u32 = 40;

/// Bugs planted in coordinators: they change the steps that these send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// PREVENT looks at the replica here, and makes no mark.
    ForgetfulPrevent,
    /// Records are forgotten before all keys are resolved, and no coordinator finishes the rest
    /// before that.
    RecordDropped,
    /// RESOLVE ends the lock of a key, whichever transaction holds it.
    ResolveByKey,
    /// A record is taken for ABORTED before it says so.
    EarlyRetry,
    /// A record lists only the keys of its own keyspace.
    OwnNames,
    /// No lock has a deadline, and no coordinator checks one.
    LateCommit,
    /// The arcs of an aborted transaction are flushed.
    FlushAborted,
    /// A PREPARE locks the first half of an arc that is to be flushed.
    HalfFlush,
}

/// When a coordinator ends: it does so much more of what it has to do about transactions of one
/// coordinator, itself or another, and nothing after that. What counts is each step that it asks
/// for, each answer that it takes, and that it tells its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorCrash {
    /// Whose transactions.
    pub of: u64,
    /// How much more.
    pub left: u32,
}

/// The coordinator of a node, with the outcomes of its transactions.
pub struct NodeCoordinator {
    coordinator: Coordinator,
    /// What its transactions are named by.
    pub name: u64,
    /// How many coordinators there were before: their steps are not answered any more.
    before: u64,
    /// When it ends, if that is chosen.
    pub fuse: Option<CoordinatorCrash>,
    /// Its questions whose answers count.
    of_fuse: BTreeSet<u64>,
    /// It has ended, to be looked at by the world.
    pub has_ended: bool,
    /// Finished transactions, for the world.
    pub ended: Vec<(u64, TxnOutcome)>,
    /// Transactions of others that it has finished.
    pub finished: u64,
    /// Phases of transactions that are traced, to be looked at by the world.
    pub traces: Vec<Box<TxnTrace>>,
    /// The planted bug.
    pub planted: Option<PlantedBug>,
}

/// As of nodes that have peers.
const STEP_BYTES_MAX: usize = 64 << 20;

impl NodeCoordinator {
    /// Of a node's process, which has drawn this number.
    pub(super) fn new(node: NodeId, drawn: u64) -> Self {
        let name = TxnId::name(node, drawn as u32);
        let coordinator = Coordinator::new(name, REQUEST_TIMEOUT_NANOS, STEP_BYTES_MAX);
        Self {
            coordinator,
            name,
            before: 0,
            fuse: None,
            of_fuse: BTreeSet::new(),
            has_ended: false,
            ended: Vec::new(),
            finished: 0,
            traces: Vec::new(),
            planted: None,
        }
    }

    /// Whether it ends before this.
    fn ends_before(&mut self, act: &CoordinatorAction) -> bool {
        let Some(CoordinatorCrash { of, .. }) = self.fuse else { return false };
        let counts = match act {
            CoordinatorAction::SendStep { step, ask, .. } => {
                let step =
                    Step::decode(&mut Reader::new(step)).expect("the bytes were encoded here");
                let counts = step.id().coordinator == of;
                if counts {
                    self.of_fuse.insert(*ask);
                }
                counts
            }
            CoordinatorAction::Report { .. } => self.name == of,
            CoordinatorAction::Trace(_) => false,
        };
        counts && self.burn()
    }

    /// One thing is done, or the coordinator ends before it.
    fn burn(&mut self) -> bool {
        let Some(fuse) = &mut self.fuse else { return false };
        if let Some(left) = fuse.left.checked_sub(1) {
            fuse.left = left;
            return false;
        }
        // Another process of the same node would have drawn another number.
        self.name = self.name >> 32 << 32 | u64::from(mix(self.name) as u32);
        self.coordinator = Coordinator::new(self.name, REQUEST_TIMEOUT_NANOS, STEP_BYTES_MAX);
        self.before += 1;
        (self.fuse, self.has_ended) = (None, true);
        self.of_fuse.clear();
        true
    }
}

impl Machine {
    /// Begins a transaction of the client with this token, in one keyspace or more; its keys may be
    /// reserved by a name.
    pub fn coordinate(
        &mut self,
        whole: &[(KeyspaceId, &Transaction<'_>)],
        token: u64,
        reserved_as: Option<Timestamp>,
    ) {
        self.with_coordinator(|coordinator, at, routes| {
            let (since, key) = (at.now, None);
            let before = reserved_as.map(|_| ConflictRetry { since, key, reserved_as });
            coordinator.begin_spanning(whole, token, before, at, routes);
        });
    }

    /// Finishes an abandoned transaction that a leader here has found.
    pub(super) fn finish(&mut self, abandoned: AbandonedTxn) {
        let is_dropped = self.coordinates.planted == Some(PlantedBug::RecordDropped);
        if is_dropped && !abandoned.id.is_too_old(self.now()) {
            return;
        }
        self.with_coordinator(|coordinator, at, routes| coordinator.finish(abandoned, at, routes));
    }

    /// Goes on with what waits for a moment.
    pub fn tick_coordinator(&mut self) {
        if self.coordinates.coordinator.waits() {
            self.with_coordinator(|coordinator, at, routes| coordinator.tick(at, routes));
        }
    }

    /// How many transactions it runs.
    pub fn coordinated(&self) -> usize {
        self.coordinates.coordinator.len()
    }

    /// Takes out the answers that are for the coordinator.
    pub(super) fn take_coordinated(&mut self, answers: &mut Vec<Answer>) {
        let is_its = |answer: &mut Answer| answer.origin() == COORDINATOR;
        let its: Vec<Answer> = answers.extract_if(.., is_its).collect();
        for answer in its {
            match answer {
                Answer::StepDone { waiter, reply, .. } => self.step_replied(waiter, Ok(*reply)),
                Answer::NotDone { waiters, why, .. } => {
                    waiters.into_iter().for_each(|waiter| self.step_replied(waiter, Err(why)));
                }
                other => unreachable!("it asks for steps: {other:?}"),
            }
        }
    }

    fn step_replied(&mut self, Waiter(asked): Waiter, reply: Result<StepReply, NotDone>) {
        let (before, ask) = (asked >> ASK_BITS, asked & ((1 << ASK_BITS) - 1));
        if before != self.coordinates.before {
            return;
        }
        if self.coordinates.of_fuse.remove(&ask) && self.coordinates.burn() {
            return;
        }
        self.with_coordinator(|coordinator, at, routes| {
            coordinator.answered(ask, reply, at, routes);
        });
    }

    fn with_coordinator(
        &mut self,
        act: impl FnOnce(&mut Coordinator, CoordinatorTime, txn::coordinator::Routes<'_>),
    ) {
        let at = CoordinatorTime { now: self.boot, time: self.now() };
        let routes = &self.routes;
        let find = |id| {
            let route = routes.values().find(|route| route.keyspace.id == id)?;
            Some(route.clone() as Arc<dyn ShardMap>)
        };
        act(&mut self.coordinates.coordinator, at, &find);
        let acts: Vec<CoordinatorAction> = self.coordinates.coordinator.take_actions().collect();
        for act in acts {
            if self.coordinates.ends_before(&act) {
                return;
            }
            match act {
                CoordinatorAction::SendStep { shard, step, ask } => {
                    self.count_finished(&step);
                    let waiter = Waiter(self.coordinates.before << ASK_BITS | ask);
                    let origin = COORDINATOR;
                    match self.planted(shard, &step) {
                        Some(Ok(reply)) => self.step_replied(waiter, Ok(reply)),
                        Some(Err(other)) => {
                            let step = other.into();
                            self.submit(shard, Input::Step { shard, step, origin, waiter });
                        }
                        None => self.submit(shard, Input::Step { shard, step, origin, waiter }),
                    }
                }
                CoordinatorAction::Report { token, ended } => {
                    self.coordinates.ended.push((token, ended))
                }
                CoordinatorAction::Trace(trace) => self.coordinates.traces.push(trace),
            }
        }
    }

    /// Whether the phases of transactions that begin from now on are traced.
    pub fn trace_transactions(&mut self, is_traced: bool) {
        self.coordinates.coordinator.set_tracing(is_traced);
    }

    /// Planted: what is said to a step that is not taken, or another step that is.
    fn planted(&self, shard: ShardId, step: &[u8]) -> Option<Result<StepReply, Vec<u8>>> {
        let planted = self.coordinates.planted?;
        let step = Step::decode(&mut Reader::new(step)).ok()?;
        match (planted, step) {
            (PlantedBug::ForgetfulPrevent, Step::Prevent { id, keys }) => {
                let view = self.view(shard)?;
                let state = view.read();
                let find = |key: &&[u8]| match state.locks.get(key).filter(|lock| lock.id == id) {
                    Some(lock) => KeyFinding::Locked(lock.vote()),
                    None => KeyFinding::Marked(Mark::Aborted),
                };
                Some(Ok(StepReply::Found(keys.iter().map(find).collect())))
            }
            (
                PlantedBug::RecordDropped,
                Step::Resolve { id, outcome: Outcome::Committed(_), .. },
            ) if id.coordinator == self.coordinates.name => Some(Ok(StepReply::Done)),
            (PlantedBug::ResolveByKey, Step::Resolve { id, outcome: Outcome::Aborted, keys }) => {
                let view = self.view(shard)?;
                let state = view.read();
                let mut locks = keys.iter().filter_map(|key| state.locks.get(key));
                let id = locks.find(|lock| lock.id != id)?.id;
                let mut other = Vec::new();
                Step::Resolve { id, outcome: Outcome::Aborted, keys }.encode(&mut other);
                Some(Err(other))
            }
            (PlantedBug::OwnNames, Step::Prepare(mut prepare)) => {
                let keyspace_of = |name| prepare.id.place_of(KeyspaceId(0), name).0;
                let own = keyspace_of(prepare.record);
                prepare.promised.retain(|name| keyspace_of(&**name) == own);
                let mut other = Vec::new();
                Step::Prepare(prepare).encode(&mut other);
                Some(Err(other))
            }
            (PlantedBug::LateCommit, Step::Prepare(mut prepare)) => {
                prepare.deadline = None;
                let mut other = Vec::new();
                Step::Prepare(prepare).encode(&mut other);
                Some(Err(other))
            }
            (PlantedBug::FlushAborted, Step::Resolve { id, outcome: Outcome::Aborted, keys }) => {
                let view = self.view(shard)?;
                let state = view.read();
                let mut locks = keys.iter().filter_map(|key| state.locks.get(key));
                let lock = locks.find(|lock| lock.id == id && lock.reach.arc().is_some())?;
                let outcome = Outcome::Committed(lock.at);
                let mut other = Vec::new();
                Step::Resolve { id, outcome, keys }.encode(&mut other);
                Some(Err(other))
            }
            (PlantedBug::HalfFlush, Step::Prepare(mut prepare)) => {
                let (witness, from, end) = prepare.part.flushed_arc()?;
                let middles = [4, 18, 35].map(|key| format!("wide-{key:02}").into_bytes());
                let middles = middles.map(|key| Cut::Key(key.into()));
                let slots = [4096, 8192, 12288].map(Cut::Slot);
                let is_ordered = self.view(shard)?.read().engine()?.layout() == Layout::Ordered;
                let all = if is_ordered { middles } else { slots };
                let middle = all.into_iter().find(|middle| from.is_cut_at(middle, end))?;
                let flush = Flush::Arc { witness, from: from.clone(), end: middle };
                prepare.part.flush = Some(Box::new(flush));
                let mut other = Vec::new();
                Step::Prepare(prepare).encode(&mut other);
                Some(Err(other))
            }
            (PlantedBug::EarlyRetry, Step::Decide { id, outcome: Outcome::Aborted, .. })
                if id.coordinator == self.coordinates.name =>
            {
                Some(Ok(StepReply::Record(RecordState::Aborted, Vec::new())))
            }
            _ => None,
        }
    }

    /// The last that is asked for is that the record's keys are forgotten.
    fn count_finished(&mut self, step: &[u8]) {
        if let Ok(Step::Forget { all, .. }) = Step::decode(&mut Reader::new(step)) {
            let others = all.iter().filter(|(id, _)| id.coordinator != self.coordinates.name);
            self.coordinates.finished += others.count() as u64;
        }
    }
}
