//! Keys listed page by page over HTTP, through nodes with and without the shards that have them.

use std::collections::BTreeMap;

use client::http::Request;
use harness::cluster::Cluster;
use harness::node::Node;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const KEYS: usize = 700;

fn get(node: &Node, path: &str) -> (u16, Value) {
    let reply = node.client().send(&Request::get(path)).expect("a reply");
    (reply.status, serde_json::from_slice(&reply.body).expect("JSON"))
}

/// All keys with a prefix, with how often each was shown, and their order.
#[track_caller]
fn listed(node: &Node, keyspace: &str, query: &str) -> (BTreeMap<String, usize>, Vec<String>) {
    let (mut counts, mut order) = (BTreeMap::new(), Vec::new());
    let mut cursor = String::new();
    for _ in 0..2000 {
        let (status, page) = get(node, &format!("/v1/keys/{keyspace}?{query}{cursor}"));
        assert_eq!(status, 200, "{page}");
        for key in page["keys"].as_array().expect("keys") {
            let key = key.as_str().map_or_else(|| key["base64"].to_string(), str::to_owned);
            *counts.entry(key.clone()).or_default() += 1;
            order.push(key);
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (counts, order),
        }
    }
    panic!("it does not end");
}

#[test]
fn keys_of_all_placements_are_listed_at_every_node() {
    let cluster = Cluster::start(PROGRAM, "keys_page", 3, &[], &["0"]);
    for (keyspace, placement) in [("h", "hashed"), ("o", "ordered"), ("l", "linear-hash")] {
        // One replica: most shards are elsewhere.
        let words = ["keyspace", "create", keyspace, "--placement", placement, "--replicas", "1"];
        let (code, text) = cluster.nodes[0].carillon(&words);
        assert_eq!(code, 0, "{text}");
        let mut connection = cluster.nodes[0].connect();
        harness::until(harness::node::TEST_TIMEOUT, "the keyspace is known", || {
            (connection.ask(&["SELECT", keyspace]).ok()?.text() == "OK").then_some(())
        });
        for n in 0..KEYS {
            let prefix = if n % 10 == 0 { "rare" } else { "key" };
            let reply = connection.ask(&["SET", &format!("{prefix}-{n:05}"), "v"]).unwrap();
            assert_eq!(reply.text(), "OK");
        }
        assert_eq!(connection.ask(&[&b"SET"[..], b"\xff", b"v"]).unwrap().text(), "OK");
        for node in &cluster.nodes {
            let (all, order) = listed(node, keyspace, "limit=50");
            assert_eq!(all.len(), KEYS + 1, "{keyspace}");
            assert!(all.values().all(|count| *count == 1), "{keyspace}: {all:?}");
            if keyspace == "o" {
                assert!(order[..KEYS].is_sorted());
            }
            let (rare, _) = listed(node, keyspace, "limit=7&prefix=rare");
            assert_eq!(rare.len(), KEYS / 10, "{keyspace}");
            assert_eq!(listed(node, keyspace, "prefix=%ff").1, ["\"/w==\""]);
            assert!(listed(node, keyspace, "prefix=nosuch").1.is_empty());
        }
    }
    let node = &cluster.nodes[1];
    for (path, status, kind) in [
        ("/v1/keys/nosuch", 404, "no-keyspace"),
        ("/v1/keys/h?cursor=x", 400, "bad-request"),
        ("/v1/keys/h?cursor=18446744073709551615", 400, "bad-request"),
        ("/v1/keys/o?cursor=5", 400, "bad-request"),
        ("/v1/keys/o?cursor=at-61&prefix=b", 400, "bad-request"),
        ("/v1/keys/h?limit=0", 400, "bad-request"),
        ("/v1/keys/h?limit=1001", 400, "bad-request"),
        ("/v1/keys/h?from=1", 400, "bad-request"),
    ] {
        let (found, problem) = get(node, path);
        assert_eq!(found, status, "{path}: {problem}");
        assert!(problem["type"].as_str().unwrap().ends_with(kind), "{path}: {problem}");
    }
    assert!(listed(node, "5", "").1.is_empty(), "it will be made when it is used");
}
