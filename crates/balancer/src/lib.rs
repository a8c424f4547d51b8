//! Where should the replicas of a shard be, and which of them should lead?
//!
//! Nobody places the shards of a cluster. Each shard's leader asks this crate about *its own*
//! shard, every half second or so, with what gossip tells of the nodes; that may be old. All
//! leaders decide at once and do not talk about it. So each call is one decision without memory,
//! and what many of them come to together is the work of arithmetic:
//!
//! ```text
//!        gossip: 41, 12, 26 … replicas            the leader of shard 9
//!                      │                                   │
//!                 Nodes::new                  Shard {replicas, voters, wanted …}
//!                      └───────────────┬───────────────────┘
//!                                   decide ──► Decision {add: [node 9], remove: [replica 4], why}
//!                                   target   ──► replica 5, for node 7 leads more than its share
//! ```
//!
//! # In which order
//! | | reason | example |
//! |---|---|---|
//! | 1 | call off | a learner's node died: it will never catch up |
//! | 2 | wait | while the shard is joint, unsettled, or has a learner, nothing else is begun |
//! | 3 | full strength | a voter's node is dead; three are wanted and there is one; five are too many |
//! | 4 | part | two replicas share a failure domain, and a node in a free one is there |
//! | 5 | even out | a node holds 41 replicas, another 12 ([`Policy::Balanced`]) |
//! | | or put in place | a node joined that is nearer to the shard's point (the other policies) |
//!
//! # How a hundred leaders do not all run to one node
//! Let a node hold `n` replicas, `e` of them above the mean. If each leader with a replica there
//! moved it with probability `e / n`, about `e` would move of those that decide at the same moment,
//! and not `n`. Where to is drawn as well, with weights by how much each node lacks: so a node that
//! lacks four gets about four. As loads are known late, only an eighth of that is done at a time
//! (`chance`). What remains is noise, which the next decisions see. Chance follows from
//! [`PlacementSettings::salt`], the shard, and nothing else.
//!
//! # Why it comes to rest
//! Each node's load is a point: its bytes and its replicas, both divided by the mean. A move is
//! made only if it brings the sum of squared distances from the mean down by a margin
//! (`measure`), and only from or to a node beyond the band. So, once gossip tells the truth, no
//! move is ever undone, and a cluster that is even stays as it is.
//!
//! # Invariants
//! 1. A decision never adds a replica on a node that has one, is gone, or takes none.
//! 2. After a decision the number of voters is odd, wherever nodes and replicas allow it; it falls
//!    below [`Shard::wanted`] only if too few nodes are left.
//! 3. A decision for evenness never makes a failure domain hold more of a shard than before.
//! 4. Equal arguments give equal decisions.
//!
//! # What it does not know
//! How replicas are moved (the shard's leader does that by learner, snapshot and joint change), how
//! fast (rates and pauses are the driver's, but for [`led_shards::AT_ONCE`]), who is alive
//! (membership), what a key is.
//!
//! # Caveats
//! - Old loads make leaders overshoot. A node should tell of replicas on their way to it as if
//!   they had come, and a driver should let a shard rest a while after each move.
//! - Replicas are placed by bytes and numbers. How often shards are asked counts for who leads
//!   them, and only where much is asked ([`transfer_target`](transfer_target())): a leader does
//!   nearly all of the work.
//! - Only one replica is moved at a time, never two exchanged: shards larger than what two nodes
//!   differ by stay where they are.
//! - Leaders are evened out among the nodes of one shard only: between nodes that share no shard,
//!   what is left may be two or three.
//!
//! # Where to start
//! [`decide`](decide()), then `strength`, `part`, `even`; [`transfer_target`](transfer_target())
//! for leaders; [`Policy`] for where to. [`led`] is about all shards that a node leads, and is what
//! drivers call; what they tell of nodes is [`NodeReport`]. [`prove`] says what the placement that
//! came of it survives. [`hot`] is about one shard alone: whether it is asked too often, and where
//! it should be cut.

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
