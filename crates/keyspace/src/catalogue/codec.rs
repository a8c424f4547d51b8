//! The catalogue, its keyspaces, ops and errors as bytes; the table is on the parent's front page.

mod error;

use std::collections::BTreeSet;

use super::{
    ADMIN_STATES_MAX, AdminState, AdminStates, Catalogue, CatalogueError, CatalogueOp, Durability,
    KEYSPACE_REPLICAS_MAX, KEYSPACES_MAX, Keyspace, KeyspaceAlteration, KeyspaceOptions, Libraries,
    LibraryOp, LinearHashOp, LinearHashRecord, REMAINING_NODES_MAX, Subject, VolumeOptions,
    VolumeOrigin, check_invariants, check_name,
};
use crate::cluster_version::ClusterVersion;
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::ids::{KeyspaceId, NodeId, ShardId};
use crate::leases::{Lease, LeaseOp};
use crate::position::Placement;
use crate::slot::SLOTS;
use crate::timestamp::Timestamp;

/// Without admin states: versions before them can still read it.
const VERSION_PLAIN: u8 = 2;
/// At cluster version 1: versions before cluster versions can still read it.
const VERSION_ADMIN_STATES: u8 = 3;
/// Without libraries, and before scripts were forgotten.
const VERSION_CLUSTER_VERSION: u8 = 4;
const VERSION: u8 = 5;
const CREATE: u8 = 1;
const ALTER: u8 = 2;
const DROP: u8 = 3;
const NODE: u8 = 4;
const SHARD: u8 = 5;
const CLUSTER_VERSION: u8 = 6;
const LINEAR_HASH: u8 = 7;
const LIBRARY: u8 = 8;
const LEASE: u8 = 9;
const SUBJECT_KEYSPACE: u8 = 0;
const REFUSED: u8 = 1;
const SUBJECT_NODE: u8 = 2;
const SUBJECT_SHARD: u8 = 3;
const SUBJECT_CLUSTER_VERSION: u8 = 4;
const SUBJECT_LIBRARIES: u8 = 5;
const SUBJECT_LEASE: u8 = 6;
const ALTERS_DURABILITY: u8 = 1;
const ALTERS_RETENTION: u8 = 2;
const ALTERS_REPLICAS: u8 = 4;
const ALTERS_SKIPS_EQUAL: u8 = 8;
const ALTERS_VOLUME: u8 = 16;
const ALTERS_ORIGIN: u8 = 32;
const ALTERS_ANY: u8 = ALTERS_DURABILITY
    | ALTERS_RETENTION
    | ALTERS_REPLICAS
    | ALTERS_SKIPS_EQUAL
    | ALTERS_VOLUME
    | ALTERS_ORIGIN;
/// Beside a keyspace's durability: writes of what a key has make no version.
const SKIPS_EQUAL: u8 = 128;
/// The same: it is a volume.
const IS_VOLUME: u8 = 64;
/// The same: it is a volume of several writers.
const IS_SHARED: u8 = 32;
/// The same: the volume is or was a clone.
const HAS_ORIGIN: u8 = 16;
const CLONE: u8 = 1;
const FLATTENED: u8 = 2;

