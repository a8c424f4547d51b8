//! Policies that fix a shard's nodes by its place on the ring.

use balancer::{DecisionReason, Policy};
use keyspace::NodeId;
use keyspace::random::mix;
use proptest::prelude::*;

use crate::cluster::{Cluster, Group, MIB};

/// The nodes in the order in which they follow a shard.
fn following(cluster: &Cluster, group: &Group) -> Vec<NodeId> {
    let place = group.with(|shard| shard.place);
    let mut nodes: Vec<NodeId> =
        cluster.nodes.values().filter(|node| node.takes).map(|node| node.id).collect();
    nodes.sort_by_key(|id| mix(id.0).wrapping_sub(place));
    nodes
}

fn sorted(mut nodes: Vec<NodeId>) -> Vec<NodeId> {
    nodes.sort_unstable();
    nodes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn successors_follow_the_shard(nodes in 3..20u64, joined in 0..4u64, lost in 0..2u64) {
        let mut cluster = Cluster::new(nodes);
        cluster.settings.policy = Policy::Successors;
        cluster.add_shards(40, nodes, |_| 64 * MIB);
        cluster.settle(400);
        (1..=joined).for_each(|id| cluster.join(nodes + id, ""));
        cluster.settle(400);
        if nodes > 3 + lost {
            (1..=lost).for_each(|id| cluster.kill(id));
            cluster.settle(400);
        }
        for group in &cluster.groups {
            let first = following(&cluster, group)[..3].to_vec();
            prop_assert_eq!(sorted(group.nodes()), sorted(first));
        }
    }

    #[test]
    fn symmetric_places_lie_in_sectors_of_their_own(nodes in 3..20u64, joined in 0..4u64) {
        let mut cluster = Cluster::new(nodes);
        cluster.settings.policy = Policy::Symmetric;
        cluster.add_shards(40, nodes, |_| 64 * MIB);
        cluster.settle(400);
        (1..=joined).for_each(|id| cluster.join(nodes + id, ""));
        cluster.settle(400);
        for group in &cluster.groups {
            let place = group.with(|shard| shard.place);
            let lies = |id: &NodeId| (u128::from(mix(id.0).wrapping_sub(place)) * 3) >> 64;
            for sector in 0..3 {
                let all = following(&cluster, group);
                let Some(first) = all.iter().find(|id| lies(id) == sector) else { continue };
                prop_assert!(group.nodes().contains(first), "{sector} {group:?} {all:?}");
            }
        }
    }

    #[test]
    fn fixed_places_respect_domains(
        sizes in prop::collection::vec(1..4u64, 3..6), symmetric: bool,
    ) {
        let mut cluster = Cluster::new(0);
        let domains = (0..).zip(&sizes).flat_map(|(domain, size)| (0..*size).map(move |_| domain));
        for (id, domain) in (1..).zip(domains) {
            cluster.join(id, &format!("rack {domain}"));
        }
        cluster.settings.policy = if symmetric { Policy::Symmetric } else { Policy::Successors };
        cluster.add_shards(30, sizes.iter().sum(), |_| 64 * MIB);
        cluster.settle(400);
        for group in &cluster.groups {
            let mut domains: Vec<&str> =
                group.nodes().iter().map(|id| &*cluster.nodes[id].domain).collect();
            domains.sort_unstable();
            domains.dedup();
            prop_assert_eq!(domains.len(), 3);
        }
    }
}

/// A node that seems down for a moment keeps its places, and gets none meanwhile.
#[test]
fn places_wait_for_a_node_that_is_suspected() {
    let mut cluster = Cluster::new(6);
    cluster.settings.policy = Policy::Successors;
    cluster.add_shards(30, 6, |_| 64 * MIB);
    cluster.settle(400);
    let places = cluster.places();
    let node = cluster.node(3);
    (node.takes, node.is_alive) = (false, false);
    assert_eq!(cluster.wishes(), 0);
    assert_eq!(cluster.places(), places);
}

#[test]
fn reasons_name_the_policy() {
    let mut cluster = Cluster::new(3);
    cluster.settings.policy = Policy::Successors;
    cluster.add_shards(20, 3, |_| MIB);
    cluster.join(4, "");
    let nodes = cluster.picture();
    let decide =
        |group: &Group| group.with(|shard| balancer::decide(&nodes, shard, &cluster.settings));
    let decision = cluster.groups.iter().find_map(decide).expect("a new successor for one of 20");
    assert!(matches!(decision.why, DecisionReason::Place { to: NodeId(4), .. }));
    assert!(
        decision
            .why
            .text(&|id| format!("node {id}"))
            .starts_with("the policy successors puts it on node 4")
    );
}
