//! How full is a node beside the others, and would a move balance them?
//!
//! Bytes and replicas both count: bytes for disks and memory, replicas for the work that even an
//! empty shard makes. Each is divided by its mean, so a load is a point in the plane and the mean
//! is (1, 1). A shard is a small step in it:
//!
//! ```text
//!   replicas
//!     1.5 │        × x            moving s from x to y changes the sum of squares by
//!         │       ╱ s                     2 s·(s − (x − y))
//!     1.0 │    ○ mean             so it is worth doing if s·(x − y) is clearly above s·s
//!         │ × y
//!     0.5 │
//!         └────┴────┴── bytes
//! ```
//! Along one axis, with equal shards, that says: `x` has at least two replicas more than `y`.
//!
//! Where there is hardly any data, bytes say nothing. Below [`BYTES_MEAN_FULL`] their weight in the
//! sum of squares falls in proportion, so that decisions do not jump.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Mul, Sub};

/// The mean of bytes of a node from which on bytes count as much as replicas do.
pub(crate) const BYTES_MEAN_FULL: f64 = 1_048_576.0;

/// By how much `s·(x − y)` must exceed `s·s` (front page): what keeps moves from being undone.
const MARGIN: f64 = 0.25;

/// A load or a difference of loads, in parts of the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measure {
    /// In bytes; times the square root of what bytes weigh.
    pub(crate) bytes: f64,
    pub(crate) replicas: f64,
}

impl Measure {
    pub(crate) fn dot(self, other: Self) -> f64 {
        self.bytes * other.bytes + self.replicas * other.replicas
    }

    /// How many shards of this size lie in `load`, which may be less than none.
    pub(crate) fn shards_in(self, load: Self) -> f64 {
        let own = self.dot(self);
        if own > 0.0 { self.dot(load) / own } else { 0.0 }
    }

    /// Whether moving a shard of this size makes two nodes that differ so clearly more equal.
    pub(crate) fn is_worth_moving(self, difference: Self) -> bool {
        self.shards_in(difference) >= 1.0 + MARGIN
    }

    /// Whether it is above 0 by more than the band in either respect.
    pub(crate) fn is_above(self, band: f64) -> bool {
        self.bytes > band || self.replicas > band
    }

    pub(crate) fn max(self, other: Self) -> Self {
        let (bytes, replicas) = (self.bytes.max(other.bytes), self.replicas.max(other.replicas));
        Self { bytes, replicas }
    }

    pub(crate) fn min(self, other: Self) -> Self {
        let (bytes, replicas) = (self.bytes.min(other.bytes), self.replicas.min(other.replicas));
        Self { bytes, replicas }
    }
}

impl Add for Measure {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, replicas: self.replicas + other.replicas }
    }
}

impl Sub for Measure {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { bytes: self.bytes - other.bytes, replicas: self.replicas - other.replicas }
    }
}

impl Mul<f64> for Measure {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self { bytes: self.bytes * factor, replicas: self.replicas * factor }
    }
}

/// A number by which to sort.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank(pub(crate) f64);

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// How uneven the nodes are, now and once a decision is carried out: the root of the mean square
/// by which they miss the mean, in parts of it, over bytes and replicas. 0: all are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BalanceEffect {
    /// As the loads say now.
    pub before: f64,
    /// As they will be.
    pub after: f64,
}

impl fmt::Display for BalanceEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deviation {:.3} → {:.3}", self.before, self.after)
    }
}

/// How far loads are from their mean ([`BalanceEffect`]).
pub(crate) fn deviation(loads: &[Measure]) -> f64 {
    if loads.is_empty() {
        return 0.0;
    }
    let share = 1.0 / loads.len() as f64;
    let mean = loads.iter().fold(Measure::default(), |sum, load| sum + *load) * share;
    let squares: f64 = loads.iter().map(|load| (*load - mean).dot(*load - mean)).sum();
    // As many parts as the mean has: one where bytes do not count, two where they do in full.
    let parts = mean.dot(mean);
    if parts > 0.0 { (squares * share / parts).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn loads() -> impl Strategy<Value = Measure> {
        (0.0..3.0, 0.0..3.0).prop_map(|(bytes, replicas)| Measure { bytes, replicas })
    }

    proptest! {
        #[test]
        fn what_is_worth_moving_makes_the_sum_of_squares_smaller(
            x in loads(), y in loads(), s in loads(),
        ) {
            let square = |load: Measure| load.dot(load);
            let before = square(x) + square(y);
            let after = square(x - s) + square(y + s);
            prop_assert_eq!(
                s.is_worth_moving(x - y),
                square(s) > 0.0 && after - before <= -2.0 * MARGIN * square(s)
            );
            prop_assert!(!s.is_worth_moving(x - y) || !s.is_worth_moving((y + s) - (x - s)));
        }
    }

    #[test]
    fn the_deviation_is_that_of_statistics() {
        let loads = [2.0, 0.0, 1.0, 1.0].map(|replicas| Measure { bytes: 0.0, replicas });
        assert!((deviation(&loads) - 0.5f64.sqrt()).abs() < 1e-9);
        assert_eq!(deviation(&[]), 0.0);
    }
}
