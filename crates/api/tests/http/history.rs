//! The changes of a key.

use super::*;

fn json(server: &Server, path: &str) -> serde_json::Value {
    let reply = ask(server, "GET", path, b"");
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn changes_are_listed_newest_first_page_by_page() {
    let server = serve(options());
    let key = "/v1/kv/0/a%2Fb";
    for (method, query, body) in [
        ("PUT", "", &b"one"[..]),
        ("PUT", "?ttl_ms=1", b"\xff"),
        ("PUT", "", b"three"),
        ("DELETE", "", b""),
        ("PUT", "", b"five"),
    ] {
        assert_eq!(ask(&server, method, &format!("{key}{query}"), body).status, 204);
    }
    let path = "/v1/history/0/a%2Fb";
    let all = json(&server, path);
    let what: Vec<&str> =
        all["changes"].as_array().unwrap().iter().map(|c| c["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["put", "deleted", "put", "expired", "put", "put"], "{all}");
    assert_eq!(all["next"], serde_json::Value::Null);
    let change = &all["changes"][0];
    assert_eq!((&change["value"], &change["bytes"]), (&"five".into(), &4.into()));
    assert_eq!(all["changes"][4]["value"], serde_json::json!({ "base64": "/w==" }));
    assert_eq!(all["changes"][4]["expires_at_ms"], all["changes"][3]["at_ms"]);
    assert_eq!(all["changes"][3].get("version"), None, "nobody has written it");
    assert_eq!(all["changes"][1].get("value"), None);
    assert!(all["safe_point"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(all["safe_point_ms"], 1_700_000_000_000_u64);

    // Page by page it is the same.
    let (mut pages, mut before) = (Vec::new(), String::new());
    loop {
        let page = json(&server, &format!("{path}?limit=2{before}"));
        pages.extend(page["changes"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(serde_json::Value::from(pages), all["changes"]);
    let short = json(&server, &format!("{path}?values=false"));
    assert_eq!(
        (short["changes"][0].get("value"), &short["changes"][0]["bytes"]),
        (None, &4.into())
    );
    assert_eq!(json(&server, "/v1/history/0/none")["changes"], serde_json::json!([]));
}

#[test]
fn bad_requests_for_changes_are_refused() {
    let server = serve(options());
    for (path, status, kind) in [
        ("/v1/history/0", 400, "bad-request"),
        ("/v1/history/nosuch/k", 404, "no-keyspace"),
        ("/v1/history/0/k?limit=0", 400, "bad-request"),
        ("/v1/history/0/k?limit=1001", 400, "bad-request"),
        ("/v1/history/0/k?before=yesterday", 400, "bad-request"),
        ("/v1/history/0/k?values=some", 400, "bad-request"),
        ("/v1/history/0/k?at=5", 400, "bad-request"),
    ] {
        let bad = ask(&server, "GET", path, b"");
        assert_eq!((bad.status, bad.problem().as_str()), (status, kind), "{path}");
    }
    let long = ask(&server, "GET", &format!("/v1/history/0/{}", "k".repeat(101)), b"");
    assert_eq!((long.status, long.problem().as_str()), (400, "key-too-long"));
}
