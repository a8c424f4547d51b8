//! Shards are merged while clients write to them through every node: real processes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

mod four;
use four::writers::{KEYS, read, write_meanwhile};
use four::{Cluster, EMPTY, until};

/// A merge is tried every two seconds.
const AGAIN: Duration = Duration::from_secs(6);

/// The shards that a node knows of the keyspace.
fn shards(cluster: &Cluster, asked: usize) -> Vec<u64> {
    shards_of(cluster, asked, "0")
}

fn shards_of(cluster: &Cluster, asked: usize, keyspace: &str) -> Vec<u64> {
    let shards = cluster.client(asked).shards(Some(keyspace)).expect("the node answers");
    let all = shards["shards"].as_array().expect("a list").iter();
    all.map(|shard| shard["id"].as_u64().expect("a number")).collect()
}

/// A shard takes in the one behind it: `left` are left then. What was asked for is forgotten if the
/// lead goes elsewhere at that moment, and then asked for again, as people would.
#[track_caller]
fn merge(cluster: &Cluster, asked: usize, shard: usize, left: usize) {
    cluster.done(asked, &format!("merge {shard}"), "is to merge with shard");
    let mut since = Instant::now();
    until("they are one", || {
        if since.elapsed() > AGAIN {
            cluster.run(asked, &format!("merge {shard}"));
            since = Instant::now();
        }
        (0..EMPTY).all(|asked| shards(cluster, asked).len() == left).then_some(())
    });
}

#[test]
fn shards_merge_while_clients_write() {
    let mut cluster = Cluster::new("merge", &["--balance=off", "--merge-bytes", "off"]);
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    for shard in 1..=4 {
        cluster.done(shard % 3, &format!("split {shard}"), "splits at");
        until("both halves are known", || {
            (0..=EMPTY).all(|asked| shards(&cluster, asked).len() == 8 + shard).then_some(())
        });
    }

    // Halves become whole, and wholes one, asked for at any node; nobody who writes notices.
    let written = write_meanwhile(&cluster, || {
        let mut left = 12;
        for shard in [1, 2, 3, 4, 1, 5, 7] {
            let asked = shard % (EMPTY + 1);
            left -= 1;
            merge(&cluster, asked, shard, left);
        }
    });
    assert_eq!(written.len(), KEYS * (EMPTY + 1));
    for asked in 0..=EMPTY {
        until("all know it", || (shards(&cluster, asked) == [1, 3, 4, 5, 7]).then_some(()));
        read(&cluster, asked, &written);
    }
    until("what came of it is known", || {
        let (_, said) = cluster.run(EMPTY, "shards --why --keyspace 0");
        (said.contains("it merges with shard") && said.contains("done after")).then_some(())
    });

    // What cannot be done is said, and changes nothing.
    for (line, said) in [
        ("merge 0", "it holds the catalogue"),
        ("merge 999", "there is no shard 999"),
        ("merge 2", "there is no shard 2"),
        ("merge 7", "it is the last of its keyspace"),
    ] {
        let (code, found) = cluster.run(1, line);
        assert!(code != 0 && found.contains(said), "{line}: {found}");
    }

    // Killed and started again, from the log; and once more, from checkpoints.
    for clean in [false, true] {
        for number in [1, 2, 0] {
            match clean {
                false => cluster.kill(number),
                true => cluster.stop(number),
            }
            cluster.start(number);
            cluster.nodes(number);
            read(&cluster, number, &written);
        }
    }
    for asked in 0..=EMPTY {
        until("all is well", || {
            let status = cluster.client(asked).status().ok()?;
            (status["health"]["verdict"] == "ok").then_some(())
        });
        assert_eq!(shards(&cluster, asked), [1, 3, 4, 5, 7]);
    }

    // What was merged is cut, and merged again.
    cluster.done(0, "split 1", "splits at");
    until("it is cut", || (shards(&cluster, EMPTY).len() == 6).then_some(()));
    merge(&cluster, 1, 1, 5);
    read(&cluster, EMPTY, &written);
}

