//! All lookups on some nodes at once: every request ends at the owner, wherever the leaders are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc as Shared;

use keyspace::random::Random;
use keyspace::{Arc, Descriptor, Generation, KeyspaceId, NodeId, Position, ReplicaId, ShardId};
use overlay::lh::{Bucket, LinearHashTable};
use overlay::request::{
    Failure, Find, Form, HOPS_LINEAR_MAX, HopSource, LookupRequest, RequestEvent, RequestMessage,
};
use overlay::switchboard::Effects;
use overlay::{Kind, KnownShard, Message, Point, Switchboard, Table};

use crate::ring_world::KEYSPACE;

const NODES: u64 = 5;
const ENTRIES_MAX: usize = 1 << 20;

/// Nodes, each with a full table, and what is on its way between them.
struct Net {
    boards: BTreeMap<NodeId, Switchboard>,
    fulls: BTreeMap<NodeId, Table>,
    shards: Vec<Shared<KnownShard>>,
    flying: VecDeque<(NodeId, NodeId, Message)>,
    events: Vec<(NodeId, RequestEvent)>,
    messages: usize,
}

fn known(shard: u64, arc: Arc, leader: u64, term: u64) -> Shared<KnownShard> {
    known_as_of(1, shard, arc, leader, term)
}

fn known_as_of(
    generation: u64,
    shard: u64,
    arc: Arc,
    leader: u64,
    term: u64,
) -> Shared<KnownShard> {
    let replicas = (1..=NODES).map(|node| (ReplicaId(node), NodeId(node))).collect();
    let (generation, leader) = (Generation(generation), Some(ReplicaId(leader)));
    let descriptor = Descriptor { shard: ShardId(shard), arc, replicas, generation, leader };
    Shared::new(KnownShard::new(descriptor, term))
}

/// Shards that begin at these tails.
fn tiled(starts: &[Vec<u8>]) -> Vec<Shared<KnownShard>> {
    let at = |index: usize| Position::at(KEYSPACE, &starts[index % starts.len()]);
    let arc = |index| Arc::new(at(index), at(index + 1)).unwrap();
    (0..starts.len()).map(|n| known(n as u64 + 1, arc(n), n as u64 % NODES + 1, 1)).collect()
}

/// The buckets of a file.
fn filed(buckets: u64) -> Vec<Shared<KnownShard>> {
    let mut file = LinearHashTable::FIRST;
    (1..buckets).for_each(|_| assert!(file.split().is_some()));
    let bucket = |number| file.bucket(number).unwrap().arc(KEYSPACE);
    (0..buckets).map(|n| known(n + 1, bucket(n), n % NODES + 1, 1)).collect()
}

impl Net {
    fn new(shards: Vec<Shared<KnownShard>>) -> Self {
        let nodes = || (1..=NODES).map(NodeId);
        let boards = nodes().map(|node| (node, Switchboard::new(node, node.0 << 32)));
        let fulls = nodes().map(|node| (node, Table::default()));
        let (boards, fulls) = (boards.collect(), fulls.collect());
        let (flying, events) = Default::default();
        let mut net = Self { boards, fulls, shards: Vec::new(), flying, events, messages: 0 };
        for (node, board) in &mut net.boards {
            let others: Vec<_> = nodes().filter(|other| other != node).collect();
            board.peers(&others);
        }
        shards.into_iter().for_each(|known| net.tell(known));
        net.lead();
        net
    }

    /// All nodes hear of this by gossip.
    fn tell(&mut self, known: Shared<KnownShard>) {
        for (node, full) in &mut self.fulls {
            full.learn(known.clone(), ENTRIES_MAX);
            self.boards.get_mut(node).unwrap().learn(&known);
        }
        self.shards.retain(|old| old.shard() != known.shard());
        self.shards.push(known);
    }

    fn lead(&mut self) {
        for (node, board) in &mut self.boards {
            let led = self.shards.iter().filter(|known| known.leader() == Some(*node));
            board.lead(&led.cloned().collect::<Vec<_>>(), &self.fulls[node]);
        }
    }

