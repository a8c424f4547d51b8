//! A shard's descriptor: its arc, its replicas and its leader.
//!
//! A shard's own log holds the true one; other nodes hold copies, possibly too old. The
//! **generation** rises with every split, merge and replica change, so of two copies of one shard
//! the higher one is newer.
//!
//! # Bytes
//!
//! Numbers and counted bytes as in [`codec`](crate::codec).
//!
//! | field | form | rule |
//! |---|---|---|
//! | version | `u8` | 1 |
//! | shard | `varint` | |
//! | generation | `varint` | |
//! | keyspace | `varint` | at most 32 bits |
//! | start, end | `bytes` each | after the keyspace's id; equal only if both are empty (whole circle) |
//! | leader | `varint` | replica id + 1; 0: not known |
//! | replicas | `varint` count, then replica `varint` ‖ node `u64` each | at most [`REPLICAS_MAX`], replica ids rising, no node twice |

use crate::arc::Arc;
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::ids::{Generation, KeyspaceId, NodeId, ReplicaId, ShardId};
use crate::position::Position;

/// The most replicas a descriptor lists: voters, learners and those of both halves of a change.
pub const REPLICAS_MAX: usize = 32;

const VERSION: u8 = 1;

/// A shard: its arc, its replicas, and how old this knowledge is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Which shard.
    pub shard: ShardId,
    /// What it owns; on the circle of its keyspace.
    pub arc: Arc,
    /// Its replicas and the nodes they are on, by rising replica id, no node twice.
    pub replicas: Vec<(ReplicaId, NodeId)>,
    /// How often it has changed.
    pub generation: Generation,
    /// The replica that led when this copy was made. May be wrong; costs a hop then.
    pub leader: Option<ReplicaId>,
}

impl Descriptor {
    /// The keyspace its arc lies in.
    pub fn keyspace(&self) -> KeyspaceId {
        self.arc.keyspace()
    }

    /// The replica that a node has.
    pub fn replica_on(&self, node: NodeId) -> Option<ReplicaId> {
        self.replicas.iter().find(|(_, at)| *at == node).map(|(replica, _)| *replica)
    }

    /// The node that a replica is on.
    pub fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.replicas.iter().find(|(id, _)| *id == replica).map(|(_, node)| *node)
    }

    /// The node to ask first: the leader's if known and still listed, else the first replica's.
    pub fn node_to_ask(&self) -> Option<NodeId> {
        let leader = self.replicas.iter().find(|(replica, _)| Some(*replica) == self.leader);
        leader.or(self.replicas.first()).map(|(_, node)| *node)
    }

    /// Appends its bytes.
    ///
    /// # Panics
    /// If the replicas are too many, out of order, or two on one node.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(replicas_are_valid(&self.replicas), "replicas of shard {}", self.shard);
        out.push(VERSION);
        put_varint(self.shard.0, out);
        put_varint(self.generation.0, out);
        put_varint(u64::from(self.keyspace().0), out);
        put_bytes(self.arc.start().tail(), out);
        put_bytes(self.arc.end().tail(), out);
        put_varint(self.leader.map_or(0, |replica| replica.0 + 1), out);
        put_varint(self.replicas.len() as u64, out);
        for (replica, node) in &self.replicas {
            put_varint(replica.0, out);
            out.extend_from_slice(&node.0.to_le_bytes());
        }
    }

    /// Reads one value from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not those of a descriptor of this version.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            VERSION => {}
            found => return Err(DecodeError::Version { what: "descriptor", found }),
        }
        let shard = ShardId(reader.varint()?);
        let generation = Generation(reader.varint()?);
        let keyspace = KeyspaceId(reader.varint_max(u32::MAX.into(), "keyspace id")? as u32);
        let (start, end) = (reader.bytes()?, reader.bytes()?);
        if start == end && !start.is_empty() {
            return Err(DecodeError::Field { what: "arc: not in normal form" });
        }
        let arc = Arc::new(Position::at(keyspace, start), Position::at(keyspace, end))
            .expect("both ends were made with one id");
        let leader = reader.varint()?.checked_sub(1).map(ReplicaId);
        let count = reader.varint_max(REPLICAS_MAX as u64, "replica count")?;
        let replicas = (0..count)
            .map(|_| Ok((ReplicaId(reader.varint()?), NodeId(reader.u64()?))))
            .collect::<Result<Vec<_>, DecodeError>>()?;
        if !replicas_are_valid(&replicas) {
            return Err(DecodeError::Field { what: "replicas: order, or two on one node" });
        }
        Ok(Self { shard, arc, replicas, generation, leader })
    }
}

