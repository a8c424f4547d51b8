//! The table under loss, repetition, disorder and restarts of nodes.

use super::*;

fn topic(kind: TopicKind, name: &str, count: u32) -> TopicCount {
    TopicCount { kind, name: name.as_bytes().into(), count }
}

fn channel(name: &str, count: u32) -> TopicCount {
    topic(TopicKind::Channel, name, count)
}

/// Two nodes that are linked, and no message on its way.
fn pair() -> (Interests, Interests) {
    let (mut one, mut two) = (Interests::new(10), Interests::new(20));
    let (mut out, mut back) = (Vec::new(), Vec::new());
    one.linked(NodeId(2), &mut out);
    two.linked(NodeId(1), &mut back);
    exchange(&mut one, &mut two, out, back);
    (one, two)
}

/// Delivers all messages and their answers.
fn exchange(one: &mut Interests, two: &mut Interests, mut out: Outbox, mut back: Outbox) {
    while !out.is_empty() || !back.is_empty() {
        let (mut more_out, mut more_back) = (Vec::new(), Vec::new());
        out.drain(..).for_each(|(_, message)| two.receive(NodeId(1), message, &mut more_back));
        back.drain(..).for_each(|(_, message)| one.receive(NodeId(2), message, &mut more_out));
        (out, back) = (more_out, more_back);
    }
}

#[test]
fn a_change_is_known_when_it_is_acknowledged() {
    let (mut one, mut two) = pair();
    let mut out = Vec::new();
    let version = one.change(vec![channel("a", 2), topic(TopicKind::Pattern, "n*", 1)], &mut out);
    assert!(one.known_to_all() < version);
    exchange(&mut one, &mut two, out, Vec::new());
    assert_eq!(one.known_to_all(), version);
    let wants = |channel: &str| two.interested(TopicKind::Channel, channel.as_bytes()).count();
    assert_eq!((wants("a"), wants("news"), wants("b")), (1, 1, 0));
    assert_eq!(two.interested(TopicKind::Shard, b"a").count(), 0, "shard channels are others");
    assert_eq!(two.subscribers(TopicKind::Channel, b"a"), 2);
    assert_eq!(two.names(TopicKind::Pattern), [Box::from(*b"n*")]);
    two.unlinked(NodeId(1));
    assert_eq!(two.interested(TopicKind::Channel, b"a").count(), 0);
    assert_eq!(Interests::new(1).known_to_all(), u64::MAX, "nobody is to be waited for");
}

#[test]
fn a_lost_delta_is_healed_by_the_next_digest() {
    let (mut one, mut two) = pair();
    let mut lost = Vec::new();
    one.change(vec![channel("a", 1)], &mut lost);
    let version = one.change(vec![channel("a", 0), channel("b", 1)], &mut lost);
    let mut out = Vec::new();
    one.tick(&mut out);
    exchange(&mut one, &mut two, out, Vec::new());
    assert_eq!(one.known_to_all(), version);
    assert_eq!(two.names(TopicKind::Channel), [Box::from(*b"b")]);
}

#[test]
fn a_node_far_behind_gets_the_whole_state() {
    let (mut one, mut two) = pair();
    let mut lost = Vec::new();
    for number in 0..=CHANGES_MAX {
        one.change(vec![channel(&format!("c{number}"), 1)], &mut lost);
    }
    let mut out = Vec::new();
    one.receive(NodeId(2), InterestMessage::Pull { incarnation: 10, version: 1 }, &mut out);
    assert!(matches!(out[..], [(_, InterestMessage::State { .. })]), "not a delta");
    exchange(&mut one, &mut two, out, Vec::new());
    assert_eq!(two.names(TopicKind::Channel).len(), CHANGES_MAX + 1);
}

#[test]
fn who_has_too_many_topics_wants_all_messages_until_they_are_half_as_many() {
    let (mut one, mut two) = pair();
    let name = |number: usize| format!("{number:0>1000}");
    let most = INTEREST_BYTES_MAX / (1000 + TOPIC_BYTES);
    let tell = |one: &mut Interests, two: &mut Interests, number, count| {
        let mut out = Vec::new();
        one.change(vec![channel(&name(number), count)], &mut out);
        exchange(one, two, out, Vec::new());
    };
    (0..=most).for_each(|number| tell(&mut one, &mut two, number, 1));
    assert_eq!(two.interested(TopicKind::Channel, b"anything").count(), 1);
    assert!(two.names(TopicKind::Channel).is_empty(), "it announces none of them");
    let version = one.own.version;
    tell(&mut one, &mut two, most + 1, 1);
    assert_eq!(one.own.version, version, "nothing is to be announced, nobody waits");
    (0..=most / 2 + 2).for_each(|number| tell(&mut one, &mut two, number, 0));
    assert_eq!(two.interested(TopicKind::Channel, b"anything").count(), 0);
    assert_eq!(two.names(TopicKind::Channel).len(), most - most / 2 - 1);
    assert_eq!(one.known_to_all(), one.own.version);
}

