//! Scripts that every engine must answer alike: each file runs on every engine, in every layout
//! of its folder, and always has the same output.
//!
//! | verb | does |
//! |---|---|
//! | `at 200` | what follows happens at this time, in ms; without it, at 100 |
//! | `put k v expires=300` | writes a value |
//! | `delete k` | deletes a key |
//! | `expire k 300` | changes when a key expires; `0` is never |
//! | `flush`, `flush b m` | deletes every key, or those from one on and before another |
//! | `newest k`, `newest k at=250` | reads now, or later than any write |
//! | `get k at=150` | reads at a time |
//! | `changed k` | when the key last changed |
//! | `len at=250` | how many keys have values |
//! | `scan at=150 page=1` | all keys with values, page by page; they are sorted afterwards |
//! | `range "b..m" at=150 reverse=true page=1 max=2` | keys in order, as far as `max` pages go |
//! | `safe_point 150 pins="20,30"` | raises the safe point, with these pins |
//! | `collect`, `collect 1` | frees what may go, or so much |
//!
//! Scripts in `engine/ordered` run on ordered engines alone. `UPDATE_GOLDENFILES=1` writes the
//! outputs anew.

use std::error::Error;
use std::ops::Bound;
use std::path::Path;

use keyspace::{Cut, KeyHasher, SLOTS, Timestamp};
use test_each_file::test_each_path;

use super::super::{
    Engine, Layout, MemoryEngine, Range, ReadResult, ScanCursor, Settings, Version,
};
use super::mirror::Mirror;
use super::model::Model;

test_each_path! { in "crates/storage/tests/golden/engine/any" as any_layout => any_layout }
test_each_path! { in "crates/storage/tests/golden/engine/ordered" as ordered => ordered }

const HASHER: KeyHasher = KeyHasher::new([3; 16]);

fn any_layout(path: &Path) {
    let hashed = Layout::Hashed { first_slot: 0, end_slot: SLOTS };
    for layout in [hashed, Layout::Ordered, Layout::LinearHash] {
        on_all_engines(layout, path);
    }
}

fn ordered(path: &Path) {
    on_all_engines(Layout::Ordered, path);
}

/// The model, the memory engine with either way to flush, and mirrors of them.
fn on_all_engines(layout: Layout, path: &Path) {
    let memory = |flush_in_place_keys_max| {
        MemoryEngine::new(layout, Settings { hasher: HASHER, flush_in_place_keys_max })
    };
    let model = || Model::new(layout, HASHER);
    on(path, model());
    on(path, memory(0));
    on(path, memory(1024));
    on(path, Mirror { a: memory(0), b: model() });
    on(path, Mirror { a: memory(1024), b: memory(0) });
}

fn on<V: Engine>(path: &Path, engine: V) {
    let mut script = Script { engine, now: millis(100) };
    goldenscript::run(&mut script, path).expect("the script runs");
}

#[derive(goldenscript::Command)]
enum Verb {
    At(u64),
    Put {
        key: String,
        value: String,
        #[arg(key, optional)]
        expires: u64,
    },
    Delete(String),
    Expire {
        key: String,
        at: u64,
    },
    Flush {
        #[arg(optional)]
        ends: Vec<String>,
    },
    Newest {
        key: String,
        #[arg(key)]
        at: Option<u64>,
    },
    Get {
        key: String,
        #[arg(key)]
        at: u64,
    },
    Changed(String),
    Len {
        #[arg(key)]
        at: Option<u64>,
    },
    Scan {
        #[arg(key)]
        at: Option<u64>,
        #[arg(key)]
        page: Option<u64>,
    },
    Range {
        keys: String,
        #[arg(key)]
        at: Option<u64>,
        #[arg(key, optional)]
        reverse: bool,
        #[arg(key)]
        page: Option<u64>,
        #[arg(key)]
        max: Option<u64>,
    },
    SafePoint {
        to: u64,
        #[arg(key)]
        pins: Option<String>,
    },
    Collect {
        #[arg(optional)]
        budget: Option<u64>,
    },
}

struct Script<V> {
    engine: V,
    now: Timestamp,
}

