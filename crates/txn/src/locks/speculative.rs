//! What would commands write? They run as on the shard, and see the effects of those before them.
//! But their changes go into a view beside the engine, and from there into the locks.

use std::cell::Cell;

use keyspace::{HashedKey, KeyHasher, Timestamp};
use smallvec::SmallVec;
use storage::engine::{MemoryEngine, Version};

use super::{Deadline, Intent};
use command::{Transaction, Values};

/// The intent of each key.
pub(super) type Intents<'k> = SmallVec<[(&'k [u8], Intent); 2]>;

/// See the front page.
pub(super) struct SpeculativeView<'e, 'k> {
    engine: &'e MemoryEngine,
    /// All keys that the commands name, in order.
    all: Intents<'k>,
    /// The earliest expiry of the values that were found alive.
    deadline: Cell<Deadline>,
    /// Whether the part flushes first: what the engine has is gone.
    is_flushed: bool,
}

impl<'e, 'k> SpeculativeView<'e, 'k> {
    /// One of the keys that a part's commands name.
    pub fn new(engine: &'e MemoryEngine, part: &Transaction<'k>) -> Self {
        let mut all = Intents::new();
        part.each_named(&mut |key| all.push((key, Intent::Keep)));
        all.sort_unstable_by_key(|(key, _)| *key);
        all.dedup_by_key(|(key, _)| *key);
        let (deadline, is_flushed) = (Cell::new(Deadline::NEVER), part.flush.is_some());
        Self { engine, all, deadline, is_flushed }
    }

    /// The earliest expiry of the values that the commands have found alive.
    pub fn deadline(&self) -> Deadline {
        self.deadline.get()
    }

    /// The intents, in order. A key that the commands created and deleted again gets a deletion,
    /// though it had no value: a transaction that watches its absence must notice (SAFETY G15).
    pub fn into_intents(self) -> Intents<'k> {
        self.all
    }

    fn place(&self, key: &HashedKey<'_>) -> usize {
        let found = self.all.binary_search_by(|(there, _)| (*there).cmp(key.bytes));
        found.expect("commands use the keys that they name")
    }
}

impl Values for SpeculativeView<'_, '_> {
    fn hasher(&self) -> KeyHasher {
        self.engine.hasher()
    }

    fn newest(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<Version<'_>> {
        let found = match &self.all[self.place(key)].1 {
            Intent::Keep if self.is_flushed => None,
            Intent::Keep => self.engine.newest(key, at),
            Intent::Put(value, expiry_ms) => {
                Some(Version { value, expiry_ms: *expiry_ms, timestamp: at })
            }
            Intent::Delete => None,
        };
        if let Some(version) = &found {
            let expires = Deadline::of(version.expiry_ms);
            self.deadline.set(self.deadline.get().min(expires));
        }
        found
    }

    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) -> bool {
        if expiry_ms != 0 && expiry_ms <= at.millis() {
            return self.delete(key, at);
        }
        let place = self.place(key);
        let mut value = SmallVec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| value.extend_from_slice(part));
        self.all[place].1 = Intent::Put(value, expiry_ms);
        true
    }

    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool {
        let had = self.newest(key, at).is_some();
        if had {
            let place = self.place(key);
            self.all[place].1 = Intent::Delete;
        }
        had
    }

    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool {
        let Some(value) = self.newest(key, at).map(|version| Box::<[u8]>::from(version.value))
        else {
            return false;
        };
        self.put(key, &[&value], expiry_ms, at);
        true
    }
}

#[cfg(test)]
mod tests;
