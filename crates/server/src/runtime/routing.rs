//! Routes: which replicas are local, and which shard owns a key.
//!
//! Control makes the routes ([`node::control`]); readers get the newest ones here without a lock.
//!
//! ```text
//!   Effect::Routes ──► publish ──► routes, version ──► event loops, HTTP: one load a request
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use keyspace::{Durability, NodeId, ShardId};
use node::control::{Routes, Views};
use node::routing::route::{Route, View};

/// See the front page of this module.
pub struct Routing {
    /// This node, if there are others that shards may be on.
    member: Option<NodeId>,
    /// Of all replicas here.
    views: Views,
    routes: ArcSwap<Routes>,
    version: AtomicU64,
    has_interval_keyspaces: AtomicBool,
}

impl Routing {
    /// Before the first routes. `member` is this node's id if it is in a cluster.
    pub fn new(member: Option<NodeId>, views: Views) -> Self {
        let (routes, version, has_interval_keyspaces) = Default::default();
        Self { member, views, routes, version, has_interval_keyspaces }
    }

    /// The keyspaces as they are.
    pub fn routes(&self) -> Arc<Routes> {
        self.routes.load_full()
    }

    /// Changes whenever [`Self::routes`] does.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The views of all replicas here.
    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    /// The replica of a shard that is here.
    pub fn view(&self, shard: ShardId) -> Option<View> {
        self.views.get(shard)
    }

    /// Whether any keyspace has durability `interval`.
    pub fn has_interval_keyspaces(&self) -> bool {
        self.has_interval_keyspaces.load(Ordering::Relaxed)
    }

    /// Whether a shard is on other nodes only.
    pub fn is_remote(&self, route: &Route, place: usize) -> bool {
        self.member.is_some_and(|node| route.is_remote(place, node))
    }

    /// Whether what is read of a shard must be fetched: it is on other nodes only, or lags here.
    pub fn must_fetch(&self, route: &Route, place: usize) -> bool {
        self.member.is_some_and(|node| route.must_fetch(place, node))
    }

    /// Makes these the routes.
    pub(super) fn publish(&self, routes: Arc<Routes>) {
        let interval = routes.iter().any(|r| r.keyspace.options.durability == Durability::Interval);
        self.has_interval_keyspaces.store(interval, Ordering::Relaxed);
        self.routes.store(routes);
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}
