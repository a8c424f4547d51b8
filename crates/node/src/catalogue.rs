//! The system shard's state: which keyspaces there are, and their safe points (SAFETY G14).

use std::collections::BTreeMap;

use keyspace::{Catalogue, CatalogueError, CatalogueOp, Keyspace, KeyspaceId, Timestamp};

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

impl System {
    /// Applies a catalogue operation as it stands in the log.
    ///
    /// # Errors
    /// What the catalogue says; it is then as it was.
    ///
    /// # Panics
    /// If the operation cannot be read: it was encoded by this node and checksummed.
    pub fn apply(&mut self, mut body: &[u8]) -> Result<Change, CatalogueError> {
        let op = CatalogueOp::decode(&mut body).expect("operations in the log are readable");
        match op {
            CatalogueOp::Create { name, options } => {
                self.catalogue.create(&name, &options).cloned().map(Change::Created)
            }
            CatalogueOp::Alter { name, alteration } => {
                self.catalogue.alter(&name, &alteration).cloned().map(Change::Altered)
            }
            CatalogueOp::Drop { name } => {
                let gone = self.catalogue.drop(&name)?;
                self.safe_points.remove(&gone.id);
                Ok(Change::Dropped(gone))
            }
        }
    }

    /// Raises a keyspace's safe point to at least `to`; what it is now.
    pub fn raise_safe_point(&mut self, keyspace: KeyspaceId, to: Timestamp) -> Timestamp {
        let point = self.safe_points.entry(keyspace).or_default();
        *point = (*point).max(to);
        *point
    }
}
