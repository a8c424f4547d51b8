//! Do all replicas hold the same? The leader has them digest their states as of one entry, and
//! compares (SAFETY G13).
//!
//! ```text
//!   leader: due ─► entry Check ─► applied ─► its own digest ┐
//!   followers:                    applied ─► digests ───────┴─► all here, or time over: Finding
//!
//!   2 of 3 agree:    the third is told, and quarantines itself (even if it is the leader)
//!   no majority:     no replica can be trusted more; an event reports it
//! ```
//!
//! A replica without a digest is not judged. A new leader checks soon, and so does one whose
//! members have just changed; others check once a period. Nothing is logged but the entry: the next
//! leader starts anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::{NodeId, ReplicaId, ShardId};
use parking_lot::RwLock;
use replication::BootNanos;

use super::Replica;
use crate::event::EventKind;
use crate::executor::{Effects, RoundContext};
use crate::replica::digest::Digesting;
use crate::replica::entry::{Kind, operation};
use crate::replica::state::ShardState;
use crate::rpc::message::RpcMessage;
use crate::rpc::notice::ReplicaNotice;

/// How long replicas have for their digests.
const DIGEST_TIMEOUT_NANOS: u64 = 120_000_000_000;
/// How long after a change a leader asks, as a part of the period.
const SOON: u64 = 10;

/// What comparing replicas has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaComparison {
    /// Of which shard.
    pub shard: ShardId,
    /// As of this entry.
    pub index: u64,
    /// Replicas that agree: a majority of the voters among them, unless `differing` has others.
    pub agreeing: Vec<ReplicaId>,
    /// Replicas that differ. If `agreeing` is empty, no state is known to be right.
    pub differing: Vec<ReplicaId>,
}

/// Why a replica takes no part any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaEndReason {
    /// Its disk holds less than it had promised.
    LostLog,
    /// Its state is another than that of a majority.
    Differs,
    /// Its shard has taken a neighbour in of which nothing was here ([`crate::reshape::merge`]).
    MissingMergeState,
    /// It is sound: its group has removed it.
    Removed,
    /// It was found so before the node started.
    Before,
}

/// What a replica knows of comparing.
#[derive(Debug, Default)]
pub(super) struct ConsistencyChecks {
    /// When it is to ask, if it leads; 0: not chosen yet.
    due: BootNanos,
    /// Whether the entry is on its way.
    is_proposed: bool,
    asked: Option<DigestRound>,
    /// Whether a digest is under way here: one at a time.
    is_digesting: bool,
    /// What was found last.
    last: Option<ReplicaComparison>,
    /// Others hold another state than this replica.
    pub(super) differs: bool,
}

#[derive(Debug)]
struct DigestRound {
    index: u64,
    /// Since which turn; 0: the next.
    since: BootNanos,
    digests: BTreeMap<ReplicaId, u128>,
}

impl ConsistencyChecks {
    /// The entry is applied here, by its leader if `leads`; `state` is that of `view`.
    pub fn begin(
        &mut self,
        replica: ReplicaId,
        leads: bool,
        view: &Arc<RwLock<ShardState>>,
        state: &mut ShardState,
    ) -> Option<Digesting> {
        self.is_proposed = false;
        if self.is_digesting {
            return None;
        }
        let digesting = Digesting::begin(replica, view, state)?;
        self.is_digesting = true;
        if leads {
            let index = state.applied_index;
            self.asked = Some(DigestRound { index, since: 0, digests: BTreeMap::new() });
        }
        Some(digesting)
    }
}

impl Replica {
    /// In a turn: asks if it is time, and judges if all have answered.
    pub(super) fn check(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if !self.leads() || self.is_sole() {
            self.checks.due = 0;
            (self.checks.is_proposed, self.checks.asked) = (false, None);
            return;
        }
        self.judge(turn.now, effects);
        let members = self.group.members();
        let is_quiet = members.learners.is_empty() && !members.is_joint();
        if turn.check_every == 0 || !is_quiet {
            self.checks.due = 0;
            return;
        }
        if self.checks.due == 0 {
            // Not all shards at one moment.
            let spread = self.id.0.wrapping_mul(7_919) % SOON;
            self.checks.due = turn.now + turn.check_every / SOON * (1 + spread) / SOON;
        }
        let is_free = !self.checks.is_proposed && self.checks.asked.is_none();
        if is_free && turn.now >= self.checks.due && !self.group.is_transferring() {
            self.checks.due = turn.now + turn.check_every;
            self.checks.is_proposed = true;
            self.operate(Kind::Check, operation(&[]), None);
        }
    }

