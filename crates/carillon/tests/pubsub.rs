//! Messages to subscribers: in order, past slow ones, from any node to any node.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::node::{Node, TEST_TIMEOUT};
use harness::process::{Directory, Signal};
use harness::resp::{Connection, encode};
use harness::until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

fn ask(connection: &mut Connection, line: &str) -> String {
    connection.ask_line(line).expect("an answer").line()
}

fn next(connection: &mut Connection) -> String {
    connection.reply().expect("a message").text()
}

/// Clients of a Redis Cluster ask every primary and add.
#[test]
fn each_node_counts_its_own_subscribers_in_mode_cluster() {
    let (_dir, nodes) = three_with("own_counts", &["--resp-mode", "cluster"]);
    let mut subscriber = nodes[0].connect();
    for line in ["SUBSCRIBE a", "SSUBSCRIBE s", "PSUBSCRIBE p*"] {
        assert!(ask(&mut subscriber, line).contains(':'));
    }
    let mut all: Vec<Connection> = nodes.iter().map(Node::connect).collect();
    for connection in &mut all {
        until(TEST_TIMEOUT, "the node knows all", || {
            let receivers = ["PUBLISH a x", "PUBLISH pq x", "SPUBLISH s x"];
            (receivers.map(|line| ask(connection, line)) == [":1"; 3]).then_some(())
        });
    }
    for (number, connection) in all.iter_mut().enumerate() {
        let (own, is_there) = (u8::from(number == 0), number == 0);
        let named = |name| if is_there { name } else { "" };
        assert_eq!(ask(connection, "PUBSUB CHANNELS"), named("a"));
        assert_eq!(ask(connection, "PUBSUB SHARDCHANNELS"), named("s"));
        assert_eq!(ask(connection, "PUBSUB NUMSUB a b"), format!("a :{own} b :0"));
        assert_eq!(ask(connection, "PUBSUB SHARDNUMSUB s"), format!("s :{own}"));
        assert_eq!(ask(connection, "PUBSUB NUMPAT"), format!(":{own}"));
    }
}

/// Redis lets the others be queued for compatibility alone.
#[test]
fn shard_channels_are_not_subscribed_to_in_a_transaction() {
    let node = Node::alone_and_ready(PROGRAM, "queued_ssubscribe", &[]);
    let mut connection = node.connect();
    assert_eq!(ask(&mut connection, "MULTI"), "+OK");
    assert_eq!(ask(&mut connection, "SSUBSCRIBE a"), "+QUEUED");
    assert_eq!(ask(&mut connection, "SET k 1"), "+QUEUED");
    let refused = "-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
    assert_eq!(ask(&mut connection, "EXEC"), format!("{refused} +OK"));
    assert_eq!(ask(&mut connection, "SPUBLISH a x"), ":0");
}

/// Three nodes, ready, that know each other.
fn three(name: &str) -> (Directory, Vec<Node>) {
    three_with(name, &[])
}

fn three_with(name: &str, flags: &[&str]) -> (Directory, Vec<Node>) {
    let dir = Directory::new(name).unwrap();
    dir.write_secret().unwrap();
    let mut nodes: Vec<Node> =
        (0..3).map(|number| Node::new(PROGRAM, dir.path(), &format!("n{number}"))).collect();
    let first = nodes[0].peer.to_string();
    nodes[0].start(flags);
    let joining = [&["--join", &first][..], flags].concat();
    nodes[1].start(&joining);
    nodes[2].start(&joining);
    nodes.iter_mut().for_each(Node::wait_until_ready);
    (dir, nodes)
}

/// Waits until a message published on one node reaches all of these subscribers of a channel.
fn wait_until_reached(publisher: &mut Connection, subscribers: usize) {
    until(TEST_TIMEOUT, "a message that reaches all", || {
        (ask(publisher, "PUBSUB NUMSUB ready") == format!("ready :{subscribers}")).then_some(())
    });
}

#[test]
fn messages_of_a_publisher_come_in_order_to_subscribers_of_all_loops() {
    let node = Node::alone_and_ready(PROGRAM, "order", &["--threads", "3"]);
    let mut subscribers: Vec<Connection> = (0..7).map(|_| node.connect()).collect();
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        let line = if number % 2 == 0 { "SUBSCRIBE news" } else { "PSUBSCRIBE n*s" };
        assert!(ask(subscriber, line).ends_with(":1"));
    }
    let mut publisher = node.connect();
    let mut bytes = Vec::new();
    (0..2000).for_each(|n| encode(&mut bytes, &["PUBLISH", "news", &n.to_string()]));
    publisher.send(&bytes).unwrap();
    for n in 0..2000 {
        assert_eq!(publisher.reply().unwrap().line(), ":7");
        for subscriber in &mut subscribers {
            assert!(next(subscriber).ends_with(&format!("news {n}")));
        }
    }
    let info = ask(&mut publisher, "INFO stats");
    assert!(info.contains("pubsub_channels:1") && info.contains("pubsub_patterns:1"), "{info}");
    drop(subscribers);
    until(TEST_TIMEOUT, "no subscribers", || {
        (ask(&mut publisher, "PUBLISH news x") == ":0").then_some(())
    });
}

