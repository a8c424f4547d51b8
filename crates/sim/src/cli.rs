//! What `carillon sim` prints.

use std::io::{self, Write};

use crate::options::Options;
use crate::shrink::shrink;
use crate::{Report, run};

/// What was asked for on the command line.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The first run.
    pub options: Options,
    /// How many seeds, one after the other.
    pub seeds: u64,
    /// Whether each is run twice, and the two are compared (R13).
    pub doublecheck: bool,
}

/// Seeds in a row of the output.
const ROW: u64 = 50;
/// What the characters of a row mean.
const LEGEND: &str = "  .  held     !  a rule is broken     ≠  the same seed, another run";

/// Runs seeds and prints how they went. Whether all was well.
///
/// # Errors
/// What `out` says.
pub fn main_with(wanted: &Wanted, out: &mut dyn Write) -> io::Result<bool> {
    let Wanted { options, seeds, doublecheck } = wanted;
    let Options { seed, steps, clients, faults, bug, verbose } = options;
    let last = seed.saturating_add(seeds.saturating_sub(1));
    let bug = bug.map_or("none", |bug| bug.name());
    let twice = if *doublecheck { ", each twice" } else { "" };
    writeln!(out, "seeds {seed} to {last}{twice}: {steps} steps, {clients} clients")?;
    writeln!(out, "faults: {faults}; planted bug: {bug}")?;
    writeln!(out, "{LEGEND}")?;
    let mut failed = Vec::new();
    for seed in *seed..=last {
        let report = run(&Options { seed, ..options.clone() });
        let again = doublecheck.then(|| run(&report.options));
        let differs = again.is_some_and(|again| again.trace_hash != report.trace_hash);
        if *verbose {
            write!(out, "{}", report.trace.as_deref().unwrap_or_default())?;
        }
        if *seeds == 1 {
            describe(&report, out)?;
        } else {
            let sign = match (&report.verdict, differs) {
                (_, true) => "≠",
                (Err(_), _) => "!",
                (Ok(()), _) => ".",
            };
            let done = seed - wanted.options.seed + 1;
            write!(out, "{sign}{}", if done.is_multiple_of(ROW) { "\n" } else { "" })?;
            out.flush()?;
        }
        if differs || report.verdict.is_err() {
            failed.push((report, differs));
        }
    }
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

fn describe(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Report { mood, counts, trace_hash, step, .. } = report;
    writeln!(out, "the seed's mood: {mood}")?;
    writeln!(out, "ended in step {step}: {counts:?}")?;
    writeln!(out, "trace {trace_hash:016x}")
}

fn explain(report: Report, differs: bool, out: &mut dyn Write) -> io::Result<()> {
    if differs {
        writeln!(out, "R13: the same seed gave two different runs")?;
        return writeln!(out, "replay: {} --doublecheck", report.options.command());
    }
    let shrunk = shrink(report);
    if let Err(violation) = &shrunk.verdict {
        writeln!(out, "{violation}")?;
    }
    writeln!(out, "replay: {}", shrunk.options.command())
}
