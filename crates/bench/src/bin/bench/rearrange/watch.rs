//! Samples every node once a second: its own figures by HTTP, and what it takes of the machine.
//!
//! A node reports what it holds and leads, what it has sent, and which of the shards that it leads
//! are changing or under-replicated. A node that does not answer in time has no figures in that
//! second.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::fleet::{Roster, RunningNode, get};
use crate::{Outcome, http, machine};

/// How long a node may take to answer.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// A node's own figures, at the end of a second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeSample {
    /// Counted from 1.
    pub node: usize,
    /// Replicas it holds.
    pub replicas: u64,
    /// Of these, those that lead.
    pub leaders: u64,
    /// Keys and values that it holds, old versions among them.
    pub bytes: u64,
    /// Bytes of shards' states that it has sent since it started.
    pub sent_bytes: u64,
    /// States on their way from it, or waiting to be.
    pub sending: u64,
    /// Bytes of those that are on their way that have not left yet, about.
    pub unsent_bytes: u64,
    /// Shards that it leads and whose replicas are being changed.
    pub changing: u64,
    /// Shards that it leads and that have fewer live replicas than their keyspace asks for.
    pub below_strength: u64,
    /// Processor time it has used since it started, in seconds.
    pub processor_s: f64,
}

/// What was seen at the end of a second.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Which second since the load began.
    pub second: usize,
    /// Nodes that run.
    pub running: usize,
    /// Those that answered.
    pub nodes: Vec<NodeSample>,
    /// What the host has taken away from this machine since it started, in seconds of a processor.
    pub host_s: f64,
}

impl Sample {
    /// A node, if it answered.
    pub fn node(&self, node: usize) -> Option<&NodeSample> {
        self.nodes.iter().find(|sample| sample.node == node)
    }

    /// Whether all nodes answered, and no shard is changing or too weak.
    pub fn is_quiet(&self) -> bool {
        let is_quiet = |node: &NodeSample| node.changing + node.below_strength + node.sending == 0;
        self.nodes.len() == self.running && self.nodes.iter().all(is_quiet)
    }

    /// Whether no node has three replicas more than another, but for those that were drained.
    pub fn is_even(&self, drained: &[usize]) -> bool {
        let nodes = || self.nodes.iter().filter(|node| !drained.contains(&node.node));
        let replicas = || nodes().map(|node| node.replicas);
        replicas().max().unwrap_or(0) <= replicas().min().unwrap_or(0) + 2
    }
}

/// The thread that asks. Dropping it ends it.
pub struct NodeWatcher {
    samples: Arc<Mutex<Vec<Sample>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NodeWatcher {
    /// Begins to ask, at whole seconds since `begun`.
    pub fn start(roster: Roster, begun: Instant) -> Outcome<Self> {
        let (samples, stop) = (Arc::<Mutex<Vec<Sample>>>::default(), Arc::<AtomicBool>::default());
        let (told, ended) = (samples.clone(), stop.clone());
        let run = move || {
            while !ended.load(Ordering::Relaxed) {
                let second = begun.elapsed().as_secs() as usize;
                let next = begun + PERIOD * (second as u32 + 1);
                thread::sleep(next.saturating_duration_since(Instant::now()));
                let sample = look(second, &roster);
                told.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
            }
        };
        let thread = Some(thread::Builder::new().spawn(run)?);
        Ok(Self { samples, stop, thread })
    }

    /// All that was seen so far.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest of it.
    pub fn last(&self) -> Option<Sample> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }
}

impl Drop for NodeWatcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has printed its message.
            let _panicked = thread.join();
        }
    }
}

/// Samples all running nodes.
pub fn look(second: usize, roster: &Roster) -> Sample {
    let seats = roster.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let nodes = seats.iter().filter_map(|seat| of(*seat).ok()).collect();
    Sample { second, running: seats.len(), nodes, host_s: machine::stolen_seconds() }
}

fn of(RunningNode { node, pid, http }: RunningNode) -> Outcome<NodeSample> {
    let nodes = get(http, "/v1/nodes", ANSWER_MAX)?;
    let own = nodes["nodes"].as_array().and_then(|all| all.iter().find(|one| one["this"] == true));
    let own = own.ok_or("the node does not know itself")?;
    let number = |name: &str| own[name].as_u64().unwrap_or(0);
    let metrics = metrics(http)?;
    let metric = |name: &str| metric(&metrics, name).unwrap_or(0.0) as u64;
    let shards = get(http, "/v1/shards", ANSWER_MAX)?;
    let led = |shard: &&Value| shard["here"] == true && shard["leader"] == shards["node"];
    let led: Vec<&Value> = shards["shards"].as_array().into_iter().flatten().filter(led).collect();
    let is_weak =
        |shard: &&&Value| shard["replicas_live"].as_u64() < shard["replicas_wanted"].as_u64();
    Ok(NodeSample {
        node,
        replicas: number("shards"),
        leaders: number("leaders"),
        bytes: number("data_bytes"),
        sent_bytes: metric("carillon_snapshot_bytes_total{direction=\"sent\"}"),
        sending: metric("carillon_snapshots_in_progress{direction=\"sent\"}")
            + metric("carillon_snapshots_waiting"),
        unsent_bytes: metric("carillon_snapshot_remaining_bytes"),
        changing: led.iter().filter(|shard| shard["changing"] == true).count() as u64,
        below_strength: led.iter().filter(is_weak).count() as u64,
        processor_s: machine::cpu_seconds(pid)?,
    })
}

fn metrics(at: SocketAddr) -> Outcome<String> {
    Ok(http::ask(at, ANSWER_MAX, "GET", "/metrics", "")?.1)
}

/// A sample of Prometheus's text format, by its name with labels.
fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_by_their_whole_names() {
        let text = "# HELP a b\na_b 1\na{x=\"y\"} 2.5\na 3\n";
        assert_eq!(
            ["a", "a_b", "a{x=\"y\"}", "b"].map(|name| metric(text, name)),
            [Some(3.0), Some(1.0), Some(2.5), None]
        );
    }

    #[test]
    fn it_is_quiet_if_all_say_so() {
        let node = |changing| NodeSample { changing, ..NodeSample::default() };
        let sample = |running, nodes| Sample { running, nodes, ..Sample::default() };
        assert!(sample(2, vec![node(0), node(0)]).is_quiet());
        assert!(!sample(2, vec![node(0)]).is_quiet());
        assert!(!sample(2, vec![node(0), node(1)]).is_quiet());
    }
}
