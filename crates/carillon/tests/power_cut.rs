//! After a power cut of all nodes, the others form the cluster again although the node that all
//! joined through never comes back: real processes, with the flags of the README.

mod four;

use std::fs;

use client::http::{GetResult, PutOptions};
use four::{Cluster, EMPTY, until};

fn put(cluster: &Cluster, node: usize, key: &str) {
    let client = cluster.client(node);
    until(key, || client.put("0", key.as_bytes(), b"value", &PutOptions::default()).ok());
}

fn has(cluster: &Cluster, node: usize, key: &str) {
    let client = cluster.client(node);
    let got = until(key, || client.get("0", key.as_bytes(), None).ok());
    assert!(matches!(&got, GetResult::Value { value, .. } if value == b"value"), "{key}: {got:?}");
}

fn serves(cluster: &Cluster, number: usize) {
    until(&format!("n{number} serves"), || {
        (cluster.client(number).status().ok()?["ready"] == true).then_some(())
    });
}

/// What its file of addresses says, as text.
fn addresses(cluster: &Cluster, number: usize) -> String {
    let bytes = fs::read(cluster.dir_of(number).join("ADDRESSES")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until a node has all of these addresses in its directory, and none of those.
fn remembers(cluster: &Cluster, number: usize, these: &[String], none: &[String]) {
    until(&format!("n{number} remembers {these:?}, not {none:?}"), || {
        let file = addresses(cluster, number);
        let all = these.iter().all(|one| file.contains(one));
        (all && !none.iter().any(|one| file.contains(one))).then_some(())
    });
}

/// Why a node does not serve yet, once it says something with these words.
fn waits_for(cluster: &Cluster, number: usize, words: &[&str]) {
    until(&format!("n{number} says {words:?}"), || {
        let status = cluster.client(number).status().ok()?;
        let why = status["not_ready"].as_str()?;
        let reasons = status["health"]["reasons"].to_string();
        let says = |text: &str| words.iter().all(|word| text.contains(word));
        (says(why) && says(&reasons)).then_some(())
    });
    let line = until(&format!("n{number} logs {words:?}"), || {
        let log = cluster.log_of(number);
        let line = log.lines().rfind(|line| line.contains("waits: "))?;
        words.iter().all(|word| line.contains(word)).then(|| line.to_owned())
    });
    let (code, status) = cluster.run(number, "status");
    assert!(code == 1 && words.iter().all(|word| status.contains(word)), "{status}\n{line}");
}

#[test]
fn two_of_three_serve_without_their_join_seed() {
    let mut cluster = Cluster::new("comeback", &["--balance=off"]);
    cluster.begin(0..=2);
    put(&cluster, 0, "before");
    let at = |cluster: &Cluster, number| cluster.peer_of(number).to_string();
    let [first, second, third] = [0, 1, 2].map(|number| at(&cluster, number));
    remembers(&cluster, 1, &[first.clone(), third.clone()], std::slice::from_ref(&second));
    remembers(&cluster, 2, &[first.clone(), second.clone()], std::slice::from_ref(&third));
    (0..3).for_each(|number| cluster.kill(number));

    // With the flags that they always had. The first is gone for good.
    (1..3).for_each(|number| cluster.start(number));
    (1..3).for_each(|number| serves(&cluster, number));
    has(&cluster, 1, "before");
    put(&cluster, 2, "with-join");
    (1..3).for_each(|number| cluster.kill(number));

    // And without any. The second says whom it wants, and where it looks.
    cluster.start_joining(1, None);
    let [n1, n3] = [format!("at {first}: no node answers"), format!("at {third}: no node answers")];
    waits_for(&cluster, 1, &["no leader yet of shard", "n0 (", &n1, "n2 (", &n3]);
    cluster.start_joining(2, None);
    (1..3).for_each(|number| serves(&cluster, number));
    has(&cluster, 1, "with-join");

    // The third comes back elsewhere, and says so to the second, whose file is corrected.
    cluster.kill(2);
    cluster.move_elsewhere(2);
    cluster.start_joining(2, None);
    remembers(&cluster, 1, &[at(&cluster, 2)], &[third]);
    serves(&cluster, 2);
    put(&cluster, 2, "elsewhere");
    (1..3).for_each(|number| cluster.kill(number));

    // A directory from before there was such a file opens, and needs --join as it did then; one
    // with a damaged file as well.
    fs::remove_file(cluster.dir_of(1).join("ADDRESSES")).unwrap();
    let damaged = cluster.dir_of(2).join("ADDRESSES");
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    cluster.start_joining(1, Some(0));
    waits_for(&cluster, 1, &["no leader yet of shard", "whose address is not known", "--join"]);
    cluster.start_joining(2, Some(1));
    (1..3).for_each(|number| serves(&cluster, number));
    has(&cluster, 1, "elsewhere");
    let log = cluster.log_of(2);
    assert!(log.contains("ADDRESSES is damaged"), "{log}");
    remembers(&cluster, 1, &[at(&cluster, 2)], &[]);
    remembers(&cluster, 2, &[at(&cluster, 1)], &[]);
}

#[test]
fn cluster_serves_after_founder_is_drained_and_removed() {
    let mut cluster = Cluster::new("comeback-removed", &[]);
    cluster.begin(0..=2);
    cluster.start(EMPTY);
    until("the fourth is there", || (cluster.node(1, EMPTY)?["state"] == "up").then_some(()));
    put(&cluster, 0, "before");
    cluster.done(1, "drain n0", "");
    cluster.done(1, "nodes remove n0", "is removed, for good");
    assert_eq!(cluster.code_of(0), Some(5), "{}", cluster.log_of(0));
    let all: Vec<String> = (0..=EMPTY).map(|number| cluster.peer_of(number).to_string()).collect();
    for number in 1..=EMPTY {
        let others = (1..=EMPTY).filter(|other| *other != number);
        let others: Vec<String> = others.map(|other| all[other].clone()).collect();
        remembers(&cluster, number, &others, &all[..1]);
    }
    (1..=EMPTY).for_each(|number| cluster.kill(number));
    (1..=EMPTY).for_each(|number| cluster.start(number));
    (1..=EMPTY).for_each(|number| serves(&cluster, number));
    has(&cluster, 2, "before");
    put(&cluster, 3, "after");
}
