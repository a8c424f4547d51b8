//! The constants of the cost model, measured on this machine, and how well they predict live runs.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::process::Directory;

use super::Bed;
use super::cluster::{Cluster, Door};
use super::load::Load;
use super::model::{Calibration, Constants, Op, Sample};
use crate::{Outcome, machine};

/// Requests under way on each connection: few and several.
const DEPTHS: [u64; 2] = [1, 16];

/// A live run beside what the model says.
pub struct Validation {
    /// How many nodes.
    pub nodes: usize,
    /// Reads or writes.
    pub op: Op,
    /// Requests a second, by the model, with the processors that the run had.
    pub predicted: f64,
    /// Requests a second of the run.
    pub measured: f64,
    /// Processors that nodes and load had.
    pub processors: f64,
    /// Microseconds of a request in the nodes, and in the load.
    pub cost: [f64; 2],
    /// Frames between nodes for a request.
    pub frames: f64,
    /// Fsyncs of all nodes for a request.
    pub syncs: f64,
    /// Whether the constants come from runs of this size.
    pub is_calibrated: bool,
}

impl Validation {
    /// By how much the prediction is too high, in parts of what was measured.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// Everything that was measured.
pub struct Study {
    /// The constants.
    pub constants: Constants,
    /// What they were made of.
    pub runs: Calibration,
    /// Bytes between nodes for a read and for a write, of three nodes.
    pub bytes: [f64; 2],
    /// Fsyncs for a write, of three nodes together.
    pub syncs: f64,
    /// Fsyncs a second of the disk, and microseconds of processor time of one.
    pub disk: (f64, f64),
    /// Live runs.
    pub validations: Vec<Validation>,
}

/// Connections for each node: with as much load for each, nodes take in as many requests at once,
/// whatever their number.
const CLIENTS_PER_NODE: u64 = 25;

/// One run on a cluster.
struct Run {
    sample: Sample,
    rate: f64,
    processors: f64,
    bytes: f64,
    syncs: f64,
}

fn op_load(op: Op, nodes: usize, depth: u64, seconds: f64) -> Load {
    let mix = if op == Op::Read { "get = 1" } else { "put = 1" };
    let clients = CLIENTS_PER_NODE * nodes as u64;
    Load { mix, clients, pipeline: depth, seconds, ..Load::default() }
}

/// The run of median cost among so many.
fn median_run(cluster: &Cluster, load: &Load, background: f64, rounds: usize) -> Outcome<Run> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        all.push(one_run(cluster, load, background)?);
    }
    all.sort_by(|one, two| one.sample.cost.total_cmp(&two.sample.cost));
    Ok(all.swap_remove(rounds / 2))
}

/// `background`: microseconds a second that all nodes take without requests.
fn one_run(cluster: &Cluster, load: &Load, background: f64) -> Outcome<Run> {
    // Frames and bytes are counted where they are sent and where they come.
    let counts = || -> Outcome<[f64; 3]> {
        let both = |name| cluster.metric(name).map(|sum| sum / 2.0);
        let syncs = cluster.metric("log_syncs_total")?;
        Ok([both("peer_frames_total")?, both("peer_bytes_total")?, syncs])
    };
    let (before, cpu, begun) = (counts()?, cluster.cpu(), Instant::now());
    let measured = load.run(&cluster.reach(Door::Resp))?;
    let (cpu, seconds) = (cluster.cpu() - cpu, begun.elapsed().as_secs_f64());
    let after = counts()?;
    if measured.failures > 0.0 || measured.count < 1.0 {
        return Err(format!("a run of the model failed: {:?}", measured.kinds).into());
    }
    // The window is longer than the load: connections are opened, counts are asked for. What nodes
    // do in it without requests is taken away first, and given back for as long as the load was.
    let each = |at: usize| (after[at] - before[at]) / measured.answered;
    let requests = (cpu * 1e6 - background * seconds).max(0.0);
    let cost = requests / measured.answered;
    let busy = requests / 1e6 + measured.load_cpu;
    Ok(Run {
        sample: Sample { cost, frames: each(0), load: measured.load_cpu * 1e6 / measured.answered },
        rate: measured.rate,
        processors: busy / load.seconds + background / 1e6,
        bytes: each(1),
        syncs: each(2),
    })
}

