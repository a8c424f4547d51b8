//! What holds for every decision, whatever gossip says.

use std::collections::BTreeSet;

use balancer::{
    DecisionReason, Node, Nodes, PlacementSettings, Policy, Shard, Unavailable, decide,
    transfer_target,
};
use keyspace::{NodeId, ReplicaId, ShardId};
use proptest::prelude::*;

fn node(id: u64) -> impl Strategy<Value = Node> {
    let unavailable = prop_oneof![
        6 => Just(None),
        1 => Just(Some(Unavailable::Dead)),
        1 => Just(Some(Unavailable::Draining)),
        1 => Just(Some(Unavailable::Removed)),
    ];
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.8), prop::bool::weighted(0.1));
    let loads =
        prop_oneof![(0..9u32, 0..9u32, 0..9u64 << 28), (any::<u32>(), any::<u32>(), any::<u64>()),];
    (prop::sample::select(vec!["", "a", "b", "c"]), flags, unavailable, loads).prop_map(
        move |(domain, (takes, is_alive, is_slow), unavailable, (replicas, leaders, bytes))| Node {
            id: NodeId(id),
            domain: domain.into(),
            takes,
            unavailable,
            is_alive,
            is_slow,
            replicas,
            leaders,
            bytes,
            requests: bytes as u32,
        },
    )
}

/// A shard, owned.
#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<Node>,
    replicas: Vec<(ReplicaId, NodeId)>,
    learners: usize,
    is_joint: bool,
    is_settled: bool,
    wanted: usize,
    bytes: u64,
    settings: PlacementSettings,
}

fn cases() -> impl Strategy<Value = Case> {
    let nodes: Vec<_> = (1..9).map(node).collect();
    let replicas = prop::sample::subsequence((1..11u64).collect::<Vec<_>>(), 1..8);
    let rare = || prop::bool::weighted(0.1);
    let policy =
        prop::sample::select(vec![Policy::Balanced, Policy::Successors, Policy::Symmetric]);
    let settings = (policy, any::<(bool, u64, bool)>());
    (nodes, replicas, rare(), rare(), rare(), 0..8usize, any::<u64>(), settings).prop_map(
        |(
            nodes,
            on,
            learns,
            is_joint,
            unsettled,
            wanted,
            bytes,
            (policy, (balance, salt, damps_moves)),
        )| {
            let replicas: Vec<_> =
                (1..).zip(on).map(|(replica, node)| (ReplicaId(replica), NodeId(node))).collect();
            let learners = usize::from(learns && replicas.len() > 1);
            let settings = PlacementSettings { policy, balance, band: 0.05, salt, damps_moves };
            let is_settled = !unsettled;
            Case { nodes, replicas, learners, is_joint, is_settled, wanted, bytes, settings }
        },
    )
}

