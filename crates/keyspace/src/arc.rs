//! Half-open ranges of one keyspace's circle.
//!
//! An arc `[start, end)` begins at `start`, goes up, and ends before `end`; above the highest
//! position comes the origin again. Three shapes:
//!
//! ```text
//!   start < end       ──●━━━━━━━○──      positions ≥ start and < end
//!   start > end       ━━○───────●━━      wraps around: positions ≥ start or < end
//!   start = end       ━━━━━━━━━━━━━      the whole circle
//! ```
//!
//! An arc that ends at the origin (`[m, origin)`) is the second shape: all from `m` upwards.
//!
//! # Invariants (normal form)
//! 1. Both ends lie on the same circle.
//! 2. No arc is empty: there is no need for a shard that owns nothing.
//! 3. The whole circle is written `[origin, origin)`, wherever it was closed. So two arcs are equal
//!    exactly if they hold the same positions.

use std::fmt;

use thiserror::Error;

use crate::cut::{Cut, place_at, slot_at};
use crate::ids::KeyspaceId;
use crate::linear_hash::{bit_reversed_hash, number_at};
use crate::position::{Placement, Position};
use crate::slot::{SLOTS, Slot, slot_of};

/// Two positions of different keyspaces do not make an arc.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an arc from keyspace {start} to keyspace {end}")]
pub struct KeyspaceMismatch {
    /// The keyspace of the start.
    pub start: KeyspaceId,
    /// The keyspace of the end.
    pub end: KeyspaceId,
}

/// A half-open range `[start, end)` of one keyspace's circle, never empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Arc {
    start: Position,
    end: Position,
}

impl Arc {
    /// From `start` up to, not including, `end`; the whole circle if they are the same.
    ///
    /// # Errors
    /// [`KeyspaceMismatch`].
    pub fn new(start: Position, end: Position) -> Result<Self, KeyspaceMismatch> {
        let (from, to) = (start.keyspace(), end.keyspace());
        match from == to {
            true if start == end => Ok(Self::whole(from)),
            true => Ok(Self { start, end }),
            false => Err(KeyspaceMismatch { start: from, end: to }),
        }
    }

    /// The whole circle of a keyspace.
    pub fn whole(keyspace: KeyspaceId) -> Self {
        Self { start: Position::origin(keyspace), end: Position::origin(keyspace) }
    }

    /// The slots from `first` up to, not including, `end` of a hashed keyspace.
    ///
    /// # Panics
    /// Unless `first < end` ≤ [`SLOTS`].
    pub fn of_slots(keyspace: KeyspaceId, first: Slot, end: Slot) -> Self {
        assert!(first < end, "no slots from {first} to {end}");
        let (start, end) =
            (Position::slot_start(keyspace, first), Position::slot_start(keyspace, end));
        Self { start, end }
    }

    /// The slots `first..end` it consists of; `None` if it cuts a slot or wraps around.
    pub fn slots(&self) -> Option<(Slot, Slot)> {
        let slot = |position: &Position, origin: Slot| match *position.tail() {
            [] => Some(origin),
            _ => slot_at(position.tail()),
        };
        let (first, end) = (slot(&self.start, 0)?, slot(&self.end, SLOTS)?);
        (first < end).then_some((first, end))
    }

    /// Where it begins and ends, if it does not wrap around: the whole circle from slot 0 to
    /// [`SLOTS`], whatever its placement.
    pub fn ends(&self) -> (Cut, Cut) {
        (place_at(self.start.tail(), 0), place_at(self.end.tail(), SLOTS))
    }

    /// The placement that its ends show; none for a full circle, which may be of any.
    pub fn placement(&self) -> Option<Placement> {
        let end = [&self.start, &self.end].into_iter().find(|end| !end.is_origin())?;
        Some(match (slot_at(end.tail()), number_at(end.tail())) {
            (Some(_), _) => Placement::Hashed,
            (None, Some(_)) => Placement::LinearHash,
            (None, None) => Placement::Ordered,
        })
    }

    /// Whether a key lies in it.
    pub fn has(&self, key: &[u8]) -> bool {
        match self.placement() {
            None => true,
            Some(Placement::Hashed) => self.holds(&slot_of(key).to_be_bytes()),
            Some(Placement::Ordered) => self.holds(key),
            Some(Placement::LinearHash) => self.holds(&bit_reversed_hash(key).to_be_bytes()),
        }
    }

