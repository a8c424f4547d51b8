//! A keyspace of linear hashing grows and shrinks while clients use it through every node: real
//! processes.

use client::http::{Client, PutOptions};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

mod four;
use four::writers::{KEYS, KEYSPACE, read, write_meanwhile};
use four::{Cluster, EMPTY, until};
use harness::command;

/// The keyspace that writers use becomes one of linear hashing; its first shard.
fn make_linear(cluster: &Cluster) -> u64 {
    cluster.done(0, "keyspace drop 0", "");
    until("it is made", || {
        let (code, _) = cluster.run(0, "keyspace create 0 --placement linear-hash --replicas 3");
        (code == 0).then_some(())
    });
    for asked in 0..=EMPTY {
        until("it is known", || (arcs(cluster, asked).len() == 1).then_some(()));
    }
    arcs(cluster, 0)[0].0
}

/// The shards that a node knows of it, with their arcs in hexadecimal.
fn arcs(cluster: &Cluster, asked: usize) -> Vec<(u64, [String; 2])> {
    let Ok(shards) = cluster.client(asked).shards(Some(KEYSPACE)) else { return Vec::new() };
    let all = shards["shards"].as_array().cloned().unwrap_or_default();
    let end = |arc: &serde_json::Value, at: usize| arc[at].as_str().unwrap_or("?").to_owned();
    let one = |shard: &serde_json::Value| {
        let arc = &shard["arc"];
        (shard["id"].as_u64().unwrap_or(0), [end(arc, 0), end(arc, 1)])
    };
    all.iter().map(one).collect()
}

/// Asks of every shard, at any node, until the one whose turn it is has heard; the others name it.
fn turn(cluster: &Cluster, asked: usize, what: &str, buckets: usize) {
    let (first, _) = arcs(cluster, asked)[0];
    until("a bucket has its turn", || {
        let (code, output) = cluster.run(asked, &format!("{what} {first}"));
        let output = output.replace('\n', " ");
        let next = output.split("the turn of shard ").nth(1).and_then(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().ok()
        });
        match next {
            Some(next) => (cluster.run(asked, &format!("{what} {next}")).0 == 0).then_some(()),
            None => (code == 0).then_some(()),
        }
    });
    for asked in 0..=EMPTY {
        until("all know its shards", || (arcs(cluster, asked).len() == buckets).then_some(()));
    }
}

/// Starts of buckets, of a file of so many: turned about, they are the numbers below that.
fn starts(cluster: &Cluster, asked: usize) -> BTreeSet<u64> {
    let start = |(_, [start, _]): &(u64, [String; 2])| match &**start {
        "" => 0,
        hex => u64::from_str_radix(hex, 16).expect("a number").reverse_bits(),
    };
    arcs(cluster, asked).iter().map(start).collect()
}

/// Every lookup of every node finds the same owner of each key; `lh` by so many forwards at most.
fn look_up(cluster: &Cluster, forwards_max: u64) {
    for asked in 0..=EMPTY {
        for number in 0..24 {
            let key = format!("way-{number}");
            // Tables of rings hear of cuts within seconds; the file's buckets know at once.
            let ways = until("all lookups agree", || {
                let client = cluster.client(asked);
                let ways = client.routes(KEYSPACE, key.as_bytes(), "all recursive noimages");
                let ways = ways.ok()?.as_array()?.clone();
                let agrees = |way: &serde_json::Value| {
                    way["failure"].is_null() && way["shard"] == ways[0]["shard"]
                };
                (ways.len() == 5 && ways.iter().all(agrees)).then_some(ways)
            });
            let lh = ways.iter().find(|way| way["lookup"] == "lh").expect("one of five");
            assert!(lh["hops"].as_u64().is_some_and(|hops| hops <= forwards_max), "{lh}");
        }
    }
}

struct Resp(BufReader<TcpStream>);

impl Resp {
    fn to(cluster: &Cluster, number: usize) -> Self {
        Self(BufReader::new(TcpStream::connect(cluster.resp_of(number)).expect("the node listens")))
    }

    /// What is answered: of arrays all that is in them, one after the other.
    fn call(&mut self, line: &str) -> Vec<String> {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).expect("the node reads");
        let mut out = Vec::new();
        self.take(&mut out);
        out
    }

    fn take(&mut self, out: &mut Vec<String>) {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the node answers");
        let line = line.trim_end();
        match line.split_at(1) {
            ("*", count) => {
                (0..count.parse::<i64>().expect("a count")).for_each(|_| self.take(out));
            }
            ("$", "-1") => out.push("(nil)".into()),
            ("$", length) => {
                let mut bytes = vec![0; length.parse::<usize>().expect("a length") + 2];
                self.0.read_exact(&mut bytes).expect("a value");
                bytes.truncate(bytes.len() - 2);
                out.push(String::from_utf8(bytes).expect("text"));
            }
            _ => out.push(line.to_owned()),
        }
    }

    fn scan(&mut self) -> BTreeSet<String> {
        let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let mut page = self.call(&format!("SCAN {cursor} COUNT 7")).into_iter();
            cursor = page.next().expect("a cursor");
            found.extend(page);
            if cursor == "0" {
                return found;
            }
        }
    }
}

