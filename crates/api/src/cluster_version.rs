//! Wire types of the cluster version.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node, and the cluster versions that it supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeVersions {
    /// Its id, in hexadecimal.
    pub id: String,
    /// Its name, or its id.
    pub name: String,
    /// The lowest and the highest version that it supports; `null`: not known.
    #[serde(rename = "speaks")]
    #[schema(value_type = Option<Vec<u8>>, required = true, min_items = 2, max_items = 2)]
    pub supported: Option<[u8; 2]>,
}

/// The answer of `GET` and `POST /v1/level`: the cluster version, and what its nodes support.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterVersionStatus {
    /// The cluster version.
    #[serde(rename = "level")]
    pub version: u8,
    /// The lowest and the highest that this node supports.
    #[serde(rename = "speaks")]
    #[schema(value_type = Vec<u8>, min_items = 2, max_items = 2)]
    pub supported: [u8; 2],
    /// Whether this node, when it leads the system shard, raises it by itself.
    pub automatic: bool,
    /// Why the next version cannot be used yet, as clauses. Empty if it can, or if this node knows
    /// no next one.
    pub objections: Vec<String>,
    /// All nodes that must support it, by their ids.
    pub nodes: Vec<NodeVersions>,
}
