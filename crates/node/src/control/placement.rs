//! Where should the replicas and leaders be of the shards that this node leads?
//!
//! There is no placement master. Each shard's leader decides for its own shard, from gossip about
//! the nodes, and proposes the change to its group. [`balancer`] computes the decision. This module
//! prepares its input, and limits how many changes are under way.
//!
//! ```text
//!   gossip: live nodes and their loads ────┐
//!   catalogue: cordoned, draining nodes … ─┼─► Nodes ─► decide ─► ChangeReplicas
//!   the shard's descriptor and members ─────┘        └─► transfer_target ─► Transfer
//! ```
//!
//! With balancing off, only necessary moves happen. Replicas leave nodes that have been down for
//! long, are draining, or were removed; leaders leave draining nodes.
//!
//! # Invariants
//! At most [`CHANGES_MAX`] of the shards led here change at a time. A shard that was moved for
//! balance then rests for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use balancer::led_shards::{self, CHANGES_MAX, LedShard, decide_all, placed};
use balancer::{
    Decision, NodeReport, Nodes, PlacementSettings, Policy, TransferReason, decide, nodes_to_place,
    transfer_target,
};
use keyspace::{Descriptor, NodeId, Placement as KeyPlacement, ReplicaId, ShardId};
use replication::BootNanos;

use super::decisions::{DecisionKind, DecisionOutcome, Decisions, RecordedDecision};
use super::{Control, Effect, Executors, Reply, SYSTEM};
use crate::executor::Input;
use crate::replica::catalogue::System;
use crate::replica::state::Content;
use crate::reshape::bootstrap;
use crate::routing::route::View;

/// How control places replicas and leaders.
#[derive(Clone, Copy, Debug)]
pub struct PlacementSetup {
    /// Whether replicas and leaders move to be even.
    pub balances: bool,
    /// Where new replicas go.
    pub policy: Policy,
    /// A node that was down for so long has lost its replicas' places.
    pub dead_after: Duration,
    /// How long a shard rests after a move that was for evenness only, in nanoseconds.
    pub cool_down: u64,
    /// How many replicas the system shard should have; none: as many as the keyspace with the most.
    pub system_replicas: Option<u8>,
}

/// What gossip reports of the nodes, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gossip {
    /// What each node is and carries.
    pub reports: Vec<NodeReport>,
    /// Nodes that this one is linked with.
    pub linked: BTreeSet<NodeId>,
    /// Nodes that have been up for a while.
    pub settled: BTreeSet<NodeId>,
    /// Nodes that should lead nothing: their clock or disk is bad.
    pub cannot_lead: BTreeSet<NodeId>,
    /// Whether this node's clock is far off.
    pub clock_is_far: bool,
    /// What people call nodes, if they have names.
    pub names: BTreeMap<NodeId, String>,
    /// Whether gossip has had time to tell of all nodes that are not dead.
    pub is_complete: bool,
}

impl Gossip {
    fn called(&self, node: NodeId) -> String {
        let name = self.names.get(&node).cloned();
        name.unwrap_or_else(|| format!("node {:016x}", node.0))
    }
}

/// What would be decided about a shard.
#[derive(Clone, Debug, PartialEq)]
pub struct DryRunDecision {
    /// The decision.
    pub decided: RecordedDecision,
    /// Why it would wait all the same.
    pub waits: Option<String>,
}

/// What control remembers about it.
#[derive(Debug, Default)]
pub(super) struct Placement {
    decided_times: u64,
    /// Shards that were moved lately, and when.
    moved: BTreeMap<ShardId, BootNanos>,
    /// Open decisions: those without a result.
    pub decisions: Decisions,
}

impl Control {
    /// The shard is not moved to be even for a while.
    pub(super) fn rest(&mut self, shard: ShardId) {
        self.placement.moved.insert(shard, self.now);
    }

    /// For how long shards rest yet that were moved lately, in nanoseconds.
    fn resting(&mut self) -> BTreeMap<ShardId, u64> {
        let (now, cool_down) = (self.now, self.setup.placement.cool_down);
        let left = |at: &BootNanos| cool_down.saturating_sub(now.saturating_sub(*at));
        self.placement.moved.retain(|_, at| left(at) > 0);
        self.placement.moved.iter().map(|(shard, at)| (*shard, left(at))).collect()
    }

