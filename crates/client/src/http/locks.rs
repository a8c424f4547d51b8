//! Locks with fencing tokens.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Client;
use super::error::ClientError;
use super::types::encode;
use super::wire::Request;

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LockInfo {
    /// Its name.
    pub name: String,
    /// Who holds it.
    pub owner: String,
    /// Its token: larger than those of all holders before.
    #[serde(deserialize_with = "digits")]
    pub token: u64,
    /// When its lease ends unless it is renewed, in milliseconds since 1970, by the store's time.
    pub ends_at_ms: u64,
}

fn digits<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

impl Client {
    /// Takes a lock for an owner, or waits for it for so long, a minute at most. An owner who has
    /// it already keeps it, and its lease is renewed: so this may be asked again.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; the problem `lock-held` if another has it all the time.
    pub fn lock_acquire(
        &self,
        name: &str,
        owner: Option<&str>,
        ttl: Duration,
        wait: Duration,
    ) -> Result<LockInfo, ClientError> {
        let body = json!({ "owner": owner, "ttl_ms": millis(ttl), "wait_ms": millis(wait) });
        self.lock_request("POST", &path_of(name), &body)
    }

    /// Has a lock's lease last for so long from now on.
    ///
    /// # Errors
    /// See [`ClientError::outcome`]; the problem `lock-lost` if it is not held with this token.
    pub fn lock_renew(
        &self,
        name: &str,
        token: u64,
        ttl: Duration,
    ) -> Result<LockInfo, ClientError> {
        let body = json!({ "token": token.to_string(), "ttl_ms": millis(ttl) });
        self.lock_request("PUT", &path_of(name), &body)
    }

    fn lock_request(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<LockInfo, ClientError> {
        let body = body.to_string();
        let request = Request { body: body.as_bytes(), json: true, ..Request::write(method, path) };
        self.json(&self.ask(request)?)
    }

    /// Releases a lock.
    ///
    /// # Errors
    /// As [`Self::lock_renew`].
    pub fn lock_release(&self, name: &str, token: u64) -> Result<(), ClientError> {
        let path = format!("{}?token={token}", path_of(name));
        self.ask(Request::write("DELETE", &path)).map(drop)
    }

    /// Who holds a lock, if anybody does.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn lock(&self, name: &str) -> Result<Option<LockInfo>, ClientError> {
        match self.ask(Request::get(&path_of(name))) {
            Ok(reply) => self.json(&reply).map(Some),
            Err(ClientError::Refused(problem)) if problem.kind == "nil" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A page of the locks that are held, by name, and what `after` of the next page is.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub fn locks(
        &self,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<(Vec<LockInfo>, Option<String>), ClientError> {
        #[derive(Deserialize)]
        struct Page {
            locks: Vec<LockInfo>,
            next: Option<String>,
        }
        let mut path = format!("/v1/locks?prefix={}", encode(prefix.as_bytes()));
        if let Some(after) = after {
            path.push_str(&format!("&after={}", encode(after.as_bytes())));
        }
        let page: Page = self.json(&self.ask(Request::get(&path))?)?;
        Ok((page.locks, page.next))
    }
}

fn path_of(name: &str) -> String {
    format!("/v1/locks/{}", encode(name.as_bytes()))
}
