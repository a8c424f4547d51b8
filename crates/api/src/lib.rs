//! The API of a node beside the hot path: the trait [`NodeService`], and its types on the wire.
//!
//! HTTP, or another protocol later, asks through [`NodeService`]; crate `server` implements it.
//! Nothing here blocks: an answer that takes a while comes through a callback that is called once.
//!
//! ```text
//!   HTTP thread ── call(id, "orders", Put …, done) ──► NodeService ──► executor of the key's shard
//!        ▲                                                                   │
//!        └──────────────── done(Ok(Answer) | Err(ApiError)) ◄────────────────┘
//! ```
//!
//! Every error is of one of two kinds (SAFETY G10): nothing was done, or the outcome is unknown;
//! [`ApiError::outcome`] says which. The types with `Serialize` are for the wire only: cores have
//! others, and the server translates.
//!
//! But for [`http`], it knows neither HTTP nor the layout of JSON.

mod cluster;
mod cluster_version;
mod condition;
mod decisions;
pub mod dev;
mod drain;
mod error;
pub mod events;
pub mod feeds;
mod history;
pub mod http;
pub mod inquiry;
mod keys;
mod keyspaces;
mod locks;
mod metrics;
mod metrics_summary;
pub mod nearest;
mod prove;
mod routes;
mod snapshots;
mod topic_service;
mod topics;
mod txn;
mod volumes;

use bytes::Bytes;
use keyspace::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use cluster::{
    AdminState, ClusterStatus, Health, NodeAddresses, NodeAdminState, NodeState, NodeStatus, Nodes,
    Overview, ReplicaRole, ReplicaStatus, SHARDS_PAGE_MAX, ShardLoad, ShardStatus, Shards,
    ShardsQuery, SilentNode, SnapshotStatus, Verdict,
};
pub use cluster_version::{ClusterVersionStatus, NodeVersions};
pub use condition::Condition;
pub use decisions::{
    CutAt, DecisionNode, DecisionOutcomeStatus, DecisionStatus, Decisions, Deviation, MergeStatus,
    SplitStatus,
};
pub use drain::{DRAIN_SHARDS_MAX, DrainRate, DrainState, DrainStatus, DrainWait, DrainingShard};
pub use error::{ApiError, Outcome};
pub use history::{HISTORY_PAGE_MAX, History, HistoryQuery, KeyChange};
pub use keys::{KEYS_PAGE_MAX, KeysPage, KeysQuery};
pub use keyspaces::{Durability, KeyspaceChange, KeyspaceInfo, KeyspaceSpec, Placement};
pub use locks::{LOCKS_PAGE_MAX, LockInfo, LockSpec};
pub use metrics::{Family, Histogram, Kind, Metrics, Sample};
pub use metrics_summary::{HistogramSummary, LinkSummary, MetricsSummary, NodeMetrics};
pub use prove::{FailingSet, PROVE_SHARDS_MAX, Survivability, Survive};
pub use routes::{RouteStatus, RouteStep};
pub use snapshots::{
    AHEAD_MS_MAX, GET_MANY_KEYS_MAX, PinnedTime, SafePointHold, SafePointInfo, SnapshotInfo,
    SnapshotSpec,
};
pub use topic_service::TopicService;
pub use topics::{
    Acknowledged, GroupInfo, GroupSpec, GroupStart, MessageOrigin, TakenMessages, TopicInfo,
    TopicMessage, TopicSpec,
};
pub use txn::{Compare, Test, Txn, TxnDone, TxnOp, TxnPair, TxnResult};
pub use volumes::{CloneInfo, CloneSpec, Flattened, VolumeSpec};

use events::{Wake, WatchRequest, Watching};
use feeds::{FeedRequest, Feeding};
use overlay::LookupChoice;

/// Called once with the answer, from any thread. If it is dropped uncalled, the client gets the
/// answer that the outcome of the write is unknown.
pub type Done<T> = Box<dyn FnOnce(Result<T, ApiError>) + Send>;

