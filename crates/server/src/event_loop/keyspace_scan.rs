//! Keyspace scans: commands that count, flush, list or scan all keys of a keyspace.
//!
//! The loop first fetches the keys of remote shards, and of shards that lag here
//! ([`super::remote_scan`]). It answers the rest shard by shard, and never holds two guards at
//! once. One time decides what has expired; the shards have logged a horizon for it if it matters
//! (see [`node::replica::scan`]).

use command::{RangeQuery, Write};
use keyspace::Placement;
use node::replica::read::Blocked;
use node::replica::scan::{self, ScanScope};
use node::routing::route::Route;

use super::EventLoop;
use super::connection::Connection;
use super::moment::ReadMoment;
use super::pending_reply::{PendingReply, ReplyFrame};
use super::remote_scan::{RemoteScan, scanned_place, want_of};
use super::resp::{CommandOutcome, NO_KEYSPACE};
use super::scans::{KeyspaceScan, Pairs};
use super::serve::{go_waiter, waiter};
use crate::runtime::request_rates::RequestRates;
use gateway::resp::{Bound, Gather, KeyspaceRequest, Mode, RANGE_NEEDS_ORDER, Range, Session};

/// SCAN of an ordered keyspace.
pub(super) const SCAN_NEEDS_HASH: &str =
    "ERR SCAN needs a keyspace with hashed placement; use RANGE";

/// CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT of a keyspace without slots.
pub(super) const SLOTS_NEED_HASH: &str = "ERR slots need a keyspace with hashed placement";

/// The shards that a command looks at, by their places.
struct Scope {
    /// Whether each of them is looked at.
    wanted: Vec<bool>,
    /// Those that are fetched.
    remote_places: Vec<usize>,
    /// The only one, where one alone is looked at.
    only: Option<usize>,
}

impl Scope {
    fn is_here(&self, place: usize) -> bool {
        self.wanted[place] && !self.remote_places.contains(&place)
    }
}

impl EventLoop {
    /// Runs a command on a keyspace as a whole.
    pub(super) fn scan_keyspace(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        request: &KeyspaceRequest<'_>,
        ReadMoment { now, fetched }: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        if connection.route.is_none() {
            return self.without_keyspace(at, connection, session, muted);
        }
        if let KeyspaceRequest::Flush | KeyspaceRequest::FlushAll = request {
            let all = matches!(request, KeyspaceRequest::FlushAll);
            return self.flush_keys(at, connection, session, all, muted);
        }
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let Some(route) = connection.route.clone() else { return CommandOutcome::Answered };
        if let Some(text) = needs_other_layout(request, &route) {
            return self.refuse(connection, session, text, muted);
        }
        let scope = self.scope(request, &route, connection.mode, session);
        let asked = match scan::admit(&route, &|place| scope.is_here(place), now) {
            Ok(asked) => asked,
            Err(blocked) => {
                connection.next.fetched = fetched;
                self.wait_for(connection, &route, blocked, now, go_waiter(at));
                return CommandOutcome::Deferred;
            }
        };
        let random = self.random();
        let want = |place: &usize| want_of(request, &route, *place, random);
        let found = |place: &usize| fetched.of(route.shard(*place), &want(place));
        if scope.remote_places.iter().any(|place| found(place).is_none()) {
            let wants = scope.remote_places.iter().map(|place| (route.shard(*place), want(place)));
            self.fetch(at, connection, wants.collect(), now);
            return CommandOutcome::Deferred;
        }
        let scan = KeyspaceScan {
            route: &route,
            asked: &asked,
            remote: RemoteScan::gather(scope.remote_places.iter().filter_map(found)),
            has_remote: !scope.remote_places.is_empty(),
            place: scope.only,
            random,
            bytes_max: self.config.output_bytes_max as usize,
        };
        let before = connection.output.bytes.len();
        let shown = scan.answer(request, &mut session.writer(&mut connection.output.bytes));
        self.note_scan(request, &route, &asked, &shown);
        if !scan::is_unchanged(&route, &asked) {
            // A shard was split meanwhile.
            connection.output.bytes.truncate(before);
            let somewhere = Blocked::unserved(0);
            self.wait_for(connection, &route, somewhere, now, go_waiter(at));
            return CommandOutcome::Deferred;
        }
        if connection.tracking.is_some() && shown.iter().any(|(_, value)| value.is_some()) {
            let keys = shown.into_iter().map(|(key, _)| key).collect();
            if !self.hold_shown(at, connection, session, keys, now) {
                connection.output.bytes.truncate(before);
                return CommandOutcome::Deferred;
            }
        }
        if connection.output.bytes.get(before) == Some(&b'-') {
            self.runtime.counters.errors.add(1);
        }
        if muted {
            connection.output.bytes.truncate(before);
        }
        CommandOutcome::Answered
    }

    /// Which shards a command looks at. Remote ones are determined once: a replica here may catch
    /// up meanwhile.
    fn scope(
        &self,
        request: &KeyspaceRequest<'_>,
        route: &Route,
        mode: Mode,
        session: &Session,
    ) -> Scope {
        let places = 0..route.views.len();
        let all_away: Vec<bool> =
            places.clone().map(|place| self.runtime.routing.must_fetch(route, place)).collect();
        let only = match request {
            KeyspaceRequest::CountInSlot { slot } | KeyspaceRequest::KeysInSlot { slot, .. } => {
                Some(route.place_of_slot(*slot))
            }
            // Where some shards are away, a page is of one shard.
            KeyspaceRequest::Scan { cursor, .. } if all_away.contains(&true) => {
                scanned_place(route, *cursor)
            }
            _ => None,
        };
        let of_range = match request {
            KeyspaceRequest::Range(range) => {
                let RangeQuery { low, high, .. } = range_query(range);
                scan::places_of(route, low, high)
            }
            _ => 0..=route.views.len(),
        };
        let mine = self.local_scope(route, mode, session);
        let is_wanted = |place: &usize| {
            of_range.contains(place) && only.map_or(mine[*place], |only| only == *place)
        };
        let wanted: Vec<bool> = places.clone().map(|place| is_wanted(&place)).collect();
        let remote_places = places.filter(|place| wanted[*place] && all_away[*place]).collect();
        Scope { wanted, remote_places, only }
    }

