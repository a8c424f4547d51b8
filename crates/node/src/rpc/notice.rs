//! Notices: what replicas of a shard tell each other about themselves. They travel as RPCs.
//!
//! ```text
//!   follower ── Digest ──────►  leader          my state, as of this entry, has this digest
//!   follower ◄───── Differs ──  leader          it differs from the majority: quarantine yourself
//!   any executor ── Quarantined ─►  all, each second: my replica is quarantined; replace it
//! ```
//!
//! They may be lost, repeated and late: digests name their index, and the others name a replica,
//! whose id is never used again.
//!
//! # Bytes
//! Tag `u8`, then the fields below in their order; words as in [`keyspace::codec`].

use keyspace::codec::{Reader, put_varint};
use keyspace::{DecodeError, ReplicaId};

/// What a replica tells others of its shard about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaNotice {
    /// 0: what a replica's state is.
    Digest {
        /// Whose: `varint`.
        replica: ReplicaId,
        /// As of this entry: `varint`.
        index: u64,
        /// Its digest ([`crate::replica::digest`]): 16 bytes.
        digest: u128,
    },
    /// 1: a majority agrees on another state than this replica's.
    Differs {
        /// Whose: `varint`.
        replica: ReplicaId,
        /// As of this entry: `varint`.
        index: u64,
    },
    /// 2: a replica takes no part any more.
    Quarantined {
        /// Which: `varint`.
        replica: ReplicaId,
    },
}

impl ReplicaNotice {
    /// Names of the kinds, for metrics: never changed.
    pub const KINDS: [&'static str; 3] = ["digest", "differs", "quarantined"];

    /// The place of its kind in [`Self::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            ReplicaNotice::Digest { .. } => 0,
            ReplicaNotice::Differs { .. } => 1,
            ReplicaNotice::Quarantined { .. } => 2,
        }
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind() as u8);
        match self {
            ReplicaNotice::Digest { replica, index, digest } => {
                put_varint(replica.0, out);
                put_varint(*index, out);
                out.extend_from_slice(&digest.to_le_bytes());
            }
            ReplicaNotice::Differs { replica, index } => {
                put_varint(replica.0, out);
                put_varint(*index, out);
            }
            ReplicaNotice::Quarantined { replica } => put_varint(replica.0, out),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        let replica = ReplicaId(reader.varint()?);
        Ok(match tag {
            0 => {
                let index = reader.varint()?;
                let (low, high) = (reader.u64()?, reader.u64()?);
                let digest = u128::from(low) | u128::from(high) << 64;
                ReplicaNotice::Digest { replica, index, digest }
            }
            1 => ReplicaNotice::Differs { replica, index: reader.varint()? },
            2 => ReplicaNotice::Quarantined { replica },
            found => return Err(DecodeError::Tag { what: "replica notice", found }),
        })
    }
}
