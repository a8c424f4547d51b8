//! Reads: answered at once, or when their shard serves, or when the remote leader has answered.

use command::{Read, Sink};
use keyspace::ShardId;
use node::executor::{Input, Origin};
use node::replica::entry::Waiter;
use node::replica::read::{Blocked, ReadTime};
use node::routing::fetch::{FetchRequest, FetchedData};
use node::routing::route::Route;

use super::EventLoop;
use super::connection::Connection;
use super::moment::ReadMoment;
use super::pending_reply::ReplyFrame;
use super::reply_limit::{LimitedSink, SizeSink, TOO_LONG};
use super::resp::CommandOutcome;
use super::serve::go_waiter;
use super::state::WaitsFor;
use super::writes::crosses;
use crate::runtime::NO_ORIGIN;
use gateway::resp::Session;

/// Answers a read of these shards, at most so many nanoseconds old, and how old it is.
#[inline]
fn answer(
    route: &Route,
    read: &Read<'_>,
    now: ReadTime,
    age_max: u64,
    fetched: &FetchedData,
    sink: &mut impl Sink,
) -> Result<u64, Blocked> {
    match age_max {
        0 => node::replica::read::read_with(route, read, now, fetched, sink).map(|()| 0),
        _ => node::replica::read::read_stale(route, read, now, age_max, fetched, sink),
    }
}

impl EventLoop {
    pub(super) fn read(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        read: &Read<'_>,
        ReadMoment { now, fetched }: ReadMoment,
        muted: bool,
    ) -> CommandOutcome {
        let is_alone = session.replies_size() || connection.tracking.is_some();
        if is_alone && connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        if !connection.pending.is_empty() {
            let frame = ReplyFrame::Resp { version: session.version(), muted };
            let is_stale = session.stale_nanos() > 0;
            return self.read_behind(at, connection, read, is_stale, frame);
        }
        let Some(route) = &connection.route else {
            return self.without_keyspace(at, connection, session, muted);
        };
        let tracks = connection.tracking.is_some();
        // What is old must not stay in a cache.
        let age_max = if tracks { 0 } else { session.stale_nanos() };
        let is_wide = read.keys().len() > 1 && self.runtime.peers.is_some() && age_max == 0;
        let in_pieces = || connection.next.looked.is_some() || !fetched.is_of_one_moment();
        if is_wide && (in_pieces() || crosses(route, read.keys().iter().copied())) {
            return self.read_multi_shard(
                at,
                connection,
                session,
                read,
                ReadMoment { now, fetched },
                muted,
            );
        }
        let before = connection.output.bytes.len();
        let mut writer = session.writer(&mut connection.output.bytes);
        let bytes_max = self.config.output_bytes_max as usize;
        let mut capped = LimitedSink::new(&mut writer, bytes_max);
        let wants_size = session.replies_size();
        let mut versions = Vec::new();
        let answered = match read.keys() {
            [key] if wants_size => {
                let mut sizes = SizeSink { sink: &mut capped, key_bytes: key.len() };
                answer(route, read, now, age_max, &fetched, &mut sizes)
            }
            _ if tracks => {
                node::replica::read::read_versions(route, read, now, &fetched, &mut capped)
                    .map(|seen| versions = seen)
                    .map(|()| 0)
            }
            _ => answer(route, read, now, age_max, &fetched, &mut capped),
        };
        if let (Ok(age), true) = (&answered, age_max > 0) {
            session.note_age(*age);
        }
        match answered {
            Ok(_) if capped.overflown => {
                connection.output.bytes.truncate(before);
                self.refuse(connection, session, TOO_LONG, muted)
            }
            Ok(_) => {
                self.note_read(route, read, connection.next.lookups.as_deref());
                if connection.output.bytes.get(before) == Some(&b'-') {
                    self.runtime.counters.errors.add(1);
                }
                if let (Read::Get(_), false) = (read, wants_size) {
                    let found =
                        connection.output.bytes.get(before + 1).is_some_and(|b| b.is_ascii_digit());
                    if found { self.counted.hits += 1 } else { self.counted.misses += 1 }
                }
                if muted {
                    connection.output.bytes.truncate(before);
                }
                if tracks {
                    let versions = versions.into_iter();
                    self.show_versions(connection, session, read, versions, before);
                }
                CommandOutcome::Answered
            }
            Err(blocked) => {
                connection.output.bytes.truncate(before);
                let route = route.clone();
                let redirects = &mut connection.redirects;
                if let Some(moved) =
                    self.redirect_of_read(redirects, session, &route, blocked, read.keys())
                {
                    return self.refuse(connection, session, &moved, muted);
                }
                connection.next.fetched = fetched;
                self.wait_or_fetch(at, connection, &route, blocked, now, read.keys());
                CommandOutcome::Deferred
            }
        }
    }

