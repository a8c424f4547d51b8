//! What does a checkpoint say of entries that are on their way to the disk?
//!
//! ```text
//!   1 leads, proposes x, and is cut off        on 1's disk: x, which nobody else has
//!   another leads: y in the place of x, agreed upon and acknowledged
//!   1 is back, is sent y, and hears that it is agreed upon
//!     a checkpoint begins, before y is on 1's disk; then 1 is killed
//!   1 starts: its log has x before y, and x is not to be applied
//! ```

use command::{Expiry, SetIf, SetReply, Write};
use keyspace::{KeyHasher, NodeId, Timestamp};
use node::executor::{Effects, Input, Origin};
use node::recovery::RecoveringReplica;
use node::recovery::checkpoint::{BLOCK, Checkpoint};
use node::replica::entry::{Batch, Waiter};
use node::replica::record;
use storage::log::Lsn;

use crate::five::{Five, SHARD};

const TICK_NANOS: u64 = 50_000_000;
const ALL: [usize; 5] = [1, 2, 3, 4, 5];

fn set(five: &mut Five, at: usize, value: &[u8]) {
    let (when, expiry, reply) = (SetIf::Always, Expiry::Never, SetReply::Ok);
    let mut batch = Batch::default();
    batch.push(&Write::Set { key: b"key", value, when, expiry, reply }, Waiter(1));
    five.executors[at - 1].accept(Input::Propose { shard: SHARD, origin: Origin(1), batch });
}

/// Time passes for these, who hear each other.
fn pass(five: &mut Five, who: &[usize], ticks: usize) {
    for _ in 0..ticks {
        tick(five, who);
        for _ in 0..30 {
            five.turn(who, |_, to| who.contains(&to));
        }
    }
}

fn tick(five: &mut Five, who: &[usize]) {
    five.now += TICK_NANOS;
    for replica in who {
        five.executors[replica - 1].observe(five.now);
        five.executors[replica - 1].accept(Input::Tick);
    }
}

/// A turn of 1, with its messages; whether it hands out entries of a later term than its first.
fn turn_of_one(five: &mut Five) -> (Effects, bool) {
    let mut effects = Effects::default();
    five.executors[0].observe(five.now);
    five.executors[0].turn(&mut effects);
    let mut replaces = false;
    for each in effects.records.iter() {
        if each.kind == record::ENTRY {
            let (_, term, _) = record::split_entry(each.payload).expect("an entry");
            replaces |= term > 1;
        }
        five.logs[0].push((each.kind, each.payload.to_vec()));
    }
    for envelope in effects.messages.drain(..) {
        let message =
            Input::Message { from: NodeId(1), shard: SHARD, message: Box::new(envelope.message) };
        five.executors[envelope.node.0 as usize - 1].accept(message);
    }
    (effects, replaces)
}

#[test]
fn checkpoint_holds_no_entry_that_is_being_replaced() {
    let mut five = Five::new();
    five.settle(&ALL, |_, _| true);
    assert!(five.leads(1));
    set(&mut five, 1, b"never committed");
    five.settle(&[1], |_, _| false);
    pass(&mut five, &ALL[1..], 60);
    let leader = (2..=5).find(|at| five.leads(*at)).expect("somebody leads");
    five.answers.clear();
    set(&mut five, leader, b"acknowledged");
    pass(&mut five, &ALL[1..], 2);
    assert!(!five.answers.is_empty(), "it was acknowledged");

    let mut begun = None;
    'back: for _ in 0..40 {
        tick(&mut five, &ALL);
        for _ in 0..20 {
            five.turn(&ALL[1..], |_, _| true);
            let (effects, replaces) = turn_of_one(&mut five);
            if replaces {
                let shard = five.executors[0].shard(SHARD).expect("the shard is on this node");
                begun = Some(Checkpoint::begin(shard, Lsn(1 << 40), BLOCK));
                break 'back;
            }
            let ticket = effects.ticket;
            five.executors[0].accept(Input::Written { ticket, lsn: Lsn::default() });
            five.executors[0].accept(Input::Durable { ticket });
        }
    }
    let mut checkpoint = begun.expect("1 was sent what replaces its entry");

    let hasher = KeyHasher::new([7; 16]);
    let started = RecoveringReplica::from_checkpoint(SHARD, &checkpoint.meta, hasher);
    let mut started = started.expect("it is one");
    let mut block = Vec::new();
    while checkpoint.next_block(&mut block) {
        started.restore(&block).expect("a block");
    }
    for (nth, (kind, payload)) in five.logs[0].iter().enumerate() {
        if [record::ENTRY, record::HARD_STATE].contains(kind) {
            started.record(Lsn(nth as u64), *kind, payload).expect("a record");
        }
    }
    let engine = started.state().engine().expect("the shard has keys");
    let found = engine.newest(&hasher.key(b"key"), Timestamp::MAX);
    let found = found.map(|version| version.value.to_vec());
    assert_ne!(found.as_deref(), Some(&b"never committed"[..]));
}
