//! Pipelines that mix reads and writes answer as if each command had waited for the one before it
//! (SAFETY G26): real processes.

use std::sync::Barrier;
use std::thread;

use harness::cluster::Cluster;
use harness::node::{Node, TEST_TIMEOUT};
use harness::resp::{Connection, encode};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
/// No shard is merged with another.
const SHARDS_STAY: [&str; 2] = ["--merge-bytes", "off"];

/// A number that follows from the one before.
fn next(random: &mut u64) -> u64 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

/// Some command on keys with this prefix; of `tags` hash tags, which lie in as many slots.
fn some_command(random: &mut u64, tags: u64) -> Vec<String> {
    let mut key = || format!("{{t{}}}-{}", next(random) % tags, next(random) % 3);
    let (one, other) = (key(), key());
    let value = (next(random) % 100).to_string();
    let words: &[&str] = match next(random) % 16 {
        0..=4 => &["SET", &one, &value],
        5 => &["APPEND", &one, &value],
        6 => &["GETSET", &one, &value],
        7 => &["DEL", &one],
        8 => &["MGET", &one, &other],
        9 => &["STRLEN", &one],
        10 => &["EXISTS", &one, &other, &one],
        11 => &["GETRANGE", &one, "0", "2"],
        12 => &["MSET", &one, &value, &other, &value],
        _ => &["GET", &one],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// With its keys in another place.
fn named(command: &[String], prefix: &str) -> Vec<String> {
    let words = command.iter();
    words.map(|word| word.replace("{t", &format!("{{{prefix}-"))).collect()
}

/// Sends programs as pipelines, and command by command with other keys: the replies must be the
/// same. A read that a split has overtaken may be refused. How many replies were compared.
fn compare(node: &Node, name: &str, seed: u64, programs: usize) -> usize {
    let (mut piped, mut single) = (node.connect(), node.connect());
    let (mut random, mut compared) = (seed, 0);
    for number in 0..programs {
        let tags = 1 + next(&mut random) % 4;
        let count = 2 + next(&mut random) % 40;
        let program: Vec<Vec<String>> =
            (0..count).map(|_| some_command(&mut random, tags)).collect();
        let mut bytes = Vec::new();
        for command in &program {
            encode(&mut bytes, &named(command, &format!("{name}-p{number}")));
        }
        piped.send(&bytes).unwrap();
        for (place, command) in program.iter().enumerate() {
            let found = piped.reply().unwrap().text();
            let alone = named(command, &format!("{name}-s{number}"));
            let expected = single.ask(&alone).unwrap().text();
            if found.contains("TRYAGAIN") {
                continue;
            }
            assert_eq!(found, expected, "{name}: reply {place} of {program:#?}");
            compared += 1;
        }
    }
    compared
}

/// Sends `SET a · GET b` on one connection and `SET b · GET a` on another at once, with keys of
/// their own in every round: one of the two must see what the other has set.
fn litmus(one: &Node, other: &Node, name: &str, rounds: usize) {
    let barrier = Barrier::new(2);
    let side = |node: &Node, mine: &'static str, theirs: &'static str| {
        let mut connection: Connection = node.connect();
        let mut seen = Vec::with_capacity(rounds);
        for round in 0..rounds {
            let key = |side: &str| format!("{name}-{side}-{round}");
            let mut bytes = Vec::new();
            if round % 3 == 0 {
                encode(&mut bytes, &["SET", &key(&format!("noise-{mine}")), "1"]);
            }
            encode(&mut bytes, &["SET", &key(mine), "1"]);
            encode(&mut bytes, &["GET", &key(theirs)]);
            encode(&mut bytes, &["GET", &key(mine)]);
            barrier.wait();
            connection.send(&bytes).unwrap();
            for _ in 0..1 + usize::from(round % 3 == 0) {
                assert_eq!(connection.reply().unwrap().text(), "OK");
            }
            seen.push(connection.reply().unwrap().text() == "1");
            assert_eq!(connection.reply().unwrap().text(), "1", "a connection sees its own writes");
        }
        seen
    };
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| side(one, "a", "b"));
        let other = side(other, "b", "a");
        (one.join().unwrap(), other)
    });
    let blind: Vec<usize> = (0..rounds).filter(|round| !one[*round] && !other[*round]).collect();
    assert!(blind.is_empty(), "neither saw the other's write in rounds {blind:?}");
}

