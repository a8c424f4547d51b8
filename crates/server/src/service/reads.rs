//! Reads of one key: here, or fetched from the node that leads its shard.
//!
//! A read runs on the calling thread; one that is blocked is tried again when the shard's executor
//! says so.

use std::sync::Arc;

use api::{Answer, ApiError, Done};
use command::NotDone;
use keyspace::{Feature, ShardId, Timestamp};
use node::executor::{self, Input};
use node::replica::entry::Waiter;
use node::replica::read::{self, Blocked, ReadTime};
use node::routing::fetch::{FetchRequest, FetchResult, PastValue, past_here};
use node::routing::route::Route;

use super::errors::not_done;
use crate::runtime::{API, ControlInput, NodeRuntime};

/// `now` is when the request had come, however often it is tried.
pub(super) fn get(
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    key: bytes::Bytes,
    now: ReadTime,
    done: Done<Answer>,
) {
    let found = read::value(&route, &key, now, |version| match version {
        Some(version) => value(&version),
        None => Answer::Nil,
    });
    match found {
        Ok(answer) => done(Ok(answer)),
        Err(blocked) if runtime.routing.must_fetch(&route, blocked.place) => {
            let want = FetchRequest::keys([&key[..]]);
            let (shard, again) = (route.shard(blocked.place), (runtime.clone(), route.clone()));
            fetch(
                &runtime,
                shard,
                want,
                Box::new(move |result| match result {
                    Ok(Some(FetchResult::Versions(versions))) => match versions.first() {
                        Some(Ok(held)) => done(Ok(value(&held.version()))),
                        _ => done(Ok(Answer::Nil)),
                    },
                    // It can be read here now.
                    Ok(_) => get(again.0.clone(), renewed(&again.0, again.1), key, now, done),
                    Err(error) => done(Err(error)),
                }),
            );
        }
        Err(blocked) => {
            let again = (runtime.clone(), route.clone());
            wait(
                &runtime,
                &route,
                blocked,
                Box::new(move |result| match result {
                    Ok(RetryAt::Here | RetryAt::Elsewhere) => {
                        // The key may be another shard's by now.
                        let route = renewed(&again.0, again.1);
                        get(again.0, route, key, now, done);
                    }
                    Err(error) => done(Err(error)),
                }),
            );
        }
    }
}

/// As [`get`], of a value that may be old by up to `age_max` nanoseconds.
pub(super) fn get_stale(
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    key: bytes::Bytes,
    now: ReadTime,
    age_max: u64,
    done: Done<Answer>,
) {
    let found = read::value_stale(&route, &key, now, age_max, |version| match version {
        Some(version) => value(&version),
        None => Answer::Nil,
    });
    let aged = |answer, age_ms| Answer::StaleValue { age_ms, answer: Box::new(answer) };
    match found {
        Ok((answer, age)) => done(Ok(aged(answer, age.div_ceil(1_000_000)))),
        // Who leads is asked; its answer is not old.
        Err(_) => {
            get(runtime, route, key, now, Box::new(move |result| done(result.map(|a| aged(a, 0)))));
        }
    }
}

/// The value of a key at a past time.
pub(super) fn get_at(
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    key: bytes::Bytes,
    at: Timestamp,
    done: Done<Answer>,
) {
    let now = runtime.clock.now();
    if at > now {
        return done(Err(ApiError::InFuture { at, now }));
    }
    let (place, again) = (route.place_of_key(&key), (runtime.clone(), route.clone()));
    let asked = key.clone();
    let then = move |result: Result<_, ApiError>| {
        let found = match result {
            Ok(Some(FetchResult::Past(values))) => values.into_iter().next(),
            Ok(Some(FetchResult::Then(found))) => Some(found),
            Ok(Some(FetchResult::BelowSafePoint(safe_point))) => {
                Some(PastValue::BelowSafePoint(safe_point))
            }
            Ok(_) => None,
            Err(error) => return done(Err(error)),
        };
        match found {
            Some(PastValue::Value(held)) => done(Ok(value(&held.version()))),
            Some(PastValue::Nil) => done(Ok(Answer::Nil)),
            Some(PastValue::NilYet) => done(Ok(Answer::NilYet)),
            Some(PastValue::BelowSafePoint(safe_point)) => {
                done(Err(ApiError::BelowSafePoint { at, safe_point }));
            }
            // The shard was split or has moved.
            None => get_at(again.0.clone(), renewed(&again.0, again.1), key, at, done),
        }
    };
    if runtime.version.allows(Feature::Snapshots) {
        let want = FetchRequest::keys([&asked[..]]);
        return fetch_past(&runtime, &route, place, (at, want), Box::new(then));
    }
    // A node of an older version reads this alone.
    let want = FetchRequest::At { key: asked[..].into(), at };
    fetch(&runtime, route.shard(place), want, Box::new(then));
}

pub(super) fn value(version: &storage::engine::Version<'_>) -> Answer {
    Answer::Value {
        value: bytes::Bytes::copy_from_slice(version.value),
        timestamp: version.timestamp,
        expires_at_ms: (version.expiry_ms != 0).then_some(version.expiry_ms),
    }
}

