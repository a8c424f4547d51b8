//! Leaders leave nodes that are slow or to be left, and are spread among the others.

use balancer::{TransferReason, Unavailable, transfer_target};
use keyspace::{NodeId, ReplicaId};
use proptest::prelude::*;

use crate::cluster::{Cluster, MIB};

fn leaders(cluster: &Cluster) -> Vec<u64> {
    cluster.loads(|node| node.leaders.into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn leaders_are_spread(nodes in 3..24u64, per_node in 4..20u64, age in 0..3usize) {
        let mut cluster = Cluster::new(nodes);
        let count = (nodes * per_node) as usize;
        cluster.add_shards(count, nodes, |_| 64 * MIB);
        cluster.age = age;
        // All led by the lowest node.
        for group in &mut cluster.groups {
            group.leader = group.replicas.iter().min_by_key(|(_, node)| *node).expect("three").0;
        }
        cluster.settle(400);
        let leaders = leaders(&cluster);
        let mean = count as f64 / nodes as f64;
        let most = *leaders.iter().max().expect("nodes") as f64;
        prop_assert!(most <= (mean * 1.1).max(mean + 1.5), "{:?}", leaders);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Shards that are asked unequally, the first ten times as often as the last.
    #[test]
    fn nodes_are_asked_evenly(nodes in 3..12u64, per_node in 16..30u64, age in 0..4usize) {
        let mut cluster = Cluster::new(nodes);
        let count = (nodes * per_node) as usize;
        cluster.add_shards(count, nodes, |_| 64 * MIB);
        cluster.age = age;
        for (number, group) in cluster.groups.iter_mut().enumerate() {
            group.requests = (9 * (count - number) / count + 1) as u32 * 1_000;
        }
        cluster.settle(4_000);
        let asked = cluster.loads(|node| node.requests.into());
        let mean = asked.iter().sum::<u64>() as f64 / nodes as f64;
        let most = *asked.iter().max().expect("nodes") as f64;
        // A tenth above the mean of its shards' nodes, which may be above the mean of all.
        prop_assert!(most <= mean * 1.2, "{:?}", asked);
    }
}

/// The front page's example, and a shard that is asked more than all others.
#[test]
fn a_hot_shard_does_not_wander() {
    let mut cluster = Cluster::new(2);
    for (leader, requests) in [(1, 9_000), (1, 2_000), (1, 1_000), (2, 1_000), (2, 1_000)] {
        cluster.add_shard(&[leader, 3 - leader], 1, MIB);
        cluster.groups.last_mut().expect("one").requests = requests;
    }
    cluster.settings.balance = true;
    let wish = |cluster: &Cluster, at: usize| {
        let settings = balancer::PlacementSettings { damps_moves: false, ..cluster.settings };
        let (nodes, group) = (cluster.picture(), &cluster.groups[at]);
        group
            .with(|shard| transfer_target(&nodes, shard, &group.replicas, &settings))
            .map(|(_, why)| why)
    };
    assert_eq!(wish(&cluster, 0), None);
    let why = wish(&cluster, 1).expect("the node has room");
    let words = "node 1 is asked 12000 times a second, node 2 2000; the mean is 7000";
    assert_eq!(why.text(&|id| format!("node {id}")), words);
    assert!(wish(&cluster, 2).is_some() && wish(&cluster, 3).is_none());
    // Where little is asked, numbers count alone: three shards and two are even.
    cluster.groups.iter_mut().for_each(|group| group.requests /= 10);
    assert!((0..5).all(|at| wish(&cluster, at).is_none()));
}

#[test]
fn slow_nodes_lead_nothing() {
    let mut cluster = Cluster::new(5);
    cluster.add_shards(50, 5, |_| 64 * MIB);
    cluster.settle(400);
    cluster.node(2).is_slow = true;
    cluster.settle(400);
    assert_eq!(leaders(&cluster)[1], 0);
    cluster.node(2).is_slow = false;
    cluster.settle(400);
    assert!(leaders(&cluster)[1] > 5);
}

#[test]
fn heirs_are_fit_to_lead() {
    let mut cluster = Cluster::new(5);
    cluster.add_shard(&[1, 2, 3, 4, 5], 5, MIB);
    cluster.drain(1);
    cluster.node(2).is_slow = true;
    cluster.node(3).is_alive = false;
    cluster.drain(4);
    let ask = |cluster: &Cluster| {
        let (nodes, group) = (cluster.picture(), &cluster.groups[0]);
        group.with(|shard| transfer_target(&nodes, shard, &group.replicas, &cluster.settings))
    };
    let why =
        TransferReason::NodeUnavailable { node: NodeId(1), unavailable: Unavailable::Draining };
    assert_eq!(ask(&cluster), Some((ReplicaId(5), why)));
    assert_eq!(why.text(&|id| format!("node {id}")), "node 1 is draining");
    cluster.node(5).is_alive = false;
    assert_eq!(ask(&cluster), None);
}
