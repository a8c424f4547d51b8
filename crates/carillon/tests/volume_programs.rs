//! Programs that know nothing of Carillon use volumes of real nodes: libnbd's, qemu's, fio, and
//! those of ext4. `scripts/setup.sh` installs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use harness::cluster::Cluster;
use harness::node::{Node, TEST_TIMEOUT};
use harness::process::{Process, Signal};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
/// How long a program of these may take; beyond it `timeout` ends it.
const PROGRAM_TIMEOUT: &str = "120";
const MIB: u64 = 1 << 20;

/// The way of a program to a volume at a node.
fn uri(node: &Node, volume: &str) -> String {
    format!("nbd://{}/{volume}", node.nbd)
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg(PROGRAM_TIMEOUT).args(words);
    command
}

/// Runs a program: whether it succeeded, and what it printed.
fn run(words: &[&str]) -> (bool, String) {
    let out = command(words).output().expect("timeout is there");
    assert_ne!(out.status.code(), Some(127), "scripts/setup.sh installs {}", words[0]);
    let text = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (out.status.success(), text.concat())
}

#[track_caller]
fn succeeds(words: &[&str]) -> String {
    let (is_done, text) = run(words);
    assert!(is_done, "{words:?}: {text}");
    text
}

/// qemu-io's commands, one after the other, on a volume.
fn qemu_io(uri: &str, commands: &[&str]) -> (bool, String) {
    let mut words = vec!["qemu-io", "-f", "raw"];
    commands.iter().for_each(|command| words.extend(["-c", command]));
    words.push(uri);
    run(&words)
}

/// Bytes that nothing compresses or takes for zeroes, the same each time.
fn random_file(path: &Path, bytes: u64) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let bytes: Vec<u8> = (0..bytes / 8).flat_map(|_| next().to_le_bytes()).collect();
    fs::write(path, bytes).expect("the directory can be written");
}

/// Three nodes with a volume of so many bytes, which all of them serve.
fn prepared(name: &str, bytes: u64) -> (Cluster, PathBuf) {
    let cluster = Cluster::start(PROGRAM, name, 3, &[], &["0"]);
    let size = bytes.to_string();
    let words = ["volume", "create", "disk", "--size", &size, "--replicas", "3"];
    let (code, text) = cluster.nodes[0].carillon(&words);
    assert_eq!(code, 0, "{text}");
    cluster.nodes.iter().for_each(wait_until_it_serves);
    cluster.wait_until_replicated("disk", 3);
    let dir = cluster.nodes[0].dir().parent().expect("of the cluster").to_owned();
    (cluster, dir)
}

#[track_caller]
fn wait_until_it_serves(node: &Node) {
    harness::until(TEST_TIMEOUT, "the node serves the volume", || {
        qemu_io(&uri(node, "disk"), &["read 0 4k"]).0.then_some(())
    });
}

/// The bytes of blocks that are written, as the node's own replicas have them: one that follows
/// may be a few entries behind.
fn written(node: &Node) -> u64 {
    let (_, text) = node.carillon(&["volume", "show", "disk", "--json"]);
    let shown: Value = serde_json::from_str(&text).expect("it is JSON");
    shown["written_bytes"].as_u64().expect("it is a number")
}

#[track_caller]
fn wait_until_written(node: &Node, bytes: u64) {
    harness::until(TEST_TIMEOUT, "the node has all writes", || {
        (written(node) == bytes).then_some(())
    });
}

