//! Rings in a box: tables of one strategy, and what is on its way between them as bytes.

use std::collections::BTreeMap;
use std::sync::Arc as Shared;

use keyspace::{Arc, Descriptor, Generation, KeyspaceId, NodeId, Position, ReplicaId, ShardId};
use overlay::ring::message::Strategy;
use overlay::ring::place::Members;
use overlay::ring::{Ring, ideal};
use overlay::{
    Chord, ChordSharp, KnownShard, Linear, Lookup, Message, Outbox, Point, Step, TableEntry, Update,
};

pub const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// A strategy with the base of its fingers, which only chord-sharp has.
#[derive(Clone, Copy, Debug)]
pub struct Kind(pub Strategy, pub u8);

pub const KINDS: [Kind; 4] = [
    Kind(Strategy::Linear, 2),
    Kind(Strategy::Chord, 2),
    Kind(Strategy::ChordSharp, 2),
    Kind(Strategy::ChordSharp, 4),
];

/// One member's table.
#[derive(Clone, Debug)]
pub enum Table {
    Linear(Linear),
    Chord(Chord),
    ChordSharp(ChordSharp),
}

type Me = Shared<KnownShard>;

impl Table {
    pub fn new(kind: Kind, me: Me, length: usize) -> Self {
        match kind.0 {
            Strategy::Linear => Self::Linear(Linear::new(me, length)),
            Strategy::Chord => Self::Chord(Chord::new(me, length)),
            Strategy::ChordSharp => Self::ChordSharp(ChordSharp::new(me, length, kind.1)),
        }
    }

    pub fn join(kind: Kind, me: Me, left: Me, list: &[Me], length: usize) -> Self {
        match kind.0 {
            Strategy::Linear => Self::Linear(Linear::join(me, left, list, length)),
            Strategy::Chord => Self::Chord(Chord::join(me, left, list, length)),
            Strategy::ChordSharp => {
                Self::ChordSharp(ChordSharp::join(me, left, list, length, kind.1))
            }
        }
    }

    pub fn ideal(kind: Kind, all: &Members, at: usize, length: usize) -> Self {
        match kind.0 {
            Strategy::Linear => Self::Linear(Linear::ideal(all, at, length)),
            Strategy::Chord => Self::Chord(Chord::ideal(all, at, length)),
            Strategy::ChordSharp => Self::ChordSharp(ChordSharp::ideal(all, at, length, kind.1)),
        }
    }

    pub fn ring(&self) -> &Ring {
        match self {
            Self::Linear(table) => table.ring(),
            Self::Chord(table) => table.ring(),
            Self::ChordSharp(table) => table.ring(),
        }
    }

    pub fn entries(&self) -> Vec<(TableEntry, ShardId)> {
        let shard = |(via, known): (TableEntry, &Me)| (via, known.shard());
        match self {
            Self::Linear(table) => table.entries().map(shard).collect(),
            Self::Chord(table) => table.entries().map(shard).collect(),
            Self::ChordSharp(table) => table.entries().map(shard).collect(),
        }
    }

    pub fn via(&self, point: Point<'_>) -> Option<(TableEntry, Me)> {
        match self {
            Self::Linear(table) => table.via(point),
            Self::Chord(table) => table.via(point),
            Self::ChordSharp(table) => table.via(point),
        }
    }

    pub fn lookup(&self) -> &dyn Lookup {
        match self {
            Self::Linear(table) => table,
            Self::Chord(table) => table,
            Self::ChordSharp(table) => table,
        }
    }

    pub fn lookup_mut(&mut self) -> &mut dyn Lookup {
        match self {
            Self::Linear(table) => table,
            Self::Chord(table) => table,
            Self::ChordSharp(table) => table,
        }
    }
}

/// A message on its way. Shard `n` is led by node `n`.
pub struct Flying {
    pub from: NodeId,
    pub to: NodeId,
    bytes: Vec<u8>,
}

impl Flying {
    pub fn message(&self) -> Message {
        Message::decode(&self.bytes).expect("written by a member")
    }
}

pub struct World {
    pub kind: Kind,
    pub length: usize,
    pub tables: BTreeMap<ShardId, Table>,
    pub flying: Vec<Flying>,
    last_shard: u64,
}

pub fn descriptor(shard: u64, arc: Arc, generation: u64) -> Me {
    let replicas = vec![(ReplicaId(1), NodeId(shard))];
    let (shard, generation) = (ShardId(shard), Generation(generation));
    Shared::new(KnownShard::new(Descriptor { shard, arc, replicas, generation, leader: None }, 0))
}

pub fn point(tail: &[u8]) -> Point<'_> {
    Point { keyspace: KEYSPACE, tail }
}

