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
//! SAFETY G8 has a transaction committed as soon as it is STAGED and all its locks are there. Until
//! somebody has looked, nobody can know that but by the record: values are seen when RESOLVE was
//! asked for, which follows an explicit outcome, or this coordinator's own DECIDE, which is *sure*;
//! and the only one who answers the client before that is this coordinator. As long as it has not,
//! it may have the record say ABORTED; if another has had it say COMMITTED by then, it hears so.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | attempts begin, from when it was first begun on, for | the request's patience | busy: not done |
//! | time until a client is told | twice that: PREPARE may take one, and DECIDE another | unknown |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use keyspace::codec::Reader;
use keyspace::{KeyspaceId, ShardId, Timestamp};
use replication::BootNanos;

use crate::command::{Reply, Transaction};
use crate::lane::NotDone;
use crate::locks::{Answers, Finding, Outcome, Said, Standing, Step, TxnId, Why};
use crate::route::Route;

mod others;
mod plan;
#[cfg(test)]
mod tests;

use plan::{Plan, by_shard};

/// When a shard has other keys by now, it is looked up again after so long.
const LOOK_AGAIN_NANOS: u64 = 5_000_000;
/// What one refusal adds to the heat, of which each transaction that is done takes one.
const HEAT_OF_ONE: u32 = 32;
/// Above it, shards are asked one after the other at once.
const HOT: u32 = 128;
/// It rises no higher.
const HEAT_MAX: u32 = 512;
/// So long records whose transactions are over are gathered: far below what makes whoever leads
/// their shards think that nobody sees to them.
const FORGET_NANOS: u64 = 100_000_000;
/// Room for most steps and transactions, so that their bytes are not moved as they grow.
const STEP_BYTES_ABOUT: usize = 128;
/// How often a step that was not done is asked for again when nobody waits any more.
const TRIES_MAX: u32 = 8;

/// What has become of a transaction, for who has asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
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
pub enum Act {
    /// Have a shard take a step: [`crate::lane::Input::Step`].
    Ask {
        /// The shard.
        shard: ShardId,
        /// The step.
        step: Bytes,
        /// What to call it when it is answered.
        ask: u64,
    },
    /// Tell who has asked.
    End {
        /// Who.
        token: u64,
        /// What.
        ended: Ended,
    },
}

/// What has come of a transaction's tries before this one.
#[derive(Clone, Debug)]
pub struct InVain {
    /// When the first one began.
    pub since: BootNanos,
    /// The last key that others had.
    pub key: Box<[u8]>,
}

/// What time it is, for a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// By the node's boot clock.
    pub now: BootNanos,
    /// By its clock, above all that it has told before.
    pub time: Timestamp,
}

/// Finds a keyspace's shards.
pub type Routes<'a> = &'a dyn Fn(KeyspaceId) -> Option<Arc<Route>>;

/// See the front page.
pub struct Coordinator {
    /// Names what this process has begun.
    by: u64,
    patience: u64,
    step_bytes_max: usize,
    next_run: u64,
    next_ask: u64,
    /// The newest start, and the newest time that a shard has told when it called one too old.
    newest: Timestamp,
    runs: BTreeMap<u64, Run>,
    /// Which run each question is of, and which of its parts.
    asks: BTreeMap<u64, (u64, usize)>,
    acts: Vec<Act>,
    /// Rises with transactions that others were in the way of, and falls with those that are done.
    heat: u32,
    /// Records whose keys are all resolved: each with its keyspace and key.
    over: Vec<(KeyspaceId, TxnId, Box<[u8]>)>,
    /// When they are forgotten, if there are any.
    forget_at: BootNanos,
}

