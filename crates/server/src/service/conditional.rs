//! Writes of one key that are done only if it has the version that its client requires.
//!
//! ```text
//!   read the key's version ──► judge ──► propose: "if it is still so, write" ──► done
//!          ▲                     └ does not hold: nothing is done       │ changed
//!          └────────────────────────────────────────────────────────────┘
//! ```
//!
//! The proposal is a transaction of one command that watches the key ([`command::Transaction`]). So
//! apply judges the condition, at the moment of the write (SAFETY G15). The read before only
//! determines which version to watch.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | attempts of one write | begin within `request_timeout_ms` | contended: not done |

use std::sync::Arc;

use bytes::Bytes;
use command::transaction::WRITTEN_BYTES_MAX;
use command::{Expiry, NotDone, ObservedVersion, Reply, SetIf, SetReply, Step, Transaction, Write};
use keyspace::{Feature, Timestamp};
use node::executor::{self, Input};
use node::replica::entry::Batch;
use node::replica::read::{self, Blocked, ReadTime};
use node::routing::fetch::{FetchRequest, FetchedData};
use node::routing::route::Route;

use super::errors::{LOCKED, NO_LEADER, not_done};
use super::reads::renewed;
use super::{NodeApi, admit};
use crate::runtime::{API, NodeRuntime, boot_nanos};
use api::{Answer, ApiError, Condition, Done, RequestId};

/// A write with its condition.
pub struct Conditional {
    key: Bytes,
    /// The value to put, with its expiry; none: the key is deleted.
    put: Option<(Bytes, Expiry)>,
    when: Condition,
}

/// One that is under way.
struct Attempt {
    runtime: Arc<NodeRuntime>,
    route: Arc<Route>,
    id: RequestId,
    write: Conditional,
    /// When the last attempt began.
    now: ReadTime,
    /// What leaders elsewhere have answered to it.
    fetched: FetchedData,
    /// When the first one must have led to something.
    deadline: u64,
    done: Done<Answer>,
}

impl Conditional {
    /// Gives a key a value.
    pub fn put(key: Bytes, value: Bytes, expiry: Expiry, when: Condition) -> Self {
        Self { key, put: Some((value, expiry)), when }
    }

    /// Deletes a key's value.
    pub fn delete(key: Bytes, when: Condition) -> Self {
        Self { key, put: None, when }
    }

    fn command(&self) -> Write<'_> {
        match &self.put {
            None => Write::Delete { key: &self.key },
            Some((value, expiry)) => Write::Set {
                key: &self.key,
                value,
                when: SetIf::Always,
                expiry: *expiry,
                reply: SetReply::Ok,
            },
        }
    }
}

impl NodeApi {
    /// Does a write if its condition holds.
    pub(super) fn write_if(
        &self,
        id: RequestId,
        route: Arc<Route>,
        write: Conditional,
        done: Done<Answer>,
    ) {
        if !self.runtime.version.allows(Feature::Transactions) {
            let why = "preconditions need a higher cluster version".into();
            return done(Err(ApiError::VersionRefused { why }));
        }
        let (runtime, now) = (self.runtime.clone(), self.runtime.clock.moment());
        let deadline = boot_nanos().saturating_add(runtime.request_timeout_nanos);
        let only = write.when.only_version();
        let fetched = FetchedData::default();
        let attempt = Attempt { runtime, route, id, write, now, fetched, deadline, done };
        match only {
            // Nothing has to be read to know what to watch.
            Some(version) => Box::new(attempt).propose(ObservedVersion::Version(version)),
            None => Box::new(attempt).look(),
        }
    }
}

impl Attempt {
    /// Reads which version the key has.
    fn look(self: Box<Self>) {
        match read::seen(&self.route, &self.write.key, self.now, &self.fetched) {
            Ok(seen) => self.judge(seen),
            Err(blocked) if boot_nanos() > self.deadline => {
                let why = if blocked.lock.is_some() { LOCKED } else { NO_LEADER };
                (self.done)(Err(ApiError::Busy { why }));
            }
            Err(blocked) => self.wait(blocked),
        }
    }

