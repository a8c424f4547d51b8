//! How much scripts may write to the node's log (`redis.log`).
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | lines of all scripts in a second | [`LINES_MAX`] | left out; a line says how many |
//! | bytes of a line | [`LINE_BYTES_MAX`] | the rest is left out, as by Redis |

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines of all scripts in a second.
pub const LINES_MAX: u64 = 100;
/// Bytes of a line.
pub const LINE_BYTES_MAX: usize = 1024;

/// Counts the lines of scripts.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    began: Option<Instant>,
    lines: u64,
}

impl LogLimit {
    /// Whether one more line may be written.
    pub fn allows(&self, now: Instant) -> bool {
        let mut second = self.0.lock();
        second.began.get_or_insert(now);
        second.lines += 1;
        second.lines <= LINES_MAX
    }

    /// If a second is over, how many of its lines were left out.
    pub fn end_second(&self, now: Instant) -> u64 {
        let mut second = self.0.lock();
        let is_over = |began| now.saturating_duration_since(began) >= Duration::from_secs(1);
        if !second.began.is_some_and(is_over) {
            return 0;
        }
        std::mem::take(&mut *second).lines.saturating_sub(LINES_MAX)
    }

    /// If a second is over, says how many lines were left out.
    pub fn tick(&self, now: Instant) {
        let left_out = self.end_second(now);
        if left_out > 0 {
            tracing::warn!(
                "{left_out} lines of scripts were left out here: all scripts together write at \
                 most {LINES_MAX} a second"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_counted_until_the_second_is_over() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        let written = (0..250).filter(|_| limit.allows(start)).count() as u64;
        assert_eq!(written, LINES_MAX);
        assert_eq!(limit.end_second(start + Duration::from_millis(999)), 0);
        let later = start + Duration::from_secs(1);
        assert_eq!(limit.end_second(later), 150);
        assert!(limit.allows(later));
        assert_eq!(limit.end_second(later + Duration::from_secs(1)), 0);
    }
}
