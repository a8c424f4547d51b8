//! What becomes of a replica that must not take part any more? It ends, and others replace it.
//!
//! A replica that has lost what it had promised, or holds something else than its peers, would do
//! harm by every vote and every answer under its id (SAFETY G9). So its lane lets it go at once,
//! with all that waits for it, and writes that down, lest a restart or a late message bring it
//! back:
//!
//! ```text
//!   unfit ─► record ─(durable)─► "replica 3 is quarantined", each second, to all of its shard
//!                                        │ the leader adds replica 4 in its place, on this node
//!   replica 4 begins here ◄──────────────┘ and the record is done with: 3 is refused by 4
//! ```
//!
//! The node goes on with its other shards. What the replica held is forgotten, in memory at once,
//! and on disk by the next round of checkpoints; a round writes the record again
//! ([`Lane::mark_again`]), for the log before the round goes.

use keyspace::codec::Reader;
use keyspace::{DecodeError, Descriptor, NodeId, ReplicaId, ShardId};
use storage::log::Group as Records;

use super::{Effects, Lane, push};
use crate::letter::Letter;
use crate::record;
use crate::shard::Unfit;
use crate::tiding::Tiding;

/// Every so many ticks those are told who can replace a replica.
pub(super) const TELL_TICKS: u64 = 20;

/// A replica that ended so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// Which replica of its shard.
    pub replica: ReplicaId,
    /// The shard's record of birth, as the replica last knew it.
    birth: Vec<u8>,
    others: Vec<NodeId>,
    /// The group of the log that says so …
    ticket: u64,
    /// … and whether it is on disk,
    is_durable: bool,
    /// or one before it is, that is not cut off yet.
    is_remembered: bool,
}

impl Quarantine {
    fn new(replica: ReplicaId, birth: Vec<u8>) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(&birth);
        reader.u8()?;
        let descriptor = Descriptor::decode(&mut reader)?;
        reader.end()?;
        let here = descriptor.node_of(replica);
        let nodes = descriptor.replicas.iter().map(|(_, node)| *node);
        let others = nodes.filter(|node| Some(*node) != here).collect();
        Ok(Self { replica, birth, others, ticket: 0, is_durable: true, is_remembered: true })
    }

    /// Reads the payload of its record in the log.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let replica = ReplicaId(reader.u64()?);
        Self::new(replica, reader.rest().to_vec())
    }

    fn write(&mut self, shard: ShardId, ticket: u64, records: &mut Records) {
        (self.ticket, self.is_durable) = (ticket, false);
        let replica = self.replica.0.to_le_bytes();
        push(records, shard, record::REPLICA_QUARANTINED, &[&replica, &self.birth]);
    }
}

impl Lane {
    /// Ends the shard's replica here.
    pub(super) fn quarantine(&mut self, id: ShardId, why: Unfit, effects: &mut Effects) {
        let Some(mut shard) = self.shards.remove(&id) else { return };
        self.gone = self.gone.and(shard.tally(self.now));
        let birth = shard.view().read().birth_record();
        let replica = shard.replica();
        let mut quarantine = Quarantine::new(replica, birth).expect("its own record of birth");
        quarantine.is_remembered = false;
        quarantine.write(id, self.next_ticket, &mut effects.records);
        effects.sync = true;
        shard.give_up(effects);
        self.go_away(id, quarantine.others.clone());
        self.quarantined.insert(id, quarantine);
        effects.quarantined.push((id, replica, why));
    }

    /// Adopts what was recovered from disk, before any shard is created.
    pub fn adopt_quarantined(&mut self, shard: ShardId, quarantine: Quarantine) {
        self.go_away(shard, quarantine.others.clone());
        self.quarantined.insert(shard, quarantine);
    }

    /// The shard's replica that ended here, if none has taken its place yet.
    pub fn quarantined(&self, shard: ShardId) -> Option<ReplicaId> {
        self.quarantined.get(&shard).map(|quarantine| quarantine.replica)
    }

    /// All of them.
    pub fn all_quarantined(&self) -> impl Iterator<Item = (ShardId, ReplicaId)> {
        self.quarantined.iter().map(|(shard, quarantine)| (*shard, quarantine.replica))
    }

    /// Whether this replica of a shard may begin: not if it, or a later one, ended here. If so, the
    /// one that ended is no longer waited for.
    pub(super) fn may_begin(&mut self, id: ShardId, replica: ReplicaId) -> bool {
        if self.quarantined.get(&id).is_none_or(|ended| ended.replica < replica) {
            self.quarantined.remove(&id);
            return true;
        }
        self.pending.quarantined.push((id, replica, Unfit::Before));
        false
    }

