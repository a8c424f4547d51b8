//! The driver of lookups that a request can choose instead of the full table.
//!
//! The tables themselves are [`overlay::switchboard`]'s. This module gives them time and frames,
//! and calls the asker back with the route that was found ([`Trace`]).
//!
//! ```text
//!   connections, HTTP ──► look_up ──► switchboard ──► frames ──► other nodes' switchboards
//!          ▲                              │  ▲                            │
//!          └────── done(Trace) ◄──────────┘  └──────── frames ◄───────────┘
//! ```
//!
//! The full table learns the descriptor that was found, as from any answer. A request goes where
//! the full table leads, even if its lookup failed. So requests succeed if every other table is
//! wrong or empty, and [`Trace::failure`] says so.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | requests of this node that are looked up | `overlay::request::OPEN_MAX` | refused: they go by the full table |
//! | time of one | [`overlay::request`]: some 3 s, if nobody answers | given up |
//! | hops | 64; of `linear` twice as many as there are shards, and 64 | lost |
//!
//! Lock order: the switchboard, then the full table. Callbacks run under neither.

mod counts;
mod trace;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use keyspace::{Feature, KeyspaceId, NodeId, ShardId};
pub use node::event::{Trace, TraceStep};
use overlay::lh::Bucket;
use overlay::request::{
    Failure, Form, HOPS_LINEAR_MAX, HopSource, LookupRequest, RequestEvent, RouteHop,
};
use overlay::switchboard::Effects;
use overlay::{HOPS_MAX, Kind, KnownShard, LookupChoice, Message, Point, Switchboard, Table};
use parking_lot::Mutex;

use super::peers::Peers;
use super::rpc_counters::RpcCounts;
use super::{ControlInput, NodeRuntime};
use counts::LookupCounters;
pub use counts::LookupStats;
use trace::LookupInProgress;
pub use trace::OnTrace;

/// Within so many of the node's ticks each table sends upkeep once, some tables at each tick …
const RING_TICKS: u64 = 20;
/// … or in more ticks, so that at most so many shards' tables do at each: so upkeep costs the same,
/// however many shards a node leads …
const SHARDS_A_TICK: u64 = 3;
/// … but so many times as often for a while after new tables have begun.
const EARLY_FACTOR: u64 = 5;
/// For how many ticks it is early.
const EARLY_TICKS: u64 = 200;
/// Every so many ticks the node checks which shards it leads.
const LEAD_TICKS: u64 = 4;

/// Why `lh` finds no owner where buckets have no numbers.
const NO_LINEAR_HASH_TABLE: &str = "no file: lh is for keyspaces of placement linear-hash";

struct Inner {
    board: Switchboard,
    asked: BTreeMap<u64, LookupInProgress>,
    /// Until which tick tables are early.
    early_until: u64,
}

/// The lookups of a node.
pub struct Lookups {
    inner: Mutex<Inner>,
    counts: [[LookupCounters; Form::ALL.len()]; Kind::ALL.len()],
}

impl Lookups {
    /// Those of a node. `seed` was drawn at random at this start.
    pub fn new(node: NodeId, seed: u64) -> Self {
        let board = Switchboard::new(node, seed >> 1);
        let inner = Inner { board, asked: BTreeMap::new(), early_until: EARLY_TICKS };
        Self { inner: Mutex::new(inner), counts: Default::default() }
    }

    /// Counters of the lookups that requests used.
    pub fn counted(&self) -> Vec<LookupStats> {
        let mut all = Vec::new();
        for (kind, forms) in Kind::ALL.into_iter().zip(&self.counts) {
            let counted = Form::ALL.into_iter().zip(forms);
            all.extend(counted.filter_map(|(form, counts)| counts.counted(kind, form)));
        }
        all
    }

    /// Places in the tables of each lookup here, over all shards that this node leads.
    pub fn entries(&self) -> Vec<(Kind, usize)> {
        let inner = self.inner.lock();
        let others = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Full);
        others.map(|kind| (kind, inner.board.entries(kind))).collect()
    }

    /// The other nodes that are believed alive.
    pub(super) fn peers(&self, nodes: &[NodeId]) {
        self.inner.lock().board.peers(nodes);
    }

    /// The full table has learnt this.
    pub(super) fn learn(&self, known: &[Arc<KnownShard>]) {
        if known.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        known.iter().for_each(|known| inner.board.learn(known));
    }

    /// A keyspace was dropped.
    pub(super) fn forget_keyspace(&self, id: KeyspaceId) {
        self.inner.lock().board.drop_keyspace(id);
    }

    fn count(&self, trace: &Trace) {
        self.counts[trace.way.kind as usize][trace.way.form as usize].add(trace);
    }
}

impl Inner {
    /// Runs something of the switchboard; what came of it.
    fn run(
        &mut self,
        node: NodeId,
        full: &Table,
        f: impl FnOnce(&mut Switchboard, &Table, &mut Effects),
    ) -> (overlay::Outbox, Vec<(OnTrace, Trace)>) {
        let mut effects = Effects::default();
        f(&mut self.board, full, &mut effects);
        (effects.out, self.ended(node, effects.events))
    }

