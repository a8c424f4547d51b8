//! Shards are split while clients write to them through every node: real processes.

use client::http::PutOptions;

mod four;
use four::writers::{KEYS, KEYSPACE, read, write_meanwhile};
use four::{Cluster, EMPTY, until};

/// How many shards a node knows of the keyspace.
fn shards(cluster: &Cluster, asked: usize) -> usize {
    let shards = cluster.client(asked).shards(Some(KEYSPACE)).expect("the node answers");
    shards["shards"].as_array().map_or(0, Vec::len)
}

/// How many keys a node counts in all replicas that it has.
fn keys(cluster: &Cluster, asked: usize) -> u64 {
    let all = cluster.client(asked).keyspaces().expect("the node answers");
    all.iter().find(|keyspace| keyspace.name == KEYSPACE).map_or(0, |keyspace| keyspace.keys)
}

#[test]
fn shards_split_while_clients_write() {
    let flags = ["--balance=off", "--split-bytes", "1MiB", "--merge-bytes", "off"];
    let mut cluster = Cluster::new("split", &flags);
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    assert_eq!(shards(&cluster, 0), 8);

    // Every shard is cut, asked for at any node, and nobody who writes notices.
    let written = write_meanwhile(&cluster, || {
        for shard in 1..=8 {
            let asked = shard % (EMPTY + 1);
            cluster.done(asked, &format!("split {shard}"), "splits at");
            until("both halves are known", || (shards(&cluster, EMPTY) == 8 + shard).then_some(()));
        }
    });
    assert_eq!(written.len(), KEYS * (EMPTY + 1));
    for asked in 0..=EMPTY {
        until("all halves are known", || (shards(&cluster, asked) == 16).then_some(()));
        read(&cluster, asked, &written);
    }
    until("each replica has its keys", || {
        (keys(&cluster, 0) == written.len() as u64).then_some(())
    });
    until("what came of it is known", || {
        let (_, said) = cluster.run(EMPTY, "shards --why --keyspace 0");
        // Leads may move meanwhile.
        let came =
            |words| said.matches(&format!("because an operator asked for it\n  {words}")).count();
        (came("done after") > 0 && came("done after") + came("handed on") == 8).then_some(())
    });

    // What cannot be done is said, and changes nothing.
    for (line, said) in [
        ("split 0", "it holds the catalogue"),
        ("split 999", "there is no shard 999"),
        ("split 1 --at 16000", "leaves nothing on one side"),
    ] {
        let (code, found) = cluster.run(1, line);
        assert!(code != 0 && found.contains(said), "{line}: {found}");
    }

    // Killed and started again, from the log: all halves are there, and go on.
    for number in [1, 2, 0] {
        cluster.kill(number);
        cluster.start(number);
        cluster.nodes(number);
        read(&cluster, number, &written);
    }
    for asked in 0..=EMPTY {
        until("all is well", || {
            let status = cluster.client(asked).status().ok()?;
            (status["health"]["verdict"] == "ok").then_some(())
        });
    }

    // Too much for 16 shards of 1 MiB: they are cut by themselves.
    let (client, long) = (cluster.client(1), vec![b'x'; 60 << 10]);
    for number in 0..400 {
        let key = format!("long-{number}");
        assert!(client.put(KEYSPACE, key.as_bytes(), &long, &PutOptions::default()).unwrap());
    }
    until("they are cut", || (shards(&cluster, 0) >= 20).then_some(()));
    read(&cluster, EMPTY, &written);
    until("all keys are counted", || {
        (keys(&cluster, 0) == written.len() as u64 + 400).then_some(())
    });

    // Nothing is left of them when the keyspace is dropped.
    cluster.done(2, "keyspace drop 0", "");
    for asked in 0..=EMPTY {
        until("all shards are gone", || {
            let all = cluster.client(asked).shards(None).ok()?;
            (all["shards"].as_array()?.len() == 1).then_some(())
        });
    }
}