fn replicas_are_valid(replicas: &[(ReplicaId, NodeId)]) -> bool {
    let rising = replicas.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let apart = |index: usize| replicas[..index].iter().all(|(_, node)| *node != replicas[index].1);
    replicas.len() <= REPLICAS_MAX && rising && (0..replicas.len()).all(apart)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn descriptors() -> impl Strategy<Value = Descriptor> {
        let replicas = prop::collection::btree_map(0..u64::MAX, any::<u64>(), 0..5);
        (any::<(u64, u32, u64)>(), any::<[Vec<u8>; 2]>(), replicas, prop::option::of(0..u64::MAX))
            .prop_map(|((shard, keyspace, generation), [start, end], replicas, leader)| {
                let at = |tail: &[u8]| Position::at(KeyspaceId(keyspace), tail);
                // Turned about: one replica for each node.
                let by_node: BTreeMap<u64, u64> = replicas.iter().map(|(r, n)| (*n, *r)).collect();
                let mut replicas: Vec<_> =
                    by_node.iter().map(|(n, r)| (ReplicaId(*r), NodeId(*n))).collect();
                replicas.sort();
                Descriptor {
                    shard: ShardId(shard),
                    arc: Arc::new(at(&start), at(&end)).unwrap(),
                    replicas,
                    generation: Generation(generation),
                    leader: leader.map(ReplicaId),
                }
            })
    }

    #[test]
    fn the_bytes_of_a_descriptor() {
        let descriptor = Descriptor {
            shard: ShardId(300),
            arc: Arc::of_slots(KeyspaceId(1), 2048, 4096),
            replicas: vec![(ReplicaId(1), NodeId(0x11))],
            generation: Generation(2),
            leader: Some(ReplicaId(1)),
        };
        let mut out = Vec::new();
        descriptor.encode(&mut out);
        assert_eq!(
            out,
            b"\x01\xac\x02\x02\x01\x02\x08\x00\x02\x10\x00\x02\x01\x01\x11\0\0\0\0\0\0\0"
        );
        assert_eq!(descriptor.node_to_ask(), Some(NodeId(0x11)));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(descriptor in descriptors(), tail: Vec<u8>) {
            let mut out = Vec::new();
            descriptor.encode(&mut out);
            out.extend(&tail);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(Descriptor::decode(&mut reader), Ok(descriptor));
            prop_assert_eq!(reader.rest(), &tail[..]);
        }

        #[test]
        fn changed_bytes_are_refused_or_read_one_way(
            descriptor in descriptors(),
            at: prop::sample::Index,
            byte: u8,
            cut: prop::sample::Index,
        ) {
            let mut out = Vec::new();
            descriptor.encode(&mut out);
            let index = at.index(out.len());
            out[index] = byte;
            let mut reader = Reader::new(&out);
            if let Ok(read) = Descriptor::decode(&mut reader) {
                let mut again = Vec::new();
                read.encode(&mut again);
                prop_assert_eq!(&again[..], &out[..out.len() - reader.rest().len()]);
            }
            let cut = cut.index(out.len());
            // The end is a matter of the changed byte; that it does not panic is the claim.
            let _ = Descriptor::decode(&mut Reader::new(&out[..cut]));
        }
    }
}