#[test]
fn programs_read_what_they_wrote_and_are_told_what_cannot_be() {
    let (cluster, dir) = prepared("volume_programs", 16 * MIB);
    let [first, other] = [0, 1].map(|number| uri(&cluster.nodes[number], "disk"));

    let info: Value = serde_json::from_str(&succeeds(&["nbdinfo", "--json", &first])).unwrap();
    let export = &info["exports"][0];
    assert_eq!(info["protocol"], "newstyle-fixed", "{info}");
    assert_eq!(export["export-size"], 16 * MIB, "{info}");
    for (size, bytes) in [("minimum", 4096), ("preferred", 4096), ("maximum", 32 * MIB)] {
        assert_eq!(export[format!("block_size_{size}")], bytes, "{info}");
    }
    for can in ["can_multi_conn", "can_fua", "can_flush", "can_trim", "can_zero", "can_cache"] {
        assert_eq!(export[can], true, "{can}: {info}");
    }
    assert_eq!(export["is_read_only"], false, "{info}");
    assert_eq!(export["contexts"][0], "base:allocation", "{info}");
    let list = succeeds(&["nbdinfo", "--list", &format!("nbd://{}", cluster.nodes[2].nbd)]);
    assert!(list.contains("export=\"disk\""), "{list}");
    let (is_done, text) = run(&["nbdinfo", &uri(&cluster.nodes[0], "nothing")]);
    assert!(!is_done && text.contains("No such file or directory"), "{text}");

    // Patterns: with and without flush, at the end, zeroes over data, and what was trimmed.
    let writes = [
        "write -P 0xa1 0 64k",
        "write -f -P 0xb2 1M 1M",
        "aio_write -P 0xc3 2M 3M",
        "aio_flush",
        "write -P 0xd4 16773120 4k",
        "flush",
        "write -z 32k 8k",
        "discard 1M 64k",
    ];
    let (is_done, text) = qemu_io(&first, &writes);
    assert!(is_done, "{text}");
    let reads = [
        "read -P 0xa1 0 32k",
        "read -P 0 32k 8k",
        "read -P 0xa1 40k 24k",
        "read -P 0 64k 960k",
        "read -P 0 1M 64k",
        "read -P 0xb2 1114112 983040",
        "read -P 0xc3 2M 3M",
        "read -P 0xc3 2097157 12345",
        "read -P 0 5M 10M",
        "read -P 0xd4 16773120 4k",
    ];
    let (is_done, text) = qemu_io(&other, &reads);
    assert!(is_done && !text.contains("Pattern verification failed"), "{text}");
    let (_, text) = qemu_io(&other, &["read -P 0xa2 0 4k"]);
    assert!(text.contains("Pattern verification failed"), "a wrong pattern is seen: {text}");
    // qemu reads, changes and writes what is no whole block.
    let (is_done, text) = qemu_io(&other, &["write -P 0xe5 100 10", "read -P 0xe5 100 10"]);
    assert!(is_done && !text.contains("failed"), "{text}");
    let (_, text) = qemu_io(&other, &["read -P 0xa1 0 100", "read -P 0xa1 110 3986"]);
    assert!(!text.contains("failed"), "{text}");

    // What is there, as others see it.
    let map = succeeds(&["nbdinfo", "--map", "--json", &other]);
    let map: Value = serde_json::from_str(&map).unwrap();
    let there: Vec<(u64, u64)> = map
        .as_array()
        .unwrap()
        .iter()
        .filter(|extent| extent["type"] == 0)
        .map(|extent| (extent["offset"].as_u64().unwrap(), extent["length"].as_u64().unwrap()))
        .collect();
    let k = 1 << 10;
    let expected = [
        (0, 32 * k),
        (40 * k, 24 * k),
        (MIB + 64 * k, MIB - 64 * k + 3 * MIB),
        (16 * MIB - 4096, 4096),
    ];
    assert_eq!(there, expected, "{map}");
    let bytes = expected.iter().map(|(_, length)| length).sum::<u64>();
    wait_until_written(&cluster.nodes[2], bytes);

    // A copy that skips holes is equal; and one that has changed is not.
    let image = dir.join("image").display().to_string();
    succeeds(&["qemu-img", "convert", "-f", "raw", "-O", "raw", &first, &image]);
    succeeds(&["qemu-img", "compare", "-f", "raw", "-F", "raw", &image, &other]);
    succeeds(&["qemu-io", "-f", "raw", "-c", "write -P 7 8M 4k", &image]);
    assert!(!run(&["qemu-img", "compare", "-f", "raw", "-F", "raw", &image, &other]).0);

    // Many requests at once, verified by checksums.
    let at = format!("--uri={first}");
    succeeds(&[
        "fio",
        "--name=verified",
        "--ioengine=nbd",
        &at,
        "--rw=randrw",
        "--bs=4k",
        "--iodepth=32",
        "--size=4M",
        "--verify=crc32c",
        "--verify_fatal=1",
        // Else it leaves a file where it runs.
        "--verify_state_save=0",
        "--fsync=64",
    ]);
    let all = "0 16M";
    let (is_done, text) =
        qemu_io(&first, &[&format!("write -z {all}"), &format!("read -P 0 {all}")]);
    assert!(is_done && !text.contains("failed"), "{text}");
    wait_until_written(&cluster.nodes[1], 0);
}