/// What a node answers to an inline command, without its type.
fn ask(cluster: &Cluster, asked: usize, command: &str) -> String {
    let mut stream = TcpStream::connect(cluster.resp_of(asked)).expect("the node listens");
    write!(stream, "{command}\r\n").expect("the node reads");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("the node answers");
    line.trim_end()[1..].to_owned()
}

/// Values expire on time, and not half a second sooner for each split and each merge: the next
/// leader's clock begins at the read promise of the leader before.
#[test]
fn splits_and_merges_do_not_advance_time() {
    const TTL_MS: u64 = 100_000;
    let mut cluster = Cluster::new("merge-time", &["--balance=off", "--merge-bytes", "off"]);
    cluster.begin(0..=EMPTY - 1);
    let begun = Instant::now();
    assert_eq!(ask(&cluster, 0, &format!("SET key value PX {TTL_MS}")), "OK");
    // Whatever shard it is in, it is read.
    let pairs = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4];
    for shard in pairs {
        cluster.done(0, &format!("split {shard}"), "splits at");
        until("both halves are known", || (shards(&cluster, 0).len() == 9).then_some(()));
        merge(&cluster, 1, shard, 8);
    }
    for asked in 0..EMPTY {
        let left: u64 = ask(&cluster, asked, "PTTL key").parse().expect("milliseconds");
        let elapsed = begun.elapsed().as_millis() as u64;
        assert!(TTL_MS - left <= elapsed + 2_500, "{left} ms left after {elapsed} ms");
        assert!(TTL_MS - left + 1_500 >= elapsed, "{left} ms left after {elapsed} ms");
    }
}

#[test]
fn cold_shards_merge_automatically() {
    let mut cluster = Cluster::new("cold", &["--balance=off"]);
    cluster.begin(0..=EMPTY - 1);
    let client = cluster.client(0);
    let put = |key: &str| client.put("0", key.as_bytes(), b"v", &Default::default());
    assert!((0..100).all(|number| put(&format!("k{number}")).expect("the node does the put")));
    until("it has begun", || (shards(&cluster, 0).len() == 8).then_some(()));
    // An ordered keyspace begins with one.
    cluster.done(0, "keyspace create days --placement ordered", "");
    let put = |key: &str| client.put("days", key.as_bytes(), b"v", &Default::default());
    assert!((0..100).all(|number| put(&format!("k{number}")).expect("the node does the put")));
    let first = shards_of(&cluster, 0, "days")[0];
    cluster.done(0, "split 3", "splits at");
    cluster.done(0, &format!("split {first}"), "splits at");
    let are = |hashed: usize, ordered: usize| {
        until(&format!("there are {hashed} and {ordered}"), || {
            let counts = ["0", "days"].map(|keyspace| shards_of(&cluster, 1, keyspace).len());
            (counts == [hashed, ordered]).then_some(())
        });
    };
    are(9, 2);
    are(8, 1);
    for keyspace in ["0", "days"] {
        let (_, said) = cluster.run(0, &format!("shards --why --keyspace {keyspace}"));
        assert!(said.contains("both together hold less than 16 MiB"), "{said}");
    }
    // A keyspace keeps as many as it began with.
    thread::sleep(std::time::Duration::from_secs(12));
    are(8, 1);
}

/// A node gets a shard back that took another in there before. It goes on making checkpoints, and
/// so takes in what else comes to it.
#[test]
fn merged_shard_can_leave_node_and_return() {
    let mut cluster = Cluster::new("merge-back", &["--balance=off", "--merge-bytes", "off"]);
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    for _ in 0..6 {
        cluster.done(0, "split 1", "splits at");
        until("both halves are known", || (shards(&cluster, 0).len() == 9).then_some(()));
        merge(&cluster, 1, 1, 8);
    }

    cluster.done(0, "drain n2 --timeout 50s", "n2 is empty");
    cluster.done(0, "nodes uncordon n2", "n2 is a plain member");
    // Halves begin on it while shards come to it.
    cluster.run(0, "drain n1 --no-wait");
    for shard in 2..=8 {
        cluster.run(shard % 4, &format!("split {shard}"));
    }
    cluster.done(0, "drain n1 --timeout 50s", "n1 is empty");
    // It ends when it is told to, too.
    cluster.stop(2);
}
