//! A history of shards: what is true now, and every descriptor that ever was.

use std::sync::Arc as Shared;

use keyspace::{Arc, Descriptor, Generation, KeyspaceId, NodeId, Position, ReplicaId, ShardId};
use overlay::{Hint, KnownShard, Point, Table};
use proptest::prelude::*;

/// The keyspaces of a history.
pub const KEYSPACES: [KeyspaceId; 2] = [KeyspaceId(1), KeyspaceId(2)];

/// How many nodes hold replicas: 1 to this.
pub const NODES: u64 = 5;

/// Ends of arcs are tails of at most this many bytes, each below [`BYTES`].
const TAIL_BYTES: usize = 3;
const BYTES: u8 = 4;

/// Something that happens to the shard at an index, counted around.
#[derive(Clone, Debug)]
pub enum Event {
    Split { index: usize, at: Vec<u8> },
    MergeWithNext { index: usize },
    Move { index: usize, first: u64 },
    Lead { index: usize, replica: usize },
}

/// Shards as they are, and all copies that were made on the way.
#[derive(Clone, Debug)]
pub struct History {
    pub now: Vec<KnownShard>,
    pub all: Vec<Shared<KnownShard>>,
    next_shard: u64,
}

pub fn tails() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..BYTES, 0..=TAIL_BYTES)
}

fn events() -> impl Strategy<Value = Event> {
    let index = 0..16usize;
    prop_oneof![
        3 => (index.clone(), tails()).prop_map(|(index, at)| Event::Split { index, at }),
        1 => index.clone().prop_map(|index| Event::MergeWithNext { index }),
        1 => (index.clone(), 0..NODES).prop_map(|(index, first)| Event::Move { index, first }),
        2 => (index, 0..3usize).prop_map(|(index, replica)| Event::Lead { index, replica }),
    ]
}

/// Histories of at most `events_max` events.
pub fn histories(events_max: usize) -> impl Strategy<Value = History> {
    let cuts = [[tails(), tails()], [tails(), tails()]];
    (cuts, prop::collection::vec(events(), 0..=events_max)).prop_map(|(cuts, events)| {
        let mut history = History { now: Vec::new(), all: Vec::new(), next_shard: 1 };
        for (keyspace, [a, b]) in KEYSPACES.into_iter().zip(cuts) {
            let [a, b] = [a, b].map(|tail| Position::at(keyspace, &tail));
            // Two shards, of which one may wrap around; one if the cuts are the same.
            history.create(Arc::new(a.clone(), b.clone()).unwrap());
            if a != b {
                history.create(Arc::new(b, a).unwrap());
            }
        }
        events.into_iter().for_each(|event| history.happen(event));
        history
    })
}

/// Three replicas on three nodes; the ids rise with every move, as they are never reused.
fn replicas(first: u64, generation: u64) -> Vec<(ReplicaId, NodeId)> {
    let node = |place| NodeId((first + place) % NODES + 1);
    (0..3).map(|place| (ReplicaId(generation * 3 + place + 1), node(place))).collect()
}

impl History {
    fn create(&mut self, arc: Arc) {
        let shard = ShardId(self.next_shard);
        self.next_shard += 1;
        let (replicas, generation) = (replicas(shard.0, 0), Generation(1));
        let known =
            KnownShard::new(Descriptor { shard, arc, replicas, generation, leader: None }, 0);
        self.record(known);
    }

    /// A copy that is true now.
    fn record(&mut self, known: KnownShard) {
        self.all.push(Shared::new(known.clone()));
        self.now.push(known);
    }

    fn happen(&mut self, event: Event) {
        let (Event::Split { index, .. }
        | Event::MergeWithNext { index }
        | Event::Move { index, .. }
        | Event::Lead { index, .. }) = event;
        let known = self.now.swap_remove(index % self.now.len());
        let old = known.descriptor().clone();
        let above = |generation: Generation| Generation(generation.0 + 1);
        let made = |arc: Arc| Descriptor { arc, generation: above(old.generation), ..old.clone() };
        match event {
            Event::Split { at, .. } => match old.arc.split(&Position::at(old.keyspace(), &at)) {
                None => self.now.push(known),
                Some((left, right)) => {
                    self.record(KnownShard::new(made(left), known.term()));
                    let shard = ShardId(self.next_shard);
                    self.next_shard += 1;
                    let right = Descriptor { shard, leader: None, ..made(right) };
                    self.record(KnownShard::new(right, 0));
                }
            },
            Event::MergeWithNext { .. } => {
                let is_next = |other: &KnownShard| old.arc.is_before(other.arc());
                match self.now.iter().position(is_next) {
                    None => self.now.push(known),
                    Some(index) => {
                        let next = self.now.swap_remove(index);
                        let larger = old.generation.max(next.generation());
                        let arc = old.arc.join(next.arc()).unwrap();
                        let merged = Descriptor { generation: above(larger), ..made(arc) };
                        self.record(KnownShard::new(merged, known.term()));
                    }
                }
            }
            Event::Move { first, .. } => {
                let replicas = replicas(first, old.generation.0);
                let moved = Descriptor { replicas, ..made(old.arc.clone()) };
                self.record(KnownShard::new(moved, known.term()));
            }
            Event::Lead { replica, .. } => {
                let mut known = known;
                let leader = old.replicas[replica].0;
                assert!(known.take_hint(Hint { leader, term: known.term() + 1 }));
                self.record(known);
            }
        }
    }

    /// The shard that owns a point.
    pub fn owner(&self, point: Point<'_>) -> &KnownShard {
        self.now.iter().find(|known| point.is_in(known.arc())).expect("shards tile the circle")
    }

    /// The shards of a keyspace by rising start.
    pub fn keyspace(&self, keyspace: KeyspaceId) -> Vec<KnownShard> {
        let here = self.now.iter().filter(|known| known.arc().keyspace() == keyspace);
        let mut here: Vec<KnownShard> = here.cloned().collect();
        here.sort_by(|a, b| a.arc().start().cmp(b.arc().start()));
        here
    }

    /// Fails unless a table says exactly what is true.
    pub fn check(&self, table: &Table) {
        for keyspace in KEYSPACES {
            let rows: Vec<KnownShard> =
                table.keyspace(keyspace).map(|row| (**row).clone()).collect();
            assert_eq!(rows, self.keyspace(keyspace));
        }
        assert_eq!(table.len(), self.now.len());
    }
}
