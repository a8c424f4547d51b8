//! The pool of exclusive connections (*lines*) for transactions: at most `transactions_max`,
//! reused.
//!
//! ```text
//!   take ─► a place (others wait for it) ─► a kept line, else a new one ─► BEGIN ─► Taken
//!                                               ▲        │ to the node whose turn it is
//!   give_back ──────────────────────────────────┘        └ it does not answer: to the next
//! ```
//!
//! A node that failed is *shunned* for [`SHUNNED`]: the client asks it only when no other answers,
//! and drops its pooled lines.
//!
//! Invariant: a pooled line has answered all its commands, and no transaction is open on it. So a
//! line may be dropped at any time: the node sees the connection end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::cluster::Cluster;
use super::commands::unexpected_reply;
use super::dial::DialError;
use super::error::{Meaning, meaning};
use super::exclusive::Line;
use super::options::Options;
use super::pause::Pauses;
use super::reply::Reply;
use super::request::Request;
use super::{Error, Reason};

/// How long transactions avoid a node that has failed.
pub const SHUNNED: Duration = Duration::from_secs(2);
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// A line on which a transaction was begun, with its place.
#[derive(Debug)]
pub(crate) struct TakenConnection {
    pub line: Line,
    place: OwnedSemaphorePermit,
}

/// See the front page.
#[derive(Debug)]
pub(crate) struct Pool {
    options: Arc<Options>,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Line>>,
    /// Nodes, and until when.
    shunned: Mutex<Vec<(String, Instant)>>,
}

impl Pool {
    /// One without lines.
    pub fn new(options: Arc<Options>) -> Self {
        let places = Arc::new(Semaphore::new(options.transactions_max.min(Semaphore::MAX_PERMITS)));
        Self { options, places, idle: Mutex::default(), shunned: Mutex::default() }
    }

    /// Begins a transaction, on whichever node answers.
    ///
    /// # Errors
    /// There was no place in time, no node that answers, or nodes refuse.
    pub async fn take(&self, cluster: &Cluster, until: Instant) -> Result<TakenConnection, Error> {
        let Ok(place) = timeout_at(until, self.places.clone().acquire_owned()).await else {
            let count = self.options.transactions_max;
            let text = format!("{count} transactions are under way (transactions_max)");
            return Err(Error::not_done(Reason::TimedOut, text));
        };
        let place = place.expect("it is never closed");
        let mut pauses = Pauses::new(PAUSE_FIRST, PAUSE_MAX);
        loop {
            let failed = match self.line(cluster, until).await {
                Ok(line) => return Ok(TakenConnection { line, place }),
                Err(error) if error.is_passing() => error,
                Err(error) => return Err(error),
            };
            let next = Instant::now() + pauses.next();
            if next >= until {
                return Err(failed);
            }
            sleep_until(next).await;
        }
    }

    /// A transaction is over, and its line has answered all commands.
    pub fn give_back(&self, taken: TakenConnection) {
        let TakenConnection { line, place } = taken;
        self.idle.lock().push(line);
        drop(place);
    }

    /// Avoids this node for a while.
    pub fn shun(&self, address: &str) {
        self.idle.lock().retain(|line| line.address() != address);
        let now = Instant::now();
        let mut shunned = self.shunned.lock();
        shunned.retain(|(other, until)| other != address && *until > now);
        shunned.push((address.to_owned(), now + SHUNNED));
    }

    fn is_shunned(&self, address: &str) -> bool {
        let now = Instant::now();
        self.shunned.lock().iter().any(|(other, until)| other == address && *until > now)
    }

    /// A line with a transaction, begun on the first node that does it.
    async fn line(&self, cluster: &Cluster, until: Instant) -> Result<Line, Error> {
        let mut failed = Error::not_done(Reason::NoNode, "no node is known");
        loop {
            // Kept apart, so that it is not locked while it is waited.
            let idle = self.idle.lock().pop();
            let Some(line) = idle else { break };
            let address = line.address().to_owned();
            match begin(line, until).await {
                Ok(line) => return Ok(line),
                Err(error) => failed = error,
            }
            self.shun(&address);
        }
        let mut addresses = cluster.rotated_addresses();
        addresses.sort_by_key(|address| self.is_shunned(address));
        for address in addresses {
            let limit = self.options.connect_timeout;
            let limit = limit.min(until.saturating_duration_since(Instant::now()));
            let begun = match Line::dial(&address, &self.options, limit).await {
                Ok(line) => begin(line, until).await,
                Err(DialError::Unreachable(text)) => Err(Error::not_done(Reason::NoNode, text)),
                Err(DialError::Refused(text)) => Err(refused(text.as_bytes())),
            };
            match begun {
                Ok(line) => return Ok(line),
                Err(error) => failed = error,
            }
            self.shun(&address);
        }
        Err(failed)
    }
}

async fn begin(mut line: Line, until: Instant) -> Result<Line, Error> {
    match line.ask(&Request { args: &[b"BEGIN"], slot: None, reads: true }, until).await {
        Ok(Reply::Status(_)) => Ok(line),
        Ok(Reply::Error(text)) => Err(refused(&text)),
        Ok(_) => Err(unexpected_reply()),
        Err(failed) => Err(Error::not_done(failed.reason, failed.why)),
    }
}

/// What an error of a node is, of what does nothing by itself.
pub(crate) fn refused(text: &[u8]) -> Error {
    let words = String::from_utf8_lossy(text).into_owned();
    match meaning(text) {
        Meaning::Moved { .. } | Meaning::Again | Meaning::Unknown => {
            Error::not_done(Reason::NoLeader, words)
        }
        Meaning::NotDone(reason) => Error::not_done(reason, words),
        Meaning::Bad => Error::bad(words),
    }
}
