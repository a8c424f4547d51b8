//! Acquires a lock and keeps it, over several nodes.
//!
//! ```text
//!   sent   ├────────── lease, as its holder counts it ──────────┤
//!   judged      ├────────── lease, by the store's time ──────────────┤
//!                                                        3/4 ▲  9/10 ▲ of the holder's
//! ```
//!
//! The store alone decides when a lease ends. Its holder counts from before it sent the request, so
//! it knows that it holds the lock for less than the store says, as long as the clocks of nodes
//! differ by less than a tenth of the lease. What must not be touched by two at once should still
//! compare tokens.

use std::time::{Duration, Instant};

use super::error::{ClientError, Outcome, Problem};
use super::{Client, LockInfo};

/// One request waits for a lock at most so long.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// An answer may take so much longer than the wait.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// After no node has answered, it is tried again after so long.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether a lock is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// It is.
    Held,
    /// No node has renewed it: it is held until [`HeldLock::ends`], and may be renewed yet.
    NotRenewed,
    /// It is not: the lease has ended.
    Lost,
}

/// A lock that is held; released by [`Self::release`], or by itself when its lease ends.
#[derive(Debug)]
pub struct HeldLock {
    clients: Vec<Client>,
    held: LockInfo,
    ttl: Duration,
    /// When the last request was sent that has begun a lease.
    since: Instant,
}

impl HeldLock {
    /// Acquires a lock from the first of several nodes that answers. The owner's name must be its
    /// own: another with the same would share the lock.
    ///
    /// # Errors
    /// The problem `lock-held` if another had it all the time; else that of the last node.
    pub fn acquire(
        clients: Vec<Client>,
        name: &str,
        owner: &str,
        ttl: Duration,
        wait: Duration,
    ) -> Result<Self, ClientError> {
        let until = Instant::now().checked_add(wait);
        let left = || until.map_or(WAIT_MAX, |until| until.duration_since(Instant::now()));
        let mut place = 0;
        loop {
            let client = clients.get(place % clients.len().max(1));
            let Some(client) = client else {
                return Err(ClientError::BadAddress { address: String::new() });
            };
            let wait = left().min(WAIT_MAX);
            let client = client.clone().with_timeout(wait + ANSWER_MAX);
            let since = Instant::now();
            let error = match client.lock_acquire(name, Some(owner), ttl, wait) {
                Ok(held) => return Ok(Self { clients, held, ttl, since }),
                Err(error) => error,
            };
            place += 1;
            let is_held = problem(&error).is_some_and(|problem| problem.kind == "lock-held");
            if !is_held && !may_pass(&error) {
                return Err(error);
            }
            // Each node is asked once, even without a wait.
            let is_tried = is_held || place >= clients.len();
            if left().is_zero() && is_tried {
                return Err(error);
            }
            if !is_held && place % clients.len() == 0 {
                std::thread::sleep(PAUSE.min(left()));
            }
        }
    }

    /// As it is held.
    pub fn held(&self) -> &LockInfo {
        &self.held
    }

    /// When to renew it, at the latest.
    pub fn renew_at(&self) -> Instant {
        self.since + self.ttl / 3
    }

    /// When what it protects should come to its end, if it was not renewed.
    pub fn stop_at(&self) -> Instant {
        self.since + self.ttl * 3 / 4
    }

    /// When what it protects must have ended, if it was not renewed.
    pub fn ends(&self) -> Instant {
        self.since + self.ttl * 9 / 10
    }

    /// Renews it, at the first node that answers.
    pub fn renew(&mut self) -> LockState {
        let timeout = (self.ttl / 8).max(Duration::from_millis(200));
        for client in &self.clients {
            let since = Instant::now();
            let client = client.clone().with_timeout(timeout);
            match client.lock_renew(&self.held.name, self.held.token, self.ttl) {
                Ok(held) => {
                    (self.held, self.since) = (held, since);
                    return LockState::Held;
                }
                Err(error) if problem(&error).is_some_and(|what| what.kind == "lock-lost") => {
                    return LockState::Lost;
                }
                Err(_) if Instant::now() >= self.stop_at() => break,
                Err(_) => {}
            }
        }
        let is_over = Instant::now() >= self.ends();
        if is_over { LockState::Lost } else { LockState::NotRenewed }
    }

    /// Releases it.
    ///
    /// # Errors
    /// Of the last node; the lease ends by itself then.
    pub fn release(&self) -> Result<(), ClientError> {
        let mut last = Ok(());
        for client in &self.clients {
            let client = client.clone().with_timeout(self.ttl.min(ANSWER_MAX));
            last = client.lock_release(&self.held.name, self.held.token);
            match &last {
                Ok(()) => return Ok(()),
                Err(error) if problem(error).is_some_and(|what| what.kind == "lock-lost") => break,
                Err(_) => {}
            }
        }
        last
    }
}

fn problem(error: &ClientError) -> Option<&Problem> {
    match error {
        ClientError::Refused(problem) | ClientError::BadRequest(problem) => Some(problem),
        _ => None,
    }
}

/// Whether another node, or a later time, may bring another answer. The outcome may be unknown:
/// who has got the lock keeps it when asking again.
fn may_pass(error: &ClientError) -> bool {
    let is_status = problem(error).is_some_and(|problem| problem.status >= 500);
    let is_network =
        matches!(error, ClientError::CannotConnect { .. } | ClientError::Broken { .. });
    is_status || is_network || error.outcome() == Outcome::Unknown
}
