//! The read guards under which a request sees its keys (SAFETY G1).

use std::cell::Cell;

use keyspace::Timestamp;
use parking_lot::RwLockReadGuard;
use storage::engine::Version;

use super::{Blocked, ReadTime, UnknownValue, judged_at, newest, nothing_since};
use crate::replica::state::ShardState;
use crate::routing::fetch::FetchedData;
use crate::routing::route::Route;
use command::Read;

/// The read guard of a shard that may be read.
pub(super) struct HeldGuard<'a> {
    pub place: usize,
    pub state: RwLockReadGuard<'a, ShardState>,
    /// How old the state may be, in nanoseconds.
    pub age: u64,
    /// The time at which to judge what has expired.
    pub time: Timestamp,
}

impl<'a> HeldGuard<'a> {
    pub fn take(
        route: &'a Route,
        place: usize,
        now: ReadTime,
        age_max: u64,
    ) -> Result<Self, Blocked> {
        let state = route.views[place].read();
        let time = judged_at(&state, now);
        if state.serving.at(now.boot) {
            return Ok(Self { place, state, age: 0, time });
        }
        let known = state.serving.age(now.boot).filter(|(age, _)| *age <= age_max && age_max > 0);
        let (age, time) = known.ok_or(Blocked::unserved(place))?;
        Ok(Self { place, state, age, time })
    }
}

/// The read guards of the shards that a request touches, in ring order.
pub(super) struct Guards<'a> {
    pub route: &'a Route,
    pub fetched: &'a FetchedData,
    pub held: Vec<HeldGuard<'a>>,
    pub blocked: Cell<Option<(usize, UnknownValue)>>,
}

impl<'a> Guards<'a> {
    /// Those of shards whose keys were all fetched are not needed.
    pub fn take(
        route: &'a Route,
        request: &Read<'_>,
        now: ReadTime,
        age_max: u64,
        fetched: &'a FetchedData,
    ) -> Result<Self, Blocked> {
        let is_fetched = |place, key: &[u8]| fetched.version(route.shard(place), key).is_some();
        let keys = request.keys().iter();
        let places = keys.map(|key| (route.place(&route.key(key)), key));
        let mut places: Vec<usize> = places
            .filter(|(place, key)| !is_fetched(*place, key))
            .map(|(place, _)| place)
            .collect();
        places.sort_unstable();
        places.dedup();
        let guards = places.into_iter().map(|place| HeldGuard::take(route, place, now, age_max));
        let held = guards.collect::<Result<_, _>>()?;
        Ok(Self { route, fetched, held, blocked: Cell::new(None) })
    }

    /// As [`nothing_since`], of a key under these guards.
    pub fn nothing_since(&self, key: &[u8]) -> Timestamp {
        let key = self.route.key(key);
        let place = self.route.place(&key);
        if let Some((Err(since), _)) = self.fetched.found(self.route.shard(place), key.bytes) {
            return *since;
        }
        let state = &self.guard(place).state;
        // Of a key that is another shard's by now nothing is told.
        let engine = state.engine().filter(|_| state.owns(&key));
        engine.map_or(Timestamp::ZERO, |engine| nothing_since(engine, &key))
    }

    pub fn guard(&self, place: usize) -> &HeldGuard<'a> {
        let at = self.held.binary_search_by_key(&place, |held| held.place);
        &self.held[at.expect("the guards of all keys of the request are held")]
    }
}

impl command::View for Guards<'_> {
    fn newest(&self, key: &[u8]) -> Option<Version<'_>> {
        let key = self.route.key(key);
        let place = self.route.place(&key);
        if let Some((version, _)) = self.fetched.version(self.route.shard(place), key.bytes) {
            return version;
        }
        let held = self.guard(place);
        newest(&held.state, &key, held.time).unwrap_or_else(|why| {
            self.blocked.set(Some((place, why)));
            None
        })
    }
}
