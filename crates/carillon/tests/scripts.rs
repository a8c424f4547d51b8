//! How scripts share a node: batches of a queue, turns of threads, limits. Real processes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use harness::node::{Node, TEST_TIMEOUT};
use harness::resp::{Connection, encode};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    connection.ask(words).unwrap_or_else(|why| panic!("no reply to {words:?}: {why}")).line()
}

fn outcomes(node: &Node, outcome: &str) -> f64 {
    node.metric(&format!("carillon_scripts_total{{outcome=\"{outcome}\"}}"))
}

/// Together they read more than one entry holds; alone each reads little. None leaves its queue.
#[test]
fn scripts_that_do_not_fit_into_one_batch_stay_in_their_queue() {
    let node = Node::alone_and_ready(PROGRAM, "full_batch", &["--durability", "memory"]);
    let mut connection = node.connect();
    let value = "v".repeat(4 << 20);
    let mut request = Vec::new();
    for number in 0..24 {
        let key = format!("{{t}}{number}");
        assert_eq!(ask(&mut connection, &["SET", &key, &value]), "+OK");
        let script = "return redis.call('STRLEN', KEYS[1]) + redis.call('APPEND', KEYS[2], 'x')";
        encode(&mut request, &["EVAL", script, "2", &key, "{t}sum"]);
    }
    connection.send(&request).unwrap();
    for number in 1..=24 {
        let expected = format!(":{}", (4 << 20) + number);
        assert_eq!(connection.reply().unwrap().line(), expected);
    }
    assert_eq!((outcomes(&node, "queue"), outcomes(&node, "over_shards")), (24.0, 0.0));
    let info = ask(&mut connection, &["INFO", "memory"]);
    assert!(info.contains("number_of_cached_scripts:1"), "{info}");
}

/// The limit is one of the transaction, not of each script in it.
#[test]
fn exec_of_scripts_is_stopped_when_all_together_take_too_long() {
    let node = Node::alone_and_ready(PROGRAM, "long_exec", &["--script-time-ms", "1s"]);
    let mut connection = node.connect();
    let script = "redis.call('SET', KEYS[1], 'x') local t = os.clock() \
                  while os.clock() - t < 0.6 do end return 1";
    assert_eq!(ask(&mut connection, &["MULTI"]), "+OK");
    for number in 0..4 {
        let key = format!("k{number}");
        assert_eq!(ask(&mut connection, &["EVAL", script, "1", &key]), "+QUEUED");
    }
    let reply = ask(&mut connection, &["EXEC"]);
    assert!(reply.starts_with("-BUSY the script ran for 1000 ms"), "{reply}");
    assert_eq!(ask(&mut connection, &["GET", "k0"]), "nil");
    assert_eq!(node.metric("carillon_scripts_stopped_total"), 1.0);
}

/// Scripts of many queues keep every thread busy.
#[test]
fn script_over_shards_gets_its_turn_beside_busy_queues() {
    let flags = ["--script-threads", "3", "--durability", "memory"];
    let node = Node::alone_and_ready(PROGRAM, "busy_queues", &flags);
    let (mut busy, mut other): (Vec<_>, _) =
        ((0..16).map(|_| node.connect()).collect(), node.connect());
    let slow = "local t = os.clock() while os.clock() - t < 0.002 do end \
                return redis.call('INCR', KEYS[1])";
    for (number, connection) in busy.iter_mut().enumerate() {
        let (mut request, key) = (Vec::new(), format!("busy{number}"));
        (0..150).for_each(|_| encode(&mut request, &["EVAL", slow, "1", &key]));
        connection.send(&request).unwrap();
    }
    for number in 1..=5 {
        let reply = ask(&mut other, &["EVAL", "return redis.call('INCR', 'k')", "0"]);
        assert_eq!(reply, format!(":{number}"));
    }
    assert!(outcomes(&node, "queue") < 16.0 * 150.0, "the queues were busy all the time");
    for connection in &mut busy {
        for number in 1..=150 {
            assert_eq!(connection.reply().unwrap().line(), format!(":{number}"));
        }
    }
    assert!(outcomes(&node, "over_shards") >= 5.0);
}

