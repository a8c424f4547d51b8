//! How far old versions may be collected: the corrected rule (ALGORITHMS 8.3, SAFETY G14).
//!
//! Per key, the newest version at or below the safe point and all above it stay; the rest may go.
//! This module only finds the point; the storage engine does the collecting.
//!
//! ```text
//!   node with old versions: target ──► leader with the keyspace's record: granted ──► its shards
//! ```

use keyspace::Timestamp;

/// What a keyspace's safe point may rise to: `now` less the retention, but never beyond `now`, nor
/// back below `current`. With `pressed` (old versions outgrew their share of the memory) the point
/// may rise to it even within the retention.
pub fn target(
    current: Timestamp,
    now: Timestamp,
    retention_millis: u64,
    pressed: Option<Timestamp>,
) -> Timestamp {
    let aged = Timestamp::from_millis(now.millis().saturating_sub(retention_millis));
    aged.max(pressed.unwrap_or(Timestamp::ZERO)).min(now).max(current)
}

/// Safe points rise by at least this part of the retention at a time, so that they do not fill
/// the log.
const STEPS: u64 = 16;
/// … but not more often than this.
const STEP_MILLIS_MIN: u64 = 100;

/// By how many ms a safe point rises at a time, unless old versions take too much memory.
pub fn step_millis(retention_millis: u64) -> u64 {
    (retention_millis / STEPS).max(STEP_MILLIS_MIN)
}

/// The safe point that the system shard's leader grants to a request to rise from `current` to
/// `to`. It judges by its own clock and by the retention, so a clock far ahead collects nothing too
/// early (SAFETY G12). None: the rise is not worth an entry.
pub fn granted_safe_point(
    current: Timestamp,
    now: Timestamp,
    retention_millis: u64,
    to: Timestamp,
    is_pressed: bool,
) -> Option<Timestamp> {
    if is_pressed && to <= now {
        return (to > current).then_some(to);
    }
    let (limit, step) = match is_pressed {
        true => (now, STEP_MILLIS_MIN),
        false => {
            (target(Timestamp::ZERO, now, retention_millis, None), step_millis(retention_millis))
        }
    };
    let to = to.min(limit);
    (to.millis() >= current.millis().saturating_add(step)).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_by_age_or_pressure_and_never_falls() {
        let ms = Timestamp::from_millis;
        assert_eq!(target(ms(0), ms(100), 60, None), ms(40));
        assert_eq!(target(ms(50), ms(100), 60, None), ms(50));
        assert_eq!(target(ms(0), ms(100), 60, Some(ms(90))), ms(90));
        assert_eq!(target(ms(0), ms(100), 60, Some(ms(900))), ms(100));
    }

    /// SAFETY G12: who wants it raised may have any clock.
    #[test]
    fn slower_clock_does_not_release_retained_versions() {
        let ms = Timestamp::from_millis;
        let (now, hour) = (ms(10_000_000), ms(13_600_000));
        assert_eq!(granted_safe_point(ms(0), now, 600_000, hour, false), Some(ms(9_400_000)));
        assert_eq!(
            granted_safe_point(ms(0), now, 600_000, ms(9_000_000), false),
            Some(ms(9_000_000))
        );
        assert_eq!(granted_safe_point(ms(0), now, 600_000, hour, true), Some(now));
        // Not worth an entry: a sixteenth of the retention is.
        let (small, enough) = (ms(9_400_000 - 37_499), ms(9_400_000 - 37_500));
        assert_eq!(granted_safe_point(small, now, 600_000, hour, false), None);
        assert_eq!(granted_safe_point(enough, now, 600_000, hour, false), Some(ms(9_400_000)));
        assert_eq!(granted_safe_point(now, now, 600_000, hour, true), None);
    }
}
