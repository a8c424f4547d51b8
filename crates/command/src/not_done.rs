//! Why has a shard not carried out a request? One vocabulary for commands, reads and steps of
//! transactions, from any client or node.

/// Why nothing was done. The asker may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// The shard is not here (any more): look its keyspace up again.
    NoSuchShard,
    /// Everything of the shard that was under way when it was dropped may or may not be done.
    Dropped,
    /// No leader of the shard is known, and the request has timed out.
    NotLeader,
    /// Of a read: the local replica lags too far behind its leader, or was removed. The caller must
    /// fetch from the leader instead.
    ReplicaLagging,
    /// Another leader's entry has taken its place in the log.
    EntryReplaced,
    /// It may have been done, or may be done later: the leader has not answered in time, or a
    /// snapshot has jumped over its place in the log.
    OutcomeUnknown,
    /// Too much is held for the shard's leader already.
    Busy,
    /// The data of a remote shard is more than the asker can take.
    TooLong,
    /// The shard was split, and the keys of the command are not in one half.
    CrossShard,
    /// A transaction has locked a key of it for too long.
    Locked,
    /// The log has no room: free space and try again. Reads go on.
    DiskFull,
}
