//! Clients at nodes without a replica of the shard, or with one that has no state yet: real
//! processes.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use client::http::Request;
use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Directory;
use harness::resp::{Connection, TextReply};

/// Nodes with a directory, killed and removed when they are dropped.
struct Cluster {
    /// Before their directory: dropped first.
    nodes: Vec<Node>,
    /// Settings of all.
    more: &'static [&'static str],
    _dir: Directory,
}

impl Cluster {
    fn start(name: &str, nodes: usize) -> Self {
        let mut cluster = Self::plan(name, nodes, &[]);
        (0..nodes).for_each(|number| cluster.start_node(number));
        cluster
    }

    /// Nothing is started yet.
    fn plan(name: &str, nodes: usize, more: &'static [&'static str]) -> Self {
        let dir = Directory::new(name).unwrap();
        dir.write_secret().unwrap();
        let program = env!("CARGO_BIN_EXE_carillon");
        let node = |number| Node::new(program, dir.path(), &format!("n{number}"));
        Self { nodes: (0..nodes).map(node).collect(), more, _dir: dir }
    }

    fn start_node(&mut self, number: usize) {
        let first = self.nodes[0].peer.to_string();
        let join = if number > 0 { &["--join", &first][..] } else { &[] };
        self.nodes[number].start(&[&["--balance=off"], self.more, join].concat());
        self.served_at(number);
    }

    /// Waits until a node takes writes.
    fn served_at(&self, number: usize) {
        harness::until(TEST_TIMEOUT, &format!("node {number} takes writes"), || {
            let mut connection = self.nodes[number].try_connect().ok()?;
            let reply = connection.ask_line("SET ready 1").ok()?;
            (reply.text() == "OK").then_some(())
        });
    }

    fn client(&self, number: usize) -> Client {
        Client(self.nodes[number].connect())
    }

    fn http(&self, number: usize) -> client::http::Client {
        self.nodes[number].client()
    }
}

/// Commands in a line, and replies as text: elements of arrays with spaces between.
struct Client(Connection);

impl Client {
    fn try_ask(&mut self, command: &str) -> Option<String> {
        self.0.ask_line(command).ok().map(|reply| reply.text())
    }

    fn ask(&mut self, command: &str) -> String {
        self.try_ask(command).unwrap_or_else(|| panic!("no reply to {command}"))
    }

    /// All keys, by SCAN.
    fn scan(&mut self) -> Vec<String> {
        let (mut cursor, mut keys) = (String::from("0"), Vec::new());
        loop {
            let page = self.ask(&format!("SCAN {cursor} COUNT 7"));
            let mut words = page.split(' ').filter(|word| !word.is_empty());
            cursor = words.next().unwrap().into();
            keys.extend(words.map(String::from));
            if cursor == "0" {
                keys.sort();
                return keys;
            }
        }
    }
}

/// Every family of commands, through one connection.
fn every_family(client: &mut Client, prefix: &str) {
    let key = |name: &str| format!("{prefix}{name}");
    let (a, b, none) = (key("a"), key("b"), key("none"));
    let expected = [
        (format!("SET {a} 1"), "OK"),
        (format!("GET {a}"), "1"),
        (format!("INCR {a}"), "2"),
        (format!("SET {a} 5 NX"), "nil"),
        (format!("GETSET {a} 7"), "2"),
        (format!("MSET {b} hello {a} 8"), "OK"),
        (format!("MGET {a} {none} {b}"), "8 nil hello"),
        (format!("EXISTS {a} {b} {none}"), "2"),
        (format!("STRLEN {b}"), "5"),
        (format!("GETRANGE {b} 1 3"), "ell"),
        (format!("APPEND {b} !"), "6"),
        (format!("TYPE {b}"), "string"),
        (format!("OBJECT ENCODING {a}"), "int"),
        (format!("TTL {a}"), "-1"),
        (format!("EXPIRE {a} 1000"), "1"),
        (format!("TTL {a}"), "1000"),
        (format!("PERSIST {a}"), "1"),
        (format!("LCS {{{b}}}1 {{{b}}}2"), ""),
        (format!("GETDEL {a}"), "8"),
        (format!("DEL {b}"), "1"),
        (format!("EXISTS {a} {b}"), "0"),
    ];
    for (command, reply) in expected {
        assert_eq!(client.ask(&command), reply, "{command}");
    }
}