struct Run {
    keyspace: KeyspaceId,
    id: TxnId,
    /// Who waits for it; none if nobody does, or does any more.
    token: Option<u64>,
    /// What is to be done, encoded; nothing, if another's is finished.
    body: Arc<[u8]>,
    /// How many commands these are.
    commands: usize,
    began: BootNanos,
    /// No attempt begins from then on.
    until: BootNanos,
    record: Box<[u8]>,
    /// All keys that it locks.
    keys: Vec<Box<[u8]>>,
    /// Those that are locked together with the record, by one entry.
    at_home: BTreeSet<Box<[u8]>>,
    /// Whether its shards are asked one after the other, and the last one commits it.
    in_order: bool,
    phase: Phase,
    /// The last key that another had locked.
    locked: Option<Box<[u8]>>,
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
    Preparing(Vec<Option<(Timestamp, Answers)>>, Vec<(ShardId, Vec<u8>)>),
    /// The record's outcome is asked for.
    Deciding(Outcome, Then),
    /// Keys of each part.
    Resolving(Outcome, Vec<bool>),
    /// The record is asked what it says, because of locks at these keys.
    Looking(Vec<Box<[u8]>>),
    /// What was found at each part.
    Preventing(Vec<Option<Vec<Finding>>>),
}

/// What follows when the record says what it was asked to.
#[derive(Clone, Debug)]
enum Then {
    /// Nobody waits for it.
    Nothing,
    /// The client knows that it is committed.
    Acknowledged,
    /// The client is told so, if it was aborted.
    Tell(Ended),
    /// Another attempt, after so many nanoseconds.
    Again(u64),
    /// The same, as a transaction that begins now.
    Afresh,
}

impl Coordinator {
    /// One whose transactions are named by `by`, which no other process has drawn; clients wait for
    /// `patience` nanoseconds, and no shard is asked for a step of more than `step_bytes_max`.
    pub fn new(by: u64, patience: u64, step_bytes_max: usize) -> Self {
        Self {
            by,
            patience,
            step_bytes_max,
            next_run: 1,
            next_ask: 1,
            newest: Timestamp::ZERO,
            runs: BTreeMap::new(),
            asks: BTreeMap::new(),
            acts: Vec::new(),
            heat: 0,
            over: Vec::new(),
            forget_at: 0,
        }
    }

    /// Begins a transaction. Its keyspace's shards are found by `routes`, now and later.
    pub fn begin(
        &mut self,
        keyspace: KeyspaceId,
        transaction: &Transaction<'_>,
        token: u64,
        at: At,
        routes: Routes<'_>,
    ) {
        self.begin_again(keyspace, transaction, token, None, at, routes);
    }

    /// The same, of what was begun before, and was in vain: attempts begin as long as if it had not
    /// been.
    pub fn begin_again(
        &mut self,
        keyspace: KeyspaceId,
        transaction: &Transaction<'_>,
        token: u64,
        before: Option<InVain>,
        at: At,
        routes: Routes<'_>,
    ) {
        let since = before.as_ref().map_or(at.now, |before| before.since);
        let mut body = Vec::with_capacity(STEP_BYTES_ABOUT);
        transaction.encode(&mut body);
        let id = self.new_id(at.time);
        let run = Run {
            keyspace,
            id,
            token: Some(token),
            body: body.into(),
            commands: transaction.commands.len(),
            began: at.now,
            until: since.saturating_add(self.patience),
            record: Box::default(),
            keys: Vec::new(),
            at_home: BTreeSet::new(),
            in_order: false,
            phase: Phase::New,
            locked: before.map(|before| before.key),
            tries: 0,
            not_before: 0,
            asks_from: 0,
        };
        self.start(run, at, routes);
    }

    fn start(&mut self, run: Run, at: At, routes: Routes<'_>) {
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
    pub fn acts(&mut self) -> impl Iterator<Item = Act> {
        self.acts.drain(..)
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.acts.is_empty()
    }

    /// How many transactions it sees to.
    pub fn len(&self) -> usize {
        self.runs.len() + self.over.len()
    }

    /// Whether it sees to none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.over.is_empty()
    }

