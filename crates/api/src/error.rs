//! Errors of requests: what happened, what state is left, what to do next.

use keyspace::Timestamp;

use super::RequestId;

/// What is known about a request that failed (SAFETY G10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was changed, and nothing will be.
    NotDone,
    /// It may have been done, or may yet be.
    Unknown,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// No keyspace has this name. Nothing was done: create it first.
    #[error("there is no keyspace {name:?}")]
    NoKeyspace {
        /// The name.
        name: String,
    },
    /// The keyspace was dropped while it was in use. Nothing was done.
    #[error("the keyspace was dropped meanwhile; nothing was done")]
    KeyspaceDropped,
    /// There is a keyspace of this name. Nothing was done.
    #[error("there already is a keyspace {name:?}")]
    KeyspaceExists {
        /// The name.
        name: String,
    },
    /// The name or the options of a keyspace are not allowed. Nothing was done.
    #[error("{why}")]
    BadKeyspace {
        /// What is wrong, as a clause.
        why: String,
    },
    /// No node has this id or name. Nothing was done.
    #[error("there is no node {node:?}; known are {}", known.join(", "))]
    NoNode {
        /// As it was asked for.
        node: String,
        /// Names and ids of those that there are.
        known: Vec<String>,
    },
    /// Several nodes have this name. Nothing was done: name the node by its id.
    #[error("several nodes are called {node:?}: {}", ids.join(", "))]
    AmbiguousNode {
        /// The name.
        node: String,
        /// Their ids.
        ids: Vec<String>,
    },
    /// Nodes without replicas only can be removed. Nothing was done, or it drains now.
    #[error("{why}")]
    NodeInUse {
        /// What it still has, as a clause.
        why: String,
    },
    /// Too few nodes would be left for what keyspaces promise. Nothing was done.
    #[error("{why}")]
    TooFewNodes {
        /// Which promise, as a clause.
        why: String,
    },
    /// The node was removed, which is for good. Nothing was done.
    #[error("node {node} was removed from the cluster for good")]
    NodeRemoved {
        /// Its id.
        node: String,
    },
    /// There is no shard of this number, as far as this node knows. Nothing was done.
    #[error("there is no shard {shard}")]
    NoShard {
        /// Its number.
        shard: u64,
    },
    /// Another node leads the shard: ask that one. Nothing was done.
    #[error("{why}")]
    NotLeader {
        /// Which node leads it, as a clause.
        why: String,
    },
    /// The shard cannot be split, or not at this place. Nothing was done.
    #[error("shard {shard} is not split: {why}")]
    NoSplit {
        /// Its number.
        shard: u64,
        /// Why, as a clause.
        why: String,
    },
    /// The shard cannot merge with its right neighbour. Nothing was done.
    #[error("shard {shard} is not merged: {why}")]
    NoMerge {
        /// Its number.
        shard: u64,
        /// Why, as a clause.
        why: String,
    },
    /// The cluster version cannot be raised to the one that was asked for. Nothing was done.
    #[error("{why}")]
    VersionRefused {
        /// Why, as a clause.
        why: String,
    },
    /// The catalogue refuses it for another reason. Nothing was done.
    #[error("{why}")]
    AdminStateRefused {
        /// Which, as a clause.
        why: String,
    },
    /// The key is longer than `key_bytes_max`. Nothing was done.
    #[error("the key has {bytes} bytes, at most {bytes_max} are allowed")]
    KeyTooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The value is longer than `value_bytes_max`. Nothing was done.
    #[error("the value has {bytes} bytes, at most {bytes_max} are allowed")]
    ValueTooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// Versions that old are collected. Nothing was done: read at or above the safe point.
    #[error("versions at {at:?} are gone; the oldest readable time is {safe_point:?}")]
    BelowSafePoint {
        /// The time asked for.
        at: Timestamp,
        /// The oldest time that can be asked for.
        safe_point: Timestamp,
    },
    /// That time has not come. Nothing was done: ask again when it has.
    #[error("{at:?} is in the future; now is {now:?}")]
    InFuture {
        /// The time asked for.
        at: Timestamp,
        /// The newest time that can be asked for.
        now: Timestamp,
    },
    /// There is no such snapshot, or it has ended. Nothing was done.
    #[error("no snapshot {id}: it was released, or has ended")]
    NoSnapshot {
        /// Its number.
        id: u64,
    },
    /// No snapshot can be taken. Nothing was done.
    #[error("{why}")]
    SnapshotRefused {
        /// Why, as a clause.
        why: String,
    },
    /// Another holds the lock. Nothing was done: try again, or wait for it.
    #[error("lock {name:?} is held by {owner:?}; unless renewed, its lease ends in {left_ms} ms")]
    LockHeld {
        /// Its name.
        name: String,
        /// By whom.
        owner: String,
        /// For so long.
        left_ms: u64,
    },
    /// The lock is not held with this token. Nothing was done: its holder must stop what it does.
    #[error("{why}")]
    LockLost {
        /// Why, as a clause.
        why: String,
    },
    /// There is no such topic, or it has no such group. Nothing was done.
    #[error("{why}")]
    NoTopic {
        /// Which, as a clause.
        why: String,
    },
    /// A limit, or what there is, does not allow it. Nothing was done.
    #[error("{why}")]
    TopicRefused {
        /// Why, as a clause.
        why: String,
    },
    /// A name or a setting of a topic, a group or a lock is not allowed. Nothing was done.
    #[error("{why}")]
    BadTopic {
        /// What is wrong, as a clause.
        why: String,
    },
    /// A message is longer than it may be. Nothing was done.
    #[error("the message has {bytes} bytes, and may have {bytes_max}")]
    MessageTooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// Data takes all of `memory_max`. The write was not done; reads and deletes go on.
    #[error("all memory for data is used ({bytes_max} bytes)")]
    OutOfMemory {
        /// `memory_max` in bytes.
        bytes_max: u64,
    },
    /// The disk is full. The write was not done; reads go on.
    #[error("the disk of the data directory is full")]
    DiskFull,
    /// It cannot be done just now: a shard has no leader, or too many requests wait. Nothing was
    /// done: try again a little later.
    #[error("{why}")]
    Busy {
        /// Why, as a clause.
        why: &'static str,
    },
    /// Others had a key of the request all the time, this one last. Nothing was done.
    #[error(
        "conflict on key '{}': other clients kept changing the request's keys",
        key.escape_ascii()
    )]
    Conflicts {
        /// The key.
        key: Box<[u8]>,
    },
    /// A key is not as the transaction has read it: another client wrote it, or its value expired.
    /// Nothing was done, and the transaction is over.
    #[error(
        "'{}' has changed since the transaction read it (another client wrote it, or its value \
         expired); nothing was done",
        key.escape_ascii()
    )]
    Conflict {
        /// The key.
        key: Box<[u8]>,
    },
    /// There is no such transaction here. By this request nothing was done.
    #[error("{why}")]
    NoTransaction {
        /// Why, as a clause.
        why: String,
    },
    /// A transaction that is to be committed is not open here. Nothing was done by this request,
    /// but one like it may have committed before: read what it would have changed.
    #[error("{why}")]
    MaybeCommitted {
        /// The request.
        id: RequestId,
        /// Why, as a clause.
        why: String,
    },
    /// Another request for the transaction is under way. This one has done nothing.
    #[error("another request for the transaction is under way")]
    TransactionInUse,
    /// Too many transactions are open here, or they hold too much. Nothing was done.
    #[error("{why}")]
    TooManyTransactions {
        /// Which limit, as a clause.
        why: String,
    },
    /// No page of keys of this keyspace begins there. Nothing was done.
    #[error("{cursor:?} is no cursor of this keyspace: it has to be `next` of the page before")]
    BadCursor {
        /// As given.
        cursor: String,
    },
    /// Too many watch the node's events already. Nothing was done.
    #[error("{viewers} viewers watch this node's events already")]
    TooManyViewers {
        /// The most.
        viewers: usize,
    },
    /// The node serves too many change feeds already. Nothing was done.
    #[error("this node serves {feeds} change feeds already")]
    TooManyFeeds {
        /// The most.
        feeds: usize,
    },
    /// The transaction would read or write more than one may. Nothing was done.
    #[error("{why}")]
    TransactionTooLarge {
        /// Which limit, as a clause.
        why: String,
    },
    /// An operation of the transaction makes no sense. Nothing was done.
    #[error("operation {at}{}: {why}", list.map(|list| format!(" of {list}")).unwrap_or_default())]
    OperationRefused {
        /// Which list of the request it is in, if the request has several.
        list: Option<&'static str>,
        /// Which operation of the list; the first is 1.
        at: usize,
        /// Why, as a clause.
        why: String,
    },
    /// The node starts, and does not know all keyspaces yet. Nothing was done: try again when it is
    /// ready.
    #[error("the node is starting and does not know all keyspaces yet")]
    Loading,
    /// The node is draining. Nothing was done: ask another, or after its restart.
    #[error("the node is stopping")]
    Stopping,
    /// The node's disk failed. This request was not done; the node has to be restarted.
    #[error("the node's storage failed")]
    StorageFailed,
    /// The request may have been done. Read what it would have changed before sending it again.
    #[error("the outcome of request {id} is unknown")]
    Unknown {
        /// The request.
        id: RequestId,
    },
}

