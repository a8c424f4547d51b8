//! Wire types of the cluster: nodes, shards, health.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DrainRate;

/// The health verdict, in one word.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All is well.
    #[default]
    Ok,
    /// All requests can be done, or all but some that ask for room; a further failure may end that.
    Degraded,
    /// Some requests cannot be done now.
    Failing,
}

impl Verdict {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Degraded => "degraded",
            Verdict::Failing => "failing",
        }
    }
}

/// How things are, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// In one word.
    pub verdict: Verdict,
    /// Why it is not `ok`, the worst first: a sentence each.
    pub reasons: Vec<String>,
}

/// The cluster in numbers, as this node sees it: what all that speak of it draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Members that are up, this node among them.
    pub members_up: u64,
    /// Of these, suspected ones.
    pub members_suspected: u64,
    /// Members that are down.
    pub members_down: u64,
    /// Replicas here.
    pub shards: u64,
    /// Of these, those that lead.
    pub shards_led: u64,
    /// Of these, those that know no leader, or are elected and get nothing done.
    pub shards_without_leader: u64,
    /// Of these, those with fewer live voters than wanted.
    pub shards_under_replicated: u64,
    /// Other nodes that are up and hold something that this one holds too.
    pub companions: u64,
    /// Keys and values of all replicas here, in bytes.
    pub data_bytes: u64,
    /// The worst of all.
    pub verdict: Verdict,
}

impl Default for Overview {
    /// A node alone, of which nothing else is known.
    fn default() -> Self {
        Self {
            members_up: 1,
            members_suspected: 0,
            members_down: 0,
            shards: 0,
            shards_led: 0,
            shards_without_leader: 0,
            shards_under_replicated: 0,
            companions: 0,
            data_bytes: 0,
            verdict: Verdict::Ok,
        }
    }
}

/// The cluster in numbers, as `/v1/status` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// Its id, in hexadecimal.
    pub id: String,
    /// Members that answer; this node is one.
    pub members_up: u64,
    /// Of these, members that did not answer lately.
    pub members_suspected: u64,
    /// Members that are dead, paused or cut off.
    pub members_down: u64,
    /// Shards that this node leads.
    pub shards_led: u64,
    /// Shards of which this node has a replica and knows no leader, or is elected to be and cannot.
    pub shards_without_leader: u64,
    /// Shards of which this node has a replica, and which have fewer live replicas than their
    /// keyspace asks for.
    pub shards_under_replicated: u64,
}

/// Whether a node is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It answers.
    Up,
    /// It did not answer lately, and may still.
    Suspected,
    /// It is dead, paused or cut off, and may come back.
    Down,
    /// It has left on purpose.
    Left,
}

/// A node's admin state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdminState {
    /// It may hold replicas and lead shards.
    #[default]
    Member,
    /// It keeps its replicas and gets no more.
    Cordoned,
    /// It gets no more, and those it has move elsewhere.
    Draining,
    /// It was removed for good.
    Removed,
}

impl AdminState {
    /// The word for it.
    pub fn word(self) -> &'static str {
        keyspace::AdminState::from(self).word()
    }
}

impl From<AdminState> for keyspace::AdminState {
    fn from(admin_state: AdminState) -> Self {
        match admin_state {
            AdminState::Member => Self::Member,
            AdminState::Cordoned => Self::Cordoned,
            AdminState::Draining => Self::Draining,
            AdminState::Removed => Self::Removed,
        }
    }
}

impl From<keyspace::AdminState> for AdminState {
    fn from(admin_state: keyspace::AdminState) -> Self {
        match admin_state {
            keyspace::AdminState::Member => Self::Member,
            keyspace::AdminState::Cordoned => Self::Cordoned,
            keyspace::AdminState::Draining => Self::Draining,
            keyspace::AdminState::Removed => Self::Removed,
        }
    }
}

/// A node's admin state, and what it still holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeAdminState {
    /// Its id, in hexadecimal.
    pub id: String,
    /// Its name, if it is known.
    #[schema(required = true)]
    pub name: Option<String>,
    /// Its admin state from now on.
    #[serde(rename = "standing")]
    pub admin_state: AdminState,
    /// Shards that have a replica there.
    pub replicas: u64,
    /// Of these, those that it leads.
    pub leads: u64,
    /// Its keys and values, in bytes, as it last told.
    pub data_bytes: u64,
}

/// Where a node is reached: `HOST:PORT`, if it listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeAddresses {
    /// By other nodes.
    #[schema(required = true)]
    pub peer: Option<String>,
    /// By Redis clients.
    #[schema(required = true)]
    pub resp: Option<String>,
    /// By Redis Cluster clients, which take this for a replica of it (`resp_replica`).
    #[schema(required = true)]
    pub resp_replica: Option<String>,
    /// By clients of the native protocol.
    #[schema(required = true)]
    pub native: Option<String>,
    /// By HTTP.
    #[schema(required = true)]
    pub http: Option<String>,
    /// By Redis clients that speak TLS.
    #[serde(default)]
    #[schema(required = true)]
    pub resp_tls: Option<String>,
    /// By HTTP over TLS.
    #[serde(default)]
    #[schema(required = true)]
    pub http_tls: Option<String>,
}

