//! What the sending side asks executors, and where its blocks come from.

use replication::{BootNanos, Message};
use storage::engine::PieceLimits;
use storage::log::Lsn;

use super::Destination;
use crate::executor::ShardExecutor;
use crate::recovery::checkpoint::Checkpoint;
use crate::replica::Replica;

/// What the sender has to know of a destination's shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestinationFacts {
    /// The term in which this node leads it, if it does.
    pub leads_term: Option<u64>,
    /// Whether the destination is a member of it.
    pub is_member: bool,
    /// Whether nothing is committed in it until its state is there.
    pub is_urgent: bool,
}

/// Looks at an executor for
/// [`SnapshotSender::learn`](super::sender::SnapshotSender::learn).
pub fn facts(executor: &ShardExecutor, to: Destination, now: BootNanos) -> DestinationFacts {
    let Some(shard) = executor.shard(to.shard) else {
        return DestinationFacts { leads_term: None, is_member: false, is_urgent: false };
    };
    DestinationFacts {
        leads_term: shard.is_elected().then(|| shard.term_and_commit().0),
        is_member: shard.has_member(to.replica),
        is_urgent: shard.is_blocked_by(to.replica, now),
    }
}

/// What a stream begins with.
pub struct SnapshotSource {
    /// Makes its blocks.
    pub checkpoint: Checkpoint,
    /// The message that heads it.
    pub head: Message,
    /// Bytes of all its blocks, about.
    pub about_bytes: u64,
}

/// Begins the checkpoint that is to be sent, between two turns of the executor.
pub fn source(
    shard: &Replica,
    head: Message,
    written_end: Lsn,
    block: PieceLimits,
) -> SnapshotSource {
    let checkpoint = Checkpoint::begin(shard, written_end, block);
    let view = shard.view();
    let state = view.read();
    let at = (state.applied_index, state.applied_term);
    let usage = state.engine().map(|engine| engine.usage());
    let about_bytes = usage.map_or(0, |usage| usage.live_bytes + usage.old_bytes);
    SnapshotSource { checkpoint, head: head.with_snapshot(at, &state.members), about_bytes }
}

/// Where a stream's blocks come from.
pub trait Blocks {
    /// Puts the next block into `out`; false if there is none.
    fn next_block(&mut self, out: &mut Vec<u8>) -> bool;
    /// Whether another state has taken the place of the one that the blocks are of.
    fn is_void(&self) -> bool;
}

impl Blocks for Checkpoint {
    fn next_block(&mut self, out: &mut Vec<u8>) -> bool {
        Checkpoint::next_block(self, out)
    }

    fn is_void(&self) -> bool {
        Checkpoint::is_void(self)
    }
}
