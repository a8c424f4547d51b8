//! SWAPDB on one node and on three: real processes. Keys lie in many shards, and nobody sees some
//! of them exchanged and others not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use harness::cluster::Cluster;
use harness::resp::Connection;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const KEYS: usize = 24;

fn ask(connection: &mut Connection, line: &str) -> String {
    connection.ask_line(line).unwrap_or_else(|why| panic!("no reply to {line}: {why}")).text()
}

/// A transaction of these commands.
fn exec(connection: &mut Connection, lines: &[&str]) -> String {
    assert_eq!(ask(connection, "MULTI"), "OK");
    lines.iter().for_each(|line| assert_eq!(ask(connection, line), "QUEUED", "{line}"));
    ask(connection, "EXEC")
}

/// The first keyspace has so many keys, and one with an end; the second has one of them, and one
/// of its own.
fn fill(connection: &mut Connection) {
    assert_eq!(ask(connection, "FLUSHALL"), "OK");
    let pairs: String = (0..KEYS).map(|key| format!(" k{key} zero")).collect();
    assert_eq!(ask(connection, &format!("MSET{pairs}")), "OK");
    assert_eq!(ask(connection, "SET ends soon EX 1000"), "OK");
    assert_eq!(ask(connection, "SELECT 1"), "OK");
    assert_eq!(ask(connection, "MSET k0 one own one"), "OK");
    assert_eq!(ask(connection, "SELECT 0"), "OK");
}

#[test]
fn swap_exchanges_all_keys_through_any_node() {
    for nodes in [1, 3] {
        let nodes = Cluster::start(PROGRAM, "swap", nodes, &[], &["0", "1"]);
        let mut other = nodes.nodes[nodes.nodes.len() - 1].connect();
        assert_eq!(ask(&mut other, "SELECT 1"), "OK");
        for node in &nodes.nodes {
            let mut one = node.connect();
            fill(&mut one);
            assert_eq!(ask(&mut one, "SWAPDB 0 1"), "OK");
            assert_eq!(ask(&mut one, "MGET k0 k1 own ends"), "one nil one nil");
            assert_eq!(ask(&mut one, "DBSIZE"), "2");
            assert_eq!(ask(&mut other, "MGET k0 k1 own ends"), "zero zero nil soon");
            assert_eq!(ask(&mut other, "DBSIZE"), (KEYS + 1).to_string());
            let left: i64 = ask(&mut other, "TTL ends").parse().expect("a time");
            assert!((900..=1000).contains(&left), "{left}");
            within_transactions(&mut one);
            within_scripts(&mut one);
            watched(&mut one, &mut other);
        }
    }
}

fn within_transactions(one: &mut Connection) {
    fill(one);
    // What it does before goes with the keyspace, and what it does behind stays.
    let lines = ["SET k1 in", "SWAPDB 1 0", "GET k1", "SET new made", "DBSIZE", "SELECT 1"];
    let lines = [&lines[..], &["GET k1", "GET new", "SELECT 0"]].concat();
    assert_eq!(exec(one, &lines), "OK OK nil OK 3 OK in nil OK");
    assert_eq!(ask(one, "MGET k0 new own"), "one made one");
    // Twice is not at all.
    assert_eq!(exec(one, &["SWAPDB 0 1", "SWAPDB 0 1"]), "OK OK");
    assert_eq!(ask(one, "MGET k0 new own"), "one made one");
    // Of keyspaces that were flushed before.
    fill(one);
    assert_eq!(exec(one, &["FLUSHDB", "SET k2 left", "SWAPDB 0 1"]), "OK OK OK");
    assert_eq!(
        exec(one, &["DBSIZE", "SELECT 1", "GET k2", "DBSIZE", "SELECT 0"]),
        "2 OK left 1 OK"
    );
}

fn within_scripts(one: &mut Connection) {
    fill(one);
    let script = "redis.call('SET', 'k3', 'script'); redis.call('SWAPDB', 0, 1); \
                  return {redis.call('GET', 'own'), redis.call('DBSIZE')}";
    assert_eq!(one.ask(&["EVAL", script, "0"]).unwrap().text(), "one 2");
    assert_eq!(exec(one, &["DBSIZE", "SELECT 1", "GET k3", "SELECT 0"]), "2 OK script OK");
    let read_only = one.ask(&["EVAL_RO", "return redis.call('SWAPDB', 0, 1)", "0"]).unwrap().text();
    assert!(read_only.contains("Write commands are not allowed"), "{read_only}");
}

fn watched(one: &mut Connection, other: &mut Connection) {
    fill(one);
    for key in ["k0", "k1", "own"] {
        assert_eq!(ask(one, &format!("WATCH {key}")), "OK");
        assert_eq!(ask(other, "SWAPDB 0 1"), "OK");
        assert_eq!(exec(one, &["SET x 1"]), "nil", "{key}");
    }
    assert_eq!(ask(one, "WATCH nowhere"), "OK");
    assert_eq!(ask(other, "SWAPDB 0 1"), "OK");
    assert_eq!(exec(one, &["SET x 1"]), "OK", "it has had no value in either");
}

/// Clients read a key of both keyspaces at one moment while others swap them, and add keys.
#[test]
fn nobody_sees_half_of_a_swap_and_no_key_is_lost() {
    let nodes = Cluster::start(PROGRAM, "half-swap", 3, &[], &["0", "1"]);
    let mut one = nodes.nodes[0].connect();
    fill(&mut one);
    let (ends, seen, added) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for (number, node) in nodes.nodes.iter().enumerate() {
            let (mut reader, mut writer) = (node.connect(), node.connect());
            let (ends, seen, added) = (&ends, &seen, &added);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let found = exec(&mut reader, &["GET k0", "SELECT 1", "GET k0", "SELECT 0"]);
                    assert!(["zero OK one OK", "one OK zero OK"].contains(&&*found), "{found}");
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
            scope.spawn(move || {
                let mut own = 0;
                while !ends.load(Ordering::Relaxed) && own < 100 {
                    assert_eq!(ask(&mut writer, &format!("SET n{number}-{own} v")), "OK");
                    own += 1;
                }
                added.fetch_add(own, Ordering::Relaxed);
            });
        }
        for _ in 0..8 {
            assert_eq!(ask(&mut one, "SWAPDB 0 1"), "OK");
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(seen.into_inner() > 0);
    let sizes = exec(&mut one, &["DBSIZE", "SELECT 1", "DBSIZE", "SELECT 0"]);
    let sizes = sizes.split(' ').filter_map(|word| word.parse::<u64>().ok());
    assert_eq!(sizes.sum::<u64>(), KEYS as u64 + 3 + added.into_inner(), "no key is lost");
}
