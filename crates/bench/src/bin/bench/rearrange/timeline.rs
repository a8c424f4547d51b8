//! What happened, second by second: the JSON that `--json` writes.
//!
//! ```text
//!   format     3; a reader of another one must not guess
//!   play       its name
//!   title      for people
//!   machine    cpu, cores, memory_gib, kernel, commit, date …
//!   setup      nodes, held, shards, replicas, clients, pause_ms, filled_keys, filled_bytes,
//!              snapshot_rate, flags, network (namespaces or loopback)
//!   events     [{at_s, what}], by time; at_s since the load began
//!   seconds    [{at_s, answered, not_done, unknown, lost, longest_wait_ms, machine_stalled_ms,
//!              host_taken, moved_bytes, changing, below_strength,
//!              clients: [{node, answered, failed, longest_wait_ms}],
//!              nodes: [{node, replicas, leaders, bytes, sent_bytes, sending, unsent_bytes,
//!                       processor}]}]
//!   figures    [{what, value, unit, limit, holds, note}]; limit as in "≥ 0.7", or null
//!   failures   [{at_s, asked, told}]; the first 200 requests that failed
//!   slow       [{at_s, took_ms, asked}]; the first 200 that took 200 ms or more
//!   read_back  {client_keys, filled_keys, lost}
//! ```
//!
//! A second's counts are of `[at_s, at_s + 1)`. `sent_bytes`, `moved_bytes`, `processor` (cores)
//! and `host_taken` (cores that the host took away) are of that second too. What nodes hold is as
//! they reported at its end.
//!
//! - `longest_wait_ms`: the longest time between two answers to the same client that ended in this
//!   second.
//! - `machine_stalled_ms`: how long the machine itself stalled ([`harness::stalls`]).
//! - `clients`: those that asked through a node, whether it was off or not.
//! - `failed`: requests that were *not done* or are *unknown*.
//! - `nodes`: without nodes that were off or did not answer. While one takes seconds to answer, it
//!   is empty.
//!
//! The last second holds what clients saw when the load ended, and the waits that were unfinished.

use std::collections::BTreeMap;
use std::time::Duration;

use harness::stalls::Stalls;
use serde::Serialize;

use super::load::{Counts, Failure, Load, SlowRequest};
use super::watch::{NodeSample, Sample};
use crate::machine::Machine;

/// The version of what is written.
pub const FORMAT: u32 = 3;

/// Everything about one play.
#[derive(Debug, Serialize)]
pub struct Timeline {
    /// [`FORMAT`].
    pub format: u32,
    /// Which play.
    pub play: &'static str,
    /// For people.
    pub title: String,
    /// Where.
    pub machine: Machine,
    /// On what.
    pub setup: Setup,
    /// What was done, and what was seen to be over.
    pub events: Vec<Event>,
    /// All seconds, from the first on.
    pub seconds: Vec<Second>,
    /// What it comes to.
    pub figures: Vec<Figure>,
    /// Requests that failed.
    pub failures: Vec<Failure>,
    /// Requests that were late.
    pub slow: Vec<SlowRequest>,
    /// What was there at the end.
    pub read_back: LossReport,
}

/// What was set up before the first second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Setup {
    /// Nodes of the cluster at the beginning.
    pub nodes: usize,
    /// Nodes that run beside it and have not joined.
    pub held: usize,
    /// Shards, the catalogue's among them.
    pub shards: u64,
    /// Replicas of all shards.
    pub replicas: u64,
    /// Clients, and what each waits between an answer and its next request.
    pub clients: usize,
    /// See `clients`.
    pub pause_ms: u64,
    /// Keys that were there before.
    pub filled_keys: u64,
    /// Bytes of their values, once.
    pub filled_bytes: u64,
    /// Bytes a second of states that a node may send.
    pub snapshot_rate: u64,
    /// What all nodes were started with besides.
    pub flags: Vec<String>,
    /// `namespaces` or `loopback`.
    pub network: &'static str,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Seconds since the load began.
    pub at_s: f64,
    /// In words.
    pub what: String,
}

