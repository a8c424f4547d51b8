//! What executors and other nodes exchange while two shards merge ([`crate::reshape::merge`]):
//! messages, states, and pending requests.

use keyspace::{Descriptor, Position, ShardId};
use overlay::Point;

use super::{Control, Effect, Executors, SYSTEM};
use crate::event::EventKind;
use crate::executor::{HandoverRequest, Input, MergeHandover, PendingRequestsHandover};
use crate::replica::RequestHandover;
use crate::reshape::merge::{self, Absorb, MergeMessage};
use crate::routing::route::Route;
use crate::rpc::message::RpcMessage;

impl Control {
    /// Sends a merge message to the leader of a shard, on this node or another. It may be lost.
    pub(super) fn send_merge_message(
        &mut self,
        shard: ShardId,
        word: MergeMessage,
        executors: &mut dyn Executors,
    ) {
        let (from, rpc) = (self.setup.node, RpcMessage::Merge { shard, word });
        let leads = |executor: &crate::executor::ShardExecutor| {
            executor.shard(shard).is_some_and(|s| s.is_elected())
        };
        if executors.of(shard, leads) {
            return self.submit(shard, Input::Rpc { from, rpc });
        }
        let leader = self.table.shard(shard).and_then(|known| known.leader());
        if let Some(leader) = leader.filter(|leader| *leader != from) {
            self.effects.push(Effect::Rpc(leader, rpc));
        }
    }

    pub(super) fn handover_requests(&mut self, waits: HandoverRequest) {
        let HandoverRequest { left, at, right, index, term } = waits;
        let absorb = Absorb { right, index, term };
        self.submit(right, Input::RequestHandover { left, at, absorb });
    }

    pub(super) fn given(&mut self, given: MergeHandover) {
        let MergeHandover { left, right, state, frozen_at } = given;
        if state.is_some() {
            let frozen_nanos = frozen_at.map(|at| self.now.saturating_sub(at));
            self.views.remove(right);
            self.effects.push(Effect::Event(EventKind::Merged { left, right, frozen_nanos }));
            let ended = self.placement.decisions.end_merges(right, self.now);
            self.effects.extend(ended.into_iter().map(Effect::Event));
        }
        self.submit(left, Input::Absorb { left, state });
    }

    pub(super) fn pending_requests(
        &mut self,
        PendingRequestsHandover { left, legacy }: PendingRequestsHandover,
    ) {
        let RequestHandover { batches, readers, sent } = legacy;
        for (origin, batch) in batches {
            self.submit(left, Input::Propose { shard: left, origin, batch });
        }
        for (at, origin, waiter) in readers {
            self.submit(left, Input::AwaitRead { shard: left, at, lock: None, origin, waiter });
        }
        self.submit(left, Input::TakeOverRequests { shard: left, inherited: sent });
    }

    /// A keyspace's tiles have changed: of those that were taken in nobody is asked any more.
    pub(super) fn supersede_merged(&mut self, old: &Route, new: &Route) {
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
        for (shard, by, generation) in self.merged_tiles.take_new_tiles(old, new, owner) {
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
                self.effects.push(Effect::Event(EventKind::LeftoverReplicaEnded { shard, by }));
                self.submit(shard, Input::Superseded { shard, by, generation });
            }
        }
    }
}
