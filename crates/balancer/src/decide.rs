//! What should a shard's leader do about its replicas now?

use keyspace::{NodeId, ReplicaId};

use crate::chance::Chance;
use crate::measure::{BalanceEffect, Measure, deviation};
use crate::nodes::Nodes;
use crate::reason::DecisionReason;
use crate::rebalance::{place_by_policy, plan_rebalance};
use crate::repair::repair;
use crate::shard::{PlacementSettings, Shard};
use crate::spread::part;
use crate::view::View;

/// A change of a shard's replicas, in one joint step.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Nodes that get a new replica each.
    pub add: Vec<NodeId>,
    /// Replicas that leave as the new ones begin to vote. The leader's own may be among them.
    pub remove: Vec<ReplicaId>,
    /// Why.
    pub why: DecisionReason,
    /// What it will do for evenness.
    pub effect: BalanceEffect,
}

/// A decision before its effect is known.
pub(crate) struct Plan {
    pub(crate) add: Vec<NodeId>,
    pub(crate) remove: Vec<ReplicaId>,
    pub(crate) why: DecisionReason,
}

/// What a shard's leader should do now; `None`: nothing. The front page of the crate has the order
/// of reasons.
pub fn decide(nodes: &Nodes, shard: &Shard<'_>, settings: &PlacementSettings) -> Option<Decision> {
    let plan = remove_stuck_learner(nodes, shard).or_else(|| begin(nodes, shard, settings))?;
    let effect = effect(nodes, shard, &plan);
    let Plan { add, remove, why } = plan;
    Some(Decision { add, remove, why, effect })
}

/// A learner whose node is gone will never catch up, and nothing else is begun while it is there.
fn remove_stuck_learner(nodes: &Nodes, shard: &Shard<'_>) -> Option<Plan> {
    shard.learners.iter().find_map(|replica| {
        let node = shard.node_of(*replica)?;
        let unavailable = nodes.get(node)?.unavailable?;
        Some(Plan {
            add: vec![],
            remove: vec![*replica],
            why: DecisionReason::RemoveLearner { node, unavailable },
        })
    })
}

fn begin(nodes: &Nodes, shard: &Shard<'_>, settings: &PlacementSettings) -> Option<Plan> {
    if shard.is_joint || !shard.is_settled || !shard.learners.is_empty() {
        return None;
    }
    let view = View::new(nodes, shard, settings)?;
    let mut chance = Chance::new(shard.shard, settings.salt);
    repair(&view, &mut chance).or_else(|| part(&view, &mut chance)).or_else(|| {
        match (settings.balance, settings.policy.is_fixed()) {
            (false, _) => None,
            (true, true) => place_by_policy(&view),
            (true, false) => plan_rebalance(&view, &mut chance),
        }
    })
}

/// The deviation over the nodes that take replicas, before and after.
fn effect(nodes: &Nodes, shard: &Shard<'_>, plan: &Plan) -> BalanceEffect {
    let size = nodes.size(shard.bytes);
    let left: Vec<NodeId> = plan.remove.iter().filter_map(|r| shard.node_of(*r)).collect();
    let takers = || nodes.sites().iter().filter(|site| site.takes());
    let before: Vec<Measure> = takers().map(|site| site.load).collect();
    let after: Vec<Measure> = takers()
        .map(|site| {
            let changes = |list: &[NodeId]| f64::from(u8::from(list.contains(&site.node.id)));
            site.load + size * (changes(&plan.add) - changes(&left))
        })
        .collect();
    BalanceEffect { before: deviation(&before), after: deviation(&after) }
}
