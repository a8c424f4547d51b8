//! The nodes, as known, and their mean load.
//!
//! The mean is over the nodes that take replicas. A node that is leaving or dead would draw it to
//! where no node can be.

use std::fmt;

use keyspace::NodeId;

use crate::measure::{BYTES_MEAN_FULL, Measure, deviation};

/// Why the replicas of a node must leave it; in the order of how much is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unavailable {
    /// An operator wants it empty; it serves until it is.
    Draining,
    /// It is no member any more.
    Removed,
    /// It has been down for longer than `dead_after`.
    Dead,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unavailable::Draining => "is draining",
            Unavailable::Removed => "has been removed",
            Unavailable::Dead => "has been dead for longer than dead_after",
        })
    }
}

/// A node as gossip reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Which one.
    pub id: NodeId,
    /// Its failure domain; empty if not known, and then it counts as a domain of its own.
    pub domain: Box<str>,
    /// Whether it may be given replicas: at work, alive, neither cordoned nor draining.
    pub takes: bool,
    /// Why its replicas must leave, if they must.
    pub unavailable: Option<Unavailable>,
    /// Whether it seems alive at this moment. A node may be suspected, and be back at once.
    pub is_alive: bool,
    /// Whether it is slow (a stalled disk is): it should not lead.
    pub is_slow: bool,
    /// Replicas it holds, with those on their way to it.
    pub replicas: u32,
    /// Of these, the ones that lead their shard.
    pub leaders: u32,
    /// Keys and values it holds, with those on their way to it.
    pub bytes: u64,
    /// Requests a second for the shards it leads, as far as it is known.
    pub requests: u32,
}

/// A node with what follows from all of them.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) node: Node,
    /// Equal for nodes of one failure domain, unequal for all others.
    pub(crate) domain: u32,
    /// What it carries, in parts of the mean.
    pub(crate) load: Measure,
}

impl NodeView {
    /// Whether a new replica may be put there.
    pub(crate) fn takes(&self) -> bool {
        self.node.takes && self.node.is_alive && self.node.unavailable.is_none()
    }

    /// Whether a replica there may be asked to give way to evenness.
    pub(crate) fn gives(&self) -> bool {
        self.node.is_alive && self.node.unavailable.is_none()
    }
}

/// What a node that takes replicas carries, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// Replicas.
    pub replicas: f64,
    /// Leaders.
    pub leaders: f64,
    /// Bytes.
    pub bytes: f64,
}

/// All nodes, by rising id.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    sites: Vec<NodeView>,
    mean: Mean,
    /// What one byte and one replica are, in parts of the mean.
    unit: Measure,
    /// The fullest of those that give, and the emptiest of those that take, less the mean.
    highest: Measure,
    lowest: Measure,
}

impl Nodes {
    /// From what gossip tells, in any order. Of two tellings about one node the first counts.
    pub fn new(mut nodes: Vec<Node>) -> Self {
        nodes.sort_by_key(|node| node.id);
        nodes.dedup_by_key(|node| node.id);
        let mean = mean(&nodes);
        let weight = (mean.bytes / BYTES_MEAN_FULL).min(1.0);
        let per = |mean: f64| if mean > 0.0 { 1.0 / mean } else { 0.0 };
        let unit = Measure { bytes: weight.sqrt() * per(mean.bytes), replicas: per(mean.replicas) };

        let domains = domains(&nodes);
        let load = |node: &Node| measure(unit, node.bytes as f64, f64::from(node.replicas));
        let sites: Vec<NodeView> = nodes
            .into_iter()
            .zip(domains)
            .map(|(node, domain)| NodeView { load: load(&node), node, domain })
            .collect();

        let middle = measure(unit, mean.bytes, mean.replicas);
        let apart = |site: &NodeView| site.load - middle;
        let givers = sites.iter().filter(|site| site.gives()).map(apart);
        let highest = givers.fold(Measure::default(), Measure::max);
        let takers = sites.iter().filter(|site| site.takes()).map(apart);
        let lowest = takers.fold(Measure::default(), Measure::min);
        Self { sites, mean, unit, highest, lowest }
    }

    /// What those that take replicas carry on average.
    pub fn mean(&self) -> Mean {
        self.mean
    }

    /// How uneven those are that take replicas, as [`BalanceEffect`](crate::BalanceEffect) measures
    /// it.
    pub fn deviation(&self) -> f64 {
        let takers = self.sites.iter().filter(|site| site.takes());
        deviation(&takers.map(|site| site.load).collect::<Vec<_>>())
    }

