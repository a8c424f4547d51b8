//! What has become of a key: `/v1/history`.
//!
//! It is read as a past value is ([`super::reads`]): here once all up to its time is settled, or
//! from the leader if the shard is elsewhere.

use std::sync::Arc;

use api::{ApiError, Done, History, HistoryQuery, KeyChange};
use bytes::Bytes;
use keyspace::{Feature, Timestamp};
use node::replica::read::{self, Blocked, PastReadError};
use node::routing::fetch::History as HeldHistory;
use node::routing::fetch::{FetchRequest, FetchResult, HeldChange, UP_TO_NOW};
use node::routing::route::Route;

use super::reads::{RetryAt, fetch, renewed, wait};
use crate::runtime::NodeRuntime;

/// What is asked, however often it is tried.
struct HistoryRequest {
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    key: Bytes,
    asked: HistoryQuery,
    /// What is wanted was settled then, by this node's clock.
    at: Timestamp,
    done: Done<History>,
}

/// Answers the changes of a key.
pub(super) fn history(
    runtime: &Arc<NodeRuntime>,
    route: &Arc<Route>,
    key: Bytes,
    asked: HistoryQuery,
    done: Done<History>,
) {
    let at = asked.at(runtime.clock.now());
    let (runtime, route) = (runtime.clone(), route.clone());
    HistoryRequest { runtime, route, key, asked, at, done }.run(None);
}

impl HistoryRequest {
    /// What to read up to: a time, or [`UP_TO_NOW`].
    fn upto(&self) -> Timestamp {
        self.asked.before.map_or(UP_TO_NOW, |_| self.at)
    }

    /// Reads, behind a lock that was met when so many had gone.
    fn run(self, lock: Option<u64>) {
        let place = self.route.place_of_key(&self.key);
        if self.runtime.routing.must_fetch(&self.route, place) {
            return self.fetch(place);
        }
        let (runtime, route, at) = (self.runtime.clone(), self.route.clone(), self.at);
        let then = move |result| match result {
            Ok(RetryAt::Here) => self.read(),
            Ok(RetryAt::Elsewhere) => self.again(),
            Err(error) => (self.done)(Err(error)),
        };
        wait(&runtime, &route, Blocked { place, at, lock }, Box::new(then));
    }

    fn read(self) {
        match read::history(&self.route, &self.key, self.upto(), self.asked.limit) {
            Ok(found) => self.answer(found),
            Err(PastReadError::Locked { released }) => self.run(Some(released)),
            Err(PastReadError::Moved) => self.again(),
            Err(PastReadError::BelowSafePoint { .. }) => {
                unreachable!("a history that ends below the safe point is empty")
            }
        }
    }

    fn fetch(self, place: usize) {
        // A node of an older version could not read it.
        if !self.runtime.version.allows(Feature::History) {
            let needed = Feature::History.since();
            let why = format!(
                "the key's shard is on other nodes, and can be asked for histories from cluster \
                 version {needed} on"
            );
            return (self.done)(Err(ApiError::VersionRefused { why }));
        }
        let (key, at) = (self.key[..].into(), self.upto());
        let changes_max = self.asked.limit as u64;
        let want = FetchRequest::History { key, at, changes_max };
        let (runtime, shard) = (self.runtime.clone(), self.route.shard(place));
        let then = move |result| match result {
            Ok(Some(FetchResult::History(found))) => self.answer(found),
            // It can be read here now.
            Ok(_) => self.again(),
            Err(error) => (self.done)(Err(error)),
        };
        fetch(&runtime, shard, want, Box::new(then));
    }

    fn again(mut self) {
        self.route = renewed(&self.runtime, self.route);
        self.run(None);
    }

    fn answer(self, found: HeldHistory) {
        let HeldHistory { changes, has_more, safe_point } = found;
        // A leader whose clock is ahead may have written it.
        let newest = changes.first().map_or(Timestamp::ZERO, HeldChange::at);
        let writes = changes.into_iter().map(KeyChange::from);
        (self.done)(Ok(History::new(writes, has_more, safe_point, self.at.max(newest))));
    }
}
