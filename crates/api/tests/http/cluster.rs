//! Requests about the cluster: its nodes, its shards and its version.

use super::*;

#[test]
fn nodes_and_shards_are_told_with_the_verdict() {
    let server = serve(options());
    let json = |path: &str| -> serde_json::Value {
        let reply = ask(&server, "GET", path, b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
        serde_json::from_slice(&reply.body).unwrap()
    };
    let status = json("/v1/status");
    assert_eq!(status["health"]["verdict"], "degraded");
    assert_eq!(status["cluster"]["members_down"], 1);
    let nodes = json("/v1/nodes");
    let states = ["up", "suspected", "down"];
    assert!((0..3).all(|at| nodes["nodes"][at]["state"] == states[at]), "{nodes}");
    assert_eq!(nodes["nodes"][0]["this"], true);
    assert_eq!(nodes["nodes"][0]["addresses"]["native"], serde_json::Value::Null);
    let replica = |at: usize| nodes["nodes"][at]["addresses"]["resp_replica"].clone();
    assert_eq!((replica(0), replica(1)), (serde_json::Value::Null, "10.0.0.2:6479".into()));
    assert_eq!(status["surfaces"], serde_json::json!(["events", "keys"]));
    let shards = json("/v1/shards");
    assert_eq!(shards["shards"].as_array().unwrap().len(), 2);
    assert_eq!(shards["shards"][1]["replicas"][2]["role"], "learner");
    let shards = json("/v1/shards?keyspace=0");
    assert_eq!(shards["shards"].as_array().unwrap().len(), 1);
    let first = json("/v1/shards?limit=1");
    assert_eq!((&first["shards"][0]["id"], &first["next"]), (&0.into(), &0.into()));
    let last = json("/v1/shards?limit=1&after=0");
    assert_eq!((&last["shards"][0]["id"], &last["next"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(json("/v1/shards?after=1")["shards"].as_array().unwrap().len(), 0);
    for limit in ["0", "1001", "many"] {
        let bad = ask(&server, "GET", &format!("/v1/shards?limit={limit}"), b"");
        assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-request"));
    }
    let none = ask(&server, "GET", "/v1/shards?keyspace=nothing", b"");
    assert_eq!((none.status, none.problem().as_str()), (404, "no-keyspace"));
    let decided = json("/v1/decisions");
    assert_eq!(
        (&decided["balances"], &decided["decisions"][0]["add"][0]["name"]),
        (&false.into(), &"n4".into())
    );
    assert_eq!(decided["decisions"][0]["came"], "handed-on");
    assert_eq!(json("/v1/decisions?dry=false"), decided);
    assert_eq!(json("/v1/decisions?dry=true")["decisions"][0]["came"], "dry");
    for path in ["/v1/decisions", "/v1/shards"] {
        let of_cluster = json(&format!("{path}?scope=cluster"));
        assert_eq!(of_cluster, json(&format!("{path}?scope=node")), "there is one node");
        assert_eq!(of_cluster["silent"], serde_json::json!([]));
    }
    for bad in ["dry=maybe", "dry", "wet=true", "scope=world", "scope"] {
        let bad = ask(&server, "GET", &format!("/v1/decisions?{bad}"), b"");
        assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-request"));
    }
    let bad = ask(&server, "GET", "/v1/nodes?all", b"");
    assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-request"));
}

/// The rules are tried in `api::prove`.
#[test]
fn what_the_cluster_may_lose_is_shown() {
    let server = serve(options());
    for (query, survive) in
        [("", "node"), ("?survive=domain", "domain"), ("?survive=2-nodes", "2-nodes")]
    {
        let reply = ask(&server, "GET", &format!("/v1/prove{query}"), b"");
        let found: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((&found["survive"], &found["holds"]), (&survive.into(), &false.into()));
        // The leader of this node's shards has told nothing.
        assert_eq!(found["unproven"], serde_json::json!([0, 1]), "{found}");
        assert_eq!(found["down"], serde_json::json!(["n2", "n3"]));
    }
    for bad in ["survive=rack", "survive", "all=1"] {
        let bad = ask(&server, "GET", &format!("/v1/prove?{bad}"), b"");
        assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-request"));
    }
}

#[test]
fn metrics_are_shown_as_json() {
    let server = serve(options());
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/k", b"v").status, 204);
    for scope in ["", "?scope=node", "?scope=cluster"] {
        let reply = ask(&server, "GET", &format!("/v1/metrics{scope}"), b"");
        let found: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(found["nodes"][0]["numbers"]["writes_total"], 1.0, "{found}");
        assert_eq!(found["silent"], serde_json::json!([]));
    }
    for (links, shown) in [("", 0), ("?links=false", 0), ("?links=true", 1)] {
        let reply = ask(&server, "GET", &format!("/v1/metrics{links}"), b"");
        let found: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let links = found["nodes"][0]["links"].as_array().map_or(0, Vec::len);
        assert_eq!(links, shown, "{found}");
    }
    for bad in ["scope=world", "names=x", "links=all"] {
        let bad = ask(&server, "GET", &format!("/v1/metrics?{bad}"), b"");
        assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-request"));
    }
}

#[test]
fn split_is_requested_by_http() {
    let server = serve(options());
    let split = |shard: &str, body: &str| {
        ask_json(&server, "POST", &format!("/v1/shards/{shard}/split"), body)
    };
    for (body, at) in [("{}", 1024), (r#"{"at":null}"#, 1024), (r#"{"at":700}"#, 700)] {
        let cut = split("1", body);
        let body: serde_json::Value = serde_json::from_slice(&cut.body).unwrap();
        assert_eq!(cut.status, 202);
        assert_eq!(body, serde_json::json!({ "shard": 1, "right": 9, "at": at }));
    }
    for (shard, body, status, problem) in [
        ("2", "{}", 409, "not-leader"),
        ("3", "{}", 409, "no-split"),
        ("4", "{}", 404, "no-shard"),
        ("one", "{}", 400, "bad-request"),
        ("1", r#"{"at":70000}"#, 400, "bad-request"),
        ("1", r#"{"slot":7}"#, 400, "bad-request"),
    ] {
        let bad = split(shard, body);
        assert_eq!((bad.status, bad.problem().as_str()), (status, problem), "{shard} {body}");
    }
}

#[test]
fn merge_is_requested_by_http() {
    let server = serve(options());
    let merge = |shard: &str, body: &str| {
        ask_json(&server, "POST", &format!("/v1/shards/{shard}/merge"), body)
    };
    let merged = merge("1", "{}");
    let body: serde_json::Value = serde_json::from_slice(&merged.body).unwrap();
    assert_eq!(merged.status, 202);
    assert_eq!(body, serde_json::json!({ "shard": 1, "right": 9, "moves": true }));
    for (shard, body, status, problem) in [
        ("2", "{}", 409, "not-leader"),
        ("3", "{}", 409, "no-merge"),
        // It may be taken in yet.
        ("7", "{}", 504, "unknown-outcome"),
        ("4", "{}", 404, "no-shard"),
        ("one", "{}", 400, "bad-request"),
        ("1", r#"{"right":9}"#, 400, "bad-request"),
    ] {
        let bad = merge(shard, body);
        assert_eq!((bad.status, bad.problem().as_str()), (status, problem), "{shard} {body}");
    }
}

#[test]
fn cluster_version_is_shown_and_raised() {
    let server = serve(options());
    let reply = ask(&server, "GET", "/v1/level", b"");
    let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!((&body["level"], &body["speaks"]), (&1.into(), &serde_json::json!([1, 2])));
    assert_eq!(
        body["nodes"][2],
        serde_json::json!({
            "id": "0000000000000003", "name": "n3", "speaks": null
        })
    );
    let raise = |body: &str| ask_json(&server, "POST", "/v1/level", body);
    assert_eq!(raise(r#"{"to":1}"#).status, 200);
    for (body, status, problem) in [
        ("{}", 409, "no-level"),
        (r#"{"to":7}"#, 409, "no-level"),
        (r#"{"to":300}"#, 400, "bad-request"),
        (r#"{"level":2}"#, 400, "bad-request"),
    ] {
        let bad = raise(body);
        assert_eq!((bad.status, bad.problem().as_str()), (status, problem), "{body}");
    }
}

#[test]
fn admin_state_of_nodes_is_changed_by_http() {
    let server = serve(options());
    let act = |node: &str, action: &str| {
        ask_json(&server, "POST", &format!("/v1/nodes/{node}/{action}"), "{}")
    };
    let admin_state = |at: usize| {
        let nodes: serde_json::Value =
            serde_json::from_slice(&ask(&server, "GET", "/v1/nodes", b"").body).unwrap();
        nodes["nodes"][at]["standing"].as_str().unwrap().to_owned()
    };
    for (node, action, then) in [
        ("n1", "cordon", "cordoned"),
        ("n1", "uncordon", "member"),
        ("0000000000000001", "drain", "draining"),
    ] {
        let reply = act(node, action);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let json: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((&json["standing"], &json["name"]), (&then.into(), &"n1".into()));
        assert_eq!((&json["replicas"], &json["leads"]), (&9.into(), &1.into()));
        assert_eq!(admin_state(0), then);
    }
    for (node, action, status, kind) in [
        ("n9", "drain", 404, "no-node"),
        ("twins", "drain", 409, "ambiguous-node"),
        ("n1", "remove", 409, "node-in-use"),
        ("n3", "cordon", 409, "too-few-nodes"),
        ("lost", "remove", 504, "unknown-outcome"),
        ("n1", "explode", 404, "unknown-path"),
        ("n1", "", 404, "unknown-path"),
        ("n1", "drain?force=1", 400, "bad-request"),
        ("%ff", "drain", 400, "bad-request"),
    ] {
        let reply = act(node, action);
        assert_eq!((reply.status, reply.problem().as_str()), (status, kind), "{node} {action}");
    }
    // An id that nobody knows, by mistake and on purpose.
    let unknown = |body| ask_json(&server, "POST", "/v1/nodes/00000000000000a9/cordon", body);
    let refused = unknown("{}");
    assert_eq!((refused.status, refused.problem().as_str()), (404, "no-node"));
    assert!(refused.text().contains("known are n1 (0000000000000001)"), "{}", refused.text());
    assert_eq!(unknown("{\"unknown\": true}").status, 200);
    // What a page of another origin can send.
    let page = ask(&server, "POST", "/v1/nodes/n1/uncordon", b"{}");
    assert_eq!((page.status, page.problem().as_str()), (415, "not-json"));
    let more = ask_json(&server, "POST", "/v1/nodes/n1/uncordon", "{\"force\": true}");
    assert_eq!((more.status, more.problem().as_str()), (400, "bad-request"));
    assert_eq!(ask(&server, "PUT", "/v1/nodes/n1/drain", b"").problem(), "unknown-method");
    assert_eq!(admin_state(0), "draining");
}
