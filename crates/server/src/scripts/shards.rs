//! Runs one script over any shards ([`txn::script_attempt`]): as an interactive transaction whose
//! client is Lua.
//!
//! ```text
//!   run ── lacks a key ──► read it, here or at its leader ──► run again, with all that was read
//!    └── ended ──► commit, if what was read is as it was ──► the reply
//!                    └── changed ──► run again, at last with its keys reserved
//! ```
//!
//! A script thread never waits for a key: the script begins again when the key has come. It does
//! the same as before, since it sees the same values.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use command::{Transaction, Write};
use keyspace::{KeyspaceId, ShardId};
use lua::Stopped;
use node::executor::{Answer, Input};
use node::replica::entry::Batch;
use node::replica::script_keys::{ScriptHalt, is_read_first};
use node::routing::route::Route;
use txn::coordinator::TxnOutcome;
use txn::interactive::InteractiveTxn;
use txn::script_attempt::{AttemptCommit, AttemptOutcome, ScriptAttempt, written_shards};

use super::cache::Program;
use super::exec_changes;
use super::flushes::flush_ended_text;
use super::host::Halt;
use super::job::{Job, JobReply};
use super::keyspaces::OtherKeyspaces;
use super::late::{NOT_READ, Spent};
use super::run::{Ground, Ran};
use super::threads::Runner;
use super::{MEDIUM_TIME, Outcome, SHORT_TIME};
use crate::event_loop::{ended_text, not_done_text};
use crate::runtime::mailbox::{Mail, Transact};
use crate::runtime::open_txns::{HeldTxn, OPEN_TXN_BYTES_MAX};
use crate::runtime::{API, NodeRuntime, boot_nanos};
use crate::service::txn::run::Run;
use api::ApiError;

const TOO_MUCH: &str = "ERR a script reads and writes at most 65536 keys, and 64 MiB of keys and \
                        values; nothing of it was done";
const TOO_MUCH_AT_ONCE: &str =
    "ERR the command moves more than 65536 keys, or 128 MiB of values; nothing was done";
const HELD_TOO_MUCH: &str = "BUSY the scripts and open transactions of this node hold 256 MiB of \
                             keys and values together, the most; nothing of the script was done. \
                             Send it again";
const DROPPED: &str = "ERR the keyspace was dropped; nothing of the script was done";

/// Never known to happen: what an attempt lacks is read before it begins again.
const LEARNT_NOTHING: &str = "ERR the script lacks what it has read already; nothing of it was \
                              done. Please report it";
const MOVED: &str = "BUSY shards of the script's keys were moving all the time \
                     (request_timeout_ms); nothing of it was done. Send it again";

/// A script on its way to its commit.
pub struct Attempt {
    job: Job,
    /// What it has read by now.
    held: Option<HeldTxn>,
    /// … in other keyspaces.
    others: OtherKeyspaces,
    /// What follows from what.
    pub(super) attempt: ScriptAttempt,
    /// Whether what it last had done flushes a keyspace.
    flushes: bool,
    /// Among which it runs.
    pace: Pace,
    /// Its place among them, from when it came to them.
    place: Option<Instant>,
    /// What has taken its time.
    pub(super) spent: Spent,
}

/// Among which scripts one runs, by how long it has run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Up to [`SHORT_TIME`].
    Short,
    /// Up to [`MEDIUM_TIME`].
    Medium,
    /// Up to `script_time_ms`.
    Long,
}

impl Attempt {
    /// The first one of a script, which may have left a queue.
    pub fn first(job: Job) -> Self {
        let keys = job.arguments().0.into_iter().map(Bytes::copy_from_slice).collect();
        // In a busy queue it may have waited for long, behind its client's other scripts.
        let since = if job.left.is_some() { boot_nanos() } else { job.came.boot };
        let attempt = ScriptAttempt::first(keys, since);
        let (held, others, flushes, place, spent) = Default::default();
        Self { job, held, others, attempt, flushes, pace: Pace::Short, place, spent }
    }

    /// Among which scripts it runs.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Its place among these: it keeps its first one when it runs again.
    pub fn place(&mut self, first: impl FnOnce() -> Instant) -> Instant {
        *self.place.get_or_insert_with(first)
    }

    /// Whose it is.
    pub fn client(&self) -> u64 {
        self.job.client
    }

    /// It waits for a thread from now on.
    pub fn begin_to_wait(&mut self, now: Instant) {
        self.spent.waits(now);
    }

    fn end(self, runtime: &NodeRuntime, reply: JobReply, outcome: Outcome) {
        self.job.answer(runtime, reply, outcome);
    }

