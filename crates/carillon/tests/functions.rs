//! Functions and scripts on several nodes: real processes. The fourth node has no replica of the
//! catalogue's shard.

use client::Reply;
use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Directory;
use harness::resp::{Connection, encode};

const NODES: usize = 4;

/// Nodes with a directory, killed and removed when they are dropped.
struct Cluster {
    /// Before their directory: dropped first.
    nodes: Vec<Node>,
    mode: &'static str,
    _dir: Directory,
}

impl Cluster {
    fn start(name: &str) -> Self {
        Self::start_with(name, "any")
    }

    fn start_with(name: &str, mode: &'static str) -> Self {
        let dir = Directory::new(name).unwrap();
        dir.write_secret().unwrap();
        let program = env!("CARGO_BIN_EXE_carillon");
        let node = |number| Node::new(program, dir.path(), &format!("n{number}"));
        let mut cluster = Self { mode, nodes: (0..NODES).map(node).collect(), _dir: dir };
        (0..NODES).for_each(|number| cluster.start_node(number));
        // What members can be asked is asked of those that are linked.
        for number in 0..NODES {
            harness::until(TEST_TIMEOUT, "all nodes see each other", || {
                let nodes = cluster.nodes[number].client().nodes().ok()?;
                let up = |node: &&serde_json::Value| node["state"] == "up";
                let is_up = nodes["nodes"].as_array()?.iter().filter(up).count() == NODES;
                is_up.then_some(())
            });
        }
        cluster
    }

    fn start_node(&mut self, number: usize) {
        let first = self.nodes[0].peer.to_string();
        let join = if number > 0 { &["--join", &first][..] } else { &[] };
        let flags = ["--balance=off", "--resp-mode", self.mode];
        self.nodes[number].start(&[&flags, join].concat());
        self.served_at(number);
    }

    /// Waits until a node takes writes.
    fn served_at(&self, number: usize) {
        harness::until(TEST_TIMEOUT, &format!("node {number} takes writes"), || {
            let mut connection = self.nodes[number].try_connect().ok()?;
            let reply = connection.ask_line("SET ready 1").ok()?;
            (reply.text() == "OK" || reply.line().starts_with("-MOVED")).then_some(())
        });
    }

    fn clients(&self) -> Vec<Client> {
        self.nodes.iter().map(|node| Client(node.connect())).collect()
    }
}

struct Client(Connection);

impl Client {
    #[track_caller]
    fn ask(&mut self, words: &[&str]) -> String {
        self.0.ask(words).unwrap_or_else(|why| panic!("no reply to {words:?}: {why}")).line()
    }

    fn bytes(&mut self, words: &[&[u8]]) -> Reply {
        let mut request = Vec::new();
        encode(&mut request, words);
        self.0.send(&request).unwrap();
        self.0.bytes_reply().unwrap()
    }
}

/// A library with a function that returns this.
fn library(name: &str, function: &str, result: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function{{function_name='{function}', \
         callback=function(keys, args) return {result} end, flags={{'no-writes'}}}}"
    )
}

const NO_FUNCTION: &str = "-ERR Function not found";
const NO_SCRIPT: &str = "-NOSCRIPT No matching script. Please use EVAL.";

