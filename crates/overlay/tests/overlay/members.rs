//! What one member takes from others, and what it does not.

use std::sync::Arc as Shared;

use keyspace::{Arc, Descriptor, Generation, NodeId, Position, ReplicaId, ShardId};
use overlay::ring::SILENCE_TICKS;
use overlay::ring::ideal;
use overlay::ring::message::{RingMessage, Strategy};
use overlay::{Hint, KnownShard, LearnOutcome, Linear, Lookup, Message, Outbox, Update};

use crate::ring_world::{KEYSPACE, KINDS, World};

fn arc(start: &[u8], end: &[u8]) -> Arc {
    let [start, end] = [start, end].map(|tail| Position::at(KEYSPACE, tail));
    Arc::new(start, end).expect("one circle")
}

/// A shard with replica 1 on the node of its number, and replica 2 on that of ten times as much.
fn member(shard: u64, arc: Arc, generation: u64) -> Shared<KnownShard> {
    let replicas = vec![(ReplicaId(1), NodeId(shard)), (ReplicaId(2), NodeId(10 * shard))];
    let (shard, generation) = (ShardId(shard), Generation(generation));
    Shared::new(KnownShard::new(Descriptor { shard, arc, replicas, generation, leader: None }, 0))
}

/// Shard 3 at m, between 2 at d and 4 at t; 1 is at the beginning.
fn third() -> Linear {
    let list = [member(4, arc(b"t", b""), 1), member(1, arc(b"", b"d"), 1)];
    Linear::join(member(3, arc(b"m", b"t"), 1), member(2, arc(b"d", b"m"), 1), &list, 2)
}

fn hear(table: &mut Linear, from: &Shared<KnownShard>, word: RingMessage) -> Outbox {
    let mut out = Outbox::new();
    let (strategy, to) = (Strategy::Linear, table.ring().me().shard());
    let message = Message::Ring { strategy, to, from: from.clone(), word };
    table.step(NodeId(from.shard().0), message, &mut out);
    out
}

/// Whom it asks for neighbours at a tick: node, shard, number.
fn asks(table: &mut Linear) -> Option<(NodeId, ShardId, u64)> {
    let mut out = Outbox::new();
    table.tick(&mut out);
    out.into_iter().find_map(|(node, message)| match message {
        Message::Ring { to, word: RingMessage::Ask { number }, .. } => Some((node, to, number)),
        _ => None,
    })
}

fn tick(table: &mut Linear) {
    table.tick(&mut Outbox::new());
}

fn before(table: &Linear) -> Option<ShardId> {
    table.ring().predecessor().map(|known| known.shard())
}

#[test]
fn member_ignores_claims_of_another_place() {
    for kind in KINDS {
        let places = [b"d", b"h", b"m", b"p", b"t"].map(|place| place.to_vec());
        let mut world = World::grown(kind, 2, &places);
        (0..200).for_each(|_| world.round());
        let shards = world.shards();
        for (at, about) in shards.iter().flat_map(|at| shards.iter().map(move |to| (*at, *to))) {
            let moved = member(about.0, arc(b"zz", b"zzz"), 90);
            let table = world.tables.get_mut(&at).expect("alive");
            let entries = table.entries();
            if entries.iter().any(|(_, shard)| *shard == about) {
                let learnt = table.lookup_mut().learn(Update::Shard(moved.clone()));
                assert_eq!(learnt, LearnOutcome::Stale, "{kind:?}: {about} at {at}");
            }
            if at != about {
                // As the member itself would say it.
                let message = Message::Ring {
                    strategy: kind.0,
                    to: at,
                    from: moved,
                    word: RingMessage::Pong { number: 0 },
                };
                table.lookup_mut().step(NodeId(1), message, &mut Outbox::new());
            }
            assert_eq!(table.entries(), entries);
            let rows = table.ring().successors();
            assert!(rows.iter().all(|row| row.place() != b"zz"), "{kind:?}: {about} at {at}");
        }
        assert_eq!(ideal::ideal(world.rings()), Ok(()), "{kind:?}");
        world.check_walks();
        (0..200).for_each(|_| world.round());
        world.check_tables();
    }
}

#[test]
fn an_answer_from_another_place_is_none() {
    let mut table = third();
    let (_, to, number) = asks(&mut table).expect("the table asks to stabilise");
    assert_eq!(to, ShardId(4));
    let answer = RingMessage::Neighbours { number, predecessor: None, successors: Vec::new() };
    assert_eq!(hear(&mut table, &member(4, arc(b"p", b""), 9), answer.clone()).len(), 0);
    assert!(table.ring().is_asking());
    hear(&mut table, &member(4, arc(b"t", b""), 1), answer);
    assert!(!table.ring().is_asking());
}

