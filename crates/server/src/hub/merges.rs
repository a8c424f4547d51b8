//! Two neighbours become one shard: when this node wants that, and what it does about it.
//!
//! ```text
//!   each second: both hold little, and the right one was cut off from another ──────────┐
//!   people: POST /v1/shards/9/merge ────────────────────────────────────────────────────┤
//!     replicas of both on the same nodes? no: the left one's go there ◄── wanted ◄──────┘
//!                                    yes: Input::Merge ──► words of the leaders ──► one shard
//! ```
//!
//! The rest is agreed upon in the logs of both ([`node::merge`]). Here is also what lanes want of
//! each other and of other nodes meanwhile: words, states that are handed over, what is left to do
//! for those who ask.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::{Descriptor, Feature, KeyspaceId, NodeId, Position, ShardId};
use node::lane::{Absorbing, Bequeathed, Given, Input};
use node::letter::Letter;
use node::merge::{self, Absorb, Gone, Step, Word};
use node::route::Route;
use node::shard::Legacy;
use overlay::Point;
use parking_lot::Mutex;

use super::decisions::{Came, Decided, What};
use super::splits::bytes_of;
use super::{Hub, View, boot_nanos, files};

/// Two that have held little for so long are merged.
const COLD: Duration = Duration::from_secs(10);
/// A merge that is wanted is given up after so long: its replicas did not come together.
const WANTED_MAX: Duration = Duration::from_secs(300);
/// Between two tries.
const AGAIN: Duration = Duration::from_secs(2);
/// So many are wanted at one time.
const AT_ONCE: usize = 2;

/// What the node remembers about it.
#[derive(Debug)]
pub struct Merges {
    /// Two that hold less together become one.
    bytes_max: Option<u64>,
    wanted: Mutex<BTreeMap<ShardId, Wanted>>,
    /// Since when two have held little: by the left one.
    cold: Mutex<BTreeMap<ShardId, (ShardId, Instant)>>,
    gone: Mutex<Gone>,
}

#[derive(Clone, Debug)]
struct Wanted {
    right: ShardId,
    why: String,
    since: Instant,
    tried: Option<Instant>,
}

/// Why a shard was not told to take in its neighbour. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoMerge {
    /// There is no such shard here: neither a replica nor a table's word of it.
    NoShard,
    /// Another node leads it, if it is known which.
    LedBy(Option<NodeId>),
    /// It cannot take one in: why, as a clause.
    Unfit(String),
}

/// A shard was told to take in its right neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The shard, which will have the arcs of both.
    pub left: ShardId,
    /// The one that ends.
    pub right: ShardId,
    /// Whether the left one's replicas go to where the right one's are first.
    pub moves: bool,
}

impl Merges {
    /// Two that hold less than so much together become one; at most half of what is cut.
    pub fn new(bytes_max: Option<u64>, split_bytes: Option<u64>) -> Self {
        let bytes_max = bytes_max.map(|bytes| split_bytes.map_or(bytes, |cut| bytes.min(cut / 2)));
        let (wanted, cold, gone) = Default::default();
        Self { bytes_max, wanted, cold, gone }
    }

    /// Two that hold less than so much together become one; none: never.
    pub(super) fn bytes_max(&self) -> Option<u64> {
        self.bytes_max
    }

    /// The keyspace of a shard that is gone.
    pub(super) fn keyspace_of_gone(&self, shard: ShardId) -> Option<KeyspaceId> {
        self.gone.lock().keyspace_of(shard)
    }
}

impl Hub {
    /// Says something to whoever leads a shard, here or elsewhere. It may be lost.
    pub(super) fn say(&self, shard: ShardId, word: Word) {
        let (from, letter) = (self.node_id, Letter::Merge { shard, word });
        if self.is_elected(shard) {
            return self.submit(shard, Input::Letter { from, letter });
        }
        let leader = self.known_leader(shard);
        if let Some(leader) = leader.filter(|leader| *leader != from) {
            self.send_letter(leader, &letter);
        }
    }

    fn known_leader(&self, shard: ShardId) -> Option<NodeId> {
        self.peers.as_ref()?.lookup.shard(shard)?.leader()
    }

