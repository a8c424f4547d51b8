//! The implementation of the HTTP API: [`NodeService`] over the node's runtime.
//!
//! Writes are batches of one, and their answers call back from whichever thread applied
//! them.
//!
//! | here | what |
//! |---|---|
//! | this file | commands and keyspaces |
//! | `reads` | reads of one key |
//! | `keys` | keys of a keyspace, page by page |
//! | `history` | the changes of a key |
//! | `past` | several keys as of one past time |
//! | `snapshots` | snapshots, and what holds safe points |
//! | `feed` | change feeds |
//! | `notifications` | Redis's keyspace notifications, from change feeds |
//! | `errors` | errors for what was not done |
//! | `conditional` | writes that are done if the key's version is as required |
//! | `status`, `shards` | the state of the node, its cluster and its shards |
//! | `decisions` | what was decided about shards, and why |
//! | `routes` | lookups of keys' owners |
//! | `splits` | splits and merges |
//! | `inquiries` | what other nodes know, and answers to their questions |
//! | `cluster_version` | the cluster version |
//! | `admin_states` | cordoning, draining and removing nodes |
//! | `metrics`, `event_metrics` | metrics |
//! | `locks`, `topics` | locks with fencing tokens, and durable topics; `drafts` runs them |
//! | `txn` | transactions, in one request or request by request |

mod admin_states;
mod clones;
mod cluster_version;
mod conditional;
mod decisions;
mod drafts;
mod errors;
mod event_metrics;
mod feed;
mod history;
mod inquiries;
mod keys;
mod locks;
mod metrics;
mod notifications;
pub(crate) mod past;
mod reads;
mod routes;
mod shards;
mod snapshots;
mod splits;
mod status;
mod topics;
pub(crate) mod txn;

use std::sync::Arc;

use bytes::Bytes;
use command::{Expiry, NotDone, Reply, SetIf, SetReply, Write};
use keyspace::{
    CatalogueError, CatalogueOp, Keyspace, KeyspaceAlteration, KeyspaceOptions, LeaseOp, ShardId,
    Subject, Timestamp, is_made_on_use,
};
use node::executor::{self, Input};
use node::replica::entry::Batch;
use node::replica::scan;
use node::routing::route::Route;

use crate::config::Config;
use crate::logging::Banner;
use crate::password::PasswordGate;
use crate::runtime::{API, NodeRuntime};
use crate::runtime::{events, readiness, requests, survey};
use crate::tls::Certificates;
use api::events::{Wake, WatchRequest, Watching};
use api::feeds::{FeedRequest, Feeding};
use api::{
    AdminState, Answer, ApiError, CloneInfo, CloneSpec, ClusterVersionStatus, Command, Condition,
    CutAt, Decisions, Done, Flattened, History, HistoryQuery, KeysPage, KeysQuery, KeyspaceChange,
    KeyspaceInfo, KeyspaceSpec, ListenerStatus, MergeStatus, Metrics, NodeAdminState, NodeMetrics,
    NodeService, Nodes, Placement, RequestId, RouteStatus, SafePointInfo, Shards, ShardsQuery,
    SnapshotInfo, SnapshotSpec, SplitStatus, Status, Txn, TxnDone, TxnOp, TxnResult,
};
use conditional::Conditional;
use errors::{no_catalogue, not_done, refused};
use feed::FeedCounts;
pub use inquiries::InquiryThread;
pub use notifications::NotificationThread;
use overlay::LookupChoice;
use reads::{get, get_at, get_stale};

/// Facts about the node that are known at its start.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    listeners: Vec<ListenerStatus>,
    recovered: String,
    warnings: Vec<String>,
    joined_at_ms: u64,
    certificates: Certificates,
    gate: Option<Arc<PasswordGate>>,
}

impl NodeFacts {
    /// Facts from the banner of a ready node, and the time at which it founded or joined its
    /// cluster, in milliseconds since 1970.
    pub fn new(
        banner: &Banner,
        joined_at_ms: u64,
        certificates: Certificates,
        gate: Option<Arc<PasswordGate>>,
    ) -> Self {
        let listener = |(protocol, address): &(&'static str, std::net::SocketAddr)| {
            ListenerStatus { protocol: (*protocol).to_owned(), address: address.to_string() }
        };
        Self {
            listeners: banner.listeners.iter().map(listener).collect(),
            recovered: banner.recovered.clone(),
            warnings: banner.warnings.clone(),
            joined_at_ms,
            certificates,
            gate,
        }
    }
}

