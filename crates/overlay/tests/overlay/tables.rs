//! A table against plain lists: whatever the order of learning, it ends at the truth.

use std::collections::BTreeSet;
use std::sync::Arc as Shared;

use keyspace::{Arc, Descriptor, Generation, KeyspaceId, ReplicaId, ShardId};
use overlay::{Hint, KnownShard, LearnOutcome, Point, Table};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::history::{History, KEYSPACES, histories, tails};

/// A history with some of its copies, repeated and out of order.
fn told(events_max: usize) -> impl Strategy<Value = (History, Vec<Shared<KnownShard>>)> {
    (histories(events_max), prop::collection::vec(any::<Index>(), 0..60)).prop_map(
        |(history, picked)| {
            let told = picked.iter().map(|index| index.get(&history.all).clone()).collect();
            (history, told)
        },
    )
}

fn learn_all(table: &mut Table, told: &[Shared<KnownShard>]) {
    told.iter().for_each(|known| {
        table.learn(known.clone(), usize::MAX);
    });
}

fn contradict(a: &KnownShard, b: &KnownShard) -> bool {
    a.shard() == b.shard() || a.arc().overlaps(b.arc())
}

/// The model: of each shard's newest the highest rank stays, then the highest that overlaps none
/// that stayed.
fn newest(mut all: Vec<Shared<KnownShard>>) -> Vec<(Generation, ShardId)> {
    all.sort_by_key(|known| std::cmp::Reverse(known.rank()));
    all.dedup_by_key(|known| known.rank());
    let mut stay: Vec<Shared<KnownShard>> = Vec::new();
    let mut shards = BTreeSet::new();
    for known in all {
        let is_newest = shards.insert(known.shard());
        if is_newest && !stay.iter().any(|other| other.arc().overlaps(known.arc())) {
            stay.push(known);
        }
    }
    let mut ranks: Vec<_> = stay.iter().map(|known| known.rank()).collect();
    ranks.sort();
    ranks
}

fn ranks(table: &Table) -> Vec<(Generation, ShardId)> {
    let mut ranks: Vec<_> = table.iter().map(|known| known.rank()).collect();
    ranks.sort();
    ranks
}

/// Rows, index and sums say the same, and no two shards contradict each other.
fn check(table: &Table) {
    let all: Vec<_> = table.iter().cloned().collect();
    for (index, known) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| !contradict(other, known)));
        assert!(Shared::ptr_eq(table.shard(known.shard()).unwrap(), known));
    }
    let rows: usize = KEYSPACES.map(|keyspace| table.keyspace(keyspace).count()).iter().sum();
    assert_eq!(rows, all.len());
    for keyspace in KEYSPACES {
        assert!(table.keyspace(keyspace).is_sorted_by_key(|known| known.arc().start()));
    }
    let mut again = Table::default();
    all.iter().rev().for_each(|known| {
        assert_eq!(again.learn(known.clone(), usize::MAX), LearnOutcome::New);
    });
    assert_eq!(again.sums(), table.sums());
}

