//! Was every value that a transaction found alive still alive at its commit time (SAFETY G22)?
//!
//! ```text
//!   SET mortal "270" PXAT 270     its value says when it ends
//!   MULTI, GET mortal, SET witness 41, EXEC ──► "270"    41 has found it
//!   witness is seen: 41, as of 300 ──► committed at 300: the value had ended before
//! ```
//!
//! The version of a value is the time at which its transaction was committed. No clock of a node is
//! asked, so it does not matter how far they are apart.

use std::collections::BTreeMap;

use keyspace::Timestamp;

/// Checks transactions by the values that they write.
#[derive(Debug, Default)]
pub struct ExpiryChecker {
    /// When the value ends that it has found, in ms.
    found: BTreeMap<i64, u64>,
    /// When it was committed.
    committed: BTreeMap<i64, Timestamp>,
}

impl ExpiryChecker {
    /// A transaction was done, and has found a value that ends then; 0: none.
    pub fn found(&mut self, witness: i64, end_ms: u64) {
        if end_ms > 0 {
            self.found.insert(witness, end_ms);
        }
    }

    /// What a transaction has written was seen, of this version.
    pub fn committed(&mut self, witness: i64, at: Timestamp) {
        self.committed.insert(witness, at);
    }

    /// The first that was committed too late.
    pub fn judge(&self) -> Option<String> {
        let late = self.found.iter().find_map(|(witness, end_ms)| {
            let at = self.committed.get(witness)?;
            (at.millis() >= *end_ms).then_some((witness, end_ms, at))
        });
        late.map(|(witness, end_ms, at)| {
            let at = at.millis();
            format!(
                "the transaction that wrote {witness} found a value alive that ends at {end_ms} \
                 ms, and was committed at {at} ms"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_committed_before_what_it_has_found_ends() {
        let mut ends = ExpiryChecker::default();
        ends.found(1, 270);
        ends.found(2, 0);
        for (witness, millis) in [(1, 269), (2, 500), (3, 500)] {
            ends.committed(witness, Timestamp::from_millis(millis));
        }
        assert_eq!(ends.judge(), None);
        ends.found(3, 500);
        assert!(ends.judge().is_some_and(|text| text.contains("wrote 3 ")), "its last ms is over");
    }
}
