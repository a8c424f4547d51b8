//! Why nothing was done.

use keyspace::codec::DecodeError;
use thiserror::Error;

use crate::record::LockRecord;

/// Why a request about a topic or a lock was refused. Nothing was done.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// A name or a setting is not allowed.
    #[error("{why}")]
    Bad {
        /// What is wrong, as a clause.
        why: String,
    },
    /// There is no topic of this name, or it is being deleted.
    #[error("there is no topic {topic:?}")]
    NoTopic {
        /// The name.
        topic: String,
    },
    /// The topic has no group of this name.
    #[error("topic {topic:?} has no group {group:?}")]
    NoGroup {
        /// The topic.
        topic: String,
        /// The group.
        group: String,
    },
    /// There is one already, with other settings.
    #[error("there already is a topic {topic:?}, with other settings")]
    TopicExists {
        /// The name.
        topic: String,
    },
    /// It was deleted, but not all of it is gone yet.
    #[error("topic {topic:?} is being deleted: delete it again to go on with that")]
    Leaving {
        /// The name.
        topic: String,
    },
    /// There are as many as there may be.
    #[error("{why}")]
    TooMany {
        /// Of what, as a clause.
        why: String,
    },
    /// A message is longer than it may be.
    #[error("the message has {bytes} bytes, and may have {bytes_max}")]
    MessageTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Another holds the lock.
    #[error("lock {name:?} is held by {:?}", held.owner)]
    Held {
        /// Its name.
        name: String,
        /// By whom, and until when.
        held: LockRecord,
    },
    /// The lock is not held with this token: its lease has ended, or it was released.
    #[error(
        "lock {name:?} is not held with token {token}: its lease has ended, or it was released"
    )]
    NotHeld {
        /// Its name.
        name: String,
        /// The token.
        token: u64,
    },
    /// Somebody else has written a key of the topic or lock.
    #[error(
        "key {key:?} of the topic or lock has a value of another kind, which somebody else has \
         written: {why}. A topic can be deleted, and made anew"
    )]
    Foreign {
        /// Which key.
        key: String,
        /// What is wrong with it.
        why: DecodeError,
    },
}
