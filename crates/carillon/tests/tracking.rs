//! Clients that cache what they read hear of changes (`CLIENT TRACKING`): on one node, and made
//! through any of three.

mod caching;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use caching::{Client, three};
use harness::node::{Node, TEST_TIMEOUT};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

#[test]
fn changes_invalidate_what_a_connection_has_read_before_its_own_replies() {
    let node = Node::alone_and_ready(PROGRAM, "tracking", &["--threads", "2"]);
    let (mut client, mut other) = (Client::tracking(&node, ""), Client::of(&node));
    assert_eq!(client.ask("GET k"), "nil");
    other.ask("SET k 1");
    client.hears("invalidate k");
    other.ask("SET k 2");
    assert_eq!(client.heard(), [""; 0], "it has not read it again");

    assert_eq!(client.ask("GET k"), "2");
    client.send("SET k 3");
    assert_eq!(client.frame(), (true, "invalidate k".into()), "before the reply");
    assert_eq!(client.frame(), (false, "OK".into()));

    for (setup, change) in [
        ("SET k 1", "DEL k"),
        ("SET k 1", "EXPIRE k 1000"),
        ("SET k 1", "RENAME k {k}2"),
        ("SET k 1", "PEXPIRE k 30"),
        ("SET k 1", "MSET k 2 other 3"),
    ] {
        other.ask(setup);
        client.heard();
        assert_eq!(client.ask("GET k"), "1", "{change}");
        other.ask(change);
        client.hears("invalidate k");
    }
    other.ask("SET k 1");
    assert_eq!(client.ask("MGET k x y"), "1 nil nil");
    other.ask("FLUSHALL");
    client.hears("invalidate nil");
    // A value that expires by itself.
    other.ask("SET k 1 PX 60");
    client.heard();
    assert_eq!(client.ask("GET k"), "1");
    client.hears("invalidate k");
}

