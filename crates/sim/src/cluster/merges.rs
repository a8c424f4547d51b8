//! Neighbours become one shard while everything else breaks.
//!
//! The simulator asks a node that believes to lead a shard to absorb the shard's right neighbour,
//! as that node knows it. One of the two has a key in use, if there is such a pair.

use keyspace::ShardId;
use node::control::Request;
use node::executor::Input;
use node::reshape::merge::{MergeMessage, MergeStatus};
use node::routing::route::Route;
use node::rpc::message::RpcMessage;

use super::{Plant, World};
use crate::machine::Machine;

/// At most so many merges are requested in a run.
const MERGES_MAX: u64 = 16;

impl World {
    /// Asks some leader to absorb its shard's right neighbour.
    pub(super) fn merge(&mut self) {
        let mut pairs = Vec::new();
        let mut led = self.led();
        led.retain(|(_, shard)| !self.is_bucket(*shard));
        for (at, left) in led {
            let machine = self.node_slots[at].machine.as_ref().expect("the node runs");
            if let Some((route, right)) = right_of(machine, left) {
                let is_used = self.names_in(route.keyspace.id).iter().any(|name| {
                    let shard = route.shard(route.place_of_key(name));
                    shard == left || shard == right
                });
                pairs.push((at, left, is_used));
            }
        }
        if pairs.iter().any(|(.., is_used)| *is_used) {
            pairs.retain(|(.., is_used)| *is_used);
        }
        if pairs.is_empty() && self.profile.is_ordered {
            return self.split();
        }
        if pairs.is_empty() || self.counts.merges >= MERGES_MAX {
            return;
        }
        let (at, left, _) = *self.rng.pick(&pairs);
        self.merge_right(at, left);
    }

    /// Planted: a frozen shard is unfrozen without a decision of its neighbour.
    pub(super) fn unfreeze_undecided(&mut self, at: usize) {
        if !self.has(Plant::Thaw) {
            return;
        }
        let Some(machine) = &mut self.node_slots[at].machine else { return };
        let from = machine.node();
        for id in machine.shard_ids() {
            let view = machine.view(id).expect("the shard is on this node");
            let (merging, yours) = {
                let state = view.read();
                (state.merging, state.descriptor.generation)
            };
            if let MergeStatus::Frozen { by, .. } = merging {
                let word = MergeMessage::Unfreeze { left: by, yours };
                let rpc = RpcMessage::Merge { shard: id, word };
                machine.submit(id, Input::Rpc { from, rpc });
            }
        }
    }

    /// The shard behind one, as a node knows it.
    pub(crate) fn right_of(&self, at: usize, left: ShardId) -> Option<ShardId> {
        Some(right_of(self.node_slots[at].machine.as_ref()?, left)?.1)
    }

    /// Asks a node that leads a shard to merge it with its right neighbour.
    pub(crate) fn merge_right(&mut self, at: usize, left: ShardId) {
        self.counts.merges += 1;
        self.trace.event(format_args!("shard {left} is to merge with its neighbour"));
        let machine = self.node_slots[at].machine.as_mut().expect("the node runs");
        machine.request(0, Request::Merge { left });
    }
}

/// The route of a shard's keyspace, and the shard behind it, as a node knows.
fn right_of(machine: &Machine, left: ShardId) -> Option<(&Route, ShardId)> {
    let route = machine.routes.values().find(|route| route.place_of(left).is_some())?;
    let right = *route.shards().get(route.place_of(left)? + 1)?;
    let here = machine.view(right).map(|view| view.read().descriptor.clone());
    let known = machine.table().shard(right).map(|known| known.descriptor().clone());
    let theirs = here.into_iter().chain(known).max_by_key(|found| found.generation)?;
    // Routes may name one that it has taken in by now.
    let ours = machine.view(left)?;
    let is_next = ours.read().descriptor.arc.end() == theirs.arc.start();
    is_next.then_some((route, right))
}
