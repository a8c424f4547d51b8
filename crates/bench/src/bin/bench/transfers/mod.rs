//! Measures transfers a second between two accounts, beside etcd.
//!
//! ```text
//!   one-shot      Carillon   MULTI, INCRBY, INCRBY, EXEC as one pipeline
//!   WATCH         Carillon   WATCH and MGET as one pipeline, then MULTI, SET, SET, EXEC as one
//!   script        Carillon   EVALSHA: two GETs, two SETs
//!   etcd          both read in one request, put in a second one if neither was written since
//!   hot …         those of Carillon, over a hundred accounts
//! ```
//!
//! Three nodes of each store on this machine, three replicas, durability `sync`; 64 clients in a
//! closed loop, spread over the nodes, random pairs of accounts ([`accounts`]). A WATCH or etcd
//! transfer whose accounts were written meanwhile is aborted and begins again ([`clients`]); its
//! time is that of all attempts. Loads take short turns, in an order that changes with the round,
//! for a machine may change its speed within a minute; medians of rounds count, and of ratios those
//! of turns of the same round. etcd is started again after it was filled: version 3.4 is slow for
//! ever after a bulk of puts. At the end the accounts of both stores are read and must hold what
//! they did.
//!
//! Caveats: those of [`crate::cluster`]; and etcd's clients are in Go, Carillon's on one thread of
//! this process, as cheap as can be, so each store's clients take from it what they need.

mod accounts;
mod clients;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::slice;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::cluster::figures::median;
use crate::cluster::nodes::{NODES, Nodes};
use crate::cluster::rivals::{self, Rival, column};
use crate::{Outcome, machine};
use accounts::OPENING;
use clients::{Counts, TransferMethod};
use harness::process::Directory;

/// Clients of every run.
const CLIENTS: usize = 64;

/// `bench transfers`
#[derive(Args, Debug)]
pub struct Options {
    /// Accounts, of which pairs are drawn at random.
    #[arg(long, default_value_t = 1_000_000)]
    accounts: usize,
    /// Hot accounts among these.
    #[arg(long, default_value_t = 100)]
    hot: usize,
    /// Rounds of each load; the result is the median.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Seconds of each load in a round.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Connections over which the 64 clients of etcd are spread.
    #[arg(long, default_value_t = 6)]
    etcd_connections: usize,
    /// Seconds without a split before loads begin.
    #[arg(long, default_value_t = 15)]
    rest_s: u64,
    /// Only these loads: one-shot, watch, script, etcd, hot-one-shot, hot-watch,
    /// hot-script.
    #[arg(long, value_enum, value_delimiter = ',', hide_possible_values = true)]
    loads: Vec<Load>,
    /// A short run: 20 000 accounts, one round of 2 seconds for each load.
    #[arg(long)]
    quick: bool,
}

