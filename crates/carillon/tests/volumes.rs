//! Volumes of real nodes, over real sockets: what is written at one node is read at another, errors
//! are those of the protocol, and what was answered survives kills of all nodes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use harness::cluster::Cluster;
use harness::nbd::{Disk, FLUSH, INVALID, NO_SPACE, PERM, TRIM, WRITE_ZEROES};
use harness::node::{Node, TEST_TIMEOUT};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const BLOCK: usize = 4096;
const SIZE: usize = 256 * BLOCK;

fn pattern(seed: usize, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK).map(|at| ((at / 7) * 31 + seed * 17 + at) as u8 | 1).collect()
}

/// Three nodes with a volume.
fn prepared(name: &str) -> Cluster {
    let cluster = Cluster::start(PROGRAM, name, 3, &[], &["0"]);
    let words = ["volume", "create", "disk", "--size", "1MiB", "--replicas", "3"];
    let (code, text) = cluster.nodes[0].carillon(&words);
    assert_eq!(code, 0, "{text}");
    let read = || {
        let whole = |node: &Node| Disk::open(node.nbd, "disk").ok()?.read(0, SIZE).ok();
        cluster.nodes.iter().all(|node| whole(node).is_some()).then_some(())
    };
    harness::until(TEST_TIMEOUT, "all nodes serve the volume", read);
    cluster.wait_until_replicated("disk", 3);
    cluster
}

#[test]
fn any_node_serves_a_volume_and_refuses_what_makes_no_sense() {
    let cluster = prepared("volumes");
    let mut first = Disk::open(cluster.nodes[0].nbd, "disk@session=a").unwrap();
    let mut other = Disk::open(cluster.nodes[1].nbd, "disk@session=a").unwrap();
    assert_eq!(first.size, SIZE as u64);
    assert_eq!(other.read(0, SIZE).unwrap(), vec![0; SIZE], "a new volume is zeroes");
    let bytes = pattern(1, 5);
    assert_eq!(first.write(3 * BLOCK as u64, &bytes), 0);
    assert_eq!(other.read(3 * BLOCK as u64, bytes.len()).unwrap(), bytes);
    // Any bytes can be read, and whole blocks written.
    assert_eq!(other.read(3 * BLOCK as u64 + 5, 9).unwrap(), bytes[5..14]);
    assert_eq!(first.write(1, &pattern(1, 1)), INVALID);
    assert_eq!(first.write(0, &bytes[..100]), INVALID);
    assert_eq!(first.write(SIZE as u64, &pattern(1, 1)), NO_SPACE);
    assert_eq!(first.read(SIZE as u64 - 1, 2), Err(INVALID));
    assert_eq!(first.act(FLUSH, 0, 0), 0);
    assert_eq!(other.act(TRIM, 4 * BLOCK as u64, 2 * BLOCK as u32), 0);
    let mut expected = bytes.clone();
    expected[BLOCK..3 * BLOCK].fill(0);
    assert_eq!(first.read(3 * BLOCK as u64, bytes.len()).unwrap(), expected);
    assert_eq!(first.act(WRITE_ZEROES, 0, SIZE as u32), 0);
    assert_eq!(other.read(0, SIZE).unwrap(), vec![0; SIZE]);

    // Zeroes take no room.
    assert_eq!(first.write(0, &[0; 2 * BLOCK]), 0);
    let (_, text) = cluster.nodes[2].carillon(&["volume", "show", "disk", "--json"]);
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&shown["bytes"], &shown["written_bytes"]), (&SIZE.into(), &0.into()), "{shown}");

    // Many requests at once, answered in any order.
    let blocks = 64;
    for number in 0..blocks {
        first.ask(1, (number * BLOCK) as u64, BLOCK as u32, &pattern(number, 1));
    }
    let mut cookies: Vec<u64> = (0..blocks)
        .map(|_| first.reply())
        .map(|(error, cookie)| {
            assert_eq!(error, 0);
            cookie
        })
        .collect();
    cookies.sort_unstable();
    cookies.dedup();
    assert_eq!(cookies.len(), blocks);
    for number in 0..blocks {
        assert_eq!(other.read((number * BLOCK) as u64, BLOCK).unwrap(), pattern(number, 1));
    }

    // Other names, other sizes.
    assert_eq!(Disk::open(cluster.nodes[2].nbd, "nothing").err(), Some(0x8000_0006));
    assert_eq!(Disk::open(cluster.nodes[2].nbd, "0").err(), Some(0x8000_0006), "no volume");
    let mut unnamed = Disk::open(cluster.nodes[2].nbd, "").unwrap();
    assert_eq!(unnamed.read(0, BLOCK).unwrap(), pattern(0, 1), "the only one");
    let (code, _) = cluster.nodes[1].carillon(&["volume", "resize", "disk", "--size", "2MiB"]);
    assert_eq!(code, 0);
    let grown = harness::until(Duration::from_secs(20), "the volume has grown", || {
        Disk::open(cluster.nodes[2].nbd, "disk").ok().filter(|disk| disk.size == 2 * SIZE as u64)
    });
    drop(grown);
    for (words, why) in [
        (&["volume", "create", "odd", "--size", "5000"][..], "whole number"),
        (&["volume", "create", "odd", "--size", "1MiB", "--block", "2KiB"], "4096"),
        (&["volume", "resize", "0", "--size", "1MiB"], "not a volume"),
        (&["volume", "delete", "nothing"], "no volume"),
        (&["keyspace", "alter", "disk", "--durability", "memory"], "sync"),
    ] {
        let (code, text) = cluster.nodes[0].carillon(words);
        assert!((1..=2).contains(&code) && text.contains(why), "{words:?}: {code} {text}");
    }
    let (code, text) = cluster.nodes[0].carillon(&["volume", "delete", "disk"]);
    assert_eq!(code, 0, "{text}");
    harness::until(Duration::from_secs(20), "the volume is gone", || {
        first.read(0, BLOCK).is_err().then_some(())
    });
}

