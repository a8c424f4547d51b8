//! Maps the node's refusals to errors of the API.

use api::{ApiError, RequestId};
use command::NotDone;
use keyspace::CatalogueError;

/// Why the catalogue did not answer.
pub(super) fn no_catalogue(why: NotDone) -> ApiError {
    match why {
        NotDone::DiskFull => ApiError::DiskFull,
        _ => ApiError::Busy {
            why: "no node has answered as the leader of the keyspaces' catalogue; nothing was done",
        },
    }
}

/// Why the catalogue did not change.
pub(super) fn refused(error: CatalogueError) -> ApiError {
    match error {
        CatalogueError::Exists { name } => ApiError::KeyspaceExists { name: name.into() },
        CatalogueError::NotFound { name } => ApiError::NoKeyspace { name: name.into() },
        CatalogueError::NoLease { id } => ApiError::NoSnapshot { id },
        CatalogueError::TooManyLeases | CatalogueError::LeaseTooLong { .. } => {
            ApiError::SnapshotRefused { why: error.to_string() }
        }
        CatalogueError::BelowSafePoint { at, safe_point } => {
            ApiError::BelowSafePoint { at, safe_point }
        }
        other => ApiError::BadKeyspace { why: other.to_string() },
    }
}

/// As `event_loop::serve` tells it to connections.
pub(super) const NO_LEADER: &str =
    "no node has answered as the leader of the key's shard; nothing was done";
pub(super) const LOCKED: &str = "transactions kept the key locked; nothing was done";

/// The error of a request that was not done; `id` is of a request that may have changed something.
pub(super) fn not_done(why: NotDone, id: Option<RequestId>) -> ApiError {
    let why = match (why, id) {
        (NotDone::DiskFull, _) => return ApiError::DiskFull,
        (NotDone::Dropped | NotDone::OutcomeUnknown, Some(id)) => return ApiError::Unknown { id },
        (NotDone::NoSuchShard | NotDone::Dropped, _) => return ApiError::KeyspaceDropped,
        (NotDone::NotLeader | NotDone::EntryReplaced | NotDone::OutcomeUnknown, _) => NO_LEADER,
        (NotDone::ReplicaLagging, _) => {
            "the local replica of the key's shard is lagging; nothing was done"
        }
        (NotDone::Busy, _) => {
            "too many requests wait for the leader of the key's shard; nothing was done"
        }
        (NotDone::Locked, _) => LOCKED,
        (NotDone::TooLong, _) => "the request to a remote shard is too long; nothing was done",
        (NotDone::CrossShard, _) => {
            "the shard was split between the request's keys meanwhile; nothing was done"
        }
    };
    ApiError::Busy { why }
}
