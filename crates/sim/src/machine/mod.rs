//! The second driver of a node's cores: it does in steps what the server does with threads.
//!
//! ```text
//!   inputs ─► slot ──accept──► executor ──step──► effects ──append──► log room ─► Durable ─► slot
//!               ▲                                 │ answers to the clients
//!               └─────────── news ◄───────────────┘ catalogue, safe points
//! ```
//!
//! An executor slot takes one of two steps. It hands inputs to its executor and runs a step round;
//! or it appends the last round's group, reports `Written` and publishes the answers. Between any
//! two steps readers look, syncs begin and end, the maintenance thread works, and the power may
//! fail. The contract is the server's: groups go to the log in the order of their tickets,
//! `Written` follows the append at once, checkpoints begin only while no group waits to be
//! appended, and news are spread in order.

pub mod control;
pub mod coordinator;
mod left_records;
pub mod node_log;
pub mod open;
pub mod peers;
pub mod rounds;
pub mod streams;
pub mod tracking;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hlc::{Clock, Physical};
use keyspace::{ClusterVersion, Durability, KeyHasher, ShardId, Timestamp};
use node::control::{self as control_plane, CONTROL, Control};
use node::executor::admission::{self, Admission, log_bytes, unneeded};
use node::executor::{
    Answer, Effects, Input, MergeHandover, Origin, ROUND_BYTES_MAX, ShardExecutor,
};
use node::recovery::checkpoint::BLOCK;
use node::replica::digest::{DigestStep, Digesting};
use node::replica::entry::Waiter;
use node::replica::read::ReadTime;
use node::replica::state::ShardState;
use node::replica::{ReplicaComparison, ReplicaEndReason, ReplicaStart};
use node::routing::route::Route;
pub use node::routing::route::View;
use replication::RejectedMessage;
use storage::Error;
use storage::disk::Disk;
use storage::engine::{PieceLimits, Settings};
use storage::manifest::Manifest;

use crate::check::ReplicaObserver;
use crate::check::Violation;
use crate::trace::Trace;
use control::Outcomes;
use coordinator::NodeCoordinator;
use node_log::NodeLog;
use peers::{OutgoingRpc, Packet};
use rounds::{Installation, Round};
use streams::Streams;
use tracking::NodeTracking;

/// The origin of work that no client waits for.
pub const NOBODY: Origin = Origin(u32::MAX);
/// The origin of the virtual clients.
pub const CLIENTS: Origin = Origin(1);
/// The origin of viewers that take part in a simulation ([`crate::live`]).
pub const VIEWERS: Origin = Origin(2);

/// Limits of the cores which no short run would reach as they usually are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a block of a checkpoint.
    pub block: PieceLimits,
    /// Keys of an era that a flush empties one by one; a larger one is set aside.
    pub flush_in_place_keys_max: u64,
    /// Bytes of commands that an executor proposes in one step round.
    pub round_bytes_max: u64,
}

impl Limits {
    /// As a server has them.
    pub fn usual() -> Self {
        let Settings { flush_in_place_keys_max, .. } = KeyHasher::new([0; 16]).into();
        Self { block: BLOCK, flush_in_place_keys_max, round_bytes_max: ROUND_BYTES_MAX }
    }

    fn settings(&self, hasher: KeyHasher) -> Settings {
        Settings { hasher, flush_in_place_keys_max: self.flush_in_place_keys_max }
    }
}

