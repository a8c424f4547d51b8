//! The real program against a fake node of one map: its output and its exit codes.

#[path = "../../api/tests/fake/mod.rs"]
mod fake;

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use api::http::{Options, Server, start};
use harness::command::{CommandResult, run};

struct Node {
    server: Server,
}

fn carillon(arguments: &[&OsStr], input: &[u8], environment: &[(&str, &str)]) -> CommandResult {
    run(env!("CARGO_BIN_EXE_carillon"), arguments, input, environment)
}

fn alone(line: &str) -> CommandResult {
    let arguments: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
    carillon(&arguments, b"", &[])
}

impl Node {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = Options { request_timeout: Duration::from_millis(200), ..Options::new(1) };
        Self { server: start(listener, Arc::new(fake::Fake::new()), options).unwrap() }
    }

    fn with(&self, arguments: &[&OsStr], input: &[u8]) -> CommandResult {
        let address = self.server.address().to_string();
        carillon(arguments, input, &[("CARILLON_HTTP", &address)])
    }

    fn run(&self, line: &str) -> CommandResult {
        let arguments: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
        self.with(&arguments, b"")
    }
}

#[test]
fn put_get_and_delete_work() {
    let node = Node::new();
    let put = node.run("put greeting hello");
    assert_eq!((put.code, put.text()), (0, "ok\n"), "{}", put.err);
    let get = node.run("get greeting");
    assert_eq!((get.code, get.text()), (0, "hello"));
    let json = node.run("get greeting --json");
    assert_eq!(
        json.text(),
        "{\"expires_at_ms\":null,\"key\":\"greeting\",\"timestamp\":\"111411200000065536\",\
         \"value\":\"hello\"}\n"
    );
    assert_eq!(node.run("put greeting later").code, 0);
    let then = node.run("get greeting --at 111411200000065536");
    assert_eq!((then.code, then.text()), (0, "hello"));
    let yet = node.run("get greeting --at 1700000000000ms");
    assert_eq!((yet.code, yet.text()), (1, ""));
    assert!(yet.err.contains("got one later"), "{}", yet.err);

    let del = node.run("del greeting nothing");
    assert_eq!((del.code, del.text()), (1, "1\n"));
    let get = node.run("get greeting");
    assert_eq!(
        (get.code, get.text(), get.err.as_str()),
        (1, "", "carillon: the key has no value\n")
    );
    assert_eq!(
        node.run("get greeting --json").text(),
        "{\"key\":\"greeting\",\"state\":\"nil\",\"value\":null}\n"
    );
}

#[test]
fn keys_and_values_are_any_bytes() {
    let node = Node::new();
    let (key, value) = (OsStr::from_bytes(b"\xff/\xfe ?"), [0, 255, 10, 13]);
    let [put, get, dash] = ["put", "get", "-"].map(OsStr::new);
    assert_eq!(node.with(&[put, key, dash], &value).code, 0);
    assert_eq!(node.with(&[get, key], b"").out, value);
    let json = node.with(&[get, key, OsStr::new("--json")], b"");
    assert!(json.text().contains("\"key_hex\":\"ff2ffe203f\""), "{}", json.text());
    let large = vec![b'x'; 5 << 20];
    assert_eq!(node.with(&[put, OsStr::new(".."), dash], &large).code, 0);
    assert_eq!(node.with(&[get, OsStr::new("..")], b"").out, large);
    assert_eq!(node.run("put number -5").code, 0);
    assert_eq!(node.run("get number").text(), "-5");
}

#[test]
fn put_accepts_condition_and_ttl() {
    let node = Node::new();
    assert_eq!(node.run("put k 1 --if present").code, 1);
    assert_eq!(node.run("put k 1 --if absent --ttl 5s").code, 0);
    assert!(node.run("get k --json").text().contains("\"expires_at_ms\":1700000005001"));
    let refused = node.run("put k 2 --if absent --json");
    assert_eq!((refused.code, refused.text()), (1, "{\"written\":false}\n"));
    let usage = node.run("put k 2 --ttl soon");
    assert_eq!(usage.code, 2);
    assert!(usage.err.contains("250ms, 10s, 5m"), "{}", usage.err);
}

