//! Directories that an older version has written open unchanged: `dd18d75.tar.xz` holds those of a
//! node alone and of three nodes, all killed while they had writes in their logs behind their
//! checkpoints, made by the commit of that name.
//!
//! They hold, in the keyspace 0, `k0` to `k199` as [`expected`] says, and `o0` to `o99`, `l0` to
//! `l99` in an ordered keyspace and in one of linear hashing. In the lone node's the ordered one
//! was split at `o50`, and `MSET`s over several shards are in all logs.

use std::path::Path;
use std::process::Command;

use client::http::GetResult;
use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Directory;

const BINARY: &str = env!("CARGO_BIN_EXE_carillon");
/// The year 2100.
const FAR: &str = ":4102444800";

/// Unpacks both.
fn unpacked(name: &str) -> Directory {
    let dir = Directory::new(name).unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older/dd18d75.tar.xz");
    let mut tar = Command::new("tar");
    let status = tar.arg("-xJf").arg(archive).arg("-C").arg(dir.path()).status().unwrap();
    assert!(status.success(), "tar and xz are needed");
    dir
}

/// The value of a key of keyspace 0.
fn expected(number: usize) -> Option<String> {
    match (number, number % 10) {
        (20 | 30 | 40 | 50 | 60 | 70 | 80, _) => Some(format!("t{number}")),
        (_, 0) => None,
        (_, 2) => Some(format!("v{number}-more")),
        (_, 3) => Some(format!("again{number}")),
        _ => Some(format!("v{number}")),
    }
}

fn assert_holds_all(node: &Node) {
    let mut talk = node.connect();
    for number in 0..200 {
        let line = talk.ask_line(&format!("GET k{number}")).unwrap().line();
        assert_eq!(line, expected(number).unwrap_or("nil".into()), "k{number}");
        let line = talk.ask_line(&format!("EXPIRETIME k{number}")).unwrap().line();
        assert_eq!(line == FAR, number % 10 == 1, "k{number} ends: {line}");
    }
    assert_eq!(talk.ask_line("GET churn").unwrap().line(), "end");
    for (keyspace, letter) in [("ordered", 'o'), ("linear", 'l')] {
        for number in 0..100 {
            let key = format!("{letter}{number}");
            let got = node.client().get(keyspace, key.as_bytes(), None).unwrap();
            let holds = matches!(&got, GetResult::Value { value, .. } if value == key.as_bytes());
            assert!(holds, "{keyspace} {key}: {got:?}");
        }
    }
}

/// Writes, and waits until that is done: after a start, a shard may have no leader yet.
fn write(node: &Node) {
    harness::until(TEST_TIMEOUT, "a write is done", || {
        let reply = node.connect().ask_line("MSET k20 t20 k30 t30 k200 new").ok()?.line();
        (reply == "+OK").then_some(())
    });
}

#[test]
fn directory_of_older_single_node_opens() {
    let dir = unpacked("older-one");
    let mut node = Node::new(BINARY, dir.path(), "one");
    // Twice: what this version wrote opens, too.
    for _ in 0..2 {
        node.start(&["--merge-bytes", "off"]);
        node.wait_until_ready();
        assert_holds_all(&node);
        write(&node);
        node.kill();
    }
}

#[test]
fn directories_of_three_older_nodes_open() {
    let dir = unpacked("older-three");
    let three = dir.path().join("three");
    let mut nodes = ["n0", "n1", "n2"].map(|name| Node::new(BINARY, &three, name));
    let peers: Vec<String> = nodes.iter().map(|node| node.peer.to_string()).collect();
    for node in &mut nodes {
        node.start(&["--merge-bytes", "off", "--join", &peers.join(",")]);
    }
    nodes.iter_mut().for_each(Node::wait_until_ready);
    write(&nodes[0]);
    nodes.iter().for_each(assert_holds_all);
}
