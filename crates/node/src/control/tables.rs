//! When do linear-hash tables grow and shrink, by one bucket at a time, and what does this node do
//! then? The shards of such a keyspace are the buckets.
//!
//! ```text
//!   each second: leader of the next bucket, or of the one that would absorb the last
//!     its keys mean too many on average ─────────────────────► Grow ─────┐
//!     few keys, for a while, and a low request rate ─────────► Shrink ───┤
//!   operator: Request::Split, Request::Merge, of that shard only ────────┤
//!                                  catalogue: it grows, or shrinks ◄─────┘
//!   at once: the leader of the bucket in question (crate::reshape::linear_hash)
//!     Begin ──► it splits (super::splits), or absorbs the last one (super::merges)
//!     its own arc shows that it is done ──► Done
//! ```
//!
//! Hashes spread evenly, so one bucket's load stands for all. The leader of the next bucket
//! therefore decides for the table and asks no other node. If two leaders ask at once, the
//! catalogue accepts one. Splits and merges by load or by size never touch buckets.

use std::collections::BTreeMap;

use keyspace::{
    CatalogueOp, Keyspace, LinearHashOp, LinearHashRecord, LinearHashStep, ShardId, Subject,
};
use overlay::lh::Bucket;
use replication::BootNanos;

use super::request::{CutAt, NoSplit};
use super::reshape::{PendingSplit, Question, bytes_of};
use super::{CONTROL, Control, Effect, Executors};
use crate::event::EventKind;
use crate::executor::{Answer, Input};
use crate::reshape::linear_hash::{self, TableTask};
use crate::routing::route::{Route, View};

/// A turn of a table, and whether what it says was done.
type TableEpoch = (u64, bool);

/// What control remembers about tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// When the catalogue was last asked for buckets that are led here, at which turn, and whether
    /// what was under way was done then.
    asked: BTreeMap<ShardId, (TableEpoch, BootNanos)>,
    /// Since when a bucket holds little that would take the last one in, at which turn.
    cold: BTreeMap<ShardId, (u64, BootNanos)>,
}

impl Control {
    /// Whether a bucket's leader may ask the catalogue at this turn, which it does then.
    fn may_ask(&mut self, shard: ShardId, epoch: TableEpoch) -> bool {
        let (now, again) = (self.now, self.setup.pace.again);
        let asked = &mut self.tables.asked;
        asked.retain(|_, (_, at)| now.saturating_sub(*at) < again);
        let is_free = asked.get(&shard).is_none_or(|(before, _)| *before != epoch);
        if is_free {
            asked.insert(shard, (epoch, now));
        }
        is_free
    }

    /// Whether a bucket has held little for long enough since the table has changed, by now.
    fn was_cold(&mut self, shard: ShardId, epoch: u64, is_little: bool) -> bool {
        let (now, long) = (self.now, self.setup.pace.cold);
        let cold = &mut self.tables.cold;
        cold.retain(|other, (of, _)| *other != shard || (is_little && *of == epoch));
        is_little && now.saturating_sub(cold.entry(shard).or_insert((epoch, now)).1) >= long
    }

    /// Has tables grow and shrink whose next buckets are led here.
    pub(super) fn grow_tables(&mut self, executors: &mut dyn Executors) {
        for (route, record, shard, view, task) in self.tasks(false, executors) {
            match task {
                TableTask::MayGrow { share, buckets, may_shrink } => {
                    let grows = self.may_grow(&route, &record, shard, &view, (share, buckets));
                    if may_shrink && !grows {
                        self.may_shrink(&route, &record, shard, &view);
                    }
                }
                _ => self.may_shrink(&route, &record, shard, &view),
            }
        }
    }

    /// Does for tables what shards that are led here are to do.
    pub(super) fn maintain_tables(&mut self, executors: &mut dyn Executors) {
        for (route, record, shard, view, task) in self.tasks(true, executors) {
            // What was asked to be done does not keep off who sees that it is.
            let is_done = matches!(task, TableTask::Done | TableTask::ConfirmRead);
            if self.may_ask(shard, (record.epoch, is_done)) {
                self.do_task(&route.keyspace, record, shard, &view, task, executors);
            }
        }
    }

    /// Tasks of shards that are led here: of tables that are changing, or of the others.
    fn tasks(
        &self,
        are_changing: bool,
        executors: &mut dyn Executors,
    ) -> Vec<(std::sync::Arc<Route>, LinearHashRecord, ShardId, View, TableTask)> {
        let mut found = Vec::new();
        for route in self.routes.iter() {
            let record = route.keyspace.linear_hash_table;
            let Some(record) = record.filter(|r| r.step.is_some() == are_changing) else {
                continue;
            };
            for (shard, view) in route.shards().iter().zip(&route.views) {
                let task = linear_hash::task(&view.read(), &record, self.now);
                if let Some(task) = task
                    && Self::leads(*shard, executors)
                {
                    found.push((route.clone(), record, *shard, view.clone(), task));
                }
            }
        }
        found
    }

