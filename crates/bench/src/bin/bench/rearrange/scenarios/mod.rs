//! Scenarios: what is done to a cluster under load, and the figures that come of it.
//!
//! | scenario | nodes | what happens |
//! |---|---|---|
//! | [`join`] | 3, and 2 that wait | a fourth joins; when all has settled, a fifth |
//! | [`drain`] | 5 | one of them is drained |
//! | [`swap`] | 5, and 1 that waits | one joins and another is drained at the same moment |
//! | [`lose`] | 9 | four are killed, one by one, each replaced before the next |
//! | [`leave`] | 8 | three leave one by one, one of them by kill -9, and come back one by one |
//! | [`domain`] | 6 in 3 domains | both nodes of a failure domain are killed at once, and come back |
//! | [`dark`] | 5 | all are killed at once, and started again |
//! | [`part`] | 5 | the network is partitioned, 2 from 3, and healed; meanwhile a shard is split |
//! | [`isolate`] | 5 | two in turn reach no other node; then one link is lost in one direction |
//!
//! Between two steps a scenario waits until nothing moves any more (*settled*). A node that comes
//! back has its old files.

mod dark;
mod domain;
mod drain;
mod isolate;
mod join;
mod leave;
mod lose;
mod part;
mod swap;

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use harness::net::can_cut;

use super::fleet::Fleet;
use super::live_cluster::{ClusterPlan, LiveCluster, RunRecord};
use super::timeline::{Event, Figure};
use super::watch::{NodeSample, Sample};
use crate::Outcome;

/// Seconds of load before anything is measured.
const WARM_UP: u64 = 3;
/// Seconds of load after everything has settled.
const AFTER: u64 = 4;
/// How long a drain may take.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// Between two looks whether something is so.
const LOOK: Duration = Duration::from_millis(100);

/// A play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Nodes join.
    Join,
    /// A node is drained.
    Drain,
    /// A node joins while another is drained.
    Swap,
    /// Nodes are lost and replaced.
    Lose,
    /// Nodes leave one by one and come back.
    Leave,
    /// A failure domain is lost and comes back.
    Domain,
    /// All nodes are lost at once and come back.
    Dark,
    /// The network is parted, and a shard splits meanwhile.
    Part,
    /// A node reaches no other.
    Isolate,
}

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Bytes of keys and values that each of the nodes has at the beginning.
    pub bytes_each: u64,
    /// Seconds in which the load is measured before anything happens.
    pub baseline_s: u64,
    /// How long the cluster may take to settle.
    pub settle: Duration,
    /// Nodes that join.
    pub joins: usize,
    /// Nodes that are lost.
    pub losses: usize,
    /// Nodes that leave and come back.
    pub leaves: usize,
}

impl Scenario {
    /// In file names and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Join => "join",
            Scenario::Drain => "drain",
            Scenario::Swap => "swap",
            Scenario::Lose => "lose",
            Scenario::Leave => "leave",
            Scenario::Domain => "domain",
            Scenario::Dark => "dark",
            Scenario::Part => "part",
            Scenario::Isolate => "isolate",
        }
    }

    /// Nodes at the beginning, and nodes that wait.
    pub fn nodes(self, scale: &Scale) -> (usize, usize) {
        match self {
            Scenario::Join => (3, scale.joins),
            Scenario::Drain | Scenario::Dark | Scenario::Part | Scenario::Isolate => (5, 0),
            Scenario::Swap => (5, 1),
            Scenario::Lose => (9, 0),
            Scenario::Leave => (8, 0),
            Scenario::Domain => (6, 0),
        }
    }

    /// Failure domains; 0: nodes are not told of any.
    pub fn domains(self) -> usize {
        if self == Scenario::Domain { domain::DOMAINS } else { 0 }
    }

    /// Replicas of every shard.
    pub fn replicas(self) -> u64 {
        if self == Scenario::Part { part::REPLICAS } else { 3 }
    }

    /// Whether a client at each node only reads what others write: of a node that is cut off, it
    /// sees what no client that writes would get to see.
    pub fn has_readers(self) -> bool {
        matches!(self, Scenario::Part | Scenario::Isolate)
    }

    /// MiB of keys and values that each node has at the beginning, unless told otherwise.
    pub fn mib_each(self) -> u64 {
        match self {
            Scenario::Join | Scenario::Swap | Scenario::Dark => 256,
            Scenario::Drain => 1_024,
            Scenario::Lose
            | Scenario::Leave
            | Scenario::Domain
            | Scenario::Part
            | Scenario::Isolate => 64,
        }
    }

    /// What all nodes are started with.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Scenario::Join
            | Scenario::Drain
            | Scenario::Swap
            | Scenario::Dark
            | Scenario::Isolate => &[],
            Scenario::Lose | Scenario::Leave | Scenario::Domain => &["--dead-after-ms", "3s"],
            // What was cut stays so, for it holds little.
            Scenario::Part => &["--replicas", "5", "--merge-bytes", "off"],
        }
    }

    /// Whether it can be played here.
    pub fn check(self) -> Outcome<()> {
        if matches!(self, Scenario::Part | Scenario::Isolate) && !can_cut() {
            return Err(format!("{} cuts networks, which takes root", self.name()).into());
        }
        Ok(())
    }

    /// For people.
    pub fn title(self, scale: &Scale) -> String {
        let title = match self {
            Scenario::Join if scale.joins == 1 => "A node joins three under load",
            Scenario::Join => &format!("{} nodes join three under load, one by one", scale.joins),
            Scenario::Drain => "One of five nodes is drained under load",
            Scenario::Swap => "A node joins five and another is drained at the same moment",
            Scenario::Lose => {
                &format!("{} of nine nodes are killed under load, one by one", scale.losses)
            }
            Scenario::Leave => &format!(
                "{} of eight nodes leave under load, one by one, and come back",
                scale.leaves
            ),
            Scenario::Domain => "One of three failure domains is killed under load, and comes back",
            Scenario::Dark => "All of five nodes are killed at once under load, and started again",
            Scenario::Part => {
                "A partition separates two of five nodes, and a shard splits meanwhile"
            }
            Scenario::Isolate => "Nodes of five are cut off from the others, and not from clients",
        };
        title.to_owned()
    }

    /// Plays it; what was seen, and the figures. What nodes have said goes to `logs`.
    pub fn play(
        self,
        plan: &ClusterPlan,
        scale: &Scale,
        logs: &Path,
    ) -> Outcome<(RunRecord, Vec<Figure>)> {
        let stage = LiveCluster::set(plan)?;
        stage.wait(WARM_UP);
        match self {
            Scenario::Join => join::play(stage, scale, logs),
            Scenario::Drain => drain::play(stage, scale, logs),
            Scenario::Swap => swap::play(stage, scale, logs),
            Scenario::Lose => lose::play(stage, scale, logs),
            Scenario::Leave => leave::play(stage, scale, logs),
            Scenario::Domain => domain::play(stage, scale, logs),
            Scenario::Dark => dark::play(stage, scale, logs),
            Scenario::Part => part::play(stage, scale, logs),
            Scenario::Isolate => isolate::play(stage, scale, logs),
        }
    }
}

