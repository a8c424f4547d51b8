//! When does this node want two neighbours to merge, and what does it do then?
//!
//! ```text
//!   each second: both hold little, and the right one was cut off from another ──────────┐
//!   operator: Request::Merge ───────────────────────────────────────────────────────────┤
//!     replicas of both on the same nodes? no: the left one's move there ◄─ wanted ◄──────┘
//!                                    yes: Input::Merge ──► leaders' messages ──► one shard
//! ```
//!
//! The left shard keeps its number of replicas. A shard that is being moved lists new replicas
//! beside old ones, so the left one waits until both changes are over.
//!
//! The logs of both shards agree on the rest ([`crate::reshape::merge`]).

use std::collections::BTreeMap;

use keyspace::{Descriptor, Feature, NodeId, ShardId};
use replication::BootNanos;

use super::decisions::DecisionKind;
use super::request::{Merged, NoMergeReason, Reply};
use super::reshape::bytes_of;
use super::{Control, Effect, Executors, tables};
use crate::event::EventKind;
use crate::executor::Input;
use crate::reshape::merge::MergeStep;
use crate::routing::route::Route;

/// So many are wanted at one time.
const AT_ONCE: usize = 2;

/// What control remembers about it.
#[derive(Debug, Default)]
pub(super) struct MergeState {
    wanted: BTreeMap<ShardId, WantedMerge>,
    /// Since when two have held little: by the left one.
    cold: BTreeMap<ShardId, (ShardId, BootNanos)>,
}

#[derive(Clone, Debug)]
struct WantedMerge {
    right: ShardId,
    why: String,
    since: BootNanos,
    tried: Option<BootNanos>,
}

impl Control {
    /// Looks at the shards that are led here: those that hold little take their neighbours in.
    pub(super) fn merge_small(&mut self, executors: &mut dyn Executors) {
        let bytes_max = self.setup.limits.merge_bytes_max();
        if let Some(bytes_max) = bytes_max.filter(|_| self.may_use(Feature::Merges)) {
            let mut cold = BTreeMap::new();
            let routes = self.routes.clone();
            for route in routes.iter().filter(|route| route.keyspace.linear_hash_table.is_none()) {
                self.find_cold(route, bytes_max, &mut cold, executors);
            }
            self.want_cold(cold, bytes_max);
        }
        let wanted: Vec<_> =
            self.merges.wanted.iter().map(|(left, w)| (*left, w.clone())).collect();
        let mut has_begun = false;
        for (left, wanted) in wanted {
            let waited = self.now.saturating_sub(wanted.since);
            let is_late = waited > self.setup.pace.merge_wanted_max;
            let goes_on = self.try_merge(left, &wanted, &mut has_begun, executors);
            if goes_on && is_late {
                let (right, nanos) = (wanted.right, waited);
                self.effects.push(Effect::Event(EventKind::MergeGivenUp { left, right, nanos }));
            }
            if !goes_on || is_late {
                self.merges.wanted.remove(&left);
            }
        }
    }

    /// Pairs of a keyspace that hold little, of which the left one is led here.
    fn find_cold(
        &self,
        route: &Route,
        bytes_max: u64,
        cold: &mut BTreeMap<ShardId, ShardId>,
        executors: &mut dyn Executors,
    ) {
        // A keyspace keeps its first shards, whichever nodes decide on merges at the same time.
        let has_begun = |place: usize| route.keyspace.shards.contains(&route.shard(place));
        let bytes = |place: usize| {
            let (shard, view) = (route.shard(place), &route.views[place]);
            self.views.contains(shard).then(|| bytes_of(view).unwrap_or_default())
        };
        for place in (0..route.shards().len() - 1).filter(|place| !has_begun(place + 1)) {
            let (Some(one), Some(other)) = (bytes(place), bytes(place + 1)) else { continue };
            let (left, right) = (route.shard(place), route.shard(place + 1));
            let are_few = self.setup.limits.are_few(one.1 + other.1);
            let is_little = one.0 + other.0 <= bytes_max && are_few;
            if is_little
                && self.is_cold(left)
                && self.is_cold(right)
                && Self::leads(left, executors)
            {
                cold.insert(left, right);
            }
        }
    }

