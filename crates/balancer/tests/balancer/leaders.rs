//! Leaders leave nodes that are slow or to be left, and are spread among the others.

use balancer::{Gone, WhyLeader, heir};
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
        group.with(|shard| heir(&nodes, shard, &group.replicas, &cluster.settings))
    };
    let why = WhyLeader::Gone { node: NodeId(1), gone: Gone::Draining };
    assert_eq!(ask(&cluster), Some((ReplicaId(5), why)));
    assert_eq!(why.words(&|id| format!("node {id}")), "node 1 is draining");
    cluster.node(5).is_alive = false;
    assert_eq!(ask(&cluster), None);
}