impl ApiError {
    /// What is known about the request.
    pub fn outcome(&self) -> Outcome {
        match self {
            ApiError::MaybeCommitted { .. } | ApiError::Unknown { .. } => Outcome::Unknown,
            ApiError::NoKeyspace { .. }
            | ApiError::KeyspaceDropped
            | ApiError::KeyspaceExists { .. }
            | ApiError::BadKeyspace { .. }
            | ApiError::NoNode { .. }
            | ApiError::AmbiguousNode { .. }
            | ApiError::NodeInUse { .. }
            | ApiError::TooFewNodes { .. }
            | ApiError::NodeRemoved { .. }
            | ApiError::AdminStateRefused { .. }
            | ApiError::NoShard { .. }
            | ApiError::NotLeader { .. }
            | ApiError::NoSplit { .. }
            | ApiError::NoMerge { .. }
            | ApiError::VersionRefused { .. }
            | ApiError::KeyTooLong { .. }
            | ApiError::ValueTooLong { .. }
            | ApiError::BelowSafePoint { .. }
            | ApiError::InFuture { .. }
            | ApiError::NoSnapshot { .. }
            | ApiError::SnapshotRefused { .. }
            | ApiError::LockHeld { .. }
            | ApiError::LockLost { .. }
            | ApiError::NoTopic { .. }
            | ApiError::TopicRefused { .. }
            | ApiError::BadTopic { .. }
            | ApiError::MessageTooLong { .. }
            | ApiError::OutOfMemory { .. }
            | ApiError::DiskFull
            | ApiError::Busy { .. }
            | ApiError::Conflicts { .. }
            | ApiError::Conflict { .. }
            | ApiError::NoTransaction { .. }
            | ApiError::TransactionInUse
            | ApiError::TooManyTransactions { .. }
            | ApiError::TooManyViewers { .. }
            | ApiError::TooManyFeeds { .. }
            | ApiError::BadCursor { .. }
            | ApiError::TransactionTooLarge { .. }
            | ApiError::OperationRefused { .. }
            | ApiError::Loading
            | ApiError::Stopping
            | ApiError::StorageFailed => Outcome::NotDone,
        }
    }
}
