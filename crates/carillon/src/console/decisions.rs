//! What simulated nodes have decided lately about shards that they lead, gathered from their
//! events.

use std::collections::VecDeque;

use api::{
    CutAt, DecisionNode, DecisionOutcomeStatus, DecisionStatus, Deviation, MergeStatus, SplitStatus,
};
use keyspace::{Cut, NodeId};
use node::control::decisions::{DecisionKind, DecisionOutcome, RecordedDecision};
use node::event::{Event, EventKind};
use sim::live::NodeView;

use super::views;

/// Decisions that are kept; one more takes the place of the oldest.
const DECISIONS_MAX: usize = 512;

/// See the module's documentation.
#[derive(Default)]
pub struct Decided(VecDeque<Decision>);

struct Decision {
    node: NodeId,
    at_ms: u64,
    keyspace: Option<Box<str>>,
    what: RecordedDecision,
}

impl Decided {
    /// An event has happened, about this keyspace, at this virtual time.
    pub fn note(&mut self, event: &Event, keyspace: Option<&str>, at_ms: u64) {
        match &event.what {
            EventKind::DecisionMade(what) => {
                if self.0.len() == DECISIONS_MAX {
                    self.0.pop_front();
                }
                self.0.push_back(Decision {
                    node: event.node,
                    at_ms,
                    keyspace: keyspace.map(Into::into),
                    what: (**what).clone(),
                });
            }
            EventKind::DecisionEnded { number, outcome, .. } => {
                let is_it =
                    |one: &&mut Decision| one.node == event.node && one.what.number == *number;
                if let Some(one) = self.0.iter_mut().rev().find(is_it) {
                    one.what.outcome = *outcome;
                }
            }
            _ => {}
        }
    }

    /// All that are kept, the oldest first.
    pub fn shown(&self, nodes: &[NodeView]) -> Vec<DecisionStatus> {
        self.0.iter().map(|one| one.shown(nodes)).collect()
    }
}

impl Decision {
    fn shown(&self, nodes: &[NodeView]) -> DecisionStatus {
        let RecordedDecision { shard, what, why, outcome, .. } = &self.what;
        let node = |id: NodeId| DecisionNode {
            id: views::id(id),
            name: nodes
                .iter()
                .find(|node| node.id == id)
                .map_or_else(|| views::id(id), |node| node.name.clone()),
        };
        let (came, took, achieved) = match outcome {
            DecisionOutcome::UnderWay => (DecisionOutcomeStatus::UnderWay, None, None),
            DecisionOutcome::Done { took, deviation } => {
                (DecisionOutcomeStatus::Done, Some(took.as_millis() as u64), *deviation)
            }
            DecisionOutcome::NotDone => (DecisionOutcomeStatus::NotDone, None, None),
            DecisionOutcome::HandedOn => (DecisionOutcomeStatus::HandedOn, None, None),
        };
        let mut status = DecisionStatus {
            at_ms: self.at_ms,
            shard: shard.0,
            keyspace: self.keyspace.as_deref().map(str::to_owned),
            add: Vec::new(),
            remove: Vec::new(),
            leader: None,
            split: None,
            merge: None,
            why: why.clone(),
            deviation: None,
            came,
            took_ms: took,
            waits: None,
            by: Some(node(self.node)),
        };
        match what {
            DecisionKind::Replicas { add, remove, predicted, .. } => {
                status.add = add.iter().copied().map(node).collect();
                status.remove = remove.iter().map(|replica| replica.0).collect();
                let (before, predicted) = (predicted.before, predicted.after);
                status.deviation = Some(Deviation { before, predicted, achieved });
            }
            DecisionKind::Split { right, at, .. } => {
                let at = cut_at(at);
                status.split = Some(SplitStatus { shard: shard.0, right: right.0, at });
            }
            DecisionKind::Merge { right, .. } => {
                status.merge = Some(MergeStatus { shard: shard.0, right: right.0, moves: false });
            }
            DecisionKind::Leader { node: to, .. } => status.leader = Some(node(*to)),
        }
        status
    }
}

/// Where a shard is cut, as the API has it.
pub fn cut_at(cut: &Cut) -> CutAt {
    match cut {
        Cut::Slot(slot) => CutAt::Slot(*slot),
        Cut::Key(key) => CutAt::Key(String::from_utf8_lossy(key).into_owned()),
        Cut::Number(number) => CutAt::Key(format!("{number:016x}")),
    }
}
