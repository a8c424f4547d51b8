//! Which ranges of an ordered keyspace has a transaction read?
//!
//! Ranges that overlap or touch are merged into one. So one look finds the first part of a wanted
//! range that was not read yet ([`KeyRangeSet::unread_range`]).

use std::collections::BTreeMap;
use std::ops::Bound;

use keyspace::Arc;

/// A half-open range of keys; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may be in it.
    pub low: Box<[u8]>,
    /// The first key behind it; `None` if it has no end.
    pub high: Option<Box<[u8]>>,
}

/// The least key behind another.
fn behind(key: &[u8]) -> Box<[u8]> {
    [key, &[0]].concat().into()
}

impl KeyRange {
    /// The range between two bounds; `None` if it is empty.
    pub fn between(low: Bound<&[u8]>, high: Bound<&[u8]>) -> Option<Self> {
        let low = match low {
            Bound::Included(key) => key.into(),
            Bound::Excluded(key) => behind(key),
            Bound::Unbounded => Box::default(),
        };
        let high = match high {
            Bound::Included(key) => Some(behind(key)),
            Bound::Excluded(key) => Some(key.into()),
            Bound::Unbounded => None,
        };
        Self { low, high }.if_any()
    }

    fn if_any(self) -> Option<Self> {
        self.high.as_ref().is_none_or(|high| self.low < *high).then_some(self)
    }

    /// Its ends, as bounds.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let high = self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        match &*self.low {
            // Of the first shard no key is the first.
            [] => (Bound::Unbounded, high),
            low => (Bound::Included(low), high),
        }
    }

    /// Its part in an arc that has one.
    pub(super) fn within(&self, arc: &Arc) -> Self {
        let low = Box::from((&*self.low).max(arc.start().tail()));
        let end = (!arc.end().is_origin()).then(|| arc.end().tail());
        let high = match (self.high.as_deref(), end) {
            (Some(high), Some(end)) => Some(high.min(end)),
            (high, end) => high.or(end),
        };
        Self { low, high: high.map(Box::from) }
    }

    /// All but its last part, which is `rest` (in reverse: its first).
    pub(super) fn without(&self, rest: &Self, reverse: bool) -> Option<Self> {
        let (low, high) = match reverse {
            false => (self.low.clone(), Some(rest.low.clone())),
            true => (rest.high.clone()?, self.high.clone()),
        };
        Self { low, high }.if_any()
    }

    /// Its part up to and including a key, in reverse from that key on; all of it for `None`.
    pub(super) fn up_to(&self, last: Option<&[u8]>, reverse: bool) -> Self {
        match (last, reverse) {
            (None, _) => self.clone(),
            (Some(last), false) => Self { low: self.low.clone(), high: Some(behind(last)) },
            (Some(last), true) => Self { low: last.into(), high: self.high.clone() },
        }
    }
}

/// See the front page.
#[derive(Clone, Debug, Default)]
pub struct KeyRangeSet(BTreeMap<Box<[u8]>, End>);

/// The first key behind a range, if it has an end.
type End = Option<Box<[u8]>>;

impl KeyRangeSet {
    /// Adds a range, which may overlap with others.
    pub fn add(&mut self, range: KeyRange) {
        let KeyRange { mut low, mut high } = range;
        if let Some((start, end)) = self.before(&low)
            && end.as_ref().is_none_or(|end| *end >= low)
        {
            low = start.into();
        }
        loop {
            let next = self.0.range(low.clone()..).next();
            let Some((start, end)) = next.map(|(start, end)| (start.clone(), end.clone())) else {
                break;
            };
            if high.as_ref().is_some_and(|high| start > *high) {
                break;
            }
            self.0.remove(&start);
            high = high.zip(end).map(|(one, other)| one.max(other));
        }
        self.0.insert(low, high);
    }

    /// The last range that begins at or before a key.
    fn before(&self, key: &[u8]) -> Option<(&[u8], &End)> {
        let last = self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        last.map(|(low, end)| (&**low, end))
    }

    /// Whether a key lies in one of the ranges.
    pub fn holds(&self, key: &[u8]) -> bool {
        self.before(key).is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    /// The rest of a range behind its first part that was read already; in reverse, before its last
    /// part.
    pub fn unread_range(&self, range: &KeyRange, reverse: bool) -> Option<KeyRange> {
        if !reverse {
            let low = match self.before(&range.low) {
                Some((_, None)) => return None,
                Some((_, Some(end))) if *end > range.low => end.clone(),
                _ => range.low.clone(),
            };
            return KeyRange { low, high: range.high.clone() }.if_any();
        }
        let last = match &range.high {
            None => self.0.iter().next_back().filter(|(_, end)| end.is_none()),
            Some(high) => {
                let below = (Bound::Unbounded, Bound::Excluded(&**high));
                let last = self.0.range::<[u8], _>(below).next_back();
                last.filter(|(_, end)| end.as_ref().is_none_or(|end| end >= high))
            }
        };
        match last {
            Some((start, _)) => {
                KeyRange { low: range.low.clone(), high: Some(start.clone()) }.if_any()
            }
            None => Some(range.clone()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0.iter().map(|(low, high)| (&**low, high.as_deref()))
    }
}
