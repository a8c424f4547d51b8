//! The ring tables of one node, and the messages of all of them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc as Shared;

use keyspace::{Generation, KeyspaceId, NodeId, ShardId};

use crate::chord::Chord;
use crate::chord_sharp::{BASE, ChordSharp};
use crate::known_shard::KnownShard;
use crate::lh::memory::ADDRESSES_MAX;
use crate::lh::{Bucket, LinearHashCache, hash_of};
use crate::linear::Linear;
use crate::lookup::{Kind, Lookup, Outbox, Step, Update};
use crate::message::Message;
use crate::point::Point;
use crate::request::{HopSource, NextHop, TableQuery, Tables};
use crate::ring::message::Strategy;
use crate::ring::{Ring, SUCCESSORS, TableEntry};
use crate::route_cache::{ROUTE_CACHE_ENTRIES_MAX, RouteCache};
use crate::table::Table;

/// Numbers that a table may use up before those of the next begin.
const NUMBERS: u64 = 1 << 32;

/// The tables of a shard that is led here.
#[derive(Clone, Debug)]
struct ShardTables {
    linear: Linear,
    chord: Chord,
    chord_sharp: ChordSharp,
}

impl ShardTables {
    /// With the neighbours that the full table names: all shards of its keyspace, by rising start.
    fn new(me: &Shared<KnownShard>, all: &[Shared<KnownShard>], number: u64) -> Self {
        let start = |known: &Shared<KnownShard>| known.arc().start().tail().to_vec();
        let at = all.binary_search_by_key(&start(me), start).ok();
        let at = at.filter(|at| all[*at].shard() == me.shard());
        let (Some(at), 2..) = (at, all.len()) else {
            return Self {
                linear: Linear::new(me.clone(), SUCCESSORS).counting_from(number),
                chord: Chord::new(me.clone(), SUCCESSORS).counting_from(number),
                chord_sharp: ChordSharp::new(me.clone(), SUCCESSORS, BASE).counting_from(number),
            };
        };
        let after = |steps: usize| all[(at + steps) % all.len()].clone();
        let list: Vec<_> = (1..all.len().min(SUCCESSORS + 1)).map(after).collect();
        let left = after(all.len() - 1);
        let linear = Linear::join(me.clone(), left.clone(), &list, SUCCESSORS);
        let chord = Chord::join(me.clone(), left.clone(), &list, SUCCESSORS);
        let chord_sharp = ChordSharp::join(me.clone(), left, &list, SUCCESSORS, BASE);
        Self {
            linear: linear.counting_from(number),
            chord: chord.counting_from(number),
            chord_sharp: chord_sharp.counting_from(number),
        }
    }

    fn me(&self) -> &Shared<KnownShard> {
        self.linear.ring().me()
    }

    fn of_mut(&mut self, strategy: Strategy) -> &mut dyn Lookup {
        match strategy {
            Strategy::Linear => &mut self.linear,
            Strategy::Chord => &mut self.chord,
            Strategy::ChordSharp => &mut self.chord_sharp,
        }
    }

    fn ring(&self, strategy: Strategy) -> &Ring {
        match strategy {
            Strategy::Linear => self.linear.ring(),
            Strategy::Chord => self.chord.ring(),
            Strategy::ChordSharp => self.chord_sharp.ring(),
        }
    }

    fn via(
        &self,
        strategy: Strategy,
        point: Point<'_>,
    ) -> Option<(TableEntry, Shared<KnownShard>)> {
        match strategy {
            Strategy::Linear => self.linear.via(point),
            Strategy::Chord => self.chord.via(point),
            Strategy::ChordSharp => self.chord_sharp.via(point),
        }
    }

    fn entries(&self, strategy: Strategy) -> Vec<&Shared<KnownShard>> {
        match strategy {
            Strategy::Linear => self.linear.entries().map(|(_, known)| known).collect(),
            Strategy::Chord => self.chord.entries().map(|(_, known)| known).collect(),
            Strategy::ChordSharp => self.chord_sharp.entries().map(|(_, known)| known).collect(),
        }
    }