impl<'a> CatalogueOp<'a> {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            CatalogueOp::Create { name, options } => {
                out.push(CREATE);
                put_bytes(name.as_bytes(), out);
                put_options(options, out);
            }
            CatalogueOp::Alter { name, change } => {
                out.push(ALTER);
                put_bytes(name.as_bytes(), out);
                let durability = change.durability.map_or(0, |_| ALTERS_DURABILITY);
                let retention = change.retention_ms.map_or(0, |_| ALTERS_RETENTION);
                let replicas = change.replicas.map_or(0, |_| ALTERS_REPLICAS);
                let skips_equal = change.skips_equal.map_or(0, |_| ALTERS_SKIPS_EQUAL);
                let volume = change.volume_bytes.map_or(0, |_| ALTERS_VOLUME);
                let origin = change.flattened_at.map_or(0, |_| ALTERS_ORIGIN);
                out.push(durability | retention | replicas | skips_equal | volume | origin);
                out.extend(change.durability.map(durability_byte));
                change
                    .retention_ms
                    .into_iter()
                    .for_each(|retention_ms| put_varint(retention_ms, out));
                out.extend(change.replicas);
                out.extend(change.skips_equal.map(u8::from));
                change.volume_bytes.into_iter().for_each(|bytes| put_varint(bytes, out));
                change.flattened_at.iter().for_each(|at| out.extend(at.0.to_le_bytes()));
            }
            CatalogueOp::Drop { name } => {
                out.push(DROP);
                put_bytes(name.as_bytes(), out);
            }
            CatalogueOp::Shard { keyspace } => {
                out.push(SHARD);
                put_varint(u64::from(keyspace.0), out);
            }
            CatalogueOp::Node { node, admin_state, among } => {
                out.push(NODE);
                put_admin_state(*node, *admin_state, out);
                put_varint(among.len() as u64, out);
                among.iter().for_each(|node| out.extend_from_slice(&node.0.to_le_bytes()));
            }
            CatalogueOp::RaiseVersion { to } => out.extend([CLUSTER_VERSION, to.number()]),
            CatalogueOp::LinearHash { keyspace, epoch, act } => {
                out.push(LINEAR_HASH);
                put_varint(u64::from(keyspace.0), out);
                put_varint(*epoch, out);
                out.push(act.number());
            }
            CatalogueOp::Library(op) => {
                out.push(LIBRARY);
                op.encode(out);
            }
            CatalogueOp::Lease(op) => {
                out.push(LEASE);
                op.encode(out);
            }
        }
    }

    /// Reads one value from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`]. Names and options are not judged here: apply does that.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        match tag {
            CREATE => {
                let name = read_name(reader)?;
                Ok(CatalogueOp::Create { name, options: read_options(reader)? })
            }
            ALTER => {
                let name = read_name(reader)?;
                let flags = reader.u8()?;
                if flags & !ALTERS_ANY != 0 {
                    return Err(DecodeError::Tag { what: "alteration", found: flags });
                }
                let mut change = KeyspaceAlteration::default();
                if flags & ALTERS_DURABILITY != 0 {
                    change.durability = Some(read_durability(reader)?);
                }
                if flags & ALTERS_RETENTION != 0 {
                    change.retention_ms = Some(reader.varint()?);
                }
                if flags & ALTERS_REPLICAS != 0 {
                    change.replicas = Some(reader.u8()?);
                }
                if flags & ALTERS_SKIPS_EQUAL != 0 {
                    change.skips_equal = Some(match reader.u8()? {
                        0 => false,
                        1 => true,
                        found => return Err(DecodeError::Tag { what: "equal writes", found }),
                    });
                }
                if flags & ALTERS_VOLUME != 0 {
                    change.volume_bytes = Some(reader.varint()?);
                }
                if flags & ALTERS_ORIGIN != 0 {
                    change.flattened_at = Some(Timestamp(reader.u64()?));
                }
                Ok(CatalogueOp::Alter { name, change })
            }
            DROP => Ok(CatalogueOp::Drop { name: read_name(reader)? }),
            SHARD => Ok(CatalogueOp::Shard { keyspace: read_keyspace_id(reader)? }),
            NODE => {
                let (node, admin_state) = read_admin_state(reader)?;
                let count = reader.varint_max(REMAINING_NODES_MAX as u64, "count of nodes")?;
                let mut among = BTreeSet::new();
                for _ in 0..count {
                    let node = NodeId(reader.u64()?);
                    if among.last().is_some_and(|last| *last >= node) {
                        return Err(DecodeError::Field { what: "nodes: not rising" });
                    }
                    among.insert(node);
                }
                Ok(CatalogueOp::Node { node, admin_state, among })
            }
            CLUSTER_VERSION => Ok(CatalogueOp::RaiseVersion { to: read_cluster_version(reader)? }),
            LINEAR_HASH => {
                let (keyspace, epoch) = (read_keyspace_id(reader)?, reader.varint()?);
                Ok(CatalogueOp::LinearHash { keyspace, epoch, act: LinearHashOp::decode(reader)? })
            }
            LIBRARY => Ok(CatalogueOp::Library(LibraryOp::decode(reader)?)),
            LEASE => Ok(CatalogueOp::Lease(LeaseOp::decode(reader)?)),
            found => Err(DecodeError::Tag { what: "catalogue op", found }),
        }
    }
}

