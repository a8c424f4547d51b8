//! What one phase measures while it runs, and how parts of it become one.
//!
//! A histogram keeps three figures of each latency up to ten minutes; longer ones count as ten
//! minutes. Of each second there is a coarser histogram, of two figures, that is handed over when
//! the second is past, so that the length of a run costs little memory.

use std::collections::{BTreeMap, VecDeque};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency, in nanoseconds.
pub const LATENCY_NANOS_MAX: u64 = 600_000_000_000;
/// Kinds of failures that are told apart; the others are counted together.
const FAILURE_KINDS_MAX: usize = 32;
/// What failures of further kinds are called.
const OTHER_FAILURES: &str = "other";
const SECOND_NANOS: u64 = 1_000_000_000;
const TENTH_NANOS: u64 = SECOND_NANOS / TENTHS as u64;

/// Into how many parts a second is divided, to see when nothing was answered.
pub const TENTHS: usize = 10;

/// An empty histogram of so many figures.
fn histogram(figures: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, figures).expect("constant bounds are valid")
}

/// A histogram as pairs: a latency in nanoseconds, and how often it was met.
pub type Pairs = Vec<(u64, u64)>;

fn pairs(histogram: &Histogram<u64>) -> Pairs {
    let recorded = histogram.iter_recorded();
    recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// The histogram of these pairs.
pub fn from_pairs(pairs: &Pairs) -> Histogram<u64> {
    let mut histogram = histogram(3);
    for (value, count) in pairs {
        add(&mut histogram, *value, *count);
    }
    histogram
}

fn add(histogram: &mut Histogram<u64>, value: u64, count: u64) {
    let value = value.clamp(1, LATENCY_NANOS_MAX);
    histogram.record_n(value, count).expect("the value was cut to the bounds");
}

fn merge_pairs(into: &mut Pairs, from: Pairs) {
    let mut all: BTreeMap<u64, u64> = std::mem::take(into).into_iter().collect();
    for (value, count) in from {
        *all.entry(value).or_default() += count;
    }
    *into = all.into_iter().collect();
}

/// What an entry of a mix did in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EntryData {
    /// What the scenario calls it.
    pub name: String,
    /// Requests that were answered well before the phase's end.
    pub count: u64,
    /// Reads that found no value, where that is no failure.
    pub absent: u64,
    /// Failures by kind.
    pub failures: BTreeMap<String, u64>,
    /// Latencies of all that were answered well, also of those that came late.
    pub latencies: Pairs,
}

impl EntryData {
    /// All failures.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

/// What happened in one second of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Which, from 0.
    pub second: u64,
    /// Of each entry, requests that were answered well.
    pub counts: Vec<u64>,
    /// Requests that failed.
    pub failures: u64,
    /// The same, by kind.
    #[serde(default)]
    pub kinds: BTreeMap<String, u64>,
    /// Requests that were answered well in each tenth of the second.
    #[serde(default)]
    pub tenths: [u64; TENTHS],
    /// Latencies, all entries together.
    pub latencies: Pairs,
}

impl Second {
    /// Adds what another part did in the same second.
    pub fn merge(&mut self, other: Second) {
        self.second = other.second;
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.failures += other.failures;
        for (kind, count) in other.kinds {
            add_failures(&mut self.kinds, &kind, count);
        }
        self.tenths.iter_mut().zip(&other.tenths).for_each(|(sum, count)| *sum += count);
        merge_pairs(&mut self.latencies, other.latencies);
    }
}

/// What one part of a phase did, all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseData {
    /// By entry of the mix, in its order.
    pub entries: Vec<EntryData>,
    /// How much later than planned requests were sent while a connection was free, in nanoseconds:
    /// the instrument's own delay in an open loop.
    pub lag: Pairs,
    /// Connections that broke and were made again.
    pub reconnects: u64,
    /// Requests that a node of a cluster sent elsewhere.
    #[serde(default)]
    pub redirects: u64,
    /// How often transfers met a key that had changed, and began again.
    #[serde(default)]
    pub retries: u64,
    /// What the numbers that were read add up to.
    #[serde(default)]
    pub sum: i64,
    /// Processor time of the instrument, in seconds.
    pub instrument_cpu: f64,
}

impl PhaseData {
    /// Adds what another part did.
    pub fn merge(&mut self, other: PhaseData) {
        if self.entries.is_empty() {
            self.entries = other.entries;
        } else {
            for (into, from) in self.entries.iter_mut().zip(other.entries) {
                into.count += from.count;
                into.absent += from.absent;
                for (kind, count) in from.failures {
                    add_failures(&mut into.failures, &kind, count);
                }
                merge_pairs(&mut into.latencies, from.latencies);
            }
        }
        merge_pairs(&mut self.lag, other.lag);
        self.reconnects += other.reconnects;
        self.redirects += other.redirects;
        self.retries += other.retries;
        self.sum = self.sum.wrapping_add(other.sum);
        self.instrument_cpu += other.instrument_cpu;
    }
}

