//! The commands that most programs need, with types: on a store, and in a transaction.

use std::time::Duration;

use bytes::Bytes;

use super::commands::{self, Runs, SetOptions, Ttl, UNEXPECTED_REPLY};
use super::range::KeyRange;
use super::reply::Reply;
use super::request::Request;
use super::{Error, Store, Transaction};

impl Runs for &Store {
    async fn run(self, request: Request<'_>) -> Result<Reply, Error> {
        self.call(request).await
    }

    fn unexpected_reply(self, request: &Request<'_>) -> Error {
        self.shared.unknown(request.shown(), UNEXPECTED_REPLY.to_owned())
    }
}

/// Both have the same commands, with the same meaning. In a transaction an error says that the
/// command was not done; on a store that, or that it is not known.
macro_rules! typed_commands {
    ($runner:ty) => {
        impl $runner {
            /// The value of a key, if it has one. Linearizable on a store, as all its reads are.
            ///
            /// # Errors
            /// Nothing was changed in any case.
            pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
                commands::get(self, key.as_ref()).await
            }

            /// Gives a key a value. When this returns on a store, a majority of the key's replicas
            /// has it on disk; in a transaction, when its end has returned.
            ///
            /// # Errors
            /// [`Error`]: nothing was done, or it is not known.
            pub async fn set(
                &self,
                key: impl AsRef<[u8]>,
                value: impl AsRef<[u8]>,
            ) -> Result<(), Error> {
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

            /// Adds one to a number, which is 0 if the key has no value; what it is now. Never done
            /// twice: if that cannot be known, it is [`Error::Unknown`].
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

            /// How long a key's value still lives. Time stands still in a transaction.
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
            pub async fn expire(
                &self,
                key: impl AsRef<[u8]>,
                after: Duration,
            ) -> Result<bool, Error> {
                commands::expire(self, key.as_ref(), after).await
            }

            /// Has a key's value live for ever; false if it has none, or lives for ever already.
            ///
            /// # Errors
            /// [`Error`]: nothing was done, or it is not known.
            pub async fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
                commands::persist(self, key.as_ref()).await
            }

            /// The values of several keys, in their order, as they were at one moment.
            ///
            /// # Errors
            /// Nothing was changed in any case.
            pub async fn mget<K: AsRef<[u8]>>(
                &self,
                keys: &[K],
            ) -> Result<Vec<Option<Bytes>>, Error> {
                commands::mget(self, keys).await
            }

            /// Gives several keys values, of the same key the last: all at one moment, or none.
            ///
            /// # Errors
            /// [`Error`]: none was set, or it is not known whether all were or none.
            pub async fn mset<K: AsRef<[u8]>, V: AsRef<[u8]>>(
                &self,
                pairs: &[(K, V)],
            ) -> Result<(), Error> {
                commands::mset(self, pairs).await
            }

            /// Pairs of keys and values of an ordered keyspace, in the order of the keys. On a
            /// store each was there at some moment. In a [`Transaction`] all were at one, and if a
            /// key comes into what was looked at, or goes, before the end, nothing is done.
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
            pub async fn range(
                &self,
                keys: impl Into<KeyRange>,
            ) -> Result<Vec<(Bytes, Bytes)>, Error> {
                commands::range(self, &keys.into()).await
            }
        }
    };
}

typed_commands!(Store);
typed_commands!(Transaction);
