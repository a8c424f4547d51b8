//! The list of keyspaces, and of the shards that hold them.
//!
//! The catalogue is the state of the system shard. Only [`CatalogueOp`]s from its log change it,
//! and apply judges each of them, so every replica has the same. Clients use names; positions begin
//! with ids. A name may be used again after a drop, an id never is.
//!
//! ```text
//!   create "orders" hashed   ──►  id 3, shards 17 … 24; 17 + k owns slots [k·2048, (k+1)·2048)
//!   create "events" ordered  ──►  id 4, shard 25, the whole circle; so for `linear-hash`
//!   drop   "orders"          ──►  3 and 17 … 24 are never used again
//! ```
//!
//! The listed shards are those that a keyspace was created with. After splits and merges,
//! descriptors tell what they own; this list then still says where to begin asking.
//!
//! It also holds the admin state of nodes ([`AdminState`]): that one gets no more replicas, loses
//! those it has, or is out for good. Every placement decision obeys it.
//!
//! For a `linear-hash` keyspace it holds the size of its table, and the step under way:
//! [`mod@linear_hash`].
//!
//! And it holds the [`ClusterVersion`], which limits the features that may be used. The node that
//! proposes to raise it has checked that all nodes support the next one; here it only rises, by
//! one.
//!
//! And it holds libraries of functions, and how often all scripts were forgotten:
//! [`mod@libraries`].
//!
//! Names 0 to 15 are ordinary names. The Redis protocol's `SELECT n` means the keyspace of that
//! name and creates it on first use; nothing here treats them differently.
//!
//! # Invariants
//! 1. Keyspace ids and shard ids are unique, above 0 (the system's), and below the next ones.
//! 2. A hashed keyspace has a number of shards that divides [`SLOTS`]; any other one has one.
//! 3. More than one replica means durability [`Durability::Sync`] (SAFETY G9).
//! 4. [`AdminState::Removed`] is for ever: ids of nodes are never used again.
//! 5. The cluster version never falls, and rises by one at a time.
//! 6. The source of a clone is there.
//!
//! A new keyspace has an odd number of replicas: four survive the loss of one, as three do.
//! Catalogues with even numbers can still be read. The number can only be raised.
//!
//! # Bytes
//!
//! Numbers and counted bytes as in [`codec`](crate::codec).
//!
//! | thing | form |
//! |---|---|
//! | op | `u8`: 1 create, 2 alter, 3 drop; name `bytes`; then for create: options, for alter: alteration. Or 4: node u64, admin state, count `varint`, nodes u64 each, rising. Or 5: keyspace id `varint`. Or 6: cluster version `u8`. Or 7: an op of [`mod@linear_hash`]. Or 8: one of [`mod@libraries`]. Or 9: one of [`mod@crate::leases`] |
//! | admin state | `u8`: 0 member, 1 cordoned, 2 draining, 3 removed |
//! | options | placement `u8` (0 hashed, 1 ordered, 2 linear hash), durability `u8` (0 sync, 1 interval, 2 memory; and 128 if writes of what a key has make no version; 64 if it is a volume; 32 if that is one of several writers; and 16 if it is or was a clone), retention in ms `varint`, replicas `u8`; then, of a volume, its size in bytes `varint`, the bytes of a block `varint`; then, of a clone, `u8` 1, the id of its source `varint`, its time u64, or of one that was flattened `u8` 2, since when u64 |
//! | alteration | `u8`: bit 0 durability follows, bit 1 retention follows, bit 2 replicas follow, bit 3 a `u8` follows, 1 if writes of what a key has make no version, else 0, bit 4 the size of a volume `varint` follows, bit 5 the time since which a clone needs no source u64 follows; then those, as in options |
//! | catalogue | version `u8` = 2 to 5, next keyspace id `varint`, next shard id `varint`, count `varint`, keyspaces by rising name; from version 3 on then count `varint` and by rising node u64 its admin state, not 0; from version 4 on then the cluster version `u8`, at least 2; in version 5 then [`mod@libraries`]. Version 5 only if there are libraries, or scripts were forgotten. Cluster version 1: version 2 if no node has an admin state but 0, else 3 |
//! | keyspace | name `bytes`, id `varint`, options, count `varint`, shard ids `varint` each, count `u8`, nodes u64 each; then, of linear hashing, the record of its [`mod@linear_hash`] |
//! | error | `u8`: 1 bad name, 2 numbered name, 3 exists, 4 not found (each: name `bytes`); 5 too many, 6 out of ids; 7 retention too long (`varint`); 8 bad replicas, 9 needs sync (each: replicas `u8`); 10 fewer replicas (those there are `u8`, those asked for `u8`); 11 node removed (node u64); 12 not draining (node u64, admin state); 13 too few nodes (keyspace `bytes`, replicas `u8`, left `varint`); 14 last node; 15 too many admin states; 16 version skipped (that there is `u8`, that asked for `u8`); 17 version too low (that there is `u8`, that needed `u8`); 18 no table (name `bytes`); 19 the table is at another epoch (name `bytes`, record); 20 library exists, 21 function exists, 22 no library (each: name `bytes`); 23 libraries too large (`varint`); 24 lease too long (`varint`); 25 too many leases; 26 no lease (`varint`); 27 below the safe point (that asked for and the safe point, u64 each); 28 bad volume (bytes and bytes of a block, `varint` each); 29 no volume (name `bytes`); 30 no clone (name `bytes`, why `u8`: 1 no volume, 2 too many, 3 too deep, 4 other blocks); 31 no clone to flatten (name `bytes`); 32 clones need it (name `bytes`, theirs `bytes`); 33 snapshots need its source (name `bytes`) |

