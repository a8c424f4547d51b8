//! Connections of slow, rude and numerous clients, and those of a server that stops.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::*;

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
pub fn is_closed(stream: &mut TcpStream) -> bool {
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
fn unread_values_take_bounded_memory() {
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
fn half_closed_connection_is_answered() {
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
