//! Does a leader that was deposed keep its log for entries that others have replaced?
//!
//! ```text
//!   1 leads: 20 entries that nobody else gets ─► 2 is elected, with fewer
//!                     ─► 1 follows: all that it holds is applied, nothing of its log is needed
//! ```

use std::collections::BTreeSet;

use command::Write;
use node::executor::{Input, Origin};
use node::replica::entry::{Batch, Waiter};
use storage::log::Lsn;

use crate::five::{Five, SHARD};

/// Between two ticks, in nanoseconds.
const TICK: u64 = 50_000_000;

/// Lets so many ticks pass for these, who hear each other.
fn pass(five: &mut Five, who: &[usize], ticks: usize) {
    let among: BTreeSet<usize> = who.iter().copied().collect();
    for _ in 0..ticks {
        five.now += TICK;
        for replica in who {
            let executor = &mut five.executors[replica - 1];
            executor.observe(five.now);
            executor.accept(Input::Tick);
        }
        for _ in 0..30 {
            five.turn(who, |_, to| among.contains(&to));
        }
    }
}

#[test]
fn log_replaced_by_fewer_entries_is_not_needed() {
    let mut five = Five::new();
    five.settle(&[1, 2, 3, 4, 5], |_, _| true);
    assert!(five.leads(1), "it stands first");
    for number in 0..20 {
        let mut batch = Batch::default();
        batch.push(&Write::Increment { key: b"key", by: 1 }, Waiter(number));
        five.executors[0].accept(Input::Propose { shard: SHARD, origin: Origin(1), batch });
        five.settle(&[1], |_, _| false);
    }
    pass(&mut five, &[2, 3, 4, 5], 60);
    pass(&mut five, &[1, 2, 3, 4, 5], 60);
    let end = Lsn(1_000_000);
    for executor in &five.executors {
        let shard = executor.shard(SHARD).expect("the shard is on this node");
        let report = shard.report(five.now);
        assert_eq!(report.last_index, report.applied);
        assert!(report.applied < 20, "fewer than it had");
        assert_eq!(shard.log_needed_from(end), end, "replica {}", report.replica);
    }
}
