//! Nodes of Carillon, as many as wanted; each can be killed and started again. They run on this
//! machine, or on those of agents, in turn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::http::{Client, KeyspaceSpec};
use harness::resp::{Connection, TextReply};
use serde_json::Value;

use super::Bed;
use super::hosts::{Hosts, far_hosts, give_signs_of_life};
use super::load::{Agents, Reach};
use crate::Outcome;
use crate::run::host::{Host, NodeSignal, Place, THIS_PROGRAM, ThisHost, random_hex};
use crate::run::proc::ProcessCounts;
use crate::run::{RunError, resolve};

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
    /// The network block device protocol, of nodes started for volumes.
    Nbd,
}

struct Node {
    place: Place,
    is_on: bool,
}

impl Node {
    /// Where it listens: one of its ports.
    fn at(&self, port: usize) -> String {
        format!("{}:{}", self.place.host, self.place.ports[port])
    }
}

/// Which port is for what.
const RESP: usize = 0;
const HTTP: usize = 1;
const NATIVE: usize = 2;
/// Of nodes started for volumes, which have no native frames.
const NBD: usize = NATIVE;
const PEER: usize = 3;

/// The nodes. Dropping it ends them and removes their files.
pub struct Cluster {
    nodes: Vec<Node>,
    /// Node n is on the host n modulo their number.
    hosts: Arc<Mutex<Hosts>>,
    agents: Option<Arc<Agents>>,
    program: String,
    flags: Vec<String>,
    secret: String,
    /// Whether they serve volumes, instead of native frames.
    has_volumes: bool,
}

impl Cluster {
    /// Starts so many nodes on empty directories; returns when all serve and keyspace 0 is at rest.
    ///
    /// # Errors
    /// A node does not start or serve in time.
    pub fn start(bed: &Bed<'_>, count: usize) -> Outcome<Self> {
        Self::start_with(bed, count, &[])
    }