    fn balance_settings(&mut self) -> PlacementSettings {
        self.placement.decided_times += 1;
        let salt = self.setup.seed.wrapping_add(self.placement.decided_times);
        let PlacementSetup { policy, balances, .. } = self.setup.placement;
        PlacementSettings { policy, balance: balances, salt, ..PlacementSettings::default() }
    }

    /// Decides about the shards that this node leads.
    pub(super) fn place(&mut self, gossip: &Gossip, executors: &mut dyn Executors) {
        let led = self.led(self.setup.placement.balances, executors);
        let nodes = self.nodes_to_place(gossip, &led);
        let table = &self.table;
        let leader_of = |shard| table.shard(shard).and_then(|known| known.leader());
        let outcome = self.placement.decisions.review(self.now, &led, &nodes, leader_of);
        self.effects.extend(outcome.into_iter().map(Effect::Event));
        let resting = self.resting();
        let decided = {
            let rests = |shard| resting.contains_key(&shard);
            decide_all(&nodes, &led, || self.balance_settings(), rests)
        };
        for (led, decision) in decided {
            let shard = led.descriptor.shard;
            if decision.why.is_choice() {
                self.rest(shard);
            }
            let decided = self.decided(gossip, led, &decision);
            self.note(decided);
            let (Decision { add, remove, .. }, generation) = (decision, led.descriptor.generation);
            self.submit(shard, Input::ChangeReplicas { shard, generation, add, remove });
        }
        self.place_leaders(gossip, &nodes, &led, executors);
    }

    /// Tells of a decision, and looks at what comes of it.
    fn note(&mut self, decided: RecordedDecision) {
        let event = self.placement.decisions.add(decided);
        self.effects.push(Effect::Event(event));
    }

    /// The same, of one that a shard is to be cut, or to take its neighbour in.
    pub(super) fn remember(&mut self, shard: ShardId, what: DecisionKind, why: String) {
        let decided = self.decision(shard, what, Vec::new(), why);
        self.note(decided);
    }

    fn decision(
        &self,
        shard: ShardId,
        what: DecisionKind,
        nodes: Vec<String>,
        why: String,
    ) -> RecordedDecision {
        let (number, since, outcome) = (0, self.now, DecisionOutcome::UnderWay);
        RecordedDecision { number, since, shard, what, nodes, why, outcome }
    }

    /// What would be decided now if balancing were on, about each shard led here as if it alone
    /// were decided about.
    pub(super) fn dry_run_placement(
        &mut self,
        id: u64,
        gossip: &Gossip,
        executors: &mut dyn Executors,
    ) {
        let led = self.led(true, executors);
        let nodes = self.nodes_to_place(gossip, &led);
        let changing = led.iter().filter(|led| led.is_changing()).count();
        let settings =
            PlacementSettings { balance: true, damps_moves: false, ..self.balance_settings() };
        let resting = self.resting();
        let mut all = Vec::new();
        for led in &led {
            let shard = led.shard();
            if let Some(decision) = decide(&nodes, &shard, &settings) {
                let rests = resting.get(&shard.shard).filter(|_| decision.why.is_choice());
                let waits = match rests {
                    Some(left) => {
                        let seconds = left / 1_000_000_000;
                        Some(format!("it was moved lately: {seconds} s yet"))
                    }
                    None if changing >= CHANGES_MAX => {
                        Some(format!("shards are changing that this node leads: {changing}"))
                    }
                    None => None,
                };
                all.push(DryRunDecision { decided: self.decided(gossip, led, &decision), waits });
            }
            let candidates = shard.replicas.iter().copied();
            let candidates: Vec<_> = candidates
                .filter(|(replica, _)| *replica != led.replica && shard.voters.contains(replica))
                .collect();
            if let Some((to, why)) = transfer_target(&nodes, &shard, &candidates, &settings) {
                let decided = self.led_by(gossip, led, to, &why);
                all.extend(decided.map(|decided| DryRunDecision { decided, waits: None }));
            }
        }
        self.effects.push(Effect::Reply { id, reply: Reply::DryRunPlacement(all) });
    }

    fn decided(&self, gossip: &Gossip, led: &LedShard, decision: &Decision) -> RecordedDecision {
        let Decision { add, remove, why, effect } = decision;
        let what = DecisionKind::Replicas {
            add: add.clone(),
            remove: remove.clone(),
            predicted: *effect,
            generation: led.descriptor.generation,
        };
        let why = why.text(&|node| gossip.called(node));
        let nodes = add.iter().map(|node| gossip.called(*node)).collect();
        self.decision(led.descriptor.shard, what, nodes, why)
    }

