//! `carillon bench` as a user sees it: the real program, against a real node of its own.

use std::ffi::OsStr;
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
    let page = bench(&["report", text(&before)]);
    assert_eq!(page.code, 0, "{}", page.err);
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
