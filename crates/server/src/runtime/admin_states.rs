//! The admin states of nodes (cordoned, draining, removed), as far as this node knows them.
//!
//! The catalogue holds them ([`keyspace::AdminState`]); here all threads can read them without a
//! lock. A node with a replica of the catalogue follows each change; one without follows its cached
//! catalogue, within 200 ms. Removed nodes are passed on to links, which refuse them, and to
//! membership, which forgets them.
//!
//! ```text
//!   catalogue: Change::Node ──┐   control
//!   cache, snapshot: Jumped ──┼──► AdminStates ──► placement of replicas, /v1/nodes
//!   start: what was recovered ┘        └─────────► MembershipDriver::set_removed
//! ```
//!
//! No decision may rely on this copy: it may be older than the catalogue.

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
