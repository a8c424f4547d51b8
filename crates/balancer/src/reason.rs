//! The reason of a decision, as a value and as text for logs and `shards --why`.

use keyspace::NodeId;

use crate::measure::BYTES_MEAN_FULL;
use crate::nodes::{Mean, Node, Unavailable};
use crate::policy::Policy;

/// What a node carried when something was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLoad {
    /// Which node.
    pub node: NodeId,
    /// Replicas on it.
    pub replicas: u32,
    /// Bytes on it.
    pub bytes: u64,
}

impl NodeLoad {
    pub(crate) fn of(node: &Node) -> Self {
        Self { node: node.id, replicas: node.replicas, bytes: node.bytes }
    }
}

/// The reason for a change of a shard's replicas.
#[derive(Clone, Debug, PartialEq)]
pub enum DecisionReason {
    /// A learner's node is gone, so it will never catch up.
    RemoveLearner {
        /// Where the learner is.
        node: NodeId,
        /// What is with that node.
        unavailable: Unavailable,
    },
    /// Replicas leave nodes that are gone.
    Replace {
        /// The nodes they leave.
        unavailable: Vec<(NodeId, Unavailable)>,
        /// The nodes that get new ones; none if there are none to be had.
        by: Vec<NodeId>,
    },
    /// The shard has fewer voters than it should.
    Grow {
        /// Voters now.
        from: usize,
        /// Voters then.
        to: usize,
        /// What its keyspace asks for.
        wanted: usize,
    },
    /// The shard has more voters than it should.
    Shrink {
        /// Voters now.
        from: usize,
        /// Voters then.
        to: usize,
        /// What its keyspace asks for.
        wanted: usize,
    },
    /// Two replicas share a failure domain, and need not.
    SpreadDomains {
        /// The node that is left.
        node: NodeId,
        /// The one it shares its domain with.
        beside: NodeId,
        /// That domain.
        domain: Box<str>,
        /// The node in another domain.
        to: NodeId,
    },
    /// One node is fuller than another.
    Rebalance {
        /// The fuller one.
        from: NodeLoad,
        /// The emptier one.
        to: NodeLoad,
        /// The mean of those that take replicas.
        mean: Mean,
    },
    /// The shard's place on the ring gives it another node.
    Place {
        /// The policy that says so.
        policy: Policy,
        /// The node that is left.
        from: NodeId,
        /// The node it belongs to.
        to: NodeId,
    },
}

impl DecisionReason {
    /// Whether it could as well stay as it is.
    pub fn is_choice(&self) -> bool {
        matches!(
            self,
            DecisionReason::Rebalance { .. }
                | DecisionReason::Place { .. }
                | DecisionReason::SpreadDomains { .. }
        )
    }

    /// Its text; `name` gives the names of nodes.
    pub fn text(&self, name: &dyn Fn(NodeId) -> String) -> String {
        match self {
            DecisionReason::RemoveLearner { node, unavailable } => {
                format!("{} {unavailable}: the new replica there will never catch up", name(*node))
            }
            DecisionReason::Replace { unavailable, by } => {
                let unavailable = unavailable
                    .iter()
                    .map(|(node, unavailable)| format!("{} {unavailable}", name(*node)));
                let unavailable = unavailable.collect::<Vec<_>>().join(", ");
                if by.is_empty() {
                    unavailable + "; no node can take its place"
                } else {
                    unavailable
                }
            }
            DecisionReason::Grow { from, to, wanted } => {
                format!("{wanted} replicas are wanted: from {from} to {to}")
            }
            DecisionReason::Shrink { from, to, wanted } => {
                format!("only {wanted} replicas are wanted: from {from} to {to}")
            }
            DecisionReason::SpreadDomains { node, beside, domain, to } => {
                let [node, beside, to] = [node, beside, to].map(|id| name(*id));
                format!("{node} and {beside} share the failure domain {domain:?}; {to} is apart")
            }
            DecisionReason::Rebalance { from, to, mean } => rebalance_text(from, to, mean, name),
            DecisionReason::Place { policy, from, to } => {
                let [from, to] = [from, to].map(|id| name(*id));
                format!("the policy {policy} puts it on {to} rather than on {from}")
            }
        }
    }
}

fn rebalance_text(
    from: &NodeLoad,
    to: &NodeLoad,
    mean: &Mean,
    name: &dyn Fn(NodeId) -> String,
) -> String {
    let bytes_count = mean.bytes >= BYTES_MEAN_FULL;
    let bytes = |bytes: f64| match bytes_count {
        true => format!(" ({:.1} MiB)", bytes / f64::from(1 << 20)),
        false => String::new(),
    };
    format!(
        "{} holds {} replicas{}, {} {}{}; the mean is {:.1}{}",
        name(from.node),
        from.replicas,
        bytes(from.bytes as f64),
        name(to.node),
        to.replicas,
        bytes(to.bytes as f64),
        mean.replicas,
        bytes(mean.bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_sentences() {
        let [five, seven, nine] = [5, 7, 9].map(NodeId);
        let load = |node, replicas, mib: u64| NodeLoad { node, replicas, bytes: mib << 20 };
        let mean = Mean { replicas: 26.4, leaders: 9.0, bytes: 264.0 * f64::from(1 << 20) };
        let whys = [
            (
                DecisionReason::Replace {
                    unavailable: vec![(five, Unavailable::Dead)],
                    by: vec![nine],
                },
                "node 5 has been dead for longer than dead_after",
            ),
            (
                DecisionReason::Replace {
                    unavailable: vec![(five, Unavailable::Dead), (seven, Unavailable::Dead)],
                    by: vec![],
                },
                "node 5 has been dead for longer than dead_after, node 7 has been dead for longer \
                 than dead_after; no node can take its place",
            ),
            (
                DecisionReason::Rebalance {
                    from: load(seven, 41, 410),
                    to: load(nine, 12, 118),
                    mean,
                },
                "node 7 holds 41 replicas (410.0 MiB), node 9 12 (118.0 MiB); the mean is 26.4 \
                 (264.0 MiB)",
            ),
            (
                DecisionReason::SpreadDomains {
                    node: five,
                    beside: seven,
                    domain: "rack 1".into(),
                    to: nine,
                },
                "node 5 and node 7 share the failure domain \"rack 1\"; node 9 is apart",
            ),
            (
                DecisionReason::Grow { from: 1, to: 3, wanted: 3 },
                "3 replicas are wanted: from 1 to 3",
            ),
            (
                DecisionReason::RemoveLearner { node: five, unavailable: Unavailable::Draining },
                "node 5 is draining: the new replica there will never catch up",
            ),
        ];
        for (why, words) in whys {
            assert_eq!(why.text(&|id| format!("node {id}")), words);
        }
    }
}
