//! How often requests are sampled: at most so many in any second, a fifth of them at once.
//!
//! A pace is two numbers and a clock's reading, its *turn*: when the next sample would be due if
//! samples came evenly (the generic cell rate algorithm). The caller keeps the turn, mostly in an
//! atomic.
//!
//! Where only one may come at a time, the next is due up to half as late again, by chance: nodes
//! are sampled once in a while each, and a merge takes once in a while what they sampled. In step,
//! it would refuse the same node each time.

use keyspace::random::mix;

/// The most samples a second.
pub const SAMPLES_MAX: u32 = 1000;

const SECOND_NANOS: u64 = 1_000_000_000;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplePace {
    interval_nanos: u64,
    /// How far the turn may be ahead of the time.
    ahead_nanos: u64,
}

impl SamplePace {
    /// At most so many a second; none for 0.
    pub fn new(samples: u32) -> Option<Self> {
        let samples = u64::from(samples.min(SAMPLES_MAX));
        let at_once = (samples / 5).max(1);
        // What comes at once is left out of what comes evenly, so that the sum is right.
        let evenly = if at_once > 1 { samples - at_once } else { samples };
        let interval_nanos = SECOND_NANOS.checked_div(evenly)?;
        Some(Self { interval_nanos, ahead_nanos: (at_once - 1) * interval_nanos })
    }

    /// The turn after a sample at this time; none if there must be none yet.
    #[inline]
    pub fn take(self, turn: u64, now_nanos: u64) -> Option<u64> {
        let is_due = turn <= now_nanos.saturating_add(self.ahead_nanos);
        is_due.then(|| {
            let from = turn.max(now_nanos);
            let late = match self.ahead_nanos {
                0 => mix(from) % (self.interval_nanos / 2 + 1),
                _ => 0,
            };
            from + self.interval_nanos + late
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn burst_is_a_fifth() {
        let pace = SamplePace::new(100).unwrap();
        let mut turn = 0;
        let now = 5 * SECOND_NANOS;
        let at_once = std::iter::from_fn(|| pace.take(turn, now).map(|next| turn = next)).count();
        assert_eq!(at_once, 20);
        assert_eq!(SamplePace::new(0), None);
        assert_eq!(SamplePace::new(5000), SamplePace::new(SAMPLES_MAX));
    }

    #[test]
    fn sources_in_step_all_get_through_a_merge() {
        let (source, merge) = (SamplePace::new(1).unwrap(), SamplePace::new(3).unwrap());
        let (mut turns, mut merge_turn, mut taken) = ([0; 3], 0, [0; 3]);
        // Each millisecond a request at each node, one after the other.
        for millis in 1_000..31_000_u64 {
            for node in 0..3 {
                let now = millis * 1_000_000 + node as u64 * 1_000;
                let Some(turn) = source.take(turns[node], now) else { continue };
                turns[node] = turn;
                if let Some(turn) = merge.take(merge_turn, now) {
                    (merge_turn, taken[node]) = (turn, taken[node] + 1);
                }
            }
        }
        assert!(taken.iter().all(|taken| *taken >= 5), "{taken:?}");
    }

    proptest! {
        #[test]
        fn no_second_has_more(
            samples in 1u32..60,
            steps in prop::collection::vec(0u64..80_000_000, 0..600),
        ) {
            let pace = SamplePace::new(samples).unwrap();
            let (mut turn, mut now, mut taken) = (0, SECOND_NANOS, VecDeque::new());
            for step in steps {
                now += step;
                if let Some(next) = pace.take(turn, now) {
                    turn = next;
                    taken.push_back(now);
                }
                while taken.front().is_some_and(|first| first + SECOND_NANOS <= now) {
                    taken.pop_front();
                }
                prop_assert!(taken.len() <= samples as usize, "{} in a second", taken.len());
            }
        }
    }
}
