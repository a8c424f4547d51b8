//! A node's control plane, as a pure state machine: what the node decides beside its executors.
//!
//! An executor ([`crate::executor`]) acts for one shard at a time. Control decides what concerns
//! several shards, or remote ones: routes, which replicas begin and end, splits, merges, placement,
//! the catalogue.
//!
//! ```text
//!   executors: catalogue changed, shard learned, ─┐              ┌─► executors: Create, Drop …
//!     half begun, merge hand-over, replica ended  ├─► Control ───┼─► readers: routes, views
//!   peers: first messages, lookup messages        │    │  ▲      ├─► peers: RPCs, lookup messages
//!   driver: members, time                        ─┘    ▼  │      └─► events
//!                                                 questions to executors
//! ```
//!
//! A driver queues inputs in the order in which they came and steps one after the other; it carries
//! out the effects of one step, in their order, before the next. The server and the simulator drive
//! the same object.
//!
//! # Invariants
//! 1. Its actions follow from its inputs, in their order, the answers of [`Executors`], and the
//!    clock it is given. It has no clock, thread, socket or file of its own.
//! 2. It may be wrong about other shards, and that costs time. Only a shard's own log decides what
//!    it owns (SAFETY G1, G11).
//! 3. A replica is in [`Views`] before its executor begins it, and out before its executor drops
//!    it. So no executor begins it twice.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | questions about the catalogue in flight | one | the next is asked when it is answered |
//! | other questions in flight | a few for each shard that is led here | – |
//! | waiting inputs ([`Queue`]) | [`LOOKUP_MESSAGES_MAX`] messages of lookups | drops the oldest |
//! | rerouted commands that wait | what their clients may have in flight | clients wait |
//!
//! # Where to start
//! [`Input`], [`Effect`], then [`Control::step`].

mod bootstrap;
mod catalogue_cache;
pub mod checkpoints;
pub mod decisions;
mod effect;
mod handover;
mod input;
mod merges;
mod placement;
mod planted;
mod queue;
mod request;
mod reshape;
mod routes;
mod shared;
pub mod snapshots;
mod splits;
mod table;
mod tables;
pub mod version;

use std::sync::Arc;

use keyspace::{
    AdminState, AdminStates, ClusterVersion, Feature, Libraries, NodeId, ReplicaId, ShardId,
};
use overlay::Lookup as _;
use replication::BootNanos;
use storage::engine::Settings;

use crate::event::{EventKind, MemberChange};
use crate::executor::{Answer, Origin, ShardExecutor};
use crate::reshape::merge::MergedTiles;
use crate::reshape::reroute::PendingReroutes;
use catalogue_cache::CatalogueCache;
pub use effect::Effect;
pub use input::{FirstMessage, Input, Members};
use merges::MergeState;
use placement::Placement;
pub use placement::{DryRunDecision, Gossip, PlacementSetup};
pub use planted::PlantedBug;
pub use queue::{LOOKUP_MESSAGES_MAX, Queue};
pub use request::{CutAt, Merged, NoMergeReason, NoSplit, Reply, Request, SplitPlan};
use reshape::Questions;
pub use reshape::{HotShard, Loads, ReshapeLimits, ReshapePace};
pub use routes::Routes;
pub use shared::{DescriptorTable, TableGuard, Views};
use splits::SplitState;
use tables::Tables;
pub use version::MemberVersions;
use version::RaisableVersion;

/// The origin of control's own requests to executors.
pub const CONTROL: Origin = Origin(u32::MAX - 2);
/// The system shard.
const SYSTEM: ShardId = ShardId(0);
/// Every so many ticks tables of descriptors are compared, and the catalogue is asked for.
const LOOKUP_TICKS: u64 = 4;

/// What control asks the executors between two of its steps. They answer as of a moment between two
/// of their own step rounds.
pub trait Executors {
    /// Looks at the executor of a shard.
    fn look(&mut self, shard: ShardId, at: &mut dyn FnMut(&ShardExecutor));

    /// Looks at every executor.
    fn look_at_all(&mut self, at: &mut dyn FnMut(&ShardExecutor));
}

impl dyn Executors + '_ {
    /// What the executor of a shard says.
    fn of<R>(&mut self, shard: ShardId, ask: impl FnOnce(&ShardExecutor) -> R) -> R {
        let (mut ask, mut answer) = (Some(ask), None);
        self.look(shard, &mut |executor| answer = ask.take().map(|ask| ask(executor)));
        answer.expect("every shard has an executor, which looks once")
    }
}

