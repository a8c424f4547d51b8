//! Planted bugs in control, which the simulator must find. Nothing else sets them.

use keyspace::{CatalogueOp, Generation, Keyspace, LinearHashOp, ShardId};
use overlay::KnownShard;

use super::{Control, Executors};
use crate::reshape::split::Split;

/// A fault planted in control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Publishes both halves of a shard when a split begins, not when it is committed.
    EarlySplit,
    /// Routes stay as they were when shards of a newer generation are known.
    OldRoute,
    /// A linear-hash table whose bucket was cut goes on by two buckets.
    SecondStep,
}

impl Control {
    /// Plants a fault.
    pub fn plant(&mut self, planted: Option<PlantedBug>) {
        self.planted = planted;
    }

    /// Planted: publishes halves that are not there yet.
    pub(super) fn planted_early_half(
        &mut self,
        shard: ShardId,
        split: &Split,
        executors: &mut dyn Executors,
    ) {
        if self.planted != Some(PlantedBug::EarlySplit) {
            return;
        }
        let Some(view) = self.views.get(shard) else { return };
        let left = view.read().descriptor.clone();
        let at = split.at.position(left.keyspace());
        let Some((low, high)) = left.arc.split(&at) else { return };
        let generation = Generation(left.generation.0 + 1);
        let mut right = left.clone();
        (right.shard, right.arc, right.generation) = (split.right, high, generation);
        let mut left = left;
        (left.arc, left.generation) = (low, generation);
        self.learn([left, right].map(|half| KnownShard::new(half, 0)).to_vec(), executors);
    }

    /// Planted: a keyspace's route stays as it was.
    pub(super) fn keeps_old_route(&self) -> bool {
        self.planted == Some(PlantedBug::OldRoute)
    }

    /// Planted: the table grows once more, and nothing is cut for that.
    pub(super) fn plant_second_epoch(&mut self, keyspace: &Keyspace) {
        let Some(record) = keyspace.linear_hash_table else { return };
        if self.planted == Some(PlantedBug::SecondStep) {
            for (epoch, act) in
                [(record.epoch + 1, LinearHashOp::Grow), (record.epoch + 2, LinearHashOp::Done)]
            {
                self.ask_catalogue(
                    &CatalogueOp::LinearHash { keyspace: keyspace.id, epoch, act },
                    None,
                );
            }
        }
    }
}
