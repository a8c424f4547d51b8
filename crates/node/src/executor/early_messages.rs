//! Messages for replicas that have not begun here yet.
//!
//! After a split, the right half asks for votes as soon as it begins on the left half's leader.
//! Here it begins when the left half's replica has applied the entry, maybe a moment later. The
//! executor holds such requests for it; else the shard would have no leader until the next
//! election. To the replica the message looks delayed.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | messages held in an executor | [`MESSAGES_MAX`] | the oldest is dropped |
//!
//! It holds only requests for votes: they are small, and valid for any replica of their term.

use std::collections::VecDeque;

use keyspace::{NodeId, ShardId};
use replication::{Message, MessageKind};

/// Messages kept in an executor.
const MESSAGES_MAX: usize = 64;

/// See the module's documentation.
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

    /// The messages for a shard, in order.
    pub fn take(&mut self, shard: ShardId) -> Vec<(NodeId, Message)> {
        let (of_it, others) =
            std::mem::take(&mut self.0).into_iter().partition(|(_, id, _)| *id == shard);
        self.0 = others;
        let of_it: VecDeque<(NodeId, ShardId, Message)> = of_it;
        of_it.into_iter().map(|(from, _, message)| (from, message)).collect()
    }
}
