//! RPCs: what a shard's replicas on different nodes do for each other's clients.
//!
//! ```text
//!   here: does not lead      queue, readers ──► forward ──► RPCs to the leader
//!   here: leads              RPCs ──► queue, readers ──► RPCs back
//!   comes to lead            forward ──► queue: with their numbers, if they had left
//! ```

use bytes::Bytes;
use hlc::Clock;
use keyspace::codec::Reader;
use keyspace::{CatalogueOp, NodeId, Timestamp};
use replication::BootNanos;

use super::forward::{NOT_LEADER_PAUSE_NANOS, SendContext};
use super::readers::Asker as ReadAsker;
use super::{Asker, Count, Queued, Replica};
use crate::executor::{Answer, Caller, Effects, Origin, RoundContext, report};
use crate::replica::entry::{HEADER_BYTES, Kind, Waiter, operation, session_batch};
use crate::replica::state::{Outcome, ShardState};
use crate::routing::fetch::{self, FetchRequest};
use crate::routing::session::{AHEAD_MS_MAX, BatchId, BatchVerdict};
use crate::rpc::message::{RpcMessage, RpcRequestId};
use command::{NotDone, codec};

impl Replica {
    /// An RPC from another node.
    pub(crate) fn handle_rpc(
        &mut self,
        from: NodeId,
        rpc: RpcMessage,
        now: BootNanos,
        clock: &Clock,
        is_full: bool,
        effects: &mut Effects,
    ) {
        match rpc {
            RpcMessage::Write { id, count, commands, .. } => {
                self.handle_write(from, id, count, &commands, effects);
            }
            // At the leader's own time: the follower judges expiry by it, and no entry in flight
            // may still find such a value alive.
            RpcMessage::ReadIndex { number, at, .. } if self.group.is_leader() => {
                let at = if is_near(at, clock) { at } else { Timestamp::ZERO };
                let at = at.max(clock.now()).max(self.serving.floor());
                self.read(at, ReadAsker::Remote { node: from, number }, now);
            }
            RpcMessage::ReadIndex { number, .. } => {
                self.reply_not_leader(from, RpcRequestId::Read { number }, effects)
            }
            // What cannot be read must not come into the log.
            RpcMessage::Catalogue { number, op } if self.group.is_leader() && is_operation(&op) => {
                let asker = Asker::RemoteOperation { node: from, number };
                let bytes = operation(&op);
                self.queue.push_back(Queued::Operation { kind: Kind::Catalogue, bytes, asker });
            }
            RpcMessage::Catalogue { number, .. } => {
                self.reply_not_leader(from, RpcRequestId::Catalogue { number }, effects);
            }
            RpcMessage::WriteReply { session, sequence, verdict, .. } => {
                self.outgoing.forward.written(self.id, session, sequence, verdict, effects);
            }
            RpcMessage::ReadIndexReply { number, index, now_ms, settled, .. } => {
                self.outgoing.forward.read_at(number, index, (now_ms, settled), now);
            }
            RpcMessage::CatalogueReply { number, index, result } => {
                self.outgoing.forward.catalogue_done(number, index, result);
            }
            RpcMessage::Fetch { number, want, .. } => {
                self.handle_fetch(from, number, want, now, clock, effects);
            }
            RpcMessage::FetchReply { number, at, found, .. } => {
                self.outgoing.fetches.fetched(self.id, number, (at, found), now, effects);
            }
            RpcMessage::NotLeader { what: RpcRequestId::Fetch { number }, known, .. } => {
                self.outgoing.fetches.handle_not_leader(
                    number,
                    known.as_deref(),
                    now + NOT_LEADER_PAUSE_NANOS,
                );
            }
            RpcMessage::Step { number, step, .. } => {
                self.handle_step(from, number, step, now, effects);
            }
            RpcMessage::StepReply { number, reply, .. } => {
                self.outgoing.forwarded_steps.handle_reply(number, reply, effects)
            }
            RpcMessage::NotLeader { what: RpcRequestId::Step { number }, .. }
            | RpcMessage::NoRoom { what: RpcRequestId::Step { number }, .. } => {
                self.outgoing
                    .forwarded_steps
                    .handle_not_leader(number, now + NOT_LEADER_PAUSE_NANOS);
            }
            RpcMessage::NotLeader { what, .. } => {
                self.outgoing.forward.handle_not_leader(
                    Some(from),
                    what,
                    now + NOT_LEADER_PAUSE_NANOS,
                );
            }
            RpcMessage::NoRoom { what: RpcRequestId::Fetch { number }, .. } => {
                self.outgoing.fetches.handle_no_room(number, effects);
            }
            RpcMessage::NoRoom { what, .. } => {
                self.outgoing.forward.handle_no_room(
                    from,
                    what,
                    now + NOT_LEADER_PAUSE_NANOS,
                    effects,
                );
            }
            RpcMessage::Notice { notice, .. } => self.handle_notice(from, notice),
            RpcMessage::Count { number, origin, index, .. } => {
                match self.count(index, Some(from), now) {
                    Some(count) => {
                        let rpc = RpcMessage::CountReply { shard: self.id, number, origin, count };
                        effects.rpcs.push((from, rpc));
                    }
                    // It may not know yet; who asks will ask again.
                    None if self.group.is_leader() => {}
                    None => self.reply_not_leader(from, RpcRequestId::Count { number }, effects),
                }
            }
            RpcMessage::CountReply { number, origin, count, .. } => {
                effects.answers.push(counted(number, origin, count));
            }
            RpcMessage::RaiseSafePoint(raise) => {
                self.raise(Some(from), raise, clock, is_full, effects)
            }
            RpcMessage::SafePoint { keyspace, point } => {
                effects.safe_points.push((keyspace, point));
            }
            // The executor has taken it.
            RpcMessage::Tracking { .. } => {}
            RpcMessage::Merge { word, .. } => self.handle_merge_message(word, now, clock, effects),
        }
    }

