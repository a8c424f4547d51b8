//! HTTP as bytes on a socket: what is asked, what is answered, and what misbehaving clients meet.

#[path = "../fake/mod.rs"]
mod fake;

mod bodies;
mod cluster;
mod connections;
mod dev;
mod drain;
mod events;
mod history;
mod openapi;
mod preconditions;
mod refusals;
mod snapshots;
mod topics;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use api::http::{Options, Server, start};

const LONG: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        key_bytes_max: 100,
        value_bytes_max: 1 << 20,
        request_timeout: Duration::from_millis(200),
        ..Options::new(0xabc)
    }
}

fn serve(options: Options) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    start(listener, Arc::new(fake::Fake::new()), options).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// The problem's type, and its detail, outcome and remedy are there.
    fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{}",
            self.text()
        );
        let json: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(json["status"], self.status);
        let words = ["title", "detail", "remedy"].map(|name| json[name].as_str().unwrap().len());
        assert!(words.iter().all(|length| *length > 3));
        let outcome = if self.status == 504 { "unknown" } else { "not done" };
        assert_eq!(json["outcome"], outcome);
        json["type"].as_str().unwrap().strip_prefix("urn:carillon:problem:").unwrap().to_owned()
    }
}

/// Reads one reply, by its length.
fn read(stream: &mut TcpStream, has_body: bool) -> Reply {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let status = head[9..12].parse().unwrap();
    let mut reply = Reply { status, head, body: Vec::new() };
    let length = reply.header("content-length").map_or(0, |text| text.parse().unwrap());
    if has_body {
        reply.body = vec![0; length];
        stream.read_exact(&mut reply.body).unwrap();
    }
    reply
}

fn send(server: &Server, method: &str, path: &str, extra: &str, body: &[u8]) -> Reply {
    let mut stream = connect(server);
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{extra}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    read(&mut stream, method != "HEAD")
}

fn ask(server: &Server, method: &str, path: &str, body: &[u8]) -> Reply {
    send(server, method, path, "", body)
}

fn ask_json(server: &Server, method: &str, path: &str, body: &str) -> Reply {
    send(server, method, path, "Content-Type: application/json\r\n", body.as_bytes())
}