/// A running node, as the API sees it.
pub trait NodeService: TopicService + Send + Sync + 'static {
    /// Does one command. `id` names the request in logs and in [`ApiError::Unknown`].
    fn call(&self, id: RequestId, keyspace: &str, command: Command, done: Done<Answer>);
    /// Does a transaction that is one request.
    fn transact(&self, id: RequestId, txn: Txn, done: Done<TxnDone>);
    /// Begins a transaction that a client runs request by request; it ends when no request comes
    /// for so long. Returns its name.
    fn txn_begin(&self, keyspace: &str, timeout_ms: u64, done: Done<String>);
    /// Runs operations of an open transaction, on its copy. They stop at the first that is refused.
    fn txn_run(&self, txn: &str, ops: Vec<TxnOp>, done: Done<Vec<TxnResult>>);
    /// Commits a transaction: all writes, if nothing that it has read has changed. It is over in
    /// any case.
    fn txn_commit(&self, id: RequestId, txn: &str, done: Done<()>);
    /// Ends it; nothing is done.
    ///
    /// # Errors
    /// [`ApiError::NoTransaction`].
    fn txn_rollback(&self, txn: &str) -> Result<(), ApiError>;
    /// All keyspaces, by name.
    fn keyspaces(&self) -> Vec<KeyspaceInfo>;
    /// One; [`ApiError::NoKeyspace`] if there is none of that name, [`ApiError::Loading`] if the
    /// node starts and does not know yet.
    fn keyspace(&self, name: &str) -> Result<KeyspaceInfo, ApiError>;
    /// Makes a keyspace; [`ApiError::KeyspaceExists`] if there is one of that name.
    fn keyspace_create(&self, spec: KeyspaceSpec, done: Done<KeyspaceInfo>);
    /// Changes what `change` names and nothing else.
    fn keyspace_alter(&self, name: &str, change: KeyspaceChange, done: Done<KeyspaceInfo>);
    /// Makes a volume that shares its blocks with another one as of a time.
    fn volume_clone(&self, _source: &str, _spec: CloneSpec, done: Done<KeyspaceInfo>) {
        done(Err(no_volumes()));
    }
    /// Copies some of the blocks that a clone shares with its source; after the last of them it
    /// needs its source no more.
    fn volume_flatten(&self, _id: RequestId, _name: &str, done: Done<Flattened>) {
        done(Err(no_volumes()));
    }
    /// Removes a keyspace with all its keys.
    fn keyspace_drop(&self, name: &str, done: Done<()>);
    /// Keys of a keyspace, page by page. A key that is there throughout is shown at least once;
    /// [`ApiError::BadCursor`] if no page of the keyspace begins there.
    fn keys(&self, keyspace: &str, asked: KeysQuery, done: Done<KeysPage>);
    /// The values of several keys as of a past time: all of one cut.
    fn get_many(
        &self,
        _keyspace: &str,
        _keys: Vec<Bytes>,
        _at: Timestamp,
        done: Done<Vec<Answer>>,
    ) {
        done(Err(no_snapshots()));
    }
    /// The cluster's id, if it has one.
    fn cluster_id(&self) -> Option<u64> {
        None
    }
    /// Takes a snapshot: keeps a time readable.
    fn snapshot_take(&self, _spec: SnapshotSpec, done: Done<SnapshotInfo>) {
        done(Err(no_snapshots()));
    }
    /// Those that are kept.
    fn snapshots(&self, done: Done<Vec<SnapshotInfo>>) {
        done(Err(no_snapshots()));
    }
    /// Keeps one for so long from now on; [`ApiError::NoSnapshot`] if there is none of this number.
    fn snapshot_renew(&self, _id: u64, _ttl_ms: u64, done: Done<SnapshotInfo>) {
        done(Err(no_snapshots()));
    }
    /// Keeps one no longer.
    fn snapshot_release(&self, _id: u64, done: Done<()>) {
        done(Err(no_snapshots()));
    }
    /// From when on keyspaces can be read, and what holds that.
    fn safe_points(&self, done: Done<Vec<SafePointInfo>>) {
        done(Err(no_snapshots()));
    }
    /// Asks that the safe points of keyspaces (of all, if none is named) rise to a time, or as far
    /// as snapshots let them. Answers as [`Self::safe_points`], as it was before.
    fn collect(&self, _keyspaces: Vec<String>, _at: Timestamp, done: Done<Vec<SafePointInfo>>) {
        done(Err(no_snapshots()));
    }
    /// The changes of a key, a page of them, the newest first.
    fn history(&self, keyspace: &str, key: Bytes, asked: HistoryQuery, done: Done<History>);
    /// The route to the owner of a key, by each of these lookups; hop by hop, if traced. None for a
    /// keyspace that is only created when it is used.
    fn route(
        &self,
        keyspace: &str,
        key: &[u8],
        ways: &[LookupChoice],
        is_traced: bool,
        done: Done<Vec<RouteStatus>>,
    );
    /// The node's time: milliseconds since 1970, never stepped back (SAFETY G12).
    fn now_millis(&self) -> u64;
    /// Why the node does not serve yet, or any more; `None` if it does.
    fn not_ready(&self) -> Option<String>;
    /// How the node is.
    fn status(&self) -> Status;
    /// All members of the cluster, this node among them.
    fn nodes(&self) -> Nodes;
    /// Sets the admin state of a node, named by its id or name. A node that no running node knows
    /// is accepted only with `unknown_too`.
    fn set_admin_state(
        &self,
        id: RequestId,
        node: &str,
        admin_state: AdminState,
        unknown_too: bool,
        done: Done<NodeAdminState>,
    );
    /// Shards that this node knows, a page of them; [`ApiError::NoKeyspace`] if there is no
    /// keyspace of that name.
    fn shards(&self, asked: &ShardsQuery<'_>) -> Result<Shards, ApiError>;
    /// The same page as the leaders of its shards know them, where they answer in time.
    fn shards_of_cluster(&self, asked: &ShardsQuery<'_>, done: Done<Shards>) {
        done(self.shards(asked));
    }
    /// Splits a shard at a slot or key, or in its middle.
    fn split(&self, shard: u64, at: Option<CutAt>, done: Done<SplitStatus>);
    /// Merges a shard with its right neighbour.
    fn merge(&self, shard: u64, done: Done<MergeStatus>);
    /// The cluster version, and which versions its nodes support.
    fn cluster_version(&self) -> ClusterVersionStatus;
    /// Raises it: to the next one, unless another is named.
    fn raise_version(&self, id: RequestId, to: Option<u8>, done: Done<ClusterVersionStatus>);
    /// Decisions of the node about the shards that it leads; or, with `dry`, those that the
    /// balancer would make now.
    fn decisions(&self, dry: bool) -> Decisions;
    /// Those of all nodes, where they answer in time.
    fn decisions_of_cluster(&self, dry: bool, done: Done<Decisions>) {
        done(Ok(self.decisions(dry)));
    }
    /// Begins a stream of events. `wake` is called when there is something to take.
    ///
    /// # Errors
    /// [`ApiError::NoKeyspace`], [`ApiError::TooManyViewers`], [`ApiError::VersionRefused`] if not
    /// all nodes can tell their events, [`ApiError::Stopping`].
    fn watch(&self, asked: &WatchRequest, wake: Wake) -> Result<Watching, ApiError>;
    /// Begins a change feed. `wake` is called when there is something to take.
    fn feed(&self, _asked: FeedRequest, _wake: Wake, done: Done<Feeding>) {
        done(Err(no_snapshots()));
    }
    /// What the node counts.
    fn metrics(&self) -> Metrics;
    /// The same, in short.
    fn metrics_summary(&self) -> MetricsSummary {
        let Status { node_id, name, uptime_ms, .. } = self.status();
        MetricsSummary::new(node_id, name, self.now_millis(), uptime_ms, &self.metrics())
    }
    /// What all nodes count, where they answer in time; this one is the first.
    fn metrics_of_cluster(&self, done: Done<NodeMetrics>) {
        done(Ok(NodeMetrics { nodes: vec![self.metrics_summary()], silent: Vec::new() }));
    }
}

