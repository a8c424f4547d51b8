//! Locks with fencing tokens, for asynchronous programs.
//!
//! They go over HTTP, whose blocking client runs on Tokio's threads for that: a lock is asked for
//! now and then.
//!
//! ```text
//!   acquire ──► Lock ── token() goes with what the lock protects
//!                 │ a task renews it each third of the lease, at other nodes if need be
//!                 ├ lost(): it could not, and the lease is about to end
//!                 └ release(), or dropped: it ends by itself
//! ```

use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use crate::http::{Client, ClientError, HeldLock, LockState};

/// After an attempt to renew that brought nothing, the next one begins so soon.
const RETRY: Duration = Duration::from_millis(100);

/// Where locks are asked for.
#[derive(Clone, Debug)]
pub struct Locks {
    clients: Vec<Client>,
}

impl Locks {
    /// At these nodes, `HOST:PORT` of their HTTP listeners. Any of them serves; the others are for
    /// when it does not answer.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`].
    pub fn new<A: AsRef<str>>(addresses: impl IntoIterator<Item = A>) -> Result<Self, ClientError> {
        let clients = addresses.into_iter().map(|address| Client::new(address.as_ref()));
        Ok(Self { clients: clients.collect::<Result<_, _>>()? })
    }

    /// The same over clients, which may speak TLS.
    pub fn of(clients: Vec<Client>) -> Self {
        Self { clients }
    }

    /// Takes a lock, or waits for it so long, and keeps it until it is released. The owner's name
    /// must be its own: another with the same would share the lock.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), client::http::ClientError> {
    /// use std::time::Duration;
    ///
    /// let locks = client::Locks::new(["127.0.0.1:7480", "127.0.0.1:7481"])?;
    /// let (lease, wait) = (Duration::from_secs(30), Duration::from_secs(5));
    /// let mut lock = locks.acquire("nightly", "worker-3", lease, wait).await?;
    /// tokio::select! {
    ///     () = work(lock.token()) => {}
    ///     () = lock.lost() => return Ok(()),
    /// }
    /// lock.release().await?;
    /// # Ok(()) }
    /// # async fn work(_token: u64) {}
    /// ```
    ///
    /// # Errors
    /// The problem `lock-held` if another had it all the time; else that of the last node.
    pub async fn acquire(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        wait: Duration,
    ) -> Result<Lock, ClientError> {
        let (clients, name, owner) = (self.clients.clone(), name.to_owned(), owner.to_owned());
        let acquire = move || HeldLock::acquire(clients, &name, &owner, lease, wait);
        let lock = blocking(acquire).await?;
        let token = lock.held().token;
        let (lost, is_lost) = watch::channel(false);
        let (ends, released) = oneshot::channel();
        tokio::spawn(keep(lock, lost, released));
        Ok(Lock { token, is_lost, ends })
    }
}

/// A lock that is held.
#[derive(Debug)]
pub struct Lock {
    token: u64,
    is_lost: watch::Receiver<bool>,
    ends: oneshot::Sender<oneshot::Sender<Result<(), ClientError>>>,
}

impl Lock {
    /// Its token: larger than those of all holders before. What the lock protects can remember the
    /// largest that it has seen, and refuse smaller ones.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Whether it is still held, as far as is known here.
    pub fn is_held(&self) -> bool {
        !*self.is_lost.borrow()
    }

    /// Returns when it is lost: what it protects must stop at once.
    pub async fn lost(&mut self) {
        // An error says that the task has ended, with the runtime.
        let _ended = self.is_lost.wait_for(|is_lost| *is_lost).await;
    }

    /// Releases it.
    ///
    /// # Errors
    /// No node has confirmed it; it ends by itself then.
    pub async fn release(self) -> Result<(), ClientError> {
        let (done, answer) = oneshot::channel();
        // Without the task, or its answer, the lock has been lost.
        if self.ends.send(done).is_err() {
            return Ok(());
        }
        answer.await.unwrap_or(Ok(()))
    }
}

/// Runs what blocks; a panic of it goes on here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Renews a lock until it is released, dropped or lost.
async fn keep(
    mut lock: HeldLock,
    lost: watch::Sender<bool>,
    mut released: oneshot::Receiver<oneshot::Sender<Result<(), ClientError>>>,
) {
    let mut next = lock.renew_at();
    loop {
        tokio::select! {
            biased;
            done = &mut released => {
                // Dropped without a word: the lease ends by itself.
                let Ok(done) = done else { return };
                let answer = blocking(move || lock.release()).await;
                let _nobody_waits = done.send(answer);
                return;
            }
            () = tokio::time::sleep_until(next.into()) => {}
        }
        let state;
        (lock, state) = blocking(move || {
            let state = lock.renew();
            (lock, state)
        })
        .await;
        next = match state {
            LockState::Held => lock.renew_at(),
            LockState::NotRenewed if Instant::now() < lock.stop_at() => Instant::now() + RETRY,
            LockState::NotRenewed | LockState::Lost => {
                // Who waits for that hears it; who does not, has gone.
                let _unheard = lost.send(true);
                return;
            }
        };
    }
}
