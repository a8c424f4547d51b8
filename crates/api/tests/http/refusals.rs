//! Texts of refusals: by handlers, and by the HTTP library before it calls one.

use std::io::{Read, Write};

use crate::{ask, ask_json, connect, options, read, send, serve};

/// The reply to bytes that are no request, or none that can be answered.
fn raw(server: &api::http::Server, request: &[u8]) -> crate::Reply {
    let mut stream = connect(server);
    let _sent = stream.write_all(request);
    let reply = read(&mut stream, true);
    let mut rest = Vec::new();
    let _end = stream.read_to_end(&mut rest);
    assert_eq!(rest, b"", "nothing stands behind the reply");
    reply
}

#[test]
fn what_the_library_refuses_is_a_problem_too() {
    let server = serve(options());
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(70_000));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "a: b\r\n".repeat(1000));
    for (request, status, kind) in [
        (&b"\x00\x01\x02\r\n\r\n"[..], 400, "bad-request"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "bad-request"),
        (b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad-request"),
        (
            b"PUT /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            400,
            "bad-request",
        ),
        (long.as_bytes(), 414, "uri-too-long"),
        (many.as_bytes(), 431, "head-too-long"),
    ] {
        let reply = raw(&server, request);
        let what = String::from_utf8_lossy(&request[..request.len().min(40)]).into_owned();
        assert_eq!((reply.status, reply.problem().as_str()), (status, kind), "{what}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{what}");
        assert_eq!(reply.header("connection"), Some("close"), "{what}");
    }
    let text = ask(&server, "GET", "/metrics", b"").text();
    assert!(text.contains("\ncarillon_http_replies_total{status=\"4xx\"} 6\n"), "{text}");
}

/// A value that looks like such a refusal is answered as it is, behind others on one connection.
#[test]
fn a_value_that_looks_like_a_refusal_stays_as_it_is() {
    let server = serve(options());
    let value = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/k", value).status, 204);
    let mut stream = connect(&server);
    for _ in 0..3 {
        stream.write_all(b"GET /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(read(&mut stream, true).body, value);
    }
    stream.write_all(b"\x00\r\n\r\n").unwrap();
    assert_eq!(read(&mut stream, true).problem(), "bad-request");
}

#[test]
fn names_in_paths_that_are_not_utf_8_are_problems() {
    let server = serve(options());
    for (method, path) in [
        ("POST", "/v1/txn/%ff"),
        ("POST", "/v1/txn/%ff/commit"),
        ("DELETE", "/v1/txn/%ff"),
        ("POST", "/v1/nodes/%ff/drain"),
        ("GET", "/v1/keyspaces/%ff"),
    ] {
        let reply = ask_json(&server, method, path, "{}");
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-request"), "{path}");
    }
}

#[test]
fn a_request_of_http_1_1_names_one_host() {
    let server = serve(options());
    for headers in ["", "Host: localhost\r\nHost: localhost\r\n", "Host: a b\r\n"] {
        let reply = raw(
            &server,
            format!("GET /health/live HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").as_bytes(),
        );
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-request"), "{headers}");
        assert!(reply.text().contains("Host"), "{}", reply.text());
    }
    assert_eq!(raw(&server, b"GET /health/live HTTP/1.0\r\n\r\n").text(), "live\n");
}

#[test]
fn numbers_are_digits() {
    let server = serve(options());
    for (method, path) in [
        ("PUT", "/v1/kv/0/k?ttl_ms=+5"),
        ("PUT", "/v1/kv/0/k?ttl_ms=%2B5"),
        ("GET", "/v1/kv/0/k?at=+5"),
        ("GET", "/v1/kv/0/k?at=+5ms"),
        ("GET", "/v1/kv/0/k?at=1700000000000.+1"),
        ("GET", "/v1/kv/0/k?stale=+5"),
        ("GET", "/v1/shards?limit=+5"),
        ("GET", "/v1/shards?after=+5"),
    ] {
        let reply = ask(&server, method, path, b"");
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-request"), "{path}");
    }
    assert_eq!(ask_json(&server, "POST", "/v1/shards/+1/split", "{}").status, 400);
    for op in [
        r#"{"compare":[{"key":"a","version":"+5"}]}"#,
        r#"{"then":[{"increment":{"key":"a","by":"+5"}}]}"#,
    ] {
        assert_eq!(ask_json(&server, "POST", "/v1/txn", op).problem(), "bad-request", "{op}");
    }
}

#[test]
fn a_time_without_its_unit_is_asked_about() {
    let server = serve(options());
    for (at, meant) in [("1795675401288", "1795675401288ms"), ("1795675401", "1795675401000ms")] {
        let reply = ask(&server, "GET", &format!("/v1/kv/0/k?at={at}"), b"");
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-request"), "{at}");
        let text = reply.text();
        assert!(text.contains(&format!("did you mean {meant}?")), "{text}");
    }
}

#[test]
fn unknown_path_lists_all_paths() {
    let server = serve(options());
    for path in ["/v1/txn/t1/x", "/v1/txn/t1/commit/now", "/v2", "/v1/nodes/n1/explode"] {
        let reply = send(&server, "POST", path, "Content-Type: application/json\r\n", b"{}");
        assert_eq!((reply.status, reply.problem().as_str()), (404, "unknown-path"), "{path}");
        let text = reply.text();
        for known in
            ["/v1/txn,", "/v1/txn/begin", "/v1/txn/{id}", "/v1/txn/{id}/commit", "/metrics"]
        {
            assert!(text.contains(known), "{known} is not in {text}");
        }
    }
}
