//! Which steps does a transaction over several shards take? The coordinator runs on the node that
//! the client is connected to. If that node ends, the leader of a shard with one of its locks has
//! another coordinator finish the transaction (SAFETY G8, decision 0036).
//!
//! ```text
//!   begin ──► PREPARE at every shard at once, one of them with the record, STAGED
//!               │ all have voted: committed, the client is answered
//!               │      └──► DECIDE committed ──► RESOLVE everywhere ──► FORGET
//!               │ one has refused, or an answer is missing
//!               └──► DECIDE aborted ──► the next attempt, or an error to the client
//!                         └──► RESOLVE everywhere ──► FORGET          (the client does not wait)
//!
//!   finish ──► LOOK ── committed, aborted ─────────────────────────► RESOLVE ──► FORGET
//!                 └── staged ──► PREVENT every key ──► DECIDE ───────┘
//! ```
//!
//! Under contention (an attempt has failed, or many have lately), the coordinator asks the shards
//! one after the other, in an order that all coordinators share:
//!
//! ```text
//!   PREPARE at the first ─► … ─► PREPARE at the last, which commits: the client is answered
//!                                     └──► RESOLVE at the others ──► FORGET
//! ```
//!
//! At the first shard a transaction waits until its keys are free. Once it holds them, no
//! transaction that waits for it holds a key that it still needs. This takes a round per shard, but
//! hardly ever fails, and it takes fewer steps.
//!
//! A coordinator holds no state that must survive: it asks shards for steps
//! ([`crate::locks::step`]), and their logs hold all of it. So it may end at any moment. It knows
//! no clock and no other node: its driver sends its steps, hands it the answers, and calls
//! [`Coordinator::tick`] while [`Coordinator::waits`].
//!
//! # Invariants
//! 1. The client hears that its transaction is done only when every shard has voted. It hears that
//!    the transaction is not done only when the record says ABORTED, or when only the first of
//!    several shards was asked, and has refused.
//! 2. The next attempt begins when the record of the one before says ABORTED, or when only the
//!    first of several shards was asked and has refused. So one request is done once.
//! 3. The coordinator asks for no RESOLVE before the record's outcome is explicit.
//! 4. An answer to a client has one reply for each of its commands.
//! 5. A transaction may span keyspaces (`locks::name`): steps show keys of their shard's keyspace,
//!    and lists of keys, in the record and here, have names.
//! 6. The floor that goes with FORGET is at or below the start of every transaction that runs here
//!    or will begin here: this coordinator prepares nothing below it again. (Another coordinator
//!    may find a transaction that was given up here, and finish it.)
//!
//! # Why the coordinator may abort a STAGED transaction
//! By SAFETY G8 a transaction is committed as soon as it is STAGED and all its locks are there, if
//! the latest of their times is below each lock's deadline (G22; else it is aborted and tried
//! again). Two events make that visible to others:
//!
//! - Readers see values after a RESOLVE, which follows an explicit outcome, or after this
//!   coordinator's own DECIDE, which is *sure*.
//! - This coordinator answers the client. No other can do so before.
//!
//! As long as neither has happened, this coordinator may make the record ABORTED. If another
//! coordinator has made it COMMITTED by then, the answer to DECIDE says so.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | attempts begin, counted from the first, for | the request's timeout | busy: not done |
//! | time until the client is answered | twice that: PREPARE may take one, and DECIDE another | unknown |

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use keyspace::BootNanos;
use keyspace::{KeyspaceId, ShardId, Timestamp};
use smallvec::{SmallVec, smallvec};

use crate::locks::{KeyFinding, Name, Outcome, Step, StepReply, TxnId, Vote};
use crate::{ConflictRate, ShardMap};
use command::{NotDone, Reply};

mod arena;
mod attempt;
mod begin;
mod plan;
mod recovery;
mod resolve;
#[cfg(test)]
mod tests;
mod trace;

use arena::StepArena;
use plan::KeyPlaces;
use trace::{TracedTxn, traced_phase};
pub use trace::{TxnPhase, TxnRefusal, TxnTrace};

/// Steps to send, each with its shard.
type Steps = SmallVec<[(ShardId, Bytes); 2]>;
/// Encoded transactions, each with its keyspace.
type Bodies = SmallVec<[(KeyspaceId, Bytes); 1]>;