/// For services that are no nodes.
fn no_volumes() -> ApiError {
    ApiError::BadKeyspace { why: "a simulation has no volumes".to_owned() }
}

fn no_snapshots() -> ApiError {
    ApiError::SnapshotRefused { why: "a simulation keeps no snapshots".to_owned() }
}

/// Names one request of this node: the process that took it, and its number there (SAFETY G10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// Drawn when the process started.
    pub incarnation: u64,
    /// Counts up.
    pub sequence: u64,
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}-{}", self.incarnation, self.sequence)
    }
}

/// A command that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The value of a key.
    Get {
        /// The key.
        key: Bytes,
        /// As of then; newest if not given.
        at: Option<Timestamp>,
        /// The newest may be so old, in ms: then the answer is [`Answer::StaleValue`].
        stale_ms: Option<u64>,
    },
    /// A new value for a key.
    Put {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
        /// When it ends, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
        /// What must be so for it to be done.
        when: Condition,
    },
    /// No value for a key.
    Delete {
        /// The key.
        key: Bytes,
        /// What must be so for it to be done.
        when: Condition,
    },
}

impl Command {
    /// The key that it is about.
    pub fn key(&self) -> &[u8] {
        let (Command::Get { key, .. } | Command::Put { key, .. } | Command::Delete { key, .. }) =
            self;
        key
    }

