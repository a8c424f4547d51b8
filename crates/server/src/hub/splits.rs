//! Shards that are led here are cut in two when they have grown too large, or are asked too often,
//! or when people say so.
//!
//! ```text
//!   each second: bytes of a shard > split_bytes ──► where its keys part evenly ──┐
//!   requests/s > split_rate ──► where its requests part evenly (super::heat) ────┤
//!   people: POST /v1/shards/9/split ─────────────────────────────────────────────┤
//!         the shard is cut (G11)  ◄── Input::Split ◄── an id, from the catalogue ◄┘
//! ```
//!
//! Both halves keep their replicas where they are; the balancer moves them later, each by itself.
//! What comes of it is in the shard's log, or nothing comes of it: the next look sees it as it is.
//!
//! A shard stays whole if one of its slots has most of its keys, for a slot is never cut; or if its
//! keyspace is ordered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::{CatalogueOp, Descriptor, NodeId, Placement, ShardId, Slot, Subject};
use node::lane::{Answer, Input};
use node::split::Split;
use parking_lot::Mutex;

use super::decisions::{Came, Decided, What};
use super::{Hub, View};

/// A cut that leaves less than one key in so many on one side does not help.
const SIDE_MIN: u64 = 10;
/// A shard for which an id was asked is not looked at again before.
const AGAIN: Duration = Duration::from_secs(10);
/// So many shards that are led here are told to be cut in one look.
const AT_ONCE: usize = 2;

/// What the node remembers about it.
#[derive(Debug)]
pub struct Splits {
    /// Beyond so many bytes a shard is cut.
    bytes_max: Option<u64>,
    asked: Mutex<BTreeMap<ShardId, Instant>>,
    /// Shards that are too large, and why they stay whole.
    whole: Mutex<BTreeMap<ShardId, Whole>>,
}

/// Why a shard is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whole {
    /// One slot, which is never cut, has most of its keys.
    OneSlot,
    /// Its keyspace is ordered.
    Ordered,
    /// Too many of its requests are for one slot, or one key of an ordered keyspace.
    OneKey,
    /// Most of its requests are for so many keys each that they would be for both halves.
    Scans,
}

impl Whole {
    /// All reasons of shards that are too large …
    pub const LARGE: [Self; 2] = [Self::OneSlot, Self::Ordered];
    /// … and of those that are asked too often.
    pub const HOT: [Self; 3] = [Self::OneKey, Self::Scans, Self::Ordered];

    /// One word, as metrics have it.
    pub fn word(self) -> &'static str {
        match self {
            Whole::OneSlot => "one-slot",
            Whole::Ordered => "ordered",
            Whole::OneKey => "one-key",
            Whole::Scans => "scans",
        }
    }
}

/// Why a shard was not told to be cut. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSplit {
    /// There is no such shard here: neither a replica nor a table's word of it.
    NoShard,
    /// Another node leads it, if it is known which.
    LedBy(Option<NodeId>),
    /// It cannot be cut, or not there: why, as a clause.
    Unfit(String),
    /// The catalogue gave out no id in time.
    NoId,
}

/// A shard was told to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The shard, which keeps the slots below.
    pub left: ShardId,
    /// The new shard, with the slots from `at` on.
    pub right: ShardId,
    /// Its first slot.
    pub at: Slot,
}

impl Splits {
    /// As configured.
    pub fn new(bytes_max: Option<u64>) -> Self {
        Self { bytes_max, asked: Mutex::default(), whole: Mutex::default() }
    }

    /// How many shards that are led here are too large and stay whole, for each reason.
    pub fn whole(&self) -> [(Whole, u64); Whole::LARGE.len()] {
        let whole = self.whole.lock();
        Whole::LARGE.map(|why| (why, whole.values().filter(|other| **other == why).count() as u64))
    }

    /// Whether the shard may be looked at, which it is now.
    fn begin(&self, shard: ShardId) -> bool {
        let mut asked = self.asked.lock();
        asked.retain(|_, at| at.elapsed() < AGAIN);
        let is_free = !asked.contains_key(&shard);
        if is_free {
            asked.insert(shard, Instant::now());
        }
        is_free
    }
}

impl Hub {
    /// Looks at the shards that are led here, and has those cut that are too large.
    pub(super) fn split_large(self: &Arc<Self>) {
        let Some(bytes_max) = self.splits.bytes_max else { return };
        let mut whole = BTreeMap::new();
        let mut left = AT_ONCE;
        for route in self.routes().iter() {
            let is_ordered = route.keyspace.options.placement == Placement::Ordered;
            for (shard, view) in route.shards().iter().zip(&route.views) {
                let Some((bytes, _)) = bytes_of(view).filter(|(bytes, _)| *bytes > bytes_max)
                else {
                    continue;
                };
                if !self.leads(*shard) {
                    continue;
                }
                let middle = view.read().keys().and_then(|engine| engine.middle());
                match middle {
                    _ if is_ordered => {
                        whole.insert(*shard, Whole::Ordered);
                    }
                    Some((at, [low, high])) if low.min(high) * SIDE_MIN >= low + high => {
                        if left > 0 && self.splits.begin(*shard) {
                            left -= 1;
                            let why = format!(
                                "it has {} MiB, above split_bytes = {} MiB",
                                bytes >> 20,
                                bytes_max >> 20
                            );
                            self.split(*shard, view, at, why, Box::new(|_| {}));
                        }
                    }
                    _ => {
                        whole.insert(*shard, Whole::OneSlot);
                    }
                }
            }
        }
        *self.splits.whole.lock() = whole;
    }