/// After this time the coordinator looks up a shard again that no longer owns its keys. The same
/// time passes before the next attempt if a value has expired before the commit time.
const ROUTE_RETRY_NANOS: u64 = 5_000_000;
/// How long the coordinator gathers records of finished transactions for one FORGET: far less than
/// the time after which the leaders of their shards take them for abandoned.
const FORGET_NANOS: u64 = 100_000_000;
/// How often a step that was not done is repeated after the client's deadline has passed.
const TRIES_MAX: u32 = 8;

/// The outcome of a transaction, for its client.
#[derive(Clone, Debug, PartialEq)]
pub enum TxnOutcome {
    /// It is done: one answer for each command.
    Done(Vec<Reply>),
    /// This watched key has changed: nothing was done.
    Changed(Box<[u8]>),
    /// The same, of a transaction that spans keyspaces: in this one.
    ChangedIn(KeyspaceId, Box<[u8]>),
    /// Other transactions held its keys all the time, this key last; or a shard has not answered,
    /// mostly because it had no leader: nothing was done.
    Busy(Option<Box<[u8]>>),
    /// It may or may not be done.
    Unknown,
    /// It would write more than a shard accepts at a time: nothing was done.
    TooMuch,
    /// The step for one shard is longer than a peer RPC may be: nothing was done.
    TooLong,
    /// The keys of one of its commands lie in several shards: nothing was done.
    CrossShard,
    /// Its keyspace was dropped: nothing was done.
    NoKeyspace,
    /// A log has no room: nothing was done.
    DiskFull,
}

/// What a coordinator asks of its driver.
#[derive(Debug)]
pub enum CoordinatorAction {
    /// Have a shard take a step.
    SendStep {
        /// The shard.
        shard: ShardId,
        /// The step.
        step: Bytes,
        /// The number by which the driver reports the answer.
        ask: u64,
    },
    /// Report the outcome to the client.
    Report {
        /// The client's token.
        token: u64,
        /// The outcome.
        ended: TxnOutcome,
    },
    /// Tell a step to who watches.
    Trace(Box<TxnTrace>),
}

/// The present time, for a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct CoordinatorTime {
    /// By the node's boot clock.
    pub now: BootNanos,
    /// By its hybrid clock, above all timestamps that it has given before.
    pub time: Timestamp,
}

/// Finds a keyspace's shards.
pub type Routes<'a> = &'a dyn Fn(KeyspaceId) -> Option<Arc<dyn ShardMap>>;

/// See the front page.
pub struct Coordinator {
    /// The name of this coordinator, part of the ids of its transactions.
    name: u64,
    request_timeout: u64,
    step_bytes_max: usize,
    next_run: u64,
    next_ask: u64,
    /// The newest start, or the newest time of a shard that has refused an id as too old.
    newest: Timestamp,
    runs: BTreeMap<u64, RunningTxn>,
    /// The run and the part that each pending step belongs to.
    asks: BTreeMap<u64, (u64, usize)>,
    acts: Vec<CoordinatorAction>,
    arena: StepArena,
    /// If it is high, even first attempts ask shards one after the other.
    conflicts: ConflictRate,
    /// Records whose keys are all resolved: each with its keyspace and key.
    finished_records: Vec<(KeyspaceId, TxnId, Box<[u8]>)>,
    /// When they are forgotten, if there are any.
    forget_at: BootNanos,
    /// Whether steps of transactions that begin now are told.
    is_tracing: bool,
}

struct RunningTxn {
    /// Its keyspace, or one of them, if its id spans several.
    keyspace: KeyspaceId,
    id: TxnId,
    /// The client that waits for it; `None` if none does, or not any more.
    token: Option<u64>,
    /// What it does in each keyspace, encoded; nothing if another coordinator's is finished here.
    bodies: Bodies,
    /// How many commands these are.
    commands: usize,
    began: BootNanos,
    /// No attempt begins from then on.
    until: BootNanos,
    /// The name of the record's key.
    record: Box<[u8]>,
    /// Of one that spans keyspaces, that of each of its parts.
    keyspaces: Vec<KeyspaceId>,
    /// The names of all keys that it locks.
    keys: Vec<Name>,
    /// Those that are locked together with the record, by one entry; in order.
    in_record_shard: Vec<Name>,
    /// Whether its shards are asked one after the other, and the last one commits it.
    in_order: bool,
    /// Whether a step was sent by which it may be committed. If shards are asked in order, that is
    /// the last one.
    may_be_committed: bool,
    phase: Phase,
    /// The last key that another had locked.
    locked: Option<Box<[u8]>>,
    /// See [`ConflictRetry::reserved_as`].
    reserved_as: Option<Timestamp>,
    /// How often a step that no client waits for has failed.
    tries: u32,
    /// No step is sent before this time.
    not_before: BootNanos,
    /// The first step whose answer counts: earlier ones belong to an earlier phase.
    asks_from: u64,
    /// There if its steps are told.
    trace: Option<Box<TracedTxn>>,
    /// The shard of its record, as far as it is known to who watches.
    record_shard: Option<ShardId>,
}

