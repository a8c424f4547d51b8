//! Tests of the fault tools themselves, with nodes that do not know each other.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, TEST_TIMEOUT};
use crate::load::Load;
use crate::load::history::Event;
use harness::net::{NAMES, Net, root_or_skip};
use harness::resp::{Connection, TextReply};

/// Within one machine, whatever has not come by then was lost.
const LOST_AFTER: Duration = Duration::from_millis(150);
const PORT: u16 = 7;

/// A socket at the port. A process that another test is just starting may hold the one before it,
/// between fork and exec.
fn bind(net: &Net, node: usize, address: SocketAddr) -> UdpSocket {
    harness::until(TEST_TIMEOUT, "the port is free", || {
        match net.node(node).inside(|| UdpSocket::bind(address)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            bound => Some(bound.unwrap()),
        }
    })
}

/// Whether a datagram from one node reaches another; an error is what the sender was told.
fn reaches(net: &Net, from: usize, to: usize) -> std::io::Result<bool> {
    let address = SocketAddr::from((net.node(to).ip, PORT));
    let receiver = bind(net, to, address);
    receiver.set_read_timeout(Some(LOST_AFTER)).unwrap();
    net.node(from).inside(|| UdpSocket::bind("0.0.0.0:0")?.send_to(b"hello", address))?;
    match receiver.recv(&mut [0; 16]) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Which of all ordered pairs do not reach each other.
fn lost(net: &Net, nodes: usize) -> Vec<(usize, usize)> {
    let pairs = (1..=nodes).flat_map(|from| (1..=nodes).map(move |to| (from, to)));
    let pairs = pairs.filter(|(from, to)| from != to);
    pairs.filter(|(from, to)| !matches!(reaches(net, *from, *to), Ok(true))).collect()
}

#[test]
fn network_cuts_affect_named_links_and_heal() {
    if !root_or_skip("cutting a network") {
        return;
    }
    let mut net = Net::new(3);
    assert_eq!(lost(&net, 3), []);
    net.silence(1, 2);
    assert_eq!(lost(&net, 3), [(1, 2)], "one direction, and nobody is told");
    assert!(reaches(&net, 1, 2).is_ok());
    net.silence(2, 1);
    assert_eq!(lost(&net, 3), [(1, 2), (2, 1)]);
    net.heal();
    assert_eq!(lost(&net, 3), []);

    net.bar(3, 1);
    assert_eq!(lost(&net, 3), [(3, 1)]);
    assert!(reaches(&net, 3, 1).is_err(), "the sender is told");
    net.heal();
    assert_eq!(lost(&net, 3), []);

    net.unplug(2);
    assert_eq!(lost(&net, 3), [(1, 2), (2, 1), (2, 3), (3, 2)]);
    net.silence(1, 3);
    net.heal();
    assert_eq!(lost(&net, 3), []);
}

#[test]
fn test_network_is_removed_completely() {
    if !root_or_skip("cutting a network") {
        return;
    }
    let net = Net::new(2);
    let names = net.names();
    let there = || names.iter().filter(|name| Path::new(NAMES).join(name).exists()).count();
    assert_eq!((names.len(), there()), (4, 4), "two nodes, the clients, the bridge");
    drop(net);
    assert_eq!(there(), 0);
}

/// A connection that stands survives a short cut; what was asked meanwhile is answered after it.
#[test]
fn connections_stall_while_cut() {
    let mut cluster = Cluster::strangers(2);
    cluster.start();
    let address = cluster.resp()[0];
    let clients = cluster.net.clients().clone();
    let open = || Connection::open(address, TEST_TIMEOUT, TEST_TIMEOUT).unwrap();
    let mut one = clients.inside(open);
    assert_eq!(one.ask(&["SET", "k", "v"]).unwrap(), TextReply::Simple("OK".into()));
    if root_or_skip("cutting a network") {
        cluster.net.unplug(1);
        let begun = Instant::now();
        let asked = thread::spawn(move || one.ask(&["GET", "k"]));
        thread::sleep(LOST_AFTER);
        assert!(!asked.is_finished(), "nobody can have answered");
        let refused = clients.inside(|| TcpStream::connect_timeout(&address, LOST_AFTER));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
        cluster.net.heal();
        assert_eq!(asked.join().unwrap().unwrap(), TextReply::Bulk("v".into()));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
}

/// A node of its own, under load, killed and paused: everything answered is there.
#[test]
fn checker_accepts_node_that_loses_nothing() {
    let mut cluster = Cluster::strangers(1);
    cluster.start();
    let load = Load::start(&cluster);
    thread::sleep(Duration::from_millis(600));
    let killed = load.now();
    cluster.node(1).kill();
    thread::sleep(Duration::from_millis(100));
    cluster.restart(1);
    thread::sleep(Duration::from_millis(400));
    let paused = load.now();
    cluster.node(1).pause();
    thread::sleep(Duration::from_millis(400));
    cluster.node(1).resume();
    thread::sleep(Duration::from_millis(600));
    let stopped = load.now();
    assert!(cluster.node(1).stop().success());
    cluster.restart(1);
    let (history, _) = load.finish();
    let (answered, _, unknown) = history.counts();
    assert!(answered > 100, "{answered} answered: {:?}", history.errors());
    assert!(unknown > 0, "nobody waited for an answer when it was killed");
    let silence = |from, until| {
        history.longest_silence(&Event { what: String::new(), from, until, gone: None })
    };
    let (killed, paused) = (silence(killed, paused), silence(paused, stopped));
    assert!(killed > Duration::from_millis(100) && killed < TEST_TIMEOUT, "{killed:?}");
    assert!(paused > Duration::from_millis(400) && paused < TEST_TIMEOUT, "{paused:?}");
    history.check().unwrap();
}

/// The checker must see what goes wrong: a node whose data was taken away.
#[test]
fn checker_detects_node_that_loses_writes() {
    let mut cluster = Cluster::strangers(1);
    cluster.start();
    let load = Load::start(&cluster);
    thread::sleep(Duration::from_millis(800));
    cluster.node(1).kill();
    let dir = cluster.node(1).dir.clone();
    std::fs::remove_dir_all(&dir).unwrap();
    cluster.restart(1);
    thread::sleep(Duration::from_millis(400));
    let told = load.finish().0.check().expect_err("a whole disk is gone");
    assert!(told.contains("no order explains") || told.contains("went back"), "{told}");
}

#[test]
fn small_test_disk_fills_and_empties() {
    let mut cluster = Cluster::strangers(1);
    if !cluster.on_small_disk(1, 48) {
        return;
    }
    cluster.start();
    let address = cluster.resp()[0];
    let mut one = cluster
        .net
        .clients()
        .inside(|| Connection::open(address, TEST_TIMEOUT, TEST_TIMEOUT))
        .unwrap();
    let value = "x".repeat(256 << 10);
    let mut set = |key: usize| one.ask(&["SET", &key.to_string(), &value]).unwrap();
    assert_eq!(set(0), TextReply::Simple("OK".into()));
    cluster.disk(0).fill();
    let refused = (0..400).map(&mut set).find(|reply| *reply != TextReply::Simple("OK".into()));
    assert!(
        matches!(&refused, Some(TextReply::Error(why)) if why.starts_with("MISCONF")),
        "{refused:?}"
    );
    cluster.disk(0).free();
    let begun = Instant::now();
    while set(0) != TextReply::Simple("OK".into()) {
        assert!(begun.elapsed() < TEST_TIMEOUT, "there is room again");
        thread::sleep(Duration::from_millis(20));
    }
}