    /// Of those that were cold for long enough, some are wanted to merge.
    fn want_cold(&mut self, found: BTreeMap<ShardId, ShardId>, bytes_max: u64) {
        let (now, long) = (self.now, self.setup.pace.cold);
        let MergeState { wanted, cold } = &mut self.merges;
        cold.retain(|left, (right, _)| found.get(left) == Some(right));
        for (left, right) in found {
            cold.entry(left).or_insert((right, now));
        }
        for (left, (right, since)) in cold.iter() {
            let is_free = [left, right].iter().all(|shard| {
                !wanted.contains_key(shard) && wanted.values().all(|w| w.right != **shard)
            });
            if wanted.len() < AT_ONCE && is_free && now.saturating_sub(*since) >= long {
                let why = format!("both together hold less than {} MiB", bytes_max >> 20);
                let (right, since, tried) = (*right, now, None);
                wanted.insert(*left, WantedMerge { right, why, since, tried });
            }
        }
    }

    /// Goes on with one that is wanted. Whether to try again later.
    ///
    /// Of those whose replicas have come together one begins in a look, so that the next one, which
    /// stands still, does not wait while an executor here takes in the keys of the first.
    fn try_merge(
        &mut self,
        left: ShardId,
        wanted: &WantedMerge,
        has_begun: &mut bool,
        executors: &mut dyn Executors,
    ) -> bool {
        let again = self.setup.pace.again;
        if wanted.tried.is_some_and(|tried| self.now.saturating_sub(tried) < again) {
            return true;
        }
        let (ours, theirs) = match self.pair(left, executors) {
            Ok(pair) => pair,
            Err(error) => {
                let right = wanted.right;
                if matches!(error, NoMergeReason::LedBy(_)) {
                    self.effects.push(Effect::Event(EventKind::MergeLeaderMoved { left, right }));
                }
                return false;
            }
        };
        if theirs.shard != wanted.right {
            return false;
        }
        let are_together = nodes_of(&ours) == nodes_of(&theirs);
        if are_together && std::mem::replace(has_begun, true) {
            return true;
        }
        let now = self.now;
        if let Some(wanted) = self.merges.wanted.get_mut(&left) {
            wanted.tried = Some(now);
        }
        self.begin_merge(&ours, &theirs, &wanted.why);
        true
    }

    /// People ask for a shard to take in its right neighbour.
    pub(super) fn ask_merge(&mut self, request: u64, left: ShardId, executors: &mut dyn Executors) {
        let reply = Reply::Merge(self.try_to_merge(left, executors));
        self.effects.push(Effect::Reply { id: request, reply });
    }

    fn try_to_merge(
        &mut self,
        left: ShardId,
        executors: &mut dyn Executors,
    ) -> Result<Merged, NoMergeReason> {
        let routes = self.routes.clone();
        let of_table =
            routes.of_shard(left).filter(|route| route.keyspace.linear_hash_table.is_some());
        if let Some(route) = of_table
            && Self::leads(left, executors)
        {
            tables::may_shrink(route, left).map_err(NoMergeReason::CannotMerge)?;
        }
        let (ours, theirs) = self.pair(left, executors)?;
        let right = theirs.shard;
        let moves = nodes_of(&ours) != nodes_of(&theirs);
        if let Some(route) = of_table {
            self.ask_shrink(&route.keyspace);
            return Ok(Merged { left, right, moves });
        }
        if Self::hands_over(left, executors) {
            return Err(NoMergeReason::LedBy(None));
        }
        let (why, since) = ("an operator asked for it".to_owned(), self.now);
        let wanted = WantedMerge { right, why: why.clone(), since, tried: Some(since) };
        // From now on its lead is not handed over to be even.
        self.merges.wanted.insert(left, wanted);
        self.begin_merge(&ours, &theirs, &why);
        Ok(Merged { left, right, moves })
    }

    /// A shard is to take in this neighbour, if it is that still: soon.
    pub(super) fn want_merge(&mut self, left: ShardId, right: ShardId, why: String) {
        let wanted = WantedMerge { right, why, since: self.now, tried: None };
        self.merges.wanted.entry(left).or_insert(wanted);
    }

    /// Whether a shard is to absorb its neighbour: its next leader would not know that.
    pub fn is_to_take_in(&self, left: ShardId) -> bool {
        self.merges.wanted.contains_key(&left)
    }

