//! Several nodes that form one store, in one directory.

use client::http::Request;
use serde_json::Value;

use crate::node::{Node, TEST_TIMEOUT};
use crate::process::Directory;
use crate::until;

/// Nodes with a directory, killed and removed when they are dropped.
pub struct Cluster {
    /// The nodes, of which the first founded the cluster. Before their directory: dropped first.
    pub nodes: Vec<Node>,
    _dir: Directory,
}

impl Cluster {
    /// Starts so many nodes of this program with these flags, one after the other. Each takes
    /// writes of all shards of these keyspaces.
    #[track_caller]
    pub fn start(
        program: &str,
        name: &str,
        count: usize,
        flags: &[&str],
        keyspaces: &[&str],
    ) -> Self {
        let dir = Directory::new(name).expect("a directory can be made");
        dir.write_secret().expect("the directory can be written");
        let node = |number| Node::new(program, dir.path(), &format!("n{number}"));
        let mut cluster = Self { nodes: (0..count).map(node).collect(), _dir: dir };
        for number in 0..count {
            let first = cluster.nodes[0].peer.to_string();
            let join = if number > 0 { &["--join", &first][..] } else { &[] };
            cluster.nodes[number].start(&[flags, join].concat());
            keyspaces
                .iter()
                .for_each(|keyspace| cluster.wait_until_it_takes_writes(number, keyspace));
        }
        cluster
    }

    /// Waits until a node takes writes of all shards of a keyspace.
    #[track_caller]
    pub fn wait_until_it_takes_writes(&self, number: usize, keyspace: &str) {
        until(TEST_TIMEOUT, &format!("node {number} takes writes of {keyspace}"), || {
            let mut connection = self.nodes[number].try_connect().ok()?;
            // Refused while the node does not know the keyspace; writes would go to another one.
            let selected = connection.ask(&["SELECT", keyspace]).ok()?;
            (selected.text() == "OK").then_some(())?;
            let done = |key| connection.ask(&["SET", &format!("ready-{key}"), "1"]);
            let replies = (0..64).map(done).collect::<Result<Vec<_>, _>>().ok()?;
            replies.iter().all(|reply| reply.text() == "OK").then_some(())
        });
    }

    /// Waits until all shards of a keyspace have so many replicas: a single one dies with its node.
    #[track_caller]
    pub fn wait_until_replicated(&self, keyspace: &str, replicas: u64) {
        until(TEST_TIMEOUT, &format!("{keyspace} has {replicas} replicas"), || {
            let page = format!("/v1/shards?keyspace={keyspace}&scope=cluster");
            let reply = self.nodes[0].client().send(&Request::get(&page)).ok()?;
            let page: Value = serde_json::from_slice(&reply.body).ok()?;
            let shards = page["shards"].as_array()?;
            let is_placed = |shard: &Value| {
                shard["voters"] == replicas
                    && shard["changing"] == false
                    && shard["told_by"] == shard["leader"]
            };
            (!shards.is_empty() && shards.iter().all(is_placed)).then_some(())
        });
    }
}
