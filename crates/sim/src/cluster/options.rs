//! The options of a cluster's run, and what its seed chooses.

use std::num::NonZeroU64;

use keyspace::random::{Random, mix};
use keyspace::{Placement, ShardId};
use node::control::{self, ReshapeLimits};

use super::{Workload, World};
use crate::check::Violation;
use crate::cli::{RunReport, SimulatedRun};
use crate::machine::coordinator::PlantedBug;
use crate::named::named;
use crate::options::{Fault, Faults};
use crate::rng::Rng;
use crate::trace::Trace;

named! {
    #[what = "bug of clusters"]
    /// A fault planted in the driver, or by it in a core, to see whether the checkers find it
    /// (docs/safety.md#planted-faults).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Plant {
        /// A node's boot clock does not count pauses, so that a leader trusts its lease after one
        /// (G5).
        StaleLease = "stale-lease",
        /// A replica that believes to lead serves reads without a lease (G5).
        LeaseByRole = "lease-by-role",
        /// A restarted replica votes and stands at once (G4).
        ForgetfulVote = "forgetful-vote",
        /// Ticks that a pause has swallowed are made up, and each counts as time that has passed
        /// since (G5).
        BurstTicks = "burst-ticks",
        /// What promises to be on disk leaves before it is (G9, G16).
        UnsyncedVote = "unsynced-vote",
        /// A new leader serves reads before its term's first entry (G1).
        FreshLeaderReads = "fresh-leader-reads",
        /// The memory of one replica changes (G13).
        RottenState = "rotten-state",
        /// Keyspace scans are judged by the clock of the asked node (G13).
        OwnClock = "own-clock",
        /// A replica that does not lead says that it is less behind than it is (G17).
        WrongAge = "wrong-age",
        /// A split forgets the sessions: what was applied once (G10, G11).
        NoDedupe = "no-dedupe",
        /// The right half of a shard that was split forgets its votes when it is replayed
        /// (G11).
        ReplayedHalf = "replayed-half",
        /// A frozen shard goes on though the log of its left neighbour does not say so (G11).
        Thaw = "thaw",
        /// Executors do not learn the tables of descriptors: a removed replica stays (R12).
        ForgottenReplica = "forgotten-replica",
        /// The cluster version rises although not all nodes support the next one (G3).
        EarlyVersionRise = "early-level",
        /// A transaction does not look whether what it watches has changed (G15).
        Unwatched = "unwatched",
        /// Reads do not look whether a transaction has locked a key (G8).
        UnlockedReads = "unlocked-reads",
        /// PREVENT is not remembered (G8).
        ForgetfulPrevent = "forgetful-prevent",
        /// Records are forgotten, with what they say, though keys are locked (G8).
        RecordDropped = "record-dropped",
        /// RESOLVE ends whosever lock a key has (G8).
        ResolveByKey = "resolve-by-key",
        /// A record does not list keys of other keyspaces than its own (G8).
        OwnNames = "own-names",
        /// A shard flushes although the transaction was aborted (G8).
        FlushAborted = "flush-aborted",
        /// A part of a shard is not flushed with the rest (G8).
        HalfFlush = "half-flush",
        /// A coordinator does not wait until a record says ABORTED (G8).
        EarlyRetry = "early-retry",
        /// A transaction is committed although a value has ended that it found alive (G22).
        LateCommit = "late-commit",
        /// A transaction over shards does not look whether what it watches has changed (G8, G15).
        Unvalidated = "unvalidated",
        /// … nor whether a key has come into a range of it.
        Unranged = "unranged",
        /// Keys of several shards are looked at once only (G7).
        SingleLook = "single-look",
        /// A shard that is cut keeps the records of keys that go (G8).
        LeftRecord = "left-record",
        /// A node that starts again forgets which replicas and absorbed shards have ended there
        /// (G9).
        ForgottenEnds = "forgotten-ends",
        /// A snapshot goes on to a replica that its group has removed (R12).
        GoneReplica = "gone-replica",
        /// The entry of a script holds no versions of what it has read (G25).
        ScriptWithoutVersions = "script-without-versions",
        /// Both halves of a shard are published before its log has agreed (G11).
        EarlySplit = "early-split",
        /// Routes stay as they were when shards of a newer generation are known (G11).
        OldRoute = "old-route",
        /// A client reads a key before its leader has registered it (G24).
        LateInterest = "late-interest",
        /// A node does not notice that a new leader knows nothing of its interests (G24).
        TrustedStream = "trusted-stream",
        /// A linear-hash table goes on by two buckets when one was cut (R11).
        SecondTurn = "second-turn",
        /// A read joins the batch of its shard though an earlier write of its connection is
        /// unanswered in another shard (G26).
        EagerJoin = "eager-join",
        /// A node that starts again knows of no lease (G14).
        ForgottenLease = "forgotten-lease",
        /// Shards collect what a lease holds (G14, G21).
        CollectedLease = "collected-lease",
        /// Of several leases a shard keeps the oldest (G21).
        OldestPin = "oldest-pin",
        /// A read at a past time does not wait for transactions that were prepared below it (G1).
        UnwaitedSnapshot = "unwaited-snapshot",
        /// A follower answers at a past time that may not be closed there (G2, G17).
        UnclosedSnapshot = "unclosed-snapshot",
        /// The resolved time of a shard does not stay below prepared transactions (G23).
        RunawayResolved = "runaway-resolved",
        /// A feed loses what a half of a split shard had still to tell (G23).
        SkippedAtSplit = "skipped-at-split",
        /// A node lets a client write before all shards have its fence (G28).
        UnwaitedFence = "unwaited-fence",
        /// Blocks do not say who writes them (G28).
        UnfencedWrite = "unfenced-write",
        /// The right half of a shard that was split knows of no fence (G28).
        ForgottenFence = "forgotten-fence",
        /// A block that a clone does not have is read from its source as that is now (G21).
        LateClone = "late-clone",
        /// A block that an old image sends to the old bucket is lost, and answered (S4, G11).
        StaleImage = "stale-image",
        /// A node reads frames whose checksum does not fit.
        UncheckedFrame = "unchecked-frame",
        /// A node links with others that have not proven the secret.
        UnprovenHello = "unproven-hello",
    }
}

