//! When is the time of a script over that waits for a thread or for keys?
//!
//! From when it came, or had left its queue, a script may wait for `request_timeout_ms` in all,
//! besides the time for which it has run itself. Nothing of it is done before it commits, so until
//! then it can be refused at any time. The first script thread looks at those that wait, since it
//! runs nothing that is long, and each thread at one that it is about to run. A coordinator has the
//! time that is left; what it has begun to commit then, and an entry of one shard, gets as long
//! again before it is `UNKNOWN`.
//!
//! ```text
//!   came ──► waits ── runs ── waits for keys ── runs … ──► commits
//!            └───────────────┬────────────────┘
//!                request_timeout_ms, and the time of its runs
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keyspace::BootNanos;
use parking_lot::Mutex;
use txn::coordinator::TxnOutcome;

use super::shards::Attempt;
use super::{MEDIUM_TIME, SHORT_TIME};
use crate::event_loop::ended_text;
use crate::runtime::{NodeRuntime, boot_nanos};

/// Why a script's keys could not be read.
pub(super) const NOT_READ: &str = "BUSY a shard of the script's keys had no leader, or other \
                                   transactions had locked them all the time; nothing of the \
                                   script was done. Send it again";

/// What has taken a script's time.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Since when it waits for a thread, if it does.
    waits_since: Option<Instant>,
    /// How long it has waited for threads before.
    waited: Duration,
    /// How often it has begun.
    runs: u32,
    /// How long these runs took.
    ran: Duration,
}

impl Spent {
    /// It waits for a thread from now on.
    pub(super) fn waits(&mut self, now: Instant) {
        self.waits_since = Some(now);
    }

    /// It has a thread.
    pub(super) fn waits_no_more(&mut self) {
        self.waited = self.waited();
        self.waits_since = None;
    }

    /// It has run for so long.
    pub(super) fn has_run(&mut self, took: Duration) {
        self.runs += 1;
        self.ran += took;
    }

    /// How long it has run itself.
    pub(super) fn ran(&self) -> Duration {
        self.ran
    }

    /// How long after it came, or left its queue, it is late: it may wait for so long, besides its
    /// own time.
    fn time_max(&self, wait_max: Duration, script_time: Duration) -> Duration {
        wait_max + self.ran.min(script_time)
    }

    /// For how long it has waited for threads in so long, if most of its waiting was for them.
    fn waited_mostly(&self, took: Duration) -> Option<Duration> {
        Some(self.waited()).filter(|waited| *waited > took.saturating_sub(self.ran) / 2)
    }

    fn waited(&self) -> Duration {
        self.waited + self.waits_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Scripts that wait for keys which they read.
#[derive(Default)]
pub(super) struct Readers(Mutex<NumberedReaders>);

#[derive(Default)]
struct NumberedReaders {
    next: u64,
    all: BTreeMap<u64, Attempt>,
}

impl Readers {
    /// Keeps a script until its keys have come; the number is its own.
    pub(super) fn add(&self, attempt: Attempt) -> u64 {
        let mut readers = self.0.lock();
        readers.next += 1;
        let number = readers.next;
        readers.all.insert(number, attempt);
        number
    }

    /// Its keys have come. None: it was refused meanwhile.
    pub(super) fn take(&self, number: u64) -> Option<Attempt> {
        self.0.lock().all.remove(&number)
    }

    fn take_late(&self, is_late: impl Fn(&Attempt) -> bool) -> Vec<Attempt> {
        let mut readers = self.0.lock();
        let late = readers.all.extract_if(.., |_, attempt| is_late(attempt));
        late.map(|(_, attempt)| attempt).collect()
    }
}

/// Refuses scripts whose time is over while they wait, and says how many lines of scripts the log
/// left out.
pub(super) fn sweep(runtime: &NodeRuntime) {
    let scripts = &runtime.scripts;
    scripts.log_limit.tick(Instant::now());
    let now = boot_nanos();
    let is_late = |attempt: &Attempt| attempt.is_late(runtime, now);
    let mut late = scripts.tasks.lock().take_late(is_late);
    late.extend(scripts.readers.take_late(is_late));
    for attempt in late {
        attempt.refuse_late(runtime);
    }
}

impl Attempt {
    /// Whether there is no time left to wait.
    pub(super) fn is_late(&self, runtime: &NodeRuntime, now: BootNanos) -> bool {
        self.waited_for(now) > self.time_max(runtime)
    }

    /// How long after it came, or left its queue, it is late.
    pub(super) fn time_max(&self, runtime: &NodeRuntime) -> Duration {
        let wait_max = Duration::from_nanos(runtime.request_timeout_nanos);
        self.spent.time_max(wait_max, runtime.scripts.script_time)
    }

    /// How long it may run now: `script_time_ms`, unless it has run for long before.
    pub(super) fn time_left(&self, runtime: &NodeRuntime, now: BootNanos) -> Duration {
        let waits = Duration::from_nanos(runtime.request_timeout_nanos);
        let runs = SHORT_TIME + MEDIUM_TIME + runtime.scripts.script_time;
        (waits + runs).saturating_sub(self.waited_for(now))
    }

    /// For how long its client has waited.
    fn waited_for(&self, now: BootNanos) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.attempt.since()))
    }

    /// Answers it: there is no time left.
    pub(super) fn refuse_late(self, runtime: &NodeRuntime) {
        let text = self.late_text(self.waited_for(boot_nanos()));
        self.refuse(runtime, &text);
    }

    /// Why there is no time left, after so long.
    fn late_text(&self, took: Duration) -> String {
        let Spent { runs, .. } = self.spent;
        if let Some(waited) = self.spent.waited_mostly(took) {
            return format!(
                "BUSY the script has waited {} ms for a script thread, since other scripts had \
                 them (script_threads); nothing of it was done. Send it again later",
                waited.as_millis()
            );
        }
        if let Some(before) = self.attempt.before() {
            return ended_text(&TxnOutcome::Busy(before.key.clone())).into();
        }
        if runs < 2 {
            return NOT_READ.into();
        }
        format!(
            "BUSY the script has not ended within {} ms (request_timeout_ms and script_time_ms): \
             it has begun {runs} times, and waited for keys in between; nothing of it was done. \
             Declare its keys, or have it read fewer",
            took.as_millis()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn own_time_does_not_count_up_to_the_longest_of_a_script() {
        let mut spent = Spent::default();
        assert_eq!(spent.time_max(5 * SECOND, 3 * SECOND), 5 * SECOND);
        spent.has_run(2 * SECOND);
        assert_eq!(spent.time_max(5 * SECOND, 3 * SECOND), 7 * SECOND);
        spent.has_run(2 * SECOND);
        assert_eq!(spent.time_max(5 * SECOND, 3 * SECOND), 8 * SECOND);
    }

    #[test]
    fn script_that_has_run_for_long_has_still_waited_for_a_thread() {
        let spent = |waited, ran| Spent { waited, ran, ..Spent::default() };
        let mostly = spent(3 * SECOND, 5 * SECOND).waited_mostly(10 * SECOND);
        assert_eq!(mostly, Some(3 * SECOND));
        assert_eq!(spent(2 * SECOND, 5 * SECOND).waited_mostly(10 * SECOND), None, "but for keys");
    }
}
