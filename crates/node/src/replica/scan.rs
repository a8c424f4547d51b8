//! Keyspace scans: how many keys, which, in what order.
//!
//! A scan reads shard by shard. A long one gives the guard back between pieces, so that writers
//! wait for a piece at most. So it is no snapshot. SCAN and KEYS promise that a key present
//! throughout is shown at least once (SAFETY G18). RANGE promises that each key it shows existed at
//! some moment of the call.
//!
//! A scan may cover some shards only ([`ScanScope`]): when every node answers for the shards it
//! leads.
//!
//! Each shard judges expiry by one time during the whole scan, the latest of three: the node's
//! clock, the clock of the shard's leader when last asked
//! ([`crate::replica::serving::Serving::floor`]), and the newest entry here. Else a node with a
//! slow clock would show keys that another has reported as expired, and hide keys newer than its
//! clock.

use std::ops::Bound;

use command::RangeQuery;
use keyspace::{Placement, Slot, Timestamp, slot_of};
use storage::engine::{MemoryEngine, Range, ScanCursor, WrongLayout};

use crate::replica::read::{Blocked, ReadTime, judged_at};
use crate::replica::state::ShardState;
use crate::routing::route::Route;

/// Keys usually looked at under one hold of a guard.
pub const PIECE_KEYS: usize = 4096;
/// Bits of a SCAN cursor below the slot: the key hash.
const HASH_BITS: u32 = keyspace::KeyHasher::BITS;

/// Which of a keyspace's shards a question is about, by their places.
pub type Places<'a> = &'a dyn Fn(usize) -> bool;

/// About all of them.
pub fn everywhere(_: usize) -> bool {
    true
}

/// The shards that a question is about, and the time at which each of them is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanScope(Vec<Option<Timestamp>>);

impl ScanScope {
    /// All shards, at `now`, whether they serve or not: good for figures, not for answers.
    pub fn unchecked(route: &Route, now: Timestamp) -> Self {
        Self(vec![Some(now); route.views.len()])
    }

    /// The time of the shard at a place, if the question is about it.
    pub fn time(&self, place: usize) -> Option<Timestamp> {
        self.0.get(place).copied().flatten()
    }
}

/// Whether all shards at `places` may be read at `now`. They must serve, and have just the slots of
/// the route. If any of their values has expired by then, their horizon must cover it (SAFETY G2,
/// G13), and no entry in flight may find it alive. A blocked caller tries again with the same
/// `now`, or writers could delay it for ever.
///
/// # Errors
/// [`Blocked`]: the first shard that may not.
pub fn admit(route: &Route, places: Places<'_>, now: ReadTime) -> Result<ScanScope, Blocked> {
    let mut asked = vec![None; route.views.len()];
    for (place, view) in route.views.iter().enumerate().filter(|(place, _)| places(*place)) {
        let state = view.read();
        let at = judged_at(&state, now).max(state.last);
        let serves = state.serving.at(now.boot);
        // What a transaction writes may have been acknowledged before this was asked.
        if serves && state.locks.writes_by(judged_at(&state, now)) {
            return Err(Blocked { place, at, lock: Some(state.locks.released()) });
        }
        if !serves || !is_settled(&state, at) || !route.is_tile(place, &state) {
            return Err(Blocked { place, at, lock: None });
        }
        asked[place] = Some(at);
    }
    Ok(ScanScope(asked))
}

/// Whether all shards that were asked have had the same slots throughout: else keys of one that was
/// split may be missing in the answer, which is void.
pub fn is_unchanged(route: &Route, asked: &ScanScope) -> bool {
    let places = (0..route.views.len()).filter(|place| asked.time(*place).is_some());
    let mut stood = places.map(|place| route.is_tile(place, &route.views[place].read()));
    stood.all(|stood| stood)
}

/// The time at which a piece of a shard is judged, of a question that has come by `asked`: the
/// same, unless what was seen then may have been collected since (SAFETY G14). What has ended by
/// the safe point has ended for good.
fn piece_time(engine: &MemoryEngine, asked: Timestamp) -> Timestamp {
    asked.max(engine.safe_point())
}

/// Whether what has expired in a shard by `now` is gone for good: an entry that is applied is as
/// late; or the horizon covers it, and nothing is under way that may still find it alive.
pub(crate) fn is_settled(state: &ShardState, now: Timestamp) -> bool {
    let next_expiry = state.engine().and_then(MemoryEngine::next_expiry_millis);
    let expired = next_expiry.is_some_and(|expiry| expiry <= now.millis());
    !expired || now <= state.last || (now <= state.horizon && now <= state.unsettled.from())
}

/// How many keys there are.
pub fn size(route: &Route, asked: &ScanScope) -> u64 {
    sizes(route, asked).sum()
}

/// How many keys there are in each shard; none in those that the question is not about.
fn sizes(route: &Route, asked: &ScanScope) -> impl Iterator<Item = u64> {
    route.views.iter().zip(&asked.0).map(|(view, time)| match time {
        Some(at) => view.read().engine().map_or(0, |engine| engine.len(*at)),
        None => 0,
    })
}