#[test]
fn linear_hash_table_grows_and_shrinks_under_writes() {
    let mut cluster = Cluster::new("files", &["--balance=off", "--merge-bytes", "off"]);
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    let first = make_linear(&cluster);

    let written = write_meanwhile(&cluster, || {
        for buckets in 2..=6 {
            turn(&cluster, buckets % (EMPTY + 1), "split", buckets);
            assert_eq!(starts(&cluster, 0), (0..buckets as u64).collect());
        }
        look_up(&cluster, 2);
        for buckets in (3..6).rev() {
            turn(&cluster, buckets % (EMPTY + 1), "merge", buckets);
            assert_eq!(starts(&cluster, 0), (0..buckets as u64).collect());
        }
        // Images are ahead now: who has a bucket that is gone says so, or nobody does.
        look_up(&cluster, 4);
    });
    assert_eq!(written.len(), KEYS * (EMPTY + 1));
    let names: BTreeSet<String> = written.keys().cloned().collect();
    for asked in 0..=EMPTY {
        read(&cluster, asked, &written);
        shards_answer_as_one(&cluster, asked, &names);
    }

    // What cannot be done is said, and changes nothing.
    cluster.refused(0, &format!("split {first} --at 5"), "name no place");

    // Killed and started again, from the log: it goes on.
    for number in [1, 2, 0] {
        cluster.kill(number);
        cluster.start(number);
        cluster.nodes(number);
        read(&cluster, number, &written);
    }
    turn(&cluster, 1, "split", 4);
    assert_eq!(starts(&cluster, EMPTY), (0..4).collect());
    until("all is well", || {
        let status = cluster.client(0).status().ok()?;
        (status["health"]["verdict"] == "ok").then_some(())
    });
    let mut resp = Resp::to(&cluster, EMPTY);
    assert_eq!(resp.call("FLUSHDB"), ["+OK"]);
    assert_eq!((resp.call("DBSIZE"), resp.scan()), (vec![":0".to_owned()], BTreeSet::new()));
    cluster.stop(1);
    let dir = cluster.dir_of(1);
    let words = ["check".as_ref(), dir.as_os_str()];
    let checked = command::run(env!("CARGO_BIN_EXE_carillon"), words, b"", &[]);
    assert_eq!(checked.code, 0, "{}", checked.text());
}

/// Questions about all keys, and commands of several, at a node that has no more than a part.
fn shards_answer_as_one(cluster: &Cluster, asked: usize, names: &BTreeSet<String>) {
    let mut resp = Resp::to(cluster, asked);
    assert_eq!(resp.call("DBSIZE"), [format!(":{}", names.len())]);
    assert_eq!(resp.call("KEYS *").into_iter().collect::<BTreeSet<_>>(), *names);
    assert_eq!(resp.scan(), *names, "n{asked}");
    assert!(resp.call("RANGE - +")[0].contains("needs a keyspace with ordered placement"));
    assert!(names.contains(&resp.call("RANDOMKEY")[0]));
    // Over shards, as one.
    assert_eq!(resp.call("MSET t1 1 t2 2 t3 3 t4 4"), ["+OK"]);
    assert_eq!(resp.call("MGET t1 t2 none t4"), ["1", "2", "(nil)", "4"]);
    for (line, reply) in
        [("MULTI", "+OK"), ("INCR t1", "+QUEUED"), ("INCR t2", "+QUEUED"), ("GET t3", "+QUEUED")]
    {
        assert_eq!(resp.call(line), [reply]);
    }
    assert_eq!(resp.call("EXEC"), [":2", ":3", "3"]);
    assert_eq!(resp.call("RENAME t1 t5"), ["+OK"]);
    assert_eq!(resp.call("DEL t2 t3 t4 t5"), [":4"]);
}

fn put(client: &Client, key: &str, value: &[u8]) {
    until("it is written", || {
        let put = client.put(KEYSPACE, key.as_bytes(), value, &PutOptions::default());
        put.is_ok_and(|put| put).then_some(())
    });
}

#[test]
fn linear_hash_table_grows_and_shrinks_automatically() {
    let flags = ["--balance=off", "--split-bytes", "1MiB", "--merge-bytes", "512KiB"];
    let mut cluster = Cluster::new("growing-files", &flags);
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    make_linear(&cluster);
    let (client, long) = (cluster.client(EMPTY), vec![b'x'; 60 << 10]);
    let names: Vec<String> = (0..80).map(|number| format!("long-{number}")).collect();
    names.iter().for_each(|name| put(&client, name, &long));
    until("it has grown", || (arcs(&cluster, 0).len() >= 4).then_some(()));
    for name in &names {
        put(&client, name, b"short");
    }
    until("it has shrunk", || (arcs(&cluster, EMPTY).len() == 1).then_some(()));
    let mut resp = Resp::to(&cluster, EMPTY);
    assert_eq!(resp.scan(), names.into_iter().collect());
}
