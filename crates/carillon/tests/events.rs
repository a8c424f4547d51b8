//! The stream of events of real nodes: resumed, with gaps, filtered, merged over a cluster whose
//! node is killed, sampled, and not read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::cluster::Cluster;
use harness::events::{Event, Events, Next};
use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Signal;
use harness::resp::encode;
use harness::until;
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
/// The most viewers of a node: `VIEWERS_MAX`.
const VIEWERS_MAX: usize = 32;

#[track_caller]
fn open(node: &Node, query: &str) -> Events {
    Events::open(node.http, query, None).expect("a stream")
}

#[track_caller]
fn resume(node: &Node, query: &str, last: &Event) -> Events {
    Events::open(node.http, query, last.id.as_deref()).expect("a stream")
}

#[track_caller]
fn next(events: &mut Events) -> Event {
    match events.next_within(TEST_TIMEOUT) {
        Next::Event(event) => event,
        other => panic!("no event: {other:?}"),
    }
}

#[track_caller]
fn create(node: &Node, keyspace: &str) {
    let (code, text) = node.carillon(&["keyspace", "create", keyspace]);
    assert_eq!(code, 0, "{text}");
}

/// Each new keyspace has eight shards, and each of them elects a leader.
fn is_election(keyspace: &str) -> impl Fn(&Event) -> bool {
    move |event| event.name() == "leader-elected" && event.text("keyspace") == keyspace
}

#[track_caller]
fn elections(events: &mut Events, keyspace: &str) -> Vec<Event> {
    let election = |_| events.until(TEST_TIMEOUT, "election", is_election(keyspace));
    (0..8).map(election).collect()
}

#[test]
fn stream_begins_with_what_is_kept_and_is_resumed_behind_what_was_seen() {
    let node = Node::alone_and_ready(PROGRAM, "events_resume", &[]);
    let mut events = open(&node, "from=0");
    let hello = next(&mut events);
    assert_eq!((hello.name(), &hello.json["version"]), ("hello", &json!(1)));
    assert_eq!((hello.text("scope"), hello.text("cursor")), ("node", "0"));
    events.until(TEST_TIMEOUT, "node-started", |event| event.name() == "node-started");
    create(&node, "a");
    let seen = elections(&mut events, "a");
    drop(events);
    create(&node, "b");
    let mut again = resume(&node, "", &seen[7]);
    assert_eq!(next(&mut again).text("cursor"), seen[7].id.as_deref().unwrap());
    let first = next(&mut again);
    assert!(is_election("b")(&first), "nothing twice, nothing missing: {first:?}");
    (1..8).for_each(|_| _ = again.until(TEST_TIMEOUT, "election", is_election("b")));
    let mut middle = resume(&node, "from=0", &seen[3]);
    next(&mut middle);
    let rest: Vec<_> = (0..4).map(|_| next(&mut middle).id).collect();
    assert_eq!(rest, seen[4..].iter().map(|event| event.id.clone()).collect::<Vec<_>>());
    let mut live = open(&node, "");
    next(&mut live);
    assert!(live.all_within(Duration::from_millis(300)).is_empty(), "it begins now");
    create(&node, "c");
    elections(&mut live, "c");
}

#[test]
fn gap_is_told_after_a_restart() {
    let mut node = Node::alone_and_ready(PROGRAM, "events_gap", &[]);
    let mut events = open(&node, "from=0");
    let last = events.until(TEST_TIMEOUT, "start", |event| event.name() == "node-started");
    node.kill();
    assert!(matches!(events.next_within(TEST_TIMEOUT), Next::Ended));
    node.start(&[]);
    node.wait_until_ready();
    let mut again = resume(&node, "", &last);
    next(&mut again);
    let gap = next(&mut again);
    assert_eq!((gap.name(), gap.text("reason")), ("gap", "restart"));
    assert_eq!((&gap.json["events"], &gap.json["exact"]), (&json!(null), &json!(false)));
    assert_eq!(gap.text("from"), last.text("at"));
    again.until(TEST_TIMEOUT, "the new start", |event| event.name() == "node-started");
}

