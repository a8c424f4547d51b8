//! Tables of members on a correct ring.

use std::collections::BTreeSet;

use keyspace::ShardId;
use overlay::ring::member::{Fingers, MemberTable};
use overlay::{FullTable, Lookup, Point, Step, Update};

use super::ring::Ring;

/// What members know.
pub trait Tables: Sync {
    /// Where member `at` sends a request for `point`: to itself, if it says that it is the owner;
    /// nowhere, if it knows nobody.
    fn next(&self, at: usize, point: Point<'_>) -> Option<usize>;

    /// Whether who asks is no member, so that its way to the first one is no hop.
    fn is_outside(&self) -> bool {
        false
    }

    /// Places in the table of member `at`.
    fn entries(&self, at: usize) -> usize;

    /// Different members in it, but for itself.
    fn connections(&self, at: usize) -> usize;
}

/// The place that a step leads to.
fn place(step: Step<'_>) -> Option<usize> {
    match step {
        Step::Owner(known) | Step::Closer(known) => Some(Ring::place(known)),
        Step::Ask(_) => None,
    }
}

/// The full table. All that are of one version are equal, so here they are one and the same.
pub struct SharedTable {
    full: FullTable,
    members: usize,
}

impl SharedTable {
    /// Every descriptor of a ring.
    pub fn new(ring: &Ring) -> Self {
        let mut full = FullTable::new(0);
        for known in ring.members() {
            full.learn(Update::Shard(known.clone()));
        }
        Self { full, members: ring.len() }
    }
}

impl Tables for SharedTable {
    fn next(&self, _at: usize, point: Point<'_>) -> Option<usize> {
        place(self.full.next(point))
    }

    fn is_outside(&self) -> bool {
        true
    }

    fn entries(&self, _at: usize) -> usize {
        self.full.table().len()
    }

    fn connections(&self, _at: usize) -> usize {
        self.members - 1
    }
}

/// A table of a member of a ring.
pub trait RingTable: Lookup {
    /// Every place in it: successors, then fingers.
    fn shards(&self) -> Vec<ShardId>;
}

impl<F: Fingers> RingTable for MemberTable<F> {
    fn shards(&self) -> Vec<ShardId> {
        self.entries().map(|(_, known)| known.shard()).collect()
    }
}

/// A table for each member.
pub struct MemberTables<L>(Vec<L>);

impl<L: RingTable + Sync> MemberTables<L> {
    /// What `table` makes for each of so many members.
    pub fn new(members: usize, table: impl Fn(usize) -> L) -> Self {
        Self((0..members).map(table).collect())
    }
}

impl<L> MemberTables<L> {
    /// All of them, by place.
    pub fn all(&self) -> &[L] {
        &self.0
    }
}

impl<L: RingTable + Sync> Tables for MemberTables<L> {
    fn next(&self, at: usize, point: Point<'_>) -> Option<usize> {
        place(self.0[at].next(point))
    }

    fn entries(&self, at: usize) -> usize {
        self.0[at].shards().len()
    }

    fn connections(&self, at: usize) -> usize {
        let me = ShardId(at as u64 + 1);
        let others = self.0[at].shards().into_iter().filter(|shard| *shard != me);
        others.collect::<BTreeSet<ShardId>>().len()
    }
}
