//! `carillon bench` as a user sees it: the real program, against a real node of its own.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::command::{CommandResult, run};
use harness::process::{Directory, Process};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

fn bench(words: &[&str]) -> CommandResult {
    let words: Vec<&OsStr> = ["bench"].iter().chain(words).map(OsStr::new).collect();
    run(PROGRAM, &words, b"", &[])
}

fn text(path: impl AsRef<Path>) -> &'static str {
    Box::leak(path.as_ref().to_string_lossy().into_owned().into_boxed_str())
}

#[test]
fn scenarios_are_listed_shown_and_checked() {
    let list = bench(&["list"]);
    assert_eq!(list.code, 0, "{}", list.err);
    assert!(list.text().contains("  What instrument and sockets cost"));
    for line in list.text().lines() {
        let name = line.split(' ').next().unwrap();
        let checked = bench(&["check", name]);
        assert_eq!(checked.code, 0, "{}", checked.err);
    }
    let dir = Directory::new("bench-check").unwrap();
    let mine = dir.path().join("mine.toml");
    let shown = bench(&["show", "redis"]).text().to_owned();
    std::fs::write(&mine, shown.replace("clients = 50", "cleints = 50")).unwrap();
    let wrong = bench(&["check", text(&mine)]);
    assert_eq!(wrong.code, 2);
    let expected = "mine.toml:12: load.cleints: unknown key; did you mean `clients`?";
    assert!(wrong.err.contains(expected), "{}", wrong.err);
    let unknown = bench(&["run", "rediss"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("did you mean `redis`?"), "{}", unknown.err);
    assert!(bench(&["show", "driver.py"]).text().contains("json.loads"));
}

/// A run of a scenario that comes with the program, as short as can be.
fn short(dir: &Path, name: &str, more: &[&str]) -> CommandResult {
    let out = text(dir.join(name));
    let words = ["run", name, "--out", out, "--seconds", "0.5", "--repetitions", "1"];
    bench(&[&words, more].concat())
}

fn results(dir: &Path, name: &str) -> Value {
    let bytes = std::fs::read(dir.join(name).join("results.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn a_node_is_measured_by_all_its_protocols() {
    let dir = Directory::new("bench-node").unwrap();
    for (name, cells) in [("carillon", 2), ("http", 1)] {
        let few = ["--set", "keys.count=500"];
        let ran = short(dir.path(), name, &few);
        assert_eq!(ran.code, 0, "{name}: {} {}", ran.text(), ran.err);
        assert!(ran.text().contains("passed: "), "{}", ran.text());
        let results = results(dir.path(), name);
        assert_eq!(results["runs"].as_array().unwrap().len(), cells);
        let origin = &results["origin"];
        assert!(origin["command"].as_str().unwrap().contains("bench run"));
        assert!(origin["machine"]["cores"].as_u64().unwrap() > 0);
        let again = short(dir.path(), name, &few);
        assert!(again.err.contains("measured before"), "{}", again.err);
    }
    let native = dir.path().join("native.toml");
    let scenario = "[target]\ndriver = \"native\"\ncommand = [\"{carillon}\", \"start\", \
                    \"--dir\", \"{dir}/data\", \"--resp\", \"off\", \"--http\", \"off\", \
                    \"--native\", \"127.0.0.1:{port}\"]\n[keys]\ncount = 200\n\
                    [load]\npipeline = 8\n\
                    mix = { get = 2, put = 1, delete = 1 }\n\
                    [[phase]]\nname = \"run\"\nseconds = 0.5\n\
                    [[pass]]\nmetric = \"failures\"\nat_most = 0\n";
    std::fs::write(&native, scenario).unwrap();
    let ran = bench(&["run", text(&native), "--out", text(dir.path().join("native"))]);
    assert_eq!(ran.code, 0, "{} {}", ran.text(), ran.err);
}

#[test]
fn comparing_fails_when_something_got_slower() {
    let dir = Directory::new("bench-compare").unwrap();
    let ran = short(dir.path(), "instrument-memory", &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (before, after) = (dir.path().join("instrument-memory"), dir.path().join("after.json"));
    let mut shifted = results(dir.path(), "instrument-memory");
    for figure in shifted["figures"].as_array_mut().unwrap() {
        let factor = match figure["metric"].as_str().unwrap() {
            "throughput" => 1.0 / 1.1,
            "failures" => 1.0,
            _ => 1.1,
        };
        for key in ["value", "low", "high"] {
            let value = figure["median"][key].as_f64().unwrap();
            figure["median"][key] = (value * factor).into();
        }
    }
    std::fs::write(&after, shifted.to_string()).unwrap();
    let compare = |one: &Path, two: &Path, over: &str| {
        bench(&["compare", text(one), text(two), "--fail-over", over])
    };
    assert_eq!(compare(&before, &before, "0%").code, 0);
    let worse = compare(&before, &after, "5%");
    assert_eq!(worse.code, 1, "{}", worse.text());
    assert!(worse.text().contains("+10.0 %  WORSE"), "{}", worse.text());
    assert_eq!(compare(&before, &after, "12%").code, 0);
    assert_eq!(compare(&after, &before, "5%").code, 0, "faster is not worse");
    assert_eq!(compare(&before, dir.path(), "5%").code, 2);
    let page = bench(&["report", text(&before), "--svg"]);
    assert_eq!(page.code, 0, "{}", page.err);
    let picture = before.join("charts/run-000-0-phase-1-seconds.svg");
    let drawn = std::fs::read_to_string(picture).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("answered"), "{drawn}");
}

#[test]
fn what_cannot_be_reached_or_written_is_said() {
    let dir = Directory::new("bench-refused").unwrap();
    let free = harness::ports::unused();
    let address = format!("target.addresses=[\"{free}\"]");
    let ran = short(dir.path(), "ramp", &["--set", &address]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains(&format!("cannot reach {free}: connection refused")), "{}", ran.err);
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let ran = bench(&["run", "instrument-memory", "--out", text(file.join("below"))]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let wrong = short(dir.path(), "ramp", &["--set", "load.clients=many"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("load.clients: expected a whole number"), "{}", wrong.err);
}

fn start_agent(dir: &Path, name: &str, secret: &str) -> (Process, String) {
    let address = harness::ports::unused().to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["bench", "agent", "--listen", &address, "--secret-file", secret]);
    let log = dir.join(name);
    let agent = Process::start(command, &log).unwrap();
    harness::until(Duration::from_secs(20), "the agent listens", || {
        std::fs::read_to_string(&log).ok().filter(|log| log.contains("listening")).map(drop)
    });
    (agent, address)
}

#[test]
fn agents_make_a_load_and_a_killed_one_fails_it() {
    let dir = Directory::new("bench-agents").unwrap();
    let secret = text(dir.write_secret().unwrap());
    let (one, first) = start_agent(dir.path(), "one", secret);
    let (mut two, second) = start_agent(dir.path(), "two", secret);
    let agents = format!("{first},{second}");
    let with = ["--agents", agents.as_str(), "--secret-file", secret, "--set", "keys.count=500"];
    let ran = short(dir.path(), "redis", &with);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let both = &results(dir.path(), "redis")["origin"]["agents"];
    assert_eq!(both.as_array().unwrap().len(), 2);

    let out = text(dir.path().join("killed"));
    let mut command = Command::new(PROGRAM);
    command.args(["bench", "run", "redis", "--out", out]).args(with);
    let log = dir.path().join("killed.log");
    let mut controller = Process::start(command, &log).unwrap();
    let begun = || std::fs::read_to_string(dir.path().join("two")).unwrap();
    let sessions = || begun().matches(": connected").count();
    harness::until(Duration::from_secs(20), "the second run begins", || {
        (sessions() == 2).then_some(())
    });
    std::thread::sleep(Duration::from_millis(500));
    two.kill().unwrap();
    let status = controller.wait_for(Duration::from_secs(20)).unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("agent {second}: lost")), "{said}");
    harness::until(Duration::from_secs(10), "the other agent has ended its part", || {
        let log = std::fs::read_to_string(dir.path().join("one")).unwrap();
        (log.matches(": ended").count() == 2).then_some(())
    });
    drop(one);
}

fn json(url: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(url).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    // The run's end cuts it.
    let _cut = stream.read_to_string(&mut text);
    text
}

#[test]
fn elasticity_is_measured_on_a_real_cluster_and_shown_live() {
    let dir = Directory::new("bench-elasticity").unwrap();
    let live = harness::ports::unused().to_string();
    let out = dir.path().join("out");
    let words = ["bench", "run", "elasticity", "--seconds", "3", "--live", &live, "--out"];
    let mut command = Command::new(PROGRAM);
    command.args(words).arg(&out).args(["--set", "keys.count=300", "--set", "load.clients=9"]);
    let log = dir.path().join("log");
    let mut run = Process::start(command, &log).unwrap();
    harness::until(Duration::from_secs(60), "it is shown", || {
        std::net::TcpStream::connect(&live).ok()
    });
    let page = json(&live, "/");
    assert!(page.contains("200 OK") && page.contains("EventSource"), "{page}");
    let events = json(&live, "/events");
    let status = run.wait_for(Duration::from_secs(120)).unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(status.success(), "{said}");
    for kind in ["plan", "run", "step", "second", "mark", "usage", "phase", "end"] {
        assert!(events.contains(&format!("event: {kind}\n")), "{kind}: {events}");
    }
    let results = results(dir.path(), "out");
    let run = &results["runs"][0];
    let phases = run["phases"].as_array().unwrap();
    let of = |phase: usize, what: &str| phases[phase][what].as_array().unwrap();
    for (phase, name) in [(1, "kill n3"), (2, "start n3"), (3, "start n4")] {
        let marks = of(phase, "marks");
        assert_eq!(marks[0]["name"], name);
        assert!(marks[0]["took"].is_f64() && marks[0]["failure"].is_null(), "{marks:?}");
    }
    for phase in phases {
        let good: u64 = phase["series"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["count"].as_u64().unwrap())
            .sum();
        assert!(good > 0, "{}", phase["name"]);
    }
    // A client of a node that is killed sees that, by kind and by second.
    let killed = of(1, "series");
    assert!(killed.iter().any(|row| row["kinds"].as_object().is_some_and(|k| !k.is_empty())));
    let processes = phases[3]["usage"]["processes"].as_array().unwrap();
    let names: Vec<&str> = processes.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["instrument", "n1", "n2", "n3", "n4"]);
    let messages = phases[0]["usage"]["messages"].as_array().unwrap();
    assert!(messages.iter().any(|one| one["kind"].as_str().unwrap().starts_with("replica ")));
    let (page, complaints) = browsed(&out.join("report.html"));
    for words in ["% answered well", "kill n3", "start n4", "Messages between nodes"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains("all runs</option>"), "the script has run");
    assert_eq!(page.matches("<figcaption").count(), 4, "a chart of seconds for each phase");
    assert!(!complaints.contains("Uncaught"), "{complaints}");
    assert_eq!(processes_of(&run["origin"]["target"]), 0, "nothing runs any more");
}

/// A page as chromium shows it, and what it complains about.
fn browsed(page: &Path) -> (String, String) {
    let url = format!("file://{}", page.display());
    let flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"];
    let mut chromium = Command::new("chromium");
    let output = chromium.args(flags).args(["--dump-dom", &url]).output().expect("chromium");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// How many processes have one of these addresses in their command lines.
fn processes_of(target: &Value) -> usize {
    let addresses: Vec<&str> = target.as_str().unwrap().split(", ").collect();
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = pids.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| addresses.iter().any(|address| line.contains(address))).count()
}

#[test]
fn an_interrupted_run_ends_its_nodes_and_keeps_what_it_measured() {
    let dir = Directory::new("bench-interrupted").unwrap();
    let out = dir.path().join("out");
    let mut command = Command::new(PROGRAM);
    command.args(["bench", "run", "redis", "--set", "keys.count=200", "--out"]).arg(&out);
    command.args(["--set", "phase.warm-up.seconds=0.2", "--set", "phase.mixed.seconds=60"]);
    let log = dir.path().join("log");
    let live = harness::ports::unused().to_string();
    command.args(["--live", &live]);
    let mut run = Process::start(command, &log).unwrap();
    harness::until(Duration::from_secs(60), "it is shown", || {
        std::net::TcpStream::connect(&live).ok()
    });
    let mut viewer = std::net::TcpStream::connect(&live).unwrap();
    viewer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    viewer.write_all(b"GET /events HTTP/1.1\r\n\r\n").unwrap();
    let mut seen = String::new();
    while seen.matches("event: second").count() < 2 || !seen.contains("\"mixed\"") {
        let mut piece = [0; 4096];
        let len = viewer.read(&mut piece).unwrap();
        assert!(len > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..len]));
    }
    run.signal(harness::process::Signal::Interrupt).unwrap();
    let status = run.wait_for(Duration::from_secs(30)).unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    let results = results(dir.path(), "out");
    let run = &results["runs"][0];
    assert!(run["failure"].as_str().unwrap().starts_with("interrupted"));
    assert_eq!(processes_of(&run["origin"]["target"]), 0, "nothing runs any more");
    let checked = bench(&["compare", text(&out), text(&out)]);
    assert_eq!(checked.code, 2, "{}", checked.err);
}