    /// The keyspace on whose circle it lies.
    pub fn keyspace(&self) -> KeyspaceId {
        self.start.keyspace()
    }

    /// Its first position.
    pub fn start(&self) -> &Position {
        &self.start
    }

    /// The first position after it.
    pub fn end(&self) -> &Position {
        &self.end
    }

    /// Whether it is the whole circle.
    pub fn is_whole(&self) -> bool {
        self.start == self.end
    }

    /// Whether a position lies in it.
    pub fn contains(&self, position: &Position) -> bool {
        if position.keyspace() != self.keyspace() {
            return false;
        }
        let (above, below) = (*position >= self.start, *position < self.end);
        if self.start < self.end { above && below } else { above || below }
    }

    /// As [`Self::contains`], of a position of the same circle, without the keyspace's id.
    pub fn holds(&self, tail: &[u8]) -> bool {
        let (above, below) = (tail >= self.start.tail(), tail < self.end.tail());
        if self.start < self.end { above && below } else { above || below }
    }

    /// Whether some position lies in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        // Of two arcs that share a position, one begins within the other.
        self.contains(&other.start) || other.contains(&self.start)
    }

    /// Whether every position of `other` lies in it.
    pub fn covers(&self, other: &Self) -> bool {
        if self.is_whole() {
            return self.keyspace() == other.keyspace();
        }
        // What is left of the circle must not touch `other`.
        let rest = Self { start: self.end.clone(), end: self.start.clone() };
        other.keyspace() == self.keyspace() && !rest.overlaps(other)
    }

    /// Whether `next` begins where this arc ends, without overlap.
    pub fn is_before(&self, next: &Self) -> bool {
        self.end == next.start && !self.overlaps(next)
    }

    /// Whether one begins where the other ends, without overlap.
    pub fn is_adjacent(&self, other: &Self) -> bool {
        self.is_before(other) || other.is_before(self)
    }

    /// Cuts it in two, the second beginning at `at`. `None` if `at` is its start or not in it.
    pub fn split(&self, at: &Position) -> Option<(Self, Self)> {
        let inside = *at != self.start && self.contains(at);
        inside.then(|| {
            let left = Self { start: self.start.clone(), end: at.clone() };
            (left, Self { start: at.clone(), end: self.end.clone() })
        })
    }

    /// This arc and the one after it as one. `None` unless [`Self::is_before`] holds.
    pub fn join(&self, next: &Self) -> Option<Self> {
        self.is_before(next).then(|| {
            Self::new(self.start.clone(), next.end.clone()).expect("both lie on one circle")
        })
    }
}

