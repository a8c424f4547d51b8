//! The node as HTTP sees it: [`NodeService`] over the hub.
//!
//! Reads run on the calling thread; a read that is blocked is tried again when the shard's lane
//! says so. Writes are batches of one, and their answers call back from whichever thread applied
//! them.
//!
//! | here | what |
//! |---|---|
//! | this file | commands and keyspaces |
//! | `conditional` | writes that are done if the key's version is as required |
//! | `status`, `shards` | how the node, its cluster and its shards are |
//! | `decisions` | what was decided about shards, and why |
//! | `routes` | how owners of keys are found |
//! | `splits` | shards that are cut in two |
//! | `levels` | the cluster's feature level |
//! | `standings` | nodes that are cordoned, drained and removed |
//! | `metrics` | what is counted |
//! | `txn` | transactions, in one request or request by request |

mod conditional;
mod decisions;
mod levels;
mod metrics;
mod routes;
mod shards;
mod splits;
mod standings;
mod status;
mod txn;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use command::{Expiry, Reply, SetIf, SetReply, Write};
use keyspace::{
    Alteration, CatalogueError, CatalogueOp, Keyspace, KeyspaceOptions, ShardId, Subject,
    Timestamp, is_made_on_use,
};
use node::executor::{self, Input, NotDone};
use node::replica::entry::Batch;
use node::replica::read::{self, Blocked, Now};
use node::replica::scan;
use node::routing::fetch::{Found, Then, Want};
use node::routing::route::Route;
use storage::engine::At;

use crate::config::Config;
use crate::hub::{Hub, SIDE_DOOR};
use crate::logging::Banner;
use api::{
    Answer, ApiError, Command, Condition, CutAt, Decisions, Done, KeyspaceChange, KeyspaceInfo,
    KeyspaceSpec, LevelStatus, ListenerStatus, MergeStatus, Metrics, NodeService, NodeStanding,
    Nodes, Placement, RequestId, RouteStatus, Shards, ShardsAsked, SplitStatus, Standing, Status,
    Txn, TxnDone, TxnOp, TxnResult,
};
use conditional::Conditional;
use overlay::LookupChoice;

/// What the node is told about itself at start.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    listeners: Vec<ListenerStatus>,
    recovered: String,
    warnings: Vec<String>,
    joined_at_ms: u64,
}

impl NodeFacts {
    /// What a node said when it was ready, and when it founded or joined its cluster, in
    /// milliseconds since 1970.
    pub fn new(banner: &Banner, joined_at_ms: u64) -> Self {
        let listener = |(protocol, address): &(&'static str, std::net::SocketAddr)| {
            ListenerStatus { protocol: (*protocol).to_owned(), address: address.to_string() }
        };
        Self {
            listeners: banner.listeners.iter().map(listener).collect(),
            recovered: banner.recovered.clone(),
            warnings: banner.warnings.clone(),
            joined_at_ms,
        }
    }
}

/// See the front page of this module.
pub struct NodeApi {
    hub: Arc<Hub>,
    config: Arc<Config>,
    facts: NodeFacts,
}

impl NodeApi {
    /// Over a hub.
    pub fn new(hub: Arc<Hub>, config: Arc<Config>, facts: NodeFacts) -> Self {
        Self { hub, config, facts }
    }

