//! The HTTP API, for the command line, monitoring and programs without a client library.
//!
//! HTTP/1.1 runs on a thread of its own, beside the event loops: it cannot slow the hot path down.
//!
//! ```text
//!   GET    /                                     the console: a page for browsers ([`console`])
//!   GET    /openapi.json                         the document of this API ([`openapi`])
//!   GET    /health/live                          the process runs: 200
//!   GET    /health/ready                         the node serves: 200, else 503
//!   GET    /metrics                              Prometheus text
//!   GET    /v1/status                            how the node is, and whether all is well
//!   GET    /v1/nodes                             all members of the cluster
//!   POST   /v1/nodes/{node}/cordon               it gets no more replicas; a node by id or name
//!   POST   /v1/nodes/{node}/uncordon             it is a member like others again
//!   POST   /v1/nodes/{node}/drain                its replicas are to move elsewhere
//!   POST   /v1/nodes/{node}/remove               it is gone for good; it has no replicas
//!   GET    /v1/shards?keyspace=NAME&after=SHARD  all shards that the node knows, or a keyspace's,
//!              &limit=N                          page by page
//!   POST   /v1/shards/{shard}/split               {at}: it is split, by who leads it
//!   POST   /v1/shards/{shard}/merge               it takes in the one behind it, by who leads it
//!   GET    /v1/level                             the cluster version, and what nodes support
//!   POST   /v1/level                             {to}: it rises
//!   GET    /v1/decisions?dry=true                what the node has decided about shards that it
//!                                                leads, and why; or would decide
//!   GET    /v1/events?scope=cluster              what happens, as it happens: a stream
//!   GET    /v1/keyspaces                         all keyspaces
//!   POST   /v1/keyspaces                         {name, placement, durability, retention_ms,
//!                                                 replicas}
//!   GET    /v1/keyspaces/{name}                  one
//!   PATCH  /v1/keyspaces/{name}                  {durability, retention_ms, replicas}
//!   DELETE /v1/keyspaces/{name}
//!   POST   /v1/volumes/{volume}/clone            {name, at}: a volume that shares its blocks
//!   POST   /v1/volumes/{volume}/flatten          some of what a clone shares is copied
//!   GET    /v1/keys/{keyspace}?prefix=P&cursor=C its keys, page by page
//!   GET    /v1/route/{keyspace}/{key}?lookup=all how the key's owner is found, move by move
//!   GET    /v1/kv/{keyspace}/{key}?at=TIMESTAMP  the value as it is, application/octet-stream
//!   PUT    /v1/kv/{keyspace}/{key}?ttl_ms=N&if=absent|present
//!   DELETE /v1/kv/{keyspace}/{key}
//!   POST   /v1/mget                              {keyspace, keys, at}: values as of one time
//!   GET    /v1/feed?keyspace=…&since=TOKEN       what changes, commit by commit: a stream
//!   POST   /v1/snapshots                         {keyspaces, at, ttl_ms}: a time stays readable
//!   GET    /v1/snapshots                         those that are kept
//!   PUT    /v1/snapshots/{id}                    {ttl_ms}: it is kept for longer
//!   DELETE /v1/snapshots/{id}
//!   GET    /v1/locks?prefix=P&after=NAME         locks that are held, page by page
//!   POST   /v1/locks/{name}                      {owner, ttl_ms, wait_ms}: it is acquired
//!   GET    /v1/locks/{name}                      who holds it
//!   PUT    /v1/locks/{name}                      {token, ttl_ms}: its lease is renewed
//!   DELETE /v1/locks/{name}?token=N              it is released
//!   GET    /v1/topics?keyspace=NAME              the topics of a keyspace
//!   POST   /v1/topics                            {name, kept_ms, messages_max, bytes_max}
//!   GET    /v1/topics/{topic}                    one, with its groups
//!   DELETE /v1/topics/{topic}
//!   POST   /v1/topics/{topic}/messages           {messages}: they are published
//!   PUT    /v1/topics/{topic}/groups/{group}     {from, ack_ms, deliveries_max, dead_letter}
//!   DELETE /v1/topics/{topic}/groups/{group}
//!   POST   /v1/topics/{topic}/groups/{group}/take {max, wait_ms}: messages are handed out
//!   POST   /v1/topics/{topic}/groups/{group}/ack {done, back}: what became of them
//!   GET    /v1/topics/{topic}/groups/{group}/stream  the same as a stream
//!   GET    /v1/gc                                from when on keyspaces can be read, and why
//!   POST   /v1/gc                                {keyspaces, at}: old versions are to go
//!   POST   /v1/txn                               {keyspace, compare, then, else}: a transaction
//!   POST   /v1/txn/begin                         {keyspace, timeout_ms}: one in several requests
//!   POST   /v1/txn/{id}                          {do}: operations of it
//!   POST   /v1/txn/{id}/commit
//!   DELETE /v1/txn/{id}                          nothing of it is done
//! ```
//!
//! What serves something else than a node may have more ([`extension`]).
//!
//! A key is any bytes, percent-encoded; whatever follows the slash after the keyspace belongs to
//! it, further slashes included. Errors are problems of RFC 9457 ([`problem`]) that say what
//! happened, what state is left and what to do.
//!
//! # One thread, its tasks, and what happens when something is full
//!
//! ```text
//!   accept ──► connection task ──► handler ── call ──► NodeService (event loops)
//!     │            (http_connections_max)      ◄─ done ──┘  (oneshot, request_timeout)
//!     └ waits while there are as many connections as allowed: the kernel's queue, then refusals
//! ```
//!
//! | full or slow | what happens |
//! |---|---|
//! | connections | further ones are not accepted until one ends |
//! | header not there in time, or an idle connection | it is closed |
//! | body longer than a value may be | 413, closed; nothing was done |
//! | bodies of all requests together | a large one waits [`ROOM_TIMEOUT`], then 503; not done |
//! | body not there within [`BODY_TIMEOUT`], or stalled for [`BODY_STALL_TIMEOUT`] | 408, closed |
//! | body of a refused request | read and dropped, so that a client gets the reply (`linger`) |
//! | values of all replies that are not read | a large one is refused with 503 (`sent`) |
//! | reply not read | closed when no byte leaves for `stall_timeout` |
//! | viewer of events takes nothing | its connection is reset (`events`) |
//! | node does not answer | 504 for a write, whose outcome is unknown, else 503 |
//!
//! A page in a browser must not reach a node on the same machine. While the listener is loopback,
//! requests whose `Host` is a name other than `localhost` are refused (DNS rebinding). Requests
//! that change something, and the streams of events and changes, are refused to pages of other
//! sites (`origin`). Requests that change keyspaces or nodes must have the type `application/json`,
//! which a page of another origin may not send.
//!
//! It does not know how commands run ([`crate::NodeService`]). Caveat: a request line holds at most
//! 65 534 bytes, so keys near 64 KiB, or with many bytes to encode, do not fit in one.

