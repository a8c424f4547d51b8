//! Change feeds: what has become of the keys of a keyspace, in the order of commit times, without a
//! gap (SAFETY G23).
//!
//! ```text
//!   leader of a shard:  entries ─► ChangeLog: (time, key), while somebody watches
//!                                     │           older: a walk through the versions in the store
//!                       Changes above T? ──► changes in order, and a resolved time R
//!   any node:           FeedMerge: a position for each shard; what is at or below the lowest of
//!                       them is complete ─► commits, whole and in order ─► client
//! ```
//!
//! A **position** is a time: a feed at position T has told all that was committed at or below T,
//! and nothing above. All of one commit time is told at once, so a position never lies within a
//! transaction. Versions are in the store, so any node goes on from any position that is not below
//! the safe point, and nobody keeps anything for a feed that is not connected.
//!
//! The **resolved time** of a shard is a time at or below which nothing will be committed there any
//! more: what the leader has promised to readers, all entries up to there applied, and below each
//! lock (a transaction that was prepared at 50 may be committed at 50 or later).
//!
//! | file | what |
//! |---|---|
//! | `changes` | what a feed asks of a leader, and how that answers |
//! | `log` | the newest changes of one shard, while somebody watches |
//! | `merge` | one feed: whom to ask what, and what is complete |

pub mod changes;
mod codec;
pub mod log;
pub mod merge;
