//! The state that a replica has only while it leads.

use std::collections::{BTreeMap, BTreeSet};

use keyspace::{Generation, KeyspaceId, ReplicaId, Timestamp};
use replication::BootNanos;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Leading {
    /// The term that it leads and whose first entry it has applied, or 0.
    pub opened_term: u64,
    /// The horizon that is on its way through the log, if any.
    pub horizon_requested: Timestamp,
    /// In the system shard: the safe points that it has had logged, of all keyspaces.
    pub points_requested: BTreeMap<KeyspaceId, Timestamp>,
    /// In any other: its own safe point that is on its way through the log, at this index or a
    /// later one.
    pub point_requested: (Timestamp, u64),
    /// When the others were last asked to confirm that it leads.
    pub confirm_requested: BootNanos,
    /// The term in which it has had the newest change settled, and the generation then.
    pub settle_requested: Option<(u64, Generation)>,
    /// Replicas that have reported their quarantine.
    pub broken: BTreeSet<ReplicaId>,
}
