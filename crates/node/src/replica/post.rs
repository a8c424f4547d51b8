//! Letters: what a shard's replicas on different nodes do for each other's clients.
//!
//! ```text
//!   here: does not lead      queue, readers ──► forward ──► letters to the leader
//!   here: leads              letters ──► queue, readers ──► letters back
//!   comes to lead            forward ──► queue: with their numbers, if they had left
//! ```

use bytes::Bytes;
use hlc::Clock;
use keyspace::codec::Reader;
use keyspace::{CatalogueOp, NodeId, Timestamp};
use replication::BootNanos;

use super::forward::{MISLED_NANOS, Post};
use super::readers::Asker as ReadAsker;
use super::{Asker, Count, Queued, Shard};
use crate::executor::{Answer, Caller, Effects, NotDone, Origin, Turn, report};
use crate::replica::entry::{HEADER_BYTES, Kind, Waiter, once, operation};
use crate::replica::state::{Outcome, ShardState};
use crate::routing::fetch::{self, Want};
use crate::routing::session::{AHEAD_MS_MAX, BatchId, Verdict};
use crate::rpc::request::{Asked, Letter};
use command::codec;

impl Shard {
    /// A letter from another node.
    pub(crate) fn letter(
        &mut self,
        from: NodeId,
        letter: Letter,
        now: BootNanos,
        clock: &Clock,
        is_full: bool,
        effects: &mut Effects,
    ) {
        match letter {
            Letter::Write { id, count, commands, .. } => {
                self.asked_to_write(from, id, count, &commands, effects);
            }
            // At its own time: whoever is told that it is so late judges by it what has expired,
            // which nothing under way may still find alive.
            Letter::Read { number, at, .. } if self.group.is_leader() => {
                let at = if is_near(at, clock) { at } else { Timestamp::ZERO };
                let at = at.max(clock.now()).max(self.serving.floor());
                self.read(at, ReadAsker::Remote { node: from, number }, now);
            }
            Letter::Read { number, .. } => self.not_led(from, Asked::Read { number }, effects),
            // What cannot be read must not come into the log.
            Letter::Catalogue { number, op } if self.group.is_leader() && is_operation(&op) => {
                let asker = Asker::RemoteOperation { node: from, number };
                let bytes = operation(&op);
                self.queue.push_back(Queued::Operation { kind: Kind::Catalogue, bytes, asker });
            }
            Letter::Catalogue { number, .. } => {
                self.not_led(from, Asked::Catalogue { number }, effects);
            }
            Letter::Written { session, sequence, verdict, .. } => {
                self.outgoing.forward.written(self.id, session, sequence, verdict, effects);
            }
            Letter::ReadAt { number, index, now_ms, settled, .. } => {
                self.outgoing.forward.read_at(number, index, (now_ms, settled), now);
            }
            Letter::CatalogueDone { number, index, result } => {
                self.outgoing.forward.catalogue_done(number, index, result);
            }
            Letter::Fetch { number, want, .. } => {
                self.asked_to_find(from, number, want, now, clock, effects);
            }
            Letter::Fetched { number, at, found, .. } => {
                self.outgoing.fetches.fetched(self.id, number, (at, found), now, effects);
            }
            Letter::NotLed { what: Asked::Fetch { number }, known, .. } => {
                self.outgoing.fetches.misled(number, known.as_deref(), now + MISLED_NANOS);
            }
            Letter::Step { number, step, .. } => {
                self.asked_to_step(from, number, step, now, effects);
            }
            Letter::Stepped { number, said, .. } => {
                self.outgoing.errands.said(number, said, effects)
            }
            Letter::NotLed { what: Asked::Step { number }, .. }
            | Letter::Unable { what: Asked::Step { number }, .. } => {
                self.outgoing.errands.misled(number, now + MISLED_NANOS);
            }
            Letter::NotLed { what, .. } => {
                self.outgoing.forward.misled(Some(from), what, now + MISLED_NANOS);
            }
            Letter::Unable { what: Asked::Fetch { number }, .. } => {
                self.outgoing.fetches.unable(number, effects);
            }
            Letter::Unable { what, .. } => {
                self.outgoing.forward.unable(from, what, now + MISLED_NANOS, effects);
            }
            Letter::Tiding { tiding, .. } => self.told(from, tiding),
            Letter::Count { number, origin, index, .. } => {
                match self.count(index, Some(from), now) {
                    Some(count) => {
                        let letter = Letter::Counted { shard: self.id, number, origin, count };
                        effects.letters.push((from, letter));
                    }
                    // It may not know yet; who asks will ask again.
                    None if self.group.is_leader() => {}
                    None => self.not_led(from, Asked::Count { number }, effects),
                }
            }
            Letter::Counted { number, origin, count, .. } => {
                effects.answers.push(counted(number, origin, count));
            }
            Letter::Raise(raise) => self.raise(Some(from), raise, clock, is_full, effects),
            Letter::SafePoint { keyspace, at } => effects.safe_points.push((keyspace, at)),
            Letter::Merge { word, .. } => self.hears_of_merge(word, now, clock, effects),
        }
    }

