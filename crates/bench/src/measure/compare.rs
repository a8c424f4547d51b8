//! Is one result worse than another?
//!
//! A figure is *worse* if its median moved in the bad direction by more than the threshold, and the
//! two confidence intervals do not overlap. If they do, the difference may be chance: it is shown
//! as *unsure*, and does not fail. Where both results have one run each there are no intervals, and
//! the threshold alone decides.
//!
//! Compared are throughput, p50 and p99 of all entries together and of each, and failures: more of
//! these are worse without a threshold. Of further percentiles single runs say too little. What
//! answers nothing has no latencies: they are left out, and its throughput says it. A figure that
//! the second result lacks is worse, too: nobody can say that it is not.

use super::result::{Figure, Results, shown};
use crate::scenario::Metric;
use crate::scenario::plan::label;

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Worse, beyond the threshold.
    Worse,
    /// Better, beyond the threshold.
    Better,
    /// Beyond the threshold, but the intervals overlap.
    Unsure,
    /// Within the threshold.
    Same,
}

/// A figure in both results.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Cell, phase and entry.
    pub what: String,
    /// Which figure.
    pub metric: Metric,
    /// Its median in the first result.
    pub before: f64,
    /// Its median in the second.
    pub after: f64,
    /// By how much it grew, as a share of `before`.
    pub change: f64,
    /// What that means.
    pub meaning: Meaning,
}

/// What a comparison found.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Figures that both have.
    pub differences: Vec<Difference>,
    /// What only the first has.
    pub missing: Vec<String>,
    /// What only the second has.
    pub new: Vec<String>,
}

impl Comparison {
    /// Compares two results; `threshold` is a share: 0.05 for five per cent.
    pub fn new(before: &Results, after: &Results, threshold: f64) -> Self {
        let mut differences = Vec::new();
        let compared = |figure: &&Figure| metric_of(figure).is_some();
        for figure in before.figures.iter().filter(compared) {
            if let Some(other) = after.figures.iter().find(|other| is_same(figure, other)) {
                differences.extend(difference(figure, other, threshold));
            }
        }
        let lacking = |these: &Results, those: &Results| {
            let figures = these.figures.iter().filter(compared);
            let lacking = figures.filter(|one| !those.figures.iter().any(|f| is_same(f, one)));
            let mut names: Vec<String> = lacking.map(name_of).collect();
            names.sort();
            names.dedup();
            names
        };
        Self { differences, missing: lacking(before, after), new: lacking(after, before) }
    }

    /// Whether anything is worse.
    pub fn is_worse(&self) -> bool {
        let mut meanings = self.differences.iter().map(|difference| difference.meaning);
        !self.missing.is_empty() || meanings.any(|meaning| meaning == Meaning::Worse)
    }

    /// As lines for people.
    pub fn lines(&self) -> Vec<String> {
        let width = |text: &str| text.chars().count();
        let wide = self.differences.iter().map(|one| width(&one.what)).max().unwrap_or(0);
        let mut lines = Vec::new();
        for one in &self.differences {
            let meaning = match one.meaning {
                Meaning::Worse => "WORSE",
                Meaning::Better => "better",
                Meaning::Unsure => "unsure: intervals overlap",
                Meaning::Same => "",
            };
            let (before, after) = (shown(one.metric, one.before), shown(one.metric, one.after));
            let what = format!("{}{}", one.what, " ".repeat(wide - width(&one.what)));
            let ratio = one.after / one.before;
            let change = match one.change {
                change if !change.is_finite() => "new".to_owned(),
                // Of other stores than itself a ratio says it better.
                _ if ratio >= 2.0 => format!("× {ratio:.2}"),
                _ if ratio > 0.0 && ratio <= 0.5 => format!("÷ {:.2}", 1.0 / ratio),
                change => format!("{:+.1} %", change * 100.0),
            };
            let name = one.metric.name();
            let line =
                format!("{what}  {name:<10}  {before:>12}  {after:>12}  {change:>9}  {meaning}");
            lines.push(line.trim_end().to_owned());
        }
        lines.extend(self.missing.iter().map(|name| format!("{name}: not in the second  WORSE")));
        lines.extend(self.new.iter().map(|name| format!("{name}: only in the second")));
        lines
    }
}

