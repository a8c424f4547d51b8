//! The Redis gateway: RESP2 and RESP3 as pure functions of bytes.
//!
//! ```text
//!   bytes ──parse──▶ Args ──Session::translate──▶ Request ──▶ (the event loop: node, shards)
//!                                │                                │
//!                                └─ replies known at once ─▶ out ◀─ RespWriter, a Sink
//! ```
//!
//! `SET k hello EX 10` arrives as `*5\r\n$3\r\nSET\r\n…`; [`parse`] finds where the five arguments
//! lie; [`Session::translate`] makes of them [`Request::Write`] with a `Write::Set` whose expiry is
//! ten seconds after the node's clock; the event loop hands it to a shard and writes the answer
//! with [`Session::writer`].
//!
//! Invariants:
//! 1. Replies and error texts are those of Redis 7.0.15, byte for byte
//!    (`tests/resp_errors.txt` replays a few hundred recorded from it).
//! 2. Arguments are borrowed from the connection's buffer from parsing to the log.
//! 3. Memory is bounded by bytes that really arrived: nothing is allocated for a declared length.
//!
//! It does not know sockets, shards or time: the event loop provides them through [`Context`].
//!
//! Caveats: these answers differ from Redis on purpose.
//!
//! - A WRONGTYPE error never occurs, for all values are strings.
//! - Options are judged before the key is read. So a bad expiry of GETEX is refused even if the key
//!   has no value, and OBJECT FREQ always.
//! - Keys have a length limit of their own.
//! - There are no types other than strings.
//! - Commands for what the cluster does by itself are refused (CLUSTER MEET and the like).

mod args;
pub mod commands;
mod context;
mod error;
mod inline;
mod key_events;
pub mod monitor;
mod number;
mod parser;
mod request;
mod scripted;
mod session;
mod stats;
pub mod subscriptions;
pub mod table;
mod topology;
mod tracking;
mod transaction;
mod writer;

pub use args::{ArgRanges, Args};
pub use context::{
    Authentication, ClientFacts, ClusterFacts, Context, Facts, KeyspaceFacts, LiveSetting,
    ScriptFacts,
};
pub use error::CommandError;
pub use key_events::KeyEventFlags;
pub use number::{parse_i64, push_i64, push_u64};
pub use parser::{LINE_BYTES_MAX, Parsed, ProtocolError, RequestLimits, parse};
pub use request::{
    Bound, CollectRequest, Explain, Gather, KeyspaceRequest, Kill, LibraryRequest, PastRead,
    PastRequest, RANGE_NEEDS_ORDER, Range, Request, Restore, ScriptCall, ScriptName, ScriptRequest,
    Transfer, Wait,
};
pub use scripted::{
    ScriptedCommand, called_function, called_script, changes_scripts, flushes, is_script,
    needs_memory, spans_keyspaces,
};
pub use session::{FIRST_KEYSPACE, Peer, Session};
pub use stats::{BUCKETS, CommandCalls, SlowCommand};
pub use subscriptions::Subscriptions;
pub use topology::{Health, Mode, Node, ReplicaListener, Shard, Topology};
pub use tracking::{Choice, Tracking};
pub use transaction::{
    ARGS_MAX, QUEUED_BYTES_MAX, QUEUED_MAX, Queue, WATCHED_BYTES_MAX, WATCHED_MAX, Watched,
    concerns_connection, runs_late,
};
pub use writer::{RespWriter, Version, refusal_text};