impl Catalogue {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let has_version = self.cluster_version > ClusterVersion::FIRST;
        let has_admin_states = has_version || !self.admin_states.is_empty();
        let has_libraries = self.libraries.is_encoded();
        out.push(match (has_version, has_admin_states) {
            (true, _) if has_libraries => VERSION,
            (true, _) => VERSION_CLUSTER_VERSION,
            (false, true) => VERSION_ADMIN_STATES,
            (false, false) => VERSION_PLAIN,
        });
        put_varint(u64::from(self.next_keyspace.0), out);
        put_varint(self.next_shard.0, out);
        put_varint(self.keyspaces.len() as u64, out);
        for keyspace in self.keyspaces.values() {
            keyspace.encode(out);
        }
        if has_admin_states {
            put_varint(self.admin_states.len() as u64, out);
            self.admin_states
                .iter()
                .for_each(|(node, admin_state)| put_admin_state(node, admin_state, out));
        }
        if has_version {
            out.push(self.cluster_version.number());
        }
        if has_libraries {
            self.libraries.encode(out);
        }
    }

    /// Reads one catalogue from the front of the reader, and checks its invariants.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not those of a catalogue of this version.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = reader.u8()?;
        if !(VERSION_PLAIN..=VERSION).contains(&version) {
            return Err(DecodeError::Version { what: "catalogue", found: version });
        }
        let next_keyspace = read_keyspace_id(reader)?;
        let next_shard = ShardId(reader.varint()?);
        let count = reader.varint_max(KEYSPACES_MAX as u64, "keyspace count")?;
        let mut catalogue = Self { next_keyspace, next_shard, ..Self::default() };
        let (mut ids, mut shards) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..count {
            let keyspace = Keyspace::decode(reader)?;
            let id_fits = (1..next_keyspace.0).contains(&keyspace.id.0) && ids.insert(keyspace.id);
            let fits =
                |shard: &ShardId| (1..next_shard.0).contains(&shard.0) && shards.insert(*shard);
            if !id_fits || !keyspace.shards.iter().all(fits) {
                return Err(DecodeError::Field { what: "id: out of range or used twice" });
            }
            let last = catalogue.keyspaces.last_key_value();
            if last.is_some_and(|(last, _)| *last >= keyspace.name) {
                return Err(DecodeError::Field { what: "keyspaces: not by rising name" });
            }
            catalogue.keyspaces.insert(keyspace.name.clone(), keyspace);
        }
        if version >= VERSION_ADMIN_STATES {
            catalogue.admin_states = read_admin_states(reader)?;
        }
        if version == VERSION_ADMIN_STATES && catalogue.admin_states.is_empty() {
            return Err(DecodeError::Field { what: "admin states: none" });
        }
        if version >= VERSION_CLUSTER_VERSION {
            catalogue.cluster_version = read_cluster_version(reader)?;
            if catalogue.cluster_version == ClusterVersion::FIRST {
                return Err(DecodeError::Field { what: "cluster version: the first is not named" });
            }
        }
        if version == VERSION {
            catalogue.libraries = Libraries::decode(reader)?;
        }
        let has_source = |one: &Keyspace| {
            one.source().is_none_or(|(source, _)| {
                catalogue.by_id(source).is_some_and(|of| of.options.volume.is_some())
            })
        };
        if !catalogue.iter().all(has_source) {
            return Err(DecodeError::Field { what: "clone: no source" });
        }
        let needed = catalogue.iter().map(|keyspace| keyspace.options.since()).max();
        if needed > Some(catalogue.cluster_version) {
            return Err(DecodeError::Field { what: "options: above the cluster version" });
        }
        Ok(catalogue)
    }
}

impl Subject {
    /// Appends its bytes: `u8` 0 and the keyspace, 2 and node u64, admin state, 3 and the ids of a
    /// keyspace and a shard, `varint` each, 4 and cluster version `u8`, 5, or 6 and a lease.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Subject::Keyspace(keyspace) => {
                out.push(SUBJECT_KEYSPACE);
                keyspace.encode(out);
            }
            Subject::Node(node, admin_state) => {
                out.push(SUBJECT_NODE);
                put_admin_state(*node, *admin_state, out);
            }
            Subject::Shard(keyspace, shard) => {
                out.push(SUBJECT_SHARD);
                put_varint(u64::from(keyspace.0), out);
                put_varint(shard.0, out);
            }
            Subject::ClusterVersion(version) => {
                out.extend([SUBJECT_CLUSTER_VERSION, version.number()])
            }
            Subject::Libraries => out.push(SUBJECT_LIBRARIES),
            Subject::Lease(lease) => {
                out.push(SUBJECT_LEASE);
                lease.encode(out);
            }
        }
    }

    /// Appends the bytes of the catalogue's reply: a subject, or `u8` 1 and the error.
    pub fn encode_result(result: &Result<Box<Self>, CatalogueError>, out: &mut Vec<u8>) {
        match result {
            Ok(subject) => subject.encode(out),
            Err(error) => {
                out.push(REFUSED);
                error.encode(out);
            }
        }
    }

    /// Reads what [`Self::encode_result`] wrote from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are something else.
    pub fn decode_result(
        reader: &mut Reader<'_>,
    ) -> Result<Result<Box<Self>, CatalogueError>, DecodeError> {
        Ok(match reader.u8()? {
            SUBJECT_KEYSPACE => Ok(Box::new(Subject::Keyspace(Keyspace::decode(reader)?))),
            REFUSED => Err(CatalogueError::decode(reader)?),
            SUBJECT_NODE => {
                let (node, admin_state) = read_admin_state(reader)?;
                Ok(Box::new(Subject::Node(node, admin_state)))
            }
            SUBJECT_SHARD => {
                let keyspace = read_keyspace_id(reader)?;
                Ok(Box::new(Subject::Shard(keyspace, ShardId(reader.varint()?))))
            }
            SUBJECT_CLUSTER_VERSION => {
                Ok(Box::new(Subject::ClusterVersion(read_cluster_version(reader)?)))
            }
            SUBJECT_LIBRARIES => Ok(Box::new(Subject::Libraries)),
            SUBJECT_LEASE => Ok(Box::new(Subject::Lease(Lease::decode(reader)?))),
            found => return Err(DecodeError::Tag { what: "catalogue's word", found }),
        })
    }
}