impl Case {
    fn with<T>(&self, then: impl FnOnce(&Shard<'_>) -> T) -> T {
        let all: Vec<ReplicaId> = self.replicas.iter().map(|(replica, _)| *replica).collect();
        let (voters, learners) = all.split_at(all.len() - self.learners);
        then(&Shard {
            shard: ShardId(7),
            place: 1 << 63,
            replicas: &self.replicas,
            voters,
            learners,
            is_joint: self.is_joint,
            is_settled: self.is_settled,
            wanted: self.wanted,
            bytes: self.bytes,
            leader: all[0],
            requests: (self.bytes % 20_000) as u32,
        })
    }

    fn node(&self, replica: ReplicaId) -> NodeId {
        self.replicas.iter().find(|(id, _)| *id == replica).expect("listed").1
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_decision_breaks_a_rule(case in cases()) {
        let nodes = Nodes::new(case.nodes.clone());
        let decided = case.with(|shard| decide(&nodes, shard, &case.settings));
        prop_assert_eq!(&decided, &case.with(|shard| decide(&nodes, shard, &case.settings)));
        let Some(decision) = decided else { return Ok(()) };

        // A leader is not dead, whatever gossip says.
        let leads = case.replicas[0].1;
        let unavailable = |id: NodeId| {
            let unavailable = nodes.get(id).and_then(|node| node.unavailable);
            unavailable.filter(|unavailable| id != leads || *unavailable != Unavailable::Dead)
        };
        prop_assert!(!decision.add.is_empty() || !decision.remove.is_empty());
        if let DecisionReason::RemoveLearner { node, .. } = decision.why {
            prop_assert!(case.learners > 0 && decision.add.is_empty());
            prop_assert!(unavailable(node).is_some());
            prop_assert_eq!(case.node(decision.remove[0]), node);
            return Ok(());
        }
        prop_assert!(!case.is_joint && case.is_settled && case.learners == 0);

        // New ones: apart, on nodes that are there and take them.
        let held: BTreeSet<NodeId> = case.replicas.iter().map(|(_, node)| *node).collect();
        let added: BTreeSet<NodeId> = decision.add.iter().copied().collect();
        prop_assert!(added.len() == decision.add.len() && added.is_disjoint(&held));
        for id in &added {
            let node = nodes.get(*id).expect("known");
            prop_assert!(node.takes && node.is_alive && node.unavailable.is_none());
        }
        // Those that leave: each once, each a replica.
        let left: BTreeSet<NodeId> = decision.remove.iter().map(|r| case.node(*r)).collect();
        prop_assert_eq!(left.len(), decision.remove.len());

        // How many there are then.
        let voters = held.len();
        let wanted = (case.wanted.max(1) - 1) | 1;
        let after = voters + added.len() - left.len();
        prop_assert!(after % 2 == 1 || after == 2 && voters == 2, "{} voters", after);
        let healthy = left.iter().filter(|id| unavailable(**id).is_none()).count();
        if after < wanted && after < voters {
            // Only the dead have left, or what makes the number even.
            let is_dead = |id: &NodeId| unavailable(*id) == Some(Unavailable::Dead);
            let others = left.iter().filter(|id| !is_dead(id)).count();
            prop_assert!(others <= added.len() + 1, "{:?}", decision);
        }
        match decision.why {
            DecisionReason::Rebalance { .. } | DecisionReason::Place { .. } => {
                prop_assert!(case.settings.balance);
                prop_assert!(added.len() == 1 && healthy == 1);
            }
            DecisionReason::SpreadDomains { .. } => {
                prop_assert!(added.len() == 1 && left.len() == 1);
            }
            DecisionReason::Shrink { .. } => prop_assert!(after < voters && healthy == left.len()),
            DecisionReason::Grow { .. } => prop_assert!(after > voters && after <= wanted),
            DecisionReason::Replace { .. } | DecisionReason::RemoveLearner { .. } => {
                prop_assert!(left.len() > healthy);
            }
        }
        if matches!(decision.why, DecisionReason::Rebalance { .. }) {
            let effect = decision.effect;
            let both_take = left.iter().all(|id| nodes.get(*id).is_some_and(|node| node.takes));
            prop_assert!(!both_take || effect.after < effect.before, "{}", effect);
        }
        prop_assert!(!decision.why.text(&|node| node.to_string()).is_empty());
    }

    #[test]
    fn no_transfer_target_is_unavailable(case in cases()) {
        let nodes = Nodes::new(case.nodes.clone());
        let Some((target, why)) =
            case.with(|shard| transfer_target(&nodes, shard, &case.replicas, &case.settings))
        else {
            return Ok(());
        };
        let node = nodes.get(case.node(target)).expect("known");
        prop_assert!(node.is_alive && !node.is_slow && node.unavailable.is_none());
        prop_assert!(!case.is_joint);
        prop_assert!(target != case.replicas[0].0);
        prop_assert!(!why.text(&|node| node.to_string()).is_empty());
    }
}

#[test]
fn a_learner_on_a_dead_node_is_called_off_even_while_joint() {
    let node = |id, unavailable| Node {
        id: NodeId(id),
        takes: true,
        is_alive: true,
        unavailable,
        ..Node::default()
    };
    let nodes = Nodes::new(vec![node(1, None), node(2, Some(Unavailable::Dead)), node(3, None)]);
    let ids = [1, 2].map(|id| (ReplicaId(id), NodeId(id)));
    let shard = Shard {
        shard: ShardId(1),
        place: 0,
        replicas: &ids,
        voters: &[ReplicaId(1)],
        learners: &[ReplicaId(2)],
        is_joint: true,
        is_settled: false,
        wanted: 3,
        bytes: 0,
        leader: ReplicaId(1),
        requests: 0,
    };
    let decision = decide(&nodes, &shard, &PlacementSettings::default()).expect("a call");
    assert_eq!((decision.add, decision.remove), (vec![], vec![ReplicaId(2)]));
    let learners_node = [(ReplicaId(1), NodeId(1)), (ReplicaId(2), NodeId(3))];
    let waiting = Shard { replicas: &learners_node, ..shard };
    assert_eq!(decide(&nodes, &waiting, &PlacementSettings::default()), None);
}