    fn info(&self, keyspace: &Keyspace) -> KeyspaceInfo {
        let routes = self.hub.routes();
        let now = self.hub.now();
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
            shards: route.map_or(keyspace.shards.len(), |route| route.shards().len()) as u64,
            keys: route.map_or(0, |route| scan::size(route, &scan::Asked::anyhow(route, now))),
        }
    }

    /// Why a keyspace cannot be used that no route leads to: there is none, or it is not known yet.
    fn no_keyspace(&self, name: &str) -> ApiError {
        match self.hub.ready.load(Ordering::Acquire) {
            true => ApiError::NoKeyspace { name: name.to_owned() },
            false => ApiError::Loading,
        }
    }

    /// The same once more, for what is told later.
    fn again(&self) -> Self {
        Self { hub: self.hub.clone(), config: self.config.clone(), facts: self.facts.clone() }
    }

    /// Asks the catalogue, and tells `done` how the keyspace is then.
    fn change(&self, op: &CatalogueOp<'_>, done: Done<KeyspaceInfo>) {
        if self.hub.stopping.load(Ordering::Acquire) {
            return done(Err(ApiError::Stopping));
        }
        if let Err(error) = op.check_proposal() {
            return done(Err(refused(error)));
        }
        // Before it is in a log: a node of an older version could not read it.
        let (level, needs) = (self.hub.cluster_level(), op.since());
        if level < needs {
            return done(Err(refused(CatalogueError::LevelTooLow { level, needs })));
        }
        let this = self.again();
        let callback = move |answer| match answer {
            // As it was made, though by now another may have changed or dropped it.
            executor::Answer::Catalogue { result: Ok(subject), .. } => match *subject {
                Subject::Keyspace(keyspace) => done(Ok(this.info(&keyspace))),
                Subject::Node(..) | Subject::Shard(..) | Subject::Level(..) => {
                    unreachable!("it was asked about a keyspace")
                }
            },
            executor::Answer::Catalogue { result: Err(error), .. } => done(Err(refused(error))),
            // Nobody knows: who waits is told so.
            executor::Answer::NotDone { why: NotDone::Unknown, .. } => drop(done),
            executor::Answer::NotDone { why, .. } => done(Err(no_catalogue(why))),
            other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
        };
        self.hub.ask_catalogue(op, Some(Box::new(callback)));
    }
}

impl NodeService for NodeApi {
    fn call(&self, id: RequestId, keyspace: &str, command: Command, done: Done<Answer>) {
        self.hub.counters.commands.add(1);
        // The clock stands still until it is told the time: a write now must not be stamped then.
        self.hub.clock.observe_millis(self.hub.millis());
        if self.hub.stopping.load(Ordering::Acquire) {
            return done(Err(ApiError::Stopping));
        }
        let routes = self.hub.routes();
        let Some(route) = routes.get(keyspace).cloned() else {
            return match is_made_on_use(keyspace) {
                true => self.create_and_call(id, keyspace, command, done),
                false => done(Err(self.no_keyspace(keyspace))),
            };
        };
        self.hub.heat.asked(&route, command.key());
        match command {
            Command::Get { key, at: None, stale_ms: Some(stale_ms) } => {
                let age_max = stale_ms.saturating_mul(1_000_000);
                get_stale(self.hub.clone(), route, key, self.hub.moment(), age_max, done);
            }
            Command::Get { key, at: None, stale_ms: None } => {
                get(self.hub.clone(), route, key, self.hub.moment(), done)
            }
            Command::Get { key, at: Some(at), .. } => {
                get_at(self.hub.clone(), route, key, at, done)
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
        self.hub.routes().iter().map(|route| self.info(&route.keyspace)).collect()
    }

    fn keyspace(&self, name: &str) -> Result<KeyspaceInfo, ApiError> {
        let routes = self.hub.routes();
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
        };
        let name = spec.name;
        let op = CatalogueOp::Create { name: &name, options };
        self.change(&op, done);
    }

    fn keyspace_alter(&self, name: &str, change: KeyspaceChange, done: Done<KeyspaceInfo>) {
        let change = Alteration {
            durability: change.durability.map(Into::into),
            retention_ms: change.retention_ms,
            replicas: change.replicas,
        };
        self.change(&CatalogueOp::Alter { name, change }, done);
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
        self.hub.millis()
    }

    fn not_ready(&self) -> Option<String> {
        self.hub.not_ready()
    }

    fn status(&self) -> Status {
        self.show_status()
    }

    fn nodes(&self) -> Nodes {
        self.show_nodes()
    }

    fn set_standing(
        &self,
        id: RequestId,
        node: &str,
        standing: Standing,
        unknown_too: bool,
        done: Done<NodeStanding>,
    ) {
        self.ask_standing(id, node, standing, unknown_too, done);
    }

    fn shards(&self, asked: &ShardsAsked<'_>) -> Result<Shards, ApiError> {
        self.show_shards(asked)
    }

    fn split(&self, shard: u64, at: Option<CutAt>, done: Done<SplitStatus>) {
        self.ask_split(ShardId(shard), at, done);
    }

    fn merge(&self, shard: u64, done: Done<MergeStatus>) {
        self.ask_merge(ShardId(shard), done);
    }

    fn level(&self) -> LevelStatus {
        self.show_level(&self.hub.survey())
    }

    fn raise_level(&self, id: RequestId, to: Option<u8>, done: Done<LevelStatus>) {
        self.ask_level(id, to, done);
    }

    fn decisions(&self, dry: bool) -> Decisions {
        self.show_decisions(dry)
    }

    fn metrics(&self) -> Metrics {
        self.show_metrics()
    }
}

impl NodeApi {
    /// Makes a numbered keyspace, as `SELECT` would, and then does what was asked.
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
        self.hub.ask_catalogue(&op, Some(Box::new(callback)));
    }