impl Options {
    fn measures(&self, load: Load) -> bool {
        self.loads.is_empty() || self.loads.contains(&load)
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Load {
    OneShot,
    Watch,
    Script,
    Etcd,
    HotOneShot,
    HotWatch,
    HotScript,
}

const LOADS: [Load; 7] = [
    Load::OneShot,
    Load::Etcd,
    Load::Watch,
    Load::Script,
    Load::HotOneShot,
    Load::HotWatch,
    Load::HotScript,
];

impl Load {
    fn title(self) -> &'static str {
        match self {
            Load::OneShot => "Carillon, one-shot",
            Load::Watch => "Carillon, WATCH",
            Load::Script => "Carillon, script",
            Load::Etcd => "etcd, three members",
            Load::HotOneShot => "Carillon, one-shot, hot accounts",
            Load::HotWatch => "Carillon, WATCH, hot accounts",
            Load::HotScript => "Carillon, script, hot accounts",
        }
    }

    fn is_hot(self) -> bool {
        matches!(self, Load::HotOneShot | Load::HotWatch | Load::HotScript)
    }
}

/// One turn of a load.
#[derive(Clone, Debug, Serialize)]
struct LoadTurn {
    /// Transfers a second.
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// Attempts that were aborted, of all, in percent.
    aborts_percent: f64,
    aborts: u64,
    /// By their first word.
    errors: BTreeMap<String, u64>,
    /// Processor time of all processes of the store for each transfer, in µs.
    cpu_us: f64,
    /// What the host took away meanwhile, in percent of a core.
    stolen_percent: f64,
}

/// All turns of a load.
#[derive(Debug, Serialize)]
struct Turns {
    load: Load,
    turns: Vec<LoadTurn>,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct TransfersReport {
    accounts: usize,
    shards: usize,
    /// The part of all pairs, and of hot ones, that lies in two shards.
    apart: f64,
    hot_apart: f64,
    fsyncs_per_second: f64,
    /// Whether all accounts of Carillon, and of etcd, hold at the end what they held at first.
    carillon_sum_is_right: bool,
    etcd_sum_is_right: Option<bool>,
    loads: Vec<Turns>,
}

struct Stores {
    nodes: Nodes,
    etcd: Option<Rival>,
    accounts: usize,
    hot: usize,
    etcd_connections: usize,
}

/// Measures everything; returns what is to be printed and every turn.
pub fn measure(binary: &str, options: &Options) -> Outcome<(String, TransfersReport)> {
    let (accounts, rounds, seconds, rest_s) = match options.quick {
        true => (options.accounts.min(20_000), 1, options.seconds.min(2), options.rest_s.min(3)),
        false => (options.accounts, options.rounds, options.seconds, options.rest_s),
    };
    if accounts < options.hot || options.hot < 2 || rounds < 1 || seconds < 1 {
        return Err("needs a round, a second, and two hot accounts among all".into());
    }
    let fsyncs_per_second = machine::fsyncs_per_second(Directory::new("fsyncs")?.path())?;
    println!("{fsyncs_per_second:.0} fsyncs/s; opening {accounts} accounts everywhere");
    let stores = Stores::start(binary, accounts, options)?;
    let shards = accounts::wait_until_at_rest(&stores.nodes, Duration::from_secs(rest_s))?;
    let apart = accounts::share_apart(&stores.nodes, accounts)?;
    let hot_apart = accounts::share_apart(&stores.nodes, options.hot)?;
    println!(
        "{shards} shards; of all pairs {:.1} % lie in two of them, of hot ones {:.1} %",
        100.0 * apart,
        100.0 * hot_apart
    );
    let mut all: BTreeMap<Load, Vec<LoadTurn>> = BTreeMap::new();
    for round in 0..rounds {
        for turn in 0..LOADS.len() {
            let load = LOADS[(turn + 2 * round) % LOADS.len()];
            if !options.measures(load) {
                continue;
            }
            if load == Load::Etcd && stores.etcd.is_none() {
                println!("etcd is not installed (scripts/setup.sh bench): left out");
                continue;
            }
            let measured = stores.turn(load, Duration::from_secs(seconds))?;
            println!("round {} {}", round + 1, row(load, slice::from_ref(&measured)));
            all.entry(load).or_default().push(measured);
        }
    }
    let right = accounts as i64 * OPENING;
    let measured = TransfersReport {
        accounts,
        shards,
        apart,
        hot_apart,
        fsyncs_per_second,
        carillon_sum_is_right: accounts::sum(&stores.nodes, accounts)? == right,
        etcd_sum_is_right: stores.etcd_sum()?.map(|sum| sum == right),
        loads: all.into_iter().map(|(load, turns)| Turns { load, turns }).collect(),
    };
    let mut out = format!(
        "{CLIENTS} clients, {accounts} accounts, {} hot ones; {rounds} turns of {seconds} s each, \
         medians; {fsyncs_per_second:.0} fsyncs/s of the disk before. {shards} shards: {:.1} % of \
         all pairs lie in two of them, {:.1} % of hot ones. µs: processor time of all processes \
         of the store for each transfer. Host: what it took away meanwhile, in % of a core.\n\n",
        options.hot,
        100.0 * apart,
        100.0 * hot_apart
    );
    render(&mut out, &measured);
    Ok((out, measured))
}

impl Stores {
    fn start(binary: &str, accounts: usize, options: &Options) -> Outcome<Self> {
        let wants_etcd = options.measures(Load::Etcd) && rivals::has_etcd();
        let etcd = if wants_etcd { Some(rivals::etcd()?) } else { None };
        let mut stores = Self {
            nodes: Nodes::start(binary)?,
            etcd,
            accounts,
            hot: options.hot,
            etcd_connections: options.etcd_connections,
        };
        if stores.etcd.is_some() {
            stores.drive_etcd(&["-t", "accounts"])?;
        }
        if let Some(etcd) = &mut stores.etcd {
            etcd.restart_etcd()?;
        }
        accounts::open(&stores.nodes, accounts)?;
        Ok(stores)
    }

