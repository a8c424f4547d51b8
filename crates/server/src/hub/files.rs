//! Shards of linear hashing are the buckets of a file, which grows and shrinks by one at a time, in
//! its order: when this node wants that, and what it does about it.
//!
//! ```text
//!   each second: who leads the bucket that is next, or would take the last one in
//!     so many keys in it that all have too many, on average ──► Grow ────┐
//!     so few, for 10 s, and it is asked seldom ──────────────► Shrink ───┤
//!   people: POST /v1/shards/9/split, /merge, of that shard and no other ─┤
//!                                     the catalogue: it grows, or shrinks ◄──┘
//!   at once: who leads the bucket that this is about (node::file)
//!     Begin ──► it is cut in two (super::splits), or takes the last one in (super::merges)
//!     it was, as its own arc says ──► Done
//! ```
//!
//! Hashes spread evenly: so what one bucket holds tells what all do, and whoever leads the next one
//! decides for the file, without asking around. Of two who ask at the same time one is heard. What
//! makes other shards be cut, or become one, leaves buckets alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::{CatalogueOp, FileAct, FileRecord, FileStep, Keyspace, ShardId, Subject};
use node::file::{self, Task};
use node::lane::{Answer, Input};
use node::route::Route;
use overlay::lh::Bucket;
use parking_lot::Mutex;
use replication::BootNanos;

use super::mail::Callback;
use super::splits::{Cut, NoSplit, bytes_of};
use super::{Hub, SIDE_DOOR, View, boot_nanos};
use crate::api::CutAt;

/// A bucket that has held little for so long takes the last one in.
const COLD: Duration = Duration::from_secs(10);
/// Between two tries at one bucket.
const AGAIN: Duration = Duration::from_secs(2);

/// A turn of a file, and whether what it says was done.
type Told = (u64, bool);

/// What the node remembers about files.
#[derive(Debug, Default)]
pub struct Files {
    /// When the catalogue was last asked for buckets that are led here, at which turn, and whether
    /// what was under way was done then.
    asked: Mutex<BTreeMap<ShardId, (Told, Instant)>>,
    /// Since when a bucket holds little that would take the last one in, at which turn.
    cold: Mutex<BTreeMap<ShardId, (u64, Instant)>>,
}

impl Files {
    /// Whether a bucket's leader may ask the catalogue at this turn, which it does then.
    fn begin(&self, shard: ShardId, turn: Told) -> bool {
        let mut asked = self.asked.lock();
        asked.retain(|_, (_, at)| at.elapsed() < AGAIN);
        let is_free = asked.get(&shard).is_none_or(|(before, _)| *before != turn);
        if is_free {
            asked.insert(shard, (turn, Instant::now()));
        }
        is_free
    }

    /// Whether a bucket has held little for long enough since the file has changed, by now.
    fn is_cold(&self, shard: ShardId, turn: u64, is_little: bool) -> bool {
        let mut cold = self.cold.lock();
        cold.retain(|other, (of, _)| *other != shard || (is_little && *of == turn));
        is_little && cold.entry(shard).or_insert((turn, Instant::now())).1.elapsed() >= COLD
    }
}

impl Hub {
    /// Has files grow and shrink whose next buckets are led here.
    pub(super) fn grow_files(self: &Arc<Self>) {
        for route in self.routes().iter() {
            if let Some(record) = route.keyspace.file.filter(|record| record.step.is_none()) {
                self.each_task(route, &record, |shard, view, task| match task {
                    Task::MayGrow { share, buckets, may_shrink } => {
                        let grows = self.may_grow(route, shard, view, (share, buckets));
                        if may_shrink && !grows {
                            self.may_shrink(route, shard, view);
                        }
                    }
                    _ => self.may_shrink(route, shard, view),
                });
            }
        }
    }

    /// Does for files what shards that are led here are to do.
    pub(super) fn tend_files(self: &Arc<Self>) {
        for route in self.routes().iter() {
            if let Some(record) = route.keyspace.file.filter(|record| record.step.is_some()) {
                self.each_task(route, &record, |shard, view, task| {
                    // What was asked to be done does not keep off who sees that it is.
                    let is_done = matches!(task, Task::Done | Task::Look);
                    if self.files.begin(shard, (record.turn, is_done)) {
                        self.do_task(route, &record, shard, view, task);
                    }
                });
            }
        }
    }