impl Keyspace {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(self.name.as_bytes(), out);
        put_varint(u64::from(self.id.0), out);
        put_options(&self.options, out);
        put_varint(self.shards.len() as u64, out);
        self.shards.iter().for_each(|shard| put_varint(shard.0, out));
        out.push(self.nodes.len() as u8);
        self.nodes.iter().for_each(|node| out.extend_from_slice(&node.0.to_le_bytes()));
        self.linear_hash_table.iter().for_each(|record| record.encode(out));
    }

    /// Reads one value from the front of the reader.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not those of a keyspace. A catalogue judges the ids.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = read_name(reader)?;
        let id = read_keyspace_id(reader)?;
        let options = read_options(reader)?;
        if check_name(name).is_err() || check_invariants(&options).is_err() {
            return Err(DecodeError::Field { what: "keyspace: name or options" });
        }
        let count = reader.varint()?;
        let tiles = match options.placement {
            Placement::Hashed => {
                (1..=u64::from(SLOTS)).contains(&count) && u64::from(SLOTS) % count == 0
            }
            Placement::Ordered | Placement::LinearHash => count == 1,
        };
        if !tiles {
            return Err(DecodeError::Field { what: "shard count" });
        }
        let shards = (0..count).map(|_| reader.varint().map(ShardId)).collect::<Result<_, _>>()?;
        let count = reader.u8()?;
        if count > KEYSPACE_REPLICAS_MAX {
            return Err(DecodeError::Field { what: "count of nodes" });
        }
        let nodes = (0..count).map(|_| reader.u64().map(NodeId)).collect::<Result<_, _>>()?;
        let linear_hash_table = match options.placement {
            Placement::Hashed | Placement::Ordered => None,
            Placement::LinearHash => Some(LinearHashRecord::decode(reader)?),
        };
        Ok(Self { id, name: name.into(), options, shards, nodes, linear_hash_table })
    }
}

pub(super) fn read_name<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    let name = std::str::from_utf8(reader.bytes()?);
    name.map_err(|_| DecodeError::Field { what: "name: not UTF-8" })
}

fn put_admin_state(node: NodeId, admin_state: AdminState, out: &mut Vec<u8>) {
    out.extend_from_slice(&node.0.to_le_bytes());
    out.push(match admin_state {
        AdminState::Member => 0,
        AdminState::Cordoned => 1,
        AdminState::Draining => 2,
        AdminState::Removed => 3,
    });
}

fn read_admin_state(reader: &mut Reader<'_>) -> Result<(NodeId, AdminState), DecodeError> {
    let node = NodeId(reader.u64()?);
    let admin_state = match reader.u8()? {
        0 => AdminState::Member,
        1 => AdminState::Cordoned,
        2 => AdminState::Draining,
        3 => AdminState::Removed,
        found => return Err(DecodeError::Tag { what: "admin state", found }),
    };
    Ok((node, admin_state))
}

fn read_admin_states(reader: &mut Reader<'_>) -> Result<AdminStates, DecodeError> {
    let count = reader.varint_max(ADMIN_STATES_MAX as u64, "count of admin states")?;
    let (mut admin_states, mut last) = (AdminStates::default(), None);
    for _ in 0..count {
        let (node, admin_state) = read_admin_state(reader)?;
        if admin_state == AdminState::Member || last.is_some_and(|last| last >= node) {
            return Err(DecodeError::Field { what: "admin states: of a member, or not by node" });
        }
        admin_states.set(node, admin_state);
        last = Some(node);
    }
    Ok(admin_states)
}

