//! Transactions by HTTP and from the command line, with real nodes.

mod command_line;
#[path = "../four/mod.rs"]
mod four;

use std::ops::Deref;
use std::thread;
use std::time::Duration;

use client::http::txn::{bytes_of, word};
use client::http::{ClientError, GetResult, KeyspaceSpec, PutOptions, Request};
use harness::command::run;
use harness::node;
use serde_json::{Value, json};

const CARILLON: &str = env!("CARGO_BIN_EXE_carillon");
/// For open transactions of tests that do not wait for their end.
const LONG_MS: u64 = 600_000;

/// A node of its own directory, killed and removed when it is dropped.
struct Node(node::Node);

impl Deref for Node {
    type Target = node::Node;

    fn deref(&self) -> &node::Node {
        &self.0
    }
}

impl Node {
    fn start(name: &str) -> Self {
        Self(node::Node::alone_and_ready(CARILLON, name, &["--threads", "2"]))
    }

    fn put(&self, key: &str, value: &str) {
        let options = PutOptions::default();
        assert!(self.client().put("0", key.as_bytes(), value.as_bytes(), &options).unwrap());
    }

    /// The value of a key, and its version.
    fn get(&self, key: &[u8]) -> Option<(Vec<u8>, u64)> {
        match self.client().get("0", key, None).unwrap() {
            GetResult::Value { value, timestamp, .. } => Some((value, timestamp.unwrap())),
            GetResult::Nil | GetResult::NilYet => None,
        }
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key.as_bytes()).map(|(value, _)| String::from_utf8(value).unwrap())
    }

    fn transact(&self, txn: Value) -> Value {
        self.client().transact(&txn).unwrap()
    }

    fn ordered(&self, name: &str) {
        let placement = Some("ordered".to_owned());
        let spec = KeyspaceSpec { name: name.into(), placement, ..KeyspaceSpec::default() };
        self.client().keyspace_create(&spec).unwrap();
    }

    /// A request as bytes: its status, the type of its problem, and its body.
    fn post(&self, path: &str, body: &[u8]) -> (u16, String, String) {
        let request = Request { json: true, body, ..Request::write("POST", path) };
        let reply = self.client().send(&request).unwrap();
        let json: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let kind = json["type"].as_str().unwrap_or_default();
        let kind = kind.rsplit(':').next().unwrap_or_default().to_owned();
        (reply.status, kind, reply.text())
    }

    /// Runs `carillon txn` with a file as its input: exit code, output, and complaints.
    fn txn(&self, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
        let http = self.http.to_string();
        let words = [&["txn"], arguments].concat();
        let ended = run(CARILLON, words, input, &[("CARILLON_HTTP", &http)]);
        (ended.code, ended.text().to_owned(), ended.err)
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>, kind: &str, words: &str) {
    match result {
        Err(ClientError::Refused(problem) | ClientError::BadRequest(problem)) => {
            let is_it = problem.kind == kind && problem.detail.contains(words);
            assert!(is_it, "{problem:?}");
        }
        other => panic!("{other:?}, where {kind} was expected"),
    }
}

/// A commit of what is not open may be one whose answer was lost.
#[track_caller]
fn perhaps<T: std::fmt::Debug>(result: Result<T, ClientError>, words: &str) {
    match result {
        Err(ClientError::Unknown { why, request_id: Some(_) }) => {
            assert!(why.contains(words) && why.contains("it may have been done"), "{why}");
        }
        other => panic!("{other:?}, where it is unknown"),
    }
}