    pub(super) fn refuse(self, runtime: &NodeRuntime, text: &str) {
        let reply = self.job.error(text);
        self.end(runtime, reply, Outcome::Refused);
    }

    fn done(self, runtime: &Arc<NodeRuntime>, reply: JobReply) {
        let (mode, version, again) = (self.job.mode, self.job.version, runtime.clone());
        let end = move |reply| self.end(&again, reply, Outcome::OverShards);
        match reply.gaps {
            Some(_) => exec_changes::make_all(runtime, mode, version, reply, Box::new(end)),
            None => end(reply),
        }
    }

    /// Reads these keys of a keyspace, and runs it then.
    fn read(mut self, runtime: &Arc<NodeRuntime>, keyspace: KeyspaceId, keys: Vec<Bytes>) {
        let is_own = keyspace == self.job.keyspace;
        let held = if is_own { self.held.take() } else { self.others.take(keyspace) };
        let held = held.expect("it is held while it does not run");
        let keeps = self.attempt.reserved_as().filter(|_| is_own);
        let keeps = keeps.map(|name| (name, keys.clone()));
        // It wants keys of its own keyspace first when it runs again.
        let wanted = if is_own { keys.clone() } else { Vec::new() };
        let (again, number) = (runtime.clone(), runtime.scripts.readers.add(self));
        let then = move |held, read: Result<_, ApiError>| {
            let Some(mut attempt) = again.scripts.readers.take(number) else { return };
            match read {
                Ok(_) => {
                    match is_own {
                        true => attempt.held = Some(held),
                        false => attempt.others.give_back(held),
                    }
                    again.scripts.push_attempt(attempt);
                }
                // A shard that is no more, unless its keyspace is.
                Err(ApiError::KeyspaceDropped) => attempt.reroute(&again, wanted),
                Err(error) => attempt.refuse(&again, &read_error(&error)),
            }
        };
        Run::learn(runtime, held, keys, keeps, Box::new(then));
    }

    /// Has it run among those that take longer.
    fn run_at(mut self, runtime: &NodeRuntime, pace: Pace) {
        (self.pace, self.place) = (pace, None);
        runtime.scripts.push_attempt(self);
    }

    /// What it has read is old.
    fn forget(&mut self) {
        (self.held, self.others) = Default::default();
    }

    /// A shard has moved: it runs again when there may be new routes.
    fn reroute(mut self, runtime: &Arc<NodeRuntime>, wanted: Vec<Bytes>) {
        self.forget();
        let times = (boot_nanos(), self.time_max(runtime).as_nanos() as u64);
        match self.attempt.reroute(wanted, times) {
            true => runtime.scripts.push_after_pause(self),
            false => self.refuse(runtime, MOVED),
        }
    }

    /// Others have changed a key of a keyspace that it has read: it runs again, on what there is
    /// now.
    fn retry(
        mut self,
        runtime: &Arc<NodeRuntime>,
        keyspace: KeyspaceId,
        key: Box<[u8]>,
        read: Vec<Bytes>,
    ) {
        if let Program::Exec(exec) = &self.job.program
            && keyspace == self.job.keyspace
            && exec.watched.iter().any(|(watched, _)| **watched == *key)
        {
            let mut bytes = Vec::new();
            gateway::resp::RespWriter::new(&mut bytes, self.job.version).null_array();
            let reply = JobReply::new(bytes, false);
            return self.done(runtime, reply);
        }
        runtime.scripts.counts.conflicts.add(1);
        let times = (boot_nanos(), self.time_max(runtime).as_nanos() as u64);
        self.forget();
        match self.attempt.retry(key, read, times, || runtime.clock.tick()) {
            Ok(()) => runtime.scripts.push_attempt(self),
            Err(key) => self.refuse(runtime, &ended_text(&TxnOutcome::Busy(Some(key)))),
        }
    }

    /// What was written is done, or not.
    fn committed(
        self,
        runtime: &Arc<NodeRuntime>,
        outcome: AttemptOutcome,
        read: Vec<Bytes>,
        reply: JobReply,
    ) {
        match outcome {
            AttemptOutcome::Done => self.done(runtime, reply),
            AttemptOutcome::Changed(key) => {
                let keyspace = self.job.keyspace;
                self.retry(runtime, keyspace, key, read);
            }
            AttemptOutcome::ChangedIn(keyspace, key) => self.retry(runtime, keyspace, key, read),
            AttemptOutcome::Moved => self.reroute(runtime, read),
            AttemptOutcome::NotDone(why) => self.refuse(runtime, not_done_text(why)),
            AttemptOutcome::Ended(why) if self.flushes => {
                self.refuse(runtime, &flush_ended_text(&why));
            }
            AttemptOutcome::Ended(why) => self.refuse(runtime, &ended_text(&why)),
        }
    }

