//! Change feeds: one session for each client ([`node::feed`], SAFETY G23).
//!
//! ```text
//!   HTTP task: take ─► commits from FeedMerge ─► questions ─► leaders
//!                         ▲                                      │
//!   wake ◄────────────────┴──────────── answers, on any thread ──┘
//! ```
//!
//! A feed that is behind, since its client reads slowly or has come late, holds the safe point by a
//! lease at its position (G14): it needs all versions since then. The lease moves on with the
//! position. A feed that gets on no further for as long as a lease lasts loses it: it never holds
//! memory for ever.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | feeds of a node | [`FEEDS_MAX`] | refused |
//! | bytes held for one | those of [`node::feed::merge`] | leaders are asked no more |
//! | time without progress while it is behind | [`LEASE_MS`] | its lease ends: it may be too late |

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use api::events::Wake;
use api::feeds::{FeedOutput, FeedRequest, FeedStream, Feeding};
use api::{Answer, ApiError, Done, KeysPage, KeysQuery, SnapshotInfo, SnapshotSpec};
use bytes::Bytes;
use keyspace::{Feature, KeyspaceId, LeaseKind, Timestamp, is_made_on_use};
use node::feed::changes::KeyFilter;
use node::feed::merge::{FeedEnd, FeedMerge, places};
use node::routing::fetch::FetchResult;
use node::routing::route::Route;
use parking_lot::Mutex;

use super::NodeApi;
use super::keys;
use super::past;
use super::reads::fetch;
use super::snapshots::newest_time;
use crate::runtime::boot_nanos;

/// Feeds that a node serves.
pub const FEEDS_MAX: usize = 32;
/// So long a lease lasts that is not moved on, in ms.
pub const LEASE_MS: u64 = 10 * 60 * 1000;
/// A feed that is so far behind holds the safe point, in ms …
const BEHIND_MS: u64 = 15_000;
/// … until it is no further behind than that.
const CAUGHT_UP_MS: u64 = 5_000;
/// A lease is moved on when the position has left it so far behind, in ms.
const LEASE_STEP_MS: u64 = 60_000;
/// After a lease was refused, and between two looks at it, in ms.
const LEASE_PAUSE_MS: u64 = 5_000;
/// Keys of a page of values.
const VALUES_PAGE_KEYS: usize = 64;
/// It is looked at so often, whatever happens.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// What feeds have done.
#[derive(Debug, Default)]
pub struct FeedCounts {
    /// Those that are open.
    pub open: AtomicUsize,
    /// Commits that were told.
    pub commits: AtomicU64,
    /// Changes that were told.
    pub changes: AtomicU64,
    /// Those that have ended because they were too late.
    pub too_late: AtomicU64,
}

/// The client's side. Dropped, the feed has ended.
struct Feed(Arc<Session>);

struct Session {
    api: NodeApi,
    asked: FeedRequest,
    wake: Wake,
    state: Mutex<State>,
    _permit: FeedPermit,
}

struct State {
    merge: FeedMerge,
    /// The keyspace, once it is there.
    keyspace: Option<KeyspaceId>,
    /// The values with which it begins, if they are not all told.
    values: Option<Values>,
    lease: HeldLease,
    /// The position that was told last.
    told: Timestamp,
    failed: Option<ApiError>,
}

struct Values {
    at: Timestamp,
    cursor: Option<String>,
    /// Keys whose values are to be read, a page or parts of one.
    keys: Vec<Vec<Bytes>>,
    found: VecDeque<FeedOutput>,
    is_asked: bool,
    /// No further page.
    is_last: bool,
}

/// A lease at a position.
#[derive(Default)]
struct HeldLease {
    id: Option<u64>,
    /// The newest that was asked for.
    at: Timestamp,
    is_asked: bool,
    /// Not looked at before, in ms.
    look_at_ms: u64,
}

