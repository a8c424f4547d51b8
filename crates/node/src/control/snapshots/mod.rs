//! Which states of shards does a node send to other nodes, and which does it take from them?
//!
//! ```text
//!   leader: head of a snapshot ──► SnapshotSender ── frames ──► SnapshotReceiver ──► installation
//!                 ▲                      ▲                            │
//!                 └─ "it is lost" ◄──────┴──── has, done, gone ◄──────┘
//! ```
//!
//! [`SnapshotSender`](sender::SnapshotSender) decides which of the requested streams begin, which
//! end, and which frame of which stream is next. [`SnapshotReceiver`](receiver::SnapshotReceiver)
//! decides which streams are taken in and when a state is installed. How one stream goes on after a
//! loss, and the bytes of frames, are [`crate::rpc::stream`]'s.
//!
//! Drivers own threads, files and links; both machines are pure, and time is given.

pub mod receiver;
pub mod sender;
pub mod source;

use keyspace::{ReplicaId, ShardId};

/// Where a state goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// Of this shard,
    pub shard: ShardId,
    /// to this replica of it.
    pub replica: ReplicaId,
}
