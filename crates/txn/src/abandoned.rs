//! Transactions whose coordinator seems to be gone.

use keyspace::KeyspaceId;

use crate::locks::TxnId;

/// A transaction that somebody must finish
/// ([`Coordinator::finish`](crate::coordinator::Coordinator::finish)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedTxn {
    /// Of which keyspace.
    pub keyspace: KeyspaceId,
    /// Which.
    pub id: TxnId,
    /// The key of its record.
    pub record: Box<[u8]>,
    /// Keys of the shard that it has locked, some maybe twice; none if only its record is there.
    pub keys: Vec<Box<[u8]>>,
}
