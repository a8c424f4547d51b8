//! A shard as scripts show it, its bytes having said the same.

use std::fmt::Write as _;
use std::ops::Bound;

use command::{Reply, Write};
use keyspace::codec::Reader;
use keyspace::{Arc, Cut, KeyspaceId, Position, ShardId, Timestamp};
use storage::engine::{Layout, Range, Version};
use txn::locks::{Intent, LockRange, Locks, Step, StepReply};

use crate::shard::{HASHER, Shard};
use crate::words;

pub const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// An ordered shard with nothing in it, from one key to another, without it; the empty one is the
/// origin.
pub fn ordered(id: u64, start: &str, end: &str) -> Shard {
    let [start, end] = [start, end].map(|key| Position::at(KEYSPACE, key.as_bytes()));
    let arc = match start == end {
        true => Arc::whole(KEYSPACE),
        false => Arc::new(start, end).expect("of one keyspace"),
    };
    Shard::new(ShardId(id), arc, Layout::Ordered)
}

/// A command in an entry of its own.
pub fn write(shard: &mut Shard, at: Timestamp, write: &Write<'_>) -> Reply {
    shard.last = at;
    let (mut is_locked, mut is_here) = (false, true);
    write.each_key(&mut |key| {
        is_locked |= shard.locks.blocking_lock(key).is_some();
        is_here &= shard.arc.holds(key);
    });
    match is_here && !is_locked {
        true => command::apply(&mut shard.engine, write, at),
        false => Reply::Moved { from: Cut::Slot(0) },
    }
}

/// A step of a transaction in an entry of its own. Step, answer and lock table go through their
/// bytes.
pub fn step(shard: &mut Shard, at: Timestamp, step: &Step<'_>) -> StepReply {
    let mut bytes = Vec::new();
    step.encode(&mut bytes);
    let step = Step::decode(&mut Reader::new(&bytes)).expect("the bytes were encoded here");
    let reply = shard.step(at, &step);
    let mut bytes = Vec::new();
    shard.locks.encode(&mut bytes);
    let locks = Locks::decode(&mut Reader::new(&bytes)).expect("the bytes were encoded here");
    assert_eq!(locks, shard.locks);
    let mut bytes = Vec::new();
    reply.encode(&mut bytes);
    StepReply::decode(&mut Reader::new(&bytes)).expect("the bytes were encoded here")
}

/// The right half of a shard that is cut at a key.
pub fn split(shard: &mut Shard, at: Timestamp, right: u64, key: &[u8]) -> Shard {
    shard.last = at;
    let cut = Cut::Key(key.into());
    let parts = shard.arc.split(&cut.position(KEYSPACE)).expect("the key lies within");
    let engine = shard.engine.split_off(&cut).expect("the placement is ordered");
    let (of_left, of_right) = parts;
    shard.arc = of_left;
    let locks = shard.locks.split_off(&cut);
    Shard { id: ShardId(right), arc: of_right, engine, locks, last: at }
}

/// All values, and what is locked.
pub fn contents(shard: &Shard) -> String {
    let mut text = format!("shard {}:", shard.id.0);
    let all = Range {
        start: Bound::Unbounded,
        end: Bound::Unbounded,
        reverse: false,
        visited_max: usize::MAX,
        examined_max: usize::MAX,
    };
    let mut show = |key: &[u8], version: Version<'_>| {
        let (key, value) = (words::text(key), words::text(version.value));
        write!(text, " {key}=\"{value}\"").expect("a string");
    };
    let more = shard.engine.range(&all, Timestamp::MAX, &mut show);
    assert_eq!(more, Ok(None), "it shows all");
    let locks = shown(&shard.locks).replace('\n', "; ");
    format!("{text}; {locks}").trim_end_matches("; ").to_owned()
}

/// The newest value of a key, whatever is locked.
pub fn value(shard: &Shard, key: &[u8], at: Timestamp) -> String {
    let found = shard.engine.newest(&HASHER.key(key), at);
    let found = found.filter(|version| version.expiry_ms == 0 || version.expiry_ms > at.millis());
    found.map_or("nil".to_owned(), |version| format!("\"{}\"", words::text(version.value)))
}

/// One line for each lock, and how many records and marks there are.
pub fn shown(locks: &Locks) -> String {
    let mut out = String::new();
    for (key, lock) in locks.iter() {
        let intent = match &lock.intent {
            Intent::Keep => "read".to_owned(),
            Intent::Put(value, 0) => format!("put \"{}\"", words::text(value)),
            Intent::Put(value, end) => format!("put \"{}\" until {end}", words::text(value)),
            Intent::Delete => "delete".to_owned(),
        };
        let reach = match &lock.reach {
            LockRange::Key => String::new(),
            LockRange::Until(end) => format!(", and the range up to {}", words::text(end)),
            LockRange::End => ", and the range to the end".to_owned(),
            LockRange::Arc(arc) => format!(", and the arc from {} to {}", arc.0, arc.1),
        };
        let (key, id, at) = (words::text(key), words::name(lock.id), lock.at.millis());
        let before = words::commit_before(lock.deadline);
        out += &format!("lock {key}: {id} at {at}, {intent}{reach}{before}\n");
    }
    let (_, records, marks) = locks.counts();
    out + &format!("{records} records, {marks} marks\n")
}
