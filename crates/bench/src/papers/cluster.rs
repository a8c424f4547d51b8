//! Nodes of Carillon on this machine, as many as wanted; each can be killed and started again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::http::{Client, KeyspaceSpec};
use harness::ports::unused;
use harness::process::{Directory, Process};
use harness::resp::{Connection, TextReply};
use serde_json::Value;

use crate::{Outcome, machine};

/// How long nodes may take to serve, and shards to come to rest.
const REST_TIMEOUT: Duration = Duration::from_secs(120);
/// How long shards may take to be spread evenly: after that they are measured as they are.
const EVEN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a table may take to grow.
const GROW_TIMEOUT: Duration = Duration::from_secs(300);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Keys that are written and deleted, to see that all shards take writes: some for each shard.
const PROBES: u64 = 48;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// How long a node may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// What each node is started with: nothing moves but what the measurement moves.
const FLAGS: [&str; 8] =
    ["--memory-max", "1GiB", "--threads", "1", "--merge-bytes", "off", "--split-rate", "off"];

/// A protocol that nodes serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The Redis protocol.
    Resp,
    /// HTTP.
    Http,
    /// Native frames.
    Native,
}

struct Node {
    process: Option<Process>,
    resp: SocketAddr,
    http: SocketAddr,
    native: SocketAddr,
    peer: SocketAddr,
}

/// The nodes. Dropping it ends them and removes their files.
pub struct Cluster {
    /// Before their directory: dropped first.
    nodes: Vec<Node>,
    program: PathBuf,
    flags: Vec<String>,
    dir: Directory,
}

impl Cluster {
    /// Starts so many nodes on empty directories; returns when all serve and keyspace 0 is at rest.
    ///
    /// # Errors
    /// A node does not start or serve in time.
    pub fn start(program: &Path, count: usize) -> Outcome<Self> {
        Self::start_with(program, count, &[])
    }

