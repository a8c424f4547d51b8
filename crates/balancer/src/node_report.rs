//! Reports of nodes, as gossip brings them, and what follows for placement.
//!
//! It judges which nodes have been down for too long, are draining, or may get replicas. The driver
//! only passes what nodes report, node by node.

use std::time::Duration;

use keyspace::{AdminState, AdminStates, NodeId};

use crate::led_shards::LedShard;
use crate::nodes::{Node, Nodes, Unavailable};

/// What is known of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Which one.
    pub id: NodeId,
    /// Its failure domain; empty if not known.
    pub domain: Box<str>,
    /// Whether it is up …
    pub is_up: bool,
    /// … and since how long it is so.
    pub since: Duration,
    /// Whether it may be down, and nobody is sure.
    pub is_suspected: bool,
    /// Whether it is slow: it should not lead.
    pub is_slow: bool,
    /// Replicas it holds, with those on their way to it.
    pub replicas: u32,
    /// Of these, the ones that lead their shard.
    pub leaders: u32,
    /// Keys and values it holds, with those on their way to it.
    pub bytes: u64,
    /// Requests a second for the shards it leads; 0 if it does not tell.
    pub requests: u32,
}

impl NodeReport {
    fn node(self, admin_state: AdminState, dead_after: Duration) -> Node {
        let unavailable = match admin_state {
            AdminState::Removed => Some(Unavailable::Removed),
            _ if !self.is_up && self.since >= dead_after => Some(Unavailable::Dead),
            AdminState::Draining => Some(Unavailable::Draining),
            AdminState::Member | AdminState::Cordoned => None,
        };
        Node {
            id: self.id,
            domain: self.domain,
            takes: self.is_up && !self.is_suspected && admin_state.takes_replicas(),
            unavailable,
            is_alive: self.is_up,
            is_slow: self.is_slow,
            replicas: self.replicas,
            leaders: self.leaders,
            bytes: self.bytes,
            requests: self.requests,
        }
    }
}

/// All nodes for a decision: those with a report, and those without one that have replicas of
/// shards led here. The latter were forgotten, and so have been down for long; that is sure only
/// once reports had time to arrive (`is_complete`).
pub fn nodes_to_place(
    reports: impl IntoIterator<Item = NodeReport>,
    admin_states: &AdminStates,
    dead_after: Duration,
    led: &[LedShard],
    is_complete: bool,
) -> Nodes {
    let node = |report: NodeReport| {
        let admin_state = admin_states.of(report.id);
        report.node(admin_state, dead_after)
    };
    let mut nodes: Vec<Node> = reports.into_iter().map(node).collect();
    let placed = led.iter().flat_map(|led| &led.descriptor.replicas);
    for (_, id) in placed {
        if nodes.iter().any(|node| node.id == *id) {
            continue;
        }
        let unavailable = match admin_states.of(*id) {
            AdminState::Removed => Some(Unavailable::Removed),
            _ => is_complete.then_some(Unavailable::Dead),
        };
        nodes.push(Node { id: *id, unavailable, ..Node::default() });
    }
    Nodes::new(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_follows_its_report() {
        let report = |is_up, seconds| NodeReport {
            id: NodeId(1),
            domain: "".into(),
            is_up,
            since: Duration::from_secs(seconds),
            is_suspected: false,
            is_slow: false,
            replicas: 3,
            leaders: 1,
            bytes: 9,
            requests: 0,
        };
        let dead_after = Duration::from_secs(30);
        let of = |report: NodeReport, admin_state| {
            let node = report.node(admin_state, dead_after);
            (node.takes, node.is_alive, node.unavailable)
        };
        assert_eq!(of(report(true, 0), AdminState::Member), (true, true, None));
        assert_eq!(of(report(false, 29), AdminState::Member), (false, false, None));
        assert_eq!(
            of(report(false, 30), AdminState::Member),
            (false, false, Some(Unavailable::Dead))
        );
        assert_eq!(of(report(true, 99), AdminState::Cordoned), (false, true, None));
        assert_eq!(
            of(report(true, 99), AdminState::Draining),
            (false, true, Some(Unavailable::Draining))
        );
        assert_eq!(of(report(false, 99), AdminState::Draining).2, Some(Unavailable::Dead));
        assert_eq!(of(report(false, 99), AdminState::Removed).2, Some(Unavailable::Removed));
        let suspected = NodeReport { is_suspected: true, ..report(true, 0) };
        assert_eq!(of(suspected, AdminState::Member), (false, true, None));
    }
}