#[test]
fn function_loaded_on_one_node_is_called_on_all_at_once_and_survives_kill_9() {
    let mut cluster = Cluster::start("functions");
    let mut clients = cluster.clients();
    for loader in 0..NODES {
        let name = format!("f{loader}");
        let code = library(&format!("lib{loader}"), &name, &format!("{loader}"));
        assert_eq!(clients[loader].ask(&["FUNCTION", "LOAD", &code]), format!("lib{loader}"));
        for (number, client) in clients.iter_mut().enumerate() {
            let called = client.ask(&["FCALL", &name, "0"]);
            assert_eq!(called, format!(":{loader}"), "{name} through node {number}");
            assert_eq!(client.ask(&["FCALL_RO", &name.to_uppercase(), "0"]), format!(":{loader}"));
        }
    }
    let code = "#!lua name=w\nredis.register_function('put', function(k, a) return \
                redis.call('SET', k[1], a[1]) end)";
    assert_eq!(clients[3].ask(&["FUNCTION", "LOAD", code]), "w");
    for (number, client) in clients.iter_mut().enumerate() {
        let key = format!("key{number}");
        assert_eq!(client.ask(&["FCALL", "put", "1", &key, "value"]), "+OK");
        assert_eq!(client.ask(&["GET", &key]), "value");
        let refused = "-ERR Can not execute a script with write flag using *_ro command.";
        assert_eq!(client.ask(&["FCALL_RO", "put", "1", &key, "value"]), refused);
    }
    drop(clients);
    cluster.nodes.iter_mut().for_each(Node::kill);
    for number in 0..NODES {
        let first = cluster.nodes[0].peer.to_string();
        let join = if number > 0 { &["--join", &first][..] } else { &[] };
        cluster.nodes[number].start(&[&["--balance=off"], join].concat());
    }
    (0..NODES).for_each(|number| cluster.served_at(number));
    for client in &mut cluster.clients() {
        for loader in 0..NODES {
            assert_eq!(client.ask(&["FCALL", &format!("f{loader}"), "0"]), format!(":{loader}"));
        }
        assert_eq!(client.ask(&["FCALL", "f9", "0"]), NO_FUNCTION);
    }
}

#[test]
fn libraries_are_refused_replaced_deleted_and_restored_on_all_nodes() {
    let cluster = Cluster::start("libraries");
    let mut clients = cluster.clients();
    let old = library("a", "f", "1");
    assert_eq!(clients[3].ask(&["FUNCTION", "LOAD", &old]), "a");
    for client in &mut clients {
        let exists = "-ERR Library 'a' already exists";
        assert_eq!(client.ask(&["FUNCTION", "LOAD", &library("a", "g", "1")]), exists);
        let exists = "-ERR Function F already exists";
        assert_eq!(client.ask(&["FUNCTION", "LOAD", &library("b", "F", "1")]), exists);
        assert_eq!(client.ask(&["FUNCTION", "DELETE", "b"]), "-ERR Library not found");
        let bad = client.ask(&["FUNCTION", "LOAD", "return 1"]);
        assert_eq!(bad, "-ERR Missing library metadata");
    }
    let new = library("a", "f", "2");
    assert_eq!(clients[0].ask(&["FUNCTION", "LOAD", "REPLACE", &new]), "a");
    assert_eq!(clients[0].ask(&["FCALL", "f", "0"]), ":2", "at once where it was replaced");
    for client in &mut clients {
        harness::until(TEST_TIMEOUT, "the new one is called", || {
            (client.ask(&["FCALL", "f", "0"]) == ":2").then_some(())
        });
        let list = client.ask(&["FUNCTION", "LIST", "LIBRARYNAME", "A*", "WITHCODE"]);
        let flags = format!("name f description nil flags +no-writes library_code {new}");
        assert_eq!(list, format!("library_name a engine LUA functions {flags}"));
        let stats = client.ask(&["FUNCTION", "STATS"]);
        let counts = "engines LUA libraries_count :1 functions_count :1";
        assert_eq!(stats, format!("running_script nil {counts}"));
    }
    let Reply::Bulk(dump) = clients[1].bytes(&[b"FUNCTION", b"DUMP"]) else { panic!("no dump") };
    assert_eq!(clients[1].ask(&["FUNCTION", "FLUSH"]), "+OK");
    for client in &mut clients {
        harness::until(TEST_TIMEOUT, "the function is deleted", || {
            (client.ask(&["FCALL", "f", "0"]) == NO_FUNCTION).then_some(())
        });
    }
    let restored = clients[2].bytes(&[b"FUNCTION", b"RESTORE", &dump]);
    assert_eq!(restored, Reply::Status("OK".into()));
    for client in &mut clients {
        assert_eq!(client.ask(&["FCALL", "f", "0"]), ":2");
    }
}