mod admin_states;
mod check;
mod codec;
mod error;
pub mod libraries;
pub mod linear_hash;
mod version;
mod volume;

use std::collections::{BTreeMap, BTreeSet};

use crate::arc::Arc;
use crate::cluster_version::{ClusterVersion, Feature};
use crate::ids::{KeyspaceId, NodeId, ShardId};
use crate::leases::{Lease, LeaseOp};
use crate::position::Placement;
use crate::slot::{SLOTS, Slot, slot_of};
use crate::timestamp::Timestamp;

pub use admin_states::{ADMIN_STATES_MAX, AdminState, AdminStates, REMAINING_NODES_MAX};
pub use check::{check_name, check_new_name, check_options, is_made_on_use};
pub use error::CatalogueError;
pub use libraries::{
    Function, FunctionFlags, LIBRARIES_BYTES_MAX, Libraries, Library, LibraryOp, RestorePolicy,
};
pub use linear_hash::{LinearHashOp, LinearHashRecord, LinearHashStep};
pub use volume::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, CLONE_DEPTH_MAX, CLONES_MAX, NoCloneReason, VOLUME_BYTES_MAX,
    VolumeOptions, VolumeOrigin,
};

use check::{check_invariants, check_replicas};

/// The most keyspaces there may be at one time.
pub const KEYSPACES_MAX: usize = 1024;
/// The longest name of a keyspace, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// How many shards a hashed keyspace begins with.
pub const HASHED_SHARDS: u16 = 8;
/// The most replicas a keyspace may ask for.
pub const KEYSPACE_REPLICAS_MAX: u8 = 9;
/// The retention of old versions by default.
pub const RETENTION_MS_DEFAULT: u64 = 60_000;
/// The longest retention of old versions: ten years. The shortest is 0: they may be collected at
/// once. Settings and the command line have the same limits.
pub const RETENTION_MS_MAX: u64 = 10 * 366 * 24 * 3_600_000;

/// What an answer promises about power loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On disk, at a majority, before the answer.
    #[default]
    Sync,
    /// On disk within about 100 ms. One replica only.
    Interval,
    /// Written but not synced: survives a killed process, not power loss. One replica only.
    Memory,
}

