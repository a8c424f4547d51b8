//! Some nodes that are one cluster, with as many shards as wanted.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Outcome, http};
use harness::node::Node;
use harness::process::Directory;

/// The most nodes.
pub const NODES_MAX: usize = 16;
/// What each node is started with.
const FLAGS: [&str; 8] =
    ["--memory-max", "1GiB", "--threads", "1", "--merge-bytes", "off", "--split-rate", "off"];
/// How long the cluster may take to come to rest.
const REST_MAX: Duration = Duration::from_secs(180);

/// The cluster. Dropping it kills the nodes and removes their files.
pub struct Nodes {
    resp: Vec<u16>,
    http: Vec<u16>,
    /// Before their directory: dropped first.
    _nodes: Vec<Node>,
    _dir: Directory,
}

impl Nodes {
    /// Starts them on empty directories; returns when all serve.
    pub fn start(binary: &str, count: usize) -> Outcome<Self> {
        let dir = Directory::new("carillon")?;
        dir.write_secret()?;
        let name = |number| format!("node-{number}");
        let mut nodes: Vec<Node> =
            (1..=count).map(|number| Node::new(binary, dir.path(), &name(number))).collect();
        let first = nodes[0].peer.to_string();
        for (place, node) in nodes.iter_mut().enumerate() {
            let join = if place == 0 { &[][..] } else { &["--join", &first] };
            node.start(&[&FLAGS, join].concat());
        }
        nodes.iter_mut().for_each(Node::wait_until_ready);
        let resp = nodes.iter().map(|node| node.resp.port()).collect();
        let http = nodes.iter().map(|node| node.http.port()).collect();
        Ok(Self { resp, http, _nodes: nodes, _dir: dir })
    }

    /// Where Redis clients of each node connect.
    pub fn resp(&self) -> &[u16] {
        &self.resp
    }

    /// Makes keyspace 0 a file of linear hashing, has it grow until it has so many buckets, and
    /// waits until all have their replicas and every node leads about its part.
    pub fn grow(&self, wanted: usize) -> Outcome<()> {
        let keyspace = r#"{"name": "0", "placement": "linear-hash", "replicas": 3}"#;
        self.wait(
            || {
                // There is one from the beginning, which is a hashed one.
                http::request(self.http[0], "DELETE", "/v1/keyspaces/0", "")?;
                Ok((200..300).contains(&self.post("/v1/keyspaces", keyspace)?))
            },
            "keyspace 0 to be made anew",
        )?;
        let mut told = Instant::now();
        self.wait(
            || {
                let shards = self.shards()?;
                if told.elapsed() > Duration::from_secs(5) {
                    told = Instant::now();
                    println!("{} shards", shards.len());
                }
                // What was asked of a leader is forgotten with its lead: asked until it is done.
                if let Some(id) = next_to_cut(&shards) {
                    self.post(&format!("/v1/shards/{id}/split"), "{}")?;
                }
                Ok(shards.len() >= wanted)
            },
            "the file to grow",
        )?;
        self.wait(|| self.is_at_rest(wanted), "replicas and leaders to find their places")
    }

    /// Asks one node after the other until one does it: of a shard, whichever leads it. The last
    /// status.
    fn post(&self, path: &str, body: &str) -> Outcome<u16> {
        let mut status = 0;
        for port in &self.http {
            status = http::request(*port, "POST", path, body)?;
            if (200..300).contains(&status) {
                break;
            }
        }
        Ok(status)
    }

    /// The shards of keyspace 0, as the first node knows them.
    fn shards(&self) -> Outcome<Vec<Value>> {
        let found: Value =
            serde_json::from_str(&http::body(self.http[0], "/v1/shards?keyspace=0")?)?;
        Ok(found["shards"].as_array().cloned().unwrap_or_default())
    }

    /// Whether all shards have their replicas, and no node leads more than twice its part.
    fn is_at_rest(&self, wanted: usize) -> Outcome<bool> {
        let shards = self.shards()?;
        let is_whole = |shard: &Value| {
            shard["replicas_live"].as_u64() >= shard["replicas_wanted"].as_u64()
                && shard["changing"] == Value::Bool(false)
                && !shard["leader"].is_null()
        };
        let mut led: Vec<&str> = shards.iter().filter_map(|s| s["leader"].as_str()).collect();
        led.sort_unstable();
        let most = led.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
        let is_even = most <= 2 * wanted.div_ceil(self.http.len());
        Ok(shards.len() == wanted && shards.iter().all(is_whole) && is_even)
    }

    fn wait(&self, mut done: impl FnMut() -> Outcome<bool>, what: &str) -> Outcome<()> {
        let began = Instant::now();
        while !done()? {
            if began.elapsed() > REST_MAX {
                return Err(format!("waited {} s for {what}", REST_MAX.as_secs()).into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Of all nodes: how many requests went by this lookup in this form, their hops, and how many
    /// found nobody.
    pub fn counted(&self, lookup: &str, form: &str) -> Outcome<[f64; 3]> {
        let mut sums = [0.0; 3];
        let labels = format!(r#"{{lookup="{lookup}",form="{form}"}} "#);
        let names = [
            "carillon_lookup_hops_count",
            "carillon_lookup_hops_sum",
            "carillon_lookup_failures_total",
        ];
        for port in &self.http {
            let metrics = http::body(*port, "/metrics")?;
            for (sum, name) in sums.iter_mut().zip(names) {
                let head = format!("{name}{labels}");
                let line = metrics.lines().find_map(|line| line.strip_prefix(&head));
                *sum += line.and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0);
            }
        }
        Ok(sums)
    }
}

/// The bucket at the split pointer: of *n* buckets, of which 2^i or more, the one numbered n - 2^i.
/// A bucket's start, its bits turned about, is its number.
fn next_to_cut(shards: &[Value]) -> Option<u64> {
    let pointer = shards.len() as u64 - (1 << shards.len().checked_ilog2()?);
    let number = |shard: &Value| match shard["arc"][0].as_str()? {
        "" => Some(0),
        hex => u64::from_str_radix(hex, 16).ok().map(u64::reverse_bits),
    };
    shards.iter().find(|shard| number(shard) == Some(pointer))?["id"].as_u64()
}