    /// Has a table grow that has too few buckets. Whether it has.
    fn may_grow(
        &mut self,
        route: &Route,
        record: &LinearHashRecord,
        shard: ShardId,
        view: &View,
        (share, buckets): (u64, u64),
    ) -> bool {
        let Some((bytes, keys)) = bytes_of(view) else { return false };
        let of_each = |all: u64| all.saturating_mul(share) / buckets;
        let Some(why) = self.setup.limits.too_large(of_each(bytes), of_each(keys)) else {
            return false;
        };
        if self.may_ask(shard, (record.epoch, false)) {
            let why = format!("each of {buckets} buckets, about: {why}");
            let keyspace = route.keyspace.name.clone();
            self.effects.push(Effect::Event(EventKind::TableGrowing { keyspace, why }));
            self.advance_table(&route.keyspace, LinearHashOp::Grow, None);
        }
        true
    }

    fn may_shrink(
        &mut self,
        route: &Route,
        record: &LinearHashRecord,
        shard: ShardId,
        view: &View,
    ) {
        let is_little = self.holds_little(shard, view);
        let is_cold = self.was_cold(shard, record.epoch, is_little);
        if is_cold && self.may_ask(shard, (record.epoch, false)) {
            let keyspace = route.keyspace.name.clone();
            self.effects.push(Effect::Event(EventKind::TableShrinking { keyspace }));
            self.ask_shrink(&route.keyspace);
        }
    }

    /// Whether a bucket may take its neighbour in, which holds about as much.
    fn holds_little(&self, shard: ShardId, view: &View) -> bool {
        let limits = &self.setup.limits;
        let Some(bytes_max) = limits.merge_bytes_max() else { return false };
        let Some((bytes, keys)) = bytes_of(view) else { return false };
        bytes.saturating_mul(2) <= bytes_max
            && limits.are_few(keys.saturating_mul(2))
            && self.is_cold(shard)
    }

    fn do_task(
        &mut self,
        keyspace: &Keyspace,
        record: LinearHashRecord,
        shard: ShardId,
        view: &View,
        task: TableTask,
        executors: &mut dyn Executors,
    ) {
        match task {
            TableTask::Cut(at) => {
                let why = format!("the linear-hash table of keyspace {} grows", keyspace.name);
                let generation = view.read().descriptor.generation;
                let cutting = PendingSplit { shard, at, generation, why, request: None };
                self.split_by(cutting, &begin_of(keyspace, &record));
            }
            TableTask::MergeRight => {
                let Ok((_, theirs)) = self.pair(shard, executors) else { return };
                let (left, right, name) = (shard, theirs.shard, keyspace.name.clone());
                let question = Question::TakeIn { left, right, name };
                self.advance_table(keyspace, LinearHashOp::Begin, Some(question));
            }
            TableTask::Done => self.table_is_done(keyspace),
            TableTask::ConfirmRead => {
                self.look_at_bucket(keyspace.clone(), record, shard, view, self.now)
            }
            TableTask::MayGrow { .. } | TableTask::MayShrink => {}
        }
    }

    fn table_is_done(&mut self, keyspace: &Keyspace) {
        self.advance_table(keyspace, LinearHashOp::Done, None);
        self.plant_second_epoch(keyspace);
    }

    /// Waits at a bucket's executor as a read does, and says that what is under way is done, if it
    /// was when this clock was read.
    fn look_at_bucket(
        &mut self,
        keyspace: Keyspace,
        record: LinearHashRecord,
        shard: ShardId,
        view: &View,
        came: BootNanos,
    ) {
        let keyspace = Box::new(keyspace);
        let question = Question::Bucket { shard, keyspace, record, came };
        let (at, waiter, origin) = (view.read().last, self.ask(Some(question)), CONTROL);
        self.submit(shard, Input::AwaitRead { shard, at, lock: None, origin, waiter });
    }

    pub(super) fn look_at_bucket_again(
        &mut self,
        shard: ShardId,
        keyspace: &Keyspace,
        record: LinearHashRecord,
        came: BootNanos,
    ) {
        let Some(view) = self.views.get(shard) else { return };
        let task = linear_hash::task(&view.read(), &record, came);
        match task {
            Some(TableTask::Done) => self.table_is_done(keyspace),
            Some(TableTask::ConfirmRead) => {
                self.look_at_bucket(keyspace.clone(), record, shard, &view, came)
            }
            _ => {}
        }
    }

