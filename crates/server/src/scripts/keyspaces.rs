//! Keyspaces that a script uses besides the one that it was called in: it has selected them, or
//! moves values there.
//!
//! ```text
//!   SELECT 3 ──► found, or made ──► a copy of its keys, like that of the script's own keyspace
//!   commit   ──► all copies that were used, at one moment
//! ```

use std::collections::BTreeMap;

use keyspace::KeyspaceId;
use txn::interactive::InteractiveTxn;

use crate::runtime::NodeRuntime;
use crate::runtime::open_txns::HeldTxn;

/// What a script has read and written in them.
#[derive(Default)]
pub struct OtherKeyspaces(BTreeMap<KeyspaceId, HeldTxn>);

impl OtherKeyspaces {
    /// The copy of a keyspace. A new one is like that of its own: of the same time, and may grow as
    /// large.
    pub fn copy(
        &mut self,
        runtime: &NodeRuntime,
        id: KeyspaceId,
        own: &InteractiveTxn,
    ) -> &mut InteractiveTxn {
        let begin = || {
            let copy = InteractiveTxn::restartable(own.began(), own.bytes_max());
            runtime.open_txns.hold(id, Box::new(copy))
        };
        &mut self.0.entry(id).or_insert_with(begin).copy
    }

    /// Updates the memory that they count for. Whether all of the node stay within the limit.
    pub fn count(&mut self) -> bool {
        let mut fits = true;
        self.0.values_mut().for_each(|held| fits &= held.count());
        fits
    }

    /// Bytes of keys and values that they hold.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|held| held.copy.bytes()).sum()
    }

    /// How many keys they know.
    pub fn keys(&self) -> usize {
        self.0.values().map(|held| held.copy.keys()).sum()
    }

    /// Takes the copy of a keyspace.
    pub fn take(&mut self, keyspace: KeyspaceId) -> Option<HeldTxn> {
        self.0.remove(&keyspace)
    }

    /// Gives it back.
    pub fn give_back(&mut self, held: HeldTxn) {
        self.0.insert(held.keyspace, held);
    }

    /// Forgets what the script has done, and keeps what it has read.
    pub fn restart(&mut self) {
        self.0.values_mut().for_each(|held| held.copy.restart());
    }

    /// The copy of each.
    pub fn iter(&self) -> impl Iterator<Item = (KeyspaceId, &InteractiveTxn)> {
        self.0.iter().map(|(id, held)| (*id, &*held.copy))
    }

    /// All of them in which the script has read or written.
    pub fn into_used(self) -> Vec<HeldTxn> {
        self.0.into_values().filter(|held| !held.copy.is_empty()).collect()
    }

    /// Whether it has read or written in none.
    pub fn are_unused(&self) -> bool {
        self.0.values().all(|held| held.copy.is_empty())
    }
}
