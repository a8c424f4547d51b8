//! The known keyspaces and the views of their shards, in which connections look up keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use keyspace::{Arc as RingArc, Catalogue, Keyspace, KeyspaceId, KeyspaceOptions, NodeId, ShardId};
use parking_lot::RwLock;

use super::{Control, Effect, Executors};
use crate::executor::Input;
use crate::replica::catalogue::Change;
use crate::replica::{ReplicaStart, SafePoint};
use crate::reshape::bootstrap;
use crate::routing::route::{self, ArcClaim, Route, View};

/// The routes of all keyspaces at one moment. Every change replaces it as a whole.
#[derive(Clone, Default)]
pub struct Routes {
    by_name: BTreeMap<Box<str>, Arc<Route>>,
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tiles = |route: &Arc<Route>| {
            let places = 0..route.shards().len();
            places.map(|place| (route.shard(place), route.arc(place).clone())).collect::<Vec<_>>()
        };
        let routes = self.by_name.iter().map(|(name, route)| (name, tiles(route)));
        f.debug_map().entries(routes).finish()
    }
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
        self.by_name.values().find(|route| route.place_of(shard).is_some())
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.by_name.values()
    }

    /// All of them, each with its name.
    pub fn by_name(&self) -> &BTreeMap<Box<str>, Arc<Route>> {
        &self.by_name
    }

    /// With this keyspace, new or changed.
    pub fn with(&self, route: Route) -> Self {
        let mut routes = self.clone();
        routes.insert(Arc::new(route));
        routes
    }

    fn insert(&mut self, route: Arc<Route>) {
        self.by_name.insert(route.keyspace.name.clone(), route);
    }

    fn without(&self, name: &str) -> Self {
        let mut routes = self.clone();
        routes.by_name.remove(name);
        routes
    }
}

/// What a shard must know of its keyspace.
pub(super) fn configured(shard: ShardId, options: &KeyspaceOptions) -> Input {
    let KeyspaceOptions { durability, skips_equal, .. } = *options;
    Input::Configure { shard, durability, skips_equal }
}

impl Control {
    /// Does what a change of the catalogue asks of shards and routes.
    pub(super) fn follow(&mut self, change: Change, executors: &mut dyn Executors) {
        match change {
            Change::Created(keyspace) => self.route(keyspace, executors),
            Change::Altered(keyspace) => {
                let options = keyspace.options;
                let shards = self.shards_of(&keyspace);
                if let Some(old) = self.routes.get(&keyspace.name) {
                    self.publish(self.routes.with(old.altered(keyspace)));
                }
                for shard in shards {
                    self.submit(shard, configured(shard, &options));
                }
            }
            Change::Dropped(keyspace) => {
                let shards = self.shards_of(&keyspace);
                self.publish(self.routes.without(&keyspace.name));
                self.forget_keyspace(keyspace.id);
                shards.into_iter().for_each(|shard| self.drop_replica(shard));
            }
            // Its entry in a shard's log makes the shard.
            Change::ShardIdAllocated { .. } => {}
            Change::AdminState { node, admin_state } => self.follow_admin_state(node, admin_state),
            Change::ClusterVersion(version) => self.follow_version(version),
            Change::Libraries(libraries) => self.follow_libraries(&libraries),
            // Only the system shard holds safe points back.
            Change::Lease(..) => {}
            Change::Replaced(catalogue) => self.jump(&catalogue, executors),
        }
    }

    /// The catalogue has become another one at once: a snapshot has jumped over its changes.
    pub(super) fn jump(&mut self, catalogue: &Catalogue, executors: &mut dyn Executors) {
        let old = self.routes.clone();
        let mut routes = Routes::default();
        for keyspace in catalogue.iter() {
            let old = old.by_id(keyspace.id).map(Arc::as_ref);
            routes.insert(Arc::new(self.route_of(keyspace.clone(), old, executors)));
        }
        self.publish(routes);
        self.follow_admin_states(catalogue.admin_states().clone());
        self.follow_version(catalogue.cluster_version());
        self.follow_libraries(catalogue.libraries());
        let known: BTreeSet<KeyspaceId> =
            self.table.guard().iter().map(|known| known.arc().keyspace()).collect();
        for keyspace in known.into_iter().filter(|id| catalogue.has_dropped(*id)) {
            self.forget_keyspace(keyspace);
        }
        // Also those that have begun by a message, and whose coming and going it has jumped over.
        let mut dropped = self.views.all();
        dropped.retain(|(_, view)| catalogue.has_dropped(view.read().descriptor.keyspace()));
        dropped.into_iter().for_each(|(shard, _)| self.drop_replica(shard));
        let new = self.routes.clone();
        for new in new.iter() {
            if let Some(old) = old.by_id(new.keyspace.id) {
                self.supersede_merged(old, new);
            }
        }
        self.reroute();
    }

