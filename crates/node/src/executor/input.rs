//! The inputs of an executor.

#[cfg(doc)]
use super::{Answer, Effects};
#[cfg(doc)]
use crate::replica::Replica;
use std::sync::Arc;

use bytes::Bytes;
use keyspace::{ClusterVersion, Durability, Generation, NodeId, ReplicaId, ShardId, Timestamp};
use overlay::KnownShard;
use replication::Message;
use storage::log::Lsn;

use super::Origin;
use crate::replica::entry::{Batch, Waiter};
use crate::replica::state::ShardState;
use crate::replica::{InheritedSession, ReplicaStart, SafePoint, SafePointRequest};
use crate::reshape::merge;
use crate::reshape::split::Split;
use crate::routing::fetch::FetchRequest;
use crate::rpc::message::RpcMessage;

/// An input of an executor.
#[derive(Debug)]
pub enum Input {
    /// Commands for one shard. Answered by [`Answer::Applied`] or [`Answer::NotDone`].
    Propose {
        /// The shard.
        shard: ShardId,
        /// The caller.
        origin: Origin,
        /// What is to be done.
        batch: Batch,
    },
    /// A reader could not be served outside the executor (G1), or wants to read at a timestamp:
    /// tell it when it may. Answered by [`Answer::Retry`] or [`Answer::NotDone`]; by
    /// [`command::NotDone::ReplicaLagging`] if it is to be fetched.
    AwaitRead {
        /// The shard.
        shard: ShardId,
        /// The time of the read.
        at: Timestamp,
        /// If it has met a lock: how many had gone by then ([`txn::locks::Locks::released`]). It
        /// may be tried again when another has.
        lock: Option<u64>,
        /// The caller.
        origin: Origin,
        /// Its waiter.
        waiter: Waiter,
    },
    /// A step of a transaction over several shards, of this shard's part. Answered by
    /// [`Answer::StepDone`] or [`Answer::NotDone`], and it may be asked for again.
    Step {
        /// The shard.
        shard: ShardId,
        /// A [`txn::locks::Step`], encoded.
        step: Bytes,
        /// The caller.
        origin: Origin,
        /// Its waiter.
        waiter: Waiter,
    },
    /// A reader wants something of a shard that is on other nodes only, or whose replica here lags.
    /// Answered by [`Answer::Fetched`] or [`Answer::NotDone`]; by [`Answer::Retry`] if it can be
    /// read here meanwhile.
    Fetch {
        /// The shard.
        shard: ShardId,
        /// What.
        want: Box<FetchRequest>,
        /// About so many bytes of scanned keys and pairs are enough.
        bytes_max: usize,
        /// The caller.
        origin: Origin,
        /// Its waiter.
        waiter: Waiter,
    },
    /// How many replicas have a shard's log on disk up to an index, or (0) up to the last
    /// acknowledged entry? The answer is [`Answer::ReplicaCount`], at once or when a remote leader
    /// has replied. There is none if that cannot be known now, or an RPC is lost: ask again.
    Count {
        /// The shard.
        shard: ShardId,
        /// The index, as an earlier answer has named it; or 0.
        index: u64,
        /// The caller.
        origin: Origin,
        /// Its waiter.
        waiter: Waiter,
    },
    /// A change of the catalogue; system shard's executor only. Answered by [`Answer::Catalogue`].
    Catalogue {
        /// A `keyspace::CatalogueOp`, encoded.
        op: Vec<u8>,
        /// The caller.
        origin: Origin,
        /// Its waiter.
        waiter: Waiter,
    },
    /// This node could collect old versions of a keyspace: ask the leader of the system shard to
    /// raise its safe point. System shard's executor only (G14). It may be lost: if nothing rises,
    /// the node asks again, and then learns the current safe point ([`Effects::safe_points`]).
    RaiseKeyspace(SafePointRequest),
    /// The shard's keyspace has raised its safe point: follow it.
    RaiseShard {
        /// The shard.
        shard: ShardId,
        /// To at least this.
        to: SafePoint,
    },
    /// Begin a new shard with this first state. It is in the log before it serves; so is what the
    /// right half of a shard begins with ([`crate::reshape::split`]).
    Create(ReplicaStart),
    /// Another shard has absorbed this one, as local state shows: none of its replicas may begin.
    Absorbed {
        /// The absorbed shard.
        shard: ShardId,
        /// The shard that has its keys.
        left: ShardId,
    },
    /// There is a shard of which this node has no replica, or none yet.
    RemoteShard {
        /// Which.
        shard: ShardId,
        /// Where it began: who knows more says so later.
        nodes: Vec<NodeId>,
    },
    /// The node's lookup has learnt of a shard. A replica here that it does not name any more,
    /// since its group has gone on without it, ends.
    DescriptorLearned {
        /// The shard, as it is known now.
        known: Arc<KnownShard>,
    },
    /// There is no replica of the system shard here, and a cached catalogue as of this index
    /// can be used from now on.
    CatalogueCached {
        /// The index.
        index: u64,
    },
    /// End a shard. Its waiters learn that nothing was done, or that the outcome is unknown.
    Drop {
        /// The shard.
        shard: ShardId,
    },
    /// The cluster version is at least this: what it allows may be proposed.
    ClusterVersion {
        /// The cluster version.
        version: ClusterVersion,
    },
    /// The shard's keyspace is so from now on.
    Configure {
        /// The shard.
        shard: ShardId,
        /// When its writes are answered.
        durability: Durability,
        /// Whether writes of what a key has make no version.
        skips_equal: bool,
    },
    /// Time passes: shards with several replicas look for their leader. Ticks that were missed are
    /// not made up (SAFETY G5).
    Tick,
    /// Check requests that wait for a lock, or for a time.
    CheckWaiters,
    /// A Raft message from another replica of the shard.
    Message {
        /// That one's node.
        from: NodeId,
        /// The shard.
        shard: ShardId,
        /// What it says.
        message: Box<Message>,
    },
    /// The shard should have replicas on these nodes, and lose those. Only its leader acts, in one
    /// change: no replica goes before the new ones vote. Nothing happens if the shard has changed
    /// meanwhile, or is changing. But the leader may remove learners that will never vote, even
    /// with no new replica.
    ChangeReplicas {
        /// The shard.
        shard: ShardId,
        /// The generation that the caller knows.
        generation: Generation,
        /// Nodes without a replica of it.
        add: Vec<NodeId>,
        /// Replicas of it: never all, unless there are new ones.
        remove: Vec<ReplicaId>,
    },
    /// The shard should split. Only its leader acts, and only if the shard is as the caller knows
    /// it. Nothing happens if it has changed meanwhile, or is changing.
    Split {
        /// The shard.
        shard: ShardId,
        /// How.
        split: Split,
    },
    /// The shard should absorb its right neighbour. Only its leader acts, and only if the shard is
    /// as the caller knows it. Nothing happens if it has changed meanwhile, or is changing.
    Merge {
        /// The shard.
        shard: ShardId,
        /// The step [`merge::MergeStep::Intend`].
        step: merge::MergeStep,
    },
    /// A replica of the left neighbour here waits for what this shard's replica holds
    /// ([`Effects::handover_requests`]).
    RequestHandover {
        /// The left neighbour.
        left: ShardId,
        /// The entry of it that waits.
        at: u64,
        /// Whose, and as of which entry.
        absorb: merge::Absorb,
    },
    /// What the right neighbour's replica here held ([`Effects::given`]).
    Absorb {
        /// The left neighbour.
        left: ShardId,
        /// None: there is nothing.
        state: Option<Box<ShardState>>,
    },
    /// The sessions of a shard that this one has absorbed ([`Effects::pending_requests`]).
    TakeOverRequests {
        /// The shard.
        shard: ShardId,
        /// The session.
        inherited: InheritedSession,
    },
    /// The lookup knows that another shard has absorbed this one: its local replica ends, and no
    /// other node is asked for it.
    Superseded {
        /// The shard.
        shard: ShardId,
        /// The shard that owns its first place now.
        by: ShardId,
        /// That one's generation, as far as the lookup knows it.
        generation: Generation,
    },
    /// Hand the leadership of a shard over to another of its replicas.
    Transfer {
        /// The shard.
        shard: ShardId,
        /// The transfer target.
        to: ReplicaId,
    },
    /// The state of a snapshot is on disk: it takes the place of the replica's, if
    /// [`Replica::wants`] its head.
    InstallSnapshot {
        /// The head, of the same moment as the state.
        head: Box<Message>,
        /// The state.
        state: Box<ShardState>,
    },
    /// A snapshot has come that the replica does not want. Its sender may not know how far the
    /// replica is, because an earlier answer was lost; the replica tells it.
    SnapshotDeclined {
        /// The shard.
        shard: ShardId,
        /// The snapshot's head.
        head: Box<Message>,
    },
    /// A request or answer of another node.
    Rpc {
        /// The sender.
        from: NodeId,
        /// The message.
        rpc: RpcMessage,
    },
    /// A digest is done that a round has asked for.
    DigestDone {
        /// The shard.
        shard: ShardId,
        /// The replica.
        replica: ReplicaId,
        /// As of this entry.
        index: u64,
        /// None: it was dropped.
        digest: Option<u128>,
    },
    /// The link to a node is lost: RPCs on it may not have arrived, and the node may be down.
    LinkLost {
        /// The node.
        node: NodeId,
    },
    /// A link to a node is up. Earlier requests to it may not have arrived, and are sent again.
    Linked {
        /// The node.
        node: NodeId,
    },
    /// The state of a snapshot has not reached this replica.
    SnapshotLost {
        /// The shard.
        shard: ShardId,
        /// The replica that waits for it.
        to: ReplicaId,
    },
    /// The group of this ticket is written at `lsn`, and kill -9 loses it no more.
    Written {
        /// The ticket of [`Effects`].
        ticket: u64,
        /// Where the group begins.
        lsn: Lsn,
    },
    /// All groups up to this ticket are fsynced.
    Durable {
        /// The newest ticket that is.
        ticket: u64,
    },
}