#[test]
fn every_node_serves_keyspaces_of_one_replica() {
    let cluster = Cluster::start("away-one", 3);
    let http = cluster.http(1);
    for (name, placement) in [("1", "hashed"), ("2", "ordered")] {
        let spec = client::http::KeyspaceSpec {
            name: name.into(),
            placement: Some(placement.into()),
            replicas: Some(1),
            ..Default::default()
        };
        http.keyspace_create(&spec).unwrap();
    }
    for number in 0..3 {
        let mut client = cluster.client(number);
        assert_eq!(client.ask("SELECT 1"), "OK");
        every_family(&mut client, &format!("n{number}-"));
        let names: Vec<String> = (10..99).map(|n| format!("k{n}")).collect();
        for name in &names {
            assert_eq!(client.ask(&format!("SET {name} {name}")), "OK");
        }
        assert_eq!(client.scan(), names);
        assert_eq!(client.ask("DBSIZE"), names.len().to_string());
        assert_eq!(client.ask("KEYS *").split(' ').count(), names.len());
        assert!(names.contains(&client.ask("RANDOMKEY")));
        assert_eq!(client.ask("CLIENT STALE 500"), "OK");
        assert_eq!(client.ask("GET k10"), "k10");
        assert!(client.ask("CLIENT STALE AGE").parse::<u64>().unwrap() <= 500);
        assert_eq!(client.ask("FLUSHDB"), "OK");
        assert_eq!(client.ask("DBSIZE"), "0");
        // In order.
        let mut client = cluster.client(number);
        assert_eq!(client.ask("SELECT 2"), "OK");
        every_family(&mut client, &format!("n{number}-"));
        for name in ["c", "a", "b"] {
            assert_eq!(client.ask(&format!("SET {name} v{name}")), "OK");
        }
        assert_eq!(client.ask("RANGE - + WITHVALUES"), "a va b vb c vc");
        assert_eq!(client.ask("RANGE + [b REV"), "c b");
        assert_eq!(client.ask("KEYS *"), "a b c");
    }
}

