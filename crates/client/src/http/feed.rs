//! A change feed that goes on at other nodes when its node dies (docs/http.md, `/v1/feed`).
//!
//! ```no_run
//! use client::http::{Feed, FeedEvent, FeedOptions};
//!
//! let options = FeedOptions { prefix: Some(b"order:".to_vec()), ..FeedOptions::default() };
//! for event in Feed::open(["127.0.0.1:7480", "127.0.0.1:7481"], options)? {
//!     match event? {
//!         // Store the token with the effect: a feed that begins `since` it has all that follows.
//!         FeedEvent::Commit(commit) => println!("{:?}, then {}", commit.changes, commit.token),
//!         FeedEvent::Resolved { token, .. } => println!("nothing more up to {token}"),
//!         _ => {}
//!     }
//! }
//! # Ok::<(), client::http::ClientError>(())
//! ```
//!
//! Each commit comes once, whole and in order, whichever nodes serve the feed. The feed knows the
//! position behind what it has handed out, and has the next node go on there.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::txn::bytes_of;
use super::types::encode;
use super::wire::ChunkReader;
use super::{Client, ClientError, Problem};

/// A node that sends nothing for so long is left: each sends its position once a second.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long to look for a node that serves the feed, unless [`FeedOptions::no_node_timeout`] says.
pub const NO_NODE_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two nodes that do not.
const PAUSE: Duration = Duration::from_millis(100);
/// Nodes that are remembered.
const NODES_MAX: usize = 128;

/// What a feed is about.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The keyspace.
    pub keyspace: String,
    /// Only keys that begin so.
    pub prefix: Option<Vec<u8>>,
    /// Only this key.
    pub key: Option<Vec<u8>>,
    /// Only keys at or above this one.
    pub from: Option<Vec<u8>>,
    /// Only keys below this one.
    pub to: Option<Vec<u8>>,
    /// Changes above this token or time; none: from now on.
    pub since: Option<String>,
    /// First the values that keys have there.
    pub snapshot: bool,
    /// With the values before.
    pub before: bool,
    /// Of what changed between `since` and now, only the newest change of each key; the same when
    /// it goes on at another node.
    pub compact: bool,
    /// How long to look for a node that serves the feed.
    pub no_node_timeout: Duration,
}

impl Default for FeedOptions {
    fn default() -> Self {
        Self {
            keyspace: "0".to_owned(),
            prefix: None,
            key: None,
            from: None,
            to: None,
            since: None,
            snapshot: false,
            before: false,
            compact: false,
            no_node_timeout: NO_NODE_TIMEOUT,
        }
    }
}

/// What a feed tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedEvent {
    /// It begins at a position, or goes on at another node.
    Begun {
        /// Its position.
        token: String,
        /// The node that serves it.
        address: String,
    },
    /// The value that a key has where the feed begins. If the node dies before
    /// [`FeedEvent::ValuesEnd`], the next one begins with all of them again.
    Value {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// When it ends, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// These were all.
    ValuesEnd {
        /// The position.
        token: String,
    },
    /// All changes of one commit.
    Commit(FeedCommit),
    /// Nothing more comes at or below this position.
    Resolved {
        /// The position.
        token: String,
        /// Its time, in milliseconds since 1970.
        at_ms: u64,
    },
}

