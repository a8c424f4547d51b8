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
use keyspace::{NodeId, Timestamp};

use super::{NodeRuntime, wall_millis};
use crate::utc::utc;

/// What is known of clocks, in ms.
#[derive(Debug)]
pub struct Clocks {
    offset_max: u64,
    /// The earliest time in the log that was far ahead of the wall clock at the start.
    ahead_from: Option<Timestamp>,
    /// How far the wall clock has been stepped since the start.
    stepped: AtomicI64,
    /// The median, relative to this node's own clock.
    median: AtomicI64,
    /// … and relative to its physical time.
    away: AtomicI64,
}

impl Clocks {
    /// With this limit, in ms.
    pub fn new(offset_max: u64, ahead_from: Option<Timestamp>) -> Self {
        let (stepped, median, away) = Default::default();
        Self { offset_max, ahead_from, stepped, median, away }
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

impl NodeRuntime {
    /// What is wrong if time here goes on from data that was far ahead of this node's clock when it
    /// started, in words; nothing once both agree again.
    pub(super) fn why_ahead(&self) -> Option<String> {
        let time = self.time.load();
        let elapsed = self.elapsed_millis();
        let ahead = time.correction(elapsed);
        if time.ahead_millis() == 0 || ahead <= self.clocks.offset_max.cast_signed() {
            return None;
        }
        let start = time.own_millis(0);
        let from = match self.clocks.ahead_from {
            Some(from) => format!("wrote from {} on, as that clock showed it", utc(from.millis())),
            None => "wrote what is in its checkpoints".into(),
        };
        let whose = match self.peers {
            None => "that of this machine",
            Some(_) => "that of this machine or of another that led its shards",
        };
        Some(format!(
            "time on this node is {} s ahead of this machine's clock. When the node started at {} \
             by that clock, its data had times up to {}. Either this machine's clock is behind \
             now, or a clock was ahead, {whose}, when the node {from}. What expires before that \
             time is gone at once; time goes on from there, slowed by a hundredth until both \
             agree. If this machine's clock is wrong, set it right and start the node again. If it \
             is right: carillon repair-clock, see docs/operations.md",
            ahead / 1000,
            utc(start),
            utc(start + time.ahead_millis()),
        ))
    }

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
