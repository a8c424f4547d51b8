//! Does a leader that was elected say that it gets nothing done?
//!
//! ```text
//!   1: elected by all ─► 3, 4 and 5 answer its heartbeats and take no entries ─► nothing commits
//! ```
//!
//! Heartbeats keep its office and its lease, so nothing but what it has proposed tells that it does
//! not lead.

use keyspace::ReplicaId;
use node::executor::Input;
use node::replica::{LagReason, LaggingReplica, STALLED_NANOS, ShardReport};

use crate::five::{Five, SHARD};

const ALL: [usize; 5] = [1, 2, 3, 4, 5];
/// A tick of an executor.
const TICK_NANOS: u64 = 50_000_000;

/// So many ticks of all executors, with all that follows.
fn pass(five: &mut Five, ticks: u64) {
    for _ in 0..ticks {
        five.now += TICK_NANOS;
        for executor in &mut five.executors {
            executor.observe(five.now);
            executor.accept(Input::Tick);
        }
        five.settle(&ALL, |_, _| true);
    }
}

fn report(five: &Five, at: usize) -> ShardReport {
    five.executors[at - 1].shard(SHARD).expect("the shard is on this node").report(five.now)
}

#[test]
fn leader_without_acks_is_stalled_until_commit() {
    let mut five = Five::new();
    five.settle(&ALL, |_, _| true);
    pass(&mut five, 60);
    let idle = report(&five, 1);
    assert!(idle.leads && idle.stalled_nanos < STALLED_NANOS / 2, "{idle:?}");
    assert_eq!(idle.leaderless_for_nanos(), 0);

    // It is elected again, and cannot open its term; nor can a later leader.
    five.without_entries = vec![3, 4, 5];
    five.executors[0].accept(Input::Transfer { shard: SHARD, to: ReplicaId(2) });
    five.settle(&ALL, |_, _| true);
    assert!(five.leads(2), "it was handed over");
    pass(&mut five, 20);
    let early = report(&five, 2);
    assert!(early.leaderless_for_nanos() == 0 && !early.leads, "{early:?}");
    pass(&mut five, 25);
    let late = report(&five, 2);
    assert!(five.leads(2), "heartbeats keep it in office");
    assert!(late.is_stalled() && late.leaderless_for_nanos() > STALLED_NANOS, "{late:?}");
    // The others know no more than who was elected.
    let other = report(&five, 3);
    assert_eq!((other.leader, other.leaderless_for_nanos()), (Some(ReplicaId(2)), 0));

    five.without_entries.clear();
    pass(&mut five, 20);
    let well = report(&five, 2);
    assert!(well.leads && !well.is_stalled() && well.leaderless_for_nanos() == 0, "{well:?}");
}

#[test]
fn with_two_silent_voters_each_other_voter_is_essential() {
    let mut five = Five::new();
    five.settle(&ALL, |_, _| true);
    pass(&mut five, 10);
    let shard = |five: &Five, id: u64| {
        let shard = five.executors[0].shard(SHARD).expect("the shard is on this node");
        shard.is_blocked_by(ReplicaId(id), five.now)
    };
    let voters: Vec<ReplicaId> = (1..=5).map(ReplicaId).collect();
    assert_eq!(report(&five, 1).lagging_replicas(&voters, five.now), []);
    assert!(ALL.iter().all(|id| !shard(&five, *id as u64)), "four others are there");
    // Two are gone for long: any of the others is needed, and none that does not vote.
    for _ in 0..60 {
        five.now += TICK_NANOS;
        five.executors[0].observe(five.now);
        five.executors[0].accept(Input::Tick);
        five.settle(&[1, 2, 3], |_, to| to < 4);
    }
    assert!(five.leads(1));
    let lagging = report(&five, 1).lagging_replicas(&voters, five.now);
    let [LaggingReplica { lag: LagReason::Silent(nanos), .. }, _] = lagging[..] else {
        panic!("{lagging:?}")
    };
    assert!(nanos > 2_900_000_000, "{nanos}");
    assert!(shard(&five, 2) && shard(&five, 3) && !shard(&five, 9));
    let elsewhere = five.executors[1].shard(SHARD).expect("the shard is on this node");
    assert!(!elsewhere.is_blocked_by(ReplicaId(3), five.now), "only the leader knows");
}
