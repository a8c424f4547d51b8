//! A group at rest: its leader says that it leads, a follower that it follows, and nothing else is
//! to be done about it.
//!
//! Such a heartbeat, and such an answer, are most of what idle groups say. They do here what the
//! library would do about them, and no more: no work follows from them, so nobody needs to ask for
//! any. Whatever is not surely of that kind is left alone, and stepped as ever.

use keyspace::ReplicaId;
use raft::eraftpb::{self, MessageType};
use raft::{ProgressState, StateRole};

use super::Group;
use crate::BootNanos;
use crate::{Message, MessageKind};

impl Group {
    /// Handles a message at `now` if it brings no news. `false`: only the clock was updated.
    ///
    /// The answer waits in [`Self::take_messages`].
    pub fn rest(&mut self, message: &Message, now: BootNanos) -> bool {
        self.observe(now);
        let Message { inner, clock } = message;
        let is_ours = inner.to == self.id.0 && inner.term == self.term();
        // What it has not handed out, or not persisted, has to come before.
        let core = &self.raw.raft;
        let is_told = (core.term, core.vote) == (self.saved.term, self.saved.vote);
        let is_settled =
            self.unsynced == 0 && self.owed.is_empty() && is_told && core.msgs.is_empty();
        if !is_ours || !is_settled || !inner.context.is_empty() {
            return false;
        }
        match message.kind() {
            Some(MessageKind::Heartbeat) => self.follow_heartbeat(inner, *clock),
            Some(MessageKind::HeartbeatAnswer) => self.lead_heartbeat(inner, *clock),
            _ => false,
        }
    }

    fn follow_heartbeat(&mut self, heartbeat: &eraftpb::Message, clock: BootNanos) -> bool {
        let core = &mut self.raw.raft;
        let is_known = core.state == StateRole::Follower && core.leader_id == heartbeat.from;
        let wants_snapshot = core.pending_request_snapshot != raft::INVALID_INDEX;
        if !is_known || wants_snapshot || heartbeat.commit > core.raft_log.committed {
            return false;
        }
        core.election_elapsed = 0;
        let mut answer = eraftpb::Message::default();
        answer.set_msg_type(MessageType::MsgHeartbeatResponse);
        (answer.from, answer.to) = (heartbeat.to, heartbeat.from);
        (answer.term, answer.commit) = (core.term, core.raft_log.committed);
        let leader = ReplicaId(heartbeat.from);
        let still_nanos = self.limits.no_vote_nanos();
        self.vote_promise.record_handled(heartbeat.term, leader, clock, self.now, still_nanos);
        let answer = self.wrap(answer);
        self.outbox.push(answer);
        true
    }

    fn lead_heartbeat(&mut self, answer: &eraftpb::Message, clock: BootNanos) -> bool {
        let core = &mut self.raw.raft;
        let last = core.raft_log.last_index();
        if core.state != StateRole::Leader || clock > self.now {
            return false;
        }
        let Some(progress) = core.mut_prs().get_mut(answer.from) else { return false };
        let is_level = progress.state == ProgressState::Replicate
            && progress.matched == last
            && progress.pending_request_snapshot == raft::INVALID_INDEX
            && !progress.ins.full();
        if !is_level || answer.commit > last {
            return false;
        }
        progress.update_committed(answer.commit);
        progress.recent_active = true;
        self.lease.echo(answer.term, ReplicaId(answer.from), clock);
        true
    }
}
