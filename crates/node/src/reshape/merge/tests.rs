//! Both logs, entry by entry.

use std::ops::Bound;

use keyspace::codec::put_varint;
use keyspace::{Arc, ClusterVersion, Cut, KeyHasher, KeyspaceId, Position, ReplicaId, SLOTS, Slot};
use replication::Entry;
use storage::engine::{Layout, MemoryEngine, Range};

use super::*;
use crate::replica::entry::{operation, session_batch};
use crate::replica::state::Outcome;
use crate::routing::session::{BatchId, BatchVerdict};
use command::{Reply, Write, Writer, codec};

const HASHER: KeyHasher = KeyHasher::new([1; 16]);
const MIDDLE: Slot = 8000;

fn state(shard: u64, (first_slot, end_slot): (Slot, Slot), generation: u64) -> ShardState {
    let arc = Arc::of_slots(KeyspaceId(1), first_slot, end_slot);
    state_of(shard, arc, Layout::Hashed { first_slot, end_slot }, generation)
}

fn state_of(shard: u64, arc: Arc, layout: Layout, generation: u64) -> ShardState {
    let descriptor = Descriptor {
        shard: ShardId(shard),
        arc,
        replicas: (1..=3).map(|id| (ReplicaId(id), NodeId(id * 10))).collect(),
        generation: Generation(generation),
        leader: None,
    };
    ShardState::new(descriptor, Content::Keys(Box::new(MemoryEngine::new(layout, HASHER))))
}

/// A part of an ordered keyspace, from one key to another; from or to the origin if it is empty.
fn ordered(shard: u64, (start, end): (&[u8], &[u8]), generation: u64) -> ShardState {
    let [start, end] = [start, end].map(|key| Position::at(KeyspaceId(1), key));
    let arc = Arc::new(start, end).expect("of one keyspace");
    state_of(shard, arc, Layout::Ordered, generation)
}

fn left() -> ShardState {
    state(9, (0, MIDDLE), 4)
}

fn right() -> ShardState {
    state(300, (MIDDLE, SLOTS), 6)
}

/// The next entry of a shard, at this time.
fn entry(state: &ShardState, kind: Kind, at: u64, mut bytes: Vec<u8>) -> Entry {
    let header = Header { kind, skips_equal: false, timestamp: Timestamp(at), term: 2, count: 1 };
    header.fill(&mut bytes);
    Entry::new(state.applied_index + 1, 2, bytes.into(), false)
}

fn step(state: &mut ShardState, at: u64, step: MergeStep) {
    let entry = entry(state, Kind::Merge, at, operation(&step.encode()));
    assert_eq!(state.apply(&entry, &mut Vec::new()), Outcome::Merge);
}

fn put(state: &mut ShardState, at: u64, key: &[u8]) -> Reply {
    let mut bytes = operation(&[]);
    codec::encode(&Write::append(key, b"v"), &mut bytes);
    let entry = entry(state, Kind::Commands, at, bytes);
    let mut replies = Vec::new();
    state.apply(&entry, &mut replies);
    replies.remove(0)
}

/// A piece of a flush, as an entry of its own.
fn flush(state: &mut ShardState, at: u64, tile: &Arc) -> Reply {
    apply(state, at, &Write::flush_of(tile, ClusterVersion::NEWEST))
}

/// A command, as an entry of its own.
fn apply(state: &mut ShardState, at: u64, write: &Write<'_>) -> Reply {
    let mut bytes = operation(&[]);
    codec::encode(write, &mut bytes);
    let entry = entry(state, Kind::Commands, at, bytes);
    let mut replies = Vec::new();
    state.apply(&entry, &mut replies);
    replies.remove(0)
}

fn has(state: &ShardState, key: &[u8]) -> bool {
    let engine = state.engine().expect("the shard has keys");
    engine.newest(&HASHER.key(key), state.last).is_some()
}

fn key_in(slots: std::ops::Range<Slot>) -> Vec<u8> {
    let keys = (0u32..).map(|n| n.to_string().into_bytes());
    keys.into_iter().find(|key| slots.contains(&keyspace::slot_of(key))).expect("there are many")
}

