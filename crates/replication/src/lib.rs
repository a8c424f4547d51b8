//! How does a shard's group agree on one order of entries? Raft, behind a few verbs.
//!
//! ```text
//!   propose(data) ──► (index, term)           the caller's entry has a place, no more
//!   step(message)                             a message of another replica arrives
//!   tick(now)                                 time passes
//!   ready()       ──► Work { entries, hard state to persist; committed entries to apply }
//!   persisted(n)      the work numbered n, and all before, is as durable as the shard demands
//!   applied(i)        the state machine has passed index i
//!   take_messages()   messages to send to other replicas now
//! ```
//!
//! The consensus itself is the `raft` crate (Ongaro's Raft as TiKV runs it), one [`Group`] per
//! replica, stepped, never waiting. Callers do not see its types, so that it can be replaced. The
//! library leaves some matters to its user; this crate decides them so:
//!
//! - Its defaults are bad (one entry per message, unlimited sizes): see [`GroupLimits`].
//! - Followers forward proposals; we propose as leader only, else [`NotLeader`].
//! - A leader applies only what is persisted here: entries come out of [`Group::ready`] as
//!   committed after [`Group::persisted`] covered them.
//! - It trusts every message: [`Group::step`] refuses invalid ones first, and distinguishes a
//!   replica that has lost entries ([`RejectedMessage::LostLog`]) from one that lags.
//! - Its leases look at roles, not clocks: [`lease`] has ours.
//! - Its `batch_append` may put entries into an empty append of a later place, and the receiver
//!   then acknowledges more than it has: off.
//! - It draws timeouts from a random generator per thread; here they follow from a seed.
//! - Its messages acknowledge entries that may not be on disk yet: a follower sends them after
//!   [`Group::persisted`].
//! - Changes of members are explicit and joint ([`members`]). The leader at that time leaves the
//!   joint state.
//!
//! A snapshot's state does not travel in messages. A message with [`Message::snapshot`] is its
//! head. The sender's driver sends the state beside it and calls [`Group::snapshot_sent`]. The
//! receiver's driver calls [`Group::wants`], installs the state, and only then steps the head.
//!
//! Invariants:
//! 1. Work is persisted in the order of its numbers.
//! 2. Committed entries come out once each, in index order, without gaps.
//! 3. Between [`Group::ready`] and its return no other verb runs (one `&mut self` call does it
//!    all).
//! 4. No vote leaves a voter within lease + 10 % of handling its leader's last message, nor within
//!    that time of a start from disk.

mod check;
mod entries;
mod group;
pub mod lease;
pub mod members;
mod message;

pub use check::RejectedMessage;
pub use entries::Entry;
pub use group::{
    ChangeRefused, Follower, Group, GroupLimits, HardState, NotLeader, Proposed, StartContext,
    StartState, Work,
};
pub use keyspace::BootNanos;
pub use members::{Change, Members};
pub use message::{DecodeError, Message, MessageKind};