/// Microseconds a second that a node takes without requests.
fn background(cluster: &Cluster, time: Duration) -> f64 {
    let (cpu, begun) = (cluster.cpu(), Instant::now());
    sleep(time);
    let used = (cluster.cpu() - cpu) * 1e6;
    used / begun.elapsed().as_secs_f64() / cluster.count() as f64
}

/// Fsyncs a second, and processor time of one in microseconds.
fn disk(dir: &Path) -> Outcome<(f64, f64)> {
    let me = std::process::id();
    let (cpu, begun) = (machine::cpu_seconds(me)?, Instant::now());
    let rate = machine::fsyncs_per_second(dir)?;
    let count = rate * begun.elapsed().as_secs_f64();
    Ok((rate, (machine::cpu_seconds(me)? - cpu) * 1e6 / count.max(1.0)))
}

/// Measures it all: starts clusters of several sizes, one after the other.
///
/// # Errors
/// Nodes cannot be run, or a request failed.
pub fn measure(bed: &mut Bed<'_>) -> Outcome<Study> {
    let sizes: &[usize] = bed.pick(&[1, 3, 5], &[1, 3, 4, 5, 6, 8]);
    let (rounds, seconds) = bed.pick((1, 0.7), (3, 3.0));
    let idle = Duration::from_secs_f64(bed.pick(1.5, 8.0));
    let disk = disk(Directory::new("fsyncs")?.path())?;
    let (mut idles, mut live, mut away, mut flat) = (Vec::new(), Vec::new(), None, Vec::new());
    for nodes in sizes.iter().copied() {
        bed.say(&format!("001: the model, {nodes} nodes"));
        let cluster = Cluster::start(bed, nodes)?;
        let fill =
            || op_load(Op::Write, nodes, DEPTHS[1], seconds).fill(&cluster.reach(Door::Resp));
        fill()?;
        let each = background(&cluster, idle);
        idles.push((nodes as f64, each));
        let all = each * nodes as f64;
        let run =
            |op, depth| median_run(&cluster, &op_load(op, nodes, depth, seconds), all, rounds);
        for op in [Op::Read, Op::Write] {
            live.push((nodes, op, run(op, DEPTHS[1])?));
        }
        if nodes == 3 {
            cluster.remake_keyspace(1, "sync", None)?;
            fill()?;
            let [read, write] = [run(Op::Read, DEPTHS[1])?, run(Op::Write, DEPTHS[1])?];
            away = Some([read.sample, write.sample]);
        }
        if nodes == 1 || nodes == 3 {
            flat.push(run(Op::Read, DEPTHS[0])?.sample);
        }
    }
    let of = |nodes: usize, op: Op| {
        let found = live.iter().find(|(size, of, _)| (*size, *of) == (nodes, op));
        found.map(|(_, _, run)| run).ok_or("a size is missing")
    };
    let runs = Calibration {
        alone: [of(1, Op::Read)?.sample, of(1, Op::Write)?.sample],
        away: away.ok_or("a size is missing")?,
        three: [of(3, Op::Read)?.sample, of(3, Op::Write)?.sample],
        five: [of(5, Op::Read)?.sample, of(5, Op::Write)?.sample],
        flat: [flat[0], flat[1]],
        idle: [idles[0], idles[idles.len() - 1]],
    };
    let constants = Constants::of(&runs);
    let (read, write) = (of(3, Op::Read)?, of(3, Op::Write)?);
    let (bytes, syncs) = ([read.bytes, write.bytes], write.syncs);
    let validation = |(nodes, op, run): &(usize, Op, Run)| Validation {
        nodes: *nodes,
        op: *op,
        predicted: constants.shared(*op, *nodes as f64, run.processors),
        measured: run.rate,
        processors: run.processors,
        cost: [run.sample.cost, run.sample.load],
        frames: run.sample.frames,
        syncs: run.syncs,
        is_calibrated: [1, 3, 5].contains(nodes),
    };
    let validations = live.iter().map(validation).collect();
    Ok(Study { constants, runs, bytes, syncs, disk, validations })
}
