//! One node with two executors, whose log is durable at once, and its control plane.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use balancer::{NodeReport, Policy};
use hlc::Clock;
use keyspace::{
    Arc as RingArc, Catalogue, CatalogueOp, ClusterVersion, Descriptor, Durability, Generation,
    KeyHasher, KeyspaceId, KeyspaceOptions, NodeId, Placement, ReplicaId, ShardId,
};
use node::control::{
    CONTROL, Control, CutAt, Effect, Executors, FirstMessage, Gossip, Input, Loads, Members,
    PlacementSetup, Request, ReshapeLimits, ReshapePace, Setup,
};
use node::executor::{self, Answer, Effects, EndedReplica, FIRST_REPLICA, Origin, ShardExecutor};
use node::replica::ReplicaStart;
use node::replica::catalogue::Change;
use node::replica::entry::Waiter;
use node::replica::record;
use node::replica::state::{Content, ShardState};
use node::reshape::bootstrap;
use node::reshape::reroute::ReroutedBatch;
use overlay::KnownShard;
use replication::{Message, MessageKind};
use storage::engine::{Layout, MemoryEngine};
use storage::log::Lsn;

use crate::shown;

pub const HERE: NodeId = NodeId(10);
const SYSTEM: ShardId = ShardId(0);
const NOBODY: Origin = Origin(u32::MAX);

/// See the module's documentation.
pub struct NodeOfOne {
    control: Control,
    executors: Vec<ShardExecutor>,
    inputs: VecDeque<Input>,
    now: u64,
    asked: u64,
}

struct LocalExecutors<'a>(&'a [ShardExecutor]);

impl Executors for LocalExecutors<'_> {
    fn look(&mut self, shard: ShardId, at: &mut dyn FnMut(&ShardExecutor)) {
        at(&self.0[shard.0 as usize % self.0.len()]);
    }

    fn look_at_all(&mut self, at: &mut dyn FnMut(&ShardExecutor)) {
        self.0.iter().for_each(at);
    }
}

impl Default for NodeOfOne {
    fn default() -> Self {
        Self::new()
    }
}

impl NodeOfOne {
    pub fn new() -> Self {
        let clock = Arc::new(Clock::default());
        let setup = Setup {
            node: HERE,
            settings: KeyHasher::new([1; 16]).into(),
            request_timeout: 1_000_000_000,
            caches_catalogue: true,
            limits: ReshapeLimits::default(),
            pace: ReshapePace::default(),
            placement: PlacementSetup {
                balances: true,
                policy: Policy::Balanced,
                dead_after: Duration::from_secs(60),
                cool_down: 30_000_000_000,
                system_replicas: None,
            },
            raise_version_after: None,
            seed: 7,
        };
        Self {
            control: Control::new(setup),
            executors: (0..2)
                .map(|number| ShardExecutor::new(clock.clone(), number, 1 << 20))
                .collect(),
            inputs: VecDeque::new(),
            now: 1,
            asked: 0,
        }
    }

