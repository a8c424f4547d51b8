//! What can be asked of `carillon dev`: its nodes, started, stopped, killed, added while it runs.
//!
//! ```text
//!   page ── /v1/dev ──► a node ── a line of JSON over a Unix socket ──► carillon dev ──► processes
//!   carillon dev kill node-2 ────────────────────────────────────────────┘
//! ```
//!
//! One connection has one request and one reply, a line each. The socket is its owner's alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The socket in the directory of `carillon dev`.
pub const SOCKET_NAME: &str = "control.sock";
/// The longest line of a request.
pub const REQUEST_BYTES_MAX: u64 = 64 << 10;
/// The longest line of a reply.
pub const REPLY_BYTES_MAX: u64 = 4 << 20;

/// Names of settings, and their values as text.
pub type Parameters = BTreeMap<String, String>;

/// What a node's process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DevState {
    /// It runs, and does not serve yet.
    Starting,
    /// It serves.
    Running,
    /// It stands still (SIGSTOP).
    Paused,
    /// It was asked to stop.
    Stopping,
    /// It has ended.
    Ended,
}

impl DevState {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            DevState::Starting => "starting",
            DevState::Running => "running",
            DevState::Paused => "paused",
            DevState::Stopping => "stopping",
            DevState::Ended => "ended",
        }
    }
}

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DevAddresses {
    /// For Redis clients.
    pub resp: String,
    /// For native frames.
    pub native: String,
    /// For HTTP.
    pub http: String,
    /// For other nodes.
    pub peer: String,
}

/// How a node's process has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DevEnd {
    /// `with exit code 0`, `by SIGKILL (9)`.
    pub how: String,
    /// Whether somebody has asked for it.
    pub asked: bool,
    /// The last lines of its log.
    pub log: Vec<String>,
}

/// A node of `carillon dev`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DevNode {
    /// Its name.
    pub name: String,
    /// What its process does.
    pub state: DevState,
    /// Since when, in milliseconds since 1970.
    pub since_at_ms: u64,
    /// Its process id; none once it has ended.
    #[schema(required = true)]
    pub pid: Option<u32>,
    /// Whether it is the node that has passed the request on.
    pub this: bool,
    /// Where it listens.
    pub addresses: DevAddresses,
    /// Its directory.
    pub dir: String,
    /// The file of its log.
    pub log: String,
    /// Settings that were given at its last start.
    pub parameters: Parameters,
    /// How to start it by hand.
    pub command: String,
    /// How it has ended, if it has.
    #[schema(required = true)]
    pub ended: Option<DevEnd>,
}

/// A setting that may be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DevParameter {
    /// Its name.
    pub name: String,
    /// Which values it takes, in words.
    pub accepts: String,
    /// Its default, as text.
    pub default: String,
    /// What it does.
    pub help: String,
}

/// What `GET /v1/dev` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DevCluster {
    /// The directory of all nodes.
    pub dir: String,
    /// So many nodes there may be.
    pub nodes_max: u64,
    /// Further flags of every node.
    pub flags: Vec<String>,
    /// Settings that may be given to a node.
    pub parameters: Vec<DevParameter>,
    /// The nodes, in the order of their numbers.
    pub nodes: Vec<DevNode>,
}

/// What is done to a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DevAction {
    /// Starts it from its data.
    Start,
    /// SIGTERM.
    Stop,
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Pause,
    /// SIGCONT.
    Resume,
}

impl DevAction {
    /// Which one is called so.
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "start" => DevAction::Start,
            "stop" => DevAction::Stop,
            "kill" => DevAction::Kill,
            "pause" => DevAction::Pause,
            "resume" => DevAction::Resume,
            _ => return None,
        })
    }
}

/// A request to `carillon dev`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DevRequest {
    /// Which nodes are there?
    List,
    /// Add one, and start it.
    Add {
        /// Its settings.
        parameters: Parameters,
    },
    /// Do something to a node's process.
    Act {
        /// Its name.
        node: String,
        /// What.
        action: DevAction,
        /// For its start: settings, in place of those of the last start.
        parameters: Option<Parameters>,
    },
}

/// Why it was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevRefusal {
    /// Which kind.
    pub kind: DevRefusalKind,
    /// Why, as a sentence without its full stop.
    pub why: String,
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DevRefusalKind {
    /// The request cannot be read.
    BadRequest,
    /// No node has this name.
    NoNode,
    /// A setting that there is not, is not for this, or has no such value.
    BadParameter,
    /// The process does something else.
    WrongState,
    /// There may be no more nodes.
    TooManyNodes,
    /// Another process has a port of the node.
    PortInUse,
    /// The system has refused the process.
    NotStarted,
    /// `carillon dev` is ending.
    Ending,
}

/// The reply of `carillon dev`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DevReply {
    /// All nodes.
    Cluster(Box<DevCluster>),
    /// The node as it is now.
    Node(Box<DevNode>),
    /// Nothing was done.
    Refused(DevRefusal),
}

impl DevRequest {
    /// Its line.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("strings become JSON") + "\n"
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn of_line(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|why| why.to_string())
    }
}

impl DevReply {
    /// Its line.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers become JSON") + "\n"
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn of_line(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|why| why.to_string())
    }
}

/// A path by which a socket can be reached, however long its own is: an address has room for some
/// 100 bytes. It holds as long as the file does.
///
/// # Errors
/// If its directory cannot be opened.
pub fn short_path(socket: &Path) -> io::Result<(PathBuf, Option<File>)> {
    /// Of an address, without the byte that ends it.
    const PATH_BYTES_MAX: usize = 107;
    if socket.as_os_str().len() <= PATH_BYTES_MAX {
        return Ok((socket.to_owned(), None));
    }
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the socket's path has no name");
    let (dir, name) = socket.parent().zip(socket.file_name()).ok_or_else(no_name)?;
    let dir = File::open(dir)?;
    let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
    Ok((path, Some(dir)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let parameters = Parameters::from([("memory_max".to_owned(), "1GiB".to_owned())]);
        for request in [
            DevRequest::List,
            DevRequest::Add { parameters: parameters.clone() },
            DevRequest::Act {
                node: "node-1".into(),
                action: DevAction::Start,
                parameters: Some(parameters),
            },
        ] {
            assert_eq!(DevRequest::of_line(&request.to_line()).unwrap(), request);
        }
        for bad in ["", "{}", r#"{"act":{"node":"a"}}"#, r#"{"add":{"parameters":{},"x":1}}"#] {
            assert!(DevRequest::of_line(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn long_paths_of_sockets_are_reached() {
        let dir = std::env::temp_dir().join(format!("carillon-{}", std::process::id()));
        let deep = dir.join("d".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let (path, _held) = short_path(&deep.join(SOCKET_NAME)).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        let (path, _held) = short_path(&deep.join(SOCKET_NAME)).unwrap();
        std::os::unix::net::UnixStream::connect(path).unwrap();
        drop(listener);
        assert!(short_path(&deep.join("no").join(SOCKET_NAME)).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
