//! Full tables that talk: they become equal whatever is lost, and stop talking when they are.

use std::collections::VecDeque;
use std::sync::Arc as Shared;

use keyspace::{Arc, Descriptor, Generation, KeyspaceId, NodeId, Position, ReplicaId, ShardId};
use overlay::full::{RUMOUR_PEERS, SHARDS_MESSAGES_MAX};
use overlay::message::MESSAGE_BYTES_MAX;
use overlay::{FullTable, Hint, KnownShard, LearnOutcome, Lookup, Message, Outbox, Update};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::history::{KEYSPACES, histories};

/// Full tables and what is on its way between them. Node `n` is at index `n`.
struct World {
    nodes: Vec<FullTable>,
    /// From, to, bytes.
    flying: VecDeque<(usize, usize, Vec<u8>)>,
    sent: usize,
}

impl World {
    fn new(count: usize) -> Self {
        let mut nodes: Vec<FullTable> =
            (0..count).map(|index| FullTable::new(index as u64)).collect();
        for (index, node) in nodes.iter_mut().enumerate() {
            let others = (0..count).filter(|other| *other != index);
            node.peers(&others.map(|other| NodeId(other as u64)).collect::<Vec<_>>());
        }
        Self { nodes, flying: VecDeque::new(), sent: 0 }
    }

    /// All that a node says goes out as bytes.
    fn send(&mut self, from: usize, out: Outbox) {
        for (to, message) in out {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            self.sent += 1;
            self.flying.push_back((from, to.0 as usize, bytes));
        }
    }

    fn tick(&mut self, node: usize) {
        let mut out = Outbox::new();
        self.nodes[node].tick(&mut out);
        assert!(out.len() <= 1 + RUMOUR_PEERS * SHARDS_MESSAGES_MAX);
        self.send(node, out);
    }

    fn deliver(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let mut out = Outbox::new();
        let message = Message::decode(bytes).expect("written by a node");
        self.nodes[to].step(NodeId(from as u64), message, &mut out);
        assert!(out.len() <= 1 + SHARDS_MESSAGES_MAX);
        self.send(to, out);
    }

    /// Delivers everything in order, until nothing flies.
    fn settle(&mut self) {
        while let Some((from, to, bytes)) = self.flying.pop_front() {
            self.deliver(from, to, &bytes);
        }
    }

    /// One round without faults: every node ticks, everything arrives.
    fn round(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.tick(node));
        self.settle();
    }

    fn is_equal(&self) -> bool {
        let first = self.nodes[0].table();
        self.nodes.iter().all(|node| {
            let table = node.table();
            table.iter().eq(first.iter()) && table.dropped() == first.dropped()
        })
    }

    /// Rounds without faults until all tables are equal.
    fn rounds_until_equal(&mut self, max: usize) -> usize {
        for rounds in 0..max {
            if self.is_equal() {
                return rounds;
            }
            self.round();
        }
        assert!(self.is_equal(), "not equal after {max} rounds");
        max
    }
}