#[test]
fn filters_are_by_type_and_keyspace() {
    let node = Node::alone_and_ready(PROGRAM, "events_filter", &[]);
    create(&node, "a");
    create(&node, "b");
    let mut of_a = open(&node, "from=0&types=leader-elected,split&keyspace=a");
    let mut stops = open(&node, "from=0&types=node-started");
    elections(&mut of_a, "a");
    assert!(of_a.all_within(Duration::from_millis(300)).is_empty(), "no others");
    next(&mut stops);
    assert_eq!(next(&mut stops).name(), "node-started");
    assert!(stops.all_within(Duration::from_millis(300)).is_empty(), "no others");
    let error = Events::open(node.http, "keyspace=nosuch", None).map(drop).unwrap_err();
    assert!(error.to_string().contains("no-keyspace"), "{error}");
}

/// Whatever is asked for: it is refused with a reason, or is a stream that goes on.
#[test]
fn strange_questions_are_refused_or_answered() {
    let node = Node::alone_and_ready(PROGRAM, "events_strange", &[]);
    for (query, last) in [
        ("from=-1", None),
        ("from=1e9", None),
        ("from=18446744073709551616", None),
        ("from=0%40", None),
        ("from=%00", None),
        ("from=0&from=1", None),
        ("until=never", None),
        ("keyspace=", None),
        ("keyspace=%ff%fe", None),
        ("keyspace=a%2fb", None),
        ("types=split%00", None),
        ("types=%2c", None),
        ("samples=1001", None),
        ("samples=4294967296", None),
        ("scope=", None),
        ("=", None),
        ("", Some("x")),
        ("", Some("18446744073709551616@0000000000000007")),
    ] {
        let error = Events::open(node.http, query, last).map(drop).unwrap_err().to_string();
        let is_refused = error.starts_with("HTTP/1.1 4") && error.contains("urn:carillon:problem:");
        assert!(is_refused, "{query:?} {last:?}: {error}");
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| load(&node, &is_over));
        // A place that no clock has come to, and times that are long over.
        let mut all: Vec<Events> = [
            "from=18446744073709551615&samples=1000",
            "from=18446744073709551615%40ffffffffffffffff&samples=1000",
            "from=18446744073709551615&samples=1000&scope=cluster",
            "from=1&scope=cluster&samples=1000",
        ]
        .map(|query| open(&node, query))
        .into();
        for events in &mut all {
            assert_eq!(next(events).name(), "hello");
            (0..100).for_each(|_| _ = events.until(TEST_TIMEOUT, "request", is_request));
        }
        for query in ["until=0", "until=1&scope=cluster", "from=18446744073709551615&until=now"] {
            let mut events = open(&node, query);
            let end = events.until(TEST_TIMEOUT, "end", |event| event.name() == "end");
            assert_eq!(end.text("reason"), "until", "{query}");
        }
        is_over.store(true, Ordering::Relaxed);
        create(&node, "a");
        all.iter_mut().for_each(|events| _ = elections(events, "a"));
    });
}

fn is_request(event: &Event) -> bool {
    event.name() == "request"
}

#[test]
fn stopping_node_ends_streams() {
    let mut node = Node::alone_and_ready(PROGRAM, "events_stop", &[]);
    let mut all = [open(&node, ""), open(&node, "scope=cluster"), open(&node, "types=split")];
    all.iter_mut().for_each(|events| _ = next(events));
    node.signal(Signal::Terminate);
    let begun = Instant::now();
    all[0].until(TEST_TIMEOUT, "node-stopping", |event| event.name() == "node-stopping");
    for events in &mut all {
        let end = events.until(TEST_TIMEOUT, "end", |event| event.name() == "end");
        assert_eq!(end.text("reason"), "stopping");
        assert!(matches!(events.next_within(TEST_TIMEOUT), Next::Ended));
    }
    assert!(node.wait().success());
    assert!(begun.elapsed() < Duration::from_secs(8), "streams do not keep a node from stopping");
}