    fn at(&mut self, node: NodeId, f: impl FnOnce(&mut Switchboard, &Table, &mut Effects)) {
        let mut effects = Effects::default();
        f(self.boards.get_mut(&node).unwrap(), &self.fulls[&node], &mut effects);
        self.events.extend(effects.events.into_iter().map(|event| (node, event)));
        for (to, message) in effects.out {
            assert_ne!(to, node, "what a node says to itself goes nowhere");
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
            self.messages += 1;
            self.flying.push_back((node, to, message));
        }
    }

    fn settle(&mut self) -> Vec<(NodeId, RequestEvent)> {
        while let Some((from, to, message)) = self.flying.pop_front() {
            // Who says where an answer is to go may name anybody.
            if !self.boards.contains_key(&to) {
                continue;
            }
            self.at(to, |board, full, effects| board.step(from, message, full, effects));
        }
        std::mem::take(&mut self.events)
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            for node in (1..=NODES).map(NodeId) {
                // A part of the tables at a time.
                for turn in 0..2 {
                    self.at(node, |board, full, effects| {
                        board.tick_rings(turn, 2, full, effects);
                    });
                }
            }
            self.settle();
        }
    }

    fn owner(&self, tail: &[u8]) -> ShardId {
        self.fulls[&NodeId(1)].owner(Point { keyspace: KEYSPACE, tail }).unwrap().shard()
    }

    /// Every lookup of these in every form, from every node; how many hops all took.
    fn ask_all(&mut self, kinds: &[Kind], cached: bool, seed: u64) -> u32 {
        let mut random = Random::new(seed);
        let mut hops_in_all = 0;
        for (kind, form) in
            kinds.iter().flat_map(|kind| Form::ALL.into_iter().map(move |form| (*kind, form)))
        {
            for node in (1..=NODES).map(NodeId) {
                for _ in 0..20 {
                    let tail = random.bits().to_be_bytes().to_vec();
                    let request = request(kind, form, &tail, cached);
                    self.at(node, |board, full, effects| {
                        board.begin(request, full, effects);
                    });
                    let events = self.settle();
                    let Some((_, RequestEvent::Found { owner, hops, trail, .. })) = events.last()
                    else {
                        panic!("{kind:?} {form:?}: {events:?}")
                    };
                    assert_eq!(owner.shard(), self.owner(&tail), "{kind:?} {form:?}");
                    let asked = events.iter().filter_map(|(_, event)| match event {
                        RequestEvent::Asked { leg, .. } => Some(leg),
                        _ => None,
                    });
                    let legs: Vec<_> = asked.chain(trail).collect();
                    let is_hop = |by: HopSource| matches!(by, HopSource::Ring(_));
                    let ring_hops = legs.iter().filter(|leg| is_hop(leg.by)).count();
                    if kind.strategy().is_some() && !cached {
                        assert_eq!(ring_hops, *hops as usize, "{legs:?}");
                    }
                    hops_in_all += hops;
                }
            }
        }
        hops_in_all
    }
}

fn request(kind: Kind, form: Form, tail: &[u8], cached: bool) -> LookupRequest {
    let (keyspace, tail) = (KEYSPACE, tail.to_vec());
    let (at, is_traced, hops_max) = (None, true, 64);
    LookupRequest { kind, at, keyspace, tail, form, cached, is_traced, hops_max }
}

const RINGS: [Kind; 3] = [Kind::Linear, Kind::Chord, Kind::ChordSharp];

fn starts(count: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(count);
    let mut starts: Vec<_> = (0..count).map(|_| random.bits().to_be_bytes().to_vec()).collect();
    starts.sort();
    starts
}

#[test]
fn every_lookup_of_every_node_ends_at_the_owner() {
    let mut net = Net::new(tiled(&starts(40)));
    net.rounds(80);
    for known in net.shards.clone() {
        let board = &net.boards[&known.leader().unwrap()];
        for kind in RINGS {
            let list = board.successors(kind, known.shard()).unwrap();
            assert_eq!(list[0], ShardId(known.shard().0 % 40 + 1), "the next one");
        }
    }
    let raw = net.ask_all(&RINGS, false, 1);
    let first = net.ask_all(&RINGS, true, 2);
    let again = net.ask_all(&RINGS, true, 2);
    assert!(first < raw, "{first} hops with shortcuts, {raw} without");
    assert_eq!(again, 0, "all were found before: the way to an owner that is remembered is no hop");
    assert_eq!(net.ask_all(&[Kind::Full], true, 3), 0);
}

