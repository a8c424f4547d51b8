//! How does a node serve clients for a shard of which it has no replica?
//!
//! It asks the shard's leader, as a follower would. It forwards writes by the same code
//! (`replica::forward`: sessions, numbers, lost links, timeouts), and fetches what reads look at
//! ([`crate::routing::fetch`]). Without a Raft group it does not learn the leader. So it keeps a
//! **cached route**: the nodes that last had replicas, and the one that it takes for the leader.
//!
//! ```text
//!   RemoteShard { nodes } ──► cache: ask the first ──► answered: it leads
//!                               ▲ ▲               └──► NotLeader { known } ─┐
//!                               │ └── the named one; else the next node ◄───┤  cache correction
//!   DescriptorLearned: lookup ──┘                                           └── silence, lost link
//! ```
//!
//! Of two descriptors the higher generation counts, of two leaders the newer term, whichever node
//! named them.
//!
//! A wrong route only costs time: a node that does not lead does nothing (SAFETY G3), and a request
//! that was sent twice is done once (G10).
//!
//! # Invariants
//! 1. The proxy answers every write once: applied, not done, or unknown.
//! 2. The result of a fetch was read after the fetch was handed in.
//! 3. A silent node delays only the requests for this shard, by [`SILENCE_NANOS`].

use bytes::Bytes;
use command::NotDone;
use keyspace::{NodeId, ShardId};
use overlay::KnownShard;
use replication::BootNanos;

use crate::executor::{Caller, Effects, Origin, RoundContext};
use crate::replica::Outgoing;
use crate::replica::entry::{Batch, Waiter};
use crate::replica::forward::{NOT_LEADER_PAUSE_NANOS, SendContext};
use crate::replica::{InheritedSession, RequestHandover, SafePointRequest, counted};
use crate::routing::fetch::FetchRequest;
use crate::rpc::message::{RpcMessage, RpcRequestId};

/// A node that has been silent for so long is not asked any more, if there is another.
const SILENCE_NANOS: u64 = 500_000_000;
/// A node that was silent, or whose link was lost, is not taken for the leader for so long,
/// whichever node names it.
const AVOID_NANOS: u64 = 300_000_000;

/// See the module's documentation.
pub(crate) struct Proxy {
    shard: ShardId,
    /// The newest descriptor that this node has heard of.
    known: Option<KnownShard>,
    /// Nodes with replicas, as far as known.
    nodes: Vec<NodeId>,
    /// The node that it asks now.
    asked: Option<NodeId>,
    /// When that was last heard of, or began to be asked.
    heard_at: BootNanos,
    /// Who was asked last and did not lead.
    not_leader_was: Option<NodeId>,
    /// Not to be believed in before.
    avoided: Option<(NodeId, BootNanos)>,
    outgoing: Outgoing,
    /// Changes of the catalogue up to this index can be used here; of other shards, all.
    catalogue_cache_index: u64,
    /// Whether the executor has it on its list of those with something to do.
    pub active: bool,
}

impl Proxy {
    /// For a shard that is on these nodes.
    pub fn new(shard: ShardId, nodes: Vec<NodeId>) -> Self {
        let asked = nodes.first().copied();
        let known = Default::default();
        let (heard_at, not_leader_was, avoided, active) = (0, None, None, false);
        let catalogue_cache_index = if shard == ShardId(0) { 0 } else { u64::MAX };
        Self {
            shard,
            known,
            nodes,
            asked,
            heard_at,
            not_leader_was,
            avoided,
            outgoing: Outgoing::default(),
            catalogue_cache_index,
            active,
        }
    }

    /// It has been heard that it is on these nodes.
    pub fn is_on(&mut self, nodes: Vec<NodeId>) {
        if !nodes.is_empty() {
            self.nodes = nodes;
        }
        if self.asked.is_none() {
            self.asked = self.nodes.first().copied();
        }
    }

    /// The newest that was heard of the shard, if anything was.
    pub fn known(&self) -> Option<&KnownShard> {
        self.known.as_ref()
    }

    /// The node's lookup has learnt something of the shard.
    pub fn learn_descriptor(&mut self, known: &KnownShard, now: BootNanos) {
        if self.learn(known)
            && let Some(leader) = self.led_by()
            && !self.is_avoided(leader, now)
        {
            self.ask(Some(leader), now);
        }
    }

    /// Takes what is newer than what was known; whether the leader is.
    fn learn(&mut self, known: &KnownShard) -> bool {
        let before = self.known.as_ref().and_then(KnownShard::hint);
        match &mut self.known {
            Some(mine) if known.generation() <= mine.generation() => {
                known.hint().map(|hint| mine.take_hint(hint));
            }
            mine => {
                let known = mine.insert(known.clone());
                before.map(|hint| known.take_hint(hint));
                let replicas = &known.descriptor().replicas;
                let nodes = replicas.iter().map(|(_, node)| *node).collect();
                self.is_on(nodes);
            }
        }
        self.known.as_ref().and_then(KnownShard::hint) != before
    }

