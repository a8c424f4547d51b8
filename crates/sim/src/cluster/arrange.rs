//! Leaders ask the balancer, as the server's do: replicas leave nodes that are dead or draining,
//! and spread over those that have joined.
//!
//! ```text
//!   gossip: who is there, what they carry ──┐
//!   catalogue, or its image: who is drained ┼─► Nodes ─► decide ─► Exchange
//!   the shard's descriptor and members ─────┘        └─► heir ───► Transfer
//! ```
//! What a decision is made from is [`balancer::led`] and [`balancer::Told`], for both drivers; here
//! is where the simulated node has it from. Times are shorter than a server's, which would only
//! make runs longer.

use std::collections::BTreeMap;
use std::time::Duration;

use balancer::led::{Led, decide_all, placed};
use balancer::{Decision, Settings, heir, nodes_to_place};
use keyspace::{Generation, Keyspace, KeyspaceId, NodeId, Placement, ReplicaId, ShardId};
use node::lane::Input;

use super::gossip::{GOSSIP_MS, Gossip};
use super::{KEYSPACE, World};
use crate::machine::Machine;

/// Once in so many milliseconds a node decides about the shards it leads.
const DECIDE_MS: u64 = 500;
/// How long gossip has to tell a process of all nodes before its first decision.
const UNTOLD_MS: u64 = 1_500;
/// How long a node is up before it is handed shards to lead.
const SETTLED_MS: u64 = 1_000;
/// How long a shard rests after a move that was for evenness only.
const COOL_DOWN_MS: u64 = 2_000;
/// A node that was down for so long, as another knows, has lost its replicas' places to it.
pub(super) const DEAD_AFTER_MS: u64 = 2_000;

/// What a cluster needs that arranges itself.
#[derive(Debug, Default)]
pub(super) struct Arranging {
    pub gossip: Gossip,
    /// Failure domains of nodes, by their places; of those beyond, none is known.
    pub domains: Vec<Box<str>>,
    salt: u64,
    /// Shards that a node has moved by choice, and when.
    moved: BTreeMap<(usize, ShardId), u64>,
}

impl World {
    /// From now on leaders ask the balancer.
    pub(super) fn begin_arranging(&mut self, domains: Vec<Box<str>>) {
        self.arranging = Some(Arranging { domains, ..Arranging::default() });
        for machine in self.seats.iter_mut().filter_map(|seat| seat.machine.as_mut()) {
            machine.image.is_kept = true;
        }
    }

    /// A process has begun.
    pub(super) fn arrange_anew(&mut self, at: usize) {
        if let Some(arranging) = &mut self.arranging {
            arranging.gossip.forget(at);
            arranging.moved.retain(|(by, _), _| *by != at);
            if let Some(machine) = &mut self.seats[at].machine {
                machine.image.is_kept = true;
            }
        }
    }

    /// Gossip goes around, and leaders decide, each in its turn.
    pub(super) fn arrange(&mut self) {
        if self.arranging.is_none() {
            return;
        }
        if self.now_ms.is_multiple_of(GOSSIP_MS) {
            self.gossip();
        }
        // They do not decide all at the same moment.
        let turn = self.now_ms % DECIDE_MS;
        for at in 0..self.seats.len() {
            let is_turn = (at as u64 * 37) % DECIDE_MS == turn;
            if is_turn && self.is_awake(at) {
                self.place_led(at);
            }
        }
    }

    /// How many replicas each shard of a keyspace should have.
    pub(super) fn asked_of(&self, keyspace: &Keyspace) -> usize {
        match &*keyspace.name {
            // It may have begun with one.
            KEYSPACE => self.mood.replicas,
            _ => usize::from(keyspace.options.replicas),
        }
    }

    /// The shards that a node leads, if it knows how they should be.
    fn led_at(&self, machine: &Machine) -> Vec<Led> {
        let options = |id: KeyspaceId| match id {
            KeyspaceId(0) => Some((self.mood.system_replicas, Placement::Ordered)),
            _ => {
                let mut keyspaces = machine.routes.values().map(|route| &route.keyspace);
                let keyspace = keyspaces.find(|keyspace| keyspace.id == id)?;
                Some((self.asked_of(keyspace), keyspace.options.placement))
            }
        };
        let led = |id: ShardId| {
            let shard = machine.shard(id).filter(|shard| shard.is_leader())?;
            let view = shard.view();
            let state = view.read();
            let (wanted, placement) = options(state.descriptor.keyspace())?;
            let usage = state.keys().map(|engine| engine.usage());
            Some(Led {
                descriptor: state.descriptor.clone(),
                voters: placed(&state.descriptor, &state.members.voters),
                learners: state.members.learners.clone(),
                is_joint: state.members.is_joint(),
                is_settled: state.roster.is_settled,
                replica: shard.replica(),
                bytes: usage.map_or(0, |usage| usage.live_bytes + usage.old_bytes),
                requests: 0,
                wanted,
                placement,
            })
        };
        machine.shard_ids().into_iter().filter_map(led).collect()
    }

