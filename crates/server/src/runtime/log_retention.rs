//! The log retention budget: how much memory entries for lagging replicas may take.
//!
//! A leader retains entries that a follower lacks, so that the follower needs no snapshot. Each
//! shard has limits ([`replication::GroupLimits`]), but a node may have thousands of shards, and
//! one slow disk makes all of them lag at once. So a node has a budget beside `memory_max`, an
//! eighth of it ([`RETAINED_SHARE`]). While its shards retain more, each shard's limit is halved;
//! it rises again when they retain less than half. A replica that is cut off by that gets a
//! snapshot.

use std::sync::atomic::{AtomicU64, Ordering};

use super::NodeRuntime;
use super::memory::Memory;

/// The share of `memory_max` that retained entries of all shards may take: one of so many parts.
pub const RETAINED_SHARE: u64 = 8;
/// No shard's share is larger.
const SHARE_BYTES_MAX: u64 = 1 << 30;
/// … or smaller.
const SHARE_BYTES_MIN: u64 = 64 << 10;

/// What all shards retain, and each may.
#[derive(Debug)]
pub struct RaftLogRetention {
    bytes: AtomicU64,
    share_bytes: AtomicU64,
}

impl Default for RaftLogRetention {
    fn default() -> Self {
        Self { bytes: AtomicU64::new(0), share_bytes: AtomicU64::new(SHARE_BYTES_MAX) }
    }
}

impl RaftLogRetention {
    /// Bytes of entries retained, as of the last second.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// What each shard may retain next, if all retain so much now.
fn next_share(share: u64, retained: u64, budget: u64) -> u64 {
    let next = if retained > budget {
        share / 2
    } else if retained < budget / 2 {
        share.saturating_mul(2)
    } else {
        share
    };
    next.clamp(SHARE_BYTES_MIN, SHARE_BYTES_MAX)
}

/// Measures how much shards retain, and sets the limit of each; once a second. New shards get their
/// limit so.
pub(super) fn limit(runtime: &NodeRuntime) {
    let Memory { log_retained, .. } = &runtime.memory;
    let share = log_retained.share_bytes.load(Ordering::Relaxed);
    let mut retained = 0;
    runtime.each_executor(|executor| {
        if share < SHARE_BYTES_MAX {
            executor.set_retained_bytes_max(share as usize);
        }
        retained += executor.shards().map(|shard| shard.retained_bytes() as u64).sum::<u64>();
    });
    let next = next_share(share, retained, runtime.memory.bytes_max() / RETAINED_SHARE);
    if next != share {
        runtime.each_executor(|executor| executor.set_retained_bytes_max(next as usize));
    }
    if next < share {
        tracing::debug!(
            kept = retained,
            share = next,
            "shards retain fewer log entries for lagging replicas"
        );
    }
    log_retained.bytes.store(retained, Ordering::Relaxed);
    log_retained.share_bytes.store(next, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_budget() {
        let budget = 64 << 20;
        let mut share = SHARE_BYTES_MAX;
        // A thousand shards lag: what they keep comes below the budget, and stays there.
        for _ in 0..40 {
            share = next_share(share, 1_000 * share.min(256 << 20), budget);
        }
        assert!((budget / 4..=budget).contains(&(1_000 * share)) || share == SHARE_BYTES_MIN);
        // They have caught up.
        for _ in 0..40 {
            share = next_share(share, 0, budget);
        }
        assert_eq!(share, SHARE_BYTES_MAX);
        assert_eq!(next_share(share, budget * 3 / 4, budget), share);
    }
}
