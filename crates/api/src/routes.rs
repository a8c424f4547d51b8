//! Wire types of routes: how a lookup found the owner of a key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The route of one lookup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteStatus {
    /// `full`, `chord`, `chord-sharp`, `linear` or `lh`.
    pub lookup: String,
    /// `iterative`, `recursive` or `semi-recursive`.
    pub form: String,
    /// Whether nodes went by whatever they happened to know.
    pub images: bool,
    /// The shard that owns the key; none if none was found.
    #[schema(required = true)]
    pub shard: Option<u64>,
    /// The id of the node that leads it, in hexadecimal.
    #[schema(required = true)]
    pub leader: Option<String>,
    /// Moves from shard to shard.
    pub hops: u32,
    /// Messages between nodes; none if the route was not traced.
    #[schema(required = true)]
    pub messages: Option<u32>,
    /// The shard whose table it was begun with: one of the node that was asked. `null`: it was
    /// begun with no shard's table, or on another node.
    #[serde(default)]
    #[schema(required = true)]
    pub begins_at: Option<u64>,
    /// How long it took.
    pub micros: u64,
    /// Why no owner was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub failure: Option<String>,
    /// Every move, if it was traced.
    pub steps: Vec<RouteStep>,
}

/// One move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteStep {
    /// To which shard; 0 if any of the node's was asked.
    pub shard: u64,
    /// The id of the node, in hexadecimal.
    pub node: String,
    /// What its name is, if it is known.
    pub name: String,
    /// Which entry of a table led there.
    pub by: String,
    /// How long it took; none where another node has asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub micros: Option<u64>,
}
