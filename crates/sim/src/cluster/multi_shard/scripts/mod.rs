//! Scripts among the transactions: what the server does with threads and Lua, in steps and with
//! closures. What follows from each outcome is the node's own code: [`txn::script_queue`],
//! [`txn::script_batch`], [`txn::script_attempt`], [`node::replica::script_keys`].
//!
//! ```text
//!   client ─► keys of one shard, at its leader ─► queue ─► batch runs ─ later ─► one entry
//!        └──► any others ─► attempt: reads, runs again ─ later ─► entry, or the coordinator
//! ```
//!
//! Each arrow is a step of its own, so that anything may happen between two of them. Scripts stop
//! now and then as if they had run for long, also after they wrote. Their histories are judged with
//! those of the transactions. Besides, what a client sent one behind the other to a queue takes
//! effect in that order.
//!
//! Half of the runs with transactions over shards have scripts, but none with another planted bug.

mod attempts;
mod program;
mod queues;

use std::collections::BTreeMap;

use command::Reply;
use keyspace::ShardId;
use keyspace::random::{Random, mix};
use txn::interactive::InteractiveTxn;
use txn::script_attempt::ScriptAttempt;
use txn::script_batch::ScriptBatch;
use txn::script_queue::ScriptQueue;

use super::{MultiShardClients, OpPath, Options, PendingOp, Plant, WIDE, World};
use crate::check::serial::{Op, Outcome};
use crate::cluster::multi_shard::workloads::Workload;
use attempts::ScriptRead;
use program::{Effects, Program};

/// Set in the waiter of a script's commit: an answer to what it had read before may come late.
pub(super) const COMMIT: u64 = 1 << 43;
/// Waiters of batches begin here, above those of all that clients ask.
pub(super) const BATCHES: u64 = 1 << 44;
/// Bytes that a script may read and write.
const BYTES_MAX: u64 = 1 << 20;

/// What nodes have of scripts. It ends with their processes.
#[derive(Default)]
pub(super) struct Scripts {
    /// Whether clients send any.
    pub are_sent: bool,
    queues: BTreeMap<(usize, ShardId), ScriptQueue<u64>>,
    /// What a script thread of each node may do.
    tasks: Vec<(usize, Task)>,
    /// Batches that have run.
    batches: BTreeMap<u64, QueueBatch>,
    made: u64,
    pipelines: Vec<Pipeline>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    RunQueue(ShardId),
    CommitBatch(u64),
    Run(u64),
    Read(u64),
    Commit(u64),
}

struct QueueBatch {
    at: usize,
    shard: ShardId,
    copy: InteractiveTxn,
    batch: ScriptBatch<u64, Option<Effects>>,
}

/// Scripts that a client has sent to a queue, one behind the other: each appends to one list.
struct Pipeline {
    key: usize,
    /// What each appends, and its number.
    appends: Vec<(u64, u64)>,
    outcomes: BTreeMap<u64, Outcome>,
}

/// A script that is under way.
pub(super) struct Script {
    program: Program,
    /// As which client's it stands in a queue.
    session: u64,
    conflicts: u32,
    /// The queue that it has left.
    left: Option<ShardId>,
    attempt: ScriptAttempt,
    copy: Option<InteractiveTxn>,
    reading: Option<ScriptRead>,
    /// The node's coordinator has its commit.
    pub(super) is_coordinated: bool,
    replies: Vec<Reply>,
}

impl Scripts {
    /// Of a run.
    pub fn new(options: &Options) -> Self {
        let drawn = Random::new(mix(mix(options.seed) ^ 0x7363_7269)).below(2) == 0;
        let are_sent = match options.plant {
            Some(plant) => plant == Plant::ScriptWithoutVersions,
            None => drawn,
        };
        Self { are_sent, ..Self::default() }
    }

    /// Whether a node has anything to do for them.
    fn is_due(&self, at: usize) -> bool {
        self.tasks.iter().any(|(there, _)| *there == at)
    }

    fn with_queue<R>(
        &mut self,
        at: usize,
        shard: ShardId,
        act: impl FnOnce(&mut ScriptQueue<u64>) -> R,
    ) -> R {
        let queue = self.queues.entry((at, shard)).or_default();
        let result = act(queue);
        if queue.is_empty() {
            self.queues.remove(&(at, shard));
        }
        result
    }

    fn schedule(&mut self, at: usize, shard: ShardId, is_due: bool) {
        if is_due {
            self.tasks.push((at, Task::RunQueue(shard)));
        }
    }

    /// The process of a node has ended.
    pub(super) fn lose(&mut self, at: usize) {
        self.queues.retain(|(there, _), _| *there != at);
        self.tasks.retain(|(there, _)| *there != at);
        self.batches.retain(|_, batch| batch.at != at);
    }

