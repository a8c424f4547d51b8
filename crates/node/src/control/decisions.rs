//! Recent decisions of this node about its shards: why, and with what result.
//!
//! Each decision is an event ([`EventKind::DecisionMade`]), and so is its result
//! ([`EventKind::DecisionEnded`]). Each time the node decides, it looks for the results of its open
//! decisions. Only these are stored here, at most [`OPEN_DECISIONS_MAX`]. The driver remembers both
//! events for a while: `carillon shards --why` shows them
//! ([`Recent::decisions`](crate::event::Recent::decisions)).
//!
//! ```text
//!   change of replicas ────► the generation rises, and the change is settled ──► done, or not
//!   leader transfer ───────► the target leads ──────────────────────────────────► done
//!   split ─────────────────► the right half begins here, or the arc ends there ─► done
//!   merge ─────────────────► the arc ends where the right shard's ended ────────► done
//!                            none of these within OPEN_MAX ─────────────────────► not done
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use balancer::{BalanceEffect, LedShard, Nodes};
use keyspace::{Cut, Generation, NodeId, ReplicaId, ShardId};
use replication::BootNanos;

use crate::event::EventKind;

/// The most open decisions. Beyond it, the oldest ends without a result.
pub const OPEN_DECISIONS_MAX: usize = 256;
/// A decision without a result after so long was not carried out: another node's was, or the
/// shard's group did not accept it.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// Nodes report their load once a second, and gossip spreads it.
const GOSSIP_DELAY: Duration = Duration::from_secs(4);

/// The kind of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum DecisionKind {
    /// The shard gets replicas on these nodes, and these go.
    Replicas {
        /// Nodes.
        add: Vec<NodeId>,
        /// Replicas.
        remove: Vec<ReplicaId>,
        /// How even the nodes are, and were to be.
        predicted: BalanceEffect,
        /// The shard's generation when it was decided.
        generation: Generation,
    },
    /// The shard is split.
    Split {
        /// The new shard, its right half.
        right: ShardId,
        /// The first slot or key of that.
        at: Cut,
        /// The shard's generation when it was decided.
        generation: Generation,
    },
    /// The shard absorbs its right neighbour.
    Merge {
        /// That one, which ends.
        right: ShardId,
        /// The first slot or key behind that.
        end: Cut,
        /// The shard's generation when it was decided.
        generation: Generation,
    },
    /// This replica is to lead.
    Leader {
        /// Which.
        to: ReplicaId,
        /// Where it is.
        node: NodeId,
    },
}

/// The result of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecisionOutcome {
    /// It is not known yet.
    UnderWay,
    /// It was carried out.
    Done {
        /// After so long.
        took: Duration,
        /// How even the nodes were once gossip had told of it; not known sooner.
        deviation: Option<f64>,
    },
    /// It was not carried out.
    NotDone,
    /// Another node leads the shard now, and goes on with it.
    HandedOn,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedDecision {
    /// Its number, on the node that has decided it.
    pub number: u64,
    /// When, by the node's boot clock.
    pub since: BootNanos,
    /// About which shard.
    pub shard: ShardId,
    /// What.
    pub what: DecisionKind,
    /// What people call the nodes that `what` names: those that get a replica, or the lead.
    pub nodes: Vec<String>,
    /// Why.
    pub why: String,
    /// Its result.
    pub outcome: DecisionOutcome,
}

impl RecordedDecision {
    /// Whether it moves replicas to other nodes.
    pub fn moves_replicas(&self) -> bool {
        matches!(self.what, DecisionKind::Replicas { .. })
    }

    fn age(&self, now: BootNanos) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.since))
    }

    fn outcome_of(&self) -> EventKind {
        EventKind::DecisionEnded { number: self.number, shard: self.shard, outcome: self.outcome }
    }
}

/// This node's decisions whose result is not known yet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    open: VecDeque<RecordedDecision>,
    count: u64,
}

impl Decisions {
    /// Gives one its number, and looks at it from now on.
    pub fn add(&mut self, mut decided: RecordedDecision) -> EventKind {
        self.count += 1;
        decided.number = self.count;
        if self.open.len() == OPEN_DECISIONS_MAX {
            self.open.pop_front();
        }
        self.open.push_back(decided.clone());
        EventKind::DecisionMade(Box::new(decided))
    }

