//! The system shard's state: the keyspaces, their safe points, and the leases that hold these
//! (SAFETY G14, G21).

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::codec::{DecodeError, Reader, put_varint};
use keyspace::{
    AdminState, Catalogue, CatalogueError, CatalogueOp, ClusterVersion, Keyspace, KeyspaceId,
    Lease, LeaseOp, Leases, Libraries, NodeId, ShardId, Subject, Timestamp,
};

use super::SafePoint;

/// What the system shard holds.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// The keyspaces.
    pub catalogue: Catalogue,
    /// Per keyspace, the timestamp below which its shards may collect old versions.
    pub safe_points: BTreeMap<KeyspaceId, Timestamp>,
    /// What holds safe points within bounds.
    pub leases: Leases,
}

/// How the catalogue has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A keyspace is new: its shards are to be created.
    Created(Keyspace),
    /// A keyspace has other settings, which its shards must learn.
    Altered(Keyspace),
    /// A keyspace was dropped, and its shards must be.
    Dropped(Keyspace),
    /// The id of a shard was given out, for one that is to be cut off.
    ShardIdAllocated {
        /// Of which keyspace it is to be.
        keyspace: KeyspaceId,
        /// The id.
        shard: ShardId,
    },
    /// A node stands so from now on, or was asked to and did before.
    AdminState {
        /// Which.
        node: NodeId,
        /// How.
        admin_state: AdminState,
    },
    /// The cluster has this version from now on, or was to and had it before.
    ClusterVersion(ClusterVersion),
    /// These are the libraries of functions from now on, and so often scripts were forgotten.
    Libraries(Libraries),
    /// A lease was opened, renewed or ended.
    Lease(Lease),
    /// It has become this one at once: a snapshot has jumped over the changes between.
    Replaced(Arc<Catalogue>),
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
            Change::ShardIdAllocated { keyspace, shard } => Subject::Shard(*keyspace, *shard),
            Change::AdminState { node, admin_state } => Subject::Node(*node, *admin_state),
            Change::ClusterVersion(version) => Subject::ClusterVersion(*version),
            Change::Libraries(_) => Subject::Libraries,
            Change::Lease(lease) => Subject::Lease(lease.clone()),
            Change::Replaced(_) => unreachable!("no operation does that"),
        }
    }
}

impl System {
    /// Applies a catalogue operation as it stands in the log, in an entry of time `at`. New shards
    /// begin on `nodes`: those that decide about the catalogue; on one that is to get no replicas
    /// only if there are too few others.
    ///
    /// # Errors
    /// What the catalogue says; it is then as it was.
    ///
    /// # Panics
    /// If the operation cannot be read: it was encoded by this node and checksummed.
    pub fn apply(
        &mut self,
        body: &[u8],
        nodes: &[NodeId],
        at: Timestamp,
    ) -> Result<Change, CatalogueError> {
        let mut reader = Reader::new(body);
        let op = CatalogueOp::decode(&mut reader).expect("operations in the log are readable");
        if let CatalogueOp::Lease(op) = op {
            return self.apply_lease(&op, at);
        }
        self.check_clones(&op)?;
        let keyspace = match self.catalogue.apply(&op)? {
            Subject::Keyspace(keyspace) => keyspace,
            Subject::Node(node, admin_state) => {
                return Ok(Change::AdminState { node, admin_state });
            }
            Subject::Shard(keyspace, shard) => {
                return Ok(Change::ShardIdAllocated { keyspace, shard });
            }
            Subject::ClusterVersion(version) => return Ok(Change::ClusterVersion(version)),
            Subject::Libraries => {
                return Ok(Change::Libraries(self.catalogue.libraries().clone()));
            }
            Subject::Lease(_) => unreachable!("changes of leases are applied above"),
        };
        Ok(match op {
            CatalogueOp::Create { name, .. } => {
                let nodes = self.nodes_by_admin_state(nodes);
                let placed = self.catalogue.place(name, &nodes);
                Change::Created(placed.cloned().unwrap_or(keyspace))
            }
            CatalogueOp::Alter { .. } | CatalogueOp::LinearHash { .. } => Change::Altered(keyspace),
            CatalogueOp::Drop { .. } => {
                self.safe_points.remove(&keyspace.id);
                self.leases.drop_keyspace(keyspace.id);
                Change::Dropped(keyspace)
            }
            CatalogueOp::Node { .. }
            | CatalogueOp::Shard { .. }
            | CatalogueOp::RaiseVersion { .. }
            | CatalogueOp::Library(_)
            | CatalogueOp::Lease(_) => {
                unreachable!("their subjects are no keyspaces")
            }
        })
    }

