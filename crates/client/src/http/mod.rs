//! A small blocking client of the node's HTTP API: one connection per request, no runtime, no
//! thread. The command line uses it.
//!
//! ```no_run
//! let client = client::http::Client::new("127.0.0.1:7480")?;
//! client.put("0", b"greeting", b"hello", &client::http::PutOptions::default())?;
//! # Ok::<(), client::http::ClientError>(())
//! ```
//!
//! Invariants:
//! 1. An error says which of two kinds it is ([`ClientError::outcome`], SAFETY G10): nothing was
//!    done, or the outcome is unknown. Before the connection is made nothing was done; once the
//!    first byte of a write was sent, only the node's own answer can say so.
//! 2. A reply takes at most [`REPLY_BYTES_MAX`] bytes of memory, whatever it announces.
//!
//! It does not retry, for it could not do so safely, and knows no proxies. `https://` before the
//! address has it speak TLS: [`Client::with_tls`].

mod error;
mod events;
mod feed;
mod held_lock;
mod locks;
mod snapshots;
mod topics;
pub mod txn;
mod types;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Tls;
pub use error::{ClientError, Outcome, Problem};
pub use events::EventStream;
pub use feed::{Changed, Feed, FeedChange, FeedCommit, FeedEvent, FeedOptions, NO_NODE_TIMEOUT};
pub use held_lock::{HeldLock, LockState};
pub use locks::LockInfo;
pub use topics::TopicPlace;
pub use txn::bytes_of;
pub use types::{
    CloneInfo, CloneSpec, Flattened, GetResult, KeyspaceChange, KeyspaceInfo, KeyspaceSpec, PutIf,
    PutOptions, VolumeSpec,
};
use types::{KeyspaceList, encode};
use wire::Endpoint;
pub(crate) use wire::Password;
pub use wire::{REPLY_BYTES_MAX, Reply, Request};

/// Where a node listens by default.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7480";
/// How long to wait for a connection, and for each piece of a reply.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A node's HTTP interface, as seen from outside.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Endpoint,
    lookup: Option<String>,
    route: Arc<Mutex<Option<String>>>,
}

impl Client {
    /// A client of the node at `address`: `HOST:PORT`, or `https://HOST:PORT` for TLS. Nothing is
    /// sent yet.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`] if it is not of that form.
    pub fn new(address: &str) -> Result<Self, ClientError> {
        let endpoint = Endpoint::new(address, DEFAULT_TIMEOUT)?;
        Ok(Self { endpoint, lookup: None, route: Arc::default() })
    }

    /// Speaks TLS, and trusts and shows what `tls` says. Without this a client of `https://…`
    /// trusts those that the system trusts.
    pub fn with_tls(mut self, tls: Tls) -> Self {
        (self.endpoint.is_tls, self.endpoint.tls) = (true, Some(tls));
        self
    }

    /// Gives the node's password with every request.
    pub fn with_password(mut self, password: &str) -> Self {
        self.endpoint.password = Some(wire::Password(password.into()));
        self
    }

    /// A client of another node, which is reached as this one is: `addresses` as `/v1/nodes` lists
    /// them. None if it has no such listener.
    pub fn of_node(&self, addresses: &serde_json::Value) -> Option<Self> {
        let name = if self.endpoint.is_tls { "http_tls" } else { "http" };
        let endpoint = self.endpoint.another(addresses[name].as_str()?).ok()?;
        Some(Self { endpoint, lookup: self.lookup.clone(), route: Arc::default() })
    }

