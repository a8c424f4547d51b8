//! The real program as a node: its start, its stop, and its catalogue under concurrent changes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::node;

use client::http::{Client, ClientError, KeyspaceSpec};

/// Longer than anything here takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A node of its own directory, killed and removed when it is dropped.
struct Node(node::Node);

impl Deref for Node {
    type Target = node::Node;

    fn deref(&self) -> &node::Node {
        &self.0
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut node::Node {
        &mut self.0
    }
}

impl Node {
    fn start(name: &str, flags: &[&str]) -> Self {
        Self(node::Node::alone(env!("CARGO_BIN_EXE_carillon"), name, flags))
    }

    /// Waits until it serves its first keyspace.
    fn ready(self) -> Self {
        let client = self.client();
        harness::until(TEST_TIMEOUT, "it serves", || {
            client.keyspaces().is_ok_and(|all| !all.is_empty()).then_some(())
        });
        self
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.resp).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream
    }

    /// SIGTERM; how long it takes to end.
    fn stop(&mut self) -> Duration {
        let begun = Instant::now();
        self.0.stop();
        begun.elapsed()
    }
}

/// Sends PING as soon as anybody listens.
fn first_ping(address: SocketAddr) -> std::io::Result<String> {
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) if begun.elapsed() > TEST_TIMEOUT => return Err(error),
            Err(_) => thread::yield_now(),
        }
    };
    stream.set_read_timeout(Some(TEST_TIMEOUT))?;
    stream.write_all(b"PING\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

/// They lie in the backlog when the first loop begins to give connections to the others.
#[test]
fn clients_in_backlog_before_start_are_served() {
    for round in 0..4 {
        let node = Node::start(&format!("backlog-{round}"), &["--threads", "4"]);
        let pings: Vec<_> = (0..24)
            .map(|_| {
                let address = node.resp;
                thread::spawn(move || first_ping(address))
            })
            .collect();
        for ping in pings {
            let answer = ping.join().unwrap();
            assert!(answer.as_ref().is_ok_and(|line| line == "+PONG\r\n"), "{answer:?}");
        }
    }
}

/// Some do not read their replies, one does not send the rest of its request: the loops and HTTP
/// wait for them at once.
#[test]
fn shutdown_timeout_covers_all_clients_together() {
    const TIMEOUT: Duration = Duration::from_millis(1_200);
    let flags = ["--threads", "2", "--shutdown-timeout-ms", "1200ms"];
    let mut node = Node::start("stop", &flags).ready();
    let value = vec![b'x'; 16 << 20];
    node.client().put("0", b"large", &value, &Default::default()).unwrap();
    let silent: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = node.connect();
            stream.write_all(&b"GET large\r\n".repeat(8)).unwrap();
            // It is served: the rest will not fit into the socket's buffers.
            stream.read_exact(&mut [0; 8]).unwrap();
            stream
        })
        .collect();
    let mut http = TcpStream::connect(node.http).unwrap();
    http.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let head = "PUT /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                Content-Type: application/octet-stream\r\nContent-Length: 9\r\n\r\n";
    http.write_all(head.as_bytes()).unwrap();
    // Its request is under way: the rest of it will not come.
    let mut go_on = [0; 12];
    http.read_exact(&mut go_on).unwrap();
    assert_eq!(go_on, *b"HTTP/1.1 100");
    http.write_all(b"half").unwrap();
    let took = node.stop();
    assert!(took >= TIMEOUT, "nobody was waited for: {took:?}");
    assert!(took < TIMEOUT * 2, "waited more than once: {took:?}");
    drop((silent, http));
}

/// So many keyspaces are made and dropped, in all.
const ENOUGH: u32 = 60;

/// A client that creates a keyspace gets its answer, though another drops it in the same turn.
#[test]
fn keyspace_create_is_answered_while_another_drops_it() {
    // However slow the machine is, each request is answered.
    let node = Node::start("drops", &["--request-timeout-ms", "60s"]).ready();
    let client = || node.client().with_timeout(TEST_TIMEOUT);
    let create = |client: &Client| {
        let spec = KeyspaceSpec { name: "k".into(), ..KeyspaceSpec::default() };
        match client.keyspace_create(&spec) {
            Ok(info) => {
                assert_eq!((info.name.as_str(), info.shards > 0), ("k", true));
                1
            }
            Err(ClientError::Refused(why)) if why.kind == "keyspace-exists" => 0,
            Err(error) => panic!("create: {error}"),
        }
    };
    let drop = |client: &Client| match client.keyspace_drop("k") {
        Ok(()) => 1,
        Err(ClientError::Refused(why)) if why.kind == "no-keyspace" => 0,
        Err(error) => panic!("drop: {error}"),
    };
    // Threads begin one after the other, which may take as long as all that those before do: they
    // go on until enough was made, and so dropped, too.
    let (enough, begun) = (AtomicU32::new(0), Instant::now());
    let run = |what: &(dyn Fn(&Client) -> u32 + Sync)| {
        let client = client();
        let mut done = 0;
        for round in 0.. {
            let is_enough =
                enough.load(Ordering::Relaxed) > ENOUGH || begun.elapsed() > TEST_TIMEOUT;
            if round >= 60 && is_enough {
                break;
            }
            let more = what(&client);
            done += more;
            enough.fetch_add(more, Ordering::Relaxed);
        }
        done
    };
    let (mut made, mut dropped) = thread::scope(|scope| {
        let makers: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&create))).collect();
        let droppers: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&drop))).collect();
        let sum = |threads: Vec<thread::ScopedJoinHandle<'_, u32>>| {
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
        };
        (sum(makers), sum(droppers))
    });
    // Every answer counts: what was made was dropped, but for the last.
    made += create(&client());
    dropped += drop(&client());
    assert_eq!(made, dropped);
    assert!(made > ENOUGH / 3, "too little happened: {made}");
}