/// Begins one.
pub(super) fn begin(api: &NodeApi, asked: FeedRequest, wake: Wake, done: Done<Feeding>) {
    let runtime = &api.runtime;
    runtime.clock.observe();
    if runtime.lifecycle.is_stopping() {
        return done(Err(ApiError::Stopping));
    }
    if !runtime.version.allows(Feature::Feeds) {
        let needed = Feature::Feeds.since();
        let why = format!("change feeds need cluster version {needed}");
        return done(Err(ApiError::VersionRefused { why }));
    }
    let Some(permit) = FeedPermit::take(&api.feeds) else {
        return done(Err(ApiError::TooManyFeeds { feeds: FEEDS_MAX }));
    };
    let routes = runtime.routing.routes();
    let route = routes.get(&asked.keyspace).cloned();
    let is_to_come = is_made_on_use(&asked.keyspace) && routes.iter().next().is_some();
    if route.is_none() && !is_to_come {
        return done(Err(api.no_keyspace(&asked.keyspace)));
    }
    let keyspace = route.as_ref().map(|route| route.keyspace.id);
    let (api, compact_to) = (api.again(), Timestamp::ZERO);
    let mut begun = Beginning { api, permit, asked, wake, keyspace, compact_to };
    let Some(route) = route else {
        let at = begun.asked.since.unwrap_or_else(|| runtime.clock.now());
        return done(Ok(begun.at(at, None)));
    };
    if !begun.asked.compacts || begun.asked.since.is_none() {
        return begun.find_position(route, done);
    }
    let routes = [route.clone()];
    let then = move |now: Result<Timestamp, ApiError>| match now {
        Ok(now) => {
            begun.compact_to = now;
            begun.find_position(route, done);
        }
        Err(error) => done(Err(error)),
    };
    // What is acknowledged by now lies behind the client.
    newest_time(runtime, &routes, Box::new(then));
}

/// A feed whose position is not known yet.
struct Beginning {
    api: NodeApi,
    permit: FeedPermit,
    asked: FeedRequest,
    wake: Wake,
    keyspace: Option<KeyspaceId>,
    /// Of the changes at or below this time, only the newest of each key.
    compact_to: Timestamp,
}

impl Beginning {
    fn find_position(self, route: Arc<Route>, done: Done<Feeding>) {
        let api = self.api.again();
        match (self.asked.since, self.asked.begins_with_values) {
            (Some(at), false) => done(Ok(self.at(at, None))),
            (None, false) => {
                let then = move |at: Result<Timestamp, ApiError>| {
                    done(at.map(|at| self.at(at, None)));
                };
                newest_time(&api.runtime, &[route], Box::new(then));
            }
            (at, true) => {
                let keyspaces = vec![self.asked.keyspace.clone()];
                let then = move |taken: Result<SnapshotInfo, ApiError>| {
                    done(taken.map(|taken| {
                        let at = Timestamp(taken.at.parse().unwrap_or_default());
                        self.at(at, Some(taken.id))
                    }));
                };
                let spec = SnapshotSpec { keyspaces, at, ttl_ms: LEASE_MS };
                api.take_snapshot(LeaseKind::Hold, spec, Box::new(then));
            }
        }
    }

    /// The feed from this position on, with a lease there.
    fn at(self, at: Timestamp, lease: Option<u64>) -> Feeding {
        let Self { api, permit, asked, wake, keyspace, compact_to } = self;
        let mut merge = FeedMerge::new(asked.keys.clone(), asked.with_before, at);
        merge.compact_to(compact_to);
        let values = asked.begins_with_values.then(|| Values {
            at,
            cursor: None,
            keys: match &asked.keys {
                KeyFilter::One(key) if keyspace.is_some() => {
                    vec![vec![Bytes::copy_from_slice(key)]]
                }
                _ => Vec::new(),
            },
            found: VecDeque::new(),
            is_asked: false,
            is_last: matches!(asked.keys, KeyFilter::One(_)) || keyspace.is_none(),
        });
        let lease = HeldLease { id: lease, at, is_asked: false, look_at_ms: 0 };
        let state = State { merge, keyspace, values, lease, told: at, failed: None };
        let cluster = api.runtime.identity.cluster;
        let state = Mutex::new(state);
        let session = Arc::new(Session { api, asked, wake, state, _permit: permit });
        Feeding { position: at, cluster, stream: Box::new(Feed(session)) }
    }
}

/// A place among the feeds of the node.
struct FeedPermit(Arc<FeedCounts>);

impl FeedPermit {
    fn take(counts: &Arc<FeedCounts>) -> Option<Self> {
        let more = |open: usize| (open < FEEDS_MAX).then_some(open + 1);
        let taken = counts.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_before| Self(counts.clone()))
    }
}

impl Drop for FeedPermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FeedStream for Feed {
    fn take(&mut self, bytes_max: usize) -> Vec<FeedOutput> {
        let session = &self.0;
        if session.api.runtime.lifecycle.is_stopping() {
            return vec![FeedOutput::End(ApiError::Stopping)];
        }
        session.api.runtime.clock.observe();
        let outputs = session.outputs(bytes_max);
        session.ask();
        session.ask_for_values();
        session.look_at_lease();
        outputs
    }

    fn pause(&self) -> Duration {
        let now = boot_nanos();
        let look_at = self.0.state.lock().merge.look_at(now);
        look_at.map_or(PAUSE_MAX, |at| Duration::from_nanos(at - now).min(PAUSE_MAX))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let Session { api, state, .. } = &*self.0;
        if let Some(id) = state.lock().lease.id.take() {
            // If nobody does, it ends by itself.
            api.release(id, Box::new(|_released| {}));
        }
    }
}

