//! The last events of a node, for `carillon shards --why`.

use std::collections::{BTreeMap, VecDeque};

use super::{Event, EventKind, Severity};
use crate::control::decisions::{DecisionOutcome, OPEN_DECISIONS_MAX, RecordedDecision};

/// The most events in memory. One more replaces the oldest, which then stands in the log only, and
/// is counted ([`Recent::forgotten`]).
pub const EVENTS_MAX: usize = 4096;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Recent {
    events: VecDeque<Event>,
    forgotten: u64,
}

impl Recent {
    /// Remembers decisions, and what is not routine ([`Severity::Debug`]): elections and
    /// comparisons of a thousand shards would push out what operators ask about.
    pub fn add(&mut self, event: Event) {
        let is_decision =
            matches!(event.what, EventKind::DecisionMade(_) | EventKind::DecisionEnded { .. });
        if event.what.severity() == Severity::Debug && !is_decision {
            return;
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.forgotten += 1;
        }
        self.events.push_back(event);
    }

    /// All that are remembered, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    /// How many have been forgotten.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Recent decisions of the node, each with its result, the oldest first.
    pub fn decisions(&self) -> Vec<RecordedDecision> {
        let mut last = BTreeMap::new();
        let mut all = Vec::new();
        for event in &self.events {
            match &event.what {
                EventKind::DecisionMade(decided) => all.push((**decided).clone()),
                EventKind::DecisionEnded { number, outcome, .. } => {
                    last.insert(*number, *outcome);
                }
                _ => {}
            }
        }
        for decided in &mut all {
            decided.outcome = last.get(&decided.number).copied().unwrap_or(decided.outcome);
        }
        // Control follows only so many: nobody learns any more what came of those before.
        let mut open = 0;
        let is_followed = |decided: &RecordedDecision| {
            open += usize::from(decided.outcome == DecisionOutcome::UnderWay);
            decided.outcome != DecisionOutcome::UnderWay || open <= OPEN_DECISIONS_MAX
        };
        let mut followed: Vec<_> = all.into_iter().rev().filter(is_followed).collect();
        followed.reverse();
        followed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keyspace::{Cut, Generation, NodeId, ShardId, Timestamp};

    use super::*;
    use crate::control::decisions::DecisionKind;

    fn event(what: EventKind) -> Event {
        Event { node: NodeId(1), at: Timestamp(5), what }
    }

    fn decided(number: u64) -> Event {
        let (right, generation) = (ShardId(9), Generation(1));
        event(EventKind::DecisionMade(Box::new(RecordedDecision {
            number,
            since: 0,
            shard: ShardId(5),
            what: DecisionKind::Split { right, at: Cut::Slot(1), generation },
            nodes: Vec::new(),
            why: "an operator asked for it".into(),
            outcome: DecisionOutcome::UnderWay,
        })))
    }

    fn outcome(number: u64, outcome: DecisionOutcome) -> Event {
        event(EventKind::DecisionEnded { number, shard: ShardId(5), outcome })
    }

    #[test]
    fn decision_is_listed_with_its_outcome() {
        let mut recent = Recent::default();
        let done = |deviation| DecisionOutcome::Done { took: Duration::from_secs(1), deviation };
        for event in [decided(1), decided(2), outcome(1, done(None)), outcome(1, done(Some(0.5)))] {
            recent.add(event);
        }
        let all: Vec<_> = recent.decisions().iter().map(|one| (one.number, one.outcome)).collect();
        assert_eq!(all, [(1, done(Some(0.5))), (2, DecisionOutcome::UnderWay)]);
    }

    #[test]
    fn decisions_beyond_limit_are_not_under_way() {
        let mut recent = Recent::default();
        let last = OPEN_DECISIONS_MAX as u64 + 2;
        (1..=last).for_each(|number| recent.add(decided(number)));
        recent.add(outcome(1, DecisionOutcome::NotDone));
        let numbers: Vec<u64> = recent.decisions().iter().map(|decided| decided.number).collect();
        assert_eq!(numbers.len(), OPEN_DECISIONS_MAX + 1);
        assert_eq!((numbers[0], numbers[1], numbers.last()), (1, 3, Some(&last)));
    }

    #[test]
    fn oldest_events_are_dropped_and_counted() {
        let mut recent = Recent::default();
        recent.add(decided(1));
        let elected = |term| {
            let (shard, replica) = (ShardId(5), keyspace::ReplicaId(1));
            event(EventKind::LeaderElected { shard, replica, term })
        };
        (0..2 * EVENTS_MAX as u64).for_each(|term| recent.add(elected(term)));
        assert_eq!(recent.iter().count(), 1, "elections are routine");
        (1..EVENTS_MAX).for_each(|_| recent.add(event(EventKind::NoSpaceForCheckpoint)));
        assert_eq!((recent.decisions().len(), recent.forgotten()), (1, 0));
        recent.add(outcome(1, DecisionOutcome::NotDone));
        // What came of a decision that is forgotten tells nobody anything.
        assert_eq!((recent.decisions().len(), recent.forgotten()), (0, 1));
        assert_eq!(recent.iter().count(), EVENTS_MAX);
    }
}
