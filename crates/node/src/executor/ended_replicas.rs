//! How a replica ends that must not take part any more.
//!
//! Either its group has removed it (*removed*), or it is broken and the group replaces it
//! (*quarantined*). A replica that lost something it had promised, or differs from its peers, would
//! do harm with every vote and answer (SAFETY G9). So its executor drops it at once, with all
//! requests that wait for it. It also logs a record, or a restart or a late message would bring it
//! back:
//!
//! ```text
//!   unfit ─► record ─(durable)─► "replica 3 is quarantined", each second, to all of its shard
//!                                        │ the leader adds replica 4 in its place, on this node
//!   replica 4 begins here ◄──────────────┘ and the record is done with: 3 is refused by 4
//! ```
//!
//! A node announces no replica that was removed: the group's log says so, and so does each node's
//! full table (decision 0024).
//!
//! The node goes on with its other shards. It forgets what the replica held: in memory at once, on
//! disk with the next round of checkpoints. That round writes the record again
//! ([`ShardExecutor::mark_again`]), because the older log is deleted. Without the record, an old
//! message would create the replica anew, without its promises.

use keyspace::codec::Reader;
use keyspace::{Arc, DecodeError, Descriptor, Generation, NodeId, ReplicaId, ShardId};
use storage::log::Group as Records;

use super::{Effects, MergeHandover, ShardExecutor, push};
use crate::event::EventKind;
use crate::replica::ReplicaEndReason;
use crate::replica::record;
use crate::routing::proxy::Proxy;
use crate::rpc::message::RpcMessage;
use crate::rpc::notice::ReplicaNotice;

/// Every so many ticks those are told who can replace a replica.
pub(super) const QUARANTINE_NOTICE_TICKS: u64 = 20;

/// A replica that has ended here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedReplica {
    /// Which replica of its shard.
    pub replica: ReplicaId,
    /// Whether its group has gone on without it, and nobody is to replace it.
    is_removed: bool,
    /// The shard's bootstrap record, as the replica last knew it.
    bootstrap: Vec<u8>,
    others: Vec<NodeId>,
    /// … its part of the keyspace …
    pub(super) arc: Arc,
    /// … and its generation then.
    pub(super) generation: Generation,
    /// The group of the log that says so …
    ticket: u64,
    /// … and whether it is on disk,
    is_durable: bool,
    /// or one before it is, that is not cut off yet.
    is_remembered: bool,
}

impl EndedReplica {
    fn new(replica: ReplicaId, is_removed: bool, bootstrap: Vec<u8>) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(&bootstrap);
        reader.u8()?;
        let descriptor = Descriptor::decode(&mut reader)?;
        reader.end()?;
        let (here, generation) = (descriptor.node_of(replica), descriptor.generation);
        let nodes = descriptor.replicas.iter().map(|(_, node)| *node);
        let others = nodes.filter(|node| Some(*node) != here).collect();
        let arc = descriptor.arc;
        let (ticket, is_durable, is_remembered) = (0, true, true);
        Ok(Self {
            replica,
            is_removed,
            bootstrap,
            others,
            arc,
            generation,
            ticket,
            is_durable,
            is_remembered,
        })
    }

    /// Reads the payload of its record in the log, which is of this kind.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let replica = ReplicaId(reader.u64()?);
        Self::new(replica, kind == record::REPLICA_REMOVED, reader.rest().to_vec())
    }

    /// Whether its group has removed it; else it is quarantined.
    pub fn is_removed(&self) -> bool {
        self.is_removed
    }

    fn write(&mut self, shard: ShardId, ticket: u64, records: &mut Records) {
        (self.ticket, self.is_durable) = (ticket, false);
        let replica = self.replica.0.to_le_bytes();
        let kind = match self.is_removed {
            true => record::REPLICA_REMOVED,
            false => record::REPLICA_QUARANTINED,
        };
        push(records, shard, kind, &[&replica, &self.bootstrap]);
    }
}

