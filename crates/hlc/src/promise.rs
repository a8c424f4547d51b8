//! One shard's promises to readers of the past, and the timestamps in flight (SAFETY G2).

use std::collections::VecDeque;
use std::sync::Arc;

use keyspace::Timestamp;

use crate::Clock;
use crate::sync::{AtomicU64, Ordering};

/// How far ahead of physical time a new horizon is logged.
pub const HORIZON_AHEAD_MILLIS: u64 = 1_000;

/// How far ahead of the reader's time at least, if that is later than physical time. It is small,
/// because the next leader begins at the horizon: each change of leader, split and merge would push
/// time on by as much. It is not zero, because the clock of a reader's node may be ahead of the
/// leader's. Then its reads have a horizon logged once in so many milliseconds.
pub const HORIZON_STEP_MILLIS: u64 = 100;

/// From when on a shard's past may still change, for readers outside the executor. On a leader it
/// lies above every timestamp of an applied entry, and at or below all that are in flight;
/// [`Timestamp::MAX`] if none are. On a follower it lies above the time that the leader has
/// reported as settled in what is applied here; zero if it has reported none.
#[derive(Debug, Default)]
pub struct UnsettledFloor(AtomicU64);

impl UnsettledFloor {
    /// A reader that has read the clock before, and holds the shard's read guard, learns here of
    /// every entry that is not applied and whose timestamp is not above that reading.
    pub fn from(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Acquire))
    }

    fn set(&self, from: Timestamp) {
        self.0.store(from.0, Ordering::Release);
    }
}

/// A leader's promises and its timestamps in flight. Only the executor changes them, so that taking
/// a timestamp, publishing it and raising the promise are one critical section.
#[derive(Debug, Default)]
pub struct ReadPromise {
    promised: Timestamp,
    in_flight: VecDeque<(u64, Timestamp)>,
    unsettled: Arc<UnsettledFloor>,
}

/// What a read at a timestamp must do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotRead {
    /// Read: nothing at or below its timestamp can still appear.
    Now,
    /// Read when the entry of this index is applied.
    AfterIndex(u64),
    /// Have this horizon logged, and ask again when it is applied.
    NeedsHorizon(Timestamp),
}

impl ReadPromise {
    /// One that tells `unsettled`.
    pub fn new(unsettled: Arc<UnsettledFloor>) -> Self {
        Self { unsettled, ..Self::default() }
    }

    /// Takes a timestamp for the entry that is proposed next and publishes it as in flight.
    pub fn take(&mut self, clock: &Clock, index: u64) -> Timestamp {
        if self.in_flight.is_empty() {
            // Before the clock moves: who reads a time at or above the new timestamp sees this.
            self.unsettled.set(clock.now());
        }
        let timestamp = clock.tick();
        assert!(timestamp > self.promised, "invariant 3: a timestamp at or below the promise");
        self.in_flight.push_back((index, timestamp));
        timestamp
    }

    /// The entry of `index` and all before it are applied, and readers see it.
    pub fn applied(&mut self, index: u64) {
        let before = self.in_flight.len();
        while self.in_flight.front().is_some_and(|(i, _)| *i <= index) {
            self.in_flight.pop_front();
        }
        if self.in_flight.len() < before {
            self.publish();
        }
    }

    fn publish(&self) {
        let oldest = self.in_flight.front().map(|(_, timestamp)| *timestamp);
        self.unsettled.set(oldest.unwrap_or(Timestamp::MAX));
    }

    /// Forgets all that is in flight: this replica no longer leads, and does not know it any more.
    pub fn clear(&mut self) {
        self.in_flight.clear();
        self.unsettled.set(Timestamp::ZERO);
    }

    /// This replica leads now: it has applied all entries that were ever in flight, but its own.
    pub fn lead(&mut self) {
        self.publish();
    }

    /// On a follower: the leader has reported that all entries at or below `at` are applied here.
    pub fn settle_up_to(&mut self, at: Timestamp) {
        self.unsettled.set(self.unsettled.from().max(Timestamp(at.0.saturating_add(1))));
    }

    /// Asks to read at `at`. If that may be, the promise is raised to it first, and the clock
    /// above it, so that no later entry can lie below.
    pub fn read_at(&mut self, at: Timestamp, horizon: Timestamp, clock: &Clock) -> SnapshotRead {
        if at > horizon {
            let ahead = clock.physical_millis() + HORIZON_AHEAD_MILLIS;
            let ahead = ahead.max(at.millis() + HORIZON_STEP_MILLIS);
            return SnapshotRead::NeedsHorizon(Timestamp::from_millis(ahead));
        }
        clock.observe(at);
        self.promised = self.promised.max(at);
        match self.in_flight.iter().rev().find(|(_, timestamp)| *timestamp <= at) {
            Some((index, _)) => SnapshotRead::AfterIndex(*index),
            None => SnapshotRead::Now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G2's schedule: a write has its timestamp and is not applied; a reader above it must wait.
    #[test]
    fn a_reader_waits_for_what_is_in_flight_below_it() {
        let clock = Clock::new(Timestamp(9));
        let mut promise = ReadPromise::default();
        assert_eq!(promise.take(&clock, 1), Timestamp(10));
        let horizon = Timestamp(100);
        let read = promise.read_at(Timestamp(12), horizon, &clock);
        assert_eq!(read, SnapshotRead::AfterIndex(1));
        assert!(promise.unsettled.from() <= Timestamp(10));
        promise.applied(1);
        assert_eq!(promise.unsettled.from(), Timestamp::MAX);
        assert_eq!(promise.read_at(Timestamp(12), horizon, &clock), SnapshotRead::Now);
        assert!(promise.take(&clock, 2) > Timestamp(12));
    }

    #[test]
    fn a_promise_needs_a_logged_horizon() {
        let clock = Clock::default();
        clock.observe_millis(5);
        let mut promise = ReadPromise::default();
        let read = promise.read_at(Timestamp::from_millis(5), Timestamp::ZERO, &clock);
        let ahead = Timestamp::from_millis(5 + HORIZON_AHEAD_MILLIS);
        assert_eq!(read, SnapshotRead::NeedsHorizon(ahead));
    }

    /// A hundred leaders one after the other, in the same millisecond of physical time.
    #[test]
    fn leaders_do_not_push_time_on() {
        let mut horizon = Timestamp::ZERO;
        for _ in 0..100 {
            let (clock, mut promise) = (Clock::default(), ReadPromise::default());
            clock.observe_millis(5);
            clock.observe(horizon);
            match promise.read_at(clock.tick(), horizon, &clock) {
                SnapshotRead::NeedsHorizon(ahead) => horizon = horizon.max(ahead),
                read => assert_eq!(read, SnapshotRead::Now),
            }
        }
        assert!(
            horizon.millis() <= 5 + HORIZON_AHEAD_MILLIS + 100 * HORIZON_STEP_MILLIS,
            "{horizon:?}"
        );
    }
}
