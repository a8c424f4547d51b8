//! Tests whether nodes notice which members are up and which are down.

use crate::cluster::Cluster;
use harness::net::root_or_skip;

/// What a node says when another one comes.
fn up(number: usize) -> String {
    format!("member node-{number} at 10.77.0.{number}:7600 is up")
}

/// What it says when one goes.
fn down(number: usize) -> String {
    format!("member node-{number} at 10.77.0.{number}:7600 is down")
}

#[test]
fn cut_off_killed_or_paused_nodes_are_down_then_up() {
    if !root_or_skip("cutting a network") {
        return;
    }
    let mut cluster = Cluster::new(3);
    cluster.start();
    for (one, other) in [(1, 2), (1, 3), (2, 3), (3, 2)] {
        cluster.node(one).wait_for_log(&up(other), 1);
    }
    cluster.net.unplug(2);
    cluster.node(1).wait_for_log(&down(2), 1);
    cluster.node(3).wait_for_log(&down(2), 1);
    cluster.net.heal();
    cluster.node(1).wait_for_log(&up(2), 2);
    cluster.node(3).wait_for_log(&up(2), 2);

    cluster.node(3).kill();
    cluster.node(1).wait_for_log(&down(3), 1);
    cluster.restart(3);
    cluster.node(1).wait_for_log(&up(3), 2);

    cluster.node(1).pause();
    cluster.node(3).wait_for_log(&down(1), 1);
    cluster.node(1).resume();
    cluster.node(3).wait_for_log(&up(1), 2);
}
