//! Which shard owns a key, as far as this node knows? All that this crate needs of routes.

use keyspace::{Arc, ShardId};

/// The shards of a keyspace in ring order, each with its part. It may be old: each shard says
/// itself what it owns, and whoever asked the wrong one looks again.
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
