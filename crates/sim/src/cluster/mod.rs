//! A run of a whole cluster: several nodes, each the machine of a single-node run, a network
//! between them, clients who ask any of them, and bad luck.
//!
//! ```text
//!   seed ─► mood ─► one node begins, the others join ─► replicas are added
//!        ─► safety phase: faults ─► heal ─► liveness phase ─► all replicas equal ─► checkers
//! ```
//!
//! Time goes on by the millisecond. In each, packets that are due arrive, and every node that runs
//! and is not paused does a few things in random order: an executor takes inputs, or appends; a
//! sync begins or ends; news are spread; a client is served. So messages overtake each other, disks
//! and nodes are slow at random, and nothing waits for anything that a real node would not wait
//! for.
//!
//! | file | what |
//! |---|---|
//! | `begin` | nodes join, shards get their replicas |
//! | `node_steps` | what a node does in a millisecond |
//! | [`network`] | packets on their way: lost, repeated, late, cut off in one direction |
//! | [`attacker`] | somebody alters messages between nodes, and forges handshakes |
//! | [`disks`] | disks that fail, are full, lose power in a write, lose the end of a log |
//! | [`faults`] | crashes, loss of power, pauses, partitions, lost links, leader transfers |
//! | `moves` | replicas are replaced by others on other nodes |
//! | `splits`, `merges`, `linear_hash` | shards are split and merged; linear-hash tables grow and shrink |
//! | `upgrade` | nodes come back as other versions, and the cluster version rises |
//! | [`clients`] | their requests, how they wait, what they have seen |
//! | `settle` | the end: every client is answered, all replicas are equal |
//! | `commands` | which commands, of which keys |
//! | `keyspace_scans` | FLUSH, and commands over all keys |
//! | `multi_shard` | transactions over several shards |
//! | `pipelines` | clients that send reads and writes without waiting between them |
//! | `tracking` | clients that cache what they read |
//! | `feeds` | clients with change feeds |
//! | `volumes` | clients that write blocks, one session of them at a time |
//! | `collection` | safe points rise, old versions are collected |
//! | `gossip`, `placement` | what nodes know of each other; leaders ask the balancer |
//! | `convergence` | the ring becomes ideal |
//! | `directed` | what directed scenarios do to the cluster ([`crate::scenario`]) |
//! | `live` | what a simulation that somebody watches does, and shows ([`crate::live`]) |
//! | [`catalogue`] | keyspaces that come, change and go; all nodes agree about them |
//!
//! The checkers look for:
//!
//! - one leader a term (R1); replicas apply the same entries (R3)
//! - no election while another leader's lease runs (R5, G4 to G6)
//! - no acknowledged write missing and none invented (R6, linearizability of clients' histories)
//! - same seed, same bytes (R13)
//! - after the heal: every client answered within a bound, the same state everywhere (R8), and in
//!   each node's table all shards as their leaders know them
//! - where leaders ask the balancer, an ideal ring before that (R1, R2, R12:
//!   [`crate::check::ring`])

pub mod attacker;
mod begin;
mod broken_promises;
pub mod catalogue;
pub mod clients;
mod collection;
mod commands;
mod convergence;
mod counts;
mod directed;
pub mod disks;
pub mod faults;
mod feeds;
mod gossip;
mod keyspace_scans;
mod linear_hash;
pub(crate) mod live;
mod merges;
mod moves;
mod multi_shard;
pub mod network;
mod node_slot;
mod node_steps;
pub mod options;
mod pipelines;
mod placement;
mod settle;
mod snapshots;
mod splits;
mod tracking;
mod upgrade;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use keyspace::{ClusterVersion, NodeId, ShardId};

use crate::check::Violation;
use crate::check::agreement::Agreement;
use crate::machine::open::Cluster;
use crate::options::Fault;
use crate::rng::Rng;
use crate::trace::Trace;
use clients::Clients;
pub use counts::Counts;
pub(crate) use directed::ScenarioSetup;
pub(crate) use live::ViewerAnswer;
pub(crate) use multi_shard::CoordinatorDeath;
pub use multi_shard::workloads::Workload;
use network::Network;
pub(crate) use node_slot::NodeSlot;
pub use options::{Options, Plant, RunProfile};