fn millis(at: u64) -> Timestamp {
    Timestamp::from_millis(at)
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn version(version: &Version<'_>) -> String {
    let Version { value, expiry_ms, timestamp } = version;
    let until = match expiry_ms {
        0 => String::new(),
        at => format!(" until {at}"),
    };
    format!("\"{}\" of {}{until}", text(value), timestamp.millis())
}

fn was_there(key: &str, was_there: bool) -> String {
    if was_there { String::new() } else { format!("{key}: nothing there") }
}

impl<V: Engine> Script<V> {
    fn scanned(&self, at: Timestamp, page: usize) -> String {
        let mut found: Vec<String> = Vec::new();
        let mut visit = |key: &[u8], seen: Version<'_>| {
            found.push(format!("{}={}", text(key), text(seen.value)));
        };
        match self.engine.layout() {
            Layout::Hashed { .. } => {
                let mut next = Some(ScanCursor::default());
                while let Some(from) = next {
                    next = self.engine.scan(from, page, at, &mut visit).expect("hashed");
                }
            }
            Layout::LinearHash => {
                let mut next = Some(0);
                while let Some(from) = next {
                    next = self.engine.scan_numbers(from, page, at, &mut visit).expect("numbers");
                }
            }
            Layout::Ordered => return self.ranged("..", at, (false, page, usize::MAX)),
        }
        found.sort();
        found.join(" ")
    }

    fn ranged(
        &self,
        keys: &str,
        at: Timestamp,
        (reverse, page, pages_max): (bool, usize, usize),
    ) -> String {
        let (low, high) = keys.split_once("..").expect("low..high");
        let (low, high) = (low.as_bytes(), high.as_bytes());
        let mut range = Range {
            start: if low.is_empty() { Bound::Unbounded } else { Bound::Included(low) },
            end: if high.is_empty() { Bound::Unbounded } else { Bound::Excluded(high) },
            reverse,
            visited_max: page,
            examined_max: usize::MAX,
        };
        let mut found = Vec::new();
        for _ in 0..pages_max {
            let mut visit = |key: &[u8], seen: Version<'_>| {
                found.push(format!("{}={}", text(key), text(seen.value)));
            };
            let Some(last) = self.engine.range(&range, at, &mut visit).expect("ordered") else {
                break;
            };
            let bound = if reverse { &mut range.end } else { &mut range.start };
            *bound = Bound::Excluded(last);
        }
        found.join(" ")
    }

    fn write(&mut self, verb: &Verb) -> String {
        let (engine, now) = (&mut self.engine, self.now);
        match verb {
            Verb::Put { key, value, expires } => {
                engine.put(&HASHER.key(key.as_bytes()), &[value.as_bytes()], *expires, now);
                String::new()
            }
            Verb::Delete(key) => was_there(key, engine.delete(&HASHER.key(key.as_bytes()), now)),
            Verb::Expire { key, at } => {
                was_there(key, engine.set_expiry(&HASHER.key(key.as_bytes()), *at, now))
            }
            Verb::Flush { ends } => {
                match &ends[..] {
                    [from, end] => {
                        let [from, end] = [from, end].map(|key| Cut::Key(key.as_bytes().into()));
                        engine.flush_within(&from, &end, now);
                    }
                    _ => engine.flush(now),
                }
                String::new()
            }
            _ => unreachable!("it is a read"),
        }
    }
}

impl<V: Engine> goldenscript::Runner for Script<V> {
    type Command = Verb;

    fn run(&mut self, verb: &Verb, _: &goldenscript::Context) -> Result<String, Box<dyn Error>> {
        let engine = &mut self.engine;
        let at = |at: &Option<u64>| at.map_or(self.now, millis);
        let size = |of: &Option<u64>| of.map_or(usize::MAX, |of| of as usize);
        Ok(match verb {
            Verb::At(at) => {
                self.now = millis(*at);
                String::new()
            }
            Verb::Newest { key, at: time } => {
                let newest = engine.newest(&HASHER.key(key.as_bytes()), at(time));
                let newest = newest.as_ref().map_or("nil".to_owned(), version);
                format!("{key}: {newest}")
            }
            Verb::Get { key, at } => {
                let found = match engine.at(&HASHER.key(key.as_bytes()), millis(*at)) {
                    ReadResult::Value(found) => version(&found),
                    ReadResult::Nil => "nil".to_owned(),
                    ReadResult::NilYet => "nil yet".to_owned(),
                };
                format!("{key}: {found}")
            }
            Verb::Changed(key) => {
                let at = engine.newest_timestamp(&HASHER.key(key.as_bytes()));
                format!("{key}: {}", at.millis())
            }
            Verb::Len { at: time } => format!("{} keys", engine.len(at(time))),
            Verb::Scan { at: time, page } => self.scanned(at(time), size(page)),
            Verb::Range { keys, at: time, reverse, page, max } => {
                self.ranged(keys, at(time), (*reverse, size(page), size(max)))
            }
            Verb::SafePoint { to, pins } => {
                let pins = pins.iter().flat_map(|pins| pins.split(','));
                let pins: Result<Vec<u64>, _> = pins.map(str::parse).collect();
                let pins: Vec<Timestamp> = pins?.into_iter().map(millis).collect();
                engine.raise(millis(*to), &pins);
                let pins = engine.pins().iter().map(|pin| format!(", pin {}", pin.millis()));
                format!("safe point {}{}", engine.safe_point().millis(), pins.collect::<String>())
            }
            // Whether there is more to do is each engine's own, unless it had no limit.
            Verb::Collect { budget } => {
                let more = engine.collect(size(budget));
                assert!(!more || budget.is_some(), "collection without a limit has stopped");
                String::new()
            }
            _ => self.write(verb),
        })
    }
}
