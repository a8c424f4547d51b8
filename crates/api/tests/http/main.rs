//! HTTP as bytes on a socket: what is asked, what is answered, and what misbehaving clients meet.

#[path = "../fake/mod.rs"]
mod fake;

mod bodies;
mod preconditions;
mod refusals;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
        let gone = ask(&server, "DELETE", path, b"");
        assert_eq!((gone.status, gone.problem().as_str()), (404, "nil"));
        let gone = ask(&server, "GET", path, b"");
        assert_eq!((gone.status, gone.problem().as_str()), (404, "nil"));
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
fn puts_have_conditions_and_ends() {
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
    for bad in ["dry=maybe", "dry", "wet=true"] {
        let bad = ask(&server, "GET", &format!("/v1/decisions?{bad}"), b"");
        assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-request"));
    }
    let bad = ask(&server, "GET", "/v1/nodes?all", b"");
    assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-request"));
}

#[test]
fn shards_are_told_to_be_cut() {
    let server = serve(options());
    let split = |shard: &str, body: &str| {
        ask_json(&server, "POST", &format!("/v1/shards/{shard}/split"), body)
    };
    for (body, at) in [("{}", 1024), (r#"{"at":null}"#, 1024), (r#"{"at":700}"#, 700)] {
        let cut = split("1", body);
        let told: serde_json::Value = serde_json::from_slice(&cut.body).unwrap();
        assert_eq!(cut.status, 202);
        assert_eq!(told, serde_json::json!({ "shard": 1, "right": 9, "at": at }));
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
fn shards_are_told_to_take_others_in() {
    let server = serve(options());
    let merge = |shard: &str, body: &str| {
        ask_json(&server, "POST", &format!("/v1/shards/{shard}/merge"), body)
    };
    let merged = merge("1", "{}");
    let told: serde_json::Value = serde_json::from_slice(&merged.body).unwrap();
    assert_eq!(merged.status, 202);
    assert_eq!(told, serde_json::json!({ "shard": 1, "right": 9, "moves": true }));
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
fn the_level_is_shown_and_raised() {
    let server = serve(options());
    let reply = ask(&server, "GET", "/v1/level", b"");
    let told: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!((&told["level"], &told["speaks"]), (&1.into(), &serde_json::json!([1, 2])));
    assert_eq!(
        told["nodes"][2],
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
fn nodes_are_told_to_stand_otherwise() {
    let server = serve(options());
    let act = |node: &str, action: &str| {
        ask_json(&server, "POST", &format!("/v1/nodes/{node}/{action}"), "{}")
    };
    let standing = |at: usize| {
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
        assert_eq!(standing(0), then);
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
    assert_eq!(ask(&server, "GET", "/v1/nodes/n1/drain", b"").problem(), "unknown-method");
    assert_eq!(standing(0), "draining");
}

#[test]
fn what_nobody_knows_is_a_problem() {
    let server = serve(options());
    for (method, path, status, kind) in [
        ("GET", "/", 404, "unknown-path"),
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
    let mut stream = connect(&server);
    stream.write_all(b"GET /v1/kv/0/k HTTP/1.1\r\nHost: evil.example:7480\r\n\r\n").unwrap();
    let reply = read(&mut stream, true);
    assert_eq!((reply.status, reply.problem().as_str()), (421, "foreign-host"));
}

#[test]
fn bodies_are_bounded_announced_or_not() {
    let server = serve(options());
    let longest = vec![7; 1 << 20];
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/k", &longest).status, 204);
    assert_eq!(ask(&server, "GET", "/v1/kv/0/k", b"").body, longest);

    let mut stream = connect(&server);
    let head = "PUT /v1/kv/0/k HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 99999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let reply = read(&mut stream, true);
    assert_eq!((reply.status, reply.problem().as_str()), (413, "value-too-long"));

    let mut stream = connect(&server);
    let head = "PUT /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}5\r\nhello\r\n0\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(read(&mut stream, true).status, 204);
    stream.write_all(format!("{head}200000\r\n").as_bytes()).unwrap();
    // The server may close before it has read everything.
    let _closed = stream.write_all(&vec![b'x'; 0x10_0001]);
    let reply = read(&mut stream, true);
    assert_eq!((reply.status, reply.problem().as_str()), (413, "value-too-long"));
    assert_eq!(ask(&server, "GET", "/v1/kv/0/k", b"").text(), "hello");
}

/// Whether the server closes within a time far below the test's own.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn slow_clients_are_closed() {
    let short = Duration::from_millis(150);
    let options =
        Options { header_timeout: short, body_timeout: short, stall_timeout: short, ..options() };
    let server = serve(options);

    let mut silent = connect(&server);
    assert!(is_closed(&mut silent), "nothing sent");
    let mut half = connect(&server);
    half.write_all(b"GET /health/live HTTP/1.1\r\nHo").unwrap();
    assert!(is_closed(&mut half), "half a head");
    let mut idle = connect(&server);
    idle.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(read(&mut idle, true).status, 200);
    assert!(is_closed(&mut idle), "idle after a reply");
    let mut body = connect(&server);
    body.write_all(b"PUT /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhel")
        .unwrap();
    let reply = read(&mut body, true);
    assert_eq!((reply.status, reply.problem().as_str()), (408, "body-timeout"));
}

/// Somebody who does not read the long reply to a short request.
#[test]
fn a_client_that_does_not_read_is_closed() {
    let stall_timeout = Duration::from_millis(150);
    let server = serve(Options { stall_timeout, value_bytes_max: 32 << 20, ..options() });
    let longest = vec![7; 32 << 20];
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/k", &longest).status, 204);
    let mut deaf = connect(&server);
    deaf.write_all(b"GET /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let begin = Instant::now();
    let text = loop {
        std::thread::sleep(Duration::from_millis(50));
        let text = ask(&server, "GET", "/metrics", b"").text();
        if text.contains("\ncarillon_http_connections 1\n") || begin.elapsed() > LONG {
            break text;
        }
    };
    assert!(text.contains("\ncarillon_http_connections 1\n"), "only this one is left: {text}");
}

/// Many who do not read the long replies to short requests: together they hold four values.
#[test]
fn values_that_nobody_reads_take_a_bounded_room() {
    let server = serve(Options { value_bytes_max: 32 << 20, ..options() });
    let longest = vec![7; 32 << 20];
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/k", &longest).status, 204);
    let deaf = || {
        let mut stream = connect(&server);
        stream.write_all(b"GET /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        read(&mut stream, false).status
    };
    let mut first: Vec<TcpStream> = Vec::new();
    for _ in 0..4 {
        let mut stream = connect(&server);
        stream.write_all(b"GET /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(read(&mut stream, false).status, 200);
        first.push(stream);
    }
    assert_eq!((deaf(), ask(&server, "GET", "/v1/kv/0/none", b"").status), (503, 404));
    let refused = ask(&server, "GET", "/v1/kv/0/k", b"");
    assert_eq!((refused.status, refused.problem().as_str()), (503, "busy"));
    let mut value = vec![0; 32 << 20];
    first[0].read_exact(&mut value).unwrap();
    let begin = Instant::now();
    let again = loop {
        let again = ask(&server, "GET", "/v1/kv/0/k", b"");
        if again.status == 200 || begin.elapsed() > LONG {
            break again;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((again.status, again.body.len()), (200, 32 << 20));
}

/// A client that has sent all says so, and waits for its reply.
#[test]
fn who_has_ended_its_side_is_answered() {
    let server = serve(options());
    for (method, status) in [("PUT", 504), ("GET", 503)] {
        let mut stream = connect(&server);
        let head = format!(
            "{method} /v1/kv/0/silent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read(&mut stream, true).status, status, "{method}");
    }
}

#[test]
fn garbage_meets_400_and_the_next_client_is_served() {
    let server = serve(options());
    for garbage in [
        &b"\x00\x01\x02\r\n\r\n"[..],
        b"*1\r\n$4\r\nPING\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ] {
        let mut stream = connect(&server);
        stream.write_all(garbage).unwrap();
        let reply = read(&mut stream, true);
        assert!((400..500).contains(&reply.status), "{}", reply.head);
    }
    let mut endless = connect(&server);
    let line = format!("X-{}: 1\r\n", "y".repeat(1000));
    let _closed = endless
        .write_all(b"GET / HTTP/1.1\r\n")
        .and_then(|()| (0..1000).try_for_each(|_| endless.write_all(line.as_bytes())));
    assert!(is_closed(&mut endless));
    assert_eq!(ask(&server, "GET", "/health/live", b"").status, 200);
}

#[test]
fn further_connections_wait_for_a_seat() {
    let server = serve(Options { connections_max: 2, ..options() });
    let (one, two) = (connect(&server), connect(&server));
    let mut three = connect(&server);
    three.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    three.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(three.read(&mut [0]).is_err(), "nobody answers yet");
    three.set_read_timeout(Some(LONG)).unwrap();
    drop((one, two));
    assert_eq!(read(&mut three, true).status, 200);
}

#[test]
fn stopping_answers_what_is_under_way_and_closes_the_rest() {
    let server = serve(Options { request_timeout: Duration::from_millis(500), ..options() });
    let mut idle = connect(&server);
    idle.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(read(&mut idle, true).status, 200);
    let mut busy = connect(&server);
    busy.write_all(b"DELETE /v1/kv/0/silent HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let (address, begin) = (server.address(), Instant::now());
    server.stop(LONG);
    assert!(begin.elapsed() < LONG / 2);
    assert_eq!(read(&mut busy, true).status, 504);
    assert!(is_closed(&mut idle));
    assert!(TcpStream::connect(address).is_err());
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
    let said = again.text();
    assert!(again.status == 404 && said.contains("no-transaction"), "{said}");
    // It may be sent for the second time.
    assert!(said.contains(r#""outcome":"unknown""#) && said.contains("request_id"), "{said}");
    assert_eq!(ask(&server, "DELETE", "/v1/txn/t1", b"").status, 204);
    let gone = ask(&server, "DELETE", "/v1/txn/t2", b"");
    assert_eq!((gone.status, gone.problem().as_str()), (404, "no-transaction"));
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
