//! Shards that a merge has absorbed: how their local replicas end, and where pending requests go.
//!
//! ```text
//!   executor of the left one             driver               executor of the right one
//!     ABSORB agreed upon ──► Absorbing ──► Input::Surrender ──► FREEZE applied, ends, is recorded
//!     Input::Absorb ◄───────────────────── Given ◄─────────────┤
//!     Propose, Await, Inherit ◄─────────── Bequeathed ◄────────┘
//!
//!   no replica of the left one here, or it has come past that by a snapshot:
//!     Propose, Await, Inherit ◄─────────── Bequeathed ◄── Input::Superseded ◄── the lookup
//! ```
//!
//! A client that still asks here has an old route, and is told to look up the shard again.
//!
//! The replica had voted and promised, so no replica of its shard may begin again on this node
//! (SAFETY G4, G9). A record in the log says so, and each round of checkpoints writes it again
//! before it cuts the log. Without it, after a restart, the node finds no trace of the right shard
//! once the left one has moved away. It would begin the right shard anew from the keyspace's first
//! tiling, empty and alone. The records of a keyspace's first shards end with the keyspace. The
//! others stay, 41 bytes a merge in each round.

use std::collections::BTreeMap;

use keyspace::codec::Reader;
use keyspace::{Cut, DecodeError, Descriptor, Generation, Position, ShardId};
use overlay::KnownShard;
use replication::BootNanos;
use storage::log::Group as Records;

use super::{Effects, ShardExecutor, push};
use crate::executor::Origin;
use crate::replica::entry::{Batch, Spent};
use crate::replica::record;
use crate::replica::state::ShardState;
use crate::replica::{InheritedSession, RequestHandover};
use crate::reshape::merge::Absorb;
use crate::reshape::reroute::answer_applied;
use crate::routing::proxy::Proxy;
use command::Reply;

/// A replica waits for what its right neighbour's replica on this node holds.
#[derive(Debug)]
pub struct HandoverRequest {
    /// Whose it is.
    pub left: ShardId,
    /// The entry that waits.
    pub at: u64,
    /// The shard that it absorbs,
    pub right: ShardId,
    /// as of this entry,
    pub index: u64,
    /// of this term.
    pub term: u64,
}

/// What a right neighbour's replica here held.
#[derive(Debug)]
pub struct MergeHandover {
    /// The shard that absorbs it.
    pub left: ShardId,
    /// Whose it was.
    pub right: ShardId,
    /// None: there is no such replica, or not with that entry.
    pub state: Option<Box<ShardState>>,
    /// Since when the right one stands still, if its leader was here.
    pub frozen_at: Option<BootNanos>,
}

impl MergeHandover {
    /// There is nothing of the kind.
    pub(super) fn nothing(left: ShardId, right: ShardId) -> Self {
        Self { left, right, state: None, frozen_at: None }
    }
}

/// Pending requests of a shard that a merge has absorbed.
#[derive(Debug)]
pub struct PendingRequestsHandover {
    /// The shard that takes them over.
    pub left: ShardId,
    /// What.
    pub legacy: RequestHandover,
}

/// A shard that a merge has absorbed.
#[derive(Clone, Debug)]
pub struct MergedShard {
    /// The shard that has absorbed it,
    pub left: ShardId,
    /// and, if a replica here gave it what it held, by which entry of that one.
    pub at: Option<u64>,
    /// Its first slot or key; slot 0 if it was not here.
    first: Cut,
}

/// The shards that others have taken in whose end a restart of this node must know: none of their
/// replicas may begin here.
#[derive(Debug, Default)]
pub(super) struct AbsorbedEnds {
    /// Which shard took it in, of each.
    by: BTreeMap<ShardId, ShardId>,
    /// The newest group of the log that holds one of their records …
    written: u64,
    /// … and the newest that is on disk.
    durable: u64,
}

