//! Requests that this node sends to a shard's leader on another node, until they are answered.
//!
//! ```text
//!   writes:   waiting ──(a leader is known)──► sent, each with its number ──► answered
//!                ▲                                │ another leads, or nothing is heard
//!                └─ those that nobody has         └─► sent again, in their order (SAFETY G10)
//!   readers:  one question for all that have come ──► an index ──(applied here)──► let go
//! ```
//!
//! The leader's time: a session asks for it before its first batch, and again when the answer is
//! old ([`TIME_AGAIN_NANOS`]). Each batch carries the newest that the leader has told. This node
//! does not add the time since then: a leader's clock may stand still, above all that was promised
//! before it led. The leader refuses a batch that is ahead of its clock. A batch's time never
//! changes, because copies of it may arrive at any time.
//!
//! Reads stay here. The leader only names an index: up to it lies all that was committed, and
//! nothing is in flight below the time of the question. A replica that has applied that index may
//! serve every read that came before the question (Raft dissertation, 6.4, with followers). The
//! leader also names its clock, by which reads here judge expiry. For a read at a later time this
//! node asks again, until the leader's clock has reached it. If the index is not applied here soon,
//! this replica lags, and its readers are sent to fetch (`lagging`).
//!
//! After the request timeout a client learns that nothing was done, if the request never left. Else
//! the outcome is unknown; the batch is still resent, because later batches follow it.

use std::collections::VecDeque;

use hlc::Clock;
use keyspace::{CatalogueError, NodeId, ShardId, Subject, Timestamp};
use replication::BootNanos;

use crate::executor::{Answer, Caller, Effects, Origin};
use crate::replica::entry::{Batch, HEADER_BYTES, Spent, Waiter};
use crate::reshape::reroute::answer_applied;
use crate::routing::session::{BatchId, BatchVerdict, WINDOW_MS};
use crate::rpc::message::{RpcMessage, RpcRequestId};
use command::{NotDone, Reply, reply};

/// Bytes of batches that are held for the leader of one shard, beyond which more are refused.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Batches under way to the leader of one shard at one time.
const SENT_MAX: usize = 256;
/// Questions of readers under way at one time.
const ASKS_MAX: usize = 4;
/// When nothing is heard for so long, it is sent again …
const RESEND_NANOS: u64 = 500_000_000;
/// … and for each byte as long as it may take to get there and to be replicated, so that a long
/// value is not sent again and again while it is on its way (31 MB/s).
pub const RESEND_BYTE_NANOS: u64 = 32;
/// How long to wait after an answer from a node that does not lead, or whose clock is not far
/// enough.
pub const NOT_LEADER_PAUSE_NANOS: u64 = 5_000_000;
/// An idle session is not gone on with after that long: the shard may have forgotten it. Nor is a
/// time the leader's that it has told as long ago.
const SESSION_IDLE_NANOS: u64 = WINDOW_MS / 4 * 1_000_000;
/// A session asks for the leader's time again when the last answer is so old.
const TIME_AGAIN_NANOS: u64 = SESSION_IDLE_NANOS / 3;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct ForwardedWrites {
    session: u64,
    next_sequence: u64,
    used_at: BootNanos,
    /// Not sent yet: nobody else has them.
    waiting: VecDeque<HeldBatch>,
    /// Sent, in the order of their numbers.
    sent: VecDeque<SentBatch>,
    held_bytes: usize,
    /// To whom.
    sent_to: Option<NodeId>,
    /// Whether that one has shown that it leads. Until then only the first of what was sent goes
    /// there: else all of it would go to and fro as long as nobody leads.
    confirmed: bool,
    /// The replica here leads, and has all of it.
    led: bool,
    resend_at: BootNanos,
    /// Nothing is sent before.
    pause_until: BootNanos,
    readers: Vec<Reader>,
    asks: VecDeque<ReadIndexQuery>,
    /// The leader's clock as last reported, in ms, and when this node heard of it.
    leader_ms: Option<(u64, BootNanos)>,
    operations: Vec<CatalogueChange>,
    next_number: u64,
    /// What was sent to shards that this one has taken in.
    inherited_sessions: Vec<ForwardedWrites>,
    /// Whether it is one of those.
    is_inherited: bool,
}

struct HeldBatch {
    bytes: Vec<u8>,
    waiters: Vec<Waiter>,
    origin: Origin,
    since: BootNanos,
}

