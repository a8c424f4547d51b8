//! An executor's answers to its callers.

use keyspace::{CatalogueError, ShardId, Subject, Timestamp};

use crate::replica::Count;
use crate::replica::entry::{Spent, Waiter};
use crate::routing::fetch::{FetchRequest, FetchResult};
use command::{NotDone, Reply};
use txn::locks::StepReply;

/// Where an answer goes: the driver's number for a connection thread or other asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(pub u32);

/// The sender of a request, and its number for that request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where the answer goes.
    pub origin: Origin,
    /// The caller's number for it.
    pub waiter: Waiter,
}

/// An executor's answer to its callers.
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
        /// The shard that has applied them.
        shard: ShardId,
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
    Retry {
        /// Who asked.
        origin: Origin,
        /// Who waits.
        waiter: Waiter,
    },
    /// The result of a fetch from a remote shard.
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
        want: Box<FetchRequest>,
        /// What was found.
        found: Box<FetchResult>,
    },
    /// The shard's reply to a step of a transaction.
    StepDone {
        /// Who asked.
        origin: Origin,
        /// Who waits.
        waiter: Waiter,
        /// This.
        reply: Box<StepReply>,
    },
    /// Which replicas have a shard's log on disk.
    ReplicaCount {
        /// Who asked.
        origin: Origin,
        /// Who waits.
        waiter: Waiter,
        /// Who has it.
        count: Count,
    },
    /// The catalogue's reply.
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
    /// The caller that gets the answer.
    pub fn origin(&self) -> Origin {
        match self {
            Answer::Applied { origin, .. }
            | Answer::NotDone { origin, .. }
            | Answer::Retry { origin, .. }
            | Answer::Fetched { origin, .. }
            | Answer::StepDone { origin, .. }
            | Answer::ReplicaCount { origin, .. }
            | Answer::Catalogue { origin, .. } => *origin,
        }
    }

    /// The waiters, in the order of the replies.
    pub fn waiters(&self) -> &[Waiter] {
        match self {
            Answer::Applied { spent, .. } => &spent.waiters,
            Answer::NotDone { waiters, .. } => waiters,
            Answer::Retry { waiter, .. }
            | Answer::Fetched { waiter, .. }
            | Answer::StepDone { waiter, .. }
            | Answer::ReplicaCount { waiter, .. }
            | Answer::Catalogue { waiter, .. } => std::slice::from_ref(waiter),
        }
    }
}
