//! Past times over real processes: `CLIENT AT`, `MULTI` that begins with `AT`, collection by
//! `CARILLON GC`, replicas that answer without their leader, and keyspaces whose equal writes make
//! no version.

use client::http::{GetResult, PutOptions};
use harness::cluster::Cluster;
use harness::node::{Node, TEST_TIMEOUT};
use harness::resp::Connection;
use harness::until;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const KEYSPACE: &str = "p";

/// Three nodes, and a keyspace of three replicas.
fn prepared(name: &str, options: &[&str]) -> Cluster {
    let cluster = Cluster::start(PROGRAM, name, 3, &[], &["0"]);
    let words = [&["keyspace", "create", KEYSPACE, "--replicas", "3"][..], options].concat();
    let (code, text) = cluster.nodes[0].carillon(&words);
    assert_eq!(code, 0, "{text}");
    (0..3).for_each(|number| cluster.wait_until_it_takes_writes(number, KEYSPACE));
    cluster
}

fn connected(node: &Node) -> Connection {
    let mut connection = node.connect();
    assert_eq!(connection.ask(&["SELECT", KEYSPACE]).unwrap().text(), "OK");
    connection
}

/// A command, and the beginning of its reply.
#[track_caller]
fn says(connection: &mut Connection, line: &str, wanted: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let reply = connection.ask(&words).unwrap().line();
    assert!(reply.starts_with(wanted), "{line}: {reply}, not {wanted}");
}

/// A snapshot's token.
#[track_caller]
fn taken(node: &Node) -> String {
    let (code, text) = node.carillon(&["snapshot", "take", "--keyspace", KEYSPACE]);
    assert_eq!(code, 0, "{text}");
    text.trim().to_owned()
}

#[test]
fn connection_and_transaction_read_one_past_time() {
    let cluster = prepared("past_connection", &[]);
    let mut writer = connected(&cluster.nodes[0]);
    for line in ["MSET a 1 b 2 gone x", "SET ends x PX 100000"] {
        says(&mut writer, line, "+OK");
    }
    let token = taken(&cluster.nodes[1]);
    says(&mut writer, "MSET a 10 b 20 later y", "+OK");
    says(&mut writer, "DEL gone", ":1");
    for node in &cluster.nodes {
        let mut reader = connected(node);
        says(&mut reader, "GET a", "10");
        says(&mut reader, &format!("CLIENT AT {token}"), "+OK");
        says(&mut reader, "MGET a b gone later", "1 2 x nil");
        says(&mut reader, "GET a", "1");
        says(&mut reader, "GETRANGE gone 0 0", "x");
        says(&mut reader, "EXISTS a gone later", ":2");
        says(&mut reader, "TYPE gone", "+string");
        says(&mut reader, "STATE gone", "+value");
        says(&mut reader, "STATE later", "+nil_yet");
        says(&mut reader, "STATE never", "+nil");
        let left: i64 = reader.ask(&["PTTL", "ends"]).unwrap().text().parse().unwrap();
        assert!((90_000..=100_000).contains(&left), "{left} ms were left");
        says(&mut reader, "SET a 5", "-ERR SET cannot run at a past time");
        says(&mut reader, "INCR a", "-ERR INCR cannot run at a past time");
        // A transaction is of the same time.
        says(&mut reader, "MULTI", "+OK");
        says(&mut reader, "GET a", "+QUEUED");
        says(&mut reader, "KEYS later", "+QUEUED");
        says(&mut reader, "EXEC", "1");
        says(&mut reader, "CLIENT AT OFF", "+OK");
        says(&mut reader, "GET a", "10");
        // One that begins with AT is of its time, and nothing else is.
        says(&mut reader, "MULTI", "+OK");
        for line in [
            &format!("AT {token}"),
            "MGET a later",
            "STATE later",
            "EXISTS gone",
            "PING",
            "KEYS gon*",
            "GET b",
        ] {
            says(&mut reader, line, "+QUEUED");
        }
        says(&mut reader, "EXEC", "+OK 1 nil +nil_yet :1 +PONG gone 2");
        says(&mut reader, "GET a", "10");
        says(&mut reader, "MULTI", "+OK");
        says(&mut reader, "AT 0ms", "+QUEUED");
        says(&mut reader, "SET a 5", "-ERR SET cannot run at a past time");
        says(&mut reader, "EXEC", "-EXECABORT");
        // Whole replies are errors where the time cannot be read.
        says(&mut reader, "CLIENT AT 2200-01-01T00:00:00Z", "-ERR");
        says(&mut reader, "CLIENT AT snap-0000000000000001-1-5", "-ERR the snapshot is of cluster");
    }
    says(&mut writer, "GET a", "10");
}