    /// These nodes, those first that take replicas; without removed ones.
    fn nodes_by_admin_state(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let admin_state = |node: &NodeId| self.catalogue.admin_state(*node);
        let mut nodes: Vec<NodeId> =
            nodes.iter().copied().filter(|node| admin_state(node) != AdminState::Removed).collect();
        nodes.sort_by_key(|node| !admin_state(node).takes_replicas());
        nodes
    }

    fn apply_lease(&mut self, op: &LeaseOp, at: Timestamp) -> Result<Change, CatalogueError> {
        let needs = keyspace::Feature::Snapshots.since();
        let version = self.catalogue.cluster_version();
        if version < needs {
            return Err(CatalogueError::VersionTooLow { version, needs });
        }
        let safe_point = |keyspace: KeyspaceId| {
            self.catalogue.by_id(keyspace)?;
            Some(self.safe_points.get(&keyspace).copied().unwrap_or_default())
        };
        let is_pinned = |keyspace: KeyspaceId, at: Timestamp| {
            self.catalogue.clones(keyspace).any(|(_, pinned)| pinned == at)
        };
        self.leases.apply(op, at.millis(), safe_point, is_pinned).map(Change::Lease)
    }

    /// Raises a keyspace's safe point to at least `to`, in an entry of time `at`; returns the
    /// current one. It never passes a hold that lives then (SAFETY G14).
    pub fn raise_safe_point(
        &mut self,
        keyspace: KeyspaceId,
        to: Timestamp,
        at: Timestamp,
    ) -> SafePoint {
        self.leases.end_by(at.millis());
        let held = self.leases.oldest_hold(keyspace, at.millis()).map(|lease| lease.at);
        let point = self.safe_points.entry(keyspace).or_default();
        *point = (*point).max(to.min(held.unwrap_or(Timestamp::MAX)));
        let at = *point;
        SafePoint { at, pins: self.pins(keyspace, at) }
    }

    /// The times below a keyspace's safe point that stay readable, rising: those of leases, and
    /// those of which there are clones.
    pub fn pins(&self, keyspace: KeyspaceId, safe_point: Timestamp) -> Box<[Timestamp]> {
        let mut pins = self.leases.pins(keyspace, safe_point);
        let of_clones = self.catalogue.clones(keyspace).map(|(_, at)| at);
        pins.extend(of_clones.filter(|at| *at < safe_point));
        pins.sort_unstable();
        pins.dedup();
        pins.into()
    }

