//! TLS, with other people's programs: redis-cli, curl, openssl and nbdinfo. Certificates come from
//! `carillon certs dev`. Client libraries: `tests/clients/with_tls.py`.

mod certs;
mod commands;
mod peers;
mod volumes;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use certs::{Certs, run, text};

use harness::node::{Node, TEST_TIMEOUT};
use harness::ports::unused;
use harness::process::Directory;
use harness::until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

/// A node with TLS listeners of Redis and HTTP clients.
fn node(name: &str, certs: &Certs, more: &[&str]) -> (Node, SocketAddr, SocketAddr) {
    let (resp, http) = (unused(), unused());
    let (resp_text, http_text) = (resp.to_string(), http.to_string());
    let of_certs = certs.flags();
    let mut flags = vec!["--resp-tls", &resp_text, "--http-tls", &http_text];
    flags.extend(of_certs.iter().map(String::as_str).chain(more.iter().copied()));
    (Node::alone_and_ready(PROGRAM, name, &flags), resp, http)
}

fn curl(certs: &Certs, args: &[&str]) -> Output {
    let ca = certs.file("ca.pem");
    run("curl", &[&["-sS", "--max-time", "30", "--cacert", &ca], args].concat(), b"")
}

#[test]
fn clients_by_tls_are_served_as_others() {
    let dir = Directory::new("tls_clients").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let others = Certs::make(&dir.path().join("others"), &[]);
    let (node, resp, http) = node("tls_clients_node", &certs, &[]);
    assert_eq!(text(&certs.redis_cli(resp, None, &["SET", "a", "1"])), "OK");
    assert_eq!(text(&certs.redis_cli(resp, None, &["GET", "a"])), "1");
    // Plain listeners stand beside it, over the same keys.
    assert_eq!(node.connect().ask(&["GET", "a"]).unwrap().text(), "1");
    // Long values, both ways, and a long pipeline.
    let long: Vec<u8> = (0..8_000_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    let set = certs.redis_cli_with(resp, None, &["-x", "SET", "long"], &long);
    assert_eq!(text(&set), "OK");
    let got = certs.redis_cli(resp, None, &["GET", "long"]);
    assert!(got.stdout.strip_suffix(b"\n") == Some(&long), "{} bytes", got.stdout.len());
    let sets: String = (0..20_000).map(|n| format!("SET key:{n} value:{n}\r\n")).collect();
    let piped = certs.redis_cli_with(resp, None, &["--pipe"], sets.as_bytes());
    assert!(text(&piped).contains("errors: 0, replies: 20000"), "{}", text(&piped));
    assert_eq!(text(&certs.redis_cli(resp, None, &["GET", "key:19999"])), "value:19999");

    let url = format!("https://{http}/v1/kv/0/a");
    assert_eq!(text(&curl(&certs, &[&url])), "1");
    let put =
        curl(&certs, &["-X", "PUT", "-d", "2", "-o", "/dev/null", "-w", "%{http_code}", &url]);
    assert!(text(&put).starts_with('2'), "{}", text(&put));
    let whole = curl(&certs, &[&format!("https://{http}/v1/kv/0/long")]);
    assert!(whole.stdout == long, "{} bytes", whole.stdout.len());

    // Who trusts another authority, speaks an old version, or no TLS at all.
    let refused = others.redis_cli(resp, None, &["GET", "a"]);
    assert!(!refused.status.success() && text(&refused).contains("certificate"), "{refused:?}");
    assert!(!curl(&others, &[&url]).status.success());
    let old = ["s_client", "-connect", &resp.to_string(), "-tls1_1"];
    assert!(!text(&run("openssl", &old, b"")).contains("Cipher is TLS"));
    for at in [resp, http] {
        let mut plain = TcpStream::connect(at).unwrap();
        plain.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n").unwrap();
        let mut rest = Vec::new();
        // It ends, maybe by a reset; an alert may come before.
        let _end = plain.read_to_end(&mut rest);
        assert!(rest.len() < 64 && !rest.starts_with(b"HTTP"), "{rest:?}");
    }
    assert_eq!(text(&certs.redis_cli(resp, None, &["GET", "a"])), "2");
}

#[test]
fn clients_must_show_a_certificate_if_the_node_asks_for_one() {
    let dir = Directory::new("tls_mutual").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &["--client", "ann"]);
    let others = Certs::make(&dir.path().join("others"), &[]);
    let ca = certs.file("ca.pem");
    let (_node, resp, http) = node("tls_mutual_node", &certs, &["--tls-client-ca-file", &ca]);
    assert_eq!(text(&certs.redis_cli(resp, Some(&certs), &["PING"])), "PONG");
    assert_ne!(text(&certs.redis_cli(resp, None, &["PING"])), "PONG");
    assert_ne!(text(&certs.redis_cli(resp, Some(&others), &["PING"])), "PONG");
    let url = format!("https://{http}/v1/status");
    assert!(!curl(&certs, &[&url]).status.success());
    let (cert, key) = (certs.file("client.pem"), certs.file("client.key"));
    let shown = curl(&certs, &["--cert", &cert, "--key", &key, &url]);
    assert!(text(&shown).contains("\"ready\":true"), "{}", text(&shown));
    let (cert, key) = (others.file("client.pem"), others.file("client.key"));
    assert!(!curl(&certs, &["--cert", &cert, "--key", &key, &url]).status.success());
}

