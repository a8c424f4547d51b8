//! The stream of events as bytes on a socket.

use std::io::{Read, Write};

use super::*;

fn stream_of(server: &Server, query: &str) -> TcpStream {
    let mut stream = connect(server);
    let head = format!("GET /v1/events?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// The body of a reply in chunks.
fn unchunked(mut rest: &[u8]) -> String {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("a chunk has a length");
        let length = std::str::from_utf8(&rest[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return String::from_utf8(body).unwrap();
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 2 + length + 2..];
    }
}

#[test]
fn stream_is_lines_of_json_and_ends() {
    let server = serve(options());
    let mut stream = connect(&server);
    let head = "GET /v1/events?from=5 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let split = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&reply[..split]).into_owned();
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    let own = r#""node":"0000000000000007","at":"327680","at_ms":5"#;
    let expected = [
        format!(r#"data: {{"type":"hello",{own},"version":1,"name":"n7","scope":"node","#),
        r#""cursor":"5","samples":0,"nodes":[{"node":"0000000000000007","name":"n7"}],"#.into(),
        "\"keep_alive_ms\":10000}\n\n".into(),
        format!(r#"data: {{"type":"gap",{own},"of":"0000000000000007","reason":"kept","#),
        "\"events\":3,\"exact\":true,\"samples\":0,\"from\":\"1\",\"to\":\"2\"}\n\n".into(),
        "id: 65536@0000000000000007\ndata: {\"type\":\"split\",\"shard\":1}\n\n".into(),
        "data: {\"type\":\"split\",\"shard\":1,\"late\":true}\n\n".into(),
        format!(r#"data: {{"type":"node",{own},"of":"0000000000000008","name":"n8","#),
        "\"state\":\"silent\"}\n\n".into(),
        format!(r#"data: {{"type":"end",{own},"reason":"stopping"}}"#) + "\n\n",
    ];
    let expected = expected.concat();
    assert_eq!(unchunked(&reply[split + 4..]), expected);
}

#[test]
fn viewer_that_does_not_read_is_reset() {
    let server = serve(options());
    let mut stream = stream_of(&server, "keyspace=flood");
    let mut head = [0; 1000];
    stream.read_exact(&mut head).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest).unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(rest.len() < 64 << 20, "{} bytes were held for it", rest.len());
    // Its seat is free again.
    let begun = std::time::Instant::now();
    server.stop(LONG);
    assert!(begun.elapsed() < LONG, "nothing was under way");
}

#[test]
fn viewer_that_reads_gets_all_that_comes() {
    let server = serve(options());
    let mut stream = stream_of(&server, "keyspace=flood");
    let mut bytes = vec![0; 8 << 20];
    stream.read_exact(&mut bytes).unwrap();
}

#[test]
fn streams_are_refused_with_reasons() {
    let server = serve(options());
    for (path, status, problem, detail) in [
        ("/v1/events?types=spilt", 400, "bad-request", "node-started"),
        ("/v1/events?from=x", 400, "bad-request", "no cursor"),
        ("/v1/events?keyspace=full", 503, "too-many-viewers", "32 viewers"),
    ] {
        let reply = ask(&server, "GET", path, b"");
        assert_eq!((reply.status, reply.problem().as_str()), (status, problem), "{path}");
        assert!(reply.text().contains(detail), "{}", reply.text());
    }
}

#[test]
fn page_of_another_site_reads_and_changes_nothing() {
    let server = serve(options());
    for (method, path, header, status) in [
        ("GET", "/v1/events", "Origin: http://evil.example", 403),
        ("GET", "/v1/events", "Origin: null", 403),
        ("GET", "/v1/events", "Sec-Fetch-Site: cross-site", 403),
        ("GET", "/v1/events", "Origin: http://localhost:5173", 403),
        ("GET", "/v1/events", "Origin: http://localhost", 200),
        ("PUT", "/v1/kv/0/k", "Origin: http://evil.example", 403),
        ("PUT", "/v1/kv/0/k", "Origin: http://127.0.0.1:5173", 403),
        ("PUT", "/v1/kv/0/k", "Origin: http://localhost", 204),
    ] {
        let mut stream = connect(&server);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert_eq!(line, format!("HTTP/1.1 {status}"), "{method} {path} {header}");
    }
}

#[test]
fn stopping_server_does_not_wait_for_a_stream_without_an_end() {
    let server = serve(options());
    let mut stream = stream_of(&server, "keyspace=quiet");
    let mut head = [0; 100];
    stream.read_exact(&mut head).unwrap();
    let begun = std::time::Instant::now();
    server.stop(Duration::from_millis(300));
    assert!(begun.elapsed() < Duration::from_secs(5), "the drain is bounded");
}
