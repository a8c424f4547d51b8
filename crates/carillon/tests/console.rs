//! The real `carillon console` over HTTP: its page, its simulated cluster, its controls, and files
//! that come to the same end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use client::http::{Client, Request};
use harness::events::{Event, Events, Next};
use harness::process::Process;
use harness::{ports, until};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const TIMEOUT: Duration = Duration::from_secs(30);

fn client(http: SocketAddr) -> Client {
    Client::new(&http.to_string()).expect("an address")
}

struct Console {
    process: Process,
    http: SocketAddr,
    dir: PathBuf,
}

impl Console {
    fn start(name: &str, flags: &[&str]) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("console_{name}"));
        let _none_before = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a directory");
        let http = ports::unused();
        let mut command = Command::new(PROGRAM);
        command.args(["console", "--http", &http.to_string()]).args(flags);
        if !flags.contains(&"--speed") {
            command.args(["--speed", "20"]);
        }
        let mut process = Process::start(command, &dir.join("output")).expect("it starts");
        let answers = || client(http).send(&Request::get("/health/live")).is_ok();
        process.wait_until("it answers", answers).expect("it answers");
        Self { process, http, dir }
    }

    fn send(&self, request: Request<'_>) -> (u16, Vec<u8>) {
        let reply = client(self.http).send(&request).expect("a reply");
        (reply.status, reply.body)
    }

    #[track_caller]
    fn json(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let is_read = method == "GET";
        let request = match is_read {
            true => Request::get(path),
            false => {
                let body = body.as_bytes();
                Request { body, json: true, ..Request::write(method, path) }
            }
        };
        let (status, body) = self.send(request);
        let value = serde_json::from_slice(&body);
        (status, value.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&body))))
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let (status, value) = self.json("GET", path, None);
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    #[track_caller]
    fn post(&self, path: &str, body: Value) -> Value {
        let (status, value) = self.json("POST", path, Some(body));
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    #[track_caller]
    fn until_formed(&self) {
        until(TIMEOUT, "it has formed", || {
            (self.get("/v1/sim")["phase"] == "running").then_some(())
        });
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let ended = self.process.stop(TIMEOUT).map(|status| status.success());
        if !std::thread::panicking() {
            assert!(matches!(ended, Ok(true)), "a signal ends it well: {ended:?}");
        }
    }
}

