//! Messages for replicas that are not here yet.
//!
//! The right half of a shard that was cut in two asks for votes as soon as it has begun where the
//! left half leads; here it begins when the left half's replica has applied the entry, which may be
//! a moment later. What it was asked meanwhile is kept for it: else it would have a leader only
//! when the election is tried again. To whom that goes it is as if it had been long on its way.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | messages kept in an executor | [`MESSAGES_MAX`] | the oldest goes |
//!
//! Only requests for votes are kept: they are small, and hold good for any replica of their term.

use std::collections::VecDeque;

use keyspace::{NodeId, ShardId};
use replication::{Message, MessageKind};

/// Messages kept in an executor.
const MESSAGES_MAX: usize = 64;

/// See the front page.
#[derive(Debug, Default)]
pub(super) struct EarlyMessages(VecDeque<(NodeId, ShardId, Message)>);

impl EarlyMessages {
    /// Keeps a message, if it is one of those.
    pub fn keep(&mut self, from: NodeId, shard: ShardId, message: Message) {
        if !matches!(message.kind(), Some(MessageKind::PreVote | MessageKind::Vote)) {
            return;
        }
        if self.0.len() == MESSAGES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((from, shard, message));
    }

    /// What has come for a shard, in order.
    pub fn take(&mut self, shard: ShardId) -> Vec<(NodeId, Message)> {
        let (of_it, others) =
            std::mem::take(&mut self.0).into_iter().partition(|(_, id, _)| *id == shard);
        self.0 = others;
        let of_it: VecDeque<(NodeId, ShardId, Message)> = of_it;
        of_it.into_iter().map(|(from, _, message)| (from, message)).collect()
    }
}
