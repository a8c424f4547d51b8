//! A run of a whole cluster: several nodes, each the machine of a single-node run, a network
//! between them, clients who ask any of them, and bad luck.
//!
//! ```text
//!   seed ─► mood ─► one node begins, the others join ─► replicas are added
//!        ─► safety phase: faults ─► heal ─► liveness phase ─► all replicas equal ─► checkers
//! ```
//!
//! Time goes on by the millisecond. In each, packets that are due arrive, and every node that runs
//! and is not paused does a few things in random order: a lane takes inputs, or appends; a sync
//! begins or ends; news are spread; a client is served. So messages overtake each other, disks and
//! nodes are slow at random, and nothing waits for anything that a real node would not wait for.
//!
//! | file | what |
//! |---|---|
//! | [`network`] | packets on their way: lost, repeated, late, cut off in one direction |
//! | [`disks`] | disks that fail, are full, lose power in a write, lose the end of a log |
//! | [`faults`] | crashes, loss of power, pauses, partitions, lost links, leaders that are told to go |
//! | `moves` | replicas are exchanged for others on other nodes |
//! | `splits` | shards are cut in two |
//! | `upgrade` | nodes come back as other versions, and the cluster's level rises |
//! | [`clients`] | what they ask, how they wait, what they have seen |
//! | `settle` | the end: everyone is answered, all replicas are equal |
//! | `commands` | which commands, of which keys |
//! | `whole` | FLUSH, and questions about all keys |
//! | `wide` | transactions over several shards |
//! | `collection` | safe points rise, old versions go |
//! | `gossip`, `arrange` | what nodes know of each other; leaders ask the balancer |
//! | `rest` | the ring becomes ideal |
//! | `stage` | what directed scenarios do to it ([`crate::scenario`]) |
//! | [`catalogue`] | keyspaces that come, change and go; that all nodes agree about them |
//!
//! Checked: one leader a term (R1), replicas apply the same (R3), nobody is elected while another's
//! lease runs (R5, G4 to G6), nothing acknowledged missing and nothing invented (R6,
//! linearizability of what clients saw), same seed same bytes (R13), and after the heal an answer
//! for everyone within a bound, the same state everywhere (R8), and in each node's table all shards
//! as their leaders know them. Where leaders ask the balancer, the ring becomes ideal before that
//! (R1, R2, R12: [`crate::check::ring`]).

mod arrange;
pub mod catalogue;
pub mod clients;
mod collection;
mod commands;
pub mod disks;
pub mod faults;
mod files;
mod gossip;
mod merges;
mod moves;
pub mod network;
pub mod options;
mod rest;
mod settle;
mod splits;
mod stage;
mod upgrade;
mod whole;
mod wide;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use keyspace::{CatalogueOp, KeyspaceOptions, Level, Levels, NodeId, Placement, ShardId};
use node::executor::Input;
use node::replica::entry::Waiter;
use node::replica::{Finding, Unfit};
use storage::faulty::FaultyDisk;
use storage::log::Lsn;

use crate::check::Violation;
use crate::check::agreement::Agreement;
use crate::machine::control::Outcomes;
use crate::machine::open::Cluster;
use crate::machine::rounds::Progress;
use crate::machine::{Failed, Machine, NOBODY};
use crate::options::Fault;
use crate::rng::Rng;
use crate::trace::Trace;
use clients::Clients;
use network::Network;
pub use options::{Mood, Options, Plant};
pub(crate) use stage::Stage;
pub(crate) use wide::Doomed;
pub use wide::workloads::{NoSuchWorkload, Workload};

