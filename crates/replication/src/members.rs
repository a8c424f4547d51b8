//! Which replicas are members of a group, and how that changes (Raft dissertation, chapter 4).
//!
//! ```text
//!   {1}  ──AddLearners(2,3)──►  {1} + learners 2,3  ──Enter(promote 2,3)──►  {1} and {1,2,3}
//!                                                                                │
//!                                    {1,2,3}  ◄────────────Leave─────────────────┘
//! ```
//! While a change is under way (*joint*), majorities of both the outgoing and the new voters count
//! for everything: commits, elections, leases. So several replicas change at once, and no step
//! between survives less than before (SAFETY G20).

use keyspace::ReplicaId;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
};

/// The replicas of a group, each list in rising order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Replicas that vote: their majority decides.
    pub voters: Vec<ReplicaId>,
    /// Replicas that follow the log without a vote.
    pub learners: Vec<ReplicaId>,
    /// While joint, the voters before the change: their majority decides as well.
    pub outgoing: Vec<ReplicaId>,
    /// While joint, outgoing voters that will be learners.
    pub learners_next: Vec<ReplicaId>,
}

/// One step of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New replicas follow the log, until they are near its end.
    AddLearners(Vec<ReplicaId>),
    /// The group becomes joint: these learners will vote, those replicas will go.
    EnterJoint {
        /// Learners that become voters.
        promote: Vec<ReplicaId>,
        /// Replicas that end.
        remove: Vec<ReplicaId>,
    },
    /// The change is done; the outgoing voters no longer count.
    LeaveJoint,
}

impl Members {
    /// A group of these voters and no other replicas.
    pub fn of_voters(voters: &[ReplicaId]) -> Self {
        let mut voters = voters.to_vec();
        voters.sort_unstable();
        Self { voters, ..Self::default() }
    }

    /// Whether a change is under way, so that two majorities count.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether this replica votes, in either set.
    pub fn votes(&self, replica: ReplicaId) -> bool {
        self.voters.contains(&replica) || self.outgoing.contains(&replica)
    }

    /// Whether this replica is the only member.
    pub fn is_sole(&self, replica: ReplicaId) -> bool {
        self.voters == [replica] && self.learners.is_empty() && self.outgoing.is_empty()
    }

    /// How many replicas besides the leader surely have all committed entries: a majority does.
    /// While joint, earlier entries had one majority only.
    pub fn least_others(&self) -> usize {
        let (new, outgoing) = (self.voters.len() / 2, self.outgoing.len() / 2);
        if self.is_joint() { new.min(outgoing) } else { new }
    }

    /// All replicas, each once, in rising order.
    pub fn all(&self) -> Vec<ReplicaId> {
        let lists = [&self.voters, &self.learners, &self.outgoing, &self.learners_next];
        let mut all: Vec<_> = lists.into_iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The largest number that a majority has reached: of the voters and, while joint, of the
    /// outgoing voters too. `None` without voters.
    pub fn majority_of(&self, reached: impl Fn(ReplicaId) -> u64) -> Option<u64> {
        // Voters are few, and this is asked at every answer: so nothing is sorted.
        let of = |voters: &[ReplicaId]| {
            let all = || voters.iter().map(|voter| reached(*voter));
            all().filter(|number| all().filter(|n| n >= number).count() > voters.len() / 2).max()
        };
        let new = of(&self.voters)?;
        Some(if self.is_joint() { new.min(of(&self.outgoing)?) } else { new })
    }

    /// The members after a step, as [`crate::Group::change`] makes them: for callers that have the
    /// log but no group.
    pub fn after(&self, change: &Change) -> Self {
        let mut next = self.clone();
        match change {
            Change::LeaveJoint => {
                next.outgoing.clear();
                next.learners.append(&mut next.learners_next);
            }
            Change::AddLearners(_) | Change::EnterJoint { .. } => {
                next.outgoing = self.voters.clone()
            }
        }
        match change {
            Change::AddLearners(new) => {
                for replica in new {
                    next.take_out(*replica);
                    match next.outgoing.contains(replica) {
                        true => next.learners_next.push(*replica),
                        false => next.learners.push(*replica),
                    }
                }
            }
            Change::EnterJoint { promote, remove } => {
                for replica in promote {
                    next.take_out(*replica);
                    next.voters.push(*replica);
                }
                remove.iter().for_each(|replica| next.take_out(*replica));
            }
            Change::LeaveJoint => {}
        }
        let Self { voters, learners, outgoing, learners_next } = &mut next;
        [voters, learners, outgoing, learners_next].into_iter().for_each(|l| l.sort_unstable());
        next
    }

    fn take_out(&mut self, replica: ReplicaId) {
        let Self { voters, learners, learners_next, .. } = self;
        [voters, learners, learners_next].into_iter().for_each(|l| l.retain(|id| *id != replica));
    }

    pub(crate) fn to_library(&self) -> ConfState {
        let ids = |list: &[ReplicaId]| list.iter().map(|replica| replica.0).collect();
        ConfState {
            voters: ids(&self.voters),
            learners: ids(&self.learners),
            voters_outgoing: ids(&self.outgoing),
            learners_next: ids(&self.learners_next),
            ..ConfState::default()
        }
    }

    pub(crate) fn from_library(config: &ConfState) -> Self {
        let replicas = |ids: &[u64]| {
            let mut replicas: Vec<_> = ids.iter().map(|id| ReplicaId(*id)).collect();
            replicas.sort_unstable();
            replicas
        };
        Self {
            voters: replicas(&config.voters),
            learners: replicas(&config.learners),
            outgoing: replicas(&config.voters_outgoing),
            learners_next: replicas(&config.learners_next),
        }
    }
}

impl Change {
    pub(crate) fn to_library(&self) -> ConfChangeV2 {
        let single = |kind, replica: &ReplicaId| {
            let mut single = ConfChangeSingle::default();
            single.set_change_type(kind);
            single.node_id = replica.0;
            single
        };
        let mut change = ConfChangeV2::default();
        let singles: Vec<ConfChangeSingle> = match self {
            Change::AddLearners(replicas) => replicas
                .iter()
                .map(|replica| single(ConfChangeType::AddLearnerNode, replica))
                .collect(),
            Change::EnterJoint { promote, remove } => promote
                .iter()
                .map(|replica| single(ConfChangeType::AddNode, replica))
                .chain(remove.iter().map(|r| single(ConfChangeType::RemoveNode, r)))
                .collect(),
            Change::LeaveJoint => Vec::new(),
        };
        // The library never leaves a joint state itself: the leader proposes an entry for that.
        if !singles.is_empty() {
            change.set_transition(ConfChangeTransition::Explicit);
        }
        change.set_changes(singles.into());
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joint_group_needs_both_majorities() {
        let ids = |list: &[u64]| list.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
        let mut members = Members::of_voters(&ids(&[1, 2, 3]));
        let reached = |replica: ReplicaId| [0, 90, 50, 10, 5, 4][replica.0 as usize];
        assert_eq!(members.majority_of(reached), Some(50));
        members.outgoing = ids(&[1, 4, 5]);
        assert_eq!(members.majority_of(reached), Some(5));
        members.voters.clear();
        assert_eq!(members.majority_of(reached), None);
    }
}