impl Plant {
    /// Whether it shows in transactions over several shards only.
    pub fn is_wide(self) -> bool {
        let of_world = matches!(
            self,
            Self::UnlockedReads
                | Self::Unvalidated
                | Self::Unranged
                | Self::SingleLook
                | Self::LeftRecord
                | Self::ScriptWithoutVersions
                | Self::EagerJoin
                | Self::ForgottenLease
                | Self::CollectedLease
                | Self::OldestPin
                | Self::UnwaitedSnapshot
                | Self::UnclosedSnapshot
                | Self::RunawayResolved
                | Self::SkippedAtSplit
        );
        of_world || self.in_coordinators().is_some()
    }

    /// Whether it shows in what clients cache only.
    pub fn is_of_caches(self) -> bool {
        matches!(self, Self::LateInterest | Self::TrustedStream)
    }

    /// Whether it shows in reads of past times only.
    pub fn is_of_snapshots(self) -> bool {
        matches!(
            self,
            Self::ForgottenLease
                | Self::CollectedLease
                | Self::OldestPin
                | Self::UnwaitedSnapshot
                | Self::UnclosedSnapshot
        )
    }

    /// Whether it shows in change feeds only.
    pub fn is_of_feeds(self) -> bool {
        matches!(self, Self::RunawayResolved | Self::SkippedAtSplit)
    }

    /// Whether it shows in volumes only.
    pub fn is_of_volumes(self) -> bool {
        matches!(
            self,
            Self::UnwaitedFence
                | Self::UnfencedWrite
                | Self::ForgottenFence
                | Self::LateClone
                | Self::StaleImage
        )
    }

    /// Whether it shows only while somebody alters messages and forges handshakes.
    pub fn is_of_links(self) -> bool {
        matches!(self, Self::UncheckedFrame | Self::UnprovenHello)
    }

    /// What it is in coordinators, if it is planted there.
    pub fn in_coordinators(self) -> Option<PlantedBug> {
        match self {
            Self::ForgetfulPrevent => Some(PlantedBug::ForgetfulPrevent),
            Self::RecordDropped => Some(PlantedBug::RecordDropped),
            Self::ResolveByKey => Some(PlantedBug::ResolveByKey),
            Self::OwnNames => Some(PlantedBug::OwnNames),
            Self::FlushAborted => Some(PlantedBug::FlushAborted),
            Self::HalfFlush => Some(PlantedBug::HalfFlush),
            Self::EarlyRetry => Some(PlantedBug::EarlyRetry),
            Self::LateCommit => Some(PlantedBug::LateCommit),
            _ => None,
        }
    }

