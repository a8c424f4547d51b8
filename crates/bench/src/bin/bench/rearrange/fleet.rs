//! Real nodes on a network of their own, more or fewer of them as it goes.
//!
//! Nodes are counted from 1. The first founds the cluster, all others join by way of the first
//! three. One that is *held* runs and reaches nobody, so that it waits to join: what its process
//! alone costs is known before it takes part.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::net::{Net, can_cut};
use serde_json::Value;

use crate::{Outcome, http};
use harness::process::{Directory, Process, Signal};

/// The ports are the same everywhere: addresses differ.
const RESP: u16 = 6379;
/// See [`RESP`].
const HTTP: u16 = 7480;
/// See [`RESP`].
const PEER: u16 = 7600;
/// Nodes that others join by.
const SEEDS: usize = 3;
/// How long an answer about the cluster may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a node may take to stop.
const STOP_MAX: Duration = Duration::from_secs(60);
/// How long a cluster may take to form.
const FORM_MAX: Duration = Duration::from_secs(60);

/// A running node, for the sampler.
#[derive(Clone, Copy, Debug)]
pub struct RunningNode {
    /// Counted from 1.
    pub node: usize,
    /// Its process.
    pub pid: u32,
    /// Where it is asked by HTTP.
    pub http: SocketAddr,
}

/// The running nodes.
pub type Roster = Arc<Mutex<Vec<RunningNode>>>;

/// The nodes. Dropping it kills them and removes their files.
pub struct Fleet {
    binary: String,
    flags: Vec<String>,
    /// How many failure domains there are; 0: nodes are not told of any.
    domains: usize,
    /// None while it is off. Before net and directory: dropped first.
    processes: Vec<Option<Process>>,
    held: Vec<bool>,
    net: Net,
    roster: Roster,
    dir: Directory,
}

impl Fleet {
    /// Room for so many nodes, which all get these flags, in so many failure domains; none is
    /// started. The calling thread, and all that it starts from now on, are where the clients are.
    pub fn new(binary: &str, nodes: usize, domains: usize, flags: &[String]) -> Outcome<Self> {
        let path = fs::canonicalize(binary).map_err(|error| format!("{binary}: {error}"))?;
        let dir = Directory::new("rearrange")?;
        dir.write_secret()?;
        let net = Net::new(nodes);
        net.clients().enter()?;
        Ok(Self {
            binary: path.to_string_lossy().into_owned(),
            flags: flags.to_vec(),
            domains,
            processes: (0..nodes).map(|_| None).collect(),
            held: vec![false; nodes],
            net,
            roster: Roster::default(),
            dir,
        })
    }

    /// Where its files are.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Whether each node has a network namespace.
    pub fn is_in_namespaces(&self) -> bool {
        !self.net.names().is_empty()
    }

    /// The running nodes.
    pub fn roster(&self) -> Roster {
        self.roster.clone()
    }

    fn at(&self, node: usize, port: u16) -> SocketAddr {
        (self.net.node(node).ip, port).into()
    }

    /// Where Redis clients of a node connect.
    pub fn resp(&self, node: usize) -> SocketAddr {
        self.at(node, RESP)
    }

    /// What it is called.
    pub fn name(node: usize) -> String {
        format!("node-{node}")
    }

    /// The failure domain of a node: those of the same one follow each other. 0 if there are none.
    pub fn domain(&self, node: usize) -> usize {
        match self.domains {
            0 => 0,
            domains => (node - 1) / self.processes.len().div_ceil(domains) + 1,
        }
    }

    /// Starts a node, with the files that it may have; returns when it serves.
    pub fn start(&mut self, node: usize) -> Outcome<()> {
        self.launch(node)?;
        self.wait_until_ready(node)
    }

    /// Starts nodes at the same moment; returns when all serve.
    pub fn start_all(&mut self, nodes: &[usize]) -> Outcome<()> {
        nodes.iter().try_for_each(|node| self.launch(*node))?;
        nodes.iter().try_for_each(|node| self.wait_until_ready(*node))
    }

