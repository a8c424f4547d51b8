//! Changes of libraries and scripts within MULTI, scans before writes, and commands on the
//! connection beside scripts: real processes. That replies are Redis's is for the differential
//! suite.

use harness::cluster::Cluster;
use harness::node::Node;
use harness::resp::Connection;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
/// The SHA1 of `return 1`, and of `return 2`.
const ONE: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
const TWO: &str = "7f923f79fe76194c868d7e1d0820de36700eb649";

#[track_caller]
fn ask(connection: &mut Connection, words: &[&str]) -> String {
    connection.ask(words).unwrap_or_else(|why| panic!("no reply to {words:?}: {why}")).line()
}

/// The reply of EXEC to these commands.
#[track_caller]
fn exec(connection: &mut Connection, commands: &[&[&str]]) -> String {
    assert_eq!(ask(connection, &["MULTI"]), "+OK");
    for words in commands {
        assert_eq!(ask(connection, words), "+QUEUED", "{words:?}");
    }
    ask(connection, &["EXEC"])
}

fn library(name: &str, body: &str) -> String {
    format!("#!lua name={name}\nredis.register_function('f{name}', function(k, a) {body} end)")
}

#[test]
fn a_transaction_that_is_not_done_changes_neither_libraries_nor_the_connection() {
    let node = Node::alone_and_ready(PROGRAM, "exec_not_done", &["--durability", "memory"]);
    let (mut connection, mut other) = (node.connect(), node.connect());
    let load = library("a", "return redis.call('INCR', k[1])");
    assert_eq!(ask(&mut connection, &["WATCH", "n"]), "+OK");
    assert_eq!(ask(&mut other, &["SET", "n", "5"]), "+OK");
    let commands: &[&[&str]] = &[
        &["FUNCTION", "LOAD", &load],
        &["FCALL", "fa", "1", "n"],
        &["CLIENT", "SETNAME", "me"],
        &["SCRIPT", "LOAD", "return 1"],
        &["EVAL", "return 2", "0"],
        &["EVALSHA", TWO, "0"],
        &["SUBSCRIBE", "c"],
    ];
    assert_eq!(exec(&mut connection, commands), "nil");
    assert_eq!(ask(&mut other, &["SCRIPT", "EXISTS", ONE, TWO]), ":0 :0");
    assert_eq!(ask(&mut other, &["FUNCTION", "LIST"]), "");
    assert_eq!(ask(&mut other, &["PUBLISH", "c", "m"]), ":0");
    assert_eq!(ask(&mut connection, &["CLIENT", "GETNAME"]), "nil");
    assert_eq!(ask(&mut other, &["GET", "n"]), "5");
    // The same without what has changed.
    let done = format!("a :6 +OK {ONE} :2 :2");
    assert_eq!(exec(&mut connection, &commands[..6]), done);
    assert_eq!(ask(&mut other, &["SCRIPT", "EXISTS", ONE, TWO]), ":1 :1");
    assert_eq!(ask(&mut other, &["FCALL", "fa", "1", "n"]), ":7");
    assert_eq!(ask(&mut connection, &["CLIENT", "GETNAME"]), "me");
}

/// As Redis, which knows the function by then.
#[test]
fn a_wrong_call_of_a_function_that_the_transaction_has_loaded_says_what_is_wrong() {
    let node = Node::alone_and_ready(PROGRAM, "exec_wrong_call", &["--durability", "memory"]);
    let mut connection = node.connect();
    let load = library("w", "return 1");
    let commands: &[&[&str]] = &[
        &["FCALL", "fw", "x"],
        &["FUNCTION", "LOAD", &load],
        &["FCALL", "fw", "x"],
        &["FCALL", "fw", "2", "k"],
        &["FCALL", "fw", "-1"],
        &["FCALL", "other", "x"],
        &["FUNCTION", "DELETE", "w"],
        &["FCALL", "fw", "x"],
    ];
    let unknown = "-ERR Function not found";
    let expected = format!(
        "{unknown} w -ERR Bad number of keys provided -ERR Number of keys can't be greater than \
         number of args -ERR Number of keys can't be negative {unknown} +OK {unknown}"
    );
    assert_eq!(exec(&mut connection, commands), expected);
}

