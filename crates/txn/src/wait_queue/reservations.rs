//! Keys that a leader *reserves* for a transaction that failed before, because other transactions
//! keep changing its keys.
//!
//! A transaction that reads first and writes then fails if another one changes the keys in between.
//! Under heavy contention it would never be done. So it reads all its keys at once, with a read
//! that reserves them from everyone ([`ReserveFrom::Everyone`](super::ReserveFrom)). The
//! reservation's name is the time of its first such read. From then on:
//!
//! - Younger transactions and all commands wait for these keys; older transactions go first.
//! - The read is answered when no change of the keys is under way.
//! - The transaction's PREPARE carries the name, and passes all that wait for the keys.
//!
//! A transaction that holds locks elsewhere waits for a reservation no longer than for an older
//! one's lock, and then gives up its locks. So no circle of waits lasts. When a command has waited
//! for 50 ms, the leader reserves no more keys before it is done. No promise depends on
//! reservations: they end with the lead, and after [`RESERVED_NANOS`].

use std::collections::BTreeMap;
use std::ops::Bound;

use keyspace::{BootNanos, Timestamp};

use crate::locks::{Name, Prepare, TxnId};

/// How long keys are reserved for a transaction, counted from its read and again from the answer.
const RESERVED_NANOS: BootNanos = 100_000_000;
/// At most so many keys of a shard are reserved.
const RESERVED_MAX: usize = 4096;
/// Longer keys are not reserved.
const RESERVED_KEY_MAX: usize = 1024;

/// See the front page.
#[derive(Default)]
pub(super) struct Reservations {
    /// Each with the reservation's name, and when it ends.
    keys: BTreeMap<Name, (Timestamp, BootNanos)>,
}

impl Reservations {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Reserves those keys that no older transaction has reserved.
    pub fn reserve(&mut self, keys: &[Box<[u8]>], name: Timestamp, now: BootNanos) {
        self.expire(now);
        for key in keys.iter().filter(|key| key.len() <= RESERVED_KEY_MAX) {
            let is_full = self.keys.len() >= RESERVED_MAX;
            let until = now.saturating_add(RESERVED_NANOS);
            match self.keys.get_mut(&**key) {
                Some((by, _)) if *by < name => {}
                Some(reserved) => *reserved = (name, until),
                None if is_full => {}
                None => _ = self.keys.insert((**key).into(), (name, until)),
            }
        }
    }

    /// Whether a key is reserved: commands wait.
    pub fn has(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Whether an older reservation than that of this name has one of these keys.
    pub fn has_any_older(&self, name: Timestamp, keys: &[Box<[u8]>]) -> bool {
        let is_older = |key: &[u8]| self.keys.get(key).is_some_and(|(by, _)| *by < name);
        !self.is_empty() && keys.iter().any(|key| is_older(key))
    }

    /// Whether these keys are reserved for this PREPARE.
    pub fn is_for(&self, prepare: &Prepare<'_>, keys: &[&[u8]]) -> bool {
        let is_its = |key: &[u8]| self.keys.get(key).is_some_and(|(by, _)| is_named(prepare, *by));
        prepare.reserved_as.is_some() && keys.iter().any(|key| is_its(key))
    }

    /// The transaction for which a key of this PREPARE is reserved, and that key.
    pub fn stops<'a>(&self, prepare: &Prepare<'a>, keys: &[&'a [u8]]) -> Option<(TxnId, &'a [u8])> {
        if self.is_empty() {
            return None;
        }
        let stops = |by: Timestamp| by < prepare.id.start && !is_named(prepare, by);
        let as_id = |start| TxnId { start, coordinator: 0, attempt: 0 };
        let of_key = |key: &[u8]| {
            let (by, _) = self.keys.get(key)?;
            stops(*by).then(|| as_id(*by))
        };
        if let Some((witness, ..)) = prepare.part.flushed_arc() {
            let by = self.keys.values().map(|(by, _)| *by).find(|by| stops(*by));
            return by.map(|by| (as_id(by), witness));
        }
        let by_key = keys.iter().find_map(|key| Some((of_key(key)?, *key)));
        by_key.or_else(|| {
            prepare.part.ranges.iter().find_map(|(low, high)| {
                let end = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.max(low)));
                let mut within = self.keys.range::<[u8], _>((Bound::Included(*low), end));
                let (_, (by, _)) = within.find(|(_, (by, _))| stops(*by))?;
                Some((as_id(*by), *low))
            })
        })
    }

    /// Releases the reservations of a PREPARE that is proposed or refused.
    pub fn release(&mut self, prepare: &Prepare<'_>) {
        if let Some(name) = prepare.reserved_as.filter(|_| !self.is_empty()) {
            self.keys.retain(|_, (by, _)| *by != name);
        }
    }

    /// Removes reservations whose time is over; returns whether there were any.
    pub fn expire(&mut self, now: BootNanos) -> bool {
        let before = self.keys.len();
        self.keys.retain(|_, (_, until)| now < *until);
        self.keys.len() < before
    }
}

