//! The inputs and results of requests.

use std::sync::Arc as Shared;

use keyspace::{Generation, KeyspaceId, NodeId, ShardId};

use super::message::{Form, HopSource, RouteHop};
use crate::known_shard::KnownShard;
use crate::lookup::Kind;
use crate::point::Point;

/// What to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupRequest {
    /// By which lookup.
    pub kind: Kind,
    /// The shard at whose table it begins; none: the node's.
    pub at: Option<ShardId>,
    /// The point's keyspace …
    pub keyspace: KeyspaceId,
    /// … and where on its circle.
    pub tail: Vec<u8>,
    /// How it goes from hop to hop.
    pub form: Form,
    /// Whether nodes may go by whatever they happen to know, and not by that table alone.
    pub cached: bool,
    /// Whether its hops are traced.
    pub is_traced: bool,
    /// How many hops it may make.
    pub hops_max: u32,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Too many are open here.
    Refused,
    /// No answer came, time and again.
    Silent,
    /// No table could answer, several times.
    Busy,
    /// It made as many hops as it may.
    Lost,
}

impl Failure {
    /// Its text.
    pub fn text(self) -> &'static str {
        match self {
            Failure::Refused => "refused: too many are looked up, or not all nodes can",
            Failure::Silent => "silent: who was asked did not answer, time and again",
            Failure::Busy => "busy: nobody could say, time and again",
            Failure::Lost => "lost: it made as many hops as it may",
        }
    }
}

/// What became of a request, or was seen on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestEvent {
    /// It was found.
    Found {
        /// Which request.
        id: u64,
        /// Who owns the point: learn it.
        owner: Shared<KnownShard>,
        /// Moves from shard to shard.
        hops: u32,
        /// If it is traced: where it was passed on to since the origin has asked last.
        trail: Vec<RouteHop>,
    },
    /// The origin of a traced request asks this one next; if it is the first, from the beginning.
    Asked {
        /// Which request.
        id: u64,
        /// Who is asked.
        leg: RouteHop,
        /// Whether it begins with this one.
        is_first: bool,
        /// If it does: at the table of this shard here, unless at none.
        from: Option<ShardId>,
    },
    /// It was not.
    Failed {
        /// Which request.
        id: u64,
        /// Why.
        why: Failure,
    },
    /// A shard did not answer: distrust it in the table where the request begins.
    Silent {
        /// Where it begins.
        at: Option<ShardId>,
        /// The shard that was asked.
        shard: ShardId,
        /// Its remembered generation.
        generation: Generation,
    },
    /// Who was asked could not say: it may be gone, and what is remembered of it old.
    Unsure {
        /// Who was asked.
        shard: ShardId,
        /// What was remembered of it.
        generation: Generation,
    },
}

/// A question to the tables of a node.
#[derive(Clone, Copy, Debug)]
pub struct TableQuery<'a> {
    /// By which lookup.
    pub kind: Kind,
    /// Of which shard; none: the node's, or any of its shards'.
    pub at: Option<ShardId>,
    /// Whether whatever the node happens to know may be used.
    pub cached: bool,
    /// The point to find.
    pub point: Point<'a>,
}

/// What tables say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// A shard that this node leads owns the point.
    Here(Shared<KnownShard>),
    /// This shard owns it, or is closer.
    Member {
        /// Who.
        member: Shared<KnownShard>,
        /// What says so.
        by: HopSource,
        /// Whether it is the table of a shard that says so: then to go there is a hop.
        is_hop: bool,
        /// The shard whose table says so, if it is one here.
        from: Option<ShardId>,
    },
    /// There is no table to go by; any of these nodes may have one.
    AnyNode(Vec<NodeId>),
}
