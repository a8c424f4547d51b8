//! The checkers of the rules that must hold in every run. Each is a file of its own:
//!
//! | file | asks | rules |
//! |---|---|---|
//! | [`ledger`] | are all acknowledged entries still there, in order, and nothing else? | R6, G2, G9, G16 |
//! | [`versions`] | does every read answer as a store that forgets nothing would? | R9, G3, G13, G14 |
//! | [`linear`] | could one client after another have seen this? | linearizable per hash tag, R6 |
//! | [`serial`] | does some order of whole transactions explain all answers? | strictly serialisable |
//! | [`register`] | are several keys that are written and read together like one? | strictly serialisable |
//! | [`agreement`] | do all replicas apply the same, under one leader a term? | R1, R3, R5, R6 |
//! | [`expiry`] | does a value that was seen expired stay so? | G2, G13 |
//! | [`ring`] | is the ring ideal once nothing breaks any more? | R1, R2, R12 |
//! | [`scan`] | does SCAN show every key that was there throughout? | G18 |
//!
//! R13 (same seed, same bytes) is checked by running twice: `--doublecheck`.

use node::replica::Replica;
use storage::log::{Group, Lsn};

pub mod agreement;
pub mod expiry;
pub mod ledger;
pub mod linear;
pub mod register;
pub mod ring;
pub mod scan;
pub mod serial;
pub mod versions;

/// Observes a node's executors.
pub trait ReplicaObserver {
    /// An executor hands out a group that is about to be written. Its number, for
    /// [`Self::written`].
    ///
    /// # Errors
    /// What is wrong with it.
    fn hand_out(&mut self, group: &Group) -> Result<u64, Violation>;

    /// The group of this number was written; the log ends at `end` now.
    fn written(&mut self, number: u64, end: Lsn);

    /// This is what a replica of the node is after a step.
    ///
    /// # Errors
    /// What is wrong with it.
    fn look(&mut self, shard: &Replica) -> Result<(), Violation>;
}

/// A rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub rule: &'static str,
    /// How.
    pub text: String,
}

impl Violation {
    /// This rule, broken like this.
    pub fn new(rule: &'static str, text: impl Into<String>) -> Self {
        Self { rule, text: text.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}
