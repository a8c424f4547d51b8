//! Nodes of a cluster without data, each with a port of its own, which stop at the end.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keyspace::{NodeId, VersionRange};
use server::cluster::{Identity, MemberInfo, MemberState, MembershipDriver, Options};
use server::peer::{self, Secret};

/// Anything that takes longer has failed.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A running node.
pub struct Node {
    pub cluster: Arc<MembershipDriver>,
    pub address: String,
    /// The cluster said that this node must end.
    pub ended: Arc<AtomicBool>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}

impl Node {
    pub fn id(&self) -> NodeId {
        self.cluster.node()
    }

    /// What it knows of another.
    pub fn sees(&self, node: NodeId) -> Option<MemberInfo> {
        self.cluster.members().iter().find(|member| member.node == node).cloned()
    }

    /// Nodes that are up, in the order of joining.
    pub fn up(&self) -> Vec<NodeId> {
        let members = self.cluster.members();
        members.iter().filter(|member| member.is_up()).map(|member| member.node).collect()
    }

    pub fn waits_for_state(&self, node: NodeId, state: MemberState) {
        eventually(&format!("{state:?} of {node}"), || {
            self.sees(node).is_some_and(|member| member.state == state)
        });
    }
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How a node of the tests is: it listens nowhere else, and asks these.
pub fn options(name: &str, seeds: &[&str]) -> Options {
    Options {
        name: name.into(),
        host: "127.0.0.1".into(),
        peer: String::new(),
        domain: format!("rack of {name}"),
        resp: Some(6379),
        resp_replica: None,
        native: None,
        http: Some(7480),
        resp_tls: None,
        http_tls: None,
        seeds: seeds.iter().map(|seed| (*seed).to_owned()).collect(),
        addresses: Vec::new(),
        secret: Secret::new(b"the secret of the tests"),
        tls: None,
        supported: VersionRange::OURS,
        net: peer::Options {
            ping: Duration::from_millis(100),
            dead: Duration::from_secs(2),
            handshake: Duration::from_secs(1),
            farewell: Duration::from_millis(100),
            ..peer::Options::default()
        },
    }
}

/// Who founds cluster `cluster` as `node`.
pub fn founder(cluster: u64, node: u64) -> Identity {
    let cluster = peer::Cluster { id: cluster, hash_seed: [3; 16] };
    Identity { node: NodeId(node), cluster, joined_at: 1_000 }
}

/// Starts a node on `port`, 0 for any.
pub fn start_on(port: u16, mut options: Options, identity: Option<Identity>) -> Node {
    let until = Instant::now() + TEST_TIMEOUT;
    let listener = loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => break listener,
            Err(error) => assert!(Instant::now() < until, "cannot listen on {port}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let address = listener.local_addr().unwrap().to_string();
    options.peer.clone_from(&address);
    let ended = Arc::new(AtomicBool::new(false));
    let on_fatal = {
        let ended = ended.clone();
        move || ended.store(true, Ordering::Release)
    };
    let cluster = MembershipDriver::start(options, identity, listener, on_fatal).unwrap();
    Node { cluster, address, ended }
}

/// Starts a node that has its identity.
pub fn start(name: &str, seeds: &[&str], identity: Identity) -> Node {
    start_on(0, options(name, seeds), Some(identity))
}

/// Starts a node on an empty directory, which joins through `seeds`.
pub fn join(name: &str, seeds: &[&str]) -> (Node, Identity) {
    let node = start_on(0, options(name, seeds), None);
    let until = Instant::now() + TEST_TIMEOUT;
    let identity = node.cluster.wait_for_identity(|| Instant::now() > until).expect("joined");
    node.cluster.begin();
    (node, identity)
}

/// A cluster of so many nodes, all of which joined through the first.
pub fn cluster(count: usize) -> Vec<(Node, Identity)> {
    let first = founder(7, 0x11);
    let mut nodes = vec![(start("first", &[], first), first)];
    for number in 1..count {
        let seed = nodes[0].0.address.clone();
        nodes.push(join(&format!("node {number}"), &[&seed]));
    }
    nodes
}

/// All of these are up for each other and linked in pairs.
pub fn all_know_all(nodes: &[&Node]) {
    for one in nodes {
        eventually("all are up", || one.up().len() == nodes.len());
        for other in nodes.iter().filter(|other| other.id() != one.id()) {
            eventually("a link", || one.cluster.is_connected(other.id()));
        }
    }
}