    fn each_task(&self, route: &Route, record: &FileRecord, act: impl Fn(ShardId, &View, Task)) {
        for (shard, view) in route.shards().iter().zip(&route.views) {
            // The clock is read when the record is known.
            let task = file::task(&view.read(), record, boot_nanos());
            if let Some(task) = task.filter(|_| self.leads(*shard)) {
                act(*shard, view, task);
            }
        }
    }

    /// Has a file grow that has too few buckets. Whether it has.
    fn may_grow(
        &self,
        route: &Route,
        shard: ShardId,
        view: &View,
        (share, buckets): (u64, u64),
    ) -> bool {
        let Some(why) = self.grows(view, share, buckets) else { return false };
        if self.begins(route, shard) {
            tracing::info!("the file of keyspace {} is to grow: {why}", route.keyspace.name);
            self.turn_file(&route.keyspace, FileAct::Grow, None);
        }
        true
    }

    fn may_shrink(&self, route: &Route, shard: ShardId, view: &View) {
        let turn = route.keyspace.file.map_or(0, |record| record.turn);
        let is_cold = self.files.is_cold(shard, turn, self.holds_little(shard, view));
        if is_cold && self.begins(route, shard) {
            tracing::info!("the file of keyspace {} is to shrink", route.keyspace.name);
            self.turn_file(&route.keyspace, FileAct::Shrink, None);
        }
    }

    fn begins(&self, route: &Route, shard: ShardId) -> bool {
        self.files.begin(shard, (route.keyspace.file.map_or(0, |record| record.turn), false))
    }

    /// Why a file has too few buckets, if it has, as far as one of so large a share tells.
    fn grows(&self, view: &View, share: u64, buckets: u64) -> Option<String> {
        let (bytes, keys) = bytes_of(view)?;
        let of_each = |all: u64| all.saturating_mul(share) / buckets;
        let why = self.splits.too_large(of_each(bytes), of_each(keys))?;
        Some(format!("each of {buckets} buckets, about: {why}"))
    }

    /// Whether a bucket may take its neighbour in, which holds about as much.
    fn holds_little(&self, shard: ShardId, view: &View) -> bool {
        let Some(bytes_max) = self.merges.bytes_max() else { return false };
        let Some((bytes, keys)) = bytes_of(view) else { return false };
        bytes.saturating_mul(2) <= bytes_max
            && self.splits.are_few(keys.saturating_mul(2))
            && self.heat.is_cold(shard)
    }

    fn do_task(
        self: &Arc<Self>,
        route: &Route,
        record: &FileRecord,
        shard: ShardId,
        view: &View,
        task: Task,
    ) {
        let keyspace = &route.keyspace;
        match task {
            Task::Cut(at) => {
                let why = format!("the file of keyspace {} grows", keyspace.name);
                let op = begin_of(keyspace, record);
                self.split_by(shard, view, at, why, op, Box::new(|_| {}));
            }
            Task::TakeIn => {
                let Ok((_, theirs)) = self.pair(shard) else { return };
                let (hub, name) = (self.clone(), keyspace.name.clone());
                let begin = move |answer| {
                    // Until then the one behind it was the last bucket, or had gone for good.
                    if matches!(answer, Answer::Catalogue { result: Ok(_), .. }) {
                        let why = format!("the file of keyspace {name} shrinks");
                        hub.want_merge(shard, theirs.shard, why);
                    }
                };
                self.turn_file(keyspace, FileAct::Begin, Some(Box::new(begin)));
            }
            Task::Done => self.turn_file(keyspace, FileAct::Done, None),
            Task::Look => self.look_at_bucket(keyspace.clone(), *record, shard, view, boot_nanos()),
            Task::MayGrow { .. } | Task::MayShrink => {}
        }
    }

    /// Waits at a bucket's lane as a read does, and says that what is under way is done, if it was
    /// when this clock was read.
    fn look_at_bucket(
        self: &Arc<Self>,
        keyspace: Keyspace,
        record: FileRecord,
        shard: ShardId,
        view: &View,
        came: BootNanos,
    ) {
        let (hub, its) = (self.clone(), view.clone());
        let callback = move |answer| {
            let Answer::Go { .. } = answer else { return };
            let task = file::task(&its.read(), &record, came);
            match task {
                Some(Task::Done) => hub.turn_file(&keyspace, FileAct::Done, None),
                Some(Task::Look) => hub.look_at_bucket(keyspace, record, shard, &its, came),
                _ => {}
            }
        };
        let waiter = self.side_door.wait(Box::new(callback));
        let at = view.read().last;
        self.submit(shard, Input::Await { shard, at, lock: None, origin: SIDE_DOOR, waiter });
    }

