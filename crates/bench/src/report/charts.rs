//! Charts of a report, drawn by the crate `chart`.

use std::collections::BTreeMap;

use chart::{Event, Line, Panel, Stack, lines, log, plain, stack};

use super::notes;
use crate::measure::result::{PhaseResult, Results, Row};
use crate::measure::usage::{MessageSeries, NetworkRow, NetworkSeries, ProcessRow, ProcessSeries};
use crate::scenario::Metric;
use crate::scenario::plan::label;

/// Points of a line of percentiles.
const STEPS: i32 = 60;
const MILLI: f64 = 1e6;
const MIB: f64 = (1 << 20) as f64;
/// The most lines of a panel that can be told apart.
const LINES_MAX: usize = 9;

/// Throughput, failures and latencies over the time of a phase.
pub fn series(phase: &PhaseResult) -> String {
    let line = |name: &str, colour, value: &dyn Fn(&Row) -> f64| {
        let points = phase.series.iter().map(|row| (row.second as f64 + 0.5, value(row)));
        Line::new(name, colour, points.collect())
    };
    let panel = |name: &str, lines| Panel { name: name.to_owned(), lines, limit: None };
    stack(&Stack {
        title: phase.name.clone(),
        about: notes(phase),
        time: "seconds",
        end: phase.seconds.max(1.0),
        events: events(phase),
        panels: vec![
            panel("answered, per second", vec![line("answered", 1, &|row| row.count as f64)]),
            panel("failed, per second", failures(phase)),
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

/// What the timeline did, as events of a chart.
fn events(phase: &PhaseResult) -> Vec<Event> {
    let within = phase.marks.iter().filter(|mark| mark.at <= phase.seconds);
    within.map(|mark| Event { at: mark.at, name: mark.name.clone() }).collect()
}

/// A line for each of the most frequent kinds of failures, or one if there are none.
fn failures(phase: &PhaseResult) -> Vec<Line> {
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in phase.series.iter().flat_map(|row| &row.kinds) {
        *totals.entry(kind).or_default() += count;
    }
    let mut kinds: Vec<(&str, u64)> = totals.into_iter().collect();
    kinds.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
    let points = |value: &dyn Fn(&Row) -> u64| {
        let points = phase.series.iter().map(|row| (row.second as f64 + 0.5, value(row) as f64));
        points.collect::<Vec<_>>()
    };
    if kinds.is_empty() {
        return vec![Line::new("failed", 2, points(&|row| row.failures))];
    }
    let kinds = kinds.into_iter().take(LINES_MAX).zip(5..);
    let line = |((kind, _), colour): ((&str, u64), usize)| {
        let short: String = kind.trim_start_matches("refused: ").chars().take(11).collect();
        Line::new(short, colour, points(&|row| row.kinds.get(kind).copied().unwrap_or(0)))
    };
    kinds.map(line).collect()
}

/// What processes and networks did; nothing if nothing was counted.
pub fn resources(phase: &PhaseResult) -> String {
    let usage = &phase.usage;
    let busy = |series: &&ProcessSeries| std::cmp::Reverse((series.mean(|r| r.cpu) * 1e6) as u64);
    let mut shown: Vec<&ProcessSeries> = usage.processes.iter().collect();
    shown.sort_by_key(busy);
    shown.truncate(LINES_MAX);
    shown.sort_by(|one, other| one.name.cmp(&other.name));
    if shown.iter().all(|series| series.rows.is_empty()) {
        return String::new();
    }
    let processes = |value: &dyn Fn(&ProcessRow) -> f64| -> Vec<Line> {
        let line = |(series, colour): (&&ProcessSeries, usize)| {
            let points = series.rows.iter().map(|row| (row.at, value(row)));
            Line::new(short(&series.name), colour, points.collect())
        };
        shown.iter().zip(1..).map(line).collect()
    };
    let networks = |value: &dyn Fn(&NetworkRow) -> f64| -> Vec<Line> {
        let line = |(series, colour): (&NetworkSeries, usize)| {
            let points = series.rows.iter().map(|row| (row.at, value(row)));
            let name = series.name.trim_start_matches("namespace of ");
            Line::new(short(name.trim_start_matches("all of ")), colour, points.collect())
        };
        usage.networks.iter().take(LINES_MAX).zip(1..).map(line).collect()
    };
    let panel = |name: &str, lines| Panel { name: name.to_owned(), lines, limit: None };
    stack(&Stack {
        title: format!("What it took: {}", phase.name),
        about: "networks are of a host or a namespace: nodes on one host share one".to_owned(),
        time: "seconds",
        end: phase.seconds.max(1.0),
        events: events(phase),
        panels: vec![
            panel("processors", processes(&|row| row.cpu)),
            panel("memory, MiB", processes(&|row| row.rss as f64 / MIB)),
            panel("from disks, MiB/s", processes(&|row| row.read / MIB)),
            panel("to disks, MiB/s", processes(&|row| row.written / MIB)),
            panel("voluntary context switches, per second", processes(&|row| row.voluntary)),
            panel("involuntary ones", processes(&|row| row.involuntary)),
            panel("network, MiB/s sent", networks(&|row| row.sent / MIB)),
            panel("TCP segments sent again, per second", networks(&|row| row.resent)),
        ],
    })
}

/// Messages between nodes, by kind; nothing if none were counted.
pub fn messages(phase: &PhaseResult) -> String {
    let kinds = phase.usage.messages.iter().filter(|series| !series.rows.is_empty());
    let line = |(series, colour): (&MessageSeries, usize)| {
        let kind = series.kind.rsplit(' ').next().unwrap_or_default();
        Line::new(short(kind), colour, series.rows.clone())
    };
    let drawn: Vec<Line> = kinds.take(LINES_MAX).zip(1..).map(line).collect();
    if drawn.is_empty() {
        return String::new();
    }
    stack(&Stack {
        title: format!("Messages between nodes: {}", phase.name),
        about: "all nodes together, the most frequent kinds".to_owned(),
        time: "seconds",
        end: phase.seconds.max(1.0),
        events: events(phase),
        panels: vec![Panel { name: "per second".to_owned(), lines: drawn, limit: None }],
    })
}

/// A name as a legend has room for it.
fn short(name: &str) -> String {
    name.chars().take(11).collect()
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