#[test]
fn keys_and_values_are_any_bytes() {
    let server = serve(options());
    let value: Vec<u8> = (0..=255).collect();
    for path in ["/v1/kv/0/plain", "/v1/kv/0/a%2Fb%00%ff", "/v1/kv/0/a/b/c", "/v1/kv/0/"] {
        let put = ask(&server, "PUT", path, &value);
        assert_eq!((put.status, put.text().as_str()), (204, ""));
        let get = ask(&server, "GET", path, b"");
        assert_eq!((get.status, &get.body), (200, &value));
        assert_eq!(get.header("content-type"), Some("application/octet-stream"));
        assert_eq!(get.header("carillon-timestamp"), put.header("carillon-timestamp"));
        assert_eq!(get.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(get.header("carillon-expires-at-ms"), None);
        let head = ask(&server, "HEAD", path, b"");
        assert_eq!((head.status, head.header("content-length")), (200, Some("256")));
        assert_eq!(ask(&server, "DELETE", path, b"").status, 204);
        let reply = ask(&server, "DELETE", path, b"");
        assert_eq!((reply.status, reply.problem().as_str()), (404, "nil"));
        let reply = ask(&server, "GET", path, b"");
        assert_eq!((reply.status, reply.problem().as_str()), (404, "nil"));
    }
}

#[test]
fn time_travel_tells_never_from_not_yet() {
    let server = serve(options());
    let first = ask(&server, "PUT", "/v1/kv/0/k", b"one");
    ask(&server, "PUT", "/v1/kv/0/k", b"two");
    let at = first.header("carillon-timestamp").unwrap();
    assert_eq!(ask(&server, "GET", &format!("/v1/kv/0/k?at={at}"), b"").text(), "one");
    assert_eq!(ask(&server, "GET", "/v1/kv/0/k?at=1700000000002ms", b"").text(), "two");
    let yet = ask(&server, "GET", "/v1/kv/0/k?at=1700000000000ms", b"");
    assert_eq!((yet.status, yet.problem().as_str()), (404, "nil-yet"));
    let never = ask(&server, "GET", &format!("/v1/kv/0/other?at={at}"), b"");
    assert_eq!((never.status, never.problem().as_str()), (404, "nil"));
    let old = ask(&server, "GET", "/v1/kv/0/k?at=5", b"");
    assert_eq!((old.status, old.problem().as_str()), (410, "below-safe-point"));
    let future = ask(&server, "GET", "/v1/kv/0/k?at=1800000000000ms", b"");
    assert_eq!((future.status, future.problem().as_str()), (400, "in-future"));
}

#[test]
fn put_accepts_condition_and_ttl() {
    let server = serve(options());
    let failed = ask(&server, "PUT", "/v1/kv/0/k?if=present", b"1");
    assert_eq!((failed.status, failed.problem().as_str()), (412, "condition-failed"));
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/k?if=absent&ttl_ms=5000", b"1").status, 204);
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/k?if=absent", b"2").status, 412);
    let get = ask(&server, "GET", "/v1/kv/0/k", b"");
    // The fake node's time counts its writes: the one that failed, this one, and then one more.
    assert_eq!(get.header("carillon-expires-at-ms"), Some("1700000005001"));
    for bad in ["ttl_ms=0", "ttl_ms=x", "ttl_ms=18446744073709551615", "if=maybe", "tll_ms=1"] {
        let reply = ask(&server, "PUT", &format!("/v1/kv/0/k?{bad}"), b"");
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-request"), "{bad}");
    }
}

#[test]
fn not_done_and_unknown_are_told_apart() {
    let server = serve(options());
    for key in ["silent", "lost"] {
        let path = format!("/v1/kv/0/{key}");
        let write = ask(&server, "PUT", &path, b"x");
        assert_eq!((write.status, write.problem().as_str()), (504, "unknown-outcome"));
        assert!(write.text().contains("\"request_id\":\"0000000000000abc-"), "{}", write.text());
        let read = ask(&server, "GET", &path, b"");
        assert_eq!((read.status, read.problem().as_str()), (503, "no-answer"));
    }
    let oom = ask(&server, "PUT", "/v1/kv/0/oom", b"x");
    assert_eq!((oom.status, oom.problem().as_str()), (507, "out-of-memory"));
    let busy = ask(&server, "PUT", "/v1/kv/0/busy", b"x");
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("1")));
    assert_eq!(busy.problem(), "busy");
}

#[test]
fn the_catalogue() {
    let server = serve(options());
    let list = ask(&server, "GET", "/v1/keyspaces", b"").text();
    assert!(list.starts_with("{\"keyspaces\":[{\"id\":1,\"name\":\"0\",\"placement\":\"hashed\""));
    let body = "{\"name\":\"or/ders\",\"placement\":\"ordered\",\"durability\":\"memory\"}";
    let made = ask_json(&server, "POST", "/v1/keyspaces", body);
    assert_eq!(made.status, 201, "{}", made.text());
    let again = ask_json(&server, "POST", "/v1/keyspaces", body);
    assert_eq!((again.status, again.problem().as_str()), (409, "keyspace-exists"));
    let one = ask(&server, "GET", "/v1/keyspaces/or%2Fders", b"");
    assert_eq!((one.status, one.body), (200, made.body));
    let change = "{\"retention_ms\":5,\"replicas\":3}";
    let changed = ask_json(&server, "PATCH", "/v1/keyspaces/or%2Fders", change).text();
    assert!(
        changed.contains("\"durability\":\"memory\",\"retention_ms\":5,\"replicas\":3"),
        "{changed}"
    );
    // One node of three is down.
    let warning = "\"warnings\":[\"the keyspace asks for 3 replicas, and 2 nodes that are up take";
    assert!(changed.contains(warning), "{changed}");
    let other = ask_json(&server, "PATCH", "/v1/keyspaces/or%2Fders", "{\"retention_ms\":6}");
    assert!(!other.text().contains("warnings"), "{}", other.text());
    let wide = ask_json(&server, "POST", "/v1/keyspaces", "{\"name\":\"wide\",\"replicas\":5}");
    assert!(wide.text().contains("asks for 5 replicas"), "{}", wide.text());
    assert!(!ask(&server, "GET", "/v1/keyspaces/wide", b"").text().contains("warnings"));
    assert_eq!(ask(&server, "PUT", "/v1/kv/or%2Fders/k", b"v").status, 204);
    assert_eq!(ask(&server, "DELETE", "/v1/keyspaces/or%2Fders", b"").status, 204);
    for reply in [
        ask(&server, "DELETE", "/v1/keyspaces/or%2Fders", b""),
        ask(&server, "GET", "/v1/keyspaces/or%2Fders", b""),
        ask_json(&server, "PATCH", "/v1/keyspaces/or%2Fders", change),
        ask(&server, "PUT", "/v1/kv/or%2Fders/k", b"v"),
    ] {
        assert_eq!((reply.status, reply.problem().as_str()), (404, "no-keyspace"));
    }
    for bad in ["", "[]", "{}", "{\"name\":5}", "{\"name\":\"a\",\"colour\":1}", "{\"name\":\"\"}"]
    {
        assert_eq!(ask_json(&server, "POST", "/v1/keyspaces", bad).status, 400, "{bad}");
    }
    assert_eq!(ask_json(&server, "PATCH", "/v1/keyspaces/0", "{}").problem(), "bad-request");
    let text =
        send(&server, "POST", "/v1/keyspaces", "Content-Type: text/plain\r\n", body.as_bytes());
    assert_eq!((text.status, text.problem().as_str()), (415, "not-json"));
    let huge = format!("{{\"name\":\"{}\"}}", "x".repeat(100_000));
    assert_eq!(ask_json(&server, "POST", "/v1/keyspaces", &huge).status, 413);
}

