//! Why has a shard not done what it was asked? One vocabulary for commands, reads and steps of
//! transactions, whoever asked and however it reached the shard.

/// Why nothing was done. The asker may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// The shard is not here (any more): look its keyspace up again.
    NoSuchShard,
    /// Everything of the shard that was under way when it was dropped may or may not be done.
    Dropped,
    /// Nobody is known to lead the shard, and the time for the request is over.
    NotLeader,
    /// Of a read: the replica here lacks too much of what its leader has told, or has gone. Look
    /// again: what is wanted of the shard is to be fetched.
    ReplicaLagging,
    /// Another leader's entry has taken its place in the log.
    EntryReplaced,
    /// It may or may not have been done, or may still be: whoever was asked has not answered in
    /// time, or a snapshot has jumped over its place in the log.
    OutcomeUnknown,
    /// Too much is held for the shard's leader already.
    Busy,
    /// What was wanted of a shard on other nodes is more than who asked can take.
    TooLong,
    /// The shard was cut in two, and the keys of the command are not in one half.
    CrossShard,
    /// A transaction has locked a key of it for too long.
    Locked,
    /// The log has no room: free space and try again. Reads go on.
    DiskFull,
}
