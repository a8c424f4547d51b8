//! Cluster versions in the words of the wire.

use serde::{Deserialize, Serialize};

/// A node, and the levels that it speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVersions {
    /// Its id, in hexadecimal.
    pub id: String,
    /// Its name, or its id.
    pub name: String,
    /// The lowest and the highest level that it speaks; `null`: it was not heard of.
    pub speaks: Option<[u8; 2]>,
}

/// What `GET` and `POST /v1/level` answer: the cluster's level, and what its nodes speak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterVersionStatus {
    /// The cluster's.
    pub level: u8,
    /// The lowest and the highest that this node supports.
    pub speaks: [u8; 2],
    /// Whether this node, when it leads the system shard, raises it by itself.
    pub automatic: bool,
    /// Why the next level cannot be used yet: clauses. Empty if it can, or there is none that this
    /// node knows.
    pub objections: Vec<String>,
    /// All nodes whose word is needed, by their ids.
    pub nodes: Vec<NodeVersions>,
}