#[test]
fn requests_find_buckets_by_their_numbers() {
    for buckets in [1, 2, 3, 5, 8, 21] {
        let mut net = Net::new(filed(buckets));
        let first = net.ask_all(&[Kind::Lh], false, buckets);
        net.ask_all(&[Kind::Lh], false, 100);
        assert_eq!(net.ask_all(&[Kind::Lh], false, 100), 0, "its image is right by now: {first}");
    }
    let of_none = tiled(&starts(3));
    assert!(of_none.iter().all(|known| Bucket::of(known.arc()).is_none()));
}

#[test]
fn a_leader_moves_and_a_node_forgets() {
    let mut net = Net::new(tiled(&starts(24)));
    net.rounds(60);
    // Half of the shards are led by other nodes now.
    for known in net.shards.clone().into_iter().step_by(2) {
        let leader = known.leader().unwrap().0 % NODES + 1;
        net.tell(self::known(known.shard().0, known.arc().clone(), leader, 2));
    }
    net.lead();
    net.ask_all(&RINGS, false, 5);
    net.rounds(60);
    net.ask_all(&RINGS, false, 6);

    // Nobody knows anything: requests fail, in their time, and say so.
    net.boards.values_mut().for_each(Switchboard::forget);
    for kind in RINGS {
        let tail = [7; 8];
        net.at(NodeId(2), |board, full, effects| {
            board.begin(request(kind, Form::Recursive, &tail, true), full, effects);
        });
        let mut ended = Vec::new();
        for _ in 0..200 {
            net.at(NodeId(2), Switchboard::tick_requests);
            ended.extend(net.settle().into_iter().filter_map(|(_, event)| match event {
                RequestEvent::Failed { why, .. } => Some(why),
                _ => None,
            }));
        }
        assert_eq!(ended, [Failure::Busy], "{kind:?}");
    }
    // The full table is there still: new tables begin with it.
    let others = |node: u64| (1..=NODES).filter(move |other| *other != node).map(NodeId);
    for (node, board) in &mut net.boards {
        board.peers(&others(node.0).collect::<Vec<_>>());
    }
    net.lead();
    net.ask_all(&RINGS, false, 7);
}

#[test]
fn a_dropped_keyspace_leaves_nothing() {
    let mut net = Net::new(tiled(&starts(12)));
    net.rounds(40);
    net.ask_all(&RINGS, true, 1);
    for board in net.boards.values_mut() {
        assert!(board.shards() > 0 && board.cached_routes() > 0 && board.entries(Kind::Chord) > 0);
        board.drop_keyspace(KEYSPACE);
        let left = [board.shards(), board.cached_routes(), board.entries(Kind::Chord)];
        assert_eq!(left, [0; 3]);
    }
}

/// Asks for one point from one node; how many ticks it took until it was found.
fn ticks_until_found(net: &mut Net, node: NodeId, form: Form, tail: &[u8]) -> u32 {
    let request = request(Kind::Chord, form, tail, true);
    net.at(node, |board, full, effects| {
        board.begin(request, full, effects);
    });
    for ticks in 0.. {
        for (_, event) in net.settle() {
            match event {
                RequestEvent::Found { owner, .. } => {
                    assert_eq!(owner.shard(), net.owner(tail));
                    return ticks;
                }
                RequestEvent::Failed { why, .. } => panic!("{form:?} from {node:?}: {why:?}"),
                _ => {}
            }
        }
        net.at(node, Switchboard::tick_requests);
    }
    unreachable!()
}

