//! Is this node's disk so slow that it should not lead?
//!
//! A leader answers a write when a majority has it on disk, and takes part itself: one whose fsyncs
//! stall keeps its shards waiting, though the others could go on. So it hands its shards over, and
//! tells the others, who hand it none, until no fsync has stalled for a while.
//!
//! ```text
//!   fsync under way for STALL ──► slow ─► leaders go (`transfer_target`), gossip, metric
//!   none stalled for SLOW_FOR ──► not slow: it may be given shards to lead again
//! ```
//!
//! If most nodes that are up are slow, none counts as slow: there is nowhere better to go. It is
//! no matter of health: what the node has acknowledged is as safe as ever.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keyspace::NodeId;
use parking_lot::Mutex;

use super::log::NodeLog;
use crate::cluster::MemberInfo;

/// An fsync that takes so long has stalled.
pub const STALL: Duration = Duration::from_secs(1);
/// For so long a disk counts as slow after it has stalled.
pub const SLOW_FOR: Duration = Duration::from_secs(30);

/// What was seen of the disk.
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

    /// An fsync has taken so long, or does by now. Whether it is slow from now on, or is not any
    /// more, if either is new.
    fn saw(&self, took: Duration, now: Instant) -> Option<bool> {
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

    /// Looks at the fsyncs since the last look; says it, if the disk has become slow or is not
    /// slow any more, and returns which.
    pub(super) fn watch(&self, log: &NodeLog) -> Option<bool> {
        let took = log.slowest_sync();
        let change = self.saw(took, Instant::now());
        match change {
            Some(true) => tracing::warn!(
                "an fsync has taken {} ms or more: the disk is slow. This node hands its shards \
                 over to others, and is given none until no fsync has taken {} ms for {} s",
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
        assert_eq!(pace.saw(STALL - Duration::from_millis(1), at(0)), None);
        assert_eq!(pace.saw(STALL, at(1)), Some(true));
        assert_eq!(pace.saw(2 * STALL, at(20)), None);
        assert!(pace.is_slow());
        assert_eq!(pace.saw(Duration::ZERO, at(49)), None);
        assert_eq!(pace.saw(Duration::ZERO, at(50)), Some(false));
        assert!(!pace.is_slow());
    }
}
