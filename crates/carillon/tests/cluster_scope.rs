//! What one node says of the whole cluster: the leaders' view of shards, decisions and metrics of
//! all nodes, splits and merges at any node, and the changes of a key.

use std::collections::BTreeSet;

use client::http::Request;
use harness::cluster::Cluster;
use harness::node::{Node, TEST_TIMEOUT};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

fn get(node: &Node, path: &str) -> (u16, Value) {
    let reply = node.client().send(&Request::get(path)).expect("a reply");
    (reply.status, serde_json::from_slice(&reply.body).expect("JSON"))
}

#[track_caller]
fn found(node: &Node, path: &str) -> Value {
    let (status, answer) = get(node, path);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// An answer for which only these nodes are silent: on a busy machine others may be late once.
#[track_caller]
fn answered(node: &Node, path: &str, silent: &[&Value]) -> Value {
    harness::until(TEST_TIMEOUT, "all others answer in time", || {
        let answer = found(node, path);
        let found = all(&answer, "silent");
        let is_it = found.len() == silent.len()
            && found.iter().zip(silent).all(|(found, id)| found["id"] == **id);
        is_it.then_some(answer)
    })
}

fn post(node: &Node, path: &str) -> (u16, Value) {
    let request = Request { body: b"{}", json: true, ..Request::write("POST", path) };
    let reply = node.client().send(&request).expect("a reply");
    (reply.status, serde_json::from_slice(&reply.body).expect("JSON"))
}

fn all(answer: &Value, name: &str) -> Vec<Value> {
    answer[name].as_array().expect("a list").clone()
}

/// Three nodes, and a keyspace of one replica whose shards are spread over them.
fn cluster(name: &str) -> Cluster {
    let flags = ["--split-bytes", "1GiB", "--merge-bytes", "off"];
    let cluster = Cluster::start(PROGRAM, name, 3, &flags, &["0"]);
    let words = ["keyspace", "create", "one", "--replicas", "1"];
    let (code, text) = cluster.nodes[0].carillon(&words);
    assert_eq!(code, 0, "{text}");
    for number in 0..3 {
        cluster.wait_until_it_takes_writes(number, "one");
    }
    told(&cluster.nodes[0], "shards are on several nodes", |shards| leaders(shards).len() > 1);
    cluster
}

/// The shards of the keyspace, as their leaders know them, with all sizes known.
#[track_caller]
fn told(node: &Node, what: &str, is_it: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    harness::until(TEST_TIMEOUT, what, || {
        let page = found(node, "/v1/shards?keyspace=one&scope=cluster");
        let shards = all(&page, "shards");
        let is_told = shards.iter().all(|shard| shard["told_by"] == shard["leader"]);
        (is_told && page["silent"] == serde_json::json!([]) && is_it(&shards)).then_some(shards)
    })
}

fn leaders(shards: &[Value]) -> BTreeSet<String> {
    shards.iter().filter_map(|shard| shard["leader"].as_str().map(str::to_owned)).collect()
}

fn keys(shards: &[Value]) -> u64 {
    shards.iter().map(|shard| shard["keys"].as_u64().expect("a number")).sum()
}

#[test]
fn every_node_tells_what_leaders_know_and_passes_splits_on() {
    let cluster = cluster("scope");
    let mut connection = cluster.nodes[0].connect();
    connection.ask(&["SELECT", "one"]).unwrap();
    for n in 0..300 {
        assert_eq!(connection.ask(&["SET", &format!("k{n}"), "value"]).unwrap().text(), "OK");
    }
    let there = 300 + 64;
    for node in &cluster.nodes {
        let is_elsewhere = |shard: &&Value| shard["here"] == false;
        let shards = told(node, "leaders tell, of shards elsewhere too", |shards| {
            keys(shards) == there && shards.iter().any(|shard| is_elsewhere(&shard))
        });
        let elsewhere = || shards.iter().filter(is_elsewhere);
        assert!(elsewhere().all(|shard| shard["committed"].as_u64() > Some(0)), "{shards:?}");
        assert!(shards.iter().all(|shard| shard["load"].is_object()), "{shards:?}");
        // Of itself it says what it knows.
        let own = all(&found(node, "/v1/shards?keyspace=one"), "shards");
        assert!(own.iter().all(|s| s["here"] == true || s["told_by"].is_null()), "{own:?}");
        assert!(keys(&own) < there, "{own:?}");
    }

    // Each is split at a node that does not lead it, and merges again.
    let node = &cluster.nodes[2];
    let own = found(node, "/v1/shards?keyspace=one&limit=1")["node"].clone();
    let shards = told(node, "leaders tell", |_| true);
    let foreign = shards.iter().find(|shard| shard["leader"] != own).expect("another leads one");
    let id = foreign["id"].as_u64().expect("a number");
    let (status, split) = post(node, &format!("/v1/shards/{id}/split"));
    assert_eq!((status, &split["shard"]), (202, &id.into()), "{split}");
    let count = shards.len();
    told(node, "both halves are known", |now| now.len() == count + 1 && keys(now) == there);
    let decided = answered(node, "/v1/decisions?scope=cluster", &[]);
    let split_by = all(&decided, "decisions")
        .into_iter()
        .find(|one| one["split"]["right"] == split["right"])
        .expect("its leader has decided");
    assert_eq!(split_by["by"]["id"], foreign["leader"]);
    let mine = found(node, "/v1/decisions");
    assert!(all(&mine, "decisions").iter().all(|one| one["by"]["id"] == own));
    let (status, merged) = post(node, &format!("/v1/shards/{id}/merge"));
    assert_eq!((status, &merged["right"]), (202, &split["right"]), "{merged}");
    told(node, "they have merged", |now| now.len() == count && keys(now) == there);
    for (path, status, kind) in [
        ("/v1/shards/999/split", 404, "no-shard"),
        ("/v1/shards/999/merge", 404, "no-shard"),
        ("/v1/shards/0/split", 409, "no-split"),
    ] {
        let (found, problem) = post(node, path);
        assert_eq!(found, status, "{path}: {problem}");
        assert!(problem["type"].as_str().unwrap().ends_with(kind), "{path}: {problem}");
    }
}

#[test]
fn silent_nodes_are_named_and_the_others_are_shown() {
    let mut cluster = cluster("silent");
    let metrics = answered(&cluster.nodes[1], "/v1/metrics?scope=cluster", &[]);
    let nodes = all(&metrics, "nodes");
    assert_eq!(nodes.len(), 3, "{metrics}");
    assert_eq!(nodes[0]["name"], "n1", "who was asked is the first");
    for node in &nodes {
        assert!(node["numbers"]["commands_total"].as_f64() > Some(0.0), "{node}");
        assert!(node["histograms"]["fsync_seconds"]["count"].as_u64() > Some(0), "{node}");
        let requests = &node["histograms"]["request_seconds"];
        assert!(requests["count"].as_u64() > Some(0) && requests["sum"].as_f64() > Some(0.0));
    }
    assert_eq!(all(&found(&cluster.nodes[1], "/v1/metrics"), "nodes").len(), 1);

    // A node that leads a shard which the asked one does not.
    let own = found(&cluster.nodes[0], "/v1/shards?limit=1")["node"].clone();
    let shards = told(&cluster.nodes[0], "leaders tell", |_| true);
    let led = shards.iter().find(|shard| shard["leader"] != own).expect("another leads one");
    let lost = led["leader"].clone();
    let names = found(&cluster.nodes[0], "/v1/nodes");
    let name = all(&names, "nodes").into_iter().find(|node| node["id"] == lost).expect("a member");
    let victim = (0..3).find(|number| name["name"] == format!("n{number}")).expect("a node");
    cluster.nodes[victim].kill();
    for path in ["/v1/metrics?scope=cluster", "/v1/decisions?scope=cluster"] {
        let answer = answered(&cluster.nodes[0], path, &[&lost]);
        let silent = all(&answer, "silent");
        assert_eq!(silent[0]["name"], name["name"]);
        assert!(silent[0]["why"].as_str().is_some_and(|why| !why.is_empty()));
    }
    // A shard of the dead node has another leader soon, unless it is on two nodes by now: as long
    // as it has none, the dead one is named.
    harness::until(
        TEST_TIMEOUT,
        "shards are told by their leaders, or the dead one is named",
        || {
            let page = found(&cluster.nodes[0], "/v1/shards?keyspace=one&scope=cluster");
            let is_named = all(&page, "silent").iter().any(|silent| silent["id"] == lost);
            let is_right = |shard: &Value| match shard["leader"] == lost {
                true => is_named,
                false => shard["told_by"] == shard["leader"],
            };
            all(&page, "shards").iter().all(is_right).then_some(())
        },
    );
    let (status, problem) = post(&cluster.nodes[0], &format!("/v1/shards/{}/split", led["id"]));
    assert!([202, 409, 504].contains(&status), "{problem}");
}

#[test]
fn changes_of_a_key_are_the_same_at_every_node() {
    let cluster = cluster("history");
    let mut connection = cluster.nodes[0].connect();
    connection.ask(&["SELECT", "one"]).unwrap();
    for key in ["a", "b", "c", "d"] {
        connection.ask(&["SET", key, "first"]).unwrap();
        connection.ask(&["SET", key, "second", "PX", "30"]).unwrap();
        harness::until(TEST_TIMEOUT, "the second value ends", || {
            (connection.ask(&["EXISTS", key]).ok()?.text() == "0").then_some(())
        });
        for command in [&["SET", key, "third"][..], &["DEL", key], &["SET", key, "last"]] {
            connection.ask(command).unwrap();
        }
        let mut seen = Vec::new();
        for node in &cluster.nodes {
            let history = found(node, &format!("/v1/history/one/{key}?limit=10"));
            let words: Vec<String> = all(&history, "changes")
                .iter()
                .map(|change| {
                    let value = change["value"].as_str().unwrap_or_default();
                    format!("{} {value}", change["what"].as_str().unwrap())
                })
                .collect();
            let wanted =
                ["put last", "deleted ", "put third", "expired ", "put second", "put first"];
            assert_eq!(words, wanted);
            let third = history["changes"][2]["version"].as_str().unwrap().to_owned();
            let at = format!("/v1/kv/one/{key}?at={third}");
            let value = node.client().send(&Request::get(&at)).unwrap();
            assert_eq!(value.text(), "third", "a version can be read by its time");
            let older = found(node, &format!("/v1/history/one/{key}?limit=1&before={third}"));
            assert_eq!(older["changes"][1]["value"], "second", "{older}");
            assert_eq!(older["next"], older["changes"][1]["version"]);
            seen.push(history["changes"].clone());
        }
        assert!(seen.iter().all(|one| *one == seen[0]));
    }
    let (code, text) = cluster.nodes[1].carillon(&["history", "a", "--keyspace", "one"]);
    assert!(code == 0 && text.contains("third") && text.contains("deleted"), "{text}");
    let (code, text) = cluster.nodes[1].carillon(&["history", "none", "--keyspace", "one"]);
    assert!(code == 1 && text.contains("no changes"), "{text}");
}

#[test]
fn draining_node_tells_what_its_replicas_wait_for() {
    let flags = ["--replicas", "1", "--split-bytes", "1GiB", "--merge-bytes", "off"];
    let cluster = Cluster::start(PROGRAM, "draining", 2, &flags, &["0"]);
    let asked = &cluster.nodes[0];
    let drain = || found(asked, "/v1/nodes/n1/drain");
    harness::until(TEST_TIMEOUT, "the second node has replicas", || {
        (drain()["replicas"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(
        (&drain()["standing"], &drain()["waits"]),
        (&"member".into(), &serde_json::json!([]))
    );
    let (status, answer) = post(asked, "/v1/nodes/n1/drain");
    assert_eq!(status, 200, "{answer}");
    let mut seen = BTreeSet::new();
    let empty = harness::until(TEST_TIMEOUT, "it is empty", || {
        let drain = drain();
        let waits = all(&drain, "waits");
        let shards: u64 = waits.iter().map(|wait| wait["shards"].as_u64().unwrap()).sum();
        assert_eq!(shards, all(&drain, "shards").len() as u64, "each waits for something: {drain}");
        seen.extend(waits.iter().map(|wait| wait["state"].as_str().unwrap().to_owned()));
        (drain["replicas"] == 0).then_some(drain)
    });
    assert_eq!((&empty["waits"], &empty["standing"]), (&serde_json::json!([]), &"draining".into()));
    assert!(
        seen.contains("moving") || seen.contains("due") || seen.contains("waiting"),
        "{seen:?}"
    );
}