fn metric_of(figure: &Figure) -> Option<Metric> {
    let compared = [Metric::Throughput, Metric::P50, Metric::P99, Metric::Failures];
    compared.into_iter().find(|metric| metric.name() == figure.metric)
}

fn is_same(one: &Figure, other: &Figure) -> bool {
    one.parameters == other.parameters
        && one.phase == other.phase
        && one.entry == other.entry
        && one.metric == other.metric
}

fn name_of(figure: &Figure) -> String {
    let cell = label(&figure.parameters);
    let entry = figure.entry.as_deref().unwrap_or("all");
    format!("{cell} {} {entry}", figure.phase).trim().to_owned()
}

fn difference(before: &Figure, after: &Figure, threshold: f64) -> Option<Difference> {
    let metric = metric_of(before)?;
    let (one, two) = (before.median, after.median);
    // A latency of nothing: none was answered.
    if metric.is_time() && (one.value == 0.0 || two.value == 0.0) {
        return None;
    }
    let change = match one.value == two.value {
        true => 0.0,
        false => (two.value - one.value) / one.value,
    };
    let grows_badly = metric != Metric::Throughput;
    // One failure where there was none is more than any threshold.
    let threshold = if metric == Metric::Failures { 0.0 } else { threshold };
    let overlaps = one.low <= two.high && two.low <= one.high;
    let has_intervals = one.count > 1 || two.count > 1;
    let meaning = match change.abs() > threshold {
        false => Meaning::Same,
        true if has_intervals && overlaps => Meaning::Unsure,
        true if (change > 0.0) == grows_badly => Meaning::Worse,
        true => Meaning::Better,
    };
    let what = name_of(before);
    Some(Difference { what, metric, before: one.value, after: two.value, change, meaning })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::load::random::Random;
    use crate::machine::Machine;
    use crate::measure::criteria::tests::phase;
    use crate::measure::result::{FORMAT, Origin, RunFile};

    /// Repetitions whose latencies are near a millisecond, times `factor`.
    pub fn results(seed: u64, repetitions: u64, factor: f64, noise: f64) -> Results {
        let mut random = Random::new(seed);
        let runs = (0..repetitions).map(|repetition| {
            let speed = factor * (1.0 + noise * (random.fraction() - 0.5));
            let mut latency = || ((1e6 + random.exponential(1e5)) * speed) as u64;
            let latencies: Vec<u64> = (0..2_000).map(|_| latency()).collect();
            let mut phase = phase(&latencies, 0);
            phase.seconds = latencies.iter().sum::<u64>() as f64 / 1e9;
            RunFile {
                format: FORMAT.to_owned(),
                origin: Origin {
                    scenario: "s".into(),
                    checksum: String::new(),
                    machine: Machine::unknown(),
                    version: String::new(),
                    build: String::new(),
                    command: String::new(),
                    agents: Vec::new(),
                    target: String::new(),
                },
                cell: 0,
                parameters: vec![("load.clients".into(), "1".into())],
                repetition,
                began: repetition,
                phases: vec![phase],
                verdicts: Vec::new(),
                failure: None,
            }
        });
        Results::new("", repetitions, runs.collect()).unwrap()
    }

    #[test]
    fn what_has_doubled_is_shown_as_a_factor() {
        let (slow, fast) = (results(1, 1, 3.0, 0.0), results(1, 1, 1.0, 0.0));
        let lines = |one: &Results, two: &Results| Comparison::new(one, two, 0.05).lines();
        let has = |lines: &[String], metric: &str, text: &str| {
            lines.iter().any(|line| line.contains(metric) && line.contains(text))
        };
        let up = lines(&slow, &fast);
        assert!(has(&up, "throughput", "× ") && has(&up, "p50", "÷ "), "{up:?}");
        assert!(has(&up, "failures", "+0.0 %"), "none and none: {up:?}");
        let same = lines(&fast, &fast);
        assert!(same.iter().all(|line| line.contains("+0.0 %")), "{same:?}");
    }

    #[test]
    fn the_same_data_shifted_by_ten_per_cent_is_worse() {
        for repetitions in [1, 5] {
            let (before, after) =
                (results(1, repetitions, 1.0, 0.01), results(1, repetitions, 1.1, 0.01));
            let found = Comparison::new(&before, &after, 0.05);
            assert!(found.is_worse(), "{:?}", found.lines());
            let worse = found.differences.iter().filter(|one| one.meaning == Meaning::Worse);
            assert_eq!(worse.count(), 3, "throughput, p50, p99: {:?}", found.lines());
            let back = Comparison::new(&after, &before, 0.05);
            assert!(!back.is_worse(), "the other way round it is better");
            assert!(back.differences.iter().any(|one| one.meaning == Meaning::Better));
            assert!(!Comparison::new(&before, &after, 0.15).is_worse(), "within the threshold");
        }
    }

    #[test]
    fn the_same_data_and_other_runs_of_the_same_speed_are_not_worse() {
        let before = results(1, 5, 1.0, 0.02);
        assert!(!Comparison::new(&before, &before, 0.0).is_worse());
        for seed in 2..30 {
            let found = Comparison::new(&before, &results(seed, 5, 1.0, 0.02), 0.05);
            assert!(!found.is_worse(), "{:?}", found.lines());
        }
    }

    #[test]
    fn differences_within_the_noise_are_unsure() {
        let (before, after) = (results(1, 5, 1.0, 0.6), results(9, 5, 1.1, 0.6));
        let found = Comparison::new(&before, &after, 0.01);
        assert!(!found.is_worse(), "{:?}", found.lines());
        assert!(found.differences.iter().any(|one| one.meaning == Meaning::Unsure));
    }

    #[test]
    fn new_failures_are_worse_and_other_cells_are_named() {
        let before = results(1, 1, 1.0, 0.0);
        let mut after = before.clone();
        let failures = after.figures.iter_mut().find(|figure| figure.metric == "failures");
        let failures = failures.unwrap();
        failures.median.value = 1.0;
        failures.median.low = 1.0;
        failures.median.high = 1.0;
        assert!(Comparison::new(&before, &after, 0.5).is_worse());
        after.figures.iter_mut().for_each(|figure| figure.parameters.clear());
        let found = Comparison::new(&before, &after, 0.5);
        assert!(found.differences.is_empty());
        assert_eq!(found.missing, ["clients=1 steady all"]);
        assert_eq!(found.new, ["steady all"]);
        assert!(found.is_worse(), "what is not there is not as good as before");
        let more = Comparison::new(&Results { figures: Vec::new(), ..before.clone() }, &after, 0.5);
        assert!(!more.is_worse(), "what is new is no worse than nothing");
    }

    #[test]
    fn a_store_that_answers_nothing_is_not_faster() {
        let before = results(1, 1, 1.0, 0.0);
        let mut after = before.clone();
        for figure in after.figures.iter_mut().filter(|figure| figure.metric != "failures") {
            figure.median = crate::measure::stats::Median::of(&[0.0]).unwrap();
        }
        let found = Comparison::new(&before, &after, 0.05);
        let meanings: Vec<(Metric, Meaning)> =
            found.differences.iter().map(|one| (one.metric, one.meaning)).collect();
        let expected = [(Metric::Throughput, Meaning::Worse), (Metric::Failures, Meaning::Same)];
        assert_eq!(meanings, expected, "{:?}", found.lines());
    }
}