    fn wait_until_ready(&mut self, node: usize) -> Outcome<()> {
        let at = self.at(node, HTTP);
        let ready = || http::ask(at, ANSWER_MAX, "GET", "/health/ready", "").is_ok_and(is_200);
        Ok(self.process(node)?.wait_until(&Self::name(node), ready)?)
    }

    fn launch(&mut self, node: usize) -> Outcome<()> {
        let site = self.net.node(node);
        let mut command = site.command(&self.binary);
        command.args(["start", "--native", "off", "--name", &Self::name(node)]);
        command.arg("--dir").arg(self.dir().join(format!("data-{node}")));
        command.arg("--peer-secret-file").arg(self.dir().join("secret"));
        for (name, port) in [("resp", RESP), ("http", HTTP), ("peer", PEER)] {
            command.arg(format!("--{name}")).arg(self.at(node, port).to_string());
        }
        if !site.ip.is_loopback() {
            command.arg("--insecure");
        }
        if node > 1 {
            let seeds = (1..=SEEDS.min(self.processes.len())).filter(|seed| *seed != node);
            let seeds: Vec<String> = seeds.map(|seed| self.at(seed, PEER).to_string()).collect();
            command.arg("--join").arg(seeds.join(","));
        }
        if self.domains > 0 {
            command.arg("--domain").arg(format!("room-{}", self.domain(node)));
        }
        command.args(&self.flags);
        let output = self.dir().join(format!("output-{node}.txt"));
        let process = Process::start(command, &output)?;
        self.processes[node - 1] = Some(process);
        if !self.held[node - 1] {
            self.seat(node);
        }
        Ok(())
    }

    /// It answers by HTTP from now on, or soon.
    fn seat(&self, node: usize) {
        let http = self.at(node, HTTP);
        let pid = self.processes[node - 1].as_ref().map(Process::pid);
        self.seats(|seats| seats.extend(pid.map(|pid| RunningNode { node, pid, http })));
    }

    /// Starts a node that reaches no other before it is released, and says nothing until then.
    /// Without namespaces it is started only then; returns whether it runs.
    pub fn hold(&mut self, node: usize) -> Outcome<bool> {
        self.held[node - 1] = true;
        if !can_cut() {
            return Ok(false);
        }
        let others = (1..=self.processes.len()).filter(|other| *other != node);
        others.for_each(|other| self.net.bar(node, other));
        self.launch(node)?;
        Ok(true)
    }

    /// Lets a node join that was held.
    pub fn release(&mut self, node: usize) -> Outcome<()> {
        self.held[node - 1] = false;
        if self.processes[node - 1].is_none() {
            return self.launch(node);
        }
        self.net.admit(node);
        self.seat(node);
        Ok(())
    }

    /// kill -9.
    pub fn kill(&mut self, node: usize) {
        self.vacate(node);
        self.processes[node - 1] = None;
    }

    /// kill -9 of several before any of them is waited for.
    pub fn kill_all(&mut self, nodes: &[usize]) -> Outcome<()> {
        for node in nodes {
            self.vacate(*node);
            self.process(*node)?.signal(Signal::Kill)?;
        }
        nodes.iter().for_each(|node| self.kill(*node));
        Ok(())
    }

    /// SIGTERM: it hands over what it leads, and ends. Returns when it has.
    pub fn stop(&mut self, node: usize) -> Outcome<()> {
        self.vacate(node);
        let process = self.process(node)?;
        process.signal(Signal::Terminate)?;
        let ended = process.wait_for(STOP_MAX)?;
        self.kill(node);
        if ended.success() { Ok(()) } else { Err(format!("node {node} stops: {ended}").into()) }
    }

    fn process(&mut self, node: usize) -> Outcome<&mut Process> {
        Ok(self.processes[node - 1].as_mut().ok_or("the node is off")?)
    }