#[test]
fn simulated_cluster_answers_as_a_node_does_and_shows_a_crash() {
    let console = Console::start("crash", &["--seed", "3"]);
    let mut events = Events::open(console.http, "from=0&scope=cluster", None).expect("a stream");
    console.until_formed();
    let (status, page) = console.send(Request::get("/"));
    assert_eq!(status, 200);
    assert!(String::from_utf8_lossy(&page).contains("<!doctype html>"));
    let put = Request { body: b"hello", ..Request::write("PUT", "/v1/kv/0/greeting") };
    assert_eq!(console.send(put).0, 204);
    let (status, value) = console.send(Request::get("/v1/kv/0/greeting"));
    assert_eq!((status, &value[..]), (200, &b"hello"[..]));
    let txn = json!({"compare": [{"key": "greeting", "exists": true}],
        "then": [{"put": {"key": "other", "value": "v"}}, {"get": "greeting"}]});
    let done = console.post("/v1/txn", txn);
    assert_eq!((&done["succeeded"], &done["results"][1]["value"]), (&json!(true), &json!("hello")));
    let add = |key: &str, by: i64| json!({"increment": {"key": key, "by": by}});
    let txn = json!({"then": [add("n", 5), {"put": {"key": "m", "value": "7"}}, add("m", -9),
        add("n", 1), {"get": "n"}]});
    let sums = &console.post("/v1/txn", txn)["results"];
    let all: Vec<&Value> = [0, 2, 3, 4].iter().map(|at| &sums[*at]["value"]).collect();
    assert_eq!(all, ["5", "-2", "6", "6"], "{sums}");
    for (key, by, part) in [("greeting", 1, "no whole number"), ("n", i64::MAX, "64 bits")] {
        let txn = json!({"then": [{"put": {"key": "other", "value": "w"}}, add(key, by)]});
        let (status, why) = console.json("POST", "/v1/txn", Some(txn));
        let detail = why["detail"].as_str().unwrap_or_default();
        assert!(status == 409 && detail.contains(part), "{status} {why}");
    }
    let (_, other) = console.send(Request::get("/v1/kv/0/other"));
    assert_eq!(&other[..], b"v", "nothing of it was done");
    assert_eq!(console.get("/v1/keys/0?prefix=gree")["keys"], json!(["greeting"]));
    assert_eq!(console.get("/v1/nodes")["nodes"].as_array().map(Vec::len), Some(3));
    let status = console.get("/v1/status");
    assert_eq!((&status["ready"], &status["health"]["verdict"]), (&json!(true), &json!("ok")));
    assert!(status["surfaces"].as_array().expect("names").contains(&json!("sim")), "{status}");
    let shards = console.get("/v1/shards?keyspace=0");
    let first = &shards["shards"][0];
    assert_eq!(first["replicas"].as_array().map(Vec::len), Some(3), "{first}");
    let routes = console.get("/v1/route/0/greeting?lookup=all");
    let routes = routes.as_array().expect("an array");
    let of = |name: &str| routes.iter().find(|route| route["lookup"] == name).expect("a route");
    assert_eq!(of("chord")["shard"], of("full")["shard"]);

    let leader = first["leader"].as_str().expect("a leader").to_owned();
    let done = console.post("/v1/sim/act", json!({"do": "crash", "node": leader}));
    assert_eq!(done["do"], "crash");
    events.until(TIMEOUT, "the others call it down", |event| {
        event.name() == "member" && event.text("member") == leader && event.text("state") == "down"
    });
    until(TIMEOUT, "another leads", || {
        let shards = console.get("/v1/shards?keyspace=0");
        let now = shards["shards"][0]["leader"].as_str().map(str::to_owned);
        now.filter(|now| *now != leader)
    });
    let state = console.get("/v1/sim");
    let node = state["nodes"].as_array().expect("nodes").iter().find(|node| node["id"] == leader);
    assert_eq!(node.expect("it is there")["state"], "down");
    let (status, again) = console.json("POST", "/v1/sim/act", Some(done_again(&leader)));
    assert_eq!((status, &again["type"]), (409, &json!("urn:carillon:problem:sim-refused")));
    console.post("/v1/sim/act", json!({"do": "heal"}));
    events.until(TIMEOUT, "it is back", |event| {
        event.name() == "member" && event.text("member") == leader && event.text("state") == "up"
    });
    let (status, cut) = console.json("POST", &split_of(first), Some(json!({})));
    assert_eq!(status, 202, "{cut}");
    events.until(TIMEOUT, "a split", |event| event.name() == "split");
}

#[test]
fn range_of_a_transaction_shows_what_the_transaction_has_changed() {
    let console = Console::start("ranges", &["--seed", "5"]);
    console.until_formed();
    let ordered = json!({"name": "days", "placement": "ordered"});
    let (status, made) = console.json("POST", "/v1/keyspaces", Some(ordered));
    assert_eq!(status, 201, "{made}");
    for key in ["a", "b", "c", "d", "e"] {
        let path = format!("/v1/kv/days/{key}");
        until(TIMEOUT, "a key is there", || {
            let put = Request { body: key.as_bytes(), ..Request::write("PUT", &path) };
            (console.send(put).0 == 204).then_some(())
        });
    }
    // The simulated clients write keys of their own, behind these.
    let txn = json!({"keyspace": "days", "then": [
        {"put": {"key": "bb", "value": "new"}}, {"delete": "c"},
        {"range": {"from": "b", "to": "e"}}, {"range": {"to": "f", "reverse": true, "limit": 2}}]});
    let done = console.post("/v1/txn", txn.clone());
    let keys = |result: &Value| -> Vec<String> {
        let pairs = result["keys"].as_array().unwrap_or_else(|| panic!("{result}"));
        pairs.iter().map(|pair| pair["key"].as_str().expect("a key").to_owned()).collect()
    };
    let results = &done["results"];
    assert_eq!(keys(&results[2]), ["b", "bb", "d"], "{done}");
    assert_eq!(keys(&results[3]), ["e", "d"], "{done}");
    assert_eq!(results[2]["keys"][1]["value"], "new");
    assert!(results[2]["keys"][1]["version"].is_null(), "it wrote that itself: {done}");
    assert!(results[2]["keys"][0]["version"].is_string(), "{done}");
    // Its own writes are there a moment later, for one that only looks.
    let looks = json!({"keyspace": "days", "then": [{"range": {"limit": 3}}]});
    until(TIMEOUT, "what it wrote is read", || {
        let found = console.post("/v1/txn", looks.clone());
        (keys(&found["results"][0]) == ["a", "b", "bb"]).then_some(())
    });
    let (status, why) = console.json(
        "POST",
        "/v1/txn",
        Some(json!({"then": [{"put": {"key": "x", "value": "1"}}, {"range": {}}]})),
    );
    let detail = why["detail"].as_str().unwrap_or_default();
    assert!(status == 409 && detail.contains("only ordered keyspaces"), "{status} {why}");
}