struct SentBatch {
    held: HeldBatch,
    sequence: u64,
    sent_ms: u64,
    /// How often it was sent.
    times: u32,
    /// Whether it must be sent to the current leader.
    due: bool,
    /// Whether its clients have an answer: unknown, or the outcome.
    is_client_answered: bool,
    /// Whether it is known what became of it.
    is_outcome_known: bool,
    /// What this shard has replied, if it has turned some of it away, until the same is known of
    /// all before: what was turned away goes to another shard in the order in which it came here.
    turned_away: Option<(ShardId, Vec<Reply>)>,
}

struct Reader {
    at: Timestamp,
    origin: Origin,
    waiter: Waiter,
    since: BootNanos,
}

struct ReadIndexQuery {
    number: u64,
    /// Fit for all who have come by then.
    asked_at: BootNanos,
    /// … and the time for which it was asked, and then that of the answer: nothing is under way
    /// below.
    at: Timestamp,
    index: Option<u64>,
    /// When that was heard.
    told_at: BootNanos,
    /// The leader's clock when it was asked, in ms: nothing is under way below that either.
    leader_ms: u64,
}

/// What is applied here is fit to be read.
pub(crate) struct ReadableIndex {
    /// For all readers that had come by then.
    pub asked_at: BootNanos,
    /// Nothing comes at or below this time any more.
    pub at: Timestamp,
    /// The leader's clock then, in ms.
    pub leader_ms: u64,
}

struct CatalogueChange {
    number: u64,
    op: Vec<u8>,
    origin: Origin,
    waiter: Waiter,
    since: BootNanos,
    sent_to: Option<NodeId>,
    done: Option<(u64, Result<Box<Subject>, CatalogueError>)>,
}

/// A batch that was sent before its sender came to lead the shard itself.
pub(crate) struct OwnBatch {
    pub id: BatchId,
    pub count: u32,
    pub commands: Vec<u8>,
}

impl OwnBatch {
    fn of(session: u64, sent: &SentBatch) -> Self {
        let (sequence, sent_ms, floor) = (sent.sequence, sent.sent_ms, 0);
        let id = BatchId { session, sequence, floor, sent_ms };
        let count = sent.held.waiters.len() as u32;
        Self { id, count, commands: sent.held.bytes[HEADER_BYTES..].to_vec() }
    }
}

/// What a shard is sent with.
pub(crate) struct SendContext<'a> {
    pub shard: ShardId,
    /// The leader, if it is known and another.
    pub leader: Option<NodeId>,
    pub now: BootNanos,
    pub clock: &'a Clock,
    /// Draws sessions.
    pub seed: u64,
}