fn read_cluster_version(reader: &mut Reader<'_>) -> Result<ClusterVersion, DecodeError> {
    ClusterVersion::new(reader.u8()?).ok_or(DecodeError::Field { what: "cluster version: 0" })
}

fn read_keyspace_id(reader: &mut Reader<'_>) -> Result<KeyspaceId, DecodeError> {
    Ok(KeyspaceId(reader.varint_max(u32::MAX.into(), "keyspace id")? as u32))
}

fn put_options(options: &KeyspaceOptions, out: &mut Vec<u8>) {
    out.push(match options.placement {
        Placement::Hashed => 0,
        Placement::Ordered => 1,
        Placement::LinearHash => 2,
    });
    let skips_equal = if options.skips_equal { SKIPS_EQUAL } else { 0 };
    let is_volume = match options.volume {
        None => 0,
        Some(VolumeOptions { is_shared: false, .. }) => IS_VOLUME,
        Some(VolumeOptions { is_shared: true, .. }) => IS_VOLUME | IS_SHARED,
    };
    let has_origin = match options.volume {
        Some(volume) if volume.origin != VolumeOrigin::Empty => HAS_ORIGIN,
        _ => 0,
    };
    out.push(durability_byte(options.durability) | skips_equal | is_volume | has_origin);
    put_varint(options.retention_ms, out);
    out.push(options.replicas);
    if let Some(VolumeOptions { bytes, block_bytes, is_shared: _, origin }) = options.volume {
        put_varint(bytes, out);
        put_varint(u64::from(block_bytes), out);
        match origin {
            VolumeOrigin::Empty => {}
            VolumeOrigin::Clone { source, at } => {
                out.push(CLONE);
                put_varint(u64::from(source.0), out);
                out.extend_from_slice(&at.0.to_le_bytes());
            }
            VolumeOrigin::Flattened { since } => {
                out.push(FLATTENED);
                out.extend_from_slice(&since.0.to_le_bytes());
            }
        }
    }
}

fn read_options(reader: &mut Reader<'_>) -> Result<KeyspaceOptions, DecodeError> {
    let placement = match reader.u8()? {
        0 => Placement::Hashed,
        1 => Placement::Ordered,
        2 => Placement::LinearHash,
        found => return Err(DecodeError::Tag { what: "placement", found }),
    };
    let second = reader.u8()?;
    if second & (IS_VOLUME | HAS_ORIGIN) == HAS_ORIGIN {
        return Err(DecodeError::Field { what: "options: an origin, and no volume" });
    }
    // Only a volume can be shared.
    let of_volume = if second & IS_VOLUME != 0 { IS_SHARED | HAS_ORIGIN } else { 0 };
    Ok(KeyspaceOptions {
        placement,
        durability: durability_of(second & !(SKIPS_EQUAL | IS_VOLUME | of_volume))?,
        retention_ms: reader.varint()?,
        replicas: reader.u8()?,
        skips_equal: second & SKIPS_EQUAL != 0,
        volume: match second & IS_VOLUME {
            0 => None,
            _ => Some(VolumeOptions {
                bytes: reader.varint()?,
                block_bytes: reader.varint_max(u32::MAX.into(), "bytes of a block")? as u32,
                is_shared: second & IS_SHARED != 0,
                origin: match second & HAS_ORIGIN {
                    0 => VolumeOrigin::Empty,
                    _ => read_origin(reader)?,
                },
            }),
        },
    })
}

fn read_origin(reader: &mut Reader<'_>) -> Result<VolumeOrigin, DecodeError> {
    match reader.u8()? {
        CLONE => {
            let (source, at) = (read_keyspace_id(reader)?, Timestamp(reader.u64()?));
            Ok(VolumeOrigin::Clone { source, at })
        }
        FLATTENED => Ok(VolumeOrigin::Flattened { since: Timestamp(reader.u64()?) }),
        found => Err(DecodeError::Tag { what: "origin of a volume", found }),
    }
}

fn durability_byte(durability: Durability) -> u8 {
    match durability {
        Durability::Sync => 0,
        Durability::Interval => 1,
        Durability::Memory => 2,
    }
}

fn read_durability(reader: &mut Reader<'_>) -> Result<Durability, DecodeError> {
    durability_of(reader.u8()?)
}

fn durability_of(byte: u8) -> Result<Durability, DecodeError> {
    match byte {
        0 => Ok(Durability::Sync),
        1 => Ok(Durability::Interval),
        2 => Ok(Durability::Memory),
        found => Err(DecodeError::Tag { what: "durability", found }),
    }
}
