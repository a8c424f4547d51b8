//! Change feeds of real processes: nothing is lost, doubled, reordered or told in parts, while
//! nodes are killed and the feed goes on at others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use client::http::{
    Changed, ClientError, Feed, FeedChange, FeedCommit, FeedEvent, FeedOptions, GetResult,
};
use harness::cluster::Cluster;
use harness::node::{Node, TEST_TIMEOUT};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const KEYSPACE: &str = "f";
const ACCOUNTS: usize = 16;

fn prepared(name: &str) -> Cluster {
    let cluster = Cluster::start(PROGRAM, name, 3, &[], &["0"]);
    let words = ["keyspace", "create", KEYSPACE, "--replicas", "3"];
    let (code, text) = cluster.nodes[0].carillon(&words);
    assert_eq!(code, 0, "{text}");
    (0..3).for_each(|number| cluster.wait_until_it_takes_writes(number, KEYSPACE));
    cluster
}

fn options() -> FeedOptions {
    let keyspace = KEYSPACE.to_owned();
    FeedOptions { keyspace, no_node_timeout: Duration::from_secs(30), ..FeedOptions::default() }
}

fn feed(cluster: &Cluster, number: usize, options: FeedOptions) -> Feed {
    Feed::open([cluster.nodes[number].http.to_string()], options).unwrap()
}

/// The commits of a feed until one of them has the key, this one last.
#[track_caller]
fn commits_until(feed: &mut Feed, key: &str) -> Vec<FeedCommit> {
    let (mut commits, until) = (Vec::new(), Instant::now() + TEST_TIMEOUT);
    while Instant::now() < until {
        if let FeedEvent::Commit(commit) = feed.next().expect("an event").expect("it goes on") {
            let is_last = commit.changes.iter().any(|one| one.key == key.as_bytes());
            commits.push(commit);
            if is_last {
                return commits;
            }
        }
    }
    panic!("{key} was not told in time: {commits:?}");
}

fn put(change: &FeedChange) -> Option<&str> {
    match &change.what {
        Changed::Put { value, .. } => std::str::from_utf8(value).ok(),
        Changed::Deleted | Changed::Expired => None,
    }
}

