//! Which shard has which slots, as the node knows: what the server's `hub::routes` does.

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspace::{Arc as RingArc, Keyspace, KeyspaceId, ShardId};
use node::birth;
use node::lane::Input;
use node::moved::SentOn;
use node::route::{self, Claim, Route, View};
use node::shard::ShardStart;
use parking_lot::RwLock;

use super::{CLIENTS, Machine};

/// How long clients wait for what was turned away, in nanoseconds.
const PATIENCE_NANOS: u64 = 1_500_000_000;

impl Machine {
    /// The views of all replicas that are here, or are about to begin.
    pub(super) fn views(&self) -> impl Iterator<Item = View> {
        self.lanes.iter().flat_map(|seat| {
            let begun = seat.inbox.iter().filter_map(|input| match input {
                Input::Create(start) => Some(start.view.clone()),
                _ => None,
            });
            seat.lane.shards().map(|shard| shard.view()).chain(begun)
        })
    }

    /// The view of a shard's replica that is here, or is about to begin.
    fn view_here(&self, id: ShardId) -> Option<View> {
        let seat = &self.lanes[self.lane_of(id)];
        seat.lane.view(id).or_else(|| {
            seat.inbox.iter().find_map(|input| match input {
                Input::Create(start) if start.view.read().descriptor.shard == id => {
                    Some(start.view.clone())
                }
                _ => None,
            })
        })
    }

    /// Lets the route of a keyspace lead to where its shards are, as is known here; replicas that
    /// begin here with their shards begin now.
    pub(super) fn route(&mut self, keyspace: Keyspace) {
        let known = self.table().keyspace(keyspace.id);
        let known = known.map(|known| Claim::of(known.descriptor()));
        let mut claims: Vec<Claim> = known.collect();
        claims.extend(self.views().filter_map(|view| {
            let descriptor = &view.read().descriptor;
            (descriptor.keyspace() == keyspace.id).then(|| Claim::of(descriptor))
        }));
        let tiles = route::tiles(&keyspace, &claims).into_iter();
        let tiles = tiles.map(|(shard, arc)| {
            let view = self.view_of(&keyspace, (shard, &arc));
            (shard, arc, view)
        });
        let tiles = tiles.collect();
        let (id, name) = (keyspace.id, keyspace.name.clone());
        let route = Arc::new(Route::new(keyspace, self.hasher, tiles));
        if let Some(old) = self.routes.insert(name, route.clone())
            && old.keyspace.id == id
        {
            self.supersede_gone(&old, &route);
        }
        self.send_on();
    }

    /// The same for a keyspace that is there.
    pub(super) fn retile(&mut self, keyspace: KeyspaceId) {
        let route = self.routes.values().find(|route| route.keyspace.id == keyspace);
        if let Some(keyspace) = route.map(|route| route.keyspace.clone()) {
            self.route(keyspace);
        }
    }

    /// The same for the keyspace of a shard.
    pub(super) fn retile_of(&mut self, shard: ShardId) {
        let route = self.routes.values().find(|route| route.place_of(shard).is_some());
        if let Some(keyspace) = route.map(|route| route.keyspace.clone()) {
            self.route(keyspace);
        }
    }

