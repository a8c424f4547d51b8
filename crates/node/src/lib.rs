//! What happens to a request between the edge and the disk? One node as a pure state machine,
//! stepped by the server and by the simulator.
//!
//! # The life of one `SET`
//!
//! ```text
//!   *3 SET k v          a gateway parses it: command::Write::Set
//!        │
//!   route::Route        key ──► slot ──► shard 6, which lives in a lane
//!        │
//!   entry::Batch        the command in its final bytes, behind room for the entry's header
//!        │              (all writes for one shard in one turn share a batch)
//!   lane::Input::Propose
//!        │
//!   shard::Shard        timestamp taken, index and term given (G2): an entry
//!        │
//!   lane::Effects       record ──► the driver writes the lane's group to the log,
//!        │              and fsyncs it, if the keyspace asks for that
//!   lane::Input::Written, Durable
//!        │              the entry is committed: the group of one agrees with itself
//!   state::ShardState::apply, under the write guard: the only judge (G3)
//!        │              visible to readers from here on
//!   lane::Answer::Applied ──► reply, to whom the waiter names ──► +OK
//! ```
//!
//! A `GET` is shorter: `route`, then [`read::read`] under the shard's read guard (G1). Only if a
//! check fails does it go to the lane, which says when to try again ([`lane::Answer::Go`]).
//!
//! # Inputs and effects
//!
//! | [`lane::Input`] | answered by |
//! |---|---|
//! | `Propose`: commands for one shard | `Applied`, or `NotDone` |
//! | `Await`: a read that was blocked, or reads the past | `Go`, or `NotDone` |
//! | `Fetch`: what a read wants of a shard that is away, or lags here | `Fetched`, `NotDone`, `Go` |
//! | `Count`: who has a shard's log on disk | `Counted`, or nothing |
//! | `Catalogue`: create, alter, drop a keyspace | `Catalogue`, or `NotDone` |
//! | `RaiseKeyspace`, `RaiseShard`: safe points (G14) | `safe_points` |
//! | `Create`, `Drop`, `Configure`: shards, as the catalogue has changed | – |
//! | `Written`, `Durable`: how far the log has come | – |
//! | `Tick`, `Message`: time, and other replicas | – |
//! | `Letter`, `LinkLost`: what other nodes ask and answer for clients | letters |
//! | `Away`: a shard that is on other nodes only | – |
//! | `Digested`: what a replica's state is ([`digest`]) | – |
//! | `Exchange`, `Transfer`: what becomes of a shard's replicas | – |
//! | `Install`, `Declined`, `SnapshotLost`: snapshots that have come, or have not | – |
//!
//! | [`lane::Effects`] | the driver |
//! |---|---|
//! | `records`, `ticket`, `sync` | appends them as one group; says `Written`, later `Durable` |
//! | `answers` | gives them to those who asked |
//! | `messages` | sends them to other nodes; beside the head of a snapshot, the state |
//! | `letters` | sends them to other nodes |
//! | `refused` | counts them |
//! | `digests` | steps them beside the lane; says `Digested` |
//! | `findings` | tells people what comparing replicas has shown |
//! | `ended` | forgets the replica; it takes no part any more (SAFETY G9) |
//! | `changes` | creates, configures or drops shards of a keyspace, and then answers who asked |
//! | `safe_points` | tells every shard of the keyspace |
//!
//! Beside the lane a driver calls, from any thread and without it: [`read`], [`whole`]
//! (keyspaces as a whole), [`checkpoint`] and, at start, [`recovery`].
//!
//! # How shards split, merge and move
//!
//! By entries of their logs: [`split`], [`merge`], [`members`]; [`birth`] says how they begin. A
//! replica that does not lead has who does do what it is asked ([`letter`], [`session`]); a node
//! without any replica of a shard does the same, and fetches what its clients read ([`fetch`]).
//! What is of several shards at once is a transaction's: [`locks`], [`coordinator`]; a client that
//! goes through one step by step has an [`interactive`] one.
//!
//! What a node decides about its shards as a whole is in [`control`], stepped like a lane: the
//! order of a round of checkpoints, and the snapshots that it sends and receives.
//!
//! # Invariants
//! 1. What a lane does follows from its inputs, in their order, and the clock it was given. No
//!    clock, thread, file, socket or random number is asked for here.
//! 2. Nothing is answered before it is applied; nothing is applied before it is as safe as its
//!    keyspace's durability says (G3, G9).
//! 3. Whatever apply computes depends on state, entry and constants ([`command::limits`]) only, so
//!    that replaying a log gives the same state. A change of it is a change of the format.
//! 4. Bytes from clients are refused before they reach an entry; bytes in the log are checked by
//!    the log. So what cannot be read at apply is a broken invariant and panics.
//!
//! # What it does not know
//! Protocols, connections, configuration; how a log is written or when it is synced; memory limits
//! (the driver refuses before it proposes). To it, a waiter is a number.
//!
//! # Where to start
//! [`command`], [`entry`], then [`lane`] and [`shard`]; [`state`] and [`read`] for the other side.

pub mod birth;
pub mod catalogue;
pub mod checkpoint;
pub mod control;
pub mod digest;
pub mod entry;
pub mod event;
pub mod fetch;
pub mod file;
pub mod lane;
pub mod letter;
pub mod lost;
pub mod members;
pub mod merge;
pub mod moved;
mod proxy;
pub mod read;
pub mod record;
pub mod recovery;
pub mod retime;
pub mod route;
pub mod serving;
pub mod session;
pub mod shard;
pub mod split;
pub mod state;
pub mod stream;
pub mod tiding;
pub mod whole;

/// What threads share goes by this name, so that the test of threads can put its own there.
mod sync {
    pub use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
}
