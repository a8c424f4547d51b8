//! Several keys, or a whole keyspace, as of one past time.
//!
//! Each shard's leader is asked for its keys ([`FetchRequest::Past`]). It promises that nothing is
//! written there at or below that time any more, and waits for transactions that may be (SAFETY G2,
//! G8). So the answers of all shards belong to one cut, however late each of them comes. A replica
//! here that has all up to that time answers in the leader's place.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use api::{AHEAD_MS_MAX, Answer, ApiError, Done, KeysPage, KeysQuery};
use bytes::Bytes;
use command::Pair;
use keyspace::{Feature, Timestamp};
use node::replica::scan;
use node::routing::fetch::{FetchRequest, FetchResult, KEYS_MAX, PastValue};
use node::routing::route::Route;

use super::keys;
use super::reads::{fetch_past, renewed, value};
use crate::runtime::NodeRuntime;

/// Bytes of values beyond which a request for several keys is refused.
const VALUES_BYTES_MAX: usize = 64 << 20;

/// What is asked for, as far as it is found.
struct PastKeys {
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    at: Timestamp,
    /// Keys that are not found yet, with their places in `found`.
    missing: BTreeMap<Bytes, Vec<usize>>,
    found: Vec<Answer>,
    bytes: usize,
    done: Done<Vec<Answer>>,
}

/// Answers with the value of each key at a time that has passed.
pub(crate) fn get_many(
    runtime: &Arc<NodeRuntime>,
    route: &Arc<Route>,
    keys: Vec<Bytes>,
    at: Timestamp,
    done: Done<Vec<Answer>>,
) {
    if let Err(error) = check(runtime, at) {
        return done(Err(error));
    }
    let (found, mut missing) = (vec![Answer::Nil; keys.len()], BTreeMap::<_, Vec<usize>>::new());
    for (place, key) in keys.into_iter().enumerate() {
        missing.entry(key).or_default().push(place);
    }
    let (runtime, route) = (runtime.clone(), route.clone());
    PastKeys { runtime, route, at, missing, found, bytes: 0, done }.run();
}

/// Whether leaders can be asked about a time.
pub(crate) fn check(runtime: &NodeRuntime, at: Timestamp) -> Result<(), ApiError> {
    runtime.clock.observe();
    let now = runtime.clock.now();
    // A little ahead, leaders' clocks are raised: what they promise then holds as well.
    if !runtime.clock.may_reach(at, AHEAD_MS_MAX) {
        return Err(ApiError::InFuture { at, now });
    }
    if !runtime.version.allows(Feature::Snapshots) {
        return Err(needs_version());
    }
    Ok(())
}

/// A node of an older version could not read what is asked.
pub(super) fn needs_version() -> ApiError {
    let needed = Feature::Snapshots.since();
    let why =
        format!("snapshots, and reads of several keys at a time, need cluster version {needed}");
    ApiError::VersionRefused { why }
}

impl PastKeys {
    fn run(mut self) {
        self.route = renewed(&self.runtime, self.route);
        let Some((first, _)) = self.missing.first_key_value() else {
            return (self.done)(Ok(self.found));
        };
        let place = self.route.place_of_key(first);
        let is_of_shard = |key: &&Bytes| self.route.place_of_key(key) == place;
        let of_shard = self.missing.keys().filter(is_of_shard).take(KEYS_MAX);
        // They are in rising order, as they are asked for.
        let asked: Vec<Bytes> = of_shard.cloned().collect();
        let want = FetchRequest::keys(asked.iter().map(|key| &**key));
        let (runtime, route, at) = (self.runtime.clone(), self.route.clone(), self.at);
        let then = move |result: Result<_, ApiError>| match result {
            Ok(Some(FetchResult::Past(values))) => self.take(&asked, values),
            Ok(Some(FetchResult::BelowSafePoint(safe_point))) => {
                (self.done)(Err(ApiError::BelowSafePoint { at, safe_point }));
            }
            // The shard was split or has moved.
            Ok(_) => self.run(),
            Err(error) => (self.done)(Err(error)),
        };
        fetch_past(&runtime, &route, place, (at, want), Box::new(then));
    }

