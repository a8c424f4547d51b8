//! Operations of a transaction, run on its copy of the keys.
//!
//! ```text
//!   ops ──► what they lack is read, here or at leaders elsewhere ──► run on the copy ──► results
//!                 └─ blocked: its executor, or the leaders, call back, and it goes on
//! ```
//!
//! This does for HTTP what `event_loop::interactive` does for connections. It never blocks, and
//! goes on in the thread that has the answer. It keeps what it has read.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | values in one request's results | [`ANSWERED_BYTES_MAX`] | it is refused |
//! | time for all that is read | the request's timeout | busy |

mod publish;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use command::{
    Expiry, NotDone, ObservedVersion, RangeQuery, Read, Refusal, Reply, SetIf, SetReply, Step,
    Write,
};
use keyspace::{Placement, ShardId, Timestamp};
use node::executor::{Answer, Input};
use node::replica::read::{self, Blocked, ReadTime};
use node::replica::scan::{self, PIECE_KEYS};
use node::routing::fetch::{FetchRequest, FetchResult, FetchedData};
use node::routing::route::Route;
use parking_lot::Mutex;
use txn::interactive::{TxnTooLarge, UnreadRange};
use txn::wait_queue::{ReserveFrom, ReservingRead};

use super::super::errors::{LOCKED, NO_LEADER, not_done};
use super::super::reads::renewed;
use crate::runtime::open_txns::{HeldTxn, OPEN_TXN_BYTES_MAX};
use crate::runtime::{API, NodeRuntime, boot_nanos};
use api::{ApiError, TxnOp, TxnPair, TxnResult};

/// Bytes of keys and values that the results of one request may hold.
pub const ANSWERED_BYTES_MAX: usize = 16 << 20;

/// Called once, with the transaction and the results of the operations.
pub type Continuation = Box<dyn FnOnce(HeldTxn, Result<Vec<TxnResult>, ApiError>) + Send>;

/// See the front page.
pub struct Run {
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    held: HeldTxn,
    /// Keys that are read before the operations.
    wanted: Vec<Bytes>,
    ops: Vec<TxnOp>,
    results: Vec<TxnResult>,
    answered_bytes: usize,
    /// When the request had come.
    now: ReadTime,
    fetched: FetchedData,
    then: Continuation,
}

/// Why it does not go on at once.
enum Suspended {
    Failed(ApiError),
    /// A local shard must report when to look again.
    Wait(Blocked),
    /// This must be had of shards elsewhere.
    Fetch(Vec<(ShardId, FetchRequest)>),
}

/// Several answers that are waited for at once.
struct Gathering {
    left: usize,
    run: Option<Box<Run>>,
    failed: Option<NotDone>,
}

impl Run {
    /// Runs all of `ops`, or those before the first that is refused. If reservations are wanted,
    /// the leaders of some keys first answer and reserve them under this name.
    pub fn start(
        runtime: &Arc<NodeRuntime>,
        held: HeldTxn,
        ops: Vec<TxnOp>,
        keeps: Option<(Timestamp, Vec<Bytes>)>,
        then: Continuation,
    ) {
        Self::begin(runtime, held, Vec::new(), ops, keeps, then);
    }

    /// Has the copy learn what these keys have, as far as it does not know. There are no results.
    /// Reservations as for [`Self::start`].
    pub fn learn(
        runtime: &Arc<NodeRuntime>,
        held: HeldTxn,
        keys: Vec<Bytes>,
        keeps: Option<(Timestamp, Vec<Bytes>)>,
        then: Continuation,
    ) {
        Self::begin(runtime, held, keys, Vec::new(), keeps, then);
    }

    fn begin(
        runtime: &Arc<NodeRuntime>,
        held: HeldTxn,
        wanted: Vec<Bytes>,
        ops: Vec<TxnOp>,
        keeps: Option<(Timestamp, Vec<Bytes>)>,
        then: Continuation,
    ) {
        let Some(route) = runtime.routing.routes().by_id(held.keyspace).cloned() else {
            return then(held, Err(not_done(NotDone::NoSuchShard, None)));
        };
        let run = Self {
            route,
            held,
            wanted,
            ops,
            results: Vec::new(),
            answered_bytes: 0,
            now: runtime.clock.moment(),
            fetched: FetchedData::default(),
            then,
            runtime: runtime.clone(),
        };
        let run = Box::new(run);
        let Some((name, keys)) = keeps.filter(|(_, keys)| !keys.is_empty()) else {
            return run.go();
        };
        let read = ReservingRead { name, from: ReserveFrom::Everyone };
        let wants = run.route.missing_fetches(keys.iter().map(AsRef::as_ref), |_| true).into_iter();
        let wants = wants.map(|(shard, want)| (shard, want.by(read))).collect();
        run.fetch(wants);
    }

