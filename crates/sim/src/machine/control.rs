//! How a simulated node drives its control plane ([`node::control`]): inputs queue, and one after
//! the other is stepped and its effects carried out, as the server does.

use std::sync::Arc;

use keyspace::{AdminStates, ClusterVersion, Keyspace, NodeId, ShardId};
use node::control::{
    CONTROL, Effect, Executors, Input, Members, PlantedBug, Reply, Request, TableGuard,
};
use node::event::{Event, EventKind};
use node::executor::{self, Answer, ShardExecutor};
use node::replica::catalogue::Change;
use node::replica::entry::Spent;
use node::reshape::reroute::ReroutedBatch;
use node::rpc::message::RpcMessage;
use overlay::Message;

use super::peers::{OutgoingRpc, Packet};
use super::{ExecutorSlot, Machine};

/// What one node's table says to another's.
#[derive(Clone, Debug)]
pub struct LookupMessage {
    pub(super) from: NodeId,
    /// To whom.
    pub to: NodeId,
    pub(super) message: Message,
}

impl LookupMessage {
    /// Appends it as it travels.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.message.encode(out);
    }
}

/// The executors, as control asks them.
struct SimExecutors<'a>(&'a [ExecutorSlot]);

impl Executors for SimExecutors<'_> {
    fn look(&mut self, shard: ShardId, at: &mut dyn FnMut(&ShardExecutor)) {
        at(&self.0[(shard.0 % self.0.len() as u64) as usize].executor);
    }

    fn look_at_all(&mut self, at: &mut dyn FnMut(&ShardExecutor)) {
        self.0.iter().for_each(|seat| at(&seat.executor));
    }
}

/// What control has led to, to be looked at by the world.
#[derive(Default)]
pub struct Outcomes {
    /// Answers that no executor has given.
    pub answers: Vec<Answer>,
    /// Keyspaces that have changed.
    pub changed: Vec<Keyspace>,
    /// Events since they were last taken.
    pub events: Vec<Event>,
    /// Results of administrators' requests, each with its number.
    pub replies: Vec<(u64, Reply)>,
}

