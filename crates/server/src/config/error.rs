//! Why a configuration is refused, and what to write instead. Nothing has been started then.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a value came from. Displayed as its user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line: `--memory-max`.
    Flag(String),
    /// The environment: `CARILLON_MEMORY_MAX`.
    Environment(String),
    /// A file: `memory_max` in that file.
    File {
        /// The key.
        key: String,
        /// The file.
        path: PathBuf,
    },
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Flag(name) | Origin::Environment(name) => f.write_str(name),
            Origin::File { key, path } => write!(f, "`{key}` in {}", path.display()),
        }
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "; `carillon start --help` lists all settings".to_owned(),
        |name| format!("; did you mean `{name}`?"),
    )
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No setting has this name.
    #[error("unknown setting {origin}{}", suggestion(nearest.as_deref()))]
    Unknown {
        /// The name as written.
        origin: Origin,
        /// The closest name there is, in the same form.
        nearest: Option<String>,
    },
    /// A value that its setting does not take.
    #[error("bad value {value:?} of {origin}: expected {expected}")]
    Value {
        /// The setting as written.
        origin: Origin,
        /// The value as written, cut if long.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is longer than any configuration.
    #[error("the configuration file {} is longer than {bytes_max} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// The file is not TOML.
    #[error("the configuration file {} is not valid TOML: {why}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Where and why, in the parser's words.
        why: String,
    },
    /// A listener that others could reach, while nothing asks who they are.
    #[error(
        "{setting} = {address} could be reached from other machines, and nothing there asks for a \
         password: anyone could read and change the data. Listen on a loopback address such as \
         127.0.0.1:{}, or add --insecure (CARILLON_INSECURE=true, insecure = true) if the network \
         itself keeps strangers out", address.port()
    )]
    Exposed {
        /// The listener's setting.
        setting: &'static str,
        /// Its address.
        address: SocketAddr,
    },
    /// Two listeners at one address.
    #[error("{first} and {second} both listen on {address}: give one of them another port, or off")]
    SameAddress {
        /// One setting.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The address of both.
        address: SocketAddr,
    },
    /// A connection's buffer could not hold the longest request or reply.
    #[error(
        "{setting} = {bytes} is too small for keys of key_bytes_max and values of value_bytes_max: \
         at least {bytes_min} is needed"
    )]
    BufferTooSmall {
        /// The setting.
        setting: &'static str,
        /// Its value.
        bytes: u64,
        /// The least that works.
        bytes_min: u64,
    },
}
