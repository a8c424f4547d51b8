//! Protects a PREPARE that waits for several keys from starvation. Each key may be free while
//! another is not, and younger transactions could take them in turn without end.
//!
//! So from [`AFTER_NANOS`] of its wait on, the guard keeps younger transactions from these keys as
//! if the PREPARE had locked them. It does not if one of the keys has been locked for
//! [`STAYS_NANOS`], or if the PREPARE only waits for guarded keys itself.

use std::collections::BTreeMap;
use std::ops::Bound;

use keyspace::BootNanos;

use super::planned_locks::{OwnedRange, holds, owned};
use crate::locks::{Name, Prepare, TxnId};
use command::Transaction;

/// After this wait younger transactions pass a PREPARE no more. Most have their locks by then.
const AFTER_NANOS: BootNanos = 20_000_000;
/// A transaction that holds a lock for this time may be abandoned: no key is guarded for a PREPARE
/// that waits for it.
const STAYS_NANOS: BootNanos = 500_000_000;
/// The same by clocks, which locks are taken by.
pub(super) const STAYS_MILLIS: u64 = STAYS_NANOS / 1_000_000;
/// The waits after which the guard's decision about a PREPARE changes.
pub(super) const BOUNDS: [BootNanos; 2] = [AFTER_NANOS, STAYS_NANOS];

/// See the front page.
#[derive(Default)]
pub(super) struct StarvationGuard {
    keys: BTreeMap<Name, TxnId>,
    ranges: Vec<(OwnedRange, TxnId)>,
    /// Those that want the shard's arc.
    arcs: Vec<TxnId>,
}

/// Whether the guard may protect a PREPARE of these keys that has waited for this time.
pub(super) fn may_guard(prepare: &Prepare<'_>, keys: &[&[u8]], waited: BootNanos) -> bool {
    let Transaction { ranges, flush, .. } = &prepare.part;
    let wants_one = keys.len() == 1 && ranges.is_empty() && flush.is_none();
    !wants_one && waited >= AFTER_NANOS
}

impl StarvationGuard {
    /// Guards the keys that a PREPARE waits for.
    pub fn guard(&mut self, prepare: &Prepare<'_>, keys: &[&[u8]]) {
        for key in keys {
            let by = self.keys.entry((*key).into()).or_insert(prepare.id);
            // In the order of their ages come those who waited before, and not who has just come.
            if prepare.id.is_older_than(by) {
                *by = prepare.id;
            }
        }
        let ranges = prepare.part.ranges.iter();
        self.ranges.extend(ranges.map(|range| (owned(*range), prepare.id)));
        self.arcs.extend(prepare.part.flush.iter().map(|_| prepare.id));
    }

    /// An older transaction that waits for a key of this PREPARE, and which.
    pub fn stops<'a>(&self, prepare: &Prepare<'a>, keys: &[&'a [u8]]) -> Option<(TxnId, &'a [u8])> {
        if self.keys.is_empty() {
            return None;
        }
        let is_older = |by: &TxnId| by.is_older_than(&prepare.id);
        let older_arc = self.arcs.iter().find(|by| is_older(by));
        if let (Some(by), Some(key)) = (older_arc, keys.first()) {
            return Some((*by, key));
        }
        if let Some((witness, ..)) = prepare.part.flushed_arc() {
            let by = self.keys.values().find(|by| is_older(by));
            return by.map(|by| (*by, witness));
        }
        let of_range = |key: &[u8]| {
            let mut all = self.ranges.iter().filter(|(range, _)| holds(range, key));
            all.find(|(_, by)| is_older(by)).map(|(_, by)| *by)
        };
        let of_key =
            |key: &[u8]| self.keys.get(key).copied().filter(is_older).or_else(|| of_range(key));
        let within = |(low, high): &(&'a [u8], Option<&[u8]>)| {
            let end = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.max(low)));
            let mut all = self.keys.range::<[u8], _>((Bound::Included(*low), end));
            all.find(|(_, by)| is_older(by)).map(|(_, by)| (*by, *low))
        };
        let by_key = keys.iter().find_map(|key| Some((of_key(key)?, *key)));
        by_key.or_else(|| prepare.part.ranges.iter().find_map(within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_queue::samples::{flushing, prepare};

    #[test]
    fn starvation_guard_stops_younger_prepares() {
        let mut guard = StarvationGuard::default();
        let (old, own, young) = (prepare(1, &[]), prepare(2, &[]), prepare(3, &[]));
        let (a, b) = (&b"a"[..], &b"b"[..]);
        assert!(!may_guard(&own, &[a], AFTER_NANOS));
        assert!(!may_guard(&own, &[a, b], AFTER_NANOS - 1));
        assert!(may_guard(&own, &[a, b], AFTER_NANOS));
        assert_eq!(guard.stops(&young, &[a]), None);
        guard.guard(&own, &[a, b]);
        assert_eq!(guard.stops(&young, &[b"c", b]), Some((own.id, b)));
        assert_eq!(guard.stops(&young, &[b"c"]), None);
        assert_eq!(guard.stops(&own, &[a, b]), None);
        assert_eq!(guard.stops(&old, &[a, b]), None);
        let again = Prepare { id: TxnId { attempt: 1, ..own.id }, ..own.clone() };
        assert_eq!(guard.stops(&again, &[a, b]), None);
        // Of several who want a key, the oldest has it.
        guard.guard(&old, &[a, b]);
        assert_eq!(guard.stops(&own, &[a]), Some((old.id, a)));
    }

    #[test]
    fn guard_stops_keys_in_ranges_and_ranges_over_keys() {
        let mut guard = StarvationGuard::default();
        let old = prepare(1, &[(b"a", Some(b"c"))]);
        assert!(may_guard(&old, &[b"a"], AFTER_NANOS));
        guard.guard(&old, &[b"a", b"m"]);
        let young = prepare(3, &[]);
        assert_eq!(guard.stops(&young, &[b"b"]), Some((old.id, &b"b"[..])));
        assert_eq!(guard.stops(&young, &[b"c"]), None);
        let range = prepare(3, &[(b"k", None)]);
        assert_eq!(guard.stops(&range, &[b"k"]), Some((old.id, &b"k"[..])));
        let range = prepare(3, &[(b"n", None)]);
        assert_eq!(guard.stops(&range, &[b"n"]), None);
        let inverted = prepare(3, &[(b"n", Some(b"k"))]);
        assert_eq!(guard.stops(&inverted, &[b"n"]), None);
    }

    #[test]
    fn guard_keeps_younger_prepares_from_an_arc() {
        let (old, young) = (flushing(1), prepare(3, &[]));
        assert!(may_guard(&old, &[b"w"], AFTER_NANOS));
        let mut guard = StarvationGuard::default();
        guard.guard(&old, &[b"w"]);
        assert_eq!(guard.stops(&young, &[b"k"]), Some((old.id, &b"k"[..])));
        assert_eq!(guard.stops(&prepare(0, &[]), &[b"k"]), None);
        assert_eq!(guard.stops(&old, &[b"w"]), None);
        let mut guard = StarvationGuard::default();
        guard.guard(&young, &[b"a", b"b"]);
        assert_eq!(guard.stops(&flushing(4), &[b"w"]), Some((young.id, &b"w"[..])));
        assert_eq!(guard.stops(&flushing(2), &[b"w"]), None);
    }
}
