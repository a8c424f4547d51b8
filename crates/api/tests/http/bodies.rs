//! Bodies of requests: no body blocks others, and a refused one still gets its answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use api::http::{Options, Server};

use crate::connections::is_closed;
use crate::{LONG, ask, ask_json, connect, options, read, send, serve};

/// As nodes have it by default: all bodies together have room for four of these.
const VALUE_BYTES_MAX: u64 = 16 << 20;

fn large() -> Options {
    Options { value_bytes_max: VALUE_BYTES_MAX, ..options() }
}

/// Begins uploads of the longest values, and sends so much of each.
fn unfinished(server: &Server, count: usize, head: &str, part: &[u8]) -> Vec<TcpStream> {
    let begin = |_| {
        let mut stream = connect(server);
        let request = format!("PUT /v1/kv/0/x HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(part).unwrap();
        stream
    };
    (0..count).map(begin).collect()
}

/// Small requests of all kinds are answered while `held` are unfinished.
fn others_write(server: &Server) {
    let begin = Instant::now();
    assert_eq!(ask(server, "PUT", "/v1/kv/0/small", b"1").status, 204);
    assert_eq!(ask_json(server, "POST", "/v1/txn", "{}").status, 200);
    assert_eq!(ask_json(server, "POST", "/v1/keyspaces", r#"{"name":"made"}"#).status, 201);
    assert_eq!(ask_json(server, "POST", "/v1/nodes/n1/cordon", "{}").status, 200);
    let chunked = send(
        server,
        "PUT",
        "/v1/kv/0/chunked",
        "Transfer-Encoding: chunked\r\nX: ",
        b"5\r\nhello\r\n0\r\n\r\n",
    );
    assert!(chunked.status < 500, "{}", chunked.head);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn announced_uploads_that_send_nothing_stop_nobody() {
    let server = serve(large());
    let _held = unfinished(&server, 40, &format!("Content-Length: {VALUE_BYTES_MAX}"), b"");
    others_write(&server);
    let large = vec![7; VALUE_BYTES_MAX as usize];
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/large", &large).status, 204);
}

#[test]
fn chunked_uploads_of_one_byte_stop_nobody() {
    let server = serve(large());
    let _held = unfinished(&server, 40, "Transfer-Encoding: chunked", b"1\r\nx\r\n");
    others_write(&server);
    let large = vec![7; VALUE_BYTES_MAX as usize];
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/large", &large).status, 204);
}

/// All room is taken by bytes that have come: large bodies are refused soon, small ones are not.
#[test]
fn large_bodies_are_refused_soon_and_small_ones_are_taken_when_there_is_no_room() {
    let server = serve(Options { body_timeout: LONG, ..large() });
    let part = vec![7; VALUE_BYTES_MAX as usize - 1];
    let held = unfinished(&server, 4, &format!("Content-Length: {VALUE_BYTES_MAX}"), &part);
    thread::sleep(Duration::from_millis(200));
    others_write(&server);
    let begin = Instant::now();
    let reply = ask(&server, "PUT", "/v1/kv/0/large", &part);
    assert_eq!((reply.status, reply.problem().as_str()), (503, "busy"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert!(reply.text().contains("bodies"), "{}", reply.text());
    // When they are gone there is room again.
    drop(held);
    let again = Instant::now();
    while ask(&server, "PUT", "/v1/kv/0/large", &part).status != 204 {
        assert!(again.elapsed() < LONG, "no room comes back");
    }
}

/// Bytes that come one by one are no way to stay.
#[test]
fn a_body_that_stalls_or_trickles_times_out() {
    let short = Duration::from_millis(300);
    let server = serve(Options { body_timeout: short, ..options() });
    let mut stalls = connect(&server);
    let head = "PUT /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n";
    stalls.write_all(head.as_bytes()).unwrap();
    stalls.write_all(b"hel").unwrap();
    let reply = read(&mut stalls, true);
    assert_eq!((reply.status, reply.problem().as_str()), (408, "body-timeout"));
    assert!(is_closed(&mut stalls));
    let mut trickles = connect(&server);
    trickles.write_all(head.as_bytes()).unwrap();
    let mut writer = trickles.try_clone().unwrap();
    let trickle = thread::spawn(move || {
        for _ in 0..49 {
            thread::sleep(Duration::from_millis(50));
            if writer.write_all(b"x").is_err() {
                break;
            }
        }
    });
    let reply = read(&mut trickles, true);
    assert_eq!((reply.status, reply.problem().as_str()), (408, "body-timeout"));
    trickle.join().unwrap();
}

/// As most clients do it: the whole request first, then the answer.
fn send_all_then_read(server: &Server, request: &[u8]) -> String {
    let mut stream = connect(server);
    stream.write_all(request).expect("the server reads what it refuses");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("the answer comes before the end");
    String::from_utf8(reply).unwrap()
}

#[test]
fn a_client_that_sends_all_first_receives_why_its_body_was_refused() {
    let server = serve(options());
    let body = vec![b'x'; 24 << 20];
    let announced = format!("Content-Length: {}", body.len());
    let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    let json = "Content-Type: application/json\r\n";
    for (path, head, body, status, kind) in [
        ("PUT /v1/kv/0/k", announced.clone(), &body, 413, "value-too-long"),
        ("PUT /v1/kv/0/k", "Transfer-Encoding: chunked".into(), &chunk, 413, "value-too-long"),
        ("POST /v1/txn", format!("{json}{announced}"), &body, 413, "body-too-long"),
        ("POST /v1/keyspaces", format!("{json}{announced}"), &body, 413, "body-too-long"),
        // Others who refuse a request without having read its body.
        ("POST /v1/keyspaces", announced.clone(), &body, 415, "not-json"),
        ("PUT /nowhere", announced.clone(), &body, 404, "unknown-path"),
        ("PUT /v1/kv/0/k?if=maybe", announced.clone(), &body, 400, "bad-request"),
    ] {
        let head = format!("{path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n");
        let reply = send_all_then_read(&server, &[head.as_bytes(), body].concat());
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {reply}");
        assert!(reply.contains(&format!("problem:{kind}\"")), "{path}: {reply}");
    }
    assert_eq!(ask(&server, "GET", "/health/live", b"").status, 200);
}

/// Who closes its side, or goes on for ever, does not keep the connection.
#[test]
fn what_is_read_of_a_refused_body_is_bounded() {
    let server = serve(options());
    let mut stream = connect(&server);
    let head = "PUT /v1/kv/0/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let reply = read(&mut stream, true);
    assert_eq!((reply.status, reply.header("connection")), (413, Some("close")));
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(is_closed(&mut stream));
    let mut endless = connect(&server);
    endless.write_all(head.as_bytes()).unwrap();
    let piece = vec![b'x'; 1 << 20];
    let begin = Instant::now();
    let sent = (0..4096).take_while(|_| endless.write_all(&piece).is_ok()).count();
    assert!(sent < 4096 && begin.elapsed() < 3 * LONG, "{sent} MiB were taken");
}

/// Programs take `.` and `..` out of paths, and would ask for another key.
#[test]
fn a_key_may_stand_in_the_query() {
    let server = serve(options());
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/?key=.&ttl_ms=60000", b"dot").status, 204);
    assert_eq!(ask(&server, "PUT", "/v1/kv/0/", b"empty").status, 204);
    assert_eq!(ask(&server, "GET", "/v1/kv/0/?key=.", b"").text(), "dot");
    assert_eq!(ask(&server, "GET", "/v1/kv/0/%2E", b"").text(), "dot");
    assert_eq!(ask(&server, "DELETE", "/v1/kv/0/?key=%2E", b"").status, 204);
    assert_eq!(ask(&server, "GET", "/v1/kv/0/?key=.", b"").status, 404);
    assert_eq!(ask(&server, "GET", "/v1/kv/0/", b"").text(), "empty");
    for path in ["/v1/kv/0/a?key=b", "/v1/kv/0/?key=a&key=b", "/v1/kv/0/?key=%2"] {
        assert_eq!(ask(&server, "GET", path, b"").problem(), "bad-request", "{path}");
    }
}
