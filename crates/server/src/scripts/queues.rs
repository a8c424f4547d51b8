//! Runs the scripts of one shard, which is led here, batch by batch ([`txn::script_queue`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use command::Write;
use keyspace::ShardId;
use lua::Stopped;
use node::executor::{Answer, Input};
use node::replica::entry::{Batch, Waiter};
use node::replica::read::ReadTime;
use node::replica::script_keys::{self, ScriptHalt};
use node::routing::route::Route;
use txn::interactive::InteractiveTxn;
use txn::script_batch::{
    BatchCommit, BatchOutcome, QueueDriver, Ran as QueueRan, RanBatch, ScriptBatch, SettledBatch,
};

use super::host::Halt;
use super::job::{Job, JobReply, ReplyTo};
use super::run::{Ground, Ran};
use super::runs_at::find_queue_later;
use super::threads::Runner;
use super::{BATCH_MAX, BATCH_TIME, BYTES_MAX, Outcome, QUEUE_TIME, Scripts};
use crate::event_loop::not_done_text;
use crate::runtime::mailbox::Mail;
use crate::runtime::{API, NodeRuntime};

/// What an entry has of a key besides its bytes, at most.
const KEY_BYTES: u64 = 64;

/// Scripts that ran on one copy.
type JobBatch = ScriptBatch<Job, JobReply>;

/// Runs the scripts of a batch.
struct BatchRunner<'a> {
    runner: &'a mut Runner,
    route: &'a Arc<Route>,
    place: usize,
    now: ReadTime,
    began: Instant,
    /// How much of the processor a script's thread may have had when it leaves the queue: a busy
    /// machine would have all run twice.
    thread_time: Duration,
}

impl QueueDriver<Job, JobReply> for BatchRunner<'_> {
    fn begin(&mut self) -> InteractiveTxn {
        let clock = &self.runner.runtime.clock;
        clock.observe();
        self.now = clock.moment();
        // Those before it in the batch have had some of it: to ask each time costs too much.
        self.thread_time = lua::thread_time() + BATCH_TIME + QUEUE_TIME;
        InteractiveTxn::new(self.now.time, BYTES_MAX)
    }

    fn run(&mut self, job: &Job, copy: &mut InteractiveTxn) -> (QueueRan<JobReply>, bool) {
        let (route, place, now) = (self.route, Some(self.place), self.now);
        let until = Instant::now() + QUEUE_TIME;
        let thread_time = Some(self.thread_time);
        let (others, is_long, ran) = (None, false, Duration::ZERO);
        let ground = Ground { route, place, now, copy, others, until, thread_time, is_long, ran };
        let (ran, wrote) = self.runner.execute(job, ground);
        let ran = match ran {
            Ran::Ended(_) if wrote && is_too_long(&self.runner.runtime, copy) => QueueRan::Full,
            Ran::Ended(mut reply) => {
                reply.written.extend(wrote.then(|| route.shard(self.place)));
                QueueRan::Ended(reply)
            }
            Ran::Refused(reply) => QueueRan::Void(reply),
            Ran::Halted(Halt::Keys(_, ScriptHalt::TooMuch)) => QueueRan::Full,
            Ran::Halted(Halt::Keys(_, ScriptHalt::Missing(_))) => QueueRan::Blocked,
            Ran::Halted(_) | Ran::Stopped(Stopped::Time) => QueueRan::Leaves,
            Ran::Stopped(why) => QueueRan::Void(job.error(&self.runner.stopped_text(job, why))),
        };
        (ran, wrote)
    }

    fn is_long(&mut self) -> bool {
        self.began.elapsed() >= BATCH_TIME
    }
}

/// Whether an entry of what was written is longer than the log takes.
fn is_too_long(runtime: &NodeRuntime, copy: &InteractiveTxn) -> bool {
    // An entry names what was read beside what is written: no key more than twice.
    let bytes_max = 2 * copy.bytes() + copy.keys() as u64 * KEY_BYTES;
    let bytes = || Write::Transaction(Box::new(copy.transaction())).bytes_about();
    runtime.is_too_long(bytes_max as usize) && runtime.is_too_long(bytes())
}

