//! A shard as a node or client remembers it: its descriptor, and its leader's term.
//!
//! The descriptor's leader is worth as much as the term it led in. So both are stored together, and
//! either both are known or neither.
//!
//! # Bytes
//!
//! | field | form | rule |
//! |---|---|---|
//! | descriptor | as in `keyspace::descriptor` | each end's tail at most [`TAIL_BYTES_MAX`] |
//! | term | `varint` | 0 exactly if the descriptor names no leader |

use keyspace::codec::{DecodeError, Reader, VARINT_BYTES_MAX, put_varint};
use keyspace::descriptor::REPLICAS_MAX;
use keyspace::{Arc, Descriptor, Generation, NodeId, ReplicaId, ShardId};

/// The most bytes after the keyspace's id that an end of an arc may have here: a slot and the
/// longest key. A longer one is refused, so that every descriptor fits into one message.
pub const TAIL_BYTES_MAX: usize = 2 + 64 * 1024;

/// The most bytes a [`KnownShard`] takes: eight numbers with its two ends, then its replicas.
pub const KNOWN_SHARD_BYTES_MAX: usize = fixed_bytes(REPLICAS_MAX) + 2 * TAIL_BYTES_MAX;

/// The most bytes of a [`KnownShard`] apart from the two tails.
const fn fixed_bytes(replicas: usize) -> usize {
    1 + 8 * VARINT_BYTES_MAX + replicas * (VARINT_BYTES_MAX + 8)
}

/// The leader of a shard, and its term. Of two the newer term wins. It may be wrong; that costs a
/// hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The replica that led.
    pub leader: ReplicaId,
    /// In which term of the shard's group; at least 1.
    pub term: u64,
}

/// A shard as a node or client remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownShard {
    descriptor: Descriptor,
    /// The term of the descriptor's leader; 0 exactly if there is none.
    term: u64,
}

impl KnownShard {
    /// A descriptor whose leader led in `term`. Term 0 means unknown: then the leader is dropped as
    /// well.
    pub fn new(mut descriptor: Descriptor, term: u64) -> Self {
        if term == 0 {
            descriptor.leader = None;
        }
        let term = descriptor.leader.map_or(0, |_| term);
        Self { descriptor, term }
    }

    /// The descriptor; its leader is the one of [`Self::hint`].
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Which shard.
    pub fn shard(&self) -> ShardId {
        self.descriptor.shard
    }

    /// How new the descriptor is.
    pub fn generation(&self) -> Generation {
        self.descriptor.generation
    }

    /// The last known leader, if any.
    pub fn hint(&self) -> Option<Hint> {
        self.descriptor.leader.map(|leader| Hint { leader, term: self.term })
    }

    /// The node that led, if it is known and has a replica still.
    pub fn leader(&self) -> Option<NodeId> {
        self.descriptor.node_of(self.descriptor.leader?)
    }

    /// The term of the hint; 0 without one.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// What decides between two descriptors that overlap.
    pub fn rank(&self) -> (Generation, ShardId) {
        (self.generation(), self.shard())
    }

    /// Takes a hint if it is newer than the one that is here; answers whether it was.
    pub fn take_hint(&mut self, hint: Hint) -> bool {
        let newer = hint.term > self.term;
        if newer {
            (self.descriptor.leader, self.term) = (Some(hint.leader), hint.term);
        }
        newer
    }

    /// Whether it is small enough to be sent to others.
    pub fn fits(&self) -> bool {
        let fits = |tail: &[u8]| tail.len() <= TAIL_BYTES_MAX;
        fits(self.descriptor.arc.start().tail()) && fits(self.descriptor.arc.end().tail())
    }

    /// At least as many bytes as [`Self::encode`] appends, and at most [`KNOWN_SHARD_BYTES_MAX`] if
    /// it [fits](Self::fits).
    pub fn bytes_max(&self) -> usize {
        let Descriptor { arc, replicas, .. } = &self.descriptor;
        fixed_bytes(replicas.len()) + arc.start().tail().len() + arc.end().tail().len()
    }

