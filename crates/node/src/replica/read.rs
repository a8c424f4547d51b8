//! Reads outside the executor: one pure function, called by connection threads and, between any two
//! executor steps, by the simulator (SAFETY G1).
//!
//! Under the read guard of every shard it touches, taken in ring order, a read checks
//! 1. that the shard owns the key at its current generation,
//! 2. that the shard serves: its leader's first entry is applied, and all that is committed,
//! 3. for reads at a timestamp, that it is not below the shard's safe point,
//! 4. that no transaction over several shards may have written the key already ([`txn::locks`]),
//! 5. and then reads the value.
//!
//! *Expired.* A read that finds a value expired tells its client that time has passed. So the
//! value's end must lie within the logged horizon. Else a restarted node with a slower clock would
//! bring the value back (G2, G13). And no entry may be in flight at a time when the value was
//! alive: it would still find the value. Where the replica does not lead, its leader has named the
//! time below which nothing is in flight.
//!
//! *Alive.* A read that finds a value alive must not come after one elsewhere that found it
//! expired. So it judges by the leader's clock: that of this node, or the one the leader named last
//! ([`crate::replica::serving::Serving::judged_at`]).
//!
//! A read that fails a check is [`Blocked`]. Its caller asks the shard's executor when to try
//! again.

use std::ops::ControlFlow;

use keyspace::{HashedKey, Timestamp};
use parking_lot::RwLockReadGuard;
use replication::BootNanos;
use storage::engine::{MemoryEngine, ReadResult, Version};

use crate::replica::state::ShardState;
use crate::routing::fetch::{self, FetchedData, History};
use crate::routing::route::Route;
use command::{self, ObservedVersion, Read, Sink};

mod guards;

use guards::{Guards, HeldGuard};

/// When a read happens, on both clocks of the node, taken after the whole request had come. A read
/// that was blocked tries again with the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadTime {
    /// Its time among entries: values that have expired by then are gone.
    pub time: Timestamp,
    /// What the lease must cover ([`crate::replica::serving`]).
    pub boot: BootNanos,
}

/// The read could not be served now; whatever the sink got of it is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The place of the shard whose executor must be asked first.
    pub place: usize,
    /// The time that must be settled there; zero if the shard did not serve, and may have nothing
    /// that has expired.
    pub at: Timestamp,
    /// If a transaction has locked a key: how many locks had gone by then. It may be read when it
    /// has been resolved.
    pub lock: Option<u64>,
}

impl Blocked {
    /// A shard that does not serve.
    pub fn unserved(place: usize) -> Self {
        Self { place, at: Timestamp::ZERO, lock: None }
    }

    /// Of a shard that serves.
    fn by(why: UnknownValue, place: usize, at: Timestamp, state: &ShardState) -> Self {
        let lock = (why == UnknownValue::Locked).then(|| state.locks.released());
        Self { place, at, lock }
    }
}

/// Why the newest value of a key cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownValue {
    /// The key is another shard's, or its time is not settled.
    Unsettled,
    /// A transaction may have written it.
    Locked,
}

/// Why a read at a timestamp is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastReadError {
    /// The versions that were visible then may have been collected.
    BelowSafePoint {
        /// The safe point.
        safe_point: Timestamp,
    },
    /// The key is another shard's by now: look where it is.
    Moved,
    /// A transaction that has locked the key may have written it by then: ask again when this
    /// many locks are not all that have gone.
    Locked {
        /// How many had.
        released: u64,
    },
}

/// Serves a linearizable read of named keys at `now`.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn read(
    route: &Route,
    request: &Read<'_>,
    now: ReadTime,
    sink: &mut impl Sink,
) -> Result<(), Blocked> {
    read_with(route, request, now, FetchedData::NONE, sink)
}

