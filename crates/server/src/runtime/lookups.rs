//! Lookups that a request can name, beside the full table: who owns a point, by which way?
//!
//! The tables themselves are [`overlay::switchboard`]'s. Here they are driven: time passes, frames
//! come and go, and whoever asked is told the way that was found ([`Trace`]).
//!
//! ```text
//!   connections, HTTP ──► look_up ──► switchboard ──► frames ──► other nodes' switchboards
//!          ▲                              │  ▲                            │
//!          └────── done(Trace) ◄──────────┘  └──────── frames ◄───────────┘
//! ```
//!
//! What is found is told to the node's full table, as any answer would be. A request goes where
//! that table leads, whether its lookup has ended well or not: so if every other table is wrong, or
//! empty, requests succeed, and [`Trace::failure`] says so.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | requests of this node that are looked up | `overlay::request::OPEN_MAX` | refused: they go by the full table |
//! | time of one | [`overlay::request`]: some 3 s, if nobody answers | given up |
//! | hops | 64; of `linear` twice as many as there are shards, and 64 | lost |
//!
//! Lock order: the switchboard, then the full table. Nobody is told anything under either.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::{Feature, KeyspaceId, NodeId, ShardId};
use overlay::lh::Bucket;
use overlay::request::{By, Event, Failure, Form, HOPS_LINEAR_MAX, Leg, Request, TRAIL_MAX};
use overlay::switchboard::Effects;
use overlay::{HOPS_MAX, Kind, Known, LookupChoice, Message, Switchboard, Table};
use parking_lot::Mutex;

use super::durations::Durations;
use super::peers::Peers;
use super::{News, NodeRuntime};
use crate::counters::Counter;
use api::Histogram;

/// Within so many of the node's ticks each table says something once, a part of them at each …
const RING_TICKS: u64 = 20;
/// … or in more, so that no more than so many shards' do at each: upkeep costs the same then,
/// however many shards a node leads …
const SHARDS_A_TICK: u64 = 3;
/// … but for a while after some have begun so many times as often.
const EARLY: u64 = 5;
/// For how many ticks it is early.
const EARLY_TICKS: u64 = 200;
/// Every so many ticks it is seen which shards are led here.
const LEAD_TICKS: u64 = 4;

/// Why `lh` finds nobody where buckets have no numbers.
const NO_FILE: &str = "no file: lh is for keyspaces of placement linear-hash";

/// One move of a request, as whoever asked is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it went, and by which entry of a table.
    pub leg: Leg,
    /// How long that took: known of what this node has asked itself.
    pub took: Option<Duration>,
}

/// The way that was found.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Which way was asked for.
    pub way: LookupChoice,
    /// Who owns the point; none if nobody was found.
    pub owner: Option<Arc<Known>>,
    /// Why nobody was found, in words.
    pub failure: Option<&'static str>,
    /// Moves from shard to shard.
    pub hops: u32,
    /// Messages between nodes: known of what was traced to its end.
    pub messages: Option<u32>,
    /// The moves, if it was traced: the first [`TRAIL_MAX`].
    pub steps: Vec<Step>,
    /// From the beginning to the end.
    pub took: Duration,
}

/// What is called when a way is found, or is not.
pub type Told = Box<dyn FnOnce(Trace) + Send>;

struct Asked {
    way: LookupChoice,
    is_traced: bool,
    began: Instant,
    asked_at: Instant,
    steps: Vec<Step>,
    /// Whether there were more steps than are told.
    is_cut: bool,
    told: Told,
}

struct Inner {
    board: Switchboard,
    asked: BTreeMap<u64, Asked>,
    /// Until which tick tables are early.
    early_until: u64,
}

/// The lookups of a node.
pub struct Lookups {
    inner: Mutex<Inner>,
    counts: [[Counts; Form::ALL.len()]; Kind::ALL.len()],
}

/// What is counted of one lookup in one form.
#[derive(Default)]
struct Counts {
    took: Durations,
    hops: Hops,
    failed: Counter,
}

/// Upper bounds of hops.
const HOP_BOUNDS: [u32; 12] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 128, 1024];

#[derive(Default)]
struct Hops {
    buckets: [Counter; HOP_BOUNDS.len()],
    beyond: Counter,
    sum: Counter,
}

impl Hops {
    fn add(&self, hops: u32) {
        let place = HOP_BOUNDS.iter().position(|bound| hops <= *bound);
        place.map_or(&self.beyond, |place| &self.buckets[place]).add(1);
        self.sum.add(hops.into());
    }

