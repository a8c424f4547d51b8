//! Shards are cut in two while everything else breaks.
//!
//! Some shard that somebody believes to lead is told to be cut, at a slot that parts the keys in
//! use, if there are such. Its right half has an id that was never used.

use keyspace::{KeyspaceId, ShardId, Slot, slot_of};
use node::lane::Input;
use node::split::Split;

use super::{Plant, World};

/// Ids of right halves begin here, far above those that the catalogue gives out.
pub(super) const FIRST_HALF: u64 = 1_000_000;
/// So many shards are told to be cut in a run, at most.
const SPLITS_MAX: u64 = 12;

impl World {
    /// Some leader is told to cut one of its shards in two.
    pub(super) fn split(&mut self) {
        let mut led = self.led();
        led.retain(|(_, shard)| *shard != ShardId(0));
        if led.is_empty() || self.counts.splits >= SPLITS_MAX {
            return;
        }
        let (at, shard) = *self.rng.pick(&led);
        let machine = self.seats[at].machine.as_ref().expect("it leads");
        let view = machine.view(shard).expect("it leads it");
        let descriptor = view.read().descriptor.clone();
        let Some((first, end)) = descriptor.arc.slots() else { return };
        let within = |slot: &Slot| first < *slot && *slot < end;
        let slots: Vec<Slot> =
            self.clients.names().iter().map(|name| slot_of(name)).filter(within).collect();
        let slot = match slots.is_empty() {
            true => self.rng.between(first.into(), end.into()) as Slot,
            false => *self.rng.pick(&slots),
        };
        self.cut_at(at, shard, slot);
    }

    /// A node that leads a shard has it cut in two, in the middle of its slots.
    pub(crate) fn cut_in_two(&mut self, at: usize, shard: ShardId) {
        let view = self.seats[at].machine.as_ref().and_then(|machine| machine.view(shard));
        let arc = view.map(|view| view.read().descriptor.arc.clone());
        if let Some((first, end)) = arc.and_then(|arc| arc.slots()) {
            self.cut_at(at, shard, first + (end - first) / 2);
        }
    }

    fn cut_at(&mut self, at: usize, shard: ShardId, slot: Slot) {
        let machine = self.seats[at].machine.as_ref().expect("it leads");
        let view = machine.view(shard).expect("it leads it");
        let generation = view.read().descriptor.generation;
        let right = ShardId(FIRST_HALF + self.counts.splits);
        self.counts.splits += 1;
        self.trace.event(format_args!("shard {shard} is to be cut at {slot}: {right}"));
        let split = Split { right, generation, at: slot };
        let machine = self.seats[at].machine.as_mut().expect("it leads");
        machine.submit(shard, Input::Split { shard, split });
    }

    /// Planted: what was applied once before a shard was cut in two is forgotten.
    pub(super) fn forget_sessions(&mut self, at: usize) {
        if !self.has(Plant::NoDedupe) {
            return;
        }
        let Some(machine) = &self.seats[at].machine else { return };
        for view in machine.shard_ids().into_iter().filter_map(|id| machine.view(id)) {
            let mut state = view.write();
            let known = self.cuts.entry((machine.node(), state.descriptor.shard)).or_default();
            if state.cuts > *known {
                state.sessions = Default::default();
            }
            *known = state.cuts;
        }
    }

    /// How many shards are there that were cut off from others.
    pub(super) fn halves(&self) -> u64 {
        let machines = self.seats.iter().filter_map(|seat| seat.machine.as_ref());
        let mut ids: Vec<ShardId> = machines.flat_map(|machine| machine.shard_ids()).collect();
        ids.retain(|id| id.0 >= FIRST_HALF);
        ids.sort_unstable();
        ids.dedup();
        ids.len() as u64
    }

    /// The keyspace that a shard is of, as some replica of it knows.
    pub(super) fn keyspace_of(&self, shard: ShardId) -> Option<KeyspaceId> {
        let machines = self.seats.iter().filter_map(|seat| seat.machine.as_ref());
        let mut views = machines.filter_map(|machine| machine.view(shard));
        views.next().map(|view| view.read().descriptor.keyspace())
    }
}
