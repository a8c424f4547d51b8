//! Questions about a keyspace as a whole: how many keys, which, in what order.
//!
//! They are answered shard by shard, and a long one gives the guard back between pieces, so that
//! writers wait for a piece at most. So they are no snapshot: SCAN and KEYS promise that a key
//! present throughout is shown at least once (SAFETY G18), RANGE that each key it shows was there
//! at some moment of the call.
//!
//! A question may be about some of the shards only ([`Places`]): where every node answers for the
//! shards it leads.

use std::ops::Bound;

use keyspace::{Placement, Slot, Timestamp, slot_of};
use storage::engine::{Engine, Range, ScanCursor, WrongLayout};

use crate::read::{Blocked, Now};
use crate::route::Route;
use crate::state::ShardState;

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

/// A stretch of an ordered keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Its low end.
    pub low: Bound<&'a [u8]>,
    /// Its high end.
    pub high: Bound<&'a [u8]>,
    /// From high to low.
    pub reverse: bool,
    /// At most so many keys.
    pub keys_max: usize,
}

/// Whether all shards at `places` may be asked at `now`: they serve, and if anything in them has
/// expired by then, their horizon covers it (SAFETY G2, G13) and nothing is under way that may
/// still find it alive. Who was blocked asks again with the same `now`, or writers could keep him
/// off for ever.
///
/// # Errors
/// [`Blocked`]: the first shard that may not.
pub fn admit(route: &Route, places: Places<'_>, now: Now) -> Result<(), Blocked> {
    for (place, view) in route.views.iter().enumerate().filter(|(place, _)| places(*place)) {
        let state = view.read();
        if !state.serving.at(now.boot) || !is_settled(&state, now.time) {
            return Err(Blocked { place, at: now.time });
        }
    }
    Ok(())
}

/// Whether what has expired in a shard by `now` is gone for good: the horizon covers it, and
/// nothing is under way that may still find it alive.
pub(crate) fn is_settled(state: &ShardState, now: Timestamp) -> bool {
    let next_expiry = state.keys().and_then(Engine::next_expiry_millis);
    let expired = next_expiry.is_some_and(|expiry| expiry <= now.millis());
    !expired || (now <= state.horizon && now <= state.unsettled.from())
}

/// The time at which a shard is looked at. Another node's clock may be ahead of this one's, and so
/// may be what it has written and acknowledged before the question came here: so no earlier than
/// the newest that is applied, for what has expired by then is settled, since all that comes is
/// later. Nor may come back what it has said to have ended ([`crate::serving::Serving::floor`]), as
/// far as that is settled here.
fn looked_at(state: &ShardState, now: Timestamp) -> Timestamp {
    let settled = state.horizon.min(state.unsettled.from());
    now.max(state.last).max(state.serving.floor().min(settled))
}

/// How many keys there are.
pub fn size(route: &Route, places: Places<'_>, now: Timestamp) -> u64 {
    sizes(route, places, now).sum()
}

/// How many keys there are in each shard; none in those that the question is not about.
fn sizes(route: &Route, places: Places<'_>, now: Timestamp) -> impl Iterator<Item = u64> {
    route.views.iter().enumerate().map(move |(place, view)| match places(place) {
        true => {
            let state = view.read();
            state.keys().map_or(0, |engine| engine.len(looked_at(&state, now)))
        }
        false => 0,
    })
}

/// Some key, or none if there are none (or hardly any among very many that have expired).
pub fn random_key(
    route: &Route,
    places: Places<'_>,
    random: u64,
    now: Timestamp,
) -> Option<Box<[u8]>> {
    let shards = route.views.len();
    // By size, so that a small shard's keys are not favoured.
    let sizes: Vec<u64> = sizes(route, places, now).collect();
    let total: u64 = sizes.iter().sum();
    let mut left = random.checked_rem(total)?;
    let first = sizes.iter().position(|size| {
        let here = left < *size;
        left = left.saturating_sub(*size);
        here
    });
    let around = (0..shards).map(|i| (first.unwrap_or(0) + i) % shards);
    around.filter(|place| places(*place)).find_map(|place| {
        let state = route.views[place].read();
        let at = looked_at(&state, now);
        state.keys()?.random_key(random.rotate_left(32), at).map(Box::from)
    })
}

/// Shows every key. At most `piece_keys` are looked at under one hold of a guard, usually
/// [`PIECE_KEYS`].
pub fn each_key(
    route: &Route,
    places: Places<'_>,
    piece_keys: usize,
    now: Timestamp,
    show: &mut dyn FnMut(&[u8]),
) {
    let everything = Stretch {
        low: Bound::Unbounded,
        high: Bound::Unbounded,
        reverse: false,
        keys_max: usize::MAX,
    };
    if route.keyspace.options.placement == Placement::Ordered {
        let shown = range(route, &everything, piece_keys, now, &mut |key, _| show(key));
        return shown.expect("it is ordered");
    }
    let mut cursor = 0;
    loop {
        match scan(route, places, cursor, piece_keys, now, show) {
            Ok(0) | Err(_) => return,
            Ok(next) => cursor = next,
        }
    }
}

