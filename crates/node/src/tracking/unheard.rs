//! What one client must still hear: each key once, in one message.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | keys | [`NAMED_MAX`] | any key is said to have changed |

use std::collections::BTreeSet;

use super::interests::Invalidation;

/// Keys that are named to one client in one message.
pub const NAMED_MAX: usize = 1024;

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unheard {
    keys: BTreeSet<Box<[u8]>>,
    is_any: bool,
}

impl Unheard {
    /// Whether there is nothing to hear.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.is_any
    }

    /// The client must hear this, too.
    pub fn add(&mut self, what: Invalidation) {
        match what {
            Invalidation::Keys(keys) => self.add_keys(keys),
            Invalidation::All => {
                self.is_any = true;
                self.keys.clear();
            }
        }
    }

    /// It must hear of these keys, too.
    pub fn add_keys(&mut self, keys: impl IntoIterator<Item = Box<[u8]>>) {
        if self.is_any {
            return;
        }
        self.keys.extend(keys);
        if self.keys.len() > NAMED_MAX {
            self.add(Invalidation::All);
        }
    }

    /// Whether it says that this key may have changed.
    pub fn names(&self, key: &[u8]) -> bool {
        self.is_any || self.keys.contains(key)
    }

    /// The message, if there is anything to hear; nothing is left.
    pub fn take(&mut self) -> Option<Invalidation> {
        let Self { keys, is_any } = std::mem::take(self);
        match (is_any, keys.is_empty()) {
            (true, _) => Some(Invalidation::All),
            (false, true) => None,
            (false, false) => Some(Invalidation::Keys(keys.into_iter().collect())),
        }
    }
}
