//! How fast draining nodes become empty, as seen from here: each second what they still hold is
//! noted, for a minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use api::DrainRate;
use keyspace::NodeId;
use parking_lot::Mutex;

/// Over this time.
const WINDOW: Duration = Duration::from_secs(60);

/// What a node holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Replicas, as descriptors say.
    pub replicas: u64,
    /// Bytes of keys and values, as it last told.
    pub bytes: u64,
}

/// See the front page of this module.
#[derive(Default)]
pub struct Drains(Mutex<BTreeMap<NodeId, VecDeque<(Instant, Held)>>>);

impl Drains {
    /// These nodes drain now, and hold this.
    pub fn observe(&self, now: Instant, draining: impl IntoIterator<Item = (NodeId, Held)>) {
        let mut noted = self.0.lock();
        let mut before = std::mem::take(&mut *noted);
        for (node, held) in draining {
            let mut seen = before.remove(&node).unwrap_or_default();
            seen.push_back((now, held));
            while seen.front().is_some_and(|(at, _)| now - *at > WINDOW) {
                seen.pop_front();
            }
            noted.insert(node, seen);
        }
    }

    /// What has left a node lately; none unless it has drained for a moment.
    pub fn rate(&self, node: NodeId) -> Option<DrainRate> {
        let noted = self.0.lock();
        let seen = noted.get(&node)?;
        let ((since, then), (at, now)) = (seen.front()?, seen.back()?);
        let over_ms = (*at - *since).as_millis() as u64;
        (over_ms > 0).then(|| DrainRate {
            over_ms,
            replicas: then.replicas.saturating_sub(now.replicas),
            bytes: then.bytes.saturating_sub(now.bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_within_a_minute_is_told_of_nodes_that_drain() {
        let (drains, begun, node) = (Drains::default(), Instant::now(), NodeId(7));
        let observe = |second: u64, replicas: u64| {
            let held = Held { replicas, bytes: replicas * 100 };
            drains.observe(begun + Duration::from_secs(second), [(node, held)]);
        };
        assert_eq!(drains.rate(node), None);
        observe(0, 90);
        assert_eq!(drains.rate(node), None, "one look says nothing");
        for second in 1..=80 {
            observe(second, 90 - second);
        }
        let rate = DrainRate { over_ms: 60_000, replicas: 60, bytes: 6_000 };
        assert_eq!(drains.rate(node), Some(rate));
        drains.observe(begun + Duration::from_secs(81), []);
        assert_eq!(drains.rate(node), None, "it drains no more");
    }
}
