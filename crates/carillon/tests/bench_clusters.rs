//! Scenarios of clusters that come with the program, made small: one that rearranges itself, one
//! that is parted, and transactions over shards beside etcd. Nothing is lost or too old, and
//! nothing that is moved about between accounts.

use std::ffi::OsStr;
use std::process::Command;

use harness::command::{CommandResult, run};
use harness::net::root_or_skip;
use harness::process::Directory;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

fn bench(words: &[&str]) -> CommandResult {
    let words: Vec<&OsStr> = ["bench"].iter().chain(words).map(OsStr::new).collect();
    run(PROGRAM, &words, b"", &[])
}

/// Runs a scenario with what `sets` changes; its results.
#[track_caller]
fn results(scenario: &str, sets: &[&str]) -> (Directory, Value) {
    let dir = Directory::new(&format!("bench-{scenario}")).unwrap();
    let out = dir.path().join("out");
    let mut words = vec!["run", scenario, "--repetitions", "1", "--out", out.to_str().unwrap()];
    sets.iter().for_each(|set| words.extend(["--set", set]));
    let done = bench(&words);
    assert_eq!(done.code, 0, "{}{}", done.text(), done.err);
    let text = std::fs::read_to_string(out.join("results.json")).unwrap();
    let results = serde_json::from_str(&text).unwrap();
    (dir, results)
}

fn phase<'a>(results: &'a Value, run: usize, name: &str) -> &'a Value {
    let phases = results["runs"][run]["phases"].as_array().unwrap();
    phases.iter().find(|phase| phase["name"] == name).unwrap_or_else(|| panic!("no phase {name}"))
}

/// What the timeline did in a phase, and whether it has ended well.
fn marks(phase: &Value) -> Vec<(&str, bool)> {
    let marks = phase["marks"].as_array().unwrap().iter();
    let is_good = |mark: &Value| mark["took"].is_number() && mark["failure"].is_null();
    marks.map(|mark| (mark["name"].as_str().unwrap(), is_good(mark))).collect()
}

#[test]
fn a_cluster_that_rearranges_itself_loses_nothing() {
    let sets = [
        "keys.count=3_000",
        "load.clients=6",
        "phase.steady.seconds=2",
        "phase.joined.seconds=8",
        "phase.drained.seconds=8",
        "phase.lost.seconds=12",
        "phase.read-back.seconds=2",
    ];
    let (_dir, results) = results("rearrange", &sets);
    for (name, expected) in [
        ("joined", vec!["start n5"]),
        ("drained", vec!["drain n2", "until n2 is empty", "stop n2", "nodes remove n2"]),
        ("lost", vec!["kill n3", "until the loss of another node is survived"]),
    ] {
        let expected: Vec<(&str, bool)> = expected.into_iter().map(|name| (name, true)).collect();
        assert_eq!(marks(phase(&results, 0, name)), expected);
    }
    let read = &phase(&results, 0, "read-back")["data"]["entries"][0];
    assert!(read["count"].as_u64() > Some(100) && read["failures"] == serde_json::json!({}));
}

#[test]
fn a_majority_goes_on_while_a_partition_cuts_off_the_others() {
    if !root_or_skip("a partition") {
        return;
    }
    // How long anybody waited is not judged here: the machine may be busy.
    let criteria = r#"pass=[{metric="failures",at_most=0}]"#;
    let sets = [
        "keys.count=1_000",
        "load.clients=6",
        "phase.alone.seconds=1",
        "phase.healed.seconds=8",
        criteria,
    ];
    let (_dir, results) = results("rearrange-part", &sets);
    let parted = marks(phase(&results, 0, "parted"));
    for name in ["n1 acknowledges nothing", "n2 acknowledges nothing", "a shard is split"] {
        assert!(parted.contains(&(name, true)), "{name}: {parted:?}");
    }
    let healed = marks(phase(&results, 0, "healed"));
    for name in ["n1 is served again", "n2 is served again", "settled"] {
        assert!(healed.contains(&(name, true)), "{name}: {healed:?}");
    }
}

#[test]
fn transfers_over_shards_keep_their_sum_and_stand_beside_those_of_etcd() {
    let small = [
        "keys.count=2_000",
        "keys.hot_keys=0.005",
        "phase.rest.seconds=1",
        "phase.one-shot.seconds=1",
        "phase.watch.seconds=1",
        "phase.script.seconds=1",
    ];
    let (ours, results) = results("transfers", &small);
    for run in 0..2 {
        for name in ["one-shot", "watch", "script"] {
            let entry = &phase(&results, run, name)["data"]["entries"][0];
            assert!(entry["count"].as_u64() > Some(0), "{name}: {}", entry["failures"]);
        }
    }
    let retries = |run| phase(&results, run, "watch")["data"]["retries"].as_u64();
    assert!(retries(1) > Some(0), "ten accounts, and 64 clients");
    if Command::new("etcd").arg("--version").output().is_err() {
        eprintln!("etcd is not installed: no peer was tried");
        return;
    }
    let (theirs, _) = self::results("transfers-etcd", &small);
    let path = |dir: &Directory| dir.path().join("out").to_str().unwrap().to_owned();
    let compared = bench(&["compare", &path(&theirs), &path(&ours)]);
    let text = compared.text();
    for name in ["one-shot", "watch", "script"] {
        let is_rate = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.windows(3).any(|three| three == [name, "all", "throughput"])
        };
        let rates = text.lines().filter(is_rate);
        assert_eq!(rates.count(), 2, "{name} of all accounts, and of hot ones: {text}");
    }
    assert!(!text.contains("only in the second"), "{text}");
}
