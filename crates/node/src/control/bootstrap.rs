//! Replicas that begin or end on this node: right halves of splits, and replicas to which another
//! node sends a first message.

use keyspace::{Descriptor, ReplicaId, ShardId};

use super::routes::configured;
use super::{Control, Effect, Executors, FirstMessage, Setup};
use crate::event::EventKind;
use crate::executor::Input;
use crate::replica::ReplicaStart;
use crate::reshape::bootstrap;
use crate::routing::route::View;

impl Control {
    /// A message for a replica that may not be here: the replica begins before its executor gets
    /// the message.
    pub(super) fn first_message(&mut self, first: FirstMessage, executors: &mut dyn Executors) {
        let FirstMessage { from, shard, bootstrap, message } = first;
        self.begin_replica(shard, &bootstrap, message.to(), executors);
        let message = Box::new(message);
        self.submit(shard, Input::Message { from, shard, message });
    }

    fn begin_replica(
        &mut self,
        shard: ShardId,
        record: &[u8],
        replica: ReplicaId,
        executors: &mut dyn Executors,
    ) {
        if self.views.contains(shard) {
            // Or another replica of the shard is, which its group has gone on without.
            return self.submit_descriptor(shard);
        }
        let Setup { node, settings, .. } = self.setup;
        let start = match bootstrap::by_message(record, replica, node, settings) {
            Ok(start) => start,
            Err(error) => {
                let event = EventKind::UnreadableBootstrapRecord { shard, error };
                return self.effects.push(Effect::Event(event));
            }
        };
        let (view, descriptor) = (start.view.clone(), start.view.read().descriptor.clone());
        let keyspace = descriptor.keyspace();
        let is_dropped = self.table.has_dropped(keyspace) || self.views.has_dropped(keyspace);
        if is_dropped || !Self::may_begin(shard, start.replica, executors) {
            return;
        }
        // SAFETY G11: it is cut off from another shard whose replica here has not come so far yet,
        // and will bring it; or has just brought it.
        let overlaps = |view: &View| view.read().descriptor.arc.overlaps(&descriptor.arc);
        if self.views.all().iter().any(|(_, view)| overlaps(view))
            || Self::is_outlived(&descriptor, executors)
            || Self::is_about_to_begin(shard, executors)
        {
            return;
        }
        self.views.insert(shard, view);
        self.effects.push(Effect::Event(EventKind::ReplicaStarted { shard, replica }));
        self.submit(shard, Input::Create(start));
        self.retile(keyspace, executors);
        // The message may be of the past, and the replica's group have gone on without it.
        self.submit_descriptor(shard);
    }

    /// Whether a shard's replica here is about to begin, as the right half of another.
    fn is_about_to_begin(shard: ShardId, executors: &mut dyn Executors) -> bool {
        let mut is_handed_out = false;
        executors.look_at_all(&mut |executor| {
            is_handed_out |= executor.pending_halves().any(|half| half == shard)
        });
        is_handed_out && !executors.of(shard, |executor| executor.has_had(shard))
    }

    /// Whether the shard is known here to have been absorbed, though no record says so (SAFETY G9):
    /// a replica of another, which ended here, had its first place at a higher generation.
    fn is_outlived(descriptor: &Descriptor, executors: &mut dyn Executors) -> bool {
        let mut is_outlived = false;
        executors.look_at_all(&mut |executor| is_outlived |= executor.has_outlived(descriptor));
        is_outlived
    }

    /// Begins the right half of a shard that was split here, unless there is, or has been, a
    /// replica of it; and lets routes lead to both.
    pub(super) fn begin_half(&mut self, start: ReplicaStart, executors: &mut dyn Executors) {
        let (shard, keyspace) = {
            let descriptor = &start.view.read().descriptor;
            (descriptor.shard, descriptor.keyspace())
        };
        let ended = self.placement.decisions.end_split(shard, self.now);
        self.effects.extend(ended.map(Effect::Event));
        let is_dropped = self.table.has_dropped(keyspace) || self.views.has_dropped(keyspace);
        let begins = !is_dropped
            && !self.views.contains(shard)
            && Self::may_begin(shard, start.replica, executors);
        if begins {
            self.views.insert(shard, start.view.clone());
            self.submit(shard, Input::Create(start));
            // The left half's settings may have changed since it was cut.
            if let Some(route) = self.routes.by_id(keyspace) {
                let input = configured(shard, &route.keyspace.options);
                self.submit(shard, input);
            }
            // Its group may have gone on without it meanwhile.
            self.submit_descriptor(shard);
        } else {
            // Nobody is to wait for its beginning.
            self.effects.push(Effect::Confirm(shard));
        }
        self.retile(keyspace, executors);
        self.reroute();
    }

    /// Lets routes lead to nothing where a replica has ended. No other has begun in its place: its
    /// view was here.
    pub(super) fn ended(&mut self, shard: ShardId, executors: &mut dyn Executors) {
        self.views.remove(shard);
        let keyspace = self.routes.of_shard(shard).map(|route| route.keyspace.id);
        if let Some(keyspace) = keyspace {
            self.retile(keyspace, executors);
        }
    }
}