    fn turn(&self, load: Load, lasting: Duration) -> Outcome<LoadTurn> {
        let pids = match load {
            Load::Etcd => self.etcd.as_ref().map(Rival::pids).unwrap_or_default(),
            _ => self.nodes.pids(),
        };
        let cpu = || pids.iter().map(|pid| machine::cpu_seconds(*pid)).sum::<Outcome<f64>>();
        let (cpu_before, stolen_before) = (cpu()?, machine::stolen_seconds());
        let accounts = if load.is_hot() { self.hot } else { self.accounts };
        let ports: Vec<u16> = (0..NODES).map(|node| self.nodes.resp(node)).collect();
        let carillon = |way| clients::run(&ports, way, CLIENTS, accounts, lasting);
        let counts = match load {
            Load::OneShot | Load::HotOneShot => carillon(TransferMethod::OneShot)?,
            Load::Watch | Load::HotWatch => carillon(TransferMethod::Watching)?,
            Load::Script | Load::HotScript => carillon(TransferMethod::Script)?,
            Load::Etcd => self.etcd_transfers(lasting)?,
        };
        let seconds = lasting.as_secs_f64();
        let attempts = (counts.done + counts.aborts).max(1);
        Ok(LoadTurn {
            rate: counts.done as f64 / seconds,
            p50_ms: counts.ms[0],
            p99_ms: counts.ms[1],
            max_ms: counts.ms[2],
            aborts_percent: 100.0 * counts.aborts as f64 / attempts as f64,
            aborts: counts.aborts,
            errors: counts.errors,
            cpu_us: (cpu()? - cpu_before) * 1e6 / counts.done.max(1) as f64,
            stolen_percent: 100.0 * (machine::stolen_seconds() - stolen_before) / seconds,
        })
    }

    fn drive_etcd(&self, flags: &[&str]) -> Outcome<(String, String)> {
        let etcd = self.etcd.as_ref().ok_or("etcd is not installed")?;
        let (conns, accounts) = (self.etcd_connections, self.accounts);
        etcd.drive_etcd(flags, &[("-c", CLIENTS), ("-conns", conns), ("-r", accounts)])
    }

    fn etcd_transfers(&self, lasting: Duration) -> Outcome<Counts> {
        let lasting = format!("{}s", lasting.as_secs());
        let (said, complained) = self.drive_etcd(&["-t", "transfers", "-for", &lasting])?;
        let number = |name| {
            let number: Option<f64> = column(&said, name);
            number.ok_or_else(|| format!("the driver of etcd: {said}{complained}"))
        };
        let failed = number("failed")? as u64;
        Ok(Counts {
            done: number("done")? as u64,
            ms: [number("p50_ms")?, number("p99_ms")?, number("max_ms")?],
            aborts: number("aborts")? as u64,
            errors: (failed > 0).then(|| ("failed".to_owned(), failed)).into_iter().collect(),
        })
    }