    /// Notes what was seen of requests; those that have ended.
    fn ended(&mut self, node: NodeId, events: Vec<RequestEvent>) -> Vec<(OnTrace, Trace)> {
        let now = Instant::now();
        let mut ended = Vec::new();
        for event in events {
            match event {
                RequestEvent::Silent { .. } | RequestEvent::Unsure { .. } => {}
                RequestEvent::Asked { id, leg, is_first, from } => {
                    let Some(asked) = self.asked.get_mut(&id) else { continue };
                    if is_first {
                        asked.restart(from);
                    }
                    asked.answered(now);
                    asked.goes_to(leg);
                }
                RequestEvent::Found { id, owner, hops, trail } => {
                    let Some(mut asked) = self.asked.remove(&id) else { continue };
                    if asked.lookup().form == Form::Iterative {
                        asked.answered(now);
                    }
                    trail.into_iter().for_each(|leg| asked.goes_to(leg));
                    ended.push(asked.end(node, Ok(owner), hops, now));
                }
                RequestEvent::Failed { id, why } => {
                    let Some(asked) = self.asked.remove(&id) else { continue };
                    ended.push(asked.end(node, Err(why), 0, now));
                }
            }
        }
        ended
    }
}

/// The most hops of a request among so many shards. `linear` goes around the ring, which may change
/// meanwhile; the others halve the distance with each hop.
fn hops_max(kind: Kind, shards: usize) -> u32 {
    match kind {
        Kind::Linear => u32::try_from(2 * shards + 64).unwrap_or(u32::MAX).min(HOPS_LINEAR_MAX),
        _ => HOPS_MAX.into(),
    }
}

/// Looks up the owner of a point on a keyspace's ring, and passes the trace to `done`. If no other
/// node need be asked, it returns the trace instead, and does not call `done`.
pub fn look_up(
    runtime: &NodeRuntime,
    way: LookupChoice,
    point: Point<'_>,
    is_traced: bool,
    done: OnTrace,
) -> Option<Trace> {
    let node = runtime.identity.node;
    let began = Instant::now();
    let Some(peers) = &runtime.peers else {
        // A node alone owns everything.
        return Some(at_once(node, way, None, is_traced, began));
    };
    if way.kind == Kind::Full {
        let trace = at_once(node, way, peers.lookup.owner(point), is_traced, began);
        peers.lookups.count(&trace);
        return Some(trace);
    }
    let is_of_file = |known: Arc<KnownShard>| Bucket::of(known.arc()).is_some();
    let failure = match way.kind {
        _ if !runtime.version.allows(Feature::Rings) => Some(Failure::Refused.text()),
        Kind::Lh if !peers.lookup.owner(point).is_none_or(is_of_file) => Some(NO_LINEAR_HASH_TABLE),
        _ => None,
    };
    if failure.is_some() {
        let trace = Trace { failure, ..at_once(node, way, None, false, began) };
        peers.lookups.count(&trace);
        return Some(trace);
    }
    let LookupChoice { kind, form, cached } = way;
    let (out, mut ended, id) = {
        let mut inner = peers.lookups.inner.lock();
        let full = peers.lookup.guard();
        let Point { keyspace, tail } = point;
        let (tail, hops_max) = (tail.to_vec(), hops_max(kind, full.len()));
        let request =
            LookupRequest { kind, at: None, keyspace, tail, form, cached, is_traced, hops_max };
        let mut effects = Effects::default();
        let id = inner.board.begin(request, &full, &mut effects);
        inner.asked.insert(id, LookupInProgress::new(way, is_traced, began, done));
        let ended = inner.ended(node, effects.events);
        (effects.out, ended, inner.asked.contains_key(&id).then_some(id))
    };
    peers.send_lookup(out);
    if id.is_some() {
        debug_assert!(ended.is_empty(), "only this one has begun");
        return None;
    }
    let (_done, trace) = ended.pop().expect("it is open, or has ended");
    peers.lookups.count(&trace);
    Some(trace)
}

/// The route to the owner of a point by the full table, for who watches: it is not counted.
pub fn by_full_table(runtime: &NodeRuntime, point: Point<'_>) -> Trace {
    let owner = runtime.peers.as_ref().and_then(|peers| peers.lookup.owner(point));
    at_once(runtime.identity.node, LookupChoice::default(), owner, true, Instant::now())
}

/// The trace that is known without asking other nodes.
fn at_once(
    own: NodeId,
    way: LookupChoice,
    owner: Option<Arc<KnownShard>>,
    is_traced: bool,
    began: Instant,
) -> Trace {
    let node = owner.as_ref().and_then(|known| known.leader());
    let leg = |node| {
        let shard = owner.as_ref().map_or(ShardId(0), |known| known.shard());
        TraceStep { leg: RouteHop { shard, node, by: HopSource::Full }, took: None }
    };
    let elsewhere = node.filter(|node| is_traced && *node != own);
    let (steps, messages) = (elsewhere.map(leg).into_iter().collect(), is_traced.then_some(0));
    let (took, failure, hops) = (began.elapsed(), None, 0);
    Trace { way, owner, failure, hops, messages, begins_at: None, steps, took }
}

