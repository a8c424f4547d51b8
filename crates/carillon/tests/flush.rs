//! FLUSHDB and FLUSHALL within MULTI and scripts, on one node and on three: real processes. Keys
//! lie in many shards, and nobody sees some of these flushed and others not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness::cluster::Cluster;
use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Directory;
use harness::resp::Connection;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
/// Keys that are written and read together.
const KEYS: usize = 16;
/// Sets the first key, flushes, and sets the second; replies with the first.
const SCRIPT: &str = "redis.call('SET', KEYS[1], 'x'); redis.call('FLUSHDB'); \
                      redis.call('SET', KEYS[2], 'y'); return redis.call('GET', KEYS[1])";

fn ask(connection: &mut Connection, line: &str) -> String {
    connection.ask_line(line).unwrap_or_else(|why| panic!("no reply to {line}: {why}")).text()
}

fn all() -> String {
    (0..KEYS).map(|key| format!(" k{key}")).collect()
}

/// A transaction of these commands.
fn exec(connection: &mut Connection, lines: &[&str]) -> String {
    assert_eq!(ask(connection, "MULTI"), "OK");
    lines.iter().for_each(|line| assert_eq!(ask(connection, line), "QUEUED", "{line}"));
    ask(connection, "EXEC")
}

fn fill(connection: &mut Connection) {
    let pairs: String = (0..KEYS).map(|key| format!(" k{key} v")).collect();
    assert_eq!(ask(connection, &format!("MSET{pairs}")), "OK");
}

fn count(connection: &mut Connection) -> String {
    ask(connection, &format!("EXISTS{}", all()))
}

#[test]
fn flush_within_transactions_and_scripts_empties_all_shards_through_any_node() {
    for nodes in [1, 3] {
        let nodes = Cluster::start(PROGRAM, "flush", nodes, &[], &["0", "1"]);
        let mut other = nodes.nodes[nodes.nodes.len() - 1].connect();
        for node in &nodes.nodes {
            let mut one = node.connect();
            for flush in ["FLUSHDB", "FLUSHDB ASYNC", "FLUSHDB SYNC", "FLUSHALL"] {
                fill(&mut one);
                assert_eq!(count(&mut other), KEYS.to_string());
                let lines = ["SET k0 before", flush, "SET k1 after", "GET k0", "INCR n", "GET k1"];
                assert_eq!(exec(&mut one, &lines), "OK OK OK nil 1 after", "{flush}");
                assert_eq!(count(&mut other), "1");
                assert_eq!(ask(&mut other, "GET k1"), "after");
                assert_eq!(ask(&mut other, "GET n"), "1");
                assert_eq!(ask(&mut one, "DBSIZE"), "2");
            }
            scripts(&mut one, &mut other);
            watched(&mut one, &mut other);
            several_keyspaces(&mut one);
        }
    }
}

fn scripts(one: &mut Connection, other: &mut Connection) {
    fill(one);
    assert_eq!(one.ask(&["EVAL", SCRIPT, "2", "k3", "k4"]).unwrap().text(), "nil");
    assert_eq!((count(other), ask(other, "GET k4")), ("1".into(), "y".into()));
    fill(one);
    // Keys of one shard run in its queue, and leave it.
    assert_eq!(one.ask(&["EVAL", SCRIPT, "2", "k3", "k3"]).unwrap().text(), "y");
    assert_eq!(count(other), "1");
    let read_only = one.ask(&["EVAL_RO", "return redis.call('FLUSHDB')", "0"]).unwrap().text();
    assert!(read_only.contains("Write commands are not allowed"), "{read_only}");
    assert_eq!(count(other), "1", "nothing is done");
}

fn watched(one: &mut Connection, other: &mut Connection) {
    fill(one);
    assert_eq!(ask(one, "WATCH k5 k6"), "OK");
    assert_eq!(ask(other, "SET k6 changed"), "OK");
    assert_eq!(exec(one, &["SET k7 x", "FLUSHDB"]), "nil");
    assert_eq!(count(other), KEYS.to_string(), "an aborted transaction flushes nothing");
    assert_eq!(ask(other, "GET k7"), "v");
    assert_eq!(ask(one, "WATCH k5"), "OK");
    assert_eq!(exec(one, &["FLUSHDB"]), "OK");
    assert_eq!(count(other), "0");
    // A flush is a change of each key.
    fill(one);
    assert_eq!(ask(one, "WATCH k8"), "OK");
    assert_eq!(exec(other, &["FLUSHDB", "SET k9 v"]), "OK OK");
    assert_eq!(exec(one, &["SET k8 x"]), "nil");
    assert_eq!(count(other), "1");
}

