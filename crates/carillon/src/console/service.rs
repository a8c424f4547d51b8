//! The simulated cluster, as nodes' API asks for it: [`api::NodeService`].
//!
//! What only looks is answered from what the simulation shows. What changes something is an action
//! of the simulation, which its file then has, and is answered when the simulated nodes have
//! answered.

use api::events::{Wake, WatchRequest, Watching};
use api::{
    AdminState, Answer, ApiError, ClusterVersionStatus, Command, CutAt, Decisions, Done, History,
    HistoryQuery, KeysPage, KeysQuery, KeyspaceChange, KeyspaceInfo, KeyspaceSpec, MergeStatus,
    Metrics, NodeAdminState, NodeService, Nodes, RequestId, RouteStatus, Shards, ShardsQuery,
    SplitStatus, Status, TopicService, Txn, TxnDone, TxnOp, TxnResult,
};
use command::Reply;
use keyspace::{CatalogueError, Placement};
use node::control::{self, NoMergeReason, NoSplit};
use overlay::LookupChoice;
use sim::live::action::{Action, AdminWord, Bytes, Layout, SplitAt};
use sim::live::{KeyView, Outcome, Phase, Simulation};

use super::decisions::cut_at;
use super::driver::{Driver, Handle};
use super::{keys, transactions, views};

const PAUSED: &str = "the simulation is paused: nothing was done; press play, or let time pass by \
                      steps";
const ENDED: &str = "the simulation has ended, or a rule is broken: nothing was done; begin anew";
pub(super) const NO_LEADER: &str = "no simulated node that is up leads the shard; nothing was done";
const NOT_SIMULATED: &str = "transactions of several requests are not simulated; nothing was done";

/// See the module's documentation.
pub struct Service {
    /// The thread that drives the simulation.
    pub handle: Handle,
}

impl Service {
    /// Looks at the simulation, or gives what there is to say without it.
    fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Simulation) -> T + Send + 'static,
        otherwise: impl FnOnce() -> T,
    ) -> T {
        self.handle.ask(|driver| look(&driver.sim)).unwrap_or_else(otherwise)
    }

    /// Has something done, and answers when it is.
    fn act<T: Send + 'static>(
        &self,
        action: impl FnOnce(&Simulation) -> Result<Action, ApiError> + Send + 'static,
        id: Option<RequestId>,
        told: impl FnOnce(&Simulation, Outcome) -> Result<T, ApiError> + Send + 'static,
        done: Done<T>,
    ) {
        let job = move |driver: &mut Driver| {
            let action = match may_act(driver).and_then(|()| action(&driver.sim)) {
                Ok(action) => action,
                Err(error) => return done(Err(error)),
            };
            match driver.sim.act(action) {
                Ok(Some(request)) => driver.wait_for(
                    request,
                    Box::new(move |sim, outcome| {
                        done(match (outcome, id) {
                            (Outcome::Unknown, Some(id)) => Err(ApiError::Unknown { id }),
                            (Outcome::Unknown, None) => Err(ApiError::Busy { why: NO_LEADER }),
                            (Outcome::NotDone(why), id) => Err(not_done(why, id)),
                            (outcome, _) => told(sim, outcome),
                        });
                    }),
                ),
                Ok(None) => done(Err(ApiError::Busy { why: NO_LEADER })),
                Err(why) => done(Err(refused(why.to_string()))),
            }
        };
        self.handle.have_done(Box::new(job));
    }
}

pub(super) fn may_act(driver: &Driver) -> Result<(), ApiError> {
    match driver.sim.phase() {
        Phase::Broken | Phase::Over => Err(ApiError::Busy { why: ENDED }),
        _ if !driver.is_running => Err(ApiError::Busy { why: PAUSED }),
        Phase::Forming => Err(ApiError::Loading),
        Phase::Running => Ok(()),
    }
}

/// A refusal of the simulation.
pub(super) fn refused(why: String) -> ApiError {
    ApiError::AdminStateRefused { why }
}