proptest! {
    #[test]
    fn two_undisturbed_exchanges_make_two_tables_equal(
        history in histories(24),
        told in prop::collection::vec((0..2usize, any::<Index>()), 0..60),
        drops in prop::collection::vec((0..2usize, 0..2usize), 0..2),
    ) {
        let mut world = World::new(2);
        for (node, index) in told {
            // Of another's message, so that it is no rumour.
            let shards = Message::Shards(vec![index.get(&history.all).clone()]);
            world.nodes[node].step(NodeId(9), shards, &mut Outbox::new());
        }
        for (node, keyspace) in drops {
            world.nodes[node].learn(Update::Dropped(KEYSPACES[keyspace]));
        }
        world.tick(0);
        world.settle();
        let ranks = |node: &FullTable| {
            node.table().iter().map(|known| known.rank()).collect::<Vec<_>>()
        };
        prop_assert_eq!(ranks(&world.nodes[0]), ranks(&world.nodes[1]));
        world.tick(0);
        world.settle();
        prop_assert!(world.is_equal());
        // Only a digest flies then, and nobody answers it.
        world.sent = 0;
        world.tick(1);
        world.settle();
        prop_assert_eq!(world.sent, 1);
    }

    #[test]
    fn what_is_lost_repeated_or_late_only_takes_longer(
        history in histories(24),
        knows in prop::collection::vec(0..5usize, 60),
        faults in prop::collection::vec((any::<Index>(), 0..4u8), 0..200),
        dropped in prop::option::of(0..5usize),
    ) {
        let mut world = World::new(5);
        // Each copy is known by one node at least: its own shard's.
        for (known, node) in history.all.iter().zip(knows.iter().cycle()) {
            world.nodes[*node].learn(Update::Shard(known.clone()));
        }
        if let Some(node) = dropped {
            world.nodes[node].learn(Update::Dropped(KEYSPACES[1]));
        }
        for (step, (index, fault)) in faults.into_iter().enumerate() {
            if step % 8 == 0 {
                world.tick(step / 8 % 5);
            }
            if world.flying.is_empty() {
                continue;
            }
            // Any message may be next.
            let (from, to, bytes) = world.flying.remove(index.index(world.flying.len())).unwrap();
            match fault {
                0 => {}
                1 => {
                    world.deliver(from, to, &bytes);
                    world.deliver(from, to, &bytes);
                }
                _ => world.deliver(from, to, &bytes),
            }
        }
        world.settle();
        world.rounds_until_equal(10);
        if dropped.is_none() {
            history.check(world.nodes[0].table());
        } else {
            prop_assert_eq!(world.nodes[0].table().keyspace(KEYSPACES[1]).count(), 0);
        }
    }

    #[test]
    fn no_message_of_another_node_upsets_a_table(
        history in histories(12),
        versions in prop::collection::vec((0..9u64, 0..9u64, 0..9u64), 0..9),
        sum: u64,
    ) {
        let mut world = World::new(2);
        for known in &history.all {
            world.nodes[0].learn(Update::Shard(known.clone()));
        }
        let shards = versions.iter().map(|(shard, _, _)| ShardId(*shard)).collect();
        let known = |(shard, generation, term): &(u64, u64, u64)| {
            // No real arc, but always the same for one shard and generation.
            let descriptor = descriptor(100 + shard, *generation, &[*generation as u8]);
            Shared::new(KnownShard::new(descriptor, *term))
        };
        let known: Vec<_> = versions.iter().map(known).collect();
        for message in [
            Message::Digest { dropped: sum, sums: Box::new([sum; 256]) },
            Message::Summary((0..=255).map(|bucket| (bucket, Vec::new())).collect()),
            Message::Want(shards),
            Message::Rumour(known.clone()),
            Message::Shards(known),
        ] {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            world.deliver(1, 0, &bytes);
        }
        world.settle();
        world.rounds_until_equal(10);
    }
}

/// A shard that owns from a tail to the end of the circle, or all of it.
fn descriptor(shard: u64, generation: u64, tail: &[u8]) -> Descriptor {
    let at = |tail: &[u8]| Position::at(KeyspaceId(1), tail);
    Descriptor {
        shard: ShardId(shard),
        arc: Arc::new(at(tail), at(b"")).unwrap(),
        replicas: vec![(ReplicaId(1), NodeId(1))],
        generation: Generation(generation),
        leader: Some(ReplicaId(1)),
    }
}

/// What a node holds: shard, generation, and the arc between two tails.
type Held<'a> = (u64, u64, &'a [u8], &'a [u8]);