#[test]
fn copies_are_whole_though_nodes_are_killed_and_added() {
    let (mut cluster, dir) = prepared("volume_copies", 32 * MIB);
    let path = |name: &str| dir.join(name).display().to_string();
    let (image, back) = (path("image"), path("back"));
    random_file(Path::new(&image), 24 * MIB);

    // A node is killed in the middle of a copy.
    let first = uri(&cluster.nodes[0], "disk");
    let slowly = ["nbdcopy", "--request-size=65536", "--requests=8", "--connections=2"];
    let copy = command(&[&slowly[..], &["--flush", &image, &first]].concat());
    let mut copy = Process::start(copy, Path::new(&path("log"))).expect("nbdcopy starts");
    harness::until(TEST_TIMEOUT, "a part is copied", || {
        (written(&cluster.nodes[0]) > 2 * MIB).then_some(())
    });
    cluster.nodes[2].kill();
    assert!(written(&cluster.nodes[0]) < 20 * MIB, "the kill is in the middle");
    let status = copy.wait_for(Duration::from_secs(120)).expect("the copy ends");
    assert!(status.success(), "nbdcopy has failed: {}", copy.last_words());

    // Another one joins, and serves at once.
    cluster.nodes.push(Node::new(PROGRAM, &dir, "n3"));
    let join = cluster.nodes[0].peer.to_string();
    cluster.nodes[3].start(&["--join", &join]);
    wait_until_it_serves(&cluster.nodes[3]);
    for number in [1, 3] {
        let _none = fs::remove_file(&back);
        succeeds(&["nbdcopy", &uri(&cluster.nodes[number], "disk"), &back]);
        let (image, back) = (fs::read(&image).unwrap(), fs::read(&back).unwrap());
        assert!(back[..image.len()] == image[..], "node {number} gives other bytes back");
        assert!(back[image.len()..].iter().all(|byte| *byte == 0), "the rest is zeroes");
    }

    // A file system is there after all nodes were killed at once.
    fs::remove_file(&image).unwrap();
    let files = dir.join("files");
    fs::create_dir(&files).unwrap();
    (1..=20).for_each(|number| random_file(&files.join(format!("file-{number}")), number * 16_384));
    succeeds(&["mke2fs", "-q", "-t", "ext4", "-d", files.to_str().unwrap(), &image, "32M"]);
    succeeds(&["nbdcopy", "--flush", &image, &first]);
    cluster.nodes.iter_mut().filter(|node| node.is_on()).for_each(Node::kill);
    cluster.nodes.iter_mut().for_each(|node| node.start(&[]));
    wait_until_it_serves(&cluster.nodes[2]);
    fs::remove_file(&back).unwrap();
    succeeds(&["nbdcopy", &uri(&cluster.nodes[2], "disk"), &back]);
    succeeds(&["e2fsck", "-f", "-n", &back]);
    assert!(fs::read(&image).unwrap() == fs::read(&back).unwrap(), "an other file system");
}

/// nbdcopy is stopped while it writes by four connections, and goes on when another program has
/// taken the volume: it fails, and nothing of what it still sends is written.
#[test]
fn stopped_program_writes_nothing_once_another_has_the_volume() {
    let (cluster, dir) = prepared("volume_stopped", 32 * MIB);
    let (image, log) = (dir.join("image").display().to_string(), dir.join("log"));
    random_file(Path::new(&image), 32 * MIB);
    let mut copy = Command::new("nbdcopy");
    copy.args(["--request-size=65536", "--requests=8", "--connections=4", "--threads=4", &image]);
    copy.arg(uri(&cluster.nodes[0], "disk"));
    let mut copy = Process::start(copy, &log).expect("nbdcopy starts");
    harness::until(TEST_TIMEOUT, "a part is copied", || {
        (written(&cluster.nodes[0]) > MIB).then_some(())
    });
    copy.signal(Signal::Stop).expect("it runs");
    assert!(copy.ended().expect("it is ours").is_none(), "the stop is in the middle");
    let all = ["write -P 0xaa 0 16M", "write -P 0xaa 16M 16M", "flush"];
    let (is_done, text) = qemu_io(&uri(&cluster.nodes[1], "disk"), &all);
    assert!(is_done && !text.contains("failed"), "{text}");
    copy.signal(Signal::Continue).expect("it is stopped");
    let status = copy.wait_for(Duration::from_secs(60)).expect("the copy ends");
    let why = copy.last_words();
    assert!(!status.success() && why.contains("Operation not permitted"), "{status}: {why}");
    for node in &cluster.nodes {
        let reads = ["read -P 0xaa 0 16M", "read -P 0xaa 16M 16M"];
        let (is_done, text) = qemu_io(&uri(node, "disk"), &reads);
        assert!(is_done && !text.contains("failed"), "{text}");
    }
    // It may begin anew.
    succeeds(&["nbdcopy", "--connections=4", &image, &uri(&cluster.nodes[0], "disk")]);
    let back = dir.join("back").display().to_string();
    succeeds(&["nbdcopy", "--connections=4", &uri(&cluster.nodes[2], "disk"), &back]);
    assert!(fs::read(&image).unwrap() == fs::read(&back).unwrap(), "another disk");
}
