//! HTTP of a real node: preconditions judged at the moment of the write, names of keyspaces, and
//! what a keyspace may be.

use std::ops::Deref;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use client::http::{Reply, Request};
use harness::node::{self, TEST_TIMEOUT};

const BINARY: &str = env!("CARGO_BIN_EXE_carillon");

/// A node of its own directory, killed and removed when it is dropped.
struct Node(node::Node);

impl Deref for Node {
    type Target = node::Node;

    fn deref(&self) -> &node::Node {
        &self.0
    }
}

impl Node {
    fn start(name: &str) -> Self {
        Self(node::Node::alone_and_ready(BINARY, name, &["--threads", "2"]))
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        let headers: Vec<(&str, &str)> =
            headers.lines().filter_map(|line| line.split_once(": ")).collect();
        let request = Request { headers: &headers, body, ..Request::write(method, path) };
        self.client().send(&request).unwrap()
    }

    fn json(&self, method: &str, path: &str, body: &str) -> Reply {
        let body = body.as_bytes();
        let request = Request { json: true, body, ..Request::write(method, path) };
        self.client().send(&request).unwrap()
    }

    fn put_if(&self, headers: &str, value: &str) -> u16 {
        self.ask("PUT", "/v1/kv/0/k", headers, value.as_bytes()).status
    }

    /// The key's tag and value.
    fn get(&self) -> (String, String) {
        let reply = self.ask("GET", "/v1/kv/0/k", "", b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
        (reply.header("etag").unwrap().to_owned(), reply.text())
    }
}

#[test]
fn node_judges_preconditions() {
    let node = Node::start("preconditions");
    assert_eq!(node.put_if("If-Match: *\r\n", "0"), 412, "there is no value");
    assert_eq!(node.put_if("If-Match: \"1\"\r\n", "0"), 412);
    assert_eq!(node.put_if("If-None-Match: \"1\"\r\n", "1"), 204);
    let (old, _) = node.get();
    assert_eq!(node.put_if("If-None-Match: *\r\n", "no"), 412);
    assert_eq!(node.put_if("If-Match: *\r\n", "2"), 204);
    let (new, value) = node.get();
    assert_eq!(value, "2");
    assert_ne!(old, new);
    for headers in [
        format!("If-Match: {old}\r\n"),
        format!("If-Match: W/{new}\r\n"),
        format!("If-Match: {old}, \"7\"\r\n"),
        format!("If-None-Match: {new}\r\n"),
        format!("If-None-Match: \"7\", W/{new}\r\n"),
        format!("If-Match: {new}\r\nIf-None-Match: *\r\n"),
    ] {
        assert_eq!(node.put_if(&headers, "no"), 412, "{headers}");
        assert_eq!(node.ask("DELETE", "/v1/kv/0/k", &headers, b"").status, 412, "{headers}");
    }
    assert_eq!(node.get(), (new.clone(), "2".into()));
    assert_eq!(node.put_if(&format!("If-Match: {old}, {new}\r\n"), "3"), 204);
    assert_eq!(node.put_if(&format!("If-None-Match: {new}\r\n"), "4"), 204);
    // A new end is a new version.
    let (before, _) = node.get();
    assert_eq!(node.ask("PUT", "/v1/kv/0/k?ttl_ms=600000", "", b"4").status, 204);
    let (now, _) = node.get();
    assert_ne!(before, now);
    let same = node.ask("GET", "/v1/kv/0/k", &format!("If-None-Match: {now}\r\n"), b"");
    assert_eq!((same.status, same.text().as_str()), (304, ""));
    let if_current = format!("If-Match: {now}\r\n");
    assert_eq!(node.ask("DELETE", "/v1/kv/0/k", &if_current, b"").status, 204);
    assert_eq!(node.ask("DELETE", "/v1/kv/0/k", &if_current, b"").status, 404);
    assert_eq!(node.put_if(&if_current, "5"), 412);
    // Also where the keyspace is made by the write, and where values are long.
    let made = node.ask("PUT", "/v1/kv/7/k", "If-None-Match: \"1\"\r\n", b"1");
    assert_eq!(made.status, 204, "{}", made.text());
    let long = vec![b'x'; 40 << 20];
    assert_eq!(node.ask("PUT", "/v1/kv/0/long", "", &long).status, 204);
    let head = node.ask("HEAD", "/v1/kv/0/long", "", b"");
    let tag = head.header("etag").unwrap();
    let put = node.ask("PUT", "/v1/kv/0/long", &format!("If-Match: \"1\", {tag}\r\n"), &long);
    assert_eq!(put.status, 204, "{}", put.text());
}

/// Each of many writers that go by what they have read changes it once, and none is lost.
#[test]
fn conditional_writers_lose_no_update() {
    const WRITERS: u64 = 4;
    const EACH: u64 = 25;
    let node = Node::start("race");
    let start = Barrier::new(WRITERS as usize);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (node, start) = (&node, &start);
            scope.spawn(move || {
                start.wait();
                let mut done = 0;
                let begun = Instant::now();
                while done < EACH {
                    assert!(begun.elapsed() < TEST_TIMEOUT, "{done} of {EACH}");
                    let reply = node.ask("GET", "/v1/kv/0/n", "", b"");
                    let (headers, number) = match reply.status {
                        404 => ("If-None-Match: *".to_owned(), 0),
                        _ => {
                            let tag = reply.header("etag").unwrap();
                            // By a list, the version is read first; by one tag it is not.
                            let list = if writer % 2 == 0 { ", \"1\"" } else { "" };
                            (format!("If-Match: {tag}{list}"), reply.text().parse::<u64>().unwrap())
                        }
                    };
                    let value = (number + 1).to_string();
                    let headers = format!("{headers}\r\n");
                    let put = node.ask("PUT", "/v1/kv/0/n", &headers, value.as_bytes());
                    match put.status {
                        204 => done += 1,
                        412 | 503 => {}
                        other => panic!("{other}: {}", put.text()),
                    }
                }
            });
        }
    });
    let sum = node.ask("GET", "/v1/kv/0/n", "", b"").text();
    assert_eq!(sum, (WRITERS * EACH).to_string());
}

