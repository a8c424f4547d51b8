//! Shards that are led here are cut in two when they have grown too large, or are asked too often,
//! or when people say so.
//!
//! ```text
//!   each second: bytes > split_bytes, or keys > split_keys ──► where they part ──┐
//!   requests/s > split_rate ──► where its requests part evenly (super::heat) ────┤
//!   people: POST /v1/shards/9/split ─────────────────────────────────────────────┤
//!         the shard is cut (G11)  ◄── Input::Split ◄── an id, from the catalogue ◄┘
//! ```
//!
//! Both halves keep their replicas where they are; the balancer moves them later, each by itself.
//! What comes of it is in the shard's log, or nothing comes of it: the next look sees it as it is.
//!
//! A shard of a hashed keyspace stays whole if one of its slots has most of its keys, for a slot is
//! never cut. One of an ordered keyspace is cut before a key that parts its bytes about evenly.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::{
    CatalogueOp, Cut as Place, Descriptor, Feature, NodeId, Placement, SLOTS, ShardId, Subject,
};
use node::lane::{Answer, Input};
use node::split::Split;
use node::state::ShardState;
use parking_lot::Mutex;
use storage::engine::Layout;

use super::decisions::{Came, Decided, What};
use super::{Hub, View};
use crate::api::CutAt;

/// A cut that leaves less than one key in so many on one side does not help.
const SIDE_MIN: u64 = 10;
/// A shard for which an id was asked is not looked at again before.
const AGAIN: Duration = Duration::from_secs(10);
/// So many shards that are led here are told to be cut in one look.
const AT_ONCE: usize = 2;
/// Two shards together are few keys up to this part of those beyond which a shard is cut.
const FEW: u64 = 8;

/// What the node remembers about it.
#[derive(Debug)]
pub struct Splits {
    /// Beyond so many bytes a shard is cut …
    bytes_max: Option<NonZeroU64>,
    /// … or so many keys: cutting it takes time for each.
    keys_max: Option<NonZeroU64>,
    asked: Mutex<BTreeMap<ShardId, Instant>>,
    /// Shards that are too large, and why they stay whole.
    whole: Mutex<BTreeMap<ShardId, Whole>>,
}

/// Why a shard is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whole {
    /// One slot, which is never cut, has most of its keys.
    OneSlot,
    /// Too many of its requests are for one slot, or one key of an ordered keyspace.
    OneKey,
    /// Most of its requests are for so many keys each that they would be for both halves.
    Scans,
}

impl Whole {
    /// All reasons of shards that are too large …
    pub const LARGE: [Self; 1] = [Self::OneSlot];
    /// … and of those that are asked too often.
    pub const HOT: [Self; 2] = [Self::OneKey, Self::Scans];

    /// One word, as metrics have it.
    pub fn word(self) -> &'static str {
        match self {
            Whole::OneSlot => "one-slot",
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The shard, which keeps what is below.
    pub left: ShardId,
    /// The new shard, with all from `at` on.
    pub right: ShardId,
    /// Its first slot or key.
    pub at: Place,
}

impl Splits {
    /// As configured.
    pub fn new(bytes_max: Option<NonZeroU64>, keys_max: Option<NonZeroU64>) -> Self {
        Self { bytes_max, keys_max, asked: Mutex::default(), whole: Mutex::default() }
    }

    /// Whether two shards of so many keys together may become one: that is done well within the
    /// time in which a shard is cut, and the whole is far from being cut again.
    pub(super) fn are_few(&self, keys: u64) -> bool {
        self.keys_max.is_none_or(|max| keys <= max.get() / FEW)
    }

