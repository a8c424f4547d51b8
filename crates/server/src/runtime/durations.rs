//! Histograms of durations, for Prometheus.

use std::time::Duration;

use crate::counters::Counter;
use api::Histogram;

/// Upper bounds in seconds: from a read in memory, or a disk with a battery-backed cache, to a disk
/// that hangs.
const BOUNDS: [f64; 15] = [
    0.000_025, 0.000_05, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0,
];

/// How often it took how long.
#[derive(Debug, Default)]
pub struct Durations {
    /// At or below each bound, above the one before.
    buckets: [Counter; BOUNDS.len()],
    /// Above all bounds.
    beyond: Counter,
    nanos: Counter,
}

impl Durations {
    /// It took this long.
    pub fn add(&self, took: Duration) {
        let place = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound);
        place.map_or(&self.beyond, |place| &self.buckets[place]).add(1);
        self.nanos.add(took.as_nanos() as u64);
    }

    /// Takes what a thread has counted for itself.
    pub fn take(&self, counted: &mut DurationCounts) {
        if counted.count == 0 {
            return;
        }
        let DurationCounts { buckets, nanos, .. } = std::mem::take(counted);
        let all = self.buckets.iter().chain([&self.beyond]);
        let some = all.zip(buckets).filter(|(_, count)| *count > 0);
        some.for_each(|(bucket, count)| bucket.add(count));
        self.nanos.add(nanos);
    }

    /// What was counted, without labels.
    pub fn histogram(&self) -> Histogram {
        let mut count = 0;
        let buckets = BOUNDS.iter().zip(&self.buckets).map(|(bound, bucket)| {
            count += bucket.get();
            (*bound, count)
        });
        let buckets = buckets.collect();
        let (sum, count) = (self.nanos.get() as f64 / 1e9, count + self.beyond.get());
        Histogram { labels: Vec::new(), buckets, sum, count }
    }
}

/// The same of one thread, which hands it over from time to time.
#[derive(Debug, Default)]
pub struct DurationCounts {
    /// As in [`Durations`]; the last is above all bounds.
    buckets: [u64; BOUNDS.len() + 1],
    nanos: u64,
    count: u64,
}

impl DurationCounts {
    /// It took this long.
    pub fn add(&mut self, took: Duration) {
        let place = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound);
        self.buckets[place.unwrap_or(BOUNDS.len())] += 1;
        self.nanos += took.as_nanos() as u64;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_one_bucket_and_all_above() {
        let durations = Durations::default();
        for micros in [100, 300, 2_000, 3_000_000] {
            durations.add(Duration::from_micros(micros));
        }
        let Histogram { buckets, sum, count, .. } = durations.histogram();
        assert_eq!(count, 4);
        assert!((sum - 3.0024).abs() < 1e-9, "{sum}");
        let below = |bound: f64| buckets.iter().find(|(b, _)| *b == bound).unwrap().1;
        assert_eq!([below(0.0001), below(0.0005), below(0.0025), below(1.0)], [1, 2, 3, 3]);
    }

    #[test]
    fn counts_of_a_thread_are_taken_once() {
        let (durations, same) = (Durations::default(), Durations::default());
        let mut counts = DurationCounts::default();
        for micros in [10, 100, 300, 3_000_000] {
            same.add(Duration::from_micros(micros));
            counts.add(Duration::from_micros(micros));
        }
        durations.take(&mut counts);
        durations.take(&mut counts);
        let (taken, same) = (durations.histogram(), same.histogram());
        assert_eq!((taken.buckets, taken.count), (same.buckets, same.count));
        assert!((taken.sum - same.sum).abs() < 1e-12);
    }
}
