//! What must hold, whatever happens. Each checker is a file of its own:
//!
//! | file | asks | rules |
//! |---|---|---|
//! | [`ledger`] | is everything still there that may not be lost, in order, nothing else? | R6, G2, G9, G16 |
//! | [`versions`] | does every read say what a store says that forgets nothing? | R9, G3, G13, G14 |
//! | [`linear`] | could one client after another have seen this? | linearizable per hash tag, R6 |
//! | [`expiry`] | does a value that was seen expired stay so? | G2, G13 |
//! | [`scan`] | does SCAN show what was there throughout? | G18 |
//!
//! R13 (same seed, same bytes) is checked by running twice: `--doublecheck`.

pub mod expiry;
pub mod ledger;
pub mod linear;
pub mod scan;
pub mod versions;

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
