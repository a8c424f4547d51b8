//! Transactions over any keys: in one request, or step by step.
//!
//! Requests and answers are JSON as docs/http.md has it; bytes in it are a [`word`].

use keyspace::base64;
use serde_json::{Value, json};

use super::Client;
use super::error::ClientError;
use super::types::encode;
use super::wire::Request;

/// Bytes in a transaction's JSON: text if they are, else base64.
pub fn word(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": base64::encode(bytes) }),
    }
}

/// The bytes that a [`word`] stands for; none if it is no such.
pub fn bytes_of(word: &Value) -> Option<Vec<u8>> {
    match word {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        other => base64::decode(other.get("base64")?.as_str()?),
    }
}

impl Client {
    /// Does a transaction in one request: `keyspace`, `compare`, `then`, `else`. Whether it has
    /// `succeeded`, and its `results`.
    ///
    /// # Errors
    /// See [`ClientError::outcome`].
    pub fn transact(&self, txn: &Value) -> Result<Value, ClientError> {
        let body = txn.to_string();
        let write = Request::write("POST", "/v1/txn");
        self.json(&self.ask(Request { body: body.as_bytes(), json: true, ..write })?)
    }

    /// Begins a transaction that ends by itself when no request comes for so long. Returns its
    /// name, which only this node knows.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn txn_begin(&self, keyspace: &str, timeout_ms: u64) -> Result<String, ClientError> {
        let body = json!({ "keyspace": keyspace, "timeout_ms": timeout_ms }).to_string();
        let begun: Value = self.json(&self.post("/v1/txn/begin", &body, false)?)?;
        let id = begun["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| self.broken("it did not name the transaction"))
    }

    /// Runs operations of a transaction that was begun; their results.
    ///
    /// # Errors
    /// Nothing was changed in any case, and nothing is until the transaction is committed.
    pub fn txn_do(&self, txn: &str, ops: &[Value]) -> Result<Vec<Value>, ClientError> {
        let body = json!({ "do": ops }).to_string();
        let mut answer: Value = self.json(&self.post(&txn_path(txn), &body, false)?)?;
        match answer["results"].take() {
            Value::Array(results) if results.len() == ops.len() => Ok(results),
            _ => Err(self.broken("it did not answer each operation")),
        }
    }

    /// Commits a transaction: all writes, if nothing that it has read has changed. It is over in
    /// any case.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; the problem `conflict` if another has changed a key.
    pub fn txn_commit(&self, txn: &str) -> Result<(), ClientError> {
        self.post(&(txn_path(txn) + "/commit"), "{}", true).map(drop)
    }

    /// Ends a transaction, with nothing done.
    ///
    /// # Errors
    /// The problem `no-transaction` if it is not open. Nothing was changed in any case.
    pub fn txn_rollback(&self, txn: &str) -> Result<(), ClientError> {
        let path = txn_path(txn);
        let write = Request::write("DELETE", &path);
        self.ask(Request { is_write: false, ..write }).map(drop)
    }

    fn post(&self, path: &str, body: &str, is_write: bool) -> Result<super::Reply, ClientError> {
        let write = Request::write("POST", path);
        self.ask(Request { body: body.as_bytes(), json: true, is_write, ..write })
    }
}

fn txn_path(txn: &str) -> String {
    format!("/v1/txn/{}", encode(txn.as_bytes()))
}
