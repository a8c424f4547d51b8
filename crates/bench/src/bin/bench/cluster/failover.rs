//! Measures how long clients get no answer when a node fails or leaves.
//!
//! ```text
//!   round:  all lead their part ─► break one ─► watch clients of the others ─► mend ─► settle
//! ```
//!
//! Three kinds of failure: kill -9, SIGSTOP (later SIGCONT), and SIGTERM, a planned stop that
//! transfers leaderships first and must fail no request. The figure of a round is that of
//! [`super::silence`]: the longest any client of the surviving nodes waited between two answers,
//! over all shards, those that the victim led among them. A victim that led nothing shows as
//! a round without a silence, so the number of these is printed.

use std::fmt::Write;
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};
use harness::process::Signal;
use serde::Serialize;

use super::figures::part;
use super::nodes::{NODES, Nodes};
use super::silence::Clients;
use crate::Outcome;

/// Below this a round had no silence: clients pause between requests, and the machine is busy.
const NOTHING: Duration = Duration::from_millis(30);

/// What is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NodeFailure {
    /// kill -9, later a start.
    Kill,
    /// SIGSTOP, later SIGCONT.
    Pause,
    /// SIGTERM, later a start.
    Leave,
}

impl NodeFailure {
    fn title(self) -> &'static str {
        match self {
            NodeFailure::Kill => "kill -9",
            NodeFailure::Pause => "SIGSTOP",
            NodeFailure::Leave => "SIGTERM",
        }
    }
}

/// `bench failover`
#[derive(Args, Debug)]
pub struct Options {
    /// Rounds of each failure.
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// Failures, any of kill, pause, leave.
    #[arg(long, value_delimiter = ',', default_value = "kill,pause,leave")]
    breaks: Vec<NodeFailure>,
    /// How long clients are watched after the failure, in ms.
    #[arg(long, default_value_t = 2_500)]
    watch_ms: u64,
    /// Pause between two rounds, in which leaders spread again, in ms.
    #[arg(long, default_value_t = 5_500)]
    settle_ms: u64,
    /// End with an error if a round takes longer than this, in ms, or a planned leave fails a
    /// request.
    #[arg(long)]
    gap_ms_max: Option<u64>,
    /// A short run: 5 rounds of each.
    #[arg(long)]
    pub quick: bool,
}

/// The rounds of one way to break.
#[derive(Debug, Serialize)]
pub struct Rounds {
    what: NodeFailure,
    /// The figure of each round in milliseconds, in the order of rounds.
    silences_ms: Vec<f64>,
    not_done: u64,
    unknown: u64,
}

/// Runs all rounds; returns what is to be printed and the figures.
pub fn measure(binary: &str, options: &Options) -> Outcome<(String, Vec<Rounds>)> {
    let rounds = if options.quick { 5 } else { options.rounds };
    let mut nodes = Nodes::start(binary)?;
    let keys = nodes.keys_of_shards()?;
    let ports: Vec<u16> = (0..NODES).map(|node| nodes.resp(node)).collect();
    let clients = Clients::start(&ports, &keys)?;
    let settle = Duration::from_millis(options.settle_ms);
    let mut all: Vec<Rounds> = Vec::new();
    for what in &options.breaks {
        all.push(Rounds { what: *what, silences_ms: Vec::new(), not_done: 0, unknown: 0 });
    }
    for round in 0..rounds {
        for (turn, result) in all.iter_mut().enumerate() {
            // Each way meets each node, and who was just broken, and may lead nothing, is spared.
            let victim = (round + turn) % NODES;
            sleep(settle);
            clients.watch();
            match result.what {
                NodeFailure::Kill => nodes.kill(victim),
                NodeFailure::Pause => nodes.signal(victim, Signal::Stop),
                NodeFailure::Leave => nodes.stop(victim),
            }
            sleep(Duration::from_millis(options.watch_ms));
            let seen = clients.seen(victim);
            match result.what {
                NodeFailure::Pause => nodes.signal(victim, Signal::Continue),
                NodeFailure::Kill | NodeFailure::Leave => nodes.launch(victim),
            }
            nodes.wait_until_ready(victim);
            nodes.wait_until_replicated()?;
            let ms = seen.longest.as_secs_f64() * 1e3;
            println!(
                "round {} {} of node {}: {ms:.0} ms; {} not done, {} unknown",
                round + 1,
                result.what.title(),
                victim + 1,
                seen.not_done,
                seen.unknown,
            );
            result.silences_ms.push(ms);
            result.not_done += seen.not_done;
            result.unknown += seen.unknown;
        }
    }
    if let Some(max) = options.gap_ms_max {
        judge(&all, max)?;
    }
    Ok((render(&all), all))
}

fn without_silence(silences_ms: &[f64]) -> usize {
    silences_ms.iter().filter(|ms| **ms < NOTHING.as_secs_f64() * 1e3).count()
}

fn judge(all: &[Rounds], gap_ms_max: u64) -> Outcome<()> {
    for Rounds { what, silences_ms, not_done, unknown } in all {
        let is_leave = *what == NodeFailure::Leave;
        let (what, longest) = (what.title(), part(silences_ms, 1.0));
        if !is_leave && 2 * without_silence(silences_ms) > silences_ms.len() {
            return Err(format!("{what}: most victims led nothing, so nothing was seen").into());
        }
        if longest > gap_ms_max as f64 {
            let why =
                format!("{what}: service was interrupted for {longest:.0} ms, not {gap_ms_max}");
            return Err(why.into());
        }
        if is_leave && not_done + unknown > 0 {
            return Err(format!("{what}: {not_done} not done, {unknown} unknown").into());
        }
    }
    Ok(())
}

fn render(all: &[Rounds]) -> String {
    let mut out = "| a node | rounds | without a silence | p50 ms | p99 ms | max ms | not done \
                   | unknown |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for Rounds { what, silences_ms, not_done, unknown } in all {
        let nothing = without_silence(silences_ms);
        let _infallible = writeln!(
            out,
            "| {} | {} | {nothing} | {:.0} | {:.0} | {:.0} | {not_done} | {unknown} |",
            what.title(),
            silences_ms.len(),
            part(silences_ms, 0.5),
            part(silences_ms, 0.99),
            part(silences_ms, 1.0),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(what: NodeFailure, silences_ms: &[f64], unknown: u64) -> Rounds {
        Rounds { what, silences_ms: silences_ms.to_vec(), not_done: 0, unknown }
    }

    #[test]
    fn one_long_round_or_one_failed_request_of_a_planned_leave_is_too_much() {
        let judge = |what, silences_ms: &[f64], unknown| {
            judge(&[rounds(what, silences_ms, unknown)], 1_500).is_ok()
        };
        assert!(judge(NodeFailure::Kill, &[700.0, 1_500.0], 3));
        assert!(!judge(NodeFailure::Pause, &[700.0, 1_501.0], 0));
        assert!(
            !judge(NodeFailure::Pause, &[700.0, 9.0, 9.0], 0),
            "it was seen that nothing was led"
        );
        assert!(judge(NodeFailure::Leave, &[40.0], 0));
        assert!(!judge(NodeFailure::Leave, &[40.0], 1));
    }

    #[test]
    fn rounds_in_which_the_victim_led_nothing_are_counted() {
        let table = render(&[rounds(NodeFailure::Kill, &[12.0, 700.0, 800.0], 2)]);
        assert!(table.contains("| kill -9 | 3 | 1 | 700 | 800 | 800 | 0 | 2 |"), "{table}");
    }
}
