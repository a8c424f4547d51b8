//! The set of dropped keyspaces.
//!
//! Ids of keyspaces rise and are never reused, so a dropped keyspace stays dropped. The union of
//! two nodes' sets is right for both. Every id that was ever given out is alive or dropped. So the
//! set, as ranges of ids, has at most one range more than there are live keyspaces.

use std::collections::BTreeMap;

use keyspace::KeyspaceId;
use keyspace::catalogue::KEYSPACES_MAX;
use keyspace::random::mix;

/// The most ranges of ids: one after each keyspace that may be alive, and one before.
pub const RANGES_MAX: usize = KEYSPACES_MAX + 1;

/// A growing set of keyspace ids, stored as ranges `first..=last` with a gap between any two. Id 0,
/// the system keyspace, is never in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DroppedKeyspaces {
    ranges: BTreeMap<u32, u32>,
}

impl DroppedKeyspaces {
    /// Whether a keyspace was dropped.
    pub fn contains(&self, keyspace: KeyspaceId) -> bool {
        let below = self.ranges.range(..=keyspace.0).next_back();
        below.is_some_and(|(_, last)| keyspace.0 <= *last)
    }

    /// Adds the ids `first..=last`; answers whether any was new. Nothing is added if `first` is 0
    /// or exceeds `last`, or if there would be more than [`RANGES_MAX`] ranges, which no
    /// catalogue leads to.
    pub fn insert(&mut self, first: KeyspaceId, last: KeyspaceId) -> bool {
        let (first, last) = (first.0, last.0);
        let below = self.ranges.range(..=first).next_back();
        let known = below.is_some_and(|(_, end)| last <= *end);
        if first == 0 || first > last || known {
            return false;
        }
        // Those that overlap the new range or touch it: they become one with it.
        let touched = self
            .ranges
            .range(..=last.saturating_add(1))
            .rev()
            .take_while(|(_, end)| end.saturating_add(1) >= first);
        let touched: Vec<(u32, u32)> = touched.map(|(start, end)| (*start, *end)).collect();
        if touched.is_empty() && self.ranges.len() >= RANGES_MAX {
            return false;
        }
        let start = touched.iter().fold(first, |start, range| start.min(range.0));
        let end = touched.iter().fold(last, |end, range| end.max(range.1));
        for (start, _) in &touched {
            self.ranges.remove(start);
        }
        self.ranges.insert(start, end);
        true
    }

    /// Its ranges, rising.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = (KeyspaceId, KeyspaceId)> {
        self.ranges.iter().map(|(first, last)| (KeyspaceId(*first), KeyspaceId(*last)))
    }

    /// A number that differs, but for rare chance, if the sets do.
    pub fn sum(&self) -> u64 {
        let each = |(first, last): (KeyspaceId, KeyspaceId)| {
            mix(u64::from(first.0) << 32 | u64::from(last.0))
        };
        self.ranges().fold(0, |sum, range| sum ^ each(range))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_against_a_plain_set(
            inserted in prop::collection::vec((0..40u32, 0..6u32), 0..30)
        ) {
            let (mut dropped, mut model) = (DroppedKeyspaces::default(), BTreeSet::new());
            for (first, more) in inserted {
                let (first, last) = (first, first + more);
                let new = first > 0 && (first..=last).any(|id| !model.contains(&id));
                model.extend((first..=last).filter(|_| first > 0));
                let before = dropped.sum();
                prop_assert_eq!(dropped.insert(KeyspaceId(first), KeyspaceId(last)), new);
                prop_assert_eq!(dropped.sum() != before, new);
            }
            for id in 0..60 {
                prop_assert_eq!(dropped.contains(KeyspaceId(id)), model.contains(&id));
            }
            let ends: Vec<_> = dropped.ranges().collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].1.0 + 1 < pair[1].0.0), "{:?}", ends);
        }
    }

    #[test]
    fn the_ends_of_the_ids_and_the_limit() {
        let mut dropped = DroppedKeyspaces::default();
        assert!(dropped.insert(KeyspaceId(u32::MAX), KeyspaceId(u32::MAX)));
        assert!(dropped.insert(KeyspaceId(u32::MAX - 1), KeyspaceId(u32::MAX - 1)));
        assert_eq!(dropped.ranges().count(), 1);
        let id = |index: usize| KeyspaceId(1 + 2 * index as u32);
        assert!((1..RANGES_MAX).all(|index| dropped.insert(id(index), id(index))));
        assert!(!dropped.insert(id(RANGES_MAX), id(RANGES_MAX)), "one range too many");
        assert!(dropped.insert(KeyspaceId(1), KeyspaceId(9000)), "but what joins them is taken");
        assert_eq!(dropped.ranges().count(), 2);
    }
}
