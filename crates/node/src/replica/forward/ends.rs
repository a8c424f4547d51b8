//! How forwarded requests end: by timeout, because the shard is gone, or because this replica
//! leads.

use super::*;

impl ForwardedWrites {
    /// The local replica has ended. Readers are sent to fetch; all other requests go to the shard's
    /// leader once it is found.
    pub fn leave(&mut self, effects: &mut Effects) {
        self.turn_away(effects);
        self.asks.clear();
        self.sent_to = None;
        self.pause_until = 0;
    }

    /// Answers clients whose request timeout has passed.
    #[inline(never)]
    pub fn expire(&mut self, now: BootNanos, request_timeout: u64, effects: &mut Effects) {
        self.expire_inherited(now, request_timeout, effects);
        let late = |since: BootNanos| since.saturating_add(request_timeout) <= now;
        while let Some(held) = self.waiting.pop_front_if(|held| late(held.since)) {
            let HeldBatch { origin, waiters, bytes, .. } = held;
            self.held_bytes -= bytes.len();
            let why = NotDone::NotLeader;
            effects.answers.push(Answer::NotDone { origin, waiters, why });
        }
        for sent in
            self.sent.iter_mut().filter(|sent| !sent.is_client_answered && late(sent.held.since))
        {
            sent.is_client_answered = true;
            let (origin, waiters) = (sent.held.origin, sent.held.waiters.clone());
            effects.answers.push(Answer::NotDone { origin, waiters, why: NotDone::OutcomeUnknown });
        }
        let why = NotDone::NotLeader;
        for reader in self.readers.extract_if(.., |reader| late(reader.since)) {
            refuse_one(reader.origin, reader.waiter, why, effects);
        }
        for op in self.operations.extract_if(.., |op| late(op.since)) {
            let why = if op.sent_to.is_some() { NotDone::OutcomeUnknown } else { why };
            refuse_one(op.origin, op.waiter, why, effects);
        }
    }

    /// The shard has ended. Writes that were sent get `why_sent`, which does not claim that nothing
    /// was done.
    pub fn abandon(&mut self, why: NotDone, why_sent: NotDone, effects: &mut Effects) {
        for HeldBatch { origin, waiters, bytes, .. } in self.waiting.drain(..) {
            self.held_bytes -= bytes.len();
            effects.answers.push(Answer::NotDone { origin, waiters, why });
        }
        for mut sent in self.sent.drain(..) {
            if let Some((shard, replies)) = sent.take_turned_away() {
                self.held_bytes -= sent.held.bytes.len();
                sent.answer(shard, replies, effects);
                continue;
            }
            let SentBatch { held, is_client_answered, .. } = sent;
            let HeldBatch { origin, waiters, bytes, .. } = held;
            self.held_bytes -= bytes.len();
            if !is_client_answered {
                effects.answers.push(Answer::NotDone { origin, waiters, why: why_sent });
            }
        }
        self.session = 0;
        for mut inherited in std::mem::take(&mut self.inherited_sessions) {
            inherited.abandon(why, why_sent, effects);
        }
        for reader in self.readers.drain(..) {
            refuse_one(reader.origin, reader.waiter, why, effects);
        }
        for op in self.operations.drain(..) {
            let why = if op.sent_to.is_some() { why_sent } else { why };
            refuse_one(op.origin, op.waiter, why, effects);
        }
    }

    /// The local replica leads now. Batches that were sent keep their numbers, and
    /// [`Self::written`] answers them; the rest are new.
    pub fn lead(&mut self) -> (Vec<OwnBatch>, Vec<(Origin, Batch)>) {
        let sent = self.own();
        let waiting = self.waiting.drain(..).map(|held| {
            self.held_bytes -= held.bytes.len();
            (held.origin, Batch::from_parts(held.bytes, held.waiters))
        });
        let waiting = waiting.collect();
        (sent, waiting)
    }

    /// The readers, for the replica here has come to lead.
    pub fn take_readers(&mut self) -> Vec<(Timestamp, Origin, Waiter, BootNanos)> {
        let readers = self.readers.drain(..);
        readers.map(|r| (r.at, r.origin, r.waiter, r.since)).collect()
    }

    /// Takes the catalogue changes that were never sent, for the local replica leads now.
    pub fn take_operations(&mut self) -> Vec<(Vec<u8>, Caller)> {
        let unsent = self.operations.extract_if(.., |op| op.sent_to.is_none());
        unsent.map(|op| (op.op, Caller { origin: op.origin, waiter: op.waiter })).collect()
    }

    /// Session and sequence of the batch that was sent with a waiter's write.
    pub fn batch_of(&self, waiter: Waiter) -> Option<(u64, u64)> {
        let sent = self.sent.iter().find(|sent| sent.held.waiters.contains(&waiter));
        let own = sent.map(|sent| (self.session, sent.sequence));
        own.or_else(|| {
            self.inherited_sessions.iter().find_map(|inherited| inherited.batch_of(waiter))
        })
    }
}