    /// Why a shard that holds so much is too large, if it is.
    pub(super) fn too_large(&self, bytes: u64, keys: u64) -> Option<String> {
        if let Some(max) = self.bytes_max.filter(|max| bytes > max.get()) {
            let (mib, mib_max) = (bytes >> 20, max.get() >> 20);
            return Some(format!("it has {mib} MiB, above split_bytes = {mib_max} MiB"));
        }
        let keys_max = self.keys_max.filter(|max| keys > max.get())?;
        Some(format!("it has {keys} keys, above split_keys = {keys_max}"))
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
        let mut whole = BTreeMap::new();
        let mut left = AT_ONCE;
        for route in self.routes().iter().filter(|route| route.keyspace.file.is_none()) {
            for (shard, view) in route.shards().iter().zip(&route.views) {
                let Some((bytes, keys)) = bytes_of(view) else { continue };
                let Some(why) = self.splits.too_large(bytes, keys) else { continue };
                if !self.leads(*shard) {
                    continue;
                }
                let middle = view.read().keys().and_then(|engine| engine.middle());
                match middle {
                    Some((at, [low, high])) if low.min(high) * SIDE_MIN >= low + high => {
                        if left > 0 && self.splits.begin(*shard) {
                            left -= 1;
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

    /// Has a shard cut where its requests were found to part evenly.
    pub(super) fn split_hot_at(self: &Arc<Self>, shard: ShardId, place: &[u8], why: String) {
        let Some(view) = self.views.lock().get(&shard).cloned() else { return };
        let at = {
            let state = view.read();
            let Some(engine) = state.keys() else { return };
            // Buckets of a file are cut in its order only.
            let is_bucket = engine.layout() == Layout::LinearHash;
            let at = Place::at(engine.layout().placement(), place);
            at.filter(|at| !is_bucket && is_within(&state, at))
        };
        if let Some(at) = at.filter(|_| self.splits.begin(shard)) {
            self.split(shard, &view, at, why, Box::new(|_| {}));
        }
    }

    /// Has a shard cut at a slot or key, or where it parts evenly; `done` is told that it will be,
    /// or why not.
    pub fn ask_split(
        self: &Arc<Self>,
        shard: ShardId,
        at: Option<CutAt>,
        done: Box<dyn FnOnce(Result<Cut, NoSplit>) + Send>,
    ) {
        let view = self.views.lock().get(&shard).cloned();
        let known = self.peers.as_ref().and_then(|peers| peers.lookup.shard(shard));
        let Some(view) = view.filter(|_| self.leads(shard)) else {
            let leader = known.as_ref().map(|known| known.leader());
            return done(Err(leader.map_or(NoSplit::NoShard, NoSplit::LedBy)));
        };
        if self.hands_over(shard) {
            return done(Err(NoSplit::LedBy(None)));
        }
        if view.read().keys().is_some_and(|keys| keys.layout() == Layout::LinearHash) {
            return self.ask_grow(shard, at, done);
        }
        let at = place_to_cut(&view.read(), at);
        match at {
            Ok(at) => self.split(shard, &view, at, "it was asked for".into(), done),
            Err(why) => done(Err(NoSplit::Unfit(why))),
        }
    }

    fn split(
        self: &Arc<Self>,
        shard: ShardId,
        view: &View,
        at: Place,
        why: String,
        done: Box<dyn FnOnce(Result<Cut, NoSplit>) + Send>,
    ) {
        let op = CatalogueOp::Shard { keyspace: view.read().descriptor.keyspace() };
        self.split_by(shard, view, at, why, op, done);
    }

    /// Has a shard cut, unless it changes before the catalogue has given out an id by this op.
    pub(super) fn split_by(
        self: &Arc<Self>,
        shard: ShardId,
        view: &View,
        at: Place,
        why: String,
        op: CatalogueOp<'static>,
        done: Box<dyn FnOnce(Result<Cut, NoSplit>) + Send>,
    ) {
        if matches!(at, Place::Key(_)) && !self.may_use(Feature::OrderedSplits) {
            let why = "the cluster's level is too low yet: see `carillon upgrade`";
            return done(Err(NoSplit::Unfit(why.into())));
        }
        let Descriptor { generation, .. } = view.read().descriptor;
        let hub = self.clone();
        let callback = move |answer| {
            let Answer::Catalogue { result: Ok(subject), .. } = answer else {
                return done(Err(NoSplit::NoId));
            };
            let Subject::Shard(_, right) = *subject else {
                unreachable!("it was asked for a shard's id")
            };
            if !hub.leads(shard) || hub.hands_over(shard) {
                return done(Err(NoSplit::LedBy(None)));
            }
            tracing::info!("shard {shard} is cut at {at}: shard {right} begins; {why}");
            if let Some(peers) = &hub.peers {
                peers.placement.decisions.add(Decided {
                    at_ms: hub.millis(),
                    since: Instant::now(),
                    shard,
                    what: What::Split { right, at: at.clone(), generation },
                    why,
                    came: Came::UnderWay,
                });
            }
            let split = Split { right, generation, at: at.clone() };
            hub.submit(shard, Input::Split { shard, split });
            done(Ok(Cut { left: shard, right, at }));
        };
        self.ask_catalogue(&op, Some(Box::new(callback)));
    }

    /// Whether the replica here leads it.
    pub(super) fn leads(&self, shard: ShardId) -> bool {
        let lane = &self.lanes[self.lane_of(shard)];
        lane.with(self, |lane| lane.shard(shard).is_some_and(|shard| shard.is_leader()))
    }

    /// Whether the replica here is handing its lead over: what it is told to do would be lost.
    pub(super) fn hands_over(&self, shard: ShardId) -> bool {
        let lane = &self.lanes[self.lane_of(shard)];
        lane.with(self, |lane| lane.shard(shard).is_some_and(|shard| shard.is_handing_over()))
    }
}

/// Bytes of what a shard here holds, and how many keys that are.
pub(super) fn bytes_of(view: &View) -> Option<(u64, u64)> {
    let usage = view.read().keys()?.usage();
    Some((usage.live_bytes, usage.keys))
}

/// Whether a cut there leaves something on both sides.
fn is_within(state: &ShardState, at: &Place) -> bool {
    let arc = &state.descriptor.arc;
    arc.split(&at.position(arc.keyspace())).is_some()
}

/// Where a shard is to be cut that somebody wants cut there, or where it parts evenly; or why it
/// cannot be, as a clause.
fn place_to_cut(state: &ShardState, asked: Option<CutAt>) -> Result<Place, String> {
    let Some(engine) = state.keys() else {
        return Err("it holds the catalogue, and is never cut".into());
    };
    let arc = &state.descriptor.arc;
    let (at, has) = match engine.layout().placement() {
        Placement::Hashed => {
            let (first, end) = arc.slots().expect("hashed shards have slots");
            let at = match asked {
                Some(CutAt::Slot(slot)) => Some(slot),
                Some(CutAt::Key(text)) => match text.parse() {
                    Ok(slot) => Some(slot),
                    Err(_) => return Err(format!("it is cut at a slot, and '{text}' is none")),
                },
                None => None,
            };
            let at = match at {
                Some(slot) if slot > SLOTS => return Err(format!("there is no slot {slot}")),
                Some(slot) => Some(Place::Slot(slot)),
                None => engine.middle().map(|(at, _)| at),
            };
            let at = at.ok_or(format!("it has slot {first} only, and a slot is never cut"))?;
            (at, format!("slots {first} to {}", end - 1))
        }
        Placement::LinearHash => return Err("it is a bucket of a file".into()),
        Placement::Ordered => {
            let at = match asked {
                Some(CutAt::Slot(slot)) => Some(slot.to_string().into_bytes()),
                Some(CutAt::Key(key)) => Some(key.into_bytes()),
                None => None,
            };
            let at = match at {
                Some(key) => Place::at(Placement::Ordered, &key),
                None => engine.middle().map(|(at, _)| at),
            };
            let at = at.ok_or("it has less than two keys; say where it is to be cut")?;
            let shown = |tail: &[u8]| tail.escape_ascii().to_string();
            let has = match (arc.start().tail(), arc.end().tail()) {
                (start, []) => format!("keys from '{}' on", shown(start)),
                (start, end) => format!("keys from '{}' to '{}'", shown(start), shown(end)),
            };
            (at, has)
        }
    };
    match is_within(state, &at) {
        true => Ok(at),
        false => Err(format!("it has {has}: a cut at {at} leaves nothing on one side")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_few_up_to_an_eighth_of_what_is_cut() {
        let splits = Splits::new(None, NonZeroU64::new(125_000));
        assert!(splits.are_few(15_625) && !splits.are_few(15_626));
        assert!(splits.too_large(0, 125_000).is_none() && splits.too_large(0, 125_001).is_some());
        assert!(Splits::new(None, None).are_few(u64::MAX));
    }
}
