//! Shards are split while everything else breaks.
//!
//! The simulator asks a node that believes to lead a shard to split it, at a slot or key that
//! separates keys in use, if there are such. The node's control plane decides whether it does.

use keyspace::{Cut, KeyspaceId, Placement, ShardId, Slot, slot_of};
use node::control::{CutAt, Request};

use super::{Plant, World};

/// At most so many splits are requested in a run.
const SPLITS_MAX: u64 = 12;

impl World {
    /// Asks some leader to split one of its shards.
    pub(super) fn split(&mut self) {
        let mut led = self.led();
        led.retain(|(_, shard)| *shard != ShardId(0) && !self.is_bucket(*shard));
        if led.is_empty() || self.counts.splits >= SPLITS_MAX {
            return;
        }
        let view_of = |(at, shard): (usize, ShardId)| {
            let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
            machine.view(shard).expect("the shard is on this node")
        };
        let is_hashed = |led: &(usize, ShardId)| {
            view_of(*led).read().engine().is_some_and(|engine| engine.layout().is_hashed())
        };
        // An ordered keyspace has few shards, and is to be cut as well.
        let ordered: Vec<_> = led.iter().copied().filter(|led| !is_hashed(led)).collect();
        let among = if self.rng.one_in(3) && !ordered.is_empty() { &ordered } else { &led };
        let (at, shard) = *self.rng.pick(among);
        let view = view_of((at, shard));
        let descriptor = view.read().descriptor.clone();
        let placement = view.read().engine().map(|engine| engine.layout().placement());
        let placement = placement.unwrap_or(Placement::Ordered);
        let is_hashed = placement == Placement::Hashed;
        let arc = &descriptor.arc;
        let place = |name: &[u8]| match placement {
            Placement::Hashed => Cut::at(placement, &slot_of(name).to_be_bytes()),
            Placement::Ordered => Cut::at(placement, name),
            Placement::LinearHash => None,
        };
        let within = |cut: &Cut| arc.split(&cut.position(arc.keyspace())).is_some();
        let names = self.names_in(arc.keyspace()).iter();
        let mut cuts: Vec<Cut> = names.filter_map(|name| place(name)).filter(within).collect();
        if let (true, Some((first, end))) = (cuts.is_empty() && is_hashed, arc.slots()) {
            cuts.push(Cut::Slot(self.rng.between(first.into(), end.into()) as Slot));
        }
        if cuts.is_empty() {
            return;
        }
        let cut = self.rng.pick(&cuts).clone();
        self.cut_at(at, shard, cut);
    }

    /// A node splits a shard that it leads: in the middle of its slots, or at the middle
    /// one of the keys in use that it has.
    pub(crate) fn split_shard(&mut self, at: usize, shard: ShardId) {
        let view = self.node_slots[at].machine.as_ref().and_then(|machine| machine.view(shard));
        let Some(arc) = view.map(|view| view.read().descriptor.arc.clone()) else { return };
        let cut = match (self.profile.placement(), arc.slots()) {
            (Placement::Hashed, Some((first, end))) => Some(Cut::Slot(first + (end - first) / 2)),
            (Placement::Hashed, None) => None,
            // Buckets are cut in the order of their table.
            (Placement::LinearHash, _) => None,
            (Placement::Ordered, _) => {
                let has = |name: &&Vec<u8>| arc.holds(name);
                let mut names: Vec<_> = self.clients.names().iter().filter(has).collect();
                names.sort_unstable();
                names.get(names.len() / 2).and_then(|name| Cut::at(Placement::Ordered, name))
            }
        };
        if let Some(cut) = cut {
            self.cut_at(at, shard, cut);
        }
    }

    pub(super) fn cut_at(&mut self, at: usize, shard: ShardId, cut: Cut) {
        self.counts.splits += 1;
        self.trace.event(format_args!("shard {shard} is to be cut at {cut}"));
        let place = match cut {
            Cut::Slot(slot) => CutAt::Slot(slot),
            Cut::Key(key) => CutAt::Key(key.to_vec()),
            Cut::Number(_) => return,
        };
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        machine.request(0, Request::Split { shard, at: Some(place) });
    }

    /// Planted: a split forgets the sessions of the shard.
    pub(super) fn forget_sessions(&mut self, at: usize) {
        if !self.has(Plant::NoDedupe) {
            return;
        }
        let Some(machine) = &self.node_slots[at].machine else { return };
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
        let machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        let mut ids: Vec<ShardId> = machines.flat_map(|machine| machine.shard_ids()).collect();
        ids.retain(|id| self.right_halves.contains(id));
        ids.sort_unstable();
        ids.dedup();
        ids.len() as u64
    }

    /// Whether a shard is a bucket of a file, which is cut and taken in in its order only.
    pub(super) fn is_bucket(&self, shard: ShardId) -> bool {
        let machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        let mut views = machines.filter_map(|machine| machine.view(shard));
        views.any(|view| {
            let layout = view.read().engine().map(|engine| engine.layout().placement());
            layout == Some(Placement::LinearHash)
        })
    }

    /// The keyspace that a shard is of, as some replica of it knows.
    pub(super) fn keyspace_of(&self, shard: ShardId) -> Option<KeyspaceId> {
        let machines = self.node_slots.iter().filter_map(|seat| seat.machine.as_ref());
        let mut views = machines.filter_map(|machine| machine.view(shard));
        views.next().map(|view| view.read().descriptor.keyspace())
    }
}
