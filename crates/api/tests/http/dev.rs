//! The nodes of `carillon dev`: what is passed on to it, and what its replies become.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;

use api::dev::{DevRefusal, DevRefusalKind, DevReply, DevRequest};

use super::*;

/// Answers so many requests with these replies; none: the connection ends.
fn supervisor(
    name: &str,
    replies: Vec<Option<DevReply>>,
) -> (PathBuf, thread::JoinHandle<Vec<DevRequest>>) {
    let path = std::env::temp_dir().join(format!("carillon-{name}-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let thread = thread::spawn(move || {
        let answer = |reply: Option<DevReply>| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            if let Some(reply) = reply {
                stream.write_all(reply.to_line().as_bytes()).unwrap();
            }
            DevRequest::of_line(&line).unwrap()
        };
        replies.into_iter().map(answer).collect()
    });
    (path, thread)
}

#[test]
fn node_that_was_not_started_by_dev_says_so() {
    let server = serve(options());
    let get = ask(&server, "GET", "/v1/dev", b"");
    assert_eq!((get.status, get.problem().as_str()), (404, "no-dev"));
    let add = ask_json(&server, "POST", "/v1/dev/nodes", "{}");
    assert_eq!((add.status, add.problem().as_str()), (404, "no-dev"));
    let plain = ask(&server, "POST", "/v1/dev/nodes", b"{}");
    assert_eq!(
        (plain.status, plain.problem().as_str()),
        (415, "not-json"),
        "as a page may send it"
    );
}

#[test]
fn requests_are_passed_on_and_refusals_are_problems() {
    let refused =
        |kind| Some(DevReply::Refused(DevRefusal { kind, why: "because it is so".into() }));
    let kinds = [
        (DevRefusalKind::NoNode, 404, "no-node"),
        (DevRefusalKind::BadParameter, 400, "bad-parameter"),
        (DevRefusalKind::WrongState, 409, "wrong-state"),
        (DevRefusalKind::TooManyNodes, 409, "too-many-nodes"),
        (DevRefusalKind::PortInUse, 409, "port-in-use"),
        (DevRefusalKind::NotStarted, 500, "not-started"),
        (DevRefusalKind::Ending, 409, "wrong-state"),
    ];
    let mut replies: Vec<_> = kinds.iter().map(|(kind, ..)| refused(*kind)).collect();
    // Nobody knows whether that was done.
    replies.push(None);
    let (path, thread) = supervisor("dev-socket", replies);
    let server = serve(Options { dev_control: Some(path.clone()), ..options() });
    let kill = |body: &str| ask_json(&server, "POST", "/v1/dev/nodes/node-1/kill", body);
    for (_, status, slug) in kinds {
        let reply = kill("{}");
        assert_eq!((reply.status, reply.problem().as_str()), (status, slug));
    }
    assert_eq!(kill("{}").problem(), "unknown-outcome");
    let asked = thread.join().unwrap();
    let wanted =
        DevRequest::of_line(r#"{"act":{"node":"node-1","action":"kill","parameters":null}}"#);
    assert_eq!(asked[0], wanted.unwrap());
    // It has gone.
    let get = ask(&server, "GET", "/v1/dev", b"");
    assert_eq!((get.status, get.problem().as_str()), (503, "no-supervisor"));
    for (path, body, status) in [
        ("/v1/dev/nodes/node-1/explode", "{}", 404),
        ("/v1/dev/nodes/node-1/kill", r#"{"parameters":{}}"#, 400),
        ("/v1/dev/nodes", r#"{"settings":{}}"#, 400),
        ("/v1/dev/nodes?x=1", "{}", 400),
    ] {
        assert_eq!(ask_json(&server, "POST", path, body).status, status, "{path} {body}");
    }
    std::fs::remove_file(path).unwrap();
}