/// Shows about `count` keys from `cursor` on; where to go on, 0 at the end. The cursor is the slot
/// and, below it, the key hash to go on from.
///
/// # Errors
/// [`WrongLayout`] if the keyspace is ordered.
pub fn scan(
    route: &Route,
    places: Places<'_>,
    cursor: u64,
    count: usize,
    now: Timestamp,
    show: &mut dyn FnMut(&[u8]),
) -> Result<u64, WrongLayout> {
    if cursor >> HASH_BITS >= u64::from(keyspace::SLOTS) {
        return Ok(0);
    }
    let mut from = place_of_cursor(cursor);
    let mut left = count.clamp(1, PIECE_KEYS * 16);
    for place in route.keyspace.index_of_slot(from.slot)..route.views.len() {
        if !places(place) {
            continue;
        }
        let state = route.views[place].read();
        let Some(engine) = state.keys() else { continue };
        let mut seen = 0;
        let next = engine.scan(from, left, looked_at(&state, now), &mut |key, _| {
            seen += 1;
            show(key);
        })?;
        if let Some(next) = next {
            return Ok(cursor_of(next));
        }
        left = left.saturating_sub(seen).max(1);
        let Some(keyspace_arc) = route.keyspace.arc(place).slots() else { continue };
        let end = keyspace_arc.1;
        from = ScanCursor { slot: end, hash: 0 };
        if seen > 0 && left <= 1 && place + 1 < route.views.len() {
            return Ok(cursor_of(from));
        }
    }
    Ok(0)
}

/// Where a cursor stands. Bits above those of slots are not looked at.
pub fn place_of_cursor(cursor: u64) -> ScanCursor {
    let slot = (cursor >> HASH_BITS) % u64::from(keyspace::SLOTS);
    ScanCursor { slot: slot as Slot, hash: cursor & ((1 << HASH_BITS) - 1) }
}

/// The cursor that stands there.
pub fn cursor_of(place: ScanCursor) -> u64 {
    u64::from(place.slot) << HASH_BITS | place.hash
}

/// The cursor with which a scan goes on behind the shard at a place of a hashed keyspace; 0 behind
/// the last one.
pub fn cursor_behind(route: &Route, place: usize) -> u64 {
    let end = route.keyspace.arc(place).slots().map_or(0, |(_, end)| end);
    cursor_of(ScanCursor { slot: end % keyspace::SLOTS, hash: 0 })
}

