//! Where should the replicas be of the shards that this node leads?
//!
//! There is no placement master: each shard's leader decides for its own shard, by what gossip
//! tells of the nodes, and asks its group for the change. What is best says [`balancer`]; here is
//! what it is told, and how much may be under way at once.
//!
//! ```text
//!   members: who is there, what they carry ─┐
//!   catalogue: who is cordoned, draining … ─┼─► Nodes ─► decide ─► Exchange
//!   the shard's descriptor and members ─────┘        └─► heir ───► Transfer
//! ```
//!
//! With `balance` off only what must be done is: replicas leave nodes that have been down for
//! `dead_after`, are draining, or were removed; leaders leave draining nodes.
//!
//! Invariants: at most [`AT_ONCE`] of the shards led here are being changed; a shard that was moved
//! to be even is left alone for [`COOL_DOWN`]; nothing is decided before gossip has had
//! [`UNTOLD`] to tell of the nodes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use balancer::{Decision, Gone, Node, Nodes, Settings, Shard, Why, decide, heir, place_of};
use keyspace::{Descriptor, NodeId, Placement as KeyPlacement, ReplicaId, ShardId, Standing};
use node::lane::Input;
use node::state::ShardState;
use parking_lot::Mutex;
use replication::Members;

use super::peers::Peers;
use super::{Hub, View};

/// Shards led here whose replicas change at one time, at most.
pub const AT_ONCE: usize = 4;
/// How long a shard rests after a move that was for evenness only.
pub const COOL_DOWN: Duration = Duration::from_secs(30);
/// How long gossip has to tell of all nodes before the first decision.
pub const UNTOLD: Duration = Duration::from_secs(5);

/// What the node was told about it, and what it remembers.
pub struct Placement {
    /// A node that was down for so long has lost its replicas' places.
    dead_after: Duration,
    balance: bool,
    salt: AtomicU64,
    /// Shards that were moved lately, and when.
    moved: Mutex<BTreeMap<ShardId, Instant>>,
}

impl Placement {
    /// As configured. `seed` was drawn at random.
    pub fn new(dead_after: Duration, balance: bool, seed: u64) -> Self {
        let (salt, moved) = (AtomicU64::new(seed), Mutex::default());
        Self { dead_after, balance, salt, moved }
    }

    /// Whether replicas and leaders move to be even.
    pub fn balances(&self) -> bool {
        self.balance
    }

    fn settings(&self) -> Settings {
        let salt = self.salt.fetch_add(1, Ordering::Relaxed);
        Settings { balance: self.balance, salt, ..Settings::default() }
    }

    /// Whether the shard was moved lately, so that it rests.
    fn rests(&self, shard: ShardId) -> bool {
        let mut moved = self.moved.lock();
        moved.retain(|_, at| at.elapsed() < COOL_DOWN);
        moved.contains_key(&shard)
    }
}

/// A shard that is led here.
struct Led {
    descriptor: Descriptor,
    members: Members,
    is_settled: bool,
    replica: ReplicaId,
    bytes: u64,
    /// How many replicas it should have.
    wanted: usize,
    placement: KeyPlacement,
}

impl Led {
    fn is_changing(&self) -> bool {
        self.members.is_joint() || !self.members.learners.is_empty() || !self.is_settled
    }

    fn shard(&self) -> Shard<'_> {
        Shard {
            shard: self.descriptor.shard,
            place: place_of(&self.descriptor.arc, self.placement),
            replicas: &self.descriptor.replicas,
            voters: &self.members.voters,
            learners: &self.members.learners,
            is_joint: self.members.is_joint(),
            is_settled: self.is_settled,
            wanted: self.wanted,
            bytes: self.bytes,
            leader: self.replica,
        }
    }
}

impl Hub {
    /// Decides about the shards that this node leads.
    pub(super) fn place(&self, peers: &Peers) {
        if self.started.elapsed() < UNTOLD {
            return;
        }
        let placement = &peers.placement;
        let led = self.led(placement.balance);
        let nodes = self.nodes_to_place(peers, &led);
        let mut changing = led.iter().filter(|led| led.is_changing()).count();
        for led in &led {
            let shard = led.shard();
            let Some(decision) = decide(&nodes, &shard, &placement.settings()) else { continue };
            let Decision { add, remove, why, effect } = decision;
            let is_call_off = matches!(why, Why::CallOff { .. });
            let is_choice = matches!(why, Why::Even { .. } | Why::Place { .. } | Why::Part { .. });
            if !is_call_off && (changing >= AT_ONCE || is_choice && placement.rests(shard.shard)) {
                continue;
            }
            changing += usize::from(!is_call_off);
            if is_choice {
                placement.moved.lock().insert(shard.shard, Instant::now());
            }
            let on: Vec<String> = add.iter().map(|id| format!("node {id}")).collect();
            let go: Vec<String> = remove.iter().map(ReplicaId::to_string).collect();
            let (on, go) = (on.join(", "), go.join(", "));
            let text = format!("replicas come [{on}], go [{go}], because {why}; {effect}");
            tracing::info!("shard {}: {}", shard.shard, self.with_names(peers, text));
            let (shard, generation) = (shard.shard, led.descriptor.generation);
            self.submit(shard, Input::Exchange { shard, generation, add, remove });
        }
        self.place_leaders(peers, &nodes, &led);
    }

