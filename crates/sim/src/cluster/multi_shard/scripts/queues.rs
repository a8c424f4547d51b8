//! Queues: the server's `scripts::queues`.

use std::collections::BTreeMap;
use std::sync::Arc;

use command::{NotDone, Reply, Write};
use keyspace::ShardId;
use node::executor::Input;
use node::replica::entry::{Batch, Waiter};
use node::replica::read::ReadTime;
use node::replica::script_keys::{self, ScriptHalt, ScriptKeys};
use node::routing::route::Route;
use txn::interactive::InteractiveTxn;
use txn::script_batch::{
    BatchCommit, BatchOutcome, QueueDriver, Ran, RanBatch, ScriptBatch, SettledBatch,
};

use super::program::{Effects, with_step};
use super::{BATCHES, BYTES_MAX, QueueBatch, Task};
use crate::check::serial::Outcome;
use crate::cluster::multi_shard::{OpPath, PendingOp, Plant, WIDE, World};
use crate::machine::CLIENTS;
use crate::rng::Rng;

/// Scripts in a batch.
const BATCH_MAX: usize = 6;

/// Runs the scripts of a batch. A script now and then takes long, or is stopped for good.
struct Runner<'a> {
    route: &'a Arc<Route>,
    place: usize,
    now: ReadTime,
    pending: &'a BTreeMap<u64, PendingOp>,
    names: &'a [Vec<u8>],
    rng: &'a mut Rng,
}

impl QueueDriver<u64, Option<Effects>> for Runner<'_> {
    fn begin(&mut self) -> InteractiveTxn {
        InteractiveTxn::new(self.now.time, BYTES_MAX)
    }

    fn run(&mut self, number: &u64, copy: &mut InteractiveTxn) -> (Ran<Option<Effects>>, bool) {
        let Some(OpPath::Scripted(script)) = self.pending.get(number).map(|one| &one.path) else {
            unreachable!("a queue has scripts that are under way");
        };
        let (route, place, now) = (&**self.route, Some(self.place), self.now);
        let mut keys = ScriptKeys { route, place, now, copy, wrote: false };
        let mut calls_left = if self.rng.one_in(10) { self.rng.below(3) } else { u64::MAX };
        let ran = script.program.run(&mut |part| {
            calls_left = calls_left.checked_sub(1).ok_or(None)?;
            let replies = with_step(part, self.names, |step| keys.run(std::slice::from_ref(step)));
            Ok(replies.map_err(Some)?.remove(0))
        });
        let ran = match ran {
            Ok(effects) => Ran::Ended(Some(effects)),
            Err(_) if calls_left == 0 && self.rng.one_in(4) => Ran::Void(None),
            Err(Some(ScriptHalt::Missing(_))) => Ran::Blocked,
            Err(_) => Ran::Leaves,
        };
        (ran, keys.wrote)
    }

    fn is_long(&mut self) -> bool {
        self.rng.one_in(12)
    }
}

impl World {
    /// Runs a batch of a queue.
    pub(super) fn run_queue(&mut self, at: usize, shard: ShardId) {
        let Some(wide) = &mut self.wide else { return };
        let scripts = wide.scripts.with_queue(at, shard, |queue| queue.take(BATCH_MAX));
        let machine = self.node_slots[at].machine.as_ref().expect("it runs");
        let route = machine.routes.get(WIDE).cloned();
        let found = route.and_then(|route| route.place_of(shard).map(|place| (route, place)));
        let Some((route, place)) = found.filter(|_| !scripts.is_empty()) else {
            // The shard has become a part of another.
            return self.settled(at, shard, ScriptBatch::<_, Option<Effects>>::unplaced(scripts));
        };
        let count = scripts.len();
        let mut runner = Runner {
            route: &route,
            place,
            now: machine.moment(),
            pending: &wide.pending,
            names: &wide.names,
            rng: &mut wide.rng,
        };
        let RanBatch { copy, batch, unrun } = ScriptBatch::run(scripts, &mut runner);
        self.trace
            .event(format_args!("{count} scripts of shard {shard}, {} put back", unrun.len()));
        let scripts = &mut wide.scripts;
        scripts.with_queue(at, shard, |queue| queue.put_back(unrun));
        scripts.made += 1;
        let number = BATCHES + scripts.made;
        scripts.batches.insert(number, QueueBatch { at, shard, copy, batch });
        scripts.tasks.push((at, Task::CommitBatch(number)));
        self.counts.script_batches += u64::from(count > 1);
    }

