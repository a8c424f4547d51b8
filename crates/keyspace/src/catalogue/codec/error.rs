//! Errors of the catalogue as bytes.

use super::super::{CatalogueError, LinearHashRecord, NoCloneReason};
use super::{put_admin_state, read_admin_state, read_cluster_version, read_name};
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::ids::NodeId;
use crate::timestamp::Timestamp;

const BAD_NAME: u8 = 1;
const NUMBERED_NAME: u8 = 2;
const EXISTS: u8 = 3;
const NOT_FOUND: u8 = 4;
const TOO_MANY: u8 = 5;
const OUT_OF_IDS: u8 = 6;
const RETENTION_TOO_LONG: u8 = 7;
const BAD_REPLICAS: u8 = 8;
const NEEDS_SYNC: u8 = 9;
const FEWER_REPLICAS: u8 = 10;
const NODE_REMOVED: u8 = 11;
const NOT_DRAINING: u8 = 12;
const TOO_FEW_NODES: u8 = 13;
const LAST_NODE: u8 = 14;
const TOO_MANY_ADMIN_STATES: u8 = 15;
const VERSION_SKIPPED: u8 = 16;
const VERSION_TOO_LOW: u8 = 17;
const NOT_LINEAR_HASH: u8 = 18;
const STALE_TABLE_EPOCH: u8 = 19;
const LIBRARY_EXISTS: u8 = 20;
const FUNCTION_EXISTS: u8 = 21;
const NO_LIBRARY: u8 = 22;
const LIBRARIES_TOO_LARGE: u8 = 23;
const LEASE_TOO_LONG: u8 = 24;
const TOO_MANY_LEASES: u8 = 25;
const NO_LEASE: u8 = 26;
const BELOW_SAFE_POINT: u8 = 27;
const BAD_VOLUME: u8 = 28;
const NO_VOLUME: u8 = 29;
const NO_CLONE: u8 = 30;
const NOT_CLONE: u8 = 31;
const HAS_CLONES: u8 = 32;
const HAS_SNAPSHOTS: u8 = 33;
/// Why a volume cannot be cloned, from 1 on.
const NO_CLONE_REASONS: [NoCloneReason; 4] = [
    NoCloneReason::NoVolume,
    NoCloneReason::TooMany,
    NoCloneReason::TooDeep,
    NoCloneReason::OtherBlocks,
];

