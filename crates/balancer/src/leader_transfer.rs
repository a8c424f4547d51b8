//! Should a shard's leader transfer its leadership, and to which replica?
//!
//! It must if its node is leaving or slow: then to the node that leads the fewest shards. It should
//! if its node leads more shards than the mean of the shard's nodes by more than the band, and one
//! of them leads at least two fewer. Leaders move by chance, as replicas do. Of `n` leaders on a
//! node with `e` too many, each is transferred with probability `e / n` times the pace, twice the
//! pace of replicas.
//!
//! Above [`BUSY`] requests a second, request rates come first. A shard's leader moves if its node's
//! rate exceeds the mean by more than twice the band, and the target's rate would not. Then no
//! leader moves for the sake of counts if that would make the target's rate exceed this bound.
//!
//! ```text
//!   n1  a 9000, b 2000, c 1000 = 12000/s      mean 7000      c, or b, goes to n2; a never does:
//!   n2  d 1000, e 1000         =  2000/s                     then n2 would get 11000/s
//! ```

use keyspace::{NodeId, ReplicaId};

use crate::chance::{Chance, PACE};
use crate::nodes::{Node, Nodes, Unavailable};
use crate::policy::balanced;
use crate::shard::{PlacementSettings, Shard};

/// Mean requests a second of the leaders on a shard's nodes from which on rates, not counts, are
/// balanced. Below it the estimate from one request in 64 is too vague, and no node is overloaded.
pub const BUSY: f64 = 5_000.0;
/// How much of a node's excess of leaders moves in one round (see [`PACE`]). It is larger, because
/// only this node transfers them, and it knows which transfers are under way.
const LEAD_PACE: f64 = 2.0 * PACE;
/// How much of what a node is asked too often goes elsewhere in one round (see [`PACE`]): who leads
/// a shard knows for sure how often it is asked some ten rounds later.
const BUSY_PACE: f64 = 0.03;
/// A shard for which there is room nowhere moves if the busier of two nodes is then asked less by
/// this part of the mean.
const GAIN: f64 = 0.25;

/// Why another replica should lead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransferReason {
    /// The leader's node must be left.
    NodeUnavailable {
        /// Which node.
        node: NodeId,
        /// What is with it.
        unavailable: Unavailable,
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
        /// The node of the transfer target.
        to: NodeId,
        /// How many shards that one leads.
        to_leaders: u32,
        /// The mean of those of the shard's nodes that may lead.
        mean: f64,
    },
    /// The leader's node is asked more than its part.
    Busy {
        /// Which node.
        node: NodeId,
        /// Requests a second for what it leads.
        requests: u32,
        /// The node of the transfer target.
        to: NodeId,
        /// Requests a second for what that one leads.
        to_requests: u32,
        /// The mean of those of the shard's nodes that may lead.
        mean: f64,
    },
}

impl TransferReason {
    /// Whether the leader could as well stay where it is: another is only better.
    pub fn is_choice(&self) -> bool {
        matches!(self, Self::Uneven { .. } | Self::Busy { .. })
    }

    /// Its text; `name` gives the names of nodes.
    pub fn text(&self, name: &dyn Fn(NodeId) -> String) -> String {
        match self {
            TransferReason::NodeUnavailable { node, unavailable } => {
                format!("{} {unavailable}", name(*node))
            }
            TransferReason::Slow { node } => format!("{} is slow", name(*node)),
            TransferReason::Uneven { node, leaders, to, to_leaders, mean } => format!(
                "{} leads {leaders} shards, {} {to_leaders}; the mean is {mean:.1}",
                name(*node),
                name(*to)
            ),
            TransferReason::Busy { node, requests, to, to_requests, mean } => format!(
                "{} is asked {requests} times a second, {} {to_requests}; the mean is {mean:.0}",
                name(*node),
                name(*to)
            ),
        }
    }
}

