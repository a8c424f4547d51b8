//! Tests that snapshots leave a node at the configured rate, and faster if clients wait for them:
//! real processes.
//!
//! Two nodes join a node with data, which sends them snapshots of its shards, several at a time.
//! Its metrics count the bytes sent, from a tenth of all to nine tenths. The time between is some
//! seconds, and only the rate determines it.
//!
//! More than the rate is a bug on any machine. Less may be the machine's fault: with two cores and
//! other load, half the rate passes; an idle machine is within a few hundredths. The tests here run
//! one after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::ports::unused;
use harness::process::{Directory, Process};

/// Whose turn it is.
static TURN: Mutex<()> = Mutex::new(());

/// Longer than anything here takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const VALUES: u64 = 384;
const VALUE_BYTES: u64 = 64 << 10;
/// What both others are to get.
const PAYLOAD: u64 = 2 * VALUES * VALUE_BYTES;
/// Bytes in a second: all of it takes six.
const RATE: u64 = 8 << 20;
/// A block, and what a sender that was late may catch up with (50 ms).
const AHEAD: u64 = (320 << 10) + RATE / 20;

const SENT: &str = r#"carillon_snapshot_bytes_total{direction="sent"}"#;
const UNDER_WAY: &str = r#"carillon_snapshots_in_progress{direction="sent"}"#;
const LEFT: &str = "carillon_snapshot_remaining_bytes";
const DONE: &str = r#"carillon_snapshots_total{direction="sent",result="done"}"#;

/// Nodes with a directory, killed and removed when they are dropped.
struct Nodes {
    founder: SocketAddr,
    /// Before their directory: dropped first.
    processes: Vec<Process>,
    dir: Directory,
}

impl Nodes {
    fn new(test: &str) -> Self {
        let dir = Directory::new(&format!("snapshot-rate-{test}")).unwrap();
        dir.write_secret().unwrap();
        Self { founder: unused(), processes: Vec::new(), dir }
    }

    fn start(&mut self, name: &str, more: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
        command
            .args(["start", "--native", "off", "--log-level", "error", "--name", name, "--dir"])
            .arg(self.dir.path().join(name))
            .arg("--peer-secret-file")
            .arg(self.dir.path().join("secret"))
            .args(more);
        let log = self.dir.path().join(format!("{name}.log"));
        self.processes.push(Process::start(command, &log).unwrap());
    }
}

/// A connection to a node that is about to start.
fn connect(address: SocketAddr) -> TcpStream {
    let begun = Instant::now();
    loop {
        if let Ok(stream) = TcpStream::connect(address) {
            stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
            return stream;
        }
        assert!(begun.elapsed() < TEST_TIMEOUT, "nobody listens at {address}");
        sleep(LOOK_EVERY);
    }
}

/// Writes all values, one after the other.
fn fill(address: SocketAddr) {
    let mut stream = connect(address);
    for number in 0..VALUES {
        set(&mut stream, &format!("key-{number:06}"), VALUE_BYTES);
    }
}

/// Writes one value.
fn set(stream: &mut TcpStream, key: &str, bytes: u64) {
    let head = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n", key.len());
    let value = vec![b'v'; bytes as usize];
    stream.write_all(&[head.as_bytes(), &value, b"\r\n"].concat()).unwrap();
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n", "{key}");
}

/// What a node says by HTTP.
fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address);
    let ask = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// All metrics of a node, and when: before it was asked, and after it has answered.
struct Sample {
    asked: Instant,
    answered: Instant,
    text: String,
}

impl Sample {
    fn of(address: SocketAddr) -> Self {
        let asked = Instant::now();
        let text = get(address, "/metrics");
        Self { asked, answered: Instant::now(), text }
    }

    fn number(&self, name: &str) -> u64 {
        let mut lines = self.text.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let number = line.unwrap_or_else(|| panic!("no {name} in {}", self.text));
        number.parse::<f64>().expect("a number") as u64
    }
}

/// The first sample of which this is so.
fn when(address: SocketAddr, what: &str, is_so: impl Fn(&Sample) -> bool) -> Sample {
    let begun = Instant::now();
    loop {
        let sample = Sample::of(address);
        if is_so(&sample) {
            return sample;
        }
        assert!(begun.elapsed() < TEST_TIMEOUT, "{what}: not so");
        sleep(LOOK_EVERY);
    }
}

