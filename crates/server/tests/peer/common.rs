//! Nets with a handler that writes down what it is told.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use keyspace::{NodeId, VersionRange};
use parking_lot::{Condvar, Mutex};
use server::peer::{
    Cluster, Local, Options, PeerHandler, PeerHello, PeerNet, Refusal, Secret, VERSIONS,
};

/// Anything that takes longer has failed.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// A frame that is sent back with the next kind.
pub const ECHO: u8 = 1;
/// What it is sent back as.
pub const ECHOED: u8 = 2;

/// What a handler was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Connected(NodeId, PeerHello),
    Disconnected(NodeId),
    Frame(NodeId, u8, Bytes),
    Refused(Refusal),
}

/// Keeps events until they are asked for, and sends echoes.
#[derive(Default)]
pub struct Notes {
    events: Mutex<Vec<Event>>,
    /// Every node's state, to check that calls alternate.
    connected: Mutex<BTreeMap<NodeId, bool>>,
    news: Condvar,
    net: Mutex<Option<Arc<PeerNet>>>,
    untold: Mutex<u64>,
}

impl Notes {
    fn note(&self, event: Event) {
        *self.untold.lock() += 1;
        self.events.lock().push(event);
        self.news.notify_all();
    }

    /// Waits for an event, which is taken out, and returns what `find` makes of it.
    pub fn wait<T>(&self, what: &str, mut find: impl FnMut(&Event) -> Option<T>) -> T {
        let until = Instant::now() + TEST_TIMEOUT;
        let mut events = self.events.lock();
        let mut seen = 0;
        loop {
            let found = events.iter().enumerate().skip(seen);
            if let Some((at, found)) = found.filter_map(|(at, e)| Some((at, find(e)?))).next() {
                events.remove(at);
                return found;
            }
            seen = events.len();
            assert!(!self.news.wait_until(&mut events, until).timed_out(), "no {what}: {events:?}");
        }
    }

    /// Waits for a link with a node.
    pub fn connected(&self, node: u64) -> PeerHello {
        self.wait("link", |event| match event {
            Event::Connected(n, hello) if n.0 == node => Some(hello.clone()),
            _ => None,
        })
    }

    /// Waits for the end of a link with a node.
    pub fn disconnected(&self, node: u64) {
        self.wait("end of a link", |event| {
            (*event == Event::Disconnected(NodeId(node))).then_some(())
        })
    }

    /// Waits for a refusal.
    pub fn refused(&self) -> Refusal {
        self.wait("refusal", |event| match event {
            Event::Refused(refusal) => Some(refusal.clone()),
            _ => None,
        })
    }

    /// Waits for a frame of a node.
    pub fn frame(&self, node: u64) -> (u8, Bytes) {
        self.wait("frame", |event| match event {
            Event::Frame(n, kind, body) if n.0 == node => Some((*kind, body.clone())),
            _ => None,
        })
    }

    /// All frames of a node so far.
    pub fn frames(&self, node: u64) -> Vec<(u8, Bytes)> {
        let frame = |event: &Event| match event {
            Event::Frame(n, kind, body) if n.0 == node => Some((*kind, body.clone())),
            _ => None,
        };
        self.events.lock().iter().filter_map(frame).collect()
    }
}

impl PeerHandler for Notes {
    fn connected(&self, node: NodeId, hello: &PeerHello) {
        assert!(!self.connected.lock().insert(node, true).unwrap_or(false), "in turn");
        self.note(Event::Connected(node, hello.clone()));
    }

    fn disconnected(&self, node: NodeId) {
        assert_eq!(self.connected.lock().insert(node, false), Some(true), "in turn");
        self.note(Event::Disconnected(node));
    }

    fn frame(&self, from: NodeId, kind: u8, body: Bytes) {
        assert_eq!(self.connected.lock().get(&from), Some(&true), "frames come over links");
        if kind == ECHO {
            let net = self.net.lock().clone().expect("the net is there before its links");
            // Who asks for more echoes than he takes does without.
            let _full = net.send(from, ECHOED, &[&body]);
        }
        self.note(Event::Frame(from, kind, body));
    }

    fn turn_ended(&self) {
        let untold = std::mem::take(&mut *self.untold.lock());
        assert!(untold > 0, "a turn without news has no end");
    }

    fn refused(&self, _address: &str, refusal: &Refusal) {
        // Not a part of a turn.
        self.events.lock().push(Event::Refused(refusal.clone()));
        self.news.notify_all();
    }
}

/// A net and its notes; stopped at the end.
pub struct Node {
    pub net: Arc<PeerNet>,
    pub notes: Arc<Notes>,
    pub address: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.net.stop();
        self.notes.net.lock().take();
    }
}

/// What a node of the tests says of itself.
pub fn local(node: u64) -> Local {
    Local {
        versions: VERSIONS,
        node: NodeId(node),
        process: u64::from_le_bytes(server::peer::draw().unwrap()),
        incarnation: 1,
        software: "test".into(),
        cluster: Some(Cluster { id: 0xc1, hash_seed: [9; 16] }),
        facts: Bytes::from(format!("node {node}")),
        supported: VersionRange::OURS,
        cluster_version: None,
        secret: Secret::new(b"the secret of the tests"),
    }
}

/// Options with which the tests do not wait long.
pub fn options() -> Options {
    Options {
        ping: Duration::from_millis(100),
        dead: Duration::from_secs(2),
        handshake: Duration::from_secs(1),
        ..Options::default()
    }
}

/// Starts a net on a port of its own.
pub fn start(local: Local, options: Options) -> Node {
    start_at(local, options, "127.0.0.1:0")
}

/// Starts a net at an address.
pub fn start_at(local: Local, options: Options, address: &str) -> Node {
    let until = Instant::now() + TEST_TIMEOUT;
    let listener = loop {
        match TcpListener::bind(address) {
            Ok(listener) => break listener,
            Err(error) => assert!(Instant::now() < until, "cannot listen on {address}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let net = Arc::new(PeerNet::new(local, Some(listener), options).unwrap());
    let notes = Arc::new(Notes::default());
    *notes.net.lock() = Some(net.clone());
    net.start(notes.clone()).unwrap();
    let address = net.address().unwrap().to_string();
    Node { net, notes, address }
}

/// Tells every node of the others, which are numbered from 1.
pub fn introduce(nodes: &[&Node]) {
    let all: BTreeMap<NodeId, String> =
        (1..).zip(nodes).map(|(number, node)| (NodeId(number), node.address.clone())).collect();
    nodes.iter().for_each(|node| node.net.set_peers(all.clone()));
}

/// Nodes 1 to `count`, all linked with each other.
pub fn cluster(count: u64, options: Options) -> Vec<Node> {
    let nodes: Vec<Node> = (1..=count).map(|node| start(local(node), options)).collect();
    introduce(&nodes.iter().collect::<Vec<_>>());
    for (number, node) in (1..).zip(&nodes) {
        (1..=count).filter(|other| *other != number).for_each(|other| {
            node.notes.connected(other);
        });
    }
    nodes
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