    /// Waits at most so long for a connection, and for each piece of a reply.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint.timeout = timeout;
        self
    }

    /// Chooses the lookup for owners of single keys: `chord`, `chord-sharp`, `linear`, `lh` or
    /// `full`, optionally with a form and `noimages`, separated by blanks. [`Self::route`] returns
    /// the route that was found.
    pub fn looking_up_by(mut self, lookup: &str) -> Self {
        self.lookup = Some(lookup.to_owned());
        self
    }

    /// The route to the last key's owner, if it was looked up, as the node describes it:
    /// `name=value` pairs separated by semicolons.
    pub fn route(&self) -> Option<String> {
        self.route.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The routes to the owner of a key, by this lookup or by `all` lookups, hop by hop. Later
    /// versions may add fields.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn routes(
        &self,
        keyspace: &str,
        key: &[u8],
        lookup: &str,
    ) -> Result<serde_json::Value, ClientError> {
        let (keyspace, key) = (encode(keyspace.as_bytes()), encode(key));
        let lookup = encode(lookup.as_bytes());
        let path = format!("/v1/route/{keyspace}/{key}?lookup={lookup}");
        self.json(&self.ask(Request::get(&path))?)
    }

    /// Sends any request and returns its reply, whatever its status; a node without data may have
    /// sent it on to another.
    ///
    /// # Errors
    /// No reply came: of a write nobody knows whether it was done, unless no connection stood.
    pub fn send(&self, request: &Request<'_>) -> Result<Reply, ClientError> {
        self.endpoint.ask(request)
    }

    /// A node's metrics, as Prometheus reads them.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn metrics(&self) -> Result<String, ClientError> {
        self.ask(Request::get("/metrics")).map(|reply| reply.text())
    }

    /// A key's path with its parameters.
    fn kv(&self, keyspace: &str, key: &[u8], mut query: Vec<String>) -> String {
        if let Some(lookup) = &self.lookup {
            query.push(format!("lookup={}", encode(lookup.as_bytes())));
        }
        let path = key_path(keyspace, key);
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// The value of a key: the newest, or as of `at` (a timestamp, or milliseconds as `…ms`).
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn get(
        &self,
        keyspace: &str,
        key: &[u8],
        at: Option<&str>,
    ) -> Result<GetResult, ClientError> {
        let at = at.map(|at| format!("at={}", encode(at.as_bytes())));
        self.get_path(&self.kv(keyspace, key, at.into_iter().collect())).map(|(got, _)| got)
    }

    /// The value of a key, which may be old by up to `stale_ms` milliseconds; and how old it is at
    /// most, if there is one.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn get_stale(
        &self,
        keyspace: &str,
        key: &[u8],
        stale_ms: u64,
    ) -> Result<(GetResult, Option<u64>), ClientError> {
        self.get_path(&self.kv(keyspace, key, vec![format!("stale={stale_ms}")]))
    }

    fn get_path(&self, path: &str) -> Result<(GetResult, Option<u64>), ClientError> {
        match self.ask(Request::get(path)) {
            Ok(reply) => {
                let age_ms = reply.number("carillon-age-ms");
                let got = GetResult::Value {
                    timestamp: reply.number("carillon-timestamp"),
                    expires_at_ms: reply.number("carillon-expires-at-ms"),
                    value: reply.body,
                };
                Ok((got, age_ms))
            }
            Err(ClientError::Refused(problem)) if problem.kind == "nil" => {
                Ok((GetResult::Nil, None))
            }
            Err(ClientError::Refused(problem)) if problem.kind == "nil-yet" => {
                Ok((GetResult::NilYet, None))
            }
            Err(other) => Err(other),
        }
    }

    /// The changes of a key before a time, or up to now, the newest first. Later versions may add
    /// fields.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn history(
        &self,
        keyspace: &str,
        key: &[u8],
        limit: u64,
        before: Option<&str>,
    ) -> Result<serde_json::Value, ClientError> {
        let (keyspace, key) = (encode(keyspace.as_bytes()), encode(key));
        let before = before.map(|time| format!("&before={}", encode(time.as_bytes())));
        let before = before.unwrap_or_default();
        let path = format!("/v1/history/{keyspace}/{key}?limit={limit}{before}");
        self.json(&self.ask(Request::get(&path))?)
    }

    /// Gives a key a value; `false` if the condition of `options` did not hold.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn put(
        &self,
        keyspace: &str,
        key: &[u8],
        value: &[u8],
        options: &PutOptions,
    ) -> Result<bool, ClientError> {
        let path = self.kv(keyspace, key, options.query());
        let request = Request { body: value, ..Request::write("PUT", &path) };
        match self.ask(request) {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(problem)) if problem.kind == "condition-failed" => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Deletes a key's value; `false` if it had none.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn delete(&self, keyspace: &str, key: &[u8]) -> Result<bool, ClientError> {
        match self.ask(Request::write("DELETE", &self.kv(keyspace, key, Vec::new()))) {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(problem)) if problem.kind == "nil" => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// All keyspaces.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn keyspaces(&self) -> Result<Vec<KeyspaceInfo>, ClientError> {
        let reply = self.ask(Request::get("/v1/keyspaces"))?;
        let list: KeyspaceList = self.json(&reply)?;
        Ok(list.keyspaces)
    }

    /// Makes a keyspace.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn keyspace_create(&self, spec: &KeyspaceSpec) -> Result<KeyspaceInfo, ClientError> {
        let body = serde_json::to_vec(spec).expect("strings and numbers become JSON");
        let request =
            Request { body: &body, json: true, ..Request::write("POST", "/v1/keyspaces") };
        self.json(&self.ask(request)?)
    }

    /// Changes a keyspace.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn keyspace_alter(
        &self,
        name: &str,
        change: &KeyspaceChange,
    ) -> Result<KeyspaceInfo, ClientError> {
        let body = serde_json::to_vec(change).expect("strings and numbers become JSON");
        let path = keyspace_path(name);
        let request = Request { body: &body, json: true, ..Request::write("PATCH", &path) };
        self.json(&self.ask(request)?)
    }

    /// Makes a volume that shares its blocks with another one.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn volume_clone(
        &self,
        source: &str,
        spec: &CloneSpec,
    ) -> Result<KeyspaceInfo, ClientError> {
        let body = serde_json::to_vec(spec).expect("strings and numbers become JSON");
        let path = format!("/v1/volumes/{}/clone", encode(source.as_bytes()));
        let request = Request { body: &body, json: true, ..Request::write("POST", &path) };
        self.json(&self.ask(request)?)
    }

    /// Copies some of what a clone shares with its source: asked again until it is done.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]. It may be asked again in any case.
    pub fn volume_flatten(&self, clone: &str) -> Result<Flattened, ClientError> {
        let path = format!("/v1/volumes/{}/flatten", encode(clone.as_bytes()));
        self.json(&self.ask(Request::write("POST", &path))?)
    }

    /// Removes a keyspace and everything in it.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn keyspace_drop(&self, name: &str) -> Result<(), ClientError> {
        self.ask(Request::write("DELETE", &keyspace_path(name))).map(drop)
    }

    /// How the node is, as it describes itself: later versions may say more.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn status(&self) -> Result<serde_json::Value, ClientError> {
        self.json(&self.ask(Request::get("/v1/status"))?)
    }

    /// All members of the cluster as the node knows them, and whether all is well: later versions
    /// may say more.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn nodes(&self) -> Result<serde_json::Value, ClientError> {
        self.json(&self.ask(Request::get("/v1/nodes"))?)
    }

    /// Changes the admin state of a node, named by its id or its name: `cordon`, `uncordon`,
    /// `drain` or `remove`. Returns its admin state, and what it still holds. An id that no node
    /// there knows is refused without `unknown`.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; what was done may be asked for again.
    pub fn node_act(
        &self,
        node: &str,
        action: &str,
        unknown: bool,
    ) -> Result<serde_json::Value, ClientError> {
        let path = format!("/v1/nodes/{}/{action}", encode(node.as_bytes()));
        // Nodes of the version before take nothing else than {}.
        let body: &[u8] = if unknown { br#"{"unknown": true}"# } else { b"{}" };
        let request = Request { body, json: true, ..Request::write("POST", &path) };
        self.json(&self.ask(request)?)
    }

    /// Splits a shard at this slot or key, or in its middle. Returns how
    /// it will be split: the split is then in the shard's log soon.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; the problem `not-leader` if another node leads the shard.
    pub fn split(&self, shard: u64, at: Option<&str>) -> Result<serde_json::Value, ClientError> {
        let path = format!("/v1/shards/{shard}/split");
        let body = serde_json::json!({ "at": at }).to_string();
        let request =
            Request { body: body.as_bytes(), json: true, ..Request::write("POST", &path) };
        self.json(&self.ask(request)?)
    }

    /// Merges a shard with its right neighbour. Returns which that is, and
    /// whether its replicas move first.
    ///
    /// # Errors
    /// As [`Self::split`].
    pub fn merge(&self, shard: u64) -> Result<serde_json::Value, ClientError> {
        let path = format!("/v1/shards/{shard}/merge");
        let request = Request { body: b"{}", json: true, ..Request::write("POST", &path) };
        self.json(&self.ask(request)?)
    }

    /// The cluster version, and which versions its nodes support. Later versions may add fields.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn cluster_version(&self) -> Result<serde_json::Value, ClientError> {
        self.json(&self.ask(Request::get("/v1/level"))?)
    }

    /// Raises the cluster version, to the next one unless another is named. What it is
    /// then.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; it may be asked for again.
    pub fn raise_cluster_version(&self, to: Option<u8>) -> Result<serde_json::Value, ClientError> {
        let body = serde_json::json!({ "to": to }).to_string();
        let write = Request::write("POST", "/v1/level");
        self.json(&self.ask(Request { body: body.as_bytes(), json: true, ..write })?)
    }

    /// Decisions of the node about the shards that it leads, with reasons; or, with `dry`, those
    /// that the balancer would make now. Later versions may add fields.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn decisions(&self, dry: bool) -> Result<serde_json::Value, ClientError> {
        self.json(&self.ask(Request::get(&format!("/v1/decisions?dry={dry}")))?)
    }

    /// All shards as the node knows them, or those of one keyspace, and whether all is well: later
    /// versions may say more.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn shards(&self, keyspace: Option<&str>) -> Result<serde_json::Value, ClientError> {
        let query = keyspace.map(|name| format!("keyspace={}&", encode(name.as_bytes())));
        let path = format!("/v1/shards?{}", query.unwrap_or_default());
        let mut all: serde_json::Value = self.json(&self.ask(Request::get(&path))?)?;
        // The health of the first page is of all shards. A node whose pages do not go on is not
        // asked for ever.
        let mut before = None;
        while let Some(after) = all["next"].as_u64().filter(|after| Some(*after) > before) {
            before = Some(after);
            let path = format!("{path}after={after}");
            let mut page: serde_json::Value = self.json(&self.ask(Request::get(&path))?)?;
            if let (Some(all), Some(page)) =
                (all["shards"].as_array_mut(), page["shards"].as_array_mut())
            {
                all.append(page);
            }
            all["next"] = page["next"].take();
        }
        Ok(all)
    }

    fn ask(&self, request: Request<'_>) -> Result<Reply, ClientError> {
        let reply = self.endpoint.ask(&request)?;
        *self.route.lock().unwrap_or_else(PoisonError::into_inner) =
            reply.header("carillon-route").map(str::to_owned);
        match (200..300).contains(&reply.status) {
            true => Ok(reply),
            false => Err(self.refusal(&reply, request.is_write)),
        }
    }

    /// The error that a reply says.
    fn refusal(&self, reply: &Reply, is_write: bool) -> ClientError {
        let json = reply.header("content-type") == Some("application/problem+json");
        let problem = if json { serde_json::from_slice::<Problem>(&reply.body).ok() } else { None };
        match problem {
            Some(problem) => problem.into(),
            // The answer of something that is not a node, or of its HTTP parser.
            None if reply.status < 500 || !is_write => self.broken(&format!(
                "it answered {} without saying why; is it a Carillon node's HTTP address?",
                reply.status
            )),
            None => ClientError::Unknown {
                why: format!("{} answered {}", self.endpoint.address, reply.status),
                request_id: None,
            },
        }
    }

    fn json<T: serde::de::DeserializeOwned>(&self, reply: &Reply) -> Result<T, ClientError> {
        serde_json::from_slice(&reply.body)
            .map_err(|why| self.broken(&format!("its answer cannot be read: {why}")))
    }

    fn broken(&self, why: &str) -> ClientError {
        ClientError::Broken { address: self.endpoint.address.clone(), why: why.to_owned() }
    }
}

fn key_path(keyspace: &str, key: &[u8]) -> String {
    format!("/v1/kv/{}/{}", encode(keyspace.as_bytes()), encode(key))
}

fn keyspace_path(name: &str) -> String {
    format!("/v1/keyspaces/{}", encode(name.as_bytes()))
}