enum Phase {
    /// To be planned, and prepared.
    New,
    /// The votes of the parts; and the steps that are still to be sent, the next one last.
    Preparing(Vec<Option<Vote>>, Vec<(ShardId, Bytes)>),
    /// DECIDE is under way.
    Deciding(Outcome, NextStep),
    /// Keys of each part.
    Resolving(Outcome, Vec<bool>),
    /// LOOK is under way, because of locks at the keys of these names.
    ReadingRecord(Vec<Box<[u8]>>),
    /// The findings of each part.
    Preventing(Vec<Option<Vec<KeyFinding>>>),
}

/// What follows when the record has the outcome.
#[derive(Clone, Debug)]
enum NextStep {
    /// No client waits for it.
    Nothing,
    /// The client knows that it is committed.
    Acknowledged,
    /// The client gets this outcome, if the transaction was aborted.
    Report(TxnOutcome),
    /// Another attempt, after so many nanoseconds.
    Retry(u64),
    /// The same, as a transaction that begins now.
    Restart,
}

impl Coordinator {
    /// A coordinator of this `name`, which no other process has; clients wait for
    /// `request_timeout` nanoseconds, and no step is longer than `step_bytes_max` bytes.
    pub fn new(name: u64, request_timeout: u64, step_bytes_max: usize) -> Self {
        Self {
            name,
            request_timeout,
            step_bytes_max,
            next_run: 1,
            next_ask: 1,
            newest: Timestamp::ZERO,
            runs: BTreeMap::new(),
            asks: BTreeMap::new(),
            acts: Vec::new(),
            arena: StepArena::default(),
            conflicts: ConflictRate::default(),
            finished_records: Vec::new(),
            forget_at: 0,
            is_tracing: false,
        }
    }

    /// Sets the longest step, in bytes, for steps from now on.
    pub fn set_step_bytes_max(&mut self, step_bytes_max: usize) {
        self.step_bytes_max = step_bytes_max;
    }

    /// Takes the actions for the driver.
    pub fn take_actions(&mut self) -> impl Iterator<Item = CoordinatorAction> {
        self.acts.drain(..)
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.acts.is_empty()
    }

    /// How many transactions it runs.
    pub fn len(&self) -> usize {
        self.runs.len() + self.finished_records.len()
    }

