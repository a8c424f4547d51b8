//! Tests of the module above.

use keyspace::{Arc as RingArc, Descriptor, Generation, KeyHasher, KeyspaceId, NodeId};
use storage::engine::{Layout, MemoryEngine};

use super::*;

/// Reads a log with these entries behind a checkpoint as of index 45, of a shard with so many
/// replicas; `and` is a record before the last of them.
fn behind_a_checkpoint(
    replicas: u64,
    entries: &[u64],
    and: Option<(u8, Vec<u8>)>,
) -> Result<(), RecoverError> {
    let hasher = KeyHasher::new([7; 16]);
    let arc = RingArc::whole(KeyspaceId(1));
    let replicas = (1..=replicas).map(|number| (ReplicaId(number), NodeId(number))).collect();
    let (shard, generation) = (ShardId(9), Generation(1));
    let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
    let engine = MemoryEngine::new(Layout::Ordered, hasher);
    let mut state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
    (state.applied_index, state.applied_term) = (45, 1);
    let meta = encode_meta(&state, ReplicaId(1), HardState::default());
    let checkpoint = RecoveringReplica::from_checkpoint(shard, &meta, hasher).expect("its own");
    let mut replay = Replay::new(NodeId(1), [(shard, checkpoint)].into(), hasher);
    let mut record = |kind, payload: &[u8]| {
        let record = Record { shard, kind, payload };
        replay.record(Lsn::NEW, &record).expect("its own record");
    };
    let (last, before) = entries.split_last().expect("some");
    before.iter().for_each(|index| record(record::ENTRY, &record::entry_prefix(*index, 1)));
    if let Some((kind, payload)) = and {
        record(kind, &payload);
    }
    record(record::ENTRY, &record::entry_prefix(*last, 1));
    replay.finish().map(drop)
}

#[test]
fn log_that_ends_before_its_checkpoint_is_damaged() {
    let error = behind_a_checkpoint(1, &[42, 43], None).expect_err("44 and 45 were durable");
    let is_it = matches!(error, RecoverError::CutShort { expected: 45, found: 43, .. });
    assert!(is_it, "{error}");
    behind_a_checkpoint(1, &[42, 43, 44, 45], None).expect("whole");
    behind_a_checkpoint(1, &[44, 45, 46], None).expect("it goes on");
    behind_a_checkpoint(3, &[42, 43], None).expect("a snapshot may have come for the rest");
}

/// What a replica starts with that voted in term 2, and whose newest entry is of `term`.
fn after_a_vote(term: u64) -> HardState {
    let hasher = KeyHasher::new([7; 16]);
    let shard = ShardId(9);
    let descriptor = Descriptor {
        shard,
        arc: RingArc::whole(KeyspaceId(1)),
        replicas: vec![(ReplicaId(1), NodeId(1)), (ReplicaId(2), NodeId(2))],
        generation: Generation(1),
        leader: None,
    };
    let engine = MemoryEngine::new(Layout::Ordered, hasher);
    let bootstrap = ShardState::new(descriptor, Content::Keys(Box::new(engine))).bootstrap_record();
    let recovering = RecoveringReplica::created(shard, NodeId(1), &bootstrap, hasher);
    let mut recovering = recovering.expect("its own birth");
    let voted = HardState { term: 2, vote: 2, commit: 0 };
    let mut record = |kind, payload: &[u8]| {
        recovering.record(Lsn::NEW, kind, payload).expect("its own record");
    };
    record(record::HARD_STATE, &record::encode_hard_state(voted));
    // The log begins behind index 1.
    record(record::ENTRY, &record::entry_prefix(2, term));
    recovering.finish(Durability::Sync).log.hard_state
}

/// A replica of two whose log, behind its beginning, holds these entries: index and term.
fn replayed(entries: &[(u64, u64)]) -> Result<Vec<(u64, u64)>, RecoverError> {
    let hasher = KeyHasher::new([7; 16]);
    let arc = RingArc::whole(KeyspaceId(1));
    let replicas = vec![(ReplicaId(1), NodeId(1)), (ReplicaId(2), NodeId(2))];
    let (shard, generation) = (ShardId(9), Generation(1));
    let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
    let engine = MemoryEngine::new(Layout::Ordered, hasher);
    let state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
    let mut replay = Replay::new(NodeId(1), BTreeMap::new(), hasher);
    let mut record = |kind, payload: &[u8]| {
        let record = Record { shard, kind, payload };
        replay.record(Lsn::NEW, &record).expect("its own record");
    };
    record(record::SHARD_CREATED, &state.bootstrap_record());
    for (index, term) in entries {
        record(record::ENTRY, &record::entry_prefix(*index, *term));
    }
    let shards = replay.finish()?.shards.into_values();
    let log = shards.flat_map(|shard| shard.finish(Durability::Sync).log.entries);
    Ok(log.map(|entry| (entry.index(), entry.term())).collect())
}