    fn handle_write(
        &mut self,
        from: NodeId,
        id: BatchId,
        count: u32,
        commands: &Bytes,
        effects: &mut Effects,
    ) {
        let BatchId { session, sequence, .. } = id;
        if !self.group.is_leader() {
            return self.reply_not_leader(from, RpcRequestId::Write { session, sequence }, effects);
        }
        // What cannot be read must not come into the log: to who sends such, nobody leads. What is
        // not this shard's is turned away when it is applied.
        if !are_commands(&self.state.read(), count, commands) {
            return self.reply_not_leader(from, RpcRequestId::Write { session, sequence }, effects);
        }
        let bytes = session_batch(id, commands);
        self.queue.push_back(Queued::SessionBatch { from: Some(from), id, count, bytes });
    }

    /// Another node wants what is held here. At once under a lease, as readers outside the executor
    /// are served; else as one who waits.
    fn handle_fetch(
        &mut self,
        from: NodeId,
        number: u64,
        want: FetchRequest,
        now: BootNanos,
        clock: &Clock,
        effects: &mut Effects,
    ) {
        if self.registers(&want) {
            let found = self.register(Some(from), &want, now, clock.now().millis(), effects);
            let rpc = RpcMessage::FetchReply { shard: self.id, number, at: clock.now(), found };
            return effects.rpcs.push((from, rpc));
        }
        let state = self.state.read();
        let is_far = want.past_time().is_some_and(|at| !is_near(at, clock));
        if !self.group.is_leader() || !fetch::is_owned(&state, &want) || is_far {
            drop(state);
            return self.reply_not_leader(from, RpcRequestId::Fetch { number }, effects);
        }
        // Its own time, not the asker's: so no clock is drawn ahead by another (SAFETY G12), and
        // what is said to have expired here stays so.
        let time = clock.now().max(self.serving.floor());
        let is_past = want.past_time().is_some();
        let reserves = want.reserves_from_everyone().is_some();
        let read = want.keys_read();
        if self.leads() {
            self.steps.reserve_for(&want, now);
        }
        if self.leads()
            && self.serving.at(now)
            && !is_past
            && !reserves
            && !read.is_some_and(|read| self.steps.queue.stops_read(read, now, now))
            && !self.is_behind_others(&want)
            && let Some(found) =
                fetch::find(&state, &want, time, |id| self.steps.queue.committed(id))
        {
            if let Some(read) = read {
                self.steps.queue.answered(read, false, now);
            }
            let rpc = RpcMessage::FetchReply { shard: self.id, number, at: time, found };
            return effects.rpcs.push((from, rpc));
        }
        drop(state);
        let at = want.past_time().unwrap_or(time);
        // It asks again what waits here.
        if !self.is_waiting(from, number) {
            self.read(at, ReadAsker::Fetch { node: from, number, want }, now);
        }
    }

    pub(super) fn reply_not_leader(&self, to: NodeId, what: RpcRequestId, effects: &mut Effects) {
        let rpc =
            RpcMessage::NotLeader { shard: self.id, what, known: Some(Box::new(self.known())) };
        effects.rpcs.push((to, rpc));
    }

    /// The link to a node is gone.
    pub(crate) fn link_lost(&mut self, node: NodeId) {
        self.ask_again(node);
        self.askers_lost(node);
    }