    /// Whether it runs none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.finished_records.is_empty()
    }

    /// Whether a step is under way; if not, all transactions here wait for time to pass.
    pub fn is_busy(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Whether a step is to be repeated after a while, or a record to be forgotten.
    pub fn waits(&self) -> bool {
        !self.finished_records.is_empty() || self.runs.values().any(|run| run.not_before > 0)
    }

    /// Does what is due at this time.
    pub fn tick(&mut self, at: CoordinatorTime, routes: Routes<'_>) {
        if !self.finished_records.is_empty() && self.forget_at <= at.now {
            self.forget(routes);
        }
        let is_due = |run: &RunningTxn| run.not_before > 0 && run.not_before <= at.now;
        let due: Vec<u64> =
            self.runs.iter().filter(|(_, run)| is_due(run)).map(|(number, _)| *number).collect();
        for number in due {
            self.go_on(number, at, routes);
        }
    }

    /// Sends the steps that the phase of a run needs.
    fn go_on(&mut self, number: u64, at: CoordinatorTime, routes: Routes<'_>) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        run.not_before = 0;
        if let Phase::New = run.phase {
            if run.until <= at.now {
                let locked = run.locked.take();
                return self.end(number, TxnOutcome::Busy(locked));
            }
            return self.prepare(number, routes);
        }
        let id = run.id;
        let places = KeyPlaces::of(id, run.keyspace, routes);
        if places.are_dropped() {
            // All of it is gone with the keyspace.
            return self.end(number, TxnOutcome::NoKeyspace);
        }
        let arena = &mut self.arena;
        let record = id.key_of(&run.record);
        let record_shard = || places.shard_of(&run.record);
        let steps: Steps = match &run.phase {
            Phase::New | Phase::Preparing(..) => return,
            Phase::ReadingRecord(_) => {
                let Some(shard) = record_shard() else {
                    return self.record_was_dropped(number, at, routes);
                };
                smallvec![(shard, arena.put(&Step::ReadRecord { id, record }))]
            }
            Phase::Deciding(outcome, then) => {
                let Some(shard) = record_shard() else {
                    return self.record_was_dropped(number, at, routes);
                };
                let outcome = outcome.clone();
                let is_sure = matches!(then, NextStep::Acknowledged);
                smallvec![(shard, arena.put(&Step::Decide { id, record, outcome, is_sure }))]
            }
            Phase::Resolving(outcome, _) => places
                .by_shard(&run.keys)
                .into_iter()
                .map(|(shard, keys)| {
                    let outcome = outcome.clone();
                    (shard, arena.put(&Step::Resolve { id, outcome, keys }))
                })
                .collect(),
            Phase::Preventing(_) => places
                .by_shard(&run.keys)
                .into_iter()
                .map(|(shard, keys)| (shard, arena.put(&Step::Prevent { id, keys })))
                .collect(),
        };
        let record_shard = run.trace.is_some().then(record_shard).flatten();
        run.record_shard = record_shard;
        let told = run.trace.is_some().then(|| traced_phase(&run.phase, &steps)).flatten();
        match &mut run.phase {
            // Nothing is left to be resolved.
            Phase::Resolving(..) if steps.is_empty() => return self.is_over(number, at),
            // All of them are gone with their keyspaces: nobody knows whether they were locked.
            Phase::Preventing(_) if steps.is_empty() => {
                let aborted = Phase::Deciding(Outcome::Aborted, NextStep::Nothing);
                return self.enter(number, aborted, at, routes);
            }
            Phase::Resolving(_, done) => *done = vec![false; steps.len()],
            Phase::Preventing(found) => *found = vec![None; steps.len()],
            _ => {}
        }
        if let Some(phase) = told {
            self.trace(number, || phase);
        }
        self.ask_all(number, steps);
    }

    fn ask_all(&mut self, run: u64, steps: impl IntoIterator<Item = (ShardId, Bytes)>) {
        steps.into_iter().enumerate().for_each(|(part, step)| self.ask(run, part, step));
    }

    fn ask(&mut self, run: u64, part: usize, (shard, step): (ShardId, Bytes)) {
        let ask = self.next_ask;
        self.next_ask += 1;
        self.asks.insert(ask, (run, part));
        self.acts.push(CoordinatorAction::SendStep { shard, step, ask });
    }

    /// Handles the answer to a step.
    pub fn answered(
        &mut self,
        ask: u64,
        reply: Result<StepReply, NotDone>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let Some((number, part)) = self.asks.remove(&ask) else { return };
        let Some(run) = self.runs.get(&number).filter(|run| ask >= run.asks_from) else { return };
        match &run.phase {
            Phase::New => {}
            Phase::Preparing(..) => self.voted(number, part, reply, at, routes),
            Phase::Deciding(..) => self.decided(number, reply, at, routes),
            Phase::Resolving(..) => self.resolved(number, part, reply, at),
            Phase::ReadingRecord(_) => self.looked(number, reply, at, routes),
            Phase::Preventing(_) => self.prevented(number, part, reply, at, routes),
        }
    }

    /// Enters a phase: answers to steps of the earlier one do not count any more.
    fn enter(&mut self, number: u64, phase: Phase, at: CoordinatorTime, routes: Routes<'_>) {
        let next_ask = self.next_ask;
        if let Some(run) = self.runs.get_mut(&number) {
            (run.phase, run.asks_from) = (phase, next_ask);
        }
        self.go_on(number, at, routes);
    }

    /// Reports the outcome to the client, if one still waits.
    fn tell(&mut self, number: u64, ended: TxnOutcome) {
        if let Some(token) = self.runs.get_mut(&number).and_then(|run| run.token.take()) {
            self.acts.push(CoordinatorAction::Report { token, ended });
        }
    }

    /// Ends a run of which nothing is left anywhere.
    fn end(&mut self, number: u64, ended: TxnOutcome) {
        self.tell(number, ended);
        if self.runs.get(&number).is_some_and(|run| !matches!(run.phase, Phase::New)) {
            self.trace(number, || TxnPhase::Finished);
        }
        self.runs.remove(&number);
    }
}