/// The log was cut in the middle of what another leader's entries have replaced.
#[test]
fn replay_skips_entries_behind_gap_if_replaced_later() {
    let found = replayed(&[(4, 2), (5, 2), (2, 3), (3, 3)]).expect("nothing is missing");
    assert_eq!(found, [(2, 3), (3, 3)]);
    let found = replayed(&[(2, 2), (4, 2), (3, 3)]).expect("nothing is missing");
    assert_eq!(found, [(2, 2), (3, 3)]);
    for lost in [&[(2, 2), (4, 2), (5, 2)][..], &[(3, 2), (2, 2), (4, 2)]] {
        let error = replayed(lost).expect_err("an entry is missing");
        assert!(matches!(error, RecoverError::Gap { .. }), "{error}");
    }
}

/// The record of a merge, alone in a log that was cut, says all that the next start must know.
#[test]
fn merge_record_in_cut_log_ends_absorbed_shard() {
    let mut replay = Replay::new(NodeId(1), BTreeMap::new(), KeyHasher::new([7; 16]));
    let (shard, left) = (ShardId(9), ShardId(8));
    fn record(payload: &[u8]) -> Record<'_> {
        Record { shard: ShardId(9), kind: record::SHARD_ABSORBED, payload }
    }
    let error = replay.record(Lsn::NEW, &record(b"short")).expect_err("no shard");
    assert!(matches!(error, RecoverError::Unreadable { .. }), "{error}");
    replay.record(Lsn::NEW, &record(&left.0.to_le_bytes())).expect("its own record");
    let replayed = replay.finish().expect("it misses nothing");
    assert_eq!(replayed.absorbed, [(shard, left)].into());
    assert_eq!(replayed.dropped, [shard].into());
}

#[test]
fn vote_belongs_to_its_term() {
    for (term, expected) in [(1, (2, 2)), (2, (2, 2)), (3, (3, 0))] {
        let HardState { term, vote, .. } = after_a_vote(term);
        assert_eq!((term, vote), expected);
    }
}

/// Beside pins and a merge, which stand before and behind it.
#[test]
fn checkpoint_keeps_the_fence() {
    let hasher = KeyHasher::new([7; 16]);
    let replicas = vec![(ReplicaId(1), NodeId(1))];
    let (shard, arc, generation) = (ShardId(9), RingArc::whole(KeyspaceId(1)), Generation(1));
    let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
    for (has_pins, merging) in [
        (false, MergeStatus::None),
        (true, MergeStatus::TakingRight { right: ShardId(300), generation }),
    ] {
        let mut engine = MemoryEngine::new(Layout::Ordered, hasher);
        if has_pins {
            engine.raise(Timestamp(9), &[Timestamp(3)]);
        }
        let mut state = ShardState::new(descriptor.clone(), Content::Keys(Box::new(engine)));
        let writer = command::Writer { epoch: 5, session: 1 };
        state.fence.raise(writer).expect("nobody writes");
        state.merging = merging;
        let meta = encode_meta(&state, ReplicaId(1), HardState::default());
        let restored = RecoveringReplica::from_checkpoint(shard, &meta, hasher).expect("its own");
        assert_eq!((restored.state().fence, restored.state().merging), (state.fence, merging));
        assert!(restored.state().fence.admits(writer));
    }
}

/// Its left neighbour had frozen it to absorb it. At the generation of its recovery that one does
/// not recognise it any more, and could not thaw it either.
#[test]
fn recovered_shard_is_not_frozen() {
    let hasher = KeyHasher::new([7; 16]);
    let (shard, replica, node) = (ShardId(9), ReplicaId(1), NodeId(1));
    let arc = RingArc::whole(KeyspaceId(1));
    let replicas = (1..=3).map(|number| (ReplicaId(number), NodeId(number))).collect();
    let descriptor = Descriptor { shard, arc, replicas, generation: Generation(1), leader: None };
    let engine = MemoryEngine::new(Layout::Ordered, hasher);
    let mut state = ShardState::new(descriptor, Content::Keys(Box::new(engine)));
    (state.applied_index, state.applied_term) = (45, 1);
    state.merging = MergeStatus::Frozen {
        by: ShardId(8),
        generation: Generation(1),
        index: 45,
        term: 1,
        last: state.last,
        horizon: state.horizon,
    };
    let meta = encode_meta(&state, replica, HardState::default());
    let mut recovering = RecoveringReplica::from_checkpoint(shard, &meta, hasher).expect("its own");
    assert!(recovering.state().merging.is_frozen());
    let record = record::Recovered {
        replica,
        node,
        index: 45,
        term: 1_000_001,
        generation: Generation(1_000_001),
        newest: ReplicaId(1_000_003),
        next_ids: Default::default(),
        cut: None,
    };
    recovering.recovered(&record.encode()).expect("its own record");
    assert!(recovering.state().merging.is_not());
}
