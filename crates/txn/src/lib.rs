//! How are several keys changed as one, in whichever shards they lie? Transactions over shards:
//! each shard's lock table, the coordinator, and the wait queue for locks.
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
//! | [`coordinator`] | which steps does a transaction take, and how is an abandoned one finished |
//! | [`wait_queue`] | which step waits for which at a shard's leader: locks, reservations, the starvation guard |
//! | [`abandoned`] | which transactions have lost their coordinator |
//! | [`retry_queue`] | which command runs first, of those that are retried after conflicts |
//! | [`interactive`] | what does a client see in a transaction that it runs step by step |
//! | [`script_queue`] | in which order do the scripts of one shard run |
//! | [`script_batch`] | which of them take effect together, and what becomes of each |
//! | [`script_attempt`] | what does a script do next that runs over any shards |
//!
//! # Invariants
//! 1. Everything here is a state machine: inputs in, actions out. Its driver supplies time, random
//!    numbers and the connection to other nodes.
//! 2. The lock table ([`locks`]) is replicated state: its answers follow from entries alone.
//!    Everything else here may be lost at any moment; that costs time only.
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
pub mod script_attempt;
pub mod script_batch;
pub mod script_queue;
mod shard_map;
pub mod wait_queue;

pub use abandoned::AbandonedTxn;
pub use conflict_rate::ConflictRate;
pub use retry_queue::ConflictRetry;
pub use shard_map::{ShardMap, Witnesses};
