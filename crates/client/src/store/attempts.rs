//! Attempts of one request, until it is answered or its timeout is over.
//!
//! ```text
//!   way ─► put ─► answer ─────────────────────────────────────► done
//!    ▲      │       ├─ MOVED ─► cache corrected ─► there, at once ─┐
//!    │      │       ├─ TRYAGAIN, BUSY … (nothing was done) ────────┤
//!    │      │       ├─ lost, not sent; or lost, and it only reads ─┤
//!    │      │       └─ lost or UNKNOWN, and it writes ─► Unknown   │
//!    └──────┴───── pause: 0, 5 ms, 10 ms … with jitter ◄───────────┘
//! ```
//!
//! Invariant: a write is sent again only if it is certain that nothing was done (G10).

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::cluster::{Cluster, RequestRoute};
use super::error::{Meaning, meaning};
use super::link::LinkLost;
use super::pause::Pauses;
use super::reply::Reply;
use super::request::Request;
use super::route_cache;
use super::{Error, Reason};

const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// A write is not sent again with less time left than this: it might be done unanswered, where
/// now it is known that nothing was.
const WRITE_TIME_MIN: Duration = Duration::from_millis(50);
/// Redirects followed at once. After more in a row, the nodes do not agree on the leader yet.
const REDIRECTS_AT_ONCE: usize = 3;
/// After so many redirects in a row the client asks a node to forward the request.
const REDIRECTS_MAX: usize = 6;

/// Does a request; `number` and `limit` are its own.
pub(crate) async fn attempt(
    cluster: &Cluster,
    request: &Request<'_>,
    number: u64,
    limit: Duration,
) -> Result<Reply, Error> {
    let mut tries = Attempts {
        request,
        number,
        deadline: Instant::now() + limit,
        pauses: Pauses::new(PAUSE_FIRST, PAUSE_MAX),
        last: Error::not_done(Reason::NoNode, "no node can be reached"),
    };
    let mut moves = 0;
    let mut failures = 0;
    let mut next: Option<RequestRoute> = None;
    loop {
        // Off the straight way once the leader could not take it, or nobody agrees who it is.
        let spread = if moves > REDIRECTS_MAX { moves } else { failures };
        let way = next.take().or_else(|| cluster.choose_route(request.slot, spread));
        let Some(way) = way else {
            tries.pause().await?;
            continue;
        };
        match tries.ask(&way).await? {
            AttemptOutcome::Reply(reply) => return Ok(reply),
            AttemptOutcome::Moved { slot, address } => {
                moves += 1;
                let there = cluster.moved(slot, &address);
                if moves > REDIRECTS_AT_ONCE {
                    tries.pause().await?;
                }
                if moves <= REDIRECTS_MAX {
                    failures += usize::from(there.is_none());
                    next = there;
                }
            }
            AttemptOutcome::Retry => {
                failures += 1;
                tries.pause().await?;
                // The leader may be known meanwhile: every other attempt goes straight.
                if failures.is_multiple_of(2) {
                    failures = 0;
                }
            }
        }
    }
}

enum AttemptOutcome {
    Reply(Reply),
    Moved {
        slot: u16,
        address: String,
    },
    /// Nothing was done, or nothing can have been; [`Attempts::last`] says why.
    Retry,
}

struct Attempts<'a> {
    request: &'a Request<'a>,
    number: u64,
    deadline: Instant,
    pauses: Pauses,
    /// What to say if time is over now.
    last: Error,
}

impl Attempts<'_> {
    /// Asks once.
    async fn ask(&mut self, way: &RequestRoute) -> Result<AttemptOutcome, Error> {
        let queued = timeout_at(self.deadline, way.link.put(self.request)).await;
        let awaited = match queued {
            Ok(Ok(awaited)) => awaited,
            Ok(Err(lost)) => return self.after_link_lost(lost),
            Err(_) => {
                let text = format!("too much waits for {}", way.node.address);
                return Err(Error::not_done(Reason::TimedOut, text));
            }
        };
        match timeout_at(self.deadline, awaited).await {
            Ok(Ok(Ok(Reply::Error(text)))) => self.refused(&text, way),
            Ok(Ok(Ok(reply))) => Ok(AttemptOutcome::Reply(reply)),
            Ok(Ok(Err(lost))) => self.after_link_lost(lost),
            Ok(Err(_)) => {
                let why = "its runtime has ended".into();
                self.after_link_lost(LinkLost { sent: true, unusable: false, why })
            }
            Err(_) => Err(self.no_answer(
                Reason::TimedOut,
                format!("{} has not answered in time", way.node.address),
            )),
        }
    }

    /// A connection has ended.
    fn after_link_lost(&mut self, lost: LinkLost) -> Result<AttemptOutcome, Error> {
        let LinkLost { sent, unusable, why } = lost;
        if unusable && sent {
            // It would be no different the next time.
            return Err(self.no_answer(Reason::BadAnswer, why.to_string()));
        }
        if sent && !self.request.reads {
            return Err(self.unknown(why.to_string()));
        }
        self.last = Error::not_done(Reason::NoNode, why.to_string());
        Ok(AttemptOutcome::Retry)
    }

    /// A node has answered with an error.
    fn refused(&mut self, text: &Bytes, way: &RequestRoute) -> Result<AttemptOutcome, Error> {
        let words = || String::from_utf8_lossy(text).into_owned();
        match meaning(text) {
            Meaning::Moved { slot, host, port } => {
                let address = route_cache::address(&host, port, &way.node.address);
                self.last = Error::not_done(Reason::NoLeader, words());
                Ok(AttemptOutcome::Moved { slot, address: address.unwrap_or_default() })
            }
            Meaning::Unknown if !self.request.reads => Err(self.unknown(words())),
            Meaning::Again | Meaning::Unknown => {
                self.last = Error::not_done(Reason::NoLeader, words());
                Ok(AttemptOutcome::Retry)
            }
            Meaning::NotDone(reason) => Err(Error::not_done(reason, words())),
            Meaning::Bad => Err(Error::bad(words())),
        }
    }

    /// Sent, and no answer will be waited for.
    fn no_answer(&self, reason: Reason, text: String) -> Error {
        if self.request.reads { Error::not_done(reason, text) } else { self.unknown(text) }
    }

    fn unknown(&self, text: String) -> Error {
        Error::Unknown { request: self.number, command: self.request.shown(), text }
    }

    /// Waits before the next attempt; fails if there is no time left for one.
    async fn pause(&mut self) -> Result<(), Error> {
        let until = Instant::now() + self.pauses.next();
        let needs = if self.request.reads { Duration::ZERO } else { WRITE_TIME_MIN };
        if until + needs >= self.deadline {
            return Err(self.last.clone());
        }
        sleep_until(until).await;
        Ok(())
    }
}