/// As [`read()`], with what was fetched for it, after it had come, of shards that are on other
/// nodes.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn read_with(
    route: &Route,
    request: &Read<'_>,
    now: ReadTime,
    fetched: &FetchedData,
    sink: &mut impl Sink,
) -> Result<(), Blocked> {
    // The hot path: one key, hashed once.
    if let Read::Get(key) = request {
        return value_with(route, key, now, fetched, |version| match version {
            Some(version) => sink.bulk(version.value),
            None => sink.nil(),
        });
    }
    let guards = Guards::take(route, request, now, 0, fetched)?;
    let first = request.keys().first().map(|key| route.shard(route.place(&route.key(key))));
    // What is left of a life is counted from when it was looked at.
    let looked_at = first.zip(request.keys().first()).and_then(|(s, key)| fetched.version(s, key));
    let time = match (looked_at, guards.held.first()) {
        (Some((_, at)), _) => at,
        (None, Some(held)) => held.time,
        (None, None) => now.time,
    };
    command::answer(&guards, request, time, sink);
    match guards.blocked.get() {
        Some((place, why)) => {
            let held = guards.guard(place);
            Err(Blocked::by(why, place, held.time, &held.state))
        }
        None => Ok(()),
    }
}

/// Serves a linearizable read at `now` of keys that may lie in several shards; it looks at each
/// shard by itself. It returns the version of each key that it saw, or a mark of none
/// ([`nothing_since`]). If a second such read, with a later `now`, sees the same versions, all of
/// them held at one moment between the two reads (SAFETY G7).
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn look(
    route: &Route,
    request: &Read<'_>,
    now: ReadTime,
    fetched: &FetchedData,
    sink: &mut impl Sink,
) -> Result<Vec<ObservedVersion>, Blocked> {
    let guards = Guards::take(route, request, now, 0, fetched)?;
    command::answer(&guards, request, now.time, sink);
    let versions = request.keys().iter().map(|key| match command::View::newest(&guards, key) {
        Some(version) => ObservedVersion::Version(version.timestamp),
        None => ObservedVersion::Absent(guards.nothing_since(key)),
    });
    let versions = versions.collect();
    match guards.blocked.get() {
        Some((place, why)) => {
            let held = guards.guard(place);
            Err(Blocked::by(why, place, held.time, &held.state))
        }
        None => Ok(versions),
    }
}

/// As [`read_with`], and returns the version of each key that it saw; zero: it has no value.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn read_versions(
    route: &Route,
    request: &Read<'_>,
    now: ReadTime,
    fetched: &FetchedData,
    sink: &mut impl Sink,
) -> Result<Vec<Timestamp>, Blocked> {
    let guards = Guards::take(route, request, now, 0, fetched)?;
    let first = request.keys().first().map(|key| route.shard(route.place(&route.key(key))));
    let looked_at = first.zip(request.keys().first()).and_then(|(s, key)| fetched.version(s, key));
    let held = guards.held.first().map(|held| held.time);
    let time = looked_at.map(|(_, at)| at).or(held).unwrap_or(now.time);
    command::answer(&guards, request, time, sink);
    let version = |key: &&[u8]| {
        command::View::newest(&guards, key).map_or(Timestamp::ZERO, |version| version.timestamp)
    };
    let versions = request.keys().iter().map(version).collect();
    match guards.blocked.get() {
        Some((place, why)) => {
            let held = guards.guard(place);
            Err(Blocked::by(why, place, held.time, &held.state))
        }
        None => Ok(versions),
    }
}

/// Serves a read of named keys that may be stale: by up to `age_max` nanoseconds, where the local
/// replica does not lead. Returns the age of the oldest part of the answer, in nanoseconds: it
/// shows all that any client was told so long before `now`, and maybe more (SAFETY G17).
///
/// # Errors
/// [`Blocked`]: nothing was read. The replica is older than that, or does not know its age. A
/// caller that goes on with [`read()`] gets an answer that is not stale.
pub fn read_stale(
    route: &Route,
    request: &Read<'_>,
    now: ReadTime,
    age_max: u64,
    fetched: &FetchedData,
    sink: &mut impl Sink,
) -> Result<u64, Blocked> {
    let guards = Guards::take(route, request, now, age_max, fetched)?;
    command::answer(&guards, request, now.time, sink);
    match guards.blocked.get() {
        Some((place, why)) => Err(Blocked::by(why, place, now.time, &guards.guard(place).state)),
        None => Ok(guards.held.iter().map(|held| held.age).max().unwrap_or(0)),
    }
}

