//! A shard among the nodes: its voters, and how many of them each failure domain holds.

use keyspace::{NodeId, ReplicaId};

use crate::chance::Chance;
use crate::measure::Measure;
use crate::nodes::{NodeView, Nodes, Unavailable};
use crate::policy::RetainedReplica;
use crate::shard::{PlacementSettings, Shard};

/// A voter and the node it is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Voter<'a> {
    pub(crate) replica: ReplicaId,
    pub(crate) node: NodeId,
    /// `None` if nothing is known of the node; the voter stays there.
    pub(crate) site: Option<&'a NodeView>,
    pub(crate) leads: bool,
}

impl Voter<'_> {
    /// Why the voter must move, if it must. A leader is not dead, whatever gossip says.
    pub(crate) fn unavailable(&self) -> Option<Unavailable> {
        let unavailable = self.site?.node.unavailable?;
        (unavailable != Unavailable::Dead || !self.leads).then_some(unavailable)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.site.is_none_or(|site| site.node.is_alive)
    }

    pub(crate) fn domain(&self) -> Option<u32> {
        self.site.map(|site| site.domain)
    }
}

/// All that a decision is made from.
pub(crate) struct View<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) shard: &'a Shard<'a>,
    pub(crate) settings: &'a PlacementSettings,
    pub(crate) voters: Vec<Voter<'a>>,
    /// The same voters, as they count for domains.
    pub(crate) retained: Vec<RetainedReplica>,
    /// What one replica of the shard is, in parts of the mean of a node.
    pub(crate) size: Measure,
}

impl<'a> View<'a> {
    /// `None` if a voter is not listed: the descriptor lags behind the group, and will come.
    pub(crate) fn new(
        nodes: &'a Nodes,
        shard: &'a Shard<'a>,
        settings: &'a PlacementSettings,
    ) -> Option<Self> {
        let voter = |replica: &ReplicaId| {
            let (replica, node) = (*replica, shard.node_of(*replica)?);
            Some(Voter { replica, node, site: nodes.site(node), leads: replica == shard.leader })
        };
        let voters: Vec<Voter<'_>> = shard.voters.iter().map(voter).collect::<Option<_>>()?;
        let retained = voters.iter().map(RetainedReplica::from).collect();
        Some(Self { nodes, shard, settings, voters, retained, size: nodes.size(shard.bytes) })
    }

    /// How full a voter's node is, in shards of this size.
    pub(crate) fn fullness(&self, voter: &Voter<'_>) -> f64 {
        voter.site.map_or(0.0, |site| self.size.shards_in(site.load))
    }

    /// The nodes where a new replica may be put.
    pub(crate) fn candidates(&self) -> Vec<&'a NodeView> {
        let holds =
            |site: &NodeView| self.shard.replicas.iter().any(|(_, node)| *node == site.node.id);
        self.nodes.sites().iter().filter(|site| site.takes() && !holds(site)).collect()
    }

    /// Whether a replica may go from one node to another without a domain holding more than the
    /// fullest of the two did.
    pub(crate) fn keeps_domains(&self, from: &Voter<'_>, to: &NodeView) -> bool {
        let (leaves, enters) = (from.domain(), Some(to.domain));
        let held = |domain| in_domain(&self.retained, domain);
        leaves == enters || held(enters) <= held(leaves).saturating_sub(1)
    }

    /// Chooses up to `count` nodes for new replicas, beside those that are kept: first by domains,
    /// then avoiding slow nodes, then by policy.
    pub(crate) fn choose(
        &self,
        retained: &[RetainedReplica],
        candidates: Vec<&NodeView>,
        count: usize,
        chance: &mut Chance,
    ) -> Vec<NodeId> {
        self.choose_by(retained, candidates, count, chance, |site| site.node.is_slow)
    }

    /// The nodes that the policy gives the shard by its place, best first; none if it goes by load.
    /// Slow ones and those that seem down are among them, or replicas would move to and fro.
    pub(crate) fn belongs(&self) -> Vec<NodeId> {
        if !self.settings.policy.is_fixed() {
            return Vec::new();
        }
        let there =
            self.nodes.sites().iter().filter(|site| site.node.unavailable.is_none()).collect();
        let mut chance = Chance::new(self.shard.shard, 0);
        self.choose_by(&[], there, self.shard.wanted_odd(), &mut chance, |_| false)
    }

    fn choose_by(
        &self,
        retained: &[RetainedReplica],
        mut candidates: Vec<&NodeView>,
        count: usize,
        chance: &mut Chance,
        avoids: impl Fn(&NodeView) -> bool,
    ) -> Vec<NodeId> {
        let (mut retained, mut chosen) = (retained.to_vec(), Vec::new());
        while chosen.len() < count {
            let rank = |site: &NodeView| (in_domain(&retained, Some(site.domain)), avoids(site));
            let Some(best) = candidates.iter().map(|site| rank(site)).min() else { break };
            let equal: Vec<&NodeView> =
                candidates.iter().copied().filter(|site| rank(site) == best).collect();
            let policy = self.settings.policy;
            let Some(site) = policy.pick(self, &retained, &equal, chance) else { break };
            chosen.push(site.node.id);
            retained.push(RetainedReplica::from(site));
            candidates.retain(|other| other.node.id != site.node.id);
        }
        chosen
    }
}

/// How many of the kept replicas are in a domain.
pub(crate) fn in_domain(retained: &[RetainedReplica], domain: Option<u32>) -> usize {
    retained.iter().filter(|retained| domain.is_some() && retained.domain == domain).count()
}

/// The kept ones without that on one node.
pub(crate) fn without(retained: &[RetainedReplica], node: NodeId) -> Vec<RetainedReplica> {
    retained.iter().copied().filter(|retained| retained.node != node).collect()
}