    fn write(
        &self,
        id: RequestId,
        route: &Route,
        write: &Write<'_>,
        otherwise: Answer,
        done: Done<Answer>,
    ) {
        if let Err(error) = admit(&self.hub, write) {
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
        batch.push(write, self.hub.side_door.wait(Box::new(callback)));
        let shard = route.shard(place);
        self.hub.submit(shard, Input::Propose { shard, origin: SIDE_DOOR, batch });
    }
}

/// Whether there is room for a write here, and on the way to who leads its shard.
fn admit(hub: &Hub, write: &Write<'_>) -> Result<(), ApiError> {
    if write.may_grow() && hub.out_of_memory.load(Ordering::Relaxed) {
        return Err(ApiError::OutOfMemory { bytes_max: hub.memory_bytes_max });
    }
    let (bytes, bytes_max) = (write.bytes_about() as u64, hub.command_bytes_max() as u64);
    if bytes > bytes_max {
        return Err(ApiError::ValueTooLong { bytes, bytes_max });
    }
    Ok(())
}

/// `now` is when the request had come, however often it is tried.
fn get(hub: Arc<Hub>, route: Arc<Route>, key: bytes::Bytes, now: Now, done: Done<Answer>) {
    let found = read::value(&route, &key, now, |version| match version {
        Some(version) => value(&version),
        None => Answer::Nil,
    });
    match found {
        Ok(answer) => done(Ok(answer)),
        Err(blocked) if hub.must_fetch(&route, blocked.place) => {
            let want = Want::keys([&key[..]]);
            let (shard, again) = (route.shard(blocked.place), (hub.clone(), route.clone()));
            fetch(
                &hub,
                shard,
                want,
                Box::new(move |result| match result {
                    Ok(Some(Found::Versions(versions))) => match versions.first() {
                        Some(Ok(held)) => done(Ok(value(&held.version()))),
                        _ => done(Ok(Answer::Nil)),
                    },
                    // It can be read here now.
                    Ok(_) => get(again.0.clone(), renewed(&again.0, again.1), key, now, done),
                    Err(error) => done(Err(error)),
                }),
            );
        }
        Err(blocked) => {
            let again = (hub.clone(), route.clone());
            wait(
                &hub,
                &route,
                blocked,
                Box::new(move |result| match result {
                    Ok(Look::Here | Look::Elsewhere) => {
                        // The key may be another shard's by now.
                        let route = renewed(&again.0, again.1);
                        get(again.0, route, key, now, done);
                    }
                    Err(error) => done(Err(error)),
                }),
            );
        }
    }
}

/// As [`get`], of a value that may be old by up to `age_max` nanoseconds.
fn get_stale(
    hub: Arc<Hub>,
    route: Arc<Route>,
    key: bytes::Bytes,
    now: Now,
    age_max: u64,
    done: Done<Answer>,
) {
    let found = read::value_stale(&route, &key, now, age_max, |version| match version {
        Some(version) => value(&version),
        None => Answer::Nil,
    });
    let aged = |answer, age_ms| Answer::Aged { age_ms, answer: Box::new(answer) };
    match found {
        Ok((answer, age)) => done(Ok(aged(answer, age.div_ceil(1_000_000)))),
        // Who leads is asked; its answer is not old.
        Err(_) => {
            get(hub, route, key, now, Box::new(move |result| done(result.map(|a| aged(a, 0)))));
        }
    }
}

fn get_at(hub: Arc<Hub>, route: Arc<Route>, key: bytes::Bytes, at: Timestamp, done: Done<Answer>) {
    get_at_behind(hub, route, key, (at, None), done);
}

/// As [`get_at`], behind a lock that was met when so many had gone.
fn get_at_behind(
    hub: Arc<Hub>,
    route: Arc<Route>,
    key: bytes::Bytes,
    (at, lock): (Timestamp, Option<u64>),
    done: Done<Answer>,
) {
    let now = hub.now();
    if at > now {
        return done(Err(ApiError::InFuture { at, now }));
    }
    let place = route.place_of_key(&key);
    if hub.must_fetch(&route, place) {
        let want = Want::At { key: key[..].into(), at };
        let (shard, again) = (route.shard(place), (hub.clone(), route));
        return fetch(
            &hub,
            shard,
            want,
            Box::new(move |result| match result {
                Ok(Some(Found::Then(then))) => done(match then {
                    Then::Value(held) => Ok(value(&held.version())),
                    Then::Nil => Ok(Answer::Nil),
                    Then::NilYet => Ok(Answer::NilYet),
                    Then::BelowSafePoint(safe_point) => {
                        Err(ApiError::BelowSafePoint { at, safe_point })
                    }
                }),
                Ok(_) => get_at(again.0.clone(), renewed(&again.0, again.1), key, at, done),
                Err(error) => done(Err(error)),
            }),
        );
    }
    let again = (hub.clone(), route.clone());
    wait(
        &hub,
        &route,
        Blocked { place, at, lock },
        Box::new(move |result| match result {
            Ok(Look::Here) => {
                let found = read::read_at(&again.1, &key, at, |found| match found {
                    At::Value(version) => value(&version),
                    At::Nil => Answer::Nil,
                    At::NilYet => Answer::NilYet,
                });
                match found {
                    Ok(answer) => done(Ok(answer)),
                    Err(read::NotThen::BelowSafePoint { safe_point }) => {
                        done(Err(ApiError::BelowSafePoint { at, safe_point }));
                    }
                    Err(read::NotThen::Locked { released }) => {
                        get_at_behind(again.0, again.1, key, (at, Some(released)), done);
                    }
                    Err(read::NotThen::Moved) => {
                        let route = renewed(&again.0, again.1);
                        get_at(again.0, route, key, at, done);
                    }
                }
            }
            Ok(Look::Elsewhere) => {
                let route = renewed(&again.0, again.1);
                get_at(again.0, route, key, at, done);
            }
            Err(error) => done(Err(error)),
        }),
    );
}

fn value(version: &storage::engine::Version<'_>) -> Answer {
    Answer::Value {
        value: bytes::Bytes::copy_from_slice(version.value),
        timestamp: version.timestamp,
        expires_at_ms: (version.expiry_ms != 0).then_some(version.expiry_ms),
    }
}

/// The keyspace's route as it is now, if it is still there.
fn renewed(hub: &Hub, route: Arc<Route>) -> Arc<Route> {
    hub.routes().by_id(route.keyspace.id).cloned().unwrap_or(route)
}

/// Calls `then` with what a shard's leader elsewhere holds; with nothing if it can be read here.
fn fetch(hub: &Hub, shard: ShardId, want: Want, then: Done<Option<Found>>) {
    let waiter = hub.side_door.wait(Box::new(move |answer| match answer {
        executor::Answer::Fetched { found, .. } => then(Ok(Some(*found))),
        executor::Answer::Go { .. } | executor::Answer::NotDone { why: NotDone::Lags, .. } => {
            then(Ok(None));
        }
        executor::Answer::NotDone { why, .. } => then(Err(not_done(why, None))),
        other => unreachable!("a question is answered or refused: {other:?}"),
    }));
    let (want, origin) = (Box::new(want), SIDE_DOOR);
    hub.submit(shard, Input::Fetch { shard, want, bytes_max: usize::MAX, origin, waiter });
}

/// Where a read that was blocked goes on.
enum Look {
    /// It may be tried here.
    Here,
    /// What it wants may have to be fetched.
    Elsewhere,
}

/// Calls `then` when the shard's lane says that the read may be tried, or that its replica lags.
fn wait(hub: &Hub, route: &Route, blocked: Blocked, then: Done<Look>) {
    let (shard, at, lock) = (route.shard(blocked.place), blocked.at, blocked.lock);
    let waiter = hub.side_door.wait(Box::new(move |answer| match answer {
        executor::Answer::Go { .. } => then(Ok(Look::Here)),
        executor::Answer::NotDone { why: NotDone::Lags, .. } => then(Ok(Look::Elsewhere)),
        executor::Answer::NotDone { why, .. } => then(Err(not_done(why, None))),
        other => unreachable!("a reader is let go or refused: {other:?}"),
    }));
    hub.submit(shard, Input::Await { shard, at, lock, origin: SIDE_DOOR, waiter });
}

/// Why the catalogue did not answer.
fn no_catalogue(why: NotDone) -> ApiError {
    match why {
        NotDone::DiskFull => ApiError::DiskFull,
        _ => ApiError::Busy {
            why: "no node has answered as the leader of the keyspaces' catalogue; nothing was done",
        },
    }
}

fn refused(error: CatalogueError) -> ApiError {
    match error {
        CatalogueError::Exists { name } => ApiError::KeyspaceExists { name: name.into() },
        CatalogueError::NotFound { name } => ApiError::NoKeyspace { name: name.into() },
        other => ApiError::BadKeyspace { why: other.to_string() },
    }
}

/// As `event_loop::serve` tells it to connections.
const NO_LEADER: &str = "no node has answered as the leader of the key's shard; nothing was done";
const LOCKED: &str = "transactions had the key all the time; nothing was done";

/// What is told of what was not done; `id` is of a request that may have changed something.
fn not_done(why: NotDone, id: Option<RequestId>) -> ApiError {
    let why = match (why, id) {
        (NotDone::DiskFull, _) => return ApiError::DiskFull,
        (NotDone::Dropped | NotDone::Unknown, Some(id)) => return ApiError::Unknown { id },
        (NotDone::NoSuchShard | NotDone::Dropped, _) => return ApiError::KeyspaceDropped,
        (NotDone::NotLeader | NotDone::Replaced | NotDone::Unknown, _) => NO_LEADER,
        (NotDone::Lags, _) => {
            "the replica of the key's shard here lacks too much; nothing was done"
        }
        (NotDone::Busy, _) => {
            "too much waits for the node that leads the key's shard; nothing was done"
        }
        (NotDone::Locked, _) => LOCKED,
        (NotDone::TooLong, _) => {
            "what is wanted of a shard elsewhere is too long; nothing was done"
        }
        (NotDone::CrossShard, _) => {
            "the shard was cut between the request's keys meanwhile; nothing was done"
        }
    };
    ApiError::Busy { why }
}