/// One second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Second {
    /// When it began.
    pub at_s: usize,
    /// Requests answered.
    pub answered: u64,
    /// Requests answered with an error that means *not done*.
    pub not_done: u64,
    /// Requests with unknown outcome.
    pub unknown: u64,
    /// Answers that contradict what was acknowledged.
    pub lost: u64,
    /// The longest time between two answers to one client.
    pub longest_wait_ms: f64,
    /// How long the machine stalled.
    pub machine_stalled_ms: f64,
    /// Cores that the host took away.
    pub host_taken: f64,
    /// Bytes of states that nodes sent each other.
    pub moved_bytes: u64,
    /// Shards whose replicas were being changed.
    pub changing: u64,
    /// Shards with too few live replicas, as their leaders said.
    pub below_strength: u64,
    /// What clients saw, by the node through which they asked.
    pub clients: Vec<ClientsSecond>,
    /// The nodes that answered.
    pub nodes: Vec<NodeSecond>,
}

/// Clients of a node in a second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientsSecond {
    /// Counted from 1.
    pub node: usize,
    /// Requests answered.
    pub answered: u64,
    /// Requests not done, or with unknown outcome.
    pub failed: u64,
    /// The longest time between two answers to one of them.
    pub longest_wait_ms: f64,
}

/// A node in a second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeSecond {
    /// Counted from 1.
    pub node: usize,
    /// Replicas it held.
    pub replicas: u64,
    /// Of these, those that led.
    pub leaders: u64,
    /// Keys and values it held.
    pub bytes: u64,
    /// Bytes of states it sent.
    pub sent_bytes: u64,
    /// States on their way from it, or waiting to be, at the end.
    pub sending: u64,
    /// Bytes of those on their way that had not left yet, about.
    pub unsent_bytes: u64,
    /// Cores it used.
    pub processor: f64,
}

/// A figure, beside what must be reached.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is.
    pub what: String,
    /// How much.
    pub value: f64,
    /// Of what; empty: a ratio or a number.
    pub unit: &'static str,
    /// What must be reached, if anything.
    pub limit: Option<String>,
    /// Whether it is.
    pub holds: Option<bool>,
    /// What to know of it.
    pub note: String,
}

/// What was read back.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LossReport {
    /// Keys of clients that were acknowledged.
    pub client_keys: u64,
    /// Keys that were there before.
    pub filled_keys: u64,
    /// Of both, those that hold something else than they must.
    pub lost: u64,
}

impl Figure {
    /// A figure without a target.
    pub fn told(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let (what, note) = (what.into(), String::new());
        Self { what, value, unit, limit: None, holds: None, note }
    }

    /// One that must be at most so much.
    pub fn at_most(what: impl Into<String>, value: f64, unit: &'static str, most: f64) -> Self {
        let limit = Some(format!("≤ {}", shown(most)));
        Self { limit, holds: Some(value <= most), ..Self::told(what, value, unit) }
    }

    /// One that must be at least so much.
    pub fn at_least(what: impl Into<String>, value: f64, unit: &'static str, least: f64) -> Self {
        let limit = Some(format!("≥ {}", shown(least)));
        Self { limit, holds: Some(value >= least), ..Self::told(what, value, unit) }
    }

