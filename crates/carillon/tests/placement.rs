//! Replicas leave a node that is drained and one that has died, and spread if they may: real
//! processes, whose keys are read through all of them meanwhile.

use std::time::Duration;

mod four;
use four::{Cluster, EMPTY, until};

/// Shards of the keyspace 0, and the system shard.
const SHARDS: u64 = 9;
const KEYS: usize = 40;

/// Replicas that a node has, as the first says.
fn replicas(cluster: &Cluster, asked: usize, number: usize) -> u64 {
    cluster.node(asked, number).and_then(|node| node["replicas"].as_u64()).unwrap_or(u64::MAX)
}

fn write(cluster: &Cluster, asked: usize) {
    for key in 0..KEYS {
        cluster.done(asked, &format!("put k{key} v{key}"), "");
    }
}

/// Reads all keys through a node.
#[track_caller]
fn read(cluster: &Cluster, asked: usize) {
    for key in 0..KEYS {
        cluster.done(asked, &format!("get k{key}"), &format!("v{key}"));
    }
}

fn well(cluster: &Cluster, asked: usize) {
    until("all is well", || {
        let status = cluster.client(asked).status().ok()?;
        (status["health"]["verdict"] == "ok").then_some(())
    });
}

#[test]
fn replicas_leave_a_node_that_is_drained_and_one_that_has_died() {
    let mut cluster = Cluster::new("placement", &["--dead-after-ms", "3s"]);
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    write(&cluster, 0);
    read(&cluster, EMPTY);

    // All that the second has goes to the fourth, which is the only one without.
    cluster.done(2, "drain n1 --timeout 50s", "n1 is empty");
    assert_eq!((replicas(&cluster, 0, 1), replicas(&cluster, 0, EMPTY)), (0, SHARDS));
    (0..=EMPTY).for_each(|asked| read(&cluster, asked));
    // It stays empty when it was started anew, and can take its part again.
    cluster.kill(1);
    cluster.start(1);
    until("it is up", || (cluster.node(0, 1)?["state"] == "up").then_some(()));
    read(&cluster, 1);
    assert_eq!(replicas(&cluster, 0, 1), 0);
    cluster.done(1, "nodes uncordon n1", "n1 is a member");

    // The first dies for good: the second takes its place.
    cluster.kill(0);
    until("the dead one is replaced", || {
        (replicas(&cluster, 2, 1) == SHARDS && replicas(&cluster, 2, 0) == 0).then_some(())
    });
    for asked in [1, 2, EMPTY] {
        read(&cluster, asked);
    }
    // It comes back, and finds that others have its place.
    cluster.start(0);
    until("it has nothing", || {
        let node = cluster.node(0, 0)?;
        (node["state"] == "up" && node["shards"] == 0).then_some(())
    });
    well(&cluster, 1);
    (0..=EMPTY).for_each(|asked| read(&cluster, asked));
}

#[test]
fn replicas_spread_to_who_joins() {
    let mut cluster = Cluster::new("spread", &["--balance"]);
    (0..=EMPTY).for_each(|number| cluster.start(number));
    until("all have their part", || {
        let held: Vec<u64> = (0..=EMPTY).map(|number| replicas(&cluster, 0, number)).collect();
        let sum = held.iter().fold(0, |sum: u64, held| sum.saturating_add(*held));
        (sum == 3 * SHARDS && held.iter().all(|held| (5..=8).contains(held))).then_some(())
    });
    write(&cluster, 1);
    std::thread::sleep(Duration::from_millis(500));
    (0..=EMPTY).for_each(|asked| read(&cluster, asked));
}
