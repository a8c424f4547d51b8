//! A replay that reaches the entry by which a shard absorbs its right neighbour
//! ([`crate::reshape::merge`]).
//!
//! That entry was committed, and so was the one that froze the neighbour. So the neighbour's
//! entries count up to there, even if its own records do not show a commit index. Later records of
//! the neighbour mean nothing.

use keyspace::ShardId;

use super::{RecoveringReplica, Replay};
use crate::replica::state::ShardState;
use crate::reshape::merge::{Absorb, MergeStatus};

impl Replay {
    /// Lets a shard take in those that it waits for, if they are here. If not, it stays as it is:
    /// the node will find that out, too ([`crate::executor`]).
    pub(super) fn take_in(&mut self, left: ShardId) {
        while let Some(shard) = self.shards.get_mut(&left)
            && let Some(absorb) = shard.waits_for.take()
        {
            let Some(right) = self.shards.get_mut(&absorb.right) else { return };
            if !right.request_handover(left, &absorb) {
                return;
            }
            let right = self.end(absorb.right).expect("the lookup above found it");
            self.dropped.insert(absorb.right);
            self.absorbed.insert(absorb.right, left);
            let shard = self.shards.get_mut(&left).expect("the lookup above found it");
            shard.absorb(right);
        }
    }
}

impl RecoveringReplica {
    /// Applies what froze it; whether it is frozen then for this one.
    fn request_handover(&mut self, left: ShardId, absorb: &Absorb) -> bool {
        let has_it = |shard: &Self| {
            let place = (absorb.index, absorb.term);
            shard.pending.iter().any(|entry| (entry.index(), entry.term()) == place)
        };
        if self.state.applied_index < absorb.index && has_it(self) {
            while let Some(entry) = self.pending.pop_front_if(|e| e.index() <= absorb.index) {
                self.apply(&entry);
            }
        }
        matches!(self.state.merging, MergeStatus::Frozen { by, index, .. }
            if (by, index) == (left, absorb.index))
    }

    /// Applies the entry that it waits with, and what was kept waiting.
    fn absorb(&mut self, right: ShardState) {
        let entry = self.pending.pop_front().expect("it waits with an entry");
        self.state.absorb(&entry, right);
        self.apply_committed();
    }
}
