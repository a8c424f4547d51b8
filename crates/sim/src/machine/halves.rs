//! Right halves of shards that were cut in two, as rounds of checkpoints see them.

use keyspace::ShardId;
use node::shard::Shard;

use super::Machine;

impl Machine {
    /// Right halves that lanes have handed out, if all of them have begun.
    pub(super) fn begun_halves(&mut self) -> Option<Vec<ShardId>> {
        let halves: Vec<ShardId> = self.lanes.iter().flat_map(|seat| seat.lane.unborn()).collect();
        let has_begun = |half: &ShardId| self.lanes[self.lane_of(*half)].lane.has_had(*half);
        if !halves.iter().all(has_begun) {
            return None;
        }
        for half in &halves {
            self.lanes.iter_mut().for_each(|seat| seat.lane.confirm(*half));
        }
        Some(halves)
    }

    /// Whether what some right half has begun with is in no checkpoint yet.
    pub(super) fn has_bare_halves(&self) -> bool {
        let is_kept = |id| self.manifest.checkpoints.iter().any(|file| file.shard == id);
        let is_bare = |shard: &Shard| shard.began_as_half() && !is_kept(shard.id());
        let mut lanes = self.lanes.iter().map(|seat| &seat.lane);
        lanes.any(|lane| lane.unborn().next().is_some() || lane.shards().any(is_bare))
    }
}