/// A member of the cluster, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Its id, in hexadecimal.
    pub id: String,
    /// Its name; not unique.
    pub name: String,
    /// Whether it is the node that answers.
    pub this: bool,
    /// Whether it is there.
    pub state: NodeState,
    /// Its admin state.
    #[serde(rename = "standing", default)]
    #[schema(required = true)]
    pub admin_state: AdminState,
    /// Since when this node sees it in this state, in milliseconds since 1970.
    pub since_at_ms: u64,
    /// Whether this node has a link to it.
    pub linked: bool,
    /// Where it is reached.
    pub addresses: NodeAddresses,
    /// Its failure domain; empty: unknown.
    pub domain: String,
    /// The program it runs.
    pub version: String,
    /// Shards that have a replica there, as far as the answering node knows.
    #[serde(default)]
    #[schema(required = true)]
    pub replicas: u64,
    /// Of these, those that it leads.
    #[serde(default)]
    #[schema(required = true)]
    pub leads: u64,
    /// Replicas it holds, as it last reported.
    pub shards: u64,
    /// Of these, the ones that lead.
    pub leaders: u64,
    /// Its keys and values, in bytes, as it last told.
    pub data_bytes: u64,
    /// Requests a second that it serves, as it last reported: of shards that it leads, and reads
    /// from its other replicas. Estimated from one request in 64.
    #[serde(default)]
    #[schema(required = true)]
    pub requests_per_second: u64,
    /// Of these, reads from replicas that do not lead.
    #[serde(default)]
    #[schema(required = true)]
    pub follower_reads_per_second: u64,
    /// Whether its disk is slow, so that it transfers its leaderships; as it last reported.
    #[serde(default)]
    #[schema(required = true)]
    pub slow_disk: bool,
    /// When it joined, in milliseconds since 1970: nodes are in this order.
    pub joined_at_ms: u64,
    /// What has left it lately, if it drains and has been seen to for a moment.
    #[serde(default)]
    #[schema(required = true)]
    pub drain_rate: Option<DrainRate>,
}

/// What `GET /v1/nodes` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Nodes {
    /// Whether all is well, as this node sees it.
    pub health: Health,
    /// All members.
    pub nodes: Vec<NodeStatus>,
    /// Ids of nodes that were removed for good, in hexadecimal.
    #[serde(default)]
    #[schema(required = true)]
    pub removed: Vec<String>,
}

/// What a replica does in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaRole {
    /// It decides with the others.
    Voter,
    /// It follows, and will vote.
    Learner,
    /// It decides until a change of replicas is done.
    Outgoing,
}

/// The progress of a snapshot to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotStatus {
    /// Bytes that have left; those sent again count again.
    pub sent_bytes: u64,
    /// Bytes there are, about.
    pub about_bytes: u64,
}

/// One replica of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaStatus {
    /// Its id in the shard.
    pub replica: u64,
    /// Its node's id.
    pub node: String,
    /// Its node's name, if that is known.
    #[schema(required = true)]
    pub name: Option<String>,
    /// What it does.
    pub role: ReplicaRole,
    /// Whether its node is up.
    pub live: bool,
    /// Whether it leads, as far as this node knows.
    pub leader: bool,
    /// Entries that it lacks of the leader's log; only the leader knows, once it has heard of it.
    #[schema(required = true)]
    pub behind: Option<u64>,
    /// How long ago the leader sent it something that it has answered; only the leader knows.
    #[schema(required = true)]
    pub contact_ms: Option<u64>,
    /// Whether a snapshot is on its way to it.
    pub awaits_snapshot: bool,
    /// How far it is, if it is being sent from here.
    #[schema(required = true)]
    pub snapshot: Option<SnapshotStatus>,
}

