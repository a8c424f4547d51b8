//! What happens to a ring when many members come, fail or leave at once?
//!
//! Time is a row of **rounds**: in each, every member ticks once, and all messages arrive, and are
//! answered, within the round. Requests go on meanwhile. A dead member costs the sender of a
//! request one hop, and that sender does not trust it any more.
//!
//! ```text
//!   joins     100 shards are split; the left halves' tables do not learn of the right halves, the
//!             right halves know their left neighbour and its list (the papers' join)
//!   fails     1 of 100 members fails without notice; their arcs have no owner
//!   leaves    100 members are absorbed by their left neighbours, which learn their successors now
//! ```
//!
//! | counted | |
//! |---|---|
//! | rounds to a ring | until every list and predecessor is right |
//! | rounds to tables | until every finger is right as well |
//! | messages | all that were sent until then, upkeep included |
//! | failed | requests that found no owner, or went in a circle |
//! | wrong | requests answered by a member whose arc does not hold the point: never |
//!
//! # Caveats
//! No message is lost or late: a tick is long beside the way of a message. Where a third of all
//! leave at once a ring may lose its order for good; that is not measured here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc as Shared;

use keyspace::{NodeId, Position, ShardId};
use overlay::chord_sharp::BASE;
use overlay::ring::place::Members;
use overlay::ring::{Ring as Place, SUCCESSORS, ideal};
use overlay::{Chord, ChordSharp, KnownShard, Linear, Message, Outbox, Step, Update};

use super::ring::{KEYSPACE, Ring, Tail, shard};
use super::tables::RingTable;
use super::{Keys, Kind};
use crate::rng::Rng;

/// The fewest members of a ring to which something happens.
pub const NODES_MIN: usize = 4;
/// Requests of each round.
const REQUESTS: usize = 100;
/// Rounds after which it is given up.
pub const ROUNDS_MAX: usize = 1_000;
/// Members that come, or leave, at once; at most a tenth of all.
pub const MOVING: usize = 100;
/// Of so many members one fails.
pub const FAILING: usize = 100;

/// What happens to a ring that is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// [`MOVING`] members come at once.
    Joins,
    /// One in [`FAILING`] fails, all at once.
    Fails,
    /// [`MOVING`] members leave at once.
    Leaves,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Joins, Self::Fails, Self::Leaves];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Joins => "joins",
            Self::Fails => "fails",
            Self::Leaves => "leaves",
        }
    }
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which lookup keeps the tables.
    pub kind: Kind,
    /// What happened.
    pub event: Event,
    /// Members before.
    pub nodes: usize,
    /// Members that came, failed or left.
    pub moved: usize,
    /// Rounds until lists and predecessors were right; `None`: not within [`ROUNDS_MAX`].
    pub to_ring: Option<usize>,
    /// Rounds until whole tables were right.
    pub to_tables: Option<usize>,
    /// Messages in those rounds.
    pub messages: u64,
    /// Requests that were sent meanwhile.
    pub requests: u64,
    /// Those that led nowhere.
    pub failed: u64,
    /// Those that were answered by the wrong member.
    pub wrong: u64,
    /// Mean hops of those that were answered.
    pub hops: f64,
    /// The part of all tables that is right, before the first round and after each.
    pub right: Vec<f64>,
}

/// A table that can be maintained, and compared with the correct one.
pub trait MaintainedTable: RingTable + Sized {
    /// That of a member of a ring that is right.
    fn ideal(all: &Members, at: usize) -> Self;
    /// That of one who joins.
    fn join(me: Shared<KnownShard>, left: Shared<KnownShard>, list: &[Shared<KnownShard>]) -> Self;
    /// Its place in the ring.
    fn place(&self) -> &Place;
}

macro_rules! kept {
    ($table:ty $(, $base:expr)?) => {
        impl MaintainedTable for $table {
            fn ideal(all: &Members, at: usize) -> Self {
                Self::ideal(all, at, SUCCESSORS $(, $base)?)
            }

            fn join(
                me: Shared<KnownShard>,
                left: Shared<KnownShard>,
                list: &[Shared<KnownShard>],
            ) -> Self {
                Self::join(me, left, list, SUCCESSORS $(, $base)?)
            }

            fn place(&self) -> &Place {
                self.ring()
            }
        }
    };
}

kept!(Linear);
kept!(Chord);
kept!(ChordSharp, BASE);

