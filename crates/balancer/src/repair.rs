//! How many voters should a shard have, and which of them must move?
//!
//! As many as its keyspace wants, on nodes that are not leaving. Where nodes are too few, as many
//! as there are, but an odd number: an even one survives no more failures than the odd one below
//! it, and needs more answers.
//!
//! | wanted | voters | nodes that may take one | becomes |
//! |---|---|---|---|
//! | 3 | a | b, c | a b c at once: never two |
//! | 3 | a | b | stays a |
//! | 3 | a b c, c dead | d | a b d |
//! | 3 | a b c, c dead | none | stays: two survive no more than two of three |
//! | 5 | a b c d e, d and e dead | none | a b c: survives one more, the five none |
//! | 5 | a b c d e, d and e dead | f | a b c f d: the one that died stays to make it odd |
//! | 3 | a b c, c draining | none | stays until a node is there |
//! | 3 | a b c d | any | one leaves: out of a shared domain, then from the fullest node |

use std::cmp::Reverse;

use keyspace::{NodeId, ReplicaId};

use crate::chance::Chance;
use crate::decide::Plan;
use crate::measure::Rank;
use crate::nodes::Unavailable;
use crate::policy::RetainedReplica;
use crate::reason::DecisionReason;
use crate::view::{View, Voter, in_domain};

/// How many of whom there will be.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    /// Replicas on new nodes.
    add: usize,
    /// Voters on nodes that are not gone, who stay.
    healthy: usize,
    /// Voters on draining or removed nodes, who stay for want of others.
    leaving: usize,
    /// Voters on dead nodes, who stay to make the number odd.
    dead: usize,
}

