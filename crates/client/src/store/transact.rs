//! Begins transactions, and runs them again after conflicts.
//!
//! ```text
//!   begin ─► the closure ─┬─ Ok ─► COMMIT ─┬─ OK ───────────────────► its value
//!     ▲                   │                ├─ sent, and not known ──► Unknown
//!     │                   │                └─ nothing was done ─┐
//!     │                   └─ Err ─► ROLLBACK ─┬─ its own ───────┼───► its error
//!     │                                       └─ a command failed of what passes
//!     └─────────── pause: 0, 5 ms, 10 ms … with jitter ◄────────┘
//! ```
//!
//! Invariant: a transaction runs again only if it is certain that nothing was done (G10).

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::pause::Pauses;
use super::transaction::Open;
use super::{Error, OpenTransaction, Store, Transaction};

const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);

impl Store {
    /// Goes through a transaction, and returns what `work` has returned when all of it is done: at
    /// one moment, over any keys of the keyspace, and strictly serialisable with everything else.
    ///
    /// ```no_run
    /// # async fn example(store: client::Store) -> Result<(), client::Error> {
    /// # let (from, to) = ("a", "b");
    /// let left = store
    ///     .transaction(async |tx| {
    ///         let left = tx.incr_by(from, -10).await?;
    ///         tx.incr_by(to, 10).await?;
    ///         Ok::<_, client::Error>(left)
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// **`work` may be run several times**, each time from the beginning and with what keys have by
    /// then: when another has changed what it has read (nothing is locked meanwhile), when its
    /// connection has ended, and when nodes say that they cannot do it now. So it should do nothing
    /// but ask `tx`. There are pauses in between, which rise, and an end after
    /// [`transaction_timeout`](super::Builder::transaction_timeout).
    ///
    /// An error that `work` returns has nothing done, and is returned as it is. So does a panic,
    /// and a future that is dropped before COMMIT was sent; after that it may have been done.
    ///
    /// Only when COMMIT is answered it is known that all that was read was there at one moment.
    /// Before, two keys may show what was never there together, if another writes meanwhile: so do
    /// not panic of it, and take an error of your own that depends on several keys as what it is.
    ///
    /// Its future can be spawned. An async closure may borrow what is around it, but change nothing
    /// of that; use a `Cell` or an atomic number to count its runs.
    ///
    /// # Errors
    /// What `work` returns; and, as an [`Error`]: nothing was done, in time; or it is not known, as
    /// COMMIT was sent and not answered, or answered so. That is never tried again.
    pub async fn transaction<T, E, F, W>(&self, mut work: W) -> Result<T, E>
    where
        W: FnMut(Transaction) -> F,
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let until = Instant::now() + self.shared.options.transaction_timeout;
        let mut pauses = Pauses::new(PAUSE_FIRST, PAUSE_MAX);
        loop {
            let open = Open::begin(&self.shared, until, Some(until)).await?;
            let failed = match work(Transaction::of(open.clone())).await {
                Ok(value) => match open.commit().await {
                    Ok(()) => return Ok(value),
                    Err(error) if error.is_passing() => E::from(error),
                    Err(error) => return Err(E::from(error)),
                },
                Err(own) if open.rollback().await.is_some_and(|error| error.is_passing()) => own,
                Err(own) => return Err(own),
            };
            let next = Instant::now() + pauses.next();
            if next >= until {
                return Err(failed);
            }
            sleep_until(next).await;
        }
    }

    /// Begins a transaction that is gone through by hand, once. Each of its commands has the time
    /// of a request, all together as long as they like; but it holds one of
    /// [`transactions_max`](super::Builder::transactions_max) places until it is over.
    ///
    /// ```no_run
    /// # async fn example(store: client::Store) -> Result<(), client::Error> {
    /// use client::{Error, Reason};
    ///
    /// let tx = store.begin().await?;
    /// if tx.get("colour").await?.is_none() {
    ///     tx.set("colour", "blue").await?;
    /// }
    /// match tx.commit().await {
    ///     Err(Error::NotDone { reason: Reason::Conflict, .. }) => println!("somebody was faster"),
    ///     other => other?,
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Nothing was begun within [`transaction_timeout`](super::Builder::transaction_timeout).
    pub async fn begin(&self) -> Result<OpenTransaction, Error> {
        let until = Instant::now() + self.shared.options.transaction_timeout;
        let open = Open::begin(&self.shared, until, None).await?;
        Ok(OpenTransaction::of(Transaction::of(open)))
    }
}
