//! Dispatches frames that other nodes send.
//!
//! ```text
//!   links ──► frames of a turn ──► inputs, by executor ──► executors, one step round each
//! ```
//!
//! A message with its shard's bootstrap goes through control, which may have to create the replica.
//! The head of a snapshot waits for its state (`snapshots`).

use std::sync::Arc;

use bytes::Bytes;
use keyspace::{NodeId, ShardId};
use node::control::FirstMessage;
use node::executor::Input;
use node::rpc::frame_batch::{self, Item};
use parking_lot::Mutex;

use super::events::KIND_EVENTS;
use super::inquiries::KIND_INQUIRY;
use super::peers::{
    self, KIND_LOOKUP, KIND_RPC, KIND_SCRIPT, KIND_SCRIPT_QUESTION, KIND_SNAPSHOT, Peers,
};
use super::pubsub::KIND_PUBSUB;
use super::rpc_counters::RpcCounts;
use super::{ControlInput, NO_ORIGIN, NodeRuntime, lookups};
use crate::cluster::Frames;
use crate::scripts;

/// See the front page of this module.
pub struct PeerFrames {
    runtime: Arc<NodeRuntime>,
    /// Inputs of the links' turn, by executor.
    queued: Mutex<Vec<Vec<Input>>>,
}

impl PeerFrames {
    /// The frames of a node that has peers.
    pub fn new(runtime: Arc<NodeRuntime>) -> Self {
        let queued = runtime.executors.cells().iter().map(|_| Vec::new()).collect();
        Self { runtime, queued: Mutex::new(queued) }
    }

    fn peers(&self) -> &Peers {
        self.runtime.peers.as_ref().expect("a runtime that is attached has peers")
    }

    /// Queues an input for a shard's executor, until all frames of this turn are read.
    fn queue(&self, shard: ShardId, input: Input) {
        self.queued.lock()[self.runtime.executors.number_of(shard)].push(input);
    }

    /// Takes the items of a frame to their executors, up to the first item that cannot be read.
    fn items(&self, from: NodeId, body: &mut Bytes, counts: &mut RpcCounts) {
        loop {
            match frame_batch::take(body) {
                Ok(None) => return,
                Ok(Some(Item::Message { shard, bootstrap, message })) => {
                    counts.message(&message);
                    let Some(bootstrap) = bootstrap else {
                        let message = Box::new(message);
                        self.queue(shard, Input::Message { from, shard, message });
                        continue;
                    };
                    if self.runtime.routing.views().contains(shard) {
                        // No message to a replica that is here waits for other shards' executors.
                        // Its group may have gone on without this replica: the table may know.
                        if let Some(known) = self.peers().lookup.shard(shard) {
                            self.queue(shard, Input::DescriptorLearned { known });
                        }
                        let message = Box::new(message);
                        self.queue(shard, Input::Message { from, shard, message });
                        continue;
                    }
                    // In its order among what has come: the executor may drop it before.
                    self.turn_ended();
                    let first =
                        FirstMessage { from, shard, bootstrap: bootstrap.to_vec(), message };
                    let runtime = &*self.runtime;
                    runtime.control.submit(runtime, ControlInput::FirstMessage(Box::new(first)));
                }
                Ok(Some(Item::Rpc(rpc))) => {
                    counts.rpc(&rpc);
                    self.runtime.request_rates.asked_by_peer(&self.runtime.routing, &rpc);
                    self.queue(rpc.shard(), Input::Rpc { from, rpc });
                }
                Err(why) => {
                    tracing::warn!("cannot read a frame batch of node {:016x}: {why}", from.0);
                    return;
                }
            }
        }
    }
}

impl Frames for PeerFrames {
    fn frame(&self, from: NodeId, kind: u8, mut body: Bytes) {
        match kind {
            KIND_RPC => {
                let mut counts = RpcCounts::default();
                self.items(from, &mut body, &mut counts);
                self.peers().rpc_counters.received.add(&counts);
            }
            KIND_SNAPSHOT => self.peers().snapshots.take_frame(from, body),
            KIND_SCRIPT => scripts::take_frame(&self.runtime, from, &body),
            KIND_PUBSUB => self.runtime.pubsub.take_frame(&self.runtime, from, &body),
            KIND_EVENTS => self.runtime.events.take_frame(&self.runtime, from, &body),
            KIND_INQUIRY => self.runtime.inquiries.take_frame(&self.runtime, from, &body),
            KIND_SCRIPT_QUESTION => {
                scripts::take_question(&self.runtime, self.peers(), from, &body);
            }
            KIND_LOOKUP => lookups::take_frame(&self.runtime, self.peers(), from, &body),
            _ => tracing::warn!("node {:016x} has sent a frame of kind {kind}", from.0),
        }
    }

    fn turn_ended(&self) {
        let mut queued = self.queued.lock();
        // Executors judge by the clock what other nodes' clients read.
        self.runtime.clock.observe();
        let cells = self.runtime.executors.cells().iter().zip(&mut *queued);
        for (cell, inputs) in cells.filter(|(_, inputs)| !inputs.is_empty()) {
            cell.submit(&self.runtime, inputs.drain(..), NO_ORIGIN, &mut Vec::new());
        }
    }

    fn link_up(&self, node: NodeId) {
        self.peers().snapshots.linked(node, true);
        self.runtime.pubsub.linked(&self.runtime, node);
        self.runtime.events.link_changed(&self.runtime, node, true);
        self.runtime.submit_to_all(|| Input::Linked { node });
    }

    fn link_down(&self, node: NodeId) {
        self.peers().snapshots.linked(node, false);
        scripts::link_lost(&self.runtime, node);
        self.runtime.pubsub.unlinked(&self.runtime, node);
        self.runtime.events.link_changed(&self.runtime, node, false);
        scripts::member_lost(&self.runtime, node);
        self.runtime.inquiries.link_lost(node);
        // What came before the link's end comes before the word of that.
        self.turn_ended();
        self.runtime.submit_to_all(|| Input::LinkLost { node });
    }

    fn members_changed(&self) {
        peers::members_changed(&self.runtime, self.peers());
    }
}
