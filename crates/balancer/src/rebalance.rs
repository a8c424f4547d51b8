//! Which replica should move to balance the nodes, or to follow the policy?
//!
//! **Balanced.** For each of the shard's nodes there is a set of nodes that could have the replica
//! in its place: without a replica, with failure domains as they are. The mean load of these and of
//! the node itself is the *level* that they could come to. Where domains forbid nothing, it is the
//! mean of the cluster. What the node has above its level, in shards of this size, should leave it.
//!
//! ```text
//!      41                    level 26: 15 too many on node 7. Each of the leaders of its 41
//!      ██                    replicas moves its own with probability 15 / 41 · PACE, and most
//!      ██  26  26            often to node 9, which lacks 14
//!   ───██──██──██──────
//!      ██  ██  ██  12
//!      ██  ██  ██  ██
//!       7   8   6   9
//! ```
//!
//! Two nodes that differ by one shard exchange nothing. So where nearly all are equal, many have a
//! little too much and few lack anything. Then leaders hold back: they move less, in the proportion
//! of what the targets lack to what all other nodes have too much. Otherwise those few would be
//! overrun.
//!
//! **In place.** A policy that fixes a shard's nodes by its place moves one replica at a time from
//! a node that is not among them to one that is.

use crate::chance::{Chance, PACE};
use crate::decide::Plan;
use crate::measure::{Measure, Rank};
use crate::nodes::NodeView;
use crate::policy::balanced;
use crate::reason::{DecisionReason, NodeLoad};
use crate::view::{View, Voter};

/// A replica that might move.
struct Move<'n> {
    from: Voter<'n>,
    site: &'n NodeView,
    /// How many shards of this size its node has above the level.
    over: f64,
    /// How likely it should move now, as all others decide now too.
    part: f64,
    level: Measure,
    /// Where it would be better off.
    targets: Vec<&'n NodeView>,
}

pub(crate) fn plan_rebalance(view: &View<'_>, chance: &mut Chance) -> Option<Plan> {
    if view.nodes.are_balanced(view.settings.band) {
        return None;
    }
    let candidates = view.candidates();
    let moves: Vec<Move<'_>> =
        view.voters.iter().filter_map(|voter| possible(view, voter, &candidates)).collect();
    let chosen = if view.settings.damps_moves {
        let parts: Vec<f64> = moves.iter().map(|m| m.part).collect();
        chance.draw(&parts, parts.iter().sum::<f64>().max(1.0)).map(|index| &moves[index])
    } else {
        moves.iter().max_by_key(|m| Rank(m.over))
    }?;
    let to = balanced::pick(view.size, chosen.level, &chosen.targets, chance)?;
    let (from, mean) = (NodeLoad::of(&chosen.site.node), view.nodes.mean());
    let why = DecisionReason::Rebalance { from, to: NodeLoad::of(&to.node), mean };
    Some(Plan { add: vec![to.node.id], remove: vec![chosen.from.replica], why })
}

/// What is to be gained by moving this voter's replica, if anything.
fn possible<'n>(
    view: &View<'n>,
    from: &Voter<'n>,
    candidates: &[&'n NodeView],
) -> Option<Move<'n>> {
    let site = from.site.filter(|site| site.gives())?;
    if !view.size.is_worth_moving(site.load - view.nodes.least()) {
        return None;
    }
    let mut peers = candidates.to_vec();
    peers.retain(|to| view.keeps_domains(from, to));
    peers.push(site);
    let sum = peers.iter().fold(Measure::default(), |sum, peer| sum + peer.load);
    let level = sum * (1.0 / peers.len() as f64);
    let over = |peer: &NodeView| view.size.shards_in(peer.load - level);

    let band = view.settings.band;
    let is_full = (site.load - level).is_above(band);
    let is_target = |to: &&&NodeView| {
        let is_empty = (level - to.load).is_above(band);
        let differs = view.size.is_worth_moving(site.load - to.load);
        differs && (is_full || is_empty) && !to.node.is_slow
    };
    let targets: Vec<&NodeView> = peers.iter().filter(is_target).copied().collect();
    let emptiest = targets.iter().min_by_key(|to| Rank(over(to)))?;

    // What the targets lack, and what all those have too much who may see them as targets as well.
    // Nobody can move less than one shard, so nobody waits for a chance of less than one.
    let lack: f64 = targets.iter().map(|to| (-over(to)).max(0.0)).sum();
    let rivals = peers.iter().filter(|peer| view.size.is_worth_moving(peer.load - emptiest.load));
    let excess: f64 = rivals.map(|peer| over(peer)).filter(|over| *over > 0.0).map(whole).sum();
    let over = over(site);
    let held = f64::from(site.node.replicas.max(1));
    let part = PACE * (whole(over) / held).min(1.0) * (whole(lack) / excess).min(1.0);
    (over > 0.0).then_some(Move { from: *from, site, over, part, level, targets })
}

fn whole(shards: f64) -> f64 {
    shards.max(1.0)
}

pub(crate) fn place_by_policy(view: &View<'_>) -> Option<Plan> {
    let belongs = view.belongs();
    let mut strangers: Vec<&Voter<'_>> =
        view.voters.iter().filter(|voter| !belongs.contains(&voter.node)).collect();
    strangers.sort_by_key(|voter| voter.leads);
    let candidates = view.candidates();
    let free = belongs.iter().filter_map(|id| candidates.iter().find(|to| to.node.id == *id));
    let (from, to) = free
        .flat_map(|to| strangers.iter().map(move |from| (from, to)))
        .find(|(from, to)| view.keeps_domains(from, to))?;
    let why =
        DecisionReason::Place { policy: view.settings.policy, from: from.node, to: to.node.id };
    Some(Plan { add: vec![to.node.id], remove: vec![from.replica], why })
}
