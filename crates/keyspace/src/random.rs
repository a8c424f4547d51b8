//! Random numbers from a seed, where all must be a function of its arguments.
//!
//! SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): small, seedable, and good enough to spread
//! numbers, to choose peers, and to choose what a test does. Equal seeds give equal sequences in
//! every version of the program, because seeds of failing runs are recorded. An attacker may guess
//! the next number: never use it for secrets.
//!
//! ```text
//!   seed ──+γ──► seed + γ ──+γ──► seed + 2γ ──…          γ: odd, near 2^64 / the golden ratio
//!                   │ finish         │ finish
//!                   ▼                ▼
//!                mix(seed)        mix(seed + γ)          what Random draws
//! ```

/// What lies between two numbers of the row before they are finished.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a number over all 64 bits, each to another one, 0 to itself.
#[inline]
pub fn finish(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Spreads a number over all 64 bits, each to another one: the first number that [`Random`] draws
/// from this seed.
#[inline]
pub fn mix(number: u64) -> u64 {
    finish(number.wrapping_add(GAMMA))
}

/// Draws numbers, all decided by a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed. Rows of seeds that lie multiples of γ apart overlap: [`mix`] seeds that may.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        finish(self.0)
    }

    /// A number below `bound`, which is not 0. Skewed by less than `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// True once in `n` times; `n` is not 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_is_that_of_the_paper() {
        let mut random = Random::new(1_234_567);
        let row: Vec<u64> = (0..5).map(|_| random.bits()).collect();
        assert_eq!(
            row,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
        assert_eq!((mix(1_234_567), finish(0)), (row[0], 0));
    }
}