#[test]
fn nodes_without_replicas_serve_through_leader_death() {
    let mut cluster = Cluster::start("away-five", 5);
    let mut client = cluster.client(4);
    every_family(&mut client, "five-");
    let stale = cluster.http(3).get_stale("0", b"ready", 1_000).unwrap();
    assert!(
        matches!(stale, (client::http::GetResult::Value { .. }, Some(age_ms)) if age_ms <= 1_000)
    );
    cluster.nodes[0].kill();
    let (mut done, mut unknown, mut left) = (0, 0, 50);
    let begun = Instant::now();
    while left > 0 {
        assert!(begun.elapsed() < TEST_TIMEOUT, "no service without the first node");
        match client.ask("INCR counter").as_str() {
            refused if refused.starts_with("TRYAGAIN") => continue,
            reply if reply.starts_with("UNKNOWN") => unknown += 1,
            reply => {
                let count: u64 = reply.parse().unwrap_or_else(|_| panic!("{reply}"));
                assert!((done + 1..=done + unknown + 1).contains(&count), "{count}");
                (done, unknown) = (count, 0);
            }
        }
        left -= 1;
    }
    let count: u64 = client.ask("GET counter").parse().unwrap();
    assert!((done..=done + unknown).contains(&count), "{count} of {done} and {unknown}");
    every_family(&mut client, "again-");
    // Its table is put right by answers and gossip until it is that of the nodes with replicas.
    let begun = Instant::now();
    let dead = id_of(&mut client, cluster.nodes[0].resp);
    loop {
        let mut tables = [1, 4].map(|number| leaders(&mut cluster.client(number)));
        let [there, here] = &mut tables;
        if here == there && !here.iter().any(|(node, _)| *node == dead) {
            break;
        }
        assert!(begun.elapsed() < TEST_TIMEOUT, "{tables:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A node's id, by its address.
fn id_of(client: &mut Client, address: SocketAddr) -> String {
    let nodes = client.ask("CLUSTER NODES");
    let line = nodes.lines().find(|line| line.contains(&format!(" {address}@"))).unwrap();
    line.split(' ').next().unwrap().into()
}

/// Who leads which slots, as a node tells it.
fn leaders(client: &mut Client) -> Vec<(String, String)> {
    let nodes = client.ask("CLUSTER NODES");
    let lines = nodes.lines().map(|line| line.splitn(9, ' ').collect::<Vec<_>>());
    let leaders = lines.filter(|words| words.len() == 9);
    let mut leaders: Vec<_> = leaders.map(|words| (words[0].into(), words[8].into())).collect();
    leaders.sort();
    leaders
}

/// Longer than any answer that needs no waiting, on a busy machine.
const SOON: Duration = Duration::from_millis(1_500);

#[test]
fn wait_reports_true_replica_count_at_any_node() {
    let mut cluster = Cluster::start("away-wait", 5);
    // All three replicas of every shard are there, and leaders are where they stay.
    let begun = Instant::now();
    let mut quick = 0;
    while quick < 20 {
        assert!(begun.elapsed() < TEST_TIMEOUT, "the replicas do not come");
        let mut client = cluster.client(quick % 5);
        assert_eq!(client.ask(&format!("SET before-{quick} 1")), "OK");
        quick = if client.ask("WAIT 2 1000") == "2" { quick + 1 } else { 0 };
    }
    for number in 0..5 {
        let mut client = cluster.client(number);
        for round in 0..8 {
            assert_eq!(client.ask(&format!("SET wait-{number}-{round} 1")), "OK");
            let asked = Instant::now();
            assert_eq!(client.ask("WAIT 2 10000"), "2", "node {number}");
            assert!(asked.elapsed() < SOON, "node {number}: {:?}", asked.elapsed());
        }
        // The first three have replicas of everything.
        let asked = Instant::now();
        let (reply, is_soon) = match number < 3 {
            true => (client.ask("WAITAOF 1 2 10000"), true),
            false => (client.ask("WAITAOF 1 2 300"), false),
        };
        assert_eq!(reply, if is_soon { "1 2" } else { "0 2" }, "node {number}");
        assert!(asked.elapsed() < SOON, "node {number}: {:?}", asked.elapsed());
    }
    // What is not there is not claimed.
    cluster.nodes[2].kill();
    for number in [0, 1, 4] {
        let mut client = cluster.client(number);
        let begun = Instant::now();
        while client.ask(&format!("SET after-{number} 1")) != "OK" {
            assert!(begun.elapsed() < TEST_TIMEOUT, "no service without the third node");
        }
        assert_eq!(client.ask("WAIT 2 300"), "1", "node {number}");
    }
}

/// Nodes that have just come to a founder with data: the states of its shards are long on their
/// way, and who asks for keys of these shards is answered all the same.
#[test]
fn nodes_awaiting_snapshots_answer_at_once() {
    const VALUES: u64 = 512;
    let mut cluster = Cluster::plan("away-slow", 3, &["--snapshot-rate", "1MiB"]);
    cluster.start_node(0);
    let (mut founder, value) = (cluster.client(0), "v".repeat(32 << 10));
    let names: Vec<String> = (0..VALUES).map(|number| format!("key-{number:03}")).collect();
    for name in &names {
        assert_eq!(founder.ask(&format!("SET {name} {value}")), "OK");
    }
    for number in [1, 2] {
        cluster.start_node(number);
    }
    let is_under_way = || {
        let shards = cluster.http(0).shards(Some("0")).unwrap();
        shards.to_string().contains("\"awaits_snapshot\":true")
    };
    let begun = Instant::now();
    while !is_under_way() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "no state is sent");
        thread::sleep(Duration::from_millis(20));
    }
    for number in [2, 1] {
        let mut client = cluster.client(number);
        let mut quick = |command: &str| {
            let asked = Instant::now();
            let reply = client.ask(command);
            assert!(asked.elapsed() < SOON, "node {number}: {command}: {:?}", asked.elapsed());
            reply
        };
        for name in names.iter().step_by(8) {
            assert!(quick(&format!("GET {name}")) == value, "node {number}: {name}");
        }
        for round in 0..16 {
            let key = format!("new-{round}");
            assert_eq!(quick(&format!("INCR {key}")), quick(&format!("GET {key}")));
        }
        assert_eq!(quick("EXISTS key-000 key-001 key-002 key-003 key-004 none"), "5");
        assert_eq!(quick("DBSIZE"), (VALUES + 17).to_string());
        assert_eq!(quick("KEYS key-*").split(' ').count(), names.len());
        assert_eq!(client.scan().len() as u64, VALUES + 17);
        let asked = Instant::now();
        for name in names.iter().step_by(32) {
            let got = cluster.http(number).get("0", name.as_bytes(), None).unwrap();
            assert!(matches!(got, client::http::GetResult::Value { .. }), "{got:?}");
        }
        assert!(asked.elapsed() < SOON, "node {number}: {:?}", asked.elapsed());
    }
    assert!(is_under_way(), "all was there before it was asked for");
}

/// A command whose words are longer than a line may be.
fn long_command(words: &[&str]) -> String {
    let all: Vec<_> = words.iter().map(|word| format!("${}\r\n{word}", word.len())).collect();
    format!("*{}\r\n{}", words.len(), all.join("\r\n"))
}

/// After a conflict of EXEC a connection reads with key reservations. It gets values that are too
/// long for one answer as well, at the leader's node and at others.
#[test]
fn reserving_reads_get_values_above_answer_limit() {
    let cluster = Cluster::start("away-contend", 3);
    let value = "7".repeat(3 << 20);
    let mut other = cluster.client(0);
    assert_eq!(other.ask(&long_command(&["MSET", "{t}a", &value, "{t}b", &value])), "OK");
    let near: Vec<_> = (0..10).map(|number| format!("near{number}")).collect();
    for number in 0..3 {
        let mut client = cluster.client(number);
        assert_eq!(client.ask(&format!("WATCH {}", near.join(" "))), "OK");
        for name in &near {
            assert_eq!(other.ask(&format!("SET {name} {number}")), "OK");
        }
        assert_eq!(client.ask("MULTI"), "OK");
        for name in &near {
            assert_eq!(client.ask(&format!("SET {name} never")), "QUEUED");
        }
        assert_eq!(client.0.ask_line("EXEC").unwrap(), TextReply::Nil);

        let begun = Instant::now();
        assert_eq!(client.ask("WATCH {t}a {t}b near0"), "OK");
        let reply = client.ask("MGET {t}a near0 {t}b");
        assert!(reply == format!("{value} {number} {value}"), "{} bytes", reply.len());
        let reply = client.ask("MGET {t}a {t}b");
        assert!(reply == format!("{value} {value}"), "{} bytes", reply.len());
        assert_eq!(client.ask("MULTI"), "OK");
        assert_eq!(client.ask("SET near0 mine"), "QUEUED");
        assert_eq!(client.ask("SET {t}c mine"), "QUEUED");
        assert_eq!(client.ask("EXEC"), "OK OK");
        assert!(begun.elapsed() < TEST_TIMEOUT / 2, "{:?}", begun.elapsed());
    }
}

/// Values that are too long for one answer come in several, of moments of their own: who reads both
/// looks again until nothing has changed.
#[test]
fn long_values_of_one_shard_are_read_at_one_moment() {
    const LONG: usize = 3 << 20;
    let cluster = Cluster::start("away-long", 3);
    let spec = client::http::KeyspaceSpec {
        name: "1".into(),
        placement: Some("hashed".into()),
        replicas: Some(1),
        ..Default::default()
    };
    cluster.http(1).keyspace_create(&spec).unwrap();
    let both = |number: usize| {
        let value = format!("{number:08}").repeat(LONG / 8);
        long_command(&["MSET", "{t}a", &value, "{t}b", &value])
    };
    let client_of_it = |number| {
        let mut client = cluster.client(number);
        assert_eq!(client.ask("SELECT 1"), "OK");
        client
    };
    assert_eq!(client_of_it(0).ask(&both(0)), "OK");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = client_of_it(0);
            let is_over = || is_over.load(std::sync::atomic::Ordering::Relaxed);
            for number in (1..).take_while(|_| !is_over()) {
                assert_eq!(client.ask(&both(number)), "OK");
            }
        });
        let read = |number| {
            let mut client = client_of_it(number);
            move || {
                for _ in 0..60 {
                    let reply = client.ask("MGET {t}a {t}b");
                    let (a, b) = reply.split_once(' ').expect("two values");
                    assert_eq!((a.len(), b.len()), (LONG, LONG));
                    assert!(a == b, "{} and {}", &a[..8], &b[..8]);
                }
            }
        };
        let readers = [0, 1, 2].map(|number| scope.spawn(read(number)));
        let ends = readers.map(|reader| reader.join());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.expect("all were whole"));
    });
}