impl fmt::Debug for Arc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start.tail().escape_ascii(), self.end.tail().escape_ascii());
        write!(f, "{}/[{start}, {end})", self.keyspace())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const K: KeyspaceId = KeyspaceId(7);
    /// A circle small enough to list: these points, and between two of them nothing is looked at.
    const POINTS: usize = 6;

    fn point(index: usize) -> Position {
        let tails: [&[u8]; POINTS] = [b"", b"\0", b"\0\xff", b"a", b"a\0", b"\xff\xff"];
        Position::at(K, tails[index])
    }

    fn arc(start: usize, end: usize) -> Arc {
        Arc::new(point(start), point(end)).unwrap()
    }

    /// The model: walk up from the start until the end is met.
    fn model(start: usize, end: usize) -> BTreeSet<usize> {
        let mut set = BTreeSet::from([start]);
        let mut at = (start + 1) % POINTS;
        while at != end && at != start {
            set.insert(at);
            at = (at + 1) % POINTS;
        }
        set
    }

    fn positions(arc: &Arc) -> BTreeSet<usize> {
        (0..POINTS).filter(|index| arc.contains(&point(*index))).collect()
    }

    #[test]
    fn points_are_in_order() {
        assert!((1..POINTS).all(|index| point(index - 1) < point(index)));
    }

    #[test]
    fn one_arc_against_the_model() {
        for (start, end) in (0..POINTS).flat_map(|s| (0..POINTS).map(move |e| (s, e))) {
            let (arc, set) = (arc(start, end), model(start, end));
            assert_eq!(positions(&arc), set, "{arc:?}");
            assert_eq!(arc.is_whole(), set.len() == POINTS);
            let cuts = (0..POINTS).filter_map(|at| Some((at, arc.split(&point(at))?)));
            let mut count = 0;
            for (at, (left, right)) in cuts {
                count += 1;
                assert!(positions(&right).contains(&at));
                assert!(left.is_before(&right) && left.is_adjacent(&right));
                assert!(positions(&left).is_disjoint(&positions(&right)));
                assert_eq!(&positions(&left) | &positions(&right), set);
                assert_eq!(left.join(&right), Some(arc.clone()));
            }
            assert_eq!(count, set.len() - 1, "every point but the start cuts {arc:?}");
        }
    }

    #[test]
    fn two_arcs_against_the_model() {
        let ends = || (0..POINTS).flat_map(|s| (0..POINTS).map(move |e| (s, e)));
        for ((s, e), (t, f)) in ends().flat_map(|a| ends().map(move |b| (a, b))) {
            let (a, b) = (arc(s, e), arc(t, f));
            let (x, y) = (model(s, e), model(t, f));
            assert_eq!(a.overlaps(&b), !x.is_disjoint(&y), "{a:?} {b:?}");
            assert_eq!(a.covers(&b), x.is_superset(&y), "{a:?} {b:?}");
            assert_eq!(a == b, x == y, "{a:?} {b:?}");
            let follows = e == t && x.is_disjoint(&y);
            assert_eq!(a.is_before(&b), follows, "{a:?} {b:?}");
            assert_eq!(a.join(&b).map(|joined| positions(&joined)), follows.then(|| &x | &y));
        }
    }

    #[test]
    fn circles_do_not_mix() {
        let other = KeyspaceId(8);
        let elsewhere = Arc::whole(other);
        assert!(Arc::new(point(1), Position::origin(other)).is_err());
        assert!(!arc(1, 3).overlaps(&elsewhere) && !Arc::whole(K).covers(&elsewhere));
        assert!(!arc(1, 3).covers(&elsewhere) && !Arc::whole(K).contains(elsewhere.start()));
    }

    proptest! {
        /// What the ends tell is what the position says.
        #[test]
        fn an_arc_has_the_keys_whose_positions_it_contains(
            placement in prop_oneof![
                Just(Placement::Hashed),
                Just(Placement::Ordered),
                Just(Placement::LinearHash)
            ],
            ends: [Vec<u8>; 2],
            numbers: [u64; 2],
            key: Vec<u8>,
        ) {
            let tail = |end: usize| match placement {
                Placement::Hashed => (numbers[end] as u16 % SLOTS).to_be_bytes().to_vec(),
                Placement::Ordered => ends[end].clone(),
                Placement::LinearHash => numbers[end].to_be_bytes().to_vec(),
            };
            let at = |end| Cut::at(placement, &tail(end)).map_or(Position::origin(K), |cut| {
                cut.position(K)
            });
            let arc = Arc::new(at(0), at(1)).unwrap();
            prop_assert_eq!(arc.has(&key), arc.contains(&placement.position(K, &key)));
            let told = arc.placement();
            prop_assert!(told.is_none_or(|told| told == placement));
            prop_assert_eq!(told.is_none(), arc.is_whole());
        }

        #[test]
        fn slots_come_back(first in 0..SLOTS, len in 1..=SLOTS) {
            let end = (first + len).min(SLOTS);
            let arc = Arc::of_slots(K, first, end);
            prop_assert_eq!(arc.slots(), Some((first, end)));
            prop_assert_eq!(arc.is_whole(), (first, end) == (0, SLOTS));
        }

        #[test]
        fn cuts_tile_the_circle(tails: BTreeSet<Vec<u8>>, probe: Vec<u8>) {
            let mut rest = Arc::whole(K);
            let mut tiles = Vec::new();
            for at in tails.iter().map(|tail| Position::at(K, tail)) {
                if let Some((left, right)) = rest.split(&at) {
                    tiles.push(left);
                    rest = right;
                }
            }
            tiles.push(rest);
            let probe = Position::at(K, &probe);
            prop_assert_eq!(tiles.iter().filter(|tile| tile.contains(&probe)).count(), 1);
            let joined = tiles[1..].iter().try_fold(tiles[0].clone(), |all, tile| all.join(tile));
            prop_assert_eq!(joined, Some(Arc::whole(K)));
        }
    }
}