    /// Has what it has written done, if what it has read is as it was.
    fn commit(mut self, runtime: &Arc<NodeRuntime>, route: &Route, mut reply: JobReply) {
        let held = self.held.take().expect("it was held while it ran");
        let keys_of = |transaction: &Transaction<'_>| -> Vec<Bytes> {
            transaction.watched.iter().map(|(key, _)| Bytes::copy_from_slice(key)).collect()
        };
        if !self.others.are_unused() {
            let copies = self.others.iter().chain([(held.keyspace, &*held.copy)]);
            let read = keys_of(&held.copy.transaction());
            let AttemptCommit::Spanning(parts) = AttemptCommit::of_several(copies) else {
                return self.done(runtime, reply);
            };
            let routes = runtime.routing.routes();
            let written = parts.iter().filter_map(|(id, part)| {
                routes.by_id(*id).map(|route| written_shards(part, &**route))
            });
            reply.written = written.flatten().collect();
            drop(parts);
            return self.transact(runtime, held, read, reply);
        }
        match self.attempt.commit(&held.copy, route) {
            AttemptCommit::Nothing => self.done(runtime, reply),
            AttemptCommit::OneShard(shard, transaction) => {
                reply.written = written_shards(&transaction, route);
                let read = keys_of(&transaction);
                let write = Write::Transaction(Box::new(transaction));
                match runtime.is_too_long(write.bytes_about()) {
                    true => self.refuse(runtime, TOO_MUCH),
                    false => self.propose(runtime, shard, &write, read, reply),
                }
            }
            AttemptCommit::Coordinated(transaction) => {
                reply.written = written_shards(&transaction, route);
                let read = keys_of(&transaction);
                drop(transaction);
                self.transact(runtime, held, read, reply);
            }
            AttemptCommit::Spanning(_) => unreachable!("it has used one keyspace"),
        }
    }

    /// Commits in one shard: one entry.
    fn propose(
        self,
        runtime: &Arc<NodeRuntime>,
        shard: ShardId,
        write: &Write<'_>,
        read: Vec<Bytes>,
        reply: JobReply,
    ) {
        let again = runtime.clone();
        let waiter = runtime.delivery.waiters.wait(Box::new(move |answered| {
            let outcome = match answered {
                Answer::Applied { replies, .. } => {
                    AttemptOutcome::applied(replies.into_iter().next())
                }
                Answer::NotDone { why, .. } => AttemptOutcome::not_done(why),
                other => unreachable!("a batch is applied or not: {other:?}"),
            };
            self.committed(&again, outcome, read, reply);
        }));
        let mut batch = Batch::default();
        batch.push(write, waiter);
        runtime.submit(shard, Input::Propose { shard, origin: API, batch });
    }

    /// Commits over shards, in all keyspaces that it has used.
    fn transact(
        mut self,
        runtime: &Arc<NodeRuntime>,
        held: HeldTxn,
        read: Vec<Bytes>,
        reply: JobReply,
    ) {
        let HeldTxn { keyspace, copy, charge } = held;
        let others = std::mem::take(&mut self.others).into_used();
        let (others, charges): (Vec<_>, Vec<_>) =
            others.into_iter().map(|held| ((held.keyspace, held.copy), held.charge)).unzip();
        self.flushes = copy.is_flushed() || others.iter().any(|(_, copy)| copy.is_flushed());
        let before = Some(self.attempt.coordinated(self.spent.ran().as_nanos() as u64));
        let loops = runtime.delivery.mailboxes.len();
        let event_loop = self.job.reply_to.coordinator(loops);
        let again = runtime.clone();
        let done = move |ended| {
            drop((charge, charges));
            self.committed(&again, AttemptOutcome::coordinated(ended), read, reply);
        };
        let asked = Transact { keyspace, copy, others, before, done: Box::new(done) };
        // A loop that has ended has no clients left, or has given them up.
        let mailbox = &runtime.delivery.mailboxes[event_loop];
        let _is_read = mailbox.post(Mail::Transact(Box::new(asked)));
    }
}

