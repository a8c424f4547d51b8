//! A network of virtual nodes in virtual time, with every fault a link or a process can have.
//! Same seed, same trace.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::NodeId;
use membership::{Effect, Facts, Membership, News, State};

pub const MILLI: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MILLI;

/// So many frames wait for a paused process; then its sockets are full.
const WAITING_MAX: usize = 500;

/// Trace of all that happened, as one number (FNV-1a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace(u64);

impl Trace {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

pub struct Node {
    pub core: Membership,
    paused: bool,
    /// Frames that wait in its sockets while it is paused, and who sent them.
    waiting: Vec<(u64, Vec<u8>)>,
    /// When it is to be woken next.
    wake_at: Option<u64>,
    pub news: Vec<(u64, News)>,
    pub sent: u64,
    pub sent_bytes: u64,
}

enum Event {
    Wake(u64),
    Frame {
        from: u64,
        to: u64,
        bytes: Vec<u8>,
    },
    /// The handshake of a link that `from` opens.
    Shake {
        from: u64,
        to: u64,
    },
}

pub struct World {
    pub now: u64,
    seed: u64,
    state: u64,
    pub nodes: BTreeMap<u64, Node>,
    events: BTreeMap<(u64, u64), Event>,
    order: u64,
    /// Lost frames of a thousand.
    pub loss: u64,
    pub delay_max: u64,
    /// From the first to the second nothing gets through.
    pub cut: BTreeSet<(u64, u64)>,
    pub trace: Trace,
    pub frame_bytes_longest: usize,
}

pub fn facts(node: u64) -> Facts {
    Facts {
        name: format!("node-{node}"),
        peer: format!("10.0.0.{node}:7600"),
        advertised: format!("n{node}.example"),
        domain: format!("rack-{}", node % 3),
        software: "0.1.0".into(),
        resp: Some(6379),
        native: None,
        http: Some(7480),
        protocol_lowest: 1,
        protocol_highest: 1,
        joined_at: 1_000 + node,
        ..Facts::default()
    }
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            now: SECOND,
            seed,
            state: seed,
            nodes: BTreeMap::new(),
            events: BTreeMap::new(),
            order: 0,
            loss: 0,
            delay_max: 2 * MILLI,
            cut: BTreeSet::new(),
            trace: Trace(0xcbf2_9ce4_8422_2325),
            frame_bytes_longest: 0,
        }
    }

    /// Nodes 1 to `count`, each started within a second and told of node 1; run until all know
    /// all.
    pub fn cluster(seed: u64, count: u64, loss: u64) -> Self {
        let mut world = Self::new(seed);
        world.loss = loss;
        for node in 1..=count {
            world.start(node, if node == 1 { &[] } else { &[1] });
            let wait = world.draw_below(1_000 / count.max(1)) * MILLI;
            world.run(wait);
        }
        world.until(30 * SECOND, "all know all", World::is_together);
        if loss == 0 {
            world.until(5 * SECOND, "all know all", World::is_whole);
        }
        world
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mixed = (self.state ^ (self.state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 29)
    }

    pub fn draw_below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// Starts a node, also again: its incarnation is the time.
    pub fn start(&mut self, node: u64, seeds: &[u64]) {
        self.start_as(node, self.now / MILLI, facts(node), seeds);
    }

    pub fn start_as(&mut self, node: u64, incarnation: u64, facts: Facts, seeds: &[u64]) {
        let seed = self.seed ^ (incarnation << 20);
        let core = Membership::new(NodeId(node), incarnation, facts, self.now, seed).unwrap();
        let blank = Node {
            core,
            paused: false,
            waiting: Vec::new(),
            wake_at: None,
            news: Vec::new(),
            sent: 0,
            sent_bytes: 0,
        };
        self.nodes.insert(node, blank);
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        self.with(node, |core, now, out| core.join(now, seeds, out));
    }

    pub fn kill(&mut self, node: u64) {
        self.nodes.remove(&node).expect("was there");
    }

    pub fn pause(&mut self, node: u64) {
        self.nodes.get_mut(&node).unwrap().paused = true;
    }

    /// Wakes a node; what lay in its sockets is delivered now.
    pub fn resume(&mut self, node: u64) {
        let awake = self.nodes.get_mut(&node).unwrap();
        awake.paused = false;
        for (from, bytes) in std::mem::take(&mut awake.waiting) {
            self.schedule(self.now, Event::Frame { from, to: node, bytes });
        }
        self.schedule(self.now, Event::Wake(node));
    }

    pub fn core(&self, node: u64) -> &Membership {
        &self.nodes[&node].core
    }

    pub fn with<T>(
        &mut self,
        node: u64,
        act: impl FnOnce(&mut Membership, u64, &mut Vec<Effect>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let now = self.now;
        let answer = act(&mut self.nodes.get_mut(&node).unwrap().core, now, &mut out);
        self.perform(node, out);
        answer
    }

    fn perform(&mut self, node: u64, out: Vec<Effect>) {
        for effect in out {
            match effect {
                Effect::Send { to, bytes } => {
                    let mine = self.nodes.get_mut(&node).unwrap();
                    mine.sent += 1;
                    mine.sent_bytes += bytes.len() as u64;
                    self.frame_bytes_longest = self.frame_bytes_longest.max(bytes.len());
                    self.trace.add(&self.now.to_le_bytes());
                    self.trace.add(&bytes);
                    let lost = self.draw_below(1_000) < self.loss;
                    let at = self.now + 1 + self.draw_below(self.delay_max);
                    if !lost && !self.cut.contains(&(node, to.0)) {
                        self.schedule(at, Event::Frame { from: node, to: to.0, bytes });
                    }
                }
                Effect::Dial { address } => {
                    let to = address.parse().unwrap();
                    self.schedule(self.now + MILLI, Event::Shake { from: node, to });
                }
                Effect::News(news) => {
                    self.trace.add(format!("{} {node} {news:?}", self.now).as_bytes());
                    self.nodes.get_mut(&node).unwrap().news.push((self.now, news));
                }
            }
        }
        let mine = self.nodes.get_mut(&node).unwrap();
        if let Some(at) = mine.core.next_deadline().map(|at| at.max(self.now))
            && mine.wake_at.is_none_or(|earlier| at < earlier)
        {
            mine.wake_at = Some(at);
            self.schedule(at, Event::Wake(node));
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    pub fn run(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while let Some(first) = self.events.first_entry().filter(|first| first.key().0 <= end) {
            let ((at, _), event) = first.remove_entry();
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        let awake = |world: &Self, node| world.nodes.get(&node).is_some_and(|node| !node.paused);
        match event {
            Event::Wake(node) if awake(self, node) => {
                self.nodes.get_mut(&node).unwrap().wake_at = None;
                self.with(node, |core, now, out| core.tick(now, out));
            }
            Event::Wake(_) => {}
            Event::Frame { from, to, bytes } if awake(self, to) => {
                let from = NodeId(from);
                self.with(to, |core, now, out| core.step(now, from, &bytes, out)).unwrap();
            }
            Event::Frame { from, to, bytes } => {
                if let Some(paused) = self.nodes.get_mut(&to)
                    && paused.waiting.len() < WAITING_MAX
                {
                    paused.waiting.push((from, bytes));
                }
            }
            Event::Shake { from, to } => {
                let open = !self.cut.contains(&(from, to)) && !self.cut.contains(&(to, from));
                if open && awake(self, from) && awake(self, to) && from != to {
                    let (one, other) = (self.introduction(from), self.introduction(to));
                    self.shake(to, from, &one);
                    self.shake(from, to, &other);
                }
            }
        }
    }

    fn introduction(&self, node: u64) -> Vec<u8> {
        self.core(node).introduction()
    }

    fn shake(&mut self, at: u64, with: u64, introduction: &[u8]) {
        self.with(at, |core, now, out| core.connected(now, NodeId(with), introduction, out))
            .unwrap();
    }

    /// Runs until it holds, in steps of 10 ms; answers how long that took.
    pub fn until(&mut self, at_most: u64, what: &str, holds: impl Fn(&Self) -> bool) -> u64 {
        let begin = self.now;
        while !holds(self) {
            assert!(
                self.now < begin + at_most,
                "seed {}: not within {} ms: {what}\n{}",
                self.seed,
                at_most / MILLI,
                self.table(),
            );
            self.run(10 * MILLI);
        }
        self.now - begin
    }

    /// Every running node sees every running one alive with its newest facts, and nobody else.
    pub fn is_whole(&self) -> bool {
        self.nodes.iter().all(|(_, node)| {
            self.nodes.iter().all(|(other, theirs)| {
                node.core.member(NodeId(*other)).is_some_and(|seen| {
                    let own = theirs.core.member(NodeId(*other)).unwrap();
                    seen.state == State::Alive
                        && seen.incarnation == own.incarnation
                        && seen.facts == own.facts
                })
            }) && node
                .core
                .members()
                .all(|seen| seen.state != State::Alive || self.nodes.contains_key(&seen.node.0))
        })
    }

    /// Every running node takes every running one for active. Under heavy loss somebody is always
    /// suspected somewhere.
    pub fn is_together(&self) -> bool {
        self.nodes.values().all(|node| {
            self.nodes.keys().all(|other| {
                let seen = node.core.member(NodeId(*other));
                seen.is_some_and(|seen| matches!(seen.state, State::Alive | State::Suspect))
            })
        })
    }

    /// Every running node sees `other` in this state.
    pub fn all_see(&self, other: u64, state: State) -> bool {
        self.nodes.iter().all(|(node, world)| {
            let seen = world.core.member(NodeId(other));
            *node == other || seen.is_some_and(|member| member.state == state)
        })
    }

    /// How often a node was told this kind of news since.
    pub fn count_since(&self, begin: u64, kind: impl Fn(&News) -> bool) -> usize {
        let all = self.nodes.values().flat_map(|node| &node.news);
        all.filter(|(at, news)| *at >= begin && kind(news)).count()
    }

    pub fn isolate(&mut self, some: &[u64]) {
        for a in self.nodes.keys().copied().collect::<Vec<_>>() {
            for &b in some {
                if !some.contains(&a) {
                    self.cut.extend([(a, b), (b, a)]);
                }
            }
        }
    }

    /// Where nodes see others otherwise than these are.
    fn table(&self) -> String {
        let mut text = String::new();
        for (id, node) in &self.nodes {
            for (other, theirs) in &self.nodes {
                let own = theirs.core.incarnation();
                match node.core.member(NodeId(*other)) {
                    Some(seen) if seen.state == State::Alive && seen.incarnation == own => {}
                    Some(seen) => {
                        let (state, life) = (seen.state, seen.incarnation);
                        text += &format!("{id} sees {other}@{own} as {state:?}@{life}\n");
                    }
                    None => text += &format!("{id} does not know {other}@{own}\n"),
                }
            }
        }
        text.truncate(2_000);
        text
    }
}