#[test]
fn collection_over_resp_names_what_holds_old_versions() {
    let cluster = prepared("past_collection", &["--retention", "0"]);
    let mut connection = connected(&cluster.nodes[2]);
    says(&mut connection, "SET a 0", "+OK");
    let token = taken(&cluster.nodes[0]);
    let id = token.split('-').nth(2).unwrap().to_owned();
    says(&mut connection, "SET a 1", "+OK");
    says(&mut connection, "SET a 2", "+OK");
    until(TEST_TIMEOUT, "the snapshot is named", || {
        says(&mut connection, &format!("CARILLON GC KEYSPACE {KEYSPACE}"), "keyspace p");
        let why = connection.ask(&["CARILLON", "GC", "WHY", "KEYSPACE", KEYSPACE]).unwrap().text();
        why.contains(&format!("snapshot {id} at-ms")).then_some(())
    });
    says(&mut connection, &format!("AT {token} GET a"), "0");
    says(&mut connection, "CARILLON GC KEYSPACE nosuch", "-ERR there is no keyspace 'nosuch'");
    let (code, text) = cluster.nodes[1].carillon(&["snapshot", "release", &token]);
    assert_eq!(code, 0, "{text}");
    until(TEST_TIMEOUT, "what nobody holds is collected", || {
        says(&mut connection, &format!("CARILLON GC KEYSPACE {KEYSPACE}"), "keyspace p");
        let read = connection.ask(&["AT", &token, "GET", "a"]).unwrap().line();
        read.starts_with("-ERR").then_some(())
    });
    says(&mut connection, "GET a", "2");
}