/// Measures the load alone; from when until when.
fn baseline(stage: &mut LiveCluster, scale: &Scale) -> (f64, f64) {
    let from = stage.mark("load alone");
    stage.wait(scale.baseline_s);
    (from, stage.now_s())
}

/// How something came to rest.
#[derive(Clone, Copy)]
struct Convergence {
    /// When nothing moved any more; if it has not come to rest, when that was given up.
    at_s: f64,
    /// Whether it has.
    is_so: bool,
    /// When that was known. What clients waited for until then counts: replicas may rest where
    /// nobody is served.
    known_s: f64,
}

/// Waits until all has settled, with as many replicas and shards as there were at the beginning.
fn settle(stage: &mut LiveCluster, scale: &Scale) -> Convergence {
    let (replicas, shards) = (stage.setup.replicas, stage.setup.shards);
    settle_with(stage, scale, replicas, shards)
}

/// As [`settle`], with so many replicas, and shards that are led.
fn settle_with(stage: &mut LiveCluster, scale: &Scale, replicas: u64, shards: u64) -> Convergence {
    let is_full = |sample: &Sample| {
        let sum = |of: fn(&NodeSample) -> u64| sample.nodes.iter().map(of).sum::<u64>();
        (sum(|node| node.replicas), sum(|node| node.leaders)) == (replicas, shards)
    };
    let settled = stage.until_settled(scale.settle, is_full);
    let words = if settled.is_some() { "settled" } else { "not settled in time" };
    let known_s = stage.now_s();
    let at_s = settled.unwrap_or(known_s);
    eprintln!("{at_s:7.1} s  {words}");
    stage.events.push(Event { at_s, what: words.into() });
    Convergence { at_s, is_so: settled.is_some(), known_s }
}

/// Waits until something is so; how long that took, in seconds.
fn until(what: &str, most: Duration, mut is_so: impl FnMut() -> Outcome<bool>) -> Outcome<f64> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > most {
            return Err(format!("after {most:?} it is not so: {what}").into());
        }
        sleep(LOOK);
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Waits until a node has no replica, as the first node knows and as itself says; notes it.
fn until_empty(stage: &mut LiveCluster, node: usize) -> Outcome<f64> {
    let name = Fleet::name(node);
    until(&format!("{name} is empty"), DRAIN_MAX, || is_empty(&stage.fleet, &name))?;
    Ok(stage.mark(format!("node {node} is empty")))
}

fn is_empty(fleet: &Fleet, name: &str) -> Outcome<bool> {
    let nodes = fleet.get(1, "/v1/nodes")?;
    let all = nodes["nodes"].as_array().into_iter().flatten();
    let node = all.into_iter().find(|node| node["name"] == name).ok_or("the node is not known")?;
    Ok(node["replicas"] == 0 && node["shards"] == 0)
}
