//! Writers that check every answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use client::http::{Client, GetResult, PutOptions};

use super::{Cluster, EMPTY};

/// Where they write.
pub const KEYSPACE: &str = "0";
/// Keys that each writer goes round.
pub const KEYS: usize = 60;

/// Writes until it is told to stop, and has been round; what was acknowledged last of each key.
/// Nothing may fail.
fn write(client: &Client, name: usize, stop: &AtomicBool) -> BTreeMap<String, String> {
    let mut written = BTreeMap::new();
    for number in 0.. {
        if number >= KEYS && stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, value) = (format!("w{name}-{}", number % KEYS), format!("v{number}"));
        let put = client.put(KEYSPACE, key.as_bytes(), value.as_bytes(), &PutOptions::default());
        assert!(put.unwrap_or_else(|error| panic!("{key} = {value}: {error}")));
        written.insert(key, value);
    }
    written
}

/// Reads all of it at one node.
#[track_caller]
pub fn read(cluster: &Cluster, asked: usize, written: &BTreeMap<String, String>) {
    let client = cluster.client(asked);
    for (key, value) in written {
        match client.get(KEYSPACE, key.as_bytes(), None).expect("the node answers") {
            GetResult::Value { value: found, .. } => {
                assert_eq!(String::from_utf8_lossy(&found), *value, "{key} at n{asked}");
            }
            _ => panic!("{key} is missing at n{asked}"),
        }
    }
}

/// Has a client write through each node, with keys of its own, while something happens and a little
/// longer. Returns all that they have written.
pub fn write_meanwhile(cluster: &Cluster, happens: impl FnOnce()) -> BTreeMap<String, String> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        let spawn = |name| {
            let client = cluster.client(name);
            scope.spawn(move || write(&client, name, stop))
        };
        let writers: Vec<_> = (0..=EMPTY).map(spawn).collect();
        happens();
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
    })
}
