//! The balancer's decisions for all shards that a node leads.
//!
//! It decides for each shard by itself, but not for all at once: every change sends a state to
//! another node. So at most [`CHANGES_MAX`] shards change at a time. For balance alone fewer do, if
//! they are large ([`REBALANCE_BYTES_MAX`]), and a shard moved for balance rests a while. It always
//! removes learners that will never vote, because that ends a change. The driver lists the shards
//! that it leads ([`LedShard`]) and those that rest, and carries out the decisions.

use keyspace::{Descriptor, Placement, ReplicaId, ShardId};

use crate::decide::{Decision, decide};
use crate::nodes::Nodes;
use crate::policy::place_of;
use crate::reason::DecisionReason;
use crate::shard::{PlacementSettings, Shard};

/// The most shards led at one node whose replicas change at one time.
pub const CHANGES_MAX: usize = 4;

/// Bytes of changing shards, led at one node, beyond which none moves for balance alone; so a large
/// one moves alone. All leaders send states to a node that joins, at the same time. There is no
/// hurry, and clients of both nodes would notice.
pub const REBALANCE_BYTES_MAX: u64 = 8 << 20;

/// A shard that this node leads, owned: what [`Shard`] borrows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedShard {
    /// Its replicas and their nodes.
    pub descriptor: Descriptor,
    /// Those that vote and have a place ([`placed`]).
    pub voters: Vec<ReplicaId>,
    /// Those that do not vote yet.
    pub learners: Vec<ReplicaId>,
    /// Whether a change of members is under way.
    pub is_joint: bool,
    /// Whether its newest change is known to be over.
    pub is_settled: bool,
    /// The replica here, which leads.
    pub replica: ReplicaId,
    /// Keys and values in it.
    pub bytes: u64,
    /// Requests a second for it.
    pub requests: u32,
    /// How many replicas it should have ([`wanted`]).
    pub wanted: usize,
    /// How its keys are laid out.
    pub placement: Placement,
}

impl LedShard {
    /// Whether its replicas are being changed.
    pub fn is_changing(&self) -> bool {
        self.is_joint || !self.learners.is_empty() || !self.is_settled
    }

    /// The shard, to be decided about.
    pub fn shard(&self) -> Shard<'_> {
        Shard {
            shard: self.descriptor.shard,
            place: place_of(&self.descriptor.arc, self.placement),
            replicas: &self.descriptor.replicas,
            voters: &self.voters,
            learners: &self.learners,
            is_joint: self.is_joint,
            is_settled: self.is_settled,
            wanted: self.wanted,
            bytes: self.bytes,
            leader: self.replica,
            requests: self.requests,
        }
    }
}

/// The voters that have a place. Whose place another was to take, and did not, goes with the next
/// change.
pub fn placed(descriptor: &Descriptor, voters: &[ReplicaId]) -> Vec<ReplicaId> {
    let is_placed = |voter: &ReplicaId| descriptor.node_of(*voter).is_some();
    voters.iter().copied().filter(is_placed).collect()
}

/// How many replicas a shard should have, of which its keyspace asks for `asked`. If nothing is to
/// be evened out, as many as it has: others see to that it grows. Never to rest at an even number
/// (SAFETY G20).
pub fn wanted(asked: usize, voters: usize, balance: bool) -> usize {
    if balance { asked } else { voters | 1 }
}

/// Decides for all shards that a node leads, in their order. `settings` gives each its own; `rests`
/// names those that were moved for balance lately.
pub fn decide_all<'l>(
    nodes: &Nodes,
    led: &'l [LedShard],
    mut settings: impl FnMut() -> PlacementSettings,
    rests: impl Fn(ShardId) -> bool,
) -> Vec<(&'l LedShard, Decision)> {
    let is_changing = |led: &&LedShard| led.is_changing();
    let mut changing = led.iter().filter(is_changing).count();
    let mut bytes: u64 = led.iter().filter(is_changing).map(|led| led.bytes).sum();
    let mut decided = Vec::new();
    for led in led {
        let shard = led.shard();
        let Some(decision) = decide(nodes, &shard, &settings()) else { continue };
        let is_call_off = matches!(decision.why, DecisionReason::RemoveLearner { .. });
        let is_much = changing > 0 && bytes + led.bytes > REBALANCE_BYTES_MAX;
        let waits = || decision.why.is_choice() && (is_much || rests(shard.shard));
        if !is_call_off && (changing >= CHANGES_MAX || waits()) {
            continue;
        }
        if !is_call_off {
            (changing, bytes) = (changing + 1, bytes + led.bytes);
        }
        decided.push((led, decision));
    }
    decided
}