    fn is_elected(&self, shard: ShardId) -> bool {
        let lane = &self.lanes[self.lane_of(shard)];
        lane.with(self, |lane| lane.shard(shard).is_some_and(|shard| shard.is_elected()))
    }

    pub(super) fn absorbing(&self, waits: Absorbing) {
        let Absorbing { left, at, right, index, term } = waits;
        let absorb = Absorb { right, index, term };
        self.submit(right, Input::Surrender { left, at, absorb });
    }

    pub(super) fn given(&self, given: Given) {
        let Given { left, right, state, frozen_at } = given;
        if state.is_some() {
            let stood_still = frozen_at.map(|at| boot_nanos().saturating_sub(at) as f64 / 1e6);
            let stood_still = stood_still.map(|ms| format!(" after it stood still for {ms:.1} ms"));
            let stood_still = stood_still.unwrap_or_default();
            tracing::info!("shard {left} takes in shard {right}, which ends{stood_still}");
            self.views.lock().remove(&right);
        }
        self.submit(left, Input::Absorb { left, state });
    }

    pub(super) fn bequeathed(&self, Bequeathed { left, legacy }: Bequeathed) {
        let Legacy { batches, readers, sent } = legacy;
        for (origin, batch) in batches {
            self.submit(left, Input::Propose { shard: left, origin, batch });
        }
        for (at, origin, waiter) in readers {
            self.submit(left, Input::Await { shard: left, at, lock: None, origin, waiter });
        }
        self.submit(left, Input::Inherit { shard: left, heir: sent });
    }

    /// A keyspace's tiles have changed: of those that were taken in nobody is asked any more.
    pub(super) fn supersede_gone(&self, old: &Route, new: &Route) {
        let owner = |shard, start: &Position| {
            // A replica here may still be waited for.
            let peers = self.peers.as_ref().filter(|_| !self.views.lock().contains_key(&shard))?;
            let point = Point { keyspace: start.keyspace(), tail: start.tail() };
            let owner = peers.lookup.owner(point)?;
            Some((owner.shard(), owner.generation()))
        };
        let superseded = self.merges.gone.lock().retiled(old, new, owner);
        for (shard, by, generation) in superseded {
            self.submit(shard, Input::Superseded { shard, by, generation });
        }
    }

    /// Replicas here whose shards are gone, and which nobody here waits for, end.
    pub(super) fn supersede_left_over(&self) {
        let Some(peers) = &self.peers else { return };
        let views: Vec<View> = self.views.lock().values().cloned().collect();
        let here: Vec<Descriptor> =
            views.iter().map(|view| view.read().descriptor.clone()).collect();
        for descriptor in here.iter().filter(|descriptor| descriptor.shard != ShardId(0)) {
            let (keyspace, tail) = (descriptor.keyspace(), descriptor.arc.start().tail());
            let owner = peers.lookup.owner(Point { keyspace, tail });
            let owner = owner.as_ref().map(|owner| owner.descriptor());
            if let Some(by) = merge::superseded(descriptor, here.iter(), owner)
                && let Some(&Descriptor { generation, .. }) = owner
            {
                let shard = descriptor.shard;
                tracing::info!("shard {shard} was taken in by another: its replica here ends");
                self.views.lock().remove(&shard);
                self.submit(shard, Input::Superseded { shard, by, generation });
            }
        }
    }

    /// Looks at the shards that are led here: those that hold little take their neighbours in.
    pub(super) fn merge_small(self: &Arc<Self>) {
        self.supersede_left_over();
        let bytes_max = self.merges.bytes_max.filter(|_| self.may_use(Feature::Merges));
        if let Some(bytes_max) = bytes_max {
            let mut cold = BTreeMap::new();
            for route in self.routes().iter().filter(|route| route.keyspace.file.is_none()) {
                self.find_cold(route, bytes_max, &mut cold);
            }
            self.want_cold(cold, bytes_max);
        }
        let wanted: Vec<_> =
            self.merges.wanted.lock().iter().map(|(left, w)| (*left, w.clone())).collect();
        let mut has_begun = false;
        for (left, wanted) in wanted {
            let is_late = wanted.since.elapsed() > WANTED_MAX;
            if !self.try_merge(left, &wanted, &mut has_begun) || is_late {
                self.merges.wanted.lock().remove(&left);
            }
        }
    }

