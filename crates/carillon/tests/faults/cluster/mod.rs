//! Real nodes on a network of their own, to be broken on purpose.
//!
//! [`Cluster`] owns everything: processes, namespaces, mounts, the directory. All of it goes when
//! it is dropped, also in a panic; and if the test itself is killed, the kernel kills the nodes
//! with it and the next run removes the namespaces. After a failure the directory stays, and the
//! ends of the nodes' logs are printed.
//!
//! One cluster lives at a time: tests that measure how long something takes do not share a machine
//! with each other.

pub mod node;
pub mod proxy;

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use client::http::Client;

use harness::disk::SmallDisk;
use harness::net::Net;
use node::{HTTP, Node, PEER, RESP, flags};
use proxy::Proxy;

/// Longer than anything that must happen takes on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a node may take to say how it is, before it is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Nodes and what is between them. Fields are dropped in this order.
pub struct Cluster {
    nodes: Vec<Node>,
    proxies: Vec<Proxy>,
    disks: Vec<SmallDisk>,
    /// What is between them.
    pub net: Net,
    dir: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

/// How nodes reach each other.
#[derive(Clone, Copy, PartialEq)]
enum Links {
    /// They do not.
    None,
    /// At each other's addresses.
    Direct,
    /// By way of proxies.
    Proxies { seed: u64 },
}

impl Cluster {
    /// So many nodes that know each other, not started yet.
    pub fn new(nodes: usize) -> Self {
        Self::made(nodes, Links::Direct)
    }

    /// So many nodes that know each other by way of a proxy in front of each, not started yet.
    pub fn behind_proxies(nodes: usize, seed: u64) -> Self {
        Self::made(nodes, Links::Proxies { seed })
    }

    /// So many nodes that do not know each other, not started yet.
    pub fn strangers(nodes: usize) -> Self {
        Self::made(nodes, Links::None)
    }

    fn made(count: usize, links: Links) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A test that panicked while it held this lock has removed its cluster.
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("carillon-faults-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory can be made");
        write_secret(&dir.join("secret"));
        let net = Net::new(count);
        let listens = |number| SocketAddr::from((net.node(number).ip, PEER));
        let proxies: Vec<Proxy> = match links {
            Links::Proxies { seed } => (1..=count)
                .map(|number| Proxy::start(net.clients(), listens(number), seed + number as u64))
                .collect(),
            Links::None | Links::Direct => Vec::new(),
        };
        let reached = |number| proxies.get(number - 1).map_or(listens(number), |at| at.address);
        let nodes: Vec<Node> = (1..=count)
            .map(|number| {
                let (site, own) = (net.node(number).clone(), dir.join(format!("node-{number}")));
                let others = (1..=count).filter(|other| links != Links::None && *other != number);
                let others: Vec<_> = others.map(reached).collect();
                let flags = flags(number, &own, site.ip, reached(number), &others);
                Node::new(number, own, site, flags)
            })
            .collect();
        Self { nodes, proxies, disks: Vec::new(), net, dir, _turn: turn }
    }

    /// The proxies, in the order of their nodes.
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// Where everything is that it writes.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A node, counted from 1.
    pub fn node(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number - 1]
    }

    /// Puts a node's data on a small disk. False without root, if that may be skipped.
    pub fn on_small_disk(&mut self, number: usize, mib: u32) -> bool {
        let disk = SmallDisk::mount(&self.nodes[number - 1].dir, mib);
        let mounted = disk.is_some();
        self.disks.extend(disk);
        mounted
    }

    /// The small disks, in the order in which they were asked for.
    pub fn disk(&self, place: usize) -> &SmallDisk {
        &self.disks[place]
    }

    /// Starts all nodes that are off, and waits until all are ready.
    pub fn start(&mut self) {
        self.nodes.iter_mut().for_each(Node::start);
        self.wait_until_ready();
    }

    /// Starts a node again, and waits until it is ready.
    pub fn restart(&mut self, number: usize) {
        self.node(number).start();
        self.wait_until_ready();
    }

    /// Waits until every node says that it is ready.
    pub fn wait_until_ready(&mut self) {
        let begun = Instant::now();
        for place in 0..self.nodes.len() {
            let mut last = String::new();
            while !self.is_ready(place + 1, &mut last) {
                self.nodes[place].assert_runs();
                assert!(begun.elapsed() < TEST_TIMEOUT, "node {} is not ready: {last}", place + 1);
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn is_ready(&self, number: usize, last: &mut String) -> bool {
        let status = self.status(number);
        *last = format!("{status:?}");
        status.is_ok_and(|status| status["ready"] == true)
    }

    /// What a node says of itself.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn status(&self, number: usize) -> Result<serde_json::Value, client::http::ClientError> {
        let address = self.nodes[number - 1].at(HTTP).to_string();
        self.net.clients().inside(|| Client::new(&address)?.with_timeout(ANSWER_TIMEOUT).status())
    }

    /// Where Redis clients find each node.
    pub fn resp(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.at(RESP)).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            for node in &self.nodes {
                eprintln!("node {}:\n{}", node.number, node.last_words());
            }
            eprintln!("what they have written is in {}", self.dir.display());
        }
        self.nodes.clear();
        self.proxies.clear();
        self.disks.clear();
        if !thread::panicking() {
            let _removed = fs::remove_dir_all(&self.dir);
        }
    }
}

/// What the nodes know each other by; a node refuses one that others can read.
fn write_secret(path: &Path) {
    let mut random = [0; 32];
    let mut urandom = fs::File::open("/dev/urandom").expect("/dev/urandom");
    urandom.read_exact(&mut random).expect("random bytes");
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let options = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).to_owned();
    let mut file = options.open(path).expect("a file can be made");
    file.write_all(text.as_bytes()).expect("the file can be written");
}