/// Keys are looked through for scripts beside queues and short scripts, and a script is stopped
/// while it waits for them.
#[test]
fn scripts_that_look_through_the_keyspace_hold_up_no_others() {
    let node = Node::alone_and_ready(PROGRAM, "scanning_scripts", &["--durability", "memory"]);
    let (mut scans, mut other) = (node.connect(), node.connect());
    assert_eq!(ask(&mut other, &["SET", "k", "1"]), "+OK");
    let scan = "for i = 1, 100 do redis.call('DBSIZE') end return redis.call('DBSIZE')";
    let mut request = Vec::new();
    encode(&mut request, &["EVAL", scan, "1", "k"]);
    encode(&mut request, &["EVAL", "while true do redis.call('DBSIZE') end", "0"]);
    scans.send(&request).unwrap();
    assert_eq!(scans.reply().unwrap().line(), ":1");
    assert_eq!(ask(&mut other, &["EVAL", "return redis.call('INCR', 'k')", "0"]), ":2");
    harness::until(TEST_TIMEOUT, "the script is killed", || {
        (ask(&mut other, &["SCRIPT", "KILL"]) == "+OK").then_some(())
    });
    let killed = "-ERR Script killed by user with SCRIPT KILL; nothing of it was done";
    assert_eq!(scans.reply().unwrap().line(), killed);
    assert_eq!(node.metric("carillon_scripts_killed_total"), 1.0);
}

