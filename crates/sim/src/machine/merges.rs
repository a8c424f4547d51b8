//! What a node does when two of its shards become one: what the server's `hub::merges` does.

use std::collections::BTreeMap;

use keyspace::{Descriptor, KeyspaceId, Position, ShardId};
use node::lane::{Absorbing, Bequeathed, Given, Input};
use node::letter::Letter;
use node::merge::{self, Absorb, Word};
use node::route::Route;
use node::shard::Legacy;
use overlay::Point;

use super::Machine;
use crate::machine::peers::{Packet, Post};

impl Machine {
    /// Says something to whoever leads a shard, here or elsewhere.
    pub(super) fn say_word(&mut self, shard: ShardId, word: Word) {
        let letter = Letter::Merge { shard, word };
        let from = self.manifest.node;
        let leads = self.shard(shard).is_some_and(|shard| shard.is_elected());
        let leader = self.table().shard(shard).and_then(|known| known.leader());
        match leader.filter(|_| !leads) {
            _ if leads => self.submit(shard, Input::Letter { from, letter }),
            Some(to) if to != from => {
                self.outgoing.push(Packet::Letter(Post { from, to, letter }));
            }
            _ => {}
        }
    }

    pub(super) fn absorbing(&mut self, waits: Absorbing) {
        let Absorbing { left, at, right, index, term } = waits;
        let absorb = Absorb { right, index, term };
        self.submit(right, Input::Surrender { left, at, absorb });
    }

    pub(super) fn given(&mut self, Given { left, right, state, .. }: Given) {
        if state.is_some() {
            self.given_up.push(right);
            self.digests.retain(|digesting| digesting.shard != right);
        }
        self.submit(left, Input::Absorb { left, state });
    }

    pub(super) fn bequeathed(&mut self, Bequeathed { left, legacy }: Bequeathed) {
        let Legacy { batches, readers, sent } = legacy;
        for (origin, batch) in batches {
            self.sent_on.extend(batch.waiters().iter().map(|waiter| (*waiter, left)));
            self.submit(left, Input::Propose { shard: left, origin, batch });
        }
        for (at, origin, waiter) in readers {
            self.submit(left, Input::Await { shard: left, at, lock: None, origin, waiter });
        }
        self.inherited.extend(sent.waiters().map(|waiter| (waiter, left)));
        self.submit(left, Input::Inherit { shard: left, heir: sent });
    }

    /// A keyspace's tiles have changed: of those that were taken in nobody is asked any more.
    pub(super) fn supersede_gone(&mut self, old: &Route, new: &Route) {
        let mut gone = std::mem::take(&mut self.gone);
        let owner = |shard, start: &Position| {
            let point = Point { keyspace: start.keyspace(), tail: start.tail() };
            let owner = self.table().owner(point).filter(|_| self.shard(shard).is_none())?;
            Some((owner.shard(), owner.generation()))
        };
        for (shard, by, generation) in gone.retiled(old, new, owner) {
            self.submit(shard, Input::Superseded { shard, by, generation });
        }
        self.gone = gone;
    }

    /// Replicas here whose shards are gone, and which nobody here waits for, end.
    pub(super) fn supersede_left_over(&mut self) {
        let ids: Vec<ShardId> = self.shard_ids();
        ids.into_iter().filter(|id| *id != ShardId(0)).for_each(|id| self.supersede(id));
    }

    fn supersede(&mut self, shard: ShardId) {
        let descriptors: BTreeMap<ShardId, _> = self
            .views()
            .map(|view| view.read().descriptor.clone())
            .map(|descriptor| (descriptor.shard, descriptor))
            .collect();
        let Some(known) = descriptors.get(&shard) else { return };
        let (keyspace, start) = (known.keyspace(), known.arc.start().tail());
        let owner = self.table().owner(Point { keyspace, tail: start });
        let owner = owner.map(|owner| owner.descriptor().clone());
        if let Some(by) = merge::superseded(known, descriptors.values(), owner.as_ref())
            && let Some(Descriptor { generation, .. }) = owner
        {
            self.submit(shard, Input::Superseded { shard, by, generation });
        }
    }

    /// The keyspace of a shard that is gone.
    pub(super) fn keyspace_of_gone(&self, shard: ShardId) -> Option<KeyspaceId> {
        self.gone.keyspace_of(shard)
    }
}