/// The wall clock when a run begins.
const WALL_MS: u64 = 1_700_000_000_000;
/// Milliseconds between ticks of a node.
pub const TICK_MS: u64 = 50;
/// Virtual time that a healed cluster has to answer everyone.
const ANSWER_MS_MAX: u64 = 15_000;
/// Virtual time within which replicas that have been added vote.
const RAISE_MS_MAX: u64 = 20_000;
/// Planted: how long after a pause its ticks are made up.
const BURST_AFTER_MS: u64 = 5;
/// How long a round of checkpoints waits when there was no room for the last.
const ROUND_AGAIN_MS: u64 = 100;
/// Of so many nodes each does something in every millisecond; of twice as many in every second
/// one, and so on: else a large cluster would take very long.
const NODES_A_TURN: usize = 40;
/// More than a node has to do in a millisecond.
const ALL_ACTIONS: u64 = 100_000;
/// Where there are transactions, states may be sent so many times as fast.
const MORE_TO_MOVE: NonZeroU64 = NonZeroU64::new(20).expect("it is not 0");
/// The keyspace that clients use.
pub const KEYSPACE: &str = "0";

/// What a run has seen, for people and for tests that a run does something at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations answered.
    pub answered: u64,
    /// Operations refused: nothing was done.
    pub refused: u64,
    /// Operations without an answer.
    pub unknown: u64,
    /// Crashes of single nodes.
    pub crashes: u64,
    /// Losses of power of all nodes.
    pub blackouts: u64,
    /// Pauses.
    pub pauses: u64,
    /// Cuts of the network.
    pub cuts: u64,
    /// Shards that leaders were told to hand over.
    pub transfers: u64,
    /// Times that a shard was told to exchange replicas.
    pub moves: u64,
    /// Shards that were told to be cut in two.
    pub splits: u64,
    /// Shards that were.
    pub halves: u64,
    /// Buckets of files that were told to be cut …
    pub buckets_cut: u64,
    /// … or to take in another.
    pub buckets_taken_in: u64,
    /// How often the record of a file had changed.
    pub file_turns: u64,
    /// Shards that were told to take in a neighbour.
    pub merges: u64,
    /// Replicas that have given up what they held to a neighbour's.
    pub given_up: u64,
    /// … in runs whose keyspace is ordered.
    pub ordered_given_up: u64,
    /// Writes that were sent to shards which others have taken in meanwhile.
    pub inherited: u64,
    /// Writes that a shard has turned away, and that were sent on.
    pub moved: u64,
    /// Replicas whose groups have gone on without them, and that have ended.
    pub removals: u64,
    /// Changes of replicas that leaders were told to make by the balancer.
    pub decisions: u64,
    /// … and shards that they were told to hand over.
    pub handed_on: u64,
    /// The longest time until the ring was ideal.
    pub rest_ms: u64,
    /// Links that were lost.
    pub links: u64,
    /// Disks that became full.
    pub fillings: u64,
    /// Commands refused because a disk was full.
    pub full: u64,
    /// Processes that ended because of what their disk did.
    pub disk_deaths: u64,
    /// Changes of the catalogue.
    pub changes: u64,
    /// Commands of several keys that were answered.
    pub joint: u64,
    /// Transactions that were answered …
    pub transactions: u64,
    /// … with nil: a watched key had changed.
    pub broken: u64,
    /// Transactions over several shards that were done …
    pub wide_committed: u64,
    /// … or not: a watched key had changed …
    pub wide_changed: u64,
    /// … those that watched ranges.
    pub wide_ranges: u64,
    /// … or others had their keys, or nobody led a shard of them.
    pub wide_busy: u64,
    /// Those of which nobody was told.
    pub wide_unknown: u64,
    /// … and that others have finished.
    pub wide_finished: u64,
    /// Commands beside them, of one shard or one key, and reads of several, that were answered.
    pub wide_ones: u64,
    /// Reads of several keys that have seen the same twice.
    pub wide_looks: u64,
    /// What was done of each workload of these, in the order of [`Workload::ALL`].
    pub workloads: [u64; Workload::ALL.len()],
    /// Blocks of snapshots that were sent.
    pub blocks: u64,
    /// Snapshots that went on after their link was lost.
    pub resumed: u64,
    /// Times that a block of a snapshot was ready and had to wait for the rate.
    pub held: u64,
    /// Blocks of snapshots that did not wait for the rate, because their shards waited for them.
    pub urgent: u64,
    /// Nodes that came back as another version.
    pub versions: u64,
    /// Nodes that ended because they did not speak the cluster's level.
    pub outgrown: u64,
    /// Levels that clusters have risen to.
    pub levels: u64,
    /// Entries compared between replicas.
    pub compared: u64,
    /// Digests of replicas that were found to agree with others.
    pub digests: u64,
    /// Disks that have lost the end of their logs.
    pub tails_lost: u64,
    /// Replicas that had lost what they had promised, and ended.
    pub quarantines: u64,
    /// Writes that were forwarded to a leader, and applied.
    pub forwarded: u64,
    /// Reads of shards that are on other nodes only, or lag where they were asked, answered.
    pub fetched: u64,
    /// Readers that were told that a replica lags.
    pub lags: u64,
    /// Questions about all keys, and pages of them, answered.
    pub whole: u64,
    /// Times that old versions were collected somewhere.
    pub collected: u64,
    /// Reads answered with what may have been old.
    pub stale: u64,
    /// Histories that were too long to judge.
    pub unjudged: u64,
    /// Things that nodes did.
    pub node_steps: u64,
    /// Milliseconds of virtual time.
    pub millis: u64,
}

