//! Tests what clients notice when nodes of a cluster of three break, one after the other.
//!
//! Tests do not know the leaders: they break each node in turn, and so hit every leader. In every
//! test the history must be linearizable: each retry is done once, and no acknowledged write is
//! lost. This holds for slow answers too.

use std::thread::sleep;
use std::time::Duration;

use crate::cluster::{Cluster, TEST_TIMEOUT};
use crate::load::history::Event;
use crate::load::{ANSWER_MAX, Load, keys};
use harness::net::root_or_skip;
use harness::resp::{Connection, TextReply};

/// Nodes of each test here.
pub const NODES: usize = 3;
/// For no longer than that a key may be without service, whichever nodes are asked.
pub const SILENCE_MAX: Duration = Duration::from_millis(1_500);
/// The same for what no leader is simply gone in: a one-way cut is noticed by the leader alone, who
/// must miss a quorum's answers first, and connections begin again when TCP tries again; and when
/// all are gone, they have to start.
pub const SILENCE_ODD_MAX: Duration = Duration::from_secs(5);
/// Longer than any lease, and than whatever waits for one.
const LONG: Duration = Duration::from_secs(3);
/// From one replica to three takes a moment, and WAIT does not tell yet.
const SPREAD: Duration = Duration::from_secs(3);
/// Commands that are printed because they took longest.
const SLOWEST_SHOWN: usize = 24;
/// For load to settle between two faults.
pub const SETTLE: Duration = Duration::from_millis(1_200);

/// A cluster in which every node answers for every key, and every key is on all of them.
fn start() -> Cluster {
    started(Cluster::new(NODES))
}

/// The same of a cluster that was made already.
pub fn started(mut cluster: Cluster) -> Cluster {
    cluster.start();
    let mut open = |address| {
        let open =
            || Connection::open(address, TEST_TIMEOUT, TEST_TIMEOUT).expect("a node that is ready");
        cluster.net.clients().inside(open)
    };
    let mut all: Vec<Connection> = cluster.resp().into_iter().map(&mut open).collect();
    let (first, others) = all.split_first_mut().expect("there are nodes");
    for key in keys().map(|key| format!("before-{}", key.name())) {
        assert_eq!(first.ask(&["SET", &key, "1"]).unwrap(), TextReply::Simple("OK".into()));
        for other in &mut *others {
            assert_eq!(
                other.ask(&["GET", &key]).unwrap(),
                TextReply::Bulk("1".into()),
                "one store"
            );
        }
    }
    sleep(SPREAD);
    cluster
}

/// Ends the load and judges what it saw.
pub fn judge(load: Load, events: &[Event], silence_max: Duration) {
    let (history, stalls) = load.finish();
    let (answered, not_done, unknown) = history.counts();
    eprintln!("{answered} answered, {not_done} not done, {unknown} unknown");
    for (count, error) in history.errors().iter().take(8) {
        eprintln!("{count:>6} {error}");
    }
    eprintln!("slowest:");
    for record in history.slowest(SLOWEST_SHOWN) {
        eprintln!("  {record}");
    }
    let mut late = Vec::new();
    for event in events {
        let (what, silence) = (&event.what, history.longest_silence(event));
        let allowance = stalls.allowance(event.from, event.until);
        eprintln!(
            "{what} at {:.4} s: no key was without service for longer than {silence:.3?}; for the \
             machine's own stalls {allowance:.3?} may be added to {silence_max:?}",
            event.from.as_secs_f64()
        );
        if silence > silence_max + allowance {
            late.push(format!("{what}: {silence:.3?}"));
        }
    }
    history.check().unwrap();
    assert!(late.is_empty(), "service was away for longer than {silence_max:?}: {late:?}");
    assert!(answered > 500, "too little happened: {answered} answered");
}

/// Does something to each node in turn, undoes it, and judges. `is_gone` if its clients cannot
/// reach it meanwhile.
fn in_turn(
    what: &str,
    is_gone: bool,
    silence_max: Duration,
    lasts: Duration,
    mut fault: impl FnMut(&mut Cluster, usize),
    mut undo: impl FnMut(&mut Cluster, usize),
) {
    let mut cluster = start();
    let load = Load::start(&cluster);
    let mut events = Vec::new();
    sleep(SETTLE);
    for number in 1..=NODES {
        let from = load.now();
        fault(&mut cluster, number);
        sleep(lasts);
        undo(&mut cluster, number);
        let gone = is_gone.then(|| (number, load.now()));
        sleep(SETTLE);
        events.push(Event { what: format!("{what} {number}"), from, until: load.now(), gone });
    }
    cluster.wait_until_ready();
    judge(load, &events, silence_max);
}

fn others(number: usize) -> impl Iterator<Item = usize> {
    (1..=NODES).filter(move |other| *other != number)
}

