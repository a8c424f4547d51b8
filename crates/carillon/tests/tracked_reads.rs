//! What a client that caches holds is never old behind a reply that shows newer (`CLIENT
//! TRACKING`): reads, transactions, scripts, ranges.

mod caching;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use caching::{Client, names, three};
use harness::node::{Node, TEST_TIMEOUT};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

/// A client that caches what it is shown, as drivers do, and judges each reply: what it holds must
/// not differ from what a reply shows, for the invalidation comes first.
struct Cache {
    client: Client,
    held: BTreeMap<String, String>,
}

impl Cache {
    fn new(node: &Node) -> Self {
        Self { client: Client::tracking(node, ""), held: BTreeMap::new() }
    }

    /// The next reply. What was heard before it counts.
    fn reply(&mut self) -> String {
        let reply = self.client.reply();
        for push in self.client.pushes.drain(..) {
            match push.strip_prefix("invalidate ").expect("nothing else is pushed") {
                "nil" => self.held.clear(),
                keys => keys.split(' ').for_each(|key| _ = self.held.remove(key)),
            }
        }
        reply
    }

    fn ask(&mut self, line: &str) -> String {
        self.client.send(line);
        self.reply()
    }

    fn shown(&mut self, key: &str, value: &str) {
        let before = self.held.insert(key.into(), value.into());
        assert!(before.is_none_or(|before| before == value), "{key} was held as another version");
    }
}

/// Has a client show a key in some way while another changes it. When that is over, and all that
/// the client had to hear has come before a PING's reply, it must hold nothing old.
fn holds_nothing_old(node: &Node, rounds: u32, show: impl Fn(&mut Cache) -> String) {
    holds_nothing_old_in(node, "0", rounds, show);
}

/// The same with a key of this keyspace.
fn holds_nothing_old_in(
    node: &Node,
    keyspace: &str,
    rounds: u32,
    show: impl Fn(&mut Cache) -> String,
) {
    let (mut cache, mut writer) = (Cache::new(node), Client::of(node));
    writer.ask(&format!("SELECT {keyspace}"));
    for round in 0..rounds {
        std::thread::scope(|scope| {
            let writer = &mut writer;
            let writer = scope.spawn(move || {
                (0..3).for_each(|n| _ = writer.ask(&format!("SET k {round}-{n}")));
            });
            while !writer.is_finished() {
                let value = show(&mut cache);
                cache.shown("k", &value);
            }
        });
        cache.ask("PING");
        let held = cache.held.get("k").cloned();
        let now = format!("{round}-2");
        assert!(held.as_ref().is_none_or(|held| *held == now), "{held:?} in round {round}");
    }
}

#[test]
fn reads_show_a_change_behind_its_invalidation() {
    let node = Node::alone_and_ready(PROGRAM, "order", &["--threads", "2"]);
    holds_nothing_old(&node, 300, |cache| cache.ask("GET k"));
    holds_nothing_old(&node, 100, |cache| cache.ask("MGET k"));
}

#[test]
fn exec_with_commands_behind_it_leaves_nothing_old() {
    let node = Node::alone_and_ready(PROGRAM, "late", &["--threads", "2"]);
    let queue = |cache: &mut Cache, lines: &[&str]| {
        lines.iter().for_each(|line| _ = cache.ask(line));
        let reply = cache.ask("EXEC");
        reply.split(' ').find(|word| *word != "OK").unwrap_or_default().to_owned()
    };
    holds_nothing_old(&node, 300, |cache| queue(cache, &["MULTI", "GET k", "DBSIZE"]));
    holds_nothing_old(&node, 100, |cache| queue(cache, &["MULTI", "GET k", "SET other 1"]));
    let selects = ["MULTI", "SELECT 3", "GET k", "SELECT 0"];
    holds_nothing_old_in(&node, "3", 300, |cache| queue(cache, &selects));
}

#[test]
fn exec_in_another_keyspace_holds_the_keys_there() {
    let node = Node::alone_and_ready(PROGRAM, "select", &["--threads", "2"]);
    let (mut client, mut other) = (Client::tracking(&node, ""), Client::of(&node));
    other.ask("SELECT 3");
    other.ask("SET k 1");
    ["MULTI", "SELECT 3", "GET k"].iter().for_each(|line| _ = client.ask(line));
    assert_eq!(client.ask("EXEC"), "OK 1");
    other.ask("SET k 2");
    client.hears("invalidate k");
    // The connection is in that keyspace by now.
    assert_eq!(client.ask("GET k"), "2");
    ["MULTI", "GET k", "SELECT 0"].iter().for_each(|line| _ = client.ask(line));
    assert_eq!(client.ask("EXEC"), "2 OK");
    client.heard();
    other.ask("SET k 3");
    client.hears("invalidate k");
}

