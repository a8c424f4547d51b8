//! The real program with tools of Redis: INFO, closed connections, advertised addresses.

use std::ops::Deref;
use std::thread;
use std::time::Duration;

use harness::node::{self, TEST_TIMEOUT};
use harness::process::Directory;
use harness::resp::Connection;

const BINARY: &str = env!("CARGO_BIN_EXE_carillon");

/// A node of its own directory, killed and removed when it is dropped.
struct Node {
    /// Before the directory: dropped first.
    node: node::Node,
    _dir: Directory,
}

impl Deref for Node {
    type Target = node::Node;

    fn deref(&self) -> &node::Node {
        &self.node
    }
}

impl Node {
    fn start(name: &str, flags: &[&str]) -> Self {
        Self::started(Directory::new(name).unwrap(), flags)
    }

    /// A node that could have others, with a secret of its own.
    fn start_with_peer(name: &str, flags: &[&str]) -> Self {
        let dir = Directory::new(name).unwrap();
        dir.write_secret().unwrap();
        Self::started(dir, &[&["--replicas", "1"], flags].concat())
    }

    fn started(dir: Directory, flags: &[&str]) -> Self {
        let mut node = node::Node::new(BINARY, dir.path(), "node");
        node.start(flags);
        until("it serves", || {
            let reply = node.try_connect().and_then(|mut talk| talk.ask_line("DEL none"));
            reply.is_ok_and(|reply| reply.line() == ":0").then_some(())
        });
        Self { node, _dir: dir }
    }

    fn talk(&self) -> TestConnection {
        TestConnection(self.connect())
    }
}

fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    harness::until(TEST_TIMEOUT, what, look)
}

/// A connection.
struct TestConnection(Connection);

impl TestConnection {
    fn send(&mut self, line: &str) {
        self.0.send(format!("{line}\r\n").as_bytes()).unwrap();
    }

    /// A line, and its reply: of a bulk the text, of an array its flat elements.
    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    fn reply(&mut self) -> String {
        self.0.reply().unwrap().line()
    }

    /// A number that INFO tells.
    fn info(&mut self, name: &str) -> u64 {
        let value = self.info_text(name);
        value.parse().unwrap_or_else(|_| panic!("{name}:{value}"))
    }

    fn info_text(&mut self, name: &str) -> String {
        let all = self.ask("INFO");
        let line = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {all}")).to_owned()
    }
}

#[test]
fn info_counts_expiring_and_expired_keys() {
    let node = Node::start("expiry", &[]);
    let mut talk = node.talk();
    for line in ["SET a 1 PX 20", "SET again 1 PX 20", "SET b 1", "SET c 1 EX 1000"] {
        assert_eq!(talk.ask(line), "+OK");
    }
    thread::sleep(Duration::from_millis(60));
    let db = talk.info_text("db0");
    let ttl = db.strip_prefix("keys=2,expires=1,avg_ttl=").unwrap_or_else(|| panic!("{db}"));
    let ttl: u64 = ttl.parse().unwrap();
    assert!((900_000..=1_000_000).contains(&ttl), "{ttl}");
    assert_eq!(talk.info("expired_keys"), 2);
    // What is written again, or flushed, has expired all the same, and once.
    assert_eq!(talk.ask("SET again 2"), "+OK");
    assert_eq!(talk.info("expired_keys"), 2);
    assert_eq!(talk.ask("FLUSHALL"), "+OK");
    assert_eq!(talk.info("expired_keys"), 2);
}

