//! Four nodes, real processes: three have all replicas, the fourth none unless something moves.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use harness::node::{Node, TEST_TIMEOUT};
use harness::ports::unused;
use harness::process::Directory;
use serde_json::Value;

pub mod writers;

/// The last of the nodes: keyspaces have three replicas, so it is empty.
pub const EMPTY: usize = 3;

/// Nodes n0 to n3 with a directory, killed and removed when they are dropped.
pub struct Cluster {
    /// Before their directory: dropped first.
    nodes: Vec<Node>,
    flags: Vec<&'static str>,
    _dir: Directory,
}

/// Waits for something.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    harness::until(TEST_TIMEOUT, what, look)
}

impl Cluster {
    /// Not started yet; all get these flags besides.
    pub fn new(name: &str, flags: &[&'static str]) -> Self {
        let dir = Directory::new(name).unwrap();
        dir.write_secret().unwrap();
        let program = env!("CARGO_BIN_EXE_carillon");
        let node = |number| Node::new(program, dir.path(), &format!("n{number}"));
        Self { nodes: (0..=EMPTY).map(node).collect(), flags: flags.to_vec(), _dir: dir }
    }

    /// Starts a node; all but the first join that one.
    pub fn start(&mut self, number: usize) {
        self.start_joining(number, (number > 0).then_some(0));
    }

    /// Starts a node with the address of this one behind `--join`, or without any.
    pub fn start_joining(&mut self, number: usize, through: Option<usize>) {
        let seed = through.map(|through| self.nodes[through].peer.to_string());
        let join = seed.iter().flat_map(|seed| ["--join", seed]);
        let flags: Vec<&str> = self.flags.iter().copied().chain(join).collect();
        self.nodes[number].start(&flags);
    }

    /// Where other nodes reach it.
    pub fn peer_of(&self, number: usize) -> SocketAddr {
        self.nodes[number].peer
    }

    /// From its next start on a node listens for others at another address.
    pub fn move_elsewhere(&mut self, number: usize) {
        self.nodes[number].peer = unused();
    }

    /// Its process.
    pub fn pid_of(&self, number: usize) -> u32 {
        self.nodes[number].pid()
    }

    /// Kills a node with -9.
    pub fn kill(&mut self, number: usize) {
        self.nodes[number].kill();
    }

    /// Stops a node, as people do.
    pub fn stop(&mut self, number: usize) {
        self.nodes[number].stop();
    }

    /// The exit code of a node that ends by itself.
    pub fn code_of(&mut self, number: usize) -> Option<i32> {
        self.nodes[number].wait().code()
    }

    /// Where it keeps its data.
    pub fn dir_of(&self, number: usize) -> PathBuf {
        self.nodes[number].dir()
    }

    /// A node's log.
    pub fn log_of(&self, number: usize) -> String {
        self.nodes[number].log()
    }

    /// Where Redis clients reach it.
    pub fn resp_of(&self, number: usize) -> SocketAddr {
        self.nodes[number].resp
    }

    /// Where HTTP clients reach it.
    pub fn http_of(&self, number: usize) -> SocketAddr {
        self.nodes[number].http
    }

    /// Speaks HTTP with it.
    pub fn client(&self, number: usize) -> client::http::Client {
        self.nodes[number].client()
    }

    /// What a node says of all, once it serves.
    pub fn nodes(&self, number: usize) -> Value {
        until("an answer", || {
            let client = self.client(number);
            (client.status().ok()?["ready"] == true).then(|| client.nodes().ok()).flatten()
        })
    }

    /// What a node says of another, if it knows it.
    pub fn node(&self, asked: usize, number: usize) -> Option<Value> {
        let name = format!("n{number}");
        let nodes = self.nodes(asked);
        nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned()
    }

    /// Waits until a node sees another so.
    pub fn stands(&self, asked: usize, number: usize, admin_state: &str) {
        until(&format!("n{asked} sees n{number} {admin_state}"), || {
            (self.node(asked, number)?["standing"] == admin_state).then_some(())
        });
    }

    /// Runs a command line against a node: exit code, and all that it said.
    pub fn run(&self, asked: usize, line: &str) -> (i32, String) {
        self.nodes[asked].carillon(&line.split(' ').collect::<Vec<_>>())
    }

    /// Runs a command line that does what it says.
    #[track_caller]
    pub fn done(&self, asked: usize, line: &str, words: &str) {
        let (code, text) = self.run(asked, line);
        assert!(code == 0 && text.contains(words), "{line}: {code} {text}");
    }

    /// Runs a command line that is refused.
    #[track_caller]
    pub fn refused(&self, asked: usize, line: &str, words: &str) {
        let (code, text) = self.run(asked, line);
        assert!(code == 1 && text.contains(words), "{line}: {code} {text}");
    }

    /// Starts nodes, and waits until all is well.
    pub fn begin(&mut self, numbers: RangeInclusive<usize>) {
        numbers.clone().for_each(|number| self.start(number));
        self.all_well(numbers);
    }

    /// Waits until these nodes see each other; the first three have all replicas.
    pub fn all_well(&self, numbers: RangeInclusive<usize>) {
        for asked in numbers.clone() {
            until("all are there", || {
                let are_well = numbers.clone().all(|number| {
                    let wanted = if number == EMPTY { 0 } else { 9 };
                    self.node(asked, number).is_some_and(|node| {
                        let held = (&node["replicas"], &node["shards"]);
                        node["state"] == "up" && held == (&wanted.into(), &wanted.into())
                    })
                });
                are_well.then_some(())
            });
        }
    }
}