    fn led_by(
        &self,
        gossip: &Gossip,
        led: &LedShard,
        to: ReplicaId,
        why: &TransferReason,
    ) -> Option<RecordedDecision> {
        let node = led.descriptor.node_of(to)?;
        let why = why.text(&|node| gossip.called(node));
        let nodes = vec![gossip.called(node)];
        Some(self.decision(led.descriptor.shard, DecisionKind::Leader { to, node }, nodes, why))
    }

    /// Hands leaderships over that should be elsewhere.
    fn place_leaders(
        &mut self,
        gossip: &Gossip,
        nodes: &Nodes,
        led: &[LedShard],
        executors: &mut dyn Executors,
    ) {
        let is_leaving = !self.admin_states.of(self.setup.node).keeps_replicas();
        let mut targets = transfer_targets(&gossip.linked, executors);
        for led in led {
            let Some(candidates) = targets.remove(&led.descriptor.shard) else { continue };
            let placed = |id: ReplicaId| Some((id, led.descriptor.node_of(id)?));
            let mut candidates: Vec<_> = candidates.into_iter().filter_map(placed).collect();
            // Who has just started is handed nothing, unless this node is to be left.
            candidates.retain(|(_, node)| is_leaving || gossip.settled.contains(node));
            let (shard, settings) = (led.shard(), self.balance_settings());
            let Some((to, why)) = transfer_target(nodes, &shard, &candidates, &settings) else {
                continue;
            };
            let shard = shard.shard;
            // Who leads next would not know what was asked for.
            if why.is_choice() && self.is_to_take_in(shard) {
                continue;
            }
            if let Some(decided) = self.led_by(gossip, led, to, &why) {
                self.note(decided);
            }
            self.submit(shard, Input::Transfer { shard, to });
        }
    }

    /// The shards that this node leads, with what each should be like. If nothing is to be evened
    /// out, they should have as many replicas as they have: others see to that they grow.
    fn led(&self, balance: bool, executors: &mut dyn Executors) -> Vec<LedShard> {
        let mut leaders: BTreeMap<ShardId, ReplicaId> = BTreeMap::new();
        executors.look_at_all(&mut |executor| {
            let shards = executor.shards().filter(|shard| shard.is_leader());
            leaders.extend(shards.map(|shard| (shard.id(), shard.replica())));
        });
        let mut all = Vec::new();
        let mut see = |view: &View, asked: u8, placement| {
            let state = view.read();
            let Some(replica) = leaders.get(&state.descriptor.shard) else { return };
            let usage = state.engine().map(|engine| engine.usage());
            let members = &state.members;
            let rate = self.loads.rates.get(&state.descriptor.shard);
            all.push(LedShard {
                descriptor: state.descriptor.clone(),
                voters: placed(&state.descriptor, &members.voters),
                learners: members.learners.clone(),
                is_joint: members.is_joint(),
                is_settled: state.roster.is_settled,
                replica: *replica,
                bytes: usage.map_or(0, |usage| usage.live_bytes + usage.old_bytes),
                requests: rate.copied().unwrap_or_default(),
                wanted: led_shards::wanted(usize::from(asked), members.voters.len(), balance),
                placement,
            });
        };
        if let Some(system) = self.views.get(SYSTEM) {
            let most = self.routes.iter().map(|route| route.keyspace.options.replicas).max();
            let wanted = self.setup.placement.system_replicas.or(most);
            see(&system, wanted.unwrap_or(1), KeyPlacement::Ordered);
        }
        for route in self.routes.iter() {
            let options = route.keyspace.options;
            route.views.iter().for_each(|view| see(view, options.replicas, options.placement));
        }
        all
    }

    /// All nodes, as the balancer wants to know them: also those of which nobody knows any more.
    fn nodes_to_place(&self, gossip: &Gossip, led: &[LedShard]) -> Nodes {
        let dead_after = self.setup.placement.dead_after;
        let reports = gossip.reports.iter().cloned();
        nodes_to_place(reports, &self.admin_states, dead_after, led, gossip.is_complete)
    }