#[test]
fn recording_is_served_to_the_page_in_one_command() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = dir.join("shown.jsonl");
    let line = "{\"type\":\"hello\",\"version\":1,\"node\":\"a\",\"at\":\"1\",\"at_ms\":1}\n";
    std::fs::write(&path, line).expect("it is written");
    let http = ports::unused();
    let mut command = Command::new(PROGRAM);
    command.arg("replay").arg(&path).args(["--console", "--http", &http.to_string()]);
    let output = dir.join("shown_output");
    let mut process = Process::start(command, &output).expect("it starts");
    let answers = || client(http).send(&Request::get("/health/live")).is_ok();
    process.wait_until("it answers", answers).expect("it answers");
    let get = |path: &str| client(http).send(&Request::get(path)).expect("a reply");
    let state: Value = serde_json::from_slice(&get("/v1/sim").body).expect("JSON");
    assert_eq!((&state["recording"], &state["running"]), (&json!("shown.jsonl"), &json!(false)));
    let served = get("/v1/sim/recording");
    assert_eq!((served.status, &served.body[..]), (200, line.as_bytes()));
    assert_eq!(get("/").status, 200);
    let ended = process.stop(TIMEOUT).map(|status| status.success());
    assert!(matches!(ended, Ok(true)), "a signal ends it well: {ended:?}");

    std::fs::write(&path, "no recording").expect("it is written");
    let out = Command::new(PROGRAM).arg("replay").arg(&path).arg("--console").output();
    let out = out.expect("it runs");
    let why = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{why}");
    assert!(why.contains("is no recording"), "{why}");
}

fn done_again(leader: &str) -> Value {
    json!({"do": "crash", "node": leader})
}

fn split_of(shard: &Value) -> String {
    format!("/v1/shards/{}/split", shard["id"])
}

#[test]
fn time_passes_by_steps_only_while_it_is_paused() {
    let console = Console::start("steps", &["--paused"]);
    let now = || console.get("/v1/sim")["now_ms"].as_u64().expect("a number");
    assert_eq!(now(), 0);
    let state = console.post("/v1/sim/step", json!({"ms": 250}));
    assert_eq!((&state["now_ms"], &state["running"]), (&json!(250), &json!(false)));
    assert_eq!(now(), 250);
    let (status, state) =
        console.json("PATCH", "/v1/sim", Some(json!({"running": true, "speed": 50})));
    assert_eq!((status, &state["running"], &state["speed"]), (200, &json!(true), &json!(50.0)));
    console.until_formed();
    console.json("PATCH", "/v1/sim", Some(json!({"running": false})));
    let then = now();
    assert_eq!(now(), then);
    let put = Request { body: b"v", ..Request::write("PUT", "/v1/kv/0/a") };
    let (status, why) = console.send(put);
    let why = String::from_utf8_lossy(&why).into_owned();
    assert!(status == 503 && why.contains("paused"), "{status}: {why}");
}

