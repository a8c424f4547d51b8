//! Which shards have lost their majority for good, and from which replica can each go on?
//!
//! ```text
//!   a stopped node's directory ─► Survivor ─┐
//!                another one's ─► Survivor ─┼─► plan ─► Plan ─► records for each node's log
//!                another one's ─► Survivor ─┘
//! ```
//!
//! **The choice.** Of the surviving replicas it takes the one with the greatest last term, then the
//! longest log, as Raft's voters would. That one has every committed entry that any survivor has.
//! So it loses nothing that is left anywhere. A learner may be chosen: its log is its leader's as
//! well. The chosen replica becomes the only voter, its whole log counts, and the others end.
//!
//! **What may be lost.** A write that only lost replicas acknowledged. That takes a majority of
//! lost ones, so the plan says for each shard whether it is possible. How much is lost cannot be
//! known, only how far the chosen log reaches.
//!
//! **Which shards, and how much of them?** A node that was away may have a replica of a shard from
//! before it was merged or split. It does not take back what newer shards have (`newer`).
//!
//! **Which members count?** A replica's log does not show how much of it is committed. So a change
//! of members at its end may be in force or not. The plan leaves a shard alone only if the
//! survivors are a majority either way. Going on from one replica although others might have agreed
//! is safe: it has all that they have.
//!
//! Invariants:
//! 1. A plan follows from the survivors' data, in any order.
//! 2. A recovered shard has terms, generations and ids above all that survivors know, by [`LEAP`].
//!    So a node that was left out has older ones. The full table tells it so, and it ends its
//!    replica, once it reaches one of the others. So are the ids that a recovered catalogue gives
//!    out: no two shards have one id.
//! 3. Records are made only for a log that still ends where the plan saw it end, or for none, if
//!    the plan was already carried out there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use keyspace::{
    Arc, Cut, Descriptor, Generation, KeyspaceId, NodeId, Position, ReplicaId, SLOTS, ShardId,
    Slot, Timestamp,
};
pub use replication::Members;
use storage::engine::Layout;
use storage::log::Lsn;

use crate::recovery::{RecoveringReplica, ReplayResult};
use crate::replica::SYSTEM;
use crate::replica::record::{self, Recovered};
use crate::replica::state::Content;

mod newer;
mod refused;
#[cfg(test)]
mod tests;

use newer::Kept;
pub use refused::RecoveryRefused;

/// So far above what survivors know are terms, generations and ids of replicas afterwards: those
/// that are lost may have known of greater ones.
pub const LEAP: u64 = 1_000_000;

/// What a stopped node's directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its cluster.
    pub cluster: u64,
    /// The node.
    pub node: NodeId,
    /// Where its log ends.
    pub log_end: Lsn,
    /// Its replicas that take part.
    pub replicas: BTreeMap<ShardId, SurvivingReplica>,
    /// Those that have ended: which, and whether their groups went on without them; else they are
    /// quarantined.
    pub ended: BTreeMap<ShardId, (ReplicaId, bool)>,
    /// The content of its catalogue, if it has one.
    pub catalogue: Option<KeyspaceNames>,
}

/// A surviving replica of a shard, on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivingReplica {
    /// Which.
    pub replica: ReplicaId,
    /// The keyspace it is of.
    pub keyspace: KeyspaceId,
    /// Its slots, from the first up to, not including, the second, if it is hashed.
    pub slots: Option<(Slot, Slot)>,
    /// Where its part begins and ends, behind the keyspace's id, at the end of its log.
    pub ends: (Vec<u8>, Vec<u8>),
    /// Replicas it knows of, and where they are.
    pub placed: Vec<(ReplicaId, NodeId)>,
    /// The generation at the end of its log.
    pub generation: Generation,
    /// The greatest id of a replica that it knows of.
    pub newest: ReplicaId,
    /// The newest term it knows of.
    pub term: u64,
    /// The replica that it voted for in that, or 0.
    pub vote: u64,
    /// What it knows to be committed.
    pub commit: u64,
    /// What a start would apply at once. 0: it waits for its first state, and holds nothing.
    pub applied: u64,
    /// Term and index of the last entry of its log.
    pub last: (u64, u64),
    /// The newest timestamp in it.
    pub last_at: Timestamp,
    /// The members, as of what is applied.
    pub members: Members,
    /// What the changes behind that make of them, and where they stand.
    pub changes: Vec<(u64, Members)>,
}

