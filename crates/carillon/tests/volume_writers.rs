//! Who writes to a volume, by real processes: one session does, and one that comes later takes the
//! volume from it, while buckets are split and merged, and when memory is full.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use harness::cluster::Cluster;
use harness::nbd::{Disk, NO_SPACE, PERM, TRIM, WRITE_ZEROES};
use harness::node::{Node, TEST_TIMEOUT};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const BLOCK: usize = 4096;
/// Blocks of the volume.
const BLOCKS: usize = 256;

fn block(seed: usize) -> Vec<u8> {
    (0..BLOCK).map(|at| ((at / 7) * 31 + seed * 17 + at) as u8 | 1).collect()
}

fn at(number: usize) -> u64 {
    (number * BLOCK) as u64
}

/// Three nodes with volumes of these names and options.
fn prepared(name: &str, volumes: &[(&str, &[&str])]) -> Cluster {
    let cluster = Cluster::start(PROGRAM, name, 3, &[], &["0"]);
    for (volume, options) in volumes {
        let words = ["volume", "create", volume, "--size", "1MiB", "--replicas", "3"];
        let (code, text) = cluster.nodes[0].carillon(&[&words[..], options].concat());
        assert_eq!(code, 0, "{text}");
        for node in &cluster.nodes {
            harness::until(TEST_TIMEOUT, "the node serves the volume", || {
                Disk::open(node.nbd, volume).ok()?.read(0, BLOCK).ok()
            });
        }
        cluster.wait_until_replicated(volume, 3);
    }
    cluster
}

#[test]
fn later_session_takes_the_volume_and_the_one_before_writes_nothing() {
    let cluster = prepared("volume_writers", &[("disk", &[]), ("common", &["--shared"])]);
    let open = |number: usize, export: &str| Disk::open(cluster.nodes[number].nbd, export).unwrap();

    // Who reads takes it from nobody; who was there before cannot take it.
    let (mut first, mut early) = (open(0, "disk"), open(2, "disk"));
    assert_eq!(first.write(0, &block(1)), 0);
    let mut reader = open(2, "disk");
    assert_eq!(reader.read(0, BLOCK).unwrap(), block(1));
    assert_eq!(first.write(at(1), &block(2)), 0, "a reader fences nobody off");
    let mut second = open(1, "disk");
    assert_eq!(second.write(at(1), &block(3)), 0);
    for _ in 0..2 {
        assert_eq!(first.write(at(1), &block(4)), PERM);
        assert_eq!(first.act(TRIM, at(1), BLOCK as u32), PERM);
        assert_eq!(first.act(WRITE_ZEROES, 0, BLOCK as u32), PERM);
    }
    assert_eq!(early.write(0, &block(5)), PERM, "it has come before the one that writes");
    assert_eq!(first.read(0, 2 * BLOCK).unwrap(), [block(1), block(3)].concat(), "it may read");
    let mut third = open(0, "disk");
    assert_eq!(third.write(0, &block(6)), 0);
    assert_eq!(second.write(0, &block(7)), PERM);

    // Connections of one client, before its first write, are one session.
    let mut several: Vec<Disk> = (0..4).map(|_| open(2, "disk")).collect();
    for round in 0..3 {
        for (number, disk) in several.iter_mut().enumerate() {
            assert_eq!(disk.write(at(number), &block(10 * round + number)), 0);
        }
    }
    assert_eq!(third.write(0, &block(8)), PERM);

    // So are those of a name, at any node; the volume is theirs with the first request.
    let (mut one, mut two) = (open(0, "disk@session=a"), open(1, "disk@session=a"));
    for round in 0..3 {
        assert_eq!(one.write(0, &block(round)), 0);
        assert_eq!(two.read(0, BLOCK).unwrap(), block(round));
        assert_eq!(two.write(at(1), &block(round)), 0);
    }
    assert_eq!(several[2].write(0, &block(9)), PERM);
    let mut other = open(2, "disk@session=b");
    assert_eq!(other.read(0, BLOCK).unwrap(), block(2));
    assert_eq!(one.write(0, &block(9)), PERM);
    let mut again = open(1, "disk@session=a");
    assert_eq!(again.write(0, &block(20)), 0);
    assert_eq!(two.write(0, &block(9)), PERM, "another session has had it since it came");
    assert_eq!(other.write(0, &block(9)), PERM);
    assert_eq!(reader.read(0, BLOCK).unwrap(), block(20));

    for (export, why) in [
        ("disk@session=", "1 to 255 bytes"),
        (&format!("disk@session={}", "a".repeat(256)), "1 to 255 bytes"),
        ("nothing@session=a", "no volume has this name"),
    ] {
        let (error, text) = Disk::choose(cluster.nodes[0].nbd, export).err().unwrap();
        assert!(error == 0x8000_0006 && text.contains(why), "{export}: {error:x} {text}");
    }

    // All write to what is shared.
    let mut all: Vec<Disk> = (0..3).map(|number| open(number, "common")).collect();
    for round in 0..3 {
        for (number, disk) in all.iter_mut().enumerate() {
            assert_eq!(disk.write(at(number), &block(10 * round + number)), 0);
        }
    }
    assert_eq!(all[0].act(TRIM, at(1), BLOCK as u32), 0);
    let expected = [block(20), vec![0; BLOCK], block(22)].concat();
    assert_eq!(all[2].read(0, 3 * BLOCK).unwrap(), expected);
    for (volume, is_shared) in [("disk", false), ("common", true)] {
        let (_, text) = cluster.nodes[1].carillon(&["volume", "show", volume, "--json"]);
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["shared"], is_shared, "{shown}");
    }
}

