//! Shards of an ordered keyspace are merged while clients write to them and read ranges: real
//! processes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::four::{Cluster, EMPTY, until};
use crate::ordered::{KEYS, KEYSPACE, Redis, begin, name};

/// The keyspace's shards as a node knows them, in the order of their keys.
fn shards(cluster: &Cluster, asked: usize) -> Vec<Value> {
    let all = cluster.client(asked).shards(Some(KEYSPACE)).expect("the node answers");
    let mut all = all["shards"].as_array().expect("a list").clone();
    all.sort_by_key(|shard| shard["arc"][0].as_str().map(str::to_owned));
    all
}

fn id(shard: &Value) -> u64 {
    shard["id"].as_u64().expect("a number")
}

/// Waits until every node knows of so many.
fn are(cluster: &Cluster, count: usize) {
    for asked in 0..=EMPTY {
        let what = format!("n{asked} knows of {count} shards");
        until(&what, || (shards(cluster, asked).len() == count).then_some(()));
    }
}

/// Writes between the keys that are there throughout, and asks for these, until it is told to stop;
/// what it has written.
fn write(cluster: &Cluster, asked: usize, round: usize, stop: &AtomicBool) -> BTreeSet<String> {
    let (mut redis, mut written) = (Redis::new(cluster, asked), BTreeSet::new());
    while !stop.load(Ordering::Relaxed) || written.len() < 20 {
        // All over the keyspace: each shard gets some.
        let before = name(written.len() * 37 % KEYS);
        let key = format!("{before}-{asked}-{round}-{}", written.len());
        assert_eq!(redis.ask(&["SET", &key, "v"]), ["OK"]);
        assert_eq!(redis.ask(&["GET", &key]), ["v"]);
        written.insert(key);
        if written.len().is_multiple_of(10) {
            let part = redis.ask(&["RANGE", "[day-0240", "[day-0760", "LIMIT", "100000"]);
            assert!(part.is_sorted(), "{part:?}");
            let throughout = part.iter().filter(|key| key.len() == before.len()).cloned();
            assert!(throughout.eq((240..=760).map(name)), "{part:?}");
        }
    }
    written
}

/// Every node has each key, once and in order.
fn all_there(cluster: &Cluster, written: &BTreeSet<String>) {
    let all: BTreeSet<String> = (0..KEYS).map(name).chain(written.iter().cloned()).collect();
    for asked in 0..=EMPTY {
        let mut redis = Redis::new(cluster, asked);
        assert!(redis.ask(&["RANGE", "-", "+", "LIMIT", "100000"]).iter().eq(&all), "n{asked}");
        let back = redis.ask(&["RANGE", "+", "-", "REV", "LIMIT", "100000"]);
        assert!(back.iter().eq(all.iter().rev()), "n{asked}");
        assert_eq!(redis.ask(&["DBSIZE"]), [all.len().to_string()]);
        for key in &all {
            assert_eq!(redis.ask(&["GET", key]), ["v"], "{key} at n{asked}");
        }
    }
}

#[test]
fn ordered_shards_merge_while_clients_read_ranges() {
    let flags = ["--balance=off", "--merge-bytes", "off", "--split-bytes", "off"];
    let mut cluster = Cluster::new("merged", &flags);
    begin(&mut cluster);
    let first = id(&shards(&cluster, 0)[0]);
    let mut written = BTreeSet::new();
    for round in 0..2 {
        // Cut, and whole again, in another order each time; nobody who asks notices.
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (stop, cluster) = (&stop, &cluster);
            let writers: Vec<_> = (0..=EMPTY)
                .map(|asked| scope.spawn(move || write(cluster, asked, round, stop)))
                .collect();
            for (cut, at) in ["day-0750", "day-0500", "day-0250"].into_iter().enumerate() {
                cluster.done(cut, &format!("split {first} --at {at}"), "splits at");
                are(cluster, cut + 2);
            }
            let third = id(&shards(cluster, 0)[2]);
            let lefts = if round == 0 { [third, first, first] } else { [first, third, first] };
            for (done, left) in lefts.into_iter().enumerate() {
                cluster.done(done + round, &format!("merge {left}"), "is to merge with shard");
                are(cluster, 3 - done);
            }
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            let all = writers.into_iter().flat_map(|writer| writer.join().expect("a writer"));
            written.extend(all);
        });
        all_there(&cluster, &written);
        let output: String = (0..EMPTY).map(|asked| cluster.run(asked, "shards --why").1).collect();
        assert!(output.contains("it merges with shard"), "{output}");

        // Killed and started again, from the log; then stopped, and started from checkpoints.
        for number in [1, 2, 0] {
            match round {
                0 => cluster.kill(number),
                _ => cluster.stop(number),
            }
            cluster.start(number);
            cluster.nodes(number);
        }
        all_there(&cluster, &written);
        are(&cluster, 1);
    }

    // A follower is killed just when two are to become one: they do, at the latest when it is back.
    cluster.done(0, &format!("split {first} --at day-0600"), "splits at");
    are(&cluster, 2);
    let replicas = shards(&cluster, EMPTY)[0]["replicas"].clone();
    let mut replicas = replicas.as_array().expect("a list").iter();
    let follower = replicas.find(|replica| replica["leader"] == false).expect("there are two");
    let killed =
        (0..EMPTY).find(|n| follower["name"] == format!("n{n}")).expect("the follower has a name");
    let (asked, line) = ((killed + 1) % EMPTY, format!("merge {first}"));
    cluster.done(asked, &line, "is to merge with shard");
    cluster.kill(killed);
    Redis::new(&cluster, asked).ask(&["SET", "day-0700-late", "v"]);
    written.insert("day-0700-late".into());
    cluster.start(killed);
    cluster.nodes(killed);
    // Another may lead by then, who was not asked.
    until("they are one", || {
        let is_one = shards(&cluster, asked).len() == 1;
        if !is_one {
            let _there_may_be_one_by_now = cluster.run(asked, &line);
            thread::sleep(Duration::from_secs(1));
        }
        is_one.then_some(())
    });
    are(&cluster, 1);
    all_there(&cluster, &written);
    let (code, output) = cluster.run(1, &line);
    assert!(code != 0 && output.contains("it is the last of its keyspace"), "{output}");
}