/// The wall clock when a run begins.
pub(crate) const WALL_MS: u64 = 1_700_000_000_000;
/// Milliseconds between ticks of a node.
pub const TICK_MS: u64 = 50;
/// Virtual time that a healed cluster has to answer everyone.
const ANSWER_MS_MAX: u64 = 15_000;
/// Of so many nodes each does something in every millisecond; of twice as many in every second
/// one, and so on: else a large cluster would take very long.
const NODES_A_TURN: usize = 40;
/// Where there are transactions, states may be sent so many times as fast.
const MORE_TO_MOVE: NonZeroU64 = NonZeroU64::new(20).expect("20 is not 0");
/// The keyspace that clients use.
pub const KEYSPACE: &str = "0";

/// See the front page of this module.
pub struct World {
    options: Options,
    profile: RunProfile,
    pub(crate) rng: Rng,
    /// What happened.
    pub trace: Trace,
    pub(crate) now_ms: u64,
    pub(crate) node_slots: Vec<NodeSlot>,
    pub(crate) network: Network,
    pub(crate) attacker: attacker::Attacker,
    pub(crate) clients: Clients,
    agreement: Agreement,
    cluster: Option<Cluster>,
    pub(crate) calm: bool,
    promise_fault: Option<broken_promises::PromiseFault>,
    /// Lost links, and when which end learns of that.
    lost_links: Vec<(u64, usize, NodeId)>,
    /// Lost links of frames, and when which nodes have a new one.
    new_links: Vec<(u64, NodeId, NodeId)>,
    /// Whether leaders ask the balancer.
    placement_state: Option<placement::PlacementState>,
    /// Nothing else breaks until then.
    no_faults_until: u64,
    /// Whether versions are mixed.
    upgrading: Option<upgrade::UpgradeState>,
    /// Whether there are transactions over several shards.
    wide: Option<multi_shard::MultiShardClients>,
    /// Whether there are pipelines that mix reads and writes.
    pipelines: Option<pipelines::PipelineClients>,
    /// Clients that cache, if there are any.
    caches: Option<tracking::CachingClients>,
    /// Clients that read past times, if there are any.
    travellers: Option<snapshots::Travellers>,
    /// Clients with change feeds, if there are any.
    feeds: Option<feeds::FeedClients>,
    /// Clients of a volume, if there are any.
    volumes: Option<volumes::VolumeClients>,
    /// Workloads whose judges have found something.
    pub found_by: Vec<Workload>,
    /// Planted: how often each replica was seen to split.
    cuts: BTreeMap<(NodeId, ShardId), u64>,
    /// Shards with a requested split or merge.
    pub(crate) reshapes_begun: u64,
    /// Shards that were to begin as right halves.
    right_halves: BTreeSet<ShardId>,
    /// Nodes that stand still until they are told to go on, and since when.
    paused_since: BTreeMap<usize, u64>,
    /// What viewers are to see, if anybody does.
    pub(crate) watched: Option<live::Watched>,
    /// What it has seen.
    pub counts: Counts,
}

