//! Durable topics: publish within a transaction, take and acknowledge as a member of a group.
//!
//! What these do is the same code that nodes run ([`topics`]), in transactions of this client. So a
//! message of [`Transaction::publish`] is there if and only if all else of the transaction is done.

use std::time::{Duration, Instant};

use bytes::Bytes;
use topics::draft::Known;
use topics::group::{self, Start, Taken};
use topics::record::{GroupSettings, TopicSettings};
use topics::topic::{self, Deleted};
use topics::{Draft, Found, Stop, Write};

use super::commands::{Runs, mget, set_with, unexpected_reply};
use super::{Error, Expiry, Reply, SetOptions, Store, Transaction, When};

/// Rounds of reads that one request may need.
const ROUNDS_MAX: usize = 128;
/// So many messages are published by one command; more, in a transaction of this client.
const PUBLISHED_AT_ONCE: usize = 1024;
/// How soon one who waits for messages looks again, at first …
const POLL_MIN: Duration = Duration::from_millis(10);
/// … and at last.
const POLL_MAX: Duration = Duration::from_millis(200);

/// What a node does for topics, as a function.
type Program<'p, T> = &'p (dyn Fn(&mut Draft) -> Result<T, Stop> + Sync);

/// Goes through a function; what it writes is returned, and not written yet. Where only a peek is
/// wanted, `aside` is asked, if there is such a one.
async fn draft<T>(
    on: impl Runs,
    aside: Option<&Store>,
    now_ms: u64,
    program: Program<'_, T>,
) -> Result<(T, Vec<(Vec<u8>, Write)>), Error> {
    let mut known = Known::default();
    for _ in 0..ROUNDS_MAX {
        let mut draft = Draft::new(now_ms, known);
        match program(&mut draft) {
            Ok(done) => return Ok((done, draft.end().1.into_iter().collect())),
            Err(Stop::Refused(refusal)) => return Err(Error::bad(refusal.to_string())),
            Err(Stop::Missing) => {
                let keys: Vec<Vec<u8>> = draft.missing().map(<[u8]>::to_vec).collect();
                let peeks: Vec<Vec<u8>> = draft.missing_peeks().map(<[u8]>::to_vec).collect();
                (known, _) = draft.end();
                let found = |value: Bytes| Found { value: value.into(), version: 0 };
                let values = mget(on, &keys).await?;
                for (key, value) in keys.into_iter().zip(values) {
                    known.read(key, value.map(found));
                }
                let values = match aside {
                    Some(store) => mget(store, &peeks).await?,
                    None => mget(on, &peeks).await?,
                };
                for (key, value) in peeks.into_iter().zip(values) {
                    known.peeked(key, value.map(found));
                }
            }
        }
    }
    Err(Error::bad("it would read keys of the topic in too many rounds"))
}

async fn write(tx: &Transaction, writes: Vec<(Vec<u8>, Write)>) -> Result<(), Error> {
    for (key, write) in writes {
        match write {
            Write::Put { value, ttl_ms } => {
                let after = |ttl_ms| Expiry::After(Duration::from_millis(ttl_ms));
                let expiry = ttl_ms.map_or(Expiry::Never, after);
                let options = SetOptions { when: When::Always, expiry };
                set_with(tx, &key, &value, options).await?;
            }
            // What has ended long ago is gone, and need not be read before.
            Write::Drop => drop(tx.command(&[b"SET", &key, b"", b"PXAT", b"1"]).await?),
        }
    }
    Ok(())
}

impl Transaction {
    /// Publishes a message to a topic of the store's keyspace: it is there if and only if the
    /// transaction is done. Its number.
    ///
    /// ```no_run
    /// # async fn example(store: client::Store) -> Result<(), client::Error> {
    /// store
    ///     .transaction(async |tx| {
    ///         tx.set("order:7", "paid").await?;
    ///         tx.publish("orders", r#"{"paid":7}"#).await?;
    ///         Ok::<_, client::Error>(())
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// It was not published; [`Error::BadRequest`] if there is no such topic.
    pub async fn publish(&self, topic: &str, message: impl AsRef<[u8]>) -> Result<u64, Error> {
        let message = message.as_ref();
        let (number, writes) =
            draft(self, None, 0, &|draft: &mut Draft| topic::publish(draft, topic, message))
                .await?;
        write(self, writes).await?;
        Ok(number)
    }
}