#[test]
fn script_of_any_member_is_found_on_all_nodes_until_one_flushes() {
    let cluster = Cluster::start("found_scripts");
    let mut clients = cluster.clients();
    let unknown = "0123456789012345678901234567890123456789";
    for loader in 0..NODES {
        let script = format!("return {loader}");
        let sha = clients[loader].ask(&["SCRIPT", "LOAD", &script]);
        let exist = clients[(loader + 1) % NODES].ask(&["SCRIPT", "EXISTS", &sha, "x", unknown]);
        assert_eq!(exist, ":1 :0 :0");
        // Within EXEC as well, of a node that has not had it.
        let other = &mut clients[(loader + 3) % NODES];
        for words in [&["MULTI"][..], &["SET", "n", "1"], &["EVALSHA", &sha, "0"]] {
            assert!(["+OK", "+QUEUED"].contains(&&*other.ask(words)), "{words:?}");
        }
        assert_eq!(other.ask(&["EXEC"]), format!("+OK :{loader}"));
        assert_eq!(clients[(loader + 2) % NODES].ask(&["SCRIPT", "SHOW", &sha]), script);
        for client in &mut clients {
            assert_eq!(client.ask(&["EVALSHA", &sha, "0"]), format!(":{loader}"));
        }
        assert_eq!(clients[loader].ask(&["SCRIPT", "FLUSH"]), "+OK");
        for client in &mut clients {
            assert_eq!(client.ask(&["EVALSHA", &sha, "0"]), NO_SCRIPT);
            assert_eq!(client.ask(&["SCRIPT", "SHOW", &sha]), NO_SCRIPT);
        }
    }
}

/// It is shown, stopped, and has done nothing.
#[test]
fn function_that_runs_for_ever_is_shown_and_killed() {
    let node = Node::alone_and_ready(env!("CARGO_BIN_EXE_carillon"), "kill_function", &[]);
    let (mut caller, mut other) = (Client(node.connect()), Client(node.connect()));
    let code = "#!lua name=a\nredis.register_function('loop', function(k) redis.call('SET', k[1], \
                'x') while true do end end)";
    assert_eq!(other.ask(&["FUNCTION", "LOAD", code]), "a");
    assert_eq!(other.ask(&["FUNCTION", "KILL"]), "-NOTBUSY No scripts in execution right now.");
    let mut request = Vec::new();
    encode(&mut request, &["FCALL", "loop", "1", "k"]);
    caller.0.send(&request).unwrap();
    harness::until(TEST_TIMEOUT, "the function runs", || {
        let stats = other.ask(&["FUNCTION", "STATS"]);
        stats.starts_with("running_script name loop command fcall loop duration_ms").then_some(())
    });
    assert_eq!(other.ask(&["SCRIPT", "KILL"]), "-NOTBUSY No scripts in execution right now.");
    harness::until(TEST_TIMEOUT, "the function is killed", || {
        (other.ask(&["FUNCTION", "KILL"]) == "+OK").then_some(())
    });
    let killed = "-ERR Script killed by user with FUNCTION KILL; nothing of it was done";
    assert_eq!(caller.0.reply().unwrap().line(), killed);
    assert_eq!(other.ask(&["GET", "k"]), "nil");
}