/// The keyspace names of a catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceNames {
    /// The ids that the next keyspace and its first shard would get.
    pub next_ids: (KeyspaceId, ShardId),
    /// The keyspaces.
    pub keyspaces: Vec<Named>,
}

/// A keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its id.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// Its shards, with their slots if it is hashed.
    pub shards: Vec<(ShardId, Option<(Slot, Slot)>)>,
}

/// What to do on the surviving nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// The cluster.
    pub cluster: u64,
    /// The nodes that are left, and where their logs ended.
    pub nodes: BTreeMap<NodeId, Lsn>,
    /// Nodes that survivors name, and that are not among them: taken to be lost for good.
    pub lost: BTreeSet<NodeId>,
    /// Shards that go on from one replica.
    pub shards: Vec<ShardRecovery>,
    /// Shards without any surviving replica.
    pub lost_shards: Vec<LostShard>,
    /// Shards of keyspaces that the surviving catalogue does not know. The plan leaves them as they
    /// are, and they end when their nodes start.
    pub nameless: Vec<ShardId>,
    /// How many shards have a majority, and are left alone.
    pub sound: usize,
}

/// A shard that goes on from one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecovery {
    /// Which, and of what.
    pub shard: LostShard,
    /// From which replica, and how.
    pub record: Recovered,
    /// Replicas on other nodes that end.
    pub removed: Vec<(NodeId, ReplicaId)>,
    /// How many voters are left, and of how many.
    pub voters: (usize, usize),
    /// Entries behind this one may never have been committed. They count from now on.
    pub committed: u64,
    /// When the newest entry of its log was written.
    pub last_at: Timestamp,
    /// Whether a write may have been acknowledged that has reached no survivor.
    pub may_miss: bool,
    /// Where the shard ends; none: at the end of its keyspace.
    pub end: Option<Cut>,
}

/// A shard by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostShard {
    /// Which.
    pub shard: ShardId,
    /// Its keyspace; none of the catalogue itself.
    pub keyspace: Option<String>,
    /// Its slots, if it is hashed.
    pub slots: Option<(Slot, Slot)>,
}

impl Survivor {
    /// A node whose directory was read like this.
    pub fn new(cluster: u64, node: NodeId, log_end: Lsn, found: ReplayResult) -> Self {
        let mut catalogue = None;
        let mut replicas = BTreeMap::new();
        for (shard, mut recovering) in found.shards {
            let remains = SurvivingReplica::new(&mut recovering);
            if let Content::System(system) = &recovering.state().content
                && remains.applied > 0
            {
                let keyspaces = system.catalogue.iter().map(|keyspace| {
                    let tiles = keyspace.tiles().map(|(shard, arc)| (shard, arc.slots()));
                    let is_hashed = keyspace.options.placement == keyspace::Placement::Hashed;
                    let slots =
                        |(shard, slots): (_, Option<_>)| (shard, slots.filter(|_| is_hashed));
                    let shards = tiles.map(slots).collect();
                    Named { id: keyspace.id, name: keyspace.name.to_string(), shards }
                });
                let keyspaces = keyspaces.collect();
                catalogue =
                    Some(KeyspaceNames { next_ids: system.catalogue.next_ids(), keyspaces });
            }
            replicas.insert(shard, remains);
        }
        let ended = found.ended.into_iter();
        let ended = ended.map(|(shard, one)| (shard, (one.replica, one.is_removed()))).collect();
        Self { cluster, node, log_end, replicas, ended, catalogue }
    }
}