#[test]
fn info_counts_requests_refusals_and_waits() {
    let node = Node::start_with_peer("waits", &[]);
    let mut talk = node.talk();
    let errors = talk.info("total_error_replies");
    for (line, reply) in [("SET n x", "+OK"), ("INCR n", "-ERR"), ("NOSUCH", "-ERR")] {
        assert!(talk.ask(line).starts_with(reply), "{line}");
    }
    assert!(talk.ask("MULTI").starts_with("+OK"));
    assert_eq!(
        (talk.ask("INCR n"), talk.ask("NOSUCH 1").starts_with('-')),
        ("+QUEUED".into(), true)
    );
    assert!(talk.ask("EXEC").starts_with("-EXECABORT"));
    assert!(talk.ask("MULTI").starts_with("+OK"));
    assert_eq!((talk.ask("INCR n"), talk.ask("INCR m")), ("+QUEUED".into(), "+QUEUED".into()));
    assert!(talk.ask("EXEC").starts_with("-ERR"), "the first of two replies");
    assert_eq!(talk.info("total_error_replies"), errors + 5);

    // Those that wait for replicas, of which there are none.
    let mut waiting: Vec<TestConnection> = (0..30).map(|_| node.talk()).collect();
    waiting.iter_mut().for_each(|talk| talk.send("WAIT 9 0"));
    until("30 wait", || (node.talk().info("blocked_clients") == 30).then_some(()));
    waiting.truncate(10);
    until("20 are gone", || (node.talk().info("blocked_clients") == 10).then_some(()));

    let busy = until("a rate", || {
        let mut talk = node.talk();
        (0..200).for_each(|_| assert_eq!(talk.ask("PING"), "+PONG"));
        Some(talk.info("instantaneous_ops_per_sec")).filter(|rate| *rate > 200)
    });
    assert!(busy < 10_000_000, "{busy}");
    until("rest", || {
        // Looks are commands too: few enough to be rest themselves.
        std::thread::sleep(Duration::from_millis(200));
        (talk.info("instantaneous_ops_per_sec") < 100).then_some(())
    });
    assert!(talk.info("used_memory_peak") >= talk.info("used_memory"));
}

/// Calls are counted once each, whichever way they take through the loop; slow ones are noted.
#[test]
fn info_counts_calls_and_slowlog_notes_slow_ones() {
    let node = Node::start("calls", &["--threads", "2"]);
    let mut talk = node.talk();
    let calls = |talk: &mut TestConnection, name: &str| {
        let all = talk.ask("INFO commandstats");
        let line = all.lines().find_map(|l| l.strip_prefix(&format!("cmdstat_{name}:calls=")));
        let line = line?.to_owned();
        let (count, rest) = line.split_once(",usec=").expect("the time follows");
        assert!(rest.contains(",usec_per_call="), "{line}");
        Some(count.parse::<u64>().unwrap())
    };
    assert_eq!(talk.ask("CONFIG RESETSTAT"), "+OK");
    assert_eq!(talk.info("keyspace_hits"), 0);
    let mut other = node.talk();
    for talk in [&mut talk, &mut other] {
        let lines = ["SET k 1", "GET k", "INCR k", "GET k", "SET k 2 EX 100", "GET", "NOSUCH"];
        talk.send(&lines.join("\r\n"));
        lines.iter().for_each(|_| _ = talk.reply());
        let lines = ["MULTI", "INCR k", "GET k", "NOSUCH", "DISCARD", "MULTI", "INCR k", "EXEC"];
        lines.iter().for_each(|line| _ = talk.ask(line));
    }
    for (name, count) in [("set", 4), ("get", 4), ("incr", 4), ("multi", 4), ("exec", 2)] {
        assert_eq!(calls(&mut talk, name), Some(count), "{name}");
    }
    assert_eq!((calls(&mut talk, "nosuch"), calls(&mut talk, "del")), (None, None));
    assert_eq!(talk.info("keyspace_hits"), 4);
    let histogram = talk.ask("LATENCY HISTOGRAM set info");
    assert!(!histogram.contains("get") && histogram.contains("info"), "{histogram}");
    assert_eq!(talk.ask("CONFIG RESETSTAT"), "+OK");
    assert_eq!(calls(&mut talk, "set"), None);

    assert_eq!(talk.ask("SLOWLOG RESET"), "+OK");
    assert_eq!(talk.ask("CLIENT SETNAME slow"), "+OK");
    for (key, text, count) in [("{l}a", "xyz", 3_800), ("{l}b", "zyyxz", 2_280)] {
        assert_eq!(talk.ask(&format!("SET {key} {}", text.repeat(count))), "+OK");
    }
    assert!(talk.ask("LCS {l}a {l}b IDX MINMATCHLEN 50").starts_with("matches"));
    assert_eq!(talk.ask("SLOWLOG LEN"), ":1");
    let slow = talk.ask("SLOWLOG GET");
    assert!(
        slow.contains("LCS {l}a {l}b IDX MINMATCHLEN 50 127.0.0.1:") && slow.ends_with("slow"),
        "{slow}"
    );
    assert_eq!(other.ask("SLOWLOG RESET"), "+OK");
    assert_eq!(talk.ask("SLOWLOG LEN"), ":0");
    assert_eq!(talk.ask("CONFIG GET slowlog-log-slower-than"), "slowlog-log-slower-than 10000");

    // Every command that is measured by itself is slow, for all connections of the node.
    assert_eq!(talk.ask("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2"), "+OK");
    assert_eq!(other.ask("CONFIG GET slowlog*"), "slowlog-log-slower-than 0 slowlog-max-len 2");
    for pattern in ["a*", "b*", "c*"] {
        other.ask(&format!("KEYS {pattern}"));
    }
    assert_eq!(talk.ask("CONFIG SET slowlog-log-slower-than -1"), "+OK");
    assert_eq!(talk.ask("SLOWLOG LEN"), ":2");
    let slow = talk.ask("SLOWLOG GET");
    assert!(!slow.contains("KEYS a*") && slow.contains("KEYS c*"), "the newest two: {slow}");
    let refused = talk.ask("CONFIG SET slowlog-max-len 7 maxmemory-policy allkeys-lru");
    assert!(refused.contains("no setting was changed"), "{refused}");
    assert_eq!(other.ask("CONFIG GET slowlog-max-len"), "slowlog-max-len 2");
    assert_eq!(talk.ask("CONFIG GET lua-time-limit"), "lua-time-limit 5000");
    assert_eq!(talk.ask("CONFIG SET lua-time-limit 5000 tracking-table-max-keys 7"), "+OK");
    assert_eq!(other.ask("CONFIG GET tracking-table-max-keys"), "tracking-table-max-keys 7");
}

