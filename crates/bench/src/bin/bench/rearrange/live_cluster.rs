//! A cluster under load that is sampled once a second: every scenario runs on one.
//!
//! ```text
//!   nodes start ─► keyspaces ─► replicas spread ─► filled ─► load begins: second 0
//!                                                              ├─ clients
//!                                                              ├─ watch, once a second
//!                                                              └─ witness of the machine
//! ```

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::stalls::{StallRecorder, Stalls};

use super::fill::BulkData;
use super::fleet::Fleet;
use super::load::{Failure, Load, Recovery, Shape, SlowRequest};
use super::timeline::{Event, LossReport, Second, Setup, seconds};
use super::watch::{NodeWatcher, Sample, look};
use crate::Outcome;

/// Keyspaces of eight shards each.
const KEYSPACES: [&str; 3] = ["0", "one", "two"];
/// All shards, the catalogue's among them.
const SHARDS: u64 = 8 * KEYSPACES.len() as u64 + 1;
/// How long replicas may take to spread before anything is written.
const SPREAD_MAX: Duration = Duration::from_secs(75);
/// Nothing has changed for so long: then it is over.
const CALM: Duration = Duration::from_secs(8);
/// Nothing has changed for so long, though it is not even: longer than a shard rests.
const CALM_UNEVEN: Duration = Duration::from_secs(35);
/// Of what was filled, checkpoints are over and members have heard after this.
const REST: Duration = Duration::from_secs(4);

/// What to set up.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// The program.
    pub binary: String,
    /// Nodes of the cluster at the beginning.
    pub nodes: usize,
    /// Nodes that run beside it, to join later.
    pub held: usize,
    /// Failure domains; 0: nodes are not told of any.
    pub domains: usize,
    /// Replicas of every shard.
    pub replicas: u64,
    /// Bytes of keys and values, once.
    pub bytes: u64,
    /// Of a value that is filled in.
    pub value_bytes: usize,
    /// Clients of the load …
    pub clients: usize,
    /// … and, besides, those that only read.
    pub readers: usize,
    /// What each of them waits between an answer and its next request.
    pub pause: Duration,
    /// Bytes a second of states that a node may send.
    pub snapshot_rate: u64,
    /// What all nodes are started with besides.
    pub flags: Vec<String>,
}

/// See the front page. Fields are dropped in this order.
pub struct LiveCluster {
    load: Load,
    watch: NodeWatcher,
    witness: StallRecorder,
    /// The nodes.
    pub fleet: Fleet,
    /// What has happened.
    pub events: Vec<Event>,
    /// What was set up.
    pub setup: Setup,
    /// Nodes that are there and are to be empty.
    pub drained: Vec<usize>,
    begun: Instant,
    fill: BulkData,
}

/// What is left of it when the load is over.
#[derive(Default)]
pub struct RunRecord {
    /// What has happened.
    pub events: Vec<Event>,
    /// All seconds.
    pub seconds: Vec<Second>,
    /// Requests that failed.
    pub failures: Vec<Failure>,
    /// Requests that were late.
    pub slow: Vec<SlowRequest>,
    /// When clients were answered again after something was over.
    pub returns: Vec<Recovery>,
    /// When the machine stood still.
    pub stalls: Stalls,
    /// What was read back.
    pub read_back: LossReport,
    /// What was set up.
    pub setup: Setup,
}

