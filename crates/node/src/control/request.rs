//! What operators may ask of a node's control plane, and its replies.

use keyspace::{Cut as Place, NodeId, ShardId, Slot};

use super::{DryRunDecision, Gossip};

/// What an administrator asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A shard is to be split.
    Split {
        /// Which.
        shard: ShardId,
        /// Where; none: where it parts evenly.
        at: Option<CutAt>,
    },
    /// Merge a shard with its right neighbour.
    Merge {
        /// Which.
        left: ShardId,
    },
    /// What would be decided about placement if balancing were on. Nothing is done.
    DryRunPlacement(Box<Gossip>),
}

/// Where a shard is to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutAt {
    /// Before this slot.
    Slot(Slot),
    /// Before this key; of a hashed keyspace, a slot in words.
    Key(Vec<u8>),
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Of [`Request::Split`].
    Split(Result<SplitPlan, NoSplit>),
    /// Of [`Request::Merge`].
    Merge(Result<Merged, NoMergeReason>),
    /// Of [`Request::DryRunPlacement`].
    DryRunPlacement(Vec<DryRunDecision>),
}

/// A split that control has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPlan {
    /// The shard, which becomes the left half.
    pub left: ShardId,
    /// The new shard, with all from `at` on.
    pub right: ShardId,
    /// Its first slot or key.
    pub at: Place,
}

/// Why no split was begun. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSplit {
    /// There is no such shard here: neither a replica nor a descriptor of it.
    NoShard,
    /// Another node leads it, if it is known which.
    LedBy(Option<NodeId>),
    /// It cannot be cut, or not there: why, as a clause.
    CannotSplit(String),
    /// The catalogue gave out no id in time.
    NoId,
}

/// A merge with the right neighbour that control has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The shard, which will have the arcs of both.
    pub left: ShardId,
    /// The one that ends.
    pub right: ShardId,
    /// Whether the left one's replicas go to where the right one's are first.
    pub moves: bool,
}

/// Why no merge was begun. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoMergeReason {
    /// There is no such shard here: neither a replica nor a descriptor of it.
    NoShard,
    /// Another node leads it, if it is known which.
    LedBy(Option<NodeId>),
    /// It cannot take one in: why, as a clause.
    CannotMerge(String),
}