    /// How many bytes it writes, if it does.
    pub fn written_bytes(&self) -> Option<usize> {
        match self {
            Command::Get { .. } => None,
            Command::Put { key, value, .. } => Some(key.len() + value.len()),
            Command::Delete { key, .. } => Some(key.len()),
        }
    }

    /// Whether it may change anything.
    pub fn is_write(&self) -> bool {
        match self {
            Command::Get { .. } => false,
            Command::Put { .. } | Command::Delete { .. } => true,
        }
    }
}

/// What a command answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value, as of the time asked for.
    Value {
        /// The value.
        value: Bytes,
        /// When it was written.
        timestamp: Timestamp,
        /// When it ends, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// What there was so many milliseconds ago, or later.
    StaleValue {
        /// How old it is at most, in ms.
        age_ms: u64,
        /// What there was.
        answer: Box<Answer>,
    },
    /// There is no value.
    Nil,
    /// There was no value at the time asked for, but one came later.
    NilYet,
    /// The put or the delete took place.
    Written {
        /// When, if the node knows it.
        timestamp: Option<Timestamp>,
    },
    /// The condition of the write did not hold; nothing was done.
    ConditionFailed,
    /// The key to delete had no value; nothing was done.
    NothingToDelete,
}

/// A part of the API that not every server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// `/v1/events`: what happens, as it happens.
    Events,
    /// `scope=cluster`: the asked node asks the others.
    Cluster,
    /// `/v1/keys`: keys page by page.
    Keys,
    /// `/v1/history`: the changes of a key.
    History,
    /// `/v1/prove`: what the cluster may lose.
    Prove,
    /// `/v1/dev`: the nodes of `carillon dev`.
    Dev,
    /// `/v1/sim`: the cluster is simulated.
    Sim,
}

impl Surface {
    /// Its name in [`Status::surfaces`].
    pub fn name(self) -> &'static str {
        match self {
            Surface::Events => "events",
            Surface::Cluster => "cluster",
            Surface::Keys => "keys",
            Surface::History => "history",
            Surface::Prove => "prove",
            Surface::Dev => "dev",
            Surface::Sim => "sim",
        }
    }

    /// The names of these.
    pub fn names(all: &[Surface]) -> Vec<String> {
        all.iter().map(|surface| surface.name().to_owned()).collect()
    }
}

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its id, in hexadecimal: JSON's numbers do not hold 64 bits everywhere.
    pub node_id: String,
    /// The program's version.
    pub version: String,
    /// Whether it serves.
    pub ready: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub not_ready: Option<String>,
    /// Whether all is well, as this node sees it.
    pub health: Health,
    /// The cluster in numbers.
    pub cluster: ClusterStatus,
    /// The cluster version, and which versions its nodes support.
    #[serde(rename = "level", default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cluster_version: Option<ClusterVersionStatus>,
    /// How long the process has run.
    pub uptime_ms: u64,
    /// Where it listens.
    pub listeners: Vec<ListenerStatus>,
    /// Its data directory.
    pub dir: String,
    /// How many event loops it has.
    pub threads: u64,
    /// Clients connected now, by Redis and native protocol.
    pub connections: u64,
    /// How many keyspaces there are.
    pub keyspaces: u64,
    /// How many shards there are.
    pub shards: u64,
    /// How many keys there are in all keyspaces.
    pub keys: u64,
    /// Its memory.
    pub memory: MemoryStatus,
    /// Its log.
    pub log: LogStatus,
    /// What was found in the data directory at start, in words.
    pub recovered: String,
    /// What to know before relying on this node.
    pub warnings: Vec<String>,
    /// Parts of the API that not every server has, and this one has: `events`, `cluster` (answers
    /// for all nodes), `keys`, `history`, `prove`, `dev`, `sim`.
    #[serde(default)]
    #[schema(required = true)]
    pub surfaces: Vec<String>,
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListenerStatus {
    /// `resp`, `native` or `http`.
    pub protocol: String,
    /// Address as bound.
    pub address: String,
}

/// What data takes in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryStatus {
    /// Keys and values, all versions, and what keeps them.
    pub used_bytes: u64,
    /// Of that, replaced versions kept for retention.
    pub old_versions_bytes: u64,
    /// `memory_max`.
    pub max_bytes: u64,
}

/// What data takes on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogStatus {
    /// All files of the log.
    pub bytes: u64,
    /// How many files.
    pub segments: u64,
    /// Of `bytes`, what came since the last checkpoint.
    pub bytes_since_checkpoint: u64,
    /// When the last checkpoint was finished, in milliseconds since 1970; 0 = never.
    pub checkpoint_at_ms: u64,
}