    fn turn_file(&self, keyspace: &Keyspace, act: FileAct, callback: Option<Callback>) {
        let Some(FileRecord { turn, .. }) = keyspace.file else { return };
        self.ask_catalogue(&CatalogueOp::File { keyspace: keyspace.id, turn, act }, callback);
    }

    /// Has a bucket cut that people have named, if it is the next one; `done` is told that it will
    /// be, or why not.
    pub(super) fn ask_grow(
        self: &Arc<Self>,
        shard: ShardId,
        at: Option<CutAt>,
        done: Box<dyn FnOnce(Result<Cut, NoSplit>) + Send>,
    ) {
        let routes = self.routes();
        let Some(route) = routes.of_shard(shard) else { return done(Err(NoSplit::NoShard)) };
        if at.is_some() {
            let why = "it is a bucket of a file, which is cut in the middle: name no place";
            return done(Err(NoSplit::Unfit(why.into())));
        }
        if let Err(why) = is_next(route, shard, "cut", file::next_cut) {
            return done(Err(NoSplit::Unfit(why)));
        }
        let (hub, view) = (self.clone(), self.views.lock().get(&shard).cloned());
        let callback = move |answer| {
            let Answer::Catalogue { result, .. } = answer else {
                return done(Err(NoSplit::NoId));
            };
            let (record, keyspace) = match result {
                Ok(subject) => match *subject {
                    Subject::Keyspace(keyspace) => (keyspace.file, keyspace),
                    _ => unreachable!("a file's record is its keyspace's"),
                },
                Err(error) => return done(Err(NoSplit::Unfit(error.to_string()))),
            };
            let begun = record.zip(view).and_then(|(record, view)| {
                match file::task(&view.read(), &record, boot_nanos())? {
                    Task::Cut(at) => Some((record, at, view.clone())),
                    _ => None,
                }
            });
            let Some((record, at, view)) = begun else { return done(Err(NoSplit::NoId)) };
            let why = "it was asked for".to_owned();
            hub.files.begin(shard, (record.turn, false));
            hub.split_by(shard, &view, at, why, begin_of(&keyspace, &record), done);
        };
        self.turn_file(&route.keyspace, FileAct::Grow, Some(Box::new(callback)));
    }

    /// Has a file shrink by one bucket.
    pub(super) fn ask_shrink(&self, route: &Route) {
        self.turn_file(&route.keyspace, FileAct::Shrink, None);
    }
}

/// Whether a bucket is the one that the last one was cut from, and nothing is under way; if not,
/// why, as a clause.
pub(super) fn may_shrink(route: &Route, shard: ShardId) -> Result<(), String> {
    is_next(route, shard, "taken in", file::next_taker)
}

/// The op that asks whether a file is still to grow, and for a shard's id then.
fn begin_of(keyspace: &Keyspace, record: &FileRecord) -> CatalogueOp<'static> {
    CatalogueOp::File { keyspace: keyspace.id, turn: record.turn, act: FileAct::Begin }
}

/// Whether a shard is the bucket that has its turn; if not, which is, as a clause.
fn is_next(
    route: &Route,
    shard: ShardId,
    what: &str,
    next: impl Fn(&FileRecord) -> Option<Bucket>,
) -> Result<(), String> {
    let Keyspace { name, file, .. } = &route.keyspace;
    let Some(record) = file else { return Err(format!("keyspace {name} has no file")) };
    let whose = |bucket: Bucket| route.shard(route.place_of_number(bucket.start()));
    let under_way = |step: FileStep| match step {
        FileStep::Grow => ("grows", "is cut", file::next_cut(record)),
        FileStep::Shrink => ("shrinks", "takes the last one in", file::next_taker(record)),
    };
    if let Some((does, is, bucket)) = record.step.map(under_way) {
        let by = bucket.map(whose).map_or_else(String::new, |by| format!(": shard {by} {is}"));
        return Err(format!("the file of keyspace {name} {does} just now{by}"));
    }
    match next(record).map(whose) {
        Some(next) if next == shard => Ok(()),
        Some(next) => Err(format!(
            "buckets of the file of keyspace {name} are {what} in its order, and it is the turn of \
             shard {next}"
        )),
        None => Err(format!("the file of keyspace {name} has {record}")),
    }
}