#[test]
fn transaction_compares_and_branches_over_several_shards() {
    let node = Node::start("compare");
    let keys: Vec<String> = (0..40).map(|number| format!("key {number}")).collect();
    let puts: Vec<Value> =
        keys.iter().map(|key| json!({ "put": { "key": key, "value": "1" } })).collect();
    let absent: Vec<Value> =
        keys.iter().map(|key| json!({ "key": key, "exists": false })).collect();
    let all = json!({ "compare": absent, "then": puts, "else": [{ "get": "key 7" }] });
    let first = node.transact(all.clone());
    assert_eq!(first["succeeded"], true);
    assert!(first["results"].as_array().unwrap().iter().all(|put| *put == json!({ "put": true })));
    assert!(keys.iter().all(|key| node.text(key).as_deref() == Some("1")));
    let (_, version) = node.get(b"key 7").unwrap();
    let value = json!({ "value": "1", "version": version.to_string() });
    assert_eq!(node.transact(all), json!({ "succeeded": false, "results": [value] }));

    // Versions are those that GET shows, as text or as numbers; of no value it is 0.
    for (version, holds) in [
        (json!(version.to_string()), true),
        (json!(version), true),
        (json!(version + 1), false),
        (json!(0), false),
    ] {
        let compare = json!([{ "key": "key 7", "version": version }]);
        assert_eq!(node.transact(json!({ "compare": compare }))["succeeded"], holds);
    }
    let compare = json!([{ "key": "none", "version": "0" }, { "key": "key 1", "value": "1" },
                         { "key": "key 2", "exists": true }]);
    // What was written before is seen, and has no version yet.
    let then = json!([{ "increment": { "key": "key 1", "by": 5 } }, { "get": "key 1" },
                      { "delete": "key 2" }, { "delete": "none" }, { "get": "key 2" },
                      { "put": { "key": "short", "value": "life", "ttl_ms": 60_000 } }]);
    let done = node.transact(json!({ "keyspace": "0", "compare": compare, "then": then }));
    let results = json!([{ "value": "6" }, { "value": "6" }, { "deleted": true },
                         { "deleted": false }, { "value": null }, { "put": true }]);
    assert_eq!(done, json!({ "succeeded": true, "results": results }));
    assert_eq!((node.text("key 1").as_deref(), node.text("key 2")), (Some("6"), None));
    match node.client().get("0", b"short", None).unwrap() {
        GetResult::Value { expires_at_ms, .. } => assert!(expires_at_ms.is_some()),
        other => panic!("{other:?}"),
    }
    // One that does not hold is enough; and with nothing to be done nothing is.
    let compare = json!([{ "key": "key 3", "exists": true }, { "key": "key 3", "value": "2" }]);
    let none = json!({ "succeeded": false, "results": [] });
    assert_eq!(node.transact(json!({ "compare": compare, "then": then })), none);
    // A keyspace with a number is made when it is used.
    let then = json!([{ "get": "a" }]);
    let nil = json!({ "succeeded": true, "results": [{ "value": null }] });
    assert_eq!(node.transact(json!({ "keyspace": "7", "then": then })), nil);
}

#[test]
fn keys_and_values_are_any_bytes() {
    let node = Node::start("bytes");
    let (key, value) = (&b"\xff\0key"[..], &b"\x80\x81"[..]);
    let put = json!({ "put": { "key": word(key), "value": word(value) } });
    let done = node.transact(json!({ "then": [put, { "get": word(key) }] }));
    assert_eq!(bytes_of(&done["results"][1]["value"]).unwrap(), value);
    assert_eq!(node.get(key).unwrap().0, value);
    let compare = json!([{ "key": word(key), "value": word(value) }]);
    assert_eq!(node.transact(json!({ "compare": compare }))["succeeded"], true);
}

#[test]
fn refused_operation_undoes_whole_transaction() {
    let node = Node::start("refused");
    node.put("word", "x");
    let then = json!([{ "put": { "key": "a", "value": "1" } }, { "increment": { "key": "word" } }]);
    let done = node.client().transact(&json!({ "then": then }));
    refused(done, "operation-refused", "operation 2 of then: 1 cannot be added to 'word'");
    assert_eq!(node.text("a"), None);
    let range = json!({ "then": [{ "range": {} }] });
    refused(node.client().transact(&range), "operation-refused", "only ordered keyspaces");
    refused(
        node.client().transact(&json!({ "keyspace": "none", "then": [{ "get": "a" }] })),
        "no-keyspace",
        "none",
    );
}

#[test]
fn competing_transactions_are_serialised() {
    const CLIENTS: usize = 6;
    const TIMES: usize = 20;
    let node = Node::start("compete");
    node.put("from", "1000");
    node.put("to", "0");
    let done: usize = thread::scope(|scope| {
        let one = |number: usize| {
            let client = node.client();
            let by = number as i64 + 1;
            (0..TIMES)
                .filter(|_| {
                    let then = json!([{ "increment": { "key": "from", "by": -by } },
                                      { "increment": { "key": "to", "by": by } }]);
                    let done = match client.transact(&json!({ "then": then })) {
                        Ok(done) => done,
                        // Nothing was done, as it says.
                        Err(ClientError::Refused(problem)) if problem.kind == "busy" => {
                            return false;
                        }
                        Err(other) => panic!("{other}"),
                    };
                    let number = |at: usize| -> i64 {
                        done["results"][at]["value"].as_str().unwrap().parse().unwrap()
                    };
                    assert_eq!(number(0) + number(1), 1000);
                    true
                })
                .count()
        };
        let all: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || one(number))).collect();
        all.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(done > 0);
    let number = |key| -> i64 { node.text(key).unwrap().parse().unwrap() };
    assert_eq!(number("from") + number("to"), 1000);
}