impl Store {
    /// Makes a topic. One that is there with these settings is left as it is.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn topic_create(&self, topic: &str, settings: TopicSettings) -> Result<(), Error> {
        self.topic_run(&|draft: &mut Draft| topic::create(draft, topic, settings)).await.map(drop)
    }

    /// Deletes a topic, with its messages and groups. After an error, asking again goes on.
    ///
    /// # Errors
    /// [`Error`]: not all of it is done, or it is not known.
    pub async fn topic_delete(&self, topic: &str) -> Result<(), Error> {
        while self.topic_run(&|draft: &mut Draft| topic::delete(draft, topic)).await?
            == Deleted::Part
        {}
        Ok(())
    }

    /// Publishes messages, all at one moment. The number of the first, if there are any; the others
    /// follow it.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn publish<B: AsRef<[u8]> + Sync>(
        &self,
        topic: &str,
        messages: &[B],
    ) -> Result<Option<u64>, Error> {
        if !(1..=PUBLISHED_AT_ONCE).contains(&messages.len()) {
            let publish = |draft: &mut Draft| topic::publish_all(draft, topic, messages);
            return self.topic_run(&publish).await;
        }
        // The leader of the topic's shard publishes for all, one after the other: no conflicts.
        let words = [b"TPUBLISH".as_slice(), topic.as_bytes()].into_iter();
        let words: Vec<&[u8]> = words.chain(messages.iter().map(AsRef::as_ref)).collect();
        match self.command(&words).await? {
            Reply::Integer(first) => Ok(Some(first as u64)),
            _ => Err(unexpected_reply()),
        }
    }

    /// Makes a group, whose members share a topic's messages. One that is there gets these
    /// settings, and goes on where it is.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn subscribe(
        &self,
        topic: &str,
        group: &str,
        settings: GroupSettings,
        from: Start,
    ) -> Result<(), Error> {
        let subscribe = |draft: &mut Draft| {
            group::subscribe(draft, topic, group, settings.clone(), from).map(drop)
        };
        self.topic_run(&subscribe).await
    }

    /// Ends a group.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn unsubscribe(&self, topic: &str, group: &str) -> Result<(), Error> {
        self.topic_run(&|draft: &mut Draft| group::unsubscribe(draft, topic, group)).await
    }

    /// Takes at most so many messages as a member of a group, or waits for one. Each must be
    /// acknowledged within the group's time ([`Self::ack`]), or it is handed out again.
    ///
    /// # Errors
    /// [`Error`]; what was taken without being known is handed out again.
    pub async fn take(
        &self,
        topic: &str,
        group: &str,
        max: usize,
        wait: Duration,
    ) -> Result<Taken, Error> {
        let until = Instant::now() + wait;
        let mut pause = POLL_MIN;
        loop {
            let now_ms = self.time_ms().await?;
            let take = |draft: &mut Draft| group::take(draft, topic, group, max);
            // Mostly there is nothing; to see that needs no transaction.
            let (_, writes) = draft(self, None, now_ms, &take).await?;
            if !writes.is_empty() {
                return self.topic_run_at(now_ms, &take).await;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Taken::default());
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    /// Acknowledges messages: they are not handed out again. How many of them were handed out.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn ack(&self, topic: &str, group: &str, numbers: &[u64]) -> Result<usize, Error> {
        self.topic_run(&|draft: &mut Draft| group::ack(draft, topic, group, numbers)).await
    }

    /// Gives messages back: they are handed out again at once. How many of them were handed out.
    ///
    /// # Errors
    /// [`Error`]: nothing was done, or it is not known.
    pub async fn give_back(
        &self,
        topic: &str,
        group: &str,
        numbers: &[u64],
    ) -> Result<usize, Error> {
        self.topic_run(&|draft: &mut Draft| group::give_back(draft, topic, group, numbers)).await
    }

    async fn topic_run<T>(&self, program: Program<'_, T>) -> Result<T, Error> {
        self.topic_run_at(0, program).await
    }

    async fn topic_run_at<T>(&self, now_ms: u64, program: Program<'_, T>) -> Result<T, Error> {
        self.transaction(async |tx| {
            let (done, writes) = draft(&tx, Some(self), now_ms, program).await?;
            write(&tx, writes).await?;
            Ok::<_, Error>(done)
        })
        .await
    }

    /// Milliseconds since 1970, by a clock of the store.
    async fn time_ms(&self) -> Result<u64, Error> {
        let reply = self.command(&[b"TIME"]).await?;
        let Reply::Array(parts) = reply else { return Err(unexpected_reply()) };
        let number = |part: &Reply| std::str::from_utf8(part.bytes()?).ok()?.parse::<u64>().ok();
        match &parts.iter().map(number).collect::<Vec<_>>()[..] {
            [Some(seconds), Some(micros)] => Ok(seconds * 1000 + micros / 1000),
            _ => Err(unexpected_reply()),
        }
    }
}