#[test]
fn feed_goes_on_elsewhere_when_its_node_is_killed_and_loses_and_doubles_nothing() {
    let mut cluster = prepared("feeds_killed");
    for number in 0..ACCOUNTS {
        let key = format!("account-{number}");
        cluster.nodes[0]
            .client()
            .put(KEYSPACE, key.as_bytes(), b"100", &Default::default())
            .unwrap();
    }
    // A client of node 2 transfers between shards: each transaction writes its number to both.
    let ends = Arc::new(AtomicBool::new(false));
    let writer = {
        let (ends, mut connection) = (ends.clone(), cluster.nodes[2].connect());
        thread::spawn(move || {
            connection.ask(&["SELECT", KEYSPACE]).unwrap();
            let mut done = Vec::new();
            for number in 0_u64.. {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let (one, two) = (number as usize % ACCOUNTS, (number as usize * 5 + 1) % ACCOUNTS);
                let words = [format!("account-{one}"), format!("account-{two}")];
                let value = number.to_string();
                let reply =
                    connection.ask(&["MSET", &words[0], &value, &words[1], &value]).unwrap();
                // While no leader is known it may not be done, or nobody knows.
                if reply.text() == "OK" {
                    done.push(number);
                }
            }
            done
        })
    };
    let (sender, told) = mpsc::channel();
    let reader = {
        let mut feed = feed(&cluster, 0, FeedOptions { before: true, ..options() });
        thread::spawn(move || {
            for event in &mut feed {
                let event = event.expect("the feed goes on");
                let is_end = matches!(&event, FeedEvent::Commit(commit)
                    if commit.changes.iter().any(|one| one.key == b"end"));
                sender.send(event).unwrap();
                if is_end {
                    return;
                }
            }
        })
    };
    let begun = told.recv_timeout(TEST_TIMEOUT).unwrap();
    let FeedEvent::Begun { address, .. } = &begun else { panic!("{begun:?}") };
    assert_eq!(*address, cluster.nodes[0].http.to_string());
    thread::sleep(Duration::from_millis(700));
    cluster.nodes[0].kill();
    thread::sleep(Duration::from_millis(1500));
    cluster.nodes[0].start(&[]);
    cluster.wait_until_it_takes_writes(0, KEYSPACE);
    cluster.nodes[1].kill();
    thread::sleep(Duration::from_millis(1500));
    cluster.nodes[1].start(&[]);
    cluster.wait_until_it_takes_writes(1, KEYSPACE);
    ends.store(true, Ordering::Relaxed);
    let done = writer.join().unwrap();
    cluster.nodes[2].client().put(KEYSPACE, b"end", b"", &Default::default()).unwrap();
    reader.join().unwrap();
    let events: Vec<FeedEvent> = told.try_iter().collect();
    let served: Vec<_> =
        events.iter().filter(|event| matches!(event, FeedEvent::Begun { .. })).collect();
    assert!(!served.is_empty(), "another node went on");
    let (mut last_version, mut last) = (0_u64, BTreeMap::new());
    let mut numbers = Vec::new();
    for event in &events {
        let FeedEvent::Commit(FeedCommit { version, changes, .. }) = event else { continue };
        let version: u64 = version.parse().unwrap();
        assert!(version > last_version, "{version} behind {last_version}");
        last_version = version;
        for change in changes {
            if let Some(value) = last.get(&change.key) {
                assert_eq!(change.before.as_ref(), Some(value), "nothing of it is missing");
            }
            let value = put(change).expect("only puts").as_bytes().to_vec();
            last.insert(change.key.clone(), value);
        }
        let of_accounts = changes.iter().filter(|one| one.key.starts_with(b"account-"));
        let values: BTreeSet<&str> = of_accounts.clone().filter_map(put).collect();
        if let Some(value) = values.first() {
            assert_eq!(values.len(), 1, "one transaction: {changes:?}");
            let number: usize = value.parse().unwrap();
            let keys = BTreeSet::from([number % ACCOUNTS, (number * 5 + 1) % ACCOUNTS]);
            assert_eq!(of_accounts.count(), keys.len(), "all of it at once: {changes:?}");
            numbers.push(number as u64);
        }
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "in order, each once");
    let told: BTreeSet<u64> = numbers.iter().copied().collect();
    let first = *told.first().expect("transactions were told");
    let missing: Vec<_> = done.iter().filter(|n| **n >= first && !told.contains(n)).collect();
    assert!(missing.is_empty(), "{missing:?} of {} were not told", done.len());
    assert!(done.len() > 20 && told.len() > 20, "{} and {}", done.len(), told.len());
}