#[test]
fn a_slow_subscriber_is_cut_off_and_slows_nobody() {
    let flags = ["--threads", "2", "--pubsub-output-bytes-max", "1MiB"];
    let node = Node::alone_and_ready(PROGRAM, "slow", &flags);
    let mut slow = TcpStream::connect(node.resp).unwrap();
    slow.write_all(b"SUBSCRIBE big\r\n").unwrap();
    let mut quick = node.connect();
    assert_eq!(ask(&mut quick, "SUBSCRIBE big"), "subscribe big :1");
    let mut publisher = node.connect();
    until(TEST_TIMEOUT, "both", || {
        (ask(&mut publisher, "PUBSUB NUMSUB big") == "big :2").then_some(())
    });
    let message = "x".repeat(64 << 10);
    let (begin, mut counts) = (Instant::now(), Vec::new());
    // More than any socket's buffers and the limit.
    for _ in 0..400 {
        counts.push(publisher.ask(&["PUBLISH", "big", &message]).unwrap().line());
        assert_eq!(next(&mut quick).len(), "message big ".len() + message.len());
    }
    assert_eq!((counts[0].as_str(), counts[399].as_str()), (":2", ":1"));
    assert!(begin.elapsed() < TEST_TIMEOUT);
    slow.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let (mut rest, mut piece) = (0, [0; 1 << 16]);
    while let Ok(read @ 1..) = slow.read(&mut piece) {
        rest += read;
    }
    assert!(rest < 300 * message.len(), "it got {rest} bytes and was not cut off");
    assert!(node.metric("carillon_subscribers_cut_off_total") >= 1.0);
}

#[test]
fn who_gets_a_message_may_read_what_its_publisher_wrote_before() {
    let (_dir, nodes) = three("before");
    let mut publisher = nodes[0].connect();
    let (mut subscriber, mut reader) = (nodes[1].connect(), nodes[1].connect());
    assert_eq!(ask(&mut subscriber, "SUBSCRIBE ready"), "subscribe ready :1");
    wait_until_reached(&mut publisher, 1);
    until(TEST_TIMEOUT, "a leader", || (ask(&mut publisher, "SET k 0") == "+OK").then_some(()));
    let mut bytes = Vec::new();
    for n in 1..=100 {
        encode(&mut bytes, &["SET", "k", &n.to_string()]);
        encode(&mut bytes, &["PUBLISH", "ready", &n.to_string()]);
    }
    publisher.send(&bytes).unwrap();
    for n in 1..=100 {
        assert_eq!(next(&mut subscriber), format!("message ready {n}"));
        let found: i64 = ask(&mut reader, "GET k").parse().expect("a number");
        assert!(found >= n, "message {n} came before its value: {found}");
    }
    let replies: Vec<String> = (0..200).map(|_| publisher.reply().unwrap().line()).collect();
    assert!(replies.chunks(2).all(|pair| pair == ["+OK", ":1"]), "{replies:?}");
}

#[test]
fn messages_go_from_any_node_to_any_node_and_outlive_the_death_of_one() {
    let (_dir, mut nodes) = three("any");
    let mut publishers: Vec<Connection> = nodes.iter().map(Node::connect).collect();
    let mut subscribers: Vec<Connection> = nodes.iter().map(Node::connect).collect();
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        let line = ["SUBSCRIBE ready", "PSUBSCRIBE re*", "SUBSCRIBE ready"][number];
        assert!(ask(subscriber, line).ends_with(":1"));
    }
    for publisher in &mut publishers {
        wait_until_reached(publisher, 2);
    }
    // A subscription's reply comes when all know it: the first message is there.
    for (number, publisher) in publishers.iter_mut().enumerate() {
        let channel = format!("own{number}");
        assert_eq!(
            ask(&mut subscribers[(number + 1) % 3], &format!("SUBSCRIBE {channel}")),
            format!("subscribe {channel} :2")
        );
        assert_eq!(ask(publisher, &format!("PUBLISH {channel} first")), ":1");
        let subscriber = &mut subscribers[(number + 1) % 3];
        assert_eq!(next(subscriber), format!("message {channel} first"));
        assert_eq!(ask(publisher, "PUBLISH ready hello"), ":3");
        subscribers.iter_mut().for_each(|s| assert!(next(s).ends_with("ready hello")));
    }
    assert_eq!(ask(&mut publishers[0], "PUBSUB NUMPAT"), ":1");
    assert_eq!(ask(&mut publishers[1], "PUBSUB CHANNELS own*"), "own0 own1 own2");
    assert_eq!(ask(&mut subscribers[0], "SSUBSCRIBE shard"), "ssubscribe shard :1");
    assert_eq!(ask(&mut publishers[2], "SPUBLISH shard x"), ":1");
    assert_eq!(next(&mut subscribers[0]), "smessage shard x");

    nodes[2].kill();
    until(TEST_TIMEOUT, "the dead node's subscribers to be gone", || {
        (ask(&mut publishers[0], "PUBSUB NUMSUB ready") == "ready :1").then_some(())
    });
    let begin = Instant::now();
    for n in 0..500 {
        assert_eq!(ask(&mut publishers[1], &format!("PUBLISH ready {n}")), ":2");
        (0..2).for_each(|s| assert!(next(&mut subscribers[s]).ends_with(&format!("ready {n}"))));
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "nobody waits for the dead node");

    let first = nodes[0].peer.to_string();
    nodes[2].start(&["--join", &first]);
    nodes[2].wait_until_ready();
    let mut back = nodes[2].connect();
    // It learns what the others want, and they what its clients want.
    wait_until_reached(&mut back, 1);
    until(TEST_TIMEOUT, "the pattern to be known", || {
        (ask(&mut back, "PUBSUB NUMPAT") == ":1").then_some(())
    });
    assert_eq!(ask(&mut back, "PUBLISH ready again"), ":2");
    assert!(next(&mut subscribers[1]).ends_with("ready again"));
    assert_eq!(ask(&mut back, "SUBSCRIBE late"), "subscribe late :1");
    until(TEST_TIMEOUT, "its subscription to be known", || {
        (ask(&mut publishers[1], "PUBLISH late x") == ":1").then_some(())
    });
}

