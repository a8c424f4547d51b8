//! The node's clock, compared with its peers' clocks (SAFETY G12).
//!
//! Physical time is the wall clock at the start plus monotonic time, unless the log was far ahead
//! of that, or the peers' clocks are far away ([`Physical`]). The hybrid clock counts on from it.
//!
//! Every answer to a link's ping brings the peer's time; half the round trip is added. Once a
//! second the median of all, this node's own clock among them, is compared with the own one:
//!
//! ```text
//!   median more than clock_offset_max_ms away ─► physical time goes there (hlc::Physical), health
//!        └─ and physical time is still that far ─► this node hands its leaderships away
//!   a peer's time that far from the median     ─► nothing is handed to it
//!   the wall clock has stepped                 ─► a line in the log; physical time goes on without
//! ```
//!
//! No promise to clients depends on equal clocks: clocks that differ make expiry early or late, and
//! snapshot reads differ from real time by as much.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use hlc::{Clock, Physical, median_offset};
use keyspace::{NodeId, Timestamp};
use node::replica::read::ReadTime;
use replication::BootNanos;

use super::peers::Peers;
use crate::utc::utc;

/// See the front page of this module.
pub struct NodeClock {
    hybrid: Arc<Clock>,
    started: Instant,
    /// How long a millisecond of the wall clock had begun then.
    begun: Duration,
    physical: ArcSwap<Physical>,
    /// How far clocks may be apart, in ms.
    offset_max: u64,
    /// The earliest time in the log that was far ahead of the wall clock at the start.
    ahead_from: Option<Timestamp>,
    /// How far the wall clock has been stepped since the start, in ms.
    stepped: AtomicI64,
    /// The median, relative to this node's own clock, in ms.
    median: AtomicI64,
    /// … and relative to its physical time.
    away: AtomicI64,
}

impl NodeClock {
    /// A clock that starts now and is later than `highest`, the highest timestamp in the data. It
    /// may be `offset_max` ms away from its peers'.
    pub fn start(highest: Timestamp, offset_max: u64, ahead_from: Option<Timestamp>) -> Self {
        Self::start_at(wall(), highest, offset_max, ahead_from)
    }

    /// As [`Self::start`], if the wall clock stands so now.
    fn start_at(
        wall: Duration,
        highest: Timestamp,
        offset_max: u64,
        ahead_from: Option<Timestamp>,
    ) -> Self {
        let started = Instant::now();
        let begun = Duration::from_nanos(u64::from(wall.subsec_nanos() % 1_000_000));
        let physical = Physical::start(wall.as_millis() as u64, highest);
        let (physical, hybrid) = (ArcSwap::from_pointee(physical), Arc::new(Clock::new(highest)));
        let (stepped, median, away) = Default::default();
        let clock = Self {
            hybrid,
            started,
            begun,
            physical,
            offset_max,
            ahead_from,
            stepped,
            median,
            away,
        };
        clock.observe();
        clock
    }

    /// The hybrid clock, for the executors.
    pub(super) fn hybrid(&self) -> &Arc<Clock> {
        &self.hybrid
    }

    /// Physical time, in milliseconds since 1970.
    pub fn millis(&self) -> u64 {
        self.physical.load().millis(self.elapsed_millis())
    }

    /// Physical time when the process started.
    pub fn started_millis(&self) -> u64 {
        self.physical.load().millis(0)
    }

