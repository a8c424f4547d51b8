//! Whatever can be stored can be read and replicated, and nothing longer can be stored: real
//! processes.

use std::time::{Duration, Instant};

use harness::node::Node;
use harness::process::Directory;
use harness::resp::Connection;

/// Longer than anything here takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);
const MIB: usize = 1 << 20;
/// More than any frame between nodes had before long messages went in pieces.
const LONG: usize = 70 * MIB;
/// A node that takes such values, however slow the machine is.
const WIDE: [&str; 8] = [
    "--value-bytes-max",
    "512MiB",
    "--input-bytes-max",
    "1GiB",
    "--output-bytes-max",
    "1GiB",
    "--request-timeout-ms",
    "60s",
];

/// Nodes with a directory, killed and removed when they are dropped.
struct Nodes {
    /// Before their directory: dropped first.
    nodes: Vec<Node>,
    dir: Directory,
}

impl Nodes {
    fn plan(name: &str, nodes: usize) -> Self {
        let dir = Directory::new(name).unwrap();
        let program = env!("CARGO_BIN_EXE_carillon");
        let node = |number| Node::new(program, dir.path(), &format!("n{number}"));
        Self { nodes: (0..nodes).map(node).collect(), dir }
    }

    /// A node alone.
    fn start(&mut self, number: usize, more: &[&str]) {
        self.nodes[number].start(more);
        self.served_at(number);
    }

    /// A node of a cluster, whose first member is the first node.
    fn start_peer(&mut self, number: usize, more: &[&str]) {
        if !self.dir.path().join("secret").exists() {
            self.dir.write_secret().unwrap();
        }
        let first = self.nodes[0].peer.to_string();
        let join = if number > 0 { &["--join", &first][..] } else { &[] };
        self.start(number, &[more, join].concat());
    }

    fn served_at(&self, number: usize) {
        self.until(&format!("node {number} serves"), || {
            let connection = self.nodes[number].try_connect();
            let reply = connection.and_then(|mut to| to.ask(&["SET", "ready", "1"]));
            reply.is_ok_and(|reply| reply.text() == "OK")
        });
    }

    fn stop(&mut self, number: usize) {
        self.nodes[number].stop();
    }

    fn client(&self, number: usize) -> Client {
        Client(Connection::open(self.nodes[number].resp, TEST_TIMEOUT, TEST_TIMEOUT).unwrap())
    }

    /// What the command line says of a node.
    fn run(&self, number: usize, line: &str) -> String {
        self.nodes[number].carillon(&line.split(' ').collect::<Vec<_>>()).1
    }

    fn status(&self, number: usize) -> serde_json::Value {
        self.nodes[number].status().unwrap_or_default()
    }

    /// Shards of which a node has a replica.
    fn replicas(&self, number: usize) -> u64 {
        self.status(number)["shards"].as_u64().unwrap_or_default()
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        harness::until(TEST_TIMEOUT, what, || is_so().then_some(()));
    }
}

/// Commands of any bytes.
struct Client(Connection);

impl Client {
    fn send(&mut self, words: &[&[u8]]) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        harness::resp::encode(&mut bytes, words);
        self.0.send(&bytes)
    }

    /// A reply's bytes, of an array with spaces between.
    fn reply(&mut self) -> std::io::Result<Vec<u8>> {
        self.0.bytes_reply().map(flat)
    }

    fn bytes(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.send(words).and_then(|()| self.reply()).unwrap_or_default()
    }

    fn text(&mut self, words: &[&[u8]]) -> String {
        String::from_utf8_lossy(&self.bytes(words)).into_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.text(&words)
    }

    /// Asks again what was not done, or may be not done.
    fn sure(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let begun = Instant::now();
        loop {
            let reply = self.bytes(words);
            let again = [&b"TRYAGAIN"[..], b"UNKNOWN", b"CLUSTERDOWN", b"BUSY"];
            if !again.iter().any(|word| reply.starts_with(word)) {
                return reply;
            }
            assert!(begun.elapsed() < TEST_TIMEOUT, "{}", String::from_utf8_lossy(&reply));
        }
    }
}

