//! How far old versions may be collected: the corrected rule (ALGORITHMS 8.3, SAFETY G14).
//!
//! Per key, the newest version at or below the safe point and all above it stay; the rest may go.
//! This module only finds the point; the storage engine does the collecting.

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
}