impl ShardExecutor {
    /// Ends the shard's replica here.
    pub(super) fn end_replica(
        &mut self,
        id: ShardId,
        why: ReplicaEndReason,
        effects: &mut Effects,
    ) {
        let Some(mut shard) = self.shards.remove(&id) else { return };
        if let Some(left) = shard.is_waited_for_by() {
            effects.given.push(MergeHandover::nothing(left, id));
        }
        self.ended_counters = self.ended_counters.and(shard.counters(self.now));
        let bootstrap = shard.view().read().bootstrap_record();
        let replica = shard.replica();
        let is_removed = why == ReplicaEndReason::Removed;
        let mut ended =
            EndedReplica::new(replica, is_removed, bootstrap).expect("its own bootstrap record");
        ended.is_remembered = false;
        ended.write(id, self.next_ticket, &mut effects.records);
        effects.sync = true;
        let now = self.now;
        let unasked = shard.give_up(now, effects);
        self.become_remote(id, ended.others.clone());
        if let Some((proxy, _)) = self.touch_remote(id) {
            proxy.succeed(unasked, now);
        }
        self.ended_replicas.insert(id, ended);
        effects.ended.push((id, replica, why));
        effects.events.push(EventKind::ReplicaEnded { shard: id, replica, why });
    }

    /// Adopts what was recovered from disk, before any shard is created.
    pub fn adopt_ended(&mut self, shard: ShardId, ended: EndedReplica) {
        self.become_remote(shard, ended.others.clone());
        self.ended_replicas.insert(shard, ended);
    }

    /// The shard's replica that ended here, if no other has begun since.
    pub fn ended_replica(&self, shard: ShardId) -> Option<ReplicaId> {
        self.ended_replicas.get(&shard).map(|ended| ended.replica)
    }

    /// All that are to be replaced.
    pub fn quarantined(&self) -> impl Iterator<Item = (ShardId, ReplicaId)> {
        let broken = self.ended_replicas.iter().filter(|(_, ended)| !ended.is_removed);
        broken.map(|(shard, ended)| (*shard, ended.replica))
    }

    /// Whether this replica of a shard may begin: not if it, or a later one, ended here. If so, the
    /// one that ended is no longer waited for.
    pub(super) fn may_begin(&mut self, id: ShardId, replica: ReplicaId) -> bool {
        if self.ended_replicas.get(&id).is_none_or(|ended| ended.replica < replica) {
            self.ended_replicas.remove(&id);
            return true;
        }
        let why = ReplicaEndReason::Before;
        self.pending.ended.push((id, replica, why));
        self.pending.events.push(EventKind::ReplicaEnded { shard: id, replica, why });
        false
    }

    /// Before the log is cut: what must be remembered is written at its end, in the next turn.
    pub fn mark_again(&mut self) {
        for (id, ended) in &mut self.ended_replicas {
            ended.write(*id, self.next_ticket, &mut self.pending.records);
        }
        self.merged_ends.write_all(self.next_ticket, &mut self.pending.records);
    }

    /// Whether all that [`Self::mark_again`] wrote is durable.
    pub fn marks_are_durable(&self) -> bool {
        self.ended_replicas.values().all(|ended| ended.is_durable) && self.merged_ends.are_durable()
    }

    pub(super) fn marks_durable(&mut self, ticket: u64) {
        for ended in self.ended_replicas.values_mut() {
            ended.is_durable |= ended.ticket <= ticket;
            ended.is_remembered |= ended.is_durable;
        }
        self.merged_ends.durable(ticket);
    }

