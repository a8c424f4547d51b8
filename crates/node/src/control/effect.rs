//! What control wants done.

use std::sync::Arc;

use keyspace::{KeyspaceId, Level, NodeId, ShardId, Standings};
use overlay::Known;

use super::{Reply, Routes};
use crate::event::Happened;
use crate::executor::{Answer, Input};
use crate::reshape::reroute::SentOn;
use crate::rpc::request::Letter;

/// What a step wants done, in order, before the next step.
#[derive(Debug)]
pub enum Effect {
    /// The shard's executor is told this.
    Submit(ShardId, Input),
    /// Commands that a shard has turned away go to the one that has their keys.
    Reroute(SentOn),
    /// Every executor: this right half has begun, or will not.
    Confirm(ShardId),
    /// Readers look keys up in these from now on.
    Routes(Arc<Routes>),
    /// The administrative states of nodes are these from now on.
    AdminStates(Arc<Standings>),
    /// The cluster has this version from now on: every executor is told.
    ClusterVersion {
        /// The version.
        level: Level,
        /// The one before, if it was known.
        before: Option<Level>,
    },
    /// To be given to who asked.
    Answer(Answer),
    /// What came of an administrator's request.
    Reply {
        /// Its number.
        id: u64,
        /// What came of it.
        reply: Reply,
    },
    /// To be sent to a node. It may be lost.
    Rpc(NodeId, Letter),
    /// To be sent to a node's lookup. It may be lost.
    Table(NodeId, overlay::Message),
    /// The table has learned these: other lookups of the node may want to know.
    Learned(Vec<Arc<Known>>),
    /// A keyspace is gone: other lookups of the node are to forget it.
    Forgotten(KeyspaceId),
    /// Something has happened.
    Event(Happened),
}
