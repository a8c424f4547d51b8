//! Charts of a report, drawn by the crate `chart`.

use chart::{Line, Panel, Stack, lines, log, plain, stack};

use super::notes;
use crate::measure::result::{PhaseResult, Results};
use crate::scenario::Metric;
use crate::scenario::plan::label;

/// Points of a line of percentiles.
const STEPS: i32 = 60;
const MILLI: f64 = 1e6;

/// Throughput, failures and latencies over the time of a phase.
pub fn series(phase: &PhaseResult) -> String {
    let line = |name: &str, colour, value: &dyn Fn(&crate::measure::result::Row) -> f64| {
        let points = phase.series.iter().map(|row| (row.second as f64 + 0.5, value(row)));
        Line::new(name, colour, points.collect())
    };
    let panel = |name: &str, lines| Panel { name: name.to_owned(), lines, limit: None };
    stack(&Stack {
        title: phase.name.clone(),
        about: notes(phase),
        time: "seconds",
        end: phase.seconds.max(1.0),
        events: Vec::new(),
        panels: vec![
            panel("answered, per second", vec![line("answered", 1, &|row| row.count as f64)]),
            panel("failed, per second", vec![line("failed", 2, &|row| row.failures as f64)]),
            panel(
                "latency, ms",
                vec![
                    line("p50", 3, &|row| row.p50 as f64 / MILLI),
                    line("p99", 4, &|row| row.p99 as f64 / MILLI),
                ],
            ),
        ],
    })
}

/// Latencies by how many requests in so many took longer.
pub fn percentiles(phase: &PhaseResult) -> String {
    let line = |(colour, entry): (usize, Option<&str>)| {
        let latencies = phase.latencies(entry);
        let most = (latencies.len() as f64).log10().min(6.0);
        let points = (0..=STEPS).map(|step| {
            let one_in = 10f64.powf(most * f64::from(step) / f64::from(STEPS));
            let nanos = latencies.value_at_quantile(1.0 - 1.0 / one_in).max(1);
            (one_in, nanos as f64 / MILLI)
        });
        let points = if latencies.is_empty() { Vec::new() } else { points.collect() };
        Line::new(entry.unwrap_or("all"), colour, points)
    };
    let names = phase.data.entries.iter().map(|data| Some(data.name.as_str()));
    let names = if phase.data.entries.len() > 1 { names.collect() } else { vec![None] };
    let drawn: Vec<Line> = (1..).zip(names).map(line).filter(|l| !l.points.is_empty()).collect();
    if drawn.is_empty() {
        return String::new();
    }
    let axes = [log("one request in … took longer"), log("ms")];
    lines(&format!("Latencies of {}", phase.name), axes, &drawn)
}

/// Throughput and p99 over each parameter that is a number, one line for each combination of the
/// others.
pub fn of_parameters(results: &Results) -> Vec<String> {
    let Some(first) = results.figures.first() else { return Vec::new() };
    let mut charts = Vec::new();
    for (axis, (path, _)) in first.parameters.iter().enumerate() {
        for (metric, name, unit) in [
            (Metric::Throughput, "answered, per second", 1.0),
            (Metric::P99, "99th percentile, ms", MILLI),
        ] {
            let drawn = over(results, axis, metric, unit);
            if drawn.iter().any(|line| line.points.len() > 1) {
                let title = format!("{name}, by {path}");
                charts.push(lines(&title, [plain("parameter"), plain("")], &drawn));
            }
        }
    }
    charts
}

fn over(results: &Results, axis: usize, metric: Metric, unit: f64) -> Vec<Line> {
    let mut drawn: Vec<Line> = Vec::new();
    let all = results.figures.iter();
    for figure in all.filter(|f| f.metric == metric.name() && f.entry.is_none()) {
        let Some(Ok(x)) = figure.parameters.get(axis).map(|(_, value)| value.parse::<f64>()) else {
            continue;
        };
        let mut others = figure.parameters.clone();
        others.remove(axis);
        let name = format!("{} {}", figure.phase, label(&others)).trim().to_owned();
        let point = (x, figure.median.value / unit);
        match drawn.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => drawn.push(Line::new(name, 1 + drawn.len(), vec![point])),
        }
    }
    for line in &mut drawn {
        line.points.sort_by(|one, two| one.0.total_cmp(&two.0));
    }
    drawn
}
