//! When requests of an open loop are due, whatever the target does.
//!
//! The n-th request is due when the integral of the rate reaches n. So a ramp is exact, and a part
//! that stalls finds all that became due meanwhile, with the times for which it was meant.

use super::random::Random;

/// Requests per second, from the start of a phase to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// At the start.
    pub from: f64,
    /// At the end; in between it changes evenly.
    pub to: f64,
    /// Whether requests come at random (a Poisson process) or at even distances.
    pub is_random: bool,
}

/// Times of the requests of one part.
#[derive(Clone, Debug)]
pub struct Schedule {
    rate: Rate,
    seconds: f64,
    share: f64,
    /// How many requests of this part were due until `next`.
    count: f64,
    next: Option<u64>,
}

impl Schedule {
    /// Of part `part` of `parts`, over a phase of this length.
    pub fn new(rate: Rate, seconds: f64, part: u64, parts: u64, random: &mut Random) -> Self {
        let share = 1.0 / parts as f64;
        // Parts take turns, instead of all at once.
        let offset = (part as f64 + 0.5) * share;
        let count = if rate.is_random { random.exponential(1.0) } else { offset };
        let mut schedule = Self { rate, seconds, share, count, next: None };
        schedule.next = schedule.time_of(count);
        schedule
    }

    /// When the next request is due, in nanoseconds from the start; `None` after the last.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Goes on to the request after it.
    pub fn advance(&mut self, random: &mut Random) {
        self.count += if self.rate.is_random { random.exponential(1.0) } else { 1.0 };
        self.next = self.time_of(self.count);
    }

    /// When so many requests of this part were due: the solution of
    /// share · (from · t + slope · t² / 2) = count.
    fn time_of(&self, count: f64) -> Option<u64> {
        let target = count / self.share;
        let Rate { from, to, .. } = self.rate;
        let slope = (to - from) / self.seconds;
        // The form of the quadratic formula that also holds for a slope of zero.
        let root = from * from + 2.0 * slope * target;
        if root < 0.0 {
            return None;
        }
        let time = 2.0 * target / (from + root.sqrt());
        (time < self.seconds).then_some((time * 1e9) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rate: Rate, seconds: f64, part: u64, parts: u64) -> Vec<u64> {
        let mut random = Random::new(5);
        let mut schedule = Schedule::new(rate, seconds, part, parts, &mut random);
        let mut times = Vec::new();
        while let Some(time) = schedule.next() {
            times.push(time);
            schedule.advance(&mut random);
        }
        times
    }

    #[test]
    fn an_even_rate_has_even_distances_and_parts_take_turns() {
        let rate = Rate { from: 100.0, to: 100.0, is_random: false };
        let mut all = [times(rate, 2.0, 0, 2), times(rate, 2.0, 1, 2)].concat();
        assert_eq!(all.len(), 200);
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| (9_990_000..10_010_000).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn a_ramp_has_its_area_and_its_slope() {
        let rate = Rate { from: 0.0, to: 1_000.0, is_random: false };
        let up = times(rate, 4.0, 0, 1);
        assert!((1_999..=2_000).contains(&up.len()), "{}", up.len());
        let early = up.iter().filter(|time| **time < 2_000_000_000).count();
        assert!((499..=501).contains(&early), "a quarter in the first half: {early}");
        let down = times(Rate { from: 1_000.0, to: 0.0, ..rate }, 4.0, 0, 1);
        let early = down.iter().filter(|time| **time < 2_000_000_000).count();
        assert!((1_498..=1_502).contains(&early), "{early}");
    }

    #[test]
    fn random_arrivals_have_the_rate_and_vary() {
        let rate = Rate { from: 5_000.0, to: 5_000.0, is_random: true };
        let times = times(rate, 4.0, 0, 1);
        assert!((19_400..20_600).contains(&times.len()), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let variation = variance.sqrt() / mean;
        assert!((0.9..1.1).contains(&variation), "as a Poisson process has it: {variation}");
    }
}
