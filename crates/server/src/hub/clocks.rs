//! Is this node's clock right, as far as its peers can tell? (SAFETY G12)
//!
//! Every answer to a link's ping brings the peer's time; half the round trip is added. Once a
//! second the median of all, this node's own clock among them, is compared with the own one:
//!
//! ```text
//!   median more than clock_offset_max_ms away ─► physical time goes there (hlc::Physical), health
//!        └─ and physical time is still that far ─► this node hands its leaderships away
//!   a peer's time that far from the median     ─► nothing is handed to it
//!   the wall clock has stepped                 ─► said in the log; physical time goes on without
//! ```
//!
//! Nothing that clients are promised depends on it: clocks that differ make expiry early or late,
//! and snapshots differ from real time by as much.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use hlc::median_offset;
use keyspace::NodeId;

use super::{Hub, wall_millis};

/// What is known of clocks, in ms.
#[derive(Debug)]
pub struct Clocks {
    offset_max: u64,
    /// How far the wall clock has been stepped since the start.
    stepped: AtomicI64,
    /// The median, relative to this node's own clock.
    median: AtomicI64,
    /// … and relative to its physical time.
    away: AtomicI64,
}

impl Clocks {
    /// With this limit, in ms.
    pub fn new(offset_max: u64) -> Self {
        let (stepped, median, away) = Default::default();
        Self { offset_max, stepped, median, away }
    }

    /// How far this node's own clock is ahead of the median of all, if that is more than it may be.
    pub fn wrong_millis(&self) -> Option<i64> {
        self.beyond(self.median.load(Ordering::Relaxed)).map(|median| -median)
    }

    /// The same of its physical time: that cannot be trusted to lead.
    pub fn is_far(&self) -> bool {
        self.beyond(self.away.load(Ordering::Relaxed)).is_some()
    }

    /// How far the median is ahead of this node's physical time, in ms.
    pub fn away_millis(&self) -> i64 {
        self.away.load(Ordering::Relaxed)
    }

    fn beyond(&self, offset: i64) -> Option<i64> {
        Some(offset).filter(|offset| offset.unsigned_abs() > self.offset_max)
    }
}

impl Hub {
    /// Compares this node's clock with its peers'. Once a second.
    pub(super) fn compare_clocks(&self) {
        let elapsed = self.elapsed_millis();
        let mut time = **self.time.load();
        let stepped = wall_millis().wrapping_sub(time.own_millis(elapsed)).cast_signed();
        let before = self.clocks.stepped.load(Ordering::Relaxed);
        if stepped.abs_diff(before) > self.clocks.offset_max {
            self.clocks.stepped.store(stepped, Ordering::Relaxed);
            let by = stepped - before;
            tracing::warn!("the wall clock was set by {by} ms: time here goes on without that");
        }
        let Some(peers) = &self.peers else { return };
        let offsets: Vec<i64> = self.clocks_of_peers(stepped).into_values().collect();
        let median = median_offset(&offsets);
        if time.steer(elapsed, median, self.clocks.offset_max) {
            tracing::warn!(
                "this node's clock is {} ms ahead of the median of {} nodes: its time goes from {} \
                 to {} ms beside its own clock. Set the clocks right",
                -median,
                offsets.len() + 1,
                self.time.load().correction(elapsed),
                time.correction(elapsed),
            );
            self.time.store(Arc::new(time));
        }
        self.clocks.median.store(median, Ordering::Relaxed);
        let correction = time.correction(elapsed);
        self.clocks.away.store(median - correction, Ordering::Relaxed);
        peers.cluster.tell_time(correction - stepped);
    }

    /// The nodes whose time is too far from the median to be handed anything.
    pub(super) fn nodes_with_wrong_clocks(&self) -> Vec<NodeId> {
        let elapsed = self.elapsed_millis();
        let own = self.time.load().own_millis(elapsed);
        let clocks = self.clocks_of_peers(wall_millis().wrapping_sub(own).cast_signed());
        let median = self.clocks.median.load(Ordering::Relaxed);
        let is_wrong = |offset: i64| self.clocks.beyond(offset - median).is_some();
        clocks.into_iter().filter(|(_, offset)| is_wrong(*offset)).map(|(node, _)| node).collect()
    }

    /// How far the time of each peer that is linked is ahead of this node's own clock, in ms.
    fn clocks_of_peers(&self, stepped: i64) -> BTreeMap<NodeId, i64> {
        let Some(peers) = &self.peers else { return BTreeMap::new() };
        let counters = peers.cluster.counters().peers.into_iter();
        let linked = counters.filter(|(node, _)| peers.cluster.is_connected(*node));
        let told = linked.filter(|(_, counters)| counters.times_told.get() > 0);
        told.map(|(node, c)| (node, c.ahead_millis.get().cast_signed() + stepped)).collect()
    }
}
