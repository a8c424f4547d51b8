//! What processes and networks did while a phase ran, second by second, and what was done to them.

use serde::{Deserialize, Serialize};

/// The most rows of a series: later seconds are left out.
pub const ROWS_MAX: usize = 100_000;
/// What our own process is called.
pub const INSTRUMENT: &str = "instrument";
/// The most kinds of messages that are told apart.
pub const KINDS_MAX: usize = 64;

/// Something that the timeline did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// When it began, in seconds of the phase.
    pub at: f64,
    /// What it was.
    pub name: String,
    /// How long it took, in seconds; none if it had not ended when the run did.
    pub took: Option<f64>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// What a command has printed last, if it ended well.
    #[serde(default)]
    pub output: String,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Nodes, the instrument, agents.
    pub processes: Vec<ProcessSeries>,
    /// Networks, of a host or of a namespace: processes on one host share one.
    pub networks: Vec<NetworkSeries>,
    /// Messages between nodes, by kind.
    pub messages: Vec<MessageSeries>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessSeries {
    /// Its name.
    pub name: String,
    /// Processor time in the phase, in seconds.
    pub cpu: f64,
    /// A row for each second in which it ran.
    pub rows: Vec<ProcessRow>,
}

/// What a process did in about a second. Rates are per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// When the second ended, in seconds of the phase.
    pub at: f64,
    /// Processors in use.
    pub cpu: f64,
    /// Resident memory, in bytes.
    pub rss: u64,
    /// Bytes read from disks.
    pub read: f64,
    /// Bytes written to disks.
    pub written: f64,
    /// Context switches because it waited.
    pub voluntary: f64,
    /// Context switches because others were to run.
    pub involuntary: f64,
    /// Bytes that its files take on disk; 0 where it has no directory of its own.
    #[serde(default)]
    pub files: u64,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkSeries {
    /// Whose it is.
    pub name: String,
    /// A row for each second.
    pub rows: Vec<NetworkRow>,
}

/// What a network did in about a second. Rates are per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkRow {
    /// When the second ended, in seconds of the phase.
    pub at: f64,
    /// Bytes received on all interfaces, loopback included.
    pub received: f64,
    /// Bytes sent.
    pub sent: f64,
    /// TCP segments sent.
    pub segments: f64,
    /// TCP segments sent again.
    pub resent: f64,
}

/// Messages of a kind, of all nodes together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageSeries {
    /// Which.
    pub kind: String,
    /// How many in the phase.
    pub total: f64,
    /// Seconds of the phase, and messages per second.
    pub rows: Vec<(f64, f64)>,
}

impl ProcessSeries {
    /// The mean of something over the phase.
    pub fn mean(&self, of: impl Fn(&ProcessRow) -> f64) -> f64 {
        self.rows.iter().map(of).sum::<f64>() / self.rows.len().max(1) as f64
    }

    /// The most memory that it had, in bytes.
    pub fn rss_max(&self) -> u64 {
        self.rows.iter().map(|row| row.rss).max().unwrap_or(0)
    }
}

impl NetworkSeries {
    /// The mean of something over the phase.
    pub fn mean(&self, of: impl Fn(&NetworkRow) -> f64) -> f64 {
        self.rows.iter().map(of).sum::<f64>() / self.rows.len().max(1) as f64
    }
}
