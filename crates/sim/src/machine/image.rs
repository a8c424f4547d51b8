//! How a node without a replica of the system shard knows which keyspaces there are: it keeps an
//! image of the catalogue, as the server does, by asking now and then who leads that shard.
//!
//! ```text
//!   every 200 ms: Fetch { known: 17 } ──► leader ──► index 19: the catalogue ──► routes
//!                                                                            ──► Image { 19 }
//! ```
//! A cluster keeps images only if its replicas move by themselves; else nodes without a replica of
//! the system shard hear of no keyspace, and take no clients.

use keyspace::codec::Reader;
use keyspace::{Catalogue, NodeId, ShardId, Standings};
use node::entry::Waiter;
use node::fetch::{Found, Want};
use node::lane::{Answer, Input, Origin};
use node::state::Content;

use super::Machine;

/// The origin of questions about the catalogue.
pub(super) const IMAGE: Origin = Origin(2);
/// The system shard.
const SYSTEM: ShardId = ShardId(0);
/// Every so many ticks it is asked whether the catalogue has changed.
const IMAGE_TICKS: u64 = 4;

/// What a node knows of the catalogue that it has no replica of.
#[derive(Default)]
pub struct Image {
    /// Whether one is kept.
    pub is_kept: bool,
    /// The other nodes of the cluster.
    pub(super) others: Vec<NodeId>,
    /// Those that were named as ones to ask.
    named: Vec<NodeId>,
    is_asking: bool,
    /// As of this index; 0: nothing.
    index: u64,
    bytes: Box<[u8]>,
    standings: Standings,
}

impl Machine {
    /// Whether a replica of the system shard is here.
    pub(super) fn has_system(&self) -> bool {
        self.shard(SYSTEM).is_some()
    }

    /// How nodes stand, as far as is known here.
    pub fn standings(&self) -> Standings {
        let Some(view) = self.view(SYSTEM) else { return self.image.standings.clone() };
        let state = view.read();
        match &state.content {
            Content::System(system) => system.catalogue.standings().clone(),
            Content::Keys(_) => Standings::default(),
        }
    }

    /// Asks whether the catalogue has changed, when it is time.
    pub(super) fn tick_image(&mut self) {
        let is_time = self.ticks.is_multiple_of(IMAGE_TICKS);
        if !self.image.is_kept || !is_time || self.has_system() {
            return;
        }
        if self.image.named != self.image.others {
            let nodes = self.image.others.clone();
            self.image.named.clone_from(&nodes);
            self.submit(SYSTEM, Input::Away { shard: SYSTEM, nodes });
        }
        if std::mem::replace(&mut self.image.is_asking, true) {
            return;
        }
        let (want, bytes_max) = (Box::new(Want::Catalogue { known: self.image.index }), usize::MAX);
        let (origin, waiter) = (IMAGE, Waiter(0));
        self.submit(SYSTEM, Input::Fetch { shard: SYSTEM, want, bytes_max, origin, waiter });
    }

    /// What was asked is answered, or given up.
    pub(super) fn image_came(&mut self, answer: Answer) {
        self.image.is_asking = false;
        let Answer::Fetched { found, .. } = answer else { return };
        let Found::Catalogue { index, bytes: Some(bytes) } = *found else { return };
        if index <= self.image.index || self.has_system() {
            return;
        }
        self.image.index = index;
        if self.image.bytes != bytes {
            let catalogue = Catalogue::decode(&mut Reader::new(&bytes));
            let catalogue = catalogue.expect("nodes send what can be read");
            self.image.bytes = bytes;
            self.image.standings = catalogue.standings().clone();
            self.jump(&catalogue);
        }
        self.submit(SYSTEM, Input::Image { index });
    }
}
