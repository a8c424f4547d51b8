//! The commands that most programs need, with types.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use keyspace::slot_of;

use super::reply::Reply;
use super::request::Request;
use super::{Error, Reason, Store};

/// An answer that is none to what was asked.
const STRANGE: &str = "the answer is of another kind than such a command has";

/// When a set takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Always.
    #[default]
    Always,
    /// Only if the key has no value.
    Absent,
    /// Only if it has one.
    Present,
}

/// How long a value that is set lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// For ever.
    #[default]
    Never,
    /// So long from now; in whole milliseconds, at least one.
    After(Duration),
    /// As long as the value before it would have.
    Keep,
}

/// How to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// Whether it takes place.
    pub when: When,
    /// How long the value lives.
    pub expiry: Expiry,
}

/// How long a key's value still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// There is none.
    NoValue,
    /// For ever.
    Forever,
    /// So long.
    Left(Duration),
}

impl Store {
    /// The value of a key, if it has one. Linearizable, as all reads are.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        let key = key.as_ref();
        value(self.call(Request::of_key(&[b"GET", key], key, true)).await?)
    }

    /// Gives a key a value. When this returns, a majority of the key's replicas has it on disk.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.call(Request::of_key(&[b"SET", key, value], key, false)).await.map(drop)
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
        let (key, value) = (key.as_ref(), value.as_ref());
        let mut args: Vec<&[u8]> = vec![b"SET", key, value];
        match options.when {
            When::Always => {}
            When::Absent => args.push(b"NX"),
            When::Present => args.push(b"XX"),
        }
        let millis;
        match options.expiry {
            Expiry::Never => {}
            Expiry::Keep => args.push(b"KEEPTTL"),
            Expiry::After(time) => {
                millis = time.as_millis().to_string();
                args.extend([b"PX".as_slice(), millis.as_bytes()]);
            }
        }
        let reply = self.call(Request::of_key(&args, key, false)).await?;
        Ok(reply != Reply::Nil)
    }

    /// Takes a key's value away; false if it had none.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn del(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = key.as_ref();
        Ok(self.number(Request::of_key(&[b"DEL", key], key, false)).await? > 0)
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub async fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = key.as_ref();
        Ok(self.number(Request::of_key(&[b"EXISTS", key], key, true)).await? > 0)
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
        let (key, by) = (key.as_ref(), by.to_string());
        let args: [&[u8]; 3] = [b"INCRBY", key, by.as_bytes()];
        self.number(Request::of_key(&args, key, false)).await
    }

    /// How long a key's value still lives.
    ///
    /// # Errors
    /// Nothing was changed in any case.
    pub async fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Ttl, Error> {
        let key = key.as_ref();
        let millis = self.number(Request::of_key(&[b"PTTL", key], key, true)).await?;
        Ok(match u64::try_from(millis) {
            Ok(millis) => Ttl::Left(Duration::from_millis(millis)),
            Err(_) if millis == -1 => Ttl::Forever,
            Err(_) => Ttl::NoValue,
        })
    }

    /// Has a key's value end after a time, in whole milliseconds; false if it has none.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn expire(&self, key: impl AsRef<[u8]>, after: Duration) -> Result<bool, Error> {
        let (key, millis) = (key.as_ref(), after.as_millis().to_string());
        let args: [&[u8]; 3] = [b"PEXPIRE", key, millis.as_bytes()];
        Ok(self.number(Request::of_key(&args, key, false)).await? > 0)
    }

    /// Has a key's value live for ever; false if it has none, or lives for ever already.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = key.as_ref();
        Ok(self.number(Request::of_key(&[b"PERSIST", key], key, false)).await? > 0)
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
                let key = |place: &usize| keys[*place].as_ref();
                let mut args: Vec<&[u8]> = vec![b"MGET"];
                args.extend(places.iter().map(key));
                self.call(Request::of_key(&args, key(&places[0]), true)).await
            })
        });
        let mut values = vec![None; keys.len()];
        for (places, reply) in parts.iter().zip(all(asked.collect()).await) {
            let Reply::Array(items) = reply? else { return Err(strange()) };
            if items.len() != places.len() {
                return Err(strange());
            }
            for (place, item) in places.iter().zip(items) {
                values[*place] = value(item)?;
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
                let mut args: Vec<&[u8]> = vec![b"MSET"];
                for place in places {
                    let (key, value) = &pairs[*place];
                    args.extend([key.as_ref(), value.as_ref()]);
                }
                self.call(Request::of_key(&args, args[1], false)).await
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
            Some(error) if any_done => Err(Error::Unknown {
                request: self.shared.requests.load(Ordering::Relaxed),
                command: "MSET".to_owned(),
                text: format!("done for some of the keys only: {error}"),
            }),
            Some(error) => Err(error),
        }
    }

    /// Does what is answered with a number.
    async fn number(&self, request: Request<'_>) -> Result<i64, Error> {
        let reply = self.call(request).await?;
        match reply.integer() {
            Some(number) => Ok(number),
            None if request.reads => Err(strange()),
            None => Err(Error::Unknown {
                request: self.shared.requests.load(Ordering::Relaxed),
                command: request.shown(),
                text: STRANGE.to_owned(),
            }),
        }
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

fn value(reply: Reply) -> Result<Option<Bytes>, Error> {
    match reply {
        Reply::Bulk(bytes) => Ok(Some(bytes)),
        Reply::Nil => Ok(None),
        _ => Err(strange()),
    }
}

/// A read was answered by what is no node of ours.
fn strange() -> Error {
    Error::not_done(Reason::BadAnswer, STRANGE)
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
