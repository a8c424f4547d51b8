//! Tests that snapshots reach new replicas over links that break before the transfer is complete.

use std::thread::sleep;
use std::time::{Duration, Instant};

use client::http::{Client, KeyspaceSpec};
use serde_json::Value;

use crate::cluster::node::HTTP;
use crate::cluster::proxy::Weather;
use crate::cluster::{Cluster, TEST_TIMEOUT};
use harness::resp::{Connection, TextReply};

const VALUES: usize = 512;
const VALUE_BYTES: usize = 64 << 10;
/// Of each link: so that it takes about two seconds.
const RATE: u64 = 16 << 20;
/// Links are cut when so many hundredths have arrived.
const CUTS: [u64; 3] = [20, 45, 70];
/// What both others are to get.
const PAYLOAD: u64 = (2 * VALUES * VALUE_BYTES) as u64;
const SETTLE: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(5);

fn key(number: usize) -> String {
    format!("key-{number:04}")
}

fn value(number: usize) -> String {
    format!("{number:07} ").repeat(VALUE_BYTES / 8)
}

fn open(cluster: &Cluster, number: usize) -> Connection {
    let address = cluster.resp()[number - 1];
    let open =
        || Connection::open(address, TEST_TIMEOUT, TEST_TIMEOUT).expect("a node that is ready");
    let mut connection = cluster.net.clients().inside(open);
    assert_eq!(connection.ask(&["SELECT", "big"]).unwrap(), TextReply::Simple("OK".into()));
    connection
}

/// The sum of a node's metrics that begin so.
fn metric(cluster: &mut Cluster, number: usize, name: &str) -> u64 {
    let address = cluster.node(number).at(HTTP);
    let text = cluster.net.clients().inside(|| {
        Client::new(&address.to_string()).unwrap().metrics().expect("a node that is ready")
    });
    let samples = text.lines().filter(|line| line.starts_with(name));
    let numbers = samples.map(|line| line.rsplit(' ').next().expect("a word"));
    let all: Vec<f64> = numbers.map(|number| number.parse().expect("a number")).collect();
    assert!(!all.is_empty(), "no {name} in {text}");
    all.iter().sum::<f64>() as u64
}

const SENT: &str = r#"carillon_snapshot_blocks_total{direction="sent"}"#;
const RECEIVED: &str = r#"carillon_snapshot_blocks_total{direction="received"}"#;
const BYTES_RECEIVED: &str = r#"carillon_snapshot_bytes_total{direction="received"}"#;

/// Cuts the first node's links with both others, and lets new ones be.
fn cut(cluster: &mut Cluster) {
    const LOSSES: &str = "carillon_peer_link_losses_total";
    let before = metric(cluster, 1, LOSSES);
    weather(cluster, Weather { cut: Some(1), rate: Some(RATE), ..Weather::default() });
    wait("both links are lost", || metric(cluster, 1, LOSSES) >= before + 2);
    weather(cluster, Weather { rate: Some(RATE), ..Weather::default() });
}

fn weather(cluster: &Cluster, weather: Weather) {
    cluster.proxies().iter().for_each(|proxy| proxy.set(weather));
}

/// Whether all shards have three replicas that vote, as a node sees it.
fn is_whole(cluster: &mut Cluster, number: usize) -> bool {
    let address = cluster.node(number).at(HTTP).to_string();
    let ask = || Client::new(&address)?.with_timeout(TEST_TIMEOUT).shards(None);
    let answer = cluster.net.clients().inside(ask).expect("a node that is ready");
    let votes = |replica: &Value| replica["role"] == "voter" && replica["live"] == true;
    answer["shards"].as_array().expect("a list of shards").iter().all(|shard| {
        let replicas = shard["replicas"].as_array().expect("a list of replicas");
        replicas.len() == 3 && replicas.iter().all(votes)
    })
}

/// Nodes of which the first has it all, and the others begin to get it.
fn begun() -> Cluster {
    let mut cluster = Cluster::behind_proxies(3, 1);
    cluster.node(1).start();
    wait("it is ready", || cluster.status(1).is_ok_and(|status| status["ready"] == true));
    let address = cluster.node(1).at(HTTP).to_string();
    let spec = KeyspaceSpec {
        name: "big".into(),
        placement: Some("ordered".into()),
        replicas: Some(3),
        ..KeyspaceSpec::default()
    };
    let create = || Client::new(&address)?.with_timeout(TEST_TIMEOUT).keyspace_create(&spec);
    cluster.net.clients().inside(create).expect("a keyspace");
    let mut first = open(&cluster, 1);
    for number in 0..VALUES {
        let answer = first.ask(&["SET", &key(number), &value(number)]).unwrap();
        assert_eq!(answer, TextReply::Simple("OK".into()));
    }
    weather(&cluster, Weather { rate: Some(RATE), ..Weather::default() });
    (2..=3).for_each(|number| cluster.node(number).start());
    cluster.wait_until_ready();
    cluster
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "not so: {what}");
        sleep(LOOK_EVERY);
    }
}

/// What two of three know, without the first: all there is.
fn assert_all_is_there(mut cluster: Cluster) {
    // Who votes already may still be part of a change, in which the first counts for more.
    sleep(SETTLE);
    cluster.node(1).kill();
    for number in 2..=3 {
        let mut connection = open(&cluster, number);
        for number in 0..VALUES {
            let answer = connection.ask(&["GET", &key(number)]).unwrap();
            assert_eq!(answer, TextReply::Bulk(value(number)), "{}", key(number));
        }
    }
}

#[test]
fn snapshot_over_cut_links_resends_little() {
    let mut cluster = begun();
    let begun = Instant::now();
    let arrived = |cluster: &mut Cluster| -> u64 {
        [2, 3].map(|to| metric(cluster, to, BYTES_RECEIVED)).iter().sum()
    };
    for hundredths in CUTS {
        wait("it arrives", || arrived(&mut cluster) >= PAYLOAD / 100 * hundredths);
        eprintln!("{hundredths} % after {:.3?}: cut", begun.elapsed());
        cut(&mut cluster);
    }
    wait("all shards are whole", || is_whole(&mut cluster, 1));
    eprintln!("whole after {:.3?}", begun.elapsed());
    weather(&cluster, Weather::default());

    let resumes = metric(&mut cluster, 1, "carillon_snapshot_resumes_total");
    let sent = metric(&mut cluster, 1, SENT);
    let taken: u64 = [2, 3].map(|to| metric(&mut cluster, to, RECEIVED)).iter().sum();
    let bytes = arrived(&mut cluster);
    eprintln!("{sent} blocks sent, {taken} taken, {bytes} bytes, {resumes} times gone on");
    assert!(resumes >= CUTS.len() as u64, "{resumes}");
    assert!(bytes < PAYLOAD + PAYLOAD / 10, "a state was sent anew: {bytes} of {PAYLOAD} bytes");
    assert!(2 * sent < 3 * taken, "{sent} blocks sent for {taken}");
    assert_all_is_there(cluster);
}

#[test]
fn snapshot_starts_over_at_restarted_receiver() {
    let mut cluster = begun();
    wait("it arrives", || metric(&mut cluster, 3, BYTES_RECEIVED) >= PAYLOAD / 8);
    cluster.node(3).kill();
    cluster.restart(3);
    wait("all shards are whole", || is_whole(&mut cluster, 1));
    weather(&cluster, Weather::default());
    let bytes = metric(&mut cluster, 3, BYTES_RECEIVED);
    assert!(bytes >= PAYLOAD / 2, "{bytes} bytes of one moment");
    assert_all_is_there(cluster);
}
