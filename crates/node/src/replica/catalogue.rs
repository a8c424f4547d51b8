//! The system shard's state: which keyspaces there are, and their safe points (SAFETY G14).

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::codec::{DecodeError, Reader, put_varint};
use keyspace::{
    Catalogue, CatalogueError, CatalogueOp, Keyspace, KeyspaceId, Level, NodeId, ShardId, Standing,
    Subject, Timestamp,
};

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
    /// The id of a shard was given out, for one that is to be cut off.
    Drawn {
        /// Of which keyspace it is to be.
        keyspace: KeyspaceId,
        /// The id.
        shard: ShardId,
    },
    /// A node stands so from now on, or was asked to and did before.
    Node {
        /// Which.
        node: NodeId,
        /// How.
        standing: Standing,
    },
    /// The cluster has this level from now on, or was to and had it before.
    Level(Level),
    /// It has become this one at once: a snapshot has jumped over the changes between.
    Jumped(Arc<Catalogue>),
}

impl Change {
    /// What it is about, as it is then; a keyspace that is gone, as it was.
    ///
    /// # Panics
    /// If the catalogue has jumped: no operation has asked for that.
    pub fn subject(&self) -> Subject {
        match self {
            Change::Created(keyspace) | Change::Altered(keyspace) | Change::Dropped(keyspace) => {
                Subject::Keyspace(keyspace.clone())
            }
            Change::Drawn { keyspace, shard } => Subject::Shard(*keyspace, *shard),
            Change::Node { node, standing } => Subject::Node(*node, *standing),
            Change::Level(level) => Subject::Level(*level),
            Change::Jumped(_) => unreachable!("no operation does that"),
        }
    }
}

impl System {
    /// Applies a catalogue operation as it stands in the log. New shards begin on `nodes`: those
    /// that decide about the catalogue; on one that is to get no replicas only if there are too
    /// few others.
    ///
    /// # Errors
    /// What the catalogue says; it is then as it was.
    ///
    /// # Panics
    /// If the operation cannot be read: it was encoded by this node and checksummed.
    pub fn apply(&mut self, body: &[u8], nodes: &[NodeId]) -> Result<Change, CatalogueError> {
        let mut reader = Reader::new(body);
        let op = CatalogueOp::decode(&mut reader).expect("operations in the log are readable");
        let keyspace = match self.catalogue.apply(&op)? {
            Subject::Keyspace(keyspace) => keyspace,
            Subject::Node(node, standing) => return Ok(Change::Node { node, standing }),
            Subject::Shard(keyspace, shard) => return Ok(Change::Drawn { keyspace, shard }),
            Subject::Level(level) => return Ok(Change::Level(level)),
        };
        Ok(match op {
            CatalogueOp::Create { name, .. } => {
                let nodes = self.by_standing(nodes);
                let placed = self.catalogue.place(name, &nodes);
                Change::Created(placed.cloned().unwrap_or(keyspace))
            }
            CatalogueOp::Alter { .. } | CatalogueOp::File { .. } => Change::Altered(keyspace),
            CatalogueOp::Drop { .. } => {
                self.safe_points.remove(&keyspace.id);
                Change::Dropped(keyspace)
            }
            CatalogueOp::Node { .. } | CatalogueOp::Shard { .. } | CatalogueOp::Level { .. } => {
                unreachable!("their subjects are no keyspaces")
            }
        })
    }

    /// These nodes, those first that take replicas; without removed ones.
    fn by_standing(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let standing = |node: &NodeId| self.catalogue.standing(*node);
        let mut nodes: Vec<NodeId> =
            nodes.iter().copied().filter(|node| standing(node) != Standing::Removed).collect();
        nodes.sort_by_key(|node| !standing(node).takes_replicas());
        nodes
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use keyspace::KeyspaceOptions;

    use super::*;

    fn apply(system: &mut System, op: &CatalogueOp<'_>) -> Change {
        let mut body = Vec::new();
        op.encode(&mut body);
        system.apply(&body, &[1, 2, 3, 4].map(NodeId)).unwrap()
    }

    #[test]
    fn shards_begin_on_nodes_that_take_replicas_and_on_others_for_want_of_them() {
        let mut system = System::default();
        let (node, standing) = (NodeId(1), Standing::Cordoned);
        let op = CatalogueOp::Node { node, standing, among: BTreeSet::new() };
        assert_eq!(apply(&mut system, &op), Change::Node { node, standing });
        let mut begins = |name, replicas| {
            let options = KeyspaceOptions { replicas, ..KeyspaceOptions::default() };
            let created = apply(&mut system, &CatalogueOp::Create { name, options });
            let Subject::Keyspace(keyspace) = created.subject() else { panic!("no keyspace") };
            keyspace.nodes
        };
        assert_eq!(begins("one", 1), [NodeId(2)]);
        assert_eq!(begins("three", 3), [2, 3, 4].map(NodeId));
        for standing in [Standing::Draining, Standing::Removed] {
            let op = CatalogueOp::Node { node, standing, among: BTreeSet::new() };
            apply(&mut system, &op);
        }
        let mut bytes = Vec::new();
        system.encode(&mut bytes);
        let read = System::decode(&bytes).unwrap();
        assert_eq!(read.catalogue, system.catalogue);
        assert_eq!(read.catalogue.standing(node), Standing::Removed);
    }
}