/// See the front page of this module.
pub struct NodeApi {
    runtime: Arc<NodeRuntime>,
    config: Arc<Config>,
    facts: NodeFacts,
    feeds: Arc<FeedCounts>,
    flattening: Arc<clones::Flattening>,
}

impl NodeApi {
    /// Over a runtime.
    pub fn new(runtime: Arc<NodeRuntime>, config: Arc<Config>, facts: NodeFacts) -> Self {
        Self { runtime, config, facts, feeds: Arc::default(), flattening: Arc::default() }
    }

    fn info(&self, keyspace: &Keyspace) -> KeyspaceInfo {
        let routes = self.runtime.routing.routes();
        let now = self.runtime.clock.now();
        let route = routes.by_id(keyspace.id);
        KeyspaceInfo {
            id: keyspace.id.0,
            name: keyspace.name.to_string(),
            placement: match keyspace.options.placement {
                keyspace::Placement::Hashed => Placement::Hashed,
                keyspace::Placement::Ordered => Placement::Ordered,
                keyspace::Placement::LinearHash => Placement::LinearHash,
            },
            durability: keyspace.options.durability.into(),
            retention_ms: keyspace.options.retention_ms,
            replicas: keyspace.options.replicas,
            skip_equal_writes: keyspace.options.skips_equal,
            volume: keyspace.options.volume.map(Into::into),
            clone_of: keyspace.source().map(|(source, at)| CloneInfo {
                volume: match routes.by_id(source) {
                    Some(of) => of.keyspace.name.to_string(),
                    // This node is behind.
                    None => format!("(id {source})"),
                },
                at: at.0.to_string(),
                at_ms: at.millis(),
            }),
            shards: route.map_or(keyspace.shards.len(), |route| route.shards().len()) as u64,
            keys: route
                .map_or(0, |route| scan::size(route, &scan::ScanScope::unchecked(route, now))),
            warnings: Vec::new(),
        }
    }

    /// Why a keyspace cannot be used that no route leads to: there is none, or it is not known yet.
    fn no_keyspace(&self, name: &str) -> ApiError {
        match self.runtime.lifecycle.is_ready() {
            true => ApiError::NoKeyspace { name: name.to_owned() },
            false => ApiError::Loading,
        }
    }

    /// The same once more, for answers that come later.
    fn again(&self) -> Self {
        Self {
            runtime: self.runtime.clone(),
            config: self.config.clone(),
            facts: self.facts.clone(),
            feeds: self.feeds.clone(),
            flattening: self.flattening.clone(),
        }
    }

    /// Changes the catalogue; `done` gets the keyspace as it is then.
    fn change(&self, op: &CatalogueOp<'_>, done: Done<KeyspaceInfo>) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        if let Err(error) = op.check_proposal() {
            return done(Err(refused(error)));
        }
        // Before it is in a log: a node of an older version could not read it.
        let (version, needs) = (self.runtime.version.current(), op.since());
        if version < needs {
            return done(Err(refused(CatalogueError::VersionTooLow { version, needs })));
        }
        let this = self.again();
        let callback = move |answer| match answer {
            // As it was made, though by now another may have changed or dropped it.
            executor::Answer::Catalogue { result: Ok(subject), .. } => match *subject {
                Subject::Keyspace(keyspace) => done(Ok(this.info(&keyspace))),
                Subject::Node(..)
                | Subject::Shard(..)
                | Subject::ClusterVersion(..)
                | Subject::Libraries
                | Subject::Lease(..) => {
                    unreachable!("it was asked about a keyspace")
                }
            },
            executor::Answer::Catalogue { result: Err(error), .. } => done(Err(refused(error))),
            // Nobody knows: who waits is told so.
            executor::Answer::NotDone { why: NotDone::OutcomeUnknown, .. } => drop(done),
            executor::Answer::NotDone { why, .. } => done(Err(no_catalogue(why))),
            other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
        };
        requests::change_catalogue(&self.runtime, op, Some(Box::new(callback)));
    }
}

