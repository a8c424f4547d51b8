//! Pending requests of a shard that its left neighbour has absorbed.
//!
//! A request that was never sent goes to the left neighbour as a new one. A batch that was sent
//! keeps its session and its number, because the right shard may have applied it. The left shard
//! has all its sessions ([`crate::routing::session::Sessions::unite`]): it repeats the answer, or
//! applies it now. So beside its own session a forward has **inherited sessions**, each of which
//! only waits for answers.

use keyspace::Timestamp;
use replication::BootNanos;

use super::{
    Batch, Effects, ForwardedWrites, HeldBatch, NodeId, Origin, OwnBatch, SendContext, SentBatch,
    Waiter,
};

/// See the module's documentation.
#[derive(Debug)]
pub struct RequestHandover {
    /// Batches that were not sent, in order.
    pub batches: Vec<(Origin, Batch)>,
    /// Readers, with the time at which they read.
    pub readers: Vec<(Timestamp, Origin, Waiter)>,
    /// Batches that were sent.
    pub sent: InheritedSession,
}

/// The batches that were sent to an absorbed shard, in a session of its own.
pub struct InheritedSession(Box<ForwardedWrites>);

impl std::fmt::Debug for InheritedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergeHandover({} batches)", self.0.sent.len())
    }
}

impl InheritedSession {
    /// The waiters for its answers.
    pub fn waiters(&self) -> impl Iterator<Item = Waiter> {
        let inherited_sessions = self.0.inherited_sessions.iter().chain([&*self.0]);
        let sent = inherited_sessions
            .flat_map(|inherited| &inherited.sent)
            .filter(|sent| !sent.is_client_answered);
        sent.flat_map(|sent| sent.held.waiters.iter().copied())
    }

    /// Bytes of its batches, and how many these are.
    pub fn held(&self) -> (u64, u64) {
        self.0.held()
    }
}

impl ForwardedWrites {
    /// The shard was absorbed: hands all its pending requests to the left one.
    pub fn hand_over_requests(&mut self) -> RequestHandover {
        let mut old = std::mem::take(self);
        let waiting: Vec<HeldBatch> = old.waiting.drain(..).collect();
        let batches = waiting.into_iter().map(|held| {
            old.held_bytes -= held.bytes.len();
            (held.origin, Batch::from_parts(held.bytes, held.waiters))
        });
        let batches = batches.collect();
        let readers = old.readers.drain(..).map(|r| (r.at, r.origin, r.waiter)).collect();
        // Nothing is asked in its name any more.
        (old.sent_to, old.leader_ms, old.led, old.is_inherited) = (None, None, false, true);
        old.asks.clear();
        RequestHandover { batches, readers, sent: InheritedSession(Box::new(old)) }
    }

    /// Continues the session of a shard that this one has absorbed.
    pub fn take_over_requests(&mut self, InheritedSession(inherited): InheritedSession) {
        let mut inherited = *inherited;
        self.inherited_sessions.append(&mut inherited.inherited_sessions);
        if !inherited.sent.is_empty() {
            self.inherited_sessions.push(inherited);
        }
    }

    pub(super) fn send_inherited(&mut self, post: &SendContext<'_>, effects: &mut Effects) {
        self.inherited_sessions.retain(|inherited| !inherited.sent.is_empty());
        self.inherited_sessions.iter_mut().for_each(|inherited| inherited.send(post, effects));
    }

    /// What was sent in each session, for the replica here has come to lead.
    pub(super) fn own(&mut self) -> Vec<OwnBatch> {
        let is_first = !std::mem::replace(&mut self.led, true);
        let session = self.session;
        let own = |sent: &SentBatch| OwnBatch::of(session, sent);
        // Its own log is one more place where it may be.
        self.sent.iter_mut().for_each(|sent| sent.times += 1);
        let sent = self.sent.iter().filter(|sent| is_first && !sent.is_outcome_known).map(own);
        let mut all: Vec<OwnBatch> = sent.collect();
        self.sent_to = None;
        self.asks.clear();
        self.inherited_sessions.retain(|inherited| !inherited.sent.is_empty());
        self.inherited_sessions.iter_mut().for_each(|inherited| all.extend(inherited.own()));
        all
    }

    pub(super) fn inherited_link_lost(&mut self, node: NodeId) {
        self.inherited_sessions.iter_mut().for_each(|inherited| inherited.link_lost(node));
    }

    pub(super) fn expire_inherited(
        &mut self,
        now: BootNanos,
        request_timeout: u64,
        effects: &mut Effects,
    ) {
        self.inherited_sessions
            .iter_mut()
            .for_each(|inherited| inherited.expire(now, request_timeout, effects));
    }
}