#[test]
fn viewers_are_bounded() {
    let node = Node::alone_and_ready(PROGRAM, "events_limit", &[]);
    let mut all: Vec<Events> = (0..VIEWERS_MAX).map(|_| open(&node, "")).collect();
    all.iter_mut().for_each(|events| assert_eq!(next(events).name(), "hello"));
    let refused = 200 - VIEWERS_MAX;
    for query in ["", "scope=cluster"].iter().cycle().take(refused) {
        let error = Events::open(node.http, query, None).map(drop).unwrap_err().to_string();
        assert!(error.contains("503") && error.contains("too-many-viewers"), "{error}");
    }
    assert_eq!(node.metric("carillon_event_viewers_refused_total"), refused as f64);
    create(&node, "a");
    all.iter_mut().for_each(|events| _ = elections(events, "a"));
    all.pop();
    until(TEST_TIMEOUT, "a place", || Events::open(node.http, "", None).ok());
}

/// Asks for keys, some thousand at a time, until it is to end.
fn load(node: &Node, is_over: &AtomicBool) {
    let mut connection = node.connect();
    let mut bytes = Vec::new();
    let key = |n: u32| format!("{n}-{}", "k".repeat(200));
    (0..1000).for_each(|n| encode(&mut bytes, &["GET", &key(n)]));
    while !is_over.load(Ordering::Relaxed) {
        connection.send(&bytes).expect("the node takes requests");
        (0..1000).for_each(|_| _ = connection.reply().expect("an answer"));
    }
}

#[test]
fn samples_are_bounded_and_stop_with_their_viewer() {
    let node = Node::alone_and_ready(PROGRAM, "events_samples", &[]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| load(&node, &is_over));
        let mut events = open(&node, "samples=20&types=request");
        assert_eq!(next(&mut events).json["samples"], json!(20));
        let sample = |_| events.until(TEST_TIMEOUT, "request", |one| one.name() == "request");
        let samples: Vec<Event> = (0..60).map(sample).collect();
        // By the node's clock, whatever a busy machine makes of ours.
        let times: Vec<u64> =
            samples.iter().map(|one| one.json["at_ms"].as_u64().expect("a time")).collect();
        for (at, begins) in times.iter().enumerate() {
            let in_second = times[at..].iter().take_while(|time| **time < begins + 999).count();
            // One may have been told late.
            assert!(in_second <= 21, "{in_second} in a second: {times:?}");
        }
        for sample in &samples {
            assert_eq!((sample.name(), sample.text("op")), ("request", "read"));
            assert!(sample.id.is_none() && sample.json["route"]["lookup"] == "full");
            assert!(sample.text("key").ends_with("kkk") && sample.json["leader"].is_string());
        }
        drop(events);
        let mut unsampled = open(&node, "");
        next(&mut unsampled);
        until(TEST_TIMEOUT, "no samples are taken any more", || {
            let before = node.metric("carillon_event_samples_total");
            thread::sleep(Duration::from_millis(300));
            (node.metric("carillon_event_samples_total") == before).then_some(())
        });
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn viewer_that_does_not_read_is_cut_off_and_slows_nobody() {
    let node = Node::alone_and_ready(PROGRAM, "events_unread", &[]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| load(&node, &is_over));
        let mut stream = TcpStream::connect(node.http).unwrap();
        stream
            .write_all(b"GET /v1/events?samples=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut reading = open(&node, "samples=1000");
        let until = Instant::now() + Duration::from_secs(120);
        let mut served = 0;
        while node.metric("carillon_event_viewers_cut_off_total") < 1.0 {
            assert!(Instant::now() < until, "it is cut off");
            // Others are served meanwhile.
            reading.until(TEST_TIMEOUT, "request", |event| event.name() == "request");
            served += 1 + reading.all_within(Duration::from_millis(200)).len();
        }
        assert!(served > 50, "{served} samples came to who reads");
        is_over.store(true, Ordering::Relaxed);
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest).unwrap_err();
        assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset);
        assert!(rest.len() < 16 << 20, "{} bytes were on their way to it", rest.len());
    });
}

/// The nodes that have told something.
fn id_of(node: &Node) -> String {
    node.status().expect("it runs")["node_id"].as_str().expect("an id").to_owned()
}

