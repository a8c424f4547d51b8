//! The random choices of a shard's leader, at one decision.
//!
//! They follow from the salt and the shard alone, so that a simulator can replay them, and two
//! shards that see the same nodes choose differently.

use keyspace::ShardId;
use keyspace::random::{Random, mix};

/// Which part of what should move is moved in one round of decisions.
///
/// Loads are known some rounds late. Who corrects a whole error at once and sees the effect `d`
/// rounds later corrects it `d` times, and then the other way. That goes on for ever unless the
/// part is below `2 sin(π / (4d + 2))` (Levin and May 1976), 0.35 for four rounds; and it swings
/// unless it is below `d^d / (d + 1)^(d + 1)`: 0.25 for one round, 0.15 for two, 0.105 for three.
/// Rounds are half a second, so half of what is uneven is on its way after three seconds.
pub(crate) const PACE: f64 = 0.125;

/// The chance of one decision.
pub(crate) struct Chance(Random);

impl Chance {
    pub(crate) fn new(shard: ShardId, salt: u64) -> Self {
        Self(Random::new(mix(shard.0 ^ mix(salt))))
    }

    /// A number from 0 up to, not including, 1.
    pub(crate) fn part(&mut self) -> f64 {
        (self.0.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of several, each as likely as its weight (none below 0) says. If the weights add up to
    /// less than 1 and `all` is 1, it may be none of them.
    pub(crate) fn draw(&mut self, weights: &[f64], all: f64) -> Option<usize> {
        let mut left = self.part() * all;
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return Some(index);
            }
            left -= weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_drawn_as_often_as_its_weight_says() {
        let mut count = [0; 3];
        for salt in 0..10_000 {
            match Chance::new(ShardId(7), salt).draw(&[0.1, 0.0, 0.4], 1.0) {
                Some(index) => count[index] += 1,
                None => count[1] += 1,
            }
        }
        assert!((900..1_100).contains(&count[0]), "{count:?}");
        assert!((4_800..5_200).contains(&count[1]), "{count:?}");
    }
}