    /// The digest of the replica here is done, or came to nothing.
    pub(crate) fn digested(&mut self, index: u64, digest: Option<u128>, effects: &mut Effects) {
        self.checks.is_digesting = false;
        let (replica, Some(digest)) = (self.replica, digest) else { return };
        if self.group.is_leader() {
            return self.compare(replica, index, digest);
        }
        if let Some(leader) = self.leader() {
            let notice = ReplicaNotice::Digest { replica, index, digest };
            effects.rpcs.push((leader, RpcMessage::Notice { shard: self.id, notice }));
        }
    }

    /// Another replica says something about itself, or about this one.
    pub(super) fn handle_notice(&mut self, from: NodeId, notice: ReplicaNotice) {
        match notice {
            ReplicaNotice::Digest { replica, index, digest } => {
                self.compare(replica, index, digest)
            }
            ReplicaNotice::Differs { replica, .. } => {
                self.checks.differs |= replica == self.replica
            }
            ReplicaNotice::Quarantined { replica } => self.lacks(replica, from),
        }
    }

    fn compare(&mut self, replica: ReplicaId, index: u64, digest: u128) {
        if let Some(asked) = self.checks.asked.as_mut().filter(|asked| asked.index == index) {
            asked.digests.insert(replica, digest);
        }
    }

    #[inline(never)]
    fn judge(&mut self, now: BootNanos, effects: &mut Effects) {
        let Some(asked) = &mut self.checks.asked else { return };
        if asked.since == 0 {
            asked.since = now;
        }
        let all = self.group.members().all();
        let answered = all.iter().all(|replica| asked.digests.contains_key(replica));
        if !answered && asked.since.saturating_add(DIGEST_TIMEOUT_NANOS) > now {
            return;
        }
        let Some(DigestRound { index, digests, .. }) = self.checks.asked.take() else { return };
        let finding = self.finding(index, &digests);
        let has_majority = !finding.agreeing.is_empty();
        for replica in finding.differing.iter().copied().filter(|_| has_majority) {
            if replica == self.replica {
                self.checks.differs = true;
                continue;
            }
            let node = self.state.read().descriptor.node_of(replica);
            let notice = ReplicaNotice::Differs { replica, index };
            let rpc = RpcMessage::Notice { shard: self.id, notice };
            effects.rpcs.extend(node.map(|node| (node, rpc)));
        }
        self.checks.last = Some(finding.clone());
        let places = self.state.read().descriptor.replicas.clone();
        effects.events.push(EventKind::ReplicasCompared { finding: finding.clone(), places });
        effects.findings.push(finding);
    }

    /// Who agrees with whom.
    fn finding(&self, index: u64, digests: &BTreeMap<ReplicaId, u128>) -> ReplicaComparison {
        let members = self.group.members();
        let who = |same: bool, digest: u128| {
            let found = digests.iter().filter(|(_, other)| (**other == digest) == same);
            found.map(|(replica, _)| *replica).collect::<Vec<_>>()
        };
        let is_majority = |digest: &&u128| {
            let has = |replica| u64::from(digests.get(&replica) == Some(*digest));
            members.majority_of(has) == Some(1)
        };
        let (shard, all) = (self.id, digests.keys().copied().collect::<Vec<_>>());
        match (digests.values().find(is_majority), digests.values().next()) {
            (Some(digest), _) => {
                let (agreeing, differing) = (who(true, *digest), who(false, *digest));
                ReplicaComparison { shard, index, agreeing, differing }
            }
            // Too few have answered, and those that have agree.
            (None, Some(first)) if who(false, *first).is_empty() => {
                ReplicaComparison { shard, index, agreeing: all, differing: Vec::new() }
            }
            (None, _) => ReplicaComparison { shard, index, agreeing: Vec::new(), differing: all },
        }
    }

    /// What comparing the replicas has shown last, if this one leads.
    pub(super) fn last_finding(&self) -> Option<&ReplicaComparison> {
        self.checks.last.as_ref().filter(|_| self.leads())
    }
}
