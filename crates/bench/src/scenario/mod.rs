//! A scenario: what to measure, as a file of TOML says it. Pure: text in, values or an error out.
//!
//! ```toml
//! about = "Reads and writes, half and half"
//! repetitions = 3                      # each cell; medians count
//!
//! [target]
//! driver = "resp"                      # resp, http, native, nbd, etcd, exec …
//! addresses = ["127.0.0.1:6379"]       # or: command = ["redis-server", "--port", "{port}"]
//!
//! [keys]
//! count = 100_000
//! distribution = "zipf"                # uniform, zipf, latest, sequential, hot
//!
//! [load]                               # what all phases have, unless they say otherwise
//! clients = 50
//! mix = { get = 50, put = 50 }
//!
//! [[phase]]
//! name = "warm-up"
//! seconds = 5
//! measured = false
//!
//! [[phase]]
//! name = "closed"
//! seconds = 20
//!
//! [[phase]]
//! name = "open"
//! seconds = 20
//! rate = 10_000                        # open loop: so many requests a second, come what may
//!
//! [matrix]                             # all combinations, one after the other
//! "load.clients" = [1, 10, 100]
//!
//! [[pass]]
//! metric = "p99"
//! at_most = "5ms"
//! ```
//!
//! [[node]] and [[timeline]] start nodes and say what happens to them: [`node`], [`timeline`].
//! docs/bench.md lists all keys. [`reader`] reads them with their positions, [`parse`] says which
//! there are, [`plan`] makes the cells of a matrix, [`shipped`] holds those in the program.

pub mod error;
pub mod node;
pub mod parse;
pub mod plan;
pub mod reader;
pub mod shipped;
mod target;
pub mod timeline;

use std::time::Duration;

pub use error::ScenarioError;
pub use node::NodeSpec;
pub use plan::{Cell, Plan};
pub use timeline::{Act, Deed, When};

use crate::load::keys::KeyChoice;
use crate::load::schedule::Rate;
use crate::load::values::Sizes;

/// One cell of a scenario: everything that is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Where requests go.
    pub target: Target,
    /// The keys.
    pub keys: Keys,
    /// How long values are.
    pub sizes: Sizes,
    /// Whether values that are read are checked.
    pub verifies: bool,
    /// Whether a value that is read must be of the newest write that was acknowledged.
    pub verifies_latest: bool,
    /// What is written before the first phase.
    pub setup: Setup,
    /// Whether each key is read at the end: none may be missing, and numbers must add up.
    pub reads_back: bool,
    /// Whether the keys are deleted after the last phase.
    pub deletes_keys: bool,
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// Which network the nodes have.
    pub network: Network,
    /// What happens to the nodes meanwhile, in order.
    pub timeline: Vec<Act>,
    /// What is read of the nodes' metrics.
    pub metrics: MetricsSpec,
    /// What must hold.
    pub criteria: Vec<Criterion>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Threads that make the load, on each agent.
    pub threads: usize,
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// How they are spoken.
    pub driver: Driver,
    /// Whether they are sent by TLS; the target's certificate is not looked at.
    pub is_tls: bool,
    /// Where they are sent; of started commands, with placeholders.
    pub addresses: Vec<String>,
    /// What is started first, one process each.
    pub nodes: Vec<NodeSpec>,
    /// A command that succeeds once the nodes are ready; empty if they are when they accept
    /// connections.
    pub ready: Vec<String>,
    /// Whether a client whose connection broke connects to the next address.
    pub fails_over: bool,
    /// How long the addresses of commands may take to accept connections.
    pub ready_timeout: Duration,
    /// After this time without an answer a request has failed.
    pub request_timeout: Duration,
}

/// Which network nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// That of their host.
    Host,
    /// One of namespaces, whose links can be cut; it needs root.
    Namespaces,
}

/// Which of the nodes' metrics are read each second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSpec {
    /// A family of counters.
    pub family: String,
    /// The labels whose values name a kind.
    pub by: Vec<String>,
    /// Labels that a sample must have; others are left out.
    pub only: Vec<(String, String)>,
}

