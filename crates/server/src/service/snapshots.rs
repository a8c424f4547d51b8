//! Snapshots, and what holds safe points (SAFETY G14, G21, G23).
//!
//! ```text
//!   POST ─► each shard's leader: its newest time ─► the largest is the snapshot's time
//!        ─► system shard: open a lease at that time
//!        ─► each shard's leader: nothing is written at or below that time any more ─► token
//! ```
//!
//! A snapshot's time is at or above all that was acknowledged before the request, since each leader
//! names its newest time after the request came; and below all that is written after the answer,
//! since each leader has passed it then. Reads need the time alone: any node serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use api::{ApiError, Done, PinnedTime, SafePointHold, SafePointInfo, SnapshotInfo, SnapshotSpec};
use command::NotDone;
use keyspace::{
    CatalogueOp, Feature, KeyspaceId, Lease, LeaseKind, LeaseOp, ShardId, SnapshotToken, Subject,
    Timestamp,
};
use node::executor::{self, Input};
use node::replica::SafePointRequest;
use node::routing::fetch::{FetchRequest, FetchResult, HeldSafePoints};
use parking_lot::Mutex;
use storage::engine::ChangesCursor;

use super::NodeApi;
use super::errors::{no_catalogue, refused};
use super::past::needs_version;
use super::reads::{fetch, renewed};
use crate::runtime::{NodeRuntime, background_walks, requests};
use node::routing::route::Route;

/// The shard with the catalogue.
const SYSTEM: ShardId = ShardId(0);
/// A snapshot of now is opened anew so often because a safe point has risen above its time: that of
/// a keyspace without retention rises all the time.
const RAISES_MAX: usize = 16;

/// Keys that are looked at under one hold of a shard's guard for what snapshots cost.
const COST_KEYS: usize = 4096;

/// What all leaders are asked.
#[derive(Clone, Copy)]
enum Question {
    /// Their newest times.
    Newest,
    /// To write nothing at or below this time any more.
    Pass(Timestamp),
}

/// Asks the leaders of all shards of keyspaces, and gathers their newest times.
struct AskedLeaders {
    left: usize,
    newest: Timestamp,
    /// Taken with the first error, or when nothing is left.
    done: Option<Done<Timestamp>>,
}

impl AskedLeaders {
    /// Calls `done` when all have answered: with a time at or above all that was acknowledged in
    /// these keyspaces by now, if that was the question.
    fn ask(
        runtime: &Arc<NodeRuntime>,
        routes: &[Arc<Route>],
        question: Question,
        done: Done<Timestamp>,
    ) {
        // Not by the clock here: it may be far from those of the leaders.
        let newest = Timestamp::ZERO;
        let all = Arc::new(Mutex::new(Self { left: routes.len(), newest, done: Some(done) }));
        for route in routes {
            Self::ask_from(runtime.clone(), route.clone(), question, Vec::new(), all.clone());
        }
    }

    /// Asks the shards of a keyspace that were not asked, one after the other, by where they end:
    /// `covered` is what has answered.
    fn ask_from(
        runtime: Arc<NodeRuntime>,
        route: Arc<Route>,
        question: Question,
        mut covered: Vec<(keyspace::Cut, keyspace::Cut)>,
        all: Arc<Mutex<Self>>,
    ) {
        let ends = |place: usize| route.arc(place).ends();
        // One that was split or merged meanwhile is asked as it is now.
        let next = (0..route.shards().len()).find(|place| !covered.contains(&ends(*place)));
        let Some(place) = next else { return Self::answer(&all, Ok(Timestamp::ZERO), true) };
        let (shard, ends) = (route.shard(place), ends(place));
        let again = runtime.clone();
        let newest = FetchRequest::Newest { ends: ends.clone() };
        let want = match question {
            Question::Newest => newest,
            Question::Pass(at) => FetchRequest::Past { at, want: Box::new(newest) },
        };
        let then = move |result: Result<_, ApiError>| {
            match result {
                Ok(Some(FetchResult::Newest(at))) => {
                    Self::answer(&all, Ok(at), false);
                    covered.push(ends);
                }
                Ok(_) => {}
                Err(error) => return Self::answer(&all, Err(error), true),
            }
            let route = renewed(&again, route);
            Self::ask_from(again, route, question, covered, all);
        };
        fetch(&runtime, shard, want, Box::new(then));
    }

