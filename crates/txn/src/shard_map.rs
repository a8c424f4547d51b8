//! Which shard owns a key, as far as this node knows? The part of routing that this crate needs.

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

    /// The shard of a key.
    fn shard_of(&self, key: &[u8]) -> ShardId {
        self.shards()[self.place_of_key(key)]
    }
}