/// One place for a node: its disk stays, its process comes and goes.
pub(crate) struct Seat {
    pub node: NodeId,
    pub disk: FaultyDisk,
    pub machine: Option<Machine>,
    /// When it does the next thing: later while paused, or down.
    pub awake_at: u64,
    pub next_tick: u64,
    pub sync_ends_at: u64,
    /// Its boot clock runs by this rate, in millionths, and began so long before the run.
    pub rate_ppm: u64,
    pub boot_offset: u64,
    pub wall_offset: i64,
    pub started_at: u64,
    /// What its disk is about to do.
    pub armed: Option<disks::Armed>,
    /// Whether its disk is full.
    pub full: bool,
    /// No round of checkpoints is begun or gone on with before: there was no room for the last.
    pub round_at: u64,
    /// Planted: time that its boot clock did not count.
    pub slept_nanos: u64,
    /// Planted: time that its boot clock counts twice, and when it begins to.
    pub burst: Option<(u64, u64)>,
    /// Its disk has lost what was synced, once at least.
    pub has_lost: bool,
    /// It is out of the cluster, for good.
    pub has_left: bool,
    /// What its program speaks, where versions are mixed.
    pub levels: Levels,
    /// How often its shards' members had changed, and the end of its log some time after that.
    pub members_end: (u64, Lsn),
}

/// See the front page of this module.
pub struct World {
    options: Options,
    mood: Mood,
    pub(crate) rng: Rng,
    /// What happened.
    pub trace: Trace,
    pub(crate) now_ms: u64,
    pub(crate) seats: Vec<Seat>,
    pub(crate) network: Network,
    pub(crate) clients: Clients,
    agreement: Agreement,
    cluster: Option<Cluster>,
    pub(crate) calm: bool,
    betrayal: Option<faults::Betrayal>,
    /// Links that are gone, and when who learns of that.
    lost_links: Vec<(u64, usize, NodeId)>,
    /// Links of frames that were lost, and when who has a new one.
    new_links: Vec<(u64, NodeId, NodeId)>,
    /// Whether leaders ask the balancer.
    arranging: Option<arrange::Arranging>,
    /// Nothing else breaks until then.
    truce_until: u64,
    /// Whether versions are mixed.
    upgrading: Option<upgrade::Upgrading>,
    /// Whether there are transactions over several shards.
    wide: Option<wide::Wide>,
    /// Workloads whose judges have found something.
    pub found_by: Vec<Workload>,
    /// Planted: how often each replica was seen to be cut.
    cuts: BTreeMap<(NodeId, ShardId), u64>,
    /// Shards that were told to be cut, or to take in a neighbour.
    pub(crate) reshapes_begun: u64,
    /// Shards that were to begin as right halves.
    right_halves: BTreeSet<ShardId>,
    /// What it has seen.
    pub counts: Counts,
}

