//! Counters of lookups: hops, durations, failures.

use api::Histogram;
use overlay::Kind;
use overlay::request::Form;

use super::Trace;
use crate::counters::Counter;
use crate::runtime::durations::Durations;

/// Counters of one lookup in one form.
#[derive(Default)]
pub(super) struct LookupCounters {
    took: Durations,
    hops: Hops,
    failed: Counter,
}

/// Upper bounds of hops.
const HOP_BOUNDS: [u32; 12] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 128, 1024];

#[derive(Default)]
struct Hops {
    buckets: [Counter; HOP_BOUNDS.len()],
    beyond: Counter,
    sum: Counter,
}

impl Hops {
    fn add(&self, hops: u32) {
        let place = HOP_BOUNDS.iter().position(|bound| hops <= *bound);
        place.map_or(&self.beyond, |place| &self.buckets[place]).add(1);
        self.sum.add(hops.into());
    }

    fn histogram(&self) -> Histogram {
        let mut count = 0;
        let buckets = HOP_BOUNDS.iter().zip(&self.buckets).map(|(bound, bucket)| {
            count += bucket.get();
            (f64::from(*bound), count)
        });
        let buckets = buckets.collect();
        let count = count + self.beyond.get();
        Histogram { labels: Vec::new(), buckets, sum: self.sum.get() as f64, count }
    }
}

/// What a lookup has counted: for metrics.
pub struct LookupStats {
    /// Which.
    pub kind: Kind,
    /// In which form.
    pub form: Form,
    /// How long its requests took.
    pub took: Histogram,
    /// How many hops.
    pub hops: Histogram,
    /// How many found no owner.
    pub failed: u64,
}

impl LookupCounters {
    /// Counts a request that has ended.
    pub(super) fn add(&self, trace: &Trace) {
        match trace.failure {
            Some(_) => self.failed.add(1),
            None => {
                self.hops.add(trace.hops);
                self.took.add(trace.took);
            }
        }
    }

    /// The counts; none if there was no request.
    pub(super) fn counted(&self, kind: Kind, form: Form) -> Option<LookupStats> {
        let (took, hops) = (self.took.histogram(), self.hops.histogram());
        let failed = self.failed.get();
        (took.count + failed > 0).then_some(LookupStats { kind, form, took, hops, failed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_counted_in_one_bucket_and_all_above() {
        let hops = Hops::default();
        [0, 3, 5, 5_000].into_iter().for_each(|count| hops.add(count));
        let Histogram { buckets, sum, count, .. } = hops.histogram();
        assert_eq!((count, sum), (4, 5008.0));
        let below = |bound: f64| buckets.iter().find(|(b, _)| *b == bound).unwrap().1;
        assert_eq!([below(0.0), below(3.0), below(6.0), below(1024.0)], [1, 2, 3, 3]);
    }
}