/// The keyspace's route as it is now, if it is still there.
pub(super) fn renewed(runtime: &NodeRuntime, route: Arc<Route>) -> Arc<Route> {
    runtime.routing.routes().by_id(route.keyspace.id).cloned().unwrap_or(route)
}

/// Calls `then` with what a shard's leader elsewhere holds; with nothing if it can be read here.
pub(super) fn fetch(
    runtime: &NodeRuntime,
    shard: ShardId,
    want: FetchRequest,
    then: Done<Option<FetchResult>>,
) {
    let (waiter, origin) = (fetcher(runtime, then), API);
    let want = Box::new(want);
    runtime.submit(shard, Input::Fetch { shard, want, bytes_max: usize::MAX, origin, waiter });
}

/// A waiter that gets what was fetched.
fn fetcher(runtime: &NodeRuntime, then: Done<Option<FetchResult>>) -> Waiter {
    runtime.delivery.waiters.wait(Box::new(move |answer| match answer {
        executor::Answer::Fetched { found, .. } => then(Ok(Some(*found))),
        executor::Answer::Retry { .. }
        | executor::Answer::NotDone { why: NotDone::ReplicaLagging, .. } => {
            then(Ok(None));
        }
        executor::Answer::NotDone { why, .. } => then(Err(not_done(why, None))),
        other => unreachable!("a question is answered or refused: {other:?}"),
    }))
}

/// Calls `then` with what a shard has for an answer at a past time; with nothing if it was split
/// meanwhile. A replica here answers if its past is closed by then; one that follows, and is not so
/// far, asks its leader once up to where it is. Otherwise the leader answers.
pub(super) fn fetch_past(
    runtime: &Arc<NodeRuntime>,
    route: &Arc<Route>,
    place: usize,
    (at, want): (Timestamp, FetchRequest),
    then: Done<Option<FetchResult>>,
) {
    if let Some(found) = past_here(route, place, at, &want) {
        return answer_later(runtime, route.shard(place), (at, want), found, then);
    }
    let is_remote = runtime.routing.must_fetch(route, place);
    let leader = route.views[place].read().serving.leader();
    let follows = !is_remote && leader.is_some_and(|node| node != runtime.identity.node);
    if !follows {
        return fetch_past_of_leader(runtime, route.shard(place), (at, want), then);
    }
    let (again, here) = (runtime.clone(), route.clone());
    let settled = move |result: Result<RetryAt, ApiError>| {
        let found = match result {
            Ok(RetryAt::Here) => past_here(&here, place, at, &want),
            Ok(RetryAt::Elsewhere) => None,
            Err(error) => return then(Err(error)),
        };
        match found {
            Some(found) => then(Ok(Some(found))),
            None => fetch_past_of_leader(&again, here.shard(place), (at, want), then),
        }
    };
    wait(runtime, route, Blocked { place, at, lock: None }, Box::new(settled));
}

fn fetch_past_of_leader(
    runtime: &NodeRuntime,
    shard: ShardId,
    (at, want): (Timestamp, FetchRequest),
    then: Done<Option<FetchResult>>,
) {
    fetch(runtime, shard, FetchRequest::Past { at, want: Box::new(want) }, then);
}

/// Answers by the way that answers of executors go: one request may need thousands, one behind the
/// other, and must not call itself as often.
fn answer_later(
    runtime: &NodeRuntime,
    shard: ShardId,
    (at, want): (Timestamp, FetchRequest),
    found: FetchResult,
    then: Done<Option<FetchResult>>,
) {
    let (waiter, origin) = (fetcher(runtime, then), API);
    let (want, found) = (Box::new(want), Box::new(found));
    let answer = executor::Answer::Fetched { origin, waiter, shard, at, want, found };
    runtime.control.post([ControlInput::Answer(answer)]);
    runtime.control.run(runtime);
}

/// Where a read that was blocked goes on.
pub(super) enum RetryAt {
    /// It may be tried here.
    Here,
    /// The read may have to be fetched from another node.
    Elsewhere,
}

/// Calls `then` when the shard's executor reports that the read may be tried again, or that its
/// replica lags.
pub(super) fn wait(runtime: &NodeRuntime, route: &Route, blocked: Blocked, then: Done<RetryAt>) {
    let (shard, at, lock) = (route.shard(blocked.place), blocked.at, blocked.lock);
    let waiter = runtime.delivery.waiters.wait(Box::new(move |answer| match answer {
        executor::Answer::Retry { .. } => then(Ok(RetryAt::Here)),
        executor::Answer::NotDone { why: NotDone::ReplicaLagging, .. } => {
            then(Ok(RetryAt::Elsewhere))
        }
        executor::Answer::NotDone { why, .. } => then(Err(not_done(why, None))),
        other => unreachable!("a reader is let go or refused: {other:?}"),
    }));
    runtime.submit(shard, Input::AwaitRead { shard, at, lock, origin: API, waiter });
}
