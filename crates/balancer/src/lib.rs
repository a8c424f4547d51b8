//! Where should the replicas of a shard be, and which of them should lead?
//!
//! No master places the shards of a cluster. Each shard's leader asks this crate about *its own*
//! shard, every half second or so, with what gossip tells of the nodes; that may be old. All
//! leaders decide at once and do not talk about it. So each call is one decision without memory,
//! and arithmetic decides what many of them do together:
//!
//! ```text
//!        gossip: 41, 12, 26 … replicas            the leader of shard 9
//!                      │                                   │
//!                 Nodes::new                  Shard {replicas, voters, wanted …}
//!                      └───────────────┬───────────────────┘
//!                                   decide ──► Decision {add: [node 9], remove: [replica 4], why}
//!                                   target   ──► replica 5, if node 7 leads more than its share
//! ```
//!
//! # The order of reasons
//! | | reason | example |
//! |---|---|---|
//! | 1 | call off | a learner's node died: it will never catch up |
//! | 2 | wait | while the shard is joint, unsettled, or has a learner, no other change begins |
//! | 3 | repair | a voter's node is dead; three are wanted and there is one; five are too many |
//! | 4 | spread | two replicas share a failure domain, and a free domain has a node |
//! | 5 | rebalance | a node holds 41 replicas, another 12 ([`Policy::Balanced`]) |
//! | | or put in place | a node joined that is nearer to the shard's point (the other policies) |
//!
//! # How a hundred leaders do not all run to one node
//! Let a node hold `n` replicas, `e` of them above the mean. If each leader with a replica there
//! moved it with probability `e / n`, about `e` would move of those that decide at the same moment,
//! and not `n`. The target is drawn as well, weighted by how much each node lacks: so a node that
//! lacks four gets about four. As loads are known late, only an eighth of that is done at a time
//! (`chance`). The rest is noise, which the next decisions correct. Randomness follows from
//! [`PlacementSettings::salt`], the shard, and nothing else.
//!
//! # Why it comes to rest
//! Each node's load is a point: its bytes and its replicas, both divided by the mean. A move must
//! lower the sum of squared distances from the mean by a margin (`measure`), and go from or to a
//! node beyond the band. So, once gossip is up to date, no move is ever undone, and a balanced
//! cluster stays as it is.
//!
//! # Invariants
//! 1. A decision never adds a replica on a node that has one, is leaving, or takes none.
//! 2. After a decision the number of voters is odd, wherever nodes and replicas allow it. It falls
//!    below [`Shard::wanted`] only if too few nodes are left.
//! 3. A rebalance never makes a failure domain hold more of a shard than before.
//! 4. Equal arguments give equal decisions.
//!
//! # What it does not know
//! How replicas move (the shard's leader does that by learner, snapshot and joint change), how fast
//! (the driver sets rates and pauses, except [`led_shards::CHANGES_MAX`]), which nodes are alive
//! (membership), what a key is.
//!
//! # Caveats
//! - Old loads make leaders overshoot. A node should report replicas on their way to it as if they
//!   had arrived, and a driver should let a shard rest a while after each move.
//! - Replicas are placed by bytes and numbers. Request rates decide only about leaders, and only
//!   where they are high ([`transfer_target`](transfer_target())): a leader does nearly all of the
//!   work.
//! - Only one replica moves at a time, and two are never exchanged. So a shard larger than the
//!   difference between two nodes stays where it is.
//! - Leaders are balanced among the nodes of one shard only. Between nodes that share no shard, a
//!   difference of two or three may remain.
//!
//! # Where to start
//! [`decide`](decide()), then `repair`, `spread`, `rebalance`;
//! [`transfer_target`](transfer_target()) for leaders; [`Policy`] for targets. [`led_shards`] is
//! about all shards that a node leads, and drivers call it with a [`NodeReport`] of each node.
//! [`survivability`] tells which failures a placement survives. [`hot`] tells of one shard whether
//! its request rate is too high, and where it should split.

mod chance;
mod decide;
pub mod hot;
mod leader_transfer;
pub mod led_shards;
mod measure;
mod node_report;
mod nodes;
pub mod policy;
mod reason;
mod rebalance;
mod repair;
mod shard;
mod spread;
pub mod survivability;
mod view;

pub use decide::{Decision, decide};
pub use leader_transfer::{TransferReason, transfer_target};
pub use led_shards::{LedShard, decide_all};
pub use measure::BalanceEffect;
pub use node_report::{NodeReport, nodes_to_place};
pub use nodes::{Mean, Node, Nodes, Unavailable};
pub use policy::{Policy, place_of};
pub use reason::{DecisionReason, NodeLoad};
pub use shard::{PlacementSettings, Shard};