pub(super) fn not_done(why: command::NotDone, id: Option<RequestId>) -> ApiError {
    use command::NotDone;
    match (why, id) {
        (NotDone::DiskFull, _) => ApiError::DiskFull,
        (NotDone::Dropped | NotDone::OutcomeUnknown, Some(id)) => ApiError::Unknown { id },
        (NotDone::NoSuchShard | NotDone::Dropped, _) => ApiError::KeyspaceDropped,
        _ => ApiError::Busy { why: NO_LEADER },
    }
}

fn of_catalogue(error: CatalogueError) -> ApiError {
    match error {
        CatalogueError::Exists { name } => ApiError::KeyspaceExists { name: name.into() },
        CatalogueError::NotFound { name } => ApiError::NoKeyspace { name: name.into() },
        other => ApiError::BadKeyspace { why: other.to_string() },
    }
}

fn of_node(error: CatalogueError) -> ApiError {
    ApiError::AdminStateRefused { why: error.to_string() }
}

pub(super) fn keyspace_named(sim: &Simulation, name: &str) -> Result<keyspace::Keyspace, ApiError> {
    let found = sim.keyspaces().into_iter().find(|keyspace| &*keyspace.name == name);
    found.ok_or_else(|| ApiError::NoKeyspace { name: name.to_owned() })
}

fn info(sim: &Simulation, keyspace: &keyspace::Keyspace) -> KeyspaceInfo {
    let shards = sim.shards();
    let its = || shards.iter().filter(|one| one.descriptor.keyspace() == keyspace.id);
    KeyspaceInfo {
        id: keyspace.id.0,
        name: keyspace.name.to_string(),
        placement: match keyspace.options.placement {
            Placement::Hashed => api::Placement::Hashed,
            Placement::Ordered => api::Placement::Ordered,
            Placement::LinearHash => api::Placement::LinearHash,
        },
        durability: match keyspace.options.durability {
            keyspace::Durability::Sync => api::Durability::Sync,
            keyspace::Durability::Interval => api::Durability::Interval,
            keyspace::Durability::Memory => api::Durability::Memory,
        },
        retention_ms: keyspace.options.retention_ms,
        replicas: keyspace.options.replicas,
        skip_equal_writes: keyspace.options.skips_equal,
        volume: keyspace.options.volume.map(Into::into),
        clone_of: None,
        shards: its().count() as u64,
        keys: its().map(|shard| shard.keys).sum(),
        warnings: Vec::new(),
    }
}

impl TopicService for Service {}

impl NodeService for Service {
    fn call(&self, id: RequestId, keyspace: &str, command: Command, done: Done<Answer>) {
        let keyspace = keyspace.to_owned();
        let (key, value, expires_at_ms, when) = match command {
            Command::Get { key, at, stale_ms: _ } => {
                let look =
                    move |driver: &mut Driver| done(keys::get(&driver.sim, &keyspace, &key, at));
                self.handle.have_done(Box::new(look));
                return;
            }
            Command::Put { key, value, expires_at_ms, when } => {
                (key, Some(value), expires_at_ms, when)
            }
            Command::Delete { key, when } => (key, None, None, when),
        };
        let job = move |driver: &mut Driver| {
            let sim = &mut driver.sim;
            let is_met = keyspace_named(sim, &keyspace)
                .and_then(|_| keys::meets(sim, &keyspace, &key, &when));
            match is_met {
                Ok(true) => {}
                Ok(false) => return done(Ok(Answer::ConditionFailed)),
                Err(error) => return done(Err(error)),
            }
            if let Err(error) = may_act(driver) {
                return done(Err(error));
            }
            let (named, bytes) = (Some(keyspace.clone()), Bytes(key.to_vec()));
            let action = match value {
                Some(value) => Action::Put {
                    key: bytes,
                    value: Bytes(value.to_vec()),
                    keyspace: named,
                    ttl_ms: expires_at_ms.map(|at| at.saturating_sub(driver.sim.wall_ms())),
                },
                None => Action::Delete { key: bytes, keyspace: named },
            };
            let request = match driver.sim.act(action) {
                Ok(Some(request)) => request,
                Ok(None) => return done(Err(ApiError::Busy { why: NO_LEADER })),
                Err(why) => return done(Err(refused(why.to_string()))),
            };
            let told = move |sim: &Simulation, outcome| match outcome {
                Outcome::Applied(Reply::Int(0)) => done(Ok(Answer::NothingToDelete)),
                Outcome::Applied(_) => {
                    let timestamp = match sim.key(&keyspace, &key, None) {
                        KeyView::Value(version) => Some(version.timestamp),
                        _ => None,
                    };
                    done(Ok(Answer::Written { timestamp }));
                }
                Outcome::NotDone(why) => done(Err(not_done(why, Some(id)))),
                _ => done(Err(ApiError::Unknown { id })),
            };
            driver.wait_for(request, Box::new(told));
        };
        self.handle.have_done(Box::new(job));
    }

