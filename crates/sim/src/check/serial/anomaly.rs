//! The anomalies of a history, and how they are printed.

use std::fmt;

use super::{ObservedTxn, Op, Outcome};

/// Which rule a history breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An element was read that no transaction appended.
    Garbage,
    /// An element was read that a transaction appended which did not happen (G1a).
    Aborted,
    /// A list was read as it was between two appends of another transaction (G1b).
    Intermediate,
    /// A transaction did not see what it did itself, or not the same when it read again.
    Internal,
    /// Two reads of a key, neither of which begins the other.
    Incompatible,
    /// An element was read twice in one list.
    Duplicate,
    /// Elements of one transaction, in another order than it appended them.
    OwnOrder,
    /// Transactions each of which must come before the next, and the last before the first.
    Cycle {
        /// By what kinds of edges.
        class: Class,
        /// Whether there would be no cycle if time did not matter.
        realtime: bool,
    },
    /// A sum that must not change was seen changed ([`bank`](fn@super::bank)).
    Sum,
    /// Two have decided by what the other has changed ([`super::cases`]).
    WriteSkew,
    /// … by keys that are not there, of which the other has made one.
    Phantom,
    /// Two readers have seen writes in different orders.
    LongFork,
    /// A read-only transaction has seen an impossible order.
    ReadOnly,
}

/// A cycle's kinds of edges, besides those of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// ww only: writes of transactions are mixed.
    G0,
    /// ww and wr: they have seen each other.
    G1c,
    /// One rw: a transaction saw half of another, or overwrote a write that it had not seen.
    GSingle,
    /// Several rw: transactions decided by values that others were about to change.
    G2,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Garbage => "garbage read",
            Self::Aborted => "G1a (aborted read)",
            Self::Intermediate => "G1b (intermediate read)",
            Self::Internal => "internal inconsistency",
            Self::Incompatible => "incompatible orders",
            Self::Duplicate => "duplicate element",
            Self::OwnOrder => "appends out of order",
            Self::Sum => "sum changed",
            Self::WriteSkew => "write skew",
            Self::Phantom => "phantom",
            Self::LongFork => "long fork",
            Self::ReadOnly => "read-only anomaly",
            Self::Cycle { class, realtime } => {
                let class = match class {
                    Class::G0 => "G0",
                    Class::G1c => "G1c",
                    Class::GSingle => "G-single",
                    Class::G2 => "G2",
                };
                return write!(f, "{class}{}", if *realtime { "-realtime" } else { "" });
            }
        };
        f.write_str(name)
    }
}

/// A history breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Which one.
    pub kind: Kind,
    /// By which transactions: their places in the history, in a cycle's order.
    pub transactions: Vec<usize>,
    /// How, then the transactions, a line each.
    pub text: String,
}

impl Anomaly {
    /// This rule is broken by these transactions of the history, like this.
    pub(super) fn new(
        kind: Kind,
        history: &[ObservedTxn],
        transactions: Vec<usize>,
        text: impl Into<String>,
    ) -> Self {
        let mut text = text.into();
        for at in &transactions {
            text.push_str(&format!("\n  T{at} {}", history[*at]));
        }
        Self { kind, transactions, text }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

impl fmt::Display for ObservedTxn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}, {}-", self.client, self.invoked_at)?;
        match self.outcome {
            Outcome::Committed { answered_at } => write!(f, "{answered_at}:")?,
            Outcome::Unknown => f.write_str("?:")?,
            Outcome::NotDone => f.write_str(", not done:")?,
        }
        for (at, op) in self.ops.iter().enumerate() {
            write!(f, "{} {op}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append { key, element } => write!(f, "append {} {element}", Name(key)),
            Self::Read { key, list: Some(list) } => write!(f, "read {} {}", Name(key), List(list)),
            Self::Read { key, list: None } => write!(f, "read {} ?", Name(key)),
        }
    }
}

/// A key, for people.
pub(super) struct Name<'a>(pub &'a [u8]);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// Of a long list the end is shown.
const SHOWN_MAX: usize = 12;

/// A list, for people.
pub(super) struct List<'a>(pub &'a [u64]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.0.len().saturating_sub(SHOWN_MAX);
        f.write_str("[")?;
        if hidden > 0 {
            write!(f, "{hidden} more, ")?;
        }
        for (at, element) in self.0[hidden..].iter().enumerate() {
            write!(f, "{}{element}", if at == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}