/// Replies stay in order when a command in the middle asks other nodes.
#[test]
fn pipeline_waits_in_order_for_what_other_nodes_know() {
    let cluster = Cluster::start("pipelined_scripts");
    let mut clients = cluster.clients();
    let sha = clients[3].ask(&["SCRIPT", "LOAD", "return redis.call('GET', KEYS[1])"]);
    let mut request = Vec::new();
    encode(&mut request, &["SET", "k", "1"]);
    encode(&mut request, &["EVALSHA", &sha, "1", "k"]);
    encode(&mut request, &["SET", "k", "2"]);
    encode(&mut request, &["FCALL", "nosuch", "0"]);
    encode(&mut request, &["EVALSHA", &sha, "1", "k"]);
    clients[0].0.send(&request).unwrap();
    for expected in ["+OK", "1", "+OK", NO_FUNCTION, "2"] {
        assert_eq!(clients[0].0.reply().unwrap().line(), expected);
    }
}

/// A function whose keys lie in one shard runs in the queue of that shard, wherever it is led.
#[test]
fn function_of_one_shard_runs_at_its_leader() {
    let cluster = Cluster::start("forwarded_functions");
    let mut clients = cluster.clients();
    let code = "#!lua name=w\nredis.register_function('add', function(k, a) return \
                redis.call('INCRBY', k[1], a[1]) end)";
    assert_eq!(clients[0].ask(&["FUNCTION", "LOAD", code]), "w");
    // Each has the library once it has called it.
    clients.iter_mut().for_each(|client| _ = client.ask(&["FCALL", "add", "1", "k", "0"]));
    let sum = |outcome: &str| {
        let name = format!("carillon_scripts_total{{outcome=\"{outcome}\"}}");
        cluster.nodes.iter().map(|node| node.metric(&name)).sum::<f64>()
    };
    let (forwarded, queue) = (sum("forwarded"), sum("queue"));
    for number in 1..=3 {
        for (node, client) in clients.iter_mut().enumerate() {
            let expected = format!(":{}", (number - 1) * NODES + node + 1);
            assert_eq!(client.ask(&["FCALL", "add", "1", "k", "1"]), expected);
        }
    }
    assert_eq!(sum("forwarded") - forwarded, 9.0, "of all nodes but the leader");
    assert_eq!(sum("queue") - queue, 12.0);
    // The client calls the library as its node has it, which has just taken another.
    let new = code.replace("a[1]", "100 * a[1]");
    assert_eq!(clients[3].ask(&["FUNCTION", "LOAD", "REPLACE", &new]), "w");
    assert_eq!(clients[3].ask(&["FCALL", "add", "1", "k", "1"]), ":112");
}

/// What a script reads at other nodes is bounded as what it reads here, not as an HTTP reply is.
#[test]
fn script_reads_many_bytes_at_other_nodes() {
    let cluster = Cluster::start("far_bytes");
    let mut clients = cluster.clients();
    let value = "v".repeat(2 << 20);
    let keys: Vec<String> = (0..12).map(|number| format!("far{number}")).collect();
    for key in &keys {
        assert_eq!(clients[0].ask(&["SET", key, &value]), "+OK");
    }
    let script = "local n = 0 for i = 1, #KEYS do n = n + #redis.call('GET', KEYS[i]) end return n";
    let mut call = vec!["EVAL", script, "12"];
    call.extend(keys.iter().map(String::as_str));
    for client in &mut clients {
        assert_eq!(client.ask(&call), format!(":{}", 24 << 20));
    }
}

/// All are read before it runs: else it would begin again at each that another node leads.
#[test]
fn script_with_thousands_of_declared_keys_runs_once_at_any_node() {
    let cluster = Cluster::start("declared_keys");
    let keys: Vec<String> = (0..4_000).map(|number| format!("declared{number}")).collect();
    let count = keys.len().to_string();
    let script = "for i = 1, #KEYS do redis.call('INCR', KEYS[i]) end return #KEYS";
    let words = [&["EVAL", script, &count][..], &keys.iter().map(|k| &**k).collect::<Vec<_>>()];
    for node in &cluster.nodes {
        let reply = node.connect().ask(&words.concat()).unwrap().line();
        assert_eq!(reply, format!(":{count}"));
    }
    assert_eq!(cluster.nodes[0].connect().ask(&["GET", &keys[7]]).unwrap().line(), "4");
}

