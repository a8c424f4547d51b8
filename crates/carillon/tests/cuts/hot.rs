//! Hot shards are split where that helps, and only there: real processes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use client::http::GetResult;
use keyspace::slot_of;

use crate::four::{Cluster, EMPTY, until};

const KEYSPACE: &str = "0";

fn shards(cluster: &Cluster) -> usize {
    let shards = cluster.client(0).shards(Some(KEYSPACE)).expect("the node answers");
    shards["shards"].as_array().map_or(0, Vec::len)
}

/// All that a node counts.
fn metrics(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).expect("the node listens");
    let ask = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).expect("the node listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the node answers");
    text
}

/// Keys of the keyspace's shard at `place`, of the eight that it began with.
fn keys_of(place: u16) -> impl Iterator<Item = String> {
    (0..).map(|n| format!("hot-{n}")).filter(move |k| slot_of(k.as_bytes()) / 2048 == place)
}

/// Writes these keys in turn, fifty at a time, 2 500 a second; how often it came round.
fn hammer(at: SocketAddr, keys: &[String], stop: &AtomicBool) -> usize {
    let mut stream = TcpStream::connect(at).expect("the node listens");
    let mut buffer = vec![0; 1 << 16];
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return round;
        }
        let some = keys.iter().cycle().skip(round * 50 % keys.len()).take(50);
        let line =
            |key: &String| format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1\r\nv\r\n", key.len());
        stream.write_all(some.map(line).collect::<String>().as_bytes()).expect("the node reads");
        let mut left = 50 * "+OK\r\n".len();
        while left > 0 {
            let got = stream.read(&mut buffer).expect("the node answers");
            let reply = String::from_utf8_lossy(&buffer[..got]);
            assert!(got > 0 && !reply.contains('-'), "{reply}");
            left -= got;
        }
        thread::sleep(Duration::from_millis(20));
    }
    unreachable!("it is told to stop")
}

#[test]
fn hot_shard_is_split_unless_one_key_is_hot() {
    let mut cluster = Cluster::new("hot", &["--split-rate", "1500"]);
    cluster.begin(0..=EMPTY - 1);
    let (spread, one): (Vec<String>, Vec<String>) =
        (keys_of(2).take(400).collect(), keys_of(5).take(1).collect());
    let says = |line: &str| {
        (0..EMPTY).any(|asked| metrics(cluster.http_of(asked)).lines().any(|shown| shown == line))
    };
    let one_key = "carillon_shards_too_hot{reason=\"one-key\"} 1";
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let all = [(1, &spread), (2, &spread), (0, &one), (1, &one)];
        let clients = all.map(|(asked, keys)| {
            let (at, stop) = (cluster.resp_of(asked), &stop);
            scope.spawn(move || hammer(at, keys, stop))
        });
        until("one is cut, and one is not", || {
            (shards(&cluster) >= 9 && says(one_key)).then_some(())
        });
        // Both halves serve.
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        assert!(clients.into_iter().all(|client| client.join().expect("a client") > 10));
    });
    let reasons: String = (0..EMPTY).map(|asked| cluster.run(asked, "shards --why").1).collect();
    assert!(reasons.contains("requests/s, above split_rate = 1500"), "{reasons}");
    let all = cluster.client(0).shards(Some(KEYSPACE)).expect("the node answers");
    let all = all["shards"].as_array().expect("a list");
    let slots = |shard: u64| all.iter().find(|one| one["id"] == shard).map(|one| &one["slots"]);
    assert!(slots(3) != Some(&serde_json::json!([4096, 6143])), "it is cut: {all:?}");
    assert_eq!(slots(6), Some(&serde_json::json!([10240, 12287])), "it has its one key: {all:?}");
    for key in spread.iter().chain(&one) {
        for asked in 0..EMPTY {
            let got = cluster.client(asked).get(KEYSPACE, key.as_bytes(), None).expect("answers");
            assert!(matches!(got, GetResult::Value { value, .. } if value == b"v"));
        }
    }
}
