//! Whether a run did what its scenario demands.

use super::result::{PhaseResult, Verdict, shown};
use crate::scenario::{Criterion, Metric};

/// Judges each criterion in each phase that it is about.
pub fn judge(criteria: &[Criterion], phases: &[PhaseResult]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for criterion in criteria {
        let entry = criterion.entry.as_deref();
        let is_about = |phase: &&PhaseResult| {
            phase.is_measured
                && criterion.phase.as_ref().is_none_or(|name| *name == phase.name)
                && entry.is_none_or(|name| phase.data.entries.iter().any(|e| e.name == name))
        };
        for phase in phases.iter().filter(is_about) {
            verdicts.push(verdict(criterion, phase));
        }
    }
    verdicts
}

fn verdict(criterion: &Criterion, phase: &PhaseResult) -> Verdict {
    let Criterion { entry, metric, bound, is_upper, .. } = criterion;
    let found = phase.metric(*metric, entry.as_deref());
    // Latencies of a phase without answers are no small latencies.
    let is_latency = metric.is_time() && *metric != Metric::Unavailable;
    let has_any = !phase.latencies(entry.as_deref()).is_empty() || !is_latency;
    let is_met = has_any && if *is_upper { found <= *bound } else { found >= *bound };
    let of = entry.as_ref().map_or(String::new(), |entry| format!(" of {entry}"));
    let relation = if *is_upper { "at most" } else { "at least" };
    let found = if has_any { shown(*metric, found) } else { "no answers".to_owned() };
    let text = format!(
        "{}{of} in {} is {relation} {}: {found}",
        metric.name(),
        phase.name,
        shown(*metric, *bound)
    );
    Verdict { text, is_met }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::record::Recorder;
    use crate::scenario::Phase;

    /// A phase of one second with these latencies in nanoseconds and so many failures.
    pub fn phase(latencies: &[u64], failures: u64) -> PhaseResult {
        let mut recorder = Recorder::new(["get"], 1_000_000_000);
        latencies.iter().for_each(|latency| recorder.answered(0, 0, *latency, false));
        recorder.failed(0, "timeout", failures);
        let phase = Phase {
            name: "steady".to_owned(),
            length: Duration::from_secs(1),
            is_measured: true,
            clients: 1,
            pipeline: 1,
            rate: None,
            mix: Vec::new(),
            requires_values: false,
        };
        PhaseResult::new(&phase, 1.0, recorder.finish().1, Vec::new())
    }

    fn is_met(metric: Metric, bound: f64, is_upper: bool, phase: PhaseResult) -> bool {
        let criterion = Criterion { phase: None, entry: None, metric, bound, is_upper };
        let verdicts = judge(&[criterion], &[phase]);
        assert_eq!(verdicts.len(), 1);
        verdicts[0].is_met
    }

    #[test]
    fn bounds_are_kept_or_not() {
        let phase = || phase(&[1_000, 2_000, 3_000], 2);
        assert!(is_met(Metric::Throughput, 3.0, false, phase()));
        assert!(!is_met(Metric::Throughput, 3.1, false, phase()));
        assert!(is_met(Metric::Failures, 2.0, true, phase()));
        assert!(!is_met(Metric::Failures, 1.0, true, phase()));
        assert!(is_met(Metric::P99, 3_100.0, true, phase()));
        assert!(!is_met(Metric::Max, 2_000.0, true, phase()));
    }

    #[test]
    fn a_second_without_a_row_is_the_lowest() {
        let mut gap = phase(&[1_000], 0);
        gap.seconds = 3.5;
        let row = crate::measure::result::Row::from(&crate::measure::record::Second {
            counts: vec![7],
            ..Default::default()
        });
        gap.series = vec![row.clone(), crate::measure::result::Row { second: 2, ..row }];
        assert_eq!(gap.metric(Metric::LowestSecond, None), 0.0);
        gap.series[1].second = 1;
        gap.seconds = 2.5;
        assert_eq!(gap.metric(Metric::LowestSecond, None), 7.0);
    }

    #[test]
    fn a_phase_without_answers_keeps_no_bound_of_latency() {
        assert!(!is_met(Metric::P99, 1e9, true, phase(&[], 5)));
    }
}
