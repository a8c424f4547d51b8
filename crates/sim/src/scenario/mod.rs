//! How does a cluster survive one disaster? Scenarios by name.
//!
//! A random run injects all faults at once, for a short while. A scenario plays one disaster to its
//! end: a hundred nodes join at one moment, nine of twenty leave, a failure domain burns down.
//! Nothing else breaks, clients send requests all the while, and leaders ask the balancer as in the
//! server. At the end, or in between, the ring must become ideal within a bound of virtual time
//! ([`check::ring`](crate::check::ring)). As after a random run, every client must be answered, and
//! some order must explain all answers.
//!
//! ```text
//!   $ carillon sim --scenario list
//!   $ carillon sim --scenario nine-of-twenty --seed 7
//! ```
//! | file | scenarios |
//! |---|---|
//! | `joins` | nodes join, and leave at the same moment |
//! | `losses` | power goes: of nine of twenty, of all, of a domain, of one that is replaced |
//! | `links` | a leader whose messages are lost, links that work in one direction |
//! | `changes` | crashes at every change of a disk while replicas are changed |
//! | `arcs` | shards are split and merged, with crashes and cut links meanwhile |
//! | `coordinators` | coordinators of transactions die at every step; others finish their work |
//!
//! Each has a short form, with fewer nodes or fewer moments, which tests run.

mod arcs;
mod changes;
mod coordinators;
mod joins;
mod links;
mod losses;

use crate::check::Violation;
use crate::cli::{RunReport, SimulatedRun};
use crate::cluster::{Counts, World};
use crate::named::named;
use crate::trace::Trace;

named! {
    #[what = "scenario"]
    /// A disaster.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Scenario {
        /// A hundred nodes join three at once.
        JoinsInto3 = "joins-into-3",
        /// A hundred nodes join a hundred at once.
        JoinsInto100 = "joins-into-100",
        /// Nine of twenty nodes leave one by one under load, and come back.
        NineOfTwenty = "nine-of-twenty",
        /// All nodes lose their power at once.
        AllOff = "all-off",
        /// A leader receives no messages, but clients reach it.
        IsolatedLeader = "isolated-leader",
        /// Between a leader and each other node, only one way is open.
        OneWayLink = "one-way-link",
        /// All nodes of a failure domain lose their power.
        DomainLost = "domain-lost",
        /// A node was replaced while it was off, and returns.
        RemovedReturns = "removed-returns",
        /// A node loses its power at every change of its disk while a replica is exchanged.
        ReplicaChangeCrashes = "replica-change-crashes",
        /// Nodes join, drain and lose their power at the same moment.
        JoinAndLeave = "join-and-leave",
        /// A node loses its power at every change of its disk while a shard is split.
        SplitCrashes = "split-crashes",
        /// A node loses power at every change of its disk while a shard merges.
        MergeCrashes = "merge-crashes",
        /// A node loses its power at every change of its disk while a file of linear hashing grows.
        GrowCrashes = "grow-crashes",
        /// … and while it shrinks.
        ShrinkCrashes = "shrink-crashes",
        /// A shard is split while its group is parted.
        SplitInPartition = "split-in-partition",
        /// A shard merges with its neighbour while their groups are parted.
        MergeInPartition = "merge-in-partition",
        /// The coordinator of a transaction dies at every step of it.
        CoordinatorCrashes = "coordinator-crashes",
        /// … and so do the coordinators that finish their transactions.
        RecoveryCrashes = "recovery-crashes",
    }
}

