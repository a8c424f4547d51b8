//! Two of five replicas go, the leader among them: who leads then, and when do they end?
//!
//! ```text
//!   {1 … 5}, 1 leads ─► 1 and 2 are to go ─► joint ─► 1 hands over to one that stays
//!                    ─► left ─► settled: only now the descriptor does not name them
//!                    ─► their nodes' tables say so ─► they end, for good
//! ```

use std::sync::Arc;

use command::{Reply, Write};
use keyspace::{Generation, NodeId, ReplicaId};
use node::executor::{Answer, Input, Origin};
use node::replica::entry::{Batch, Waiter};

use crate::five::{Five, SHARD};

const ALL: [usize; 5] = [1, 2, 3, 4, 5];
/// Between two ticks, in nanoseconds.
const TICK: u64 = 50_000_000;

fn exchange(five: &mut Five, at: usize, generation: u64, remove: &[u64]) {
    let (shard, generation, add) = (SHARD, Generation(generation), Vec::new());
    let remove = remove.iter().map(|id| ReplicaId(*id)).collect();
    five.executors[at - 1].accept(Input::ChangeReplicas { shard, generation, add, remove });
}

/// Lets so much time pass, by ticks.
fn wait(five: &mut Five, ticks: usize) {
    for _ in 0..ticks {
        five.now += TICK;
        for executor in &mut five.executors {
            executor.observe(five.now);
            executor.accept(Input::Tick);
        }
        five.settle(&ALL, |_, _| true);
    }
}

/// Replicas that the descriptor names, as a node has it.
fn named(five: &Five, node: usize) -> Vec<u64> {
    let view = five.executors[node - 1].view(SHARD).expect("the shard is on this node");
    let state = view.read();
    state.descriptor.replicas.iter().map(|(replica, _)| replica.0).collect()
}

#[test]
fn removed_leader_transfers_lead_and_ends_after_settle() {
    let mut five = Five::new();
    five.settle(&ALL, |_, _| true);
    assert!(five.leads(1), "it stands first");
    // Of another time, or with nobody left: nothing happens.
    exchange(&mut five, 1, 7, &[1, 2]);
    exchange(&mut five, 1, 1, &[1, 2, 3, 4, 5]);
    exchange(&mut five, 2, 1, &[1, 2]);
    wait(&mut five, 4);
    assert_eq!(named(&five, 1), [1, 2, 3, 4, 5]);
    exchange(&mut five, 1, 1, &[1, 2]);
    wait(&mut five, 20);
    let leader = (3..=5).find(|replica| five.leads(*replica)).expect("one that stays leads");
    assert!(!five.leads(1));
    let known = five.executors[leader - 1].shard(SHARD).expect("the shard is on this node").known();
    assert_eq!(named(&five, leader), [3, 4, 5]);
    assert!(known.descriptor().node_of(ReplicaId(1)).is_none());
    for gone in [1, 2] {
        let known = Arc::new(known.clone());
        five.executors[gone - 1].accept(Input::DescriptorLearned { known });
        five.settle(&ALL, |_, _| true);
        assert!(five.executors[gone - 1].shard(SHARD).is_none(), "it has ended");
        assert_eq!(five.executors[gone - 1].ended_replica(SHARD), Some(ReplicaId(gone as u64)));
    }
    let (mut batch, origin) = (Batch::default(), Origin(1));
    batch.push(&Write::Increment { key: b"key", by: 1 }, Waiter(1));
    five.executors[leader - 1].accept(Input::Propose { shard: SHARD, origin, batch });
    wait(&mut five, 2);
    let [Answer::Applied { replies, .. }] = &five.answers[..] else { panic!("{:?}", five.answers) };
    assert_eq!(replies[..], [Reply::Int(1)]);
}

/// The joint state has ended, and nobody knows yet that all that stay know: those that have gone
/// are named still, for they may be needed.
#[test]
fn removed_replica_keeps_place_until_change_settles() {
    let mut five = Five::new();
    five.settle(&ALL, |_, _| true);
    exchange(&mut five, 1, 1, &[4, 5]);
    // Step by step: what each node knows at any time names them, or does so rightly no more.
    for _ in 0..60 {
        five.turn(&ALL, |_, _| true);
        for node in 1..=3 {
            let view = five.executors[node - 1].view(SHARD).expect("the shard is on this node");
            let state = view.read();
            let names = state.descriptor.node_of(ReplicaId(4)) == Some(NodeId(4));
            assert!(names || state.roster.is_settled && state.members.voters.len() == 3);
        }
    }
    assert_eq!(named(&five, 1), [1, 2, 3]);
}
