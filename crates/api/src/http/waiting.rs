//! Requests that wait: for messages of a topic, or for a lock. The leader of its shard tells when
//! there is something new, and the request looks again at once.
//!
//! ```text
//!   look: nothing ──► ask the leader: a change above the time of the look?
//!        ▲              │ yes          │ none up to then: ask on     │ for POLL_MAX
//!        └──────────────┴──────────────│─────────────────────────────┘
//! ```
//!
//! A deadline that passes is no change: so who waits looks again after [`POLL_MAX`] in any case.
//! There is no order among those who wait for a lock.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | looks of a request | one in [`POLL_MIN`] | it waits |
//! | questions of a request to a shard where other keys change | one in [`POLL_MIN`] | it waits |

use std::time::Duration;

use keyspace::Timestamp;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::context::Context;
use crate::Done;

/// Between two looks at least …
const POLL_MIN: Duration = Duration::from_millis(10);
/// … and at most.
pub const POLL_MAX: Duration = Duration::from_millis(200);

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Awaited<'a> {
    /// A message of a topic.
    Message {
        /// The keyspace.
        keyspace: &'a str,
        /// The topic.
        topic: &'a str,
    },
    /// The release of a lock.
    Lock(&'a str),
}

impl Awaited<'_> {
    /// Waits until something may be new above `since`, as the service told the time before the last
    /// look; until the next look is due; or until `end`.
    pub async fn wait(self, context: &Context, since: Timestamp, end: Instant) {
        let began = Instant::now();
        let until = end.min(began + POLL_MAX);
        let mut above = since;
        loop {
            let asked = Instant::now();
            let left = until.saturating_duration_since(asked);
            if left.is_zero() {
                return;
            }
            let answer = context.wait_for(1, |done| self.ask(context, above, left, done));
            match timeout(left, answer).await {
                Ok(Some(Ok(Some(resolved)))) => above = resolved.max(above),
                Ok(Some(Ok(None))) => return sleep_until((began + POLL_MIN).min(until)).await,
                // Nobody tells: it looks again by itself.
                Ok(Some(Err(_)) | None) => return sleep(left).await,
                Err(_) => return,
            }
            sleep_until((asked + POLL_MIN).min(until)).await;
        }
    }

    fn ask(
        self,
        context: &Context,
        above: Timestamp,
        wait: Duration,
        done: Done<Option<Timestamp>>,
    ) {
        match self {
            Self::Message { keyspace, topic } => {
                context.api.await_message(keyspace, topic, above, wait, done);
            }
            Self::Lock(name) => context.api.await_lock(name, above, wait, done),
        }
    }
}