/// The writer is still the writer after a kill of all nodes, also of its own connections' node.
#[test]
fn fence_survives_kills_of_all_nodes() {
    let mut cluster = prepared("volume_fence_killed", &[("disk", &[])]);
    let mut disk = Disk::open(cluster.nodes[0].nbd, "disk@session=a").unwrap();
    assert_eq!(disk.write(0, &block(1)), 0);
    cluster.nodes.iter_mut().for_each(Node::kill);
    cluster.nodes.iter_mut().for_each(|node| node.start(&[]));
    harness::until(TEST_TIMEOUT, "the volume can be read", || {
        Disk::open(cluster.nodes[1].nbd, "disk").ok()?.read(0, BLOCK).ok()
    });
    let mut other = Disk::open(cluster.nodes[1].nbd, "disk@session=b").unwrap();
    let mut disk = Disk::open(cluster.nodes[2].nbd, "disk@session=a").unwrap();
    assert_eq!(other.write(at(1), &block(2)), 0);
    assert_eq!(disk.write(at(1), &block(3)), 0, "it has come later");
    assert_eq!(other.write(at(1), &block(4)), PERM);
}

/// Sessions take the volume from each other while its buckets are split and merged: every block is
/// as the last who had it has left it, and nobody before writes.
#[test]
fn blocks_are_whole_while_buckets_split_and_merge() {
    let cluster = prepared("volume_buckets", &[("disk", &[])]);
    let done = AtomicBool::new(false);
    let shards = || -> Vec<u64> {
        let (code, text) = cluster.nodes[0].carillon(&["shards", "--keyspace", "disk", "--json"]);
        assert_eq!(code, 0, "{text}");
        let all: Value = serde_json::from_str(&text).unwrap();
        let all = all["shards"].as_array().unwrap_or_else(|| panic!("{all}"));
        all.iter().map(|shard| shard["id"].as_u64().unwrap()).collect()
    };
    let (mut most, mut merges) = (0, 0);
    std::thread::scope(|scope| {
        let writers = scope.spawn(|| {
            let mut expected = vec![vec![0; BLOCK]; BLOCKS];
            let mut before: Option<Disk> = None;
            let mut round = 0;
            while !done.load(Ordering::Relaxed) || round < 20 {
                round += 1;
                let node = &cluster.nodes[round % 3];
                let mut disk = Disk::open(node.nbd, "disk").unwrap();
                assert_eq!(disk.read(0, BLOCK * BLOCKS).unwrap(), expected.concat(), "{round}");
                for (number, expected) in expected.iter_mut().enumerate() {
                    let new = if (number + round).is_multiple_of(5) {
                        vec![0; BLOCK]
                    } else {
                        block(number + 1_000 * round)
                    };
                    disk.ask(1, at(number), BLOCK as u32, &new);
                    *expected = new;
                }
                (0..BLOCKS).for_each(|_| assert_eq!(disk.reply().0, 0, "{round}"));
                // Who had the volume before goes on, in all buckets.
                if let Some(before) = &mut before {
                    for number in (0..BLOCKS).step_by(7) {
                        assert_eq!(before.write(at(number), &block(7)), PERM, "{round}");
                    }
                }
                before = Some(disk);
            }
            (expected, round)
        });
        let asks = |what: &str, shard: u64| {
            (0..3).any(|node| {
                let (code, _) = cluster.nodes[node].carillon(&[what, &shard.to_string()]);
                code == 0
            })
        };
        for turn in 0..24 {
            let what = if turn % 8 < 5 { "split" } else { "merge" };
            // Of all buckets one has its turn.
            let asked = shards().into_iter().filter(|shard| asks(what, *shard)).count();
            merges += if what == "merge" { asked } else { 0 };
            std::thread::sleep(Duration::from_millis(500));
            most = most.max(shards().len());
        }
        done.store(true, Ordering::Relaxed);
        let (expected, rounds) = writers.join().expect("all writes are as they should be");
        println!("{rounds} rounds, {most} buckets, {merges} merges");
        let mut disk = Disk::open(cluster.nodes[0].nbd, "disk").unwrap();
        assert_eq!(disk.read(0, BLOCK * BLOCKS).unwrap(), expected.concat());
    });
    assert!(most > 3 && merges > 0, "{most} buckets, {merges} merges");
}