#[test]
fn exit_codes_distinguish_kinds_of_failure() {
    let node = Node::new();
    let unknown = node.run("put silent x");
    assert_eq!(unknown.code, 4, "{}", unknown.err);
    assert!(unknown.err.starts_with("carillon: unknown outcome"), "{}", unknown.err);
    let json = node.run("put silent x --json");
    assert!(json.err.contains("\"outcome\":\"unknown\""), "{}", json.err);
    assert_eq!(node.run("put oom x").code, 1);
    assert_eq!(node.run("get k --keyspace none").code, 1);
    assert_eq!(node.run("get k --at never").code, 2);
    assert_eq!(node.run("get k --http nowhere").code, 2);

    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = alone(&format!("get k --http {unused}"));
    assert_eq!(nobody.code, 3);
    assert!(nobody.err.contains("carillon start") && nobody.err.contains(&unused.to_string()));
}

#[test]
fn transaction_exit_code_is_its_outcome() {
    let node = Node::new();
    let txn = |more: &str, input: &str| {
        let arguments: Vec<&OsStr> = more.split(' ').map(OsStr::new).collect();
        node.with(&arguments, input.as_bytes())
    };
    let conflict = txn("txn -", "get a");
    assert_eq!((conflict.code, conflict.text()), (1, "(nil)\n"));
    assert!(conflict.err.contains("has changed since") && conflict.err.contains("begin again"));
    let lost = txn("txn --json", "then\nget lost");
    assert_eq!((lost.code, lost.text()), (4, ""));
    assert!(lost.err.contains(r#""outcome":"unknown""#), "{}", lost.err);
    let wrong = txn("txn", "then\nget");
    assert!(wrong.code == 2 && wrong.err.contains("line 2: expected get KEY"), "{}", wrong.err);
    let none = carillon(&["txn", "-"].map(OsStr::new), b"get a", &[("CARILLON_HTTP", "[::1]:1")]);
    assert_eq!(none.code, 3, "{}", none.err);
}

#[test]
fn keyspace_commands_create_list_change_and_drop() {
    let node = Node::new();
    let made = node.run("keyspace create events --placement ordered --retention 7d");
    let expected = "NAME    PLACEMENT  DURABILITY  RETENTION  REPLICAS  SHARDS  KEYS\n\
                    events  ordered    sync        7d                1       8     0\n";
    assert_eq!((made.code, made.text()), (0, expected), "{}", made.err);
    assert_eq!(node.run("keyspace create events").code, 1);
    assert_eq!(node.run("put k v --keyspace events").code, 0);
    assert_eq!(node.run("get k").code, 1, "another keyspace");
    assert!(node.run("keyspace alter events --durability memory").text().contains("memory"));
    let raised = node.run("keyspace alter events --replicas 3 --json");
    assert!(raised.text().contains("\"replicas\":3,"), "{}", raised.text());
    assert_eq!(node.run("keyspace alter events").code, 2, "nothing to change");
    assert_eq!(node.run("keyspace list").text().lines().count(), 3);
    let list = node.run("keyspace list --json");
    assert!(list.text().starts_with("{\"keyspaces\":[{") && list.text().contains("\"id\":1,"));
    assert_eq!(node.run("keyspace drop events").text(), "dropped events\n");
    assert_eq!(node.run("keyspace drop events").code, 1);
}

#[test]
fn status_prints_text_and_json() {
    let node = Node::new();
    let status = node.run("status");
    assert_eq!(status.code, 0, "{}", status.err);
    for line in [
        "node            fake (00000000000000ff)",
        "cluster version 1 (this node supports 1 to 2)",
        "                - n2 supports 1 only",
        "state           ready",
        "health          degraded",
        "                - 2 of 3 replicas of shard 1 of keyspace \"0\" are live",
        "cluster         2 nodes up, 1 down",
        "shards          8, leads 1",
        "up              1h 2m",
        "keys            12345",
        "memory          5.0 MiB of 1.0 GiB",
        "warning         nobody is asked for a password",
    ] {
        assert!(status.text().lines().any(|each| each == line), "{line}\n{}", status.text());
    }
    assert!(node.run("status --json").text().contains("\"keys\":12345"));
    assert_eq!(node.run("keyspace drop 0").code, 0);
    assert_eq!(node.run("status").code, 1, "not ready");
}

#[test]
fn upgrade_shows_and_raises_the_cluster_version() {
    let node = Node::new();
    let check = node.run("upgrade --check");
    assert_eq!(check.code, 1, "a node does not support it");
    for line in ["cluster version 1", "n1    1 to 2", "n2    1 only", "n3    not reported"] {
        assert!(check.text().lines().any(|each| each == line), "{line}\n{}", check.text());
    }
    assert!(check.text().contains("2 cannot be used yet: n2 supports 1 only; n3 has not been"));
    let refused = node.run("upgrade");
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("not all nodes support version 2: n2 supports 1 only"),
        "{}",
        refused.err
    );
    let there = node.run("upgrade --to 1");
    assert_eq!((there.code, there.text()), (0, "the cluster version is 1 already\n"));
    assert!(node.run("upgrade --to 1 --json").text().contains("\"automatic\":true"));
    assert_eq!(node.run("upgrade --to 0").code, 2);
    assert_eq!(node.run("upgrade --to 2 --check").code, 2);
}

#[test]
fn node_commands_cordon_drain_and_remove() {
    let node = Node::new();
    let cordon = node.run("nodes cordon n1");
    assert_eq!((cordon.code, cordon.text()), (0, "n1 is cordoned\n"), "{}", cordon.err);
    let nodes = node.run("nodes");
    let first = nodes.text().lines().nth(1).unwrap();
    assert!(first.contains("cordoned") && nodes.text().contains("STANDING"), "{first}");
    let uncordon = node.run("nodes uncordon n1 --json");
    assert!(uncordon.text().contains("\"standing\":\"member\""), "{}", uncordon.text());
    assert!(!node.run("nodes").text().contains("STANDING"));

    let begun = node.run("drain n1 --no-wait");
    assert_eq!(begun.code, 0, "{}", begun.err);
    assert!(begun.text().starts_with("n1 is draining. n1: 9 replicas (1 leader), 2.0 KiB left"));
    let late = node.run("drain n1 --timeout 700ms");
    assert_eq!((late.code, late.text()), (1, ""));
    assert!(late.err.starts_with("n1: 9 replicas"), "progress, once: {}", late.err);
    assert_eq!(late.err.lines().count(), 2, "{}", late.err);
    assert!(late.err.contains("not done in time") && late.err.contains("goes on"), "{}", late.err);
    let refused = node.run("nodes remove n1");
    assert_eq!((refused.code, refused.text()), (1, ""));
    assert!(refused.err.contains("still has 9 replicas. Drain it first"), "{}", refused.err);

    let done = node.run("drain n2");
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("n2: 5 replicas") && done.err.contains("n2: 1 replica "));
    assert!(done.text().contains("n2 is empty"), "{}", done.text());
    let again = node.run("drain n2 --json");
    assert_eq!((again.code, again.err.as_str()), (0, ""));
    assert!(again.text().contains("\"empty\":true"), "{}", again.text());
    let removed = node.run("nodes remove n2");
    assert_eq!((removed.code, removed.text()), (0, "n2 is removed, for good\n"));

    for (line, code, words) in [
        ("nodes cordon n3", 1, "keeps 3 replicas"),
        ("nodes cordon twins", 1, "several nodes are called"),
        ("drain n9", 1, "there is no node \"n9\""),
        ("nodes remove lost", 4, "unknown outcome"),
        ("drain n1 --no-wait --timeout 5s", 2, "cannot be used with"),
        ("nodes cordon", 2, "<NODE>"),
    ] {
        let ended = node.run(line);
        assert_eq!(ended.code, code, "{line}: {}", ended.err);
        assert!(ended.err.contains(words), "{line}: {}", ended.err);
    }
}