    /// A node, if it is known.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.site(id).map(|site| &site.node)
    }

    pub(crate) fn site(&self, id: NodeId) -> Option<&NodeView> {
        let index = self.sites.binary_search_by_key(&id, |site| site.node.id).ok()?;
        Some(&self.sites[index])
    }

    pub(crate) fn sites(&self) -> &[NodeView] {
        &self.sites
    }

    /// The mean, in parts of itself: 1 in each respect that counts.
    pub(crate) fn middle(&self) -> Measure {
        measure(self.unit, self.mean.bytes, self.mean.replicas)
    }

    /// No node that takes replicas carries less, in either respect.
    pub(crate) fn least(&self) -> Measure {
        self.middle() + self.lowest
    }

    /// A replica of so many bytes, in parts of the mean.
    pub(crate) fn size(&self, bytes: u64) -> Measure {
        measure(self.unit, bytes as f64, 1.0)
    }

    /// Whether nobody is beyond the band, so that nothing need move to be even.
    pub(crate) fn are_balanced(&self, band: f64) -> bool {
        !self.highest.is_above(band) && !(self.lowest * -1.0).is_above(band)
    }
}

fn measure(unit: Measure, bytes: f64, replicas: f64) -> Measure {
    Measure { bytes: bytes * unit.bytes, replicas: replicas * unit.replicas }
}

fn mean(nodes: &[Node]) -> Mean {
    let takers =
        || nodes.iter().filter(|node| node.takes && node.is_alive && node.unavailable.is_none());
    let share = 1.0 / takers().count().max(1) as f64;
    let of = |part: fn(&Node) -> f64| takers().map(part).sum::<f64>() * share;
    Mean {
        replicas: of(|node| f64::from(node.replicas)),
        leaders: of(|node| f64::from(node.leaders)),
        bytes: of(|node| node.bytes as f64),
    }
}

/// The number of each node's domain: that of the first node in it.
fn domains(nodes: &[Node]) -> Vec<u32> {
    let mut named: Vec<(&str, u32)> = (0..)
        .zip(nodes)
        .filter(|(_, node)| !node.domain.is_empty())
        .map(|(number, node)| (&*node.domain, number))
        .collect();
    named.sort_unstable();
    let first = |domain| named[named.partition_point(|(name, _)| *name < domain)].1;
    (0..)
        .zip(nodes)
        .map(|(number, node)| if node.domain.is_empty() { number } else { first(&*node.domain) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64, domain: &str) -> Node {
        Node { id: NodeId(id), domain: domain.into(), ..Node::default() }
    }

    #[test]
    fn unknown_domains_are_domains_of_their_own() {
        let all = ["b", "", "a", "b", "", "a"];
        let nodes = Nodes::new((0..).zip(all).map(|(id, domain)| node(id, domain)).collect());
        let domains: Vec<u32> = nodes.sites().iter().map(|site| site.domain).collect();
        assert_eq!(domains, [0, 1, 2, 0, 4, 2]);
    }

    #[test]
    fn node_that_takes_no_replicas_is_not_in_mean() {
        let load =
            |id, takes, bytes| Node { takes, is_alive: true, bytes, replicas: 2, ..node(id, "") };
        let nodes = Nodes::new(vec![
            load(3, false, 900 << 20),
            load(1, true, 100 << 20),
            load(2, true, 300 << 20),
            load(2, true, 0),
        ]);
        assert_eq!(nodes.mean().bytes, f64::from(200 << 20));
        let loads: Vec<f64> = nodes.sites().iter().map(|site| site.load.bytes).collect();
        assert_eq!(loads, [0.5, 1.5, 4.5]);
        assert!(!nodes.are_balanced(0.4) && nodes.get(NodeId(4)).is_none());
    }

    #[test]
    fn few_bytes_weigh_little() {
        let nodes = Nodes::new(vec![
            Node { takes: true, is_alive: true, bytes: 1 << 20, replicas: 1, ..node(1, "") },
            Node { takes: true, is_alive: true, bytes: 1 << 18, replicas: 1, ..node(2, "") },
        ]);
        let middle = nodes.middle();
        assert!((middle.bytes * middle.bytes - 0.625).abs() < 1e-9 && middle.replicas == 1.0);
    }
}
