//! How far a drain is.

use super::*;

fn json(server: &Server, path: &str) -> serde_json::Value {
    let reply = ask(server, "GET", path, b"");
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn drain_tells_what_is_left_and_what_it_waits_for() {
    let server = serve(options());
    let before = json(&server, "/v1/nodes/n1/drain");
    assert_eq!((&before["standing"], &before["waits"]), (&"member".into(), &serde_json::json!([])));
    let body = "{}";
    assert_eq!(ask_json(&server, "POST", "/v1/nodes/n1/drain", body).status, 200);
    let drain = json(&server, "/v1/nodes/0000000000000001/drain");
    assert_eq!((&drain["name"], &drain["standing"]), (&"n1".into(), &"draining".into()));
    assert_eq!((&drain["replicas"], &drain["rate"]), (&9.into(), &serde_json::Value::Null));
    // Both of the fake's shards are being changed.
    assert_eq!(drain["waits"].as_array().unwrap().len(), 1, "{drain}");
    assert_eq!(
        (&drain["waits"][0]["state"], &drain["waits"][0]["shards"]),
        (&"moving".into(), &2.into())
    );
    let why = drain["shards"][0]["why"].as_str().unwrap();
    assert!(why.contains("shard 0"), "{why}");
    for (path, status, kind) in [
        ("/v1/nodes/n9/drain", 404, "no-node"),
        ("/v1/nodes/twins/drain", 404, "no-node"),
        ("/v1/nodes/n1/drain?all", 400, "bad-request"),
        ("/v1/nodes/n1/cordon", 404, "unknown-path"),
        ("/v1/nodes/%ff/drain", 400, "bad-request"),
    ] {
        let bad = ask(&server, "GET", path, b"");
        assert_eq!((bad.status, bad.problem().as_str()), (status, kind), "{path}");
    }
}
