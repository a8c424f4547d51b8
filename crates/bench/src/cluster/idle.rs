//! What do shards cost that nobody asks?
//!
//! Three nodes hold a thousand shards and more: keyspaces of eight shards, three replicas each.
//! When all nodes hold them all and have settled, processor time and resident memory are measured
//! over a while in which no client does anything.

use std::fmt::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::nodes::{NODES, Nodes, SHARDS};
use crate::{Outcome, machine};

/// How long replicas may take to be everywhere.
const SPREAD_MAX: Duration = Duration::from_secs(120);
/// Leaders, checkpoints and members have found their places after this.
const SETTLE: Duration = Duration::from_secs(15);

/// `bench idle`
#[derive(Args, Debug)]
pub struct Options {
    /// Shards of each node, in keyspaces of eight.
    #[arg(long, default_value_t = 1_000)]
    shards: usize,
    /// How long the nodes are watched, in seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// 10 seconds.
    #[arg(long)]
    pub quick: bool,
}

/// One node.
#[derive(Debug, Serialize)]
pub struct Idle {
    shards: u64,
    cpu_percent: f64,
    rss_bytes: u64,
}

/// Measures all nodes; returns what is to be printed and the figures.
pub fn measure(binary: &str, options: &Options) -> Outcome<(String, Vec<Idle>)> {
    let time = Duration::from_secs(if options.quick { 10 } else { options.seconds });
    let mut nodes = Nodes::start(binary)?;
    let began = Instant::now();
    for number in 0..options.shards.div_ceil(SHARDS) {
        nodes.create_keyspace(&format!("idle-{number}"))?;
    }
    println!("{} shards made in {:.1} s", options.shards, began.elapsed().as_secs_f64());
    for node in 0..NODES {
        while (nodes.shards(node)? as usize) < options.shards {
            if began.elapsed() > SPREAD_MAX {
                let held = nodes.shards(node)?;
                return Err(format!("node {} holds only {held} shards", node + 1).into());
            }
            sleep(Duration::from_millis(200));
        }
        nodes.wait_until_ready(node)?;
    }
    sleep(SETTLE);
    let pids = nodes.pids();
    let cpu = || pids.iter().map(|pid| machine::cpu_seconds(*pid)).collect::<Outcome<Vec<f64>>>();
    let (before, began) = (cpu()?, Instant::now());
    sleep(time);
    let (after, seconds) = (cpu()?, began.elapsed().as_secs_f64());
    let mut all = Vec::new();
    for (node, pid) in pids.iter().enumerate() {
        all.push(Idle {
            shards: nodes.shards(node)?,
            cpu_percent: 100.0 * (after[node] - before[node]) / seconds,
            rss_bytes: machine::rss_bytes(*pid)?,
        });
    }
    let mut out =
        "| node | shards | processor, % of a core | memory, MiB |\n|---|---|---|---|\n".to_owned();
    for (node, Idle { shards, cpu_percent, rss_bytes }) in all.iter().enumerate() {
        let mib = *rss_bytes as f64 / f64::from(1 << 20);
        let _infallible =
            writeln!(out, "| {} | {shards} | {cpu_percent:.1} | {mib:.0} |", node + 1);
    }
    Ok((out, all))
}
