//! Should a shard's leader hand over, and to whom?
//!
//! It must if its node is to be left, or is slow: then to whom of the others leads least. It should
//! if its node leads more shards than the mean of the shard's nodes by more than the band, and one
//! of them at least two fewer. Like replicas, leaders move by chance: of `n` on a node with `e` too
//! many each is handed over with probability `e / n` times the pace.

use keyspace::{NodeId, ReplicaId};

use crate::chance::{Chance, PACE};
use crate::nodes::{Gone, Node, Nodes};
use crate::policy::balanced;
use crate::shard::{Settings, Shard};

/// Why another replica should lead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WhyLeader {
    /// The leader's node must be left.
    Gone {
        /// Which node.
        node: NodeId,
        /// What is with it.
        gone: Gone,
    },
    /// The leader's node is slow.
    Slow {
        /// Which node.
        node: NodeId,
    },
    /// The leader's node leads more than its part.
    Uneven {
        /// Which node.
        node: NodeId,
        /// How many shards it leads.
        leaders: u32,
        /// The node of the heir.
        to: NodeId,
        /// How many shards that one leads.
        to_leaders: u32,
        /// The mean of those of the shard's nodes that may lead.
        mean: f64,
    },
}

impl WhyLeader {
    /// In words, with nodes called as `name` says.
    pub fn words(&self, name: &dyn Fn(NodeId) -> String) -> String {
        match self {
            WhyLeader::Gone { node, gone } => format!("{} {gone}", name(*node)),
            WhyLeader::Slow { node } => format!("{} is slow", name(*node)),
            WhyLeader::Uneven { node, leaders, to, to_leaders, mean } => format!(
                "{} leads {leaders} shards, {} {to_leaders}; the mean is {mean:.1}",
                name(*node),
                name(*to)
            ),
        }
    }
}

/// Which of the candidates should lead from now on, if not the leader. Candidates are replicas
/// that could lead at once: voters that have nearly all of the log.
pub fn heir(
    nodes: &Nodes,
    shard: &Shard<'_>,
    candidates: &[(ReplicaId, NodeId)],
    settings: &Settings,
) -> Option<(ReplicaId, WhyLeader)> {
    if shard.is_joint {
        return None;
    }
    let own = nodes.get(shard.node_of(shard.leader)?)?;
    let fit = |(replica, node): &(ReplicaId, NodeId)| {
        let node = nodes.get(*node).filter(|node| node.id != own.id && may_lead(node))?;
        shard.voters.contains(replica).then_some((*replica, node))
    };
    let fit: Vec<(ReplicaId, &Node)> = candidates.iter().filter_map(fit).collect();
    let mut chance = Chance::new(shard.shard, settings.salt);

    let gone = own.gone.filter(|gone| *gone != Gone::Dead);
    let must = match (gone, own.is_slow) {
        (Some(gone), _) => Some(WhyLeader::Gone { node: own.id, gone }),
        (None, true) => Some(WhyLeader::Slow { node: own.id }),
        (None, false) => None,
    };
    if let Some(why) = must {
        let mean = mean(fit.iter().map(|(_, node)| *node));
        let lacks = fit.iter().map(|(_, node)| mean - f64::from(node.leaders));
        return balanced::draw(lacks, &mut chance).map(|index| (fit[index].0, why));
    }
    if !settings.balance || !shard.is_settled {
        return None;
    }
    uneven(own, fit, settings, &mut chance)
}

fn uneven(
    own: &Node,
    mut fit: Vec<(ReplicaId, &Node)>,
    settings: &Settings,
    chance: &mut Chance,
) -> Option<(ReplicaId, WhyLeader)> {
    fit.retain(|(_, node)| node.takes);
    let mean = mean(fit.iter().map(|(_, node)| *node).chain([own]));
    let leaders = f64::from(own.leaders);
    let part = PACE * (leaders - mean) / leaders.max(1.0);
    if leaders <= mean * (1.0 + settings.band) || settings.damp && chance.part() >= part {
        return None;
    }
    fit.retain(|(_, node)| own.leaders.saturating_sub(node.leaders) >= 2);
    let lacks = fit.iter().map(|(_, node)| mean - f64::from(node.leaders));
    let (replica, to) = fit[balanced::draw(lacks, chance)?];
    let (node, leaders) = (own.id, own.leaders);
    let why = WhyLeader::Uneven { node, leaders, to: to.id, to_leaders: to.leaders, mean };
    Some((replica, why))
}

fn may_lead(node: &Node) -> bool {
    node.is_alive && node.gone.is_none() && !node.is_slow
}

fn mean<'n>(nodes: impl Iterator<Item = &'n Node>) -> f64 {
    let (sum, count) =
        nodes.fold((0.0, 0.0), |(sum, count), node| (sum + f64::from(node.leaders), count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