#[test]
fn nodes_and_shards_print_tables_and_fail_with_exit_code() {
    let node = Node::new();
    let nodes = node.run("nodes");
    assert_eq!(nodes.code, 0, "{}", nodes.err);
    let words = |text: &str, line: usize| {
        let line = text.lines().nth(line).unwrap_or_default().to_owned();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words(nodes.text(), 1)[..2], ["n1*", "up"]);
    assert_eq!(words(nodes.text(), 3)[..2], ["n3", "down"]);
    assert!(nodes.text().contains("\ndegraded\n  2 of 3 replicas"), "{}", nodes.text());
    assert!(!nodes.text().contains('\x1b'), "no colours in a pipe");
    let shards = node.run("shards --keyspace 0");
    assert_eq!(shards.code, 0, "{}", shards.err);
    let expected = ["1", "0", "0-16383", "degraded", "2/3", "n1", "n1*", "n2:7", "n3+!:14"];
    assert_eq!(words(shards.text(), 1)[..9], expected);
    assert_eq!(words(shards.text(), 2), [""; 0], "the catalogue's is another keyspace's");
    assert!(node.run("shards --json").text().contains("\"lease_ms\":400"));
    assert_eq!(node.run("shards --keyspace nothing").code, 1);
    assert_eq!(node.run("keyspace drop 0").code, 0);
    for command in ["nodes", "shards"] {
        let failing = node.run(command);
        assert_eq!(failing.code, 1, "{}", failing.text());
        assert!(failing.text().contains("\nfailing\n  this node does not serve"));
    }
    assert!(node.run("shards --watch 0").code == 2, "not that often");
}

