//! Snapshots, and several keys at a time.

use serde_json::{Value, json};

use super::*;

fn sent(server: &Server, method: &str, path: &str, body: &str) -> (u16, Value) {
    let reply = ask_json(server, method, path, body);
    (reply.status, serde_json::from_slice(&reply.body).unwrap_or(Value::Null))
}

#[test]
fn snapshot_is_taken_named_and_released() {
    let server = serve(options());
    let (status, taken) = sent(&server, "POST", "/v1/snapshots", "{\"keyspaces\":[\"0\"]}");
    assert_eq!(status, 201, "{taken}");
    assert_eq!(taken["ends_at_ms"], 1_700_000_600_000_u64, "ten minutes");
    let token = taken["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("snap-00000000000000aa-1-"), "{token}");
    for name in ["1", &token] {
        assert_eq!(sent(&server, "DELETE", &format!("/v1/snapshots/{name}"), "").0, 204);
    }
    let (status, problem) = sent(&server, "DELETE", "/v1/snapshots/2", "");
    assert_eq!(
        (status, &problem["type"]),
        (404, &"urn:carillon:problem:no-snapshot".into()),
        "{problem}"
    );
    let foreign = token.replace("aa-1", "ab-1");
    let (status, problem) = sent(&server, "DELETE", &format!("/v1/snapshots/{foreign}"), "");
    assert_eq!(status, 400);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("of cluster 00000000000000ab"), "{detail}");
    for (body, status) in [
        ("{\"ttl_ms\":0}", 400),
        ("{\"ttl_ms\":86400001}", 400),
        ("{\"at\":\"soon\"}", 400),
        ("{\"at\":\"2200-01-01T00:00:00Z\"}", 400),
        ("{\"from\":1}", 400),
        ("{\"keyspaces\":[\"full\"]}", 409),
        ("{\"at\":\"1m ago\"}", 201),
    ] {
        assert_eq!(sent(&server, "POST", "/v1/snapshots", body).0, status, "{body}");
    }
}

#[test]
fn several_keys_are_read_at_a_time() {
    let server = serve(options());
    let body = json!({ "keyspace": "0", "keys": ["a", "nil", { "base64": "/w==" }, "later"],
        "at": "1s ago" });
    let (status, found) = sent(&server, "POST", "/v1/mget", &body.to_string());
    assert_eq!(status, 200, "{found}");
    assert_eq!(
        found["values"],
        json!([
            { "state": "value", "value": "a", "version": "7", "expires_at_ms": 9 },
            { "state": "nil", "value": null },
            { "state": "value", "value": { "base64": "/w==" }, "version": "7", "expires_at_ms": 9 },
            { "state": "nil-yet", "value": null },
        ])
    );
    assert!(found["at"].is_string(), "{found}");
    let many = json!({ "keyspace": "0", "keys": vec!["k"; 1025], "at": "1s ago" });
    assert_eq!(sent(&server, "POST", "/v1/mget", &many.to_string()).0, 400);
    let long = json!({ "keyspace": "0", "keys": ["k".repeat(101)], "at": "1s ago" });
    assert_eq!(sent(&server, "POST", "/v1/mget", &long.to_string()).0, 400);
}