    /// The view of a keyspace's shard: of its replica here, which begins now if the shard begins
    /// here with its keyspace; or else of nothing, which serves nobody.
    fn view_of(&mut self, keyspace: &Keyspace, (shard, arc): (ShardId, &RingArc)) -> View {
        if let Some(view) = self.view_here(shard) {
            return view;
        }
        let settings = self.limits.settings(self.hasher);
        let node = self.manifest.node;
        let began = keyspace.shards.iter().position(|id| *id == shard);
        // Who has only an image of the catalogue does not know how its shards went on.
        let begins = began.filter(|_| self.has_system());
        let replicas = birth::first_replicas(keyspace);
        let here = replicas.iter().find(|(_, at)| *at == node).map(|(replica, _)| *replica);
        let ended = self.lanes[self.lane_of(shard)].lane.ended_replica(shard);
        let here = here.filter(|replica| ended.is_none_or(|ended| ended < *replica));
        match begins.zip(here) {
            Some((place, _)) => {
                let state = birth::first_state(keyspace, place, settings);
                let view = self.create_shard(state, keyspace.options.durability);
                // Its group may have gone on without it meanwhile.
                self.tell_known(shard);
                view
            }
            None => {
                if let Some(view) = self.elsewhere(keyspace, (shard, arc)) {
                    return view;
                }
                let nodes = self.who_may_have(keyspace);
                self.submit(shard, Input::Away { shard, nodes });
                self.tell_known(shard);
                let replicas = if began.is_some() { replicas } else { Vec::new() };
                let nothing =
                    birth::elsewhere(keyspace, (shard, arc.clone()), replicas, node, settings);
                Arc::new(RwLock::new(nothing))
            }
        }
    }

    /// What the route has led to for a tile that was on other nodes only, and is so still.
    fn elsewhere(&self, keyspace: &Keyspace, (shard, arc): (ShardId, &RingArc)) -> Option<View> {
        let mut routes = self.routes.values();
        let old = routes.find(|route| route.keyspace.id == keyspace.id)?;
        let place = old.place_of(shard).filter(|place| old.arc(*place) == arc)?;
        let view = old.views[place].clone();
        let is_elsewhere = view.read().descriptor.replica_on(self.manifest.node).is_none();
        is_elsewhere.then_some(view)
    }

    /// All shards of a keyspace of which anything is known here.
    pub(super) fn shards_of(&self, keyspace: &Keyspace) -> BTreeSet<ShardId> {
        let mut shards: BTreeSet<ShardId> = keyspace.shards.iter().copied().collect();
        let mut routes = self.routes.values();
        if let Some(route) = routes.find(|route| route.keyspace.id == keyspace.id) {
            shards.extend(route.shards());
        }
        shards.extend(self.views().filter_map(|view| {
            let descriptor = &view.read().descriptor;
            (descriptor.keyspace() == keyspace.id).then_some(descriptor.shard)
        }));
        shards
    }

    /// Begins the right half of a shard that was cut in two here, unless there is, or has been, a
    /// replica of it.
    pub(super) fn begin_half(&mut self, start: ShardStart) {
        let (shard, keyspace) = {
            let descriptor = &start.view.read().descriptor;
            (descriptor.shard, descriptor.keyspace())
        };
        let ended = self.lanes[self.lane_of(shard)].lane.ended_replica(shard);
        let may_begin = ended.is_none_or(|ended| ended < start.replica);
        if may_begin && self.view_here(shard).is_none() && !self.is_dropped(keyspace) {
            self.submit(shard, Input::Create(start));
            self.tell_known(shard);
        } else {
            // Nobody is to wait for its beginning.
            self.lanes.iter_mut().for_each(|seat| seat.lane.confirm(shard));
        }
        self.retile(keyspace);
    }

    /// Sends on what shards have turned away, as far as it is known whose it is.
    pub(super) fn send_on(&mut self) {
        if self.postponed.is_empty() {
            return;
        }
        let mut postponed = std::mem::take(&mut self.postponed);
        let route = |shard| {
            let here = self.view_here(shard).map(|view| view.read().descriptor.keyspace());
            let keyspace = here.or_else(|| self.keyspace_of_gone(shard));
            let mut routes = self.routes.values();
            let is_its = |route: &&Arc<Route>| {
                route.place_of(shard).is_some() || Some(route.keyspace.id) == keyspace
            };
            routes.find(is_its).cloned()
        };
        let (on, refused) = postponed.sort_out(route, self.boot, PATIENCE_NANOS);
        self.postponed = postponed;
        self.refused.extend(refused);
        for SentOn { shard, batch, .. } in on {
            self.sent_on.extend(batch.waiters().iter().map(|waiter| (*waiter, shard)));
            self.submit(shard, Input::Propose { shard, origin: CLIENTS, batch });
        }
    }
}