/// A viewer of few samples sees all steps of the transactions that it sees, also of those whose
/// coordinator crashes.
#[test]
fn sampled_transactions_are_seen_to_end() {
    let console = Console::start("txns", &["--scenario", "transactions", "--speed", "20"]);
    let mut events =
        Events::open(console.http, "samples=3&types=transaction", None).expect("a stream");
    let (mut held, mut finished) = (BTreeMap::<String, BTreeSet<u64>>::new(), 0);
    let mut take = |event: &Event| {
        if event.name() != "transaction" {
            return (finished, 0);
        }
        let shards = event.json["shards"].as_array().into_iter().flatten();
        let shards: Vec<u64> = shards.filter_map(Value::as_u64).collect();
        let of = held.entry(event.text("txn").to_owned()).or_default();
        match event.text("phase") {
            "voted" => of.extend(&shards),
            "resolve" => of.retain(|shard| !shards.contains(shard)),
            "finished" => {
                of.clear();
                finished += 1;
            }
            _ => {}
        }
        (finished, held.values().filter(|shards| !shards.is_empty()).count())
    };
    let is_settled = |(finished, held): (usize, usize)| finished >= 8 && held == 0;
    until(TIMEOUT, "transactions whose locks are all seen to end", || {
        let event = match events.next_within(TIMEOUT) {
            Next::Event(event) => event,
            other => panic!("{other:?}"),
        };
        is_settled(take(&event)).then_some(())
    });
}

#[test]
fn saved_simulation_comes_to_the_same_digest_from_the_command_line() {
    let console = Console::start("file", &["--seed", "11", "--nodes", "5"]);
    console.until_formed();
    for action in [
        json!({"do": "put", "key": "a", "value": {"base64": "/w=="}}),
        json!({"do": "power-cut", "node": "leader:a"}),
        json!({"do": "cut", "from": "n1", "to": "n2", "both": true}),
        json!({"do": "skew", "node": "n3", "by_ms": 5000}),
        json!({"do": "heal"}),
    ] {
        console.post("/v1/sim/act", action);
        console.post("/v1/sim/step", json!({"ms": 400}));
    }
    let state = console.get("/v1/sim");
    let (status, file) = console.send(Request::get("/v1/sim/file"));
    assert_eq!(status, 200);
    let path = console.dir.join("run.json");
    std::fs::write(&path, &file).expect("it is written");
    let digest = format!("digest {}\n", state["digest"].as_str().expect("a digest"));
    let run = || {
        let out =
            Command::new(PROGRAM).args(["sim", "--file"]).arg(&path).output().expect("it runs");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
        text
    };
    let first = run();
    assert!(first.contains(&digest), "{first}: {digest}");
    assert!(first.contains("all rules held"), "{first}");
    assert_eq!(run(), first, "twice the same");

    let ends = state["now_ms"].as_u64().expect("a number");
    let file: Value = serde_json::from_slice(&file).expect("JSON");
    let (status, began) = console.json("PUT", "/v1/sim/file", Some(file));
    assert_eq!((status, &began["now_ms"], &began["to_come"]), (200, &json!(0), &json!(5)));
    let again = console.post("/v1/sim/step", json!({"ms": ends}));
    assert_eq!((&again["digest"], &again["to_come"]), (&state["digest"], &json!(0)));
}

#[test]
fn scenario_plays_its_planted_bug_until_it_is_found() {
    let console = Console::start("planted", &["--scenario", "stale-lease", "--speed", "100"]);
    let state = until(TIMEOUT, "it is found", || {
        let state = console.get("/v1/sim");
        (state["phase"] == "broken").then_some(state)
    });
    assert_eq!(state["plants"], json!(["stale-lease"]));
    assert!(state["broken"]["rule"].as_str().is_some_and(|rule| !rule.is_empty()), "{state}");
    assert_eq!(console.get("/v1/status")["health"]["verdict"], "failing");
    let state = console.post("/v1/sim/reset", json!({"scenario": null, "plants": [], "seed": 2}));
    assert_eq!((&state["broken"], &state["seed"]), (&Value::Null, &json!(2)));
    console.until_formed();
    let state = console.post("/v1/sim/check", json!({}));
    assert_eq!((&state["broken"], state["checked_ms"].is_u64()), (&Value::Null, true));
}

