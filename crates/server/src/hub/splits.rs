//! Why shards stay whole that are too large or asked too often, for metrics; and what people ask of
//! the shape of shards, which control decides ([`node::control`]).

use std::collections::BTreeMap;

use keyspace::ShardId;
use node::control::{self, Cut, Merged, NoMerge, NoSplit, Reply, Request};
use parking_lot::Mutex;

use super::{Hub, News};
use api::CutAt;

/// Why a shard is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whole {
    /// One slot, which is never cut, has most of its keys.
    OneSlot,
    /// Too many of its requests are for one slot, or one key of an ordered keyspace.
    OneKey,
    /// Most of its requests are for so many keys each that they would be for both halves.
    Scans,
}

impl Whole {
    /// All reasons of shards that are asked too often.
    pub const HOT: [Self; 2] = [Self::OneKey, Self::Scans];

    /// One word, as metrics have it.
    pub fn word(self) -> &'static str {
        match self {
            Whole::OneSlot => "one-slot",
            Whole::OneKey => "one-key",
            Whole::Scans => "scans",
        }
    }
}

/// Those who have asked control for something, by the numbers of their requests.
#[derive(Default)]
pub struct Requests(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    callbacks: BTreeMap<u64, Callback>,
}

type Callback = Box<dyn FnOnce(Reply) + Send>;

impl Requests {
    fn wait(&self, callback: Callback) -> u64 {
        let mut waiting = self.0.lock();
        waiting.next += 1;
        let id = waiting.next;
        waiting.callbacks.insert(id, callback);
        id
    }
}

impl Hub {
    /// Control has replied to a request.
    pub(super) fn replied(&self, id: u64, reply: Reply) {
        let callback = self.requests.0.lock().callbacks.remove(&id);
        if let Some(callback) = callback {
            callback(reply);
        }
    }

    pub(super) fn request(&self, request: Request, callback: Callback) {
        let id = self.requests.wait(callback);
        self.tell_control(News::Request { id, request });
    }

    /// Has a shard cut at a slot or key, or where it parts evenly; `done` is told that it will be,
    /// or why not.
    pub fn ask_split(
        &self,
        shard: ShardId,
        at: Option<CutAt>,
        done: Box<dyn FnOnce(Result<Cut, NoSplit>) + Send>,
    ) {
        let at = at.map(|at| match at {
            CutAt::Slot(slot) => control::CutAt::Slot(slot),
            CutAt::Key(key) => control::CutAt::Key(key.into_bytes()),
        });
        let callback = |reply| {
            if let Reply::Split(result) = reply {
                done(result);
            }
        };
        self.request(Request::Split { shard, at }, Box::new(callback));
    }

    /// Has a shard take in its right neighbour, if it is led here; `done` is told that it will, or
    /// why not.
    pub fn ask_merge(&self, left: ShardId, done: Box<dyn FnOnce(Result<Merged, NoMerge>) + Send>) {
        let callback = |reply| {
            if let Reply::Merge(result) = reply {
                done(result);
            }
        };
        self.request(Request::Merge { left }, Box::new(callback));
    }

    /// Whether the replica here leads it.
    pub(super) fn leads(&self, shard: ShardId) -> bool {
        let lane = &self.lanes[self.lane_of(shard)];
        lane.with(self, |lane| lane.shard(shard).is_some_and(|shard| shard.is_leader()))
    }
}
