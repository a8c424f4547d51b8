//! Why was it decided so? In words for people, who read them in logs and in `shards --why`.

use std::fmt;

use keyspace::NodeId;

use crate::measure::BYTES_MEAN_FULL;
use crate::nodes::{Gone, Mean, Node};
use crate::policy::Policy;

/// What a node carried when something was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Which node.
    pub node: NodeId,
    /// Replicas on it.
    pub replicas: u32,
    /// Bytes on it.
    pub bytes: u64,
}

impl Load {
    pub(crate) fn of(node: &Node) -> Self {
        Self { node: node.id, replicas: node.replicas, bytes: node.bytes }
    }
}

/// The reason for a change of a shard's replicas.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// A learner's node is gone, so it will never catch up.
    CallOff {
        /// Where the learner is.
        node: NodeId,
        /// What is with that node.
        gone: Gone,
    },
    /// Replicas leave nodes that are gone.
    Replace {
        /// The nodes they leave.
        gone: Vec<(NodeId, Gone)>,
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
    Part {
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
    Even {
        /// The fuller one.
        from: Load,
        /// The emptier one.
        to: Load,
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

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::CallOff { node, gone } => {
                write!(f, "node {node} {gone}: the new replica there will never catch up")
            }
            Why::Replace { gone, by } => {
                for (index, (node, gone)) in gone.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}node {node} {gone}")?;
                }
                if by.is_empty() { f.write_str("; no node can take its place") } else { Ok(()) }
            }
            Why::Grow { from, to, wanted } => {
                write!(f, "{wanted} replicas are wanted: from {from} to {to}")
            }
            Why::Shrink { from, to, wanted } => {
                write!(f, "only {wanted} replicas are wanted: from {from} to {to}")
            }
            Why::Part { node, beside, domain, to } => write!(
                f,
                "nodes {node} and {beside} share the failure domain {domain:?}; node {to} is apart"
            ),
            Why::Even { from, to, mean } => even(f, from, to, mean),
            Why::Place { policy, from, to } => {
                write!(f, "the policy {policy} puts it on node {to} rather than on node {from}")
            }
        }
    }
}

fn even(f: &mut fmt::Formatter<'_>, from: &Load, to: &Load, mean: &Mean) -> fmt::Result {
    let bytes_count = mean.bytes >= BYTES_MEAN_FULL;
    let bytes = |bytes: f64| match bytes_count {
        true => format!(" ({:.1} MiB)", bytes / f64::from(1 << 20)),
        false => String::new(),
    };
    write!(
        f,
        "node {} holds {} replicas{}, node {} {}{}; the mean is {:.1}{}",
        from.node,
        from.replicas,
        bytes(from.bytes as f64),
        to.node,
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
        let load = |node, replicas, mib: u64| Load { node, replicas, bytes: mib << 20 };
        let mean = Mean { replicas: 26.4, leaders: 9.0, bytes: 264.0 * f64::from(1 << 20) };
        let whys = [
            (
                Why::Replace { gone: vec![(five, Gone::Dead)], by: vec![nine] },
                "node 5 has been dead for longer than dead_after",
            ),
            (
                Why::Replace { gone: vec![(five, Gone::Dead), (seven, Gone::Dead)], by: vec![] },
                "node 5 has been dead for longer than dead_after, node 7 has been dead for longer \
                 than dead_after; no node can take its place",
            ),
            (
                Why::Even { from: load(seven, 41, 410), to: load(nine, 12, 118), mean },
                "node 7 holds 41 replicas (410.0 MiB), node 9 12 (118.0 MiB); the mean is 26.4 \
                 (264.0 MiB)",
            ),
            (
                Why::Part { node: five, beside: seven, domain: "rack 1".into(), to: nine },
                "nodes 5 and 7 share the failure domain \"rack 1\"; node 9 is apart",
            ),
            (Why::Grow { from: 1, to: 3, wanted: 3 }, "3 replicas are wanted: from 1 to 3"),
            (
                Why::CallOff { node: five, gone: Gone::Draining },
                "node 5 is draining: the new replica there will never catch up",
            ),
        ];
        for (why, words) in whys {
            assert_eq!(why.to_string(), words);
        }
    }
}