impl AbsorbedEnds {
    /// Writes a shard's record into the group of this ticket.
    fn add(&mut self, right: ShardId, left: ShardId, ticket: u64, records: &mut Records) {
        self.by.insert(right, left);
        self.write(right, left, ticket, records);
    }

    fn write(&mut self, right: ShardId, left: ShardId, ticket: u64, records: &mut Records) {
        push(records, right, record::SHARD_ABSORBED, &[&left.0.to_le_bytes()]);
        self.written = ticket;
    }

    /// Writes all of them again.
    pub(super) fn write_all(&mut self, ticket: u64, records: &mut Records) {
        for (right, left) in std::mem::take(&mut self.by) {
            self.add(right, left, ticket, records);
        }
    }

    /// All groups of the log up to this ticket are on disk.
    pub(super) fn durable(&mut self, ticket: u64) {
        self.durable = self.durable.max(ticket);
    }

    /// Whether all that was written is on disk.
    pub(super) fn are_durable(&self) -> bool {
        self.written <= self.durable
    }

    /// The shard's keyspace was dropped. Whether there was a record.
    pub(super) fn remove(&mut self, right: ShardId) -> bool {
        self.by.remove(&right).is_some()
    }
}

/// Reads the payload of a record that names the shard which has absorbed this one.
///
/// # Errors
/// [`DecodeError`] if it is something else.
pub fn decode_merged(payload: &[u8]) -> Result<ShardId, DecodeError> {
    let mut reader = Reader::new(payload);
    let left = ShardId(reader.u64()?);
    reader.end()?;
    Ok(left)
}

impl ShardExecutor {
    /// Adopts the record that `left` absorbed `right` before the node started. No replica of
    /// `right` begins here again.
    pub fn adopt_merged(&mut self, right: ShardId, left: ShardId) {
        self.ended.insert(right);
        self.merged_ends.by.insert(right, left);
    }

    /// Another shard has taken this one in, as what is known here shows, though no record says so:
    /// a node of an older version has cut it from the log.
    pub(super) fn note_absorbed(&mut self, right: ShardId, left: ShardId) {
        if !self.has_had(right) {
            self.ended.insert(right);
            self.merged_ends.add(right, left, self.next_ticket, &mut self.pending.records);
        }
    }

    /// A shard whose replica here has ended, and that had this place then.
    pub fn ended_with(&self, place: &Position) -> Option<ShardId> {
        let mut ended = self.ended_replicas.iter();
        ended.find(|(_, ended)| ended.arc.contains(place)).map(|(shard, _)| *shard)
    }

    /// Whether a replica of another shard, which has ended here, had this one's first place later.
    /// A shard that was split off from that one since would have a higher generation.
    pub fn has_outlived(&self, descriptor: &Descriptor) -> bool {
        let Descriptor { shard, generation, arc, .. } = descriptor;
        let mut ended = self.ended_replicas.iter().filter(|(other, _)| *other != shard);
        ended.any(|(_, one)| one.generation > *generation && one.arc.contains(arc.start()))
    }

    /// A replica of this executor is to give up what it holds.
    pub(super) fn request_handover(&mut self, left: ShardId, at: u64, absorb: &Absorb) {
        let Absorb { right, index, term } = *absorb;
        let is_here = self
            .touch(right)
            .is_some_and(|shard| shard.request_handover((left, at), (index, term)));
        if !is_here {
            self.pending.given.push(MergeHandover::nothing(left, right));
        }
    }

    /// After a shard's turn: if it can give up what it holds, it does, and ends.
    pub(super) fn give_up(&mut self, right: ShardId, effects: &mut Effects) {
        let Some(shard) = self.shards.get(&right) else { return };
        let Some((left, at)) = shard.surrenders() else { return };
        let frozen_at = shard.halted_since();
        let (state, legacy) = self.end_merged_replica(right, left, Some(at), effects);
        effects.given.push(MergeHandover { left, right, state, frozen_at });
        effects
            .pending_requests
            .extend(legacy.map(|legacy| PendingRequestsHandover { left, legacy }));
    }