#[test]
fn a_matrix_runs_over_agents_in_namespaces_and_goes_on_after_one_was_killed() {
    if !harness::net::root_or_skip("agents in network namespaces") {
        return;
    }
    let net = harness::net::Net::new(3);
    let dir = Directory::new("bench-namespaces").unwrap();
    let secret = text(dir.write_secret().unwrap());
    let start = |node: usize, log: &str| {
        let address = format!("{}:7700", net.node(node).ip);
        let mut command = net.node(node).command(PROGRAM);
        command.args(["bench", "agent", "--listen", &address, "--secret-file", secret]);
        let log = dir.path().join(log);
        let agent = Process::start(command, &log).unwrap();
        harness::until(Duration::from_secs(20), "the agent listens", || {
            std::fs::read_to_string(&log).ok().filter(|log| log.contains("listening")).map(drop)
        });
        (agent, address)
    };
    let (one, first) = start(1, "one");
    let (mut two, second) = start(2, "two");
    let scenario = dir.path().join("matrix.toml");
    let addresses = "[target]\ndriver = \"resp\"\n[[node]]\nname = \"a\"\nagent = 1\n\
                     command = [\"redis-server\", \"--port\", \"{port}\", \"--bind\", \
                     \"{host}\", \"--protected-mode\", \"no\", \"--save\", \"\"]\n\
                     [keys]\ncount = 100\n[matrix]\n\"load.clients\" = [2, 4, 6]\n\
                     [[phase]]\nname = \"run\"\nseconds = 1.2\n";
    std::fs::write(&scenario, addresses).unwrap();
    let out = dir.path().join("out");
    let agents = format!("{first},{second}");
    let controller = |log: &Path| {
        let mut command = net.node(3).command(PROGRAM);
        command.args(["bench", "run"]).arg(&scenario).arg("--out").arg(&out);
        command.args(["--agents", &agents, "--secret-file", secret]);
        Process::start(command, log).unwrap()
    };
    let log = dir.path().join("first.log");
    let mut run = controller(&log);
    let said = || std::fs::read_to_string(&log).unwrap();
    harness::until(Duration::from_secs(40), "the second cell begins", || {
        said().contains("run 2 of 3").then_some(())
    });
    std::thread::sleep(Duration::from_millis(600));
    two.kill().unwrap();
    let status = run.wait_for(Duration::from_secs(40)).unwrap();
    assert_eq!(status.code(), Some(1), "{}", said());
    assert!(said().contains(&format!("agent {second}: lost")), "{}", said());
    drop(two);
    let (two, _) = start(2, "two-again");
    let log = dir.path().join("second.log");
    let status = controller(&log).wait_for(Duration::from_secs(60)).unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(status.success(), "{said}");
    assert!(said.contains("run 1 of 3: clients=2: measured before"), "{said}");
    let results = results(dir.path(), "out");
    assert_eq!(results["runs"].as_array().unwrap().len(), 3);
    assert!(results["runs"].as_array().unwrap().iter().all(|run| run["failure"].is_null()));
    drop((one, two));
}

