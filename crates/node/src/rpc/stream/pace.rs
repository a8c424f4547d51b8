//! How fast may a node send its shards' states?
//!
//! ```text
//!    clear_at                      now: all that was sent is paid for, the next piece may leave
//!   ────┼────────────┼──────────────┼──────────►  time
//!       │            └ SLACK_NANOS ─┘  what is older than this is forgotten
//!
//!      now                       clear_at: no piece leaves before it
//!   ────┼──────────────────────────┼───────────►  time
//!       └─ bytes sent / rate ahead ┘
//! ```
//!
//! A token bucket in one number: the time at which all that was sent is paid for. A sender that
//! wakes up late finds it in the past, and catches up. What lies further back than [`SLACK_NANOS`]
//! is forgotten, so an idle hour gives no hour's bytes to spare. A piece leaves as a whole once the
//! one before is paid for, however long it is; the next then waits longer.
//!
//! Invariants, for pieces of at most `p` bytes:
//! 1. In any time `t` at most `rate × (t + SLACK_NANOS) + p` bytes leave.
//! 2. A sender that always has something to send, and is never later than [`SLACK_NANOS`], sends
//!    `rate × t` or more, but for a nanosecond a piece.
//!
//! It does not know the sender: streams share it in turn. Urgent blocks, without which a shard has
//! no majority, do not count here: they take nothing from the others' rate. It has no clock: the
//! caller passes the time.

use std::num::NonZeroU64;

use replication::BootNanos;

/// How late a sender may wake up and still reach its rate, in nanoseconds.
pub const SLACK_NANOS: u64 = 50_000_000;

const SECOND_NANOS: u128 = 1_000_000_000;

/// A limit of bytes in time, or none.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    rate: Option<NonZeroU64>,
    clear_at: BootNanos,
}

impl Pace {
    /// The pace of a node, in bytes a second; none: no limit.
    pub fn new(bytes_per_second: Option<NonZeroU64>) -> Self {
        Self { rate: bytes_per_second, clear_at: 0 }
    }

    /// When the next piece may be sent, if not now.
    pub fn held_until(&self, now: BootNanos) -> Option<BootNanos> {
        (self.clear_at > now).then_some(self.clear_at)
    }

    /// A piece of `bytes` bytes was sent.
    pub fn sent(&mut self, bytes: usize, now: BootNanos) {
        let Some(rate) = self.rate else { return };
        let nanos = (bytes as u128 * SECOND_NANOS).div_ceil(u128::from(rate.get()));
        // Beyond five hundred years it is all the same.
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        let from = self.clear_at.max(now.saturating_sub(SLACK_NANOS));
        self.clear_at = from.saturating_add(nanos);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: BootNanos = 5_000_000_000;

    fn pace(rate: u64) -> Pace {
        Pace::new(NonZeroU64::new(rate))
    }

    /// What leaves when, of a sender that wakes up late by what it is told each time.
    fn sent(rate: u64, pieces: &[(usize, u64)]) -> Vec<(BootNanos, usize)> {
        let (mut pace, mut now) = (pace(rate), START);
        let piece = |&(bytes, late): &(usize, u64)| {
            if let Some(until) = pace.held_until(now) {
                now = until + late;
            }
            assert_eq!(pace.held_until(now), None);
            pace.sent(bytes, now);
            (now, bytes)
        };
        pieces.iter().map(piece).collect()
    }

    #[test]
    fn sender_without_rate_never_waits() {
        let mut pace = Pace::new(None);
        for _ in 0..1_000 {
            pace.sent(usize::MAX, START);
            assert_eq!(pace.held_until(START), None);
        }
    }

    #[test]
    fn next_piece_waits_for_time_of_long_piece() {
        let mut pace = pace(1 << 20);
        assert_eq!(pace.held_until(START), None);
        pace.sent(64 << 20, START);
        let until = pace.held_until(START).expect("the pace makes the sender wait");
        assert_eq!(until, START - SLACK_NANOS + 64_000_000_000);
        assert_eq!(pace.held_until(until - 1), Some(until));
        assert_eq!(pace.held_until(until), None);
    }

    #[test]
    fn idle_sender_saves_little_rate() {
        let rate = 8 << 20;
        let mut pace = pace(rate);
        pace.sent(1, START);
        let now = START + 3_600_000_000_000;
        let mut bytes = 0;
        while pace.held_until(now).is_none() {
            pace.sent(1 << 10, now);
            bytes += 1 << 10;
        }
        assert!(bytes <= rate / 20 + (2 << 10), "{bytes} bytes at once");
    }

    #[test]
    fn pace_saturates_without_overflow() {
        let mut pace = pace(1);
        pace.sent(usize::MAX, START);
        pace.sent(usize::MAX, u64::MAX);
        assert_eq!(pace.held_until(START), Some(u64::MAX));
    }

    #[test]
    fn sender_that_wakes_now_and_then_reaches_its_rate() {
        for rate in [1u64 << 20, 8 << 20, 64 << 20, 1 << 30] {
            // As a thread that is woken at the next of these ticks only.
            for tick in [1_000_000, 10_000_000, SLACK_NANOS] {
                let (mut pace, mut bytes) = (pace(rate), 0u64);
                let end = START + 10_000_000_000;
                for now in (START..end).step_by(tick as usize) {
                    while pace.held_until(now).is_none() {
                        pace.sent(256 << 10, now);
                        bytes += 256 << 10;
                    }
                }
                let ratio = bytes as f64 / (10 * rate) as f64;
                assert!((0.97..1.04).contains(&ratio), "{ratio} of {rate}, every {tick} ns");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Invariant 1, whenever it wakes up.
        #[test]
        fn no_time_window_exceeds_rate(
            rate in 1u64..2 << 30,
            pieces in prop::collection::vec((0usize..1 << 20, 0u64..200_000_000), 1..80),
        ) {
            let sent = sent(rate, &pieces);
            for first in 0..sent.len() {
                let mut bytes = 0;
                for (at, piece) in &sent[first..] {
                    bytes += *piece as u128;
                    let nanos = u128::from(at - sent[first].0 + SLACK_NANOS);
                    let may = u128::from(rate) * nanos / SECOND_NANOS + (1 << 20);
                    prop_assert!(bytes <= may, "{bytes} bytes, {may} may leave");
                }
            }
        }

        /// Invariant 2.
        #[test]
        fn slightly_late_sender_reaches_its_rate(
            rate in 1u64..2 << 30,
            pieces in prop::collection::vec((0usize..1 << 20, 0u64..=SLACK_NANOS), 1..80),
        ) {
            let sent = sent(rate, &pieces);
            let mut bytes = 0;
            for (at, piece) in &sent {
                // A nanosecond a piece, and a byte that is not whole.
                let nanos = u128::from(at - START).saturating_sub(80 + u128::from(SLACK_NANOS));
                let must = (u128::from(rate) * nanos / SECOND_NANOS).saturating_sub(1);
                prop_assert!(bytes >= must, "{bytes} bytes, {must} should have left");
                bytes += *piece as u128;
            }
        }
    }
}