    /// Before the log is cut: what must be remembered is written at its end, in the next turn.
    pub fn mark_again(&mut self) {
        for (id, quarantine) in &mut self.quarantined {
            quarantine.write(*id, self.next_ticket, &mut self.pending.records);
        }
    }

    /// Whether all that [`Self::mark_again`] wrote is durable.
    pub fn marks_are_durable(&self) -> bool {
        self.quarantined.values().all(|quarantine| quarantine.is_durable)
    }

    pub(super) fn marks_durable(&mut self, ticket: u64) {
        for quarantine in self.quarantined.values_mut() {
            quarantine.is_durable |= quarantine.ticket <= ticket;
            quarantine.is_remembered |= quarantine.is_durable;
        }
    }

    /// Tells the shards' other nodes what is to be replaced: only what a restart would know, too.
    pub(super) fn tell_of_quarantined(&mut self) {
        for (shard, quarantine) in self.quarantined.iter().filter(|(_, q)| q.is_remembered) {
            let tiding = Tiding::Quarantined { replica: quarantine.replica };
            for node in &quarantine.others {
                let letter = Letter::Tiding { shard: *shard, tiding };
                self.pending.letters.push((*node, letter));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyspace::{
        Arc as RingArc, CatalogueOp, Durability, Generation, KeyHasher, KeyspaceId, KeyspaceOptions,
    };
    use storage::engine::{Engine, Layout};
    use txn::Clock;

    use super::*;
    use crate::catalogue::System;
    use crate::entry::Waiter;
    use crate::lane::{Answer, Input, NotDone, Origin};
    use crate::shard::ShardStart;
    use crate::state::{Content, ShardState};

    const HERE: ReplicaId = ReplicaId(2);
    const OTHER: NodeId = NodeId(10);

    /// The second of three replicas of a shard, newly born.
    fn start(shard: ShardId) -> ShardStart {
        let replicas = (1..=3).map(|id| (ReplicaId(id), NodeId(id * 10))).collect();
        let (arc, generation) = (RingArc::whole(KeyspaceId(shard.0 as u32)), Generation(1));
        let descriptor = Descriptor { shard, arc, replicas, generation, leader: None };
        let content = match shard {
            ShardId(0) => Content::System(System::default()),
            _ => Content::Keys(Box::new(Engine::new(Layout::Ordered, KeyHasher::new([7; 16])))),
        };
        ShardStart::born(ShardState::new(descriptor, content), HERE, Durability::Sync)
    }

    fn lane_with(shard: ShardId) -> Lane {
        let mut lane = Lane::new(Arc::new(Clock::default()), 1, 1 << 20);
        lane.observe(1);
        lane.accept(Input::Create(start(shard)));
        lane
    }

    fn turn(lane: &mut Lane) -> Effects {
        let mut effects = Effects::default();
        lane.turn(&mut effects);
        effects
    }

    fn end(lane: &mut Lane, shard: ShardId) -> Effects {
        let tiding = Tiding::Differs { replica: HERE, index: 1 };
        lane.accept(Input::Letter { from: OTHER, letter: Letter::Tiding { shard, tiding } });
        let effects = turn(lane);
        assert_eq!(lane.quarantined(shard), Some(HERE));
        effects
    }

    /// Who waits for a change of the catalogue at a replica that ends is told so.
    #[test]
    fn nobody_waits_at_what_has_ended() {
        let system = ShardId(0);
        let mut lane = lane_with(system);
        let (mut op, options) = (Vec::new(), KeyspaceOptions::default());
        CatalogueOp::Create { name: "k", options }.encode(&mut op);
        let (origin, waiter) = (Origin(1), Waiter(5));
        lane.accept(Input::Catalogue { op, origin, waiter });
        // Nobody leads yet.
        assert!(turn(&mut lane).answers.is_empty());
        let answers = end(&mut lane, system).answers;
        let told = |answer: &Answer| {
            matches!(answer, Answer::NotDone { why: NotDone::Away, .. })
                && answer.waiters() == [waiter]
        };
        assert!(answers.len() == 1 && told(&answers[0]), "{answers:?}");
    }

    /// A replica that had promised, and ended, does not begin again when its shard is gone.
    #[test]
    fn what_was_dropped_after_its_end_does_not_begin_again() {
        let shard = ShardId(9);
        let mut lane = lane_with(shard);
        turn(&mut lane);
        end(&mut lane, shard);
        lane.accept(Input::Drop { shard });
        turn(&mut lane);
        lane.accept(Input::Create(start(shard)));
        turn(&mut lane);
        assert!(lane.shard(shard).is_none());
    }
}
