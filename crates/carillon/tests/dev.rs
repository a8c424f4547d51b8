//! `carillon dev`: real processes that start together, are watched, and end together.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use harness::command::run;
use harness::dev::{self, base_port};
use harness::process::{Signal, send_signal};

/// Longer than anything here takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
fn dir(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("carillon-dev-{name}-{}", std::process::id()))
}

/// A run of `carillon dev`.
struct Dev(dev::Dev);

impl Deref for Dev {
    type Target = dev::Dev;

    fn deref(&self) -> &dev::Dev {
        &self.0
    }
}

impl DerefMut for Dev {
    fn deref_mut(&mut self) -> &mut dev::Dev {
        &mut self.0
    }
}

impl Dev {
    fn start(dir: &Path, base: u16, flags: &[&str]) -> Self {
        Self(dev::Dev::start(env!("CARGO_BIN_EXE_carillon"), dir, base, flags))
    }

    /// Sends a line to a node and reads one.
    fn ask(&self, number: u16, line: &str) -> String {
        let mut stream = TcpStream::connect(self.resp(number)).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// What a command says of a node, and its exit code.
    fn command(&self, number: u16, words: &str) -> (serde_json::Value, i32) {
        let http = self.http(number).to_string();
        let words = words.split(' ').chain(["--json", "--http", &http]);
        let ended = run(env!("CARGO_BIN_EXE_carillon"), words, b"", &[]);
        let answer = serde_json::from_slice(&ended.out);
        (answer.unwrap_or_else(|why| panic!("{why}: {ended:?}")), ended.code)
    }

    /// … when it is as wanted.
    fn until(
        &self,
        number: u16,
        words: &str,
        wanted: impl Fn(&serde_json::Value, i32) -> bool,
    ) -> serde_json::Value {
        let begun = Instant::now();
        loop {
            let (answer, code) = self.command(number, words);
            if wanted(&answer, code) {
                return answer;
            }
            assert!(begun.elapsed() < TEST_TIMEOUT, "{words} of node {number}: {code} {answer}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The sum of all samples of a metric of a node that have these labels.
    fn metric(&self, number: u16, name: &str, labels: &[&str]) -> f64 {
        let text =
            client::http::Client::new(&self.http(number).to_string()).unwrap().metrics().unwrap();
        let is_meant = |line: &&str| {
            let rest = line.strip_prefix(name).unwrap_or_default();
            rest.starts_with(['{', ' ']) && labels.iter().all(|label| rest.contains(label))
        };
        let samples: Vec<f64> = text
            .lines()
            .filter(is_meant)
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(!samples.is_empty(), "no {name} with {labels:?} in\n{text}");
        samples.iter().sum()
    }
}

/// Whether a process runs; one that nobody has waited for yet does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

fn wait_until_ended(pids: &[u32]) {
    let begun = Instant::now();
    while pids.iter().any(|pid| runs(*pid)) {
        assert!(begun.elapsed() < TEST_TIMEOUT, "left behind: {pids:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nodes_start_together_stop_together_and_resume() {
    let (dir, base) = (dir("life"), base_port());
    let mut dev = Dev::start(&dir, base, &[]);
    let pids = dev.ready(3);
    assert_eq!(pids.iter().collect::<BTreeSet<_>>().len(), 3, "a process each");
    for number in 1..=3 {
        assert_eq!(dev.ask(number, "PING"), "+PONG");
    }
    assert_eq!(dev.ask(2, "SET greeting hello"), "+OK");
    let mode = fs::metadata(dir.join("secret")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a secret is its owner's");

    send_signal(pids[0], Signal::Kill).unwrap();
    let line = dev.says("node-1 ended by SIGKILL");
    let log = dir.join("node-1.log").display().to_string();
    assert!(line.contains(&log), "{line}");
    let line = dev.says("to start it again: ");
    assert!(line.contains("carillon start") && line.contains("node-1"), "{line}");
    assert!(runs(pids[1]) && runs(pids[2]), "the other nodes serve");

    // One that stands still is woken to be stopped.
    send_signal(pids[1], Signal::Stop).unwrap();
    dev.signal(Signal::Terminate);
    assert_eq!(dev.wait().code(), Some(0));
    wait_until_ended(&pids);

    let secret = fs::read_to_string(dir.join("secret")).unwrap();
    // Without a number: as many as there are.
    let mut again = Dev::start(&dir, base, &[]);
    let pids = again.ready(3);
    assert_eq!(again.ask(2, "EXISTS greeting"), ":1");
    assert_eq!(fs::read_to_string(dir.join("secret")).unwrap(), secret);
    again.signal(Signal::Interrupt);
    assert_eq!(again.wait().code(), Some(0));
    wait_until_ended(&pids);
    assert!(dir.join("node-3").is_dir(), "nothing is deleted");

    let mut fewer = Dev::start(&dir, base, &["--nodes", "2"]);
    assert_eq!(fewer.wait().code(), Some(2));
    fewer.says("--nodes 3");
}

/// What a person sees is a handful of lines; the nodes' own are in files, of this run and the last.
#[test]
fn dev_logs_to_files_and_prints_few_lines() {
    let (dir, base) = (dir("quiet"), base_port());
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
    let mut dev = Dev::start(&dir, base, &[]);
    dev.ready(3);
    let tried = dev.printed();
    assert!(tried.len() <= 9, "{tried:?}");
    for words in ["node-*.log", "Ctrl-C", "start them again"] {
        assert_eq!(tried.iter().filter(|line| line.contains(words)).count(), 1, "{tried:?}");
    }
    dev.signal(Signal::Interrupt);
    assert_eq!(dev.wait().code(), Some(0));
    let complaints = dev.complaints();
    assert_eq!(complaints.len(), 1, "that it stops: {complaints:?}");
    for number in 1..=3 {
        let log = read(&format!("node-{number}.log"));
        assert!(log.contains("INFO ready") && log.contains("stopped"), "{log}");
    }

    let first = read("node-2.log");
    let mut loud = Dev::start(&dir, base, &["--verbose"]);
    loud.says("node-3 │ ");
    loud.ready(3);
    loud.signal(Signal::Interrupt);
    assert_eq!(loud.wait().code(), Some(0));
    assert_eq!(read("node-2.log.old"), first, "the run before is kept");
    assert!(read("node-2.log").contains("INFO ready"), "{}", read("node-2.log"));
}

/// Nodes, shards, health and metrics say what has become of a cluster, as each loss is worse.
#[test]
fn health_follows_each_lost_node() {
    let mut dev = Dev::start(&dir("health"), base_port(), &[]);
    let pids = dev.ready(3);
    for number in 1..=3 {
        let well = |status: &serde_json::Value, code| {
            code == 0
                && status["health"]["verdict"] == "ok"
                && status["cluster"]["members_up"] == 3
                && status["cluster"]["shards_under_replicated"] == 0
        };
        dev.until(number, "status", well);
    }

    all_agree_on_leads(&dev);
    let loads = |nodes: &serde_json::Value, _| {
        let nodes = nodes["nodes"].as_array().unwrap();
        let all = nodes
            .iter()
            .all(|node| node["state"] == "up" && node["linked"] == true && node["shards"] == 9);
        all && nodes.iter().map(|node| node["leaders"].as_u64().unwrap()).sum::<u64>() == 9
    };
    let nodes = dev.until(2, "nodes", loads);
    let this = nodes["nodes"].as_array().unwrap().iter().filter(|node| node["this"] == true);
    assert_eq!(this.map(|node| &node["name"]).collect::<Vec<_>>(), ["node-2"]);

    forwarded_writes_are_counted(&dev);

    send_signal(pids[0], Signal::Kill).unwrap();
    // Before it is taken for down, leaders say that it does not answer.
    let degraded = dev.until(2, "status", |status, code| {
        let reasons = status["health"]["reasons"].to_string();
        code == 0
            && status["health"]["verdict"] == "degraded"
            && reasons.contains("2 of 3 replicas")
            && reasons.contains("missing: node-1")
            && !reasons.contains("is lagging in")
    });
    assert_eq!(degraded["cluster"]["shards_under_replicated"], 9);
    dev.until(3, "nodes", |nodes, _| nodes["nodes"][0]["state"] == "down");
    assert_eq!(dev.ask(3, "SET after kill"), "+OK");
    assert!(dev.metric(3, "carillon_peer_link_losses_total", &["name=\"node-1\""]) >= 1.0);

    // Without a majority nobody leads for long.
    send_signal(pids[1], Signal::Kill).unwrap();
    let failing = dev.until(3, "shards", |shards, code| {
        code == 1 && shards["shards"].as_array().unwrap().iter().all(|s| s["verdict"] == "failing")
    });
    let reasons = failing["health"]["reasons"].to_string();
    assert!(reasons.contains("no leader of the catalogue of keyspaces"), "{reasons}");
    assert_eq!(dev.command(3, "status").0["cluster"]["shards_without_leader"], 9);
    assert!(dev.metric(3, "carillon_shards_without_leader_seconds_total", &[]) > 0.0);
    assert_eq!(dev.metric(3, "carillon_health", &[]), 2.0);
}

/// All agree on who leads, and every leader knows how far the others are.
fn all_agree_on_leads(dev: &Dev) {
    let (shards, _) = dev.command(1, "shards");
    let shards = shards["shards"].as_array().unwrap().clone();
    assert_eq!(shards.len(), 9, "the catalogue's and those of keyspace 0");
    for (place, shard) in shards.iter().enumerate() {
        let led = |node: &u16| {
            let (theirs, _) = dev.command(*node, "shards");
            let theirs = &theirs["shards"][place];
            assert_eq!(theirs["replicas"].as_array().unwrap().len(), 3);
            assert_eq!((&theirs["here"], &theirs["replicas_live"]), (&true.into(), &3.into()));
            let replicas = theirs["replicas"].as_array().unwrap();
            let name = format!("node-{node}");
            let own = replicas.iter().find(|replica| replica["name"] == name).unwrap();
            let known = replicas.iter().filter(|replica| replica["behind"].is_u64()).count();
            assert_eq!(known, if own["leader"] == true { 3 } else { 0 }, "{theirs}");
            own["leader"] == true
        };
        assert_eq!((1..=3).filter(led).count(), 1, "{shard}");
    }
}

/// Writes go by way of all nodes: what they hand to each other is counted on both sides.
fn forwarded_writes_are_counted(dev: &Dev) {
    for number in 1..=3 {
        (0..20)
            .for_each(|key| assert_eq!(dev.ask(number, &format!("SET {number}-{key} v")), "+OK"));
    }
    let sum =
        |name: &str, labels: &[&str]| (1..=3).map(|n| dev.metric(n, name, labels)).sum::<f64>();
    assert_eq!(sum("carillon_shards_led", &[]), 9.0);
    assert_eq!(sum("carillon_shard_leader", &["keyspace=\"0\""]), 8.0);
    let sent = sum("carillon_forwarded_writes_total", &["direction=\"sent\""]);
    assert!(sent >= 20.0, "of 60 writes about 40 are led elsewhere, not {sent}");
    assert!(sum("carillon_messages_total", &["type=\"append\"", "direction=\"sent\""]) > 0.0);
    assert!(sum("carillon_messages_total", &["type=\"write\"", "direction=\"received\""]) > 0.0);
    assert!(sum("carillon_peer_bytes_total", &["direction=\"received\""]) > 0.0);
    assert_eq!(sum("carillon_peer_connected", &[]), 6.0);
    assert!(sum("carillon_raft_leader_changes_total", &[]) >= 27.0);
    assert_eq!(sum("carillon_metrics_omitted", &["what=\"shards\""]), 0.0);
}

/// Even SIGKILL, which nobody can answer, leaves no node behind.
#[test]
fn nodes_end_with_their_parent_process() {
    let mut dev = Dev::start(&dir("orphans"), base_port(), &["--nodes", "2"]);
    let pids = dev.ready(2);
    dev.signal(Signal::Kill);
    dev.wait();
    wait_until_ended(&pids);
}

#[test]
fn second_stop_signal_kills_nodes() {
    let flags = ["--nodes", "1", "--", "--shutdown-timeout-ms", "600s"];
    let mut dev = Dev::start(&dir("impatient"), base_port(), &flags);
    let pids = dev.ready(1);
    assert_eq!(dev.ask(1, "PING"), "+PONG");
    // A client that does not read its replies keeps the node from stopping.
    let mut client = TcpStream::connect(("127.0.0.1", dev.base)).unwrap();
    let value = "x".repeat(16 << 20);
    client
        .write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16777216\r\n{value}\r\n").as_bytes())
        .unwrap();
    client.write_all(&b"GET k\r\n".repeat(8)).unwrap();
    client.read_exact(&mut [0; 8]).unwrap();
    dev.signal(Signal::Terminate);
    dev.says("stopping");
    thread::sleep(Duration::from_millis(200));
    assert!(runs(pids[0]), "it waits for its client");
    dev.signal(Signal::Terminate);
    dev.wait();
    wait_until_ended(&pids);
}

#[test]
fn dev_names_taken_port_before_starting_nodes() {
    let (dir, base) = (dir("port"), base_port());
    let _taken = TcpListener::bind(("127.0.0.1", base + 1_101 + 1)).unwrap();
    let mut dev = Dev::start(&dir, base, &[]);
    assert_eq!(dev.wait().code(), Some(1));
    let line = dev.says("node-2 cannot listen for http");
    let address = format!("127.0.0.1:{}", base + 1_102);
    assert!(line.contains(&address) && line.contains("--base-port"), "{line}");
    assert!(!dir.exists(), "nothing was begun");
}

#[test]
fn dev_ends_if_a_node_does_not_start() {
    let (dir, base) = (dir("fails"), base_port());
    // A file stands where the second node wants its directory.
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("node-2"), "in the way").unwrap();
    let mut dev = Dev::start(&dir, base, &["--nodes", "2"]);
    assert_eq!(dev.wait().code(), Some(1));
    let line = dev.says("node-2 ended with exit code 1 before it was ready");
    assert!(line.contains("The last lines of") && line.contains("node-2.log"), "{line}");
    // Its own last line says why.
    dev.says("  carillon: ");
    let line = dev.says("No node runs now");
    assert!(line.contains("carillon start"), "{line}");
    assert_eq!(dev.complaints(), [""; 0], "the other one ended as it was asked to");
    for number in 0..2 {
        assert!(TcpStream::connect(("127.0.0.1", base + number)).is_err(), "nobody is left");
    }
}

#[test]
fn print_flag_prints_command_lines_and_starts_nothing() {
    let (dir, base) = (dir("print"), base_port());
    let flags = ["--print", "--resp-mode", "cluster", "--", "--log-level", "warn"];
    let mut dev = Dev::start(&dir, base, &flags);
    assert_eq!(dev.wait().code(), Some(0));
    let lines = dev.printed();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (number, line) in (1..).zip(&lines) {
        let own = format!(" start --dir {}/node-{number} --name node-{number} ", dir.display());
        assert!(
            line.contains(&own) && line.ends_with(" --resp-mode=cluster --log-level warn"),
            "{line}"
        );
    }
    assert!(dir.join("secret").is_file(), "the lines name it");
    assert!(!dir.join("node-1").exists());
}

/// A request to `/v1/dev` at a node.
fn control(dev: &Dev, number: u16, path: &str, body: Option<&str>) -> (u16, serde_json::Value) {
    let client = client::http::Client::new(&dev.http(number).to_string()).unwrap();
    let request = match body {
        None => client::http::Request::get(path),
        Some(body) => client::http::Request {
            body: body.as_bytes(),
            json: true,
            ..client::http::Request::write("POST", path)
        },
    };
    let reply = client.send(&request).unwrap();
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

/// Looks at a node by another one until it is in this state.
#[track_caller]
fn until_state(dev: &Dev, asked: u16, name: &str, state: &str) -> serde_json::Value {
    harness::until(TEST_TIMEOUT, &format!("{name} is {state}"), || {
        let client = client::http::Client::new(&dev.http(asked).to_string()).unwrap();
        // It may be starting itself.
        let reply = client.send(&client::http::Request::get("/v1/dev")).ok()?;
        let all: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(reply.status, 200, "{all}");
        let nodes = all["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["name"] == name && node["state"] == state).cloned()
    })
}

/// `carillon dev WORDS --dir DIR --json`.
fn dev_command(dir: &Path, words: &str) -> (i32, String) {
    let dir = dir.display().to_string();
    let words = ["dev"].into_iter().chain(words.split(' ')).chain(["--json", "--dir", &dir]);
    let ended = run(env!("CARGO_BIN_EXE_carillon"), words, b"", &[]);
    (ended.code, String::from_utf8_lossy(&ended.out).into_owned() + &ended.err)
}

#[test]
fn nodes_are_added_killed_paused_and_started_while_it_runs() {
    let (dir, base) = (dir("control"), base_port());
    let mut dev = Dev::start(&dir, base, &["--nodes", "2"]);
    let pids = dev.ready(2);
    let socket = fs::metadata(dir.join("control.sock")).unwrap().permissions().mode();
    assert_eq!(socket & 0o777, 0o600, "it is its owner's");
    let (status, all) = control(&dev, 1, "/v1/dev", None);
    let first = &all["nodes"][0];
    assert_eq!(
        (status, &first["this"], &all["nodes"][1]["this"]),
        (200, &true.into(), &false.into())
    );
    assert_eq!((&first["pid"], &first["state"]), (&pids[0].into(), &"running".into()), "{all}");
    assert_eq!(first["addresses"]["http"], dev.http(1).to_string());
    let names: BTreeSet<&str> = all["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|parameter| parameter["name"].as_str().unwrap())
        .collect();
    assert!(names.contains("memory_max") && !names.contains("join"), "{names:?}");

    // One more, with a parameter; it joins.
    let parameters = r#"{"parameters":{"domain":"rack-9"}}"#;
    let (status, added) = control(&dev, 2, "/v1/dev/nodes", Some(parameters));
    assert_eq!((status, &added["name"]), (201, &"node-3".into()), "{added}");
    let third = until_state(&dev, 1, "node-3", "running");
    assert_eq!(third["parameters"], serde_json::json!({ "domain": "rack-9" }));
    dev.until(1, "nodes", |answer, _| {
        let nodes = answer["nodes"].as_array().unwrap();
        nodes.iter().any(|node| node["name"] == "node-3" && node["domain"] == "rack-9")
    });

    // Killed, and started again with other parameters.
    let (status, killed) = control(&dev, 1, "/v1/dev/nodes/node-3/kill", Some("{}"));
    assert_eq!(status, 202, "{killed}");
    let ended = until_state(&dev, 1, "node-3", "ended");
    assert_eq!(ended["ended"]["how"], "by SIGKILL (9)");
    assert_eq!((&ended["ended"]["asked"], &ended["pid"]), (&true.into(), &serde_json::Value::Null));
    assert!(!ended["ended"]["log"].as_array().unwrap().is_empty(), "{ended}");
    dev.says("node-3 ended by SIGKILL (9), as asked for");
    let other = r#"{"parameters":{"log_level":"warn"}}"#;
    let (status, again) = control(&dev, 1, "/v1/dev/nodes/node-3/start", Some(other));
    assert_eq!((status, &again["parameters"]), (202, &serde_json::json!({ "log_level": "warn" })));
    until_state(&dev, 1, "node-3", "running");

    // Paused and resumed; a node that is asked to stop itself still answers.
    assert_eq!(control(&dev, 1, "/v1/dev/nodes/node-3/pause", Some("{}")).0, 202);
    until_state(&dev, 1, "node-3", "paused");
    assert_eq!(control(&dev, 1, "/v1/dev/nodes/node-3/resume", Some("{}")).0, 202);
    until_state(&dev, 1, "node-3", "running");
    let (status, own) = control(&dev, 2, "/v1/dev/nodes/node-2/stop", Some("{}"));
    assert_eq!((status, &own["this"]), (202, &true.into()), "{own}");
    let ended = until_state(&dev, 1, "node-2", "ended");
    assert_eq!(ended["ended"]["how"], "with exit code 0", "{ended}");

    for (path, body, status, kind) in [
        ("/v1/dev/nodes/node-9/kill", "{}", 404, "no-node"),
        ("/v1/dev/nodes/node-1/start", "{}", 409, "wrong-state"),
        ("/v1/dev/nodes/node-2/pause", "{}", 409, "wrong-state"),
        ("/v1/dev/nodes/node-1/explode", "{}", 404, "unknown-path"),
        ("/v1/dev/nodes", r#"{"parameters":{"memry_max":"1GiB"}}"#, 400, "bad-parameter"),
        ("/v1/dev/nodes", r#"{"parameters":{"memory_max":"much"}}"#, 400, "bad-parameter"),
        ("/v1/dev/nodes", r#"{"parameters":{"join":"127.0.0.1:1"}}"#, 400, "bad-parameter"),
        ("/v1/dev/nodes", r#"{"parameters":[]}"#, 400, "bad-request"),
        ("/v1/dev/nodes/node-1/kill", r#"{"parameters":{}}"#, 400, "bad-request"),
    ] {
        let (found, problem) = control(&dev, 1, path, Some(body));
        assert_eq!(found, status, "{path} {body}: {problem}");
        assert!(problem["type"].as_str().unwrap().ends_with(kind), "{path} {body}: {problem}");
    }

    // From a terminal it is the same, even when no node runs: the run goes on.
    for name in ["node-1", "node-3"] {
        assert_eq!(dev_command(&dir, &format!("kill {name}")).0, 0);
    }
    dev.says("node-1 ended by SIGKILL (9), as asked for");
    let (code, text) = dev_command(&dir, "kill node-1");
    assert!(code == 1 && text.contains("node-1 is ended"), "{text}");
    let blocker = TcpListener::bind(dev.resp(1)).unwrap();
    let (code, text) = dev_command(&dir, "start node-1");
    assert!(code == 1 && text.contains("node-1 cannot listen for resp"), "{text}");
    drop(blocker);
    assert_eq!(dev_command(&dir, "start node-2").0, 0);
    let (code, text) = dev_command(&dir, "start node-1 --set memory-max=1GiB");
    assert!(code == 0 && text.contains(r#""memory_max":"1GiB""#), "{text}");
    until_state(&dev, 1, "node-1", "running");
    let (code, text) = dev_command(&dir, "list");
    let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, listed["nodes"].as_array().unwrap().len()), (0, 3), "{text}");

    dev.signal(Signal::Terminate);
    assert_eq!(dev.wait().code(), Some(0));
    assert!(!dir.join("control.sock").exists());
    let (code, text) = dev_command(&dir, "list");
    assert!(code == 3 && text.contains("no `carillon dev` runs in"), "{text}");
    fs::remove_dir_all(&dir).unwrap();
}