#[test]
fn health_status_and_metrics() {
    let server = serve(options());
    assert_eq!(ask(&server, "GET", "/health/live", b"").text(), "live\n");
    assert_eq!(ask(&server, "GET", "/health/ready", b"").text(), "ready\n");
    let status = ask(&server, "GET", "/v1/status", b"");
    assert_eq!(status.header("content-type"), Some("application/json"));
    assert!(status.text().contains("\"keys\":12345"));
    assert_eq!(ask(&server, "DELETE", "/v1/keyspaces/0", b"").status, 204);
    let unready = ask(&server, "GET", "/health/ready", b"");
    assert_eq!((unready.status, unready.problem().as_str()), (503, "not-ready"));
    assert_eq!(ask(&server, "GET", "/health/live", b"").status, 200);
    let metrics = ask(&server, "GET", "/metrics", b"");
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = metrics.text();
    assert!(text.contains("\ncarillon_writes_total 0\n"), "{text}");
    assert!(text.contains("\ncarillon_http_replies_total{status=\"5xx\"} 1\n"), "{text}");
}

#[test]
fn unknown_outcome_is_a_problem() {
    let server = serve(options());
    for (method, path, status, kind) in [
        ("GET", "/nothing", 404, "unknown-path"),
        ("GET", "/assets/none.js", 404, "unknown-path"),
        ("POST", "/", 405, "unknown-method"),
        ("GET", "/v1/kv", 404, "unknown-path"),
        ("GET", "/v1/kv/0", 400, "bad-request"),
        ("POST", "/v1/kv/0/k", 405, "unknown-method"),
        ("DELETE", "/v1/status", 405, "unknown-method"),
        ("GET", "/v1/kv/0/k?when=now", 400, "bad-request"),
        ("GET", "/v1/kv/0/k?at=now", 400, "bad-request"),
        ("GET", "/v1/kv/0/%zz", 400, "bad-request"),
        ("GET", "/v1/kv/%ff/k", 400, "bad-request"),
        ("GET", "/v1/kv/none/k", 404, "no-keyspace"),
        ("DELETE", "/v1/kv/0/k?ttl_ms=1", 400, "bad-request"),
        ("GET", "/v1/status?all=1", 400, "bad-request"),
        ("GET", "/v1/keyspaces?name=0", 400, "bad-request"),
        ("POST", "/v1/keyspaces?name=0", 400, "bad-request"),
        ("GET", "/v1/keyspaces/0?at=1", 400, "bad-request"),
        ("DELETE", "/v1/keyspaces/0?force", 400, "bad-request"),
    ] {
        let reply = ask(&server, method, path, b"");
        assert_eq!((reply.status, reply.problem().as_str()), (status, kind), "{method} {path}");
    }
    let long = format!("/v1/kv/0/{}", "k".repeat(101));
    assert_eq!(ask(&server, "GET", &long, b"").problem(), "key-too-long");
    let post = ask(&server, "POST", "/v1/kv/0/k", b"");
    assert_eq!(post.header("allow").map(|allow| allow.contains("PUT")), Some(true));
}