/// How requests are spoken.
#[derive(Clone, Debug, PartialEq)]
pub enum Driver {
    /// The Redis protocol.
    Resp {
        /// Commands that each new connection begins with.
        greeting: Vec<Vec<String>>,
        /// Whether each client asks the node that serves a key's slot.
        is_cluster: bool,
    },
    /// Carillon's HTTP.
    Http {
        /// The keyspace.
        keyspace: String,
    },
    /// Carillon's native frames.
    Native,
    /// The network block device protocol: a key is a block.
    Nbd {
        /// The export.
        export: String,
        /// The bytes of a block: those of all values.
        block_bytes: u64,
    },
    /// etcd's gRPC.
    Etcd,
    /// A map in the instrument itself: what the instrument costs.
    Memory,
    /// A program that speaks lines of JSON.
    Exec {
        /// The program and its arguments; `{address}` stands for a target's.
        program: Vec<String>,
    },
    /// The Redis protocol, with a server in the instrument that answers without looking.
    Null,
}

/// The keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// How many there are.
    pub count: u64,
    /// What they begin with.
    pub prefix: String,
    /// Which of them a request names.
    pub choice: KeyChoice,
}

/// What is written before the first phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Whether each key gets a value.
    pub fills: bool,
    /// Connections for that.
    pub clients: u64,
    /// Requests under way on each.
    pub pipeline: u64,
}

/// A stretch of load.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// What it is called.
    pub name: String,
    /// How long it takes.
    pub length: Duration,
    /// Whether it counts; else it warms up.
    pub is_measured: bool,
    /// Connections.
    pub clients: u64,
    /// Requests under way on each, at most.
    pub pipeline: u64,
    /// Requests a second of an open loop; without it the loop is closed.
    pub rate: Option<Rate>,
    /// What is asked.
    pub mix: Vec<Entry>,
    /// Whether a key without a value is a failure when it is read.
    pub requires_values: bool,
}

/// An entry of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What results call it.
    pub name: String,
    /// How often it is drawn, compared with the others.
    pub weight: u64,
    /// What is done.
    pub action: Action,
}

/// What a request does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Reads a key.
    Get,
    /// Writes a key.
    Put,
    /// Writes a key that is new.
    Insert,
    /// Deletes a key.
    Delete,
    /// Any command of the target: words with `{key}`, `{other}` and `{value}`.
    Command(Vec<String>),
    /// Moves an amount from one key to another, as one transaction.
    Transfer(TransferMethod),
    /// Nothing, for so long.
    Sleep(Duration),
}

/// How a transfer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferMethod {
    /// In one request, which says by how much both numbers change.
    OneShot,
    /// Reads both numbers, then writes them if neither has changed; else again.
    Watch,
}

impl TransferMethod {
    /// Both, with their names.
    pub const ALL: [(&'static str, TransferMethod); 2] =
        [("one-shot", TransferMethod::OneShot), ("watch", TransferMethod::Watch)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }
}

impl Action {
    /// Whether it names a second key.
    pub fn has_other(&self) -> bool {
        match self {
            Action::Transfer(_) => true,
            Action::Command(words) => words.iter().any(|word| word.contains("{other}")),
            _ => false,
        }
    }
}

/// What must hold for a run to pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    /// Of which phase; of each measured one if none is named.
    pub phase: Option<String>,
    /// Of which entry of the mix; of all together if none is named.
    pub entry: Option<String>,
    /// What is looked at.
    pub metric: Metric,
    /// The bound, in the metric's unit: requests per second, nanoseconds, or a count.
    pub bound: f64,
    /// Whether the bound is the largest that is allowed, else it is the smallest.
    pub is_upper: bool,
}

/// What can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Requests per second that were answered well.
    Throughput,
    /// Mean latency.
    Mean,
    /// Median latency.
    P50,
    /// 90th percentile of latencies.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// The longest latency.
    Max,
    /// Requests that failed.
    Failures,
    /// Time in which nothing was answered well.
    Unavailable,
    /// Requests that were answered well in the whole second in which they were fewest.
    LowestSecond,
}

impl Metric {
    /// All, with their names.
    pub const ALL: [(&'static str, Metric); 10] = [
        ("throughput", Metric::Throughput),
        ("mean", Metric::Mean),
        ("p50", Metric::P50),
        ("p90", Metric::P90),
        ("p99", Metric::P99),
        ("p99.9", Metric::P999),
        ("max", Metric::Max),
        ("failures", Metric::Failures),
        ("unavailable", Metric::Unavailable),
        ("lowest-second", Metric::LowestSecond),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, metric)| *metric == self).map_or("", |(name, _)| name)
    }

    /// Whether it is a time.
    pub fn is_time(self) -> bool {
        !matches!(self, Metric::Throughput | Metric::Failures | Metric::LowestSecond)
    }
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