#[test]
fn open_transactions_read_own_writes_and_name_conflicting_key() {
    let node = Node::start("open");
    let client = node.client();
    node.put("a", "1");
    let txn = client.txn_begin("0", LONG_MS).unwrap();
    let get = |key: &str| json!({ "get": key });
    let put = |key: &str, value: &str| json!({ "put": { "key": key, "value": value } });
    assert_eq!(client.txn_do(&txn, &[get("a")]).unwrap()[0]["value"], "1");
    let results = client.txn_do(&txn, &[put("a", "2"), put("b", "3"), get("a")]).unwrap();
    assert_eq!(results[2], json!({ "value": "2" }));
    assert_eq!((node.text("a").as_deref(), node.text("b")), (Some("1"), None), "not yet");
    client.txn_commit(&txn).unwrap();
    assert_eq!((node.text("a").as_deref(), node.text("b").as_deref()), (Some("2"), Some("3")));
    perhaps(client.txn_commit(&txn), "not open");
    refused(client.txn_rollback(&txn), "no-transaction", "not open");

    let txn = client.txn_begin("0", LONG_MS).unwrap();
    client.txn_do(&txn, &[get("a"), put("b", "lost")]).unwrap();
    node.put("a", "9");
    refused(client.txn_commit(&txn), "conflict", "'a' has changed since the transaction read it");
    assert_eq!(node.text("b").as_deref(), Some("3"));
    // A key that was written and not read may be changed by others.
    let txn = client.txn_begin("0", LONG_MS).unwrap();
    client.txn_do(&txn, &[put("a", "10")]).unwrap();
    node.put("a", "11");
    client.txn_commit(&txn).unwrap();
    assert_eq!(node.text("a").as_deref(), Some("10"));

    // What is refused leaves the rest as it was; a rollback leaves nothing.
    let txn = client.txn_begin("0", LONG_MS).unwrap();
    let increment = json!({ "increment": { "key": "text" } });
    client.txn_do(&txn, &[put("text", "x")]).unwrap();
    let done = client.txn_do(&txn, &[put("c", "1"), increment, put("d", "1")]);
    refused(done, "operation-refused", "operation 2");
    let both = client.txn_do(&txn, &[get("c"), get("d")]).unwrap();
    assert_eq!(both, [json!({ "value": "1" }), json!({ "value": null })]);
    client.txn_rollback(&txn).unwrap();
    assert_eq!(node.text("c"), None);
    refused(client.txn_do(&txn, &[get("a")]), "no-transaction", "not open");
    refused(client.txn_do("nonsense", &[get("a")]), "no-transaction", "no name");
    // Nothing in it: nothing to do.
    client.txn_commit(&client.txn_begin("0", 1_000).unwrap()).unwrap();
}

#[test]
fn idle_open_transaction_expires() {
    let node = Node::start("idle");
    let client = node.client();
    let txn = client.txn_begin("0", 100).unwrap();
    let put = json!({ "put": { "key": "a", "value": "1" } });
    thread::sleep(Duration::from_millis(400));
    refused(client.txn_do(&txn, &[put]), "no-transaction", "has ended");
    perhaps(client.txn_commit(&txn), "its node was started again");
    assert_eq!(node.text("a"), None);
}

#[test]
fn ranges_show_keys_in_order_and_conflict_with_new_ones() {
    let node = Node::start("ranges");
    node.ordered("books");
    let client = node.client();
    for key in ["a", "b", "c", "d"] {
        client.put("books", key.as_bytes(), b"1", &PutOptions::default()).unwrap();
    }
    let txn = client.txn_begin("books", LONG_MS).unwrap();
    let keys = |result: &Value| -> Vec<String> {
        let keys = result["keys"].as_array().unwrap().iter();
        keys.map(|pair| pair["key"].as_str().unwrap().to_owned()).collect()
    };
    let range = |range: Value| json!({ "range": range });
    let ops = [
        json!({ "put": { "key": "bb", "value": "2" } }),
        json!({ "delete": "c" }),
        range(json!({ "from": "b", "to": "d" })),
        range(json!({ "limit": 2, "reverse": true })),
        range(json!({ "limit": 0 })),
    ];
    let results = client.txn_do(&txn, &ops).unwrap();
    assert_eq!(keys(&results[2]), ["b", "bb"]);
    assert_eq!(keys(&results[3]), ["d", "bb"]);
    assert_eq!(results[4], json!({ "keys": [] }));
    let pairs = &results[2]["keys"];
    assert!(pairs[0]["version"].is_string() && pairs[1]["version"].is_null(), "{pairs}");
    client.put("books", b"bz", b"3", &PutOptions::default()).unwrap();
    refused(client.txn_commit(&txn), "conflict", "'bz'");
    // In one request nobody comes between.
    let then = json!([range(json!({})), { "put": { "key": "e", "value": "5" } }]);
    let done = node.transact(json!({ "keyspace": "books", "then": then }));
    assert_eq!(keys(&done["results"][0]), ["a", "b", "bz", "c", "d"]);
}

