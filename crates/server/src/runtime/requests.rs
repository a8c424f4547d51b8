//! Requests of operators: changes of the catalogue, splits, merges, dry runs of placement.
//!
//! Changes of the catalogue go to the system shard; control decides on the others
//! ([`node::control`]). Answers come by callback, on any thread.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use api::CutAt;
use keyspace::{CatalogueOp, ShardId};
use node::control::{
    self, DryRunDecision, Merged, NoMergeReason, NoSplit, Reply, Request, SplitPlan,
};
use node::executor::Input;
use node::replica::entry::Waiter;
use parking_lot::Mutex;

use super::{API, ControlInput, NO_ORIGIN, NodeRuntime, delivery, placement};

/// Requests to control that wait for a reply, by their numbers.
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

    /// Control has replied to a request.
    pub(super) fn reply(&self, id: u64, reply: Reply) {
        let callback = self.0.lock().callbacks.remove(&id);
        if let Some(callback) = callback {
            callback(reply);
        }
    }
}

/// Asks the system shard for a change of the catalogue, which the cluster's version allows.
/// `callback` gets the answer when the change can be used, or why it was refused.
pub fn change_catalogue(
    runtime: &NodeRuntime,
    op: &CatalogueOp<'_>,
    callback: Option<delivery::Callback>,
) {
    let mut body = Vec::new();
    op.encode(&mut body);
    let (origin, waiter) = match callback {
        Some(callback) => (API, runtime.delivery.waiters.wait(callback)),
        None => (NO_ORIGIN, Waiter(0)),
    };
    runtime.submit(ShardId(0), Input::Catalogue { op: body, origin, waiter });
}

/// Splits a shard at a slot or key, or in its middle. `done` gets the decision to split, or the
/// reason against it.
pub fn split(
    runtime: &NodeRuntime,
    shard: ShardId,
    at: Option<CutAt>,
    done: Box<dyn FnOnce(Result<SplitPlan, NoSplit>) + Send>,
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
    ask(runtime, Request::Split { shard, at }, Box::new(callback));
}

/// Merges a shard with a local leader with its right neighbour. `done` gets the decision to merge,
/// or the reason against it.
pub fn merge(
    runtime: &NodeRuntime,
    left: ShardId,
    done: Box<dyn FnOnce(Result<Merged, NoMergeReason>) + Send>,
) {
    let callback = |reply| {
        if let Reply::Merge(result) = reply {
            done(result);
        }
    };
    ask(runtime, Request::Merge { left }, Box::new(callback));
}

/// What would be decided now if `balance` were on, about each shard led here as if it alone were
/// decided about.
pub fn would_place(runtime: &NodeRuntime) -> Vec<DryRunDecision> {
    let Some(peers) = &runtime.peers else { return Vec::new() };
    let gossip = placement::gossip_with_names(runtime, peers);
    let all = wait_for(runtime, Request::DryRunPlacement(gossip), |reply| match reply {
        Reply::DryRunPlacement(all) => Some(all),
        _ => None,
    });
    all.unwrap_or_default()
}

fn ask(runtime: &NodeRuntime, request: Request, callback: Callback) {
    let id = runtime.control.requests.wait(callback);
    runtime.control.submit(runtime, ControlInput::Request { id, request });
}

/// Asks control and waits for its reply, as long as a request may take.
fn wait_for<T: Send + 'static>(
    runtime: &NodeRuntime,
    request: Request,
    select: impl FnOnce(Reply) -> Option<T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    let callback = move |reply| {
        if let Some(wanted) = select(reply) {
            // The caller may have given up waiting.
            let _is_heard = sender.send(wanted);
        }
    };
    ask(runtime, request, Box::new(callback));
    receiver.recv_timeout(Duration::from_nanos(runtime.request_timeout_nanos)).ok()
}
