//! What executors want of each other and of other nodes while two shards become one
//! ([`crate::reshape::merge`]): words, states that are handed over, what is left to do for those
//! who ask.

use keyspace::{Descriptor, Position, ShardId};
use overlay::Point;

use super::{Control, Effect, Executors, SYSTEM};
use crate::event::Happened;
use crate::executor::{Absorbing, Bequeathed, Given, Input};
use crate::replica::Legacy;
use crate::reshape::merge::{self, Absorb, Word};
use crate::routing::route::Route;
use crate::rpc::request::Letter;

impl Control {
    /// Says something to whoever leads a shard, here or elsewhere. It may be lost.
    pub(super) fn say(&mut self, shard: ShardId, word: Word, executors: &mut dyn Executors) {
        let (from, letter) = (self.setup.node, Letter::Merge { shard, word });
        let leads = |lane: &crate::executor::ShardExecutor| {
            lane.shard(shard).is_some_and(|s| s.is_elected())
        };
        if executors.of(shard, leads) {
            return self.submit(shard, Input::Letter { from, letter });
        }
        let leader = self.table.shard(shard).and_then(|known| known.leader());
        if let Some(leader) = leader.filter(|leader| *leader != from) {
            self.effects.push(Effect::Rpc(leader, letter));
        }
    }

    pub(super) fn absorbing(&mut self, waits: Absorbing) {
        let Absorbing { left, at, right, index, term } = waits;
        let absorb = Absorb { right, index, term };
        self.submit(right, Input::Surrender { left, at, absorb });
    }

    pub(super) fn given(&mut self, given: Given) {
        let Given { left, right, state, frozen_at } = given;
        if state.is_some() {
            let frozen_nanos = frozen_at.map(|at| self.now.saturating_sub(at));
            self.views.remove(right);
            self.effects.push(Effect::Event(Happened::Merged { left, right, frozen_nanos }));
            let came = self.placement.decisions.has_merged(right, self.now);
            self.effects.extend(came.into_iter().map(Effect::Event));
        }
        self.submit(left, Input::Absorb { left, state });
    }

    pub(super) fn bequeathed(&mut self, Bequeathed { left, legacy }: Bequeathed) {
        let Legacy { batches, readers, sent } = legacy;
        for (origin, batch) in batches {
            self.submit(left, Input::Propose { shard: left, origin, batch });
        }
        for (at, origin, waiter) in readers {
            self.submit(left, Input::Await { shard: left, at, lock: None, origin, waiter });
        }
        self.submit(left, Input::Inherit { shard: left, heir: sent });
    }

    /// A keyspace's tiles have changed: of those that were taken in nobody is asked any more.
    pub(super) fn supersede_gone(&mut self, old: &Route, new: &Route) {
        let (views, table) = (&self.views, &self.table);
        let owner = |shard, start: &Position| {
            // A replica here may still be waited for.
            if views.contains(shard) {
                return None;
            }
            let point = Point { keyspace: start.keyspace(), tail: start.tail() };
            let owner = table.owner(point)?;
            Some((owner.shard(), owner.generation()))
        };
        for (shard, by, generation) in self.gone.retiled(old, new, owner) {
            self.submit(shard, Input::Superseded { shard, by, generation });
        }
    }

    /// Replicas here whose shards are gone, and which nobody here waits for, end.
    pub(super) fn supersede_left_over(&mut self) {
        let views = self.views.all().into_iter();
        let here: Vec<Descriptor> = views.map(|(_, view)| view.read().descriptor.clone()).collect();
        for descriptor in here.iter().filter(|descriptor| descriptor.shard != SYSTEM) {
            let (keyspace, tail) = (descriptor.keyspace(), descriptor.arc.start().tail());
            let owner = self.table.owner(Point { keyspace, tail });
            let owner = owner.as_ref().map(|owner| owner.descriptor());
            if let Some(by) = merge::superseded(descriptor, here.iter(), owner)
                && let Some(&Descriptor { generation, .. }) = owner
            {
                let shard = descriptor.shard;
                self.views.remove(shard);
                self.effects.push(Effect::Event(Happened::Superseded { shard, by }));
                self.submit(shard, Input::Superseded { shard, by, generation });
            }
        }
    }
}
