//! Members by rising start, and the owner of a point, found by binary search alone.

use std::sync::Arc as Shared;

use keyspace::{Arc, Descriptor, Generation, KeyspaceId, NodeId, Position, ReplicaId, ShardId};
use overlay::{KnownShard, Point};

use super::Keys;
use crate::rng::Rng;

/// The keyspace whose ring it is.
pub const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// Bytes of a start, and of a point that is asked for: a number and what tells equal numbers apart.
pub const TAIL_BYTES: usize = 16;

/// A requested point, or a start.
pub type Tail = [u8; TAIL_BYTES];

/// Members whose arcs tile the circle: each owns from its start up to the next one's.
pub struct Ring {
    starts: Vec<Tail>,
    members: Vec<Shared<KnownShard>>,
    keys: Keys,
}

/// A shard on a node of its own, led by it.
pub fn shard(number: u64, arc: Arc, generation: u64) -> Shared<KnownShard> {
    let replica = ReplicaId(1);
    let descriptor = Descriptor {
        shard: ShardId(number),
        arc,
        replicas: vec![(replica, NodeId(number))],
        generation: Generation(generation),
        leader: Some(replica),
    };
    Shared::new(KnownShard::new(descriptor, 1))
}

/// How often each byte is drawn, of itself and all below: by Zipf's law, the n-th as 1/n².
const ZIPF: [u64; 256] = {
    let (mut sums, mut sum, mut byte) = ([0; 256], 0, 0);
    while byte < 256 {
        let n = byte as u64 + 1;
        sum += (1 << 40) / (n * n);
        sums[byte] = sum;
        byte += 1;
    }
    sums
};

/// A place on the ring.
pub fn draw(keys: Keys, rng: &mut Rng) -> Tail {
    match keys {
        Keys::Uniform => {
            let [high, low] = [rng.bits(), rng.bits()].map(u64::to_be_bytes);
            std::array::from_fn(|at| if at < 8 { high[at] } else { low[at - 8] })
        }
        Keys::Zipf => std::array::from_fn(|_| {
            let drawn = rng.below(ZIPF[255]);
            ZIPF.partition_point(|sum| *sum <= drawn) as u8
        }),
    }
}

impl Ring {
    /// So many members, at least one, no two at one place.
    pub fn new(count: usize, keys: Keys, rng: &mut Rng) -> Self {
        let mut starts = Vec::new();
        while starts.len() < count {
            starts.extend((starts.len()..count).map(|_| draw(keys, rng)));
            starts.sort_unstable();
            starts.dedup();
        }
        let position = |place: usize| Position::at(KEYSPACE, &starts[place % count]);
        let members = (0..count).map(|place| {
            let arc = Arc::new(position(place), position(place + 1)).expect("one circle");
            shard(place as u64 + 1, arc, 1)
        });
        let members = members.collect();
        Self { starts, members, keys }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none: never.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The members, by rising start.
    pub fn members(&self) -> &[Shared<KnownShard>] {
        &self.members
    }

    /// The place of a member.
    pub fn place(known: &KnownShard) -> usize {
        known.shard().0 as usize - 1
    }

    /// Where the member at a place starts.
    pub fn start(&self, place: usize) -> &Tail {
        &self.starts[place]
    }

    /// Draws a requested point.
    pub fn draw(&self, rng: &mut Rng) -> Tail {
        draw(self.keys, rng)
    }

    /// The place of a point's owner.
    pub fn owner(&self, tail: &Tail) -> usize {
        let above = self.starts.partition_point(|start| start <= tail);
        (above + self.len() - 1) % self.len()
    }

    /// A point in the form that lookups take.
    pub fn point(tail: &Tail) -> Point<'_> {
        Point { keyspace: KEYSPACE, tail }
    }
}