    /// Has what a batch has written done, if what it has read is as it was.
    pub(super) fn commit_batch(&mut self, number: u64) {
        let without_versions = self.has(Plant::ScriptWithoutVersions);
        let Some(QueueBatch { at, shard, copy, .. }) =
            self.wide.as_ref().and_then(|wide| wide.scripts.batches.get(&number))
        else {
            return;
        };
        let (at, shard) = (*at, *shard);
        let machine = self.node_slots[at].machine.as_mut().expect("it runs");
        let outcome = match BatchCommit::of(copy) {
            BatchCommit::Nothing => BatchOutcome::Done,
            BatchCommit::LookAgain(watched) => {
                let now = machine.moment();
                let route = machine.routes.get(WIDE);
                BatchOutcome::looked(
                    route.is_some_and(|route| script_keys::are_unchanged(route, &watched, now)),
                )
            }
            BatchCommit::Propose(mut transaction) => {
                if without_versions {
                    transaction.watched.clear();
                }
                let mut batch = Batch::default();
                batch.push(&Write::Transaction(Box::new(transaction)), Waiter(number));
                machine.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
                return;
            }
        };
        self.batch_committed(number, &outcome);
    }

    /// The entry of a batch was applied, or not.
    pub(in crate::cluster::multi_shard) fn batch_answered(
        &mut self,
        number: u64,
        answer: Result<&Reply, NotDone>,
    ) {
        let outcome = match answer {
            Ok(reply) => BatchOutcome::applied(Some(reply)),
            Err(why) => BatchOutcome::NotDone(why),
        };
        self.batch_committed(number, &outcome);
    }

    fn batch_committed(&mut self, number: u64, outcome: &BatchOutcome) {
        self.trace.event(format_args!("batch {}: {outcome:?}", number - BATCHES));
        let Some(wide) = &mut self.wide else { return };
        let Some(QueueBatch { at, shard, batch, .. }) = wide.scripts.batches.remove(&number) else {
            return;
        };
        self.counts.script_conflicts += u64::from(*outcome == BatchOutcome::Changed);
        let pending = &mut wide.pending;
        let settled = batch.settle(outcome, |number| {
            let script = pending.get_mut(number).map(|one| &mut one.path);
            let Some(OpPath::Scripted(script)) = script else { return 0 };
            script.conflicts += 1;
            script.conflicts
        });
        self.settled(at, shard, settled);
    }

    fn settled(&mut self, at: usize, shard: ShardId, batch: SettledBatch<u64, Option<Effects>>) {
        let SettledBatch { answered, refused, mut leaving, moved, again } = batch;
        // In the server they look for their queue again: here they take the other way.
        leaving.extend(moved);
        for (number, effects) in answered {
            self.script_ended(number, effects.ok_or(Outcome::NotDone));
        }
        for (number, why) in refused {
            self.script_ended(number, Err(World::outcome_of(why)));
        }
        self.counts.scripts_left += leaving.len() as u64;
        let Some(wide) = &mut self.wide else { return };
        let scripts = &mut wide.scripts;
        for (session, number) in leaving {
            scripts.with_queue(at, shard, |queue| queue.leave(session));
            if let Some(OpPath::Scripted(script)) =
                wide.pending.get_mut(&number).map(|one| &mut one.path)
            {
                script.left = Some(shard);
            }
            scripts.tasks.push((at, Task::Run(number)));
        }
        let is_due = scripts.with_queue(at, shard, |queue| queue.finish(again));
        scripts.schedule(at, shard, is_due);
    }
}