    fn asked_to_write(
        &mut self,
        from: NodeId,
        id: BatchId,
        count: u32,
        commands: &Bytes,
        effects: &mut Effects,
    ) {
        let BatchId { session, sequence, .. } = id;
        if !self.group.is_leader() {
            return self.not_led(from, Asked::Write { session, sequence }, effects);
        }
        // What cannot be read must not come into the log: to who sends such, nobody leads. What is
        // not this shard's is turned away when it is applied.
        if !are_commands(&self.state.read(), count, commands) {
            return self.not_led(from, Asked::Write { session, sequence }, effects);
        }
        let bytes = once(id, commands);
        self.queue.push_back(Queued::Once { from: Some(from), id, count, bytes });
    }

    /// Another node wants what is held here. At once under a lease, as readers outside the lane
    /// are served; else as one who waits.
    fn asked_to_find(
        &mut self,
        from: NodeId,
        number: u64,
        want: Want,
        now: BootNanos,
        clock: &Clock,
        effects: &mut Effects,
    ) {
        let state = self.state.read();
        let is_far = matches!(want, Want::At { at, .. } if !is_near(at, clock));
        if !self.group.is_leader() || !fetch::is_owned(&state, &want) || is_far {
            drop(state);
            return self.not_led(from, Asked::Fetch { number }, effects);
        }
        // Its own time, not the asker's: so no clock is drawn ahead by another (SAFETY G12), and
        // what is said to have expired here stays so.
        let time = clock.now().max(self.serving.floor());
        let is_past = matches!(want, Want::At { .. });
        let waits_for_all = want.kept().is_some();
        if self.leads() {
            self.steps.keep_for(&want, now);
        }
        if self.leads()
            && self.serving.at(now)
            && !is_past
            && !waits_for_all
            && !self.steps.sought.keeps_waiting(&want, &self.steps.coming, now, now)
            && !self.is_behind_others(&want)
            && let Some(found) =
                fetch::find(&state, &want, time, |id| self.steps.sought.committed(id))
        {
            self.steps.sought.told(&want, false, now);
            let letter = Letter::Fetched { shard: self.id, number, at: time, found };
            return effects.letters.push((from, letter));
        }
        drop(state);
        let at = if let Want::At { at, .. } = want { at } else { time };
        // It asks again what waits here.
        if !self.is_waiting(from, number) {
            self.read(at, ReadAsker::Fetch { node: from, number, want }, now);
        }
    }

    pub(super) fn not_led(&self, to: NodeId, what: Asked, effects: &mut Effects) {
        let letter = Letter::NotLed { shard: self.id, what, known: Some(Box::new(self.known())) };
        effects.letters.push((to, letter));
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
        self.outgoing.errands.link_lost(node);
    }

    /// Session and sequence of the batch with a waiter's write, if it was sent to a leader
    /// elsewhere and it is not known what became of it.
    pub fn batch_of(&self, waiter: Waiter) -> Option<(u64, u64)> {
        self.outgoing.forward.batch_of(waiter)
    }

