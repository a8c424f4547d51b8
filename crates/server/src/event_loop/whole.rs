//! Commands on a keyspace as a whole: counted, flushed, listed, scanned.
//!
//! What shards on other nodes hold of it, or such that lag here, is fetched before
//! ([`super::far`]). The rest is answered shard by shard, never holding two guards at once. What
//! expires meanwhile is judged by one time, which the shards have logged a horizon for if it
//! matters (see [`node::whole`]).

use command::{Sink as _, Write};
use keyspace::Placement;
use node::fetch::Fetched;
use node::read::{Blocked, Now};
use node::route::Route;
use node::whole::{self, PIECE_KEYS, Stretch};

use super::EventLoop;
use super::capped::TOO_LONG;
use super::connection::{Connection, Frame, Slot};
use super::far::{Far, scanned_place, want_of};
use super::resp::{Done, NO_KEYSPACE};
use super::serve::{go_waiter, waiter};
use crate::hub::heat::Heat;
use gateway::resp::{
    Bound, Gather, KeyspaceRequest, Mode, RANGE_NEEDS_ORDER, Range, Session, glob_matches,
};

/// SCAN of an ordered keyspace.
const SCAN_NEEDS_HASH: &str = "ERR SCAN needs a keyspace with hashed placement; use RANGE";

/// CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT of a keyspace without slots.
const SLOTS_NEED_HASH: &str = "ERR slots need a keyspace with hashed placement";