#[test]
fn cluster_is_merged_and_goes_on_without_a_killed_node() {
    let mut cluster = Cluster::start(PROGRAM, "events_cluster", 3, &[], &["0"]);
    let ids: Vec<String> = cluster.nodes.iter().map(id_of).collect();
    let mut events = open(&cluster.nodes[0], "scope=cluster");
    assert_eq!(next(&mut events).json["nodes"].as_array().map(Vec::len), Some(3));
    for _ in 0..3 {
        let is_streaming =
            |event: &Event| event.name() == "node" && event.text("state") == "streaming";
        events.until(TEST_TIMEOUT, "node that streams", is_streaming);
    }
    until(TEST_TIMEOUT, "all stream on, though nothing happens", || {
        // On a busy machine a node may be silent for a second; not for ever.
        let idle = events.all_within(Duration::from_millis(2500));
        idle.iter().all(|event| event.name() != "node").then_some(())
    });
    create(&cluster.nodes[1], "a");
    let first = elections(&mut events, "a");
    let in_time = first.iter().filter(|event| event.json["late"] != true);
    let times: Vec<u64> = in_time.map(Event::at).collect();
    assert!(times.is_sorted(), "{times:?}");

    cluster.nodes[2].kill();
    let killed = Instant::now();
    let goes = |event: &Event| {
        event.name() == "node"
            && event.text("of") == ids[2]
            && ["silent", "down"].contains(&event.text("state"))
    };
    events.until(TEST_TIMEOUT, "node that is silent", goes);
    // What the others say of that comes; they are not waited for.
    let lost = |event: &Event| event.name() == "link" && event.text("peer") == ids[2];
    let mut after = open(&cluster.nodes[1], "scope=cluster&from=0");
    let link = after
        .until(TEST_TIMEOUT, "lost link", |event| lost(event) && event.text("state") == "down");
    assert_ne!(link.text("node"), ids[2]);
    assert!(killed.elapsed() < Duration::from_secs(30), "it is no stall");
    create(&cluster.nodes[0], "b");
    events.until(TEST_TIMEOUT, "elections go on", is_election("b"));

    let first_peer = cluster.nodes[0].peer.to_string();
    cluster.nodes[2].start(&["--join", &first_peer]);
    let gap = |event: &Event| event.name() == "gap" && event.text("of") == ids[2];
    let gap = events.until(TEST_TIMEOUT, "gap of the node that was killed", gap);
    assert_eq!((gap.text("reason"), &gap.json["events"]), ("restart", &json!(null)));
    let started = |event: &Event| event.name() == "node-started" && event.text("node") == ids[2];
    events.until(TEST_TIMEOUT, "its new start", started);
    cluster.nodes[2].wait_until_ready();

    drop((events, after));
    until(TEST_TIMEOUT, "nobody watches", || {
        let viewers = |node: &Node| node.metric("carillon_event_viewers{by=\"nodes\"}");
        cluster.nodes.iter().all(|node| viewers(node) == 0.0).then_some(())
    });
}

#[test]
fn samples_show_routes_and_transactions_of_all_nodes() {
    let cluster = Cluster::start(PROGRAM, "events_routes", 3, &[], &["0"]);
    let mut events = open(&cluster.nodes[0], "scope=cluster&samples=600");
    next(&mut events);
    let mut connection = cluster.nodes[1].connect();
    assert_eq!(connection.ask_line("LOOKUP chord").unwrap().text(), "OK");
    let of_chord =
        |event: &Event| event.name() == "request" && event.json["route"]["lookup"] == "chord";
    let id = id_of(&cluster.nodes[1]);
    let sample = until(TEST_TIMEOUT, "a route with hops", || {
        for n in 0..64 {
            connection.ask_line(&format!("GET key-{n}")).unwrap();
        }
        let all = events.all_within(Duration::from_secs(1));
        let has_steps = |event: &&Event| !event.json["route"]["steps"][0]["node"].is_null();
        all.iter().filter(|event| of_chord(event)).find(has_steps).cloned()
    });
    assert_eq!(sample.text("node"), id);
    let mut plain = cluster.nodes[2].connect();
    let keys: Vec<String> = (0..20).map(|n| format!("key-{n} v")).collect();
    let phases = until(TEST_TIMEOUT, "a whole transaction", || {
        assert_eq!(plain.ask_line(&format!("MSET {}", keys.join(" "))).unwrap().text(), "OK");
        let all = events.all_within(Duration::from_secs(2));
        let first = all.iter().find(|event| event.text("phase") == "prepare")?;
        let same = all.iter().filter(|event| event.text("txn") == first.text("txn"));
        let phases: Vec<String> = same.map(|event| event.text("phase").to_owned()).collect();
        phases.contains(&"finished".to_owned()).then_some(phases)
    });
    let of = |name: &str| phases.iter().filter(|phase| *phase == name).count();
    assert_eq!(
        (phases[0].as_str(), of("prepare"), of("committed")),
        ("prepare", 1, 1),
        "{phases:?}"
    );
    assert!(of("voted") > 1 && of("resolve") >= 1, "{phases:?}");
}

