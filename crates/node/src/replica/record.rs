//! What the node puts into the log beside entries, and the bytes of each record's payload.
//!
//! | kind | name | payload (little-endian) |
//! |---|---|---|
//! | 1 | entry | index u64, term u64, then the entry ([`crate::replica::entry`]) or nothing |
//! | 2 | hard state | term u64, vote u64, commit u64 |
//! | 3 | shard created | placement u8 (0 hashed, 1 ordered, 2 system), then its [`keyspace::Descriptor`] |
//! | 4 | shard dropped | nothing |
//! | 5 | replica created | replica u64, then as 3: it waits for a snapshot of its group |
//! | 6 | replica quarantined | replica u64, then as 3: it takes no part any more |
//! | 7 | replica removed | as 6: its group has gone on without it |
//! | 8 | shard absorbed | the shard that has taken it in, u64: the replica here has ended |
//! | 9 | replica recovered | [`Recovered`]: from here on it is its shard's only voter |

use keyspace::codec::{DecodeError, Reader};
use keyspace::{Cut, Generation, KeyspaceId, NodeId, ReplicaId, ShardId};
use replication::HardState;

/// Kind of a record that holds one entry of a shard's log.
pub const ENTRY: u8 = 1;
/// Kind of a record that holds a replica's term, vote and commit index.
pub const HARD_STATE: u8 = 2;
/// Kind of the record with which a replica begins.
pub const SHARD_CREATED: u8 = 3;
/// Kind of the record with which a replica ends.
pub const SHARD_DROPPED: u8 = 4;

/// Kind of the record with which a replica of a shard begins that others have begun.
pub const REPLICA_CREATED: u8 = 5;

/// Kind of the record with which a replica ends that must not take part any more: a later one of
/// its shard may begin on this node, under a greater id (SAFETY G9).
pub const REPLICA_QUARANTINED: u8 = 6;

/// Kind of the record by which a removed replica ends. A later one of its shard may begin on this
/// node, with a greater id.
pub const REPLICA_REMOVED: u8 = 7;

/// Kind of the record by which a replica ends whose shard was absorbed.
pub const SHARD_ABSORBED: u8 = 8;

/// Kind of the record that makes a replica its shard's only voter, after an operator has given up
/// the others ([`crate::recovery::quorum_loss`]).
pub const REPLICA_RECOVERED: u8 = 9;

/// Bytes before the entry in a record of kind [`ENTRY`].
pub const ENTRY_PREFIX_BYTES: usize = 16;

/// The prefix of a record of kind [`ENTRY`].
pub fn entry_prefix(index: u64, term: u64) -> [u8; ENTRY_PREFIX_BYTES] {
    let mut out = [0; ENTRY_PREFIX_BYTES];
    out[..8].copy_from_slice(&index.to_le_bytes());
    out[8..].copy_from_slice(&term.to_le_bytes());
    out
}

/// Splits the payload of a record of kind [`ENTRY`] into index, term and entry.
pub fn split_entry(payload: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (prefix, data) = payload.split_at_checked(ENTRY_PREFIX_BYTES)?;
    let index = u64::from_le_bytes(prefix[..8].try_into().ok()?);
    let term = u64::from_le_bytes(prefix[8..].try_into().ok()?);
    Some((index, term, data))
}

/// The payload of a record of kind [`HARD_STATE`].
pub fn encode_hard_state(state: HardState) -> [u8; 24] {
    let mut out = [0; 24];
    out[..8].copy_from_slice(&state.term.to_le_bytes());
    out[8..16].copy_from_slice(&state.vote.to_le_bytes());
    out[16..].copy_from_slice(&state.commit.to_le_bytes());
    out
}

/// Reads the payload of a record of kind [`HARD_STATE`].
pub fn decode_hard_state(payload: &[u8]) -> Option<HardState> {
    let word = |at: usize| Some(u64::from_le_bytes(payload.get(at..at + 8)?.try_into().ok()?));
    (payload.len() == 24).then_some(())?;
    Some(HardState { term: word(0)?, vote: word(8)?, commit: word(16)? })
}

/// The content of a record of kind [`REPLICA_RECOVERED`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The replica that is its shard's only voter from here on …
    pub replica: ReplicaId,
    /// … and where it is.
    pub node: NodeId,
    /// The last entry of its log. All up to it counts.
    pub index: u64,
    /// Its term from here on: above all that survivors know of.
    pub term: u64,
    /// The shard's generation from here on: above all that survivors know of.
    pub generation: Generation,
    /// Above every id that a replica of the shard had, as far as survivors know.
    pub newest: ReplicaId,
    /// In the system shard: keyspaces and shards get no ids below these. Else zeros.
    pub next_ids: (KeyspaceId, ShardId),
    /// The first place that it does not keep, for newer shards are there.
    pub cut: Option<Cut>,
}

impl Recovered {
    /// Its bytes: eight-byte words in the order of the fields, and the cut, if there is one.
    pub fn encode(&self) -> Vec<u8> {
        let (keyspace, shard) = self.next_ids;
        let places = [self.replica.0, self.node.0, self.index, self.term];
        let bounds = [self.generation.0, self.newest.0, keyspace.0.into(), shard.0];
        let words = [places, bounds].concat().into_iter();
        let mut out: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        if let Some(cut) = &self.cut {
            cut.encode(&mut out);
        }
        out
    }

    /// Reads one from all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`]: they hold something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(bytes);
        let found = Self {
            replica: ReplicaId(reader.u64()?),
            node: NodeId(reader.u64()?),
            index: reader.u64()?,
            term: reader.u64()?,
            generation: Generation(reader.u64()?),
            newest: ReplicaId(reader.u64()?),
            next_ids: (keyspace_id(reader.u64()?)?, ShardId(reader.u64()?)),
            cut: match reader.rest().is_empty() {
                true => None,
                false => Some(Cut::decode(reader)?),
            },
        };
        reader.end()?;
        Ok(found)
    }
}

fn keyspace_id(word: u64) -> Result<KeyspaceId, DecodeError> {
    let id = word.try_into().map_err(|_| DecodeError::Field { what: "keyspace id" });
    id.map(KeyspaceId)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One without a cut has the bytes that it always had.
    #[test]
    fn recovered_record_roundtrips_with_and_without_cut() {
        let whole = Recovered {
            replica: ReplicaId(1),
            node: NodeId(2),
            index: 3,
            term: 4,
            generation: Generation(5),
            newest: ReplicaId(6),
            next_ids: (KeyspaceId(7), ShardId(8)),
            cut: None,
        };
        let words: Vec<u8> = (1..=8u64).flat_map(u64::to_le_bytes).collect();
        assert_eq!(whole.encode(), words);
        assert_eq!(Recovered::decode(&words), Ok(whole.clone()));
        let cut = Recovered { cut: Some(Cut::Slot(4096)), ..whole };
        let bytes = cut.encode();
        assert_eq!(bytes, [&words[..], &[0x80, 0x20]].concat());
        assert_eq!(Recovered::decode(&bytes), Ok(cut));
        assert!(Recovered::decode(&bytes[..65]).is_err());
        assert!(Recovered::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}
