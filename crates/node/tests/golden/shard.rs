//! A shard's state, as nodes begin with it.

use keyspace::{Arc, Descriptor, Generation, KeyHasher, NodeId, ReplicaId, ShardId, Timestamp};
use node::replica::state::{Content, ShardState};
use storage::engine::{Layout, MemoryEngine};

use crate::words;

pub const HASHER: KeyHasher = KeyHasher::new([1; 16]);

/// An ordered shard with nothing in it, of one replica.
pub fn ordered(shard: u64, arc: Arc) -> ShardState {
    let replicas = vec![(ReplicaId(1), NodeId(1))];
    let (shard, generation) = (ShardId(shard), Generation(1));
    let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
    ShardState::new(descriptor, Content::Keys(Box::new(MemoryEngine::new(Layout::Ordered, HASHER))))
}

/// The newest value of a key, whatever is locked.
pub fn value(state: &ShardState, key: &[u8], at: Timestamp) -> String {
    let engine = state.engine().expect("the shard has keys");
    let found = engine.newest(&HASHER.key(key), at);
    let found = found.filter(|version| version.expiry_ms == 0 || version.expiry_ms > at.millis());
    found.map_or("nil".to_owned(), |version| format!("\"{}\"", words::text(version.value)))
}
