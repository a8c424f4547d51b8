//! Where does a script run, by the keys that it declares?
//!
//! If these lie in one shard, in the queue at the shard's leader: scripts that run over shards
//! conflict with each other and with the queue. So one whose shard has just moved, or has no
//! leader, or whose keys are locked, looks for that queue again.
//!
//! ```text
//!   led here ──► its queue
//!   led by another ──► that one's queue, if the client is one of this node's; else back to the
//!                      client's node
//!   no leader ──► pauses, looks again ── for too long ──► refused
//! ```
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time for which a script looks for its queue | `request_timeout_ms` | `BUSY`, nothing done |

use std::sync::Arc;

use keyspace::{Feature, NodeId, ShardId};
use node::routing::route::Route;

use super::forward::{self, ForwardedReply};
use super::job::{Job, ReplyTo};
use super::late::NOT_READ;
use crate::runtime::{NodeRuntime, boot_nanos};

/// Where a script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsAt {
    /// In the queue of this shard, which is led here.
    Queue(ShardId),
    /// In the queue of its shard, which this node leads.
    Leader(NodeId),
    /// In the queue of its shard, when a leader of that is known and linked.
    Unled,
    /// On a script thread of this node, over any shards.
    Anywhere,
}

impl RunsAt {
    /// Of a script that declares these keys.
    pub fn of(runtime: &NodeRuntime, route: &Route, keys: &[&[u8]]) -> Self {
        let mut places = keys.iter().map(|key| route.place_of_key(key));
        let Some(place) = places.next() else { return RunsAt::Anywhere };
        if places.any(|other| other != place) {
            return RunsAt::Anywhere;
        }
        let shard = route.shard(place);
        let Some(peers) = &runtime.peers else { return RunsAt::Queue(shard) };
        match runtime.leader_of(route, place) {
            Some(node) if node == runtime.identity.node => RunsAt::Queue(shard),
            // Other nodes may be of a version that knows no scripts.
            _ if !runtime.version.allows(Feature::Functions) => RunsAt::Anywhere,
            Some(node) if peers.cluster.is_connected(node) => RunsAt::Leader(node),
            _ => RunsAt::Unled,
        }
    }
}

/// Takes a script to its shard's queue, whose leader may have changed.
pub fn find_queue(runtime: &Arc<NodeRuntime>, job: Job) {
    let routes = runtime.routing.routes();
    let route = routes.by_id(job.keyspace);
    // A keyspace that was dropped is found to be so there.
    let runs_at =
        route.map_or(RunsAt::Anywhere, |route| RunsAt::of(runtime, route, &job.arguments().0));
    match (runs_at, job.reply_to) {
        (RunsAt::Queue(shard), _) => runtime.scripts.push_in_queue_again(shard, job),
        (RunsAt::Leader(node), ReplyTo::Connection { .. }) => forward::forward(runtime, node, job),
        (RunsAt::Leader(_) | RunsAt::Unled, ReplyTo::Node { node, number }) => {
            forward::reply(runtime, node, number, ForwardedReply::NotLeader);
            job.has_gone(runtime);
        }
        (RunsAt::Unled, _) => find_queue_later(runtime, job),
        (RunsAt::Anywhere, _) => runtime.scripts.push(job),
    }
}

/// The same a moment later: who leads may be known then, and locks gone.
pub(super) fn find_queue_later(runtime: &Arc<NodeRuntime>, mut job: Job) {
    // In a busy queue it may have stood for long before.
    let now = boot_nanos();
    let since = *job.looks_since.get_or_insert(now);
    if now.saturating_sub(since) > runtime.request_timeout_nanos {
        return job.refuse(runtime, NOT_READ);
    }
    let again = runtime.clone();
    runtime.scripts.call_after_pause(Box::new(move || find_queue(&again, job)));
}
