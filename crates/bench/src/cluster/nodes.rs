//! Three Carillon nodes that are one cluster, each to be broken and brought back.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::resp::Connection;
use crate::server::free_ports;
use crate::{Outcome, http};
use harness::process::{Directory, Process, Signal};

/// Nodes of the cluster, which are its replicas too.
pub const NODES: usize = 3;
/// Shards of a keyspace, each an equal stretch of the slots.
pub const SHARDS: usize = 8;
/// Slots of a hashed keyspace.
const SLOTS: usize = 16_384;
/// How long shards may take to have all their replicas.
const REPLICATED_MAX: Duration = Duration::from_secs(60);
/// Replicas that have come are voters, and leaders have found their places, after this.
const SETTLE: Duration = Duration::from_secs(6);
/// How long anything that is asked here may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long nodes may take to stop at the end.
const STOP_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy)]
struct Ports {
    resp: u16,
    http: u16,
    peer: u16,
}

/// The cluster. Dropping it stops the nodes, kills those that take too long, and removes their
/// files.
pub struct Nodes {
    binary: String,
    ports: [Ports; NODES],
    /// None while it is down. Before the directory: dropped first.
    processes: [Option<Process>; NODES],
    dir: Directory,
}

impl Nodes {
    /// Starts them on empty directories; returns when keyspace 0 has its replicas.
    pub fn start(binary: &str) -> Outcome<Self> {
        let found = free_ports::<{ 3 * NODES }>()?;
        let ports = std::array::from_fn(|n| Ports {
            resp: found[3 * n],
            http: found[3 * n + 1],
            peer: found[3 * n + 2],
        });
        let dir = Directory::new("carillon")?;
        dir.write_secret()?;
        let processes = [None, None, None];
        let mut nodes = Self { binary: binary.to_owned(), ports, processes, dir };
        (0..NODES).try_for_each(|node| nodes.launch(node))?;
        (0..NODES).try_for_each(|node| nodes.wait_until_ready(node))?;
        nodes.wait_until_replicated()?;
        sleep(SETTLE);
        Ok(nodes)
    }

    /// Starts a node on what its directory holds.
    pub fn launch(&mut self, node: usize) -> Outcome<()> {
        let Ports { resp, http, peer } = self.ports[node];
        let mut command = Command::new(&self.binary);
        command.args(["start", "--native", "off", "--memory-max", "2GiB"]);
        command.args(["--name", &format!("node-{}", node + 1)]);
        command.arg("--dir").arg(self.dir.path().join(format!("data-{}", node + 1)));
        command.arg("--peer-secret-file").arg(self.dir.path().join("secret"));
        for (name, port) in [("resp", resp), ("http", http), ("peer", peer)] {
            command.arg(format!("--{name}")).arg(format!("127.0.0.1:{port}"));
        }
        if node > 0 {
            command.arg("--join").arg(format!("127.0.0.1:{}", self.ports[0].peer));
        }
        let output = self.dir.path().join(format!("output-{}.txt", node + 1));
        self.processes[node] = Some(Process::start(command, &output)?);
        Ok(())
    }

    /// Waits until a node says that it serves.
    pub fn wait_until_ready(&mut self, node: usize) -> Outcome<()> {
        let port = self.ports[node].http;
        let ready = || http::request(port, "GET", "/health/ready", "").is_ok_and(|s| s == 200);
        let process = self.processes[node].as_mut().ok_or("the node is down")?;
        Ok(process.wait_until(&format!("node {}", node + 1), ready)?)
    }

    /// Waits until all nodes hold the shards of keyspace 0, and each takes a write.
    pub fn wait_until_replicated(&self) -> Outcome<()> {
        let began = Instant::now();
        let holds_all = |node| self.shards(node).is_ok_and(|shards| shards >= SHARDS as u64);
        let mut connection = Connection::open_for(self.resp(0), ANSWER_MAX)?;
        let keys = self.keys_of_shards()?;
        // Before its shard has a leader a node refuses.
        while !(0..NODES).all(holds_all)
            || !keys.iter().all(|key| connection.call(&["SET", key, "0"]).is_ok())
        {
            if began.elapsed() > REPLICATED_MAX {
                return Err(format!("not all of {NODES} nodes hold {SHARDS} shards").into());
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// A key in each shard of keyspace 0.
    pub fn keys_of_shards(&self) -> Outcome<Vec<String>> {
        let mut connection = Connection::open_for(self.resp(0), ANSWER_MAX)?;
        let mut keys: Vec<Option<String>> = vec![None; SHARDS];
        let mut number = 0;
        while keys.iter().any(Option::is_none) {
            let key = format!("shard-{number}");
            let slot: usize = connection.call(&["CLUSTER", "KEYSLOT", &key])?.parse()?;
            keys[slot * SHARDS / SLOTS].get_or_insert(key);
            number += 1;
        }
        Ok(keys.into_iter().flatten().collect())
    }

    /// Makes a keyspace, of three replicas.
    pub fn create_keyspace(&self, name: &str) -> Outcome<()> {
        let body = format!(r#"{{"name":"{name}"}}"#);
        match http::request(self.ports[0].http, "POST", "/v1/keyspaces", &body)? {
            201 => Ok(()),
            status => Err(format!("keyspace {name}: HTTP {status}").into()),
        }
    }

    /// How many shards a node says it holds.
    pub fn shards(&self, node: usize) -> Outcome<u64> {
        let status = http::body(self.ports[node].http, "/v1/status")?;
        let status: serde_json::Value = serde_json::from_str(&status)?;
        status["shards"].as_u64().ok_or_else(|| "the status names no shards".into())
    }

    /// Where Redis clients of a node connect.
    pub fn resp(&self, node: usize) -> u16 {
        self.ports[node].resp
    }

    /// Where a node answers HTTP.
    pub fn http(&self, node: usize) -> u16 {
        self.ports[node].http
    }

    /// The process of a node, if it is up.
    pub fn process(&self, node: usize) -> Option<&Process> {
        self.processes[node].as_ref()
    }

    /// Process ids of those that are up.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().flatten().map(Process::pid).collect()
    }

    /// kill -9.
    pub fn kill(&mut self, node: usize) {
        self.processes[node] = None;
    }

    /// SIGTERM; returns when it has ended.
    pub fn stop(&mut self, node: usize) -> Outcome<()> {
        let Some(mut process) = self.processes[node].take() else { return Ok(()) };
        process.signal(Signal::Terminate)?;
        let status = process.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a stop ended with {status}").into()) }
    }

    /// Sends a node a signal.
    pub fn signal(&self, node: usize, signal: Signal) -> Outcome<()> {
        Ok(self.process(node).ok_or("the node is down")?.signal(signal)?)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // One that cannot be asked is down, and one that does not end is killed next.
        for node in 0..NODES {
            let _asked = self.signal(node, Signal::Terminate);
        }
        for process in self.processes.iter_mut().flatten() {
            let _ended = process.wait_for(STOP_MAX);
        }
    }
}