#[test]
fn stale_route_of_merged_shard_is_corrected_soon() {
    for is_told in [true, false] {
        for form in Form::ALL {
            let mut net = Net::new(tiled(&starts(24)));
            net.rounds(60);
            let (left, gone) = (net.shards[3].clone(), net.shards[4].clone());
            let tail = gone.arc().start().tail().to_vec();
            for node in (1..=NODES).map(NodeId) {
                ticks_until_found(&mut net, node, form, &tail);
            }
            // The one before takes it in. Its image names the one that is gone, and not the other.
            let arc = Arc::new(left.arc().start().clone(), gone.arc().end().clone()).unwrap();
            let leader = left.leader().unwrap().0;
            let merged = known_as_of(2, left.shard().0, arc, leader, 1);
            net.shards.retain(|known| known.shard() != gone.shard());
            match is_told {
                true => net.tell(merged),
                false => {
                    net.shards.retain(|known| known.shard() != merged.shard());
                    for full in net.fulls.values_mut() {
                        full.learn(merged.clone(), ENTRIES_MAX);
                    }
                    net.shards.push(merged);
                }
            }
            net.lead();
            net.rounds(60);
            for node in (1..=NODES).map(NodeId) {
                let ticks = ticks_until_found(&mut net, node, form, &tail);
                assert!(ticks <= if is_told { 0 } else { 2 }, "{form:?} from {node:?}: {ticks}");
                assert_eq!(ticks_until_found(&mut net, node, form, &tail), 0);
            }
        }
    }
}

#[test]
fn hostile_messages_only_delay_requests() {
    let mut net = Net::new(tiled(&starts(24)));
    net.rounds(60);
    let mut random = Random::new(7);
    let any = |random: &mut Random, shards: &[Shared<KnownShard>]| -> Shared<KnownShard> {
        let known = &shards[random.bits() as usize % shards.len()];
        let leader = random.bits() % NODES + 1;
        self::known(random.bits() % 30, known.arc().clone(), leader, random.bits() % 4)
    };
    for turn in 0..20_000_u64 {
        let node = NodeId(turn % NODES + 1);
        if turn % 7 == 0 {
            let tail = random.bits().to_be_bytes();
            let form = Form::ALL[random.bits() as usize % 3];
            let request = request(RINGS[random.bits() as usize % 3], form, &tail, turn % 2 == 0);
            net.at(node, |board, full, effects| {
                board.begin(request, full, effects);
            });
        }
        // A number that is open, or was, or will be.
        let number = (node.0 << 32) + random.bits() % (turn + 10);
        let word = match random.bits() % 8 {
            0 => RequestMessage::Busy { number },
            1 => RequestMessage::Next {
                number,
                member: any(&mut random, &net.shards),
                by: HopSource::AnyNode,
            },
            2 => RequestMessage::Found {
                number,
                hops: HOPS_LINEAR_MAX,
                owner: any(&mut random, &net.shards),
                trail: Vec::new(),
            },
            kind => RequestMessage::Find(Find {
                number,
                kind: Kind::ALL[random.bits() as usize % 5],
                to: (kind > 3).then_some(ShardId(random.bits() % 30)),
                form: Form::ALL[random.bits() as usize % 3],
                cached: kind % 2 == 0,
                origin: NodeId(random.bits() % (NODES + 3)),
                hops: random.bits() as u32 % 100,
                hops_max: random.bits() as u32 % 100,
                keyspace: KeyspaceId(KEYSPACE.0 + u32::from(turn % 50 == 0)),
                tail: random.bits().to_be_bytes()[..turn as usize % 9].to_vec(),
                trail: (turn % 2 == 0).then(Vec::new),
            }),
        };
        let message = Message::Request(word);
        net.at(node, |board, full, effects| board.step(NodeId(3), message, full, effects));
        // No way goes on for ever.
        net.settle();
        if turn % 5 == 0 {
            net.at(node, Switchboard::tick_requests);
        }
    }
    // All that was begun ends, and what was forged is forgotten, or found to be wrong.
    for _ in 0..200 {
        for node in (1..=NODES).map(NodeId) {
            net.at(node, Switchboard::tick_requests);
        }
        net.settle();
    }
    for board in net.boards.values() {
        assert_eq!(board.open_requests(), (0, 0));
    }
    net.ask_all(&RINGS, false, 8);
}
