//! Transactions of HTTP clients, as values.

use bytes::Bytes;
use keyspace::Timestamp;

/// Compare, then do the one or the other: all of it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn {
    /// Whose keys it names.
    pub keyspace: String,
    /// What must hold, all of it, …
    pub compare: Vec<Compare>,
    /// … so that this is done, …
    pub then: Vec<TxnOp>,
    /// … and else this.
    pub otherwise: Vec<TxnOp>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The key that is looked at.
    pub key: Bytes,
    /// What must be so.
    pub test: Test,
}

/// What must be so of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// It has a value, or has none.
    Exists(bool),
    /// It has this value.
    Value(Bytes),
    /// Its value was written then; zero: it has none.
    Version(Timestamp),
}

impl Test {
    /// Whether it holds of what was found.
    pub fn holds(&self, found: &TxnResult) -> bool {
        let found = match found {
            TxnResult::Value { value, version } => Some((value, version)),
            _ => None,
        };
        match self {
            Test::Exists(exists) => *exists == found.is_some(),
            Test::Value(wanted) => found.is_some_and(|(value, _)| value == wanted),
            Test::Version(Timestamp::ZERO) => found.is_none(),
            Test::Version(at) => found.is_some_and(|(_, version)| *version == Some(*at)),
        }
    }
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOp {
    /// The value of a key.
    Get {
        /// The key.
        key: Bytes,
    },
    /// A new value for a key.
    Put {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
        /// When it ends, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// No value for a key.
    Delete {
        /// The key.
        key: Bytes,
    },
    /// Adds to the number that a key has.
    Increment {
        /// The key.
        key: Bytes,
        /// What is added.
        by: i64,
    },
    /// A message for a topic of the keyspace.
    Publish {
        /// The topic.
        topic: String,
        /// The message.
        body: Bytes,
    },
    /// Keys in order, with their values; of ordered keyspaces.
    Range {
        /// The first key that may be shown.
        from: Option<Bytes>,
        /// The first key behind those.
        to: Option<Bytes>,
        /// At most so many keys.
        limit: usize,
        /// From high to low.
        reverse: bool,
    },
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnResult {
    /// The key has this value.
    Value {
        /// The value.
        value: Bytes,
        /// When it was written; nothing, if the transaction itself has written it.
        version: Option<Timestamp>,
    },
    /// The key has none.
    Nil,
    /// It has the new value.
    Put,
    /// Whether it had one.
    Deleted(bool),
    /// The sum.
    Number(i64),
    /// The number of the message that was published.
    Published(u64),
    /// Keys in order.
    Range(Vec<TxnPair>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnPair {
    /// The key.
    pub key: Bytes,
    /// Its value.
    pub value: Bytes,
    /// As of [`TxnResult::Value`].
    pub version: Option<Timestamp>,
}

/// The result of a transaction in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnDone {
    /// Whether all conditions held.
    pub succeeded: bool,
    /// What each operation of the branch has come to.
    pub results: Vec<TxnResult>,
}
