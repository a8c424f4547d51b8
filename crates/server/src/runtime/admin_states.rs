//! How do the nodes of this cluster stand, as far as this one knows?
//!
//! The catalogue says it ([`keyspace::Standing`]); here it can be read by all threads, without a
//! lock. A node with a replica of the catalogue follows each change; one without takes what its
//! image says, within 200 ms. Links and members are told of those that were removed: they are
//! refused there, and forgotten.
//!
//! ```text
//!   catalogue: Change::Node ──┐   control
//!   cache, snapshot: Jumped ──┼──► NodeRuntime::standings ──► whoever places replicas, /v1/nodes
//!   start: what was recovered ┘          └──────────► Cluster::set_removed
//! ```
//!
//! Nothing here decides: it may be older than the catalogue.

use std::sync::Arc;

use keyspace::{NodeId, Standing, Standings};

use super::NodeRuntime;

impl NodeRuntime {
    /// How a node stands, as far as this one knows.
    pub fn standing(&self, node: NodeId) -> Standing {
        self.standings.load().of(node)
    }

    /// How nodes stand, as far as this one knows: those that are not listed are members.
    pub fn standings(&self) -> Arc<Standings> {
        self.standings.load_full()
    }
}
