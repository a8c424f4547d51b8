//! Measures what idle shards cost.
//!
//! Three nodes hold a thousand shards and more: keyspaces of eight shards, three replicas each.
//! When all nodes hold them all and have settled, processor time and resident memory are measured
//! over a while in which no client does anything.
//!
//! Such figures are no better than the machine: where the host takes processors away and gives them
//! back with cold caches, the same work takes twice the time. So a probe beside the nodes does a
//! fixed work at their pace, and what it took is printed with them.

use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::nodes::{NODES, Nodes, SHARDS};
use crate::{Outcome, machine};

/// How long replicas may take to be everywhere.
const SPREAD_MAX: Duration = Duration::from_secs(120);
/// Leaders, checkpoints and members have found their places after this.
const SETTLE: Duration = Duration::from_secs(15);

/// The probe works this often, as nodes beat their hearts.
const PROBE_PERIOD: Duration = Duration::from_millis(50);
/// What it goes through, a line of the cache each time.
const PROBE_BYTES: usize = 1 << 20;
/// Lines each time.
const PROBE_LINES: usize = 20_000;

/// `bench idle`
#[derive(Args, Debug)]
pub struct Options {
    /// Shards of each node, in keyspaces of eight.
    #[arg(long, default_value_t = 1_000)]
    shards: usize,
    /// How long the nodes are watched, in seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// A short run: 10 seconds.
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
        nodes.wait_until_ready(node);
    }
    sleep(SETTLE);
    let pids = nodes.pids();
    let cpu = || pids.iter().map(|pid| machine::cpu_seconds(*pid)).collect::<Outcome<Vec<f64>>>();
    let (before, began) = (cpu()?, Instant::now());
    let stolen = machine::stolen_seconds();
    let probed = probed_while(|| sleep(time));
    let (after, seconds) = (cpu()?, began.elapsed().as_secs_f64());
    let stolen = machine::stolen_seconds() - stolen;
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
    let percent = |part: f64| 100.0 * part / seconds;
    let _infallible = writeln!(
        out,
        "\nThe probe beside them took {:.2} % of a core; the host took {:.1} % of one away.",
        percent(probed),
        percent(stolen),
    );
    Ok((out, all))
}

/// Processor time of the probe, in seconds, while something else goes on.
fn probed_while(wait: impl FnOnce()) -> f64 {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let probe = scope.spawn(|| {
            let mut memory = vec![1u8; PROBE_BYTES];
            let mut place = 0usize;
            while !stop.load(Ordering::Relaxed) {
                sleep(PROBE_PERIOD);
                for _ in 0..PROBE_LINES {
                    place = (place.wrapping_mul(0x9E37_79B1) + 64) % PROBE_BYTES;
                    memory[place] = memory[place].wrapping_add(1);
                }
                black_box(&mut memory);
            }
            // Nanoseconds on a processor, says the scheduler.
            let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
            stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0) / 1e9
        });
        wait();
        stop.store(true, Ordering::Relaxed);
        probe.join().expect("the probe")
    })
}
