//! Executors that any thread may step.
//!
//! An executor is single-threaded, but not tied to a thread: a thread that has work for it puts the
//! work into its inbox and, if no other thread is stepping it, steps it there and then. If another
//! is, that one finds the work before it leaves (flat combining, Hendler et al., SPAA 2010). So a
//! request costs no hand-over between threads unless two of them want the same executor at the same
//! moment.
//!
//! A step's effects concern the log, control, other nodes and waiting clients, so stepping takes
//! the whole runtime.

use std::time::Instant;

use keyspace::ShardId;
use node::control::CONTROL;
use node::executor::admission::{self, Admission, log_bytes, unneeded};
use node::executor::{Answer, Effects, EndedReplica, Input, Origin, ShardExecutor};
use node::replica::ReplicaStart;
use node::rpc::frame_batch::FrameBatch;
use parking_lot::{Mutex, MutexGuard};

use super::log::Append;
use super::mailbox::Mail;
use super::{API, ControlInput, NO_ORIGIN, NodeRuntime, boot_nanos, peers};
use crate::process::disk_failed;

/// Bytes of commands that one turn takes from the inbox, but for its first. All records of a turn
/// are one group of the log, and a group has its limit.
const STEP_ROUND_BYTES_MAX: u64 = 256 << 20;

/// All executors of a node.
pub struct Executors(Vec<ExecutorCell>);

impl Executors {
    /// These, in the order of their numbers.
    pub fn new(cells: Vec<ExecutorCell>) -> Self {
        Self(cells)
    }

    /// All, in the order of their numbers.
    pub fn cells(&self) -> &[ExecutorCell] {
        &self.0
    }

    /// The number of a shard's executor: shard `s` is in executor `s mod count`.
    pub fn number_of(&self, shard: ShardId) -> usize {
        (shard.0 % self.0.len() as u64) as usize
    }

    /// The executor of a shard.
    pub fn of(&self, shard: ShardId) -> &ExecutorCell {
        &self.0[self.number_of(shard)]
    }
}

/// One executor and its inbox.
pub struct ExecutorCell {
    number: usize,
    inbox: Mutex<Vec<Input>>,
    core: Mutex<Core>,
}

struct Core {
    executor: ShardExecutor,
    effects: Effects,
    batch: FrameBatch,
    taken: Vec<Input>,
    /// Reserved in the log for what the executor has been given and has no records of yet.
    credit_bytes: u64,
}

impl ExecutorCell {
    /// A cell around an executor.
    pub fn new(number: usize, executor: ShardExecutor) -> Self {
        let (effects, batch, taken) = Default::default();
        let core = Core { executor, effects, batch, taken, credit_bytes: 0 };
        Self { number, inbox: Mutex::new(Vec::new()), core: Mutex::new(core) }
    }

    /// Queues inputs, and steps the executor unless another thread does. Immediate answers for
    /// `origin` go to `answers`; all others to their mailboxes.
    pub fn submit(
        &self,
        runtime: &NodeRuntime,
        inputs: impl IntoIterator<Item = Input>,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) {
        self.inbox.lock().extend(inputs);
        self.run(runtime, origin, answers);
    }

    /// Steps the executor until its inbox is empty, or another thread is found to do so.
    pub fn run(&self, runtime: &NodeRuntime, origin: Origin, answers: &mut Vec<Answer>) {
        loop {
            let Some(core) = self.core.try_lock() else { return };
            self.drain(core, runtime, origin, answers);
            runtime.control.run(runtime);
            if self.inbox.lock().is_empty() {
                return;
            }
        }
    }

    /// Gives the executor a shard that was recovered. [`Self::run`] it when it has all of them.
    pub fn adopt(&self, start: ReplicaStart) {
        self.core.lock().executor.adopt(start);
    }

    /// Calls `look` with the executor, between two step rounds, and steps it afterwards. So inputs
    /// that came meanwhile do not wait, and what `look` left there goes into the log.
    pub fn with<R>(&self, runtime: &NodeRuntime, look: impl FnOnce(&mut ShardExecutor) -> R) -> R {
        let mut core = self.core.lock();
        let result = look(&mut core.executor);
        self.drain(core, runtime, NO_ORIGIN, &mut Vec::new());
        runtime.control.run(runtime);
        if !self.inbox.lock().is_empty() {
            self.run(runtime, NO_ORIGIN, &mut Vec::new());
        }
        result
    }

    /// Before any shard: takes a recovered ended replica.
    pub fn adopt_ended(&self, shard: ShardId, ended: EndedReplica) {
        self.core.lock().executor.adopt_ended(shard, ended);
    }

    /// Before any shard: takes a recovered merge, of `right` into `left`.
    pub fn adopt_merged(&self, right: ShardId, left: ShardId) {
        self.core.lock().executor.adopt_merged(right, left);
    }

    fn drain(
        &self,
        mut core: MutexGuard<'_, Core>,
        runtime: &NodeRuntime,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) {
        loop {
            self.take(&mut core.taken);
            let reserved = self.admit(runtime, &mut core.taken, origin, answers);
            core.executor.set_full(reserved.is_none());
            core.credit_bytes += reserved.unwrap_or(0);
            self.turn(&mut core, runtime, origin, answers);
            // Even under load, inputs of control do not wait: the caller steps control first, and
            // then comes back.
            if self.inbox.lock().is_empty() || runtime.control.has_inputs() {
                return;
            }
        }
    }

    /// Takes the inputs of one step round from the front of the inbox.
    fn take(&self, taken: &mut Vec<Input>) {
        let mut inbox = self.inbox.lock();
        std::mem::swap(taken, &mut *inbox);
        let mut bytes = 0;
        let end = taken.iter().position(|input| {
            bytes += log_bytes(input);
            bytes > STEP_ROUND_BYTES_MAX
        });
        if let Some(end) = end {
            // Nobody but the one who steps the executor takes from the inbox: the order stays.
            inbox.extend(taken.drain(end.max(1)..));
        }
    }