/// How a keyspace is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// How its keys are laid out. Cannot be changed later.
    pub placement: Placement,
    /// What an answer promises.
    pub durability: Durability,
    /// How long old versions can still be read, in milliseconds.
    pub retention_ms: u64,
    /// How many replicas each of its shards has: 1, 3, 5, 7 or [`KEYSPACE_REPLICAS_MAX`].
    pub replicas: u8,
    /// Whether a write of the value and expiry that a key has makes no version: the key stays as it
    /// is.
    pub skips_equal: bool,
    /// Of a volume: its size and its blocks.
    pub volume: Option<VolumeOptions>,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self {
            placement: Placement::Hashed,
            durability: Durability::Sync,
            retention_ms: RETENTION_MS_DEFAULT,
            replicas: 1,
            skips_equal: false,
            volume: None,
        }
    }
}

impl KeyspaceOptions {
    /// The cluster version from which on a keyspace may have them.
    pub fn since(&self) -> ClusterVersion {
        let of_equal = match self.skips_equal {
            true => Feature::SkippedWrites.since(),
            false => ClusterVersion::FIRST,
        };
        let of_volume = match self.volume {
            Some(VolumeOptions { is_shared: true, .. }) => Feature::VolumeWriters.since(),
            Some(_) => Feature::Volumes.since(),
            None => ClusterVersion::FIRST,
        };
        self.placement.since().max(of_equal).max(of_volume)
    }
}

/// A change of a keyspace's options. `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceAlteration {
    /// The new durability.
    pub durability: Option<Durability>,
    /// The new retention, in milliseconds.
    pub retention_ms: Option<u64>,
    /// The new number of replicas: not below the one there is.
    pub replicas: Option<u8>,
    /// Whether writes of what a key has make no version from now on.
    pub skips_equal: Option<bool>,
    /// The new size of a volume, in bytes.
    pub volume_bytes: Option<u64>,
    /// Of a clone: it has all blocks of its source from this time on, and needs it no more.
    pub flattened_at: Option<Timestamp>,
}

/// A named set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    /// Its id, with which its positions begin.
    pub id: KeyspaceId,
    /// Its name.
    pub name: Box<str>,
    /// How it is.
    pub options: KeyspaceOptions,
    /// The shards that tile its circle, in order from the origin.
    pub shards: Vec<ShardId>,
    /// Where its shards began: the first replica of each on the first of these nodes, and so on.
    /// Where they are now is in their descriptors.
    pub nodes: Vec<NodeId>,
    /// Of `linear-hash`: the size of its table, and the step under way.
    pub linear_hash_table: Option<LinearHashRecord>,
}

impl Keyspace {
    /// Which of [`Self::shards`] owns a slot of a hashed keyspace. O(1).
    #[inline]
    pub fn index_of_slot(&self, slot: Slot) -> usize {
        usize::from(slot) * self.shards.len() / usize::from(SLOTS)
    }

    /// Which of [`Self::shards`] owns a key. O(key): the slot is computed.
    #[inline]
    pub fn index_of(&self, key: &[u8]) -> usize {
        match self.options.placement {
            Placement::Hashed => self.index_of_slot(slot_of(key)),
            // Invariant 2: one shard owns the whole circle.
            Placement::Ordered | Placement::LinearHash => 0,
        }
    }

    /// The shard that owns a key.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        self.shards[self.index_of(key)]
    }

    /// The arc of the shard at `index` of [`Self::shards`].
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn arc(&self, index: usize) -> Arc {
        assert!(index < self.shards.len(), "keyspace {} has no shard {index}", self.name);
        match self.options.placement {
            Placement::Ordered | Placement::LinearHash => Arc::whole(self.id),
            Placement::Hashed => {
                let cut = |index: usize| (index * usize::from(SLOTS) / self.shards.len()) as Slot;
                Arc::of_slots(self.id, cut(index), cut(index + 1))
            }
        }
    }

    /// Its shards with their arcs, in order from the origin.
    pub fn tiles(&self) -> impl Iterator<Item = (ShardId, Arc)> + '_ {
        self.shards.iter().enumerate().map(|(index, shard)| (*shard, self.arc(index)))
    }
}

