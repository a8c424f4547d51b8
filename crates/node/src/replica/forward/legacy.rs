//! What is left to do for those who have asked a shard that its left neighbour has taken in.
//!
//! What nobody has been sent yet is asked of the left neighbour as something new. What was sent
//! keeps its session and its numbers, for the right one may have done it: the left one knows all
//! that was done there ([`crate::routing::session::Sessions::unite`]), and tells, or does it now.
//! So a forward has **heirs of others** beside its own session, each of which only gets its
//! answers.

use keyspace::Timestamp;
use replication::BootNanos;

use super::{Batch, Effects, Forward, Held, NodeId, Origin, Own, Post, Sent, Waiter};

/// See the front page.
#[derive(Debug)]
pub struct Legacy {
    /// What was not sent, in order.
    pub batches: Vec<(Origin, Batch)>,
    /// Who wants to read at which time.
    pub readers: Vec<(Timestamp, Origin, Waiter)>,
    /// What was sent.
    pub sent: Heir,
}

/// What was sent to a shard that is gone, in a session of its own.
pub struct Heir(Box<Forward>);

impl std::fmt::Debug for Heir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Heir({} batches)", self.0.sent.len())
    }
}

impl Heir {
    /// Who waits for its answers.
    pub fn waiters(&self) -> impl Iterator<Item = Waiter> {
        let heirs = self.0.heirs.iter().chain([&*self.0]);
        let sent = heirs.flat_map(|heir| &heir.sent).filter(|sent| !sent.told);
        sent.flat_map(|sent| sent.held.waiters.iter().copied())
    }

    /// Bytes of its batches, and how many these are.
    pub fn held(&self) -> (u64, u64) {
        self.0.held()
    }
}

impl Forward {
    /// The shard is gone: all that is left to do, for who has taken it in.
    pub fn bequeath(&mut self) -> Legacy {
        let mut old = std::mem::take(self);
        let waiting: Vec<Held> = old.waiting.drain(..).collect();
        let batches = waiting.into_iter().map(|held| {
            old.held_bytes -= held.bytes.len();
            (held.origin, Batch::from_parts(held.bytes, held.waiters))
        });
        let batches = batches.collect();
        let readers = old.readers.drain(..).map(|r| (r.at, r.origin, r.waiter)).collect();
        // Nothing is asked in its name any more.
        (old.sent_to, old.leader_ms, old.led, old.is_heir) = (None, None, false, true);
        old.asks.clear();
        Legacy { batches, readers, sent: Heir(Box::new(old)) }
    }

    /// Goes on with what was sent to a shard that this one has taken in.
    pub fn inherit(&mut self, Heir(heir): Heir) {
        let mut heir = *heir;
        self.heirs.append(&mut heir.heirs);
        if !heir.sent.is_empty() {
            self.heirs.push(heir);
        }
    }

    pub(super) fn send_heirs(&mut self, post: &Post<'_>, effects: &mut Effects) {
        self.heirs.retain(|heir| !heir.sent.is_empty());
        self.heirs.iter_mut().for_each(|heir| heir.send(post, effects));
    }

    /// What was sent in each session, for the replica here has come to lead.
    pub(super) fn own(&mut self) -> Vec<Own> {
        let is_first = !std::mem::replace(&mut self.led, true);
        let session = self.session;
        let own = |sent: &Sent| Own::of(session, sent);
        // Its own log is one more place where it may be.
        self.sent.iter_mut().for_each(|sent| sent.times += 1);
        let sent = self.sent.iter().filter(|sent| is_first && !sent.answered).map(own);
        let mut all: Vec<Own> = sent.collect();
        self.sent_to = None;
        self.asks.clear();
        self.heirs.retain(|heir| !heir.sent.is_empty());
        self.heirs.iter_mut().for_each(|heir| all.extend(heir.own()));
        all
    }

    pub(super) fn link_of_heirs_lost(&mut self, node: NodeId) {
        self.heirs.iter_mut().for_each(|heir| heir.link_lost(node));
    }

    pub(super) fn expire_heirs(&mut self, now: BootNanos, patience: u64, effects: &mut Effects) {
        self.heirs.iter_mut().for_each(|heir| heir.expire(now, patience, effects));
    }
}