    fn take(mut self, asked: &[Bytes], values: Vec<PastValue>) {
        for (key, found) in asked.iter().zip(values) {
            let answer = match found {
                PastValue::Value(held) => value(&held.version()),
                PastValue::Nil => Answer::Nil,
                PastValue::NilYet => Answer::NilYet,
                PastValue::BelowSafePoint(safe_point) => {
                    let at = self.at;
                    return (self.done)(Err(ApiError::BelowSafePoint { at, safe_point }));
                }
            };
            for place in self.missing.remove(key).unwrap_or_default() {
                if let Answer::Value { value, .. } = &answer {
                    self.bytes += value.len();
                }
                self.found[place] = answer.clone();
            }
        }
        if self.bytes > VALUES_BYTES_MAX {
            let why =
                format!("the values take more than {VALUES_BYTES_MAX} bytes; name fewer keys");
            return (self.done)(Err(ApiError::TransactionTooLarge { why }));
        }
        self.run();
    }
}

/// Reads of a whole keyspace as of one past time, shard by shard. Whatever is written meanwhile,
/// all pages belong to one cut.
pub(crate) struct PastKeysWalk {
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    at: Timestamp,
}

/// A range of an ordered keyspace.
pub(crate) struct PastRange {
    /// The low end.
    pub low: Bound<Box<[u8]>>,
    /// The high end.
    pub high: Bound<Box<[u8]>>,
    /// From high to low.
    pub reverse: bool,
    /// With values.
    pub with_values: bool,
    /// At most so many keys.
    pub keys_max: u64,
    /// More bytes are too many.
    pub bytes_max: usize,
}

impl PastKeysWalk {
    /// Of a keyspace at a time.
    pub fn new(runtime: Arc<NodeRuntime>, route: Arc<Route>, at: Timestamp) -> Self {
        Self { runtime, route, at }
    }

    fn page_from(&self, cursor: Option<String>, limit: usize, done: Done<KeysPage>) {
        let asked = KeysQuery { prefix: Bytes::new(), cursor, limit, at: Some(self.at) };
        keys::page(&self.runtime, &self.route, asked, done);
    }

    /// Shows all keys to `each`, until it returns false; then `done` gets what it has gathered.
    pub fn all<T: Send + 'static>(
        self,
        limit: usize,
        gathered: T,
        each: impl FnMut(&mut T, Vec<Bytes>) -> bool + Send + 'static,
        done: impl FnOnce(Result<T, ApiError>) + Send + 'static,
    ) {
        self.all_from(None, limit, gathered, each, done);
    }

    fn all_from<T: Send + 'static>(
        self,
        cursor: Option<String>,
        limit: usize,
        mut gathered: T,
        mut each: impl FnMut(&mut T, Vec<Bytes>) -> bool + Send + 'static,
        done: impl FnOnce(Result<T, ApiError>) + Send + 'static,
    ) {
        let again = Self { route: self.route.clone(), runtime: self.runtime.clone(), at: self.at };
        let then = move |page: Result<KeysPage, ApiError>| match page {
            Ok(KeysPage { keys, next }) => match (each(&mut gathered, keys), next) {
                (true, Some(next)) => again.all_from(Some(next), limit, gathered, each, done),
                _ => done(Ok(gathered)),
            },
            Err(error) => done(Err(error)),
        };
        self.page_from(cursor, limit, Box::new(then));
    }

    /// A page from the cursor of a SCAN on: about so many keys, and where the next one begins.
    pub fn page(
        self,
        cursor: u64,
        limit: usize,
        done: impl FnOnce(Result<(Vec<Bytes>, u64), ApiError>) + Send + 'static,
    ) {
        let then = move |page: Result<KeysPage, ApiError>| {
            done(page.map(|KeysPage { keys, next }| {
                (keys, next.and_then(|next| next.parse().ok()).unwrap_or(0))
            }));
        };
        self.page_from((cursor > 0).then(|| cursor.to_string()), limit, Box::new(then));
    }

    /// A range; none, if it has too many bytes.
    pub fn range(self, asked: PastRange, done: Done<Option<Vec<Pair>>>) {
        RangeRead { walk: self, asked, found: Vec::new(), bytes: 0, done }.run();
    }
}

