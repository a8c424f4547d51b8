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
//!
//! Every decision is logged and remembered ([`Decisions`]); [`Hub::would_place`] says what would be
//! decided with `balance` on, and does nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use balancer::led::{self, AT_ONCE, Led, decide_all, placed};
use balancer::{Decision, Nodes, Policy, Settings, Told, WhyLeader, decide, heir, nodes_to_place};
use keyspace::{NodeId, Placement as KeyPlacement, ReplicaId, ShardId};
use node::lane::Input;
use node::state::ShardState;
use parking_lot::Mutex;

use super::decisions::{Came, Decided, Decisions, What};
use super::overview::called;
use super::peers::Peers;
use super::{Hub, View};

/// How long a shard rests after a move that was for evenness only.
pub const COOL_DOWN: Duration = Duration::from_secs(30);
/// How long gossip has to tell of all nodes before the first decision.
pub const UNTOLD: Duration = Duration::from_secs(5);

/// What the node was told about it, and what it remembers.
pub struct Placement {
    /// A node that was down for so long has lost its replicas' places.
    dead_after: Duration,
    balance: bool,
    policy: Policy,
    salt: AtomicU64,
    /// Shards that were moved lately, and when.
    moved: Mutex<BTreeMap<ShardId, Instant>>,
    /// What it has decided.
    pub decisions: Decisions,
}

impl Placement {
    /// As configured. `seed` was drawn at random.
    pub fn new(dead_after: Duration, balance: bool, policy: Policy, seed: u64) -> Self {
        let (salt, moved) = (AtomicU64::new(seed), Mutex::default());
        Self { dead_after, balance, policy, salt, moved, decisions: Decisions::default() }
    }

    /// Whether replicas and leaders move to be even.
    pub fn balances(&self) -> bool {
        self.balance
    }

    fn settings(&self) -> Settings {
        let salt = self.salt.fetch_add(1, Ordering::Relaxed);
        let Self { policy, balance, .. } = *self;
        Settings { policy, balance, salt, ..Settings::default() }
    }

    /// The shard is not moved to be even for a while.
    pub(super) fn rest(&self, shard: ShardId) {
        self.moved.lock().insert(shard, Instant::now());
    }

    /// For how long the shard rests yet, because it was moved lately.
    fn rests(&self, shard: ShardId) -> Option<Duration> {
        let mut moved = self.moved.lock();
        moved.retain(|_, at| at.elapsed() < COOL_DOWN);
        moved.get(&shard).map(|at| COOL_DOWN.saturating_sub(at.elapsed()))
    }
}