    fn answer(all: &Mutex<Self>, found: Result<Timestamp, ApiError>, is_last: bool) {
        let mut this = all.lock();
        let result = match found {
            Ok(at) => {
                this.newest = this.newest.max(at);
                this.left -= usize::from(is_last);
                if this.left > 0 {
                    return;
                }
                Ok(this.newest)
            }
            Err(error) => Err(error),
        };
        let done = this.done.take();
        drop(this);
        done.into_iter().for_each(|done| done(result.clone()));
    }
}

/// Calls `done` with a time at or above all that was acknowledged in these keyspaces by now.
pub(super) fn newest_time(
    runtime: &Arc<NodeRuntime>,
    routes: &[Arc<Route>],
    done: Done<Timestamp>,
) {
    AskedLeaders::ask(runtime, routes, Question::Newest, done);
}

/// How many bytes each pin alone keeps in replicas.
type PinCosts = BTreeMap<Timestamp, u64>;

/// How many bytes each pin alone keeps in the replicas here: a walk over all keys, on a thread of
/// its own.
fn pin_costs(runtime: &NodeRuntime, route: &Route) -> Result<PinCosts, ApiError> {
    let mut costs = BTreeMap::new();
    for view in &route.views {
        let mut cursor = Some(ChangesCursor::default());
        // Piece by piece, so that writers need not wait for all of it.
        while let Some(from) = cursor {
            if runtime.lifecycle.is_stopping() {
                return Err(ApiError::Stopping);
            }
            let began = Instant::now();
            let state = view.read();
            let Some(engine) = state.engine() else { break };
            cursor = engine.pin_costs(&from, COST_KEYS, &mut costs);
            drop(state);
            if cursor.is_some() {
                background_walks::rest(began);
            }
        }
    }
    Ok(costs)
}

impl NodeApi {
    /// The routes of keyspaces by name; of all, if none is named.
    fn routes_of(&self, names: &[String]) -> Result<Vec<Arc<Route>>, ApiError> {
        if !self.runtime.version.allows(Feature::Snapshots) {
            return Err(needs_version());
        }
        let routes = self.runtime.routing.routes();
        if names.is_empty() {
            let all: Vec<_> = routes.iter().cloned().collect();
            let why = "there is no keyspace yet".to_owned();
            return if all.is_empty() { Err(ApiError::SnapshotRefused { why }) } else { Ok(all) };
        }
        let names: BTreeSet<&String> = names.iter().collect();
        let route = |name: &String| routes.get(name).cloned().ok_or_else(|| self.no_keyspace(name));
        names.into_iter().map(route).collect()
    }

    /// Opens a lease of this kind: a pin for a snapshot, a hold for a feed.
    pub(super) fn take_snapshot(
        &self,
        kind: LeaseKind,
        spec: SnapshotSpec,
        done: Done<SnapshotInfo>,
    ) {
        self.runtime.clock.observe();
        let routes = match self.routes_of(&spec.keyspaces) {
            Ok(routes) => routes,
            Err(error) => return done(Err(error)),
        };
        let this = self.again();
        match spec.at {
            Some(at) => self.open(routes, (kind, at), spec.ttl_ms, 0, done),
            None => {
                let asked = routes.clone();
                let then = move |at: Result<Timestamp, ApiError>| match at {
                    Ok(at) => this.open(routes, (kind, at), spec.ttl_ms, RAISES_MAX, done),
                    Err(error) => done(Err(error)),
                };
                AskedLeaders::ask(&self.runtime, &asked, Question::Newest, Box::new(then));
            }
        }
    }

