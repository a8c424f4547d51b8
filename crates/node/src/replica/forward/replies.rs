//! Replies of a remote leader to forwarded requests.

use super::*;

impl ForwardedWrites {
    /// What became of a batch.
    pub fn written(
        &mut self,
        shard: ShardId,
        session: u64,
        sequence: u64,
        verdict: BatchVerdict,
        effects: &mut Effects,
    ) {
        if session != self.session {
            for inherited in
                self.inherited_sessions.iter_mut().filter(|inherited| inherited.session == session)
            {
                inherited.written(shard, session, sequence, verdict.clone(), effects);
            }
            return self.inherited_sessions.retain(|inherited| !inherited.sent.is_empty());
        }
        let place = self.sent.iter().position(|sent| sent.sequence == sequence);
        let Some(place) = place else { return };
        self.confirmed = true;
        match verdict {
            BatchVerdict::Done(replies) => self.done(shard, place, replies.as_deref(), effects),
            BatchVerdict::Known => self.done(shard, place, None, effects),
            // The shard has forgotten the session.
            BatchVerdict::Gap { next } if self.sent.front().is_some_and(|s| s.sequence > next) => {
                self.close_session(NotDone::OutcomeUnknown, 0, effects);
            }
            BatchVerdict::Gap { next } => {
                self.sent.iter_mut().filter(|s| s.sequence >= next).for_each(|s| s.due = true);
            }
            // Copies of it may be applied later. What was taken for the leader's time is not.
            BatchVerdict::TooOld | BatchVerdict::Ahead => {
                self.leader_ms = None;
                self.close_session(NotDone::OutcomeUnknown, 0, effects);
            }
        }
    }

    fn done(
        &mut self,
        shard: ShardId,
        place: usize,
        replies: Option<&[u8]>,
        effects: &mut Effects,
    ) {
        let sent = &mut self.sent[place];
        if std::mem::replace(&mut sent.is_outcome_known, true) {
            return;
        }
        if !sent.is_client_answered {
            let replies = replies.and_then(|bytes| reply::decode_all(bytes).ok());
            let replies = replies.filter(|replies| replies.len() == sent.held.waiters.len());
            let is_moved = |reply: &Reply| matches!(reply, Reply::Moved { .. });
            match replies {
                Some(replies) if place > 0 && replies.iter().any(is_moved) => {
                    sent.turned_away = Some((shard, replies));
                }
                Some(replies) => {
                    self.held_bytes -= sent.held.bytes.len();
                    sent.answer(shard, replies, effects);
                }
                None => {
                    sent.is_client_answered = true;
                    let (origin, why) = (sent.held.origin, NotDone::OutcomeUnknown);
                    let waiters = std::mem::take(&mut sent.held.waiters);
                    effects.answers.push(Answer::NotDone { origin, waiters, why });
                }
            }
        }
        while let Some(mut done) = self.sent.pop_front_if(|sent| sent.is_outcome_known) {
            self.held_bytes -= done.held.bytes.len();
            if let Some((shard, replies)) = done.take_turned_away() {
                done.answer(shard, replies, effects);
            }
        }
    }

    /// The leader has refused `sequence`. If it was sent only once, it is in no log: a link
    /// delivers an RPC at most once, and a lost link has it sent again. No batch is applied behind
    /// a gap, so all later batches will never be done either. If it was sent before, to an earlier
    /// leader, it may be in a log, with all later batches.
    fn close_session(&mut self, why: NotDone, sequence: u64, effects: &mut Effects) {
        let refused = self.sent.iter().find(|sent| sent.sequence == sequence);
        let is_nowhere = refused.is_some_and(|refused| refused.times == 1);
        for mut sent in self.sent.drain(..) {
            if let Some((shard, replies)) = sent.take_turned_away() {
                self.held_bytes -= sent.held.bytes.len();
                sent.answer(shard, replies, effects);
                continue;
            }
            let is_sure = is_nowhere && sent.sequence >= sequence;
            let why = if is_sure { why } else { NotDone::OutcomeUnknown };
            let HeldBatch { origin, waiters, bytes, .. } = sent.held;
            self.held_bytes -= bytes.len();
            if !sent.is_client_answered {
                effects.answers.push(Answer::NotDone { origin, waiters, why });
            }
        }
        self.session = 0;
    }