    /// Hands leaderships over that should be elsewhere.
    fn place_leaders(&self, peers: &Peers, nodes: &Nodes, led: &[Led]) {
        let mut heirs: BTreeMap<_, _> = self.heirs(peers).into_iter().collect();
        for led in led {
            let Some(candidates) = heirs.remove(&led.descriptor.shard) else { continue };
            let placed = |id: ReplicaId| Some((id, led.descriptor.node_of(id)?));
            let candidates: Vec<_> = candidates.into_iter().filter_map(placed).collect();
            let shard = led.shard();
            let settings = peers.placement.settings();
            if let Some((to, why)) = heir(nodes, &shard, &candidates, &settings) {
                let shard = shard.shard;
                let text = format!("replica {to} is to lead; because {why}");
                tracing::info!("shard {shard}: {}", self.with_names(peers, text));
                self.submit(shard, Input::Transfer { shard, to });
            }
        }
    }

    /// The shards that this node leads, with what each should be like. If nothing is to be evened
    /// out, they should have as many replicas as they have: others see to that they grow.
    fn led(&self, balance: bool) -> Vec<Led> {
        let leaders: BTreeMap<ShardId, ReplicaId> = {
            let leading = |lane: &node::lane::Lane| {
                let shards = lane.shards().filter(|shard| shard.is_leader());
                shards.map(|shard| (shard.id(), shard.replica())).collect::<Vec<_>>()
            };
            self.lanes.iter().flat_map(|lane| lane.with(self, |lane| leading(lane))).collect()
        };
        let mut led = Vec::new();
        let mut see = |view: &View, wanted: u8, placement| {
            let state: &ShardState = &view.read();
            let Some(replica) = leaders.get(&state.descriptor.shard) else { return };
            let usage = state.keys().map(|engine| engine.usage());
            // Never to rest at an even number (SAFETY G20).
            let voters = state.members.voters.len() | 1;
            // Whose place another was to take, and did not, goes with the next change.
            let mut members = state.members.clone();
            members.voters.retain(|voter| state.descriptor.node_of(*voter).is_some());
            led.push(Led {
                descriptor: state.descriptor.clone(),
                members,
                is_settled: state.roster.is_settled,
                replica: *replica,
                bytes: usage.map_or(0, |usage| usage.live_bytes + usage.old_bytes),
                wanted: if balance { usize::from(wanted) } else { voters },
                placement,
            });
        };
        let routes = self.routes();
        let system = self.views.lock().get(&ShardId(0)).cloned();
        if let Some(system) = system {
            let wanted = routes.iter().map(|route| route.keyspace.options.replicas).max();
            see(&system, wanted.unwrap_or(1), KeyPlacement::Ordered);
        }
        for route in routes.iter() {
            let options = route.keyspace.options;
            route.views.iter().for_each(|view| see(view, options.replicas, options.placement));
        }
        led
    }

    /// All nodes, as the balancer wants to know them: also those of which nobody knows any more.
    fn nodes_to_place(&self, peers: &Peers, led: &[Led]) -> Nodes {
        let dead_after = peers.placement.dead_after;
        let (members, standings) = (peers.cluster.members(), self.standings());
        let wrong = self.nodes_with_wrong_clocks();
        let mut nodes: Vec<Node> = members
            .iter()
            .map(|member| {
                let standing = standings.of(member.node);
                let is_here = member.node == self.node_id;
                let is_alive = is_here || member.is_up();
                let gone = match standing {
                    Standing::Removed => Some(Gone::Removed),
                    _ if !is_alive && member.since.elapsed() >= dead_after => Some(Gone::Dead),
                    Standing::Draining => Some(Gone::Draining),
                    Standing::Member | Standing::Cordoned => None,
                };
                Node {
                    id: member.node,
                    domain: member.domain.as_str().into(),
                    takes: is_alive && !member.suspected && standing.takes_replicas(),
                    gone,
                    is_alive,
                    is_slow: wrong.contains(&member.node) || is_here && self.clocks.is_far(),
                    replicas: member.load.shards,
                    leaders: member.load.leaders,
                    bytes: member.load.data_bytes,
                }
            })
            .collect();
        // Whoever was forgotten has been down for long; or this node has not been told yet.
        let is_told = self.started.elapsed() >= dead_after;
        let placed = led.iter().flat_map(|led| &led.descriptor.replicas);
        for (_, id) in placed {
            if nodes.iter().any(|node| node.id == *id) {
                continue;
            }
            let gone = match standings.of(*id) {
                Standing::Removed => Some(Gone::Removed),
                _ => is_told.then_some(Gone::Dead),
            };
            nodes.push(Node { id: *id, gone, ..Node::default() });
        }
        Nodes::new(nodes)
    }

    /// Says "n3 (01a6aff8f1c623d7)" where a node's id stands.
    fn with_names(&self, peers: &Peers, mut text: String) -> String {
        for member in peers.cluster.members().iter() {
            let name = format!("{} ({:016x})", member.name, member.node.0);
            text = text.replace(&format!("node {}", member.node), &name);
        }
        text
    }

    /// Whether a node should be given no lead.
    pub(super) fn is_leaving(&self, node: NodeId) -> bool {
        !self.standing(node).keeps_replicas()
    }
}
