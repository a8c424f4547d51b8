//! Decisions that this node made about shards, and would make now: `/v1/decisions`.

use keyspace::NodeId;
use node::control::decisions::{DecisionKind, DecisionOutcome, RecordedDecision};

use super::NodeApi;
use super::splits::shown;
use crate::cluster::MemberInfo;
use crate::runtime::boot_nanos;
use crate::runtime::requests;
use crate::runtime::survey::name_of;
use api::{
    DecisionNode, DecisionOutcomeStatus, DecisionStatus, Decisions, Deviation, MergeStatus,
    SplitStatus,
};

impl NodeApi {
    /// Recent decisions; or, with `dry`, those that the node would make with `balance` on.
    pub(super) fn show_decisions(&self, dry: bool) -> Decisions {
        let members = self.runtime.members();
        let decisions = match dry {
            true => {
                let would = requests::would_place(&self.runtime).into_iter();
                would
                    .map(|would| DecisionStatus {
                        came: DecisionOutcomeStatus::Dry,
                        waits: would.waits,
                        ..self.decision(&would.decided, &members)
                    })
                    .collect()
            }
            false => {
                let all = self.runtime.events.decisions();
                all.iter().map(|decided| self.decision(decided, &members)).collect()
            }
        };
        Decisions {
            balances: self.runtime.peers.as_ref().is_some_and(|peers| peers.balances),
            decisions,
            silent: Vec::new(),
        }
    }

    fn decision(&self, decided: &RecordedDecision, members: &[MemberInfo]) -> DecisionStatus {
        let RecordedDecision { since, shard, what, why, outcome, .. } = decided;
        let ago_ms = boot_nanos().saturating_sub(*since) / 1_000_000;
        let node = |node: NodeId| DecisionNode {
            id: format!("{:016x}", node.0),
            name: name_of(node, members),
        };
        let (took, achieved) = match outcome {
            DecisionOutcome::Done { took, deviation } => {
                (Some(took.as_millis() as u64), *deviation)
            }
            DecisionOutcome::UnderWay | DecisionOutcome::NotDone | DecisionOutcome::HandedOn => {
                (None, None)
            }
        };
        let status = DecisionStatus {
            at_ms: self.runtime.clock.millis().saturating_sub(ago_ms),
            shard: shard.0,
            keyspace: {
                let routes = self.runtime.routing.routes();
                routes.of_shard(*shard).map(|route| route.keyspace.name.to_string())
            },
            add: Vec::new(),
            remove: Vec::new(),
            leader: None,
            split: None,
            merge: None,
            why: why.clone(),
            deviation: None,
            came: match outcome {
                DecisionOutcome::UnderWay => DecisionOutcomeStatus::UnderWay,
                DecisionOutcome::Done { .. } => DecisionOutcomeStatus::Done,
                DecisionOutcome::NotDone => DecisionOutcomeStatus::NotDone,
                DecisionOutcome::HandedOn => DecisionOutcomeStatus::HandedOn,
            },
            took_ms: took,
            waits: None,
            by: Some(node(self.runtime.identity.node)),
        };
        match what {
            DecisionKind::Replicas { add, remove, predicted, .. } => DecisionStatus {
                add: add.iter().copied().map(node).collect(),
                remove: remove.iter().map(|replica| replica.0).collect(),
                deviation: Some(Deviation {
                    before: predicted.before,
                    predicted: predicted.after,
                    achieved,
                }),
                ..status
            },
            DecisionKind::Split { right, at, .. } => {
                let cut = SplitStatus { shard: shard.0, right: right.0, at: shown(at) };
                DecisionStatus { split: Some(cut), ..status }
            }
            DecisionKind::Merge { right, .. } => {
                let (shard, right) = (shard.0, right.0);
                let taken_in = MergeStatus { shard, right, moves: false };
                DecisionStatus { merge: Some(taken_in), ..status }
            }
            DecisionKind::Leader { node: to, .. } => {
                DecisionStatus { leader: Some(node(*to)), ..status }
            }
        }
    }
}
