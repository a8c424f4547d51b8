//! Interactive transactions: their commands, COMMIT and ROLLBACK.
//!
//! The node runs each command at once, on a copy. COMMIT applies all writes, if nothing that was
//! read has changed. So nothing is done before COMMIT was sent: if the connection fails, or is
//! dropped, the node forgets the transaction.
//!
//! Invariant: a connection goes back to the pool only when COMMIT or ROLLBACK was answered on it.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::commands::{Runs, UNEXPECTED_REPLY, unexpected_reply};
use super::error::{Meaning, meaning};
use super::pool::{TakenConnection, refused};
use super::reply::Reply;
use super::request::Request;
use super::{Error, Reason, Shared};

/// An open transaction: state shared by its handle and the code that ends it.
#[derive(Debug)]
pub(super) struct Open {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// When its time is over, if it has an end.
    until: Option<Instant>,
}

#[derive(Debug)]
struct State {
    /// None when it is over.
    taken: Option<TakenConnection>,
    /// Whether it may have written something, in the copy.
    writes: bool,
    /// Why the last command was not done, unless that was its own fault.
    failed: Option<Error>,
}

impl Open {
    /// Begins one before `begun_until`; its commands are to end before `until`.
    pub async fn begin(
        shared: &Arc<Shared>,
        begun_until: Instant,
        until: Option<Instant>,
    ) -> Result<Arc<Self>, Error> {
        let taken = shared.pool.take(&shared.cluster, begun_until).await?;
        let state = Mutex::new(State { taken: Some(taken), writes: false, failed: None });
        Ok(Arc::new(Self { shared: shared.clone(), state, until }))
    }

    async fn run(&self, request: &Request<'_>) -> Result<Reply, Error> {
        let mut state = self.state.lock().await;
        let State { taken, writes, failed } = &mut *state;
        let Some(line) = taken.as_mut().map(|taken| &mut taken.line) else {
            return Err(failed.clone().unwrap_or_else(|| Error::bad("the transaction is over")));
        };
        *writes |= !request.reads;
        let mut until = self.request_until();
        if let Some(end) = self.until {
            until = until.min(end);
        }
        let (error, is_over) = match line.ask(request, until).await {
            Ok(Reply::Error(text)) => (refused(&text), false),
            Ok(reply) => {
                *failed = None;
                return Ok(reply);
            }
            Err(lost) => (Error::not_done(lost.reason, lost.why), true),
        };
        if let Error::NotDone { reason: Reason::NoNode | Reason::NoLeader, .. } = error {
            // Others may be better placed.
            self.shared.pool.shun(line.address());
        }
        if is_over {
            *taken = None;
        }
        *failed = Some(error.clone()).filter(|_| is_over || error.is_passing());
        Err(error)
    }

    fn request_until(&self) -> Instant {
        Instant::now() + self.shared.options.request_timeout
    }

    /// Has all of it done. It is over then.
    pub async fn commit(&self) -> Result<(), Error> {
        let (taken, writes, failed) = self.end().await;
        let Some(mut taken) = taken else {
            return Err(failed.unwrap_or_else(|| Error::bad("the transaction is over")));
        };
        if self.until.is_some_and(|until| until <= Instant::now()) {
            let text = "its time was over before COMMIT (transaction_timeout)";
            return Err(Error::not_done(Reason::TimedOut, text));
        }
        let unknown = |text: String| self.shared.unknown("COMMIT".to_owned(), text);
        let request = Request { args: &[b"COMMIT"], slot: None, reads: !writes };
        match taken.line.ask(&request, self.request_until()).await {
            Ok(Reply::Status(_)) => {
                self.shared.pool.give_back(taken);
                Ok(())
            }
            Ok(Reply::Error(text)) => {
                let error = match meaning(&text) {
                    Meaning::Unknown if writes => unknown(String::from_utf8_lossy(&text).into()),
                    _ => refused(&text),
                };
                self.shared.pool.give_back(taken);
                Err(error)
            }
            Ok(_) if writes => Err(unknown(UNEXPECTED_REPLY.to_owned())),
            Ok(_) => Err(unexpected_reply()),
            Err(lost) => {
                self.shared.pool.shun(taken.line.address());
                match lost.sent && writes {
                    true => Err(unknown(lost.why)),
                    false => Err(Error::not_done(lost.reason, lost.why)),
                }
            }
        }
    }

    /// Has nothing of it done. It is over then; why its last command failed, if it did.
    pub async fn rollback(&self) -> Option<Error> {
        let (taken, _, failed) = self.end().await;
        if let Some(mut taken) = taken {
            let request = Request { args: &[b"ROLLBACK"], slot: None, reads: true };
            let done = taken.line.ask(&request, self.request_until()).await;
            if matches!(done, Ok(Reply::Status(_))) {
                self.shared.pool.give_back(taken);
            }
        }
        failed
    }

    async fn end(&self) -> (Option<TakenConnection>, bool, Option<Error>) {
        let mut state = self.state.lock().await;
        (state.taken.take(), state.writes, state.failed.take())
    }
}

impl Runs for &Transaction {
    async fn run(self, request: Request<'_>) -> Result<Reply, Error> {
        self.open.run(&request).await
    }

    /// Nothing was done before COMMIT.
    fn unexpected_reply(self, _: &Request<'_>) -> Error {
        unexpected_reply()
    }
}

/// A transaction, for the commands in it.
///
/// Each command sees the writes of the ones before it; other clients do not. Keys may lie in any
/// shards. If something that was read has changed at commit, nothing is done.
///
/// Commands are sent one after the other, over a connection of its own. One that failed was not
/// done, and, unless the connection has ended, the transaction goes on. One whose future was
/// dropped is done all the same. When the transaction is over, commands fail.
#[derive(Debug)]
pub struct Transaction {
    open: Arc<Open>,
}

impl Transaction {
    pub(super) fn of(open: Arc<Open>) -> Self {
        Self { open }
    }

    /// Any command of docs/redis.md that is about keys.
    ///
    /// ```no_run
    /// # async fn example(tx: client::Transaction) -> Result<(), client::Error> {
    /// let reply = tx.command(&[b"APPEND", b"log", b"line"]).await?;
    /// assert_eq!(reply.integer(), Some(4));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// It was not done.
    pub async fn command(&self, args: &[&[u8]]) -> Result<Reply, Error> {
        self.run(Request::raw(args)?).await
    }
}

/// A transaction of [`Store::begin`](super::Store::begin), which is ended by hand. Dropped, it is
/// rolled back.
#[derive(Debug)]
#[must_use = "nothing is done until it is committed"]
pub struct OpenTransaction {
    transaction: Transaction,
}

impl OpenTransaction {
    pub(super) fn of(transaction: Transaction) -> Self {
        Self { transaction }
    }

    /// Commits: all writes take effect at one moment, if nothing that was read has changed.
    ///
    /// # Errors
    /// Nothing was done: [`Reason::Conflict`] if another has changed what was read. Or it is not
    /// known: [`Error::Unknown`]. It is over in any case.
    pub async fn commit(self) -> Result<(), Error> {
        self.transaction.open.commit().await
    }

    /// Has nothing of it done; that cannot fail. To drop it does the same, but costs the
    /// connection.
    pub async fn rollback(self) {
        let _of_a_command = self.transaction.open.rollback().await;
    }
}

impl Deref for OpenTransaction {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}
