//! Which keyspaces there are, and the views of their shards: what connections look keys up in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::{
    Catalogue, CatalogueOp, Durability, Keyspace, KeyspaceId, NodeId, ReplicaId, ShardId,
};
use node::birth;
use node::catalogue::Change;
use node::entry::Waiter;
use node::lane::Input;
use node::route::Route;
use node::shard::ShardStart;
use parking_lot::RwLock;

use super::mail::Callback;
use super::{Hub, NOBODY, SIDE_DOOR, View};

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

    /// The keyspace that a shard is of.
    pub fn of_shard(&self, shard: ShardId) -> Option<&Arc<Route>> {
        self.by_name.values().find(|route| route.keyspace.shards.contains(&shard))
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
                let route = self.route_of(keyspace);
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
                self.forget_keyspaces([keyspace.id]);
                self.drop_shards(&keyspace);
            }
            Change::Node { node, standing } => self.follow_standing(node, standing),
        }
    }

    /// The catalogue has become another one at once: a snapshot has jumped over its changes.
    pub(super) fn jump(&self, catalogue: &Catalogue) {
        let mut routes = Routes::default();
        for keyspace in catalogue.iter() {
            routes = routes.with(self.route_of(keyspace.clone()));
        }
        self.publish(routes);
        self.follow_standings(catalogue.standings().clone());
        let known = self.keyspaces_looked_up().into_iter();
        self.forget_keyspaces(known.filter(|id| catalogue.has_dropped(*id)));
        // Also those that have begun by a message, and whose coming and going it has jumped over.
        let is_gone = |view: &View| catalogue.has_dropped(view.read().descriptor.keyspace());
        let gone: Vec<_> = self.views.lock().extract_if(.., |_, view| is_gone(view)).collect();
        for (shard, _) in gone {
            self.submit(shard, Input::Drop { shard });
        }
    }

    /// Lets routes lead to a replica that has begun.
    pub(super) fn show(&self, shard: ShardId, view: &View) {
        let routes = self.routes();
        let Some(old) = routes.of_shard(shard) else { return };
        let place = old.keyspace.shards.iter().position(|id| *id == shard);
        let mut views = old.views.clone();
        views[place.expect("it was just found")] = view.clone();
        let (keyspace, hasher) = (old.keyspace.clone(), old.hasher);
        self.publish(routes.with(Route { keyspace, hasher, views }));
    }

    /// Lets routes lead to nothing where a replica has ended; unless another has begun meanwhile.
    pub(super) fn hide(&self, shard: ShardId) {
        let routes = self.routes();
        let Some(route) = routes.of_shard(shard) else { return };
        if self.views.lock().contains_key(&shard) {
            return;
        }
        let place = route.keyspace.shards.iter().position(|id| *id == shard);
        let place = place.expect("it was just found");
        let nothing = birth::elsewhere(&route.keyspace, place, self.node_id, self.hasher);
        self.show(shard, &Arc::new(RwLock::new(nothing)));
    }

    fn drop_shards(&self, keyspace: &Keyspace) {
        for shard in keyspace.shards.iter().copied() {
            // Before its lane lets it go: afterwards nobody begins it again.
            self.views.lock().remove(&shard);
            self.submit(shard, Input::Drop { shard });
        }
    }

    /// Makes these the routes.
    pub(super) fn publish(&self, routes: Routes) {
        let interval = routes.iter().any(|r| r.keyspace.options.durability == Durability::Interval);
        self.interval_keyspaces.store(interval, Ordering::Relaxed);
        self.routes.store(Arc::new(routes));
        self.routes_version.fetch_add(1, Ordering::AcqRel);
    }

    /// The route of a keyspace; replicas that begin here with their shards begin now.
    pub(super) fn route_of(&self, keyspace: Keyspace) -> Route {
        let places = 0..keyspace.shards.len();
        let views = places.map(|place| self.view_of(&keyspace, place)).collect();
        Route { keyspace, hasher: self.hasher, views }
    }

    /// The view of a keyspace's shard: of its replica here, which begins now if the shard begins
    /// here; or else of nothing, which serves nobody.
    fn view_of(&self, keyspace: &Keyspace, place: usize) -> View {
        let shard = keyspace.shards[place];
        if let Some(view) = self.views.lock().get(&shard) {
            return view.clone();
        }
        let state = birth::first_state(keyspace, place, self.hasher);
        // Who has only an image of the catalogue does not know how its shards have gone on since.
        let here = state.descriptor.replica_on(self.node_id).filter(|_| self.has_system());
        match here.filter(|replica| self.may_begin(shard, *replica)) {
            Some(replica) => {
                let durability = keyspace.options.durability;
                let start = ShardStart::born(state, replica, durability);
                let view = start.view.clone();
                {
                    let mut views = self.views.lock();
                    // A message may have begun it meanwhile.
                    if let Some(begun) = views.get(&shard) {
                        return begun.clone();
                    }
                    views.insert(shard, view.clone());
                }
                self.submit(shard, Input::Create(start));
                // Its group may have gone on without it meanwhile.
                self.tell_known(shard);
                view
            }
            None => {
                let nodes = self.who_may_have(keyspace);
                self.ask_elsewhere(shard, nodes);
                let nothing = birth::elsewhere(keyspace, place, self.node_id, self.hasher);
                Arc::new(RwLock::new(nothing))
            }
        }
    }

    /// Who may have replicas of a keyspace's shards: where they began, and then all others, for
    /// they may have got some since. Whoever has one knows better.
    fn who_may_have(&self, keyspace: &Keyspace) -> Vec<NodeId> {
        let mut nodes = keyspace.nodes.clone();
        let members = self.peers.as_ref().map(|peers| peers.cluster.members());
        let others = members.iter().flat_map(|members| members.iter().map(|m| m.node));
        nodes.extend(others.filter(|node| !keyspace.nodes.contains(node)));
        nodes.retain(|node| *node != self.node_id);
        nodes
    }

    /// Whether this replica of a shard has not ended here.
    pub(super) fn may_begin(&self, shard: ShardId, replica: ReplicaId) -> bool {
        let lane = &self.lanes[self.lane_of(shard)];
        let ended = lane.with(self, |lane| lane.ended_replica(shard));
        ended.is_none_or(|ended| ended < replica)
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