    /// The same, with flags besides.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub fn start_with(program: &Path, count: usize, flags: &[&str]) -> Outcome<Self> {
        let dir = Directory::new("papers")?;
        dir.write_secret()?;
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut cluster = Self { nodes: Vec::new(), program: program.to_owned(), flags, dir };
        for _ in 0..count {
            cluster.launch()?;
        }
        for number in 0..count {
            cluster.wait_until_ready(number)?;
        }
        cluster.wait_until_at_rest()?;
        Ok(cluster)
    }

    fn launch(&mut self) -> Outcome<usize> {
        let [resp, http, native, peer] = [(); 4].map(|()| unused());
        self.nodes.push(Node { process: None, resp, http, native, peer });
        let number = self.nodes.len() - 1;
        self.bring_back(number)?;
        Ok(number)
    }

    /// Starts one more node; returns when it serves.
    ///
    /// # Errors
    /// It does not.
    pub fn add(&mut self) -> Outcome<usize> {
        let number = self.launch()?;
        self.wait_until_ready(number)?;
        Ok(number)
    }

    /// Starts a node that was killed on what its directory holds.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn bring_back(&mut self, number: usize) -> Outcome<()> {
        let first = self.nodes[0].peer;
        let node = &mut self.nodes[number];
        let mut command = Command::new(&self.program);
        command.arg("start").arg("--dir").arg(self.dir.path().join(format!("n{number}")));
        command.args(["--resp", &node.resp.to_string(), "--http", &node.http.to_string()]);
        command.args(["--native", &node.native.to_string(), "--name", &format!("n{number}")]);
        command.args(["--peer", &node.peer.to_string(), "--peer-secret-file"]);
        command.arg(self.dir.path().join("secret")).args(FLAGS).args(&self.flags);
        command.env("NO_COLOR", "1");
        if number > 0 {
            command.args(["--join", &first.to_string()]);
        }
        let log = self.dir.path().join(format!("n{number}.log"));
        node.process = Some(Process::start(command, &log)?);
        Ok(())
    }

    /// kill -9.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self, number: usize) -> Outcome<()> {
        if let Some(mut process) = self.nodes[number].process.take() {
            process.kill()?;
        }
        Ok(())
    }

    fn wait_until_ready(&mut self, number: usize) -> Outcome<()> {
        let begun = Instant::now();
        let client = self.client(number)?;
        loop {
            if client.status().is_ok_and(|status| status["ready"] == true) {
                return Ok(());
            }
            let process = self.nodes[number].process.as_mut();
            let Some(process) = process else { return Err("the node is off".into()) };
            if let Some(status) = process.ended()? {
                let words = process.last_words();
                return Err(format!("node {number} has ended by itself ({status}): {words}").into());
            }
            if begun.elapsed() > REST_TIMEOUT {
                return Err(format!("node {number} does not serve").into());
            }
            sleep(LOOK);
        }
    }

    fn client(&self, number: usize) -> Outcome<Client> {
        Ok(Client::new(&self.nodes[number].http.to_string())?)
    }

    /// Makes keyspace 0 anew, with so many replicas and this durability; returns at rest.
    ///
    /// # Errors
    /// The cluster refuses.
    pub fn remake_keyspace(
        &self,
        replicas: u8,
        durability: &str,
        retention_ms: Option<u64>,
    ) -> Outcome<()> {
        self.replace_keyspace(&KeyspaceSpec {
            name: "0".to_owned(),
            placement: None,
            durability: Some(durability.to_owned()),
            retention_ms,
            replicas: Some(replicas),
            skip_equal_writes: None,
            volume: None,
        })?;
        self.wait_until_at_rest()
    }

    fn replace_keyspace(&self, spec: &KeyspaceSpec) -> Outcome<()> {
        let client = self.client(0)?;
        let begun = Instant::now();
        loop {
            // There is one from the beginning; or the last try dropped it.
            let _dropped = client.keyspace_drop("0");
            match client.keyspace_create(spec) {
                Ok(_) => return Ok(()),
                Err(why) if begun.elapsed() > REST_TIMEOUT => return Err(why.into()),
                Err(_) => sleep(LOOK),
            }
        }
    }

    /// Makes keyspace 0 a linear-hash table of three replicas, and has it grow to so many shards: a
    /// power of two, so that all arcs have one width. Returns at rest.
    ///
    /// # Errors
    /// The cluster refuses, or takes too long.
    pub fn grow_table(&self, shards: usize) -> Outcome<()> {
        self.replace_keyspace(&KeyspaceSpec {
            name: "0".to_owned(),
            placement: Some("linear-hash".to_owned()),
            durability: None,
            retention_ms: None,
            replicas: Some(3),
            skip_equal_writes: None,
            volume: None,
        })?;
        let begun = Instant::now();
        loop {
            let found = self.client(0)?.shards(Some("0"))?;
            let all = found["shards"].as_array().cloned().unwrap_or_default();
            if all.len() >= shards {
                return self.wait_until_at_rest();
            }
            if begun.elapsed() > GROW_TIMEOUT {
                return Err(format!("keyspace 0 has {} shards of {shards}", all.len()).into());
            }
            // What was asked of a leader is forgotten with its lead: asked until it is done, of one
            // node after the other.
            if let Some(shard) = next_to_split(&all) {
                let mut nodes = (0..self.nodes.len()).filter_map(|node| self.client(node).ok());
                // If none leads it at present, the next look asks again.
                let _asked = nodes.any(|client| client.split(shard, None).is_ok());
            }
            sleep(LOOK);
        }
    }

    /// Of all nodes: how many requests went by this lookup in this form, their hops, and how many
    /// did not find the owner.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn lookups(&self, lookup: &str, form: &str) -> Outcome<[f64; 3]> {
        let labels = format!("{{lookup=\"{lookup}\",form=\"{form}\"}}");
        let names = ["lookup_hops_count", "lookup_hops_sum", "lookup_failures_total"];
        let heads = names.map(|name| format!("carillon_{name}{labels} "));
        let mut sums = [0.0; 3];
        for (number, _) in self.running() {
            let text = self.client(number)?.metrics()?;
            for (sum, head) in sums.iter_mut().zip(&heads) {
                let line = text.lines().find_map(|line| line.strip_prefix(head.as_str()));
                *sum += line.and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0);
            }
        }
        Ok(sums)
    }

    /// Waits until all shards have a leader and their replicas, nodes lead about equal parts, and
    /// each node takes writes.
    ///
    /// # Errors
    /// They do not.
    pub fn wait_until_at_rest(&self) -> Outcome<()> {
        let begun = Instant::now();
        let client = self.client(0)?;
        loop {
            let (is_whole, is_even) =
                client.shards(Some("0")).map_or((false, false), |shards| self.rest(&shards));
            let is_late = begun.elapsed() > EVEN_TIMEOUT;
            if is_whole && (is_even || is_late) && self.takes_writes() {
                return Ok(());
            }
            if begun.elapsed() > REST_TIMEOUT {
                return Err("the shards of keyspace 0 do not come to rest".into());
            }
            sleep(LOOK);
        }
    }

    /// Whether all shards are whole, and whether no node leads two more than its part.
    fn rest(&self, shards: &Value) -> (bool, bool) {
        let shards = shards["shards"].as_array().map_or(&[][..], Vec::as_slice);
        let is_whole = |shard: &Value| {
            // Fewer nodes than replicas cannot hold them all.
            let wanted = shard["replicas_wanted"].as_u64().unwrap_or(1);
            let nodes = self.nodes.len() as u64;
            let least = if nodes < 3 { 1 } else { wanted.min(nodes) };
            shard["replicas_live"].as_u64() >= Some(least)
                && shard["changing"] == false
                && !shard["leader"].is_null()
        };
        let mut leaders: Vec<&str> = shards.iter().filter_map(|s| s["leader"].as_str()).collect();
        leaders.sort_unstable();
        let most = leaders.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
        let part = shards.len().div_ceil(self.nodes.len());
        (!shards.is_empty() && shards.iter().all(is_whole), most <= part + 1)
    }

    fn takes_writes(&self) -> bool {
        let probe = |number: usize, verb: &str, rest: &[&str]| -> Option<()> {
            let at = self.nodes[number].resp;
            let mut connection = Connection::open(at, ANSWER_TIMEOUT, ANSWER_TIMEOUT).ok()?;
            for key in 0..PROBES {
                let key = format!("ready-{key}");
                let words = [&[verb, &key], rest].concat();
                let reply = connection.ask(&words).ok()?;
                if let TextReply::Error(_) = reply {
                    return None;
                }
            }
            Some(())
        };
        let all = || self.running().map(|(number, _)| number);
        all().all(|number| probe(number, "SET", &["1"]).is_some())
            && all().next().is_some_and(|number| probe(number, "DEL", &[]).is_some())
    }

    /// How many nodes there are, running or not.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Where clients reach the nodes that run.
    pub fn addresses(&self, door: Door) -> Vec<String> {
        let on = self.nodes.iter().filter(|node| node.process.is_some());
        let address = |node: &Node| match door {
            Door::Resp => node.resp.to_string(),
            Door::Http => node.http.to_string(),
            Door::Native => node.native.to_string(),
        };
        on.map(address).collect()
    }

    fn running(&self) -> impl Iterator<Item = (usize, u32)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(number, node)| Some((number, node.process.as_ref()?.pid())))
    }

    /// Processor time of all nodes that run, in seconds.
    pub fn cpu(&self) -> f64 {
        self.running().map(|(_, pid)| machine::cpu_seconds(pid).unwrap_or(0.0)).sum()
    }

    /// Resident memory of all nodes that run, in bytes.
    pub fn memory(&self) -> u64 {
        self.running().map(|(_, pid)| machine::rss_bytes(pid).unwrap_or(0)).sum()
    }

    /// Bytes of their files.
    pub fn disk(&self) -> u64 {
        machine::disk_bytes(self.dir.path()).unwrap_or(0)
    }

    /// A metric (without its prefix), summed over nodes and labels.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn metric(&self, name: &str) -> Outcome<f64> {
        let head = format!("carillon_{name}");
        let mut sum = 0.0;
        for (number, _) in self.running() {
            let text = self.client(number)?.metrics()?;
            sum += text.lines().filter_map(|line| sample(line, &head)).sum::<f64>();
        }
        Ok(sum)
    }

    /// Messages that the nodes have sent to each other, by type.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn messages(&self) -> Outcome<BTreeMap<String, f64>> {
        let mut sums = BTreeMap::new();
        for (number, _) in self.running() {
            let text = self.client(number)?.metrics()?;
            let lines = text.lines().filter(|line| line.contains("direction=\"sent\""));
            for line in lines {
                let Some(count) = sample(line, "carillon_messages_total") else { continue };
                let name = line.split("type=\"").nth(1).and_then(|rest| rest.split('"').next());
                *sums.entry(name.unwrap_or("?").to_owned()).or_insert(0.0) += count;
            }
        }
        Ok(sums)
    }

    /// Keys that each node holds.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn keys(&self) -> Outcome<Vec<f64>> {
        let keys = self.running().map(|(number, _)| {
            let status = self.client(number)?.status()?;
            status["keys"].as_f64().ok_or_else(|| "the status names no keys".into())
        });
        keys.collect()
    }

    /// How many versions of a key are kept.
    ///
    /// # Errors
    /// The node does not answer.
    pub fn versions(&self, key: &str) -> Outcome<u64> {
        let history = self.client(0)?.history("0", key.as_bytes(), 1000, None)?;
        Ok(history["changes"].as_array().map_or(0, Vec::len) as u64)
    }
}

