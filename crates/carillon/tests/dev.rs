//! `carillon dev`: real processes that start together, are watched, and end together.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Ports of one run stand within so many of its base.
const PORTS: u16 = 16;

/// A base whose ports nobody has: below those that the system gives to clients.
fn base_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 8_000 + (std::process::id() % 700) as u16 * PORTS;
    loop {
        let base = first + NEXT.fetch_add(PORTS, Ordering::Relaxed);
        let offsets = [0, 1_021, 1_101, 1_221].into_iter();
        let all = offsets.flat_map(|offset| (0..4).map(move |number| base + offset + number));
        if all.map(|port| TcpListener::bind(("127.0.0.1", port))).all(|bound| bound.is_ok()) {
            return base;
        }
    }
}

fn dir(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("carillon-dev-{name}-{}", std::process::id()))
}

/// A run of `carillon dev` and what it has said.
struct Dev {
    child: Child,
    base: u16,
    dir: PathBuf,
    out: Receiver<String>,
    err: Receiver<String>,
}

fn lines(source: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Dev {
    fn start(dir: &Path, base: u16, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_carillon"))
            .args(["dev", "--base-port", &base.to_string(), "--dir"])
            .arg(dir)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, base, dir: dir.to_owned(), out: lines(out), err: lines(err) }
    }

    /// The process ids of the nodes, from the table that is printed when all are ready.
    fn ready(&self, nodes: usize) -> Vec<u32> {
        let mut pids = Vec::new();
        while pids.len() < nodes {
            let line = self.out.recv_timeout(PATIENCE).expect("a table of nodes");
            if line.starts_with("node-") {
                let words: Vec<&str> = line.split_whitespace().collect();
                pids.push(words[5].parse().unwrap());
            }
        }
        pids
    }

    /// The next line on standard error that holds these words.
    fn says(&self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let line = self.err.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {words:?}"));
            if line.contains(words) {
                return line;
            }
            assert!(begun.elapsed() < PATIENCE, "no {words:?}");
        }
    }

    fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a line to a node and reads one.
    fn ask(&self, number: u16, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.base + number - 1)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Dev {
    /// What a command says of a node, and its exit code.
    fn command(&self, number: u16, words: &str) -> (serde_json::Value, i32) {
        let output = Command::new(env!("CARGO_BIN_EXE_carillon"))
            .args(words.split(' '))
            .args(["--json", "--http", &format!("127.0.0.1:{}", self.base + 1_100 + number)])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = serde_json::from_str(&text);
        (answer.unwrap_or_else(|why| panic!("{why}: {output:?}")), output.status.code().unwrap())
    }

    /// … when it is as wanted.
    fn until(
        &self,
        number: u16,
        words: &str,
        wanted: impl Fn(&serde_json::Value, i32) -> bool,
    ) -> serde_json::Value {
        let begun = Instant::now();
        loop {
            let (answer, code) = self.command(number, words);
            if wanted(&answer, code) {
                return answer;
            }
            assert!(begun.elapsed() < PATIENCE, "{words} of node {number}: {code} {answer}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The sum of all samples of a metric of a node that have these labels.
    fn metric(&self, number: u16, name: &str, labels: &[&str]) -> f64 {
        let address = format!("127.0.0.1:{}", self.base + 1_100 + number);
        let text = client::http::Client::new(&address).unwrap().metrics().unwrap();
        let is_meant = |line: &&str| {
            let rest = line.strip_prefix(name).unwrap_or_default();
            rest.starts_with(['{', ' ']) && labels.iter().all(|label| rest.contains(label))
        };
        let samples: Vec<f64> = text
            .lines()
            .filter(is_meant)
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(!samples.is_empty(), "no {name} with {labels:?} in\n{text}");
        samples.iter().sum()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
        let _removed = fs::remove_dir_all(&self.dir);
    }
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Whether a process runs; one that nobody has waited for yet does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

fn wait_until_gone(pids: &[u32]) {
    let begun = Instant::now();
    while pids.iter().any(|pid| runs(*pid)) {
        assert!(begun.elapsed() < PATIENCE, "left behind: {pids:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nodes_start_together_stop_together_and_resume() {
    let (dir, base) = (dir("life"), base_port());
    let mut dev = Dev::start(&dir, base, &[]);
    let pids = dev.ready(3);
    assert_eq!(pids.iter().collect::<BTreeSet<_>>().len(), 3, "a process each");
    for number in 1..=3 {
        assert_eq!(dev.ask(number, "PING"), "+PONG");
    }
    assert_eq!(dev.ask(2, "SET greeting hello"), "+OK");
    let mode = fs::metadata(dir.join("secret")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a secret is its owner's");
    dev.says("node-3 │ ");

    signal("KILL", pids[0]);
    let told = dev.says("node-1 ended by SIGKILL");
    assert!(told.contains("carillon start") && told.contains("node-1"), "{told}");
    assert!(runs(pids[1]) && runs(pids[2]), "the others go on");

    // One that stands still is woken to be stopped.
    signal("STOP", pids[1]);
    dev.signal("TERM");
    assert_eq!(dev.wait().code(), Some(0));
    wait_until_gone(&pids);

    let secret = fs::read_to_string(dir.join("secret")).unwrap();
    // Without a number: as many as there are.
    let mut again = Dev::start(&dir, base, &[]);
    let pids = again.ready(3);
    assert_eq!(again.ask(2, "EXISTS greeting"), ":1");
    assert_eq!(fs::read_to_string(dir.join("secret")).unwrap(), secret);
    again.signal("INT");
    assert_eq!(again.wait().code(), Some(0));
    wait_until_gone(&pids);
    assert!(dir.join("node-3").is_dir(), "nothing is deleted");

    let mut fewer = Dev::start(&dir, base, &["--nodes", "2"]);
    assert_eq!(fewer.wait().code(), Some(2));
    fewer.says("--nodes 3");
}

/// Nodes, shards, health and metrics say what has become of a cluster, as each loss is worse.
#[test]
fn what_an_operator_sees_follows_what_happens() {
    let dev = Dev::start(&dir("health"), base_port(), &[]);
    let pids = dev.ready(3);
    for number in 1..=3 {
        let well = |status: &serde_json::Value, code| {
            code == 0
                && status["health"]["verdict"] == "ok"
                && status["cluster"]["members_up"] == 3
                && status["cluster"]["shards_below_strength"] == 0
        };
        dev.until(number, "status", well);
    }

    // All agree on who leads, and every leader knows how far the others are.
    let (shards, _) = dev.command(1, "shards");
    let shards = shards["shards"].as_array().unwrap().clone();
    assert_eq!(shards.len(), 9, "the catalogue's and those of keyspace 0");
    for (place, shard) in shards.iter().enumerate() {
        let led = |node: &u16| {
            let (theirs, _) = dev.command(*node, "shards");
            let theirs = &theirs["shards"][place];
            assert_eq!(theirs["replicas"].as_array().unwrap().len(), 3);
            assert_eq!((&theirs["here"], &theirs["replicas_live"]), (&true.into(), &3.into()));
            let replicas = theirs["replicas"].as_array().unwrap();
            let name = format!("node-{node}");
            let own = replicas.iter().find(|replica| replica["name"] == name).unwrap();
            let known = replicas.iter().filter(|replica| replica["behind"].is_u64()).count();
            assert_eq!(known, if own["leader"] == true { 3 } else { 0 }, "{theirs}");
            own["leader"] == true
        };
        assert_eq!((1..=3).filter(led).count(), 1, "{shard}");
    }
    let loads = |nodes: &serde_json::Value, _| {
        let nodes = nodes["nodes"].as_array().unwrap();
        let all = nodes
            .iter()
            .all(|node| node["state"] == "up" && node["linked"] == true && node["shards"] == 9);
        all && nodes.iter().map(|node| node["leaders"].as_u64().unwrap()).sum::<u64>() == 9
    };
    let nodes = dev.until(2, "nodes", loads);
    let this = nodes["nodes"].as_array().unwrap().iter().filter(|node| node["this"] == true);
    assert_eq!(this.map(|node| &node["name"]).collect::<Vec<_>>(), ["node-2"]);

    // Writes by way of all nodes: what they hand to each other is counted on both sides.
    for number in 1..=3 {
        (0..20)
            .for_each(|key| assert_eq!(dev.ask(number, &format!("SET {number}-{key} v")), "+OK"));
    }
    let sum =
        |name: &str, labels: &[&str]| (1..=3).map(|n| dev.metric(n, name, labels)).sum::<f64>();
    assert_eq!(sum("carillon_shards_led", &[]), 9.0);
    assert_eq!(sum("carillon_shard_leader", &["keyspace=\"0\""]), 8.0);
    let sent = sum("carillon_forwarded_writes_total", &["direction=\"sent\""]);
    assert!(sent >= 20.0, "of 60 writes about 40 are led elsewhere, not {sent}");
    assert!(sum("carillon_messages_total", &["type=\"append\"", "direction=\"sent\""]) > 0.0);
    assert!(sum("carillon_messages_total", &["type=\"write\"", "direction=\"received\""]) > 0.0);
    assert!(sum("carillon_peer_bytes_total", &["direction=\"received\""]) > 0.0);
    assert_eq!(sum("carillon_peer_connected", &[]), 6.0);
    assert!(sum("carillon_elections_seen_total", &[]) >= 27.0);
    assert_eq!(sum("carillon_metrics_omitted", &["what=\"shards\""]), 0.0);

    signal("KILL", pids[0]);
    // Before it is taken for down, leaders say that it does not answer.
    let degraded = dev.until(2, "status", |status, code| {
        let reasons = status["health"]["reasons"].to_string();
        code == 0
            && status["health"]["verdict"] == "degraded"
            && reasons.contains("2 of 3 replicas")
            && reasons.contains("missing: node-1")
            && !reasons.contains("cannot be counted on")
    });
    assert_eq!(degraded["cluster"]["shards_below_strength"], 9);
    dev.until(3, "nodes", |nodes, _| nodes["nodes"][0]["state"] == "down");
    assert_eq!(dev.ask(3, "SET after kill"), "+OK");
    assert!(dev.metric(3, "carillon_peer_link_losses_total", &["name=\"node-1\""]) >= 1.0);

    // Without a majority nobody leads for long.
    signal("KILL", pids[1]);
    let failing = dev.until(3, "shards", |shards, code| {
        code == 1 && shards["shards"].as_array().unwrap().iter().all(|s| s["verdict"] == "failing")
    });
    let reasons = failing["health"]["reasons"].to_string();
    assert!(reasons.contains("nobody has led the catalogue of keyspaces"), "{reasons}");
    assert_eq!(dev.command(3, "status").0["cluster"]["shards_without_leader"], 9);
    assert!(dev.metric(3, "carillon_shards_leaderless_seconds_total", &[]) > 0.0);
    assert_eq!(dev.metric(3, "carillon_health", &[]), 2.0);
}

/// Even SIGKILL, which nobody can answer, leaves no node behind.
#[test]
fn nodes_end_with_whoever_started_them() {
    let mut dev = Dev::start(&dir("orphans"), base_port(), &["--nodes", "2"]);
    let pids = dev.ready(2);
    dev.signal("KILL");
    dev.wait();
    wait_until_gone(&pids);
}

#[test]
fn an_impatient_stop_kills() {
    let flags = ["--nodes", "1", "--", "--shutdown-timeout-ms", "600s"];
    let mut dev = Dev::start(&dir("impatient"), base_port(), &flags);
    let pids = dev.ready(1);
    assert_eq!(dev.ask(1, "PING"), "+PONG");
    // A client that does not read its replies keeps the node from stopping.
    let mut client = TcpStream::connect(("127.0.0.1", dev.base)).unwrap();
    let value = "x".repeat(16 << 20);
    client
        .write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16777216\r\n{value}\r\n").as_bytes())
        .unwrap();
    client.write_all(&b"GET k\r\n".repeat(8)).unwrap();
    client.read_exact(&mut [0; 8]).unwrap();
    dev.signal("TERM");
    dev.says("stopping");
    thread::sleep(Duration::from_millis(200));
    assert!(runs(pids[0]), "it waits for its client");
    dev.signal("TERM");
    dev.wait();
    wait_until_gone(&pids);
}

#[test]
fn a_taken_port_is_named_before_anything_starts() {
    let (dir, base) = (dir("port"), base_port());
    let _taken = TcpListener::bind(("127.0.0.1", base + 1_101 + 1)).unwrap();
    let mut dev = Dev::start(&dir, base, &[]);
    assert_eq!(dev.wait().code(), Some(1));
    let told = dev.says("node-2 cannot listen for http");
    let address = format!("127.0.0.1:{}", base + 1_102);
    assert!(told.contains(&address) && told.contains("--base-port"), "{told}");
    assert!(!dir.exists(), "nothing was begun");
}

#[test]
fn a_node_that_does_not_start_ends_it_all() {
    let (dir, base) = (dir("fails"), base_port());
    // A file stands where the second node wants its directory.
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("node-2"), "in the way").unwrap();
    let mut dev = Dev::start(&dir, base, &["--nodes", "2"]);
    assert_eq!(dev.wait().code(), Some(1));
    dev.says("node-2 │ ");
    let told = dev.says("node-2 ended with exit code 1 before it was ready");
    assert!(told.contains("carillon start"), "{told}");
    for number in 0..2 {
        assert!(TcpStream::connect(("127.0.0.1", base + number)).is_err(), "nobody is left");
    }
}

#[test]
fn command_lines_are_printed_and_nothing_is_started() {
    let (dir, base) = (dir("print"), base_port());
    let flags = ["--print", "--resp-mode", "cluster", "--", "--log-level", "warn"];
    let mut dev = Dev::start(&dir, base, &flags);
    assert_eq!(dev.wait().code(), Some(0));
    let lines: Vec<String> = dev.out.iter().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (number, line) in (1..).zip(&lines) {
        let own = format!(" start --dir {}/node-{number} --name node-{number} ", dir.display());
        assert!(
            line.contains(&own) && line.ends_with(" --resp-mode=cluster --log-level warn"),
            "{line}"
        );
    }
    assert!(dir.join("secret").is_file(), "the lines name it");
    assert!(!dir.join("node-1").exists());
}
