//! Snapshots of real processes: what was acknowledged is in them, each transaction is whole or not
//! in them, and they stay readable while writers, collection, kills and restarts go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::UNIX_EPOCH;

use client::http::{ClientError, GetResult};
use harness::cluster::Cluster;
use harness::node::{Node, TEST_TIMEOUT};
use harness::until;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const KEYSPACE: &str = "s";
const ACCOUNTS: usize = 12;
const SUM: i64 = 100 * ACCOUNTS as i64;

fn account(number: usize) -> String {
    format!("account-{number}")
}

/// The values of all accounts at a time.
#[track_caller]
fn accounts(node: &Node, at: &str) -> Vec<i64> {
    let names: Vec<String> = (0..ACCOUNTS).map(account).collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let found = until(TEST_TIMEOUT, "the accounts can be read", || {
        match node.client().get_many(KEYSPACE, &keys, Some(at)) {
            Ok(found) => Some(found),
            Err(ClientError::Refused(problem) | ClientError::BadRequest(problem))
                if problem.kind != "busy" && problem.kind != "no-answer" =>
            {
                panic!("{at} at {}: {problem:?}", node.name)
            }
            Err(_) => None,
        }
    });
    let values = found["values"].as_array().expect("values").iter();
    values.map(|one| one["value"].as_str().expect("a value").parse().expect("a number")).collect()
}

/// A snapshot's token.
#[track_caller]
fn taken(node: &Node) -> String {
    let (code, text) = node.carillon(&["snapshot", "take", "--keyspace", KEYSPACE]);
    assert_eq!(code, 0, "{text}");
    text.trim().to_owned()
}

#[track_caller]
fn refusal(result: Result<impl std::fmt::Debug, ClientError>) -> (String, String) {
    match result {
        Err(ClientError::Refused(problem) | ClientError::BadRequest(problem)) => {
            (problem.kind, problem.detail)
        }
        other => panic!("{other:?}"),
    }
}

fn prepared(name: &str) -> Cluster {
    let cluster = Cluster::start(PROGRAM, name, 3, &[], &["0"]);
    let words = ["keyspace", "create", KEYSPACE, "--replicas", "3", "--retention", "0"];
    let (code, text) = cluster.nodes[0].carillon(&words);
    assert_eq!(code, 0, "{text}");
    (0..3).for_each(|number| cluster.wait_until_it_takes_writes(number, KEYSPACE));
    let mut connection = cluster.nodes[0].connect();
    connection.ask(&["SELECT", KEYSPACE]).unwrap();
    for number in 0..ACCOUNTS {
        assert_eq!(connection.ask(&["SET", &account(number), "100"]).unwrap().text(), "OK");
    }
    cluster
}

/// Reads a little ahead have leaders raise their clocks: what is read then stays.
#[test]
fn a_clock_that_is_ahead_shows_in_no_snapshot_and_no_reader_drives_it_on() {
    let cluster = prepared("snapshots_ahead");
    let mut connection = cluster.nodes[0].connect();
    connection.ask(&["SELECT", KEYSPACE]).unwrap();
    let now_ms = || UNIX_EPOCH.elapsed().unwrap().as_millis();
    for round in 0..9 {
        let ahead = format!("{}ms", now_ms() + 400);
        let read = connection.ask(&["AT", &ahead, "GET", &account(round)]).unwrap();
        assert!(read.text().parse::<u64>().is_ok(), "{read:?}");
        let token = taken(&cluster.nodes[round % 3]);
        let later = (1_000 + round).to_string();
        for number in 0..ACCOUNTS {
            assert_eq!(connection.ask(&["SET", &account(number), &later]).unwrap().text(), "OK");
        }
        let shown = accounts(&cluster.nodes[(round + 1) % 3], &token);
        assert!(
            !shown.contains(&(1_000 + round as i64)),
            "{token} shows what came later: {shown:?}"
        );
    }
    let begun = now_ms();
    let far = (1..=20).map(|step| {
        let ahead = format!("{}ms", begun + 490 * step);
        connection.ask(&["AT", &ahead, "GET", &account(0)]).unwrap().text()
    });
    let refused = far.filter(|text| text.contains("future")).count();
    assert!(refused >= 15, "20 reads took the clock to {} ms ahead", 490 * (20 - refused));
}

