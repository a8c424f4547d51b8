//! Which snapshots does a node send to other nodes, and which does it accept?
//!
//! ```text
//!   leader: head of a snapshot ──► SnapshotSender ── frames ──► SnapshotReceiver ──► installation
//!                 ▲                      ▲                            │
//!                 └─ "it is lost" ◄──────┴──── has, done, gone ◄──────┘
//! ```
//!
//! [`SnapshotSender`](sender::SnapshotSender) decides which requested streams begin and end, and
//! which frame is next. [`SnapshotReceiver`](receiver::SnapshotReceiver) decides which streams it
//! accepts and when it installs a state. [`crate::rpc::stream`] handles one stream: its frames, and
//! how it goes on after a loss.
//!
//! Drivers own threads, files and links. Both machines are pure: the caller passes the time.

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