/// The most memory that a process has taken, in MiB.
fn peak_mib(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn reads_of_long_values_behind_writes_take_bounded_memory_and_are_answered() {
    let nodes = Cluster::start(PROGRAM, "pipelines-long", 3, &SHARDS_STAY, &["0"]);
    let mut first = nodes.nodes[0].connect();
    let (value, reads) = ("v".repeat(1 << 20), 400);
    assert_eq!(first.ask(&["SET", "{t}long", &value]).unwrap().text(), "OK");
    let before: Vec<u64> = nodes.nodes.iter().map(peak_mib).collect();
    for node in &nodes.nodes {
        let mut connection = node.connect();
        let mut bytes = Vec::new();
        encode(&mut bytes, &["SET", "{t}short", "1"]);
        (0..reads).for_each(|_| encode(&mut bytes, &["GET", "{t}long"]));
        connection.send(&bytes).unwrap();
        assert_eq!(connection.reply().unwrap().text(), "OK");
        for number in 0..reads {
            let found = connection.reply().unwrap().text();
            assert!(found == value, "read {number}: {} bytes", found.len());
        }
    }
    for (node, before) in nodes.nodes.iter().zip(before) {
        let grown = peak_mib(node) - before;
        assert!(grown < 200, "{grown} MiB for replies to one connection");
    }
}

#[test]
fn values_too_long_for_a_transaction_are_read_behind_writes() {
    let nodes = Cluster::start(PROGRAM, "pipelines-longest", 3, &SHARDS_STAY, &["0"]);
    let value = "v".repeat(61 << 20);
    let set = nodes.nodes[0].connect().ask(&["SET", "{t}long", &value]).unwrap();
    assert_eq!(set.text(), "OK");
    for (number, node) in nodes.nodes.iter().enumerate() {
        let mut connection = node.connect();
        let mut bytes = Vec::new();
        encode(&mut bytes, &["SET", "{t}short", "1"]);
        encode(&mut bytes, &["GET", "{t}long"]);
        encode(&mut bytes, &["GET", "{t}short"]);
        connection.send(&bytes).unwrap();
        assert_eq!(connection.reply().unwrap().text(), "OK");
        let found = connection.reply().unwrap().text();
        let shown = found.get(..80.min(found.len()));
        assert!(found == value, "node {number}: {} bytes, {shown:?}", found.len());
        assert_eq!(connection.reply().unwrap().text(), "1");
    }
}

#[test]
fn memory_reserved_for_writes_behind_reads_is_given_back() {
    let flags = ["--memory-max", "64MiB", "--retention-ms", "0"];
    let node = Node::alone_and_ready(PROGRAM, "pipelines-reserved", &flags);
    let grow = |key: &str| {
        let mut connection = node.connect();
        let mut bytes = Vec::new();
        encode(&mut bytes, &["SET", key, ""]);
        encode(&mut bytes, &["GET", "other"]);
        encode(&mut bytes, &["SETRANGE", key, "4194304", "x"]);
        connection.send(&bytes).unwrap();
        let mut reply = || connection.reply().unwrap().text();
        (reply(), reply(), reply()).2
    };
    // Whether it has room or not: maintenance has to look at what was there before.
    (0..60).for_each(|_| _ = grow("grown"));
    assert_eq!(node.connect().ask(&["DEL", "grown"]).unwrap().text(), "1");
    harness::until(TEST_TIMEOUT, "there is room again", || {
        let reply = grow("another");
        (reply == "4194305").then_some(())
    });
}

#[test]
fn pipelines_of_one_node_answer_as_single_commands_do() {
    let nodes = Cluster::start(PROGRAM, "pipelines-alone", 1, &SHARDS_STAY, &["0"]);
    assert!(compare(&nodes.nodes[0], "alone", 1, 300) > 1000);
    litmus(&nodes.nodes[0], &nodes.nodes[0], "litmus", 2000);
}

#[test]
fn pipelines_of_three_nodes_answer_as_single_commands_do_while_shards_split() {
    let nodes = Cluster::start(PROGRAM, "pipelines-three", 3, &SHARDS_STAY, &["0"]);
    for number in 0..3 {
        assert!(compare(&nodes.nodes[number], &format!("n{number}"), 7, 30) > 100);
    }
    thread::scope(|scope| {
        let pairs = [(0, 1), (1, 2), (2, 2)];
        let all = pairs.map(|(one, other)| {
            let [one, other] = [one, other].map(|number| &nodes.nodes[number]);
            let name = format!("{}-{}", one.resp.port(), other.resp.port());
            scope.spawn(move || {
                litmus(one, other, &format!("litmus-{name}"), 300);
                compare(other, &format!("split-{name}"), 11, 40)
            })
        });
        for shard in 1..=8 {
            nodes.nodes[shard % 3].carillon(&["split", &shard.to_string()]);
        }
        all.into_iter().for_each(|thread| assert!(thread.join().unwrap() > 100));
    });
}
