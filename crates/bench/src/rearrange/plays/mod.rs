//! What is done to a cluster under load, and which figures come of it.
//!
//! | play | nodes | what happens |
//! |---|---|---|
//! | join | 3, and 2 that wait | a fourth joins; when all has settled, a fifth |
//! | drain | 5 | one of them is drained |
//! | lose | 9 | four are killed, one by one, each replaced before the next |
//!
//! Between two things that are done a play waits until nothing moves any more (*settled*).

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::fleet::Fleet;
use super::judge;
use super::stage::{Plan, Seen, Stage};
use super::timeline::Figure;
use crate::Outcome;

/// Seconds of load before anything is measured.
const WARM_UP: u64 = 3;
/// Seconds of load after everything has settled.
const AFTER: u64 = 4;
/// How long a drain may take.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// Between two looks whether a node is empty.
const LOOK: Duration = Duration::from_millis(100);

/// A play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Play {
    /// Nodes join.
    Join,
    /// A node is drained.
    Drain,
    /// Nodes are lost and replaced.
    Lose,
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
}

impl Play {
    /// In file names and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Play::Join => "join",
            Play::Drain => "drain",
            Play::Lose => "lose",
        }
    }

    /// Nodes at the beginning, and nodes that wait.
    pub fn nodes(self, scale: &Scale) -> (usize, usize) {
        match self {
            Play::Join => (3, scale.joins),
            Play::Drain => (5, 0),
            Play::Lose => (9, 0),
        }
    }

    /// For people.
    pub fn title(self, scale: &Scale) -> String {
        match self {
            Play::Join if scale.joins == 1 => "A node joins three under load".to_owned(),
            Play::Join => format!("{} nodes join three under load, one by one", scale.joins),
            Play::Drain => "One of five nodes is drained under load".to_owned(),
            Play::Lose => {
                format!("{} of nine nodes are killed under load, one by one", scale.losses)
            }
        }
    }

    /// Plays it; what was seen, and the figures. What nodes have said goes to `logs`.
    pub fn play(self, plan: &Plan, scale: &Scale, logs: &Path) -> Outcome<(Seen, Vec<Figure>)> {
        let stage = Stage::set(plan)?;
        stage.wait(WARM_UP);
        match self {
            Play::Join => join(stage, scale, logs),
            Play::Drain => drain(stage, scale, logs),
            Play::Lose => lose(stage, scale, logs),
        }
    }
}

/// Measures the load alone; from when until when.
fn baseline(stage: &mut Stage, scale: &Scale) -> (f64, f64) {
    let from = stage.mark("load alone");
    stage.wait(scale.baseline_s);
    (from, stage.now_s())
}

/// Waits until all has settled; when that was.
fn settle(stage: &mut Stage, most: Duration, replicas: u64) -> f64 {
    let is_full = |sample: &super::watch::Sample| {
        sample.nodes.iter().map(|node| node.replicas).sum::<u64>() == replicas
    };
    let settled = stage.until_settled(most, is_full);
    let words = if settled.is_some() { "settled" } else { "not settled in time" };
    let at_s = settled.unwrap_or_else(|| stage.now_s());
    eprintln!("{at_s:7.1} s  {words}");
    stage.events.push(super::timeline::Event { at_s, what: words.into() });
    at_s
}

fn join(mut stage: Stage, scale: &Scale, logs: &Path) -> Outcome<(Seen, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let (first, replicas) = (stage.setup.nodes + 1, stage.setup.replicas);
    let mut windows = Vec::new();
    for node in first..first + scale.joins {
        let from = stage.mark(format!("node {node} joins"));
        stage.fleet.release(node)?;
        windows.push((node, (from, settle(&mut stage, scale.settle, replicas))));
        stage.wait(AFTER);
    }
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    for (node, window) in windows {
        figures.push(judge::throughput(&seen, &format!("node {node} joins"), alone, window));
    }
    figures.extend(judge::evenness(&seen));
    figures.extend(judge::rate(&seen));
    figures.extend(judge::failures(&seen, true));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}

fn drain(mut stage: Stage, scale: &Scale, logs: &Path) -> Outcome<(Seen, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let (node, replicas) = (stage.setup.nodes, stage.setup.replicas);
    let bytes = stage.last().node(node).map_or(0, |node| node.bytes);
    let name = Fleet::name(node);
    let from = stage.mark(format!("node {node} is drained"));
    stage.fleet.post(1, &format!("/v1/nodes/{name}/drain"), "{}")?;
    let began = Instant::now();
    while !is_empty(&stage.fleet, &name)? {
        if began.elapsed() > DRAIN_MAX {
            return Err(format!("{name} is not empty after {DRAIN_MAX:?}").into());
        }
        sleep(LOOK);
    }
    let until = stage.mark(format!("node {node} is empty"));
    settle(&mut stage, scale.settle, replicas);
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    figures.push(judge::drain(&seen, bytes, until - from));
    figures.push(judge::lowest_second(&seen, "the drain", alone, (from, until)));
    figures.extend(judge::rate(&seen));
    figures.extend(judge::failures(&seen, true));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}

/// Whether a node has no replica, as the first node knows and as itself says.
fn is_empty(fleet: &Fleet, name: &str) -> Outcome<bool> {
    let nodes = fleet.get(1, "/v1/nodes")?;
    let all = nodes["nodes"].as_array().into_iter().flatten();
    let node = all.into_iter().find(|node| node["name"] == name).ok_or("the node is not known")?;
    Ok(node["replicas"] == 0 && node["shards"] == 0)
}

fn lose(mut stage: Stage, scale: &Scale, logs: &Path) -> Outcome<(Seen, Vec<Figure>)> {
    let alone = baseline(&mut stage, scale);
    let replicas = stage.setup.replicas;
    let mut windows = Vec::new();
    // The founder is the first of them.
    for node in (1..).step_by(2).take(scale.losses) {
        let from = stage.mark(format!("node {node} is killed"));
        stage.fleet.kill(node);
        windows.push((node, (from, settle(&mut stage, scale.settle, replicas))));
    }
    stage.wait(AFTER);
    let seen = stage.end(logs)?;
    let mut figures = judge::load_alone(&seen, alone);
    for (node, window) in windows {
        figures.extend(judge::silence(&seen, &format!("node {node} is killed"), window));
    }
    figures.extend(judge::evenness(&seen));
    figures.extend(judge::failures(&seen, false));
    figures.push(judge::lost(&seen));
    Ok((seen, figures))
}
