//! What a leader knows of its followers, asks of them and tells them; and how it hands over.

use keyspace::ReplicaId;
use raft::{ProgressState, SnapshotStatus};

use super::{Follower, Group};
use crate::BootNanos;

impl Group {
    /// The newest clock at which a majority followed this leader: a read that came before then, and
    /// is served from a state that holds all that was committed when it came, is linearizable.
    pub fn confirmed_at(&self) -> BootNanos {
        if self.is_leader() { self.lease.confirmed(self.id, self.members()) } else { 0 }
    }

    /// Until when the leader may serve reads (exclusive), by the clock at which they came: until
    /// the lease ends. Without a lease it may serve reads that came before the confirmation.
    pub fn serves_until(&self) -> BootNanos {
        match self.confirmed_at() {
            0 => 0,
            confirmed if self.lease.is_given_up() => confirmed,
            confirmed => confirmed.saturating_add(self.limits.lease_nanos_after_confirm()),
        }
    }

    /// Until when no other replica leads (exclusive): reads need no confirmation before. Zero if
    /// this one does not lead, or has begun to transfer the lead (SAFETY G6).
    pub fn lease_until(&self) -> BootNanos {
        if self.lease.is_given_up() { 0 } else { self.serves_until() }
    }

    /// Sends a follower the commit index now, if this replica leads and has not sent it yet:
    /// readers at that follower wait for it. Other followers learn it with the next entries or
    /// heartbeat. If the message is lost, this follower does, too.
    pub fn send_commit_index(&mut self, to: ReplicaId) {
        let committed = self.committed();
        let was_sent = self
            .sent_commits
            .iter()
            .any(|(id, sent_commits)| *id == to && *sent_commits >= committed);
        let knows_it = self.raw.raft.prs().get(to.0).is_some();
        if self.is_leader() && to != self.id && knows_it && !was_sent {
            self.raw.raft.send_append(to.0);
        }
    }

    /// As [`Self::send_commit_index`], to all.
    pub fn send_commit_index_to_all(&mut self) {
        let replicas: Vec<u64> = self.raw.raft.prs().iter().map(|(id, _)| *id).collect();
        replicas.into_iter().for_each(|replica| self.send_commit_index(ReplicaId(replica)));
    }

    /// Asks all replicas to confirm that it leads, as of now: [`Self::confirmed_at`] will tell.
    pub fn confirm(&mut self) {
        if self.is_leader() {
            self.raw.ping();
        }
    }

    /// Transfers the lead, if this replica leads and `target` is a voter. The target campaigns once
    /// it has the whole log; if that takes longer than an election, the lead stays here. From the
    /// moment of the request to campaign, there is no lease for the rest of the term.
    pub fn transfer(&mut self, target: ReplicaId) {
        if self.is_leader() && target != self.id && self.members().votes(target) {
            self.raw.transfer_leader(target.0);
        }
    }

    /// Gives up the lead: this replica was removed from the group.
    pub fn step_down(&mut self) {
        if self.is_leader() {
            let term = self.term();
            self.raw.raft.become_follower(term, raft::INVALID_ID);
            self.choose_timeout();
        }
    }

    /// Whether it is handing leadership over, and proposes nothing meanwhile.
    pub fn is_transferring(&self) -> bool {
        self.raw.raft.lead_transferee.is_some()
    }

    /// How far each replica's log is known to agree with this leader's: replica, index.
    pub fn progress(&self) -> Vec<(ReplicaId, u64)> {
        let progress = self.raw.raft.prs().iter();
        let mut matched: Vec<_> = progress.map(|(id, pr)| (ReplicaId(*id), pr.matched)).collect();
        matched.sort_unstable();
        matched
    }

    /// Whether a replica has nothing of this leader's log, or has not answered since a clock.
    pub fn is_fresh(&self, replica: ReplicaId, since: BootNanos) -> bool {
        let progress = self.raw.raft.prs().get(replica.0);
        let has_nothing = progress.is_some_and(|progress| progress.matched == 0);
        let is_member = progress.is_some() && replica != self.id;
        has_nothing || (is_member && self.lease.echoed(replica) <= since)
    }

    /// As [`Self::progress`], with how each follower is getting on, for people. The replica itself
    /// is among them; empty unless it leads.
    pub fn followers(&self) -> Vec<Follower> {
        if !self.is_leader() {
            return Vec::new();
        }
        let progress = self.raw.raft.prs().iter().map(|(id, progress)| Follower {
            replica: ReplicaId(*id),
            matched: progress.matched,
            echoed: self.lease.echoed(ReplicaId(*id)),
            awaits_snapshot: progress.state == ProgressState::Snapshot,
        });
        let mut followers: Vec<_> = progress.collect();
        followers.sort_unstable_by_key(|follower| follower.replica);
        followers
    }

    /// A snapshot's state has arrived at a replica, or will not. Until then it gets no entries.
    pub fn snapshot_sent(&mut self, to: ReplicaId, arrived: bool) {
        let status = if arrived { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.raw.report_snapshot(to.0, status);
    }
}
