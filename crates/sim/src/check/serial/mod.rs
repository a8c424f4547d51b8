//! Could whole transactions, one after another, have said this? Strict serialisability.
//!
//! The clients' transactions append numbers to lists and read lists. No number is appended to a
//! list twice, so a list that was read tells which transactions its reader came after, in which
//! order these came, and which ones it came before. That gives edges between transactions; an
//! order of all exists if and only if the edges have no cycle. The manner is Elle's (Kingsbury and
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
//! | ww | who appended an element | who appended the next one of the list |
//! | wr | who appended the last element of a list | who read that list |
//! | rw | who read a list | who appended the next element, which the reader has not seen |
//! | rt | who was answered | who asked only after that |
//!
//! # The order of a list
//! It is that of the longest list that was read; all others must begin it. Elements that were
//! committed and never read come after all that were read, in no order among themselves. So a
//! history should end with a read of every key, which is its caller's business.
//!
//! # Who counts
//! Transactions that were committed, and of those whose end nobody knows the ones of which an
//! element was seen by one that counts. The others may as well not have happened: what they read
//! is not looked at.
//!
//! # Where to start
//! [`check`]: first `orders` finds who counts and the order of each list, then `inner` looks at
//! what single transactions see of themselves and of halves of others. If all that is right,
//! `edges` builds the graph and `cycles` looks for cycles in it. [`cases`] has what must hold of
//! transactions that are made for it, [`bank`](fn@bank) of those that move money.
//!
//! # Caveats
//! One anomaly of a kind and key is told, and one cycle of those that are entangled; cycles are
//! looked for only where lists make sense by themselves. In a tangle of thousands of transactions
//! the search for the shortest cycle of the worst class is given up after a while, and the
//! cycle that is told may be longer than need be, or a G2 where there is a G-single too. Whether
//! there is a cycle does not depend on that.

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
    /// Who asked, for people.
    pub client: u64,
    /// When its first request was sent.
    pub invoked_at: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// What it did, in order.
    pub ops: Vec<Op>,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened, all of it, before this.
    Committed {
        /// When its client knew.
        answered_at: u64,
    },
    /// It happened at some time after it was invoked, or never.
    Unknown,
    /// It did not happen: nobody may see what it appended.
    NotDone,
}

/// One thing that a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// It put an element at the end of a list.
    Append {
        /// Which list.
        key: Vec<u8>,
        /// What: nobody else appends it to this key, nor does this transaction again.
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
