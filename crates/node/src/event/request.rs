//! Samples: of requests, which key a client asked for and how its owner was found; of transactions,
//! which steps belong together.

use std::sync::Arc;
use std::time::Duration;

use keyspace::{NodeId, ShardId};
use overlay::request::RouteHop;
use overlay::{KnownShard, LookupChoice};
use txn::coordinator::{TxnPhase, TxnTrace};

use super::EventKind;
use super::stream::{GroupStep, SampleGroup};

/// The most bytes of a key that a sample shows.
pub const KEY_BYTES_SHOWN_MAX: usize = 256;

/// A request that was sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledRequest {
    /// Whether it may change anything.
    pub is_write: bool,
    /// The name of the keyspace.
    pub keyspace: Box<str>,
    /// Its first key, at most [`KEY_BYTES_SHOWN_MAX`] of it.
    pub key: Box<[u8]>,
    /// How many keys it names.
    pub keys: usize,
    /// The shard of the first key, by the node's routes.
    pub shard: ShardId,
    /// The node that leads it, if that is known.
    pub leader: Option<NodeId>,
    /// How the owner of the first key was found.
    pub route: Trace,
}

/// One move of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// Where it went, and by which entry of a table.
    pub leg: RouteHop,
    /// How long that took; known only of requests that this node has sent itself.
    pub took: Option<Duration>,
}

/// The route that a lookup took.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The lookup that was asked for.
    pub way: LookupChoice,
    /// The shard that owns the point; none if none was found.
    pub owner: Option<Arc<KnownShard>>,
    /// Why no owner was found, for people.
    pub failure: Option<&'static str>,
    /// Moves from shard to shard.
    pub hops: u32,
    /// Messages between nodes; known only of a route that was traced to its end.
    pub messages: Option<u32>,
    /// The shard whose table it was begun with, if it was traced and that is one of this node.
    pub begins_at: Option<ShardId>,
    /// The moves, if it was traced: the first [`overlay::request::TRAIL_MAX`].
    pub steps: Vec<TraceStep>,
    /// From the beginning to the end.
    pub took: Duration,
}

impl Trace {
    /// The node that leads the owner, if both are known.
    pub fn leader(&self) -> Option<NodeId> {
        self.owner.as_ref()?.leader()
    }
}

impl EventKind {
    /// What it is a step of, if it is a sample and one of several that belong together: a step of a
    /// transaction, in whatever attempt and on whatever node.
    pub fn sample_group(&self) -> Option<SampleGroup> {
        let EventKind::Transaction(trace) = self else { return None };
        let TxnTrace { id, phase, is_last, .. } = &**trace;
        let step = match phase {
            TxnPhase::Recover => GroupStep::Takeover,
            TxnPhase::Prepare { .. } if !id.is_retry() => GroupStep::First,
            _ if *is_last => GroupStep::Last,
            _ => GroupStep::Middle,
        };
        Some(SampleGroup { id: id.start.0 ^ id.coordinator.rotate_left(32), step })
    }
}