#[cfg(test)]
mod tests {
    use keyspace::{Arc, Generation, KeyspaceId, NodeId};

    use super::*;
    use crate::nodes::{Node, Unavailable};

    fn led(shard: u64, nodes: &[u64], learners: usize) -> LedShard {
        let replicas: Vec<_> =
            (1..).zip(nodes).map(|(id, node)| (ReplicaId(id), NodeId(*node))).collect();
        let mut voters: Vec<_> = replicas.iter().map(|(replica, _)| *replica).collect();
        let learners = voters.split_off(voters.len() - learners);
        let descriptor = Descriptor {
            shard: ShardId(shard),
            arc: Arc::whole(KeyspaceId(1)),
            generation: Generation(1),
            replicas,
            leader: None,
        };
        LedShard {
            descriptor,
            voters,
            learners,
            is_joint: false,
            is_settled: true,
            replica: ReplicaId(1),
            bytes: 0,
            requests: 0,
            wanted: 3,
            placement: Placement::Ordered,
        }
    }

    fn nodes(dead: u64) -> Nodes {
        let node = |id| {
            let unavailable = (id == dead).then_some(Unavailable::Dead);
            let is_alive = unavailable.is_none();
            Node { id: NodeId(id), takes: is_alive, is_alive, unavailable, ..Node::default() }
        };
        Nodes::new((1..=4).map(node).collect())
    }

    #[test]
    fn so_many_at_once_and_calling_off_is_none_of_them() {
        let mut all: Vec<LedShard> = (1..=9).map(|shard| led(shard, &[1, 2, 3], 0)).collect();
        let decided = |led: &[LedShard], rests: bool| {
            let decided = decide_all(&nodes(3), led, PlacementSettings::default, |_| rests);
            decided.iter().map(|(led, _)| led.descriptor.shard.0).collect::<Vec<_>>()
        };
        assert_eq!(decided(&all, true), [1, 2, 3, 4], "to leave a dead node is no choice");
        all[7] = led(8, &[1, 2, 4, 3], 1);
        all[0].is_joint = true;
        assert_eq!(decided(&all, false), [2, 3, 8], "two change, one is called off");
    }

    #[test]
    fn shard_moved_for_balance_rests() {
        let crowded = |id| Node {
            id: NodeId(id),
            takes: true,
            is_alive: true,
            replicas: if id < 4 { 40 } else { 0 },
            ..Node::default()
        };
        let nodes = Nodes::new((1..=4).map(crowded).collect());
        let all = [led(1, &[1, 2, 3], 0)];
        let settings = || PlacementSettings { damps_moves: false, ..PlacementSettings::default() };
        assert_eq!(decide_all(&nodes, &all, settings, |_| false).len(), 1);
        assert_eq!(decide_all(&nodes, &all, settings, |_| true).len(), 0);
    }

    #[test]
    fn large_ones_are_moved_by_choice_one_at_a_time_and_of_need_all_at_once() {
        let crowded = |id| Node {
            id: NodeId(id),
            takes: true,
            is_alive: true,
            replicas: if id < 4 { 40 } else { 0 },
            ..Node::default()
        };
        let uneven = Nodes::new((1..=4).map(crowded).collect());
        let settings = || PlacementSettings { damps_moves: false, ..PlacementSettings::default() };
        let decided =
            |nodes: &Nodes, all: &[LedShard]| decide_all(nodes, all, settings, |_| false).len();
        let all = |bytes| (1..=9).map(|id| LedShard { bytes, ..led(id, &[1, 2, 3], 0) }).collect();
        let (small, large): (Vec<LedShard>, Vec<LedShard>) =
            (all(REBALANCE_BYTES_MAX / 9), all(REBALANCE_BYTES_MAX));
        assert_eq!((decided(&uneven, &small), decided(&uneven, &large)), (CHANGES_MAX, 1));
        assert_eq!(decided(&nodes(3), &large), CHANGES_MAX);
        let mut changing = large;
        changing[8].is_joint = true;
        assert_eq!(decided(&uneven, &changing), 0, "it waits for what is under way");
    }

    #[test]
    fn voter_without_place_does_not_count() {
        let led = led(1, &[1, 2, 3], 0);
        let voters = [1, 2, 3, 9].map(ReplicaId);
        assert_eq!(placed(&led.descriptor, &voters), [1, 2, 3].map(ReplicaId));
        assert_eq!((wanted(5, 2, true), wanted(5, 2, false)), (5, 3));
    }
}