#[test]
fn ambiguous_keyspace_names_are_refused_by_every_client() {
    let node = Node::start("names");
    for name in [".", "..", "007", "16", "00"] {
        let made = node.json("POST", "/v1/keyspaces", &format!("{{\"name\":\"{name}\"}}"));
        assert_eq!(made.status, 400, "{name}: {}", made.text());
        assert!(made.text().contains("problem:bad-keyspace"), "{}", made.text());
        let (code, output) = node.carillon(&["keyspace", "create", name]);
        assert!(code != 0 && output.contains("bad keyspace name"), "{name}: {output}");
        let path = format!("/v1/kv/{}/k", name.replace('.', "%2E"));
        assert_eq!(node.ask("PUT", &path, "", b"1").status, 404, "{name}");
    }
    for name in ["15", "...", "a7"] {
        let made = node.json("POST", "/v1/keyspaces", &format!("{{\"name\":\"{name}\"}}"));
        assert_eq!(made.status, 201, "{name}: {}", made.text());
    }
}

#[test]
fn http_and_command_line_accept_same_retention() {
    let node = Node::start("retention");
    // Ten years and not a millisecond more.
    let max = 10 * 366 * 24 * 3_600_000u64;
    for (retention, is_good) in [(0, true), (max, true), (max + 1, false)] {
        let name = format!("by-http-{retention}");
        let body = format!("{{\"name\":\"{name}\",\"retention_ms\":{retention}}}");
        let status = node.json("POST", "/v1/keyspaces", &body).status;
        assert_eq!(status, if is_good { 201 } else { 400 }, "{retention}");
        let (name, retention) = (format!("by-cli-{retention}"), retention.to_string());
        let made = node.carillon(&["keyspace", "create", &name, "--retention", &retention]);
        assert_eq!(made.0 == 0, is_good, "{retention}: {}", made.1);
    }
}

#[test]
fn refused_operation_names_its_list() {
    let node = Node::start("lists");
    assert_eq!(node.put_if("", "no number"), 204);
    let increment = r#"{"increment":{"key":"k"}}"#;
    for (list, exists) in [("then", true), ("else", false)] {
        let compare = format!(r#"[{{"key":"k","exists":{exists}}}]"#);
        let body = format!(r#"{{"compare":{compare},"{list}":[{{"get":"k"}},{increment}]}}"#);
        let reply = node.json("POST", "/v1/txn", &body);
        assert_eq!(reply.status, 409, "{}", reply.text());
        assert!(reply.text().contains(&format!("operation 2 of {list}: ")), "{}", reply.text());
    }
}

#[test]
fn conflict_by_expiry_does_not_blame_another_client() {
    let node = Node::start("expiry");
    assert_eq!(node.ask("PUT", "/v1/kv/0/k?ttl_ms=300", "", b"1").status, 204);
    let begun = node.json("POST", "/v1/txn/begin", "{}").text();
    let id = begun.split('"').nth(3).unwrap();
    let path = format!("/v1/txn/{id}");
    let body = r#"{"do":[{"get":"k"},{"put":{"key":"other","value":"1"}}]}"#;
    let run = node.json("POST", &path, body);
    assert_eq!(run.status, 200, "{}", run.text());
    thread::sleep(Duration::from_millis(600));
    let commit = node.json("POST", &format!("{path}/commit"), "{}");
    assert_eq!(commit.status, 409, "{}", commit.text());
    assert!(commit.text().contains("or its value expired"), "{}", commit.text());
}
