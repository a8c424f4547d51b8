//! Does SCAN show every key that was there throughout (SAFETY G18)?

use std::collections::BTreeSet;

use super::Violation;

/// One SCAN from cursor 0 to cursor 0.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Keys that were there whenever anyone looked.
    throughout: BTreeSet<Vec<u8>>,
    shown: BTreeSet<Vec<u8>>,
}

impl Scan {
    /// Begins, with the keys that are there.
    pub fn begin(there: impl Iterator<Item = Vec<u8>>) -> Self {
        Self { throughout: there.collect(), shown: BTreeSet::new() }
    }

    /// The keys that are there have changed, or time has passed.
    pub fn look(&mut self, is_there: impl Fn(&[u8]) -> bool) {
        self.throughout.retain(|key| is_there(key));
    }

    /// A key was shown.
    pub fn show(&mut self, key: &[u8]) {
        self.shown.insert(key.to_vec());
    }

    /// Ends.
    ///
    /// # Errors
    /// G18.
    pub fn end(&self) -> Result<(), Violation> {
        match self.throughout.difference(&self.shown).next() {
            None => Ok(()),
            Some(key) => {
                let text = format!("{} was there all the time, not shown", key.escape_ascii());
                Err(Violation::new("G18 SCAN", text))
            }
        }
    }
}
