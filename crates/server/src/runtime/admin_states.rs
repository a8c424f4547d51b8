//! Which nodes are cordoned, draining or removed, as far as this one knows?
//!
//! The catalogue says it ([`keyspace::AdminState`]); here all threads can read it without a lock. A
//! node with a replica of the catalogue follows each change; one without takes what its cached
//! catalogue says, within 200 ms. Links and members learn which nodes were removed: they refuse and
//! forget them.
//!
//! ```text
//!   catalogue: Change::Node ──┐   control
//!   cache, snapshot: Jumped ──┼──► AdminStates ──► placement of replicas, /v1/nodes
//!   start: what was recovered ┘        └─────────► Cluster::set_removed
//! ```
//!
//! Nothing here decides: it may be older than the catalogue.

use std::sync::Arc;

use arc_swap::ArcSwap;
use keyspace::{AdminState, AdminStates, NodeId};

/// See the front page of this module.
#[derive(Default)]
pub struct AdminStateCache(ArcSwap<AdminStates>);

impl AdminStateCache {
    /// The state of a node.
    pub fn of(&self, node: NodeId) -> AdminState {
        self.0.load().of(node)
    }

    /// Those of all nodes: a node that is not listed is a member.
    pub fn all(&self) -> Arc<AdminStates> {
        self.0.load_full()
    }

    /// Control follows the catalogue.
    pub(super) fn store(&self, states: Arc<AdminStates>) {
        self.0.store(states);
    }
}
