//! People have a shard cut in two: `/v1/shards/{shard}/split`.

use std::sync::atomic::Ordering;

use keyspace::{Cut as Place, NodeId, ShardId};

use super::NodeApi;
use crate::api::{ApiError, CutAt, Done, SplitStatus};
use crate::hub::overview::name_of;
use crate::hub::splits::{Cut, NoSplit};

impl NodeApi {
    /// Has it cut, and tells `done` what it is called then: the shard's log has it soon.
    pub(super) fn ask_split(&self, shard: ShardId, at: Option<CutAt>, done: Done<SplitStatus>) {
        if self.hub.stopping.load(Ordering::Acquire) {
            return done(Err(ApiError::Stopping));
        }
        let hub = self.hub.clone();
        let told = move |result: Result<Cut, NoSplit>| {
            let name = |node: NodeId| name_of(node, &hub.members());
            done(match result {
                Ok(Cut { left, right, at }) => {
                    Ok(SplitStatus { shard: left.0, right: right.0, at: shown(&at) })
                }
                Err(NoSplit::NoShard) => Err(ApiError::NoShard { shard: shard.0 }),
                Err(NoSplit::LedBy(leader)) => Err(ApiError::NotLeader {
                    why: match leader {
                        Some(node) => format!("shard {shard} is led by {}", name(node)),
                        None => format!("nobody is known to lead shard {shard}"),
                    },
                }),
                Err(NoSplit::Unfit(why)) => Err(ApiError::NoSplit { shard: shard.0, why }),
                Err(NoSplit::NoId) => Err(ApiError::Busy),
            });
        };
        self.hub.ask_split(shard, at, Box::new(told));
    }
}

/// A cut as people are told of it: bytes of a key that are no text are replaced.
pub(super) fn shown(at: &Place) -> CutAt {
    match at {
        Place::Slot(slot) => CutAt::Slot(*slot),
        Place::Key(key) => CutAt::Key(String::from_utf8_lossy(key).into_owned()),
    }
}
