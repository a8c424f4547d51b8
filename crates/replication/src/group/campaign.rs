//! When may this replica stand for election?
//!
//! By itself, when nothing is heard of a leader, and no word to one forbids it. At once, when its
//! leader tells it to, so as to go: that is said once, and until it has stood, or an election's
//! time is over, the leader proposes nothing. So if it comes too early it is not forgotten:
//!
//! ```text
//!   the leader:  commit index ── stand! ─►
//!   the transfer target:    (reads both) ── applies what is committed ── stands
//! ```
//! Who leads a joint state and is not to stay says both in one breath, as it has just applied the
//! change itself.
//!
//! Two who stand at the same time would each have the other's word, and then no vote of it: while
//! the one asks whether it would be elected, it has to write down what it had to say, and to hear.
//! So of two with equal logs, the one with the higher number lets the other wait, which gives way.
//! Only at the first attempt: who cannot be elected itself is not in others' way for ever (decision
//! 0034).

use keyspace::ReplicaId;
use raft::eraftpb::{self, MessageType};
use raft::{INVALID_ID, StateRole};

use super::Group;

impl Group {
    /// Stands for election, unless its word to a leader forbids it. A sole voter wins at once.
    pub fn campaign(&mut self) {
        if self.may_campaign() {
            self.raw.campaign().expect("campaign fails only on a broken store, and ours is memory");
            self.campaigns += 1;
            self.choose_timeout();
        }
    }

    /// Whether it may stand for election by itself. Not with entries that it could still lose: the
    /// library would not have it.
    pub(super) fn may_campaign(&self) -> bool {
        let vote_promise =
            self.vote_promise.no_vote_until.max(self.vote_promise.no_forced_vote_until);
        self.unsynced == 0 && self.now >= vote_promise
    }

    /// Whether it could stand as soon as it is told to: not with entries that it could still lose,
    /// nor before it has applied a change of members that it knows to be committed. The library
    /// would not have it.
    pub(super) fn is_fit(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        self.unsynced == 0 && log.applied >= log.committed
    }

    /// Whether it stands itself, and whoever asks here for its word is to be the one that waits.
    pub(super) fn yields_to_nobody(&self, asks: &eraftpb::Message) -> bool {
        let core = &self.raw.raft;
        let log = &core.raft_log;
        let is_rival = core.state == StateRole::PreCandidate && asks.term == core.term + 1;
        let is_level = (log.last_term(), log.last_index()) == (asks.log_term, asks.index);
        is_rival && is_level && self.attempts == 1 && asks.from < self.id.0
    }

    /// Stands no more, if it stood and has just given its word to another, which may be elected
    /// then; if that comes to nothing, it stands again as after an election.
    pub(super) fn abandon_campaign(&mut self, to: ReplicaId) {
        let core = &mut self.raw.raft;
        let has_granted = core.msgs.last().is_some_and(|answer| {
            let kind = answer.get_msg_type();
            kind == MessageType::MsgRequestPreVoteResponse && answer.to == to.0 && !answer.reject
        });
        if has_granted && self.attempts == 1 && core.state == StateRole::PreCandidate {
            core.become_follower(core.term, INVALID_ID);
            self.choose_timeout();
            let limits = &self.limits;
            self.raw.raft.election_elapsed = limits.election_ticks - limits.retry_election_ticks;
        }
    }

    /// Stands if it was told to and could not.
    pub(super) fn campaign_if_pending(&mut self) {
        if self.pending_timeout_now.is_some() && self.is_fit() {
            let told = self.pending_timeout_now.take().expect("it was just looked at");
            // Of a term that is over, it is of no account.
            let _refused = self.step(told, self.now);
        }
    }
}