    /// Looks again when the key's shard here has changed, or its remote leader has answered.
    fn wait(mut self: Box<Self>, blocked: Blocked) {
        let (runtime, Blocked { place, at, lock }) = (self.runtime.clone(), blocked);
        let (shard, key) = (self.route.shard(place), self.write.key.clone());
        let is_elsewhere = runtime.routing.must_fetch(&self.route, place);
        let waiter = runtime.delivery.waiters.wait(Box::new(move |answer| {
            let route = renewed(&self.runtime, self.route.clone());
            let is_other = !Arc::ptr_eq(&route, &self.route);
            self.route = route;
            match answer {
                executor::Answer::Fetched { shard, at, want, found, .. } => {
                    self.fetched.add(shard, at, *want, *found);
                    self.look();
                }
                executor::Answer::Retry { .. }
                | executor::Answer::NotDone { why: NotDone::ReplicaLagging, .. } => {
                    self.look();
                }
                // The shard has become a part of another.
                executor::Answer::NotDone { why: NotDone::NoSuchShard, .. } if is_other => {
                    self.look()
                }
                executor::Answer::NotDone { why, .. } => (self.done)(Err(not_done(why, None))),
                other => unreachable!("a question is answered or refused: {other:?}"),
            }
        }));
        let origin = API;
        let input = if is_elsewhere {
            let want = Box::new(FetchRequest::keys([&key[..]]));
            Input::Fetch { shard, want, bytes_max: usize::MAX, origin, waiter }
        } else {
            Input::AwaitRead { shard, at, lock, origin, waiter }
        };
        runtime.submit(shard, input);
    }

    fn judge(self: Box<Self>, seen: ObservedVersion) {
        let found: Option<Timestamp> = match seen {
            ObservedVersion::Version(version) => Some(version),
            ObservedVersion::Absent(_) => None,
        };
        if found.is_none() && self.write.put.is_none() {
            (self.done)(Ok(Answer::NothingToDelete));
        } else if !self.write.when.holds(found) {
            (self.done)(Ok(Answer::ConditionFailed));
        } else {
            self.propose(seen);
        }
    }

    /// Proposes the write, on condition that the key still has the version that was read.
    fn propose(self: Box<Self>, seen: ObservedVersion) {
        let (runtime, key) = (self.runtime.clone(), self.write.key.clone());
        let command = Conditional { key, put: self.write.put.clone(), when: Condition::ALWAYS };
        let watched = vec![(&command.key[..], seen)];
        let commands = vec![Step::Write(command.command())];
        let transaction = Transaction { watched, commands, ..Transaction::default() };
        let write = Write::Transaction(Box::new(transaction));
        if let Err(error) = admit(&runtime, &write) {
            return (self.done)(Err(error));
        }
        let shard = self.route.shard(self.route.place_of_key(&command.key));
        let waiter = runtime.delivery.waiters.wait(Box::new(move |answer| match answer {
            executor::Answer::Applied { replies, .. } => self.applied(replies.first()),
            executor::Answer::NotDone { why, .. } => (self.done)(Err(not_done(why, Some(self.id)))),
            other => unreachable!("a batch is applied or not done: {other:?}"),
        }));
        let mut batch = Batch::default();
        batch.push(&write, waiter);
        runtime.submit(shard, Input::Propose { shard, origin: API, batch });
    }

    fn applied(self: Box<Self>, reply: Option<&Reply>) {
        match reply {
            Some(Reply::Changed(_)) => self.retry(),
            Some(Reply::Array(answers)) => (self.done)(match answers.first() {
                Some(Reply::Refused(_)) => {
                    let bytes = self.write.put.as_ref().map_or(0, |(value, _)| value.len() as u64);
                    Err(ApiError::ValueTooLong { bytes, bytes_max: WRITTEN_BYTES_MAX })
                }
                Some(Reply::Int(0)) => Ok(Answer::NothingToDelete),
                _ => Ok(Answer::Written { timestamp: None }),
            }),
            other => unreachable!("a transaction is done or not: {other:?}"),
        }
    }

    /// Another write came between: what the key has now is looked at.
    fn retry(mut self: Box<Self>) {
        if boot_nanos() > self.deadline {
            let key = Box::from(&self.write.key[..]);
            return (self.done)(Err(ApiError::Conflicts { key }));
        }
        self.runtime.clock.observe();
        self.now = self.runtime.clock.moment();
        self.fetched = FetchedData::default();
        self.look();
    }
}