    /// Refuses a clone whose time is not readable in its source any more, and a flattened one that
    /// snapshots of before need with its source (SAFETY G21).
    fn check_clones(&self, op: &CatalogueOp<'_>) -> Result<(), CatalogueError> {
        match op {
            CatalogueOp::Create { options, .. } => {
                let of_clone = options.volume.and_then(|volume| volume.source());
                let Some((source, at)) = of_clone else { return Ok(()) };
                let safe_point = self.safe_points.get(&source).copied().unwrap_or_default();
                match at < safe_point && self.pins(source, safe_point).binary_search(&at).is_err() {
                    true => Err(CatalogueError::BelowSafePoint { at, safe_point }),
                    false => Ok(()),
                }
            }
            CatalogueOp::Alter { name, change } => {
                let of = change.flattened_at.zip(self.catalogue.get(name));
                match of.is_some_and(|(since, of)| !self.leases.pins(of.id, since).is_empty()) {
                    true => Err(CatalogueError::HasSnapshots { name: (*name).into() }),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Appends its bytes, for a checkpoint: the catalogue, then id and safe point of each keyspace;
    /// then the leases, if there ever was one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.catalogue.encode(out);
        put_varint(self.safe_points.len() as u64, out);
        for (id, point) in &self.safe_points {
            put_varint(u64::from(id.0), out);
            out.extend_from_slice(&point.0.to_le_bytes());
        }
        if self.leases.is_encoded() {
            self.leases.encode(out);
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
        // Versions before leases end here.
        let leases = match reader.rest().is_empty() {
            true => Leases::default(),
            false => Leases::decode(&mut reader)?,
        };
        reader.end()?;
        Ok(Self { catalogue, safe_points, leases })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use keyspace::{KeyspaceAlteration, KeyspaceOptions, VolumeOptions, VolumeOrigin};

    use super::*;

    fn apply(system: &mut System, op: &CatalogueOp<'_>) -> Change {
        let mut body = Vec::new();
        op.encode(&mut body);
        system.apply(&body, &[1, 2, 3, 4].map(NodeId), Timestamp::ZERO).unwrap()
    }

    #[test]
    fn clones_pin_their_times_in_their_sources() {
        let ms = Timestamp::from_millis;
        let mut system = System::default();
        let to = keyspace::Feature::Volumes.since();
        apply(&mut system, &CatalogueOp::RaiseVersion { to });
        let options = |origin| {
            let volume =
                Some(VolumeOptions { bytes: 1 << 20, block_bytes: 4096, is_shared: false, origin });
            let placement = keyspace::Placement::LinearHash;
            KeyspaceOptions { placement, volume, ..KeyspaceOptions::default() }
        };
        let change = |system: &mut System, op: &CatalogueOp<'_>| {
            let mut body = Vec::new();
            op.encode(&mut body);
            system.apply(&body, &[NodeId(1)], ms(50))
        };
        let create = |name, origin| CatalogueOp::Create { name, options: options(origin) };
        change(&mut system, &create("disk", VolumeOrigin::Empty)).unwrap();
        let disk = system.catalogue.get("disk").unwrap().id;
        let clone = |at| VolumeOrigin::Clone { source: disk, at: ms(at) };
        change(&mut system, &create("copy", clone(40))).unwrap();
        // The safe point passes the clone's time, and that time stays readable.
        let point = system.raise_safe_point(disk, ms(45), ms(50));
        assert_eq!((point.at, &*point.pins), (ms(45), &[ms(40)][..]));
        let refused = change(&mut system, &create("late", clone(41))).unwrap_err();
        assert!(matches!(refused, CatalogueError::BelowSafePoint { .. }), "{refused}");
        change(&mut system, &create("twin", clone(40))).unwrap();
        let kind = keyspace::LeaseKind::Pin;
        let pin = |keyspace, at| {
            let (keyspaces, at) = (vec![keyspace], ms(at));
            CatalogueOp::Lease(LeaseOp::Open { request: 7, kind, keyspaces, at, ttl_ms: 1000 })
        };
        change(&mut system, &pin(disk, 40)).unwrap();
        change(&mut system, &CatalogueOp::Lease(LeaseOp::End { id: 1 })).unwrap();
        assert_eq!(
            System::decode(&{
                let mut bytes = Vec::new();
                system.encode(&mut bytes);
                bytes
            })
            .unwrap()
            .pins(disk, ms(45)),
            [ms(40)].into()
        );

        // A snapshot of the clone needs the source, too.
        let copy = system.catalogue.get("copy").unwrap().id;
        change(&mut system, &pin(copy, 42)).unwrap();
        let flattened_at = Some(ms(48));
        let flat = KeyspaceAlteration { flattened_at, ..KeyspaceAlteration::default() };
        let flatten = CatalogueOp::Alter { name: "copy", change: flat };
        let refused = change(&mut system, &flatten).unwrap_err();
        assert_eq!(refused, CatalogueError::HasSnapshots { name: "copy".into() });
        change(&mut system, &CatalogueOp::Lease(LeaseOp::End { id: 2 })).unwrap();
        change(&mut system, &flatten).unwrap();
        change(&mut system, &CatalogueOp::Drop { name: "twin" }).unwrap();
        assert!(system.raise_safe_point(disk, ms(46), ms(50)).pins.is_empty());
    }

    #[test]
    fn shards_begin_on_nodes_that_take_replicas_and_on_others_for_want_of_them() {
        let mut system = System::default();
        let (node, admin_state) = (NodeId(1), AdminState::Cordoned);
        let op = CatalogueOp::Node { node, admin_state, among: BTreeSet::new() };
        assert_eq!(apply(&mut system, &op), Change::AdminState { node, admin_state });
        let mut begins = |name, replicas| {
            let options = KeyspaceOptions { replicas, ..KeyspaceOptions::default() };
            let created = apply(&mut system, &CatalogueOp::Create { name, options });
            let Subject::Keyspace(keyspace) = created.subject() else { panic!("no keyspace") };
            keyspace.nodes
        };
        assert_eq!(begins("one", 1), [NodeId(2)]);
        assert_eq!(begins("three", 3), [2, 3, 4].map(NodeId));
        for admin_state in [AdminState::Draining, AdminState::Removed] {
            let op = CatalogueOp::Node { node, admin_state, among: BTreeSet::new() };
            apply(&mut system, &op);
        }
        let mut bytes = Vec::new();
        system.encode(&mut bytes);
        let read = System::decode(&bytes).unwrap();
        assert_eq!(read.catalogue, system.catalogue);
        assert_eq!(read.catalogue.admin_state(node), AdminState::Removed);
    }
}