#[test]
fn feed_tells_values_changes_ends_and_resumes_by_any_token_at_any_node() {
    let cluster = prepared("feeds_kinds");
    let mut connection = cluster.nodes[1].connect();
    let mut ask = |words: &[&str]| connection.ask(words).unwrap().text().to_owned();
    assert_eq!(ask(&["SELECT", KEYSPACE]), "OK");
    assert_eq!(ask(&["MSET", "order:1", "a", "order:2", "b", "other", "x"]), "OK");
    let prefix = Some(b"order:".to_vec());
    let with_values =
        FeedOptions { prefix: prefix.clone(), snapshot: true, before: true, ..options() };
    let mut first = feed(&cluster, 0, with_values);
    let mut values = BTreeMap::new();
    let token = loop {
        match first.next().unwrap().unwrap() {
            FeedEvent::Value { key, value, .. } => {
                values.insert(key, value);
            }
            FeedEvent::ValuesEnd { token } => break token,
            FeedEvent::Begun { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(values, BTreeMap::from([pair("order:1", "a"), pair("order:2", "b")]));
    assert_eq!(ask(&["SET", "order:1", "c", "PX", "300"]), "OK");
    assert_eq!(ask(&["DEL", "order:2", "other"]), "2");
    thread::sleep(Duration::from_millis(400));
    assert_eq!(ask(&["SET", "order:end", "z"]), "OK");
    let told = commits_until(&mut first, "order:end");
    let text = |commits: &[FeedCommit]| -> Vec<String> {
        let changes = commits.iter().flat_map(|commit| &commit.changes);
        let shown = changes.map(|one| {
            let before = one.before.as_ref().map(|before| String::from_utf8_lossy(before));
            let key = String::from_utf8_lossy(&one.key);
            match &one.what {
                Changed::Put { value, .. } => {
                    format!("{key} put {} before {before:?}", String::from_utf8_lossy(value))
                }
                Changed::Deleted => format!("{key} deleted before {before:?}"),
                Changed::Expired => format!("{key} expired before {before:?}"),
            }
        });
        shown.collect()
    };
    let all = [
        "order:1 put c before Some(\"a\")",
        "order:2 deleted before Some(\"b\")",
        "order:1 expired before Some(\"c\")",
        "order:end put z before None",
    ];
    assert_eq!(text(&told), all);
    // The same from the store, at each node and from each token.
    let tokens = [&token].into_iter().chain(told.iter().map(|commit| &commit.token));
    for (skipped, token) in tokens.take(4).enumerate() {
        for number in 0..3 {
            let since = Some(token.clone());
            let again = FeedOptions { prefix: prefix.clone(), before: true, since, ..options() };
            let told = commits_until(&mut feed(&cluster, number, again), "order:end");
            assert_eq!(text(&told), all[skipped..], "since {token} at node {number}");
        }
    }
    // One key, a range, the command line.
    let one =
        FeedOptions { key: Some(b"order:1".to_vec()), since: Some(token.clone()), ..options() };
    let mut one = feed(&cluster, 2, one);
    assert_eq!(commits_until(&mut one, "order:1").len(), 1);
    let range = FeedOptions {
        from: Some(b"order:2".to_vec()),
        to: Some(b"order:z".to_vec()),
        since: Some(token.clone()),
        ..options()
    };
    let told = commits_until(&mut feed(&cluster, 2, range), "order:end");
    assert_eq!(told.len(), 2, "{told:?}");
    let words = ["feed", "--keyspace", KEYSPACE, "--prefix", "order:", "--since", &token];
    let (code, text) = cluster.nodes[2].carillon(&[&words[..], &["--commits", "4"]].concat());
    assert_eq!(code, 0, "{text}");
    for line in ["put      order:1 = c", "deleted  order:2", "expired  order:1", "order:end = z"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    // A position is a time that reads take.
    let got = cluster.nodes[0].client().get(KEYSPACE, b"order:2", Some(&token)).unwrap();
    assert!(matches!(got, GetResult::Value { value, .. } if value == b"b"));
}

#[test]
fn feed_that_comes_too_late_is_told_where_to_begin_again() {
    let cluster = prepared("feeds_late");
    let (code, token) = cluster.nodes[0].carillon(&["snapshot", "take", "--keyspace", KEYSPACE]);
    assert_eq!(code, 0, "{token}");
    let token = token.trim().to_owned();
    let (code, text) = cluster.nodes[0].carillon(&["snapshot", "release", &token]);
    assert_eq!(code, 0, "{text}");
    let client = cluster.nodes[1].client();
    client.put(KEYSPACE, b"k", b"1", &Default::default()).unwrap();
    thread::sleep(Duration::from_millis(50));
    let until = Instant::now() + TEST_TIMEOUT;
    let refused = loop {
        let (code, text) = cluster.nodes[0].carillon(&["gc", "--keyspace", KEYSPACE]);
        assert_eq!(code, 0, "{text}");
        let late = FeedOptions { since: Some(token.clone()), ..options() };
        let mut feed = feed(&cluster, 2, late).filter(|event| {
            !matches!(event, Ok(FeedEvent::Begun { .. } | FeedEvent::Resolved { .. }))
        });
        match feed.next() {
            Some(Err(ClientError::Refused(problem))) => break problem,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
    };
    assert_eq!(refused.kind, "too-late", "{refused:?}");
    let restart = refused.detail.split_whitespace().last().unwrap().to_owned();
    let again = FeedOptions { since: Some(restart), snapshot: true, ..options() };
    let mut again = feed(&cluster, 0, again);
    let value =
        again.find(|event| matches!(event, Ok(FeedEvent::Value { key, .. }) if key == b"k"));
    assert!(value.is_some());
    for (query, part) in [
        ("since=snap-0000000000000001-0-5", "cluster"),
        ("since=yesterday", "since"),
        ("prefix=a&key=b", "exclude"),
        ("format=xml", "json or raw"),
        ("sinc=now", "did you mean"),
        ("keyspace=none", "there is no keyspace"),
    ] {
        let path = format!("/v1/feed?{query}");
        let reply = client.send(&client::http::Request::get(&path)).unwrap();
        let text = reply.text();
        assert!((400..500).contains(&reply.status) && text.contains(part), "{query}: {text}");
    }
}

/// Compaction: of what lies behind the reader when it connects, how each key changed last.
#[test]
fn compacted_feed_tells_how_each_key_changed_last_and_then_all() {
    let cluster = prepared("feeds_compacted");
    let mut connection = cluster.nodes[1].connect();
    let mut ask = |words: &[&str]| connection.ask(words).unwrap().text().to_owned();
    assert_eq!(ask(&["SELECT", KEYSPACE]), "OK");
    assert_eq!(ask(&["SET", "first", "0"]), "OK");
    let mut whole = feed(&cluster, 0, options());
    let FeedEvent::Begun { token, .. } = whole.next().unwrap().unwrap() else { panic!("no hello") };
    for number in 0..50 {
        let value = number.to_string();
        assert_eq!(ask(&["MSET", "hot", &value, &format!("k{}", number % 5), &value]), "OK");
    }
    assert_eq!(ask(&["DEL", "k0"]), "1");
    assert_eq!(ask(&["SET", "k1", "short", "PX", "50"]), "OK");
    thread::sleep(Duration::from_millis(200));
    assert_eq!(ask(&["SET", "last", "x"]), "OK");
    let told = |commits: &[FeedCommit]| -> Vec<(String, String)> {
        let changes = commits.iter().flat_map(|commit| &commit.changes);
        let shown = changes.map(|one| {
            let what = match put(one) {
                Some(value) => value.to_owned(),
                None => format!("{:?}", one.what),
            };
            (String::from_utf8_lossy(&one.key).into_owned(), what)
        });
        shown.collect()
    };
    let all = told(&commits_until(&mut whole, "last"));
    assert_eq!(all.len(), 104, "each change: {all:?}");
    let pairs = [
        ("k2", "47"),
        ("k3", "48"),
        ("hot", "49"),
        ("k4", "49"),
        ("k0", "Deleted"),
        ("k1", "Expired"),
        ("last", "x"),
    ];
    let newest: Vec<_> = pairs.map(|(key, what)| (key.to_owned(), what.to_owned())).into();
    let compacted = FeedOptions { compact: true, since: Some(token.clone()), ..options() };
    let mut feeds: Vec<Feed> = (0..3).map(|at| feed(&cluster, at, compacted.clone())).collect();
    for (number, feed) in feeds.iter_mut().enumerate() {
        let past = told(&commits_until(feed, "last"));
        assert_eq!(past, newest, "at node {number}");
    }
    // What comes from now on comes whole.
    for value in ["1", "2", "3"] {
        assert_eq!(ask(&["SET", "hot", value]), "OK");
    }
    assert_eq!(ask(&["SET", "end", ""]), "OK");
    for feed in &mut feeds {
        let live = told(&commits_until(feed, "end"));
        assert_eq!(live.len(), 4, "{live:?}");
    }
    let flags = ["--keyspace", KEYSPACE, "--since", &token, "--compact", "--commits", "5"];
    let (code, text) = cluster.nodes[2].carillon(&[&["feed"][..], &flags].concat());
    assert_eq!(code, 0, "{text}");
    assert!(!text.contains("hot = ") && text.contains("k4 = 49"), "{text}");
}

/// 300 readers that never read: 32 are served and the node keeps a bounded number of bytes for
/// them; the others hear why not, and everybody else goes on.
#[test]
fn feeds_that_nobody_reads_keep_bounded_memory() {
    const READERS: usize = 300;
    const SERVED: usize = 32;
    /// What a feed may keep, and as much again for what it hands over and the allocator.
    const FEED_BYTES: u64 = 32 << 20;
    let node = Node::alone_and_ready(PROGRAM, "feeds_unread", &[]);
    let mut connection = node.connect();
    assert_eq!(connection.ask(&["SET", "first", "0"]).unwrap().text(), "OK");
    let readers: Vec<TcpStream> = (0..READERS)
        .map(|_| {
            let mut socket = TcpStream::connect(node.http).unwrap();
            write!(socket, "GET /v1/feed HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
            socket
        })
        .collect();
    // Each is answered, which is all that they read.
    let heads = readers.iter().map(|socket| {
        let mut head = [0; 12];
        let mut socket: &TcpStream = socket;
        socket.read_exact(&mut head).unwrap();
        String::from_utf8_lossy(&head).into_owned()
    });
    let heads: Vec<String> = heads.collect();
    let count = |head: &str| heads.iter().filter(|one| *one == head).count();
    assert_eq!(count("HTTP/1.1 200"), SERVED, "{heads:?}");
    assert_eq!(count("HTTP/1.1 503"), READERS - SERVED, "{heads:?}");
    let reply = node.client().send(&client::http::Request::get("/v1/feed")).unwrap();
    assert!(reply.text().contains("32 change feeds"), "{}", reply.text());

    // Each feed is behind by twice of what it may keep; the store has it once.
    let before = resident_bytes(&node);
    let value = "v".repeat(64 << 10);
    let written = 2 * FEED_BYTES;
    for number in 0..written / value.len() as u64 {
        let key = format!("k{}", number % 16);
        let since = Instant::now();
        assert_eq!(connection.ask(&["SET", &key, &value]).unwrap().text(), "OK");
        assert!(since.elapsed() < Duration::from_secs(10), "writers wait for nobody");
    }
    thread::sleep(Duration::from_secs(2));
    let grown = resident_bytes(&node).saturating_sub(before);
    let most = 2 * written + SERVED as u64 * FEED_BYTES;
    assert!(grown < most, "{grown} bytes more, of at most {most}");
    drop(readers);
    // Their places are free.
    let until = Instant::now() + TEST_TIMEOUT;
    let options = FeedOptions { no_node_timeout: TEST_TIMEOUT, ..FeedOptions::default() };
    let mut feed = Feed::open([node.http.to_string()], options).unwrap();
    while !matches!(feed.next().unwrap().unwrap(), FeedEvent::Begun { .. }) {
        assert!(Instant::now() < until);
    }
    assert_eq!(connection.ask(&["SET", "end", ""]).unwrap().text(), "OK");
    assert_eq!(commits_until(&mut feed, "end").len(), 1);
}

/// The memory that a node's process has.
fn resident_bytes(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// What no client of good will sends gets an answer in words, and the node goes on.
#[test]
fn feeds_refuse_what_is_malformed_foreign_or_too_long() {
    let node = Node::alone_and_ready(PROGRAM, "feeds_refusals", &[]);
    let mut connection = node.connect();
    assert_eq!(connection.ask(&["SET", "k", "v"]).unwrap().text(), "OK");
    let head = |path: &str, more: &str| {
        let mut socket = TcpStream::connect(node.http).unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        // Who is refused early may hear of it before all is sent.
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n");
        let _refused_early = socket.write_all(request.as_bytes());
        let mut reply = Vec::new();
        let _reset = socket.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    };
    let foreign = "snap-00000000deadbeef-0-117683810340962305";
    for (path, more, wanted) in [
        (format!("/v1/feed?since={foreign}"), String::new(), ["HTTP/1.1 400", "cluster"]),
        ("/v1/feed".into(), format!("last-event-id: {foreign}\r\n"), ["HTTP/1.1 400", "cluster"]),
        ("/v1/feed?since=snap-".into(), String::new(), ["HTTP/1.1 400", "since"]),
        ("/v1/feed?since=snap-zz-0-1".into(), String::new(), ["HTTP/1.1 400", "since"]),
        ("/v1/feed?since=%ff%fe".into(), String::new(), ["HTTP/1.1 400", "UTF-8"]),
        ("/v1/feed?since=2200-01-01T00:00:00Z".into(), String::new(), ["HTTP/1.1 4", "in-future"]),
        ("/v1/feed?compact=perhaps".into(), String::new(), ["HTTP/1.1 400", "compact"]),
        (format!("/v1/feed?prefix={}", "p".repeat(70_000)), String::new(), ["HTTP/1.1 414", ""]),
    ] {
        let reply = head(&path, &more);
        let shown: String = path.chars().take(60).collect();
        assert!(wanted.iter().all(|part| reply.contains(part)), "{shown}: {reply}");
    }
    // As long as a request may be: a feed like any other, of nothing.
    let prefix = "p".repeat(65_000);
    let options = FeedOptions { prefix: Some(prefix.into_bytes()), ..FeedOptions::default() };
    let mut feed = Feed::open([node.http.to_string()], options).unwrap();
    assert!(matches!(feed.next().unwrap().unwrap(), FeedEvent::Begun { .. }));
    // Notifications: a pattern of 64 KiB is one, and a longer one is refused.
    let pattern = |bytes: usize| format!("__keyspace@0__:{}*", "p".repeat(bytes - 16));
    let mut subscriber = node.connect();
    let refused = subscriber.ask(&["PSUBSCRIBE", &pattern((64 << 10) + 1)]).unwrap();
    assert!(refused.line().starts_with('-'), "{}", refused.line());
    let mut subscriber = node.connect();
    let taken = subscriber.ask(&["PSUBSCRIBE", &pattern(64 << 10)]).unwrap();
    assert!(taken.text().starts_with("psubscribe"), "{}", taken.line().len());
    assert_eq!(connection.ask(&["GET", "k"]).unwrap().text(), "v");
}

#[test]
fn keyspace_notifications_tell_of_changes_through_any_node() {
    let cluster = Cluster::start(PROGRAM, "feeds_notifications", 3, &[], &["0"]);
    let mut subscriber = cluster.nodes[2].connect();
    let flags = subscriber.ask(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]).unwrap();
    assert_eq!(flags.text(), "OK");
    let flags = subscriber.ask(&["CONFIG", "GET", "notify-keyspace-events"]).unwrap();
    assert!(flags.line().contains("AKE"), "{}", flags.line());
    subscriber.ask(&["PSUBSCRIBE", "__key*@0__:n-*", "__keyevent@0__:*"]).unwrap();
    subscriber.reply().unwrap();
    let mut writer = cluster.nodes[0].connect();
    // Until the feed has begun.
    let (sender, heard) = mpsc::channel();
    thread::spawn(move || {
        while let Ok(reply) = subscriber.reply() {
            if sender.send(reply.line()).is_err() {
                return;
            }
        }
    });
    let until = Instant::now() + TEST_TIMEOUT;
    loop {
        writer.ask(&["SET", "begun", "1"]).unwrap();
        if heard.recv_timeout(Duration::from_millis(200)).is_ok() {
            break;
        }
        assert!(Instant::now() < until, "nothing is heard");
    }
    assert_eq!(writer.ask(&["SET", "n-1", "v", "PX", "200"]).unwrap().text(), "OK");
    assert_eq!(writer.ask(&["SET", "n-2", "v"]).unwrap().text(), "OK");
    assert_eq!(writer.ask(&["DEL", "n-2"]).unwrap().text(), "1");
    let mut all = Vec::new();
    while Instant::now() < until && !all.iter().any(|line: &String| line.ends_with("expired n-1")) {
        if let Ok(line) = heard.recv_timeout(Duration::from_secs(1)) {
            all.extend(Some(line).filter(|line| line.contains("n-")));
        }
    }
    let wanted = [
        "pmessage __key*@0__:n-* __keyspace@0__:n-1 set",
        "pmessage __keyevent@0__:* __keyevent@0__:set n-1",
        "pmessage __key*@0__:n-* __keyspace@0__:n-2 set",
        "pmessage __keyevent@0__:* __keyevent@0__:set n-2",
        "pmessage __key*@0__:n-* __keyspace@0__:n-2 del",
        "pmessage __keyevent@0__:* __keyevent@0__:del n-2",
        "pmessage __key*@0__:n-* __keyspace@0__:n-1 expired",
        "pmessage __keyevent@0__:* __keyevent@0__:expired n-1",
    ];
    assert_eq!(all, wanted);
    let refused = writer.ask(&["CONFIG", "SET", "notify-keyspace-events", "KX"]).unwrap();
    assert!(refused.text().contains("Invalid event class"), "{}", refused.text());
}
