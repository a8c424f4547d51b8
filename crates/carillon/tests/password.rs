//! One password for all clients: what strangers are refused on every protocol, taken from the
//! tables of commands and endpoints, so that a new one cannot be forgotten.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use client::Store;
use client::http::Request;
use harness::node::{Node, TEST_TIMEOUT};
use harness::ports::unused;
use harness::process::Directory;
use harness::resp::{Connection, TextReply};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const PASSWORD: &str = "a long password";

fn password_file(dir: &Path, name: &str, text: &str) -> String {
    let file = dir.join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A node that asks for the password. It is ready when it says so to everybody.
fn node(name: &str, flags: &[&str]) -> Node {
    // Clients of volumes have no password to give.
    let flags = [&["--nbd", "off"], flags].concat();
    let node = Node::alone(PROGRAM, name, &flags);
    let client = node.client();
    harness::until(TEST_TIMEOUT, "it is ready", || {
        let ready = client.send(&Request::get("/health/ready")).ok()?;
        (ready.status == 200).then_some(())
    });
    node
}

fn items(reply: TextReply) -> Vec<TextReply> {
    match reply {
        TextReply::Many(all) => all,
        other => panic!("no array: {other:?}"),
    }
}

fn admitted(node: &Node) -> Connection {
    let mut link = node.connect();
    assert_eq!(link.ask(&["AUTH", PASSWORD]).unwrap().text(), "OK");
    link
}

#[test]
fn strangers_may_call_no_command_but_those_that_let_them_in() {
    let dir = Directory::new("password_commands").unwrap();
    let file = password_file(dir.path(), "password", PASSWORD);
    let node = node("password_commands_node", &["--password-file", &file]);
    let mut known = admitted(&node);
    let mut stranger = node.connect();
    let names = items(known.ask(&["COMMAND", "LIST"]).unwrap());
    let names: Vec<String> = names.iter().map(TextReply::text).collect();
    assert!(names.len() > 90, "{names:?}");
    let open = ["auth", "hello", "quit", "reset"];
    for name in names.iter().filter(|name| !open.contains(&name.as_str())) {
        let info = items(known.ask(&["COMMAND", "INFO", name]).unwrap());
        let arity = items(info[0].clone())[1].text();
        let arity = arity.trim_start_matches('-').parse::<usize>().unwrap();
        let words: Vec<&str> = name.split('|').chain(["a"; 8]).take(arity.max(1)).collect();
        let said = stranger.ask(&words).unwrap();
        // As in Redis, it is said before that there is no such subcommand.
        let has_more = names.iter().any(|other| other.starts_with(&format!("{name}|")));
        if !(has_more && said.text().starts_with("ERR unknown subcommand")) {
            // EXEC has words of its own before it.
            assert!(
                said.text().ends_with("NOAUTH Authentication required."),
                "{words:?}: {said:?}"
            );
        }
    }
    let said = stranger.ask(&["HELLO", "3"]).unwrap().text();
    assert!(said.starts_with("NOAUTH HELLO must be called"), "{said}");
    let said = stranger.ask(&["AUTH", "ann", PASSWORD]).unwrap().text();
    assert!(said.starts_with("WRONGPASS"), "{said}");
    let hello = stranger.ask(&["HELLO", "2", "AUTH", "default", PASSWORD]).unwrap();
    assert!(!hello.text().starts_with("NOAUTH"));
    assert_eq!(stranger.ask(&["SET", "a", "1"]).unwrap().text(), "OK");
    // RESET makes a stranger of it again.
    assert_eq!(stranger.ask(&["RESET"]).unwrap().text(), "RESET");
    assert!(stranger.ask(&["GET", "a"]).unwrap().text().starts_with("NOAUTH"));
}

#[test]
fn strangers_may_ask_no_endpoint_but_whether_the_node_serves() {
    let dir = Directory::new("password_http").unwrap();
    let file = password_file(dir.path(), "password", PASSWORD);
    let node = node("password_http_node", &["--password-file", &file]);
    let (stranger, known) = (node.client(), node.client().with_password(PASSWORD));
    let document = known.send(&Request::get("/openapi.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document.body).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 30, "{}", paths.len());
    let mut asked = 0;
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_ascii_uppercase();
            if !["GET", "PUT", "POST", "DELETE", "PATCH"].contains(&method.as_str()) {
                continue;
            }
            let path = path.replace(['{', '}'], "");
            let said = stranger.send(&Request::write(&method, &path)).unwrap();
            let is_open = path.starts_with("/health/");
            assert_eq!(said.status == 401, !is_open, "{method} {path}: {}", said.status);
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked}");
    for path in ["/", "/nonsense", "/assets/x", "/metrics", "/openapi.json"] {
        let said = stranger.send(&Request::get(path)).unwrap();
        assert_eq!(said.status, 401, "{path}");
        assert!(said.header("www-authenticate").unwrap().starts_with("Basic"), "{path}");
    }
    assert_eq!(known.send(&Request::get("/metrics")).unwrap().status, 200);
    let bearer = [("Authorization", "Bearer a long password")];
    let request = Request { headers: &bearer, ..Request::get("/v1/status") };
    assert_eq!(stranger.send(&request).unwrap().status, 200);
}

#[test]
fn frames_and_volumes_have_no_password_to_give() {
    let dir = Directory::new("password_frames").unwrap();
    let file = password_file(dir.path(), "password", PASSWORD);
    let native = unused();
    let at = native.to_string();
    let _node = node("password_frames_node", &["--password-file", &file, "--native", &at]);
    let mut stream = TcpStream::connect(native).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.write_all(b"PUT\0\0\0\x01\0\0\0\x01kv").unwrap();
    let mut said = [0; 64];
    let read = stream.read(&mut said).unwrap();
    assert!(said[..read].starts_with(b"PER"), "{:?}", &said[..read]);

    let nbd = unused().to_string();
    let data = dir.path().join("data");
    let mut start = Command::new(PROGRAM);
    start.args(["start", "--dir", data.to_str().unwrap(), "--password-file", &file]);
    let ended = start.args(["--nbd", &nbd]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("clients of volumes cannot give"), "{said}");
}

#[test]
fn who_guesses_is_slowed_and_others_are_served() {
    let dir = Directory::new("password_guesses").unwrap();
    let file = password_file(dir.path(), "password", PASSWORD);
    let node = node("password_guesses_node", &["--password-file", &file]);
    let mut known = admitted(&node);
    let mut guesses = node.connect();
    let mut said = Vec::new();
    for _ in 0..8 {
        said.push(guesses.ask(&["AUTH", "wrong password"]).unwrap().text());
    }
    assert!(said[0].starts_with("WRONGPASS invalid"), "{said:?}");
    assert!(said[7].contains("none is looked at for another"), "{said:?}");
    assert!(guesses.ask(&["AUTH", PASSWORD]).unwrap().text().starts_with("WRONGPASS too many"));
    let late = node.client().with_password(PASSWORD).send(&Request::get("/v1/status")).unwrap();
    assert_eq!(late.status, 429);
    assert_eq!(known.ask(&["PING"]).unwrap().text(), "PONG");
    let log = node.log();
    assert!(log.contains("wrong password, the"), "{log}");
    assert!(!log.contains(PASSWORD) && !log.contains("wrong password\""), "no secret in logs");
}

#[test]
fn clients_of_all_kinds_give_the_password_and_a_new_one_counts_at_once() {
    let dir = Directory::new("password_clients").unwrap();
    let file = password_file(dir.path(), "password", PASSWORD);
    let node = node("password_clients_node", &["--password-file", &file]);
    let (code, said) = node.carillon(&["put", "a", "1", "--password-file", &file]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = node.carillon(&["get", "a"]);
    assert!(code == 1 && said.contains("has no password"), "{code} {said}");
    let port = node.resp.port().to_string();
    let redis = |words: &[&str]| {
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(redis(&["--no-auth-warning", "-a", PASSWORD, "GET", "a"]), "1");
    assert!(redis(&["GET", "a"]).starts_with("NOAUTH"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::builder().password(PASSWORD).connect([node.resp.to_string()]);
        let store = store.await.unwrap();
        assert_eq!(store.get("a").await.unwrap().as_deref(), Some(&b"1"[..]));
        assert!(Store::connect([node.resp.to_string()]).await.is_err());
    });
    let mut known = admitted(&node);
    let new = password_file(dir.path(), "new", "another long password");
    std::fs::rename(new, &file).unwrap();
    let mut late = node.connect();
    assert!(late.ask(&["AUTH", PASSWORD]).unwrap().text().starts_with("WRONGPASS"));
    assert_eq!(late.ask(&["AUTH", "another long password"]).unwrap().text(), "OK");
    assert_eq!(known.ask(&["PING"]).unwrap().text(), "PONG", "who is in stays");
}

#[test]
fn beyond_loopback_a_listener_is_encrypted_and_closed_or_insecure() {
    let dir = Directory::new("password_exposed").unwrap();
    let file = password_file(dir.path(), "password", PASSWORD);
    let certs = dir.path().join("certs");
    let made = Command::new(PROGRAM).args(["certs", "dev", "--dir"]).arg(&certs).output().unwrap();
    assert!(made.status.success());
    let of = |name: &str| certs.join(name).to_str().unwrap().to_owned();
    let (cert, key, ca) = (of("server.pem"), of("server.key"), of("ca.pem"));
    let tls = ["--tls-cert-file", &cert, "--tls-key-file", &key];
    let refused = |flags: &[&str]| {
        let data = dir.path().join("data");
        let mut command = Command::new(PROGRAM);
        command.args(["start", "--resp", "off", "--http", "off", "--native", "off", "--dir"]);
        let ended = command.arg(&data).args(flags).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && !data.join("MANIFEST").exists(), "{flags:?}: {said}");
        said
    };
    for flags in [
        vec!["--resp", "0.0.0.0:0"],
        vec!["--resp", "0.0.0.0:0", "--password-file", &file],
        [&["--resp-tls", "0.0.0.0:0"], &tls[..]].concat(),
        [&["--native-tls", "0.0.0.0:0", "--password-file", &file], &tls[..]].concat(),
    ] {
        let said = refused(&flags);
        assert!(said.contains("could be reached from other machines"), "{flags:?}: {said}");
    }
    let at = format!("0.0.0.0:{}", unused().port());
    for flags in [
        [&["--resp-tls", &at, "--password-file", &file], &tls[..]].concat(),
        [&["--resp-tls", &at, "--tls-client-ca-file", &ca], &tls[..]].concat(),
        vec!["--resp", &at, "--insecure"],
    ] {
        // What stands twice counts as it stands last.
        let node = node("password_exposed_node", &flags);
        drop(node);
    }
}
