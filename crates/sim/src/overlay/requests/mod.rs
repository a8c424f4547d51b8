//! Requests that are really sent: each question and answer is a message that takes its time, and
//! may be lost, doubled or late, while members fail.
//!
//! What [`walks`](super::walks) steps through at once goes here as in a node: by
//! [`overlay::request`], in all three forms, with its timeouts and its attempts.
//!
//! ```text
//!   begin ──► Requests of the asker ──► find ──(network)──► Requests of a member ──► next, found …
//!                 ▲   ▲                                             │ its table
//!      every 50 ms┘   └───────────────(network)─────────────────────┘
//! ```
//!
//! # Time
//! | what | takes |
//! |---|---|
//! | a message | [`WAY_US`], by chance |
//! | a tick of requests | [`TICK_US`], as in a node |
//! | a tick of tables, where they are kept | [`RING_TICKS`] of these |
//! | all of it | requests begin evenly over [`SPAN_US`] |
//!
//! # Networks
//! | name | what it does |
//! |---|---|
//! | calm | nothing |
//! | lossy | of a hundred messages it loses one, doubles one, and has five come [`LATE_US`] later |
//! | failing | one of a hundred members is dead from the beginning, without a word |
//!
//! Rings are right at the beginning; they are kept from when somebody is dead, or was silent and is
//! not trusted any more. Nothing is asked for that a dead member owns: nobody could answer.
//!
//! # Caveats
//! A full table knows at once who owns what: it is the same for all, and its gossip is not sent.

pub mod guides;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use keyspace::{NodeId, ShardId};
use overlay::request::{
    Failure, Form, HOPS_LINEAR_MAX, LookupRequest, NextHop, RequestEvent, Requests, TableQuery,
};
use overlay::{Chord, ChordSharp, HOPS_MAX, Kind, Linear, Message, Outbox};

use self::guides::{Buckets, Guide, SharedFullTable, Tables};
use super::ring::{KEYSPACE, Ring, draw};
use super::walks::Spread;
use super::{Keys, linear_requests};
use crate::rng::Rng;

/// How long a message is on its way, at least and at most.
pub const WAY_US: (u64, u64) = (500, 1_500);
/// How much longer a late one is.
pub const LATE_US: (u64, u64) = (50_000, 250_000);
/// A tick of requests.
pub const TICK_US: u64 = 50_000;
/// A tick of tables: so many of requests.
pub const RING_TICKS: u64 = 20;
/// How long requests go on beginning.
pub const SPAN_US: u64 = 60_000_000;
/// Of a hundred messages of a lossy network: lost, doubled, late.
pub const OF_A_HUNDRED: (u64, u64, u64) = (1, 1, 5);
/// Of so many members one fails.
pub const FAILING: usize = 100;
/// Number of windows of time in which answered requests are counted.
pub const WINDOWS: usize = 20;
/// The most moves that a linear walk makes in all.
const LINEAR_MOVES_MAX: u64 = 10_000_000;

/// What happens to messages and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    Calm,
    /// Some are lost, doubled or late.
    Lossy,
    /// Some members are dead.
    Failing,
}

impl Network {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Calm, Self::Lossy, Self::Failing];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Lossy => "lossy",
            Self::Failing => "failing",
        }
    }
}

/// How the requests of one form went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By which lookup.
    pub kind: Kind,
    /// In which form.
    pub form: Form,
    /// Through what.
    pub network: Network,
    /// Members, those that fail included.
    pub nodes: usize,
    /// How many were begun.
    pub requests: u64,
    /// How many have found an owner.
    pub found: u64,
    /// The member found does not own the point, or was found twice.
    pub wrong: u64,
    /// Failed because no member answered, no member knew the owner, or it took too many hops.
    pub failed: [u64; 3],
    /// Attempts of each request.
    pub attempts: Spread,
    /// Hops of those that were found.
    pub hops: Spread,
    /// Messages, of requests alone.
    pub messages: u64,
    /// How long those that were found took, rising, in microseconds.
    pub took_us: Vec<u32>,
    /// Of each window of time: requests that began in it, and those of them that found the owner.
    pub windows: [(u64, u64); WINDOWS],
}

