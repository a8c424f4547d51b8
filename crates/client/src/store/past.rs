//! Reads of a keyspace as of a past time: [`Store::at`].

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use keyspace::Moment;

use super::commands::{self, Runs};
use super::range::KeyRange;
use super::reply::Reply;
use super::request::Request;
use super::{Error, Store};

/// A keyspace as it was at a time. All reads at the same time belong to one cut: each transaction
/// is seen whole, or not at all.
#[derive(Clone, Debug)]
pub struct PastStore {
    store: Store,
    at: Arc<str>,
}

/// Whether a key had a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It had one.
    Value,
    /// It had none.
    Nil,
    /// It had none yet, but was given one later.
    NilYet,
}

impl Store {
    /// The keyspace as it was at a time, in one of the forms of docs/http.md: a snapshot's token, a
    /// timestamp, a time of RFC 3339, an age. An age counts from now on, by the clock here.
    ///
    /// ```no_run
    /// # async fn example(store: client::Store) -> Result<(), client::Error> {
    /// let before = store.at("30s ago");
    /// let balances = before.mget(&["alice", "bob"]).await?;
    /// # Ok(()) }
    /// ```
    pub fn at(&self, time: impl Into<String>) -> PastStore {
        let mut at = time.into();
        if let Ok(Moment::Ago(age_ms)) = Moment::parse(&at) {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now_ms = now.map_or(0, |now| now.as_millis() as u64);
            at = format!("{}ms", now_ms.saturating_sub(age_ms));
        }
        PastStore { store: self.clone(), at: at.into() }
    }
}

impl Runs for &PastStore {
    async fn run(self, request: Request<'_>) -> Result<Reply, Error> {
        let mut args: Vec<&[u8]> = vec![b"AT", self.at.as_bytes()];
        args.extend(request.args);
        self.store.call(Request { args: &args, slot: request.slot, reads: true }).await
    }

    fn unexpected_reply(self, _: &Request<'_>) -> Error {
        commands::unexpected_reply()
    }
}

impl PastStore {
    /// The value that a key had.
    ///
    /// # Errors
    /// Nothing was changed in any case. The time may be below the safe point.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        commands::get(self, key.as_ref()).await
    }

    /// The values that keys had, in their order.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn mget<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>, Error> {
        commands::mget(self, keys).await
    }

    /// Whether a key had a value.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        commands::exists(self, key.as_ref()).await
    }

    /// Whether a key had a value, none, or none yet.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn state(&self, key: impl AsRef<[u8]>) -> Result<KeyState, Error> {
        let key = key.as_ref();
        let reply = self.run(Request::of_key(&[b"STATE", key], key, true)).await?;
        match reply.bytes().map(|word| &**word) {
            Some(b"value") => Ok(KeyState::Value),
            Some(b"nil") => Ok(KeyState::Nil),
            Some(b"nil_yet") => Ok(KeyState::NilYet),
            _ => Err(commands::unexpected_reply()),
        }
    }

    /// The keys of a range and their values, of an ordered keyspace.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn range(&self, keys: impl Into<KeyRange>) -> Result<Vec<(Bytes, Bytes)>, Error> {
        commands::range(self, &keys.into()).await
    }

    /// How many keys there were.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn len(&self) -> Result<u64, Error> {
        let reply = self.run(Request { args: &[b"DBSIZE"], slot: None, reads: true }).await?;
        let count = reply.integer().and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(commands::unexpected_reply)
    }

    /// Whether there were none.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }
}
