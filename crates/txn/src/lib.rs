//! How are several keys changed as one, wherever they lie? Transactions over shards: what a shard
//! knows of them, who sees them through, and who waits for whom.
//!
//! ```text
//!   client ──► interactive: commands run on a copy, COMMIT makes a transaction of it
//!        └───► coordinator: PREPARE at every shard ──► DECIDE ──► RESOLVE ──► FORGET
//!                               │ steps, as bytes
//!   a shard's leader            ▼
//!        wait_queue: may it be proposed, does it wait for a lock, or is it refused?
//!                               │ entries of the shard's log
//!   every replica               ▼
//!        locks: the lock table, changed by entries and by nothing else
//! ```
//!
//! | module | answers |
//! |---|---|
//! | [`locks`] | what does a shard know of transactions: locks, records, marks |
//! | [`coordinator`] | who sees a transaction through, and finishes an abandoned one |
//! | [`wait_queue`] | who waits for whom at a shard's leader: locks, reservations, the starvation guard |
//! | [`abandoned`] | which transactions does nobody see to any more |
//! | [`retry_queue`] | which command runs first, of those that are retried after conflicts |
//! | [`interactive`] | what does a transaction look like to a client that goes through it step by step |
//!
//! # Invariants
//! 1. Everything here is a state machine: input in, what is to be done out. Time, other nodes and
//!    random numbers come from whoever drives it.
//! 2. The lock table ([`locks`]) is part of what replicas share: what it answers follows from
//!    entries alone. Everything else here may be lost at any moment, and costs time only.
//! 3. Nothing here knows how a step reaches a shard, or how a shard is replicated.

// Tests of the crate and its scripts share a shard, which names the crate as others do.
#[cfg(test)]
extern crate self as txn;

pub mod abandoned;
mod conflict_rate;
pub mod coordinator;
pub mod interactive;
pub mod locks;
pub mod retry_queue;
mod shard_map;
pub mod wait_queue;

pub use abandoned::AbandonedTxn;
pub use conflict_rate::ConflictRate;
pub use retry_queue::ConflictRetry;
pub use shard_map::ShardMap;