impl NodeService for NodeApi {
    fn call(&self, id: RequestId, keyspace: &str, command: Command, done: Done<Answer>) {
        self.runtime.counters.commands.add(1);
        // The clock stands still until it is told the time: a write now must not be stamped then.
        self.runtime.clock.observe();
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        let routes = self.runtime.routing.routes();
        let Some(route) = routes.get(keyspace).cloned() else {
            return match is_made_on_use(keyspace) {
                true => self.create_and_call(id, keyspace, command, done),
                false => done(Err(self.no_keyspace(keyspace))),
            };
        };
        let written = command.written_bytes();
        self.runtime.request_rates.asked(&route, command.key(), written);
        if self.runtime.events.is_sampling() {
            self.runtime.sample_request(&route, command.is_write(), [command.key()], &[]);
        }
        match command {
            Command::Get { key, at: None, stale_ms: Some(stale_ms) } => {
                let age_max = stale_ms.saturating_mul(1_000_000);
                get_stale(
                    self.runtime.clone(),
                    route,
                    key,
                    self.runtime.clock.moment(),
                    age_max,
                    done,
                );
            }
            Command::Get { key, at: None, stale_ms: None } => {
                get(self.runtime.clone(), route, key, self.runtime.clock.moment(), done)
            }
            Command::Get { key, at: Some(at), .. } => {
                get_at(self.runtime.clone(), route, key, at, done)
            }
            Command::Put { key, value, expires_at_ms, when } => {
                let expiry = expires_at_ms.map_or(Expiry::Never, Expiry::At);
                let simple = match when {
                    _ if when == Condition::ALWAYS => Some(SetIf::Always),
                    _ if when == Condition::PRESENT => Some(SetIf::Present),
                    _ if when == Condition::absent() => Some(SetIf::Absent),
                    _ => None,
                };
                let Some(set_if) = simple else {
                    let write = Conditional::put(key, value, expiry, when);
                    return self.write_if(id, route, write, done);
                };
                let (key, value, reply) = (&key[..], &value[..], SetReply::Flag);
                let write = Write::Set { key, value, when: set_if, expiry, reply };
                self.write(id, &route, &write, Answer::ConditionFailed, done);
            }
            // A key without a value has nothing to delete, whatever the condition.
            Command::Delete { key, when } if when.allows_any_version() => {
                let write = Write::Delete { key: &key };
                self.write(id, &route, &write, Answer::NothingToDelete, done);
            }
            Command::Delete { key, when } => {
                self.write_if(id, route, Conditional::delete(key, when), done);
            }
        }
    }

    fn transact(&self, id: RequestId, txn: Txn, done: Done<TxnDone>) {
        self.ask_transact(id, txn, done);
    }

    fn txn_begin(&self, keyspace: &str, timeout_ms: u64, done: Done<String>) {
        self.ask_begin(keyspace, timeout_ms, done);
    }

    fn txn_run(&self, txn: &str, ops: Vec<TxnOp>, done: Done<Vec<TxnResult>>) {
        self.ask_run(txn, ops, done);
    }

    fn txn_commit(&self, id: RequestId, txn: &str, done: Done<()>) {
        self.ask_commit(id, txn, done);
    }

    fn txn_rollback(&self, txn: &str) -> Result<(), ApiError> {
        self.ask_rollback(txn)
    }

    fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        self.runtime.routing.routes().iter().map(|route| self.info(&route.keyspace)).collect()
    }

    fn keyspace(&self, name: &str) -> Result<KeyspaceInfo, ApiError> {
        let routes = self.runtime.routing.routes();
        let route = routes.get(name).ok_or_else(|| self.no_keyspace(name))?;
        Ok(self.info(&route.keyspace))
    }

    fn keyspace_create(&self, spec: KeyspaceSpec, done: Done<KeyspaceInfo>) {
        let durability = spec.durability.unwrap_or(self.config.durability);
        let options = KeyspaceOptions {
            placement: match spec.placement {
                Placement::Hashed => keyspace::Placement::Hashed,
                Placement::Ordered => keyspace::Placement::Ordered,
                Placement::LinearHash => keyspace::Placement::LinearHash,
            },
            durability: durability.into(),
            retention_ms: spec.retention_ms.unwrap_or(self.config.retention_ms),
            replicas: spec.replicas.unwrap_or(self.config.replicas_at(durability)),
            skips_equal: spec.skip_equal_writes.unwrap_or(false),
            volume: spec.volume.map(Into::into),
        };
        let name = spec.name;
        let op = CatalogueOp::Create { name: &name, options };
        self.change(&op, done);
    }

    fn keyspace_alter(&self, name: &str, change: KeyspaceChange, done: Done<KeyspaceInfo>) {
        let change = KeyspaceAlteration {
            durability: change.durability.map(Into::into),
            retention_ms: change.retention_ms,
            replicas: change.replicas,
            skips_equal: change.skip_equal_writes,
            volume_bytes: change.volume_bytes,
            flattened_at: None,
        };
        self.change(&CatalogueOp::Alter { name, change }, done);
    }

    fn volume_clone(&self, source: &str, spec: CloneSpec, done: Done<KeyspaceInfo>) {
        self.clone_volume(source, spec, done);
    }

    fn volume_flatten(&self, id: RequestId, name: &str, done: Done<Flattened>) {
        self.flatten_volume(id, name, done);
    }

    fn keyspace_drop(&self, name: &str, done: Done<()>) {
        self.change(&CatalogueOp::Drop { name }, Box::new(|result| done(result.map(|_gone| ()))));
    }

    fn route(
        &self,
        keyspace: &str,
        key: &[u8],
        ways: &[LookupChoice],
        is_traced: bool,
        done: Done<Vec<RouteStatus>>,
    ) {
        self.ask_route(keyspace, key, ways, is_traced, done);
    }

    fn now_millis(&self) -> u64 {
        self.runtime.clock.millis()
    }

    fn not_ready(&self) -> Option<String> {
        readiness::not_ready(&self.runtime)
    }

    fn status(&self) -> Status {
        self.show_status()
    }

    fn nodes(&self) -> Nodes {
        self.show_nodes()
    }

    fn set_admin_state(
        &self,
        id: RequestId,
        node: &str,
        admin_state: AdminState,
        unknown_too: bool,
        done: Done<NodeAdminState>,
    ) {
        self.request_admin_state(id, node, admin_state, unknown_too, done);
    }

    fn shards(&self, asked: &ShardsQuery<'_>) -> Result<Shards, ApiError> {
        self.show_shards(asked)
    }

    fn split(&self, shard: u64, at: Option<CutAt>, done: Done<SplitStatus>) {
        self.ask_split(ShardId(shard), at, done);
    }

    fn merge(&self, shard: u64, done: Done<MergeStatus>) {
        self.ask_merge(ShardId(shard), done);
    }

    fn cluster_version(&self) -> ClusterVersionStatus {
        self.show_version(&survey::survey(&self.runtime))
    }

    fn raise_version(&self, id: RequestId, to: Option<u8>, done: Done<ClusterVersionStatus>) {
        self.request_version(id, to, done);
    }

    fn shards_of_cluster(&self, asked: &ShardsQuery<'_>, done: Done<Shards>) {
        self.ask_shards(asked, done);
    }

    fn decisions(&self, dry: bool) -> Decisions {
        self.show_decisions(dry)
    }

    fn decisions_of_cluster(&self, dry: bool, done: Done<Decisions>) {
        self.ask_decisions(dry, done);
    }

    fn metrics_of_cluster(&self, done: Done<NodeMetrics>) {
        self.ask_metrics(done);
    }

    fn keys(&self, keyspace: &str, asked: KeysQuery, done: Done<KeysPage>) {
        let routes = self.runtime.routing.routes();
        match routes.get(keyspace) {
            Some(route) => keys::page(&self.runtime, route, asked, done),
            // It will be made when it is used.
            None if is_made_on_use(keyspace) && routes.iter().next().is_some() => {
                done(Ok(KeysPage::default()));
            }
            None => done(Err(self.no_keyspace(keyspace))),
        }
    }

    fn get_many(&self, keyspace: &str, keys: Vec<Bytes>, at: Timestamp, done: Done<Vec<Answer>>) {
        self.runtime.clock.observe();
        let routes = self.runtime.routing.routes();
        match routes.get(keyspace) {
            Some(route) => past::get_many(&self.runtime, route, keys, at, done),
            // It will be made when it is used.
            None if is_made_on_use(keyspace) && routes.iter().next().is_some() => {
                done(Ok(vec![Answer::Nil; keys.len()]));
            }
            None => done(Err(self.no_keyspace(keyspace))),
        }
    }

    fn feed(&self, asked: FeedRequest, wake: Wake, done: Done<Feeding>) {
        feed::begin(self, asked, wake, done);
    }

    fn cluster_id(&self) -> Option<u64> {
        Some(self.runtime.identity.cluster)
    }

    fn snapshot_take(&self, spec: SnapshotSpec, done: Done<SnapshotInfo>) {
        self.take_snapshot(keyspace::LeaseKind::Pin, spec, done);
    }

    fn snapshots(&self, done: Done<Vec<SnapshotInfo>>) {
        self.list_snapshots(done);
    }

    fn snapshot_renew(&self, id: u64, ttl_ms: u64, done: Done<SnapshotInfo>) {
        self.lease(LeaseOp::Renew { id, ttl_ms }, done);
    }

    fn snapshot_release(&self, id: u64, done: Done<()>) {
        self.release(id, done);
    }

    fn safe_points(&self, done: Done<Vec<SafePointInfo>>) {
        self.list_safe_points(done);
    }

    fn collect(&self, keyspaces: Vec<String>, at: Timestamp, done: Done<Vec<SafePointInfo>>) {
        self.collect_to(&keyspaces, at, done);
    }

    fn history(&self, keyspace: &str, key: Bytes, asked: HistoryQuery, done: Done<History>) {
        let routes = self.runtime.routing.routes();
        match routes.get(keyspace) {
            Some(route) => history::history(&self.runtime, route, key, asked, done),
            // It will be made when it is used.
            None if is_made_on_use(keyspace) && routes.iter().next().is_some() => {
                done(Ok(History::default()));
            }
            None => done(Err(self.no_keyspace(keyspace))),
        }
    }

    fn watch(&self, asked: &WatchRequest, wake: Wake) -> Result<Watching, ApiError> {
        let routes = self.runtime.routing.routes();
        if let Some(keyspace) = asked.filter.keyspace().filter(|name| routes.get(name).is_none()) {
            return Err(self.no_keyspace(keyspace));
        }
        events::watch(&self.runtime, &self.config.name, asked, wake)
    }

    fn metrics(&self) -> Metrics {
        self.show_metrics()
    }
}

