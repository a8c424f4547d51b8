//! How are durable topics and locks kept in keys of a store that has transactions?
//!
//! A topic is a few keys of the keyspace whose data its messages speak of. So one transaction can
//! change data and publish: the message is there if and only if the data changed.
//!
//! ```text
//!   head      first = 3, next = 6, settings        publish: next message, then next = 7
//!   messages        3   4   5
//!   group a             ▲ next = 4, handed out: –
//!   group b                 ▲ next = 5, handed out: 3 (until 17:02:11, second time)
//! ```
//!
//! A message's number comes from the head, which its transaction reads and writes. So transactions
//! that publish to one topic are ordered, numbers rise in the order of commits, and none is left
//! out. That costs concurrency: publishers of one topic wait for each other
//! (docs/decisions/0057-topics-and-locks.md).
//!
//! Everything here is a function of a [`Draft`]: what keys have, as far as it was read. If it needs
//! a key that was not read, it stops with [`Stop::Missing`]; its driver reads the key, in its
//! transaction, and calls the function again. When it returns, the driver writes what
//! [`Draft::end`] gives and commits. If that is a conflict, all begins anew. HTTP, `/v1/txn` and
//! the Rust client are such drivers.
//!
//! | file | what |
//! |---|---|
//! | [`draft`] | what a function sees and writes |
//! | [`keys`] | names, and the keys of topics and locks |
//! | [`record`] | bytes of their values |
//! | [`topic`] | create, list, show, publish, delete |
//! | [`group`] | subscribe, take, acknowledge |
//! | [`lock`] | locks with fencing tokens |
//!
//! # Invariants
//! 1. Numbers of a topic rise by one with each message, from 1.
//! 2. A message is handed out to one member of a group at a time, until its deadline.
//! 3. A group's `next` never falls. What lies before it is acknowledged, handed out, or counted as
//!    missed.
//! 4. What a function does is bounded by the constants of its file.
//!
//! It does not know how keys are read and written, nor who asks.

pub mod draft;
pub mod group;
pub mod keys;
pub mod lock;
pub mod record;
mod refusal;
pub mod topic;

pub use draft::{Draft, Found, Stop, Write};
pub use refusal::Refusal;
