//! The hybrid logical clock, and what a shard has promised its readers.
//!
//! Every committed version has a [`Timestamp`](keyspace::Timestamp). The clock gives timestamps to
//! entries; read promises bound them from below:
//!
//! ```text
//!   physical time ──► Clock ──► entry 7 @ 100   entry 8 @ 130   (rise with the log index, G2)
//!                       │
//!   read at T = 120 ────┴──► Promise: "no entry at or below 120 from now on", 120 ≤ horizon
//! ```
//!
//! - [`Clock`] is a hybrid logical clock (Kulkarni et al. 2014): never behind physical time as the
//!   driver gives it, never the same twice, never back.
//! - [`Physical`] is that time: the wall clock at start and what has passed since (SAFETY G12).
//! - [`ReadPromise`] holds one shard's side of SAFETY G2: the timestamps in flight, up to which
//!   time readers were promised a closed past, and the *horizon*, the logged bound of such
//!   promises.
//! - [`safe_point`] says how far old versions may be collected (ALGORITHMS 8.3).
//!
//! Invariants:
//! 1. Timestamps taken from a clock rise strictly.
//! 2. A promise never exceeds the horizon, and the horizon counts only once its entry is applied.
//! 3. No timestamp is published as in flight at or below the promise.
//!
//! Crate `txn` builds transactions over several shards on this.

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