#[test]
fn what_is_read_behind_an_own_flush_is_held() {
    let node = Node::alone_and_ready(PROGRAM, "flush", &["--threads", "2"]);
    let (mut client, mut other) = (Client::tracking(&node, ""), Client::of(&node));
    for round in 0..20 {
        client.ask("GET k");
        let lines: &[&str] =
            if round % 2 == 0 { &["FLUSHALL"] } else { &["BEGIN", "SET k 2", "COMMIT"] };
        let more = ["MULTI", "SET j 1", "GET k", "EXEC"];
        lines.iter().chain(&more).for_each(|line| client.send(line));
        let replies: Vec<String> = (0..lines.len() + 4).map(|_| client.reply()).collect();
        assert!(replies.iter().all(|reply| !reply.starts_with("ERR")), "{replies:?}");
        // All that its own FLUSHALL has brought about.
        std::thread::sleep(Duration::from_millis(10));
        client.heard();
        other.ask("FLUSHALL");
        let until = Instant::now() + TEST_TIMEOUT;
        while client.heard().is_empty() {
            assert!(Instant::now() < until, "it holds k in round {round}");
        }
    }
}

#[test]
fn what_scripts_read_is_held_and_what_they_write_is_said_first() {
    let node = Node::alone_and_ready(PROGRAM, "scripts", &["--threads", "2"]);
    let (mut client, mut other) = (Client::tracking(&node, ""), Client::of(&node));
    // Lines are cut at spaces.
    let get = "EVAL return(redis.call('GET',KEYS[1])) 1 k";
    let set = "EVAL return(redis.call('SET',KEYS[1],ARGV[1])) 1 k";
    let undeclared = "EVAL return(redis.call('GET','u')) 0";
    other.ask("SET k 1");
    other.ask("SET u 1");
    assert_eq!(client.ask(get), "1");
    assert_eq!(client.heard(), [""; 0], "it is held");
    other.ask("SET k 2");
    client.hears("invalidate k");
    assert_eq!(client.ask(get), "2");
    client.send(&format!("{set} 3"));
    assert_eq!(client.frame(), (true, "invalidate k".into()), "before the reply");
    assert_eq!(client.frame(), (false, "OK".into()));
    assert_eq!(client.heard(), [""; 0], "once");
    assert_eq!(client.ask(undeclared), "1");
    other.ask("SET u 2");
    client.hears("invalidate u");
    for line in ["MULTI", "GET k", "EVAL return(redis.call('INCR','n')) 0"] {
        client.ask(line);
    }
    assert_eq!(client.ask("EXEC"), "3 1");
    assert_eq!(client.heard(), [""; 0], "k is held, n never was");
    other.ask("SET k 4");
    client.hears("invalidate k");

    let mut quiet = Client::tracking(&node, "NOLOOP");
    assert_eq!(quiet.ask("GET k"), "4");
    quiet.ask(&format!("{set} 5"));
    assert_eq!(quiet.heard(), [""; 0], "it has changed that itself");
    assert_eq!(quiet.ask(get), "5");
    other.ask("SET k 6");
    quiet.hears("invalidate k");

    let mut chosen = Client::tracking(&node, "OPTIN");
    chosen.ask(get);
    other.ask("SET k 7");
    assert_eq!(chosen.heard(), [""; 0]);
    chosen.ask("CLIENT CACHING YES");
    chosen.ask(get);
    other.ask("SET k 8");
    chosen.hears("invalidate k");
}

#[test]
fn keys_of_other_keyspaces_are_said_before_and_behind_the_reply() {
    let node = Node::alone_and_ready(PROGRAM, "elsewhere", &["--threads", "2"]);
    let (mut client, mut other) = (Client::tracking(&node, ""), Client::of(&node));
    let [invalidated, one] =
        [(true, "invalidate k"), (false, "1")].map(|(is_push, text)| (is_push, String::from(text)));
    other.ask("SELECT 3");
    other.ask("SET k 1");
    assert_eq!(client.ask("GET k"), "nil");
    client.send("EVAL redis.call('SELECT','3')return(redis.call('GET','k')) 0");
    let frames = [client.frame(), client.frame(), client.frame()];
    assert_eq!(frames, [invalidated.clone(), one, invalidated.clone()]);
    assert_eq!(client.heard(), [""; 0]);
    // The key of the connection's own keyspace is held as before.
    assert_eq!(client.ask("GET k"), "nil");
    other.ask("SELECT 0");
    other.ask("SET k 2");
    client.hears("invalidate k");
    assert_eq!(client.ask("GET k"), "2");
    // The leader may have said first that it has changed.
    assert_eq!(client.ask("MOVE k 4"), "1");
    assert!(!client.pushes.is_empty(), "before the reply");
    client.pushes.clear();
    assert_eq!(client.frame(), invalidated);
    for line in ["MULTI", "GET k", "SELECT 4", "GET k"] {
        client.ask(line);
    }
    assert_eq!(client.ask("EXEC"), "nil OK 2");
    client.hears("invalidate k");
    client.heard();
    // It is in the keyspace that EXEC has selected.
    assert_eq!(client.ask("GET k"), "2");
    other.ask("SELECT 4");
    other.ask("SET k 3");
    client.hears("invalidate k");
}

