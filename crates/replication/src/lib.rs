//! How does a shard's group agree on one order of entries? Raft, behind five verbs.
//!
//! ```text
//!   propose(data) ──► (index, term)           the caller's entry has a place, no more
//!   ready()       ──► Work { entries, hard state to persist; committed entries to apply }
//!   persisted(n)      the work numbered n, and all before, is as durable as the shard demands
//!   applied(i)        the state machine has passed index i
//!   tick()            time passes
//! ```
//!
//! The consensus itself is the `raft` crate (Ongaro's Raft as TiKV runs it), one [`Group`] per
//! replica, stepped, never waiting. It stays behind this module so that it can be replaced:
//! nothing above knows its types. What the library leaves to its user, and how we take it:
//!
//! - Its defaults hurt (one entry per message, unlimited sizes): see [`LIMITS`](Limits).
//! - Followers forward proposals; we propose as leader only, else [`NotLeader`].
//! - A leader applies only what is persisted here: entries come out of [`Group::ready`] as
//!   committed after [`Group::persisted`] covered them.
//! - At start, `applied` must lie within the log that is handed in: [`Group::new`] asserts it.
//!
//! Invariants:
//! 1. Work is persisted in the order of its numbers.
//! 2. Committed entries come out once each, in index order, without gaps.
//! 3. Between [`Group::ready`] and its return no other verb runs (one `&mut self` call does it
//!    all).
//!
//! Groups have one replica in this release: there are no messages, and a sole voter commits what
//! it has persisted. Messages, leases and configuration changes come with clusters.

mod entries;
mod group;

pub use entries::Entry;
pub use group::{Group, HardState, Limits, NotLeader, Proposed, Start, Work};
