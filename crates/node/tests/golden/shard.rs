//! A shard's state, which entries change.

use command::{Reply, Write};
use keyspace::codec::Reader;
use keyspace::{
    Arc, Cut, Descriptor, Generation, KeyHasher, KeyspaceId, NodeId, Position, ReplicaId, ShardId,
    Timestamp,
};
use node::locks::{Intent, Locks, Reach, Said, Step};
use node::replica::entry::{Batch, Header, Kind, Waiter, operation};
use node::replica::state::{Content, Outcome, ShardState};
use node::reshape::split::Split;
use replication::Entry;
use storage::engine::{Layout, MemoryEngine};

use crate::words;

pub const KEYSPACE: KeyspaceId = KeyspaceId(1);
pub const HASHER: KeyHasher = KeyHasher::new([1; 16]);
const TERM: u64 = 2;

/// From one key to another, without it; the empty one is the origin.
pub fn arc(start: &str, end: &str) -> Arc {
    let [start, end] = [start, end].map(|key| Position::at(KEYSPACE, key.as_bytes()));
    if start == end { Arc::whole(KEYSPACE) } else { Arc::new(start, end).expect("of one keyspace") }
}

/// An ordered shard with nothing in it, of one replica.
pub fn ordered(shard: u64, arc: Arc) -> ShardState {
    let replicas = vec![(ReplicaId(1), NodeId(1))];
    let (shard, generation) = (ShardId(shard), Generation(1));
    let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
    ShardState::new(descriptor, Content::Keys(Box::new(MemoryEngine::new(Layout::Ordered, HASHER))))
}

fn apply(state: &mut ShardState, kind: Kind, at: Timestamp, mut bytes: Vec<u8>) -> Applied {
    Header { kind, timestamp: at, term: TERM, count: 1 }.fill(&mut bytes);
    let entry = Entry::new(state.applied_index + 1, TERM, bytes.into(), false);
    let mut replies = Vec::new();
    let outcome = state.apply(&entry, &mut replies);
    (outcome, replies)
}

type Applied = (Outcome, Vec<Reply>);

/// A command in an entry of its own.
pub fn write(state: &mut ShardState, at: Timestamp, write: &Write<'_>) -> Reply {
    let mut batch = Batch::default();
    batch.push(write, Waiter(1));
    let (_, mut replies) = apply(state, Kind::Commands, at, batch.into_parts().0);
    replies.remove(0)
}

/// A step of a transaction in an entry of its own. Step, answer and lock table go through their
/// bytes.
pub fn step(state: &mut ShardState, at: Timestamp, step: &Step<'_>) -> Said {
    let mut bytes = Vec::new();
    step.encode(&mut bytes);
    let (Outcome::Steps(mut said), _) = apply(state, Kind::Steps, at, operation(&bytes)) else {
        panic!("the shard answers each step");
    };
    let said = said.remove(0);
    let mut bytes = Vec::new();
    said.encode(&mut bytes);
    Said::decode(&mut Reader::new(&bytes)).expect("it was encoded")
}

/// The right half, if the shard can be cut there.
pub fn split(state: &mut ShardState, at: Timestamp, right: u64, key: &[u8]) -> Option<ShardState> {
    let generation = state.descriptor.generation;
    let split = Split { right: ShardId(right), generation, at: Cut::Key(key.into()) };
    match apply(state, Kind::Split, at, operation(&split.encode())).0 {
        Outcome::Split(half) => Some(*half.0),
        _ => None,
    }
}

/// The newest value of a key, whatever is locked.
pub fn value(state: &ShardState, key: &[u8], at: Timestamp) -> String {
    let engine = state.keys().expect("it has keys");
    let found = engine.newest(&HASHER.key(key), at);
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
            Reach::Key => String::new(),
            Reach::To(end) => format!(", and the range up to {}", words::text(end)),
            Reach::End => ", and the range to the end".to_owned(),
        };
        let (key, id, at) = (words::text(key), words::name(lock.id), lock.at.millis());
        let before = words::commit_before(lock.deadline);
        out += &format!("lock {key}: {id} at {at}, {intent}{reach}{before}\n");
    }
    let (_, records, marks) = locks.counts();
    out + &format!("{records} records, {marks} marks\n")
}