/// Some key, or none if there are none (or hardly any among very many that have expired).
pub fn random_key(route: &Route, asked: &ScanScope, random: u64) -> Option<Box<[u8]>> {
    let shards = route.views.len();
    // By size, so that a small shard's keys are not favoured.
    let sizes: Vec<u64> = sizes(route, asked).collect();
    let total: u64 = sizes.iter().sum();
    let mut left = random.checked_rem(total)?;
    let first = sizes.iter().position(|size| {
        let here = left < *size;
        left = left.saturating_sub(*size);
        here
    });
    let around = (0..shards).map(|i| (first.unwrap_or(0) + i) % shards);
    around.filter_map(|place| Some((place, asked.time(place)?))).find_map(|(place, at)| {
        let state = route.views[place].read();
        let engine = state.engine()?;
        engine.random_key(random.rotate_left(32), piece_time(engine, at)).map(Box::from)
    })
}

/// Shows every key. At most `piece_keys` are looked at under one hold of a guard, usually
/// [`PIECE_KEYS`].
pub fn each_key(route: &Route, asked: &ScanScope, piece_keys: usize, show: &mut dyn FnMut(&[u8])) {
    let everything = RangeQuery {
        low: Bound::Unbounded,
        high: Bound::Unbounded,
        reverse: false,
        keys_max: usize::MAX,
    };
    if route.keyspace.options.placement == Placement::Ordered {
        let shown = range(route, asked, &everything, piece_keys, &mut |key, _| show(key));
        return shown.expect("the placement is ordered");
    }
    let mut cursor = 0;
    loop {
        match scan(route, asked, cursor, piece_keys, show) {
            Ok(0) | Err(_) => return,
            Ok(next) => cursor = next,
        }
    }
}

/// Shows about `count` keys from `cursor` on; where to go on, 0 at the end. The cursor is the slot
/// and, below it, the key hash to go on from; of linear hashing it is the number of a position.
///
/// # Errors
/// [`WrongLayout`] if the keyspace is ordered.
pub fn scan(
    route: &Route,
    asked: &ScanScope,
    cursor: u64,
    count: usize,
    show: &mut dyn FnMut(&[u8]),
) -> Result<u64, WrongLayout> {
    if route.keyspace.options.placement == Placement::LinearHash {
        return scan_numbers(route, asked, cursor, count, show);
    }
    if cursor >> HASH_BITS >= u64::from(keyspace::SLOTS) {
        return Ok(0);
    }
    let mut from = place_of_cursor(cursor);
    let mut left = count.clamp(1, PIECE_KEYS * 16);
    for place in route.place_of_slot(from.slot)..route.views.len() {
        let Some(at) = asked.time(place) else { continue };
        let state = route.views[place].read();
        let Some(engine) = state.engine() else { continue };
        let mut seen = 0;
        let next = engine.scan(from, left, piece_time(engine, at), &mut |key, _| {
            seen += 1;
            show(key);
        })?;
        if let Some(next) = next {
            return Ok(cursor_of(next));
        }
        left = left.saturating_sub(seen).max(1);
        let (_, end) = route.slots(place);
        from = ScanCursor { slot: end, hash: 0 };
        if seen > 0 && left <= 1 && place + 1 < route.views.len() {
            return Ok(cursor_of(from));
        }
    }
    Ok(0)
}

/// As [`scan`], of linear hashing.
fn scan_numbers(
    route: &Route,
    asked: &ScanScope,
    cursor: u64,
    count: usize,
    show: &mut dyn FnMut(&[u8]),
) -> Result<u64, WrongLayout> {
    let mut from = cursor;
    let mut left = count.clamp(1, PIECE_KEYS * 16);
    for place in route.place_of_number(cursor)..route.views.len() {
        let Some(at) = asked.time(place) else { continue };
        let state = route.views[place].read();
        let Some(engine) = state.engine() else { continue };
        let mut seen = 0;
        let next = engine.scan_numbers(from, left, piece_time(engine, at), &mut |key, _| {
            seen += 1;
            show(key);
        })?;
        if let Some(next) = next {
            return Ok(next);
        }
        left = left.saturating_sub(seen).max(1);
        from = cursor_behind(route, place);
        if seen > 0 && left <= 1 {
            return Ok(from);
        }
    }
    Ok(0)
}

/// The place that a cursor means. Bits above those of slots are ignored.
pub fn place_of_cursor(cursor: u64) -> ScanCursor {
    let slot = (cursor >> HASH_BITS) % u64::from(keyspace::SLOTS);
    ScanCursor { slot: slot as Slot, hash: cursor & ((1 << HASH_BITS) - 1) }
}

/// The cursor that means this place.
pub fn cursor_of(place: ScanCursor) -> u64 {
    u64::from(place.slot) << HASH_BITS | place.hash
}