    /// The node that leads, as far as is known.
    fn led_by(&self) -> Option<NodeId> {
        self.known.as_ref()?.leader()
    }

    /// Whether this node must not be taken for the leader now.
    fn is_avoided(&self, node: NodeId, now: BootNanos) -> bool {
        self.avoided.is_some_and(|(avoided, until)| avoided == node && now < until)
    }

    /// Holds commands for the leader.
    pub fn write(&mut self, origin: Origin, batch: Batch, now: BootNanos, effects: &mut Effects) {
        self.wake(now);
        self.outgoing.forward.write(origin, batch, now, effects);
    }

    /// Takes a change of the catalogue.
    pub fn operate(&mut self, op: Vec<u8>, asker: Caller, now: BootNanos) {
        self.wake(now);
        self.outgoing.forward.operate(op, asker, now);
    }

    /// The node that it takes for the leader, if any.
    pub fn leader(&self) -> Option<NodeId> {
        self.asked
    }

    /// Asks the supposed leader of the system shard to raise a safe point, if there is one.
    pub fn raise(&self, raise: SafePointRequest, effects: &mut Effects) {
        // A node that does not lead ignores it, so a wrong guess does no harm.
        let leader = self.led_by().or(self.asked);
        effects.rpcs.extend(leader.map(|leader| (leader, RpcMessage::RaiseSafePoint(raise))));
    }

    /// The catalogue here is as of this index.
    pub fn catalogue_cached(&mut self, index: u64) {
        self.catalogue_cache_index = self.catalogue_cache_index.max(index);
    }

    /// Takes a question that has come by now.
    pub fn fetch(
        &mut self,
        want: FetchRequest,
        bytes_max: usize,
        asker: Caller,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        self.wake(now);
        self.outgoing.fetches.ask(want, bytes_max, asker, now, effects);
    }

    /// Takes a step of a transaction.
    pub fn forward_step(
        &mut self,
        step: Bytes,
        asker: Caller,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        self.wake(now);
        self.outgoing.forwarded_steps.ask(step, asker, now, effects);
    }

    /// Silence counts from when there is something to be heard.
    fn wake(&mut self, now: BootNanos) {
        if self.is_idle() {
            self.heard_at = now;
        }
    }

    pub fn is_idle(&self) -> bool {
        self.outgoing.forward.is_idle()
            && self.outgoing.fetches.is_idle()
            && self.outgoing.forwarded_steps.is_empty()
    }

    /// Bytes of batches that a replica would propose if one came here to lead, and how many these
    /// are.
    pub fn held(&self) -> (u64, u64) {
        self.outgoing.forward.held()
    }

    /// Session and sequence of the batch that was sent with a waiter's write.
    pub fn batch_of(&self, waiter: Waiter) -> Option<(u64, u64)> {
        self.outgoing.forward.batch_of(waiter)
    }

