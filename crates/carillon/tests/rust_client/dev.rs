//! Three real nodes, and requests to them beside the client.

use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

use client::Store;
use client::http::Client;
use harness::command::{self, CommandResult};
use harness::dev::{self, base_port};
use harness::process::{Signal, send_signal};
use tokio::runtime::Runtime;

const CARILLON: &str = env!("CARGO_BIN_EXE_carillon");

/// Longer than anything here takes on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);
pub const NODES: u16 = 3;
/// Leads that have not moved for so long stay where they are.
const REST: Duration = Duration::from_secs(2);

/// Three nodes that end with this value.
pub struct Dev {
    run: dev::Dev,
    /// Of each node.
    pids: Vec<u32>,
}

impl Deref for Dev {
    type Target = dev::Dev;

    fn deref(&self) -> &dev::Dev {
        &self.run
    }
}

impl Dev {
    /// Starts them; each test has a number of its own.
    pub fn start(number: u16) -> Self {
        let name = format!("carillon-rust-client-{number}-{}", std::process::id());
        let (dir, nodes) = (std::env::temp_dir().join(name), NODES.to_string());
        let mut run = dev::Dev::start(CARILLON, &dir, base_port(), &["--nodes", &nodes]);
        let pids = run.ready(usize::from(NODES));
        Self { run, pids }
    }

    /// Runs the program as a command about a node.
    pub fn carillon(&self, node: u16, words: &[&str]) -> CommandResult {
        let http = self.http(node + 1).to_string();
        command::run(CARILLON, words, b"", &[("CARILLON_HTTP", &http)])
    }

    pub fn addresses(&self) -> Vec<String> {
        (0..NODES).map(|node| format!("127.0.0.1:{}", self.base + node)).collect()
    }

    /// Sends lines to a node and reads as many.
    fn ask(&self, node: u16, lines: &[&str]) -> Option<Vec<String>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.base + node)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(6))).unwrap();
        stream.write_all((lines.join("\r\n") + "\r\n").as_bytes()).ok()?;
        let mut answers = BufReader::new(stream).lines();
        lines.iter().map(|_| answers.next()?.ok()).collect()
    }

    /// The node that leads a key of keyspace 0. Writes the key.
    fn leader_of(&self, key: &str) -> u16 {
        let (begun, set) = (Instant::now(), format!("SET {key} 0"));
        while begun.elapsed() < TEST_TIMEOUT {
            for node in 0..NODES {
                let said = self.ask(node, &["CLIENT ROUTE ON", &set]);
                if said.is_some_and(|said| said == ["+OK", "+OK"]) {
                    return node;
                }
            }
        }
        panic!("nobody leads {key}");
    }

    /// Keys that a node leads, and keys that others lead.
    pub fn keys(&self, node: u16) -> (Vec<String>, Vec<String>) {
        (0..64).map(|n| format!("key:{n}")).partition(|key| self.leader_of(key) == node)
    }

    /// The node that leads most of some keys, once the nodes have shared them out.
    pub fn busiest(&self) -> u16 {
        self.rest();
        let led: Vec<u16> = (0..32).map(|n| self.leader_of(&format!("key:{n}"))).collect();
        (0..NODES).max_by_key(|node| led.iter().filter(|by| *by == node).count()).unwrap()
    }

    /// Waits until each node leads something, and no lead moves any more.
    pub fn rest(&self) {
        let (begun, mut before, mut since) = (Instant::now(), Vec::new(), Instant::now());
        let all_lead = |led: &[u16]| (0..NODES).all(|node| led.contains(&node));
        while since.elapsed() < REST || !all_lead(&before) {
            let led: Vec<u16> = (0..32).map(|n| self.leader_of(&format!("key:{n}"))).collect();
            if led != before {
                (before, since) = (led, Instant::now());
            }
            assert!(begun.elapsed() < 2 * TEST_TIMEOUT, "leads do not come to rest: {before:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Makes an ordered keyspace.
    pub fn make_ordered(&self, name: &str) {
        let made = self.carillon(0, &["keyspace", "create", name, "--placement", "ordered"]);
        assert_eq!(made.code, 0, "{made:?}");
    }

    /// How many shards a node leads.
    pub fn shards_led(&self, node: u16) -> u64 {
        let text = self.metrics(node);
        let line = text.lines().find_map(|line| line.strip_prefix("carillon_shards_led "));
        line.expect("a metric").parse().expect("a number")
    }

    fn metrics(&self, node: u16) -> String {
        Client::new(&self.http(node + 1).to_string()).unwrap().metrics().unwrap()
    }

    /// How many writes, and questions for reads, were passed on between nodes.
    pub fn forwarded(&self) -> u64 {
        let of_node = |node| {
            let text = self.metrics(node);
            let samples = text.lines().filter(|line| {
                line.starts_with("carillon_forwarded_") && line.contains("direction=\"sent\"")
            });
            let numbers: Vec<u64> =
                samples.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
            assert_eq!(numbers.len(), 2, "writes and reads");
            numbers.iter().sum::<u64>()
        };
        (0..NODES).map(of_node).sum()
    }

    pub fn signal(&self, node: u16, signal: Signal) {
        send_signal(self.pids[usize::from(node)], signal).unwrap();
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // One that stands still cannot end with the others.
        for pid in &self.pids {
            let _gone = send_signal(*pid, Signal::Continue);
        }
    }
}

/// A store of a keyspace. The nodes hear of a new one one after the other.
pub async fn open(dev: &Dev, keyspace: &str) -> Store {
    let begun = Instant::now();
    loop {
        match Store::builder().keyspace(keyspace).connect(dev.addresses()).await {
            Ok(store) => return store,
            Err(error) => assert!(begun.elapsed() < TEST_TIMEOUT, "{error}"),
        }
    }
}

/// Runs a test within its time.
pub fn run<F: Future<Output = ()>>(test: F) {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(TEST_TIMEOUT * 4, test).await.expect("the process ends");
    });
}
