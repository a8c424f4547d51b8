//! A node's physical time, from its wall clock and those of its peers (SAFETY G12).
//!
//! ```text
//!   wall clock, read once at start ─┐
//!   monotonic time since then ──────┴─► own ──(+ correction)──► physical time
//!                                                 ▲ moves towards its aim by 1 % of what passes
//!   log far ahead of the wall clock: begins there, aim 0
//!   median of all clocks far away:   aim there; taken at once while the node has just started
//! ```
//!
//! The node reads the wall clock at start only, so its later steps move nothing. A log may hold
//! timestamps above the wall clock. A little is usual, because horizons are logged ahead: hybrid
//! timestamps then count on until the wall clock has caught up. More means that the wall clock is
//! or was wrong. Physical time then begins at the newest timestamp, and runs slower by a hundredth
//! until both agree, so that expiry goes on.

use keyspace::Timestamp;

use crate::HORIZON_AHEAD_MILLIS;

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct Physical {
    wall_millis: u64,
    /// When the correction began to move, in milliseconds since the start …
    since_millis: u64,
    /// … from here …
    from_millis: i64,
    /// … to here.
    target_millis: i64,
    ahead_millis: u64,
}

/// What a log may be ahead of the wall clock without anything being wrong.
pub const AHEAD_MILLIS_MAX: u64 = 2 * HORIZON_AHEAD_MILLIS;
/// A correction moves by one part in so many of the time that passes.
const SLEW: u64 = 100;
/// A node that has started so lately has promised little by its own clock: it takes its peers'
/// median at once.
pub const FRESH_MILLIS: u64 = 10_000;

impl Physical {
    /// Time from now on, when the wall clock shows `wall_millis` and the newest timestamp in the
    /// log, promises to readers included, is `newest`.
    pub fn start(wall_millis: u64, newest: Timestamp) -> Self {
        let ahead = newest.millis().saturating_sub(wall_millis);
        let ahead_millis = if ahead > AHEAD_MILLIS_MAX { ahead } else { 0 };
        let from_millis = ahead_millis.cast_signed();
        Self { wall_millis, since_millis: 0, from_millis, target_millis: 0, ahead_millis }
    }

    /// Milliseconds since 1970, at `elapsed_millis` after the start.
    pub fn millis(&self, elapsed_millis: u64) -> u64 {
        self.uncorrected_millis(elapsed_millis)
            .saturating_add_signed(self.correction(elapsed_millis))
    }

    /// The same without any correction: as the wall clock would show it, were it never set.
    pub fn uncorrected_millis(&self, elapsed_millis: u64) -> u64 {
        self.wall_millis + elapsed_millis
    }

    /// How far physical time is from the own clock's, in ms.
    pub fn correction(&self, elapsed_millis: u64) -> i64 {
        let passed = elapsed_millis.saturating_sub(self.since_millis);
        let most = (passed / SLEW).cast_signed();
        let way = self.target_millis - self.from_millis;
        self.from_millis + way.clamp(-most, most)
    }

    /// The clocks of all, this node's among them, have this median, relative to its own clock's: if
    /// that is more than `offset_max_millis` away, physical time goes there, at once in a node that
    /// has just started, else slowly; if not, to the own clock's. Whether it goes elsewhere than
    /// before.
    pub fn adjust(
        &mut self,
        elapsed_millis: u64,
        median_millis: i64,
        offset_max_millis: u64,
    ) -> bool {
        let is_far = median_millis.unsigned_abs() > offset_max_millis;
        let aim = if is_far { median_millis } else { 0 };
        // What is within half the limit is measured, not meant.
        if aim.abs_diff(self.target_millis) <= offset_max_millis / 2 {
            return false;
        }
        let is_fresh = elapsed_millis < FRESH_MILLIS && self.ahead_millis == 0;
        self.from_millis = if is_fresh { aim } else { self.correction(elapsed_millis) };
        (self.since_millis, self.target_millis) = (elapsed_millis, aim);
        true
    }

    /// How far it was ahead of the wall clock at start.
    pub fn ahead_millis(&self) -> u64 {
        self.ahead_millis
    }
}

/// The median of the peers' clocks and the own one, relative to the own one (0); of two in the
/// middle the one nearer to it, so that one peer alone moves nothing.
pub fn median_offset(peers: &[i64]) -> i64 {
    let mut all: Vec<i64> = peers.iter().copied().chain([0]).collect();
    all.sort_unstable();
    let middle = [all[(all.len() - 1) / 2], all[all.len() / 2]];
    middle.into_iter().min_by_key(|offset| offset.unsigned_abs()).unwrap_or(0)
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

    #[test]
    fn the_median_is_taken_at_once_by_a_node_that_has_just_started() {
        let hour = 3_600_000;
        let mut time = Physical::start(10 * 3_600_000, Timestamp::ZERO);
        assert!(time.adjust(500, hour, 500));
        assert_eq!(time.millis(500), 11 * 3_600_000 + 500);
        // What is measured a little differently changes nothing.
        assert!(!time.adjust(1_000, hour + 200, 500));
        assert_eq!(time.correction(60_000), hour);
    }

    #[test]
    fn correction_after_start_moves_by_one_percent() {
        for offset in [30_000i64, -30_000] {
            let mut time = Physical::start(1_000_000, Timestamp::ZERO);
            assert!(!time.adjust(50_000, 499, 500));
            assert!(time.adjust(100_000, offset, 500));
            assert_eq!(time.correction(100_000), 0);
            let mut last = time.millis(100_000);
            for elapsed in (110_000..4_000_000).step_by(10_000) {
                let now = time.millis(elapsed);
                assert!((9_900..=10_100).contains(&(now - last)), "{last} to {now}");
                last = now;
            }
            assert_eq!(time.correction(4_000_000), offset);
            // The clocks agree again: back, as slowly.
            assert!(time.adjust(4_000_000, 0, 500));
            assert_eq!(time.correction(4_001_000), offset - offset.signum() * 10);
        }
    }

    #[test]
    fn one_clock_among_three_is_outvoted() {
        assert_eq!(median_offset(&[]), 0);
        assert_eq!(median_offset(&[3_600_000]), 0, "with two nobody knows");
        assert_eq!(median_offset(&[3_600_000, 20]), 20);
        assert_eq!(median_offset(&[3_600_000, 3_599_000]), 3_599_000);
        assert_eq!(median_offset(&[-70, 5, 3_600_000, 10]), 5);
    }
}