/// All changes of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedCommit {
    /// The position behind it.
    pub token: String,
    /// The time of the commit, as digits.
    pub version: String,
    /// The same, in milliseconds since 1970.
    pub at_ms: u64,
    /// The changes, by key.
    pub changes: Vec<FeedChange>,
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedChange {
    /// The key.
    pub key: Vec<u8>,
    /// What became of it.
    pub what: Changed,
    /// The value before, if it is asked for and there was one.
    pub before: Option<Vec<u8>>,
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It was given a value, or its value another end.
    Put {
        /// The value.
        value: Vec<u8>,
        /// When it ends, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// It was deleted.
    Deleted,
    /// Its value came to its end.
    Expired,
}

/// A change feed: an iterator over what it tells. It ends with an error.
pub struct Feed {
    clients: Vec<Client>,
    next: usize,
    options: FeedOptions,
    /// The position behind what was handed out, as the last `id` says.
    token: Option<String>,
    open: Option<(ChunkReader, Event)>,
    has_learned: bool,
    is_over: bool,
}

/// An event whose lines are not all there.
#[derive(Default)]
struct Event {
    name: String,
    id: Option<String>,
    data: String,
}

impl Feed {
    /// A feed that the first of these nodes serves that can: `HOST:PORT` of their HTTP listeners.
    /// The others, and those that it knows, take over when it dies. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`].
    pub fn open<A: AsRef<str>>(
        addresses: impl IntoIterator<Item = A>,
        options: FeedOptions,
    ) -> Result<Self, ClientError> {
        let client = |address: A| Client::new(address.as_ref());
        let clients = addresses.into_iter().map(client).collect::<Result<Vec<_>, _>>()?;
        Self::of(clients, options)
    }

    /// The same over clients, which may speak TLS.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`] if there is none.
    pub fn of(clients: Vec<Client>, options: FeedOptions) -> Result<Self, ClientError> {
        if clients.is_empty() {
            return Err(ClientError::BadAddress { address: String::new() });
        }
        let clients = clients.into_iter().map(|client| client.with_timeout(SILENCE_MAX)).collect();
        Ok(Self {
            clients,
            next: 0,
            options,
            token: None,
            open: None,
            has_learned: false,
            is_over: false,
        })
    }

    /// The position behind what was handed out: a feed that begins `since` it goes on there.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    fn turn_to_next(&mut self) {
        self.next = (self.next + 1) % self.clients.len();
    }

    fn path(&self) -> String {
        let FeedOptions {
            keyspace, prefix, key, from, to, since, snapshot, before, compact, ..
        } = &self.options;
        let mut path = format!("/v1/feed?keyspace={}", encode(keyspace.as_bytes()));
        for (name, bytes) in [("prefix", prefix), ("key", key), ("from", from), ("to", to)] {
            if let Some(bytes) = bytes {
                path += &format!("&{name}={}", encode(bytes));
            }
        }
        let has_begun = self.token.is_some();
        if let Some(since) = self.token.as_ref().or(since.as_ref()) {
            path += &format!("&since={}", encode(since.as_bytes()));
        }
        if *snapshot && !has_begun {
            path += "&snapshot=true";
        }
        if *before {
            path += "&before=true";
        }
        if *compact {
            path += "&compact=true";
        }
        path
    }

    /// Finds a node that serves the feed.
    fn connect(&mut self) -> Result<(), ClientError> {
        let until = Instant::now() + self.options.no_node_timeout;
        loop {
            let client = &self.clients[self.next];
            let failed = match client.endpoint.open(&self.path()) {
                Ok(Ok(lines)) => {
                    self.open = Some((lines, Event::default()));
                    return Ok(());
                }
                Ok(Err(reply)) => client.refusal(&reply, false),
                Err(error) => error,
            };
            self.turn_to_next();
            if !is_passing(&failed) || Instant::now() >= until {
                return Err(failed);
            }
            sleep(PAUSE);
        }
    }

    /// The nodes that the one knows which serves the feed.
    fn learn(&mut self) {
        self.has_learned = true;
        let known = self.clients[self.next].nodes();
        let Ok(known) = known else { return };
        for node in known["nodes"].as_array().into_iter().flatten() {
            let Some(client) = self.clients[self.next].of_node(&node["addresses"]) else {
                continue;
            };
            let address = &client.endpoint.address;
            let is_known = self.clients.iter().any(|one| one.endpoint.address == *address);
            if !is_known && self.clients.len() < NODES_MAX {
                self.clients.push(client.with_timeout(SILENCE_MAX));
            }
        }
    }

    /// The next event of the node; none: it has no more.
    fn read(&mut self) -> Option<Event> {
        let (lines, event) = self.open.as_mut()?;
        loop {
            let line = lines.next_line().ok().flatten()?;
            if line.is_empty() {
                let event = std::mem::take(event);
                if !event.name.is_empty() {
                    return Some(event);
                }
            } else if let Some(name) = line.strip_prefix("event: ") {
                event.name = name.to_owned();
            } else if let Some(id) = line.strip_prefix("id: ") {
                event.id = Some(id.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                event.data = data.to_owned();
            }
        }
    }

    fn take(&mut self) -> Result<FeedEvent, ClientError> {
        loop {
            if self.open.is_none() {
                self.connect()?;
                if !self.has_learned {
                    self.learn();
                }
            }
            let Some(event) = self.read() else {
                // It died, or cannot be reached: the next one goes on.
                self.open = None;
                self.turn_to_next();
                sleep(PAUSE);
                continue;
            };
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
            if event.id.is_some() {
                self.token = event.id.clone();
            }
            let token = event.id.unwrap_or_else(|| text("token"));
            let at_ms = data["at_ms"].as_u64().unwrap_or_default();
            match &*event.name {
                "hello" => {
                    let client = &self.clients[self.next];
                    let address = client.endpoint.address.clone();
                    return Ok(FeedEvent::Begun { token, address });
                }
                "value" => {
                    let bytes = |name| bytes_of(&data[name]).unwrap_or_default();
                    let (key, value) = (bytes("key"), bytes("value"));
                    let expires_at_ms = data["expires_at_ms"].as_u64();
                    return Ok(FeedEvent::Value { key, value, expires_at_ms });
                }
                "values-end" => return Ok(FeedEvent::ValuesEnd { token }),
                "resolved" => return Ok(FeedEvent::Resolved { token, at_ms }),
                "change" => {
                    let changes = data["changes"].as_array().into_iter().flatten().map(change);
                    let (version, changes) = (text("version"), changes.collect());
                    return Ok(FeedEvent::Commit(FeedCommit { token, version, at_ms, changes }));
                }
                "end" => {
                    self.open = None;
                    self.turn_to_next();
                    sleep(PAUSE);
                }
                "too-late" | "too-large" => {
                    let (kind, why) = (event.name.clone(), text("why"));
                    let detail = format!("{why}: {}", text("token"));
                    return Err(ClientError::Refused(Box::new(Problem {
                        title: kind.clone(),
                        kind,
                        status: 409,
                        detail,
                        outcome: "not done".to_owned(),
                        remedy: String::new(),
                        request_id: None,
                    })));
                }
                // Of a newer version.
                _ => {}
            }
        }
    }
}

impl Iterator for Feed {
    type Item = Result<FeedEvent, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.take();
        self.is_over = next.is_err();
        Some(next)
    }
}

fn change(json: &Value) -> FeedChange {
    let bytes = |name| bytes_of(&json[name]).unwrap_or_default();
    FeedChange {
        key: bytes("key"),
        what: match json["what"].as_str() {
            Some("deleted") => Changed::Deleted,
            Some("expired") => Changed::Expired,
            _ => Changed::Put {
                value: bytes("value"),
                expires_at_ms: json["expires_at_ms"].as_u64(),
            },
        },
        before: bytes_of(&json["before"]),
    }
}

/// Whether another node may serve it, or this one a little later.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::CannotConnect { .. }
        | ClientError::Broken { .. }
        | ClientError::Unknown { .. } => true,
        ClientError::Refused(problem) => {
            let passing = ["busy", "no-answer", "loading", "stopping", "too-many-viewers"];
            passing.contains(&&*problem.kind)
        }
        ClientError::BadAddress { .. }
        | ClientError::Tls(_)
        | ClientError::PathTooLong { .. }
        | ClientError::BadRequest(_) => false,
    }
}
