//! The lock table of a shard. Each step is an entry of its own, 10 ms after the one before.
//!
//! | verb | does |
//! |---|---|
//! | `at 200` | the next entry has this time, in ms |
//! | `apply "SET k v"` | a command by itself |
//! | `prepare T100 "INCRBY n 5"` | locks the keys of commands for the transaction that began at 100 ms; `promised=a,n` also stages its record, of key a or `record=`; `watch=k@50` and `range=b..m` are checked; `commits=150` commits it at once, all else having been locked at 150; `before=270` if that is the earliest deadline there |
//! | `decide T100 commit=250` | ends the record; without a time it is aborted |
//! | `resolve T100 commit=250 a n` | gives up locks; without a time nothing is written |
//! | `prevent T100 a` | keeps keys from being locked |
//! | `look T100` | asks what the record says |
//! | `forget T100 floor=150` | its keys need no more care; nothing below the floor is prepared again |
//! | `read k at=200` | what a reader sees of a key, by its newest value or as of a time |
//! | `write k` | whether a write of the key has to wait |
//! | `split m` | cuts the shard; the right half is named by the prefix `right:` from then on |
//! | `show` | locks, records and marks |

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use command::{Step as Command, Transaction};
use goldenscript::Context;
use keyspace::Timestamp;
use txn::locks::{Deadline, Keys, Outcome, Prepare, Role, Step};

use crate::shard::Shard;
use crate::{shown, steps, words};

/// The coordinator of all.
const BY: u64 = 7;

#[derive(goldenscript::Command)]
pub enum Verb {
    At(u64),
    Apply(String),
    Prepare {
        id: String,
        #[arg(key, optional)]
        promised: String,
        #[arg(key, optional)]
        record: Option<String>,
        #[arg(key, optional)]
        watch: String,
        #[arg(key, optional)]
        range: String,
        #[arg(key)]
        commits: Option<u64>,
        #[arg(key, optional)]
        before: u64,
        #[arg(optional)]
        commands: Vec<String>,
    },
    Decide {
        id: String,
        #[arg(key)]
        commit: Option<u64>,
        #[arg(key)]
        record: Option<String>,
    },
    Resolve {
        id: String,
        #[arg(key)]
        commit: Option<u64>,
        keys: Vec<String>,
    },
    Prevent {
        id: String,
        keys: Vec<String>,
    },
    Look(String),
    Forget {
        id: String,
        #[arg(key)]
        floor: Option<u64>,
    },
    Read {
        key: String,
        #[arg(key)]
        at: Option<u64>,
    },
    Write(String),
    Split(String),
    Show,
}

pub struct Runner {
    shards: BTreeMap<String, Shard>,
    next: u64,
}

impl Default for Runner {
    fn default() -> Self {
        let whole = shown::ordered(1, "", "");
        Self { shards: BTreeMap::from([(String::new(), whole)]), next: 200 }
    }
}

fn millis(at: u64) -> Timestamp {
    Timestamp::from_millis(at)
}

fn ended(commit: Option<u64>) -> Outcome {
    commit.map_or(Outcome::Aborted, |at| Outcome::Committed(millis(at)))
}

fn keys(all: &[String]) -> Keys<'_> {
    all.iter().map(String::as_bytes).collect()
}

impl Runner {
    fn now(&mut self) -> Timestamp {
        let now = millis(self.next);
        self.next += 10;
        now
    }

    fn step(&mut self, shard: &str, step: &Step<'_>) -> String {
        let now = self.now();
        let reply = shown::step(self.shards.get_mut(shard).expect("a shard"), now, step);
        format!("{}: {}", now.millis(), words::step_reply(&reply))
    }

