//! Three of five nodes are lost for good, at any moment: does the shard go on from the others with
//! all that they knew?
//!
//! ```text
//!   1 … 5, on a network that loses half; writes; who is to have a replica changes
//!      ─► three or four are lost ─► what the others have in their logs ─► a plan ─► records
//!      ─► they begin again: one leads, alone, and has all that any of them had shown
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use command::Write;
use hlc::Clock;
use keyspace::codec::Reader;
use keyspace::random::Random;
use keyspace::{
    Cut, Descriptor, Durability, Generation, KeyHasher, KeyspaceId, NodeId, ReplicaId, ShardId,
};
use keyspace::{Timestamp, random};
use node::executor::{Answer, Effects, Input, Origin, ShardExecutor};
use node::recovery::quorum_loss::{
    self, KeyspaceNames, Named, RecoveryPlan, RecoveryRefused, SurvivingReplica, Survivor,
};
use node::recovery::{Replay, ReplayResult};
use node::replica::entry::{Batch, Waiter};
use node::replica::record;
use node::replica::state::ShardState;
use replication::Members;
use storage::log::{Lsn, Record};

use crate::five::{Five, SHARD};

const ALL: [usize; 5] = [1, 2, 3, 4, 5];
const CLUSTER: u64 = 7;
/// Where every log ends, as far as this test is concerned.
const END: Lsn = Lsn(4096);
/// Between two ticks, in nanoseconds.
const TICK: u64 = 50_000_000;