impl World {
    /// Before the first step.
    pub fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let profile = RunProfile::draw(&mut rng, options);
        let mut world = Self::with_profile(options, profile, rng);
        if multi_shard::has(options) {
            world.wide = Some(multi_shard::MultiShardClients::new(options));
            let has_pipelines = pipelines::has(options);
            let travels = snapshots::has(options);
            world.travellers = travels.then(|| snapshots::Travellers::new(options));
            world.feeds = feeds::has(options).then(|| feeds::FeedClients::new(options));
            world.pipelines = has_pipelines.then(|| pipelines::PipelineClients::new(options));
            // What is known of transactions is sent along with values.
            world.profile.snapshot_rate =
                profile.snapshot_rate.map(|rate| rate.saturating_mul(MORE_TO_MOVE));
        }
        if upgrade::mixes(options) {
            world.upgrading = Some(upgrade::UpgradeState::begin(options.seed, options.nodes));
            world.agreement = Agreement::from(ClusterVersion::FIRST);
        }
        world
    }

    /// Before the first step of a run that goes like this.
    fn with_profile(options: &Options, profile: RunProfile, mut rng: Rng) -> Self {
        let has_clock = options.faults.has(Fault::Clock);
        let drift_ppm = if has_clock { 20_000 } else { 0 };
        let node_slots =
            (0..options.nodes).map(|_| NodeSlot::new(&mut rng, &profile, drift_ppm)).collect();
        Self {
            options: options.clone(),
            profile,
            rng,
            trace: Trace::new(options.verbose),
            now_ms: 0,
            node_slots,
            network: Network::default(),
            attacker: attacker::Attacker::new(options.seed),
            clients: Clients::new(&profile),
            agreement: Agreement::from(ClusterVersion::NEWEST),
            cluster: None,
            calm: true,
            promise_fault: None,
            lost_links: Vec::new(),
            new_links: Vec::new(),
            placement_state: None,
            no_faults_until: 0,
            upgrading: None,
            wide: None,
            pipelines: None,
            travellers: None,
            feeds: None,
            volumes: volumes::has(options).then(|| volumes::VolumeClients::new(options)),
            caches: tracking::has(options).then(|| tracking::CachingClients::new(options)),
            found_by: Vec::new(),
            cuts: BTreeMap::new(),
            reshapes_begun: 0,
            right_halves: BTreeSet::new(),
            paused_since: BTreeMap::new(),
            watched: None,
            counts: Counts::default(),
        }
    }

    /// What the seed chose for the whole run.
    pub fn profile(&self) -> &RunProfile {
        &self.profile
    }

    /// All phases.
    ///
    /// # Errors
    /// The first rule that was found broken.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.begin()?;
        self.begin_multi_shard()?;
        self.begin_volumes()?;
        if self.profile.places_replicas {
            self.begin_placement(Vec::new());
        }
        self.calm = false;
        self.begin_attack();
        if let Some(writes) = self.options.power_at {
            self.power_goes_at(0, writes);
        }
        for _ in 0..self.options.millis {
            self.maybe_inject_fault()?;
            self.millisecond()?;
        }
        self.heal()?;
        self.judge_all()
    }

    /// Nothing breaks any more.
    fn judge_all(&mut self) -> Result<(), Violation> {
        self.feeds_get_on()?;
        self.volumes_get_on()?;
        if self.placement_state.is_some() {
            self.clients.asking = false;
            self.converge(convergence::CONVERGENCE_MS_MAX)?;
        }
        self.settle()?;
        self.check_files()?;
        self.counts.halves = self.halves();
        self.counts.version_rises = self.agreement.risen;
        self.counts.compared = self.agreement.compared;
        self.counts.forwarded = self.agreement.forwarded;
        (0..self.node_slots.len()).for_each(|at| self.count_streams(at));
        self.collect_all();
        self.compare_states()?;
        self.counts.unjudged = self.clients.search()?;
        self.judge_snapshots()?;
        self.judge_feeds()?;
        self.judge_volumes()?;
        self.search_wide()
    }

    /// Lets one millisecond pass.
    pub(super) fn millisecond(&mut self) -> Result<(), Violation> {
        self.now_ms += 1;
        self.counts.millis += 1;
        self.renew_links();
        self.trace.step = self.now_ms as u32;
        self.attack()?;
        self.deliver()?;
        let count = self.node_slots.len();
        let first = self.rng.below(count as u64) as usize;
        let turns = 1 + count / NODES_A_TURN;
        for at in (0..count).map(|number| (first + number) % count) {
            if (self.now_ms as usize + at).is_multiple_of(turns) {
                self.run_node(at)?;
            }
        }
        let turns = self.profile.is_linear && self.options.faults.has(Fault::Split) && !self.calm;
        if turns && self.now_ms.is_multiple_of(linear_hash::RESIZE_INTERVAL_MS) {
            self.resize_table();
        }
        self.resize_volume();
        self.step_placement();
        self.expire_ops();
        self.expire_multi_shard();
        self.step_pipelines()
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        for packet in self.network.due(self.now_ms) {
            let Some(at) = self.node_slots.iter().position(|seat| seat.node == packet.node())
            else {
                continue;
            };
            let Some(machine) = self.node_slots[at].machine.as_mut() else { continue };
            if let Err(error) = machine.receive(packet) {
                self.node_failed(at, &error)?;
            }
            self.follow_sent_on(at);
        }
        Ok(())
    }

    pub(crate) fn has(&self, plant: Plant) -> bool {
        self.options.plant == Some(plant)
    }
}