impl SurvivingReplica {
    /// A replica as it was read; all its log is applied then.
    fn new(found: &mut RecoveringReplica) -> Self {
        let (replica, hard_state) = (found.replica(), found.hard_state());
        let before = found.state();
        let (applied, members) = (before.applied_index, before.members.clone());
        let mut placed = before.descriptor.replicas.clone();
        let changes = found.take_all();
        let state = found.state();
        let descriptor = &state.descriptor;
        placed.extend_from_slice(&descriptor.replicas);
        placed.sort_unstable();
        placed.dedup();
        let last = (state.applied_term, state.applied_index);
        let slots = match state.engine().map(|engine| engine.layout()) {
            Some(Layout::Hashed { first_slot, end_slot }) => Some((first_slot, end_slot)),
            Some(Layout::Ordered | Layout::LinearHash) | None => None,
        };
        Self {
            replica,
            keyspace: descriptor.keyspace(),
            slots,
            ends: (descriptor.arc.start().tail().into(), descriptor.arc.end().tail().into()),
            placed,
            generation: descriptor.generation,
            newest: state.roster.newest.max(replica),
            term: hard_state.term.max(last.0),
            vote: if hard_state.term >= last.0 { hard_state.vote } else { 0 },
            commit: hard_state.commit.clamp(applied, last.1.max(applied)),
            applied,
            last,
            last_at: state.last,
            members,
            changes,
        }
    }

    /// Whether it has anything to go on from.
    fn is_whole(&self) -> bool {
        self.applied > 0
    }

    /// Its shard's part of the keyspace, at the end of its log.
    fn arc(&self) -> Option<Arc> {
        let at = |tail: &[u8]| Position::at(self.keyspace, tail);
        Arc::new(at(&self.ends.0), at(&self.ends.1)).ok()
    }

    /// The members that may be in force if this much is committed.
    fn possible(&self, committed: u64) -> Vec<&Members> {
        let in_force = self.changes.iter().rfind(|(index, _)| *index <= committed);
        let later = self.changes.iter().filter(|(index, _)| *index > committed);
        let first = in_force.map_or(&self.members, |(_, members)| members);
        [first].into_iter().chain(later.map(|(_, members)| members)).collect()
    }
}

/// What is left of one shard: nodes and replicas.
type Left<'a> = Vec<(NodeId, &'a SurvivingReplica)>;

/// The one with the most: what any of them knows to be committed it has.
fn fullest<'a>(left: &Left<'a>) -> Option<(NodeId, &'a SurvivingReplica)> {
    let whole = left.iter().filter(|(_, remains)| remains.is_whole());
    let key = |(node, remains): &&(NodeId, &SurvivingReplica)| {
        (remains.last, remains.members.votes(remains.replica), Reverse((remains.replica, *node)))
    };
    whole.max_by_key(key).copied()
}

/// Whether these are more than half of both halves of the members.
fn is_majority(members: &Members, of: impl Fn(ReplicaId) -> bool) -> bool {
    members.majority_of(|replica| u64::from(of(replica))) == Some(1)
}

