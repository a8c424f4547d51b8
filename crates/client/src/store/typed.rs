//! The commands that most programs need, with types, on a store.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use keyspace::slot_of;

use super::commands::{self, Runs, STRANGE, SetOptions, Ttl};
use super::range::KeyRange;
use super::reply::Reply;
use super::request::Request;
use super::{Error, Store};

impl Runs for &Store {
    async fn run(self, request: Request<'_>) -> Result<Reply, Error> {
        self.call(request).await
    }

    fn strange(self, request: &Request<'_>) -> Error {
        self.shared.unknown(request.shown(), STRANGE.to_owned())
    }
}

impl Store {
    /// The value of a key, if it has one. Linearizable, as all reads are.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        commands::get(self, key.as_ref()).await
    }

    /// Gives a key a value. When this returns, a majority of the key's replicas has it on disk.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        commands::set(self, key.as_ref(), value.as_ref()).await
    }

    /// Gives a key a value as `options` say; false if their condition did not hold.
    ///
    /// ```no_run
    /// # async fn example(store: client::Store) -> Result<(), client::Error> {
    /// use std::time::Duration;
    /// use client::{Expiry, SetOptions, When};
    ///
    /// let expiry = Expiry::After(Duration::from_secs(30));
    /// let once = SetOptions { when: When::Absent, expiry };
    /// let is_mine = store.set_with("lock", "me", once).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn set_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Result<bool, Error> {
        commands::set_with(self, key.as_ref(), value.as_ref(), options).await
    }

    /// Takes a key's value away; false if it had none.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn del(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        commands::del(self, key.as_ref()).await
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub async fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        commands::exists(self, key.as_ref()).await
    }

    /// Adds one to a number, which is 0 if the key has no value; what it is now. Never done twice:
    /// if that cannot be known, it is [`Error::Unknown`].
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn incr(&self, key: impl AsRef<[u8]>) -> Result<i64, Error> {
        self.incr_by(key, 1).await
    }

    /// As [`Self::incr`], by any number.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn incr_by(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Error> {
        commands::incr_by(self, key.as_ref(), by).await
    }

    /// How long a key's value still lives.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub async fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Ttl, Error> {
        commands::ttl(self, key.as_ref()).await
    }

    /// Has a key's value end after a time, in whole milliseconds; false if it has none.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn expire(&self, key: impl AsRef<[u8]>, after: Duration) -> Result<bool, Error> {
        commands::expire(self, key.as_ref(), after).await
    }

    /// Has a key's value live for ever; false if it has none, or lives for ever already.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        commands::persist(self, key.as_ref()).await
    }

    /// The values of several keys, in their order. Shard by shard, all at once: each value is
    /// current, but those of different shards are not of one moment.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub async fn mget<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>, Error> {
        let parts = self.by_shard(keys.iter().map(AsRef::as_ref));
        let asked = parts.iter().map(|places| {
            Box::pin(async move {
                let keys: Vec<&[u8]> = places.iter().map(|place| keys[*place].as_ref()).collect();
                commands::mget(self, &keys).await
            })
        });
        let mut values = vec![None; keys.len()];
        for (places, read) in parts.iter().zip(all(asked.collect()).await) {
            for (place, value) in places.iter().zip(read?) {
                values[*place] = value;
            }
        }
        Ok(values)
    }

    /// Gives several keys values, of the same key the last. Shard by shard, all at once: this is no
    /// transaction, and others may see some of them before the rest.
    ///
    /// # Errors
    /// [`Error::NotDone`] and [`Error::BadRequest`] only if none was set; [`Error::Unknown`] if
    /// some were, or may have been.
    pub async fn mset<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Result<(), Error> {
        let parts = self.by_shard(pairs.iter().map(|(key, _)| key.as_ref()));
        let asked = parts.iter().map(|places| {
            Box::pin(async move {
                let pair = |place: &usize| (pairs[*place].0.as_ref(), pairs[*place].1.as_ref());
                let pairs: Vec<(&[u8], &[u8])> = places.iter().map(pair).collect();
                commands::mset(self, &pairs).await
            })
        });
        let results = all(asked.collect()).await;
        let any_done = results.iter().any(Result::is_ok);
        let failed = results.into_iter().filter_map(Result::err);
        // Of several reasons the one that says that it is not known.
        let worst = failed.max_by_key(|error| matches!(error, Error::Unknown { .. }));
        match worst {
            None => Ok(()),
            Some(unknown @ Error::Unknown { .. }) => Err(unknown),
            Some(error) if any_done => {
                let text = format!("done for some of the keys only: {error}");
                Err(self.shared.unknown("MSET".to_owned(), text))
            }
            Some(error) => Err(error),
        }
    }

    /// Pairs of keys and values of an ordered keyspace, in the order of the keys. Each was there at
    /// some moment; all at one only in a [`Transaction`](super::Transaction).
    ///
    /// ```no_run
    /// # async fn example(store: client::Store) -> Result<(), client::Error> {
    /// use client::KeyRange;
    ///
    /// let november = store.range("2026-11-01".."2026-12-01").await?;
    /// let newest = store.range(KeyRange::all().reversed().limit(10)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub async fn range(&self, keys: impl Into<KeyRange>) -> Result<Vec<(Bytes, Bytes)>, Error> {
        commands::range(self, &keys.into()).await
    }

    /// Places of keys, those of one shard together.
    fn by_shard<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<Vec<usize>> {
        let mut parts: BTreeMap<Option<u16>, Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.enumerate() {
            parts.entry(self.shared.cluster.shard(slot_of(key))).or_default().push(place);
        }
        parts.into_values().collect()
    }
}

/// The results of all, in their order. Made for few: each time one can go on, all are asked.
async fn all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut results: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(done) = Pin::new(future).poll(context)
            {
                *result = Some(done);
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().map(|result| result.expect("all are ready")).collect()
}