/// The index of the shard in which a cursor of [`scan`] lies; none if the cursor is invalid.
pub fn place_of(route: &Route, cursor: u64) -> Option<usize> {
    let stands = place_of_cursor(cursor);
    match route.keyspace.options.placement {
        Placement::LinearHash => Some(route.place_of_number(cursor)),
        _ => (cursor_of(stands) == cursor).then(|| route.place_of_slot(stands.slot)),
    }
}

/// The cursor with which a scan goes on behind the shard at a place; 0 behind the last one.
pub fn cursor_behind(route: &Route, place: usize) -> u64 {
    if route.keyspace.options.placement == Placement::LinearHash {
        return route.numbers(place).1;
    }
    let (_, end) = route.slots(place);
    cursor_of(ScanCursor { slot: end % keyspace::SLOTS, hash: 0 })
}

/// Shows up to `keys_max` keys of one slot; none if the question is not about its shard. At most
/// `piece_keys` are looked at under one hold of the guard, usually [`PIECE_KEYS`].
///
/// # Errors
/// [`WrongLayout`] if the keyspace is not hashed.
pub fn each_key_of_slot(
    route: &Route,
    asked: &ScanScope,
    slot: Slot,
    keys_max: usize,
    piece_keys: usize,
    show: &mut dyn FnMut(&[u8]),
) -> Result<(), WrongLayout> {
    let place = route.place_of_slot(slot);
    let Some(at) = asked.time(place) else { return Ok(()) };
    let view = &route.views[place];
    let mut from = ScanCursor { slot, hash: 0 };
    let mut left = keys_max;
    while left > 0 {
        let state = view.read();
        let Some(engine) = state.engine() else { return Ok(()) };
        let next =
            engine.scan(from, left.min(piece_keys), piece_time(engine, at), &mut |key, _| {
                if left > 0 && slot_of(key) == slot {
                    left -= 1;
                    show(key);
                }
            })?;
        match next {
            Some(next) if next.slot == slot => from = next,
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Shows the keys of a range with their values, in order, shard after shard. At most `piece_keys`
/// are looked at under one hold of a guard, usually [`PIECE_KEYS`].
///
/// # Errors
/// [`WrongLayout`] if the keyspace is not ordered.
pub fn range(
    route: &Route,
    asked: &ScanScope,
    query: &RangeQuery<'_>,
    piece_keys: usize,
    show: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), WrongLayout> {
    let mut left = query.keys_max;
    let mut places: Vec<usize> = places_of(route, query.low, query.high).collect();
    if query.reverse {
        places.reverse();
    }
    for place in places {
        left = range_of_one(route, (place, asked), query, left, piece_keys, show)?;
        if left == 0 {
            break;
        }
    }
    Ok(())
}

/// The places of an ordered keyspace's shards that may have keys between two bounds, in order.
pub fn places_of(
    route: &Route,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
) -> std::ops::RangeInclusive<usize> {
    let place = |bound| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(route.place_of_key(key)),
        Bound::Unbounded => None,
    };
    place(low).unwrap_or(0)..=place(high).unwrap_or(route.views.len() - 1)
}

/// A low and a high end.
pub type Bounds = (Bound<Box<[u8]>>, Bound<Box<[u8]>>);

/// The part between two bounds that lies in an arc of an ordered keyspace: what its shard may be
/// asked for.
pub fn within(arc: &keyspace::Arc, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Bounds {
    let (start, end) = (arc.start(), arc.end());
    let low = match low {
        Bound::Included(key) | Bound::Excluded(key) if key >= start.tail() => low,
        _ if start.is_origin() => Bound::Unbounded,
        _ => Bound::Included(start.tail()),
    };
    let high = match high {
        _ if end.is_origin() => high,
        Bound::Included(key) if key < end.tail() => high,
        Bound::Excluded(key) if key <= end.tail() => high,
        _ => Bound::Excluded(end.tail()),
    };
    (low.map(Box::from), high.map(Box::from))
}

/// As [`range`], of one shard, if the question is about it: at most `left` keys; how many are left.
fn range_of_one(
    route: &Route,
    (place, asked): (usize, &ScanScope),
    query: &RangeQuery<'_>,
    mut left: usize,
    piece_keys: usize,
    show: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<usize, WrongLayout> {
    let Some(at) = asked.time(place) else { return Ok(left) };
    let mut last: Option<Box<[u8]>> = None;
    loop {
        let state = route.views[place].read();
        let Some(engine) = state.engine() else { return Ok(left) };
        let reached = last.as_deref().map(Bound::Excluded);
        let (start, end) = match query.reverse {
            false => (reached.unwrap_or(query.low), query.high),
            true => (query.low, reached.unwrap_or(query.high)),
        };
        let piece = Range {
            start,
            end,
            reverse: query.reverse,
            visited_max: left,
            examined_max: piece_keys,
        };
        let mut seen = 0;
        let stopped = engine.range(&piece, piece_time(engine, at), &mut |key, version| {
            seen += 1;
            show(key, version.value);
        })?;
        left -= seen;
        match stopped {
            Some(key) if left > 0 => last = Some(key.into()),
            _ => return Ok(left),
        }
    }
}

#[cfg(test)]
mod tests;
