//! Splits and merges that operators ask for: `/v1/shards/{shard}/split`, `/merge`.

use keyspace::{Cut as Place, NodeId, ShardId};
use node::control::{Merged, NoMergeReason, NoSplit, SplitPlan};

use super::NodeApi;
use crate::runtime::NodeRuntime;
use crate::runtime::requests;
use crate::runtime::survey::name_of;
use api::{ApiError, CutAt, Done, MergeStatus, SplitStatus};

impl NodeApi {
    /// Splits it; `done` gets the decision, which is in the shard's log soon.
    pub(super) fn ask_split(&self, shard: ShardId, at: Option<CutAt>, done: Done<SplitStatus>) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        let runtime = self.runtime.clone();
        let callback = move |result: Result<SplitPlan, NoSplit>| {
            done(match result {
                Ok(SplitPlan { left, right, at }) => {
                    Ok(SplitStatus { shard: left.0, right: right.0, at: shown(&at) })
                }
                Err(NoSplit::NoShard) => Err(ApiError::NoShard { shard: shard.0 }),
                Err(NoSplit::LedBy(leader)) => Err(led_elsewhere(&runtime, shard, leader)),
                Err(NoSplit::CannotSplit(why)) => Err(ApiError::NoSplit { shard: shard.0, why }),
                Err(NoSplit::NoId) => Err(ApiError::Busy {
                    why: "the catalogue has not given the new shard an id in time; nothing \
                          was done",
                }),
            });
        };
        requests::split(&self.runtime, shard, at, Box::new(callback));
    }

    /// Merges it with its right neighbour: soon, or once their replicas are on the same nodes.
    pub(super) fn ask_merge(&self, shard: ShardId, done: Done<MergeStatus>) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        let runtime = self.runtime.clone();
        let callback = move |result: Result<Merged, NoMergeReason>| {
            done(match result {
                Ok(Merged { left, right, moves }) => {
                    Ok(MergeStatus { shard: left.0, right: right.0, moves })
                }
                Err(NoMergeReason::NoShard) => Err(ApiError::NoShard { shard: shard.0 }),
                Err(NoMergeReason::LedBy(leader)) => Err(led_elsewhere(&runtime, shard, leader)),
                Err(NoMergeReason::CannotMerge(why)) => {
                    Err(ApiError::NoMerge { shard: shard.0, why })
                }
            });
        };
        requests::merge(&self.runtime, shard, Box::new(callback));
    }
}

fn led_elsewhere(runtime: &NodeRuntime, shard: ShardId, leader: Option<NodeId>) -> ApiError {
    let why = match leader {
        Some(node) => format!("shard {shard} is led by {}", name_of(node, &runtime.members())),
        None => format!("shard {shard} has no known leader"),
    };
    ApiError::NotLeader { why }
}

/// The place of a split, for people: bytes of a key that are no text are replaced; a hash of linear
/// hashing is in hexadecimal.
pub(super) fn shown(at: &Place) -> CutAt {
    match at {
        Place::Slot(slot) => CutAt::Slot(*slot),
        Place::Key(key) => CutAt::Key(String::from_utf8_lossy(key).into_owned()),
        Place::Number(number) => CutAt::Key(format!("{number:016x}")),
    }
}