    /// Hands shards over to those of their replicas whose turn it is, so that every node leads its
    /// part, when their nodes have been there for a while.
    pub(super) fn spread_leaders(&mut self, gossip: &Gossip, executors: &mut dyn Executors) {
        // SAFETY G12: with a clock far off it leads as little as it can.
        let is_far = gossip.clock_is_far;
        let may_lead = |node: NodeId, states: &keyspace::AdminStates| {
            gossip.settled.contains(&node)
                && !gossip.cannot_lead.contains(&node)
                && states.of(node).keeps_replicas()
        };
        for (shard, targets) in transfer_targets(&gossip.linked, executors) {
            let Some(view) = self.views.get(shard) else { continue };
            // Who leads next would not know what was asked for.
            if self.is_to_take_in(shard) && !is_far {
                continue;
            }
            let to = {
                let descriptor = &view.read().descriptor;
                let fits = |to: &ReplicaId| is_far || bootstrap::campaigns_first(descriptor, *to);
                let to = targets.into_iter().find(fits);
                let may = |node| may_lead(node, &self.admin_states);
                to.filter(|to| descriptor.node_of(*to).is_some_and(may))
            };
            if let Some(to) = to {
                self.submit(shard, Input::Transfer { shard, to });
            }
        }
    }

    /// Has shards that this node leads get the replicas that their keyspaces ask for: the system
    /// shard on the first members, all others where that is.
    pub(super) fn add_replicas(&mut self, gossip: &Gossip) {
        let Some(system) = self.views.get(SYSTEM) else { return };
        let Some((wanted, system_nodes)) = system_shape(&system) else { return };
        let reports =
            gossip.reports.iter().filter(|reports| reports.is_up).map(|reports| reports.id);
        let up: Vec<NodeId> =
            reports.filter(|node| self.admin_states.of(*node).takes_replicas()).collect();
        self.grow(SYSTEM, &system, wanted, &up);
        let system_nodes: Vec<NodeId> =
            system_nodes.into_iter().filter(|node| up.contains(node)).collect();
        let routes = self.routes.clone();
        for route in routes.iter() {
            let wanted = usize::from(route.keyspace.options.replicas).min(system_nodes.len());
            for (shard, view) in route.shards().iter().zip(&route.views) {
                self.grow(*shard, view, wanted, &system_nodes);
            }
        }
    }

    /// Adds replicas on the first of `nodes` that have none, up to an odd number (SAFETY G20).
    fn grow(&mut self, shard: ShardId, view: &View, wanted: usize, nodes: &[NodeId]) {
        let (replicas, generation) = {
            let Descriptor { replicas, generation, .. } = &view.read().descriptor;
            (replicas.clone(), *generation)
        };
        if replicas.is_empty() || replicas.len() >= wanted {
            return;
        }
        let mut new: Vec<NodeId> = nodes.to_vec();
        new.retain(|node| replicas.iter().all(|(_, at)| at != node));
        new.truncate(wanted - replicas.len());
        if (replicas.len() + new.len()).is_multiple_of(2) {
            new.pop();
        }
        if new.is_empty() {
            return;
        }
        // A replica that does not lead ignores it.
        let remove = Vec::new();
        self.submit(shard, Input::ChangeReplicas { shard, generation, add: new, remove });
    }
}

/// How many replicas the system shard should have, and the nodes of its voters.
fn system_shape(system: &View) -> Option<(usize, Vec<NodeId>)> {
    let state = system.read();
    let Content::System(System { catalogue, .. }) = &state.content else { return None };
    let replicas = catalogue.iter().map(|keyspace| keyspace.options.replicas).max();
    let voters = state.members.voters.iter();
    let nodes = voters.filter_map(|replica| state.descriptor.node_of(*replica)).collect();
    Some((usize::from(replicas.unwrap_or(1)), nodes))
}

/// Shards that this node leads, each with the replicas that could take over.
fn transfer_targets(
    linked: &BTreeSet<NodeId>,
    executors: &mut dyn Executors,
) -> BTreeMap<ShardId, Vec<ReplicaId>> {
    let mut found = BTreeMap::new();
    executors.look_at_all(&mut |executor| {
        let targets = executor.shards().map(|shard| {
            let targets = shard.transfer_targets(|node| linked.contains(&node));
            (shard.id(), targets)
        });
        found.extend(targets.filter(|(_, targets)| !targets.is_empty()));
    });
    found
}
