//! Nets in processes of their own, which are killed and paused.

use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use harness::lines::Lines;
use harness::node::TEST_TIMEOUT;
use harness::process::{Directory, Process, Signal};
use keyspace::NodeId;
use server::peer::{Local, SendError};

use crate::common::{ECHO, ECHOED, Node, cluster, local, options, start};

/// Tells this program, when a test starts it, which node to be.
const NODE: &str = "PEER_TEST_NODE";
const PORT: &str = "PEER_TEST_PORT";
/// What it says before its address.
const LISTENS: &str = "listens at ";

/// Not a test of its own: what the processes of the other tests run.
#[test]
fn be_a_node() {
    let Ok(node) = std::env::var(NODE) else { return };
    let address = format!("127.0.0.1:{}", std::env::var(PORT).unwrap());
    let who = Local { incarnation: 7, ..local(node.parse().unwrap()) };
    let node = crate::common::start_at(who, options(), &address);
    println!("\n{LISTENS}{}", node.address);
    // Until it is killed.
    loop {
        std::thread::park();
    }
}

/// A process that is a node.
struct Peer {
    process: Process,
    address: String,
    /// Of its output; dropped last.
    _dir: Directory,
}

impl Peer {
    fn start(node: u64, port: &str) -> Self {
        let dir = Directory::new(&format!("peer-{node}-{port}")).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["processes::be_a_node", "--exact", "--nocapture"])
            .envs([(NODE, node.to_string().as_str()), (PORT, port)]);
        let output = dir.path().join("output");
        let process = Process::start(command, &output).unwrap();
        let line = Lines::of(&output).until(LISTENS, TEST_TIMEOUT);
        let (_, address) = line.split_once(LISTENS).expect("it holds these words");
        Self { process, address: address.to_owned(), _dir: dir }
    }

    fn signal(&self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }
}

fn echo(node: &Node, of: u64, body: &'static [u8]) {
    node.net.send(NodeId(of), ECHO, &[body]).unwrap();
    node.net.flush();
    assert_eq!(node.notes.frame(of), (ECHOED, Bytes::from_static(body)));
}

#[test]
fn killed_process_is_noticed_at_once_and_linked_after_restart() {
    let one = start(local(1), options());
    let process = Peer::start(2, "0");
    one.net.set_peers([(NodeId(2), process.address.clone())].into());
    assert_eq!(one.notes.connected(2).incarnation, 7);
    echo(&one, 2, b"before");
    let port = process.address.rsplit_once(':').unwrap().1.to_owned();
    let killed = Instant::now();
    process.signal(Signal::Kill);
    one.notes.disconnected(2);
    assert!(killed.elapsed() < Duration::from_millis(500), "{:?}", killed.elapsed());
    drop(process);
    let _again = Peer::start(2, &port);
    one.notes.connected(2);
    echo(&one, 2, b"after");
}

#[test]
fn paused_peer_blocks_no_other_and_is_linked_again() {
    let nodes = cluster(2, options());
    let process = Peer::start(9, "0");
    nodes[0].net.set_peers(
        [(NodeId(2), nodes[1].address.clone()), (NodeId(9), process.address.clone())].into(),
    );
    nodes[0].notes.connected(9);
    process.signal(Signal::Stop);
    let paused = Instant::now();
    let mut longest = Duration::ZERO;
    while nodes[0].net.is_connected(NodeId(9)) {
        let began = Instant::now();
        for _ in 0..100 {
            match nodes[0].net.send(NodeId(9), 3, &[&[0; 10_000]]) {
                Ok(()) | Err(SendError::Full | SendError::NotConnected) => {}
                Err(error) => panic!("{error}"),
            }
        }
        nodes[0].net.flush();
        longest = longest.max(began.elapsed());
        echo(&nodes[0], 2, b"meanwhile");
        assert!(paused.elapsed() < Duration::from_secs(5), "a pause is noticed");
    }
    assert!(longest < Duration::from_millis(500), "a turn took {longest:?}");
    nodes[0].notes.disconnected(9);
    process.signal(Signal::Continue);
    nodes[0].notes.connected(9);
    echo(&nodes[0], 9, b"again");
    assert_eq!(nodes[0].net.counters()[0].1.links.get(), 1);
}
