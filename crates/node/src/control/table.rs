//! Where is a shard that is not here, and who leads it?
//!
//! Every node keeps the full table of descriptors ([`overlay::Full`]), equal to that of the others
//! by gossip. It learns from the replicas here, from answers ("not I: shard 9 is there"), and from
//! its like on other nodes; what it has learned it tells those executors that ask other nodes for a
//! shard ([`Input::Known`](crate::executor::Input::Known)).
//!
//! ```text
//!   replicas here: new leader, new replicas ──┐                ┌──► executors: whom to ask
//!   NotLed from another node ─────────────────┼──► full table ─┼──► routes, if a shard was cut
//!   catalogue: keyspace dropped ──────────────┤       ▲ │      └──► readers: MOVED, CLUSTER SLOTS
//!   members: who is up ───────────────────────┘       │ ▼
//!                                        tables of other nodes, each 200 ms
//! ```
//!
//! Nothing here decides anything: a table that is wrong costs a hop.

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspace::{KeyspaceId, NodeId, ShardId};
use overlay::{Known, Lookup as _, Message, News, Outbox};

use super::{Control, Effect, Executors};
use crate::executor::Input;
use crate::routing::route::Claim;

impl Control {
    /// Takes what executors have found out.
    pub(super) fn learn(&mut self, known: Vec<Known>, executors: &mut dyn Executors) {
        let changed = {
            let mut full = self.table.lock();
            for known in known {
                full.learn(News::Shard(Arc::new(known)));
            }
            full.take_changed()
        };
        self.spread_known(changed, executors);
    }

    /// Another node's table has said something.
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
        self.effects.extend(out.into_iter().map(|(node, message)| Effect::Table(node, message)));
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
        let mut gone = self.views.all();
        gone.retain(|(_, view)| {
            let keyspace = view.read().descriptor.keyspace();
            self.table.has_dropped(keyspace)
        });
        gone.into_iter().for_each(|(shard, _)| self.drop_replica(shard));
    }

    /// Ends a shard's replica here, if there is one.
    pub(super) fn drop_replica(&mut self, shard: ShardId) {
        self.views.remove(shard);
        self.submit(shard, Input::Drop { shard });
    }

    /// Tells executors what is new of shards that are not here, or not any more.
    fn spread_known(&mut self, changed: Vec<Arc<Known>>, executors: &mut dyn Executors) {
        if changed.is_empty() {
            return;
        }
        self.effects.push(Effect::Learned(changed.clone()));
        let is_gone = |known: &Arc<Known>| self.views.has_dropped(known.arc().keyspace());
        let (gone, changed): (Vec<_>, Vec<_>) = changed.into_iter().partition(is_gone);
        for keyspace in self.otherwise_cut(&changed) {
            self.retile(keyspace, executors);
        }
        for known in changed {
            if !self.is_here(&known) {
                self.submit(known.shard(), Input::Known { known });
            }
        }
        // Of a keyspace that is gone: told by who has not heard of that yet.
        let gone: BTreeSet<KeyspaceId> = gone.iter().map(|known| known.arc().keyspace()).collect();
        gone.into_iter().for_each(|keyspace| self.forget_keyspace(keyspace));
    }

    /// Whether the replica here is the one that the shard has here.
    fn is_here(&self, known: &Known) -> bool {
        self.views.get(known.shard()).is_some_and(|view| {
            let here = view.read().descriptor.replica_on(self.setup.node);
            here == known.descriptor().replica_on(self.setup.node)
        })
    }

    /// The keyspaces of these shards, as far as routes take some of them to have something else.
    fn otherwise_cut(&self, known: &[Arc<Known>]) -> BTreeSet<KeyspaceId> {
        let is_other = |claim: &Claim, keyspace| {
            self.routes.by_id(keyspace).is_some_and(|route| {
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

    /// What is asked of a shard from now on is asked elsewhere: of who is known to lead it, or else
    /// of these nodes.
    pub(super) fn ask_elsewhere(&mut self, shard: ShardId, nodes: Vec<NodeId>) {
        self.submit(shard, Input::Away { shard, nodes });
        self.tell_known(shard);
    }

    /// Tells a shard's executor what the table knows of it.
    pub(super) fn tell_known(&mut self, shard: ShardId) {
        if let Some(known) = self.table.shard(shard) {
            self.submit(shard, Input::Known { known });
        }
    }

    /// A keyspace is gone.
    pub(super) fn forget_keyspace(&mut self, id: KeyspaceId) {
        self.table.lock().learn(News::Dropped(id));
        self.effects.push(Effect::Forgotten(id));
    }
}
