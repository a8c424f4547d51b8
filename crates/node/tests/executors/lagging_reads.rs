//! Who answers readers at a replica that is far behind? Its leader, until it has caught up.
//!
//! ```text
//!   3 is cut off: reader at 3 ─► asks 1: index 9 ─(100 ms)─► 3 lags ─► fetched from 1
//!   3 is back, has 9 applied  ─► readers are served at 3 again
//!   6 is new, and its state is long on its way: readers there do not even wait
//! ```

use std::sync::Arc;

use command::{Expiry, NotDone, SetIf, SetReply, Write};
use hlc::Clock;
use keyspace::{Generation, NodeId, ReplicaId, Timestamp};
use node::executor::{Answer, Input, Origin, ShardExecutor};
use node::replica::entry::{Batch, Waiter};
use node::routing::fetch::{FetchRequest, FetchedData};
use node::rpc::message::RpcMessage;

use crate::five::{Five, SHARD};

const KEY: &[u8] = b"key";
const ME: Origin = Origin(1);
const MILLI: u64 = 1_000_000;
/// Longer than a replica is waited for.
const WAIT_MS: u64 = 150;

/// Time passes for all, and messages go where they may.
fn pass(five: &mut Five, millis: u64, may: impl Fn(usize, usize) -> bool) {
    let all: Vec<usize> = (1..=five.executors.len()).collect();
    for _ in 0..millis / 50 {
        five.now += 50 * MILLI;
        for executor in &mut five.executors {
            executor.observe(five.now);
            executor.accept(Input::Tick);
        }
        five.settle(&all, &may);
    }
}

/// Brings RPCs, and what they lead to, until there are none. Messages go where they may.
fn bring(five: &mut Five, may: impl Fn(usize, usize) -> bool) {
    let all: Vec<usize> = (1..=five.executors.len()).collect();
    five.settle(&all, &may);
    while !five.rpcs.is_empty() {
        for (from, to, rpc) in std::mem::take(&mut five.rpcs) {
            let from = NodeId(from as u64);
            five.executors[to - 1].accept(Input::Rpc { from, rpc });
        }
        five.settle(&all, &may);
    }
}

fn set(five: &mut Five, value: &[u8], may: impl Fn(usize, usize) -> bool) {
    let (expiry, reply) = (Expiry::Never, SetReply::Ok);
    let mut batch = Batch::default();
    batch.push(&Write::Set { key: KEY, value, when: SetIf::Always, expiry, reply }, Waiter(7));
    five.executors[0].accept(Input::Propose { shard: SHARD, origin: ME, batch });
    bring(five, may);
    assert!(matches!(five.answers.pop(), Some(Answer::Applied { .. })));
}

fn wait(five: &mut Five, at: usize, waiter: u64) {
    let (at_time, waiter) = (Timestamp::ZERO, Waiter(waiter));
    let input = Input::AwaitRead { shard: SHARD, at: at_time, lock: None, origin: ME, waiter };
    five.executors[at - 1].accept(input);
}

fn fetch(five: &mut Five, at: usize, waiter: u64) {
    let (want, bytes_max, waiter) =
        (Box::new(FetchRequest::keys([KEY])), usize::MAX, Waiter(waiter));
    let input = Input::Fetch { shard: SHARD, want, bytes_max, origin: ME, waiter };
    five.executors[at - 1].accept(input);
}

/// The value of the key in the only answer.
fn fetched(five: &mut Five) -> Vec<u8> {
    let answers = std::mem::take(&mut five.answers);
    let [Answer::Fetched { at, want, found, .. }] = &answers[..] else { panic!("{answers:?}") };
    let mut fetched = FetchedData::default();
    fetched.add(SHARD, *at, (**want).clone(), (**found).clone());
    let (version, _) = fetched.version(SHARD, KEY).expect("the key was fetched");
    version.expect("the key has a value").value.to_vec()
}

fn lags(five: &Five, at: usize) -> bool {
    let view = five.executors[at - 1].view(SHARD).expect("the node has a replica");
    view.read().serving.lags()
}

/// The only answer: the read is to be fetched.
fn is_sent_away(five: &mut Five) -> bool {
    let answers = std::mem::take(&mut five.answers);
    matches!(answers[..], [Answer::NotDone { why: NotDone::ReplicaLagging, .. }])
}

