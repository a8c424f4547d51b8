//! Keys that a PREPARE waits for which wants several: each may be free while another is not, and
//! younger transactions would take turns with them without end. So from [`AFTER_NANOS`] of its wait
//! on these are kept from them as if it had locked them; unless some of what it waits for has been
//! locked for [`STAYS_NANOS`], or it only waits for what is withheld itself.

use std::collections::BTreeMap;
use std::ops::Bound;

use replication::BootNanos;

use super::{OwnedRange, holds};
use crate::locks::{Name, Prepare, TxnId};

/// Who has waited for so long is passed over no more. Most have what they want by then.
const AFTER_NANOS: BootNanos = 20_000_000;
/// Whoever holds a lock for so long may be gone: nothing is withheld for who waits for it.
const STAYS_NANOS: BootNanos = 500_000_000;
/// The same by clocks, which locks are taken by.
pub(super) const STAYS_MILLIS: u64 = STAYS_NANOS / 1_000_000;
/// What is withheld for a PREPARE changes when it has waited for so long, at the latest.
pub(super) const BOUNDS: [BootNanos; 2] = [AFTER_NANOS, STAYS_NANOS];

/// See the front page.
#[derive(Default)]
pub(super) struct Withheld {
    keys: BTreeMap<Name, TxnId>,
    ranges: Vec<(OwnedRange, TxnId)>,
}

/// Whether something may be withheld for a PREPARE of these keys that has waited for so long.
pub(super) fn may_withhold(prepare: &Prepare<'_>, keys: &[&[u8]], waited: BootNanos) -> bool {
    let wants_one = keys.len() == 1 && prepare.part.ranges.is_empty();
    !wants_one && waited >= AFTER_NANOS
}

impl Withheld {
    /// A PREPARE of these keys waits.
    pub fn wait(&mut self, prepare: &Prepare<'_>, keys: &[&[u8]]) {
        for key in keys {
            let by = self.keys.entry((*key).into()).or_insert(prepare.id);
            // In the order of their ages come those who waited before, and not who has just come.
            if prepare.id.is_older_than(by) {
                *by = prepare.id;
            }
        }
        let owned = |(low, high): &(&[u8], Option<&[u8]>)| ((*low).into(), high.map(Box::from));
        self.ranges.extend(prepare.part.ranges.iter().map(|range| (owned(range), prepare.id)));
    }

    /// An older transaction that waits for a key of this PREPARE, and which.
    pub fn stops<'a>(&self, prepare: &Prepare<'a>, keys: &[&'a [u8]]) -> Option<(TxnId, &'a [u8])> {
        if self.keys.is_empty() {
            return None;
        }
        let is_older = |by: &TxnId| by.is_older_than(&prepare.id);
        let by = |key: &[u8]| {
            let mut of_ranges = self.ranges.iter().filter(|(range, _)| holds(range, key));
            let of_ranges = || of_ranges.find(|(_, by)| is_older(by)).map(|(_, by)| *by);
            self.keys.get(key).copied().filter(is_older).or_else(of_ranges)
        };
        let within = |(low, high): &(&'a [u8], Option<&[u8]>)| {
            let end = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.max(low)));
            let mut within = self.keys.range::<[u8], _>((Bound::Included(*low), end));
            within.find(|(_, by)| is_older(by)).map(|(_, by)| (*by, *low))
        };
        let by_key = keys.iter().find_map(|key| by(key).map(|by| (by, *key)));
        by_key.or_else(|| prepare.part.ranges.iter().find_map(within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::steps::tests::prepare;

    #[test]
    fn younger_ones_are_kept_from_what_an_older_one_wants_several_of() {
        let mut withheld = Withheld::default();
        let (old, own, young) = (prepare(1, &[]), prepare(2, &[]), prepare(3, &[]));
        let (a, b) = (&b"a"[..], &b"b"[..]);
        assert!(!may_withhold(&own, &[a], AFTER_NANOS));
        assert!(!may_withhold(&own, &[a, b], AFTER_NANOS - 1));
        assert!(may_withhold(&own, &[a, b], AFTER_NANOS));
        assert_eq!(withheld.stops(&young, &[a]), None);
        withheld.wait(&own, &[a, b]);
        assert_eq!(withheld.stops(&young, &[b"c", b]), Some((own.id, b)));
        assert_eq!(withheld.stops(&young, &[b"c"]), None);
        assert_eq!(withheld.stops(&own, &[a, b]), None);
        assert_eq!(withheld.stops(&old, &[a, b]), None);
        let again = Prepare { id: TxnId { attempt: 1, ..own.id }, ..own.clone() };
        assert_eq!(withheld.stops(&again, &[a, b]), None);
        // Of several who want a key, the oldest keeps it.
        withheld.wait(&old, &[a, b]);
        assert_eq!(withheld.stops(&own, &[a]), Some((old.id, a)));
    }

    #[test]
    fn ranges_and_keys_are_kept_from_each_other() {
        let mut withheld = Withheld::default();
        let old = prepare(1, &[(b"a", Some(b"c"))]);
        assert!(may_withhold(&old, &[b"a"], AFTER_NANOS));
        withheld.wait(&old, &[b"a", b"m"]);
        let young = prepare(3, &[]);
        assert_eq!(withheld.stops(&young, &[b"b"]), Some((old.id, &b"b"[..])));
        assert_eq!(withheld.stops(&young, &[b"c"]), None);
        let range = prepare(3, &[(b"k", None)]);
        assert_eq!(withheld.stops(&range, &[b"k"]), Some((old.id, &b"k"[..])));
        let range = prepare(3, &[(b"n", None)]);
        assert_eq!(withheld.stops(&range, &[b"n"]), None);
        let inverted = prepare(3, &[(b"n", Some(b"k"))]);
        assert_eq!(withheld.stops(&inverted, &[b"n"]), None);
    }
}