#[test]
fn options_choose_what_is_tracked_and_who_hears() {
    let node = Node::alone_and_ready(PROGRAM, "options", &["--threads", "2"]);
    let mut other = Client::of(&node);

    let mut client = Client::tracking(&node, "OPTIN");
    client.ask("GET a");
    client.ask("CLIENT CACHING YES");
    client.ask("GET b");
    client.ask("CLIENT CACHING YES");
    for line in ["MULTI", "GET c", "EXEC"] {
        client.ask(line);
    }
    other.ask("MSET a 1 b 1 c 1");
    let (mut heard, until) = (BTreeSet::new(), Instant::now() + TEST_TIMEOUT);
    while heard.len() < 3 {
        assert!(Instant::now() < until, "{heard:?}");
        std::thread::sleep(Duration::from_millis(5));
        for push in client.heard() {
            heard.extend(push.split(' ').map(str::to_owned));
        }
    }
    assert_eq!(heard, ["b", "c", "invalidate"].map(str::to_owned).into());

    let mut client = Client::tracking(&node, "OPTOUT NOLOOP");
    client.ask("CLIENT CACHING NO");
    client.ask("GET a");
    client.ask("GET b");
    client.ask("SET b 2");
    assert_eq!(client.heard(), [""; 0], "it has changed that itself");
    client.ask("GET b");
    other.ask("SET a 2");
    other.ask("SET b 3");
    client.hears("invalidate b");
    assert_eq!(client.heard(), [""; 0]);

    let mut client = Client::tracking(&node, "BCAST PREFIX u: PREFIX v:");
    other.ask("SET x 1");
    other.ask("SET u:1 1");
    client.hears("invalidate u:1");
    assert_eq!(client.heard(), [""; 0]);

    let mut listener = Client::of(&node);
    let id = listener.ask("CLIENT ID");
    listener.send("SUBSCRIBE __redis__:invalidate");
    listener.frame();
    let mut client = Client::of(&node);
    assert_eq!(client.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "OK");
    assert_eq!(client.ask("CLIENT GETREDIR"), id);
    client.ask("GET k");
    other.ask("SET k 1");
    assert_eq!(listener.frame().1, "message __redis__:invalidate k");
    drop(listener);
    let until = Instant::now() + TEST_TIMEOUT;
    while !client.ask("CLIENT TRACKINGINFO").contains("broken_redirect") {
        assert!(Instant::now() < until, "the node finds out");
        client.ask("GET k");
        other.ask("INCR k");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_full_table_gives_keys_up_and_says_so() {
    let node = Node::alone_and_ready(PROGRAM, "full", &["--tracking-keys-max", "10"]);
    let mut client = Client::tracking(&node, "");
    (0..30).for_each(|key| _ = client.ask(&format!("GET key:{key}")));
    let mut heard = client.heard();
    let until = Instant::now() + TEST_TIMEOUT;
    while heard.len() < 20 {
        assert!(Instant::now() < until, "{heard:?}");
        std::thread::sleep(Duration::from_millis(5));
        heard.extend(client.heard());
    }
    assert_eq!(heard.len(), 20, "{heard:?}");
}

#[test]
fn a_change_through_any_node_invalidates_at_any_node() {
    let (_dir, nodes) = three("any");
    let mut writers: Vec<Client> = nodes.iter().map(Client::of).collect();
    let mut readers: Vec<Client> = nodes.iter().map(|node| Client::tracking(node, "")).collect();
    let mut broadcasts: Vec<Client> =
        nodes.iter().map(|node| Client::tracking(node, "BCAST PREFIX key:")).collect();
    for round in 0..30 {
        let (key, writer) = (format!("key:{round}"), &mut writers[round % 3]);
        assert_eq!(writer.ask(&format!("SET {key} old")), "OK");
        for reader in &mut readers {
            reader.holds(&format!("GET {key}"), &key, "old");
        }
        for client in &mut broadcasts {
            client.heard();
        }
        assert_eq!(writer.ask(&format!("SET {key} new")), "OK");
        for client in readers.iter_mut().chain(&mut broadcasts) {
            client.hears_among(&key);
        }
        for reader in &mut readers {
            assert_eq!(reader.ask(&format!("GET {key}")), "new");
        }
    }
    // A transaction over shards.
    let keys = ["a", "b", "c", "d"];
    for reader in &mut readers {
        keys.iter().for_each(|key| reader.holds(&format!("GET {key}"), key, "nil"));
    }
    writers[1].ask("MSET a 1 b 1 c 1 d 1");
    for reader in &mut readers {
        keys.iter().for_each(|key| reader.hears_among(key));
    }
}

/// Leaders tell of a flush as well, but some of them are other nodes, and later.
#[test]
fn a_flush_in_a_transaction_or_a_script_is_heard_of_before_its_reply() {
    let (_dir, nodes) = three("flushed");
    let (mut client, mut other) = (Client::tracking(&nodes[0], ""), Client::of(&nodes[1]));
    let flush = "redis.call('FLUSHDB')";
    for round in 0..24 {
        let key = format!("key:{round}");
        let script = format!("EVAL {flush};return(redis.call('GET',KEYS[1])) 1 {key}");
        let elsewhere = format!("EVAL redis.call('SELECT','1');{flush};return('OK') 0");
        let (set, get) = (format!("SET {key} 2"), format!("GET {key}"));
        for (queued, last, expected) in [
            (&["FLUSHDB"][..], "EXEC", "OK"),
            (&["FLUSHALL", &set, &get], "EXEC", "OK OK 2"),
            (&[&get, "FLUSHDB"], "EXEC", "1 OK"),
            (&[], &script, "nil"),
            (&[], &elsewhere, "OK"),
        ] {
            assert_eq!(other.ask(&format!("SET {key} 1")), "OK");
            client.holds(&get, &key, "1");
            if !queued.is_empty() {
                client.ask("MULTI");
            }
            queued.iter().for_each(|line| assert_eq!(client.ask(line), "QUEUED"));
            assert_eq!(client.ask(last), expected, "{queued:?} {last}");
            let pushes = std::mem::take(&mut client.pushes);
            let is_said = pushes.iter().any(|push| push == "invalidate nil");
            assert!(is_said, "{queued:?} {last}: {pushes:?}");
        }
        // What it has read behind its own flush, it hears of.
        assert_eq!(client.ask(&format!("EVAL {flush};return(redis.call('SET','a',1)) 0")), "OK");
        client.holds("GET a", "a", "1");
        other.ask("FLUSHALL");
        client.hears("invalidate nil");
    }
    // Nothing was flushed.
    for line in ["WATCH k", "SET k 1", "MULTI", "FLUSHDB"] {
        client.ask(line);
    }
    assert_eq!(client.ask("GET k"), "QUEUED");
    client.heard();
    assert_eq!(client.ask("EXEC"), "nil");
    assert_eq!(client.heard(), [""; 0]);
}

#[test]
fn the_death_of_a_leader_invalidates_what_it_had_registered() {
    let (_dir, mut nodes) = three("death");
    let mut writer = Client::of(&nodes[1]);
    let mut readers: Vec<Client> =
        nodes[1..].iter().map(|node| Client::tracking(node, "")).collect();
    let keys: Vec<String> = (0..24).map(|key| format!("key:{key}")).collect();
    keys.iter().for_each(|key| _ = writer.ask(&format!("SET {key} old")));
    // All shards have three replicas, so that they outlive one.
    let until = Instant::now() + TEST_TIMEOUT;
    while writer.ask("WAIT 2 1000") != "2" {
        assert!(Instant::now() < until, "the shards get their replicas");
    }
    for reader in &mut readers {
        reader.pushes.clear();
        keys.iter().for_each(|key| _ = reader.ask(&format!("GET {key}")));
    }
    nodes[0].kill();
    for key in &keys {
        let until = Instant::now() + TEST_TIMEOUT;
        while writer.ask(&format!("SET {key} new")) != "OK" {
            assert!(Instant::now() < until, "somebody leads again");
        }
    }
    // Any node may have led: each key is invalidated, by its leader or because that is silent.
    for reader in &mut readers {
        keys.iter().for_each(|key| reader.hears_among(key));
        for key in &keys {
            assert_eq!(reader.ask(&format!("GET {key}")), "new");
        }
    }
    // And so it goes on with the new leaders.
    for reader in &mut readers {
        reader.pushes.clear();
    }
    writer.ask("SET key:3 newest");
    readers.iter_mut().for_each(|reader| reader.hears_among("key:3"));
}

#[test]
fn clients_that_are_gone_are_forgotten_and_info_says_how_many_track() {
    let node = Node::alone_and_ready(PROGRAM, "gone", &["--threads", "2"]);
    let mut other = Client::of(&node);
    let mut info = move || {
        let text = other.ask("INFO everything");
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map_or(u64::MAX, |number| number.trim().parse().expect("a number"))
        };
        ["clients", "total_keys", "total_items", "total_prefixes"]
            .map(|name| number(&format!("tracking_{name}")))
    };
    assert_eq!(info(), [0, 0, 0, 0]);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::tracking(&node, "")).collect();
    for client in &mut clients {
        (0..10).for_each(|key| _ = client.ask(&format!("GET key:{key}")));
    }
    let mut broadcast = Client::tracking(&node, "BCAST PREFIX a: PREFIX b:");
    assert_eq!(info(), [4, 10, 30, 2]);
    assert_eq!(clients[0].ask("CLIENT TRACKING OFF"), "OK");
    assert_eq!(broadcast.ask("CLIENT TRACKING OFF"), "OK");
    drop(clients.pop());
    let until = Instant::now() + TEST_TIMEOUT;
    while info() != [1, 10, 10, 0] {
        assert!(Instant::now() < until, "{:?}", info());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(clients);
    while info() != [0, 0, 0, 0] {
        assert!(Instant::now() < until, "{:?}", info());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_expired_value_is_said_to_have_changed_less_and_less_often() {
    let node = Node::alone_and_ready(PROGRAM, "expired", &["--threads", "2"]);
    let (mut client, mut other) = (Client::tracking(&node, ""), Client::of(&node));
    other.ask("SET k 1 PX 30");
    let until = Instant::now() + Duration::from_secs(3);
    let mut heard = 0;
    while Instant::now() < until {
        client.ask("GET k");
        heard += client.heard().len();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!((1..12).contains(&heard), "{heard} times");
}

#[test]
fn broadcasts_name_what_one_shard_changes_once_and_what_several_change_twice_at_most() {
    let node = Node::alone_and_ready(PROGRAM, "bcast", &["--threads", "2"]);
    let mut client = Client::tracking(&node, "BCAST PREFIX u:");
    client.heard();
    client.send("SET u:1 1");
    assert_eq!(client.frame(), (true, "invalidate u:1".into()), "before the reply");
    assert_eq!(client.frame(), (false, "OK".into()));
    assert_eq!(client.heard(), [""; 0], "once");
    let mut other = Client::of(&node);
    let mut heard_after = |keys: [&str; 2]| {
        let [first, second] = keys;
        let sets = [(second, 1), (first, 1), (second, 2)];
        let sets = sets.map(|(key, value)| format!("SET {key} {value}"));
        assert_eq!(other.ask("MULTI"), "OK");
        sets.iter().for_each(|line| assert_eq!(other.ask(line), "QUEUED"));
        assert_eq!(other.ask("EXEC"), "OK OK OK");
        // They are read when nothing locks them any more: all that was to be said of them is known.
        assert_eq!(keys.map(|key| other.ask(&format!("GET {key}"))), ["1", "2"]);
        client.heard()
    };
    // One entry of one shard.
    for _ in 0..20 {
        assert_eq!(heard_after(["u:{t}1", "u:{t}2"]), ["invalidate u:{t}1 u:{t}2"]);
    }
    // Each shard says it when a key is locked, and again when it has its value.
    for _ in 0..20 {
        let heard = heard_after(["u:1", "u:2"]).join(" ");
        for key in ["u:1", "u:2"] {
            let times = heard.split(' ').filter(|word| *word == key).count();
            assert!((1..=2).contains(&times), "{key} {times} times: {heard}");
        }
    }
}

#[test]
fn much_for_another_connection_is_said_at_once() {
    let node = Node::alone_and_ready(PROGRAM, "redirect", &["--threads", "2"]);
    let mut listener = Client::of(&node);
    let id = listener.ask("CLIENT ID");
    listener.send("SUBSCRIBE __redis__:invalidate");
    listener.frame();
    let mut client = Client::of(&node);
    client.ask(&format!("CLIENT TRACKING ON REDIRECT {id} NOLOOP"));
    // Its own changes that were not done, which it must hear all the same.
    let keys: Vec<String> = (0..3_000).map(|key| format!("key:{key}")).collect();
    keys.iter().for_each(|key| _ = client.ask(&format!("GET {key}")));
    keys.iter().for_each(|key| client.send(&format!("SET {key} 1 XX")));
    keys.iter().for_each(|_| assert_eq!(client.reply(), "nil"));
    let (mut said, until) = (BTreeSet::new(), Instant::now() + TEST_TIMEOUT);
    while said.len() < keys.len() && !said.contains("nil") {
        assert!(Instant::now() < until, "{} keys", said.len());
        let message = listener.frame().1;
        let names = message.strip_prefix("message __redis__:invalidate ").expect("a message");
        said.extend(names.split(' ').map(str::to_owned));
    }
}