/// Three connections write at three nodes: they are one session of writers.
#[test]
fn a_volume_of_three_nodes_is_measured() {
    let dir = Directory::new("bench-volume").unwrap();
    let shown = bench(&["show", "volumes-three"]).text().to_owned();
    let scenario = dir.path().join("volume.toml");
    let one = shown.replace("[\"uniform\", \"sequential\"]", "[\"uniform\"]");
    let one = one.replace("[1, 32]", "[8]").replace("65_536", "2_000");
    std::fs::write(&scenario, one).unwrap();
    let out = text(dir.path().join("out"));
    let ran = bench(&["run", text(&scenario), "--out", out, "--seconds", "0.5"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let results = results(dir.path(), "out");
    assert_eq!(results["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn an_agent_that_is_cut_off_ends_its_load_and_its_nodes() {
    if !harness::net::root_or_skip("an agent in a network namespace") {
        return;
    }
    let mut net = harness::net::Net::new(2);
    let dir = Directory::new("bench-cut-off").unwrap();
    let secret = text(dir.write_secret().unwrap());
    let address = format!("{}:7700", net.node(1).ip);
    let log = dir.path().join("agent");
    let mut command = net.node(1).command(PROGRAM);
    command.args(["bench", "agent", "--listen", &address, "--secret-file", secret]);
    let agent = Process::start(command, &log).unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    harness::until(Duration::from_secs(20), "the agent listens", || {
        said().contains("listening").then_some(())
    });
    let scenario = dir.path().join("long.toml");
    // Its load and its node are on one host: neither of them sees that anything is cut.
    let redis = format!("cut-off-{}.rdb", std::process::id());
    let long = "[target]\ndriver = \"resp\"\n[[node]]\nname = \"a\"\nagent = 1\n\
                command = [\"redis-server\", \"--port\", \"{port}\", \"--bind\", \
                \"{host}\", \"--protected-mode\", \"no\", \"--save\", \"\", \
                \"--set-proc-title\", \"no\", \"--dbfilename\", \"FILE\"]\n\
                [keys]\ncount = 100\n[[phase]]\nname = \"run\"\nseconds = 600\n";
    std::fs::write(&scenario, long.replace("FILE", &redis)).unwrap();
    let mut command = net.node(2).command(PROGRAM);
    command.args(["bench", "run"]).arg(&scenario).arg("--out").arg(dir.path().join("out"));
    command.args(["--agents", &address, "--secret-file", secret]);
    let told = dir.path().join("controller");
    let mut run = Process::start(command, &told).unwrap();
    harness::until(Duration::from_secs(40), "the load begins", || {
        (processes_with(&redis) > 0).then_some(())
    });
    std::thread::sleep(Duration::from_secs(2));
    net.unplug(1);
    let status = run.wait_for(Duration::from_secs(40)).unwrap();
    let why = std::fs::read_to_string(&told).unwrap();
    assert_eq!(status.code(), Some(1), "{why}");
    assert!(why.contains(&format!("agent {address}: lost")), "{why}");
    harness::until(Duration::from_secs(25), "the agent has ended all", || {
        (said().matches(": ended").count() == 2 && processes_with(&redis) == 0).then_some(())
    });
    drop(agent);
}

/// How many processes have this in their command lines.
fn processes_with(words: &str) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = pids.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).replace('\0', " ").contains(words)).count()
}

#[test]
fn volumes_are_measured_beside_another_server() {
    let dir = Directory::new("bench-volumes").unwrap();
    // The server of the scenario's first lines, and the other one of its matrix.
    for (name, small) in [("volumes", "keys.count=256"), ("volumes-1m", "keys.count=4")] {
        let cell = ["--set", small, "--set", "matrix={\"load.pipeline\"=[16]}"];
        let ran = short(dir.path(), name, &cell);
        assert_eq!(ran.code, 0, "{name}: {} {}", ran.text(), ran.err);
    }
    let other = "node.server.command=[\"nbdkit\",\"-f\",\"-i\",\"{host}\",\"-p\",\"{port}\",\
                 \"memory\",\"256M\"]";
    let cell =
        ["--set", "keys.count=256", "--set", "matrix={\"load.pipeline\"=[16]}", "--set", other];
    let ran = short(dir.path(), "volumes", &[&cell[..], &["--replace"]].concat());
    assert_eq!(ran.code, 0, "{} {}", ran.text(), ran.err);
    let results = results(dir.path(), "volumes");
    for phase in results["runs"][0]["phases"].as_array().unwrap() {
        let entries = phase["data"]["entries"].as_array().unwrap();
        assert!(entries.iter().all(|entry| entry["absent"] == 0), "all was written: {phase}");
    }
}

#[test]
fn one_node_is_measured_and_what_its_data_take() {
    let dir = Directory::new("bench-one-node").unwrap();
    let cell = ["--set", "keys.count=300", "--set", "matrix={\"load.pipeline\"=[16]}"];
    let ran = short(dir.path(), "one-node", &cell);
    assert_eq!(ran.code, 0, "{} {}", ran.text(), ran.err);
    let cell = ["--set", "keys.count=300", "--set", "matrix={\"load.clients\"=[2]}"];
    let ran = short(dir.path(), "data-size", &cell);
    assert_eq!(ran.code, 0, "{} {}", ran.text(), ran.err);
    let results = results(dir.path(), "data-size");
    let phases = results["runs"][0]["phases"].as_array().unwrap();
    let names = |phase: &Value| -> Vec<String> {
        let marks = phase["marks"].as_array().unwrap();
        assert!(marks.iter().all(|mark| mark["took"].is_f64()), "{marks:?}");
        marks.iter().map(|mark| mark["name"].as_str().unwrap().to_owned()).collect()
    };
    let stopped = ["stop server", "start server", "until it answers after a stop"];
    assert_eq!(names(&phases[0]), stopped);
    assert_eq!(names(&phases[1])[0], "kill server");
    let node = &phases[0]["usage"]["processes"].as_array().unwrap()[1];
    assert_eq!(node["name"], "server");
    let last = node["rows"].as_array().unwrap().last().unwrap();
    assert!(last["files"].as_u64().unwrap() > 4_096, "{last}");
    let page = std::fs::read_to_string(dir.path().join("data-size/report.html")).unwrap();
    assert!(page.contains("files, MiB") && page.contains("µs a request"), "{page}");
}