    fn histogram(&self) -> Histogram {
        let mut count = 0;
        let buckets = HOP_BOUNDS.iter().zip(&self.buckets).map(|(bound, bucket)| {
            count += bucket.get();
            (f64::from(*bound), count)
        });
        let buckets = buckets.collect();
        let count = count + self.beyond.get();
        Histogram { labels: Vec::new(), buckets, sum: self.sum.get() as f64, count }
    }
}

/// What a lookup has counted: for metrics.
pub struct Counted {
    /// Which.
    pub kind: Kind,
    /// In which form.
    pub form: Form,
    /// How long its requests took.
    pub took: Histogram,
    /// How many hops.
    pub hops: Histogram,
    /// How many found nobody.
    pub failed: u64,
}

impl Lookups {
    /// Those of a node. `seed` was drawn at random at this start.
    pub fn new(node: NodeId, seed: u64) -> Self {
        let board = Switchboard::new(node, seed >> 1);
        let inner = Inner { board, asked: BTreeMap::new(), early_until: EARLY_TICKS };
        Self { inner: Mutex::new(inner), counts: Default::default() }
    }

    /// What was counted, of lookups that were asked for.
    pub fn counted(&self) -> Vec<Counted> {
        let mut all = Vec::new();
        for (kind, forms) in Kind::ALL.into_iter().zip(&self.counts) {
            for (form, counts) in Form::ALL.into_iter().zip(forms) {
                let (took, hops) = (counts.took.histogram(), counts.hops.histogram());
                let failed = counts.failed.get();
                if took.count + failed > 0 {
                    all.push(Counted { kind, form, took, hops, failed });
                }
            }
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
    pub(super) fn learn(&self, known: &[Arc<Known>]) {
        if known.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        known.iter().for_each(|known| inner.board.learn(known));
    }

    /// A keyspace is gone.
    pub(super) fn forget_keyspace(&self, id: KeyspaceId) {
        self.inner.lock().board.drop_keyspace(id);
    }

    fn count(&self, trace: &Trace) {
        let counts = &self.counts[trace.way.kind as usize][trace.way.form as usize];
        match trace.failure {
            Some(_) => counts.failed.add(1),
            None => {
                counts.hops.add(trace.hops);
                counts.took.add(trace.took);
            }
        }
    }
}

impl Inner {
    /// Runs something of the switchboard; what came of it.
    fn run(
        &mut self,
        node: NodeId,
        full: &Table,
        f: impl FnOnce(&mut Switchboard, &Table, &mut Effects),
    ) -> (overlay::Outbox, Vec<(Told, Trace)>) {
        let mut effects = Effects::default();
        f(&mut self.board, full, &mut effects);
        (effects.out, self.ended(node, effects.events))
    }

    /// Notes what was seen of requests; those that have ended.
    fn ended(&mut self, node: NodeId, events: Vec<Event>) -> Vec<(Told, Trace)> {
        let now = Instant::now();
        let mut ended = Vec::new();
        for event in events {
            match event {
                Event::Silent { .. } | Event::Unsure { .. } => {}
                Event::Asked { id, leg, is_first } => {
                    let Some(asked) = self.asked.get_mut(&id) else { continue };
                    if is_first {
                        (asked.steps, asked.is_cut) = (Vec::new(), false);
                    }
                    asked.answered(now);
                    asked.goes_to(leg);
                }
                Event::Found { id, owner, hops, trail } => {
                    let Some(mut asked) = self.asked.remove(&id) else { continue };
                    if asked.way.form == Form::Iterative {
                        asked.answered(now);
                    }
                    trail.into_iter().for_each(|leg| asked.goes_to(leg));
                    ended.push(asked.end(node, Ok(owner), hops, now));
                }
                Event::Failed { id, why } => {
                    let Some(asked) = self.asked.remove(&id) else { continue };
                    ended.push(asked.end(node, Err(why), 0, now));
                }
            }
        }
        ended
    }
}

impl Asked {
    /// The one that was asked last has answered.
    fn answered(&mut self, now: Instant) {
        if let Some(last) = self.steps.last_mut().filter(|_| !self.is_cut) {
            last.took = Some(now - self.asked_at);
        }
        self.asked_at = now;
    }

    fn goes_to(&mut self, leg: Leg) {
        match self.steps.len() < TRAIL_MAX {
            true => self.steps.push(Step { leg, took: None }),
            false => self.is_cut = true,
        }
    }

    fn end(
        self,
        node: NodeId,
        found: Result<Arc<Known>, Failure>,
        hops: u32,
        now: Instant,
    ) -> (Told, Trace) {
        let Self { way, is_traced, began, steps, is_cut, told, .. } = self;
        let is_known = is_traced && !is_cut;
        let messages = is_known.then(|| messages(node, way.form, &steps));
        let (owner, failure) = match found {
            Ok(owner) => (Some(owner), None),
            Err(why) => (None, Some(why.text())),
        };
        let took = now - began;
        (told, Trace { way, owner, failure, hops, messages, steps, took })
    }
}

/// The most hops of a request among so many shards: `linear` goes around, and things may change
/// meanwhile; the others halve the way with each.
fn hops_max(kind: Kind, shards: usize) -> u32 {
    match kind {
        Kind::Linear => u32::try_from(2 * shards + 64).unwrap_or(u32::MAX).min(HOPS_LINEAR_MAX),
        _ => HOPS_MAX.into(),
    }
}

/// How many messages between nodes a way took that ended at its last step.
fn messages(node: NodeId, form: Form, steps: &[Step]) -> u32 {
    let mut from = node;
    let mut count = 0;
    for step in steps {
        let to = step.leg.node;
        count += match form {
            Form::Iterative => 2 * u32::from(to != node),
            Form::Recursive => u32::from(to != from),
            Form::SemiRecursive => 2 * u32::from(to != from),
        };
        from = to;
    }
    count + u32::from(form == Form::Recursive && from != node)
}

impl NodeRuntime {
    /// Looks for the owner of a place on a keyspace's circle, and tells whoever asks; at once, if
    /// nobody else is asked: then `told` is not called.
    pub fn look_up(
        &self,
        way: LookupChoice,
        (keyspace, tail): (KeyspaceId, &[u8]),
        is_traced: bool,
        told: Told,
    ) -> Option<Trace> {
        let began = Instant::now();
        let Some(peers) = &self.peers else {
            // A node alone owns everything.
            return Some(self.at_once(way, None, is_traced, began));
        };
        let point = overlay::Point { keyspace, tail };
        if way.kind == Kind::Full {
            let trace = self.at_once(way, peers.lookup.owner(point), is_traced, began);
            peers.lookups.count(&trace);
            return Some(trace);
        }
        let is_of_file = |known: Arc<Known>| Bucket::of(known.arc()).is_some();
        let failure = match way.kind {
            _ if !self.may_use(Feature::Rings) => Some(Failure::Refused.text()),
            Kind::Lh if !peers.lookup.owner(point).is_none_or(is_of_file) => Some(NO_FILE),
            _ => None,
        };
        if failure.is_some() {
            let trace = Trace { failure, ..self.at_once(way, None, false, began) };
            peers.lookups.count(&trace);
            return Some(trace);
        }
        let LookupChoice { kind, form, images } = way;
        let (out, mut ended, id) = {
            let mut inner = peers.lookups.inner.lock();
            let full = peers.lookup.look();
            let (tail, hops_max) = (tail.to_vec(), hops_max(kind, full.len()));
            let request =
                Request { kind, at: None, keyspace, tail, form, images, is_traced, hops_max };
            let mut effects = Effects::default();
            let id = inner.board.begin(request, &full, &mut effects);
            let (asked_at, steps, is_cut) = (began, Vec::new(), false);
            let asked = Asked { way, is_traced, began, asked_at, steps, is_cut, told };
            inner.asked.insert(id, asked);
            let ended = inner.ended(self.node_id, effects.events);
            (effects.out, ended, inner.asked.contains_key(&id).then_some(id))
        };
        self.send_lookup(peers, out);
        if id.is_some() {
            debug_assert!(ended.is_empty(), "only this one has begun");
            return None;
        }
        let (_told, trace) = ended.pop().expect("it is open, or has ended");
        peers.lookups.count(&trace);
        Some(trace)
    }

    /// What is known without asking anybody.
    fn at_once(
        &self,
        way: LookupChoice,
        owner: Option<Arc<Known>>,
        is_traced: bool,
        began: Instant,
    ) -> Trace {
        let node = owner.as_ref().and_then(|known| known.leader());
        let leg = |node| {
            let shard = owner.as_ref().map_or(ShardId(0), |known| known.shard());
            Step { leg: Leg { shard, node, by: By::Full }, took: None }
        };
        let elsewhere = node.filter(|node| is_traced && *node != self.node_id);
        let (steps, messages) = (elsewhere.map(leg).into_iter().collect(), is_traced.then_some(0));
        let (took, failure, hops) = (began.elapsed(), None, 0);
        Trace { way, owner, failure, hops, messages, steps, took }
    }

    /// Lets time pass for lookups.
    pub(super) fn tick_lookups(&self, peers: &Peers, ticks: u64) {
        if !self.may_use(Feature::Rings) {
            return;
        }
        self.run_lookups(peers, |inner, full, node| {
            let (mut out, ended) = inner.run(node, full, Switchboard::tick_requests);
            if ticks.is_multiple_of(LEAD_TICKS) {
                let is_led = |known: &&Arc<Known>| known.leader() == Some(node);
                let led: Vec<_> = full.iter().filter(is_led).cloned().collect();
                if inner.board.lead(&led, full) {
                    inner.early_until = ticks + EARLY_TICKS;
                }
            }
            let lasting = RING_TICKS.max(inner.board.shards() as u64 / SHARDS_A_TICK);
            let of = if ticks < inner.early_until { lasting / EARLY } else { lasting };
            let (rings, none) = inner.run(node, full, |board, full, effects| {
                board.tick_rings((ticks % of) as usize, of as usize, full, effects);
            });
            debug_assert!(none.is_empty(), "rings end no request");
            out.extend(rings);
            (out, ended)
        });
    }

    /// What another node's lookups say.
    pub(super) fn lookups_came(&self, peers: &Peers, from: NodeId, message: Message) {
        self.run_lookups(peers, |inner, full, node| {
            inner.run(node, full, |board, full, effects| board.step(from, message, full, effects))
        });
    }

    fn run_lookups(
        &self,
        peers: &Peers,
        f: impl FnOnce(&mut Inner, &Table, NodeId) -> (overlay::Outbox, Vec<(Told, Trace)>),
    ) {
        let (out, ended) = {
            let mut inner = peers.lookups.inner.lock();
            let full = peers.lookup.look();
            f(&mut inner, &full, self.node_id)
        };
        self.send_lookup(peers, out);
        for (told, trace) in ended {
            peers.lookups.count(&trace);
            let is_news = |owner: &&Arc<Known>| {
                let known = peers.lookup.shard(owner.shard());
                known.is_none_or(|known| known.rank() < owner.rank())
            };
            if let Some(owner) = trace.owner.as_ref().filter(is_news) {
                self.tell_control(News::Learned(vec![Known::clone(owner)]));
            }
            told(trace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_between_nodes() {
        let step = |node| {
            let leg = Leg { shard: ShardId(node), node: NodeId(node), by: By::Anybody };
            Step { leg, took: None }
        };
        let steps: Vec<_> = [1, 2, 2, 3].map(step).into();
        // Node 1 asks itself, which costs none.
        let found = Form::ALL.map(|form| messages(NodeId(1), form, &steps));
        assert_eq!(found, [6, 3, 4]);
        assert_eq!(Form::ALL.map(|form| messages(NodeId(1), form, &[])), [0; 3]);
    }

    #[test]
    fn a_long_way_is_told_in_part_and_its_messages_are_not_known() {
        let leg = |shard| Leg { shard: ShardId(shard), node: NodeId(2), by: By::Anybody };
        let asked = |way| {
            let told: Told = Box::new(|_| {});
            let (began, steps, is_cut) = (Instant::now(), Vec::new(), false);
            Asked { way, is_traced: true, began, asked_at: began, steps, is_cut, told }
        };
        for (count, known) in [(TRAIL_MAX as u64, true), (TRAIL_MAX as u64 + 1, false)] {
            let mut inner = Lookups::new(NodeId(1), 1).inner.into_inner();
            inner.asked.insert(7, asked(LookupChoice::default()));
            let event = |shard| Event::Asked { id: 7, leg: leg(shard), is_first: shard == 1 };
            inner.ended(NodeId(1), (1..=count).map(event).collect());
            let why = Failure::Lost;
            let ended = inner.ended(NodeId(1), vec![Event::Failed { id: 7, why }]);
            let [(_, trace)] = &ended[..] else { panic!("it has ended") };
            assert_eq!((trace.steps.len(), trace.messages.is_some()), (TRAIL_MAX, known));
            assert_eq!(trace.steps[TRAIL_MAX - 1].leg.shard, ShardId(TRAIL_MAX as u64));
        }
    }

    #[test]
    fn hops_are_counted_in_one_bucket_and_all_above() {
        let hops = Hops::default();
        [0, 3, 5, 5_000].into_iter().for_each(|count| hops.add(count));
        let Histogram { buckets, sum, count, .. } = hops.histogram();
        assert_eq!((count, sum), (4, 5008.0));
        let below = |bound: f64| buckets.iter().find(|(b, _)| *b == bound).unwrap().1;
        assert_eq!([below(0.0), below(3.0), below(6.0), below(1024.0)], [1, 2, 3, 3]);
    }
}