    fn prepare(&mut self, shard: &str, verb: &Verb) -> String {
        let Verb::Prepare { id, promised, record, watch, range, commits, before, commands } = verb
        else {
            panic!("it is looked at before")
        };
        let commands: Vec<Command<'_>> = commands.iter().map(|text| words::command(text)).collect();
        let places = (0..commands.len() as u32).collect();
        let watched = steps::watched(watch);
        let ranges = steps::range(range).into_iter().collect();
        let part = Transaction { watched, commands, ranges, ..Transaction::default() };
        let role = commits.map_or(Role::Votes, |after| Role::Commits(millis(after)));
        let (record, promised) =
            (record.as_deref().unwrap_or("a").as_bytes(), steps::keys(promised).collect());
        let (id, is_first, reserved_as) = (words::id(id, BY), false, None);
        let deadline = Some(Deadline::of(*before));
        let prepare =
            Prepare { id, is_first, reserved_as, record, promised, role, deadline, places, part };
        self.step(shard, &Step::Prepare(prepare))
    }

    fn split(&mut self, shard: &str, key: &str) -> String {
        let now = self.now();
        let state = self.shards.get_mut(shard).expect("a shard");
        let right = shown::split(state, now, 2, key.as_bytes());
        self.shards.insert("right".to_owned(), right);
        format!("{}: split", now.millis())
    }
}

impl goldenscript::Runner for Runner {
    type Command = Verb;

    fn run(&mut self, verb: &Verb, context: &Context) -> Result<String, Box<dyn Error>> {
        let name = context.prefix.clone().unwrap_or_default();
        let id = |id: &str| words::id(id, BY);
        Ok(match verb {
            Verb::At(next) => {
                self.next = *next;
                String::new()
            }
            Verb::Apply(text) => {
                let now = self.now();
                let Command::Write(write) = words::command(text) else {
                    return Err("reads need no entry".into());
                };
                let state = self.shards.get_mut(&name).ok_or("no such shard")?;
                let reply = shown::write(state, now, &write);
                format!("{}: {}", now.millis(), words::reply(&reply))
            }
            Verb::Prepare { .. } => self.prepare(&name, verb),
            Verb::Decide { id: txn, commit, record } => {
                let record = record.as_deref().unwrap_or("a").as_bytes();
                let (id, outcome) = (id(txn), ended(*commit));
                self.step(&name, &Step::Decide { id, record, outcome, is_sure: false })
            }
            Verb::Resolve { id: txn, commit, keys: all } => {
                let (id, outcome) = (id(txn), ended(*commit));
                self.step(&name, &Step::Resolve { id, outcome, keys: keys(all) })
            }
            Verb::Prevent { id: txn, keys: all } => {
                self.step(&name, &Step::Prevent { id: id(txn), keys: keys(all) })
            }
            Verb::Look(txn) => self.step(&name, &Step::ReadRecord { id: id(txn), record: b"a" }),
            Verb::Forget { id: txn, floor } => {
                let floor = floor.map(|before| (BY, millis(before)));
                self.step(&name, &Step::Forget { all: vec![(id(txn), b"a")], floor })
            }
            Verb::Read { key, at } => {
                let state = &self.shards[&name];
                let (bytes, now) = (key.as_bytes(), at.map_or(state.last, millis));
                let is_hidden = match at {
                    Some(at) => state.locks.hides_at(bytes, millis(*at)),
                    None => state.locks.hides_newest(bytes),
                };
                match state.locks.get(bytes).filter(|_| is_hidden) {
                    Some(lock) => format!("{key}: waits for {}", words::name(lock.id)),
                    None => format!("{key}: {}", shown::value(state, bytes, now)),
                }
            }
            Verb::Write(key) => match self.shards[&name].locks.blocking_lock(key.as_bytes()) {
                Some(lock) => format!("{key}: waits for {}", words::name(lock.id)),
                None => format!("{key}: free"),
            },
            Verb::Split(key) => self.split(&name, key),
            Verb::Show => {
                let mut out = String::new();
                write!(out, "{}", shown::shown(&self.shards[&name].locks))?;
                out
            }
        })
    }
}