    /// The right half of a shard begins here, so its split is done, whatever the half does later.
    /// At most one decision names this half: the catalogue gives out each id once.
    pub fn end_split(&mut self, half: ShardId, now: BootNanos) -> Option<EventKind> {
        let is_split = |what: &DecisionKind| match what {
            DecisionKind::Split { right, .. } => *right == half,
            _ => false,
        };
        self.end_newest_first(is_split, now).into_iter().next()
    }

    /// A shard has absorbed this one here, so its merge is done. The first event is of the newest
    /// attempt, the only one that was carried out.
    pub fn end_merges(&mut self, absorbed: ShardId, now: BootNanos) -> Vec<EventKind> {
        let is_merge = |what: &DecisionKind| match what {
            DecisionKind::Merge { right, .. } => *right == absorbed,
            _ => false,
        };
        self.end_newest_first(is_merge, now)
    }

    /// Ends all open decisions of this kind, the newest first: that one is done, and earlier
    /// attempts are not.
    fn end_newest_first(
        &mut self,
        is_it: impl Fn(&DecisionKind) -> bool,
        now: BootNanos,
    ) -> Vec<EventKind> {
        let is_open = |one: &&mut RecordedDecision| {
            one.outcome == DecisionOutcome::UnderWay && is_it(&one.what)
        };
        let newest_first = self.open.iter_mut().rev().filter(is_open);
        let outcome = newest_first.enumerate().map(|(place, decided)| {
            decided.outcome = match place {
                0 => DecisionOutcome::Done { took: decided.age(now), deviation: None },
                _ => DecisionOutcome::NotDone,
            };
            decided.outcome_of()
        });
        outcome.collect()
    }

    /// Looks for the results of open decisions. `leader_of` names the leader of a shard that
    /// another node leads.
    pub fn review(
        &mut self,
        now: BootNanos,
        led: &[LedShard],
        nodes: &Nodes,
        leader_of: impl Fn(ShardId) -> Option<NodeId>,
    ) -> Vec<EventKind> {
        let mut happened = Vec::new();
        self.open.retain_mut(|decided| {
            let before = decided.outcome;
            match &mut decided.outcome {
                DecisionOutcome::UnderWay => {
                    let led = led.iter().find(|led| led.descriptor.shard == decided.shard);
                    decided.outcome = outcome(decided, now, led, &leader_of);
                }
                DecisionOutcome::Done { took, deviation: unknown @ None }
                    if Duration::from_nanos(now.saturating_sub(decided.since))
                        >= *took + GOSSIP_DELAY =>
                {
                    *unknown = Some(nodes.deviation());
                }
                DecisionOutcome::Done { .. }
                | DecisionOutcome::NotDone
                | DecisionOutcome::HandedOn => {}
            }
            if decided.outcome != before {
                happened.push(decided.outcome_of());
            }
            matches!(
                decided.outcome,
                DecisionOutcome::UnderWay | DecisionOutcome::Done { deviation: None, .. }
            )
        });
        happened
    }
}