#[test]
fn lagging_replica_fetches_from_leader() {
    let mut five = Five::new();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    assert!(five.leads(1), "it stands first");
    pass(&mut five, 50, |_, _| true);
    let cut = |_, to| to != 3;
    set(&mut five, b"one", cut);
    wait(&mut five, 3, 1);
    bring(&mut five, cut);
    assert!(five.answers.is_empty(), "it may come yet");
    assert!(!lags(&five, 3));
    pass(&mut five, WAIT_MS, cut);
    assert!(is_sent_away(&mut five) && lags(&five, 3));
    fetch(&mut five, 3, 1);
    bring(&mut five, cut);
    assert_eq!(fetched(&mut five), b"one");
    // Those behind do not wait; nor do they see what is old.
    set(&mut five, b"two", cut);
    wait(&mut five, 3, 2);
    five.settle(&[3], cut);
    assert!(is_sent_away(&mut five));
    fetch(&mut five, 3, 2);
    bring(&mut five, cut);
    assert_eq!(fetched(&mut five), b"two");
    // It has caught up.
    pass(&mut five, 1_000, |_, _| true);
    assert!(!lags(&five, 3));
    wait(&mut five, 3, 3);
    bring(&mut five, |_, _| true);
    assert!(matches!(five.answers[..], [Answer::Retry { .. }]), "{:?}", five.answers);
    five.answers.clear();
    // Who asks for values is told them by the leader still.
    fetch(&mut five, 3, 4);
    bring(&mut five, |_, _| true);
    assert_eq!(fetched(&mut five), b"two");
}

#[test]
fn replica_awaiting_snapshot_fetches_from_leader_at_once() {
    let mut five = Five::new();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    let mut executor = ShardExecutor::new(Arc::new(Clock::default()), 6, 1 << 20);
    executor.observe(five.now);
    five.executors.push(executor);
    set(&mut five, b"one", |_, _| true);
    let (generation, add, remove) = (Generation(1), vec![NodeId(6), NodeId(7)], Vec::new());
    five.executors[0].accept(Input::ChangeReplicas { shard: SHARD, generation, add, remove });
    let known = |_, to| to != 7;
    pass(&mut five, 100, known);
    let new = five.executors[5].shard(SHARD).expect("the shard is on this node");
    assert_eq!((new.applied_index(), new.leader()), (0, Some(NodeId(1))));
    wait(&mut five, 6, 1);
    five.settle(&[6], known);
    assert!(is_sent_away(&mut five) && lags(&five, 6));
    fetch(&mut five, 6, 1);
    bring(&mut five, known);
    assert_eq!(fetched(&mut five), b"one");
}

/// The leader that was asked steps down: the request goes to its successor.
#[test]
fn fetch_goes_to_successor_when_leader_steps_down() {
    let mut five = Five::new();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    pass(&mut five, 50, |_, _| true);
    let cut = |_, to| to != 3;
    set(&mut five, b"one", cut);
    wait(&mut five, 3, 1);
    bring(&mut five, cut);
    pass(&mut five, WAIT_MS, cut);
    assert!(is_sent_away(&mut five));
    fetch(&mut five, 3, 1);
    five.settle(&[3], cut);
    let asks = matches!(five.rpcs[..], [(3, 1, RpcMessage::Fetch { .. })]);
    assert!(asks, "{:?}", five.rpcs);
    // 3 hears who leads, and still nothing of the entries before.
    five.executors[0].accept(Input::Transfer { shard: SHARD, to: ReplicaId(2) });
    five.settle(&[1, 2, 3, 4, 5], cut);
    assert!(five.leads(2), "it was handed over");
    bring(&mut five, cut);
    assert!(five.answers.is_empty(), "the first does not lead: {:?}", five.answers);
    // Where it had been on the way to the first.
    for _ in 0..4 {
        pass(&mut five, 250, |_, _| true);
        bring(&mut five, |_, _| true);
    }
    assert_eq!(fetched(&mut five), b"one");
}

/// Itself leads at last: readers look here.
#[test]
fn new_leader_serves_readers_that_awaited_the_old_one() {
    let mut five = Five::new();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    pass(&mut five, 50, |_, _| true);
    let cut = |_, to| to != 3;
    set(&mut five, b"one", cut);
    wait(&mut five, 3, 1);
    bring(&mut five, cut);
    pass(&mut five, WAIT_MS, cut);
    assert!(is_sent_away(&mut five));
    fetch(&mut five, 3, 1);
    five.settle(&[3], cut);
    five.rpcs.clear();
    pass(&mut five, 100, |_, _| true);
    five.executors[0].accept(Input::Transfer { shard: SHARD, to: ReplicaId(3) });
    five.rpcs.clear();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    assert!(five.leads(3), "it was handed over");
    assert!(matches!(five.answers[..], [Answer::Retry { .. }]), "{:?}", five.answers);
    assert!(!lags(&five, 3));
}
