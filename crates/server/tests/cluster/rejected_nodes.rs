//! Nodes that a cluster does not accept: wrong secret, another cluster's directory, a removed node,
//! a second process on one directory. Each is logged with its reason.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use server::cluster::{ClusterError, Options};
use server::peer::Secret;

use crate::common::{
    Node, TEST_TIMEOUT, all_know_all, cluster, eventually, founder, join, options, start, start_on,
};

/// Waits until a node says these words of its seeds.
fn says(node: &Node, words: &str) {
    eventually(words, || node.cluster.seeds_shown().contains(words));
}

#[test]
fn wrong_secret_is_logged_and_retried() {
    let first = start("first", &[], founder(7, 1));
    let strange =
        Options { secret: Secret::new(b"another"), ..options("second", &[&first.address]) };
    let second = start_on(0, strange, None);
    says(&second, "wrong secret");
    says(&second, "--peer-secret-file");
    let asked = Instant::now();
    let asked_long_enough = || asked.elapsed() > Duration::from_millis(300);
    assert_eq!(second.cluster.wait_for_identity(asked_long_enough), None);
    assert!(!second.ended.load(Ordering::Acquire) && second.cluster.fatal().is_none());
    assert_eq!(first.up(), [first.id()]);
    assert_eq!(first.cluster.members().len(), 1, "a stranger is no member");
}

#[test]
fn start_ends_if_directory_belongs_to_another_cluster() {
    let first = start("first", &[], founder(7, 1));
    let second = start("second", &[&first.address], founder(8, 2));
    eventually("an end", || second.ended.load(Ordering::Acquire));
    let (address, here, there) = (first.address.clone(), 8, 7);
    let error = ClusterError::WrongCluster { address, here, there };
    assert_eq!(second.cluster.fatal(), Some(&error));
    assert!(error.to_string().contains("empty directory"));
    assert_eq!(first.cluster.members().len(), 1);
}

/// The other nodes tell it when they cut its link, and again when it connects later.
#[test]
fn removed_node_ends_and_is_forgotten() {
    let mut nodes = cluster(3);
    all_know_all(&nodes.iter().map(|(node, _)| node).collect::<Vec<_>>());
    let (removed, identity) = nodes.pop().unwrap();
    let removed_id = removed.id();
    for (node, _) in &nodes {
        node.cluster.set_removed(BTreeSet::from([removed_id]));
        assert!(node.sees(removed_id).is_none(), "no member, at once");
    }
    eventually("an end", || removed.ended.load(Ordering::Acquire));
    let error = ClusterError::Removed { node: removed_id };
    assert_eq!(removed.cluster.fatal(), Some(&error));
    drop(removed);
    let again = start("again", &[&nodes[1].0.address], identity);
    eventually("another end", || again.ended.load(Ordering::Acquire));
    assert_eq!(again.cluster.fatal(), Some(&error));
    for (node, _) in &nodes {
        assert!(node.sees(removed_id).is_none() && !node.cluster.is_connected(removed_id));
        assert!(!node.ended.load(Ordering::Acquire));
    }
    // A node that learns of its removal from its own catalogue ends without any refusal.
    let (last, _) = nodes.pop().unwrap();
    last.cluster.set_removed(BTreeSet::from([last.id()]));
    assert!(last.ended.load(Ordering::Acquire));
}

#[test]
fn start_logs_unreachable_seed_and_waits() {
    // A port that was free a moment ago.
    let (port, nowhere) = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (address.port(), address.to_string())
    };
    let second = start_on(0, options("second", &[&nowhere, "no-such-host.invalid:7600"]), None);
    says(&second, &format!("{nowhere}: no node answers (Connection refused"));
    says(&second, "no-such-host.invalid:7600: no node answers (cannot look up");
    let first = start_on(port, options("first", &[]), Some(founder(7, 1)));
    let until = Instant::now() + TEST_TIMEOUT;
    let identity = second.cluster.wait_for_identity(|| Instant::now() > until).expect("joined");
    assert_eq!(identity.cluster, founder(7, 1).cluster);
    second.cluster.begin();
    all_know_all(&[&first, &second]);
}

#[test]
fn two_joining_nodes_report_that_neither_has_a_cluster() {
    let one = start_on(0, options("one", &["127.0.0.1:1"]), None);
    let two = start_on(0, options("two", &[&one.address]), None);
    says(&two, "neither node belongs to a cluster");
}

#[test]
fn second_process_of_node_ends_and_first_goes_on() {
    let first = start("first", &[], founder(7, 1));
    let (second, identity) = join("second", &[&first.address]);
    all_know_all(&[&first, &second]);
    let copy = start("copy", &[&first.address], identity);
    says(&copy, "does a second one run on the same directory");
    assert!(!copy.ended.load(Ordering::Acquire), "the other may have died a moment ago");
    eventually("an end", || copy.ended.load(Ordering::Acquire));
    let error = copy.cluster.fatal().unwrap();
    assert!(matches!(error, ClusterError::SameNodeTwice { node, .. } if *node == identity.node));
    all_know_all(&[&first, &second]);
    assert_eq!(second.cluster.counters().refutations, 0);
}
