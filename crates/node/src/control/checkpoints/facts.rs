//! What checkpoint rounds and snapshot installations ask executors.

use keyspace::ShardId;
use replication::Message;
use storage::engine::PieceLimits;
use storage::log::Lsn;
use storage::manifest::{CheckpointRef, Manifest};

use crate::executor::ShardExecutor;
use crate::recovery::checkpoint::Checkpoint;
use crate::replica::Replica;

/// How a shard's file begins.
pub enum FileStart {
    /// The shard has no replica here.
    NoReplica,
    /// The last file holds all that is applied. The shard needs the log from there on.
    Unchanged(Lsn),
    /// A file is to be written.
    Begun(Box<Checkpoint>),
}

/// A replica that may have to absorb its right neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftReplica {
    /// Up to here its log is applied.
    pub applied: u64,
    /// Whether it waits for what its right neighbour holds.
    pub awaits_right: bool,
}

/// A shard that a merge has absorbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The absorbed shard.
    pub right: ShardId,
    /// The shard that has taken it in,
    pub left: ShardId,
    /// by this entry, if that happened on this node.
    pub at: Option<u64>,
}

/// Begins a shard's file, unless `last` is still good. `written_end` is the end of the log, read
/// before the executor was held.
pub fn begin_file(
    executor: &ShardExecutor,
    shard: ShardId,
    last: Option<CheckpointRef>,
    written_end: Lsn,
    block: PieceLimits,
) -> FileStart {
    let Some(shard) = executor.shard(shard) else { return FileStart::NoReplica };
    match last.filter(|last| shard.is_covered_by(last.applied_index)) {
        Some(_) => FileStart::Unchanged(shard.log_needed_from(written_end)),
        None => FileStart::Begun(Box::new(Checkpoint::begin(shard, written_end, block))),
    }
}

/// The shards that merges have absorbed.
pub fn merged(executor: &ShardExecutor) -> impl Iterator<Item = Merged> {
    executor.merged_shards().map(|(right, by)| Merged { right, left: by.left, at: by.at })
}

/// How far the replica of a shard is that has taken another one in.
pub fn left_replica(executor: &ShardExecutor, shard: ShardId) -> Option<LeftReplica> {
    executor.shard(shard).map(|shard| LeftReplica {
        applied: shard.applied_index(),
        awaits_right: shard.awaits_merge_handover(),
    })
}

/// Whether a right half has begun, or is about to, that has no file in this manifest. Its first
/// state then follows only from its left half's file and the log.
pub fn has_uncovered_halves(executor: &ShardExecutor, published: &Manifest) -> bool {
    let has_file = |id| published.checkpoints.iter().any(|file| file.shard == id);
    let is_bare = |shard: &Replica| shard.began_as_half() && !has_file(shard.id());
    executor.pending_halves().next().is_some() || executor.shards().any(is_bare)
}

/// Whether the replica still needs a snapshot, and has not voted since its file began: the file
/// must hold every vote that the checkpoint before it held (decision 0014).
pub fn fits(executor: &ShardExecutor, shard: ShardId, head: &Message, vote: Vote) -> bool {
    executor.shard(shard).is_some_and(|here| here.wants(head) && vote_of(here) == vote)
}

/// Whether the shard's replica has use for a snapshot, or has not come to install it yet.
pub fn wants(executor: &ShardExecutor, shard: ShardId, head: &Message) -> bool {
    executor.shard(shard).is_some_and(|here| here.wants(head))
}

/// A term and the vote in it.
pub type Vote = (u64, u64);

/// Term and vote of a replica.
pub fn vote_of(here: &Replica) -> Vote {
    let hard_state = here.hard_state();
    (hard_state.term, hard_state.vote)
}