/// What would be decided about a shard.
pub struct Would {
    /// The decision.
    pub decided: Decided,
    /// Why it would wait all the same.
    pub waits: Option<String>,
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
        let leader_of = |shard| peers.lookup.shard(shard).and_then(|known| known.leader());
        placement.decisions.review(&led, &nodes, leader_of);
        let rests = |shard| placement.rests(shard).is_some();
        for (led, decision) in decide_all(&nodes, &led, || placement.settings(), rests) {
            let shard = led.descriptor.shard;
            if decision.why.is_choice() {
                placement.moved.lock().insert(shard, Instant::now());
            }
            let decided = self.decided(peers, led, &decision);
            tracing::info!("shard {shard}: {}", self.told(peers, &decided));
            placement.decisions.add(decided);
            let Decision { add, remove, .. } = decision;
            let generation = led.descriptor.generation;
            self.submit(shard, Input::Exchange { shard, generation, add, remove });
        }
        self.place_leaders(peers, &nodes, &led);
    }

    /// What would be decided now if `balance` were on, about each shard led here as if it alone
    /// were decided about.
    pub fn would_place(&self) -> Vec<Would> {
        let Some(peers) = &self.peers else { return Vec::new() };
        let placement = &peers.placement;
        let led = self.led(true);
        let nodes = self.nodes_to_place(peers, &led);
        let changing = led.iter().filter(|led| led.is_changing()).count();
        let settings = Settings { balance: true, damp: false, ..placement.settings() };
        let mut all = Vec::new();
        for led in &led {
            let shard = led.shard();
            if let Some(decision) = decide(&nodes, &shard, &settings) {
                let rests = placement.rests(shard.shard).filter(|_| decision.why.is_choice());
                let waits = match rests {
                    Some(left) => Some(format!("it was moved lately: {} s yet", left.as_secs())),
                    None if changing >= AT_ONCE => {
                        Some(format!("shards are changing that this node leads: {changing}"))
                    }
                    None => None,
                };
                all.push(Would { decided: self.decided(peers, led, &decision), waits });
            }
            let candidates: Vec<_> = shard
                .replicas
                .iter()
                .copied()
                .filter(|(replica, _)| *replica != led.replica && shard.voters.contains(replica))
                .collect();
            if let Some((to, why)) = heir(&nodes, &shard, &candidates, &settings) {
                all.extend(
                    self.led_by(peers, led, to, &why).map(|decided| Would { decided, waits: None }),
                );
            }
        }
        all
    }

    /// What this node has decided lately, the oldest first.
    pub fn decisions(&self) -> Vec<Decided> {
        self.peers.as_ref().map(|peers| peers.placement.decisions.all()).unwrap_or_default()
    }

    /// Whether it moves replicas and leaders to be even.
    pub fn balances(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| peers.placement.balance)
    }

    fn decided(&self, peers: &Peers, led: &Led, decision: &Decision) -> Decided {
        let Decision { add, remove, why, effect } = decision;
        let what = What::Replicas {
            add: add.clone(),
            remove: remove.clone(),
            predicted: *effect,
            generation: led.descriptor.generation,
        };
        self.noted(led, what, why.words(&|node| called(node, &peers.cluster.members())))
    }

    fn led_by(&self, peers: &Peers, led: &Led, to: ReplicaId, why: &WhyLeader) -> Option<Decided> {
        let what = What::Leader { to, node: led.descriptor.node_of(to)? };
        let why = why.words(&|node| called(node, &peers.cluster.members()));
        Some(self.noted(led, what, why))
    }

    fn noted(&self, led: &Led, what: What, why: String) -> Decided {
        let (at_ms, since, shard) = (self.millis(), Instant::now(), led.descriptor.shard);
        Decided { at_ms, since, shard, what, why, came: Came::UnderWay }
    }

    /// A decision in words, but for its shard.
    fn told(&self, peers: &Peers, decided: &Decided) -> String {
        let members = peers.cluster.members();
        let why = &decided.why;
        match &decided.what {
            What::Replicas { add, remove, predicted, .. } => {
                let on: Vec<String> = add.iter().map(|id| called(*id, &members)).collect();
                let go: Vec<String> = remove.iter().map(ReplicaId::to_string).collect();
                let (on, go) = (on.join(", "), go.join(", "));
                format!("replicas come [{on}], go [{go}], because {why}; {predicted}")
            }
            What::Split { right, at, .. } => {
                format!("it is cut at {at}, and shard {right} begins, because {why}")
            }
            What::Merge { right, .. } => format!("it takes in shard {right}, because {why}"),
            What::Leader { to, node } => {
                let node = called(*node, &members);
                format!("replica {to} on {node} is to lead, because {why}")
            }
        }
    }

    /// Hands leaderships over that should be elsewhere.
    fn place_leaders(&self, peers: &Peers, nodes: &Nodes, led: &[Led]) {
        let is_leaving = self.is_leaving(self.node_id);
        let mut heirs: BTreeMap<_, _> = self.heirs(peers).into_iter().collect();
        for led in led {
            let Some(candidates) = heirs.remove(&led.descriptor.shard) else { continue };
            let placed = |id: ReplicaId| Some((id, led.descriptor.node_of(id)?));
            let mut candidates: Vec<_> = candidates.into_iter().filter_map(placed).collect();
            // Who has just started is handed nothing, unless this node is to be left.
            candidates.retain(|(_, node)| is_leaving || self.is_settled(*node));
            let shard = led.shard();
            let settings = peers.placement.settings();
            if let Some((to, why)) = heir(nodes, &shard, &candidates, &settings) {
                let shard = shard.shard;
                // Who leads next would not know what was asked for.
                if why.is_choice() && self.is_to_take_in(shard) {
                    continue;
                }
                if let Some(decided) = self.led_by(peers, led, to, &why) {
                    tracing::info!("shard {shard}: {}", self.told(peers, &decided));
                    peers.placement.decisions.add(decided);
                }
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
        let mut all = Vec::new();
        let mut see = |view: &View, asked: u8, placement| {
            let state: &ShardState = &view.read();
            let Some(replica) = leaders.get(&state.descriptor.shard) else { return };
            let usage = state.keys().map(|engine| engine.usage());
            let members = &state.members;
            all.push(Led {
                descriptor: state.descriptor.clone(),
                voters: placed(&state.descriptor, &members.voters),
                learners: members.learners.clone(),
                is_joint: members.is_joint(),
                is_settled: state.roster.is_settled,
                replica: *replica,
                bytes: usage.map_or(0, |usage| usage.live_bytes + usage.old_bytes),
                requests: self.heat.rate(state.descriptor.shard),
                wanted: led::wanted(usize::from(asked), members.voters.len(), balance),
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
        all
    }

    /// All nodes, as the balancer wants to know them: also those of which nobody knows any more.
    fn nodes_to_place(&self, peers: &Peers, led: &[Led]) -> Nodes {
        let dead_after = peers.placement.dead_after;
        let (members, standings) = (peers.cluster.members(), self.standings());
        let wrong = self.nodes_with_wrong_clocks();
        let slow = self.nodes_with_slow_disks(&members);
        let told = members.iter().map(|member| {
            let is_here = member.node == self.node_id;
            Told {
                id: member.node,
                domain: member.domain.as_str().into(),
                is_up: is_here || member.is_up(),
                since: member.since.elapsed(),
                is_suspected: member.suspected,
                is_slow: wrong.contains(&member.node)
                    || slow.contains(&member.node)
                    || is_here && self.clocks.is_far(),
                replicas: member.load.shards,
                leaders: member.load.leaders,
                bytes: member.load.data_bytes,
                requests: member.load.requests.unwrap_or(0),
            }
        });
        // Whoever was forgotten has been down for long; or this node has not been told yet.
        let is_told = self.started.elapsed() >= dead_after;
        nodes_to_place(told, &standings, dead_after, led, is_told)
    }

    /// Whether a node should be given no lead.
    pub(super) fn is_leaving(&self, node: NodeId) -> bool {
        !self.standing(node).keeps_replicas()
    }
}