    /// A node decides about the shards that it leads.
    fn place_led(&mut self, at: usize) {
        let (now_ms, started_at) = (self.now_ms, self.seats[at].started_at);
        let Some(machine) = &self.seats[at].machine else { return };
        let led = self.led_at(machine);
        if led.is_empty() || now_ms - started_at < UNTOLD_MS {
            return;
        }
        let standings = machine.standings();
        let ids: Vec<NodeId> = self.seats.iter().map(|seat| seat.node).collect();
        let Some(mut arranging) = self.arranging.take() else { return };
        let told = arranging.gossip.told(at, &ids, &arranging.domains, now_ms);
        let dead_after = Duration::from_millis(DEAD_AFTER_MS);
        let is_told = now_ms - started_at >= UNTOLD_MS + DEAD_AFTER_MS;
        let nodes = nodes_to_place(told, &standings, dead_after, &led, is_told);

        let mut salt = arranging.salt;
        let mut settings = || {
            salt += 1;
            Settings { salt, ..Settings::default() }
        };
        arranging.moved.retain(|_, moved_ms| now_ms - *moved_ms < COOL_DOWN_MS);
        let rests = |shard| arranging.moved.contains_key(&(at, shard));
        let decided = decide_all(&nodes, &led, &mut settings, rests);
        let exchanges: Vec<(ShardId, Generation, Decision)> = decided
            .into_iter()
            .map(|(led, decision)| (led.descriptor.shard, led.descriptor.generation, decision))
            .collect();

        let is_leaving = !standings.of(ids[at]).keeps_replicas();
        let mut transfers: Vec<(ShardId, ReplicaId, String)> = Vec::new();
        for led in &led {
            let shard = machine.shard(led.descriptor.shard).expect("it is led here");
            let place = |node: NodeId| ids.iter().position(|id| *id == node);
            let gossip = &arranging.gossip;
            let is_linked = |node| place(node).is_some_and(|other| gossip.are_together(at, other));
            let is_settled = |node| {
                place(node).is_some_and(|other| gossip.is_up_for(at, other, SETTLED_MS, now_ms))
            };
            let placed = |id: ReplicaId| Some((id, led.descriptor.node_of(id)?));
            let mut heirs: Vec<_> = shard.heirs(is_linked).into_iter().filter_map(placed).collect();
            heirs.retain(|(_, node)| is_leaving || is_settled(*node));
            if let Some((to, why)) = heir(&nodes, &led.shard(), &heirs, &settings()) {
                let why = why.words(&|node| format!("node {node}"));
                transfers.push((led.descriptor.shard, to, why));
            }
        }
        arranging.salt = salt;
        for (shard, _, decision) in &exchanges {
            if decision.why.is_choice() {
                arranging.moved.insert((at, *shard), now_ms);
            }
        }
        self.arranging = Some(arranging);
        self.carry_out(at, exchanges, transfers);
    }

    fn carry_out(
        &mut self,
        at: usize,
        exchanges: Vec<(ShardId, Generation, Decision)>,
        transfers: Vec<(ShardId, ReplicaId, String)>,
    ) {
        let node = self.seats[at].node;
        let machine = self.seats[at].machine.as_mut().expect("it leads");
        for (shard, generation, decision) in exchanges {
            let Decision { add, remove, why, .. } = decision;
            let why = why.words(&|node| format!("node {node}"));
            self.trace.event(format_args!(
                "node {node}: shard {shard} to get {add:?}, to lose {remove:?}: {why}"
            ));
            self.counts.decisions += 1;
            machine.submit(shard, Input::Exchange { shard, generation, add, remove });
        }
        for (shard, to, why) in transfers {
            self.trace.event(format_args!("node {node}: shard {shard} to be led by {to}: {why}"));
            self.counts.handed_on += 1;
            machine.submit(shard, Input::Transfer { shard, to });
        }
    }
}