    fn vacate(&self, node: usize) {
        self.seats(|seats| seats.retain(|seat| seat.node != node));
    }

    /// Partitions the network: all packets between the two sides are lost.
    pub fn part(&mut self, one: &[usize], other: &[usize]) {
        for (here, there) in
            one.iter().flat_map(|here| other.iter().map(move |there| (here, there)))
        {
            self.net.silence(*here, *there);
            self.net.silence(*there, *here);
        }
    }

    /// Isolates a node: it reaches no other, and none reaches it; attempts are refused. Clients
    /// still reach it.
    pub fn isolate(&mut self, node: usize) {
        for other in (1..=self.processes.len()).filter(|other| *other != node) {
            self.net.bar(node, other);
            self.net.bar(other, node);
        }
    }

    /// Drops packets from one node to another.
    pub fn silence(&mut self, from: usize, to: usize) {
        self.net.silence(from, to);
    }

    /// Undoes all cuts.
    pub fn heal(&mut self) {
        self.net.heal();
    }

    /// Runs the program beside the clients: whether it ends well, and what it prints.
    pub fn run(&self, arguments: &[&str], node: usize) -> Outcome<(bool, String)> {
        let at = self.at(node, HTTP).to_string();
        let mut command = self.net.clients().command(&self.binary);
        let output = command.args(arguments).args(["--http", &at]).output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    }

    /// Copies the nodes' logs to `dir`, as node-N.log.
    pub fn keep_logs(&self, dir: &Path) -> Outcome<()> {
        fs::create_dir_all(dir)?;
        for node in 1..=self.processes.len() {
            let said = self.dir().join(format!("output-{node}.txt"));
            if said.exists() {
                fs::copy(said, dir.join(format!("node-{node}.log")))?;
            }
        }
        Ok(())
    }

    fn seats(&self, change: impl FnOnce(&mut Vec<RunningNode>)) {
        change(&mut self.roster.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The nodes that run and are not held.
    pub fn running(&self) -> Vec<usize> {
        let runs = |node: &usize| self.processes[node - 1].is_some() && !self.held[node - 1];
        (1..=self.processes.len()).filter(runs).collect()
    }

    /// Waits until all that run see each other.
    pub fn wait_until_formed(&self) -> Outcome<()> {
        let (began, running) = (Instant::now(), self.running());
        loop {
            let sees_all = |node: &usize| {
                let status = self.get(*node, "/v1/status");
                status.is_ok_and(|said| said["cluster"]["members_up"] == running.len())
            };
            if running.iter().all(sees_all) {
                return Ok(());
            }
            if began.elapsed() > FORM_MAX {
                return Err(format!("{} nodes do not form a cluster", running.len()).into());
            }
            sleep(Duration::from_millis(100));
        }
    }

    /// What a node answers a GET.
    pub fn get(&self, node: usize, path: &str) -> Outcome<Value> {
        get(self.at(node, HTTP), path, ANSWER_MAX)
    }

    /// Has a node do something; what it answers.
    pub fn post(&self, node: usize, path: &str, body: &str) -> Outcome<Value> {
        let (status, said) = http::ask(self.at(node, HTTP), ANSWER_MAX, "POST", path, body)?;
        match status {
            ..300 => Ok(serde_json::from_str(&said).unwrap_or_default()),
            _ => Err(format!("POST {path}: {status} {said}").into()),
        }
    }
}

/// What an address answers a GET, as JSON.
pub fn get(at: SocketAddr, path: &str, answer_max: Duration) -> Outcome<Value> {
    let (status, said) = http::ask(at, answer_max, "GET", path, "")?;
    if status != 200 {
        return Err(format!("GET {path}: {status} {said}").into());
    }
    Ok(serde_json::from_str(&said)?)
}

fn is_200((status, _): (u16, String)) -> bool {
    status == 200
}