/// The bucket at the split pointer of a linear-hash table: of *n* buckets, of which 2^i or more,
/// the one numbered n − 2^i. A bucket's start, its bits in reverse, is its number.
fn next_to_split(shards: &[Value]) -> Option<u64> {
    let pointer = shards.len() as u64 - (1 << shards.len().checked_ilog2()?);
    let number = |shard: &Value| match shard["arc"][0].as_str()? {
        "" => Some(0),
        hex => u64::from_str_radix(hex, 16).ok().map(u64::reverse_bits),
    };
    shards.iter().find(|shard| number(shard) == Some(pointer))?["id"].as_u64()
}

/// The value of a line of metrics, if it is of this name.
fn sample(line: &str, name: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let value = rest.starts_with([' ', '{']).then(|| rest.rsplit(' ').next())??;
    value.parse().ok()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            if process.stop(STOP_TIMEOUT).is_err() {
                // It has ended in this moment, or ends now.
                let _ended = process.kill();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bucket_at_the_pointer_is_split_next() {
        let shard = |id: u64, start: &str| json!({ "id": id, "arc": [start, ""] });
        let two = [shard(7, ""), shard(8, "8000000000000000")];
        assert_eq!(next_to_split(&two[..1]), Some(7));
        assert_eq!(next_to_split(&two), Some(7), "a round begins again");
        let three = [two[0].clone(), two[1].clone(), shard(9, "4000000000000000")];
        assert_eq!(next_to_split(&three), Some(8), "the one that the others have passed");
        assert_eq!(next_to_split(&[]), None);
    }
}
