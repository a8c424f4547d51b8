//! Transactions over several keyspaces (MOVE, COPY to another database, SELECT within MULTI and
//! scripts), on one node and on three: real processes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness::cluster::Cluster;
use harness::node::TEST_TIMEOUT;
use harness::resp::Connection;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
/// Tokens, each of which is in one of two keyspaces.
const TOKENS: u64 = 8;
/// Reads of a token in both keyspaces, at one moment: how many there are.
const COUNT: &str = "local own = redis.call('EXISTS', KEYS[1]); redis.call('SELECT', 1); \
                     return own + redis.call('EXISTS', KEYS[1])";

fn ask(connection: &mut Connection, line: &str) -> String {
    connection.ask_line(line).unwrap_or_else(|why| panic!("no reply to {line}: {why}")).text()
}

/// What a client of either protocol would see; no differential suite has several nodes.
fn move_and_copy(connection: &mut Connection, token: &str) {
    let mut is = |line: &str, reply: &str| assert_eq!(ask(connection, line), reply, "{line}");
    is("SELECT 0", "OK");
    is(&format!("SET {token} v EX 1000"), "OK");
    is(&format!("COPY {token} {token}-copy DB 1"), "1");
    is(&format!("COPY {token} {token}-copy DB 1"), "0");
    is(&format!("MOVE {token} 1"), "1");
    is(&format!("MOVE {token} 1"), "0");
    is("SELECT 1", "OK");
    is(&format!("GET {token}"), "v");
    is(&format!("GET {token}-copy"), "v");
    is(&format!("SET {token}-copy other"), "OK");
    is(&format!("MOVE {token} 0"), "1");
    is(&format!("EXISTS {token}"), "0");
    is("SELECT 0", "OK");
    is("MULTI", "OK");
    is(&format!("SET {token} of-0"), "QUEUED");
    is("SELECT 1", "QUEUED");
    is(&format!("APPEND {token}-copy -of-1"), "QUEUED");
    is(&format!("MOVE {token}-copy 0"), "QUEUED");
    is("EXEC", "OK OK 10 1");
    is(&format!("EXISTS {token}-copy"), "0");
    is("SELECT 0", "OK");
    is(&format!("GET {token}-copy"), "other-of-1");
    is(&format!("DEL {token} {token}-copy"), "2");
}

#[test]
fn values_go_from_keyspace_to_keyspace_through_any_node() {
    for count in [1, 3] {
        let nodes = Cluster::start(PROGRAM, "keyspaces", count, &[], &["0", "1"]);
        for (number, node) in nodes.nodes.iter().enumerate() {
            // Keys of many shards.
            for key in 0..12 {
                move_and_copy(&mut node.connect(), &format!("token-{number}-{key}"));
            }
        }
    }
}

/// Clients of all nodes move tokens to and fro, and one node is killed meanwhile: a look into
/// both keyspaces at one moment finds each token once.
#[test]
fn moved_value_is_in_one_keyspace_at_every_moment_over_kill_9() {
    let mut nodes = Cluster::start(PROGRAM, "moves", 3, &[], &["0", "1"]);
    let mut first = nodes.nodes[0].connect();
    (0..TOKENS).for_each(|token| assert_eq!(ask(&mut first, &format!("SET t{token} v")), "OK"));
    let (ends, moved, seen) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (victim, others) = nodes.nodes.split_last_mut().unwrap();
    thread::scope(|scope| {
        for (number, node) in others.iter().chain([&*victim]).enumerate() {
            for (from, to) in [("0", "1"), ("1", "0")] {
                let mut mover = node.connect();
                let (ends, moved) = (&ends, &moved);
                scope.spawn(move || {
                    assert_eq!(ask(&mut mover, &format!("SELECT {from}")), "OK");
                    for token in (number as u64..).map(|n| n % TOKENS) {
                        let Ok(reply) = mover.ask_line(&format!("MOVE t{token} {to}")) else {
                            break;
                        };
                        moved.fetch_add(u64::from(reply.text() == "1"), Ordering::Relaxed);
                        if ends.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
        }
        for (number, node) in others.iter().enumerate() {
            let mut observer = node.connect();
            let (ends, seen) = (&ends, &seen);
            scope.spawn(move || {
                for token in (0..).map(|n| n % TOKENS) {
                    let key = format!("t{token}");
                    let sum = match number {
                        0 => observer.ask(&["EVAL", COUNT, "1", &key]).unwrap().text(),
                        _ => {
                            let mut reply = String::new();
                            let queued = ["MULTI", "EXISTS", "SELECT 1", "EXISTS", "SELECT 0"];
                            for word in queued.into_iter().chain(["EXEC"]) {
                                let is_read = word == "EXISTS";
                                let line =
                                    if is_read { format!("{word} {key}") } else { word.into() };
                                reply = ask(&mut observer, &line);
                            }
                            reply
                        }
                    };
                    match sum.as_str() {
                        "1" | "1 OK 0 OK" | "0 OK 1 OK" => {
                            seen.fetch_add(1, Ordering::Relaxed);
                        }
                        refused if refused.contains("BUSY") || refused.contains("TRYAGAIN") => {}
                        other => panic!("{key} was seen as {other}"),
                    }
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        thread::sleep(Duration::from_secs(4));
        victim.kill();
        thread::sleep(Duration::from_secs(6));
        ends.store(true, Ordering::Relaxed);
    });
    let (moved, seen) = (moved.into_inner(), seen.into_inner());
    println!("{moved} moves, {seen} looks");
    assert!(moved > 20 && seen > 20, "{moved} moves, {seen} looks");
    let mut last = nodes.nodes[1].connect();
    for token in 0..TOKENS {
        let key = format!("t{token}");
        let found = harness::until(TEST_TIMEOUT, "the token is found", || {
            let found = last.ask(&["EVAL", COUNT, "1", &key]).ok()?.text();
            (!found.contains("BUSY") && !found.contains("TRYAGAIN")).then_some(found)
        });
        assert_eq!(found, "1", "{key}");
    }
}