/// Clients whose scripts loop wait for each other. Who sends another script gets its turn.
#[test]
fn scripts_that_loop_hold_up_only_each_other() {
    let node = Node::alone_and_ready(PROGRAM, "loopers", &["--durability", "memory"]);
    let mut loopers: Vec<_> = (0..8).map(|_| node.connect()).collect();
    for (number, connection) in loopers.iter_mut().enumerate() {
        let (mut request, key) = (Vec::new(), format!("loop{number}"));
        (0..10).for_each(|_| encode(&mut request, &["EVAL", "while true do end", "1", &key]));
        connection.send(&request).unwrap();
    }
    thread::sleep(Duration::from_secs(2));
    let (mut other, began) = (node.connect(), Instant::now());
    let medium = "local t = os.clock() while os.clock() - t < 0.02 do end \
                  return redis.call('INCR', KEYS[1])";
    for number in 1..=6 {
        assert_eq!(ask(&mut other, &["EVAL", medium, "1", "k"]), format!(":{number}"));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // Nobody waits for the replies any more.
    drop(loopers);
    harness::until(TEST_TIMEOUT, "the loops are stopped", || {
        (ask(&mut other, &["SCRIPT", "KILL"]).starts_with("-NOTBUSY")).then_some(())
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// The script of a client that was killed is stopped.
#[test]
fn script_of_a_killed_client_is_stopped() {
    let flags = ["--durability", "memory", "--script-time-ms", "1h"];
    let node = Node::alone_and_ready(PROGRAM, "killed_client", &flags);
    let (mut looper, mut other) = (node.connect(), node.connect());
    let id = ask(&mut looper, &["CLIENT", "ID"]).trim_start_matches(':').to_owned();
    let mut request = Vec::new();
    encode(&mut request, &["EVAL", "while true do end", "1", "k"]);
    looper.send(&request).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(node.metric("carillon_scripts_killed_total"), 0.0);
    assert_eq!(ask(&mut other, &["CLIENT", "KILL", "ID", &id]), ":1");
    harness::until(TEST_TIMEOUT, "the script is stopped", || {
        (node.metric("carillon_scripts_killed_total") == 1.0).then_some(())
    });
}

/// Who ends its own side once it has sent all still reads its replies: these run for long nowhere.
#[test]
fn client_that_has_ended_its_side_is_answered() {
    let node = Node::alone_and_ready(PROGRAM, "half_closed", &["--durability", "memory"]);
    let count = "return redis.call('DBSIZE')";
    let mut request = Vec::new();
    for words in [
        &["SET", "k", "v"][..],
        &["EVAL", count, "0"],
        &["COPY", "k", "k", "DB", "7"],
        &["MULTI"],
        &["SELECT", "8"],
        &["SET", "k", "v"],
        &["EXEC"],
        &["MOVE", "k", "9"],
    ] {
        encode(&mut request, words);
    }
    for _ in 0..5 {
        let mut stream = TcpStream::connect(node.resp).unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        assert!(replies.starts_with("+OK\r\n:1\r\n:"), "{replies}");
        assert!(!replies.contains('-'), "{replies}");
    }
}

/// However long those run that have the places for long scripts.
#[test]
fn script_that_finds_no_place_is_refused_in_time() {
    let times = ["--request-timeout-ms", "1s", "--script-time-ms", "1m"];
    let flags = [&["--durability", "memory", "--script-threads", "3"][..], &times].concat();
    let node = Node::alone_and_ready(PROGRAM, "no_place", &flags);
    let (mut looper, mut other) = (node.connect(), node.connect());
    let mut request = Vec::new();
    encode(&mut request, &["EVAL", "while true do end", "1", "loop"]);
    looper.send(&request).unwrap();
    thread::sleep(Duration::from_secs(1));
    let medium = "local t = os.clock() while os.clock() - t < 0.1 do end \
                  return redis.call('INCR', KEYS[1])";
    let began = Instant::now();
    let reply = ask(&mut other, &["EVAL", medium, "1", "k"]);
    assert!(reply.starts_with("-BUSY the script has waited "), "{reply}");
    let took = began.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&took), "{took:?}");
    assert_eq!(ask(&mut other, &["SCRIPT", "KILL"]), "+OK");
    let killed = "-ERR Script killed by user with SCRIPT KILL; nothing of it was done";
    assert_eq!(looper.reply().unwrap().line(), killed);
    assert_eq!(ask(&mut other, &["EVAL", medium, "1", "k"]), ":1", "the refused one did nothing");
}

/// Its time passes in commands, each of which takes long.
#[test]
fn time_within_commands_counts_towards_the_limit() {
    let flags = ["--durability", "memory", "--script-time-ms", "500ms"];
    let node = Node::alone_and_ready(PROGRAM, "slow_commands", &flags);
    let mut connection = node.connect();
    let set = "redis.call('SET', KEYS[1], string.rep('ab', 2000)) \
               return redis.call('SET', KEYS[2], string.rep('ba', 2000))";
    assert_eq!(ask(&mut connection, &["EVAL", set, "2", "{k}a", "{k}b"]), "+OK");
    let lcs = "while true do redis.call('LCS', KEYS[1], KEYS[2]) end";
    let began = Instant::now();
    let reply = ask(&mut connection, &["EVAL", lcs, "2", "{k}a", "{k}b"]);
    assert!(reply.starts_with("-BUSY the script ran for 500 ms"), "{reply}");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// Who floods the log is cut off, and the log says so.
#[test]
fn scripts_do_not_flood_the_log() {
    let node = Node::alone_and_ready(PROGRAM, "flooded_log", &["--durability", "memory"]);
    let mut connection = node.connect();
    let script = "for i = 1, 20000 do redis.log(redis.LOG_WARNING, 'flood') end return 1";
    assert_eq!(ask(&mut connection, &["EVAL", script, "0"]), ":1");
    harness::until(TEST_TIMEOUT, "the log says what was left out", || {
        node.log().contains("lines of scripts were left out").then_some(())
    });
    let lines = node.log().matches("a script says: flood").count();
    assert!((1..5_000).contains(&lines), "{lines}");
}

/// A life that a script sets is as long for it as it has set it, whenever it looks.
#[test]
fn time_stands_still_for_a_script() {
    let node = Node::alone_and_ready(PROGRAM, "still_time", &["--durability", "memory"]);
    let mut connection = node.connect();
    let script = "local t = redis.call('TIME') \
                  local ms = t[1] * 1000 + math.floor(t[2] / 1000) \
                  redis.call('SET', KEYS[1], 1, 'PXAT', string.format('%d', ms + 10000)) \
                  redis.call('SET', KEYS[2], 1, 'PX', 10000) \
                  local c = os.clock() while os.clock() - c < 0.004 do end \
                  return {redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2])}";
    for keys in [["{t}a", "{t}b"], ["a", "b"]] {
        // All have come before the first one runs.
        let mut request = Vec::new();
        (0..5).for_each(|_| encode(&mut request, &["EVAL", script, "2", keys[0], keys[1]]));
        connection.send(&request).unwrap();
        for _ in 0..5 {
            let reply = connection.reply().unwrap().line();
            assert_eq!(reply, ":10000 :10000", "of {keys:?}");
        }
    }
}

/// Shards are split under scripts in queues, scripts over shards and EXECs that watch an empty key.
/// Nobody else writes, so none of them is refused.
#[test]
fn scripts_go_on_while_their_shards_are_split() {
    const CALLS: usize = 400;
    let flags = ["--durability", "memory", "--merge-bytes", "off"];
    let node = Node::alone_and_ready(PROGRAM, "split_scripts", &flags);
    let before = node.metric("carillon_shards");
    let script = "return redis.call('INCR', KEYS[1] or ARGV[1])";
    thread::scope(|scope| {
        for client in 0..6 {
            let mut connection = node.connect();
            scope.spawn(move || {
                for call in 1..=CALLS {
                    let key = format!("key{client}-{}", call % 16);
                    let expected = format!(":{}", call.div_ceil(16));
                    let reply = match client % 3 {
                        0 => ask(&mut connection, &["EVAL", script, "1", &key]),
                        1 => ask(&mut connection, &["EVAL", script, "0", &key]),
                        _ => {
                            assert_eq!(ask(&mut connection, &["WATCH", ""]), "+OK");
                            assert_eq!(ask(&mut connection, &["MULTI"]), "+OK");
                            let call = ["EVAL", script, "1", &key];
                            assert_eq!(ask(&mut connection, &call), "+QUEUED");
                            ask(&mut connection, &["EXEC"])
                        }
                    };
                    assert_eq!(reply, expected, "client {client}, call {call}");
                }
            });
        }
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(150));
            let shards = node.client().shards(Some("0")).expect("shards");
            let shards = shards["shards"].as_array().expect("a list");
            for shard in shards {
                // A shard that has just split may not be at rest.
                let _may_fail = node.client().split(shard["id"].as_u64().expect("a number"), None);
            }
        }
    });
    assert!(node.metric("carillon_shards") >= 2.0 * before, "shards were split");
}

#[test]
fn memory_usage_is_a_number_to_scripts_too() {
    let node = Node::alone_and_ready(PROGRAM, "script_usage", &["--durability", "memory"]);
    let mut connection = node.connect();
    assert_eq!(ask(&mut connection, &["SET", "k", "value"]), "+OK");
    let usage = ask(&mut connection, &["MEMORY", "USAGE", "k"]);
    assert!(usage.starts_with(':'), "{usage}");
    let script = "return redis.call('MEMORY', 'USAGE', KEYS[1])";
    assert_eq!(ask(&mut connection, &["EVAL", script, "1", "k"]), usage);
    assert_eq!(ask(&mut connection, &["EVAL", script, "1", "none"]), "nil");
    assert_eq!(ask(&mut connection, &["MULTI"]), "+OK");
    assert_eq!(ask(&mut connection, &["MEMORY", "USAGE", "k"]), "+QUEUED");
    assert_eq!(ask(&mut connection, &["EVAL", script, "1", "k"]), "+QUEUED");
    assert_eq!(ask(&mut connection, &["EXEC"]), format!("{usage} {usage}"));
}

/// Scripts are remembered at once, also by those that come behind them in the same EXEC.
#[test]
fn questions_about_scripts_stand_in_transactions() {
    let node = Node::alone_and_ready(PROGRAM, "queued_scripts", &["--durability", "memory"]);
    let mut connection = node.connect();
    let code = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(ask(&mut connection, &["FUNCTION", "LOAD", code]), "lib");
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let (list, stats) = (["FUNCTION", "LIST"], ["FUNCTION", "STATS"]);
    let [list_reply, stats_reply] = [list, stats].map(|words| ask(&mut connection, &words));
    for with_script in [false, true] {
        assert_eq!(ask(&mut connection, &["SCRIPT", "FLUSH"]), "+OK");
        assert_eq!(ask(&mut connection, &["MULTI"]), "+OK");
        let mut expected = format!(":0 {list_reply} {stats_reply} +OK");
        let exists = ["SCRIPT", "EXISTS", sha];
        let evalsha = ["EVALSHA", sha, "0"];
        let mut queued =
            vec![&exists[..], &["FUNCTION", "LIST"], &["FUNCTION", "STATS"], &["SET", "k", "1"]];
        if with_script {
            queued.extend([
                &["SCRIPT", "LOAD", "return 1"][..],
                &["SCRIPT", "LOAD", "return ("],
                &exists,
                &evalsha,
            ]);
            expected = format!("{expected} {sha}");
        }
        for words in queued {
            assert_eq!(ask(&mut connection, words), "+QUEUED", "{words:?}");
        }
        let reply = ask(&mut connection, &["EXEC"]);
        assert!(reply.starts_with(&expected), "{reply}");
        assert!(!with_script || reply.ends_with(" :1 :1"), "{reply}");
        assert!(!with_script || reply.contains(" -ERR Error compiling script"), "{reply}");
    }
}

/// The connections of script threads are the node's own.
#[test]
fn connections_of_script_threads_are_not_shown_counted_or_killed() {
    let flags = ["--durability", "memory", "--script-threads", "1"];
    let node = Node::alone_and_ready(PROGRAM, "own_connections", &flags);
    let mut connection = node.connect();
    let count = |connection: &mut Connection| {
        ask(connection, &["EVAL", "return redis.call('DBSIZE')", "0"])
    };
    let clients = |connection: &mut Connection| {
        let info = ask(connection, &["INFO", "clients"]);
        info.split("connected_clients:").nth(1).unwrap().lines().next().unwrap().trim().to_owned()
    };
    let before = clients(&mut connection);
    assert_eq!(count(&mut connection), ":0");
    assert_eq!(clients(&mut connection), before);
    let list = ask(&mut connection, &["CLIENT", "LIST"]);
    assert_eq!(list.matches("id=").count(), 1, "{list}");
    assert_eq!(ask(&mut connection, &["CLIENT", "KILL", "TYPE", "normal"]), ":0");
    assert_eq!(count(&mut connection), ":0");
}
