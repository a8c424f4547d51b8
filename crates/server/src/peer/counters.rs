//! Counters of each peer, for metrics. They are relaxed atomics and outlive reconnects.

use crate::counters::Counter;

/// Counters of one peer, since this process first heard of it.
#[derive(Debug, Default)]
pub struct PeerCounters {
    /// Frames received, without the links' own.
    pub frames_in: Counter,
    /// Bytes received.
    pub bytes_in: Counter,
    /// Frames taken for sending, without the links' own.
    pub frames_out: Counter,
    /// Bytes written to the socket.
    pub bytes_out: Counter,
    /// Frames not taken because the outbox was full.
    pub drops: Counter,
    /// Messages that the peer does not take, being too long for its version …
    pub too_long: Counter,
    /// … when there last was one, in ms since 1970; 0: never …
    pub too_long_millis: Counter,
    /// … and when that was last logged.
    pub too_long_logged_millis: Counter,
    /// Links made; all but the first are reconnects.
    pub links: Counter,
    /// Attempts to dial it that failed.
    pub dials_failed: Counter,
    /// Time from the last ping to its answer, in nanoseconds.
    pub rtt_nanos: Counter,
    /// How far its time is ahead of this machine's wall clock, in ms (two's complement) …
    pub ahead_millis: Counter,
    /// … and how often it has sent its time.
    pub time_reports: Counter,
}