/// As [`value`], of a value that may be old by up to `age_max` nanoseconds; and how old it is.
///
/// # Errors
/// [`Blocked`]: as [`read_stale`].
pub fn value_stale<R>(
    route: &Route,
    key: &[u8],
    now: ReadTime,
    age_max: u64,
    use_it: impl FnOnce(Option<Version<'_>>) -> R,
) -> Result<(R, u64), Blocked> {
    let key = route.key(key);
    let place = route.place(&key);
    let held = HeldGuard::take(route, place, now, age_max)?;
    let version = newest(&held.state, &key, held.time);
    let version = version.map_err(|why| Blocked::by(why, place, now.time, &held.state))?;
    Ok((use_it(version), held.age))
}

/// Hands the newest value of one key, with its times, to `use_it`: a linearizable read at `now`.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn value<R>(
    route: &Route,
    key: &[u8],
    now: ReadTime,
    use_it: impl FnOnce(Option<Version<'_>>) -> R,
) -> Result<R, Blocked> {
    value_with(route, key, now, FetchedData::NONE, use_it)
}

/// How long the value of a key is that the local replica has applied, be it behind or not; none if
/// this node has no replica of its shard. No read: an estimate of what one would take.
pub fn applied_bytes(route: &Route, key: &[u8]) -> Option<u64> {
    let key = route.key(key);
    let state = route.views[route.place(&key)].read();
    if state.applied_index == 0 || !state.owns(&key) {
        return None;
    }
    let newest = state.engine()?.newest(&key, state.last);
    Some(newest.map_or(0, |version| version.value.len() as u64))
}

/// As [`value`], with what was fetched for it.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn value_with<R>(
    route: &Route,
    key: &[u8],
    now: ReadTime,
    fetched: &FetchedData,
    use_it: impl FnOnce(Option<Version<'_>>) -> R,
) -> Result<R, Blocked> {
    let key = route.key(key);
    let place = route.place(&key);
    if !fetched.is_empty()
        && let Some((version, _)) = fetched.version(route.shard(place), key.bytes)
    {
        return Ok(use_it(version));
    }
    let state = lock(route, place, now)?;
    match newest(&state, &key, now.time) {
        Ok(version) => Ok(use_it(version)),
        Err(why) => Err(Blocked::by(why, place, judged_at(&state, now), &state)),
    }
}

/// What a key has now, for a transaction that is done only if it has that still: a linearizable
/// read at `now`.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn seen(
    route: &Route,
    key: &[u8],
    now: ReadTime,
    fetched: &FetchedData,
) -> Result<ObservedVersion, Blocked> {
    seen_with(route, key, now, fetched, |_, seen| seen)
}

/// As [`seen`], and hands the value to `use_it` as well.
///
/// # Errors
/// [`Blocked`]: nothing was read.
pub fn seen_with<R>(
    route: &Route,
    key: &[u8],
    now: ReadTime,
    fetched: &FetchedData,
    use_it: impl FnOnce(Option<Version<'_>>, ObservedVersion) -> R,
) -> Result<R, Blocked> {
    let key = route.key(key);
    let with = |version: Option<Version<'_>>, time| {
        use_it(
            version,
            version.map_or(ObservedVersion::Absent(time), |found| {
                ObservedVersion::Version(found.timestamp)
            }),
        )
    };
    let place = route.place(&key);
    if let Some((version, at)) = fetched.version(route.shard(place), key.bytes) {
        return Ok(with(version, at));
    }
    let state = lock(route, place, now)?;
    match newest(&state, &key, now.time) {
        Ok(version) => Ok(with(version, state.last)),
        Err(why) => Err(Blocked::by(why, place, judged_at(&state, now), &state)),
    }
}

