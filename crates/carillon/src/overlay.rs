//! `carillon sim overlay`: lookups alone, on rings of any size.

use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use sim::overlay::studies::{Study, study};
use sim::overlay::{
    Keys, Kind, Kinds, NODES_MAX, Options, REQUESTS_MAX, SUCCESSORS_MAX, SUCCESSORS_MIN, churn,
    plot, run,
};

use crate::exit::Exit;
use crate::output::{complain, raw};

/// How long lists may be.
const SUCCESSORS: std::ops::RangeInclusive<u64> = SUCCESSORS_MIN as u64..=SUCCESSORS_MAX as u64;

/// `carillon sim overlay`
#[derive(Debug, Args)]
#[command(after_help = "\
The same seed gives the same figures, byte for byte. Exit code 1 if an answer was wrong, or a file
cannot be written.

Examples:
  carillon sim overlay
  carillon sim overlay --nodes 1000,10000,100000 --lookup full,chord-sharp
  carillon sim overlay --keys zipf --json hops.json --plots .
  carillon sim overlay --study join --nodes 10,100,1000")]
pub struct OverlayArgs {
    /// Sizes of rings, one after the other.
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',', default_value = "1000")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=NODES_MAX as u64))]
    pub nodes: Vec<u64>,
    /// Which lookups: all, or a list of full, chord, chord-sharp, linear, lh.
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub lookup: Kinds,
    /// Requests for each lookup on each ring.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=REQUESTS_MAX))]
    pub lookups: u64,
    /// Decides where members and points lie, and who asks.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How members and points lie on the ring: uniform or zipf.
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    pub keys: Keys,
    /// How many successors each member of a ring lists: that changes tables, and not hops. Churn
    /// has lists of 4.
    #[arg(long, value_name = "N", default_value_t = SUCCESSORS_MIN as u64)]
    #[arg(value_parser = clap::value_parser!(u64).range(SUCCESSORS))]
    pub successors: u64,
    /// What is measured: hops of lookups; load, how even it is; join, what one costs; churn, what
    /// happens when many members come, fail or leave at once.
    #[arg(long, value_name = "NAME", default_value = "hops")]
    pub study: Study,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write charts of hops to this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "study")]
    pub plots: Option<PathBuf>,
}

/// Measures, and prints what came of it.
pub fn overlay(args: &OverlayArgs) -> Exit {
    let options = Options {
        nodes: args.nodes.iter().map(|nodes| *nodes as usize).collect(),
        kinds: args.lookup.clone(),
        requests: args.lookups,
        seed: args.seed,
        keys: args.keys,
        successors: args.successors as usize,
    };
    if let Some(why) = makes_no_sense(args) {
        complain(&why);
        return Exit::Usage;
    }
    let bar = Bar::new();
    let told = |what: &str, done, of| bar.show(what, done, of);
    let mut files = Vec::new();
    let found = match (&args.plots, args.study) {
        (Some(folder), _) => {
            let report = run(&options, &told);
            let charts = plot::charts(&report).into_iter();
            files.extend(charts.map(|(name, chart)| (folder.join(name), chart)));
            report.found()
        }
        (None, other) => study(other, &options, &told),
    };
    bar.clear();
    if let Some(path) = &args.json {
        files.push((path.clone(), found.json));
    }
    let printed = raw(found.table.as_bytes());
    for (path, text) in files {
        if let Err(error) = fs::write(&path, text) {
            complain(&format!("cannot write {}: {error}", path.display()));
            return Exit::Refused;
        }
    }
    if !found.well {
        complain("answers were wrong");
        return Exit::Refused;
    }
    printed
}

/// Why nothing is measured.
fn makes_no_sense(args: &OverlayArgs) -> Option<String> {
    if args.study != Study::Churn {
        return None;
    }
    let least = churn::NODES_MIN;
    if args.nodes.iter().any(|nodes| (*nodes as usize) < least) {
        return Some(format!("--study churn takes rings of at least {least} nodes"));
    }
    let is_ring = |kind: &Kind| !matches!(kind, Kind::Full | Kind::Lh);
    let has_ring = args.lookup.0.iter().any(is_ring);
    (!has_ring).then(|| {
        "--study churn is of chord, chord-sharp and linear: full and lh are no rings".into()
    })
}

/// How often the bar is drawn at most.
const EVERY: Duration = Duration::from_millis(100);
/// Its length.
const CELLS: u64 = 30;

/// A bar on standard error, if that is a terminal.
struct Bar {
    drawn: Option<Mutex<Instant>>,
}

impl Bar {
    fn new() -> Self {
        Self { drawn: stderr().is_terminal().then(|| Mutex::new(Instant::now())) }
    }

    fn show(&self, what: &str, done: u64, of: u64) {
        let Some(drawn) = &self.drawn else { return };
        // Whoever draws is enough.
        let Ok(mut drawn) = drawn.try_lock() else { return };
        if drawn.elapsed() < EVERY {
            return;
        }
        *drawn = Instant::now();
        let cells = (CELLS * done / of.max(1)).min(CELLS) as usize;
        let (full, rest) = ("█".repeat(cells), "░".repeat(CELLS as usize - cells));
        // A bar that cannot be drawn is not missed.
        let _unread = write!(stderr(), "\r{full}{rest} {done} of {of}: {what}\x1b[K");
    }

    fn clear(&self) {
        if self.drawn.is_some() {
            let _unread = write!(stderr(), "\r\x1b[K");
        }
    }
}
