//! What happens on a node, as one vocabulary: the server logs it, the simulator traces it.
//!
//! Whoever finds something worth telling says so by an [`Event`]; its sentence is written here, and
//! nowhere else.

use std::fmt;

use keyspace::{Cut, DecodeError, Level, NodeId, ReplicaId, ShardId, Standing};

/// Something that has happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A node has another administrative state.
    AdminState {
        /// Which.
        node: NodeId,
        /// The state before.
        before: Standing,
        /// The state from now on.
        now: Standing,
    },
    /// A replica begins here, by a message of another node.
    ReplicaBegins {
        /// Of which shard.
        shard: ShardId,
        /// Which.
        replica: ReplicaId,
    },
    /// A replica here takes its right neighbour in.
    Merged {
        /// The shard that goes on.
        left: ShardId,
        /// The one that ends.
        right: ShardId,
        /// For how long that one stood still, if its leader was here.
        frozen_nanos: Option<u64>,
    },
    /// A replica here was left over of a shard that another has taken in, and ends.
    Superseded {
        /// Which shard.
        shard: ShardId,
        /// Who has its first place.
        by: ShardId,
    },
    /// A shard is told to be cut in two.
    Cut {
        /// Which.
        shard: ShardId,
        /// Its right half, which begins.
        right: ShardId,
        /// The first slot or key of that.
        at: Cut,
        /// Why, as a clause.
        why: String,
    },
    /// A shard goes to where its neighbour's replicas are, to take it in.
    MergeMoves {
        /// The shard.
        left: ShardId,
        /// Its right neighbour.
        right: ShardId,
        /// Why, as a clause.
        why: String,
    },
    /// A shard is told to take its neighbour in.
    MergeBegins {
        /// The shard.
        left: ShardId,
        /// Its right neighbour.
        right: ShardId,
        /// Why, as a clause.
        why: String,
    },
    /// A shard that was to take its neighbour in is led elsewhere.
    MergeLeft {
        /// The shard.
        left: ShardId,
        /// Its right neighbour.
        right: ShardId,
    },
    /// A linear-hash table is to grow.
    TableGrows {
        /// Of this keyspace.
        keyspace: Box<str>,
        /// Why, as a clause.
        why: String,
    },
    /// A linear-hash table is to shrink.
    TableShrinks {
        /// Of this keyspace.
        keyspace: Box<str>,
    },
    /// A shard's replicas are to be elsewhere.
    ReplicasPlaced {
        /// Which.
        shard: ShardId,
        /// Where, and why.
        what: String,
    },
    /// Another replica of a shard is to lead.
    LeaderPlaced {
        /// Which shard.
        shard: ShardId,
        /// Who, and why.
        what: String,
    },
    /// The cluster's version rises by itself.
    VersionRises {
        /// To this.
        to: Level,
        /// For so long all have spoken it.
        seconds: u64,
    },
    /// The cluster's version could rise but for somebody.
    VersionWaits {
        /// To this.
        to: Level,
        /// Who or what keeps it.
        why: String,
    },
    /// Another node's record of a shard's birth cannot be read; its message was ignored.
    UnreadableBirth {
        /// Which shard.
        shard: ShardId,
        /// Why.
        error: DecodeError,
    },
    /// Another node's catalogue cannot be read; the cached one stays.
    UnreadableCatalogue {
        /// Why.
        error: DecodeError,
    },
}

/// How much an event matters to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// To who looks for a fault.
    Debug,
    /// To who operates the cluster.
    Info,
    /// Something is wrong, and the node goes on.
    Warn,
}

impl Event {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Event::ReplicaBegins { .. } => Severity::Debug,
            Event::UnreadableBirth { .. }
            | Event::UnreadableCatalogue { .. }
            | Event::VersionRises { .. }
            | Event::VersionWaits { .. } => Severity::Warn,
            _ => Severity::Info,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::AdminState { node, before, now } => {
                let (now, before) = (now.word(), before.word());
                write!(f, "node {:016x} is {now}, and was {before}", node.0)
            }
            Event::ReplicaBegins { shard, replica } => {
                write!(f, "replica {replica} of shard {shard} begins here")
            }
            Event::Merged { left, right, frozen_nanos } => {
                write!(f, "shard {left} takes in shard {right}, which ends")?;
                let Some(nanos) = frozen_nanos else { return Ok(()) };
                write!(f, " after it stood still for {:.1} ms", *nanos as f64 / 1e6)
            }
            Event::Superseded { shard, by } => {
                write!(f, "shard {by} has taken in shard {shard}: its replica here ends")
            }
            Event::Cut { shard, right, at, why, .. } => {
                write!(f, "shard {shard} is cut at {at}: shard {right} begins; {why}")
            }
            Event::MergeMoves { left, right, why } => write!(
                f,
                "shard {left} goes to where shard {right} has its replicas, to take it in: {why}"
            ),
            Event::MergeBegins { left, right, why, .. } => {
                write!(f, "shard {left} is to take in shard {right}: {why}")
            }
            Event::MergeLeft { left, right } => {
                write!(f, "shard {left} is led elsewhere: no try to take in {right} here")
            }
            Event::ReplicasPlaced { shard, what } | Event::LeaderPlaced { shard, what } => {
                write!(f, "shard {shard}: {what}")
            }
            Event::VersionRises { to, seconds } => write!(
                f,
                "all nodes have been up and spoken feature level {to} for {seconds} s: it is asked \
                 for (auto_upgrade)"
            ),
            Event::VersionWaits { to, why } => write!(f, "feature level {to} has to wait: {why}"),
            Event::TableGrows { keyspace, why } => {
                write!(f, "the file of keyspace {keyspace} is to grow: {why}")
            }
            Event::TableShrinks { keyspace } => {
                write!(f, "the file of keyspace {keyspace} is to shrink")
            }
            Event::UnreadableBirth { shard, error } => write!(
                f,
                "shard {shard}: its birth, from another node, is unreadable: {error}. The message \
                 was ignored"
            ),
            Event::UnreadableCatalogue { error } => write!(
                f,
                "the catalogue of another node cannot be read: {error}. The one before stays"
            ),
        }
    }
}
