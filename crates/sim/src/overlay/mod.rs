//! How far is it from any member of a ring to any other, by each lookup?
//!
//! Here lookups are driven alone, without nodes, logs and disks: `overlay`'s own code, on as many
//! members as wanted, in no time but that of the seed.
//!
//! ```text
//!   $ carillon sim overlay --nodes 1000,100000 --lookup full,lh
//!   lookup   nodes   hops mean   p50   p99   max   …   wrong
//!   full      1000       0.000     0     0     0   …       0
//! ```
//!
//! # What is counted
//! * A **member** is a shard: its place on the ring is where its arc starts. Each stands on a node
//!   of its own.
//! * A **hop** is a move from member to member, the one to the owner included. On a ring the asker
//!   is a member: 0 hops if it owns the point itself. An asker with a full table, or a client of
//!   [`lh`](mod@linear_hash), is no member, and asks a member at once: that is no hop, and `full`
//!   takes none.
//! * **Messages** of a lookup with *h* hops: *iterative* 2·h (the asker asks each), *recursive*
//!   h + 1 (it is passed on, and the last answers the asker), *semi-recursive* 2·h (the answer goes
//!   back by the same route); none if h = 0. An asker that is no member sends one more.
//! * **Entries** of a table are the places in it, **connections** the different members there.
//! * An answer is **wrong** if a search over all starts finds another owner than the member that
//!   claims to be it; or if a lookup takes more moves than there are members. It must be 0.
//!
//! # Where to start
//! [`run`]; [`ring`] makes members, [`tables`] fills their tables, [`walks`] sends requests through
//! them, [`mod@linear_hash`] lets a file of linear hashing grow, [`report`] and [`plot`] show what
//! came of it.
//!
//! # Studies
//! `--study` measures something else: how even [`load`] is, what a [`join`] costs, what happens
//! when many members join, fail or leave at once ([`churn`]), how [`requests`] fare as messages,
//! and which nodes are connected ([`connections`]); [`studies`] prints them.
//!
//! # Invariants
//! 1. Equal options, equal reports, byte for byte, however many processors there are.
//! 2. The code that judges answers does not look into tables.

pub mod churn;
pub mod connections;
pub mod join;
pub mod linear_hash;
pub mod load;
pub mod plot;
pub mod report;
pub mod requests;
pub mod ring;
pub mod studies;
pub mod tables;
pub mod walks;

use std::str::FromStr;

pub use overlay::Kind;
use overlay::chord_sharp::BASE;
use overlay::ring::place::Members;
use overlay::{Chord, ChordSharp, Linear};

pub use overlay::ring::{SUCCESSORS_MAX, SUCCESSORS_MIN};

use crate::rng::Rng;
use ring::Ring;
use tables::MemberTables;
use walks::{LookupStats, Spread};

/// The most members of a ring.
pub const NODES_MAX: usize = 500_000;
/// The most requests of a run.
pub const REQUESTS_MAX: u64 = 100_000_000;
/// The most moves of linear lookups in a run, about: beyond, the run makes fewer requests.
pub const LINEAR_MOVES_MAX: u64 = 500_000_000;

/// Which lookups are measured: rising, none twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kinds(pub Vec<Kind>);

/// There is no lookup of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no lookup '{0}': all, or a list of {names}", names = Kind::ALL.map(Kind::name).join(", "))]
pub struct NoSuchLookup(pub String);

impl FromStr for Kinds {
    type Err = NoSuchLookup;

    fn from_str(text: &str) -> Result<Self, NoSuchLookup> {
        if text == "all" {
            return Ok(Self(Kind::ALL.to_vec()));
        }
        let kind = |name: &str| {
            let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            found.ok_or_else(|| NoSuchLookup(name.to_owned()))
        };
        let mut kinds = text.split(',').map(kind).collect::<Result<Vec<Kind>, NoSuchLookup>>()?;
        kinds.sort_unstable();
        kinds.dedup();
        Ok(Self(kinds))
    }
}

/// How members and requested points lie on the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// Evenly, as hashes do.
    #[default]
    Uniform,
    /// As ordered text does: each byte is drawn by Zipf's law, so many begin alike.
    Zipf,
}

impl Keys {
    /// As it is typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }
}

/// There are no keys of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no keys '{0}': uniform or zipf")]
pub struct NoSuchKeys(pub String);

impl FromStr for Keys {
    type Err = NoSuchKeys;

