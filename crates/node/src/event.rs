//! Events on a node, in one vocabulary: the server logs them, the simulator traces them.
//!
//! ```text
//!   executors, control ──► EventKind ─► the driver stamps it with node and time: Event
//!                                        ├─► its log, or the simulator's trace
//!                                        ├─► Recent, a ring ──► `carillon shards --why`
//!                                        └─► stream ──► viewers: `/v1/events`
//! ```
//!
//! Code that finds something worth reporting creates an [`EventKind`]; only `text` writes its
//! sentence. Events are rare: a client request makes one only as a sample, while somebody watches.

mod recent;
mod request;
pub mod stream;
mod text;
mod types;

use std::fmt;

use keyspace::{
    AdminState, ClusterVersion, Cut, DecodeError, NodeId, ReplicaId, ShardId, Timestamp,
};
pub use recent::{EVENTS_MAX, Recent};
pub use request::{KEY_BYTES_SHOWN_MAX, SampledRequest, Trace, TraceStep};
use txn::coordinator::TxnTrace;
pub use types::EventType;

use crate::control::decisions::{DecisionOutcome, RecordedDecision};
use crate::replica::{ReplicaComparison, ReplicaEndReason};

/// Something that has happened, where and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// On which node.
    pub node: NodeId,
    /// When, by that node's clock.
    pub at: Timestamp,
    /// What.
    pub what: EventKind,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }
}

