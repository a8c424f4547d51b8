//! What would commands write? They run as on the shard, and see what those before them did, but
//! what they change is kept beside it: that is what a lock has to write.

use keyspace::{HashedKey, KeyHasher, Timestamp};
use smallvec::SmallVec;
use storage::engine::{Engine, Version};

use super::Intent;
use crate::command::{Transaction, Values};

/// What becomes of each key.
pub(super) type Intents<'k> = SmallVec<[(&'k [u8], Intent); 2]>;

/// See the front page.
pub(super) struct Draft<'e, 'k> {
    engine: &'e Engine,
    /// All keys that the commands name, in order.
    all: Intents<'k>,
}

impl<'e, 'k> Draft<'e, 'k> {
    /// One of the keys that a part's commands name.
    pub fn new(engine: &'e Engine, part: &Transaction<'k>) -> Self {
        let mut all = Intents::new();
        part.each_named(&mut |key| all.push((key, Intent::Keep)));
        all.sort_unstable_by_key(|(key, _)| *key);
        all.dedup_by_key(|(key, _)| *key);
        Self { engine, all }
    }

    /// What has become of them, in order. What was made and deleted again is deleted, though it was
    /// not there: who watches that it has no value is to know (SAFETY G15).
    pub fn into_intents(self) -> Intents<'k> {
        self.all
    }

    fn place(&self, key: &HashedKey<'_>) -> usize {
        let found = self.all.binary_search_by(|(there, _)| (*there).cmp(key.bytes));
        found.expect("commands use the keys that they name")
    }
}

impl Values for Draft<'_, '_> {
    fn hasher(&self) -> KeyHasher {
        self.engine.hasher()
    }

    fn newest(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<Version<'_>> {
        match &self.all[self.place(key)].1 {
            Intent::Keep => self.engine.newest(key, at),
            Intent::Put(value, expiry_ms) => {
                Some(Version { value, expiry_ms: *expiry_ms, timestamp: at })
            }
            Intent::Delete => None,
        }
    }

    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) {
        if expiry_ms != 0 && expiry_ms <= at.millis() {
            self.delete(key, at);
            return;
        }
        let place = self.place(key);
        let mut value = SmallVec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| value.extend_from_slice(part));
        self.all[place].1 = Intent::Put(value, expiry_ms);
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
mod tests {
    use proptest::prelude::*;
    use storage::engine::Layout;

    use super::*;
    use crate::command::samples::{KEYS, transactions, writes};
    use crate::command::{Reply, Write, apply};

    fn held(engine: &Engine, key: &[u8], at: Timestamp) -> Option<(Box<[u8]>, u64)> {
        let version = engine.newest(&engine.hasher().key(key), at)?;
        Some((version.value.into(), version.expiry_ms))
    }

    proptest! {
        #[test]
        fn a_draft_is_what_an_engine_would_become(
            before in prop::collection::vec(writes(), 0..8),
            owned in transactions(),
        ) {
            let at = Timestamp::from_millis(1000);
            let hasher = KeyHasher::new([1; 16]);
            let [there, mut done] = [(), ()].map(|()| {
                let mut engine = Engine::new(Layout::Ordered, hasher);
                for (millis, write) in (990..).zip(&before) {
                    let at = Timestamp::from_millis(millis);
                    apply(&mut engine, &write.borrow(), at);
                }
                engine
            });
            let Write::Transaction(part) = owned.borrow() else { panic!("it is one") };
            let mut draft = Draft::new(&there, &part);
            let answers: Vec<Reply> = part.run(&mut draft, at);
            let on_engine: Vec<Reply> = part.run(&mut done, at);
            prop_assert_eq!(answers, on_engine);
            let intents = draft.into_intents();
            for key in KEYS {
                let had = held(&there, key, at);
                let has = held(&done, key, at);
                let newest = done.newest_timestamp(&hasher.key(key));
                match intents.iter().find(|(name, _)| *name == key).map(|(_, intent)| intent) {
                    None | Some(Intent::Keep) => {
                        prop_assert_eq!(&had, &has);
                        prop_assert!(newest < at);
                    }
                    Some(Intent::Put(value, expiry)) => {
                        prop_assert_eq!(&has, &Some((value[..].into(), *expiry)));
                        prop_assert_eq!(newest, at);
                    }
                    Some(Intent::Delete) => {
                        prop_assert!(has.is_none());
                        prop_assert_eq!(newest, at);
                    }
                }
            }
        }
    }
}
