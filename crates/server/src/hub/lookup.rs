//! Where is a shard that is not here, and who leads it?
//!
//! Every node keeps the full table of descriptors ([`overlay::full`]), equal to that of the others
//! by gossip. It learns from the replicas here, from answers ("not I: shard 9 is there"), and from
//! its like on other nodes; what it has learnt it tells those here who ask other nodes for a shard
//! ([`Input::Known`]), and people.
//!
//! ```text
//!   replicas here: new leader, new replicas ──┐                ┌──► lanes: whom to ask (proxies)
//!   NotLed from another node ─────────────────┼──► full table ─┼──► MOVED, CLUSTER SLOTS and NODES
//!   catalogue: keyspace dropped ──────────────┤       ▲ │      └──► /v1/shards, carillon shards
//!   members: who is up ───────────────────────┘       │ ▼
//!                                        tables of other nodes, each 200 ms
//! ```
//!
//! Nothing here decides anything: a table that is wrong costs a hop (DESIGN §4).

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspace::{KeyspaceId, NodeId, ShardId};
use node::lane::Input;
use node::route::Claim;
use overlay::{Full, Known, Lookup as _, Message, News as Learn, Outbox, Point};
use parking_lot::{Mutex, MutexGuard};

use super::peers::{Peers, is_dropped};
use super::tallies::Tally;
use super::{Hub, News, View};

/// The kind of frames that carry what one table says to another.
pub const KIND_LOOKUP: u8 = 4;

/// This node's table.
pub struct Lookup {
    full: Mutex<Full>,
}

impl Lookup {
    /// An empty one. `seed` was drawn at random.
    pub fn new(seed: u64) -> Self {
        Self { full: Mutex::new(Full::new(seed)) }
    }

    /// A shard, as it is known here.
    pub fn shard(&self, shard: ShardId) -> Option<Arc<Known>> {
        self.full.lock().table().shard(shard).cloned()
    }

    /// The shard that has a place, as far as it is known here.
    pub fn owner(&self, point: Point<'_>) -> Option<Arc<Known>> {
        self.full.lock().table().owner(point).cloned()
    }

    /// The shards of a keyspace, as they are known here.
    pub fn keyspace(&self, keyspace: KeyspaceId) -> Vec<Arc<Known>> {
        self.full.lock().table().keyspace(keyspace).cloned().collect()
    }

    /// Whether a keyspace is gone for ever, as far as the table has heard.
    pub fn has_dropped(&self, keyspace: KeyspaceId) -> bool {
        self.full.lock().table().dropped().contains(keyspace)
    }

    /// The whole table, as long as it is held: nobody learns anything meanwhile.
    pub(super) fn table(&self) -> MutexGuard<'_, Full> {
        self.full.lock()
    }

    /// How many shards are known.
    pub fn known_count(&self) -> usize {
        self.full.lock().table().len()
    }
}

impl Hub {
    /// Takes what a lane's turn has found out.
    pub(super) fn learn(&self, known: impl Iterator<Item = Known>) {
        let mut known = known.peekable();
        if known.peek().is_none() {
            return;
        }
        let Some(Peers { lookup, .. }) = &self.peers else {
            let known: Vec<_> = known.map(Arc::new).collect();
            return self.post_news(self.otherwise_cut(&known).into_iter().map(News::Retiled));
        };
        let changed = {
            let mut full = lookup.full.lock();
            for known in known {
                full.learn(Learn::Shard(Arc::new(known)));
            }
            full.take_changed()
        };
        self.spread_known(changed);
    }

    /// What is asked of a shard from now on is asked elsewhere: of who is known to lead it, or else
    /// of these nodes.
    pub(super) fn ask_elsewhere(&self, shard: ShardId, nodes: Vec<NodeId>) {
        self.submit(shard, Input::Away { shard, nodes });
        self.tell_known(shard);
    }

    /// Tells a shard's lane what the table knows of it.
    pub(super) fn tell_known(&self, shard: ShardId) {
        if let Some(known) = self.peers.as_ref().and_then(|peers| peers.lookup.shard(shard)) {
            self.submit(shard, Input::Known { known });
        }
    }

    /// These keyspaces are gone.
    pub(super) fn forget_keyspaces(&self, ids: impl IntoIterator<Item = KeyspaceId>) {
        let Some(Peers { lookup, lookups, .. }) = &self.peers else { return };
        for id in ids {
            lookup.full.lock().learn(Learn::Dropped(id));
            lookups.forget_keyspace(id);
        }
    }