/// What an event reports.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// The node serves.
    NodeStarted {
        /// What it has kept of its events before.
        record: RecordState,
    },
    /// The node was asked to stop.
    NodeStopping,
    /// Another node is up, or down, or no member any more.
    Member {
        /// Which.
        node: NodeId,
        /// How it is now.
        state: MemberChange,
    },
    /// A link to another node was made or lost.
    Link {
        /// That node.
        node: NodeId,
        /// Whether it was made.
        is_up: bool,
    },
    /// A request of a client, sampled for who watches.
    Request(Box<SampledRequest>),
    /// A step of a transaction over several shards, sampled for who watches.
    Transaction(Box<TxnTrace>),
    /// A node has another administrative state.
    AdminState {
        /// Which.
        node: NodeId,
        /// The state before.
        before: AdminState,
        /// The state from now on.
        now: AdminState,
    },
    /// A replica begins here, by a message of another node.
    ReplicaStarted {
        /// Of which shard.
        shard: ShardId,
        /// Which.
        replica: ReplicaId,
    },
    /// A shard has merged with its right neighbour, as its replica here has applied.
    Merged {
        /// The shard that goes on.
        left: ShardId,
        /// The one that ends.
        right: ShardId,
        /// For how long that one was frozen, if its leader was here.
        frozen_nanos: Option<u64>,
    },
    /// A leftover replica of an absorbed shard ends here.
    LeftoverReplicaEnded {
        /// Which shard.
        shard: ShardId,
        /// Who has its first place.
        by: ShardId,
    },
    /// A shard moves to its neighbour's nodes, to merge with it.
    MergeRelocating {
        /// The shard.
        left: ShardId,
        /// Its right neighbour.
        right: ShardId,
        /// Why, as a clause.
        why: String,
    },
    /// Another node leads a shard that was to absorb its neighbour.
    MergeLeaderMoved {
        /// The shard.
        left: ShardId,
        /// Its right neighbour.
        right: ShardId,
    },
    /// A shard that was to merge could not move to its neighbour's nodes.
    MergeGivenUp {
        /// The shard.
        left: ShardId,
        /// Its right neighbour.
        right: ShardId,
        /// For so long it tried.
        nanos: u64,
    },
    /// A linear-hash table is to grow.
    TableGrowing {
        /// Of this keyspace.
        keyspace: Box<str>,
        /// Why, as a clause.
        why: String,
    },
    /// A linear-hash table is to shrink.
    TableShrinking {
        /// Of this keyspace.
        keyspace: Box<str>,
    },
    /// The cluster's version rises by itself.
    VersionRaising {
        /// To this.
        to: ClusterVersion,
        /// For so long all have supported it.
        seconds: u64,
    },
    /// A node keeps the cluster version from rising.
    VersionBlocked {
        /// To this.
        to: ClusterVersion,
        /// Who or what keeps it.
        why: String,
    },
    /// A shard's leader here has decided something about it.
    DecisionMade(Box<RecordedDecision>),
    /// The result of a decision is known, or has changed.
    DecisionEnded {
        /// The decision's number, on its node.
        number: u64,
        /// About which shard.
        shard: ShardId,
        /// Its result.
        outcome: DecisionOutcome,
    },
    /// A replica here was elected, and knows all that was ever committed in its shard.
    LeaderElected {
        /// The shard.
        shard: ShardId,
        /// The replica.
        replica: ReplicaId,
        /// Its term.
        term: u64,
    },
    /// A shard that is led here has other replicas than before.
    ReplicasChanged {
        /// The shard.
        shard: ShardId,
        /// Who has come, and where.
        added: Vec<(ReplicaId, NodeId)>,
        /// Who has gone, and where it was.
        removed: Vec<(ReplicaId, NodeId)>,
    },
    /// A replica here takes no part any more.
    ReplicaEnded {
        /// The shard.
        shard: ShardId,
        /// The replica.
        replica: ReplicaId,
        /// Why.
        why: ReplicaEndReason,
    },
    /// A shard was split, as its replica here has applied.
    Split {
        /// The shard, which keeps the left half.
        shard: ShardId,
        /// The new one.
        right: ShardId,
        /// Its first slot or key.
        at: Cut,
    },
    /// A leader here has compared the replicas of its shard.
    ReplicasCompared {
        /// What that has shown.
        finding: ReplicaComparison,
        /// Where those replicas are.
        places: Vec<(ReplicaId, NodeId)>,
    },
    /// A round of checkpoints has ended: the log was this long before.
    Checkpointed {
        /// Bytes.
        log_bytes: u64,
    },
    /// There was no space for a checkpoint.
    NoSpaceForCheckpoint,
    /// A snapshot of a shard is being sent.
    SnapshotStarted {
        /// The shard.
        shard: ShardId,
        /// As of this entry.
        index: u64,
        /// About so long.
        about_bytes: u64,
        /// To this node.
        to: NodeId,
    },
    /// A snapshot has arrived, and is installed there.
    SnapshotSent {
        /// Of this shard.
        shard: ShardId,
        /// The name of the node that it was sent to.
        node: String,
        /// So long.
        bytes: u64,
        /// It took so long.
        nanos: u64,
    },
    /// A snapshot was not sent, or not to its end.
    SnapshotNotSent {
        /// Of this shard.
        shard: ShardId,
        /// Why; none: its receiver does not want it.
        why: Option<String>,
        /// Whether somebody contradicts himself.
        is_wrong: bool,
    },
    /// A snapshot that has come whole was given to its replica.
    SnapshotInstalled {
        /// Of this shard.
        shard: ShardId,
        /// As of this entry.
        index: u64,
    },
    /// A snapshot that has come whole was given up.
    SnapshotGivenUp {
        /// Of this shard.
        shard: ShardId,
        /// As of this entry.
        index: u64,
        /// Why.
        why: SnapshotRejection,
    },
    /// Another node's bootstrap record of a shard cannot be read; its message was ignored.
    UnreadableBootstrapRecord {
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

/// What a node that starts has kept of its events before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordState {
    /// Nothing.
    #[default]
    Empty,
    /// Its last ones, up to its end.
    Whole,
    /// Its last ones, but some before its end may be missing.
    Torn,
}

impl RecordState {
    /// Its name, if there is anything.
    pub fn name(self) -> Option<&'static str> {
        match self {
            RecordState::Empty => None,
            RecordState::Whole => Some("whole"),
            RecordState::Torn => Some("torn"),
        }
    }
}

/// How another node has changed, as this one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// It is up.
    Up,
    /// It is not.
    Down,
    /// It is no member any more.
    Gone,
}

impl MemberChange {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            MemberChange::Up => "up",
            MemberChange::Down => "down",
            MemberChange::Gone => "gone",
        }
    }
}