    /// How long the process runs.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn elapsed_millis(&self) -> u64 {
        // So that it is a millisecond later when it is by the wall clock: a client that reckons
        // with that must not find a value to live longer than it has asked for.
        (self.begun + self.elapsed()).as_millis() as u64
    }

    /// Moves the hybrid clock on to the physical time.
    pub fn observe(&self) {
        self.hybrid.observe_millis(self.millis());
    }

    /// Moves the hybrid clock on, and reads it: the time of reads from here on.
    pub fn now(&self) -> Timestamp {
        self.observe();
        self.hybrid.now()
    }

    /// Reads the hybrid clock without moving it on.
    pub fn last(&self) -> Timestamp {
        self.hybrid.now()
    }

    /// Whether a client may raise it to `at`: see [`Clock::may_reach`].
    pub fn may_reach(&self, at: Timestamp, ahead_ms: u64) -> bool {
        self.observe();
        self.hybrid.may_reach(at, ahead_ms)
    }

    /// A timestamp that nothing else has.
    pub fn tick(&self) -> Timestamp {
        self.hybrid.tick()
    }

    /// As [`Self::now`], on both clocks: for reads whose requests have come.
    pub fn moment(&self) -> ReadTime {
        ReadTime { time: self.now(), boot: boot_nanos() }
    }

    /// How far this node's own clock is ahead of the median of all, if that is more than it may be.
    pub fn wrong_millis(&self) -> Option<i64> {
        self.beyond(self.median.load(Ordering::Relaxed)).map(|median| -median)
    }

    /// The same of its physical time: that cannot be trusted to lead.
    pub fn is_far_off(&self) -> bool {
        self.beyond(self.away.load(Ordering::Relaxed)).is_some()
    }

    /// How far the median is ahead of this node's physical time, in ms.
    pub fn median_offset_millis(&self) -> i64 {
        self.away.load(Ordering::Relaxed)
    }

    fn beyond(&self, offset: i64) -> Option<i64> {
        Some(offset).filter(|offset| offset.unsigned_abs() > self.offset_max)
    }

    /// The warning, for people, if time here goes on from data that was far ahead of this node's
    /// clock at the start. None once both agree again. `is_member`: other nodes may have led.
    pub(super) fn why_ahead(&self, is_member: bool) -> Option<String> {
        let time = self.physical.load();
        let elapsed = self.elapsed_millis();
        let ahead = time.correction(elapsed);
        if time.ahead_millis() == 0 || ahead <= self.offset_max.cast_signed() {
            return None;
        }
        let start = time.uncorrected_millis(0);
        let from = match self.ahead_from {
            Some(from) => format!("wrote from {} on, as that clock showed it", utc(from.millis())),
            None => "wrote what is in its checkpoints".into(),
        };
        let whose = match is_member {
            false => "that of this machine",
            true => "that of this machine or of another that led its shards",
        };
        Some(format!(
            "time on this node is {} s ahead of this machine's clock. When the node started at {} \
             by that clock, its data had timestamps up to {}. Either this machine's clock is \
             behind now, or a clock was ahead, {whose}, when the node {from}. Values that expire \
             before that time expire at once; the time of the node goes on from there, slowed by a \
             hundredth until both agree. If this machine's clock is wrong, set it right and start \
             the node again. If it is right: carillon repair-clock, see docs/operations.md",
            ahead / 1000,
            utc(start),
            utc(start + time.ahead_millis()),
        ))
    }

    /// Compares this node's clock with its peers'. Once a second.
    pub(super) fn compare(&self, peers: Option<&Peers>) {
        let elapsed = self.elapsed_millis();
        let mut time = **self.physical.load();
        let stepped = wall_millis().wrapping_sub(time.uncorrected_millis(elapsed)).cast_signed();
        let before = self.stepped.load(Ordering::Relaxed);
        if stepped.abs_diff(before) > self.offset_max {
            self.stepped.store(stepped, Ordering::Relaxed);
            let by = stepped - before;
            tracing::warn!("the wall clock was set by {by} ms: the time of this node ignores that");
        }
        let Some(peers) = peers else { return };
        let offsets: Vec<i64> = offsets_of(peers, stepped).into_values().collect();
        let median = median_offset(&offsets);
        if time.adjust(elapsed, median, self.offset_max) {
            tracing::warn!(
                "this node's clock is {} ms ahead of the median of {} nodes: its time goes from {} \
                 to {} ms beside its own clock. Set the clocks right",
                -median,
                offsets.len() + 1,
                self.physical.load().correction(elapsed),
                time.correction(elapsed),
            );
            self.physical.store(Arc::new(time));
        }
        self.median.store(median, Ordering::Relaxed);
        let correction = time.correction(elapsed);
        self.away.store(median - correction, Ordering::Relaxed);
        peers.cluster.set_time_ahead(correction - stepped);
    }

    /// The nodes whose time is too far from the median to become leaders.
    pub(super) fn nodes_far_off(&self, peers: &Peers) -> Vec<NodeId> {
        let elapsed = self.elapsed_millis();
        let own = self.physical.load().uncorrected_millis(elapsed);
        let clocks = offsets_of(peers, wall_millis().wrapping_sub(own).cast_signed());
        let median = self.median.load(Ordering::Relaxed);
        let is_wrong = |offset: i64| self.beyond(offset - median).is_some();
        clocks.into_iter().filter(|(_, offset)| is_wrong(*offset)).map(|(node, _)| node).collect()
    }
}

/// How far the time of each peer that is linked is ahead of this node's own clock, in ms.
fn offsets_of(peers: &Peers, stepped: i64) -> BTreeMap<NodeId, i64> {
    let counters = peers.cluster.counters().peers.into_iter();
    let linked = counters.filter(|(node, _)| peers.cluster.is_connected(*node));
    let informed = linked.filter(|(_, counters)| counters.time_reports.get() > 0);
    informed.map(|(node, c)| (node, c.ahead_millis.get().cast_signed() + stepped)).collect()
}

/// The node's boot clock: it never steps, and counts while the machine sleeps (SAFETY G5).
pub fn boot_nanos() -> BootNanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    assert_eq!(failed, 0, "Linux has this clock since 2.6.39");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The wall clock, in milliseconds since 1970.
pub(super) fn wall_millis() -> u64 {
    wall().as_millis() as u64
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn physical_time_lags_no_millisecond_behind_the_wall_clock() {
        let wall = Duration::from_millis(5_000) + Duration::from_nanos(999_999);
        let clock = NodeClock::start_at(wall, Timestamp::ZERO, 1_000, None);
        while clock.elapsed().is_zero() {}
        assert!(clock.millis() > 5_000, "a nanosecond later it is 5 001 ms");
        assert_eq!(clock.started_millis(), 5_000);
    }
}