#[test]
fn snapshots_are_whole_while_transfers_kills_and_collection_go_on() {
    let mut cluster = prepared("snapshots_whole");
    cluster.wait_until_replicated("0", 3);
    cluster.wait_until_replicated(KEYSPACE, 3);
    let first = taken(&cluster.nodes[1]);
    let ends = Arc::new(AtomicBool::new(false));
    let writer = {
        let (ends, mut connection) = (ends.clone(), cluster.nodes[0].connect());
        thread::spawn(move || {
            connection.ask(&["SELECT", KEYSPACE]).unwrap();
            let mut done = 0_usize;
            while !ends.load(Ordering::Relaxed) {
                let (from, to) = (account(done % ACCOUNTS), account((done * 7 + 5) % ACCOUNTS));
                if from != to {
                    connection.ask(&["MULTI"]).unwrap();
                    connection.ask(&["DECRBY", &from, "1"]).unwrap();
                    connection.ask(&["INCRBY", &to, "1"]).unwrap();
                    connection.ask(&["EXEC"]).unwrap();
                }
                done += 1;
            }
            done
        })
    };
    let mut tokens = vec![first];
    for round in 0..12 {
        let token = taken(&cluster.nodes[round % 3]);
        let shown: Vec<_> = cluster.nodes.iter().map(|node| accounts(node, &token)).collect();
        assert_eq!(shown[0].iter().sum::<i64>(), SUM, "{token}: {shown:?}");
        assert!(shown.iter().all(|one| *one == shown[0]), "{token}: {shown:?}");
        tokens.push(token);
        // Collection takes nothing that a snapshot shows.
        let (code, text) = cluster.nodes[0].carillon(&["gc", "--keyspace", KEYSPACE]);
        assert_eq!(code, 0, "{text}");
    }
    let before: Vec<_> = tokens.iter().map(|token| accounts(&cluster.nodes[0], token)).collect();
    assert_eq!(before[0], vec![100; ACCOUNTS], "the first is of before all transfers");
    ends.store(true, Ordering::Relaxed);
    assert!(writer.join().unwrap() > 20, "transfers went on meanwhile");
    // Leases survive any leader, and all of them.
    for number in 0..3 {
        cluster.nodes[number].kill();
        let others: Vec<_> = (0..3).filter(|other| *other != number).collect();
        let shown = accounts(&cluster.nodes[others[0]], &tokens[0]);
        assert_eq!(shown, before[0], "without node {number}");
        cluster.nodes[number].start(&[]);
        cluster.wait_until_it_takes_writes(number, KEYSPACE);
    }
    (0..3).for_each(|number| cluster.nodes[number].kill());
    (0..3).for_each(|number| cluster.nodes[number].start(&[]));
    (0..3).for_each(|number| cluster.wait_until_it_takes_writes(number, KEYSPACE));
    let (code, text) = cluster.nodes[1].carillon(&["gc", "--keyspace", KEYSPACE]);
    assert_eq!(code, 0, "{text}");
    for (token, before) in tokens.iter().zip(&before) {
        assert_eq!(&accounts(&cluster.nodes[2], token), before, "{token} after a restart");
    }
    let listed = cluster.nodes[2].client().snapshots().unwrap();
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), tokens.len());
    let why = cluster.nodes[2].client().safe_points().unwrap();
    let of_it = why["keyspaces"].as_array().unwrap().iter().find(|one| one["keyspace"] == KEYSPACE);
    let of_it: &Value = of_it.unwrap();
    assert_eq!(
        (&of_it["held_by"], &of_it["snapshot"]),
        (&"retention".into(), &Value::Null),
        "{why}"
    );
    // They are pins: the safe point has passed them, and each keeps something for itself.
    let pinned = of_it["pinned"].as_array().unwrap();
    assert_eq!(pinned[0]["snapshot"], 1, "{why}");
    assert!(of_it["pinned_bytes"].as_u64().unwrap() > 0, "{why}");
    // When the first is released, what it kept goes, and the others stay.
    let (code, text) = cluster.nodes[0].carillon(&["snapshot", "release", &tokens[0]]);
    assert_eq!(code, 0, "{text}");
    until(TEST_TIMEOUT, "what nobody holds is collected", || {
        let (code, text) = cluster.nodes[0].carillon(&["gc", "--keyspace", KEYSPACE]);
        assert_eq!(code, 0, "{text}");
        let key = account(0);
        let got = cluster.nodes[1].client().get(KEYSPACE, key.as_bytes(), Some(&tokens[0]));
        matches!(got, Err(ClientError::Refused(problem)) if problem.kind == "below-safe-point")
            .then_some(())
    });
    assert_eq!(accounts(&cluster.nodes[1], &tokens[1]), before[1]);
    let again = cluster.nodes[1].client().snapshot_renew(&tokens[0], None);
    assert_eq!(refusal(again).0, "no-snapshot");
}

