//! Three executors with their replicas; what the driver of a node does with their effects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use command::Step as Command;
use hlc::Clock;
use keyspace::{
    Catalogue, ClusterVersion, Cut, Descriptor, Durability, Generation, Keyspace, KeyspaceOptions,
    NodeId, Placement, ReplicaId, ShardId, Timestamp,
};
use node::executor::{Answer, Effects, Envelope, Input, Origin, ShardExecutor};
use node::replica::ReplicaStart;
use node::replica::entry::{Batch, Waiter};
use node::reshape::bootstrap;
use node::reshape::merge::{self, MergeStatus};
use node::reshape::reroute::{PendingReroutes, ReroutedBatch};
use node::reshape::split::Split;
use node::routing::route::{ArcClaim, Route, tiles};
use node::rpc::message::RpcMessage;
use overlay::KnownShard;
use parking_lot::RwLock;
use replication::MessageKind;
use storage::log::Lsn;

use super::steps::{Requests, not_done};
use crate::shard::{HASHER, ordered, value};
use crate::words;

const NODES: u64 = 3;
const CLIENTS: Origin = Origin(1);
const TICK_NANOS: u64 = 50_000_000;
const TIMEOUT_NANOS: u64 = 2_000_000_000;

pub(super) struct Node {
    id: NodeId,
    pub(super) executor: ShardExecutor,
    pub(super) postponed: PendingReroutes,
    /// What it has learnt of shards.
    known: BTreeMap<ShardId, ArcClaim>,
    /// Which shards it leads, as was last printed.
    led: BTreeSet<ShardId>,
}

/// On its way to a node.
pub(super) enum Packet {
    Message(Box<Envelope>),
    Rpc(RpcMessage),
}

/// See the module's documentation.
pub struct World {
    keyspace: Keyspace,
    nodes: Vec<Node>,
    pub(super) now: u64,
    next_client: u64,
    /// Keys that clients wait to read.
    reads: BTreeMap<Waiter, Vec<u8>>,
    pub(super) flying: Vec<(NodeId, NodeId, Packet)>,
    /// Nodes that get no entries.
    pub held: BTreeSet<usize>,
    /// Nodes that are cut off.
    pub cut: BTreeSet<usize>,
    /// Kinds of peer RPCs that are lost.
    pub lost: BTreeSet<String>,
    /// Steps that were asked for.
    pub(super) asked: Requests,
    out: String,
    /// What need not be printed twice by one verb.
    once: BTreeSet<String>,
}

fn place(node: NodeId) -> usize {
    node.0 as usize
}

impl Node {
    /// Where it takes keys to be.
    fn route(&self, keyspace: &Keyspace) -> Arc<Route> {
        let here = self.executor.shards().map(|shard| {
            let view = shard.view();
            (shard.id(), view)
        });
        let here: BTreeMap<ShardId, _> = here.collect();
        let mut known = self.known.clone();
        for (id, view) in &here {
            known.insert(*id, ArcClaim::of(&view.read().descriptor));
        }
        let claims: Vec<ArcClaim> = known.into_values().collect();
        let tiles = tiles(keyspace, &claims).into_iter().map(|(shard, arc)| {
            let view = here.get(&shard).cloned().unwrap_or_else(|| {
                let tile = (shard, arc.clone());
                let state = bootstrap::remote_view(keyspace, tile, Vec::new(), self.id, HASHER);
                Arc::new(RwLock::new(state))
            });
            (shard, arc, view)
        });
        Arc::new(Route::new(keyspace.clone(), HASHER, tiles.collect()))
    }

    fn overlaps(&self, arc: &keyspace::Arc) -> bool {
        self.executor.shards().any(|shard| shard.view().read().descriptor.arc.overlaps(arc))
    }
}

impl World {
    /// Every node has a replica of a shard of all keys.
    pub fn new(shard: ShardId) -> Self {
        let mut catalogue = Catalogue::default();
        let options = KeyspaceOptions { placement: Placement::Ordered, ..Default::default() };
        let mut keyspace = catalogue.create("k", options).expect("a name").clone();
        keyspace.shards = vec![shard];
        let replicas: Vec<_> = (1..=NODES).map(|id| (ReplicaId(id), NodeId(id))).collect();
        let now = 3_000_000_000;
        let node = |id| {
            let mut executor = ShardExecutor::new(Arc::new(Clock::default()), id, 1 << 20);
            executor.set_request_timeout(TIMEOUT_NANOS);
            executor.allow(ClusterVersion::NEWEST);
            executor.observe(1);
            executor.observe(now);
            let mut state = ordered(shard.0, keyspace.arc(0));
            let generation = Generation(1);
            let (arc, replicas) = (state.descriptor.arc.clone(), replicas.clone());
            let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
            state = node::replica::state::ShardState::new(descriptor, state.content);
            let start = ReplicaStart::created(state, ReplicaId(id), Durability::Sync);
            executor.accept(Input::Create(start));
            let (postponed, known, led) = Default::default();
            Node { id: NodeId(id), executor, postponed, known, led }
        };
        Self {
            nodes: (1..=NODES).map(node).collect(),
            keyspace,
            now,
            next_client: 1,
            reads: BTreeMap::new(),
            flying: Vec::new(),
            held: BTreeSet::new(),
            cut: BTreeSet::new(),
            lost: BTreeSet::new(),
            asked: Requests::default(),
            out: String::new(),
            once: BTreeSet::new(),
        }
    }

