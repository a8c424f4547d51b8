//! Rings under every order of joins, losses and failures: they close, and lead to owners.

use std::collections::BTreeSet;

use keyspace::random::Random;
use keyspace::{Arc, NodeId, Position, ShardId};
use overlay::ring::message::{RingMessage, Strategy as Of};
use overlay::ring::place::Members;
use overlay::ring::{Ring, SUCCESSORS, ideal};
use overlay::{LearnOutcome, Message, Step, Update};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::ring_world::{KEYSPACE, KINDS, Kind, Table, World, descriptor, point};

/// Rounds in which any ring of these sizes comes to rest, fingers and all.
const ROUNDS: usize = 400;

/// Places, of which some differ only after eight bytes.
fn places(max: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let crowded =
        prop::collection::vec(0..3u8, 0..3).prop_map(|rest| [&b"crowded!"[..], &rest].concat());
    let place = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 1..10),
        1 => crowded,
        1 => prop::collection::vec(0..4u8, 0..3),
    ];
    prop::collection::vec(place, 0..=max)
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(&KINDS[..])
}

#[derive(Clone, Debug)]
enum Event {
    Join { place: Index, told: bool, handed: bool },
    Merge(Index),
    Fail(Index),
    Tick(Index),
    Deliver { index: Index, again: bool },
    Lose(Index),
}

fn events(max: usize) -> impl Strategy<Value = Vec<Event>> {
    let index = any::<Index>;
    let event = prop_oneof![
        3 => (index(), any::<bool>(), any::<bool>())
            .prop_map(|(place, told, handed)| Event::Join { place, told, handed }),
        1 => index().prop_map(Event::Merge),
        1 => index().prop_map(Event::Fail),
        6 => index().prop_map(Event::Tick),
        8 => (index(), prop::bool::weighted(0.2))
            .prop_map(|(index, again)| Event::Deliver { index, again }),
        3 => index().prop_map(Event::Lose),
    ];
    prop::collection::vec(event, 0..=max)
}