pub(crate) fn repair(view: &View<'_>, chance: &mut Chance) -> Option<Plan> {
    let wanted = view.shard.wanted_odd();
    let (mut unavailable, mut healthy): (Vec<Voter<'_>>, Vec<_>) =
        view.voters.iter().partition(|voter| voter.unavailable().is_some());
    if healthy.len() == wanted && unavailable.is_empty() {
        return None;
    }
    // Those who still vote come first; so does the leader.
    unavailable.sort_by_key(|voter| (voter.unavailable(), !voter.leads));
    let leaving =
        unavailable.iter().filter(|voter| voter.unavailable() != Some(Unavailable::Dead)).count();
    let dead = unavailable.split_off(leaving);
    let candidates = view.candidates();
    let numbers = numbers(wanted, candidates.len(), healthy.len(), leaving, dead.len());

    let mut left: Vec<Voter<'_>> = unavailable.split_off(numbers.leaving);
    left.extend(&dead[numbers.dead..]);
    let mut remove: Vec<ReplicaId> = left.iter().map(|voter| voter.replica).collect();
    let belongs = view.belongs();
    while healthy.len() > numbers.healthy {
        remove.push(healthy.remove(surplus(view, &belongs, &healthy)).replica);
    }
    remove.sort_unstable();

    let retained: Vec<RetainedReplica> =
        healthy.iter().chain(&unavailable).map(RetainedReplica::from).collect();
    let add = view.choose(&retained, candidates, numbers.add, chance);
    let from = view.voters.len();
    let to = from + add.len() - remove.len();
    let why = match (left.is_empty(), add.is_empty(), remove.is_empty()) {
        (false, _, _) => {
            let unavailable =
                left.iter().filter_map(|voter| Some((voter.node, voter.unavailable()?)));
            DecisionReason::Replace { unavailable: unavailable.collect(), by: add.clone() }
        }
        (true, false, _) => DecisionReason::Grow { from, to, wanted },
        (true, true, false) => DecisionReason::Shrink { from, to, wanted },
        (true, true, true) => return None,
    };
    Some(Plan { add, remove, why })
}

fn numbers(wanted: usize, free: usize, healthy: usize, leaving: usize, dead: usize) -> Numbers {
    let add = wanted.saturating_sub(healthy).min(free);
    let stay = healthy.min(wanted);
    let missing = wanted - add - stay;
    let mut numbers = Numbers { add, healthy: stay, leaving: leaving.min(missing), dead: 0 };
    let total = add + stay + numbers.leaving;
    if !total.is_multiple_of(2) {
        return numbers;
    }
    // An even number lies below `wanted`, so all that are free and not dead are in it already.
    let now = healthy + leaving + dead;
    if dead > 0 {
        numbers.dead = 1;
    } else if numbers.leaving > 0 && total > now.min(3) {
        numbers.leaving -= 1;
    } else if add > 0 {
        numbers.add -= 1;
    } else if total > 3 {
        numbers.healthy -= 1;
    }
    numbers
}

/// The index of the voter that a shard with too many can best do without.
fn surplus(view: &View<'_>, belongs: &[NodeId], voters: &[Voter<'_>]) -> usize {
    let retained: Vec<RetainedReplica> = voters.iter().map(RetainedReplica::from).collect();
    // Never the leader's own while there are others.
    let worth = |voter: &Voter<'_>| {
        let alone = Reverse(in_domain(&retained, voter.domain()));
        let is_in_place = belongs.contains(&voter.node);
        let room = Rank(-view.fullness(voter));
        (voter.leads, voter.is_alive(), alone, is_in_place, room)
    };
    let least = (0..voters.len()).min_by_key(|index| worth(&voters[*index]));
    least.expect("asked only with more voters than are wanted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_front_page_says() {
        let of = |wanted, free, healthy, leaving, dead| {
            let numbers = numbers(wanted, free, healthy, leaving, dead);
            (numbers.add, numbers.healthy, numbers.leaving, numbers.dead)
        };
        assert_eq!(of(3, 2, 1, 0, 0), (2, 1, 0, 0));
        assert_eq!(of(3, 1, 1, 0, 0), (0, 1, 0, 0));
        assert_eq!(of(3, 1, 2, 0, 1), (1, 2, 0, 0));
        assert_eq!(of(3, 0, 2, 0, 1), (0, 2, 0, 1));
        assert_eq!(of(5, 0, 3, 0, 2), (0, 3, 0, 0));
        assert_eq!(of(5, 1, 3, 0, 2), (1, 3, 0, 1));
        assert_eq!(of(3, 0, 2, 1, 0), (0, 2, 1, 0));
        assert_eq!(of(3, 9, 4, 0, 0), (0, 3, 0, 0));
        // One replica on a node that drains, one node to go to: it goes, though three are wanted.
        assert_eq!(of(3, 1, 0, 1, 0), (1, 0, 0, 0));
        // Two, one of them draining, and nowhere to go: both stay.
        assert_eq!(of(3, 0, 1, 1, 0), (0, 1, 1, 0));
        assert_eq!(of(5, 0, 4, 0, 0), (0, 3, 0, 0));
    }

    #[test]
    fn voter_counts_keep_healthy_replicas() {
        let all = (0..5).map(|half| 2 * half + 1).flat_map(|wanted| {
            (0..6).flat_map(move |free| (0..8).map(move |healthy| (wanted, free, healthy)))
        });
        for (wanted, free, healthy) in all {
            for (leaving, dead) in (0..4).flat_map(|l| (0..4).map(move |d| (l, d))) {
                let n = numbers(wanted, free, healthy, leaving, dead);
                let total = n.add + n.healthy + n.leaving + n.dead;
                let now = healthy + leaving + dead;
                let case = format!("{wanted} {free} {healthy} {leaving} {dead}: {n:?}");
                assert!(n.add <= free && n.healthy <= healthy, "{case}");
                assert!(n.leaving <= leaving && n.dead <= dead, "{case}");
                assert!(total <= wanted, "{case}");
                // Even only where two hold all there is.
                assert!(!total.is_multiple_of(2) || total == now && total <= 2, "{case}");
                // All that are there and can vote, less one to be odd.
                let can = (healthy + leaving + free).min(wanted);
                assert!(total - n.dead + 1 >= can.min(total + 1), "{case}");
                assert!(total == wanted || total - n.dead + 1 >= can, "{case}");
            }
        }
    }
}