    /// What it is in control, if it is planted there.
    pub fn in_control(self) -> Option<control::PlantedBug> {
        match self {
            Self::EarlySplit => Some(control::PlantedBug::EarlySplit),
            Self::OldRoute => Some(control::PlantedBug::OldRoute),
            Self::SecondTurn => Some(control::PlantedBug::SecondStep),
            _ => None,
        }
    }
}

/// Milliseconds of the safety phase, by default.
pub const MILLIS_DEFAULT: u64 = 6_000;

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Decides everything else.
    pub seed: u64,
    /// Nodes, at least three; above fifty a run takes long.
    pub nodes: usize,
    /// Virtual milliseconds of the safety phase.
    pub millis: u64,
    /// Kinds of faults.
    pub faults: Faults,
    /// The power of the first node goes when its disk has changed so often.
    pub power_at: Option<u64>,
    /// Whether to keep the trace's text.
    pub verbose: bool,
    /// The planted bug.
    pub plant: Option<Plant>,
    /// What transactions over shards are made for, if it is one thing only.
    pub workload: Option<Workload>,
}

/// How often leaders compare their replicas.
const CHECK_NANOS: u64 = 2_000_000_000;

/// Repetitions of a failing run at most, to find a smaller one.
const SHRINK_RUNS_MAX: u32 = 60;

impl Options {
    /// The usual run of a seed.
    pub fn of(seed: u64) -> Self {
        let nodes = if seed % 4 == 3 { 5 } else { 3 };
        let (millis, faults) = (MILLIS_DEFAULT, Faults::ALL);
        let (power_at, verbose, plant, workload) = (None, false, None, None);
        Self { seed, nodes, millis, faults, power_at, verbose, plant, workload }
    }
}

