//! Tests a rolling upgrade of three real nodes while clients write: versions N−1 and N together, a
//! downgrade, a raised cluster version, and then old nodes that are refused.
//!
//! One binary plays both versions: with `--cluster-version-max 1` it supports what the version
//! before does.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::http::{Client, ClientError};
use serde_json::Value;

use crate::cluster::node::HTTP;
use crate::cluster::{Cluster, TEST_TIMEOUT};
use crate::load::Load;
use crate::load::history::Event;
use crate::service::{NODES, SILENCE_MAX, judge};

/// Flags of a node of the version before.
const OLD: [&str; 2] = ["--cluster-version-max", "1"];
/// Flags of one of this version, with a short time before the cluster version rises.
const NEW: [&str; 2] = ["--auto-upgrade-after-ms", "2s"];

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "not within the time limit: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Waits until all nodes report `ok`, as an operator does before he upgrades the next one.
fn all_well(cluster: &Cluster) {
    let is_well = |status: Value| {
        status["health"]["verdict"] == "ok" && status["cluster"]["members_up"] == NODES
    };
    until("all is well", || (1..=NODES).all(|number| cluster.status(number).is_ok_and(is_well)));
}

fn run_as(cluster: &mut Cluster, number: usize, flags: [&str; 2]) {
    cluster.node(number).more = flags.map(str::to_owned).to_vec();
}

/// Stops a node as people do, and has it come back as this version.
fn replace(cluster: &mut Cluster, load: &Load, number: usize, flags: [&str; 2]) -> Event {
    let from = load.now();
    assert!(cluster.node(number).stop().success());
    run_as(cluster, number, flags);
    cluster.restart(number);
    let gone = Some((number, load.now()));
    all_well(cluster);
    let what = format!("node {number} with {flags:?}");
    Event { what, from, until: load.now(), gone }
}

fn ask<T: Send>(
    cluster: &mut Cluster,
    number: usize,
    ask: impl FnOnce(&Client) -> Result<T, ClientError> + Send,
) -> Result<T, ClientError> {
    let address = cluster.node(number).at(HTTP).to_string();
    cluster.net.clients().inside(|| ask(&Client::new(&address)?))
}

/// The cluster version, as each node knows it.
fn cluster_versions(cluster: &Cluster) -> Vec<Option<u64>> {
    let version = |number| cluster.status(number).ok()?["level"]["level"].as_u64();
    (1..=NODES).map(version).collect()
}

/// It cannot rise for the sake of these, and says so.
fn is_held_by(cluster: &mut Cluster, nodes: &[&str]) {
    let refused =
        ask(cluster, 1, |client| client.raise_cluster_version(None)).unwrap_err().to_string();
    for node in nodes {
        assert!(refused.contains(&format!("{node} supports 1 only")), "{refused}");
    }
    assert_eq!(cluster_versions(cluster), [Some(1); NODES]);
}

/// It starts, and ends by itself: it does not support the cluster version.
fn is_refused(cluster: &mut Cluster, number: usize, codes: &[i32]) {
    let words = "the cluster is at cluster version 2, and this program supports 1 only";
    let node = cluster.node(number);
    let before = node.said().matches(words).count();
    node.start();
    let code = node.wait().code();
    assert!(code.is_some_and(|code| codes.contains(&code)), "{code:?}: {}", node.last_words());
    assert!(node.said().matches(words).count() > before, "{}", node.last_words());
}

/// A cluster begins at the newest version that its founder supports; the founder may not go back.
#[test]
fn directory_with_too_high_cluster_version_is_refused() {
    let mut cluster = Cluster::strangers(1);
    cluster.start();
    until("its cluster version", || {
        cluster.status(1).is_ok_and(|status| status["level"]["level"] == 2)
    });
    assert!(cluster.node(1).stop().success());
    run_as(&mut cluster, 1, OLD);
    is_refused(&mut cluster, 1, &[1]);
    cluster.node(1).more.clear();
    cluster.start();
}

#[test]
fn cluster_version_rises_after_last_node_is_upgraded() {
    let mut cluster = Cluster::new(NODES);
    (1..=NODES).for_each(|number| run_as(&mut cluster, number, OLD));
    cluster.start();
    all_well(&cluster);
    let load = Load::start(&cluster);
    let mut events = vec![replace(&mut cluster, &load, 1, NEW)];
    events.push(replace(&mut cluster, &load, 2, NEW));
    is_held_by(&mut cluster, &["node-3"]);
    // The way back is open until the cluster version rises.
    events.push(replace(&mut cluster, &load, 2, OLD));
    is_held_by(&mut cluster, &["node-2", "node-3"]);
    events.push(replace(&mut cluster, &load, 2, NEW));
    events.push(replace(&mut cluster, &load, 3, NEW));
    until("the cluster version rises", || cluster_versions(&cluster) == [Some(2); NODES]);
    for number in 1..=NODES {
        let words = "the cluster version is 2 from now on, and was 1";
        cluster.node(number).wait_for_log(words, 1);
    }
    let raised = ask(&mut cluster, 1, |client| client.raise_cluster_version(Some(2)));
    assert_eq!(raised.unwrap()["level"], 2, "it may be asked for again");
    let lower = ask(&mut cluster, 1, |client| client.raise_cluster_version(Some(1))).unwrap_err();
    assert!(lower.to_string().contains("never lowered"), "{lower}");

    // By its own catalogue or by another node, whichever is sooner; and nothing is lost.
    assert!(cluster.node(3).stop().success());
    run_as(&mut cluster, 3, OLD);
    is_refused(&mut cluster, 3, &[1, 5]);
    // At the door, where it would join.
    let dir = cluster.node(3).dir.clone();
    let aside = dir.with_extension("aside");
    fs::rename(&dir, &aside).unwrap();
    is_refused(&mut cluster, 3, &[5]);
    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&aside, &dir).unwrap();
    run_as(&mut cluster, 3, NEW);
    cluster.restart(3);
    all_well(&cluster);

    judge(load, &events, SILENCE_MAX);
}