fn hasher() -> KeyHasher {
    KeyHasher::new([7; 16])
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

/// The keys that a state holds.
fn keys(state: &ShardState, count: u64) -> BTreeSet<u64> {
    let engine = state.engine().expect("a shard of keys");
    let is_there = |number: &u64| {
        let name = key(*number);
        engine.newest(&hasher().key(&name), Timestamp::ZERO).is_some()
    };
    (0..count).filter(is_there).collect()
}

fn propose(executor: &mut ShardExecutor, number: u64) {
    let (mut batch, name) = (Batch::default(), key(number));
    batch.push(&Write::Increment { key: &name, by: 1 }, Waiter(number));
    executor.accept(Input::Propose { shard: SHARD, origin: Origin(1), batch });
}

/// Runs the five under faults; how many writes were tried.
fn run(five: &mut Five, random: &mut Random) -> u64 {
    five.settle(&ALL, |_, _| true);
    let mut count = 0;
    for step in 0..60 {
        five.now += TICK;
        let hears = random.bits();
        let may = |from: usize, to: usize| hears >> (from * 5 + to) & 3 != 0;
        for node in ALL {
            let executor = &mut five.executors[node - 1];
            executor.observe(five.now);
            executor.accept(Input::Tick);
        }
        for node in ALL.into_iter().filter(|node| five.leads(*node)).collect::<Vec<_>>() {
            propose(&mut five.executors[node - 1], count);
            count += 1;
            if step % 20 == 10 {
                let generation = {
                    let view =
                        five.executors[node - 1].view(SHARD).expect("the shard is on this node");
                    let state = view.read();
                    state.descriptor.generation
                };
                let remove = vec![ReplicaId(2 + random.below(4))];
                let input =
                    Input::ChangeReplicas { shard: SHARD, generation, add: Vec::new(), remove };
                five.executors[node - 1].accept(input);
            }
        }
        (0..1 + random.below(6)).for_each(|_| {
            five.turn(&ALL, may);
        });
    }
    count
}

/// A node's log, as a start reads it.
fn replay(node: usize, log: &[(u8, Vec<u8>)]) -> ReplayResult {
    let mut replay = Replay::new(NodeId(node as u64), BTreeMap::new(), hasher());
    for (kind, payload) in log {
        let record = Record { shard: SHARD, kind: *kind, payload };
        replay.record(Lsn(64), &record).expect("its own record");
    }
    replay.finish().expect("nothing is missing")
}

/// What a node has to say; also of a catalogue, of which it has the only replica.
fn survivor(node: usize, found: ReplayResult) -> Survivor {
    let named = Named { id: KeyspaceId(1), name: "k".into(), shards: vec![(SHARD, None)] };
    let next_ids = (KeyspaceId(2), ShardId(6));
    let mut survivor = Survivor::new(CLUSTER, NodeId(node as u64), END, found);
    survivor.catalogue = Some(KeyspaceNames { next_ids, keyspaces: vec![named] });
    let system = SurvivingReplica {
        replica: ReplicaId(node as u64),
        keyspace: KeyspaceId(0),
        slots: None,
        ends: Default::default(),
        placed: Vec::new(),
        generation: Generation(1),
        newest: ReplicaId(node as u64),
        term: 1,
        vote: 0,
        commit: 1,
        applied: 1,
        last: (1, 1),
        last_at: Timestamp::ZERO,
        members: Members::of_voters(&[ReplicaId(node as u64)]),
        changes: Vec::new(),
    };
    survivor.replicas.insert(ShardId(0), system);
    survivor
}

/// Has the plan carried out in a node's log; how many records that took.
fn carry_out(plan: &RecoveryPlan, node: usize, log: &mut Vec<(u8, Vec<u8>)>) -> usize {
    let who = (CLUSTER, NodeId(node as u64));
    let found = replay(node, log);
    let records = plan.records(who, END, &found).expect("the log is as it was");
    if !records.is_empty() {
        let moved = plan.records(who, Lsn(5000), &found);
        assert!(matches!(moved, Err(RecoveryRefused::Changed { .. })), "{moved:?}");
    }
    let count = records.len();
    log.extend(records.into_iter().map(|(_, kind, payload)| (kind, payload)));
    count
}

/// The shard goes on here, alone: what it holds.
fn begin(node: usize, log: &[(u8, Vec<u8>)], count: u64) -> BTreeSet<u64> {
    let mut executor = ShardExecutor::new(Arc::new(Clock::default()), 1, 1 << 20);
    executor.observe(1);
    let mut found = replay(node, log);
    let recovering = found.shards.remove(&SHARD).expect("the replica goes on here");
    let view = executor.adopt(recovering.finish(Durability::Sync));
    let held = keys(&view.read(), count);
    propose(&mut executor, count);
    let (mut effects, mut done) = (Effects::default(), false);
    for _ in 0..20 {
        effects.clear();
        executor.turn(&mut effects);
        let ticket = effects.ticket;
        if !effects.records.is_empty() {
            executor.accept(Input::Written { ticket, lsn: Lsn(9000) });
            executor.accept(Input::Durable { ticket });
        }
        done |= effects.answers.iter().any(|answer| matches!(answer, Answer::Applied { .. }));
    }
    assert!(done, "it leads, without waiting for anybody");
    held
}

/// One run: whether there was something to recover, and whether acknowledged writes were missing.
fn one(seed: u64) -> (bool, bool) {
    let random = &mut Random::new(random::mix(seed));
    let mut five = Five::new();
    let count = run(&mut five, random);
    let acknowledged = |answer: &Answer| match answer {
        Answer::Applied { .. } => answer.waiters().iter().map(|waiter| waiter.0).collect(),
        _ => Vec::new(),
    };
    let acknowledged: BTreeSet<u64> = five.answers.iter().flat_map(acknowledged).collect();
    let mut left = ALL.to_vec();
    while left.len() > 1 + seed as usize % 2 {
        left.remove(random.below(left.len() as u64) as usize);
    }
    let shown = left.iter().filter_map(|node| five.executors[node - 1].view(SHARD));
    let shown: BTreeSet<u64> = shown.flat_map(|view| keys(&view.read(), count)).collect();

    let logs = &mut five.logs;
    let survivors: Vec<_> =
        left.iter().map(|at| survivor(*at, replay(*at, &logs[at - 1]))).collect();
    let plan = match quorum_loss::plan(&survivors) {
        Ok(plan) => plan,
        Err(refused) => {
            assert!(matches!(refused, RecoveryRefused::Sound { .. }), "seed {seed}: {refused}");
            return (false, false);
        }
    };
    let [recovery] = &plan.shards[..] else { panic!("seed {seed}: {plan:?}") };
    for node in &left {
        assert_eq!(carry_out(&plan, *node, &mut logs[node - 1]), 1, "seed {seed}");
        assert_eq!(carry_out(&plan, *node, &mut logs[node - 1]), 0, "seed {seed}: again");
        let found = replay(*node, &logs[node - 1]);
        let is_chosen = recovery.record.node == NodeId(*node as u64);
        assert_eq!(found.shards.contains_key(&SHARD), is_chosen, "seed {seed}");
        assert_eq!(found.ended.contains_key(&SHARD), !is_chosen, "seed {seed}");
    }
    let chosen = recovery.record.node.0 as usize;
    let state =
        replay(chosen, &logs[chosen - 1]).shards.remove(&SHARD).expect("the replica goes on here");
    assert!(state.state().members.is_sole(recovery.record.replica) && state.waiting().count() == 0);
    assert_eq!(
        state.state().descriptor.replicas,
        [(recovery.record.replica, recovery.record.node)]
    );
    assert_eq!(state.hard_state().term, recovery.record.term);
    let held = begin(chosen, &logs[chosen - 1], count);
    assert!(shown.is_subset(&held), "seed {seed}: what was shown by one that is left is gone");
    let is_missing = !acknowledged.is_subset(&held);
    assert!(recovery.may_miss || !is_missing, "seed {seed}: nothing was to be missing");
    (true, is_missing)
}

#[test]
fn recovered_shard_has_all_that_survivor_knew() {
    let ran: Vec<_> = (1..=400).map(one).collect();
    let count = |what: fn(&(bool, bool)) -> bool| ran.iter().filter(|one| what(one)).count();
    // The test sees something: most runs have something to recover, and some have lost a write.
    assert!(count(|one| one.0) > 200 && count(|one| one.1) > 0, "{ran:?}");
}

/// The record stays in the log; a checkpoint of later is not undone by it.
#[test]
fn recovery_record_is_applied_once() {
    let mut five = Five::new();
    run(&mut five, &mut Random::new(3));
    let survivors = [survivor(1, replay(1, &five.logs[0]))];
    let plan = quorum_loss::plan(&survivors).expect("one of five");
    let log = &mut five.logs[0];
    assert_eq!(carry_out(&plan, 1, log), 1);
    let before =
        replay(1, log).shards.remove(&SHARD).expect("the replica goes on here").into_state();
    let (_, payload) = log.last().cloned().expect("the record");
    let entry =
        [&record::entry_prefix(before.applied_index + 1, plan.shards[0].record.term)[..], &[]];
    log.push((record::ENTRY, entry.concat()));
    log.push((record::REPLICA_RECOVERED, payload));
    let after =
        replay(1, log).shards.remove(&SHARD).expect("the replica goes on here").into_state();
    assert_eq!(after.applied_index, before.applied_index + 1);
    assert_eq!(after.descriptor, before.descriptor);
}

/// Nodes 1 and 2 have heard nothing of a split; the right half is on node 6, and sound. It keeps
/// its keys: the shard goes on with the left half alone, and so does the record of the replica that
/// ends. Otherwise tables of shards would end the right half.
#[test]
fn recovery_does_not_take_back_split_off_keys() {
    let of_two = |seed| {
        let mut five = Five::new();
        run(&mut five, &mut Random::new(seed));
        let survivors = [1, 2].map(|at| survivor(at, replay(at, &five.logs[at - 1])));
        // Neither is the whole group by now.
        let is_lost =
            quorum_loss::plan(&survivors).is_ok_and(|plan| plan.shards[0].removed.len() == 1);
        is_lost.then(|| (five, survivors.to_vec()))
    };
    let (mut five, mut survivors) = (1..100).find_map(of_two).expect("most of five are lost");
    let (half, at) = (ShardId(6), b"key-5");
    let generation = survivors.iter().map(|one| one.replicas[&SHARD].generation).max();
    let generation = Generation(generation.expect("two").0 + 1);
    let mut other = survivors[0].clone();
    (other.node, other.catalogue) = (NodeId(6), None);
    let right = SurvivingReplica {
        keyspace: KeyspaceId(1),
        ends: (at.to_vec(), Vec::new()),
        generation,
        ..other.replicas.remove(&ShardId(0)).expect("the catalogue's")
    };
    other.replicas = BTreeMap::from([(half, right)]);
    survivors.push(other);
    let plan = quorum_loss::plan(&survivors).expect("two of five");
    let [recovery] = &plan.shards[..] else { panic!("{plan:?}") };
    assert_eq!(recovery.record.cut, Some(Cut::Key(at[..].into())));
    let chosen = recovery.record.node.0 as usize;
    for node in [1, 2] {
        let log = &mut five.logs[node - 1];
        let before = replay(node, log).shards.remove(&SHARD).expect("the replica was replayed");
        let before = keys(before.state(), 60);
        assert_eq!((carry_out(&plan, node, log), carry_out(&plan, node, log)), (1, 0));
        let mut found = replay(node, log);
        let is_left = |number: &u64| key(*number)[..] < at[..];
        if node == chosen {
            let state = found.shards.remove(&SHARD).expect("the replica goes on here").into_state();
            let held = keys(&state, 60);
            assert!(held.is_superset(&before.into_iter().filter(is_left).collect()), "{held:?}");
            assert!(!held.is_empty() && held.iter().all(is_left), "{held:?}");
            assert_eq!(state.descriptor.arc.end().tail(), at);
            assert_eq!(begin(node, log, 400), held, "key-400, which is left, is written behind");
        } else {
            let (_, payload) = log.last().expect("the record");
            // Behind the replica's id and the placement.
            let end = Descriptor::decode(&mut Reader::new(&payload[9..])).expect("a descriptor");
            assert_eq!(end.arc.end().tail(), at);
        }
    }
}
