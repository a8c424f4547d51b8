//! Where does a key live? Keyspaces, positions on the ring, arcs, descriptors, time stamps.

pub mod hash;
pub mod ids;
pub mod slot;
pub mod timestamp;

pub use hash::{HashedKey, KeyHasher};
pub use ids::{Generation, KeyspaceId, NodeId, ReplicaId, ShardId};
pub use slot::{SLOTS, Slot, slot_of};
pub use timestamp::Timestamp;