#[test]
fn full_memory_refuses_writes_and_the_volume_goes_on() {
    let flags = ["--memory-max", "48MiB", "--retention-ms", "0"];
    let node = Node::alone_and_ready(PROGRAM, "volume_full", &flags);
    let (code, text) = node.carillon(&["volume", "create", "disk", "--size", "1GiB"]);
    assert_eq!(code, 0, "{text}");
    let mut disk = harness::until(TEST_TIMEOUT, "the node serves the volume", || {
        Disk::open(node.nbd, "disk").ok().filter(|disk| disk.size == 1 << 30)
    });
    let mut written = 0;
    let refused = (0..1 << 18).find(|number| {
        let error = disk.write(at(*number), &block(*number));
        written += usize::from(error == 0);
        assert!(error == 0 || error == NO_SPACE, "{number}: {error}");
        error == NO_SPACE
    });
    let refused = refused.expect("the memory becomes full");
    println!("{written} blocks were written");
    assert_eq!(disk.read(at(refused), BLOCK).unwrap(), vec![0; BLOCK], "nothing was done");
    for number in (0..written).step_by(97) {
        assert_eq!(disk.read(at(number), BLOCK).unwrap(), block(number), "{number}");
    }
    // Zeroes take no room, and give some back; another session can take the volume.
    let mut disk = Disk::open(node.nbd, "disk").unwrap();
    let half = (written / 2 * BLOCK) as u32;
    assert_eq!(disk.act(TRIM, 0, half), 0);
    harness::until(TEST_TIMEOUT, "there is room again", || {
        (disk.write(at(refused), &block(refused)) == 0).then_some(())
    });
    assert_eq!(disk.read(at(refused), BLOCK).unwrap(), block(refused));
    assert_eq!(disk.read(0, BLOCK).unwrap(), vec![0; BLOCK]);
    assert_eq!(disk.read(at(written - 1), BLOCK).unwrap(), block(written - 1));
}
