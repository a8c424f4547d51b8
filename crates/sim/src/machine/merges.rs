//! Shards that others have taken in, as rounds of checkpoints see them.

use std::collections::BTreeMap;

use keyspace::ShardId;

use super::Machine;

impl Machine {
    /// Checkpoints of shards that are gone do not count, nor do those of who has taken them in that
    /// are from before that: which are to be made again; none: they cannot be made yet.
    pub(super) fn outdated(
        &self,
        names: &mut BTreeMap<ShardId, storage::manifest::CheckpointRef>,
    ) -> Option<Vec<ShardId>> {
        let mut again = Vec::new();
        for (right, absorbed) in self.lanes.iter().flat_map(|seat| seat.lane.absorbed()) {
            names.remove(&right);
            let (left, Some(at)) = (absorbed.left, absorbed.at) else { continue };
            let Some(shard) = self.shard(left) else { continue };
            if names.get(&left).is_some_and(|file| file.applied_index < at) {
                match shard.applied_index() < at {
                    true if shard.awaits_right() => return None,
                    // Another replica has taken the place of the one that was given that: it has
                    // its state from a leader, or waits for it.
                    true => {}
                    false => again.push(left),
                }
            }
        }
        again.sort_unstable();
        again.dedup();
        Some(again)
    }
}
