//! Ordered keyspaces are split at keys while clients write to them and read ranges: real processes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use client::http::KeyspaceSpec;

use crate::four::{Cluster, EMPTY, until};

pub const KEYSPACE: &str = "days";
/// Keys that are there throughout.
pub const KEYS: usize = 1_000;

/// A Redis client of one node, in the ordered keyspace.
pub struct Redis(BufReader<TcpStream>);

impl Redis {
    pub fn new(cluster: &Cluster, asked: usize) -> Self {
        let stream = TcpStream::connect(cluster.resp_of(asked)).expect("the node listens");
        let mut redis = Self(BufReader::new(stream));
        assert_eq!(redis.ask(&["SELECT", KEYSPACE]), ["OK"]);
        redis
    }

    /// The answer, flat; none may be an error.
    pub fn ask(&mut self, command: &[&str]) -> Vec<String> {
        let mut line = format!("*{}\r\n", command.len());
        for word in command {
            line += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(line.as_bytes()).expect("the node reads");
        let mut all = Vec::new();
        self.answer(&mut all);
        all
    }

    fn answer(&mut self, all: &mut Vec<String>) {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the node answers");
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "+" | ":" => all.push(rest.into()),
            "*" => (0..rest.parse::<i64>().expect("a number")).for_each(|_| self.answer(all)),
            "$" if rest != "-1" => {
                let mut bytes = vec![0; rest.parse::<usize>().expect("a length") + 2];
                self.0.read_exact(&mut bytes).expect("it is as long");
                bytes.truncate(bytes.len() - 2);
                all.push(String::from_utf8(bytes).expect("text"));
            }
            _ => panic!("{line}"),
        }
    }
}

pub fn name(number: usize) -> String {
    format!("day-{number:04}")
}

/// The ids of the keyspace's shards, as a node knows them.
fn shards(cluster: &Cluster, asked: usize) -> Vec<u64> {
    let all = cluster.client(asked).shards(Some(KEYSPACE)).expect("the node answers");
    let all = all["shards"].as_array().expect("a list");
    all.iter().map(|shard| shard["id"].as_u64().expect("an id")).collect()
}

/// Four nodes, and the keyspace with its keys.
pub fn begin(cluster: &mut Cluster) {
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    let placement = Some("ordered".into());
    let spec = KeyspaceSpec { name: KEYSPACE.into(), placement, ..Default::default() };
    cluster.client(0).keyspace_create(&spec).expect("the keyspace is created");
    until("all know it", || {
        let knows = |asked| cluster.client(asked).shards(Some(KEYSPACE)).is_ok();
        (0..=EMPTY).all(knows).then_some(())
    });
    let mut redis = Redis::new(cluster, 1);
    for number in 0..KEYS {
        redis.ask(&["SET", &name(number), "v"]);
    }
}

/// All, and a part from high to low, of keys that are there throughout.
fn ranges(redis: &mut Redis) {
    let all: Vec<String> = (0..KEYS).map(name).collect();
    assert_eq!(redis.ask(&["RANGE", "[day-", "(day-x"]), all);
    let part = redis.ask(&["RANGE", "(day-0750", "[day-0250", "REV", "LIMIT", "600"]);
    assert!(part.iter().eq(all[250..750].iter().rev()), "{part:?}");
    let few = redis.ask(&["RANGE", "[day-0495", "+", "LIMIT", "10"]);
    assert_eq!(few, all[495..505]);
}

#[test]
fn ordered_shards_split_while_clients_read_ranges() {
    let flags = ["--split-bytes", "1MiB", "--merge-bytes", "off"];
    let mut cluster = Cluster::new("ordered", &flags);
    begin(&mut cluster);
    let first = shards(&cluster, 0)[0];

    // Cut at keys, asked for at any node, while others write between them and read them all.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (stop, cluster) = (&stop, &cluster);
        for asked in 0..=EMPTY {
            scope.spawn(move || {
                let (mut redis, mut rounds) = (Redis::new(cluster, asked), 0);
                while !stop.load(Ordering::Relaxed) || rounds < 3 {
                    ranges(&mut redis);
                    let written = format!("night-{asked}-{rounds}");
                    redis.ask(&["SET", &written, "v"]);
                    assert_eq!(redis.ask(&["GET", &written]), ["v"]);
                    rounds += 1;
                }
            });
        }
        for (cut, at) in ["day-0500", "day-0250", "day-0126"].into_iter().enumerate() {
            cluster.done(cut, &format!("split {first} --at {at}"), &format!("at key {at}"));
            until("both halves are known", || {
                (shards(cluster, EMPTY).len() == cut + 2).then_some(())
            });
        }
        // And where its bytes part, nobody says where.
        cluster.done(1, &format!("split {first}"), "splits at key day-00");
        until("both halves are known", || (shards(cluster, EMPTY).len() == 5).then_some(()));
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
    });
    let (code, output) = cluster.run(1, &format!("split {first} --at zebra"));
    assert!(code != 0 && output.contains("leaves nothing on one side"), "{output}");
    for asked in 0..=EMPTY {
        until("all halves are known", || (shards(&cluster, asked).len() == 5).then_some(()));
        let mut redis = Redis::new(&cluster, asked);
        ranges(&mut redis);
        let all: usize = redis.ask(&["DBSIZE"])[0].parse().expect("a number");
        assert_eq!(redis.ask(&["KEYS", "*"]).len(), all);
    }

    // Killed and started again, from the log: all halves are there, and go on.
    for number in [1, 2, 0] {
        cluster.kill(number);
        cluster.start(number);
        cluster.nodes(number);
        ranges(&mut Redis::new(&cluster, number));
    }

    // Too much for shards of 1 MiB: they are cut by themselves.
    let (mut redis, long) = (Redis::new(&cluster, 2), "x".repeat(60 << 10));
    for number in 0..80 {
        redis.ask(&["SET", &format!("long-{number}"), &long]);
    }
    until("they are cut", || (shards(&cluster, 0).len() >= 8).then_some(()));
    ranges(&mut Redis::new(&cluster, EMPTY));
    // A flush is of all of them.
    assert_eq!(Redis::new(&cluster, EMPTY).ask(&["FLUSHDB"]), ["OK"]);
    assert_eq!(Redis::new(&cluster, 0).ask(&["DBSIZE"]), ["0"]);
    assert!(Redis::new(&cluster, 1).ask(&["RANGE", "-", "+"]).is_empty());
}
