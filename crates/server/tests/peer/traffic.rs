//! What friends send arrives whole, in order, however much it is.

use std::time::{Duration, Instant};

use bytes::Bytes;
use keyspace::NodeId;
use server::peer::{FRAME_BYTES_MAX, Local, MESSAGE_BYTES_MAX, Options, SendError, Versions};

use crate::common::{
    ECHO, ECHOED, Node, TEST_TIMEOUT, cluster, eventually, introduce, local, options, start,
};

/// Sends numbered frames to a node; waits where it must.
fn send_numbers(from: &Node, to: u64, kind: u8, count: u32) {
    for number in 0..count {
        let body = [&number.to_le_bytes()[..], &vec![7; number as usize % 50]].concat();
        let (head, rest) = body.split_at(2);
        while from.net.send(NodeId(to), kind, &[head, rest]) == Err(SendError::Full) {
            from.net.flush();
            std::thread::yield_now();
        }
        if number % 64 == 0 {
            from.net.flush();
        }
    }
    from.net.flush();
}

fn check_numbers(node: &Node, from: u64, kind: u8, count: u32) {
    let numbers = || {
        let frames = node.notes.frames(from);
        frames.into_iter().filter(|(k, _)| *k == kind).map(|(_, body)| body).collect::<Vec<Bytes>>()
    };
    let counters = node.net.counters();
    let (_, counters) = counters.iter().find(|(node, _)| node.0 == from).unwrap();
    eventually("all frames", || counters.frames_in.get() >= u64::from(count));
    eventually("the last frames", || numbers().len() == count as usize);
    for (number, body) in (0..count).zip(numbers()) {
        assert_eq!(body[..4], number.to_le_bytes());
        assert_eq!(body.len(), 4 + number as usize % 50);
    }
}

#[test]
fn two_nets_exchange_100_000_frames_each_way_in_order() {
    let nodes = cluster(2, options());
    std::thread::scope(|scope| {
        scope.spawn(|| send_numbers(&nodes[0], 2, 5, 100_000));
        scope.spawn(|| send_numbers(&nodes[1], 1, 5, 100_000));
    });
    check_numbers(&nodes[0], 2, 5, 100_000);
    check_numbers(&nodes[1], 1, 5, 100_000);
}

#[test]
fn three_nets_exchange_100_000_frames_each_way_in_order() {
    let small = Options { outbox_bytes_max: 1 << 20, ..options() };
    let nodes = cluster(3, small);
    std::thread::scope(|scope| {
        for (number, node) in (1..=3).zip(&nodes) {
            for other in (1..=3).filter(|other| *other != number) {
                scope.spawn(move || send_numbers(node, other, 6, 100_000));
            }
        }
    });
    for (number, node) in (1..=3).zip(&nodes) {
        (1..=3).filter(|n| *n != number).for_each(|n| check_numbers(node, n, 6, 100_000));
    }
}

#[test]
fn frames_of_each_thread_keep_order_on_shared_link() {
    let nodes = cluster(2, options());
    std::thread::scope(|scope| {
        for kind in 20..28 {
            let nodes = &nodes;
            scope.spawn(move || send_numbers(&nodes[0], 2, kind, 10_000));
        }
    });
    let counters = nodes[1].net.counters();
    eventually("all frames", || counters[0].1.frames_in.get() == 80_000);
    for kind in 20..28 {
        let frames = nodes[1].notes.frames(1);
        let bodies = frames.iter().filter(|(k, _)| *k == kind).map(|(_, body)| body);
        let numbers = bodies.map(|body| u32::from_le_bytes(body[..4].try_into().unwrap()));
        assert!(numbers.eq(0..10_000));
    }
}

