//! Which keyspaces there are, and the views of their shards: what connections look keys up in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspace::{
    Arc as RingArc, Catalogue, CatalogueOp, Durability, Keyspace, KeyspaceId, NodeId, ReplicaId,
    ShardId,
};
use node::birth;
use node::catalogue::Change;
use node::entry::Waiter;
use node::lane::Input;
use node::moved::SentOn;
use node::route::{self, Claim, Route};
use node::shard::ShardStart;
use parking_lot::RwLock;

use super::mail::Callback;
use super::{Hub, NOBODY, SIDE_DOOR, View, boot_nanos};

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
        self.by_name.values().find(|route| route.place_of(shard).is_some())
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
                let route = self.route_of(keyspace, None);
                self.publish(routes.with(route));
            }
            Change::Altered(keyspace) => {
                let durability = keyspace.options.durability;
                let shards = self.shards_of(&keyspace);
                if let Some(old) = routes.get(&keyspace.name) {
                    self.publish(routes.with(old.altered(keyspace)));
                }
                for shard in shards {
                    self.submit(shard, Input::Configure { shard, durability });
                }
            }
            Change::Dropped(keyspace) => {
                let shards = self.shards_of(&keyspace);
                self.publish(routes.without(&keyspace.name));
                self.forget_keyspaces([keyspace.id]);
                self.drop_shards(shards);
            }
            // Its entry in a shard's log makes the shard.
            Change::Drawn { .. } => {}
            Change::Node { node, standing } => self.follow_standing(node, standing),
            Change::Level(level) => self.follow_level(level),
        }
    }

    /// The catalogue has become another one at once: a snapshot has jumped over its changes.
    pub(super) fn jump(&self, catalogue: &Catalogue) {
        let mut routes = Routes::default();
        for keyspace in catalogue.iter() {
            let old = self.routes().by_id(keyspace.id).cloned();
            routes = routes.with(self.route_of(keyspace.clone(), old.as_deref()));
        }
        self.publish(routes);
        self.follow_standings(catalogue.standings().clone());
        self.follow_level(catalogue.level());
        let known = self.keyspaces_looked_up().into_iter();
        self.forget_keyspaces(known.filter(|id| catalogue.has_dropped(*id)));
        // Also those that have begun by a message, and whose coming and going it has jumped over.
        let is_gone = |view: &View| catalogue.has_dropped(view.read().descriptor.keyspace());
        let gone: Vec<_> = self.views.lock().extract_if(.., |_, view| is_gone(view)).collect();
        for (shard, _) in gone {
            self.submit(shard, Input::Drop { shard });
        }
    }

    /// Lets a keyspace's route lead to where its shards are by now.
    pub(super) fn retile(&self, keyspace: KeyspaceId) {
        let routes = self.routes();
        let Some(old) = routes.by_id(keyspace) else { return };
        let route = self.route_of(old.keyspace.clone(), Some(old));
        let next = routes.with(route);
        if let Some(new) = next.by_id(keyspace).cloned() {
            self.publish(next);
            self.supersede_gone(old, &new);
        }
    }

    /// Lets routes lead to nothing where a replica has ended; unless another has begun meanwhile.
    pub(super) fn hide(&self, shard: ShardId) {
        let keyspace = self.routes().of_shard(shard).map(|route| route.keyspace.id);
        if let Some(keyspace) = keyspace.filter(|_| !self.views.lock().contains_key(&shard)) {
            self.retile(keyspace);
        }
    }

    /// Whether a shard's replica here is about to begin, as the right half of another.
    pub(super) fn is_being_born(&self, shard: ShardId) -> bool {
        let is_handed_out = |lane: &super::LaneCell| {
            lane.with(self, |lane| lane.unborn().any(|half| half == shard))
        };
        let has_begun = || self.lanes[self.lane_of(shard)].with(self, |lane| lane.has_had(shard));
        self.lanes.iter().any(is_handed_out) && !has_begun()
    }

    /// Begins the right half of a shard that was cut in two here, unless there is, or has been, a
    /// replica of it; and lets routes lead to both.
    pub(super) fn begin_half(&self, start: ShardStart) {
        let (shard, keyspace) = {
            let descriptor = &start.view.read().descriptor;
            (descriptor.shard, descriptor.keyspace())
        };
        if let Some(peers) = &self.peers {
            peers.placement.decisions.has_begun(shard);
        }
        let is_forgotten =
            || self.peers.as_ref().is_some_and(|peers| peers.lookup.has_dropped(keyspace));
        let may_begin = self.may_begin(shard, start.replica) && !is_forgotten();
        let begins = may_begin && {
            let mut views = self.views.lock();
            let begins = !views.contains_key(&shard)
                && !super::peers::is_dropped(views.get(&ShardId(0)), keyspace);
            if begins {
                views.insert(shard, start.view.clone());
            }
            begins
        };
        if begins {
            self.submit(shard, Input::Create(start));
            // The left half's settings may have changed since it was cut.
            if let Some(route) = self.routes().by_id(keyspace) {
                let durability = route.keyspace.options.durability;
                self.submit(shard, Input::Configure { shard, durability });
            }
            // Its group may have gone on without it meanwhile.
            self.tell_known(shard);
            if is_forgotten() {
                self.views.lock().remove(&shard);
                self.submit(shard, Input::Drop { shard });
            }
        } else {
            // Nobody is to wait for its beginning.
            self.lanes.iter().for_each(|lane| lane.with(self, |lane| lane.confirm(shard)));
        }
        self.retile(keyspace);
    }

    /// All shards of a keyspace of which anything is known here: those that routes lead to, and
    /// those of replicas here.
    fn shards_of(&self, keyspace: &Keyspace) -> BTreeSet<ShardId> {
        let mut shards: BTreeSet<ShardId> = keyspace.shards.iter().copied().collect();
        if let Some(route) = self.routes().by_id(keyspace.id) {
            shards.extend(route.shards());
        }
        shards.extend(self.views.lock().values().filter_map(|view| {
            let descriptor = &view.read().descriptor;
            (descriptor.keyspace() == keyspace.id).then_some(descriptor.shard)
        }));
        shards
    }

    fn drop_shards(&self, shards: BTreeSet<ShardId>) {
        for shard in shards {
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

    /// The route of a keyspace, as it is known here; replicas that begin here with their shards
    /// begin now. What the old one leads to elsewhere stays.
    pub(super) fn route_of(&self, keyspace: Keyspace, old: Option<&Route>) -> Route {
        let known = self.peers.as_ref().map_or_else(Vec::new, |p| p.lookup.keyspace(keyspace.id));
        let claims = known.iter().map(|known| known.descriptor()).map(Claim::of);
        let mut claims: Vec<Claim> = claims.collect();
        claims.extend(self.views.lock().values().filter_map(|view| {
            let descriptor = &view.read().descriptor;
            (descriptor.keyspace() == keyspace.id).then(|| Claim::of(descriptor))
        }));
        let tiles = route::tiles(&keyspace, &claims).into_iter().map(|(shard, arc)| {
            let view = self.view_of(&keyspace, (shard, &arc), old);
            (shard, arc, view)
        });
        let tiles = tiles.collect();
        Route::new(keyspace, self.hasher, tiles)
    }

    /// The view of a keyspace's shard: of its replica here, which begins now if the shard begins
    /// here with its keyspace; or else of nothing, which serves nobody.
    fn view_of(
        &self,
        keyspace: &Keyspace,
        (shard, arc): (ShardId, &RingArc),
        old: Option<&Route>,
    ) -> View {
        if let Some(view) = self.views.lock().get(&shard) {
            return view.clone();
        }
        let began = keyspace.shards.iter().position(|id| *id == shard);
        // Who has only an image of the catalogue does not know how its shards have gone on since.
        let began = began.filter(|_| self.has_system());
        let replicas = birth::first_replicas(keyspace);
        let here = replicas.iter().find(|(_, node)| *node == self.node_id);
        let here = here.map(|(replica, _)| *replica);
        let here = here.filter(|replica| began.is_some() && self.may_begin(shard, *replica));
        match began.zip(here) {
            Some((place, replica)) => {
                let state = birth::first_state(keyspace, place, self.hasher);
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
                if let Some(view) = old.and_then(|old| elsewhere_of(old, (shard, arc), self)) {
                    return view;
                }
                let nodes = self.who_may_have(keyspace);
                self.ask_elsewhere(shard, nodes);
                let replicas = match keyspace.shards.contains(&shard) {
                    true => replicas,
                    false => Vec::new(),
                };
                let tile = (shard, arc.clone());
                let nothing = birth::elsewhere(keyspace, tile, replicas, self.node_id, self.hasher);
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

    /// Sends on what shards have turned away, as far as it is known whose it is.
    pub(super) fn send_on(&self) {
        let (on, refused) = {
            let mut postponed = self.postponed.lock();
            if postponed.is_empty() {
                return;
            }
            let routes = self.routes();
            let keyspace = |shard| match self.views.lock().get(&shard).cloned() {
                Some(view) => Some(view.read().descriptor.keyspace()),
                None => self.merges.keyspace_of_gone(shard),
            };
            let route = |shard| {
                let known = || routes.by_id(keyspace(shard)?);
                routes.of_shard(shard).or_else(known).cloned()
            };
            postponed.sort_out(route, boot_nanos(), self.patience_nanos)
        };
        for answer in refused {
            self.deliver(answer, NOBODY, &mut Vec::new());
        }
        for SentOn { shard, origin, batch } in on {
            self.counters.moved.add(batch.waiters().len() as u64);
            self.submit(shard, Input::Propose { shard, origin, batch });
        }
    }

    /// Asks the system shard for a change of the catalogue, which the cluster's level allows.
    /// `callback` is told when the change can be used, or why it was refused.
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

/// What a route has led to for a tile that was on other nodes only, and is so still.
fn elsewhere_of(old: &Route, (shard, arc): (ShardId, &RingArc), hub: &Hub) -> Option<View> {
    let place = old.place_of(shard).filter(|place| old.arc(*place) == arc)?;
    let view = old.views[place].clone();
    let is_elsewhere = view.read().descriptor.replica_on(hub.node_id).is_none();
    is_elsewhere.then_some(view)
}