    /// A script's outcome is known.
    pub(super) fn note(&mut self, number: u64, outcome: Outcome) {
        let is_its = |(other, _): &(u64, u64)| *other == number;
        let pipeline = self.pipelines.iter_mut().rev().find(|one| one.appends.iter().any(is_its));
        pipeline.into_iter().for_each(|one| _ = one.outcomes.insert(number, outcome));
    }
}

impl MultiShardClients {
    /// Of scripts that a client sent one behind the other, one that took effect before an earlier
    /// one.
    pub(super) fn judge_pipelines(&self) -> Option<String> {
        self.scripts.pipelines.iter().find_map(|pipeline| {
            let name = &self.names[pipeline.key];
            let lists = self.history.iter().flat_map(|done| &done.ops).filter_map(|op| match op {
                Op::Read { key, list: Some(list) } if key == name => Some(list),
                _ => None,
            });
            let list = lists.max_by_key(|list| list.len())?;
            let done = pipeline.appends.iter().filter(|(number, _)| {
                matches!(pipeline.outcomes.get(number), Some(Outcome::Committed { .. }))
            });
            let place = |element: &u64| list.iter().position(|other| other == element);
            let places: Vec<_> = done.filter_map(|(_, element)| place(element)).collect();
            let appends: Vec<u64> = pipeline.appends.iter().map(|(_, element)| *element).collect();
            (!places.is_sorted()).then(|| {
                format!("a client's scripts appended {appends:?} in another order: {list:?}")
            })
        })
    }
}

impl World {
    /// Whether a node has anything to do for scripts.
    pub(in crate::cluster) fn has_script_task(&self, at: usize) -> bool {
        self.wide.as_ref().is_some_and(|wide| wide.scripts.is_due(at))
    }

    /// A script thread of a node does something.
    pub(in crate::cluster) fn step_scripts(&mut self, at: usize) {
        self.set_clocks(at);
        let Some(wide) = &mut self.wide else { return };
        let tasks = &mut wide.scripts.tasks;
        let here = (0..tasks.len()).filter(|place| tasks[*place].0 == at).collect::<Vec<_>>();
        let (_, task) = tasks.remove(*wide.rng.pick(&here));
        match task {
            Task::RunQueue(shard) => self.run_queue(at, shard),
            Task::CommitBatch(batch) => self.commit_batch(batch),
            Task::Run(number) => self.run_script(at, number),
            Task::Read(number) => self.read_for_script(at, number),
            Task::Commit(number) => self.commit_script(at, number),
        }
    }

    /// A client sends a script, or several of one shard.
    pub(super) fn send_scripts(&mut self, client: usize, at: usize) {
        let Some(wide) = &mut self.wide else { return };
        let workload = match wide.pick_workload() {
            // Scripts have one keyspace here.
            Workload::Spanning | Workload::Flush => Workload::ListAppend,
            other => other,
        };
        let machine = self.node_slots[at].machine.as_ref().expect("it was asked");
        let route = machine.routes[WIDE].clone();
        if workload != Workload::ListAppend || wide.rng.one_in(3) {
            let now_ms = machine.clock.now().millis();
            let program = wide.some_program(workload, now_ms);
            self.begin_script(client, at, workload, program);
            return;
        }
        let key = wide.some_key();
        let place = route.place_of_key(&wide.names[key]);
        let count = wide.rng.between(1, 4);
        let mut appends = Vec::new();
        let programs: Vec<Program> = (0..count)
            .map(|_| {
                let (program, element) =
                    wide.some_program_of(key, |name| route.place_of_key(name) == place);
                appends.push(element);
                program
            })
            .collect();
        let leader = route.views[place].read().serving.leader();
        let leads = |at: &usize| Some(self.node_slots[*at].node) == leader && self.is_awake(*at);
        let leader = (0..self.node_slots.len()).find(leads).filter(|leader| {
            let machine = self.node_slots[*leader].machine.as_ref();
            machine.is_some_and(|machine| machine.routes.contains_key(WIDE))
        });
        let wide = self.wide.as_mut().expect("they ask");
        let at = leader.filter(|_| !wide.rng.one_in(8)).unwrap_or(at);
        self.set_clocks(at);
        let machine = self.node_slots[at].machine.as_ref().expect("it runs");
        let (route, name) = (&machine.routes[WIDE], self.names_of_wide(key));
        let place = route.place_of_key(name);
        let leader = route.views[place].read().serving.leader();
        let queue = (leader == Some(machine.node())).then(|| route.shard(place));
        self.send_pipeline(client, at, queue, programs, (key, appends));
    }

    fn names_of_wide(&self, key: usize) -> &[u8] {
        &self.wide.as_ref().expect("they ask").names[key]
    }

