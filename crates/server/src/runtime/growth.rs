//! What commands under way are about to take of the memory, beyond the bytes they have sent.
//!
//! Maintenance measures memory every now and then, and writes are refused when it is all taken.
//! Between two looks commands can add no more than clients can send, but for a few: SETRANGE makes
//! a value as long as its offset says, COPY one as long as another. A thousand of them fit into one
//! packet. So these ask here first, and count from then until memory was measured with them in it:
//!
//! ```text
//!   asked    ──●───●────────●──►      what counts = asked − measured
//!   done     ─────────●───●────►      their replies are there
//!   measured ──────────────●───►      as `done` was when the last measuring began
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

/// Sums that only rise, in bytes. See the front page of this module.
#[derive(Debug, Default)]
pub struct Growth {
    asked: AtomicU64,
    done: AtomicU64,
    measured: AtomicU64,
}

impl Growth {
    /// Lets a command add `bytes` if they fit below `bytes_max`, where `used_bytes` are taken as
    /// last measured. Whoever was let in says [`Self::done`], be it done or refused.
    pub fn ask(&self, bytes: u64, used_bytes: u64, bytes_max: u64) -> bool {
        // In this order: what is measured is asked already.
        let measured = self.measured.load(Ordering::Acquire);
        let counts = self.asked.load(Ordering::Acquire).saturating_sub(measured);
        let fits = used_bytes.saturating_add(counts).saturating_add(bytes) <= bytes_max;
        if fits {
            self.asked.fetch_add(bytes, Ordering::AcqRel);
        }
        fits
    }

    /// Commands that were let in for together `bytes` are answered.
    pub fn done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::AcqRel);
    }

    /// What a measuring that begins now will find; to be given to [`Self::measured`].
    pub fn begin_to_measure(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// What the last measuring has found.
    pub fn last_measured(&self) -> u64 {
        self.measured.load(Ordering::Acquire)
    }

    /// Memory was measured.
    pub fn measured(&self, found: u64) {
        self.measured.store(found, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_counts_until_it_was_measured() {
        let growth = Growth::default();
        assert!(growth.ask(60, 0, 100));
        assert!(!growth.ask(60, 0, 100));
        // Done while memory is being measured: maybe found there, maybe not.
        let found = growth.begin_to_measure();
        growth.done(60);
        growth.measured(found);
        assert!(!growth.ask(60, 0, 100));
        growth.measured(growth.begin_to_measure());
        assert!(!growth.ask(60, 60, 100));
        assert!(growth.ask(40, 60, 100));
    }
}