    /// The node that was asked (`None`: the local replica) does not lead. Nothing is sent again
    /// before `pause_until`.
    pub fn handle_not_leader(
        &mut self,
        by: Option<NodeId>,
        what: RpcRequestId,
        pause_until: BootNanos,
    ) {
        // From another all is asked already.
        let is_late = by.is_some_and(|by| self.sent_to != Some(by));
        match what {
            RpcRequestId::Write { .. } | RpcRequestId::Read { .. } if is_late => return,
            RpcRequestId::Write { session, sequence } if session == self.session => {
                self.sent.iter_mut().filter(|s| s.sequence >= sequence).for_each(|s| s.due = true);
                self.confirmed = false;
            }
            RpcRequestId::Write { .. } => {
                return self
                    .inherited_sessions
                    .iter_mut()
                    .for_each(|inherited| inherited.handle_not_leader(by, what, pause_until));
            }
            RpcRequestId::Read { number } => self.asks.retain(|ask| ask.number != number),
            // Not its own.
            RpcRequestId::Fetch { .. } | RpcRequestId::Count { .. } | RpcRequestId::Step { .. } => {
                return;
            }
            RpcRequestId::Catalogue { number } => {
                let asked = self.operations.iter_mut().filter(|op| op.number == number);
                asked.for_each(|op| op.sent_to = None);
            }
        }
        self.pause_until = pause_until;
    }

    /// The node that was asked has no room. No question of readers is sent again before
    /// `pause_until`.
    pub fn handle_no_room(
        &mut self,
        by: NodeId,
        what: RpcRequestId,
        pause_until: BootNanos,
        effects: &mut Effects,
    ) {
        match what {
            // From another, or when the replica here has come to lead: it is asked elsewhere too.
            RpcRequestId::Write { .. } if self.sent_to != Some(by) => {}
            RpcRequestId::Write { session, sequence } if session == self.session => {
                self.close_session(NotDone::DiskFull, sequence, effects);
            }
            RpcRequestId::Write { .. } => {
                self.inherited_sessions
                    .iter_mut()
                    .for_each(|inherited| inherited.handle_no_room(by, what, pause_until, effects));
            }
            RpcRequestId::Fetch { .. } | RpcRequestId::Count { .. } | RpcRequestId::Step { .. } => {
            }
            RpcRequestId::Read { number } => {
                self.asks.retain(|ask| ask.number != number);
                self.pause_until = pause_until;
            }
            RpcRequestId::Catalogue { number } => {
                let place = self.operations.iter().position(|op| op.number == number);
                if let Some(place) = place {
                    let op = self.operations.swap_remove(place);
                    refuse_one(op.origin, op.waiter, NotDone::DiskFull, effects);
                }
            }
        }
    }

    /// A question of readers has its answer: as of an index, with the leader's clock and the time
    /// up to which nothing comes any more.
    pub fn read_at(
        &mut self,
        number: u64,
        index: u64,
        (leader_ms, settled): (u64, Timestamp),
        now: BootNanos,
    ) {
        self.leader_ms = Some((leader_ms, now));
        if let Some(ask) = self.asks.iter_mut().find(|ask| ask.number == number) {
            if ask.index.replace(index).is_none() {
                ask.told_at = now;
            }
            ask.leader_ms = leader_ms;
            self.confirmed = true;
            // Less than what was asked for, if the leader's clock is far behind or its disk full.
            ask.at = settled;
        }
    }

    /// A change of the catalogue has its answer, as of an index.
    pub fn catalogue_done(
        &mut self,
        number: u64,
        index: u64,
        result: Result<Box<Subject>, CatalogueError>,
    ) {
        if let Some(op) = self.operations.iter_mut().find(|op| op.number == number) {
            op.done = Some((index, result));
        }
    }
}

impl SentBatch {
    /// The replies that were held back, if its clients still wait for them.
    pub(super) fn take_turned_away(&mut self) -> Option<(ShardId, Vec<Reply>)> {
        self.turned_away.take_if(|_| !self.is_client_answered)
    }

    /// Answers its clients, and has the commands that the shard has turned away sent on.
    pub(super) fn answer(&mut self, shard: ShardId, replies: Vec<Reply>, effects: &mut Effects) {
        self.is_client_answered = true;
        let bytes = std::mem::take(&mut self.held.bytes);
        let waiters = std::mem::take(&mut self.held.waiters);
        answer_applied(shard, self.held.origin, Spent { bytes, waiters }, replies, effects);
    }
}
