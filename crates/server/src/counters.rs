//! Counters of the process: relaxed atomics, summed when they are read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident),+ $(,)?) => {
        /// Counters since the process started, and a few gauges.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $help])+ pub $name: Counter,)+
        }
    };
}

counters! {
    /// Connections of Redis and native clients now.
    connections,
    /// Connections ever accepted.
    connections_accepted,
    /// Connections refused because there were too many.
    connections_rejected,
    /// Connections closed because all unread replies together took too much memory.
    connections_evicted,
    /// Connections that wait for replicas (WAIT, WAITAOF) now.
    connections_blocked,
    /// Bytes of unread replies, over all connections that have many of them.
    unread_bytes,
    /// Commands done.
    commands,
    /// Commands done in the last second.
    commands_per_second,
    /// Of these, commands that change keys.
    writes,
    /// Bytes received.
    input_bytes,
    /// Bytes sent.
    output_bytes,
    /// GETs that found a value.
    hits,
    /// GETs that found none.
    misses,
    /// Error replies.
    errors,
    /// Keys that ended by their expiry, of those whose memory is free again.
    expired_keys,
    /// The most that data ever took of memory, in bytes.
    memory_peak_bytes,
    /// Commands that were rerouted because their shard had split or merged.
    moved,
    /// Transactions over several shards that were done.
    transactions,
    /// … that were not, because a key that they watched had changed.
    transactions_changed,
    /// … that were not, or may not be, for another reason.
    transactions_refused,
    /// Checkpoint rounds finished.
    checkpoints,
    /// 1 while a round is under way.
    checkpoint_running,
    /// 1 if the last round had no room on the disk.
    checkpoint_failed,
    /// When the last one was finished, in milliseconds since 1970.
    checkpoint_millis,
    /// Where the log begins that a restart would read.
    log_start,
}

/// How fast a counter has risen lately.
#[derive(Debug, Default)]
pub struct Rate(VecDeque<(Instant, u64)>);

impl Rate {
    /// Over this time.
    const WINDOW: Duration = Duration::from_secs(1);

    /// The counter has this value now; by how much it has risen in a second.
    pub fn observe(&mut self, now: Instant, value: u64) -> u64 {
        // One reading before the window stays: the rise is since then.
        let is_old = |at: Instant| now.saturating_duration_since(at) >= Self::WINDOW;
        while self.0.get(1).is_some_and(|(at, _)| is_old(*at)) {
            self.0.pop_front();
        }
        self.0.push_back((now, value));
        let (since, before) = self.0[0];
        let millis = now.saturating_duration_since(since).as_millis() as u64;
        (value.saturating_sub(before) * 1000).checked_div(millis).unwrap_or(0)
    }
}

/// One counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Takes away, for gauges.
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    /// Sets, for gauges.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Raises a gauge to a value that is higher.
    pub fn raise(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    /// Reads.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_last_second() {
        let (begin, mut rate) = (Instant::now(), Rate::default());
        let mut at =
            |millis: u64, value| rate.observe(begin + Duration::from_millis(millis), value);
        assert_eq!(at(0, 5), 0);
        assert_eq!(at(100, 105), 1000);
        assert_eq!(at(1_000, 105), 100);
        assert_eq!(at(1_100, 105), 0);
        // Nobody has looked for a while.
        assert_eq!(at(3_100, 4_105), 2000);
        assert_eq!(at(9_100, 4_105), 0);
    }
}
