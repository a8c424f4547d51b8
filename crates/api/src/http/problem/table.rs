//! The table of problems: status, type, title and remedy of each error.

use axum::http::StatusCode as S;

use crate::ApiError;

/// What all problems of one kind have in common.
pub struct Row {
    pub status: S,
    /// What the problem's `type` ends in.
    pub slug: &'static str,
    pub title: &'static str,
    pub remedy: &'static str,
}

const fn row(status: S, slug: &'static str, title: &'static str, remedy: &'static str) -> Row {
    Row { status, slug, title, remedy }
}

const NO_KEYSPACE: Row = row(
    S::NOT_FOUND,
    "no-keyspace",
    "No such keyspace",
    "See those there are with `carillon keyspace list` (GET /v1/keyspaces), or create it first.",
);
const KEYSPACE_DROPPED: Row = row(
    S::NOT_FOUND,
    "no-keyspace",
    "No such keyspace",
    "Use another one; see those there are with `carillon keyspace list` (GET /v1/keyspaces).",
);
const KEYSPACE_EXISTS: Row = row(
    S::CONFLICT,
    "keyspace-exists",
    "Keyspace exists",
    "Use it, choose another name, or drop it first.",
);
const BAD_KEYSPACE: Row =
    row(S::BAD_REQUEST, "bad-keyspace", "Bad keyspace", "Correct it, and send the request again.");
const NO_NODE: Row = row(
    S::NOT_FOUND,
    "no-node",
    "No such node",
    "See ids and names with `carillon nodes` (GET /v1/nodes). To use an id that no node knows, add \
     --unknown ({\"unknown\": true}).",
);
const AMBIGUOUS_NODE: Row = row(
    S::CONFLICT,
    "ambiguous-node",
    "Ambiguous name",
    "Name the node by its id; `carillon nodes` (GET /v1/nodes) lists ids and names.",
);
const NODE_IN_USE: Row = row(
    S::CONFLICT,
    "node-in-use",
    "Node in use",
    "Drain it first, and wait until it has no replicas; if it is down, until its replicas are \
     replaced.",
);
const TOO_FEW_NODES: Row = row(
    S::CONFLICT,
    "too-few-nodes",
    "Too few nodes",
    "Add nodes first, uncordon others, or drop the keyspaces that need so many.",
);
const NODE_REMOVED: Row = row(
    S::CONFLICT,
    "node-removed",
    "Node removed",
    "To use its machine again, start it on an empty directory with --join: it joins as a new node.",
);
const NO_SHARD: Row = row(
    S::NOT_FOUND,
    "no-shard",
    "No such shard",
    "See their numbers with `carillon shards` (GET /v1/shards).",
);
const NOT_LEADER: Row = row(
    S::CONFLICT,
    "not-leader",
    "Not the leader",
    "Ask the node that leads the shard; `carillon shards` (GET /v1/shards) shows its leader.",
);
const NO_SPLIT: Row = row(S::CONFLICT, "no-split", "Not split", "Nothing was done.");
const NO_MERGE: Row = row(S::CONFLICT, "no-merge", "Not merged", "Nothing was done.");
const VERSION_REFUSED: Row = row(
    S::CONFLICT,
    "no-level",
    "Cluster version refused",
    "See what each node supports with `carillon upgrade --check` (GET /v1/level).",
);
const ADMIN_STATE_REFUSED: Row = row(
    S::CONFLICT,
    "no-standing",
    "Refused",
    "See the admin states of nodes with `carillon nodes` (GET /v1/nodes).",
);
const KEY_TOO_LONG: Row = row(
    S::BAD_REQUEST,
    "key-too-long",
    "Key too long",
    "Use a shorter key, or raise key_bytes_max.",
);
const VALUE_TOO_LONG: Row = row(
    S::PAYLOAD_TOO_LARGE,
    "value-too-long",
    "Value too long",
    "Store the value under several keys, or raise value_bytes_max.",
);
const BELOW_SAFE_POINT: Row = row(
    S::GONE,
    "below-safe-point",
    "Too long ago",
    "Read at a later time. For the future: take a snapshot (POST /v1/snapshots), or raise the \
     keyspace's retention_ms.",
);
const IN_FUTURE: Row =
    row(S::BAD_REQUEST, "in-future", "In the future", "Ask again when that time has come.");
const NO_SNAPSHOT: Row = row(
    S::NOT_FOUND,
    "no-snapshot",
    "No such snapshot",
    "See those there are with `carillon snapshot list` (GET /v1/snapshots), or take another one.",
);
const SNAPSHOT_REFUSED: Row = row(
    S::CONFLICT,
    "snapshot-refused",
    "No snapshot",
    "See those there are with `carillon snapshot list` (GET /v1/snapshots).",
);
const LOCK_HELD: Row =
    row(S::CONFLICT, "lock-held", "Lock held", "Wait for it with wait_ms, or try again later.");
