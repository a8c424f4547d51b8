//! `carillon sim overlay`: lookups alone, on rings of any size.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use sim::overlay::studies::{Study, study};
use sim::overlay::{
    Keys, Kind, Kinds, NODES_MAX, Options, REQUESTS_MAX, SUCCESSORS_MAX, SUCCESSORS_MIN, churn,
};

use crate::exit::Exit;
use crate::output::{complain, raw};

/// How long lists may be.
const SUCCESSORS: std::ops::RangeInclusive<u64> = SUCCESSORS_MIN as u64..=SUCCESSORS_MAX as u64;

/// `carillon sim overlay`
#[derive(Debug, Args)]
#[command(after_help = "\
The same seed gives the same figures, byte for byte. Exit code 1 if an answer was wrong, a ring did
not stabilise, or a file cannot be written.

Examples:
  carillon sim overlay
  carillon sim overlay --nodes 1000,10000,100000 --lookup full,chord-sharp
  carillon sim overlay --keys zipf --json hops.json --plots .
  carillon sim overlay --study join --nodes 10,100,1000
  carillon sim overlay --study requests --lookup chord,lh --plots .")]
pub struct OverlayArgs {
    /// Sizes of rings, one after the other [default: 1000; for join and connections several].
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=NODES_MAX as u64))]
    pub nodes: Vec<u64>,
    /// Which lookups: all, or a list of full, chord, chord-sharp, linear, lh [default: all].
    #[arg(long, value_name = "NAMES")]
    pub lookup: Option<Kinds>,
    /// Requests for each lookup on each ring [default: 10000]. On large rings, linear gets fewer.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=REQUESTS_MAX))]
    pub lookups: Option<u64>,
    /// The seed: it decides where members and points lie, and which members send requests.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How members and points lie on the ring: uniform or zipf [default: uniform].
    #[arg(long, value_name = "NAME")]
    pub keys: Option<Keys>,
    /// How many successors each member of a ring lists [default: 2]. This changes tables, not hops.
    /// Churn and requests have lists of 4.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(SUCCESSORS))]
    pub successors: Option<u64>,
    /// What to measure: hops of lookups; load, how even it is; join, the cost of one; churn, many
    /// members that join, fail or leave at once; requests, sent as messages that may be lost;
    /// connections, their number.
    #[arg(long, value_name = "NAME", default_value = "hops")]
    pub study: Study,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write charts to this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

impl OverlayArgs {
    fn options(&self) -> Options {
        let usual = Options::default();
        let nodes = match &self.nodes[..] {
            [] => self.study.nodes().to_vec(),
            asked => asked.iter().map(|nodes| *nodes as usize).collect(),
        };
        Options {
            nodes,
            kinds: self.lookup.clone().unwrap_or(usual.kinds),
            requests: self.lookups.unwrap_or(usual.requests),
            seed: self.seed,
            keys: self.keys.unwrap_or(usual.keys),
            successors: self.successors.map_or(usual.successors, |length| length as usize),
        }
    }

    /// The options that were typed, of those that mean nothing to some study.
    fn typed(&self) -> impl Iterator<Item = &'static str> {
        let typed = [
            ("lookup", self.lookup.is_some()),
            ("lookups", self.lookups.is_some()),
            ("keys", self.keys.is_some()),
            ("successors", self.successors.is_some()),
        ];
        typed.into_iter().filter(|(_, is_typed)| *is_typed).map(|(name, _)| name)
    }
}

/// Measures, and prints what came of it.
pub fn overlay(args: &OverlayArgs) -> Exit {
    let options = args.options();
    if let Some(why) = makes_no_sense(args, &options) {
        complain(&why);
        return Exit::Usage;
    }
    // It may take minutes to have something to write.
    let into = args.plots.as_ref().map(|folder| (folder, folder.join(".carillon-sim")));
    let into = into.iter().map(|(folder, file)| (*folder, file));
    for (path, file) in args.json.iter().map(|file| (file, file)).chain(into) {
        if let Err(error) = writable(file) {
            return cannot_write(path, &error);
        }
    }
    let bar = Bar::new();
    let found = study(args.study, &options, &|what, done, of| bar.show(what, done, of));
    bar.clear();
    let charts = args
        .plots
        .iter()
        .flat_map(|folder| found.charts.iter().map(|(name, chart)| (folder.join(name), chart)));
    let json = args.json.iter().map(|path| (path.clone(), &found.json));
    let printed = raw(found.table.as_bytes());
    for (path, text) in charts.chain(json) {
        if let Err(error) = fs::write(&path, text) {
            return cannot_write(&path, &error);
        }
    }
    if let Some(flaw) = &found.flaw {
        complain(flaw);
        return Exit::Refused;
    }
    printed
}

fn cannot_write(path: &Path, error: &io::Error) -> Exit {
    complain(&format!("cannot write {}: {error}", path.display()));
    Exit::Refused
}

/// Whether a file can be written, without a trace of having tried.
fn writable(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if is_new { fs::remove_file(path) } else { Ok(()) }
}

/// Why nothing is measured.
fn makes_no_sense(args: &OverlayArgs, options: &Options) -> Option<String> {
    let study = args.study;
    let ignored = args.typed().find(|typed| study.ignores().contains(typed));
    if let Some(flag) = ignored {
        return Some(format!("--{flag} does not apply to --study {}", study.name()));
    }
    if study != Study::Churn {
        return None;
    }
    let least = churn::NODES_MIN;
    if options.nodes.iter().any(|nodes| *nodes < least) {
        return Some(format!("--study churn needs rings of at least {least} nodes"));
    }
    let is_ring = |kind: &Kind| kind.strategy().is_some();
    let has_ring = options.kinds.0.iter().any(is_ring);
    (!has_ring).then(|| {
        "--study churn is for chord, chord-sharp and linear: full and lh have no ring".into()
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
        // Another thread draws the bar just now: that is enough.
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