/// Why a complete snapshot was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotRejection {
    /// Right halves that have begun here are in no checkpoint yet: the log that they need would be
    /// cut off.
    UncoveredHalves,
    /// The replica has voted, has come as far, or has ended since the file was begun.
    NotNeeded,
    /// The disk is full.
    DiskFull,
}

/// How much an event matters to operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For debugging.
    Debug,
    /// For operators.
    Info,
    /// Something is wrong, and the node goes on.
    Warn,
    /// An operator has to act.
    Error,
}

impl EventKind {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            EventKind::ReplicaStarted { .. }
            | EventKind::LeaderElected { .. }
            | EventKind::DecisionEnded { .. }
            | EventKind::ReplicasChanged { .. }
            | EventKind::SnapshotStarted { .. }
            | EventKind::SnapshotInstalled { .. }
            | EventKind::MergeRelocating { .. }
            | EventKind::Merged { frozen_nanos: None, .. }
            | EventKind::Split { .. }
            | EventKind::Checkpointed { .. }
            | EventKind::NodeStarted { .. }
            | EventKind::NodeStopping
            | EventKind::Member { .. }
            | EventKind::Link { .. }
            | EventKind::Request(_)
            | EventKind::Transaction(_) => Severity::Debug,
            // The move is one line, `SnapshotSent`; `shards --why` tells the reasons.
            EventKind::DecisionMade(decided) if decided.moves_replicas() => Severity::Debug,
            EventKind::ReplicasCompared { finding, .. } if finding.differing.is_empty() => {
                Severity::Debug
            }
            EventKind::ReplicaEnded {
                why: ReplicaEndReason::Before | ReplicaEndReason::Removed,
                ..
            } => Severity::Debug,
            EventKind::ReplicasCompared { .. } | EventKind::ReplicaEnded { .. } => Severity::Error,
            EventKind::UnreadableBootstrapRecord { .. }
            | EventKind::UnreadableCatalogue { .. }
            | EventKind::NoSpaceForCheckpoint
            | EventKind::SnapshotNotSent { is_wrong: true, .. }
            | EventKind::VersionRaising { .. }
            | EventKind::VersionBlocked { .. } => Severity::Warn,
            _ => Severity::Info,
        }
    }

    /// The shard that it is about, if it is about one; of two, the one that goes on.
    pub fn shard(&self) -> Option<ShardId> {
        match self {
            EventKind::DecisionMade(decided) => Some(decided.shard),
            EventKind::Request(request) => Some(request.shard),
            EventKind::Transaction(trace) => trace.record,
            EventKind::Merged { left: shard, .. }
            | EventKind::MergeRelocating { left: shard, .. }
            | EventKind::MergeLeaderMoved { left: shard, .. }
            | EventKind::MergeGivenUp { left: shard, .. }
            | EventKind::ReplicasCompared { finding: ReplicaComparison { shard, .. }, .. }
            | EventKind::ReplicaStarted { shard, .. }
            | EventKind::LeftoverReplicaEnded { shard, .. }
            | EventKind::DecisionEnded { shard, .. }
            | EventKind::LeaderElected { shard, .. }
            | EventKind::ReplicasChanged { shard, .. }
            | EventKind::ReplicaEnded { shard, .. }
            | EventKind::Split { shard, .. }
            | EventKind::SnapshotStarted { shard, .. }
            | EventKind::SnapshotSent { shard, .. }
            | EventKind::SnapshotNotSent { shard, .. }
            | EventKind::SnapshotInstalled { shard, .. }
            | EventKind::SnapshotGivenUp { shard, .. }
            | EventKind::UnreadableBootstrapRecord { shard, .. } => Some(*shard),
            EventKind::NodeStarted { .. }
            | EventKind::NodeStopping
            | EventKind::Member { .. }
            | EventKind::Link { .. }
            | EventKind::AdminState { .. }
            | EventKind::TableGrowing { .. }
            | EventKind::TableShrinking { .. }
            | EventKind::VersionRaising { .. }
            | EventKind::VersionBlocked { .. }
            | EventKind::Checkpointed { .. }
            | EventKind::NoSpaceForCheckpoint
            | EventKind::UnreadableCatalogue { .. } => None,
        }
    }
}