/// Shows up to `keys_max` keys of one slot. At most `piece_keys` are looked at under one hold of
/// the guard, usually [`PIECE_KEYS`].
///
/// # Errors
/// [`WrongLayout`] if the keyspace is ordered.
pub fn each_key_of_slot(
    route: &Route,
    slot: Slot,
    keys_max: usize,
    piece_keys: usize,
    now: Timestamp,
    show: &mut dyn FnMut(&[u8]),
) -> Result<(), WrongLayout> {
    let view = &route.views[route.keyspace.index_of_slot(slot)];
    let mut from = ScanCursor { slot, hash: 0 };
    let mut left = keys_max;
    while left > 0 {
        let state = view.read();
        let Some(engine) = state.keys() else { return Ok(()) };
        let at = looked_at(&state, now);
        let next = engine.scan(from, left.min(piece_keys), at, &mut |key, _| {
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

/// Shows the keys of a stretch with their values, in order. At most `piece_keys` are looked at
/// under one hold of a guard, usually [`PIECE_KEYS`].
///
/// # Errors
/// [`WrongLayout`] if the keyspace is hashed.
pub fn range(
    route: &Route,
    stretch: &Stretch<'_>,
    piece_keys: usize,
    now: Timestamp,
    show: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), WrongLayout> {
    let mut left = stretch.keys_max;
    let mut last: Option<Box<[u8]>> = None;
    loop {
        let state = route.views[0].read();
        let Some(engine) = state.keys() else { return Ok(()) };
        let reached = last.as_deref().map(Bound::Excluded);
        let (start, end) = match stretch.reverse {
            false => (reached.unwrap_or(stretch.low), stretch.high),
            true => (stretch.low, reached.unwrap_or(stretch.high)),
        };
        let piece = Range {
            start,
            end,
            reverse: stretch.reverse,
            visited_max: left,
            examined_max: piece_keys,
        };
        let mut seen = 0;
        let stopped = engine.range(&piece, looked_at(&state, now), &mut |key, version| {
            seen += 1;
            show(key, version.value);
        })?;
        left -= seen;
        match stopped {
            Some(key) if left > 0 => last = Some(key.into()),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyspace::{CatalogueOp, Keyspace, KeyspaceOptions, NodeId};
    use parking_lot::RwLock;
    use replication::Entry;

    use super::*;
    use crate::birth;
    use crate::catalogue::{Change, System};
    use crate::command::{Expiry, SetIf, SetReply, Write};
    use crate::entry::{Batch, Header, Kind, Waiter};

    const HASHER: keyspace::KeyHasher = keyspace::KeyHasher::new([1; 16]);

    fn keyspace(placement: Placement) -> Keyspace {
        let mut system = System::default();
        let mut op = Vec::new();
        let options = KeyspaceOptions { placement, ..Default::default() };
        CatalogueOp::Create { name: "k", options }.encode(&mut op);
        match system.apply(&op, &[NodeId(1)]).expect("it can be made") {
            Change::Created(keyspace) => keyspace,
            other => panic!("{other:?}"),
        }
    }

    fn apply(state: &mut ShardState, write: &Write<'_>, timestamp: Timestamp) {
        let mut batch = Batch::default();
        batch.push(write, Waiter(1));
        let (mut bytes, _) = batch.into_parts();
        let term = state.applied_term;
        Header { kind: Kind::Commands, timestamp, term, count: 1 }.fill(&mut bytes);
        let index = state.applied_index + 1;
        let entry = Entry { index, term, data: bytes.into(), is_change: false };
        state.apply(&entry, &mut Vec::new());
    }

    /// What a leader with a faster clock has told to have ended is not there again here.
    #[test]
    fn what_has_ended_elsewhere_has_ended_here() {
        let keyspace = keyspace(Placement::Ordered);
        let mut state = birth::first_state(&keyspace, 0, HASHER);
        let (expiry, when, reply) = (Expiry::At(1_100), SetIf::Always, SetReply::Ok);
        let set = Write::Set { key: b"key", value: b"value", when, expiry, reply };
        let at = Timestamp::from_millis;
        apply(&mut state, &set, at(900));
        let horizon = at(2_000).0.to_le_bytes();
        let mut bytes = crate::entry::operation(&horizon);
        let (term, index) = (state.applied_term, state.applied_index + 1);
        Header { kind: Kind::Horizon, timestamp: at(901), term, count: 1 }.fill(&mut bytes);
        state.apply(&Entry { index, term, data: bytes.into(), is_change: false }, &mut Vec::new());
        let mut promise = txn::Promise::new(state.unsettled.clone());
        let serving = state.serving.clone();
        let views = vec![Arc::new(RwLock::new(state))];
        let route = Route { keyspace, hasher: HASHER, views };
        let now = at(1_000);
        serving.raise_floor(at(1_200));
        // Something under way may still keep it.
        promise.settled(at(1_000));
        assert_eq!(size(&route, &everywhere, now), 1);
        promise.settled(at(1_200));
        assert_eq!(size(&route, &everywhere, now), 0);
    }

    /// What a node with a faster clock has written and acknowledged is there for who asks a
    /// follower with a slower one afterwards.
    #[test]
    fn what_is_applied_is_seen_whatever_the_clock_here_says() {
        for placement in [Placement::Hashed, Placement::Ordered] {
            let keyspace = keyspace(placement);
            let places = 0..keyspace.shards.len();
            let first = |place| birth::first_state(&keyspace, place, HASHER);
            let views: Vec<_> = places.map(|p| Arc::new(RwLock::new(first(p)))).collect();
            let route = Route { keyspace, hasher: HASHER, views };
            let (now, ahead) = (Timestamp::from_millis(1_000), 300u64);
            let key = &b"key"[..];
            let place = route.place(&route.key(key));
            let shown = || {
                let mut shown = Vec::new();
                let mut show = |key: &[u8]| shown.push(key.to_vec());
                each_key(&route, &everywhere, PIECE_KEYS, now, &mut show);
                if placement == Placement::Hashed {
                    let slot = slot_of(key);
                    let all = usize::MAX;
                    let counted = each_key_of_slot(&route, slot, all, PIECE_KEYS, now, &mut show);
                    counted.expect("it is hashed");
                }
                shown
            };
            let (expiry, when, reply) = (Expiry::Never, SetIf::Always, SetReply::Ok);
            let set = Write::Set { key, value: b"value", when, expiry, reply };
            let later = |millis: u64| Timestamp::from_millis(1_000 + millis);
            apply(&mut route.views[place].write(), &set, later(ahead));
            let times = if placement == Placement::Hashed { 2 } else { 1 };
            assert_eq!(shown(), vec![key.to_vec(); times]);
            assert_eq!(random_key(&route, &everywhere, 7, now).as_deref(), Some(key));
            assert_eq!(size(&route, &everywhere, now), 1);
            apply(&mut route.views[place].write(), &Write::Flush, later(ahead + 1));
            assert_eq!(shown(), Vec::<Vec<u8>>::new());
            assert_eq!(random_key(&route, &everywhere, 7, now), None);
            assert_eq!(size(&route, &everywhere, now), 0);
        }
    }
}