/// The settings with which a node's control plane starts.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The node.
    pub node: NodeId,
    /// The settings of engines of new replicas.
    pub settings: Settings,
    /// How long a rerouted command waits for its shard to become known, in nanoseconds.
    pub request_timeout: u64,
    /// Whether it asks other nodes for the catalogue while it has no replica of it.
    pub caches_catalogue: bool,
    /// When shards are cut and merged without being asked to …
    pub limits: ReshapeLimits,
    /// … and how fast.
    pub pace: ReshapePace,
    /// How replicas and leaders are placed.
    pub placement: PlacementSetup,
    /// The cluster version rises when all nodes have supported the next one for so many
    /// nanoseconds. None: only an operator raises it.
    pub raise_version_after: Option<u64>,
    /// Drawn at random.
    pub seed: u64,
}

/// See the module's documentation.
pub struct Control {
    setup: Setup,
    views: Views,
    table: DescriptorTable,
    routes: Arc<Routes>,
    admin_states: Arc<AdminStates>,
    libraries: Libraries,
    /// None before it is known.
    cluster_version: Option<ClusterVersion>,
    catalogue: CatalogueCache,
    members: Members,
    /// Tiles that routes do not lead to any more.
    merged_tiles: MergedTiles,
    /// What shards have turned away, until it is known whose it is.
    postponed: PendingReroutes,
    /// The boot clock, as it was last told.
    now: BootNanos,
    ticks: u64,
    loads: Loads,
    splits: SplitState,
    merges: MergeState,
    tables: Tables,
    placement: Placement,
    raisable_version: RaisableVersion,
    questions: Questions,
    planted: Option<PlantedBug>,
    effects: Vec<Effect>,
}

