//! Which shard owns a key, as far as this node knows? The part of routing that this crate needs.

use std::sync::OnceLock;

use keyspace::{Arc, ShardId};

/// The shards of a keyspace in ring order, each with its arc. It may be out of date: each shard
/// checks itself what it owns, and an asker that got the wrong one looks it up again.
pub trait ShardMap {
    /// The shards, side by side from the origin on: a shard's number here is its *place*.
    fn shards(&self) -> &[ShardId];

    /// The place of a key's shard.
    fn place_of_key(&self, key: &[u8]) -> usize;

    /// The part of the shard at a place.
    fn arc(&self, place: usize) -> &Arc;

    /// A key in each arc, which stands for the whole of it when a transaction locks that.
    fn witnesses(&self) -> &[Box<[u8]>];

    /// The shard of a key.
    fn shard_of(&self, key: &[u8]) -> ShardId {
        self.shards()[self.place_of_key(key)]
    }
}

/// Keys in the arcs of a map. They are searched for when they are asked for first: the narrower an
/// arc is, the longer that takes.
#[derive(Debug, Default)]
pub struct Witnesses(OnceLock<Box<[Box<[u8]>]>>);

impl Witnesses {
    /// Those in these arcs, always the same.
    pub fn of(&self, arcs: &[Arc]) -> &[Box<[u8]>] {
        let witness = |arc: &Arc| {
            let (from, end) = arc.ends();
            from.key_before(&end)
        };
        self.0.get_or_init(|| arcs.iter().map(witness).collect())
    }
}
