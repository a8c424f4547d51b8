//! Quorum-loss recovery: two of three nodes are lost for good, and the third goes on. Real
//! processes, whose directories are deleted.

mod four;
use std::fs;
use std::path::{Path, PathBuf};

use client::http::{GetResult, PutOptions};
use four::{Cluster, EMPTY, until};
use harness::command;
use serde_json::Value;

const KEYS: u32 = 60;

/// Runs a command line: exit code, and what it said on standard output and standard error.
fn run(line: &[&str]) -> (i32, String, String) {
    let words = [&["recover"], line].concat();
    let ended = command::run(env!("CARGO_BIN_EXE_carillon"), words, b"", &[]);
    (ended.code, ended.text().to_owned(), ended.err)
}

/// Runs one that does what it says; what it said.
#[track_caller]
fn done(line: &[&str]) -> (String, String) {
    let (code, out, err) = run(line);
    assert_eq!(code, 0, "{line:?}: {out} {err}");
    (out, err)
}

#[track_caller]
fn refused(line: &[&str], words: &str) {
    let (code, out, err) = run(line);
    assert!(code == 1 && err.contains(words), "{line:?}: {code} {err}");
    assert!(out.is_empty(), "{out}");
}

/// Runs one whose output is kept in a file.
#[track_caller]
fn kept(file: &Path, line: &[&str]) -> String {
    let (out, err) = done(line);
    fs::write(file, out).unwrap();
    err
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The bytes of a directory.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

fn put(cluster: &Cluster, node: usize, key: &str) {
    let client = cluster.client(node);
    until(key, || client.put("0", key.as_bytes(), b"value", &PutOptions::default()).ok());
}

fn has_all(cluster: &Cluster, node: usize, keys: impl Iterator<Item = String>) {
    let client = cluster.client(node);
    for key in keys {
        let got = until(&key, || client.get("0", key.as_bytes(), None).ok());
        assert!(
            matches!(&got, GetResult::Value { value, .. } if value == b"value"),
            "{key}: {got:?}"
        );
    }
}

/// Waits until all that was acknowledged so far is on each node, also in its own log.
fn in_step(cluster: &Cluster) {
    until("nobody lags", || {
        let shards: Vec<Value> =
            (0..3).filter_map(|node| cluster.client(node).shards(None).ok()).collect();
        let is_even = |all: &Vec<Value>| {
            let of = |answer: &Value| -> Vec<(u64, u64)> {
                let list = answer["shards"].as_array().into_iter().flatten();
                list.map(|one| (one["id"].as_u64().unwrap(), one["applied"].as_u64().unwrap_or(0)))
                    .collect()
            };
            all.len() == 3 && all.iter().all(|answer| of(answer) == of(&all[0]))
        };
        is_even(&shards).then_some(())
    });
}

#[test]
fn last_of_three_recovers_and_grows_again() {
    let mut cluster = Cluster::new("recover", &["--balance=off"]);
    cluster.begin(0..=2);
    let names = |from: u32| (from..from + KEYS).map(|number| format!("key-{number}"));
    names(0).enumerate().for_each(|(at, key)| put(&cluster, at % 3, &key));
    in_step(&cluster);
    let id = |cluster: &Cluster, of: usize| {
        cluster.node(0, of).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let ids = [0, 1, 2].map(|of| id(&cluster, of));
    let dir = cluster.dir_of(0);
    let file = |name: &str| dir.with_file_name(name);
    let (left, plan, late) = (file("left.json"), file("plan.json"), file("late.json"));
    let inspect = ["inspect", "--dir", text(&dir)];
    let apply = ["apply", "--dir", text(&dir), "--plan", text(&plan), "--accept-loss"];

    refused(&inspect, "in use by a running node");
    (0..3).for_each(|number| cluster.kill(number));
    // Somebody keeps one of them.
    let kept_back = dir.with_file_name("kept-back");
    fs::rename(cluster.dir_of(1), &kept_back).unwrap();
    fs::remove_dir_all(cluster.dir_of(2)).unwrap();
    let before = contents(&dir);
    let err = kept(&left, &inspect);
    assert!(err.contains(&ids[0]) && err.contains("9 replicas"), "{err}");
    let err = kept(&plan, &["plan", text(&left)]);
    assert!(err.starts_with("9 of 9 shards have lost their majority for good"), "{err}");
    assert!(ids[1..].iter().all(|id| err.contains(&**id)), "{err}");
    assert_eq!(err.matches("1 of 3 voters left").count(), 9, "{err}");
    assert_eq!(err.matches("MAY BE LOST").count(), 9, "{err}");
    let keyspace = "shard 8 of keyspace 0, slots 14336 to 16383: 1 of 3";
    assert!(err.contains(keyspace), "{err}");

    refused(&["plan", text(&left), text(&left)], "is given twice");
    refused(&["plan", text(&plan)], "this is not a survivor");
    refused(&apply[..5], "nothing was changed. To accept these losses");
    refused(&["inspect", "--dir", text(&cluster.dir_of(1))], "cannot read");
    let other = fs::read_to_string(&plan).unwrap().replace(&ids[0], &ids[1]);
    fs::write(&late, other).unwrap();
    let apply_other = ["apply", "--dir", text(&dir), "--plan", text(&late), "--accept-loss"];
    refused(&apply_other, "was made without node");
    assert!(contents(&dir) == before, "nothing was to change");

    let (out, _) = done(&apply);
    assert!(out.contains("9 shards go on from here alone, 0 replicas end here"), "{out}");
    let after = contents(&dir);
    assert!(done(&apply).0.contains("nothing to do"));
    assert!(contents(&dir) == after, "once is enough");

    // It leads all, alone; then two new machines come.
    cluster.start(0);
    has_all(&cluster, 0, names(0));
    names(KEYS).take(5).for_each(|key| put(&cluster, 0, &key));
    (1..3).for_each(|number| cluster.start(number));
    cluster.all_well(0..=2);
    assert!((1..3).all(|number| id(&cluster, number) != ids[number]));
    names(KEYS).for_each(|key| put(&cluster, 2, &key));
    has_all(&cluster, 1, names(0).chain(names(KEYS)));
    for lost in &ids[1..] {
        cluster.done(0, &format!("nodes remove --unknown {lost}"), "is removed, for good");
    }

    fs::rename(kept_back, cluster.dir_of(EMPTY)).unwrap();
    cluster.start(EMPTY);
    assert_eq!(cluster.code_of(EMPTY), Some(5), "{}", cluster.log_of(EMPTY));
    let removal = format!("node {} was removed from the cluster", ids[1]);
    assert!(cluster.log_of(EMPTY).contains(&removal), "{}", cluster.log_of(EMPTY));

    // All three are there: there is nothing to do. A plan of the past is of no use.
    (0..3).for_each(|number| cluster.kill(number));
    let three = [0, 1, 2].map(|number| file(&format!("left-{number}.json")));
    for (number, file) in three.iter().enumerate() {
        kept(file, &["inspect", "--dir", text(&cluster.dir_of(number))]);
    }
    let all = [&["plan"][..], &three.each_ref().map(|file| text(file))].concat();
    refused(&all, "nothing to do: these nodes have a majority of each of 9 shards");
    assert!(done(&apply).0.contains("nothing to do"));
    kept(&late, &["plan", text(&three[0])]);
    cluster.begin(0..=2);
    put(&cluster, 0, "late");
    (0..3).for_each(|number| cluster.kill(number));
    refused(&apply_other, "has changed since it was inspected");
}
