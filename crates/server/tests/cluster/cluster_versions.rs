//! Cluster versions in the handshake: which nodes are refused as too old or too new, and which end.

use std::sync::atomic::Ordering;

use keyspace::{ClusterVersion, NodeId, VersionRange};
use server::cluster::{ClusterError, Identity, Options};

use crate::common::{Node, all_know_all, eventually, founder, join, options, start, start_on};

fn version(number: u8) -> ClusterVersion {
    ClusterVersion::new(number).unwrap()
}

/// A node that supports these cluster versions.
fn supporting(lowest: u8, highest: u8, seed: &str, identity: Option<Identity>) -> Node {
    let supported = VersionRange::new(version(lowest), version(highest)).unwrap();
    let name = format!("supports {lowest} to {highest}");
    start_on(0, Options { supported, ..options(&name, &[seed]) }, identity)
}

/// It must end, for the cluster has this version.
fn ends(node: &Node, at: u8) {
    eventually("an end", || node.ended.load(Ordering::Acquire));
    match node.cluster.fatal() {
        Some(ClusterError::UnsupportedVersion(unsupported)) => {
            assert_eq!(unsupported.version, version(at))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_learn_versions_that_others_support() {
    let first = start("first", &[], founder(7, 1));
    let old = supporting(1, 1, &first.address, Some(founder(7, 2)));
    all_know_all(&[&first, &old]);
    let reported = |by: &Node, of: &Node| by.sees(of.id()).map(|member| member.supported);
    assert_eq!(reported(&first, &old), Some(VersionRange::BEFORE));
    assert_eq!(reported(&old, &first), Some(VersionRange::OURS));
}

/// Either side may dial; a member that was down while the version rose, or a node that would join.
#[test]
fn node_too_old_for_cluster_version_ends() {
    let first = start("first", &[], founder(7, 1));
    first.cluster.set_cluster_version(version(2));
    let member = supporting(1, 1, &first.address, Some(founder(7, 2)));
    ends(&member, 2);
    let stranger = supporting(1, 1, &first.address, None);
    ends(&stranger, 2);
    let text = stranger.cluster.fatal().unwrap().to_string();
    assert!(text.contains("version 2, and this program supports 1 only"), "{text}");
    // Another is reported the version by who dials it.
    let dialled = supporting(1, 1, "127.0.0.1:1", Some(founder(7, 3)));
    let dialler = supporting(1, 2, &dialled.address, Some(founder(7, 4)));
    dialler.cluster.set_cluster_version(version(2));
    ends(&dialled, 2);
    assert!(!first.ended.load(Ordering::Acquire) && !dialler.ended.load(Ordering::Acquire));
    assert!(first.sees(stranger.id()).is_none(), "it was never a member");
}

/// A node that knows less may have slept while the version rose: it ends nobody that has a cluster.
#[test]
fn node_too_new_for_cluster_ends_only_if_not_a_member() {
    let first = start("first", &[], founder(7, 1));
    first.cluster.set_cluster_version(version(1));
    let stranger = supporting(2, 3, &first.address, None);
    ends(&stranger, 1);
    let text = stranger.cluster.fatal().unwrap().to_string();
    assert!(text.contains("upgrade one version at a time"), "{text}");

    let member = supporting(2, 3, &first.address, Some(founder(7, 2)));
    eventually("a refusal", || member.cluster.seeds_shown().contains("cluster version 1"));
    assert!(!member.ended.load(Ordering::Acquire));
    // It did know better; and tells the one that slept.
    member.cluster.set_cluster_version(version(2));
    all_know_all(&[&first, &member]);
}

/// One that is linked already, and learns from its catalogue that the version has risen.
#[test]
fn member_ends_when_cluster_version_rises_above_its_own() {
    let first = start("first", &[], founder(7, 1));
    let (second, _) = join("second", &[&first.address]);
    all_know_all(&[&first, &second]);
    second.cluster.set_cluster_version(version(2));
    assert!(!second.ended.load(Ordering::Acquire));
    second.cluster.set_cluster_version(version(3));
    ends(&second, 3);
    assert_eq!(first.id(), NodeId(1));
}