impl Scenario {
    /// What happens in it, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::JoinsInto3 => "100 nodes join a cluster of 3 at once",
            Self::JoinsInto100 => "100 nodes join a cluster of 100 at once",
            Self::NineOfTwenty => "9 of 20 nodes leave one by one under load, and come back",
            Self::AllOff => "all nodes lose their power at once, and have it back",
            Self::IsolatedLeader => "a leader hears nobody while clients reach it",
            Self::OneWayLink => "a leader's links work one way, one after the other",
            Self::DomainLost => "all nodes of a failure domain lose their power",
            Self::RemovedReturns => "a node returns whose replicas were replaced meanwhile",
            Self::ReplicaChangeCrashes => "power goes at every write while a replica is exchanged",
            Self::JoinAndLeave => "nodes join, drain and lose their power at one moment",
            Self::SplitCrashes => "power goes at every write while a shard is split",
            Self::MergeCrashes => "power fails at every write while a shard merges",
            Self::GrowCrashes => "power goes at every write while a linear-hash file grows",
            Self::ShrinkCrashes => "power goes at every write while such a file shrinks",
            Self::SplitInPartition => "a shard is split while its group is parted",
            Self::MergeInPartition => "a shard merges while a partition separates the groups",
            Self::CoordinatorCrashes => "a transaction's coordinator dies at every step of it",
            Self::RecoveryCrashes => "so does who finishes what a dead coordinator has left",
        }
    }

    fn play(self, run: &mut Run<'_>) -> Result<(), Violation> {
        match self {
            Self::JoinsInto3 => joins::joins_into(run, 3),
            Self::JoinsInto100 => joins::joins_into(run, 100),
            Self::NineOfTwenty => losses::nine_of_twenty(run),
            Self::AllOff => losses::all_off(run),
            Self::IsolatedLeader => links::isolated_leader(run),
            Self::OneWayLink => links::one_way_link(run),
            Self::DomainLost => losses::domain_lost(run),
            Self::RemovedReturns => losses::removed_returns(run),
            Self::ReplicaChangeCrashes => changes::replica_change_crashes(run),
            Self::JoinAndLeave => joins::join_and_leave(run),
            Self::SplitCrashes => arcs::split_crashes(run),
            Self::MergeCrashes => arcs::merge_crashes(run),
            Self::GrowCrashes => arcs::grow_crashes(run),
            Self::ShrinkCrashes => arcs::shrink_crashes(run),
            Self::SplitInPartition => arcs::split_in_partition(run),
            Self::MergeInPartition => arcs::merge_in_partition(run),
            Self::CoordinatorCrashes => coordinators::coordinator_crashes(run),
            Self::RecoveryCrashes => coordinators::recovery_crashes(run),
        }
    }
}

/// The options of a scenario's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which disaster.
    pub scenario: Scenario,
    /// Decides everything else.
    pub seed: u64,
    /// Whether it is the short form.
    pub is_short: bool,
    /// Whether to keep the trace's text.
    pub verbose: bool,
}

/// A run under way, of one world or of many.
struct Run<'a> {
    options: &'a Options,
    /// Of all worlds so far.
    trace: Trace,
    text: String,
    counts: Counts,
    worlds: u32,
}

impl Run<'_> {
    /// One number in the short form, another in the whole one.
    fn of<T>(&self, short: T, whole: T) -> T {
        if self.options.is_short { short } else { whole }
    }

    /// Plays in a world of its own.
    fn world(
        &mut self,
        stage: &crate::cluster::ScenarioSetup,
        play: impl FnOnce(&mut World) -> Result<(), Violation>,
    ) -> Result<Counts, Violation> {
        let Options { seed, verbose, .. } = *self.options;
        self.in_world(World::for_scenario(seed, stage, verbose), play)
    }

    /// Plays in this world.
    fn in_world(
        &mut self,
        mut world: World,
        play: impl FnOnce(&mut World) -> Result<(), Violation>,
    ) -> Result<Counts, Violation> {
        let verdict = crate::caught(|| play(&mut world));
        self.worlds += 1;
        self.counts = world.counts;
        self.trace.bytes(&world.trace.hash().to_le_bytes());
        let text = std::mem::replace(&mut world.trace, Trace::new(false)).into_text();
        self.text.push_str(&text.unwrap_or_default());
        verdict.map(|()| world.counts)
    }
}

/// Runs a scenario: a pure function of its options. The last world's counts are those of the run.
pub fn run(options: &Options) -> (Counts, RunReport<Options>) {
    let (trace, text) = (Trace::new(false), String::new());
    let mut run = Run { options, trace, text, counts: Counts::default(), worlds: 0 };
    let verdict = options.scenario.play(&mut run);
    let Run { trace, text, counts, worlds, .. } = run;
    let summary = format!("{}\n{worlds} worlds, the last: {counts:?}", options.scenario.about());
    let (life, trace_hash) = (options.clone(), trace.hash());
    let trace = options.verbose.then_some(text);
    (counts, RunReport { life, trace_hash, trace, summary, verdict })
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
        let form = if self.is_short { " (short)" } else { "" };
        [format!("{}{form}", self.scenario.name()), self.scenario.about().to_owned()]
    }

    fn run(&self) -> RunReport<Self> {
        run(self).1
    }

    /// A scenario says what happens: there is nothing to leave out.
    fn shrunk(&self) -> (Self, Result<(), Violation>) {
        let quiet = Self { verbose: false, ..self.clone() };
        let verdict = quiet.run().verdict;
        (quiet, verdict)
    }

    fn command(&self) -> String {
        let Self { scenario, seed, is_short, .. } = self;
        let short = if *is_short { " --short" } else { "" };
        format!("carillon sim --scenario {} --seed {seed}{short}", scenario.name())
    }
}