impl Runner {
    /// Runs a batch of a queue.
    pub(super) fn run_queue(&mut self, shard: ShardId) {
        let runtime = self.runtime.clone();
        let jobs = runtime.scripts.with_queue(shard, |queue| queue.take(BATCH_MAX));
        let keyspace = jobs.first().map(|(_, job)| job.keyspace);
        let found = keyspace.and_then(|id| runtime.routing.routes().by_id(id).cloned());
        let place = found.as_ref().and_then(|route| route.place_of(shard));
        let (Some(route), Some(place)) = (found, place) else {
            // The keyspace was dropped, or the shard has become a part of another.
            return settle(&runtime, shard, JobBatch::unplaced(jobs));
        };
        let (now, began) = (runtime.clock.moment(), Instant::now());
        let thread_time = Duration::ZERO;
        let mut runner =
            BatchRunner { runner: self, route: &route, place, now, began, thread_time };
        let RanBatch { copy, batch, unrun } = ScriptBatch::run(jobs, &mut runner);
        runtime.scripts.with_queue(shard, |queue| queue.put_back(unrun));
        commit_batch(&runtime, shard, &route, &copy, batch);
    }
}

/// Has what a batch has written done, if what it has read is as it was.
fn commit_batch(
    runtime: &Arc<NodeRuntime>,
    shard: ShardId,
    route: &Route,
    copy: &InteractiveTxn,
    ran: JobBatch,
) {
    let transaction = match BatchCommit::of(copy) {
        BatchCommit::Nothing => return committed(runtime, shard, ran, &BatchOutcome::Done),
        BatchCommit::LookAgain(watched) => {
            let is_same = script_keys::are_unchanged(route, &watched, runtime.clock.moment());
            return committed(runtime, shard, ran, &BatchOutcome::looked(is_same));
        }
        BatchCommit::Propose(transaction) => transaction,
    };
    let waiter = runtime.delivery.waiters.wait(Box::new({
        let runtime = runtime.clone();
        move |answered| {
            let outcome = match answered {
                Answer::Applied { replies, .. } => BatchOutcome::applied(replies.first()),
                Answer::NotDone { why, .. } => BatchOutcome::NotDone(why),
                other => unreachable!("a batch is applied or not: {other:?}"),
            };
            committed(&runtime, shard, ran, &outcome);
        }
    }));
    let mut batch = Batch::default();
    batch.push(&Write::Transaction(Box::new(transaction)), waiter);
    runtime.submit(shard, Input::Propose { shard, origin: API, batch });
}

/// The log has taken a batch, or not.
fn committed(runtime: &Arc<NodeRuntime>, shard: ShardId, ran: JobBatch, outcome: &BatchOutcome) {
    let settled = ran.settle(outcome, |job| {
        runtime.scripts.counts.conflicts.add(1);
        job.conflicts += 1;
        job.conflicts
    });
    settle(runtime, shard, settled);
}

/// The queue's batch is done: each of its scripts goes its way.
fn settle(runtime: &Arc<NodeRuntime>, shard: ShardId, batch: SettledBatch<Job, JobReply>) {
    let SettledBatch { answered, refused, leaving, moved, again } = batch;
    answer(runtime, answered);
    for (job, why) in refused {
        job.refuse(runtime, not_done_text(why));
    }
    let scripts: &Scripts = &runtime.scripts;
    for (client, mut job) in leaving {
        leave(runtime, shard, client, &mut job);
        scripts.push(job);
    }
    for (client, mut job) in moved {
        leave(runtime, shard, client, &mut job);
        find_queue_later(runtime, job);
    }
    let is_due = scripts.with_queue(shard, |queue| queue.finish(again));
    scripts.schedule_queue(shard, is_due);
}

/// A script leaves a queue; if it has left one before, that one sees its end now.
fn leave(runtime: &NodeRuntime, shard: ShardId, client: u64, job: &mut Job) {
    runtime.scripts.with_queue(shard, |queue| queue.leave(client));
    if let Some(before) = job.left.replace(shard) {
        runtime.scripts.has_ended(before, client);
    }
}

/// Answers scripts: their loops wake once each.
fn answer(runtime: &NodeRuntime, answered: Vec<(Job, JobReply)>) {
    if answered.is_empty() {
        return;
    }
    let mut by_loop: Vec<Vec<(Waiter, JobReply)>> = Vec::new();
    by_loop.resize_with(runtime.delivery.mailboxes.len(), Vec::new);
    for (job, mut reply) in answered {
        reply.send_messages(runtime);
        match job.reply_to {
            ReplyTo::Connection { event_loop, waiter } if job.left.is_none() => {
                runtime.scripts.counts.ended(&job, Outcome::Queue);
                by_loop[event_loop].push((waiter, reply));
            }
            _ => job.answer(runtime, reply, Outcome::Queue),
        }
    }
    for (replies, mailbox) in by_loop.into_iter().zip(&runtime.delivery.mailboxes) {
        if !replies.is_empty() {
            // A loop that has ended has no clients left, or has given them up.
            let _is_read = mailbox.post(Mail::Scripted(replies));
        }
    }
}