fn flat(reply: client::Reply) -> Vec<u8> {
    match reply {
        client::Reply::Array(all) => all.into_iter().map(flat).collect::<Vec<_>>().join(&b' '),
        client::Reply::Bulk(bytes) | client::Reply::Error(bytes) => bytes.into(),
        other => harness::resp::TextReply::from(other).text().into(),
    }
}

/// Bytes that show where they were put together.
fn value(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 4099 + seed) as u8).collect()
}

const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

#[test]
fn no_command_makes_value_above_limit() {
    let mut nodes = Nodes::plan("limit", 1);
    nodes.start(0, &["--value-bytes-max", "1000"]);
    let mut client = nodes.client(0);
    let long = "x".repeat(600);
    assert_eq!(client.ask(&format!("SET a {long}")), "OK");
    assert_eq!(client.ask(&format!("APPEND a {}", &long[..400])), "1000");
    assert_eq!(client.ask("APPEND a y"), TOO_LONG);
    assert_eq!(client.ask("SETRANGE a 1000 y"), TOO_LONG);
    assert_eq!(client.ask("SETRANGE new 999 yy"), TOO_LONG);
    assert_eq!(client.ask("SETRANGE a 999 y"), "1000");
    // What is there may be copied and renamed: neither makes it longer.
    assert_eq!(client.ask("COPY a b"), "1");
    assert_eq!(client.ask("APPEND b y"), TOO_LONG);
    assert_eq!(client.ask("RENAME b {c}1"), "OK");
    assert_eq!(client.ask("APPEND {c}1 y"), TOO_LONG);
    assert_eq!(client.ask("APPEND none x"), "1");
    for (begin, end) in [("MULTI", "EXEC"), ("BEGIN", "COMMIT")] {
        assert_eq!(client.ask(begin), "OK");
        let reports =
            ["APPEND a y", "APPEND none z", "SETRANGE a 1000 y"].map(|line| client.ask(line));
        let done = client.ask(end);
        let all = [&reports[..], &[done]].concat().join(" ");
        assert_eq!(all.matches(TOO_LONG).count(), 2, "{begin}: {all}");
        assert_eq!(client.ask("STRLEN a"), "1000", "{begin}");
    }
    assert_eq!(client.ask("GET none"), "xzz");
    // Replayed as it was done, whatever the limit is by now.
    nodes.stop(0);
    nodes.start(0, &["--value-bytes-max", "700"]);
    let mut client = nodes.client(0);
    assert_eq!(client.ask("STRLEN a"), "1000");
    assert_eq!(client.ask("APPEND a y"), TOO_LONG);
    assert_eq!(client.ask("STRLEN {c}1"), "1000");
}

#[test]
fn value_above_reply_limit_is_refused_but_readable_in_parts() {
    let mut nodes = Nodes::plan("reply", 1);
    nodes.start(0, &["--value-bytes-max", "4MiB"]);
    let stored = value(3 * MIB, 1);
    assert_eq!(nodes.client(0).text(&[b"SET", b"k", &stored]), "OK");
    nodes.stop(0);
    nodes.start(0, &["--value-bytes-max", "1MiB", "--output-bytes-max", "2MiB"]);
    let mut client = nodes.client(0);
    let refusal = "ERR the value has 3145728 bytes, and output_bytes_max allows replies of \
                   2097152; read it in parts with GETRANGE, or raise output_bytes_max";
    assert_eq!(client.ask("GET k"), refusal);
    assert!(client.ask("MGET k").contains("output_bytes_max"));
    assert!(client.ask("GETRANGE k 0 -1").contains("output_bytes_max"));
    assert_eq!(client.bytes(&[b"GETRANGE", b"k", b"0", b"1999999"]), stored[..2_000_000]);
    assert_eq!(client.ask("STRLEN k"), "3145728");
    // Others in the pipeline are answered.
    client.send(&[b"GET", b"ready"]).unwrap();
    client.send(&[b"GET", b"k"]).unwrap();
    client.send(&[b"GET", b"ready"]).unwrap();
    let replies = [(); 3].map(|()| String::from_utf8(client.reply().unwrap()).unwrap());
    assert_eq!(replies, ["1", refusal, "1"]);
    // As long as a reply may be, alone and as one of a transaction.
    nodes.stop(0);
    nodes.start(0, &["--value-bytes-max", "1MiB", "--output-bytes-max", "3MiB"]);
    let mut client = nodes.client(0);
    assert_eq!(client.bytes(&[b"GET", b"k"]), stored);
    assert_eq!(client.bytes(&[b"GETRANGE", b"k", b"0", b"-1"]), stored);
}