#[test]
fn an_export_may_name_a_past_time_and_cannot_be_written() {
    let cluster = prepared("volumes_past");
    let mut disk = Disk::open(cluster.nodes[0].nbd, "disk").unwrap();
    let (old, new) = (pattern(1, SIZE / BLOCK), pattern(2, SIZE / BLOCK));
    assert_eq!(disk.write(0, &old[..SIZE - 2 * BLOCK]), 0);
    let (code, token) = cluster.nodes[1].carillon(&["volume", "snapshot", "disk", "--ttl", "5m"]);
    assert_eq!(code, 0, "{token}");
    let (token, mut expected) = (token.trim(), old.clone());
    expected[SIZE - 2 * BLOCK..].fill(0);
    assert_eq!(disk.write(0, &new), 0);
    assert_eq!(disk.act(TRIM, 0, 4 * BLOCK as u32), 0);

    let name = format!("disk@{token}");
    for node in &cluster.nodes {
        let mut past = Disk::open(node.nbd, &name).unwrap();
        assert_eq!(past.size, SIZE as u64);
        assert_eq!(past.read(0, SIZE).unwrap(), expected);
        assert_eq!(past.read(5, 9).unwrap(), expected[5..14]);
        assert_eq!(past.write(0, &new[..BLOCK]), PERM);
        assert_eq!(past.act(TRIM, 0, BLOCK as u32), PERM);
        assert_eq!(past.act(WRITE_ZEROES, 0, BLOCK as u32), PERM);
        assert_eq!(past.act(FLUSH, 0, 0), 0);
        assert_eq!(past.read(SIZE as u64, BLOCK), Err(INVALID));
        // Many at once, more than may be under way: all are answered.
        (0..100).for_each(|_| past.ask(0, 0, SIZE as u32, &[]));
        for _ in 0..100 {
            assert_eq!(past.reply().0, 0);
            let mut bytes = vec![0; SIZE];
            past.stream.read_exact(&mut bytes).unwrap();
            assert!(bytes == expected);
        }
    }
    // A volume that has grown since then reads as zeroes there; ages and times are names as well.
    let (code, _) = cluster.nodes[0].carillon(&["volume", "resize", "disk", "--size", "2MiB"]);
    assert_eq!(code, 0);
    harness::until(Duration::from_secs(20), "the volume has grown", || {
        let mut grown = Disk::open(cluster.nodes[2].nbd, &name).unwrap();
        (grown.size == 2 * SIZE as u64).then(|| {
            assert_eq!(grown.read(SIZE as u64, BLOCK).unwrap(), vec![0; BLOCK]);
        })
    });
    let mut now = Disk::open(cluster.nodes[2].nbd, "disk@0ms ago").unwrap();
    let mut newest = new.clone();
    newest[..4 * BLOCK].fill(0);
    assert_eq!(now.read(0, SIZE).unwrap(), newest);

    // What is there, and what cannot be.
    let uri = format!("nbd://{}/{name}", cluster.nodes[2].nbd);
    let map = std::process::Command::new("timeout")
        .args(["60", "nbdinfo", "--map=base:allocation", "--totals", "--json", &uri])
        .output()
        .expect("timeout is there");
    let totals: Value = serde_json::from_slice(&map.stdout).expect("it is JSON");
    let data = totals.as_array().unwrap().iter().find(|one| one["type"] == 0).unwrap();
    assert_eq!(data["size"], SIZE - 2 * BLOCK, "{totals}");
    let (code, text) = cluster.nodes[0].carillon(&["gc", "--keyspace", "disk"]);
    assert_eq!(code, 0, "{text}");
    let mut pinned = Disk::open(cluster.nodes[0].nbd, &name).unwrap();
    assert_eq!(pinned.read(0, SIZE).unwrap(), expected, "the snapshot stays");
    for (export, why) in [
        ("disk@1h ago", "retention is 60000 ms"),
        ("disk@2020-01-01T00:00:00Z", "it can be read since"),
        ("disk@2200-01-01T00:00:00Z", "in the future"),
        ("disk@yesterday", "is no time"),
        ("disk@", "is no time"),
        ("disk@snap-0000000000000001-1-1", "the snapshot is of cluster"),
        ("nothing@1s ago", "no volume has this name"),
        ("0@1s ago", "no volume has this name"),
    ] {
        // Shards follow the safe point that was collected to.
        let (error, text) = harness::until(Duration::from_secs(20), export, || {
            Disk::choose(cluster.nodes[1].nbd, export).err()
        });
        assert_eq!(error, 0x8000_0006, "{export}: {text}");
        assert!(text.contains(why), "{export}: {text}");
    }
    // The snapshot ends.
    let (code, text) = cluster.nodes[0].carillon(&["snapshot", "release", token]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(disk.read(0, SIZE).unwrap(), newest);
}

#[test]
fn check_reads_all_blocks_and_names_what_is_none() {
    let cluster = prepared("volumes_checked");
    let mut disk = Disk::open(cluster.nodes[0].nbd, "disk").unwrap();
    assert_eq!(disk.write(0, &pattern(1, SIZE / BLOCK)), 0);
    assert_eq!(disk.act(TRIM, 0, BLOCK as u32), 0);
    let (code, text) = cluster.nodes[0].carillon(&["volume", "resize", "disk", "--size", "512KiB"]);
    assert_eq!(code, 0, "{text}");
    let checked = |number: usize| {
        let (code, text) = cluster.nodes[number].carillon(&["volume", "check", "disk", "--json"]);
        let found: Value = serde_json::from_str(text.lines().next().unwrap_or_default())
            .unwrap_or_else(|why| panic!("{why}: {text}"));
        (code, found, text)
    };
    let count = |found: &Value, name: &str| found[name].as_u64().unwrap();
    let found = harness::until(Duration::from_secs(20), "the node knows the new size", || {
        let (code, found, text) = checked(1);
        assert_eq!(code, 0, "{text}");
        (count(&found, "hidden_blocks") > 0).then_some(found)
    });
    assert_eq!(count(&found, "blocks"), (SIZE / BLOCK) as u64 - 1);
    assert_eq!((count(&found, "hidden_blocks"), count(&found, "bad")), (128, 0), "{found}");

    // What others write into the keyspace is found, and no snapshot stays.
    let mut redis = cluster.nodes[2].connect();
    assert_eq!(redis.ask(&["SELECT", "disk"]).unwrap().text(), "OK");
    assert_eq!(redis.ask(&["SET", "stray", "x"]).unwrap().text(), "OK");
    let (code, found, text) = checked(2);
    assert_eq!((code, count(&found, "bad")), (1, 1), "{text}");
    assert!(text.contains("key stray is no number of a block"), "{text}");
    let (_, text) = cluster.nodes[0].carillon(&["snapshot", "list", "--json"]);
    let left: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(left["snapshots"].as_array().map(Vec::len), Some(0), "{left}");
    let (code, text) = cluster.nodes[0].carillon(&["volume", "check", "0"]);
    assert!(code == 1 && text.contains("is not a volume"), "{text}");
}

#[test]
fn what_was_answered_survives_kills_of_all_nodes() {
    let mut cluster = prepared("volumes_killed");
    let mut disk = Disk::open(cluster.nodes[0].nbd, "disk").unwrap();
    for number in 0..32 {
        assert_eq!(disk.write((number * BLOCK) as u64, &pattern(number, 1)), 0);
    }
    // A node goes while others write.
    cluster.nodes[2].kill();
    for number in 32..64 {
        assert_eq!(disk.write((number * BLOCK) as u64, &pattern(number, 1)), 0, "{number}");
    }
    (0..2).for_each(|number| cluster.nodes[number].kill());
    (0..3).for_each(|number| cluster.nodes[number].start(&[]));
    harness::until(TEST_TIMEOUT, "the volume can be read", || {
        Disk::open(cluster.nodes[1].nbd, "disk").ok()?.read(0, SIZE).ok()
    });
    let mut disk = Disk::open(cluster.nodes[1].nbd, "disk").unwrap();
    for number in 0..64 {
        assert_eq!(disk.read((number * BLOCK) as u64, BLOCK).unwrap(), pattern(number, 1));
    }
}

#[test]
fn bad_clients_end_alone() {
    let cluster = prepared("volumes_bad");
    let mut good = Disk::open(cluster.nodes[0].nbd, "disk").unwrap();
    let mut bytes = Vec::new();
    for number in 0..200_usize {
        let mut bad = TcpStream::connect(cluster.nodes[0].nbd).unwrap();
        bad.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        bytes.clear();
        bytes.extend((0..number * 3).map(|at| (at * number * 7 + 13) as u8));
        // The server may close at any byte.
        let _sent = bad.write_all(&bytes);
        let _ended = bad.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _closed = bad.read_to_end(&mut rest);
    }
    // One that goes in the middle of a write: nothing of it is done.
    let mut gone = Disk::open(cluster.nodes[0].nbd, "disk").unwrap();
    gone.ask(1, 0, 2 * BLOCK as u32, &pattern(9, 1));
    drop(gone);
    // One that is too large ends its connection.
    let mut large = Disk::open(cluster.nodes[0].nbd, "disk").unwrap();
    large.ask(1, 0, 64 << 20, &[]);
    let mut byte = [0];
    assert_eq!(large.stream.read(&mut byte).unwrap_or(0), 0);
    assert_eq!(good.read(0, BLOCK).unwrap(), vec![0; BLOCK]);
    assert_eq!(good.write(0, &pattern(1, 1)), 0);
}

/// What `carillon volume show` says of a volume at a node, once it is so.
fn shown(node: &Node, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    harness::until(TEST_TIMEOUT, "the volume is shown so", || {
        let (code, text) = node.carillon(&["volume", "show", name, "--json"]);
        let shown: Value = serde_json::from_str(&text).ok()?;
        (code == 0 && is_so(&shown)).then_some(shown)
    })
}

/// Opens a volume at a node as soon as it is known there.
fn opened(node: &Node, name: &str) -> Disk {
    harness::until(TEST_TIMEOUT, "the node serves the volume", || Disk::open(node.nbd, name).ok())
}

#[test]
fn a_clone_shares_its_source_as_of_then_and_is_written_apart() {
    let cluster = prepared("volumes_cloned");
    let run = |words: &[&str]| {
        let (code, text) = cluster.nodes[0].carillon(words);
        assert_eq!(code, 0, "{words:?}: {text}");
        text
    };
    let mut disk = Disk::open(cluster.nodes[0].nbd, "disk").unwrap();
    let old = pattern(1, 16);
    assert_eq!(disk.write(0, &old), 0);
    run(&["volume", "clone", "disk", "copy"]);
    // What the source is given later is not in the clone, neither bytes nor zeroes.
    let new = pattern(2, 20);
    assert_eq!(disk.write(4 * BLOCK as u64, &new), 0);
    assert_eq!(disk.act(TRIM, 0, 2 * BLOCK as u32), 0);
    let mut expected = old.clone();
    expected.resize(SIZE, 0);
    for node in &cluster.nodes {
        let mut copy = opened(node, "copy");
        assert_eq!(copy.size, SIZE as u64);
        assert_eq!(copy.read(0, SIZE).unwrap(), expected);
        assert_eq!(copy.read(5, 9).unwrap(), expected[5..14]);
    }
    // What the clone is given is in the clone alone.
    let (mut copy, mut other) =
        (opened(&cluster.nodes[1], "copy@session=a"), opened(&cluster.nodes[2], "copy@session=a"));
    let own = pattern(3, 3);
    assert_eq!(copy.write(6 * BLOCK as u64, &own), 0);
    expected[6 * BLOCK..9 * BLOCK].copy_from_slice(&own);
    assert_eq!(other.act(TRIM, 10 * BLOCK as u64, 2 * BLOCK as u32), 0);
    assert_eq!(other.act(WRITE_ZEROES, 12 * BLOCK as u64, BLOCK as u32), 0);
    assert_eq!(other.write(13 * BLOCK as u64, &[0; BLOCK]), 0);
    expected[10 * BLOCK..14 * BLOCK].fill(0);
    assert_eq!(copy.read(0, SIZE).unwrap(), expected, "one request merges both");
    assert_eq!(
        other.read(9 * BLOCK as u64 + 7, 5 * BLOCK).unwrap(),
        expected[9 * BLOCK + 7..][..5 * BLOCK]
    );
    let mut of_source = old[2 * BLOCK..4 * BLOCK].to_vec();
    of_source.extend_from_slice(&new);
    assert_eq!(disk.read(2 * BLOCK as u64, of_source.len()).unwrap(), of_source);
    // Many at once.
    (0..100).for_each(|_| copy.ask(0, 0, SIZE as u32, &[]));
    for _ in 0..100 {
        assert_eq!(copy.reply().0, 0);
        let mut bytes = vec![0; SIZE];
        copy.stream.read_exact(&mut bytes).unwrap();
        assert!(bytes == expected);
    }
    // Which blocks are there, as others see it.
    let uri = format!("nbd://{}/copy", cluster.nodes[2].nbd);
    let map = std::process::Command::new("timeout")
        .args(["60", "nbdinfo", "--map=base:allocation", "--totals", "--json", &uri])
        .output()
        .expect("timeout is there");
    let totals: Value = serde_json::from_slice(&map.stdout).expect("it is JSON");
    let data = totals.as_array().unwrap().iter().find(|one| one["type"] == 0).unwrap();
    assert_eq!(data["size"], 12 * BLOCK, "{totals}");

    // A clone of the clone, as of a past time of it; and past times of clones.
    let then = run(&["volume", "snapshot", "copy", "--ttl", "5m"]);
    let then = then.trim();
    let mut before = expected.clone();
    assert_eq!(copy.write(0, &pattern(4, 1)), 0);
    expected[..BLOCK].copy_from_slice(&pattern(4, 1));
    let twin_of = format!("copy@{then}");
    run(&["volume", "clone", &twin_of, "twin"]);
    let mut twin = opened(&cluster.nodes[2], "twin");
    assert_eq!(twin.read(0, SIZE).unwrap(), before);
    assert_eq!(twin.act(TRIM, BLOCK as u64, BLOCK as u32), 0);
    before[BLOCK..2 * BLOCK].fill(0);
    assert_eq!(twin.read(0, SIZE).unwrap(), before);
    before[BLOCK..2 * BLOCK].copy_from_slice(&old[BLOCK..2 * BLOCK]);
    let mut past = opened(&cluster.nodes[1], &twin_of);
    assert_eq!(past.read(0, SIZE).unwrap(), before);
    assert_eq!(copy.read(0, SIZE).unwrap(), expected);

    // Old versions go, and those of clones stay.
    run(&["gc", "--keyspace", "disk"]);
    run(&["gc", "--keyspace", "copy"]);
    assert_eq!(copy.read(0, SIZE).unwrap(), expected);
    assert_eq!(past.read(0, SIZE).unwrap(), before);
    let all = run(&["volume", "list"]);
    assert!(all.contains("CLONE OF") && all.contains("disk@"), "{all}");
    let source = &shown(&cluster.nodes[2], "copy", |_| true)["clone_of"]["volume"];
    assert_eq!(source, "disk");

    // A source outlives its clones, and a clone what needs its source.
    for (words, why) in [
        (&["volume", "delete", "disk"][..], "source of clones: copy;"),
        (&["volume", "flatten", "disk"], "is not a clone"),
        (&["volume", "flatten", "copy"], "snapshots of clone 'copy'"),
        (&["volume", "clone", "disk", "copy"], "already is a keyspace"),
        (&["volume", "clone", "nothing", "new"], "no volume"),
        (&["volume", "clone", "disk@2020-01-01T00:00:00Z", "new"], "are gone"),
        (&["volume", "clone", "disk@2200-01-01T00:00:00Z", "new"], "future"),
        (&["volume", "clone", "disk@yesterday", "new"], "is no time"),
        (&["volume", "clone", "0", "new"], "not a volume"),
    ] {
        let (code, text) = cluster.nodes[0].carillon(words);
        assert!((1..=2).contains(&code) && text.contains(why), "{words:?}: {code} {text}");
    }
    run(&["snapshot", "release", then]);
    let (code, text) = cluster.nodes[0].carillon(&["volume", "flatten", "copy"]);
    assert!((1..=2).contains(&code) && text.contains("source of clones: twin;"), "{code} {text}");
    run(&["volume", "flatten", "twin"]);
    // It is written while it is flattened.
    let own = pattern(5, 1);
    assert_eq!(copy.write(3 * BLOCK as u64, &own), 0);
    expected[3 * BLOCK..4 * BLOCK].copy_from_slice(&own);
    run(&["volume", "flatten", "copy"]);
    for node in &cluster.nodes {
        shown(node, "copy", |shown| shown["clone_of"].is_null());
    }
    run(&["volume", "delete", "disk"]);
    assert_eq!(copy.read(0, SIZE).unwrap(), expected);
    assert_eq!(copy.act(TRIM, 0, BLOCK as u32), 0);
    expected[..BLOCK].fill(0);
    assert_eq!(other.read(0, SIZE).unwrap(), expected);
    before[BLOCK..2 * BLOCK].fill(0);
    assert_eq!(twin.read(0, SIZE).unwrap(), before);
    run(&["volume", "check", "copy"]);
    let (error, text) = Disk::choose(cluster.nodes[1].nbd, "copy@1m ago").err().unwrap();
    assert!(error == 0x8000_0006 && text.contains("that was flattened at"), "{text}");
}