fn several_keyspaces(one: &mut Connection) {
    let fill_both = |one: &mut Connection| {
        for keyspace in ["SELECT 1", "SELECT 0"] {
            assert_eq!(ask(one, keyspace), "OK");
            fill(one);
        }
    };
    let counts = |one: &mut Connection| {
        let [first, second] = ["SELECT 0", "SELECT 1"].map(|keyspace| {
            assert_eq!(ask(one, keyspace), "OK");
            count(one)
        });
        assert_eq!(ask(one, "SELECT 0"), "OK");
        format!("{first} {second}")
    };
    fill_both(one);
    assert_eq!(exec(one, &["FLUSHDB", "SELECT 1", "GET k2", "SELECT 0"]), "OK OK v OK");
    assert_eq!(counts(one), "0 16");
    fill_both(one);
    let script = "redis.call('SELECT', 1); return redis.call('FLUSHDB')";
    assert_eq!(one.ask(&["EVAL", script, "0"]).unwrap().text(), "OK");
    assert_eq!(counts(one), "16 0");
    fill_both(one);
    assert_eq!(
        exec(one, &["FLUSHALL ASYNC", "SET k1 x", "SELECT 1", "SET k2 x", "SELECT 0"]),
        "OK OK OK OK OK"
    );
    assert_eq!(counts(one), "1 1");
    fill_both(one);
    assert_eq!(one.ask(&["EVAL", "return redis.call('FLUSHALL')", "0"]).unwrap().text(), "OK");
    assert_eq!(counts(one), "0 0");
}