    /// What all accounts of etcd hold together, if none is missing.
    fn etcd_sum(&self) -> Outcome<Option<i64>> {
        if self.etcd.is_none() {
            return Ok(None);
        }
        let (said, _) = self.drive_etcd(&["-t", "sum"])?;
        let found: Option<usize> = column(&said, "accounts");
        if found != Some(self.accounts) {
            return Err(format!("etcd has {found:?} accounts of {}", self.accounts).into());
        }
        Ok(column(&said, "sum"))
    }
}

fn errors(turns: &[LoadTurn]) -> String {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (word, count) in turns.iter().flat_map(|turn| &turn.errors) {
        *all.entry(word).or_default() += count;
    }
    let each: Vec<String> = all.iter().map(|(word, count)| format!("{count} {word}")).collect();
    if each.is_empty() { "0".into() } else { each.join(", ") }
}

fn row(load: Load, turns: &[LoadTurn]) -> String {
    format!(
        "| {} | {:.0} | {:.2} / {:.2} | {:.0} | {:.2} | {} | {:.0} | {:.1} |",
        load.title(),
        median(turns, |turn| turn.rate),
        median(turns, |turn| turn.p50_ms),
        median(turns, |turn| turn.p99_ms),
        turns.iter().map(|turn| turn.max_ms).fold(0.0, f64::max),
        median(turns, |turn| turn.aborts_percent),
        errors(turns),
        median(turns, |turn| turn.cpu_us),
        median(turns, |turn| turn.stolen_percent),
    )
}

fn render(out: &mut String, measured: &TransfersReport) {
    *out += "| | transfers/s | p50 / p99 ms | longest ms | aborts % | errors | µs | host % |\n\
             |---|---|---|---|---|---|---|---|\n";
    for Turns { load, turns } in &measured.loads {
        let _infallible = writeln!(out, "{}", row(*load, turns));
    }
    *out += "\n| figure | value | aim |\n|---|---|---|\n";
    let of = |load: Load| {
        let turns = measured.loads.iter().find(|each| each.load == load);
        turns.map_or(&[][..], |turns| &turns.turns)
    };
    let ratios = [
        ("one-shot ÷ etcd", Load::OneShot, Load::Etcd, 8.0),
        ("WATCH ÷ etcd", Load::Watch, Load::Etcd, 4.0),
        ("script ÷ etcd", Load::Script, Load::Etcd, 3.0),
        ("one-shot, hot ÷ all accounts", Load::HotOneShot, Load::OneShot, 0.4),
        ("WATCH, hot ÷ all accounts", Load::HotWatch, Load::Watch, 0.4),
    ];
    for (title, above, below, least) in ratios {
        let pairs = of(above).iter().zip(of(below)).filter(|(_, below)| below.rate > 0.0);
        let pairs: Vec<_> = pairs.collect();
        if pairs.is_empty() {
            continue;
        }
        let ratio = median(&pairs, |(above, below)| above.rate / below.rate);
        let _infallible = writeln!(out, "| {title} | **{ratio:.2}** | ≥ {least} |");
    }
    if let Some(watch) = measured.loads.iter().find(|each| each.load == Load::Watch) {
        let percent = median(&watch.turns, |turn| turn.aborts_percent);
        let _infallible = writeln!(out, "| WATCH, aborts % | **{percent:.2}** | < 1 |");
    }
    let sums =
        [("Carillon", Some(measured.carillon_sum_is_right)), ("etcd", measured.etcd_sum_is_right)];
    for (store, is_right) in sums {
        let Some(is_right) = is_right else { continue };
        let said = if is_right { "right" } else { "**wrong**" };
        let _infallible = writeln!(out, "| {store}: the sum of all accounts | {said} | right |");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(load: Load, rates: &[f64]) -> Turns {
        let turn = |rate: &f64| LoadTurn {
            rate: *rate,
            p50_ms: 1.0,
            p99_ms: 2.0,
            max_ms: *rate,
            aborts_percent: 0.5,
            aborts: 5,
            errors: BTreeMap::from([("BUSY".to_owned(), 1)]),
            cpu_us: 3.0,
            stolen_percent: 0.0,
        };
        Turns { load, turns: rates.iter().map(turn).collect() }
    }

    #[test]
    fn ratios_are_of_rounds_and_errors_are_summed() {
        let mut measured = TransfersReport {
            accounts: 1_000,
            shards: 8,
            apart: 0.875,
            hot_apart: 0.9,
            fsyncs_per_second: 1.0,
            carillon_sum_is_right: true,
            etcd_sum_is_right: Some(false),
            loads: vec![
                turns(Load::OneShot, &[9e3, 2e3, 9e3]),
                turns(Load::Etcd, &[4e3, 1e3, 2e3]),
                turns(Load::HotOneShot, &[3e3, 1e3, 1e3]),
            ],
        };
        let mut out = String::new();
        render(&mut out, &measured);
        assert!(out.contains("| one-shot ÷ etcd | **2.25** | ≥ 8 |"), "{out}");
        assert!(out.contains("| one-shot, hot ÷ all accounts | **0.33** | ≥ 0.4 |"), "{out}");
        assert!(out.contains("| 2000 | 1.00 / 2.00 | 4000 | 0.50 | 3 BUSY | 3 | 0.0 |"), "{out}");
        assert!(out.contains("etcd: the sum of all accounts | **wrong** | right |"), "{out}");
        measured.loads.clear();
        measured.etcd_sum_is_right = None;
        out.clear();
        render(&mut out, &measured);
        assert!(!out.contains("÷") && !out.contains("etcd"), "{out}");
    }
}
