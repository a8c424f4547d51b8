//! Which failures can the cluster survive before a shard loses its majority? For `carillon prove`.
//!
//! A shard serves as long as a majority of its voters is alive, and a majority holds all that it
//! has acknowledged. Nodes, or failure domains, fail as a *unit*. The smallest set of units that
//! takes a majority from some shard is the promise of a placement:
//!
//! ```text
//!   shard 3: voters on a (rack 1), b (rack 1), c (rack 2)
//!     units are nodes:    {a, b} is smallest: any one node may fail
//!     units are domains:  {rack 1} is enough: the loss of one domain takes shard 3's majority
//! ```
//!
//! For one shard the smallest set takes the units with most of its voters first; for all shards it
//! is the smallest of these. That is exact, and takes time linear in the replicas, but for sorting.

use std::collections::BTreeMap;

use keyspace::{NodeId, ShardId};

/// A shard and the nodes that its voters are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voters {
    /// Which shard.
    pub shard: ShardId,
    /// How many it has, also those that cannot be counted on.
    pub count: usize,
    /// Where those are that can.
    pub nodes: Vec<NodeId>,
}

/// Units whose loss leaves a shard without a majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatalSet<U> {
    /// The shard.
    pub shard: ShardId,
    /// The units, those with most of its voters first. None: it has no majority now.
    pub units: Vec<U>,
    /// Voters that would be left.
    pub left: usize,
    /// Voters it has, wherever they are.
    pub voters: usize,
}

impl<U> FatalSet<U> {
    /// How many voters it needs.
    pub fn needed(&self) -> usize {
        self.voters / 2 + 1
    }
}

/// The fewest units whose loss takes a majority from this shard. `unit_of` names the unit of a
/// node; `None`: the node is lost already.
pub fn smallest_of<U: Ord + Clone>(
    shard: &Voters,
    unit_of: impl Fn(NodeId) -> Option<U>,
) -> FatalSet<U> {
    let voters = shard.count;
    let mut of_units: BTreeMap<U, usize> = BTreeMap::new();
    for unit in shard.nodes.iter().filter_map(|node| unit_of(*node)) {
        *of_units.entry(unit).or_default() += 1;
    }
    let mut left: usize = of_units.values().sum();
    let mut largest: Vec<(U, usize)> = of_units.into_iter().collect();
    largest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut units = Vec::new();
    for (unit, count) in largest {
        if left < voters / 2 + 1 {
            break;
        }
        left -= count;
        units.push(unit);
    }
    FatalSet { shard: shard.shard, units, left, voters }
}

/// For each shard its smallest set, the smallest of these first; among equal ones by shard.
pub fn smallest<U: Ord + Clone>(
    shards: &[Voters],
    unit_of: impl Fn(NodeId) -> Option<U>,
) -> Vec<FatalSet<U>> {
    let mut all: Vec<_> = shards.iter().map(|shard| smallest_of(shard, &unit_of)).collect();
    all.sort_by_key(|failing| (failing.units.len(), failing.shard));
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn shard(nodes: &[u64]) -> Voters {
        let nodes: Vec<_> = nodes.iter().copied().map(NodeId).collect();
        Voters { shard: ShardId(3), count: nodes.len(), nodes }
    }

    #[test]
    fn a_domain_with_two_of_three_is_enough() {
        let three = shard(&[1, 2, 3]);
        let nodes = smallest_of(&three, Some);
        assert_eq!((nodes.units.len(), nodes.left, nodes.needed()), (2, 1, 2));
        let racks = smallest_of(&three, |node| Some(if node.0 < 3 { "1" } else { "2" }));
        assert_eq!((racks.units, racks.left), (vec!["1"], 1));
        // One is down: any other is one too many.
        let down = smallest_of(&three, |node| (node.0 != 2).then_some(node));
        assert_eq!((down.units, down.left), (vec![NodeId(1)], 1));
        let lost = smallest_of(&three, |node| (node.0 == 2).then_some(node));
        assert_eq!((lost.units.len(), lost.left), (0, 1));
        // One of five lags: any two others are too many.
        let lagging = Voters { count: 5, ..shard(&[1, 2, 3, 4]) };
        assert_eq!(smallest_of(&lagging, Some).units.len(), 2);
        assert_eq!(smallest_of(&Voters { count: 5, ..three.clone() }, Some).units.len(), 1);
        let sole = smallest_of(&shard(&[7]), Some);
        assert_eq!((sole.left, sole.needed()), (0, 1));
        assert_eq!(sole.units, [NodeId(7)]);
    }

    #[test]
    fn the_weakest_shard_comes_first() {
        let weak = Voters { shard: ShardId(9), count: 1, nodes: vec![NodeId(1)] };
        let all = smallest(&[shard(&[1, 2, 3]), weak], Some);
        assert_eq!(all.iter().map(|failing| failing.shard.0).collect::<Vec<_>>(), [9, 3]);
    }

    proptest! {
        #[test]
        fn no_smaller_set_does(
            units in prop::collection::vec(prop::option::weighted(0.9, 0u8..5), 1..8),
        ) {
            let voters = shard(&(0..units.len() as u64).collect::<Vec<_>>());
            let unit_of = |node: NodeId| units[node.0 as usize];
            let found = smallest_of(&voters, unit_of);
            let fails = |lost: u8| {
                let stays = |unit: &&Option<u8>| unit.is_some_and(|unit| lost & 1 << unit == 0);
                units.iter().filter(stays).count() < units.len() / 2 + 1
            };
            let fewest = (0u8..32).filter(|lost| fails(*lost)).map(u8::count_ones).min();
            prop_assert_eq!(Some(found.units.len() as u32), fewest);
            let lost = found.units.iter().fold(0, |lost, unit| lost | 1 << unit);
            prop_assert!(fails(lost));
            let apart: BTreeSet<_> = found.units.iter().collect();
            prop_assert_eq!(apart.len(), found.units.len());
        }
    }
}