const LOCK_LOST: Row = row(
    S::CONFLICT,
    "lock-lost",
    "Lock lost",
    "Stop what the lock protects, and acquire it again: another may hold it by now.",
);
const NO_TOPIC: Row = row(
    S::NOT_FOUND,
    "no-topic",
    "No such topic or group",
    "See those there are with `carillon topic list` and `carillon topic show` (GET /v1/topics).",
);
const TOPIC_REFUSED: Row = row(
    S::CONFLICT,
    "topic-refused",
    "Refused",
    "See what there is with `carillon topic show` (GET /v1/topics/{topic}).",
);
const BAD_TOPIC: Row = row(
    S::BAD_REQUEST,
    "bad-topic",
    "Bad name or setting",
    "Correct it, and send the request again.",
);
const MESSAGE_TOO_LONG: Row = row(
    S::PAYLOAD_TOO_LARGE,
    "message-too-long",
    "Message too long",
    "Put the data under a key, and its key into the message.",
);
const OUT_OF_MEMORY: Row = row(
    S::INSUFFICIENT_STORAGE,
    "out-of-memory",
    "Out of memory",
    "Delete keys or raise memory_max; reads and deletes go on.",
);
const DISK_FULL: Row = row(
    S::INSUFFICIENT_STORAGE,
    "disk-full",
    "Disk full",
    "Make room on the data directory's disk; writes then work again by themselves.",
);
const BUSY: Row = row(S::SERVICE_UNAVAILABLE, "busy", "Busy", "Try again a little later.");
const CONTENDED: Row =
    row(S::SERVICE_UNAVAILABLE, "busy", "Busy", "Nothing was done: send it again a little later.");
const CONFLICT: Row = row(
    S::CONFLICT,
    "conflict",
    "Conflict",
    "The transaction is over: begin again, and read anew.",
);
const NO_TRANSACTION: Row = row(
    S::NOT_FOUND,
    "no-transaction",
    "No such transaction",
    "If no commit was sent before, begin again (POST /v1/txn/begin), and send all requests for it \
     to that node.",
);
const MAYBE_COMMITTED: Row = row(
    S::NOT_FOUND,
    "no-transaction",
    "No such transaction",
    "Read what the transaction would have changed before you send it again.",
);
const TRANSACTION_IN_USE: Row = row(
    S::CONFLICT,
    "transaction-in-use",
    "Transaction in use",
    "Wait for the answer to the other request; the transaction goes on.",
);
const BAD_CURSOR: Row =
    row(S::BAD_REQUEST, "bad-request", "Bad request", "Leave it out to begin with the first page.");
const TOO_MANY_VIEWERS: Row = row(
    S::SERVICE_UNAVAILABLE,
    "too-many-viewers",
    "Too many viewers",
    "Watch another node, which can show the whole cluster as well, or end another stream first.",
);
const TOO_MANY_TRANSACTIONS: Row = row(
    S::SERVICE_UNAVAILABLE,
    "too-many-transactions",
    "Too many transactions",
    "Try again when others have ended; commit or roll back what is open.",
);
const TRANSACTION_TOO_LARGE: Row = row(
    S::PAYLOAD_TOO_LARGE,
    "transaction-too-large",
    "Transaction too large",
    "Do it in several transactions, or read less.",
);
const OPERATION_REFUSED: Row = row(
    S::CONFLICT,
    "operation-refused",
    "Operation refused",
    "Correct the operation, or look at what the key has.",
);
const LOADING: Row = row(
    S::SERVICE_UNAVAILABLE,
    "loading",
    "Loading",
    "Try again when GET /health/ready answers 200.",
);
const STOPPING: Row = row(
    S::SERVICE_UNAVAILABLE,
    "stopping",
    "Stopping",
    "Ask another node, or this one after its restart.",
);
const STORAGE_FAILED: Row = row(
    S::SERVICE_UNAVAILABLE,
    "storage-failed",
    "Storage failed",
    "Look at the node's log and disk, then restart the node.",
);
const UNKNOWN: Row = row(
    S::GATEWAY_TIMEOUT,
    "unknown-outcome",
    "Unknown outcome",
    "Read what the request would have changed before sending it again; the node's log has the \
     request's id.",
);

