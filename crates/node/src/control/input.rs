//! The inputs of control.

use std::sync::Arc;

use keyspace::{Catalogue, KeyspaceId, NodeId, ShardId};
use overlay::KnownShard;
use replication::Message;

use super::{Gossip, Loads, MemberVersions, Request};
use crate::executor::{Answer, HandoverRequest, MergeHandover, PendingRequestsHandover};
use crate::replica::catalogue::Change;
use crate::replica::{ReplicaStart, SafePoint};
use crate::reshape::merge::MergeMessage;
use crate::reshape::reroute::ReroutedCommand;

/// An input of control; the driver passes them in order of arrival.
#[derive(Debug)]
pub enum Input {
    /// The catalogue has changed: the replica of it here has applied that.
    Catalogue(Change),
    /// The catalogue is this one at a start. (A snapshot's comes as a [`Change`], in order with
    /// those that the replica had applied before.)
    CatalogueReplaced(Arc<Catalogue>),
    /// A keyspace's safe point has risen.
    SafePoint(KeyspaceId, SafePoint),
    /// An answer to be given when all inputs before it have had their effect; or the answer to a
    /// question of control.
    Answer(Answer),
    /// Executors have found out where these shards are.
    DescriptorsLearned(Vec<KnownShard>),
    /// A message of another node's lookup.
    LookupMessage {
        /// That node.
        from: NodeId,
        /// What.
        message: overlay::Message,
    },
    /// A shard was split: its right half is to begin here.
    RightHalf(Box<ReplicaStart>),
    /// A shard has turned a command away.
    Rerouted(ReroutedCommand),
    /// A message about a merge, for the leader of a shard.
    MergeMessage(ShardId, MergeMessage),
    /// A replica waits for what its neighbour's here holds …
    HandoverRequest(HandoverRequest),
    /// … which this is.
    MergeHandover(MergeHandover),
    /// Pending requests of an absorbed shard.
    PendingRequests(Box<PendingRequestsHandover>),
    /// A replica has ended here.
    ReplicaEnded(ShardId),
    /// A message for a replica that may not be here yet.
    FirstMessage(Box<FirstMessage>),
    /// The other nodes, as they are known now.
    Members(Members),
    /// An administrator asks for something. [`Effect::Reply`](super::Effect::Reply) has its number.
    Request {
        /// The number.
        id: u64,
        /// What.
        request: Request,
    },
    /// Shards that are led here should get the replicas that their keyspaces ask for.
    AddReplicas(Box<Gossip>),
    /// It is time to decide where replicas and leaders should be.
    PlanPlacement(Box<Gossip>),
    /// It is time to hand shards over to those whose turn it is, where nothing is balanced.
    SpreadLeaders(Box<Gossip>),
    /// It is time to see whether the cluster's version rises; all members, and this node.
    RaiseVersion(Vec<MemberVersions>),
    /// A tick of the node's executors has passed.
    Tick,
    /// It is time to see to linear-hash tables.
    MaintainTables,
    /// About a second has passed, in which shards here were asked so often.
    MaintainShards(Loads),
}

/// A message that brings its shard's bootstrap record.
#[derive(Debug)]
pub struct FirstMessage {
    /// The node that sent it.
    pub from: NodeId,
    /// Of which shard.
    pub shard: ShardId,
    /// The shard's bootstrap record.
    pub bootstrap: Vec<u8>,
    /// The message. The executor gets it in any case, after the replica has begun.
    pub message: Message,
}

/// The other nodes of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All of them.
    pub all: Vec<NodeId>,
    /// Those that are up.
    pub up: Vec<NodeId>,
}
