//! Measures what clients notice while a cluster rearranges itself, and the state it settles in.
//!
//! The nodes are real processes under a fixed load, each with a network namespace (without root:
//! with an address of its own on the loopback interface). Scenarios change or break the cluster
//! step by step ([`scenarios`]). Each second is sampled from both sides: what clients saw
//! ([`load`]), and what nodes report ([`watch`]). The timeline is written as JSON ([`timeline`])
//! and as a picture ([`svg`]); figures stand beside their targets ([`judge`]).
//!
//! The load: clients in a closed loop, each with one request under way and a pause between, half
//! SETs of 100 bytes, half GETs, over three keyspaces of 8 shards, 3 replicas, durability `sync`.
//! Each client reads what it has written before it overwrites it. Where the network is cut, one
//! more client at each node only reads what others write. So lost or stale values are seen at once.
//! Most of the data was written before, in values of 1 KiB. All of it is read back at the end.
//!
//! Caveats: all nodes share the cores and the disk of one machine, so that a node which restores a
//! state takes the processor from those that serve; on machines of their own it would not. A
//! network between them costs next to nothing here. What the host takes away is printed.

mod fill;
mod fleet;
mod judge;
mod keys;
mod live_cluster;
mod load;
mod scenarios;
mod svg;
mod timeline;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use crate::Outcome;
use crate::machine::Machine;
use live_cluster::ClusterPlan;
use scenarios::{Scale, Scenario};
use timeline::{FORMAT, Figure, Timeline};

const MIB: u64 = 1 << 20;
/// Bytes of a value that is filled in.
const FILL_VALUE_BYTES: usize = 1_000;

/// `bench rearrange`
#[derive(Args, Debug)]
pub struct Options {
    /// Scenarios to run, in this order.
    #[arg(
        value_delimiter = ',',
        default_value = "join,drain,swap,lose,leave,domain,dark,part,isolate"
    )]
    plays: Vec<Scenario>,
    /// Keys and values of each node at the beginning, in MiB. Unless given: 256 for join, swap
    /// and dark, 1024 for drain, 64 for the others.
    #[arg(long)]
    size: Option<u64>,
    /// Clients of the load: no fewer than nodes of the cluster. In part and isolate there is one
    /// more at each node, which only reads.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Pause of each client between an answer and its next request, in ms.
    #[arg(long, default_value_t = 2)]
    pause_ms: u64,
    /// Seconds of load before the first change, for the baseline.
    #[arg(long, default_value_t = 15)]
    baseline_s: u64,
    /// Nodes that join.
    #[arg(long, default_value_t = 2, value_parser = count_to::<5>())]
    joins: usize,
    /// How many of nine nodes are killed.
    #[arg(long, default_value_t = 4, value_parser = count_to::<4>())]
    losses: usize,
    /// How many of eight nodes leave and come back.
    #[arg(long, default_value_t = 3, value_parser = count_to::<3>())]
    leaves: usize,
    /// Limit for the cluster to settle after each change, in seconds.
    #[arg(long, default_value_t = 90)]
    settle_s: u64,
    /// The setting snapshot_rate of each node, in MiB a second.
    #[arg(long, default_value_t = 64)]
    snapshot_rate: u64,
    /// Further flags for all nodes, in one word: --flags='--split-bytes 16MiB'.
    #[arg(long, default_value = "")]
    flags: String,
    /// File for the timeline of one scenario. Unless given: rearrange-PLAY.json in --out, beside
    /// the nodes' logs.
    #[arg(long)]
    json: Option<PathBuf>,
    /// File for the picture of one scenario. Unless given: rearrange-PLAY.svg in --out.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// An eighth of the data, half of the baseline, one node that joins, two that leave, or are
    /// lost.
    #[arg(long)]
    pub quick: bool,
    /// End with an error if a figure misses its limit.
    #[arg(long)]
    strict: bool,
}

/// A number of nodes.
fn count_to<const MOST: u64>() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST)
}

impl Options {
    /// Whether what is asked for can be done, before anything is.
    fn check(&self) -> Outcome<()> {
        if self.plays.len() != 1 && (self.json.is_some() || self.svg.is_some()) {
            let why = "--json and --svg are for one play: bench rearrange join --json FILE";
            return Err(why.into());
        }
        for play in &self.plays {
            play.check()?;
            let (nodes, _) = play.nodes(&self.scale(*play));
            if self.clients < nodes {
                // Nothing would be known of a node without any.
                let (name, clients) = (play.name(), self.clients);
                return Err(format!("{name} has {nodes} nodes: {clients} clients are few").into());
            }
        }
        Ok(())
    }

