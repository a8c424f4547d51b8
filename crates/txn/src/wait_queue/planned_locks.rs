//! Keys that are about to be locked: by entries that are proposed and not applied yet.

use std::collections::BTreeMap;
use std::ops::Bound;

use command::transaction::KeyRange;

use crate::locks::TxnId;

/// The first key of a range, and the first behind it.
pub(super) type OwnedRange = (Box<[u8]>, Option<Box<[u8]>>);

/// A range with its own bytes.
pub(super) fn owned((low, high): KeyRange<'_>) -> OwnedRange {
    (low.into(), high.map(Box::from))
}

/// Whether a key lies in a range.
pub(super) fn holds((low, high): &OwnedRange, key: &[u8]) -> bool {
    **low <= *key && high.as_ref().is_none_or(|high| *key < **high)
}

/// See the front page.
#[derive(Default)]
pub(super) struct PlannedLocks {
    /// Each with the entry's index, and for whom.
    keys: BTreeMap<Box<[u8]>, (u64, TxnId)>,
    /// The same of ranges.
    ranges: Vec<(OwnedRange, u64, TxnId)>,
    /// The same of the shard's arc.
    arcs: Vec<(u64, TxnId)>,
}

impl PlannedLocks {
    /// Whether there are none; a transaction that locks a range or an arc locks a key of it, too.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// An entry will lock this key.
    pub fn add_key(&mut self, key: &[u8], index: u64, id: TxnId) {
        self.keys.insert(key.into(), (index, id));
    }

    /// An entry will lock this range.
    pub fn add_range(&mut self, range: KeyRange<'_>, index: u64, id: TxnId) {
        self.ranges.push((owned(range), index, id));
    }

    /// An entry will lock the shard's arc.
    pub fn add_arc(&mut self, index: u64, id: TxnId) {
        self.arcs.push((index, id));
    }

    /// The other transactions that are about to lock anything.
    pub fn of_others(&self, id: TxnId) -> impl Iterator<Item = TxnId> {
        self.keys.values().map(|(_, by)| *by).filter(move |by| *by != id)
    }

    /// Forgets the planned locks of entries up to this index, which are applied.
    pub fn applied(&mut self, index: u64) {
        self.keys.retain(|_, (at, _)| *at > index);
        self.ranges.retain(|(_, at, _)| *at > index);
        self.arcs.retain(|(at, _)| *at > index);
    }

    pub fn clear(&mut self) {
        self.keys.clear();
        self.ranges.clear();
        self.arcs.clear();
    }

    /// Whether a key is to be locked by itself, and not for a range that it lies in.
    pub fn has_key(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// The transaction that is about to lock a key, or a range that it lies in.
    pub fn at(&self, key: &[u8]) -> Option<TxnId> {
        let of_key = self.keys.get(key).map(|(_, id)| *id);
        of_key.or_else(|| {
            let range = self.ranges.iter().find(|(range, ..)| holds(range, key));
            range.map(|(_, _, id)| *id).or_else(|| self.arcs.first().map(|(_, id)| *id))
        })
    }

    /// Another transaction that is about to lock a key within a range.
    pub fn within(&self, id: TxnId, (low, high): KeyRange<'_>) -> Option<TxnId> {
        let end = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.max(low)));
        let keys = self.keys.range::<[u8], _>((Bound::Included(low), end));
        let arcs = self.arcs.iter().map(|(_, by)| *by);
        keys.map(|(_, (_, by))| *by).chain(arcs).find(|by| *by != id)
    }
}
