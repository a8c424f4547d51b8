//! The state of a shard, for operators.
//!
//! A [`ShardReport`] is what the local replica knows, at one moment between two step rounds. Only a
//! leader knows how far the others are; a follower knows only which leader it last heard of.
//!
//! ```text
//!   leader known  ──► lost ──────────────► another, or the same in another term
//!                      └─ without a leader ─┘ counted in ReplicaCounters, when it is over
//! ```
//!
//! An elected leader does not lead yet: replicas that await the shard's state vote, but take no
//! entries, so nothing is committed. So the report also tells how long its entries, if only the
//! entry that opens its term, have waited for a majority.
//!
//! Nothing here decides what a shard does.

use keyspace::{Durability, NodeId, ReplicaId, ShardId};
use replication::{BootNanos, Follower};

use super::{Replica, ReplicaComparison};

/// An elected leader that has committed nothing for so long, or had no majority, counts as stalled:
/// twice an election's time.
pub const STALLED_NANOS: u64 = 2_000_000_000;
/// A follower that has answered nothing for so long counts as silent.
pub const SILENT_NANOS: u64 = 2_000_000_000;
/// A voter that lacks more entries than this would delay the shard if other voters stopped.
pub const LAG_ENTRIES_MAX: u64 = 1024;

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
    /// The leader, if known.
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
    /// For how long no leader has been known, in nanoseconds; 0 if one is.
    pub leaderless_nanos: u64,
    /// If it is elected: for how long what it has proposed has not been committed, or no majority
    /// has followed it, whichever is longer. Moments of this are usual.
    pub stalled_nanos: u64,
    /// If it leads: what comparing the replicas has shown last.
    pub finding: Option<ReplicaComparison>,
    /// If it leads: replicas that take no part any more, and are not replaced yet.
    pub quarantined: Vec<ReplicaId>,
    /// When its entries count as persisted.
    pub durability: Durability,
}

impl ShardReport {
    /// For how long the shard has had no leader, as far as this replica knows. It counts as
    /// leaderless, too, while this replica is elected but has been stalled for [`STALLED_NANOS`]. 0
    /// if a replica leads.
    pub fn leaderless_for_nanos(&self) -> u64 {
        match self.leader {
            None => self.leaderless_nanos.max(1),
            Some(_) if self.is_stalled() => self.stalled_nanos,
            Some(_) => 0,
        }
    }

    /// Whether this replica is elected and does not lead.
    pub fn is_stalled(&self) -> bool {
        self.leader == Some(self.replica) && self.stalled_nanos >= STALLED_NANOS
    }

    /// Voters that could not help at `now` if others stopped, and why. Only the leader knows;
    /// elsewhere the list is empty.
    pub fn lagging_replicas(&self, voters: &[ReplicaId], now: BootNanos) -> Vec<LaggingReplica> {
        let others = self.followers.iter().filter(|follower| follower.replica != self.replica);
        let voters = others.filter(|follower| voters.contains(&follower.replica));
        let lagging = voters.filter_map(|follower| {
            let replica = follower.replica;
            let silent = now.saturating_sub(follower.echoed);
            let is_quarantined = self.quarantined.contains(&replica);
            let lag = match follower.behind(self.last_index) {
                _ if is_quarantined => LagReason::Quarantined,
                _ if follower.awaits_snapshot => LagReason::AwaitsSnapshot,
                None => LagReason::NeverHeard,
                Some(_) if follower.echoed > 0 && silent > SILENT_NANOS => {
                    LagReason::Silent(silent)
                }
                Some(entries) if entries > LAG_ENTRIES_MAX => LagReason::Behind(entries),
                Some(_) => return None,
            };
            Some(LaggingReplica { replica, lag })
        });
        lagging.collect()
    }
}

/// A voter that its shard cannot count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaggingReplica {
    /// Which.
    pub replica: ReplicaId,
    /// Why.
    pub lag: LagReason,
}

/// Why a voter does not take part as others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagReason {
    /// It is quarantined, and the leader is to replace it.
    Quarantined,
    /// It takes no entries until it has a snapshot, which is on its way or to be sent.
    AwaitsSnapshot,
    /// It has answered nothing since this leader was elected.
    NeverHeard,
    /// It has answered nothing for so long, in nanoseconds.
    Silent(u64),
    /// It lacks so many entries.
    Behind(u64),
}

