//! The node's log.
//!
//! One event a line on standard error: as text (coloured on a terminal unless `NO_COLOR` is set)
//! or as JSON. ERROR means that a person must look; an error is logged where it is handled, once.

use std::io::{IsTerminal, stderr};

use tracing::level_filters::LevelFilter;
use tracing::{info, warn};

/// How much is logged: a level and everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A person must look.
    Error,
    /// Something to know, that the node copes with.
    Warn,
    /// Starts, stops, what changed.
    Info,
    /// Single connections and decisions.
    Debug,
    /// Everything.
    Trace,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Sends all further events to standard error. Only the first call in a process counts.
pub fn init(level: Level, format: Format) {
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(stderr);
    // An error here only says that a subscriber is set already, as it may be in tests.
    let _already_set = match format {
        Format::Text => builder.with_target(false).with_ansi(colour()).try_init(),
        Format::Json => builder.json().flatten_event(true).with_ansi(false).try_init(),
    };
}

/// Whether standard error is a terminal whose user has not asked for plain text.
fn colour() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The log lines of a node that is ready.
#[derive(Clone, Debug, Default)]
pub struct Banner {
    /// The node's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// Protocol and address of each listener, as bound (never port 0).
    pub listeners: Vec<(&'static str, std::net::SocketAddr)>,
    /// The data directory.
    pub dir: std::path::PathBuf,
    /// What was found there, in words: "a new cluster", "5000000 keys in 3.1 s".
    pub recovered: String,
    /// What to know before relying on this node.
    pub warnings: Vec<String>,
}

impl Banner {
    /// Logs it: one event for each fact, with the fact as fields as well.
    pub fn log(&self) {
        info!(name = self.name, version = self.version, "carillon");
        info!(dir = %self.dir.display(), recovered = self.recovered, "data");
        for (protocol, address) in &self.listeners {
            info!(protocol, %address, "listening");
        }
        for warning in &self.warnings {
            warn!("{warning}");
        }
        info!("ready");
    }
}