/// Whether a key has had what was seen of it until now, in the shard that was looked at then and
/// serves it here still.
pub fn is_as_seen(route: &Route, key: &[u8], seen: ObservedVersion, now: ReadTime) -> bool {
    let key = route.key(key);
    let Ok(state) = lock(route, route.place(&key), now) else { return false };
    // Under one guard: once a shard is split, the half that is left knows nothing of the key.
    let is_newer = state.engine().is_none_or(|engine| seen.is_outdated(engine, &key));
    let is_same = |version: Option<Version<'_>>| match (seen, version) {
        (ObservedVersion::Version(before), Some(version)) => version.timestamp == before,
        // An absent key may have had a value meanwhile.
        (ObservedVersion::Absent(_), None) => !is_newer,
        _ => false,
    };
    newest(&state, &key, now.time).is_ok_and(is_same)
}

/// A watched key of which a local replica has a newer version than the client saw. A lagging
/// replica may say so too, because that stays true; its leader need not be asked.
pub fn outdated<'k>(route: &Route, watched: &[(&'k [u8], ObservedVersion)]) -> Option<&'k [u8]> {
    let is_newer = |(key, seen): &&(&[u8], ObservedVersion)| {
        let key = route.key(key);
        let state: &ShardState = &route.views[route.place(&key)].read();
        state.owns(&key) && state.engine().is_some_and(|engine| seen.is_outdated(engine, &key))
    };
    watched.iter().find(is_newer).map(|(key, _)| *key)
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
    now: ReadTime,
    each: impl FnMut(Option<Version<'_>>) -> ControlFlow<()>,
) -> Result<(), Blocked> {
    get_each_with(route, keys, now, FetchedData::NONE, each)
}