impl Session {
    fn outputs(&self, bytes_max: usize) -> Vec<FeedOutput> {
        let counts = &self.api.feeds;
        let mut state = self.state.lock();
        let State { merge, values, told, failed, .. } = &mut *state;
        if let Some(error) = failed {
            return vec![FeedOutput::End(error.clone())];
        }
        if let Some(all) = values {
            let (mut outputs, mut bytes) = (Vec::new(), 0);
            while bytes < bytes_max
                && let Some(found) = all.found.pop_front()
            {
                if let FeedOutput::Value { key, value, .. } = &found {
                    bytes += key.len() + value.len();
                }
                outputs.push(found);
            }
            if all.is_over() {
                outputs.push(FeedOutput::ValuesEnd(all.at));
                *values = None;
            }
            return outputs;
        }
        let commits = merge.take(bytes_max);
        counts.commits.fetch_add(commits.len() as u64, Ordering::Relaxed);
        let changes: usize = commits.iter().map(|commit| commit.changes.len()).sum();
        counts.changes.fetch_add(changes as u64, Ordering::Relaxed);
        *told = commits.last().map_or(*told, |last| last.at);
        let mut outputs: Vec<FeedOutput> = commits.into_iter().map(FeedOutput::Commit).collect();
        if merge.position() > *told {
            *told = merge.position();
            outputs.push(FeedOutput::Resolved(*told));
        }
        match merge.end().filter(|_| !merge.has_commit()) {
            Some(FeedEnd::TooLate { safe_point }) => {
                counts.too_late.fetch_add(1, Ordering::Relaxed);
                let restart = self.api.runtime.clock.now().max(safe_point);
                outputs.push(FeedOutput::TooLate { safe_point, restart });
            }
            Some(FeedEnd::TooLarge { at }) => outputs.push(FeedOutput::TooLarge { at }),
            None => {}
        }
        outputs
    }

    /// The keyspace as it is now; none if it is not there yet.
    fn route(&self, state: &mut State) -> Option<Arc<Route>> {
        let routes = self.api.runtime.routing.routes();
        let route = match state.keyspace {
            Some(id) => routes.by_id(id).cloned(),
            None => routes.get(&self.asked.keyspace).cloned(),
        };
        match &route {
            Some(route) => state.keyspace = Some(route.keyspace.id),
            None if state.keyspace.is_some() => {
                state.failed.get_or_insert(ApiError::KeyspaceDropped);
            }
            None => {}
        }
        route
    }

    /// Asks leaders what has changed.
    fn ask(self: &Arc<Self>) {
        let questions = {
            let mut state = self.state.lock();
            if state.values.is_some() || state.failed.is_some() {
                return;
            }
            let Some(route) = self.route(&mut state) else { return };
            state.merge.set_places(places(&route, &self.asked.keys));
            state.merge.questions(boot_nanos())
        };
        for question in questions {
            let (this, number): (Weak<Self>, u64) = (Arc::downgrade(self), question.number);
            let then = move |result: Result<Option<FetchResult>, ApiError>| {
                if let Some(this) = this.upgrade() {
                    this.answered(number, result);
                }
            };
            fetch(&self.api.runtime, question.shard, question.want, Box::new(then));
        }
    }

    fn answered(self: &Arc<Self>, number: u64, result: Result<Option<FetchResult>, ApiError>) {
        {
            let (mut state, now) = (self.state.lock(), boot_nanos());
            match result {
                Ok(Some(found)) => state.merge.answered(number, found, now),
                // It was split, has moved, or nobody leads it now.
                Ok(None) | Err(_) => state.merge.refused(number, now),
            }
        }
        self.ask();
        (self.wake)();
    }

    /// Reads the next values with which the feed begins.
    fn ask_for_values(self: &Arc<Self>) {
        let (route, at, keys, cursor) = {
            let mut state = self.state.lock();
            let Some(route) = self.route(&mut state) else { return };
            let Some(values) = &mut state.values else { return };
            if values.is_asked || !values.found.is_empty() || values.is_over() {
                return;
            }
            values.is_asked = true;
            (route, values.at, values.keys.pop(), values.cursor.clone())
        };
        let this = Arc::downgrade(self);
        let runtime = &self.api.runtime;
        match keys {
            Some(keys) => {
                let again = keys.clone();
                let then = move |answers: Result<Vec<Answer>, ApiError>| {
                    if let Some(this) = this.upgrade() {
                        this.read(again, answers);
                    }
                };
                past::get_many(runtime, &route, keys, at, Box::new(then));
            }
            None => {
                let (prefix, limit) = (self.asked.prefix.clone(), VALUES_PAGE_KEYS);
                let asked = KeysQuery { prefix, cursor, limit, at: Some(at) };
                let then = move |page: Result<KeysPage, ApiError>| {
                    if let Some(this) = this.upgrade() {
                        this.listed(page);
                    }
                };
                keys::page(runtime, &route, asked, Box::new(then));
            }
        }
    }