#[test]
fn long_message_arrives_behind_urgent_and_before_later_frames() {
    let nodes = cluster(2, Options { dead: Duration::from_secs(10), ..options() });
    let big: Vec<u8> = (0..FRAME_BYTES_MAX as u32 + 100_000).map(|n| (n / 7) as u8).collect();
    nodes[0].net.send(NodeId(2), 3, &[&big[..10], &big[10..]]).unwrap();
    nodes[0].net.send(NodeId(2), 4, &[b"after"]).unwrap();
    nodes[0].net.send_urgent(NodeId(2), 5, &[b"urgent"]).unwrap();
    nodes[0].net.flush();
    assert_eq!(nodes[1].notes.frame(1), (5, Bytes::from_static(b"urgent")));
    assert_eq!(nodes[1].notes.frame(1), (3, Bytes::from(big.clone())));
    assert_eq!(nodes[1].notes.frame(1), (4, Bytes::from_static(b"after")));
    let (parts, bytes_max) =
        ([&big[..]; MESSAGE_BYTES_MAX / FRAME_BYTES_MAX + 1], MESSAGE_BYTES_MAX);
    let bytes = parts.len() * big.len();
    let error = nodes[0].net.send(NodeId(2), 3, &parts);
    assert_eq!(error, Err(SendError::TooLong { bytes, bytes_max }));
    assert_eq!(nodes[0].net.counters()[0].1.too_long.get(), 1);
    assert_eq!(nodes[0].net.send(NodeId(9), 3, &[]), Err(SendError::NotConnected));
    assert_eq!(nodes[0].net.send(NodeId(1), 3, &[]), Err(SendError::NotConnected));
}

#[test]
fn older_peer_gets_no_pieces_and_no_message_above_a_frame() {
    let options = Options { dead: Duration::from_secs(10), ..options() };
    let before = Local { versions: Versions { lowest: 1, highest: 1 }, ..local(2) };
    let nodes = [start(local(1), options), start(before, options)];
    introduce(&nodes.iter().collect::<Vec<_>>());
    nodes[0].notes.connected(2);
    let big = vec![7; FRAME_BYTES_MAX];
    nodes[0].net.send(NodeId(2), 3, &[&big]).unwrap();
    nodes[0].net.flush();
    assert_eq!(nodes[1].notes.frame(1), (3, Bytes::from(big.clone())));
    let (bytes, bytes_max) = (FRAME_BYTES_MAX + 1, FRAME_BYTES_MAX);
    let refused = Err(SendError::TooLong { bytes, bytes_max });
    assert_eq!(nodes[0].net.send(NodeId(2), 3, &[&big, b"x"]), refused);
    let counters = &nodes[0].net.counters()[0].1;
    assert_eq!(counters.too_long.get(), 1);
    assert!(counters.too_long_millis.get() > 0);
}

#[test]
fn stop_sends_frames_that_were_accepted() {
    let mut nodes = cluster(2, options());
    for number in 0..2_000u32 {
        let body = [&number.to_le_bytes()[..], &[1; 2_000]].concat();
        nodes[0].net.send(NodeId(2), 5, &[&body]).unwrap();
    }
    drop(nodes.remove(0));
    nodes[0].notes.disconnected(1);
    let frames = nodes[0].notes.frames(1);
    assert_eq!(frames.len(), 2_000);
    assert_eq!(frames[1_999].1[..4], 1_999u32.to_le_bytes());
    assert!(!nodes[0].net.is_connected(NodeId(1)));
}

#[test]
fn idle_links_stay_open_and_pings_are_timed() {
    let nodes = cluster(2, options());
    std::thread::sleep(Duration::from_millis(2_500));
    for node in &nodes {
        let counters = node.net.counters();
        assert_eq!(counters.len(), 1);
        assert_eq!((counters[0].1.links.get(), counters[0].1.frames_in.get()), (1, 0));
        let rtt = counters[0].1.rtt_nanos.get();
        assert!((1_000..2_000_000_000).contains(&rtt), "{rtt} ns");
    }
}

#[test]
fn echoes_come_back_with_one_flush_per_iteration() {
    let nodes = cluster(2, options());
    for number in 0..1_000u32 {
        nodes[0].net.send(NodeId(2), ECHO, &[&number.to_le_bytes()]).unwrap();
        nodes[0].net.flush();
        assert_eq!(nodes[0].notes.frame(2), (ECHOED, Bytes::from(number.to_le_bytes().to_vec())));
    }
}

#[test]
fn nodes_that_dial_each_other_at_once_end_with_one_link() {
    for _ in 0..20 {
        let (one, two) = (start(local(1), options()), start(local(2), options()));
        one.net.dial_address(two.address.clone());
        two.net.dial_address(one.address.clone());
        one.notes.connected(2);
        two.notes.connected(1);
        // Whichever link is left carries frames both ways; one that was replaced may lose some.
        eventually("an echo", || {
            let _replaced = one.net.send(NodeId(2), ECHO, &[b"?"]);
            one.net.flush();
            !one.notes.frames(2).is_empty()
        });
        eventually("both links", || {
            one.net.connected() == [NodeId(2)] && two.net.connected() == [NodeId(1)]
        });
    }
}

