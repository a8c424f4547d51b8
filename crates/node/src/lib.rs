//! What happens to a request between the edge and the disk? One node as a pure state machine,
//! stepped by the server and by the simulator.
//!
//! # The life of one `SET`
//!
//! ```text
//!   *3 SET k v          a gateway parses it: command::Write::Set
//!        │
//!   routing::Route      key ──► slot ──► shard 6, which an executor steps
//!        │
//!   replica::entry      the command in its final bytes, behind room for the entry's header
//!        │              (all writes for one shard in one turn share a batch)
//!   executor::Input::Propose
//!        │
//!   replica::Shard      timestamp taken, index and term given (G2): an entry
//!        │
//!   executor::Effects   record ──► the driver writes the executor's group to the log,
//!        │              and fsyncs it, if the keyspace asks for that
//!   executor::Input::Written, Durable
//!        │              the entry is committed: the group of one agrees with itself
//!   replica::state::ShardState::apply, under the write guard: the only judge (G3)
//!        │              visible to readers from here on
//!   executor::Answer::Applied ──► reply, to whom the waiter names ──► +OK
//! ```
//!
//! A `GET` is shorter: `routing`, then [`replica::read::read`] under the shard's read guard (G1).
//! Only if a check fails does it go to the executor, which says when to try again
//! ([`executor::Answer::Retry`]).
//!
//! # Rooms
//!
//! | module | what a reader finds there |
//! |---|---|
//! | [`executor`] | steps shards, one step round at a time |
//! | [`replica`] | one shard's replica: propose, apply, answer, read, report |
//! | [`routing`] | which shard a key is in; requests for shards that others lead |
//! | [`reshape`] | how shards begin, split, merge; what becomes of commands on their way |
//! | [`rpc`] | requests between nodes, statuses, streams of snapshots, and their bytes |
//! | [`control`] | decides what the node does with its shards as a whole |
//! | [`recovery`] | start, checkpoints, shards that lost their quorum |
//! | [`event`] | what happened, in words |
//!
//! # Inputs and effects
//!
//! | [`executor::Input`] | answered by |
//! |---|---|
//! | `Propose`: commands for one shard | `Applied`, or `NotDone` |
//! | `AwaitRead`: a read that was blocked, or reads the past | `Retry`, or `NotDone` |
//! | `Fetch`: what a read wants of a remote shard, or lags here | `Fetched`, `NotDone`, `Retry` |
//! | `Count`: who has a shard's log on disk | `ReplicaCount`, or nothing |
//! | `Catalogue`: create, alter, drop a keyspace | `Catalogue`, or `NotDone` |
//! | `RaiseKeyspace`, `RaiseShard`: safe points (G14) | `safe_points` |
//! | `Create`, `Drop`, `Configure`: shards, as the catalogue has changed | – |
//! | `Written`, `Durable`: how far the log has come | – |
//! | `Tick`, `Message`: time, and other replicas | – |
//! | `Rpc`, `LinkLost`: what other nodes ask and answer for clients | RPCs |
//! | `RemoteShard`: a shard that is on other nodes only | – |
//! | `DigestDone`: what a replica's state is ([`replica::digest`]) | – |
//! | `ChangeReplicas`, `Transfer`: what becomes of a shard's replicas | – |
//! | `InstallSnapshot`, `SnapshotDeclined`, `SnapshotLost`: snapshots that have come, or have not | – |
//!
//! | [`executor::Effects`] | the driver |
//! |---|---|
//! | `records`, `ticket`, `sync` | appends them as one group; says `Written`, later `Durable` |
//! | `answers` | gives them to those who asked |
//! | `messages` | sends them to other nodes; beside the head of a snapshot, the state |
//! | `rpcs` | sends them to other nodes |
//! | `refused` | counts them |
//! | `digests` | steps them beside the executor; says `DigestDone` |
//! | `findings` | tells people what comparing replicas has shown |
//! | `ended` | forgets the replica; it takes no part any more (SAFETY G9) |
//! | `changes` | creates, configures or drops shards of a keyspace, and then answers who asked |
//! | `safe_points` | tells every shard of the keyspace |
//!
//! Beside the executor a driver calls, from any thread and without it: [`replica::read`],
//! [`replica::scan`] (keyspace scans), [`recovery::checkpoint`] and, at start, [`recovery`].
//!
//! # How shards split, merge and move
//!
//! By entries of their logs: [`reshape::split`], [`reshape::merge`], [`replica::members`];
//! [`reshape::bootstrap`] says how they begin. A replica that does not lead forwards requests to
//! the leader ([`rpc::message`], [`routing::session`]); a node without any replica of a shard does
//! the same, and fetches what its clients read ([`routing::fetch`]). What is of several shards at
//! once is a transaction's ([`txn`]).
//!
//! What a node decides about its shards as a whole is in [`control`], stepped like an executor: the
//! order of a round of checkpoints, and the snapshots that it sends and receives.
//!
//! # Invariants
//! 1. What an executor does follows from its inputs, in their order, and the clock it was given. No
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
//! [`command`], [`replica::entry`], then [`executor`] and [`replica`]; [`replica::state`] and
//! [`replica::read`] for the other side.

pub mod control;
pub mod event;
pub mod executor;
pub mod recovery;
pub mod replica;
pub mod reshape;
pub mod routing;
pub mod rpc;

/// What threads share goes by this name, so that the test of threads can put its own there.
mod sync {
    pub use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
}