    /// Takes news of a member that a table names: its leader, its replicas, what it owns.
    fn refresh(&mut self, known: &Shared<KnownShard>) {
        for strategy in Strategy::ALL {
            let is_same = |entry: &&Shared<KnownShard>| entry.shard() == known.shard();
            let before = self.ring(strategy).predecessor();
            if self.entries(strategy).iter().any(is_same) || before.iter().any(is_same) {
                self.of_mut(strategy).learn(Update::Shard(known.clone()));
            }
        }
    }
}

/// All tables of a node.
#[derive(Clone, Debug)]
pub(super) struct NodeTables {
    node: NodeId,
    led: BTreeMap<(KeyspaceId, ShardId), ShardTables>,
    keyspaces: BTreeMap<ShardId, KeyspaceId>,
    route_cache: RouteCache,
    lh: LinearHashCache,
    peers: Vec<NodeId>,
    /// Where questions of the next new table are counted from: so that no answer to those of one
    /// before is taken.
    number: u64,
    /// Which of the shards is the next at which a request begins.
    turn: Cell<usize>,
}

impl NodeTables {
    pub fn new(node: NodeId, number: u64) -> Self {
        Self {
            node,
            number,
            led: BTreeMap::new(),
            keyspaces: BTreeMap::new(),
            route_cache: RouteCache::new(ROUTE_CACHE_ENTRIES_MAX),
            lh: LinearHashCache::new(ADDRESSES_MAX),
            peers: Vec::new(),
            turn: Cell::new(0),
        }
    }

    pub fn lead(&mut self, led: &[Shared<KnownShard>], full: &Table) -> bool {
        let mut is_new = false;
        let mut keyspaces: BTreeMap<KeyspaceId, Vec<Shared<KnownShard>>> = BTreeMap::new();
        let mut new = |me: &Shared<KnownShard>, number| {
            let keyspace = me.arc().keyspace();
            let all = || full.keyspace(keyspace).cloned().collect();
            ShardTables::new(me, keyspaces.entry(keyspace).or_insert_with(all), number)
        };
        let mut before = std::mem::take(&mut self.led);
        self.keyspaces.clear();
        for me in led {
            let place = (me.arc().keyspace(), me.shard());
            // A start never changes: with another it would be another member.
            let old =
                before.remove(&place).filter(|old| old.me().arc().start() == me.arc().start());
            is_new |= old.is_none();
            let mut tables = old.unwrap_or_else(|| new(me, self.next_number()));
            for strategy in Strategy::ALL {
                let table = tables.of_mut(strategy);
                table.learn(Update::Shard(me.clone()));
                table.peers(&self.peers);
            }
            if !tables.linear.ring().has_joined() {
                tables = new(me, self.next_number());
            }
            self.keyspaces.insert(me.shard(), place.0);
            self.led.insert(place, tables);
        }
        is_new
    }

    /// Where questions of new tables are counted from.
    pub fn numbers(&self) -> u64 {
        self.number
    }

    fn next_number(&mut self) -> u64 {
        self.number = self.number.wrapping_add(NUMBERS) & (u64::MAX >> 1);
        self.number
    }

    pub fn learn(&mut self, known: &Shared<KnownShard>) {
        let keyspace = known.arc().keyspace();
        for (_, tables) in self.led.range_mut(of(keyspace)) {
            tables.refresh(known);
        }
        // It, or what it has taken in.
        if self.route_cache.table().has_any_of(known.arc()) {
            self.route_cache.learn(Update::Shard(known.clone()));
        }
        if let Some(hint) = known.hint() {
            self.lh.learn(Update::Leader { shard: known.shard(), hint });
        }
    }