impl Outcome {
    fn new(kind: Kind, form: Form, network: Network, nodes: usize) -> Self {
        Self {
            kind,
            form,
            network,
            nodes,
            requests: 0,
            found: 0,
            wrong: 0,
            failed: [0; 3],
            attempts: Spread::default(),
            hops: Spread::default(),
            messages: 0,
            took_us: Vec::new(),
            windows: [(0, 0); WINDOWS],
        }
    }

    /// The time that so many hundredths of those that were found did not exceed, in milliseconds.
    pub fn took_ms(&self, hundredths: usize) -> f64 {
        let at = (self.took_us.len() * hundredths).div_ceil(100).saturating_sub(1);
        self.took_us.get(at).map_or(0.0, |took| f64::from(*took) / 1_000.0)
    }
}

/// Requests of which lookup, in which form, over which network.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The lookup.
    pub kind: Kind,
    /// The form.
    pub form: Form,
    /// The network.
    pub network: Network,
}

/// Sends so many requests, on a ring of so many members.
pub fn outcome(
    case: Case,
    nodes: usize,
    requests: u64,
    seed: u64,
    on_progress: &dyn Fn(u64),
) -> Outcome {
    let Case { kind, form, network } = case;
    let ring = || Ring::new(nodes, Keys::Uniform, &mut Rng::new(seed ^ nodes as u64));
    let run = Run { kind, form, network, requests, seed, on_progress };
    match kind {
        Kind::Full => run.through(SharedFullTable::new(ring())),
        Kind::Chord => run.through(Tables::<Chord>::new(ring())),
        Kind::ChordSharp => run.through(Tables::<ChordSharp>::new(ring())),
        Kind::Linear => {
            let requests = linear_requests(nodes, requests, LINEAR_MOVES_MAX);
            Run { requests, ..run }.through(Tables::<Linear>::new(ring()))
        }
        Kind::Lh => run.through(Buckets::new(nodes)),
    }
}

/// The parameters of a run.
struct Run<'a> {
    kind: Kind,
    form: Form,
    network: Network,
    requests: u64,
    seed: u64,
    on_progress: &'a dyn Fn(u64),
}

impl Run<'_> {
    fn through<L: Guide>(&self, led: L) -> Outcome {
        let nodes = led.nodes();
        let is_failing = self.network == Network::Failing;
        let mut world = World {
            nodes: (0..nodes).map(|node| Requests::new(id(node), node as u64)).collect(),
            dead: vec![false; nodes],
            led,
            is_kept: is_failing,
            ticking: BTreeSet::new(),
            flying: BinaryHeap::new(),
            order: 0,
            now_us: 0,
            open: BTreeMap::new(),
            outcome: Outcome::new(self.kind, self.form, self.network, nodes),
            rng: Rng::new(self.seed ^ self.network as u64 ^ (nodes as u64) << 8),
        };
        for _ in 0..if is_failing { nodes / FAILING } else { 0 } {
            let node = world.rng.below(nodes as u64) as usize;
            world.dead[node] = true;
        }
        let all = self.requests;
        let begins_us = |request: u64| request * (SPAN_US / all) + request * (SPAN_US % all) / all;
        let mut begun = 0;
        for tick in 1.. {
            let until_us = tick * TICK_US;
            while begun < all && begins_us(begun) < until_us {
                world.hear_until(begins_us(begun));
                world.begin();
                begun += 1;
            }
            world.hear_until(until_us);
            if begun == all && world.open.is_empty() {
                break;
            }
            world.tick(tick);
            (self.on_progress)(begun);
        }
        world.outcome.took_us.sort_unstable();
        world.outcome
    }
}