    /// Lets a blocked read wait: for its shard, or for fetches from shards that are remote or lag
    /// here.
    pub(super) fn wait_or_fetch(
        &mut self,
        at: usize,
        connection: &mut Connection,
        route: &Route,
        blocked: Blocked,
        now: ReadTime,
        keys: &[&[u8]],
    ) {
        if !self.runtime.routing.must_fetch(route, blocked.place) {
            self.wait_for(connection, route, blocked, now, go_waiter(at));
            return self.prepare(route, blocked, now, keys.iter().copied());
        }
        let wants = route.missing_fetches(keys.iter().copied(), |place| {
            self.runtime.routing.must_fetch(route, place)
        });
        if wants.is_empty() {
            // It has come here, or has caught up, between two looks.
            return self.wait_for(connection, route, blocked, now, go_waiter(at));
        }
        self.fetch(at, connection, wants, now);
    }

    /// As [`Self::wait_or_fetch`], for a command that looks twice at keys of several shards. It
    /// asks all remote leaders at once. It asks for locked keys too: their leader answers when the
    /// lock is resolved.
    pub(super) fn fetch_or_wait(
        &mut self,
        at: usize,
        connection: &mut Connection,
        route: &Route,
        blocked: Blocked,
        now: ReadTime,
        keys: &[&[u8]],
    ) {
        let is_fetched = |place: usize| {
            let state = route.views[place].read();
            let is_locked = place == blocked.place && blocked.lock.is_some();
            let leader = state.serving.leader();
            let is_elsewhere = leader.is_some_and(|leader| leader != self.runtime.identity.node);
            drop(state);
            (is_locked && leader.is_some())
                || (is_elsewhere && !route.views[place].read().serving.at(now.boot))
                || self.runtime.routing.must_fetch(route, place)
        };
        if self.runtime.peers.is_none() || !is_fetched(blocked.place) {
            return self.wait_or_fetch(at, connection, route, blocked, now, keys);
        }
        let wants = route.missing_fetches(keys.iter().copied(), is_fetched);
        match wants.is_empty() {
            // Somebody else leads by now.
            true => self.wait_or_fetch(at, connection, route, blocked, now, keys),
            false => self.fetch(at, connection, wants, now),
        }
    }

    /// Has a command wait for what shards on other nodes hold.
    pub(super) fn fetch(
        &mut self,
        at: usize,
        connection: &mut Connection,
        wants: Vec<(ShardId, FetchRequest)>,
        now: ReadTime,
    ) {
        connection.next.waits_for = WaitsFor::Fetches(wants.len() as u32);
        connection.next.at = Some(now);
        connection.route_version = u64::MAX;
        let bytes_max = usize::try_from(self.config.output_bytes_max).unwrap_or(usize::MAX);
        let (origin, waiter) = (Origin(self.number as u32), go_waiter(at));
        let fetch = |(shard, want)| {
            let want = Box::new(want);
            (shard, Input::Fetch { shard, want, bytes_max, origin, waiter })
        };
        self.inputs.extend(wants.into_iter().map(fetch));
    }

    /// Asks a shard's executor to say when a read may be tried again. The read keeps its time, for
    /// what the executor finds out until then is as of that time.
    pub(super) fn wait_for(
        &mut self,
        connection: &mut Connection,
        route: &Route,
        blocked: Blocked,
        now: ReadTime,
        waiter: Waiter,
    ) {
        connection.next.waits_for = WaitsFor::Permission;
        connection.next.at = Some(now);
        // A shard that was dropped answers that it is not there: look the keyspace up again then.
        connection.route_version = u64::MAX;
        let shard = route.shard(blocked.place);
        let origin = Origin(self.number as u32);
        self.inputs.push((
            shard,
            Input::AwaitRead { shard, at: blocked.at, lock: blocked.lock, origin, waiter },
        ));
    }

    /// A read that is blocked at one shard may be so at others: has their executors find out
    /// meanwhile.
    pub(super) fn prepare<'k>(
        &mut self,
        route: &Route,
        blocked: Blocked,
        now: ReadTime,
        keys: impl Iterator<Item = &'k [u8]>,
    ) {
        if self.runtime.peers.is_none() {
            return;
        }
        let mut places: Vec<usize> = keys.map(|key| route.place(&route.key(key))).collect();
        places.sort_unstable();
        places.dedup();
        let serves = |place: usize| route.views[place].read().serving.at(now.boot);
        let must_fetch = |place: usize| self.runtime.routing.must_fetch(route, place);
        places.retain(|p| *p != blocked.place && !serves(*p) && !must_fetch(*p));
        for shard in places.into_iter().map(|place| route.shard(place)) {
            let (at, origin, waiter) = (blocked.at, NO_ORIGIN, Waiter(0));
            self.inputs.push((shard, Input::AwaitRead { shard, at, lock: None, origin, waiter }));
        }
    }
}
