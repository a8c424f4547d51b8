//! Which request comes next: a draw by weight.

use super::random::Random;

/// Weights of a mix, summed up.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Of each entry, the sum of weights up to it.
    sums: Vec<u64>,
}

impl Mix {
    /// Of these weights; at least one is not zero.
    pub fn new(weights: impl IntoIterator<Item = u64>) -> Self {
        let sum = |sum: &mut u64, weight: u64| {
            *sum += weight;
            Some(*sum)
        };
        Self { sums: weights.into_iter().scan(0, sum).collect() }
    }

    /// The number of the next entry.
    pub fn draw(&self, random: &mut Random) -> usize {
        match self.sums[..] {
            [_] => 0,
            [.., total] => {
                let at = random.below(total);
                self.sums.partition_point(|sum| *sum <= at)
            }
            [] => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_by_weight_and_without_weight_never() {
        let (mix, mut random) = (Mix::new([90, 0, 10]), Random::new(2));
        let mut counts = [0u32; 3];
        (0..100_000).for_each(|_| counts[mix.draw(&mut random)] += 1);
        assert!((89_000..91_000).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[1], 0);
    }
}
