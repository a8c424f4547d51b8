//! Who sees a transaction over several shards through? The node that its client is connected to;
//! and whoever finds one whose coordinator is gone (SAFETY G8, decision 0036).
//!
//! ```text
//!   begin ──► PREPARE at every shard at once, one of them with the record, STAGED
//!               │ all have voted: committed, the client is answered
//!               │      └──► DECIDE committed ──► RESOLVE everywhere ──► FORGET
//!               │ one has refused, or nobody knows
//!               └──► DECIDE aborted ──► the next attempt, or the client is told why not
//!                         └──► RESOLVE everywhere ──► FORGET          (behind its back)
//!
//!   finish ──► LOOK ── committed, aborted ─────────────────────────► RESOLVE ──► FORGET
//!                 └── staged ──► PREVENT every key ──► DECIDE ───────┘
//! ```
//!
//! Where others are in the way (an attempt has failed, or many have lately), the shards are asked
//! one after the other, in an order that is the same for all:
//!
//! ```text
//!   PREPARE at the first ─► … ─► PREPARE at the last, which commits: the client is answered
//!                                     └──► RESOLVE at the others ──► FORGET
//! ```
//!
//! The first waits for whoever has the keys, and who has them all there is not in anybody's way who
//! waits for him. It takes a round for each shard, and hardly ever fails; and it takes fewer steps.
//!
//! A coordinator holds nothing that counts: it is a state machine that asks shards for steps
//! ([`crate::locks::step`]), and whoever leads them has all of it in its log. So it may end at any
//! moment. It knows no clock and no other node: its driver sends what it asks, gives it what is
//! answered, and calls [`Coordinator::tick`] while [`Coordinator::waits`].
//!
//! # Invariants
//! 1. A client is told that its transaction is done only when every shard has voted; that it is
//!    not done only when the record says ABORTED, or nothing was sent but to the first of several
//!    shards, which has refused.
//! 2. The next attempt begins when the record of the one before says ABORTED, or when only the
//!    first of several shards was asked and has refused, so what a client asks for once is done
//!    once.
//! 3. No RESOLVE is asked for before the record's outcome is explicit.
//! 4. What a client is told has an answer for each of its commands.
//! 5. The floor that goes with FORGET is at or below the start of all that is under way here, and
//!    of all that will begin here: nothing below it is prepared again. (What was given up may be
//!    found, and finished as another's.)
//!
//! # Why the coordinator may abort what is STAGED
//! SAFETY G8 has a transaction committed as soon as it is STAGED and all its locks are there, if
//! the latest of their times is below each lock's deadline (G22; else it is aborted and tried
//! again). Until somebody has looked, nobody can know that but by the record: values are seen when
//! RESOLVE was asked for, which follows an explicit outcome, or this coordinator's own DECIDE,
//! which is *sure*; and the only one who answers the client before that is this coordinator. As
//! long as it has not, it may have the record say ABORTED; if another has had it say COMMITTED by
//! then, it hears so.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | attempts begin, from when it was first begun on, for | the request's timeout | busy: not done |
//! | time until a client is told | twice that: PREPARE may take one, and DECIDE another | unknown |

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use keyspace::BootNanos;
use keyspace::{KeyspaceId, ShardId, Timestamp};
use smallvec::{SmallVec, smallvec};

use crate::locks::{KeyFinding, Name, Outcome, Step, StepReply, TxnId, Vote};
use crate::{ConflictRate, ConflictRetry, ShardMap};
use command::NotDone;
use command::{Reply, Transaction};

mod arena;
mod attempt;
mod plan;
mod recovery;
mod resolve;
#[cfg(test)]
mod tests;

use arena::StepArena;
use plan::by_shard;

/// What shards are asked for.
type Steps = SmallVec<[(ShardId, Bytes); 2]>;