    /// What is to be printed.
    pub fn said(&mut self) -> String {
        self.once.clear();
        std::mem::take(&mut self.out)
    }

    pub(super) fn say(&mut self, text: &str) {
        writeln!(self.out, "{text}").expect("a string");
    }

    pub(super) fn say_once(&mut self, text: String) {
        if self.once.insert(text.clone()) {
            self.say(&text);
        }
    }

    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[place(id) - 1]
    }

    pub(super) fn leader(&self, shard: ShardId) -> Option<NodeId> {
        let leads = |node: &&Node| {
            node.executor.shard(shard).is_some_and(|shard| shard.is_elected())
                && !self.cut.contains(&place(node.id))
        };
        self.nodes.iter().find(leads).map(|node| node.id)
    }

    pub fn write(&mut self, node: usize, text: &str) {
        let Command::Write(write) = words::command(text) else { panic!("no write: {text}") };
        let route = self.nodes[node - 1].route(&self.keyspace);
        let mut key = None;
        write.each_key(&mut |it| key = Some(it.to_vec()));
        let shard = route.shard(route.place_of_key(&key.expect("the command has a key")));
        let client = self.client();
        let mut batch = Batch::default();
        batch.push(&write, Waiter(client));
        self.say(&format!("client {client} at node {node}: {text}, to shard {}", shard.0));
        let executor = self.executor_for(node, shard);
        executor.accept(Input::Propose { shard, origin: CLIENTS, batch });
    }

    /// A node's, which knows whom to ask for a shard of which there is no replica.
    fn executor_for(&mut self, node: usize, shard: ShardId) -> &mut ShardExecutor {
        let nodes = (1..=NODES).filter(|id| *id != node as u64).map(NodeId).collect();
        let executor = &mut self.nodes[node - 1].executor;
        if executor.shard(shard).is_none() {
            executor.accept(Input::RemoteShard { shard, nodes });
        }
        executor
    }

    /// Where node 1 takes a key to be.
    pub(super) fn shard_of(&self, key: &[u8]) -> ShardId {
        let route = self.nodes[0].route(&self.keyspace);
        route.shard(route.place_of_key(key))
    }

    pub fn read(&mut self, node: usize, key: &[u8]) {
        let route = self.nodes[node - 1].route(&self.keyspace);
        let shard = route.shard(route.place_of_key(key));
        let client = self.client();
        self.reads.insert(Waiter(client), key.to_vec());
        let key = words::text(key);
        self.say(&format!("client {client} at node {node}: GET {key}, to shard {}", shard.0));
        let (at, lock, origin, waiter) = (Timestamp::ZERO, None, CLIENTS, Waiter(client));
        let executor = self.executor_for(node, shard);
        executor.accept(Input::AwaitRead { shard, at, lock, origin, waiter });
    }

    fn client(&mut self) -> u64 {
        self.next_client += 1;
        self.next_client - 1
    }

    pub fn split(&mut self, shard: ShardId, at: &[u8], right: ShardId) {
        let leader = self.leader(shard).expect("somebody leads it");
        let executor = &mut self.node(leader).executor;
        let view = executor.view(shard).expect("the shard is on this node");
        let generation = view.read().descriptor.generation;
        let split = Split { right, generation, at: Cut::Key(at.into()) };
        executor.accept(Input::Split { shard, split });
    }

    pub fn merge(&mut self, left: ShardId, right: ShardId) {
        let leader = self.leader(left).expect("somebody leads it");
        let executor = &mut self.node(leader).executor;
        let [ours, theirs] = [left, right].map(|shard| {
            let view = executor.view(shard).expect("both are here");
            view.read().descriptor.generation
        });
        let step = merge::MergeStep::Intend { right, theirs, ours };
        executor.accept(Input::Merge { shard: left, step });
    }

    pub fn transfer(&mut self, shard: ShardId, to: u64) {
        let leader = self.leader(shard).expect("somebody leads it");
        let to = ReplicaId(to);
        self.node(leader).executor.accept(Input::Transfer { shard, to });
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        self.lost.clear();
        let all: Vec<NodeId> = self.nodes.iter().map(|node| node.id).collect();
        for node in &mut self.nodes {
            for other in all.iter().filter(|other| **other != node.id) {
                node.executor.accept(Input::Linked { node: *other });
            }
        }
    }

    /// 50 ms pass, all get a tick, and everything is brought.
    pub fn tick(&mut self) {
        self.now += TICK_NANOS;
        for node in &mut self.nodes {
            node.executor.observe(self.now);
            node.executor.accept(Input::Tick);
        }
        self.settle();
    }

    /// Time passes at node 1, which looks what is due.
    pub fn sleep(&mut self, millis: u64) {
        self.now += millis * 1_000_000;
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.executor.observe(now));
        self.nodes[0].executor.accept(Input::Tick);
        self.settle();
    }

    pub fn settle(&mut self) {
        for _ in 0..1_000 {
            let mut any = false;
            for at in 0..self.nodes.len() {
                any |= self.turn(at);
            }
            let flying = std::mem::take(&mut self.flying);
            any |= !flying.is_empty();
            flying.into_iter().for_each(|(from, to, packet)| self.arrive(from, to, packet));
            if !any {
                // A round of checkpoints waits for that, and installations of snapshots for it.
                let is_durable = |node: &Node| node.executor.marks_are_durable();
                assert!(self.nodes.iter().all(is_durable), "a replica's end is not synced");
                return;
            }
        }
        panic!("no end");
    }

    fn turn(&mut self, at: usize) -> bool {
        let now = self.now;
        let mut effects = Effects::default();
        let node = &mut self.nodes[at];
        node.executor.observe(now);
        node.executor.turn(&mut effects);
        let any = !effects.is_empty();
        if !effects.records.is_empty() {
            let ticket = effects.ticket;
            node.executor.accept(Input::Written { ticket, lsn: Lsn::default() });
            // Nobody syncs the log for other groups.
            if effects.sync {
                node.executor.accept(Input::Durable { ticket });
            }
        }
        let id = node.id;
        let rpcs = effects.rpcs.drain(..);
        self.flying.extend(rpcs.map(|(to, rpc)| (id, to, Packet::Rpc(rpc))));
        let messages = effects.messages.drain(..);
        self.flying.extend(
            messages.map(|envelope| (id, envelope.node, Packet::Message(Box::new(envelope)))),
        );
        self.take_reshapes(id, &mut effects);
        self.take_known(effects.known);
        effects.answers.into_iter().for_each(|answer| self.answered(id, answer));
        self.send_on(id);
        self.look_who_leads(id);
        any
    }

    /// Everybody hears of shards that have changed, but who is cut off.
    fn take_known(&mut self, known: Vec<KnownShard>) {
        for known in known {
            let known = Arc::new(known);
            let claim = ArcClaim::of(known.descriptor());
            let cut = &self.cut;
            for node in self.nodes.iter_mut().filter(|node| !cut.contains(&place(node.id))) {
                let newest = node.known.entry(known.shard()).or_insert_with(|| claim.clone());
                if newest.generation < claim.generation {
                    *newest = claim.clone();
                }
                node.executor.accept(Input::DescriptorLearned { known: known.clone() });
            }
        }
    }

    pub(super) fn answered(&mut self, id: NodeId, answer: Answer) {
        match answer {
            Answer::Applied { spent, replies, .. } => {
                for (client, reply) in spent.waiters.iter().zip(&replies) {
                    self.say(&format!("client {}: {}", client.0, words::reply(reply)));
                }
            }
            Answer::NotDone { waiters, why, .. } => {
                for client in waiters {
                    self.say(&format!("client {}: {}", client.0, not_done(why)));
                }
            }
            Answer::Retry { waiter, .. } => self.reads_now(id, waiter),
            other => panic!("not in scripts: {other:?}"),
        }
    }

    /// A reader may try: it finds the value, or a lock, and waits until one has gone (SAFETY G1).
    fn reads_now(&mut self, id: NodeId, waiter: Waiter) {
        let key = self.reads[&waiter].clone();
        let route = self.nodes[place(id) - 1].route(&self.keyspace);
        let at = route.place_of_key(&key);
        let state = route.views[at].read();
        if state.locks.hides_newest(&key) {
            let (shard, lock) = (route.shard(at), Some(state.locks.released()));
            let (at, origin) = (Timestamp::ZERO, CLIENTS);
            let executor = &mut self.node(id).executor;
            return executor.accept(Input::AwaitRead { shard, at, lock, origin, waiter });
        }
        let found = value(&state, &key, Timestamp::MAX);
        self.reads.remove(&waiter);
        self.say(&format!("client {}: {found}", waiter.0));
    }

    /// Commands that a shard has refused, as far as it is known whose they are.
    fn send_on(&mut self, id: NodeId) {
        let (now, route) = (self.now, self.nodes[place(id) - 1].route(&self.keyspace));
        let postponed = &mut self.node(id).postponed;
        if postponed.is_empty() {
            return;
        }
        let (on, refused) = postponed.sort_out(|_| Some(route.clone()), now, TIMEOUT_NANOS);
        for ReroutedBatch { shard, origin, batch } in on {
            for client in batch.waiters() {
                let (id, client) = (id.0, client.0);
                self.say(&format!("node {id}: client {client} is re-routed to shard {}", shard.0));
            }
            self.node(id).executor.accept(Input::Propose { shard, origin, batch });
        }
        refused.into_iter().for_each(|answer| self.answered(id, answer));
    }

    fn look_who_leads(&mut self, id: NodeId) {
        let node = self.node(id);
        let leads = |shard: &&node::replica::Replica| shard.is_elected();
        let led: BTreeSet<ShardId> =
            node.executor.shards().filter(leads).map(|shard| shard.id()).collect();
        let news: Vec<ShardId> = led.difference(&node.led).copied().collect();
        node.led = led;
        for shard in news {
            self.say(&format!("node {} leads shard {}", id.0, shard.0));
        }
    }

    fn arrive(&mut self, from: NodeId, to: NodeId, packet: Packet) {
        let is_cut = self.cut.contains(&place(from)) || self.cut.contains(&place(to));
        match packet {
            Packet::Rpc(rpc) => self.rpc_arrives(from, to, rpc, is_cut),
            Packet::Message(_) if is_cut => {}
            Packet::Message(envelope) => self.message_arrives(from, to, *envelope),
        }
    }

    fn rpc_arrives(&mut self, from: NodeId, to: NodeId, rpc: RpcMessage, is_cut: bool) {
        if self.takes_answer(&rpc) {
            return;
        }
        let kind = RpcMessage::KINDS[rpc.kind()];
        let is_lost = is_cut || self.lost.contains(kind);
        if !["notice", "merge"].contains(&kind) {
            let (from, to, shard) = (from.0, to.0, rpc.shard().0);
            let lost = if is_lost { "  LOST" } else { "" };
            self.say_once(format!("rpc {from} -> {to}: {kind}, shard {shard}{lost}"));
        }
        if is_lost {
            return;
        }
        let mut bytes = Vec::new();
        rpc.encode(&mut bytes);
        let rpc = RpcMessage::decode(bytes.into()).expect("the bytes were encoded here");
        self.node(to).executor.accept(Input::Rpc { from, rpc });
    }

    fn message_arrives(&mut self, from: NodeId, to: NodeId, envelope: Envelope) {
        let Envelope { shard, bootstrap, message, .. } = envelope;
        let is_entries = message.kind() == Some(MessageKind::Append);
        if (is_entries && self.held.contains(&place(to))) || message.snapshot().is_some() {
            return;
        }
        let is_here = self.node(to).executor.shard(shard).is_some();
        if let Some(bootstrap) = bootstrap.filter(|_| !is_here) {
            let start =
                bootstrap::by_message(&bootstrap, message.to(), to, HASHER).expect("its record");
            let arc = start.view.read().descriptor.arc.clone();
            // SAFETY G11: a replica here will bring it, when it has come so far.
            if self.node(to).overlaps(&arc) {
                return self.say_once(format!(
                    "node {}: a message for shard {} is dropped, no split applied here yet",
                    to.0, shard.0
                ));
            }
            self.say(&format!("node {}: replica of shard {} begins empty", to.0, shard.0));
            self.node(to).executor.accept(Input::Create(start));
        }
        let message = Box::new(message);
        self.node(to).executor.accept(Input::Message { from, shard, message });
    }

    /// What each node has.
    pub fn show(&mut self) {
        let mut out = String::new();
        for node in &self.nodes {
            write!(out, "node {}:", node.id.0).expect("a string");
            for shard in node.executor.shards() {
                let view = shard.view();
                let state = view.read();
                let Descriptor { generation, arc, .. } = &state.descriptor;
                let merging = match state.merging {
                    MergeStatus::None => "",
                    MergeStatus::TakingRight { .. } => ", intends to merge",
                    MergeStatus::Cancelled { .. } => ", has cancelled a merge",
                    MergeStatus::Frozen { .. } => ", frozen",
                };
                let (id, arc, generation) = (shard.id().0, of_arc(arc), generation.0);
                let text = format!(" shard {id} {arc} generation {generation}{merging};");
                out += &text;
            }
            out += "\n";
        }
        self.out += &out;
    }
}

pub(super) fn of_arc(arc: &keyspace::Arc) -> String {
    let end = if arc.end().is_origin() { "end".to_owned() } else { words::text(arc.end().tail()) };
    let start =
        if arc.start().is_origin() { "begin".to_owned() } else { words::text(arc.start().tail()) };
    format!("[{start}..{end})")
}
