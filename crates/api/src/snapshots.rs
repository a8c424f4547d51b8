//! Snapshots: past times that are kept readable, and what holds safe points.

use keyspace::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A time that a client names may be so far ahead: then the request waits for it. Clocks of nodes
/// differ by as much before anybody is told so.
pub const AHEAD_MS_MAX: u64 = 500;
/// The most keys of one request for several.
pub const GET_MANY_KEYS_MAX: usize = 1024;

/// A snapshot that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSpec {
    /// Its keyspaces; none: all that there are.
    pub keyspaces: Vec<String>,
    /// Its time; none: a time at or above all that was acknowledged before the request.
    pub at: Option<Timestamp>,
    /// For how long it is kept, in ms.
    pub ttl_ms: u64,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotInfo {
    /// Its name, which every read takes as a time.
    pub token: String,
    /// Its number.
    pub id: u64,
    /// Its keyspaces, by name.
    pub keyspaces: Vec<String>,
    /// Its time, as digits.
    pub at: String,
    /// The same, in milliseconds since 1970.
    pub at_ms: u64,
    /// When it ends unless it is renewed, in milliseconds since 1970.
    pub ends_at_ms: u64,
}

/// What holds a safe point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SafePointHold {
    /// The keyspace's retention.
    Retention,
    /// A snapshot.
    Snapshot,
    /// A change feed that is behind.
    Feed,
}

/// What a snapshot keeps below a safe point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PinnedTime {
    /// The snapshot.
    pub snapshot: u64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Bytes of versions on the node that was asked that only this time keeps: they go when its
    /// last snapshot is released.
    pub bytes: u64,
}

/// From when on a keyspace can be read, and what holds that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SafePointInfo {
    /// The keyspace's name.
    pub keyspace: String,
    /// The oldest time that can be read, as digits.
    pub safe_point: String,
    /// The same, in milliseconds since 1970.
    pub safe_point_ms: u64,
    /// How long versions can be read, in ms.
    pub retention_ms: u64,
    /// What holds it.
    pub held_by: SafePointHold,
    /// Which lease of a snapshot or a feed does, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub snapshot: Option<u64>,
    /// How high it may rise now, in milliseconds since 1970.
    pub may_rise_to_ms: u64,
    /// Bytes of old versions on the node that was asked.
    pub old_bytes: u64,
    /// About how many of these only that lease holds: they go when it ends.
    #[serde(default)]
    pub held_bytes: u64,
    /// How many of them only snapshots keep, below the safe point.
    #[serde(default)]
    pub pinned_bytes: u64,
    /// Those snapshots, by time.
    #[serde(default)]
    pub pinned: Vec<PinnedTime>,
}
