//! Results as files hold them: JSON that says where it comes from.
//!
//! ```text
//!   OUT/scenario.toml       what was run, with what flags set on top
//!   OUT/run-003-2.json      cell 3, repetition 2: raw data                     [`RunFile`]
//!   OUT/results.json        all runs, and medians of each cell                 [`Results`]
//!   OUT/report.html         the same as a page
//! ```

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::availability::Availability;
use super::record::{EntryData, PhaseData, Second, TENTHS, from_pairs};
use super::stats::Median;
use super::usage::{INSTRUMENT, Mark, Usage};
use crate::machine::Machine;
use crate::scenario::{Metric, Phase};

/// What the files are, and their version.
pub const FORMAT: &str = "carillon-bench 1";

/// Where a result comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The scenario's name.
    pub scenario: String,
    /// A checksum of its text and of what flags set.
    pub checksum: String,
    /// The machine of the controller.
    pub machine: Machine,
    /// The version of this program.
    pub version: String,
    /// A checksum of this program: the instrument, and what `{carillon}` starts.
    #[serde(default)]
    pub build: String,
    /// The command line.
    pub command: String,
    /// The agents; empty if the load came from the controller's own process.
    pub agents: Vec<String>,
    /// What the targets say about themselves, or their addresses.
    pub target: String,
}

/// A second of a phase, reduced to what a chart shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which, from 0.
    pub second: u64,
    /// Requests that were answered well.
    pub count: u64,
    /// Requests that failed.
    pub failures: u64,
    /// The same by kind.
    #[serde(default)]
    pub kinds: BTreeMap<String, u64>,
    /// Requests that were answered well in each tenth of the second.
    #[serde(default)]
    pub tenths: [u64; TENTHS],
    /// Latencies in nanoseconds; 0 without any.
    pub p50: u64,
    /// See above.
    pub p99: u64,
    /// See above.
    pub max: u64,
}

impl From<&Second> for Row {
    fn from(second: &Second) -> Self {
        let latencies = from_pairs(&second.latencies);
        Self {
            second: second.second,
            count: second.counts.iter().sum(),
            failures: second.failures,
            kinds: second.kinds.clone(),
            tenths: second.tenths,
            p50: latencies.value_at_quantile(0.5),
            p99: latencies.value_at_quantile(0.99),
            max: latencies.max(),
        }
    }
}

/// A started process over a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// The program's name.
    pub name: String,
    /// Processor time, in seconds.
    pub cpu: f64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: u64,
}

impl ProcessUse {
    /// Of all processes that were counted but our own.
    pub fn all(usage: &Usage) -> Vec<Self> {
        let nodes = usage.processes.iter().filter(|series| series.name != INSTRUMENT);
        let used = nodes.map(|series| Self {
            name: series.name.clone(),
            cpu: series.cpu,
            rss_bytes: series.rows.last().map_or(0, |row| row.rss),
        });
        used.collect()
    }
}

/// A phase of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// What the scenario calls it.
    pub name: String,
    /// Whether it counts.
    pub is_measured: bool,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Connections.
    pub clients: u64,
    /// Requests under way on each.
    pub pipeline: u64,
    /// Requests per second that were asked for, at start and end; `None` of a closed loop.
    pub rate: Option<(f64, f64)>,
    /// What happened.
    pub data: PhaseData,
    /// Second by second.
    pub series: Vec<Row>,
    /// The processes of the target, as far as this program has started them.
    pub processes: Vec<ProcessUse>,
    /// What processes and networks did, second by second.
    #[serde(default)]
    pub usage: Usage,
    /// What the timeline did.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

impl PhaseResult {
    /// What was measured in a phase that took so long.
    pub fn new(phase: &Phase, seconds: f64, data: PhaseData, series: Vec<Row>) -> Self {
        Self {
            name: phase.name.clone(),
            is_measured: phase.is_measured,
            seconds,
            clients: phase.clients,
            pipeline: phase.pipeline,
            rate: phase.rate.map(|rate| (rate.from, rate.to)),
            data,
            series,
            processes: Vec::new(),
            usage: Usage::default(),
            marks: Vec::new(),
        }
    }

    fn entries(&self, entry: Option<&str>) -> impl Iterator<Item = &EntryData> {
        let is_it = move |data: &&EntryData| entry.is_none_or(|name| data.name == name);
        self.data.entries.iter().filter(is_it)
    }

    /// Latencies of an entry, or of all together.
    pub fn latencies(&self, entry: Option<&str>) -> Histogram<u64> {
        let mut all = from_pairs(&Vec::new());
        for data in self.entries(entry) {
            all.add(from_pairs(&data.latencies)).expect("histograms of the same bounds");
        }
        all
    }

    /// When nothing was answered well, and what share was.
    pub fn availability(&self) -> Availability {
        Availability::of(&self.series, self.seconds)
    }

