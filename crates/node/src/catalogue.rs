//! The system shard's state: which keyspaces there are, and their safe points (SAFETY G14).

use std::collections::BTreeMap;

use keyspace::codec::{DecodeError, Reader, put_varint};
use keyspace::{Catalogue, CatalogueError, CatalogueOp, Keyspace, KeyspaceId, NodeId, Timestamp};

/// What the system shard holds.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// The keyspaces.
    pub catalogue: Catalogue,
    /// Per keyspace, the timestamp below which its shards may collect old versions.
    pub safe_points: BTreeMap<KeyspaceId, Timestamp>,
}

/// How the catalogue has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A keyspace is new: its shards are to be created.
    Created(Keyspace),
    /// A keyspace has other settings: its shards are to be told.
    Altered(Keyspace),
    /// A keyspace is gone: its shards are to be dropped.
    Dropped(Keyspace),
}

impl Change {
    /// The keyspace as it is then, or was.
    pub fn keyspace(&self) -> &Keyspace {
        match self {
            Change::Created(keyspace) | Change::Altered(keyspace) | Change::Dropped(keyspace) => {
                keyspace
            }
        }
    }
}

impl System {
    /// Applies a catalogue operation as it stands in the log. New shards begin on `nodes`: those
    /// that decide about the catalogue.
    ///
    /// # Errors
    /// What the catalogue says; it is then as it was.
    ///
    /// # Panics
    /// If the operation cannot be read: it was encoded by this node and checksummed.
    pub fn apply(&mut self, body: &[u8], nodes: &[NodeId]) -> Result<Change, CatalogueError> {
        let mut reader = Reader::new(body);
        let op = CatalogueOp::decode(&mut reader).expect("operations in the log are readable");
        let keyspace = self.catalogue.apply(&op)?;
        Ok(match op {
            CatalogueOp::Create { name, .. } => {
                let placed = self.catalogue.place(name, nodes);
                Change::Created(placed.cloned().unwrap_or(keyspace))
            }
            CatalogueOp::Alter { .. } => Change::Altered(keyspace),
            CatalogueOp::Drop { .. } => {
                self.safe_points.remove(&keyspace.id);
                Change::Dropped(keyspace)
            }
        })
    }

    /// Raises a keyspace's safe point to at least `to`; what it is now.
    pub fn raise_safe_point(&mut self, keyspace: KeyspaceId, to: Timestamp) -> Timestamp {
        let point = self.safe_points.entry(keyspace).or_default();
        *point = (*point).max(to);
        *point
    }

    /// Appends its bytes, for a checkpoint: the catalogue, then id and safe point of each keyspace.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.catalogue.encode(out);
        put_varint(self.safe_points.len() as u64, out);
        for (id, point) in &self.safe_points {
            put_varint(u64::from(id.0), out);
            out.extend_from_slice(&point.0.to_le_bytes());
        }
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not those of a system state of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let catalogue = Catalogue::decode(&mut reader)?;
        let count = reader.varint()?;
        let mut safe_points = BTreeMap::new();
        for _ in 0..count {
            let id = reader.varint_max(u32::MAX.into(), "keyspace id")? as u32;
            safe_points.insert(KeyspaceId(id), Timestamp(reader.u64()?));
        }
        reader.end()?;
        Ok(Self { catalogue, safe_points })
    }
}
