//! The HTTP client against scripted peers: what it sends, and the error of each failure.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use client::http::*;

/// A peer that takes one connection, reads what comes, sends `reply` and closes. Gives its address
/// and what it read.
fn peer(reply: &'static [u8]) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let read = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut seen = Vec::new();
        let _until_silent = stream.read_to_end(&mut seen);
        stream.write_all(reply).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        String::from_utf8(seen).unwrap()
    });
    (Client::new(&address).unwrap(), read)
}

fn problem(status: u16, kind: &str, outcome: &str) -> &'static [u8] {
    let body = format!(
        "{{\"type\":\"urn:carillon:problem:{kind}\",\"title\":\"T\",\"status\":{status},\
         \"detail\":\"it happened\",\"outcome\":\"{outcome}\",\"remedy\":\"Do this.\"}}"
    );
    let length = body.len();
    let head = "Content-Type: application/problem+json";
    format!("HTTP/1.1 {status} X\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}")
        .leak()
        .as_bytes()
}

#[test]
fn a_put_is_these_bytes() {
    let (client, read) = peer(b"HTTP/1.1 204 No Content\r\n\r\n");
    let options = PutOptions { ttl_ms: Some(9), when: PutIf::Present };
    assert!(client.put("a b", b"k/\xff", b"value", &options).unwrap());
    let seen = read.join().unwrap();
    assert!(
        seen.starts_with("PUT /v1/kv/a%20b/k%2F%FF?if=present&ttl_ms=9 HTTP/1.1\r\nHost: 127.")
    );
    assert!(seen.ends_with("\r\nContent-Length: 5\r\n\r\nvalue"), "{seen}");
}

#[test]
fn get_distinguishes_value_nil_and_nil_yet() {
    let (client, read) = peer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nCarillon-Timestamp: 77\r\n\
          Carillon-Expires-At-Ms: 5\r\n\r\na\0\xff",
    );
    let got = client.get("0", b"k", Some("5ms")).unwrap();
    let value = GetResult::Value {
        value: b"a\0\xff".to_vec(),
        timestamp: Some(77),
        expires_at_ms: Some(5),
    };
    assert_eq!(got, value);
    assert!(read.join().unwrap().starts_with("GET /v1/kv/0/k?at=5ms HTTP/1.1\r\n"));
    let (client, _) = peer(problem(404, "nil", "not done"));
    assert_eq!(client.get("0", b"k", None).unwrap(), GetResult::Nil);
    let (client, _) = peer(problem(404, "nil-yet", "not done"));
    assert_eq!(client.get("0", b"k", None).unwrap(), GetResult::NilYet);
    let (client, _) = peer(problem(404, "no-keyspace", "not done"));
    assert!(matches!(client.get("0", b"k", None), Err(ClientError::Refused(_))));
}

#[test]
fn every_failure_has_its_kind() {
    let put = |client: Client| client.put("0", b"k", b"v", &PutOptions::default());

    let (client, _) = peer(problem(504, "unknown-outcome", "unknown"));
    assert!(matches!(put(client), Err(ClientError::Unknown { .. })));
    let (client, _) = peer(b"HTTP/1.1 204 No Con");
    let broken = put(client).unwrap_err();
    assert_eq!(broken.outcome(), Outcome::Unknown, "the answer was cut: {broken}");
    let (client, _) = peer(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
    assert_eq!(put(client).unwrap_err().outcome(), Outcome::Unknown);

    let (client, _) = peer(problem(507, "out-of-memory", "not done"));
    let refused = put(client).unwrap_err();
    assert_eq!(refused.to_string(), "it happened. Do this");
    assert!(matches!(refused, ClientError::Refused(_)) && refused.outcome() == Outcome::NotDone);
    let (client, _) = peer(problem(400, "bad-request", "not done"));
    assert!(matches!(put(client), Err(ClientError::BadRequest(_))));
    let (client, _) = peer(problem(412, "condition-failed", "not done"));
    assert!(!put(client).unwrap());
    let (client, _) = peer(problem(404, "nil", "not done"));
    assert!(!client.delete("0", b"k").unwrap());

    let (client, _) = peer(b"+PONG\r\n");
    let read = client.get("0", b"k", None).unwrap_err();
    assert!(matches!(read, ClientError::Broken { .. }), "{read}");
    assert_eq!(read.outcome(), Outcome::NotDone);
}

#[test]
fn nobody_there_says_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let client = Client::new(&address).unwrap();
    let error = client.delete("0", b"k").unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone);
    let words = error.to_string();
    assert!(words.contains(&address) && words.contains("carillon start"), "{words}");
    assert!(matches!(Client::new("nowhere"), Err(ClientError::BadAddress { .. })));
    let long = client.get("0", &[0xff; 64 << 10], None).unwrap_err();
    assert!(matches!(long, ClientError::PathTooLong { .. }), "{long}");
}

#[test]
fn a_silent_peer_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let client = Client::new(&address).unwrap().with_timeout(Duration::from_millis(100));
    let silent = client.delete("0", b"k").unwrap_err();
    assert_eq!(silent.outcome(), Outcome::Unknown);
    assert!(silent.to_string().contains("no answer came (nothing happened for 100ms)"), "{silent}");
    assert!(matches!(client.status(), Err(ClientError::Broken { .. })));
}

#[test]
fn the_catalogue_is_json() {
    let (client, read) = peer(
        b"HTTP/1.1 201 Created\r\n\r\n{\"id\":7,\"name\":\"n\",\"placement\":\"ordered\",\
          \"durability\":\"sync\",\"retention_ms\":1,\"replicas\":1,\"shards\":8,\"keys\":0,\
          \"new\":true}",
    );
    let spec =
        KeyspaceSpec { name: "n".into(), placement: Some("ordered".into()), ..Default::default() };
    assert_eq!(client.keyspace_create(&spec).unwrap().id, 7);
    let seen = read.join().unwrap();
    assert!(seen.contains("\r\nContent-Type: application/json\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\n{\"name\":\"n\",\"placement\":\"ordered\"}"), "{seen}");
}

#[test]
fn shards_are_asked_for_page_by_page() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let pages = ["[1,2],\"next\":2", "[3],\"next\":3", "[4],\"next\":3"];
    let node = spawn(move || {
        let answers = pages.into_iter().map(|page| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                seen.push(byte[0]);
            }
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n{{\"shards\":{page}}}").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            String::from_utf8(seen).unwrap().lines().next().unwrap().to_owned()
        });
        answers.collect::<Vec<String>>()
    });
    // The last page says to go on where it began: that is the end.
    let all = Client::new(&address).unwrap().shards(Some("a b")).unwrap();
    assert_eq!(all["shards"], serde_json::json!([1, 2, 3, 4]));
    let asked = ["", "after=2", "after=3"];
    let asked = asked.map(|page| format!("GET /v1/shards?keyspace=a%20b&{page} HTTP/1.1"));
    assert_eq!(node.join().unwrap(), asked);
}
