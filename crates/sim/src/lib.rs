//! What happens to a node when everything that can go wrong does?
//!
//! A seed decides a whole run: the requests of virtual clients, the order in which executors,
//! readers, syncs and checkpoints take their steps, when the power fails and what the disk then
//! still holds. The cores are those of the server (`node`, `txn`, `storage`). This crate is their
//! second driver, on one thread, with a virtual disk and a virtual clock. So a rare failure shows
//! here within seconds, and can be repeated as often as wanted.
//!
//! ```text
//!   $ carillon sim --seed 1 --seeds 100
//!   ....................!...                   a sign for each seed:  . held   ! a rule is broken
//!   replay: carillon sim --seed 21 --steps 310 --clients 2 --faults power,clock
//! ```
//! The printed command repeats the shortest failing run that was found, with `--verbose` as a text,
//! one line an event.
//!
//! # Where to start
//! [`world`] takes the steps of one node and injects faults, [`cluster`] those of several nodes;
//! [`machine`] is the node without threads; [`check`] lists the rules and their checkers;
//! [`options`] lists faults, planted bugs and what a seed chooses by itself.
//!
//! # Faults
//! Kill -9 (everything written survives); power cuts at any change of the disk, also within starts,
//! checkpoints and manifests (what was synced survives, of the rest any sectors, names in any
//! order); failed and slow syncs; failed and short writes; a full disk and its end; a clock that
//! jumps ahead, and stands earlier at the next start; readers that run while executors do not;
//! keyspaces that come and go; memory that is full for writes. Bit rot is not among them: it is
//! tried by itself, in the tests, since a node may refuse to start after it.
//!
//! # Limits
//! Where a core works in pieces, its limits come from the driver ([`machine::Limits`]), and many
//! seeds choose them small: blocks of checkpoints of one key, flushes that set eras of one key
//! aside, step rounds that propose one batch, ranges of one key under one hold of a guard. A limit
//! that no short run reaches would hide faults behind it.
//!
//! # Clusters
//! `carillon sim --nodes 3` runs a whole [`cluster`]: nodes of the same code, a network that loses,
//! repeats, delays and cuts, links that are lost with their packets and come back, clocks that
//! drift and lie an hour apart, leader transfers, processes that crash and pause, power that fails
//! at any change of a disk (`--power-at` tries one after the other), an attacker who alters
//! messages and forges handshakes ([`cluster::attacker`]), syncs and
//! writes that fail, disks that are full and have room again, keyspaces that come, change and go,
//! requested at any node. Values expire, and commands use several keys of one hash tag. In a third
//! of all runs, and wherever there are more than nine nodes, leaders ask the `balancer` as in the
//! server: replicas leave nodes that are dead, and spread over all.
//!
//! # Scenarios
//! `carillon sim --scenario nine-of-twenty` plays one disaster to its end, in a cluster that
//! balances itself ([`scenario`]); afterwards the ring must become ideal within a bound of
//! virtual time ([`check::ring`]). `--scenario list` lists them.
//!
//! # Lookups alone
//! `carillon sim overlay` drives the lookups of `overlay` on rings of any size, without nodes
//! ([`mod@overlay`]).
//!
//! # Planted bugs
//! [`Bug`] and [`cluster::Plant`] name faults that the checkers must find (SAFETY):
//!
//! - replies made before the log decides, writes answered before they are durable
//! - reads below the safe point, expiry seen beyond the horizon, checkpoints that end early
//! - leases that outlive a pause, reads without a check of the lease, votes forgotten or not on
//!   disk
//! - ticks made up after a pause, leaders that read too early
//! - removed replicas that are not deleted
//! - transactions over shards that skip a look or a comparison, forget, or leave a lock or record
//! - nodes that forget which replicas have ended there
//! - nodes that read altered frames, or link with who has not proven the secret
//! - rounds of checkpoints that forget a shard, snapshots to replicas that were removed
//!
//! The cores have switches only for those of the last line.
//!
//! # Invariants
//! 1. Equal options, equal runs, byte for byte, in every process (R13): nothing here depends on a
//!    clock, a thread, the system or the order of a hash table.
//! 2. One checker judges clients' histories without the log, another the log without the engine:
//!    each would find the other's mistakes.
//!
//! # Caveats
//! The keys of one hash tag are checked as one history, with their RENAME, COPY, MSETNX and MGET.
//! An MGET of several tags is checked tag by tag and against the log, a FLUSH too. How soon
//! `interval` syncs is not checked. SETRANGE, INCRBYFLOAT, GETRANGE and LCS are not sent; a RANGE
//! takes everything, upwards. A long call (KEYS, RANGE) is one step: nothing is written between its
//! pieces. Values are short, so that limits on bytes of a value, an entry or a reply are not
//! reached. The index takes no part in how much memory is full.

pub mod check;
pub mod cli;
pub mod cluster;
pub mod command;
pub mod live;
pub mod machine;
mod named;
pub mod options;
pub mod overlay;
pub mod rng;
pub mod scenario;
pub mod shrink;
pub mod trace;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cli::{RunReport, SimulatedRun};

pub use check::Violation;
pub use options::{Bug, Fault, Faults, Options, RunProfile};
use world::{Counts, World};

/// How a run has ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its options.
    pub options: Options,
    /// What the seed chose.
    pub profile: RunProfile,
    /// The hash of everything that happened (R13).
    pub trace_hash: u64,
    /// What happened, if that was wanted.
    pub trace: Option<String>,
    /// The step it ended in.
    pub step: u32,
    /// What it has seen.
    pub counts: Counts,
    /// The first rule that was found broken.
    pub verdict: Result<(), Violation>,
}

/// Runs a world; an assert of the node that fails is a rule that is broken.
pub(crate) fn caught(run: impl FnOnce() -> Result<(), Violation>) -> Result<(), Violation> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation::new("an assert of the node", text.unwrap_or_default()))
    })
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
        let Self { steps, clients, faults, bug, .. } = self;
        let bug = bug.map_or("none", |bug| bug.name());
        let more = format!("faults: {faults}; planted bug: {bug}");
        [format!("{steps} steps, {clients} clients"), more]
    }

    fn run(&self) -> RunReport<Self> {
        let Report { options: life, profile, trace_hash, trace, step, counts, verdict } = run(self);
        let summary = format!("the seed's profile: {profile}\nended in step {step}: {counts:?}");
        RunReport { life, trace_hash, trace, summary, verdict }
    }

    fn shrunk(&self) -> (Self, Result<(), Violation>) {
        let Report { options, verdict, .. } = shrink::shrink(run(self));
        (options, verdict)
    }

    fn command(&self) -> String {
        Options::command(self)
    }
}

/// Runs once: a pure function of its options.
pub fn run(options: &Options) -> Report {
    let mut world = World::new(options);
    let profile = *world.profile();
    let verdict = caught(|| world.run());
    Report {
        options: options.clone(),
        profile,
        trace_hash: world.trace.hash(),
        step: world.trace.step,
        counts: world.counts,
        trace: std::mem::replace(&mut world.trace, trace::Trace::new(false)).into_text(),
        verdict,
    }
}