    /// The keyspaces of whose shards something is known.
    pub(super) fn keyspaces_looked_up(&self) -> Vec<KeyspaceId> {
        let Some(Peers { lookup, .. }) = &self.peers else { return Vec::new() };
        let full = lookup.full.lock();
        let mut ids: Vec<_> = full.table().iter().map(|known| known.arc().keyspace()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Lets a unit of the table's time pass.
    pub(super) fn tick_lookup(&self, peers: &Peers) {
        let mut out = Outbox::new();
        peers.lookup.full.lock().tick(&mut out);
        self.send_lookup(peers, out);
    }

    /// Those up are others now.
    pub(super) fn look_up_by(&self, peers: &Peers) {
        let members = peers.cluster.members();
        let others = members.iter().filter(|m| m.node != self.node_id && m.is_up());
        let nodes: Vec<NodeId> = others.map(|member| member.node).collect();
        peers.lookup.full.lock().peers(&nodes);
        peers.lookups.peers(&nodes);
    }

    /// What another node's table says.
    pub(super) fn lookup_came(&self, peers: &Peers, from: NodeId, body: &[u8]) {
        let message = match Message::decode(body) {
            Ok(message) => message,
            Err(error) => {
                let from = from.0;
                return tracing::warn!(
                    "what node {from:016x} says of shards cannot be read, and was ignored: {error}"
                );
            }
        };
        let mut tally = Tally::default();
        tally.lookup(&message, body.len());
        peers.tallies.received.add(&tally);
        if let Message::Ring { .. } | Message::Request(_) = message {
            return self.lookups_came(peers, from, message);
        }
        let tells_drops = matches!(message, Message::Dropped(_));
        let mut out = Outbox::new();
        let changed = {
            let mut full = peers.lookup.full.lock();
            full.step(from, message, &mut out);
            full.take_changed()
        };
        self.spread_known(changed);
        self.send_lookup(peers, out);
        if tells_drops {
            self.drop_forgotten(peers);
        }
        self.spread_news();
    }

    /// Drops replicas whose keyspace is gone: a late message may have begun one here after that.
    fn drop_forgotten(&self, peers: &Peers) {
        let own = |(shard, view): (&ShardId, &View)| (*shard, view.clone());
        let mut gone: Vec<_> = self.views.lock().iter().map(own).collect();
        gone.retain(|(_, view)| {
            let keyspace = view.read().descriptor.keyspace();
            peers.lookup.has_dropped(keyspace)
        });
        for (shard, _) in gone {
            self.views.lock().remove(&shard);
            self.submit(shard, Input::Drop { shard });
        }
    }

    /// Tells lanes what is new of shards that are not here, or not any more. Not under the table's
    /// lock: who holds `views` may wait for a shard's guard, and who holds that for the table.
    fn spread_known(&self, changed: Vec<Arc<Known>>) {
        if let Some(peers) = &self.peers {
            peers.lookups.learn(&changed);
        }
        let views = self.views.lock();
        let system = views.get(&ShardId(0));
        let is_gone = |known: &Arc<Known>| is_dropped(system, known.arc().keyspace());
        let (gone, changed): (Vec<_>, Vec<_>) = changed.into_iter().partition(is_gone);
        self.post_news(self.otherwise_cut(&changed).into_iter().map(News::Retiled));
        // Whether the replica here is the one that the shard has here.
        let is_here = |known: &Arc<Known>| {
            views.get(&known.shard()).is_some_and(|view| {
                let here = view.read().descriptor.replica_on(self.node_id);
                here == known.descriptor().replica_on(self.node_id)
            })
        };
        let away = changed.into_iter().filter(|known| !is_here(known));
        self.post_news(away.map(News::Known));
        drop(views);
        // Of a keyspace that is gone: told by who has not heard of that yet.
        self.forget_keyspaces(gone.iter().map(|known| known.arc().keyspace()));
    }

    /// The keyspaces of these shards, as far as routes take some of them to have something else.
    fn otherwise_cut(&self, known: &[Arc<Known>]) -> BTreeSet<KeyspaceId> {
        let routes = self.routes();
        let is_other = |claim: &Claim, keyspace| {
            routes.by_id(keyspace).is_some_and(|route| {
                let place = route.place_of(claim.shard);
                place.is_none_or(|place| *route.arc(place) != claim.arc)
            })
        };
        let claims = known.iter().map(|known| {
            let descriptor = known.descriptor();
            (Claim::of(descriptor), descriptor.keyspace())
        });
        claims.filter(|(claim, id)| is_other(claim, *id)).map(|(_, id)| id).collect()
    }

    pub(super) fn send_lookup(&self, peers: &Peers, out: Outbox) {
        if out.is_empty() {
            return;
        }
        let (mut tally, mut bytes) = (Tally::default(), Vec::new());
        for (node, message) in out {
            bytes.clear();
            message.encode(&mut bytes);
            tally.lookup(&message, bytes.len());
            // What is lost is found missing by the next digest.
            let _lost = peers.cluster.send(node, KIND_LOOKUP, &[&bytes]);
        }
        peers.tallies.sent.add(&tally);
        peers.cluster.flush();
    }
}
