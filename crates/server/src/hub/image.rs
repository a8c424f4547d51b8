//! How does a node without a replica of the system shard know which keyspaces there are?
//!
//! It keeps an **image** of the catalogue: now and then it asks who leads the system shard for it,
//! saying what it has, and makes its routes by the answer. So it takes any client's request, and
//! does it by asking elsewhere, shard by shard ([`node::fetch`]).
//!
//! ```text
//!   every 200 ms: Fetch { known: 17 } ──► leader ──► index 17: nothing new
//!                                                ──► index 19: the catalogue ──► routes
//!                                                                            ──► Image { 19 }
//! ```
//!
//! An image that is too old costs a client a wait, or an error that says that nothing was done:
//! shards that are gone are led by nobody, and keyspaces that have come are not known yet. Who
//! changes the catalogue through this node is answered when its image has the change.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | questions under way | one | the next is asked when it is answered or given up |
//! | bytes of an answer | a catalogue: some 200 KiB at most | – |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyspace::codec::Reader;
use keyspace::{Catalogue, NodeId, ShardId};
use node::fetch::{Found, Want};
use node::lane::{Answer, Input};
use parking_lot::Mutex;

use super::peers::Peers;
use super::{Hub, News, SIDE_DOOR};

/// The system shard.
const SYSTEM: ShardId = ShardId(0);

/// What a node knows of the catalogue that it has no replica of.
#[derive(Default)]
pub struct Image {
    /// Whether a question is under way.
    is_asking: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// As of this index; 0: nothing.
    index: u64,
    bytes: Box<[u8]>,
    /// The nodes that were named as those to ask.
    nodes: Vec<NodeId>,
}

impl Image {
    /// What was asked is answered, or given up; the catalogue, if it is another than before.
    fn answered(&self, answer: Answer) -> Option<(u64, Option<Catalogue>)> {
        self.is_asking.store(false, Ordering::Release);
        let Answer::Fetched { found, .. } = answer else { return None };
        let Found::Catalogue { index, bytes: Some(bytes) } = *found else { return None };
        let mut known = self.known.lock();
        if index <= known.index {
            return None;
        }
        if known.bytes == bytes {
            known.index = index;
            return Some((index, None));
        }
        let mut reader = Reader::new(&bytes);
        match Catalogue::decode(&mut reader) {
            Ok(catalogue) => {
                (known.index, known.bytes) = (index, bytes);
                Some((index, Some(catalogue)))
            }
            Err(error) => {
                tracing::warn!("the catalogue of another node cannot be read: {error}");
                None
            }
        }
    }
}

impl Hub {
    /// Whether a replica of the system shard is here.
    pub(super) fn has_system(&self) -> bool {
        self.views.lock().contains_key(&SYSTEM)
    }

    /// Asks whether the catalogue has changed, if there is no replica of it here.
    pub(super) fn renew_image(self: &Arc<Self>, peers: &Peers) {
        if self.has_system() || peers.image.is_asking.swap(true, Ordering::AcqRel) {
            return;
        }
        let members = peers.cluster.members();
        let others = members.iter().filter(|m| m.node != self.node_id && m.is_up());
        let nodes: Vec<NodeId> = others.map(|member| member.node).collect();
        let (known, is_new) = {
            let mut known = peers.image.known.lock();
            let is_new = known.nodes != nodes;
            known.nodes.clone_from(&nodes);
            (known.index, is_new)
        };
        if is_new {
            self.ask_elsewhere(SYSTEM, nodes);
        }
        let hub = self.clone();
        let waiter = self.side_door.wait(Box::new(move |answer| {
            let Some(peers) = &hub.peers else { return };
            let Some((index, catalogue)) = peers.image.answered(answer) else { return };
            if hub.has_system() {
                return;
            }
            let jumped = catalogue.map(|catalogue| News::Jumped(Arc::new(catalogue)));
            hub.post_news(jumped.into_iter().chain([News::Image(index)]));
        }));
        let (want, bytes_max) = (Box::new(Want::Catalogue { known }), usize::MAX);
        let origin = SIDE_DOOR;
        self.submit(SYSTEM, Input::Fetch { shard: SYSTEM, want, bytes_max, origin, waiter });
    }
}