    fn send_pipeline(
        &mut self,
        client: usize,
        at: usize,
        queue: Option<ShardId>,
        mut programs: Vec<Program>,
        (key, appends): (usize, Vec<u64>),
    ) {
        if queue.is_none() {
            // What runs over shards waits for what its client sent before.
            programs.truncate(1);
        }
        let (last, mut session, mut numbers) = (programs.len() - 1, None, Vec::new());
        for (place, program) in programs.into_iter().enumerate() {
            let client = (place == last).then_some(client);
            let number = self.put_script(client, at, Workload::ListAppend, program, session);
            session.get_or_insert(number);
            numbers.push(number);
        }
        let session = session.expect("there is one");
        self.counts.script_pipelines += u64::from(numbers.len() > 1);
        let scripts = &mut self.wide.as_mut().expect("they ask").scripts;
        match queue {
            None => scripts.tasks.push((at, Task::Run(numbers[0]))),
            Some(shard) => {
                let outcomes = BTreeMap::new();
                let appends = numbers.iter().copied().zip(appends).collect();
                scripts.pipelines.push(Pipeline { key, appends, outcomes });
                for number in numbers {
                    let is_due = scripts.with_queue(at, shard, |queue| queue.push(session, number));
                    scripts.schedule(at, shard, is_due);
                }
            }
        }
    }

    /// A script that runs over any shards.
    fn begin_script(&mut self, client: usize, at: usize, workload: Workload, program: Program) {
        let number = self.put_script(Some(client), at, workload, program, None);
        let scripts = &mut self.wide.as_mut().expect("they ask").scripts;
        scripts.tasks.push((at, Task::Run(number)));
    }

    fn put_script(
        &mut self,
        client: Option<usize>,
        at: usize,
        workload: Workload,
        program: Program,
        session: Option<u64>,
    ) -> u64 {
        let wide = self.wide.as_mut().expect("they ask");
        let machine = self.node_slots[at].machine.as_ref().expect("it was asked");
        let keys = program.declared().into_iter().map(|key| wide.names[key].clone().into());
        let attempt = ScriptAttempt::first(keys.collect(), machine.boot);
        let session = session.unwrap_or(wide.made + 1);
        self.trace.event(format_args!("a script of session {session}: {program:?}"));
        let parts = program.parts();
        let script = Script {
            program,
            session,
            conflicts: 0,
            left: None,
            attempt,
            copy: None,
            reading: None,
            is_coordinated: false,
            replies: Vec::new(),
        };
        let path = OpPath::Scripted(Box::new(script));
        self.put_asked(client, at, workload, parts, Vec::new(), path)
    }

    fn script_mut(&mut self, number: u64) -> Option<(&mut PendingOp, &mut Scripts)> {
        let wide = self.wide.as_mut()?;
        let pending = wide.pending.get_mut(&number)?;
        matches!(pending.path, OpPath::Scripted(_)).then_some((pending, &mut wide.scripts))
    }

    /// A script has ended: it is done, with these replies, or not.
    fn script_ended(&mut self, number: u64, outcome: Result<Effects, Outcome>) {
        let Some((pending, scripts)) = self.script_mut(number) else { return };
        let at = pending.at;
        let OpPath::Scripted(script) = &mut pending.path else { return };
        if let Some(shard) = script.left {
            let session = script.session;
            let is_due = scripts.with_queue(at, shard, |queue| queue.ended(session));
            scripts.schedule(at, shard, is_due);
        }
        match outcome {
            Ok(Effects { parts, replies }) => {
                pending.parts = parts;
                self.counts.scripts += 1;
                self.finish_multi_shard(number, &replies);
            }
            Err(outcome) => self.not_done_wide(number, outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::serial::ObservedTxn;

    #[test]
    fn a_clients_scripts_in_another_order_are_found() {
        let mut clients = MultiShardClients::new(&Options::of(1));
        let committed = Outcome::Committed { answered_at: 2 };
        let appends = vec![(1, 11), (2, 12), (3, 13)];
        let mut see = |second: Outcome, list: &[u64]| {
            let outcomes = BTreeMap::from([(1, committed), (2, second), (3, committed)]);
            let pipeline = Pipeline { key: 5, appends: appends.clone(), outcomes };
            clients.scripts.pipelines = vec![pipeline];
            let read = Op::Read { key: clients.names[5].clone(), list: Some(list.to_vec()) };
            let (client, invoked_at, outcome) = (0, 3, committed);
            clients.history = vec![ObservedTxn { client, invoked_at, outcome, ops: vec![read] }];
            clients.judge_pipelines()
        };
        assert_eq!(see(committed, &[7, 11, 8, 12, 13]), None);
        assert!(see(committed, &[12, 11, 13]).is_some());
        assert!(see(committed, &[13, 11, 12]).is_some());
        assert_eq!(see(Outcome::Unknown, &[11, 13, 12]), None, "it may be done at any time");
        assert_eq!(see(Outcome::NotDone, &[11, 13]), None);
    }
}