/// Tells two nodes what each holds, lets the first begin an exchange, and answers what each holds
/// then, by shard and generation.
fn exchange(held: [&[Held<'_>]; 2]) -> [Vec<(u64, u64)>; 2] {
    let mut world = World::new(2);
    for (node, held) in held.iter().enumerate() {
        let known = held.iter().map(|(shard, generation, start, end)| {
            let at = |tail: &[u8]| Position::at(KeyspaceId(1), tail);
            let arc = Arc::new(at(start), at(end)).unwrap();
            let descriptor = Descriptor { arc, ..descriptor(*shard, *generation, b"") };
            Shared::new(KnownShard::new(descriptor, 0))
        });
        let shards = Message::Shards(known.collect());
        world.nodes[node].step(NodeId(9), shards, &mut Outbox::new());
        assert_eq!(world.nodes[node].table().len(), held.len(), "they contradict each other");
    }
    world.tick(0);
    world.settle();
    [0, 1].map(|node: usize| {
        let held = world.nodes[node].table().iter();
        let mut held: Vec<_> = held.map(|known| (known.shard().0, known.generation().0)).collect();
        held.sort();
        held
    })
}

#[test]
fn exchange_sends_rows_uncovered_by_newer_ones() {
    // Shard 3 replaces shard 2, and so nothing known is newer than shard 1.
    let held = exchange([&[(1, 1, b"a", b"c"), (3, 3, b"c", b"d")], &[(2, 2, b"b", b"d")]]);
    assert_eq!(held, [[(1, 1), (3, 3)], [(1, 1), (3, 3)]]);
}

#[test]
fn exchange_sends_wanted_row_before_it_is_replaced() {
    // Shard 5 replaces the newer copy of shard 4, which yet shows that the older one is too old.
    let held = exchange([&[(4, 4, b"m", b"n"), (5, 8, b"n", b"p")], &[(4, 6, b"m", b"p")]]);
    assert_eq!(held, [[(5, 8)], [(5, 8)]]);
}

/// Shards that tile keyspace 1, with tails of so many bytes.
fn tiling(count: u64, tail_bytes: usize) -> Vec<Update> {
    let position = |number: u64| {
        let mut tail = number.to_be_bytes().to_vec();
        tail.resize(tail_bytes, 0);
        Position::at(KeyspaceId(1), if number.is_multiple_of(count) { &[] } else { &tail })
    };
    let shard = |number: u64| {
        let arc = Arc::new(position(number), position(number + 1)).unwrap();
        let descriptor = Descriptor { arc, ..descriptor(number + 1, 1, &[]) };
        Update::Shard(KnownShard::new(descriptor, 1).into())
    };
    (0..count).map(shard).collect()
}

#[test]
fn a_node_that_joins_learns_twenty_thousand_shards_in_bounded_pieces() {
    let mut world = World::new(2);
    for news in tiling(20_000, 8) {
        assert_eq!(world.nodes[0].learn(news), LearnOutcome::New);
    }
    let rounds = world.rounds_until_equal(8);
    // A summary tells at most 8 192 shards.
    assert!(rounds >= 2, "a summary told all at once: {rounds}");
    assert_eq!(world.nodes[1].table().len(), 20_000);
}

#[test]
fn shards_with_the_longest_ends_get_through() {
    let mut world = World::new(2);
    for news in tiling(24, overlay::known_shard::TAIL_BYTES_MAX) {
        assert_eq!(world.nodes[0].learn(news), LearnOutcome::New);
    }
    // One fits into each message, and four messages into an exchange.
    world.rounds_until_equal(6);
}

#[test]
fn a_rumour_reaches_most_nodes_at_once_and_dies_out() {
    let mut world = World::new(32);
    for news in tiling(100, 8) {
        world.nodes[0].learn(news);
    }
    world.rounds_until_equal(16);
    for _ in 0..8 {
        world.round();
    }
    // A new leader, told by one node. Digests are lost from here on: rumours alone carry it.
    let hint = Hint { leader: ReplicaId(1), term: 2 };
    let learnt = world.nodes[7].learn(Update::Leader { shard: ShardId(50), hint });
    assert_eq!(learnt, LearnOutcome::Leader);
    let mut rumours = 0;
    for _ in 0..12 {
        (0..32).for_each(|node| world.tick(node));
        let flying = std::mem::take(&mut world.flying);
        for (from, to, bytes) in flying {
            if matches!(Message::decode(&bytes), Ok(Message::Rumour(_))) {
                rumours += 1;
                world.deliver(from, to, &bytes);
            }
        }
    }
    let knows = |node: &&FullTable| node.table().shard(ShardId(50)).unwrap().term() == 2;
    let count = world.nodes.iter().filter(knows).count();
    assert!(count >= 24, "{count} of 32");
    assert_eq!(rumours, count * RUMOUR_PEERS, "each tells it once to each of its peers");
    world.rounds_until_equal(8);
}
