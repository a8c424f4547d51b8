//! What a run of a cluster is told, and what its seed chooses.

use std::str::FromStr;

use keyspace::ShardId;

use super::World;
use crate::check::Violation;
use crate::cli::{Life, Told};
use crate::rng::Rng;
use crate::trace::Trace;

/// A fault planted in the driver, to see whether the checkers find it (SAFETY, last paragraph).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A node's boot clock does not count pauses, so that a leader trusts its lease after one (G5).
    StaleLease,
    /// Who says it leads may read, whatever its lease says (G5).
    LeaseByRole,
    /// A restarted replica votes and stands at once (G4).
    ForgetfulVote,
    /// What promises to be on disk leaves before it is (G9, G16).
    UnsyncedVote,
    /// A new leader serves reads before its term's first entry (G1).
    FreshLeaderReads,
    /// The memory of one replica changes (G13).
    RottenState,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::StaleLease,
        Self::LeaseByRole,
        Self::ForgetfulVote,
        Self::UnsyncedVote,
        Self::FreshLeaderReads,
        Self::RottenState,
    ];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::StaleLease => "stale-lease",
            Self::LeaseByRole => "lease-by-role",
            Self::ForgetfulVote => "forgetful-vote",
            Self::UnsyncedVote => "unsynced-vote",
            Self::FreshLeaderReads => "fresh-leader-reads",
            Self::RottenState => "rotten-state",
        }
    }
}

/// There is no planted bug of this name for clusters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no bug '{0}' of clusters: stale-lease, lease-by-role, forgetful-vote, unsynced-vote, \
     fresh-leader-reads and rotten-state can be planted"
)]
pub struct NoSuchPlant(pub String);

impl FromStr for Plant {
    type Err = NoSuchPlant;

    fn from_str(text: &str) -> Result<Self, NoSuchPlant> {
        let found = Self::ALL.into_iter().find(|plant| plant.name() == text);
        found.ok_or_else(|| NoSuchPlant(text.to_owned()))
    }
}

/// Milliseconds of the safety phase unless said otherwise.
pub const MILLIS_DEFAULT: u64 = 6_000;

/// What a run is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Decides everything else.
    pub seed: u64,
    /// Nodes, at least three.
    pub nodes: usize,
    /// Virtual milliseconds of the safety phase.
    pub millis: u64,
    /// Whether to keep the trace's text.
    pub verbose: bool,
    /// What is planted.
    pub plant: Option<Plant>,
}

impl Options {
    /// The usual run of a seed.
    pub fn of(seed: u64) -> Self {
        let nodes = if seed % 4 == 3 { 5 } else { 3 };
        Self { seed, nodes, millis: MILLIS_DEFAULT, verbose: false, plant: None }
    }
}

impl Life for Options {
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
        let Self { nodes, millis, plant, .. } = self;
        let plant = plant.map_or("none", |plant| plant.name());
        [format!("{nodes} nodes, {millis} ms"), format!("planted bug: {plant}")]
    }

    fn run(&self) -> Told<Self> {
        let mut world = World::new(self);
        let verdict = crate::caught(|| world.run());
        let summary = format!("the seed's mood: {:?}\n{:?}", world.mood(), world.counts);
        let trace_hash = world.trace.hash();
        let trace = std::mem::replace(&mut world.trace, Trace::new(false)).into_text();
        Told { life: self.clone(), trace_hash, trace, summary, verdict }
    }

    /// Shortens the safety phase. All else follows from the seed.
    fn shrunk(&self) -> (Self, Result<(), Violation>) {
        let rule = |verdict: &Result<(), Violation>| verdict.as_ref().err().map(|v| v.rule);
        let quiet = Self { verbose: false, ..self.clone() };
        let (mut best, mut verdict) = (quiet.clone(), quiet.run().verdict);
        let mut step = best.millis / 2;
        while step > 0 {
            let shorter = Self { millis: best.millis - step, ..best.clone() };
            let found = shorter.run().verdict;
            if rule(&found).is_some() && rule(&found) == rule(&verdict) {
                (best, verdict) = (shorter, found);
            }
            step = step.min(best.millis) / 2;
        }
        (best, verdict)
    }

    fn command(&self) -> String {
        let Self { seed, nodes, millis, plant, .. } = self;
        let mut out = format!("carillon sim --nodes {nodes} --seed {seed}");
        if *millis != MILLIS_DEFAULT {
            out += &format!(" --millis {millis}");
        }
        if let Some(plant) = plant {
            out += &format!(" --plant {}", plant.name());
        }
        out
    }
}

/// What the seed chooses for the whole run.
#[derive(Clone, Copy, Debug)]
pub struct Mood {
    /// Replicas of each shard of keys.
    pub replicas: usize,
    /// Replicas of the system shard: who has one takes clients, also for shards that are elsewhere.
    pub system_replicas: usize,
    /// Whether shards begin with all of them; else those follow that are not the first.
    pub born_whole: bool,
    /// Lanes of each node.
    pub lanes: usize,
    /// Keys in use.
    pub keys: u64,
    /// Clients.
    pub clients: u64,
    /// Things a node does in a millisecond, at most.
    pub actions_max: u64,
    /// One packet in so many is lost …
    pub lost_in: u64,
    /// … comes twice …
    pub repeated_in: u64,
    /// … or late.
    pub late_in: u64,
    /// All others take at most so long.
    pub delay_ms_max: u64,
    /// One sync in so many is slow.
    pub slow_sync_in: u64,
    /// Something breaks once in about so many milliseconds.
    pub break_ms: u64,
    /// Whether checkpoints are written.
    pub checkpoints: bool,
    /// Milliseconds between what a client asks, at most.
    pub think_ms: u64,
}

impl Mood {
    /// How many replicas a shard has.
    pub fn replicas_of(&self, shard: ShardId) -> usize {
        if shard == ShardId(0) { self.system_replicas } else { self.replicas }
    }

    /// Draws one.
    pub fn draw(rng: &mut Rng, options: &Options) -> Self {
        let never = 1 << 40;
        let maybe = |rng: &mut Rng, n: u64| if rng.one_in(3) { never } else { n };
        let replicas = if options.nodes >= 5 && rng.one_in(2) { 5 } else { 3 };
        let is_wide = options.nodes >= 5 && !rng.one_in(4);
        Self {
            replicas,
            system_replicas: if is_wide { 5 } else { replicas },
            born_whole: rng.one_in(2),
            lanes: rng.between(1, 2) as usize,
            keys: rng.between(2, 5),
            clients: rng.between(3, 7),
            actions_max: rng.between(6, 30),
            lost_in: {
                let n = rng.between(8, 200);
                maybe(rng, n)
            },
            repeated_in: {
                let n = rng.between(10, 200);
                maybe(rng, n)
            },
            late_in: {
                let n = rng.between(10, 200);
                maybe(rng, n)
            },
            delay_ms_max: rng.between(0, 15),
            slow_sync_in: {
                let n = rng.between(10, 200);
                maybe(rng, n)
            },
            break_ms: rng.between(150, 900),
            checkpoints: rng.one_in(2),
            think_ms: rng.between(20, 120),
        }
    }
}