/// What a replica has closed and applied it answers alone, though nobody leads any more.
#[test]
fn replica_answers_a_past_time_without_its_leader() {
    let mut cluster = prepared("past_follower", &[]);
    let mut writer = connected(&cluster.nodes[0]);
    let names: Vec<String> = (0..64).map(|number| format!("key-{number}")).collect();
    for name in &names {
        says(&mut writer, &format!("SET {name} before"), "+OK");
    }
    let token = taken(&cluster.nodes[0]);
    for name in &names {
        says(&mut writer, &format!("SET {name} after"), "+OK");
    }
    let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let is_before = |found: &Value| {
        let values = found["values"].as_array().unwrap();
        values.len() == keys.len() && values.iter().all(|one| one["value"] == "before")
    };
    // It asks its leaders up to where it is; and what they had logged by then comes with what they
    // send next.
    for _ in 0..20 {
        let found = cluster.nodes[1].client().get_many(KEYSPACE, &keys, Some(&token)).unwrap();
        assert!(is_before(&found), "{found}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for number in [0, 2] {
        cluster.nodes[number].kill();
    }
    let mut lonely = connected(&cluster.nodes[1]);
    says(&mut lonely, &format!("CLIENT AT {token}"), "+OK");
    let mut words = vec!["MGET"];
    words.extend(names.iter().map(String::as_str));
    let reply = lonely.ask(&words).unwrap().text();
    assert!(reply.split(' ').all(|word| word == "before"), "{reply}");
    let keys = lonely.ask(&["KEYS", "key-*"]).unwrap().text();
    assert_eq!(keys.split(' ').count(), names.len());
}

#[test]
fn equal_write_makes_no_version_where_the_keyspace_skips_it() {
    let cluster = prepared("past_equal", &["--skip-equal-writes", "--retention", "1h"]);
    let node = &cluster.nodes[1];
    let versions = || {
        let history = node.client().history(KEYSPACE, b"k", 100, None).unwrap();
        history["changes"].as_array().unwrap().len()
    };
    let mut connections: Vec<_> = cluster.nodes.iter().map(connected).collect();
    for connection in &mut connections {
        says(connection, "SET k same", "+OK");
        says(connection, "MSET k same other x", "+OK");
        says(connection, "APPEND k ", ":4");
    }
    assert!(node.client().put(KEYSPACE, b"k", b"same", &PutOptions::default()).unwrap());
    assert_eq!(versions(), 1);
    says(&mut connections[0], "WATCH k", "+OK");
    says(&mut connections[1], "SET k same", "+OK");
    says(&mut connections[0], "MULTI", "+OK");
    says(&mut connections[0], "SET k other", "+QUEUED");
    says(&mut connections[0], "SET other k", "+QUEUED");
    says(&mut connections[0], "EXEC", "+OK +OK");
    says(&mut connections[2], "SET k same", "+OK");
    assert_eq!(versions(), 3, "it is another value than before");
    let (code, text) = node.carillon(&["keyspace", "alter", KEYSPACE, "--skip-equal-writes=false"]);
    assert_eq!(code, 0, "{text}");
    until(TEST_TIMEOUT, "every write makes a version again", || {
        let before = versions();
        says(&mut connections[0], "SET k same", "+OK");
        (versions() == before + 1).then_some(())
    });
    let got = node.client().get(KEYSPACE, b"k", None).unwrap();
    assert!(matches!(got, GetResult::Value { value, .. } if value == b"same"));
}

/// One forgotten snapshot must not take all memory.
#[test]
fn oldest_snapshot_ends_when_snapshots_hold_too_much() {
    let flags = ["--snapshot-bytes-max", "16MiB", "--durability", "memory", "--retention-ms", "0"];
    let node = Node::alone_and_ready(PROGRAM, "past_budget", &flags);
    let mut connection = node.connect();
    let take = || {
        let (code, text) = node.carillon(&["snapshot", "take"]);
        assert_eq!(code, 0, "{text}");
        text.trim().to_owned()
    };
    says(&mut connection, "SET k first", "+OK");
    let value = "x".repeat(1 << 20);
    let names: Vec<String> = (0..20).map(|number| format!("long-{number}")).collect();
    for name in &names {
        assert_eq!(connection.ask(&["SET", name, &value]).unwrap().text(), "OK");
    }
    let old = take();
    says(&mut connection, "SET k second", "+OK");
    // Of each key a snapshot keeps one version: the old one those of 20 MiB, that the young lacks.
    for name in &names {
        says(&mut connection, &format!("SET {name} short"), "+OK");
    }
    let young = take();
    until(TEST_TIMEOUT, "the oldest snapshot has ended", || {
        let all = node.client().snapshots().unwrap();
        let all = all["snapshots"].as_array().unwrap();
        (!all.iter().any(|one| one["token"] == *old)).then_some(())
    });
    let log = node.log();
    assert!(log.contains("was ended: snapshots hold"), "{log}");
    until(TEST_TIMEOUT, "its reads fail", || {
        let read = connection.ask(&["AT", &old, "GET", "k"]).unwrap().line();
        read.starts_with("-ERR").then_some(())
    });
    // The other may be next, but only if that one's versions are gone and it is still too much.
    let why = node.client().safe_points().unwrap();
    let of_zero = &why["keyspaces"][0];
    let read = connection.ask(&["AT", &young, "GET", "k"]).unwrap().line();
    assert!(read == "second" || read.starts_with("-ERR"), "{read}, {of_zero}");
}