impl ForwardedWrites {
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.sent.is_empty()
            && self.readers.is_empty()
            && self.operations.is_empty()
            && self.inherited_sessions.is_empty()
    }

    /// Bytes of batches that the replica here would propose if it came to lead, and how many these
    /// are.
    pub fn held(&self) -> (u64, u64) {
        let own = (self.held_bytes as u64, (self.waiting.len() + self.sent.len()) as u64);
        let inherited_sessions = self.inherited_sessions.iter().map(Self::held);
        inherited_sessions
            .fold(own, |(bytes, count), (more, others)| (bytes + more, count + others))
    }

    /// Holds a batch for the shard's leader.
    pub fn write(&mut self, origin: Origin, batch: Batch, now: BootNanos, effects: &mut Effects) {
        let (bytes, waiters) = batch.into_parts();
        if self.held_bytes + bytes.len() > HELD_BYTES_MAX && self.held_bytes > 0 {
            effects.answers.push(Answer::NotDone { origin, waiters, why: NotDone::Busy });
            return;
        }
        self.held_bytes += bytes.len();
        self.waiting.push_back(HeldBatch { bytes, waiters, origin, since: now });
    }

    /// Holds a reader that has come by `since`.
    pub fn read(&mut self, at: Timestamp, origin: Origin, waiter: Waiter, since: BootNanos) {
        self.readers.push(Reader { at, origin, waiter, since });
    }

    /// Holds a change of the catalogue.
    pub fn operate(&mut self, op: Vec<u8>, Caller { origin, waiter }: Caller, now: BootNanos) {
        let number = self.draw_number(now);
        let (sent_to, done) = (None, None);
        self.operations.push(CatalogueChange {
            number,
            op,
            origin,
            waiter,
            since: now,
            sent_to,
            done,
        });
    }

    /// One that nothing which is still on its way names, not even from before the node's last
    /// start: its boot clock was not there yet.
    fn draw_number(&mut self, now: BootNanos) -> u64 {
        self.next_number = (self.next_number + 1).max(now);
        self.next_number
    }

    /// Sends all requests that are due.
    pub fn send(&mut self, post: &SendContext<'_>, effects: &mut Effects) {
        self.led = false;
        if self.is_idle() {
            return;
        }
        self.send_inherited(post, effects);
        let Some(leader) = post.leader else { return };
        if self.sent_to != Some(leader) {
            self.sent_to = Some(leader);
            self.leader_ms = None;
            self.send_again();
        } else if !self.sent.is_empty() && post.now >= self.resend_at {
            self.send_again();
        }
        if post.now < self.pause_until {
            return;
        }
        self.send_writes(leader, post, effects);
        self.send_asks(leader, post, effects);
        self.send_operations(leader, effects);
    }

    fn send_writes(&mut self, leader: NodeId, post: &SendContext<'_>, effects: &mut Effects) {
        let is_idle = self.sent.is_empty() && post.now >= self.used_at + SESSION_IDLE_NANOS;
        if self.session != 0 && is_idle {
            self.session = 0;
            self.leader_ms = None;
        }
        while self.sent.is_empty() || (self.confirmed && self.sent.len() < SENT_MAX) {
            let is_new = |(_, at): &(u64, BootNanos)| post.now < at + SESSION_IDLE_NANOS;
            let Some((sent_ms, _)) = self.leader_ms.filter(is_new) else { break };
            let Some(held) = self.waiting.pop_front() else { break };
            if self.session == 0 {
                self.session = draw_session(post);
                self.next_sequence = 1;
            }
            self.used_at = post.now;
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            self.sent.push_back(SentBatch {
                held,
                sequence,
                sent_ms,
                times: 0,
                due: true,
                is_client_answered: false,
                is_outcome_known: false,
                turned_away: None,
            });
        }
        let session = self.session;
        let Some(floor) = self.sent.front().map(|sent| sent.sequence) else { return };
        let (mut any, mut sent_bytes) = (false, 0);
        let unanswered = self.sent.iter_mut().filter(|sent| !sent.is_outcome_known);
        let count = if self.confirmed { SENT_MAX } else { 1 };
        for sent in unanswered.take(count).filter(|sent| sent.due) {
            (sent.due, any) = (false, true);
            sent.times += 1;
            let (sequence, sent_ms) = (sent.sequence, sent.sent_ms);
            let id = BatchId { session, sequence, floor, sent_ms };
            let count = sent.held.waiters.len() as u32;
            let commands = bytes::Bytes::copy_from_slice(&sent.held.bytes[HEADER_BYTES..]);
            sent_bytes += commands.len() as u64;
            let rpc = RpcMessage::Write { shard: post.shard, id, count, commands };
            effects.rpcs.push((leader, rpc));
        }
        if any {
            let at = post.now + RESEND_NANOS + sent_bytes * RESEND_BYTE_NANOS;
            self.resend_at = match self.resend_at {
                BootNanos::MAX => at,
                // What was sent before may be longer on its way.
                before => before.max(at),
            };
        }
    }

    fn send_asks(&mut self, leader: NodeId, post: &SendContext<'_>, effects: &mut Effects) {
        if self.is_inherited {
            return;
        }
        let stale =
            |ask: &ReadIndexQuery| ask.index.is_none() && ask.asked_at + RESEND_NANOS <= post.now;
        self.asks.retain(|ask| !stale(ask));
        let covered = self.asks.back().map_or(0, |ask| ask.asked_at);
        let newest = self.readers.iter().map(|reader| reader.since).max();
        let writes = !self.waiting.is_empty() || !self.sent.is_empty();
        let is_old = |(_, at): (u64, BootNanos)| post.now >= at + TIME_AGAIN_NANOS;
        // Whatever is answered, and waits here to be applied, does not tell it again.
        let wants_time = writes
            && self.leader_ms.is_none_or(is_old)
            && self.asks.iter().all(|ask| ask.index.is_some());
        let wants_index = match self.asks.is_empty() {
            true => newest.is_some(),
            false => newest.is_some_and(|newest| newest > covered),
        };
        if !wants_time && (!wants_index || self.asks.len() >= ASKS_MAX) {
            return;
        }
        let number = self.draw_number(post.now);
        let at = self.readers.iter().map(|reader| reader.at).max().unwrap_or(Timestamp::ZERO);
        let (asked_at, index, told_at, leader_ms) = (post.now, None, 0, 0);
        self.asks.push_back(ReadIndexQuery { number, asked_at, at, index, told_at, leader_ms });
        effects.rpcs.push((leader, RpcMessage::ReadIndex { shard: post.shard, number, at }));
    }

    fn send_operations(&mut self, leader: NodeId, effects: &mut Effects) {
        for operation in self.operations.iter_mut().filter(|op| op.sent_to.is_none()) {
            operation.sent_to = Some(leader);
            let (number, op) = (operation.number, operation.op.clone());
            effects.rpcs.push((leader, RpcMessage::Catalogue { number, op }));
        }
    }

    /// Marks all requests without an answer, so that the current leader gets them.
    fn send_again(&mut self) {
        self.sent.iter_mut().for_each(|sent| sent.due = true);
        self.asks.retain(|ask| ask.index.is_some());
        self.resend_at = BootNanos::MAX;
        self.confirmed = false;
    }

    /// The link to this node is lost, with all requests on it.
    pub fn link_lost(&mut self, node: NodeId) {
        if self.sent_to == Some(node) {
            self.sent_to = None;
        }
        self.inherited_link_lost(node);
    }

    /// The replica has applied this much: releases the readers that waited for it. Returns what it
    /// may serve now, if that is more than before.
    #[inline(never)]
    pub fn applied(&mut self, applied: u64, effects: &mut Effects) -> Option<ReadableIndex> {
        let raisable_version =
            |op: &mut CatalogueChange| op.done.as_ref().is_some_and(|(i, _)| *i <= applied);
        for op in self.operations.extract_if(.., raisable_version) {
            let (origin, waiter) = (op.origin, op.waiter);
            let (_, result) = op.done.expect("the entry was found above");
            effects.answers.push(Answer::Catalogue { origin, waiter, result });
        }
        let raisable_version =
            |ask: &&ReadIndexQuery| ask.index.is_some_and(|index| index <= applied);
        let fit = self.asks.iter().filter(raisable_version).fold(
            None,
            |fit: Option<ReadableIndex>, ask| {
                let ReadableIndex { asked_at, at, leader_ms } =
                    fit.unwrap_or(ReadableIndex { asked_at: 0, at: Timestamp::ZERO, leader_ms: 0 });
                let settled = ask.at.max(Timestamp::from_millis(ask.leader_ms));
                Some(ReadableIndex {
                    asked_at: asked_at.max(ask.asked_at),
                    at: at.max(settled),
                    leader_ms: leader_ms.max(ask.leader_ms),
                })
            },
        )?;
        let asked_at = fit.asked_at;
        self.asks.retain(|ask| ask.asked_at > asked_at);
        let is_fit = |reader: &mut Reader| reader.since <= asked_at && reader.at <= fit.at;
        for Reader { origin, waiter, .. } in self.readers.extract_if(.., is_fit) {
            effects.answers.push(Answer::Retry { origin, waiter });
        }
        if self.readers.iter().any(|reader| reader.since <= asked_at) {
            // For them the leader's clock must move first.
            self.pause_until =
                self.pause_until.max(asked_at.saturating_add(NOT_LEADER_PAUSE_NANOS));
        }
        Some(fit)
    }

    /// The index that the leader has named to readers, if they have waited for it for `so_long` and
    /// it is not applied here.
    pub fn lacks(&self, applied: u64, so_long: u64, now: BootNanos) -> Option<u64> {
        let is_late = |ask: &&ReadIndexQuery| {
            let lacks = ask.index.is_some_and(|index| index > applied);
            lacks && ask.told_at.saturating_add(so_long) <= now
        };
        self.asks.iter().find(is_late)?.index
    }

    /// Tells readers that this replica lags. It holds on to the oldest answer, which tells how
    /// fresh the replica is.
    pub fn turn_away(&mut self, effects: &mut Effects) {
        for reader in self.readers.drain(..) {
            refuse_one(reader.origin, reader.waiter, NotDone::ReplicaLagging, effects);
        }
        let mut any = false;
        self.asks.retain(|ask| ask.index.is_none() || !std::mem::replace(&mut any, true));
    }
}

fn refuse_one(origin: Origin, waiter: Waiter, why: NotDone, effects: &mut Effects) {
    effects.answers.push(Answer::NotDone { origin, waiters: vec![waiter], why });
}

/// A session that nobody has drawn before: the seed is the process's own.
fn draw_session(post: &SendContext<'_>) -> u64 {
    let drawn = keyspace::random::mix(post.seed ^ post.clock.tick().0) ^ post.shard.0;
    keyspace::random::mix(drawn).max(1)
}

mod ends;
pub mod handover;
mod replies;

#[cfg(test)]
mod tests;