/// A page of SCAN is a reply as well: for one that is too long, the client gets an error that
/// names `output_bytes_max`.
#[test]
fn page_of_keys_stays_below_reply_limit() {
    let mut nodes = Nodes::plan("page", 1);
    nodes.start(0, &["--value-bytes-max", "1MiB", "--output-bytes-max", "2MiB"]);
    let mut client = nodes.client(0);
    for key in 0..80 {
        let name = format!("{key:02}{}", "k".repeat(50_000));
        assert_eq!(client.text(&[b"SET", name.as_bytes(), b"v"]), "OK");
    }
    assert!(client.ask("SCAN 0 COUNT 1000").contains("output_bytes_max"));
    assert!(client.ask("SCAN 0 COUNT 1000 MATCH nothing*").contains('0'), "little is shown");
    client.send(&[b"SCAN", b"0", b"COUNT", b"10"]).unwrap();
    assert!(client.reply().is_ok());
}

#[test]
fn long_values_reach_joining_nodes() {
    let mut nodes = Nodes::plan("join", 3);
    nodes.start(0, &WIDE);
    let stored = value(LONG, 1);
    assert_eq!(nodes.client(0).text(&[b"SET", b"k", &stored]), "OK");
    nodes.stop(0);
    (0..3).for_each(|number| nodes.start_peer(number, &WIDE));
    let altered = nodes.run(0, "keyspace alter 0 --replicas 3");
    assert!(altered.contains('3'), "{altered}");
    nodes.until("three replicas", || {
        let is_ok = nodes.status(0)["health"]["verdict"] == "ok";
        is_ok && (0..3).all(|number| nodes.replicas(number) > 1)
    });
    // By entries of the log, forwarded by a node that does not lead, and back.
    let next = value(LONG, 2);
    for number in 0..3 {
        let mut client = nodes.client(number);
        assert_eq!(client.sure(&[b"GET", b"k"]), stored, "node {number}");
        assert_eq!(client.sure(&[b"SET", b"next", &next[number..]]), b"OK", "node {number}");
        assert_eq!(client.sure(&[b"APPEND", b"next", b"end"]).len(), 8, "node {number}");
    }
    let wanted = [&next[2..], b"end"].concat();
    for number in 0..3 {
        assert_eq!(nodes.client(number).sure(&[b"GET", b"next"]), wanted, "node {number}");
    }
}

#[test]
fn long_values_are_read_through_other_nodes_and_drained() {
    let mut nodes = Nodes::plan("drain", 2);
    let one = [&WIDE[..], &["--replicas", "1"]].concat();
    (0..2).for_each(|number| nodes.start_peer(number, &one));
    let stored = value(LONG - 6 * MIB, 1);
    assert_eq!(nodes.client(0).sure(&[b"SET", b"k", &stored]), b"OK");
    let more = value(6 * MIB, 7);
    let length = LONG.to_string();
    assert_eq!(nodes.client(0).sure(&[b"APPEND", b"k", &more]), length.as_bytes());
    let wanted = [&stored[..], &more].concat();
    for number in 0..2 {
        let mut client = nodes.client(number);
        assert_eq!(client.sure(&[b"STRLEN", b"k"]), length.as_bytes(), "node {number}");
        assert_eq!(client.sure(&[b"EXISTS", b"k"]), b"1", "node {number}");
        assert_eq!(client.sure(&[b"GET", b"k"]), wanted, "node {number}");
    }
    let drained = nodes.run(0, "drain n0 --timeout 100s");
    assert!(drained.contains("n0 is empty"), "{drained}");
    assert_eq!(nodes.client(1).sure(&[b"GET", b"k"]), wanted);
    assert_eq!(nodes.client(0).sure(&[b"GET", b"k"]), wanted);
}
