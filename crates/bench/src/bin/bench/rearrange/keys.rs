//! Checks what the keys of a client of the load must hold: its writes and their outcomes.
//!
//! Numbers rise with each write. After an acknowledged write a key holds that number, or the number
//! of a write with unknown outcome, which may be done at any later time, or never. Only this client
//! writes the key, so it may read nothing else. Another reader may also see a write that was
//! acknowledged since its request, or one that is under way.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A key.
#[derive(Clone, Debug, Default)]
pub struct Key {
    /// The number that was last acknowledged.
    pub done: Option<u64>,
    /// Numbers of writes with unknown outcome.
    pub maybe: BTreeSet<u64>,
}

impl Key {
    /// Whether a store that loses nothing may answer this to the writing client.
    pub fn may_be(&self, seen: Option<u64>) -> bool {
        seen == self.done || self.is_maybe(seen)
    }

    /// Whether it may answer this to a read that began after `floor` was acknowledged.
    pub fn may_be_since(&self, floor: Option<u64>, seen: Option<u64>) -> bool {
        seen >= floor || self.is_maybe(seen)
    }

    fn is_maybe(&self, seen: Option<u64>) -> bool {
        seen.is_some_and(|number| self.maybe.contains(&number))
    }
}

/// The keys of one client, which others look at.
pub struct Keys(Vec<Mutex<Key>>);

impl Keys {
    /// So many of which nothing is known.
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| Mutex::default()).collect())
    }

    /// What is known of one.
    pub fn get(&self, key: usize) -> Key {
        self.0[key].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// More is known of one.
    pub fn change(&self, key: usize, change: impl FnOnce(&mut Key)) {
        change(&mut self.0[key].lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_is_what_was_acknowledged_or_is_not_known() {
        let mut key = Key::default();
        assert!(key.may_be(None) && !key.may_be(Some(2)));
        key.done = Some(4);
        key.maybe.insert(2);
        assert_eq!(
            [None, Some(1), Some(2), Some(4), Some(6)].map(|seen| key.may_be(seen)),
            [false, false, true, true, false]
        );
    }

    #[test]
    fn others_see_nothing_older_than_what_was_acknowledged_before_they_asked() {
        let key = Key { done: Some(8), maybe: BTreeSet::from([3]) };
        assert_eq!(
            [None, Some(2), Some(3), Some(6), Some(10)].map(|seen| key.may_be_since(Some(6), seen)),
            [false, false, true, true, true]
        );
        assert!(key.may_be_since(None, None));
    }
}