/// As [`get_each`], with what was fetched for them.
///
/// # Errors
/// [`Blocked`]: those before the first that is blocked were shown; it and the rest were not.
pub fn get_each_with(
    route: &Route,
    keys: &[&[u8]],
    now: ReadTime,
    fetched: &FetchedData,
    mut each: impl FnMut(Option<Version<'_>>) -> ControlFlow<()>,
) -> Result<(), Blocked> {
    // One alone has nobody beside it.
    if keys.len() == 1 || keys.len() > KEYS_MAX || route.views.len() > GUARDS_MAX {
        for key in keys {
            if value_with(route, key, now, fetched, &mut each)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    let mut guards: [Option<RwLockReadGuard<'_, ShardState>>; GUARDS_MAX] =
        [const { None }; GUARDS_MAX];
    let mut hashed = [const { None }; KEYS_MAX];
    for (slot, key) in hashed.iter_mut().zip(keys) {
        let key = route.key(key);
        let place = route.place(&key);
        // Guards are not taken in ring order here, so none may wait behind a waiting writer: two
        // readers and two writers could wait for each other.
        let guard = guards[place].get_or_insert_with(|| route.views[place].read_recursive());
        if let Some(engine) = guard.engine() {
            engine.prefetch(&key);
        }
        *slot = Some((place, key));
    }
    let looked_up = || hashed.iter().flatten();
    for (place, key) in looked_up() {
        if let Some(engine) = guards[*place].as_ref().and_then(|guard| guard.engine()) {
            engine.prefetch_record(key);
        }
    }
    for (place, key) in looked_up() {
        let state = guards[*place].as_ref().expect("the guard was taken above");
        let version = match state.serving.at(now.boot) {
            true => newest(state, key, now.time)
                .map_err(|why| Blocked::by(why, *place, judged_at(state, now), state))?,
            false => {
                let found = fetched.version(route.shard(*place), key.bytes);
                found.ok_or(Blocked::unserved(*place))?.0
            }
        };
        if each(version).is_break() {
            break;
        }
    }
    Ok(())
}

/// Shards whose guards [`get_each`] holds at once, and keys it looks up together.
const GUARDS_MAX: usize = 16;
const KEYS_MAX: usize = 16;

/// Serves a read of one key at a past timestamp, once the executor has allowed it.
///
/// # Errors
/// [`PastReadError`].
pub fn read_at<R>(
    route: &Route,
    key: &[u8],
    at: Timestamp,
    use_it: impl FnOnce(ReadResult<'_>) -> R,
) -> Result<R, PastReadError> {
    past(route, key, at, |engine| {
        let safe_point = engine.safe_point();
        match engine.is_readable(at) {
            false => Err(PastReadError::BelowSafePoint { safe_point }),
            true => Ok(use_it(engine.at(&route.key(key), at))),
        }
    })
}

/// The changes of a key up to a time, as [`read_at`]; of a time below the safe point none.
///
/// # Errors
/// [`PastReadError`], but for its safe point.
pub fn history(
    route: &Route,
    key: &[u8],
    at: Timestamp,
    changes_max: usize,
) -> Result<History, PastReadError> {
    past(route, key, at, |engine| Ok(fetch::history(engine, key, at, changes_max)))
}

fn past<R>(
    route: &Route,
    key: &[u8],
    at: Timestamp,
    read: impl FnOnce(&MemoryEngine) -> Result<R, PastReadError>,
) -> Result<R, PastReadError> {
    let key = route.key(key);
    let state = route.views[route.place(&key)].read();
    if !state.owns(&key) {
        return Err(PastReadError::Moved);
    }
    let engine = state.engine().expect("routes lead to shards of keys");
    if at >= engine.safe_point() && state.locks.hides_at(key.bytes, at) {
        return Err(PastReadError::Locked { released: state.locks.released() });
    }
    read(engine)
}

fn lock(
    route: &Route,
    place: usize,
    now: ReadTime,
) -> Result<RwLockReadGuard<'_, ShardState>, Blocked> {
    let state = route.views[place].read();
    if state.serving.at(now.boot) { Ok(state) } else { Err(Blocked::unserved(place)) }
}

/// Stands for a key without a value: as long as it is the same, the key has had none all the time.
/// It is the time of the key's last change. That may be forgotten; then it is the safe point, and
/// the change is not later.
pub fn nothing_since(engine: &MemoryEngine, key: &HashedKey<'_>) -> Timestamp {
    engine.newest_timestamp(key).max(engine.safe_point())
}

/// The time at which a read is judged in a shard.
pub(crate) fn judged_at(state: &ShardState, now: ReadTime) -> Timestamp {
    state.serving.judged_at(now.time)
}

/// The newest value of a key in its shard, or the news that the shard must be asked first.
pub(crate) fn newest<'s>(
    state: &'s ShardState,
    key: &HashedKey<'_>,
    now: Timestamp,
) -> Result<Option<Version<'s>>, UnknownValue> {
    if !state.owns(key) {
        return Err(UnknownValue::Unsettled);
    }
    if !state.locks.is_free() && state.locks.hides_newest(key.bytes) {
        return Err(UnknownValue::Locked);
    }
    let engine = state.engine().expect("routes lead to shards of keys");
    // At time zero nothing has expired yet: expiry is judged here, for its horizon.
    let Some(version) = engine.newest(key, Timestamp::ZERO) else { return Ok(None) };
    if version.expiry_ms == 0 {
        return Ok(Some(version));
    }
    // Beside what is as new as this, nothing is there that had ended before that was written.
    let at = state.serving.judged_at(now).max(state.last);
    if version.expiry_ms > at.millis() {
        return Ok(Some(version));
    }
    // Who has only read it alive may write elsewhere: that must not come after this was seen.
    if state.locks.get(key.bytes).is_some() {
        return Err(UnknownValue::Locked);
    }
    // All that comes is later than what is applied.
    let settled = state.horizon.min(state.unsettled.from()).max(state.last);
    if version.expiry_ms <= settled.millis() { Ok(None) } else { Err(UnknownValue::Unsettled) }
}

#[cfg(test)]
mod tests;