fn add_failures(failures: &mut BTreeMap<String, u64>, kind: &str, count: u64) {
    let is_known = failures.contains_key(kind) || failures.len() < FAILURE_KINDS_MAX;
    let kind = if is_known { kind } else { OTHER_FAILURES };
    match failures.get_mut(kind) {
        Some(sum) => *sum += count,
        None => {
            failures.insert(kind.to_owned(), count);
        }
    }
}

struct EntryRecord {
    name: String,
    count: u64,
    absent: u64,
    failures: BTreeMap<String, u64>,
    latencies: Histogram<u64>,
}

/// Equal latencies that came one after the other: those of a batch, for which the clock was read
/// once. They enter histograms together.
#[derive(Clone, Copy, Default)]
struct Batch {
    entry: usize,
    latency: u64,
    is_in_time: bool,
    count: u64,
}

/// Records one part of a phase.
pub struct Recorder {
    entries: Vec<EntryRecord>,
    batch: Batch,
    /// After so many nanoseconds an answer comes too late to count for the throughput.
    end: u64,
    /// Seconds that are past and that nobody has taken.
    past: VecDeque<Second>,
    second: u64,
    counts: Vec<u64>,
    failures: u64,
    kinds: BTreeMap<String, u64>,
    tenths: [u64; TENTHS],
    latencies: Histogram<u64>,
    lag: Histogram<u64>,
}