    /// Whether something is under way: all else waits for some time to pass.
    pub fn is_busy(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Whether something is to be tried again in a while, or forgotten.
    pub fn waits(&self) -> bool {
        !self.over.is_empty() || self.runs.values().any(|run| run.not_before > 0)
    }

    /// Time has passed.
    pub fn tick(&mut self, at: At, routes: Routes<'_>) {
        if !self.over.is_empty() && self.forget_at <= at.now {
            self.forget(routes);
        }
        let is_due = |run: &Run| run.not_before > 0 && run.not_before <= at.now;
        let due: Vec<u64> =
            self.runs.iter().filter(|(_, run)| is_due(run)).map(|(number, _)| *number).collect();
        for number in due {
            self.go_on(number, at, routes);
        }
    }

    /// Asks for what the phase of a run needs.
    fn go_on(&mut self, number: u64, at: At, routes: Routes<'_>) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        run.not_before = 0;
        let Some(route) = routes(run.keyspace) else {
            // All of it is gone with the keyspace.
            return self.end(number, Ended::NoKeyspace);
        };
        if let Phase::New = run.phase {
            if run.until <= at.now {
                let locked = run.locked.take();
                return self.end(number, Ended::Busy(locked));
            }
            return self.prepare(number, &route);
        }
        let id = run.id;
        let steps: Vec<(ShardId, Vec<u8>)> = match &run.phase {
            Phase::New | Phase::Preparing(..) => return,
            Phase::Looking(_) => {
                let step = Step::Look { id, record: &run.record };
                vec![(shard_of(&route, &run.record), encoded(&step))]
            }
            Phase::Deciding(outcome, then) => {
                let outcome = outcome.clone();
                let is_sure = matches!(then, Then::Acknowledged);
                let step = Step::Decide { id, record: &run.record, outcome, is_sure };
                vec![(shard_of(&route, &run.record), encoded(&step))]
            }
            Phase::Resolving(outcome, _) => by_shard(&route, &run.keys)
                .into_iter()
                .map(|(shard, keys)| {
                    let outcome = outcome.clone();
                    (shard, encoded(&Step::Resolve { id, outcome, keys }))
                })
                .collect(),
            Phase::Preventing(_) => by_shard(&route, &run.keys)
                .into_iter()
                .map(|(shard, keys)| (shard, encoded(&Step::Prevent { id, keys })))
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

    fn ask_all(&mut self, run: u64, steps: Vec<(ShardId, Vec<u8>)>) {
        steps.into_iter().enumerate().for_each(|(part, step)| self.ask(run, part, step));
    }

    fn ask(&mut self, run: u64, part: usize, (shard, step): (ShardId, Vec<u8>)) {
        let ask = self.next_ask;
        self.next_ask += 1;
        self.asks.insert(ask, (run, part));
        self.acts.push(Act::Ask { shard, step: step.into(), ask });
    }

    fn prepare(&mut self, number: u64, route: &Route) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let body = run.body.clone();
        let transaction = Transaction::decode(&mut Reader::new(&body)).expect("it was encoded");
        let is_contended = run.id.attempt > 0 || self.heat > HOT;
        let Some(plan) = Plan::of(&transaction, route, is_contended) else {
            return self.end(number, Ended::CrossShard);
        };
        run.record = plan.record.into();
        run.keys = plan.keys.iter().map(|key| Box::from(*key)).collect();
        run.at_home = plan.keys_at_home(route).map(Box::from).collect();
        let in_order = plan.in_order;
        run.in_order = in_order;
        let mut steps = plan.steps(run.id);
        if steps.iter().any(|(_, step)| step.len() > self.step_bytes_max) {
            return self.end(number, Ended::TooLong);
        }
        let votes = vec![None; steps.len()];
        if !in_order {
            run.phase = Phase::Preparing(votes, Vec::new());
            return self.ask_all(number, steps);
        }
        steps.reverse();
        let first = steps.pop().expect("it has parts");
        run.phase = Phase::Preparing(votes, steps);
        self.ask(number, 0, first);
    }

    /// A question has its answer.
    pub fn answered(&mut self, ask: u64, said: Result<Said, NotDone>, at: At, routes: Routes<'_>) {
        let Some((number, part)) = self.asks.remove(&ask) else { return };
        let Some(run) = self.runs.get(&number).filter(|run| ask >= run.asks_from) else { return };
        match &run.phase {
            Phase::New => {}
            Phase::Preparing(..) => self.voted(number, part, said, at, routes),
            Phase::Deciding(..) => self.decided(number, said, at, routes),
            Phase::Resolving(..) => self.resolved(number, part, said, at),
            Phase::Looking(_) => self.looked(number, said, at, routes),
            Phase::Preventing(_) => self.prevented(number, part, said, at, routes),
        }
    }

    /// What was asked for in this phase is not waited for any more.
    fn enter(&mut self, number: u64, phase: Phase, at: At, routes: Routes<'_>) {
        let next_ask = self.next_ask;
        if let Some(run) = self.runs.get_mut(&number) {
            (run.phase, run.asks_from) = (phase, next_ask);
        }
        self.go_on(number, at, routes);
    }

    fn voted(
        &mut self,
        number: u64,
        part: usize,
        said: Result<Said, NotDone>,
        at: At,
        routes: Routes<'_>,
    ) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let Phase::Preparing(votes, rest) = &mut run.phase else { return };
        // Of several shards only the first was asked, and has locked nothing if it says so: this
        // attempt cannot be committed, so no record need say that it is not.
        let is_refused = matches!(said, Ok(Said::Refused(_)));
        let is_nothing = is_refused && !rest.is_empty() && votes.iter().all(Option::is_none);
        let then = match said {
            Ok(Said::Voted(locked_at, answers)) => {
                votes[part] = Some((locked_at, answers));
                if let Some(mut next) = rest.pop() {
                    if rest.is_empty() {
                        let after = votes.iter().flatten().map(|(at, _)| *at).max();
                        Step::set_after(&mut next.1, after.unwrap_or_default());
                    }
                    return self.ask(number, part + 1, next);
                }
                if votes.iter().all(Option::is_some) {
                    let votes = std::mem::take(votes).into_iter().flatten().collect();
                    self.commit(number, votes, at, routes);
                }
                return;
            }
            Ok(Said::Refused(Why::Changed(key))) => Then::Tell(Ended::Changed(key)),
            Ok(Said::Refused(Why::TooMuch)) => Then::Tell(Ended::TooMuch),
            Ok(Said::Refused(Why::TooOld(time))) => {
                self.newest = self.newest.max(time);
                Then::Afresh
            }
            Ok(Said::Refused(Why::Locked(key))) => {
                run.locked = Some(key);
                self.heat = (self.heat + HEAT_OF_ONE).min(HEAT_MAX);
                Then::Again(0)
            }
            Ok(Said::Refused(Why::Aborted)) => {
                // Somebody who had met its locks has ended it.
                run.locked.get_or_insert_with(|| run.record.clone());
                Then::Again(0)
            }
            Ok(_) => Then::Again(LOOK_AGAIN_NANOS),
            Err(NotDone::DiskFull) => Then::Tell(Ended::DiskFull),
            // Whatever was locked before, this shard has not answered.
            Err(_) => Then::Tell(Ended::Busy(None)),
        };
        if is_nothing {
            let next = self.go_on_with(number, then, at);
            self.runs.remove(&number);
            return next.into_iter().for_each(|next| self.go_on(next, at, routes));
        }
        self.enter(number, Phase::Deciding(Outcome::Aborted, then), at, routes);
    }

    /// An attempt has failed, for good: tells who waits, or begins the next one, in a run that is
    /// to go on now if it is told.
    fn go_on_with(&mut self, number: u64, then: Then, at: At) -> Option<u64> {
        let id = self.runs.get(&number)?.id;
        match then {
            Then::Nothing | Then::Acknowledged => None,
            Then::Tell(ended) => {
                self.tell(number, ended);
                None
            }
            Then::Again(pause) => {
                let id = TxnId { attempt: id.attempt + 1, ..id };
                self.try_again(number, id, pause, at)
            }
            Then::Afresh => {
                let id = self.new_id(at.time);
                self.try_again(number, id, 0, at)
            }
        }
    }

    /// All have voted: it is committed, at the latest time of its locks.
    fn commit(
        &mut self,
        number: u64,
        votes: Vec<(Timestamp, Answers)>,
        at: At,
        routes: Routes<'_>,
    ) {
        let commit = votes.iter().map(|(at, _)| *at).max().expect("it has parts");
        let mut answers: Answers = votes.into_iter().flat_map(|(_, answers)| answers).collect();
        answers.sort_by_key(|(place, _)| *place);
        let replies: Vec<Reply> = answers.into_iter().map(|(_, answer)| answer).collect();
        // A shard that was asked again, after another had finished the transaction, has forgotten
        // answers that are long (KEPT_ANSWER_BYTES_MAX): it is done, but what it said is gone.
        let commands = self.runs.get(&number).map(|run| run.commands);
        let is_whole = commands == Some(replies.len());
        self.tell(number, if is_whole { Ended::Done(replies) } else { Ended::Unknown });
        self.heat = self.heat.saturating_sub(1);
        let Some(run) = self.runs.get_mut(&number) else { return };
        let outcome = Outcome::Committed(commit);
        if !run.in_order {
            return self.enter(number, Phase::Deciding(outcome, Then::Acknowledged), at, routes);
        }
        // The last one has committed it, and locked nothing.
        let at_home = std::mem::take(&mut run.at_home);
        run.keys.retain(|key| !at_home.contains(key));
        if run.keys.is_empty() {
            self.runs.remove(&number);
            return;
        }
        self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
    }

    fn decided(&mut self, number: u64, said: Result<Said, NotDone>, at: At, routes: Routes<'_>) {
        let Ok(Said::Record(standing, rest)) = said else {
            return self.again_later(number, at);
        };
        let Some(run) = self.runs.get_mut(&number) else { return };
        let Phase::Deciding(_, then) = &run.phase else { return };
        let then = then.clone();
        let outcome = match standing {
            Standing::Committed(at) => Outcome::Committed(at),
            Standing::Aborted | Standing::TooOld | Standing::Staged => Outcome::Aborted,
        };
        if let Outcome::Committed(_) = outcome {
            // Those that the record's shard has not resolved.
            run.keys = rest;
            // Another has finished it, and what was answered is not known.
            self.tell(number, Ended::Unknown);
            return self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
        }
        if let Then::Acknowledged = then {
            // Another has finished it long ago, and the record is forgotten.
            assert!(standing == Standing::TooOld, "what is committed stays so (G8)");
            self.runs.remove(&number);
            return;
        }
        if standing == Standing::TooOld {
            // What is so old may have been committed by another, and forgotten.
            self.tell(number, Ended::Unknown);
        }
        let is_known = standing != Standing::TooOld;
        let next = if is_known { self.go_on_with(number, then, at) } else { None };
        if let Some(run) = self.runs.get_mut(&number)
            && let Some(route) = routes(run.keyspace)
        {
            // What comes with the record is resolved with it, or never locked. Other keys may have
            // come there since, by a merge, and keys of the record's may have gone, by a cut.
            let there = shard_of(&route, &run.record);
            let is_done = |key: &[u8]| run.at_home.contains(key) && shard_of(&route, key) == there;
            let rest: BTreeSet<&[u8]> = rest.iter().map(|key| &**key).collect();
            run.keys.retain(|key| !is_done(key) || rest.contains(&**key));
        }
        self.enter(number, Phase::Resolving(outcome, Vec::new()), at, routes);
        if let Some(next) = next {
            // Behind what gives up the locks of the one before.
            self.go_on(next, at, routes);
        }
    }

    /// Another attempt in a run of its own, which may begin at once if it is told: what is left of
    /// this one goes on behind it.
    fn try_again(&mut self, number: u64, id: TxnId, pause: u64, at: At) -> Option<u64> {
        let run = self.runs.get_mut(&number)?;
        let next = Run {
            keyspace: run.keyspace,
            id,
            token: run.token.take(),
            body: run.body.clone(),
            commands: run.commands,
            began: run.began,
            until: run.until,
            record: Box::default(),
            keys: Vec::new(),
            at_home: BTreeSet::new(),
            in_order: false,
            phase: Phase::New,
            locked: run.locked.take(),
            tries: 0,
            not_before: at.now.saturating_add(pause).max(1),
            asks_from: 0,
        };
        let number = self.next_run;
        self.runs.insert(number, next);
        self.next_run += 1;
        (pause == 0).then_some(number)
    }

    fn resolved(&mut self, number: u64, part: usize, said: Result<Said, NotDone>, at: At) {
        let Some(Run { phase: Phase::Resolving(_, done), .. }) = self.runs.get_mut(&number) else {
            return;
        };
        match said {
            Ok(Said::Done) => {
                done[part] = true;
                if done.iter().all(|done| *done) {
                    self.is_over(number, at);
                }
            }
            _ => self.again_later(number, at),
        }
    }

    /// All keys are resolved: that is written into its record together with others.
    fn is_over(&mut self, number: u64, at: At) {
        let Some(run) = self.runs.remove(&number) else { return };
        if self.over.is_empty() {
            self.forget_at = at.now.saturating_add(FORGET_NANOS);
        }
        self.over.push((run.keyspace, run.id, run.record));
    }

    /// Has the records that are over lose their keys. Nobody waits for that: if it is not done,
    /// whoever leads the record's shard has somebody finish the transaction once more.
    ///
    /// With it goes the time before which nothing is under way here.
    fn forget(&mut self, routes: Routes<'_>) {
        let mine = self.runs.values().map(|run| run.id).filter(|id| id.by == self.by);
        // The next start is above all that there were.
        let next = Timestamp(self.newest.0 + 1);
        let before = mine.map(|id| id.start).min().unwrap_or(next);
        let floor = Some((self.by, before));
        let mut by_shard: BTreeMap<ShardId, Vec<(TxnId, &[u8])>> = BTreeMap::new();
        let over = std::mem::take(&mut self.over);
        for (keyspace, id, record) in &over {
            // What is of a keyspace that is gone is gone with it.
            if let Some(route) = routes(*keyspace) {
                by_shard.entry(shard_of(&route, record)).or_default().push((*id, record));
            }
        }
        for (shard, all) in by_shard {
            let ask = self.next_ask;
            self.next_ask += 1;
            let step = encoded(&Step::Forget { all, floor }).into();
            self.acts.push(Act::Ask { shard, step, ask });
        }
    }

    /// What a phase needs could not be had: it is asked for again, unless it was too often.
    fn again_later(&mut self, number: u64, at: At) {
        let next_ask = self.next_ask;
        let Some(run) = self.runs.get_mut(&number) else { return };
        run.asks_from = next_ask;
        run.tries += 1;
        run.not_before = at.now.saturating_add(LOOK_AGAIN_NANOS);
        let is_late = run.began.saturating_add(self.patience) <= at.now;
        let is_given_up = run.tries > TRIES_MAX && is_late;
        if is_late {
            self.tell(number, Ended::Unknown);
        }
        if is_given_up {
            // Whoever leads a shard with a lock has somebody else finish it.
            self.runs.remove(&number);
        }
    }

    /// Tells who waits, if anyone does still.
    fn tell(&mut self, number: u64, ended: Ended) {
        if let Some(token) = self.runs.get_mut(&number).and_then(|run| run.token.take()) {
            self.acts.push(Act::End { token, ended });
        }
    }

    fn end(&mut self, number: u64, ended: Ended) {
        self.tell(number, ended);
        self.runs.remove(&number);
    }
}

fn shard_of(route: &Route, key: &[u8]) -> ShardId {
    route.shard(route.place_of_key(key))
}

fn encoded(step: &Step<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(STEP_BYTES_ABOUT);
    step.encode(&mut out);
    out
}
