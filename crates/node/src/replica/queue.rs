//! Waiting proposals, and the askers to answer.

use keyspace::NodeId;
use replication::BootNanos;

use crate::executor::Origin;
use crate::replica::entry::{Batch, Kind, Waiter};
use crate::routing::session::BatchId;
use txn::wait_queue::StepAsker;

pub(super) enum Queued {
    Batch {
        origin: Origin,
        batch: Batch,
    },
    Operation {
        kind: Kind,
        bytes: Vec<u8>,
        asker: Asker,
    },
    /// Commands with a number: another node's, or (`None`) of `forward`.
    SessionBatch {
        from: Option<NodeId>,
        id: BatchId,
        count: u32,
        bytes: Vec<u8>,
    },
}

impl Queued {
    pub fn len_bytes(&self) -> u64 {
        match self {
            Queued::Batch { batch, .. } => batch.len_bytes() as u64,
            Queued::Operation { bytes, .. } | Queued::SessionBatch { bytes, .. } => {
                bytes.len() as u64
            }
        }
    }

    /// The asker that is waiting for its outcome.
    pub fn into_asker(self) -> Asker {
        match self {
            Queued::Batch { origin, batch } => {
                Asker::Batch { origin, waiters: batch.into_parts().1 }
            }
            Queued::Operation { asker, .. } => asker,
            Queued::SessionBatch { from, id: BatchId { session, sequence, .. }, .. } => {
                Asker::SessionBatch { from, session, sequence }
            }
        }
    }
}

pub(super) struct InFlight {
    pub index: u64,
    pub term: u64,
    pub since: BootNanos,
    pub asker: Asker,
}

pub(super) enum Asker {
    Nobody,
    Batch {
        origin: Origin,
        waiters: Vec<Waiter>,
    },
    Operation {
        origin: Origin,
        waiter: Waiter,
    },
    /// Another node, of the catalogue.
    RemoteOperation {
        node: NodeId,
        number: u64,
    },
    /// Of steps, in their order.
    Steps(Vec<StepAsker>),
    /// Another node, or (`None`) `forward`.
    SessionBatch {
        from: Option<NodeId>,
        session: u64,
        sequence: u64,
    },
}