impl NodeApi {
    /// Creates a numbered keyspace, as `SELECT` would, and then runs the command.
    fn create_and_call(&self, id: RequestId, name: &str, command: Command, done: Done<Answer>) {
        let (this, keyspace) = (self.again(), name.to_owned());
        let callback = move |answer| match answer {
            executor::Answer::Catalogue {
                result: Ok(_) | Err(CatalogueError::Exists { .. }),
                ..
            } => this.call(id, &keyspace, command, done),
            executor::Answer::Catalogue { result: Err(error), .. } => done(Err(refused(error))),
            executor::Answer::NotDone { why, .. } => done(Err(no_catalogue(why))),
            other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
        };
        let op = CatalogueOp::Create { name, options: self.config.keyspace_options() };
        requests::change_catalogue(&self.runtime, &op, Some(Box::new(callback)));
    }

    fn write(
        &self,
        id: RequestId,
        route: &Route,
        write: &Write<'_>,
        otherwise: Answer,
        done: Done<Answer>,
    ) {
        if let Err(error) = admit(&self.runtime, write) {
            return done(Err(error));
        }
        let mut place = 0;
        write.each_key(&mut |key| place = route.place_of_key(key));
        let callback = move |answer| match answer {
            executor::Answer::Applied { replies, .. } => match replies.first() {
                Some(Reply::Int(0)) => done(Ok(otherwise)),
                _ => done(Ok(Answer::Written { timestamp: None })),
            },
            executor::Answer::NotDone { why, .. } => done(Err(not_done(why, Some(id)))),
            other => unreachable!("a batch is applied or not done: {other:?}"),
        };
        let mut batch = Batch::default();
        batch.push(write, self.runtime.delivery.waiters.wait(Box::new(callback)));
        let shard = route.shard(place);
        self.runtime.submit(shard, Input::Propose { shard, origin: API, batch });
    }
}

/// Whether there is room for a write here, and on the link to its shard's leader.
fn admit(runtime: &NodeRuntime, write: &Write<'_>) -> Result<(), ApiError> {
    if write.may_grow() && runtime.memory.is_full() {
        return Err(ApiError::OutOfMemory { bytes_max: runtime.memory.bytes_max() });
    }
    let (bytes, bytes_max) = (write.bytes_about() as u64, runtime.command_bytes_max() as u64);
    if bytes > bytes_max {
        return Err(ApiError::ValueTooLong { bytes, bytes_max });
    }
    Ok(())
}