    /// What was asked of a node may not have arrived.
    pub(crate) fn ask_again(&mut self, node: NodeId) {
        self.outgoing.forward.link_lost(node);
        self.outgoing.fetches.link_lost(node);
        self.outgoing.forwarded_steps.link_lost(node);
    }

    /// Session and sequence of the batch with a waiter's write, if it was sent to a remote leader
    /// and its outcome is unknown.
    pub fn batch_of(&self, waiter: Waiter) -> Option<(u64, u64)> {
        self.outgoing.forward.batch_of(waiter)
    }

    /// Has the leader elsewhere do what is asked of this one.
    pub(super) fn hand_over(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        self.forward_queue(turn.now, effects);
        self.look_behind(turn, effects);
        let leader = self.leader();
        let RoundContext { now, clock, seed, .. } = *turn;
        self.outgoing
            .forward
            .send(&SendContext { shard: self.id, leader, now, clock, seed }, effects);
        self.outgoing.fetches.send(self.id, leader, now, effects);
        self.outgoing.forwarded_steps.send(self.id, leader, now, effects);
    }

    /// What waits here, and cannot be done here, is for others: readers and all that is queued.
    pub(super) fn forward_queue(&mut self, now: BootNanos, effects: &mut Effects) {
        self.give_up_steps(effects);
        for queued in std::mem::take(&mut self.queue) {
            match queued {
                Queued::Batch { origin, batch } => {
                    self.outgoing.forward.write(origin, batch, now, effects);
                }
                Queued::Operation { bytes, asker: Asker::Operation { origin, waiter }, .. } => {
                    let op = bytes[HEADER_BYTES..].to_vec();
                    self.outgoing.forward.operate(op, Caller { origin, waiter }, now);
                }
                // Only leaders log horizons and safe points. Who wants one asks again.
                Queued::Operation { asker: Asker::Nobody, .. } => {}
                Queued::Operation { asker, .. } => self.redirect_asker(asker, effects),
                Queued::SessionBatch { from, id: BatchId { session, sequence, .. }, .. } => {
                    let asker = Asker::SessionBatch { from, session, sequence };
                    self.redirect_asker(asker, effects);
                }
            }
        }
        for (at, asker, since) in self.take_readers() {
            match asker {
                ReadAsker::Local { origin, waiter } => {
                    self.outgoing.forward.read(at, origin, waiter, since);
                }
                ReadAsker::Remote { node, number } => {
                    self.reply_not_leader(node, RpcRequestId::Read { number }, effects);
                }
                ReadAsker::Fetch { node, number, .. } => {
                    self.reply_not_leader(node, RpcRequestId::Fetch { number }, effects);
                }
                ReadAsker::Find { origin, waiter, want, bytes_max } => {
                    self.fetch(want, bytes_max, Caller { origin, waiter }, now, effects);
                }
            }
        }
    }

    /// Before a turn: tells who has waited too long, so that it is not sent after that.
    pub(super) fn expire(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        if !self.outgoing.forward.is_idle() {
            self.outgoing.forward.expire(turn.now, turn.request_timeout, effects);
        }
        if !self.outgoing.fetches.is_idle() {
            self.outgoing.fetches.expire(turn.now, turn.request_timeout, effects);
        }
        if self.steps.needs_round() {
            self.outgoing.forwarded_steps.expire(turn.now, turn.request_timeout, effects);
        }
    }

    /// It has come to lead: what was for who led before is its own.
    #[inline(never)]
    pub(super) fn take_over(&mut self, effects: &mut Effects) {
        self.outgoing.fetches.release_waiters(effects);
        let (sent, waiting) = self.outgoing.forward.lead();
        for (origin, batch) in waiting.into_iter().rev() {
            self.queue.push_front(Queued::Batch { origin, batch });
        }
        for own in sent.into_iter().rev() {
            let bytes = session_batch(own.id, &own.commands);
            let (from, id, count) = (None, own.id, own.count);
            self.queue.push_front(Queued::SessionBatch { from, id, count, bytes });
        }
        for (at, origin, waiter, since) in self.outgoing.forward.take_readers() {
            self.read(at, ReadAsker::Local { origin, waiter }, since);
        }
        for (op, Caller { origin, waiter }) in self.outgoing.forward.take_operations() {
            self.operate(Kind::Catalogue, operation(&op), Some(Caller { origin, waiter }));
        }
    }

