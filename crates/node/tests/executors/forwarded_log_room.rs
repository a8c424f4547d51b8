//! Is there room in its log for what a follower holds for its leader, once it leads itself?
//!
//! ```text
//!   2: SET ─► held for 1, and sent ─► 2 is elected, and proposes it
//! ```
//!
//! The room was reserved when the write came. The disk may be full by then, so what was reserved
//! must not be given back as long as the write is held (decision 0007).

use command::{Expiry, SetIf, SetReply, Write};
use keyspace::ReplicaId;
use node::executor::{Answer, Input, Origin};
use node::replica::entry::{Batch, Waiter};

use crate::five::{Five, SHARD};

/// Framing of an entry in the log.
const FRAMING_BYTES: u64 = 256;

fn set(five: &mut Five, at: usize, waiter: u64) {
    let value = vec![7; 10_000];
    let (expiry, reply) = (Expiry::Never, SetReply::Ok);
    let mut batch = Batch::default();
    let write = Write::Set { key: b"k", value: &value, when: SetIf::Always, expiry, reply };
    batch.push(&write, Waiter(waiter));
    let origin = Origin(1);
    five.executors[at - 1].accept(Input::Propose { shard: SHARD, origin, batch });
}

#[test]
fn follower_reserves_log_room_for_forwarded_writes() {
    let mut five = Five::new();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    assert!(five.leads(1), "it stands first");
    for waiter in 0..4 {
        set(&mut five, 2, waiter);
        five.settle(&[2], |_, _| false);
    }
    let held = five.executors[1].held_log_bytes(FRAMING_BYTES);
    assert!(held >= 4 * 10_000, "{held} bytes for what may be proposed here yet");
    five.log_bytes = [0; 5];
    five.executors[0].accept(Input::Transfer { shard: SHARD, to: ReplicaId(2) });
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    assert!(five.leads(2), "it was handed over");
    assert!(five.log_bytes[1] >= 4 * 10_000, "it was proposed");
    assert!(five.log_bytes[1] <= held + 1_000, "{} of {held} bytes", five.log_bytes[1]);
    let applied = |answer: &&Answer| matches!(answer, Answer::Applied { .. });
    assert_eq!(five.answers.iter().filter(applied).count(), 4, "{:?}", five.answers);
    assert_eq!(five.executors[1].held_log_bytes(FRAMING_BYTES), 0);
}