fn is_named(prepare: &Prepare<'_>, name: Timestamp) -> bool {
    prepare.reserved_as == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_queue::samples::prepare;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn boxed(keys: &[&str]) -> Vec<Box<[u8]>> {
        keys.iter().map(|key| key.as_bytes().into()).collect()
    }

    #[test]
    fn younger_prepares_wait_for_reserved_keys_and_ranges() {
        let mut reserved = Reservations::default();
        reserved.reserve(&boxed(&["a", "m"]), at(2), 0);
        let (older, younger) = (prepare(1, &[]), prepare(3, &[]));
        let own = Prepare { reserved_as: Some(at(2)), ..younger.clone() };
        let by = TxnId { start: at(2), coordinator: 0, attempt: 0 };
        assert_eq!(reserved.stops(&younger, &[b"b", b"m"]), Some((by, &b"m"[..])));
        assert_eq!(reserved.stops(&younger, &[b"b"]), None);
        let range = prepare(3, &[(b"k", Some(b"n"))]);
        assert_eq!(reserved.stops(&range, &[b"k"]), Some((by, &b"k"[..])));
        assert_eq!(reserved.stops(&prepare(3, &[(b"n", Some(b"k"))]), &[b"n"]), None);
        assert_eq!((reserved.stops(&older, &[b"a"]), reserved.stops(&own, &[b"a"])), (None, None));
        assert_eq!((reserved.is_for(&own, &[b"a"]), reserved.is_for(&own, &[b"b"])), (true, false));
        assert!(!reserved.is_for(&younger, &[b"a"]));
        reserved.release(&younger);
        assert!(reserved.has(b"a") && reserved.has(b"m"));
        reserved.release(&own);
        assert!(reserved.is_empty());
    }

    #[test]
    fn older_transaction_reserves_key_until_expiry() {
        let mut reserved = Reservations::default();
        reserved.reserve(&boxed(&["a", "b"]), at(2), 0);
        reserved.reserve(&boxed(&["b", "c"]), at(3), 1);
        let any =
            |reserved: &Reservations, name, key| reserved.has_any_older(at(name), &boxed(&[key]));
        assert_eq!(
            (any(&reserved, 3, "b"), any(&reserved, 2, "b"), any(&reserved, 2, "c")),
            (true, false, false)
        );
        reserved.reserve(&boxed(&["c"]), at(1), 2);
        assert!(any(&reserved, 3, "c"));
        // Asked again, or told: from then on.
        reserved.reserve(&boxed(&["a"]), at(2), 5);
        assert!(reserved.expire(RESERVED_NANOS + 2));
        assert!(reserved.has(b"a") && !reserved.has(b"b") && !reserved.has(b"c"));
        assert!(!reserved.expire(RESERVED_NANOS + 4) && reserved.expire(RESERVED_NANOS + 5));
        assert!(reserved.is_empty());
        let many: Vec<String> = (0..=RESERVED_MAX).map(|n| n.to_string()).collect();
        let mut many: Vec<Box<[u8]>> = many.iter().map(|key| key.as_bytes().into()).collect();
        many.insert(0, vec![b'k'; RESERVED_KEY_MAX + 1].into());
        reserved.reserve(&many, at(1), 0);
        assert_eq!(reserved.keys.len(), RESERVED_MAX);
        assert!(!reserved.has(&many[0]) && reserved.has(&many[1]));
    }
}