/// Whether a key that is written blindly was there is asked of its leader, once.
#[test]
fn scans_behind_blind_writes_are_answered_at_nodes_that_do_not_lead_them() {
    let cluster = Cluster::start(PROGRAM, "exec_blind", 3, &[], &["0"]);
    let set_and_count = "redis.call('SET', KEYS[1], 1) return redis.call('DBSIZE')";
    let undeclared = "redis.call('SET', ARGV[1], 1) return redis.call('DBSIZE')";
    assert_eq!(ask(&mut cluster.nodes[0].connect(), &["FLUSHALL"]), "+OK");
    for key in ["a", "b", "c", "d"] {
        let [one, two] = ["1", "2"].map(|end| format!("{key}{end}"));
        for node in &cluster.nodes {
            let mut connection = node.connect();
            // New keys, then keys that are there.
            for [first, then, last] in [[1, 2, 3], [3, 3, 3]] {
                let first = format!(":{first}");
                assert_eq!(ask(&mut connection, &["EVAL", undeclared, "0", key]), first);
                assert_eq!(ask(&mut connection, &["EVAL", set_and_count, "1", key]), first);
                let commands: &[&[&str]] =
                    &[&["SET", &one, "1"], &["GET", &one], &["DBSIZE"], &["SET", &two, "1"]];
                assert_eq!(exec(&mut connection, commands), format!("+OK 1 :{then} +OK"));
                assert_eq!(ask(&mut connection, &["DBSIZE"]), format!(":{last}"));
            }
            assert_eq!(ask(&mut connection, &["DEL", key, &one, &two]), ":3");
        }
    }
}

/// Each sees its own library within its EXEC; what stays is one of them, and every reply says
/// whose.
#[test]
fn transactions_that_load_the_same_library_at_once_are_answered_as_the_catalogue_decides() {
    let node = Node::alone_and_ready(PROGRAM, "exec_at_once", &["--durability", "memory"]);
    for round in 0..5 {
        let loaders: Vec<_> = (0..4)
            .map(|number| {
                let mut connection = node.connect();
                std::thread::spawn(move || {
                    let code = library("race", &format!("return {number}"));
                    let commands: &[&[&str]] =
                        &[&["FUNCTION", "LOAD", &code], &["FCALL", "frace", "0"]];
                    exec(&mut connection, commands)
                })
            })
            .collect();
        let replies: Vec<String> = loaders.into_iter().map(|one| one.join().unwrap()).collect();
        let mut connection = node.connect();
        let stays = ask(&mut connection, &["FCALL", "frace", "0"]);
        let loaded: Vec<&String> =
            replies.iter().filter(|reply| reply.starts_with("race ")).collect();
        assert_eq!(loaded, [&format!("race {stays}")], "round {round}: {replies:?}");
        let refused = "-ERR Library 'race' already exists ";
        assert_eq!(
            replies.iter().filter(|reply| reply.starts_with(refused)).count(),
            3,
            "{replies:?}"
        );
        assert_eq!(ask(&mut connection, &["FUNCTION", "FLUSH"]), "+OK");
    }
}

#[test]
fn changes_of_one_transaction_are_bounded() {
    let node = Node::alone_and_ready(PROGRAM, "exec_bounded", &["--durability", "memory"]);
    let mut connection = node.connect();
    let flush: &[&str] = &["FUNCTION", "FLUSH"];
    let [most, beyond] = [("1", 128), ("2", 129)].map(|(value, flushes)| {
        let set = ["SET", "k", value];
        let mut commands = vec![flush; flushes + 1];
        commands[0] = &set;
        exec(&mut connection, &commands)
    });
    assert_eq!(most, "+OK".to_owned() + &" +OK".repeat(128));
    assert!(beyond.starts_with("-EXECABORT a transaction changes libraries and scripts at most"));
    assert_eq!(ask(&mut connection, &["GET", "k"]), "1");
}

/// Whichever shards its keys lie in; others write meanwhile, so that it runs again.
#[test]
fn scans_show_what_their_transaction_has_written_before_them() {
    let node = Node::alone_and_ready(PROGRAM, "exec_scans", &["--durability", "memory"]);
    let mut connection = node.connect();
    let mut other = node.connect();
    let writer = std::thread::spawn(move || {
        (0..300).for_each(|n| assert_eq!(ask(&mut other, &["SET", "busy", &n.to_string()]), "+OK"));
    });
    assert_eq!(ask(&mut connection, &["SET", "busy", "0"]), "+OK");
    for round in 0..20 {
        let [new, gone] = ["new", "gone"].map(|name| format!("{name}{round}"));
        assert_eq!(ask(&mut connection, &["SET", &gone, "1"]), "+OK");
        let pattern = format!("*{round}");
        let commands: &[&[&str]] = &[
            &["DBSIZE"],
            &["KEYS", &pattern],
            &["SET", &new, "1"],
            &["APPEND", "busy", "x"],
            &["DEL", &gone],
            &["DBSIZE"],
            &["KEYS", &pattern],
            &["SCAN", "0", "MATCH", &format!("?*w{round}"), "COUNT", "1000"],
            &["DEL", &new],
            &["DBSIZE"],
            &["CLIENT", "SETNAME", "me"],
        ];
        let reply = exec(&mut connection, commands);
        let length = reply.split(' ').nth(3).unwrap();
        let expected = format!(":2 {gone} +OK {length} :1 :2 {new} 0 {new} :1 :1 +OK");
        assert_eq!(reply, expected);
    }
    writer.join().unwrap();
}
