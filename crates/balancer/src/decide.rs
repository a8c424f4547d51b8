//! What should a shard's leader do about its replicas now?

use keyspace::{NodeId, ReplicaId};

use crate::chance::Chance;
use crate::even::{even, put_in_place};
use crate::measure::{Effect, Measure, deviation};
use crate::nodes::Nodes;
use crate::part::part;
use crate::shard::{Settings, Shard};
use crate::strength::full_strength;
use crate::view::View;
use crate::why::Why;

/// A change of a shard's replicas, in one joint step.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Nodes that get a new replica each.
    pub add: Vec<NodeId>,
    /// Replicas that leave as the new ones begin to vote. The leader's own may be among them.
    pub remove: Vec<ReplicaId>,
    /// Why.
    pub why: Why,
    /// What it will do for evenness.
    pub effect: Effect,
}

/// A decision before its effect is known.
pub(crate) struct Plan {
    pub(crate) add: Vec<NodeId>,
    pub(crate) remove: Vec<ReplicaId>,
    pub(crate) why: Why,
}

/// What a shard's leader should do now; `None`: nothing. The front page of the crate has the order
/// of reasons.
pub fn decide(nodes: &Nodes, shard: &Shard<'_>, settings: &Settings) -> Option<Decision> {
    let plan = call_off(nodes, shard).or_else(|| begin(nodes, shard, settings))?;
    let effect = effect(nodes, shard, &plan);
    let Plan { add, remove, why } = plan;
    Some(Decision { add, remove, why, effect })
}

/// A learner whose node is gone will never catch up, and nothing else is begun while it is there.
fn call_off(nodes: &Nodes, shard: &Shard<'_>) -> Option<Plan> {
    shard.learners.iter().find_map(|replica| {
        let node = shard.node_of(*replica)?;
        let gone = nodes.get(node)?.gone?;
        Some(Plan { add: vec![], remove: vec![*replica], why: Why::CallOff { node, gone } })
    })
}

fn begin(nodes: &Nodes, shard: &Shard<'_>, settings: &Settings) -> Option<Plan> {
    if shard.is_joint || !shard.is_settled || !shard.learners.is_empty() {
        return None;
    }
    let view = View::new(nodes, shard, settings)?;
    let mut chance = Chance::new(shard.shard, settings.salt);
    full_strength(&view, &mut chance).or_else(|| part(&view, &mut chance)).or_else(|| {
        match (settings.balance, settings.policy.is_fixed()) {
            (false, _) => None,
            (true, true) => put_in_place(&view),
            (true, false) => even(&view, &mut chance),
        }
    })
}

/// The deviation over the nodes that take replicas, before and after.
fn effect(nodes: &Nodes, shard: &Shard<'_>, plan: &Plan) -> Effect {
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
    Effect { before: deviation(&before), after: deviation(&after) }
}