    /// Runs one command; what it has led to.
    pub fn run(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let shard = |word: &str| ShardId(number(word));
        match words[..] {
            // This node founds a cluster.
            ["found"] => {
                let state = bootstrap::first_system(HERE);
                let start = ReplicaStart::created(state, FIRST_REPLICA, Durability::Sync);
                self.control.adopt(start.view.clone());
                self.submit(SYSTEM, executor::Input::Create(start));
                self.catalogue(&CatalogueOp::RaiseVersion { to: ClusterVersion::NEWEST });
            }
            ["create", name] => {
                let options = KeyspaceOptions { replicas: 1, ..KeyspaceOptions::default() };
                self.catalogue(&CatalogueOp::Create { name, options });
            }
            ["create", name, replicas] => {
                let replicas = number(replicas) as u8;
                let options = KeyspaceOptions { replicas, ..KeyspaceOptions::default() };
                self.catalogue(&CatalogueOp::Create { name, options });
            }
            ["create-table", name] => {
                let (replicas, placement) = (1, Placement::LinearHash);
                let options = KeyspaceOptions { replicas, placement, ..Default::default() };
                self.catalogue(&CatalogueOp::Create { name, options });
            }
            ["drop", name] => self.catalogue(&CatalogueOp::Drop { name }),
            ["split", id, at] => {
                let at = Some(CutAt::Slot(number(at) as u16));
                self.request(Request::Split { shard: shard(id), at });
            }
            ["split", id] => self.request(Request::Split { shard: shard(id), at: None }),
            ["merge", id] => self.request(Request::Merge { left: shard(id) }),
            // Of which keyspace, its slots, its generation; its nodes, whose first leads. Node 20
            // has replica 2 of every shard.
            ["learned", id, keyspace, first, end, generation, ref nodes @ ..] => {
                let nodes = nodes.iter().map(|node| NodeId(number(node)));
                let descriptor = Descriptor {
                    shard: shard(id),
                    arc: RingArc::of_slots(
                        KeyspaceId(number(keyspace) as u32),
                        number(first) as u16,
                        number(end) as u16,
                    ),
                    replicas: nodes.map(|node| (ReplicaId(node.0 / 10), node)).collect(),
                    generation: Generation(number(generation)),
                    leader: None,
                };
                let leader = descriptor.replicas.first().map(|(replica, _)| *replica);
                let descriptor = Descriptor { leader, ..descriptor };
                self.inputs
                    .push_back(Input::DescriptorsLearned(vec![KnownShard::new(descriptor, 3)]));
            }
            // A right half that another shard's replica here has handed out.
            ["half", id, keyspace, first, end, generation] => {
                let (first_slot, end_slot) = (number(first) as u16, number(end) as u16);
                let layout = Layout::Hashed { first_slot, end_slot };
                let engine = MemoryEngine::new(layout, KeyHasher::new([1; 16]));
                let descriptor = Descriptor {
                    shard: shard(id),
                    arc: RingArc::of_slots(
                        KeyspaceId(number(keyspace) as u32),
                        first_slot,
                        end_slot,
                    ),
                    replicas: vec![(ReplicaId(1), HERE)],
                    generation: Generation(number(generation)),
                    leader: None,
                };
                let state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
                let start = ReplicaStart::created(state, ReplicaId(1), Durability::Sync);
                self.inputs.push_back(Input::RightHalf(Box::new(start)));
            }
            // A peer asks the replica of node 10 for a vote, and knows the shard like this.
            ["vote", id, keyspace, first, end, generation] => {
                let (first_slot, end_slot) = (number(first) as u16, number(end) as u16);
                let keyspace = KeyspaceId(number(keyspace) as u32);
                let descriptor = Descriptor {
                    shard: shard(id),
                    arc: RingArc::of_slots(keyspace, first_slot, end_slot),
                    replicas: vec![(ReplicaId(1), HERE), (ReplicaId(2), NodeId(20))],
                    generation: Generation(number(generation)),
                    leader: None,
                };
                let layout = Layout::Hashed { first_slot, end_slot };
                let engine = MemoryEngine::new(layout, KeyHasher::new([1; 16]));
                let state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
                let mut bytes = vec![MessageKind::Vote as u8, 0];
                let words = [2, 1, 5, 0, 4, 7, 0, 0, 0];
                bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
                bytes.extend([0; 5]);
                let message = Message::decode(bytes.into()).expect("a message");
                let (from, shard, bootstrap) = (NodeId(20), shard(id), state.bootstrap_record());
                let first = FirstMessage { from, shard, bootstrap, message };
                self.inputs.push_back(Input::FirstMessage(Box::new(first)));
            }
            // The log says so, as the node starts.
            ["was-absorbed", id, left] => {
                let right = shard(id);
                let executor = right.0 as usize % self.executors.len();
                self.executors[executor].adopt_merged(right, shard(left));
            }
            // The log says that its group went on without the replica here, when it had these
            // slots.
            ["was-removed", id, keyspace, first, end] => {
                let (first, end) = (number(first) as u16, number(end) as u16);
                let arc = RingArc::of_slots(KeyspaceId(number(keyspace) as u32), first, end);
                let replicas = vec![(ReplicaId(2), NodeId(20))];
                let (generation, leader) = (Generation(2), None);
                let descriptor = Descriptor { shard: shard(id), arc, replicas, generation, leader };
                let layout = Layout::Hashed { first_slot: first, end_slot: end };
                let engine = MemoryEngine::new(layout, KeyHasher::new([1; 16]));
                let state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
                let mut payload = FIRST_REPLICA.0.to_le_bytes().to_vec();
                payload.extend(state.bootstrap_record());
                let ended = EndedReplica::decode(record::REPLICA_REMOVED, &payload);
                let executor = shard(id).0 as usize % self.executors.len();
                self.executors[executor].adopt_ended(shard(id), ended.expect("its own record"));
            }
            ["ended", id] => self.inputs.push_back(Input::ReplicaEnded(shard(id))),
            // The catalogue of another cluster's life: these keyspaces, one after the other.
            ["jump", ref names @ ..] => {
                let mut catalogue = Catalogue::default();
                for name in names {
                    let options = KeyspaceOptions { replicas: 1, ..KeyspaceOptions::default() };
                    match name.strip_prefix('-') {
                        Some(gone) => drop(catalogue.drop(gone)),
                        None => drop(catalogue.create(name, options)),
                    }
                }
                self.inputs.push_back(Input::CatalogueReplaced(Arc::new(catalogue)));
            }
            ["members", ref nodes @ ..] => {
                let all: Vec<_> = nodes.iter().map(|node| NodeId(number(node))).collect();
                let up = all.clone();
                self.inputs.push_back(Input::Members(Members { all, up }));
            }
            // These nodes are up, says gossip: shards that have too few replicas get more.
            ["add-replicas", ref nodes @ ..] => {
                let reports = nodes.iter().map(|node| told(NodeId(number(node)))).collect();
                let gossip = Gossip { reports, is_complete: true, ..Gossip::default() };
                self.inputs.push_back(Input::AddReplicas(Box::new(gossip)));
            }
            ["place", ref nodes @ ..] => {
                let reports = nodes.iter().map(|node| told(NodeId(number(node)))).collect();
                let gossip = Gossip { reports, is_complete: true, ..Gossip::default() };
                self.inputs.push_back(Input::PlanPlacement(Box::new(gossip)));
            }
            ["tend"] => self.inputs.push_back(Input::MaintainTables),
            ["tick"] => self.inputs.push_back(Input::Tick),
            ["second"] => {
                self.now += 1_000_000_000;
                self.inputs.push_back(Input::MaintainShards(Loads::default()));
            }
            _ => panic!("no command: {command}"),
        }
        self.settle()
    }