#[test]
fn cluster_is_recorded_into_a_file() {
    let mut cluster = Cluster::start(PROGRAM, "events_record", 3, &[], &["0"]);
    cluster.nodes.iter_mut().for_each(Node::wait_until_ready);
    create(&cluster.nodes[1], "a");
    cluster.wait_until_it_takes_writes(1, "a");
    let directory = harness::process::Directory::new("events_record_out").unwrap();
    let file = directory.path().join("out.jsonl");
    let file_name = file.to_str().unwrap();
    let (code, text) = cluster.nodes[2].carillon(&["record", "--out", file_name]);
    assert_eq!(code, 0, "{text}");
    let recorded = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["type"], &lines[0]["version"]), (&json!("hello"), &json!(1)));
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["reason"]), (&json!("end"), &json!("until")));
    let count = |name: &str| lines.iter().filter(|line| line["type"] == name).count();
    assert_eq!((count("node-started"), count("gap")), (3, 0), "{recorded}");
    let of_a =
        lines.iter().filter(|line| line["type"] == "leader-elected" && line["keyspace"] == "a");
    assert!(of_a.count() >= 8, "{recorded}");
    let (code, text) = cluster.nodes[2].carillon(&["record", "--out", file_name]);
    assert!(code == 1 && text.contains("cannot write"), "what is there stays: {code} {text}");
    let words = ["record", "--out", "-", "--for", "1s", "--types", "leader-elected"];
    let begun = Instant::now();
    let (code, text) = cluster.nodes[0].carillon(&words);
    assert_eq!(code, 0, "{text}");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let (code, text) = cluster.nodes[0].carillon(&["record", "--out", "-", "--types", "nosuch"]);
    assert!(code == 2 && text.contains("there are node-started"), "{code} {text}");
}

#[test]
fn recorded_events_survive_restarts() {
    let directory = harness::process::Directory::new("events_kept").unwrap();
    let kept = directory.path().join("kept");
    let flags = ["--record", kept.to_str().unwrap()];
    let mut node = Node::alone_and_ready(PROGRAM, "events_kept_node", &flags);
    create(&node, "a");
    let mut events = open(&node, "from=0&types=node-started,leader-elected");
    let seen = elections(&mut events, "a");
    drop(events);
    for (number, recorded) in [(1, "whole"), (2, "torn")] {
        match recorded {
            "whole" => node.stop(),
            _ => {
                // What happened before it is written by then.
                thread::sleep(Duration::from_millis(500));
                node.kill();
            }
        }
        node.start(&flags);
        node.wait_until_ready();
        let mut again = resume(&node, "types=node-started,gap", &seen[7]);
        next(&mut again);
        let starts: Vec<Event> = (0..number).map(|_| next(&mut again)).collect();
        assert!(starts.iter().all(|event| event.name() == "node-started"), "{starts:?}");
        assert_eq!(starts[number - 1].text("recorded"), recorded);
    }
    let mut other = Node::alone(PROGRAM, "events_kept_twice", &flags);
    assert!(other.ended_within(TEST_TIMEOUT), "the directory is in use");
    assert!(other.log().contains("another node keeps its events there"), "{}", other.log());
}