    /// Opens a lease, and has all leaders pass its time. A safe point may rise above the time
    /// meanwhile; so often the safe point will do instead, for it is later.
    fn open(
        &self,
        routes: Vec<Arc<Route>>,
        (kind, at): (LeaseKind, Timestamp),
        ttl_ms: u64,
        raises_left: usize,
        done: Done<SnapshotInfo>,
    ) {
        let mut keyspaces: Vec<KeyspaceId> = routes.iter().map(|r| r.keyspace.id).collect();
        keyspaces.sort_unstable();
        // Nobody else draws it: of two nodes one is part of it.
        let drawn = self.runtime.clock.tick().0 ^ self.runtime.identity.node.0;
        let request = keyspace::random::mix(drawn);
        let this = self.again();
        let then = move |opened| match opened {
            Err(ApiError::BelowSafePoint { safe_point, .. }) if raises_left > 0 => {
                this.open(routes, (kind, safe_point), ttl_ms, raises_left - 1, done);
            }
            Ok(info) => {
                let again = this.again();
                let passed = move |passed: Result<_, ApiError>| match passed {
                    Ok(_) => done(Ok(info)),
                    // Nobody knows of it: it need not be kept.
                    Err(error) => again.release(info.id, Box::new(|_| done(Err(error)))),
                };
                let question = Question::Pass(at);
                AskedLeaders::ask(&this.runtime, &routes, question, Box::new(passed));
            }
            Err(error) => done(Err(error)),
        };
        self.lease(LeaseOp::Open { request, kind, keyspaces, at, ttl_ms }, Box::new(then));
    }

