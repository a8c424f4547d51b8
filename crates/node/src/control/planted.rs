//! Faults planted in control, to see whether the simulator finds them. Nobody else plants any.

use keyspace::{CatalogueOp, FileAct, Generation, Keyspace, ShardId};
use overlay::Known;

use super::{Control, Executors};
use crate::reshape::split::Split;

/// A fault planted in control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Both halves of a shard are published when it is told to be cut, not when its log has agreed.
    EarlySplit,
    /// Routes stay as they were when shards of a newer generation are known.
    OldRoute,
    /// A linear-hash table whose bucket was cut goes on by two buckets.
    SecondTurn,
}

impl Control {
    /// Plants a fault.
    pub fn plant(&mut self, planted: Option<Planted>) {
        self.planted = planted;
    }

    /// Planted: publishes halves that are not there yet.
    pub(super) fn planted_early_half(
        &mut self,
        shard: ShardId,
        split: &Split,
        executors: &mut dyn Executors,
    ) {
        if self.planted != Some(Planted::EarlySplit) {
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
        self.learn([left, right].map(|half| Known::new(half, 0)).to_vec(), executors);
    }

    /// Planted: a keyspace's route stays as it was.
    pub(super) fn keeps_old_route(&self) -> bool {
        self.planted == Some(Planted::OldRoute)
    }

    /// Planted: the table grows once more, and nothing is cut for that.
    pub(super) fn planted_second_turn(&mut self, keyspace: &Keyspace) {
        let Some(record) = keyspace.file else { return };
        if self.planted == Some(Planted::SecondTurn) {
            for (turn, act) in [(record.turn + 1, FileAct::Grow), (record.turn + 2, FileAct::Done)]
            {
                self.ask_catalogue(&CatalogueOp::File { keyspace: keyspace.id, turn, act }, None);
            }
        }
    }
}