/// Clients of a Redis Cluster send each change of libraries to every primary.
#[test]
fn changes_of_libraries_sent_to_every_node_are_done_once_in_mode_cluster() {
    let cluster = Cluster::start_with("cluster_libraries", "cluster");
    let mut clients = cluster.clients();
    let code = library("a", "f", "1");
    let exists = "-ERR Library 'a' already exists";
    // At once, so that most come before their nodes know what another has loaded.
    for round in 0..5 {
        let mut request = Vec::new();
        encode(&mut request, &["FUNCTION", "LOAD", &code]);
        clients.iter_mut().for_each(|client| client.0.send(&request).unwrap());
        for (node, client) in clients.iter_mut().enumerate() {
            let loaded = client.0.reply().unwrap().line();
            assert_eq!(loaded, "a", "round {round} through node {node}");
        }
        for client in &mut clients {
            assert_eq!(client.ask(&["FUNCTION", "LOAD", &code]), exists, "for the second time");
        }
        for client in &mut clients {
            assert_eq!(client.ask(&["FUNCTION", "DELETE", "a"]), "+OK");
        }
        for client in &mut clients {
            assert_eq!(client.ask(&["FUNCTION", "DELETE", "a"]), "-ERR Library not found");
        }
    }
    assert_eq!(clients[2].ask(&["FUNCTION", "LOAD", &code]), "a");
    let Reply::Bulk(dump) = clients[2].bytes(&[b"FUNCTION", b"DUMP"]) else { panic!("no dump") };
    for client in &mut clients {
        let other = library("a", "f", "2");
        assert_eq!(client.ask(&["FUNCTION", "LOAD", &other]), exists);
        assert_eq!(client.ask(&["FUNCTION", "LOAD", "REPLACE", &code]), "a");
    }
    for client in &mut clients {
        assert_eq!(client.ask(&["FUNCTION", "FLUSH"]), "+OK");
    }
    for client in &mut clients {
        let restored = client.bytes(&[b"FUNCTION", b"RESTORE", &dump]);
        assert_eq!(restored, Reply::Status("OK".into()));
    }
    for client in &mut clients {
        assert_eq!(client.ask(&["FCALL", "f", "0"]), ":1");
    }
}

/// A script runs where its shard is led; it is shown and killed through every node.
#[test]
fn script_that_runs_at_another_node_is_killed_through_any() {
    let cluster = Cluster::start("killed_elsewhere");
    let mut clients = cluster.clients();
    let not_busy = "-NOTBUSY No scripts in execution right now.";
    let endless = "redis.call('SET', KEYS[1], 'x') while true do end";
    for killer in 0..NODES {
        let caller_node = &cluster.nodes[(killer + 1) % NODES];
        let mut caller = Client(caller_node.connect());
        assert_eq!(clients[killer].ask(&["SCRIPT", "KILL"]), not_busy);
        let mut request = Vec::new();
        encode(&mut request, &["EVAL", endless, "1", "k"]);
        caller.0.send(&request).unwrap();
        harness::until(TEST_TIMEOUT, "the command is shown", || {
            let list = clients[(killer + 1) % NODES].ask(&["CLIENT", "LIST"]);
            list.contains(" cmd=eval ").then_some(())
        });
        assert_eq!(clients[killer].ask(&["FUNCTION", "KILL"]), not_busy);
        harness::until(TEST_TIMEOUT, "the script is killed", || {
            (clients[killer].ask(&["SCRIPT", "KILL"]) == "+OK").then_some(())
        });
        let killed = "-ERR Script killed by user with SCRIPT KILL; nothing of it was done";
        assert_eq!(caller.0.reply().unwrap().line(), killed);
        assert_eq!(clients[killer].ask(&["GET", "k"]), "nil");
    }
}
