//! Where does a key live, and which shard owns that place?
//!
//! A **keyspace** is a named set of keys. Its **placement** turns a key into a **position**, a
//! point on the keyspace's circle. The circle is divided into **arcs**, and each arc belongs to one
//! **shard**. A shard's **descriptor** names its arc and the nodes that hold it. The **catalogue**
//! lists the keyspaces, and the [`cluster_version`] that limits which features may be used.
//! **Timestamps** order what happens to keys.
//!
//! ```text
//!   "user:7" ── placement hashed ──► position 00000003 ‖ 2af1 ‖ "user:7"
//!                                        id          slot      key
//!                                             │
//!          circle of keyspace 3      ┌────────▼─────────┐
//!      ──┬─────────┬─────────┬───────┤ [slot 10240,     ├────┬─────────┬──
//!        │ shard 1 │ shard 2 │  ...  │  slot 12288)     │    │ shard 8 │
//!      ──┴─────────┴─────────┴───────┤ shard 6          ├────┴─────────┴──
//!                                    └──────────────────┘
//! ```
//!
//! # Invariants
//! 1. Ids ([`ids`]) are given out once and never again; 0 belongs to the system keyspace and shard.
//! 2. A position begins with the id of its keyspace: no position lies on two circles.
//! 3. An [`Arc`] is never empty, and equal sets of positions are equal arcs (normal form).
//! 4. The shards of a keyspace in the [`Catalogue`] tile its circle: each position has one owner.
//!
//! # What this crate does not know
//! How to reach an owner (lookups), what a shard agrees on (replication), what keys hold (storage).
//! It has no clock, no I/O and no random numbers but from a seed ([`random`]): everything here is a
//! pure function of its arguments.
//!
//! # Where to start
//! [`position`], then [`arc`], then [`catalogue`]. Bytes on disk are in [`codec`], [`descriptor`]
//! and [`catalogue`], each with a table.

pub mod arc;
pub mod base64;
pub mod catalogue;
pub mod cluster_version;
pub mod codec;
pub mod cut;
pub mod descriptor;
pub mod hash;
pub mod ids;
pub mod leases;
pub mod linear_hash;
pub mod moment;
pub mod position;
pub mod random;
pub mod slot;
pub mod text;
pub mod timestamp;

pub use arc::Arc;
pub use catalogue::{
    AdminState, AdminStates, Catalogue, CatalogueError, CatalogueOp, Durability, Keyspace,
    KeyspaceAlteration, KeyspaceOptions, Libraries, Library, LibraryOp, LinearHashOp,
    LinearHashRecord, LinearHashStep, Subject, VolumeOptions, VolumeOrigin, is_made_on_use,
};
pub use cluster_version::{ClusterVersion, Feature, UnsupportedVersion, VersionRange};
pub use codec::DecodeError;
pub use cut::Cut;
pub use descriptor::Descriptor;
pub use hash::{HashedKey, KeyHasher};
pub use ids::{Generation, KeyspaceId, NodeId, ReplicaId, ShardId};
pub use leases::{Lease, LeaseKind, LeaseOp, Leases};
pub use linear_hash::hash64;
pub use moment::{Moment, SnapshotToken};
pub use position::{Placement, Position};
pub use slot::{SLOTS, Slot, slot_of};
pub use timestamp::{BootNanos, Timestamp};
