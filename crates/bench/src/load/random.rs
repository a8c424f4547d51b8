//! A small generator of random numbers: splitmix64 (Steele, Lea, Flood: OOPSLA 2014).
//!
//! The same seed draws the same numbers on every machine, so that a run can be repeated.

/// Scrambles 64 bits: each bit of the input changes half of the output's.
pub fn scramble(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed. Streams of two seeds have nothing in common.
    pub fn new(seed: u64) -> Self {
        Self(scramble(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A fraction from 0 up to 1, without 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A length of time between events that do not know of each other, of this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_an_end_are_even_and_repeatable() {
        let (mut random, mut again) = (Random::new(7), Random::new(7));
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            let number = random.below(10);
            assert_eq!(number, again.below(10));
            counts[number as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn exponential_times_have_their_mean() {
        let mut random = Random::new(1);
        let sum: f64 = (0..100_000).map(|_| random.exponential(5.0)).sum();
        assert!((4.9..5.1).contains(&(sum / 100_000.0)), "{sum}");
    }
}