#[test]
fn pages_of_strangers_are_refused() {
    let server = serve(options());
    for path in ["/v1/kv/0/k", "/"] {
        let mut stream = connect(&server);
        let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example:7480\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let reply = read(&mut stream, true);
        assert_eq!((reply.status, reply.problem().as_str()), (403, "foreign-host"));
    }
}

#[test]
fn transactions_say_what_has_become_of_them() {
    let server = serve(options());
    let post = |path: &str, body: &str| ask_json(&server, "POST", path, body);
    let done = post("/v1/txn", "{}");
    assert_eq!((done.status, done.text().as_str()), (200, r#"{"succeeded":true,"results":[]}"#));
    let lost = post("/v1/txn", r#"{"then":[{"get":"lost"}]}"#);
    assert_eq!((lost.status, lost.problem().as_str()), (504, "unknown-outcome"));
    let conflict = post("/v1/txn", r#"{"then":[{"get":"a"}]}"#);
    assert_eq!((conflict.status, conflict.problem().as_str()), (409, "conflict"));
    assert!(conflict.text().contains(r"'a\\xff' has changed"), "{}", conflict.text());

    let begun = post("/v1/txn/begin", r#"{"timeout_ms":5}"#);
    assert_eq!((begun.status, begun.text().as_str()), (201, r#"{"id":"t1","timeout_ms":5}"#));
    let begun = post("/v1/txn/begin", "{}");
    assert!(begun.text().contains("10000"), "{}", begun.text());
    let run = post("/v1/txn/t1", r#"{"do":[{"get":"a"}]}"#);
    assert_eq!((run.status, run.text().as_str()), (200, r#"{"results":[{"value":null}]}"#));
    // Nobody knows how far it has come, so it is rolled back.
    let silent = post("/v1/txn/silent", r#"{"do":[{"get":"a"}]}"#);
    assert_eq!((silent.status, silent.problem().as_str()), (503, "no-answer"));
    assert!(silent.text().contains("rolled the transaction back"), "{}", silent.text());
    let unknown = post("/v1/txn/unknown/commit", "{}");
    assert_eq!((unknown.status, unknown.problem().as_str()), (504, "unknown-outcome"));
    let again = post("/v1/txn/again/commit", "{}");
    let text = again.text();
    assert!(again.status == 404 && text.contains("no-transaction"), "{text}");
    // It may be sent for the second time.
    assert!(text.contains(r#""outcome":"unknown""#) && text.contains("request_id"), "{text}");
    assert_eq!(ask(&server, "DELETE", "/v1/txn/t1", b"").status, 204);
    let reply = ask(&server, "DELETE", "/v1/txn/t2", b"");
    assert_eq!((reply.status, reply.problem().as_str()), (404, "no-transaction"));
    // A page of another origin cannot send JSON.
    for path in ["/v1/txn", "/v1/txn/begin", "/v1/txn/t1", "/v1/txn/t1/commit"] {
        let page = ask(&server, "POST", path, b"{}");
        assert_eq!((page.status, page.problem().as_str()), (415, "not-json"), "{path}");
        assert_eq!(ask(&server, "PUT", path, b"{}").status, 405, "{path}");
        let lookup = ask_json(&server, "POST", &format!("{path}?lookup=chord"), "{}");
        assert_eq!((lookup.status, lookup.problem().as_str()), (400, "bad-request"), "{path}");
        assert!(lookup.text().contains("none is known here"), "{}", lookup.text());
    }
    assert_eq!(ask(&server, "DELETE", "/v1/txn/t1?now=1", b"").status, 400);
}