impl Machine {
    /// What its table knows.
    pub fn table(&self) -> TableGuard<'_> {
        self.control.table().guard()
    }

    /// The administrative states of nodes, as far as they are known here.
    pub fn admin_states(&self) -> Arc<AdminStates> {
        self.control.admin_states().clone()
    }

    /// From now on it asks for the catalogue while it has no replica of it.
    pub fn cache_catalogue(&mut self) {
        self.control.cache_catalogue(true);
    }

    /// These are the other nodes of its cluster.
    pub fn look_up_by(&mut self, nodes: &[NodeId]) {
        let (all, up) = (nodes.to_vec(), nodes.to_vec());
        self.tell(Input::Members(Members { all, up }));
    }

    /// An administrator asks for something, under a number; nobody looks at the result of 0.
    pub fn request(&mut self, id: u64, request: Request) {
        self.tell(Input::Request { id, request });
    }

    /// Plants a fault in control.
    pub fn plant(&mut self, planted: Option<PlantedBug>) {
        self.control.plant(planted);
    }

    /// Whether control has something to do.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Queues an input of control, in order.
    pub(super) fn post(&mut self, inputs: impl IntoIterator<Item = Input>) {
        self.news.extend(inputs);
    }

    /// Has control take an input, and all before it.
    pub fn tell(&mut self, input: Input) {
        self.news.push(input);
        while self.has_news() {
            self.step_control();
        }
    }

    /// Steps control with its oldest input, and carries out the effects.
    pub fn step_control(&mut self) {
        let Some(input) = self.news.pop() else { return };
        if let Input::Catalogue(
            Change::Created(keyspace) | Change::Altered(keyspace) | Change::Dropped(keyspace),
        ) = &input
        {
            self.outcomes.changed.push(keyspace.clone());
        }
        self.control.observe(self.boot);
        let effects = self.control.step(input, &mut SimExecutors(&self.executors));
        effects.into_iter().for_each(|effect| self.carry_out(effect));
    }

    /// Something has happened here.
    pub(super) fn happened(&mut self, what: EventKind) {
        let (node, at) = (self.manifest.node, self.clock.now());
        self.outcomes.events.push(Event { node, at, what });
    }

    fn carry_out(&mut self, effect: Effect) {
        let from = self.manifest.node;
        match effect {
            Effect::Submit(_, executor::Input::DescriptorLearned { .. }) if self.ignores_lookup => {
            }
            Effect::Submit(shard, input) => {
                self.note_inherited(shard, &input);
                self.submit(shard, input);
            }
            Effect::Reroute(ReroutedBatch { origin, batch, shard })
                if self.loses_rerouted == Some(origin) =>
            {
                let (bytes, waiters) = batch.into_parts();
                let replies = vec![command::Reply::Ok; waiters.len()];
                let spent = Spent { bytes, waiters };
                let answer = Answer::Applied { origin, spent, replies, shard };
                self.outcomes.answers.push(answer);
            }
            Effect::Reroute(ReroutedBatch { shard, origin, batch }) => {
                let input = executor::Input::Propose { shard, origin, batch };
                self.note_inherited(shard, &input);
                self.submit(shard, input);
            }
            Effect::Confirm(half) => {
                self.executors.iter_mut().for_each(|seat| seat.executor.confirm(half));
            }
            Effect::Routes(routes) => self.routes = routes.by_name().clone(),
            Effect::ClusterVersion { version, .. } => {
                self.cluster_version = version;
                self.executors.iter_mut().for_each(|seat| seat.executor.allow(version));
            }
            Effect::Answer(answer) => self.outcomes.answers.push(answer),
            Effect::Rpc(to, rpc) => self.send_rpc(to, rpc),
            Effect::LookupMessage(to, message) => {
                self.outgoing.push(Packet::Lookup(Box::new(LookupMessage { from, to, message })));
            }
            Effect::Reply { id: 0, .. } => {}
            Effect::Reply { id, reply } => self.outcomes.replies.push((id, reply)),
            // Nobody here goes by them; there are no other lookups.
            Effect::AdminStates(_)
            | Effect::Libraries(_)
            | Effect::DescriptorsLearned(_)
            | Effect::KeyspaceDropped(_) => {}
            Effect::Event(what) => self.happened(what),
        }
    }

    /// Notes writes that are sent on, or were sent to a shard that another has taken in.
    fn note_inherited(&mut self, shard: ShardId, input: &executor::Input) {
        match input {
            executor::Input::Propose { batch, .. } => {
                self.sent_on.extend(batch.waiters().iter().map(|waiter| (*waiter, shard)));
            }
            executor::Input::TakeOverRequests { inherited, .. } => {
                self.inherited.extend(inherited.waiters().map(|waiter| (waiter, shard)));
            }
            _ => {}
        }
    }

    fn send_rpc(&mut self, to: NodeId, rpc: RpcMessage) {
        let from = self.manifest.node;
        self.outgoing.push(Packet::Rpc(OutgoingRpc { from, to, rpc }));
    }

    /// Takes out the answers that are for control.
    pub(super) fn take_controls(&mut self, answers: &mut Vec<Answer>) {
        let is_its = |answer: &mut Answer| answer.origin() == CONTROL;
        let its: Vec<Answer> = answers.extract_if(.., is_its).collect();
        self.post(its.into_iter().map(Input::Answer));
    }

    /// The cluster's version is at least this.
    pub(super) fn allow(&mut self, version: ClusterVersion) {
        self.tell(Input::Catalogue(Change::ClusterVersion(version)));
    }

    /// A message of another node's lookup table arrives.
    pub(super) fn receive_lookup(&mut self, word: LookupMessage) {
        // As bytes, which is how it travels.
        let mut bytes = Vec::new();
        word.message.encode(&mut bytes);
        let message = Message::decode(&bytes).expect("nodes send what can be read");
        self.tell(Input::LookupMessage { from: word.from, message });
    }
}
