//! Judges whether this node's disk is too slow for a leader.
//!
//! A leader's own log counts towards the majority, so a leader whose fsyncs stall delays its
//! shards, though the others could go on. So it transfers its leaderships away, and tells the other
//! nodes, which transfer none to it until no fsync has stalled for a while.
//!
//! ```text
//!   fsync under way for STALL ──► slow ─► leaders move away (`transfer_target`), gossip, metric
//!   none stalled for SLOW_FOR ──► not slow: it may become leader of shards again
//! ```
//!
//! If most live nodes are slow, none counts as slow: there is no better target. A slow disk does
//! not change health: what the node has acknowledged is as safe as ever.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keyspace::NodeId;
use parking_lot::Mutex;

use super::log::NodeLog;
use crate::cluster::MemberInfo;

/// An fsync that takes this long has stalled.
pub const STALL: Duration = Duration::from_secs(1);
/// How long a disk counts as slow after a stall.
pub const SLOW_FOR: Duration = Duration::from_secs(30);

/// Recent stalls of the disk.
#[derive(Debug, Default)]
pub struct DiskPace {
    is_slow: AtomicBool,
    /// When a stall was seen last.
    stalled: Mutex<Option<Instant>>,
}

impl DiskPace {
    /// Whether it is slow.
    pub fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    /// Records that an fsync has taken, or takes by now, `took`. Returns whether the disk is slow,
    /// if that has changed.
    fn note_fsync(&self, took: Duration, now: Instant) -> Option<bool> {
        let mut stalled = self.stalled.lock();
        if took >= STALL {
            *stalled = Some(now);
        }
        let is_slow = stalled.is_some_and(|at| now.duration_since(at) < SLOW_FOR);
        (self.is_slow.swap(is_slow, Ordering::Relaxed) != is_slow).then_some(is_slow)
    }

    /// Nodes with slow disks that are not to lead, `node`, this one, among them.
    pub(super) fn slow_nodes(&self, node: NodeId, members: &[MemberInfo]) -> BTreeSet<NodeId> {
        let is_slow = |member: &&MemberInfo| match member.node == node {
            true => self.is_slow(),
            false => member.load.is_slow,
        };
        let up = members.iter().filter(|member| member.is_up() || member.node == node);
        let slow: BTreeSet<_> = up.clone().filter(is_slow).map(|member| member.node).collect();
        if 2 * slow.len() > up.count() { BTreeSet::new() } else { slow }
    }

    /// Looks at the fsyncs since the last look. If the disk has become slow, or is not slow any
    /// more, logs that and returns which.
    pub(super) fn watch(&self, log: &NodeLog) -> Option<bool> {
        let took = log.slowest_sync();
        let change = self.note_fsync(took, Instant::now());
        match change {
            Some(true) => tracing::warn!(
                "an fsync has taken {} ms or more: the disk is slow. This node transfers its \
                 leaderships to others, and gets none until no fsync has taken {} ms for {} s",
                took.as_millis(),
                STALL.as_millis(),
                SLOW_FOR.as_secs()
            ),
            Some(false) => tracing::info!("the disk is not slow any more"),
            None => {}
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_slow_for_a_while_after_it_has_stalled() {
        let (pace, begun) = (DiskPace::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(pace.note_fsync(STALL - Duration::from_millis(1), at(0)), None);
        assert_eq!(pace.note_fsync(STALL, at(1)), Some(true));
        assert_eq!(pace.note_fsync(2 * STALL, at(20)), None);
        assert!(pace.is_slow());
        assert_eq!(pace.note_fsync(Duration::ZERO, at(49)), None);
        assert_eq!(pace.note_fsync(Duration::ZERO, at(50)), Some(false));
        assert!(!pace.is_slow());
    }
}