    /// Pairs of a keyspace that hold little, of which the left one is led here.
    fn find_cold(&self, route: &Route, bytes_max: u64, cold: &mut BTreeMap<ShardId, ShardId>) {
        // A keyspace keeps those that it began with, whoever decides at the same time.
        let has_begun = |place: usize| route.keyspace.shards.contains(&route.shard(place));
        let bytes = |place: usize| {
            let (shard, view) = (route.shard(place), &route.views[place]);
            let is_here = self.views.lock().contains_key(&shard);
            is_here.then(|| bytes_of(view).unwrap_or_default())
        };
        for place in (0..route.shards().len() - 1).filter(|place| !has_begun(place + 1)) {
            let (Some(one), Some(other)) = (bytes(place), bytes(place + 1)) else { continue };
            let (left, right) = (route.shard(place), route.shard(place + 1));
            let are_cold = || self.heat.is_cold(left) && self.heat.is_cold(right);
            let is_little = one.0 + other.0 <= bytes_max && self.splits.are_few(one.1 + other.1);
            if is_little && self.leads(left) && are_cold() {
                cold.insert(left, right);
            }
        }
    }

    /// Of those that were cold for long enough, some are wanted to merge.
    fn want_cold(&self, found: BTreeMap<ShardId, ShardId>, bytes_max: u64) {
        let mut cold = self.merges.cold.lock();
        cold.retain(|left, (right, _)| found.get(left) == Some(right));
        for (left, right) in found {
            cold.entry(left).or_insert((right, Instant::now()));
        }
        let mut wanted = self.merges.wanted.lock();
        for (left, (right, since)) in cold.iter() {
            let is_free = [left, right].iter().all(|shard| {
                !wanted.contains_key(shard) && wanted.values().all(|w| w.right != **shard)
            });
            if wanted.len() < AT_ONCE && is_free && since.elapsed() >= COLD {
                let why = format!("both together hold less than {} MiB", bytes_max >> 20);
                let (right, since, tried) = (*right, Instant::now(), None);
                wanted.insert(*left, Wanted { right, why, since, tried });
            }
        }
    }