    fn scale(&self, play: Scenario) -> Scale {
        let part = if self.quick { 8 } else { 1 };
        Scale {
            bytes_each: self.size.unwrap_or(play.mib_each() / part) * MIB,
            baseline_s: if self.quick { self.baseline_s / 2 } else { self.baseline_s },
            settle: Duration::from_secs(self.settle_s),
            joins: if self.quick { self.joins.min(1) } else { self.joins },
            losses: if self.quick { self.losses.min(2) } else { self.losses },
            leaves: if self.quick { self.leaves.min(2) } else { self.leaves },
        }
    }

    fn plan(&self, binary: &str, play: Scenario, scale: &Scale) -> ClusterPlan {
        let (nodes, held) = play.nodes(scale);
        let mut flags: Vec<String> = play.flags().iter().map(|flag| (*flag).to_owned()).collect();
        flags.extend(self.flags.split_whitespace().map(str::to_owned));
        ClusterPlan {
            binary: binary.to_owned(),
            nodes,
            held,
            domains: play.domains(),
            replicas: play.replicas(),
            bytes: scale.bytes_each * nodes as u64 / play.replicas(),
            value_bytes: FILL_VALUE_BYTES,
            clients: self.clients,
            readers: if play.has_readers() { nodes } else { 0 },
            pause: Duration::from_millis(self.pause_ms),
            snapshot_rate: self.snapshot_rate * MIB,
            flags,
        }
    }
}

/// The figures of a play.
#[derive(Debug, Serialize)]
pub struct ScenarioResult {
    play: &'static str,
    figures: Vec<Figure>,
}

/// Plays all; returns what is to be printed and the figures.
pub fn measure(
    binary: &str,
    machine: &Machine,
    out: &Path,
    options: &Options,
) -> Outcome<(String, Vec<ScenarioResult>)> {
    options.check()?;
    let (mut text, mut all) = (String::new(), Vec::new());
    for play in &options.plays {
        let (table, figures) = one(binary, machine, out, options, *play)?;
        text += &table;
        all.push(ScenarioResult { play: play.name(), figures });
    }
    let failed = all.iter().flat_map(|played| &played.figures);
    let failed: Vec<&str> = failed
        .filter(|figure| figure.holds == Some(false))
        .map(|figure| figure.what.as_str())
        .collect();
    if options.strict && !failed.is_empty() {
        return Err(format!("{text}\nnot as it must be: {}", failed.join("; ")).into());
    }
    Ok((text, all))
}

fn one(
    binary: &str,
    machine: &Machine,
    out: &Path,
    options: &Options,
    play: Scenario,
) -> Outcome<(String, Vec<Figure>)> {
    let scale = options.scale(play);
    let title = play.title(&scale);
    eprintln!("{}: {title}", play.name());
    let logs = out.join(format!("rearrange-{}-logs", play.name()));
    let (seen, figures) = play.play(&options.plan(binary, play, &scale), &scale, &logs)?;
    let network = seen.setup.network;
    let limits = judge::limits(&figures, play);
    let timeline = Timeline {
        format: FORMAT,
        play: play.name(),
        title: title.clone(),
        machine: machine.clone(),
        setup: seen.setup,
        events: seen.events,
        seconds: seen.seconds,
        figures,
        failures: seen.failures,
        slow: seen.slow,
        read_back: seen.read_back,
    };
    fs::create_dir_all(out)?;
    let path = |given: &Option<PathBuf>, kind: &str| {
        let usual = || out.join(format!("rearrange-{}.{kind}", play.name()));
        given.clone().unwrap_or_else(usual)
    };
    let (json, picture) = (path(&options.json, "json"), path(&options.svg, "svg"));
    fs::write(&json, serde_json::to_string(&timeline)?)?;
    fs::write(&picture, svg::render(&timeline, limits))?;
    eprintln!("written: {}, {}", json.display(), picture.display());
    let table = timeline::table(&timeline.figures);
    let text = format!("{}: {title} ({network})\n\n{table}\n", play.name());
    Ok((text, timeline.figures))
}