impl EventLoop {
    pub(super) fn run_whole(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        request: &KeyspaceRequest<'_>,
        (now, fetched): (Now, Fetched),
        muted: bool,
    ) -> Done {
        if connection.route.is_none() {
            return self.without_keyspace(at, connection, session, muted);
        }
        match request {
            KeyspaceRequest::Flush => {
                return self.flush_keys(at, connection, session, false, muted);
            }
            KeyspaceRequest::FlushAll => {
                return self.flush_keys(at, connection, session, true, muted);
            }
            _ => {}
        }
        if connection.waits_its_turn() {
            return Done::PutOff;
        }
        let Some(route) = connection.route.clone() else { return Done::Yes };
        if let Some(text) = needs_other_layout(request, &route) {
            return self.refuse(connection, session, text, muted);
        }
        let mine = self.mine(&route);
        // Looked at once: a replica here may catch up meanwhile.
        let all_away: Vec<bool> =
            (0..route.views.len()).map(|place| self.hub.must_fetch(&route, place)).collect();
        let of_slot = match request {
            KeyspaceRequest::CountInSlot { slot } | KeyspaceRequest::KeysInSlot { slot, .. } => {
                Some(route.place_of_slot(*slot))
            }
            // Where some shards are away, a page is of one shard.
            KeyspaceRequest::Scan { cursor, .. } if all_away.contains(&true) => {
                scanned_place(&route, *cursor)
            }
            _ => None,
        };
        let of_range = match request {
            KeyspaceRequest::Range(range) => {
                let Stretch { low, high, .. } = stretch(range);
                whole::places_of(&route, low, high)
            }
            _ => 0..=route.views.len(),
        };
        let wanted = |place: usize| {
            of_range.contains(&place) && of_slot.map_or(mine[place], |of_slot| of_slot == place)
        };
        let mut away: Vec<usize> = (0..route.views.len()).filter(|place| wanted(*place)).collect();
        away.retain(|place| all_away[*place]);
        let places = |place: usize| wanted(place) && !away.contains(&place);
        let asked = match whole::admit(&route, &places, now) {
            Ok(asked) => asked,
            Err(blocked) => {
                connection.fetched = fetched;
                self.wait_for(connection, &route, blocked, now, go_waiter(at));
                return Done::PutOff;
            }
        };
        let random = self.random();
        let found = |place: &usize| {
            let want = want_of(request, &route, *place, random);
            fetched.of(route.shard(*place), &want)
        };
        if away.iter().any(|place| found(place).is_none()) {
            let wants = away
                .iter()
                .map(|place| (route.shard(*place), want_of(request, &route, *place, random)));
            let wants = wants.collect();
            self.fetch(at, connection, wants, now);
            return Done::PutOff;
        }
        let far = Far::gather(away.iter().filter_map(found));
        let before = connection.output.len();
        let mut writer = session.writer(&mut connection.output);
        let bytes_max = self.config.output_bytes_max as usize;
        match request {
            KeyspaceRequest::Size => {
                writer.int((whole::size(&route, &asked) + far.size) as i64);
            }
            KeyspaceRequest::RandomKey => {
                // By size, so that keys of neither side are favoured.
                let near = if far.size > 0 { whole::size(&route, &asked) } else { 0 };
                let is_far = random.rotate_left(13).checked_rem(near + far.size) >= Some(near);
                let here = || whole::random_key(&route, &asked, random);
                let key = if far.size > 0 && is_far { far.random(random) } else { here() };
                match key.or_else(|| far.random(random)) {
                    Some(key) => writer.bulk(&key),
                    None => writer.nil(),
                }
            }
            KeyspaceRequest::Keys { pattern } => {
                let mut keys = Vec::new();
                let mut bytes = 0;
                let mut show = |key: &[u8]| {
                    if bytes <= bytes_max && glob_matches(pattern, key) {
                        bytes += key.len();
                        keys.push(Box::<[u8]>::from(key));
                    }
                };
                far.keys.iter().for_each(|key| show(key));
                whole::each_key(&route, &asked, PIECE_KEYS, &mut show);
                if bytes > bytes_max || far.is_cut {
                    writer.error(TOO_LONG);
                } else {
                    writer.array(keys.len());
                    keys.iter().for_each(|key| writer.bulk(key));
                }
            }
            KeyspaceRequest::Scan { cursor, count, pattern, type_filter } => {
                let of_type = type_filter.is_none_or(|t| t.eq_ignore_ascii_case(b"string"));
                let mut keys = Vec::new();
                let mut show = |key: &[u8]| {
                    if of_type && pattern.is_none_or(|pattern| glob_matches(pattern, key)) {
                        keys.push(Box::<[u8]>::from(key));
                    }
                };
                far.keys.iter().for_each(|key| show(key));
                let scanned = match away.is_empty() {
                    true => whole::scan(&route, &asked, *cursor, *count as usize, &mut show),
                    false => Ok(far.next.unwrap_or(0)),
                };
                // The end of one shard is the beginning of the next.
                let behind = |next| match (next, of_slot) {
                    (0, Some(place)) if place < route.views.len() => {
                        whole::cursor_behind(&route, place)
                    }
                    (next, _) => next,
                };
                if self.sampler.notes() {
                    note_page(&self.hub.heat, &route, *cursor);
                }
                match scanned.map(behind) {
                    Ok(next) => {
                        writer.array(2);
                        writer.bulk(next.to_string().as_bytes());
                        writer.array(keys.len());
                        keys.iter().for_each(|key| writer.bulk(key));
                    }
                    Err(_) => writer.error(SCAN_NEEDS_HASH),
                }
            }
            KeyspaceRequest::CountInSlot { slot } => {
                let mut count = far.keys.len() as i64;
                let show = &mut |_: &[u8]| count += 1;
                match whole::each_key_of_slot(&route, &asked, *slot, usize::MAX, PIECE_KEYS, show) {
                    Ok(()) if far.is_cut => writer.error(TOO_LONG),
                    Ok(()) => writer.int(count),
                    Err(_) => writer.error(SLOTS_NEED_HASH),
                }
            }
            KeyspaceRequest::KeysInSlot { slot, count } => {
                let mut keys = Vec::new();
                let mut bytes = 0;
                let show = &mut |key: &[u8]| {
                    bytes += key.len();
                    if bytes <= bytes_max {
                        keys.push(Box::<[u8]>::from(key));
                    }
                };
                far.keys.iter().take(*count).for_each(|key| show(key));
                match whole::each_key_of_slot(&route, &asked, *slot, *count, PIECE_KEYS, show) {
                    Ok(()) if bytes > bytes_max => writer.error(TOO_LONG),
                    Ok(()) => {
                        writer.array(keys.len());
                        keys.iter().for_each(|key| writer.bulk(key));
                    }
                    Err(_) => writer.error(SLOTS_NEED_HASH),
                }
            }
            KeyspaceRequest::Range(range) => {
                let mut found = Vec::new();
                let mut bytes = 0;
                let mut show = |key: &[u8], value: &[u8]| {
                    bytes += key.len() + if range.with_values { value.len() } else { 0 };
                    if bytes > bytes_max {
                        found.clear();
                        return;
                    }
                    let value = range.with_values.then(|| Box::<[u8]>::from(value));
                    found.push((Box::<[u8]>::from(key), value));
                };
                far.pairs.iter().for_each(|(key, value)| show(key, value));
                let bounds = stretch(range);
                let result = whole::range(&route, &asked, &bounds, PIECE_KEYS, &mut show);
                if !away.is_empty() {
                    // What is here and what is not, in one order.
                    found.sort_unstable_by(|(one, _), (other, _)| match bounds.reverse {
                        false => one.cmp(other),
                        true => other.cmp(one),
                    });
                    found.truncate(bounds.keys_max);
                }
                if self.sampler.notes() {
                    let ends = found.first().zip(found.last());
                    if let Some(((one, _), (other, _))) = ends {
                        note_range(&self.hub.heat, &route, (one, other));
                    }
                }
                match result {
                    Ok(()) if bytes > bytes_max => writer.error(TOO_LONG),
                    Ok(()) if range.with_values => {
                        writer.pairs(found.len());
                        for (key, value) in &found {
                            writer.pair();
                            writer.bulk(key);
                            writer.bulk(value.as_deref().unwrap_or_default());
                        }
                    }
                    Ok(()) => {
                        writer.array(found.len());
                        found.iter().for_each(|(key, _)| writer.bulk(key));
                    }
                    Err(_) => writer.error(RANGE_NEEDS_ORDER),
                }
            }
            KeyspaceRequest::Flush | KeyspaceRequest::FlushAll => unreachable!("handled above"),
        }
        let is_large = matches!(request, KeyspaceRequest::Keys { .. });
        if is_large && self.sampler.notes() {
            let places = (0..route.views.len()).filter(|place| asked.time(*place).is_some());
            places.for_each(|place| self.hub.heat.note_stretch(route.shard(place), &[], None));
        }
        if !whole::stood(&route, &asked) {
            // A shard was cut in two meanwhile.
            connection.output.truncate(before);
            let somewhere = Blocked::unserved(0);
            self.wait_for(connection, &route, somewhere, now, go_waiter(at));
            return Done::PutOff;
        }
        if muted {
            connection.output.truncate(before);
        }
        Done::Yes
    }