#[test]
fn requests_and_answers_above_limits_are_refused() {
    let node = Node::start("limits");
    let client = node.client();
    let many = |count| vec![json!({ "get": "a" }); count];
    refused(client.transact(&json!({ "then": many(1025) })), "bad-request", "at most 1024");
    client.transact(&json!({ "then": many(1024) })).unwrap();
    let (status, kind, _) = node.post("/v1/txn", &vec![b' '; (16 << 20) + 1]);
    assert_eq!((status, kind.as_str()), (413, "body-too-long"));

    // Half of the largest answer, and a bit.
    let value = "x".repeat(9 << 20);
    let put = json!({ "put": { "key": "long", "value": value } });
    client.transact(&json!({ "then": [put] })).unwrap();
    let get = json!({ "get": "long" });
    client.transact(&json!({ "then": [get] })).unwrap();
    refused(client.transact(&json!({ "then": [get, get] })), "transaction-too-large", "results");
    let txn = client.txn_begin("0", LONG_MS).unwrap();
    let put = |key: &str| json!({ "put": { "key": key, "value": value } });
    for key in ["1", "2", "3"] {
        client.txn_do(&txn, &[put(key)]).unwrap();
    }
    refused(client.txn_do(&txn, &[put("4")]), "transaction-too-large", "32 MiB");
    client.txn_commit(&txn).unwrap();
    assert_eq!((node.text("3").map(|value| value.len()), node.text("4")), (Some(9 << 20), None));

    let open: Vec<String> = (0..1024).map(|_| client.txn_begin("0", LONG_MS).unwrap()).collect();
    refused(client.txn_begin("0", LONG_MS), "too-many-transactions", "1024");
    client.txn_rollback(&open[7]).unwrap();
    client.txn_begin("0", LONG_MS).unwrap();
}