proptest! {
    #[test]
    fn after_everything_was_told_in_any_order_the_table_is_the_truth(
        (history, told) in told(24),
        order in prop::collection::vec(any::<u32>(), 60),
    ) {
        let mut rest: Vec<_> = history.all.iter().cloned().zip(order).collect();
        rest.sort_by_key(|(_, number)| *number);
        let mut table = Table::default();
        learn_all(&mut table, &told);
        for (known, _) in rest {
            table.learn(known, usize::MAX);
        }
        history.check(&table);
        check(&table);
        for known in &history.all {
            let learnt = table.learn(known.clone(), usize::MAX);
            let is_old = matches!(learnt, LearnOutcome::Known | LearnOutcome::Stale);
            prop_assert!(is_old, "{:?}", learnt);
        }
        history.check(&table);
    }

    #[test]
    fn whatever_is_known_an_owner_is_found_as_by_looking_at_all(
        (_, told) in told(16), tail in tails(),
    ) {
        let mut table = Table::default();
        learn_all(&mut table, &told);
        check(&table);
        for keyspace in KEYSPACES {
            let point = Point { keyspace, tail: &tail };
            let plain = table.iter().find(|known| point.is_in(known.arc()));
            prop_assert_eq!(table.owner(point), plain);
        }
    }

    #[test]
    fn learning_by_falling_rank_leads_to_one_table(
        (_, told) in told(24), cut: Index,
    ) {
        let (before, after) = told.split_at(cut.index(told.len() + 1));
        let mut table = Table::default();
        learn_all(&mut table, before);
        // One copy of each shard, and only newer ones, as in an exchange.
        let mut after = after.to_vec();
        after.sort_by_key(|known| std::cmp::Reverse(known.rank()));
        let mut shards = BTreeSet::new();
        after.retain(|known| {
            let old = table.shard(known.shard());
            shards.insert(known.shard())
                && old.is_none_or(|old| old.generation() < known.generation())
        });
        let all: Vec<_> = table.iter().chain(&after).cloned().collect();
        learn_all(&mut table, &after);
        prop_assert_eq!(ranks(&table), newest(all));
        check(&table);
    }

    #[test]
    fn dropped_keyspace_stays_dropped((_, told) in told(16), cut: Index) {
        let mut table = Table::default();
        let (before, after) = told.split_at(cut.index(told.len() + 1));
        learn_all(&mut table, before);
        prop_assert_eq!(table.drop_keyspace(KEYSPACES[0]), LearnOutcome::New);
        prop_assert_eq!(table.drop_keyspace(KEYSPACES[0]), LearnOutcome::Known);
        for known in after {
            let learnt = table.learn(known.clone(), usize::MAX);
            let gone = known.arc().keyspace() == KEYSPACES[0];
            prop_assert!(!gone || learnt == LearnOutcome::Stale);
        }
        prop_assert!(table.iter().all(|known| known.arc().keyspace() == KEYSPACES[1]));
        check(&table);
    }
}

fn whole(shard: u64, generation: u64, leader: Option<u64>) -> Descriptor {
    Descriptor {
        shard: ShardId(shard),
        arc: Arc::whole(KeyspaceId(1)),
        replicas: Vec::new(),
        generation: Generation(generation),
        leader: leader.map(ReplicaId),
    }
}

#[test]
fn a_newer_leader_outlives_a_newer_descriptor_that_knows_none() {
    let mut table = Table::default();
    let mut learn = |descriptor, term| table.learn(KnownShard::new(descriptor, term).into(), 9);
    assert_eq!(learn(whole(1, 1, Some(3)), 7), LearnOutcome::New);
    assert_eq!(learn(whole(1, 2, None), 0), LearnOutcome::New);
    assert_eq!(learn(whole(1, 1, Some(4)), 6), LearnOutcome::Stale);
    assert_eq!(
        learn(whole(1, 1, Some(4)), 8),
        LearnOutcome::Leader,
        "an old copy, but a newer term"
    );
    assert_eq!(table.shard(ShardId(1)).unwrap().generation(), Generation(2));
    let hint = |term| Hint { leader: ReplicaId(5), term };
    assert_eq!(table.hint(ShardId(1), hint(7)), LearnOutcome::Stale);
    assert_eq!(table.hint(ShardId(1), hint(8)), LearnOutcome::Known);
    assert_eq!(table.hint(ShardId(1), hint(9)), LearnOutcome::Leader);
    assert_eq!(table.hint(ShardId(2), hint(9)), LearnOutcome::Unknown);
    assert_eq!(table.shard(ShardId(1)).unwrap().hint(), Some(hint(9)));
    check(&table);
}

#[test]
fn a_full_table_takes_only_what_replaces() {
    let mut table = Table::default();
    assert_eq!(table.learn(KnownShard::new(whole(1, 1, None), 0).into(), 1), LearnOutcome::New);
    let other = Descriptor { arc: Arc::whole(KeyspaceId(2)), ..whole(2, 1, None) };
    assert_eq!(table.learn(KnownShard::new(other, 0).into(), 1), LearnOutcome::TooLarge);
    assert_eq!(table.learn(KnownShard::new(whole(3, 2, None), 0).into(), 1), LearnOutcome::New);
    assert_eq!((table.len(), table.shard(ShardId(1))), (1, None));
}