impl CatalogueError {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut named = |tag, name: &str| {
            out.push(tag);
            put_bytes(name.as_bytes(), out);
        };
        match self {
            Self::BadName { name } => named(BAD_NAME, name),
            Self::NumberedName { name } => named(NUMBERED_NAME, name),
            Self::Exists { name } => named(EXISTS, name),
            Self::NotFound { name } => named(NOT_FOUND, name),
            Self::TooMany => out.push(TOO_MANY),
            Self::OutOfIds => out.push(OUT_OF_IDS),
            Self::RetentionTooLong { retention_ms } => {
                out.push(RETENTION_TOO_LONG);
                put_varint(*retention_ms, out);
            }
            Self::BadReplicas { replicas } => out.extend([BAD_REPLICAS, *replicas]),
            Self::NeedsSync { replicas } => out.extend([NEEDS_SYNC, *replicas]),
            Self::FewerReplicas { from, to } => out.extend([FEWER_REPLICAS, *from, *to]),
            Self::NodeRemoved { node } => {
                out.push(NODE_REMOVED);
                out.extend_from_slice(&node.0.to_le_bytes());
            }
            Self::NotDraining { node, admin_state } => {
                out.push(NOT_DRAINING);
                put_admin_state(*node, *admin_state, out);
            }
            Self::TooFewNodes { keyspace, replicas, left } => {
                named(TOO_FEW_NODES, keyspace);
                out.push(*replicas);
                put_varint(*left, out);
            }
            Self::LastNode => out.push(LAST_NODE),
            Self::TooManyAdminStates => out.push(TOO_MANY_ADMIN_STATES),
            Self::VersionSkipped { from, to } => {
                out.extend([VERSION_SKIPPED, from.number(), to.number()]);
            }
            Self::VersionTooLow { version, needs } => {
                out.extend([VERSION_TOO_LOW, version.number(), needs.number()]);
            }
            Self::NotLinearHash { name } => named(NOT_LINEAR_HASH, name),
            Self::StaleTableEpoch { name, record } => {
                named(STALE_TABLE_EPOCH, name);
                record.encode(out);
            }
            Self::LibraryExists { name } => named(LIBRARY_EXISTS, name),
            Self::FunctionExists { name } => named(FUNCTION_EXISTS, name),
            Self::NoLibrary { name } => named(NO_LIBRARY, name),
            Self::LibrariesTooLarge { bytes } => {
                out.push(LIBRARIES_TOO_LARGE);
                put_varint(*bytes, out);
            }
            Self::LeaseTooLong { ttl_ms } => {
                out.push(LEASE_TOO_LONG);
                put_varint(*ttl_ms, out);
            }
            Self::TooManyLeases => out.push(TOO_MANY_LEASES),
            Self::NoLease { id } => {
                out.push(NO_LEASE);
                put_varint(*id, out);
            }
            Self::BadVolume { bytes, block_bytes } => {
                out.push(BAD_VOLUME);
                put_varint(*bytes, out);
                put_varint(u64::from(*block_bytes), out);
            }
            Self::NoVolume { name } => named(NO_VOLUME, name),
            Self::NoClone { name, why } => {
                named(NO_CLONE, name);
                let place = NO_CLONE_REASONS.iter().position(|reason| reason == why);
                out.push(place.map_or(0, |place| place as u8 + 1));
            }
            Self::NotClone { name } => named(NOT_CLONE, name),
            Self::HasClones { name, by } => {
                named(HAS_CLONES, name);
                put_bytes(by.as_bytes(), out);
            }
            Self::HasSnapshots { name } => named(HAS_SNAPSHOTS, name),
            Self::BelowSafePoint { at, safe_point } => {
                out.push(BELOW_SAFE_POINT);
                out.extend_from_slice(&at.0.to_le_bytes());
                out.extend_from_slice(&safe_point.0.to_le_bytes());
            }
        }
    }

    /// Reads one value from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not those of an error.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        Ok(match tag {
            BAD_NAME => Self::BadName { name: read_name(reader)?.into() },
            NUMBERED_NAME => Self::NumberedName { name: read_name(reader)?.into() },
            EXISTS => Self::Exists { name: read_name(reader)?.into() },
            NOT_FOUND => Self::NotFound { name: read_name(reader)?.into() },
            TOO_MANY => Self::TooMany,
            OUT_OF_IDS => Self::OutOfIds,
            RETENTION_TOO_LONG => Self::RetentionTooLong { retention_ms: reader.varint()? },
            BAD_REPLICAS => Self::BadReplicas { replicas: reader.u8()? },
            NEEDS_SYNC => Self::NeedsSync { replicas: reader.u8()? },
            FEWER_REPLICAS => Self::FewerReplicas { from: reader.u8()?, to: reader.u8()? },
            NODE_REMOVED => Self::NodeRemoved { node: NodeId(reader.u64()?) },
            NOT_DRAINING => {
                let (node, admin_state) = read_admin_state(reader)?;
                Self::NotDraining { node, admin_state }
            }
            TOO_FEW_NODES => Self::TooFewNodes {
                keyspace: read_name(reader)?.into(),
                replicas: reader.u8()?,
                left: reader.varint()?,
            },
            LAST_NODE => Self::LastNode,
            TOO_MANY_ADMIN_STATES => Self::TooManyAdminStates,
            VERSION_SKIPPED => Self::VersionSkipped {
                from: read_cluster_version(reader)?,
                to: read_cluster_version(reader)?,
            },
            VERSION_TOO_LOW => Self::VersionTooLow {
                version: read_cluster_version(reader)?,
                needs: read_cluster_version(reader)?,
            },
            NOT_LINEAR_HASH => Self::NotLinearHash { name: read_name(reader)?.into() },
            STALE_TABLE_EPOCH => {
                let name = read_name(reader)?.into();
                Self::StaleTableEpoch { name, record: LinearHashRecord::decode(reader)? }
            }
            LIBRARY_EXISTS => Self::LibraryExists { name: read_name(reader)?.into() },
            FUNCTION_EXISTS => Self::FunctionExists { name: read_name(reader)?.into() },
            NO_LIBRARY => Self::NoLibrary { name: read_name(reader)?.into() },
            LIBRARIES_TOO_LARGE => Self::LibrariesTooLarge { bytes: reader.varint()? },
            LEASE_TOO_LONG => Self::LeaseTooLong { ttl_ms: reader.varint()? },
            TOO_MANY_LEASES => Self::TooManyLeases,
            NO_CLONE => {
                let name = read_name(reader)?.into();
                let found = reader.u8()?;
                let why = usize::from(found).checked_sub(1);
                let why = why.and_then(|place| NO_CLONE_REASONS.get(place).copied());
                let unknown = DecodeError::Tag { what: "why there is no clone", found };
                Self::NoClone { name, why: why.ok_or(unknown)? }
            }
            NOT_CLONE => Self::NotClone { name: read_name(reader)?.into() },
            HAS_CLONES => {
                Self::HasClones { name: read_name(reader)?.into(), by: read_name(reader)?.into() }
            }
            HAS_SNAPSHOTS => Self::HasSnapshots { name: read_name(reader)?.into() },
            BAD_VOLUME => Self::BadVolume {
                bytes: reader.varint()?,
                block_bytes: reader.varint_max(u32::MAX.into(), "bytes of a block")? as u32,
            },
            NO_VOLUME => Self::NoVolume { name: read_name(reader)?.into() },
            NO_LEASE => Self::NoLease { id: reader.varint()? },
            BELOW_SAFE_POINT => Self::BelowSafePoint {
                at: Timestamp(reader.u64()?),
                safe_point: Timestamp(reader.u64()?),
            },
            found => return Err(DecodeError::Tag { what: "catalogue error", found }),
        })
    }
}