/// A node that runs.
pub struct Machine {
    handle: Arc<dyn Disk>,
    /// The manifest as it is on disk.
    pub manifest: Manifest,
    /// The node's clock.
    pub clock: Arc<Clock>,
    time: Physical,
    /// Milliseconds since the start, as its monotonic clock says.
    pub elapsed_ms: u64,
    /// Its boot clock, in nanoseconds.
    pub boot: u64,
    /// Its control plane.
    control: Control,
    ticks: u64,
    /// To be sent to other nodes.
    pub outgoing: Vec<Packet>,
    /// Snapshots on their way.
    pub streams: Streams,
    hasher: KeyHasher,
    limits: Limits,
    /// The log.
    pub log: NodeLog,
    /// The executors with their waiting inputs; shard `s` belongs to executor `s mod executors`.
    pub executors: Vec<ExecutorSlot>,
    /// All keyspaces, by name.
    pub routes: BTreeMap<Box<str>, Arc<Route>>,
    /// Inputs that wait for control.
    news: control_plane::Queue,
    /// What control has led to.
    pub outcomes: Outcomes,
    round: Option<Round>,
    installation: Option<Installation>,
    /// The cluster version, as far as this node knows.
    pub cluster_version: ClusterVersion,
    /// Planted: unfinished syncs are reported as done.
    pub unsynced_ack: bool,
    /// Planted: executors do not learn the table of descriptors.
    pub ignores_lookup: bool,
    /// Planted: the last block of a checkpoint of several is forgotten.
    pub short_checkpoint: bool,
    /// Planted: rounds of checkpoints forget a shard.
    pub forgets_shards: bool,
    /// Planted: records stay where their shards were cut off.
    pub leaves_records: bool,
    /// States that are being digested.
    pub digests: Vec<Digesting>,
    /// What leaders have found, to be looked at by the world.
    pub findings: Vec<ReplicaComparison>,
    /// Shards whose replica has ended because it was unfit, to be looked at by the world.
    pub ended: Vec<(ShardId, ReplicaEndReason)>,
    /// Whether its disk has lost synced writes: it may notice.
    pub may_lose: bool,
    /// Commands that were sent on, each with its new shard, to be looked at by the world.
    pub sent_on: Vec<(Waiter, ShardId)>,
    /// Planted: whose writes are lost, and answered, if their shard was split meanwhile.
    pub loses_rerouted: Option<Origin>,
    /// Writes that were sent to shards which others have taken in, to be looked at by the world.
    pub inherited: Vec<(Waiter, ShardId)>,
    /// Shards whose replica here has given up what it held, to be looked at by the world.
    pub given_up: Vec<ShardId>,
    /// What its clients cache.
    pub tracking: NodeTracking,
    /// Transactions over several shards.
    pub coordinates: NodeCoordinator,
}

/// One executor and what waits for it.
pub struct ExecutorSlot {
    /// The executor.
    pub executor: ShardExecutor,
    inbox: VecDeque<Input>,
    effects: Effects,
    /// Whether the effects of the last step round wait to be appended and published.
    unappended: bool,
    /// Whether it must run another step round, since it has new inputs.
    again: bool,
    credit_bytes: u64,
}

/// What a step of the machine leads to.
#[derive(Debug)]
pub enum StepFailure {
    /// The node must stop.
    Fatal(Error),
    /// A rule is broken.
    Broken(Violation),
}

impl From<Error> for StepFailure {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

impl From<Violation> for StepFailure {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation)
    }
}

impl Machine {
    /// Tells the clock the time, and reads it.
    pub fn now(&self) -> Timestamp {
        self.clock.observe_millis(self.time.millis(self.elapsed_ms));
        self.clock.now()
    }

    /// Its physical time goes so from now on.
    pub(crate) fn set_time(&mut self, time: Physical) {
        self.time = time;
    }

    /// As [`Self::now`], on both clocks: for reads whose requests have come.
    pub fn moment(&self) -> ReadTime {
        ReadTime { time: self.now(), boot: self.boot }
    }

    fn executor_of(&self, shard: ShardId) -> usize {
        (shard.0 % self.executors.len() as u64) as usize
    }

    /// Hands one input to the executor of a shard.
    pub fn submit(&mut self, shard: ShardId, input: Input) {
        let executor = self.executor_of(shard);
        self.executors[executor].inbox.push_back(input);
    }

    /// Whether an executor has something to do.
    pub fn is_busy(&self, executor: usize) -> bool {
        let seat = &self.executors[executor];
        seat.unappended || seat.again || !seat.inbox.is_empty()
    }

    /// Takes an executor one step further. At most `inputs_max` inputs are taken.
    ///
    /// # Errors
    /// [`StepFailure`].
    pub fn step_executor(
        &mut self,
        executor: usize,
        inputs_max: usize,
        ledger: &mut dyn ReplicaObserver,
        trace: &mut Trace,
    ) -> Result<Vec<Answer>, StepFailure> {
        let mut answers = Vec::new();
        if self.executors[executor].unappended {
            self.append(executor, &mut answers, ledger, trace)?;
            self.take_coordinated(&mut answers);
            return Ok(answers);
        }
        let seat = &mut self.executors[executor];
        let count = inputs_max.min(seat.inbox.len());
        let inputs: Vec<Input> = seat.inbox.drain(..count).collect();
        trace.event(format_args!("executor {executor} takes {count} inputs"));
        let inputs = self.admit(executor, inputs, &mut answers)?;
        let boot = self.boot;
        let seat = &mut self.executors[executor];
        seat.executor.observe(boot);
        inputs.into_iter().for_each(|input| seat.executor.accept(input));
        seat.again = false;
        seat.executor.turn(&mut seat.effects);
        seat.unappended = !seat.effects.is_empty();
        let halves = seat.effects.halves.iter().filter(|_| self.leaves_records);
        let halves: Vec<View> = halves.map(|half| half.view.clone()).collect();
        halves.iter().for_each(|half| self.leave_records(half));
        let seat = &mut self.executors[executor];
        if !seat.unappended {
            self.log.release(unneeded(&seat.executor, &mut seat.credit_bytes));
        }
        for shard in seat.executor.shards() {
            ledger.look(shard)?;
        }
        self.take_coordinated(&mut answers);
        self.take_controls(&mut answers);
        Ok(answers)
    }

