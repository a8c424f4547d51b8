//! The input of a decision: a shard, as its leader knows it, and the settings.

use keyspace::{NodeId, ReplicaId, ShardId};

use crate::policy::Policy;

/// A shard as its leader knows it.
#[derive(Clone, Copy, Debug)]
pub struct Shard<'a> {
    /// Which one.
    pub shard: ShardId,
    /// Where it stands on the circle of nodes ([`place_of`](crate::place_of)); of use to
    /// [`Policy::Successors`] and [`Policy::Symmetric`].
    pub place: u64,
    /// All its replicas and their nodes, no node twice.
    pub replicas: &'a [(ReplicaId, NodeId)],
    /// Those that vote.
    pub voters: &'a [ReplicaId],
    /// Those that do not yet.
    pub learners: &'a [ReplicaId],
    /// Whether a change of members is under way.
    pub is_joint: bool,
    /// Whether what the leader knows is agreed, and nothing it began before is on its way: a
    /// split, a merge, a change, a hand-over.
    pub is_settled: bool,
    /// Replicas that its keyspace asks for. Odd; an even number counts as one less, 0 as 1.
    pub wanted: usize,
    /// Keys and values in it.
    pub bytes: u64,
    /// The replica that leads.
    pub leader: ReplicaId,
    /// Requests a second for it.
    pub requests: u32,
}

/// How decisions are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacementSettings {
    /// Where new replicas go.
    pub policy: Policy,
    /// Whether replicas and leaders move only to be even, or to be where the policy wants them.
    /// If not, gone nodes are still left, and shards brought to strength.
    pub balance: bool,
    /// How far from the mean, in parts of it, a node may be before anything moves for that.
    pub band: f64,
    /// What chance follows from: another number at each decision, or what chance forbids once it
    /// forbids for ever.
    pub salt: u64,
    /// Whether to keep in mind that all leaders decide at once (front page of the crate), and so
    /// to do only now and then what would be better. Off to be told what would be.
    pub damps_moves: bool,
}

impl Default for PlacementSettings {
    fn default() -> Self {
        Self { policy: Policy::Balanced, balance: true, band: 0.05, salt: 0, damps_moves: true }
    }
}

impl Shard<'_> {
    /// [`Shard::wanted`], made odd.
    pub(crate) fn wanted_odd(&self) -> usize {
        (self.wanted.max(1) - 1) | 1
    }

    /// The node of a replica, if it is listed.
    pub(crate) fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.replicas.iter().find(|(id, _)| *id == replica).map(|(_, node)| *node)
    }
}