mod auth;
mod body;
mod cluster;
mod cluster_version;
pub mod console;
mod context;
mod dev;
mod events;
pub mod extension;
mod feed;
mod handlers;
mod history;
mod keys;
mod keyspaces;
mod kv;
mod library;
mod linger;
pub mod locks;
mod nodes;
pub mod openapi;
mod origin;
mod preconditions;
pub mod problem;
mod prove;
mod reply_room;
mod routes;
mod server;
mod snapshots;
mod socket;
mod stall;
mod topic_stream;
pub mod topics;
pub mod txn;
mod uri;
mod volumes;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use overlay::LookupChoice;

pub use auth::{PasswordVerdict, Passwords};
pub use server::{Server, start, start_with};
pub use socket::TlsIdentity;

/// For the whole body of a request.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Without a byte of a body coming.
pub const BODY_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a body waits for room beside those of other requests, before it is refused.
pub const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

/// Limits and options of an HTTP server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections at a time.
    pub connections_max: usize,
    /// Longest key.
    pub key_bytes_max: u64,
    /// Longest value, and with it the longest body.
    pub value_bytes_max: u64,
    /// From the last byte of a request to its answer.
    pub request_timeout: Duration,
    /// How owners of keys are looked for, unless a request says otherwise.
    pub way: LookupChoice,
    /// For the head of a request, and for an idle connection.
    pub header_timeout: Duration,
    /// For the whole body of a request.
    pub body_timeout: Duration,
    /// Without a byte of a body coming.
    pub body_stall_timeout: Duration,
    /// For room beside the bodies of other requests.
    pub room_timeout: Duration,
    /// Without a byte of a reply leaving.
    pub stall_timeout: Duration,
    /// The socket of `carillon dev`, if that has started the node.
    pub dev_control: Option<PathBuf>,
    /// The certificate, if the listener is for TLS.
    pub tls: Option<Arc<dyn TlsIdentity>>,
    /// Judges passwords, if clients must give one.
    pub passwords: Option<Arc<dyn Passwords>>,
    /// Names this process in request ids: drawn when it started (SAFETY G10).
    pub incarnation: u64,
}

impl Options {
    /// The limits of a node without a configuration; the start of the node draws `incarnation`.
    pub fn new(incarnation: u64) -> Self {
        Self {
            connections_max: 1024,
            key_bytes_max: 64 << 10,
            value_bytes_max: 64 << 20,
            request_timeout: Duration::from_secs(5),
            way: LookupChoice::default(),
            header_timeout: Duration::from_secs(30),
            body_timeout: BODY_TIMEOUT,
            body_stall_timeout: BODY_STALL_TIMEOUT,
            room_timeout: ROOM_TIMEOUT,
            stall_timeout: Duration::from_secs(30),
            dev_control: None,
            tls: None,
            passwords: None,
            incarnation,
        }
    }
}