#[test]
fn hundred_members_join_a_ring_and_lookups_find_their_way() {
    let console = Console::start("ring", &["--scenario", "hundred-joins"]);
    let mut events = Events::open(console.http, "types=member", None).expect("a stream");
    until(TIMEOUT, "a hundred have joined", || {
        let nodes = console.get("/v1/sim")["nodes"].as_array().map_or(0, Vec::len);
        (nodes == 200).then_some(())
    });
    let joined = events.until(TIMEOUT, "members join", |event| event.text("state") == "up");
    assert_eq!(joined.name(), "member");
    assert_eq!(console.get("/v1/shards")["shards"].as_array().map(Vec::len), Some(200));
    until(TIMEOUT, "tables know of them", || {
        let routes = console.get("/v1/sim/lookup/0/some%20key?from=n7&lookup=chord");
        (routes[0]["shard"].is_u64() && routes[0]["failure"].is_null()).then_some(())
    });
    let names = console.get("/v1/sim/names");
    assert_eq!(names["limits"]["members_max"], 1000);
    let member = console.get("/v1/sim/members/n150");
    assert!(!member["tables"]["chord"].as_array().expect("entries").is_empty());
    drop(events);
    let mut samples =
        Events::open(console.http, "samples=10&types=request", None).expect("a stream");
    console
        .post("/v1/sim/act", json!({"do": "lookup", "key": "k", "from": "n9", "lookup": "chord"}));
    let sample = samples.until(TIMEOUT, "a sample", |event| event.name() == "request");
    assert_eq!(sample.json["route"]["lookup"], "chord");
}

#[test]
fn nonsense_and_foreign_pages_are_refused() {
    let console = Console::start("refused", &["--paused"]);
    let refused = |method: &str, path: &str, body: Value| {
        let (status, why) = console.json(method, path, Some(body));
        (status, why["detail"].as_str().unwrap_or_default().to_owned())
    };
    for (method, path, body, status, part) in [
        ("POST", "/v1/sim/act", json!({"do": "burn"}), 400, "burn"),
        ("POST", "/v1/sim/act", json!({"do": "crash", "node": "n7"}), 404, "n7"),
        ("POST", "/v1/sim/act", json!({"do": "crash", "node": "n1", "x": 1}), 400, "x"),
        ("POST", "/v1/sim/step", json!({"ms": 0}), 400, "ms has to be"),
        ("PATCH", "/v1/sim", json!({"speed": 1000}), 400, "0.1 to 100"),
        ("PATCH", "/v1/sim", json!({"pace": 1}), 400, "unknown field"),
        ("POST", "/v1/sim/reset", json!({"nodes": 51}), 400, "1 to 50"),
        ("POST", "/v1/sim/reset", json!({"scenario": "flood"}), 400, "leader-dies"),
        ("PUT", "/v1/sim/file", json!({}), 400, "carillon_simulation"),
        ("POST", "/v1/sim/nothing", json!({}), 404, "nothing"),
    ] {
        let (found, why) = refused(method, path, body);
        assert_eq!(found, status, "{path}: {why}");
        assert!(why.contains(part), "{path}: {why}");
    }
    let foreign = Request {
        body: br#"{"seed": 9}"#,
        json: true,
        headers: &[("Origin", "http://evil.example")],
        ..Request::write("POST", "/v1/sim/reset")
    };
    assert_eq!(console.send(foreign).0, 403);
    let untyped = Request { body: b"{}", ..Request::write("POST", "/v1/sim/reset") };
    assert_eq!(console.send(untyped).0, 415);
    assert_eq!(console.get("/v1/sim")["seed"], 1);
    let mut stream = Events::open(console.http, "", None).expect("a stream");
    console.post("/v1/sim/reset", json!({"seed": 4}));
    let end = stream.until(TIMEOUT, "the end", |event| event.name() == "end");
    assert_eq!(end.text("reason"), "stopping");
    assert!(matches!(stream.next_within(TIMEOUT), Next::Ended), "nothing more comes");
}

#[test]
fn files_that_are_wrong_are_refused_with_their_place() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = dir.join("wrong_simulation.json");
    std::fs::write(&path, r#"{"carillon_simulation": 1, "actions": [{"ms": 1, "do": "burn"}]}"#)
        .expect("it is written");
    for words in [["sim", "--file"], ["console", "--file"]] {
        let out = Command::new(PROGRAM).args(words).arg(&path).output().expect("it runs");
        let why = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{why}");
        assert!(why.contains("action 1") && why.contains("burn"), "{why}");
    }
}