/// A change of the catalogue, as an entry of the system shard's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogueOp<'a> {
    /// Makes a keyspace.
    Create {
        /// Its name.
        name: &'a str,
        /// How it is to be.
        options: KeyspaceOptions,
    },
    /// Changes one.
    Alter {
        /// Its name.
        name: &'a str,
        /// What is to be different.
        change: KeyspaceAlteration,
    },
    /// Removes one and all its keys.
    Drop {
        /// Its name.
        name: &'a str,
    },
    /// Gives out the id of a shard that is to be cut off from another one.
    Shard {
        /// Of which keyspace it is to be.
        keyspace: KeyspaceId,
    },
    /// Sets the admin state of a node.
    Node {
        /// Which.
        node: NodeId,
        /// How.
        admin_state: AdminState,
        /// The nodes that are up, as who asks knows them: at most [`REMAINING_NODES_MAX`]. By these
        /// it is judged whether enough are left; the catalogue itself knows no nodes but the odd
        /// ones.
        among: BTreeSet<NodeId>,
    },
    /// Raises the cluster version to this: the next one, which all nodes support.
    RaiseVersion {
        /// The version from then on.
        to: ClusterVersion,
    },
    /// Something is asked of a file of linear hashing ([`mod@linear_hash`]).
    LinearHash {
        /// Whose.
        keyspace: KeyspaceId,
        /// The turn that it is about.
        epoch: u64,
        /// What.
        act: LinearHashOp,
    },
    /// Libraries of functions are changed, or all scripts forgotten.
    Library(LibraryOp<'a>),
    /// Leases on past times are changed. The catalogue does not hold them: the system shard does,
    /// beside the safe points ([`mod@crate::leases`]).
    Lease(LeaseOp),
}

/// What an op was about, as it is then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A keyspace; a dropped one as it was.
    Keyspace(Keyspace),
    /// A node, and how it stands.
    Node(NodeId, AdminState),
    /// A keyspace, and the id of a shard that it may have from now on.
    Shard(KeyspaceId, ShardId),
    /// The cluster version from now on.
    ClusterVersion(ClusterVersion),
    /// The libraries.
    Libraries,
    /// A lease; one that was ended as it was.
    Lease(Lease),
}

/// All keyspaces, by name; the admin states of nodes; the cluster version; and libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    keyspaces: BTreeMap<Box<str>, Keyspace>,
    admin_states: AdminStates,
    cluster_version: ClusterVersion,
    libraries: Libraries,
    next_keyspace: KeyspaceId,
    next_shard: ShardId,
}

impl Default for Catalogue {
    /// Without keyspaces; id 0 is taken by the system's keyspace and shard.
    fn default() -> Self {
        Self {
            keyspaces: BTreeMap::new(),
            admin_states: AdminStates::default(),
            cluster_version: ClusterVersion::FIRST,
            libraries: Libraries::default(),
            next_keyspace: KeyspaceId(1),
            next_shard: ShardId(1),
        }
    }
}

impl Catalogue {
    /// The keyspace of a name.
    pub fn get(&self, name: &str) -> Option<&Keyspace> {
        self.keyspaces.get(name)
    }

    /// The keyspace with an id. O(number of keyspaces).
    pub fn by_id(&self, id: KeyspaceId) -> Option<&Keyspace> {
        self.keyspaces.values().find(|keyspace| keyspace.id == id)
    }

