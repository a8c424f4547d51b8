//! What the process counts: relaxed atomics, summed by those who ask.

use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Commands done.
    commands,
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
    /// Commands that a shard has turned away, for it was cut in two, and that were sent on.
    moved,
    /// Transactions over several shards that were done.
    transactions,
    /// … that were not, because a key that they watched had changed.
    transactions_changed,
    /// … that were not, or may not be, for another reason.
    transactions_refused,
    /// Checkpoint rounds finished.
    checkpoints,
    /// When the last one was finished, in milliseconds since 1970.
    checkpoint_millis,
    /// Where the log begins that a restart would read.
    log_start,
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

    /// Reads.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