/// An error of the protocol is no command's reply: it is not kept from a client because the reply
/// of the command before was.
/// What only moves a value is done, as it is in a shard; EXEC says that nothing was, as in Redis.
#[test]
fn without_memory_values_still_move_and_exec_aborts() {
    let flags = ["--memory-max", "16MiB", "--retention-ms", "0", "--threads", "2"];
    let node = Node::start("no-memory", &flags).ready();
    let mut lines = BufReader::new(node.connect());
    let mut ask = |line: &str| {
        lines.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        lines.read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    };
    for key in 0..8 {
        assert_eq!(ask(&format!("SET key:{key} {key}")), "+OK");
    }
    assert_eq!((ask("MULTI"), ask("SET early 1")), ("+OK".into(), "+QUEUED".into()));
    let mut other = BufReader::new(node.connect());
    let mut reply = String::new();
    let value = "v".repeat(20_000);
    for key in 0..2_000 {
        other.get_mut().write_all(format!("SET fill:{key} {value}\r\n").as_bytes()).unwrap();
        reply.clear();
        other.read_line(&mut reply).unwrap();
        if reply.starts_with("-OOM") {
            break;
        }
    }
    assert!(reply.starts_with("-OOM command not allowed"), "{reply}");
    let aborted = "-EXECABORT Transaction discarded because of: OOM command not allowed when used \
                   memory > 'maxmemory'.";
    assert_eq!(ask("EXEC"), aborted);
    for key in 0..8 {
        assert_eq!(ask(&format!("RENAME key:{key} moved:{key}")), "+OK");
    }
    assert!(ask("COPY moved:0 copy:0").starts_with("-OOM"));
    assert_eq!((ask("MULTI"), ask("RENAME moved:1 key:1")), ("+OK".into(), "+QUEUED".into()));
    assert_eq!(ask("EXEC"), "*1");
}

/// With the shortest retention, entries that raise the safe point come all the time.
#[test]
fn old_versions_are_collected_though_nobody_writes() {
    let flags = ["--memory-max", "16MiB", "--retention-ms", "0"];
    let node = Node::start("old-versions", &flags).ready();
    let mut connection = node.0.connect();
    let mut set = |value: &str| connection.ask(&["SET", "key", value]).unwrap().text();
    let value = "v".repeat(1 << 20);
    let is_full = (0..2_000).any(|_| set(&value).starts_with("OOM"));
    assert!(is_full, "old versions take memory until they are collected");
    harness::until(TEST_TIMEOUT, "old versions are collected", || {
        (set("short") == "OK").then_some(())
    });
}

#[test]
fn protocol_errors_are_sent_even_after_muted_reply() {
    let node = Node::start("muted", &[]).ready();
    let answer_of = |bytes: &str| {
        let mut stream = node.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all
    };
    let error = "-ERR Protocol error: invalid multibulk length\r\n";
    for (between, replies) in [
        ("", ""),
        ("SET s 1\r\n", "+OK\r\n"),
        ("SET s 1 EX 100\r\n", "+OK\r\n"),
        ("SET s 1\r\nGET s\r\nSET s 2\r\n", "+OK\r\n$1\r\n1\r\n+OK\r\n"),
        ("GET none\r\n", "$-1\r\n"),
    ] {
        let bytes = format!("CLIENT REPLY SKIP\r\nPING\r\n{between}*x\r\n");
        assert_eq!(answer_of(&bytes), format!("{replies}{error}"), "{between:?}");
    }
    assert_eq!(answer_of("CLIENT REPLY OFF\r\nSET s 1\r\n*x\r\n"), "");
    assert_eq!(answer_of("CLIENT REPLY SKIP\r\n*x\r\n"), "");
}

/// What happens to its shards stands in its log, and what was decided is remembered with what came
/// of it.
#[test]
fn shard_events_are_logged() {
    let node = Node::start("events", &["--log-level", "debug"]).ready();
    let http = node.http.to_string();
    let client = node.client();
    (0..50).for_each(|key| {
        client.put("0", format!("key-{key}").as_bytes(), b"v", &Default::default()).unwrap();
    });
    let (code, output) = node.carillon(&["split", "1", "--http", &http]);
    assert_eq!(code, 0, "{output}");
    let phrases = [
        "shard 1: replica 1, on this node, is elected leader in term",
        "shard 1 splits at slot",
        "an operator asked for it",
        "shard 1 was split at slot",
        "shard 1: decision 1 is done after",
    ];
    harness::until(TEST_TIMEOUT, "all is told", || {
        let log = node.log();
        phrases.iter().all(|words| log.contains(words)).then_some(())
    });
    let (code, output) = node.carillon(&["shards", "--why", "--shard", "1", "--http", &http]);
    assert!(
        code == 0 && output.contains("it splits at slot") && output.contains("done"),
        "{output}"
    );
    assert_eq!(node.metric("carillon_events_evicted_total"), 0.0);
}
