//! Which keys does a command change? An observer learns each change; without one this costs
//! nothing.
//!
//! [`ObservedValues`] wraps the values that commands change, and reports every change to the
//! observer: the key, and the time of its new version. With that time a store can show the new
//! value and the one before ([`Engine::at`](storage::engine::Engine::at)). A caller without an
//! observer passes `()`, and the compiler removes all of it.
//!
//! # Caveats
//! The observer may see a key more than once, if a command writes it more than once. A flush
//! reports its range, and no keys.

use std::collections::BTreeSet;

use keyspace::{Cut, HashedKey, KeyHasher, Timestamp};
use storage::engine::Version;

use crate::Values;

/// Observes changes as a command makes them.
pub trait Changes {
    /// The key has a version of this time: a value, or the end of one.
    #[inline]
    fn changed(&mut self, _key: &[u8], _at: Timestamp) {}

    /// All keys from the first on (none: whatever the shard has) and before `end` end at this time.
    #[inline]
    fn flushed(&mut self, _from: Option<&Cut>, _end: &Cut, _at: Timestamp) {}
}

/// No observer.
impl Changes for () {}

/// An observer, or none.
impl<C: Changes> Changes for Option<C> {
    #[inline]
    fn changed(&mut self, key: &[u8], at: Timestamp) {
        if let Some(changes) = self {
            changes.changed(key, at);
        }
    }

    #[inline]
    fn flushed(&mut self, from: Option<&Cut>, end: &Cut, at: Timestamp) {
        if let Some(changes) = self {
            changes.flushed(from, end, at);
        }
    }
}

/// The keys that have changed, each once.
impl Changes for BTreeSet<Box<[u8]>> {
    fn changed(&mut self, key: &[u8], _: Timestamp) {
        if !self.contains(key) {
            self.insert(key.into());
        }
    }
}

/// Values whose changes are named.
pub struct ObservedValues<'a, V, C> {
    /// What commands find and change.
    pub values: &'a mut V,
    /// The observer.
    pub changes: &'a mut C,
}

impl<V: Values, C: Changes> Values for ObservedValues<'_, V, C> {
    #[inline]
    fn hasher(&self) -> KeyHasher {
        self.values.hasher()
    }

    #[inline]
    fn newest(&self, key: &HashedKey<'_>, at: Timestamp) -> Option<Version<'_>> {
        self.values.newest(key, at)
    }

    #[inline]
    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) -> bool {
        if expiry_ms != 0 && expiry_ms <= at.millis() {
            return self.delete(key, at);
        }
        let has_changed = self.values.put(key, parts, expiry_ms, at);
        if has_changed {
            self.changes.changed(key.bytes, at);
        }
        has_changed
    }

    #[inline]
    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool {
        let was_there = self.values.delete(key, at);
        if was_there {
            self.changes.changed(key.bytes, at);
        }
        was_there
    }

    #[inline]
    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool {
        let was_there = self.values.set_expiry(key, expiry_ms, at);
        if was_there {
            self.changes.changed(key.bytes, at);
        }
        was_there
    }
}

#[cfg(test)]
mod tests {
    use keyspace::SLOTS;
    use proptest::prelude::*;
    use storage::engine::MemoryEngine;

    use super::*;
    use crate::samples::{KEYS, writes};
    use crate::script::engine;
    use crate::{Reply, Write, apply_observed};

    fn is_flush(write: &Write<'_>) -> bool {
        matches!(write, Write::Flush { .. })
    }

    fn changed_at(engine: &MemoryEngine, at: Timestamp) -> BTreeSet<Box<[u8]>> {
        let newest = |key: &&&[u8]| engine.newest_timestamp(&engine.hasher().key(key));
        KEYS.iter().filter(|key| newest(key) == at).map(|key| Box::from(*key)).collect()
    }

    proptest! {
        /// No more and no fewer; and who asks changes no answer.
        #[test]
        fn the_keys_that_are_named_are_those_with_a_new_version(
            writes in prop::collection::vec(writes(), 0..60),
            steps in prop::collection::vec(0..100u64, 60),
        ) {
            let (mut observed, mut alone) = (engine(), engine());
            let mut at = Timestamp::ZERO;
            for (write, step) in writes.iter().zip(steps) {
                at = Timestamp::from_millis(at.millis() + step).max(at.next());
                let write = write.borrow();
                let key = observed.hasher().key(write.first_key());
                let mut named = BTreeSet::new();
                let reply = apply_observed(&mut observed, &write, &key, at, &mut named);
                prop_assert_eq!(&reply, &crate::apply(&mut alone, &write, at));
                if !is_flush(&write) {
                    prop_assert_eq!(named, changed_at(&observed, at), "{:?}", write);
                }
            }
        }
    }

    #[test]
    fn flush_reports_its_range() {
        #[derive(Default)]
        struct Flushes(Vec<(Option<Cut>, Cut)>);
        impl Changes for Flushes {
            fn flushed(&mut self, from: Option<&Cut>, end: &Cut, _: Timestamp) {
                self.0.push((from.cloned(), end.clone()));
            }
        }
        let (mut engine, mut flushes) = (engine(), Flushes::default());
        let range = (Some(Cut::Slot(5)), Cut::Slot(SLOTS));
        let write = Write::Flush { from: range.0.clone(), end: range.1.clone() };
        let key = engine.hasher().key(b"");
        let reply = apply_observed(&mut engine, &write, &key, Timestamp(1), &mut flushes);
        assert_eq!((reply, flushes.0), (Reply::Ok, vec![range]));
    }
}