/// A connection that was killed is in no list when the reply is there, whichever loop serves it.
#[test]
fn client_kill_replies_after_connection_closed() {
    let node = Node::start("kill", &["--threads", "4"]);
    let mut talk = node.talk();
    for round in 0..60 {
        let mut other = node.talk();
        let id = other.ask("CLIENT ID").trim_start_matches(':').to_owned();
        // Both in one go.
        talk.send(&format!("CLIENT KILL ID {id}\r\nCLIENT LIST"));
        assert_eq!(talk.reply(), ":1", "round {round}");
        let list = talk.reply();
        assert!(!list.contains(&format!("id={id} ")), "round {round}: {list}");
        assert!(other.0.is_at_its_end(), "its client sees the end");
        assert_eq!(talk.ask(&format!("CLIENT KILL ID {id}")), ":0");
    }
    let others: Vec<TestConnection> = (0..7).map(|_| node.talk()).collect();
    until("they are there", || (node.talk().ask("CLIENT LIST").lines().count() >= 9).then_some(()));
    let address = others[0].0.local_address().unwrap();
    assert_eq!(talk.ask(&format!("CLIENT KILL {address}")), "+OK");
    assert_eq!(talk.ask(&format!("CLIENT KILL {address}")), "-ERR No such client");
    let all = talk.ask("CLIENT KILL TYPE normal SKIPME no");
    assert!(all.trim_start_matches(':').parse::<u64>().unwrap() >= 7, "{all}");
    assert!(talk.0.is_at_its_end(), "its own, too");
    assert_eq!(node.talk().ask("CLIENT LIST").lines().count(), 1);
}

/// Twenty clients ask for more than they read: the longest outputs go, and who reads is served.
/// Lines of a connection that monitors, until one has this in it.
fn lines_until(socket: &mut impl std::io::BufRead, end: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(socket.read_line(&mut line).unwrap(), 0, "it was closed after {lines:?}");
        let is_last = line.contains(end);
        lines.push(line.trim_end().to_owned());
        if is_last {
            return lines;
        }
    }
}

