//! Samples one request in [`GAP`], at uneven distances, so that no pattern of clients goes in step
//! with it.

use keyspace::random::{Random, mix};

/// One in so many requests is sampled, on average.
pub const GAP: u32 = 64;

/// Counts requests down to the next that is noted. Each thread has one of its own.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// Requests up to the next that is noted, which is the last of them: at least 1.
    left: u32,
    random: Random,
}

impl Sampler {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(mix(seed));
        let left = gap(&mut random);
        Self { left, random }
    }

    /// One request: whether it is noted.
    #[inline]
    pub fn notes(&mut self) -> bool {
        self.left -= 1;
        self.left == 0 && self.again()
    }

    /// Counts `count` requests, and calls `each` with the number of every sampled one, from 0.
    #[inline]
    pub fn among(&mut self, count: u32, each: impl FnMut(u32)) {
        if count < self.left {
            self.left -= count;
        } else {
            self.draw(count, each);
        }
    }

    #[cold]
    fn again(&mut self) -> bool {
        self.left = gap(&mut self.random);
        true
    }

    #[cold]
    fn draw(&mut self, count: u32, mut each: impl FnMut(u32)) {
        let mut passed = 0;
        while count - passed >= self.left {
            passed += self.left;
            each(passed - 1);
            self.left = gap(&mut self.random);
        }
        self.left -= count - passed;
    }
}

/// From half of [`GAP`] to one and a half of it.
fn gap(random: &mut Random) -> u32 {
    GAP / 2 + random.below(u64::from(GAP) + 1) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_in_so_many_is_noted() {
        let mut sampler = Sampler::new(7);
        let noted = (0..100_000).filter(|_| sampler.notes()).count() as u32;
        assert!((noted * GAP).abs_diff(100_000) < 3_000, "{noted}");
    }

    proptest! {
        /// It is the same whether requests come one by one or together.
        #[test]
        fn heaps_are_as_their_parts(seed: u64, heaps in prop::collection::vec(0u32..300, 0..40)) {
            let (mut one, mut other) = (Sampler::new(seed), Sampler::new(seed));
            for heap in heaps {
                let alone: Vec<u32> = (0..heap).filter(|_| one.notes()).collect();
                let mut together = Vec::new();
                other.among(heap, |which| together.push(which));
                prop_assert_eq!(alone, together);
            }
        }
    }
}
