//! What a connection remembers from one command to the next.

use gateway::resp::{ClientFacts, Context, Facts, KeyspaceFacts, Session, Version};

use crate::context::{Still, send, send_bytes, send_to, session};

/// A server that does not know all keyspaces yet.
struct Starting;

impl Context for Starting {
    fn now_millis(&self) -> u64 {
        Still.now_millis()
    }

    fn keyspace_exists(&self, name: &[u8]) -> bool {
        Still.keyspace_exists(name)
    }

    fn knows_keyspaces(&self) -> bool {
        false
    }

    fn facts(&self) -> Facts<'_> {
        Still.facts()
    }

    fn each_keyspace(&self, show: &mut dyn FnMut(KeyspaceFacts<'_>)) {
        Still.each_keyspace(show);
    }

    fn each_other_client(&self, show: &mut dyn FnMut(ClientFacts<'_>)) {
        Still.each_other_client(show);
    }
}

fn reply(session: &mut Session, line: &str) -> String {
    String::from_utf8(send(session, line.as_bytes()).1).unwrap()
}

#[test]
fn hello_switches_the_protocol() {
    let mut session = session();
    let two = "*16\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n\
               $5\r\nproto\r\n:2\r\n\
               $2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
               $7\r\nmodules\r\n*0\r\n$16\r\ncarillon_version\r\n$5\r\n0.1.0\r\n";
    assert_eq!(reply(&mut session, "HELLO"), two);
    let three = two.replace("*16", "%8").replace("proto\r\n:2", "proto\r\n:3");
    assert_eq!(reply(&mut session, "HELLO 3 AUTH default x SETNAME me"), three);
    assert_eq!(session.version(), Version::V3);
    assert_eq!(reply(&mut session, "CLIENT GETNAME"), "$2\r\nme\r\n");
    assert_eq!(reply(&mut session, "COMMAND INFO nosuch"), "*1\r\n_\r\n");
    let info = reply(&mut session, "INFO cluster");
    assert!(info.starts_with('=') && info.contains("\r\ntxt:# Cluster"), "{info}");
    // An error leaves everything as it was.
    assert!(reply(&mut session, "HELLO 2 SETNAME you FOO").starts_with("-ERR Syntax error"));
    assert_eq!(reply(&mut session, "CLIENT GETNAME"), "$2\r\nme\r\n");
    assert_eq!(session.version(), Version::V3);
    // And RESET begins anew.
    session.selected("5");
    assert_eq!(send(&mut session, b"RESET"), ("Reset".to_owned(), b"+RESET\r\n".to_vec()));
    assert_eq!((session.version(), session.keyspace()), (Version::V2, "0"));
    assert_eq!(reply(&mut session, "CLIENT GETNAME"), "$-1\r\n");
}

#[test]
fn a_node_that_starts_does_not_say_which_keyspaces_there_are_not() {
    let select = |name: &str| {
        let line = format!("SELECT {name}\r\n");
        let (request, out) = send_to(&Starting, &mut session(), line.as_bytes());
        (request, String::from_utf8(out).unwrap())
    };
    assert!(select("basket").1.starts_with("-LOADING the node is starting"));
    assert_eq!(select("orders").1, "");
    assert_eq!(select("9").1, "");
    assert!(select("1x").1.starts_with("-ERR"), "it cannot be a name");
}

#[test]
fn replies_can_be_switched_off() {
    let mut session = session();
    let quiet = [
        ("CLIENT REPLY SKIP", true),
        ("PING", true),
        ("PING", false),
        ("CLIENT REPLY OFF", true),
        ("PING", true),
        ("GET k", true),
        ("SET k v", true),
        ("GET", true),
        ("CLIENT REPLY SKIP", true),
        ("PING", true),
        ("PING", true),
        ("CLIENT REPLY ON", false),
        ("PING", false),
        ("CLIENT REPLY SKIP", true),
        ("GET k", true),
        ("GET k", false),
    ];
    for (index, (line, muted)) in quiet.into_iter().enumerate() {
        let (request, out) = send(&mut session, line.as_bytes());
        assert_eq!(session.is_muted(), muted, "{index} {line}");
        assert!(!muted || out.is_empty(), "{index} {line}");
        assert!(request == "Answered" || line.contains(" k"), "{index} {line}");
    }
}

#[test]
fn reset_ends_silence_but_can_be_skipped() {
    let mut session = session();
    send(&mut session, b"CLIENT REPLY OFF");
    assert_eq!(reply(&mut session, "RESET"), "+RESET\r\n");
    send(&mut session, b"CLIENT REPLY SKIP");
    assert_eq!(reply(&mut session, "RESET"), "");
    assert_eq!(reply(&mut session, "PING"), "+PONG\r\n");
}

#[test]
fn what_a_client_makes_the_server_keep_or_say_is_limited() {
    let mut session = session();
    let long = "x".repeat(2_000);
    for line in ["CLIENT SETNAME X", "CLIENT SETINFO LIB-NAME X", "HELLO 3 SETNAME X"] {
        let answer = reply(&mut session, &line.replace('X', &long));
        assert!(answer.contains("cannot be longer than 1024 bytes"), "{line}: {answer}");
    }
    let many = " get".repeat(2_000);
    for line in ["COMMAND INFO", "COMMAND DOCS"] {
        assert_eq!(
            reply(&mut session, &(line.to_owned() + &many)),
            "-ERR more than 1024 names\r\n"
        );
    }
    assert!(reply(&mut session, &long).len() < 300);
}

#[test]
fn a_browser_is_hung_up_on() {
    for line in ["POST / HTTP/1.1", "Host: localhost:6379"] {
        assert_eq!(send(&mut session(), line.as_bytes()), ("Close".to_owned(), Vec::new()));
    }
}

#[test]
fn a_client_says_who_it_is() {
    let mut session = session();
    assert_eq!(reply(&mut session, "CLIENT ID"), ":7\r\n");
    assert_eq!(reply(&mut session, "CLIENT SETNAME me"), "+OK\r\n");
    assert_eq!(reply(&mut session, "CLIENT SETINFO LIB-NAME lib"), "+OK\r\n");
    assert_eq!(reply(&mut session, "CLIENT SETINFO lib-ver 1.2"), "+OK\r\n");
    assert_eq!(reply(&mut session, "CLIENT NO-EVICT on"), "+OK\r\n");
    session.selected("orders");
    let line = reply(&mut session, "CLIENT INFO");
    for part in [
        "id=7 ",
        "addr=10.0.0.7:5 ",
        " name=me ",
        " age=2 ",
        " db=orders ",
        " flags=e ",
        " cmd=client|info ",
        " resp=2 ",
        " lib-name=lib ",
        "lib-ver=1.2\n",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert_eq!(reply(&mut session, "CLIENT SETNAME \"\""), "+OK\r\n");
    assert_eq!(reply(&mut session, "CLIENT GETNAME"), "$-1\r\n");
    let off = send(&mut session, b"CLIENT TRACKING OFF");
    assert_eq!(off, ("Track(None)".to_owned(), Vec::new()));
}

#[test]
fn clients_are_listed_and_killed() {
    let mut session = session();
    let list = reply(&mut session, "CLIENT LIST");
    assert!(list.contains("id=3 other\nid=7 addr="), "{list}");
    assert_eq!(reply(&mut session, "CLIENT LIST ID 3 9"), "$11\r\nid=3 other\n\r\n");
    assert_eq!(reply(&mut session, "CLIENT LIST TYPE pubsub"), "$0\r\n\r\n");
    let mut kills = |line: &str| {
        let (request, out) = send(&mut session, line.as_bytes());
        assert!(out.is_empty(), "it is answered when they are gone");
        request
    };
    let kill = |own, gather| format!("Kill(Kill {{ others: [3], own: {own}, gather: {gather} }})");
    assert_eq!(kills("CLIENT KILL ID 3"), kill(false, "Sum"));
    assert_eq!(kills("CLIENT KILL TYPE normal"), kill(false, "Sum"));
    assert_eq!(kills("CLIENT KILL TYPE normal SKIPME no"), kill(true, "Sum"));
    assert_eq!(kills("CLIENT KILL 10.0.0.3:5"), kill(false, "Ok"));
    assert_eq!(reply(&mut session, "CLIENT KILL ID 4"), ":0\r\n");
    assert_eq!(reply(&mut session, "CLIENT KILL ID 7"), ":0\r\n");
    let own = send(&mut session, b"CLIENT KILL ID 7 SKIPME no");
    assert_eq!(own, ("Close".to_owned(), b":1\r\n".to_vec()));
    let own = send(&mut session, b"CLIENT KILL 10.0.0.7:5");
    assert_eq!(own, ("Close".to_owned(), b"+OK\r\n".to_vec()));
    assert_eq!(send(&mut session, b"QUIT"), ("Close".to_owned(), b"+OK\r\n".to_vec()));
}

#[test]
fn help_and_docs_are_well_formed() {
    let mut session = session();
    for line in [
        "CLIENT HELP",
        "COMMAND HELP",
        "CONFIG HELP",
        "OBJECT HELP",
        "COMMAND",
        "COMMAND DOCS",
        "COMMAND LIST",
        "COMMAND DOCS getset client|id",
        "CLIENT TRACKINGINFO",
        "CONFIG GET *",
        "INFO everything",
    ] {
        for hello in ["HELLO 2", "HELLO 3"] {
            reply(&mut session, hello);
            let bytes = send_bytes(&mut session, format!("{line}\n").as_bytes()).1;
            assert_eq!(one_reply(&bytes), bytes.len(), "{line}");
        }
    }
}

/// The length of the first reply: aggregates hold as many as they say.
fn one_reply(bytes: &[u8]) -> usize {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("an end of line");
    let rest = std::str::from_utf8(&bytes[1..end]).unwrap();
    let len = || rest.parse::<usize>().unwrap();
    let next = end + 2;
    let many = |count| (0..count).fold(next, |at, _| at + one_reply(&bytes[at..]));
    match bytes[0] {
        b'+' | b'-' | b':' | b'_' => next,
        b'$' | b'*' if rest == "-1" => next,
        b'$' | b'=' => next + len() + 2,
        b'*' | b'~' => many(len()),
        b'%' => many(len() * 2),
        other => panic!("what is {:?}?", other as char),
    }
}