    /// Reserves room in the log for what is to be proposed; without room, refuses it, but lets
    /// readers in.
    fn admit(
        &mut self,
        executor: usize,
        inputs: Vec<Input>,
        answers: &mut Vec<Answer>,
    ) -> Result<Vec<Input>, Error> {
        let bytes: u64 = inputs.iter().map(log_bytes).sum();
        self.executors[executor].executor.set_full(false);
        if bytes == 0 && !self.log.full {
            return Ok(inputs);
        }
        match self.log.reserve(bytes) {
            Ok(()) => {
                self.executors[executor].credit_bytes += bytes;
                return Ok(inputs);
            }
            Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        self.executors[executor].executor.set_full(true);
        let mut kept = Vec::new();
        let from = self.manifest.node;
        for input in inputs {
            match admission::without_room(input) {
                Admission::Admitted(input) => kept.push(input),
                Admission::Refused(answer) => answers.push(answer),
                Admission::NoRoom(to, rpc) => {
                    self.outgoing.push(Packet::Rpc(OutgoingRpc { from, to, rpc }));
                }
                Admission::Dropped => {}
            }
        }
        Ok(kept)
    }

    /// Appends what an executor wants to have in the log, and hands on all else that it has led to.
    fn append(
        &mut self,
        executor: usize,
        answers: &mut Vec<Answer>,
        ledger: &mut dyn ReplicaObserver,
        trace: &mut Trace,
    ) -> Result<(), StepFailure> {
        self.executors[executor].again = true;
        self.append_records(executor, ledger, trace)?;
        self.put_on_its_way(executor);
        self.refuse(executor)?;
        let mut news = news_of(&mut self.executors[executor].effects);
        self.hand_over_merged(executor, &mut news, trace);
        let effects = &mut self.executors[executor].effects;
        let pending_requests = effects.pending_requests.drain(..).map(Box::new);
        news.extend(pending_requests.map(control_plane::Input::PendingRequests));
        let messages = effects.tracking.drain(..);
        self.tracking.take(&effects.answers, messages, self.boot);
        let abandoned = std::mem::take(&mut effects.abandoned);
        for answer in effects.answers.drain(..) {
            // Control answers a change of the catalogue when the change can be used.
            if matches!(answer, Answer::Catalogue { .. }) || answer.origin() == CONTROL {
                news.push(control_plane::Input::Answer(answer));
            } else {
                answers.push(answer);
            }
        }
        self.digests.append(&mut effects.digests);
        self.findings.append(&mut effects.findings);
        let events = std::mem::take(&mut effects.events);
        let ended = std::mem::take(&mut effects.ended);
        let known = std::mem::take(&mut effects.known);
        effects.clear();
        self.executors[executor].unappended = false;
        for (shard, _, why) in ended {
            self.ended.push((shard, why));
            self.digests.retain(|digesting| digesting.shard != shard);
            news.push(control_plane::Input::ReplicaEnded(shard));
        }
        if !known.is_empty() {
            news.push(control_plane::Input::DescriptorsLearned(known));
        }
        events.into_iter().for_each(|what| self.happened(what));
        self.post(news);
        for txn in abandoned {
            trace.event(format_args!("{:?} is to be finished", txn.id));
            self.finish(txn);
        }
        Ok(())
    }

    /// The records of an executor's turn go to the log, as one group.
    fn append_records(
        &mut self,
        executor: usize,
        ledger: &mut dyn ReplicaObserver,
        trace: &mut Trace,
    ) -> Result<(), StepFailure> {
        let seat = &mut self.executors[executor];
        let effects = &mut seat.effects;
        if effects.records.is_empty() {
            return Ok(());
        }
        for record in effects.records.iter() {
            trace.bytes(record.payload);
        }
        let ticket = effects.ticket;
        trace.event(format_args!(
            "executor {executor} appends group {ticket} of {} records{}",
            effects.records.records(),
            if effects.sync { ", to be synced" } else { "" }
        ));
        let group = ledger.hand_out(&effects.records)?;
        self.log.release(unneeded(&seat.executor, &mut seat.credit_bytes));
        let lsn = self.log.append(&mut effects.records, executor, ticket, effects.sync)?;
        ledger.written(group, self.log.log.written_end());
        seat.executor.accept(Input::Written { ticket, lsn });
        if self.unsynced_ack && effects.sync {
            seat.executor.accept(Input::Durable { ticket });
        }
        Ok(())
    }

    /// What an executor has to say to other nodes leaves.
    fn put_on_its_way(&mut self, executor: usize) {
        let (from, effects) = (self.manifest.node, &mut self.executors[executor].effects);
        let messages = effects.messages.drain(..);
        self.outgoing.extend(messages.map(|message| Packet::Message(from, Box::new(message))));
        let rpcs = effects.rpcs.drain(..);
        let rpcs = rpcs.map(|(to, rpc)| Packet::Rpc(OutgoingRpc { from, to, rpc }));
        self.outgoing.extend(rpcs);
    }

    /// A replica refuses only what may come late for one that has ended.
    fn refuse(&mut self, executor: usize) -> Result<(), Violation> {
        let (may_lose, refused) = (self.may_lose, &mut self.executors[executor].effects.refused);
        let is_expected = |why: &RejectedMessage| {
            matches!(why, RejectedMessage::LostLog { .. } | RejectedMessage::WrongReplica { .. })
        };
        refused.retain(|(_, why)| !may_lose || !is_expected(why));
        match refused.pop() {
            Some((shard, refused)) => {
                let text = format!("shard {shard}: {refused}");
                Err(Violation::new("R3 replicas keep what they promise", text))
            }
            None => Ok(()),
        }
    }

    /// Shards that have merged into their left neighbours are handed over to these.
    fn hand_over_merged(
        &mut self,
        executor: usize,
        news: &mut Vec<control_plane::Input>,
        trace: &mut Trace,
    ) {
        for given in self.executors[executor].effects.given.drain(..) {
            let MergeHandover { left, right, .. } = given;
            trace.event(format_args!("shard {right} is given to {left}"));
            if given.state.is_some() {
                self.given_up.push(right);
                self.digests.retain(|digesting| digesting.shard != right);
            }
            news.push(control_plane::Input::MergeHandover(given));
        }
    }

    /// Takes the oldest digest one step further.
    pub fn step_digest(&mut self) {
        let limits = self.limits.block;
        let Some(digesting) = self.digests.first_mut() else { return };
        let digest = match digesting.step(limits, &mut Vec::new()) {
            DigestStep::More => return,
            DigestStep::Done(digest) => Some(digest),
            DigestStep::Void => None,
        };
        let Digesting { shard, replica, index, .. } = *digesting;
        self.digests.remove(0);
        self.submit(shard, Input::DigestDone { shard, replica, index, digest });
    }

    /// Ends the sync that is under way, and tells the executors.
    ///
    /// # Errors
    /// All are fatal.
    pub fn end_sync(&mut self) -> Result<(), Error> {
        for (executor, ticket) in self.log.end_sync()? {
            self.executors[executor].inbox.push_back(Input::Durable { ticket });
        }
        Ok(())
    }

    /// Whether a round of checkpoints is under way, or the installation of a snapshot.
    pub fn is_checkpointing(&self) -> bool {
        self.round.is_some() || self.installation.is_some()
    }

    /// Whether a snapshot is being installed.
    pub fn is_installing(&self) -> bool {
        self.installation.is_some()
    }

    /// Has the replica made that this node has of a new shard.
    fn create_shard(&mut self, state: ShardState, durability: Durability) {
        let shard = state.descriptor.shard;
        let replica = state.descriptor.replica_on(self.manifest.node);
        let replica = replica.expect("the caller has checked");
        let start = ReplicaStart::created(state, replica, durability);
        self.control.adopt(start.view.clone());
        self.submit(shard, Input::Create(start));
    }
}

/// What an executor's turn means for control.
fn news_of(effects: &mut Effects) -> Vec<control_plane::Input> {
    let mut news: Vec<control_plane::Input> = Vec::new();
    news.extend(effects.changes.drain(..).map(control_plane::Input::Catalogue));
    let points = effects.safe_points.drain(..);
    news.extend(points.map(|(keyspace, to)| control_plane::Input::SafePoint(keyspace, to)));
    let halves = effects.halves.drain(..);
    news.extend(halves.map(|half| control_plane::Input::RightHalf(Box::new(half))));
    news.extend(effects.moved.drain(..).map(control_plane::Input::Rerouted));
    let words = effects.words.drain(..);
    news.extend(words.map(|(shard, word)| control_plane::Input::MergeMessage(shard, word)));
    news.extend(effects.handover_requests.drain(..).map(control_plane::Input::HandoverRequest));
    news
}
