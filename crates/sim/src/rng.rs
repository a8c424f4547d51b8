//! The dice of a run: everything that is chosen is chosen here, from one seed.

use keyspace::random::{Random, mix};

/// [`Random`], with more ways to choose.
#[derive(Clone, Debug)]
pub struct Rng(Random);

impl Rng {
    /// Dice that fall as the seed says. Seeds that lie close together give unrelated rows.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(mix(seed)))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.0.one_in(n)
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// So many of several, in any order; all, if there are fewer.
    pub fn some<T>(&mut self, count: usize, mut from: Vec<T>) -> Vec<T> {
        let count = count.min(from.len());
        for at in 0..count {
            let other = at + self.below((from.len() - at) as u64) as usize;
            from.swap(at, other);
        }
        from.truncate(count);
        from
    }

    /// A place in `weights`, by weight; the weights are not all 0.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        let place = weights.iter().position(|weight| {
            let here = left < *weight;
            left = left.saturating_sub(*weight);
            here
        });
        place.expect("the number lies below the sum")
    }
}
