//! Many clients publish to one topic while its shard's lead moves: they go on at the new leader's
//! queue, and do not conflict with each other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use harness::cluster::Cluster;
use harness::node::TEST_TIMEOUT;
use harness::resp::Connection;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const CLIENTS: usize = 180;
/// For how long all nodes are up before one stops, and after it has come back.
const STEADY: Duration = Duration::from_millis(700);

/// What one client has had.
#[derive(Default)]
struct Had {
    published: u64,
    unknown: u64,
    /// The longest time that a message has taken.
    longest: Duration,
}

#[test]
fn publishers_of_one_topic_do_not_conflict_when_its_lead_moves() {
    let mut cluster = Cluster::start(PROGRAM, "topics_moving", 3, &[], &["0"]);
    cluster.wait_until_replicated("0", 3);
    let (code, text) = cluster.nodes[0].carillon(&["topic", "create", "t", "--messages", "1000"]);
    assert_eq!(code, 0, "{text}");
    let ends = Arc::new(AtomicBool::new(false));
    let addresses: Vec<_> = cluster.nodes.iter().map(|node| node.resp).collect();
    let publishers: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (ends, addresses) = (ends.clone(), addresses.clone());
            thread::spawn(move || publish(&addresses, number, &ends))
        })
        .collect();
    for number in 0..cluster.nodes.len() {
        sleep(STEADY);
        // It gives its leads away.
        cluster.nodes[number].stop();
        cluster.nodes[number].start(&[]);
        cluster.nodes[number].wait_until_ready();
    }
    sleep(STEADY);
    ends.store(true, Ordering::Relaxed);
    let all: Vec<Had> = publishers.into_iter().map(|one| one.join().expect("it ends")).collect();
    let sum = |of: fn(&Had) -> u64| all.iter().map(of).sum::<u64>();
    let (published, unknown) = (sum(|had| had.published), sum(|had| had.unknown));
    let longest = all.iter().map(|had| had.longest).max().expect("there are clients");
    // The number of the last message is how many there were.
    let mut connection = cluster.nodes[0].connect();
    let last = connection.ask(&["TPUBLISH", "t", "last"]).expect("it answers").text();
    let last: u64 = last.parse().expect("a number");
    assert!((published + 1..=published + 1 + unknown).contains(&last), "{last}: {published}");
    assert!(longest < Duration::from_secs(4), "{longest:?}: they stood still");
}

/// Publishes at a node, and at the next one when that is gone.
fn publish(addresses: &[SocketAddr], number: usize, ends: &AtomicBool) -> Had {
    let mut had = Had::default();
    let mut at = number;
    while !ends.load(Ordering::Relaxed) {
        at += 1;
        let opened = Connection::open(addresses[at % addresses.len()], TEST_TIMEOUT, TEST_TIMEOUT);
        let Ok(mut connection) = opened else {
            sleep(Duration::from_millis(20));
            continue;
        };
        while !ends.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let Ok(reply) = connection.ask(&["TPUBLISH", "t", "message"]) else {
                // It may have been done.
                had.unknown += 1;
                break;
            };
            let text = reply.text();
            match text.parse::<u64>() {
                Ok(_) => {
                    had.published += 1;
                    had.longest = had.longest.max(asked.elapsed());
                }
                Err(_) if text.contains("UNKNOWN") => had.unknown += 1,
                Err(_) => assert!(!text.contains("conflict"), "{text}"),
            }
        }
    }
    had
}
