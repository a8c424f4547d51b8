//! Leaders ask the balancer, as the server's do: replicas leave nodes that are dead or draining,
//! and spread over those that have joined.
//!
//! ```text
//!   gossip: which nodes are up, their loads ┐
//!   catalogue, or its cache: admin states ──┼─► Nodes ─► decide ─► Exchange
//!   the shard's descriptor and members ─────┘        └─► transfer_target ─► Transfer
//! ```
//! Control does all of that ([`node::control`]), in both drivers; this file supplies its gossip.
//! Times are shorter than a server's, which would only make runs longer.

use keyspace::{Keyspace, NodeId};
use node::control::{Gossip, Input};

use super::gossip::{self, GOSSIP_MS};
use super::{KEYSPACE, World};

/// Once in so many milliseconds a node decides about the shards it leads.
const DECIDE_MS: u64 = 500;
/// How long gossip has to tell a process of all nodes before its first decision.
const UNTOLD_MS: u64 = 1_500;
/// How long a node is up before it is handed shards to lead.
const SETTLED_MS: u64 = 1_000;
/// A node that was down for so long, as another knows, has lost its replicas' places to it.
pub(super) const DEAD_AFTER_MS: u64 = 2_000;

/// What a cluster needs that arranges itself.
#[derive(Debug, Default)]
pub(super) struct PlacementState {
    pub gossip: gossip::Gossip,
    /// Failure domains of nodes, by their places; of those beyond, none is known.
    pub domains: Vec<Box<str>>,
}

impl World {
    /// From now on leaders ask the balancer.
    pub(super) fn begin_placement(&mut self, domains: Vec<Box<str>>) {
        self.placement_state = Some(PlacementState { domains, ..PlacementState::default() });
        for machine in self.node_slots.iter_mut().filter_map(|seat| seat.machine.as_mut()) {
            machine.cache_catalogue();
        }
    }

    /// A process has begun.
    pub(super) fn restart_placement(&mut self, at: usize) {
        if let Some(placement_state) = &mut self.placement_state {
            placement_state.gossip.forget(at);
            if let Some(machine) = &mut self.node_slots[at].machine {
                machine.cache_catalogue();
            }
        }
    }

    /// Spreads gossip, and lets leaders decide, one after the other.
    pub(super) fn step_placement(&mut self) {
        if self.placement_state.is_none() {
            return;
        }
        if self.now_ms.is_multiple_of(GOSSIP_MS) {
            self.gossip();
        }
        // They do not decide all at the same moment.
        let turn = self.now_ms % DECIDE_MS;
        for at in 0..self.node_slots.len() {
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
            KEYSPACE => self.profile.replicas,
            _ => usize::from(keyspace.options.replicas),
        }
    }

    /// A node decides about the shards that it leads.
    fn place_led(&mut self, at: usize) {
        let (now_ms, started_at) = (self.now_ms, self.node_slots[at].started_at);
        let Some(placement_state) = &self.placement_state else { return };
        if now_ms - started_at < UNTOLD_MS {
            return;
        }
        let ids: Vec<NodeId> = self.node_slots.iter().map(|seat| seat.node).collect();
        let heard = &placement_state.gossip;
        let of = |is: &dyn Fn(usize) -> bool| {
            let places = 0..ids.len();
            places.filter(|other| is(*other)).map(|other| ids[other]).collect()
        };
        let gossip = Gossip {
            reports: heard.reports_at(at, &ids, &placement_state.domains, now_ms),
            linked: of(&|other| heard.are_together(at, other)),
            settled: of(&|other| heard.is_up_for(at, other, SETTLED_MS, now_ms)),
            is_complete: now_ms - started_at >= UNTOLD_MS + DEAD_AFTER_MS,
            ..Gossip::default()
        };
        if let Some(machine) = &mut self.node_slots[at].machine {
            machine.tell(Input::PlanPlacement(Box::new(gossip)));
        }
        self.follow_sent_on(at);
    }
}