#[test]
fn bad_requests_are_refused_with_reason() {
    let node = Node::start("bad");
    let txn = node.client().txn_begin("0", LONG_MS).unwrap();
    let deep = format!("{{\"then\":{}", "[".repeat(100_000));
    for (path, body, status, kind, words) in [
        ("/v1/txn", "{", 400, "bad-request", "EOF"),
        ("/v1/txn", "[]", 400, "bad-request", "an object"),
        ("/v1/txn", &deep, 400, "bad-request", "not what is expected"),
        ("/v1/txn", r#"{"than":[]}"#, 400, "bad-request", "`then`"),
        ("/v1/txn", r#"{"then":[{"got":"a"}]}"#, 400, "bad-request", "`increment`"),
        ("/v1/txn", r#"{"compare":[{"key":"a"}]}"#, 400, "bad-request", "exists, value"),
        ("/v1/txn", r#"{"then":[{"get":{"base64":"%"}}]}"#, 400, "bad-request", "base64"),
        ("/v1/txn/begin", r#"{"timeout_ms":0}"#, 400, "bad-request", "600000"),
        ("/v1/txn/begin", r#"{"timeout_ms":600001}"#, 400, "bad-request", "600000"),
        ("/v1/txn/begin", r#"{"keyspace":"none"}"#, 404, "no-keyspace", "none"),
        ("/v1/txn/x", r#"{"do":[{"get":"a"}]}"#, 404, "no-transaction", "no name"),
        ("/v1/txn/x/commit", "{}", 404, "no-transaction", "not done"),
        (&format!("/v1/txn/{}/commit", "+".repeat(49)), "{}", 404, "no-transaction", "not done"),
        ("/v1/txn", r#"{"then":[{"get":"a","put":{}}]}"#, 400, "bad-request", "`get` and `put`"),
        ("/v1/txn", r#"{"then":["get"]}"#, 400, "bad-request", "an operation such as"),
        ("/v1/txn?lookup=chord", "{}", 400, "bad-request", "none is known here"),
        (&format!("/v1/txn/{txn}"), r#"{"do":[]}"#, 400, "bad-request", "no operation"),
        (&format!("/v1/txn/{txn}"), "{}", 400, "bad-request", "`do`"),
        (&format!("/v1/txn/{txn}/commit"), r#"{"now":1}"#, 400, "bad-request", "`now`"),
    ] {
        let (got, type_, text) = node.post(path, body.as_bytes());
        let body: String = body.chars().take(80).collect();
        assert_eq!((got, type_.as_str()), (status, kind), "{path} {body}: {text}");
        assert!(text.contains(words), "{path} {body}: {text}");
    }
    // None of them has ended it.
    node.client().txn_commit(&txn).unwrap();
}

#[test]
fn commit_fails_after_keyspace_was_dropped() {
    let node = Node::start("dropped");
    node.ordered("books");
    let client = node.client();
    let begun = || {
        let txn = client.txn_begin("books", LONG_MS).unwrap();
        client.txn_do(&txn, &[json!({ "put": { "key": "a", "value": "1" } })]).unwrap();
        txn
    };
    let (first, second) = (begun(), begun());
    client.keyspace_drop("books").unwrap();
    let words = "the keyspace was dropped meanwhile; nothing was done";
    refused(client.txn_do(&first, &[json!({ "get": "a" })]), "no-keyspace", words);
    refused(client.txn_commit(&second), "no-keyspace", words);
}

#[test]
fn any_node_runs_transactions_and_open_ones_stay_on_theirs() {
    let mut cluster = four::Cluster::new("txn", &["--balance=off"]);
    cluster.begin(0..=four::EMPTY - 1);
    cluster.start(four::EMPTY);
    cluster.all_well(0..=four::EMPTY);
    let keys: Vec<String> = (0..24).map(|number| format!("key {number}")).collect();
    let gets: Vec<Value> = keys.iter().map(|key| json!({ "get": key })).collect();
    // The last one has no replicas: all that is read comes from the others.
    for node in 0..=four::EMPTY {
        let client = cluster.client(node);
        let increments: Vec<Value> =
            keys.iter().map(|key| json!({ "increment": { "key": key } })).collect();
        let done = client.transact(&json!({ "then": increments })).unwrap();
        assert_eq!(done["results"][23]["value"], (node + 1).to_string(), "{done}");
        let txn = client.txn_begin("0", LONG_MS).unwrap();
        let results = client.txn_do(&txn, &gets).unwrap();
        let sum = json!((node + 1).to_string());
        assert!(results.iter().all(|got| got["value"] == sum), "{results:?}");
        let other = cluster.client((node + 1) % 4);
        refused(other.txn_do(&txn, &gets), "no-transaction", "lives there only");
        perhaps(other.txn_commit(&txn), "began on node");
        client.txn_commit(&txn).unwrap();
    }
    let placement = Some("ordered".to_owned());
    let spec = KeyspaceSpec { name: "books".into(), placement, ..KeyspaceSpec::default() };
    cluster.client(0).keyspace_create(&spec).unwrap();
    let range = json!({ "range": {} });
    for node in 0..=four::EMPTY {
        let client = cluster.client(node);
        // A node may hear of the keyspace a little later.
        let txn = four::until("a keyspace", || client.txn_begin("books", LONG_MS).ok());
        let results = client.txn_do(&txn, std::slice::from_ref(&range)).unwrap();
        assert_eq!(results[0]["keys"].as_array().unwrap().len(), node);
        let put = json!({ "put": { "key": format!("{node}"), "value": "1" } });
        client.txn_do(&txn, &[put]).unwrap();
        client.txn_commit(&txn).unwrap();
    }

    // Without a majority nobody leads, and that is said; commits as well.
    let client = cluster.client(2);
    let (reads, writes) =
        (client.txn_begin("0", LONG_MS).unwrap(), client.txn_begin("0", LONG_MS).unwrap());
    let puts: Vec<Value> =
        keys.iter().map(|key| json!({ "put": { "key": key, "value": "1" } })).collect();
    client.txn_do(&writes, &puts).unwrap();
    cluster.kill(0);
    cluster.kill(1);
    let words = "no node has answered as the leader of the key's shard; nothing was done";
    let get = &gets[..1];
    thread::scope(|scope| {
        scope.spawn(|| refused(client.txn_do(&reads, get), "busy", words));
        scope.spawn(|| refused(client.transact(&json!({ "then": get })), "busy", words));
        scope.spawn(|| match client.txn_commit(&writes) {
            Err(ClientError::Refused(problem)) => {
                assert!(problem.kind == "busy" && problem.detail.contains(words), "{problem:?}");
            }
            Err(ClientError::Unknown { .. }) => {}
            other => panic!("{other:?}"),
        });
    });
}
