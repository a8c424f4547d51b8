//! Is a shard asked so often that it should be cut in two, and where?
//!
//! Gateways note one request in [`GAP`] or so, and which stretch of the shard it was for
//! ([`Sampler`]). Of that each shard has a [`ShardLoad`]: how often it is asked, and, while that is
//! more than it should be, what a cut at each of a few places would have done
//! ([`SplitPointFinder`]).
//!
//! ```text
//!   requests ──► 1 in 64 ──► rate ≤ split_rate ──► nothing is written down
//!                             rate > split_rate ──► 20 candidates, for 10 s ──► Cut at 4096
//!                                                                           ├──► OneKey
//!                                                                           └──► Scans
//! ```
//!
//! Places are the bytes of positions behind the keyspace's id: a slot in two bytes, or a key.
//!
//! Invariant: no time and no chance of its own; both are arguments.

mod finder;
mod record;
mod sampler;

pub use finder::{SplitPoint, SplitPointFinder};
pub use record::{RECORD_MS, ShardLoad};
pub use sampler::{GAP, Sampler};
