//! Medians of repetitions, and how far they can be trusted.
//!
//! The interval is that of order statistics: the median of the distribution lies between the k-th
//! smallest and the k-th largest of n values with probability 1 − 2·P(B < k), where B counts heads
//! of n fair coins. It supposes nothing about the distribution. Of fewer than six values even the
//! whole range covers less than 95 %: then that range stands, with the cover that it has.

use serde::{Deserialize, Serialize};

/// What an interval is to cover.
const COVER: f64 = 0.95;

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Median {
    /// The middle value, or the mean of both.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The probability with which it holds the true median.
    pub cover: f64,
    /// Of how many values.
    pub count: usize,
}

impl Median {
    /// Of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (count, (first, last)) = (sorted.len(), (*sorted.first()?, *sorted.last()?));
        let value = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        let mut best = (first, last, cover(count, 1));
        for rank in 2..=count / 2 {
            let covered = cover(count, rank);
            if covered < COVER {
                break;
            }
            best = (sorted[rank - 1], sorted[count - rank], covered);
        }
        let (low, high, cover) = best;
        Some(Self { value, low, high, cover, count })
    }
}

/// With which probability the `rank`-th smallest and largest of `count` values enclose the median.
fn cover(count: usize, rank: usize) -> f64 {
    let mut term = 0.5f64.powi(count as i32);
    let mut below = 0.0;
    for heads in 0..rank {
        below += term;
        term *= (count - heads) as f64 / (heads + 1) as f64;
    }
    (1.0 - 2.0 * below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::random::Random;

    #[test]
    fn medians_are_in_the_middle() {
        let of = |values: &[f64]| Median::of(values).map(|median| median.value);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]), Some(3.0));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(of(&[9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn intervals_have_the_covers_of_the_tables() {
        // From tables of the sign test: n = 6, 8, 10, 20 with 1, 1, 2, 6.
        for (count, rank, expected) in
            [(5, 1, 0.9375), (6, 1, 0.96875), (8, 1, 0.99219), (10, 2, 0.97852), (20, 6, 0.95861)]
        {
            assert!((cover(count, rank) - expected).abs() < 1e-4, "{count}");
        }
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let median = Median::of(&values).unwrap();
        assert_eq!((median.low, median.high), (6.0, 15.0));
        let three = Median::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((three.low, three.high, three.cover), (1.0, 3.0, 0.75));
        assert_eq!(Median::of(&[1.0]).unwrap().cover, 0.0);
    }

    #[test]
    fn intervals_hold_the_true_median_as_often_as_they_say() {
        let mut random = Random::new(11);
        let holds = (0..4_000).filter(|_| {
            let values: Vec<f64> = (0..10).map(|_| random.exponential(1.0)).collect();
            let median = Median::of(&values).unwrap();
            (median.low..=median.high).contains(&2f64.ln())
        });
        let share = holds.count() as f64 / 4_000.0;
        assert!((0.97..0.99).contains(&share), "{share}");
    }
}