impl World {
    /// Before the first step.
    pub fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let mood = Mood::draw(&mut rng, options);
        let mut world = Self::in_mood(options, mood, rng);
        if wide::has(options) {
            world.wide = Some(wide::Wide::new(options));
            // What is known of transactions is sent along with values.
            world.mood.move_rate = mood.move_rate.map(|rate| rate.saturating_mul(MORE_TO_MOVE));
        }
        if upgrade::mixes(options) {
            world.upgrading = Some(upgrade::Upgrading::begin(options.seed, options.nodes));
            world.agreement = Agreement::from(Level::FIRST);
        }
        world
    }

    /// Before the first step of a run that goes like this.
    fn in_mood(options: &Options, mood: Mood, mut rng: Rng) -> Self {
        let has_clock = options.faults.has(Fault::Clock);
        let drift_ppm = if has_clock { 20_000 } else { 0 };
        let seats = (0..options.nodes).map(|_| Seat::new(&mut rng, &mood, drift_ppm)).collect();
        Self {
            options: options.clone(),
            mood,
            rng,
            trace: Trace::new(options.verbose),
            now_ms: 0,
            seats,
            network: Network::default(),
            clients: Clients::new(&mood),
            agreement: Agreement::from(Level::NEWEST),
            cluster: None,
            calm: true,
            betrayal: None,
            lost_links: Vec::new(),
            new_links: Vec::new(),
            arranging: None,
            truce_until: 0,
            upgrading: None,
            wide: None,
            found_by: Vec::new(),
            cuts: BTreeMap::new(),
            reshapes_begun: 0,
            right_halves: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    /// What the seed chose for the whole run.
    pub fn mood(&self) -> &Mood {
        &self.mood
    }

    /// All phases.
    ///
    /// # Errors
    /// The first rule that was found broken.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.begin()?;
        self.begin_wide()?;
        if self.mood.arranges {
            self.begin_arranging(Vec::new());
        }
        self.calm = false;
        if let Some(writes) = self.options.power_at {
            self.power_goes_at(0, writes);
        }
        for _ in 0..self.options.millis {
            self.maybe_break()?;
            self.millisecond()?;
        }
        self.heal()?;
        self.judge_all()
    }

    /// Nothing breaks any more.
    fn judge_all(&mut self) -> Result<(), Violation> {
        if self.arranging.is_some() {
            self.clients.asking = false;
            self.come_to_rest(rest::REST_MS_MAX)?;
        }
        self.settle()?;
        self.check_files()?;
        self.counts.halves = self.halves();
        self.counts.levels = self.agreement.risen;
        self.counts.compared = self.agreement.compared;
        self.counts.forwarded = self.agreement.forwarded;
        (0..self.seats.len()).for_each(|at| self.count_streams(at));
        self.collect_all();
        self.compare_states()?;
        self.counts.unjudged = self.clients.search()?;
        self.search_wide()
    }

    /// One node makes the cluster, the others join it, and its shards get their replicas.
    fn begin(&mut self) -> Result<(), Violation> {
        for at in 0..self.seats.len() {
            self.start(at)?;
            if at == 0 {
                let machine = self.seats[0].machine.as_ref().expect("it was just started");
                self.cluster = Some(machine.cluster());
                if !self.mood.born_whole {
                    self.create_keyspace();
                }
            }
        }
        let deadline = self.now_ms + RAISE_MS_MAX;
        while self.now_ms < deadline {
            self.millisecond()?;
            if self.now_ms.is_multiple_of(200) {
                self.add_replicas();
            }
            if self.is_raised() {
                if self.has_keyspace() {
                    return Ok(());
                }
                if self.now_ms.is_multiple_of(200) {
                    self.create_keyspace();
                }
            }
        }
        let mut text = format!("after {RAISE_MS_MAX} ms some replica has no vote: ");
        for seat in &self.seats {
            let Some(machine) = &seat.machine else { continue };
            for id in machine.shard_ids() {
                let view = machine.view(id).expect("it was listed");
                let state = view.read();
                text += &format!(
                    "node {} shard {id} at {} {:?}; ",
                    seat.node, state.applied_index, state.members
                );
            }
        }
        Err(Violation::new("liveness", text))
    }

    fn create_keyspace(&mut self) {
        let mut op = Vec::new();
        let replicas = self.mood.replicas as u8;
        let placement = self.mood.placement();
        let options = KeyspaceOptions { replicas, placement, ..Default::default() };
        CatalogueOp::Create { name: KEYSPACE, options }.encode(&mut op);
        let machine = self.seats[0].machine.as_mut().expect("it was just started");
        let (origin, waiter) = (NOBODY, Waiter(0));
        if placement == Placement::LinearHash {
            let mut op = Vec::new();
            CatalogueOp::Level { to: Level::NEWEST }.encode(&mut op);
            machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter });
        }
        machine.submit(ShardId(0), Input::Catalogue { op, origin, waiter });
    }

    fn add_replicas(&mut self) {
        let others: Vec<NodeId> = self.seats.iter().skip(1).map(|seat| seat.node).collect();
        let mood = self.mood;
        let Some(machine) = self.seats[0].machine.as_mut() else { return };
        for shard in machine.shard_ids() {
            let view = machine.view(shard).expect("it was listed");
            let generation = view.read().descriptor.generation;
            let (add, remove) = (others[..mood.replicas_of(shard) - 1].to_vec(), Vec::new());
            machine.submit(shard, Input::Exchange { shard, generation, add, remove });
        }
    }

    /// Whether all shards have all their voters, as their leaders know.
    fn is_raised(&self) -> bool {
        let Some(machine) = &self.seats[0].machine else { return false };
        let raised = |shard: ShardId| {
            let view = machine.view(shard).expect("the first node has all shards");
            let state = view.read();
            let wanted = self.mood.replicas_of(shard);
            state.members.voters.len() == wanted && !state.members.is_joint()
        };
        let shards = machine.shard_ids();
        (self.mood.born_whole || self.has_keyspace()) && shards.into_iter().all(raised)
    }

    /// Whether the first node has all shards.
    fn has_keyspace(&self) -> bool {
        let machine = self.seats[0].machine.as_ref();
        machine.is_some_and(|machine| machine.routes.contains_key(KEYSPACE))
    }

    /// Lets one millisecond pass.
    pub(super) fn millisecond(&mut self) -> Result<(), Violation> {
        self.now_ms += 1;
        self.counts.millis += 1;
        self.renew_links();
        self.trace.step = self.now_ms as u32;
        self.deliver()?;
        let count = self.seats.len();
        let first = self.rng.below(count as u64) as usize;
        let turns = 1 + count / NODES_A_TURN;
        for at in (0..count).map(|number| (first + number) % count) {
            if (self.now_ms as usize + at).is_multiple_of(turns) {
                self.run_node(at)?;
            }
        }
        let turns = self.mood.is_linear && self.options.faults.has(Fault::Split) && !self.calm;
        if turns && self.now_ms.is_multiple_of(files::TURN_MS) {
            self.turn_file();
        }
        self.arrange();
        self.expire_ops();
        self.expire_wide();
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        for packet in self.network.due(self.now_ms) {
            let Some(at) = self.seats.iter().position(|seat| seat.node == packet.node()) else {
                continue;
            };
            let Some(machine) = self.seats[at].machine.as_mut() else { continue };
            if let Err(error) = machine.receive(packet) {
                self.node_failed(at, &error)?;
            }
            self.follow_sent_on(at);
        }
        Ok(())
    }

    /// What a node does in a millisecond.
    fn run_node(&mut self, at: usize) -> Result<(), Violation> {
        if self.now_ms < self.seats[at].awake_at {
            return Ok(());
        }
        if self.seats[at].machine.is_none() {
            return self.start(at);
        }
        if self.ends_for_its_level(at)? {
            return Ok(());
        }
        self.tell_time(at);
        self.tick(at);
        self.tick_coordinator(at);
        if self.now_ms == self.seats[at].awake_at && !self.calm {
            self.look_at(at);
        }
        let machine = self.seats[at].machine.as_mut().expect("it runs");
        if let Err(error) = machine.install_arrived() {
            return self.node_failed(at, &error);
        }
        let actions = match self.mood.is_exact {
            true => ALL_ACTIONS,
            false => self.rng.between(1, self.mood.actions_max),
        };
        for _ in 0..actions {
            match self.act(at) {
                Ok(true) => {
                    self.counts.node_steps += 1;
                    self.follow_sent_on(at);
                }
                Ok(false) => break,
                Err(Failed::Broken(violation)) => return Err(violation),
                Err(Failed::Fatal(error)) => return self.node_failed(at, &error),
            }
        }
        self.send(at);
        Ok(())
    }

    /// Tells a node's clocks the time, before all that it does: in the millisecond in which it
    /// wakes, it may be asked before it has its turn.
    fn tell_time(&mut self, at: usize) {
        let now_ms = self.now_ms;
        let seat = &mut self.seats[at];
        let boot = seat.boot(now_ms);
        let Some(machine) = seat.machine.as_mut() else { return };
        machine.elapsed_ms = now_ms - seat.started_at;
        machine.boot = boot;
    }

    /// Ticks when it is time: once, however late it is.
    fn tick(&mut self, at: usize) {
        let planted = self.has(Plant::BurstTicks);
        let seat = &mut self.seats[at];
        if let Some((_, nanos)) = seat.burst.take_if(|(from_ms, _)| self.now_ms >= *from_ms) {
            seat.boot_offset += nanos;
            self.tell_time(at);
            let machine = self.seats[at].machine.as_mut().expect("it runs");
            (0..nanos / 1_000_000 / TICK_MS).for_each(|_| machine.tick());
        }
        let seat = &mut self.seats[at];
        if self.now_ms >= seat.next_tick {
            let missed_ms = self.now_ms - seat.next_tick;
            if planted && missed_ms > TICK_MS {
                // First comes what has come meanwhile.
                seat.burst = Some((self.now_ms + BURST_AFTER_MS, missed_ms * seat.rate_ppm));
            }
            seat.next_tick = self.now_ms + TICK_MS;
            seat.machine.as_mut().expect("it runs").tick();
            self.follow_sent_on(at);
        }
    }

    /// What shards have turned away is on its way to others, or was refused.
    fn follow_sent_on(&mut self, at: usize) {
        let Some(machine) = self.seats[at].machine.as_mut() else { return };
        let Outcomes { answers, changed, events } = std::mem::take(&mut machine.outcomes);
        let on = std::mem::take(&mut machine.sent_on);
        let inherited = std::mem::take(&mut machine.inherited);
        let (node, given_up) = (machine.node(), std::mem::take(&mut machine.given_up));
        for shard in given_up {
            self.counts.given_up += 1;
            self.counts.ordered_given_up += u64::from(self.mood.is_ordered);
            self.agreement.ended(node, shard);
        }
        self.follow_coordinator(at);
        on.into_iter().for_each(|(waiter, shard)| self.sent_on(waiter, shard));
        inherited.into_iter().for_each(|(waiter, shard)| self.is_inherited(waiter, shard));
        for event in events {
            self.trace.event(format_args!("node {}: {event}", event.node));
            self.count_decided(&event.what);
        }
        changed.into_iter().for_each(|keyspace| self.keyspace_changed(at, &keyspace));
        answers.into_iter().for_each(|answer| self.answered(answer));
    }

    /// One thing; false if there is nothing to do.
    fn act(&mut self, at: usize) -> Result<bool, Failed> {
        let reads = self.clients.ready(at);
        let may_ask = self.may_ask(at);
        let (wide, may_ask_wide) = (self.ready_wide(at), self.may_ask_wide(at));
        let seat = &mut self.seats[at];
        let machine = seat.machine.as_mut().expect("it runs");
        let lanes = 0..machine.lanes.len();
        let busy: Vec<usize> = lanes.filter(|lane| machine.is_busy(*lane)).collect();
        let sync_ends = machine.log.is_syncing() && self.now_ms >= seat.sync_ends_at;
        let streams = machine.due_streams();
        // A state that has come whole waits for a round to end, and the next round for it.
        let may_begin = self.now_ms >= seat.round_at && !machine.streams.has_complete();
        let rounds = self.mood.checkpoints && (machine.is_checkpointing() || may_begin);
        let rounds = rounds || machine.is_installing();
        let on = |possible: bool, weight: u64| if possible { weight } else { 0 };
        let weights = [
            on(!busy.is_empty(), 40),
            on(machine.log.wants_sync(), 10),
            on(sync_ends, 20),
            on(machine.log.wants_segment(), 2),
            on(machine.has_news(), 12),
            on(!reads.is_empty(), 20),
            on(may_ask, 10),
            on(rounds, if machine.is_checkpointing() { 6 } else { 1 }),
            on(!machine.digests.is_empty(), 3),
            on(self.mood.collection, 1),
            on(!streams.is_empty(), 3),
            on(!wide.is_empty(), 20),
            on(may_ask_wide, 10),
        ];
        if weights.iter().all(|weight| *weight == 0) {
            return Ok(false);
        }
        match self.rng.weighted(&weights) {
            0 => {
                let lane = *self.rng.pick(&busy);
                let inputs_max = self.rng.between(1, 12) as usize;
                let mut witness = self.agreement.of(seat.node);
                let answers = machine.step_lane(lane, inputs_max, &mut witness, &mut self.trace)?;
                for (shard, why) in std::mem::take(&mut machine.ended) {
                    match why {
                        Unfit::Removed => self.counts.removals += 1,
                        _ => self.counts.quarantines += 1,
                    }
                    self.agreement.ended(seat.node, shard);
                }
                let findings = std::mem::take(&mut machine.findings);
                self.judge(findings)?;
                self.look_for_leases(at)?;
                answers.into_iter().for_each(|answer| self.answered(answer));
                self.forget_sessions(at);
                self.thaw(at);
            }
            1 => {
                machine.log.begin_sync(self.rng.one_in(2))?;
                let slow = self.rng.one_in(self.mood.slow_sync_in);
                let millis = match slow {
                    true => self.rng.between(20, 400),
                    false if self.mood.is_exact => 0,
                    false => self.rng.below(3),
                };
                seat.sync_ends_at = self.now_ms + millis;
            }
            2 => machine.end_sync()?,
            3 => machine.log.make_segment()?,
            4 => machine.spread_news(),
            5 => {
                let op = *self.rng.pick(&reads);
                match self.clients.whole_mut(op).is_some() {
                    true => self.read_whole(at, op)?,
                    false => self.read(at, op),
                }
            }
            6 => self.ask(at),
            8 => machine.step_digest(),
            9 => self.keep_versions(at),
            10 => {
                machine.step_stream(*self.rng.pick(&streams));
                if let Some(stray) = machine.streams.strays.pop() {
                    let text = format!("a block of a state goes to {stray:?}, which is no member");
                    return Err(Violation::new("R12 snapshots go to members", text).into());
                }
            }
            11 => self.go_on_wide(at, &wide),
            12 => self.ask_wide(at),
            _ if machine.is_installing() => machine.install_arrived()?,
            _ => match machine.step_round()? {
                Progress::Full => seat.round_at = self.now_ms + ROUND_AGAIN_MS,
                Progress::Done => seat.round_at = self.now_ms + self.mood.round_every_ms,
                Progress::More | Progress::Busy => {}
            },
        }
        Ok(true)
    }

    /// Leaders have compared their replicas.
    fn judge(&mut self, findings: Vec<Finding>) -> Result<(), Violation> {
        for Finding { shard, index, agreeing, differing } in findings {
            self.counts.digests += agreeing.len() as u64;
            if !differing.is_empty() {
                let text = format!(
                    "shard {shard} as of entry {index}: {differing:?} differ from {agreeing:?}"
                );
                return Err(Violation::new("R8 replicas digest the same", text));
            }
        }
        Ok(())
    }

    /// While a lease runs, nobody is elected in a later term. In an earlier one, late votes may yet
    /// elect somebody: a majority is beyond his term, so that he can commit and confirm nothing.
    fn look_for_leases(&mut self, elected_at: usize) -> Result<(), Violation> {
        let new = self.seats[elected_at].node;
        for (id, term) in self.agreement.take_elected() {
            for seat in self.seats.iter().filter(|seat| seat.node != new) {
                let Some(machine) = &seat.machine else { continue };
                let Some(shard) = machine.shard(id) else { continue };
                let (old, older, now) =
                    (seat.node, shard.term_and_commit().0, seat.boot(self.now_ms));
                let leads = shard.is_leader() && older < term;
                if leads && shard.view().read().serving.at(now) {
                    let text = format!("shard {id}: {new} leads term {term}, {old} term {older}");
                    return Err(Violation::new("R5 nobody is elected while a lease runs", text));
                }
            }
        }
        Ok(())
    }

    /// Puts what a node has to say on its way.
    fn send(&mut self, at: usize) {
        let from = self.seats[at].node;
        let Some(machine) = self.seats[at].machine.as_mut() else { return };
        for packet in machine.take_outgoing() {
            self.network.send(from, packet, self.now_ms, &self.mood, self.calm, &mut self.rng);
        }
    }

    pub(crate) fn has(&self, plant: Plant) -> bool {
        self.options.plant == Some(plant)
    }
}