    /// Lets the routes lead to a keyspace's shards as they are known by now.
    fn route(&mut self, keyspace: Keyspace, executors: &mut dyn Executors) {
        let (id, old) = (keyspace.id, self.routes.by_id(keyspace.id).cloned());
        let route = self.route_of(keyspace, old.as_deref(), executors);
        self.publish(self.routes.with(route));
        let new = self.routes.by_id(id).cloned();
        if let (Some(old), Some(new)) = (old, new) {
            self.supersede_merged(&old, &new);
        }
        self.reroute();
    }

    /// The same for a keyspace that is there.
    pub(super) fn retile(&mut self, keyspace: KeyspaceId, executors: &mut dyn Executors) {
        let route = self.routes.by_id(keyspace).filter(|_| !self.keeps_old_route());
        if let Some(route) = route {
            self.route(route.keyspace.clone(), executors);
        }
    }

    /// All shards of a keyspace of which anything is known here: those that routes lead to, and
    /// those of replicas here.
    fn shards_of(&self, keyspace: &Keyspace) -> BTreeSet<ShardId> {
        let mut shards: BTreeSet<ShardId> = keyspace.shards.iter().copied().collect();
        if let Some(route) = self.routes.by_id(keyspace.id) {
            shards.extend(route.shards());
        }
        let is_its = |view: &View| view.read().descriptor.keyspace() == keyspace.id;
        let here = self.views.all();
        shards.extend(here.iter().filter(|(_, view)| is_its(view)).map(|(shard, _)| *shard));
        shards
    }

    /// Makes these the routes.
    fn publish(&mut self, routes: Routes) {
        self.routes = Arc::new(routes);
        self.effects.push(Effect::Routes(self.routes.clone()));
        // Replicas that have begun since must know it, in case they lead one day.
        let routes = self.routes.clone();
        for route in routes.iter().filter(|route| route.keyspace.options.skips_equal) {
            let here = route.shards().iter().filter(|shard| self.views.contains(**shard));
            for shard in here.copied().collect::<Vec<_>>() {
                self.submit(shard, configured(shard, &route.keyspace.options));
            }
        }
    }

    /// The route of a keyspace, as it is known here; replicas that begin here with their shards
    /// begin now. What the old one leads to elsewhere stays.
    fn route_of(
        &mut self,
        keyspace: Keyspace,
        old: Option<&Route>,
        executors: &mut dyn Executors,
    ) -> Route {
        let known = self.table.keyspace(keyspace.id);
        let mut claims: Vec<ArcClaim> =
            known.iter().map(|k| ArcClaim::of(k.descriptor())).collect();
        claims.extend(self.views.all().iter().filter_map(|(_, view)| {
            let descriptor = &view.read().descriptor;
            (descriptor.keyspace() == keyspace.id).then(|| ArcClaim::of(descriptor))
        }));
        let absorbed = self.find_absorbed(&keyspace, executors);
        let tiles = route::tiles(&keyspace, &claims).into_iter().map(|(shard, arc)| {
            let may_begin = !absorbed.contains(&shard);
            let view = self.view_of(&keyspace, (shard, &arc, may_begin), old, executors);
            (shard, arc, view)
        });
        let tiles = tiles.collect();
        Route::new(keyspace, self.setup.settings.hasher, tiles)
    }

