//! Members find each other, die, come back and leave.

use std::time::{Duration, Instant};

use server::cluster::{Load, MemberState};

use crate::common::{
    Node, all_know_all, cluster, eventually, founder, join, options, start, start_on,
};

fn only_nodes(nodes: &[(Node, server::cluster::Identity)]) -> Vec<&Node> {
    nodes.iter().map(|(node, _)| node).collect()
}

#[test]
fn nodes_that_know_one_seed_find_all() {
    for count in [3, 5] {
        let nodes = cluster(count);
        all_know_all(&only_nodes(&nodes));
        // Who joins in one millisecond through one seed has joined at once.
        let mut joined: Vec<_> = nodes.iter().map(|(_, who)| (who.joined_at, who.node)).collect();
        joined.sort();
        let ids: Vec<_> = joined.into_iter().map(|(_, node)| node).collect();
        assert_eq!(ids[0], nodes[0].0.id(), "the founder");
        for (node, identity) in &nodes {
            assert_eq!(identity.cluster, founder(7, 0x11).cluster);
            assert_eq!(node.up(), ids, "in the order of joining");
            let first = node.sees(ids[0]).unwrap();
            assert_eq!((first.name.as_str(), first.joined_at), ("first", 1_000));
            assert_eq!(
                (first.host.as_str(), first.resp, first.native),
                ("127.0.0.1", Some(6379), None)
            );
            assert_eq!(
                (first.peer, first.domain),
                (nodes[0].0.address.clone(), "rack of first".into())
            );
            assert!(first.software.starts_with("carillon "), "{}", first.software);
            assert_eq!(node.cluster.counters().bad_frames, 0);
        }
    }
}

#[test]
fn node_joins_through_youngest_member() {
    let first = founder(7, 0x11);
    let oldest = start("first", &[], first);
    let (second, _) = join("second", &[&oldest.address]);
    let (third, identity) = join("third", &[&second.address]);
    // The second's clock may be behind, but the third knew only the second.
    assert!(identity.joined_at > second.sees(second.id()).unwrap().joined_at);
    let (fourth, _) = join("fourth", &[&third.address]);
    all_know_all(&[&oldest, &second, &third, &fourth]);
    assert_eq!(oldest.up(), [oldest.id(), second.id(), third.id(), fourth.id()]);
}

#[test]
fn founder_with_fast_clock_stays_oldest() {
    // The founder's clock is a century ahead.
    let far = u64::MAX / 4;
    let first = start("first", &[], server::cluster::Identity { joined_at: far, ..founder(7, 9) });
    let (second, identity) = join("second", &[&first.address]);
    assert_eq!(identity.joined_at, far + 1);
    all_know_all(&[&first, &second]);
    assert_eq!(second.up(), [first.id(), second.id()]);
}

#[test]
fn killed_node_is_down_then_up_after_restart() {
    let mut nodes = cluster(3);
    all_know_all(&only_nodes(&nodes));
    let (dead, identity) = nodes.pop().unwrap();
    let port = dead.cluster.address().port();
    let died = Instant::now();
    drop(dead);
    for (node, _) in &nodes {
        node.waits_for_state(identity.node, MemberState::Down);
        assert!(!node.cluster.is_connected(identity.node));
    }
    let known = died.elapsed();
    assert!(known < Duration::from_secs(6), "known after {known:?}");
    // It comes back on a used directory, without seeds: the others come to it.
    let back = start_on(port, options("node 2", &[]), Some(identity));
    let (first, second) = (&nodes[0].0, &nodes[1].0);
    all_know_all(&[first, second, &back]);
    assert_eq!(back.up()[0], first.id());
    drop(back);
    first.waits_for_state(identity.node, MemberState::Down);
    // At another port it must say where it is.
    let moved = start("node 2", &[&second.address], identity);
    all_know_all(&[first, second, &moved]);
    eventually("its new address", || {
        first.sees(identity.node).is_some_and(|member| member.peer == moved.address)
    });
}

#[test]
fn node_without_its_disk_rejoins_as_new_node() {
    let mut nodes = cluster(2);
    all_know_all(&only_nodes(&nodes));
    let (dead, old) = nodes.pop().unwrap();
    let port = dead.cluster.address().port();
    drop(dead);
    let first = &nodes[0].0;
    first.waits_for_state(old.node, MemberState::Down);
    let wiped = start_on(port, options("node 1", &[&first.address]), None);
    let until = Instant::now() + crate::common::TEST_TIMEOUT;
    let identity = wiped.cluster.wait_for_identity(|| Instant::now() > until).unwrap();
    wiped.cluster.begin();
    assert_ne!(identity.node, old.node);
    all_know_all(&[first, &wiped]);
    assert_eq!(first.sees(old.node).unwrap().state, MemberState::Down);
}

#[test]
fn node_is_no_member_before_its_identity_is_durable() {
    let first = start("first", &[], founder(7, 0x11));
    let joining = start_on(0, options("second", &[&first.address]), None);
    let until = Instant::now() + crate::common::TEST_TIMEOUT;
    joining.cluster.wait_for_identity(|| Instant::now() > until).unwrap();
    eventually("a link", || first.cluster.is_connected(joining.id()));
    // More than two rounds of digests and pings.
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(first.sees(joining.id()).is_none());
    joining.cluster.begin();
    all_know_all(&[&first, &joining]);
}

#[test]
fn leaving_node_is_marked_left_and_its_load_is_gossiped() {
    let nodes = cluster(3);
    all_know_all(&only_nodes(&nodes));
    let (leaving, staying) = (&nodes[2].0, &nodes[0].0);
    let load = Load {
        shards: 5,
        leaders: 2,
        data_bytes: 1 << 40,
        requests: Some(9),
        follower_reads: 4,
        is_slow: true,
    };
    leaving.cluster.set_load(load);
    assert_eq!(leaving.sees(leaving.id()).unwrap().load, load);
    eventually("its load", || staying.sees(leaving.id()).is_some_and(|seen| seen.load == load));
    leaving.cluster.leave();
    assert_eq!(leaving.sees(leaving.id()).unwrap().state, MemberState::Left);
    for (node, _) in &nodes[..2] {
        node.waits_for_state(leaving.id(), MemberState::Left);
    }
    leaving.cluster.stop();
    eventually("no link", || !staying.cluster.is_connected(leaving.id()));
    // Nobody takes it for down now: it has left.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(staying.sees(leaving.id()).unwrap().state, MemberState::Left);
}