impl Recorder {
    /// For entries of these names, in a phase that ends after so many nanoseconds.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, end: u64) -> Self {
        let record = |name: &str| EntryRecord {
            name: name.to_owned(),
            count: 0,
            absent: 0,
            failures: BTreeMap::new(),
            latencies: histogram(3),
        };
        let entries: Vec<EntryRecord> = names.into_iter().map(record).collect();
        let counts = vec![0; entries.len()];
        let (latencies, lag) = (histogram(2), histogram(2));
        let (kinds, tenths) = (BTreeMap::new(), [0; TENTHS]);
        let (past, batch) = (VecDeque::new(), Batch::default());
        let (second, failures) = (0, 0);
        Self { entries, batch, end, past, second, counts, failures, kinds, tenths, latencies, lag }
    }

    /// It is `now`: what is recorded from here on belongs to that second, however late those before
    /// it are taken.
    pub fn advance(&mut self, now: u64) {
        while now / SECOND_NANOS > self.second {
            let past = self.take_second();
            self.past.push_back(past);
        }
    }

    /// A good answer to what began at `since` and ended at `now`, in nanoseconds of the phase.
    pub fn answered(&mut self, entry: usize, since: u64, now: u64, is_absent: bool) {
        let (latency, is_in_time) = (now.saturating_sub(since).max(1), now <= self.end);
        let record = &mut self.entries[entry];
        record.absent += u64::from(is_absent);
        if is_in_time {
            record.count += 1;
            self.advance(now);
            self.counts[entry] += 1;
            self.tenths[(now / TENTH_NANOS) as usize % TENTHS] += 1;
        }
        let batch = &mut self.batch;
        if (batch.entry, batch.latency, batch.is_in_time) == (entry, latency, is_in_time) {
            batch.count += 1;
        } else {
            self.end_batch();
            self.batch = Batch { entry, latency, is_in_time, count: 1 };
        }
    }

    fn end_batch(&mut self) {
        let Batch { entry, latency, is_in_time, count } = std::mem::take(&mut self.batch);
        if count == 0 {
            return;
        }
        self.entries[entry].latencies.saturating_record_n(latency, count);
        if is_in_time {
            self.latencies.saturating_record_n(latency, count);
        }
    }

    /// Whether anything has failed.
    pub fn has_failures(&self) -> bool {
        self.entries.iter().any(|entry| !entry.failures.is_empty())
    }

    /// Failures of a kind.
    pub fn failed(&mut self, entry: usize, kind: &str, count: u64) {
        if count > 0 {
            add_failures(&mut self.entries[entry].failures, kind, count);
            add_failures(&mut self.kinds, kind, count);
            self.failures += count;
        }
    }

    /// A request was sent so much later than planned, although a connection was free.
    pub fn lagged(&mut self, nanos: u64) {
        self.lag.saturating_record(nanos.max(1));
    }

    /// The seconds that are past at `now`, each once.
    pub fn past_second(&mut self, now: u64) -> Option<Second> {
        self.advance(now);
        self.past.pop_front()
    }

    fn take_second(&mut self) -> Second {
        self.end_batch();
        let taken = Second {
            second: self.second,
            counts: std::mem::replace(&mut self.counts, vec![0; self.entries.len()]),
            failures: std::mem::take(&mut self.failures),
            kinds: std::mem::take(&mut self.kinds),
            tenths: std::mem::take(&mut self.tenths),
            latencies: pairs(&self.latencies),
        };
        self.latencies.reset();
        self.second += 1;
        taken
    }

    /// Ends the recording: the last second, if anything happened in it, and the whole. Seconds
    /// before it have been taken ([`Self::past_second`]).
    pub fn finish(mut self) -> (Option<Second>, PhaseData) {
        let last = self.take_second();
        let is_empty = last.failures == 0 && last.counts.iter().all(|count| *count == 0);
        let entries = self.entries.into_iter().map(|record| EntryData {
            name: record.name,
            count: record.count,
            absent: record.absent,
            failures: record.failures,
            latencies: pairs(&record.latencies),
        });
        let data =
            PhaseData { entries: entries.collect(), lag: pairs(&self.lag), ..PhaseData::default() };
        ((!is_empty).then_some(last), data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn seconds_are_handed_over_once_and_the_whole_at_the_end() {
        let mut recorder = Recorder::new(["get", "put"], 2 * SECOND);
        recorder.answered(0, 0, 1_000, false);
        assert_eq!(recorder.past_second(SECOND - 1), None);
        let first = recorder.past_second(SECOND).unwrap();
        assert_eq!((first.second, first.counts, first.failures), (0, vec![1, 0], 0));
        recorder.failed(1, "timeout", 3);
        recorder.answered(1, SECOND, SECOND + 5_000, true);
        recorder.answered(1, SECOND, 2 * SECOND + 1, false);
        let (last, data) = recorder.finish();
        let last = last.unwrap();
        assert_eq!((last.second, last.counts, last.failures), (1, vec![0, 1], 3));
        let put = &data.entries[1];
        assert_eq!((put.count, put.absent, put.failed()), (1, 1, 3), "late ones do not count");
        let latencies = from_pairs(&put.latencies);
        assert_eq!(latencies.len(), 2, "but their latencies do");
        assert!(latencies.max() >= SECOND);
    }

    #[test]
    fn an_answer_belongs_to_the_second_in_which_it_came() {
        let mut recorder = Recorder::new(["get"], 3 * SECOND);
        recorder.answered(0, 0, SECOND / 2, false);
        // Nobody took the first second before this came.
        recorder.answered(0, 0, SECOND + SECOND / 20, false);
        let first = recorder.past_second(SECOND + SECOND / 10).unwrap();
        assert_eq!((first.second, first.counts, first.tenths[0]), (0, vec![1], 0));
        assert_eq!(recorder.past_second(SECOND + SECOND / 10), None);
        // As one that was paused for three seconds.
        recorder.advance(4 * SECOND);
        recorder.failed(0, "timeout", 1);
        let second = recorder.past_second(4 * SECOND).unwrap();
        assert_eq!((second.second, second.counts, second.tenths[0]), (1, vec![1], 1));
        let more: Vec<u64> =
            std::iter::from_fn(|| recorder.past_second(4 * SECOND)).map(|s| s.second).collect();
        assert_eq!(more, [2, 3]);
        let last = recorder.finish().0.unwrap();
        assert_eq!((last.second, last.failures), (4, 1));
    }

    #[test]
    fn batches_of_equal_latencies_are_counted_whole() {
        let mut recorder = Recorder::new(["get", "put"], SECOND);
        for _ in 0..16 {
            recorder.answered(0, 0, 5_000, false);
        }
        recorder.answered(1, 0, 5_000, false);
        recorder.answered(1, SECOND, SECOND + 5_000, false);
        recorder.answered(0, 0, 5_000, true);
        let (last, data) = recorder.finish();
        let counts = |at: usize| from_pairs(&data.entries[at].latencies).len();
        assert_eq!((counts(0), counts(1), data.entries[0].absent), (17, 2, 1));
        assert_eq!(data.entries[1].count, 1, "one came too late");
        let last = last.unwrap();
        assert_eq!((last.counts, from_pairs(&last.latencies).len()), (vec![17, 1], 18));
    }

    #[test]
    fn parts_become_one() {
        let part = |latency: u64, kind: &str| {
            let mut recorder = Recorder::new(["get"], SECOND);
            recorder.answered(0, 0, latency, false);
            recorder.failed(0, kind, 1);
            recorder.finish()
        };
        let ((one, mut whole), (two, other)) = (part(1_000, "closed"), part(9_000, "timeout"));
        whole.merge(other);
        assert_eq!((whole.entries[0].count, whole.entries[0].failed()), (2, 2));
        assert_eq!(whole.entries[0].latencies.len(), 2);
        let mut second = Second::default();
        second.merge(one.unwrap());
        second.merge(two.unwrap());
        assert_eq!((second.counts, second.failures, second.latencies.len()), (vec![2], 2, 2));
    }

    #[test]
    fn kinds_of_failures_are_bounded() {
        let mut recorder = Recorder::new(["get"], SECOND);
        (0..100).for_each(|number| recorder.failed(0, &format!("kind {number}"), 1));
        let (_, data) = recorder.finish();
        let failures = &data.entries[0].failures;
        assert_eq!((failures.len(), failures[OTHER_FAILURES]), (FAILURE_KINDS_MAX + 1, 68));
    }

    #[test]
    fn a_histogram_keeps_three_figures() {
        let mut recorder = Recorder::new(["get"], SECOND);
        (1..=1_000u64).for_each(|micros| recorder.answered(0, 0, micros * 1_000, false));
        let latencies = from_pairs(&recorder.finish().1.entries[0].latencies);
        let p99 = latencies.value_at_quantile(0.99);
        assert!((989_000..=991_500).contains(&p99), "{p99}");
    }
}