/// All rows.
pub const ALL: [&Row; 44] = [
    &NO_KEYSPACE,
    &KEYSPACE_DROPPED,
    &KEYSPACE_EXISTS,
    &BAD_KEYSPACE,
    &NO_NODE,
    &AMBIGUOUS_NODE,
    &NODE_IN_USE,
    &TOO_FEW_NODES,
    &NODE_REMOVED,
    &NO_SHARD,
    &NOT_LEADER,
    &NO_SPLIT,
    &NO_MERGE,
    &VERSION_REFUSED,
    &ADMIN_STATE_REFUSED,
    &KEY_TOO_LONG,
    &VALUE_TOO_LONG,
    &BELOW_SAFE_POINT,
    &IN_FUTURE,
    &NO_SNAPSHOT,
    &SNAPSHOT_REFUSED,
    &LOCK_HELD,
    &LOCK_LOST,
    &NO_TOPIC,
    &TOPIC_REFUSED,
    &BAD_TOPIC,
    &MESSAGE_TOO_LONG,
    &OUT_OF_MEMORY,
    &DISK_FULL,
    &BUSY,
    &CONTENDED,
    &CONFLICT,
    &NO_TRANSACTION,
    &MAYBE_COMMITTED,
    &TRANSACTION_IN_USE,
    &BAD_CURSOR,
    &TOO_MANY_VIEWERS,
    &TOO_MANY_TRANSACTIONS,
    &TRANSACTION_TOO_LARGE,
    &OPERATION_REFUSED,
    &LOADING,
    &STOPPING,
    &STORAGE_FAILED,
    &UNKNOWN,
];

/// The row of an error.
pub fn row_of(error: &ApiError) -> &'static Row {
    match error {
        ApiError::NoKeyspace { .. } => &NO_KEYSPACE,
        ApiError::KeyspaceDropped => &KEYSPACE_DROPPED,
        ApiError::KeyspaceExists { .. } => &KEYSPACE_EXISTS,
        ApiError::BadKeyspace { .. } => &BAD_KEYSPACE,
        ApiError::NoNode { .. } => &NO_NODE,
        ApiError::AmbiguousNode { .. } => &AMBIGUOUS_NODE,
        ApiError::NodeInUse { .. } => &NODE_IN_USE,
        ApiError::TooFewNodes { .. } => &TOO_FEW_NODES,
        ApiError::NodeRemoved { .. } => &NODE_REMOVED,
        ApiError::NoShard { .. } => &NO_SHARD,
        ApiError::NotLeader { .. } => &NOT_LEADER,
        ApiError::NoSplit { .. } => &NO_SPLIT,
        ApiError::NoMerge { .. } => &NO_MERGE,
        ApiError::VersionRefused { .. } => &VERSION_REFUSED,
        ApiError::AdminStateRefused { .. } => &ADMIN_STATE_REFUSED,
        ApiError::KeyTooLong { .. } => &KEY_TOO_LONG,
        ApiError::ValueTooLong { .. } => &VALUE_TOO_LONG,
        ApiError::BelowSafePoint { .. } => &BELOW_SAFE_POINT,
        ApiError::InFuture { .. } => &IN_FUTURE,
        ApiError::NoSnapshot { .. } => &NO_SNAPSHOT,
        ApiError::SnapshotRefused { .. } => &SNAPSHOT_REFUSED,
        ApiError::LockHeld { .. } => &LOCK_HELD,
        ApiError::LockLost { .. } => &LOCK_LOST,
        ApiError::NoTopic { .. } => &NO_TOPIC,
        ApiError::TopicRefused { .. } => &TOPIC_REFUSED,
        ApiError::BadTopic { .. } => &BAD_TOPIC,
        ApiError::MessageTooLong { .. } => &MESSAGE_TOO_LONG,
        ApiError::OutOfMemory { .. } => &OUT_OF_MEMORY,
        ApiError::DiskFull => &DISK_FULL,
        ApiError::Busy { .. } => &BUSY,
        ApiError::Conflicts { .. } => &CONTENDED,
        ApiError::Conflict { .. } => &CONFLICT,
        ApiError::NoTransaction { .. } => &NO_TRANSACTION,
        ApiError::MaybeCommitted { .. } => &MAYBE_COMMITTED,
        ApiError::TransactionInUse => &TRANSACTION_IN_USE,
        ApiError::TooManyTransactions { .. } => &TOO_MANY_TRANSACTIONS,
        ApiError::TooManyViewers { .. } | ApiError::TooManyFeeds { .. } => &TOO_MANY_VIEWERS,
        ApiError::BadCursor { .. } => &BAD_CURSOR,
        ApiError::TransactionTooLarge { .. } => &TRANSACTION_TOO_LARGE,
        ApiError::OperationRefused { .. } => &OPERATION_REFUSED,
        ApiError::Loading => &LOADING,
        ApiError::Stopping => &STOPPING,
        ApiError::StorageFailed => &STORAGE_FAILED,
        ApiError::Unknown { .. } => &UNKNOWN,
    }
}