/// Which of the candidates should lead from now on, if not the leader. Candidates are replicas
/// that could lead at once: voters that have nearly all of the log.
pub fn transfer_target(
    nodes: &Nodes,
    shard: &Shard<'_>,
    candidates: &[(ReplicaId, NodeId)],
    settings: &PlacementSettings,
) -> Option<(ReplicaId, TransferReason)> {
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

    let unavailable = own.unavailable.filter(|unavailable| *unavailable != Unavailable::Dead);
    let must = match (unavailable, own.is_slow) {
        (Some(unavailable), _) => {
            Some(TransferReason::NodeUnavailable { node: own.id, unavailable })
        }
        (None, true) => Some(TransferReason::Slow { node: own.id }),
        (None, false) => None,
    };
    if let Some(why) = must {
        let mean = mean(fit.iter().map(|(_, node)| f64::from(node.leaders)));
        let lacks = fit.iter().map(|(_, node)| mean - f64::from(node.leaders));
        return balanced::draw(lacks, &mut chance).map(|index| (fit[index].0, why));
    }
    if !settings.balance || !shard.is_settled {
        return None;
    }
    let fit: Vec<(ReplicaId, &Node)> = fit.into_iter().filter(|(_, node)| node.takes).collect();
    let asked = fit.iter().map(|(_, node)| *node).chain([own]).map(|node| f64::from(node.requests));
    let asked =
        RequestLoad { mean: mean(asked), of_shard: shard.requests.into(), band: settings.band };
    busy(own, &fit, &asked, settings, &mut chance)
        .or_else(|| uneven(own, fit, &asked, settings, &mut chance))
}

/// Requests a second.
struct RequestLoad {
    /// For what the shard's nodes lead, on average.
    mean: f64,
    /// For the shard.
    of_shard: f64,
    band: f64,
}

impl RequestLoad {
    fn counts(&self) -> bool {
        self.mean >= BUSY
    }

    /// Whether a node with the shard in addition is not asked much more than others.
    fn fits(&self, node: &Node) -> bool {
        f64::from(node.requests) + self.of_shard <= self.mean * (1.0 + self.band)
    }
}

fn busy(
    own: &Node,
    fit: &[(ReplicaId, &Node)],
    asked: &RequestLoad,
    settings: &PlacementSettings,
    chance: &mut Chance,
) -> Option<(ReplicaId, TransferReason)> {
    let (mean, requests) = (asked.mean, f64::from(own.requests));
    let is_busy = asked.counts() && requests > mean * (1.0 + 2.0 * settings.band);
    let part = BUSY_PACE * (requests - mean) / requests.max(1.0);
    if !is_busy || asked.of_shard < 1.0 || settings.damps_moves && chance.part() >= part {
        return None;
    }
    // A shard that is asked more than there is room for anywhere goes where it leaves both nodes
    // less apart.
    let is_better =
        |node: &Node| f64::from(node.requests) + asked.of_shard + mean * GAIN <= requests;
    let fit: Vec<_> = fit.iter().filter(|(_, n)| asked.fits(n) || is_better(n)).collect();
    let lacks = fit.iter().map(|(_, node)| mean - f64::from(node.requests));
    let (replica, to) = *fit[balanced::draw(lacks, chance)?];
    let (node, requests, to_requests) = (own.id, own.requests, to.requests);
    Some((replica, TransferReason::Busy { node, requests, to: to.id, to_requests, mean }))
}

fn uneven(
    own: &Node,
    mut fit: Vec<(ReplicaId, &Node)>,
    asked: &RequestLoad,
    settings: &PlacementSettings,
    chance: &mut Chance,
) -> Option<(ReplicaId, TransferReason)> {
    let mean = mean(fit.iter().map(|(_, node)| *node).chain([own]).map(|n| f64::from(n.leaders)));
    let leaders = f64::from(own.leaders);
    let part = LEAD_PACE * (leaders - mean) / leaders.max(1.0);
    if leaders <= mean * (1.0 + settings.band) || settings.damps_moves && chance.part() >= part {
        return None;
    }
    fit.retain(|(_, node)| own.leaders.saturating_sub(node.leaders) >= 2);
    fit.retain(|(_, node)| !asked.counts() || asked.fits(node));
    let lacks = fit.iter().map(|(_, node)| mean - f64::from(node.leaders));
    let (replica, to) = fit[balanced::draw(lacks, chance)?];
    let (node, leaders) = (own.id, own.leaders);
    let why = TransferReason::Uneven { node, leaders, to: to.id, to_leaders: to.leaders, mean };
    Some((replica, why))
}

fn may_lead(node: &Node) -> bool {
    node.is_alive && node.unavailable.is_none() && !node.is_slow
}

fn mean(of_nodes: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = of_nodes.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
