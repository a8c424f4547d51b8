//! Does some order of whole transactions explain all answers? Strict serialisability.
//!
//! The clients' transactions append numbers to lists and read lists. No number is appended to a
//! list twice. So a list that was read shows which transactions came before its reader, in which
//! order, and which came after it. That gives edges between transactions; an order of all exists if
//! and only if the edges have no cycle. The method is Elle's (Kingsbury and
//! Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020), the
//! names of the anomalies are Adya's (1999).
//!
//! ```text
//!   T0  ├── append a 1, read b [] ──┤              T0 ─ rw: did not see 2 in b ─▶ T1
//!   T1     ├── append b 2, read a [] ──┤           T1 ─ rw: did not see 1 in a ─▶ T0     G2
//! ```
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | the writer of an element | the writer of the list's next element |
//! | wr | the writer of a list's last element | the reader of that list |
//! | rw | the reader of a list | the writer of the next element, which the reader has not seen |
//! | rt | a transaction that was answered | one that was invoked only after that |
//!
//! # The order of a list
//! It is that of the longest list that was read; all others must begin it. Elements that were
//! committed and never read come after all that were read, in no order among themselves. So a
//! history should end with a read of every key, which is its caller's business.
//!
//! # Which transactions count
//! Committed transactions; and those of unknown outcome of which a counted transaction has seen an
//! element. The others may as well not have happened: the checker ignores their reads.
//!
//! # Where to start
//! [`check`]: first `orders` finds the transactions that count and the order of each list. Then
//! `inner` checks that single transactions see their own writes, and no half of another. If all
//! that is right, `edges` builds the graph and `cycles` looks for cycles in it. [`cases`] checks
//! transactions made for one anomaly, [`bank`](fn@bank) those that move money.
//!
//! # Caveats
//! The checker reports one anomaly of a kind and key, and one cycle of each strongly connected
//! component; it looks for cycles only where the lists themselves are consistent. In a component of
//! thousands of transactions it gives up the search for the shortest cycle of the worst class after
//! a while. The reported cycle may then be longer than necessary, or a G2 where there is a G-single
//! too. Whether it finds a cycle does not depend on that.

mod anomaly;
mod bank;
pub mod cases;
mod cycles;
mod edges;
mod graph;
mod inner;
mod orders;
#[cfg(test)]
mod tests;

pub use anomaly::{Anomaly, Class, Kind};
pub use bank::bank;

/// A transaction, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTxn {
    /// The client, for people.
    pub client: u64,
    /// When its first request was sent.
    pub invoked_at: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// What it did, in order.
    pub ops: Vec<Op>,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened, all of it, before this.
    Committed {
        /// When its client knew.
        answered_at: u64,
    },
    /// It happened at some time after it was invoked, or never.
    Unknown,
    /// It did not happen: no transaction may see its elements.
    NotDone,
}

/// One thing that a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// It put an element at the end of a list.
    Append {
        /// Which list.
        key: Vec<u8>,
        /// The element: no other transaction appends it to this key, nor does this one again.
        element: u64,
    },
    /// It read a whole list.
    Read {
        /// Which one.
        key: Vec<u8>,
        /// What it saw; a key that is absent is an empty list. None if no answer came.
        list: Option<Vec<u64>>,
    },
}

/// What shows that no order of the transactions, each at some time between its call and its answer,
/// explains all that they saw. Empty if there is such an order.
///
/// # Panics
/// If an element is appended twice to a key: such a history says nothing.
pub fn check(history: &[ObservedTxn]) -> Vec<Anomaly> {
    let (orders, mut found) = orders::Orders::of(history);
    found.extend(inner::check(&orders));
    if found.is_empty() {
        found = cycles::find(&orders);
    }
    found
}