/// When a shard has other keys by now, it is looked up again after so long; and so long after a
/// value has expired before the commit time, the next attempt begins.
const ROUTE_RETRY_NANOS: u64 = 5_000_000;
/// So long records whose transactions are over are gathered: far below what makes whoever leads
/// their shards think that nobody sees to them.
const FORGET_NANOS: u64 = 100_000_000;
/// How often a step that was not done is asked for again when nobody waits any more.
const TRIES_MAX: u32 = 8;

/// What has become of a transaction, for who has asked.
#[derive(Clone, Debug, PartialEq)]
pub enum TxnOutcome {
    /// It is done: one answer for each command.
    Done(Vec<Reply>),
    /// This watched key has changed: nothing was done.
    Changed(Box<[u8]>),
    /// Others had its keys all the time, this one last; or a shard has not answered, mostly since
    /// nobody led it: nothing was done.
    Busy(Option<Box<[u8]>>),
    /// It may be done, or not.
    Unknown,
    /// A shard cannot take so much at a time: nothing was done.
    TooMuch,
    /// What one shard would be asked for is longer than nodes send each other: nothing was done.
    TooLong,
    /// The keys of one of its commands lie in several shards: nothing was done.
    CrossShard,
    /// Its keyspace is gone: nothing was done.
    NoKeyspace,
    /// A log has no room: nothing was done.
    DiskFull,
}

/// What a coordinator wants done.
#[derive(Debug)]
pub enum CoordinatorAction {
    /// Have a shard take a step.
    SendStep {
        /// The shard.
        shard: ShardId,
        /// The step.
        step: Bytes,
        /// What to call it when it is answered.
        ask: u64,
    },
    /// Tell who has asked.
    Report {
        /// Who.
        token: u64,
        /// What.
        ended: TxnOutcome,
    },
}

/// What time it is, for a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct CoordinatorTime {
    /// By the node's boot clock.
    pub now: BootNanos,
    /// By its clock, above all that it has told before.
    pub time: Timestamp,
}

/// Finds a keyspace's shards.
pub type Routes<'a> = &'a dyn Fn(KeyspaceId) -> Option<Arc<dyn ShardMap>>;

/// See the front page.
pub struct Coordinator {
    /// Names what this process has begun.
    by: u64,
    request_timeout: u64,
    step_bytes_max: usize,
    next_run: u64,
    next_ask: u64,
    /// The newest start, and the newest time that a shard has told when it called one too old.
    newest: Timestamp,
    runs: BTreeMap<u64, RunningTxn>,
    /// Which run each question is of, and which of its parts.
    asks: BTreeMap<u64, (u64, usize)>,
    acts: Vec<CoordinatorAction>,
    arena: StepArena,
    /// If it is high, shards are asked one after the other at once.
    conflicts: ConflictRate,
    /// Records whose keys are all resolved: each with its keyspace and key.
    finished_records: Vec<(KeyspaceId, TxnId, Box<[u8]>)>,
    /// When they are forgotten, if there are any.
    forget_at: BootNanos,
}

struct RunningTxn {
    keyspace: KeyspaceId,
    id: TxnId,
    /// Who waits for it; none if nobody does, or does any more.
    token: Option<u64>,
    /// What is to be done, encoded; nothing, if another's is finished.
    body: Bytes,
    /// How many commands these are.
    commands: usize,
    began: BootNanos,
    /// No attempt begins from then on.
    until: BootNanos,
    record: Box<[u8]>,
    /// All keys that it locks.
    keys: Vec<Name>,
    /// Those that are locked together with the record, by one entry; in order.
    in_record_shard: Vec<Name>,
    /// Whether its shards are asked one after the other, and the last one commits it.
    in_order: bool,
    phase: Phase,
    /// The last key that another had locked.
    locked: Option<Box<[u8]>>,
    /// See [`ConflictRetry::reserved_as`].
    reserved_as: Option<Timestamp>,
    /// How often what nobody waits for has been asked for in vain.
    tries: u32,
    /// Nothing is asked before.
    not_before: BootNanos,
    /// The first question whose answer counts: those before are of an earlier phase.
    asks_from: u64,
}

