//! Ids that are never reused, each with its own type.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $int);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A running process with its directory. Drawn at random when the directory is made.
    NodeId(u64)
);
id!(
    /// A keyspace. Given out by the catalogue, counting up; 0 is the system keyspace.
    KeyspaceId(u32)
);
id!(
    /// A shard, unique in the cluster. Given out by the catalogue, counting up; 0 is the system
    /// shard.
    ShardId(u64)
);
id!(
    /// One node's member of a shard, unique in the shard; the Raft id of that member (SAFETY G9).
    ReplicaId(u64)
);
id!(
    /// How often a descriptor has changed: raised by every split, merge and replica change.
    Generation(u64)
);
