//! Why a change of the catalogue was refused.

use thiserror::Error;

use super::{
    ADMIN_STATES_MAX, AdminState, KEYSPACE_REPLICAS_MAX, KEYSPACES_MAX, LIBRARIES_BYTES_MAX,
    LinearHashRecord, NAME_BYTES_MAX, NoCloneReason, RETENTION_MS_MAX, VOLUME_BYTES_MAX,
};
use crate::cluster_version::ClusterVersion;
use crate::ids::NodeId;
use crate::leases::{LEASE_MS_MAX, LEASES_MAX};
use crate::timestamp::Timestamp;

/// Why the catalogue did not change. It is then as it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CatalogueError {
    /// Not a name: 1 to 64 of `A-Z`, `a-z`, `0-9`, `_`, `.` and `-`, and not `.` or `..`.
    #[error(
        "bad keyspace name '{}': 1 to 64 letters, digits, '_', '.' or '-', and not '.' or '..', \
         which clients remove from paths",
        name.chars().take(NAME_BYTES_MAX).collect::<String>().escape_debug()
    )]
    BadName {
        /// What was given.
        name: Box<str>,
    },
    /// A number, which Redis clients could not select.
    #[error(
        "bad keyspace name '{name}': Redis clients can select the numbers 0 to 15 only. Put a \
         letter to it"
    )]
    NumberedName {
        /// What was given.
        name: Box<str>,
    },
    /// There is one of that name.
    #[error("keyspace '{name}' exists")]
    Exists {
        /// Its name.
        name: Box<str>,
    },
    /// There is none of that name.
    #[error("no keyspace '{name}'")]
    NotFound {
        /// What was asked for.
        name: Box<str>,
    },
    /// There are as many as there may be.
    #[error("there are {KEYSPACES_MAX} keyspaces, which is the most there may be")]
    TooMany,
    /// No ids are left to give out.
    #[error("all keyspace ids have been used")]
    OutOfIds,
    /// The retention is too long.
    #[error("retention of {retention_ms} ms is above the limit of {RETENTION_MS_MAX} ms")]
    RetentionTooLong {
        /// What was asked for.
        retention_ms: u64,
    },
    /// The number of replicas is 0, even or too large.
    #[error(
        "{replicas} replicas: must be 1, 3, 5, 7 or {KEYSPACE_REPLICAS_MAX}. An even number \
         survives no more failures than one fewer"
    )]
    BadReplicas {
        /// What was asked for.
        replicas: u8,
    },
    /// More than one replica needs durability `sync` (SAFETY G9).
    #[error(
        "{replicas} replicas need durability sync: only a keyspace of one replica may have less"
    )]
    NeedsSync {
        /// How many replicas.
        replicas: u8,
    },
    /// The number of replicas was to become smaller.
    #[error(
        "{from} replicas cannot become {to}: the number can be raised, lowering it comes later"
    )]
    FewerReplicas {
        /// How many there are.
        from: u8,
        /// What was asked for.
        to: u8,
    },
    /// The node is removed, which is for ever.
    #[error("node {:016x} was removed, which is for good: its id is never used again", .node.0)]
    NodeRemoved {
        /// Which.
        node: NodeId,
    },
    /// Only who is draining can be removed: until then replicas may come to it.
    #[error(
        "node {:016x} is {}: only a draining node can be removed",
        .node.0, .admin_state.word()
    )]
    NotDraining {
        /// Which.
        node: NodeId,
        /// How it stands.
        admin_state: AdminState,
    },
    /// Too few nodes would be left to hold what a keyspace promises.
    #[error(
        "keyspace '{keyspace}' keeps {replicas} replicas, and only {left} nodes would be left that \
         take any"
    )]
    TooFewNodes {
        /// The one that asks for most.
        keyspace: Box<str>,
        /// How many replicas it has.
        replicas: u8,
        /// Nodes that would still take replicas.
        left: u64,
    },
    /// No node would be left that takes replicas.
    #[error("no node would be left that takes replicas")]
    LastNode,
    /// The catalogue has the most admin states that it may have.
    #[error("{ADMIN_STATES_MAX} nodes are cordoned, draining or removed, the most there may be")]
    TooManyAdminStates,
    /// The cluster version was to rise by more than one.
    #[error("the cluster version is {from}, and {to} is not the next one")]
    VersionSkipped {
        /// The one there is.
        from: ClusterVersion,
        /// What was asked for.
        to: ClusterVersion,
    },
    /// The cluster version does not allow it yet.
    #[error("the cluster version is {version}, and this needs {needs}: see `carillon upgrade`")]
    VersionTooLow {
        /// The one there is.
        version: ClusterVersion,
        /// The one that is needed.
        needs: ClusterVersion,
    },
    /// The keyspace is not one of linear hashing.
    #[error("keyspace '{name}' has no file of linear hashing")]
    NotLinearHash {
        /// Its name.
        name: Box<str>,
    },
    /// The table of a keyspace is at another epoch than the proposer knew.
    #[error(
        "the linear-hash table of keyspace '{name}' has {record}, which this change does not expect"
    )]
    StaleTableEpoch {
        /// The keyspace's name.
        name: Box<str>,
        /// How it is.
        record: LinearHashRecord,
    },
    /// There is a library of that name.
    #[error("Library '{name}' already exists")]
    LibraryExists {
        /// Its name.
        name: Box<str>,
    },
    /// Another library has a function of that name.
    #[error("Function {name} already exists")]
    FunctionExists {
        /// Its name.
        name: Box<str>,
    },
    /// There is no library of that name.
    #[error("Library not found")]
    NoLibrary {
        /// What was asked for.
        name: Box<str>,
    },
    /// All libraries would take too many bytes.
    #[error("the libraries would take {bytes} bytes, and may take {LIBRARIES_BYTES_MAX}")]
    LibrariesTooLarge {
        /// How many.
        bytes: u64,
    },
    /// A lease would last for no time, or too long.
    #[error("a lease of {ttl_ms} ms: it lasts from 1 to {LEASE_MS_MAX} ms, and can be renewed")]
    LeaseTooLong {
        /// For how long.
        ttl_ms: u64,
    },
    /// There are as many leases as there may be.
    #[error(
        "there are {LEASES_MAX} snapshots, which is the most there may be; release one, or wait \
         until one ends"
    )]
    TooManyLeases,
    /// There is no such lease, or it has ended.
    #[error("no snapshot {id}: it was released, or has ended")]
    NoLease {
        /// Which.
        id: u64,
    },
    /// What was visible then may have been collected.
    #[error("versions at {at:?} are gone; the oldest readable time is {safe_point:?}")]
    BelowSafePoint {
        /// The time that was asked for.
        at: Timestamp,
        /// The safe point of a keyspace.
        safe_point: Timestamp,
    },
    /// A volume's size, blocks or durability are not allowed.
    #[error(
        "a volume of {bytes} bytes in blocks of {block_bytes}: blocks have 4096 to 65536 bytes, a \
         power of two; the size is a whole number of them, at most {VOLUME_BYTES_MAX}; and the \
         durability is sync"
    )]
    BadVolume {
        /// Its size.
        bytes: u64,
        /// The bytes of a block.
        block_bytes: u32,
    },
    /// The keyspace is not a volume.
    #[error("keyspace '{name}' is not a volume")]
    NoVolume {
        /// Its name.
        name: Box<str>,
    },
    /// The volume that a clone is to be made of cannot be cloned.
    #[error("there is no clone '{name}': its source cannot be cloned: {why}")]
    NoClone {
        /// What the clone was to be called.
        name: Box<str>,
        /// Why.
        why: NoCloneReason,
    },
    /// The keyspace is no clone, so it cannot be flattened.
    #[error("keyspace '{name}' is not a clone of a volume")]
    NotClone {
        /// Its name.
        name: Box<str>,
    },
    /// Clones read blocks of the volume.
    #[error("volume '{name}' is the source of clones: {by}; flatten or delete them first")]
    HasClones {
        /// Its name.
        name: Box<str>,
        /// Their names.
        by: Box<str>,
    },
    /// Snapshots of a clone need its source.
    #[error("snapshots of clone '{name}' need its source; release them first")]
    HasSnapshots {
        /// Its name.
        name: Box<str>,
    },
}