impl Control {
    /// Before the first input.
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            views: Views::default(),
            table: DescriptorTable::new(setup.seed),
            routes: Arc::default(),
            admin_states: Arc::default(),
            libraries: Libraries::default(),
            cluster_version: None,
            catalogue: CatalogueCache::default(),
            members: Members::default(),
            merged_tiles: MergedTiles::default(),
            postponed: PendingReroutes::default(),
            now: 0,
            ticks: 0,
            loads: Loads::default(),
            splits: SplitState::default(),
            merges: MergeState::default(),
            tables: Tables::default(),
            placement: Placement::default(),
            raisable_version: None,
            questions: Questions::default(),
            planted: None,
            effects: Vec::new(),
        }
    }

    /// Tells it the boot clock. Time never goes back.
    pub fn observe(&mut self, now: BootNanos) {
        self.now = self.now.max(now);
    }

    /// Whether it asks other nodes for the catalogue from now on.
    pub fn cache_catalogue(&mut self, caches: bool) {
        self.setup.caches_catalogue = caches;
    }

    /// The views of the replicas that are here, or are about to begin.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// Where shards are.
    pub fn table(&self) -> &DescriptorTable {
        &self.table
    }

    /// The routes as they were last published.
    pub fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// The administrative states of nodes, as far as they are known here.
    pub fn admin_states(&self) -> &Arc<AdminStates> {
        &self.admin_states
    }

    /// The version that the cluster has, as far as it is known here.
    pub fn cluster_version(&self) -> Option<ClusterVersion> {
        self.cluster_version
    }

    /// Takes one input, and returns its effects, in this order.
    pub fn step(&mut self, input: Input, executors: &mut dyn Executors) -> Vec<Effect> {
        match input {
            Input::Catalogue(change) => self.follow(change, executors),
            Input::CatalogueReplaced(catalogue) => self.jump(&catalogue, executors),
            Input::SafePoint(keyspace, to) => self.raise_safe_points(keyspace, &to),
            Input::Answer(answer) => self.answered(answer, executors),
            Input::DescriptorsLearned(known) => self.learn(known, executors),
            Input::LookupMessage { from, message } => self.table_message(from, message, executors),
            Input::RightHalf(start) => self.begin_half(*start, executors),
            Input::Rerouted(moved) => {
                self.postponed.add(moved, self.now);
                self.reroute();
            }
            Input::MergeMessage(shard, word) => self.send_merge_message(shard, word, executors),
            Input::HandoverRequest(waits) => self.handover_requests(waits),
            Input::MergeHandover(given) => self.given(given),
            Input::PendingRequests(pending_requests) => self.pending_requests(*pending_requests),
            Input::ReplicaEnded(shard) => self.ended(shard, executors),
            Input::FirstMessage(first) => self.first_message(*first, executors),
            Input::Members(members) => self.members_changed(members),
            Input::Request { id, request } => self.asked_for(id, request, executors),
            Input::AddReplicas(gossip) => self.add_replicas(&gossip),
            Input::PlanPlacement(gossip) => self.place(&gossip, executors),
            Input::SpreadLeaders(gossip) => self.spread_leaders(&gossip, executors),
            Input::RaiseVersion(members) => self.raise_version(&members, executors),
            Input::Tick => self.tick(),
            Input::MaintainTables => self.maintain_tables(executors),
            Input::MaintainShards(loads) => self.look_around(loads, executors),
        }
        std::mem::take(&mut self.effects)
    }

    /// A recovered replica was given to its executor.
    pub fn adopt(&mut self, view: crate::routing::route::View) {
        let shard = view.read().descriptor.shard;
        self.views.insert(shard, view);
    }

    fn tick(&mut self) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(LOOKUP_TICKS) {
            self.tick_table();
            self.ask_for_catalogue();
        }
        self.reroute();
    }

    /// About a second has passed: what was decided by what shards hold, and how often they are
    /// asked.
    fn look_around(&mut self, loads: Loads, executors: &mut dyn Executors) {
        self.loads = loads;
        self.split_large(executors);
        self.grow_tables(executors);
        self.supersede_left_over();
        self.merge_small(executors);
        self.split_hot(executors);
    }

    fn asked_for(&mut self, id: u64, request: Request, executors: &mut dyn Executors) {
        match request {
            Request::Split { shard, at } => self.ask_split(id, shard, at, executors),
            Request::Merge { left } => self.ask_merge(id, left, executors),
            Request::DryRunPlacement(gossip) => self.dry_run_placement(id, &gossip, executors),
        }
    }

    /// Whether all nodes can read what comes of a feature.
    fn may_use(&self, feature: Feature) -> bool {
        self.cluster_version.unwrap_or_default().allows(feature)
    }

    fn answered(&mut self, answer: Answer, executors: &mut dyn Executors) {
        match answer.origin() {
            CONTROL => self.question_answered(answer, executors),
            _ => self.effects.push(Effect::Answer(answer)),
        }
    }

    fn members_changed(&mut self, members: Members) {
        if self.members != members {
            self.report_members(&members);
            self.members = members;
            self.table.lock().peers(&self.members.up);
        }
    }

    /// Reports which nodes have come or gone.
    fn report_members(&mut self, now: &Members) {
        let change = |node: NodeId, state| Effect::Event(EventKind::Member { node, state });
        let before = &self.members;
        let gone = before.all.iter().filter(|node| !now.all.contains(node));
        let down = now.all.iter().filter(|node| !now.up.contains(node));
        let were_up = |node: &&NodeId| before.up.contains(node) || !before.all.contains(node);
        let up = now.up.iter().filter(|node| !before.up.contains(node));
        let gone = gone.map(|node| change(*node, MemberChange::Gone));
        let down = down.filter(were_up).map(|node| change(*node, MemberChange::Down));
        let up = up.map(|node| change(*node, MemberChange::Up));
        self.effects.extend(gone.chain(down).chain(up));
    }

    fn submit(&mut self, shard: ShardId, input: crate::executor::Input) {
        self.effects.push(Effect::Submit(shard, input));
    }

    /// The cluster has this version, or a higher one by now.
    fn follow_version(&mut self, version: ClusterVersion) {
        if self.cluster_version.is_none_or(|before| before < version) {
            let before = self.cluster_version.replace(version);
            self.effects.push(Effect::ClusterVersion { version, before });
        }
    }

    /// A node has this administrative state from now on.
    fn follow_admin_state(&mut self, node: NodeId, admin_state: AdminState) {
        let mut states = (*self.admin_states).clone();
        let before = states.of(node);
        states.set(node, admin_state);
        if before != admin_state {
            let event = EventKind::AdminState { node, before, now: admin_state };
            self.effects.push(Effect::Event(event));
        }
        self.follow_admin_states(states);
    }

    fn follow_admin_states(&mut self, states: AdminStates) {
        if *self.admin_states != states {
            self.admin_states = Arc::new(states);
            self.effects.push(Effect::AdminStates(self.admin_states.clone()));
        }
    }

    /// These are the libraries of functions from now on.
    fn follow_libraries(&mut self, libraries: &Libraries) {
        if self.libraries != *libraries {
            self.libraries = libraries.clone();
            self.effects.push(Effect::Libraries(libraries.clone()));
        }
    }

    /// Whether this replica of a shard has not ended here, nor has the shard: another one that took
    /// it in took its keys, too, whether or not that one still has a replica here.
    fn may_begin(shard: ShardId, replica: ReplicaId, executors: &mut dyn Executors) -> bool {
        executors.of(shard, |executor| {
            executor.merged_into(shard).is_none()
                && executor.ended_replica(shard).is_none_or(|ended| ended < replica)
        })
    }
}
