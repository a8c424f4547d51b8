//! Options of a store.

use std::time::Duration;

use super::{Error, Store};
use crate::Tls;
use crate::http::Password;

/// The default timeout of a request: longer than the 5 s (`request_timeout_ms`) after which nodes
/// answer with the outcome themselves.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(6);
/// Time for a connection to be made and greeted.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections to each node, beside one for requests that it forwards (the detour).
pub const CONNECTIONS_PER_NODE: usize = 2;
/// Requests that wait for answers on one connection.
pub const OUTSTANDING_MAX: usize = 4096;
/// Bytes that wait to be sent on one connection; one request may be longer.
pub const QUEUED_BYTES_MAX: usize = 8 << 20;
/// Bytes of one answer, its items in memory counted too: twice a node's `value_bytes_max`.
pub const REPLY_BYTES_MAX: usize = 128 << 20;
/// Time for a transaction with all its attempts.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Transactions that a store runs at once, each with a connection of its own.
pub const TRANSACTIONS_MAX: usize = 32;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub keyspace: String,
    pub request_timeout: Duration,
    pub connect_timeout: Duration,
    pub connections_per_node: usize,
    pub outstanding_max: usize,
    pub queued_bytes_max: usize,
    pub reply_bytes_max: usize,
    pub transaction_timeout: Duration,
    pub transactions_max: usize,
    pub tls: Option<Tls>,
    pub password: Option<Password>,
}

/// Says how a [`Store`] is to be.
///
/// ```no_run
/// # async fn example() -> Result<(), client::Error> {
/// use std::time::Duration;
///
/// let store = client::Store::builder()
///     .keyspace("sessions")
///     .request_timeout(Duration::from_secs(2))
///     .connect(["10.0.0.1:6379", "10.0.0.2:6379"])
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    options: Options,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            options: Options {
                keyspace: "0".to_owned(),
                request_timeout: REQUEST_TIMEOUT,
                connect_timeout: CONNECT_TIMEOUT,
                connections_per_node: CONNECTIONS_PER_NODE,
                outstanding_max: OUTSTANDING_MAX,
                queued_bytes_max: QUEUED_BYTES_MAX,
                reply_bytes_max: REPLY_BYTES_MAX,
                transaction_timeout: TRANSACTION_TIMEOUT,
                transactions_max: TRANSACTIONS_MAX,
                tls: None,
                password: None,
            },
        }
    }
}

impl Builder {
    /// The keyspace of all requests: `0` to `15`, or the name of one that was made.
    pub fn keyspace(mut self, name: impl Into<String>) -> Self {
        self.options.keyspace = name.into();
        self
    }

    /// How long a request may take with all its attempts ([`REQUEST_TIMEOUT`]). A write that was
    /// not done is not tried again in the last 50 ms of it.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.options.request_timeout = limit;
        self
    }

    /// How long a connection may take to be made and greeted ([`CONNECT_TIMEOUT`]).
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.options.connect_timeout = limit;
        self
    }

    /// How many connections to have with each node ([`CONNECTIONS_PER_NODE`]), at least one; beside
    /// them is one for requests that the node is to pass on.
    pub fn connections_per_node(mut self, count: usize) -> Self {
        self.options.connections_per_node = count.max(1);
        self
    }

    /// How many requests may wait for answers on one connection ([`OUTSTANDING_MAX`]), at least
    /// one. Further ones wait their turn, within their time.
    pub fn outstanding_max(mut self, count: usize) -> Self {
        self.options.outstanding_max = count.max(1);
        self
    }

    /// How many bytes may wait to be sent on one connection ([`QUEUED_BYTES_MAX`]).
    pub fn queued_bytes_max(mut self, bytes: usize) -> Self {
        self.options.queued_bytes_max = bytes.max(1);
        self
    }

    /// How many bytes one answer may take ([`REPLY_BYTES_MAX`]). A longer one costs the connection,
    /// so that its other requests are lost, too.
    pub fn reply_bytes_max(mut self, bytes: usize) -> Self {
        self.options.reply_bytes_max = bytes;
        self
    }

    /// How long a transaction may take with all its attempts ([`TRANSACTION_TIMEOUT`]); only the
    /// answer to its COMMIT may be waited for beyond that, for as long as to any request.
    pub fn transaction_timeout(mut self, limit: Duration) -> Self {
        self.options.transaction_timeout = limit;
        self
    }

    /// How many transactions may be under way at once ([`TRANSACTIONS_MAX`]), at least one. Further
    /// ones wait their turn, within their time.
    pub fn transactions_max(mut self, count: usize) -> Self {
        self.options.transactions_max = count.max(1);
        self
    }

    /// Gives nodes this password.
    pub fn password(mut self, password: &str) -> Self {
        self.options.password = Some(Password(password.into()));
        self
    }

    /// Connects by TLS: all addresses are those of listeners for it (`resp_tls`).
    pub fn tls(mut self, tls: Tls) -> Self {
        self.options.tls = Some(tls);
        self
    }

    /// Connects with the first of these nodes that answers, and learns of the others from it. Must
    /// be called within a Tokio runtime with I/O and time.
    ///
    /// # Errors
    /// [`Error::NotDone`] if none answers in time; [`Error::BadRequest`] if there is no such
    /// keyspace, or no address is given.
    pub async fn connect<A: Into<String>>(
        self,
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Store, Error> {
        Store::open(self.options, addresses.into_iter().map(Into::into).collect()).await
    }
}