    pub fn drop_keyspace(&mut self, keyspace: KeyspaceId) {
        self.route_cache.learn(Update::Dropped(keyspace));
        self.lh.learn(Update::Dropped(keyspace));
        let gone: Vec<_> = self.led.range(of(keyspace)).map(|(place, _)| *place).collect();
        for place in gone {
            self.led.remove(&place);
            self.keyspaces.remove(&place.1);
        }
    }

    pub fn peers(&mut self, nodes: &[NodeId]) {
        self.peers = nodes.to_vec();
        self.route_cache.peers(nodes);
        self.lh.peers(nodes);
    }

    pub fn tick(&mut self, turn: usize, of: usize, out: &mut Outbox) {
        for tables in self.led.values_mut().skip(turn).step_by(of) {
            for strategy in Strategy::ALL {
                tables.of_mut(strategy).tick(out);
            }
        }
    }

    pub fn step(&mut self, from: NodeId, message: Message, out: &mut Outbox) {
        let Message::Ring { strategy, to, .. } = &message else { return };
        let (strategy, to) = (*strategy, *to);
        let Some(keyspace) = self.keyspaces.get(&to) else { return };
        let tables = self.led.get_mut(&(*keyspace, to)).expect("the shard is led here");
        tables.of_mut(strategy).step(from, message, out);
    }

    /// What a request has found.
    pub fn found(&mut self, owner: &Shared<KnownShard>) {
        self.route_cache.adjust(owner.clone());
        if Bucket::of(owner.arc()).is_some() {
            self.lh.learn(Update::Shard(owner.clone()));
        }
    }

    /// A shard that was asked did not answer.
    pub fn mark_unreachable(&mut self, shard: ShardId, generation: Generation) {
        self.forget_cached(shard, generation);
        for tables in self.led.values_mut() {
            for strategy in Strategy::ALL {
                tables.of_mut(strategy).mark_unreachable(shard, generation);
            }
        }
    }

    /// Forgets an old route: a ring corrects itself, a route cache has to be refilled.
    pub fn forget_cached(&mut self, shard: ShardId, generation: Generation) {
        self.route_cache.mark_unreachable(shard, generation);
        self.lh.mark_unreachable(shard, generation);
    }

    pub fn entries(&self, kind: Kind) -> usize {
        match (kind.strategy(), kind) {
            (Some(strategy), _) => {
                self.led.values().map(|tables| tables.entries(strategy).len()).sum()
            }
            (None, Kind::Lh) => self.lh.len(),
            (None, _) => 0,
        }
    }

    pub fn cached_routes(&self) -> usize {
        self.route_cache.table().len()
    }

    pub fn shards(&self) -> usize {
        self.led.len()
    }

    pub fn successors(&self, kind: Kind, shard: ShardId) -> Option<Vec<ShardId>> {
        let tables = self.led.get(&(*self.keyspaces.get(&shard)?, shard))?;
        let list = tables.ring(kind.strategy()?).successors();
        Some(list.iter().map(|entry| entry.shard()).collect())
    }

    fn tables(&self, shard: ShardId) -> Option<&ShardTables> {
        self.led.get(&(*self.keyspaces.get(&shard)?, shard))
    }

    /// The shards of a keyspace that are led here.
    fn own(&self, keyspace: KeyspaceId) -> impl Iterator<Item = &ShardTables> {
        self.led.range(of(keyspace)).map(|(_, tables)| tables)
    }

    /// The next of them at which a request begins.
    fn in_turn(&self, keyspace: KeyspaceId) -> Option<&ShardTables> {
        let count = self.own(keyspace).count();
        let turn = self.turn.replace(self.turn.get().wrapping_add(1));
        self.own(keyspace).nth(turn.checked_rem(count)?)
    }

