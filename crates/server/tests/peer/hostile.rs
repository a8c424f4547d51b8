//! Strangers, fools and those who do not read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use keyspace::NodeId;
use server::peer::frame;
use server::peer::handshake::{ExpectedPeer, Handshake, Progress};
use server::peer::{Cluster, Local, Options, Refusal, Secret, SendError, Versions};

use crate::common::{Node, cluster, eventually, introduce, local, options, start, start_at};

/// Shakes hands with a node by hand, and leaves the socket as it is.
fn link_by_hand(node: &Node, who: Local) -> TcpStream {
    let mut stream = TcpStream::connect(&node.address).unwrap();
    let mut out = Vec::new();
    let mut handshake = Handshake::dial(who, ExpectedPeer::AnyBut(vec![]), [5; 32], &mut out);
    let mut buffer = [0; 4096];
    loop {
        stream.write_all(&std::mem::take(&mut out)).unwrap();
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "refused");
        let mut progress = handshake.step(&buffer[..count], &mut out).unwrap();
        if let Progress::Proven(peer) = progress {
            progress = handshake.proceed(&peer, 1, &mut out).unwrap();
        }
        if let Progress::Linked { .. } = progress {
            stream.write_all(&out).unwrap();
            return stream;
        }
    }
}

fn refused_both_ways(stranger: Local, member: Local) -> Refusal {
    let (stranger, member) = (start(stranger, options()), start(member, options()));
    stranger.net.dial_address(member.address.clone());
    let refusal = stranger.notes.refused();
    assert_eq!(stranger.notes.refused(), refusal, "it is tried again, and refused again");
    member.net.dial_address(stranger.address.clone());
    member.notes.refused();
    assert!(stranger.net.connected().is_empty() && member.net.connected().is_empty());
    refusal
}

#[test]
fn wrong_secret_cluster_or_version_is_refused_with_reason() {
    let wrong_secret = Local { secret: Secret::new(b"guess"), ..local(2) };
    assert_eq!(refused_both_ways(wrong_secret, local(1)), Refusal::WrongSecret);
    let cluster = Some(Cluster { id: 0xc2, hash_seed: [9; 16] });
    let wrong_cluster = Local { cluster, ..local(2) };
    let refusal = refused_both_ways(wrong_cluster, local(1));
    assert!(refusal.to_string().contains("00000000000000c1"), "{refusal}");
    assert!(refusal.to_string().contains("00000000000000c2"), "{refusal}");
    let later = Local { versions: Versions { lowest: 5, highest: 6 }, ..local(2) };
    let refusal = refused_both_ways(later, local(1));
    assert!(refusal.to_string().contains("speaks 1 to 2, the other 5 to 6"), "{refusal}");
}

#[test]
fn wrong_node_or_own_address_is_reported() {
    let (one, two) = (start(local(1), options()), start(local(2), options()));
    one.net.set_peers([(NodeId(7), two.address.clone())].into());
    let wrong = Refusal::WrongNode { expected: NodeId(7), found: NodeId(2) };
    assert_eq!(one.notes.refused(), wrong);
    two.net.dial_address(two.address.clone());
    assert_eq!(two.notes.refused(), Refusal::OwnAddress { node: NodeId(2) });
    std::thread::sleep(Duration::from_millis(300));
    assert!(two.net.connected().is_empty());
}

#[test]
fn second_process_of_node_is_refused_while_first_lives() {
    // Heard of within two pings, however busy the machine is.
    let nodes = cluster(3, Options { ping: Duration::from_millis(800), ..options() });
    for (original, victim) in [(1u64, 2usize), (3, 1)] {
        let copy = start(local(original), options());
        copy.net.dial_address(nodes[victim - 1].address.clone());
        assert_eq!(copy.notes.refused(), Refusal::SameNodeTwice { node: NodeId(original) });
        copy.net.dial_address(nodes[original as usize - 1].address.clone());
        assert_eq!(copy.notes.refused(), Refusal::SameNodeTwice { node: NodeId(original) });
        assert!(copy.net.connected().is_empty());
    }
    for node in &nodes {
        assert!(node.net.counters().iter().all(|(_, counters)| counters.links.get() == 1));
    }
}

#[test]
fn garbage_ends_only_its_own_connection() {
    let nodes = cluster(2, options());
    let all: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        &[0xff; 100_000],
        b"\x01\x08\0carillon",
    ];
    for garbage in all {
        let mut stream = TcpStream::connect(&nodes[0].address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _refused = stream.write_all(garbage);
        // It is closed, with a refusal or a reset.
        let _reset = stream.read_to_end(&mut Vec::new());
    }
    // Garbage in the place of frames, by somebody who knows the secret.
    let mut stream = link_by_hand(&nodes[0], local(9));
    nodes[0].notes.connected(9);
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, 4, &[b"fine"]);
    bytes.extend_from_slice(&[0xff; 50]);
    stream.write_all(&bytes).unwrap();
    assert_eq!(nodes[0].notes.frame(9), (4, Bytes::from_static(b"fine")));
    nodes[0].notes.disconnected(9);
    nodes[0].net.send(NodeId(2), 3, &[b"still here"]).unwrap();
    nodes[0].net.flush();
    assert_eq!(nodes[1].notes.frame(1).0, 3);
    assert_eq!(nodes[0].net.counters()[0].1.links.get(), 1);
}

