//! Tests that a node whose disk lost promised records gets its data back, under new replica ids.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::http::Client;
use serde_json::Value;

use crate::cluster::node::HTTP;
use crate::cluster::{Cluster, TEST_TIMEOUT};
use harness::resp::{Connection, TextReply};

const KEYS: usize = 400;
/// From one replica to three takes a moment.
const SPREAD: Duration = Duration::from_secs(4);

fn open(cluster: &Cluster, number: usize) -> Connection {
    let address = cluster.resp()[number - 1];
    let open =
        || Connection::open(address, TEST_TIMEOUT, TEST_TIMEOUT).expect("a node that is ready");
    cluster.net.clients().inside(open)
}

/// What a node says of all shards.
fn shards(cluster: &mut Cluster, number: usize) -> Vec<Value> {
    let address = cluster.node(number).at(HTTP).to_string();
    let ask = || Client::new(&address)?.with_timeout(TEST_TIMEOUT).shards(None);
    let answer = cluster.net.clients().inside(ask).expect("a node that is ready");
    answer["shards"].as_array().expect("a list of shards").clone()
}

/// The replicas that a node of this name has, by shard.
fn replicas_on(shards: &[Value], name: &str) -> Vec<u64> {
    let replicas = shards.iter().flat_map(|shard| shard["replicas"].as_array().unwrap().clone());
    let on = replicas.filter(|replica| replica["name"] == name);
    on.map(|replica| replica["replica"].as_u64().unwrap()).collect()
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "seg");
    let mut found: Vec<_> = files.filter(is_log).collect();
    found.sort();
    found
}

/// Takes the end of the log away: the last third of what is written in its last file.
fn lose_tail(dir: &Path) {
    let written = |path: &&PathBuf| fs::read(path).unwrap()[64..].iter().any(|byte| *byte != 0);
    let all = segments(dir);
    let last = all.iter().rev().find(written).expect("a log with something in it");
    let mut bytes = fs::read(last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let from = 64 + (end - 64) * 2 / 3;
    bytes[from..].fill(0);
    fs::write(last, bytes).unwrap();
}

#[test]
fn follower_that_lost_end_of_log_is_replaced() {
    let mut cluster = Cluster::new(3);
    cluster.start();
    let mut first = open(&cluster, 1);
    for key in 0..KEYS {
        let (key, value) = (format!("key-{key}"), format!("value-{key}"));
        assert_eq!(first.ask(&["SET", &key, &value]).unwrap(), TextReply::Simple("OK".into()));
    }
    sleep(SPREAD);
    for key in 0..KEYS {
        let (key, value) = (format!("more-{key}"), format!("value-{key}"));
        assert_eq!(first.ask(&["SET", &key, &value]).unwrap(), TextReply::Simple("OK".into()));
    }
    assert!(cluster.node(3).stop().success());
    let before = replicas_on(&shards(&mut cluster, 1), "node-3");
    assert!(!before.is_empty());
    lose_tail(&cluster.node(3).dir.clone());
    cluster.node(3).start();
    cluster.node(3).wait_for_log("is quarantined", 1);
    // Whatever was quarantined is replaced, and all is fully replicated.
    let begun = Instant::now();
    let after = loop {
        let found = shards(&mut cluster, 1);
        let whole = |shard: &Value| {
            let replicas = shard["replicas"].as_array().unwrap();
            let votes = |replica: &Value| replica["role"] == "voter" && replica["live"] == true;
            replicas.len() == 3 && replicas.iter().all(votes) && shard["replicas_live"] == 3
        };
        let here = replicas_on(&found, "node-3");
        let is_new = here.iter().any(|replica| !before.contains(replica));
        if is_new && found.iter().all(whole) && shards(&mut cluster, 3).iter().all(whole) {
            break here;
        }
        assert!(begun.elapsed() < TEST_TIMEOUT, "not replaced: {found:#?}");
        sleep(Duration::from_millis(50));
    };
    assert_eq!(after.len(), before.len());
    // A restart remembers who is who.
    assert!(cluster.node(3).stop().success());
    cluster.restart(3);
    assert_eq!(replicas_on(&shards(&mut cluster, 1), "node-3"), after);
    // What two of three know, without the second: all there is.
    cluster.node(2).kill();
    let mut third = open(&cluster, 3);
    for key in 0..KEYS {
        let value = TextReply::Bulk(format!("value-{key}"));
        for name in [format!("key-{key}"), format!("more-{key}")] {
            assert_eq!(third.ask(&["GET", &name]).unwrap(), value, "{name}");
        }
    }
}
