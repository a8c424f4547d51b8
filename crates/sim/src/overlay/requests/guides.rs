//! What leads requests from node to node: tables of a ring, one table of everything, or a file.
//!
//! Node *n* leads shard *n* and no other; here it is counted from 0, as places are.

use std::num::NonZeroU64;
use std::sync::Arc as Shared;

use keyspace::{Generation, NodeId, ShardId};
use overlay::lh::memory::ADDRESSES_MAX;
use overlay::lh::{Bucket, LinearHashCache, LinearHashTable, hash_of};
use overlay::request::{HopSource, NextHop, TableQuery};
use overlay::ring::place::Members;
use overlay::{FullTable, KnownShard, Lookup, Message, Outbox, Step, Update};

use super::super::churn::MaintainedTable;
use super::super::ring::{KEYSPACE, Ring, Tail, shard};
use crate::rng::Rng;

/// Clients of a file: nodes that ask.
const CLIENTS: u64 = 4;

/// The tables of all nodes.
pub trait Guide {
    /// Whether requests begin at the table of one of the asker's own shards.
    const IS_RING: bool;

    /// How many nodes there are.
    fn nodes(&self) -> usize;

    /// Somebody who asks, dead or alive.
    fn asker(&self, rng: &mut Rng) -> usize {
        rng.below(self.nodes() as u64) as usize
    }

    /// Who owns a point: nothing that tables know.
    fn owner(&self, tail: &Tail) -> usize;

    /// Where a request goes on from a node.
    fn next(&self, node: usize, ask: &TableQuery<'_>) -> Option<NextHop>;

    /// A node's request has found an owner.
    fn found(&mut self, node: usize, owner: Shared<KnownShard>) {
        let _ = (node, owner);
    }

    /// A node has asked this shard and got no answer.
    fn silent(&mut self, node: usize, shard: ShardId, generation: Generation) {
        let _ = (node, shard, generation);
    }

    /// A node's table is kept.
    fn tick(&mut self, node: usize, out: &mut Outbox) {
        let _ = (node, out);
    }

    /// A node's table hears something.
    fn step(&mut self, node: usize, from: NodeId, message: Message, out: &mut Outbox) {
        let _ = (node, from, message, out);
    }
}

/// A table for each member of a ring.
pub struct Tables<L> {
    ring: Ring,
    tables: Vec<L>,
}

impl<L: MaintainedTable> Tables<L> {
    /// Those of a ring that is right.
    pub fn new(ring: Ring) -> Self {
        let all = Members::new(ring.members().iter().cloned());
        let tables = (0..ring.len()).map(|at| L::ideal(&all, at)).collect();
        Self { ring, tables }
    }
}

impl<L: MaintainedTable> Guide for Tables<L> {
    const IS_RING: bool = true;

    fn nodes(&self) -> usize {
        self.ring.len()
    }

    fn owner(&self, tail: &Tail) -> usize {
        self.ring.owner(tail)
    }

    fn next(&self, node: usize, ask: &TableQuery<'_>) -> Option<NextHop> {
        let table = &self.tables[node];
        match table.next(ask.point) {
            Step::Owner(known) if table.place().me().shard() == known.shard() => {
                Some(NextHop::Here(known.clone()))
            }
            Step::Owner(known) | Step::Closer(known) => {
                let (member, by) = (known.clone(), HopSource::AnyNode);
                Some(NextHop::Member { member, by, is_hop: true, from: None })
            }
            Step::Ask(_) => None,
        }
    }

    fn silent(&mut self, node: usize, shard: ShardId, generation: Generation) {
        self.tables[node].mark_unreachable(shard, generation);
    }

    fn tick(&mut self, node: usize, out: &mut Outbox) {
        self.tables[node].tick(out);
    }

    fn step(&mut self, node: usize, from: NodeId, message: Message, out: &mut Outbox) {
        self.tables[node].step(from, message, out);
    }
}

/// The full table, of which all have the same version.
pub struct SharedFullTable {
    ring: Ring,
    full: FullTable,
}

impl SharedFullTable {
    /// Every descriptor of a ring.
    pub fn new(ring: Ring) -> Self {
        let mut full = FullTable::new(0);
        for known in ring.members() {
            full.learn(Update::Shard(known.clone()));
        }
        Self { ring, full }
    }
}

impl Guide for SharedFullTable {
    const IS_RING: bool = false;

    fn nodes(&self) -> usize {
        self.ring.len()
    }

    fn owner(&self, tail: &Tail) -> usize {
        self.ring.owner(tail)
    }

    fn next(&self, node: usize, ask: &TableQuery<'_>) -> Option<NextHop> {
        let owner = self.full.table().owner(ask.point)?.clone();
        Some(match Ring::place(&owner) == node {
            true => NextHop::Here(owner),
            false => NextHop::Member {
                member: owner,
                by: HopSource::RouteCache,
                is_hop: ask.at.is_some(),
                from: None,
            },
        })
    }
}

/// A file of linear hashing that stands still, and clients that know nothing at first.
pub struct Buckets {
    file: LinearHashTable,
    /// By number.
    shards: Vec<Shared<KnownShard>>,
    clients: Vec<LinearHashCache>,
}

impl Buckets {
    /// A file of so many buckets, at least one.
    pub fn new(nodes: usize) -> Self {
        let count = NonZeroU64::new(nodes as u64).expect("at least one");
        let file = LinearHashTable::of_buckets(count).expect("not that many");
        let bucket = |number| file.bucket(number).expect("below the count");
        let made = |number: u64| shard(number + 1, bucket(number).arc(KEYSPACE), 1);
        let shards = (0..file.buckets()).map(made).collect();
        let clients =
            (0..CLIENTS.min(count.get())).map(|_| LinearHashCache::new(ADDRESSES_MAX)).collect();
        Self { file, shards, clients }
    }
}

impl Guide for Buckets {
    const IS_RING: bool = false;

    fn nodes(&self) -> usize {
        self.shards.len()
    }

    fn asker(&self, rng: &mut Rng) -> usize {
        rng.below(self.clients.len() as u64) as usize
    }

    fn owner(&self, tail: &Tail) -> usize {
        self.file.address(hash_of(Ring::point(tail))) as usize
    }

    fn next(&self, node: usize, ask: &TableQuery<'_>) -> Option<NextHop> {
        if ask.at.is_none() {
            let member = match self.clients[node].next(ask.point) {
                Step::Owner(known) | Step::Closer(known) => known,
                Step::Ask(_) => &self.shards[0],
            };
            let member = member.clone();
            let by = HopSource::Bucket;
            return Some(NextHop::Member { member, by, is_hop: false, from: None });
        }
        let me = &self.shards[node];
        if ask.point.is_in(me.arc()) {
            return Some(NextHop::Here(me.clone()));
        }
        let number = Bucket::of(me.arc())?.forward(hash_of(ask.point))?;
        let member = self.shards.get(number as usize)?.clone();
        let by = HopSource::Bucket;
        Some(NextHop::Member { member, by, is_hop: true, from: None })
    }

    fn found(&mut self, node: usize, owner: Shared<KnownShard>) {
        self.clients[node].learn(Update::Shard(owner));
    }

    fn silent(&mut self, node: usize, shard: ShardId, generation: Generation) {
        self.clients[node].mark_unreachable(shard, generation);
    }
}