    /// Has the leader elsewhere do what is asked of this one.
    pub(super) fn hand_over(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        self.hand_queue_over(turn.now, effects);
        self.look_behind(turn, effects);
        let leader = self.leader();
        let Turn { now, clock, seed, .. } = *turn;
        self.outgoing.forward.send(&Post { shard: self.id, leader, now, clock, seed }, effects);
        self.outgoing.fetches.send(self.id, leader, now, effects);
        self.outgoing.errands.send(self.id, leader, now, effects);
    }

    /// What waits here, and cannot be done here, is for others: readers and all that is queued.
    pub(super) fn hand_queue_over(&mut self, now: BootNanos, effects: &mut Effects) {
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
                Queued::Operation { asker, .. } => self.send_elsewhere(asker, effects),
                Queued::Once { from, id: BatchId { session, sequence, .. }, .. } => {
                    let asker = Asker::Once { from, session, sequence };
                    self.send_elsewhere(asker, effects);
                }
            }
        }
        for (at, asker, since) in self.take_readers() {
            match asker {
                ReadAsker::Local { origin, waiter } => {
                    self.outgoing.forward.read(at, origin, waiter, since);
                }
                ReadAsker::Remote { node, number } => {
                    self.not_led(node, Asked::Read { number }, effects);
                }
                ReadAsker::Fetch { node, number, .. } => {
                    self.not_led(node, Asked::Fetch { number }, effects);
                }
                ReadAsker::Find { origin, waiter, want, bytes_max } => {
                    self.fetch(want, bytes_max, Caller { origin, waiter }, now, effects);
                }
            }
        }
    }

    /// Before a turn: tells who has waited too long, so that it is not sent after that.
    pub(super) fn expire(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        if !self.outgoing.forward.is_idle() {
            self.outgoing.forward.expire(turn.now, turn.patience, effects);
        }
        if !self.outgoing.fetches.is_idle() {
            self.outgoing.fetches.expire(turn.now, turn.patience, effects);
        }
        if !self.steps.is_idle() {
            self.outgoing.errands.expire(turn.now, turn.patience, effects);
        }
    }

    /// It has come to lead: what was for who led before is its own.
    #[inline(never)]
    pub(super) fn take_over(&mut self, effects: &mut Effects) {
        self.outgoing.fetches.let_go(effects);
        let (sent, waiting) = self.outgoing.forward.lead();
        for (origin, batch) in waiting.into_iter().rev() {
            self.queue.push_front(Queued::Batch { origin, batch });
        }
        for own in sent.into_iter().rev() {
            let bytes = once(own.id, &own.commands);
            let (from, id, count) = (None, own.id, own.count);
            self.queue.push_front(Queued::Once { from, id, count, bytes });
        }
        for (at, origin, waiter, since) in self.outgoing.forward.take_readers() {
            self.read(at, ReadAsker::Local { origin, waiter }, since);
        }
        for (op, Caller { origin, waiter }) in self.outgoing.forward.take_operations() {
            self.operate(Kind::Catalogue, operation(&op), Some(Caller { origin, waiter }));
        }
    }

    /// After a turn: lets go who waited for what is applied, and tells who waits in vain.
    pub(super) fn post(&mut self, turn: &Turn<'_>, effects: &mut Effects) {
        let caught_up = self.lacks > 0 && self.catches_up();
        if (caught_up || !self.outgoing.forward.is_idle())
            && let Some(fit) = self.outgoing.forward.applied(self.applied, effects)
        {
            if !self.leads() {
                self.promise.settled(fit.at);
                self.serving.raise_floor(Timestamp::from_millis(fit.leader_ms));
            }
            self.read_until = self.read_until.max(fit.asked_at.saturating_add(1));
            self.serving.fresh(fit.asked_at, fit.at);
        }
        // Without a majority, what is proposed may wait for ever.
        let late = |since: BootNanos| since.saturating_add(turn.patience) <= turn.now;
        if !self.is_sole() && self.in_flight.front().is_some_and(|oldest| late(oldest.since)) {
            self.give_up_late(late, effects);
        }
    }

    /// Tells whoever asked too long ago that it is not known what becomes of it.
    #[inline(never)]
    fn give_up_late(&mut self, late: impl Fn(BootNanos) -> bool, effects: &mut Effects) {
        for in_flight in self.in_flight.iter_mut().filter(|in_flight| late(in_flight.since)) {
            let asker = std::mem::replace(&mut in_flight.asker, Asker::Nobody);
            let (origin, waiters) = match asker {
                Asker::Batch { origin, waiters } => (origin, waiters),
                Asker::Operation { origin, waiter } => (origin, vec![waiter]),
                // Whoever has asked counts the time.
                other => {
                    in_flight.asker = other;
                    continue;
                }
            };
            effects.answers.push(Answer::NotDone { origin, waiters, why: NotDone::Unknown });
        }
    }

    /// An entry of another node, or of `forward`, is applied.
    pub(super) fn answer_post(&mut self, asker: Asker, outcome: Outcome, effects: &mut Effects) {
        match (asker, outcome) {
            (Asker::Once { from, session, sequence }, Outcome::Once(verdict)) => {
                self.tell_written(from, session, sequence, verdict, effects);
            }
            (Asker::RemoteOperation { node, number }, Outcome::Catalogue(result)) => {
                let subject =
                    |change: &crate::replica::catalogue::Change| Box::new(change.subject());
                let said = result.as_ref().map(subject).map_err(Clone::clone);
                let letter = Letter::CatalogueDone { number, index: self.applied, result: said };
                effects.letters.push((node, letter));
                report(Outcome::Catalogue(result), None, effects);
            }
            (_, outcome) => report(outcome, None, effects),
        }
    }

    fn tell_written(
        &mut self,
        from: Option<NodeId>,
        session: u64,
        sequence: u64,
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        match from {
            Some(node) => {
                let letter = Letter::Written { shard: self.id, session, sequence, verdict };
                effects.letters.push((node, letter));
            }
            None => self.outgoing.forward.written(self.id, session, sequence, verdict, effects),
        }
    }

    /// What was proposed here for another node, or with a number, was not, or nobody knows: it is
    /// to be asked of who leads then.
    pub(super) fn send_elsewhere(&mut self, asker: Asker, effects: &mut Effects) {
        match asker {
            Asker::Once { from: Some(node), session, sequence } => {
                self.not_led(node, Asked::Write { session, sequence }, effects);
            }
            Asker::Once { from: None, session, sequence } => {
                self.outgoing.forward.misled(None, Asked::Write { session, sequence }, 0);
            }
            Asker::RemoteOperation { node, number } => {
                self.not_led(node, Asked::Catalogue { number }, effects);
            }
            Asker::Steps(askers) => self.send_steps_elsewhere(askers, effects),
            Asker::Nobody | Asker::Batch { .. } | Asker::Operation { .. } => {}
        }
    }
}

/// What another node's count means to who asked.
pub(crate) fn counted(number: u64, origin: u32, count: Count) -> Answer {
    Answer::Counted { origin: Origin(origin), waiter: Waiter(number), count }
}

/// Whether a time that another node names may be promised to it: no clock is drawn further ahead by
/// that than clocks may differ (SAFETY G12).
fn is_near(at: Timestamp, clock: &Clock) -> bool {
    at.millis() <= clock.now().millis().saturating_add(AHEAD_MS_MAX)
}

fn is_operation(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    CatalogueOp::decode(&mut reader).is_ok() && reader.rest().is_empty()
}

/// Whether these are so many commands, for a shard of keys.
fn are_commands(state: &ShardState, count: u32, mut bytes: &[u8]) -> bool {
    let are_read = (0..count).all(|_| codec::decode(&mut bytes).is_ok());
    state.keys().is_some() && are_read && bytes.is_empty() && count > 0
}