/// Lets something happen to a ring of so many members, at least [`NODES_MIN`]; `None` for lookups
/// that are no rings.
pub fn outcome(kind: Kind, event: Event, nodes: usize, seed: u64) -> Option<Outcome> {
    match kind {
        Kind::Linear => Some(World::<Linear>::new(nodes, seed).happen(kind, event)),
        Kind::Chord => Some(World::<Chord>::new(nodes, seed).happen(kind, event)),
        Kind::ChordSharp => Some(World::<ChordSharp>::new(nodes, seed).happen(kind, event)),
        Kind::Full | Kind::Lh => None,
    }
}

/// Tables of all live members, and messages on their way. Node *n* leads shard *n*.
pub(crate) struct World<L> {
    pub(crate) tables: BTreeMap<ShardId, L>,
    flying: Vec<(NodeId, NodeId, Message)>,
    messages_sent: u64,
    rng: Rng,
    last_shard: u64,
}

impl<L: MaintainedTable> World<L> {
    fn new(nodes: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ nodes as u64);
        let ring = Ring::new(nodes, Keys::Uniform, &mut rng);
        Self::of(ring.members(), rng)
    }

    /// A ring of these members that is right; they are numbered from 1.
    pub(crate) fn of(members: &[Shared<KnownShard>], rng: Rng) -> Self {
        let all = Members::new(members.iter().cloned());
        let table = |at: usize| (all.after(at, 0).shard(), L::ideal(&all, at));
        let tables = (0..members.len()).map(table).collect();
        let last_shard = members.len() as u64;
        Self { tables, flying: Vec::new(), messages_sent: 0, rng, last_shard }
    }

    fn happen(mut self, kind: Kind, event: Event) -> Outcome {
        let nodes = self.tables.len();
        let moved = match event {
            Event::Joins | Event::Leaves => MOVING.min(nodes / 10).max(1),
            Event::Fails => (nodes / FAILING).max(1),
        };
        for _ in 0..moved {
            match event {
                Event::Joins => self.join(),
                Event::Fails => drop(self.fail()),
                Event::Leaves => self.leave(),
            }
        }
        let mut outcome = Outcome {
            kind,
            event,
            nodes,
            moved,
            to_ring: None,
            to_tables: None,
            messages: 0,
            requests: 0,
            failed: 0,
            wrong: 0,
            hops: 0.0,
            right: Vec::new(),
        };
        let mut hops = 0;
        for round in 0..=ROUNDS_MAX {
            let right = self.right();
            outcome.right.push(right as f64 / self.tables.len() as f64);
            if ideal::ideal(self.tables.values().map(MaintainedTable::place)).is_ok() {
                outcome.to_ring = outcome.to_ring.or(Some(round));
                if right == self.tables.len() {
                    outcome.to_tables = Some(round);
                    break;
                }
            }
            for _ in 0..REQUESTS {
                outcome.requests += 1;
                match self.request() {
                    None => outcome.failed += 1,
                    Some((is_owner, taken)) => {
                        outcome.wrong += u64::from(!is_owner);
                        hops += taken;
                    }
                }
            }
            self.round();
        }
        outcome.messages = self.messages_sent;
        outcome.hops = hops as f64 / (outcome.requests - outcome.failed).max(1) as f64;
        outcome
    }

    /// How many tables are what they are in a ring that is right.
    fn right(&self) -> usize {
        let members = self.tables.values().map(|table| table.place().me().clone());
        let all = Members::new(members);
        let is_right = |at: &usize| {
            let shard = all.after(*at, 0).shard();
            self.tables[&shard].shards() == L::ideal(&all, *at).shards()
        };
        (0..all.len()).filter(is_right).count()
    }

    /// Somebody who is alive.
    fn anybody(&mut self) -> ShardId {
        let place = self.rng.below(self.tables.len() as u64) as usize;
        *self.tables.keys().nth(place).expect("below the count")
    }

    /// A place that somebody who is alive owns.
    fn owned(&mut self) -> (ShardId, Tail) {
        loop {
            let tail = super::ring::draw(Keys::Uniform, &mut self.rng);
            let point = Ring::point(&tail);
            let owner = self.tables.values().find(|table| point.is_in(table.place().me().arc()));
            if let Some(owner) = owner {
                return (owner.place().me().shard(), tail);
            }
        }
    }

    fn join(&mut self) {
        let (owner, tail) = self.owned();
        self.join_at(owner, &tail);
    }

    /// A member joins where another one's arc is parted; its number, unless that is where the arc
    /// begins.
    pub(crate) fn join_at(&mut self, owner: ShardId, tail: &[u8]) -> Option<ShardId> {
        let table = self.tables.get_mut(&owner).expect("the shard owns the place");
        let (old, list) = (table.place().me().clone(), table.place().list());
        let (left, right) = old.arc().split(&Position::at(KEYSPACE, tail))?;
        let generation = old.generation().0 + 1;
        self.last_shard += 1;
        let left = shard(owner.0, left, generation);
        let right = shard(self.last_shard, right, generation);
        table.learn(Update::Shard(left.clone()));
        let joins = right.shard();
        self.tables.insert(joins, L::join(right, left, &list));
        Some(joins)
    }

    /// A member that had failed is back: it knows its left neighbour, and that one's list.
    pub(crate) fn come_back(&mut self, me: Shared<KnownShard>) {
        let starts = |known: &Shared<KnownShard>| known.arc().start().tail().to_vec();
        let (mine, number) = (starts(&me), me.shard());
        let others = || self.tables.values().map(|table| table.place().me().clone());
        let before = others().filter(|known| starts(known) < mine).max_by_key(starts);
        let left = before.or_else(|| others().max_by_key(starts));
        let Some(left) = left else { return };
        let list = self.tables[&left.shard()].place().list();
        self.tables.insert(number, L::join(me, left, &list));
    }

    fn fail(&mut self) -> Shared<KnownShard> {
        let shard = self.anybody();
        self.fail_at(shard)
    }

    /// A member that is alive fails.
    pub(crate) fn fail_at(&mut self, shard: ShardId) -> Shared<KnownShard> {
        let table = self.tables.remove(&shard).expect("alive");
        self.flying.retain(|(_, to, _)| to.0 != shard.0);
        table.place().me().clone()
    }

    fn leave(&mut self) {
        let shard = self.anybody();
        self.leave_at(shard);
    }

    /// A member that is alive leaves, and its left neighbour has its arc, if that one is alive.
    pub(crate) fn leave_at(&mut self, shard: ShardId) {
        let gone = self.fail_at(shard);
        let rings = || self.tables.values().map(|table| table.place().me());
        let left = rings().find(|known| known.arc().is_before(gone.arc())).cloned();
        let next = rings().find(|known| gone.arc().is_before(known.arc())).cloned();
        // Where neighbours have failed there may be none.
        let (Some(left), Some(next)) = (left, next) else { return };
        let generation = 1 + left.generation().max(gone.generation()).0;
        let arc = left.arc().join(gone.arc()).expect("the arcs are neighbours");
        let table = self.tables.get_mut(&left.shard()).expect("alive");
        table.learn(Update::Shard(super::ring::shard(left.shard().0, arc, generation)));
        table.learn(Update::Shard(next));
    }

    fn send(&mut self, from: NodeId, out: Outbox) {
        self.messages_sent += out.len() as u64;
        self.flying.extend(out.into_iter().map(|(to, message)| (from, to, message)));
    }

    /// Everybody ticks, and what is said arrives within the round, the answers as well.
    pub(crate) fn round(&mut self) {
        let shards: Vec<ShardId> = self.tables.keys().copied().collect();
        for shard in shards {
            let mut out = Outbox::new();
            self.tables.get_mut(&shard).expect("alive").tick(&mut out);
            self.send(NodeId(shard.0), out);
        }
        while !self.flying.is_empty() {
            for (from, to, message) in std::mem::take(&mut self.flying) {
                let mut out = Outbox::new();
                if let Some(table) = self.tables.get_mut(&ShardId(to.0)) {
                    table.step(from, message, &mut out);
                }
                self.send(to, out);
            }
        }
    }

    /// A request from anybody for a place that somebody owns: whether the owner answered, and after
    /// how many hops; `None` if it led nowhere.
    fn request(&mut self) -> Option<(bool, usize)> {
        let (owner, tail) = self.owned();
        let mut at = self.anybody();
        let mut dead = BTreeSet::new();
        for hops in 0..2 * self.tables.len() + 64 {
            let table = &self.tables[&at];
            let (next, generation) = match table.next(Ring::point(&tail)) {
                Step::Owner(known) | Step::Closer(known) => (known.shard(), known.generation()),
                Step::Ask(_) => return None,
            };
            if next == at {
                return Some((at == owner, hops));
            }
            if self.tables.contains_key(&next) {
                at = next;
            } else if dead.insert((at, next)) {
                self.tables.get_mut(&at).expect("alive").mark_unreachable(next, generation);
            } else {
                // It has nobody else to name.
                return None;
            }
        }
        None
    }
}