/// Lets time pass for lookups.
pub(super) fn tick(runtime: &NodeRuntime, peers: &Peers, ticks: u64) {
    if !runtime.version.allows(Feature::Rings) {
        return;
    }
    run(runtime, peers, |inner, full, node| {
        let (mut out, ended) = inner.run(node, full, Switchboard::tick_requests);
        if ticks.is_multiple_of(LEAD_TICKS) {
            let is_led = |known: &&Arc<KnownShard>| known.leader() == Some(node);
            let led: Vec<_> = full.iter().filter(is_led).cloned().collect();
            if inner.board.lead(&led, full) {
                inner.early_until = ticks + EARLY_TICKS;
            }
        }
        let lasting = RING_TICKS.max(inner.board.shards() as u64 / SHARDS_A_TICK);
        let of = if ticks < inner.early_until { lasting / EARLY_FACTOR } else { lasting };
        let (rings, none) = inner.run(node, full, |board, full, effects| {
            board.tick_rings((ticks % of) as usize, of as usize, full, effects);
        });
        debug_assert!(none.is_empty(), "rings end no request");
        out.extend(rings);
        (out, ended)
    });
}

/// Takes a lookup message of another node.
fn step(runtime: &NodeRuntime, peers: &Peers, from: NodeId, message: Message) {
    run(runtime, peers, |inner, full, node| {
        inner.run(node, full, |board, full, effects| board.step(from, message, full, effects))
    });
}

fn run(
    runtime: &NodeRuntime,
    peers: &Peers,
    f: impl FnOnce(&mut Inner, &Table, NodeId) -> (overlay::Outbox, Vec<(OnTrace, Trace)>),
) {
    let (out, ended) = {
        let mut inner = peers.lookups.inner.lock();
        let full = peers.lookup.guard();
        f(&mut inner, &full, runtime.identity.node)
    };
    peers.send_lookup(out);
    for (done, trace) in ended {
        peers.lookups.count(&trace);
        let is_news = |owner: &&Arc<KnownShard>| {
            let known = peers.lookup.shard(owner.shard());
            known.is_none_or(|known| known.rank() < owner.rank())
        };
        if let Some(owner) = trace.owner.as_ref().filter(is_news) {
            runtime
                .control
                .submit(runtime, ControlInput::DescriptorsLearned(vec![KnownShard::clone(owner)]));
        }
        done(trace);
    }
}

/// Takes a frame with a message of another node's lookups or table of descriptors.
pub(super) fn take_frame(runtime: &NodeRuntime, peers: &Peers, from: NodeId, body: &[u8]) {
    let message = match Message::decode(body) {
        Ok(message) => message,
        Err(error) => {
            let from = from.0;
            return tracing::warn!(
                "what node {from:016x} says of shards cannot be read, and was ignored: {error}"
            );
        }
    };
    let mut counts = RpcCounts::default();
    counts.lookup(&message, body.len());
    peers.rpc_counters.received.add(&counts);
    match message {
        Message::Ring { .. } | Message::Request(_) => step(runtime, peers, from, message),
        _ => runtime.control.submit(runtime, ControlInput::LookupMessage { from, message }),
    }
}

#[cfg(test)]
mod tests {
    use overlay::request::TRAIL_MAX;

    use super::*;

    #[test]
    fn long_route_is_truncated_and_has_no_message_count() {
        let leg =
            |shard| RouteHop { shard: ShardId(shard), node: NodeId(2), by: HopSource::AnyNode };
        let asked = |way| LookupInProgress::new(way, true, Instant::now(), Box::new(|_| {}));
        for (count, known) in [(TRAIL_MAX as u64, true), (TRAIL_MAX as u64 + 1, false)] {
            let mut inner = Lookups::new(NodeId(1), 1).inner.into_inner();
            inner.asked.insert(7, asked(LookupChoice::default()));
            let event = |shard| RequestEvent::Asked {
                id: 7,
                leg: leg(shard),
                is_first: shard == 1,
                from: (shard == 1).then_some(ShardId(99)),
            };
            inner.ended(NodeId(1), (1..=count).map(event).collect());
            let why = Failure::Lost;
            let ended = inner.ended(NodeId(1), vec![RequestEvent::Failed { id: 7, why }]);
            let [(_, trace)] = &ended[..] else { panic!("it has ended") };
            assert_eq!((trace.steps.len(), trace.messages.is_some()), (TRAIL_MAX, known));
            assert_eq!(trace.steps[TRAIL_MAX - 1].leg.shard, ShardId(TRAIL_MAX as u64));
            assert_eq!(trace.begins_at, Some(ShardId(99)));
        }
    }
}
