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

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums that only rise, in bytes. See the front page of this module.
#[derive(Debug, Default)]
pub struct Growth {
    asked: AtomicU64,
    done: AtomicU64,
    measured: AtomicU64,
}

/// Lets a command add some bytes, until it is dropped: when the command is answered, done or not.
/// The default lets it add none.
#[derive(Debug, Default)]
#[must_use = "what it reserves is given back when it is dropped"]
pub struct Reservation(Option<(Arc<Growth>, u64)>);

impl Reservation {
    /// Whether it lets its command add nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some((growth, bytes)) = &self.0 {
            growth.done.fetch_add(*bytes, Ordering::AcqRel);
        }
    }
}

impl Growth {
    /// Lets a command add `bytes` if they fit below `bytes_max`; `used_bytes` is the last
    /// measurement.
    pub fn ask(
        self: &Arc<Self>,
        bytes: u64,
        used_bytes: u64,
        bytes_max: u64,
    ) -> Option<Reservation> {
        // In this order: what is measured is asked already.
        let measured = self.measured.load(Ordering::Acquire);
        let counts = self.asked.load(Ordering::Acquire).saturating_sub(measured);
        let fits = used_bytes.saturating_add(counts).saturating_add(bytes) <= bytes_max;
        fits.then(|| {
            self.asked.fetch_add(bytes, Ordering::AcqRel);
            Reservation(Some((self.clone(), bytes)))
        })
    }

    /// What commands under way may add.
    #[cfg(test)]
    pub fn reserved_bytes(&self) -> u64 {
        self.asked.load(Ordering::Acquire) - self.done.load(Ordering::Acquire)
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
        let growth = Arc::new(Growth::default());
        let fits = |bytes, used_bytes| growth.ask(bytes, used_bytes, 100);
        let reservation = fits(60, 0);
        assert!(reservation.is_some() && fits(60, 0).is_none());
        // Done while memory is being measured: maybe found there, maybe not.
        let found = growth.begin_to_measure();
        drop(reservation);
        growth.measured(found);
        assert!(fits(60, 0).is_none());
        growth.measured(growth.begin_to_measure());
        assert!(fits(60, 60).is_none() && fits(40, 60).is_some());
    }
}
