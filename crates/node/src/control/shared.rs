//! State of control that other threads read directly: the local replicas and the routes.
//!
//! Only control changes these. A thread holds each lock for one lookup and calls nothing meanwhile.
//! So a thread that holds a shard's guard may still take either lock.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use keyspace::{KeyspaceId, ShardId};
use overlay::{FullTable, KnownShard, Point, Table};
use parking_lot::{Mutex, MutexGuard};

use super::SYSTEM;
use crate::replica::catalogue::System;
use crate::replica::state::Content;
use crate::routing::route::View;

/// The views of all replicas that are here or are about to begin.
#[derive(Clone, Default)]
pub struct Views(Arc<Mutex<BTreeMap<ShardId, View>>>);

impl Views {
    /// That of a shard's replica.
    pub fn get(&self, shard: ShardId) -> Option<View> {
        self.0.lock().get(&shard).cloned()
    }

    /// Whether a replica of a shard is here.
    pub fn contains(&self, shard: ShardId) -> bool {
        self.0.lock().contains_key(&shard)
    }

    /// All of them, by shard.
    pub fn all(&self) -> Vec<(ShardId, View)> {
        self.0.lock().iter().map(|(shard, view)| (*shard, view.clone())).collect()
    }

    pub(super) fn insert(&self, shard: ShardId, view: View) {
        self.0.lock().insert(shard, view);
    }

    pub(super) fn remove(&self, shard: ShardId) -> Option<View> {
        self.0.lock().remove(&shard)
    }

    /// Whether a keyspace was dropped, as the replica of the catalogue here knows.
    pub fn has_dropped(&self, keyspace: KeyspaceId) -> bool {
        let Some(view) = self.get(SYSTEM) else { return false };
        match &view.read().content {
            Content::System(System { catalogue, .. }) => catalogue.has_dropped(keyspace),
            Content::Keys(_) => false,
        }
    }
}

/// The full table of descriptors.
#[derive(Clone)]
pub struct DescriptorTable(Arc<Mutex<FullTable>>);

impl DescriptorTable {
    /// An empty one. `seed` was drawn at random.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(FullTable::new(seed))))
    }

    /// A shard, as it is known here.
    pub fn shard(&self, shard: ShardId) -> Option<Arc<KnownShard>> {
        self.0.lock().table().shard(shard).cloned()
    }

    /// The shard that has a place, as far as it is known here.
    pub fn owner(&self, point: Point<'_>) -> Option<Arc<KnownShard>> {
        self.0.lock().table().owner(point).cloned()
    }

    /// The shards of a keyspace, as they are known here.
    pub fn keyspace(&self, keyspace: KeyspaceId) -> Vec<Arc<KnownShard>> {
        self.0.lock().table().keyspace(keyspace).cloned().collect()
    }

    /// Whether a keyspace was dropped, as far as the table has heard.
    pub fn has_dropped(&self, keyspace: KeyspaceId) -> bool {
        self.0.lock().table().dropped().contains(keyspace)
    }

    /// How many shards are known.
    pub fn known_count(&self) -> usize {
        self.0.lock().table().len()
    }

    /// The full table, locked: it learns nothing meanwhile.
    pub fn guard(&self) -> TableGuard<'_> {
        TableGuard(self.0.lock())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FullTable> {
        self.0.lock()
    }
}

/// The table, held.
pub struct TableGuard<'a>(MutexGuard<'a, FullTable>);

impl Deref for TableGuard<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        self.0.table()
    }
}
