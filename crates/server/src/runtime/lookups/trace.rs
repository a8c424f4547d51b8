//! The route of one lookup: its hops from shard to shard, as far as this node knows them.

use std::sync::Arc;
use std::time::Instant;

use keyspace::{NodeId, ShardId};
use node::event::{Trace, TraceStep};
use overlay::request::{Failure, Form, RouteHop, TRAIL_MAX};
use overlay::{KnownShard, LookupChoice};

/// The callback at the end of a lookup, whether it has found the owner or not.
pub type OnTrace = Box<dyn FnOnce(Trace) + Send>;

/// A request that is looked up.
pub(super) struct LookupInProgress {
    way: LookupChoice,
    is_traced: bool,
    began: Instant,
    asked_at: Instant,
    /// The shard here whose table it was begun with.
    begins_at: Option<ShardId>,
    steps: Vec<TraceStep>,
    /// Whether there were more steps than are remembered.
    is_cut: bool,
    done: OnTrace,
}

impl LookupInProgress {
    /// It has begun, and `done` gets its trace.
    pub(super) fn new(way: LookupChoice, is_traced: bool, began: Instant, done: OnTrace) -> Self {
        let (asked_at, begins_at, steps, is_cut) = (began, None, Vec::new(), false);
        Self { way, is_traced, began, asked_at, begins_at, steps, is_cut, done }
    }

    /// The lookup that was asked for.
    pub(super) fn lookup(&self) -> LookupChoice {
        self.way
    }

    /// It begins anew, with the table of this shard.
    pub(super) fn restart(&mut self, begins_at: Option<ShardId>) {
        (self.begins_at, self.steps, self.is_cut) = (begins_at, Vec::new(), false);
    }

    /// Notes the answer of the node that was asked last.
    pub(super) fn answered(&mut self, now: Instant) {
        if let Some(last) = self.steps.last_mut().filter(|_| !self.is_cut) {
            last.took = Some(now - self.asked_at);
        }
        self.asked_at = now;
    }

    /// The request moves on.
    pub(super) fn goes_to(&mut self, leg: RouteHop) {
        match self.steps.len() < TRAIL_MAX {
            true => self.steps.push(TraceStep { leg, took: None }),
            false => self.is_cut = true,
        }
    }

    /// It has ended.
    pub(super) fn end(
        self,
        node: NodeId,
        found: Result<Arc<KnownShard>, Failure>,
        hops: u32,
        now: Instant,
    ) -> (OnTrace, Trace) {
        let Self { way, is_traced, began, begins_at, steps, is_cut, done, .. } = self;
        let is_known = is_traced && !is_cut;
        let messages = is_known.then(|| messages(node, way.form, &steps));
        let (owner, failure) = match found {
            Ok(owner) => (Some(owner), None),
            Err(why) => (None, Some(why.text())),
        };
        // The first table may have been the owner's.
        let is_own = |owner: &&Arc<KnownShard>| steps.is_empty() && owner.leader() == Some(node);
        let own = owner.as_ref().filter(is_own).map(|owner| owner.shard());
        let (begins_at, took) = (begins_at.or(own), now - began);
        (done, Trace { way, owner, failure, hops, messages, begins_at, steps, took })
    }
}

/// How many messages between nodes a route took that ended at its last step.
fn messages(node: NodeId, form: Form, steps: &[TraceStep]) -> u32 {
    let mut from = node;
    let mut count = 0;
    for step in steps {
        let to = step.leg.node;
        count += match form {
            Form::Iterative => 2 * u32::from(to != node),
            Form::Recursive => u32::from(to != from),
            Form::SemiRecursive => 2 * u32::from(to != from),
        };
        from = to;
    }
    count + u32::from(form == Form::Recursive && from != node)
}

#[cfg(test)]
mod tests {
    use overlay::request::HopSource;

    use super::*;

    #[test]
    fn messages_are_those_between_nodes() {
        let step = |node| {
            let leg = RouteHop { shard: ShardId(node), node: NodeId(node), by: HopSource::AnyNode };
            TraceStep { leg, took: None }
        };
        let steps: Vec<_> = [1, 2, 2, 3].map(step).into();
        // Node 1 asks itself, which costs none.
        let found = Form::ALL.map(|form| messages(NodeId(1), form, &steps));
        assert_eq!(found, [6, 3, 4]);
        assert_eq!(Form::ALL.map(|form| messages(NodeId(1), form, &[])), [0; 3]);
    }
}