/// What to do about the shards that have lost their majority, if these are all that are left.
///
/// # Errors
/// [`RecoveryRefused`].
pub fn plan(survivors: &[Survivor]) -> Result<RecoveryPlan, RecoveryRefused> {
    let first = survivors.first().ok_or(RecoveryRefused::Nobody)?;
    let mut nodes = BTreeMap::new();
    let mut shards: BTreeMap<ShardId, Left<'_>> = BTreeMap::new();
    for survivor in survivors {
        let Survivor { node, cluster, .. } = *survivor;
        if cluster != first.cluster {
            return Err(RecoveryRefused::Clusters { node, cluster, other: first.cluster });
        }
        if nodes.insert(node, survivor.log_end).is_some() {
            return Err(RecoveryRefused::Twice { node });
        }
        for (shard, remains) in &survivor.replicas {
            shards.entry(*shard).or_default().push((node, remains));
        }
    }
    let (at, _) = shards.get(&SYSTEM).and_then(fullest).ok_or(RecoveryRefused::NoCatalogue)?;
    let holder = survivors.iter().find(|survivor| survivor.node == at);
    let names =
        holder.and_then(|holder| holder.catalogue.as_ref()).ok_or(RecoveryRefused::NoCatalogue)?;

    let kept = newer::kept(&shards);
    let placed = shards.values().flatten().flat_map(|(_, remains)| &remains.placed);
    let lost = placed.map(|(_, node)| *node).filter(|node| !nodes.contains_key(node)).collect();
    let mut plan = RecoveryPlan {
        cluster: first.cluster,
        nodes,
        lost,
        shards: Vec::new(),
        lost_shards: names.lost_shards(&kept),
        nameless: Vec::new(),
        sound: 0,
    };
    let mut next_ids = names.next_ids_after(survivors);
    for (shard, left) in &shards {
        let Some(kept) = kept.get(shard) else { continue };
        let remains = kept.remains;
        let name = names.of(remains.keyspace);
        if remains.keyspace != KeyspaceId(0) && name.is_none() {
            // Below, it was dropped, and ends when its node starts.
            if remains.keyspace >= names.next_ids.0 {
                plan.nameless.push(*shard);
                next_ids.0 = KeyspaceId(remains.keyspace.0 + 1).max(next_ids.0);
            }
            continue;
        }
        let keyspace = name.map(|named| named.name.clone());
        let named = LostShard { shard: *shard, keyspace, slots: remains.slots };
        let Some(recovery) = recover_shard(named, left, kept) else {
            plan.sound += 1;
            continue;
        };
        if let Some(newer) = kept.beside.clone() {
            return Err(RecoveryRefused::SplitSince { shard: *shard, node: kept.node, newer });
        }
        plan.shards.push(recovery);
    }
    for recovery in plan.shards.iter_mut().filter(|recovery| recovery.shard.shard == SYSTEM) {
        recovery.record.next_ids = next_ids;
    }
    match plan.shards.is_empty() && plan.lost_shards.is_empty() {
        true => Err(RecoveryRefused::Sound { shards: plan.sound }),
        false => Ok(plan),
    }
}

/// How a shard goes on from this replica; none if it still has a majority.
fn recover_shard(shard: LostShard, left: &Left<'_>, kept: &Kept<'_>) -> Option<ShardRecovery> {
    let (node, from) = (kept.node, kept.remains);
    let committed = left.iter().map(|(_, remains)| remains.commit.max(remains.applied)).max();
    let committed = committed.unwrap_or(0).min(from.last.1);
    let possible = from.possible(committed);
    let is_left = |replica| left.iter().any(|(_, remains)| remains.replica == replica);
    // An earlier plan was carried out on a replica that has less: it has overruled these members.
    let overruled_from = from.generation.0 + LEAP / 2;
    let is_overruled = left.iter().any(|(_, one)| one.generation.0 > overruled_from);
    if !is_overruled && possible.iter().all(|members| is_majority(members, is_left)) {
        return None;
    }
    let may_miss = possible.iter().any(|members| is_majority(members, |one| !is_left(one)));
    let voters = possible.last().map(|members| &members.voters[..]).unwrap_or_default();
    let above = |known: &dyn Fn(&SurvivingReplica) -> u64| {
        left.iter().map(|(_, remains)| known(remains)).max().unwrap_or(0) + LEAP
    };
    let record = Recovered {
        replica: from.replica,
        node,
        index: from.last.1,
        term: above(&|remains| remains.term),
        generation: Generation(above(&|remains| remains.generation.0)),
        newest: ReplicaId(above(&|remains| remains.newest.0)),
        next_ids: Default::default(),
        cut: kept.cut.clone(),
    };
    let others = left.iter().filter(|(at, _)| *at != node);
    Some(ShardRecovery {
        shard,
        record,
        removed: others.map(|(at, remains)| (*at, remains.replica)).collect(),
        voters: (voters.iter().filter(|voter| is_left(**voter)).count(), voters.len()),
        committed,
        last_at: from.last_at,
        may_miss,
        end: (!kept.arc.end().is_origin()).then(|| kept.arc.ends().1),
    })
}

impl KeyspaceNames {
    fn of(&self, id: KeyspaceId) -> Option<&Named> {
        self.keyspaces.iter().find(|named| named.id == id)
    }

    /// The ids that the next keyspace and its first shard get. The catalogue may have forgotten
    /// that it gave ids out, also for halves of shards that it knows. Survivors have some of these
    /// shards; others have ended, begin with an entry that is not applied yet, or are elsewhere.
    fn next_ids_after(&self, survivors: &[Survivor]) -> (KeyspaceId, ShardId) {
        let (keyspace, next) = self.next_ids;
        let seen = survivors.iter().flat_map(|one| one.replicas.keys().chain(one.ended.keys()));
        let above = seen.map(|shard| shard.0 + 1).max().unwrap_or(0).max(next.0);
        (keyspace, ShardId(above + LEAP))
    }

