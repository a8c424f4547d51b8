//! Client-side caches: who must hear that a key has changed? (SAFETY G24)
//!
//! A client that caches what it reads is told when a key may have changed. Its node registers
//! interest with the leader of the key's shard *before* it reads the value, so that no change is
//! missed. The leader looks at what entries change, and tells the interested nodes.
//!
//! ```text
//!   client    its node: Interests                          leader of the shard: LeaderTable
//!   GET k ──► is k registered? no ── Fetch: Track k ─────► k: this node
//!             k: registered       ◄─ Tracked: stream, next number
//!             k: held by the client, then k is read ──────► value
//!   ◄─ value
//!                                                          an entry changes k
//!   ◄─ invalidate k ◄── k is forgotten ◄── Changed: number, k ── k is forgotten
//!             each 100 ms: Renew ────────────────────────► does it lead still, by its lease?
//!             valid for a second more ◄── Alive: next number
//! ```
//!
//! All interests of a node in a shard are one **stream** of messages with numbers. A stream belongs
//! to one leader, one term and one generation of the shard. The node gives up a stream, and
//! invalidates all that it holds by it, when a number is missing, when the leader says that the
//! stream has ended, or when no leader has confirmed it for [`LEASE_NANOS`].
//!
//! # Invariants
//! 1. What a client holds is registered at the leader, or a message that invalidates it is on its
//!    way, or was lost; a lost one shows as a missing number, or as silence.
//! 2. A leader confirms a stream only while its lease says that no other replica leads. So all that
//!    was acknowledged before the confirmed `Renew` was sent has its number.
//! 3. A key that a transaction will write counts as changed when it is locked, and again when the
//!    lock is resolved: the transaction's client may hear of the commit in between.
//!
//! # Caveats
//! A message may name a key that has not changed, or name it twice. A part of a shard that is
//! flushed invalidates the whole shard.

pub mod changed;
pub mod interests;
pub mod leader;
pub mod message;
pub mod unheard;

#[cfg(test)]
mod tests;

/// How long a stream is valid after a leader's confirmation was asked for, in nanoseconds.
pub const LEASE_NANOS: u64 = 1_000_000_000;
/// How often a node asks for it, in nanoseconds.
pub const RENEW_NANOS: u64 = 100_000_000;