/// Everything may happen, but failures without a word.
fn disturb(world: &mut World, places: &[Vec<u8>], events: &[Event]) {
    for event in events {
        let shards = world.shards();
        match event {
            Event::Join { place, told, handed } if !places.is_empty() => {
                world.split(place.get::<Vec<u8>>(places), *told, *handed);
            }
            Event::Merge(index) if world.rings().all(Ring::has_joined) => {
                let leaves = *index.get(&shards);
                if ideal::may_leave(world.rings(), leaves) {
                    world.merge(leaves);
                }
            }
            Event::Tick(index) => world.tick(*index.get(&shards)),
            Event::Deliver { index, again } if !world.flying.is_empty() => {
                world.deliver(index.index(world.flying.len()), *again);
            }
            Event::Lose(index) if !world.flying.is_empty() => {
                world.flying.remove(index.index(world.flying.len()));
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn joined_in_any_order_whatever_is_lost_the_ring_closes(
        kind in kinds(),
        length in 2..5usize,
        places in places(12),
        events in events(120),
    ) {
        let mut world = World::new(kind, length);
        disturb(&mut world, &places, &events);
        world.check_ways();
        world.rounds_until_ideal(ROUNDS);
        (0..ROUNDS).for_each(|_| world.round());
        world.check_tables();
        world.check_walks();
    }

    #[test]
    fn while_failures_keep_to_the_assumption_it_stays_one_ring(
        kind in kinds(),
        length in 2..4usize,
        places in places(14),
        events in events(150),
    ) {
        // Of at least r + 1 members.
        let fixed = [b"8".to_vec(), b"@".to_vec(), b"H".to_vec()];
        let first = [&fixed[..], &places[..places.len() / 2]].concat();
        let mut world = World::grown(kind, length, &first);
        prop_assert_eq!(ideal::invariant(world.rings()), Ok(()));
        for event in &events {
            let shards = world.shards();
            match event {
                Event::Join { place, told, handed: _ } if !places.is_empty() => {
                    world.split(place.get::<Vec<u8>>(&places), *told, true);
                }
                Event::Fail(index) => {
                    let fails = *index.get(&shards);
                    if ideal::may_fail(world.rings(), fails) {
                        world.fail(fails);
                    }
                }
                Event::Tick(index) => {
                    // Silence means death: a live member has answered before the silence limit.
                    let shard = *index.get(&shards);
                    exchange_of(&mut world, shard);
                    world.tick(shard);
                }
                Event::Deliver { index, .. } if !world.flying.is_empty() => {
                    let from = world.flying[index.index(world.flying.len())].from;
                    exchange_of(&mut world, ShardId(from.0));
                }
                _ => {}
            }
            prop_assert_eq!(ideal::invariant(world.rings()), Ok(()), "{}", world.drawn());
        }
        world.check_ways();
        world.rounds_until_ideal(ROUNDS);
        (0..ROUNDS).for_each(|_| world.round());
        world.check_tables();
        world.check_walks();
    }

    #[test]
    fn no_word_makes_a_table_panic_or_break_its_order(
        kind in kinds(),
        places in places(8),
        said in prop::collection::vec((any::<Index>(), any::<Index>(), 0..9u8, 0..5u64), 0..60),
    ) {
        let mut world = World::grown(kind, 2, &places);
        let shards = world.shards();
        let known: Vec<_> = world.rings().map(|ring| ring.me().clone()).collect();
        for (to, about, word, number) in said {
            let (to, from) = (*to.get(&shards), about.get(&known).clone());
            let some = || about.get(&known).clone();
            let word = match word {
                0 => RingMessage::Ask { number },
                1 => {
                    let (predecessor, successors) = (Some(some()), known.clone());
                    RingMessage::Neighbours { number, predecessor, successors }
                }
                2 => RingMessage::Notify,
                3 => RingMessage::Ping { number },
                4 => RingMessage::Pong { number },
                5 => RingMessage::Find {
                    number, asker: to, node: NodeId(to.0), hops: number as u8, target: number << 50,
                },
                6 => RingMessage::Found { number, member: some() },
                7 => RingMessage::AskFinger { number, level: number as u8 },
                _ => RingMessage::Finger { number, member: Some(some()) },
            };
            world.tick(to);
            world.send(NodeId(from.shard().0), vec![(NodeId(to.0), Message::Ring {
                strategy: kind.0, to, from, word,
            })]);
            world.deliver(world.flying.len() - 1, false);
        }
        world.flying.clear();
        world.rounds_until_ideal(ROUNDS);
        (0..ROUNDS).for_each(|_| world.round());
        world.check_tables();
    }
}

/// Delivers what a member has sent, and the answers to it. A second question that it asks meanwhile
/// stays open.
fn exchange_of(world: &mut World, shard: ShardId) {
    let said = world.flying.iter().filter(|flying| flying.from.0 == shard.0).count();
    for _ in 0..said {
        let from = |world: &World| world.flying.iter().position(|f| f.from.0 == shard.0);
        let Some(index) = from(world) else { return };
        world.deliver(index, false);
        // Answers to it come back at once, through all who pass a find on.
        while let Some(index) = world.flying.iter().position(|f| f.from.0 != shard.0) {
            world.deliver(index, false);
        }
    }
}

/// So many places, as far apart as chance puts them.
fn scattered(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let mut places: BTreeSet<[u8; 8]> = BTreeSet::new();
    while places.len() < count - 1 {
        places.insert(random.bits().to_be_bytes());
    }
    places.into_iter().map(|place| place.to_vec()).collect()
}

#[test]
fn tables_of_small_rings_are_right() {
    for kind in KINDS {
        for count in 1..=6 {
            let mut world = World::grown(kind, SUCCESSORS, &scattered(count, 7));
            (0..ROUNDS).for_each(|_| world.round());
            world.check_tables();
            let most = if kind.0 == Of::Linear { count - 1 } else { 3 };
            assert!(world.check_walks() <= most, "{kind:?} of {count}");
        }
    }
}

#[test]
fn equal_prefixes_are_told_apart() {
    let long = |byte: u8| [&[7; 8][..], &[byte]].concat();
    let places: Vec<Vec<u8>> = (0..20).map(long).collect();
    for kind in KINDS {
        let mut world = World::grown(kind, 2, &places);
        (0..ROUNDS).for_each(|_| world.round());
        world.check_tables();
        world.check_walks();
    }
}

#[test]
fn hops_are_as_promised() {
    for (kind, most) in KINDS.into_iter().zip([255, 9, 8, 8]) {
        let places = scattered(256, 1);
        let mut world = World::new(kind, 2);
        for place in &places {
            world.split(place, true, true);
        }
        let all = world.members();
        for at in 0..all.len() {
            let table = Table::ideal(kind, &all, at, 2);
            world.tables.insert(all.after(at, 0).shard(), table);
        }
        let hops = world.check_walks();
        assert!(hops <= most && hops >= 4, "{kind:?}: {hops}");
        let fingers = world.tables.values().map(|table| table.entries().len() - 2);
        let fingers = fingers.sum::<usize>() as f64 / all.len() as f64;
        let wanted = match kind {
            Kind(Of::Linear, _) => 0.0..=0.0,
            Kind(Of::Chord, _) => 6.0..=9.0,
            Kind(Of::ChordSharp, 2) => 7.0..=7.0,
            Kind(Of::ChordSharp, _) => 11.0..=11.0,
        };
        assert!(wanted.contains(&fingers), "{kind:?}: {fingers} fingers each");
    }
}

/// Mean hops to random points from random members of a stable ring of `count`, as a share of
/// ½ log2 of it.
fn mean_hops(kind: Kind, count: usize, length: usize) -> f64 {
    let places: Vec<Vec<u8>> = [vec![]].into_iter().chain(scattered(count, 5)).collect();
    let at = |index: usize| Position::at(KEYSPACE, &places[index % count]);
    let arc = |index: usize| Arc::new(at(index), at(index + 1)).expect("one circle");
    let all = (0..count).map(|index| descriptor(index as u64, arc(index), 1));
    let all = Members::new(all);
    let tables: Vec<Table> =
        (0..count).map(|index| Table::ideal(kind, &all, index, length)).collect();
    let (mut random, mut hops, walks) = (Random::new(9), 0, 20_000);
    for _ in 0..walks {
        let tail = random.bits().to_be_bytes();
        let mut at = random.below(count as u64) as usize;
        loop {
            match tables[at].lookup().next(point(&tail)) {
                Step::Closer(closer) => at = closer.shard().0 as usize,
                Step::Owner(owner) => {
                    break assert_eq!(owner.shard().0 as usize, all.owner(point(&tail)));
                }
                Step::Ask(_) => panic!("nobody closer"),
            }
            hops += 1;
        }
    }
    f64::from(hops) / f64::from(walks) / ((count as f64).log2() / 2.0)
}

#[test]
fn mean_hops_are_half_the_logarithm() {
    for (kind, count) in
        [(KINDS[1], 1000), (KINDS[1], 10_000), (KINDS[2], 1000), (KINDS[2], 10_000)]
    {
        // Whatever the length of lists.
        let [share, other] = [2, 4].map(|length| mean_hops(kind, count, length));
        println!("{kind:?}, {count} members: {share}");
        assert!(share == other && (0.955..1.02).contains(&share), "{share} and {other}");
    }
}

#[test]
fn node_without_peers_asks_and_finds_place_through_any_peer() {
    for kind in KINDS {
        let mut world = World::grown(kind, 2, &scattered(9, 3));
        let place = [0x77; 9];
        let joins = world.split(&place, false, false).expect("nobody starts there");
        let me = world.tables[&joins].ring().me().clone();
        let mut table = Table::new(kind, me.clone(), 2);
        table.lookup_mut().peers(&[NodeId(3)]);
        assert_eq!(table.lookup().next(point(b"")), Step::Ask(&[NodeId(3)]));
        assert_eq!(table.lookup().next(point(&place)), Step::Owner(&me));
        let guide = world.tables[&ShardId(1)].ring().me().clone();
        assert_eq!(table.lookup_mut().learn(Update::Shard(guide)), LearnOutcome::New);
        world.tables.insert(joins, table);
        world.rounds_until_ideal(30);
    }
}

#[test]
fn what_lies_before_the_first_known_successor_is_asked_for() {
    for kind in KINDS {
        let mut world = World::grown(kind, 2, &[b"m".to_vec()]);
        // The first shard is cut short, and has not heard by what.
        world.split(b"d", false, true).expect("a new place");
        let table = &world.tables[&ShardId(1)];
        assert_eq!(table.lookup().next(point(b"e")), Step::Ask(&[]));
        assert_eq!(table.via(point(b"e")), None);
        world.rounds_until_ideal(20);
        assert_eq!(world.walk(ShardId(1), b"e"), Ok((ShardId(3), 1)));
    }
}

#[test]
fn what_a_later_descriptor_contradicts_is_not_learnt() {
    for kind in KINDS {
        let mut world = World::grown(kind, 3, &[b"d".to_vec(), b"m".to_vec()]);
        let second = world.owner(b"d").expect("alive");
        let old = world.tables[&second].ring().me().clone();
        let left = world.merge(second).expect("the shard has a neighbour");
        let table = world.tables.get_mut(&left).expect("alive");
        assert!(table.ring().successors().iter().all(|entry| entry.shard() != second));
        assert_eq!(table.lookup_mut().learn(Update::Shard(old)), LearnOutcome::Stale);
        let elsewhere = descriptor(77, Arc::whole(keyspace::KeyspaceId(9)), 5);
        assert_eq!(table.lookup_mut().learn(Update::Shard(elsewhere)), LearnOutcome::Unknown);
        let hint = overlay::Hint { leader: keyspace::ReplicaId(1), term: 4 };
        let third = world.owner(b"m").expect("alive");
        let table = world.tables.get_mut(&left).expect("alive");
        let learn =
            |table: &mut Table| table.lookup_mut().learn(Update::Leader { shard: third, hint });
        assert_eq!((learn(table), learn(table)), (LearnOutcome::Leader, LearnOutcome::Known));
        assert_eq!(table.lookup_mut().learn(Update::Dropped(KEYSPACE)), LearnOutcome::New);
        assert!(table.entries().is_empty());
    }
}
