//! Is a shard's request rate so high that it should split, and where?
//!
//! Gateways sample one request in [`GAP`] or so, with the range of the shard that it touches
//! ([`Sampler`]). From these samples each shard has a [`ShardLoad`]: its request rate and, while
//! that is too high, the effect of a split at each of a few places ([`SplitPointFinder`]).
//!
//! ```text
//!   requests ──► 1 in 64 ──► rate ≤ split_rate ──► nothing is recorded
//!                             rate > split_rate ──► 20 candidates, for 10 s ──► Cut at 4096
//!                                                                           ├──► OneKey
//!                                                                           └──► Scans
//! ```
//!
//! Places are the bytes of positions behind the keyspace's id: a slot in two bytes, or a key.
//!
//! Invariant: no clock and no randomness of its own; both are arguments.

mod finder;
mod record;
mod sampler;

pub use finder::{SplitPoint, SplitPointFinder};
pub use record::{RECORD_MS, ShardLoad};
pub use sampler::{GAP, Sampler};
