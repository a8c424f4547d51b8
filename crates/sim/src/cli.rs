//! The output of `carillon sim`: of runs of one node, and of clusters.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::check::Violation;

/// A kind of run that can be repeated: a pure function of its options.
pub trait SimulatedRun: Clone + Send + Sync {
    /// Its seed.
    fn seed(&self) -> u64;
    /// The same with another seed.
    #[must_use]
    fn with_seed(&self, seed: u64) -> Self;
    /// Whether the trace is wanted as a text.
    fn verbose(&self) -> bool;
    /// What the runs have in common, a line each; the first follows the seeds.
    fn heading(&self) -> [String; 2];
    /// Runs it.
    fn run(&self) -> RunReport<Self>;
    /// A run that breaks a rule: the smallest that was found to break the same one, and how.
    fn shrunk(&self) -> (Self, Result<(), Violation>);
    /// The command that runs it.
    fn command(&self) -> String;
}

/// How a run has ended.
#[derive(Clone, Debug)]
pub struct RunReport<L> {
    /// The run, with its options.
    pub life: L,
    /// The hash of everything that happened (R13).
    pub trace_hash: u64,
    /// What happened, if that was wanted.
    pub trace: Option<String>,
    /// What it has seen, for people.
    pub summary: String,
    /// The first rule that was found broken.
    pub verdict: Result<(), Violation>,
}

/// Seeds in a row of the output.
const ROW: u64 = 50;
/// What the characters of a row mean.
const LEGEND: &str = "  .  held     !  a rule is broken     ≠  the same seed, another run";

/// Runs `seeds` seeds, each twice if they are to be compared (R13), on all processors, and prints
/// how they went, in their order. Whether all was well.
///
/// # Errors
/// What `out` says.
pub fn main_with<L: SimulatedRun>(
    life: &L,
    seeds: u64,
    doublecheck: bool,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let first = life.seed();
    let last = first.saturating_add(seeds.saturating_sub(1));
    let twice = if doublecheck { ", each twice" } else { "" };
    let [heading, more] = life.heading();
    writeln!(out, "seeds {first} to {last}{twice}: {heading}\n{more}\n{LEGEND}")?;
    let mut failed = Vec::new();
    let run = |seed| {
        let report = life.with_seed(seed).run();
        let again = doublecheck.then(|| report.life.run());
        let differs = again.is_some_and(|again| again.trace_hash != report.trace_hash);
        (report, differs)
    };
    in_order(first..=last, &run, |seed, (report, differs)| {
        if life.verbose() {
            write!(out, "{}", report.trace.as_deref().unwrap_or_default())?;
        }
        if seeds == 1 {
            writeln!(out, "{}\ntrace {:016x}", report.summary, report.trace_hash)?;
        } else {
            let sign = match (&report.verdict, differs) {
                (_, true) => "≠",
                (Err(_), _) => "!",
                (Ok(()), _) => ".",
            };
            let done = seed - first + 1;
            write!(out, "{sign}{}", if done.is_multiple_of(ROW) { "\n" } else { "" })?;
            out.flush()?;
        }
        if differs || report.verdict.is_err() {
            failed.push((report, differs));
        }
        Ok(())
    })?;
    writeln!(out)?;
    let well = failed.is_empty();
    match well {
        true => writeln!(out, "all rules held")?,
        false => writeln!(out, "{} of {seeds} seeds failed", failed.len())?,
    }
    for (report, differs) in failed.into_iter().take(1) {
        explain(report, differs, out)?;
    }
    Ok(well)
}

/// Does `run` for each seed, on all processors at once, and gives what came of it to `tell`, in the
/// order of seeds.
fn in_order<T: Send>(
    seeds: std::ops::RangeInclusive<u64>,
    run: &(impl Fn(u64) -> T + Sync),
    mut tell: impl FnMut(u64, T) -> io::Result<()>,
) -> io::Result<()> {
    let (first, last) = seeds.into_inner();
    let count = last.saturating_sub(first).saturating_add(1);
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let unbegun = AtomicU64::new(0);
    thread::scope(|scope| {
        let (done, came) = mpsc::channel();
        for _ in 0..threads.min(count) {
            let (done, unbegun) = (done.clone(), &unbegun);
            scope.spawn(move || {
                loop {
                    let turn = unbegun.fetch_add(1, Ordering::Relaxed);
                    // Nobody listens any more once `tell` has failed.
                    if turn >= count || done.send((turn, run(first + turn))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut early = BTreeMap::new();
        let mut next = 0;
        while let Ok((turn, what)) = came.recv() {
            early.insert(turn, what);
            while let Some(what) = early.remove(&next) {
                tell(first + next, what)?;
                next += 1;
            }
        }
        Ok(())
    })
}

fn explain<L: SimulatedRun>(
    report: RunReport<L>,
    differs: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if differs {
        writeln!(out, "R13: the same seed gave two different runs")?;
        return writeln!(out, "replay: {} --doublecheck", report.life.command());
    }
    let (life, verdict) = report.life.shrunk();
    if let Err(violation) = &verdict {
        writeln!(out, "{violation}")?;
    }
    writeln!(out, "replay: {}", life.command())
}