    pub(super) fn advance_table(
        &mut self,
        keyspace: &Keyspace,
        act: LinearHashOp,
        question: Option<Question>,
    ) {
        let Some(LinearHashRecord { epoch, .. }) = keyspace.linear_hash_table else { return };
        self.ask_catalogue(
            &CatalogueOp::LinearHash { keyspace: keyspace.id, epoch, act },
            question,
        );
    }

    /// Has a table shrink by one bucket.
    pub(super) fn ask_shrink(&mut self, keyspace: &Keyspace) {
        self.advance_table(keyspace, LinearHashOp::Shrink, None);
    }

    /// An operator asks for a split of a bucket, which must be the next one.
    pub(super) fn ask_grow(&mut self, request: u64, shard: ShardId, at: Option<CutAt>) {
        let routes = self.routes.clone();
        let Some(route) = routes.of_shard(shard) else {
            return self.refuse_split(Some(request), NoSplit::NoShard);
        };
        if at.is_some() {
            let why = "a bucket of a linear-hash table splits in its middle: name no place";
            return self.refuse_split(Some(request), NoSplit::CannotSplit(why.into()));
        }
        if let Err(why) = is_next(route, shard, "cut", linear_hash::next_cut) {
            return self.refuse_split(Some(request), NoSplit::CannotSplit(why));
        }
        let question = Question::Grow { shard, request };
        self.advance_table(&route.keyspace, LinearHashOp::Grow, Some(question));
    }

    /// The catalogue has answered an operator's request to grow a table.
    pub(super) fn handle_growth_reply(&mut self, shard: ShardId, request: u64, answer: Answer) {
        let Answer::Catalogue { result, .. } = answer else {
            return self.refuse_split(Some(request), NoSplit::NoId);
        };
        let keyspace = match result {
            Ok(subject) => match *subject {
                Subject::Keyspace(keyspace) => keyspace,
                _ => unreachable!("a table's record is its keyspace's"),
            },
            Err(error) => {
                return self.refuse_split(Some(request), NoSplit::CannotSplit(error.to_string()));
            }
        };
        let begun =
            keyspace.linear_hash_table.zip(self.views.get(shard)).and_then(|(record, view)| {
                let state = view.read();
                match linear_hash::task(&state, &record, self.now)? {
                    TableTask::Cut(at) => Some((record, at, state.descriptor.generation)),
                    _ => None,
                }
            });
        let Some((record, at, generation)) = begun else {
            return self.refuse_split(Some(request), NoSplit::NoId);
        };
        let (why, request) = ("an operator asked for it".to_owned(), Some(request));
        self.may_ask(shard, (record.epoch, false));
        let cutting = PendingSplit { shard, at, generation, why, request };
        self.split_by(cutting, &begin_of(&keyspace, &record));
    }
}

/// Whether a bucket is the one that the last one was cut from, and nothing is under way; if not,
/// why, as a clause.
pub(super) fn may_shrink(route: &Route, shard: ShardId) -> Result<(), String> {
    is_next(route, shard, "taken in", linear_hash::next_merger)
}

/// The op that asks whether a table is still to grow, and for a shard's id then.
fn begin_of(keyspace: &Keyspace, record: &LinearHashRecord) -> CatalogueOp<'static> {
    CatalogueOp::LinearHash { keyspace: keyspace.id, epoch: record.epoch, act: LinearHashOp::Begin }
}

/// Whether a shard is the bucket that has its turn; if not, which is, as a clause.
fn is_next(
    route: &Route,
    shard: ShardId,
    what: &str,
    next: impl Fn(&LinearHashRecord) -> Option<Bucket>,
) -> Result<(), String> {
    let Keyspace { name, linear_hash_table, .. } = &route.keyspace;
    let Some(record) = linear_hash_table else {
        return Err(format!("keyspace {name} has no file"));
    };
    let whose = |bucket: Bucket| route.shard(route.place_of_number(bucket.start()));
    let under_way = |step: LinearHashStep| match step {
        LinearHashStep::Grow => ("grows", "is cut", linear_hash::next_cut(record)),
        LinearHashStep::Shrink => {
            ("shrinks", "takes the last one in", linear_hash::next_merger(record))
        }
    };
    if let Some((does, is, bucket)) = record.step.map(under_way) {
        let by = bucket.map(whose).map_or_else(String::new, |by| format!(": shard {by} {is}"));
        return Err(format!("the linear-hash table of keyspace {name} {does} just now{by}"));
    }
    match next(record).map(whose) {
        Some(next) if next == shard => Ok(()),
        Some(next) => Err(format!(
            "buckets of the linear-hash table of keyspace {name} are {what} in its order, and it \
             is the turn of shard {next}"
        )),
        None => Err(format!("the linear-hash table of keyspace {name} has {record}")),
    }
}
