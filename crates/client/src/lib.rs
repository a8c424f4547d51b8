//! Clients of a running cluster, for Rust programs.
//!
//! | client | for | speaks |
//! |---|---|---|
//! | [`Store`] | programs: many tasks, many requests | the Redis protocol, with the node that leads each key |
//! | [`http::Client`] | tools: one request now and then, without a runtime | HTTP, with one node |
//! | [`Locks`] | locks with fencing tokens, which are renewed while they are held | HTTP, with any node |
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), client::Error> {
//! let store = client::Store::connect(["127.0.0.1:6379", "127.0.0.1:6380"]).await?;
//! store.set("greeting", "hello").await?;
//! assert_eq!(store.get("greeting").await?.as_deref(), Some(b"hello".as_slice()));
//! assert_eq!(store.incr("visits").await?, 1);
//!
//! let left = store
//!     .transaction(async |tx| {
//!         let left = tx.incr_by("account:ann", -10).await?;
//!         tx.incr_by("account:bob", 10).await?;
//!         Ok::<_, client::Error>(left)
//!     })
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! `examples/` has programs that the project's tests run; docs/client.md is the manual.
//!
//! Invariants of [`Store`]:
//! 1. An error is of one of three kinds ([`Error`], SAFETY G10): nothing was done; the outcome is
//!    unknown; or the request itself is wrong. A write or transaction is sent again only if it is
//!    certain that nothing was done, so none is done twice.
//! 2. A request ends within its timeout, whatever nodes and networks do, and waits only for nodes
//!    that it asks.
//! 3. Everything is bounded: requests that wait on a connection, the bytes and the nesting of an
//!    answer, known nodes, transactions under way.

pub mod http;
mod locks;
mod store;
mod tls;

pub use locks::{Lock, Locks};
pub use store::*;
pub use tls::{Tls, TlsError, TlsFiles};
pub use topics::group::{Delivery, Start as GroupStart, Taken};
pub use topics::record::{GroupSettings, Origin, TopicSettings};
