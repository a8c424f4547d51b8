//! Walks over lookups of every age: each ends at the owner's leader, in few hops.

use std::num::NonZeroUsize;
use std::sync::Arc as Shared;

use keyspace::{Generation, NodeId, ShardId};
use overlay::lh::memory::ADDRESSES_MAX;
use overlay::route_cache::ROUTE_CACHE_ENTRIES_MAX;
use overlay::{
    FullTable, HOPS_MAX, KnownShard, LearnOutcome, LinearHashCache, Lookup, LookupPath, Point,
    RouteCache, Step, Update,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::history::{History, KEYSPACES, NODES, histories, tails};

fn everybody() -> Vec<NodeId> {
    (1..=NODES).map(NodeId).collect()
}

/// Nodes that know their own shards, and of others what they were told once.
struct Cluster {
    history: History,
    nodes: Vec<FullTable>,
}

/// What a node says to one who asks it for a point.
enum Answer {
    Owner,
    Adjust(Shared<KnownShard>),
    Nothing,
}

impl Cluster {
    fn new(history: History, told: &[(u64, Index)]) -> Self {
        let mut nodes: Vec<FullTable> = (0..NODES).map(FullTable::new).collect();
        for (node, index) in told {
            nodes[*node as usize].learn(Update::Shard(index.get(&history.all).clone()));
        }
        for known in &history.now {
            for (_, node) in &known.descriptor().replicas {
                nodes[node.0 as usize - 1].learn(Update::Shard(Shared::new(known.clone())));
            }
        }
        Self { history, nodes }
    }

    /// Only the owner's leader answers; the first replica if nobody led yet.
    fn ask(&self, node: NodeId, point: Point<'_>) -> Answer {
        if self.history.owner(point).descriptor().node_to_ask() == Some(node) {
            return Answer::Owner;
        }
        let table = self.nodes[node.0 as usize - 1].table();
        table.owner(point).map_or(Answer::Nothing, |known| Answer::Adjust(known.clone()))
    }

    /// Walks to the owner; answers the hops it took, `None` if it never came there.
    fn walk(&self, lookup: &mut dyn Lookup, point: Point<'_>, spread: usize) -> Option<u8> {
        let mut walk = LookupPath::new(0, spread);
        while let Some(hop) = walk.next(lookup, point) {
            match self.ask(hop.node, point) {
                Answer::Owner => return Some(walk.hops()),
                Answer::Adjust(known) => {
                    lookup.learn(Update::Shard(known));
                }
                Answer::Nothing => {}
            }
        }
        assert_eq!(walk.hops(), HOPS_MAX);
        None
    }
}

proptest! {
    #[test]
    fn lookup_with_any_stale_routes_ends_at_owner(
        history in histories(8),
        told in prop::collection::vec((0..NODES, any::<Index>()), 0..40),
        mine in prop::collection::vec(any::<Index>(), 0..20),
        tail in tails(),
        spread: usize,
    ) {
        let cluster = Cluster::new(history, &told);
        let mut image = RouteCache::new(ROUTE_CACHE_ENTRIES_MAX);
        let (mut full, mut lh) = (FullTable::new(7), LinearHashCache::new(ADDRESSES_MAX));
        for lookup in [&mut image as &mut dyn Lookup, &mut full, &mut lh] {
            lookup.peers(&everybody());
            for index in &mine {
                lookup.learn(Update::Shard(index.get(&cluster.history.all).clone()));
            }
            for keyspace in KEYSPACES {
                let point = Point { keyspace, tail: &tail };
                let hops = cluster.walk(lookup, point, spread);
                prop_assert!(hops.is_some(), "the owner was never asked");
                // It has learnt the way, but for a leader that the owner itself would name.
                let owner = cluster.history.owner(point);
                if let Step::Owner(known) = lookup.next(point) {
                    prop_assert!(known.generation() <= owner.generation());
                }
            }
        }
    }

    #[test]
    fn current_routes_need_one_hop(history in histories(24), tail in tails()) {
        let cluster = Cluster::new(history, &[]);
        let mut full = FullTable::new(7);
        let mut image = RouteCache::new(ROUTE_CACHE_ENTRIES_MAX);
        for known in &cluster.history.all {
            full.learn(Update::Shard(known.clone()));
            image.learn(Update::Shard(known.clone()));
        }
        for keyspace in KEYSPACES {
            let point = Point { keyspace, tail: &tail };
            prop_assert_eq!(cluster.walk(&mut full, point, 0), Some(1));
            prop_assert_eq!(cluster.walk(&mut image, point, 0), Some(1));
        }
    }

    #[test]
    fn a_small_image_stays_small_and_still_finds(
        history in histories(16),
        told in prop::collection::vec(any::<Index>(), 0..40),
        points in prop::collection::vec((0..2usize, tails()), 1..10),
    ) {
        let mut cluster = Cluster::new(history.clone(), &[]);
        for node in &mut cluster.nodes {
            for known in &history.all {
                node.learn(Update::Shard(known.clone()));
            }
        }
        let mut image = RouteCache::new(NonZeroUsize::new(2).unwrap());
        image.peers(&everybody());
        for index in told {
            let known = index.get(&cluster.history.all);
            let learnt = image.learn(Update::Shard(known.clone()));
            prop_assert_ne!(learnt, LearnOutcome::TooLarge, "another makes room");
            prop_assert!(image.table().len() <= 2);
        }
        for (keyspace, tail) in &points {
            let point = Point { keyspace: KEYSPACES[*keyspace], tail };
            prop_assert!(cluster.walk(&mut image, point, 0).is_some());
            prop_assert!(image.table().len() <= 2);
        }
    }
}

/// A history of one shard for each keyspace, held by nodes 2, 3 and 4 or the like.
fn still() -> History {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    histories(0).new_tree(&mut runner).expect("a history").current()
}

#[test]
fn lookup_tries_each_replica_once_then_peers() {
    let history = still();
    let known = Shared::new(history.now[0].clone());
    let tail = known.arc().start().tail();
    let point = Point { keyspace: known.arc().keyspace(), tail };
    let nodes: Vec<NodeId> = known.descriptor().replicas.iter().map(|(_, node)| *node).collect();
    let mut image = RouteCache::new(ROUTE_CACHE_ENTRIES_MAX);
    let mut full = FullTable::new(7);
    for lookup in [&mut image as &mut dyn Lookup, &mut full] {
        lookup.peers(&[NodeId(70), NodeId(71)]);
        lookup.learn(Update::Shard(known.clone()));
        let mut walk = LookupPath::new(0, 1);
        let mut asked = |lookup: &mut dyn Lookup| walk.next(lookup, point).map(|hop| hop.node);
        for node in &nodes {
            assert_eq!(asked(lookup), Some(*node));
        }
        assert_eq!(asked(lookup), Some(NodeId(71)));
        assert_eq!(asked(lookup), Some(NodeId(70)));
        // The same again is no reason to ask the replicas again.
        lookup.learn(Update::Shard(known.clone()));
        assert_eq!(asked(lookup), Some(NodeId(71)));
        // A new leader is.
        lookup.learn(Update::Shard(known.clone()));
        let hint = overlay::Hint { leader: known.descriptor().replicas[1].0, term: 1 };
        assert_eq!(
            lookup.learn(Update::Leader { shard: known.shard(), hint }),
            LearnOutcome::Leader
        );
        assert_eq!(asked(lookup), Some(nodes[1]));
    }
}

#[test]
fn lookup_ends_at_hop_limit_or_without_peers() {
    let point = Point { keyspace: KEYSPACES[0], tail: b"" };
    let mut image = RouteCache::new(ROUTE_CACHE_ENTRIES_MAX);
    assert_eq!(LookupPath::new(0, 0).next(&mut image, point), None);
    image.peers(&everybody());
    let mut walk = LookupPath::new(HOPS_MAX - 2, 0);
    assert!(walk.next(&mut image, point).is_some_and(|hop| hop.shard.is_none()));
    assert!(walk.next(&mut image, point).is_some());
    assert_eq!((walk.next(&mut image, point), walk.hops()), (None, HOPS_MAX));
}

#[test]
fn unreachable_shard_leaves_route_cache_but_not_full_table() {
    let history = still();
    let known = Shared::new(history.now[0].clone());
    let point = Point { keyspace: known.arc().keyspace(), tail: known.arc().start().tail() };
    let (shard, generation) = (known.shard(), known.generation());
    let later = Generation(generation.0 + 1);

    let mut image = RouteCache::new(ROUTE_CACHE_ENTRIES_MAX);
    image.learn(Update::Shard(known.clone()));
    image.mark_unreachable(shard, later);
    assert_eq!(image.next(point), Step::Owner(&known), "another generation is meant");
    image.mark_unreachable(shard, generation);
    assert_eq!(image.next(point), Step::Ask(&[]));

    let mut full = FullTable::new(7);
    full.learn(Update::Shard(known.clone()));
    full.mark_unreachable(shard, generation);
    assert_eq!(full.next(point), Step::Owner(&known), "there is nobody else to ask");
    full.peers(&everybody());
    assert_eq!(full.next(point), Step::Ask(&everybody()));
    assert_eq!(full.learn(Update::Shard(known.clone())), LearnOutcome::Known);
    assert_eq!(full.next(point), Step::Owner(&known), "a peer confirmed it");
    full.mark_unreachable(shard, generation);
    full.mark_unreachable(ShardId(999), generation);
    full.tick(&mut Vec::new());
    assert_eq!(full.next(point), Step::Owner(&known), "a tick gives it another chance");
    assert!(full.table().shard(shard).is_some());
}