fn outcome(
    decided: &RecordedDecision,
    now: BootNanos,
    led: Option<&LedShard>,
    leader_of: &impl Fn(ShardId) -> Option<NodeId>,
) -> DecisionOutcome {
    let took = decided.age(now);
    let is_late = took >= OPEN_MAX;
    let done = || DecisionOutcome::Done { took, deviation: None };
    match (&decided.what, led) {
        (DecisionKind::Leader { node, .. }, None) => match leader_of(decided.shard) {
            Some(leader) if leader == *node => done(),
            None if !is_late => DecisionOutcome::UnderWay,
            Some(_) | None => DecisionOutcome::HandedOn,
        },
        (DecisionKind::Leader { .. }, Some(_)) if is_late => DecisionOutcome::NotDone,
        (DecisionKind::Leader { .. }, Some(_)) => DecisionOutcome::UnderWay,
        (_, None) => DecisionOutcome::HandedOn,
        (
            DecisionKind::Split { at, generation, .. }
            | DecisionKind::Merge { end: at, generation, .. },
            Some(led),
        ) => {
            let ends = led.descriptor.arc.ends().1;
            match led.descriptor.generation > *generation {
                true if ends == *at => done(),
                false if !is_late => DecisionOutcome::UnderWay,
                _ => DecisionOutcome::NotDone,
            }
        }
        (DecisionKind::Replicas { .. }, Some(led)) if led.is_changing() => {
            DecisionOutcome::UnderWay
        }
        (DecisionKind::Replicas { add, remove, generation, .. }, Some(led)) => {
            let has_changed = led.descriptor.generation > *generation;
            let votes = |node: &NodeId| {
                let replica = led.descriptor.replica_on(*node);
                replica.is_some_and(|replica| led.voters.contains(&replica))
            };
            let is_gone = |replica: &ReplicaId| led.descriptor.node_of(*replica).is_none();
            match has_changed && add.iter().all(votes) && remove.iter().all(is_gone) {
                true => done(),
                false if has_changed || is_late => DecisionOutcome::NotDone,
                false => DecisionOutcome::UnderWay,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{Arc, Descriptor, KeyspaceId, Placement};

    use super::*;

    fn led(replicas: &[(u64, u64)], generation: u64, is_settled: bool) -> LedShard {
        let replicas: Vec<_> =
            replicas.iter().map(|(id, node)| (ReplicaId(*id), NodeId(*node))).collect();
        let voters: Vec<_> = replicas.iter().map(|(id, _)| *id).collect();
        LedShard {
            replica: voters[0],
            voters,
            learners: Vec::new(),
            is_joint: false,
            descriptor: Descriptor {
                shard: ShardId(5),
                arc: Arc::whole(KeyspaceId(1)),
                replicas,
                generation: Generation(generation),
                leader: None,
            },
            is_settled,
            bytes: 0,
            requests: 0,
            wanted: 3,
            placement: Placement::Ordered,
        }
    }

    fn decided(what: DecisionKind) -> RecordedDecision {
        let (why, outcome, nodes) = (String::new(), DecisionOutcome::UnderWay, Vec::new());
        RecordedDecision { number: 0, since: 0, shard: ShardId(5), what, nodes, why, outcome }
    }

    fn exchange() -> RecordedDecision {
        decided(DecisionKind::Replicas {
            add: vec![NodeId(9)],
            remove: vec![ReplicaId(2)],
            predicted: BalanceEffect::default(),
            generation: Generation(4),
        })
    }

    #[test]
    fn member_change_is_done_when_shard_has_settled() {
        let nobody = |_| None;
        let after = |led: Option<LedShard>| outcome(&exchange(), 0, led.as_ref(), &nobody);
        let (before, then) = ([(1, 1), (2, 2), (3, 3)], [(1, 1), (3, 3), (4, 9)]);
        assert_eq!(after(Some(led(&before, 4, true))), DecisionOutcome::UnderWay);
        assert_eq!(after(Some(led(&then, 6, false))), DecisionOutcome::UnderWay, "not settled");
        assert!(matches!(after(Some(led(&then, 7, true))), DecisionOutcome::Done { .. }));
        assert_eq!(
            after(Some(led(&before, 7, true))),
            DecisionOutcome::NotDone,
            "it was called off"
        );
        assert_eq!(after(None), DecisionOutcome::HandedOn);
    }

    #[test]
    fn split_is_done_when_arc_ends_at_split_point() {
        let (right, generation) = (ShardId(9), Generation(4));
        let cut = decided(DecisionKind::Split { right, at: Cut::Slot(2000), generation });
        let after = |end, generation| {
            let mut led = led(&[(1, 1)], generation, true);
            led.descriptor.arc = Arc::of_slots(KeyspaceId(1), 0, end);
            outcome(&cut, 0, Some(&led), &|_| None)
        };
        assert_eq!(after(4000, 4), DecisionOutcome::UnderWay);
        assert!(matches!(after(2000, 5), DecisionOutcome::Done { .. }));
        assert_eq!(after(4000, 5), DecisionOutcome::NotDone, "something else was first");
        assert_eq!(outcome(&cut, 0, None, &|_| None), DecisionOutcome::HandedOn);
    }

    #[test]
    fn split_outcome_stays_done_after_later_changes() {
        let mut decisions = Decisions::default();
        for right in [8, 9] {
            let (at, generation) = (Cut::Slot(2000), Generation(4));
            decisions.add(decided(DecisionKind::Split { right: ShardId(right), at, generation }));
        }
        let ended = decisions.end_split(ShardId(9), 0);
        let is_done = |outcome: &EventKind| {
            matches!(
                outcome,
                EventKind::DecisionEnded { number: 2, outcome: DecisionOutcome::Done { .. }, .. }
            )
        };
        assert!(ended.as_ref().is_some_and(is_done), "{ended:?}");
        let mut again = led(&[(1, 1)], 6, true);
        again.descriptor.arc = Arc::of_slots(KeyspaceId(1), 0, 1000);
        let outcome = decisions.review(0, &[again], &Nodes::default(), |_| None);
        let is_not = |outcome: &EventKind| {
            matches!(
                outcome,
                EventKind::DecisionEnded { number: 1, outcome: DecisionOutcome::NotDone, .. }
            )
        };
        assert!(outcome.len() == 1 && is_not(&outcome[0]), "{outcome:?}");
    }

    /// Control gave up the first attempt, but has not recorded that yet.
    #[test]
    fn newest_attempt_of_merge_is_the_finished_one() {
        let (mut decisions, right, end) = (Decisions::default(), ShardId(8), Cut::Slot(2000));
        for since in [100, 700] {
            let merge = DecisionKind::Merge { right, end: end.clone(), generation: Generation(4) };
            decisions.add(RecordedDecision { since, ..decided(merge) });
        }
        let ended = decisions.end_merges(right, 1000);
        let ended: Vec<_> = ended
            .iter()
            .map(|event| match event {
                EventKind::DecisionEnded { number, outcome, .. } => (*number, *outcome),
                other => panic!("{other:?}"),
            })
            .collect();
        let took = Duration::from_nanos(300);
        let done = DecisionOutcome::Done { took, deviation: None };
        assert_eq!(ended, [(2, done), (1, DecisionOutcome::NotDone)]);
        assert!(decisions.end_merges(right, 2000).is_empty());
    }

    #[test]
    fn open_decisions_are_reviewed_until_outcome_is_known() {
        let mut decisions = Decisions::default();
        let leads = || decided(DecisionKind::Leader { to: ReplicaId(2), node: NodeId(2) });
        for _ in 0..OPEN_DECISIONS_MAX + 3 {
            decisions.add(leads());
        }
        assert_eq!(decisions.open.len(), OPEN_DECISIONS_MAX);
        let outcome = |decisions: &mut Decisions, now: Duration, leader: Option<u64>| {
            let now = now.as_nanos() as u64;
            decisions.review(now, &[], &Nodes::default(), |_| leader.map(NodeId))
        };
        assert_eq!(outcome(&mut decisions, Duration::ZERO, None), []);
        let done = outcome(&mut decisions, Duration::ZERO, Some(2));
        let is_done = |outcome: &EventKind| {
            matches!(
                outcome,
                EventKind::DecisionEnded {
                    outcome: DecisionOutcome::Done { deviation: None, .. },
                    ..
                }
            )
        };
        assert!(done.len() == OPEN_DECISIONS_MAX && done.iter().all(is_done), "{done:?}");
        let measured = outcome(&mut decisions, GOSSIP_DELAY, None);
        let is_measured = |outcome: &EventKind| {
            matches!(
                outcome,
                EventKind::DecisionEnded {
                    outcome: DecisionOutcome::Done { deviation: Some(_), .. },
                    ..
                }
            )
        };
        assert!(measured.iter().all(is_measured) && decisions.open.is_empty(), "{measured:?}");
        decisions.add(leads());
        let outcome = outcome(&mut decisions, GOSSIP_DELAY, Some(3));
        let is_on = |outcome: &EventKind| {
            matches!(outcome, EventKind::DecisionEnded { outcome: DecisionOutcome::HandedOn, .. })
        };
        assert!(outcome.len() == 1 && is_on(&outcome[0]), "another was elected: {outcome:?}");
    }
}