/// Small, and always the same numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Three nodes whose messages are lost, repeated and put in disorder; nodes restart. When messages
/// arrive again, two ticks make all tables equal.
#[test]
fn tables_become_equal_whatever_happened_to_messages() {
    for seed in 1..=200 {
        let mut dice = Dice(seed * 0x9e37_79b9);
        let mut world = World::new();
        for _ in 0..150 {
            world.act(&mut dice);
            world.check_versions(seed);
        }
        for _ in 0..2 {
            for node in 0..3 {
                world.send(node, |interests, out| interests.tick(out));
            }
            while !world.flying.is_empty() {
                world.deliver(0);
            }
        }
        world.check(seed);
    }
}

struct World {
    nodes: Vec<Interests>,
    starts: u64,
    /// What each version of each incarnation was.
    history: BTreeMap<(u64, u64), [BTreeMap<Name, u32>; 3]>,
    /// From, to, what.
    flying: Vec<(usize, usize, InterestMessage)>,
}

impl World {
    fn new() -> Self {
        let nodes = (1..=3).map(Interests::new).collect();
        let mut world = Self { nodes, starts: 3, history: BTreeMap::new(), flying: Vec::new() };
        (0..3).for_each(|node| world.link(node));
        world
    }

    fn link(&mut self, node: usize) {
        for other in (0..3).filter(|other| *other != node) {
            self.send(node, |interests, out| interests.linked(NodeId(other as u64), out));
        }
    }

    fn send(&mut self, from: usize, step: impl FnOnce(&mut Interests, &mut Outbox)) {
        let mut out = Vec::new();
        step(&mut self.nodes[from], &mut out);
        self.flying.extend(out.into_iter().map(|(to, message)| (from, to.0 as usize, message)));
    }

    /// The topics that a node knows of another are those of the version that it names, and a node
    /// believes of no other that it knows a later version than it does.
    fn check_versions(&mut self, seed: u64) {
        for node in &self.nodes {
            let OwnInterest { incarnation, version, topics, .. } = &node.own;
            self.history.insert((*incarnation, *version), topics.counts.clone());
        }
        for (at, node) in self.nodes.iter().enumerate() {
            for (other, known) in node.peers.iter().filter(|(_, known)| known.version > 0) {
                let was = &self.history[&(known.incarnation, known.version)];
                assert_eq!(&known.topics.counts, was, "seed {seed}: {at} of {other}");
            }
            for (other, known) in node.peers.iter().filter(|(_, known)| known.acked > 0) {
                let there = &self.nodes[other.0 as usize].peers[&NodeId(at as u64)];
                let knows = (there.incarnation, there.version);
                assert!(
                    knows >= (node.own.incarnation, known.acked),
                    "seed {seed}: {other} of {at}"
                );
            }
        }
    }

    fn deliver(&mut self, at: usize) {
        let (from, to, message) = self.flying.remove(at);
        self.send(to, |interests, out| interests.receive(NodeId(from as u64), message, out));
    }

    fn act(&mut self, dice: &mut Dice) {
        let node = dice.roll(3) as usize;
        let any = dice.roll(self.flying.len().max(1) as u64) as usize;
        match dice.roll(20) {
            0..6 => {
                let kind = TopicKind::ALL[dice.roll(3) as usize];
                let (name, count) = (format!("t{}", dice.roll(5)), dice.roll(3) as u32);
                self.send(node, |interests, out| {
                    interests.change(vec![topic(kind, &name, count)], out);
                });
            }
            6..14 if !self.flying.is_empty() => self.deliver(any),
            14..16 if !self.flying.is_empty() => _ = self.flying.remove(any),
            16 if !self.flying.is_empty() => self.flying.push(self.flying[any].clone()),
            17 => self.send(node, |interests, out| interests.tick(out)),
            18 if dice.roll(4) == 0 => {
                // It restarts: its links end, with all that is on them.
                self.starts += 1;
                self.nodes[node] = Interests::new(self.starts);
                self.flying.retain(|(from, to, _)| *from != node && *to != node);
                for other in (0..3).filter(|other| *other != node) {
                    self.nodes[other].unlinked(NodeId(node as u64));
                    let linked = |interests: &mut Interests, out: &mut Outbox| {
                        interests.linked(NodeId(node as u64), out);
                    };
                    self.send(other, linked);
                }
                self.link(node);
            }
            _ => {}
        }
    }

    fn check(&self, seed: u64) {
        for (at, node) in self.nodes.iter().enumerate() {
            assert_eq!(node.known_to_all(), node.own.version, "seed {seed}");
            for (other, known) in &node.peers {
                let own = &self.nodes[other.0 as usize].own;
                assert_eq!(known.topics.counts, own.topics.counts, "seed {seed}: {at} of {other}");
                assert_eq!(known.topics.digest, own.topics.digest, "seed {seed}");
            }
        }
    }
}