#[test]
fn peer_that_never_reads_fills_only_its_outbox_and_times_out() {
    let limit = 4 << 20;
    let slow = Options { outbox_bytes_max: limit, dead: Duration::from_secs(2), ..options() };
    let nodes = cluster(2, slow);
    let stalled = link_by_hand(&nodes[0], local(9));
    nodes[0].notes.connected(9);
    let start = Instant::now();
    let (mut full, mut longest) = (0, Duration::ZERO);
    while full < 100 {
        let began = Instant::now();
        match nodes[0].net.send(NodeId(9), 3, &[&[1; 60_000]]) {
            Ok(()) => nodes[0].net.flush(),
            Err(error) => {
                assert_eq!(error, SendError::Full);
                full += 1;
            }
        }
        longest = longest.max(began.elapsed());
        assert!(nodes[0].net.unsent_bytes(NodeId(9)) <= limit);
    }
    assert!(longest < Duration::from_millis(500), "a send took {longest:?}");
    // The others are served meanwhile.
    for number in 0..100u8 {
        nodes[0].net.send(NodeId(2), 5, &[&[number]]).unwrap();
        nodes[0].net.flush();
        assert_eq!(nodes[1].notes.frame(1), (5, Bytes::from(vec![number])));
    }
    nodes[0].notes.disconnected(9);
    assert!(start.elapsed() > Duration::from_millis(1_500), "not before its time");
    assert_eq!(nodes[0].net.send(NodeId(9), 3, &[]), Err(SendError::NotConnected));
    let counters = nodes[0].net.counters();
    assert!(counters.iter().find(|(node, _)| node.0 == 9).unwrap().1.drops.get() >= 100);
    drop(stalled);
}

#[test]
fn slow_reader_gets_all_accepted_frames() {
    let limit = 1 << 20;
    let node = start(local(1), Options { outbox_bytes_max: limit, ..options() });
    let mut slow = link_by_hand(&node, local(9));
    node.notes.connected(9);
    let total = 24u32 << 10;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..total {
                let body = [&number.to_le_bytes()[..], &[0; 1_020]].concat();
                while node.net.send(NodeId(9), 3, &[&body]).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                node.net.flush();
                assert!(node.net.unsent_bytes(NodeId(9)) <= limit);
            }
        });
        let mut decoder = frame::Decoder::new(1 << 20, &[]);
        let mut next = 0;
        let mut reads = 0;
        while next < total {
            let space = decoder.space();
            let most = space.len().min(20_000);
            let count = slow.read(&mut space[..most]).unwrap();
            assert!(count > 0, "closed at frame {next}");
            decoder.filled(count);
            while let Some(frame) = decoder.take().unwrap() {
                if frame.kind == 3 {
                    assert_eq!(frame.body[..4], next.to_le_bytes());
                    next += 1;
                }
            }
            reads += 1;
            if reads % 64 == 0 {
                // Late, but alive.
                let mut bytes = Vec::new();
                frame::encode(&mut bytes, 4, &[]);
                slow.write_all(&bytes).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
}

#[test]
fn thousand_half_open_connections_do_not_block_a_peer() {
    let node = start(local(1), options());
    let idle: Vec<TcpStream> =
        (0..1_000).map(|_| TcpStream::connect(&node.address).unwrap()).collect();
    let peer = start(local(2), options());
    let began = Instant::now();
    peer.net.dial_address(node.address.clone());
    peer.notes.connected(1);
    assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
    // At most the limit is kept, and those for a time only.
    for (place, mut stream) in idle.into_iter().enumerate() {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(ended.is_ok(), "connection {place} is closed: {ended:?}");
    }
    assert!(peer.net.is_connected(NodeId(1)));
}

#[test]
fn restarted_node_is_linked_again() {
    let one = start(local(1), options());
    let two = start(local(2), options());
    introduce(&[&one, &two]);
    one.notes.connected(2);
    let address = two.address.clone();
    drop(two);
    one.notes.disconnected(2);
    assert_eq!(one.net.send(NodeId(2), 3, &[]), Err(SendError::NotConnected));
    let again = start_at(Local { incarnation: 2, ..local(2) }, options(), &address);
    assert_eq!(one.notes.connected(2).incarnation, 2);
    again.notes.connected(1);
    eventually("the counters", || one.net.counters()[0].1.links.get() == 2);
}