    /// The view of a keyspace's shard: of its replica here, which begins now if the shard begins
    /// here with its keyspace; or else of nothing, which serves nobody.
    fn view_of(
        &mut self,
        keyspace: &Keyspace,
        (shard, arc, may_begin): (ShardId, &RingArc, bool),
        old: Option<&Route>,
        executors: &mut dyn Executors,
    ) -> View {
        if let Some(view) = self.views.get(shard) {
            return view;
        }
        let node = self.setup.node;
        let began = keyspace.shards.iter().position(|id| *id == shard);
        // Who has only a cache of the catalogue does not know how its shards have gone on since.
        let began = began.filter(|_| self.has_system() && may_begin);
        let replicas = bootstrap::first_replicas(keyspace);
        let here = replicas.iter().find(|(_, at)| *at == node).map(|(replica, _)| *replica);
        let mut may = |replica| began.is_some() && Self::may_begin(shard, replica, executors);
        match began.zip(here.filter(|replica| may(*replica))) {
            Some((place, replica)) => {
                let state = bootstrap::first_state(keyspace, place, self.setup.settings);
                let durability = keyspace.options.durability;
                let start = ReplicaStart::created(state, replica, durability);
                let view = start.view.clone();
                self.views.insert(shard, view.clone());
                self.submit(shard, Input::Create(start));
                // Its group may have gone on without it meanwhile.
                self.submit_descriptor(shard);
                view
            }
            None => {
                if let Some(view) = old.and_then(|old| remote_view_of(old, (shard, arc), node)) {
                    return view;
                }
                let nodes = self.candidate_nodes(keyspace);
                self.make_remote(shard, nodes);
                let replicas = match keyspace.shards.contains(&shard) {
                    true => replicas,
                    false => Vec::new(),
                };
                let (tile, settings) = ((shard, arc.clone()), self.setup.settings);
                let nothing = bootstrap::remote_view(keyspace, tile, replicas, node, settings);
                Arc::new(RwLock::new(nothing))
            }
        }
    }

    /// Which of a keyspace's first shards, with a first replica here, others have taken in though
    /// no record says so: an older version has cut it from the log. A shard has the place of
    /// another's beginning only if it has taken that one in. Executors write it down now.
    fn find_absorbed(
        &mut self,
        keyspace: &Keyspace,
        executors: &mut dyn Executors,
    ) -> BTreeSet<ShardId> {
        let mut found = BTreeSet::new();
        if !self.has_system() || !keyspace.nodes.contains(&self.setup.node) {
            return found;
        }
        let views = self.views.all();
        for (shard, arc) in keyspace.tiles() {
            if self.views.contains(shard) || executors.of(shard, |executor| executor.has_had(shard))
            {
                continue;
            }
            let has_it =
                |(_, view): &&(ShardId, View)| view.read().descriptor.arc.contains(arc.start());
            let mut by = views.iter().find(has_it).map(|(left, _)| *left);
            executors
                .look_at_all(&mut |executor| by = by.or_else(|| executor.ended_with(arc.start())));
            if let Some(left) = by {
                self.submit(shard, Input::Absorbed { shard, left });
                found.insert(shard);
            }
        }
        found
    }

    /// Nodes that may have replicas of a keyspace's shards: first those where the shards began,
    /// then all others, since replicas may have moved there. A node with a replica knows better.
    fn candidate_nodes(&self, keyspace: &Keyspace) -> Vec<NodeId> {
        let mut nodes = keyspace.nodes.clone();
        let others = self.members.all.iter().copied();
        nodes.extend(others.filter(|node| !keyspace.nodes.contains(node)));
        nodes.retain(|node| *node != self.setup.node);
        nodes
    }

    /// Has all shards of a keyspace follow its safe point.
    pub(super) fn raise_safe_points(&mut self, keyspace: KeyspaceId, to: &SafePoint) {
        let shards = self.routes.by_id(keyspace).map(|route| route.shards().to_vec());
        for shard in shards.unwrap_or_default() {
            self.submit(shard, Input::RaiseShard { shard, to: to.clone() });
        }
    }

    /// Sends on what shards have turned away, as far as it is known whose it is.
    pub(super) fn reroute(&mut self) {
        if self.postponed.is_empty() {
            return;
        }
        let Self { views, routes, merged_tiles, postponed, now, setup, .. } = self;
        let keyspace = |shard| match views.get(shard) {
            Some(view) => Some(view.read().descriptor.keyspace()),
            None => merged_tiles.keyspace_of(shard),
        };
        let route = |shard| {
            let known = || routes.by_id(keyspace(shard)?);
            routes.of_shard(shard).or_else(known).cloned()
        };
        let (on, refused) = postponed.sort_out(route, *now, setup.request_timeout);
        self.effects.extend(refused.into_iter().map(Effect::Answer));
        self.effects.extend(on.into_iter().map(Effect::Reroute));
    }
}

/// What a route has led to for a tile that was on other nodes only, and is so still.
fn remote_view_of(old: &Route, (shard, arc): (ShardId, &RingArc), node: NodeId) -> Option<View> {
    let place = old.place_of(shard).filter(|place| old.arc(*place) == arc)?;
    let view = old.views[place].clone();
    let is_elsewhere = view.read().descriptor.replica_on(node).is_none();
    is_elsewhere.then_some(view)
}
