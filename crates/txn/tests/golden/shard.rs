//! A shard without replicas: a lock table beside an engine, changed entry by entry; and several of
//! them as a map. For scripts, and for the crate's tests of the coordinator.

use keyspace::{Arc, KeyHasher, ShardId, Timestamp, slot_of};
use storage::engine::{Layout, MemoryEngine};
use txn::locks::apply::{Owns, apply};
use txn::locks::{Locks, Step, StepReply};
use txn::{ShardMap, Witnesses};

pub const HASHER: KeyHasher = KeyHasher::new([1; 16]);

/// See the front page.
pub struct Shard {
    pub id: ShardId,
    pub arc: Arc,
    pub engine: MemoryEngine,
    pub locks: Locks,
    /// The time of the last entry.
    pub last: Timestamp,
}

fn owns(layout: Layout, arc: &Arc, key: &[u8]) -> bool {
    match layout {
        Layout::Hashed { first_slot, end_slot } => (first_slot..end_slot).contains(&slot_of(key)),
        Layout::Ordered => arc.holds(key),
        Layout::LinearHash => panic!("no test has such shards"),
    }
}

impl Shard {
    /// One with nothing in it.
    pub fn new(id: ShardId, arc: Arc, layout: Layout) -> Self {
        let (engine, locks) = (MemoryEngine::new(layout, HASHER), Locks::default());
        Self { id, arc, engine, locks, last: Timestamp::ZERO }
    }

    /// A step of a transaction in an entry of its own.
    pub fn step(&mut self, at: Timestamp, step: &Step<'_>) -> StepReply {
        let Self { arc, engine, locks, last, .. } = self;
        *last = at;
        locks.forget(at);
        let (layout, end) = (engine.layout(), arc.end());
        let is_to_end = |high: &[u8]| high <= end.tail();
        let up_to = |high: Option<&[u8]>| end.is_origin() || high.is_some_and(is_to_end);
        let owns = Owns { arc, key: &|key| owns(layout, arc, key), up_to: &up_to };
        apply(locks, engine, step, at, &owns, &mut ())
    }
}

/// Shards side by side, from the origin on.
pub struct Shards {
    shards: Vec<ShardId>,
    arcs: Vec<Arc>,
    layouts: Vec<Layout>,
    witnesses: Witnesses,
}

impl Shards {
    pub fn of<'s>(all: impl IntoIterator<Item = &'s Shard>) -> Self {
        let (shards, arcs, layouts, witnesses) = Default::default();
        let mut map = Self { shards, arcs, layouts, witnesses };
        for shard in all {
            map.shards.push(shard.id);
            map.arcs.push(shard.arc.clone());
            map.layouts.push(shard.engine.layout());
        }
        map
    }
}

impl ShardMap for Shards {
    fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    fn place_of_key(&self, key: &[u8]) -> usize {
        let mut parts = self.layouts.iter().zip(&self.arcs);
        parts.position(|(layout, arc)| owns(*layout, arc, key)).expect("the parts leave no gap")
    }

    fn arc(&self, place: usize) -> &Arc {
        &self.arcs[place]
    }

    fn witnesses(&self) -> &[Box<[u8]>] {
        self.witnesses.of(&self.arcs)
    }
}