/// A request by HTTP as bytes: the status, and the value's tag.
fn by_http(
    cluster: &Cluster,
    number: usize,
    method: &str,
    path: &str,
    header: &str,
) -> (u16, String) {
    let headers: Vec<(&str, &str)> =
        header.lines().filter_map(|line| line.split_once(": ")).collect();
    let request = Request { headers: &headers, body: b"1", ..Request::write(method, path) };
    let reply = cluster.http(number).send(&request).unwrap();
    (reply.status, reply.header("etag").unwrap_or_default().to_owned())
}

#[test]
fn preconditions_are_judged_through_nodes_without_a_replica() {
    let cluster = Cluster::start("away-tags", 3);
    let spec = client::http::KeyspaceSpec {
        name: "1".into(),
        placement: Some("hashed".into()),
        replicas: Some(1),
        ..Default::default()
    };
    cluster.http(1).keyspace_create(&spec).unwrap();
    // Keys of all shards, so that each node leads some and has nothing of others.
    for key in 0..12 {
        let path = format!("/v1/kv/1/key{key}");
        for number in 0..3 {
            let ask = |method: &str, header: String| {
                let header = if header.is_empty() { header } else { format!("{header}\r\n") };
                by_http(&cluster, number, method, &path, &header)
            };
            let status = |method: &str, header: String| ask(method, header).0;
            let begun = Instant::now();
            while status("PUT", "If-None-Match: \"1\", \"2\"".into()) != 204 {
                assert!(begun.elapsed() < TEST_TIMEOUT, "node {number} writes nothing");
            }
            let (_, old) = ask("GET", String::new());
            assert_eq!(status("PUT", "If-None-Match: *".into()), 412);
            assert_eq!(status("PUT", format!("If-None-Match: {old}")), 412);
            assert_eq!(status("PUT", format!("If-Match: {old}")), 204);
            let (_, new) = ask("GET", String::new());
            assert_ne!(old, new);
            assert_eq!(status("PUT", format!("If-Match: {old}")), 412);
            assert_eq!(status("PUT", format!("If-Match: {old}, \"7\"")), 412);
            assert_eq!(status("GET", format!("If-None-Match: {new}")), 304);
            assert_eq!(status("PUT", format!("If-Match: \"7\", {new}")), 204);
            let (_, new) = ask("GET", String::new());
            assert_eq!(status("DELETE", format!("If-Match: {old}")), 412);
            assert_eq!(status("DELETE", format!("If-None-Match: {new}")), 412);
            assert_eq!(status("DELETE", format!("If-Match: {new}")), 204);
            assert_eq!(status("DELETE", format!("If-Match: {new}")), 404);
        }
    }
}

/// Values come from other nodes meanwhile: EXEC begins again, and its time stays.
#[test]
fn exec_that_waits_for_other_nodes_is_of_one_time() {
    let cluster = Cluster::start("one-time", 4);
    let mut client = cluster.client(3);
    for round in 0..40 {
        let (from, to) = (format!("from-{round}"), format!("to-{round}"));
        client.ask(&format!("MSET {from} 1 {to} 2"));
        client.ask("MULTI");
        client.ask(&format!("EXPIRE {to} 0"));
        client.ask(&format!("RENAMENX {from} {to}"));
        assert_eq!(client.ask("EXEC"), "1 1", "{to} has expired in round {round}");
        assert_eq!(client.ask(&format!("MGET {from} {to}")), "nil 1");
    }
}