#[test]
fn scripts_leave_nothing_old() {
    let node = Node::alone_and_ready(PROGRAM, "scripted", &["--threads", "2"]);
    let get = "EVAL return(redis.call('GET',KEYS[1])) 1 k";
    holds_nothing_old(&node, 150, |cache| cache.ask(get));
    let undeclared = "EVAL return(redis.call('GET','k')) 0";
    holds_nothing_old(&node, 100, |cache| cache.ask(undeclared));
    let elsewhere = "EVAL redis.call('SELECT','3')return(redis.call('GET','k')) 0";
    holds_nothing_old_in(&node, "3", 100, |cache| cache.ask(elsewhere));
}

#[test]
fn scripts_at_any_leader_say_what_they_touch() {
    let (_dir, nodes) = three("leaders");
    let mut other = Client::of(&nodes[0]);
    for (at, node) in nodes.iter().enumerate() {
        let mut client = Client::tracking(node, "");
        for key in 0..6 {
            let key = format!("{at}:{key}");
            other.ask(&format!("SET {key} 1"));
            let get = format!("EVAL return(redis.call('GET',KEYS[1])) 1 {key}");
            client.holds(&get, &key, "1");
            let set = format!("EVAL return(redis.call('SET',KEYS[1],'2')) 1 {key}");
            assert_eq!(client.ask(&set), "OK");
            assert!(names(&client.pushes, &key), "before the reply: {:?}", client.pushes);
            client.holds(&get, &key, "2");
            other.ask(&format!("SET {key} 3"));
            client.hears_among(&key);
        }
    }
}

#[test]
fn what_begins_anew_is_not_what_was_forgotten() {
    let node = Node::alone_and_ready(PROGRAM, "anew", &["--threads", "2"]);
    let (mut client, mut other) = (Client::tracking(&node, ""), Client::of(&node));
    client.ask("GET k");
    client.ask("CLIENT TRACKING OFF");
    client.ask("CLIENT TRACKING ON");
    client.ask("GET k");
    // Longer than it takes to look through all keys.
    std::thread::sleep(Duration::from_millis(300));
    client.heard();
    other.ask("SET k 1");
    client.hears("invalidate k");
}

#[test]
fn what_a_range_shows_is_held_and_what_a_transaction_shows_is_not() {
    let node = Node::alone_and_ready(PROGRAM, "range", &["--threads", "2"]);
    assert_eq!(node.carillon(&["keyspace", "create", "sorted", "--placement", "ordered"]).0, 0);
    let (mut client, mut other) = (Client::tracking(&node, ""), Client::of(&node));
    for client in [&mut client, &mut other] {
        assert_eq!(client.ask("SELECT sorted"), "OK");
    }
    other.ask("SET a 1");
    other.ask("SET b 1");
    assert_eq!(client.ask("RANGE - + WITHVALUES"), "a 1 b 1");
    assert_eq!(client.heard(), [""; 0], "both are held");
    other.ask("SET b 2");
    client.hears("invalidate b");
    for line in ["MULTI", "GET a"] {
        client.ask(line);
    }
    client.ask("RANGE - + WITHVALUES");
    assert_eq!(client.ask("EXEC"), "1 a 1 b 2");
    client.heard();
    other.ask("SET b 3");
    client.hears("invalidate b");
    // Names alone are not cached.
    assert_eq!(client.ask("RANGE - +"), "a b");
    other.ask("SET b 4");
    assert_eq!(client.heard(), [""; 0]);

    for line in ["BEGIN", "GET b", "SET a 2"] {
        client.ask(line);
    }
    client.hears("invalidate b");
    assert_eq!(client.ask("COMMIT"), "OK");
}
