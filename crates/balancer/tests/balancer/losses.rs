//! Nodes die, are drained, and come back.

use balancer::Unavailable;
use proptest::prelude::*;

use crate::cluster::{Cluster, MIB};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// One by one, down to three: whatever is lost is replaced, and spread evenly.
    #[test]
    fn dead_nodes_are_replaced(nodes in 5..14u64, shards in 20..60usize, seed: u64) {
        let mut cluster = Cluster::new(nodes);
        cluster.add_shards(shards, nodes, |random| (50 + random.below(20)) * MIB);
        let mut alive: Vec<u64> = (1..=nodes).collect();
        for step in 0..nodes - 3 {
            let index = (seed.rotate_left(step as u32 * 7) % alive.len() as u64) as usize;
            cluster.kill(alive.remove(index));
            cluster.settle(400);
            cluster.assert_full_strength();
        }
        // With three nodes each has all.
        cluster.assert_bytes_even();
    }

    #[test]
    fn drained_nodes_are_emptied(nodes in 4..14u64, shards in 20..60usize, which in 0..14u64) {
        let mut cluster = Cluster::new(nodes);
        cluster.add_shards(shards, nodes, |_| 64 * MIB);
        let which = 1 + which % nodes;
        cluster.drain(which);
        cluster.settle(400);
        cluster.assert_full_strength();
        let node = cluster.picture();
        let node = node.get(keyspace::NodeId(which)).expect("known");
        prop_assert_eq!((node.replicas, node.leaders, node.bytes), (0, 0, 0));
    }
}

#[test]
fn four_of_nine_are_lost_and_come_back() {
    let mut cluster = Cluster::new(9);
    cluster.add_shards(120, 9, |_| 64 * MIB);
    cluster.settle(400);
    for lost in [2, 4, 6, 8] {
        cluster.kill(lost);
        cluster.settle(400);
        cluster.assert_full_strength();
        cluster.assert_replicas_even();
    }
    for back in [2, 4, 6, 8] {
        cluster.join(back, "");
    }
    cluster.settle(400);
    cluster.assert_full_strength();
    cluster.assert_replicas_even();
    cluster.assert_bytes_even();
}

/// Two of five replicas die at the same time, and one change replaces both.
#[test]
fn all_dead_voters_are_replaced_at_once() {
    let mut cluster = Cluster::new(8);
    cluster.add_shard(&[1, 2, 3, 4, 5], 5, 64 * MIB);
    cluster.kill(1);
    cluster.kill(4);
    cluster.node(5).unavailable = Some(Unavailable::Removed);
    assert_eq!(cluster.round(), 1);
    cluster.assert_full_strength();
}

#[test]
fn the_dead_are_replaced_even_where_balance_is_off() {
    let mut cluster = Cluster::new(6);
    cluster.add_shards(30, 6, |_| 64 * MIB);
    cluster.settings.balance = false;
    cluster.kill(2);
    cluster.settle(2);
    cluster.assert_full_strength();
}

#[test]
fn a_drain_without_anywhere_to_go_waits() {
    let mut cluster = Cluster::new(3);
    cluster.add_shards(10, 3, |_| 64 * MIB);
    cluster.settle(400);
    cluster.drain(1);
    cluster.settle(400);
    // Replicas stay, but they lead nothing.
    let nodes = cluster.picture();
    let node = nodes.get(keyspace::NodeId(1)).expect("known");
    assert_eq!((node.replicas, node.leaders), (10, 0));
    cluster.join(4, "");
    cluster.settle(400);
    cluster.assert_full_strength();
}

#[test]
fn shards_grow_and_shrink_to_what_is_wanted() {
    let mut cluster = Cluster::new(1);
    for _ in 0..30 {
        cluster.add_shard(&[1], 3, 0);
    }
    cluster.settle(400);
    cluster.join(2, "");
    cluster.settle(400);
    // Two nodes are no better than one, so nothing has moved but what evenness asks for.
    assert!(cluster.groups.iter().all(|group| group.replicas.len() == 1));
    cluster.join(3, "");
    cluster.settle(400);
    cluster.assert_full_strength();
    (4..=7).for_each(|id| cluster.join(id, ""));
    for wanted in [5, 7, 3, 1] {
        cluster.groups.iter_mut().for_each(|group| group.wanted = wanted);
        cluster.settle(400);
        cluster.assert_full_strength();
        cluster.assert_replicas_even();
    }
}
