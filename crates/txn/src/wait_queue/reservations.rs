//! Keys that a leader *reserves* for a transaction: its coordinator, or whoever runs it, was told
//! what they have, and is about to change them, after others have changed them before it often.
//!
//! Who reads first and writes then fails if others change meanwhile what was read. A transaction
//! over keys that others change all the time would never be done: so it asks for them all at once,
//! as one that reserves them from everyone ([`ReserveFrom::Everyone`](super::ReserveFrom)), by a
//! name that is the time when it did so first. From then on whatever is younger, and all commands,
//! wait with these keys; what is older goes first. It is told what they have when nothing is under
//! way to change them; and its PREPARE, which has its name, passes all who wait for them.
//!
//! A transaction that has locked something elsewhere waits for no longer than for an older one's
//! lock, and gives up what it has; so what it waits for comes free, and nobody waits in a circle.
//! When a command has waited for 50 ms, nothing more is reserved before it is done. Nothing depends
//! on it: reservations are forgotten with the lead, and after [`RESERVED_NANOS`].

use std::collections::BTreeMap;
use std::ops::Bound;

use keyspace::{BootNanos, Timestamp};

use crate::locks::{Name, Prepare, TxnId};

/// For so long from when it asked, or was told, keys are reserved for a transaction.
const RESERVED_NANOS: BootNanos = 100_000_000;
/// Keys of a shard that are reserved; no more are.
const RESERVED_MAX: usize = 4096;
/// No longer key is.
const RESERVED_KEY_MAX: usize = 1024;

/// See the front page.
#[derive(Default)]
pub(super) struct Reservations {
    /// By which name, and until when.
    keys: BTreeMap<Name, (Timestamp, BootNanos)>,
}

impl Reservations {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Reserves those that nobody older has.
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

    /// Whether an older one than that of this name has one of these keys.
    pub fn has_any_older(&self, name: Timestamp, keys: &[Box<[u8]>]) -> bool {
        let is_older = |key: &[u8]| self.keys.get(key).is_some_and(|(by, _)| *by < name);
        !self.is_empty() && keys.iter().any(|key| is_older(key))
    }

    /// Whether a PREPARE is what keys are reserved for.
    pub fn is_for(&self, prepare: &Prepare<'_>, keys: &[&[u8]]) -> bool {
        let is_its = |key: &[u8]| self.keys.get(key).is_some_and(|(by, _)| is_named(prepare, *by));
        prepare.reserved_as.is_some() && keys.iter().any(|key| is_its(key))
    }

    /// Who has reserved a key of this PREPARE from it, and which.
    pub fn stops<'a>(&self, prepare: &Prepare<'a>, keys: &[&'a [u8]]) -> Option<(TxnId, &'a [u8])> {
        if self.is_empty() {
            return None;
        }
        let stops = |by: Timestamp| by < prepare.id.start && !is_named(prepare, by);
        let as_id = |by| TxnId { start: by, by: 0, attempt: 0 };
        let of_key = |key: &[u8]| {
            let (by, _) = self.keys.get(key)?;
            stops(*by).then(|| as_id(*by))
        };
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

    /// A PREPARE goes, or is refused: nothing is reserved for it any more.
    pub fn release(&mut self, prepare: &Prepare<'_>) {
        if let Some(name) = prepare.reserved_as.filter(|_| !self.is_empty()) {
            self.keys.retain(|_, (by, _)| *by != name);
        }
    }

    /// Forgets what is reserved no more; whether there was anything.
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
    fn younger_ones_wait_for_reserved_keys_and_ranges_until_it_is_over() {
        let mut reserved = Reservations::default();
        reserved.reserve(&boxed(&["a", "m"]), at(2), 0);
        let (older, younger) = (prepare(1, &[]), prepare(3, &[]));
        let own = Prepare { reserved_as: Some(at(2)), ..younger.clone() };
        let by = TxnId { start: at(2), by: 0, attempt: 0 };
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
    fn the_older_of_two_has_a_key_and_no_longer_than_it_may() {
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