    /// Reserves room in the log for proposals, and returns how much. Without room it refuses
    /// proposals; reads pass, for most of them need none.
    fn admit(
        &self,
        runtime: &NodeRuntime,
        inputs: &mut Vec<Input>,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) -> Option<u64> {
        let bytes: u64 = inputs.iter().map(log_bytes).sum();
        if bytes == 0 && !runtime.log.facts().full {
            return Some(0);
        }
        match runtime.log.reserve(bytes) {
            Ok(()) => return Some(bytes),
            Err(storage::Error::Full { .. }) => {}
            Err(error) => disk_failed("the log", &error),
        }
        for input in std::mem::take(inputs) {
            match admission::without_room(input) {
                Admission::Admitted(input) => inputs.push(input),
                Admission::Refused(answer) => {
                    runtime.delivery.deliver(&runtime.control, answer, origin, answers);
                }
                Admission::NoRoom(node, rpc) => {
                    if let Some(peers) = &runtime.peers {
                        peers.send_rpc(node, &rpc);
                    }
                }
                Admission::Dropped => {}
            }
        }
        None
    }

    fn turn(
        &self,
        core: &mut Core,
        runtime: &NodeRuntime,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) {
        let Core { executor, effects, batch, taken, credit_bytes } = core;
        executor.observe(boot_nanos());
        let mut takes_in = None;
        for input in taken.drain(..) {
            if let Input::Absorb { left, state: Some(_) } = &input {
                takes_in = Some((*left, Instant::now()));
            }
            executor.accept(input);
        }
        loop {
            executor.turn(effects);
            if let Some((left, since)) = takes_in.take() {
                let ms = since.elapsed().as_secs_f64() * 1e3;
                tracing::debug!("shard {left} has absorbed its right neighbour, after {ms:.1} ms");
            }
            if effects.is_empty() {
                break;
            }
            if !effects.records.is_empty() {
                let credit_bytes = unneeded(executor, credit_bytes);
                let append = Append {
                    executor: self.number,
                    ticket: effects.ticket,
                    sync: effects.sync,
                    interval: runtime.routing.has_interval_keyspaces(),
                    credit_bytes,
                };
                match runtime.log.append(&mut effects.records, &append) {
                    Ok(lsn) => executor.accept(Input::Written { ticket: append.ticket, lsn }),
                    Err(error) => disk_failed("the log", &error),
                }
            }
            self.publish(effects, runtime, origin, answers);
            peers::send_effects(runtime, effects, batch);
            effects.clear();
        }
        if *credit_bytes > 0 {
            let unneeded = unneeded(executor, credit_bytes);
            if unneeded > 0 {
                runtime.log.release(unneeded);
            }
        }
    }

    fn publish(
        &self,
        effects: &mut Effects,
        runtime: &NodeRuntime,
        origin: Origin,
        answers: &mut Vec<Answer>,
    ) {
        if runtime.tracking.is_active() {
            runtime.tracking.take(runtime, effects);
        }
        effects.events.drain(..).for_each(|what| runtime.happened(what));
        let news = effects.changes.drain(..).map(ControlInput::Catalogue);
        let news =
            news.chain(effects.safe_points.drain(..).map(|(k, t)| ControlInput::SafePoint(k, t)));
        runtime.control.post(news);
        let halves = effects.halves.drain(..).map(|half| ControlInput::RightHalf(Box::new(half)));
        runtime.control.post(halves.chain(effects.moved.drain(..).map(ControlInput::Rerouted)));
        post_merges(effects, runtime);
        for abandoned in effects.abandoned.drain(..) {
            // Found again as long as it is there.
            let _is_read = runtime.delivery.mailboxes[0].post(Mail::Abandoned(abandoned));
        }
        for answer in effects.answers.drain(..) {
            // The client that changed the catalogue gets its answer when the change can be used. A
            // callback may ask executors at once, so it must not run while this one is locked.
            let is_call = answer.origin() == API || answer.origin() == CONTROL;
            if is_call || matches!(answer, Answer::Catalogue { .. }) {
                runtime.control.post([ControlInput::Answer(answer)]);
            } else {
                runtime.delivery.deliver(&runtime.control, answer, origin, answers);
            }
        }
    }
}

/// What executors want of each other, and of other nodes, when two shards become one.
fn post_merges(effects: &mut Effects, runtime: &NodeRuntime) {
    runtime
        .control
        .post(effects.words.drain(..).map(|(shard, word)| ControlInput::MergeMessage(shard, word)));
    runtime.control.post(effects.handover_requests.drain(..).map(ControlInput::HandoverRequest));
    runtime.control.post(effects.given.drain(..).map(ControlInput::MergeHandover));
    let left = effects
        .pending_requests
        .drain(..)
        .map(|left| ControlInput::PendingRequests(Box::new(left)));
    runtime.control.post(left);
}

/// Tells an executor that its groups up to a ticket are fsynced. Its event loop steps it then. This
/// thread does if no loop reads the mailbox, as during start and stop, and in a cluster, where
/// other nodes wait for the result and the loop is not involved.
pub fn durable(runtime: &NodeRuntime, executor: usize, ticket: u64) {
    let mail = Mail::Durable { executor, ticket };
    if runtime.peers.is_some() || !runtime.delivery.mailboxes[executor].post(mail) {
        let durable = Input::Durable { ticket };
        runtime.executors.cells()[executor].submit(runtime, [durable], NO_ORIGIN, &mut Vec::new());
    }
}