#[test]
fn clients_whose_certificate_is_revoked_are_refused() {
    let dir = Directory::new("tls_revoked").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let (ca, crl) = (certs.file("ca.pem"), certs.file("crl.pem"));
    let flags = ["--tls-client-ca-file", &ca, "--tls-client-crl-file", &crl];
    let (_node, resp, _http) = node("tls_revoked_node", &certs, &flags);
    let ping = || text(&certs.redis_cli(resp, Some(&certs), &["PING"]));
    assert_eq!(ping(), "PONG");
    let wrong = certs.revoke(&["nobody"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    assert!(text(&certs.revoke(&["client"])).contains("1 more revoked, 1 in all"));
    until(TEST_TIMEOUT, "it is refused", || (ping() != "PONG").then_some(()));
    // Once more changes nothing; a new one is none of those.
    assert!(text(&certs.revoke(&["client"])).contains("0 more revoked, 1 in all"));
    Certs::make(&dir.path().join("certs"), &[]);
    assert_eq!(ping(), "PONG");
    // A list of nothing is no list.
    std::fs::write(certs.file("empty.pem"), "").unwrap();
    let words = ["start", "--dir", dir.path().to_str().unwrap(), "--resp-tls", "127.0.0.1:0"];
    let empty = certs.file("empty.pem");
    let certs_of = certs.flags();
    let more = ["--tls-client-ca-file", &ca, "--tls-client-crl-file", &empty];
    let words: Vec<&str> =
        words.into_iter().chain(certs_of.iter().map(String::as_str)).chain(more).collect();
    let refused = run(PROGRAM, &words, b"");
    assert!(text(&refused).contains("no list of revoked certificates"), "{}", text(&refused));
}

#[test]
fn new_certificates_are_taken_while_the_node_runs() {
    let dir = Directory::new("tls_reload").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let (_node, resp, http) = node("tls_reload_node", &certs, &[]);
    let before = certs.serial(resp);
    assert_eq!(certs.serial(http), before);
    // A connection that is open stays.
    let (port, ca) = (resp.port().to_string(), certs.file("ca.pem"));
    let mut open = Command::new("redis-cli")
        .args(["-p", &port, "--tls", "--cacert", &ca])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut words = open.stdin.take().unwrap();
    words.write_all(b"SET open 1\n").unwrap();
    Certs::make(&dir.path().join("certs"), &[]);
    let after = until(TEST_TIMEOUT, "the new certificate is shown", || {
        Some(certs.serial(resp)).filter(|serial| *serial != before)
    });
    assert_eq!(certs.serial(http), after);
    words.write_all(b"GET open\n").unwrap();
    drop(words);
    assert_eq!(text(&open.wait_with_output().unwrap()), "OK\n1");
    // One that is no good is not taken.
    std::fs::write(certs.file("server.pem"), "nonsense").unwrap();
    std::thread::sleep(server::tls::LOOK_EVERY + Duration::from_secs(1));
    assert_eq!(certs.serial(resp), after);
}

#[test]
fn who_never_ends_a_handshake_is_closed_and_others_are_served() {
    // `make soak` has more.
    let half_open = std::env::var("TEST_HALF_OPEN").map_or(500, |n| n.parse().expect("a number"));
    let dir = Directory::new("tls_half").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let most = (half_open + 100).to_string();
    let (node, resp, _http) = node("tls_half_node", &certs, &["--connections-max", &most]);
    let mut half: Vec<TcpStream> =
        (0..half_open).map(|_| TcpStream::connect(resp).expect("it is accepted")).collect();
    // Some have begun: a record that says that more comes.
    for stream in half.iter_mut().step_by(2) {
        stream.write_all(&[22, 3, 1, 2, 0, 1]).expect("it is read");
    }
    assert_eq!(text(&certs.redis_cli(resp, None, &["PING"])), "PONG");
    assert_eq!(node.connect().ask(&["PING"]).unwrap().text(), "PONG");
    for stream in &mut half {
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        match stream.read(&mut [0; 16]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("it is not closed: {other:?}"),
        }
    }
}

#[test]
fn files_that_are_no_good_keep_the_node_from_starting() {
    let dir = Directory::new("tls_bad").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let others = Certs::make(&dir.path().join("others"), &[]);
    let data = dir.path().join("data");
    let start = |cert: &str, key: &str, more: &[&str]| {
        let at = unused().to_string();
        let mut words = vec!["start", "--dir", data.to_str().unwrap(), "--resp", "off"];
        words.extend(["--http", "off", "--native", "off", "--resp-tls", &at]);
        words.extend(["--tls-cert-file", cert, "--tls-key-file", key]);
        words.extend(more);
        let ended = run(PROGRAM, &words, b"");
        (ended.status.code(), text(&ended))
    };
    let (cert, key) = (certs.file("server.pem"), certs.file("server.key"));
    let missing = dir.path().join("none.pem");
    let bad = dir.path().join("bad.pem");
    std::fs::write(&bad, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let (missing, bad) = (missing.to_str().unwrap(), bad.to_str().unwrap());
    for (cert, key, more, said) in [
        (missing, &*key, &[][..], "No such file"),
        (bad, &key, &[], "no certificate"),
        (&cert, bad, &[], "private key"),
        (&cert, &others.file("server.key"), &[], "does not fit"),
        (&cert, &key, &["--tls-client-ca-file", missing], "No such file"),
        ("", &key, &[], "--tls-cert-file"),
    ] {
        let (code, text) = start(cert, key, more);
        assert!(code != Some(0) && text.contains(said), "{cert} {key}: {code:?} {text}");
        assert!(!data.join("MANIFEST").exists(), "nothing was made");
    }
    let made = run(PROGRAM, &["certs", "dev", "--dir", "/proc/none"], b"");
    assert!(made.status.code() == Some(1) && text(&made).contains("/proc/none"), "{made:?}");
    let host = "a name with spaces and \u{fc}";
    let made = run(PROGRAM, &["certs", "dev", "--dir", missing, "--host", host], b"");
    assert!(made.status.code() == Some(2) && text(&made).contains("--host"), "{made:?}");
}
