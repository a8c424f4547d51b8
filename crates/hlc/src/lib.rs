//! When did it happen, and what may still happen before then? The clock, and what a shard has
//! promised its readers.
//!
//! Every committed version has a [`Timestamp`](keyspace::Timestamp). Two things hand them out and
//! hold them back:
//!
//! ```text
//!   physical time ──► Clock ──► entry 7 @ 100   entry 8 @ 130   (rise with the log index, G2)
//!                       │
//!   read at T = 120 ────┴──► Promise: "no entry at or below 120 from now on", 120 ≤ horizon
//! ```
//!
//! - [`Clock`] is a hybrid logical clock (Kulkarni et al. 2014): never behind physical time as the
//!   driver tells it, never twice the same, never back.
//! - [`Physical`] is that time: the wall clock at start and what has passed since (SAFETY G12).
//! - [`ReadPromise`] keeps one shard's side of SAFETY G2: the timestamps in flight, how far readers
//!   were promised that the past is closed, and the *horizon*, the logged bound of such promises.
//! - [`safe_point`] says how far old versions may be collected (ALGORITHMS 8.3).
//!
//! Invariants:
//! 1. Timestamps taken from a clock rise strictly.
//! 2. A promise never exceeds the horizon, and the horizon counts only once its entry is applied.
//! 3. No timestamp is published as in flight at or below the promise.
//!
//! Transactions over several shards build on this; they are not here yet.

mod clock;
mod physical;
mod promise;
pub mod safe_point;

/// What threads share goes by this name, so that `node`'s test of threads can put its own there.
mod sync {
    pub use std::sync::atomic::{AtomicU64, Ordering};
}

pub use clock::Clock;
pub use physical::{AHEAD_MILLIS_MAX, Physical, median_offset};
pub use promise::{HORIZON_AHEAD_MILLIS, ReadPromise, SnapshotRead, UnsettledFloor};