    /// One flush for each shard; the reply is that of all. In mode `cluster`, for each that this
    /// node leads of the session's keyspace: there is no other for clients of that mode.
    fn flush_keys(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        all: bool,
        muted: bool,
    ) -> Done {
        let routes = self.hub.routes();
        let mut shards = Vec::new();
        let level = self.hub.cluster_level();
        let is_cluster = self.config.resp_mode == Mode::Cluster;
        for route in routes.iter() {
            // As the commands before it went by.
            let selected = connection.route.as_ref().filter(|r| r.keyspace.id == route.keyspace.id);
            let is_selected = selected.is_some();
            let route = selected.unwrap_or(route);
            if is_selected || (all && !is_cluster) {
                let all = self.mine(route).into_iter().enumerate();
                let piece = |place| (route.shard(place), Write::flush_of(route.arc(place), level));
                shards.extend(all.filter(|(_, mine)| *mine).map(|(place, _)| piece(place)));
            }
        }
        if shards.is_empty() && is_cluster && connection.pending.is_empty() {
            if !muted {
                connection.output.extend_from_slice(b"+OK\r\n");
            }
            return Done::Yes;
        }
        if shards.is_empty() && is_cluster {
            connection.barrier = true;
            return Done::PutOff;
        }
        if shards.is_empty() {
            // Dropped since this turn looked the connection's keyspace up.
            return self.refuse(connection, session, NO_KEYSPACE, muted);
        }
        let number = connection.next_number();
        let frame = Frame::Resp { version: session.version(), muted };
        connection.pending.push_back(Slot::gathering(Gather::Ok, shards.len() as u32, frame));
        for (shard, piece) in shards {
            if self.hub.peers.is_some() {
                connection.written.add(shard);
            }
            self.put_in_batch(shard, &piece, waiter(at, number));
        }
        Done::Yes
    }

