//! Clusters come to rest, and are even then.

use balancer::PlacementSettings;
use proptest::prelude::*;

use crate::cluster::{Cluster, MIB};

/// Rounds in which `moves` moves of at most `cap` each can be made, and many more for chance: once
/// in thousands the last wishes take their time.
fn bound(moves: usize, cap: usize) -> usize {
    1_200 + 3 * moves / cap
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// With at least eight shards of equal size on each node.
    #[test]
    fn equal_shards_are_spread_evenly(
        nodes in 3..24u64, per_node in 8..20u64, start in 3..24u64, age in 0..7usize,
        cap in 4..40usize,
    ) {
        let mut cluster = Cluster::new(nodes);
        let count = (nodes * per_node).div_ceil(3) as usize;
        cluster.add_shards(count, start.min(nodes), |_| 64 * MIB);
        (cluster.age, cluster.cap) = (age, cap);
        cluster.settle(bound(count * 3, cap));
        cluster.assert_bytes_even();
        cluster.assert_replicas_even();
    }

    #[test]
    fn shards_of_any_size_are_spread_evenly(
        nodes in 4..20u64, per_node in 24..40u64, low in 1..64u64,
    ) {
        let mut cluster = Cluster::new(nodes);
        let count = (nodes * per_node).div_ceil(3) as usize;
        cluster.add_shards(count, nodes, |random| (low + random.below(64)) * MIB);
        cluster.settle(bound(count * 3, 100));
        cluster.assert_bytes_even();
        cluster.assert_replicas_even();
    }

    /// Nobody has data: replicas are what counts.
    #[test]
    fn empty_shards_are_spread_by_number(nodes in 3..30u64, per_node in 1..30u64) {
        let mut cluster = Cluster::new(nodes);
        cluster.add_shards((nodes * per_node).div_ceil(3) as usize, 3, |random| random.below(9));
        cluster.settle(400);
        cluster.assert_replicas_even();
    }

    #[test]
    fn nothing_moves_where_balance_is_off(nodes in 3..20u64) {
        let mut cluster = Cluster::new(nodes);
        cluster.add_shards(50, 3, |_| 64 * MIB);
        cluster.settings.balance = false;
        prop_assert_eq!((cluster.wishes(), cluster.round()), (0, 0));
    }
}

#[test]
fn two_nodes_join_three() {
    let mut cluster = Cluster::new(3);
    cluster.add_shards(40, 3, |_| 64 * MIB);
    cluster.settle(400);
    assert_eq!(cluster.moves, 0);
    cluster.join(4, "");
    cluster.join(5, "");
    let rounds = cluster.settle(400);
    cluster.assert_bytes_even();
    cluster.assert_replicas_even();
    // 48 of 120 have to move.
    assert!(cluster.moves <= 60, "{} moves in {rounds} rounds", cluster.moves);
}

#[test]
fn ninety_five_nodes_join_five() {
    let mut cluster = Cluster::new(5);
    cluster.add_shards(400, 5, |random| (32 + random.below(64)) * MIB);
    cluster.settle(400);
    cluster.moves = 0;
    (6..=100).for_each(|id| cluster.join(id, ""));
    (cluster.age, cluster.cap) = (2, 60);
    let rounds = cluster.settle(400);
    cluster.assert_bytes_even();
    // 1140 of 1200 have to move.
    assert!(cluster.moves <= 1_500, "{} moves in {rounds} rounds", cluster.moves);
}

/// All leaders see the same empty node, and go on seeing it empty for two rounds.
#[test]
fn one_new_node_is_not_overrun() {
    for (nodes, shards) in [(3, 40), (9, 120), (99, 800)] {
        let mut cluster = Cluster::new(nodes);
        cluster.add_shards(shards, nodes, |_| 64 * MIB);
        cluster.settle(400);
        cluster.join(nodes + 1, "");
        cluster.age = 2;
        let mean = 3.0 * shards as f64 / (nodes + 1) as f64;
        for _ in 0..40 {
            cluster.round();
            let held = *cluster.loads(|node| node.replicas.into()).last().expect("a node");
            assert!((held as f64) < mean * 1.25, "{held} of {mean}");
        }
        cluster.settle(400);
        cluster.assert_bytes_even();
    }
}

#[test]
fn a_cluster_within_the_band_stays_as_it_is() {
    let mut cluster = Cluster::new(4);
    // 41, 40, 40, 39 replicas: within five in a hundred.
    for index in 0..40 {
        let nodes = [[1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2]][index % 4];
        cluster.add_shard(&nodes, 3, 64 * MIB);
    }
    let last = cluster.groups.iter().position(|group| !group.nodes().iter().any(|n| n.0 == 1));
    let replica = &mut cluster.groups[last.expect("one in four")].replicas[2];
    assert_eq!(replica.1.0, 4);
    replica.1.0 = 1;
    assert_eq!(cluster.loads(|node| node.replicas.into()), [31, 30, 30, 29]);
    assert_eq!(cluster.wishes(), 0);
    // A narrower band would have one moved.
    cluster.settings = PlacementSettings { band: 0.02, ..cluster.settings };
    assert_ne!(cluster.wishes(), 0);
}

#[test]
fn a_node_that_takes_nothing_keeps_what_it_has_and_gets_no_more() {
    let mut cluster = Cluster::new(5);
    cluster.add_shards(50, 5, |_| 64 * MIB);
    cluster.settle(400);
    cluster.node(5).takes = false;
    let before = cluster.picture().get(keyspace::NodeId(5)).expect("known").replicas;
    cluster.join(6, "");
    cluster.settle(400);
    let after = cluster.picture().get(keyspace::NodeId(5)).expect("known").replicas;
    assert!(after <= before && after > 0, "{before} {after}");
    cluster.assert_replicas_even();
}