    /// Tells the shards' other nodes what is to be replaced: only what a restart would know, too.
    pub(super) fn announce_quarantined(&mut self) {
        let is_told = |ended: &EndedReplica| ended.is_remembered && !ended.is_removed;
        for (shard, ended) in self.ended_replicas.iter().filter(|(_, ended)| is_told(ended)) {
            let notice = ReplicaNotice::Quarantined { replica: ended.replica };
            // It may have ended before it had read again where the others are.
            let known = self.remote_shards.get(shard).and_then(Proxy::known);
            let placed = known.into_iter().flat_map(|known| &known.descriptor().replicas);
            let mut nodes = ended.others.clone();
            nodes.extend(placed.filter(|(id, _)| *id != ended.replica).map(|(_, node)| *node));
            nodes.sort_unstable();
            nodes.dedup();
            for node in nodes {
                let rpc = RpcMessage::Notice { shard: *shard, notice };
                self.pending.rpcs.push((node, rpc));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hlc::Clock;
    use keyspace::{
        Arc as RingArc, CatalogueOp, Durability, Generation, KeyHasher, KeyspaceId, KeyspaceOptions,
    };
    use overlay::KnownShard;
    use storage::engine::{Layout, MemoryEngine};

    use super::*;
    use crate::executor::merged::decode_merged;
    use crate::executor::{Answer, Input, Origin};
    use crate::replica::ReplicaStart;
    use crate::replica::catalogue::System;
    use crate::replica::entry::Waiter;
    use crate::replica::state::{Content, ShardState};
    use command::NotDone;

    const HERE: ReplicaId = ReplicaId(2);
    const OTHER: NodeId = NodeId(10);

    /// The second of three replicas of a shard, newly born.
    fn start(shard: ShardId) -> ReplicaStart {
        let replicas = (1..=3).map(|id| (ReplicaId(id), NodeId(id * 10))).collect();
        let (arc, generation) = (RingArc::whole(KeyspaceId(shard.0 as u32)), Generation(1));
        let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
        let content = match shard {
            ShardId(0) => Content::System(System::default()),
            _ => {
                Content::Keys(Box::new(MemoryEngine::new(Layout::Ordered, KeyHasher::new([7; 16]))))
            }
        };
        ReplicaStart::created(ShardState::new(descriptor, content), HERE, Durability::Sync)
    }

    fn lane_with(shard: ShardId) -> ShardExecutor {
        let mut executor = ShardExecutor::new(Arc::new(Clock::default()), 1, 1 << 20);
        executor.observe(1);
        executor.accept(Input::Create(start(shard)));
        executor
    }

    fn turn(executor: &mut ShardExecutor) -> Effects {
        let mut effects = Effects::default();
        executor.turn(&mut effects);
        effects
    }

    fn end(executor: &mut ShardExecutor, shard: ShardId) -> Effects {
        let notice = ReplicaNotice::Differs { replica: HERE, index: 1 };
        executor.accept(Input::Rpc { from: OTHER, rpc: RpcMessage::Notice { shard, notice } });
        let effects = turn(executor);
        assert_eq!(executor.ended_replica(shard), Some(HERE));
        assert_eq!(executor.quarantined().collect::<Vec<_>>(), [(shard, HERE)]);
        effects
    }

    /// Requests that wait at a replica survive its end. Catalogue changes and writes go to the
    /// shard's leader; readers are sent to fetch.
    #[test]
    fn ended_replica_forwards_or_releases_waiters() {
        let system = ShardId(0);
        let mut executor = lane_with(system);
        let (mut op, options) = (Vec::new(), KeyspaceOptions::default());
        CatalogueOp::Create { name: "k", options }.encode(&mut op);
        let (origin, waiter, reader) = (Origin(1), Waiter(5), Waiter(6));
        executor.accept(Input::Catalogue { op, origin, waiter });
        let at = keyspace::Timestamp::ZERO;
        executor.accept(Input::AwaitRead { shard: system, at, lock: None, origin, waiter: reader });
        // Nobody leads yet.
        assert!(turn(&mut executor).answers.is_empty());
        let Effects { answers, rpcs, .. } = end(&mut executor, system);
        let told = |answer: &Answer| {
            matches!(answer, Answer::NotDone { why: NotDone::ReplicaLagging, .. })
                && answer.waiters() == [reader]
        };
        assert!(answers.len() == 1 && told(&answers[0]), "{answers:?}");
        let asked = |(node, rpc): &(NodeId, RpcMessage)| {
            *node == OTHER && matches!(rpc, RpcMessage::Catalogue { .. })
        };
        let rpcs = rpcs.iter().chain(&turn(&mut executor).rpcs).filter(|l| asked(l)).count();
        assert_eq!(rpcs, 1);
    }

    /// A table that is newer than the replica, and does not name it, ends it: not one that is
    /// older, nor one that names it. It stays ended when its shard begins again, and nobody
    /// replaces it.
    #[test]
    fn replica_missing_from_descriptor_ends() {
        let shard = ShardId(9);
        let mut executor = lane_with(shard);
        turn(&mut executor);
        let known = |generation, ids: &[u64]| {
            let mut descriptor = start(shard).view.read().descriptor.clone();
            descriptor.generation = Generation(generation);
            descriptor.replicas.retain(|(replica, _)| ids.contains(&replica.0));
            Input::DescriptorLearned { known: Arc::new(KnownShard::new(descriptor, 0)) }
        };
        for harmless in [known(1, &[1, 3]), known(9, &[1, 2])] {
            executor.accept(harmless);
            turn(&mut executor);
            assert!(executor.shard(shard).is_some());
        }
        executor.accept(known(5, &[1, 3]));
        assert_eq!(turn(&mut executor).ended, [(shard, HERE, ReplicaEndReason::Removed)]);
        assert_eq!(
            (executor.ended_replica(shard), executor.quarantined().count()),
            (Some(HERE), 0)
        );
        executor.accept(Input::Create(start(shard)));
        assert_eq!(turn(&mut executor).ended, [(shard, HERE, ReplicaEndReason::Before)]);
        (0..2 * QUARANTINE_NOTICE_TICKS).for_each(|_| executor.accept(Input::Tick));
        assert!(turn(&mut executor).rpcs.is_empty(), "nobody is told");
    }

    /// A table that does not know the shard yet, whose first place was another's before it was cut
    /// off, does not keep a quarantined replica from being replaced. One that knows better does.
    #[test]
    fn quarantined_replica_is_not_absorbed_by_older_descriptor() {
        let shard = ShardId(9);
        let mut executor = lane_with(shard);
        end(&mut executor, shard);
        let by = |generation| {
            let (by, generation) = (ShardId(8), Generation(generation));
            Input::Superseded { shard, by, generation }
        };
        executor.accept(by(1));
        turn(&mut executor);
        assert_eq!(executor.quarantined().collect::<Vec<_>>(), [(shard, HERE)]);
        executor.accept(by(2));
        turn(&mut executor);
        assert_eq!(
            (executor.quarantined().count(), executor.merged_into(shard)),
            (0, Some(ShardId(8)))
        );
    }

    /// Nor is a remote shard taken for absorbed: its waiting requests would never be answered.
    #[test]
    fn remote_shard_is_absorbed_only_by_newer_generation() {
        let shard = ShardId(9);
        let mut executor = ShardExecutor::new(Arc::new(Clock::default()), 1, 1 << 20);
        executor.observe(1);
        let nodes = vec![OTHER];
        executor.accept(Input::RemoteShard { shard, nodes });
        let descriptor = start(shard).view.read().descriptor.clone();
        let descriptor = Descriptor { generation: Generation(3), ..descriptor };
        executor
            .accept(Input::DescriptorLearned { known: Arc::new(KnownShard::new(descriptor, 1)) });
        for (generation, by) in [(0, None), (3, None), (4, Some(ShardId(8)))] {
            let generation = Generation(generation);
            executor.accept(Input::Superseded { shard, by: ShardId(8), generation });
            turn(&mut executor);
            assert_eq!(executor.merged_into(shard), by, "{generation:?}");
        }
    }

    /// A round of checkpoints cuts the log only when it holds the ends of absorbed shards again,
    /// also of those that ended before the node started.
    #[test]
    fn checkpoint_round_rewrites_ends_of_absorbed_shards() {
        let (shard, before) = (ShardId(9), ShardId(7));
        let mut executor = lane_with(shard);
        executor.adopt_merged(before, ShardId(6));
        turn(&mut executor);
        let (by, generation) = (ShardId(8), Generation(2));
        executor.accept(Input::Superseded { shard, by, generation });
        let ticket = turn(&mut executor).ticket;
        executor.accept(Input::Durable { ticket });
        assert!(executor.marks_are_durable());
        executor.mark_again();
        assert!(!executor.marks_are_durable());
        let effects = turn(&mut executor);
        let ends = effects.records.iter().map(|record| {
            assert_eq!(record.kind, record::SHARD_ABSORBED);
            (record.shard, decode_merged(record.payload))
        });
        assert_eq!(ends.collect::<Vec<_>>(), [(before, Ok(ShardId(6))), (shard, Ok(by))]);
        executor.accept(Input::Durable { ticket: effects.ticket });
        assert!(executor.marks_are_durable());
        // A dropped keyspace's shards need no record any more.
        executor.accept(Input::Drop { shard: before });
        turn(&mut executor);
        executor.mark_again();
        assert_eq!(turn(&mut executor).records.iter().count(), 1);
    }

    /// A replica that had promised, and ended, does not begin again when its shard is gone.
    #[test]
    fn ended_replica_of_dropped_shard_does_not_begin_again() {
        let shard = ShardId(9);
        let mut executor = lane_with(shard);
        turn(&mut executor);
        end(&mut executor, shard);
        executor.accept(Input::Drop { shard });
        turn(&mut executor);
        executor.accept(Input::Create(start(shard)));
        turn(&mut executor);
        assert!(executor.shard(shard).is_none());
    }
}