/// A message on its way.
struct InFlightMessage {
    at_us: u64,
    order: u64,
    to: usize,
    from: usize,
    message: Message,
}

impl Ord for InFlightMessage {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.order).cmp(&(other.at_us, other.order))
    }
}

impl PartialOrd for InFlightMessage {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InFlightMessage {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InFlightMessage {}

/// A request that has not ended.
struct Open {
    owner: usize,
    begun_us: u64,
    attempts: usize,
}

/// All nodes, and messages on their way between them.
struct World<L> {
    led: L,
    nodes: Vec<Requests>,
    dead: Vec<bool>,
    /// Whether tables tick: there is something to find out.
    is_kept: bool,
    /// Nodes that wait for something.
    ticking: BTreeSet<usize>,
    flying: BinaryHeap<Reverse<InFlightMessage>>,
    order: u64,
    now_us: u64,
    /// By node, and the number that it has given.
    open: BTreeMap<(usize, u64), Open>,
    outcome: Outcome,
    rng: Rng,
}

/// What one node sees of tables.
struct View<'a, L> {
    led: &'a L,
    node: usize,
}

impl<L: Guide> overlay::request::Tables for View<'_, L> {
    fn next(&self, ask: &TableQuery<'_>) -> Option<NextHop> {
        self.led.next(self.node, ask)
    }
}

fn id(node: usize) -> NodeId {
    NodeId(node as u64 + 1)
}

fn place(id: NodeId) -> usize {
    id.0 as usize - 1
}

impl<L: Guide> World<L> {
    /// Somebody who is alive asks for something of somebody who is alive.
    fn begin(&mut self) {
        let (asker, owner, tail) = loop {
            let asker = self.led.asker(&mut self.rng);
            let tail = draw(Keys::Uniform, &mut self.rng);
            let owner = self.led.owner(&tail);
            if !self.dead[asker] && !self.dead[owner] {
                break (asker, owner, tail);
            }
        };
        self.outcome.requests += 1;
        self.outcome.windows[window(self.now_us)].0 += 1;
        let kind = self.outcome.kind;
        let request = LookupRequest {
            kind,
            at: L::IS_RING.then_some(ShardId(asker as u64 + 1)),
            keyspace: KEYSPACE,
            tail: tail.to_vec(),
            form: self.outcome.form,
            cached: false,
            // So that it is heard how often it begins.
            is_traced: true,
            hops_max: match kind {
                // Once around, and a little more.
                Kind::Linear => HOPS_LINEAR_MAX.min(self.nodes.len() as u32 + u32::from(HOPS_MAX)),
                _ => HOPS_MAX.into(),
            },
        };
        let (mut out, mut events) = (Outbox::new(), Vec::new());
        let view = View { led: &self.led, node: asker };
        let number = self.nodes[asker].begin(request, &view, &mut out, &mut events);
        let open = Open { owner, begun_us: self.now_us, attempts: 0 };
        self.open.insert((asker, number), open);
        self.handle_output(asker, out, events);
    }

    /// Everything that arrives until then does.
    fn hear_until(&mut self, until_us: u64) {
        while self.flying.peek().is_some_and(|Reverse(next)| next.at_us <= until_us) {
            let Some(Reverse(InFlightMessage { at_us, to, from, message, .. })) = self.flying.pop()
            else {
                break;
            };
            self.now_us = at_us;
            if self.dead[to] {
                continue;
            }
            let (mut out, mut events) = (Outbox::new(), Vec::new());
            match message {
                Message::Request(word) => {
                    let view = View { led: &self.led, node: to };
                    self.nodes[to].step(word, &view, &mut out, &mut events);
                }
                message => self.led.step(to, id(from), message, &mut out),
            }
            self.handle_output(to, out, events);
        }
        self.now_us = until_us;
    }