    /// Has the system shard change a lease.
    pub(super) fn lease(&self, op: LeaseOp, done: Done<SnapshotInfo>) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        if !self.runtime.version.allows(Feature::Snapshots) {
            return done(Err(needs_version()));
        }
        let op = CatalogueOp::Lease(op);
        if let Err(error) = op.check_proposal() {
            return done(Err(refused(error)));
        }
        let this = self.again();
        let callback = move |answer| match answer {
            executor::Answer::Catalogue { result: Ok(subject), .. } => match *subject {
                Subject::Lease(lease) => done(Ok(this.shown(&lease))),
                _ => unreachable!("it was asked about a lease"),
            },
            executor::Answer::Catalogue { result: Err(error), .. } => done(Err(refused(error))),
            executor::Answer::NotDone { why: NotDone::OutcomeUnknown, .. } => drop(done),
            executor::Answer::NotDone { why, .. } => done(Err(no_catalogue(why))),
            other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
        };
        requests::change_catalogue(&self.runtime, &op, Some(Box::new(callback)));
    }

    pub(super) fn release(&self, id: u64, done: Done<()>) {
        let end = LeaseOp::End { id };
        self.lease(end, Box::new(|result| done(result.map(|_| ()))));
    }

    fn shown(&self, lease: &Lease) -> SnapshotInfo {
        let routes = self.runtime.routing.routes();
        let name = |id: &KeyspaceId| routes.by_id(*id).map(|r| r.keyspace.name.to_string());
        let cluster = self.runtime.identity.cluster;
        SnapshotInfo {
            token: SnapshotToken { cluster, lease: lease.id, at: lease.at }.to_string(),
            id: lease.id,
            keyspaces: lease.keyspaces.iter().filter_map(name).collect(),
            at: lease.at.0.to_string(),
            at_ms: lease.at.millis(),
            ends_at_ms: lease.end_ms,
        }
    }

    /// Calls `done` with what the system shard's leader has.
    fn held_safe_points(&self, done: Done<HeldSafePoints>) {
        if !self.runtime.version.allows(Feature::Snapshots) {
            return done(Err(needs_version()));
        }
        let this = self.again();
        let then = move |result: Result<_, ApiError>| match result {
            Ok(Some(FetchResult::SafePoints(found))) => done(Ok(found)),
            // The shard leads elsewhere now.
            Ok(_) => this.held_safe_points(done),
            Err(error) => done(Err(error)),
        };
        fetch(&self.runtime, SYSTEM, FetchRequest::SafePoints, Box::new(then));
    }

    pub(super) fn list_snapshots(&self, done: Done<Vec<SnapshotInfo>>) {
        let this = self.again();
        self.held_safe_points(Box::new(move |found| {
            done(found.map(|found| found.leases.iter().map(|one| this.shown(one)).collect()));
        }));
    }

    pub(super) fn list_safe_points(&self, done: Done<Vec<SafePointInfo>>) {
        let this = self.again();
        self.held_safe_points(Box::new(move |found| match found {
            Ok(found) => this.with_costs(found, done),
            Err(error) => done(Err(error)),
        }));
    }

    /// Calls `done` with what holds safe points. What pins cost is looked at beside this thread,
    /// which brings other answers as well.
    fn with_costs(&self, found: HeldSafePoints, done: Done<Vec<SafePointInfo>>) {
        if !found.leases.iter().any(|lease| lease.kind == LeaseKind::Pin) {
            return done(self.held(&found));
        }
        let this = self.again();
        self.runtime.walks.add(Box::new(move |may| done(may.and_then(|()| this.held(&found)))));
    }

    /// What holds safe points. If there are pins it looks at all keys.
    fn held(&self, found: &HeldSafePoints) -> Result<Vec<SafePointInfo>, ApiError> {
        let points: BTreeMap<_, _> = found.safe_points.iter().copied().collect();
        let routes = self.runtime.routing.routes();
        let held = |route: &Arc<Route>| {
            let keyspace = &route.keyspace;
            let safe_point = points.get(&keyspace.id).copied().unwrap_or_default();
            let of_it = || found.leases.iter().filter(|one| one.keyspaces.contains(&keyspace.id));
            let holds = of_it().filter(|lease| lease.kind == LeaseKind::Hold);
            let oldest = holds.min_by_key(|lease| (lease.at, lease.id));
            let retention_ms = keyspace.options.retention_ms;
            let aged = hlc::safe_point::target(safe_point, found.now, retention_ms, None);
            // Collection within the retention may have come as far as the lease, and no further.
            let lease = oldest.filter(|lease| lease.at < aged || lease.at <= safe_point);
            let bytes = route.views.iter().filter_map(|view| {
                let state = view.read();
                let engine = state.engine()?;
                let old_bytes = engine.usage().old_bytes;
                Some([old_bytes, engine.bytes_freed_at(aged), engine.pinned_bytes()])
            });
            let [old_bytes, freed_bytes, pinned_bytes] =
                bytes.fold([0; 3], |sum, more| std::array::from_fn(|at| sum[at] + more[at]));
            let is_pin = |lease: &&Lease| lease.kind == LeaseKind::Pin && lease.at < safe_point;
            let costs = match of_it().any(|lease| is_pin(&lease)) {
                true => pin_costs(&self.runtime, route)?,
                false => PinCosts::new(),
            };
            let pins = of_it().filter(is_pin);
            let pinned = pins.map(|lease| PinnedTime {
                snapshot: lease.id,
                at_ms: lease.at.millis(),
                bytes: costs.get(&lease.at).copied().unwrap_or(0),
            });
            let mut pinned: Vec<PinnedTime> = pinned.collect();
            pinned.sort_by_key(|one| (one.at_ms, one.snapshot));
            Ok(SafePointInfo {
                keyspace: keyspace.name.to_string(),
                safe_point: safe_point.0.to_string(),
                safe_point_ms: safe_point.millis(),
                retention_ms,
                held_by: match lease {
                    Some(_) => SafePointHold::Feed,
                    None => SafePointHold::Retention,
                },
                snapshot: lease.map(|lease| lease.id),
                may_rise_to_ms: lease.map_or(aged, |lease| lease.at.min(aged)).millis(),
                old_bytes,
                held_bytes: lease.map_or(0, |_| freed_bytes),
                pinned_bytes,
                pinned,
            })
        };
        routes.iter().map(held).collect()
    }

    /// Asks that safe points rise to a time, or as far as leases let them.
    pub(super) fn collect_to(
        &self,
        names: &[String],
        at: Timestamp,
        done: Done<Vec<SafePointInfo>>,
    ) {
        let routes = match self.routes_of(names) {
            Ok(routes) => routes,
            Err(error) => return done(Err(error)),
        };
        let this = self.again();
        self.held_safe_points(Box::new(move |found| {
            let found = match found {
                Ok(found) => found,
                Err(error) => return done(Err(error)),
            };
            for route in &routes {
                let (keyspace, to) = (route.keyspace.id, at);
                let raise = SafePointRequest { keyspace, to, is_pressed: true };
                this.runtime.submit(SYSTEM, Input::RaiseKeyspace(raise));
            }
            let names: BTreeSet<String> =
                routes.iter().map(|route| route.keyspace.name.to_string()).collect();
            let only_named = move |held: Result<Vec<SafePointInfo>, ApiError>| {
                done(held.map(|mut held| {
                    held.retain(|one| names.contains(&one.keyspace));
                    held
                }));
            };
            this.with_costs(found, Box::new(only_named));
        }));
    }
}