#[test]
fn asked_member_is_asked_at_its_new_leader() {
    let hint = Hint { leader: ReplicaId(2), term: 7 };
    let mut table = third();
    assert_eq!(asks(&mut table).expect("the table asks to stabilise").0, NodeId(4));
    let news = Update::Leader { shard: ShardId(4), hint };
    assert_eq!(table.learn(news), LearnOutcome::Leader);
    assert_eq!(asks(&mut table).expect("again").0, NodeId(40));
}

#[test]
fn new_leader_of_claimed_predecessor_is_learned() {
    let mut table = third();
    let claims = member(5, arc(b"g", b"m"), 2);
    hear(&mut table, &claims, RingMessage::Notify);
    assert_eq!(before(&table), Some(ShardId(2)), "it is asked whether it is there");
    let hint = Hint { leader: ReplicaId(2), term: 7 };
    assert_eq!(table.learn(Update::Leader { shard: ShardId(5), hint }), LearnOutcome::Leader);
    (0..SILENCE_TICKS).for_each(|_| tick(&mut table));
    assert_eq!(before(&table), Some(ShardId(5)), "nobody answered");
    assert_eq!(table.ring().predecessor().expect("there is one").term(), 7);
}

#[test]
fn returned_node_is_asked_at_its_new_leader() {
    let mut table = third();
    (0..=SILENCE_TICKS).for_each(|_| tick(&mut table));
    let dead = member(4, arc(b"t", b""), 1);
    assert!(table.ring().successors().iter().all(|row| row.shard() != ShardId(4)));
    // It speaks again, and while a question is open its leader changes.
    hear(&mut table, &dead, RingMessage::Pong { number: 0 });
    let hint = Hint { leader: ReplicaId(2), term: 7 };
    assert_eq!(table.learn(Update::Leader { shard: ShardId(4), hint }), LearnOutcome::Leader);
    let asked = (0..=SILENCE_TICKS).find_map(|_| asks(&mut table).filter(|(_, to, _)| to.0 == 4));
    assert_eq!(asked.expect("it leads to its ring").0, NodeId(40));
}

#[test]
fn doubt_ends_when_both_members_are_absorbed() {
    let mut table = third();
    hear(&mut table, &member(5, arc(b"g", b"m"), 2), RingMessage::Notify);
    assert!(table.ring().is_asking(), "the one before is pinged");
    // Both have been taken in by another, which stands before now.
    let merged = member(6, arc(b"b", b"m"), 9);
    hear(&mut table, &merged, RingMessage::Notify);
    assert!(!table.ring().is_asking());
    for _ in 0..=SILENCE_TICKS {
        tick(&mut table);
        assert_eq!(before(&table), Some(ShardId(6)));
    }
}

#[test]
fn late_answers_to_a_table_of_before_are_not_taken() {
    let answer =
        |number| RingMessage::Neighbours { number, predecessor: None, successors: Vec::new() };
    let from = member(4, arc(b"t", b""), 1);
    let (_, _, number) = asks(&mut third()).expect("the table asks to stabilise");
    // Made anew, it would count the same way …
    let mut again = third();
    asks(&mut again).expect("the table asks to stabilise");
    hear(&mut again, &from, answer(number));
    assert!(!again.ring().is_asking());
    // … unless it is told where to begin, even at the end of all numbers.
    for first in [1 << 40, u64::MAX - 1, u64::MAX] {
        let mut again = third().counting_from(first);
        let (_, _, own) = asks(&mut again).expect("the table asks to stabilise");
        assert!(own != 0);
        if own != number {
            hear(&mut again, &from, answer(number));
            assert!(again.ring().is_asking());
        }
        hear(&mut again, &from, answer(own));
        assert!(!again.ring().is_asking());
    }
}

#[test]
fn chord_looks_for_no_finger_that_would_be_itself() {
    // All places crowd together in a half of the circle.
    let places: Vec<Vec<u8>> = (b'0'..b'z').step_by(8).map(|place| vec![place]).collect();
    let mut world = World::grown(KINDS[1], 2, &places);
    (0..200).for_each(|_| world.round());
    let all = world.members();
    let mut finds = 0;
    for _ in 0..200 {
        for shard in world.shards() {
            world.tick(shard);
            for flying in &world.flying {
                let Message::Ring { word: RingMessage::Find { target, asker, .. }, .. } =
                    flying.message()
                else {
                    continue;
                };
                finds += 1;
                assert_ne!(all.first_from(target).shard(), asker, "{target:016x}");
            }
            world.settle();
        }
    }
    assert!(finds > 400, "{finds}");
    world.check_tables();
}
