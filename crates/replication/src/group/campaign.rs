//! When may this replica campaign?
//!
//! - After an *election timeout* of 12 to 19 ticks without a leader ([`Group::tick`]), unless a
//!   promise to a leader forbids it (its lease; SAFETY G4, G5), or entries are not synced.
//! - When its owner says so ([`Group::campaign`]), under the same conditions: a sole voter, or the
//!   first replica of a new shard.
//! - At once when its leader sends *TimeoutNow*, to transfer the lead ([`Group::step`]); not before
//!   its entries are synced and committed changes of members are applied.
//!
//! `TimeoutNow` is sent once, and until the target has campaigned, or an election timeout is over,
//! the leader proposes nothing. So a message that comes too early is remembered, and obeyed later:
//!
//! ```text
//!   the leader:  commit index ── TimeoutNow ─►
//!   the target:  (reads both) ── applies what is committed ── campaigns
//! ```
//! A leader that is to leave a joint state sends both at once, as it has just applied the change
//! itself.
//!
//! Two replicas that campaign at the same time would each grant the other a pre-vote, vote for
//! themselves, and refuse the other's vote: the time in which this happens is as long as a write to
//! disk. So of two with equal logs the one with the higher id does not answer, and the one with the
//! lower id grants and gives way. Only at the first attempt: a replica that cannot be elected must
//! not hold back others for ever (decision 0034).

use keyspace::ReplicaId;
use raft::eraftpb::{self, MessageType};
use raft::{INVALID_ID, StateRole};

use super::Group;

impl Group {
    /// Campaigns, unless a promise to a leader (its lease) or unsynced entries forbid it. A sole
    /// voter wins at once.
    pub fn campaign(&mut self) {
        if self.may_campaign() {
            self.raw.campaign().expect("campaign fails only on a broken store, and ours is memory");
            self.campaigns += 1;
            self.choose_timeout();
        }
    }

    /// Whether it may campaign by itself: not with entries that are not synced, which it could
    /// still lose (the library refuses that too), nor before its promises to leaders are over.
    pub(super) fn may_campaign(&self) -> bool {
        let vote_promise =
            self.vote_promise.no_vote_until.max(self.vote_promise.no_forced_vote_until);
        self.unsynced == 0 && self.now >= vote_promise
    }

    /// Whether it can obey a `TimeoutNow` now: not with entries that are not synced, nor before it
    /// has applied what it knows to be committed, which may change members. The library refuses
    /// both.
    pub(super) fn can_obey_timeout_now(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        self.unsynced == 0 && log.applied >= log.committed
    }

    /// Whether it campaigns itself, and the replica that asks for a pre-vote is to give way.
    pub(super) fn outranks(&self, asks: &eraftpb::Message) -> bool {
        let core = &self.raw.raft;
        let log = &core.raft_log;
        let is_rival = core.state == StateRole::PreCandidate && asks.term == core.term + 1;
        let is_level = (log.last_term(), log.last_index()) == (asks.log_term, asks.index);
        is_rival && is_level && self.campaigns_since_leader == 1 && asks.from < self.id.0
    }

    /// Stops its campaign if it has just granted another a pre-vote. If that one is not elected,
    /// it campaigns again as after an election without a winner.
    pub(super) fn abandon_campaign(&mut self, to: ReplicaId) {
        let core = &mut self.raw.raft;
        let has_granted = core.msgs.last().is_some_and(|answer| {
            let kind = answer.get_msg_type();
            kind == MessageType::MsgRequestPreVoteResponse && answer.to == to.0 && !answer.reject
        });
        if has_granted && self.campaigns_since_leader == 1 && core.state == StateRole::PreCandidate
        {
            core.become_follower(core.term, INVALID_ID);
            self.choose_timeout();
            let limits = &self.limits;
            self.raw.raft.election_elapsed = limits.election_ticks - limits.retry_election_ticks;
        }
    }

    /// Obeys a `TimeoutNow` that came too early, as soon as it can.
    pub(super) fn campaign_if_pending(&mut self) {
        if self.pending_timeout_now.is_some() && self.can_obey_timeout_now() {
            let timeout_now = self.pending_timeout_now.take().expect("the entry was found above");
            // If its term is over, the step ignores it.
            let _refused = self.step(timeout_now, self.now);
        }
    }
}
