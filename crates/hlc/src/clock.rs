//! The node's hybrid logical clock.

use keyspace::Timestamp;

use crate::sync::{AtomicU64, Ordering};

/// One per node, shared by its executors and connections. The driver gives it physical time; it
/// reads no clock itself (SAFETY G12).
#[derive(Debug, Default)]
pub struct Clock {
    /// The newest timestamp given to an entry or used by a read.
    last: AtomicU64,
    /// The newest physical time it was told, in milliseconds since 1970.
    physical_millis: AtomicU64,
}

impl Clock {
    /// A clock that starts above `floor`: the highest timestamp in the node's logs (G12).
    pub fn new(floor: Timestamp) -> Self {
        Self { last: AtomicU64::new(floor.0), physical_millis: AtomicU64::new(0) }
    }

    /// Tells the clock that physical time has reached `millis` since 1970. Going back is ignored.
    pub fn observe_millis(&self, millis: u64) {
        if self.physical_millis.load(Ordering::Acquire) < millis {
            self.physical_millis.fetch_max(millis, Ordering::AcqRel);
            self.observe(Timestamp::from_millis(millis));
        }
    }

    /// The newest physical time it was given, in milliseconds since 1970.
    pub fn physical_millis(&self) -> u64 {
        self.physical_millis.load(Ordering::Acquire)
    }

    /// Raises the clock to at least `seen`.
    pub fn observe(&self, seen: Timestamp) {
        // Mostly a plain load: physical time moves once a millisecond.
        if self.last.load(Ordering::Acquire) < seen.0 {
            self.last.fetch_max(seen.0, Ordering::AcqRel);
        }
    }

    /// The time of a read: everything timestamped from now on is later (invariant 1), so an answer
    /// given at this time stays true.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.last.load(Ordering::Acquire))
    }

    /// Whether somebody else may raise the clock to `at`: to a time that it has reached anyway, or
    /// at most `ahead_ms` ahead of physical time. Not of the clock itself, which each such request
    /// raises: a row of them would drive it as far ahead as one likes.
    pub fn may_reach(&self, at: Timestamp, ahead_ms: u64) -> bool {
        at <= self.now() || at.millis() <= self.physical_millis().saturating_add(ahead_ms)
    }

    /// A new timestamp, above every other taken or read.
    pub fn tick(&self) -> Timestamp {
        Timestamp(self.last.fetch_add(1, Ordering::AcqRel) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_times_ahead_raises_it_no_further_than_one() {
        let clock = Clock::new(Timestamp::ZERO);
        clock.observe_millis(10_000);
        let mut at = 10_000;
        while clock.may_reach(Timestamp::from_millis(at + 90), 500) && at < 20_000 {
            at += 90;
            clock.observe(Timestamp::from_millis(at));
        }
        assert!((10_400..=10_500).contains(&at), "{at}");
        assert!(clock.may_reach(clock.now(), 0), "what it has reached raises nothing");
        clock.observe(Timestamp::from_millis(15_000));
        assert!(clock.may_reach(Timestamp::from_millis(14_000), 500));
        assert!(!clock.may_reach(Timestamp::from_millis(15_001), 500));
    }

    #[test]
    fn rises_and_never_returns() {
        let clock = Clock::new(Timestamp(5));
        clock.observe_millis(3);
        let first = clock.tick();
        assert!(first > Timestamp::from_millis(3));
        clock.observe_millis(1);
        assert!(clock.now() >= first);
        assert!(clock.tick() > first);
    }
}