/// Totals over shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounters {
    /// How often a leader was heard of that was not known before: another, or in another term.
    pub leaders_seen: u64,
    /// How often the replica here has campaigned, but for leader transfers.
    pub campaigns: u64,
    /// For how long no leader was known, in nanoseconds.
    pub leaderless_nanos: u64,
}

impl ReplicaCounters {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            leaders_seen: self.leaders_seen + other.leaders_seen,
            campaigns: self.campaigns + other.campaigns,
            leaderless_nanos: self.leaderless_nanos + other.leaderless_nanos,
        }
    }
}

/// Sees leaders come and go.
#[derive(Debug)]
pub(super) struct LeaderWatch {
    /// Term and leader, as last seen.
    leader: Option<(u64, ReplicaId)>,
    /// When the last one was lost.
    lost_at: BootNanos,
    /// When the newest one was heard of.
    led_since: BootNanos,
    leaders_seen: u64,
    leaderless_nanos: u64,
    /// While entries of this replica, which is elected, wait for a majority: the term, up to where
    /// entries are committed, and since when it is so.
    waits: Option<((u64, u64), BootNanos)>,
}

impl LeaderWatch {
    /// No replica has led up to now.
    pub fn new(now: BootNanos) -> Self {
        let (leader, waits, leaders_seen, leaderless_nanos) = (None, None, 0, 0);
        Self { leader, lost_at: now, led_since: now, leaders_seen, leaderless_nanos, waits }
    }

    /// Notes the current leader; called once a round.
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
        self.led_since = now;
    }

    /// Whether entries of this replica wait for a majority, and in which term and behind which
    /// index; once a turn.
    pub fn look_at_commit(&mut self, now: BootNanos, waits: Option<(u64, u64)>) {
        let since = self.waits.filter(|(place, _)| Some(*place) == waits);
        self.waits = waits.map(|place| (place, since.map_or(now, |(_, since)| since)));
    }

    /// For how long entries have waited, without one that was committed.
    fn waiting(&self, now: BootNanos) -> u64 {
        self.waits.map_or(0, |(_, since)| now.saturating_sub(since))
    }

    /// For how long there has been no leader.
    fn leaderless(&self, now: BootNanos) -> u64 {
        if self.leader.is_some() { 0 } else { now.saturating_sub(self.lost_at) }
    }
}

