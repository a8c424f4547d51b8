//! How is a shard, for those who look after it?
//!
//! A [`ShardReport`] is what the replica here knows, at one moment between two turns. Only a leader
//! knows how far the others are; a follower knows who leads, as far as it has heard.
//!
//! ```text
//!   leader known  ──► lost ──────────────► another, or the same in another term
//!                     └─ without a leader ─┘ counted in Tally, when it is over
//! ```
//!
//! Nothing here decides anything.

use keyspace::{Durability, NodeId, ReplicaId, ShardId};
use replication::{BootNanos, Follower};

use super::{Finding, Shard};

/// What the replica here knows of its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardReport {
    /// Which shard.
    pub shard: ShardId,
    /// Which of its replicas is here.
    pub replica: ReplicaId,
    /// Its term.
    pub term: u64,
    /// Up to where it knows entries to be committed.
    pub committed: u64,
    /// Up to where entries are applied here.
    pub applied: u64,
    /// The end of the log here.
    pub last_index: u64,
    /// Who leads, if it is known.
    pub leader: Option<ReplicaId>,
    /// … and on which node that is.
    pub leader_node: Option<NodeId>,
    /// Whether it leads, and knows all that was ever committed.
    pub leads: bool,
    /// If it leads: until when nobody else does, by the node's boot clock; 0: it cannot say. A sole
    /// replica's lease never ends.
    pub lease_until: BootNanos,
    /// If it leads: how far all replicas are, itself among them.
    pub followers: Vec<Follower>,
    /// For how long nobody has been known to lead, in nanoseconds; 0 if somebody is.
    pub leaderless_nanos: u64,
    /// If it leads: what comparing the replicas has shown last.
    pub finding: Option<Finding>,
    /// If it leads: replicas that take no part any more, and are not replaced yet.
    pub quarantined: Vec<ReplicaId>,
    /// When its entries count as persisted.
    pub durability: Durability,
}

/// What has happened in shards, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often a leader was heard of that was not known before: another, or in another term.
    pub leaders_seen: u64,
    /// How often the replica here has stood for election.
    pub elections_stood: u64,
    /// For how long nobody was known to lead, in nanoseconds.
    pub leaderless_nanos: u64,
}

impl Tally {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            leaders_seen: self.leaders_seen + other.leaders_seen,
            elections_stood: self.elections_stood + other.elections_stood,
            leaderless_nanos: self.leaderless_nanos + other.leaderless_nanos,
        }
    }
}

/// Sees leaders come and go.
#[derive(Debug)]
pub(super) struct Watch {
    /// Term and leader, as last seen.
    leader: Option<(u64, ReplicaId)>,
    /// When the last one was lost.
    lost_at: BootNanos,
    leaders_seen: u64,
    leaderless_nanos: u64,
}

impl Watch {
    /// Nobody has led up to now.
    pub fn new(now: BootNanos) -> Self {
        Self { leader: None, lost_at: now, leaders_seen: 0, leaderless_nanos: 0 }
    }

    /// Who leads now; once a turn.
    pub fn look(&mut self, now: BootNanos, leader: Option<(u64, ReplicaId)>) {
        if leader == self.leader {
            return;
        }
        match (self.leader, leader) {
            (Some(_), None) => self.lost_at = now,
            (None, _) => self.leaderless_nanos += now.saturating_sub(self.lost_at),
            (Some(_), Some(_)) => {}
        }
        self.leaders_seen += u64::from(leader.is_some());
        self.leader = leader;
    }

    /// For how long there has been no leader.
    fn leaderless(&self, now: BootNanos) -> u64 {
        if self.leader.is_some() { 0 } else { now.saturating_sub(self.lost_at) }
    }
}

impl Shard {
    /// How it is at `now`, which is the node's boot clock.
    pub fn report(&self, now: BootNanos) -> ShardReport {
        ShardReport {
            shard: self.id,
            replica: self.replica,
            term: self.group.term(),
            committed: self.group.committed(),
            applied: self.applied,
            last_index: self.group.last_index(),
            leader: self.group.leader(),
            leader_node: self.leader(),
            leads: self.leads(),
            lease_until: match self.is_sole() && self.leads() {
                true => BootNanos::MAX,
                false => self.group.lease_until(),
            },
            followers: self.group.followers(),
            leaderless_nanos: self.watch.leaderless(now),
            finding: self.last_finding().cloned(),
            quarantined: self.missed(),
            durability: self.durability,
        }
    }

    /// What has happened in it since it began here, up to `now`.
    pub fn tally(&self, now: BootNanos) -> Tally {
        Tally {
            leaders_seen: self.watch.leaders_seen,
            elections_stood: self.group.elections(),
            leaderless_nanos: self.watch.leaderless_nanos + self.watch.leaderless(now),
        }
    }

    /// After a turn.
    pub(super) fn watch(&mut self, now: BootNanos) {
        let leader = self.group.leader().map(|leader| (self.group.term(), leader));
        self.watch.look(now, leader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_leader_is_counted_once() {
        let mut watch = Watch::new(100);
        let (first, second) = (Some((2, ReplicaId(1))), Some((3, ReplicaId(2))));
        assert_eq!(watch.leaderless(130), 30);
        watch.look(150, first);
        watch.look(160, first);
        assert_eq!((watch.leaders_seen, watch.leaderless_nanos, watch.leaderless(170)), (1, 50, 0));
        watch.look(200, None);
        watch.look(210, None);
        assert_eq!(watch.leaderless(225), 25);
        watch.look(230, second);
        assert_eq!((watch.leaders_seen, watch.leaderless_nanos), (2, 80));
        // From one to the next without a gap: the follower heard of the new one at once.
        watch.look(240, first);
        assert_eq!((watch.leaders_seen, watch.leaderless_nanos), (3, 80));
    }
}
