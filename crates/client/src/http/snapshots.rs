//! Snapshots, keys at a time, and what holds safe points. Times are texts, as docs/http.md has
//! them. Answers are JSON; later versions may add fields.

use serde_json::{Value, json};

use super::Client;
use super::error::ClientError;
use super::txn::word;
use super::types::encode;
use super::wire::Request;

impl Client {
    /// Takes a snapshot of keyspaces (of all, if none is named), at a time, or now: its token can
    /// be read for so long.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn snapshot_take(
        &self,
        keyspaces: &[String],
        at: Option<&str>,
        ttl_ms: Option<u64>,
    ) -> Result<Value, ClientError> {
        let body = json!({ "keyspaces": keyspaces, "at": at, "ttl_ms": ttl_ms }).to_string();
        self.send_json("POST", "/v1/snapshots", &body)
    }

    /// Those that are kept.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn snapshots(&self) -> Result<Value, ClientError> {
        self.json(&self.ask(Request::get("/v1/snapshots"))?)
    }

    /// Keeps one, by number or token, for so long from now on.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; what was done may be asked for again.
    pub fn snapshot_renew(&self, name: &str, ttl_ms: Option<u64>) -> Result<Value, ClientError> {
        self.send_json("PUT", &path_of(name), &json!({ "ttl_ms": ttl_ms }).to_string())
    }

    /// Releases one, by number or token.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; what was done may be asked for again.
    pub fn snapshot_release(&self, name: &str) -> Result<(), ClientError> {
        self.ask(Request::write("DELETE", &path_of(name))).map(drop)
    }

    /// From when on keyspaces can be read, and what holds that.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn safe_points(&self) -> Result<Value, ClientError> {
        self.json(&self.ask(Request::get("/v1/gc"))?)
    }

    /// Has old versions of keyspaces (of all, if none is named) collected up to a time, or now, as
    /// far as snapshots let them. Answers as [`Self::safe_points`], as it was before.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; what was done may be asked for again.
    pub fn collect(&self, keyspaces: &[String], at: Option<&str>) -> Result<Value, ClientError> {
        let body = json!({ "keyspaces": keyspaces, "at": at }).to_string();
        self.send_json("POST", "/v1/gc", &body)
    }

    /// Values of several keys, at a time or now, all of one moment.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn get_many(
        &self,
        keyspace: &str,
        keys: &[&[u8]],
        at: Option<&str>,
    ) -> Result<Value, ClientError> {
        let keys: Vec<Value> = keys.iter().map(|key| word(key)).collect();
        let body = json!({ "keyspace": keyspace, "keys": keys, "at": at }).to_string();
        self.send_json("POST", "/v1/mget", &body)
    }

    /// A page of a keyspace's keys, at a time or now.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn keys(
        &self,
        keyspace: &str,
        prefix: &[u8],
        cursor: Option<&str>,
        limit: u64,
        at: Option<&str>,
    ) -> Result<Value, ClientError> {
        let (keyspace, prefix) = (encode(keyspace.as_bytes()), encode(prefix));
        let mut path = format!("/v1/keys/{keyspace}?limit={limit}&prefix={prefix}");
        for (name, text) in [("cursor", cursor), ("at", at)] {
            if let Some(text) = text {
                path.push_str(&format!("&{name}={}", encode(text.as_bytes())));
            }
        }
        self.json(&self.ask(Request::get(&path))?)
    }

    /// Sends a body of JSON.
    pub(super) fn send_json(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Value, ClientError> {
        let request = Request { body: body.as_bytes(), json: true, ..Request::write(method, path) };
        self.json(&self.ask(request)?)
    }
}

fn path_of(name: &str) -> String {
    format!("/v1/snapshots/{}", encode(name.as_bytes()))
}
