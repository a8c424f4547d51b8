//! A shard among the nodes: who votes where, and what a failure domain holds of it.

use keyspace::{NodeId, ReplicaId};

use crate::chance::Chance;
use crate::measure::Measure;
use crate::nodes::{Gone, Nodes, Site};
use crate::policy::Kept;
use crate::shard::{Settings, Shard};

/// A voter and the node it is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Voter<'a> {
    pub(crate) replica: ReplicaId,
    pub(crate) node: NodeId,
    /// `None` if nothing is known of the node, which is no reason to leave it.
    pub(crate) site: Option<&'a Site>,
    pub(crate) leads: bool,
}

impl Voter<'_> {
    /// Why it must leave, if it must. Whoever leads is not dead, whatever gossip says.
    pub(crate) fn gone(&self) -> Option<Gone> {
        let gone = self.site?.node.gone?;
        (gone != Gone::Dead || !self.leads).then_some(gone)
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
    pub(crate) settings: &'a Settings,
    pub(crate) voters: Vec<Voter<'a>>,
    /// The same voters, as they count for domains.
    pub(crate) kept: Vec<Kept>,
    /// What one replica of the shard is, in parts of the mean of a node.
    pub(crate) size: Measure,
}

impl<'a> View<'a> {
    /// `None` if a voter is not listed: the descriptor lags behind the group, and will come.
    pub(crate) fn new(
        nodes: &'a Nodes,
        shard: &'a Shard<'a>,
        settings: &'a Settings,
    ) -> Option<Self> {
        let voter = |replica: &ReplicaId| {
            let (replica, node) = (*replica, shard.node_of(*replica)?);
            Some(Voter { replica, node, site: nodes.site(node), leads: replica == shard.leader })
        };
        let voters: Vec<Voter<'_>> = shard.voters.iter().map(voter).collect::<Option<_>>()?;
        let kept = voters.iter().map(Kept::from).collect();
        Some(Self { nodes, shard, settings, voters, kept, size: nodes.size(shard.bytes) })
    }

    /// How full a voter's node is, in shards of this size.
    pub(crate) fn fullness(&self, voter: &Voter<'_>) -> f64 {
        voter.site.map_or(0.0, |site| self.size.shards_in(site.load))
    }

    /// The nodes where a new replica may be put.
    pub(crate) fn candidates(&self) -> Vec<&'a Site> {
        let holds = |site: &Site| self.shard.replicas.iter().any(|(_, node)| *node == site.node.id);
        self.nodes.sites().iter().filter(|site| site.takes() && !holds(site)).collect()
    }

    /// Whether a replica may go from one node to another without a domain holding more than the
    /// fullest of the two did.
    pub(crate) fn keeps_domains(&self, from: &Voter<'_>, to: &Site) -> bool {
        let (leaves, enters) = (from.domain(), Some(to.domain));
        let held = |domain| in_domain(&self.kept, domain);
        leaves == enters || held(enters) <= held(leaves).saturating_sub(1)
    }

    /// Chooses up to `count` nodes for new replicas, beside those that are kept: first by domains,
    /// then avoiding slow nodes, then by policy.
    pub(crate) fn choose(
        &self,
        kept: &[Kept],
        candidates: Vec<&Site>,
        count: usize,
        chance: &mut Chance,
    ) -> Vec<NodeId> {
        self.choose_by(kept, candidates, count, chance, |site| site.node.is_slow)
    }

    /// The nodes that the policy gives the shard by its place, best first; none if it goes by load.
    /// Slow ones and those that seem down are among them, or replicas would move to and fro.
    pub(crate) fn belongs(&self) -> Vec<NodeId> {
        if !self.settings.policy.is_fixed() {
            return Vec::new();
        }
        let there = self.nodes.sites().iter().filter(|site| site.node.gone.is_none()).collect();
        let mut chance = Chance::new(self.shard.shard, 0);
        self.choose_by(&[], there, self.shard.wanted_odd(), &mut chance, |_| false)
    }

    fn choose_by(
        &self,
        kept: &[Kept],
        mut candidates: Vec<&Site>,
        count: usize,
        chance: &mut Chance,
        avoids: impl Fn(&Site) -> bool,
    ) -> Vec<NodeId> {
        let (mut kept, mut chosen) = (kept.to_vec(), Vec::new());
        while chosen.len() < count {
            let rank = |site: &Site| (in_domain(&kept, Some(site.domain)), avoids(site));
            let Some(best) = candidates.iter().map(|site| rank(site)).min() else { break };
            let equal: Vec<&Site> =
                candidates.iter().copied().filter(|site| rank(site) == best).collect();
            let policy = self.settings.policy;
            let Some(site) = policy.pick(self, &kept, &equal, chance) else { break };
            chosen.push(site.node.id);
            kept.push(Kept::from(site));
            candidates.retain(|other| other.node.id != site.node.id);
        }
        chosen
    }
}

/// How many of the kept replicas are in a domain.
pub(crate) fn in_domain(kept: &[Kept], domain: Option<u32>) -> usize {
    kept.iter().filter(|kept| domain.is_some() && kept.domain == domain).count()
}

/// The kept ones without that on one node.
pub(crate) fn without(kept: &[Kept], node: NodeId) -> Vec<Kept> {
    kept.iter().copied().filter(|kept| kept.node != node).collect()
}
