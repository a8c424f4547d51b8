//! Is every anomaly found and named, and nothing else?
//!
//! [`by_hand`] writes each of them down, [`of_cases`] those that transactions are made for;
//! [`random`] makes histories by executing transactions well or badly, and asks the [`oracle`], who
//! tries all orders, whether they are right.

use super::*;

mod by_hand;
mod of_cases;
mod oracle;
mod random;

/// A transaction of these ops: `a+1` appends 1 to a, `a:1,2` has read 1 and 2 there, `a?` has read
/// what is not known.
fn did(outcome: Outcome, invoked_at: u64, ops: &str) -> ObservedTxn {
    let op = |text: &str| {
        let (key, rest) = (text[..1].into(), &text[2..]);
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let list = || rest.split(',').filter(|text| !text.is_empty()).map(number).collect();
        match &text[1..2] {
            "+" => Op::Append { key, element: number(rest) },
            ":" => Op::Read { key, list: Some(list()) },
            "?" => Op::Read { key, list: None },
            other => panic!("{other:?} is no op"),
        }
    };
    ObservedTxn { client: 0, invoked_at, outcome, ops: ops.split_whitespace().map(op).collect() }
}

/// One that was committed within this time.
fn ok(invoked_at: u64, answered_at: u64, ops: &str) -> ObservedTxn {
    did(Outcome::Committed { answered_at }, invoked_at, ops)
}

/// One whose end nobody knows.
fn lost(invoked_at: u64, ops: &str) -> ObservedTxn {
    did(Outcome::Unknown, invoked_at, ops)
}

/// One that did not happen.
fn not(invoked_at: u64, ops: &str) -> ObservedTxn {
    did(Outcome::NotDone, invoked_at, ops)
}