    /// Goes on with one that is wanted. Whether to try again later.
    ///
    /// Of those whose replicas have come together one begins in a look, so that the next one, which
    /// stands still, does not wait while a lane here takes in the keys of the first.
    fn try_merge(self: &Arc<Self>, left: ShardId, wanted: &Wanted, has_begun: &mut bool) -> bool {
        if wanted.tried.is_some_and(|tried| tried.elapsed() < AGAIN) {
            return true;
        }
        let (ours, theirs) = match self.pair(left) {
            Ok(pair) => pair,
            Err(error) => {
                let right = wanted.right;
                if matches!(error, NoMerge::LedBy(_)) {
                    tracing::info!("shard {left} is led elsewhere: no try to take in {right} here");
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
        if let Some(wanted) = self.merges.wanted.lock().get_mut(&left) {
            wanted.tried = Some(Instant::now());
        }
        self.begin_merge(&ours, &theirs, &wanted.why);
        true
    }

    /// Has a shard take in its right neighbour, if it is led here.
    ///
    /// # Errors
    /// [`NoMerge`].
    pub fn ask_merge(self: &Arc<Self>, left: ShardId) -> Result<Merged, NoMerge> {
        let routes = self.routes();
        let of_file = routes.of_shard(left).filter(|route| route.keyspace.file.is_some());
        if let Some(route) = of_file.filter(|_| self.leads(left)) {
            files::may_shrink(route, left).map_err(NoMerge::Unfit)?;
        }
        let (ours, theirs) = self.pair(left)?;
        let right = theirs.shard;
        let moves = nodes_of(&ours) != nodes_of(&theirs);
        if let Some(route) = of_file {
            self.ask_shrink(route);
            return Ok(Merged { left, right, moves });
        }
        let (why, since) = ("it was asked for".to_owned(), Instant::now());
        let wanted = Wanted { right, why: why.clone(), since, tried: Some(since) };
        // From now on its lead is not handed over to be even.
        self.merges.wanted.lock().insert(left, wanted);
        if self.hands_over(left) {
            self.merges.wanted.lock().remove(&left);
            return Err(NoMerge::LedBy(None));
        }
        self.begin_merge(&ours, &theirs, &why);
        Ok(Merged { left, right, moves })
    }

    /// A shard is to take in this neighbour, if it is that still: soon.
    pub(super) fn want_merge(&self, left: ShardId, right: ShardId, why: String) {
        let wanted = Wanted { right, why, since: Instant::now(), tried: None };
        self.merges.wanted.lock().entry(left).or_insert(wanted);
    }

    /// Whether it is to take in its neighbour.
    pub(super) fn is_to_take_in(&self, left: ShardId) -> bool {
        self.merges.wanted.lock().contains_key(&left)
    }

    /// A shard that is led here, and its right neighbour as it is known.
    pub(super) fn pair(&self, left: ShardId) -> Result<(Descriptor, Descriptor), NoMerge> {
        let view = self.views.lock().get(&left).cloned();
        let Some(view) = view.filter(|_| self.leads(left)) else {
            let known = self.peers.as_ref().and_then(|peers| peers.lookup.shard(left));
            let leader = known.as_ref().map(|known| known.leader());
            return Err(leader.map_or(NoMerge::NoShard, NoMerge::LedBy));
        };
        let unfit = |why: &str| Err(NoMerge::Unfit(why.to_owned()));
        if !self.may_use(Feature::Merges) {
            return unfit("the cluster's level is too low yet: see `carillon upgrade`");
        }
        let ours = view.read().descriptor.clone();
        let routes = self.routes();
        let Some(route) = routes.of_shard(left) else {
            return unfit("it holds the catalogue, or its keyspace is not known here yet");
        };
        let right = route.place_of(left).and_then(|place| route.shards().get(place + 1)).copied();
        let Some(right) = right else {
            return unfit("it is the last of its keyspace: the one before it can take it in");
        };
        let here = self.views.lock().get(&right).map(|view| view.read().descriptor.clone());
        let known = self.peers.as_ref().and_then(|peers| peers.lookup.shard(right));
        let known = known.map(|known| known.descriptor().clone());
        let newest = here.into_iter().chain(known).max_by_key(|found| found.generation);
        match newest {
            // Else routes name one that it has just taken in: it would wait for its word for ever.
            Some(theirs) if theirs.arc.start() != ours.arc.end() => {
                unfit("its neighbour is changing just now: ask again")
            }
            Some(theirs) => Ok((ours, theirs)),
            None => unfit("nothing is known of its neighbour yet: ask again"),
        }
    }

    /// Brings their replicas together, or has them merged.
    fn begin_merge(self: &Arc<Self>, ours: &Descriptor, theirs: &Descriptor, why: &str) {
        let (left, right, generation) = (ours.shard, theirs.shard, ours.generation);
        let (here, there) = (nodes_of(ours), nodes_of(theirs));
        if here != there {
            let add: Vec<_> = there.iter().filter(|node| !here.contains(node)).copied().collect();
            let goes = ours.replicas.iter().filter(|(_, node)| !there.contains(node));
            let remove = goes.map(|(replica, _)| *replica).collect();
            tracing::info!(
                "shard {left} goes to where shard {right} has its replicas, to take it in: {why}"
            );
            if let Some(peers) = &self.peers {
                // Nothing is evened out by it meanwhile.
                peers.placement.rest(left);
                peers.placement.rest(right);
            }
            return self.submit(left, Input::Exchange { shard: left, generation, add, remove });
        }
        tracing::info!("shard {left} is to take in shard {right}: {why}");
        let end = theirs.arc.ends().1;
        if let Some(peers) = &self.peers {
            peers.placement.decisions.add(Decided {
                at_ms: self.millis(),
                since: Instant::now(),
                shard: left,
                what: What::Merge { right, end, generation },
                why: why.to_owned(),
                came: Came::UnderWay,
            });
        }
        let step = Step::Intend { right, theirs: theirs.generation, ours: generation };
        self.submit(left, Input::Merge { shard: left, step });
    }
}

/// Where a shard's replicas are, in order.
fn nodes_of(descriptor: &Descriptor) -> Vec<NodeId> {
    let mut nodes: Vec<_> = descriptor.replicas.iter().map(|(_, node)| *node).collect();
    nodes.sort_unstable();
    nodes
}
