//! A node's table of descriptors: what it learns from here, from answers and from other tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspace::{Catalogue, KeyspaceId, NodeId};
use node::lane::Input;
use node::route::Claim;
use overlay::{Known, Lookup as _, Message, News, Outbox, Table};

use super::Machine;
use super::peers::Packet;

/// Every so many ticks the table is compared with that of another node.
const LOOKUP_TICKS: u64 = 4;

/// What one node's table says to another's.
#[derive(Clone, Debug)]
pub struct Word {
    from: NodeId,
    /// To whom.
    pub to: NodeId,
    message: Message,
}

impl Machine {
    /// What its table knows.
    pub fn table(&self) -> &Table {
        self.lookup.table()
    }

    /// These are the other nodes of its cluster.
    pub fn look_up_by(&mut self, nodes: &[NodeId]) {
        self.lookup.peers(nodes);
        self.image.others = nodes.to_vec();
    }

    pub(super) fn tick_lookup(&mut self) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(LOOKUP_TICKS) {
            let mut out = Outbox::new();
            self.lookup.tick(&mut out);
            self.send_words(out);
            self.supersede_left_over();
        }
    }

    /// Takes what a lane's turn has found out.
    pub(super) fn learn(&mut self, known: Vec<Known>) {
        if !known.is_empty() {
            for known in known {
                self.lookup.learn(News::Shard(Arc::new(known)));
            }
            self.spread_known();
        }
    }

    /// A keyspace is gone.
    pub(super) fn forget_keyspace(&mut self, id: KeyspaceId) {
        self.lookup.learn(News::Dropped(id));
    }

    /// The catalogue has become this one at once.
    pub(super) fn forget_keyspaces_of(&mut self, catalogue: &Catalogue) {
        let known: BTreeSet<_> = self.table().iter().map(|known| known.arc().keyspace()).collect();
        let gone = known.into_iter().filter(|id| catalogue.has_dropped(*id));
        gone.for_each(|id| self.forget_keyspace(id));
    }

    /// Another table has said something.
    pub(super) fn lookup_came(&mut self, word: Word) {
        // As bytes, which is how it travels.
        let mut bytes = Vec::new();
        word.message.encode(&mut bytes);
        let message = Message::decode(&bytes).expect("nodes send what can be read");
        let mut out = Outbox::new();
        self.lookup.step(word.from, message, &mut out);
        self.send_words(out);
        self.spread_known();
    }

    /// Tells lanes what is new of shards: those without a replica ask by it. What is told of the
    /// shards of a keyspace that is gone is forgotten again, and by all.
    fn spread_known(&mut self) {
        let changed = self.lookup.take_changed();
        let catalogue = if changed.is_empty() { None } else { self.catalogue() };
        for keyspace in self.otherwise_cut(&changed) {
            self.retile(keyspace);
        }
        for known in changed {
            let keyspace = known.arc().keyspace();
            match catalogue.as_ref().is_some_and(|catalogue| catalogue.has_dropped(keyspace)) {
                true => self.forget_keyspace(keyspace),
                false if self.is_here(&known) || self.is_deaf => {}
                false => self.submit(known.shard(), Input::Known { known }),
            }
        }
    }

    /// The keyspaces of these shards, as far as routes take some of them to have something else.
    fn otherwise_cut(&self, known: &[Arc<Known>]) -> BTreeSet<KeyspaceId> {
        let claims = known.iter().map(|known| {
            let descriptor = known.descriptor();
            (Claim::of(descriptor), descriptor.keyspace())
        });
        let is_other = |(claim, keyspace): &(Claim, KeyspaceId)| {
            let mut routes = self.routes.values();
            routes.find(|route| route.keyspace.id == *keyspace).is_some_and(|route| {
                let place = route.place_of(claim.shard);
                place.is_none_or(|place| *route.arc(place) != claim.arc)
            })
        };
        claims.filter(is_other).map(|(_, keyspace)| keyspace).collect()
    }

    /// Whether the replica here is the one that the shard has here.
    fn is_here(&self, known: &Known) -> bool {
        self.view(known.shard()).is_some_and(|view| {
            let here = view.read().descriptor.replica_on(self.node());
            here == known.descriptor().replica_on(self.node())
        })
    }

    fn send_words(&mut self, out: Outbox) {
        let from = self.manifest.node;
        let words = out.into_iter().map(|(to, message)| Word { from, to, message });
        self.outgoing.extend(words.map(|word| Packet::Lookup(Box::new(word))));
    }
}