    /// With something to know of it.
    pub fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

/// A number with as many digits as it is worth.
fn shown(value: f64) -> String {
    match value.abs() {
        small if small == small.round() && small < 1e9 => format!("{value:.0}"),
        small if small < 10.0 => format!("{value:.2}"),
        small if small < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// All seconds up to the last of which there is a sample, and what clients saw later as of that
/// one. Nodes may have taken so long to answer that there is none of some: then it is not known
/// what they did in these, but what clients saw is.
pub fn seconds(load: &Load, samples: &[Sample], stalls: &Stalls) -> Vec<Second> {
    let mut before: BTreeMap<usize, NodeSample> = BTreeMap::new();
    let mut host_s = samples.first().map_or(0.0, |sample| sample.host_s);
    let mut all = Vec::new();
    for sample in with_gaps(samples) {
        let is_last = samples.last().is_some_and(|last| last.second == sample.second);
        let all_counts = match is_last {
            true => load.counts_from(sample.second),
            false => load.counts(sample.second),
        };
        let of = |of: fn(&Counts) -> u64| all_counts.iter().map(of).sum();
        let clients: Vec<_> = all_counts.iter().enumerate().map(of_clients).collect();
        let from = Duration::from_secs(sample.second as u64);
        let stalled = stalls.allowance(from, from + Duration::from_secs(1));
        let nodes: Vec<NodeSecond> =
            sample.nodes.iter().map(|node| of_node(node, before.get(&node.node))).collect();
        before.extend(sample.nodes.iter().map(|node| (node.node, node.clone())));
        let sum = |of: fn(&NodeSample) -> u64| sample.nodes.iter().map(of).sum();
        all.push(Second {
            at_s: sample.second,
            answered: of(|counts| counts.answered),
            not_done: of(|counts| counts.not_done),
            unknown: of(|counts| counts.unknown),
            lost: of(|counts| counts.lost),
            longest_wait_ms: clients.iter().map(|one| one.longest_wait_ms).fold(0.0, f64::max),
            machine_stalled_ms: stalled.as_secs_f64() * 1e3,
            host_taken: sample.host_s - host_s,
            moved_bytes: nodes.iter().map(|node| node.sent_bytes).sum(),
            changing: sum(|node| node.changing),
            below_strength: sum(|node| node.below_strength),
            clients,
            nodes,
        });
        host_s = sample.host_s;
    }
    all
}

/// Samples of all seconds: of those that have none, one without nodes.
fn with_gaps(samples: &[Sample]) -> Vec<Sample> {
    let mut all: Vec<Sample> = Vec::new();
    for sample in samples {
        let (next, host_s) = all.last().map_or((0, sample.host_s), |s| (s.second + 1, s.host_s));
        let gap =
            (next..sample.second).map(|second| Sample { second, host_s, ..Sample::default() });
        all.extend(gap);
        all.push(sample.clone());
    }
    all
}

/// What clients saw through the node at a place.
fn of_clients((place, counts): (usize, &Counts)) -> ClientsSecond {
    ClientsSecond {
        node: place + 1,
        answered: counts.answered,
        failed: counts.not_done + counts.unknown,
        longest_wait_ms: counts.longest.as_secs_f64() * 1e3,
    }
}

/// What a node did since its last sample. A node without an earlier sample began with nothing.
fn of_node(node: &NodeSample, before: Option<&NodeSample>) -> NodeSecond {
    let sent = before.map_or(0, |before| before.sent_bytes);
    let processor = before.map_or(0.0, |before| node.processor_s - before.processor_s);
    NodeSecond {
        node: node.node,
        replicas: node.replicas,
        leaders: node.leaders,
        bytes: node.bytes,
        sent_bytes: node.sent_bytes.saturating_sub(sent),
        sending: node.sending,
        unsent_bytes: node.unsent_bytes,
        processor: processor.max(0.0),
    }
}

/// The figures as a table.
pub fn table(figures: &[Figure]) -> String {
    let mut out = "| figure | value | must be | | |\n|---|---|---|---|---|\n".to_owned();
    for Figure { what, value, unit, limit, holds, note } in figures {
        let value = [shown(*value).as_str(), unit].join(" ");
        let limit = limit.as_deref().unwrap_or("–");
        let holds = holds.map_or("", |holds| if holds { "holds" } else { "**fails**" });
        out += &format!("| {what} | {} | {limit} | {holds} | {note} |\n", value.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_meet_or_miss_targets_and_table_shows_it() {
        let figures = [
            Figure::at_most("a", 1.5, "s", 1.5),
            Figure::at_least("b", 0.69, "", 0.7).noted("once"),
            Figure::told("c", 1234.5, "MiB"),
        ];
        assert_eq!(figures.each_ref().map(|figure| figure.holds), [Some(true), Some(false), None]);
        let table = table(&figures);
        for row in [
            "| a | 1.50 s | ≤ 1.50 | holds |  |",
            "| b | 0.69 | ≥ 0.70 | **fails** | once |",
            "| c | 1234 MiB | – |  |  |",
        ] {
            assert!(table.contains(row), "{row}: {table}");
        }
    }

    #[test]
    fn no_second_is_left_out() {
        let sample =
            |second| Sample { second, nodes: vec![NodeSample::default()], ..Sample::default() };
        let all = with_gaps(&[1, 2, 5].map(sample));
        let all: Vec<_> = all.iter().map(|sample| (sample.second, sample.nodes.len())).collect();
        assert_eq!(all, [(0, 0), (1, 1), (2, 1), (3, 0), (4, 0), (5, 1)]);
    }

    #[test]
    fn what_a_node_did_is_since_it_was_seen() {
        let node = |sent_bytes, processor_s| NodeSample {
            node: 1,
            sent_bytes,
            processor_s,
            ..NodeSample::default()
        };
        let new = of_node(&node(5, 9.0), None);
        assert_eq!((new.sent_bytes, new.processor), (5, 0.0));
        let old = of_node(&node(8, 9.5), Some(&node(5, 9.0)));
        assert_eq!((old.sent_bytes, old.processor), (3, 0.5));
    }
}
