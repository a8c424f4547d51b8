//! Replicas move while everything else breaks.
//!
//! The simulator asks a node that believes to lead a shard to replace replicas by as many on other
//! nodes: one, or all at once. A change that waits for its learners may be cancelled. The system
//! shard stays where it is, and only nodes that know the keyspace get its replicas: without a
//! replica of the system shard, a simulated node here does not learn the catalogue.

use keyspace::ShardId;
use node::executor::Input;

use super::World;
use crate::machine::Machine;

impl World {
    /// Asks some leader to replace replicas of one of its shards.
    pub(super) fn move_replicas(&mut self) {
        let mut led = self.led();
        led.retain(|(_, shard)| *shard != ShardId(0));
        if led.is_empty() {
            return;
        }
        let (at, shard) = *self.rng.pick(&led);
        let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
        let view = machine.view(shard).expect("the shard is on this node");
        let (descriptor, members) = {
            let state = view.read();
            (state.descriptor.clone(), state.members.clone())
        };
        let (mut add, mut remove) = (Vec::new(), Vec::new());
        if members.learners.is_empty() {
            let routes = |machine: &Machine| {
                let mut routes = machine.routes.values();
                routes.any(|route| route.keyspace.id == descriptor.keyspace())
            };
            let knows =
                self.node_slots.iter().filter(|seat| seat.machine.as_ref().is_some_and(routes));
            add.extend(knows.map(|seat| seat.node));
            add.retain(|node| descriptor.replica_on(*node).is_none());
            remove = members.voters;
            let count = self.rng.between(1, remove.len() as u64) as usize;
            let count = count.min(add.len());
            add = self.rng.some(count, add);
            remove = self.rng.some(count, remove);
        } else if self.rng.one_in(2) {
            remove = members.learners;
        }
        if remove.is_empty() {
            return;
        }
        self.trace.event(format_args!("shard {shard}: {add:?} for {remove:?}"));
        self.counts.moves += 1;
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        let generation = descriptor.generation;
        machine.submit(shard, Input::ChangeReplicas { shard, generation, add, remove });
    }
}