/// Writers give all keys one value, others flush and leave a mark; one node is killed meanwhile.
/// A client that reads all keys at one moment finds the same in each.
#[test]
fn nobody_sees_half_of_a_flush_over_kill_9() {
    let mut nodes = Cluster::start(PROGRAM, "half-flush", 3, &[], &["0"]);
    let (ends, flushed, seen) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (victim, others) = nodes.nodes.split_last_mut().unwrap();
    thread::scope(|scope| {
        for (number, node) in others.iter().chain([&*victim]).enumerate() {
            let (mut writer, mut flusher) = (node.connect(), node.connect());
            let (ends, flushed) = (&ends, &flushed);
            scope.spawn(move || {
                for value in 0.. {
                    let pairs = (0..KEYS).map(|key| format!(" k{key} {number}-{value}"));
                    let line = format!("MSET{}", pairs.collect::<String>());
                    if writer.ask_line(&line).is_err() || ends.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let lines = ["MULTI", "SET k3 gone", "FLUSHDB", "SET mark here", "EXEC"];
                    let Some(done) = lines.iter().try_fold(String::new(), |_, line| {
                        flusher.ask_line(line).ok().map(|reply| reply.text())
                    }) else {
                        break;
                    };
                    flushed.fetch_add(u64::from(done == "OK OK OK"), Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        for (number, node) in others.iter().enumerate() {
            let mut reader = node.connect();
            let (ends, seen) = (&ends, &seen);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let keys = all();
                    let found = match number {
                        0 => ask(&mut reader, &format!("MGET{keys}")),
                        _ => exec(&mut reader, &[&format!("MGET{keys}"), "PING"]),
                    };
                    if found.contains("BUSY") || found.contains("TRYAGAIN") {
                        continue;
                    }
                    let found = found.trim_end_matches(" PONG");
                    let mut values: Vec<&str> = found.split(' ').collect();
                    assert_eq!(values.len(), KEYS, "{found}");
                    values.dedup();
                    assert_eq!(values.len(), 1, "half of something was seen: {found}");
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs(4));
        victim.kill();
        thread::sleep(Duration::from_secs(6));
        ends.store(true, Ordering::Relaxed);
    });
    let (flushed, seen) = (flushed.into_inner(), seen.into_inner());
    println!("{flushed} flushes, {seen} looks");
    assert!(flushed > 10 && seen > 20, "{flushed} flushes, {seen} looks");
    let mut last = nodes.nodes[1].connect();
    harness::until(TEST_TIMEOUT, "the keyspace is flushed at last", || {
        (exec(&mut last, &["FLUSHDB"]) == "OK").then_some(())
    });
    assert_eq!(ask(&mut last, &format!("EXISTS mark{}", all())), "0");
}

/// Whatever is asked about a keyspace behind a flush, the answer is of what came after it.
#[test]
fn questions_behind_a_flush_are_answered_by_what_came_after_it() {
    let nodes = Cluster::start(PROGRAM, "flush-asked", 1, &[], &["0"]);
    let node = &nodes.nodes[0];
    let created = node.carillon(&["keyspace", "create", "sorted", "--placement", "ordered"]);
    assert_eq!(created.0, 0, "{}", created.1);
    let mut one = node.connect();
    let slot = ask(&mut one, "CLUSTER KEYSLOT {s}");
    assert_eq!(ask(&mut one, "MSET {s}1 v {s}2 v {s}3 v other v"), "OK");
    let (count, keys) = ("CLUSTER COUNTKEYSINSLOT", "CLUSTER GETKEYSINSLOT");
    let lines = [
        "FLUSHDB",
        "MSET {s}4 v {s}5 v new v",
        &format!("{count} {slot}"),
        &format!("{keys} {slot} 9"),
        &format!("{keys} {slot} 1"),
        "DBSIZE",
        "RANGE - +",
    ];
    let no_order = "ERR RANGE needs a keyspace with ordered placement";
    let expected = format!("OK OK 2 {{s}}4 {{s}}5 {{s}}4 3 {no_order}");
    assert_eq!(exec(&mut one, &lines), expected);
    assert_eq!(ask(&mut one, "SELECT sorted"), "OK");
    assert_eq!(ask(&mut one, "MSET a 1 b 2 n 3 q 4"), "OK");
    let lines = [
        "FLUSHDB",
        "MSET m 5 n 6 z 7",
        "RANGE - +",
        "RANGE + [n REV LIMIT 1 WITHVALUES",
        "RANGE - (n",
        "RANGE + -",
        "SCAN 0",
        &format!("{count} {slot}"),
    ];
    let replies = exec(&mut one, &lines);
    let expected = "OK OK m n z z 7 m  ERR SCAN needs a keyspace with hashed placement";
    assert!(replies.starts_with(expected) && replies.contains("ERR slots need"), "{replies}");
    let script = "redis.call('FLUSHDB'); redis.call('SET', 'o', 1); \
                  return redis.call('RANGE', '-', '+')";
    assert_eq!(one.ask(&["EVAL", script, "0"]).unwrap().text(), "o");
}

/// FLUSHALL is of the keyspaces that there are when it is done. Nobody knows whether it is if one
/// is dropped just as that commits it.
#[test]
fn flush_of_all_is_done_while_keyspaces_are_dropped() {
    let nodes = Cluster::start(PROGRAM, "flush-dropped", 1, &[], &["0"]);
    let node = &nodes.nodes[0];
    let (ends, dropped) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut replies = Vec::new();
    thread::scope(|scope| {
        let (ends, dropped) = (&ends, &dropped);
        for keyspace in ["5", "6"] {
            scope.spawn(move || {
                let client = node.client();
                while !ends.load(Ordering::Relaxed) {
                    let mut maker = node.connect();
                    if ask(&mut maker, &format!("SELECT {keyspace}")) == "OK" {
                        ask(&mut maker, "SET k v");
                        let is_dropped = client.keyspace_drop(keyspace).is_ok();
                        dropped.fetch_add(u64::from(is_dropped), Ordering::Relaxed);
                    }
                }
            });
        }
        let mut one = node.connect();
        let until = std::time::Instant::now() + Duration::from_secs(6);
        while std::time::Instant::now() < until {
            fill(&mut one);
            let reply = exec(&mut one, &["FLUSHALL", "SET k1 x"]);
            replies.push((reply, count(&mut one)));
        }
        ends.store(true, Ordering::Relaxed);
    });
    let (all, dropped) = (replies.len(), dropped.into_inner());
    replies.retain(|(reply, left)| reply != "OK OK" || left != "1");
    println!("{all} flushes, {dropped} keyspaces dropped, {replies:?}");
    assert!(all > 5 && dropped > 20, "{all} flushes, {dropped} dropped");
    assert!(replies.iter().all(|(reply, _)| reply.starts_with("UNKNOWN")), "{replies:?}");
    assert!(replies.len() <= all / 10, "{replies:?} of {all}");
}

/// In mode `cluster` there is one keyspace. A script whose client's node is not in that mode has
/// all of them, also if the leader that runs it is.
#[test]
fn script_that_another_node_runs_is_in_the_mode_of_its_clients_node() {
    let dir = Directory::new("flush-modes").expect("a directory can be made");
    dir.write_secret().expect("the directory can be written");
    let mut nodes: Vec<Node> =
        (0..3).map(|number| Node::new(PROGRAM, dir.path(), &format!("n{number}"))).collect();
    let first = nodes[0].peer.to_string();
    nodes[0].start(&[]);
    nodes[0].wait_until_ready();
    for node in &mut nodes[1..] {
        node.start(&["--resp-mode", "cluster", "--join", &first]);
        node.wait_until_ready();
    }
    let mut one = nodes[0].connect();
    let forwarded = || nodes[0].metric("carillon_scripts_total{outcome=\"forwarded\"}");
    let mut eval = |script: &str, key: &str| one.ask(&["EVAL", script, "1", key]).unwrap().text();
    harness::until(TEST_TIMEOUT, "other nodes lead shards", || {
        let before = forwarded();
        (0..KEYS).for_each(|key| _ = eval("return 1", &format!("k{key}")));
        (forwarded() - before > 5.0).then_some(())
    });
    let before = forwarded();
    // Keyspaces from 2 on are made by the script.
    let fill = "redis.call('SELECT', ARGV[1])";
    for number in 0..14 {
        let (key, keyspace) = (format!("k{number}"), number + 2);
        let script = format!("{fill}; redis.call('SET', 'there', 1); return redis.call('DBSIZE')")
            .replace("ARGV[1]", &keyspace.to_string());
        assert_eq!(eval(&script, &key), "1", "its own is there already");
        let count = format!("{fill}; return redis.call('DBSIZE')")
            .replace("ARGV[1]", &keyspace.to_string());
        assert_eq!(eval(&count, &key), "1", "{keyspace}");
        assert_eq!(eval("return redis.call('FLUSHALL')", &key), "OK");
        assert_eq!(eval(&count, &key), "0", "{keyspace}");
    }
    assert!(forwarded() - before > 10.0, "{} were forwarded", forwarded() - before);
}