impl Seat {
    fn new(rng: &mut Rng, mood: &Mood, drift_ppm: u64) -> Self {
        Self {
            node: NodeId(0),
            disk: FaultyDisk::new(rng.bits()),
            machine: None,
            awake_at: 0,
            next_tick: 0,
            sync_ends_at: 0,
            rate_ppm: rng.between(1_000_000 - drift_ppm, 1_000_000 + drift_ppm),
            boot_offset: rng.below(1 << 40),
            wall_offset: rng.between(0, 2 * mood.offset_ms_max) as i64 - mood.offset_ms_max as i64,
            started_at: 0,
            armed: None,
            full: false,
            round_at: 0,
            slept_nanos: 0,
            burst: None,
            has_lost: false,
            has_left: false,
            levels: Levels::BEFORE,
            members_end: (0, Lsn::NEW),
        }
    }

    /// Bytes of all files on its disk.
    pub fn used_bytes(&self) -> u64 {
        let disk = self.disk.handle();
        let names = disk.list().unwrap_or_default();
        let bytes = |name: &String| disk.open(name).and_then(|file| file.len()).unwrap_or_default();
        names.iter().map(bytes).sum()
    }

    /// Its boot clock.
    pub fn boot(&self, now_ms: u64) -> u64 {
        self.boot_offset + now_ms * self.rate_ppm - self.slept_nanos
    }
}