    /// Requests that were answered well in the whole second in which they were fewest; of a phase
    /// that is shorter, its rate.
    fn lowest_second(&self) -> f64 {
        let counts: BTreeMap<u64, u64> =
            self.series.iter().map(|row| (row.second, row.count)).collect();
        let whole = 0..self.seconds as u64;
        let lowest = whole.map(|second| counts.get(&second).copied().unwrap_or(0)).min();
        lowest.map_or_else(|| self.metric(Metric::Throughput, None), |count| count as f64)
    }

    /// A figure of an entry, or of all together. Times are in nanoseconds.
    pub fn metric(&self, metric: Metric, entry: Option<&str>) -> f64 {
        let quantile = |share: f64| self.latencies(entry).value_at_quantile(share) as f64;
        match metric {
            Metric::Throughput => {
                self.entries(entry).map(|data| data.count).sum::<u64>() as f64 / self.seconds
            }
            Metric::Failures => self.entries(entry).map(EntryData::failed).sum::<u64>() as f64,
            Metric::Mean => self.latencies(entry).mean(),
            Metric::P50 => quantile(0.5),
            Metric::P90 => quantile(0.9),
            Metric::P99 => quantile(0.99),
            Metric::P999 => quantile(0.999),
            Metric::Max => self.latencies(entry).max() as f64,
            Metric::Unavailable => self.availability().dark * 1e9,
            Metric::LowestSecond => self.lowest_second(),
        }
    }
}

/// Whether a criterion held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The criterion in words, and what was found.
    pub text: String,
    /// Whether it held.
    pub is_met: bool,
}

/// One run of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// [`FORMAT`].
    pub format: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The number of its cell, from 0.
    pub cell: usize,
    /// The parameters of its cell.
    pub parameters: Vec<(String, String)>,
    /// The number of its repetition, from 0.
    pub repetition: u64,
    /// When it began: seconds since 1970.
    pub began: u64,
    /// Its phases.
    pub phases: Vec<PhaseResult>,
    /// Its criteria.
    pub verdicts: Vec<Verdict>,
    /// Why it ended early, if it did: what it measured until then is shown, and counts for nothing.
    #[serde(default)]
    pub failure: Option<String>,
}

/// A figure of a cell over its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The parameters of the cell.
    pub parameters: Vec<(String, String)>,
    /// The phase.
    pub phase: String,
    /// The entry of the mix; `None` for all together.
    pub entry: Option<String>,
    /// Which figure: the name of a [`Metric`].
    pub metric: String,
    /// Its median.
    pub median: Median,
}

/// Everything of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: String,
    /// Where the last run comes from.
    pub origin: Origin,
    /// What the scenario is for.
    pub about: String,
    /// How many runs the scenario asks for.
    pub planned: u64,
    /// Medians over repetitions.
    pub figures: Vec<Figure>,
    /// The runs, by cell and repetition.
    pub runs: Vec<RunFile>,
}

impl Results {
    /// Of these runs; `None` if there are none.
    pub fn new(about: &str, planned: u64, mut runs: Vec<RunFile>) -> Option<Self> {
        runs.sort_by_key(|run| (run.cell, run.repetition));
        let origin = runs.iter().max_by_key(|run| run.began)?.origin.clone();
        let figures = figures(&runs);
        let (format, about) = (FORMAT.to_owned(), about.to_owned());
        Some(Self { format, origin, about, planned, figures, runs })
    }

    /// Whether all runs are there.
    pub fn is_complete(&self) -> bool {
        self.runs.iter().filter(|run| run.failure.is_none()).count() as u64 >= self.planned
    }

    /// Whether all criteria of all runs held.
    pub fn has_passed(&self) -> bool {
        self.runs.iter().flat_map(|run| &run.verdicts).all(|verdict| verdict.is_met)
    }
}

fn figures(runs: &[RunFile]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let whole: Vec<RunFile> = runs.iter().filter(|run| run.failure.is_none()).cloned().collect();
    for cell in whole.chunk_by(|one, two| one.cell == two.cell) {
        let first = &cell[0];
        for phase in first.phases.iter().filter(|phase| phase.is_measured) {
            let same = |run: &'_ RunFile| {
                run.phases.iter().find(|other| other.name == phase.name).cloned()
            };
            let all: Vec<PhaseResult> = cell.iter().filter_map(same).collect();
            let entries = phase.data.entries.iter().map(|data| Some(data.name.clone()));
            let entries =
                [None].into_iter().chain(entries.filter(|_| phase.data.entries.len() > 1));
            for entry in entries {
                for (name, metric) in Metric::ALL {
                    let values: Vec<f64> =
                        all.iter().map(|phase| phase.metric(metric, entry.as_deref())).collect();
                    let Some(median) = Median::of(&values) else { continue };
                    figures.push(Figure {
                        parameters: first.parameters.clone(),
                        phase: phase.name.clone(),
                        entry: entry.clone(),
                        metric: name.to_owned(),
                        median,
                    });
                }
            }
        }
    }
    figures
}

/// A time in nanoseconds, as people read it.
pub fn shown_time(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// A figure in the unit of its metric.
pub fn shown(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput | Metric::LowestSecond => format!("{value:.0}/s"),
        Metric::Failures => format!("{value:.0}"),
        _ => shown_time(value),
    }
}
