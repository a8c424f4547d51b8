//! A node's decisions about the shards that it leads: `/v1/decisions`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SilentNode;

/// What came of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionOutcomeStatus {
    /// It was not made: it is what would be decided.
    Dry,
    /// It is being carried out.
    UnderWay,
    /// It was carried out.
    Done,
    /// It was called off, or overtaken by another change.
    NotDone,
    /// Another node leads the shard now, and carries the decision on.
    HandedOn,
}

/// A node that something is decided about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionNode {
    /// Its id, in hexadecimal.
    pub id: String,
    /// Its name; its id if it has none.
    pub name: String,
}

/// Where a shard is split: at the first slot of its right half, or at its first key, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a slot, a number from 0 to 16383, or a key as text")]
pub enum CutAt {
    /// A slot.
    Slot(u16),
    /// A key; asked for, it may also be a slot.
    Key(String),
}

/// The split of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitStatus {
    /// The shard, which keeps its part below `at`.
    pub shard: u64,
    /// The new shard, with all from `at` on.
    pub right: u64,
    /// Its first slot, or its first key.
    pub at: CutAt,
}

/// The merge of a shard with its right neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergeStatus {
    /// The shard, which will have the slots of both.
    pub shard: u64,
    /// The one that ends.
    pub right: u64,
    /// Whether the shard's replicas go to where those of the other are first: it takes longer then.
    #[serde(default)]
    #[schema(required = true)]
    pub moves: bool,
}

/// How even the nodes are: the root of the mean square by which they miss the mean of bytes and
/// replicas, in parts of it. 0: all are equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Deviation {
    /// When it was decided.
    pub before: f64,
    /// As it was to be.
    pub predicted: f64,
    /// As it was when the decision had been carried out.
    #[schema(required = true)]
    pub achieved: Option<f64>,
}

/// A decision about one shard: its replicas, its leader, a split or a merge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DecisionStatus {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// About which shard.
    pub shard: u64,
    /// Its keyspace's name; `null` for the shard that holds the catalogue.
    #[schema(required = true)]
    pub keyspace: Option<String>,
    /// Nodes that get a new replica each.
    pub add: Vec<DecisionNode>,
    /// Replicas that go.
    pub remove: Vec<u64>,
    /// The node that is to lead, if it is about that.
    #[schema(required = true)]
    pub leader: Option<DecisionNode>,
    /// The split, if it is one.
    #[schema(required = true)]
    pub split: Option<SplitStatus>,
    /// The merge, if it is one.
    #[schema(required = true)]
    pub merge: Option<MergeStatus>,
    /// Why, in words.
    pub why: String,
    /// How it improves balance; `null` if it is about the leader.
    #[schema(required = true)]
    pub deviation: Option<Deviation>,
    /// What came of it.
    pub came: DecisionOutcomeStatus,
    /// How long it took, if it is done.
    #[schema(required = true)]
    pub took_ms: Option<u64>,
    /// Why it would wait, if it is only what would be decided.
    #[schema(required = true)]
    pub waits: Option<String>,
    /// The node that decided.
    #[serde(default)]
    #[schema(required = true)]
    pub by: Option<DecisionNode>,
}

/// What `GET /v1/decisions` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decisions {
    /// Whether the node moves replicas and leaders to be even: `balance` in its configuration.
    pub balances: bool,
    /// The decisions among the events that this node remembers, the oldest first; or what it would
    /// decide now.
    pub decisions: Vec<DecisionStatus>,
    /// Nodes that were asked and did not answer.
    #[serde(default)]
    #[schema(required = true)]
    pub silent: Vec<SilentNode>,
}

impl Decisions {
    /// Adds those of another node.
    pub fn add(&mut self, more: Self) {
        self.balances |= more.balances;
        self.decisions.extend(more.decisions);
        self.decisions.sort_by_key(|one| (one.at_ms, one.shard));
        self.silent.extend(more.silent);
    }
}
