//! One request's path to its owner, hop by hop.
//!
//! It asks its lookup and names a node. When the caller calls again, the answer was not final;
//! whatever it showed has been learnt by then:
//!
//! ```text
//!   next ─► leader by hint ─► each other replica once ─► unreachable ─► a peer, another each time
//!           ▲                                                             │
//!           └── a new generation or a newer term was learnt ──────────────┘
//! ```
//!
//! It ends at [`HOPS_MAX`]; the request's deadline usually ends it sooner. It is a value beside the
//! request, and waits for nothing. A request that is passed on carries [`LookupPath::hops`], so
//! that the limit holds over all nodes together.

use keyspace::descriptor::REPLICAS_MAX;
use keyspace::{Generation, NodeId, ShardId};

use crate::known_shard::KnownShard;
use crate::lookup::{Lookup, Step};
use crate::point::Point;

/// The most nodes that one request asks.
pub const HOPS_MAX: u8 = 32;

/// The next node of a lookup path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node to ask.
    pub node: NodeId,
    /// The shard that is thought to own the point, and the generation of this belief; `None` if
    /// the node is asked only because it may know more.
    pub shard: Option<(ShardId, Generation)>,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug)]
pub struct LookupPath {
    hops: u8,
    /// Where among the peers it begins to ask.
    first_peer: usize,
    /// How often it had to ask a peer.
    detours: usize,
    asked: Option<AskedReplicas>,
}

/// Which replicas were asked, of which belief.
#[derive(Clone, Copy, Debug)]
struct AskedReplicas {
    shard: ShardId,
    generation: Generation,
    term: u64,
    /// Bit `n`: the replica at index `n` of the descriptor.
    replicas: u32,
}

const _: () = assert!(REPLICAS_MAX <= u32::BITS as usize);

impl LookupPath {
    /// A path after `hops` hops on other nodes. It asks peers from `first_peer` on, by place among
    /// them: paths with different ones begin with different peers.
    pub fn new(hops: u8, first_peer: usize) -> Self {
        Self { hops, first_peer, detours: 0, asked: None }
    }

    /// How many nodes were asked.
    pub fn hops(&self) -> u8 {
        self.hops
    }

    /// The next node to ask; `None` after [`HOPS_MAX`] hops, or if no node is left to ask.
    pub fn next(&mut self, lookup: &mut dyn Lookup, point: Point<'_>) -> Option<Hop> {
        if self.hops >= HOPS_MAX {
            return None;
        }
        self.hops += 1;
        if let Step::Owner(known) | Step::Closer(known) = lookup.next(point) {
            let shard = (known.shard(), known.generation());
            if let Some(node) = self.replica(known) {
                return Some(Hop { node, shard: Some(shard) });
            }
            lookup.mark_unreachable(shard.0, shard.1);
        }
        match lookup.next(point) {
            Step::Ask(peers) => {
                let index = self.first_peer.wrapping_add(self.detours) % peers.len().max(1);
                self.detours += 1;
                peers.get(index).map(|node| Hop { node: *node, shard: None })
            }
            // Nobody else is known: ask its replicas again, from the first.
            Step::Owner(known) | Step::Closer(known) => {
                let shard = (known.shard(), known.generation());
                self.asked = None;
                self.replica(known).map(|node| Hop { node, shard: Some(shard) })
            }
        }
    }

    /// The replica to ask now: the leader once a term, then each that was not asked.
    fn replica(&mut self, known: &KnownShard) -> Option<NodeId> {
        let replicas = &known.descriptor().replicas;
        let (shard, generation, term) = (known.shard(), known.generation(), known.term());
        let asked =
            self.asked.filter(|asked| (asked.shard, asked.generation) == (shard, generation));
        let new_term = asked.is_none_or(|asked| asked.term < term);
        let mut bits = asked.map_or(0, |asked| asked.replicas);
        let leader = known
            .hint()
            .filter(|_| new_term)
            .and_then(|hint| replicas.iter().position(|(replica, _)| *replica == hint.leader));
        let index = leader.or_else(|| (0..replicas.len()).find(|index| bits & 1 << index == 0))?;
        bits |= 1 << index;
        self.asked = Some(AskedReplicas { shard, generation, term, replicas: bits });
        Some(replicas[index].1)
    }
}
