//! A cluster of three Carillon nodes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::resp::Connection;
use crate::{Outcome, http};
use harness::node::Node;
use harness::process::{Directory, Signal};

/// Nodes of the cluster, which are its replicas too.
pub const NODES: usize = 3;
/// Shards of a keyspace, each an equal range of the slots.
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

/// The cluster. Dropping it stops the nodes, kills those that take too long, and removes their
/// files.
pub struct Nodes {
    /// Before their directory: dropped first.
    nodes: Vec<Node>,
    _dir: Directory,
}

impl Nodes {
    /// Starts them on empty directories; returns when keyspace 0 has its replicas.
    pub fn start(binary: &str) -> Outcome<Self> {
        let dir = Directory::new("carillon")?;
        dir.write_secret()?;
        let name = |number| format!("node-{number}");
        let nodes = (1..=NODES).map(|number| Node::new(binary, dir.path(), &name(number)));
        let mut nodes = Self { nodes: nodes.collect(), _dir: dir };
        (0..NODES).for_each(|node| nodes.launch(node));
        (0..NODES).for_each(|node| nodes.wait_until_ready(node));
        nodes.wait_until_replicated()?;
        sleep(SETTLE);
        Ok(nodes)
    }

    /// Starts a node on what its directory holds.
    pub fn launch(&mut self, node: usize) {
        let first = self.nodes[0].peer.to_string();
        let join = if node == 0 { &[][..] } else { &["--join", &first] };
        self.nodes[node].start(&[&["--memory-max", "2GiB"], join].concat());
    }

    /// Waits until a node says that it serves.
    pub fn wait_until_ready(&mut self, node: usize) {
        self.nodes[node].wait_until_ready();
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

    /// How many shards a node says it holds.
    fn shards(&self, node: usize) -> Outcome<u64> {
        let status = http::body(self.http(node), "/v1/status")?;
        let status: serde_json::Value = serde_json::from_str(&status)?;
        status["shards"].as_u64().ok_or_else(|| "the status names no shards".into())
    }

    /// Where Redis clients of a node connect.
    pub fn resp(&self, node: usize) -> u16 {
        self.nodes[node].resp.port()
    }

    /// Where a node answers HTTP.
    pub fn http(&self, node: usize) -> u16 {
        self.nodes[node].http.port()
    }

    /// Process ids of those that are up.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().filter(|node| node.is_on()).map(Node::pid).collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // One that has ended by itself is down, and one that does not end is killed next.
        for node in self.nodes.iter_mut().filter(|node| node.is_on()) {
            node.signal(Signal::Terminate);
        }
        for node in self.nodes.iter_mut().filter(|node| node.is_on()) {
            node.ended_within(STOP_MAX);
        }
    }
}
