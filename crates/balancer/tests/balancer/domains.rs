//! No two replicas of a shard in one failure domain while another is free.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::cluster::{Cluster, MIB};

/// Of each shard no domain holds two more than another that could have one of them.
fn assert_spread(cluster: &Cluster) {
    for group in &cluster.groups {
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        let mut free: BTreeMap<&str, bool> = BTreeMap::new();
        let on = group.nodes();
        for node in cluster.nodes.values() {
            let (here, domain) = (on.contains(&node.id), &*node.domain);
            *held.entry(domain).or_default() += usize::from(here);
            *free.entry(domain).or_default() |= node.takes && !here;
        }
        let most = held.values().max().expect("domains");
        let least = held.iter().filter(|(domain, _)| free[*domain]).map(|(_, held)| held).min();
        assert!(least.is_none_or(|least| least + 1 >= *most), "{held:?} {group:?}");
    }
}

/// Nodes in domains; `sizes` has the nodes of each.
fn with_domains(sizes: &[u64]) -> Cluster {
    let mut cluster = Cluster::new(0);
    let domains = (0..).zip(sizes).flat_map(|(domain, size)| (0..*size).map(move |_| domain));
    for (id, domain) in (1..).zip(domains) {
        cluster.join(id, &format!("rack {domain}"));
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn replicas_are_parted(
        sizes in prop::collection::vec(1..5u64, 2..6), wanted in 0..3usize, shards in 10..40usize,
    ) {
        let mut cluster = with_domains(&sizes);
        let nodes = sizes.iter().sum::<u64>();
        cluster.add_shards(shards, nodes.min(4), |random| (32 + random.below(64)) * MIB);
        cluster.groups.iter_mut().for_each(|group| group.wanted = 2 * wanted + 1);
        // Nearly always 40 rounds do; once in thousands the last wish takes its time.
        cluster.settle(2_000);
        assert_spread(&cluster);
    }

    /// A domain fails as a whole and comes back.
    #[test]
    fn lost_domains_are_made_up_for(per_domain in 2..5u64, domains in 3..6usize) {
        let mut cluster = with_domains(&vec![per_domain; domains]);
        cluster.add_shards(60, per_domain * domains as u64, |_| 64 * MIB);
        cluster.settle(400);
        assert_spread(&cluster);
        (1..=per_domain).for_each(|id| cluster.kill(id));
        cluster.settle(400);
        cluster.assert_full_strength();
        (1..=per_domain).for_each(|id| cluster.join(id, "rack 0"));
        cluster.settle(400);
        assert_spread(&cluster);
        cluster.assert_replicas_even();
    }
}

/// Racks of one, one and four nodes: the single ones must hold a replica of each shard, and the
/// four share what is left evenly, though all four are below the mean.
#[test]
fn nodes_within_a_domain_are_even_where_domains_are_not() {
    let mut cluster = with_domains(&[1, 1, 4]);
    for _ in 0..40 {
        cluster.add_shard(&[1, 2, 3], 3, 64 * MIB);
    }
    cluster.settle(400);
    assert_spread(&cluster);
    let replicas = cluster.loads(|node| node.replicas.into());
    assert_eq!(replicas[..2], [40, 40]);
    assert!(replicas[2..].iter().all(|count| (9..=11).contains(count)), "{replicas:?}");
}
