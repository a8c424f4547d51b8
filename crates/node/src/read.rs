//! Reads outside the lane: one pure function, called by connection threads and, between any two
//! lane steps, by the simulator (SAFETY G1).
//!
//! Under the read guard of every shard it touches, taken in ring order, a read checks
//! 1. that the shard owns the key at its current generation,
//! 2. that the shard serves: its leader's first entry is applied, and all that is committed,
//! 3. for reads at a timestamp, that it is not below the shard's safe point,
//! 4. (locks: there are none yet),
//! 5. and then reads the value.
//!
//! A read that finds a value expired tells its asker that time has passed: the value's end must
//! lie within the logged horizon, or a restarted node with a slower clock would bring the value
//! back (G2, G13). And no entry may be under way with a time at which the value had not expired:
//! that entry would find, and maybe keep, what was said to be gone. Where the replica does not lead,
//! its leader has said up to when nothing is. And a read that finds a value alive must not come
//! after one elsewhere that found it expired: it is judged at the node's time or, if that is later,
//! at the leader's when it was last asked ([`crate::serving::Serving::floor`]). A read that fails a check is
//! [`Blocked`]: the asker has the shard's lane say when to try again.

use std::cell::Cell;
use std::ops::ControlFlow;

use keyspace::{HashedKey, Timestamp};
use parking_lot::RwLockReadGuard;
use replication::BootNanos;
use storage::engine::{At, Version};

use crate::command::{self, Read, Sink};
use crate::route::Route;
use crate::state::ShardState;

/// When a read happens, on both of the node's clocks, read after all of the request had come. Who
/// was blocked and was let go asks again with the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// Its time among entries: what has expired by then is gone.
    pub time: Timestamp,
    /// What the lease must cover ([`crate::serving`]).
    pub boot: BootNanos,
}

/// The read could not be served now; whatever the sink got of it is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The place of the shard whose lane must be asked first.
    pub place: usize,
    /// The time that was read at, to be asked for.
    pub at: Timestamp,
}

/// A read at a timestamp that cannot be served, ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BelowSafePoint {
    /// The safe point.
    pub safe_point: Timestamp,
}

/// Serves a linearizable read of named keys at `now`.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn read(
    route: &Route,
    request: &Read<'_>,
    now: Now,
    sink: &mut impl Sink,
) -> Result<(), Blocked> {
    // The hot path: one key, hashed once.
    if let Read::Get(key) = request {
        return value(route, key, now, |version| match version {
            Some(version) => sink.bulk(version.value),
            None => sink.nil(),
        });
    }
    let guards = Guards::take(route, request, now)?;
    command::answer(&guards, request, now.time, sink);
    match guards.blocked.get() {
        Some(place) => Err(Blocked { place, at: judged_at(guards.guard(place), now) }),
        None => Ok(()),
    }
}

/// Hands the newest value of one key, with its times, to `use_it`: a linearizable read at `now`.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn value<R>(
    route: &Route,
    key: &[u8],
    now: Now,
    use_it: impl FnOnce(Option<Version<'_>>) -> R,
) -> Result<R, Blocked> {
    let key = route.key(key);
    let place = route.place(&key);
    let state = lock(route, place, now)?;
    match newest(&state, &key, now.time) {
        Ok(version) => Ok(use_it(version)),
        Err(()) => Err(Blocked { place, at: judged_at(&state, now) }),
    }
}

