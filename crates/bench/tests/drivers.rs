//! Drivers on the real thing: etcd, and a Redis Cluster whose slots move. Each takes seconds.

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use bench::measure::result::Results;
use bench::run::{self, Local, Progress};
use bench::scenario::Metric;
use harness::ports::base;
use harness::process::{Directory, Process};
use harness::resp::Connection;
use harness::until;
use support::{kinds, options, phase, plan};

const READY: Duration = Duration::from_secs(60);

fn run_in(dir: &Path, text: &str, observer: &mut dyn FnMut(Progress<'_>)) -> Results {
    run::run(&plan(text), &options(dir), &mut Local::default(), observer)
        .unwrap_or_else(|why| panic!("{why}"))
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn etcd_is_read_written_and_asked_for_transactions() {
    if !is_installed("etcd") {
        // `scripts/setup.sh bench` installs it; benchmarks go without it where it cannot be had.
        eprintln!("etcd is not installed: not tried");
        return;
    }
    let dir = Directory::new("drivers-etcd").unwrap();
    let text = r#"
        [target]
        driver = "etcd"
        command = ["etcd", "--data-dir", "{dir}/data", "--listen-client-urls",
            "http://127.0.0.1:{port}", "--advertise-client-urls", "http://127.0.0.1:{port}",
            "--listen-peer-urls", "http://127.0.0.1:{port2}",
            "--initial-advertise-peer-urls", "http://127.0.0.1:{port2}",
            "--initial-cluster", "default=http://127.0.0.1:{port2}"]
        request_timeout = "30s"
        [keys]
        count = 200
        [values]
        from = 1
        to = 2000
        [setup]
        clients = 4
        pipeline = 8
        [op.both]
        command = ["txn", "if-present", "{key}", "put", "{key}", "{value}", "get", "{key}"]
        [op.new]
        command = ["txn", "if-absent", "{key}", "put", "{key}", "{value}"]
        [load]
        clients = 4
        [[phase]]
        name = "mixed"
        seconds = 1
        mix = { get = 5, put = 4, both = 1 }
        require_values = true
        [[phase]]
        name = "deep"
        seconds = 1
        pipeline = 150
        mix = { get = 1 }
        [[phase]]
        name = "refused"
        seconds = 0.5
        mix = { new = 1 }
        [[phase]]
        name = "deleted"
        seconds = 0.5
        mix = { delete = 1, get = 1 }
        [teardown]
        delete = true
    "#;
    let results = run_in(dir.path(), text, &mut |_| {});
    for name in ["mixed", "deep", "deleted"] {
        let phase = phase(&results, name);
        assert_eq!(phase.metric(Metric::Failures, None), 0.0, "{name}: {:?}", kinds(phase));
        assert!(phase.latencies(None).len() > 10, "{name}");
    }
    let absent = |name| phase(&results, name).data.entries.iter().map(|e| e.absent).sum::<u64>();
    assert_eq!(absent("mixed"), 0);
    assert!(absent("deleted") > 0);
    let refused = phase(&results, "refused");
    assert_eq!(refused.latencies(None).len(), 0, "all keys exist");
    assert_eq!(kinds(refused), ["refused: a condition did not hold"]);
}

#[test]
fn transfers_of_etcd_keep_what_all_keys_hold_together() {
    if !is_installed("etcd") {
        eprintln!("etcd is not installed: not tried");
        return;
    }
    let dir = Directory::new("drivers-etcd-transfers").unwrap();
    let text = r#"
        [target]
        driver = "etcd"
        command = ["etcd", "--data-dir", "{dir}/data", "--listen-client-urls",
            "http://127.0.0.1:{port}", "--advertise-client-urls", "http://127.0.0.1:{port}",
            "--listen-peer-urls", "http://127.0.0.1:{port2}",
            "--initial-advertise-peer-urls", "http://127.0.0.1:{port2}",
            "--initial-cluster", "default=http://127.0.0.1:{port2}"]
        request_timeout = "30s"
        [keys]
        count = 6
        [values]
        number = 100
        [op.move]
        transfer = "watch"
        [load]
        clients = 8
        mix = { move = 3, get = 1 }
        [[phase]]
        name = "run"
        seconds = 2
        [teardown]
        read_back = true
    "#;
    let results = run_in(dir.path(), text, &mut |_| {});
    let run = phase(&results, "run");
    assert_eq!(run.metric(Metric::Failures, None), 0.0, "{:?}", kinds(run));
    assert!(run.data.entries.iter().all(|entry| entry.count > 0), "{:?}", run.data.entries);
    assert!(run.data.retries > 0, "six keys, and eight clients");
}

/// A node of a Redis Cluster, with the slots of its third.
struct RedisNode {
    address: SocketAddr,
    id: String,
    /// Before its directory: dropped first.
    _process: Process,
    _dir: Directory,
}

impl RedisNode {
    fn ask(&self, words: &[&str]) -> String {
        let mut connection = Connection::open(self.address, READY, READY).unwrap();
        connection.ask(words).unwrap().text()
    }
}

fn redis_cluster() -> Vec<RedisNode> {
    // The port of the cluster's bus is 10 000 above.
    let ports = base(&[0, 10_000], 3);
    let start = |number: u16| {
        let dir = Directory::new(&format!("drivers-redis-{number}")).unwrap();
        let port = ports + number;
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--cluster-enabled", "yes", "--dir"]).arg(dir.path());
        let process = Process::start(command, &dir.path().join("log")).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut connection =
            until(READY, "redis-server listens", || Connection::open(address, READY, READY).ok());
        let (first, last) =
            (number * 5_461, if number == 2 { 16_383 } else { number * 5_461 + 5_460 });
        let slots = ["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()];
        assert_eq!(connection.ask(&slots).unwrap().text(), "OK");
        let id = connection.ask(&["CLUSTER", "MYID"]).unwrap().text();
        RedisNode { address, id, _process: process, _dir: dir }
    };
    let nodes: Vec<RedisNode> = (0..3).map(start).collect();
    for node in &nodes[1..] {
        let port = nodes[0].address.port().to_string();
        assert_eq!(node.ask(&["CLUSTER", "MEET", "127.0.0.1", &port]), "OK");
    }
    for node in &nodes {
        until(READY, "the cluster is up", || {
            node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok").then_some(())
        });
    }
    nodes
}

#[test]
fn a_redis_cluster_is_asked_where_slots_are_and_followed_when_they_move() {
    let nodes = redis_cluster();
    let dir = Directory::new("drivers-cluster").unwrap();
    // One address is enough: the node that has it names the others.
    let text = format!(
        "[target]\ndriver = \"resp\"\ncluster = true\naddresses = [\"{}\"]\n\
         [keys]\ncount = 3000\n[load]\nclients = 6\npipeline = 4\nmix = {{ get = 5, put = 5 }}\n\
         [op.incr]\ncommand = [\"INCR\", \"n:{{key}}\"]\n\
         [[phase]]\nname = \"still\"\nseconds = 1\nmix = {{ get = 5, put = 4, incr = 1 }}\n\
         [[phase]]\nname = \"moving\"\nseconds = 3\n[teardown]\ndelete = true\n",
        nodes[0].address
    );
    // While the second phase runs, slots move whose keys are all there: first each is asked for at
    // both nodes (ASK), then the new one has it (MOVED).
    let (from, to) = (nodes[0].address, nodes[1].address);
    let (from_id, to_id) = (nodes[0].id.clone(), nodes[1].id.clone());
    let mover = thread::spawn(move || {
        let mut source = Connection::open(from, READY, READY).unwrap();
        let mut target = Connection::open(to, READY, READY).unwrap();
        until(READY, "the second phase begins", || {
            source.ask(&["EXISTS", "go"]).unwrap().text().eq("1").then_some(())
        });
        for slot in 0..200 {
            let slot = slot.to_string();
            let set =
                |how: &str, id: &str| ["CLUSTER", "SETSLOT", &slot, how, id].map(str::to_owned);
            let ask = |at: &mut Connection, words: &[String]| {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                at.ask(&words).unwrap().text()
            };
            assert_eq!(ask(&mut target, &set("IMPORTING", &from_id)), "OK");
            assert_eq!(ask(&mut source, &set("MIGRATING", &to_id)), "OK");
            let keys =
                ask(&mut source, &["CLUSTER", "GETKEYSINSLOT", &slot, "100"].map(str::to_owned));
            for key in keys.split(' ').filter(|key| !key.is_empty()) {
                let port = to.port().to_string();
                let words = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"].map(str::to_owned);
                assert_eq!(ask(&mut source, &words), "OK");
            }
            thread::sleep(Duration::from_millis(1));
            for end in [&mut target, &mut source] {
                assert_eq!(ask(end, &set("NODE", &to_id)), "OK");
            }
        }
    });
    // A key whose slot does not move, on the first node.
    let begin = |name: &str| {
        if name == "moving" {
            // `go` lies in slot 4084 of 0 to 5460.
            assert_eq!(nodes[0].ask(&["SET", "go", "1"]), "OK");
        }
    };
    let results = run_in(dir.path(), &text, &mut |progress| {
        if let Progress::Step { name, .. } = progress {
            begin(name);
        }
    });
    mover.join().unwrap();
    for name in ["still", "moving"] {
        let phase = phase(&results, name);
        assert_eq!(phase.metric(Metric::Failures, None), 0.0, "{name}: {:?}", kinds(phase));
    }
    assert_eq!(phase(&results, "still").data.redirects, 0, "slots were known");
    assert!(phase(&results, "moving").data.redirects >= 10);
    let served = nodes.iter().map(|node| node.ask(&["DBSIZE"]).parse::<u64>().unwrap());
    let served: Vec<u64> = served.collect();
    // The counters of `incr` and the key that began it are left.
    assert!(served.iter().all(|keys| *keys > 100), "all nodes had keys: {served:?}");
}