    /// The same, with flags besides.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub fn start_with(bed: &Bed<'_>, count: usize, flags: &[&str]) -> Outcome<Self> {
        Self::start_serving(bed, count, flags, false)
    }

    /// The same; they serve volumes.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub fn start_volumes(bed: &Bed<'_>, count: usize, flags: &[&str]) -> Outcome<Self> {
        Self::start_serving(bed, count, flags, true)
    }

    fn start_serving(
        bed: &Bed<'_>,
        count: usize,
        flags: &[&str],
        has_volumes: bool,
    ) -> Outcome<Self> {
        let agents = bed.agents.clone();
        let (hosts, program) = match &agents {
            None => {
                let this: Box<dyn Host + Send> = Box::new(ThisHost::new("127.0.0.1", None)?);
                (vec![this], bed.program.to_string_lossy().into_owned())
            }
            Some(agents) => (far_hosts(agents)?, THIS_PROGRAM.to_owned()),
        };
        let (hosts, flags) = (Arc::new(Mutex::new(hosts)), flags.iter().map(|f| (*f).to_owned()));
        if agents.is_some() {
            give_signs_of_life(&hosts);
        }
        let (flags, secret) = (flags.collect(), random_hex()?);
        let nodes = Vec::new();
        let mut cluster = Self { nodes, hosts, agents, program, flags, secret, has_volumes };
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
        let number = self.nodes.len();
        let place = self.on_host(number, |host| host.place(number, &self.secret))?;
        self.nodes.push(Node { place, is_on: false });
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
        let node = &self.nodes[number];
        let (dir, name) = (format!("{}/data", node.place.dir), format!("n{number}"));
        let (resp, http, native, peer) =
            (node.at(RESP), node.at(HTTP), node.at(NATIVE), node.at(PEER));
        let own = [
            &*self.program,
            "start",
            "--dir",
            &dir,
            "--name",
            &name,
            "--resp",
            &resp,
            "--http",
            &http,
            if self.has_volumes { "--nbd" } else { "--native" },
            &native,
            "--peer",
            &peer,
            "--peer-secret-file",
            &node.place.secret,
        ];
        // Only a loopback address is served without a password, unless this is said.
        let open = self.agents.is_some().then_some("--insecure");
        let own = own.into_iter().chain(FLAGS).chain(open).map(str::to_owned);
        let mut words: Vec<String> = own.chain(self.flags.iter().cloned()).collect();
        if self.has_volumes {
            words.extend(["--native", "off"].map(str::to_owned));
        }
        if number > 0 {
            words.extend(["--join".to_owned(), self.nodes[0].at(PEER)]);
        }
        self.on_host(number, |host| host.start(number, &words))?;
        self.nodes[number].is_on = true;
        Ok(())
    }

    /// kill -9.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self, number: usize) -> Outcome<()> {
        if std::mem::take(&mut self.nodes[number].is_on) {
            self.on_host(number, |host| host.signal(number, NodeSignal::Kill))?;
        }
        Ok(())
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something on the host of a node.
    fn on_host<T>(
        &self,
        number: usize,
        what: impl FnOnce(&mut dyn Host) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let mut hosts = self.hosts();
        let count = hosts.len();
        what(&mut *hosts[number % count])
    }

    fn wait_until_ready(&mut self, number: usize) -> Outcome<()> {
        let begun = Instant::now();
        let client = self.client(number)?;
        loop {
            if client.status().is_ok_and(|status| status["ready"] == true) {
                return Ok(());
            }
            if let Some((node, how)) = self.on_host(number, |host| host.ended())?.pop() {
                return Err(format!("node {node} has ended by itself {how}").into());
            }
            if begun.elapsed() > REST_TIMEOUT {
                return Err(format!("node {number} does not serve").into());
            }
            sleep(LOOK);
        }
    }

    /// A client of a node.
    ///
    /// # Errors
    /// Its address is none.
    pub fn client(&self, number: usize) -> Outcome<Client> {
        Ok(Client::new(&self.nodes[number].at(HTTP))?)
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
        for number in self.running() {
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

    /// Waits until all shards of a keyspace have a leader and their replicas, and nodes lead about
    /// equal parts.
    ///
    /// # Errors
    /// They do not.
    pub fn wait_until_keyspace_rests(&self, name: &str) -> Outcome<()> {
        let (begun, client) = (Instant::now(), self.client(0)?);
        loop {
            let found = client.shards(Some(name));
            let (is_whole, is_even) = found.map_or((false, false), |shards| self.rest(&shards));
            if is_whole && (is_even || begun.elapsed() > EVEN_TIMEOUT) {
                return Ok(());
            }
            if begun.elapsed() > REST_TIMEOUT {
                return Err(format!("the shards of keyspace {name} do not come to rest").into());
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
            let at = *resolve(&[self.nodes[number].at(RESP)]).ok()?.first()?;
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
        self.running().all(|number| probe(number, "SET", &["1"]).is_some())
            && self.running().next().is_some_and(|number| probe(number, "DEL", &[]).is_some())
    }

    /// How many nodes there are, running or not.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// How clients reach the nodes that run.
    pub fn reach(&self, door: Door) -> Reach {
        let port = match door {
            Door::Resp => RESP,
            Door::Http => HTTP,
            Door::Native => NATIVE,
            Door::Nbd => NBD,
        };
        let addresses = self.running().map(|number| self.nodes[number].at(port)).collect();
        Reach { addresses, agents: self.agents.clone() }
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|number| self.nodes[*number].is_on)
    }

    /// What all nodes that run have used.
    fn counts(&self) -> Vec<ProcessCounts> {
        let mut hosts = self.hosts();
        let counts = hosts.iter_mut().filter_map(|host| host.counts().ok());
        counts.flat_map(|counts| counts.nodes).map(|(_, counts)| counts).collect()
    }

    /// Processor time of all nodes that run, in seconds.
    pub fn cpu(&self) -> f64 {
        self.counts().iter().map(|counts| counts.cpu).sum()
    }

    /// Resident memory of all nodes that run, in bytes.
    pub fn memory(&self) -> u64 {
        self.counts().iter().map(|counts| counts.rss).sum()
    }

    /// Bytes of their files.
    pub fn disk(&self) -> u64 {
        self.counts().iter().map(|counts| counts.files).sum()
    }

    /// A metric (without its prefix), summed over nodes and labels.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn metric(&self, name: &str) -> Outcome<f64> {
        let head = format!("carillon_{name}");
        let mut sum = 0.0;
        for number in self.running() {
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
        for number in self.running() {
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
        let keys = self.running().map(|number| {
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