    /// After a round: releases reads that waited for what is applied, and answers those that are
    /// late.
    pub(super) fn release_and_reply(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        let caught_up = self.lacks > 0 && self.catches_up();
        if (caught_up || !self.outgoing.forward.is_idle())
            && let Some(fit) = self.outgoing.forward.applied(self.applied, effects)
        {
            if !self.leads() {
                self.promise.settle_up_to(fit.at);
                self.serving.raise_floor(Timestamp::from_millis(fit.leader_ms));
            }
            self.read_until = self.read_until.max(fit.asked_at.saturating_add(1));
            self.serving.fresh(fit.asked_at, fit.at);
        }
        // Without a majority, what is proposed may wait for ever.
        let late = |since: BootNanos| since.saturating_add(turn.request_timeout) <= turn.now;
        if !self.is_sole() && self.in_flight.front().is_some_and(|oldest| late(oldest.since)) {
            self.give_up_late(late, effects);
        }
    }

    /// Answers clients that have waited too long: the outcome is unknown.
    #[inline(never)]
    fn give_up_late(&mut self, late: impl Fn(BootNanos) -> bool, effects: &mut Effects) {
        for in_flight in self.in_flight.iter_mut().filter(|in_flight| late(in_flight.since)) {
            let asker = std::mem::replace(&mut in_flight.asker, Asker::Nobody);
            let (origin, waiters) = match asker {
                Asker::Batch { origin, waiters } => (origin, waiters),
                Asker::Operation { origin, waiter } => (origin, vec![waiter]),
                // These askers count the time themselves.
                other => {
                    in_flight.asker = other;
                    continue;
                }
            };
            effects.answers.push(Answer::NotDone { origin, waiters, why: NotDone::OutcomeUnknown });
        }
    }

    /// An entry of another node, or of `forward`, is applied.
    pub(super) fn reply_remote(&mut self, asker: Asker, outcome: Outcome, effects: &mut Effects) {
        match (asker, outcome) {
            (Asker::SessionBatch { from, session, sequence }, Outcome::SessionBatch(verdict)) => {
                self.reply_write(from, session, sequence, verdict, effects);
            }
            (Asker::RemoteOperation { node, number }, Outcome::Catalogue(result)) => {
                let subject =
                    |change: &crate::replica::catalogue::Change| Box::new(change.subject());
                let reply = result.as_ref().map(subject).map_err(Clone::clone);
                let rpc = RpcMessage::CatalogueReply { number, index: self.applied, result: reply };
                effects.rpcs.push((node, rpc));
                report(Outcome::Catalogue(result), None, effects);
            }
            (_, outcome) => report(outcome, None, effects),
        }
    }

    fn reply_write(
        &mut self,
        from: Option<NodeId>,
        session: u64,
        sequence: u64,
        verdict: BatchVerdict,
        effects: &mut Effects,
    ) {
        match from {
            Some(node) => {
                let rpc = RpcMessage::WriteReply { shard: self.id, session, sequence, verdict };
                effects.rpcs.push((node, rpc));
            }
            None => self.outgoing.forward.written(self.id, session, sequence, verdict, effects),
        }
    }

    /// An entry proposed here for another node, or as part of a session, was not applied, or its
    /// outcome is unknown: its sender must ask the new leader.
    pub(super) fn redirect_asker(&mut self, asker: Asker, effects: &mut Effects) {
        match asker {
            Asker::SessionBatch { from: Some(node), session, sequence } => {
                self.reply_not_leader(node, RpcRequestId::Write { session, sequence }, effects);
            }
            Asker::SessionBatch { from: None, session, sequence } => {
                self.outgoing.forward.handle_not_leader(
                    None,
                    RpcRequestId::Write { session, sequence },
                    0,
                );
            }
            Asker::RemoteOperation { node, number } => {
                self.reply_not_leader(node, RpcRequestId::Catalogue { number }, effects);
            }
            Asker::Steps(askers) => self.redirect_steps(askers, effects),
            Asker::Nobody | Asker::Batch { .. } | Asker::Operation { .. } => {}
        }
    }
}

/// What another node's count means to who asked.
pub(crate) fn counted(number: u64, origin: u32, count: Count) -> Answer {
    Answer::ReplicaCount { origin: Origin(origin), waiter: Waiter(number), count }
}

/// Whether a time that another node names may be promised to it: no clock is drawn further ahead by
/// that than clocks may differ (SAFETY G12).
pub(super) fn is_near(at: Timestamp, clock: &Clock) -> bool {
    clock.may_reach(at, AHEAD_MS_MAX)
}

fn is_operation(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    CatalogueOp::decode(&mut reader).is_ok() && reader.rest().is_empty()
}

/// Whether these are so many commands, for a shard of keys.
fn are_commands(state: &ShardState, count: u32, mut bytes: &[u8]) -> bool {
    let are_read = (0..count).all(|_| codec::decode(&mut bytes).is_ok());
    state.engine().is_some() && are_read && bytes.is_empty() && count > 0
}