    /// A shard that is led here, and its right neighbour as it is known.
    pub(super) fn pair(
        &self,
        left: ShardId,
        executors: &mut dyn Executors,
    ) -> Result<(Descriptor, Descriptor), NoMergeReason> {
        let view = self.views.get(left).filter(|_| Self::leads(left, executors));
        let Some(view) = view else {
            let leader = self.table.shard(left).map(|known| known.leader());
            return Err(leader.map_or(NoMergeReason::NoShard, NoMergeReason::LedBy));
        };
        let unfit = |why: &str| Err(NoMergeReason::CannotMerge(why.to_owned()));
        if !self.may_use(Feature::Merges) {
            return unfit("the cluster version is too low yet: see `carillon upgrade`");
        }
        let ours = view.read().descriptor.clone();
        let Some(route) = self.routes.of_shard(left) else {
            return unfit("it holds the catalogue, or its keyspace is not known here yet");
        };
        let right = route.place_of(left).and_then(|place| route.shards().get(place + 1)).copied();
        let Some(right) = right else {
            return unfit("it is the last of its keyspace: the one before it can take it in");
        };
        match self.newest(right) {
            // Else routes name one that it has just taken in: it would wait for its word for ever.
            Some(theirs) if theirs.arc.start() != ours.arc.end() => {
                unfit("its neighbour is changing just now: ask again")
            }
            Some(theirs) => Ok((ours, theirs)),
            None => unfit("nothing is known of its neighbour yet: ask again"),
        }
    }

    /// A shard as its replica here or the table has it, whichever is newer.
    fn newest(&self, shard: ShardId) -> Option<Descriptor> {
        let here = self.views.get(shard).map(|view| view.read().descriptor.clone());
        let known = self.table.shard(shard).map(|known| known.descriptor().clone());
        here.into_iter().chain(known).max_by_key(|found| found.generation)
    }

    /// Brings their replicas together, or has them merged.
    fn begin_merge(&mut self, ours: &Descriptor, theirs: &Descriptor, why: &str) {
        let (left, right, generation) = (ours.shard, theirs.shard, ours.generation);
        let (here, there) = (nodes_of(ours), nodes_of(theirs));
        let why = why.to_owned();
        if here != there {
            if !self.may_follow(ours, theirs) {
                return;
            }
            let add: Vec<_> = there.iter().filter(|node| !here.contains(node)).copied().collect();
            let goes = ours.replicas.iter().filter(|(_, node)| !there.contains(node));
            let remove = goes.map(|(replica, _)| *replica).collect();
            self.effects.push(Effect::Event(EventKind::MergeRelocating { left, right, why }));
            // Nothing is evened out by it meanwhile.
            self.rest(left);
            self.rest(right);
            return self
                .submit(left, Input::ChangeReplicas { shard: left, generation, add, remove });
        }
        let end = theirs.arc.ends().1;
        self.remember(left, DecisionKind::Merge { right, end, generation }, why);
        let step = MergeStep::Intend { right, theirs: theirs.generation, ours: generation };
        self.submit(left, Input::Merge { shard: left, step });
    }

    /// Whether a shard that is led here would have as many replicas where another has its own, or
    /// as many as its keyspace asks for. It would not while the replicas of one of them change, or
    /// if the other has yet to get some.
    fn may_follow(&self, ours: &Descriptor, theirs: &Descriptor) -> bool {
        let Some(view) = self.views.get(ours.shard) else { return false };
        let state = view.read();
        let members = &state.members;
        let is_changing =
            members.is_joint() || !members.learners.is_empty() || !state.roster.is_settled;
        let asked = self.routes.of_shard(ours.shard).map(|of| of.keyspace.options.replicas);
        let count = theirs.replicas.len();
        let is_right = members.voters.len() == count || asked.map(usize::from) == Some(count);
        !is_changing && is_right
    }
}

/// Where a shard's replicas are, in order.
fn nodes_of(descriptor: &Descriptor) -> Vec<NodeId> {
    let mut nodes: Vec<_> = descriptor.replicas.iter().map(|(_, node)| *node).collect();
    nodes.sort_unstable();
    nodes
}
