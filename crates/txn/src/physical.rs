//! A node's physical time, from its wall clock.

use keyspace::Timestamp;

use crate::HORIZON_AHEAD_MILLIS;

/// The wall clock as it was at start, plus what has passed since by a clock that never steps
/// (SAFETY G12).
///
/// A log may hold timestamps above the wall clock. A little is usual, for horizons are logged
/// ahead: hybrid timestamps then count on from there until the wall clock has caught up. More means
/// that the wall clock is wrong, now or before: physical time begins at the newest timestamp, and
/// runs slower by a hundredth until both agree, so that expiry goes on.
#[derive(Clone, Copy, Debug)]
pub struct Physical {
    wall_millis: u64,
    ahead_millis: u64,
}

/// What a log may be ahead of the wall clock without anything being wrong.
const AHEAD_MILLIS_MAX: u64 = 2 * HORIZON_AHEAD_MILLIS;
/// While ahead, time is slowed by one part in so many.
const SLEW: u64 = 100;

impl Physical {
    /// Time from now on, when the wall clock shows `wall_millis` and the newest timestamp in the
    /// log, promises to readers included, is `newest`.
    pub fn start(wall_millis: u64, newest: Timestamp) -> Self {
        let ahead = newest.millis().saturating_sub(wall_millis);
        let ahead_millis = if ahead > AHEAD_MILLIS_MAX { ahead } else { 0 };
        Self { wall_millis, ahead_millis }
    }

    /// Milliseconds since 1970, when so many have passed since the start.
    pub fn millis(&self, elapsed_millis: u64) -> u64 {
        let ahead = self.ahead_millis.saturating_sub(elapsed_millis / SLEW);
        self.wall_millis + elapsed_millis + ahead
    }

    /// How far it was ahead of the wall clock at start.
    pub fn ahead_millis(&self) -> u64 {
        self.ahead_millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A horizon ahead of the clock at every restart must not add up.
    #[test]
    fn restarts_leave_the_wall_clock_alone() {
        let mut newest = Timestamp::ZERO;
        for restart in 0..20 {
            let wall = 1_000_000 + restart * 50;
            let time = Physical::start(wall, newest);
            assert_eq!(time.millis(7), wall + 7);
            // A read above the horizon has one logged ahead of it.
            if time.millis(7) > newest.millis() {
                newest = Timestamp::from_millis(time.millis(7) + HORIZON_AHEAD_MILLIS);
            }
        }
    }

    #[test]
    fn a_wall_clock_far_behind_is_met_slowly() {
        let time = Physical::start(1_000, Timestamp::from_millis(61_000));
        assert_eq!(time.millis(0), 61_000);
        let mut last = 0;
        for elapsed in (0..7_000_000).step_by(99) {
            let now = time.millis(elapsed);
            assert!(now > last, "time stands still");
            last = now;
        }
        assert_eq!(time.millis(7_000_000), 7_001_000);
    }
}
