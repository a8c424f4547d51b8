//! Which replica should move so that nodes are more equal, or are where the policy wants them?
//!
//! **Even.** For each of the shard's nodes there is a set of nodes that could have the replica in
//! its place: none of its own, domains as they are. The mean of these (and of the node itself) is
//! the *level* that they could come to; it is the mean of the cluster where domains forbid
//! nothing. What the node has above its level, in shards of this size, is what should leave it.
//!
//! ```text
//!      41                    level 26: 15 too many on node 7. Each of the leaders of its 41
//!      ██                    replicas moves its own with probability 15 / 41, and most often
//!      ██  26  26            to node 9, which lacks 14
//!   ───██──██──██──────
//!      ██  ██  ██  12
//!      ██  ██  ██  ██
//!       7   8   6   9
//! ```
//!
//! **In place.** A policy that fixes a shard's nodes by its place moves one replica at a time from
//! a node that is not among them to one that is.

use crate::chance::Chance;
use crate::decide::Plan;
use crate::measure::{Measure, Rank};
use crate::nodes::Site;
use crate::policy::balanced;
use crate::view::{View, Voter};
use crate::why::{Load, Why};

/// A replica that might move.
struct Move<'n> {
    from: Voter<'n>,
    site: &'n Site,
    /// How many shards of this size its node has above the level.
    over: f64,
    level: Measure,
    /// Where it would be better off.
    targets: Vec<&'n Site>,
}

pub(crate) fn even(view: &View<'_>, chance: &mut Chance) -> Option<Plan> {
    if view.nodes.are_even(view.settings.band) {
        return None;
    }
    let candidates = view.candidates();
    let moves: Vec<Move<'_>> =
        view.voters.iter().filter_map(|voter| possible(view, voter, &candidates)).collect();
    let chosen = if view.settings.damp {
        let part = |m: &Move<'_>| (m.over / f64::from(m.site.node.replicas.max(1))).min(1.0);
        let parts: Vec<f64> = moves.iter().map(part).collect();
        chance.draw(&parts, parts.iter().sum::<f64>().max(1.0)).map(|index| &moves[index])
    } else {
        moves.iter().max_by_key(|m| Rank(m.over))
    }?;
    let to = balanced::pick(view.size, chosen.level, &chosen.targets, chance)?;
    let (from, mean) = (Load::of(&chosen.site.node), view.nodes.mean());
    let why = Why::Even { from, to: Load::of(&to.node), mean };
    Some(Plan { add: vec![to.node.id], remove: vec![chosen.from.replica], why })
}

/// What is to be gained by moving this voter's replica, if anything.
fn possible<'n>(view: &View<'n>, from: &Voter<'n>, candidates: &[&'n Site]) -> Option<Move<'n>> {
    let site = from.site.filter(|site| site.gives())?;
    let mut targets = candidates.to_vec();
    targets.retain(|to| view.keeps_domains(from, to));
    let sum = targets.iter().fold(site.load, |sum, to| sum + to.load);
    let level = sum * (1.0 / (targets.len() + 1) as f64);
    let over = view.size.shards_in(site.load - level);
    let band = view.settings.band;
    let is_full = (site.load - level).is_above(band);
    targets.retain(|to| {
        let is_empty = (level - to.load).is_above(band);
        let differs = view.size.is_worth_moving(site.load - to.load);
        differs && (is_full || is_empty) && !to.node.is_slow
    });
    let is_of_use = over > 0.0 && !targets.is_empty();
    is_of_use.then_some(Move { from: *from, site, over, level, targets })
}

pub(crate) fn put_in_place(view: &View<'_>) -> Option<Plan> {
    let belongs = view.belongs();
    let mut strangers: Vec<&Voter<'_>> =
        view.voters.iter().filter(|voter| !belongs.contains(&voter.node)).collect();
    strangers.sort_by_key(|voter| voter.leads);
    let candidates = view.candidates();
    let free = belongs.iter().filter_map(|id| candidates.iter().find(|to| to.node.id == *id));
    let (from, to) = free
        .flat_map(|to| strangers.iter().map(move |from| (from, to)))
        .find(|(from, to)| view.keeps_domains(from, to))?;
    let why = Why::Place { policy: view.settings.policy, from: from.node, to: to.node.id };
    Some(Plan { add: vec![to.node.id], remove: vec![from.replica], why })
}
