//! Replies that wait for other nodes: of SUBSCRIBE until they know, of PUBLISH until they have
//! counted.

use std::collections::BTreeMap;
use std::time::Instant;

use keyspace::NodeId;

use super::WaitingReply;

/// See the front page of this module.
#[derive(Debug, Default)]
pub(super) struct Waits {
    subscribes: Vec<Subscribe>,
    last_number: u64,
    publishes: BTreeMap<u64, Publish>,
}

/// Until all know this version.
#[derive(Debug)]
struct Subscribe {
    version: u64,
    waiting: WaitingReply,
    until: Instant,
}

/// Until all of these have counted.
#[derive(Debug)]
struct Publish {
    left: Vec<NodeId>,
    count: u64,
    waiting: WaitingReply,
    until: Instant,
}

impl Waits {
    pub(super) fn wait_for_acks(&mut self, version: u64, waiting: WaitingReply, until: Instant) {
        self.subscribes.push(Subscribe { version, waiting, until });
    }

    /// All linked nodes know this version: those that need not wait any more.
    pub(super) fn acknowledged(&mut self, version: u64) -> Vec<WaitingReply> {
        let done = self.subscribes.extract_if(.., |wait| wait.version <= version);
        done.map(|wait| wait.waiting).collect()
    }

    /// Waits for the counts of some nodes, to be added to this. Returns the number under which they
    /// answer; never 0.
    pub(super) fn wait_for_receivers(
        &mut self,
        left: Vec<NodeId>,
        count: u64,
        waiting: WaitingReply,
        until: Instant,
    ) -> u64 {
        self.last_number += 1;
        self.publishes.insert(self.last_number, Publish { left, count, waiting, until });
        self.last_number
    }

    /// A node has counted so many. The whole count, if it was the last one.
    pub(super) fn received(
        &mut self,
        node: NodeId,
        number: u64,
        count: u64,
    ) -> Option<(WaitingReply, u64)> {
        let publish = self.publishes.get_mut(&number)?;
        let place = publish.left.iter().position(|left| *left == node)?;
        publish.left.swap_remove(place);
        publish.count += count;
        if !publish.left.is_empty() {
            return None;
        }
        let publish = self.publishes.remove(&number)?;
        Some((publish.waiting, publish.count))
    }

    /// A node will not count: those that waited for it alone, with their counts.
    pub(super) fn unlinked(&mut self, node: NodeId) -> Vec<(WaitingReply, u64)> {
        let numbers: Vec<u64> = self.publishes.keys().copied().collect();
        numbers.into_iter().filter_map(|number| self.received(node, number, 0)).collect()
    }

    /// Those that have waited long enough, with the counts that there are.
    pub(super) fn late(&mut self, now: Instant) -> Vec<(WaitingReply, u64)> {
        let late = self.subscribes.extract_if(.., |wait| wait.until <= now);
        let mut late: Vec<_> = late.map(|wait| (wait.waiting, 0)).collect();
        // Numbers rise, and so do deadlines.
        while let Some(first) = self.publishes.first_entry().filter(|p| p.get().until <= now) {
            let publish = first.remove();
            late.push((publish.waiting, publish.count));
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use node::replica::entry::Waiter;

    use super::*;

    fn waiting(number: u64) -> WaitingReply {
        WaitingReply { event_loop: 0, waiter: Waiter(number) }
    }

    #[test]
    fn a_publisher_waits_for_the_last_count_or_until_it_is_late() {
        let (mut waits, now) = (Waits::default(), Instant::now());
        let until = now + Duration::from_millis(10);
        let nodes = || vec![NodeId(2), NodeId(3)];
        let first = waits.wait_for_receivers(nodes(), 1, waiting(1), until);
        assert!(waits.received(NodeId(2), first, 4).is_none());
        assert!(waits.received(NodeId(2), first, 4).is_none(), "it counts once");
        let (_, count) = waits.received(NodeId(3), first, 2).expect("it was the last");
        assert_eq!(count, 7);
        let second = waits.wait_for_receivers(nodes(), 1, waiting(2), until);
        assert!(waits.received(NodeId(3), second, 5).is_none());
        assert!(waits.late(now).is_empty());
        let late: Vec<u64> = waits.late(until).into_iter().map(|(_, count)| count).collect();
        assert_eq!(late, [6]);
        assert!(waits.received(NodeId(2), second, 1).is_none(), "it was given up");
        waits.wait_for_receivers(vec![NodeId(2)], 3, waiting(3), until);
        assert_eq!(waits.unlinked(NodeId(2)).len(), 1);
    }

    #[test]
    fn a_subscriber_waits_for_its_version() {
        let (mut waits, now) = (Waits::default(), Instant::now());
        let until = now + Duration::from_millis(10);
        waits.wait_for_acks(5, waiting(1), until);
        waits.wait_for_acks(7, waiting(2), until);
        assert_eq!(waits.acknowledged(6).len(), 1);
        assert_eq!(waits.late(until).len(), 1);
        assert!(waits.acknowledged(9).is_empty());
    }
}