enum Phase {
    /// To be planned, and prepared.
    New,
    /// What each part has voted; and the steps of those that are still to be asked, the next one
    /// last.
    Preparing(Vec<Option<Vote>>, Vec<(ShardId, Bytes)>),
    /// The record's outcome is asked for.
    Deciding(Outcome, NextStep),
    /// Keys of each part.
    Resolving(Outcome, Vec<bool>),
    /// The record is asked what it says, because of locks at these keys.
    ReadingRecord(Vec<Box<[u8]>>),
    /// What was found at each part.
    Preventing(Vec<Option<Vec<KeyFinding>>>),
}

/// What follows when the record says what it was asked to.
#[derive(Clone, Debug)]
enum NextStep {
    /// Nobody waits for it.
    Nothing,
    /// The client knows that it is committed.
    Acknowledged,
    /// The client is told so, if it was aborted.
    Report(TxnOutcome),
    /// Another attempt, after so many nanoseconds.
    Retry(u64),
    /// The same, as a transaction that begins now.
    Restart,
}

impl Coordinator {
    /// One whose transactions are named by `by`, which no other process has drawn; clients wait for
    /// `request_timeout` nanoseconds, and no shard is asked for a step of more than
    /// `step_bytes_max`.
    pub fn new(by: u64, request_timeout: u64, step_bytes_max: usize) -> Self {
        Self {
            by,
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
        }
    }

    /// From now on no shard is asked for a longer step.
    pub fn set_step_bytes_max(&mut self, step_bytes_max: usize) {
        self.step_bytes_max = step_bytes_max;
    }

    /// Begins a transaction. Its keyspace's shards are found by `routes`, now and later.
    pub fn begin(
        &mut self,
        keyspace: KeyspaceId,
        transaction: &Transaction<'_>,
        token: u64,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        self.begin_again(keyspace, transaction, token, None, at, routes);
    }

    /// The same, of what was begun before and has failed: attempts begin as long as if it had not.
    pub fn begin_again(
        &mut self,
        keyspace: KeyspaceId,
        transaction: &Transaction<'_>,
        token: u64,
        before: Option<ConflictRetry>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let since = before.as_ref().map_or(at.now, |before| before.since);
        let body = self.arena.with(|out| transaction.encode(out));
        let id = self.new_id(at.time);
        let run = RunningTxn {
            keyspace,
            id,
            token: Some(token),
            body,
            commands: transaction.commands.len(),
            began: at.now,
            until: since.saturating_add(self.request_timeout),
            record: Box::default(),
            keys: Vec::new(),
            in_record_shard: Vec::new(),
            in_order: false,
            phase: Phase::New,
            reserved_as: before.as_ref().and_then(|before| before.reserved_as),
            locked: before.map(|before| before.key),
            tries: 0,
            not_before: 0,
            asks_from: 0,
        };
        self.start(run, at, routes);
    }

    fn start(&mut self, run: RunningTxn, at: CoordinatorTime, routes: Routes<'_>) {
        let number = self.next_run;
        self.next_run += 1;
        self.runs.insert(number, run);
        self.go_on(number, at, routes);
    }

    /// Above all that were drawn before.
    fn new_id(&mut self, time: Timestamp) -> TxnId {
        self.newest = Timestamp(self.newest.0 + 1).max(time);
        TxnId { start: self.newest, by: self.by, attempt: 0 }
    }

    /// What it wants done.
    pub fn acts(&mut self) -> impl Iterator<Item = CoordinatorAction> {
        self.acts.drain(..)
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.acts.is_empty()
    }

    /// How many transactions it sees to.
    pub fn len(&self) -> usize {
        self.runs.len() + self.finished_records.len()
    }