    /// The lookup knows that a shard is gone, and who has its first place by now.
    /// What it knows may be from before a replica that ended here: then this is to be replaced,
    /// and nobody has taken its shard in. Nor has anybody if it is from before what was heard of
    /// the shard itself.
    pub(super) fn supersede(
        &mut self,
        right: ShardId,
        (left, generation): (ShardId, Generation),
        effects: &mut Effects,
    ) {
        let ended = self.ended_replicas.get(&right);
        let heard =
            self.remote_shards.get(&right).and_then(Proxy::known).map(KnownShard::generation);
        let ended = ended.map(|ended| ended.generation);
        if heard.max(ended).is_some_and(|newest| newest >= generation) {
            return;
        }
        let (_, legacy) = self.end_merged_replica(right, left, None, effects);
        effects
            .pending_requests
            .extend(legacy.map(|legacy| PendingRequestsHandover { left, legacy }));
        if let Some(mut proxy) = self.remote_shards.remove(&right) {
            let legacy = proxy.hand_over_requests(effects);
            effects.pending_requests.push(PendingRequestsHandover { left, legacy });
        }
    }

    fn end_merged_replica(
        &mut self,
        right: ShardId,
        left: ShardId,
        at: Option<u64>,
        effects: &mut Effects,
    ) -> (Option<Box<ShardState>>, Option<RequestHandover>) {
        let shard = self.shards.remove(&right);
        let had_ended = self.ended_replicas.remove(&right).is_some();
        if shard.is_some() || had_ended {
            self.merged_ends.add(right, left, self.next_ticket, &mut effects.records);
            // A round of checkpoints waits for it, and installations of snapshots for the round.
            effects.sync = true;
            self.ended.insert(right);
        }
        let first = |shard: &crate::replica::Replica| shard.view().read().descriptor.arc.ends().0;
        let first = shard.as_deref().map_or(Cut::Slot(0), first);
        self.absorbed.entry(right).or_insert(MergedShard { left, at, first });
        let Some(mut shard) = shard else { return (None, None) };
        self.ended_counters = self.ended_counters.and(shard.counters(self.now));
        let (state, legacy) = shard.end_as_right(effects);
        (Some(state), Some(legacy))
    }

    /// What was sent to a shard that this one has taken in.
    pub(super) fn take_over_requests(&mut self, id: ShardId, inherited: InheritedSession) {
        if let Some(shard) = self.touch(id) {
            return shard.take_over_requests(inherited);
        }
        if let Some((proxy, _)) = self.touch_remote(id) {
            proxy.take_over_requests(inherited);
        }
    }

    /// Commands for a shard that is not here: they are another's, if it is gone.
    pub(super) fn reroute_commands(&mut self, id: ShardId, origin: Origin, batch: Batch) {
        let Some(MergedShard { first: from, .. }) = self.absorbed.get(&id).cloned() else {
            return self.refuse(id, origin, batch.into_parts().1);
        };
        let (bytes, waiters) = batch.into_parts();
        let replies = waiters.iter().map(|_| Reply::Moved { from: from.clone() }).collect();
        answer_applied(id, origin, Spent { bytes, waiters }, replies, &mut self.pending);
    }

    /// Shards of this executor absorbed since the node started. An older checkpoint of the left
    /// shard is not valid any more.
    pub fn merged_shards(&self) -> impl Iterator<Item = (ShardId, MergedShard)> {
        self.absorbed.iter().map(|(right, absorbed)| (*right, absorbed.clone()))
    }

    /// The shard that has absorbed this one, if any.
    pub fn merged_into(&self, shard: ShardId) -> Option<ShardId> {
        let since_start = self.absorbed.get(&shard).map(|absorbed| absorbed.left);
        since_start.or_else(|| self.merged_ends.by.get(&shard).copied())
    }
}
