//! Links to other nodes that were lost not long ago: transactions of these nodes may have lost
//! their coordinator.

use std::collections::BTreeMap;

use keyspace::{BootNanos, NodeId};

use crate::locks::{AGE_MAX_MS, TxnId};

/// How long a loss is remembered. After that the node's earlier transactions take no new locks, and
/// the usual inspection finds those that are left.
const LOSS_REMEMBERED_NANOS: u64 = (AGE_MAX_MS + 5_000) * 1_000_000;
/// How long it is remembered after there is a link again, to the same process or its successor:
/// locks of the first process may become known here only when another replica leads.
const RECONNECTED_FOR_NANOS: u64 = 3_000_000_000;

/// See the front page.
#[derive(Debug, Default)]
pub struct LinkLosses {
    of: BTreeMap<NodeId, LinkLoss>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct LinkLoss {
    /// When it was lost.
    pub at: BootNanos,
    /// Since when there is another.
    reconnected_at: Option<BootNanos>,
}

impl LinkLoss {
    /// Whether there is another link.
    pub fn is_over(&self) -> bool {
        self.reconnected_at.is_some()
    }
}

impl LinkLosses {
    /// Whether no loss is remembered.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The link to a node is lost.
    pub fn lost(&mut self, node: NodeId, now: BootNanos) {
        self.of.insert(node, LinkLoss { at: now, reconnected_at: None });
    }

    /// There is a link to a node.
    pub fn linked(&mut self, node: NodeId, now: BootNanos) {
        if let Some(loss) = self.of.get_mut(&node) {
            loss.reconnected_at = Some(now);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: BootNanos) {
        self.of.retain(|_, LinkLoss { at, reconnected_at }| match reconnected_at {
            None => now < at.saturating_add(LOSS_REMEMBERED_NANOS),
            Some(at) => now < at.saturating_add(RECONNECTED_FOR_NANOS),
        });
    }

    /// The loss of the link to the node that has begun a transaction.
    pub fn of(&self, id: TxnId) -> Option<LinkLoss> {
        self.of.iter().find(|(node, _)| id.is_of(**node)).map(|(_, loss)| *loss)
    }
}

#[cfg(test)]
mod tests {
    use keyspace::Timestamp;

    use super::*;

    fn begun_at(node: NodeId) -> TxnId {
        TxnId { start: Timestamp(1), coordinator: TxnId::name(node, 5), attempt: 0 }
    }

    #[test]
    fn link_loss_is_remembered_for_limited_time() {
        let (lost, other) = (NodeId(7 << 32 | 1), NodeId(7 << 32 | 2));
        let mut losses = LinkLosses::default();
        losses.linked(lost, 5);
        assert!(losses.is_empty(), "nothing was lost");
        losses.lost(lost, 10);
        assert!(losses.of(begun_at(lost)).is_some_and(|loss| loss.at == 10 && !loss.is_over()));
        assert!(losses.of(begun_at(other)).is_none());
        losses.tick(10 + LOSS_REMEMBERED_NANOS - 1);
        assert!(!losses.is_empty());
        losses.linked(lost, 20);
        losses.tick(20 + RECONNECTED_FOR_NANOS - 1);
        assert!(losses.of(begun_at(lost)).is_some_and(|loss| loss.is_over()));
        losses.tick(20 + RECONNECTED_FOR_NANOS);
        assert!(losses.is_empty());
        losses.lost(lost, 30);
        losses.tick(30 + LOSS_REMEMBERED_NANOS);
        assert!(losses.is_empty());
    }
}