fn batch(sequence: u64) -> Vec<u8> {
    let id = BatchId { session: 77, sequence, floor: 1, sent_ms: 0 };
    let mut commands = Vec::new();
    codec::encode(&Write::append(&key_in(MIDDLE..SLOTS), b"x"), &mut commands);
    session_batch(id, &commands)
}

const INTEND: MergeStep =
    MergeStep::Intend { right: ShardId(300), theirs: Generation(6), ours: Generation(4) };
const FREEZE: MergeStep =
    MergeStep::Freeze { by: ShardId(9), theirs: Generation(4), ours: Generation(6) };

fn absorb_of(right: &ShardState) -> MergeStep {
    let MergeStatus::Frozen { index, term, .. } = right.merging else { panic!("it is not frozen") };
    MergeStep::Absorb { right: ShardId(300), index, term, ours: Generation(4) }
}

#[test]
fn merge_steps_roundtrip_and_other_bytes_are_refused() {
    let steps = [
        INTEND,
        FREEZE,
        MergeStep::Absorb { right: ShardId(1), index: 300, term: 2, ours: Generation(3) },
        MergeStep::Cancel { ours: Generation(9) },
        MergeStep::Unfreeze { ours: Generation(9) },
        MergeStep::UnfreezeDone { right: ShardId(4) },
    ];
    for step in steps {
        let bytes = step.encode();
        assert_eq!(MergeStep::decode(&bytes), Ok(step));
        assert!(MergeStep::decode(&bytes[..bytes.len() - 1]).is_err());
        assert!(MergeStep::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
    assert!(MergeStep::decode(&[6, 1]).is_err());
    let (right, generation) = (ShardId(300), Generation(7));
    let (last, horizon) = (Timestamp(u64::MAX), Timestamp(5));
    let frozen = MergeStatus::Frozen { by: right, generation, index: 4, term: 2, last, horizon };
    let states = [
        MergeStatus::None,
        MergeStatus::TakingRight { right, generation },
        MergeStatus::Cancelled { right, generation },
        frozen,
    ];
    for state in states {
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(MergeStatus::decode(&mut reader), Ok(state));
        assert!(reader.end().is_ok());
    }
    let nodes = vec![NodeId(1), NodeId(u64::MAX)];
    let (left, ours, yours) = (ShardId(9), Generation(4), Generation(6));
    let (keyspace, end) = (KeyspaceId(3), vec![1, 2]);
    let words = [
        MergeMessage::Freeze { left, ours, yours, keyspace, end, nodes },
        MergeMessage::Frozen { right, yours, index: 300, term: 2, last },
        MergeMessage::CannotFreeze { right, yours },
        MergeMessage::Unfreeze { left, yours },
        MergeMessage::UnfreezeDone { right, ours },
    ];
    for word in words {
        let mut bytes = Vec::new();
        word.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(MergeMessage::decode(&mut reader), Ok(word));
        assert!(reader.end().is_ok());
    }
    let mut bytes = vec![5];
    put_varint(1, &mut bytes);
    put_varint(1, &mut bytes);
    assert!(MergeMessage::decode(&mut Reader::new(&bytes)).is_err());
}

#[test]
fn merged_shard_has_keys_of_both() {
    let (mut left, mut right) = (left(), right());
    let (low, high) = (key_in(0..MIDDLE), key_in(MIDDLE..SLOTS));
    assert_eq!(put(&mut left, 100, &low), Reply::Int(1));
    assert_eq!(put(&mut right, 200, &high), Reply::Int(1));
    let once = entry(&right, Kind::SessionBatch, 201, batch(1));
    let done = right.apply(&once, &mut Vec::new());
    let horizon = entry(&right, Kind::Horizon, 202, operation(&900u64.to_le_bytes()));
    right.apply(&horizon, &mut Vec::new());
    step(&mut left, 101, INTEND);
    step(&mut right, 203, FREEZE);
    let absorb = absorb_of(&right);
    // Nothing changes any more, whatever still stands in its log.
    let digest = |state: &ShardState| (state.horizon, state.sessions.clone(), state.merging);
    let before = digest(&right);
    assert_eq!(put(&mut right, 204, &high), Reply::Moved { from: Cut::Slot(MIDDLE) });
    let again = entry(&right, Kind::SessionBatch, 205, batch(1));
    assert_eq!(right.apply(&again, &mut Vec::new()), done);
    let next = entry(&right, Kind::SessionBatch, 206, batch(2));
    let gap = Outcome::SessionBatch(BatchVerdict::Gap { next: 2 });
    assert_eq!(right.apply(&next, &mut Vec::new()), gap);
    let later = entry(&right, Kind::Horizon, 207, operation(&999u64.to_le_bytes()));
    right.apply(&later, &mut Vec::new());
    assert_eq!(digest(&right), before);
    assert!(!right.is_at_rest() && !left.is_at_rest());
    let entry_of_left = entry(&left, Kind::Merge, 300, operation(&absorb.encode()));
    assert!(left.absorbs(&entry_of_left).is_some());
    let taken = right.take();
    left.absorb(&entry_of_left, taken);
    assert_eq!(left.descriptor.arc.slots(), Some((0, SLOTS)));
    assert_eq!((left.descriptor.generation, left.cuts), (Generation(7), 1));
    assert_eq!((left.last, left.horizon), (Timestamp(300), Timestamp(900)));
    assert!(left.is_at_rest() && left.owns(&HASHER.key(&high)));
    assert!(!right.owns(&HASHER.key(&high)), "nothing is left there");
    assert_eq!(put(&mut left, 301, &high), Reply::Int(3));
    assert_eq!(put(&mut left, 302, &low), Reply::Int(2));
    // What was done there is not done again here.
    let again = entry(&left, Kind::SessionBatch, 303, batch(1));
    assert_eq!(left.apply(&again, &mut Vec::new()), done);
    assert_eq!(put(&mut left, 304, &high), Reply::Int(4));
}

#[test]
fn merged_shard_obeys_the_later_writer_of_both() {
    let (mut left, mut right) = (left(), right());
    let (low, high) = (key_in(0..MIDDLE), key_in(MIDDLE..SLOTS));
    let (old, new) = (Writer { epoch: 5, session: 1 }, Writer { epoch: 9, session: 2 });
    let block = |writer, key: &[u8]| -> Write<'static> {
        let key: &'static [u8] = Box::leak(key.into());
        Write::Block { writer, key, value: Some(b"x") }
    };
    let tiles = [left.descriptor.arc.clone(), right.descriptor.arc.clone()];
    let fenced = |epoch| Reply::Fenced { epoch };
    assert_eq!(apply(&mut left, 90, &block(old, &low)), fenced(0), "it has to fence first");
    assert_eq!(apply(&mut left, 91, &Write::fence_of(old, &tiles[0])), Reply::Ok);
    assert_eq!(apply(&mut right, 91, &Write::fence_of(old, &tiles[1])), Reply::Ok);
    assert_eq!(apply(&mut left, 92, &block(old, &low)), Reply::Ok);
    assert_eq!(apply(&mut right, 92, &block(old, &low)), Reply::Moved { from: Cut::Slot(0) });
    assert_eq!(apply(&mut right, 93, &Write::fence_of(new, &tiles[1])), Reply::Ok);
    assert_eq!(apply(&mut right, 94, &block(old, &high)), fenced(9));
    assert!(!has(&right, &high));
    step(&mut left, 101, INTEND);
    step(&mut right, 203, FREEZE);
    // The rest of a fence comes to a shard that is about to be taken in.
    let moved = Reply::Moved { from: Cut::Slot(MIDDLE) };
    assert_eq!(apply(&mut right, 204, &Write::fence_of(new, &tiles[1])), moved);
    let absorb = absorb_of(&right);
    let absorb = entry(&left, Kind::Merge, 300, operation(&absorb.encode()));
    let taken = right.take();
    left.absorb(&absorb, taken);
    assert_eq!(apply(&mut left, 301, &block(old, &low)), fenced(9));
    assert_eq!(apply(&mut left, 302, &Write::fence_of(old, &tiles[0])), fenced(9));
    assert_eq!(apply(&mut left, 303, &block(new, &low)), Reply::Ok);
    let zeroes = Write::Block { writer: new, key: &low, value: None };
    assert_eq!(apply(&mut left, 304, &zeroes), Reply::Int(1));
    assert!(!has(&left, &low));
}

#[test]
fn merged_ordered_shard_has_keys_of_both_in_order() {
    // With what is left of it, and with the end of the keyspace.
    for end in [&b"pear"[..], b""] {
        let (mut left, mut right) =
            (ordered(9, (b"", b"melon"), 4), ordered(300, (b"melon", end), 6));
        for (at, name) in [&b"fig"[..], b"apple"].into_iter().enumerate() {
            assert_eq!(put(&mut left, 100 + at as u64, name), Reply::Int(1));
        }
        for (at, name) in [&b"orange"[..], b"melon", b"melon pie"].into_iter().enumerate() {
            assert_eq!(put(&mut right, 200 + at as u64, name), Reply::Int(1));
        }
        step(&mut left, 110, INTEND);
        step(&mut right, 210, FREEZE);
        let absorb = absorb_of(&right);
        let from = Cut::Key((*b"melon").into());
        assert_eq!(put(&mut right, 211, b"nut"), Reply::Moved { from });
        let taken = right.take();
        assert!(!right.owns(&HASHER.key(b"orange")), "nothing is left there");
        let entry_of_left = entry(&left, Kind::Merge, 300, operation(&absorb.encode()));
        left.absorb(&entry_of_left, taken);
        let arc = &left.descriptor.arc;
        assert_eq!((arc.start().tail(), arc.end().tail()), (&b""[..], end));
        assert!(left.is_at_rest() && left.owns(&HASHER.key(b"nut")));
        assert_eq!(left.owns(&HASHER.key(b"plum")), end.is_empty());
        assert_eq!(put(&mut left, 301, b"orange"), Reply::Int(2));
        let (start, end) = (Bound::Unbounded, Bound::Unbounded);
        let all =
            Range { start, end, reverse: false, visited_max: usize::MAX, examined_max: usize::MAX };
        let mut found = Vec::new();
        let engine = left.engine().expect("the shard has keys");
        let more = engine.range(&all, Timestamp(301), &mut |key, _| found.push(key.to_vec()));
        assert_eq!(more, Ok(None));
        assert_eq!(found, [&b"apple"[..], b"fig", b"melon", b"melon pie", b"orange"]);
    }
}

#[test]
fn flush_empties_its_arc_also_after_merge() {
    let hashed = (left(), right(), key_in(0..MIDDLE), key_in(MIDDLE..SLOTS));
    let (low, high) = (b"fig".to_vec(), b"orange".to_vec());
    let of_keys = (ordered(9, (b"", b"melon"), 4), ordered(300, (b"melon", b"pear"), 6), low, high);
    for (mut left, mut right, low, high) in [hashed, of_keys] {
        let tiles = [&left, &right].map(|state| state.descriptor.arc.clone());
        let begin = tiles[1].ends().0;
        put(&mut left, 100, &low);
        put(&mut right, 100, &high);
        step(&mut left, 101, INTEND);
        step(&mut right, 101, FREEZE);
        let absorb = absorb_of(&right);
        // The right one's piece comes too late there, and is sent on.
        assert_eq!(flush(&mut right, 102, &tiles[1]), Reply::Moved { from: begin.clone() });
        // The left one's is done, and something is written again.
        assert_eq!(flush(&mut left, 102, &tiles[0]), Reply::Ok);
        assert!(!has(&left, &low));
        put(&mut left, 103, &low);
        let taken = right.take();
        let entry_of_left = entry(&left, Kind::Merge, 300, operation(&absorb.encode()));
        left.absorb(&entry_of_left, taken);
        assert!(has(&left, &low) && has(&left, &high));
        assert_eq!(flush(&mut left, 301, &tiles[1]), Reply::Ok);
        assert!(has(&left, &low) && !has(&left, &high), "one piece is of the right one alone");
        put(&mut left, 302, &high);
        // A piece for the left one that has waited until now.
        assert_eq!(flush(&mut left, 303, &tiles[0]), Reply::Ok);
        assert!(!has(&left, &low) && has(&left, &high), "the other of the left one");
        put(&mut left, 304, &low);
        let whole = left.descriptor.arc.clone();
        assert_eq!(flush(&mut left, 305, &whole), Reply::Ok);
        assert!(!has(&left, &low) && !has(&left, &high));
    }
}

#[test]
fn late_merge_steps_after_cancel_do_nothing() {
    let (mut left, mut right) = (left(), right());
    step(&mut left, 100, INTEND);
    step(&mut right, 100, FREEZE);
    let absorb = absorb_of(&right);
    step(&mut left, 101, MergeStep::Cancel { ours: Generation(4) });
    let cancelled = MergeStatus::Cancelled { right: ShardId(300), generation: Generation(6) };
    assert_eq!((left.merging, left.descriptor.generation), (cancelled, Generation(5)));
    let late = entry(&left, Kind::Merge, 102, operation(&absorb.encode()));
    assert!(left.absorbs(&late).is_none());
    left.apply(&late, &mut Vec::new());
    assert_eq!(left.merging, cancelled);
    step(&mut right, 101, MergeStep::Unfreeze { ours: Generation(6) });
    assert_eq!((right.merging, right.descriptor.generation), (MergeStatus::None, Generation(7)));
    for late in [FREEZE, MergeStep::Unfreeze { ours: Generation(6) }] {
        step(&mut right, 102 + late.encode()[0] as u64, late);
        assert_eq!(
            (right.merging, right.descriptor.generation),
            (MergeStatus::None, Generation(7))
        );
    }
    step(&mut left, 103, MergeStep::UnfreezeDone { right: ShardId(300) });
    assert!(left.is_at_rest());
    // The same again, of what is known by now.
    step(&mut left, 104, INTEND);
    assert!(left.is_at_rest(), "it is of another generation");
}

#[test]
fn unfreeze_before_freeze_refuses_later_freeze() {
    let mut right = right();
    step(&mut right, 100, MergeStep::Unfreeze { ours: Generation(6) });
    step(&mut right, 101, FREEZE);
    assert!(right.is_at_rest());
}

#[test]
fn merging_shard_enters_no_other_merge_or_split() {
    let (mut left, mut right) = (left(), right());
    step(&mut left, 100, INTEND);
    step(&mut right, 100, FREEZE);
    let (right_half, generation, at) = (ShardId(400), Generation(4), Cut::Slot(4000));
    let split = crate::reshape::split::Split { right: right_half, generation, at };
    assert!(!split.fits(&left));
    for state in [&mut left, &mut right] {
        let before = state.merging;
        let ours = state.descriptor.generation;
        let (by, theirs) = (ShardId(8), Generation(1));
        step(state, 101, MergeStep::Freeze { by, theirs, ours });
        step(state, 102, MergeStep::Intend { right: ShardId(301), theirs, ours });
        assert_eq!(state.merging, before);
    }
}

/// The shard that has taken another in is here, too, and has not come so far: it takes over what
/// that one's replica holds here, whatever was cut off between them meanwhile.
#[test]
fn merging_shard_keeps_leftover_replicas() {
    let described = |shard, slots, generation| state(shard, slots, generation).descriptor;
    let left_over = described(300, (8000, 9000), 6);
    let owner = described(9, (0, SLOTS), 12);
    let superseded = |others: &[Descriptor]| {
        let all = others.iter().chain([&left_over]);
        superseded(&left_over, all, Some(&owner))
    };
    assert_eq!(superseded(&[]), Some(ShardId(9)));
    assert_eq!(superseded(&[described(9, (0, 8000), 4)]), None, "it ends where this one begins");
    assert_eq!(superseded(&[described(9, (0, 7000), 5)]), None, "and here it does not yet");
    assert_eq!(superseded(&[described(9, (0, SLOTS), 12)]), Some(ShardId(9)), "it has it all");
    assert_eq!(superseded(&[described(7, (0, 7000), 5)]), Some(ShardId(9)), "that is another");
}