/// A range, as far as it is found.
struct RangeRead {
    walk: PastKeysWalk,
    asked: PastRange,
    found: Vec<Pair>,
    bytes: usize,
    done: Done<Option<Vec<Pair>>>,
}

impl RangeRead {
    fn run(mut self) {
        let walk = &mut self.walk;
        walk.route = renewed(&walk.runtime, walk.route.clone());
        let (low, high) = (borrowed(&self.asked.low), borrowed(&self.asked.high));
        let places = scan::places_of(&walk.route, low, high);
        let place = match self.asked.reverse {
            false => *places.start(),
            // What ends before a shard's first key lies in the shard before.
            true => match high {
                Bound::Excluded(key) if walk.route.arc(*places.end()).start().tail() == key => {
                    places.end().saturating_sub(1)
                }
                _ => *places.end(),
            },
        };
        let (start, end) = {
            let arc = walk.route.arc(place);
            (arc.start(), arc.end())
        };
        let (low, high) = scan::within(walk.route.arc(place), low, high);
        let at = walk.at;
        let want = FetchRequest::Range {
            low,
            high,
            reverse: self.asked.reverse,
            keys_max: self.asked.keys_max - self.found.len() as u64,
            with_values: self.asked.with_values,
        };
        let next = match self.asked.reverse {
            false if end.is_origin() => None,
            false => Some(Bound::Included(end.tail().into())),
            true if start.is_origin() => None,
            true => Some(Bound::Excluded(start.tail().into())),
        };
        let (runtime, route) = (walk.runtime.clone(), walk.route.clone());
        let then = move |result: Result<_, ApiError>| match result {
            Ok(Some(FetchResult::Pairs { pairs, reached })) => self.take(pairs, reached, next),
            Ok(Some(FetchResult::BelowSafePoint(safe_point))) => {
                (self.done)(Err(ApiError::BelowSafePoint { at, safe_point }));
            }
            Ok(_) => self.run(),
            Err(error) => (self.done)(Err(error)),
        };
        fetch_past(&runtime, &route, place, (at, want), Box::new(then));
    }

    /// Takes a piece in, and goes on behind `reached`, or at the next shard.
    fn take(
        mut self,
        pairs: Vec<Pair>,
        reached: Option<Box<[u8]>>,
        next: Option<Bound<Box<[u8]>>>,
    ) {
        self.bytes += pairs.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        self.found.extend(pairs);
        if self.bytes > self.asked.bytes_max {
            return (self.done)(Ok(None));
        }
        let next = reached.map(Bound::Excluded).or(next);
        let is_full = self.found.len() as u64 >= self.asked.keys_max;
        let Some(next) = next.filter(|_| !is_full) else {
            return (self.done)(Ok(Some(self.found)));
        };
        // Is anything left between the ends?
        let is_over = match (self.asked.reverse, &next, &self.asked.low, &self.asked.high) {
            (
                false,
                Bound::Included(next) | Bound::Excluded(next),
                _,
                Bound::Included(high) | Bound::Excluded(high),
            ) => next > high,
            (
                true,
                Bound::Included(next) | Bound::Excluded(next),
                Bound::Included(low) | Bound::Excluded(low),
                _,
            ) => next < low,
            _ => false,
        };
        if is_over {
            return (self.done)(Ok(Some(self.found)));
        }
        match self.asked.reverse {
            false => self.asked.low = next,
            true => self.asked.high = next,
        }
        self.run();
    }
}

fn borrowed(bound: &Bound<Box<[u8]>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &**key)
}