    fn listed(self: &Arc<Self>, page: Result<KeysPage, ApiError>) {
        {
            let mut state = self.state.lock();
            let State { values: Some(values), failed, .. } = &mut *state else { return };
            values.is_asked = false;
            match page {
                Ok(KeysPage { mut keys, next }) => {
                    keys.retain(|key| self.asked.keys.has(key));
                    if !keys.is_empty() {
                        values.keys.push(keys);
                    }
                    values.is_last = next.is_none();
                    values.cursor = next;
                }
                Err(ApiError::Busy { .. }) => {}
                Err(error) => *failed = Some(error),
            }
        }
        (self.wake)();
    }

    fn read(self: &Arc<Self>, mut keys: Vec<Bytes>, answers: Result<Vec<Answer>, ApiError>) {
        {
            let mut state = self.state.lock();
            let State { values: Some(values), failed, .. } = &mut *state else { return };
            values.is_asked = false;
            match answers {
                Ok(answers) => {
                    let found = keys.into_iter().zip(answers).filter_map(|(key, answer)| {
                        let Answer::Value { value, timestamp, expires_at_ms } = answer else {
                            return None;
                        };
                        Some(FeedOutput::Value { key, value, version: timestamp, expires_at_ms })
                    });
                    values.found.extend(found);
                }
                // Fewer at once.
                Err(ApiError::TransactionTooLarge { .. }) if keys.len() > 1 => {
                    let rest = keys.split_off(keys.len() / 2);
                    values.keys.extend([rest, keys]);
                }
                Err(ApiError::Busy { .. }) => values.keys.push(keys),
                Err(error) => *failed = Some(error),
            }
        }
        (self.wake)();
    }

    /// Holds the safe point while the feed is behind.
    fn look_at_lease(self: &Arc<Self>) {
        let now_ms = self.api.runtime.clock.millis();
        let mut state = self.state.lock();
        if state.lease.is_asked || now_ms < state.lease.look_at_ms {
            return;
        }
        state.lease.look_at_ms = now_ms + LEASE_PAUSE_MS;
        let position = state.merge.position();
        let behind_ms = now_ms.saturating_sub(position.millis());
        let (has_values, end) = (state.values.is_some(), state.merge.end());
        if end.is_some() || state.keyspace.is_none() || has_values {
            return;
        }
        let held = state.lease.id;
        match held {
            Some(id) if behind_ms < CAUGHT_UP_MS => {
                state.lease.id = None;
                drop(state);
                self.api.release(id, Box::new(|_released| {}));
            }
            _ => {
                // One that gets on no further is not held anew.
                let step_ms = if held.is_some() { LEASE_STEP_MS } else { 1 };
                let has_moved = position.millis() >= state.lease.at.millis() + step_ms;
                let is_first = held.is_none() && state.lease.at <= position;
                if behind_ms > BEHIND_MS && (has_moved || is_first) {
                    (state.lease.at, state.lease.is_asked) = (position, true);
                    drop(state);
                    self.hold(position);
                }
            }
        }
    }

    fn hold(self: &Arc<Self>, at: Timestamp) {
        let (keyspaces, at) = (vec![self.asked.keyspace.clone()], Some(at));
        let (this, api) = (Arc::downgrade(self), self.api.again());
        let then = move |taken: Result<SnapshotInfo, ApiError>| {
            let Some(this) = this.upgrade() else {
                // The client has gone meanwhile.
                if let Ok(taken) = taken {
                    api.release(taken.id, Box::new(|_released| {}));
                }
                return;
            };
            let mut state = this.state.lock();
            state.lease.is_asked = false;
            if let Ok(taken) = taken
                && let Some(before) = state.lease.id.replace(taken.id)
            {
                drop(state);
                this.api.release(before, Box::new(|_released| {}));
            }
        };
        let spec = SnapshotSpec { keyspaces, at, ttl_ms: LEASE_MS };
        self.api.take_snapshot(LeaseKind::Hold, spec, Box::new(then));
    }
}

impl Values {
    fn is_over(&self) -> bool {
        self.is_last && self.keys.is_empty() && self.found.is_empty() && !self.is_asked
    }
}