    /// Appends its bytes.
    ///
    /// # Panics
    /// If the descriptor's replicas are out of order (`Descriptor::encode`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.descriptor.encode(out);
        put_varint(self.term, out);
    }

    /// Reads one value from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not those of one.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let descriptor = Descriptor::decode(reader)?;
        let term = reader.varint()?;
        let known = Self { descriptor, term };
        if (term == 0) != known.descriptor.leader.is_none() {
            return Err(DecodeError::Field { what: "term: a leader without, or none with one" });
        }
        if !known.fits() {
            return Err(DecodeError::Field { what: "arc: an end is too long" });
        }
        Ok(known)
    }

    /// The arc that it owns.
    pub fn arc(&self) -> &Arc {
        &self.descriptor.arc
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{KeyspaceId, Position};

    use super::*;

    fn descriptor(leader: Option<ReplicaId>) -> Descriptor {
        Descriptor {
            shard: ShardId(4),
            arc: Arc::whole(KeyspaceId(1)),
            replicas: vec![(ReplicaId(1), NodeId(11)), (ReplicaId(2), NodeId(12))],
            generation: Generation(3),
            leader,
        }
    }

    #[test]
    fn a_leader_and_its_term_are_known_together_or_not_at_all() {
        let known = KnownShard::new(descriptor(Some(ReplicaId(2))), 7);
        assert_eq!(known.hint(), Some(Hint { leader: ReplicaId(2), term: 7 }));
        for known in [
            KnownShard::new(descriptor(Some(ReplicaId(2))), 0),
            KnownShard::new(descriptor(None), 7),
        ] {
            assert_eq!((known.hint(), known.term()), (None, 0));
            assert_eq!(known.descriptor().node_to_ask(), Some(NodeId(11)));
        }
    }

    #[test]
    fn the_newer_term_wins() {
        let mut known = KnownShard::new(descriptor(None), 0);
        assert!(known.take_hint(Hint { leader: ReplicaId(2), term: 7 }));
        assert!(!known.take_hint(Hint { leader: ReplicaId(1), term: 7 }));
        assert!(!known.take_hint(Hint { leader: ReplicaId(1), term: 6 }));
        assert_eq!(known.descriptor().node_to_ask(), Some(NodeId(12)));
        assert!(known.take_hint(Hint { leader: ReplicaId(1), term: 8 }));
        assert_eq!(known.descriptor().node_to_ask(), Some(NodeId(11)));
    }

    #[test]
    fn the_largest_is_as_large_as_it_says() {
        let position = |byte| Position::at(KeyspaceId(u32::MAX), &vec![byte; TAIL_BYTES_MAX]);
        let largest = (0..REPLICAS_MAX as u64).map(|n| (ReplicaId(u64::MAX - 99 + n), NodeId(n)));
        let known = KnownShard::new(
            Descriptor {
                shard: ShardId(u64::MAX),
                arc: Arc::new(position(1), position(2)).unwrap(),
                replicas: largest.collect(),
                generation: Generation(u64::MAX),
                leader: Some(ReplicaId(u64::MAX - 1)),
            },
            u64::MAX,
        );
        let mut out = Vec::new();
        known.encode(&mut out);
        assert!(known.fits() && out.len() <= known.bytes_max());
        assert!(known.bytes_max() <= KNOWN_SHARD_BYTES_MAX);
        assert_eq!(KnownShard::decode(&mut Reader::new(&out)), Ok(known));
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        let long = Position::at(KeyspaceId(1), &vec![1; TAIL_BYTES_MAX + 1]);
        let arc = Arc::new(Position::origin(KeyspaceId(1)), long).unwrap();
        let known = KnownShard::new(Descriptor { arc, ..descriptor(None) }, 0);
        assert!(!known.fits());
        let mut out = Vec::new();
        known.encode(&mut out);
        assert!(KnownShard::decode(&mut Reader::new(&out)).is_err());
        let mut out = Vec::new();
        KnownShard::new(descriptor(Some(ReplicaId(2))), 7).encode(&mut out);
        *out.last_mut().unwrap() = 0;
        assert!(KnownShard::decode(&mut Reader::new(&out)).is_err(), "a leader without a term");
    }
}