#[test]
fn snapshots_leave_a_node_at_snapshot_rate() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut nodes = Nodes::new("rate");
    let (peer, resp, http) = (nodes.founder.to_string(), unused(), unused());
    let addresses = ["--peer", &peer, "--resp", &resp.to_string(), "--http", &http.to_string()];
    nodes.start("a", &[&addresses[..], &["--snapshot-rate", "8MiB"]].concat());
    fill(resp);
    for name in ["b", "c"] {
        let own = unused().to_string();
        nodes.start(name, &["--peer", &own, "--join", &peer, "--resp", "off", "--http", "off"]);
    }
    let sent = |sample: &Sample| sample.number(SENT);
    let first = when(http, "a tenth has left", |sample| sent(sample) >= PAYLOAD / 10);
    assert!(first.number(UNDER_WAY) > 0, "{}", first.text);
    let left = first.number(LEFT);
    assert!((1..PAYLOAD).contains(&left), "{left} bytes of {PAYLOAD} are left");
    let last = when(http, "nine tenths have left", |sample| sent(sample) >= PAYLOAD / 10 * 9);

    let bytes = sent(&last) - sent(&first);
    let longest = (last.answered - first.asked).as_secs_f64();
    let shortest = (last.asked - first.answered).as_secs_f64();
    let rate = bytes as f64 / longest / RATE as f64;
    eprintln!("{bytes} bytes in {shortest:.3} to {longest:.3} s: {rate:.3} of the rate");
    let most = RATE as f64 * longest + AHEAD as f64;
    assert!(bytes as f64 <= most, "{bytes} bytes in {longest} s");
    assert!(bytes as f64 >= RATE as f64 * shortest * 0.5, "{bytes} bytes in {shortest} s");

    let end = when(http, "nothing is under way", |sample| sample.number(UNDER_WAY) == 0);
    assert_eq!(end.number(LEFT), 0);
    assert!(end.number(DONE) > 1, "{}", end.text);
    let all = sent(&end);
    assert!((PAYLOAD..PAYLOAD + PAYLOAD / 20).contains(&all), "{all} bytes of {PAYLOAD}");
}

/// The lowest rate there is: what is written below would be on its way for minutes.
const SLOW: [&str; 2] = ["--snapshot-rate", "64KiB"];
const LONG_BYTES: u64 = 1 << 20;
/// More than the leader keeps for a follower that is away.
const LONG_VALUES: u64 = 24;

/// Until a node says this of itself.
fn until(address: SocketAddr, what: &str, is_so: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let status = get(address, "/v1/status");
        if is_so(&status) {
            return status;
        }
        assert!(begun.elapsed() < TEST_TIMEOUT, "{what}: not so: {status}");
        sleep(LOOK_EVERY);
    }
}

/// A node comes back, far behind. Health is not ok before it has caught up, and if another is
/// stopped all the same, what it lacks does not wait for the rate.
#[test]
fn urgent_snapshot_ignores_snapshot_rate() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut nodes = Nodes::new("urgent");
    let (peers, resps, https) = (
        [nodes.founder, unused(), unused()],
        [(); 3].map(|()| unused()),
        [(); 3].map(|()| unused()),
    );
    let start = |nodes: &mut Nodes, at: usize| {
        let [peer, resp, http] = [peers[at], resps[at], https[at]].map(|a| a.to_string());
        let founder = peers[0].to_string();
        let addresses = ["--peer", &peer, "--resp", &resp, "--http", &http];
        let join = ["--join", &founder];
        let join = if at == 0 { &[][..] } else { &join[..] };
        nodes.start(["a", "b", "c"][at], &[&addresses[..], &SLOW, join].concat());
    };
    (0..3).for_each(|at| start(&mut nodes, at));
    let is_well =
        |status: &str| status.contains(r#""verdict":"ok""#) && status.contains(r#""members_up":3"#);
    for http in https {
        until(http, "all is well", is_well);
    }
    nodes.processes[2].kill().unwrap();
    until(https[0], "c is gone", |status| status.contains("missing: c"));
    // Until it is taken for gone by the shards' leaders as well.
    sleep(Duration::from_secs(2));
    let mut stream = connect(resps[0]);
    // All in one shard, a block each.
    (0..LONG_VALUES).for_each(|number| set(&mut stream, &format!("{{k}}{number}"), LONG_BYTES));
    start(&mut nodes, 2);

    // The leader is one of the two: it says so, and nobody who asks both is told that all is well.
    let words =
        |status: &str| status.contains(r#""members_up":3"#) && status.contains("c is lagging in");
    let begun = Instant::now();
    let status = loop {
        let statuses = [0, 1].map(|at| get(https[at], "/v1/status"));
        let is_awaited = |status: &&String| words(status) && status.contains("of its state are");
        if let Some(status) = statuses.iter().find(is_awaited) {
            break status.clone();
        }
        assert!(begun.elapsed() < TEST_TIMEOUT, "nobody says that c lags: {statuses:?}");
        sleep(LOOK_EVERY);
    };
    assert!(status.contains(r#""verdict":"degraded""#) && status.contains("(replica "), "{status}");

    let begun = Instant::now();
    nodes.processes[1].stop(TEST_TIMEOUT).unwrap();
    let mut stream = connect(resps[0]);
    let ask = b"SET {k} short\r\n";
    loop {
        stream.write_all(ask).unwrap();
        let mut reply = [0; 512];
        let length = stream.read(&mut reply).unwrap();
        if reply.starts_with(b"+OK") {
            break;
        }
        let reply = String::from_utf8_lossy(&reply[..length]);
        assert!(begun.elapsed() < TEST_TIMEOUT, "{reply}");
    }
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{} MiB were there after {seconds:.3} s", LONG_VALUES);
    assert!(seconds < 30.0, "{seconds} s: it waited for the rate");
    // And all nine shards are led, by either.
    let led = |http| {
        let metrics = get(http, "/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix("carillon_shards_led "));
        line.expect("a number").parse::<u32>().expect("a number")
    };
    let begun = Instant::now();
    while led(https[0]) + led(https[2]) != 9 {
        assert!(begun.elapsed() < TEST_TIMEOUT, "{}", get(https[0], "/v1/status"));
        sleep(LOOK_EVERY);
    }
}