    fn transact(&self, id: RequestId, txn: Txn, done: Done<TxnDone>) {
        transactions::transact(&self.handle, id, txn, done);
    }

    fn txn_begin(&self, _: &str, _: u64, done: Done<String>) {
        done(Err(ApiError::Busy { why: NOT_SIMULATED }));
    }

    fn txn_run(&self, _: &str, _: Vec<TxnOp>, done: Done<Vec<TxnResult>>) {
        done(Err(ApiError::NoTransaction { why: NOT_SIMULATED.to_owned() }));
    }

    fn txn_commit(&self, _: RequestId, _: &str, done: Done<()>) {
        done(Err(ApiError::NoTransaction { why: NOT_SIMULATED.to_owned() }));
    }

    fn txn_rollback(&self, _: &str) -> Result<(), ApiError> {
        Err(ApiError::NoTransaction { why: NOT_SIMULATED.to_owned() })
    }

    fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let all = |sim: &Simulation| sim.keyspaces().iter().map(|one| info(sim, one)).collect();
        self.look(all, Vec::new)
    }

    fn keyspace(&self, name: &str) -> Result<KeyspaceInfo, ApiError> {
        let name = name.to_owned();
        let one = move |sim: &Simulation| {
            let keyspace = keyspace_named(sim, &name)?;
            Ok(info(sim, &keyspace))
        };
        self.look(one, || Err(ApiError::Stopping))
    }

    fn keyspace_create(&self, spec: KeyspaceSpec, done: Done<KeyspaceInfo>) {
        let name = spec.name.clone();
        let action = move |_: &Simulation| {
            Ok(Action::Keyspace {
                name: spec.name,
                placement: match spec.placement {
                    api::Placement::Hashed => Layout::Hashed,
                    api::Placement::Ordered => Layout::Ordered,
                    api::Placement::LinearHash => Layout::LinearHash,
                },
                replicas: spec.replicas,
            })
        };
        let told = move |sim: &Simulation, outcome| match outcome {
            Outcome::Catalogue(Err(error)) => Err(of_catalogue(error)),
            _ => {
                let keyspace = keyspace_named(sim, &name)?;
                Ok(info(sim, &keyspace))
            }
        };
        self.act(action, None, told, done);
    }

    fn keyspace_alter(&self, _: &str, _: KeyspaceChange, done: Done<KeyspaceInfo>) {
        let why = "changes of keyspaces are not simulated: make another one".to_owned();
        done(Err(ApiError::BadKeyspace { why }));
    }

    fn keyspace_drop(&self, name: &str, done: Done<()>) {
        let name = name.to_owned();
        let action = move |_: &Simulation| Ok(Action::DropKeyspace { name });
        let told = |_: &Simulation, outcome| match outcome {
            Outcome::Catalogue(Err(error)) => Err(of_catalogue(error)),
            _ => Ok(()),
        };
        self.act(action, None, told, done);
    }

    fn history(&self, keyspace: &str, key: bytes::Bytes, asked: HistoryQuery, done: Done<History>) {
        let keyspace = keyspace.to_owned();
        let look =
            move |driver: &mut Driver| done(keys::history(&driver.sim, &keyspace, &key, asked));
        self.handle.have_done(Box::new(look));
    }

    fn keys(&self, keyspace: &str, asked: KeysQuery, done: Done<KeysPage>) {
        let keyspace = keyspace.to_owned();
        let look = move |driver: &mut Driver| done(keys::keys(&driver.sim, &keyspace, &asked));
        self.handle.have_done(Box::new(look));
    }

    fn route(
        &self,
        keyspace: &str,
        key: &[u8],
        ways: &[LookupChoice],
        is_traced: bool,
        done: Done<Vec<RouteStatus>>,
    ) {
        let (keyspace, key, ways) = (keyspace.to_owned(), key.to_vec(), ways.to_vec());
        let look = move |driver: &mut Driver| {
            let sim = &driver.sim;
            if let Err(error) = keyspace_named(sim, &keyspace) {
                return done(Err(error));
            }
            let routes = keys::routes(sim, &keyspace, &key, None, &ways, is_traced);
            done(routes.map_err(refused));
        };
        self.handle.have_done(Box::new(look));
    }

    fn now_millis(&self) -> u64 {
        self.handle.stream().now().millis()
    }

    fn not_ready(&self) -> Option<String> {
        let look = |sim: &Simulation| match sim.phase() {
            Phase::Forming => Some("the simulated cluster is forming".to_owned()),
            _ => None,
        };
        self.look(look, || Some("the simulation has ended".to_owned()))
    }

    fn status(&self) -> Status {
        // The driver lives as long as its server.
        self.handle.ask(|driver| views::status(&driver.sim)).expect("the simulation's thread runs")
    }

    fn nodes(&self) -> Nodes {
        self.look(views::nodes, Nodes::default)
    }

    fn set_admin_state(
        &self,
        id: RequestId,
        node: &str,
        admin_state: AdminState,
        _unknown_too: bool,
        done: Done<NodeAdminState>,
    ) {
        let node = node.to_owned();
        let named = node.clone();
        let action = move |_: &Simulation| {
            let state = AdminWord::from(keyspace::AdminState::from(admin_state));
            Ok(Action::Admin { node, state })
        };
        let told = move |sim: &Simulation, outcome| match outcome {
            Outcome::Catalogue(Err(error)) => Err(of_node(error)),
            _ => {
                let nodes = sim.nodes();
                let is_it =
                    |one: &&sim::live::NodeView| one.name == named || views::id(one.id) == named;
                let found = nodes.iter().find(is_it);
                let found =
                    found.ok_or(ApiError::NoNode { node: named.clone(), known: Vec::new() })?;
                Ok(NodeAdminState {
                    id: views::id(found.id),
                    name: Some(found.name.clone()),
                    admin_state,
                    replicas: found.replicas,
                    leads: found.leads,
                    data_bytes: found.data_bytes,
                })
            }
        };
        self.act(action, Some(id), told, done);
    }

    fn shards(&self, asked: &ShardsQuery<'_>) -> Result<Shards, ApiError> {
        let keyspace = asked.keyspace.map(str::to_owned);
        let (after, limit) = (asked.after, asked.limit);
        let look = move |sim: &Simulation| {
            if let Some(name) = &keyspace {
                keyspace_named(sim, name)?;
            }
            let (all, nodes) = (sim.shards(), sim.nodes());
            let health = views::health(sim, &all);
            let shown = all.iter().map(|shard| views::shard(shard, &nodes));
            let shown = shown.filter(|one| keyspace.is_none() || one.keyspace == keyspace);
            let asked = ShardsQuery { keyspace: keyspace.as_deref(), after, limit };
            let page = Shards::page(health, shown, &asked);
            let node = views::asked(&nodes).map(|node| views::id(node.id)).unwrap_or_default();
            Ok(Shards { node, ..page })
        };
        self.look(look, || Err(ApiError::Stopping))
    }

    fn split(&self, shard: u64, at: Option<CutAt>, done: Done<SplitStatus>) {
        let action = move |_: &Simulation| {
            let at = at.map(|at| match at {
                CutAt::Slot(slot) => SplitAt::Slot(slot),
                CutAt::Key(key) => SplitAt::Key(key),
            });
            Ok(Action::Split { shard, at })
        };
        let told = move |_: &Simulation, outcome| match outcome {
            Outcome::Control(control::Reply::Split(Ok(plan))) => {
                Ok(SplitStatus { shard: plan.left.0, right: plan.right.0, at: cut_at(&plan.at) })
            }
            Outcome::Control(control::Reply::Split(Err(why))) => Err(match why {
                NoSplit::NoShard => ApiError::NoShard { shard },
                NoSplit::LedBy(_) | NoSplit::NoId => ApiError::Busy { why: NO_LEADER },
                NoSplit::CannotSplit(why) => ApiError::NoSplit { shard, why },
            }),
            _ => Err(ApiError::Busy { why: NO_LEADER }),
        };
        self.act(action, None, told, done);
    }

    fn merge(&self, shard: u64, done: Done<MergeStatus>) {
        let action = move |_: &Simulation| Ok(Action::Merge { shard });
        let told = move |_: &Simulation, outcome| match outcome {
            Outcome::Control(control::Reply::Merge(Ok(merged))) => {
                Ok(MergeStatus { shard: merged.left.0, right: merged.right.0, moves: merged.moves })
            }
            Outcome::Control(control::Reply::Merge(Err(why))) => Err(match why {
                NoMergeReason::NoShard => ApiError::NoShard { shard },
                NoMergeReason::LedBy(_) => ApiError::Busy { why: NO_LEADER },
                NoMergeReason::CannotMerge(why) => ApiError::NoMerge { shard, why },
            }),
            _ => Err(ApiError::Busy { why: NO_LEADER }),
        };
        self.act(action, None, told, done);
    }

    fn cluster_version(&self) -> ClusterVersionStatus {
        self.look(|sim| views::cluster_version(&sim.nodes()), || views::cluster_version(&[]))
    }

    fn raise_version(&self, _: RequestId, _: Option<u8>, done: Done<ClusterVersionStatus>) {
        let why = "the simulated cluster has the newest cluster version already".to_owned();
        done(Err(ApiError::VersionRefused { why }));
    }

    fn decisions(&self, dry: bool) -> Decisions {
        // What nodes would decide they do decide: balancing is on.
        let look = move |driver: &mut Driver| if dry { Vec::new() } else { driver.decisions() };
        let decisions = self.handle.ask(look).unwrap_or_default();
        Decisions { balances: true, decisions, silent: Vec::new() }
    }

    fn watch(&self, asked: &WatchRequest, wake: Wake) -> Result<Watching, ApiError> {
        if let Some(name) = asked.filter.keyspace() {
            self.keyspace(name)?;
        }
        self.handle.stream().watch(asked, wake)
    }

    fn metrics(&self) -> Metrics {
        let (viewers, events, cut_off) = self.handle.stream().counts();
        let look = move |sim: &Simulation| {
            let (mut metrics, counts) = (Metrics::default(), sim.counts());
            let done = counts.answered;
            metrics.counter("carillon_commands_total", "Simulated requests that were done.", done);
            let refused = counts.refused + counts.unknown;
            let help = "Simulated requests that were refused, or of which nobody knows.";
            metrics.counter("carillon_command_errors_total", help, refused);
            let help = "Virtual time since the beginning of the simulation.";
            metrics.gauge("carillon_sim_seconds", help, sim.now_ms() as f64 / 1_000.0);
            metrics.gauge("carillon_event_viewers", "Viewers of events.", viewers as f64);
            metrics.counter("carillon_events_total", "Events of all simulated nodes.", events);
            let help = "Viewers of events that were cut off, since they read nothing.";
            metrics.counter("carillon_event_viewers_cut_off_total", help, cut_off);
            metrics
        };
        self.look(look, Metrics::default)
    }
}