impl Replica {
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
            stalled_nanos: self.stalled(now),
            finding: self.last_finding().cloned(),
            quarantined: self.quarantined_members(),
            durability: self.durability,
        }
    }

    /// See [`ShardReport::stalled_nanos`].
    fn stalled(&self, now: BootNanos) -> u64 {
        if !self.is_elected() {
            return 0;
        }
        let followed = self.group.confirmed_at().max(self.watch.led_since);
        let unfollowed = if self.is_sole() { 0 } else { now.saturating_sub(followed) };
        self.watch.waiting(now).max(unfollowed)
    }

    /// Whether it is a member of the shard, as far as it is applied here.
    pub fn has_member(&self, replica: ReplicaId) -> bool {
        self.group.members().all().contains(&replica)
    }

    /// Whether nothing can be committed until this voter has its snapshot: too few others take
    /// entries and have answered lately. Only an elected leader knows.
    pub fn is_blocked_by(&self, awaiting: ReplicaId, now: BootNanos) -> bool {
        let members = self.group.members();
        if !self.is_elected() || !members.votes(awaiting) {
            return false;
        }
        let followers = self.group.followers();
        let is_there = |follower: &Follower| {
            let is_heard = follower.echoed > 0 && now < follower.echoed + SILENT_NANOS;
            follower.replica == self.replica || (is_heard && !follower.awaits_snapshot)
        };
        let there = followers.iter().filter(|f| f.replica != awaiting && is_there(f));
        let there: Vec<ReplicaId> = there.map(|follower| follower.replica).collect();
        members.majority_of(|replica| u64::from(there.contains(&replica))) != Some(1)
    }

    /// Its counters since it began here, up to `now`.
    pub fn counters(&self, now: BootNanos) -> ReplicaCounters {
        ReplicaCounters {
            leaders_seen: self.watch.leaders_seen,
            campaigns: self.group.campaigns(),
            leaderless_nanos: self.watch.leaderless_nanos + self.watch.leaderless(now),
        }
    }

    /// After a turn.
    pub(super) fn watch(&mut self, now: BootNanos) {
        let leader = self.group.leader().map(|leader| (self.group.term(), leader));
        self.watch.look(now, leader);
        let (term, committed) = self.term_and_commit();
        let waits = !self.leads() || committed < self.group.last_index();
        let waits = self.is_elected() && waits;
        self.watch.look_at_commit(now, waits.then_some((term, committed)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_leader_is_counted_once() {
        let mut watch = LeaderWatch::new(100);
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

    #[test]
    fn waiting_time_counts_from_last_commit() {
        let mut watch = LeaderWatch::new(100);
        watch.look_at_commit(200, Some((3, 7)));
        watch.look_at_commit(300, Some((3, 7)));
        assert_eq!(watch.waiting(350), 150);
        watch.look_at_commit(400, Some((3, 8)));
        assert_eq!(watch.waiting(450), 50);
        watch.look_at_commit(500, Some((4, 8)));
        assert_eq!(watch.waiting(550), 50);
        watch.look_at_commit(600, None);
        assert_eq!(watch.waiting(650), 0);
    }

    fn report(followers: Vec<Follower>) -> ShardReport {
        ShardReport {
            shard: ShardId(7),
            replica: ReplicaId(1),
            term: 3,
            committed: 5_000,
            applied: 5_000,
            last_index: 5_000,
            leader: Some(ReplicaId(1)),
            leader_node: Some(NodeId(1)),
            leads: true,
            lease_until: 0,
            followers,
            leaderless_nanos: 0,
            stalled_nanos: 0,
            finding: None,
            quarantined: Vec::new(),
            durability: Durability::Sync,
        }
    }

    #[test]
    fn stalled_elected_leader_does_not_count_as_leader() {
        let mut report = report(Vec::new());
        report.stalled_nanos = STALLED_NANOS - 1;
        assert_eq!((report.leaderless_for_nanos(), report.is_stalled()), (0, false));
        report.stalled_nanos = STALLED_NANOS;
        assert_eq!((report.leaderless_for_nanos(), report.is_stalled()), (STALLED_NANOS, true));
        report.leader = None;
        assert_eq!((report.leaderless_for_nanos(), report.is_stalled()), (1, false));
        report.leaderless_nanos = 30;
        assert_eq!(report.leaderless_for_nanos(), 30);
    }

    #[test]
    fn lagging_voters_are_reported_with_reason() {
        let now = 10 * SILENT_NANOS;
        let follower = |id, matched, echoed, awaits_snapshot| {
            let replica = ReplicaId(id);
            Follower { replica, matched, echoed, awaits_snapshot }
        };
        let long_ago = now - SILENT_NANOS - 1;
        let mut report = report(vec![
            follower(1, 5_000, 0, false),
            follower(2, 5_000 - LAG_ENTRIES_MAX, now - 1, false),
            follower(3, 4_999 - LAG_ENTRIES_MAX, now - 1, false),
            follower(4, 5_000, long_ago, false),
            follower(5, 0, 0, false),
            follower(6, 10, long_ago, true),
            follower(7, 5_000, now, false),
            follower(8, 0, 0, true),
        ]);
        report.quarantined.push(ReplicaId(7));
        let voters: Vec<ReplicaId> = (1..=7).map(ReplicaId).collect();
        let lagging = report.lagging_replicas(&voters, now);
        let lagging: Vec<_> = lagging.iter().map(|l| (l.replica.0, l.lag)).collect();
        let expected = [
            (3, LagReason::Behind(LAG_ENTRIES_MAX + 1)),
            (4, LagReason::Silent(SILENT_NANOS + 1)),
            (5, LagReason::NeverHeard),
            (6, LagReason::AwaitsSnapshot),
            (7, LagReason::Quarantined),
        ];
        assert_eq!(lagging, expected);
    }
}