/// A shard, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardStatus {
    /// Its id.
    pub id: u64,
    /// Its keyspace's name; `null` for the shard that holds the catalogue of keyspaces.
    #[schema(required = true)]
    pub keyspace: Option<String>,
    /// The first and the last of its slots, of a hashed keyspace.
    #[schema(value_type = Option<Vec<u16>>, required = true, min_items = 2, max_items = 2)]
    pub slots: Option<[u16; 2]>,
    /// The first position that it owns and the first that it does not, in hexadecimal, of a
    /// keyspace without slots. Empty: the ends of the circle.
    #[schema(value_type = Option<Vec<String>>, required = true, min_items = 2, max_items = 2)]
    pub arc: Option<[String; 2]>,
    /// How often its replicas or ends have changed.
    pub generation: u64,
    /// Whether it is well, by itself.
    pub verdict: Verdict,
    /// Whether this node has a replica of it. If not, the members below are those of its bootstrap.
    pub here: bool,
    /// How many replicas its keyspace asks for.
    pub replicas_wanted: u64,
    /// How many of its voters are on nodes that are up.
    pub replicas_live: u64,
    /// How many voters it has; some may have no node any more.
    #[serde(default)]
    #[schema(required = true)]
    pub voters: u64,
    /// Whether a change of its replicas is under way.
    #[serde(default)]
    #[schema(required = true)]
    pub changing: bool,
    /// Its replicas.
    pub replicas: Vec<ReplicaStatus>,
    /// The id of the node that leads it.
    #[schema(required = true)]
    pub leader: Option<String>,
    /// For how long no leader has been known, or this node, which is elected, has committed
    /// nothing; 0 if it has a leader.
    pub without_leader_ms: u64,
    /// Its term, at this node.
    pub term: u64,
    /// Up to where this node knows entries to be committed.
    pub committed: u64,
    /// Up to where they are applied here.
    pub applied: u64,
    /// If this node leads it: how long its lease lasts. `null` for a sole replica, which needs no
    /// lease.
    #[schema(required = true)]
    pub lease_ms: Option<u64>,
    /// Its sessions: nodes whose forwarded writes it remembers, so that none is done twice.
    pub sessions: u64,
    /// Its keys.
    pub keys: u64,
    /// What they take in memory here, in bytes, with old versions.
    pub bytes: u64,
    /// Quarantined replicas that are not replaced yet: this node's own, or, if it leads, all of
    /// them.
    #[serde(default)]
    #[schema(required = true)]
    pub quarantined: Vec<u64>,
    /// Voters that it cannot count on, if this node leads it: they lag, or have not answered.
    #[serde(default)]
    #[schema(required = true)]
    pub lagging: Vec<u64>,
    /// How often it is asked, as far as this node serves that; if the cluster was asked, as far as
    /// any node does. `null`: it is served elsewhere.
    #[serde(default)]
    #[schema(required = true)]
    pub load: Option<ShardLoad>,
    /// The id of the node that knows all this: this one or, if the cluster was asked, the leader.
    /// `null`: no node told more than how the shard began.
    #[serde(default)]
    #[schema(required = true)]
    pub told_by: Option<String>,
}

/// How often a shard is asked: estimated from one request in 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardLoad {
    /// Reads a second, those of followers included.
    pub reads_per_second: u64,
    /// Of these, reads from replicas that do not lead.
    #[serde(default)]
    #[schema(required = true)]
    pub follower_reads_per_second: u64,
    /// Writes a second.
    pub writes_per_second: u64,
    /// Bytes of keys and values that writes bring, a second.
    pub written_bytes_per_second: u64,
}

/// A node that did not say what it knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SilentNode {
    /// Its id, in hexadecimal.
    pub id: String,
    /// Its name; its id if it has none.
    pub name: String,
    /// Why, as a clause.
    pub why: String,
}

/// The page size of `GET /v1/shards`, unless the request asks for fewer.
pub const SHARDS_PAGE_MAX: usize = 1_000;

/// Which shards are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardsQuery<'a> {
    /// Those of this keyspace; none: all.
    pub keyspace: Option<&'a str>,
    /// Those with a higher id than this.
    pub after: Option<u64>,
    /// So many at most, from 1 to [`SHARDS_PAGE_MAX`].
    pub limit: usize,
}

/// What `GET /v1/shards` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Shards {
    /// The id of the answering node.
    #[serde(default)]
    #[schema(required = true)]
    pub node: String,
    /// The health of all shards, as this node sees it, whichever were asked for.
    pub health: Health,
    /// Shards by id.
    pub shards: Vec<ShardStatus>,
    /// There are more: those after this id.
    #[schema(required = true)]
    pub next: Option<u64>,
    /// Leaders that were asked for their shards and did not answer.
    #[serde(default)]
    #[schema(required = true)]
    pub silent: Vec<SilentNode>,
}

impl Shards {
    /// The first page of `shards`, which are sorted by id, within the limit of the request.
    pub fn page(
        health: Health,
        shards: impl Iterator<Item = ShardStatus>,
        asked: &ShardsQuery<'_>,
    ) -> Self {
        let mut shards = shards.skip_while(|shard| Some(shard.id) <= asked.after);
        let page: Vec<ShardStatus> = shards.by_ref().take(asked.limit).collect();
        let is_more = shards.next().is_some();
        let next = page.last().map(|last| last.id).filter(|_| is_more);
        Self { node: String::new(), health, shards: page, next, silent: Vec::new() }
    }
}