    /// Has a shard cut where its requests were found to part evenly, if it can be cut there; why it
    /// cannot.
    pub(super) fn split_hot_at(
        self: &Arc<Self>,
        shard: ShardId,
        place: &[u8],
        why: String,
    ) -> Result<(), Whole> {
        let Some(view) = self.views.lock().get(&shard).cloned() else { return Ok(()) };
        let slots = {
            let state = view.read();
            let Some(engine) = state.keys() else { return Ok(()) };
            if !engine.layout().is_hashed() {
                return Err(Whole::Ordered);
            }
            state.descriptor.arc.slots()
        };
        let at = place.try_into().map(Slot::from_be_bytes);
        let (Ok(at), Some((first, end))) = (at, slots) else { return Ok(()) };
        if first < at && at < end && self.splits.begin(shard) {
            self.split(shard, &view, at, why, Box::new(|_| {}));
        }
        Ok(())
    }

    /// Has a shard cut at a slot, or where its keys part evenly; `done` is told that it will be, or
    /// why not.
    pub fn ask_split(
        self: &Arc<Self>,
        shard: ShardId,
        at: Option<Slot>,
        done: Box<dyn FnOnce(Result<Cut, NoSplit>) + Send>,
    ) {
        let view = self.views.lock().get(&shard).cloned();
        let known = self.peers.as_ref().and_then(|peers| peers.lookup.shard(shard));
        let Some(view) = view.filter(|_| self.leads(shard)) else {
            let leader = known.as_ref().map(|known| known.leader());
            return done(Err(leader.map_or(NoSplit::NoShard, NoSplit::LedBy)));
        };
        let at = {
            let state = view.read();
            let Some(engine) = state.keys() else {
                let why = "it holds the catalogue, and is never cut";
                return done(Err(NoSplit::Unfit(why.into())));
            };
            if !engine.layout().is_hashed() {
                let why = "its keyspace is ordered, and only hashed ones are cut";
                return done(Err(NoSplit::Unfit(why.into())));
            }
            let (first, end) = state.descriptor.arc.slots().expect("hashed shards have slots");
            match at.or(engine.middle().map(|(at, _)| at)) {
                Some(at) if first < at && at < end => at,
                Some(at) => {
                    let why = format!(
                        "it has slots {first} to {}: a cut at {at} leaves nothing on one side",
                        end - 1
                    );
                    return done(Err(NoSplit::Unfit(why)));
                }
                None => {
                    let why = format!("it has slot {first} only, and a slot is never cut");
                    return done(Err(NoSplit::Unfit(why)));
                }
            }
        };
        self.split(shard, &view, at, "it was asked for".into(), done);
    }

    fn split(
        self: &Arc<Self>,
        shard: ShardId,
        view: &View,
        at: Slot,
        why: String,
        done: Box<dyn FnOnce(Result<Cut, NoSplit>) + Send>,
    ) {
        let Descriptor { generation, arc, .. } = view.read().descriptor.clone();
        let hub = self.clone();
        let callback = move |answer| {
            let Answer::Catalogue { result: Ok(subject), .. } = answer else {
                return done(Err(NoSplit::NoId));
            };
            let Subject::Shard(_, right) = *subject else {
                unreachable!("it was asked for a shard's id")
            };
            tracing::info!("shard {shard} is cut at slot {at}: shard {right} begins; {why}");
            if let Some(peers) = &hub.peers {
                peers.placement.decisions.add(Decided {
                    at_ms: hub.millis(),
                    since: Instant::now(),
                    shard,
                    what: What::Split { right, at, generation },
                    why,
                    came: Came::UnderWay,
                });
            }
            hub.submit(shard, Input::Split { shard, split: Split { right, generation, at } });
            done(Ok(Cut { left: shard, right, at }));
        };
        let op = CatalogueOp::Shard { keyspace: arc.keyspace() };
        self.ask_catalogue(&op, Some(Box::new(callback)));
    }

    /// Whether the replica here leads it.
    pub(super) fn leads(&self, shard: ShardId) -> bool {
        let lane = &self.lanes[self.lane_of(shard)];
        lane.with(self, |lane| lane.shard(shard).is_some_and(|shard| shard.is_leader()))
    }
}

/// Bytes of what a shard here holds, and how many keys that are.
pub(super) fn bytes_of(view: &View) -> Option<(u64, u64)> {
    let usage = view.read().keys()?.usage();
    Some((usage.live_bytes, usage.keys))
}
