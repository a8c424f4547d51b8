//! How does a node without a replica of the system shard know the keyspaces?
//!
//! It caches the catalogue. Now and then it asks the leader of the system shard, naming the version
//! that it has, and makes its routes from the answer. So it serves any client, by forwarding and
//! fetching shard by shard ([`crate::routing::fetch`]).
//!
//! ```text
//!   every 200 ms: Fetch { known: 17 } ──► leader ──► index 17: nothing new
//!                                                ──► index 19: the catalogue ──► routes
//!                                                                            ──► CatalogueCached
//! ```
//!
//! An old cache costs a client a wait, or an error that says that nothing was done: a dropped shard
//! has no leader, and a new keyspace is not known yet. A change of the catalogue through this node
//! is answered once its cache has the change.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | questions in flight | one | the next is asked when it is answered or given up |
//! | bytes of an answer | a catalogue: some 200 KiB at most, and 1 MiB of libraries | – |

use keyspace::codec::Reader;
use keyspace::{Catalogue, NodeId};

use super::{CONTROL, Control, Effect, Executors, SYSTEM};
use crate::event::EventKind;
use crate::executor::{Answer, Input};
use crate::replica::entry::Waiter;
use crate::routing::fetch::{FetchRequest, FetchResult};

/// What a node knows of the catalogue that it has no replica of.
#[derive(Debug, Default)]
pub(super) struct CatalogueCache {
    is_asking: bool,
    /// As of this index; 0: nothing.
    index: u64,
    bytes: Box<[u8]>,
    /// The nodes that were named as those to ask.
    asked_of: Vec<NodeId>,
}

impl Control {
    /// Whether a replica of the system shard is here.
    pub(super) fn has_system(&self) -> bool {
        self.views.contains(SYSTEM)
    }

    /// Asks whether the catalogue has changed, if there is no replica of it here.
    pub(super) fn ask_for_catalogue(&mut self) {
        if !self.setup.caches_catalogue || self.has_system() {
            return;
        }
        if self.catalogue.asked_of != self.members.up {
            let nodes = self.members.up.clone();
            self.catalogue.asked_of.clone_from(&nodes);
            self.make_remote(SYSTEM, nodes);
        }
        if std::mem::replace(&mut self.catalogue.is_asking, true) {
            return;
        }
        let want = Box::new(FetchRequest::Catalogue { known: self.catalogue.index });
        let (origin, waiter, bytes_max) = (CONTROL, Waiter(0), usize::MAX);
        self.submit(SYSTEM, Input::Fetch { shard: SYSTEM, want, bytes_max, origin, waiter });
    }

    /// What was asked is answered, or given up.
    pub(super) fn handle_catalogue_reply(&mut self, answer: Answer, executors: &mut dyn Executors) {
        self.catalogue.is_asking = false;
        let Answer::Fetched { found, .. } = answer else { return };
        let FetchResult::Catalogue { index, bytes: Some(bytes) } = *found else { return };
        if index <= self.catalogue.index || self.has_system() {
            return;
        }
        if self.catalogue.bytes != bytes {
            let catalogue = match Catalogue::decode(&mut Reader::new(&bytes)) {
                Ok(catalogue) => catalogue,
                Err(error) => {
                    let event = EventKind::UnreadableCatalogue { error };
                    return self.effects.push(Effect::Event(event));
                }
            };
            self.catalogue.bytes = bytes;
            self.jump(&catalogue, executors);
        }
        self.catalogue.index = index;
        self.submit(SYSTEM, Input::CatalogueCached { index });
    }
}
