//! The bytes of messages between the leaders of two shards that merge: a tag `u8`, then the fields
//! of [`MergeMessage`] in their order; numbers `varint`, the end of an arc `bytes`, nodes as a
//! count and u64 each.

use keyspace::codec::{DecodeError, Reader, put_bytes, put_varint};
use keyspace::{Generation, KeyspaceId, NodeId, ShardId, Timestamp};

use super::{MergeMessage, put};

/// The most nodes that one names: far more than a shard has replicas.
const NODES_MAX: u64 = 64;

impl MergeMessage {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MergeMessage::Freeze { left, ours, yours, keyspace, end, nodes } => {
                put(0, &[left.0, ours.0, yours.0, keyspace.0.into()], out);
                put_bytes(end, out);
                put_varint(nodes.len() as u64, out);
                nodes.iter().for_each(|node| out.extend_from_slice(&node.0.to_le_bytes()));
            }
            MergeMessage::Frozen { right, yours, index, term, last } => {
                put(1, &[right.0, yours.0, *index, *term, last.0], out);
            }
            MergeMessage::CannotFreeze { right, yours } => put(2, &[right.0, yours.0], out),
            MergeMessage::Unfreeze { left, yours } => put(3, &[left.0, yours.0], out),
            MergeMessage::UnfreezeDone { right, ours } => put(4, &[right.0, ours.0], out),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`]: it is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        let (shard, first) = (ShardId(reader.varint()?), Generation(reader.varint()?));
        Ok(match tag {
            0 => {
                let yours = Generation(reader.varint()?);
                let id = reader.varint_max(u32::MAX.into(), "keyspace id")? as u32;
                let (keyspace, end) = (KeyspaceId(id), reader.bytes()?.to_vec());
                let count = reader.varint_max(NODES_MAX, "nodes")?;
                let node = |_| Ok(NodeId(reader.u64()?));
                let nodes = (0..count).map(node).collect::<Result<_, DecodeError>>()?;
                MergeMessage::Freeze { left: shard, ours: first, yours, keyspace, end, nodes }
            }
            1 => MergeMessage::Frozen {
                right: shard,
                yours: first,
                index: reader.varint()?,
                term: reader.varint()?,
                last: Timestamp(reader.varint()?),
            },
            2 => MergeMessage::CannotFreeze { right: shard, yours: first },
            3 => MergeMessage::Unfreeze { left: shard, yours: first },
            4 => MergeMessage::UnfreezeDone { right: shard, ours: first },
            found => return Err(DecodeError::Tag { what: "word about a merge", found }),
        })
    }

    /// Names of the kinds, for metrics: never changed.
    pub const KINDS: [&'static str; 5] = ["freeze", "frozen", "unfit", "free", "freed"];
}