    /// All keyspaces, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Keyspace> {
        self.keyspaces.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keyspaces.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keyspaces.is_empty()
    }

    /// Whether [`Self::create`] would succeed; saves a log entry that changes nothing.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn check_create(
        &self,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<(), CatalogueError> {
        check_name(name)?;
        let is_number = name.parse::<i64>().is_ok_and(|number| name == number.to_string());
        if is_number && !is_made_on_use(name) {
            return Err(CatalogueError::NumberedName { name: name.into() });
        }
        check_options(options)?;
        let needs = options.since();
        if self.cluster_version < needs {
            return Err(CatalogueError::VersionTooLow { version: self.cluster_version, needs });
        }
        if self.keyspaces.contains_key(name) {
            return Err(CatalogueError::Exists { name: name.into() });
        }
        if self.keyspaces.len() >= KEYSPACES_MAX {
            return Err(CatalogueError::TooMany);
        }
        if self.next_keyspace.0 == u32::MAX {
            return Err(CatalogueError::OutOfIds);
        }
        options.volume.map_or(Ok(()), |volume| self.check_clone(name, &volume))
    }

    /// Makes a keyspace with its shards and gives out their ids.
    ///
    /// # Errors
    /// `BadName`, `RetentionTooLong`, `BadReplicas`, `NeedsSync`, `BadVolume`, `VersionTooLow`,
    /// `Exists`, `TooMany`, `OutOfIds`; of a clone `NoClone`, `BelowSafePoint`.
    pub fn create(
        &mut self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<&Keyspace, CatalogueError> {
        self.check_create(name, &options)?;
        let count = match options.placement {
            Placement::Hashed => u64::from(HASHED_SHARDS),
            Placement::Ordered | Placement::LinearHash => 1,
        };
        let (id, first) = (self.next_keyspace, self.next_shard.0);
        self.next_keyspace = KeyspaceId(id.0 + 1);
        self.next_shard = ShardId(first + count);
        let shards = (first..first + count).map(ShardId).collect();
        let linear_hash_table = initial_table(options.placement);
        let nodes = Vec::new();
        let keyspace =
            Keyspace { id, name: name.into(), options, shards, nodes, linear_hash_table };
        Ok(self.keyspaces.entry(name.into()).or_insert(keyspace))
    }

    /// Changes a keyspace.
    ///
    /// # Errors
    /// `NotFound`, `BadReplicas`, `FewerReplicas`, `RetentionTooLong`, `NeedsSync`,
    /// `VersionTooLow`, `NoVolume`, `BadVolume`, `NotClone`, `HasClones`.
    pub fn alter(
        &mut self,
        name: &str,
        change: KeyspaceAlteration,
    ) -> Result<&Keyspace, CatalogueError> {
        let found = self.keyspaces.get(name);
        let keyspace = found.ok_or_else(|| CatalogueError::NotFound { name: name.into() })?;
        let mut options = keyspace.options;
        if let Some(since) = change.flattened_at {
            let clone = options.volume.as_mut().filter(|volume| volume.source().is_some());
            let clone = clone.ok_or_else(|| CatalogueError::NotClone { name: name.into() })?;
            clone.origin = VolumeOrigin::Flattened { since };
            self.check_no_clones(keyspace, since)?;
        }
        options.durability = change.durability.unwrap_or(options.durability);
        options.retention_ms = change.retention_ms.unwrap_or(options.retention_ms);
        options.skips_equal = change.skips_equal.unwrap_or(options.skips_equal);
        if let Some(bytes) = change.volume_bytes {
            let Some(volume) = &mut options.volume else {
                return Err(CatalogueError::NoVolume { name: name.into() });
            };
            volume.bytes = bytes;
        }
        let (version, needs) = (self.cluster_version, options.since());
        if version < needs {
            return Err(CatalogueError::VersionTooLow { version, needs });
        }
        let from = options.replicas;
        // A number that stays is not judged: it may be an even one of old.
        if let Some(to) = change.replicas.filter(|to| *to != from) {
            check_replicas(to)?;
            if to < from {
                return Err(CatalogueError::FewerReplicas { from, to });
            }
            options.replicas = to;
        }
        check_invariants(&options)?;
        let keyspace = self.keyspaces.get_mut(name);
        let keyspace = keyspace.ok_or_else(|| CatalogueError::NotFound { name: name.into() })?;
        keyspace.options = options;
        Ok(keyspace)
    }

    /// Places a keyspace's first shards: on as many of these nodes as it has replicas, or on fewer,
    /// but an odd number. Returns the keyspace, if there is one of that name.
    pub fn place(&mut self, name: &str, nodes: &[NodeId]) -> Option<&Keyspace> {
        let keyspace = self.keyspaces.get_mut(name)?;
        let count = nodes.len().min(usize::from(keyspace.options.replicas));
        // An even number outlives no more failures than one fewer.
        let odd = count - usize::from(count > 0 && count.is_multiple_of(2));
        keyspace.nodes = nodes[..odd].to_vec();
        Some(keyspace)
    }

    /// Whether there was a keyspace of this id, and is none now. The system's is never dropped.
    pub fn has_dropped(&self, id: KeyspaceId) -> bool {
        (1..self.next_keyspace.0).contains(&id.0) && self.by_id(id).is_none()
    }

    /// The ids that the next keyspace and its first shard will get.
    pub fn next_ids(&self) -> (KeyspaceId, ShardId) {
        (self.next_keyspace, self.next_shard)
    }

    /// Reserves ids below these: other nodes have used them, and this catalogue does not know them.
    pub fn reserve_ids(&mut self, (keyspace, shard): (KeyspaceId, ShardId)) {
        self.next_keyspace = self.next_keyspace.max(keyspace);
        self.next_shard = self.next_shard.max(shard);
    }

    /// Removes a keyspace and answers what it was: the caller removes its shards.
    ///
    /// # Errors
    /// `NotFound`, `HasClones`.
    pub fn drop(&mut self, name: &str) -> Result<Keyspace, CatalogueError> {
        if let Some(keyspace) = self.get(name) {
            self.check_no_clones(keyspace, Timestamp::MAX)?;
        }
        let removed = self.keyspaces.remove(name);
        removed.ok_or_else(|| CatalogueError::NotFound { name: name.into() })
    }

    /// Gives out an id for one more shard of a keyspace; whether there will be one is not known
    /// here.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn allocate_shard_id(&mut self, keyspace: KeyspaceId) -> Result<ShardId, CatalogueError> {
        if self.by_id(keyspace).is_none() {
            return Err(CatalogueError::NotFound { name: format!("(id {keyspace})").into() });
        }
        let shard = self.next_shard;
        self.next_shard = ShardId(shard.0 + 1);
        Ok(shard)
    }

    /// Applies a log entry and answers what it was about, as it is now, or was before a drop.
    ///
    /// # Errors
    /// As [`Self::create`], [`Self::alter`], [`Self::drop`], [`Self::allocate_shard_id`],
    /// [`Self::set_admin_state`], [`Self::raise_version`], [`Self::apply_linear_hash`] and
    /// [`Self::apply_library`].
    ///
    /// # Panics
    /// On a change of leases: the catalogue has none.
    pub fn apply(&mut self, op: &CatalogueOp<'_>) -> Result<Subject, CatalogueError> {
        let keyspace = match op {
            CatalogueOp::Create { name, options } => self.create(name, *options).cloned(),
            CatalogueOp::Alter { name, change } => self.alter(name, *change).cloned(),
            CatalogueOp::Drop { name } => self.drop(name),
            CatalogueOp::Shard { keyspace } => {
                return Ok(Subject::Shard(*keyspace, self.allocate_shard_id(*keyspace)?));
            }
            CatalogueOp::Node { node, admin_state, among } => {
                self.set_admin_state(*node, *admin_state, among)?;
                return Ok(Subject::Node(*node, *admin_state));
            }
            CatalogueOp::RaiseVersion { to } => {
                return Ok(Subject::ClusterVersion(self.raise_version(*to)?));
            }
            CatalogueOp::LinearHash { keyspace, epoch, act } => {
                return self.apply_linear_hash(*keyspace, *epoch, *act);
            }
            CatalogueOp::Library(op) => {
                self.apply_library(op)?;
                return Ok(Subject::Libraries);
            }
            CatalogueOp::Lease(_) => unreachable!("the system shard keeps leases by itself"),
        };
        keyspace.map(Subject::Keyspace)
    }
}

/// The file with which a keyspace begins, if it has one.
fn initial_table(placement: Placement) -> Option<LinearHashRecord> {
    (placement == Placement::LinearHash).then_some(LinearHashRecord::FIRST)
}

impl Placement {
    /// The cluster version from which on a keyspace may have it.
    pub const fn since(self) -> ClusterVersion {
        match self {
            Placement::Hashed | Placement::Ordered => ClusterVersion::FIRST,
            Placement::LinearHash => Feature::LinearHash.since(),
        }
    }
}

#[cfg(test)]
mod tests;