    /// The one of them that is nearest before a point, or has it.
    fn nearest(&self, point: Point<'_>) -> Option<&ShardTables> {
        fn start(tables: &ShardTables) -> &[u8] {
            tables.me().arc().start().tail()
        }
        let before = self.own(point.keyspace).filter(|tables| start(tables) <= point.tail);
        let around = || self.own(point.keyspace).max_by_key(|tables| start(tables));
        before.max_by_key(|tables| start(tables)).or_else(around)
    }
}

/// The places of a keyspace.
fn of(keyspace: KeyspaceId) -> std::ops::RangeInclusive<(KeyspaceId, ShardId)> {
    (keyspace, ShardId(0))..=(keyspace, ShardId(u64::MAX))
}

/// The tables, and the full one.
pub(super) struct View<'a> {
    pub board: &'a NodeTables,
    pub full: &'a Table,
}

impl Tables for View<'_> {
    fn next(&self, ask: &TableQuery<'_>) -> Option<NextHop> {
        match (ask.kind, ask.kind.strategy()) {
            (_, Some(strategy)) => self.by_ring(ask, strategy),
            (Kind::Lh, None) => self.by_table(ask),
            (_, None) => self.by_full(ask),
        }
    }
}

impl View<'_> {
    fn by_ring(&self, ask: &TableQuery<'_>, strategy: Strategy) -> Option<NextHop> {
        let board = self.board;
        let at = match ask.at {
            Some(shard) => Some(board.tables(shard)?),
            None => None,
        };
        let table = match at {
            Some(table) if !ask.cached => Some(table),
            None if !ask.cached => board.in_turn(ask.point.keyspace),
            // The one that was asked is among them.
            _ => board.nearest(ask.point),
        };
        let own = table.filter(|table| ask.point.is_in(table.me().arc()));
        if let Some(own) = own {
            return Some(NextHop::Here(own.me().clone()));
        }
        if ask.at.is_none()
            && ask.cached
            && let Step::Owner(owner) = board.route_cache.next(ask.point)
        {
            let (member, by) = (owner.clone(), HopSource::RouteCache);
            return Some(NextHop::Member { member, by, is_hop: false, from: None });
        }
        let Some(table) = table else { return Some(NextHop::AnyNode(board.peers.clone())) };
        let (via, member) = table.via(strategy, ask.point)?;
        let from = Some(table.me().shard());
        Some(NextHop::Member { member, by: HopSource::Ring(via), is_hop: true, from })
    }

    fn by_table(&self, ask: &TableQuery<'_>) -> Option<NextHop> {
        let board = self.board;
        let Some(shard) = ask.at else {
            let member = match board.lh.next(ask.point) {
                Step::Owner(member) | Step::Closer(member) => member.clone(),
                Step::Ask(peers) => match board.in_turn(ask.point.keyspace) {
                    Some(tables) => tables.me().clone(),
                    None => return Some(NextHop::AnyNode(peers.to_vec())),
                },
            };
            let by = HopSource::Bucket;
            return Some(NextHop::Member { member, by, is_hop: false, from: None });
        };
        let me = board.tables(shard)?.me();
        if ask.point.is_in(me.arc()) {
            return Some(NextHop::Here(me.clone()));
        }
        let number = Bucket::of(me.arc())?.forward(hash_of(ask.point))?;
        let start = number.reverse_bits().to_be_bytes();
        let tail: &[u8] = if number == 0 { &[] } else { &start };
        let bucket = self.full.owner(Point { keyspace: ask.point.keyspace, tail })?;
        let (member, by) = (bucket.clone(), HopSource::Bucket);
        Some(NextHop::Member { member, by, is_hop: true, from: Some(shard) })
    }

    fn by_full(&self, ask: &TableQuery<'_>) -> Option<NextHop> {
        let owner = self.full.owner(ask.point)?;
        if owner.leader() == Some(self.board.node) {
            return Some(NextHop::Here(owner.clone()));
        }
        Some(NextHop::Member {
            member: owner.clone(),
            by: HopSource::Full,
            is_hop: ask.at.is_some(),
            from: None,
        })
    }
}