#[test]
fn snapshot_has_what_was_acknowledged_anywhere_before_and_nothing_later() {
    let cluster = prepared("snapshots_acknowledged");
    let mut connections: Vec<_> = cluster.nodes.iter().map(Node::connect).collect();
    for connection in &mut connections {
        connection.ask(&["SELECT", KEYSPACE]).unwrap();
    }
    for round in 0..30 {
        let key = format!("key-{round}");
        let reply = connections[round % 3].ask(&["SET", &key, "before"]).unwrap();
        assert_eq!(reply.text(), "OK");
        let token = taken(&cluster.nodes[(round + 1) % 3]);
        let later = format!("later-{round}");
        assert_eq!(connections[(round + 2) % 3].ask(&["SET", &later, "x"]).unwrap().text(), "OK");
        assert_eq!(connections[0].ask(&["SET", &key, "after"]).unwrap().text(), "OK");
        let keys = [key.as_bytes(), later.as_bytes(), b"never"];
        for node in &cluster.nodes {
            let found = node.client().get_many(KEYSPACE, &keys, Some(&token)).unwrap();
            let values = found["values"].as_array().unwrap();
            assert_eq!(values[0]["value"], "before", "{found}");
            assert_eq!(values[1]["state"], "nil-yet", "{found}");
            assert_eq!(values[2]["state"], "nil", "{found}");
            let got = node.client().get(KEYSPACE, later.as_bytes(), Some(&token)).unwrap();
            assert!(matches!(got, GetResult::NilYet), "{got:?}");
        }
    }
    let token = taken(&cluster.nodes[0]);
    assert_eq!(connections[0].ask(&["DEL", "key-0", "key-1"]).unwrap().text(), "2");
    assert_eq!(connections[1].ask(&["SET", "newcomer", "x"]).unwrap().text(), "OK");
    for node in &cluster.nodes {
        let words = ["keys", "--keyspace", KEYSPACE, "--at", &token];
        let (code, text) = node.carillon(&words);
        assert_eq!(code, 0, "{text}");
        assert!(text.lines().any(|key| key == "key-0") && !text.contains("newcomer"), "{text}");
        let (_, now) = node.carillon(&words[..3]);
        assert!(now.contains("newcomer") && !now.lines().any(|key| key == "key-0"), "{now}");
    }
}

#[test]
fn bad_times_and_tokens_are_refused_in_words() {
    let cluster = prepared("snapshots_refused");
    let client = cluster.nodes[1].client();
    let get = |at: &str| client.get(KEYSPACE, b"account-0", Some(at));
    let token = taken(&cluster.nodes[0]);
    let parts: Vec<&str> = token.split('-').collect();
    let foreign = format!("snap-{:016x}-{}-{}", 1, parts[2], parts[3]);
    let (kind, detail) = refusal(get(&foreign));
    assert_eq!(kind, "bad-request");
    assert!(detail.contains("is of cluster 0000000000000001"), "{detail}");
    // A little ahead it waits.
    let soon = UNIX_EPOCH.elapsed().unwrap().as_millis() + 200;
    assert!(matches!(get(&format!("{soon}ms")), Ok(GetResult::Value { .. })));
    assert!(UNIX_EPOCH.elapsed().unwrap().as_millis() >= soon, "it came too early");
    let (kind, _) = refusal(get("2200-01-01T00:00:00Z"));
    assert_eq!(kind, "in-future");
    for bad in ["yesterday", "10 parsecs ago", "2026-13-01T00:00:00Z", "snap-1-2-3", "1795675401"] {
        let (kind, detail) = refusal(get(bad));
        assert_eq!(kind, "bad-request", "{bad}: {detail}");
    }
    until(TEST_TIMEOUT, "what is old is collected", || {
        let (code, text) = cluster.nodes[0].carillon(&["gc", "--keyspace", KEYSPACE]);
        assert_eq!(code, 0, "{text}");
        matches!(get("1d ago"), Err(ClientError::Refused(problem))
            if problem.kind == "below-safe-point")
        .then_some(())
    });
    let many = client.snapshot_take(&["nosuch".to_owned()], None, None);
    assert_eq!(refusal(many).0, "no-keyspace");
    let long = client.snapshot_take(&[], None, Some(86_400_001));
    assert_eq!(refusal(long).0, "bad-request");
    let old = client.snapshot_take(&[KEYSPACE.to_owned()], Some("30d ago"), None);
    assert!(matches!(&*refusal(old).0, "below-safe-point"));
    assert_eq!(refusal(client.snapshot_release("99")).0, "no-snapshot");
    // As many as there may be, and then one more.
    let taken = (0..300).map(|_| client.snapshot_take(&[KEYSPACE.to_owned()], Some(&token), None));
    let refused = taken.filter(Result::is_err).count();
    assert_eq!(refused, 300 - 255, "256 are allowed, and one was there");
    assert_eq!(client.snapshots().unwrap()["snapshots"].as_array().unwrap().len(), 256);
}
