//! Where is a remote shard, and which node leads it?
//!
//! Every node has the full table of descriptors ([`overlay::FullTable`]); gossip keeps the tables
//! equal. It learns from local replicas, from answers ("not I: shard 9 is there"), and from other
//! nodes' tables. It passes the news to executors that ask other nodes for a shard
//! ([`Input::DescriptorLearned`](crate::executor::Input::DescriptorLearned)).
//!
//! ```text
//!   replicas here: new leader, new replicas ──┐                ┌──► executors: which node to ask
//!   NotLeader from another node ──────────────┼──► full table ─┼──► routes, after a split
//!   catalogue: keyspace dropped ──────────────┤       ▲ │      └──► readers: MOVED, CLUSTER SLOTS
//!   members: who is up ───────────────────────┘       │ ▼
//!                                        tables of other nodes, each 200 ms
//! ```
//!
//! The table decides nothing: a wrong one costs a hop.

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspace::{KeyspaceId, NodeId, ShardId};
use overlay::{KnownShard, Lookup as _, Message, Outbox, Update};

use super::{Control, Effect, Executors};
use crate::executor::Input;
use crate::routing::route::ArcClaim;

impl Control {
    /// Takes what executors have found out.
    pub(super) fn learn(&mut self, known: Vec<KnownShard>, executors: &mut dyn Executors) {
        let changed = {
            let mut full = self.table.lock();
            for known in known {
                full.learn(Update::Shard(Arc::new(known)));
            }
            full.take_changed()
        };
        self.spread_known(changed, executors);
    }

    /// Handles a message from another node's full table.
    pub(super) fn table_message(
        &mut self,
        from: NodeId,
        message: Message,
        executors: &mut dyn Executors,
    ) {
        let tells_drops = matches!(message, Message::Dropped(_));
        let mut out = Outbox::new();
        let changed = {
            let mut full = self.table.lock();
            full.step(from, message, &mut out);
            full.take_changed()
        };
        self.spread_known(changed, executors);
        self.send_table(out);
        if tells_drops {
            self.drop_forgotten();
        }
    }

    pub(super) fn tick_table(&mut self) {
        let mut out = Outbox::new();
        self.table.lock().tick(&mut out);
        self.send_table(out);
    }

    fn send_table(&mut self, out: Outbox) {
        self.effects
            .extend(out.into_iter().map(|(node, message)| Effect::LookupMessage(node, message)));
    }

    /// Drops replicas whose keyspace is gone: a late message may have begun one here after that.
    ///
    /// Where the catalogue is, only it says so. A round of checkpoints may cut the record of their
    /// end off before the catalogue here has come so far, and a restart would begin them again,
    /// without what they had promised (SAFETY G9).
    fn drop_forgotten(&mut self) {
        if self.has_system() {
            return;
        }
        let mut dropped = self.views.all();
        dropped.retain(|(_, view)| {
            let keyspace = view.read().descriptor.keyspace();
            self.table.has_dropped(keyspace)
        });
        dropped.into_iter().for_each(|(shard, _)| self.drop_replica(shard));
    }

    /// Ends a shard's replica here, if there is one.
    pub(super) fn drop_replica(&mut self, shard: ShardId) {
        self.views.remove(shard);
        self.submit(shard, Input::Drop { shard });
    }

    /// Tells executors what is new of shards that are not here, or not any more.
    fn spread_known(&mut self, changed: Vec<Arc<KnownShard>>, executors: &mut dyn Executors) {
        if changed.is_empty() {
            return;
        }
        self.effects.push(Effect::DescriptorsLearned(changed.clone()));
        let is_dropped = |known: &Arc<KnownShard>| self.views.has_dropped(known.arc().keyspace());
        let (dropped, changed): (Vec<_>, Vec<_>) = changed.into_iter().partition(is_dropped);
        for keyspace in self.otherwise_cut(&changed) {
            self.retile(keyspace, executors);
        }
        for known in changed {
            if !self.is_here(&known) {
                self.submit(known.shard(), Input::DescriptorLearned { known });
            }
        }
        // A node that has not heard of the drop yet still reports shards of the keyspace.
        let dropped: BTreeSet<KeyspaceId> =
            dropped.iter().map(|known| known.arc().keyspace()).collect();
        dropped.into_iter().for_each(|keyspace| self.forget_keyspace(keyspace));
    }

    /// Whether the replica here is the one that the shard has here.
    fn is_here(&self, known: &KnownShard) -> bool {
        self.views.get(known.shard()).is_some_and(|view| {
            let here = view.read().descriptor.replica_on(self.setup.node);
            here == known.descriptor().replica_on(self.setup.node)
        })
    }

    /// The keyspaces of these shards, as far as routes take some of them to have something else.
    fn otherwise_cut(&self, known: &[Arc<KnownShard>]) -> BTreeSet<KeyspaceId> {
        let is_other = |claim: &ArcClaim, keyspace| {
            self.routes.by_id(keyspace).is_some_and(|route| {
                let place = route.place_of(claim.shard);
                place.is_none_or(|place| *route.arc(place) != claim.arc)
            })
        };
        let claims = known.iter().map(|known| {
            let descriptor = known.descriptor();
            (ArcClaim::of(descriptor), descriptor.keyspace())
        });
        claims.filter(|(claim, id)| is_other(claim, *id)).map(|(_, id)| id).collect()
    }

    /// Makes the shard remote: the executor sends its requests to the known leader, or else to
    /// these nodes.
    pub(super) fn make_remote(&mut self, shard: ShardId, nodes: Vec<NodeId>) {
        self.submit(shard, Input::RemoteShard { shard, nodes });
        self.submit_descriptor(shard);
    }

    /// Tells a shard's executor what the table knows of it.
    pub(super) fn submit_descriptor(&mut self, shard: ShardId) {
        if let Some(known) = self.table.shard(shard) {
            self.submit(shard, Input::DescriptorLearned { known });
        }
    }

    /// A keyspace is gone.
    pub(super) fn forget_keyspace(&mut self, id: KeyspaceId) {
        self.table.lock().learn(Update::Dropped(id));
        self.effects.push(Effect::KeyspaceDropped(id));
    }
}