    fn from_str(text: &str) -> Result<Self, NoSuchKeys> {
        let found = [Self::Uniform, Self::Zipf].into_iter().find(|keys| keys.name() == text);
        found.ok_or_else(|| NoSuchKeys(text.to_owned()))
    }
}

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes of rings, each 1 to [`NODES_MAX`].
    pub nodes: Vec<usize>,
    /// Lookups.
    pub kinds: Kinds,
    /// Requests of each run, 1 to [`REQUESTS_MAX`].
    pub requests: u64,
    /// Where chance comes from.
    pub seed: u64,
    /// How members and requests lie on the ring.
    pub keys: Keys,
    /// Successors in each list, [`SUCCESSORS_MIN`] to [`SUCCESSORS_MAX`]: what a ring survives, and
    /// how large tables are.
    pub successors: usize,
}

impl Default for Options {
    /// All lookups on a ring of 1000.
    fn default() -> Self {
        Self {
            nodes: vec![1000],
            kinds: Kinds(Kind::ALL.to_vec()),
            requests: 10_000,
            seed: 1,
            keys: Keys::Uniform,
            successors: SUCCESSORS_MIN,
        }
    }
}

/// One lookup on one ring.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which lookup.
    pub kind: Kind,
    /// How many members.
    pub nodes: usize,
    /// How many requests.
    pub requests: u64,
    /// How far they went.
    pub hops: Spread,
    /// Places in a member's table, on average.
    pub entries: f64,
    /// Different members in it, on average.
    pub connections: f64,
    /// Answers that were wrong, and requests that did not end.
    pub wrong: u64,
    /// Further measurements of a linear-hash table.
    pub file: Option<linear_hash::Growth>,
}

impl Run {
    /// Whether the asker is no member, and asks one that it knows.
    pub fn is_from_outside(&self) -> bool {
        matches!(self.kind, Kind::Full | Kind::Lh)
    }

    /// ½·log2 of the members: what the papers say of Chord.
    pub fn half_log(&self) -> f64 {
        (self.nodes as f64).log2() / 2.0
    }
}

/// The results of a measurement.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its options.
    pub options: Options,
    /// By size, then by lookup.
    pub runs: Vec<Run>,
}

/// Called by any thread with the progress: the task, how much is done, of how much.
pub type Progress<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

/// Measures: a pure function of its options.
pub fn run(options: &Options, progress: Progress<'_>) -> Report {
    let mut runs = Vec::new();
    for nodes in &options.nodes {
        let ring = Ring::new(*nodes, options.keys, &mut Rng::new(options.seed ^ *nodes as u64));
        runs.extend(options.kinds.0.iter().map(|kind| one(options, *kind, &ring, progress)));
    }
    Report { options: options.clone(), runs }
}

/// How many linear lookups make no more moves than `moves_max`, about; at least one.
pub(crate) fn linear_requests(nodes: usize, requests: u64, moves_max: u64) -> u64 {
    requests.min((2 * moves_max / nodes as u64).max(1))
}

fn one(options: &Options, kind: Kind, ring: &Ring, progress: Progress<'_>) -> Run {
    let (nodes, requests) = (ring.len(), options.requests);
    let what = format!("{}, {nodes} nodes", kind.name());
    let on_progress = |done: u64| progress(&what, done, requests);
    let walked = |tables: &dyn tables::Tables, requests: u64| -> Run {
        let LookupStats { hops, wrong } =
            walks::walks(ring, tables, requests, options.seed, &on_progress);
        let mean =
            |of: &dyn Fn(usize) -> usize| (0..nodes).map(of).sum::<usize>() as f64 / nodes as f64;
        Run {
            kind,
            nodes,
            requests,
            hops,
            entries: mean(&|at| tables.entries(at)),
            connections: mean(&|at| tables.connections(at)),
            wrong,
            file: None,
        }
    };
    let members = || Members::new(ring.members().iter().cloned());
    let length = options.successors;
    match kind {
        Kind::Full => walked(&tables::SharedTable::new(ring), requests),
        Kind::Chord => {
            let all = members();
            walked(&MemberTables::new(nodes, |at| Chord::ideal(&all, at, length)), requests)
        }
        Kind::ChordSharp => {
            let (all, base) = (members(), BASE);
            let table = |at| ChordSharp::ideal(&all, at, length, base);
            walked(&MemberTables::new(nodes, table), requests)
        }
        Kind::Linear => {
            let all = members();
            let tables = MemberTables::new(nodes, |at| Linear::ideal(&all, at, length));
            walked(&tables, linear_requests(nodes, requests, LINEAR_MOVES_MAX))
        }
        Kind::Lh => linear_hash::grow(nodes, requests, options.seed, &on_progress),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_walks_are_as_many_as_can_be_waited_for() {
        let asked = |nodes| linear_requests(nodes, REQUESTS_MAX, LINEAR_MOVES_MAX);
        assert_eq!([1000, 100_000, NODES_MAX].map(asked), [1_000_000, 10_000, 2_000]);
        assert_eq!(linear_requests(NODES_MAX, 3, LINEAR_MOVES_MAX), 3);
        assert_eq!(linear_requests(NODES_MAX, 3, 1), 1);
    }
}
