//! A leader's word that it has no room comes when who was told leads itself: was nothing done?
//!
//! ```text
//!   2 ── write ──► 1, which leads and has no room ── "no room" ──────────────┐ (late)
//!   1 hands over to 2 ─► 2 puts the write into its own log ─► … ◄────────────┘ ─► it is committed
//! ```
//!
//! So who waits must not be told that nothing was done (SAFETY G10).

use command::{NotDone, Write};
use keyspace::{KeyHasher, NodeId, ReplicaId, Timestamp};
use node::executor::{Answer, Effects, Input, Origin};
use node::replica::entry::{Batch, Waiter};
use node::rpc::message::{RpcMessage, RpcRequestId};
use storage::log::Lsn;

use crate::five::{Five, SHARD};

const KEY: &[u8] = b"key";
const ALL: [usize; 5] = [1, 2, 3, 4, 5];

/// One turn of a node; its RPCs, with whom they are for.
fn turn(five: &mut Five, at: usize) -> Vec<(usize, RpcMessage)> {
    let mut effects = Effects::default();
    let executor = &mut five.executors[at - 1];
    executor.observe(five.now);
    executor.turn(&mut effects);
    let ticket = effects.ticket;
    if !effects.records.is_empty() {
        executor.accept(Input::Written { ticket, lsn: Lsn::default() });
        executor.accept(Input::Durable { ticket });
    }
    five.answers.append(&mut effects.answers);
    let from = NodeId(at as u64);
    for envelope in effects.messages.drain(..) {
        let message = Box::new(envelope.message);
        let executor = &mut five.executors[envelope.node.0 as usize - 1];
        executor.accept(Input::Message { from, shard: SHARD, message });
    }
    effects.rpcs.drain(..).map(|(to, rpc)| (to.0 as usize, rpc)).collect()
}

#[test]
fn late_no_room_reply_changes_nothing() {
    let mut five = Five::new();
    five.settle(&ALL, |_, _| true);
    assert!(five.leads(1), "it stands first");
    for _ in 0..8 {
        five.now += 50_000_000;
        for executor in &mut five.executors {
            executor.observe(five.now);
            executor.accept(Input::Tick);
        }
        five.settle(&ALL, |_, _| true);
    }
    let (mut batch, origin) = (Batch::default(), Origin(1));
    batch.push(&Write::Increment { key: KEY, by: 1 }, Waiter(1));
    five.executors[1].accept(Input::Propose { shard: SHARD, origin, batch });
    // Its question for the time is answered; then comes the write, which stays on its way.
    let mut written = None;
    while written.is_none() {
        five.now += 1_000_000;
        for at in ALL {
            for (to, rpc) in turn(&mut five, at) {
                match &rpc {
                    RpcMessage::Write { id, .. } => written = Some(*id),
                    _ => {
                        let from = NodeId(at as u64);
                        five.executors[to - 1].accept(Input::Rpc { from, rpc });
                    }
                }
            }
        }
    }
    let id = written.expect("it is sent to who leads");
    five.executors[0].accept(Input::Transfer { shard: SHARD, to: ReplicaId(2) });
    let what = RpcRequestId::Write { session: id.session, sequence: id.sequence };
    let mut unable = Some(RpcMessage::NoRoom { shard: SHARD, what });
    for at in (0..60).flat_map(|_| ALL) {
        turn(&mut five, at);
        let report =
            five.executors[1].shard(SHARD).expect("the shard is on this node").report(five.now);
        if at == 2 && report.leads && report.last_index > report.applied {
            let from = NodeId(1);
            let late = unable.take().map(|rpc| Input::Rpc { from, rpc });
            late.into_iter().for_each(|late| five.executors[1].accept(late));
        }
    }
    assert!(unable.is_none(), "it comes while the write is in the log and not applied");
    let view = five.executors[1].view(SHARD).expect("the shard is on this node");
    let state = view.read();
    let key = KeyHasher::new([7; 16]).key(KEY);
    let version = state.engine().and_then(|engine| engine.newest(&key, Timestamp::ZERO));
    assert_eq!(version.map(|version| version.value.to_vec()), Some(b"1".to_vec()));
    let undone = |answer: &Answer| match answer {
        Answer::NotDone { why, .. } => *why != NotDone::OutcomeUnknown,
        _ => false,
    };
    assert!(!five.answers.iter().any(undone), "{:?}", five.answers);
}
