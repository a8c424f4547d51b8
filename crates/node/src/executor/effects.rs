//! The effects of an executor's step round.

#[cfg(doc)]
use super::Input;
use keyspace::{KeyspaceId, NodeId, ReplicaId, ShardId};
use overlay::KnownShard;
use replication::{Message, RejectedMessage};
use storage::log::Group as Records;
use txn::AbandonedTxn;

use super::{Answer, Caller, HandoverRequest, MergeHandover, PendingRequestsHandover};
use crate::event::EventKind;
use crate::replica::catalogue::Change;
use crate::replica::digest::Digesting;
use crate::replica::state::Outcome;
use crate::replica::{ReplicaComparison, ReplicaEndReason, ReplicaStart, SafePoint};
use crate::reshape::merge::MergeMessage;
use crate::reshape::reroute::ReroutedCommand;
use crate::rpc::message::RpcMessage;
use crate::tracking::message::TrackingMessage;

/// A message of one replica to another, on its way between nodes.
#[derive(Debug)]
pub struct Envelope {
    /// Of this shard.
    pub shard: ShardId,
    /// The other replica's node.
    pub node: NodeId,
    /// The shard's bootstrap record, if the other replica may not be there yet.
    pub bootstrap: Option<Vec<u8>>,
    /// The message. If it heads a snapshot, the sender's driver sends the state beside it
    /// ([`crate::recovery::checkpoint`]), with the head as of that state's moment.
    pub message: Message,
}

/// What a turn wants done.
#[derive(Debug, Default)]
pub struct Effects {
    /// To be appended to the node's log, as one group, before anything else; then
    /// [`Input::Written`].
    pub records: Records,
    /// Its ticket, if it is not empty.
    pub ticket: u64,
    /// Whether someone waits for it to be fsynced: then [`Input::Durable`] must follow.
    pub sync: bool,
    /// Answers for the callers.
    pub answers: Vec<Answer>,
    /// To be sent to other nodes, in this order, after the executor's turn. Some may be lost.
    pub messages: Vec<Envelope>,
    /// To be sent to these nodes, in this order, after the executor's turn. Some may be lost.
    pub rpcs: Vec<(NodeId, RpcMessage)>,
    /// Shards that are known otherwise than before: what the lookup of the node is to learn.
    pub known: Vec<KnownShard>,
    /// Messages that made no sense, and why. After [`RejectedMessage::LostLog`] the replica is
    /// among `ended`.
    pub refused: Vec<(ShardId, RejectedMessage)>,
    /// The catalogue has changed, in this order.
    pub changes: Vec<Change>,
    /// Keyspaces whose safe point has risen: every shard of them gets [`Input::RaiseShard`].
    pub safe_points: Vec<(KeyspaceId, SafePoint)>,
    /// To be stepped beside the executor; then [`Input::DigestDone`].
    ///
    /// [`Input::DigestDone`]: super::Input::DigestDone
    pub digests: Vec<Digesting>,
    /// What leaders have found when they compared replicas.
    pub findings: Vec<ReplicaComparison>,
    /// Events, for operators.
    pub events: Vec<EventKind>,
    /// Replicas that take no part any more: not to be shown to readers, nor begun again.
    pub ended: Vec<(ShardId, ReplicaId, ReplicaEndReason)>,
    /// Right halves of shards that were split: to be begun by [`Input::Create`], unless a
    /// replica of the shard is there already, or has been, and to be shown to readers.
    pub halves: Vec<ReplicaStart>,
    /// Transactions over several shards that seem abandoned to leaders here.
    pub abandoned: Vec<AbandonedTxn>,
    /// Commands to be rerouted ([`crate::reshape::reroute`]).
    pub moved: Vec<ReroutedCommand>,
    /// Merge messages for the leaders of these shards, here or on other nodes, sent as
    /// [`RpcMessage::Merge`]. Some may be lost.
    pub words: Vec<(ShardId, MergeMessage)>,
    /// Replicas that wait for others here: [`Input::RequestHandover`] for the right one's executor.
    pub handover_requests: Vec<HandoverRequest>,
    /// [`Input::Absorb`] for the left one's executor. The right one's replica has ended, and is not
    /// to be shown to readers.
    pub given: Vec<MergeHandover>,
    /// [`Input::Propose`], [`Input::AwaitRead`] and [`Input::TakeOverRequests`] for the left one's
    /// executor.
    pub pending_requests: Vec<PendingRequestsHandover>,
    /// What leaders, here or on other nodes, say to this node's caching clients
    /// ([`crate::tracking`]), in order. What [`Answer::Fetched`] of this round registers comes
    /// first.
    pub tracking: Vec<(ShardId, TrackingMessage)>,
}

impl Effects {
    /// Empties it, keeping its buffers.
    pub fn clear(&mut self) {
        self.records.clear();
        self.sync = false;
        self.answers.clear();
        self.messages.clear();
        self.rpcs.clear();
        self.known.clear();
        self.refused.clear();
        self.changes.clear();
        self.safe_points.clear();
        self.digests.clear();
        self.findings.clear();
        self.events.clear();
        self.ended.clear();
        self.halves.clear();
        self.moved.clear();
        self.abandoned.clear();
        self.words.clear();
        self.handover_requests.clear();
        self.given.clear();
        self.pending_requests.clear();
        self.tracking.clear();
    }

    /// Whether the turn had nothing to say.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.answers.is_empty()
            && self.messages.is_empty()
            && self.rpcs.is_empty()
            && self.known.is_empty()
            && self.refused.is_empty()
            && self.changes.is_empty()
            && self.safe_points.is_empty()
            && self.digests.is_empty()
            && self.findings.is_empty()
            && self.events.is_empty()
            && self.ended.is_empty()
            && self.halves.is_empty()
            && self.moved.is_empty()
            && self.abandoned.is_empty()
            && self.words.is_empty()
            && self.handover_requests.is_empty()
            && self.given.is_empty()
            && self.pending_requests.is_empty()
            && self.tracking.is_empty()
    }
}

/// Puts a record into a group; sizes were limited when the batch was built.
pub(crate) fn push(records: &mut Records, shard: ShardId, kind: u8, parts: &[&[u8]]) {
    records.push(shard, kind, parts).expect("batches stay far below the largest group");
}

/// Turns what an applied entry led to into news.
pub(crate) fn report(outcome: Outcome, asker: Option<Caller>, effects: &mut Effects) {
    match outcome {
        Outcome::Quiet
        | Outcome::Settled
        | Outcome::Members(_)
        | Outcome::SessionBatch(_)
        | Outcome::Steps(_)
        | Outcome::Split(_)
        | Outcome::Merge
        | Outcome::Check => {}
        Outcome::SafePoint(keyspace, to) => effects.safe_points.push((keyspace, to)),
        Outcome::Catalogue(result) => {
            let result = result.map(|change| {
                let subject = Box::new(change.subject());
                effects.changes.push(change);
                subject
            });
            if let Some(Caller { origin, waiter }) = asker {
                effects.answers.push(Answer::Catalogue { origin, waiter, result });
            }
        }
    }
}
