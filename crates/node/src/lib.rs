//! One node as a pure state machine, between gateways and disk. The server and the simulator step
//! it.
//!
//! # How a `SET` runs
//!
//! ```text
//!   *3 SET k v          a gateway parses it: command::Write::Set
//!        │
//!   routing::Route      key ──► slot ──► shard 6, which an executor steps
//!        │
//!   replica::entry      the command in its final bytes, behind room for the entry's header
//!        │              (all writes for one shard in one round share a batch)
//!   executor::Input::Propose
//!        │
//!   replica::Replica    takes timestamp, index and term (G2): an entry
//!        │
//!   executor::Effects   record ──► the driver writes the executor's group to the log,
//!        │              and fsyncs it, if the keyspace asks for that
//!   executor::Input::Written, Durable
//!        │              the entry is committed: with one voter, it is its own majority
//!   replica::state::ShardState::apply, under the write guard: the only judge (G3)
//!        │              visible to readers from here on
//!   executor::Answer::Applied ──► reply to the waiter ──► +OK
//! ```
//!
//! A `GET` is shorter: `routing`, then [`replica::read::read`] under the shard's read guard (G1).
//! Only if a check fails does it go to the executor, which says when to try again
//! ([`executor::Answer::Retry`]).
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`executor`] | steps shards, one step round at a time |
//! | [`replica`] | one shard's replica: propose, apply, answer, read, report |
//! | [`routing`] | which shard owns a key; requests for remote shards |
//! | [`reshape`] | how shards begin, split, merge; what happens to commands in flight |
//! | [`rpc`] | requests between nodes, notices, streams of snapshots, and their bytes |
//! | [`tracking`] | which keys clients cache, and who must hear of changes |
//! | [`control`] | what the node decides about all its shards |
//! | [`pubsub`] | ephemeral messages: which node wants which, and their bytes |
//! | [`recovery`] | start, checkpoints, shards that lost their quorum |
//! | [`event`] | what happened, as text |
//!
//! # Inputs and effects
//!
//! | [`executor::Input`] | answered by |
//! |---|---|
//! | `Propose`: commands for one shard | `Applied`, or `NotDone` |
//! | `AwaitRead`: a read that was blocked, or reads the past | `Retry`, or `NotDone` |
//! | `Fetch`: a read of a remote shard, or of one that lags | `Fetched`, `NotDone`, `Retry` |
//! | `Count`: which replicas have a shard's log on disk | `ReplicaCount`, or nothing |
//! | `Catalogue`: create, alter, drop a keyspace | `Catalogue`, or `NotDone` |
//! | `RaiseKeyspace`, `RaiseShard`: safe points (G14) | `safe_points` |
//! | `Create`, `Drop`, `Configure`: shards, after a change of the catalogue | – |
//! | `Written`, `Durable`: up to where the log is written, or fsynced | – |
//! | `Tick`, `Message`: time, and other replicas | – |
//! | `Rpc`, `LinkLost`: requests and answers of other nodes, for clients | RPCs |
//! | `RemoteShard`: a shard without a replica here | – |
//! | `DigestDone`: the digest of a replica's state ([`replica::digest`]) | – |
//! | `ChangeReplicas`, `Transfer`: new replicas, a new leader | – |
//! | `InstallSnapshot`, `SnapshotDeclined`, `SnapshotLost`: results of snapshots | – |
//!
//! | [`executor::Effects`] | the driver |
//! |---|---|
//! | `records`, `ticket`, `sync` | appends them as one group; reports `Written`, later `Durable` |
//! | `answers` | gives them to the waiters |
//! | `messages` | sends them to other nodes; beside the head of a snapshot, the state |
//! | `rpcs` | sends them to other nodes |
//! | `refused` | counts them |
//! | `digests` | steps them beside the executor; reports `DigestDone` |
//! | `findings` | reports what comparing replicas has shown |
//! | `ended` | forgets the replica; it takes no part any more (SAFETY G9) |
//! | `changes` | creates, configures or drops shards of a keyspace, and then answers the waiter |
//! | `safe_points` | passes them to every shard of the keyspace |
//!
//! Beside the executor a driver calls, from any thread and without it: [`replica::read`],
//! [`replica::scan`] (keyspace scans), [`recovery::checkpoint`] and, at start, [`recovery`].
//!
//! # How shards split, merge and move
//!
//! By entries of their logs: [`reshape::split`], [`reshape::merge`], [`replica::members`];
//! [`reshape::bootstrap`] tells how they begin. A follower forwards requests to the leader
//! ([`rpc::message`], [`routing::session`]). A node without a replica of a shard does the same, and
//! fetches what its clients read ([`routing::fetch`]). A request for several shards at once is a
//! transaction ([`txn`]).
//!
//! [`control`] decides about all shards of a node, and is stepped like an executor. It also orders
//! the steps of a round of checkpoints, and the snapshots that the node sends and receives.
//!
//! # Invariants
//! 1. An executor's actions follow from its inputs, in their order, and the clock it is given. This
//!    crate uses no clock, thread, file, socket or random number of its own.
//! 2. No answer leaves before its entry is applied. No entry is applied before it is as safe as the
//!    keyspace's durability says (G3, G9).
//! 3. Apply computes from state, entry and constants ([`command::limits`]) only, so that replaying
//!    a log gives the same state. Changing it changes the format.
//! 4. Gateways refuse bad bytes before they reach an entry, and the log checks its own bytes. So an
//!    unreadable entry at apply is a broken invariant, and panics.
//!
//! # What it does not know
//! Protocols, connections, configuration; how and when the log is written and fsynced; memory
//! limits (the driver refuses before it proposes). A waiter is only a number here.
//!
//! # Where to start
//! [`command`], [`replica::entry`], then [`executor`] and [`replica`]; [`replica::state`] and
//! [`replica::read`] for the other side.

pub mod control;
pub mod event;
pub mod executor;
pub mod feed;
pub mod pubsub;
pub mod recovery;
pub mod replica;
pub mod reshape;
pub mod routing;
pub mod rpc;
pub mod tracking;

/// What threads share goes by this name, so that the test of threads can put its own there.
mod sync {
    pub use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
}
