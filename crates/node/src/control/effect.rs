//! What the driver is to do for control.

use std::sync::Arc;

use keyspace::{AdminStates, ClusterVersion, KeyspaceId, Libraries, NodeId, ShardId};
use overlay::KnownShard;

use super::{Reply, Routes};
use crate::event::EventKind;
use crate::executor::{Answer, Input};
use crate::reshape::reroute::ReroutedBatch;
use crate::rpc::message::RpcMessage;

/// What a step wants done, in order, before the next step.
#[derive(Debug)]
pub enum Effect {
    /// Pass this input to the shard's executor.
    Submit(ShardId, Input),
    /// Send rerouted commands to the shard that owns their keys.
    Reroute(ReroutedBatch),
    /// Every executor: this right half has begun, or will not.
    Confirm(ShardId),
    /// Readers look keys up in these from now on.
    Routes(Arc<Routes>),
    /// The administrative states of nodes are these from now on.
    AdminStates(Arc<AdminStates>),
    /// These are the libraries of functions from now on, and so often scripts were forgotten.
    Libraries(Libraries),
    /// The cluster has this version from now on: tell every executor.
    ClusterVersion {
        /// The version.
        version: ClusterVersion,
        /// The one before, if it was known.
        before: Option<ClusterVersion>,
    },
    /// Give this answer to its caller.
    Answer(Answer),
    /// The result of an administrator's request.
    Reply {
        /// Its number.
        id: u64,
        /// Its result.
        reply: Reply,
    },
    /// To be sent to a node. It may be lost.
    Rpc(NodeId, RpcMessage),
    /// To be sent to a node's lookup. It may be lost.
    LookupMessage(NodeId, overlay::Message),
    /// The table has learned these: other lookups of the node may want to know.
    DescriptorsLearned(Vec<Arc<KnownShard>>),
    /// A keyspace was dropped: other lookups of the node must forget it.
    KeyspaceDropped(KeyspaceId),
    /// Something has happened.
    Event(EventKind),
}