    /// Notes which shards were asked, if it is their turn.
    fn note_scan(
        &mut self,
        request: &KeyspaceRequest<'_>,
        route: &Route,
        asked: &ScanScope,
        shown: &Pairs,
    ) {
        let is_noted = matches!(
            request,
            KeyspaceRequest::Scan { .. } | KeyspaceRequest::Range(_) | KeyspaceRequest::Keys { .. }
        );
        if !is_noted || !self.sampler.notes() {
            return;
        }
        match request {
            KeyspaceRequest::Scan { cursor, .. } => {
                note_page(&self.runtime.request_rates, route, *cursor)
            }
            KeyspaceRequest::Keys { .. } => {
                let places = (0..route.views.len()).filter(|place| asked.time(*place).is_some());
                places.for_each(|place| {
                    self.runtime.request_rates.note_range(route.shard(place), &[], None)
                });
            }
            _ => {
                if let (Some((one, _)), Some((other, _))) = (shown.first(), shown.last()) {
                    note_range(&self.runtime.request_rates, route, one, other);
                }
            }
        }
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
    ) -> CommandOutcome {
        let routes = self.runtime.routing.routes();
        let mut shards = Vec::new();
        let version = self.runtime.version.current();
        let is_cluster = connection.mode == Mode::Cluster;
        for route in routes.iter() {
            // As the commands before it went by.
            let selected = connection.route.as_ref().filter(|r| r.keyspace.id == route.keyspace.id);
            let is_selected = selected.is_some();
            let route = selected.unwrap_or(route);
            if is_selected || (all && !is_cluster) {
                let all = self.local_scope(route, connection.mode, session).into_iter().enumerate();
                let piece =
                    |place| (route.shard(place), Write::flush_of(route.arc(place), version));
                shards.extend(all.filter(|(_, mine)| *mine).map(|(place, _)| piece(place)));
            }
        }
        if shards.is_empty() && is_cluster && connection.pending.is_empty() {
            if !muted {
                connection.output.bytes.extend_from_slice(b"+OK\r\n");
            }
            return CommandOutcome::Answered;
        }
        if shards.is_empty() && is_cluster {
            connection.next.barrier = true;
            return CommandOutcome::Deferred;
        }
        if !connection.pipeline.has_no_reads() {
            // It empties what they are to read.
            connection.next.barrier = true;
            return CommandOutcome::Deferred;
        }
        if shards.is_empty() {
            // Dropped since this turn looked the connection's keyspace up.
            return self.refuse(connection, session, NO_KEYSPACE, muted);
        }
        let number = connection.next_number();
        let frame = ReplyFrame::Resp { version: session.version(), muted };
        connection.pending.push_back(PendingReply::gathering(
            Gather::Ok,
            shards.len() as u32,
            frame,
        ));
        for (shard, piece) in shards {
            if self.runtime.peers.is_some() {
                connection.written.add(shard);
            }
            connection.pipeline.wrote(shard);
            self.put_in_batch(shard, &piece, waiter(at, number));
        }
        CommandOutcome::Answered
    }

    /// A number that clients cannot foresee matters little here: it chooses a key, or a pause.
    pub(super) fn random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.now.0 | 1);
        self.random ^ (self.random >> 29)
    }
}

/// Why a question makes no sense in a keyspace of this layout.
pub(crate) fn needs_other_layout(
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
fn note_page(request_rates: &RequestRates, route: &Route, cursor: u64) {
    let Some(place) = scan::place_of(route, cursor) else { return };
    let (slot, number);
    let at: &[u8] = match route.keyspace.options.placement {
        Placement::LinearHash => {
            number = cursor.to_be_bytes();
            &number
        }
        Placement::Hashed | Placement::Ordered => {
            slot = scan::place_of_cursor(cursor).slot.to_be_bytes();
            &slot
        }
    };
    request_rates.note_range(route.shard(place), at, Some(at));
}

/// Notes a RANGE that has shown keys from one to another, in either order.
fn note_range(request_rates: &RequestRates, route: &Route, one: &[u8], other: &[u8]) {
    let (low, high) = if one <= other { (one, other) } else { (other, one) };
    let (from, to) = (route.place_of_key(low), route.place_of_key(high));
    for place in from..=to {
        let first = if place == from { low } else { &[] };
        request_rates.note_range(route.shard(place), first, (place == to).then_some(high));
    }
}

/// The part of a keyspace that RANGE names.
pub(crate) fn range_query<'a>(range: &Range<'a>) -> RangeQuery<'a> {
    let bound = |bound: Bound<'a>| match bound {
        Bound::First | Bound::Last => std::ops::Bound::Unbounded,
        Bound::Included(key) => std::ops::Bound::Included(key),
        Bound::Excluded(key) => std::ops::Bound::Excluded(key),
    };
    // `+` as the low end, or `-` as the high end, is behind or before every key.
    let empty = range.low == Bound::Last || range.high == Bound::First;
    RangeQuery {
        low: bound(range.low),
        high: bound(range.high),
        reverse: range.reverse,
        keys_max: if empty { 0 } else { range.limit.map_or(usize::MAX, |n| n as usize) },
    }
}