    /// A number that clients cannot foresee matters little here: it chooses a key, or a pause.
    pub(super) fn random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.now.0 | 1);
        self.random ^ (self.random >> 29)
    }
}

/// Why a question makes no sense in a keyspace of this layout.
pub(super) fn needs_other_layout(
    request: &KeyspaceRequest<'_>,
    route: &Route,
) -> Option<&'static str> {
    match (request, route.keyspace.options.placement) {
        (KeyspaceRequest::Scan { .. }, Placement::Ordered) => Some(SCAN_NEEDS_HASH),
        (
            KeyspaceRequest::CountInSlot { .. } | KeyspaceRequest::KeysInSlot { .. },
            Placement::Ordered | Placement::LinearHash,
        ) => Some(SLOTS_NEED_HASH),
        (KeyspaceRequest::Range(_), Placement::Hashed | Placement::LinearHash) => {
            Some(RANGE_NEEDS_ORDER)
        }
        _ => None,
    }
}

/// Notes a page of a SCAN. It is for a few slots, or numbers: it is as one for the first of them.
fn note_page(heat: &Heat, route: &Route, cursor: u64) {
    let Some(place) = whole::place_of(route, cursor) else { return };
    let (slot, number);
    let at: &[u8] = match route.keyspace.options.placement {
        Placement::LinearHash => {
            number = cursor.to_be_bytes();
            &number
        }
        Placement::Hashed | Placement::Ordered => {
            slot = whole::place_of_cursor(cursor).slot.to_be_bytes();
            &slot
        }
    };
    heat.note_stretch(route.shard(place), at, Some(at));
}

/// Notes a RANGE that has shown keys from one to another, in either order.
fn note_range(heat: &Heat, route: &Route, (one, other): (&[u8], &[u8])) {
    let (low, high) = if one <= other { (one, other) } else { (other, one) };
    let (from, to) = (route.place_of_key(low), route.place_of_key(high));
    for place in from..=to {
        let first = if place == from { low } else { &[] };
        heat.note_stretch(route.shard(place), first, (place == to).then_some(high));
    }
}

pub(super) fn stretch<'a>(range: &Range<'a>) -> Stretch<'a> {
    let bound = |bound: Bound<'a>| match bound {
        Bound::First | Bound::Last => std::ops::Bound::Unbounded,
        Bound::Included(key) => std::ops::Bound::Included(key),
        Bound::Excluded(key) => std::ops::Bound::Excluded(key),
    };
    // `+` as the low end, or `-` as the high end, is behind or before every key.
    let empty = range.low == Bound::Last || range.high == Bound::First;
    Stretch {
        low: bound(range.low),
        high: bound(range.high),
        reverse: range.reverse,
        keys_max: if empty { 0 } else { range.limit.map_or(usize::MAX, |n| n as usize) },
    }
}
