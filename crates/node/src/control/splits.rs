//! When does this node split a shard that it leads? When the shard is too large, when its request
//! rate is too high, or when an operator asks.
//!
//! ```text
//!   each second: bytes > split_bytes, or keys > split_keys ──► halfway ──────────┐
//!   requests/s > split_rate ──► where its requests part evenly ──────────────────┤
//!   operator: Request::Split ────────────────────────────────────────────────────┤
//!         the shard splits (G11)  ◄── Input::Split ◄── an id, from the catalogue ◄┘
//! ```
//!
//! Both halves keep their replicas where they are; the balancer moves them later, each by itself.
//! Control remembers no attempt: the next check looks at the shard as it is then.
//!
//! A shard of a hashed keyspace does not split if one of its slots has most of its keys, for a slot
//! is never cut. In an ordered keyspace it splits before a key that halves its bytes about evenly.

use std::collections::BTreeMap;

use keyspace::{CatalogueOp, Cut as Place, Feature, Placement, SLOTS, ShardId, Subject};
use replication::BootNanos;
use storage::engine::Layout;

use super::decisions::DecisionKind;
use super::request::{CutAt, NoSplit, Reply, SplitPlan};
use super::reshape::{HotShard, PendingSplit, Question, bytes_of};
use super::{Control, Effect, Executors};
use crate::executor::{Answer, Input};
use crate::replica::state::ShardState;
use crate::reshape::split::Split;

/// A cut that leaves less than one key in so many on one side does not help.
const SIDE_MIN: u64 = 10;
/// One check starts at most this many splits.
const AT_ONCE: usize = 2;

/// What control remembers about splits.
#[derive(Debug, Default)]
pub(super) struct SplitState {
    /// When control asked the catalogue for the id of a shard's right half.
    asked: BTreeMap<ShardId, BootNanos>,
    /// How many shards are too large and do not split: one of their slots has most of their keys.
    one_slot: u64,
}

impl Control {
    /// How many shards led here are too large but cannot split, because one slot has most of their
    /// keys.
    pub fn shards_of_one_slot(&self) -> u64 {
        self.splits.one_slot
    }

    /// Whether control may ask for an id for a shard's right half now. It remembers the time then.
    fn may_split(&mut self, shard: ShardId) -> bool {
        let (now, again) = (self.now, self.setup.pace.split_again);
        self.splits.asked.retain(|_, at| now.saturating_sub(*at) < again);
        let is_free = !self.splits.asked.contains_key(&shard);
        if is_free {
            self.splits.asked.insert(shard, now);
        }
        is_free
    }

    /// Splits shards that are led here and too large.
    pub(super) fn split_large(&mut self, executors: &mut dyn Executors) {
        let routes = self.routes.clone();
        let (mut left, mut one_slot) = (AT_ONCE, 0);
        for route in routes.iter().filter(|route| route.keyspace.linear_hash_table.is_none()) {
            for (shard, view) in route.shards().iter().zip(&route.views) {
                let Some((bytes, keys)) = bytes_of(view) else { continue };
                let Some(why) = self.setup.limits.too_large(bytes, keys) else { continue };
                if !Self::leads(*shard, executors) {
                    continue;
                }
                let middle = view.read().engine().and_then(|engine| engine.middle());
                match middle {
                    Some((at, [low, high])) if low.min(high) * SIDE_MIN >= low + high => {
                        if left > 0 && self.may_split(*shard) {
                            left -= 1;
                            self.split(*shard, at, why, None);
                        }
                    }
                    _ => one_slot += 1,
                }
            }
        }
        self.splits.one_slot = one_slot;
    }

    /// Splits hot shards where a cut halves their requests about evenly.
    pub(super) fn split_hot(&mut self, executors: &mut dyn Executors) {
        for HotShard { shard, at, why } in std::mem::take(&mut self.loads.hot) {
            let Some(view) = self.views.get(shard) else { continue };
            let at = {
                let state = view.read();
                let Some(engine) = state.engine() else { continue };
                // Buckets of a linear-hash table split in its order only.
                let is_bucket = engine.layout() == Layout::LinearHash;
                let at = Place::at(engine.layout().placement(), &at);
                at.filter(|at| !is_bucket && is_within(&state, at))
            };
            if let Some(at) = at
                && Self::leads(shard, executors)
                && self.may_split(shard)
            {
                self.split(shard, at, why, None);
            }
        }
    }

    /// An operator asks for a split.
    pub(super) fn ask_split(
        &mut self,
        request: u64,
        shard: ShardId,
        at: Option<CutAt>,
        executors: &mut dyn Executors,
    ) {
        let view = self.views.get(shard).filter(|_| Self::leads(shard, executors));
        let Some(view) = view else {
            let leader = self.table.shard(shard).map(|known| known.leader());
            let why = leader.map_or(NoSplit::NoShard, NoSplit::LedBy);
            return self.refuse_split(Some(request), why);
        };
        if Self::hands_over(shard, executors) {
            return self.refuse_split(Some(request), NoSplit::LedBy(None));
        }
        if view.read().engine().is_some_and(|keys| keys.layout() == Layout::LinearHash) {
            return self.ask_grow(request, shard, at);
        }
        let at = place_to_cut(&view.read(), at);
        match at {
            Ok(at) => self.split(shard, at, "an operator asked for it".into(), Some(request)),
            Err(why) => self.refuse_split(Some(request), NoSplit::CannotSplit(why)),
        }
    }