impl SimulatedRun for Options {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn with_seed(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    fn verbose(&self) -> bool {
        self.verbose
    }

    fn heading(&self) -> [String; 2] {
        let Self { nodes, millis, faults, plant, workload, .. } = self;
        let plant = plant.map_or("none", |plant| plant.name());
        let mut more = format!("faults: {faults}; planted bug: {plant}");
        if let Some(workload) = workload {
            more += &format!("; transactions: {}", workload.name());
        }
        [format!("{nodes} nodes, {millis} ms"), more]
    }

    fn run(&self) -> RunReport<Self> {
        let mut world = World::new(self);
        let verdict = crate::caught(|| world.run());
        let summary = format!("the seed's profile: {:?}\n{:?}", world.profile(), world.counts);
        let trace_hash = world.trace.hash();
        let trace = std::mem::replace(&mut world.trace, Trace::new(false)).into_text();
        RunReport { life: self.clone(), trace_hash, trace, summary, verdict }
    }

    /// Shortens the safety phase, and leaves out kinds of faults. All else follows from the seed.
    fn shrunk(&self) -> (Self, Result<(), Violation>) {
        let quiet = Self { verbose: false, ..self.clone() };
        let verdict = quiet.run().verdict;
        let mut search = Search { best: quiet, verdict, runs_left: SHRINK_RUNS_MAX };
        loop {
            let before = search.best.clone();
            for fault in Fault::ALL {
                search.try_with(|options| options.faults = options.faults.without(fault));
            }
            let mut step = search.best.millis / 2;
            while step > 0 {
                search.try_with(|options| options.millis = options.millis.saturating_sub(step));
                step /= 2;
            }
            if search.best == before || search.runs_left == 0 {
                return (search.best, search.verdict);
            }
        }
    }

    fn command(&self) -> String {
        let Self { seed, nodes, millis, faults, power_at, plant, workload, .. } = self;
        let mut out = format!("carillon sim --nodes {nodes} --seed {seed}");
        if *millis != MILLIS_DEFAULT {
            out += &format!(" --millis {millis}");
        }
        if *faults != Faults::ALL {
            out += &format!(" --faults {faults}");
        }
        if let Some(changes) = power_at {
            out += &format!(" --power-at {changes}");
        }
        if let Some(plant) = plant {
            out += &format!(" --plant {}", plant.name());
        }
        if let Some(workload) = workload {
            out += &format!(" --workload {}", workload.name());
        }
        out
    }
}

/// The smallest run that was found to break the same rule.
struct Search {
    best: Options,
    verdict: Result<(), Violation>,
    runs_left: u32,
}

impl Search {
    fn try_with(&mut self, change: impl Fn(&mut Options)) {
        let mut options = self.best.clone();
        change(&mut options);
        if options == self.best || self.runs_left == 0 {
            return;
        }
        self.runs_left -= 1;
        let rule = |verdict: &Result<(), Violation>| verdict.as_ref().err().map(|v| v.rule);
        let verdict = options.run().verdict;
        if rule(&verdict).is_some() && rule(&verdict) == rule(&self.verdict) {
            (self.best, self.verdict) = (options, verdict);
        }
    }
}

/// Bytes in a second: in a third of all runs so few that streams have to wait, but not so long that
/// all shards of a node would not come within the bound for liveness. It is drawn apart,
/// so that all else in a run of a seed stays as it was.
fn snapshot_rate(seed: u64) -> Option<NonZeroU64> {
    const RATES: [u64; 6] = [1_000, 2_000, 0, 0, 0, 0];
    let mut random = Random::new(mix(seed));
    NonZeroU64::new(RATES[random.below(RATES.len() as u64) as usize])
}

/// In a third of all runs, and wherever there are many nodes. It is drawn apart, too.
fn places_replicas(options: &Options) -> bool {
    let drawn = Random::new(mix(mix(options.seed))).below(3) == 0;
    options.faults.has(Fault::Move) && (drawn || options.nodes > 9)
}

/// In a quarter of all runs; never with a planted bug. It is drawn apart as well.
fn is_ordered(options: &Options) -> bool {
    let drawn = Random::new(mix(mix(mix(mix(mix(options.seed)))))).below(4) == 0;
    options.plant.is_none() && drawn
}

/// In a sixth of those that are not; nor where versions are mixed. It is drawn apart as well.
fn is_linear(options: &Options) -> bool {
    let drawn = Random::new(mix(mix(options.seed) ^ 0x6c69_6e65)).below(6) == 0;
    options.plant == Some(Plant::SecondTurn)
        || options.plant.is_none()
            && drawn
            && !is_ordered(options)
            && !super::upgrade::mixes(options)
}

/// What the seed chooses for the whole run.
#[derive(Clone, Copy, Debug)]
pub struct RunProfile {
    /// Replicas of each shard of keys.
    pub replicas: usize,
    /// Replicas of the system shard: a node with one takes clients, also for remote shards.
    pub system_replicas: usize,
    /// When shards are split and merged without being asked to.
    pub reshape: ReshapeLimits,
    /// Whether shards begin with all of them; else those follow that are not the first.
    pub starts_with_all_replicas: bool,
    /// Executors of each node.
    pub executors: usize,
    /// Bytes of a segment of a node's log.
    pub segment_bytes: u64,
    /// Keys in use.
    pub keys: u64,
    /// Keys that share a hash tag: commands may be of several of these.
    pub tagged: u64,
    /// How far a node's wall clock may be off, either way, in milliseconds.
    pub offset_ms_max: u64,
    /// How long values with an end live at most, in milliseconds; 0 if none has one.
    pub ttl_ms_max: u64,
    /// One command in so many changes the catalogue.
    pub catalogue_in: u64,
    /// One command in so many is FLUSH, or a question about all keys.
    pub scan_in: u64,
    /// Clients.
    pub clients: u64,
    /// Things a node does in a millisecond, at most.
    pub actions_max: u64,
    /// One packet in so many is lost …
    pub lost_in: u64,
    /// … comes twice …
    pub repeated_in: u64,
    /// (RPCs that ask for writes, too) …
    pub repeats_writes: bool,
    /// … or late.
    pub late_in: u64,
    /// All others take at most so long.
    pub delay_ms_max: u64,
    /// One sync in so many is slow.
    pub slow_sync_in: u64,
    /// Something breaks once in about so many milliseconds.
    pub break_ms: u64,
    /// Whether disks lose the ends of their logs. Little else breaks meanwhile.
    pub tails: bool,
    /// Whether old versions are collected.
    pub collection: bool,
    /// Whether checkpoints are written.
    pub checkpoints: bool,
    /// How often leaders compare their replicas, in nanoseconds; 0: never.
    pub check_nanos: u64,
    /// How long a node rests after a round of checkpoints, in milliseconds.
    pub round_every_ms: u64,
    /// Milliseconds between what a client asks, at most.
    pub think_ms: u64,
    /// Whether replicas and leaders move by themselves, as the balancer says.
    pub places_replicas: bool,
    /// Bytes in a second of states that a node sends.
    pub snapshot_rate: Option<NonZeroU64>,
    /// Whether the keyspace that clients use is ordered.
    pub is_ordered: bool,
    /// Whether it is one of linear hashing.
    pub is_linear: bool,
    /// Whether everything takes exactly its time: packets the longest, disks none, and nodes do at
    /// once all that they can.
    pub is_exact: bool,
}

impl RunProfile {
    /// How the keyspace that clients use places its keys.
    pub fn placement(&self) -> Placement {
        match self {
            Self { is_ordered: true, .. } => Placement::Ordered,
            Self { is_linear: true, .. } => Placement::LinearHash,
            _ => Placement::Hashed,
        }
    }