#[test]
fn idle_subscribers_stay_and_killed_ones_are_gone() {
    let node = Node::alone_and_ready(PROGRAM, "idle", &["--idle-timeout-ms", "1000"]);
    let mut subscriber = node.connect();
    assert_eq!(ask(&mut subscriber, "SUBSCRIBE a"), "subscribe a :1");
    std::thread::sleep(Duration::from_millis(3500));
    let mut other = node.connect();
    assert_eq!(ask(&mut other, "PUBLISH a x"), ":1");
    assert_eq!(next(&mut subscriber), "message a x");
    let listed = ask(&mut other, "CLIENT LIST TYPE pubsub");
    assert!(listed.contains(" flags=P db=0 sub=1 psub=0 ssub=0 "), "{listed}");
    assert!(!ask(&mut other, "CLIENT LIST TYPE normal").contains("sub=1"));
    assert_eq!(ask(&mut other, "CLIENT KILL TYPE pubsub"), ":1");
    assert!(subscriber.is_at_its_end());
    until(TEST_TIMEOUT, "nobody", || (ask(&mut other, "PUBLISH a x") == ":0").then_some(()));
}

#[test]
fn nobody_waits_long_for_a_node_that_hangs() {
    let (_dir, mut nodes) = three("hangs");
    let mut publisher = nodes[0].connect();
    let mut subscribers: Vec<Connection> = nodes[1..].iter().map(Node::connect).collect();
    subscribers.iter_mut().for_each(|s| assert_eq!(ask(s, "SUBSCRIBE a"), "subscribe a :1"));
    until(TEST_TIMEOUT, "both", || {
        (ask(&mut publisher, "PUBSUB NUMSUB a") == "a :2").then_some(())
    });
    nodes[2].signal(Signal::Stop);
    let begin = Instant::now();
    let mut bytes = Vec::new();
    (0..100).for_each(|n| encode(&mut bytes, &["PUBLISH", "a", &n.to_string()]));
    publisher.send(&bytes).unwrap();
    for n in 0..100 {
        assert_eq!(next(&mut subscribers[0]), format!("message a {n}"));
        assert_eq!(publisher.reply().unwrap().line(), ":1", "it has not answered");
    }
    let mut late = nodes[1].connect();
    assert_eq!(ask(&mut late, "SUBSCRIBE b"), "subscribe b :1");
    assert!(begin.elapsed() < Duration::from_secs(10), "all wait together: {:?}", begin.elapsed());
    nodes[2].signal(Signal::Continue);
    until(TEST_TIMEOUT, "it to answer again", || {
        (ask(&mut publisher, "PUBLISH a last") == ":2").then_some(())
    });
}

#[test]
fn messages_stay_on_their_node_below_cluster_version_2() {
    let dir = Directory::new("version").unwrap();
    dir.write_secret().unwrap();
    let mut nodes: Vec<Node> =
        (0..2).map(|number| Node::new(PROGRAM, dir.path(), &format!("n{number}"))).collect();
    let first = nodes[0].peer.to_string();
    let flags = ["--cluster-version-max", "1"];
    nodes[0].start(&flags);
    nodes[1].start(&[&flags[..], &["--join", &first]].concat());
    nodes.iter_mut().for_each(Node::wait_until_ready);
    let (mut here, mut there) = (nodes[0].connect(), nodes[1].connect());
    let mut publisher = nodes[0].connect();
    assert_eq!(ask(&mut here, "SUBSCRIBE a"), "subscribe a :1");
    assert_eq!(ask(&mut there, "SUBSCRIBE a"), "subscribe a :1");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(ask(&mut publisher, "PUBLISH a x"), ":1");
    assert_eq!(next(&mut here), "message a x");
}