impl Runner {
    /// Runs a script over any shards, as far as it goes now.
    pub(super) fn run_attempt(&mut self, mut attempt: Attempt) {
        let runtime = self.runtime.clone();
        runtime.clock.observe();
        let found = runtime.routing.routes().by_id(attempt.job.keyspace).cloned();
        let Some(route) = found else { return attempt.refuse(&runtime, DROPPED) };
        attempt.spent.waits_no_more();
        let now = runtime.clock.moment();
        if attempt.is_late(&runtime, now.boot) {
            return attempt.refuse_late(&runtime);
        }
        let mut held = attempt.held.take().unwrap_or_else(|| {
            let bytes_max = attempt.job.program.bytes_max();
            let copy = InteractiveTxn::restartable(now.time, bytes_max);
            runtime.open_txns.hold(attempt.job.keyspace, Box::new(copy))
        });
        let is_read_first = |key: &[u8]| runtime.peers.is_some() && is_read_first(&route, key, now);
        if let Some(keys) = attempt.attempt.reads_first(is_read_first) {
            attempt.held = Some(held);
            let keyspace = attempt.job.keyspace;
            return attempt.read(&runtime, keyspace, keys);
        }
        held.copy.restart();
        attempt.others.restart();
        let knows = held.copy.keys() + attempt.others.keys();
        if !attempt.attempt.has_learnt(knows) {
            tracing::error!("a script begins again, and has learnt nothing: it knows {knows} keys");
            return attempt.refuse(&runtime, LEARNT_NOTHING);
        }
        let (pace, is_long, began) = (attempt.pace, attempt.pace == Pace::Long, Instant::now());
        let (longest, left) = (runtime.scripts.script_time, attempt.time_left(&runtime, now.boot));
        let (time, next) = match pace {
            Pace::Short => (SHORT_TIME.min(longest), Pace::Medium),
            Pace::Medium => (MEDIUM_TIME.min(longest), Pace::Long),
            Pace::Long => (longest, Pace::Long),
        };
        let (copy, others) = (&mut *held.copy, Some(&mut attempt.others));
        let until = began + time.min(left);
        let (place, thread_time, ran) = (None, None, attempt.spent.ran());
        let ground =
            Ground { route: &route, place, now, copy, others, until, thread_time, is_long, ran };
        let (ran, _) = self.execute(&attempt.job, ground);
        attempt.spent.has_run(began.elapsed());
        if pace != Pace::Short {
            runtime.scripts.add_usage(attempt.job.client, began.elapsed());
        }
        if !(held.count() & attempt.others.count()) {
            let own_bytes = held.copy.bytes() + attempt.others.bytes();
            let is_too_large = attempt.job.program.is_alone() && own_bytes > OPEN_TXN_BYTES_MAX;
            let text = if is_too_large { TOO_MUCH_AT_ONCE } else { HELD_TOO_MUCH };
            return attempt.refuse(&runtime, text);
        }
        attempt.held = Some(held);
        match ran {
            Ran::Ended(reply) => attempt.commit(&runtime, &route, reply),
            Ran::Refused(reply) => attempt.done(&runtime, reply),
            Ran::Stopped(Stopped::Time) if left < time => attempt.refuse_late(&runtime),
            Ran::Stopped(Stopped::Time) if time < longest => attempt.run_at(&runtime, next),
            Ran::Halted(Halt::TakesLong) if is_long => {
                unreachable!("among the long ones it may take long")
            }
            Ran::Halted(Halt::TakesLong) => attempt.run_at(&runtime, Pace::Long),
            Ran::Stopped(why) => {
                let text = self.stopped_text(&attempt.job, why);
                attempt.refuse(&runtime, &text);
            }
            Ran::Halted(Halt::Keys(keyspace, ScriptHalt::Missing(keys))) => {
                let keys = keys.into_iter().map(|key| Vec::from(key).into()).collect();
                attempt.attempt.lacks_keys(knows);
                attempt.read(&runtime, keyspace, keys);
            }
            Ran::Halted(Halt::Keys(_, ScriptHalt::TooMuch)) => {
                let is_alone = attempt.job.program.is_alone();
                attempt.refuse(&runtime, if is_alone { TOO_MUCH_AT_ONCE } else { TOO_MUCH });
            }
            Ran::Halted(Halt::Keys(_, ScriptHalt::OtherShard)) => {
                unreachable!("it may touch any shard")
            }
        }
    }
}

/// Why a script's keys could not be read.
fn read_error(error: &ApiError) -> String {
    match error {
        ApiError::Busy { .. } => NOT_READ.into(),
        ApiError::TooManyTransactions { .. } => HELD_TOO_MUCH.into(),
        ApiError::TransactionTooLarge { .. } => TOO_MUCH.into(),
        error => format!("TRYAGAIN {error}; nothing of the script was done"),
    }
}
