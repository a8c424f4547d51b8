//! The driver of control ([`node::control`]): it queues inputs, steps control, and carries out
//! effects.
//!
//! ```text
//!   executors, links, ticker, HTTP ──post──► queue ──run──► Control::step
//!                                                   one at a time │ effects, in order
//!     executors, readers' copies of routes, links, log lines ◄────┘
//! ```
//!
//! A thread that has queued an input runs the queue, unless another thread does so already and will
//! find it. Control is stepped under its lock, and may ask executors then. So a thread that holds
//! an executor only queues, and never waits. Effects are carried out without the lock, before the
//! next step.

use keyspace::ShardId;
use node::control::{Control, Effect, Executors, Queue};
use node::executor::{Input, ShardExecutor};
use node::reshape::reroute::ReroutedBatch;
use node::routing::route::View;
use overlay::Outbox;
use parking_lot::Mutex;

use super::clock::boot_nanos;
use super::requests::Requests;
use super::{ControlInput, NO_ORIGIN, NodeRuntime, cluster_version};

/// See the front page of this module.
pub struct ControlPlane {
    /// Stepped by the thread that holds `stepping`.
    core: Mutex<Control>,
    queue: Mutex<Queue>,
    stepping: Mutex<()>,
    /// Requests to control that wait for a reply.
    pub(super) requests: Requests,
}

impl ControlPlane {
    /// Around a new control plane.
    pub fn new(control: Control) -> Self {
        let (queue, stepping, requests) = Default::default();
        Self { core: Mutex::new(control), queue, stepping, requests }
    }

    /// A recovered replica was given to its executor.
    pub(super) fn adopt(&self, view: View) {
        self.core.lock().adopt(view);
    }

    /// Messages of other nodes' lookups that were dropped, because too many waited.
    pub fn lookups_dropped(&self) -> u64 {
        self.queue.lock().dropped()
    }

    /// How many large shards stay whole because most of their keys are in one slot.
    pub fn shards_of_one_slot(&self) -> u64 {
        self.core.lock().shards_of_one_slot()
    }

    /// Queues inputs, in order.
    pub fn post(&self, inputs: impl IntoIterator<Item = ControlInput>) {
        let mut inputs = inputs.into_iter().peekable();
        if inputs.peek().is_some() {
            self.queue.lock().extend(inputs);
        }
    }

    /// Whether there are inputs that no step has taken.
    pub fn has_inputs(&self) -> bool {
        !self.queue.lock().is_empty()
    }

    /// Steps control until the queue is empty, unless another thread does so and will find it.
    pub fn run(&self, runtime: &NodeRuntime) {
        loop {
            if self.queue.lock().is_empty() {
                return;
            }
            let Some(_stepping) = self.stepping.try_lock() else { return };
            self.drain(runtime);
        }
    }

    /// Queues an input, and runs the queue.
    pub(super) fn submit(&self, runtime: &NodeRuntime, input: ControlInput) {
        self.post([input]);
        self.run(runtime);
    }

    /// Steps control with an input on this thread, after the queued ones. This is for timed inputs
    /// that may take a while: else a thread that serves clients, links or the log would run them.
    /// The caller holds no lock.
    pub(super) fn step_here(&self, runtime: &NodeRuntime, input: ControlInput) {
        let stepping = self.stepping.lock();
        self.drain(runtime);
        self.step(runtime, input);
        drop(stepping);
        self.run(runtime);
    }

    fn drain(&self, runtime: &NodeRuntime) {
        loop {
            let Some(input) = self.queue.lock().pop() else { break };
            self.step(runtime, input);
        }
    }

    fn step(&self, runtime: &NodeRuntime, input: ControlInput) {
        let effects = {
            let mut core = self.core.lock();
            core.observe(boot_nanos());
            core.step(input, &mut AskedExecutors(runtime))
        };
        carry_out(runtime, effects);
    }
}

/// The executors, as control asks them.
struct AskedExecutors<'a>(&'a NodeRuntime);

impl Executors for AskedExecutors<'_> {
    fn look(&mut self, shard: ShardId, at: &mut dyn FnMut(&ShardExecutor)) {
        self.0.with_executor(shard, |executor| at(executor));
    }

    fn look_at_all(&mut self, at: &mut dyn FnMut(&ShardExecutor)) {
        self.0.each_executor(|executor| at(executor));
    }
}

fn carry_out(runtime: &NodeRuntime, effects: Vec<Effect>) {
    let mut out = Outbox::new();
    for effect in effects {
        match effect {
            Effect::Submit(shard, input) => runtime.submit(shard, input),
            Effect::Reroute(ReroutedBatch { shard, origin, batch }) => {
                runtime.counters.moved.add(batch.waiters().len() as u64);
                runtime.submit(shard, Input::Propose { shard, origin, batch });
            }
            Effect::Confirm(half) => runtime.each_executor(|executor| executor.confirm(half)),
            Effect::Routes(routes) => runtime.routing.publish(routes),
            Effect::AdminStates(states) => {
                let removed = states.removed().collect();
                runtime.admin_states.store(states);
                if let Some(peers) = &runtime.peers {
                    peers.cluster.set_removed(removed);
                }
            }
            Effect::Libraries(libraries) => runtime.scripts.follow(libraries),
            Effect::ClusterVersion { version, before } => {
                cluster_version::follow(runtime, version, before);
            }
            Effect::Answer(answer) => {
                let (control, answers) = (&runtime.control, &mut Vec::new());
                runtime.delivery.deliver(control, answer, NO_ORIGIN, answers);
            }
            Effect::Reply { id, reply } => runtime.control.requests.reply(id, reply),
            Effect::Rpc(node, rpc) => {
                if let Some(peers) = &runtime.peers {
                    peers.send_rpc(node, &rpc);
                }
            }
            Effect::LookupMessage(node, message) => out.push((node, message)),
            Effect::DescriptorsLearned(known) => {
                if let Some(peers) = &runtime.peers {
                    peers.lookups.learn(&known);
                }
            }
            Effect::KeyspaceDropped(keyspace) => {
                if let Some(peers) = &runtime.peers {
                    peers.lookups.forget_keyspace(keyspace);
                }
            }
            Effect::Event(what) => runtime.happened(what),
        }
    }
    if let Some(peers) = &runtime.peers {
        peers.send_lookup(out);
    }
}
