//! The node's identity: its id and its cluster's.

use keyspace::{KeyHasher, NodeId};

/// What does not change while the process runs.
#[derive(Clone, Copy, Debug)]
pub struct NodeIdentity {
    /// The node's id.
    pub node: NodeId,
    /// The cluster's id.
    pub cluster: u64,
    /// Hashes all keys of the cluster.
    pub hasher: KeyHasher,
    /// Drawn at random when the process started.
    pub seed: u64,
}
