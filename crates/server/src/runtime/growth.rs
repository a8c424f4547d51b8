//! Memory that commands under way are about to take, beyond the bytes of their requests.
//!
//! Maintenance measures memory every now and then, and writes are refused when the limit is
//! reached. Between two measurements commands add no more bytes than clients send, but for a few:
//! SETRANGE makes a value as long as its offset says, COPY one as long as another. A thousand of
//! them fit into one packet. So these ask here first, and count until a measurement includes them:
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
    /// Lets a command add `bytes` if they fit below `bytes_max`; `used_bytes` is the last
    /// measurement. After `true` the caller must call [`Self::done`], be the command done or not.
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

    /// Commands that were admitted for `bytes` in all are answered.
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
    fn reserved_growth_counts_until_measured() {
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