    /// The shards of which nothing is left, and which no shard that is left has absorbed.
    fn lost_shards(&self, kept: &BTreeMap<ShardId, Kept<'_>>) -> Vec<LostShard> {
        let has = |place: &Position| kept.values().any(|one| one.arc.contains(place));
        let all = self.keyspaces.iter().flat_map(|named| {
            let with_name = |(shard, slots): &(ShardId, Option<(Slot, Slot)>)| LostShard {
                shard: *shard,
                keyspace: Some(named.name.clone()),
                slots: *slots,
            };
            let is_lost = |(shard, slots): &&(ShardId, Option<(Slot, Slot)>)| {
                let first = slots.map_or(0, |(first, _)| first.min(SLOTS));
                !kept.contains_key(shard) && !has(&Position::slot_start(named.id, first))
            };
            named.shards.iter().filter(is_lost).map(with_name)
        });
        all.collect()
    }
}

impl RecoveryPlan {
    /// The records that a node's log is to get, each with its shard and kind; none if it has them
    /// already. The node's directory was read like this.
    ///
    /// # Errors
    /// [`RecoveryRefused`].
    pub fn records(
        &self,
        (cluster, node): (u64, NodeId),
        log_end: Lsn,
        found: &ReplayResult,
    ) -> Result<Vec<(ShardId, u8, Vec<u8>)>, RecoveryRefused> {
        if cluster != self.cluster {
            return Err(RecoveryRefused::OtherCluster { node, cluster, planned: self.cluster });
        }
        let planned = *self.nodes.get(&node).ok_or(RecoveryRefused::NotInPlan { node })?;
        let changed = RecoveryRefused::Changed { node, planned, found: log_end };
        let mut records = Vec::new();
        for recovery in &self.shards {
            let ShardRecovery { shard, record, removed, .. } = recovery;
            let shard = shard.shard;
            let here = found.shards.get(&shard);
            let has_ended = |replica: ReplicaId| {
                let ended = found.ended.get(&shard).is_some_and(|ended| ended.replica >= replica);
                ended || found.dropped.contains(&shard)
            };
            let is_past = |one: &RecoveringReplica| {
                let generation = one.state().descriptor.generation;
                generation >= record.generation
            };
            if record.node == node {
                match here {
                    Some(one) if is_past(one) => {}
                    None if has_ended(record.replica) => {}
                    None => return Err(changed),
                    Some(_) => {
                        records.push((shard, record::REPLICA_RECOVERED, record.encode()));
                    }
                }
            } else if let Some((_, replica)) = removed.iter().find(|(at, _)| *at == node)
                && let Some(one) = here.filter(|one| one.replica() <= *replica && !is_past(one))
            {
                records.push((shard, record::REPLICA_REMOVED, end_of(one, recovery)));
            }
        }
        match records.is_empty() || log_end == planned {
            true => Ok(records),
            false => Err(changed),
        }
    }
}

/// The record that a replica has ended, for its shard has gone on so.
fn end_of(one: &RecoveringReplica, ShardRecovery { record, end, .. }: &ShardRecovery) -> Vec<u8> {
    let state = one.state();
    let arc = &state.descriptor.arc;
    // The replica may lag behind a split: then its own arc reaches farther.
    let cut = end.as_ref().and_then(|end| arc.split(&end.position(arc.keyspace())));
    let descriptor = Descriptor {
        arc: cut.map_or_else(|| arc.clone(), |(kept, _)| kept),
        replicas: vec![(record.replica, record.node)],
        generation: record.generation,
        leader: Some(record.replica),
        ..state.descriptor.clone()
    };
    // The placement, which stands before the descriptor, is as it was.
    let mut bootstrap = state.bootstrap_record();
    bootstrap.truncate(1);
    descriptor.encode(&mut bootstrap);
    [&one.replica().0.to_le_bytes()[..], &bootstrap].concat()
}
