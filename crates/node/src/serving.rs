//! Until when may this replica answer linearizable reads by itself?
//!
//! The lane publishes it after every turn and before anything of that turn leaves (SAFETY G1):
//! only while the replica leads, has applied its term's first entry and all that it knows to be
//! committed, and holds a lease. Readers look at it under the read guard. What they compare with is
//! the node's boot clock, read after the request had come: at that moment nobody else led, so what
//! is applied here then is all that anyone was ever told.
//!
//! A sole voter's lease never ends.

use std::sync::atomic::{AtomicU64, Ordering};

use replication::BootNanos;

/// Shared by a shard's lane and its readers.
#[derive(Debug, Default)]
pub struct Serving(AtomicU64);

impl Serving {
    /// Reads whose clock stood at `now` when they had come may be served.
    pub fn at(&self, now: BootNanos) -> bool {
        now < self.0.load(Ordering::Acquire)
    }

    /// Whether reads are served by anyone whose clock stands anywhere.
    pub fn at_all(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// From now on, reads may be served whose clock stands below `end`. Zero: none.
    pub(crate) fn until(&self, end: BootNanos) {
        self.0.store(end, Ordering::Release);
    }
}
