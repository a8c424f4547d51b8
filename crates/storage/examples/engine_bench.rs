//! How fast and how big is the memory engine, beside the standard library's maps?
//!
//! `cargo run --release -p storage --example engine_bench [keys [keys_for_memory]]`
//!
//! Keys have 16 bytes, values 100. Gets and puts go to random keys, in the order of a fixed
//! permutation; hashing the key is part of every figure except where it says "hashed before".
//! Memory is the growth of the resident set, allocator included.

#![allow(clippy::disallowed_types, reason = "the standard maps are what is compared with")]
#![allow(clippy::disallowed_methods, reason = "a bench asks the system for time and memory")]

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;

use keyspace::{HashedKey, KeyHasher, SLOTS, Timestamp};
use storage::engine::{Engine, Layout};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HASHER: KeyHasher = KeyHasher::new([9; 16]);
const HASHED: &str = "engine, hashed";
const ORDERED: &str = "engine, ordered";
/// The first argument of the process that measures memory.
const MEMORY: &str = "--memory";
const VALUE: [u8; 100] = [b'x'; 100];
const BATCH: usize = 16;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == MEMORY).is_some() {
        let layout = if arguments.next().as_deref() == Some(ORDERED) { ORDERED } else { HASHED };
        return memory(layout, arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5_000_000));
    }
    let mut numbers = arguments.filter_map(|number| number.parse().ok());
    let keys = numbers.next().unwrap_or(1_000_000);
    let memory_keys = numbers.next().unwrap_or(5_000_000);

    println!("{keys} keys of 16 B, values of 100 B; ns of processor time per operation");
    println!("{:24} {:>8} {:>8} {:>8} {:>8}", "", "insert", "get", "miss", "replace");
    maps(keys);
    engine(ORDERED, keys);
    let engine = engine(HASHED, keys);
    variants(&engine, keys);
    drop(engine);

    println!("\n{memory_keys} keys: resident bytes per key");
    for layout in [HASHED, ORDERED] {
        // A process of its own, where no freed memory hides the growth.
        let program = std::env::current_exe().expect("a running program has a path");
        let arguments = [MEMORY, layout, &memory_keys.to_string()];
        let status = std::process::Command::new(program).args(arguments).status();
        assert!(status.expect("it ran once already").success());
    }
}

fn layout(name: &str) -> Layout {
    if name == ORDERED {
        Layout::Ordered
    } else {
        Layout::Hashed { first_slot: 0, end_slot: SLOTS }
    }
}

fn memory(name: &str, keys: u64) {
    let before = resident_bytes();
    let mut engine = Engine::new(layout(name), HASHER);
    fill(&mut engine, keys, Timestamp(1));
    let grown = resident_bytes().saturating_sub(before) as f64;
    let usage = engine.usage();
    let per_key = |bytes: f64| bytes / keys as f64;
    println!(
        "{name:24} {:8.1}   versions {:.1}, index {:.1}",
        per_key(grown),
        per_key(usage.live_bytes as f64),
        per_key(usage.index_bytes as f64),
    );
}

/// The `i`-th key: 16 bytes, scattered.
fn key(i: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = i;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The order in which keys are made, and so laid out in memory.
const MADE: f64 = 0.618;
/// The order in which they are used.
const USED: f64 = 0.271;

/// Visits every number below `count` once, in a scattered order.
fn scattered(order: f64, count: u64) -> impl Iterator<Item = u64> {
    let step = (count as f64 * order) as u64 | 1;
    let step = (step..).find(|step| gcd(*step, count) == 1).expect("1 is among the residues");
    (0..count).scan(0, move |i, _| {
        *i = (*i + step) % count;
        Some(*i)
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn fill(engine: &mut Engine, keys: u64, timestamp: Timestamp) {
    for i in scattered(MADE, keys) {
        engine.put(&HASHER.key(&key(i)), &[&VALUE], 0, timestamp);
    }
}

fn per_op(count: u64, mut work: impl FnMut()) -> f64 {
    let start = processor_ns();
    work();
    (processor_ns() - start) as f64 / count as f64
}

fn row(name: &str, columns: [f64; 4]) {
    let [insert, get, miss, replace] = columns;
    println!("{name:24} {insert:8.0} {get:8.0} {miss:8.0} {replace:8.0}");
}

fn engine(name: &str, keys: u64) -> Engine {
    let mut engine = Engine::new(layout(name), HASHER);
    let now = Timestamp(u64::MAX);
    let insert = per_op(keys, || fill(&mut engine, keys, Timestamp(1)));
    let get = |from: u64| {
        per_op(keys, || {
            for i in scattered(USED, keys) {
                black_box(engine.newest(&HASHER.key(&key(i + from)), now));
            }
        })
    };
    let (hit, miss) = (get(0), get(keys));
    // Replaced versions are collected as they would be in a server: behind the writes, in steps.
    let replace = per_op(keys, || {
        for (written, i) in scattered(USED, keys).enumerate() {
            let timestamp = Timestamp(written as u64 + 2);
            engine.put(&HASHER.key(&key(i)), &[&VALUE], 0, timestamp);
            if written % 64 == 0 {
                engine.raise_safe_point(Timestamp(timestamp.0.saturating_sub(10_000)));
                engine.collect(128);
            }
        }
    });
    row(name, [insert, hit, miss, replace]);
    engine
}

fn maps(keys: u64) {
    macro_rules! measure {
        ($name:literal, $map:ident) => {
            let write = |map: &mut _, order| {
                per_op(keys, || {
                    for i in scattered(order, keys) {
                        let map: &mut $map<Box<[u8]>, Box<[u8]>> = map;
                        map.insert(Box::from(key(i)), Box::from(VALUE));
                    }
                })
            };
            let mut map = $map::new();
            let insert = write(&mut map, MADE);
            let get = |from: u64| {
                per_op(keys, || {
                    for i in scattered(USED, keys) {
                        black_box(map.get(&key(i + from)[..]));
                    }
                })
            };
            let (hit, miss) = (get(0), get(keys));
            let replace = write(&mut map, USED);
            row($name, [insert, hit, miss, replace]);
        };
    }
    measure!("std BTreeMap", BTreeMap);
    measure!("std HashMap", HashMap);
}

/// What hashing costs, and what fetching ahead saves.
fn variants(engine: &Engine, keys: u64) {
    let now = Timestamp(u64::MAX);
    let hashing = per_op(keys, || {
        for i in scattered(USED, keys) {
            black_box(HASHER.key(&key(i)));
        }
    });
    let texts: Vec<_> = scattered(USED, keys).map(key).collect();
    let hashed: Vec<HashedKey<'_>> = texts.iter().map(|text| HASHER.key(text)).collect();
    let plain = per_op(keys, || {
        for key in &hashed {
            black_box(engine.newest(key, now));
        }
    });
    let ahead = per_op(keys, || {
        for batch in hashed.chunks(BATCH) {
            batch.iter().for_each(|key| engine.prefetch(key));
            batch.iter().for_each(|key| engine.prefetch_record(key));
            for key in batch {
                black_box(engine.newest(key, now).map(|version| version.value[0]));
            }
        }
    });
    println!(
        "making and hashing a key {hashing:.0}; get of a key hashed before {plain:.0}, \
         in batches of {BATCH} fetched ahead {ahead:.0}"
    );
}

/// Time this thread has run, so that others on the machine disturb less.
fn processor_ns() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    status.split(' ').next().and_then(|ns| ns.parse().ok()).expect("Linux counts it")
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
