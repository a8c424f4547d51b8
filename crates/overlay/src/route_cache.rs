//! A private, possibly stale set of descriptors: those that a client, or a node for its proxied
//! requests, happened to learn. LH\* papers call it *image*.
//!
//! It begins empty and asks the nodes that it was given. Every answer adjusts it, so that every
//! error ends:
//!
//! | error | correction |
//! |---|---|
//! | the shard was split, merged or moved | the node asked answers with a descriptor of a higher generation, which replaces whatever it overlaps |
//! | another replica leads | the answer names the leader with its term |
//! | no replica answers, or none knows better | the path distrusts the descriptor and forgets it; it asks a peer, and believes it whatever its generation |
//! | the keyspace was dropped | the answer says so |
//!
//! It is bounded: when it is full, learning a shard removes another, taken in turn from the whole
//! index, so that no shard is favoured. A forgotten shard costs a hop when it is next needed.

use std::num::NonZeroUsize;
use std::sync::Arc as Shared;

use keyspace::{Generation, NodeId, ShardId};

use crate::known_shard::KnownShard;
use crate::lookup::{LearnOutcome, Lookup, Step, Update};
use crate::point::Point;
use crate::table::{Table, bucket_of};

/// The most shards that a cache need ever hold: some 20 MiB of them.
pub const ROUTE_CACHE_ENTRIES_MAX: NonZeroUsize = NonZeroUsize::new(64 * 1024).expect("not zero");

/// What one asker remembers of shards.
#[derive(Clone, Debug)]
pub struct RouteCache {
    table: Table,
    peers: Vec<NodeId>,
    entries_max: usize,
    /// The place in the index after which the next victim is looked for.
    hand: (u8, ShardId),
}

impl RouteCache {
    /// A cache that knows nothing and holds at most `entries_max` shards
    /// ([`ROUTE_CACHE_ENTRIES_MAX`] unless there is a reason).
    pub fn new(entries_max: NonZeroUsize) -> Self {
        let hand = (0, ShardId(0));
        Self { table: Table::default(), peers: Vec::new(), entries_max: entries_max.get(), hand }
    }

    /// Its descriptors.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Takes the descriptor that an answer carried.
    pub fn adjust(&mut self, known: Shared<KnownShard>) -> LearnOutcome {
        let learnt = self.table.learn(known.clone(), self.entries_max);
        if learnt != LearnOutcome::TooLarge || !known.fits() {
            return learnt;
        }
        let victim = self.table.after(self.hand).expect("a full cache is not empty");
        self.hand = (bucket_of(victim), victim);
        self.table.remove(victim);
        self.table.learn(known, self.entries_max)
    }
}

impl Lookup for RouteCache {
    fn next(&self, point: Point<'_>) -> Step<'_> {
        self.table.owner(point).map_or(Step::Ask(&self.peers), Step::Owner)
    }

    fn learn(&mut self, news: Update) -> LearnOutcome {
        match news {
            Update::Shard(known) => self.adjust(known),
            Update::Leader { shard, hint } => self.table.hint(shard, hint),
            Update::Dropped(keyspace) => self.table.drop_keyspace(keyspace),
        }
    }

    fn mark_unreachable(&mut self, shard: ShardId, generation: Generation) {
        let known = self.table.shard(shard);
        if known.is_some_and(|known| known.generation() == generation) {
            self.table.remove(shard);
        }
    }

    fn peers(&mut self, nodes: &[NodeId]) {
        self.peers = nodes.to_vec();
    }
}
