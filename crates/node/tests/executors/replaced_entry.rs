//! Is an entry lost when one replica replaces it in its log? Not yet, with five replicas.
//!
//! ```text
//!   1 leads: e on 1, 2 ─► 5 is elected by 3, 4, 5: its entry takes e's place on 1, and on no other
//!                     ─► 5 is dead; 2 is elected by 2, 3, 4, and commits e
//! ```
//!
//! So the client that waits at 1 must not be told that nothing was done (SAFETY G10).

use std::collections::BTreeSet;

use command::{Reply, Write};
use keyspace::KeyHasher;
use node::executor::{Answer, Input, Origin};
use node::replica::entry::{Batch, Waiter};

use crate::five::{Five, SHARD};

const KEY: &[u8] = b"key";
/// Between two ticks, in nanoseconds.
const TICK: u64 = 50_000_000;

/// Lets time pass for these, who hear each other, until one of them is elected.
fn elect(five: &mut Five, who: &[usize]) -> usize {
    let among: BTreeSet<usize> = who.iter().copied().collect();
    for _ in 0..200 {
        five.now += TICK;
        for replica in who {
            let executor = &mut five.executors[replica - 1];
            executor.observe(five.now);
            executor.accept(Input::Tick);
        }
        // One by one: a replica that is elected has sent nothing yet.
        for replica in (0..12).flat_map(|_| who) {
            five.turn(&[*replica], |_, to| among.contains(&to));
            if let Some(leader) = who.iter().find(|replica| five.leads(**replica)) {
                return *leader;
            }
        }
    }
    panic!("nobody is elected");
}

#[test]
fn replaced_entry_that_may_commit_is_not_reported_undone() {
    let mut five = Five::new();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    assert!(five.leads(1), "it stands first");
    let (mut batch, origin) = (Batch::default(), Origin(1));
    batch.push(&Write::Increment { key: KEY, by: 1 }, Waiter(1));
    five.executors[0].accept(Input::Propose { shard: SHARD, origin, batch });
    five.settle(&[1, 2], |from, to| (from, to) == (1, 2));
    let second = elect(&mut five, &[3, 4, 5]);
    // What it begins its term with reaches the first only.
    five.settle(&[second], |_, to| to == 1);
    five.settle(&[1], |_, _| false);
    let others: Vec<usize> = [2, 3, 4, 5].into_iter().filter(|other| *other != second).collect();
    let answered = five.answers.len();
    assert_eq!(elect(&mut five, &others), 2);
    five.settle(&others, |_, to| to != second && to != 1);
    let view = five.executors[1].view(SHARD).expect("the shard is on this node");
    let key = KeyHasher::new([7; 16]).key(KEY);
    let state = view.read();
    let version = state.engine().and_then(|engine| engine.newest(&key, keyspace::Timestamp::ZERO));
    assert_eq!(version.map(|version| version.value.to_vec()), Some(b"1".to_vec()));
    drop(state);
    assert_eq!(answered, 0, "{:?}", five.answers);
    // The first hears of it at last.
    five.settle(&[1, 2, 3, 4, 5], |from, to| from != second && to != second);
    for _ in 0..8 {
        five.now += TICK;
        five.executors[1].observe(five.now);
        five.executors[1].accept(Input::Tick);
        five.settle(&[1, 2, 3, 4, 5], |from, to| from != second && to != second);
    }
    let [Answer::Applied { replies, .. }] = &five.answers[..] else { panic!("{:?}", five.answers) };
    assert_eq!(replies[..], [Reply::Int(1)]);
}
