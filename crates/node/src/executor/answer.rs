//! What a lane says to those who asked.

use keyspace::{CatalogueError, ShardId, Subject, Timestamp};

use crate::locks::Said;
use crate::replica::Count;
use crate::replica::entry::{Spent, Waiter};
use crate::routing::fetch::{Found, Want};
use command::Reply;

/// Where an answer goes: the driver's number for a connection thread or other asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(pub u32);

/// Who has asked for something, and the number by which it knows what it asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where the answer goes.
    pub origin: Origin,
    /// The caller's number for it.
    pub waiter: Waiter,
}

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
    /// again: what is wanted of the shard is to be fetched
    /// ([`crate::routing::route::Route::must_fetch`]).
    Lags,
    /// Another leader's entry has taken its place in the log.
    Replaced,
    /// It may or may not have been done, or may still be: whoever was asked has not answered in
    /// time, or a snapshot has jumped over its place in the log.
    Unknown,
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

/// What a lane says to those who asked.
#[derive(Debug)]
pub enum Answer {
    /// The commands of a batch are applied; one reply each, in order.
    Applied {
        /// Who asked.
        origin: Origin,
        /// Whom each reply is for, and the batch's memory to be used again.
        spent: Spent,
        /// The replies.
        replies: Vec<Reply>,
    },
    /// Nothing of the batch was done, nor ever will be.
    NotDone {
        /// Who asked.
        origin: Origin,
        /// Who waited.
        waiters: Vec<Waiter>,
        /// Why.
        why: NotDone,
    },
    /// The read may be tried (again).
    Go {
        /// Who asked.
        origin: Origin,
        /// Who waits.
        waiter: Waiter,
    },
    /// What a shard on other nodes holds of what was wanted, when it was asked.
    Fetched {
        /// Who asked.
        origin: Origin,
        /// Who waits.
        waiter: Waiter,
        /// Which shard.
        shard: ShardId,
        /// When, by its leader's clock.
        at: Timestamp,
        /// What was wanted.
        want: Box<Want>,
        /// What was found.
        found: Box<Found>,
    },
    /// What the shard says to a step of a transaction.
    Stepped {
        /// Who asked.
        origin: Origin,
        /// Who waits.
        waiter: Waiter,
        /// This.
        said: Box<Said>,
    },
    /// Who has a shard's log on disk.
    Counted {
        /// Who asked.
        origin: Origin,
        /// Who waits.
        waiter: Waiter,
        /// Who has it.
        count: Count,
    },
    /// What the catalogue said.
    Catalogue {
        /// Who asked.
        origin: Origin,
        /// Who waits.
        waiter: Waiter,
        /// Whether it has changed.
        result: Result<Box<Subject>, CatalogueError>,
    },
}

impl Answer {
    /// Who asked.
    pub fn origin(&self) -> Origin {
        match self {
            Answer::Applied { origin, .. }
            | Answer::NotDone { origin, .. }
            | Answer::Go { origin, .. }
            | Answer::Fetched { origin, .. }
            | Answer::Stepped { origin, .. }
            | Answer::Counted { origin, .. }
            | Answer::Catalogue { origin, .. } => *origin,
        }
    }

    /// Who waits there, in the order of the replies.
    pub fn waiters(&self) -> &[Waiter] {
        match self {
            Answer::Applied { spent, .. } => &spent.waiters,
            Answer::NotDone { waiters, .. } => waiters,
            Answer::Go { waiter, .. }
            | Answer::Fetched { waiter, .. }
            | Answer::Stepped { waiter, .. }
            | Answer::Counted { waiter, .. }
            | Answer::Catalogue { waiter, .. } => std::slice::from_ref(waiter),
        }
    }
}
