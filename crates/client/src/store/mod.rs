//! The asynchronous client of a keyspace: [`Store`].
//!
//! ```text
//!   Store (cheap to clone) ─► attempts: one request, tried until answered or out of time
//!                                │
//!                             cluster: nodes, and a route cache that is kept up to date
//!                                │
//!                             link: one connection, pipelined, shared by tasks; its own task
//!                                │
//!                             reply, request: bytes
//!                                │
//!                             exclusive: one connection, of one transaction at a time
//!                                │
//!                             pool: exclusive connections that are free
//!                                │
//!   Store::transaction ──────► transaction: its commands; transact: attempts
//! ```
//!
//! Start reading at [`link`](self) and its drawing in `link.rs`; the rules of retries stand in
//! `attempts.rs`, those of routes in `cluster.rs`.

mod attempts;
mod cluster;
mod commands;
mod dial;
mod error;
mod exclusive;
mod feed;
mod link;
mod options;
mod past;
mod pause;
mod pool;
mod range;
mod reply;
mod request;
mod route_cache;
mod stream;
mod topics;
mod transact;
mod transaction;
mod typed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cluster::Cluster;
pub use cluster::ROUTE_REFRESH_PAUSE;
pub use commands::{Expiry, SetOptions, Ttl, When};
pub use error::{Error, Reason};
pub use feed::{FEED_QUEUE_MAX, StoreFeed};
pub use link::{GREETING_MAX, PAUSE_MAX, SILENCE_MAX};
use options::Options;
pub use options::{
    Builder, CONNECT_TIMEOUT, CONNECTIONS_PER_NODE, OUTSTANDING_MAX, QUEUED_BYTES_MAX,
    REPLY_BYTES_MAX, REQUEST_TIMEOUT, TRANSACTION_TIMEOUT, TRANSACTIONS_MAX,
};
pub use past::{KeyState, PastStore};
use pool::Pool;
pub use pool::SHUNNED;
pub use range::KeyRange;
pub use reply::{DecodeError, Decoder, LINE_BYTES_MAX, NESTING_MAX, Reply};
use request::Request;
pub use route_cache::NODES_MAX;
pub use transaction::{OpenTransaction, Transaction};

/// A keyspace of a cluster.
///
/// A clone is the same store: make one, and give a clone to each task. Its connections end when
/// the last clone is dropped.
///
/// A future that is dropped before it is ready leaves its request as it is: it may have been sent.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Arc<Options>,
    cluster: Arc<Cluster>,
    pool: Pool,
    requests: AtomicU64,
}

impl Shared {
    /// The error of a write whose outcome is unknown.
    fn unknown(&self, command: String, text: String) -> Error {
        Error::Unknown { request: self.requests.load(Ordering::Relaxed), command, text }
    }
}

impl Store {
    /// Connects with the first of these nodes (`HOST:PORT` of their Redis listeners) that answers,
    /// and learns of all others from it: keyspace `0`, and everything else as usual. Must be called
    /// within a Tokio runtime with I/O and time.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), client::Error> {
    /// let store = client::Store::connect(["127.0.0.1:6379", "127.0.0.1:6380"]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub async fn connect<A: Into<String>>(
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Self, Error> {
        Self::builder().connect(addresses).await
    }

    /// Sets options of a store, then connects.
    pub fn builder() -> Builder {
        Builder::default()
    }

    async fn open(options: Options, seeds: Vec<String>) -> Result<Self, Error> {
        let options = Arc::new(options);
        let cluster = Cluster::open(options.clone(), seeds).await?;
        let pool = Pool::new(options.clone());
        let requests = AtomicU64::new(0);
        Ok(Self { shared: Arc::new(Shared { options, cluster, pool, requests }) })
    }

    /// Any command of docs/redis.md but those about the connection itself (SELECT, MULTI, WAIT …).
    /// It goes to the node that leads its first key.
    ///
    /// ```no_run
    /// # async fn example(store: client::Store) -> Result<(), client::Error> {
    /// let reply = store.command(&[b"APPEND", b"log", b"line"]).await?;
    /// assert_eq!(reply.integer(), Some(4));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known, or the request is at fault.
    pub async fn command(&self, args: &[&[u8]]) -> Result<Reply, Error> {
        self.call(Request::raw(args)?).await
    }

    async fn call(&self, request: Request<'_>) -> Result<Reply, Error> {
        let number = self.shared.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let limit = self.shared.options.request_timeout;
        attempts::attempt(&self.shared.cluster, &request, number, limit).await
    }
}