    /// Requests tick, and now and then tables, if there is anything to mend.
    fn tick(&mut self, tick: u64) {
        for node in self.ticking.clone() {
            let (mut out, mut events) = (Outbox::new(), Vec::new());
            let view = View { led: &self.led, node };
            self.nodes[node].tick(&view, &mut out, &mut events);
            self.handle_output(node, out, events);
        }
        if self.is_kept && tick.is_multiple_of(RING_TICKS) {
            for node in (0..self.nodes.len()).filter(|node| !self.dead[*node]).collect::<Vec<_>>() {
                let mut out = Outbox::new();
                self.led.tick(node, &mut out);
                self.send(node, out);
            }
        }
    }

    /// Handles the messages that a node sends, and its events.
    fn handle_output(&mut self, node: usize, out: Outbox, events: Vec<RequestEvent>) {
        for event in events {
            match event {
                RequestEvent::Asked { id, is_first, .. } => {
                    if let Some(open) = self.open.get_mut(&(node, id)) {
                        open.attempts += usize::from(is_first);
                    }
                }
                RequestEvent::Silent { shard, generation, .. } => {
                    self.led.silent(node, shard, generation);
                    self.is_kept = L::IS_RING;
                }
                RequestEvent::Found { id, owner, hops, .. } => {
                    self.found(node, id, Ring::place(&owner), hops);
                    self.led.found(node, owner);
                }
                RequestEvent::Unsure { .. } => {}
                RequestEvent::Failed { id, why } => self.failed(node, id, why),
            }
        }
        self.send(node, out);
        let (open, passed) = self.nodes[node].counts();
        match open + passed {
            0 => self.ticking.remove(&node),
            _ => self.ticking.insert(node),
        };
    }

    fn found(&mut self, node: usize, number: u64, by: usize, hops: u32) {
        let Some(Open { owner, begun_us, attempts }) = self.open.remove(&(node, number)) else {
            // It has ended before.
            self.outcome.wrong += 1;
            return;
        };
        self.outcome.wrong += u64::from(by != owner);
        self.outcome.found += 1;
        self.outcome.windows[window(begun_us)].1 += 1;
        self.outcome.hops.add(hops as usize);
        self.outcome.attempts.add(attempts.max(1));
        self.outcome.took_us.push(u32::try_from(self.now_us - begun_us).unwrap_or(u32::MAX));
    }

    fn failed(&mut self, node: usize, number: u64, why: Failure) {
        let Some(open) = self.open.remove(&(node, number)) else { return };
        self.outcome.attempts.add(open.attempts.max(1));
        self.outcome.failed[match why {
            Failure::Silent => 0,
            Failure::Busy | Failure::Refused => 1,
            Failure::Lost => 2,
        }] += 1;
    }

    fn send(&mut self, from: usize, out: Outbox) {
        for (to, message) in out {
            self.outcome.messages += u64::from(matches!(message, Message::Request(_)));
            let (mut copies, mut late_us) = (1, 0);
            if self.outcome.network == Network::Lossy {
                let (lost, doubled, late) = OF_A_HUNDRED;
                match self.rng.below(100) {
                    drawn if drawn < lost => copies = 0,
                    drawn if drawn < lost + doubled => copies = 2,
                    drawn if drawn < lost + doubled + late => {
                        late_us = self.rng.between(LATE_US.0, LATE_US.1);
                    }
                    _ => {}
                }
            }
            for _ in 0..copies {
                let at_us = self.now_us + self.rng.between(WAY_US.0, WAY_US.1) + late_us;
                self.order += 1;
                let (to, order, message) = (place(to), self.order, message.clone());
                self.flying.push(Reverse(InFlightMessage { at_us, order, to, from, message }));
            }
        }
    }
}

/// The time window that a moment lies in.
fn window(at_us: u64) -> usize {
    (at_us * WINDOWS as u64 / SPAN_US).min(WINDOWS as u64 - 1) as usize
}

#[cfg(test)]
mod tests;