    fn request(&mut self, request: Request) {
        self.asked += 1;
        self.inputs.push_back(Input::Request { id: self.asked, request });
    }

    fn catalogue(&mut self, op: &CatalogueOp<'_>) {
        let mut body = Vec::new();
        op.encode(&mut body);
        let input = executor::Input::Catalogue { op: body, origin: NOBODY, waiter: Waiter(0) };
        self.submit(SYSTEM, input);
    }

    fn submit(&mut self, shard: ShardId, input: executor::Input) {
        let count = self.executors.len();
        self.executors[shard.0 as usize % count].accept(input);
    }

    /// Lets executors and control go on until nothing is left to do.
    fn settle(&mut self) -> String {
        let mut out = String::new();
        loop {
            while let Some(input) = self.inputs.pop_front() {
                writeln!(out, "{}", shown::input(&input)).expect("a string");
                self.control.observe(self.now);
                for effect in self.control.step(input, &mut LocalExecutors(&self.executors)) {
                    writeln!(out, "  {}", shown::effect(&effect)).expect("a string");
                    self.carry_out(effect);
                }
            }
            if !self.turn(&mut out) {
                return out;
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Submit(shard, input) => self.submit(shard, input),
            Effect::Reroute(ReroutedBatch { shard, origin, batch }) => {
                self.submit(shard, executor::Input::Propose { shard, origin, batch });
            }
            Effect::Confirm(half) => {
                self.executors.iter_mut().for_each(|executor| executor.confirm(half))
            }
            Effect::ClusterVersion { version, .. } => {
                self.executors.iter_mut().for_each(|executor| executor.allow(version));
            }
            _ => {}
        }
    }

    /// Every executor goes one step round. Whether anything came of it.
    fn turn(&mut self, out: &mut String) -> bool {
        let mut has_done = false;
        for executor in &mut self.executors {
            executor.observe(self.now);
            let mut effects = Effects::default();
            executor.turn(&mut effects);
            if !effects.records.is_empty() {
                has_done = true;
                executor.accept(executor::Input::Written { ticket: effects.ticket, lsn: Lsn(1) });
                executor.accept(executor::Input::Durable { ticket: effects.ticket });
            }
            for event in &effects.events {
                writeln!(out, "an executor's event: {event}").expect("a string");
            }
            let inputs = &mut self.inputs;
            inputs.extend(effects.changes.drain(..).map(Input::Catalogue));
            inputs.extend(effects.halves.drain(..).map(|half| Input::RightHalf(Box::new(half))));
            inputs.extend(
                effects.words.drain(..).map(|(shard, word)| Input::MergeMessage(shard, word)),
            );
            inputs.extend(effects.handover_requests.drain(..).map(Input::HandoverRequest));
            inputs.extend(effects.given.drain(..).map(Input::MergeHandover));
            let pending_requests = effects.pending_requests.drain(..).map(Box::new);
            inputs.extend(pending_requests.map(Input::PendingRequests));
            inputs.extend(effects.ended.drain(..).map(|(shard, ..)| Input::ReplicaEnded(shard)));
            let is_controls = |answer: &Answer| answer.origin() == CONTROL;
            let answers = effects.answers.drain(..).filter(is_controls);
            inputs.extend(answers.map(Input::Answer));
            if !effects.known.is_empty() {
                inputs.push_back(Input::DescriptorsLearned(std::mem::take(&mut effects.known)));
            }
        }
        has_done || !self.inputs.is_empty()
    }
}

/// A node that is up and carries nothing.
fn told(id: NodeId) -> NodeReport {
    NodeReport {
        id,
        domain: Box::default(),
        is_up: true,
        since: Duration::from_secs(100),
        is_suspected: false,
        is_slow: false,
        replicas: 0,
        leaders: 0,
        bytes: 0,
        requests: 0,
    }
}

/// Whether an input says that a keyspace has changed.
pub fn keyspace_of(change: &Change) -> Option<&str> {
    match change {
        Change::Created(keyspace) | Change::Altered(keyspace) | Change::Dropped(keyspace) => {
            Some(&keyspace.name)
        }
        _ => None,
    }
}