#[test]
fn dialling_linked_node_changes_nothing() {
    let nodes = cluster(2, options());
    for (node, other) in [(0, 1), (1, 0)] {
        let address = nodes[other].address.clone();
        nodes[node].net.dial_address(address);
    }
    std::thread::sleep(Duration::from_millis(300));
    for node in &nodes {
        assert_eq!(node.net.counters()[0].1.links.get(), 1);
        assert_eq!(node.net.connected().len(), 1);
    }
}

#[test]
fn joining_node_learns_cluster_through_address() {
    let member = start(local(1), options());
    let mut newcomer = local(2);
    let cluster = newcomer.cluster.take();
    let newcomer = start(newcomer, options());
    newcomer.net.dial_address(member.address.replace("127.0.0.1", "localhost"));
    let hello = newcomer.notes.connected(1);
    assert_eq!((hello.join, hello.facts), (cluster, Bytes::from_static(b"node 1")));
    assert_eq!(member.notes.connected(2).cluster_id, None);
    // It is answered on the connection that it made.
    member.net.send(NodeId(2), 9, &[b"welcome"]).unwrap();
    member.net.flush();
    assert_eq!(newcomer.notes.frame(1), (9, Bytes::from_static(b"welcome")));
    newcomer.net.set_cluster(cluster.unwrap());
    newcomer.net.set_facts(Bytes::from_static(b"a member"));
    let third = start(local(3), options());
    third.net.dial_address(newcomer.address.clone());
    let hello = third.notes.connected(2);
    assert_eq!((hello.cluster_id, &hello.facts[..]), (Some(0xc1), &b"a member"[..]));
}

/// Round trips per second with so many requests under way, for docs/performance.md.
fn round_trips(nodes: &[Node], under_way: u32, for_time: Duration) -> f64 {
    let counters = nodes[0].net.counters();
    let came = || counters[0].1.frames_in.get();
    let (start, before) = (Instant::now(), came());
    let mut sent = before;
    while start.elapsed() < for_time {
        let mut any = false;
        while sent < came() + u64::from(under_way) {
            nodes[0].net.send(NodeId(2), ECHO, &[&[0; 64]]).unwrap();
            sent += 1;
            any = true;
        }
        match any {
            true => nodes[0].net.flush(),
            false => std::thread::yield_now(),
        }
    }
    (came() - before) as f64 / start.elapsed().as_secs_f64()
}

#[test]
fn round_trips_are_counted() {
    let nodes = cluster(2, options());
    for under_way in [1, 64] {
        let rate = round_trips(&nodes, under_way, Duration::from_millis(500));
        println!("{under_way} under way: {rate:.0} round trips per second");
        assert!(rate > 0.0, "nothing came back");
    }
}

/// Who attends takes the turns; while he is about something else the peer thread does, and again
/// when he attends no more.
#[test]
fn links_live_with_thread_or_inline_poller() {
    let nodes = cluster(2, options());
    let (a, b) = (&nodes[0], &nodes[1]);
    let send = |body: &[u8]| {
        a.net.send(NodeId(2), ECHO, &[body]).unwrap();
        a.net.flush();
    };
    let echo = |body: &'static [u8]| {
        send(body);
        assert_eq!(a.notes.frame(2), (ECHOED, Bytes::from_static(body)));
    };
    echo(b"before");

    let attendance = b.net.poll_inline().expect("it is started");
    // The peer thread has seen it, and looks in at its ticks only.
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..50 {
        send(b"attended");
        let until = Instant::now() + TEST_TIMEOUT;
        while a.notes.frames(2).is_empty() {
            assert!(Instant::now() < until, "an attendant's turn reads and sends");
            attendance.turn();
        }
        assert_eq!(a.notes.frame(2), (ECHOED, Bytes::from_static(b"attended")));
    }

    // No turn of the attendant's any more.
    for _ in 0..50 {
        echo(b"late");
    }
    drop(attendance);
    echo(b"after");

    let _attendance = b.net.poll_inline().expect("again");
    echo(b"late again");
    // A stop needs nobody who attends.
    b.net.stop();
    a.notes.disconnected(2);
    assert!(b.net.poll_inline().is_none(), "it has ended");
}