    pub(super) fn refuse_split(&mut self, request: Option<u64>, why: NoSplit) {
        self.reply_split(request, Err(why));
    }

    fn reply_split(&mut self, request: Option<u64>, reply: Result<SplitPlan, NoSplit>) {
        if let Some(id) = request {
            self.effects.push(Effect::Reply { id, reply: Reply::Split(reply) });
        }
    }

    fn split(&mut self, shard: ShardId, at: Place, why: String, request: Option<u64>) {
        let Some(view) = self.views.get(shard) else { return };
        let (generation, keyspace) = {
            let descriptor = &view.read().descriptor;
            (descriptor.generation, descriptor.keyspace())
        };
        let cutting = PendingSplit { shard, at, generation, why, request };
        self.split_by(cutting, &CatalogueOp::Shard { keyspace });
    }

    /// Splits a shard, unless it changes before the catalogue has given out an id by this op.
    pub(super) fn split_by(&mut self, cutting: PendingSplit, op: &CatalogueOp<'_>) {
        if matches!(cutting.at, Place::Key(_)) && !self.may_use(Feature::OrderedSplits) {
            let why = "the cluster version is too low yet: see `carillon upgrade`";
            return self.refuse_split(cutting.request, NoSplit::CannotSplit(why.into()));
        }
        self.ask_catalogue(op, Some(Question::Id(cutting)));
    }

    /// The catalogue has given out an id, or not.
    pub(super) fn handle_shard_id_reply(
        &mut self,
        cutting: PendingSplit,
        answer: Answer,
        executors: &mut dyn Executors,
    ) {
        let PendingSplit { shard, at, generation, why, request } = cutting;
        let Answer::Catalogue { result: Ok(subject), .. } = answer else {
            return self.refuse_split(request, NoSplit::NoId);
        };
        let Subject::Shard(_, right) = *subject else {
            unreachable!("the catalogue was asked for a shard's id")
        };
        let split = Split { right, generation, at: at.clone() };
        self.planted_early_half(shard, &split, executors);
        if !Self::leads(shard, executors) || Self::hands_over(shard, executors) {
            return self.refuse_split(request, NoSplit::LedBy(None));
        }
        self.remember(shard, DecisionKind::Split { right, at: at.clone(), generation }, why);
        self.submit(shard, Input::Split { shard, split });
        self.reply_split(request, Ok(SplitPlan { left: shard, right, at }));
    }
}

/// Whether a cut there leaves something on both sides.
fn is_within(state: &ShardState, at: &Place) -> bool {
    let arc = &state.descriptor.arc;
    arc.split(&at.position(arc.keyspace())).is_some()
}

/// Where to split a shard: at the place that the request names, or halfway. The error is a clause
/// that says why it cannot split there.
fn place_to_cut(state: &ShardState, asked: Option<CutAt>) -> Result<Place, String> {
    let Some(engine) = state.engine() else {
        return Err("it holds the catalogue, which never splits".into());
    };
    let middle = || engine.middle().map(|(at, _)| at);
    let arc = &state.descriptor.arc;
    let (at, has) = match engine.layout().placement() {
        Placement::Hashed => {
            let (first, end) = arc.slots().expect("hashed shards have slots");
            let at = match asked {
                Some(CutAt::Slot(slot)) => Some(slot),
                Some(CutAt::Key(text)) => Some(parse_slot(&text)?),
                None => None,
            };
            let at = match at {
                Some(slot) if slot > SLOTS => return Err(format!("there is no slot {slot}")),
                Some(slot) => Some(Place::Slot(slot)),
                None => middle(),
            };
            let at = at.ok_or(format!("it has slot {first} only, and a slot never splits"))?;
            (at, format!("slots {first} to {}", end - 1))
        }
        Placement::LinearHash => return Err("it is a bucket of a linear-hash table".into()),
        Placement::Ordered => {
            let at = match asked {
                Some(CutAt::Slot(slot)) => Some(slot.to_string().into_bytes()),
                Some(CutAt::Key(key)) => Some(key),
                None => None,
            };
            let at = match at {
                Some(key) => Place::at(Placement::Ordered, &key),
                None => middle(),
            };
            let at = at.ok_or("it has fewer than two keys: name a key to split at")?;
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
        false => Err(format!("it has {has}: a split at {at} leaves nothing on one side")),
    }
}

fn parse_slot(text: &[u8]) -> Result<keyspace::Slot, String> {
    let slot = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    slot.ok_or_else(|| {
        format!("it splits at a slot, and '{}' is not one", String::from_utf8_lossy(text))
    })
}