    fn go(mut self: Box<Self>) {
        let stop = match self.run_all() {
            Ok(()) => return self.end(None),
            Err(stop) => stop,
        };
        // Nobody waits longer for it.
        if boot_nanos() > self.now.boot.saturating_add(self.runtime.request_timeout_nanos) {
            return match stop {
                Suspended::Failed(error) => self.end(Some(error)),
                Suspended::Wait(Blocked { lock: Some(_), .. }) => {
                    self.end(Some(ApiError::Busy { why: LOCKED }));
                }
                Suspended::Wait(_) | Suspended::Fetch(_) => {
                    self.end(Some(ApiError::Busy { why: NO_LEADER }));
                }
            };
        }
        match stop {
            Suspended::Failed(error) => self.end(Some(error)),
            Suspended::Wait(blocked) => self.wait(blocked),
            Suspended::Fetch(wants) => self.fetch(wants),
        }
    }

    fn end(self, failed: Option<ApiError>) {
        let Self { held, results, then, .. } = self;
        then(held, failed.map_or(Ok(results), Err));
    }

    /// Goes on when a shard's executor reports that it may be read, or that its replica lags.
    fn wait(self: Box<Self>, blocked: Blocked) {
        let (runtime, shard) = (self.runtime.clone(), self.route.shard(blocked.place));
        let Blocked { at, lock, .. } = blocked;
        let waiter = runtime.delivery.waiters.wait(Box::new(move |answer| match answer {
            Answer::Retry { .. } => self.go_on(None),
            Answer::NotDone { why, .. } => self.go_on(Some(why)),
            other => unreachable!("a reader is let go or refused: {other:?}"),
        }));
        runtime.submit(shard, Input::AwaitRead { shard, at, lock, origin: API, waiter });
    }

    /// Fetches what is missing, and goes on when all of it has come.
    fn fetch(self: Box<Self>, wants: Vec<(ShardId, FetchRequest)>) {
        let runtime = self.runtime.clone();
        let left = wants.len();
        let gathering = Arc::new(Mutex::new(Gathering { left, run: Some(self), failed: None }));
        for (shard, want) in wants {
            let gathering = gathering.clone();
            let waiter = runtime.delivery.waiters.wait(Box::new(move |answer| {
                let mut all = gathering.lock();
                match answer {
                    Answer::Fetched { shard, at, want, found, .. } => {
                        let run = all.run.as_mut().expect("it goes on after the last answer");
                        run.fetched.add(shard, at, *want, *found);
                    }
                    // It can be read here now.
                    Answer::Retry { .. } => {}
                    Answer::NotDone { why, .. } => all.failed = Some(why),
                    other => unreachable!("a question is answered or refused: {other:?}"),
                }
                all.left -= 1;
                if all.left == 0 {
                    let (run, failed) = (all.run.take(), all.failed);
                    drop(all);
                    run.expect("it goes on once").go_on(failed);
                }
            }));
            let (want, origin, bytes_max) = (Box::new(want), API, usize::MAX);
            runtime.submit(shard, Input::Fetch { shard, want, bytes_max, origin, waiter });
        }
    }

    fn go_on(mut self: Box<Self>, failed: Option<NotDone>) {
        let route = renewed(&self.runtime, self.route.clone());
        let is_other = !Arc::ptr_eq(&route, &self.route);
        self.route = route;
        match failed {
            None | Some(NotDone::ReplicaLagging) => self.go(),
            // The shard has become a part of another.
            Some(NotDone::NoSuchShard) if is_other => self.go(),
            Some(why) => self.end(Some(not_done(why, None))),
        }
    }

    fn run_all(&mut self) -> Result<(), Suspended> {
        let lacking = self.lacking();
        self.read(&lacking)?;
        while let Some(op) = self.ops.get(self.results.len()).cloned() {
            let result = self.run_one(&op)?;
            self.answered_bytes += bytes_of(&result);
            if self.answered_bytes > ANSWERED_BYTES_MAX {
                return Err(too_large(&format!(
                    "the results of one request may hold {ANSWERED_BYTES_MAX} bytes of keys and \
                     values"
                )));
            }
            self.results.push(result);
        }
        Ok(())
    }