#[test]
fn monitor_shows_the_commands_of_all_connections() {
    use std::io::{BufReader, Write as _};
    use std::net::TcpStream;

    let node = Node::start("redis_monitor", &["--threads", "2"]);
    let connect = || {
        let socket = TcpStream::connect(node.resp).unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        socket
    };
    // On both loops.
    let monitors: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
    let mut read: Vec<_> = monitors.into_iter().map(BufReader::new).collect();
    for socket in &mut read {
        socket.get_mut().write_all(b"MONITOR\r\n").unwrap();
        assert_eq!(lines_until(socket, "+OK"), ["+OK"]);
    }
    let mut talk = node.talk();
    for line in ["SET a 1", "GET a", "CONFIG GET save", "SELECT 3", "MULTI", "INCR b", "EXEC"] {
        talk.ask(line);
    }
    let long = "x".repeat(3000);
    talk.0.ask(&["SET", "long\n", &long]).unwrap();
    talk.ask("ECHO end");
    for socket in &mut read {
        let lines = lines_until(socket, "\"end\"");
        let shown: Vec<&str> =
            lines.iter().map(|line| line.split_once("] ").expect("a line").1).collect();
        let cut = format!(r#""SET" "long\n" "{}... (1976 more bytes)""#, &long[..1024]);
        let expected = [
            r#""SET" "a" "1""#,
            r#""GET" "a""#,
            r#""SELECT" "3""#,
            r#""MULTI""#,
            r#""INCR" "b""#,
            r#""EXEC""#,
            &cut,
            r#""ECHO" "end""#,
        ];
        assert_eq!(shown, expected);
        assert!(lines[3].starts_with('+') && lines[3].contains(" [3 127.0.0.1:"), "{}", lines[3]);
    }
    // One of them ends it, another goes, and the last one sees on.
    read[0].get_mut().write_all(b"RESET\r\n").unwrap();
    assert_eq!(lines_until(&mut read[0], "RESET").last().unwrap(), "+RESET");
    drop(read.remove(1));
    talk.ask("ECHO more");
    assert!(lines_until(&mut read[1], "more").last().unwrap().ends_with(r#""ECHO" "more""#));
    read[0].get_mut().write_all(b"PING\r\n").unwrap();
    assert_eq!(lines_until(&mut read[0], "PONG"), ["+PONG"]);
}

#[test]
fn unread_replies_are_bounded_over_all_connections() {
    const VALUE_BYTES: usize = 8 << 20;
    let flags = ["--threads", "2", "--value-bytes-max", "8MiB", "--output-bytes-max", "16MiB"];
    let node =
        Node::start("unread", &[&flags[..], &["--output-bytes-total-max", "64MiB"]].concat());
    let mut talk = node.talk();
    let value = "v".repeat(VALUE_BYTES);
    assert_eq!(
        talk.ask(&format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${VALUE_BYTES}\r\n{value}")),
        "+OK"
    );
    let mut silent: Vec<TestConnection> = (0..20).map(|_| node.talk()).collect();
    silent.iter_mut().for_each(|talk| talk.send("GET big\r\nGET big"));
    until("some are closed", || (talk_info(&node, "evicted_clients") >= 12).then_some(()));
    assert!(talk_info(&node, "evicted_clients") < 20, "not more than needed");
    assert_eq!(talk.ask("GET big").len(), VALUE_BYTES, "who reads has its reply");
    // Those that are left have theirs, whole.
    let mut whole = 0;
    for talk in &mut silent {
        whole += usize::from(talk.0.reply().is_ok());
    }
    assert!(whole > 0);
}

fn talk_info(node: &Node, name: &str) -> u64 {
    node.talk().info(name)
}

#[test]
fn wait_between_begin_and_commit_is_refused() {
    let node = Node::start("begin", &[]);
    let mut talk = node.talk();
    assert_eq!(talk.ask("WAIT 0 0"), ":0");
    assert_eq!(talk.ask("BEGIN"), "+OK");
    for line in ["WAIT 1 10", "WAITAOF 0 0 0"] {
        assert!(
            talk.ask(line).starts_with("-ERR the command is not allowed between BEGIN"),
            "{line}"
        );
    }
    assert_eq!((talk.ask("SET k 1"), talk.ask("COMMIT")), ("+OK".into(), "+OK".into()));
}

/// Behind a mapping of ports clients are sent to the outer one.
#[test]
fn advertised_port_replaces_listening_port() {
    let flags = ["--resp-mode", "cluster", "--resp-advertise-port", "7001"];
    let flags = [&flags[..], &["--advertise", "db.example"]].concat();
    for node in [Node::start("mapped", &flags), Node::start_with_peer("mapped-peer", &flags)] {
        let mut talk = node.talk();
        let listened = node.resp.port().to_string();
        for line in ["CLUSTER SLOTS", "CLUSTER NODES", "CLUSTER SHARDS"] {
            let reply = talk.ask(line);
            assert!(reply.contains("db.example") && reply.contains("7001"), "{line}: {reply}");
            assert!(!reply.contains(&listened), "{line}: {reply}");
        }
        assert_eq!(talk.info("tcp_port"), u64::from(node.resp.port()));
    }
}

#[test]
fn guessable_secret_is_refused_at_start() {
    let dir = Directory::new("weak").unwrap();
    let secret = dir.write_secret().unwrap();
    for text in ["x", "\0\0\0", "fifteen letters", &"z".repeat(40), "passwordpassword"] {
        std::fs::write(&secret, text).unwrap();
        let output = node::Node::new(BINARY, dir.path(), "node").command(&[]).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && complaint.contains("can be guessed"),
            "{text:?}: {complaint}"
        );
        assert!(complaint.contains("/dev/urandom"), "{complaint}");
    }
}
