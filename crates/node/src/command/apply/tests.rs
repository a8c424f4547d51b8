//! Promises of [`apply`] that no script shows.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::samples::writes;
use super::*;

/// The plainest store: what each key has now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::command) struct Plain {
    keys: BTreeMap<Vec<u8>, (Vec<u8>, u64, Timestamp)>,
}

impl Plain {
    pub(in crate::command) fn version(&self, key: &[u8], now: Timestamp) -> Option<Version<'_>> {
        let (value, expiry_ms, timestamp) = self.keys.get(key)?;
        let version = Version { value, expiry_ms: *expiry_ms, timestamp: *timestamp };
        (*expiry_ms == 0 || *expiry_ms > now.millis()).then_some(version)
    }
}

impl Store for Plain {
    fn hasher(&self) -> KeyHasher {
        KeyHasher::new([7; 16])
    }

    fn newest(&self, key: &HashedKey<'_>, now: Timestamp) -> Option<Version<'_>> {
        self.version(key.bytes, now)
    }

    fn put(&mut self, key: &HashedKey<'_>, parts: &[&[u8]], expiry_ms: u64, at: Timestamp) {
        let value = (parts.concat(), expiry_ms, at);
        self.keys.insert(key.bytes.into(), value);
        if self.newest(key, at).is_none() {
            self.keys.remove(key.bytes);
        }
    }

    fn delete(&mut self, key: &HashedKey<'_>, at: Timestamp) -> bool {
        let there = self.newest(key, at).is_some();
        self.keys.remove(key.bytes);
        there
    }

    fn set_expiry(&mut self, key: &HashedKey<'_>, expiry_ms: u64, at: Timestamp) -> bool {
        let Some(value) = self.newest(key, at).map(|version| version.value.to_vec()) else {
            return false;
        };
        self.put(key, &[&value], expiry_ms, at);
        true
    }

    fn flush(&mut self, _: Timestamp) {
        self.keys.clear();
    }
}

const LIMITS: Limits = Limits { value_bytes_max: 500 };

proptest! {
    #[test]
    fn refusals_change_nothing_and_replies_fit(
        writes in prop::collection::vec(writes(), 0..60),
        steps in prop::collection::vec(0..100u64, 60),
    ) {
        let mut store = Plain::default();
        let mut millis = 0;
        for (write, step) in writes.iter().zip(steps) {
            millis += step;
            let at = Timestamp::from_millis(millis);
            let before = store.clone();
            let write = write.borrow();
            let reply = apply(&mut store, &write, at, &LIMITS);
            if let Reply::Refused(_) = reply {
                prop_assert_eq!(&store, &before);
            }
            let length = match write {
                Write::Append { key, .. } | Write::SetRange { key, .. } => Some(key),
                _ => None,
            };
            if let (Some(key), Reply::Int(length)) = (length, &reply) {
                let version = store.version(key, at);
                prop_assert_eq!(version.map_or(0, |version| version.value.len()), *length as usize);
            }
            if let (Write::Increment { key, .. }, Reply::Int(sum)) = (&write, &reply) {
                let version = store.version(key, at).unwrap();
                prop_assert_eq!(version.value, format!("{sum}").into_bytes());
            }
        }
    }
}
