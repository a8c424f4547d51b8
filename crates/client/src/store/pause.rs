//! Pauses between attempts: doubling, up to a maximum, and randomised so that clients differ.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Rising waits with jitter.
#[derive(Debug)]
pub(crate) struct Pauses {
    first: Duration,
    most: Duration,
    count: u32,
    seed: RandomState,
}

impl Pauses {
    /// No pause first, then `first`, then doubling, up to `most`; each shortened at random by up to
    /// a half.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, count: 0, seed: RandomState::new() }
    }

    /// The next.
    pub fn next(&mut self) -> Duration {
        let count = self.count;
        self.count = count.saturating_add(1);
        let Some(doublings) = count.checked_sub(1) else { return Duration::ZERO };
        let whole = self.first.saturating_mul(1 << doublings.min(16)).min(self.most);
        let chance = self.seed.hash_one(count) % 512;
        whole.mul_f64(0.5 + chance as f64 / 1024.0)
    }

    /// All is well again: from the beginning.
    pub fn reset(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_rise_to_a_most_and_begin_anew() {
        let millis = Duration::from_millis;
        let mut pauses = Pauses::new(millis(10), millis(1000));
        assert_eq!(pauses.next(), Duration::ZERO);
        for round in 0..100 {
            let whole = millis(10 << round.min(20)).min(millis(1000));
            let pause = pauses.next();
            assert!(pause >= whole / 2 && pause < whole, "{round}: {pause:?}");
        }
        pauses.reset();
        assert_eq!(pauses.next(), Duration::ZERO);
    }
}
