//! Why shards without a quorum are not recovered.

use keyspace::{NodeId, ShardId};
use storage::log::Lsn;

/// Why there is no plan, or it is not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryRefused {
    /// No replica survives.
    #[error("no node was inspected: run `carillon recover inspect` on each that is left")]
    Nobody,
    /// Two clusters.
    #[error(
        "node {:016x} is of cluster {cluster:016x}, another of cluster {other:016x}: a plan is for \
         one cluster", .node.0
    )]
    Clusters {
        /// A node.
        node: NodeId,
        /// Its cluster.
        cluster: u64,
        /// Another's.
        other: u64,
    },
    /// The same node twice.
    #[error(
        "node {:016x} is given twice: one file is of a copy, or older; inspect the node again and \
         give it once", .node.0
    )]
    Twice {
        /// Which.
        node: NodeId,
    },
    /// Nothing is left of the catalogue.
    #[error(
        "nothing is left of the catalogue (shard 0) on these nodes, without which no key is found. \
         Bring back the directory of a node that had a replica of it, and inspect it as well"
    )]
    NoCatalogue,
    /// A shard was split behind what is left of it, and parts of it are nowhere else.
    #[error(
        "shard {shard} was split after the newest replica that is left of it, on node {:016x}. \
         Shards that are newer have some of the keys that it had ({}), and nothing is left of \
         those that have the others: if it went on, either keys would be lost. Bring back the \
         directory of a node with the missing shards, and inspect it as well. If there is none, \
         make a plan without the file of node {:016x}: what only that node has is lost then",
        .node.0, list(.newer), .node.0
    )]
    SplitSince {
        /// The shard.
        shard: ShardId,
        /// Where its newest replica is.
        node: NodeId,
        /// Those that have parts of it.
        newer: Vec<ShardId>,
    },
    /// All is well.
    #[error(
        "nothing to do: these nodes have a majority of each of {shards} shards. Start them, and \
         leaders replace the missing replicas"
    )]
    Sound {
        /// How many shards there are.
        shards: usize,
    },
    /// A plan for others.
    #[error(
        "the plan is for cluster {planned:016x}, and node {:016x} is of cluster {cluster:016x}",
        .node.0
    )]
    OtherCluster {
        /// Whose directory it is.
        node: NodeId,
        /// Its cluster.
        cluster: u64,
        /// That of the plan.
        planned: u64,
    },
    /// A plan without this node.
    #[error(
        "the plan was made without node {:016x}: inspect it, and make a plan of all nodes that are \
         left. If other nodes have applied the plan already, start this node when those run: it \
         learns from them which of its replicas have ended", .node.0
    )]
    NotInPlan {
        /// Whose directory it is.
        node: NodeId,
    },
    /// It has changed.
    #[error(
        "the directory of node {:016x} has changed since it was inspected: its log ended at \
         {planned}, and ends at {found} now. Inspect all nodes again, and make a new plan", .node.0
    )]
    Changed {
        /// Whose directory it is.
        node: NodeId,
        /// Where its log ended.
        planned: Lsn,
        /// Where it ends.
        found: Lsn,
    },
}

fn list(shards: &[ShardId]) -> String {
    shards.iter().map(|shard| format!("shard {shard}")).collect::<Vec<_>>().join(", ")
}