fn remade(known: &KnownShard, arc: Arc, above: Generation) -> Me {
    descriptor(known.shard().0, arc, above.0 + 1)
}

impl World {
    /// Shard 1 has the whole circle.
    pub fn new(kind: Kind, length: usize) -> Self {
        let first = descriptor(1, Arc::whole(KEYSPACE), 1);
        let table = Table::new(kind, first, length);
        let tables = BTreeMap::from([(ShardId(1), table)]);
        Self { kind, length, tables, flying: Vec::new(), last_shard: 1 }
    }

    /// A ring that has grown, one shard at a time, until it was still.
    pub fn grown(kind: Kind, length: usize, places: &[Vec<u8>]) -> Self {
        let mut world = Self::new(kind, length);
        for place in places {
            world.split(place, true, true);
            world.rounds_until_ideal(50);
        }
        world
    }

    pub fn shards(&self) -> Vec<ShardId> {
        self.tables.keys().copied().collect()
    }

    pub fn rings(&self) -> impl Iterator<Item = &Ring> {
        self.tables.values().map(Table::ring)
    }

    pub fn owner(&self, tail: &[u8]) -> Option<ShardId> {
        let mut rings = self.rings();
        let owner = rings.find(|ring| point(tail).is_in(ring.me().arc()))?;
        Some(owner.me().shard())
    }

    /// The owner of a place is split there, and the right half joins: `told`, the left half's table
    /// hears of it; `handed`, its list is handed on. Nothing if a shard starts there, or nobody
    /// alive owns it.
    pub fn split(&mut self, place: &[u8], told: bool, handed: bool) -> Option<ShardId> {
        let owner = self.owner(place)?;
        let table = self.tables.get_mut(&owner).expect("the shard owns the place");
        let old = table.ring().me().clone();
        let (left, right) = old.arc().split(&Position::at(KEYSPACE, place))?;
        self.last_shard += 1;
        let list = if handed { table.ring().list() } else { Vec::new() };
        let left = remade(&old, left, old.generation());
        let right = descriptor(self.last_shard, right, old.generation().0 + 1);
        table.lookup_mut().learn(Update::Shard(left.clone()));
        if told {
            table.lookup_mut().learn(Update::Shard(right.clone()));
        }
        let joins = right.shard();
        let table = Table::join(self.kind, right, left, &list, self.length);
        self.tables.insert(joins, table);
        Some(joins)
    }

    /// The left neighbour of a shard absorbs it, and learns its new neighbour. Nothing happens if
    /// no live member is to the left.
    pub fn merge(&mut self, shard: ShardId) -> Option<ShardId> {
        let old = self.tables.get(&shard)?.ring().me().clone();
        let is_left = |ring: &&Ring| ring.me().arc().is_before(old.arc());
        let left = self.rings().find(is_left)?.me().clone();
        let arc = left.arc().join(old.arc()).expect("the arcs are neighbours");
        let above = left.generation().max(old.generation());
        self.fail(shard);
        let merged = remade(&left, arc, above);
        let is_next = |ring: &&Ring| merged.arc().is_before(ring.me().arc());
        let next = self.rings().find(is_next).map(|ring| ring.me().clone());
        let table = self.tables.get_mut(&left.shard()).expect("just seen");
        table.lookup_mut().learn(Update::Shard(merged));
        if let Some(next) = next {
            table.lookup_mut().learn(Update::Shard(next));
        }
        Some(left.shard())
    }

    /// A shard is gone without a word, and what was on its way to it.
    pub fn fail(&mut self, shard: ShardId) {
        self.tables.remove(&shard);
        self.flying.retain(|flying| flying.to.0 != shard.0);
    }

    pub fn send(&mut self, from: NodeId, out: Outbox) {
        for (to, message) in out {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            self.flying.push(Flying { from, to, bytes });
        }
    }

    pub fn tick(&mut self, shard: ShardId) {
        let mut out = Outbox::new();
        if let Some(table) = self.tables.get_mut(&shard) {
            table.lookup_mut().tick(&mut out);
        }
        self.send(NodeId(shard.0), out);
    }

    /// The message at an index arrives; it stays on its way if it is to arrive `again`.
    pub fn deliver(&mut self, index: usize, again: bool) {
        let message = self.flying[index].message();
        let (from, to) = (self.flying[index].from, self.flying[index].to);
        if !again {
            self.flying.remove(index);
        }
        let mut out = Outbox::new();
        if let Some(table) = self.tables.get_mut(&ShardId(to.0)) {
            table.lookup_mut().step(from, message, &mut out);
            assert!(out.len() <= 1, "one message leads to one at most: {out:?}");
        }
        self.send(to, out);
    }