    /// Keys that operations name and that must be read for them: all at once, so that the shards
    /// are asked side by side.
    fn lacking(&self) -> Vec<Bytes> {
        let mut put = BTreeSet::new();
        let mut lacking = Vec::new();
        let is_known =
            |key: &[u8]| self.held.copy.missing_keys(&Step::Read(Read::Get(key))).is_empty();
        // What had a key that was only written is wanted, too.
        lacking.extend(self.wanted.iter().filter(|key| !self.held.copy.has_read(key)).cloned());
        for op in &self.ops[self.results.len()..] {
            match op {
                TxnOp::Put { key, .. } => {
                    put.insert(key);
                }
                TxnOp::Get { key } | TxnOp::Delete { key } | TxnOp::Increment { key, .. } => {
                    if !is_known(key) && !put.contains(key) {
                        lacking.push(key.clone());
                    }
                }
                TxnOp::Publish { topic, .. } => {
                    let head = Bytes::from(topics::keys::head(topic));
                    if !is_known(&head) {
                        lacking.push(head);
                    }
                }
                TxnOp::Range { .. } => {}
            }
        }
        lacking.sort_unstable();
        lacking.dedup();
        lacking
    }

    /// Has the copy learn what keys have.
    fn read<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> Result<(), Suspended> {
        let route = self.route.clone();
        for (place, key) in keys.iter().enumerate() {
            let key = key.as_ref();
            let copy = &mut self.held.copy;
            let learnt = read::seen_with(&route, key, self.now, &self.fetched, |version, seen| {
                let value = version.map(|version| (version.value, version.expiry_ms));
                copy.record_read(key, value, seen)
            });
            match learnt {
                Ok(Ok(())) => self.count()?,
                Ok(Err(TxnTooLarge)) => return Err(knows_too_much()),
                Err(blocked) if self.runtime.routing.must_fetch(&route, blocked.place) => {
                    let rest = keys[place..].iter().map(AsRef::as_ref);
                    let wants = route.missing_fetches(rest, |place| {
                        self.runtime.routing.must_fetch(&route, place)
                    });
                    // It may have come here between two looks.
                    let is_here = wants.is_empty();
                    return Err(if is_here {
                        Suspended::Wait(blocked)
                    } else {
                        Suspended::Fetch(wants)
                    });
                }
                Err(blocked) => return Err(Suspended::Wait(blocked)),
            }
            self.runtime.request_rates.asked(&route, key, None);
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Suspended> {
        if self.held.count() {
            return Ok(());
        }
        let why = format!(
            "all open HTTP transactions on this node hold {OPEN_TXN_BYTES_MAX} bytes together, \
             which is the limit"
        );
        Err(Suspended::Failed(ApiError::TooManyTransactions { why }))
    }

    fn run_one(&mut self, op: &TxnOp) -> Result<TxnResult, Suspended> {
        let step = match op {
            TxnOp::Range { from, to, limit, reverse } => {
                let bounds = RangeQuery {
                    low: from.as_deref().map_or(Bound::Unbounded, Bound::Included),
                    high: to.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
                    reverse: *reverse,
                    keys_max: *limit,
                };
                return self.range(&bounds);
            }
            TxnOp::Publish { topic, body } => return self.publish(topic, body),
            TxnOp::Get { key } => Step::Read(Read::Get(key)),
            TxnOp::Put { .. } => put(op).expect("it puts"),
            TxnOp::Delete { key } => Step::Write(Write::Delete { key }),
            TxnOp::Increment { key, by } => Step::Write(Write::Increment { key, by: *by }),
        };
        // What was put before in this request may have been put as it was read.
        let lacks: Vec<Bytes> =
            self.held.copy.missing_keys(&step).into_iter().map(Bytes::copy_from_slice).collect();
        self.read(&lacks)?;
        let reply = self.held.copy.run(&step);
        let reply = reply.map_err(|TxnTooLarge| knows_too_much())?;
        self.count()?;
        Ok(match (op, reply) {
            (TxnOp::Get { key }, Reply::Bulk(value)) => {
                let version = version(self.held.copy.seen(key));
                TxnResult::Value { value: Vec::from(value).into(), version }
            }
            (TxnOp::Get { .. }, _) => TxnResult::Nil,
            (TxnOp::Put { .. }, Reply::Ok) => TxnResult::Put,
            (TxnOp::Delete { .. }, Reply::Int(deleted)) => TxnResult::Deleted(deleted > 0),
            (TxnOp::Increment { .. }, Reply::Int(sum)) => TxnResult::Number(sum),
            (TxnOp::Increment { key, by }, Reply::Refused(why)) => {
                return Err(self.refused(format!(
                    "{by} cannot be added to '{}': {}",
                    key.escape_ascii(),
                    match why {
                        Refusal::Overflow => "the sum would leave 64 bits",
                        _ => "its value is no whole number of 64 bits",
                    }
                )));
            }
            (op, other) => unreachable!("{op:?} is not answered {other:?}"),
        })
    }

    fn refused(&self, why: String) -> Suspended {
        Suspended::Failed(ApiError::OperationRefused {
            list: None,
            at: self.results.len() + 1,
            why,
        })
    }

    fn range(&mut self, wanted: &RangeQuery<'_>) -> Result<TxnResult, Suspended> {
        if self.route.keyspace.options.placement != Placement::Ordered {
            let why = "only ordered keyspaces have ranges, and this one is not".to_owned();
            return Err(self.refused(why));
        }
        loop {
            let unread: Vec<Box<[u8]>> = self.held.copy.unread().map(Box::from).collect();
            self.read(&unread)?;
            let Some(gap) = self.held.copy.unread_range(wanted) else { break };
            self.look(&gap)?;
            self.count()?;
        }
        let copy = &self.held.copy;
        let pair = |(key, value): (Box<[u8]>, Box<[u8]>)| TxnPair {
            version: version(copy.seen(&key)),
            key: Vec::from(key).into(),
            value: Vec::from(value).into(),
        };
        Ok(TxnResult::Range(copy.range(wanted).into_iter().map(pair).collect()))
    }

    /// Looks which keys are in the part of a gap that one shard has.
    fn look(&mut self, gap: &UnreadRange) -> Result<(), Suspended> {
        let (place, part) = gap.first_part(&*self.route);
        let (low, high) = part.bounds();
        let keys_max = gap.keys_max.min(txn::interactive::KEYS_MAX);
        let shard = self.route.shard(place);
        let (mut keys, mut reached) = (Vec::new(), None);
        if self.runtime.routing.must_fetch(&self.route, place) {
            let (low, high) = (low.map(Box::from), high.map(Box::from));
            let (reverse, keys_max, with_values) = (gap.reverse, keys_max as u64, false);
            let want = FetchRequest::Range { low, high, reverse, keys_max, with_values };
            let Some(FetchResult::Pairs { pairs, reached: to }) = self.fetched.of(shard, &want)
            else {
                return Err(Suspended::Fetch(vec![(shard, want)]));
            };
            keys.extend(pairs.iter().map(|(key, _)| key.clone()));
            reached = to.clone();
        } else {
            let asked = scan::admit(&self.route, &|other| other == place, self.now);
            let asked = asked.map_err(Suspended::Wait)?;
            let query = RangeQuery { low, high, reverse: gap.reverse, keys_max };
            let mut show = |key: &[u8], _: &[u8]| keys.push(Box::from(key));
            let shown = scan::range(&self.route, &asked, &query, PIECE_KEYS, &mut show);
            if shown.is_err() || !scan::is_unchanged(&self.route, &asked) {
                // The shard was split meanwhile.
                return Err(Suspended::Wait(Blocked::unserved(place)));
            }
            if keys.len() == keys_max {
                reached = keys.last().cloned();
            }
        }
        let found = self.held.copy.found(&part, gap.reverse, &keys, reached.as_deref());
        found.map_err(|TxnTooLarge| knows_too_much())
    }
}

/// What an operation that puts does.
fn put(op: &TxnOp) -> Option<Step<'_>> {
    let TxnOp::Put { key, value, expires_at_ms } = op else { return None };
    let expiry = expires_at_ms.map_or(Expiry::Never, Expiry::At);
    let (when, reply) = (SetIf::Always, SetReply::Ok);
    Some(Step::Write(Write::Set { key, value, when, expiry, reply }))
}

fn version(seen: Option<ObservedVersion>) -> Option<Timestamp> {
    match seen {
        Some(ObservedVersion::Version(at)) => Some(at),
        Some(ObservedVersion::Absent(_)) | None => None,
    }
}

fn bytes_of(result: &TxnResult) -> usize {
    match result {
        TxnResult::Value { value, .. } => value.len(),
        TxnResult::Range(pairs) => pairs.iter().map(|pair| pair.key.len() + pair.value.len()).sum(),
        TxnResult::Nil
        | TxnResult::Put
        | TxnResult::Deleted(_)
        | TxnResult::Number(_)
        | TxnResult::Published(_) => 0,
    }
}

fn knows_too_much() -> Suspended {
    too_large(
        "a transaction reads and writes at most 65536 keys, and 32 MiB of keys and values, and at \
         most 1024 separate ranges",
    )
}

fn too_large(why: &str) -> Suspended {
    Suspended::Failed(ApiError::TransactionTooLarge { why: why.to_owned() })
}