#[test]
fn route_prints_table_of_lookups() {
    let node = Node::new();
    let all = node.run("route greeting");
    assert_eq!(all.code, 0, "that lh is not for the keyspace is no failure: {}", all.err);
    let lines: Vec<&str> = all.text().lines().collect();
    assert!(lines[0].starts_with("LOOKUP") && lines[0].ends_with("OWNER"), "{lines:?}");
    for (line, lookup) in lines[1..].iter().zip(["full", "chord", "chord-sharp", "linear", "lh"]) {
        assert_eq!(line.split(' ').next(), Some(lookup));
    }
    assert!(all.text().contains("chord-sharp iterative\nMOVE"), "{}", all.text());
    assert!(all.text().contains("somebody") && all.text().contains("finger 61"));
    let one = node.run("route greeting --lookup linear --form recursive --no-images --json");
    assert_eq!(one.code, 0, "{}", one.err);
    let way: serde_json::Value = serde_json::from_str(one.text()).unwrap();
    let choice = [&way[0]["lookup"], &way[0]["form"], &way[0]["images"]];
    assert_eq!(
        choice,
        ["linear", "recursive", ""]
            .map(|word| match word {
                "" => serde_json::json!(false),
                word => serde_json::json!(word),
            })
            .each_ref()
    );
    assert!(way[1].is_null());
    for wrong in ["--lookup kademlia", "--form sideways"] {
        let refused = node.run(&format!("route greeting {wrong}"));
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains("is no lookup"), "{}", refused.err);
    }
    // Commands for single keys tell which way they went, beside what they say anyway.
    node.run("put greeting hello");
    let got = carillon_with(&node, &["get", "greeting", "--lookup", "chord recursive"]);
    assert_eq!((got.code, got.text()), (0, "hello"));
    assert!(got.err.contains("lookup=chord; form=recursive; images=on; hops=1"), "{}", got.err);
    let nothing = carillon_with(&node, &["del", "nothing", "--lookup", "full"]);
    assert!(nothing.err.contains("lookup=full"), "{}", nothing.err);
    assert!(!node.run("get greeting").err.contains("lookup="));
}

fn carillon_with(node: &Node, words: &[&str]) -> CommandResult {
    node.with(&words.iter().map(OsStr::new).collect::<Vec<_>>(), b"")
}

#[test]
fn help_shows_examples_and_misspelling_gets_suggestion() {
    let help = alone("--help");
    assert_eq!(help.code, 0);
    for words in ["carillon start --dir data", "Exit codes:", "4  unknown outcome"] {
        assert!(help.text().contains(words), "{}", help.text());
    }
    let start = alone("start --help");
    for words in ["--memory-max <SIZE>", "CARILLON_MEMORY_MAX", "[default: 60%]", "--insecure"] {
        assert!(start.text().contains(words), "{}", start.text());
    }
    let typo = alone("stauts");
    assert_eq!(typo.code, 2);
    assert!(typo.err.contains("'status'"), "{}", typo.err);
    let typo = alone("start --memry-max 1GiB");
    assert_eq!(typo.code, 2);
    assert!(typo.err.contains("'--memory-max'"), "{}", typo.err);
    let environment = carillon(&[OsStr::new("start")], b"", &[("CARILLON_MEMRY_MAX", "1GiB")]);
    assert_eq!(environment.code, 2);
    assert!(environment.err.contains("did you mean `CARILLON_MEMORY_MAX`?"), "{}", environment.err);
    let open = alone("start --http 0.0.0.0:7480");
    assert_eq!(open.code, 2);
    assert!(open.err.contains("--insecure"), "{}", open.err);
    assert_eq!(alone("--version").text(), concat!("carillon ", env!("CARGO_PKG_VERSION"), "\n"));
    for shell in ["bash", "zsh", "fish"] {
        let script = alone(&format!("completions {shell}"));
        assert!(script.code == 0 && script.text().contains("keyspace"), "{shell}");
    }
}

#[test]
fn check_fails_for_missing_or_empty_directory() {
    let dir = std::env::temp_dir().join(format!("carillon-no-node-{}", std::process::id()));
    let missing = alone(&format!("check {}", dir.display()));
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains(dir.to_str().unwrap()), "{}", missing.err);
    std::fs::create_dir(&dir).unwrap();
    let empty = alone(&format!("check {} --json", dir.display()));
    assert_eq!(empty.code, 1);
    assert!(
        empty.text().starts_with("{\"error\":") && empty.text().contains("holds no node's data")
    );
    std::fs::remove_dir(&dir).unwrap();
}