    pub fn settle(&mut self) {
        let mut count = 0;
        while !self.flying.is_empty() {
            self.deliver(0, false);
            count += 1;
            assert!(count < 100_000, "they never come to rest");
        }
    }

    /// Every member ticks, and everything arrives in order.
    pub fn round(&mut self) {
        self.shards().into_iter().for_each(|shard| self.tick(shard));
        self.settle();
    }

    pub fn rounds_until_ideal(&mut self, max: usize) -> usize {
        for rounds in 0..max {
            if ideal::ideal(self.rings()).is_ok() {
                return rounds;
            }
            self.round();
        }
        let flaw = ideal::ideal(self.rings()).expect_err("looked at");
        panic!("after {max} rounds: {flaw}\n{}", self.drawn());
    }

    /// All members, by place.
    pub fn members(&self) -> Members {
        Members::new(self.rings().map(|ring| ring.me().clone()))
    }

    /// Fails unless each table is what it is in a stable ring.
    pub fn check_tables(&self) {
        let all = self.members();
        for at in 0..all.len() {
            let shard = all.after(at, 0).shard();
            let table = &self.tables[&shard];
            let ideal = Table::ideal(self.kind, &all, at, self.length);
            assert_eq!(table.entries(), ideal.entries(), "shard {shard}\n{}", self.drawn());
        }
    }

    /// Goes from a shard to the owner of a point; answers how many hops it took. Who is dead is
    /// distrusted by who named it, and costs a hop too.
    pub fn walk(&mut self, from: ShardId, tail: &[u8]) -> Result<(ShardId, usize), String> {
        let mut at = from;
        for hops in 0..4 * self.tables.len() + 64 {
            let table = self.tables.get_mut(&at).expect("alive");
            match table.lookup().next(point(tail)) {
                Step::Owner(owner) => return Ok((owner.shard(), hops)),
                Step::Ask(_) => return Err(format!("shard {at} knows nobody closer")),
                Step::Closer(closer) => {
                    let (shard, generation) = (closer.shard(), closer.generation());
                    match self.tables.contains_key(&shard) {
                        true => at = shard,
                        false => self
                            .tables
                            .get_mut(&at)
                            .expect("alive")
                            .lookup_mut()
                            .mark_unreachable(shard, generation),
                    }
                }
            }
        }
        Err(format!("from {from}, a circle\n{}", self.drawn()))
    }

    /// Every live owner is reached from everywhere; answers the most hops.
    pub fn check_walks(&mut self) -> usize {
        let place = |ring: &Ring| ring.me().arc().start().tail().to_vec();
        let places: Vec<Vec<u8>> = self.rings().map(place).collect();
        let mut most = 0;
        for (from, place) in
            self.shards().into_iter().flat_map(|from| places.iter().map(move |to| (from, to)))
        {
            // At its start, and a little after.
            let after = [&place[..], &[0, 0]].concat();
            for tail in [place, &after] {
                let Some(owner) = self.owner(tail) else { continue };
                let (found, hops) = self.walk(from, tail).expect("the owner is reached");
                assert_eq!(found, owner, "{tail:?} from {from}\n{}", self.drawn());
                most = most.max(hops);
            }
        }
        most
    }

    /// In whatever state the ring is, a way ends: at the owner, or where nobody closer is known.
    pub fn check_ways(&mut self) {
        let tables = self.tables.clone();
        let places: Vec<Vec<u8>> =
            self.rings().map(|ring| ring.me().arc().start().tail().to_vec()).collect();
        for place in &places {
            for from in self.shards() {
                match self.walk(from, place) {
                    Ok((found, _)) => assert_eq!(Some(found), self.owner(place)),
                    Err(why) => assert!(why.ends_with("knows nobody closer"), "{why}"),
                }
            }
        }
        self.tables = tables;
    }

    /// One line for each member.
    pub fn drawn(&self) -> String {
        let line = |at: usize, all: &Members| {
            let known = all.after(at, 0).known();
            let table = &self.tables[&known.shard()];
            let before = table.ring().predecessor().map(|known| known.shard());
            let list = table.ring().successors().iter().map(|entry| entry.shard().to_string());
            let list: Vec<String> = list.collect();
            let before = before.map_or("-".to_owned(), |shard| shard.to_string());
            let fingers = table.entries().into_iter();
            let fingers = fingers.filter(|(via, _)| matches!(via, TableEntry::Finger(_)));
            let fingers: String = fingers.map(|(via, shard)| format!("  {via}: {shard}")).collect();
            let place = known.arc().start().tail().escape_ascii().to_string();
            let list = list.join(" ");
            format!("  {place:8} shard {}: {before} | {list}{fingers}\n", known.shard())
        };
        let all = self.members();
        (0..all.len()).map(|at| line(at, &all)).collect()
    }
}
