//! What has this node decided about its shards lately, why, and what came of it?
//!
//! Each decision is an event ([`Happened::Decided`]). What came of one is looked at each time the
//! node decides, until it is known, and is an event, too ([`Happened::DecisionCame`]); here only
//! those are kept of which it is not, at most [`OPEN_DECISIONS_MAX`]. Of both events, which the
//! driver remembers for a while, `carillon shards --why` is told
//! ([`Recent::decisions`](crate::event::Recent::decisions)).
//!
//! ```text
//!   replicas come and go ──► the shard's generation rises, and it is settled ──► done, or not
//!   another is to lead ────► it leads ─────────────────────────────────────────► done
//!   it is cut in two ──────► the other half begins here, or it ends there ─────► done
//!   it takes one in ───────► it ends where that one ended ─────────────────────► done
//!                            nothing of the kind within OPEN_MAX ──────────────► not done
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use balancer::{Effect, Led, Nodes};
use keyspace::{Cut, Generation, NodeId, ReplicaId, ShardId};
use replication::BootNanos;

use crate::event::Happened;

/// Decisions that are looked at. Beyond, nobody is told what came of the oldest.
pub const OPEN_DECISIONS_MAX: usize = 256;
/// A decision of which nothing has come after so long was not carried out: somebody else's was, or
/// the shard's group did not take it.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// Nodes tell what they carry once a second, and it goes around by gossip.
const TOLD: Duration = Duration::from_secs(4);

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The shard gets replicas on these nodes, and these go.
    Replicas {
        /// Nodes.
        add: Vec<NodeId>,
        /// Replicas.
        remove: Vec<ReplicaId>,
        /// How even the nodes are, and were to be.
        predicted: Effect,
        /// The shard's generation when it was decided.
        generation: Generation,
    },
    /// The shard is cut in two.
    Split {
        /// The new shard, its right half.
        right: ShardId,
        /// The first slot or key of that.
        at: Cut,
        /// The shard's generation when it was decided.
        generation: Generation,
    },
    /// The shard takes in its right neighbour.
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

/// What came of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Came {
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
pub struct Decided {
    /// Its number, on the node that has decided it.
    pub number: u64,
    /// When, by the node's boot clock.
    pub since: BootNanos,
    /// About which shard.
    pub shard: ShardId,
    /// What.
    pub what: What,
    /// What people call the nodes that `what` names: those that get a replica, or the lead.
    pub nodes: Vec<String>,
    /// Why.
    pub why: String,
    /// What came of it.
    pub came: Came,
}

impl Decided {
    fn age(&self, now: BootNanos) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.since))
    }

    fn came_of(&self) -> Happened {
        Happened::DecisionCame { number: self.number, shard: self.shard, came: self.came }
    }
}

/// The decisions of this node of which it is not known what came, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    open: VecDeque<Decided>,
    count: u64,
}

impl Decisions {
    /// Gives one its number, and looks at it from now on.
    pub fn add(&mut self, mut decided: Decided) -> Happened {
        self.count += 1;
        decided.number = self.count;
        if self.open.len() == OPEN_DECISIONS_MAX {
            self.open.pop_front();
        }
        self.open.push_back(decided.clone());
        Happened::Decided(Box::new(decided))
    }

    /// The right half of a shard begins here: it has been cut, whatever becomes of it later.
    pub fn has_begun(&mut self, half: ShardId, now: BootNanos) -> Option<Happened> {
        self.done(|what| matches!(what, What::Split { right, .. } if *right == half), now).pop()
    }

    /// A shard has absorbed this one here, whatever becomes of it later.
    pub fn has_merged(&mut self, absorbed: ShardId, now: BootNanos) -> Vec<Happened> {
        self.done(|what| matches!(what, What::Merge { right, .. } if *right == absorbed), now)
    }

    /// The newest open decision of this kind is carried out: tries before it were given up.
    fn done(&mut self, is_it: impl Fn(&What) -> bool, now: BootNanos) -> Vec<Happened> {
        let is_open = |one: &&mut Decided| one.came == Came::UnderWay && is_it(&one.what);
        let newest_first = self.open.iter_mut().rev().filter(is_open);
        let came = newest_first.enumerate().map(|(place, decided)| {
            decided.came = match place {
                0 => Came::Done { took: decided.age(now), deviation: None },
                _ => Came::NotDone,
            };
            decided.came_of()
        });
        came.collect()
    }

