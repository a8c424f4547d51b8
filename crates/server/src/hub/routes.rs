//! Which keyspaces there are, and the views of their shards: what connections look keys up in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::{
    CatalogueOp, Descriptor, Durability, Generation, Keyspace, KeyspaceId, NodeId, Placement,
    ShardId,
};
use node::catalogue::Change;
use node::entry::Waiter;
use node::lane::{FIRST_REPLICA, Input};
use node::route::Route;
use node::shard::ShardStart;
use node::state::{Content, ShardState};
use parking_lot::RwLock;
use storage::engine::{Engine, Layout};

use super::mail::Callback;
use super::{Hub, NOBODY, SIDE_DOOR};

/// All keyspaces at one moment. Replaced as a whole.
#[derive(Default)]
pub struct Routes {
    by_name: BTreeMap<Box<str>, Arc<Route>>,
}

impl Routes {
    /// The keyspace of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Route>> {
        self.by_name.get(name)
    }

    /// The keyspace of this id.
    pub fn by_id(&self, id: KeyspaceId) -> Option<&Arc<Route>> {
        self.by_name.values().find(|route| route.keyspace.id == id)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.by_name.values()
    }

    /// With this keyspace, new or changed.
    pub fn with(&self, route: Route) -> Self {
        let mut by_name = self.by_name.clone();
        by_name.insert(route.keyspace.name.clone(), Arc::new(route));
        Self { by_name }
    }

    fn without(&self, name: &str) -> Self {
        let mut by_name = self.by_name.clone();
        by_name.remove(name);
        Self { by_name }
    }
}

impl Hub {
    /// Does what a change of the catalogue asks of shards and routes.
    pub(super) fn follow(&self, change: Change) {
        let routes = self.routes();
        match change {
            Change::Created(keyspace) => {
                let route = self.create_shards(keyspace);
                self.publish(routes.with(route));
            }
            Change::Altered(keyspace) => {
                let durability = keyspace.options.durability;
                let shards = keyspace.shards.clone();
                if let Some(old) = routes.get(&keyspace.name) {
                    let views = old.views.clone();
                    self.publish(routes.with(Route { keyspace, hasher: self.hasher, views }));
                }
                for shard in shards {
                    self.submit(shard, Input::Configure { shard, durability });
                }
            }
            Change::Dropped(keyspace) => {
                self.publish(routes.without(&keyspace.name));
                for shard in keyspace.shards {
                    self.submit(shard, Input::Drop { shard });
                }
            }
        }
    }

    /// Makes these the routes.
    pub(super) fn publish(&self, routes: Routes) {
        let interval = routes.iter().any(|r| r.keyspace.options.durability == Durability::Interval);
        self.interval_keyspaces.store(interval, Ordering::Relaxed);
        self.routes.store(Arc::new(routes));
        self.routes_version.fetch_add(1, Ordering::AcqRel);
    }

    /// Has the shards of a new keyspace created, and returns its route.
    fn create_shards(&self, keyspace: Keyspace) -> Route {
        let places = 0..keyspace.shards.len();
        let views = places.map(|place| self.create_shard(&keyspace, place)).collect();
        Route { keyspace, hasher: self.hasher, views }
    }

    /// Has one shard of a keyspace created, and returns its view.
    pub(super) fn create_shard(
        &self,
        keyspace: &Keyspace,
        place: usize,
    ) -> Arc<RwLock<ShardState>> {
        let (shard, arc) = (keyspace.shards[place], keyspace.arc(place));
        let layout = match keyspace.options.placement {
            Placement::Ordered => Layout::Ordered,
            Placement::Hashed => {
                let (first_slot, end_slot) = arc.slots().expect("hashed arcs are cut at slots");
                Layout::Hashed { first_slot, end_slot }
            }
        };
        let content = Content::Keys(Box::new(Engine::new(layout, self.hasher)));
        let state = ShardState::new(new_descriptor(shard, arc, self.node_id), content);
        let start = ShardStart::born(state, FIRST_REPLICA, keyspace.options.durability);
        let view = start.view.clone();
        self.submit(shard, Input::Create(start));
        view
    }

    /// Asks the system shard for a change of the catalogue. `callback` is told when the change can
    /// be used, or why it was refused.
    pub fn ask_catalogue(&self, op: &CatalogueOp<'_>, callback: Option<Callback>) {
        let mut body = Vec::new();
        op.encode(&mut body);
        let (origin, waiter) = match callback {
            Some(callback) => (SIDE_DOOR, self.side_door.wait(callback)),
            None => (NOBODY, Waiter(0)),
        };
        self.submit(ShardId(0), Input::Catalogue { op: body, origin, waiter });
    }
}

/// The first descriptor of a shard with one replica, here.
pub(super) fn new_descriptor(shard: ShardId, arc: keyspace::Arc, node: NodeId) -> Descriptor {
    Descriptor {
        shard,
        arc,
        replicas: vec![(FIRST_REPLICA, node)],
        generation: Generation(1),
        leader: Some(FIRST_REPLICA),
    }
}
