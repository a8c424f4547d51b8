//! The interface of all lookups: what a caller may ask a strategy, and tell it.
//!
//! A strategy is soft state beside the shards. Callers ask it for a point's owner, and tell it what
//! answers showed and which nodes are alive. It may exchange messages with the same strategy on
//! other nodes. A request goes from hop to hop in one of two ways. *Iterative*: the asker takes
//! each node's answer and asks the next. *Recursive*: each node passes the request on by its own
//! lookup. Both call [`Lookup::next`] on the node that has the request, and count hops against
//! [`HOPS_MAX`](crate::HOPS_MAX).
//!
//! Time is a tick, a call at a steady pace. No call waits; messages to send go to an [`Outbox`].

use std::sync::Arc as Shared;

use keyspace::{Generation, KeyspaceId, NodeId, ShardId};

use crate::known_shard::{Hint, KnownShard};
use crate::message::Message;
use crate::point::Point;
use crate::ring::message::Strategy;

/// The lookups that a request can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Every descriptor, on every node.
    Full,
    /// Fingers over numbers.
    Chord,
    /// Fingers over members.
    ChordSharp,
    /// The ring and nothing else.
    Linear,
    /// The image of a linear-hash table.
    Lh,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Full, Self::Chord, Self::ChordSharp, Self::Linear, Self::Lh];

    /// Its name in settings and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Chord => Strategy::Chord.name(),
            Self::ChordSharp => Strategy::ChordSharp.name(),
            Self::Linear => Strategy::Linear.name(),
            Self::Lh => "lh",
        }
    }

    /// The lookup of this name, in any case.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
    }

    /// The ring tables that it uses, if any.
    pub fn strategy(self) -> Option<Strategy> {
        match self {
            Self::Chord => Some(Strategy::Chord),
            Self::ChordSharp => Some(Strategy::ChordSharp),
            Self::Linear => Some(Strategy::Linear),
            Self::Full | Self::Lh => None,
        }
    }
}

/// Where to go with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// This shard owns the point, as far as is known: ask its leader, then its other replicas.
    Owner(&'a Shared<KnownShard>),
    /// This shard is closer, and keeps a table of its own for what is beyond it: ask its leader.
    Closer(&'a Shared<KnownShard>),
    /// This node does not know the owner: any of these nodes may know more, in no order. If empty,
    /// there is no node to ask.
    Ask(&'a [NodeId]),
}

/// Something to learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// A shard, as a node or client remembers it.
    Shard(Shared<KnownShard>),
    /// The leader of a shard.
    Leader {
        /// Which shard.
        shard: ShardId,
        /// Its leader, and the term.
        hint: Hint,
    },
    /// A keyspace was dropped. Its shards are forgotten and not learnt again.
    Dropped(KeyspaceId),
}

/// The outcome of [`Lookup::learn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnOutcome {
    /// It was new, and replaced all that contradicted it.
    New,
    /// A newer leader of a shard that was known.
    Leader,
    /// It was known already.
    Known,
    /// Something newer was known, or its keyspace is dropped.
    Stale,
    /// That shard is unknown, so its leader alone is of no use.
    Unknown,
    /// Larger than a limit allows; not learnt.
    TooLarge,
}

/// Messages to be sent, each with the node it is for.
pub type Outbox = Vec<(NodeId, Message)>;

/// A strategy that leads from any node to the shard that owns a point.
pub trait Lookup {
    /// Where to go with a request for `point`. Cost: one binary search, no allocation.
    fn next(&self, point: Point<'_>) -> Step<'_>;

    /// Takes what an answer, a shard of this node or the catalogue has shown. Repeating is
    /// harmless.
    fn learn(&mut self, news: Update) -> LearnOutcome;

    /// No replica of this descriptor answered: it must not remain the only answer. Does nothing if
    /// another generation is known by now.
    fn mark_unreachable(&mut self, shard: ShardId, generation: Generation);

    /// Replaces the list of other nodes that are believed alive.
    fn peers(&mut self, nodes: &[NodeId]);

    /// One unit of time passes. A strategy without messages of its own does nothing.
    fn tick(&mut self, out: &mut Outbox) {
        let _ = out;
    }

    /// Handles a message of another node's lookup. A strategy without messages of its own ignores
    /// what reaches it.
    fn step(&mut self, from: NodeId, message: Message, out: &mut Outbox) {
        let _ = (from, message, out);
    }
}
