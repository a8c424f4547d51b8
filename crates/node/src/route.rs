//! From a key to the shard that owns it, on this node: what gateways hold of a keyspace.

use std::sync::Arc;

use keyspace::{HashedKey, KeyHasher, Keyspace, Placement, ShardId};
use parking_lot::RwLock;

use crate::state::ShardState;

/// A keyspace as a gateway uses it: its settings, and its shards in ring order with their views.
/// Replaced as a whole when the catalogue changes; whoever holds an old one is sent back by the
/// shards themselves (G1 check 1).
pub struct Route {
    /// Settings and shard ids.
    pub keyspace: Keyspace,
    /// Hashes keys for all keyspaces of the cluster.
    pub hasher: KeyHasher,
    /// The view of each shard, in the order of `keyspace.shards`.
    pub views: Vec<Arc<RwLock<ShardState>>>,
}

impl Route {
    /// The key with its slot and hash.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> HashedKey<'a> {
        self.hasher.key(bytes)
    }

    /// The place of a key's shard in `views`.
    pub fn place(&self, key: &HashedKey<'_>) -> usize {
        match self.keyspace.options.placement {
            Placement::Hashed => self.keyspace.index_of_slot(key.slot),
            Placement::Ordered => 0,
        }
    }

    /// The shard at a place.
    pub fn shard(&self, place: usize) -> ShardId {
        self.keyspace.shards[place]
    }
}