#[test]
fn cluster_serves_while_each_node_is_killed() {
    let kill = |cluster: &mut Cluster, number| cluster.node(number).kill();
    let restart = |cluster: &mut Cluster, number| cluster.restart(number);
    in_turn("kill -9 of node", true, SILENCE_MAX, Duration::from_secs(2), kill, restart);
}

#[test]
fn cluster_serves_while_each_node_is_paused_beyond_lease() {
    let pause = |cluster: &mut Cluster, number| cluster.node(number).pause();
    let resume = |cluster: &mut Cluster, number| cluster.node(number).resume();
    in_turn("SIGSTOP of node", true, SILENCE_MAX, LONG, pause, resume);
}

#[test]
fn cluster_serves_while_each_node_stops() {
    let stop = |cluster: &mut Cluster, number| assert!(cluster.node(number).stop().success());
    let restart = |cluster: &mut Cluster, number| cluster.restart(number);
    in_turn("stop of node", true, SILENCE_MAX, Duration::from_secs(2), stop, restart);
}

#[test]
fn cluster_serves_while_each_node_is_unplugged() {
    if !root_or_skip("cutting a network") {
        return;
    }
    let unplug = |cluster: &mut Cluster, number| cluster.net.unplug(number);
    let heal = |cluster: &mut Cluster, _| cluster.net.heal();
    in_turn("cable of node", true, SILENCE_MAX, LONG, unplug, heal);
}

/// It hears the others and its clients; the others do not hear it.
#[test]
fn cluster_serves_while_each_node_is_not_heard() {
    if !root_or_skip("cutting a network") {
        return;
    }
    let silence = |cluster: &mut Cluster, number| {
        others(number).for_each(|other| cluster.net.silence(number, other));
    };
    let heal = |cluster: &mut Cluster, _| cluster.net.heal();
    in_turn("silence of node", false, SILENCE_ODD_MAX, LONG, silence, heal);
}

/// The others hear it, so they may go on following it; it hears none of them.
#[test]
fn cluster_serves_while_each_node_does_not_hear() {
    if !root_or_skip("cutting a network") {
        return;
    }
    let deafen = |cluster: &mut Cluster, number| {
        others(number).for_each(|other| cluster.net.silence(other, number));
    };
    let heal = |cluster: &mut Cluster, _| cluster.net.heal();
    in_turn("deafness of node", false, SILENCE_ODD_MAX, LONG, deafen, heal);
}

/// Only two of three do not reach each other, and the senders are told so.
#[test]
fn cluster_serves_while_each_pair_is_cut() {
    if !root_or_skip("cutting a network") {
        return;
    }
    let bar = |cluster: &mut Cluster, number| {
        let next = number % NODES + 1;
        cluster.net.bar(number, next);
        cluster.net.bar(next, number);
    };
    let heal = |cluster: &mut Cluster, _| cluster.net.heal();
    in_turn("bar from node", false, SILENCE_ODD_MAX, LONG, bar, heal);
}

/// As a power cut of a room does it, but for what the kernels had not written.
#[test]
fn cluster_recovers_after_all_nodes_are_killed() {
    let mut cluster = start();
    let load = Load::start(&cluster);
    let mut froms = Vec::new();
    for _round in 1..=3 {
        sleep(SETTLE);
        (1..=NODES).for_each(|number| cluster.node(number).kill());
        (1..=NODES).for_each(|number| cluster.node(number).start());
        froms.push(load.now());
        cluster.wait_until_ready();
    }
    sleep(SETTLE + ANSWER_MAX);
    let untils = froms.iter().skip(1).copied().chain([load.now()]);
    let events: Vec<Event> = (1..)
        .zip(froms.iter().zip(untils))
        .map(|(round, (from, until))| Event {
            what: format!("kill -9 of all, round {round}"),
            from: *from,
            until,
            gone: None,
        })
        .collect();
    judge(load, &events, SILENCE_ODD_MAX);
}

/// One node without room: the two others are a majority.
#[test]
fn full_disk_of_one_node_leaves_the_others_serving() {
    let mut cluster = Cluster::new(NODES);
    if !cluster.on_small_disk(2, 64) {
        return;
    }
    cluster = started(cluster);
    let load = Load::start(&cluster);
    sleep(SETTLE);
    let full = load.now();
    cluster.disk(0).fill();
    sleep(LONG);
    cluster.disk(0).free();
    let freed = load.now();
    sleep(SETTLE + ANSWER_MAX);
    cluster.wait_until_ready();
    let event = |what: &str, from, until| Event { what: what.to_owned(), from, until, gone: None };
    let events = [event("a full disk", full, freed), event("room again", freed, load.now())];
    judge(load, &events, SILENCE_ODD_MAX);
}
