//! Accounts for the memory of data, and admits commands that add to it.
//!
//! ```text
//!   maintenance measures ──► used, old versions ──► above `memory_max`: growing writes are refused
//!   commands that may add a lot ──► `growth`: counted until a measurement has seen them
//!   entries kept for lagging replicas ──► `log_retained`: a budget of their own
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use storage::engine::Usage;

use super::growth::{Growth, Reservation};
use super::log_retention::RaftLogRetention;

/// Old versions may take this share of `memory_max`; beyond it they go before their retention.
const OLD_SHARE: u64 = 10;

/// See the front page of this module.
#[derive(Debug)]
pub struct Memory {
    bytes_max: u64,
    is_full: AtomicBool,
    used_bytes: AtomicU64,
    old_bytes: AtomicU64,
    growth: Arc<Growth>,
    /// Log entries retained for lagging replicas.
    pub log_retained: RaftLogRetention,
}

impl Memory {
    /// Of a node whose data may take so much.
    pub fn new(bytes_max: u64) -> Self {
        let (is_full, used_bytes, old_bytes) = Default::default();
        let (growth, log_retained) = Default::default();
        Self { bytes_max, is_full, used_bytes, old_bytes, growth, log_retained }
    }

    /// Memory that data may take.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Whether data takes more, so that writes are refused.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Bytes that data takes, as last measured.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Of these, old versions.
    pub fn old_bytes(&self) -> u64 {
        self.old_bytes.load(Ordering::Relaxed)
    }

    /// What single commands are about to add.
    pub fn growth(&self) -> &Growth {
        &self.growth
    }

    /// Lets a command add `bytes` if they fit.
    #[inline]
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        match bytes {
            0 => Some(Reservation::default()),
            _ => self.growth.ask(bytes, self.used_bytes(), self.bytes_max),
        }
    }

    /// Takes what was measured. Whether old versions take more than their share, or all data more
    /// than it may.
    pub(super) fn measured(&self, usage: &Usage) -> bool {
        let used = sum_bytes(usage);
        self.used_bytes.store(used, Ordering::Relaxed);
        self.old_bytes.store(usage.old_bytes, Ordering::Relaxed);
        self.is_full.store(used > self.bytes_max, Ordering::Relaxed);
        usage.old_bytes > self.bytes_max / OLD_SHARE || used > self.bytes_max
    }
}

/// All that shards take.
pub(super) fn sum_bytes(usage: &Usage) -> u64 {
    usage.live_bytes + usage.old_bytes + usage.index_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_full_above_its_limit_and_pressed_by_many_old_versions() {
        let memory = Memory::new(1_000);
        let usage = Usage { live_bytes: 500, old_bytes: 100, index_bytes: 400, ..Usage::default() };
        assert!(!memory.measured(&usage) && !memory.is_full());
        assert_eq!((memory.used_bytes(), memory.old_bytes()), (1_000, 100));
        let old = Usage { old_bytes: 101, live_bytes: 499, ..usage };
        assert!(memory.measured(&old) && !memory.is_full());
        let full = Usage { live_bytes: 501, ..usage };
        assert!(memory.measured(&full) && memory.is_full());
    }

    #[test]
    fn memory_of_commands_counts_until_measured() {
        let memory = Memory::new(1_000);
        let usage = Usage { live_bytes: 900, ..Usage::default() };
        memory.measured(&usage);
        let reservation = memory.reserve(60);
        assert!(memory.reserve(0).is_some() && reservation.is_some());
        assert!(memory.reserve(60).is_none());
        drop(reservation);
        memory.growth().measured(memory.growth().begin_to_measure());
        assert!(memory.reserve(60).is_some());
    }
}