/// Serves several linearizable reads of one key each, in order: each is shown to `each`, until it
/// says that it has enough. The keys are looked up side by side, since most of the time goes into
/// waiting for memory.
///
/// # Errors
/// [`Blocked`]: those before the first that is blocked were shown; it and the rest were not.
pub fn get_each(
    route: &Route,
    keys: &[&[u8]],
    now: Now,
    mut each: impl FnMut(Option<Version<'_>>) -> ControlFlow<()>,
) -> Result<(), Blocked> {
    let mut guards: [Option<RwLockReadGuard<'_, ShardState>>; GUARDS_MAX] =
        [const { None }; GUARDS_MAX];
    if route.views.len() > GUARDS_MAX || keys.len() > KEYS_MAX {
        for key in keys {
            if value(route, key, now, &mut each)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    let mut hashed = [const { None }; KEYS_MAX];
    for (slot, key) in hashed.iter_mut().zip(keys) {
        let key = route.key(key);
        let place = route.place(&key);
        // Guards are not taken in ring order here, so none may wait behind a waiting writer: two
        // readers and two writers could wait for each other.
        let guard = guards[place].get_or_insert_with(|| route.views[place].read_recursive());
        if let Some(engine) = guard.keys() {
            engine.prefetch(&key);
        }
        *slot = Some((place, key));
    }
    let looked_up = || hashed.iter().flatten();
    for (place, key) in looked_up() {
        if let Some(engine) = guards[*place].as_ref().and_then(|guard| guard.keys()) {
            engine.prefetch_record(key);
        }
    }
    for (place, key) in looked_up() {
        let blocked = Blocked { place: *place, at: now.time };
        let state =
            guards[*place].as_ref().filter(|state| state.serving.at(now.boot)).ok_or(blocked)?;
        let at = judged_at(state, now);
        if each(newest(state, key, now.time).map_err(|()| Blocked { at, ..blocked })?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Shards whose guards [`get_each`] holds at once, and keys it looks up together.
const GUARDS_MAX: usize = 16;
const KEYS_MAX: usize = 16;

/// Serves a read of one key at a past timestamp, once the lane has said that it may be served.
///
/// # Errors
/// [`BelowSafePoint`]: the versions that were visible then may be gone.
pub fn read_at<R>(
    route: &Route,
    key: &[u8],
    at: Timestamp,
    use_it: impl FnOnce(At<'_>) -> R,
) -> Result<R, BelowSafePoint> {
    let key = route.key(key);
    let state = route.views[route.place(&key)].read();
    let engine = state.keys().expect("routes lead to shards of keys");
    let safe_point = engine.safe_point();
    if at < safe_point {
        return Err(BelowSafePoint { safe_point });
    }
    Ok(use_it(engine.at(&key, at)))
}

/// The read guards of the shards that a request touches, in ring order.
struct Guards<'a> {
    route: &'a Route,
    now: Now,
    held: Vec<(usize, RwLockReadGuard<'a, ShardState>)>,
    blocked: Cell<Option<usize>>,
}

impl<'a> Guards<'a> {
    fn take(route: &'a Route, request: &Read<'_>, now: Now) -> Result<Self, Blocked> {
        let keys = request.keys().iter();
        let mut places: Vec<usize> = keys.map(|key| route.place(&route.key(key))).collect();
        places.sort_unstable();
        places.dedup();
        let guards = places.into_iter().map(|place| Ok((place, lock(route, place, now)?)));
        let held = guards.collect::<Result<_, _>>()?;
        Ok(Self { route, now, held, blocked: Cell::new(None) })
    }

    fn guard(&self, place: usize) -> &ShardState {
        let at = self.held.binary_search_by_key(&place, |(place, _)| *place);
        &self.held[at.expect("the guards of all keys of the request are held")].1
    }
}

fn lock(route: &Route, place: usize, now: Now) -> Result<RwLockReadGuard<'_, ShardState>, Blocked> {
    let state = route.views[place].read();
    if state.serving.at(now.boot) { Ok(state) } else { Err(Blocked { place, at: now.time }) }
}

/// The time at which a read is judged in a shard.
fn judged_at(state: &ShardState, now: Now) -> Timestamp {
    now.time.max(state.serving.floor())
}

/// The newest value of a key in its shard, or the news that the shard must be asked first.
fn newest<'s>(
    state: &'s ShardState,
    key: &HashedKey<'_>,
    now: Timestamp,
) -> Result<Option<Version<'s>>, ()> {
    if !state.owns(key) {
        return Err(());
    }
    let engine = state.keys().expect("routes lead to shards of keys");
    // At time zero nothing has expired yet: expiry is judged here, for its horizon.
    let Some(version) = engine.newest(key, Timestamp::ZERO) else { return Ok(None) };
    if version.expiry_ms == 0 || version.expiry_ms > now.max(state.serving.floor()).millis() {
        return Ok(Some(version));
    }
    let settled = state.horizon.min(state.unsettled.from());
    if version.expiry_ms <= settled.millis() { Ok(None) } else { Err(()) }
}

impl command::View for Guards<'_> {
    fn newest(&self, key: &[u8]) -> Option<Version<'_>> {
        let key = self.route.key(key);
        let place = self.route.place(&key);
        newest(self.guard(place), &key, self.now.time).unwrap_or_else(|()| {
            self.blocked.set(Some(place));
            None
        })
    }
}