    /// An RPC from another node.
    pub fn handle_rpc(
        &mut self,
        from: NodeId,
        rpc: RpcMessage,
        now: BootNanos,
        effects: &mut Effects,
    ) {
        if self.asked == Some(from) {
            self.heard_at = now;
        }
        match rpc {
            RpcMessage::WriteReply { session, sequence, verdict, .. } => {
                self.outgoing.forward.written(self.shard, session, sequence, verdict, effects);
            }
            RpcMessage::ReadIndexReply { number, index, now_ms, settled, .. } => {
                self.outgoing.forward.read_at(number, index, (now_ms, settled), now);
            }
            RpcMessage::FetchReply { number, at, found, .. } => {
                self.outgoing.fetches.fetched(self.shard, number, (at, found), now, effects);
            }
            RpcMessage::StepReply { number, reply, .. } => {
                self.outgoing.forwarded_steps.handle_reply(number, reply, effects)
            }
            RpcMessage::CatalogueReply { number, index, result } => {
                self.outgoing.forward.catalogue_done(number, index, result);
            }
            RpcMessage::NotLeader { what, known, .. } => {
                // Whom a hint names is asked at once; else things may change meanwhile.
                let pause = if self.adjust(from, known.as_deref(), now) {
                    0
                } else {
                    NOT_LEADER_PAUSE_NANOS
                };
                match what {
                    RpcRequestId::Fetch { number } => {
                        self.outgoing.fetches.handle_not_leader(
                            number,
                            known.as_deref(),
                            now + pause,
                        );
                    }
                    RpcRequestId::Step { number } => {
                        self.outgoing.forwarded_steps.handle_not_leader(number, now + pause)
                    }
                    what => self.outgoing.forward.handle_not_leader(Some(from), what, now + pause),
                }
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
            RpcMessage::CountReply { number, origin, count, .. } => {
                effects.answers.push(counted(number, origin, count));
            }
            RpcMessage::SafePoint { keyspace, point } => {
                effects.safe_points.push((keyspace, point));
            }
            // Questions are not for a node without a replica; the executor answers them.
            _ => {}
        }
    }

    /// Somebody who does not lead says who might; whether that is news.
    fn adjust(&mut self, from: NodeId, known: Option<&KnownShard>, now: BootNanos) -> bool {
        known.map(|known| self.learn(known));
        // Whom it names, unless a newer leader is known.
        let mine = self.known.as_ref().map_or(0, KnownShard::term);
        let names = known.is_some_and(|known| known.term() > 0 && known.term() >= mine);
        let leader = if names { self.led_by() } else { None };
        let leader = leader.filter(|leader| *leader != from && !self.is_avoided(*leader, now));
        // Two who each name the other are asked in turns, but not without a pause.
        let is_news = leader.is_some() && leader != self.not_leader_was;
        self.not_leader_was = Some(from);
        match leader {
            Some(_) => self.ask(leader, now),
            None if self.asked == Some(from) => self.ask_next(now),
            None => {}
        }
        is_news
    }

    fn ask(&mut self, node: Option<NodeId>, now: BootNanos) {
        if self.asked != node {
            self.asked = node;
            self.heard_at = now;
        }
    }

    /// The next of the nodes, in their order.
    fn ask_next(&mut self, now: BootNanos) {
        let place = self.nodes.iter().position(|node| Some(*node) == self.asked);
        let next = place.map_or(0, |place| (place + 1) % self.nodes.len().max(1));
        self.heard_at = now;
        self.asked = self.nodes.get(next).copied().or(self.asked);
    }

    /// The link to a node is lost, with all requests on it.
    pub fn link_lost(&mut self, node: NodeId, now: BootNanos) {
        self.ask_again(node);
        if self.asked == Some(node) {
            self.avoided = Some((node, now.saturating_add(AVOID_NANOS)));
            self.ask_next(now);
        }
    }

    /// Requests to a node may not have arrived.
    pub fn ask_again(&mut self, node: NodeId) {
        self.outgoing.forward.link_lost(node);
        self.outgoing.fetches.link_lost(node);
        self.outgoing.forwarded_steps.link_lost(node);
    }

    /// Sends what is due, and answers requests whose timeout has passed.
    pub fn turn(&mut self, turn: &RoundContext<'_>, effects: &mut Effects) {
        let RoundContext { now, clock, seed, request_timeout, .. } = *turn;
        self.outgoing.forward.expire(now, request_timeout, effects);
        self.outgoing.fetches.expire(now, request_timeout, effects);
        self.outgoing.forwarded_steps.expire(now, request_timeout, effects);
        if self.is_idle() {
            return;
        }
        if self.heard_at.saturating_add(SILENCE_NANOS) <= now {
            self.avoided = self.asked.map(|node| (node, now.saturating_add(AVOID_NANOS)));
            self.ask_next(now);
        }
        let (shard, leader) = (self.shard, self.asked);
        self.outgoing.forward.send(&SendContext { shard, leader, now, clock, seed }, effects);
        self.outgoing.fetches.send(shard, leader, now, effects);
        self.outgoing.forwarded_steps.send(shard, leader, now, effects);
        self.outgoing.forward.applied(self.catalogue_cache_index, effects);
    }

    /// The local replica has ended: continues its outgoing requests, with their numbers.
    pub fn succeed(&mut self, outgoing: Outgoing, now: BootNanos) {
        self.outgoing = outgoing;
        self.heard_at = now;
    }

    /// There is a replica here from now on: it goes on with the writes. Readers look again.
    pub fn replaced(&mut self, effects: &mut Effects) -> Outgoing {
        self.outgoing.take(effects)
    }

    /// Another has taken the shard in. Readers look again.
    pub fn hand_over_requests(&mut self, effects: &mut Effects) -> RequestHandover {
        self.outgoing.fetches.release_waiters(effects);
        self.outgoing.forwarded_steps.release_waiters(effects);
        self.outgoing.forward.hand_over_requests()
    }

    /// Continues the session of a neighbour that the shard has absorbed.
    pub fn take_over_requests(&mut self, inherited: InheritedSession) {
        self.outgoing.forward.take_over_requests(inherited);
    }

    /// The shard has ended.
    pub fn abandon(&mut self, effects: &mut Effects) {
        self.outgoing.forward.abandon(NotDone::NoSuchShard, NotDone::Dropped, effects);
        self.outgoing.fetches.abandon(effects);
        self.outgoing.forwarded_steps.release_waiters(effects);
    }
}

#[cfg(test)]
mod tests;