    /// Whether it sees to none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.finished_records.is_empty()
    }

    /// Whether something is under way: all else waits for some time to pass.
    pub fn is_busy(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Whether something is to be tried again in a while, or forgotten.
    pub fn waits(&self) -> bool {
        !self.finished_records.is_empty() || self.runs.values().any(|run| run.not_before > 0)
    }

    /// Time has passed.
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

    /// Asks for what the phase of a run needs.
    fn go_on(&mut self, number: u64, at: CoordinatorTime, routes: Routes<'_>) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        run.not_before = 0;
        let Some(route) = routes(run.keyspace) else {
            // All of it is gone with the keyspace.
            return self.end(number, TxnOutcome::NoKeyspace);
        };
        if let Phase::New = run.phase {
            if run.until <= at.now {
                let locked = run.locked.take();
                return self.end(number, TxnOutcome::Busy(locked));
            }
            return self.prepare(number, &*route);
        }
        let id = run.id;
        let arena = &mut self.arena;
        let steps: Steps = match &run.phase {
            Phase::New | Phase::Preparing(..) => return,
            Phase::ReadingRecord(_) => {
                let step = Step::ReadRecord { id, record: &run.record };
                smallvec![(route.shard_of(&run.record), arena.put(&step))]
            }
            Phase::Deciding(outcome, then) => {
                let outcome = outcome.clone();
                let is_sure = matches!(then, NextStep::Acknowledged);
                let step = Step::Decide { id, record: &run.record, outcome, is_sure };
                smallvec![(route.shard_of(&run.record), arena.put(&step))]
            }
            Phase::Resolving(outcome, _) => by_shard(&*route, &run.keys)
                .into_iter()
                .map(|(shard, keys)| {
                    let outcome = outcome.clone();
                    (shard, arena.put(&Step::Resolve { id, outcome, keys }))
                })
                .collect(),
            Phase::Preventing(_) => by_shard(&*route, &run.keys)
                .into_iter()
                .map(|(shard, keys)| (shard, arena.put(&Step::Prevent { id, keys })))
                .collect(),
        };
        match &mut run.phase {
            // Nothing is left to be resolved.
            Phase::Resolving(..) if steps.is_empty() => return self.is_over(number, at),
            Phase::Resolving(_, done) => *done = vec![false; steps.len()],
            Phase::Preventing(found) => *found = vec![None; steps.len()],
            _ => {}
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

    /// A question has its answer.
    pub fn answered(
        &mut self,
        ask: u64,
        said: Result<StepReply, NotDone>,
        at: CoordinatorTime,
        routes: Routes<'_>,
    ) {
        let Some((number, part)) = self.asks.remove(&ask) else { return };
        let Some(run) = self.runs.get(&number).filter(|run| ask >= run.asks_from) else { return };
        match &run.phase {
            Phase::New => {}
            Phase::Preparing(..) => self.voted(number, part, said, at, routes),
            Phase::Deciding(..) => self.decided(number, said, at, routes),
            Phase::Resolving(..) => self.resolved(number, part, said, at),
            Phase::ReadingRecord(_) => self.looked(number, said, at, routes),
            Phase::Preventing(_) => self.prevented(number, part, said, at, routes),
        }
    }

    /// What was asked for in this phase is not waited for any more.
    fn enter(&mut self, number: u64, phase: Phase, at: CoordinatorTime, routes: Routes<'_>) {
        let next_ask = self.next_ask;
        if let Some(run) = self.runs.get_mut(&number) {
            (run.phase, run.asks_from) = (phase, next_ask);
        }
        self.go_on(number, at, routes);
    }

    /// Tells who waits, if anyone does still.
    fn tell(&mut self, number: u64, ended: TxnOutcome) {
        if let Some(token) = self.runs.get_mut(&number).and_then(|run| run.token.take()) {
            self.acts.push(CoordinatorAction::Report { token, ended });
        }
    }

    fn end(&mut self, number: u64, ended: TxnOutcome) {
        self.tell(number, ended);
        self.runs.remove(&number);
    }
}