    /// Looks at what came of those of which that is not known yet. `leader_of` says who leads a
    /// shard that is not led here.
    pub fn review(
        &mut self,
        now: BootNanos,
        led: &[Led],
        nodes: &Nodes,
        leader_of: impl Fn(ShardId) -> Option<NodeId>,
    ) -> Vec<Happened> {
        let mut happened = Vec::new();
        self.open.retain_mut(|decided| {
            let before = decided.came;
            match &mut decided.came {
                Came::UnderWay => {
                    let led = led.iter().find(|led| led.descriptor.shard == decided.shard);
                    decided.came = came(decided, now, led, &leader_of);
                }
                Came::Done { took, deviation: unknown @ None }
                    if Duration::from_nanos(now.saturating_sub(decided.since)) >= *took + TOLD =>
                {
                    *unknown = Some(nodes.deviation());
                }
                Came::Done { .. } | Came::NotDone | Came::HandedOn => {}
            }
            if decided.came != before {
                happened.push(decided.came_of());
            }
            matches!(decided.came, Came::UnderWay | Came::Done { deviation: None, .. })
        });
        happened
    }
}

fn came(
    decided: &Decided,
    now: BootNanos,
    led: Option<&Led>,
    leader_of: &impl Fn(ShardId) -> Option<NodeId>,
) -> Came {
    let took = decided.age(now);
    let is_late = took >= OPEN_MAX;
    let done = || Came::Done { took, deviation: None };
    match (&decided.what, led) {
        (What::Leader { node, .. }, None) => match leader_of(decided.shard) {
            Some(leader) if leader == *node => done(),
            None if !is_late => Came::UnderWay,
            Some(_) | None => Came::HandedOn,
        },
        (What::Leader { .. }, Some(_)) if is_late => Came::NotDone,
        (What::Leader { .. }, Some(_)) => Came::UnderWay,
        (_, None) => Came::HandedOn,
        (
            What::Split { at, generation, .. } | What::Merge { end: at, generation, .. },
            Some(led),
        ) => {
            let ends = led.descriptor.arc.ends().1;
            match led.descriptor.generation > *generation {
                true if ends == *at => done(),
                false if !is_late => Came::UnderWay,
                _ => Came::NotDone,
            }
        }
        (What::Replicas { .. }, Some(led)) if led.is_changing() => Came::UnderWay,
        (What::Replicas { add, remove, generation, .. }, Some(led)) => {
            let has_changed = led.descriptor.generation > *generation;
            let votes = |node: &NodeId| {
                let replica = led.descriptor.replica_on(*node);
                replica.is_some_and(|replica| led.voters.contains(&replica))
            };
            let is_gone = |replica: &ReplicaId| led.descriptor.node_of(*replica).is_none();
            match has_changed && add.iter().all(votes) && remove.iter().all(is_gone) {
                true => done(),
                false if has_changed || is_late => Came::NotDone,
                false => Came::UnderWay,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use keyspace::{Arc, Descriptor, KeyspaceId, Placement};

    use super::*;

    fn led(replicas: &[(u64, u64)], generation: u64, is_settled: bool) -> Led {
        let replicas: Vec<_> =
            replicas.iter().map(|(id, node)| (ReplicaId(*id), NodeId(*node))).collect();
        let voters: Vec<_> = replicas.iter().map(|(id, _)| *id).collect();
        Led {
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

    fn decided(what: What) -> Decided {
        let (why, came, nodes) = (String::new(), Came::UnderWay, Vec::new());
        Decided { number: 0, since: 0, shard: ShardId(5), what, nodes, why, came }
    }

    fn exchange() -> Decided {
        decided(What::Replicas {
            add: vec![NodeId(9)],
            remove: vec![ReplicaId(2)],
            predicted: Effect::default(),
            generation: Generation(4),
        })
    }

    #[test]
    fn what_came_of_an_exchange_is_seen_in_the_shard() {
        let nobody = |_| None;
        let after = |led: Option<Led>| came(&exchange(), 0, led.as_ref(), &nobody);
        let (before, then) = ([(1, 1), (2, 2), (3, 3)], [(1, 1), (3, 3), (4, 9)]);
        assert_eq!(after(Some(led(&before, 4, true))), Came::UnderWay);
        assert_eq!(after(Some(led(&then, 6, false))), Came::UnderWay, "not settled");
        assert!(matches!(after(Some(led(&then, 7, true))), Came::Done { .. }));
        assert_eq!(after(Some(led(&before, 7, true))), Came::NotDone, "it was called off");
        assert_eq!(after(None), Came::HandedOn);
    }

    #[test]
    fn what_came_of_a_cut_is_seen_in_the_slots() {
        let (right, generation) = (ShardId(9), Generation(4));
        let cut = decided(What::Split { right, at: Cut::Slot(2000), generation });
        let after = |end, generation| {
            let mut led = led(&[(1, 1)], generation, true);
            led.descriptor.arc = Arc::of_slots(KeyspaceId(1), 0, end);
            came(&cut, 0, Some(&led), &|_| None)
        };
        assert_eq!(after(4000, 4), Came::UnderWay);
        assert!(matches!(after(2000, 5), Came::Done { .. }));
        assert_eq!(after(4000, 5), Came::NotDone, "something else was first");
        assert_eq!(came(&cut, 0, None, &|_| None), Came::HandedOn);
    }

    #[test]
    fn what_was_cut_once_stays_so() {
        let mut decisions = Decisions::default();
        for right in [8, 9] {
            let (at, generation) = (Cut::Slot(2000), Generation(4));
            decisions.add(decided(What::Split { right: ShardId(right), at, generation }));
        }
        let begun = decisions.has_begun(ShardId(9), 0);
        let is_done = |came: &Happened| {
            matches!(came, Happened::DecisionCame { number: 2, came: Came::Done { .. }, .. })
        };
        assert!(begun.as_ref().is_some_and(is_done), "{begun:?}");
        let mut again = led(&[(1, 1)], 6, true);
        again.descriptor.arc = Arc::of_slots(KeyspaceId(1), 0, 1000);
        let came = decisions.review(0, &[again], &Nodes::default(), |_| None);
        let is_not = |came: &Happened| {
            matches!(came, Happened::DecisionCame { number: 1, came: Came::NotDone, .. })
        };
        assert!(came.len() == 1 && is_not(&came[0]), "{came:?}");
    }

    /// The first try was given up, which nobody has noticed yet.
    #[test]
    fn the_newest_try_of_a_merge_is_the_one_that_came_about() {
        let (mut decisions, right, end) = (Decisions::default(), ShardId(8), Cut::Slot(2000));
        for since in [100, 700] {
            let merge = What::Merge { right, end: end.clone(), generation: Generation(4) };
            decisions.add(Decided { since, ..decided(merge) });
        }
        let came = decisions.has_merged(right, 1000);
        let came: Vec<_> = came
            .iter()
            .map(|event| match event {
                Happened::DecisionCame { number, came, .. } => (*number, *came),
                other => panic!("{other:?}"),
            })
            .collect();
        let took = Duration::from_nanos(300);
        let done = Came::Done { took, deviation: None };
        assert_eq!(came, [(2, done), (1, Came::NotDone)]);
        assert!(decisions.has_merged(right, 2000).is_empty());
    }

    #[test]
    fn each_is_told_until_it_is_known_what_came_of_it() {
        let mut decisions = Decisions::default();
        let leads = || decided(What::Leader { to: ReplicaId(2), node: NodeId(2) });
        for _ in 0..OPEN_DECISIONS_MAX + 3 {
            decisions.add(leads());
        }
        assert_eq!(decisions.open.len(), OPEN_DECISIONS_MAX);
        let came = |decisions: &mut Decisions, now: Duration, leader: Option<u64>| {
            let now = now.as_nanos() as u64;
            decisions.review(now, &[], &Nodes::default(), |_| leader.map(NodeId))
        };
        assert_eq!(came(&mut decisions, Duration::ZERO, None), []);
        let done = came(&mut decisions, Duration::ZERO, Some(2));
        let is_done = |came: &Happened| {
            matches!(came, Happened::DecisionCame { came: Came::Done { deviation: None, .. }, .. })
        };
        assert!(done.len() == OPEN_DECISIONS_MAX && done.iter().all(is_done), "{done:?}");
        let measured = came(&mut decisions, TOLD, None);
        let is_measured = |came: &Happened| {
            matches!(
                came,
                Happened::DecisionCame { came: Came::Done { deviation: Some(_), .. }, .. }
            )
        };
        assert!(measured.iter().all(is_measured) && decisions.open.is_empty(), "{measured:?}");
        decisions.add(leads());
        let came = came(&mut decisions, TOLD, Some(3));
        let is_on =
            |came: &Happened| matches!(came, Happened::DecisionCame { came: Came::HandedOn, .. });
        assert!(came.len() == 1 && is_on(&came[0]), "another was elected: {came:?}");
    }
}