    /// How many replicas a shard has.
    pub fn replicas_of(&self, shard: ShardId) -> usize {
        if shard == ShardId(0) { self.system_replicas } else { self.replicas }
    }

    /// Draws one.
    pub fn draw(rng: &mut Rng, options: &Options) -> Self {
        let never = 1 << 40;
        let faults = options.faults;
        // Never in a third of all runs, and in those that leave this kind of fault out.
        let maybe = |rng: &mut Rng, fault, low, high| {
            let (n, rarely) = (rng.between(low, high), rng.one_in(3));
            if rarely || !faults.has(fault) { never } else { n }
        };
        let offset_ms_max = *rng.pick(&[0, 400, 3_600_000]);
        let checkpoints = rng.one_in(2);
        // With a planted bug, whatever a lost log shows is no news.
        let tails = rng.one_in(3) && faults.has(Fault::Tail) && options.plant.is_none();
        let replicas = if options.nodes >= 5 && rng.one_in(2) { 5 } else { 3 };
        let is_wide = options.nodes >= 5 && !rng.one_in(4);
        let (is_ordered, is_linear) = (is_ordered(options), is_linear(options));
        Self {
            replicas,
            system_replicas: if is_wide { 5 } else { replicas },
            reshape: ReshapeLimits::default(),
            starts_with_all_replicas: rng.one_in(2),
            executors: rng.between(1, 2) as usize,
            segment_bytes: *rng.pick(&[16 << 10, 64 << 10]),
            keys: rng.between(2, 5),
            tagged: match rng.between(1, 3) {
                // Cuts part what has one tag, and reads of several shards promise nothing together.
                _ if is_ordered || is_linear => 1,
                tagged => tagged,
            },
            offset_ms_max: if faults.has(Fault::Clock) { offset_ms_max } else { 0 },
            ttl_ms_max: *rng.pick(&[0, 60, 400, 2_000]),
            catalogue_in: maybe(rng, Fault::Catalogue, 10, 60),
            // With rot planted, replicas' digests are to find it, not clients.
            scan_in: match (options.plant, rng.between(5, 40)) {
                (Some(Plant::RottenState), _) => never,
                (_, often) => often,
            },
            clients: rng.between(3, 7),
            actions_max: rng.between(6, 30),
            lost_in: maybe(rng, Fault::Loss, 8, 200),
            repeated_in: maybe(rng, Fault::Loss, 10, 200),
            late_in: maybe(rng, Fault::Loss, 10, 200),
            // Where disks are never full.
            repeats_writes: tails || !faults.has(Fault::Full),
            delay_ms_max: rng.between(0, 15),
            slow_sync_in: maybe(rng, Fault::SlowSync, 10, 200),
            break_ms: rng.between(120, 700),
            tails,
            collection: rng.one_in(2) && faults.has(Fault::Collection),
            checkpoints: checkpoints && faults.has(Fault::Checkpoints),
            // What is planted here comes a moment after the entry that does it, and a digest may be
            // of that moment.
            check_nanos: if options.plant == Some(Plant::LeftRecord) { 0 } else { CHECK_NANOS },
            round_every_ms: 0,
            think_ms: rng.between(20, 120),
            places_replicas: places_replicas(options),
            snapshot_rate: snapshot_rate(options.seed),
            is_ordered,
            is_linear,
            is_exact: false,
        }
    }
}