impl LiveCluster {
    /// Sets it all up and begins the load.
    pub fn set(plan: &ClusterPlan) -> Outcome<Self> {
        let ClusterPlan { nodes, held, .. } = *plan;
        let rate = plan.snapshot_rate.to_string();
        let mut flags = plan.flags.clone();
        flags.extend(["--snapshot-rate", &rate, "--memory-max", "6GiB"].map(str::to_owned));
        let mut fleet = Fleet::new(&plan.binary, nodes + held, plan.domains, &flags)?;
        eprintln!("{nodes} nodes start");
        (1..=nodes).try_for_each(|node| fleet.start(node))?;
        fleet.wait_until_formed()?;
        for name in &KEYSPACES[1..] {
            fleet.post(1, "/v1/keyspaces", &format!(r#"{{"name":"{name}"}}"#))?;
        }
        wait_until_spread(&fleet, plan.replicas)?;
        let keyspaces = KEYSPACES.map(str::to_owned).to_vec();
        let resp: Vec<_> = (1..=nodes).map(|node| fleet.resp(node)).collect();
        let fill = BulkData::of(&keyspaces, plan.bytes, plan.value_bytes);
        eprintln!("{} keys of {} bytes are written", fill.keys_all(), plan.value_bytes);
        fill.write(&resp)?;
        for node in nodes + 1..=nodes + held {
            let runs = fleet.hold(node)?;
            let how = if runs { "runs and reaches nobody" } else { "is started as it joins" };
            eprintln!("node {node} {how}");
        }
        sleep(REST);
        let setup = Setup {
            nodes,
            held,
            // Not as nodes say: one may be on its way, and have a replica too many.
            shards: SHARDS,
            replicas: SHARDS * plan.replicas,
            clients: plan.clients + plan.readers,
            pause_ms: plan.pause.as_millis() as u64,
            filled_keys: fill.keys_all(),
            filled_bytes: fill.keys_all() * fill.value_bytes as u64,
            snapshot_rate: plan.snapshot_rate,
            flags: plan.flags.clone(),
            network: if fleet.is_in_namespaces() { "namespaces" } else { "loopback" },
        };
        let ClusterPlan { clients, readers, pause, .. } = *plan;
        let load = Load::start(Shape { clients, readers, pause, nodes: resp, keyspaces })?;
        let begun = load.begun();
        let watch = NodeWatcher::start(fleet.roster(), begun)?;
        let witness = StallRecorder::start(fleet.dir(), begun);
        let (events, drained) = (Vec::new(), Vec::new());
        Ok(Self { load, watch, witness, fleet, events, setup, drained, begun, fill })
    }

    /// Seconds since the load began.
    pub fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Notes that something happens now; when that is.
    pub fn mark(&mut self, what: impl Into<String>) -> f64 {
        let (at_s, what) = (self.now_s(), what.into());
        eprintln!("{at_s:7.1} s  {what}");
        self.events.push(Event { at_s, what });
        at_s
    }

    /// As [`Self::mark`], of the end of something: from now on it is noted when each client is
    /// answered again.
    pub fn mark_end(&mut self, what: impl Into<String>) -> f64 {
        let at_s = self.mark(what);
        self.load.is_over(at_s);
        at_s
    }

    /// Lets so many seconds go by.
    pub fn wait(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds));
    }

    /// The newest figures of all nodes.
    pub fn last(&self) -> Sample {
        self.watch.last().unwrap_or_default()
    }

    /// Waits until replicas rest where they are, and so that `is_so`; returns when that was first
    /// so, or nothing if it is not within `most`.
    pub fn until_settled(&self, most: Duration, is_so: impl Fn(&Sample) -> bool) -> Option<f64> {
        let began = Instant::now();
        let (mut since, mut replicas) = (self.now_s(), Vec::new());
        while began.elapsed() < most {
            sleep(Duration::from_millis(500));
            let sample = self.last();
            let now: Vec<_> = sample.nodes.iter().map(|node| (node.node, node.replicas)).collect();
            if now != replicas || !sample.is_quiet() {
                (since, replicas) = (self.now_s(), now);
            }
            let calm = Duration::from_secs_f64(self.now_s() - since);
            let is_even = sample.is_even(&self.drained) || calm >= CALM_UNEVEN;
            if calm >= CALM && is_so(&sample) && is_even {
                return Some(since);
            }
        }
        None
    }

    /// Ends the load, and reads everything back.
    pub fn end(self, logs: &Path) -> Outcome<RunRecord> {
        self.fleet.keep_logs(logs)?;
        let Self { mut load, watch, witness, fleet, events, setup, fill, .. } = self;
        let stalls = witness.finish();
        let samples = watch.samples();
        drop(watch);
        load.stop()?;
        let seconds = seconds(&load, &samples, &stalls);
        let nodes: Vec<_> = fleet.running().into_iter().map(|node| fleet.resp(node)).collect();
        eprintln!("the load ends; {} keys are read back", fill.keys_all());
        let (failures, slow, returns) = (load.failures(), load.slow(), load.returns());
        let own = load.read_back(&nodes)?;
        let lost = own.lost + fill.read_back(&nodes)?;
        let read_back = LossReport { client_keys: own.keys, filled_keys: fill.keys_all(), lost };
        Ok(RunRecord { events, seconds, failures, slow, returns, stalls, read_back, setup })
    }
}

fn wait_until_spread(fleet: &Fleet, replicas_each: u64) -> Outcome<()> {
    let began = Instant::now();
    let mut calm = 0;
    while calm < 3 {
        sleep(Duration::from_secs(1));
        let sample = look(0, &fleet.roster());
        let sum = |of: fn(&super::watch::NodeSample) -> u64| sample.nodes.iter().map(of).sum();
        let (replicas, leaders): (u64, u64) = (sum(|n| n.replicas), sum(|n| n.leaders));
        let is_full = leaders == SHARDS && replicas == replicas_each * SHARDS;
        calm = if sample.is_quiet() && is_full && sample.is_even(&[]) { calm + 1 } else { 0 };
        if began.elapsed() > SPREAD_MAX {
            if is_full {
                eprintln!("replicas did not spread evenly before the load: {replicas} on");
                return Ok(());
            }
            return Err(format!("{replicas} replicas of {SHARDS} shards").into());
        }
    }
    eprintln!("replicas have spread in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}
